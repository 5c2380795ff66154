//! Clients that cannot be built say why.

use std::sync::Arc;

use robinhood_cache::{Store, StoreConfig};
use robinhood_client::{BuildError, Client, ClientBuilder};
use robinhood_stats::{BackendName, Bytes, Nanos};

fn name(text: &str) -> BackendName {
    text.parse().unwrap()
}

fn builder(names: &[&str], partitions: usize) -> ClientBuilder {
    let store = Store::new(&StoreConfig::new(Bytes::from_mib(1), partitions)).unwrap();
    Client::builder(Arc::new(store), names.iter().map(|text| name(text)))
}

#[test]
fn backends_must_be_distinct_and_fit_the_store() {
    let twice = builder(&["a", "b", "a"], 3).build().unwrap_err();
    assert_eq!(twice, BuildError::DuplicateBackend { name: name("a") });
    let narrow = builder(&["a", "b"], 1).build().unwrap_err();
    assert_eq!(narrow, BuildError::TooFewPartitions { backends: 2, partitions: 1 });
    let many: Vec<String> = (0..1_025).map(|number| format!("b{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let many = builder(&many, 1_024).build().unwrap_err();
    assert_eq!(many, BuildError::TooManyBackends { given: 1_025 });
}

#[test]
fn timeouts_must_be_positive_and_of_known_backends() {
    let zero = builder(&["a"], 1).timeout(Nanos::ZERO).build().unwrap_err();
    assert_eq!(zero, BuildError::ZeroTimeout);
    let unknown = builder(&["a"], 1).backend_timeout(name("b"), Nanos(1)).build().unwrap_err();
    assert_eq!(unknown, BuildError::UnknownBackend { name: name("b") });
}

#[test]
fn ids_and_partitions_are_in_the_order_of_the_names() {
    let client = builder(&["zebra", "ant"], 2).build().unwrap();
    let names: Vec<_> = client.names().map(BackendName::as_str).collect();
    assert_eq!(names, ["zebra", "ant"]);
    assert_eq!(client.backend("ant").map(|id| id.0), Some(1));
    assert_eq!(client.backend("bee"), None);
    assert_eq!(client.store().unwrap().partitions(), 2);
}

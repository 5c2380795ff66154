//! From a [`Workload`] to the text of a workload file, laid out for people.
//!
//! Numbers are written with as many digits as it takes to read the same bits again; quantities in the largest unit in which they are whole.

use std::fmt::Write;

use robinhood_stats::{BackendName, Nanos};

use crate::capacity::Capacity;
use crate::popularity::Popularity;
use crate::sizes::SizeSpec;
use crate::spec::{BackendKind, BackendSpec, RequestType, Workload};

/// The text of a file that [`super::read`] reads as an equal workload, if the workload can run. Popularity and sizes that came from other files are written out.
pub fn write(workload: &Workload) -> String {
    let mut text = String::from(
        "# A workload for RobinHood. docs/workload-files.md says what the keys mean.\n\n",
    );
    let name = toml::Value::String(workload.name.clone());
    line(&mut text, "name", &name.to_string());
    line(&mut text, "servers", &workload.servers.to_string());
    line(&mut text, "rate_per_server", &format!("\"{}\"", workload.rate_per_server));
    line(&mut text, "cache_per_server", &bytes(workload.cache_per_server.0));
    line(&mut text, "overhead", &time(workload.overhead));
    line(&mut text, "batch_queries_max", &workload.batch_queries_max.to_string());
    line(&mut text, "prefill_requests", &workload.prefill_requests.to_string());
    line(&mut text, "warmup", &time(workload.length.warmup));
    line(&mut text, "measured", &time(workload.length.measured));
    for (spec, capacity) in workload.backends.iter().zip(&workload.capacities) {
        backend(&mut text, spec, capacity);
    }
    let names: Vec<&BackendName> = workload.names().collect();
    for request_type in &workload.request_types {
        type_of_request(&mut text, request_type, &names);
    }
    text
}

fn line(text: &mut String, key: &str, value: &str) {
    writeln!(text, "{key} = {value}").expect("a string takes what is written");
}

fn backend(text: &mut String, spec: &BackendSpec, capacity: &Capacity) {
    let kind = match spec.kind {
        BackendKind::Lookup => "lookup",
        BackendKind::Join => "join",
        BackendKind::Compute => "compute",
    };
    text.push_str("\n[[backends]]\n");
    line(text, "name", &format!("\"{}\"", spec.name));
    line(text, "kind", &format!("\"{kind}\""));
    line(text, "catalogue", &spec.catalogue.to_string());
    line(text, "popularity", &popularity(&spec.popularity));
    line(text, "sizes", &sizes(&spec.sizes));
    line(text, "service", &time(spec.service));
    line(text, "per_key", &number(spec.per_key));
    line(text, "sigma", &number(spec.sigma));
    line(text, "servers", &spec.servers.to_string());
    line(text, "speed", &number(spec.speed));
    if let Some(target) = spec.utilisation_target {
        line(text, "utilisation_target", &number(target));
    }
    line(text, "timeout", &time(spec.timeout));
    line(text, "cacheable_share", &number(spec.cacheable_share));
    match capacity {
        Capacity::Path(path) if path.points().is_empty() => {}
        Capacity::Path(path) => {
            let point = |&(at, capacity): &(robinhood_stats::Instant, f64)| {
                format!("[{}, {}]", time(Nanos(at.0)), number(capacity))
            };
            line(text, "capacity", &format!("{{ path = {} }}", list(path.points(), point)));
        }
        &Capacity::RandomWalk { lowest, every, steps } => {
            let (lowest, every) = (number(lowest), time(every));
            let walk = format!("lowest = {lowest}, every = {every}, steps = {steps}");
            line(text, "capacity", &format!("{{ random_walk = {{ {walk} }} }}"));
        }
    }
}

fn type_of_request(text: &mut String, request_type: &RequestType, names: &[&BackendName]) {
    let batches = request_type.batches.iter().map(|batch| {
        let name = names[batch.backend.index()].as_str();
        let quotes = if name.contains('.') { "\"" } else { "" }; // a dot would begin another key
        format!("{quotes}{name}{quotes} = {}", number(batch.queries_mean))
    });
    let batches = batches.collect::<Vec<_>>().join(", ");
    text.push_str("\n[[request_types]]\n");
    line(text, "weight", &number(request_type.weight));
    line(text, "batches", &format!("{{ {batches} }}"));
}

fn popularity(popularity: &Popularity) -> String {
    match popularity {
        Popularity::Zipf { exponent } => format!("{{ zipf = {} }}", number(*exponent)),
        Popularity::Buckets(buckets) => {
            let pairs = list(buckets.buckets(), |bucket| {
                format!("[{}, {}]", number(bucket.keys), number(bucket.accesses))
            });
            format!("{{ buckets = {pairs} }}")
        }
    }
}

fn sizes(sizes: &SizeSpec) -> String {
    match sizes {
        SizeSpec::LogNormal { mu, sigma, bytes_min, bytes_max } => {
            let (mu, sigma) = (number(*mu), number(*sigma));
            let (least, most) = (bytes((*bytes_min).into()), bytes((*bytes_max).into()));
            format!(
                "{{ log_normal = {{ mu = {mu}, sigma = {sigma}, bytes_min = {least}, bytes_max = {most} }} }}"
            )
        }
        SizeSpec::Fixed(size) => format!("{{ fixed = {} }}", bytes((*size).into())),
        SizeSpec::Discrete(sizes) => {
            let pairs = list(sizes.sizes(), |size| {
                format!("[{}, {}]", bytes(size.bytes.into()), number(size.weight))
            });
            format!("{{ list = {pairs} }}")
        }
    }
}

fn list<T>(items: &[T], item: impl Fn(&T) -> String) -> String {
    format!("[{}]", items.iter().map(item).collect::<Vec<_>>().join(", "))
}

/// The shortest number that is read as the same bits, always recognisable as one with a fraction.
fn number(value: f64) -> String {
    format!("{value:?}")
}

fn time(time: Nanos) -> String {
    format!("\"{}\"", exact_time(time))
}

/// A time in the largest unit in which it is whole.
pub(crate) fn exact_time(time: Nanos) -> String {
    const UNITS: [(&str, u64); 5] = [
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
    ];
    quantity(time.0, &UNITS, "ns", "0s")
}

fn bytes(bytes: u64) -> String {
    format!("\"{}\"", exact_bytes(bytes))
}

/// A number of bytes in the largest unit in which it is whole.
pub(crate) fn exact_bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 7] = [
        ("TB", 1_000_000_000_000),
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("KB", 1_000),
    ];
    quantity(bytes, &UNITS, "B", "0B")
}

/// The number in the first unit of which it is a whole multiple.
fn quantity(value: u64, units: &[(&str, u64)], smallest: &str, zero: &str) -> String {
    if value == 0 {
        return zero.to_owned();
    }
    match units.iter().find(|(_, factor)| value.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", value / factor),
        None => format!("{value}{smallest}"),
    }
}

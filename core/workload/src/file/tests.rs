//! Workload files: read, written, edited, and refused with the line of the mistake.

use proptest::prelude::*;
use robinhood_stats::{BackendId, Bytes, Nanos, Rate};

use super::{ServerChange, read, with_servers, write};
use crate::presets::{self, Scale};
use crate::{BackendKind, Capacity, Popularity, SizeSpec, Workload};

/// A short file that uses every form of every key. The line of each key matters to the tests below.
const GOOD: &str = r#"name = "shop"
servers = 2
rate_per_server = "100/s"
cache_per_server = "64MiB"
measured = "10m"

[[backends]]
name = "prices"
catalogue = 50000
popularity = { zipf = 0.9 }
sizes = { log_normal = { median = "1KB", sigma = 0.5, bytes_min = "64B", bytes_max = "16KiB" } }
service = "8ms"
servers = 3 # found by hand
capacity = { path = [["1m", 1.0], ["2m", 0.5]] }

[[backends]]
name = "pictures.large"
kind = "compute"
catalogue = 1000
popularity = { cachelib = "pop.json" }
sizes = { cachelib = "sizes.json" }
service = "20ms"
servers = 4
cacheable_share = 0.25
capacity = { random_walk = { lowest = 0.5, every = "20s", steps = 4 } }

[[request_types]]
weight = 3
batches = { prices = 2, "pictures.large" = 1.5 }
"#;

fn resolve(path: &str) -> Result<String, String> {
    match path {
        "pop.json" => {
            Ok(r#"{"popularityBuckets": [1, 9], "popularityWeights": [5, 5]}"#.to_owned())
        }
        "sizes.json" => {
            Ok(r#"{"valSizeRange": [100, 900], "valSizeRangeProbability": [3, 1]}"#.to_owned())
        }
        _ => Err("No such file".to_owned()),
    }
}

fn read_good(text: &str) -> Workload {
    read(text, "shop.toml", &mut resolve).unwrap()
}

fn refused(text: &str) -> String {
    read(text, "shop.toml", &mut resolve).unwrap_err().to_string()
}

#[test]
fn a_file_becomes_the_workload_that_it_describes() {
    let workload = read_good(GOOD);
    assert_eq!((workload.name.as_str(), workload.servers), ("shop", 2));
    assert_eq!(workload.rate(), Rate(200.0));
    assert_eq!(workload.cache_per_server, Bytes::from_mib(64));
    assert_eq!((workload.overhead, workload.batch_queries_max), (Nanos::ZERO, 300));
    let [prices, pictures] = &workload.backends[..] else { panic!("two backends") };
    assert_eq!((prices.kind, pictures.kind), (BackendKind::Lookup, BackendKind::Compute));
    assert_eq!(prices.service, Nanos::from_millis(8));
    assert_eq!((prices.speed, prices.timeout), (1.0, Nanos::from_secs(10)));
    let SizeSpec::LogNormal { mu, bytes_max, .. } = prices.sizes else { panic!("log-normal") };
    assert!((libm::exp(mu) - 1_000.0).abs() < 1e-9 && bytes_max == 16_384);
    assert!((pictures.sizes.mean_bytes() - 300.0).abs() < 1e-9);
    let Popularity::Buckets(buckets) = &pictures.popularity else { panic!("buckets") };
    assert_eq!(buckets.keys(), 10.0);
    assert_eq!(workload.request_types[0].batches[1].backend, BackendId(1));
    let Capacity::Path(path) = &workload.capacities[0] else { panic!("a path") };
    assert!((path.at(robinhood_stats::Instant(90_000_000_000)) - 0.75).abs() < 1e-12);
}

#[test]
fn what_is_written_is_read_as_the_same_workload() {
    let scales = ["1/8", "1", "1/3"].map(|scale| scale.parse::<Scale>().unwrap());
    let presets = presets::NAMES
        .iter()
        .flat_map(|name| scales.iter().map(move |&scale| presets::by_name(name, scale).unwrap()));
    for workload in presets.chain([read_good(GOOD)]) {
        let text = write(&workload);
        let again = read(&text, "x", &mut |_| panic!("a written file names no other")).unwrap();
        assert_eq!(again, workload, "{text}");
        assert_eq!(write(&again), text);
    }
}

/// What stands in the good file, what is put there instead, and words of the error.
const MISTAKES: &[(&str, &str, &str)] = &[
    // A key or word that does not exist, and the nearest that does.
    (
        "rate_per_server",
        "rate_per_sever",
        "line 3: `rate_per_sever`: there is no `rate_per_sever`: did you mean `rate_per_server`?",
    ),
    (
        "sizes = { log",
        "size = { log",
        "line 11: `backends[0].size`: there is no `size`: did you mean `sizes`?",
    ),
    (
        "zipf = 0.9",
        "zpif = 0.9",
        "line 10: `backends[0].popularity.zpif`: there is no `zpif`: did you mean `zipf`?",
    ),
    (
        "\"compute\"",
        "\"matrix\"",
        "line 18: `backends[1].kind`: there is no `matrix`: allowed are lookup, join, compute",
    ),
    (
        "{ prices = 2",
        "{ price = 2",
        "line 29: `request_types[0].batches.price`: there is no `price`: did you mean `prices`?",
    ),
    (
        "steps = 4",
        "stops = 4",
        "line 25: `backends[1].capacity.random_walk.stops`: there is no `stops`: did you mean `steps`?",
    ),
    // A value of the wrong kind.
    (
        "\"8ms\"",
        "8",
        "line 12: `backends[0].service`: invalid type: integer `8`, expected a number with its unit in quotes",
    ),
    (
        "\"8ms\"",
        "\"8\"",
        "line 12: `backends[0].service`: `8` has no unit: write ns, us, ms, s, m or h",
    ),
    ("\"100/s\"", "\"100 rps\"", "line 3: `rate_per_server`: `100 rps` has the unknown unit `rps`"),
    (
        "50000",
        "-1",
        "line 9: `backends[0].catalogue`: invalid value: integer `-1`, expected a whole number from 0 to 4294967295",
    ),
    ("50000", "5.5", "expected a whole number from 0 to 4294967295"),
    (
        "zipf = 0.9",
        "zipf = \"much\"",
        "line 10: `backends[0].popularity.zipf`: invalid type: string \"much\", expected a number",
    ),
    ("[\"1m\", 1.0]", "[\"1m\"]", "line 14: `backends[0].capacity.path[0]`"),
    (
        "name = \"prices\"",
        "name = \"Prices\"",
        "line 8: `backends[0].name`: `Prices` cannot name a backend",
    ),
    ("name = \"shop\"", "name = \"a\\nb\"", "line 1: `name`: a name is one line"),
    // Values that are impossible, alone or together.
    (
        "zipf = 0.9",
        "zipf = -0.9",
        "line 10: workload `shop`: `popularity.zipf` of backend `prices` is -0.9, allowed is a number from 0 to 100",
    ),
    (
        "servers = 4",
        "servers = 0",
        "line 23: workload `shop`: `servers` of backend `pictures.large` is 0, allowed is a number from 1 to 65,536",
    ),
    (
        "sigma = 0.5",
        "sigma = -1",
        "line 11: workload `shop`: `sizes.sigma` of backend `prices` is -1",
    ),
    (
        "lowest = 0.5",
        "lowest = 0",
        "line 25: workload `shop`: `capacity.lowest` of backend `pictures.large` is 0",
    ),
    ("weight = 3", "weight = 0", "line 28: workload `shop`: `weight` of request type 0 is 0"),
    ("prices = 2", "prices = 0.5", "line 29: workload `shop`: `batches` of request type 0 is 0.5"),
    ("servers = 2", "servers = 0", "line 2: workload `shop`: `servers` of the workload is 0"),
    ("zipf = 0.9", "zipf = nan", "`popularity.zipf` of backend `prices` is NaN"),
    (
        "[\"2m\", 0.5]",
        "[\"2m\", -0.5]",
        "line 14: `backends[0].capacity`: the capacity at 120 s is a number above 0",
    ),
    (
        "[\"2m\", 0.5]",
        "[\"0s\", 0.5]",
        "line 14: `backends[0].capacity`: the times of a capacity path go forward",
    ),
    (
        "pictures.large\"\n",
        "prices\"\n",
        "line 17: `backends[1].name`: backends 0 and 1 are both called `prices`",
    ),
    (
        "median = \"1KB\"",
        "median = \"1KB\", mu = 7",
        "line 11: `backends[0].sizes`: say either `median`",
    ),
    ("bytes_max = \"16KiB\"", "bytes_max = \"5GB\"", "5000000000 bytes are too many for an object"),
    // Files that it names.
    (
        "\"pop.json\"",
        "\"pip.json\"",
        "line 20: `backends[1].popularity`: cannot read `pip.json`: No such file",
    ),
    (
        "\"pop.json\"",
        "\"sizes.json\"",
        "line 20: `backends[1].popularity`: `sizes.json`: missing field `popularityBuckets`",
    ),
    (
        "{ zipf = 0.9 }",
        "{ buckets = [] }",
        "line 10: `backends[0].popularity`: 0 buckets: allowed are 1 to",
    ),
    ("{ zipf = 0.9 }", "{ buckets = [[1, -1]] }", "bucket 0 has -1 accesses"),
    (
        "{ cachelib = \"sizes.json\" }",
        "{ list = [[\"1KB\", -1]] }",
        "line 21: `backends[1].sizes`: the weight of size 0 is -1",
    ),
    // Text that is no TOML, and what is missing.
    ("servers = 2", "servers = ", "line 2:"),
    ("servers = 2", "servers = 2\nservers = 2", "line 3: duplicate key"),
    ("service = \"8ms\"\n", "", "missing field `service`"),
];

#[test]
fn mistakes_are_named_with_file_line_key_and_what_is_allowed() {
    for (good, bad, words) in MISTAKES {
        assert!(GOOD.contains(good), "{good:?} is not in the file");
        let message = refused(&GOOD.replacen(good, bad, 1));
        assert!(message.starts_with("shop.toml, line "), "{message}");
        assert!(message.contains(words), "{words:?} is not in {message:?}");
        assert!(!message.contains('\n') && message.len() < 400, "{message}");
    }
    assert!(refused("").contains("line 1: missing field `name`"), "{}", refused(""));
    assert!(
        refused(&GOOD.replace("[[backends]]", "[[backend]]")).contains("did you mean `backends`")
    );
}

#[test]
fn a_file_that_several_backends_name_is_asked_for_once() {
    let second = GOOD.replace("{ zipf = 0.9 }", "{ cachelib = \"pop.json\" }");
    let mut asked = Vec::new();
    let workload = read(&second, "shop.toml", &mut |path| {
        asked.push(path.to_owned());
        resolve(path)
    });
    assert_eq!(workload.unwrap().backends[0].popularity, read_good(GOOD).backends[1].popularity);
    assert_eq!(asked, ["pop.json", "sizes.json"]);
}

#[test]
fn new_servers_go_into_the_text_and_everything_else_stays() {
    let change = |backend, servers, speed| ServerChange { backend, servers, speed };
    let edited =
        with_servers(GOOD, "shop.toml", &[change(0, 5, 0.875), change(1, 2, 1.0)]).unwrap();
    assert!(edited.contains("servers = 5 # found by hand"), "{edited}");
    let mut expected = read_good(GOOD);
    (expected.backends[0].servers, expected.backends[0].speed) = (5, 0.875);
    expected.backends[1].servers = 2;
    assert_eq!(read_good(&edited), expected);
    let without = |text: &str| -> Vec<String> {
        let other = |line: &&str| !line.starts_with("servers") && !line.starts_with("speed");
        text.lines().filter(other).map(str::to_owned).collect()
    };
    assert_eq!(without(&edited), without(GOOD));
    let inline = "backends = [{ name = \"a\", servers = 1 }]\n";
    let edited = with_servers(inline, "x", &[change(0, 7, 0.5)]).unwrap();
    assert!(edited.contains("servers = 7") && edited.contains("speed = 0.5"), "{edited}");
    let message = with_servers(GOOD, "shop.toml", &[change(2, 1, 1.0)]).unwrap_err().to_string();
    assert!(message.contains("no backend at place 2"), "{message}");
}

#[test]
fn a_text_of_absurd_length_or_depth_is_refused() {
    let message = refused(&"#".repeat(super::TEXT_BYTES_MAX + 1));
    assert!(message.contains("longer than"), "{message}");
    let message = refused(&format!("name = {}", "[".repeat(100_000)));
    assert!(message.starts_with("shop.toml, line 1"), "{message}");
}

/// Where to change a text, and what to.
fn mutations() -> impl Strategy<Value = Vec<(prop::sample::Index, String)>> {
    let pieces = [
        "", "\"", "[", "]", "{", "}", "=", "\n", ".", "-", "0", "1e308", "nan", "inf", "a", "é",
        "#",
    ];
    let pieces = prop::sample::select(pieces.to_vec()).prop_map(str::to_owned);
    prop::collection::vec((any::<prop::sample::Index>(), pieces), 1..6)
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        if let Err(error) = read(&text, "x", &mut resolve) {
            prop_assert!(error.to_string().starts_with("x, line "));
        }
    }

    #[test]
    fn no_change_of_a_good_file_makes_the_reader_panic(changes in mutations()) {
        let mut letters: Vec<char> = GOOD.chars().collect();
        for (place, piece) in changes {
            let place = place.index(letters.len());
            let end = (place + piece.len().max(1)).min(letters.len());
            letters.splice(place..end, piece.chars());
        }
        let text: String = letters.into_iter().collect();
        match read(&text, "x", &mut resolve) {
            Ok(workload) => {
                let again = read(&write(&workload), "x", &mut resolve);
                prop_assert_eq!(again.unwrap(), workload);
            }
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.starts_with("x, line ") && !message.contains('\n'), "{}", message);
            }
        }
        let _ = with_servers(&text, "x", &[ServerChange { backend: 1, servers: 1, speed: 1.0 }]);
    }

    #[test]
    fn numbers_and_quantities_of_any_size_come_back_as_they_were(
        numbers in prop::array::uniform4(1e-5..1e5_f64),
        times_ns in prop::array::uniform3(1..3_000_000_000_000_u64),
        cache in 1..1_000_000_000_000_000_u64,
        sizes in prop::collection::vec((any::<u32>(), 0.0..1e15_f64), 1..20),
    ) {
        let mut workload = read_good(GOOD);
        let backend = &mut workload.backends[0];
        (backend.per_key, backend.speed) = (numbers[0], numbers[1]);
        (backend.service, backend.timeout) = (Nanos(times_ns[0]), Nanos(times_ns[1]));
        let weighted = |(bytes, weight)| crate::WeightedSize { bytes, weight: weight + 1e-9 };
        let list = crate::DiscreteSizes::new(sizes.into_iter().map(weighted).collect());
        backend.sizes = SizeSpec::Discrete(list.unwrap().into());
        workload.length.warmup = Nanos(times_ns[2]);
        workload.cache_per_server = Bytes(cache);
        workload.rate_per_server = Rate(numbers[2]);
        workload.request_types[0].weight = numbers[3];
        let text = write(&workload);
        prop_assert_eq!(read(&text, "x", &mut resolve).unwrap(), workload);
    }
}

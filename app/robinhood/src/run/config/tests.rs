//! The reference file, and mistakes with their place.

use super::*;

const LEAST: &str = "[cache]\npartitions = [\"a\"]\n";

#[test]
fn the_reference_shows_the_defaults() {
    let reference = include_str!("../../../../../configs/reference.toml");
    let read = RunConfig::read(reference).unwrap();
    let mut least = RunConfig::read(LEAST).unwrap();
    let partitions = read.cache.clone().unwrap().partitions;
    least.cache.as_mut().unwrap().partitions = partitions;
    assert_eq!(read, least);
}

#[test]
fn the_reference_names_every_key() {
    let reference = include_str!("../../../../../configs/reference.toml");
    // What has no default stands there as a comment.
    let all: String = reference
        .lines()
        .map(|line| line.strip_prefix("#= ").unwrap_or(line).to_owned() + "\n")
        .collect();
    let mut table: toml::Table = toml::from_str(&all).unwrap();
    let keys: usize = table.values().map(|section| section.as_table().unwrap().len()).sum();
    assert_eq!(keys, 11 + 4 + 4 + 3 + 6 + 5 + 2, "fields of the seven sections");
    let error = RunConfig::read(&all).unwrap_err().to_string();
    assert!(error.contains("as well"), "{error}");
    let [cache, beside] = ["cache", "beside"].map(|name| table.remove(name).unwrap());
    for (name, section) in [("cache", cache), ("beside", beside)] {
        let mut one = table.clone();
        one.insert(name.to_owned(), section);
        RunConfig::read(&toml::to_string(&one).unwrap()).unwrap();
    }
}

/// A file, the line of its mistake (0: of the whole), and what has to be said about it.
type Bad = (&'static str, usize, &'static str);

const IN_CACHE: &[Bad] = &[
    ("[chache]\npartitions = [\"a\"]\n", 1, "did you mean `cache`?"),
    ("[cache]\npartitions = [\"a\"]\nbudgets = \"1GiB\"\n", 3, "did you mean `budget`?"),
    ("[cache]\npartitions = [\"a\"]\nbudget = \"1\"\n", 3, "has no unit: write"),
    ("[cache]\npartitions = [\"a\"]\nbudget = \"1Gb\"\n", 3, "unknown unit `Gb`: write"),
    ("[cache]\npartitions = [\"a\"]\nbudget = \"2MiB\"\n", 3, "write at least"),
    ("[cache]\nbudget = \"1GiB\"\n", 1, "missing field `partitions`"),
    ("[cache]\npartitions = []\n", 2, "name at least one"),
    ("[cache]\npartitions = [\"a\", \"a\"]\n", 2, "`a` is there twice"),
    ("[cache]\npartitions = [\"other\"]\n", 2, "all other keys"),
    ("[cache]\npartitions = [\"A b\"]\n", 2, "a-z"),
    ("[cache]\npartitions = \"a\"\n", 2, "expected a sequence"),
    ("[cache]\npartitions = [\"a\"]\nseparator = \"::\"\n", 3, "character"),
    ("[cache]\npartitions = [\"a\"]\nseparator = \"-\"\n", 3, "cannot end the name"),
    ("[cache]\npartitions = [\"a\"]\nseparator = \"\u{2026}\"\n", 3, "no ASCII character"),
    ("[cache]\npartitions = [\"a\"]\ndispatch = \"share\"\n", 3, "did you mean `shared`?"),
    ("[cache]\npartitions = [\"a\"]\neviction = \"LRU\"\n", 3, "did you mean `lru`?"),
    ("[cache]\npartitions = [\"a\"]\nlisten = [\"localhost\"]\n", 3, "socket address"),
    ("[cache]\npartitions = [\"a\"]\nlisten = []\n", 3, "needs an address"),
    ("[cache]\npartitions = [\"a\"]\nthreads = 0\n", 3, "outside 1 to"),
    ("[cache]\npartitions = [\"a\"]\nconnections_max = 0\n", 3, "outside 1 to"),
    ("[cache]\npartitions = [\"a\"]\nbudget = \"1GiB\"\nbudget = \"2GiB\"\n", 4, "duplicate key"),
    ("[cache]\npartitions = [\"a\"]\nbudget = \"1GiB\n", 3, "invalid basic string"),
];

const IN_THE_REST: &[Bad] = &[
    ("", 0, "missing section: `[cache]`"),
    ("[cache]\npartitions = [\"a\"]\n[controller]\nmode = \"on\"\n", 4, "neither `active` nor"),
    (
        "[cache]\npartitions = [\"a\"]\n[controller]\nmode = \"advice\"\n",
        4,
        "did you mean `advise`?",
    ),
    ("[cache]\npartitions = [\"a\"]\n[controller]\nperiod = \"1ms\"\n", 4, "outside 50"),
    ("[cache]\npartitions = [\"a\"]\n[controller]\nperiod = 5\n", 4, "expected a"),
    (
        "[cache]\npartitions = [\"a\"]\n[controller]\npolicy = \"shared\"\n",
        4,
        "take `robinhood`, `fair`",
    ),
    (
        "[cache]\npartitions = [\"a\"]\n[controller]\npolicy = \"robinhod\"\n",
        4,
        "did you mean `robinhood`?",
    ),
    ("[cache]\npartitions = [\"a\"]\n[controller]\nobjective = \"0ms\"\n", 4, "write one above 0"),
    ("[cache]\npartitions = [\"a\"]\n[http]\nlisten = \"0.0.0.0:1\"\n", 4, "not a loopback"),
    (
        "[cache]\npartitions = [\"a\"]\n[http]\nlisten = \"127.0.0.1:11211\"\n",
        4,
        "taken by cache.listen",
    ),
    ("[cache]\npartitions = [\"a\"]\n[http]\npage_port = 70000\n", 4, "u16"),
    ("[cache]\npartitions = [\"a\"]\n[http]\npage = \"yes\"\n", 4, "expected a boolean"),
    (
        "[cache]\npartitions = [\"a\"]\n[beside]\nkind = \"redis\"\n[beside.caches]\na = \"h:1\"\n",
        3,
        "as well",
    ),
    (
        "[beside]\nkind = \"memcache\"\n[beside.caches]\na = \"h:1\"\n",
        2,
        "did you mean `memcached`?",
    ),
    ("[beside]\nkind = \"memcached\"\n[beside.caches]\na = \"h\"\n", 4, "HOST:PORT"),
    ("[beside]\nkind = \"memcached\"\n[beside.caches]\n", 3, "at least one backend"),
    ("[beside]\nkind = \"server\"\n[beside.caches]\na = \"h:1\"\nb = \"h:2\"\n", 3, "same address"),
    (
        "[beside]\nkind = \"redis\"\nuser = \"u\"\n[beside.caches]\na = \"h:1\"\n",
        3,
        "`password_file`",
    ),
    (
        "[beside]\nkind = \"server\"\npassword_file = \"/p\"\n[beside.caches]\na = \"h:1\"\n",
        3,
        "leave it out",
    ),
    (
        "[beside]\nkind = \"redis\"\n[beside.caches]\na = \"h:1\"\n[controller]\nperiod = \"500ms\"\n",
        6,
        "outside 1.00 s",
    ),
    ("[aggregator]\nlisten = \"0.0.0.0:7073\"\n", 2, "name a `token_file`"),
    ("[aggregator]\nservices_max = 0\n", 2, "outside 1 to"),
    (
        "[aggregator]\n[reports]\nsend_to = [\"127.0.0.1:1\"]\npoll = [\"127.0.0.1:2\"]\n",
        2,
        "no cache to go with it",
    ),
    (
        "[cache]\npartitions = [\"a\"]\n[reports]\nsend_to = []\npoll = [\"127.0.0.1:2\"]\n",
        4,
        "name 1 to 8",
    ),
    (
        "[cache]\npartitions = [\"a\"]\n[reports]\nsend_to = [\"10.0.0.1:1\"]\npoll = [\"127.0.0.1:2\"]\n",
        4,
        "`token_file`",
    ),
];

#[test]
fn every_mistake_is_said_with_its_line_and_what_to_write() {
    assert!(IN_CACHE.len() + IN_THE_REST.len() >= 30);
    let other = |&&(text, line, reason): &&Bad| {
        let said = RunConfig::read(text).unwrap_err().to_string();
        let place = format!("line {line}: ");
        !said.contains(reason) || said.starts_with(&place) != (line > 0)
    };
    let said = |&(text, ..): &Bad| (text, RunConfig::read(text).unwrap_err().to_string());
    let all = IN_CACHE.iter().chain(IN_THE_REST);
    assert_eq!(all.filter(other).map(said).collect::<Vec<_>>(), []);
}

#[test]
fn all_that_single_values_allow_is_said_at_once() {
    let text = "[cache]\npartitions = [\"a\", \"a\"]\n[controller]\nperiod = \"1h\"\n[http]\nlisten = \"0.0.0.0:1\"\n";
    let said = RunConfig::read(text).unwrap_err().to_string();
    for part in ["line 2: cache.partitions", "line 4: controller.period", "line 6: http.listen"] {
        assert!(said.contains(part), "{said}");
    }
}

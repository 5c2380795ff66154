//! The example that users start from works, and the page about workload files is complete.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use robinhood_workload::file::{read, write};
use robinhood_workload::presets::{self, Scale};
use robinhood_workload::{Generator, Request, Workload};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn examples() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(repository().join("examples/workloads")).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect()
}

fn load(path: &Path) -> Workload {
    let text = std::fs::read_to_string(path).unwrap();
    let folder = path.parent().unwrap();
    let mut resolver = |named: &str| {
        std::fs::read_to_string(folder.join(named)).map_err(|error| error.to_string())
    };
    read(&text, &path.display().to_string(), &mut resolver).unwrap()
}

#[test]
fn examples_are_read_and_give_requests_and_survive_being_written() {
    assert!(!examples().is_empty());
    for path in examples() {
        let workload = load(&path);
        let mut stream = Generator::new(&workload, 1).unwrap();
        let (mut request, mut queries) = (Request::new(), 0);
        for _ in 0..1_000 {
            stream.generate(&mut request);
            queries += request.queries();
        }
        assert!(queries >= 1_000, "{queries}");
        let again = read(&write(&workload), "x", &mut |_| panic!("everything is written out"));
        assert_eq!(again.unwrap(), workload);
    }
}

/// All words before an equals sign that is not inside quotes.
fn keys(text: &str, keys: &mut BTreeSet<String>) {
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let unquoted: String = line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
        let code = unquoted.split('#').next().unwrap_or_default();
        for before in code.split('=').rev().skip(1) {
            let key = before.trim_end().rsplit([' ', '{', ',']).next().unwrap_or_default();
            keys.insert(key.to_owned());
        }
    }
}

#[test]
fn the_page_about_workload_files_describes_every_key() {
    let page = std::fs::read_to_string(repository().join("docs/workload-files.md")).unwrap();
    let mut found = BTreeSet::new();
    for name in presets::NAMES {
        let workload = presets::by_name(name, Scale::EIGHTH).unwrap();
        let backends: Vec<String> = workload.names().map(ToString::to_string).collect();
        keys(&write(&workload), &mut found);
        found.retain(|key| !backends.contains(key));
    }
    for path in examples() {
        let backends: Vec<String> = load(&path).names().map(ToString::to_string).collect();
        keys(&std::fs::read_to_string(path).unwrap(), &mut found);
        found.retain(|key| !backends.contains(key));
    }
    assert!(found.len() > 30, "{found:?}");
    for key in found.iter().map(String::as_str).chain(["buckets", "list", "median"]) {
        assert!(page.contains(&format!("`{key}`")), "`{key}` is not in docs/workload-files.md");
    }
}

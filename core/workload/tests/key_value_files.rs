//! The page about key-value workload files is complete, and its example works.

use std::path::Path;

use robinhood_workload::keyvalue::{
    KeyValueStream, KeyValues, NAMES, SizeLimits, by_name, read, write_toml,
};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/key-value-files.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_example_of_the_page_is_read_and_gives_operations() {
    let page = page();
    let example = page.split("```").nth(1).unwrap().strip_prefix("toml\n").unwrap();
    let spec = read(example, "page", &SizeLimits::NONE, &mut |_| panic!("names no file")).unwrap();
    let data = KeyValues::new(&spec).unwrap();
    assert!((data.expected_hit_share() - 0.8).abs() < 0.005);
    assert!(KeyValueStream::new(&data, 1, 0).take(100).all(|one| one.key < 50_000));
}

#[test]
fn the_page_describes_every_key() {
    let page = page();
    let mut keys: Vec<String> = vec!["hit_share".into(), "list".into(), "uniform".into()];
    for name in NAMES {
        assert!(page.contains(&format!("`{name}`")), "{name}");
        let text = write_toml(&by_name(name).unwrap());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let path = line.split('=').next().unwrap_or_default().trim_matches(['[', ']', ' ']);
            keys.extend(path.split('.').filter(|key| !key.is_empty()).map(str::to_owned));
        }
    }
    assert!(keys.len() > 20, "{keys:?}");
    for key in keys {
        assert!(page.contains(&format!("`{key}`")), "`{key}` is not in docs/key-value-files.md");
    }
}

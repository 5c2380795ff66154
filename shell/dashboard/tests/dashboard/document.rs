//! The description of the API is true.

use std::path::Path;

use robinhood_dashboard::{Message, SCHEMA};
use serde_json::Value;

#[test]
fn the_example_in_the_description_has_every_key_and_no_other() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dashboard-api.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("```json\n").expect("an example");
    let (example, _) = rest.split_once("\n```").unwrap();
    let written: Value = serde_json::from_str(example).unwrap();
    let read: Message = serde_json::from_str(example).unwrap();
    assert_eq!(read.schema, SCHEMA);
    let again: Value = serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap();
    assert_eq!(again, written);
    let control = read.state.stacks[0].control.as_ref();
    assert!(control.is_some() && !read.state.stacks[0].decisions[0].changes.is_empty());
    for key in keys(&written) {
        assert!(text.contains(&format!("`{key}`")), "`{key}` is not described");
    }
}

/// All names of keys, at every depth.
fn keys(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => {
            map.iter().flat_map(|(key, value)| [vec![key.clone()], keys(value)].concat()).collect()
        }
        Value::Array(list) => list.iter().flat_map(keys).collect(),
        _ => Vec::new(),
    }
}

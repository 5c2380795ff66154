//! The keys of a JSON document, for tests that compare it with the page that explains it.

use serde_json::Value;

/// All keys but those of the maps called `maps`, whose keys are names of things.
pub(crate) fn collect_keys(value: &Value, maps: &[&str], keys: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                keys.push(key.clone());
                match value.as_object() {
                    Some(named) if maps.contains(&key.as_str()) => {
                        named.values().for_each(|part| collect_keys(part, maps, keys));
                    }
                    _ => collect_keys(value, maps, keys),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|part| collect_keys(part, maps, keys)),
        _ => {}
    }
}

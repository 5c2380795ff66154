//! Changes single values of a workload file and leaves everything else, comments included, as it is.

use toml_edit::{DocumentMut, Item, Value};

use super::error::{Errors, FileError, FileMistake};

/// New servers of a backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerChange {
    /// Place of the backend in the file.
    pub backend: usize,
    /// How many.
    pub servers: u32,
    /// How fast each of them is.
    pub speed: f64,
}

/// The text of a workload file with other servers.
///
/// # Errors
/// When the text is not TOML, or has no such backend.
pub fn with_servers(text: &str, file: &str, changes: &[ServerChange]) -> Result<String, FileError> {
    let errors = Errors { file, text };
    let syntax = |error: toml_edit::TomlError| {
        let at = error.span().map_or(0, |span| span.start);
        errors.at(at, FileMistake::Syntax(error.message().to_owned()))
    };
    let mut document: DocumentMut = text.parse().map_err(syntax)?;
    for change in changes {
        let backends = document.get_mut("backends");
        let Some(backend) = backends.and_then(|backends| backends.get_mut(change.backend)) else {
            let words = format!("there is no backend at place {}", change.backend);
            return Err(errors.at(0, FileMistake::Syntax(words)));
        };
        set(backend, "servers", i64::from(change.servers).into());
        if backend.get("speed").is_some() || change.speed != 1.0 {
            set(backend, "speed", change.speed.into());
        }
    }
    Ok(document.to_string())
}

/// Sets a value and keeps the comment behind it.
fn set(table: &mut Item, key: &str, mut value: Value) {
    if let Some(old) = table.get(key).and_then(Item::as_value) {
        *value.decor_mut() = old.decor().clone();
    }
    table[key] = Item::Value(value);
}

//! Files that a command writes: complete or not there at all.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;

/// Refuses a path that cannot be written, before hours of work are spent on what should go there.
pub(crate) fn check_writable(path: &Path) -> Result<(), Failure> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if path.is_dir() {
        return Err(Failure::usage(format!("{} is a folder: name a file", path.display())));
    }
    if !folder.is_dir() {
        return Err(Failure::usage(format!(
            "{}: the folder {} does not exist",
            path.display(),
            folder.display()
        )));
    }
    Ok(())
}

/// Writes `value` as JSON for people and programs.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
    text.push('\n');
    write_text(path, &text)
}

/// Writes a text file through a temporary neighbour, so that nobody ever reads half of it.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.part", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        Failure::failed(format!("cannot write {}: {error}", path.display()))
    })
}

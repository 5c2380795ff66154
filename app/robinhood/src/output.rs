//! Files that a command writes: complete or not there at all.

use std::fs;
use std::io::{self, Write};
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
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(Failure::usage(format!("{} is not a regular file: name one", path.display())));
    }
    let trial = temporary(path);
    let written = fs::File::create(&trial).and_then(|_| fs::remove_file(&trial));
    written.map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))
}

/// Refuses files that cannot be written or are asked for twice, each given with its flag.
pub(crate) fn check_files(files: &[(&str, &Option<PathBuf>)]) -> Result<(), Failure> {
    let mut seen: Vec<(&str, &Path)> = Vec::new();
    for (flag, path) in files {
        let Some(path) = path else { continue };
        check_writable(path)?;
        if let Some((other, _)) = seen.iter().find(|(_, known)| is_same(known, path)) {
            let text = format!("{other} and {flag} name the same file: give each its own");
            return Err(Failure::usage(text));
        }
        seen.push((flag, path));
    }
    Ok(())
}

/// Whether two paths lead to one file that may not be there yet.
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok();
        path.canonicalize().ok().or_else(|| Some(folder?.join(path.file_name()?)))
    };
    one == other || place(one).is_some_and(|path| Some(path) == place(other))
}

/// Prints a result. A reader that has gone, like `head`, is no mistake.
pub(crate) fn say(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    PathBuf::from(name)
}

/// Writes `value` as JSON for people and programs.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
    text.push('\n');
    write_text(path, &text)
}

/// Writes a text file through a temporary neighbour, so that nobody ever reads half of it.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    write_with(path, |file| file.write_all(text.as_bytes()))
}

/// The same, of what `write` puts into the file.
pub(crate) fn write_with(
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> Result<(), Failure> {
    let (part, mut file) = PartFile::create(path)?;
    write(&mut file).map_err(|error| part.failure(&error))?;
    part.complete(&file)
}

/// A file under a temporary name beside its own, which it gets when it is complete. Removed when it never is.
pub(crate) struct PartFile {
    path: PathBuf,
    temporary: PathBuf,
    is_complete: bool,
}

impl PartFile {
    /// Makes the file, empty.
    pub(crate) fn create(path: &Path) -> Result<(Self, fs::File), Failure> {
        let part = Self { path: path.to_owned(), temporary: temporary(path), is_complete: false };
        let file = fs::File::create(&part.temporary).map_err(|error| part.failure(&error))?;
        Ok((part, file))
    }

    /// Gives the file its name.
    pub(crate) fn complete(mut self, file: &fs::File) -> Result<(), Failure> {
        let renamed = file.sync_all().and_then(|()| fs::rename(&self.temporary, &self.path));
        renamed.map_err(|error| self.failure(&error))?;
        self.is_complete = true;
        Ok(())
    }

    /// What to say when it cannot be written.
    pub(crate) fn failure(&self, error: &io::Error) -> Failure {
        Failure::failed(format!("cannot write {}: {error}", self.path.display()))
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.is_complete {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

//! A folder for a scratch file, which goes with its owner, even one that was killed.
//!
//! The owner holds a lock in the folder as long as it lives. Who makes a folder removes those whose lock nobody holds.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::WorkError;

const PREFIX: &str = "robinhood-testbed-";
const LOCK: &str = "lock";

/// An own folder among the temporary files. Removed on drop.
pub(super) struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    pub(super) fn new() -> Result<Self, WorkError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let temporary = std::env::temp_dir();
        sweep(&temporary);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = temporary.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match own(&path) {
                Ok(lock) => return Ok(Self { path, _lock: lock }),
                Err(TryLockError::WouldBlock) => {} // another process was just sweeping
                Err(TryLockError::Error(source)) => {
                    return Err(WorkError::Scratch { path, source });
                }
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("the scratch folder {} stays behind: {error}", self.path.display());
        }
    }
}

/// Makes the folder and takes its lock.
fn own(path: &Path) -> Result<File, TryLockError> {
    std::fs::create_dir(path).map_err(|error| match error.kind() {
        // Somebody else's, such as a process with the same number in another container: the next name is free.
        std::io::ErrorKind::AlreadyExists => TryLockError::WouldBlock,
        _ => TryLockError::Error(error),
    })?;
    let lock = File::create_new(path.join(LOCK)).map_err(TryLockError::Error)?;
    lock.try_lock()?;
    // A sweep that came between the two lines above has removed the folder.
    if path.exists() { Ok(lock) } else { Err(TryLockError::WouldBlock) }
}

/// Removes what killed processes left. What cannot be read or removed belongs to somebody else.
fn sweep(temporary: &Path) {
    let Ok(entries) = std::fs::read_dir(temporary) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_dead_are_swept_and_those_of_the_living_stay() {
        let alive = Scratch::new().unwrap();
        let dead = std::env::temp_dir().join(format!("{PREFIX}{}-dead", std::process::id()));
        std::fs::create_dir(&dead).unwrap();
        std::fs::write(dead.join(LOCK), "").unwrap();
        let next = Scratch::new().unwrap();
        assert!(!dead.exists());
        assert!(alive.path().exists() && next.path().exists());
        let path = alive.path().to_owned();
        drop(alive);
        assert!(!path.exists());
    }
}

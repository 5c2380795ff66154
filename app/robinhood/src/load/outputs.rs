//! The files of a load test.

use std::path::Path;

use robinhood_load_tester::result::LoadResult;
use robinhood_load_tester::run::RunReport;

use super::args::RunFlags;
use super::{hdr_log, html};
use crate::failure::Failure;
use crate::output;

/// Refuses what cannot be written, before anything is sent.
pub(crate) fn check(flags: &RunFlags) -> Result<(), Failure> {
    let files = named(flags);
    for (place, (flag, path)) in files.iter().enumerate() {
        output::check_writable(path)?;
        if let Some((other, _)) = files[..place].iter().find(|(_, other)| is_same(other, path)) {
            return Err(Failure::usage(format!(
                "{other} and {flag} name the same file: give each its own"
            )));
        }
    }
    Ok(())
}

fn named(flags: &RunFlags) -> Vec<(&'static str, &Path)> {
    [("--json", &flags.json), ("--hdr-log", &flags.hdr_log), ("--html", &flags.html)]
        .into_iter()
        .filter_map(|(flag, path)| Some((flag, path.as_deref()?)))
        .collect()
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

/// Writes all files that were asked for.
pub(crate) fn write(flags: &RunFlags, result: &LoadResult, run: &RunReport) -> Result<(), Failure> {
    if let Some(path) = &flags.json {
        output::write_json(path, result)?;
    }
    if let Some(path) = &flags.hdr_log {
        output::write_with(path, |file| hdr_log::write(file, &result.asked, run))?;
    }
    if let Some(path) = &flags.html {
        output::write_text(path, &html::page(result, run)?)?;
    }
    Ok(())
}

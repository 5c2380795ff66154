//! The files of a load test.

use robinhood_load_tester::result::LoadResult;
use robinhood_load_tester::run::RunReport;

use super::args::RunFlags;
use super::{hdr_log, html};
use crate::failure::Failure;
use crate::output;

/// Refuses what cannot be written, before anything is sent.
pub(crate) fn check(flags: &RunFlags) -> Result<(), Failure> {
    let RunFlags { json, hdr_log, html, .. } = flags;
    output::check_files(&[("--json", json), ("--hdr-log", hdr_log), ("--html", html)])
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

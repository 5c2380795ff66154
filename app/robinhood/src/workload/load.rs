//! A workload by the name of a preset or the path of a file: what every command that takes `--workload` uses.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use robinhood_workload::Workload;
use robinhood_workload::file::{self, TEXT_BYTES_MAX};
use robinhood_workload::presets::{self, Scale};

use crate::failure::Failure;

/// A workload that can run.
pub(crate) struct Loaded {
    pub(crate) workload: Workload,
    /// Where `static` learns its limits: the main experiment of the presets; a file learns from itself.
    pub(crate) training: Workload,
    /// Share of the full fleet; full where there is only one.
    pub(crate) scale: Scale,
    /// The workload as a file; that of a file has the comments of its author.
    pub(crate) text: Text,
}

/// The text of a workload.
pub(crate) enum Text {
    Preset,
    File(String),
}

impl Loaded {
    /// The text of a workload file.
    pub(crate) fn text(&self) -> String {
        match &self.text {
            Text::Preset => file::write(&self.workload),
            Text::File(text) => text.clone(),
        }
    }
}

/// Loads a preset at a scale, 1/8 when none is given, or a file. A file describes one fleet, and `demo` has one: they are not scaled.
pub(crate) fn load_workload(name_or_path: &str, scale: Option<Scale>) -> Result<Loaded, Failure> {
    let path = Path::new(name_or_path);
    let is_path = path.extension().is_some_and(|extension| extension == "toml")
        || path.components().count() > 1
        || path.is_file();
    if is_path && !presets::NAMES.contains(&name_or_path) {
        return load_file(path, scale);
    }
    let scale = match scale {
        Some(scale) if name_or_path == "demo" && scale.as_f64() != 1.0 => {
            return Err(Failure::usage(
                "--scale is for presets of a fleet: `demo` is one application server with a few backends, so leave it out",
            ));
        }
        None if name_or_path == "demo" => Scale::FULL,
        scale => scale.unwrap_or(Scale::EIGHTH),
    };
    let unknown = |error: presets::UnknownPreset| {
        Failure::usage(format!("{error}; a file is named by its path, as in `shop.toml`"))
    };
    Ok(Loaded {
        workload: presets::by_name(name_or_path, scale).map_err(unknown)?,
        training: presets::main_experiment(name_or_path, scale).map_err(unknown)?,
        scale,
        text: Text::Preset,
    })
}

fn load_file(path: &Path, scale: Option<Scale>) -> Result<Loaded, Failure> {
    if scale.is_some_and(|scale| scale.as_f64() != 1.0) {
        return Err(Failure::usage(
            "--scale is for presets: a file describes one fleet, so change `servers` in it and calibrate it again",
        ));
    }
    let shown = path.display().to_string();
    let text =
        read(path).map_err(|error| Failure::usage(format!("cannot read {shown}: {error}")))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut resolver = |named: &str| {
        let path = folder.join(named);
        read(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let workload = file::read(&text, &shown, &mut resolver).map_err(Failure::configuration)?;
    let training = workload.clone();
    Ok(Loaded { workload, training, scale: Scale::FULL, text: Text::File(text) })
}

/// The text of a file that is not absurdly long.
fn read(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let limit = TEXT_BYTES_MAX as u64 + 1;
    file.take(limit).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("longer than {TEXT_BYTES_MAX} bytes"));
    }
    Ok(text)
}

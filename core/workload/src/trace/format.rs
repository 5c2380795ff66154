//! The names of the formats.

use std::fmt;
use std::str::FromStr;

/// How a trace is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// One JSON object a line.
    JsonLines,
    /// Blocks of bytes with checksums.
    Binary,
}

/// Text that names no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no trace format: write jsonl (JSON lines) or rht (binary)")]
pub struct UnknownFormat(String);

impl TraceFormat {
    /// The format that the extension of a file's name stands for, if it stands for one.
    pub fn of_extension(extension: &str) -> Option<Self> {
        match extension {
            "jsonl" | "json" => Some(Self::JsonLines),
            "rht" => Some(Self::Binary),
            _ => None,
        }
    }
}

impl FromStr for TraceFormat {
    type Err = UnknownFormat;
    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Self::of_extension(text).ok_or_else(|| UnknownFormat(text.chars().take(64).collect()))
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::JsonLines => "JSON lines",
            Self::Binary => "binary",
        })
    }
}

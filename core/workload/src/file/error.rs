//! Mistakes in a workload file: file, line, key, what is wrong and what is allowed, in one line.

use std::fmt;

use super::locate::Document;
use super::read::TEXT_BYTES_MAX;
use crate::cachelib::CacheLibError;
use crate::capacity::CapacityPathError;
use crate::keyvalue::KeyValueError;
use crate::popularity::PopularityError;
use crate::sizes::SizesError;
use crate::spec::WorkloadError;

/// A workload file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub struct FileError {
    /// Name of the file as the caller knows it.
    pub file: String,
    /// Line of the mistake, from 1.
    pub line: usize,
    /// Where in the document, as in `backends[2].service`; empty where that cannot be said.
    pub key: String,
    /// What is wrong.
    #[source]
    pub mistake: Box<FileMistake>,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, key, mistake } = self;
        write!(f, "{file}, line {line}: ")?;
        if !key.is_empty() {
            write!(f, "`{key}`: ")?;
        }
        write!(f, "{mistake}")
    }
}

/// What is wrong in a workload file.
#[derive(Debug, thiserror::Error)]
pub enum FileMistake {
    /// The text is too long to be a workload.
    #[error("the file is longer than {TEXT_BYTES_MAX} bytes")]
    Length,
    /// The text is not TOML, or a value is missing or of the wrong kind.
    #[error("{0}")]
    Syntax(String),
    /// A key, or a word that selects something, that does not exist.
    #[error("there is no `{found}`: {}", suggestion(.nearest, .allowed))]
    Unknown {
        /// What was found.
        found: String,
        /// The one that was probably meant.
        nearest: Option<String>,
        /// All that exist there.
        allowed: Vec<String>,
    },
    /// A log-normal distribution with two medians, or none.
    #[error("say either `median`, a size, or `mu`, its natural logarithm")]
    Median,
    /// A size that no object has.
    #[error("{bytes} bytes are too many for an object: allowed are 0 to {}", u32::MAX)]
    Size {
        /// What was found.
        bytes: u64,
    },
    /// A file that this one names cannot be read.
    #[error("cannot read `{path}`: {reason}")]
    Unreadable {
        /// The path as written.
        path: String,
        /// Why not.
        reason: String,
    },
    /// A file that this one names is not in CacheLib's format.
    #[error("`{path}`: {error}")]
    CacheLib {
        /// The path as written.
        path: String,
        /// What is wrong with it.
        error: CacheLibError,
    },
    /// Buckets that describe no popularity.
    #[error(transparent)]
    Popularity(#[from] PopularityError),
    /// A list that describes no sizes.
    #[error(transparent)]
    Sizes(#[from] SizesError),
    /// Points that are no path.
    #[error(transparent)]
    Capacity(#[from] CapacityPathError),
    /// The parts are well-formed and make no workload that can run.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The parts are well-formed and make no key-value workload that can run.
    #[error(transparent)]
    KeyValue(#[from] KeyValueError),
}

fn suggestion(nearest: &Option<String>, allowed: &[String]) -> String {
    const LISTED_MAX: usize = 24;
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => {
            let listed = allowed[..allowed.len().min(LISTED_MAX)].join(", ");
            let more = if allowed.len() > LISTED_MAX { " and others" } else { "" };
            format!("allowed are {listed}{more}")
        }
    }
}

impl FileMistake {
    /// Something that is not among `allowed`.
    pub(super) fn unknown(found: &str, allowed: Vec<String>) -> Self {
        // A third of the letters wrong is no longer a slip.
        let distance = |name: &&String| strsim::damerau_levenshtein(found, name);
        let nearest = allowed.iter().min_by_key(distance);
        let is_near = |name: &&String| distance(name) <= found.chars().count().max(3) / 3;
        let nearest = nearest.filter(is_near).cloned();
        Self::Unknown { found: cut(found), nearest, allowed }
    }

    /// What `toml`, `serde_json` and `serde` say, in the words of this crate.
    fn of_message(message: &str) -> Self {
        if message.starts_with("unknown field `") || message.starts_with("unknown variant `") {
            // "unknown field `found`, expected one of `allowed`, `allowed`"
            let mut quoted = message.split('`').skip(1).step_by(2).map(str::to_owned);
            if let Some(found) = quoted.next() {
                return Self::unknown(&found, quoted.collect());
            }
        }
        let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
        Self::Syntax(in_words(&cut(&line)))
    }
}

/// Names of Rust types at the end of a message, in words.
fn in_words(message: &str) -> String {
    const WORDS: [(&str, &str); 7] = [
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number from 0 up"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list"),
        ("expected a tuple of size 2", "expected a pair, as in [\"5m\", 0.5]"),
        ("expected an array of length 2", "expected a pair, as in [\"5m\", 0.5]"),
    ];
    let known = WORDS.iter().find(|(ending, _)| message.ends_with(ending));
    known.map_or(message.to_owned(), |(ending, words)| {
        format!("{}{words}", &message[..message.len() - ending.len()])
    })
}

/// The byte at which a key begins in a JSON text.
fn json_key(text: &str, key: &str) -> Option<usize> {
    let quoted = format!("\"{key}\"");
    let is_key = |&(at, _): &(usize, &str)| text[at + quoted.len()..].trim_start().starts_with(':');
    text.match_indices(&quoted).find(is_key).map(|(at, _)| at)
}

/// At most so much of a foreign text goes into a message.
fn cut(text: &str) -> String {
    text.chars().take(300).collect()
}

/// Makes errors for one text.
pub(crate) struct Errors<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

impl Errors<'_> {
    /// Refuses a text that is too long, before anybody reads it.
    pub(crate) fn check_length(&self) -> Result<(), FileError> {
        if self.text.len() <= TEXT_BYTES_MAX {
            return Ok(());
        }
        let (file, mistake) = (self.file.to_owned(), Box::new(FileMistake::Length));
        Err(FileError { file, line: 1, key: String::new(), mistake })
    }

    /// What `toml` found.
    pub(crate) fn of_toml(&self, error: &toml::de::Error) -> FileError {
        let mistake = FileMistake::of_message(error.message());
        self.at(error.span().map_or(0, |span| span.start), mistake)
    }

    /// What `serde_json` found.
    pub(crate) fn of_json(&self, error: &serde_json::Error) -> FileError {
        let message = error.to_string();
        let place = message.rfind(" at line ").unwrap_or(message.len());
        let mistake = Box::new(FileMistake::of_message(&message[..place]));
        let (file, line) = (self.file.to_owned(), error.line().max(1));
        FileError { file, line, key: String::new(), mistake }
    }

    /// A mistake in what a key at the top says, in TOML or JSON.
    pub(crate) fn of_key(&self, key: &str, mistake: FileMistake) -> FileError {
        let offset = match Document::parse(self.text) {
            Some(document) => document.offset_of_key(key),
            None => json_key(self.text, key),
        };
        let found = self.at(offset.unwrap_or(0), mistake);
        FileError { key: key.to_owned(), ..found }
    }

    /// A mistake at a byte of the text.
    pub(super) fn at(&self, offset: usize, mistake: FileMistake) -> FileError {
        let offset = offset.min(self.text.len());
        let before = &self.text.as_bytes()[..offset];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let key = Document::parse(self.text).map(|document| document.path_at(offset));
        let (file, key, mistake) =
            (self.file.to_owned(), key.unwrap_or_default(), Box::new(mistake));
        FileError { file, line, key, mistake }
    }

    /// A mistake of a workload, at the key that its error names.
    pub(super) fn of_workload(&self, error: WorkloadError) -> FileError {
        let document = Document::parse(self.text);
        let offset = document.map_or(0, |document| document.offset_of(&error));
        FileError { key: String::new(), ..self.at(offset, error.into()) }
    }
}

//! What is wrong with a configuration file: where, why, and what was probably meant.
//!
//! Place in the flow: between what reads the file and the person who wrote it, for `robinhood check` and for `robinhood run`.

use std::fmt;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::failure::Failure;

/// How alike two words must be, from 0 to 1, for one to be a slip of the other.
const ALIKE: f64 = 0.8;

/// One or more.
#[derive(Debug, PartialEq)]
pub(crate) struct Mistakes(Vec<Mistake>);

#[derive(Debug, PartialEq)]
struct Mistake {
    /// From 1; `None`: of the whole file.
    line: Option<usize>,
    /// What stands there.
    source: String,
    message: String,
}

impl Mistakes {
    /// The first thing that cannot be read.
    pub(crate) fn of_parser(text: &str, error: &toml::de::Error) -> Self {
        let at = error.span().map(|span| span.start);
        let message = error.message().replace('\n', ": ");
        let message = match suggestion(&message) {
            Some(word) => format!("{message}; did you mean `{word}`?"),
            None => message,
        };
        Self(vec![Mistake::new(text, at, message)])
    }

    /// Messages that begin with the key that they are about, as in `http.listen: ...`.
    pub(crate) fn of_keys(text: &str, messages: Vec<String>) -> Self {
        let root = DeTable::parse(text).ok();
        let place = |message: &str| {
            let (path, _) = message.split_once(": ")?;
            place_of(root.as_ref()?.get_ref(), path)
        };
        Self(messages.into_iter().map(|one| Mistake::new(text, place(&one), one)).collect())
    }

    /// As the end of a command.
    pub(crate) fn of_file(&self, path: &Path) -> Failure {
        let of_file = |mistake: &Mistake| {
            let path = path.display();
            match mistake.line {
                Some(line) => {
                    format!("{path}:{line}: {}\n  {line} | {}", mistake.message, mistake.source)
                }
                None => format!("{path}: {}", mistake.message),
            }
        };
        let all: Vec<String> = self.0.iter().map(of_file).collect();
        Failure::configuration(all.join("\n"))
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Mistake { line, message, .. } in &self.0 {
            match line {
                Some(line) => writeln!(f, "line {line}: {message}")?,
                None => writeln!(f, "{message}")?,
            }
        }
        Ok(())
    }
}

impl Mistake {
    fn new(text: &str, at: Option<usize>, message: String) -> Self {
        let before = at.and_then(|at| text.get(..at));
        let line = before.map(|before| before.matches('\n').count() + 1);
        let source = line.and_then(|line| text.lines().nth(line - 1)).unwrap_or_default();
        Self { line, source: source.trim().to_owned(), message }
    }
}

/// Where a key stands, or the section that it would be in: a default stands nowhere.
fn place_of(root: &DeTable<'_>, path: &str) -> Option<usize> {
    let (mut table, mut at) = (root, None);
    for key in path.split('.') {
        let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref() == key) else {
            break;
        };
        at = Some(name.span().start);
        let DeValue::Table(inner) = value.get_ref() else { break };
        table = inner;
    }
    at
}

/// Of a message that quotes what stands there and then what might: the one that was probably meant.
fn suggestion(message: &str) -> Option<&str> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let given = quoted.next()?;
    let names_choices = ["expected", "is none of", "is neither", "take "];
    if !names_choices.iter().any(|words| message.contains(words)) {
        return None;
    }
    let likeness = |word: &str| strsim::jaro_winkler(&given.to_lowercase(), word);
    let best = quoted.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) >= ALIKE).then_some(best)
}

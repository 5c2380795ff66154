//! Lines that come and go: a request of a trace, and what is answered.
//!
//! Place in the flow: between the bytes of a connection and the stack.

use std::collections::HashMap;

use robinhood_stats::{BackendId, BackendName};
use robinhood_workload::{Key, KeyText, Request, RequestLine};
use serde::Serialize;

use crate::dataset::Dataset;
use crate::stack::{Handled, RequestEnd};

/// Characters of an error that are sent: it may quote what came.
const ERROR_CHARS_MAX: usize = 400;

/// The names and the numbers of keys of all backends.
pub(super) struct Catalogues {
    backends: Vec<(BackendName, u32)>,
    ids: HashMap<String, BackendId>,
}

impl Catalogues {
    pub(super) fn of(dataset: &Dataset) -> Self {
        let backends = &dataset.workload().backends;
        let ids = dataset.ids().zip(backends);
        Self {
            ids: ids.map(|(id, spec)| (spec.name.to_string(), id)).collect(),
            backends: backends.iter().map(|spec| (spec.name.clone(), spec.catalogue)).collect(),
        }
    }

    /// The request of a line, or what is wrong with it.
    pub(super) fn request(&self, line: &[u8], queries_max: usize) -> Result<Request, String> {
        let line = RequestLine::parse(line).map_err(|fault| fault.to_string())?;
        let queries = line.queries();
        if queries > queries_max {
            return Err(format!("{queries} queries: a request has at most {queries_max}"));
        }
        let mut request = Request::new();
        line.fill(&mut request, |name| self.backend(name), |id, key| self.key(id, key))?;
        Ok(request)
    }

    fn backend(&self, name: &str) -> Result<BackendId, String> {
        self.ids.get(name).copied().ok_or_else(|| {
            let names: Vec<&str> = self.backends.iter().map(|(name, _)| name.as_str()).collect();
            let name: String = name.chars().take(64).collect();
            format!("there is no backend `{name}`, only {}", names.join(", "))
        })
    }

    fn key(&self, id: BackendId, key: KeyText<'_>) -> Result<Key, String> {
        let (name, keys) = &self.backends[id.index()];
        match key {
            KeyText::Number(number) if number < u64::from(*keys) => Ok(Key(number as u32)),
            key => {
                let key: String = key.to_string().chars().take(64).collect();
                Err(format!(
                    "`{name}` has no key `{key}`: its keys are the numbers from 0 to {}",
                    keys - 1
                ))
            }
        }
    }
}

/// What is said to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// All its queries have values.
    Done {
        queries: usize,
        misses: u64,
    },
    Error(String),
}

#[derive(Serialize)]
struct Refusal<'a> {
    error: &'a str,
}

impl Answer {
    pub(super) fn of(request: &Request, handled: Handled) -> Self {
        match handled.end {
            RequestEnd::Completed => {
                Self::Done { queries: request.queries(), misses: handled.fetched }
            }
            RequestEnd::Failed => Self::Error("a query failed".to_owned()),
            RequestEnd::TimedOut => Self::Error("a query timed out".to_owned()),
        }
    }

    /// Appends its line with the newline.
    pub(super) fn push_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Done { queries, misses } => {
                let line = format!("{{\"ok\":true,\"queries\":{queries},\"misses\":{misses}}}");
                out.extend_from_slice(line.as_bytes());
            }
            Self::Error(reason) => {
                let error: String = reason.chars().take(ERROR_CHARS_MAX).collect();
                serde_json::to_writer(&mut *out, &Refusal { error: &error })
                    .expect("a text is written into memory");
            }
        }
        out.push(b'\n');
    }
}

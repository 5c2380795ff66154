//! `robinhood load combine`: results of several instances in, one verdict out.

use std::io::Read;
use std::path::Path;

use robinhood_load_tester::combine::{Part, combine};
use robinhood_load_tester::result::{LoadResult, SCHEMA};
use serde::Deserialize;

use super::args::CombineArgs;
use super::{conclude, text};
use crate::failure::Failure;
use crate::output;

/// A result of 256 clients has some megabytes.
const BYTES_MAX: u64 = 64 << 20;

pub(super) fn run(args: &CombineArgs) -> Result<(), Failure> {
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    let parts: Vec<Part> = args.files.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let result = combine(parts).map_err(Failure::failed)?;
    if let Some(path) = &args.json {
        output::write_json(path, &result)?;
    }
    eprintln!(
        "{} at {}: {:.0} requests a second by {} clients, from {}",
        result.asked.protocol,
        result.asked.target,
        result.asked.rate_per_s,
        result.per_client.len(),
        result.combined_from.join(", ")
    );
    output::say(&text::report(&result));
    conclude(&args.fail_if, &result)
}

fn read(path: &Path) -> Result<Part, Failure> {
    #[derive(Deserialize)]
    struct Kind {
        schema: Option<String>,
    }
    let name = path.display().to_string();
    let unreadable = |error| Failure::failed(format!("cannot read {name}: {error}"));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(Failure::failed(format!("{name} is larger than any result of a load test")));
    }
    let other = |what: String| {
        Failure::failed(format!(
            "{name} is no result of a load test ({what}): give what `robinhood load ... --json FILE` wrote"
        ))
    };
    let kind: Kind = serde_json::from_str(&text).map_err(|error| other(error.to_string()))?;
    if kind.schema.as_deref() != Some(SCHEMA) {
        return Err(other(match kind.schema {
            Some(schema) => format!("its schema is `{schema}`, not `{SCHEMA}`"),
            None => format!("it has no schema, which should be `{SCHEMA}`"),
        }));
    }
    let result: LoadResult =
        serde_json::from_str(&text).map_err(|error| other(error.to_string()))?;
    Ok(Part { name, result })
}

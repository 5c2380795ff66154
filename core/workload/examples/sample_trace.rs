//! Writes the sample trace of this repository, or any other piece of a preset's stream, in the authors' JSON-lines format.
//!
//! `cargo run -p robinhood-workload --example sample_trace -- [preset] [requests] [seed] > examples/traces/sample.jsonl`, by default `demo 100 1`.

use std::io::{BufWriter, stdout};

use robinhood_workload::presets::{self, Scale};
use robinhood_workload::{Generator, Request, TraceFormat, TraceWriter};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |place: usize, default: &str| -> String {
        arguments.get(place).map_or(default, String::as_str).to_owned()
    };
    let workload = presets::by_name(&argument(0, "demo"), Scale::EIGHTH)?;
    let requests: u64 = argument(1, "100").parse()?;
    let mut stream = Generator::new(&workload, argument(2, "1").parse()?)?;
    let mut writer = TraceWriter::new(BufWriter::new(stdout().lock()), TraceFormat::JsonLines);
    let mut request = Request::new();
    for _ in 0..requests {
        stream.generate(&mut request);
        writer.write(&request, &stream)?;
    }
    writer.finish()?;
    Ok(())
}

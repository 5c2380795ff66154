//! The sample trace in the repository is what the generator makes, and it can be read.

use std::path::Path;

use robinhood_workload::presets::{self, Scale};
use robinhood_workload::{
    Generator, Request, RequestStream, TraceFormat, TraceOptions, TraceReader, TraceWriter,
};

const REQUESTS: usize = 100;

fn sample() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces/sample.jsonl");
    std::fs::read(path).expect("the sample is part of the repository")
}

#[test]
fn the_sample_is_what_the_generator_makes() {
    let workload = presets::by_name("demo", Scale::EIGHTH).unwrap();
    let mut stream = Generator::new(&workload, 1).unwrap();
    let mut writer = TraceWriter::new(Vec::new(), TraceFormat::JsonLines);
    let mut request = Request::new();
    for _ in 0..REQUESTS {
        stream.generate(&mut request);
        writer.write(&request, &stream).unwrap();
    }
    let made = writer.finish().unwrap();
    assert!(
        made == sample(),
        "make it again with the example `sample_trace` if the preset was changed on purpose"
    );
}

#[test]
fn the_sample_can_be_read() {
    let sample = sample();
    let mut stream = TraceReader::new(&sample[..], "sample.jsonl", TraceOptions::default());
    let (mut request, mut requests, mut queries) = (Request::new(), 0, 0);
    while stream.next_into(&mut request).unwrap() {
        requests += 1;
        queries += request.queries();
    }
    assert_eq!(requests, REQUESTS);
    assert!(queries > 2 * REQUESTS, "{queries}");
    assert_eq!((stream.backends().len(), stream.skipped()), (6, 0));
}

//! The authors' own example trace is read completely. The data is not part of this repository: without it the test says so and passes.

use std::io::BufReader;
use std::path::PathBuf;

use robinhood_workload::{
    Record, Request, RequestStream, TraceFormat, TraceOptions, TraceReader, TraceRecords,
    TraceWriter,
};

fn reference_data() -> PathBuf {
    let default = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    std::env::var_os("ROBINHOOD_REFERENCE_DATA").map_or_else(default, PathBuf::from)
}

#[test]
#[expect(
    clippy::disallowed_types,
    reason = "the crate reads what it is given, the test opens the file"
)]
fn the_trace_of_the_artefact_is_read_completely() {
    let path = reference_data().join("robinhood-artifact/trace.json");
    let Ok(file) = std::fs::File::open(&path) else {
        println!("skipped: there is no {}", path.display());
        return;
    };
    let mut stream = TraceReader::new(BufReader::new(file), "trace.json", TraceOptions::default());
    let (mut request, mut requests, mut queries) = (Request::new(), 0, 0);
    let mut last_due = request.due;
    while stream.next_into(&mut request).unwrap() {
        assert!(request.due >= last_due);
        assert_eq!(request.index, requests);
        last_due = request.due;
        requests += 1;
        queries += request.queries();
    }
    assert_eq!((requests, queries), (5_000, 15_000));
    assert_eq!(stream.backends().len(), 2);
}

#[test]
fn the_trace_of_the_artefact_is_the_same_after_conversion_there_and_back() {
    let path = reference_data().join("robinhood-artifact/trace.json");
    let Ok(text) = std::fs::read(&path) else {
        println!("skipped: there is no {}", path.display());
        return;
    };
    let convert = |bytes: &[u8], format| {
        let mut records = TraceRecords::new(bytes, "trace.json", false);
        let mut writer = TraceWriter::new(Vec::new(), format);
        let mut record = Record::new();
        while records.next_into(&mut record).unwrap() {
            writer.write_record(&record, &records).unwrap();
        }
        writer.finish().unwrap()
    };
    let bytes = convert(&text, TraceFormat::Binary);
    assert!(bytes.len() * 5 < text.len(), "{} of {}", bytes.len(), text.len());
    assert!(convert(&bytes, TraceFormat::JsonLines) == text, "the file has changed");
}

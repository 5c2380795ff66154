//! Binary traces that are kept as files: the example of the documentation, and one small file for each kind of damage.

use std::path::Path;

use robinhood_workload::{Record, TraceFormat, TraceRecords, TraceWriter};

fn file(path: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The blocks of the page that are marked as this kind, together.
fn blocks(page: &str, kind: &str) -> String {
    let blocks = page.split("```").skip(1).step_by(2);
    blocks.filter_map(|block| block.strip_prefix(&format!("{kind}\n"))).collect()
}

fn convert(bytes: &[u8], format: TraceFormat) -> Vec<u8> {
    let mut records = TraceRecords::new(bytes, "example", false);
    let mut writer = TraceWriter::new(Vec::new(), format);
    let mut record = Record::new();
    while records.next_into(&mut record).unwrap() {
        writer.write_record(&record, &records).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn the_example_of_the_documentation_is_true() {
    let page = String::from_utf8(file("../../docs/trace-formats.md")).unwrap();
    let (lines, dump) = (blocks(&page, "json"), blocks(&page, "hex"));
    assert_eq!(lines.lines().count(), 2);
    let bytes = dump.lines().flat_map(|line| line.split("   ").next().unwrap().split_whitespace());
    let bytes: Vec<u8> = bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    assert_eq!(convert(lines.as_bytes(), TraceFormat::Binary), bytes);
    assert_eq!(String::from_utf8(convert(&bytes, TraceFormat::JsonLines)).unwrap(), lines);
}

/// What reading stops with, and how many of its requests can be read when damage is skipped: `None` where nothing can be skipped.
const FILES: [(&str, &str, Option<u64>); 25] = [
    ("good", "", Some(5)),
    ("cut-off", ", block 3, byte 118: the file ends here, before its end mark", Some(4)),
    ("no-end-mark", ", block 4, byte 161: the file ends here, before its end mark", Some(5)),
    ("flipped-bit", ", block 2, byte 62: the block is damaged: its checksum is", Some(2)),
    ("damaged-head", ", block 2, byte 62: the head of the block is damaged", Some(2)),
    ("missing-block", "the block begins with request 4 where 2 is next", Some(2)),
    ("version-2", ": a binary trace of version 2: version 1 can be read", None),
    ("wrong-magic", ": this is no trace: the first 7 bytes of a binary one are", None),
    ("line-ends-changed", ": this is no trace: the first 7 bytes of a binary one are", None),
    ("one-byte", ": the file ends here, before its end mark", Some(0)),
    ("after-end", "bytes follow the end mark", Some(5)),
    ("unknown-key", ", block 1, byte 47: a query asks for a key that is not known yet", Some(0)),
    ("unnamed-backend", "a batch is for a backend without a name", Some(0)),
    ("bad-name", "`DB` cannot name a backend", Some(0)),
    ("same-name-twice", "two backends have the same name", Some(0)),
    ("backend-twice-in-stage", "a stage has two batches for one backend", Some(0)),
    ("empty-batch", "a batch has no query", Some(0)),
    ("empty-stage", "a stage has no batch", Some(0)),
    ("time-not-a-number", "a time is not between 0 and 1e9 seconds", Some(0)),
    ("time-back", "block 2, byte 91: `t` is 1 s after 5 s", Some(1)),
    ("too-many-queries", "the block ends in the middle of a request", Some(0)),
    ("key-not-utf8", "a key is not UTF-8", Some(0)),
    ("size-behind-batch", "a size changes behind its batch", Some(0)),
    ("bytes-left", "the block goes on behind its last request", Some(0)),
    ("keys-from-nowhere", "the number of keys before the block is wrong", Some(0)),
];

/// Requests that were read, and the message at the end if there is one.
fn read(bytes: &[u8], file: &str, skip_bad: bool) -> (u64, String) {
    let mut records = TraceRecords::new(bytes, file, skip_bad);
    let (mut record, mut requests) = (Record::new(), 0);
    loop {
        match records.next_into(&mut record) {
            Ok(true) => requests += 1,
            Ok(false) => return (requests, String::new()),
            Err(error) => return (requests, error.to_string()),
        }
    }
}

#[test]
fn every_kind_of_damage_is_named_with_its_place_and_what_is_intact_can_be_read() {
    for (name, message, rescued) in FILES {
        let bytes = file(&format!("tests/traces/{name}.rht"));
        let (_, found) = read(&bytes, name, false);
        assert!(found.contains(message), "{name}: {found}");
        assert_eq!(found.is_empty(), message.is_empty(), "{name}: {found}");
        assert!(found.is_empty() || found.starts_with(name), "{found}");
        let (requests, found) = read(&bytes, name, true);
        assert_eq!(found.is_empty().then_some(requests), rescued, "{name}: {found}");
    }
}

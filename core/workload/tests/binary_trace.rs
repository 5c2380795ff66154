//! Binary traces: nothing is lost on the way there and back, damage is found, and what is not damaged can still be read.

use proptest::prelude::*;
use robinhood_workload::{
    Record, Request, RequestStream, TraceError, TraceFormat, TraceOptions, TraceReader,
    TraceRecords, TraceWriter,
};

/// Converts a trace; each block takes `block_requests`.
fn convert(from: &[u8], to: TraceFormat, block_requests: u64) -> Result<Vec<u8>, TraceError> {
    let mut records = TraceRecords::new(from, "t", false);
    let mut writer = TraceWriter::new(Vec::new(), to);
    let mut record = Record::new();
    while records.next_into(&mut record)? {
        writer.write_record(&record, &records).unwrap();
        if writer.requests() % block_requests == 0 {
            writer.end_block().unwrap();
        }
    }
    Ok(writer.finish().unwrap())
}

fn binary(text: &str, block_requests: u64) -> Vec<u8> {
    convert(text.as_bytes(), TraceFormat::Binary, block_requests).unwrap()
}

/// The lines that can be read when damage is skipped, what was skipped, and how many requests were lost.
fn rescued(bytes: &[u8]) -> (String, u64, u64) {
    let mut records = TraceRecords::new(bytes, "t", true);
    let mut writer = TraceWriter::new(Vec::new(), TraceFormat::JsonLines);
    let mut record = Record::new();
    while records.next_into(&mut record).unwrap() {
        writer.write_record(&record, &records).unwrap();
    }
    let text = String::from_utf8(writer.finish().unwrap()).unwrap();
    (text, records.skipped(), records.requests_lost())
}

fn message(bytes: &[u8]) -> String {
    convert(bytes, TraceFormat::JsonLines, 1).unwrap_err().to_string()
}

/// Places of the heads of all blocks, the end mark included.
fn heads(bytes: &[u8]) -> Vec<usize> {
    let mut heads = vec![8];
    loop {
        let head = *heads.last().unwrap();
        let payload = u32::from_le_bytes(bytes[head + 4..head + 8].try_into().unwrap());
        if payload == 0 {
            return heads;
        }
        heads.push(head + 28 + payload as usize);
    }
}

/// Six lines: keys `a` to `c` in the first two, `d` new in the third, only `a` in the others.
fn six_lines() -> Vec<String> {
    let line = |t: usize, keys: &[&str]| {
        let sizes = vec!["10"; keys.len()].join(", ");
        let texts: Vec<String> = keys.iter().map(|key| format!("\"{key}\"")).collect();
        let ones = vec!["1"; keys.len()].join(", ");
        format!(
            "{{\"t\": {t}, \"d\": [{{\"db\": {{\"S\": [{sizes}], \"U\": [{}], \"C\": [{ones}]}}}}]}}\n",
            texts.join(", ")
        )
    };
    let keys: [&[&str]; 6] = [&["a", "b"], &["c"], &["d"], &["a", "d"], &["a"], &["c", "a"]];
    keys.iter().enumerate().map(|(t, keys)| line(t, keys)).collect()
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..40_u64).prop_map(|n| n.to_string()),
        2 => any::<u64>().prop_map(|n| n.to_string()),
        2 => "[a-f0-9]{0,9}",
        1 => "\\PC{0,6}[\"\\\\\\n\u{1}]?",
    ]
}

fn seconds_step() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(1.0),
        (0..2_000_000_000_u64).prop_map(|ns| ns as f64 / 1e9),
        0.0..1e-10,
        0.0..1e6,
    ]
}

/// Batches by backend, of (key, size, cacheable).
type Stage = Vec<Vec<(String, u32, bool)>>;

fn stage() -> impl Strategy<Value = Stage> {
    let size = prop_oneof![Just(100), 0..300_u32, any::<u32>()];
    let batch = prop::collection::vec((key(), size, prop::bool::weighted(0.9)), 0..20);
    prop::collection::vec(batch, 1..4)
}

/// A trace as it is written here, line by line.
fn lines() -> impl Strategy<Value = Vec<String>> {
    let request = (seconds_step(), prop::collection::vec(stage(), 0..3));
    prop::collection::vec(request, 1..30).prop_map(|requests| {
        let mut t = 0.0;
        let line = |(step, stages): (f64, Vec<Stage>)| {
            t += step;
            let stages: Vec<String> = stages.iter().filter_map(stage_text).collect();
            format!("{{\"t\": {t}, \"d\": [{}]}}\n", stages.join(", "))
        };
        requests.into_iter().map(line).collect()
    })
}

/// `None` when nothing is queried: such stages and batches are left out by both formats.
fn stage_text(stage: &Stage) -> Option<String> {
    let batches = (0..).zip(stage).filter(|(_, batch)| !batch.is_empty()).map(|(b, batch)| {
        let list = |entry: &dyn Fn(&(String, u32, bool)) -> String| {
            batch.iter().map(entry).collect::<Vec<_>>().join(", ")
        };
        let sizes = list(&|query| query.1.to_string());
        let keys = list(&|query| serde_json::to_string(&query.0).unwrap());
        let cacheable = list(&|query| u8::from(query.2).to_string());
        format!("\"b{b}\": {{\"S\": [{sizes}], \"U\": [{keys}], \"C\": [{cacheable}]}}")
    });
    let batches: Vec<String> = batches.collect();
    (!batches.is_empty()).then(|| format!("{{{}}}", batches.join(", ")))
}

fn requests(bytes: &[u8]) -> Vec<(Request, Vec<u32>)> {
    let mut stream = TraceReader::new(bytes, "t", TraceOptions::default());
    let mut request = Request::new();
    let mut all = Vec::new();
    while stream.next_into(&mut request).unwrap() {
        let sizes = request.stages().flatten().flat_map(|batch| {
            let size = |&key| stream.value_bytes(batch.backend, key);
            request.keys(batch).iter().map(size).collect::<Vec<_>>()
        });
        let sizes = sizes.collect();
        all.push((request.clone(), sizes));
    }
    all
}

proptest! {
    #[test]
    fn a_trace_is_the_same_after_the_way_there_and_back(lines in lines(), block_requests in 1_u64..20) {
        let text = lines.concat();
        let bytes = binary(&text, block_requests);
        let back = convert(&bytes, TraceFormat::JsonLines, 1).unwrap();
        prop_assert_eq!(String::from_utf8(back).unwrap(), text.clone());
        prop_assert_eq!(requests(&bytes), requests(text.as_bytes()), "as streams of requests");
        prop_assert_eq!(convert(&bytes, TraceFormat::Binary, block_requests).unwrap(), bytes);
    }

    #[test]
    fn a_changed_byte_is_always_found(lines in lines(), block_requests in 1_u64..9, place: prop::sample::Index, xor in 1_u8..) {
        let mut bytes = binary(&lines.concat(), block_requests);
        let place = place.index(bytes.len());
        bytes[place] ^= xor;
        let error = message(&bytes);
        prop_assert!(place == 0 || error.starts_with("t: ") || error.starts_with("t, block "), "{}", error);
    }

    #[test]
    fn a_file_that_was_cut_off_is_always_found(lines in lines(), block_requests in 1_u64..9, place: prop::sample::Index) {
        let bytes = binary(&lines.concat(), block_requests);
        let cut = &bytes[..place.index(bytes.len())];
        let error = message_of(cut);
        prop_assert!(cut.is_empty() || error.contains("before its end mark"), "{}", error);
    }

    #[test]
    fn damage_never_invents_a_request(
        lines in lines(),
        block_requests in 1_u64..9,
        damages in prop::collection::vec((any::<prop::sample::Index>(), 0..5_u8, any::<u8>()), 1..5),
    ) {
        let mut bytes = binary(&lines.concat(), block_requests);
        for (place, kind, byte) in damages {
            let place = place.index(bytes.len().max(1));
            damage(&mut bytes, place, kind, byte);
        }
        if bytes.starts_with(b"\x89RHT\r\n\x1a\x01") {
            let (text, ..) = rescued(&bytes);
            let mut originals = lines.iter().map(|line| without_sizes(line));
            for line in text.split_inclusive('\n').map(without_sizes) {
                prop_assert!(originals.any(|original| original == line), "{} is new", line);
            }
        }
    }

    #[test]
    fn whatever_the_blocks_hold_reading_ends_and_takes_no_more_than_the_file(
        payloads in prop::collection::vec((prop::collection::vec(0_u8..6, 0..60), 1_u32..9, 0_u64..3), 0..6),
        named in any::<bool>(),
    ) {
        let mut bytes = b"\x89RHT\r\n\x1a\x01".to_vec();
        let mut first = 0;
        for (payload, requests, skew) in payloads {
            let directory: &[u8] = if named { b"\x01\x01a\x00" } else { b"" };
            push_block(&mut bytes, &[directory, &payload].concat(), requests, first + skew);
            first += u64::from(requests);
        }
        for skip_bad in [false, true] {
            let mut records = TraceRecords::new(&bytes[..], "t", skip_bad);
            let (mut record, mut queries) = (Record::new(), 0);
            while matches!(records.next_into(&mut record), Ok(true)) {
                queries += record.request.queries();
            }
            let keys = (0..records.backends().len() as u16)
                .map(|backend| records.catalogue(robinhood_stats::BackendId(backend)) as usize);
            prop_assert!(queries + keys.sum::<usize>() <= bytes.len());
        }
    }

    #[test]
    fn random_bytes_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 1..300), open in any::<bool>()) {
        if open {
            bytes.splice(..0, *b"\x89RHT\r\n\x1a\x01");
        }
        prop_assert!(!message(&bytes).is_empty());
    }
}

/// A line but for its sizes: a change of size that is lost with its block is not known later.
fn without_sizes(line: &str) -> String {
    let parts: Vec<&str> = line.split("\"S\": [").collect();
    let kept = parts[1..].iter().map(|part| part.split_once(']').expect("the list ends").1);
    std::iter::once(parts[0]).chain(kept).collect()
}

/// The message of a reader that must not find the end of the trace.
fn message_of(bytes: &[u8]) -> String {
    match convert(bytes, TraceFormat::JsonLines, 1) {
        Err(error) => error.to_string(),
        Ok(_) => String::new(),
    }
}

fn damage(bytes: &mut Vec<u8>, place: usize, kind: u8, byte: u8) {
    if place >= bytes.len() {
        return;
    }
    match kind {
        0 => bytes[place] ^= byte,
        1 => bytes.truncate(place),
        2 => bytes.insert(place, byte),
        3 => _ = bytes.remove(place),
        _ => {
            let copied = bytes[place..].iter().take(usize::from(byte)).copied().collect::<Vec<_>>();
            bytes.splice(place..place, copied);
        }
    }
}

fn push_block(bytes: &mut Vec<u8>, payload: &[u8], requests: u32, first_request: u64) {
    let mut head = vec![0x8a, b'R', b'H', b'B'];
    head.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    head.extend_from_slice(&requests.to_le_bytes());
    head.extend_from_slice(&first_request.to_le_bytes());
    head.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(payload);
}

#[test]
fn a_damaged_block_costs_its_requests_and_those_that_ask_for_keys_it_introduced() {
    let lines = six_lines();
    let mut bytes = binary(&lines.concat(), 2);
    let heads = heads(&bytes);
    assert_eq!(heads.len(), 4);
    bytes[heads[1] - 1] ^= 1; // the last byte of the first block
    let expected = "t, block 1, byte 8: the block is damaged: its checksum is ";
    assert!(message(&bytes).starts_with(expected), "{}", message(&bytes));
    // `a` to `c` are lost, which all later requests ask for, but the one for `d` alone.
    assert_eq!(rescued(&bytes), (lines[2].clone(), 1, 5));
    bytes[heads[1] - 1] ^= 1;
    bytes[heads[1] + 3] ^= 1; // the mark of the second block
    let expected = format!("t, block 2, byte {}: the head of the block is damaged", heads[1]);
    assert!(message(&bytes).starts_with(&expected), "{}", message(&bytes));
    let kept = [0, 1, 4, 5].map(|place: usize| lines[place].as_str()).concat();
    assert_eq!(rescued(&bytes), (kept, 1, 2), "`d` is lost, and nobody asks for it later");
}

#[test]
fn a_block_that_is_missing_or_there_twice_is_found_and_the_others_are_read() {
    let lines = six_lines();
    let bytes = binary(&lines.concat(), 2);
    let heads = heads(&bytes);
    let missing = [&bytes[..heads[1]], &bytes[heads[2]..]].concat();
    assert!(message(&missing).contains("begins with request 4 where 2 is next"), "{missing:?}");
    let kept = [0, 1, 4, 5].map(|place: usize| lines[place].as_str()).concat();
    assert_eq!(rescued(&missing), (kept, 1, 2));
    let twice = [&bytes[..heads[2]], &bytes[heads[1]..]].concat();
    assert!(message(&twice).contains("begins with request 2 where 4 is next"), "{twice:?}");
    assert_eq!(rescued(&twice), (lines.concat(), 1, 0));
}

#[test]
fn a_file_without_end_mark_gives_its_complete_blocks() {
    let lines = six_lines();
    let bytes = binary(&lines.concat(), 2);
    let heads = heads(&bytes);
    let cut = &bytes[..heads[2] + 40];
    assert!(message(cut).contains(&format!("block 3, byte {}", heads[2])), "{}", message(cut));
    assert_eq!(rescued(cut), (lines[..4].concat(), 1, 0));
    let longer = [&bytes, &b"x"[..]].concat();
    assert!(message(&longer).contains("bytes follow the end mark"));
    assert_eq!(rescued(&longer), (lines.concat(), 1, 0));
}

#[test]
fn a_binary_trace_without_requests_is_refused_as_a_stream() {
    let bytes = TraceWriter::new(Vec::new(), TraceFormat::Binary).finish().unwrap();
    assert_eq!(bytes.len(), 8 + 28);
    let mut stream = TraceReader::new(&bytes[..], "empty.rht", TraceOptions::default());
    let error = stream.next_into(&mut Request::new()).unwrap_err().to_string();
    assert!(error.starts_with("empty.rht: the trace has no request"), "{error}");
}

#[test]
fn what_a_head_claims_takes_no_memory() {
    let mut bytes = b"\x89RHT\r\n\x1a\x01".to_vec();
    let mut head = vec![0x8a, b'R', b'H', b'B'];
    head.extend_from_slice(&u32::MAX.to_le_bytes());
    head.extend_from_slice(&[0; 16]);
    head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
    bytes.extend_from_slice(&head);
    assert!(message(&bytes).contains("claims 4294967295 bytes: at most 33554432"));
    // A directory with more keys than the blocks before it have bytes.
    let mut bytes = b"\x89RHT\r\n\x1a\x01".to_vec();
    push_block(&mut bytes, b"damaged", 1, 0);
    push_block(&mut bytes, b"\x01\x01a\xff\xff\xff\xff\x0f\x00\x00", 1, 1);
    let mut records = TraceRecords::new(&bytes[..], "t", true);
    assert_eq!(records.next_into(&mut Record::new()), Ok(false));
    assert_eq!((records.skipped(), records.backends().len()), (3, 0), "and there is no end mark");
}

use std::fmt::Write as _;

use robinhood_stats::{BackendId, Instant, Nanos, Rate};

use super::*;
use crate::generate::Generator;
use crate::presets;
use crate::request::{Request, RequestStream};

fn reader(text: &str, options: TraceOptions) -> TraceReader<&[u8]> {
    TraceReader::new(text.as_bytes(), "t.jsonl", options)
}

fn read_all<S: RequestStream>(stream: &mut S) -> Result<Vec<Request>, TraceError> {
    let mut all = Vec::new();
    let mut request = Request::new();
    while stream.next_into(&mut request)? {
        all.push(request.clone());
    }
    Ok(all)
}

const GOOD: &str = r#"{"t": 0, "d": [{"a": {"S": [5, 6], "U": ["x", "y"], "C": [1, 0]}, "b": {"S": [7], "U": ["x"], "C": [1]}}]}"#;

#[test]
fn a_line_becomes_stages_of_batches_with_dense_keys() {
    let text = format!(
        "{GOOD}\n{}\n",
        r#"{"t": 2.5, "d": [{"a": {"S": [6], "U": ["y"], "C": [1]}}, {"b": {"S": [9], "U": ["z"], "C": [1]}}]}"#
    );
    let mut stream = reader(&text, TraceOptions::default());
    let all = read_all(&mut stream).unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!((all[0].due, all[1].due), (Instant::ZERO, Instant(2_500_000_000)));
    assert_eq!((all[0].stage_count(), all[1].stage_count()), (1, 2));
    let batch = &all[0].stage(0)[0];
    assert_eq!(all[0].keys(batch), [crate::Key(0), crate::Key(1)]);
    assert_eq!(all[0].cacheable(batch), [true, false]);
    let second = &all[1].stage(1)[0];
    assert_eq!(all[1].keys(second), [crate::Key(1)]);
    assert_eq!(stream.value_bytes(second.backend, crate::Key(1)), 9);
    let names: Vec<&str> = stream.backends().iter().map(|n| n.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(stream.catalogue(second.backend), 2);
}

#[test]
fn a_bad_line_is_refused_with_file_line_key_and_what_is_allowed() {
    let cases: [(&str, &[&str]); 15] = [
        ("nonsense", &["not JSON", "\"t\": seconds"]),
        (r#"{"t": 1"#, &["not JSON"]),
        (r#"{"d": []}"#, &["missing field `t`"]),
        (r#"{"t": 1}"#, &["missing field `d`"]),
        (r#"{"t": 1, "d": [], "x": 0}"#, &["unknown field `x`", "`t` or `d`"]),
        (r#"{"t": "now", "d": []}"#, &["`t` is allowed to be a time in seconds"]),
        (r#"{"t": -1, "d": []}"#, &["`t`", "from 0 up", "found -1"]),
        (
            r#"{"t": 1, "d": [{"a": {"S": [1], "U": ["k"]}}]}"#,
            &["backend `a`", "missing field `C`"],
        ),
        (
            r#"{"t": 1, "d": [{"a": {"S": [1], "U": ["k"], "C": [1], "X": 1}}]}"#,
            &["backend `a`", "unknown field `X`", "`S`, `U`, `C`"],
        ),
        (
            r#"{"t": 1, "d": [{"a": {"S": [-4], "U": ["k"], "C": [1]}}]}"#,
            &["backend `a`", "`S`", "from 0 to 4294967295", "`-4`"],
        ),
        (r#"{"t": 1, "d": [{"a": {"S": [1], "U": [7], "C": [1]}}]}"#, &["`U`", "a list of keys"]),
        (
            r#"{"t": 1, "d": [{"a": {"S": [1], "U": ["k"], "C": [2]}}]}"#,
            &["`C`", "0 (not", "found 2"],
        ),
        (
            r#"{"t": 1, "d": [{"a": {"S": [1, 2], "U": ["k"], "C": [1]}}]}"#,
            &["backend `a`", "`S` has 2", "`U` 1", "`C` 1"],
        ),
        (
            r#"{"t": 1, "d": [{"Ä B": {"S": [1], "U": ["k"], "C": [1]}}]}"#,
            &["`Ä B`", "a-z 0-9 . _ -"],
        ),
        (
            r#"{"t": 1, "d": [{"a": {"S": [], "U": [], "C": []}, "a": {"S": [], "U": [], "C": []}}]}"#,
            &["backend `a`", "twice"],
        ),
    ];
    for (bad, words) in cases {
        let text = format!("{GOOD}\n\n{bad}\n");
        let message =
            read_all(&mut reader(&text, TraceOptions::default())).unwrap_err().to_string();
        assert!(message.starts_with("t.jsonl, line 3: "), "{message}");
        assert!(!message.contains("at line"), "{message}");
        assert!(!message.contains('\n'), "{message}");
        for word in words {
            assert!(message.contains(word), "{word:?} is not in {message:?}");
        }
    }
}

#[test]
fn time_that_goes_back_is_refused() {
    let text = format!("{}\n{GOOD}\n", GOOD.replace("\"t\": 0", "\"t\": 3"));
    let message = read_all(&mut reader(&text, TraceOptions::default())).unwrap_err().to_string();
    assert!(message.contains("line 2: `t` is 0 s after 3 s"), "{message}");
}

#[test]
fn a_trace_without_requests_is_refused() {
    for text in ["", "\n\n"] {
        let message = read_all(&mut reader(text, TraceOptions::default())).unwrap_err().to_string();
        assert!(message.starts_with("t.jsonl: the trace has no request"), "{message}");
    }
    let skipping = TraceOptions { skip_bad: true, ..TraceOptions::default() };
    assert!(read_all(&mut reader("x\ny\n", skipping)).is_err());
}

#[test]
fn skipped_lines_are_counted_and_the_rest_is_read() {
    let text =
        format!("{GOOD}\nnonsense\n{{\"t\": 1}}\n{}\n", GOOD.replace("\"t\": 0", "\"t\": 1"));
    let mut stream = reader(&text, TraceOptions { skip_bad: true, ..TraceOptions::default() });
    assert_eq!(read_all(&mut stream).unwrap().len(), 2);
    assert_eq!(stream.skipped(), 2);
}

#[test]
fn a_line_that_is_not_utf8_is_one_bad_line() {
    let mut text = format!("{GOOD}\n").into_bytes();
    text.extend_from_slice(b"{\"t\": 1, \"d\": [], \xff}\n");
    text.extend_from_slice(GOOD.replace("\"t\": 0", "\"t\": 1").as_bytes());
    let message = |options| read_all(&mut TraceReader::new(&text[..], "t.jsonl", options));
    let refused = message(TraceOptions::default()).unwrap_err().to_string();
    assert!(refused.starts_with("t.jsonl, line 2: column 19: not JSON (not UTF-8)"), "{refused}");
    let skipping = TraceOptions { skip_bad: true, ..TraceOptions::default() };
    assert_eq!(message(skipping).unwrap().len(), 2);
}

#[test]
fn a_skipped_line_leaves_nothing_behind() {
    let batch = |name: &str| format!(r#""{name}": {{"S": [1], "U": ["new"], "C": [1]}}"#);
    let line =
        |t, batches: &[String]| format!("{{\"t\": {t}, \"d\": [{{{}}}]}}\n", batches.join(", "));
    let bad_name = line(1, &[batch("a"), batch("c"), batch("B")]);
    let many: Vec<String> = (0..1_023).map(|i| batch(&format!("n{i}"))).collect();
    let too_many = line(1, &many);
    let text = format!("{GOOD}\n{bad_name}{too_many}{}", line(1, &many[1..]));
    let mut stream = reader(&text, TraceOptions { skip_bad: true, ..TraceOptions::default() });
    let all = read_all(&mut stream).unwrap();
    assert_eq!((all.len(), stream.skipped()), (2, 2));
    assert_eq!(stream.backends().len(), 1_024, "those of the good lines");
    assert_eq!((stream.backends()[2].as_str(), stream.backends()[1_023].as_str()), ("n1", "n1022"));
    assert_eq!(stream.catalogue(BackendId(0)), 2, "no key of the skipped line");
}

#[test]
fn a_stage_of_too_many_batches_is_refused_before_its_end() {
    let batches: Vec<String> =
        (0..1_025).map(|i| format!(r#""n{i}": {{"S": [], "U": [], "C": []}}"#)).collect();
    let text = format!("{{\"t\": 0, \"d\": [{{{}, \"C\": nonsense", batches.join(", "));
    let message = read_all(&mut reader(&text, TraceOptions::default())).unwrap_err().to_string();
    assert!(message.contains("backend `n1024`: one more than the 1024 batches"), "{message}");
}

#[test]
fn requests_of_equal_time_are_spread_inside_the_step_by_the_seed() {
    let mut text = String::new();
    for t in [0, 0, 0, 0, 10, 20, 20] {
        writeln!(text, "{}", GOOD.replace("\"t\": 0", &format!("\"t\": {t}"))).unwrap();
    }
    let due = |options| -> Vec<f64> {
        let all = read_all(&mut reader(&text, options)).unwrap();
        all.iter().map(|request| request.due.as_secs_f64()).collect()
    };
    let recorded = due(TraceOptions::default());
    assert!(recorded.is_sorted(), "{recorded:?}");
    assert!(recorded[3] < 10.0 && recorded[1] > 0.0 && recorded[0] != recorded[1]);
    assert!((recorded[4] - 10.0).abs() < 1e-9);
    assert!((20.0..30.0).contains(&recorded[5]) && recorded[6] < 30.0);
    assert_eq!(recorded, due(TraceOptions::default()));
    assert_ne!(recorded, due(TraceOptions { seed: 2, ..TraceOptions::default() }));
    let faster = TraceOptions { speed: TraceSpeed::TimeScale(10.0), ..TraceOptions::default() };
    assert!((due(faster)[4] - 1.0).abs() < 1e-6);
}

#[test]
fn a_rate_replaces_the_recorded_times() {
    let text = format!("{GOOD}\n").repeat(5_000);
    let options = TraceOptions {
        speed: TraceSpeed::Rate(Rate(100.0)),
        servers: 2,
        ..TraceOptions::default()
    };
    let all = read_all(&mut reader(&text, options)).unwrap();
    let rate = 5_000.0 / all[4_999].due.as_secs_f64();
    assert!((rate / 100.0 - 1.0).abs() < 0.06, "{rate}");
    let first = all.iter().filter(|request| request.app_server == 0).count();
    assert!((2_300..2_700).contains(&first), "{first}");
}

#[test]
fn a_written_trace_reads_back_as_the_same_requests() {
    let workload = presets::demo(Nanos::from_secs(60));
    let mut stream = Generator::new(&workload, 3).unwrap();
    let mut writer = TraceWriter::new(Vec::new(), TraceFormat::JsonLines);
    let mut written = Vec::new();
    let mut request = Request::new();
    for _ in 0..500 {
        stream.generate(&mut request);
        writer.write(&request, &stream).unwrap();
        written.push(request.clone());
    }
    let bytes = writer.finish().unwrap();
    let mut again = TraceReader::new(&bytes[..], "own", TraceOptions::default());
    let read = read_all(&mut again).unwrap();
    assert_eq!(read.len(), 500);
    let first_due = written[0].due;
    for (a, b) in written.iter().zip(&read) {
        assert!(a.due.since(first_due).0.abs_diff(b.due.0) <= 1_000, "{:?} {:?}", a.due, b.due);
        assert_eq!((a.queries(), a.stage(0).len()), (b.queries(), b.stage(0).len()));
        for (x, y) in a.stage(0).iter().zip(b.stage(0)) {
            assert_eq!(stream.backends()[x.backend.index()], again.backends()[y.backend.index()]);
            for (&j, &k) in a.keys(x).iter().zip(b.keys(y)) {
                assert_eq!(stream.value_bytes(x.backend, j), again.value_bytes(y.backend, k));
            }
        }
    }
}

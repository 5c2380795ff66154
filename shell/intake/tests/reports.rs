//! Posts as they come in, and what is counted of them.

use std::path::Path;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use robinhood_blocking::{BatchRecord, Blocker, Collector, CollectorConfig, Delta, Detail};
use robinhood_blocking::{Recorder, RecorderConfig, Report, Snapshot, Weight};
use robinhood_intake::{BODY_BYTES_MAX, Intake, LINES_MAX, Receipt, router};
use robinhood_stats::{BackendId, Instant, Nanos};
use tower::ServiceExt;

fn intake() -> Intake {
    Intake::new(RecorderConfig { detail: Detail::All, ..RecorderConfig::default() })
}

fn snapshot(delta: &Delta) -> Snapshot {
    let mut collector = Collector::new(CollectorConfig::default()).unwrap();
    collector.handle_delta(Instant(1_000_000_000), delta).unwrap();
    collector.snapshot(Instant(1_000_000_000))
}

#[tokio::main(flavor = "current_thread")]
async fn post(intake: &Arc<Intake>, body: impl Into<Body>) -> (StatusCode, Receipt) {
    let request = Request::post("/v1/reports").body(body.into()).unwrap();
    let answer = router(intake.clone()).oneshot(request).await.unwrap();
    let status = answer.status();
    let body = to_bytes(answer.into_body(), 1 << 16).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

/// The line and the reason of the first refusal of these lines.
fn refused(lines: &str) -> (usize, String) {
    let refusal = intake().handle_lines(lines.as_bytes()).first_refused.expect("a line is refused");
    (refusal.line, refusal.reason)
}

#[test]
fn lines_count_as_a_recorder_in_the_process_would_count_them() {
    let lines = "\
        {\"latency_ms\": 12.3, \"blocking\": \"ratings\"}\n\
        {\"latency_ms\": 0.0015, \"own\": true, \"blocking\": null}\r\n\
        \n\
        {\"latency_ms\": 3, \"weight\": 2.5, \"backends\": {\"ads\": {\"queries\": 4, \"hits\": 1, \"failures\": 1, \"timeouts\": 2, \"latency_ms\": 2.75}}}\n\
        {\"latency_ms\": 3600000, \"blocking\": \"ads\", \"cancelled\": true}";
    let intake = intake();
    assert_eq!(
        intake.handle_lines(lines.as_bytes()),
        Receipt { accepted: 4, refused: 0, first_refused: None }
    );
    let mut expected =
        Recorder::new(RecorderConfig { detail: Detail::All, ..RecorderConfig::default() });
    let [ratings, ads] = ["ratings", "ads"].map(|name| expected.backend(&name.parse().unwrap()));
    let reports = [
        Report::complete(Nanos(12_300_000), Blocker::Backend(ratings)),
        Report::complete(Nanos(1_500), Blocker::Own),
        Report {
            weight: Weight::from_f64(2.5).unwrap(),
            ..Report::complete(Nanos(3_000_000), Blocker::Nobody)
        },
        Report::cancelled(Nanos::from_secs(3_600), Blocker::Backend(ads)),
    ];
    for report in reports {
        expected.record(report).unwrap();
    }
    let latency = Some(Nanos(2_750_000));
    let batch = BatchRecord { queries: 4, hits: 1, failures: 1, timeouts: 2, latency };
    expected.record_batch(BackendId(1), batch);
    assert_eq!(intake.take_delta(Nanos(7)), expected.take_delta(Nanos(7)));
    assert_eq!(intake.take_delta(Nanos(7)).reports, 0, "each report is handed out once");
}

#[test]
fn a_line_that_cannot_be_counted_says_why_and_counts_in_no_part() {
    let cases = [
        ("latency_ms", "expected"),
        ("{}", "missing field `latency_ms`"),
        ("{\"latency_ms\": -0.1}", "from 0 to 3600000"),
        ("{\"latency_ms\": 3600001}", "from 0 to 3600000"),
        ("{\"latency_ms\": 1e999}", "out of range"),
        ("{\"latency_ms\": 1, \"blocked\": \"a\"}", "unknown field `blocked`"),
        ("{\"latency_ms\": 1, \"blocking\": \"A b\"}", "cannot name a backend"),
        ("{\"latency_ms\": 1, \"blocking\": \"a\", \"own\": true}", "send one"),
        ("{\"latency_ms\": 1, \"weight\": 0}", "cannot weigh a report"),
        ("{\"latency_ms\": 1, \"weight\": 65537}", "cannot weigh a report"),
        ("{\"latency_ms\": 1, \"backends\": {\"a\": {}}}", "missing field `queries`"),
        (
            "{\"latency_ms\": 1, \"backends\": {\"a\": {\"queries\": 1, \"hits\": 2}}}",
            "2 hits of 1",
        ),
        (
            "{\"latency_ms\": 1, \"backends\": {\"a\": {\"queries\": 2, \"hits\": 1, \"timeouts\": 2}}}",
            "`a`: 2 timeouts of 1 misses",
        ),
        (
            "{\"latency_ms\": 1, \"backends\": {\"a\": {\"queries\": 1, \"hits\": 1, \"latency_ms\": 1}}}",
            "without a miss",
        ),
        (
            "{\"latency_ms\": 1, \"backends\": {\"a\": {\"queries\": 1, \"latency_ms\": -1}}}",
            "from 0 to 3600000",
        ),
        ("\u{fffd}", "expected"),
    ];
    for (line, reason) in cases {
        let (number, found) =
            refused(&format!("{{\"latency_ms\": 1}}\n{line}\n{{\"latency_ms\": 2}}"));
        assert!(number == 2 && found.contains(reason), "{line}: {number}: {found}");
    }
    let intake = intake();
    let good_batch = "{\"latency_ms\": -1, \"backends\": {\"a\": {\"queries\": 1}}}";
    assert_eq!(intake.handle_lines(good_batch.as_bytes()).refused, 1);
    let delta = intake.take_delta(Nanos::ZERO);
    assert!(delta.reports == 0 && delta.backends.is_empty(), "{delta:?}");
}

#[test]
fn what_is_too_long_is_refused_and_the_rest_counts() {
    let long = format!("{{\"latency_ms\": 1, \"blocking\": \"{}\"}}", "a".repeat(9_000));
    assert!(refused(&long).1.contains("at most 8192 bytes"));
    let many: Vec<String> = (0..65).map(|i| format!("\"b{i}\": {{\"queries\": 1}}")).collect();
    let many = format!("{{\"latency_ms\": 1, \"backends\": {{{}}}}}", many.join(", "));
    assert!(refused(&many).1.contains("at most 64 backends, not 65"));
    let lines = "{\"latency_ms\":1}\n".repeat(LINES_MAX + 3);
    let receipt = intake().handle_lines(lines.as_bytes());
    assert_eq!((receipt.accepted, receipt.refused), (LINES_MAX as u64, 3));
    assert_eq!(receipt.first_refused.unwrap().line, LINES_MAX + 1);
}

#[test]
fn names_beyond_the_table_count_as_other() {
    let intake = intake();
    for start in [0, 1_000] {
        let lines: Vec<String> = (start..start + 1_000)
            .map(|i| format!("{{\"latency_ms\": 1, \"blocking\": \"b{i}\"}}"))
            .collect();
        assert_eq!(intake.handle_lines(lines.join("\n").as_bytes()).accepted, 1_000);
    }
    let snapshot = snapshot(&intake.take_delta(Nanos::ZERO));
    assert_eq!(snapshot.requests, 2_000);
    assert!(snapshot.backends.len() <= 1_025, "{}", snapshot.backends.len());
    assert!(snapshot.backend("other").unwrap().rbc > 0.0);
}

#[test]
fn the_status_says_whether_anything_was_counted() {
    let intake = Arc::new(Intake::default());
    let good = "{\"latency_ms\": 1, \"blocking\": \"a\"}\n";
    let (status, receipt) = post(&intake, good.repeat(3));
    assert_eq!((status, receipt.accepted), (StatusCode::OK, 3));
    let (status, receipt) = post(&intake, format!("x\n{good}"));
    assert_eq!((status, receipt.accepted, receipt.refused), (StatusCode::OK, 1, 1));
    let (status, receipt) = post(&intake, "x");
    assert_eq!((status, receipt.refused), (StatusCode::BAD_REQUEST, 1));
    let (status, receipt) = post(&intake, "");
    assert_eq!((status, receipt), (StatusCode::OK, Receipt::default()));
    let (status, receipt) = post(&intake, good.repeat(BODY_BYTES_MAX / good.len() + 1));
    assert_eq!((status, receipt.accepted), (StatusCode::PAYLOAD_TOO_LARGE, 0));
    assert!(receipt.first_refused.unwrap().reason.contains("send less at once"));
    assert_eq!(intake.take_delta(Nanos::ZERO).reports, 4);
}

#[tokio::test]
async fn a_page_in_a_browser_cannot_report() {
    let request = Request::post("/v1/reports").header("origin", "http://127.0.0.1:7080");
    let request = request.body(Body::from("{\"latency_ms\": 1}")).unwrap();
    let intake = Arc::new(Intake::default());
    let answer = router(intake.clone()).oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    assert_eq!(intake.take_delta(Nanos::ZERO).reports, 0);
}

#[test]
fn the_page_about_the_format_is_true() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report-format.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = |language: &str| {
        let start = page.split(&format!("```{language}\n")).nth(1).expect("there is an example");
        start.split("```").next().unwrap().to_owned()
    };
    let intake = intake();
    let lines = example("jsonl");
    let receipt = intake.handle_lines(lines.as_bytes());
    assert_eq!((receipt.accepted, receipt.refused), (5, 0), "{receipt:?}");
    let snapshot = snapshot(&intake.take_delta(Nanos::ZERO));
    assert_eq!((snapshot.requests, snapshot.cancelled), (5, 1));
    let catalogue = snapshot.backend("catalogue").unwrap();
    assert_eq!((catalogue.queries, catalogue.hits, catalogue.misses), (3, 2, 1));

    let mut bad: Vec<&str> = lines.lines().collect();
    bad[2] = "{\"latency\": 0.8}";
    let receipt = serde_json::to_value(intake.handle_lines(bad.join("\n").as_bytes())).unwrap();
    let said: serde_json::Value = serde_json::from_str(&example("json")).unwrap();
    assert_eq!(receipt, said);
    for key in said["first_refused"]["reason"].as_str().unwrap().split('`').skip(3).step_by(2) {
        assert!(page.contains(&format!("| `{key}` |")), "{key} has no row");
    }
}

#[test]
fn a_line_that_would_make_the_delta_too_large_is_refused_alone() {
    let intake = intake();
    let line = "{\"latency_ms\": 1, \"backends\": {\"ads\": {\"queries\": 4000000000}}}\n";
    let receipt = intake.handle_lines(line.repeat(2).as_bytes());
    assert_eq!((receipt.accepted, receipt.refused), (1, 1));
    let refusal = receipt.first_refused.unwrap();
    assert_eq!(refusal.line, 2);
    assert!(refusal.reason.contains("`ads` has 4000000000 queries"), "{}", refusal.reason);
    assert_eq!(snapshot(&intake.take_delta(Nanos::ZERO)).requests, 1, "what was accepted counts");
    let receipt = intake.handle_lines(line.as_bytes());
    assert_eq!((receipt.accepted, receipt.refused), (1, 0), "the next delta has room again");
}

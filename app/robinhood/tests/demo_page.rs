//! The page of a running demo in a real browser.

#[expect(dead_code, reason = "the tests of other commands use more of it")]
mod support;

#[path = "../../../shell/dashboard/tests/dashboard/browser.rs"]
#[expect(dead_code, reason = "the tests of the dashboard use more of it")]
mod browser;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use browser::Browser;
use support::Running;

/// Curves with more than one point, by part of the page.
const DRAWN: &str =
    "['#p99 .line', '#rbc .area', '#cache .area', '#hits .line', '#backends-table tbody tr']
    .map((selector) => [...document.querySelectorAll(selector)]
        .filter((node) => (node.getAttribute('d')?.length ?? 99) > 40).length)";

#[test]
fn the_page_follows_a_demo_to_its_end() {
    let Some(mut browser) = Browser::open() else { return };
    let mut child = Command::new(env!("CARGO_BIN_EXE_robinhood"))
        .args(["demo", "--seconds", "10", "--port", "0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut error = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut child = Running(child);
    let home = error
        .by_ref() // it stays open: the demo has more to say
        .map(Result::unwrap)
        .find_map(|line| line.strip_prefix("page: ").map(str::to_owned))
        .expect("the demo says where its page is");
    browser.goto(&home);
    browser.wait("document.querySelectorAll('#decisions > *').length > 1");
    browser.wait("document.getElementById('phase').textContent.startsWith('running: ')");
    let top = support::robinhood(&["top", "--target", home.trim_matches(|c| "htp:/".contains(c))]);
    let top = String::from_utf8(top.stdout).unwrap();
    for part in ["all backends at full capacity", "shared: ", "robinhood: ", "ranking", "cpu "] {
        assert!(top.contains(part), "{part} is missing in\n{top}");
    }
    browser.wait("document.getElementById('link').dataset.state === 'over'");
    assert_eq!(browser.evaluate(DRAWN), serde_json::json!([2, 12, 12, 12, 6]));
    let headline = browser.evaluate("document.getElementById('headline').textContent");
    let headline = headline.as_str().unwrap();
    for part in ["P99 of shared", "P99 of robinhood", " ms", "the objective of ", "Moved so far"] {
        assert!(headline.contains(part), "{part} is missing in {headline}");
    }
    let problems = browser.problems(&home);
    let is_the_end =
        |problem: &String| problem.contains("net::ERR_") && problem.contains("/v1/events");
    assert!(problems.iter().all(is_the_end), "{problems:?}");
    let ended = child.0.wait().unwrap().code();
    assert!(
        matches!(ended, Some(0 | 1)),
        "a demo this short may rightly end as not valid: {ended:?}"
    );
}

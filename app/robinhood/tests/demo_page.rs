//! The page of a running demo in a real browser.
//!
//! With ROBINHOOD_SCREENSHOTS=FOLDER the demo takes its two minutes, and the pictures of the documentation are written there.

#[expect(dead_code, reason = "the tests of other commands use more of it")]
mod support;

#[path = "../../../shell/dashboard/tests/dashboard/browser.rs"]
mod browser;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

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
    let screenshots = std::env::var_os("ROBINHOOD_SCREENSHOTS");
    let mut child = Command::new(env!("CARGO_BIN_EXE_robinhood"))
        .args([
            "demo",
            "--seconds",
            if screenshots.is_some() { "120" } else { "20" },
            "--port",
            "0",
        ])
        .stdout(Stdio::piped())
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
    for part in ["shared: ", "robinhood: ", "ranking", "cpu "] {
        assert!(top.contains(part), "{part} is missing in\n{top}");
    }
    if let Some(folder) = screenshots {
        std::thread::sleep(Duration::from_secs(75)); // the second of three slow backends
        take_pictures(&mut browser, Path::new(&folder));
    }
    browser.press("p");
    browser.wait("document.querySelector('#controls button').textContent === 'Resume'");
    browser.press("p");
    browser.wait("document.querySelector('#controls button').textContent === 'Pause'");
    browser.wait("document.getElementById('link').dataset.state === 'over'");
    assert_eq!(browser.evaluate(DRAWN), serde_json::json!([2, 12, 12, 12, 6]));
    let headline = browser.evaluate("document.getElementById('headline').textContent");
    let headline = headline.as_str().unwrap().replace('\u{a0}', " ");
    for part in ["P99 of shared", "P99 of robinhood", " ms", "the objective, ", "Moved so far"] {
        assert!(headline.contains(part), "{part} is missing in {headline}");
    }
    let problems = browser.problems(&home);
    let is_the_end =
        |problem: &String| problem.contains("net::ERR_") && problem.contains("/v1/events");
    assert!(problems.iter().all(is_the_end), "{problems:?}");
    let mut said = String::new();
    child.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("switched 2 times by hand"), "{said}");
    let ended = child.0.wait().unwrap().code();
    assert!(
        matches!(ended, Some(0 | 1)),
        "a demo this short may rightly end as not valid: {ended:?}"
    );
}

fn take_pictures(browser: &mut Browser, folder: &Path) {
    for (name, width, height, scheme) in [
        ("light", 1200, 900, "light"),
        ("dark", 1200, 900, "dark"),
        ("narrow", 390, 1100, "light"),
        ("whole", 1200, 2300, "light"),
    ] {
        browser.look(width, height, scheme);
        std::thread::sleep(Duration::from_millis(800)); // it draws at most three times a second
        browser.screenshot(&folder.join(format!("dashboard-{name}.png")));
    }
}

//! The page in a browser: it draws everything, follows, comes back after a restart, obeys keys, and asks nobody else.
//!
//! With ROBINHOOD_SCREENSHOTS=FOLDER the picture of many backends in the documentation is written there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use robinhood_controller::Mode;
use robinhood_dashboard::{Action, Command, Dashboard, DashboardConfig};
use serde_json::json;

use crate::browser::Browser;
use crate::synthetic::Synthetic;

/// What is drawn: curves with more than one point in each part, spans, and the rule.
const DRAWN: &str = "(() => {
    const drawn = (selector) => [...document.querySelectorAll(selector)]
        .filter((path) => path.getAttribute('d').length > 40 && !path.getAttribute('d').includes('NaN')).length;
    return {
        p99: drawn('#p99 path.line'), rule: document.querySelectorAll('#p99 .rule').length,
        spans: document.querySelectorAll('#p99 .span').length,
        rbc: drawn('#rbc path.area'), cache: drawn('#cache path.area'), hits: drawn('#hits path.line'),
        rows: document.querySelectorAll('#backends-table tbody tr').length,
        chips: document.querySelectorAll('#legend button').length,
    };
})()";

fn serve(port: u16, source: &Arc<Synthetic>) -> Dashboard {
    let config = DashboardConfig { port, look: Duration::from_millis(25) };
    Dashboard::start(&config, source.clone()).unwrap()
}

fn picture(browser: &mut Browser) {
    let Some(folder) = std::env::var_os("ROBINHOOD_SCREENSHOTS") else { return };
    browser.look(1200, 900, "light");
    browser.evaluate("scrollTo(0, document.getElementById('hits').offsetTop - 170)");
    std::thread::sleep(Duration::from_millis(400)); // sizes settle
    browser.screenshot(&Path::new(&folder).join("dashboard-200-backends.png"));
}

#[test]
fn the_page_draws_every_curve_follows_obeys_keys_and_survives_a_restart() {
    let Some(mut browser) = Browser::open() else { return };
    let source = Arc::new(Synthetic::new(6, 196));
    let dashboard = serve(0, &source);
    let (home, port) = (dashboard.url(), dashboard.address().port());
    browser.look(1280, 1000, "light");
    browser.goto(&home);
    browser.wait("document.documentElement.dataset.updates >= 3");
    browser.wait("document.getElementById('clock').textContent.startsWith('98\u{a0}s')");
    let drawn = browser.evaluate(DRAWN);
    let all = json!({
        "p99": 2, "rule": 1, "spans": 3, "rbc": 12, "cache": 12, "hits": 12, "rows": 6, "chips": 6
    });
    assert_eq!(drawn, all);
    let headline = browser.evaluate("document.getElementById('headline').textContent");
    let headline = headline.as_str().unwrap().replace('\u{a0}', " ");
    for part in [
        "P99 of shared",
        "the objective, 42.0 ms",
        "\u{2713} meets",
        "Blocks the tail of robinhood",
        "reviews",
    ] {
        assert!(headline.contains(part), "{part} is missing in {headline}");
    }
    assert_eq!(browser.problems(&home), [""; 0]);

    obeys_keys(&mut browser, &source);
    drop(dashboard);
    browser.wait("document.documentElement.dataset.link === 'lost'");
    assert_eq!(browser.evaluate("document.querySelector('#controls button').disabled"), true);
    let run = browser.evaluate("document.documentElement.dataset.run");
    let again = Arc::new(Synthetic::new(6, 40));
    let _dashboard = serve(port, &again);
    browser.wait(&format!("document.documentElement.dataset.run !== {run}"));
    browser.wait("document.getElementById('clock').textContent.startsWith('20\u{a0}s')");
    assert_eq!(browser.evaluate("document.documentElement.dataset.link"), "live");
    assert_eq!(browser.evaluate(DRAWN)["rbc"], 12);
    let problems = browser.problems(&home);
    let is_outage =
        |problem: &String| problem.contains("net::ERR_") && problem.contains("/v1/events");
    assert!(problems.iter().all(is_outage), "{problems:?}");
}

fn obeys_keys(browser: &mut Browser, source: &Synthetic) {
    browser.press("p");
    browser.wait("document.querySelector('#controls button').textContent === 'Resume'");
    browser.press("a");
    browser.wait("document.querySelectorAll('#controls button')[1].textContent === 'Act'");
    let pause = Action::Pause { reason: "from the dashboard".to_owned() };
    let told = [pause, Action::Advise].map(|action| Command { stack: None, action });
    assert_eq!(source.commands(), told);
    assert_eq!(source.control().mode, Mode::Advise);
    browser.evaluate("document.querySelector('#p99 .chart').focus()");
    browser.press("ArrowLeft");
    let readout = browser.evaluate("document.querySelector('#p99 .readout').textContent");
    assert!(readout.as_str().unwrap().contains("robinhood"), "{readout}");
    browser.press("Escape");
    assert_eq!(browser.evaluate("document.querySelector('#p99 .readout').hidden"), true);
}

#[test]
fn two_hundred_backends_stay_readable_and_a_phone_needs_no_scrolling_sideways() {
    let Some(mut browser) = Browser::open() else { return };
    let source = Arc::new(Synthetic::new(200, 196));
    let dashboard = serve(0, &source);
    let home = dashboard.url();
    browser.look(1280, 1000, "light");
    browser.goto(&home);
    browser.wait("document.documentElement.dataset.updates >= 3");
    browser.wait("document.getElementById('clock').textContent.startsWith('98\u{a0}s')");
    let drawn = browser.evaluate(DRAWN);
    assert_eq!([&drawn["rbc"], &drawn["hits"], &drawn["rows"], &drawn["chips"]], [16, 14, 12, 8]);
    let rows = "document.querySelectorAll('#backends-table tbody tr').length";
    browser.evaluate("document.querySelector('#backends-tools button').click()");
    browser.wait(&format!("{rows} === 200"));
    browser.evaluate("document.querySelector('#backends-tools button').click()");
    browser.press("/");
    assert_eq!(browser.evaluate("document.activeElement.id"), "filter");
    browser.call("Input.insertText", &json!({"text": "ranking-004"}));
    browser.wait(&format!("{rows} === 1"));
    browser.evaluate("document.activeElement.blur()");
    browser.evaluate("filter.value = ''; filter.dispatchEvent(new Event('input'))");
    picture(&mut browser);
    for width in [360, 820] {
        browser.look(width, 800, "light");
        browser.wait("document.documentElement.scrollWidth <= innerWidth");
    }
    assert_eq!(browser.problems(&home), [""; 0]);
}

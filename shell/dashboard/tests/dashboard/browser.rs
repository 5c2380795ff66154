//! A headless Chromium, driven over its DevTools protocol through a pair of pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

const PROGRAMS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const FLAGS: [&str; 15] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "about:blank",
];
const PATIENCE: Duration = Duration::from_secs(40);

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    output: Receiver<Value>,
    session: Option<String>,
    next_id: u64,
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts one; without a browser on this machine says so and gives none.
    pub(crate) fn open() -> Option<Self> {
        let Some(program) = PROGRAMS.into_iter().find(|program| is_there(program)) else {
            eprintln!("skipped: this test needs chromium (on Debian: apt-get install chromium)");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            // The protocol is on the descriptors 3 and 4.
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1"#, program])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(FLAGS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, output) = channel();
        let mut pipe = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while pipe.read_until(0, &mut bytes).is_ok_and(|read| read > 0) {
                bytes.pop();
                let message = serde_json::from_slice(&bytes).expect("the protocol speaks JSON");
                if sender.send(message).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
        let input = child.stdin.take().unwrap();
        let mut browser = Self {
            child,
            input,
            output,
            session: None,
            next_id: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let page = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", &attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol and gives its result.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.next_id += 1;
        let mut message = json!({"id": self.next_id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        write!(self.input, "{message}\0").unwrap();
        let begin = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            let answer = match self.output.recv_timeout(left) {
                Ok(answer) => answer,
                Err(RecvTimeoutError::Timeout) => panic!("{method} has no answer"),
                Err(RecvTimeoutError::Disconnected) => panic!("the browser ended at {method}"),
            };
            if answer["id"] == json!(self.next_id) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    pub(crate) fn goto(&mut self, url: &str) {
        self.call("Page.navigate", &json!({"url": url}));
    }

    /// The value of an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let call = json!({"expression": expression, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", &call);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until a condition holds in the page.
    pub(crate) fn wait(&mut self, condition: &str) {
        let begin = Instant::now();
        // Between two pages there is nothing to ask.
        let tried = format!(
            "(() => {{ try {{ return Boolean({condition}) }} catch {{ return false }} }})()"
        );
        while self.evaluate(&tried) != json!(true) {
            if begin.elapsed() > PATIENCE {
                let body = self.evaluate("document.body.innerText");
                panic!("never: {condition}\n{body}\n{:?}", self.problems(""));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses a key and lets it go.
    pub(crate) fn press(&mut self, key: &str) {
        for kind in ["rawKeyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", &json!({"type": kind, "key": key}));
        }
    }

    /// The size of the window, and light or dark.
    pub(crate) fn look(&mut self, width: u32, height: u32, scheme: &str) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Writes what is in the window as a PNG file.
    pub(crate) fn screenshot(&mut self, path: &Path) {
        let picture = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        let png = BASE64_STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        std::fs::write(path, png).unwrap();
    }

    /// Errors in the console and in the page's code so far, and requests to anything but `home`.
    pub(crate) fn problems(&mut self, home: &str) -> Vec<String> {
        self.evaluate("1"); // what was said before is here now
        let mut problems = Vec::new();
        for event in self.events.drain(..) {
            let what = &event["params"];
            match event["method"].as_str() {
                Some("Runtime.exceptionThrown") => problems.push(what.to_string()),
                Some("Runtime.consoleAPICalled") if what["type"] != "log" => {
                    problems.push(what.to_string());
                }
                Some("Log.entryAdded") if what["entry"]["level"] == "error" => {
                    problems.push(what["entry"].to_string());
                }
                Some("Network.requestWillBeSent") => {
                    let url = what["request"]["url"].as_str().unwrap();
                    if !url.starts_with(home) {
                        problems.push(format!("a request to {url}"));
                    }
                }
                _ => {}
            }
        }
        problems
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_there(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

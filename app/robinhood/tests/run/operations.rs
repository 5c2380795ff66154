//! What operators do: check a file, reload it, pause, ask for reasons, and let Prometheus scrape.

use std::fs::File;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::*;

/// A run with a cache of its own, on ports of its own, whose log is kept.
struct Service {
    folder: tempfile::TempDir,
    process: Running,
    reports: String,
    page: String,
}

impl Service {
    fn start(mode: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("robinhood.toml");
        std::fs::write(&file, Self::text(mode, "")).unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_robinhood"))
            .args(["run", "--config", path(&file)])
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut server = Server { process: Running(child), output };
        server.said("listening on ");
        let reports = server.said("reports and figures at http://");
        let page = server.said("page at http://").trim_end_matches('/').to_owned();
        Self { folder, process: server.process, reports, page }
    }

    fn text(mode: &str, more: &str) -> String {
        format!(
            "[cache]\npartitions = [\"fast\", \"slow\"]\nbudget = \"64MiB\"\nlisten = [\"127.0.0.1:0\"]\n\
             [controller]\nmode = \"{mode}\"\nperiod = \"100ms\"\n{more}\
             [http]\nlisten = \"127.0.0.1:0\"\npage_port = 0\n[log]\nformat = \"json\"\n"
        )
    }

    /// Writes the file anew and sends the signal of a reload; until the log says `answer` in a new line.
    fn reload(&self, text: &str, answer: &str) {
        let told = || self.log().matches(answer).count();
        let before = told();
        std::fs::write(self.folder.path().join("robinhood.toml"), text).unwrap();
        let pid = Pid::from_raw(i32::try_from(self.process.0.id()).unwrap());
        kill(pid, Signal::SIGHUP).unwrap();
        until(|| told() > before, || self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// The page looks twice a second.
    fn until_shown(&self, key: &str, value: &Value) {
        until(|| self.stack()["control"][key] == *value, || self.stack().to_string());
    }

    fn stack(&self) -> Value {
        http(&self.page, "GET /v1/state", "")["state"]["stacks"][0].clone()
    }
}

fn until(done: impl Fn() -> bool, state: impl Fn() -> String) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "{}", state());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_reload_changes_what_can_change_and_a_bad_file_changes_nothing() {
    let service = Service::start("advise");
    service.until_shown("mode", &"advise".into());
    let active = Service::text("active", "objective = \"20ms\"\n");
    service.reload(&active, "reload: changed controller.mode, controller.objective");
    service.until_shown("mode", &"active".into());
    let shown = http(&service.page, "GET /v1/state", "");
    assert_eq!(shown["state"]["objective_ms"], 20.0);
    service.reload(&active.replace("active", "actve"), "did you mean `active`?");
    service.reload(&active.replace("64MiB", "65MiB"), "takes a restart: [cache]");
    service.reload(&active, "the file says what runs already");
    service.until_shown("mode", &"active".into());
    let mut service = service;
    assert_eq!(service.process.interrupt(), Some(0));
    for line in service.log().lines() {
        let event: Value = serde_json::from_str(line).expect("every line is JSON");
        assert!(event["timestamp"].is_string() && event["level"].is_string(), "{line}");
    }
}

#[test]
fn commands_pause_resume_and_say_why() {
    let service = Service::start("active");
    let command = |arguments: &[&str]| {
        let output = robinhood(&[arguments, &["--target", &service.page]].concat());
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        said
    };
    until(|| service.stack()["decisions"][0].is_object(), || service.stack().to_string());
    assert!(command(&["explain"]).contains("robinhood:"), "a policy's decision");
    command(&["pause", "--reason", "a deployment"]);
    service.until_shown("paused", &"a deployment".into());
    let held = || command(&["explain", "--last", "64"]).matches("a deployment").count() > 1;
    until(held, || service.stack().to_string());
    let (code, error) = refused(&["explain", "--target", &service.page, "fest"]);
    assert!(code == 2 && error.contains("fast"), "{error}");
    command(&["resume"]);
    service.until_shown("paused", &Value::Null);
    drop(service);
    let (code, error) = refused(&["pause", "--target", "127.0.0.1:1"]);
    assert!(code == 1 && error.contains("nothing to see at 127.0.0.1:1"), "{error}");
}

#[test]
fn check_says_what_a_file_would_run_or_all_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let [good, bad] = ["good.toml", "bad.toml"].map(|name| folder.path().join(name));
    std::fs::write(&good, Service::text("advise", "")).unwrap();
    std::fs::write(&bad, Service::text("advise", "peroid = \"5s\"\n")).unwrap();
    let output = robinhood(&["check", path(&good)]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("good: a cache server of 64.0 MiB"), "{said}");
    let output = robinhood(&["check", path(&bad), path(&good), "/nowhere.toml"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{error}");
    let place = format!("{}:8: unknown field `peroid`", bad.display());
    for part in [place.as_str(), "did you mean `period`?", "  8 | peroid", "/nowhere.toml: "] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(String::from_utf8(output.stdout).unwrap().contains("good.toml: good"));
}

#[test]
fn a_prometheus_scrapes_what_a_run_serves() {
    // In the path, or where ./test --prepare unpacks it.
    let unpacked =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/prometheus/usr/bin/prometheus");
    let runs = |program: &&str| Command::new(program).arg("--version").output().is_ok();
    let Some(prometheus) = ["prometheus", unpacked].into_iter().find(runs) else {
        eprintln!("skipped: no prometheus here; ./test --prepare brings it");
        return;
    };
    let service = Service::start("advise");
    report_slow(&service.reports);
    let folder = service.folder.path();
    let config = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: robinhood\n    static_configs:\n      - targets: ['{}']\n",
        service.reports
    );
    std::fs::write(folder.join("prometheus.yml"), config).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let child = Command::new(prometheus)
        .arg(format!("--config.file={}", path(&folder.join("prometheus.yml"))))
        .arg(format!("--storage.tsdb.path={}", path(&folder.join("prometheus"))))
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("prometheus.log")).unwrap())
        .spawn();
    let _prometheus = Running(child.expect("it was there just now"));
    let log = || std::fs::read_to_string(folder.join("prometheus.log")).unwrap();
    let listens = || TcpStream::connect(&address).is_ok();
    let ready =
        || listens() && raw_answer(&address, "GET /-/ready", "").starts_with("HTTP/1.1 200");
    until(ready, log);
    let asked = |query: &str| {
        let head = format!("GET /api/v1/query?query={query}");
        let answer = http(&address, &head, "");
        answer["data"]["result"][0].clone()
    };
    // `up` is 1 only when the whole page could be read.
    until(|| asked("up")["value"][1] == "1", log);
    let limit = asked("robinhood_allocation_bytes%7Bbackend%3D%22slow%22%7D");
    let bytes: f64 = limit["value"][1].as_str().unwrap().parse().unwrap();
    assert!(bytes > 1e6, "{limit}");
    until(|| asked("robinhood_window_requests")["value"][1] == "64", log);
    let build = asked("robinhood_build_info");
    assert_eq!(build["metric"]["version"], env!("CARGO_PKG_VERSION"), "{build}");
}

//! A running service, and HTTP as small as it gets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Ends the process with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The service on a free port.
pub(crate) struct Service {
    pub(crate) url: String,
    _process: Running,
}

impl Service {
    pub(crate) fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_aggregation-service"))
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the service starts");
        let out = BufReader::new(process.stdout.take().unwrap());
        let process = Running(process);
        let line = out.lines().next().expect("it says where it listens").unwrap();
        let url = line.strip_prefix("listening on ").expect("an address").to_owned();
        Self { url, _process: process }
    }

    /// Status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, Vec<u8>) {
        get(&self.url, path)
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    /// RBC as soon as it knows of so many requests.
    pub(crate) fn rbc_of(&self, requests: u64) -> Value {
        let patience = Instant::now();
        loop {
            let rbc = self.json("/rbc");
            if rbc["requests"].as_u64() >= Some(requests) {
                return rbc;
            }
            assert!(patience.elapsed() < Duration::from_secs(30), "not all counted: {rbc}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// One request on a connection of its own.
pub(crate) fn get(url: &str, path: &str) -> (u16, Vec<u8>) {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("headers end");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_off(end + 4))
}

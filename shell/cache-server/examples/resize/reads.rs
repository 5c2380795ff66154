//! A client that reads hot keys one after the other and notes when each read was and how long it took.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Instant;

/// How a server is asked for one key, and how an answer without the value begins.
#[derive(Clone, Copy)]
pub(crate) enum Speaks {
    Memcached,
    Redis,
}

/// A connection, and what is spoken on it.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) speaks: Speaks,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, speaks: Speaks) -> Self {
        stream.set_nodelay(true).expect("a TCP socket");
        Self { stream, speaks, buffer: vec![0; 1 << 16] }
    }

    /// Sends `text` and reads until the answer ends with `end`.
    pub(crate) fn ask(&mut self, text: &str, end: &[u8]) -> String {
        self.stream.write_all(text.as_bytes()).expect("the server reads");
        let mut answer = Vec::new();
        while !answer.ends_with(end) {
            let read = self.stream.read(&mut self.buffer).expect("the server answers");
            assert!(read > 0, "the server has closed the connection");
            answer.extend_from_slice(&self.buffer[..read]);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Reads a key; whether it was there.
    fn get(&mut self, key: &str) -> bool {
        let (request, miss): (String, &[u8]) = match self.speaks {
            Speaks::Memcached => (format!("get {key}\r\n"), b"END\r\n"),
            Speaks::Redis => {
                (format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()), b"$-1\r\n")
            }
        };
        self.stream.write_all(request.as_bytes()).expect("the server reads");
        let mut got = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[got..]).expect("the server answers");
            assert!(read > 0, "the server has closed the connection");
            got += read;
            let answer = &self.buffer[..got];
            if answer == miss {
                return false;
            }
            let whole = match self.speaks {
                Speaks::Memcached => answer.ends_with(b"\r\nEND\r\n"),
                // `$<bytes>\r\n<value>\r\n`; the value has no line ends.
                Speaks::Redis => answer.iter().filter(|byte| **byte == b'\n').count() == 2,
            };
            if whole {
                return true;
            }
        }
    }
}

/// How many of these keys are gone.
pub(crate) fn missing(mut connection: Connection, keys: &[String]) -> usize {
    keys.iter().filter(|key| !connection.get(key)).count()
}

/// When each read began, and how long it took.
pub(crate) struct Reads(Vec<(Instant, u64)>);

/// Latencies of the reads of some time, sorted.
pub(crate) struct Course(Vec<u64>);

impl Reads {
    /// Reads that overlap a time.
    pub(crate) fn between(&self, from: Instant, to: Instant) -> Course {
        let overlaps = |&&(began, ns): &&(Instant, u64)| {
            began < to && began + std::time::Duration::from_nanos(ns) > from
        };
        let mut ns: Vec<u64> = self.0.iter().filter(overlaps).map(|&(_, ns)| ns).collect();
        ns.sort_unstable();
        Course(ns)
    }
}

impl Reads {
    /// When each read began, in milliseconds from a moment on, and how many microseconds it took.
    pub(crate) fn since(&self, moment: Instant) -> Vec<(f64, f64)> {
        let ms = |began: Instant| match began.checked_duration_since(moment) {
            Some(after) => after.as_secs_f64() * 1e3,
            None => -(moment - began).as_secs_f64() * 1e3,
        };
        self.0.iter().map(|&(began, ns)| (ms(began), ns as f64 / 1e3)).collect()
    }
}

impl Course {
    /// All of these reads together.
    pub(crate) fn joined<'a>(courses: impl Iterator<Item = &'a Self>) -> Self {
        let mut ns: Vec<u64> = courses.flat_map(|course| course.0.iter().copied()).collect();
        ns.sort_unstable();
        Self(ns)
    }

    /// The reads that took longer than this.
    pub(crate) fn longer_than_us(&self, us: u64) -> usize {
        self.0.len() - self.0.partition_point(|&ns| ns <= us * 1_000)
    }

    pub(crate) fn quantile_us(&self, share: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return f64::NAN };
        self.0[(last as f64 * share).ceil() as usize] as f64 / 1e3
    }
}

/// Reads until it is told to stop.
pub(crate) struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Instant, u64)>>,
}

impl Reader {
    pub(crate) fn start(mut connection: Connection, keys: Vec<String>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut reads = Vec::with_capacity(1 << 16);
            for key in keys.iter().cycle() {
                let began = Instant::now();
                connection.get(key);
                reads.push((began, began.elapsed().as_nanos() as u64));
                if told.load(Relaxed) {
                    break;
                }
            }
            reads
        });
        Self { stop, thread }
    }

    pub(crate) fn finish(self) -> Reads {
        self.stop.store(true, Relaxed);
        Reads(self.thread.join().expect("the reader ends"))
    }
}

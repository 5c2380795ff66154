//! One connection to a cache server: commands in, replies to whoever waits, in the same order.
//!
//! Place in the flow: a task that starts when it is first needed. Commands of many requests leave in one write. When the connection breaks,
//! everybody who waits has a miss, and the next attempt waits a little longer than the one before.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::wire::{CacheProtocol, Reply};

/// Batches and values that wait for a connection; what comes then is not sent.
const WAITING_MAX: usize = 4_096;
/// Replies that may be outstanding; further work waits.
const PENDING_MAX: usize = 8_192;
/// Bytes that may wait to be written; further work waits.
const OUT_BYTES_MAX: usize = 1 << 20;
/// Bytes of values that wait for a connection; what comes then is not sent.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// A connection whose oldest reply is outstanding for so long is given up.
const REPLY: Duration = Duration::from_secs(5);
/// The first and the longest pause before the next attempt to connect.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(2);

/// Where a cache server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// An internet address.
    Inet(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What a link is to do. Whoever is not answered sees its channel closed.
#[derive(Debug)]
pub(super) enum Work {
    Get { keys: Vec<Box<[u8]>>, answer: oneshot::Sender<Vec<Option<Bytes>>> },
    Set { key: Box<[u8]>, value: Bytes, done: Option<oneshot::Sender<bool>> },
}

/// Work that was sent.
struct Pending {
    since: Instant,
    what: What,
}

enum What {
    Get {
        keys: Vec<Box<[u8]>>,
        values: Vec<Option<Bytes>>,
        answer: oneshot::Sender<Vec<Option<Bytes>>>,
    },
    Set {
        done: Option<oneshot::Sender<bool>>,
    },
}

/// The near end of a link.
pub(super) struct Link {
    task: Task,
    work: Mutex<Option<mpsc::Sender<Work>>>,
}

#[derive(Clone)]
struct Task {
    protocol: CacheProtocol,
    endpoint: Endpoint,
    not_kept: Arc<AtomicU64>,
    /// Bytes of the values that wait.
    waiting_bytes: Arc<AtomicUsize>,
}

impl Work {
    fn value_bytes(&self) -> usize {
        match self {
            Self::Get { .. } => 0,
            Self::Set { value, .. } => value.len(),
        }
    }
}

impl Link {
    pub(super) fn new(
        protocol: CacheProtocol,
        endpoint: Endpoint,
        not_kept: Arc<AtomicU64>,
    ) -> Self {
        let waiting_bytes = Arc::default();
        Self { task: Task { protocol, endpoint, not_kept, waiting_bytes }, work: Mutex::new(None) }
    }

    /// Takes work over; false when too much waits already.
    pub(super) fn send(&self, work: Work) -> bool {
        let sender = self.sender();
        let bytes = work.value_bytes();
        if self.task.waiting_bytes.load(Relaxed) + bytes > WAITING_BYTES_MAX {
            return false;
        }
        self.task.waiting_bytes.fetch_add(bytes, Relaxed);
        let sent = sender.try_send(work).is_ok();
        if !sent {
            self.task.waiting_bytes.fetch_sub(bytes, Relaxed);
        }
        sent
    }

    /// The way to the task, which is started when there is none: at first, and after the runtime that it was on has ended.
    fn sender(&self) -> mpsc::Sender<Work> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = work.as_ref().filter(|sender| !sender.is_closed()) {
            return sender.clone();
        }
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        self.task.waiting_bytes.store(0, Relaxed); // what waited went with the task before
        tokio::spawn(self.task.clone().run(receiver));
        work.insert(sender).clone()
    }
}

impl Task {
    /// Until nobody can send any more.
    async fn run(self, mut work: mpsc::Receiver<Work>) {
        let mut pause = PAUSE.0;
        while !work.is_closed() {
            let connected = match &self.endpoint {
                Endpoint::Inet(address) => {
                    let stream = within(TcpStream::connect(address)).await;
                    let stream =
                        stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
                    match stream {
                        Ok(stream) => Some(self.serve(stream, &mut work).await),
                        Err(_) => None,
                    }
                }
                Endpoint::Unix(path) => match within(UnixStream::connect(path)).await {
                    Ok(stream) => Some(self.serve(stream, &mut work).await),
                    Err(_) => None,
                },
            };
            match connected {
                Some(Served { anything: true }) => pause = PAUSE.0,
                _ => pause = (pause * 2).min(PAUSE.1),
            }
            // Whoever asks meanwhile has a miss at once: a closed channel.
            let next = tokio::time::Instant::now() + pause;
            while let Ok(Some(lost)) = tokio::time::timeout_at(next, work.recv()).await {
                self.waiting_bytes.fetch_sub(lost.value_bytes(), Relaxed);
                if matches!(lost, Work::Set { .. }) {
                    self.not_kept.fetch_add(1, Relaxed);
                }
            }
        }
    }

    /// Until the connection breaks or nobody can send any more.
    async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite,
        work: &mut mpsc::Receiver<Work>,
    ) -> Served {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut talk = Talk { task: self, out: Vec::new(), pending: VecDeque::new() };
        let (mut written, mut input, mut served) =
            (0, BytesMut::with_capacity(1 << 16), Served { anything: false });
        loop {
            let may_take = talk.pending.len() < PENDING_MAX && talk.out.len() < OUT_BYTES_MAX;
            let oldest = talk.pending.front().map(|pending| pending.since + REPLY);
            tokio::select! {
                () = tokio::time::sleep_until(oldest.unwrap_or_else(Instant::now)), if oldest.is_some() => {
                    return served; // it hangs
                }
                received = work.recv(), if may_take => {
                    let Some(received) = received else { return served };
                    talk.send(received);
                    // What came at the same time leaves in the same write.
                    while talk.out.len() < OUT_BYTES_MAX && let Ok(received) = work.try_recv() {
                        talk.send(received);
                    }
                }
                count = writer.write(&talk.out[written..]), if written < talk.out.len() => {
                    match count {
                        Ok(count) if count > 0 => written += count,
                        _ => return served,
                    }
                    if written == talk.out.len() {
                        talk.out.clear();
                        written = 0;
                    }
                }
                count = reader.read_buf(&mut input) => {
                    if !count.is_ok_and(|count| count > 0) || !talk.receive(&mut input) {
                        return served;
                    }
                    served.anything = true;
                }
            }
        }
    }
}

async fn within<T>(connect: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(CONNECT, connect).await?
}

/// Whether a connection was good for something.
struct Served {
    anything: bool,
}

/// What goes over one connection.
struct Talk<'a> {
    task: &'a Task,
    out: Vec<u8>,
    pending: VecDeque<Pending>,
}

impl Talk<'_> {
    fn send(&mut self, work: Work) {
        self.task.waiting_bytes.fetch_sub(work.value_bytes(), Relaxed);
        let protocol = self.task.protocol;
        let what = match work {
            // Nobody waits for it any more: a server that is late need not answer it, too.
            Work::Get { answer, .. } if answer.is_closed() => return,
            Work::Get { keys, answer } => {
                keys.iter().for_each(|key| protocol.write_get(key, &mut self.out));
                let values = Vec::with_capacity(keys.len());
                What::Get { keys, values, answer }
            }
            Work::Set { key, value, done } => {
                protocol.write_set(&key, &value, &mut self.out);
                What::Set { done }
            }
        };
        self.pending.push_back(Pending { since: Instant::now(), what });
    }

    /// Hands out the replies that are complete; false when the server says what cannot be.
    fn receive(&mut self, input: &mut BytesMut) -> bool {
        let mut used = 0;
        loop {
            match self.task.protocol.parse(&input[used..]) {
                Ok(None) => break,
                Ok(Some((reply, length))) if self.answer(&reply) => used += length,
                // A reply that nobody waits for, one of another kind, or bytes that are none: whose replies follow is not known.
                Ok(Some(_)) | Err(_) => return false,
            }
        }
        input.advance(used);
        true
    }

    /// Hands a reply to whoever has waited for longest; false when it is no reply to what was asked.
    fn answer(&mut self, reply: &Reply<'_>) -> bool {
        let Some(first) = self.pending.front_mut() else { return false };
        match (&mut first.what, reply) {
            (What::Get { keys, values, .. }, Reply::Value { key, data })
                if key.is_none_or(|key| *key == *keys[values.len()]) =>
            {
                values.push(Some(Bytes::copy_from_slice(data)));
            }
            (What::Get { values, .. }, Reply::Missing | Reply::Refused) => values.push(None),
            (What::Set { done }, Reply::Stored | Reply::Refused) => {
                let stored = *reply == Reply::Stored;
                if !stored {
                    self.task.not_kept.fetch_add(1, Relaxed);
                }
                // Nobody may wait any more, here and below.
                _ = done.take().map(|done| done.send(stored));
                self.pending.pop_front();
                return true;
            }
            _ => return false,
        }
        if matches!(&first.what, What::Get { keys, values, .. } if values.len() == keys.len())
            && let Some(Pending { what: What::Get { values, answer, .. }, .. }) =
                self.pending.pop_front()
        {
            _ = answer.send(values);
        }
        true
    }
}

//! One connection: reads lines, starts requests, and answers in the order of the lines.
//!
//! Place in the flow: requests of a connection are served at the same time, each as a task; an answer waits for those before it.
//! What is begun is brought to its end when the client goes away, as its backends do: only they say how long that takes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::Shared;
use super::line::Answer;

/// The longest line with its newline.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;
/// Requests of a connection without an answer in its stream; then it is not read from.
pub(super) const REQUESTS_MAX: usize = 1_024;
/// Queries of these requests. A request counts as [`QUERIES_MIN`] at least, so that one bound does for both.
const QUERIES_MAX: usize = REQUESTS_MAX * QUERIES_MIN;
const QUERIES_MIN: usize = 64;
/// What a client may still send when it has been told that its connection is closed, so that it can read that.
const LINGER_BYTES_MAX: u64 = 64 << 20;
const LINGER_MAX: Duration = Duration::from_secs(1);

pub(super) struct Connection {
    shared: Arc<Shared>,
    /// Queries that may still be begun.
    room: Arc<Semaphore>,
}

/// An answer that its place in the order is kept for.
struct Owed {
    answer: Expected,
    _room: OwnedSemaphorePermit,
}

enum Expected {
    Known(Answer),
    Served(JoinHandle<Answer>),
}

impl Expected {
    fn is_known(&self) -> bool {
        match self {
            Self::Known(_) => true,
            Self::Served(task) => task.is_finished(),
        }
    }

    async fn answer(self) -> Answer {
        match self {
            Self::Known(answer) => answer,
            Self::Served(task) => {
                task.await.unwrap_or_else(|_| Answer::Error("the server failed".to_owned()))
            }
        }
    }
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, room: Arc::new(Semaphore::new(QUERIES_MAX)) }
    }

    /// Serves until the client has sent everything and has all answers, or is gone.
    pub(super) async fn run(self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let (input, output) = stream.split();
        let (owe, owed) = mpsc::channel(REQUESTS_MAX);
        let reading = async {
            self.read_requests(input, owe).await?;
            std::future::pending().await // the connection ends with its last answer
        };
        tokio::select! {
            result = reading => result,
            result = write_answers(output, owed) => result,
        }?;
        linger(stream).await
    }

    async fn read_requests(&self, input: ReadHalf<'_>, owe: mpsc::Sender<Owed>) -> io::Result<()> {
        let mut input = BufReader::with_capacity(64 << 10, input);
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut bounded = (&mut input).take(LINE_BYTES_MAX as u64);
            bounded.read_until(b'\n', &mut line).await?;
            let is_whole = line.ends_with(b"\n");
            if !is_whole && line.len() < LINE_BYTES_MAX {
                return Ok(()); // the end; a line that was cut off is no request
            }
            let owed = if is_whole { self.begin(&line).await } else { self.too_long().await };
            if owe.send(owed).await.is_err() || !is_whole {
                return Ok(());
            }
        }
    }

    /// Begins to serve a line as soon as there is room for it.
    async fn begin(&self, line: &[u8]) -> Owed {
        let stack = &self.shared.stack;
        let (arrived, now) = (tokio::time::Instant::now(), stack.now());
        let mut request = match self.shared.catalogues.request(line, QUERIES_MAX) {
            Ok(request) => request,
            Err(reason) => return self.refuse(reason).await,
        };
        let room = self.room_for(request.queries()).await;
        let ticket = match stack.recorder().sent(now, stack.now()) {
            Ok(ticket) => ticket,
            Err(refused) => {
                drop(room);
                return self.refuse(refused.to_string()).await;
            }
        };
        request.index = self.shared.next_index.fetch_add(1, Relaxed);
        let stack = Arc::clone(stack);
        let task = tokio::spawn(async move {
            let handled = stack.serve(&request, ticket, arrived).await;
            Answer::of(&request, handled)
        });
        Owed { answer: Expected::Served(task), _room: room }
    }

    async fn too_long(&self) -> Owed {
        let reason = format!(
            "a line of more than {LINE_BYTES_MAX} bytes: the connection is closed, because where the next line begins is not known"
        );
        self.refuse(reason).await
    }

    async fn refuse(&self, reason: String) -> Owed {
        self.shared.not_served.fetch_add(1, Relaxed);
        let room = self.room_for(0).await;
        Owed { answer: Expected::Known(Answer::Error(reason)), _room: room }
    }

    async fn room_for(&self, queries: usize) -> OwnedSemaphorePermit {
        let queries = queries.max(QUERIES_MIN) as u32;
        let room = Arc::clone(&self.room).acquire_many_owned(queries).await;
        room.expect("the room is never closed")
    }
}

/// Writes answers in the order of their lines; those that are known together go out together.
async fn write_answers(output: WriteHalf<'_>, mut owed: mpsc::Receiver<Owed>) -> io::Result<()> {
    let mut output = BufWriter::new(output);
    let mut text = Vec::new();
    loop {
        let next = match owed.try_recv() {
            Ok(next) => next,
            Err(_) => {
                output.flush().await?;
                let Some(next) = owed.recv().await else { return output.shutdown().await };
                next
            }
        };
        if !next.answer.is_known() {
            output.flush().await?;
        }
        text.clear();
        next.answer.answer().await.push_to(&mut text);
        output.write_all(&text).await?;
    }
}

/// Reads what the client still sends: closing before would take the last answers away from it.
async fn linger(mut stream: TcpStream) -> io::Result<()> {
    let mut rest = (&mut stream).take(LINGER_BYTES_MAX);
    let mut nowhere = tokio::io::sink();
    let _ = tokio::time::timeout(LINGER_MAX, tokio::io::copy(&mut rest, &mut nowhere)).await;
    Ok(())
}

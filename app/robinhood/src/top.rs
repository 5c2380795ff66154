//! `robinhood top`: what the page of a running RobinHood shows, in a terminal, from the same API.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use robinhood_dashboard::{DEFAULT_PORT, Message, SCHEMA, State};
use tokio::net::TcpStream;

use crate::demo::{frame, view};
use crate::failure::Failure;
use crate::screen::Screen;
use crate::{interrupt, output};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer at most: a complete state of 1,024 backends has a fifth of it.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Columns and rows of the picture where there is no terminal.
const PAPER: (u16, u16) = (110, 34);

const EXAMPLES: &str = "\
Examples:
  robinhood top                            beside `robinhood demo`, in another terminal
  robinhood top --target 127.0.0.1:8080    another port
  robinhood top | cat                      one look, as text";

/// Flags of `robinhood top`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// Where the page is served
    #[arg(long, default_value_t = SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT)), value_name = "ADDRESS")]
    target: SocketAddr,
}

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot connect to anything: {error}")))?;
    let look = || runtime.block_on(state(args.target));
    let mut state = look().map_err(Failure::failed)?;
    let screen = if std::io::stdout().is_terminal() { Screen::open() } else { None };
    let Some(mut screen) = screen else {
        output::say(&text(&state));
        return Ok(());
    };
    let stop = interrupt::stop_flag()?;
    let address = format!("http://{}/", args.target);
    loop {
        screen.draw(|canvas, colour| view::draw(canvas, &frame::of(&state, &address), colour));
        if screen.wants_to_quit(LOOK) || stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        match look() {
            Ok(new) => state = new,
            // The last picture stays, with what is wrong: a server may come back.
            Err(error) => state.status = error,
        }
    }
}

/// The present state, or in one line why there is none.
async fn state(target: SocketAddr) -> Result<State, String> {
    let answer = tokio::time::timeout(PATIENCE, ask(target)).await;
    let answer = answer.map_err(|_| format!("{target} does not answer within {PATIENCE:?}"))??;
    let message: Message = serde_json::from_slice(&answer)
        .map_err(|error| format!("what {target} answers is not a state of RobinHood: {error}"))?;
    if message.schema != SCHEMA {
        return Err(format!("{target} speaks {}, this program {SCHEMA}", message.schema));
    }
    Ok(message.state)
}

/// The body of `GET /v1/state`.
async fn ask(target: SocketAddr) -> Result<Bytes, String> {
    let stream = TcpStream::connect(target).await.map_err(|error| {
        format!("nothing to see at {target}: {error}; is `robinhood demo` running there?")
    })?;
    let failed = |error: hyper::Error| format!("{target} does not speak HTTP: {error}");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let connection = tokio::spawn(connection);
    let request = Request::get("/v1/state")
        .header(HOST, target.to_string())
        .body(Empty::<Bytes>::new())
        .expect("a path and a header");
    let answer = sender.send_request(request).await.map_err(failed)?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    connection.abort();
    let body = body.map_err(|error| format!("the answer of {target} broke off: {error}"))?;
    if status.is_success() {
        Ok(body.to_bytes())
    } else {
        Err(format!("{target} answers {status}: is that RobinHood's page?"))
    }
}

/// The picture as text.
fn text(state: &State) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(PAPER.0, PAPER.1));
    let Ok(_) = terminal.draw(|canvas| view::draw(canvas, &frame::of(state, ""), false));
    lines(terminal.backend().buffer())
}

fn lines(buffer: &Buffer) -> String {
    let row = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        format!("{}\n", line.trim_end())
    };
    buffer.content.chunks(usize::from(buffer.area.width)).map(row).collect()
}

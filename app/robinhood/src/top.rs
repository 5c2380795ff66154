//! `robinhood top`: what the page of a running RobinHood shows, in a terminal, from the same API.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use robinhood_dashboard::{DEFAULT_PORT, State};

use crate::demo::{frame, view};
use crate::failure::Failure;
use crate::page_client::PageClient;
use crate::screen::Screen;
use crate::{interrupt, output};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(500);
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
    let page = PageClient::new(args.target)?;
    let look = || page.state();
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

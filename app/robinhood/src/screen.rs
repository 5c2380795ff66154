//! The terminal while something runs: its own screen, given back at the end whatever happens.

use std::io::{IsTerminal, Stderr, stderr, stdin};
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::crossterm::{cursor, execute, terminal};
use ratatui::{Frame, Terminal};

/// A terminal that shows pictures. Standard error, so that standard output stays for the result.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    colour: bool,
}

impl Screen {
    /// The terminal, if there is one.
    pub(crate) fn open() -> Option<Self> {
        if !(stderr().is_terminal() && stdin().is_terminal()) {
            return None;
        }
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave(); // or the message is lost with the screen
            hook(panic);
        }));
        terminal::enable_raw_mode().ok()?;
        let screen = execute!(stderr(), terminal::EnterAlternateScreen, cursor::Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stderr())));
        let Ok(terminal) = screen else {
            leave();
            return None;
        };
        Some(Self {
            terminal,
            colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        })
    }

    /// Draws a picture, with or without colours. A terminal that fails is left as it is: the run is worth more than its picture.
    pub(crate) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>, bool)) {
        let colour = self.colour;
        let _ = self.terminal.draw(|canvas| picture(canvas, colour));
    }

    /// Waits for a moment, and says whether `q`, Escape or Ctrl-C was pressed in it.
    pub(crate) fn wants_to_quit(&mut self, wait: Duration) -> bool {
        if !event::poll(wait).unwrap_or(false) {
            return false;
        }
        let Ok(Event::Key(key)) = event::read() else { return false };
        let interrupt =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn leave() {
    let _ = execute!(stderr(), terminal::LeaveAlternateScreen, cursor::Show);
    let _ = terminal::disable_raw_mode();
}

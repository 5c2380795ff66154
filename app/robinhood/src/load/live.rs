//! The terminal while a load test runs.
//!
//! Place in the flow: the watching thread of the run hands over what closed; four times a second at most it is drawn, which takes about
//! a millisecond. The clients know nothing of it. Where standard error is no terminal, nothing is drawn.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::Frame as Canvas;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Gauge, Paragraph, Row, Sparkline, Table};
use robinhood_load_tester::engine::slot::Slot;
use robinhood_load_tester::result::Asked;
use robinhood_load_tester::run::Progress;
use robinhood_stats::{Histogram, Nanos};

use super::text::micros;
use crate::screen::Screen;
use crate::svg::grouped;

/// Between two pictures.
const REDRAW: Duration = Duration::from_millis(250);
/// The present: figures are of this time.
const RECENT: Nanos = Nanos::from_secs(1);
/// Cells of the line that are kept: wider terminals than these are rare.
const HISTORY_MAX: usize = 400;

/// The screen and what it shows.
pub(crate) struct LiveView {
    state: State,
    screen: Option<Screen>,
    is_opened: bool,
    drawn: Option<Instant>,
}

/// What is known while the run lasts.
struct State {
    asked: Asked,
    elapsed: Nanos,
    measured: (Nanos, Nanos),
    in_flight: u64,
    unanswered: u64,
    recent: VecDeque<Slot>,
    /// P99 of latency, in nanoseconds, of each slot that had an answer.
    history_ns: VecDeque<u64>,
}

impl LiveView {
    /// Nothing is drawn before the run has begun, so that an error before it stays readable.
    pub(crate) fn new(asked: Asked) -> Self {
        Self { state: State::new(asked), screen: None, is_opened: false, drawn: None }
    }

    /// Takes what is new and draws it when it is time; sets `stop` when somebody wants to leave.
    pub(crate) fn handle_progress(&mut self, progress: &Progress, stop: &AtomicBool) {
        self.state.handle_progress(progress);
        if !std::mem::replace(&mut self.is_opened, true) {
            self.screen = Screen::open();
        }
        let Some(screen) = &mut self.screen else { return };
        if screen.wants_to_quit(Duration::ZERO) {
            stop.store(true, Ordering::Relaxed);
        }
        if self.drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW) {
            self.drawn = Some(Instant::now());
            screen.draw(|canvas, colour| draw(canvas, &self.state, colour));
        }
    }
}

impl State {
    const fn new(asked: Asked) -> Self {
        Self {
            asked,
            elapsed: Nanos::ZERO,
            measured: (Nanos::ZERO, Nanos::ZERO),
            in_flight: 0,
            unanswered: 0,
            recent: VecDeque::new(),
            history_ns: VecDeque::new(),
        }
    }

    fn handle_progress(&mut self, progress: &Progress) {
        self.elapsed = progress.elapsed;
        self.measured = progress.measured;
        self.in_flight = progress.in_flight;
        for slot in &progress.slots {
            self.unanswered += slot.unanswered;
            self.history_ns.extend(slot.latency.quantile(0.99));
            self.recent.push_back(slot.clone());
        }
        let surplus = self.history_ns.len().saturating_sub(HISTORY_MAX);
        self.history_ns.drain(..surplus);
        let newest = self.recent.back().map(|slot| slot.end);
        self.recent.retain(|slot| newest.is_some_and(|end| end.since(slot.start) <= RECENT));
    }

    /// Sum of a count over the present, by second.
    fn rate_per_s(&self, count: fn(&Slot) -> u64) -> f64 {
        let (Some(first), Some(last)) = (self.recent.front(), self.recent.back()) else {
            return 0.0;
        };
        let seconds = last.end.since(first.start).as_secs_f64();
        let sum: u64 = self.recent.iter().map(count).sum();
        if seconds > 0.0 { sum as f64 / seconds } else { 0.0 }
    }

    fn merged(&self, histogram: fn(&Slot) -> &Histogram) -> Option<Histogram> {
        let mut slots = self.recent.iter().map(histogram);
        let mut sum = slots.next()?.clone();
        slots.for_each(|more| sum.merge(more));
        Some(sum)
    }
}

fn draw(canvas: &mut Canvas<'_>, state: &State, colour: bool) {
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(4),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .split(canvas.area());
    let asked = &state.asked;
    let title =
        format!("{} at {}, {}, seed {}", asked.protocol, asked.target, asked.arrivals, asked.seed);
    canvas.render_widget(Line::raw(title).bold(), areas[0]);
    progress(canvas, areas[1], state);
    load(canvas, areas[2], state);
    times(canvas, areas[3], state);
    history(canvas, (areas[4], areas[5]), state, colour);
    canvas.render_widget(Line::raw("q or Ctrl-C ends and keeps what was measured").dim(), areas[6]);
}

fn progress(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let (from, to) = state.measured;
    let (elapsed, seconds) = (state.elapsed, Nanos::as_secs_f64);
    let label = if elapsed < from {
        format!("warm-up, {:.0} of {:.0} s", seconds(elapsed), seconds(from))
    } else if elapsed < to {
        format!("measuring, {:.0} of {:.0} s", seconds(elapsed - from), seconds(to - from))
    } else {
        "waiting for the last answers".to_owned()
    };
    let ratio = (seconds(elapsed) / seconds(to).max(1e-9)).clamp(0.0, 1.0);
    let gauge = Gauge::default().ratio(ratio).label(label).gauge_style(Style::new().dim());
    canvas.render_widget(gauge, area);
}

fn load(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let rate = |count| grouped(state.rate_per_s(count).round());
    let lines = vec![
        Line::raw(format!(
            "requests/s   asked {}   sent {}   answered {}",
            grouped(state.asked.rate_per_s),
            rate(|slot| slot.sent),
            rate(|slot| slot.completed)
        )),
        Line::raw(format!(
            "in flight {}   without answer so far {}",
            grouped(state.in_flight as f64),
            grouped(state.unanswered as f64)
        )),
    ];
    canvas.render_widget(Paragraph::new(lines), area);
}

fn times(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let row = |name: &'static str, times: Option<Histogram>| {
        let at = |quantile: f64| {
            let nanos = times.as_ref().and_then(|times| times.quantile(quantile));
            format!("{:>10}", micros(nanos.map(|nanos| nanos as f64 / 1e3)))
        };
        Row::new([name.to_owned(), at(0.5), at(0.99), at(1.0)])
    };
    let rows = [
        row("latency", state.merged(|slot| &slot.latency)),
        row("lateness of the load tester", state.merged(|slot| &slot.lateness)),
    ];
    let head = ["microseconds, last second", "       p50", "       p99", "       max"];
    let widths = [
        Constraint::Length(28),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(10),
    ];
    let table = Table::new(rows, widths).header(Row::new(head).style(Style::new().dim()));
    canvas.render_widget(table, area);
}

fn history(canvas: &mut Canvas<'_>, (name, line): (Rect, Rect), state: &State, colour: bool) {
    let shown = state.history_ns.len().saturating_sub(usize::from(line.width));
    let values: Vec<u64> = state.history_ns.iter().skip(shown).copied().collect();
    let most = values.iter().max().map(|nanos| *nanos as f64 / 1e3);
    let text = format!("P99 of latency by slot of the run, at most {} us", micros(most));
    canvas.render_widget(Line::raw(text).dim(), name);
    // Blue of the Okabe-Ito set.
    let style = if colour { Style::new().fg(Color::Rgb(86, 180, 233)) } else { Style::new() };
    canvas.render_widget(Sparkline::default().data(&values).style(style), line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use robinhood_load_tester::instance::Instance;

    fn asked() -> Asked {
        Asked {
            protocol: "null".into(),
            target: "127.0.0.1:7700".into(),
            arrivals: "poisson".into(),
            instance: Instance::ALONE,
            rate_per_s: 20_000.0,
            seed: 7,
            connections: 8,
            workload: "frames".into(),
            warm_up_s: 1.0,
            duration_s: 10.0,
            timeout_s: 1.0,
            pipelined: false,
        }
    }

    /// A slot of 100 ms with so many requests, all of them with the same latency.
    fn slot(place: u64, requests: u64, latency_ns: u64) -> Slot {
        let start = robinhood_stats::Instant(place * 100_000_000);
        let mut slot = Slot::new(start);
        slot.end = start + Nanos::from_millis(100);
        (slot.sent, slot.completed, slot.unanswered) = (requests, requests, 1);
        slot.latency.add_many(latency_ns, requests);
        slot.lateness.add_many(1_500, requests);
        slot
    }

    fn after(slots: u64) -> State {
        let mut state = State::new(asked());
        for place in 0..slots {
            state.handle_progress(&Progress {
                elapsed: Nanos::from_millis(100 * (place + 1)),
                measured: (Nanos::from_secs(1), Nanos::from_secs(11)),
                slots: vec![slot(place, 1_990, 45_000 + place)],
                in_flight: 12,
            });
        }
        state
    }

    fn drawn(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|canvas| draw(canvas, state, true)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_view_shows_progress_rates_times_and_what_is_missing() {
        let text = drawn(&after(35), 90, 20);
        for part in [
            "null at 127.0.0.1:7700, poisson, seed 7",
            "measuring, 2 of 10 s",
            "asked 20,000   sent 19,900   answered 19,900",
            "in flight 12   without answer so far 35",
            "45.0       45.0       45.0",
            "1.50       1.50       1.50",
            "at most 45.0 us",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(drawn(&after(3), 90, 20).contains("warm-up, 0 of 1 s"));
    }

    #[test]
    fn memory_stays_bounded() {
        let state = after(2_000);
        assert_eq!((state.history_ns.len(), state.recent.len()), (HISTORY_MAX, 10));
    }

    #[test]
    fn small_terminals_and_the_first_moment_draw_without_panic() {
        for (width, height) in [(1, 1), (20, 5), (80, 24), (500, 100)] {
            drawn(&after(0), width, height);
            drawn(&after(30), width, height);
        }
    }
}

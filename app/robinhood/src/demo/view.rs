//! The terminal picture of a running demo: P99 of both stacks over time, and per backend why bytes move.
//!
//! Drawing is a pure function of a [`Frame`]; taking the frame from the running experiment is the caller's part.

use ratatui::Frame as Canvas;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, Gauge, GraphType, Paragraph, Row, Table};

/// One moment of the demo.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) elapsed_s: f64,
    pub(crate) duration_s: f64,
    pub(crate) phase: String,
    pub(crate) details: String,
    pub(crate) objective_ms: Option<f64>,
    pub(crate) stacks: Vec<StackFrame>,
    pub(crate) backends: Vec<BackendFrame>,
    pub(crate) cpu_share: f64,
    pub(crate) lateness_p99_ms: f64,
    pub(crate) decision: String,
    /// Of the page; empty without one.
    pub(crate) address: String,
}

/// One stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct StackFrame {
    pub(crate) name: String,
    /// (seconds, P99 in ms) at every step of the objective's window.
    pub(crate) p99_ms: Vec<(f64, f64)>,
    /// Share of the observations after the calm third that missed the objective; `None` before there is one.
    pub(crate) violation_ratio: Option<f64>,
    pub(crate) errors: u64,
    pub(crate) timeouts: u64,
}

/// One backend, in both stacks.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackendFrame {
    pub(crate) name: String,
    pub(crate) capacity: f64,
    /// Share of the RBC in the second stack.
    pub(crate) rbc_share: f64,
    /// Share of the cache: held in the first stack, allowed in the second.
    pub(crate) cache_share: [f64; 2],
    pub(crate) hit_ratio: [f64; 2],
    pub(crate) in_flight: [usize; 2],
    pub(crate) oldest_ms: [f64; 2],
}

/// Orange and blue of the Okabe-Ito set: told apart by colour-blind people, and the names stand beside them.
const COLOURS: [Color; 2] = [Color::Rgb(213, 94, 0), Color::Rgb(86, 180, 233)];

/// Draws a frame.
pub(crate) fn draw(canvas: &mut Canvas<'_>, frame: &Frame, colour: bool) {
    let backends = u16::try_from(frame.backends.len()).unwrap_or(u16::MAX).saturating_add(2);
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(6),
        Constraint::Length(backends),
        Constraint::Length(2),
    ])
    .split(canvas.area());
    progress(canvas, areas[0], frame);
    legend(canvas, areas[1], frame, colour);
    chart(canvas, areas[2], frame, colour);
    backend_table(canvas, areas[3], frame);
    footer(canvas, areas[4], frame);
}

fn stack_style(index: usize, colour: bool) -> Style {
    if colour { Style::new().fg(COLOURS[index % 2]) } else { Style::new() }
}

fn progress(canvas: &mut Canvas<'_>, area: Rect, frame: &Frame) {
    let ratio = (frame.elapsed_s / frame.duration_s.max(1e-9)).clamp(0.0, 1.0);
    let label = format!(
        "{:.0} of {:.0} s  {}  ({})",
        frame.elapsed_s, frame.duration_s, frame.phase, frame.details
    );
    canvas.render_widget(
        Gauge::default().ratio(ratio).label(label).gauge_style(Style::new().dim()),
        area,
    );
}

fn legend(canvas: &mut Canvas<'_>, area: Rect, frame: &Frame, colour: bool) {
    let mut spans = vec![Span::raw("request P99  ")];
    for (index, stack) in frame.stacks.iter().enumerate() {
        let last = stack.p99_ms.last().map_or("-".to_owned(), |point| format!("{:.1} ms", point.1));
        let violations = stack
            .violation_ratio
            .map_or(String::new(), |ratio| format!(", {:.0} % missed", ratio * 100.0));
        spans.push(Span::styled(
            format!("{}: {last}{violations}   ", stack.name),
            stack_style(index, colour).add_modifier(Modifier::BOLD),
        ));
    }
    if let Some(objective) = frame.objective_ms {
        spans.push(Span::raw(format!("objective: {objective:.1} ms")).dim());
    }
    canvas.render_widget(Line::from(spans), area);
}

fn chart(canvas: &mut Canvas<'_>, area: Rect, frame: &Frame, colour: bool) {
    let objective: Vec<(f64, f64)> = match frame.objective_ms {
        Some(objective) => {
            (0..=100).map(|step| (frame.duration_s * f64::from(step) / 100.0, objective)).collect()
        }
        None => Vec::new(),
    };
    let values = frame.stacks.iter().flat_map(|stack| stack.p99_ms.iter().map(|point| point.1));
    let top = values.chain(frame.objective_ms).fold(1.0, f64::max) * 1.05;
    let mut sets =
        vec![Dataset::default().marker(Marker::Dot).style(Style::new().dim()).data(&objective)];
    for (index, stack) in frame.stacks.iter().enumerate() {
        let style = stack_style(index, colour);
        sets.push(
            Dataset::default()
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(style)
                .data(&stack.p99_ms),
        );
    }
    let seconds = [0.0, frame.duration_s / 2.0, frame.duration_s].map(|s| format!("{s:.0} s"));
    let millis = [0.0, top / 2.0, top].map(|ms| format!("{ms:.0} ms"));
    let chart = Chart::new(sets)
        .x_axis(
            Axis::default()
                .bounds([0.0, frame.duration_s.max(1.0)])
                .labels(seconds)
                .style(Style::new().dim()),
        )
        .y_axis(Axis::default().bounds([0.0, top]).labels(millis).style(Style::new().dim()))
        .legend_position(None);
    canvas.render_widget(chart, area);
}

fn backend_table(canvas: &mut Canvas<'_>, area: Rect, frame: &Frame) {
    let percent = |ratio: f64| format!("{:>3.0} %", ratio * 100.0);
    let both =
        |values: [f64; 2]| format!("{:>3.0} > {:<3.0}", values[0] * 100.0, values[1] * 100.0);
    let rows = frame.backends.iter().map(|backend| {
        let slow = backend.capacity < 0.999;
        let waiting = format!(
            "{:>3} {:>5.0} ms",
            backend.in_flight[0] + backend.in_flight[1],
            backend.oldest_ms[0].max(backend.oldest_ms[1])
        );
        let row = Row::new([
            backend.name.clone(),
            percent(backend.capacity),
            bar(backend.rbc_share),
            both(backend.cache_share),
            both(backend.hit_ratio),
            waiting,
        ]);
        if slow { row.add_modifier(Modifier::BOLD) } else { row }
    });
    let head = ["backend", "capacity", "blocks the tail", "cache %", "hits %", "waiting, oldest"];
    let widths = [
        Constraint::Length(14),
        Constraint::Length(8),
        Constraint::Length(18),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Min(14),
    ];
    canvas.render_widget(
        Table::new(rows, widths).header(Row::new(head).style(Style::new().dim())),
        area,
    );
}

/// A share as a bar of twelve cells and a number.
fn bar(share: f64) -> String {
    const CELLS: usize = 12;
    let filled = (share.clamp(0.0, 1.0) * CELLS as f64).round() as usize;
    format!("{}{} {:>3.0} %", "█".repeat(filled), "·".repeat(CELLS - filled), share * 100.0)
}

fn footer(canvas: &mut Canvas<'_>, area: Rect, frame: &Frame) {
    let health = format!(
        "cpu {:.0} %  generator late by {:.2} ms at P99  errors {}  timeouts {}  (q or Ctrl-C ends with a summary)",
        frame.cpu_share * 100.0,
        frame.lateness_p99_ms,
        frame.stacks.iter().map(|stack| stack.errors).sum::<u64>(),
        frame.stacks.iter().map(|stack| stack.timeouts).sum::<u64>(),
    );
    let page = match frame.address.as_str() {
        "" => String::new(),
        address => format!("page: {address}  "),
    };
    let lines = vec![
        Line::raw(frame.decision.clone()),
        Line::from(vec![Span::raw(page).bold(), Span::raw(health).dim()]),
    ];
    canvas.render_widget(Paragraph::new(lines), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn sample() -> Frame {
        let stack = |name: &str, p99: f64| StackFrame {
            name: name.into(),
            p99_ms: (0..60).map(|s| (f64::from(s), p99)).collect(),
            violation_ratio: Some(0.25),
            ..StackFrame::default()
        };
        let backend = BackendFrame {
            name: "catalogue".into(),
            capacity: 0.5,
            rbc_share: 0.5,
            cache_share: [0.2, 0.4],
            hit_ratio: [0.6, 0.8],
            in_flight: [3, 1],
            oldest_ms: [40.0, 12.0],
        };
        Frame {
            elapsed_s: 60.0,
            duration_s: 120.0,
            phase: "spike on catalogue".into(),
            details: "seed 7, time scale 10".into(),
            objective_ms: Some(50.0),
            stacks: vec![stack("shared", 80.0), stack("robinhood", 30.0)],
            backends: vec![backend],
            address: "http://127.0.0.1:7070/".into(),
            ..Frame::default()
        }
    }

    fn drawn(frame: &Frame, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|canvas| draw(canvas, frame, true)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_frame_shows_both_stacks_the_objective_and_the_reason() {
        let text = drawn(&sample(), 100, 30);
        for part in [
            "spike on catalogue",
            "shared: 80.0 ms, 25 % missed",
            "robinhood: 30.0 ms",
            "objective: 50.0 ms",
            "(seed 7, time scale 10)",
            "page: http://127.0.0.1:7070/",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(text.contains("██████······  50 %"), "{text}");
        assert!(text.contains(" 20 > 40 ") && text.contains("4    40 ms"), "{text}");
    }

    #[test]
    fn small_terminals_and_empty_frames_draw_without_panic() {
        for (width, height) in [(1, 1), (20, 5), (80, 24), (300, 100)] {
            drawn(&sample(), width, height);
            drawn(&Frame::default(), width, height);
        }
    }
}

//! The reads around a move as a picture: for each server the slowest hundredth of the reads of each few milliseconds.

use std::fmt::Write as _;

/// The time that is shown, from the begin of a move on, and how it is cut.
const FROM_MS: f64 = -50.0;
const TO_MS: f64 = 200.0;
const STEP_MS: f64 = 5.0;
/// Latencies that are shown, as powers of ten of microseconds.
const DECADES: std::ops::Range<i32> = 1..5;

const WIDTH: f64 = 880.0;
const PANEL_HEIGHT: f64 = 240.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 45.0;
/// Told apart by people who see no red or no green.
const COLOURS: [&str; 3] = ["#0072b2", "#e69f00", "#cc79a7"];

/// The servers with items of one size.
pub(crate) struct Panel {
    title: String,
    lines: Vec<(&'static str, Vec<Option<f64>>)>,
}

impl Panel {
    pub(crate) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), lines: Vec::new() }
    }

    /// Adds a server by all its reads: when each began, in ms from the begin of its move, and what it took, in us.
    pub(crate) fn add(&mut self, server: &'static str, reads: impl Iterator<Item = (f64, f64)>) {
        let mut steps = vec![Vec::new(); ((TO_MS - FROM_MS) / STEP_MS) as usize];
        for (ms, us) in reads {
            let step = (ms - FROM_MS) / STEP_MS;
            if step >= 0.0
                && let Some(of_step) = steps.get_mut(step as usize)
            {
                of_step.push(us);
            }
        }
        let slow = |mut of_step: Vec<f64>| {
            of_step.sort_by(f64::total_cmp);
            let last = of_step.len().checked_sub(1)?;
            Some(of_step[(last as f64 * 0.99).ceil() as usize])
        };
        self.lines.push((server, steps.into_iter().map(slow).collect()));
    }
}

fn x(ms: f64) -> f64 {
    LEFT + (ms - FROM_MS) / (TO_MS - FROM_MS) * (WIDTH - LEFT - RIGHT)
}

/// Down from the top of a panel.
fn y(us: f64) -> f64 {
    let share = (us.log10() - f64::from(DECADES.start)) / f64::from(DECADES.end - DECADES.start);
    TOP + (1.0 - share.clamp(0.0, 1.0)) * (PANEL_HEIGHT - TOP - BOTTOM)
}

/// One picture with a panel for each size.
pub(crate) fn draw(panels: &[Panel]) -> String {
    let height = PANEL_HEIGHT * panels.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (number, panel) in panels.iter().enumerate() {
        let down = PANEL_HEIGHT * number as f64;
        write!(svg, "<g transform=\"translate(0 {down})\">\n{}</g>\n", of_panel(panel))
            .expect("a text takes it");
    }
    svg + "</svg>\n"
}

fn of_panel(panel: &Panel) -> String {
    let (right, bottom) = (WIDTH - RIGHT, PANEL_HEIGHT - BOTTOM);
    let mut svg = format!(
        "<text x=\"{LEFT}\" y=\"24\" font-size=\"15\" fill=\"#222\">{}: slowest 1 % of reads around a move of 1 % of the cache</text>\n",
        panel.title
    );
    let mut put = |text: String| svg.push_str(&text);
    for (decade, label) in
        (DECADES.start..=DECADES.end).zip(["10 us", "100 us", "1 ms", "10 ms", "100 ms"])
    {
        let at = y(10_f64.powi(decade));
        put(format!("<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>\n"));
        put(format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{label}</text>\n",
            LEFT - 8.0,
            at + 4.0
        ));
    }
    for ms in [-50, 0, 50, 100, 150, 200] {
        let at = x(f64::from(ms));
        put(format!(
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{ms} ms</text>\n",
            bottom + 18.0
        ));
    }
    put(format!(
        "<path d=\"M{0:.1} {TOP}V{bottom}\" stroke=\"#888\" stroke-dasharray=\"4 3\"/>\n",
        x(0.0)
    ));
    put(format!(
        "<text x=\"{:.1}\" y=\"{}\" fill=\"#555\">the limit falls</text>\n",
        x(0.0) + 4.0,
        TOP + 12.0
    ));
    for (number, (server, steps)) in panel.lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let mut path = String::new();
        let mut pen_up = true;
        for (step, us) in steps.iter().enumerate() {
            let Some(us) = us else {
                pen_up = true; // no read began then: one that began before went on
                continue;
            };
            let at = x(FROM_MS + (step as f64 + 0.5) * STEP_MS);
            let command = if std::mem::replace(&mut pen_up, false) { 'M' } else { 'L' };
            write!(path, "{command}{at:.1} {:.1}", y(*us)).expect("a text takes it");
        }
        put(format!("<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n"));
        let label = TOP + 12.0 + 18.0 * number as f64;
        put(format!(
            "<text x=\"{}\" y=\"{label}\" fill=\"{colour}\">{server}</text>\n",
            right + 12.0
        ));
    }
    svg
}

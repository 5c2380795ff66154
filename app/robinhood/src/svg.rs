//! Line charts over time as stand-alone SVG files.
//!
//! Colours are from the Okabe-Ito set, which colour-blind people can tell apart; every line also carries its name at its
//! end, so that the picture works without colour. Light and dark follow the reader's setting.

use std::fmt::Write;

/// A curve: points of (seconds, value).
pub(crate) struct Curve<'a> {
    pub(crate) name: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A stretch of time with a name, drawn as a shade behind the curves: a latency spike.
pub(crate) struct Span {
    pub(crate) label: String,
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
}

/// One chart: at most four curves.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) subtitle: String,
    pub(crate) y_label: &'a str,
    pub(crate) duration_s: f64,
    /// A horizontal line with its name: the objective.
    pub(crate) rule: Option<(f64, String)>,
    pub(crate) spans: Vec<Span>,
    pub(crate) curves: Vec<Curve<'a>>,
}

pub(crate) const WIDTH: f64 = 960.0;
pub(crate) const HEIGHT: f64 = 420.0;
pub(crate) const LEFT: f64 = 64.0;
const RIGHT: f64 = 112.0;
pub(crate) const TOP: f64 = 76.0;
pub(crate) const BOTTOM: f64 = 48.0;
pub(crate) const COLOURS: [&str; 4] = ["#d55e00", "#0072b2", "#009e73", "#cc79a7"];
const STYLE: &str = "\
text{font-family:system-ui,sans-serif;font-size:13px;fill:#333}\
.title{font-size:18px;font-weight:600}.grid{stroke:#ddd;stroke-width:1}.rule{stroke:#555;stroke-dasharray:6 4}\
.span{fill:#000;opacity:.06}.paper{fill:#fff}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#3a3a3a}.rule{stroke:#bbb}.span{fill:#fff;opacity:.09}.paper{fill:#161616}}";

impl Chart<'_> {
    /// The picture as the text of an SVG file.
    pub(crate) fn render(&self) -> String {
        let mut svg = String::new();
        open(&mut svg, self.title, &self.subtitle);
        let top = self.y_top();
        self.spans(&mut svg);
        self.axes(&mut svg, top);
        self.rule(&mut svg, top);
        self.curves(&mut svg, top);
        svg.push_str("</svg>\n");
        svg
    }

    /// The highest value drawn, with some air above it.
    fn y_top(&self) -> f64 {
        let values = self.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
        let rule = self.rule.iter().map(|rule| rule.0);
        values.chain(rule).fold(1e-9, f64::max) * 1.08
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (seconds / self.duration_s.max(1e-9)).clamp(0.0, 1.0)
    }

    fn spans(&self, svg: &mut String) {
        for span in &self.spans {
            let (from, to) = (self.x(span.from_s), self.x(span.to_s));
            let _ = write!(
                svg,
                "<rect class=\"span\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                to - from,
                HEIGHT - TOP - BOTTOM,
                (from + to) / 2.0,
                TOP - 6.0,
                escape(&span.label)
            );
        }
    }

    fn axes(&self, svg: &mut String, top: f64) {
        let step = round_step(top / 5.0);
        let mut value = 0.0;
        while value <= top {
            grid_line(svg, WIDTH - RIGHT, y(value, top), value);
            value += step;
        }
        let step = round_step(self.duration_s / 8.0);
        let mut seconds = 0.0;
        while seconds <= self.duration_s * 1.001 {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} s</text>",
                self.x(seconds),
                HEIGHT - BOTTOM + 20.0,
                number(seconds)
            );
            seconds += step;
        }
        label_of_values(svg, self.y_label);
    }

    fn rule(&self, svg: &mut String, top: f64) {
        if let Some((value, name)) = &self.rule {
            let y = y(*value, top);
            let _ = write!(
                svg,
                "<line class=\"rule\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                LEFT + 6.0,
                y - 6.0,
                escape(name)
            );
        }
    }

    fn curves(&self, svg: &mut String, top: f64) {
        let drawn =
            || self.curves.iter().zip(COLOURS).filter(|(curve, _)| !curve.points.is_empty());
        for (curve, colour) in drawn() {
            let point = |&(seconds, value): &(f64, f64)| {
                format!("{:.1},{:.1}", self.x(seconds), y(value, top))
            };
            let points: Vec<String> = curve.points.iter().map(point).collect();
            let _ = write!(
                svg,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linejoin=\"round\" points=\"{}\"/>",
                points.join(" ")
            );
        }
        // Names stand at the ends of their lines, lowest first, pushed up when two lines end together.
        let end = |curve: &Curve<'_>| curve.points.last().map_or(0.0, |last| last.1);
        let mut names: Vec<_> = drawn().collect();
        names.sort_by(|a, b| end(a.0).total_cmp(&end(b.0)));
        let mut free_y = HEIGHT;
        for (curve, colour) in names {
            let name_y = (y(end(curve), top) + 4.0).min(free_y);
            free_y = name_y - 15.0;
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{name_y:.1}\" style=\"fill:{colour};font-weight:600\">{}</text>",
                WIDTH - RIGHT + 8.0,
                escape(curve.name)
            );
        }
    }
}

/// The beginning of every picture: its size, its style, its title and a line under it.
pub(crate) fn open(svg: &mut String, title: &str, subtitle: &str) {
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">\
         <style>{STYLE}</style><rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\
         <text class=\"title\" x=\"{LEFT}\" y=\"28\">{0}</text><text x=\"{LEFT}\" y=\"50\">{1}</text>",
        escape(title),
        escape(subtitle)
    );
}

/// A line across the picture at height `y`, with its value at the left.
pub(crate) fn grid_line(svg: &mut String, right: f64, y: f64, value: f64) {
    let _ = write!(
        svg,
        "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        LEFT - 8.0,
        y + 4.0,
        number(value)
    );
}

/// What the values at the left are.
pub(crate) fn label_of_values(svg: &mut String, label: &str) {
    let _ = write!(
        svg,
        "<text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        (TOP + HEIGHT - BOTTOM) / 2.0,
        escape(label)
    );
}

fn y(value: f64, top: f64) -> f64 {
    HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / top).clamp(0.0, 1.0)
}

/// The next of 1, 2, 5, 10, ... at or above `raw`.
pub(crate) fn round_step(raw: f64) -> f64 {
    let magnitude = 10f64.powf(raw.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude);
    steps.into_iter().find(|step| *step >= raw).unwrap_or(steps[3])
}

fn number(value: f64) -> String {
    if value.fract().abs() < 1e-9 { format!("{value:.0}") } else { format!("{value:.2}") }
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_draws_every_curve_and_escapes_names() {
        let chart = Chart {
            title: "P99 <of> requests",
            subtitle: String::new(),
            y_label: "ms",
            duration_s: 100.0,
            rule: Some((50.0, "objective".into())),
            spans: vec![Span { label: "spike".into(), from_s: 20.0, to_s: 40.0 }],
            curves: vec![
                Curve { name: "shared", points: vec![(0.0, 10.0), (100.0, 80.0)] },
                Curve { name: "robinhood", points: vec![(0.0, 10.0), (100.0, 80.0)] },
                Curve { name: "empty", points: vec![] },
            ],
        };
        let svg = chart.render();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("P99 &lt;of&gt; requests") && svg.contains(">shared</text>"));
        let name_ys: Vec<&str> =
            svg.split("y=\"").filter(|part| part.contains("style=\"fill:")).collect();
        assert_eq!(name_ys.len(), 2);
        assert_ne!(
            name_ys[0].split('"').next(),
            name_ys[1].split('"').next(),
            "names do not overlap"
        );
    }

    #[test]
    fn steps_of_axes_are_round() {
        assert_eq!([0.7, 3.0, 12.0, 40.0].map(round_step), [1.0, 5.0, 20.0, 50.0]);
    }
}

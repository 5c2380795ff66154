//! Line charts as SVG: files of their own, and parts of a page.
//!
//! Every line carries its name and has a dash of its own, so that the picture works without colour; colours are dark on light and
//! light on dark, and follow the reader's setting.

mod axes;
mod bars;
mod shares;

use std::fmt::Write;

use axes::Ticks;
pub(crate) use axes::{Across, Upright, grouped};
pub(crate) use bars::{Bar, Bars, Group};
pub(crate) use shares::{BANDS_MAX, Band, Shares};

/// A curve: points of (place on the axis across, value).
pub(crate) struct Curve<'a> {
    pub(crate) name: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A stretch of time with a name, drawn as a shade behind the curves: a latency spike, a warm-up.
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
    pub(crate) across: Across,
    pub(crate) upright: Upright,
    /// A horizontal line with its name: the objective.
    pub(crate) rule: Option<(f64, String)>,
    pub(crate) spans: Vec<Span>,
    pub(crate) curves: Vec<Curve<'a>>,
}

/// Where things stand in a picture, in its own units.
#[derive(Clone, Copy)]
struct Layout {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Names of curves at their ends, where there is room, or else in a row above.
    names_at_ends: bool,
    /// The label of the axis along it, or else above it.
    label_upright: bool,
}

pub(crate) const WIDTH: f64 = 960.0;
pub(crate) const HEIGHT: f64 = 420.0;
pub(crate) const LEFT: f64 = 64.0;
pub(crate) const TOP: f64 = 76.0;
pub(crate) const BOTTOM: f64 = 48.0;
/// For pictures that are not of [`Chart`]: told apart by colour-blind people (Okabe and Ito), on light and on dark.
pub(crate) const COLOURS: [&str; 4] = ["#d55e00", "#0072b2", "#009e73", "#cc79a7"];

const FILE: Layout = Layout {
    width: WIDTH,
    height: HEIGHT,
    left: LEFT,
    right: 112.0,
    top: TOP,
    bottom: BOTTOM,
    names_at_ends: true,
    label_upright: true,
};
const WIDE: Layout = Layout {
    width: 920.0,
    height: 340.0,
    right: 124.0,
    top: 40.0,
    bottom: 32.0,
    label_upright: false,
    ..FILE
};
const NARROW: Layout = Layout {
    width: 380.0,
    height: 290.0,
    left: 52.0,
    right: 14.0,
    top: 58.0,
    names_at_ends: false,
    ..WIDE
};

/// What pages with charts need in their style sheet; files carry it themselves.
pub(crate) const STYLE: &str = "\
svg text{font-family:system-ui,sans-serif;font-size:13px;fill:#333}\
svg .title{font-size:18px;font-weight:600}svg .name{font-weight:600}\
svg .grid{stroke:#ddd;stroke-width:1}svg .rule{stroke:#555;stroke-dasharray:6 4}\
svg .span{fill:#000;opacity:.06}svg .paper{fill:#fff}svg .halo{paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}\
svg .c{fill:none;stroke-width:2;stroke-linejoin:round}\
svg .c0{stroke:#b84a00}svg .c1{stroke:#0067a3;stroke-dasharray:8 3}svg .c2{stroke:#007355;stroke-dasharray:2 3}svg .c3{stroke:#a3457c;stroke-dasharray:9 3 2 3}\
svg .b{stroke:#fff;stroke-width:1}svg .b0{fill:#0072b2}svg .b1{fill:#e69f00}svg .b2{fill:#009e73}svg .b3{fill:#cc79a7}svg .b4{fill:#56b4e9}svg .b5{fill:#9a9a9a}svg .on{fill:#000;font-size:12px}\
@media(prefers-color-scheme:dark){svg text{fill:#ddd}svg .grid{stroke:#3a3a3a}svg .rule{stroke:#bbb}svg .span{fill:#fff;opacity:.1}svg .paper{fill:#161616}svg .halo{stroke:#161616}\
svg .b{stroke:#161616}svg .c0{stroke:#f28c4b}svg .c1{stroke:#63b8ee}svg .c2{stroke:#35c79b}svg .c3{stroke:#e39ac4}}";

impl Chart<'_> {
    /// The picture as the text of an SVG file.
    pub(crate) fn render(&self) -> String {
        let mut svg = String::new();
        open(&mut svg, self.title, &self.subtitle);
        self.draw(&mut svg, FILE);
        svg.push_str("</svg>\n");
        svg
    }

    /// The picture as a part of a page: once for wide and once for narrow screens, in elements of the classes `wide` and `narrow`, of which the
    /// page hides one. `id` must be unique on the page; the subtitle is read to those who do not see.
    pub(crate) fn inline(&self, id: &str) -> String {
        let mut html = String::new();
        for (class, layout) in [("wide", WIDE), ("narrow", NARROW)] {
            open_inline(&mut html, (class, id), layout, (self.title, &self.subtitle));
            self.draw(&mut html, layout);
            html.push_str("</svg>\n");
        }
        html
    }

    fn draw(&self, svg: &mut String, layout: Layout) {
        let values = self.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
        let ticks = self.upright.ticks(values.chain(self.rule.iter().map(|rule| rule.0)));
        let picture = Picture { layout, across: self.across, ticks };
        self.spans(svg, &picture);
        self.axes(svg, &picture);
        self.curves(svg, &picture);
        if let Some((value, name)) = &self.rule {
            let (left, y) = (layout.left, picture.y(*value));
            let _ = write!(
                svg,
                "<line class=\"rule\" x1=\"{left}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text class=\"halo\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                layout.width - layout.right,
                left + 6.0,
                y - 6.0,
                escape(name)
            );
        }
    }

    fn spans(&self, svg: &mut String, picture: &Picture) {
        let Layout { height, left, top, bottom, .. } = picture.layout;
        // Where the names in each row end: above the picture, and below the first row where they would overlap.
        let mut ends = [0.0_f64; 3];
        for span in &self.spans {
            let (from, to) = (picture.x(span.from_s), picture.x(span.to_s));
            let width = 7.0 * span.label.chars().count() as f64;
            // A name that is wider than its span begins with it.
            let is_wide = to - from > width || from > left + 60.0;
            let (anchor, at, begin) = match is_wide {
                true => ("middle", (from + to) / 2.0, (from + to - width) / 2.0),
                false => ("start", from, from),
            };
            let row = ends.iter().position(|end| *end <= begin).unwrap_or(0);
            ends[row] = begin + width;
            let _ = write!(
                svg,
                "<rect class=\"span\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{:.1}\"/>\
                 <text class=\"halo\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                to - from,
                height - top - bottom,
                top - 6.0 + 20.0 * row as f64,
                escape(&span.label)
            );
        }
    }

    fn axes(&self, svg: &mut String, picture: &Picture) {
        let Layout { width, height, left, right, bottom, label_upright, .. } = picture.layout;
        for (value, label) in &picture.ticks.marks {
            marked_line(svg, (left, width - right), picture.y(*value), label);
        }
        for (place, label) in self.across.marks((width - left - right) / 60.0) {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                picture.x(place),
                height - bottom + 20.0,
            );
        }
        if label_upright {
            label_of_values(svg, self.y_label);
        } else {
            let _ = write!(svg, "<text x=\"4\" y=\"14\">{}</text>", escape(self.y_label));
        }
    }

    fn curves(&self, svg: &mut String, picture: &Picture) {
        let drawn = || self.curves.iter().enumerate().filter(|(_, curve)| !curve.points.is_empty());
        for (number, curve) in drawn() {
            let _ = write!(svg, "<polyline class=\"c c{number}\" points=\"");
            for (place, value) in &curve.points {
                let _ = write!(svg, "{:.1},{:.1} ", picture.x(*place), picture.y(*value));
            }
            svg.push_str("\"/>");
        }
        let Layout { width, height, left, right, .. } = picture.layout;
        let mut name = |number: usize, name: &str, x: f64, y: f64| {
            let _ = write!(
                svg,
                "<line class=\"c c{number}\" x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/><text class=\"name\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                x + 18.0,
                y - 4.0,
                y - 4.0,
                x + 23.0,
                escape(name)
            );
        };
        if !picture.layout.names_at_ends {
            let mut x = left - 48.0;
            for (number, curve) in drawn() {
                name(number, curve.name, x, 34.0);
                x += 38.0 + 7.5 * curve.name.chars().count() as f64;
            }
            return;
        }
        // At the ends of their lines, lowest first, pushed up when two lines end together.
        let end = |curve: &Curve<'_>| curve.points.last().map_or(0.0, |last| last.1);
        let mut names: Vec<_> = drawn().collect();
        names.sort_by(|a, b| end(a.1).total_cmp(&end(b.1)));
        let mut free_y = height;
        for (number, curve) in names {
            let y = (picture.y(end(curve)) + 4.0).min(free_y);
            free_y = y - 15.0;
            name(number, curve.name, width - right + 6.0, y);
        }
    }
}

/// The beginning of every file: its size, its style, its title and a line under it.
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

/// The beginning of a part of a page.
fn open_inline(
    html: &mut String,
    (class, id): (&str, &str),
    layout: Layout,
    (title, subtitle): (&str, &str),
) {
    let Layout { width, height, .. } = layout;
    let _ = write!(
        html,
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-{class}-t {id}-{class}-d\">\
         <title id=\"{id}-{class}-t\">{}</title><desc id=\"{id}-{class}-d\">{}</desc>",
        escape(title),
        escape(subtitle)
    );
}

/// A line across a file at height `y`, with its value at the left.
pub(crate) fn grid_line(svg: &mut String, right: f64, y: f64, value: f64) {
    marked_line(svg, (LEFT, right), y, &grouped(value));
}

fn marked_line(svg: &mut String, (left, right): (f64, f64), y: f64, label: &str) {
    let _ = write!(
        svg,
        "<line class=\"grid\" x1=\"{left}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
        left - 8.0,
        y + 4.0,
    );
}

/// What the values at the left of a file are.
pub(crate) fn label_of_values(svg: &mut String, label: &str) {
    let _ = write!(
        svg,
        "<text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        (TOP + HEIGHT - BOTTOM) / 2.0,
        escape(label)
    );
}

/// From values to places in a picture.
struct Picture {
    layout: Layout,
    across: Across,
    ticks: Ticks,
}

impl Picture {
    fn x(&self, value: f64) -> f64 {
        let Layout { width, left, right, .. } = self.layout;
        left + (width - left - right) * self.across.share(value)
    }

    fn y(&self, value: f64) -> f64 {
        let Layout { height, top, bottom, .. } = self.layout;
        height - bottom - (height - top - bottom) * self.ticks.share(value)
    }
}

/// Text that may come from anywhere, for an element or an attribute in double or single quotes.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart<'static> {
        Chart {
            title: "P99 <of> requests",
            subtitle: "what's \"new\"".into(),
            y_label: "ms",
            across: Across::Seconds(100.0),
            upright: Upright::Linear,
            rule: Some((50.0, "objective".into())),
            spans: vec![Span { label: "spike".into(), from_s: 20.0, to_s: 40.0 }],
            curves: vec![
                Curve { name: "shared", points: vec![(0.0, 10.0), (100.0, 80.0)] },
                Curve { name: "robinhood", points: vec![(0.0, 10.0), (100.0, 80.0)] },
                Curve { name: "empty", points: vec![] },
            ],
        }
    }

    #[test]
    fn a_chart_draws_every_curve_and_escapes_names() {
        let svg = chart().render();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("P99 &lt;of&gt; requests") && svg.contains(">shared</text>"));
        assert!(svg.contains("what&#39;s &quot;new&quot;") && !svg.contains("<of>"));
        let name_ys: Vec<&str> = svg.split("class=\"name\" x=").skip(1).collect();
        assert_eq!(name_ys.len(), 2);
        assert_ne!(
            name_ys[0].split('>').next(),
            name_ys[1].split('>').next(),
            "names do not overlap"
        );
    }

    #[test]
    fn a_chart_of_a_page_has_both_sizes_with_title_and_description() {
        let html = chart().inline("tail");
        assert_eq!((html.matches("<svg").count(), html.matches("<polyline").count()), (2, 4));
        for part in [
            "class=\"wide\"",
            "class=\"narrow\"",
            "id=\"tail-wide-t\"",
            "<desc id=\"tail-narrow-d\"",
        ] {
            assert!(html.contains(part), "{part} is missing");
        }
        assert!(!html.contains("<style"), "the page has one");
    }

    #[test]
    fn names_of_spans_do_not_overlap_where_there_is_little_room() {
        let span =
            |from_s: f64| Span { label: "catalogue at 46 %".into(), from_s, to_s: from_s + 15.0 };
        let chart = Chart { spans: vec![span(30.0), span(50.0), span(70.0)], ..chart() };
        let html = chart.inline("x");
        let narrow = html.split("class=\"narrow\"").nth(1).unwrap();
        let heights: Vec<&str> = narrow
            .split(" text-anchor=\"middle\">catalogue")
            .filter_map(|before| before.rsplit(" y=\"").next()?.strip_suffix('"'))
            .take(3)
            .collect();
        assert_eq!(heights, ["52.0", "72.0", "52.0"], "the third has room beside the first");
    }

    #[test]
    fn nothing_to_draw_draws_axes_only() {
        for upright in [Upright::Linear, Upright::Logarithmic] {
            let svg = Chart { curves: vec![], rule: None, upright, ..chart() }.render();
            assert!(svg.contains("class=\"grid\"") && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}

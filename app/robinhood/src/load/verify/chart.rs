//! Offsets over percentiles, with their intervals, as a stand-alone SVG file.

use std::fmt::Write;

use robinhood_load_tester::verify::offsets::{Clocking, Offsets, QUANTILES};

use super::document::{Compared, Document, percentile, what};
use crate::svg::{self, BOTTOM, COLOURS, HEIGHT, LEFT, TOP, WIDTH, escape};

/// Room for the names of the lines.
const RIGHT: f64 = 250.0;
/// Up to here values rise evenly, beyond by factors: what counts is below, and a disturbed machine reaches milliseconds at P99.9.
const EVEN_US: f64 = 20.0;
/// Marks that may stand on the axis, beside zero and those of the other sign.
const MARKS_US: [f64; 15] =
    [5.0, 10.0, 15.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6, 1e7];

/// A line through the offsets of one run.
struct Line<'a> {
    name: String,
    offsets: &'a Offsets,
    colour: &'static str,
    dashes: &'static str,
}

/// The picture as the text of an SVG file.
pub(super) fn draw(document: &Document) -> String {
    let lines = lines(document);
    let ends = lines.iter().flat_map(|line| &line.offsets.points);
    let (low, high) = ends.fold((0.0, 1.0), |(low, high): (f64, f64), point| {
        (low.min(point.offset.low_ns / 1e3), high.max(point.offset.high_ns / 1e3))
    });
    let scale = Scale { low: bent(low) - 0.05, high: bent(high) + 0.05 };
    let title = "Load tester less packet capture, by percentile of latency";
    let subtitle = "from due: less the lateness that no client avoids; bars are 95 % intervals; even up to 20 us, then by factors";
    let mut svg = String::new();
    svg::open(&mut svg, title, subtitle);
    scale.axes(&mut svg);
    for (place, line) in lines.iter().enumerate() {
        scale.line(&mut svg, line, place, lines.len());
    }
    svg.push_str("</svg>\n");
    svg
}

fn lines(document: &Document) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for (level, colour) in document.levels().zip(COLOURS) {
        let load = match level.server_load {
            Some(share) => format!("{}, {:.0} % load", level.name, share * 100.0),
            None => format!("{}, {:.0}/s", level.name, level.rate_per_s),
        };
        for Compared { clocking, offsets, .. } in &level.compared {
            let dashes = match clocking {
                Clocking::Send => "none",
                Clocking::Due => "6 4",
                Clocking::Kernel => "2 3",
            };
            let name = format!("{load}, {}", what(*clocking));
            lines.push(Line { name, offsets, colour, dashes });
        }
    }
    lines
}

/// How far from zero a value stands.
fn bent(us: f64) -> f64 {
    if us.abs() <= EVEN_US {
        us / EVEN_US
    } else {
        us.signum() * (1.0 + (us.abs() / EVEN_US).log10())
    }
}

/// From microseconds and percentiles to places. The ends are bent.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn y(&self, us: f64) -> f64 {
        let share = (bent(us) - self.low) / (self.high - self.low);
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share
    }

    /// Percentiles stand side by side at equal distances.
    fn x(place: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (place + 0.5) / QUANTILES.len() as f64
    }

    fn axes(&self, svg: &mut String) {
        let marks = MARKS_US.iter().flat_map(|&us| [us, -us]).chain([0.0]);
        for value in marks.filter(|&us| (self.low..=self.high).contains(&bent(us))) {
            svg::grid_line(svg, WIDTH - RIGHT, self.y(value), value);
        }
        for (place, quantile) in QUANTILES.iter().enumerate() {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                Self::x(place as f64),
                HEIGHT - BOTTOM + 20.0,
                percentile(*quantile)
            );
        }
        svg::label_of_values(svg, "offset, microseconds");
    }

    /// A line with its bars; lines stand a little apart, so that bars do not hide each other.
    fn line(&self, svg: &mut String, line: &Line<'_>, number: usize, count: usize) {
        let apart = 0.4 * ((number as f64 + 0.5) / count as f64 - 0.5);
        let (colour, dashes) = (line.colour, line.dashes);
        let mut path = Vec::new();
        for (place, point) in line.offsets.points.iter().enumerate() {
            let x = Self::x(place as f64 + apart);
            let y = self.y(point.offset.ns / 1e3);
            path.push(format!("{x:.1},{y:.1}"));
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>\
                 <line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                self.y(point.offset.low_ns / 1e3),
                self.y(point.offset.high_ns / 1e3)
            );
        }
        let _ = write!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" stroke-dasharray=\"{dashes}\" points=\"{}\"/>",
            path.join(" ")
        );
        let (x, y) = (WIDTH - RIGHT + 12.0, TOP + 8.0 + 22.0 * number as f64);
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 26.0,
            x + 32.0,
            y + 4.0,
            escape(&line.name)
        );
    }
}

//! Shares of a whole over time, one above the other: who blocks the tail, where the cache is.
//!
//! Bands lie in the order of their names beside them, with a line between two, so that the picture works without colour.

use std::fmt::Write;

use super::{Across, Layout, NARROW, WIDE, escape, marked_line};

/// The most bands that have a colour of their own; the one after them is grey.
pub(crate) const BANDS_MAX: usize = 5;
/// A name needs so much of the height at its side.
const NAME_SHARE_MIN: f64 = 0.05;

/// One part of the whole.
pub(crate) struct Band {
    pub(crate) name: String,
    /// From 0 to 1, one for each moment.
    pub(crate) shares: Vec<f64>,
}

/// A picture of at most [`BANDS_MAX`] bands and a grey one for the rest.
pub(crate) struct Shares<'a> {
    pub(crate) title: &'a str,
    pub(crate) subtitle: &'a str,
    /// Length of the axis.
    pub(crate) seconds: f64,
    /// The moments, in order.
    pub(crate) at_s: Vec<f64>,
    /// From the bottom up.
    pub(crate) bands: Vec<Band>,
}

impl Shares<'_> {
    /// The picture as a part of a page, as [`super::Chart::inline`] draws one.
    pub(crate) fn inline(&self, id: &str) -> String {
        let mut html = String::new();
        for (class, layout) in [("wide", WIDE), ("narrow", NARROW)] {
            super::open_inline(&mut html, (class, id), layout, (self.title, self.subtitle));
            self.draw(&mut html, layout);
            html.push_str("</svg>\n");
        }
        html
    }

    fn draw(&self, svg: &mut String, layout: Layout) {
        let Layout { width, height, left, right, top, bottom, .. } = layout;
        let across = Across::Seconds(self.seconds);
        let x = |at_s: f64| left + (width - left - right) * across.share(at_s);
        let y = |share: f64| height - bottom - (height - top - bottom) * share.clamp(0.0, 1.0);
        for percent in [0.0, 25.0, 50.0, 75.0, 100.0] {
            let label = format!("{percent:.0} %");
            marked_line(svg, (left, width - right), y(percent / 100.0), &label);
        }
        for (place, label) in across.marks((width - left - right) / 60.0) {
            let (x, y) = (x(place), height - bottom + 20.0);
            let _ = write!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{label}</text>"
            );
        }
        let mut below = vec![0.0; self.at_s.len()];
        for (number, band) in self.bands.iter().enumerate() {
            let above: Vec<f64> =
                below.iter().zip(&band.shares).map(|(below, share)| below + share).collect();
            let _ = write!(svg, "<polygon class=\"b b{number}\" points=\"");
            let edge = self.at_s.iter().zip(&above);
            let back = self.at_s.iter().zip(&below).rev();
            for (at_s, share) in edge.chain(back) {
                let _ = write!(svg, "{:.1},{:.1} ", x(*at_s), y(*share));
            }
            svg.push_str("\"/>");
            let last = band.shares.last().copied().unwrap_or(0.0);
            if layout.names_at_ends && last >= NAME_SHARE_MIN {
                let middle = above.last().copied().unwrap_or(0.0) - last / 2.0;
                let at = (width - right + 6.0, y(middle) + 4.0);
                self.name(svg, number, at);
            }
            below = above;
        }
        if !layout.names_at_ends {
            self.names_above(svg, layout);
        } else {
            self.names_without_room(svg, layout);
        }
    }

    fn name(&self, svg: &mut String, number: usize, (x, y): (f64, f64)) {
        let _ = write!(
            svg,
            "<rect class=\"b{number}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\"/><text class=\"name\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
            y - 9.0,
            x + 15.0,
            escape(&self.bands[number].name)
        );
    }

    /// In rows above the picture.
    fn names_above(&self, svg: &mut String, layout: Layout) {
        let (mut x, mut y) = (4.0, 16.0);
        for (number, band) in self.bands.iter().enumerate() {
            let room = 26.0 + 7.5 * band.name.chars().count() as f64;
            if x + room > layout.width {
                (x, y) = (4.0, y + 17.0);
            }
            self.name(svg, number, (x, y));
            x += room;
        }
    }

    /// Bands too thin for a name beside them have it above the picture.
    fn names_without_room(&self, svg: &mut String, layout: Layout) {
        let mut x = layout.left;
        for (number, band) in self.bands.iter().enumerate() {
            if band.shares.last().is_none_or(|last| *last < NAME_SHARE_MIN) {
                self.name(svg, number, (x, layout.top - 10.0));
                x += 26.0 + 7.5 * band.name.chars().count() as f64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(bands: &[(&str, [f64; 2])]) -> String {
        let band = |(name, shares): &(&str, [f64; 2])| Band {
            name: (*name).to_owned(),
            shares: shares.to_vec(),
        };
        let picture = Shares {
            title: "Who <blocks>",
            subtitle: "by backend",
            seconds: 10.0,
            at_s: vec![0.0, 10.0],
            bands: bands.iter().map(band).collect(),
        };
        picture.inline("rbc")
    }

    #[test]
    fn bands_lie_on_each_other_and_all_are_named_in_both_sizes() {
        let html = shares(&[("ads", [0.5, 0.0]), ("ratings", [0.25, 1.0])]);
        assert_eq!((html.matches("<svg").count(), html.matches("<polygon").count()), (2, 4));
        assert_eq!(html.matches(">ads</text>").count(), 2, "the thin one too");
        assert_eq!(html.matches(">ratings</text>").count(), 2);
        assert!(html.contains("Who &lt;blocks&gt;") && !html.contains("NaN"));
        // In the wide picture: 40 to 308 from top to bottom, 64 to 796 from left to right.
        let first = "64.0,174.0 796.0,308.0 796.0,308.0 64.0,308.0 ";
        let second = "64.0,107.0 796.0,40.0 796.0,308.0 64.0,174.0 ";
        assert!(html.contains(first) && html.contains(second), "{html}");
    }

    #[test]
    fn nothing_to_draw_draws_axes_only() {
        let picture = Shares { title: "", subtitle: "", seconds: 0.0, at_s: vec![], bands: vec![] };
        let html = picture.inline("x");
        assert!(html.contains("class=\"grid\"") && !html.contains("NaN"));
    }
}

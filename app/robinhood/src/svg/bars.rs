//! Shares of a whole as lying bars, one under the other in groups: who blocks at a moment, policy by policy.
//!
//! The parts of a bar lie in one order with a line between two, and large ones carry their number, so that the picture works without colour.

use std::fmt::Write;

use super::{BANDS_MAX, Layout, NARROW, WIDE, escape};

/// One bar.
pub(crate) struct Bar {
    pub(crate) name: String,
    /// From 0 to 1, in the order of the parts.
    pub(crate) shares: Vec<f64>,
}

/// Bars under a heading.
pub(crate) struct Group {
    pub(crate) heading: String,
    pub(crate) bars: Vec<Bar>,
}

/// A picture of bars with the same parts.
pub(crate) struct Bars<'a> {
    pub(crate) title: &'a str,
    pub(crate) subtitle: &'a str,
    /// Names of the parts: at most [`BANDS_MAX`], and the last one, which is grey.
    pub(crate) parts: Vec<String>,
    pub(crate) groups: Vec<Group>,
}

const BAR: f64 = 17.0;
const ROW: f64 = 22.0;
const HEADING: f64 = 30.0;
const KEY: f64 = 30.0;
/// A number needs so much of the width of a bar.
const NUMBER_SHARE_MIN: f64 = 0.12;

impl Bars<'_> {
    /// The picture as a part of a page, as [`super::Chart::inline`] draws one.
    pub(crate) fn inline(&self, id: &str) -> String {
        assert!(self.parts.len() <= BANDS_MAX + 1, "a colour for each part and grey for the rest");
        let rows: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        let height = KEY + HEADING * self.groups.len() as f64 + ROW * rows as f64 + 8.0;
        let mut html = String::new();
        for (class, layout) in [("wide", WIDE), ("narrow", NARROW)] {
            let layout = Layout { height, left: 100.0, right: 20.0, ..layout };
            super::open_inline(&mut html, (class, id), layout, (self.title, self.subtitle));
            self.draw(&mut html, layout);
            html.push_str("</svg>\n");
        }
        html
    }

    fn draw(&self, svg: &mut String, layout: Layout) {
        let mut x = layout.left;
        for (number, part) in self.parts.iter().enumerate() {
            let _ = write!(
                svg,
                "<rect class=\"b{}\" x=\"{x:.1}\" y=\"6\" width=\"10\" height=\"10\"/><text class=\"name\" x=\"{:.1}\" y=\"15\">{}</text>",
                colour(number, self.parts.len()),
                x + 15.0,
                escape(part)
            );
            x += 30.0 + 7.5 * part.chars().count() as f64;
        }
        let mut y = KEY;
        for group in &self.groups {
            let _ = write!(
                svg,
                "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                layout.left,
                y + 20.0,
                escape(&group.heading)
            );
            y += HEADING;
            for bar in &group.bars {
                bar.draw(svg, layout, y);
                y += ROW;
            }
        }
    }
}

/// The last of so many parts is grey.
const fn colour(number: usize, parts: usize) -> usize {
    if number + 1 == parts { BANDS_MAX } else { number }
}

impl Bar {
    fn draw(&self, svg: &mut String, layout: Layout, y: f64) {
        let Layout { width, left, right, .. } = layout;
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            y + 13.0,
            escape(&self.name)
        );
        let mut x = left;
        for (number, share) in self.shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let part = (width - left - right) * share.min(1.0);
            let _ = write!(
                svg,
                "<rect class=\"b b{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{part:.1}\" height=\"{BAR}\"/>",
                colour(number, self.shares.len())
            );
            if *share >= NUMBER_SHARE_MIN {
                let _ = write!(
                    svg,
                    "<text class=\"on\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0} %</text>",
                    x + part / 2.0,
                    y + 13.0,
                    share * 100.0
                );
            }
            x += part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_in_both_sizes_with_numbers_where_there_is_room() {
        let bars = vec![
            Bar { name: "<a>".into(), shares: vec![0.5, 0.05, 0.45] },
            Bar { name: "b".into(), shares: vec![0.0, 1.0, 0.0] },
        ];
        let picture = Bars {
            title: "t",
            subtitle: "s",
            parts: vec!["b6".into(), "b5".into(), "others".into()],
            groups: vec![Group { heading: "at 50 min".into(), bars }],
        };
        let html = picture.inline("x");
        assert_eq!((html.matches("<svg").count(), html.matches("class=\"b b").count()), (2, 8));
        for (text, times) in [(">50 %<", 2), (">45 %<", 2), (">5 %<", 0), (">100 %<", 2)] {
            assert_eq!(html.matches(text).count(), times, "{text}");
        }
        assert_eq!(html.matches("class=\"b b5\"").count(), 2, "the last is grey");
        assert!(html.contains("&lt;a&gt;") && !html.contains("<a>"));
    }
}

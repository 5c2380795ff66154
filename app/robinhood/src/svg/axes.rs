//! Axes: from values to places, and where the marks are.

/// The axis across.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Across {
    /// From zero to so many seconds.
    Seconds(f64),
    /// Quantiles from 0 to this one, below 1: each nine takes the same room.
    Quantiles(f64),
    /// From zero to so many percent.
    Percent(f64),
    /// Values of something with a unit, which stands behind each with the space that it needs.
    Values { from: f64, to: f64, unit: &'static str },
}

/// How values rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upright {
    /// From zero, evenly.
    Linear,
    /// By factors; values of zero stand at the bottom.
    Logarithmic,
}

impl Upright {
    /// By factors when the largest value is over 30 times the smallest one above zero.
    pub(crate) fn suiting(values: impl Iterator<Item = f64> + Clone) -> Self {
        let (least, most) = range(values);
        if most > 30.0 * least { Self::Logarithmic } else { Self::Linear }
    }

    /// Marks at round values, up to the first one above all values or close to it.
    pub(super) fn ticks(self, values: impl Iterator<Item = f64>) -> Ticks {
        let (least, most) = range(values);
        match self {
            Self::Linear => {
                let top = most * 1.08;
                let step = round_step(top / 5.0);
                let marks = (0..=(top / step) as u32).map(|count| f64::from(count) * step);
                Ticks { bottom: 0.0, top, is_log: false, marks: labelled(marks) }
            }
            Self::Logarithmic => {
                let last = (most * 1.05).log10().ceil() as i32;
                let first = (least.log10().floor() as i32).max(last - DECADES_MAX);
                let (bottom, top) = (10f64.powi(first), 10f64.powi(last.max(first + 1)));
                let factors: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let marks = (first..=last.max(first + 1))
                    .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
                    .filter(|mark| *mark <= top * 1.001);
                Ticks { bottom, top, is_log: true, marks: labelled(marks) }
            }
        }
    }
}

/// What lies lower stands at the bottom.
const DECADES_MAX: i32 = 6;

/// The smallest value above zero and the largest one.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let positive = values.filter(|value| *value > 0.0);
    let (least, most) = positive
        .fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
    if most > 0.0 { (least, most) } else { (1.0, 1.0) }
}

fn labelled(marks: impl Iterator<Item = f64>) -> Vec<(f64, String)> {
    marks.map(|mark| (mark, grouped(mark))).collect()
}

/// The marks of the upright axis.
pub(super) struct Ticks {
    bottom: f64,
    top: f64,
    is_log: bool,
    pub(super) marks: Vec<(f64, String)>,
}

impl Ticks {
    /// How far up a value is, from 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.bottom) / self.bottom).log10() / (self.top / self.bottom).log10()
        } else {
            value / self.top
        };
        share.clamp(0.0, 1.0)
    }
}

impl Across {
    /// How far across a value is, from 0 to 1.
    pub(super) fn share(self, value: f64) -> f64 {
        let share = match self {
            Self::Seconds(longest) => value / longest.max(1e-9),
            Self::Quantiles(last) => nines(value) / nines(last).max(1e-9),
            Self::Percent(last) => value / last.max(1e-9),
            Self::Values { from, to, .. } => (value - from) / (to - from).max(1e-9),
        };
        share.clamp(0.0, 1.0)
    }

    /// Places of marks and what stands at them, about so many.
    pub(super) fn marks(self, about: f64) -> Vec<(f64, String)> {
        match self {
            Self::Seconds(longest) => {
                let (unit_s, unit, least) = match longest {
                    longest if longest >= 7_200.0 => (3_600.0, "h", 1.0),
                    longest if longest >= 600.0 => (60.0, "min", 1.0),
                    _ => (1.0, "s", 0.0),
                };
                let step = round_step(longest / unit_s / about.min(8.0)).max(least);
                (0..=(longest / unit_s * 1.001 / step) as u32)
                    .map(|count| f64::from(count) * step)
                    .map(|value| (value * unit_s, format!("{} {unit}", grouped(value))))
                    .collect()
            }
            Self::Quantiles(last) => QUANTILES
                .into_iter()
                .filter(|&(quantile, _)| quantile <= last)
                .map(|(quantile, name)| (quantile, name.to_owned()))
                .collect(),
            Self::Percent(last) => Self::Values { from: 0.0, to: last, unit: " %" }.marks(about),
            Self::Values { from, to, unit } => {
                let step = round_step((to - from) / about.min(8.0));
                let first = (from / step - 1e-6).ceil();
                (0..=((to - first * step) / step + 1e-6).max(0.0) as u32)
                    .map(|count| (first + f64::from(count)) * step)
                    .map(|value| (value, format!("{}{unit}", grouped(value))))
                    .collect()
            }
        }
    }
}

const QUANTILES: [(f64, &str); 8] = [
    (0.5, "P50"),
    (0.9, "P90"),
    (0.99, "P99"),
    (0.999, "P99.9"),
    (0.9999, "P99.99"),
    (0.999_99, "P99.999"),
    (0.999_999, "P99.9999"),
    (0.999_999_9, "P99.99999"),
];

/// How many nines a quantile has.
fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).max(1e-12).log10()
}

/// The next of 1, 2, 5, 10, ... at or above `raw`.
fn round_step(raw: f64) -> f64 {
    let magnitude = 10f64.powf(raw.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude);
    steps.into_iter().find(|step| *step >= raw).unwrap_or(steps[3])
}

/// As few digits as needed, thousands set apart by commas.
pub(crate) fn grouped(value: f64) -> String {
    let value = value + 0.0; // no minus before a zero
    if value.abs() < 1.0 {
        let text = format!("{value:.6}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    if (value - value.round()).abs() > 1e-6 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_axes_are_round() {
        assert_eq!([0.7, 3.0, 12.0, 40.0].map(round_step), [1.0, 5.0, 20.0, 50.0]);
    }

    #[test]
    fn each_nine_takes_the_same_room() {
        let axis = Across::Quantiles(0.9999);
        for (quantile, share) in [(0.0, 0.0), (0.9, 0.25), (0.99, 0.5), (0.999, 0.75), (1.0, 1.0)] {
            assert!((axis.share(quantile) - share).abs() < 1e-9, "{quantile}");
        }
        let names: Vec<String> = axis.marks(8.0).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["P50", "P90", "P99", "P99.9", "P99.99"]);
    }

    #[test]
    fn percent_are_even() {
        let axis = Across::Percent(50.0);
        assert!((axis.share(12.5) - 0.25).abs() < 1e-9);
        let names: Vec<String> = axis.marks(8.0).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["0 %", "10 %", "20 %", "30 %", "40 %", "50 %"]);
        let axis = Across::Values { from: 25.0, to: 150.0, unit: " s" };
        assert!((axis.share(50.0) - 0.2).abs() < 1e-9);
        let names: Vec<String> = axis.marks(5.0).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["50 s", "100 s", "150 s"]);
        let one = Across::Values { from: 5.0, to: 5.0, unit: "" };
        assert_eq!((one.share(5.0), one.marks(5.0).len()), (0.0, 1));
    }

    #[test]
    fn long_times_are_in_minutes_and_hours() {
        let last = |seconds: f64| Across::Seconds(seconds).marks(8.0).pop().unwrap();
        assert_eq!(last(120.0), (120.0, "120 s".to_owned()));
        assert_eq!(last(1_200.0), (1_200.0, "20 min".to_owned()));
        assert_eq!(last(14_400.0), (14_400.0, "4 h".to_owned()));
    }

    #[test]
    fn marks_are_round_and_cover_the_values() {
        let labels = |upright: Upright, values: &[f64]| {
            let marks = upright.ticks(values.iter().copied()).marks;
            marks.into_iter().map(|(_, label)| label).collect::<Vec<_>>()
        };
        assert_eq!(labels(Upright::Linear, &[9.0]), ["0", "2", "4", "6", "8"]);
        assert_eq!(labels(Upright::Linear, &[0.5]), ["0", "0.2", "0.4"]);
        assert_eq!(
            labels(Upright::Logarithmic, &[0.0, 20.0, 40_000.0]),
            ["10", "100", "1,000", "10,000", "100,000"]
        );
        assert_eq!(labels(Upright::Logarithmic, &[20.0, 80.0]), ["10", "20", "50", "100"]);
        let values = |most: f64| [0.0, 2.0, most].into_iter();
        assert_eq!(Upright::suiting(values(50.0)), Upright::Linear);
        assert_eq!(Upright::suiting(values(70.0)), Upright::Logarithmic);
    }

    #[test]
    fn numbers_have_the_digits_they_need() {
        let texts = [-0.0, 0.05, 2.5, 12.0, 999.0, -1_000.0, 1_234_567.0].map(grouped);
        assert_eq!(texts, ["0", "0.05", "2.50", "12", "999", "-1,000", "1,234,567"]);
    }
}

//! A number of the paper beside ours: whether they agree follows from the numbers alone.

use super::args::Part;
use super::measure::{Measure, Source};

/// What a number of ours must be to agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    AtMost(f64),
    AtLeast(f64),
    /// From and to, both included.
    Between(f64, f64),
}

/// Where the paper names a number and no bound, ours agrees when it is neither more than so many times larger nor smaller.
pub(super) const TOLERANCE: f64 = 1.5;

/// Something that the paper says, as data.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) part: Part,
    /// Where the paper says it.
    pub(super) source: &'static str,
    /// What the number is.
    pub(super) what: String,
    /// The paper's number as it stands there.
    pub(super) paper: &'static str,
    pub(super) measure: Measure,
    pub(super) rule: Rule,
    /// What is likely to be the reason where ours is another.
    pub(super) otherwise: &'static str,
}

/// A claim with our numbers.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) claim: Claim,
    /// Of each seed, in the order of the seeds; at least one.
    pub(super) ours: Vec<f64>,
}

impl Rule {
    /// The rule for a number that the paper names.
    pub(super) const fn about(number: f64) -> Self {
        Self::Between(number / TOLERANCE, number * TOLERANCE)
    }

    /// Whether a number agrees.
    pub(super) fn allows(self, number: f64) -> bool {
        match self {
            Self::AtMost(most) => number <= most,
            Self::AtLeast(least) => number >= least,
            Self::Between(least, most) => (least..=most).contains(&number),
        }
    }

    /// For people, in a unit.
    pub(super) fn text(self, unit: &str) -> String {
        match self {
            Self::AtMost(most) => format!("at most {}{unit}", short(most)),
            Self::AtLeast(least) => format!("at least {}{unit}", short(least)),
            Self::Between(least, most) => format!("{} to {}{unit}", short(least), short(most)),
        }
    }
}

impl Check {
    /// Our numbers for a claim; `None` when there are none.
    pub(super) fn of(claim: Claim, source: &Source<'_>) -> Option<Self> {
        let read = |&seed: &u64| claim.measure.read(source, seed);
        let ours: Vec<f64> = source.plan.seeds.iter().filter_map(read).collect();
        (!ours.is_empty()).then_some(Self { claim, ours })
    }

    /// The middle one of ours, the upper one of two.
    pub(super) fn median(&self) -> f64 {
        let mut sorted = self.ours.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    pub(super) fn agrees(&self) -> bool {
        self.claim.rule.allows(self.median())
    }

    /// The same in a word.
    pub(super) fn verdict(&self) -> &'static str {
        if self.agrees() { "agrees" } else { "differs" }
    }

    /// The likely reason, where it does not agree and one is known.
    pub(super) fn reason(&self) -> Option<&'static str> {
        (!self.agrees() && !self.claim.otherwise.is_empty()).then_some(self.claim.otherwise)
    }

    /// The median, and the range where there are several seeds.
    pub(super) fn ours_text(&self) -> String {
        let unit = self.claim.measure.unit();
        let median = self.median();
        let (least, most) = self
            .ours
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &x| (a.min(x), b.max(x)));
        let number = |value: f64| if value.is_finite() { short(value) } else { "never".to_owned() };
        let unit = if median.is_finite() { unit } else { "" };
        if self.ours.len() == 1 {
            return format!("{}{unit}", number(median));
        }
        format!("{}{unit} ({} to {})", number(median), number(least), number(most))
    }
}

/// A number with the digits that matter.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        _ => {
            let text = format!("{value:.1}");
            text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
        }
    }
}

#[cfg(test)]
mod tests {
    use robinhood_controller::PolicyKind;

    use super::super::experiments::Experiment;
    use super::*;

    fn check(rule: Rule, ours: &[f64]) -> Check {
        let measure = Measure::Violations(Experiment::Spikes, PolicyKind::Shared);
        let claim = Claim {
            part: Part::Fig8,
            source: "5.2",
            what: "violations".to_owned(),
            paper: "30 %",
            measure,
            rule,
            otherwise: "",
        };
        Check { claim, ours: ours.to_vec() }
    }

    #[test]
    fn agreement_follows_from_the_median_and_the_rule() {
        assert!(check(Rule::about(30.0), &[20.0]).agrees());
        assert!(!check(Rule::about(30.0), &[19.9]).agrees());
        assert!(check(Rule::about(30.0), &[1.0, 40.0, 45.0]).agrees());
        assert!(!check(Rule::about(30.0), &[45.1]).agrees());
        assert!(check(Rule::AtMost(1.5), &[1.5]).agrees());
        assert!(!check(Rule::AtMost(1.5), &[1.6]).agrees());
        assert!(check(Rule::AtLeast(3.0), &[f64::INFINITY]).agrees());
        assert!(!check(Rule::AtLeast(3.0), &[f64::NAN]).agrees(), "no number agrees with nothing");
    }

    #[test]
    fn numbers_of_several_seeds_are_a_median_and_a_range() {
        assert_eq!(check(Rule::AtMost(1.0), &[0.25]).ours_text(), "0.2 %");
        assert_eq!(check(Rule::AtMost(1.0), &[3.0, 0.5, 120.0]).ours_text(), "3 % (0.5 to 120)");
        assert_eq!(check(Rule::AtMost(1.0), &[f64::INFINITY]).ours_text(), "never");
        assert_eq!(Rule::Between(1.0, 2.5).text(" ms"), "1 to 2.5 ms");
    }
}

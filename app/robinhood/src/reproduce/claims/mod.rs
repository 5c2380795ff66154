//! What the paper's evaluation says in numbers, as data. Source: RobinHood (OSDI'18), sections 1, 4.3 and 5, where a claim says which. What the paper
//! shows in a picture only, without a number in its text, is no claim.
//!
//! A reason (`otherwise`) stands for the case that ours is another number; it is shown only then.

mod main_experiment;
mod sensitivity;
mod workload;

use robinhood_controller::PolicyKind;

use super::args::Part;
use super::check::{Claim, Rule};
use super::experiments::Experiment;
use super::measure::Measure;

/// Why `lama` does better than the paper's.
const LAMA: &str = "`lama` sees the exact P99 of all misses of the last minute in all caches and follows it as fast as `robinhood` moves: a better LAMA++ than the one that was measured, whose target comes from miss-ratio curves. `lama-curves`, which works so, is in the tables of violations";

/// All claims of a part.
pub(super) fn of(part: Part) -> Vec<Claim> {
    match part {
        Part::Table1 => workload::table1(),
        Part::Table2 => workload::table2(),
        Part::Fig7 => workload::fig7(),
        Part::Fig3 => main_experiment::fig3(),
        Part::Fig8 => main_experiment::fig8(),
        Part::Fig9 => main_experiment::fig9(),
        Part::Fig10 => sensitivity::fig10(),
        Part::Fig11 => sensitivity::fig11(),
        Part::Fig12 => sensitivity::fig12(),
        Part::Fig13 => Vec::new(),
        Part::Space => main_experiment::space(),
        Part::Load => main_experiment::load(),
    }
}

/// Claims of one part and place in the paper.
struct From {
    part: Part,
    source: &'static str,
}

impl From {
    fn claim(
        &self,
        what: impl Into<String>,
        paper: &'static str,
        (measure, rule): (Measure, Rule),
        otherwise: &'static str,
    ) -> Claim {
        let Self { part, source } = *self;
        Claim { part, source, what: what.into(), paper, measure, rule, otherwise }
    }

    /// Time above the objective of a policy.
    fn violations(
        &self,
        experiment: Experiment,
        policy: PolicyKind,
        (paper, rule): (&'static str, Rule),
        otherwise: &'static str,
    ) -> Claim {
        let what = format!("`{}`, `{policy}`: P99 above 150 ms", experiment.preset());
        self.claim(what, paper, (Measure::Violations(experiment, policy), rule), otherwise)
    }

    /// Policies that violate more than another.
    fn order(
        &self,
        experiment: Experiment,
        ahead: PolicyKind,
        behind: &[(PolicyKind, &'static str)],
    ) -> Vec<Claim> {
        let claim = |&(policy, otherwise): &(PolicyKind, &'static str)| {
            let preset = experiment.preset();
            let what = format!("`{preset}`: violations of `{policy}` less those of `{ahead}`");
            let measure = Measure::Behind(experiment, ahead, policy);
            self.claim(what, "more", (measure, Rule::AtLeast(0.0)), otherwise)
        };
        behind.iter().map(claim).collect()
    }

    /// The minute from which on a policy is above the objective.
    fn above_from(
        &self,
        experiment: Experiment,
        policy: PolicyKind,
        (paper, rule): (&'static str, Rule),
        otherwise: &'static str,
    ) -> Claim {
        let what = format!("`{}`, `{policy}`: above 150 ms for good from", experiment.preset());
        self.claim(what, paper, (Measure::AboveFrom(experiment, policy), rule), otherwise)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_claim_is_of_its_part_and_tells_where_it_stands() {
        for &part in Part::value_variants() {
            for claim in of(part) {
                assert_eq!(claim.part, part, "{}", claim.what);
                assert!(!claim.source.is_empty() && !claim.paper.is_empty(), "{}", claim.what);
            }
        }
    }

    #[test]
    fn no_claim_is_made_twice() {
        let all: Vec<Claim> = Part::value_variants().iter().flat_map(|&part| of(part)).collect();
        assert!(all.len() > 60, "{}", all.len());
        for (place, claim) in all.iter().enumerate() {
            let again = all[..place].iter().find(|other| other.measure == claim.measure);
            assert!(again.is_none(), "{} and {}", claim.what, again.unwrap().what);
        }
    }
}

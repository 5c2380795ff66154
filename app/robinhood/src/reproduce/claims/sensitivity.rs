//! Claims of sections 5.3 and 5.4: one backend that gets slower, and capacities on a random walk.

use robinhood_controller::PolicyKind::{Cliffhanger, Fair, Lama, Robinhood, Shared, Static};

use super::{From, LAMA};
use crate::reproduce::args::Part;
use crate::reproduce::check::{Claim, Rule};
use crate::reproduce::experiments::Experiment::{
    Backend1Fast, Backend1Slow, Backend7Fast, Backend7Slow, Random,
};
use crate::reproduce::measure::Measure;

const NONE: (&str, Rule) = ("0 %", Rule::AtMost(0.5));

const SEVENTH: &str = "b7 is asked seldom and its misses are slow from the start: a rule that goes by the P99 of misses gives it space long before it blocks requests. How much that rule does beside miss-ratio curves, by which the original LAMA works, is the difference to `lama-curves` in the tables of violations";

/// Backend 7 gets slower.
pub(super) fn fig10() -> Vec<Claim> {
    let course = "the paper does not say how slow the backend is at which minute; ours loses three quarters of its capacity evenly over the whole experiment";
    let warm = "the paper's was unstable from the beginning; ours begins after an hour of warm-up with capacity for all";
    let slow = From { part: Part::Fig10, source: "5.3, Figure 10a" };
    let mut claims = vec![
        slow.violations(Backend7Slow, Robinhood, NONE, ""),
        slow.violations(Backend7Slow, Lama, ("3.3 %", Rule::about(3.3)), SEVENTH),
    ];
    for policy in [Shared, Static] {
        let rule = ("40 min", Rule::about(40.0));
        claims.push(slow.above_from(Backend7Slow, policy, rule, course));
    }
    for policy in [Cliffhanger, Fair] {
        let rule = ("10 min", Rule::about(10.0));
        claims.push(slow.above_from(Backend7Slow, policy, rule, warm));
    }
    let fast = From { source: "5.3, Figure 10b", ..slow };
    let filling = "in the last two minutes b7 has less than 0.3 of its capacity, and its partition fills only as fast as it misses (docs/results/simulator.md)";
    let below = ("below 1.5 %", Rule::AtMost(1.5));
    claims.push(fast.violations(Backend7Fast, Robinhood, below, filling));
    claims.push(fast.violations(Backend7Fast, Lama, ("38 %", Rule::about(38.0)), SEVENTH));
    for policy in [Shared, Static] {
        let rule = ("20 min", Rule::about(20.0));
        claims.push(fast.above_from(Backend7Fast, policy, rule, course));
    }
    claims.extend(fast.order(Backend7Fast, Robinhood, &[(Lama, SEVENTH)]));
    let others = [(Shared, ""), (Static, ""), (Cliffhanger, ""), (Fair, "")];
    claims.extend(fast.order(Backend7Fast, Lama, &others));
    claims
}

/// Backend 1 gets slower.
pub(super) fn fig11() -> Vec<Claim> {
    let over = ("over 28 %", Rule::AtLeast(28.0 / crate::reproduce::check::TOLERANCE));
    let hits = "`cliffhanger` gives space where it brings most hits: here that is not b1 alone, and what it takes from slow backends is missed";
    let slow = From { part: Part::Fig11, source: "5.3, Figure 11a" };
    let mut claims = vec![
        slow.violations(Backend1Slow, Robinhood, NONE, ""),
        slow.violations(Backend1Slow, Cliffhanger, ("8.2 %", Rule::about(8.2)), hits),
        slow.violations(Backend1Slow, Shared, over, ""),
        slow.violations(Backend1Slow, Static, over, ""),
    ];
    let best = [(Shared, hits), (Static, ""), (Lama, LAMA), (Fair, "")];
    claims.extend(slow.order(Backend1Slow, Cliffhanger, &best));
    let fast = From { source: "5.3, Figure 11b", ..slow };
    let end = "a step of 1 % in five seconds is near what the experiment asks of it: some seeds go over the objective in its last minutes, by a few milliseconds";
    claims.push(fast.violations(Backend1Fast, Robinhood, NONE, end));
    claims.push(fast.violations(Backend1Fast, Shared, ("33 %", Rule::about(33.0)), ""));
    let others = [(Static, ""), (Cliffhanger, ""), (Lama, LAMA), (Fair, "")];
    claims.extend(fast.order(Backend1Fast, Shared, &others));
    claims
}

/// Capacities on a random walk.
pub(super) fn fig12() -> Vec<Claim> {
    let walk =
        "the walk is part of the seed and moves all policies together; the paper shows one walk";
    let chance = "by chance of the walk: the paper says of its own second place, that of TAO++, that it is a coincidence (b6, for which its limits were learned, was short most of the time)";
    let from = From { part: Part::Fig12, source: "5.4, Figure 12b" };
    let mut claims = vec![
        from.violations(Random, Robinhood, ("5 %", Rule::about(5.0)), walk),
        from.violations(Random, Static, ("24 %", Rule::about(24.0)), chance),
    ];
    let from = From { source: "5.4", ..from };
    let worst =
        [(Robinhood, "306 ms", Rule::about(306.0)), (Static, "over 610 ms", Rule::AtLeast(610.0))];
    claims.extend(worst.map(|(policy, paper, rule)| {
        let what = format!("`random`, `{policy}`: worst P99");
        from.claim(what, paper, (Measure::WorstP99(Random, policy), rule), walk)
    }));
    let second = [(Shared, chance), (Lama, LAMA), (Cliffhanger, chance), (Fair, "")];
    claims.extend(from.order(Random, Robinhood, &[(Static, "")]));
    claims.extend(from.order(Random, Static, &second));
    claims
}

//! What a user should know about runs that made sense but may not be what was meant.

use robinhood_controller::PolicyKind;
use robinhood_simulator::BackendOutcome;
use robinhood_stats::Nanos;
use serde::Serialize;

use super::Run;
use super::plan::Plan;
use super::tables::seed_list;

/// With fewer requests above the percentile in a window, its observations are more chance than measurement.
const REQUESTS_ABOVE_MIN: f64 = 10.0;
/// More lines under the table would push it off the screen.
const LINES_MAX: usize = 12;

/// What a warning is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    FewRequests,
    UnqueriedBackend,
    OverloadedBackend,
    Timeouts,
    RefusedObjects,
    Held,
}

/// One warning. What it does not name it is true of all.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Warning {
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'static str>,
    seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    /// Requests above the percentile in a window, queries, times of what the servers can do, queries, objects, control periods of delay.
    value: f64,
    message: String,
}

/// All warnings, by run.
pub(super) fn of(plan: &Plan, runs: &[Run]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (place, run) in runs.iter().enumerate() {
        // The stream of requests belongs to the seed: it is told of once.
        if place == 0 || runs[place - 1].seed != run.seed {
            warnings.extend(few_requests(plan, run));
            warnings.extend(unqueried(run));
        }
        warnings.extend(overloaded(run));
        warnings.extend(held(plan, run));
        let counted = [
            (Kind::Timeouts, run.outcome.timeouts, "queries timed out"),
            (
                Kind::RefusedObjects,
                run.outcome.refused,
                "objects were too large for their partition and not cached",
            ),
        ];
        for (kind, count, what) in counted {
            if count > 0 {
                warnings.push(Warning {
                    kind,
                    policy: Some(run.policy.as_str()),
                    seed: run.seed,
                    backend: None,
                    value: count as f64,
                    message: format!("{count} {what}"),
                });
            }
        }
    }
    warnings
}

fn few_requests(plan: &Plan, run: &Run) -> Option<Warning> {
    let options = &plan.options;
    let window_s = options.slo_window.as_secs_f64() / options.time_scale;
    let length = plan.workload.length;
    let requests_per_s =
        run.outcome.requests as f64 / (length.warmup + length.measured).as_secs_f64();
    let above = requests_per_s * window_s * (1.0 - options.percentile / 100.0);
    (run.outcome.complete && above < REQUESTS_ABOVE_MIN).then(|| Warning {
        kind: Kind::FewRequests,
        policy: None,
        seed: run.seed,
        backend: None,
        value: above,
        message: format!(
            "a window of {window_s:.0} s has {above:.1} requests above P{}: its observations are more chance than measurement",
            options.percentile
        ),
    })
}

fn unqueried(run: &Run) -> impl Iterator<Item = Warning> {
    // A backend that has work, and no answer yet, was queried.
    let is_idle = |backend: &&BackendOutcome| backend.queries == 0 && backend.load == 0.0;
    let idle = run.outcome.backends.iter().filter(is_idle);
    idle.map(|backend| Warning {
        kind: Kind::UnqueriedBackend,
        policy: None,
        seed: run.seed,
        backend: Some(backend.name.to_string()),
        value: 0.0,
        message: format!("no request queried backend `{}` in the measured part", backend.name),
    })
}

fn overloaded(run: &Run) -> impl Iterator<Item = Warning> {
    let over = run.outcome.backends.iter().filter(|backend| backend.utilisation_offered > 1.0);
    over.map(|backend| Warning {
        kind: Kind::OverloadedBackend,
        policy: Some(run.policy.as_str()),
        seed: run.seed,
        backend: Some(backend.name.to_string()),
        value: backend.utilisation_offered,
        message: format!(
            "backend `{}` was offered {:.2} times the work that its servers can do",
            backend.name, backend.utilisation_offered
        ),
    })
}

/// Of a policy that moves, and did not where reports were late or lost.
fn held(plan: &Plan, run: &Run) -> Option<Warning> {
    let options = &plan.options;
    let is_still =
        matches!(run.policy, PolicyKind::Shared | PolicyKind::Equal | PolicyKind::Static);
    let is_disturbed = options.report_delay > Nanos::ZERO || options.report_loss > 0.0;
    let has_periods = !run.outcome.series.control.is_empty();
    let period = options.period.scaled_down(options.time_scale);
    let periods = options.report_delay.as_secs_f64() / period.as_secs_f64();
    (!is_still && is_disturbed && has_periods && run.outcome.bytes_moved == 0).then(|| Warning {
        kind: Kind::Held,
        policy: Some(run.policy.as_str()),
        seed: run.seed,
        backend: None,
        value: periods,
        message: format!(
            "moved no byte: reports came {periods:.1} control periods late and {:.0} % of them were lost, and a controller does not act on those older than three",
            options.report_loss * 100.0
        ),
    })
}

/// The warnings as lines, those of one kind and policy together.
pub(super) fn lines(warnings: &[Warning]) -> String {
    let sentences = sentences(warnings);
    let lines = sentences.iter().take(LINES_MAX).map(|sentence| format!("warning: {sentence}\n"));
    let mut text: String = lines.collect();
    if sentences.len() > LINES_MAX {
        text.push_str(&format!("and {} warnings more: see --json\n", sentences.len() - LINES_MAX));
    }
    text
}

/// One sentence for the warnings of one kind and policy.
pub(super) fn sentences(warnings: &[Warning]) -> Vec<String> {
    let mut groups: Vec<Vec<&Warning>> = Vec::new();
    for warning in warnings {
        let alike = |group: &&mut Vec<&Warning>| {
            (group[0].kind, group[0].policy) == (warning.kind, warning.policy)
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(warning),
            None => groups.push(vec![warning]),
        }
    }
    groups.sort_by_key(|group| group[0].kind);
    groups.iter().map(|group| sentence(group)).collect()
}

/// What warnings of one kind and policy say together.
fn sentence(group: &[&Warning]) -> String {
    let mut seeds: Vec<u64> = group.iter().map(|warning| warning.seed).collect();
    seeds.dedup();
    let several = if seeds.len() > 1 { "seeds" } else { "seed" };
    let seeds = format!("({several} {})", seed_list(&seeds));
    let mut backends: Vec<&str> =
        group.iter().filter_map(|warning| warning.backend.as_deref()).collect();
    backends.sort_unstable();
    backends.dedup();
    let most = group.iter().map(|warning| warning.value).fold(0.0, f64::max);
    let policy = group[0].policy.unwrap_or_default();
    match group[0].kind {
        Kind::OverloadedBackend => format!(
            "{policy}: more work than the servers of {} can do, up to {most:.2} times {seeds}",
            backends.join(", ")
        ),
        Kind::UnqueriedBackend => {
            format!("no request queried {} in the measured part {seeds}", backends.join(", "))
        }
        Kind::FewRequests => format!("{} {seeds}", group[0].message),
        Kind::Held => format!("{policy}: {} {seeds}", group[0].message),
        Kind::Timeouts => format!("{policy}: up to {most} queries timed out {seeds}"),
        Kind::RefusedObjects => format!(
            "{policy}: up to {most} objects were too large for their partition and not cached {seeds}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overload(policy: &'static str, seed: u64, backend: &str, value: f64) -> Warning {
        let (backend, message) = (Some(backend.to_owned()), String::new());
        Warning {
            kind: Kind::OverloadedBackend,
            policy: Some(policy),
            seed,
            backend,
            value,
            message,
        }
    }

    #[test]
    fn warnings_of_one_kind_and_policy_are_one_line() {
        let warnings = [
            overload("fair", 1, "b5", 1.2),
            overload("fair", 1, "b1", 1.3),
            overload("equal", 2, "b6", 1.01),
            overload("fair", 2, "b1", 1.25),
        ];
        assert_eq!(
            lines(&warnings),
            "warning: fair: more work than the servers of b1, b5 can do, up to 1.30 times (seeds 1..2)\n\
             warning: equal: more work than the servers of b6 can do, up to 1.01 times (seed 2)\n"
        );
        assert_eq!(lines(&[]), "");
    }

    #[test]
    fn very_many_warnings_do_not_push_the_table_off_the_screen() {
        const NAMES: [&str; 15] =
            ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"];
        let warnings = NAMES.map(|policy| overload(policy, 1, "b1", 2.0));
        let text = lines(&warnings);
        assert_eq!(text.lines().count(), LINES_MAX + 1);
        assert!(text.ends_with("and 3 warnings more: see --json\n"), "{text}");
    }
}

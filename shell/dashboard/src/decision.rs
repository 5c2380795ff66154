//! From the controller's record of a period to what people read: why did these bytes move?

use std::cmp::Reverse;

use robinhood_controller as controller;

use crate::state::{Change, Decision};

/// Changes that a decision lists; in a large system all limits change a little in each period.
const CHANGES_MAX: usize = 16;
/// The policy whose weights are shares of the request blocking count.
const BY_RBC: &str = "robinhood";

impl From<&controller::Decision> for Decision {
    fn from(record: &controller::Decision) -> Self {
        let seen = &record.inputs.observation;
        let mut changes = changes(record);
        changes.sort_by_key(|change| Reverse(change.from_bytes.abs_diff(change.to_bytes)));
        let more_changes = changes.len().saturating_sub(CHANGES_MAX) as u64;
        changes.truncate(CHANGES_MAX);
        Self {
            seconds: record.at.as_secs_f64(),
            period: record.period,
            mode: record.mode,
            summary: record.to_string(),
            hold: record.hold.as_ref().map(ToString::to_string),
            moved_bytes: record.moved().0,
            step: record.inputs.step,
            requests_in_band: seen.requests_in_band,
            p99_ms: seen.request_p99.as_millis_f64(),
            changes,
            more_changes,
        }
    }
}

/// All limits that change, in the order of names.
fn changes(record: &controller::Decision) -> Vec<Change> {
    let seen = &record.inputs.observation;
    let of_backends: f64 = seen.backends.iter().map(|backend| backend.rbc).sum();
    let all_rbc = of_backends + seen.own_rbc + seen.unpartitioned_rbc;
    let mut changes = Vec::new();
    let limits = record.old.iter().zip(record.new.iter()).zip(&seen.backends);
    for (index, (((name, from), (_, to)), seen)) in limits.enumerate() {
        if from == to {
            continue;
        }
        let rbc_share = share(seen.rbc, all_rbc);
        changes.push(Change {
            backend: name.to_string(),
            rbc_share,
            used_bytes: seen.used.0,
            from_bytes: from.0,
            to_bytes: to.0,
            reason: reason(record, index, rbc_share),
        });
    }
    changes
}

/// Why the limit of one partition changes.
fn reason(record: &controller::Decision, index: usize, rbc_share: f64) -> String {
    if let Some(hold) = &record.hold {
        return hold.to_string(); // a hold that changes limits takes earlier moves back
    }
    let name = &record.inputs.observation.backends[index].name;
    if let Some((_, skipped)) = record.skipped.iter().find(|(skipped, _)| skipped == name) {
        return skipped.to_string();
    }
    let Some(&weight) = record.weights.get(index) else {
        return format!("towards the target of `{}`", record.policy);
    };
    let cause = if record.policy == BY_RBC {
        format!("blocks {:.0} % of the tail", rbc_share * 100.0)
    } else {
        format!("weighed by `{}`", record.policy)
    };
    let step_percent = record.inputs.step * 100.0;
    let part = share(weight, record.weights.iter().sum());
    if part > 0.0 {
        format!("{cause}: pays {step_percent:.2} %, gets {:.0} % of what all pay", part * 100.0)
    } else {
        format!("{cause}: pays {step_percent:.2} %, gets nothing")
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use robinhood_blocking::{BackendSnapshot, Snapshot};
    use robinhood_controller::{Controller, ControllerConfig, Mode, PartitionUsage, PolicyKind};
    use robinhood_stats::{BackendName, Bytes, Instant, Nanos};

    /// Backends with their RBC and the share of their limit of 100 kB that they use.
    fn decided(backends: &[(&str, f64, f64)], pause: bool) -> Decision {
        let name = |text: &str| BackendName::new(text).unwrap();
        let limits: Vec<_> =
            backends.iter().map(|(backend, ..)| (name(backend), Bytes(100_000))).collect();
        let budget = Bytes(100_000 * backends.len() as u64);
        let config = ControllerConfig { mode: Mode::Active, ..ControllerConfig::new(budget) };
        let start = controller::Allocation::equal(budget, &[name("a")], Bytes::ZERO).unwrap();
        let policy = PolicyKind::Robinhood.build(&start).unwrap();
        let mut controller = Controller::new(config, policy, limits, Instant::ZERO).unwrap();
        let now = controller.poll_timeout();
        let usage = |&(backend, _, used): &(&str, f64, f64)| PartitionUsage {
            name: name(backend),
            limit: Bytes(100_000),
            used: Bytes((100_000.0 * used) as u64),
            item_bytes_max: Bytes::ZERO,
        };
        let seen = |&(backend, rbc, _): &(&str, f64, f64)| BackendSnapshot {
            name: name(backend),
            rbc,
            queries: 1_000,
            hits: 700,
            misses: 300,
            failures: 0,
            timeouts: 0,
            miss_batch_p99: None,
        };
        controller.handle_snapshot(Snapshot {
            at: now,
            newest: Some(now),
            requests: 4_000,
            requests_in_band: 40.0,
            backends: backends.iter().map(seen).collect(),
            own_rbc: 10.0,
            request_p99: Nanos::from_millis(90),
            statistics_span: Nanos::from_secs(60),
            ..Snapshot::default()
        });
        controller.handle_usage(now, &backends.iter().map(usage).collect::<Vec<_>>());
        if pause {
            controller.pause("deployment".to_owned());
        }
        controller.handle_timeout(now);
        Decision::from(&controller.poll_decision().unwrap())
    }

    #[test]
    fn every_change_says_why() {
        let decision =
            decided(&[("idle", 0.0, 1.0), ("slack", 5.0, 0.5), ("slow", 25.0, 1.0)], false);
        let why: Vec<(&str, &str)> = decision
            .changes
            .iter()
            .map(|change| (change.backend.as_str(), change.reason.as_str()))
            .collect();
        assert_eq!(
            why,
            [
                ("slow", "blocks 62 % of the tail: pays 1.00 %, gets 100 % of what all pay"),
                ("idle", "blocks 0 % of the tail: pays 1.00 %, gets nothing"),
                ("slack", "no grant: uses 48.8 KiB of 97.7 KiB"),
            ]
        );
        assert_eq!((decision.moved_bytes, decision.hold, decision.p99_ms), (2_000, None, 90.0));
        assert_eq!(decision.changes[0].to_bytes, 102_000);
    }

    #[test]
    fn a_hold_says_why_and_changes_nothing() {
        let decision = decided(&[("a", 1.0, 1.0), ("b", 2.0, 1.0)], true);
        assert_eq!(decision.hold.as_deref(), Some("paused: deployment"));
        assert!(decision.changes.is_empty() && decision.summary.contains("hold"), "{decision:?}");
    }

    #[test]
    fn of_many_changes_the_largest_are_listed_and_the_others_counted() {
        let names: Vec<String> = (0..30).map(|index| format!("b{index:02}")).collect();
        let backends: Vec<(&str, f64, f64)> = (0..)
            .zip(&names)
            .map(|(index, name): (u32, &String)| (name.as_str(), f64::from(index * index), 1.0))
            .collect();
        let decision = decided(&backends, false);
        assert_eq!(decision.changes[0].backend, "b29");
        assert!(decision.more_changes > 0, "{decision:?}");
        assert_eq!(decision.changes.len(), CHANGES_MAX);
    }
}

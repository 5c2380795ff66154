//! What holds for every cache whose limits can be moved.

use robinhood_agent::{EventReader, Fact};
use robinhood_control::{ManagedCache, Reading};
use robinhood_controller::PartitionUsage;
use robinhood_stats::Bytes;

use crate::servers::wait_for;

/// A cache of two partitions with equal limits, and its users.
pub(crate) trait Rig {
    /// What the control loop would see.
    fn cache(&mut self) -> &mut dyn ManagedCache;

    /// What happened; none for a cache that has no events.
    fn events(&self) -> Option<EventReader>;

    /// Stores more than a partition's limit.
    fn fill(&mut self, partition: usize);

    /// Stores a key of the hottest; they and those of [`Self::fill`] have values of the same sizes.
    fn store(&mut self, partition: usize, keys: &[String]);

    /// Reads keys; how many are there.
    fn found(&mut self, partition: usize, keys: &[String]) -> usize;

    /// What a partition holds and may hold, asked of the cache itself.
    fn held(&mut self, partition: usize) -> (Bytes, Bytes);

    /// By how much two readings of the same data may differ: buffers of connections.
    fn slack(&self) -> Bytes {
        Bytes::ZERO
    }

    /// Waits until what was stored is older, for this cache, than what is read from now on.
    fn let_time_pass(&mut self, _partition: usize) {}

    /// Above the budget, what all partitions together may hold at any time.
    fn overhead(&self) -> Bytes;
}

/// A cache in processes of its own, which others can reach too.
pub(crate) trait Apart: Rig {
    /// Starts a partition's process again, which is stopped first if it runs.
    fn run(&mut self, partition: usize);

    /// Stops a partition's process.
    fn stop(&mut self, partition: usize);

    /// Somebody else changes a limit.
    fn change_limit(&mut self, partition: usize, limit: Bytes);
}

/// The next reading that shows all that was asked for. On a busy machine a cache may miss the time of a call before.
pub(crate) fn current(rig: &mut dyn Rig) -> Vec<PartitionUsage> {
    let mut said = String::new();
    wait_for("a current reading", || match rig.cache().read() {
        Reading::Current(usage) => Some(usage),
        Reading::Pending => None,
        Reading::Failed { reason, .. } if reason == said => None,
        Reading::Failed { backend, reason } => {
            println!("{backend}: {reason}");
            said = reason;
            None
        }
    })
}

/// The next fact that is wanted, about a partition.
pub(crate) fn fact(rig: &mut dyn Rig, partition: usize, is_wanted: impl Fn(&Fact) -> bool) -> Fact {
    let name = rig.cache().names()[partition].clone();
    let events = rig.events().expect("a cache with events");
    wait_for("an event", || {
        let event = events.poll()?;
        (event.partition == name && is_wanted(&event.fact)).then_some(event.fact)
    })
}

/// Whether a reading is what the cache itself says.
fn is_near(rig: &dyn Rig, a: Bytes, b: Bytes) -> bool {
    a.0.abs_diff(b.0) <= rig.slack().0
}

/// A reading of all that was stored.
fn settled(rig: &mut dyn Rig, partition: usize) -> Vec<PartitionUsage> {
    wait_for("a reading of what was stored", || {
        let usage = current(rig);
        let held = rig.held(partition).0;
        is_near(rig, usage[partition].used, held).then_some(usage)
    })
}

fn used(usage: &[PartitionUsage]) -> Bytes {
    usage.iter().map(|partition| partition.used).sum()
}

/// A reading says what the cache itself says.
pub(crate) fn is_read_as_it_is(rig: &mut dyn Rig) {
    rig.fill(0);
    let limits = rig.cache().limits();
    assert_eq!(limits.iter().copied().sum::<Bytes>(), rig.cache().budget());
    let usage = settled(rig, 0);
    let names: Vec<_> = usage.iter().map(|partition| partition.name.clone()).collect();
    assert_eq!(names, rig.cache().names());
    for (partition, usage) in usage.iter().enumerate() {
        assert_eq!(usage.limit, limits[partition]);
        let (held, limit) = rig.held(partition);
        assert_eq!(usage.limit, limit);
        assert!(is_near(rig, usage.used, held), "{usage:?} holds {held:?}");
    }
    assert!(usage[0].used > usage[1].used);
}

/// One partition shrinks, really, and then the other one grows and can be filled; all the time both hold no more than the budget.
pub(crate) fn memory_moves(rig: &mut dyn Rig) {
    let budget = rig.cache().budget();
    let most = budget + rig.overhead();
    (0..2).for_each(|partition| rig.fill(partition));
    let full = settled(rig, 1);
    let granule = rig.cache().granule().0;
    let step = Bytes(full[0].limit.0 / 4 / granule * granule);
    let (less, more) = (full[0].limit - step, full[1].limit + step);

    rig.cache().set_limit(0, less);
    let shrunk = wait_for("a partition within its new limit", || {
        let usage = current(rig);
        assert_eq!(usage[0].limit, less, "a current reading shows the limits that were set");
        assert!(used(&usage) <= most, "{usage:?}");
        (usage[0].used <= less).then_some(usage)
    });
    let held = rig.held(0).0;
    assert!(held <= less + rig.slack(), "{held:?}");
    let is_left_alone = is_near(rig, shrunk[1].used, full[1].used);
    assert!(is_left_alone, "the other partition held {full:?} and now {shrunk:?}");

    rig.cache().set_limit(1, more);
    assert_eq!(current(rig)[1].limit, more);
    assert_eq!(rig.held(1).1, more);
    (0..2).for_each(|partition| rig.fill(partition));
    let usage = wait_for("a partition that uses what it was given", || {
        let usage = current(rig);
        assert!(used(&usage) <= most, "{usage:?}");
        (usage[1].used > full[1].used + rig.slack()).then_some(usage)
    });
    assert!(
        usage[0].used <= less + rig.slack(),
        "a full partition stays within its limit: {usage:?}"
    );
    assert_eq!(rig.cache().limits(), [less, more]);
}

/// What was just read is still there after a partition lost a quarter, of which at least `survivors_min` in 1,000. Gives how many.
pub(crate) fn hot_keys_survive(rig: &mut dyn Rig, survivors_min: u64) {
    let hot: Vec<String> = (0..2_000).map(|key| format!("hot:{key}")).collect();
    rig.store(0, &hot);
    for _ in 0..2 {
        rig.fill(0);
        // A memcached takes an item for used after the second time.
        (0..3).for_each(|_| _ = rig.found(0, &hot));
        rig.let_time_pass(0);
        rig.store(0, &hot);
    }
    (0..3).for_each(|_| _ = rig.found(0, &hot));
    let before = rig.found(0, &hot);
    assert!(before * 100 >= hot.len() * 99, "{before} hot keys are there to begin with");
    let granule = rig.cache().granule().0;
    let less = Bytes(rig.cache().limits()[0].0 * 3 / 4 / granule * granule);
    rig.cache().set_limit(0, less);
    wait_for("a partition within its new limit", || (current(rig)[0].used <= less).then_some(()));
    let after = rig.found(0, &hot);
    println!("{after} of {before} hot keys survived a shrink by a quarter");
    // On a machine that is much too busy a memcached may lose items all the same, but not without a word.
    let events = rig.events();
    let said: u64 = std::iter::from_fn(|| events.as_ref()?.poll())
        .map(|event| if let Fact::ItemsLost { items } = event.fact { items } else { 0 })
        .sum();
    let survived_or_said = (after as u64 + said) * 1_000;
    assert!(
        survived_or_said >= before as u64 * survivors_min,
        "{after} of {before} hot keys survived, and {said} losses were said"
    );
}

/// A cache that is started anew gets its limit again, and that is said.
pub(crate) fn a_restart_is_found(rig: &mut dyn Apart) {
    let start = rig.cache().limits();
    let granule = rig.cache().granule().0;
    let less = Bytes(start[0].0 * 3 / 4 / granule * granule);
    rig.cache().set_limit(0, less);
    rig.fill(0);
    wait_for("a partition within its new limit", || (current(rig)[0].used <= less).then_some(()));
    rig.run(0);
    let said = fact(rig, 0, |fact| matches!(fact, Fact::Restarted { .. }));
    assert_eq!(said, Fact::Restarted { limit: less });
    let usage = current(rig);
    assert_eq!(usage[0].limit, less);
    assert_eq!(rig.held(0).1, less);
    assert_eq!(rig.cache().limits(), [less, start[1]]);
}

/// Statistics that somebody resets are no restart: nothing is said, and limits go on being set.
pub(crate) fn reset_statistics_are_no_restart<R: Rig>(rig: &mut R, reset: impl Fn(&R)) {
    let less = rig.cache().limits()[0] - rig.cache().granule();
    current(rig);
    reset(rig);
    rig.cache().set_limit(0, less);
    assert_eq!(current(rig)[0].limit, less, "this reading was begun after the reset");
    let events = rig.events().expect("a cache with events");
    for event in std::iter::from_fn(|| events.poll()) {
        assert!(!matches!(event.fact, Fact::Restarted { .. }), "{event}");
    }
}

/// A cache that is away is a failure that names it; it is found again when it is back, and has the limit that was wanted meanwhile.
pub(crate) fn a_lost_cache_comes_back(rig: &mut dyn Apart, address: &str) {
    let start = rig.cache().limits();
    rig.stop(1);
    let (backend, reason) = wait_for("a failed reading", || match rig.cache().read() {
        Reading::Failed { backend, reason } => Some((backend, reason)),
        Reading::Pending | Reading::Current(_) => None,
    });
    assert_eq!(backend, rig.cache().names()[1]);
    assert!(reason.contains(address), "{reason}");
    // The order waits; the reading does not claim that it was carried out.
    let granule = rig.cache().granule();
    rig.cache().set_limit(0, start[0] - granule);
    assert!(!matches!(rig.cache().read(), Reading::Current(_)));
    rig.run(1);
    let usage = current(rig);
    assert_eq!((usage[0].limit, usage[1].limit), (start[0] - granule, start[1]));
    assert_eq!(fact(rig, 1, |fact| *fact == Fact::Reached), Fact::Reached);
}

/// A limit that somebody else changed is set again, and that is said.
pub(crate) fn a_foreign_limit_is_said(rig: &mut dyn Apart) {
    let start = rig.cache().limits();
    let granule = rig.cache().granule();
    let found = start[1] + granule;
    rig.change_limit(1, found);
    let said = fact(rig, 1, |fact| matches!(fact, Fact::LimitChanged { .. }));
    assert_eq!(said, Fact::LimitChanged { found, set: start[1] });
    assert_eq!(rig.held(1).1, start[1]);
    assert_eq!(current(rig)[1].limit, start[1]);
}

//! The state machine beside one cache: snapshots, readings and time in; resizes and decision records out.
//!
//! Place in the flow: the paper's second half (RobinHood, OSDI'18, sections 3.2 and 3.3: one controller for each
//! application server, common RBC, local decisions; 4.2: resizes that take longer than a period are deferred). It
//! never waits, and trouble is one more input: without a snapshot, a reading or a working cache it holds, and says
//! why.

use std::collections::VecDeque;
use std::sync::Arc;

use robinhood_blocking::Snapshot;
use robinhood_stats::{BackendName, Bytes, Instant, Nanos};

use crate::allocation::Allocation;
use crate::config::{ConfigError, ControllerConfig, Mode};
use crate::curve::MissRatioCurve;
use crate::decision::Decision;
use crate::groups::Groups;
use crate::holds::Watch;
use crate::observation::flaw;
use crate::partition::{Books, Partition, PartitionUsage, Resize};
use crate::policy::{Miss, Policy};

/// A resize that the adapter could not carry out.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) backend: BackendName,
    pub(crate) reason: String,
    /// Whether the cache has said since what it holds.
    pub(crate) read_back: bool,
}

/// Moves bytes between the partitions of one cache, a little in each period.
///
/// The driver owns clock and cache. In each period it hands over a reading and a snapshot, calls
/// [`Self::handle_timeout`] when it is time, and then
///
/// 1. carries out what [`Self::poll_resize`] gives: the shrinks, and grows for which bytes are free;
/// 2. reads the cache once more, [`Self::handle_usage`]: freed bytes release grows;
/// 3. carries out what [`Self::poll_resize`] gives now.
///
/// A cache that shrinks at once so has its new limits in the same period; with one that shrinks slowly, grows
/// follow the readings of later periods. A reading must be taken after the resizes polled before it were handed to
/// the cache, and show grows in effect: a limit that has not changed by then counts as lost and is told again in
/// the next period.
pub struct Controller {
    pub(crate) config: ControllerConfig,
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) books: Books,
    pub(crate) groups: Option<Groups>,
    pub(crate) allocation: Allocation,
    pub(crate) deadline: Instant,
    pub(crate) periods: u64,
    pub(crate) snapshot: Snapshot,
    /// What is wrong with the newest snapshot.
    pub(crate) flaw: Option<String>,
    /// When the last period was, or the start.
    pub(crate) decided_at: Instant,
    /// The newest slopes, sorted by name.
    pub(crate) hit_slopes: Vec<(BackendName, f64)>,
    /// The newest curves, sorted by name.
    pub(crate) miss_ratio_curves: Vec<(BackendName, Arc<MissRatioCurve>)>,
    pub(crate) usage_at: Option<Instant>,
    pub(crate) failure: Option<Failure>,
    pub(crate) paused: Option<String>,
    pub(crate) watch: Watch,
    pub(crate) decisions: VecDeque<Decision>,
}

impl Controller {
    /// A controller of partitions with the limits that the cache holds them to now. If these fit budget, floors and
    /// caps, nothing moves: a restart reads the limits back and goes on.
    ///
    /// # Errors
    /// Settings that make no sense, alone or for these partitions.
    pub fn new(
        config: ControllerConfig,
        policy: Box<dyn Policy>,
        partitions: Vec<(BackendName, Bytes)>,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        let books = Books::new(
            partitions.into_iter().map(|(name, limit)| Partition::new(name, limit.0)).collect(),
        );
        config.check(&books.names())?;
        let evenly = Allocation::equal(config.budget, books.names(), Bytes::ZERO)
            .expect("there are partitions, and no two of a name");
        let mut controller = Self {
            deadline: now + config.period,
            groups: None,
            allocation: evenly, // until the limits of the cache are fitted, below
            policy,
            books,
            periods: 0,
            snapshot: Snapshot::default(),
            flaw: None,
            decided_at: now,
            hit_slopes: Vec::new(),
            miss_ratio_curves: Vec::new(),
            usage_at: None,
            failure: None,
            paused: None,
            watch: Watch::default(),
            decisions: VecDeque::new(),
            config,
        };
        controller.membership_changed();
        Ok(controller)
    }

    /// What the application servers together reported. The newest one counts: after one that cannot be true (a
    /// negative RBC, backends that are not sorted by name) the controller holds until a better one comes.
    pub fn handle_snapshot(&mut self, snapshot: Snapshot) {
        self.flaw = flaw(&snapshot);
        self.snapshot = if self.flaw.is_none() { snapshot } else { Snapshot::default() };
    }

    /// What one more byte of each partition would change: the slope of its hit ratio at the present limit, in hits per
    /// query and byte. A backend that is not mentioned, or whose slope is no number, has none. Only policies that maximise
    /// hits need it.
    pub fn handle_hit_slopes(&mut self, mut slopes: Vec<(BackendName, f64)>) {
        slopes.retain(|(_, slope)| slope.is_finite());
        slopes.sort_by(|a, b| a.0.cmp(&b.0));
        self.hit_slopes = slopes;
    }

    /// What share of the queries of each backend would miss at every limit of its partition. A backend that is not mentioned has no
    /// curve. Only policies that weigh all sizes against each other need them.
    pub fn handle_miss_ratio_curves(
        &mut self,
        mut curves: Vec<(BackendName, Arc<MissRatioCurve>)>,
    ) {
        curves.sort_by(|a, b| a.0.cmp(&b.0));
        self.miss_ratio_curves = curves;
    }

    /// What the whole cache holds now: a partition that is not mentioned holds nothing. Releases grows as far as
    /// bytes were freed.
    pub fn handle_usage(&mut self, now: Instant, usage: &[PartitionUsage]) {
        self.usage_at = Some(now);
        self.books.handle_usage(usage);
        self.refresh_bounds();
        match &mut self.failure {
            Some(failure) => failure.read_back = true,
            None => self.release(),
        }
    }

    /// The cache refused or lost a resize. Nothing more is asked of it before it has been read again and a period
    /// has passed in hold; then the controller goes on from what the cache really holds.
    pub fn handle_resize_failed(&mut self, backend: &BackendName, reason: String) {
        self.failure = Some(Failure { backend: backend.clone(), reason, read_back: false });
        self.books.clear_queue();
    }

    /// One miss, for policies that learn from each. One of a member of a group counts for the group.
    pub fn handle_miss(&mut self, miss: Miss<'_>) {
        let partitions = &self.books.partitions;
        let group = self.groups.as_ref().and_then(|groups| {
            let member = partitions.binary_search_by(|p| p.name.cmp(miss.backend)).ok()?;
            Some(&partitions[groups.first_member(member)].name)
        });
        self.policy.on_miss(Miss { backend: group.unwrap_or(miss.backend), ..miss });
    }

    /// Decides, if it is time; does nothing before [`Self::poll_timeout`]. After a long sleep there is one
    /// decision, not one for each period slept through.
    pub fn handle_timeout(&mut self, now: Instant) {
        if now < self.deadline {
            return;
        }
        let late_periods = now.since(self.deadline).0 / self.config.period.0;
        self.deadline =
            self.deadline + Nanos(self.config.period.0.saturating_mul(late_periods + 1));
        self.periods += 1;
        self.run_period(now);
    }

    /// When [`Self::handle_timeout`] has something to do next.
    pub const fn poll_timeout(&self) -> Instant {
        self.deadline
    }

    /// The next limit to set in the cache: shrinks before grows. `None` in advise mode, during a pause, and after a
    /// failure.
    pub fn poll_resize(&mut self) -> Option<Resize> {
        if self.may_act() { self.books.poll_resize() } else { None }
    }

    /// The next decision record, oldest first. The last two are kept.
    pub fn poll_decision(&mut self) -> Option<Decision> {
        self.decisions.pop_front()
    }

    /// The target limits. In advise mode, those of the cache as far as they fit the budget.
    pub const fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// Whether decisions are carried out.
    pub const fn mode(&self) -> Mode {
        self.config.mode
    }

    /// The settings.
    pub const fn config(&self) -> &ControllerConfig {
        &self.config
    }

    /// The name of the policy.
    pub fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// Begins or ends to carry decisions out. What was seen in advise mode is what later periods are compared with.
    pub fn set_mode(&mut self, mode: Mode) {
        if self.config.mode == mode {
            return;
        }
        self.config.mode = mode;
        self.books.clear_queue();
        self.start_from_cache();
        if mode == Mode::Active {
            self.watch.activate(&self.allocation);
        }
    }

    /// Stops everything, outstanding grows included, until [`Self::resume`].
    pub fn pause(&mut self, reason: String) {
        self.paused = Some(reason);
    }

    /// Why it is paused, if it is.
    pub fn paused(&self) -> Option<&str> {
        self.paused.as_deref()
    }

    /// Goes on after a pause or a hold because of harm, from what the cache holds.
    pub fn resume(&mut self) {
        self.paused = None;
        self.start_from_cache();
        self.watch.activate(&self.allocation);
    }

    const fn may_act(&self) -> bool {
        matches!(self.config.mode, Mode::Active) && self.paused.is_none() && self.failure.is_none()
    }

    /// Lists what the cache may be told now.
    pub(crate) fn release(&mut self) {
        if self.may_act() {
            self.books.release(self.config.budget.0, self.config.granule.0);
        }
    }
}

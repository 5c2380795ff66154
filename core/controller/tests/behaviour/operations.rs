//! Random lists of everything that can happen to a controller.

use std::sync::Arc;

use proptest::prelude::*;
use robinhood_controller::{
    Allocation, Controller, ControllerConfig, Decision, LoadBounds, Miss, MissRatioCurve, Mode,
    PolicyKind, RobinHood, Standing,
};
use robinhood_stats::{BackendName, Bytes, Instant, Rate};

use crate::harness::{ModelCache, active, limits, name, period, snapshot, start};

/// Names from which backends come.
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
/// The cap of the first.
const CAP: u64 = 1 << 27;

#[derive(Clone, Debug)]
enum Operation {
    /// A period with these RBCs.
    Period([f64; 8]),
    /// The cache works on and is read, between two periods.
    Read,
    Add(usize),
    Remove(usize),
    SetBudget(u64),
    /// The cache fills so much of its limits and frees so many bytes at a time.
    Cache {
        fill: f64,
        pace: u64,
    },
    /// The next resizes fail.
    Fail(u32),
    /// The largest item of a partition.
    Item(usize, u64),
    Pause,
    Resume,
    Mode(Mode),
}

fn operation() -> impl Strategy<Value = Operation> {
    let rbc = || prop_oneof![1 => Just(0.0), 3 => 0.0_f64..40.0];
    let pace = prop_oneof![Just(u64::MAX), 1_u64..1 << 26];
    prop_oneof![
        12 => prop::array::uniform8(rbc()).prop_map(Operation::Period),
        4 => Just(Operation::Read),
        1 => (0..NAMES.len()).prop_map(Operation::Add),
        1 => (0..NAMES.len()).prop_map(Operation::Remove),
        1 => (1_u64 << 22..1 << 34).prop_map(Operation::SetBudget),
        2 => (0.5_f64..=1.0, pace).prop_map(|(fill, pace)| Operation::Cache { fill, pace }),
        1 => (1_u32..3).prop_map(Operation::Fail),
        1 => (0..NAMES.len(), 0_u64..1 << 30).prop_map(|(i, bytes)| Operation::Item(i, bytes)),
        1 => Just(Operation::Pause),
        2 => Just(Operation::Resume),
        1 => Just(Operation::Mode(Mode::Advise)),
        2 => Just(Operation::Mode(Mode::Active)),
    ]
}

/// Gives the decision, if there was one.
fn run(
    controller: &mut Controller,
    cache: &mut ModelCache,
    operation: &Operation,
) -> Option<Decision> {
    let mut decision = None;
    let now = controller.poll_timeout();
    match operation {
        Operation::Period(rbc) => {
            let rbcs: Vec<_> = NAMES.into_iter().zip(*rbc).collect();
            decision = Some(period(controller, cache, &rbcs));
        }
        Operation::Read => {
            cache.reclaim();
            controller.handle_usage(now, &cache.partitions);
        }
        // Names that are there already or not at all, and budgets below the floors, are refused and change nothing.
        Operation::Add(index) => drop(controller.add_backend(&name(NAMES[*index]))),
        Operation::Remove(index) => drop(controller.remove_backend(&name(NAMES[*index]))),
        Operation::SetBudget(budget) => drop(controller.set_budget(Bytes(*budget))),
        Operation::Cache { fill, pace } => (cache.fill, cache.pace) = (*fill, *pace),
        Operation::Fail(resizes) => cache.failures = *resizes,
        Operation::Item(index, bytes) => {
            let backend = name(NAMES[*index]);
            if let Some(partition) =
                cache.partitions.iter_mut().find(|partition| partition.name == backend)
            {
                partition.item_bytes_max = Bytes(*bytes);
            }
        }
        Operation::Pause => controller.pause("test".to_owned()),
        Operation::Resume => controller.resume(),
        Operation::Mode(mode) => controller.set_mode(*mode),
    }
    cache.apply(controller, now);
    decision
}

/// What holds at every moment. The model cache checks that the budget is never exceeded.
fn check(controller: &Controller, are_items_counted: bool) {
    let budget = controller.config().budget.0;
    assert_eq!(limits(controller).iter().sum::<u64>(), budget, "bytes are conserved");
    let floor = (budget as f64 * 0.001) as u64;
    for (backend, limit) in controller.allocation().iter() {
        assert!(limit.0 >= floor, "`{backend}` has {limit}, below its floor");
        // An item may lift a floor, and with it the cap.
        let is_capped = *backend == name("a") && !are_items_counted;
        assert!(!is_capped || limit.0 <= CAP, "`{backend}` has {limit}, above its cap");
    }
}

/// Floors as they were raised by items: nobody falls below its own, and who is below rises to it if nothing is in the
/// way.
fn check_floors(decision: &Decision) {
    let terms = &decision.inputs.terms;
    let is_free = terms.iter().all(|terms| terms.standing != Standing::Unfinished);
    let granule = decision.inputs.granule;
    for ((backend, limit), terms) in decision.new.iter().zip(terms) {
        assert!(
            limit >= terms.floor.min(terms.target),
            "`{backend}` falls below its floor: {decision:#}"
        );
        let is_lifted = decision.hold.is_none() && is_free && granule == Bytes(1);
        assert!(
            !is_lifted || limit >= terms.floor,
            "`{backend}` stays below its floor: {decision:#}"
        );
    }
}

/// What is drawn before the operations.
#[derive(Clone, Debug)]
struct Setting {
    granule: u64,
    are_items_counted: bool,
    policy: PolicyKind,
    groups: Vec<Vec<BackendName>>,
    /// The reports have five misses per second of every backend.
    misses_per_s_max: Option<Rate>,
    mode: Mode,
}

fn setting() -> impl Strategy<Value = Setting> {
    let group = |members: &[&str]| members.iter().map(|text| name(text)).collect::<Vec<_>>();
    let groups =
        [vec![], vec![group(&["d", "b"])], vec![group(&["a", "e"]), group(&["c", "b", "f"])]];
    let partitioned = PolicyKind::ALL.into_iter().filter(|kind| *kind != PolicyKind::Shared);
    (
        prop_oneof![Just(1_u64), Just(4_096), Just(1 << 20)],
        any::<bool>(),
        prop::sample::select(partitioned.collect::<Vec<_>>()),
        prop::sample::select(groups.to_vec()),
        prop_oneof![Just(None), Just(Some(Rate(5.0)))],
        prop_oneof![1 => Just(Mode::Advise), 3 => Just(Mode::Active)],
    )
        .prop_map(|(granule, are_items_counted, policy, groups, misses_per_s_max, mode)| {
            Setting { granule, are_items_counted, policy, groups, misses_per_s_max, mode }
        })
}

fn start_as(setting: &Setting) -> (ModelCache, Controller) {
    let (cache, mut config) = cache_and_config(setting.granule, setting.are_items_counted);
    config.mode = setting.mode;
    config.groups = setting.groups.clone();
    let bound = LoadBounds { misses_per_s_max: setting.misses_per_s_max, load_growth_max: None };
    config.protection.by_backend.extend(["b", "g"].map(|text| (name(text), bound)));
    let chosen = Allocation::equal(config.budget, &["b", "c", "h"].map(name), Bytes::ZERO);
    let policy = setting.policy.build(&chosen.unwrap()).expect("a policy of partitions");
    let controller = start(config, policy, &cache);
    (cache, controller)
}

/// Hits in shadow queues and miss-ratio curves, some of backends that are not there.
fn show_everything(controller: &mut Controller) {
    for (backend, shadow_hits) in [("a", 900), ("b", 0), ("c", 3), ("z", 5)] {
        let (backend, bytes) = (name(backend), Bytes(4_096));
        controller.handle_miss(Miss { backend: &backend, bytes, shadow_hits });
    }
    let curve = |ratio: f64| {
        let points = vec![(Bytes(1 << 20), 0.9), (Bytes(1 << 27), ratio)];
        Arc::new(MissRatioCurve::new(points).expect("a curve"))
    };
    let curves = [("c", 0.0), ("b", 0.4), ("d", 0.8), ("z", 0.5)];
    let curves = curves.map(|(backend, ratio)| (name(backend), curve(ratio)));
    controller.handle_miss_ratio_curves(curves.to_vec());
}

fn start_with(granule: u64, are_items_counted: bool) -> (ModelCache, Controller) {
    let (cache, config) = cache_and_config(granule, are_items_counted);
    let controller = start(config, Box::new(RobinHood), &cache);
    (cache, controller)
}

fn cache_and_config(granule: u64, are_items_counted: bool) -> (ModelCache, ControllerConfig) {
    let cache = ModelCache::new(&[("a", 1 << 26), ("b", 1 << 27), ("c", 1 << 26), ("d", 1 << 28)]);
    let mut config = active(cache.committed());
    config.granule = Bytes(granule);
    config.floor.items *= u64::from(are_items_counted);
    config.caps = [(name("a"), Bytes(CAP))].into();
    (cache, config)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn bytes_floors_caps_and_the_budget_are_kept_whatever_happens(
        operations in prop::collection::vec(operation(), 1..60),
        setting in setting(),
    ) {
        let (mut cache, mut controller) = start_as(&setting);
        for operation in &operations {
            show_everything(&mut controller);
            let decision = run(&mut controller, &mut cache, operation);
            check(&controller, setting.are_items_counted);
            decision.iter().for_each(check_floors);
        }
    }

    #[test]
    fn when_trouble_ends_the_cache_comes_to_hold_what_the_controller_wants(
        operations in prop::collection::vec(operation(), 1..40),
    ) {
        let (mut cache, mut controller) = start_with(1, true);
        for operation in &operations {
            run(&mut controller, &mut cache, operation);
        }
        controller.set_mode(Mode::Active);
        (cache.failures, cache.pace, cache.fill) = (0, u64::MAX, 1.0);
        controller.resume();
        for _ in 0..4 {
            period(&mut controller, &mut cache, &[]);
        }
        let mut held = cache.limits();
        held.sort();
        let wanted: Vec<(BackendName, Bytes)> =
            controller.allocation().iter().map(|(name, limit)| (name.clone(), limit)).collect();
        prop_assert_eq!(held, wanted);
    }

    #[test]
    fn the_order_in_which_partitions_and_backends_are_listed_changes_nothing(
        periods in prop::collection::vec(prop::array::uniform8(0.0_f64..40.0), 1..20),
        turn in 1_usize..8,
    ) {
        let limits: Vec<_> = NAMES.into_iter().zip((1_u64..).map(|i| i * 1_000_003)).collect();
        let mut turned = limits.clone();
        turned.rotate_left(turn);
        let caches = [ModelCache::new(&limits), ModelCache::new(&turned)];
        let budget = caches[0].committed();
        let [first, second] = caches.map(|mut cache| {
            let mut controller = start(active(budget), Box::new(RobinHood), &cache);
            for rbc in &periods {
                let rbcs: Vec<_> = NAMES.into_iter().zip(*rbc).collect();
                period(&mut controller, &mut cache, &rbcs);
            }
            controller.allocation().clone()
        });
        prop_assert_eq!(first, second);
    }
}

#[test]
fn a_controller_that_is_never_told_anything_holds_and_moves_nothing() {
    let (_, mut controller) = start_with(1, true);
    let before = controller.allocation().clone();
    for _ in 0..100 {
        controller.handle_timeout(controller.poll_timeout());
        assert!(controller.poll_decision().is_some_and(|decision| decision.hold.is_some()));
    }
    controller.handle_snapshot(snapshot(Instant::ZERO, &[("a", 1.0)]));
    assert_eq!((controller.poll_resize(), controller.allocation()), (None, &before));
}

#[test]
fn after_a_cut_of_the_budget_nothing_grows_into_bytes_that_are_still_being_freed() {
    let (mut cache, mut controller) = start_with(1, true);
    let slow = Operation::Cache { fill: 0.5, pace: 1 };
    for operation in [slow, Operation::SetBudget(1 << 22), Operation::Item(0, 300_000)] {
        run(&mut controller, &mut cache, &operation);
    }
    (cache.pace, cache.fill) = (u64::MAX, 1.0);
    controller.resume(); // the first partition has a higher floor now
    assert!(limits(&controller)[0] > cache.partitions[0].limit.0);
    for _ in 0..4 {
        period(&mut controller, &mut cache, &[]);
    }
    assert_eq!(cache.partitions[0].limit.0, limits(&controller)[0]);
}

//! What a driver sees in ordinary periods.

use robinhood_controller::RobinHood;
use robinhood_stats::Bytes;

use crate::harness::{ModelCache, active, period, start};

#[test]
fn the_net_of_tax_and_grant_moves_to_those_who_block() {
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 200_000), ("c", 100_000)]);
    let mut controller = start(active(400_000), Box::new(RobinHood), &cache);
    let decision = period(&mut controller, &mut cache, &[("a", 30.0), ("b", 10.0), ("c", 0.0)]);
    // Taxes 1,000 + 2,000 + 1,000; the pot of 4,000 goes 3 to 1.
    let limits: Vec<u64> = controller.allocation().iter().map(|(_, limit)| limit.0).collect();
    assert_eq!(limits, [102_000, 199_000, 99_000]);
    assert_eq!(decision.hold, None);
    assert_eq!(decision.moved(), Bytes(2_000));
    let held: Vec<u64> = cache.partitions.iter().map(|partition| partition.limit.0).collect();
    assert_eq!(held, [102_000, 199_000, 99_000]);
}

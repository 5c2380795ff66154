//! The least that each partition keeps, and the most it may have.
//!
//! Place in the flow: bounds of every decision and membership operation. A partition needs room for its largest
//! items, and enough hits to be seen at all; a cache may have a minimum of its own (memcached: one page for each
//! size class).

use robinhood_stats::Bytes;
use serde::{Deserialize, Serialize};

use crate::apportion::{Bounds, apportion_capped};

/// How floors are computed: the largest of three.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FloorRule {
    /// Share of the budget, 0 to 1.
    pub budget_share: f64,
    /// Multiple of the largest item that the partition was seen to hold.
    pub items: u64,
    /// What the adapter of the cache asks for.
    pub adapter_min: Bytes,
}

impl Default for FloorRule {
    fn default() -> Self {
        Self { budget_share: 0.001, items: 2, adapter_min: Bytes::ZERO }
    }
}

impl FloorRule {
    /// The part of the floor that holds whatever the items are.
    pub(crate) fn fixed_part(&self, budget: Bytes) -> u64 {
        ((budget.as_f64() * self.budget_share) as u64).max(self.adapter_min.0)
    }

    /// Floors and caps of all partitions. Items are only seen at run time and could ask for more than there is:
    /// then the fixed parts stay whole, and what the items ask for beyond them is cut in proportion.
    ///
    /// # Panics
    /// When the fixed parts alone exceed the budget, which the configuration refuses.
    pub(crate) fn bounds(
        &self,
        budget: Bytes,
        partitions: &[(Bytes, Option<Bytes>)],
    ) -> Vec<Bounds> {
        let fixed = self.fixed_part(budget);
        let all_fixed = fixed * partitions.len() as u64;
        assert!(all_fixed <= budget.0, "floors of {all_fixed} bytes exceed the budget {budget}");
        let beyond = |&(item_max, _): &(Bytes, _)| {
            item_max.0.saturating_mul(self.items).saturating_sub(fixed).min(budget.0)
        };
        let asked: Vec<u64> = partitions.iter().map(beyond).collect();
        let given = apportion_capped(budget.0 - all_fixed, &asked, &asked);
        let bound = |(&(_, cap), extra): (&(_, Option<Bytes>), u64)| {
            let floor = fixed + extra;
            Bounds { floor, cap: cap.unwrap_or(budget).min(budget).0.max(floor) }
        };
        partitions.iter().zip(given).map(bound).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_the_largest_of_three() {
        let rule = FloorRule { adapter_min: Bytes(3_000), ..FloorRule::default() };
        let floor =
            |budget: u64, item: u64| rule.bounds(Bytes(budget), &[(Bytes(item), None)])[0].floor;
        assert_eq!(floor(1_000_000, 10), 3_000);
        assert_eq!(floor(1_000_000, 2_000), 4_000);
        assert_eq!(floor(10_000_000, 2_000), 10_000);
    }

    #[test]
    fn items_that_ask_for_more_than_there_is_are_cut_in_proportion() {
        let rule = FloorRule::default();
        let bounds = rule.bounds(Bytes(100_000), &[(Bytes(150_050), None), (Bytes(50_050), None)]);
        // 100 each are fixed; 99,800 are left for 100,000 (an item cannot ask for more than the budget) and 100,000.
        assert_eq!(bounds[0].floor, 50_000);
        assert_eq!(bounds[1].floor, 50_000);
    }

    #[test]
    fn a_floor_that_rises_above_a_cap_lifts_the_cap() {
        let bounds =
            FloorRule::default().bounds(Bytes(100_000), &[(Bytes(10_000), Some(Bytes(15_000)))]);
        assert_eq!(bounds, [Bounds { floor: 20_000, cap: 20_000 }]);
    }
}

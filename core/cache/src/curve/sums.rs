//! Sums over the beginning of a list whose entries change: both in O(log n).
//!
//! Place in the flow: under the stack distances, which are sums of the bytes used since. Source: Fenwick, "A new data structure for
//! cumulative frequency tables" (Software: Practice and Experience 24, 1994).

/// Numbers by place, and the sums of all before a place.
#[derive(Clone, Debug, Default)]
pub(super) struct PrefixSums {
    /// Entry i holds the sum of the last `lowest bit of (i + 1)` numbers up to place i.
    tree: Vec<u64>,
}

impl PrefixSums {
    /// The sums of `values`, and of zeros up to `length` places. O(length).
    pub(super) fn new(values: impl Iterator<Item = u64>, length: usize) -> Self {
        let mut tree: Vec<u64> = values.collect();
        assert!(tree.len() <= length, "{} values for {length} places", tree.len());
        tree.resize(length, 0);
        for place in 0..length {
            let parent = place | (place + 1);
            if parent < length {
                tree[parent] += tree[place];
            }
        }
        Self { tree }
    }

    /// Adds to the number at a place.
    pub(super) fn add(&mut self, mut place: usize, amount: u64) {
        while let Some(sum) = self.tree.get_mut(place) {
            *sum += amount;
            place |= place + 1;
        }
    }

    /// Takes from the number at a place.
    pub(super) fn subtract(&mut self, mut place: usize, amount: u64) {
        while let Some(sum) = self.tree.get_mut(place) {
            *sum -= amount;
            place |= place + 1;
        }
    }

    /// The sum of the numbers at the places before `place`.
    pub(super) fn before(&self, mut place: usize) -> u64 {
        let mut sum = 0;
        while place > 0 {
            sum += self.tree[place - 1];
            place &= place - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sums_equal_those_of_a_plain_list(
            start in proptest::collection::vec(0_u64..100, 0..20),
            more in 0_usize..20,
            changes in proptest::collection::vec((0_usize..40, 0_u64..100, proptest::bool::ANY), 0..60),
        ) {
            let mut plain = start.clone();
            plain.resize(start.len() + more, 0);
            let mut sums = PrefixSums::new(start.into_iter(), plain.len());
            for (place, amount, adds) in changes {
                if place >= plain.len() {
                    continue;
                }
                if adds {
                    plain[place] += amount;
                    sums.add(place, amount);
                } else {
                    let amount = amount.min(plain[place]);
                    plain[place] -= amount;
                    sums.subtract(place, amount);
                }
            }
            for place in 0..=plain.len() {
                prop_assert_eq!(sums.before(place), plain[..place].iter().sum::<u64>());
            }
        }
    }
}

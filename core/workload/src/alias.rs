//! Draws from a list of weighted choices in constant time, exactly in proportion to the weights.
//!
//! Place in the flow: under popularity by buckets and sizes by list. Method: Walker's alias method (ACM TOMS 3, 1977) with tables built as in Vose (IEEE
//! TSE 17, 1991). Deviation: what is left of the random number after the choice is returned too, so that one draw decides the choice and the place in it.

/// Choices 0 to n - 1 with their probabilities.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AliasTable {
    slots: Vec<Slot>,
}

/// One n-th of the probability: its lower share belongs to the choice of its own number, the rest to another one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slot {
    own: f64,
    other: u32,
}

impl AliasTable {
    /// # Panics
    /// When there is no weight, more than 2^32, one is negative or not finite, or their sum is not a positive finite number.
    pub(crate) fn new(weights: &[f64]) -> Self {
        let total: f64 = weights.iter().sum();
        assert!(u32::try_from(weights.len()).is_ok(), "choices are numbered in 32 bits");
        assert!(weights.iter().all(|&w| w >= 0.0), "weights are numbers from 0 up");
        assert!(total > 0.0 && total.is_finite(), "the sum of all weights is above 0 and finite");
        let scale = weights.len() as f64 / total;
        let mut left: Vec<f64> = weights.iter().map(|w| w * scale).collect();
        let mut slots: Vec<Slot> =
            (0..weights.len()).map(|n| Slot { own: 1.0, other: n as u32 }).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..weights.len()).partition(|&n| left[n] < 1.0);
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            slots[poor] = Slot { own: left[poor], other: rich as u32 };
            left[rich] -= 1.0 - left[poor];
            if left[rich] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        // Rounding can leave a choice that nobody fills up. One that has weight gets its slot as a whole; one that has none must never be drawn.
        let heaviest =
            (0..weights.len()).fold(0, |a, b| if weights[b] > weights[a] { b } else { a });
        for poor in small.into_iter().filter(|&n| weights[n] == 0.0) {
            slots[poor] = Slot { own: 0.0, other: heaviest as u32 };
        }
        Self { slots }
    }

    /// The choice for 64 random bits, and a number in [0, 1) that is random again.
    #[inline]
    pub(crate) fn choose(&self, bits: u64) -> (usize, f64) {
        let scaled =
            (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0) * self.slots.len() as f64;
        let number = (scaled as usize).min(self.slots.len() - 1);
        let rest = scaled - number as f64;
        let slot = self.slots[number];
        if rest < slot.own {
            (number, rest / slot.own)
        } else {
            (slot.other as usize, (rest - slot.own) / (1.0 - slot.own))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The probability of each choice, from the table.
    fn probabilities(table: &AliasTable) -> Vec<f64> {
        let mut sums = vec![0.0; table.slots.len()];
        for (number, slot) in table.slots.iter().enumerate() {
            sums[number] += slot.own / table.slots.len() as f64;
            sums[slot.other as usize] += (1.0 - slot.own) / table.slots.len() as f64;
        }
        sums
    }

    #[test]
    fn the_table_has_the_probabilities_of_the_weights() {
        let skewed: Vec<f64> = (1..=800).map(|n| 1e9 / f64::from(n * n)).collect();
        for weights in [vec![1.0], vec![3.0, 1.0], vec![0.0, 5.0, 0.0], vec![0.1; 7], skewed] {
            let total: f64 = weights.iter().sum();
            for (found, weight) in probabilities(&AliasTable::new(&weights)).iter().zip(&weights) {
                assert!((found - weight / total).abs() < 1e-12, "{found} for {weight} of {total}");
                assert!(*weight > 0.0 || *found == 0.0, "what has no weight is never drawn");
            }
        }
    }

    #[test]
    fn the_ends_of_the_random_bits_give_choices_and_rests_in_their_range() {
        let table = AliasTable::new(&[0.2, 0.5, 0.3]);
        for bits in [0, 1, u64::MAX / 3, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
            let (choice, rest) = table.choose(bits);
            assert!(choice < 3 && (0.0..1.0).contains(&rest), "{bits}: {choice} {rest}");
        }
    }
}

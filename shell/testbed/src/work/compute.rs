//! Matrix products: a batch of users' factor vectors times the factors of all items, and the best items of each user.
//!
//! Imitates the paper's recommender. The kernel is our own: sums run in one order, so that a user's answer is the same
//! bits in any batch and on any machine; the compiler vectorises it.

use std::sync::Arc;

use bytes::{BufMut, Bytes};

use super::answer::{expand, mix};
use super::{Work, WorkError};

const FACTORS: usize = 32;
const ITEMS: usize = 1_024;
/// Items whose scores are kept in registers together.
const TILE: usize = 32;
const BEST: usize = 16;

/// Item factors of one tile: for each factor, the values of all items of the tile.
type Tile = [[f32; TILE]; FACTORS];

/// The trained model. Written once.
pub(super) struct Factors {
    users: Vec<[f32; FACTORS]>,
    items: Vec<Tile>,
    sizes: Vec<u32>,
}

/// One server's scratch memory.
pub(super) struct Multiplier {
    factors: Arc<Factors>,
    scores: Vec<[f32; ITEMS]>,
    fields: Vec<u8>,
}

impl Factors {
    pub(super) fn build(seed: u64, sizes: &[u32]) -> Self {
        let mut state = mix(seed);
        let mut number = || {
            state = mix(state);
            (state >> 40) as f32 / 8_388_608.0 - 1.0 // 24 random bits: exact in f32, from -1 to 1
        };
        let items =
            (0..ITEMS / TILE).map(|_| [[0.0; TILE]; FACTORS].map(|row| row.map(|_| number())));
        let items = items.collect();
        let users = sizes.iter().map(|_| [0.0; FACTORS].map(|_: f32| number())).collect();
        Self { users, items, sizes: sizes.to_vec() }
    }
}

impl Multiplier {
    pub(super) const fn new(factors: Arc<Factors>) -> Self {
        Self { factors, scores: Vec::new(), fields: Vec::new() }
    }

    /// `scores[u][i]` = factors of user `keys[u]` times factors of item `i`.
    fn multiply(&mut self, keys: &[u32]) {
        self.scores.resize(keys.len(), [0.0; ITEMS]);
        for (tile, number) in self.factors.items.iter().zip(0..) {
            for (&key, scores) in keys.iter().zip(&mut self.scores) {
                let sums = multiply_tile(&self.factors.users[key as usize], tile);
                scores[number * TILE..][..TILE].copy_from_slice(&sums);
            }
        }
    }
}

fn multiply_tile(user: &[f32; FACTORS], tile: &Tile) -> [f32; TILE] {
    let mut sums = [0.0; TILE];
    for (&factor, row) in user.iter().zip(tile) {
        for (sum, &item) in sums.iter_mut().zip(row) {
            *sum += factor * item;
        }
    }
    sums
}

/// The items with the highest scores, best first; the lower number wins a tie.
fn best(scores: &[f32; ITEMS]) -> [(f32, u16); BEST] {
    let mut best = [(f32::NEG_INFINITY, 0); BEST];
    for (&score, item) in scores.iter().zip(0u16..) {
        if score <= best[BEST - 1].0 {
            continue;
        }
        let place = best.partition_point(|&(other, _)| other >= score);
        best[place..].rotate_right(1);
        best[place] = (score, item);
    }
    best
}

impl Work for Multiplier {
    fn answer(&mut self, keys: &[u32]) -> Result<Vec<Bytes>, WorkError> {
        let known = self.factors.sizes.len() as u32;
        if let Some(&key) = keys.iter().find(|&&key| key >= known) {
            return Err(WorkError::UnknownKey { key, keys: known });
        }
        self.multiply(keys);
        let mut values = Vec::with_capacity(keys.len());
        for (&key, scores) in keys.iter().zip(&self.scores) {
            self.fields.clear();
            for (score, item) in best(scores) {
                self.fields.put_u16_le(item);
                self.fields.put_f32_le(score);
            }
            values.push(expand(&self.fields, self.factors.sizes[key as usize]));
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_the_matrix_product() {
        let factors = Arc::new(Factors::build(5, &[100; 10]));
        let mut multiplier = Multiplier::new(factors.clone());
        multiplier.multiply(&[9, 2]);
        for (row, user) in [9, 2].into_iter().enumerate() {
            for item in [0, 31, 32, 700, ITEMS - 1] {
                let products = factors.users[user].iter().enumerate().map(|(f, &value)| {
                    f64::from(value) * f64::from(factors.items[item / TILE][f][item % TILE])
                });
                let exact: f64 = products.sum();
                let got = f64::from(multiplier.scores[row][item]);
                assert!((got - exact).abs() < 1e-4, "user {user} item {item}: {got} for {exact}");
            }
        }
    }

    #[test]
    fn the_best_items_are_those_of_a_full_sort() {
        let mut scores = [0.0; ITEMS];
        for (item, score) in scores.iter_mut().enumerate() {
            *score = (mix(item as u64) % 100) as f32; // with ties
        }
        let mut sorted: Vec<(f32, u16)> = scores.iter().copied().zip(0..).collect();
        sorted.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        assert_eq!(best(&scores)[..], sorted[..BEST]);
    }
}

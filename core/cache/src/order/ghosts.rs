//! Fingerprints of items that were evicted lately.
//!
//! Place in the flow: S3-FIFO's ghost queue (`queues.rs`).

use std::collections::VecDeque;

use hashbrown::HashTable;

/// The youngest ghosts. A fingerprint that is taken leaves an empty place until it is as old as the oldest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ghosts {
    /// The oldest in front.
    fingerprints: VecDeque<u32>,
    /// The number of the fingerprint in front; the others count on, and around.
    first: u32,
    /// Numbers of those that were not taken.
    present: HashTable<u32>,
}

impl Ghosts {
    /// Remembers a fingerprint, and forgets the oldest beyond `ghosts_max`.
    pub(crate) fn add(&mut self, fingerprint: u32, ghosts_max: usize) {
        self.take(fingerprint);
        let number = self.first.wrapping_add(self.fingerprints.len() as u32);
        self.fingerprints.push_back(fingerprint);
        let Self { fingerprints, first, present } = self;
        let hash_of = |number: &u32| spread(fingerprints[number.wrapping_sub(*first) as usize]);
        present.insert_unique(spread(fingerprint), number, hash_of);
        while self.fingerprints.len() > ghosts_max {
            let oldest = self.fingerprints.pop_front().expect("longer than some length");
            let number = self.first;
            self.first = number.wrapping_add(1);
            if let Ok(entry) = self.present.find_entry(spread(oldest), |&other| other == number) {
                entry.remove();
            }
        }
    }

    /// Whether the fingerprint is remembered. It is not any more then.
    pub(crate) fn take(&mut self, fingerprint: u32) -> bool {
        let Self { fingerprints, first, present } = self;
        let is_it =
            |number: &u32| fingerprints[number.wrapping_sub(*first) as usize] == fingerprint;
        let found = present.find_entry(spread(fingerprint), is_it);
        found.map(|entry| entry.remove()).is_ok()
    }
}

#[inline]
const fn spread(fingerprint: u32) -> u64 {
    let product = (fingerprint as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_youngest_are_remembered_until_they_are_taken() {
        let mut ghosts = Ghosts { first: u32::MAX - 3, ..Ghosts::default() };
        for fingerprint in 0..10 {
            ghosts.add(fingerprint, 4);
        }
        assert!(ghosts.take(7) && !ghosts.take(7) && !ghosts.take(5));
        ghosts.add(7, 4);
        let left: Vec<u32> = (0..10).filter(|&fingerprint| ghosts.take(fingerprint)).collect();
        assert_eq!(left, [7, 8, 9], "7 has a new place, and its old one still counts");
        ghosts.add(1, 1);
        assert!(ghosts.take(1));
        assert_eq!(ghosts.fingerprints.len(), 1);
    }
}

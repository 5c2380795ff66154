//! Which deltas were counted before: per sender and start of it, the newest sequence and a bit for each of the 64 below.

use std::collections::BTreeMap;

use robinhood_stats::Instant;

use crate::delta::DeltaError;

/// How far a delta may arrive behind its sender's newest and still be told from a repeat.
const REACH: u64 = 64;

#[derive(Clone, Copy, Debug)]
struct Sender {
    newest: u64,
    /// Bit i: sequence `newest - i` was counted.
    counted: u64,
    heard: Instant,
}

/// Memory of senders, bounded.
#[derive(Clone, Debug)]
pub(crate) struct Senders {
    by_start: BTreeMap<(u64, u64), Sender>,
    senders_max: usize,
    /// The moment up to which silent senders were forgotten last.
    forgotten_before: Instant,
}

impl Senders {
    pub(crate) const fn new(senders_max: usize) -> Self {
        Self { by_start: BTreeMap::new(), senders_max, forgotten_before: Instant::ZERO }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Marks a sequence as counted. When there is no room for a new sender, those not heard since `silent_since` are
    /// forgotten: their deltas are too old for the window anyway.
    pub(crate) fn mark(
        &mut self,
        (sender, boot_nonce, sequence): (u64, u64, u64),
        now: Instant,
        silent_since: Instant,
    ) -> Result<(), DeltaError> {
        let key = (sender, boot_nonce);
        if let Some(known) = self.by_start.get_mut(&key) {
            return known.mark(sequence, now);
        }
        if self.by_start.len() >= self.senders_max && silent_since > self.forgotten_before {
            self.by_start.retain(|_, sender| sender.heard >= silent_since);
            self.forgotten_before = silent_since;
        }
        if self.by_start.len() >= self.senders_max {
            return Err(DeltaError::TooManySenders);
        }
        self.by_start.insert(key, Sender { newest: sequence, counted: 1, heard: now });
        Ok(())
    }
}

impl Sender {
    fn mark(&mut self, sequence: u64, now: Instant) -> Result<(), DeltaError> {
        if sequence > self.newest {
            let ahead = sequence - self.newest;
            self.counted = if ahead < REACH { self.counted << ahead | 1 } else { 1 };
            self.newest = sequence;
        } else {
            let behind = self.newest - sequence;
            if behind >= REACH || self.counted >> behind & 1 == 1 {
                return Err(DeltaError::Duplicate);
            }
            self.counted |= 1 << behind;
        }
        self.heard = now;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(
        senders: &mut Senders,
        start: (u64, u64),
        sequence: u64,
        now: u64,
    ) -> Result<(), DeltaError> {
        let silent_since = Instant(now).saturating_sub(robinhood_stats::Nanos(100));
        senders.mark((start.0, start.1, sequence), Instant(now), silent_since)
    }

    #[test]
    fn each_sequence_counts_once_in_any_order() {
        let mut senders = Senders::new(8);
        for sequence in [5, 7, 6, 68] {
            assert_eq!(mark(&mut senders, (1, 1), sequence, 0), Ok(()), "{sequence}");
        }
        for sequence in [5, 7, 6, 68] {
            let again = mark(&mut senders, (1, 1), sequence, 0);
            assert_eq!(again, Err(DeltaError::Duplicate), "{sequence}");
        }
        assert_eq!(mark(&mut senders, (1, 1), 8, 0), Ok(()), "late, and told from a repeat");
        assert_eq!(mark(&mut senders, (1, 1), 500, 0), Ok(()));
        let too_far_behind = mark(&mut senders, (1, 1), 436, 0);
        assert_eq!(too_far_behind, Err(DeltaError::Duplicate), "it cannot be told from a repeat");
        assert_eq!(mark(&mut senders, (1, 1), 437, 0), Ok(()));
    }

    #[test]
    fn a_restarted_sender_starts_its_sequence_again() {
        let mut senders = Senders::new(8);
        assert_eq!(mark(&mut senders, (1, 1), 9, 0), Ok(()));
        assert_eq!(mark(&mut senders, (1, 2), 9, 0), Ok(()));
        assert_eq!(
            mark(&mut senders, (1, 1), 9, 0),
            Err(DeltaError::Duplicate),
            "a late repeat of the start before"
        );
    }

    #[test]
    fn senders_are_bounded_and_silent_ones_make_room() {
        let mut senders = Senders::new(2);
        assert_eq!(mark(&mut senders, (1, 1), 1, 1), Ok(()));
        assert_eq!(mark(&mut senders, (2, 1), 1, 90), Ok(()));
        assert_eq!(mark(&mut senders, (3, 1), 1, 90), Err(DeltaError::TooManySenders));
        assert_eq!(mark(&mut senders, (3, 1), 1, 150), Ok(()));
        assert_eq!(
            (senders.len(), mark(&mut senders, (2, 1), 1, 150)),
            (2, Err(DeltaError::Duplicate))
        );
    }
}

//! Lists that stay bounded however long a run is.
//!
//! Place in the flow: the gauges keep their series in them.

/// A list that keeps every n-th value, n doubling when it is full.
#[derive(Debug)]
pub(crate) struct Thinned<T> {
    kept: Vec<T>,
    most: usize,
    every: u64,
    seen: u64,
}

impl<T> Thinned<T> {
    /// A list of at most `most` values.
    pub(crate) const fn new(most: usize) -> Self {
        assert!(most > 1, "a list that halves itself has two places at least");
        Self { kept: Vec::new(), most, every: 1, seen: 0 }
    }

    pub(crate) fn push(&mut self, value: T) {
        if self.seen.is_multiple_of(self.every) {
            if self.kept.len() == self.most {
                let mut place = 0;
                self.kept.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.every *= 2;
            }
            if self.seen.is_multiple_of(self.every) {
                self.kept.push(value);
            }
        }
        self.seen += 1;
    }

    /// The values that are kept, in order.
    pub(crate) fn kept(&self) -> &[T] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_is_thinned_evenly_and_stays_bounded() {
        for most in [2, 3, 20_000] {
            let mut series = Thinned::new(most);
            for value in 0..most as u64 * 5 {
                series.push(value);
            }
            let kept = series.kept();
            assert!(kept.len() <= most && kept.len() > 1, "{most}");
            let every = kept[1] - kept[0];
            assert!(kept.windows(2).all(|pair| pair[1] - pair[0] == every), "{every}");
            assert_eq!(kept[0], 0);
        }
    }
}

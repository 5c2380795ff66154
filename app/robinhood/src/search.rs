//! The least of a row of percentages that does, by bisection.

use std::ops::RangeInclusive;

/// Percentages are tried in steps of so many.
pub(crate) const STEP: u32 = 5;

/// The least percentage in the range, in steps of [`STEP`] from its start, for which `does` says yes; `None` when even the last one does not. Takes it that what
/// does with less does with more too.
pub(crate) fn least_percent<E>(
    range: RangeInclusive<u32>,
    mut does: impl FnMut(u32) -> Result<bool, E>,
) -> Result<Option<u32>, E> {
    let from = *range.start();
    let percent = |place: u32| from + place * STEP;
    let mut high = (range.end() - from) / STEP;
    if !does(percent(high))? {
        return Ok(None);
    }
    // All places below `low` are known not to do, and `high` does.
    let mut low = 0;
    while low < high {
        let middle = low.midpoint(high);
        if does(percent(middle))? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(Some(percent(high)))
}

/// The most that [`least_percent`] tries.
pub(crate) fn tries_max(range: &RangeInclusive<u32>) -> u32 {
    let places = (range.end() - range.start()) / STEP + 1;
    1 + places.next_power_of_two().ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_that_does_is_found_with_few_tries() {
        let range = 10..=400;
        for least in 0..=450 {
            let mut tries = 0;
            let found = least_percent(range.clone(), |percent| {
                tries += 1;
                Ok::<_, ()>(percent >= least)
            });
            let expected = (10..=400).step_by(5).find(|&percent| percent >= least);
            assert_eq!(found, Ok(expected), "{least}");
            assert!(tries <= tries_max(&range), "{tries}");
        }
        assert_eq!(least_percent(10..=10, |_| Err::<bool, _>("stop")), Err("stop"));
    }
}

//! Values in the order of time: how far neighbours resemble each other.
//!
//! Place in the flow: under the tests of slots. Neighbouring slots of a queue are alike, and a test that takes them for independent finds
//! differences everywhere.

/// Mean of the values; not a number without any.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Correlation of each value with the next, from -1 to 1; 0 when all are equal.
pub(crate) fn autocorrelation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let products: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// The middle value, or the middle of the two in the middle. Sorts the values.
///
/// # Panics
/// Without values.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { 0.5 * (values[half - 1] + values[half]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_alternate_are_opposed_and_a_slope_resembles_itself() {
        let alternating: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        assert!((autocorrelation(&alternating) + 0.99).abs() < 1e-9);
        let rising: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(autocorrelation(&rising) > 0.96);
        assert_eq!(autocorrelation(&[3.0; 5]), 0.0);
    }

    #[test]
    fn the_median_of_an_even_number_is_in_the_middle() {
        assert_eq!(median(&mut [5.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [5.0, 1.0, 2.0, 4.0]), 3.0);
    }
}

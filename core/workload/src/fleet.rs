//! How many servers a backend gets, and how fast they are, for the work that it has.
//!
//! Place in the flow: under calibration.

/// The fewest servers of a backend: one alone would make every long batch block all others.
pub const BACKEND_SERVERS_MIN: u32 = 2;

/// Speeds are rounded to so many parts of 1: they are written into files that people read.
const SPEED_PARTS: f64 = 1_000.0;

/// Servers and speed for a backend that needs `need` servers of speed 1: as few as can do it, each as much slower as they are more than needed. Where the fewest
/// are plenty, they have speed 1.
pub fn servers_for(need: f64) -> (u32, f64) {
    let servers = libm::ceil(need).max(f64::from(BACKEND_SERVERS_MIN));
    let is_plenty = need <= f64::from(BACKEND_SERVERS_MIN);
    let speed = if is_plenty { 1.0 } else { need / servers };
    (servers as u32, rounded_speed(speed))
}

/// A speed as files write it.
pub(crate) fn rounded_speed(speed: f64) -> f64 {
    (speed * SPEED_PARTS).round() / SPEED_PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_as_few_as_can_do_the_work_and_at_least_two() {
        for (need, expected) in
            [(0.0, (2, 1.0)), (2.0, (2, 1.0)), (2.5, (3, 0.833)), (40.0, (40, 1.0))]
        {
            assert_eq!(servers_for(need), expected, "{need}");
        }
    }
}

//! Times to live, as memcached counts them.
//!
//! Place in the flow: a server gives the time of a command to [`expiry_s`] before it stores.

/// A time to live of more seconds than these is a date: 30 days.
const RELATIVE_S_MAX: i64 = 60 * 60 * 24 * 30;

/// When a value expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It does not.
    Never,
    /// In this second of the caller's clock and after it.
    At(u32),
    /// It has: nobody will get it.
    Past,
}

/// When a value with this time to live expires: 0 is never, a negative one at once, at most 30 days are counted in seconds
/// from `now_s` on, and more is a date in seconds since 1970. `now_s` counts from the caller's second 0, which was
/// `epoch_unix_s` seconds after the beginning of 1970. What is beyond 32 bits is never.
pub fn expiry_s(exptime: i64, now_s: u32, epoch_unix_s: u64) -> Expiry {
    if exptime == 0 {
        return Expiry::Never;
    }
    let at_s = if exptime < 0 {
        return Expiry::Past;
    } else if exptime <= RELATIVE_S_MAX {
        i128::from(now_s) + i128::from(exptime)
    } else {
        i128::from(exptime) - i128::from(epoch_unix_s)
    };
    match u32::try_from(at_s) {
        Ok(at_s) if at_s > now_s => Expiry::At(at_s),
        Err(_) if at_s > 0 => Expiry::Never,
        _ => Expiry::Past,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_live_are_relative_up_to_30_days_and_dates_above() {
        let epoch_unix_s = 1_700_000_000;
        for (exptime, expected) in [
            (0, Expiry::Never),
            (-1, Expiry::Past),
            (i64::MIN, Expiry::Past),
            (1, Expiry::At(101)),
            (2_592_000, Expiry::At(2_592_100)),
            (2_592_001, Expiry::Past),
            (1_700_000_100, Expiry::Past),
            (1_700_000_101, Expiry::At(101)),
            (1_700_000_000 + i64::from(u32::MAX), Expiry::At(u32::MAX)),
            (1_700_000_001 + i64::from(u32::MAX), Expiry::Never),
            (i64::MAX, Expiry::Never),
        ] {
            assert_eq!(expiry_s(exptime, 100, epoch_unix_s), expected, "{exptime}");
        }
        assert_eq!(expiry_s(1, u32::MAX, epoch_unix_s), Expiry::Never);
        assert_eq!(expiry_s(i64::MAX, 0, u64::MAX), Expiry::Past);
    }
}

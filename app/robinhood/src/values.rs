//! Values of flags that are more than one number.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use robinhood_stats::{Nanos, Rate, UnitError};

use robinhood_controller::PolicyKind;

/// `3`, `1..5` (both ends included) or `1,4,9`, in the order that was typed and each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeds(pub Vec<u64>);

/// The most seeds that one command runs.
const SEEDS_MAX: usize = 1_000;

/// `200/s`: a rate at which something happens.
pub(crate) fn rate_above_zero(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|error: UnitError| error.to_string())?;
    if rate.0 > 0.0 {
        Ok(rate)
    } else {
        Err(format!("`{text}` is no rate: write one above 0, as in `200/s`"))
    }
}

/// `10s`: a length of time that is one.
pub(crate) fn time_above_zero(text: &str) -> Result<Nanos, String> {
    let time: Nanos = text.parse().map_err(|error: UnitError| error.to_string())?;
    if time > Nanos::ZERO {
        Ok(time)
    } else {
        Err(format!("`{text}` is no length of time: write one above 0, as in `10s`"))
    }
}

/// `1790000000.5`: a moment of the calendar.
pub(crate) fn moment(text: &str) -> Result<SystemTime, String> {
    let seconds = text.parse::<f64>().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since))
        .ok_or_else(|| {
            format!("`{text}` is no moment: write seconds since 1970, as `date +%s` prints them")
        })
}

/// `99.9`: a percentile that an objective can go by.
pub(crate) fn percentile(text: &str) -> Result<f64, String> {
    let mistake = || {
        format!(
            "`{text}` is no percentile of a tail: write a number from 50 to 99.99, as in `99.9`"
        )
    };
    text.parse().ok().filter(|p| (50.0..=99.99).contains(p)).ok_or_else(mistake)
}

/// `0.1`: a part of a whole.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let mistake = || format!("`{text}` is no share: write a number from 0 to 1, as in `0.1`");
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(mistake)
}

/// `10`: how many times faster a run goes.
pub(crate) fn time_scale(text: &str) -> Result<f64, String> {
    let mistake =
        || format!("`{text}` is no time scale: write a number above 0 and up to 1000, as in `10`");
    text.parse().ok().filter(|&x| x > 0.0 && x <= 1_000.0).ok_or_else(mistake)
}

/// `50`: how many times faster the runs of a reproduction go: all policies run in it.
pub(crate) fn reproduction_time_scale(text: &str) -> Result<f64, String> {
    let mistake = || format!("`{text}` is no time scale: write a number from 1 to 100, as in `50`");
    text.parse().ok().filter(|x| (1.0..=100.0).contains(x)).ok_or_else(mistake)
}

impl FromStr for Seeds {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mistake = || {
            format!(
                "`{text}` does not name seeds: write one (`7`), a range with both ends (`1..5`) or a list (`1,4,9`), at most {SEEDS_MAX}"
            )
        };
        let number = |part: &str| part.trim().parse::<u64>().map_err(|_| mistake());
        let typed: Vec<u64> = match text.split_once("..") {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
                (first..=last).take(SEEDS_MAX + 1).collect()
            }
            None => text.split(',').map(number).collect::<Result<_, _>>()?,
        };
        if typed.is_empty() || typed.len() > SEEDS_MAX {
            return Err(mistake());
        }
        let mut seeds = Vec::new();
        for seed in typed {
            if !seeds.contains(&seed) {
                seeds.push(seed);
            }
        }
        Ok(Self(seeds))
    }
}

/// `all`, or names of policies separated by commas, each run once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policies(pub Vec<PolicyKind>);

impl FromStr for Policies {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(PolicyKind::COMPARISON.to_vec()));
        }
        let mut policies = Vec::new();
        for name in text.split(',') {
            let policy = name.trim().parse().map_err(|error| format!("{error}; or `all`"))?;
            if !policies.contains(&policy) {
                policies.push(policy);
            }
        }
        Ok(Self(policies))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_a_list_without_repeats_or_all() {
        let list = vec![PolicyKind::Shared, PolicyKind::Fair];
        assert_eq!("shared,fair,shared".parse(), Ok(Policies(list)));
        assert_eq!("all".parse(), Ok(Policies(PolicyKind::COMPARISON.to_vec())));
        for bad in ["", "all,fair", "fair,"] {
            let error = bad.parse::<Policies>().unwrap_err();
            assert!(error.ends_with("or `all`"), "{bad}: {error}");
        }
    }

    #[test]
    fn seeds_are_one_a_range_or_a_list() {
        assert_eq!("7".parse(), Ok(Seeds(vec![7])));
        assert_eq!("1..3".parse(), Ok(Seeds(vec![1, 2, 3])));
        assert_eq!("1..=3".parse(), Ok(Seeds(vec![1, 2, 3])));
        assert_eq!("4,9".parse(), Ok(Seeds(vec![4, 9])));
        assert_eq!("9,4,9,4".parse(), Ok(Seeds(vec![9, 4])));
        for bad in ["", "3..1", "a", "1,,2", "0..999999999999"] {
            assert!(bad.parse::<Seeds>().is_err(), "{bad}");
        }
    }
}

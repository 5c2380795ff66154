//! Values of the file that are written as text: with their unit, or one of a few words.

use robinhood_cache_server::{Dispatch, Eviction};
use robinhood_controller::{Mode, PolicyKind};
use robinhood_stats::{Bytes, Nanos};
use serde::Deserialize;

use crate::cache;

/// A value that is written as text, as on the command line: with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Text<T>(pub(crate) T);

/// What can be written as [`Text`].
pub(crate) trait Parsed: Sized {
    fn parsed(text: &str) -> Result<Self, String>;
}

impl Parsed for Bytes {
    fn parsed(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: robinhood_stats::UnitError| error.to_string())
    }
}

impl Parsed for Nanos {
    fn parsed(text: &str) -> Result<Self, String> {
        crate::values::time_above_zero(text)
    }
}

impl Parsed for Dispatch {
    fn parsed(text: &str) -> Result<Self, String> {
        cache::dispatch(text)
    }
}

impl Parsed for Eviction {
    fn parsed(text: &str) -> Result<Self, String> {
        cache::eviction(text)
    }
}

impl Parsed for Mode {
    fn parsed(text: &str) -> Result<Self, String> {
        match text {
            "active" => Ok(Self::Active),
            "advise" => Ok(Self::Advise),
            _ => Err(format!("`{text}` is neither `active` nor `advise`")),
        }
    }
}

impl Parsed for PolicyKind {
    fn parsed(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(policy @ (Self::Robinhood | Self::Fair | Self::Lama | Self::Equal)) => Ok(policy),
            _ => Err(format!(
                "`{text}` does not run live: take `robinhood`, `fair`, `lama` or `equal`"
            )),
        }
    }
}

impl<'de, T: Parsed> Deserialize<'de> for Text<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        T::parsed(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

//! Which release of memcached needs which way of freeing memory.
//!
//! Source: the history of memcached's page mover. Up to 1.6.33 a page that is taken away loses its items unless the class has free chunks for
//! them, whatever their age; from 1.6.34 on the mover makes room by evicting from the cold end.

use crate::error::Fault;

/// Before this release the commands that the adapter needs are missing.
const OLDEST: Version = Version(1, 6, 0);
/// The release that the way with throw-away items was tested with.
const TESTED: Version = Version(1, 6, 18);
/// From here on the mover itself evicts from the cold end.
const MOVER_EVICTS_COLDEST: Version = Version(1, 6, 34);

/// A release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u32, u32, u32);

/// How pages are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Room for the items of a page is made at the cold end of its class before the page is taken.
    MakeRoom,
    /// The page is taken; memcached sees to its items.
    Plain,
}

impl Version {
    /// From the answer to `version`, `1.6.18` or with something behind it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let mut number = || {
            let digits: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        Some(Self(number()?, number()?, number()?))
    }

    /// How its pages are freed.
    pub(crate) fn way(self) -> Result<Way, Fault> {
        if self < OLDEST {
            let what = format!("memcached {}.{}.{} is too old", self.0, self.1, self.2);
            let remedy = "run 1.6.0 or later; 1.6.34 and later free memory best";
            return Err(Fault::Unsupported { what, remedy });
        }
        Ok(if self >= MOVER_EVICTS_COLDEST { Way::Plain } else { Way::MakeRoom })
    }

    /// What an operator should know of it.
    pub(crate) fn note(self) -> &'static str {
        match self.way() {
            Ok(Way::Plain) => "its mover evicts the coldest items when pages are freed",
            _ if self == TESTED => "room is made at the cold end before a page is freed",
            _ => {
                "room is made at the cold end before a page is freed, which was tested with 1.6.18 only"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        let way = |text| Version::parse(text).unwrap().way();
        assert!(matches!(way("1.6.18"), Ok(Way::MakeRoom)));
        assert!(matches!(way("1.6.9_beta1"), Ok(Way::MakeRoom)));
        assert!(matches!(way("1.6.33"), Ok(Way::MakeRoom)));
        assert!(matches!(way("1.6.34"), Ok(Way::Plain)));
        assert!(matches!(way("1.10.0"), Ok(Way::Plain)));
        assert!(way("1.5.22").unwrap_err().to_string().contains("1.5.22 is too old"));
        for text in ["", "1.6", "x.6.18", "1.6.x"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
        assert!(Version::parse("1.6.17").unwrap().note().contains("tested with 1.6.18 only"));
    }
}

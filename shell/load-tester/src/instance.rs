//! One of several processes that load a server together.
//!
//! Place in the flow: between a run's flags and its clients. The clients of all instances are numbered through, so that due times, keys and
//! choices of connections are those of one process with as many clients.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most instances.
pub const INSTANCES_MAX: u32 = 256;

/// Which of several processes this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Instance {
    /// From 1.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}

/// Text that names no instance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no instance: write K/N with K from 1 to N and N up to {INSTANCES_MAX}, as in `2/3`"
)]
pub struct InstanceError(String);

impl Instance {
    /// The only one.
    pub const ALONE: Self = Self { number: 1, of: 1 };

    /// The number of the first of its clients, when each instance has so many.
    pub const fn first_client(self, clients: u32) -> u32 {
        (self.number - 1) * clients
    }

    /// Whether others take part.
    pub const fn has_others(self) -> bool {
        self.of > 1
    }

    /// Whether such an instance can be.
    pub const fn is_possible(self) -> bool {
        1 <= self.number && self.number <= self.of && self.of <= INSTANCES_MAX
    }
}

impl FromStr for Instance {
    type Err = InstanceError;
    fn from_str(text: &str) -> Result<Self, InstanceError> {
        let parts = text.split_once('/');
        let parse = |part: &str| part.trim().parse().ok();
        parts
            .and_then(|(number, of)| Some(Self { number: parse(number)?, of: parse(of)? }))
            .filter(|instance| instance.is_possible())
            .ok_or_else(|| InstanceError(text.chars().take(40).collect()))
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_one_of_those_there_are() {
        assert_eq!("2/3".parse(), Ok(Instance { number: 2, of: 3 }));
        assert_eq!("1/1".parse(), Ok(Instance::ALONE));
        assert_eq!("256/256".parse::<Instance>().unwrap().first_client(256), 65_280);
        for text in ["", "1", "0/2", "3/2", "1/0", "1/257", "-1/2", "1/2/3", "a/b"] {
            assert!(text.parse::<Instance>().is_err(), "{text}");
        }
    }
}

//! Names of backends, and the dense ids that stand for them inside one process.
//!
//! Names travel between processes, ids do not: every table numbers its backends in the order in which it met them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest name of a backend, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// A backend's name: 1 to 64 bytes of `[a-z0-9._-]`. Cheap to clone; ordered as text, which breaks all ties.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BackendName(Arc<str>);

/// A backend's number in one [`BackendTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BackendId(pub u16);

/// Text that cannot name a backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` cannot name a backend: use 1 to {NAME_BYTES_MAX} of the characters a-z 0-9 . _ -"
)]
pub struct NameError {
    /// What was given, cut to a length that can be printed.
    pub name: String,
}

impl BackendName {
    /// Checks and keeps a name.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let allowed =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
        if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed) {
            Ok(Self(name.into()))
        } else {
            Err(NameError { name: name.chars().take(NAME_BYTES_MAX).collect() })
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for BackendName {
    type Err = NameError;
    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl TryFrom<String> for BackendName {
    type Error = NameError;
    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(&name)
    }
}

impl From<BackendName> for String {
    fn from(name: BackendName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl BackendId {
    /// The id as an index into per-backend vectors.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names to dense ids, in the order of first use, up to a bound.
#[derive(Clone, Debug, Default)]
pub struct BackendTable {
    names: Vec<BackendName>,
    ids: BTreeMap<BackendName, BackendId>,
}

impl BackendTable {
    /// The most backends that one table numbers (design: 1,024 a service).
    pub const CAPACITY: usize = 1_024;

    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The id of `name`, numbered now if it is new; `None` when the table is full.
    pub fn intern(&mut self, name: &BackendName) -> Option<BackendId> {
        if let Some(&id) = self.ids.get(name) {
            return Some(id);
        }
        if self.names.len() == Self::CAPACITY {
            return None;
        }
        let id = BackendId(u16::try_from(self.names.len()).expect("the capacity fits 16 bits"));
        self.names.push(name.clone());
        self.ids.insert(name.clone(), id);
        Some(id)
    }

    /// The id of a known name.
    pub fn id(&self, name: &BackendName) -> Option<BackendId> {
        self.ids.get(name).copied()
    }

    /// The name behind an id of this table.
    ///
    /// # Panics
    /// When `id` is not of this table.
    pub fn name(&self, id: BackendId) -> &BackendName {
        &self.names[id.index()]
    }

    /// All names in the order of their ids.
    pub fn names(&self) -> &[BackendName] {
        &self.names
    }

    /// How many backends are known.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no backend is known.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl<'a> FromIterator<&'a BackendName> for BackendTable {
    /// # Panics
    /// When there are more names than [`BackendTable::CAPACITY`].
    fn from_iter<I: IntoIterator<Item = &'a BackendName>>(names: I) -> Self {
        let mut table = Self::new();
        for name in names {
            table.intern(name).expect("no more backends than the table's capacity");
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_alphabet_are_refused() {
        for bad in ["", "Upper", "with space", "(own)", "ünicode", &"x".repeat(65)] {
            assert!(BackendName::new(bad).is_err(), "{bad}");
        }
        assert!(BackendName::new(&"x".repeat(64)).is_ok());
    }

    #[test]
    fn ids_are_dense_and_stable_and_the_table_is_bounded() {
        let mut table = BackendTable::new();
        for i in 0..BackendTable::CAPACITY {
            let name = BackendName::new(&format!("b{i}")).unwrap();
            assert_eq!(table.intern(&name).map(BackendId::index), Some(i));
        }
        assert_eq!(table.intern(&BackendName::new("one-more").unwrap()), None);
        assert_eq!(table.intern(&BackendName::new("b7").unwrap()), Some(BackendId(7)));
    }
}

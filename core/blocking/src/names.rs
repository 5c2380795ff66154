//! A bounded table of backend names in which no name is refused: those beyond the bound share one id.

use std::str::FromStr;

use robinhood_stats::{BackendId, BackendName, BackendTable};

/// The name under which all backends beyond the table's capacity are counted together.
pub const OTHER: &str = "other";
/// The most names that a table tells apart, [`OTHER`] included.
pub(crate) const NAMES_MAX: usize = BackendTable::CAPACITY + 1;

/// Names to ids without gaps: the table's, and after them one for the rest when it is needed.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    table: BackendTable,
    other: BackendName,
    other_used: bool,
    /// All ids in the order of their names.
    sorted: Vec<BackendId>,
    /// How often a name had no place.
    over: u64,
}

impl Names {
    pub(crate) fn new() -> Self {
        let other = BackendName::from_str(OTHER).expect("the name is in the alphabet");
        Self { table: BackendTable::new(), other, other_used: false, sorted: Vec::new(), over: 0 }
    }

    /// The id of `name`, or that of [`OTHER`] when the table is full.
    pub(crate) fn intern(&mut self, name: &BackendName) -> BackendId {
        match self.table.intern(name) {
            Some(id) => {
                self.sort_in(id);
                id
            }
            None => self.count_over(),
        }
    }

    /// The id of `name` if it has one already.
    pub(crate) fn known(&self, name: &BackendName) -> Option<BackendId> {
        self.table.id(name)
    }

    /// The id of [`OTHER`], for a name that gets no place.
    pub(crate) fn count_over(&mut self) -> BackendId {
        self.over += 1;
        if let Some(id) = self.table.intern(&self.other) {
            self.sort_in(id);
            return id;
        }
        // Only behind a full table: no name gets this id any more.
        self.other_used = true;
        let id = BackendId(u16::try_from(self.table.len()).expect("the capacity fits 16 bits"));
        self.sort_in(id);
        id
    }

    /// Puts an id into the order of names, if it is new.
    fn sort_in(&mut self, id: BackendId) {
        if id.index() == self.sorted.len() {
            let place = self.sorted.partition_point(|&known| self.name(known) < self.name(id));
            self.sorted.insert(place, id);
        }
    }

    /// How many ids were given out; they are `0..len`.
    pub(crate) fn len(&self) -> usize {
        self.table.len() + usize::from(self.other_used)
    }

    /// The name of an id that was given out.
    pub(crate) fn name(&self, id: BackendId) -> &BackendName {
        assert!(id.index() < self.len(), "backend id {} was not given out", id.0);
        self.table.names().get(id.index()).unwrap_or(&self.other)
    }

    /// How often a name had no place and was counted as [`OTHER`].
    pub(crate) const fn over(&self) -> u64 {
        self.over
    }

    /// All ids in the order of their names.
    pub(crate) fn sorted(&self) -> &[BackendId] {
        &self.sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> BackendName {
        text.parse().unwrap()
    }

    #[test]
    fn names_beyond_the_capacity_share_one_id_after_the_others() {
        let mut names = Names::new();
        for i in 0..BackendTable::CAPACITY {
            assert_eq!(names.intern(&name(&format!("b{i}"))).index(), i);
        }
        assert_eq!((names.len(), names.over()), (1_024, 0));
        let (x, y) = (names.intern(&name("x")), names.intern(&name("y")));
        assert_eq!((x, y, names.len(), names.over()), (BackendId(1_024), x, NAMES_MAX, 2));
        assert_eq!(names.name(x).as_str(), OTHER);
        assert_eq!(names.intern(&name("b7")), BackendId(7));
        assert!(names.sorted().is_sorted_by(|&a, &b| names.name(a) < names.name(b)));
        assert_eq!(names.sorted().len(), NAMES_MAX);
    }

    #[test]
    fn names_that_get_no_place_leave_the_ids_of_later_ones_alone() {
        let mut names = Names::new();
        let first = names.intern(&name("first"));
        let other = names.count_over();
        let zeta = names.intern(&name("zeta"));
        assert_eq!((first, other, zeta), (BackendId(0), BackendId(1), BackendId(2)));
        assert_eq!((names.count_over(), names.len(), names.over()), (other, 3, 2));
        let sorted: Vec<_> = names.sorted().iter().map(|&id| names.name(id).as_str()).collect();
        assert_eq!(sorted, ["first", OTHER, "zeta"]);
    }

    #[test]
    fn a_backend_that_is_called_other_takes_the_rest_in() {
        let mut names = Names::new();
        let other = names.intern(&name(OTHER));
        for i in 0..BackendTable::CAPACITY {
            names.intern(&name(&format!("b{i}")));
        }
        assert_eq!((names.intern(&name("x")), names.len()), (other, BackendTable::CAPACITY));
    }
}

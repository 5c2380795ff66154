//! Where in the text a key is, and which key is at a place of the text. Only mistakes need it: it reads the text once more.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::spec::{Place, WorkloadError};

/// A text that is TOML, with the places of all its keys.
pub(super) struct Document<'a>(Spanned<DeTable<'a>>);

impl<'a> Document<'a> {
    /// `None` when the text is not TOML.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        DeTable::parse(text).ok().map(Self)
    }

    /// The key that stands or has its value at a byte, as in `backends[2].service`; empty when there is none.
    pub(super) fn path_at(&self, offset: usize) -> String {
        let mut path = String::new();
        in_table(self.0.get_ref(), offset, &mut path);
        path
    }

    /// The byte at which a key at the top begins.
    pub(super) fn offset_of_key(&self, key: &str) -> Option<usize> {
        self.0.get_ref().get_key_value(key).map(|(key, _)| key.span().start)
    }

    /// The byte at which the key begins that an error names, or the table where it should be.
    pub(super) fn offset_of(&self, error: &WorkloadError) -> usize {
        let root = self.0.get_ref();
        let (list, index, field) = match error {
            WorkloadError::Count { field, .. } => return key_in(root, field).unwrap_or(0),
            WorkloadError::Range { field, place, .. } => match place {
                Place::Workload => return key_in(root, field).unwrap_or(0),
                Place::Backend { index, .. } => ("backends", *index, *field),
                Place::RequestType(index) => ("request_types", *index, *field),
            },
        };
        let item = root.get(list).and_then(|list| list.get_ref().as_array()?.get(index));
        let Some(item) = item else { return 0 };
        let table = item.get_ref().as_table();
        table.and_then(|table| field_in(table, field)).unwrap_or(item.span().start)
    }
}

/// `a.b` is the key `b` anywhere below the key `a`.
fn field_in(table: &DeTable<'_>, field: &str) -> Option<usize> {
    let (outer, inner) = field.split_once('.').unwrap_or((field, field));
    let (key, value) = table.get_key_value(outer)?;
    let below = value.get_ref().as_table().and_then(|table| key_in(table, inner));
    Some(below.unwrap_or(key.span().start))
}

/// Where a key begins, in a table or in those below it.
fn key_in(table: &DeTable<'_>, name: &str) -> Option<usize> {
    if let Some((key, _)) = table.get_key_value(name) {
        return Some(key.span().start);
    }
    table.values().filter_map(|value| value.get_ref().as_table()).find_map(|t| key_in(t, name))
}

/// Appends the path of what is at `offset` below a table, and says whether there is something. Tables are always searched: the span of one with a
/// header does not reach over its keys.
fn in_table(table: &DeTable<'_>, offset: usize, path: &mut String) -> bool {
    for (key, value) in table {
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key.get_ref());
        if in_value(value, offset, path) || key.span().contains(&offset) {
            return true;
        }
        path.truncate(length);
    }
    false
}

fn in_value(value: &Spanned<DeValue<'_>>, offset: usize, path: &mut String) -> bool {
    let is_below = match value.get_ref() {
        DeValue::Table(table) => in_table(table, offset, path),
        DeValue::Array(items) => in_list(items, offset, path),
        _ => false,
    };
    is_below || value.span().contains(&offset)
}

fn in_list(items: &[Spanned<DeValue<'_>>], offset: usize, path: &mut String) -> bool {
    for (index, item) in items.iter().enumerate() {
        let length = path.len();
        path.push_str(&format!("[{index}]"));
        if in_value(item, offset, path) {
            return true;
        }
        path.truncate(length);
    }
    false
}

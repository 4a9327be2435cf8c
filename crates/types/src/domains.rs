//! Domains: types that users define over other types, with conditions on values.
//!
//! Values of a domain are values of the type that it is over, in rows, keys and operators. So a
//! domain is no type of its own here: it stands beside the type that values have, in a
//! [`crate::ColumnType`]. What a domain demands of values is the catalogue's and the binder's
//! business; here are its numbers and names, which are all that is said of it to clients.
//!
//! As with enums (see [`crate::enums`]), a handle is a word that is copied everywhere, and what it
//! stands for is kept for as long as the process runs, once for each content.
//!
//! Invariant: two handles are equal if their numbers in the catalogue are, whatever names they know.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{PoisonError, RwLock};

use crate::enums::{array_name, quoted};

/// What a domain is called, as the catalogue has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DomainContent {
    /// Its number in the catalogue.
    pub oid: u32,
    /// The number of the type of arrays of it; 0 if there is none.
    pub array_oid: u32,
    /// Its name.
    pub name: Box<str>,
}

struct Known {
    content: DomainContent,
    sql_name: Box<str>,
    array_sql_name: Box<str>,
    array_name: Box<str>,
}

/// What tells a handle from others.
pub(crate) type Identity = (usize, bool);

/// A domain, or arrays of one: a handle that is copied like a type.
#[derive(Clone, Copy)]
pub struct DomainType {
    known: &'static Known,
    is_array: bool,
}

static ALL: RwLock<Option<HashMap<&'static DomainContent, &'static Known>>> = RwLock::new(None);

impl DomainType {
    /// The handle of a domain with this content.
    #[must_use]
    pub fn of(content: DomainContent) -> Self {
        let mut guard = ALL.write().unwrap_or_else(PoisonError::into_inner);
        let all = guard.get_or_insert_default();
        let known = match all.get(&content) {
            Some(known) => known,
            None => {
                let sql_name = quoted(&content.name);
                let known: &'static Known = Box::leak(Box::new(Known {
                    array_sql_name: format!("{sql_name}[]").into(),
                    array_name: array_name(&content.name).into(),
                    sql_name: sql_name.into(),
                    content,
                }));
                all.insert(&known.content, known);
                known
            }
        };
        Self { known, is_array: false }
    }

    /// One of which nothing but a number is known: that of the domain, or of arrays of it. What the
    /// number means is found in a catalogue.
    #[must_use]
    pub fn unresolved(oid: u32) -> Self {
        Self::of(DomainContent { oid, array_oid: 0, name: "".into() })
    }

    /// Arrays of the domain.
    #[must_use]
    pub fn arrays(self) -> Self {
        Self { is_array: true, ..self }
    }

    /// The domain, of a handle of arrays too.
    #[must_use]
    pub fn element(self) -> Self {
        Self { is_array: false, ..self }
    }

    /// Whether arrays of the domain are meant.
    #[must_use]
    pub fn is_array(self) -> bool {
        self.is_array
    }

    /// Its number in the catalogue.
    #[must_use]
    pub fn oid(self) -> u32 {
        let content = &self.known.content;
        if self.is_array { content.array_oid } else { content.oid }
    }

    /// The number of the type of arrays of it.
    #[must_use]
    pub fn array_oid(self) -> u32 {
        self.known.content.array_oid
    }

    /// Its name in the catalogue.
    #[must_use]
    pub fn name(self) -> &'static str {
        if self.is_array { &self.known.array_name } else { &self.known.content.name }
    }

    /// Its name in SQL.
    #[must_use]
    pub fn sql_name(self) -> &'static str {
        if self.is_array { &self.known.array_sql_name } else { &self.known.sql_name }
    }

    /// What tells it from all other handles, also of domains with the same number.
    #[must_use]
    pub(crate) fn identity(self) -> Identity {
        (std::ptr::from_ref(self.known).addr(), self.is_array)
    }

    /// Whether two handles know the same names, too.
    #[must_use]
    pub fn is_identical(self, other: Self) -> bool {
        std::ptr::eq(self.known, other.known) && self.is_array == other.is_array
    }
}

impl PartialEq for DomainType {
    fn eq(&self, other: &Self) -> bool {
        self.oid() == other.oid()
    }
}

impl Eq for DomainType {}

impl Hash for DomainType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.oid().hash(state);
    }
}

impl fmt::Debug for DomainType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sql_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_kept_once_and_arrays_have_numbers_and_names_of_their_own() {
        let content = |name: &str| DomainContent { oid: 91_000, array_oid: 91_001, name: name.into() };
        let (one, same, renamed) =
            (DomainType::of(content("Pos")), DomainType::of(content("Pos")), DomainType::of(content("neg")));
        assert!(one.is_identical(same) && one == renamed && !one.is_identical(renamed));
        assert_eq!((one.oid(), one.sql_name(), one.name()), (91_000, "\"Pos\"", "Pos"));
        let arrays = one.arrays();
        assert_eq!((arrays.oid(), arrays.sql_name(), arrays.name()), (91_001, "\"Pos\"[]", "_Pos"));
        assert!(arrays != one && arrays.element() == one && arrays.is_array());
    }
}

//! Range types that users define: `CREATE TYPE … AS RANGE`. Each brings the type of its
//! multiranges.
//!
//! As with enums (see [`crate::enums`]), a type is a word that is copied everywhere, and what it
//! stands for is kept for as long as the process runs, once for each content. Values are those of
//! [`crate::ranges`].
//!
//! Invariants: a range and its multirange know each other; two handles are equal if their numbers
//! in the catalogue are, whatever names each knows.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{PoisonError, RwLock};

use crate::enums::{array_name, quoted};
use crate::types::Type;

/// Where handles begin among the numbers of [`crate::Type::code`]: above those of composite types.
const CODES: u32 = 7 << 29;

/// What a range type is, as the catalogue has it. Each half of a pair is that of the range, and
/// that of the multirange.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeContent {
    /// The numbers of the types in the catalogue.
    pub oids: [u32; 2],
    /// The numbers of the types of arrays of them.
    pub array_oids: [u32; 2],
    /// The names of the types.
    pub names: [Box<str>; 2],
    /// The type of the bounds.
    pub subtype: Type,
}

/// What tells contents apart: the subtype is told apart by what it knows, too.
#[derive(PartialEq, Eq, Hash)]
struct Identity {
    oids: [u32; 2],
    array_oids: [u32; 2],
    names: [Box<str>; 2],
    subtype: u32,
}

struct Half {
    sql_name: Box<str>,
    array_sql_name: Box<str>,
    array_name: Box<str>,
}

struct Known {
    number: u32,
    content: RangeContent,
    halves: [Half; 2],
}

/// A range or multirange that a user has defined: a handle that is copied like any other type.
#[derive(Clone, Copy)]
pub struct RangeType {
    known: &'static Known,
    is_multirange: bool,
}

#[derive(Default)]
struct All {
    by_number: Vec<&'static Known>,
    by_identity: HashMap<Identity, &'static Known>,
}

static ALL: RwLock<Option<All>> = RwLock::new(None);

impl RangeType {
    /// The handle of a range type with this content.
    #[must_use]
    pub fn of(content: RangeContent) -> Self {
        let identity = Identity {
            oids: content.oids,
            array_oids: content.array_oids,
            names: content.names.clone(),
            subtype: content.subtype.code(),
        };
        let known = |all: &Option<All>| all.as_ref().and_then(|all| all.by_identity.get(&identity).copied());
        if let Some(known) = known(&ALL.read().unwrap_or_else(PoisonError::into_inner)) {
            return Self { known, is_multirange: false };
        }
        let mut guard = ALL.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known(&guard) {
            return Self { known, is_multirange: false };
        }
        let all = guard.get_or_insert_default();
        let half = |name: &str| {
            let sql_name = quoted(name);
            Half {
                array_sql_name: format!("{sql_name}[]").into(),
                array_name: array_name(name).into(),
                sql_name: sql_name.into(),
            }
        };
        let halves = [half(&content.names[0]), half(&content.names[1])];
        let number = all.by_number.len() as u32;
        let known: &'static Known = Box::leak(Box::new(Known { number, halves, content }));
        all.by_number.push(known);
        all.by_identity.insert(identity, known);
        Self { known, is_multirange: false }
    }

    /// The range of the pair.
    #[must_use]
    pub const fn range(self) -> Self {
        Self { known: self.known, is_multirange: false }
    }

    /// The multirange of the pair.
    #[must_use]
    pub const fn multirange(self) -> Self {
        Self { known: self.known, is_multirange: true }
    }

    /// Whether it is the multirange of the pair.
    #[must_use]
    pub const fn is_multirange(self) -> bool {
        self.is_multirange
    }

    /// The type of the bounds.
    #[must_use]
    pub const fn subtype(self) -> Type {
        self.known.content.subtype
    }

    /// Its number in the catalogue.
    #[must_use]
    pub const fn oid(self) -> u32 {
        self.known.content.oids[self.is_multirange as usize]
    }

    /// The number of the type of arrays of it.
    #[must_use]
    pub const fn array_oid(self) -> u32 {
        self.known.content.array_oids[self.is_multirange as usize]
    }

    /// Its name in the catalogue.
    #[must_use]
    pub const fn name(self) -> &'static str {
        &self.known.content.names[self.is_multirange as usize]
    }

    /// Its name in SQL.
    #[must_use]
    pub const fn sql_name(self) -> &'static str {
        &self.known.halves[self.is_multirange as usize].sql_name
    }

    /// The name of its arrays in SQL.
    #[must_use]
    pub const fn array_sql_name(self) -> &'static str {
        &self.known.halves[self.is_multirange as usize].array_sql_name
    }

    /// The name of the type of its arrays in the catalogue.
    #[must_use]
    pub const fn array_name(self) -> &'static str {
        &self.known.halves[self.is_multirange as usize].array_name
    }

    /// A number by which this process finds the handle again.
    pub(crate) fn code(self, is_array: bool) -> u32 {
        CODES | self.known.number << 2 | u32::from(self.is_multirange) << 1 | u32::from(is_array)
    }

    /// The handle with such a number, and whether its arrays are meant.
    pub(crate) fn from_code(code: u32) -> Option<(Self, bool)> {
        let number = code.checked_sub(CODES)?;
        let all = ALL.read().unwrap_or_else(PoisonError::into_inner);
        let known = *all.as_ref()?.by_number.get((number >> 2) as usize)?;
        Some((Self { known, is_multirange: number >> 1 & 1 == 1 }, number & 1 == 1))
    }
}

impl PartialEq for RangeType {
    fn eq(&self, other: &Self) -> bool {
        self.oid() == other.oid()
    }
}

impl Eq for RangeType {}

impl Hash for RangeType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.oid().hash(state);
    }
}

impl PartialOrd for RangeType {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RangeType {
    fn cmp(&self, other: &Self) -> Ordering {
        self.oid().cmp(&other.oid())
    }
}

impl fmt::Debug for RangeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.sql_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_kept_once_and_found_by_its_codes() {
        let content = |name: &str| RangeContent {
            oids: [95_000, 95_002],
            array_oids: [95_001, 95_003],
            names: [name.into(), "multi".into()],
            subtype: Type::Float8,
        };
        let range = RangeType::of(content("Span"));
        assert!(std::ptr::eq(range.known, RangeType::of(content("Span")).known));
        assert_eq!(RangeType::of(content("other")), range);
        assert_eq!((range.sql_name(), range.multirange().name()), ("\"Span\"", "multi"));
        for handle in [range, range.multirange()] {
            for ty in [Type::Range(handle), Type::Range(handle).array_of()] {
                assert_eq!(Type::from_code(ty.code()), Some(ty));
            }
        }
        assert_eq!(Type::Range(range).multirange(), Some(Type::Range(range.multirange())));
        assert_eq!(Type::Range(range.multirange()).bounds(), Some(Type::Float8));
    }
}

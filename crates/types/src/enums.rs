//! Enums that users define: their names, their labels, and the numbers that stand for labels.
//!
//! A value of an enum is a 64-bit number, its label's *place*: places sort as the labels do. So
//! rows, keys and operators have enums as they have bigints, and only texts ask for labels. A label
//! that is added between two others gets a place between theirs: nothing that is stored changes.
//!
//! A type is a word that is copied everywhere. So what an enum is lies in memory that stays for as
//! long as the process runs, once for each content: reading a catalogue again takes nothing, and
//! each change of an enum takes as much as its labels.
//!
//! Invariants: labels are in the order of their places, and neither labels nor places come twice;
//! two handles are equal if their numbers in the catalogue are, whatever labels each knows.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{PoisonError, RwLock};

use crate::error::{Error, Result, SqlState};

/// What lies between the places of labels that were declared one after the other: so many times can
/// the space between two be halved.
const PLACE_STEP: i64 = 1 << 44;

/// Bytes of a name, as `types` has it.
const NAME_BYTES_MAX: usize = 63;

/// Where handles begin among the numbers of [`crate::Type::code`]: above all numbers of types.
const CODES: u32 = 1 << 31;

/// A label of an enum.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EnumLabel {
    /// Its number in the catalogue.
    pub oid: u32,
    /// Its text.
    pub text: Box<str>,
    /// Where it sorts.
    pub place: i64,
}

/// What an enum is, as the catalogue has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EnumContent {
    /// The type's number in the catalogue.
    pub oid: u32,
    /// The number of the type of arrays of it.
    pub array_oid: u32,
    /// Its name.
    pub name: Box<str>,
    /// Its labels, in the order of their places.
    pub labels: Vec<EnumLabel>,
}

struct Known {
    number: u32,
    content: EnumContent,
    sql_name: Box<str>,
    array_sql_name: Box<str>,
    array_name: Box<str>,
    by_text: HashMap<Box<str>, i64>,
}

/// An enum: a handle that is copied like any other type.
#[derive(Clone, Copy)]
pub struct EnumType(&'static Known);

#[derive(Default)]
struct All {
    by_number: Vec<EnumType>,
    by_content: HashMap<&'static EnumContent, EnumType>,
}

static ALL: RwLock<Option<All>> = RwLock::new(None);

impl EnumType {
    /// The handle of an enum with this content.
    #[must_use]
    pub fn of(content: EnumContent) -> Self {
        let known = |all: &Option<All>| all.as_ref().and_then(|all| all.by_content.get(&content).copied());
        if let Some(known) = known(&ALL.read().unwrap_or_else(PoisonError::into_inner)) {
            return known;
        }
        let mut guard = ALL.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known(&guard) {
            return known;
        }
        let all = guard.get_or_insert_default();
        let sql_name = quoted(&content.name);
        let known: &'static Known = Box::leak(Box::new(Known {
            number: all.by_number.len() as u32,
            array_sql_name: format!("{sql_name}[]").into(),
            array_name: array_name(&content.name).into(),
            by_text: content.labels.iter().map(|label| (label.text.clone(), label.place)).collect(),
            sql_name: sql_name.into(),
            content,
        }));
        all.by_number.push(Self(known));
        all.by_content.insert(&known.content, Self(known));
        Self(known)
    }

    /// One of which nothing but a number is known: that of the type, or of arrays of it. What the
    /// number means is found in a catalogue.
    #[must_use]
    pub fn unresolved(oid: u32) -> Self {
        Self::of(EnumContent { oid, array_oid: 0, name: "".into(), labels: Vec::new() })
    }

    /// Its number in the catalogue.
    #[must_use]
    pub const fn oid(self) -> u32 {
        self.0.content.oid
    }

    /// The number of the type of arrays of it.
    #[must_use]
    pub const fn array_oid(self) -> u32 {
        self.0.content.array_oid
    }

    /// Its name in the catalogue.
    #[must_use]
    pub const fn name(self) -> &'static str {
        &self.0.content.name
    }

    /// Its name in SQL.
    #[must_use]
    pub const fn sql_name(self) -> &'static str {
        &self.0.sql_name
    }

    /// The name of its arrays in SQL.
    #[must_use]
    pub const fn array_sql_name(self) -> &'static str {
        &self.0.array_sql_name
    }

    /// The name of the type of its arrays in the catalogue.
    #[must_use]
    pub const fn array_name(self) -> &'static str {
        &self.0.array_name
    }

    /// Its labels, in their order.
    #[must_use]
    pub fn labels(self) -> &'static [EnumLabel] {
        &self.0.content.labels
    }

    /// The place of a label.
    ///
    /// # Errors
    /// 22P02 if there is no such label.
    pub fn place_of(self, text: &str) -> Result<i64> {
        self.0.by_text.get(text).copied().ok_or_else(|| {
            let message = format!("invalid input value for enum {}: \"{text}\"", self.sql_name());
            Error::new(SqlState::BAD_TEXT, message)
        })
    }

    /// The label that has a place.
    #[must_use]
    pub fn label_at(self, place: i64) -> Option<&'static str> {
        let labels = self.labels();
        let found = labels.binary_search_by_key(&place, |label| label.place).ok()?;
        Some(&labels[found].text)
    }

    /// A number by which this process finds the handle again.
    #[must_use]
    pub(crate) fn code(self, is_array: bool) -> u32 {
        CODES | self.0.number << 1 | u32::from(is_array)
    }

    /// The handle with such a number, and whether its arrays are meant.
    #[must_use]
    pub(crate) fn from_code(code: u32) -> Option<(Self, bool)> {
        let number = code.checked_sub(CODES)?;
        let known = ALL.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.as_ref()?.by_number.get((number >> 1) as usize)?;
        Some((*found, number & 1 == 1))
    }
}

impl PartialEq for EnumType {
    fn eq(&self, other: &Self) -> bool {
        self.oid() == other.oid()
    }
}

impl Eq for EnumType {}

impl Hash for EnumType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.oid().hash(state);
    }
}

impl PartialOrd for EnumType {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EnumType {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.oid().cmp(&other.oid())
    }
}

impl fmt::Debug for EnumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.sql_name())
    }
}

/// The place of a label that is added between two others; without one of them, at an end. `None` if
/// there is no place left between the two.
#[must_use]
pub fn place_between(before: Option<i64>, behind: Option<i64>) -> Option<i64> {
    match (before, behind) {
        (None, None) => Some(0),
        (Some(last), None) => last.checked_add(PLACE_STEP),
        (None, Some(first)) => first.checked_sub(PLACE_STEP),
        (Some(before), Some(behind)) => {
            let between = before.midpoint(behind);
            (between != before && between != behind).then_some(between)
        }
    }
}

/// The place of a label as the catalogue shows it: `pg_enum.enumsortorder`, which counts declared
/// labels from 1 and puts others between them, as PostgreSQL does.
#[must_use]
pub fn sort_order(place: i64) -> f64 {
    f64::from((place as f64 / PLACE_STEP as f64) as f32 + 1.0)
}

/// The name that the type of arrays of a type has.
#[must_use]
pub fn array_name(name: &str) -> String {
    let mut name = format!("_{name}");
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    name
}

/// A name as SQL writes it.
pub(crate) fn quoted(name: &str) -> String {
    let mut chars = name.chars();
    let begins = chars.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_');
    let plain = begins && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain && !crate::keywords::is_reserved(name) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(oid: u32, labels: &[(&str, i64)]) -> EnumContent {
        let label = |&(text, place): &(&str, i64)| EnumLabel { oid: 1, text: text.into(), place };
        EnumContent { oid, array_oid: oid + 1, name: "Mood".into(), labels: labels.iter().map(label).collect() }
    }

    #[test]
    fn a_content_is_kept_once_and_found_by_its_code() {
        let one = EnumType::of(content(90_000, &[("sad", 0), ("ok", 8)]));
        let same = EnumType::of(content(90_000, &[("sad", 0), ("ok", 8)]));
        let grown = EnumType::of(content(90_000, &[("sad", 0), ("so so", 4), ("ok", 8)]));
        assert!(std::ptr::eq(one.0, same.0) && !std::ptr::eq(one.0, grown.0));
        assert_eq!(one, grown);
        let (found, is_array) = EnumType::from_code(grown.code(true)).unwrap();
        assert!(std::ptr::eq(found.0, grown.0) && is_array);
        assert_eq!((grown.label_at(4), one.label_at(4)), (Some("so so"), None));
        assert_eq!(grown.sql_name(), "\"Mood\"");
        assert_eq!(one.place_of("ok").unwrap(), 8);
        assert_eq!(
            one.place_of("so so").unwrap_err().report().message,
            "invalid input value for enum \"Mood\": \"so so\""
        );
    }

    #[test]
    fn places_leave_space_between_them() {
        let (first, last) = (0, place_between(Some(0), None).unwrap());
        let (mut before, mut count) = (first, 0);
        while let Some(between) = place_between(Some(before), Some(last)) {
            assert!(before < between && between < last);
            (before, count) = (between, count + 1);
        }
        assert_eq!(count, 44);
        assert!(place_between(None, Some(first)).unwrap() < first);
        assert_eq!(place_between(Some(-1), Some(0)), None);
        let middle = place_between(Some(first), Some(last)).unwrap();
        assert_eq!([first, middle, last].map(sort_order), [1.0, 1.5, 2.0]);
        assert_eq!(place_between(Some(i64::MAX), None), None);
    }
}

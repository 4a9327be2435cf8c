//! Composite types: rows of fields with names and types, which are values of columns.
//!
//! As with enums (see [`crate::enums`]), a type is a word that is copied everywhere. What it stands
//! for is kept for as long as the process runs, once for each content. Values are rows
//! ([`crate::Datum::Row`]) of the type's [`RowType`].
//!
//! A field has a number that it keeps, whatever fields come and go: how rows are held by these numbers
//! is in `composite_values`.
//!
//! Invariants: names and numbers of fields do not come twice; two handles are equal if their numbers
//! in the catalogue are, whatever fields each knows.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use compact_str::CompactString;

use crate::enums::{array_name, quoted};
use crate::types::{ColumnType, Type};

/// Where handles begin among the numbers of [`crate::Type::code`]: above those of enums.
const CODES: u32 = 3 << 30;

/// What a row is of.
#[derive(Debug, PartialEq)]
pub struct RowType {
    /// Its number in the catalogue: that of a relation's rows, or of `record`.
    pub oid: u32,
    /// Its name: the relation's, or `record`.
    pub name: CompactString,
    /// Names and types of the values.
    pub fields: Vec<(CompactString, ColumnType)>,
}

/// A field of a composite type.
#[derive(Debug, Clone, PartialEq)]
pub struct CompositeField {
    /// Its number, which it keeps.
    pub number: u16,
    /// Its name.
    pub name: CompactString,
    /// Its type.
    pub ty: ColumnType,
}

/// What a composite type is, as the catalogue has it.
#[derive(Debug, Clone, PartialEq)]
pub struct CompositeContent {
    /// The type's number in the catalogue.
    pub oid: u32,
    /// The number of the type of arrays of it.
    pub array_oid: u32,
    /// Its name.
    pub name: Box<str>,
    /// Its fields, in their order.
    pub fields: Vec<CompositeField>,
}

/// What tells contents apart. Types are told apart by what they know, too.
#[derive(PartialEq, Eq, Hash)]
struct Identity {
    numbers: (u32, u32),
    name: Box<str>,
    fields: Vec<(u16, CompactString, u32, i32, Option<crate::domains::Identity>)>,
}

struct Known {
    number: u32,
    content: CompositeContent,
    sql_name: Box<str>,
    array_sql_name: Box<str>,
    array_name: Box<str>,
    row_type: Arc<RowType>,
    /// Whether values of all fields, and of those within them, have an order in keys. It is kept, as
    /// types within types may be many.
    is_ordered: bool,
}

/// A composite type: a handle that is copied like any other type.
#[derive(Clone, Copy)]
pub struct CompositeType(&'static Known);

#[derive(Default)]
struct All {
    by_number: Vec<CompositeType>,
    by_identity: HashMap<Identity, CompositeType>,
}

static ALL: RwLock<Option<All>> = RwLock::new(None);

impl CompositeType {
    /// The handle of a type with this content.
    #[must_use]
    pub fn of(content: CompositeContent) -> Self {
        let field = |field: &CompositeField| {
            let domain = field.ty.domain.map(crate::domains::DomainType::identity);
            (field.number, field.name.clone(), field.ty.ty.code(), field.ty.modifier.0, domain)
        };
        let identity = Identity {
            numbers: (content.oid, content.array_oid),
            name: content.name.clone(),
            fields: content.fields.iter().map(field).collect(),
        };
        let known = |all: &Option<All>| all.as_ref().and_then(|all| all.by_identity.get(&identity).copied());
        if let Some(known) = known(&ALL.read().unwrap_or_else(PoisonError::into_inner)) {
            return known;
        }
        let mut guard = ALL.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known(&guard) {
            return known;
        }
        let all = guard.get_or_insert_default();
        let sql_name = quoted(&content.name);
        let fields = content.fields.iter().map(|field| (field.name.clone(), field.ty)).collect();
        let known: &'static Known = Box::leak(Box::new(Known {
            number: all.by_number.len() as u32,
            array_sql_name: format!("{sql_name}[]").into(),
            array_name: array_name(&content.name).into(),
            is_ordered: content.fields.iter().all(|field| match field.ty.ty {
                Type::Composite(inner) => inner.is_ordered(),
                ty => !ty.is_array() && ty.is_ordered(),
            }),
            row_type: Arc::new(RowType { oid: content.oid, name: content.name.as_ref().into(), fields }),
            sql_name: sql_name.into(),
            content,
        }));
        all.by_number.push(Self(known));
        all.by_identity.insert(identity, Self(known));
        Self(known)
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

    /// Its fields, in their order.
    #[must_use]
    pub fn fields(self) -> &'static [CompositeField] {
        &self.0.content.fields
    }

    /// Whether keys may have values of it.
    #[must_use]
    pub fn is_ordered(self) -> bool {
        self.0.is_ordered
    }

    /// What its values are rows of.
    #[must_use]
    pub fn row_type(self) -> &'static Arc<RowType> {
        &self.0.row_type
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

impl RowType {
    /// What `ROW (…)` makes: values without names.
    #[must_use]
    pub fn of_values(types: impl Iterator<Item = ColumnType>) -> Self {
        let fields = types.enumerate().map(|(at, ty)| (compact_str::format_compact!("f{}", at + 1), ty));
        Self { oid: Type::Record.oid(), name: "record".into(), fields: fields.collect() }
    }

    /// What `_pg_expandarray` gives: a value of an array, and its place.
    #[must_use]
    pub fn expanded(element: Type) -> Self {
        let fields = vec![("x".into(), element.into()), ("n".into(), Type::Int4.into())];
        Self { oid: Type::Record.oid(), name: "record".into(), fields }
    }

    /// The place of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(known, _)| known == name)
    }
}

impl PartialEq for CompositeType {
    fn eq(&self, other: &Self) -> bool {
        self.oid() == other.oid()
    }
}

impl Eq for CompositeType {}

impl Hash for CompositeType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.oid().hash(state);
    }
}

impl PartialOrd for CompositeType {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CompositeType {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.oid().cmp(&other.oid())
    }
}

impl fmt::Debug for CompositeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sql_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u16, name: &str, ty: Type) -> CompositeField {
        CompositeField { number, name: name.into(), ty: ty.into() }
    }

    fn of(oid: u32, fields: Vec<CompositeField>) -> CompositeType {
        CompositeType::of(CompositeContent { oid, array_oid: oid + 1, name: "Pair".into(), fields })
    }

    #[test]
    fn a_content_is_kept_once_and_found_by_its_code() {
        let fields = || vec![field(1, "a", Type::Int4), field(2, "b", Type::Text)];
        let (one, same) = (of(95_000, fields()), of(95_000, fields()));
        let other = of(95_000, vec![field(1, "a", Type::Int4)]);
        assert!(std::ptr::eq(one.0, same.0) && !std::ptr::eq(one.0, other.0) && one == other);
        let (found, is_array) = CompositeType::from_code(other.code(true)).unwrap();
        assert!(std::ptr::eq(found.0, other.0) && is_array);
        assert!(crate::EnumType::from_code(other.code(true)).is_none());
    }
}

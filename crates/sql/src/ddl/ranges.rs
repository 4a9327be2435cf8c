//! CREATE TYPE … AS RANGE: a range type, and the multirange type that comes with it.
//!
//! Bounds are compared byte by byte as keys have them, so a range has no collation but that of
//! bytes, and no operator class but its subtype's own. A canonical form would be a function that
//! the values themselves call: it is refused, as in PostgreSQL it can be written in C only.

use colibri_catalog::{Catalog, Change, NAME_BYTES_MAX, Range, UserType, UserTypeKind};
use colibri_syntax::tree::RangeOption;
use colibri_types::{Category, Error, Modifier, Result, SqlState, Type};
use compact_str::CompactString;

use super::Session;
use super::user_types::object_name;
use crate::bind::collation;

/// The name of the multirange type of a range type that names none.
fn multirange_name(range: &str) -> CompactString {
    let mut name = match range.find("range") {
        Some(at) => format!("{}multi{}", &range[..at], &range[at..]),
        None => format!("{range}_multirange"),
    };
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    name.into()
}

impl Session {
    pub(crate) fn create_range(&mut self, name: &[CompactString], options: &[RangeOption]) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let (schema, name) = self.new_name_of(&object_name(name), false)?;
        self.expect_free_type(&schema, &name)?;
        let (mut subtype, mut multirange) = (None, None);
        let (mut collation, mut class, mut difference) = (None, None, None);
        for (at, option) in options.iter().enumerate() {
            let is_same = |other: &RangeOption| std::mem::discriminant(other) == std::mem::discriminant(option);
            if options[..at].iter().any(is_same) {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
            }
            match option {
                RangeOption::Subtype(data_type) => subtype = Some(self.usable_type_named(data_type)?),
                RangeOption::Multirange(name) => multirange = Some(name),
                RangeOption::Collation(name) => collation = Some(object_name(name)),
                RangeOption::Class(name) => class = name.last().cloned(),
                RangeOption::Difference(name) => difference = Some(name),
                RangeOption::Canonical => {
                    return Err(Error::unsupported("a range type with a function for its canonical form"));
                }
            }
        }
        let Some(subtype) = subtype else {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "type attribute \"subtype\" is required"));
        };
        if subtype.ty.category() == Category::Pseudo {
            let message = format!("range subtype cannot be {subtype}");
            return Err(Error::new(SqlState::TYPE_MISMATCH, message));
        }
        // Rows cannot be read from a key, which is what a range keeps its bounds as.
        if subtype.ty.is_array() || subtype.ty.is_row() || subtype.domain.is_some() {
            return Err(Error::unsupported(format_args!("a range type over {subtype}")));
        }
        if !colibri_types::key::is_indexable(subtype.ty) {
            let message = format!("data type {subtype} has no default operator class for access method \"btree\"");
            return Err(Error::new(SqlState::NO_SUCH_OBJECT, message).hint(
                "You must specify an operator class for the range type or define a default operator class for the subtype.",
            ));
        }
        if collation.is_some() && !collation::is_collatable(subtype.ty) {
            let message = "range collation specified but subtype does not support collation";
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let collation = match &collation {
            Some(name) => self.column_collation(name, subtype.ty)?,
            None => None,
        };
        let order = collation.as_deref().unwrap_or(collation::DEFAULT);
        if collation::is_collatable(subtype.ty) && collation::order_of(self.catalog(), order).is_some() {
            return Err(Error::unsupported(format_args!("a range type with the collation \"{order}\"")));
        }
        let difference = match difference {
            Some(name) => Some(self.range_difference(name, subtype.ty)?),
            None => None,
        };
        let (multirange_schema, multirange_name) = match multirange {
            Some(named) => self.new_name_of(&object_name(named), false)?,
            None => (schema.clone(), multirange_name(&name)),
        };
        if multirange_schema != schema {
            return Err(Error::unsupported("a multirange type in another schema than its range type"));
        }
        if multirange_name == name || self.expect_free_type(&schema, &multirange_name).is_err() {
            let error = Error::new(SqlState::DUPLICATE_OBJECT, format!("type \"{multirange_name}\" already exists"));
            return Err(match multirange {
                Some(_) => error,
                None => error.detail(format!("Failed while creating a multirange type for type \"{name}\".")).hint(
                    "You can manually specify a multirange type name using the \"multirange_type_name\" attribute.",
                ),
            });
        }
        let first = self.new_ids_in(&schema, 4)?;
        let pair = Range {
            ids: [first, first + 2],
            arrays: [first + 1, first + 3],
            names: [name.clone(), multirange_name.clone()],
            subtype: colibri_types::ColumnType { modifier: Modifier::NONE, ..subtype },
            collation,
            class,
            difference,
        };
        let owner = self.role();
        let acl = self.catalog().privileges_of_new('T', owner, Some(&schema));
        let of = |half: usize, name: CompactString, kind: UserTypeKind| UserType {
            acl: acl.clone(),
            id: pair.ids[half],
            array: pair.arrays[half],
            schema: schema.clone(),
            name,
            owner,
            kind,
            handle: None,
        };
        let range = of(0, name, UserTypeKind::Range(pair.clone()));
        let multirange = of(1, multirange_name, UserTypeKind::Multirange(pair.clone()));
        self.change(vec![Change::PutType(range), Change::PutType(multirange)])
    }

    /// The function that subtracts two bounds: of the system, or of a user. It is only kept and
    /// shown.
    fn range_difference(&mut self, name: &[CompactString], subtype: Type) -> Result<String> {
        let shown: Vec<String> = name.iter().map(|part| crate::system::names::quoted(part).to_string()).collect();
        let shown = shown.join(".");
        let call = crate::statement::parse_expr(&format!("{shown}(NULL::{subtype}, NULL::{subtype})"))?;
        let result = self.with_binder("", |binder| {
            let bound = binder.body_expression(&call);
            binder.needs.clear();
            bound
        });
        match result {
            Ok(bound) if bound.ty.ty == Type::Float8 => Ok(shown),
            Ok(_) => {
                let message = format!(
                    "range subtype diff function {shown}({subtype}, {subtype}) must return type double precision"
                );
                Err(Error::new(SqlState("42P17"), message))
            }
            Err(_) => {
                let message = format!("function {shown}({subtype}, {subtype}) does not exist");
                Err(Error::new(SqlState::NO_SUCH_FUNCTION, message))
            }
        }
    }
}

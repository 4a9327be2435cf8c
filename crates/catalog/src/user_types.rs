//! The types that users define: enums, domains, composite types, ranges and multiranges.
//!
//! A label of an enum has a number, by which the catalogue's tables know it, and a place, which is
//! what rows and keys hold: see [`colibri_types::enums`]. Columns have the number of their type.
//!
//! A domain has the type that it is over, and what it demands of values. Columns of it have both
//! types: what rows hold is a value of the type that it is over.
//!
//! A field of a composite type has a number, by which rows hold it: see [`colibri_types::composites`].
//!
//! A range type comes with the type of its multiranges. Each is a type of its own, and both hold
//! what the pair is.
//!
//! Invariants: labels are in the order of their places; ON DISK: a label's place and a
//! field's number never change.

use colibri_types::composites::{CompositeContent, CompositeField, CompositeType};
use colibri_types::domains::DomainContent;
use colibri_types::enums::{EnumContent, EnumLabel, EnumType};
use colibri_types::range_types::RangeContent;
use colibri_types::{ColumnType, DomainType, RangeType, Type};
use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::cluster::{Acl, BOOTSTRAP_ROLE, RoleId};
use crate::objects::{Check, ObjectId, column_type};

/// A type that a user has defined.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UserType {
    /// Its number.
    pub id: ObjectId,
    /// The number of the type of arrays of it.
    pub array: ObjectId,
    /// Its schema's name.
    pub schema: CompactString,
    /// Its name.
    pub name: CompactString,
    /// Who owns it.
    #[serde(default = "bootstrap")]
    pub owner: RoleId,
    /// Who may use it; `None` is everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acl: Option<Acl>,
    /// What it is.
    pub kind: UserTypeKind,
    /// Made from the rest when it is read.
    #[serde(skip)]
    pub handle: Option<TypeHandle>,
}

/// What a type is that a user has defined.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum UserTypeKind {
    /// An enum, with its labels in their order.
    Enum(Vec<Label>),
    /// A domain.
    Domain(Domain),
    /// A composite type.
    Composite(Composite),
    /// A range type.
    Range(Range),
    /// The multirange type of a range type.
    Multirange(Range),
}

/// A range type and its multirange: what both know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Range {
    /// The numbers of the range type and of the multirange type.
    pub ids: [ObjectId; 2],
    /// The numbers of the types of arrays of them.
    pub arrays: [ObjectId; 2],
    /// Their names.
    pub names: [CompactString; 2],
    /// The type of the bounds.
    #[serde(with = "column_type")]
    pub subtype: ColumnType,
    /// The collation that was named, if not the database's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<CompactString>,
    /// The operator class that was named, which is only shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<CompactString>,
    /// The function that subtracts two bounds, with its schema; it is only shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
}

/// A composite type: what its rows consist of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Composite {
    /// The number by which the catalogue's tables know it as a relation.
    pub relation: ObjectId,
    /// Its fields, in their order.
    pub fields: Vec<Field>,
    /// The number of the last field that was made.
    pub last_number: u16,
}

/// A field of a composite type.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Field {
    /// What rows hold it by.
    pub number: u16,
    /// Its name.
    pub name: CompactString,
    /// Its type.
    #[serde(with = "column_type")]
    pub ty: ColumnType,
    /// The collation that it was declared with, if not the database's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<CompactString>,
}

/// A domain: a type with conditions on its values.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Domain {
    /// The type that it is over; of another domain, with that.
    #[serde(with = "column_type")]
    pub base: ColumnType,
    /// The collation that it was declared with, if not the database's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<CompactString>,
    /// Whether NULL is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_null: bool,
    /// The value of a column for which none is given, as SQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Conditions on VALUE.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

/// What stands for a type in those of columns and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeHandle {
    /// Of an enum.
    Enum(EnumType),
    /// Of a domain.
    Domain(DomainType),
    /// Of a composite type.
    Composite(CompositeType),
    /// Of a range or a multirange.
    Range(RangeType),
}

/// A label of an enum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Its number.
    pub id: ObjectId,
    /// Its text.
    pub text: CompactString,
    /// What rows and keys hold.
    pub place: i64,
}

impl UserType {
    /// Makes the handle anew, after a change.
    pub fn renew_handle(&mut self) {
        self.handle = Some(match &self.kind {
            UserTypeKind::Enum(labels) => {
                let label =
                    |label: &Label| EnumLabel { oid: label.id, text: label.text.as_str().into(), place: label.place };
                TypeHandle::Enum(EnumType::of(EnumContent {
                    oid: self.id,
                    array_oid: self.array,
                    name: self.name.as_str().into(),
                    labels: labels.iter().map(label).collect(),
                }))
            }
            UserTypeKind::Composite(composite) => {
                let field =
                    |field: &Field| CompositeField { number: field.number, name: field.name.clone(), ty: field.ty };
                TypeHandle::Composite(CompositeType::of(CompositeContent {
                    oid: self.id,
                    array_oid: self.array,
                    name: self.name.as_str().into(),
                    fields: composite.fields.iter().map(field).collect(),
                }))
            }
            UserTypeKind::Range(pair) | UserTypeKind::Multirange(pair) => {
                let range = RangeType::of(RangeContent {
                    oids: pair.ids,
                    array_oids: pair.arrays,
                    names: pair.names.clone().map(|name| name.as_str().into()),
                    subtype: pair.subtype.ty,
                });
                let is_multirange = matches!(self.kind, UserTypeKind::Multirange(_));
                TypeHandle::Range(if is_multirange { range.multirange() } else { range })
            }
            UserTypeKind::Domain(_) => TypeHandle::Domain(DomainType::of(DomainContent {
                oid: self.id,
                array_oid: self.array,
                name: self.name.as_str().into(),
            })),
        });
    }

    /// As the type of a column.
    pub fn column_type(&self) -> ColumnType {
        match (self.handle.expect("a type of a catalogue has its handle"), &self.kind) {
            (TypeHandle::Domain(domain), UserTypeKind::Domain(of)) => ColumnType { domain: Some(domain), ..of.base },
            (TypeHandle::Enum(of), _) => Type::Enum(of).into(),
            (TypeHandle::Composite(of), _) => Type::Composite(of).into(),
            (TypeHandle::Range(of), _) => Type::Range(of).into(),
            (TypeHandle::Domain(_), _) => unreachable!("a handle is made of the kind"),
        }
    }

    /// The type of arrays of it, as that of a column. `None` for a domain over arrays.
    pub fn array_column_type(&self) -> Option<ColumnType> {
        let element = self.column_type();
        let ty = element.ty.array()?;
        Some(ColumnType { ty, domain: element.domain.map(DomainType::arrays), ..element })
    }

    /// The type that values have.
    pub fn ty(&self) -> Type {
        self.column_type().ty
    }

    /// The type that arrays of values have; of a domain over arrays that of the values.
    pub fn array_ty(&self) -> Type {
        let ty = self.ty();
        ty.array().unwrap_or(ty)
    }

    /// The labels of an enum, in their order; none of other types.
    #[must_use]
    pub fn labels(&self) -> &[Label] {
        match &self.kind {
            UserTypeKind::Enum(labels) => labels,
            _ => &[],
        }
    }

    /// Whether it is an enum.
    #[must_use]
    pub fn is_enum(&self) -> bool {
        matches!(self.kind, UserTypeKind::Enum(_))
    }

    /// What a domain is; `None` of other types.
    #[must_use]
    pub fn domain(&self) -> Option<&Domain> {
        match &self.kind {
            UserTypeKind::Domain(domain) => Some(domain),
            _ => None,
        }
    }

    /// What a composite type is; `None` of other types.
    #[must_use]
    pub fn composite(&self) -> Option<&Composite> {
        match &self.kind {
            UserTypeKind::Composite(composite) => Some(composite),
            _ => None,
        }
    }

    /// What a range or a multirange type is; `None` of other types.
    #[must_use]
    pub fn range(&self) -> Option<&Range> {
        match &self.kind {
            UserTypeKind::Range(pair) | UserTypeKind::Multirange(pair) => Some(pair),
            _ => None,
        }
    }

    /// Whether it is the multirange type of a range type, with which it comes and goes.
    #[must_use]
    pub fn is_multirange(&self) -> bool {
        matches!(self.kind, UserTypeKind::Multirange(_))
    }

    /// The types that it is made of: a domain's, those of a composite type's fields, that of a
    /// range's bounds.
    pub fn parts(&self) -> impl Iterator<Item = ColumnType> {
        let domain = self.domain().map(|domain| domain.base).or(self.range().map(|pair| pair.subtype));
        domain.into_iter().chain(self.composite().into_iter().flat_map(|of| of.fields.iter().map(|field| field.ty)))
    }

    /// The same, to be changed.
    pub(crate) fn parts_mut(&mut self) -> Vec<&mut ColumnType> {
        match &mut self.kind {
            UserTypeKind::Enum(_) => Vec::new(),
            UserTypeKind::Domain(domain) => vec![&mut domain.base],
            UserTypeKind::Range(pair) | UserTypeKind::Multirange(pair) => vec![&mut pair.subtype],
            UserTypeKind::Composite(composite) => composite.fields.iter_mut().map(|field| &mut field.ty).collect(),
        }
    }

    /// The name of the type of its arrays.
    #[must_use]
    pub fn array_name(&self) -> CompactString {
        colibri_types::enums::array_name(&self.name).into()
    }
}

fn bootstrap() -> RoleId {
    BOOTSTRAP_ROLE
}

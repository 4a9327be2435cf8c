//! The types that users define: enums.
//!
//! A label of an enum has a number, by which the catalogue's tables know it, and a place, which is
//! what rows and keys hold: see [`colibri_types::enums`]. Columns have the number of their type.
//!
//! Invariants: labels are in the order of their places; ON DISK: a label's place never changes.

use colibri_types::enums::{EnumContent, EnumLabel, EnumType};
use colibri_types::{Scalar, Type};
use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::cluster::{BOOTSTRAP_ROLE, RoleId};
use crate::objects::ObjectId;

/// A type that a user has defined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// What it is.
    pub kind: UserTypeKind,
    /// Made from the rest when it is read.
    #[serde(skip)]
    pub handle: Option<EnumType>,
}

/// What a type is that a user has defined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UserTypeKind {
    /// An enum, with its labels in their order.
    Enum(Vec<Label>),
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
        let UserTypeKind::Enum(labels) = &self.kind;
        let label = |label: &Label| EnumLabel { oid: label.id, text: label.text.as_str().into(), place: label.place };
        self.handle = Some(EnumType::of(EnumContent {
            oid: self.id,
            array_oid: self.array,
            name: self.name.as_str().into(),
            labels: labels.iter().map(label).collect(),
        }));
    }

    /// As the type of values.
    pub fn ty(&self) -> Type {
        Type::Enum(self.handle.expect("a type of a catalogue has its handle"))
    }

    /// The type of arrays of it.
    pub fn array_ty(&self) -> Type {
        Type::Array(Scalar::Enum(self.handle.expect("a type of a catalogue has its handle")))
    }

    /// The labels of an enum, in their order.
    #[must_use]
    pub fn labels(&self) -> &[Label] {
        let UserTypeKind::Enum(labels) = &self.kind;
        labels
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

//! Operators that users define: a symbol, and a function that is called on its operands.

use std::sync::Arc;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::Catalog;
use crate::cluster::RoleId;
use crate::objects::ObjectId;

/// An operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserOperator {
    /// Its number.
    pub id: ObjectId,
    /// Its schema's name.
    pub schema: CompactString,
    /// How it is written.
    pub symbol: CompactString,
    /// Who owns it.
    pub owner: RoleId,
    /// The number of the left operand's type; `None` of a prefix operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<ObjectId>,
    /// The number of the right operand's type.
    pub right: ObjectId,
    /// The number of the type that it gives.
    pub result: ObjectId,
    /// What is called.
    pub function: OperatorFunction,
    /// The operator that is the same with its operands exchanged: its schema and its symbol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commutator: Option<(CompactString, CompactString)>,
    /// The operator that says the opposite: its schema and its symbol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negator: Option<(CompactString, CompactString)>,
    /// The system's function that RESTRICT names, which is only shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restrict: Option<CompactString>,
    /// The same of JOIN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<CompactString>,
    /// HASHES, which is only shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hashes: bool,
    /// MERGES, which is only shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub merges: bool,
}

/// The function of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperatorFunction {
    /// A user's.
    Routine(ObjectId),
    /// One of the system's, by its name.
    Builtin(CompactString),
}

impl UserOperator {
    /// Whether one of its operands, or what it gives, is of a type.
    #[must_use]
    pub fn uses_type(&self, number: ObjectId) -> bool {
        self.left == Some(number) || self.right == number || self.result == number
    }
}

impl Catalog {
    /// The operators that users have defined.
    pub fn operators(&self) -> impl Iterator<Item = &Arc<UserOperator>> {
        self.operators.values()
    }

    /// Whether there is any.
    #[must_use]
    pub fn has_operators(&self) -> bool {
        !self.operators.is_empty()
    }

    /// One by its schema, symbol and operands.
    #[must_use]
    pub fn operator(
        &self,
        schema: &str,
        symbol: &str,
        left: Option<ObjectId>,
        right: ObjectId,
    ) -> Option<&Arc<UserOperator>> {
        let is_it = |one: &&Arc<UserOperator>| {
            one.symbol == symbol && one.left == left && one.right == right && one.schema == schema
        };
        self.operators.values().find(is_it)
    }
}

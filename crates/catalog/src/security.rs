//! Row-level security: the policies of a table.
//!
//! Each policy is a part of its table's entry. Conditions are SQL over the table's columns, in which
//! names are written out.

use std::sync::Arc;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::cluster::RoleId;

/// What row-level security says of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RowSecurity {
    /// ENABLE ROW LEVEL SECURITY
    #[serde(default)]
    pub enabled: bool,
    /// FORCE ROW LEVEL SECURITY: it holds for the owner, too.
    #[serde(default)]
    pub forced: bool,
    /// The policies, by name.
    #[serde(default)]
    pub policies: Vec<Arc<Policy>>,
}

impl RowSecurity {
    /// Whether nothing was ever said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.enabled && !self.forced && self.policies.is_empty()
    }

    /// A policy by its name.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<&Arc<Policy>> {
        self.policies.iter().find(|policy| policy.name == name)
    }
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: CompactString,
    /// What it is for, as `pg_policy` writes it: `*`, `r`, `a`, `w`, `d`.
    pub command: char,
    /// It allows what its conditions hold for. Otherwise it forbids all else.
    pub permissive: bool,
    /// Whom it is for. [`PUBLIC_ROLE`](crate::cluster::PUBLIC_ROLE) stands for all.
    pub roles: Vec<RoleId>,
    /// USING: which rows there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub using: Option<String>,
    /// WITH CHECK: which rows there may come to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
}

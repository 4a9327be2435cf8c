//! Rules of tables and views: what is done when they are written to, beside that or instead of it.

use std::sync::Arc;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::Catalog;
use crate::objects::ObjectId;

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Its number.
    pub id: ObjectId,
    /// Its name, by which it is told from others of its relation.
    pub name: CompactString,
    /// The number of the table or view.
    pub relation: ObjectId,
    /// What it is for: `a`, INSERT; `w`, UPDATE; `d`, DELETE.
    pub event: char,
    /// DO INSTEAD
    pub instead: bool,
    /// The text of the condition of WHERE, with schemas in front of relations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The texts of what it does, with schemas in front of relations; none for NOTHING.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// `O`, it fires; `D`, it is disabled; `A`, ALWAYS; `R`, REPLICA.
    pub state: char,
}

impl Rule {
    /// The word of its event.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.event {
            'a' => "INSERT",
            'w' => "UPDATE",
            _ => "DELETE",
        }
    }
}

impl Catalog {
    /// All rules.
    pub fn rules(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.rules.values()
    }

    /// Whether there is any.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Those of a relation, in the order of their names.
    #[must_use]
    pub fn rules_of(&self, relation: ObjectId) -> Vec<Arc<Rule>> {
        let mut found: Vec<_> = self.rules.values().filter(|rule| rule.relation == relation).cloned().collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }
}

//! Configurations and dictionaries of text search that users have made.
//!
//! Invariants: a configuration's mappings name dictionaries by their numbers, those of the system
//! included, and there is none for a kind of token that is not asked about.

use std::collections::BTreeMap;
use std::sync::Arc;

use colibri_txn::{Space, Transaction};
use colibri_types::{CompactString, Result};
use serde::{Deserialize, Serialize};

use crate::Catalog;
use crate::cluster::RoleId;
use crate::entries::{object_key, parse, to_json};
use crate::objects::ObjectId;
use crate::store_error::InSql as _;

/// A dictionary that a user has made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchDictionary {
    /// Its number.
    pub id: ObjectId,
    /// Its schema's name.
    pub schema: CompactString,
    /// Its name.
    pub name: CompactString,
    /// Who owns it.
    pub owner: RoleId,
    /// The number of its template.
    pub template: u32,
    /// Its options, in the order in which they were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<(CompactString, String)>,
}

/// A configuration that a user has made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchConfiguration {
    /// Its number.
    pub id: ObjectId,
    /// Its schema's name.
    pub schema: CompactString,
    /// Its name.
    pub name: CompactString,
    /// Who owns it.
    pub owner: RoleId,
    /// The dictionaries that are asked for each kind of token, by the kind's number, in their order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mappings: BTreeMap<u8, Vec<ObjectId>>,
}

/// A change of what there is in text search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchChange {
    /// A dictionary is made or changed.
    PutDictionary(SearchDictionary),
    /// A dictionary is dropped.
    DropDictionary(ObjectId),
    /// A configuration is made or changed.
    PutConfiguration(SearchConfiguration),
    /// A configuration is dropped.
    DropConfiguration(ObjectId),
}

/// All of them, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct SearchObjects {
    dictionaries: BTreeMap<ObjectId, Arc<SearchDictionary>>,
    configurations: BTreeMap<ObjectId, Arc<SearchConfiguration>>,
}

impl SearchChange {
    // ON DISK: never renumber.
    pub(crate) const DICTIONARY: u8 = b'u';
    // ON DISK: never renumber.
    pub(crate) const CONFIGURATION: u8 = b'g';

    /// Reads an entry of the catalogue's space, by its kind.
    pub(crate) fn read(kind: u8, value: &[u8]) -> Result<Self> {
        Ok(match kind {
            Self::DICTIONARY => Self::PutDictionary(parse(value)?),
            _ => Self::PutConfiguration(parse(value)?),
        })
    }

    /// Writes what has changed to the catalogue's space.
    pub(crate) fn write(&self, txn: &mut dyn Transaction, space: &Space) -> Result<()> {
        match self {
            Self::PutDictionary(one) => txn.put(space, &object_key(Self::DICTIONARY, one.id), &to_json(one)),
            Self::DropDictionary(id) => txn.delete(space, &object_key(Self::DICTIONARY, *id)),
            Self::PutConfiguration(one) => txn.put(space, &object_key(Self::CONFIGURATION, one.id), &to_json(one)),
            Self::DropConfiguration(id) => txn.delete(space, &object_key(Self::CONFIGURATION, *id)),
        }
        .in_sql()
    }
}

impl SearchObjects {
    pub(crate) fn apply(&mut self, change: SearchChange) {
        match change {
            SearchChange::PutDictionary(one) => _ = self.dictionaries.insert(one.id, Arc::new(one)),
            SearchChange::DropDictionary(id) => _ = self.dictionaries.remove(&id),
            SearchChange::PutConfiguration(one) => _ = self.configurations.insert(one.id, Arc::new(one)),
            SearchChange::DropConfiguration(id) => _ = self.configurations.remove(&id),
        }
    }
}

impl SearchConfiguration {
    /// Whether it asks a dictionary.
    #[must_use]
    pub fn asks(&self, dictionary: ObjectId) -> bool {
        self.mappings.values().any(|asked| asked.contains(&dictionary))
    }
}

impl Catalog {
    /// The dictionaries that users have made.
    pub fn search_dictionaries(&self) -> impl Iterator<Item = &Arc<SearchDictionary>> {
        self.search.dictionaries.values()
    }

    /// The configurations that users have made.
    pub fn search_configurations(&self) -> impl Iterator<Item = &Arc<SearchConfiguration>> {
        self.search.configurations.values()
    }

    /// A user's dictionary by its number.
    #[must_use]
    pub fn search_dictionary(&self, id: ObjectId) -> Option<&Arc<SearchDictionary>> {
        self.search.dictionaries.get(&id)
    }

    /// A user's configuration by its number.
    #[must_use]
    pub fn search_configuration(&self, id: ObjectId) -> Option<&Arc<SearchConfiguration>> {
        self.search.configurations.get(&id)
    }
}

//! Names of databases and nodes.

use std::fmt;

/// A database of the cluster, by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Database(pub String);

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A node's name: 1 to 64 letters, digits, `-`, `_` or `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(String);

/// The most bytes of a node's name.
pub const NODE_ID_BYTES_MAX: usize = 64;

/// A text that is no node's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name of a node: 1 to 64 letters, digits, '-', '_' or '.'")]
pub struct NotANodeId(pub String);

impl NodeId {
    /// A name.
    ///
    /// # Errors
    /// [`NotANodeId`].
    pub fn new(id: &str) -> Result<Self, NotANodeId> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_valid = (1..=NODE_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(allowed);
        if is_valid { Ok(Self(id.to_owned())) } else { Err(NotANodeId(id.to_owned())) }
    }

    /// As a text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A commit of a database, as the engine names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitId {
    /// Its transaction.
    pub txn: u64,
    /// The checksum of its record and of all records before it.
    pub chain: u64,
}

/// A node and where clients and other nodes reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub id: NodeId,
    /// Host and port, without line breaks.
    pub address: String,
}

/// Who has joined under a node's name: two servers may be given the same one by mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instance {
    /// The directory that the node's data are in: a random number, kept there.
    pub dir: u64,
    /// The start of the server: a random number.
    pub start: u64,
}

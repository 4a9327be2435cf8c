//! ALTER DEFAULT PRIVILEGES: what others may do with the objects that a role is yet to make.

use serde::{Deserialize, Serialize};

use crate::cluster::{Acl, ObjectKind, RoleId};
use crate::objects::ObjectId;

/// The privileges on objects of a kind that a role makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultPrivileges {
    /// Its number.
    pub id: ObjectId,
    /// Who makes the objects.
    pub role: RoleId,
    /// The schema that they are made in. `None`: any, and then these are all privileges. Otherwise
    /// they come on top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<ObjectId>,
    /// Their kind, as `pg_default_acl` has it: `r`, `S`, `f`, `T`, `n`.
    pub object: char,
    /// The privileges.
    pub acl: Acl,
}

impl DefaultPrivileges {
    /// The kind of objects.
    #[must_use]
    pub fn kind(object: char) -> ObjectKind {
        match object {
            'S' => ObjectKind::Sequence,
            'f' => ObjectKind::Function,
            'T' => ObjectKind::Type,
            'n' => ObjectKind::Schema,
            _ => ObjectKind::Table,
        }
    }
}

//! The privileges that new objects have from their beginning.

use crate::catalog::Catalog;
use crate::cluster::{Acl, RoleId};
use crate::default_privileges::DefaultPrivileges;
use crate::objects::ObjectId;

impl Catalog {
    /// The privileges on an object that a role makes; `None` if they are what they always are.
    #[must_use]
    pub fn privileges_of_new(&self, object: char, role: RoleId, schema: Option<&str>) -> Option<Acl> {
        let schema = schema.and_then(|schema| self.schema(schema)).map(|schema| schema.id);
        let of = |schema: Option<ObjectId>| {
            let is_it = |one: &&DefaultPrivileges| one.role == role && one.object == object && one.schema == schema;
            self.default_privileges().find(is_it).map(|found| &found.acl)
        };
        let of_schema = if schema.is_some() { of(schema) } else { None };
        let of_all = of(None);
        if of_all.is_none() && of_schema.is_none() {
            return None;
        }
        let usual = Acl::default_of(DefaultPrivileges::kind(object), role);
        let acl = of_all.unwrap_or(&usual).merged(of_schema.unwrap_or(&Acl::default()));
        (!acl.is_same(&usual)).then_some(acl)
    }
}

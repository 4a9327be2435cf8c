//! ALTER DEFAULT PRIVILEGES: what others may do with objects that are yet to be made.

use colibri_catalog::cluster::{Acl, Dependents, Grant, PUBLIC_ROLE, Parties, Privileges, RoleId};
use colibri_catalog::{Catalog, Change, DefaultPrivileges, ObjectId};
use colibri_syntax::tree::{Granting, RoleName};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;

use super::grants::{invalid, named};
use super::{may_become, no_such_schema};
use crate::session::Session;

impl Session {
    pub(super) fn alter_default_privileges(
        &mut self,
        roles: &[RoleName],
        schemas: &[CompactString],
        granting: &Granting,
        object: char,
        to: &[Option<RoleName>],
    ) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let grantees = self.grantees(to)?;
        let kind = DefaultPrivileges::kind(object);
        let wanted = granting.privileges.as_deref().map_or(Ok(kind.all()), named)?;
        let others = wanted.without(kind.all());
        if !others.is_empty() {
            let word = match object {
                'S' => "sequence",
                'f' => "function",
                'T' => "type",
                'n' => "schema",
                _ => "relation",
            };
            return Err(invalid(others, word));
        }
        let makers = match roles {
            [] => vec![self.role()],
            named => named.iter().map(|role| self.actor(role)).collect::<Result<Vec<_>>>()?,
        };
        for &maker in &makers {
            if !may_become(&self.authority(), &self.all_roles(), maker) {
                let message = format!("must be member of role \"{}\"", self.all_roles().name_of(maker));
                return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
        }
        if object == 'n' && !schemas.is_empty() {
            let message = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
            return Err(Error::new(SqlState::INVALID_GRANT_OPERATION, message));
        }
        let mut places: Vec<Option<ObjectId>> = Vec::new();
        for name in schemas {
            places.push(Some(self.catalog().schema(name).ok_or_else(|| no_such_schema(name))?.id));
        }
        if places.is_empty() {
            places.push(None);
        }
        for &maker in &makers {
            for &schema in &places {
                self.change_default(granting, (object, maker, schema), &grantees, wanted)?;
            }
        }
        Ok(())
    }

    fn change_default(
        &mut self,
        granting: &Granting,
        (object, role, schema): (char, RoleId, Option<ObjectId>),
        grantees: &[RoleId],
        wanted: Privileges,
    ) -> Result<()> {
        let is_it = |one: &&DefaultPrivileges| one.role == role && one.object == object && one.schema == schema;
        let known = self.catalog().default_privileges().find(is_it).cloned();
        let usual = match schema {
            None => Acl::default_of(DefaultPrivileges::kind(object), role),
            Some(_) => Acl::default(),
        };
        let mut acl = known.as_ref().map_or_else(|| usual.clone(), |known| known.acl.clone());
        let (roles, database_owner) = (self.all_roles(), self.own_database_info().owner);
        let parties = Parties { roles: &roles, database_owner, owner: role };
        let (revoke, option) = (granting.revoke, granting.option);
        for &grantee in grantees {
            if option && !revoke && grantee == PUBLIC_ROLE {
                let message = "grant options can only be granted to roles";
                return Err(Error::new(SqlState::INVALID_GRANT_OPERATION, message));
            }
            let privileges = if revoke && option { Privileges::NONE } else { wanted };
            let grantable = if revoke || option { wanted } else { Privileges::NONE };
            let grant = Grant { grantee, grantor: role, privileges, grantable };
            if revoke {
                let dependents = if granting.cascade { Dependents::TakeBack } else { Dependents::Refuse };
                acl.revoke(&parties, grant, dependents)?;
            } else {
                acl.grant(&parties, grant)?;
            }
        }
        let is_usual = acl.is_same(&usual);
        match known {
            Some(known) if is_usual => self.change(vec![Change::DropDefaultPrivileges(known.id)]),
            Some(known) => self.change(vec![Change::PutDefaultPrivileges(DefaultPrivileges { acl, ..known })]),
            None if is_usual => Ok(()),
            None => {
                let id = Catalog::new_ids(self.catalog_and_txn()?.1, 1)?;
                self.change(vec![Change::PutDefaultPrivileges(DefaultPrivileges { id, role, schema, object, acl })])
            }
        }
    }
}

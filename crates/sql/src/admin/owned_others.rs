//! Functions, operators, collations and extended statistics that belong to a role, or are granted to
//! it: for DROP ROLE, REASSIGN OWNED and DROP OWNED.

use std::sync::Arc;

use colibri_catalog::cluster::RoleId;
use colibri_catalog::{Change, Collation, Routine, Statistics, UserOperator};
use colibri_types::Result;

use crate::session::Session;

impl Session {
    /// Describes what belongs to a role, or is granted to it.
    pub(super) fn other_belongings(&self, role: RoleId) -> Vec<String> {
        let catalog = self.catalog();
        let mut found = Vec::new();
        for routine in catalog.routines() {
            let described = || format!("{} {}", routine.kind(), self.routine_text(routine));
            if routine.owner == role {
                found.push(format!("owner of {}", described()));
            } else if routine.acl.as_ref().is_some_and(|acl| acl.mentions(role)) {
                found.push(format!("privileges for {}", described()));
            }
        }
        let operators = catalog.operators().filter(|one| one.owner == role);
        found.extend(operators.map(|one| format!("owner of {}", self.described_operator(one))));
        let collations = catalog.collations().filter(|one| one.owner == role);
        found.extend(collations.map(|one| format!("owner of collation {}", one.name)));
        let statistics = catalog.statistics().filter(|one| one.owner == role);
        found.extend(statistics.map(|one| format!("owner of statistics object {}", one.name)));
        found.extend(self.told_of_search(|_, owner| owner == role).into_iter().map(|what| format!("owner of {what}")));
        found
    }

    /// Makes a role the owner of what belongs to others.
    pub(super) fn reassign_others(&mut self, from: &[RoleId], to: RoleId) -> Result<()> {
        let catalog = self.catalog();
        let mut changes = Vec::new();
        for routine in catalog.routines().filter(|one| from.contains(&one.owner)) {
            let mut changed: Routine = (**routine).clone();
            if let Some(acl) = &mut changed.acl {
                acl.change_owner(routine.owner, to);
            }
            changes.push(Change::PutRoutine(Routine { owner: to, ..changed }));
        }
        for one in catalog.operators().filter(|one| from.contains(&one.owner)) {
            changes.push(Change::PutOperator(UserOperator { owner: to, ..(**one).clone() }));
        }
        for one in catalog.collations().filter(|one| from.contains(&one.owner)) {
            changes.push(Change::PutCollation(Collation { owner: to, ..(**one).clone() }));
        }
        for one in catalog.statistics().filter(|one| from.contains(&one.owner)) {
            changes.push(Change::PutStatistics(Statistics { owner: to, ..(**one).clone() }));
        }
        changes.extend(self.reassigned_search(from, to));
        self.change(changes)
    }

    /// Revokes what functions grant to some roles.
    pub(super) fn revoke_of_routines(&mut self, roles: &[RoleId]) -> Result<()> {
        let mut changes = Vec::new();
        for routine in self.catalog().routines().filter(|one| !roles.contains(&one.owner)) {
            let Some(acl) = &routine.acl else { continue };
            let mut kept = acl.clone();
            kept.0.retain(|grant| !roles.contains(&grant.grantee));
            if kept != *acl {
                changes.push(Change::PutRoutine(Routine { acl: Some(kept), ..(**routine).clone() }));
            }
        }
        self.change(changes)
    }

    /// Drops what belongs to some roles.
    pub(super) fn drop_others(&mut self, roles: &[RoleId], cascade: bool) -> Result<()> {
        let is_own = |owner: RoleId| roles.contains(&owner);
        let statistics = self.catalog().statistics().filter(|one| is_own(one.owner));
        let changes: Vec<Change> = statistics.map(|one| Change::DropStatistics(one.id)).collect();
        self.change(changes)?;
        let operators: Vec<Arc<UserOperator>> =
            self.catalog().operators().filter(|one| is_own(one.owner)).cloned().collect();
        self.drop_own_operators(&operators, cascade)?;
        let routines: Vec<Arc<Routine>> = self.catalog().routines().filter(|one| is_own(one.owner)).cloned().collect();
        for routine in routines {
            if self.catalog().routine(routine.id).is_some() {
                self.drop_own_routine(&routine, cascade)?;
            }
        }
        let collations: Vec<Arc<Collation>> =
            self.catalog().collations().filter(|one| is_own(one.owner)).cloned().collect();
        for one in collations {
            self.drop_collation(&[one.schema.clone(), one.name.clone()], true, cascade)?;
        }
        self.drop_search(|_, owner| is_own(owner))?;
        Ok(())
    }
}

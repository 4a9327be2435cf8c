//! CREATE, ALTER and DROP POLICY; ENABLE ROW LEVEL SECURITY and its kin.

use std::sync::Arc;

use colibri_catalog::cluster::{PUBLIC_ROLE, RoleId};
use colibri_catalog::{Catalog, Change, Policy, Relation, RowSecurity, Table};
use colibri_syntax::tree::{CreatePolicy, Policies, RoleName};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;

use super::Session;
use super::create::Draft;
use crate::session::Severity;

impl Session {
    pub(crate) fn about_policies(&mut self, statement: &Policies) -> Result<()> {
        match statement {
            Policies::Create(create) => self.create_policy(create),
            Policies::Alter { name, table, to, using, check } => {
                self.alter_policy(name, table, to.as_deref(), (using.as_deref(), check.as_deref()))
            }
            Policies::Rename { name, table, to } => self.rename_policy(name, table, to),
            Policies::Drop { name, table, if_exists } => self.drop_policy(name, table, *if_exists),
            Policies::Comment { name, table, text } => {
                let table = self.policy_table(table)?;
                let known = expect_policy(&table, name)?;
                self.change(vec![Change::Comment(known.id, 0, text.clone())])
            }
        }
    }

    /// The table of a policy, which the user has to own. It is locked.
    fn policy_table(&mut self, name: &[CompactString]) -> Result<Arc<Table>> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let shown = name.last().cloned().unwrap_or_default();
        match self.relation_named(name)?.cloned() {
            Some(Relation::Table(table)) if table.materialized.is_none() => {
                self.expect_owner(table.owner, "table", &table.name)?;
                self.lock_table(&table)?;
                Ok(self.catalog().table(table.id).cloned().unwrap_or(table))
            }
            Some(relation) => {
                self.expect_owner_of(&relation)?;
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{shown}\" is not a table")))
            }
            None => {
                let message = format!("relation \"{}\" does not exist", name.join("."));
                Err(Error::new(SqlState::NO_SUCH_TABLE, message))
            }
        }
    }

    pub(super) fn set_row_security(&mut self, draft: Draft, set: impl FnOnce(&mut RowSecurity)) -> Result<()> {
        let mut table = draft.table;
        if table.materialized.is_some() {
            let message = format!("\"{}\" is not a table", table.name);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        set(&mut table.security);
        self.change(vec![Change::PutTable(table)])
    }

    fn put_policies(&mut self, table: &Table, mut policies: Vec<Arc<Policy>>) -> Result<()> {
        policies.sort_by(|one, other| one.name.cmp(&other.name));
        let security = RowSecurity { policies, ..table.security.clone() };
        self.change(vec![Change::PutTable(Table { security, ..table.clone() })])
    }

    fn policy_roles(&mut self, to: &[Option<RoleName>]) -> Result<Vec<RoleId>> {
        let mut roles = Vec::with_capacity(to.len());
        for role in to {
            let Some(role) = role else {
                if to.len() > 1 {
                    let what = "ignoring specified roles other than PUBLIC";
                    let hint = "All roles are members of the PUBLIC role.";
                    let report = Error::new(SqlState::WARNING, what).hint(hint);
                    self.notice_report(Severity::Warning, report);
                }
                return Ok(vec![PUBLIC_ROLE]);
            };
            roles.push(self.actor(role)?);
        }
        Ok(roles)
    }

    /// A condition as it is kept.
    fn policy_text(&mut self, table: &Table, text: Option<&str>) -> Result<Option<String>> {
        let Some(text) = text else { return Ok(None) };
        self.with_binder("", |binder| binder.stored_policy(text, table)).map(Some)
    }

    fn create_policy(&mut self, create: &CreatePolicy) -> Result<()> {
        let wrong = |message| Err(Error::new(SqlState::SYNTAX_ERROR, message));
        if create.command == 'a' && create.using.is_some() {
            return wrong("only WITH CHECK expression allowed for INSERT");
        }
        if matches!(create.command, 'r' | 'd') && create.check.is_some() {
            return wrong("WITH CHECK cannot be applied to SELECT or DELETE");
        }
        let roles = self.policy_roles(&create.to)?;
        let table = self.policy_table(&create.table)?;
        let using = self.policy_text(&table, create.using.as_deref())?;
        let check = self.policy_text(&table, create.check.as_deref())?;
        if table.security.policy(&create.name).is_some() {
            return Err(already_there(&create.name, &table));
        }
        let id = self.new_id_in(&table.schema)?;
        let policy = Policy {
            id,
            name: create.name.clone(),
            command: create.command,
            permissive: create.permissive,
            roles,
            using,
            check,
        };
        let mut policies = table.security.policies.clone();
        policies.push(Arc::new(policy));
        self.put_policies(&table, policies)
    }

    fn alter_policy(
        &mut self,
        name: &str,
        table: &[CompactString],
        to: Option<&[Option<RoleName>]>,
        (using, check): (Option<&str>, Option<&str>),
    ) -> Result<()> {
        let roles = to.map(|to| self.policy_roles(to)).transpose()?;
        let table = self.policy_table(table)?;
        let using = self.policy_text(&table, using)?;
        let check = self.policy_text(&table, check)?;
        let known = expect_policy(&table, name)?;
        let wrong = |message| Err(Error::new(SqlState::SYNTAX_ERROR, message));
        if matches!(known.command, 'r' | 'd') && check.is_some() {
            return wrong("only USING expression allowed for SELECT, DELETE");
        }
        if known.command == 'a' && using.is_some() {
            return wrong("only WITH CHECK expression allowed for INSERT");
        }
        let mut changed = (*known).clone();
        changed.roles = roles.unwrap_or(changed.roles);
        changed.using = using.or(changed.using);
        changed.check = check.or(changed.check);
        self.replace_policy(&table, changed)
    }

    fn replace_policy(&mut self, table: &Table, changed: Policy) -> Result<()> {
        let mut policies: Vec<_> =
            table.security.policies.iter().filter(|policy| policy.id != changed.id).cloned().collect();
        policies.push(Arc::new(changed));
        self.put_policies(table, policies)
    }

    fn rename_policy(&mut self, name: &str, table: &[CompactString], to: &CompactString) -> Result<()> {
        let table = self.policy_table(table)?;
        if table.security.policy(to).is_some() {
            return Err(already_there(to, &table));
        }
        let known = expect_policy(&table, name)?;
        self.replace_policy(&table, Policy { name: to.clone(), ..(*known).clone() })
    }

    fn drop_policy(&mut self, name: &str, table: &[CompactString], if_exists: bool) -> Result<()> {
        if if_exists && self.relation_named(table)?.is_none() {
            self.notice_missing("relation", &table.join("."));
            return Ok(());
        }
        let table = self.policy_table(table)?;
        let known = match expect_policy(&table, name) {
            Err(_) if if_exists => {
                let message = format!("policy \"{name}\" for relation \"{}\" does not exist, skipping", table.name);
                self.notice(Severity::Notice, SqlState("00000"), message);
                return Ok(());
            }
            known => known?,
        };
        self.change(vec![Change::Comment(known.id, 0, None)])?;
        let kept = table.security.policies.iter().filter(|policy| policy.id != known.id).cloned().collect();
        self.put_policies(&table, kept)
    }

    /// The policies of a table whose conditions name one of its columns.
    pub(super) fn policies_on_column(&self, table: &Arc<Table>, place: usize) -> Result<Vec<CompactString>> {
        let mut found = Vec::new();
        for policy in &table.security.policies {
            for text in [&policy.using, &policy.check].into_iter().flatten() {
                let bound = self.with_binder("", |binder| binder.policy_condition(text, table))?;
                let mut is_named = false;
                crate::bind::rewrite::for_each_column(&bound, &mut |column| is_named |= column == place);
                if is_named && !found.contains(&policy.name) {
                    found.push(policy.name.clone());
                }
            }
        }
        Ok(found)
    }
}

fn already_there(name: &str, table: &Table) -> Error {
    let message = format!("policy \"{name}\" for table \"{}\" already exists", table.name);
    Error::new(SqlState::DUPLICATE_OBJECT, message)
}

fn expect_policy(table: &Table, name: &str) -> Result<Arc<Policy>> {
    table.security.policy(name).cloned().ok_or_else(|| {
        let message = format!("policy \"{name}\" for table \"{}\" does not exist", table.name);
        Error::new(SqlState::NO_SUCH_OBJECT, message)
    })
}

//! What uses a user's operator in texts of the catalogue, and goes with it.
//!
//! Invariant: no view, rule, constraint, default, generated column, index or policy is left that uses
//! an operator which is not there.
//!
//! A text that has the operator's symbol in it is bound, and the binder says which operators it has
//! met. Conditions of domains are taken to use every operator of a symbol that they have.

use std::sync::Arc;

use colibri_catalog::{Change, Routine, Table, UserOperator, UserTypeKind};
use colibri_types::Result;
use compact_str::CompactString;

use super::Session;
use super::drop::{Cascade, depended_on};
use super::routine_users::User;

/// What cannot be without an operator.
enum OperatorUser {
    /// An index, a column, a table or a domain's condition.
    Bound(User),
    View(u32),
    Rule(u32),
    Check(u32, CompactString),
    Default(u32, CompactString),
    Policy(u32, CompactString),
}

impl Session {
    /// Whether a text that sees a row of a table uses an operator.
    fn uses_operator(&self, text: &str, table: &Table, operator: &UserOperator) -> bool {
        text.contains(operator.symbol.as_str())
            && self
                .with_binder("", |binder| binder.operators_in(text, table))
                .is_ok_and(|all| all.contains(&operator.id))
    }

    /// What uses an operator, with what it is called in messages.
    fn users_of_operator(&self, operator: &UserOperator) -> Vec<(String, OperatorUser)> {
        let mut users = Vec::new();
        let tables: Vec<Arc<Table>> = self.catalog().tables().cloned().collect();
        for table in &tables {
            let described_table = || self.described_table(table);
            let uses =
                |text: &Option<String>| text.as_deref().is_some_and(|text| self.uses_operator(text, table, operator));
            for (place, column) in table.columns.iter().enumerate() {
                if !column.dropped && uses(&column.generated) {
                    let described = format!("column {} of {}", column.name, described_table());
                    users.push((described, OperatorUser::Bound(User::Column(table.id, column.name.clone()))));
                }
                if !column.dropped && uses(&column.default) {
                    let described = format!("default value for column {} of {}", column.name, described_table());
                    users.push((described, OperatorUser::Default(table.id, column.name.clone())));
                }
                if !uses(&column.expression) {
                    continue;
                }
                if table.partitioned.as_ref().is_some_and(|partitioned| partitioned.keys.contains(&place)) {
                    users.push((described_table(), OperatorUser::Bound(User::Table(table.id))));
                }
                for index in table.indexes.iter().filter(|index| index.parent.is_none()) {
                    let is_part =
                        index.predicate == Some(place) || index.columns.iter().any(|part| part.column == place);
                    let described = format!("index {}", self.shown(&table.schema, &index.name));
                    if is_part && !users.iter().any(|(known, _)| *known == described) {
                        users.push((described, OperatorUser::Bound(User::Index(table.id, index.name.clone()))));
                    }
                }
            }
            for check in table.checks.iter().filter(|check| self.uses_operator(&check.condition, table, operator)) {
                let described = self.described_constraint(&check.name, table);
                users.push((described, OperatorUser::Check(table.id, check.name.clone())));
            }
            for policy in table.security.policies.iter().filter(|policy| uses(&policy.using) || uses(&policy.check)) {
                let described = format!("policy {} on {}", policy.name, described_table());
                users.push((described, OperatorUser::Policy(table.id, policy.name.clone())));
            }
        }
        for ty in self.catalog().types() {
            let UserTypeKind::Domain(domain) = &ty.kind else { continue };
            for check in domain.checks.iter().filter(|check| has_operator(&check.condition, &operator.symbol)) {
                let user = OperatorUser::Bound(User::Condition(ty.id, check.name.clone()));
                users.push((format!("constraint {}", check.name), user));
            }
        }
        let mut rules: Vec<_> = self.catalog().rules().cloned().collect();
        rules.sort_by_key(|rule| rule.id);
        for rule in rules {
            let has_symbol = |text: &String| text.contains(operator.symbol.as_str());
            let Ok(relation) = self.written_relation(rule.relation) else { continue };
            let uses = |session: &Self| {
                session.with_binder("", |binder| {
                    binder.check_rule(&relation, &rule)?;
                    Ok(binder.used_operators.contains(&operator.id))
                })
            };
            if rule.condition.iter().chain(&rule.actions).any(has_symbol) && uses(self).unwrap_or(false) {
                users.push((self.described_rule(&rule), OperatorUser::Rule(rule.id)));
            }
        }
        let mut views: Vec<_> = self.catalog().views().cloned().collect();
        views.sort_by_key(|view| view.id);
        for view in views.iter().filter(|view| view.query.contains(operator.symbol.as_str())) {
            let uses = self.with_binder("", |binder| {
                binder.ignores_policies = true;
                let bound = binder.view(view).map(drop);
                binder.needs.clear();
                bound.map(|()| binder.used_operators.contains(&operator.id))
            });
            if uses.unwrap_or(false) {
                users.push((self.described_view(view), OperatorUser::View(view.id)));
            }
        }
        users
    }

    /// Drops operators, with what uses them if that may go.
    ///
    /// # Errors
    /// 2BP01 if something uses one and has to stay.
    pub(super) fn drop_operators(&mut self, operators: &[Arc<UserOperator>], cascade: &mut Cascade) -> Result<()> {
        for operator in operators {
            let users = self.users_of_operator(operator);
            if !cascade.allows() && !users.is_empty() {
                let shown = self.described_operator(operator);
                let details: Vec<String> =
                    users.iter().map(|(described, _)| format!("{described} depends on {shown}")).collect();
                return Err(depended_on(&shown, &details));
            }
            for (described, user) in users {
                // It may have gone with another one.
                if self.drop_operator_user(user, cascade)? {
                    cascade.takes(described);
                }
            }
            self.change(vec![Change::DropOperator(operator.id)])?;
        }
        Ok(())
    }

    /// Drops operators for DROP OWNED, and tells what goes with them.
    pub(crate) fn drop_own_operators(&mut self, operators: &[Arc<UserOperator>], cascade: bool) -> Result<()> {
        let mut along = Cascade::new(cascade);
        self.drop_operators(operators, &mut along)?;
        self.tell_cascade(along);
        Ok(())
    }

    /// Drops a routine for DROP OWNED, and tells what goes with it.
    pub(crate) fn drop_own_routine(&mut self, routine: &Arc<Routine>, cascade: bool) -> Result<()> {
        let mut along = Cascade::new(cascade);
        self.drop_routine(routine, &mut along)?;
        self.tell_cascade(along);
        Ok(())
    }

    /// Drops what uses an operator; says whether it was there.
    fn drop_operator_user(&mut self, user: OperatorUser, cascade: &mut Cascade) -> Result<bool> {
        match user {
            OperatorUser::Bound(user) => self.drop_bound(user)?,
            OperatorUser::Rule(id) => {
                if !self.catalog().rules().any(|rule| rule.id == id) {
                    return Ok(false);
                }
                self.change(vec![Change::DropRule(id)])?;
            }
            OperatorUser::View(id) => {
                let Some(view) = self.catalog().view(id).cloned() else { return Ok(false) };
                let mut below = Cascade::new(true);
                self.drop_view(&view, &mut below, &[])?;
                cascade.append(below);
            }
            OperatorUser::Check(table, name) => {
                let Some(known) = self.catalog().table(table).cloned() else { return Ok(false) };
                self.lock_table(&known)?;
                let mut changed = (*self.current(table)?).clone();
                changed.checks.retain(|check| check.name != name);
                self.change(vec![Change::PutTable(changed)])?;
            }
            OperatorUser::Default(table, name) => {
                let Some(known) = self.catalog().table(table).cloned() else { return Ok(false) };
                self.lock_table(&known)?;
                let mut changed = (*self.current(table)?).clone();
                if let Some(place) = changed.column(&name) {
                    changed.columns[place].default = None;
                }
                self.change(vec![Change::PutTable(changed)])?;
            }
            OperatorUser::Policy(table, name) => {
                let Some(known) = self.catalog().table(table).cloned() else { return Ok(false) };
                let mut changed = (*known).clone();
                changed.security.policies.retain(|policy| policy.name != name);
                self.change(vec![Change::PutTable(changed)])?;
            }
        }
        Ok(true)
    }

    /// What uses the operators that call a routine, as messages show it.
    pub(super) fn told_by_operators(&self, operators: &[Arc<UserOperator>]) -> Vec<String> {
        let users =
            operators.iter().map(|operator| (self.described_operator(operator), self.users_of_operator(operator)));
        users
            .flat_map(|(shown, users)| {
                users.into_iter().map(move |(described, _)| format!("{described} depends on {shown}"))
            })
            .collect()
    }
}

/// Whether an expression has an operator of a symbol in it, or what may be one.
fn has_operator(text: &str, symbol: &str) -> bool {
    let is_symbol = |letter: char| "+-*/<>=~!@#%^&|`?".contains(letter);
    text.split(|letter: char| !is_symbol(letter)).any(|run| run == symbol)
}

#[cfg(test)]
mod tests {
    use super::has_operator;

    #[test]
    fn an_operator_is_a_whole_run_of_its_letters() {
        assert!(has_operator("VALUE ## 3", "##"));
        assert!(!has_operator("VALUE ### 3", "##"));
        assert!(!has_operator("VALUE", "##"));
    }
}

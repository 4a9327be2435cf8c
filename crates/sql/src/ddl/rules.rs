//! CREATE, ALTER, DROP and COMMENT ON RULE.

use std::ops::ControlFlow;
use std::sync::Arc;

use colibri_catalog::{Catalog, Change, Relation, Rule, View};
use colibri_syntax::tree::{Name, OnRules, QualifiedName};
use colibri_types::{Error, Result, SqlState, functions::quote_identifier};
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::renamed::Renamed;
use crate::session::Severity;

impl Session {
    pub(super) fn about_rules(&mut self, statement: &OnRules) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        match statement {
            OnRules::Create { or_replace, name, event, relation, condition, instead, actions } => {
                let (id, columns) = self.relation_of_rule(relation)?;
                if *event == 'r' {
                    return self.create_select_rule(
                        (*or_replace, name),
                        relation,
                        id,
                        (condition.is_some(), *instead),
                        actions,
                    );
                }
                if name.as_str() == "_RETURN" {
                    let message = "non-view rule for \"_RETURN\" must not be named \"_RETURN\"";
                    return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
                }
                let old = self.catalog().rules_of(id).into_iter().find(|rule| rule.name == *name);
                if old.is_some() && !or_replace {
                    let shown = relation.last().cloned().unwrap_or_default();
                    let message = format!("rule \"{name}\" for relation \"{shown}\" already exists");
                    return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
                }
                self.expect_rule_refers(*event, condition.as_deref(), actions)?;
                let condition = condition.as_ref().map(|text| self.rule_text(text, &columns, true)).transpose()?;
                let mut texts = Vec::with_capacity(actions.len());
                for action in actions {
                    texts.push(self.rule_text(action, &columns, false)?);
                }
                let id_of_rule = match &old {
                    Some(old) => old.id,
                    None => self.new_id()?,
                };
                let relation = self.written_relation(id)?;
                let rule = Rule {
                    id: id_of_rule,
                    name: name.clone(),
                    relation: id,
                    event: *event,
                    instead: *instead,
                    condition,
                    actions: texts,
                    state: 'O',
                };
                expect_returning_allowed(&rule)?;
                self.with_binder("", |binder| {
                    binder.check_rule(&relation, &rule)?;
                    match binder.params.is_empty() {
                        true => Ok(()),
                        false => Err(Error::new(SqlState::NO_SUCH_PARAMETER, "there is no parameter $1")),
                    }
                })?;
                self.change(vec![Change::PutRule(rule)])
            }
            OnRules::Drop { name, relation, if_exists } => {
                let found = match self.relation_of_rule(relation) {
                    Err(error) if *if_exists && error.state() == SqlState::NO_SUCH_TABLE => {
                        let message = format!("relation \"{}\" does not exist, skipping", relation.join("."));
                        self.notice(Severity::Notice, SqlState("00000"), message);
                        return Ok(());
                    }
                    found => found?.0,
                };
                match self.rule_named(found, name, relation) {
                    Err(_) if *if_exists => {
                        let shown = relation.join(".");
                        let message = format!("rule \"{name}\" for relation \"{shown}\" does not exist, skipping");
                        self.notice(Severity::Notice, SqlState("00000"), message);
                        Ok(())
                    }
                    rule => self.change(vec![Change::DropRule(rule?.id)]),
                }
            }
            OnRules::Rename { name, relation, to } => {
                let (id, _) = self.relation_of_rule(relation)?;
                let rule = self.rule_named(id, name, relation)?;
                if self.catalog().rules_of(id).iter().any(|rule| rule.name == *to) {
                    let shown = relation.last().cloned().unwrap_or_default();
                    let message = format!("rule \"{to}\" for relation \"{shown}\" already exists");
                    return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
                }
                self.change(vec![Change::PutRule(Rule { name: to.clone(), ..(*rule).clone() })])
            }
            OnRules::Enable { relation, name, state } => {
                let (id, _) = self.relation_of_rule(relation)?;
                let rule = self.rule_named(id, name, relation)?;
                self.change(vec![Change::PutRule(Rule { state: *state, ..(*rule).clone() })])
            }
            OnRules::Comment { name, relation, text } => {
                let (id, _) = self.relation_of_rule(relation)?;
                let rule = self.rule_named(id, name, relation)?;
                self.change(vec![Change::Comment(rule.id, 0, text.clone())])
            }
        }
    }

    /// A relation that may have rules, which the user has to own: its number, and its columns.
    fn relation_of_rule(&mut self, name: &QualifiedName) -> Result<(u32, Vec<CompactString>)> {
        let shown = name.last().cloned().unwrap_or_default();
        let found = self.relation_named(name)?.cloned();
        let Some(relation) = found else {
            let message = format!("relation \"{}\" does not exist", name.join("."));
            return Err(Error::new(SqlState::NO_SUCH_TABLE, message));
        };
        self.expect_owner_of(&relation)?;
        match &relation {
            Relation::Table(table) if table.materialized.is_none() => {
                let there = table.columns.iter().filter(|column| !column.dropped);
                Ok((table.id, there.map(|column| column.name.clone()).collect()))
            }
            Relation::View(view) => Ok((view.id, view.columns.clone())),
            other => {
                let message = format!("relation \"{shown}\" cannot have rules");
                let kind = match other {
                    Relation::Table(_) => "materialized views",
                    Relation::Sequence(_) => "sequences",
                    _ => "indexes",
                };
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .detail(format!("This operation is not supported for {kind}.")))
            }
        }
    }

    fn rule_named(&self, relation: u32, name: &Name, shown: &QualifiedName) -> Result<Arc<Rule>> {
        let found = self.catalog().rules_of(relation).into_iter().find(|rule| rule.name == *name);
        found.ok_or_else(|| {
            let shown = shown.last().cloned().unwrap_or_default();
            let message = format!("rule \"{name}\" for relation \"{shown}\" does not exist");
            Error::new(SqlState::NO_SUCH_OBJECT, message)
        })
    }

    /// OLD is nothing in rules of INSERT, and NEW is nothing in those of DELETE.
    fn expect_rule_refers(&self, event: char, condition: Option<&str>, actions: &[String]) -> Result<()> {
        let wrong = match event {
            'a' => "old",
            'd' => "new",
            _ => return Ok(()),
        };
        for text in condition.into_iter().chain(actions.iter().map(String::as_str)) {
            if names_of(text).iter().any(|name| name == wrong) {
                let (word, which) = if event == 'a' { ("INSERT", "OLD") } else { ("DELETE", "NEW") };
                let message = format!("ON {word} rule cannot use {which}");
                return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
            }
        }
        Ok(())
    }

    /// What a rule says, as it is kept: with schemas in front of relations, and columns in the place
    /// of `NEW.*` and `OLD.*`.
    fn rule_text(&mut self, text: &str, columns: &[CompactString], is_condition: bool) -> Result<String> {
        if crate::bind::Binder::has_names_of_rules(text) {
            return Err(Error::unsupported("a rule with a control character in it"));
        }
        let text = with_columns(text, columns);
        if is_condition {
            let mut condition = colibri_syntax::parse_expr(&text)?;
            while let ast::Expr::Nested(inner) = condition {
                condition = *inner;
            }
            self.with_schemas(&mut condition)?;
            self.with_binder("", |binder| {
                binder.qualify_types(&mut condition);
                binder.qualify_sequences(&mut condition);
                Ok(())
            })?;
            return Ok(condition.to_string());
        }
        let mut statement = match colibri_syntax::parse(&text)?.pop() {
            Some(colibri_syntax::tree::Statement::Relational(statement)) => *statement,
            _ => return Err(Error::unsupported("a rule that does something other than INSERT, UPDATE and DELETE")),
        };
        if !matches!(statement, ast::Statement::Insert(_) | ast::Statement::Update(_) | ast::Statement::Delete(_)) {
            return Err(Error::unsupported("a rule that does something other than INSERT, UPDATE and DELETE"));
        }
        self.with_schemas(&mut statement)?;
        self.with_all_columns(&mut statement)?;
        self.with_binder("", |binder| {
            binder.qualify_types(&mut statement);
            binder.qualify_sequences(&mut statement);
            Ok(())
        })?;
        Ok(statement.to_string())
    }

    /// Writes the columns that an INSERT is about, and what `*` stands for in RETURNING: the rule goes
    /// on meaning these when the relation gets more of them.
    fn with_all_columns(&mut self, statement: &mut ast::Statement) -> Result<()> {
        let (name, alias) = match statement {
            ast::Statement::Insert(insert) => match &insert.table {
                ast::TableObject::TableName(name) => {
                    (name.clone(), insert.table_alias.as_ref().map(|alias| alias.alias.clone()))
                }
                _ => return Ok(()),
            },
            ast::Statement::Update(update) => match &update.table.relation {
                ast::TableFactor::Table { name, alias, .. } => {
                    (name.clone(), alias.as_ref().map(|alias| alias.name.clone()))
                }
                _ => return Ok(()),
            },
            ast::Statement::Delete(delete) => match &delete.from {
                ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables) => {
                    match tables.first().map(|table| &table.relation) {
                        Some(ast::TableFactor::Table { name, alias, .. }) => {
                            (name.clone(), alias.as_ref().map(|alias| alias.name.clone()))
                        }
                        _ => return Ok(()),
                    }
                }
            },
            _ => return Ok(()),
        };
        let Some(columns) = self.columns_of_relation(&name)? else { return Ok(()) };
        let named = |name: &CompactString| ident(name);
        if let ast::Statement::Insert(insert) = statement
            && insert.columns.is_empty()
            && let Some(source) = &insert.source
        {
            let given = match &*source.body {
                ast::SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
                ast::SetExpr::Select(select) => {
                    let is_one = |item: &ast::SelectItem| {
                        matches!(item, ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. })
                    };
                    select.projection.iter().all(is_one).then_some(select.projection.len())
                }
                _ => None,
            };
            if let Some(given) = given.filter(|given| *given <= columns.len()) {
                let names = columns.iter().take(given);
                insert.columns = names.map(|name| ast::ObjectName::from(vec![named(name)])).collect();
            }
        }
        let inside = alias.or_else(|| name.0.last().and_then(|part| part.as_ident()).cloned());
        let returning = match statement {
            ast::Statement::Insert(insert) => &mut insert.returning,
            ast::Statement::Update(update) => &mut update.returning,
            ast::Statement::Delete(delete) => &mut delete.returning,
            _ => return Ok(()),
        };
        let items = returning.take().unwrap_or_default();
        for item in items {
            let is_all = match &item {
                ast::SelectItem::Wildcard(_) => true,
                ast::SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(of), _) => {
                    match (&of.0[..], &inside) {
                        ([part], Some(inside)) => {
                            part.as_ident().is_some_and(|part| crate::bind::fold(part) == crate::bind::fold(inside))
                        }
                        _ => false,
                    }
                }
                _ => false,
            };
            let all = columns.iter().map(|name| match &inside {
                Some(inside) => ast::Expr::CompoundIdentifier(vec![inside.clone(), named(name)]),
                None => ast::Expr::Identifier(named(name)),
            });
            returning.get_or_insert_default().extend(match is_all {
                true => all.map(ast::SelectItem::UnnamedExpr).collect(),
                false => vec![item],
            });
        }
        Ok(())
    }

    /// The columns of a table or view.
    fn columns_of_relation(&mut self, name: &ast::ObjectName) -> Result<Option<Vec<CompactString>>> {
        let parts: Vec<CompactString> =
            name.0.iter().filter_map(|part| part.as_ident()).map(crate::bind::fold).collect();
        Ok(match self.relation_named(&parts)? {
            Some(Relation::Table(table)) => Some(table.live_columns().map(|(_, column)| column.name.clone()).collect()),
            Some(Relation::View(view)) => Some(view.columns.clone()),
            _ => None,
        })
    }

    /// A table's or view's name as SQL, with its schema.
    pub(super) fn written_relation(&self, id: u32) -> Result<String> {
        let (schema, name) = match (self.catalog().table(id), self.catalog().view(id)) {
            (Some(table), _) => (&table.schema, &table.name),
            (None, Some(view)) => (&view.schema, &view.name),
            (None, None) => return Err(Error::internal("a rule has no relation")),
        };
        Ok(format!("{}.{}", quote_identifier(schema), quote_identifier(name)))
    }

    /// A rule as messages show it.
    pub(super) fn described_rule(&self, rule: &Rule) -> String {
        let on = match (self.catalog().table(rule.relation), self.catalog().view(rule.relation)) {
            (Some(table), _) => self.described_table(table),
            (None, Some(view)) => self.described_view(view),
            (None, None) => "relation".to_owned(),
        };
        format!("rule {} on {on}", quote_identifier(&rule.name))
    }

    /// The rules of other relations that name a table or view.
    pub(super) fn rules_naming(&self, id: u32) -> Vec<Arc<Rule>> {
        let mut found: Vec<Arc<Rule>> = self.catalog().rules().filter(|rule| self.names(rule, id)).cloned().collect();
        found.sort_by_key(|rule| rule.id);
        found
    }

    /// Whether the texts of a rule name a relation.
    fn names(&self, rule: &Rule, id: u32) -> bool {
        let name = match (self.catalog().table(id), self.catalog().view(id)) {
            (Some(table), _) => &table.name,
            (None, Some(view)) => &view.name,
            (None, None) => return false,
        };
        let texts = || rule.condition.iter().chain(&rule.actions);
        if !texts().any(|text| text.contains(name.replace('"', "\"\"").as_str())) {
            return false;
        }
        texts().any(|text| {
            relations_of(text).iter().any(|parts| {
                let found = match &parts[..] {
                    [schema, name] => self.catalog().relation(schema, name),
                    _ => None,
                };
                match found {
                    Some(Relation::Table(table)) => table.id == id,
                    Some(Relation::View(view)) => view.id == id,
                    _ => false,
                }
            })
        })
    }

    /// The rules that a column of a table is needed by: of the table's own those that name it of OLD
    /// and NEW, and any that name the table and the column.
    pub(super) fn rules_on_column(&self, id: u32, name: &str) -> Vec<Arc<Rule>> {
        let mut found: Vec<Arc<Rule>> = Vec::new();
        for rule in self.catalog().rules() {
            let is_own = rule.relation == id && texts_of(rule).any(|text| refers_to(text, name));
            let is_other = || self.names(rule, id) && texts_of(rule).any(|text| has_word(text, name));
            if is_own || is_other() {
                found.push(Arc::clone(rule));
            }
        }
        found.sort_by_key(|rule| rule.id);
        found
    }

    /// The rules that name a relation, or a column of it, which gets another name; as they are to be.
    pub(super) fn rules_with_renamed(
        &self,
        id: u32,
        (schema, name): (&str, &str),
        renamed: &Renamed<'_>,
        column: Option<(&str, &str)>,
    ) -> Result<Vec<Rule>> {
        let mut all = Vec::new();
        for rule in self.catalog().rules() {
            let mut changed = (**rule).clone();
            if let Some((from, to)) = column.filter(|_| rule.relation == id) {
                for text in changed.condition.iter_mut().chain(&mut changed.actions) {
                    *text = renamed_of_rows(text, from, to)?;
                }
            }
            if self.names(rule, id) {
                if let Some(condition) = &mut changed.condition {
                    let mut expr = crate::statement::parse_expr(condition)?;
                    if super::renamed::write(&mut expr, (schema, name), renamed) {
                        *condition = expr.to_string();
                    }
                }
                for action in &mut changed.actions {
                    let Some(colibri_syntax::tree::Statement::Relational(mut statement)) =
                        colibri_syntax::parse(action)?.pop()
                    else {
                        continue;
                    };
                    if !rename_target(&mut statement, (schema, name), renamed, column) {
                        super::renamed::write(&mut *statement, (schema, name), renamed);
                    }
                    *action = statement.to_string();
                }
            }
            if changed != **rule {
                all.push(changed);
            }
        }
        Ok(all)
    }

    /// Refuses a change behind which rules cannot be bound.
    pub(super) fn expect_rules_bound(&self, rules: &[Rule], what: &str) -> Result<()> {
        for rule in rules {
            let relation = self.written_relation(rule.relation)?;
            let is_gone = |error: Error| {
                let message = format_args!("{what} used by a rule");
                Error::unsupported(message).detail(format!("{}: {}", self.described_rule(rule), error.report().message))
            };
            self.with_binder("", |binder| binder.check_rule(&relation, rule)).map_err(is_gone)?;
        }
        Ok(())
    }

    fn with_schemas<T: ast::VisitMut>(&mut self, part: &mut T) -> Result<()> {
        let mut names = Vec::new();
        _ = ast::visit_relations_mut(part, |name| {
            names.push(name.clone());
            ControlFlow::<()>::Continue(())
        });
        let mut qualified = Vec::with_capacity(names.len());
        for name in names {
            let parts: Vec<CompactString> =
                name.0.iter().filter_map(|part| part.as_ident()).map(crate::bind::fold).collect();
            let found = self.relation_named(&parts)?.cloned();
            let schema = match found {
                Some(Relation::Table(table)) => Some((table.schema.clone(), table.name.clone())),
                Some(Relation::View(view)) => Some((view.schema.clone(), view.name.clone())),
                _ => None,
            };
            qualified.push(schema);
        }
        let mut qualified = qualified.into_iter();
        _ = ast::visit_relations_mut(part, |name| {
            if let Some(Some((schema, relation))) = qualified.next() {
                let parts = [schema, relation].map(|part| ident(&part));
                *name = ast::ObjectName::from(parts.to_vec());
            }
            ControlFlow::<()>::Continue(())
        });
        Ok(())
    }

    /// `CREATE RULE "_RETURN" AS ON SELECT …`: a view is what has such a rule.
    fn create_select_rule(
        &mut self,
        (or_replace, name): (bool, &Name),
        relation: &QualifiedName,
        id: u32,
        (has_condition, instead): (bool, bool),
        actions: &[String],
    ) -> Result<()> {
        let wrong = |message: &str| Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        let [query] = actions else {
            return match actions {
                [] => wrong("INSTEAD NOTHING rules on SELECT are not implemented"),
                _ => wrong("multiple actions for rules on SELECT are not implemented"),
            };
        };
        if !instead || colibri_syntax::parse_query(query).is_err() {
            return wrong("rules on SELECT must have action INSTEAD SELECT");
        }
        if has_condition {
            return wrong("event qualifications are not implemented for rules on SELECT");
        }
        let view = self.catalog().view(id).cloned();
        if let Some(view) = &view {
            self.expect_columns_of(view, query)?;
            if !or_replace {
                let message = format!("\"{}\" is already a view", view.name);
                return Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message));
            }
        }
        if name.as_str() != "_RETURN" {
            let shown = relation.last().cloned().unwrap_or_default();
            let message = format!("view rule for \"{shown}\" must be named \"_RETURN\"");
            return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
        }
        let Some(view) = view else {
            return Err(Error::unsupported("a table that becomes a view by a rule: use CREATE VIEW"));
        };
        let text = format!(
            "CREATE OR REPLACE VIEW {}.{} AS {query}",
            quote_identifier(&view.schema),
            quote_identifier(&view.name)
        );
        match colibri_syntax::parse(&text)?.pop() {
            Some(colibri_syntax::tree::Statement::Relational(statement)) => self.ddl(&statement).map(drop)?,
            _ => return Err(Error::internal("a view's text is no view")),
        }
        // The options are the view's, and the rule says nothing of them.
        let Some(new) = self.catalog().view(id).cloned() else { return Ok(()) };
        if (new.check_option, new.invoker) == (view.check_option, view.invoker) {
            return Ok(());
        }
        let new = View { check_option: view.check_option, invoker: view.invoker, ..(*new).clone() };
        self.change(vec![Change::PutView(new)])
    }

    /// Refuses a query that does not give the columns of a view.
    fn expect_columns_of(&mut self, view: &Arc<View>, query: &str) -> Result<()> {
        let query = colibri_syntax::parse_query(query)?;
        let (given, known) = self.with_binder("", |binder| {
            binder.ignores_policies = true;
            let given = binder.query(&query)?.columns;
            let known = binder.view(view)?.columns;
            binder.forget_reads();
            Ok((given, known))
        })?;
        let wrong = |message: String| Error::new(SqlState::BAD_OBJECT_DEFINITION, message);
        for (at, column) in given.iter().enumerate() {
            let place = at + 1;
            let (Some(name), Some(of_view)) = (view.columns.get(at), known.get(at)) else {
                return Err(wrong("SELECT rule's target list has too many entries".to_owned()));
            };
            if column.name != *name {
                let message =
                    format!("SELECT rule's target entry {place} has different column name from column \"{name}\"");
                return Err(wrong(message).detail(format!("SELECT target entry is named \"{}\".", column.name)));
            }
            if column.ty.ty != of_view.ty.ty {
                let message = format!("SELECT rule's target entry {place} has different type from column \"{name}\"");
                let (given, known) = (column.ty.ty, of_view.ty.ty);
                let detail = format!("SELECT target entry has type {given}, but column has type {known}.");
                return Err(wrong(message).detail(detail));
            }
            if column.ty != of_view.ty {
                let message = format!("SELECT rule's target entry {place} has different size from column \"{name}\"");
                let (given, known) = (column.ty, of_view.ty);
                let detail = format!("SELECT target entry has type {given}, but column has type {known}.");
                return Err(wrong(message).detail(detail));
            }
        }
        match given.len() < view.columns.len() {
            true => Err(wrong("SELECT rule's target list has too few entries".to_owned())),
            false => Ok(()),
        }
    }
}

/// A name as SQL writes it.
fn ident(name: &str) -> ast::Ident {
    if quote_identifier(name) == name { ast::Ident::new(name) } else { ast::Ident::with_quote('"', name) }
}

/// Refuses RETURNING where a rule cannot have it.
fn expect_returning_allowed(rule: &Rule) -> Result<()> {
    let returns = |text: &String| match colibri_syntax::parse(text).ok().and_then(|mut all| all.pop()) {
        Some(colibri_syntax::tree::Statement::Relational(statement)) => match &*statement {
            ast::Statement::Insert(insert) => insert.returning.is_some(),
            ast::Statement::Update(update) => update.returning.is_some(),
            ast::Statement::Delete(delete) => delete.returning.is_some(),
            _ => false,
        },
        _ => false,
    };
    let wrong = |message: &str| Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    match rule.actions.iter().filter(|action| returns(action)).count() {
        0 => Ok(()),
        _ if rule.condition.is_some() => wrong("RETURNING lists are not supported in conditional rules"),
        _ if !rule.instead => wrong("RETURNING lists are not supported in non-INSTEAD rules"),
        1 => Ok(()),
        _ => wrong("cannot have multiple RETURNING lists in a rule"),
    }
}

fn texts_of(rule: &Rule) -> impl Iterator<Item = &String> {
    rule.condition.iter().chain(&rule.actions)
}

/// Whether a text of a rule is what it does, and no condition.
fn is_action(text: &str) -> bool {
    ["INSERT ", "UPDATE ", "DELETE "].iter().any(|word| text.starts_with(word))
}

/// The names of relations in a text of a rule.
fn relations_of(text: &str) -> Vec<Vec<CompactString>> {
    let mut found = Vec::new();
    let mut note = |name: &ast::ObjectName| {
        found.push(name.0.iter().filter_map(|part| part.as_ident()).map(crate::bind::fold).collect());
        ControlFlow::<()>::Continue(())
    };
    if !is_action(text) {
        if let Ok(expr) = crate::statement::parse_expr(text) {
            _ = ast::visit_relations(&expr, &mut note);
        }
    } else if let Ok(statements) = colibri_syntax::parse(text) {
        for statement in &statements {
            if let colibri_syntax::tree::Statement::Relational(statement) = statement {
                _ = ast::visit_relations(&**statement, &mut note);
            }
        }
    }
    found
}

/// Whether a text has a name in it.
fn has_word(text: &str, name: &str) -> bool {
    text.to_ascii_lowercase().contains(&name.replace('"', "\"\"").to_ascii_lowercase())
}

/// Whether `ident` is a column of OLD or NEW.
fn is_of_rows(parts: &[ast::Ident]) -> Option<&ast::Ident> {
    match parts {
        [which, column] if matches!(crate::bind::fold(which).as_str(), "old" | "new") => Some(column),
        _ => None,
    }
}

/// Calls something with all expressions of a text of a rule, and gives the text behind that.
fn with_expressions(text: &str, each: &mut dyn FnMut(&mut ast::Expr)) -> Result<String> {
    let mut visit = |expr: &mut ast::Expr| {
        each(expr);
        ControlFlow::<()>::Continue(())
    };
    if !is_action(text) {
        let mut expr = crate::statement::parse_expr(text)?;
        _ = ast::visit_expressions_mut(&mut expr, &mut visit);
        return Ok(expr.to_string());
    }
    match colibri_syntax::parse(text)?.pop() {
        Some(colibri_syntax::tree::Statement::Relational(mut statement)) => {
            _ = ast::visit_expressions_mut(&mut *statement, &mut visit);
            Ok(statement.to_string())
        }
        _ => Ok(text.to_owned()),
    }
}

/// Whether a text of a rule names a column of OLD or NEW.
fn refers_to(text: &str, name: &str) -> bool {
    let mut found = false;
    let result = with_expressions(text, &mut |expr| {
        if let ast::Expr::CompoundIdentifier(parts) = expr {
            found |= is_of_rows(parts).is_some_and(|column| crate::bind::fold(column) == name);
        }
    });
    found || result.is_err()
}

/// A text of a rule with another name for a column of OLD and NEW.
fn renamed_of_rows(text: &str, from: &str, to: &str) -> Result<String> {
    if !refers_to(text, from) {
        return Ok(text.to_owned());
    }
    with_expressions(text, &mut |expr| {
        if let ast::Expr::CompoundIdentifier(parts) = expr
            && is_of_rows(parts).is_some_and(|column| crate::bind::fold(column) == from)
        {
            parts[1] = ident(to);
        }
    })
}

/// Gives the target of a statement its new name, and a column of it: where the statement writes to
/// it, and, if it names no other relation, everywhere. Says whether that is all there is to do.
fn rename_target(
    statement: &mut ast::Statement,
    (schema, name): (&str, &str),
    renamed: &Renamed<'_>,
    column: Option<(&str, &str)>,
) -> bool {
    let is_meant = |object: &ast::ObjectName| matches!(crate::bind::qualified(object), Ok((Some(of), named)) if of == schema && named == name);
    let mut relations = 0;
    _ = ast::visit_relations(statement, |_| {
        relations += 1;
        ControlFlow::<()>::Continue(())
    });
    let new_column = |ident_of: &mut ast::Ident| {
        if let Some((from, to)) = column
            && crate::bind::fold(ident_of) == from
        {
            *ident_of = ident(to);
        }
    };
    let new_name = |object: &mut ast::ObjectName| {
        if let Some(part) = object.0.first_mut()
            && let ast::ObjectNamePart::Identifier(ident_of) = part
        {
            new_column(ident_of);
        }
    };
    let is_written = match statement {
        ast::Statement::Insert(insert) => {
            let ast::TableObject::TableName(object) = &mut insert.table else { return false };
            if !is_meant(object) {
                return false;
            }
            match renamed {
                Renamed::Relation(to) => *object = ast::ObjectName::from(vec![ident(schema), ident(to)]),
                Renamed::Schema(to) => *object = ast::ObjectName::from(vec![ident(to), ident(name)]),
                Renamed::Columns(_) => {}
            }
            insert.columns.iter_mut().for_each(new_name);
            true
        }
        ast::Statement::Update(update) => {
            let is_it = matches!(&update.table.relation, ast::TableFactor::Table { name, .. } if is_meant(name));
            if is_it {
                for assignment in &mut update.assignments {
                    match &mut assignment.target {
                        ast::AssignmentTarget::ColumnName(object) => new_name(object),
                        ast::AssignmentTarget::Tuple(objects) => objects.iter_mut().for_each(new_name),
                    }
                }
            }
            is_it
        }
        ast::Statement::Delete(delete) => match &delete.from {
            ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables) => {
                let first = tables.first().map(|table| &table.relation);
                matches!(first, Some(ast::TableFactor::Table { name, .. }) if is_meant(name))
            }
        },
        _ => false,
    };
    let is_all = is_written && relations == 1 && column.is_some();
    if is_all {
        _ = ast::visit_expressions_mut(statement, |expr| {
            match expr {
                ast::Expr::Identifier(ident_of) => new_column(ident_of),
                ast::Expr::CompoundIdentifier(parts) if is_of_rows(parts).is_none() => {
                    if let Some(last) = parts.last_mut() {
                        new_column(last);
                    }
                }
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
    }
    is_all
}

/// The first parts of names of two parts in a text.
fn names_of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    words(text, &mut |word, is_behind_point, rest| {
        if !is_behind_point && rest.trim_ascii_start().starts_with('.') {
            found.push(word.to_ascii_lowercase());
        }
        None
    });
    found
}

/// A text with columns in the place of `NEW.*` and `OLD.*`.
fn with_columns(text: &str, columns: &[CompactString]) -> String {
    words(text, &mut |word, is_behind_point, rest| {
        let which = word.to_ascii_lowercase();
        if is_behind_point || !matches!(which.as_str(), "new" | "old") {
            return None;
        }
        let left = rest.trim_ascii_start().strip_prefix('.')?.trim_ascii_start().strip_prefix('*')?;
        let all: Vec<String> = columns.iter().map(|column| format!("{which}.{}", quote_identifier(column))).collect();
        Some((all.join(", "), left.len()))
    })
}

/// What a word becomes, and how many bytes are left behind it.
type Replaced = Option<(String, usize)>;

/// Goes through the words of a text that are neither in strings nor quoted. The function is given a
/// word, whether a point stands in front of it, and what is behind it.
fn words(text: &str, replace: &mut dyn FnMut(&str, bool, &str) -> Replaced) -> String {
    let (mut out, mut at, mut last) = (String::with_capacity(text.len()), 0, ' ');
    while let Some(letter) = text[at..].chars().next() {
        if matches!(letter, '\'' | '"') {
            let end = text[at + 1..].find(letter).map_or(text.len(), |end| at + end + 2);
            out.push_str(&text[at..end]);
            (at, last) = (end, letter);
            continue;
        }
        if letter.is_ascii_alphanumeric() || letter == '_' || !letter.is_ascii() {
            let is_part =
                |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$') || !letter.is_ascii();
            let end = text[at..].find(|letter| !is_part(letter)).map_or(text.len(), |end| at + end);
            match replace(&text[at..end], last == '.', &text[end..]) {
                Some((replacement, left)) => {
                    out.push_str(&replacement);
                    at = text.len() - left;
                }
                None => {
                    out.push_str(&text[at..end]);
                    at = end;
                }
            }
            last = 'a';
            continue;
        }
        out.push(letter);
        at += letter.len_utf8();
        if !letter.is_ascii_whitespace() {
            last = letter;
        }
    }
    out
}

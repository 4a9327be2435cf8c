//! CREATE, ALTER, DROP and COMMENT ON RULE.

use std::ops::ControlFlow;
use std::sync::Arc;

use colibri_catalog::{Catalog, Change, Relation, Rule, View};
use colibri_syntax::tree::{Name, OnRules, QualifiedName};
use colibri_types::{Error, Result, SqlState, functions::quote_identifier};
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
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
                    Err(error) if *if_exists => {
                        let message = format!("{}, skipping", error.report().message);
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
        let text = with_columns(text, columns);
        if is_condition {
            let mut condition = colibri_syntax::parse_expr(&text)?;
            self.with_schemas(&mut condition)?;
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
        Ok(statement.to_string())
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
                let parts = [schema, relation].map(|part| ast::Ident::with_quote('"', part.as_str()));
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

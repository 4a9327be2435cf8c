//! Rules of tables and views: a statement that writes to a relation with rules becomes a statement
//! with several parts that write.
//!
//! ```text
//! INSERT INTO t …        WITH "rule 1" AS (INSERT INTO log SELECT … FROM (rows) AS "rows"), …
//!   ON INSERT DO ALSO ─►  INSERT INTO t …
//! ```
//!
//! The *rows* of a statement are a query of its own that has, for each row that the statement is
//! about, the values before (`"old a"`) and behind it (`"new a"`). What a rule does is joined with
//! these, in the place of OLD and NEW. The statement itself is left out if a rule without a condition
//! stands instead of it, and is about the rows that fulfil no condition of such rules otherwise.
//!
//! Everything is done with texts, which are parsed again at the end: so nothing behind this file
//! knows of rules.
//!
//! Rules run with the rights of the owner of their relation; the rows are the user's
//! (`rule_rights`).
//!
//! Not done: the parts see the database as it was before the statement, while PostgreSQL runs one
//! after the other. What a rule does is refused if it looks at a relation that is written to in front
//! of it.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use colibri_catalog::cluster::{Privileges, RoleId};
use colibri_catalog::{Relation, Rule};
use colibri_syntax::tree::Statement;
use colibri_types::{ColumnType, Error, Result, SqlState, Type, functions::quote_identifier};
use compact_str::CompactString;
use sqlparser::ast;

use super::view_triggers::has_instead;
use super::{Binder, Writing, fold};

/// The rows of a statement, in what its rules do.
const ROWS: &str = "\"\u{1}rows\"";
/// What the names of parts begin with.
const PART: &str = "\u{1}rule ";

/// A statement in the place of another one.
pub struct Rewritten {
    /// The statement.
    pub statement: ast::Statement,
    /// The event of the one that it stands for: `a`, `w` or `d`.
    pub event: char,
    /// The owners of the rules that its main part is of, from the outermost inwards.
    pub owners: Vec<RoleId>,
}

/// A part of a statement as it becomes.
struct Piece {
    event: char,
    /// The number of the relation that it writes to.
    relation: Option<u32>,
    text: String,
    is_original: bool,
    /// It gives the rows of RETURNING.
    returns: bool,
    /// The owners of the rules that it is of, from the outermost inwards.
    owners: Vec<RoleId>,
}

/// A relation that is written to, with an event, and the owner of its rules.
struct Above {
    relation: u32,
    event: char,
    owner: RoleId,
}

/// A column of the relation that is written to.
struct Column {
    name: CompactString,
    ty: ColumnType,
    /// What an INSERT without it gives it, as SQL.
    default: String,
}

/// A relation with rules.
struct Target {
    id: u32,
    name: CompactString,
    columns: Vec<Column>,
    rules: Vec<Arc<Rule>>,
    owner: RoleId,
    /// It is a view, without triggers that stand for the statement.
    is_plain_view: bool,
}

impl Target {
    fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// What OLD and NEW are, as SQL, by a column's place.
type Row<'r> = &'r dyn Fn(bool, usize) -> Option<String>;

fn parsed(text: &str) -> Result<ast::Statement> {
    match colibri_syntax::parse(text)?.pop() {
        Some(Statement::Relational(statement)) => Ok(*statement),
        _ => Err(Error::internal(format_args!("no statement that a rule can do: {text}"))),
    }
}

fn event_of(statement: &ast::Statement) -> Option<char> {
    Some(match statement {
        ast::Statement::Insert(_) => 'a',
        ast::Statement::Update(_) => 'w',
        ast::Statement::Delete(_) => 'd',
        _ => return None,
    })
}

/// The name of what a statement writes to, and the name that it has inside.
fn target_of(statement: &ast::Statement) -> Option<(&ast::ObjectName, Option<&ast::Ident>)> {
    fn named(table: &ast::TableWithJoins) -> Option<(&ast::ObjectName, Option<&ast::Ident>)> {
        match &table.relation {
            ast::TableFactor::Table { name, alias, .. } => Some((name, alias.as_ref().map(|alias| &alias.name))),
            _ => None,
        }
    }
    match statement {
        ast::Statement::Insert(insert) => match &insert.table {
            ast::TableObject::TableName(name) => Some((name, insert.table_alias.as_ref().map(|alias| &alias.alias))),
            _ => None,
        },
        ast::Statement::Update(update) => named(&update.table),
        ast::Statement::Delete(delete) => match &delete.from {
            ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables) => named(tables.first()?),
        },
        ast::Statement::Merge(merge) => match &merge.table {
            ast::TableFactor::Table { name, alias, .. } => Some((name, alias.as_ref().map(|alias| &alias.name))),
            _ => None,
        },
        _ => None,
    }
}

/// The number of a table or view.
fn id_of(relation: &Relation) -> Option<u32> {
    match relation {
        Relation::Table(table) => Some(table.id),
        Relation::View(view) => Some(view.id),
        _ => None,
    }
}

fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// Puts what OLD and NEW are in their place, in all expressions of something.
fn substitute<T: ast::VisitMut>(part: &mut T, target: &Target, row: Row<'_>) -> Result<()> {
    let mut failed = None;
    _ = ast::visit_expressions_mut(part, |expr| {
        let ast::Expr::CompoundIdentifier(parts) = expr else { return ControlFlow::Continue(()) };
        let [which, column] = &parts[..] else { return ControlFlow::Continue(()) };
        let is_new = match fold(which).as_str() {
            "new" => true,
            "old" => false,
            _ => return ControlFlow::Continue(()),
        };
        let name = fold(column);
        let found = target.place(&name).and_then(|place| row(is_new, place));
        let result = match found {
            Some(text) => colibri_syntax::parse_expr(&text).map(|value| *expr = ast::Expr::Nested(Box::new(value))),
            None => {
                let message = format!("column {}.{name} does not exist", if is_new { "new" } else { "old" });
                Err(Error::new(SqlState::NO_SUCH_COLUMN, message))
            }
        };
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    failed.map_or(Ok(()), Err)
}

/// OLD and NEW as columns of the rows.
fn of_rows(event: char, target: &Target) -> impl Fn(bool, usize) -> Option<String> + '_ {
    move |is_new, place| {
        let is_there = if is_new { event != 'd' } else { event != 'a' };
        let name = format!("{} {}", if is_new { "new" } else { "old" }, target.columns[place].name);
        is_there.then(|| format!("{ROWS}.{}", quote_identifier(&name)))
    }
}

/// A value as one of a column. One that is too long for the column is left as it is, so that it is an
/// error where it is written, and is not cut.
fn cast(value: &str, ty: ColumnType) -> String {
    let of_any_length = |ty: Type| match ty {
        Type::Char => Some("bpchar"),
        Type::Varchar => Some("varchar"),
        Type::Bit | Type::VarBit => Some("bit varying"),
        _ => None,
    };
    let named = match ty.ty {
        _ if ty.domain.is_some() => ty.to_string(),
        Type::Array(_) => match ty.ty.element().and_then(of_any_length) {
            Some(element) => format!("{element}[]"),
            None => ty.to_string(),
        },
        plain => of_any_length(plain).map_or_else(|| ty.to_string(), str::to_owned),
    };
    format!("CAST(({value}) AS {named})")
}

impl Binder<'_> {
    /// Whether any relation has rules.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.catalog.has_rules()
    }

    /// What a statement becomes if what it writes to has rules.
    ///
    /// # Errors
    /// What rules cannot be combined with; mistakes of what they do.
    pub fn rewritten_by_rules(&mut self, statement: &ast::Statement) -> Result<Option<Rewritten>> {
        let (with, inner) = match statement {
            ast::Statement::Query(query) => match &*query.body {
                ast::SetExpr::Insert(inner)
                | ast::SetExpr::Update(inner)
                | ast::SetExpr::Delete(inner)
                | ast::SetExpr::Merge(inner) => (query.with.as_ref(), inner),
                _ => {
                    self.refuse_rules_in(query.with.as_ref())?;
                    return Ok(None);
                }
            },
            other => (None, other),
        };
        self.refuse_rules_in(with)?;
        if let (ast::Statement::Merge(_), Some((name, _))) = (inner, target_of(inner))
            && let Some(Relation::Table(table)) = self.relation(name)?
            && !self.catalog.rules_of(table.id).is_empty()
        {
            let message = format!("cannot execute MERGE on relation \"{}\"", table.name);
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .detail("MERGE is not supported for relations with rules."));
        }
        let Some(event) = event_of(inner) else { return Ok(None) };
        let Some(target) = self.target_with_rules(inner, event)? else { return Ok(None) };
        let mut pieces = Vec::new();
        self.apply_rules(inner, event, &target, &mut Vec::new(), &mut pieces)?;
        let has_original = pieces.iter().position(|piece| piece.is_original);
        let has_returning = match inner {
            ast::Statement::Insert(insert) => insert.returning.is_some(),
            ast::Statement::Update(update) => update.returning.is_some(),
            ast::Statement::Delete(delete) => delete.returning.is_some(),
            _ => false,
        };
        if has_original.is_none() && has_returning && !pieces.iter().any(|piece| piece.returns) {
            let word = target.rules.first().map_or("INSERT", |rule| rule.word());
            let message = format!("cannot perform {word} RETURNING on relation \"{}\"", target.name);
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .hint(format!("You need an unconditional ON {word} DO INSTEAD rule with a RETURNING clause.")));
        }
        let returns = pieces.iter().position(|piece| piece.returns);
        let main = has_original.or(returns).or_else(|| pieces.iter().rposition(|piece| piece.event == event));
        let (main, owners) = match main.map(|at| pieces.remove(at)) {
            Some(piece) => (piece.text, piece.owners),
            None => ("SELECT WHERE false".to_owned(), Vec::new()),
        };
        let mut text = match with {
            Some(with) => with.to_string(),
            None => String::new(),
        };
        for (at, piece) in pieces.iter().enumerate() {
            let lead = if text.is_empty() { "WITH" } else { "," };
            _ = write!(text, "{lead} \"{PART}{at}\" AS ({})", piece.text);
        }
        self.rule_parts = pieces.into_iter().map(|piece| piece.owners).collect();
        let text = format!("{text} {main}");
        // The user has to be allowed to do what the rules stand for.
        if has_original.is_none() {
            let schema = match target_of(inner).map(|(name, _)| self.relation(name)).transpose()?.flatten() {
                Some(Relation::Table(table)) => table.schema.clone(),
                Some(Relation::View(view)) => view.schema.clone(),
                _ => CompactString::default(),
            };
            let privilege = match event {
                'a' => Privileges::INSERT,
                'w' => Privileges::UPDATE,
                _ => Privileges::DELETE,
            };
            self.need(target.id, &schema, privilege);
        }
        Ok(Some(Rewritten { statement: parsed(&text)?, event, owners }))
    }

    /// The owners of the rules that a part of a rewritten statement is of.
    pub(super) fn owners_of_part(&self, name: &str) -> Vec<RoleId> {
        let number = name.strip_prefix(PART).and_then(|number| number.parse::<usize>().ok());
        number.and_then(|number| self.rule_parts.get(number)).cloned().unwrap_or_default()
    }

    /// Whether a query in FROM is the rows that a rule's action is about, by its name.
    pub(super) fn is_rows(&self, alias: &ast::Ident) -> bool {
        self.rule.is_some() && ROWS.trim_matches('"') == alias.value
    }

    /// Whether a text has the name that only the rows of a statement may have.
    #[must_use]
    pub fn has_names_of_rules(text: &str) -> bool {
        text.contains(ROWS.trim_matches('"'))
    }

    /// Refuses a rule whose condition or actions cannot be bound.
    ///
    /// # Errors
    /// Those of the condition and of the actions.
    pub fn check_rule(&mut self, relation: &str, rule: &Rule) -> Result<()> {
        self.ignores_policies = true;
        let result = self.checked_rule(relation, rule);
        self.needs.clear();
        result
    }

    fn checked_rule(&mut self, relation: &str, rule: &Rule) -> Result<()> {
        let statement = parsed(&format!("DELETE FROM {relation}"))?;
        let name = target_of(&statement).map(|(name, _)| name.clone());
        let name = name.ok_or_else(|| Error::internal("a rule's relation has no name"))?;
        let Some(target) = self.target_of_rules(&name, rule.event, vec![Arc::new(rule.clone())])? else {
            return Ok(());
        };
        let text = match rule.event {
            'a' => format!("INSERT INTO {relation} DEFAULT VALUES"),
            'd' => format!("DELETE FROM {relation}"),
            _ => match target.columns.first() {
                Some(column) => format!("UPDATE {relation} SET {0} = {0}", quote_identifier(&column.name)),
                None => return Ok(()),
            },
        };
        let statement = parsed(&text)?;
        let rows = self.rows_of_statement(&statement, &target)?;
        let owners = [target.owner];
        if let Some(condition) = &rule.condition {
            let mut condition = colibri_syntax::parse_expr(condition)?;
            substitute(&mut condition, &target, &of_rows(rule.event, &target))?;
            let query = colibri_syntax::parse_query(&format!("SELECT 1 FROM {rows} WHERE {condition}"))?;
            self.by_rule(&owners, |binder| binder.query(&query))?;
        }
        for action in &rule.actions {
            let Some((text, _)) = self.action(action, rule, &target, &rows, Wanted::All)? else { continue };
            let statement = parsed(&text)?;
            let bound = self.by_rule(&owners, |binder| binder.change(&statement));
            let returning = match &bound {
                Ok(change) => change.returning().map(<[super::logical::Column]>::to_vec),
                // Rules may stand for what cannot be done to a view.
                Err(error) if error.state() == SqlState::NOT_IN_PREREQUISITE_STATE => continue,
                Err(_) => return bound.map(drop),
            };
            if let Some(given) = returning {
                expect_returned(&target, &given)?;
            }
        }
        Ok(())
    }

    /// Statements in WITH do not follow rules.
    fn refuse_rules_in(&mut self, with: Option<&ast::With>) -> Result<()> {
        for part in with.iter().flat_map(|with| &with.cte_tables) {
            let (ast::SetExpr::Insert(inner) | ast::SetExpr::Update(inner) | ast::SetExpr::Delete(inner)) =
                &*part.query.body
            else {
                continue;
            };
            let Some(event) = event_of(inner) else { continue };
            let Some(target) = self.target_with_rules(inner, event)? else { continue };
            let refused = target.rules.iter().map(|rule| match (rule.instead, &rule.condition, rule.actions.len()) {
                (false, ..) => "DO ALSO rules are",
                (true, Some(_), _) => "conditional DO INSTEAD rules are",
                (true, None, 0) => "DO INSTEAD NOTHING rules are",
                (true, None, 1) => "DO INSTEAD rules are",
                _ => "multi-statement DO INSTEAD rules are",
            });
            if let Some(what) = refused.into_iter().next() {
                let message = format!("{what} not supported for data-modifying statements in WITH");
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
        }
        Ok(())
    }

    /// What a statement writes to, if it has rules for that.
    fn target_with_rules(&mut self, statement: &ast::Statement, event: char) -> Result<Option<Target>> {
        let Some((name, _)) = target_of(statement) else { return Ok(None) };
        let Some(id) = self.relation(name)?.and_then(id_of) else { return Ok(None) };
        let is_on = |rule: &Arc<Rule>| rule.event == event && matches!(rule.state, 'O' | 'A');
        let rules: Vec<_> = self.catalog.rules_of(id).into_iter().filter(is_on).collect();
        if !rules.iter().any(|rule| rule.instead && rule.condition.is_none()) {
            self.refuse_rules_below(name, event)?;
        }
        if rules.is_empty() {
            return Ok(None);
        }
        self.target_of_rules(name, event, rules)
    }

    /// Refuses to write through a view to a relation with rules: they would not be followed.
    fn refuse_rules_below(&mut self, name: &ast::ObjectName, event: char) -> Result<()> {
        let Some(Relation::View(view)) = self.relation(name)? else { return Ok(()) };
        let view = Arc::clone(view);
        let writing = writing_of(event);
        if view.materialized || has_instead(&view, writing) {
            return Ok(());
        }
        let (needs, is_outermost) = (self.needs.len(), self.is_outermost);
        let target = self.view_target(&view, writing);
        self.needs.truncate(needs);
        self.is_outermost = is_outermost;
        // What is wrong with the view is told when it is written to.
        let Ok(target) = target else { return Ok(()) };
        let is_on = |rule: &Arc<Rule>| rule.event == event && matches!(rule.state, 'O' | 'A');
        if target.relations_below().any(|below| self.catalog.rules_of(below).iter().any(is_on)) {
            let message = format_args!("writing through the view \"{}\" to a relation with rules", view.name);
            return Err(Error::unsupported(message));
        }
        Ok(())
    }

    fn target_of_rules(
        &mut self,
        name: &ast::ObjectName,
        event: char,
        rules: Vec<Arc<Rule>>,
    ) -> Result<Option<Target>> {
        let writing = writing_of(event);
        let (id, shown, owner, is_plain_view) = match self.relation(name)? {
            Some(Relation::Table(table)) => (table.id, table.name.clone(), table.owner, false),
            Some(Relation::View(view)) => (view.id, view.name.clone(), view.owner, !has_instead(view, writing)),
            _ => return Ok(None),
        };
        let columns = match self.relation(name)? {
            Some(Relation::Table(table)) => {
                let there = table.columns.iter().filter(|column| !column.dropped);
                let default = |default: &Option<String>| default.clone().unwrap_or_else(|| "NULL".to_owned());
                there
                    .map(|column| Column {
                        name: column.name.clone(),
                        ty: column.ty,
                        default: default(&column.default),
                    })
                    .collect()
            }
            Some(Relation::View(view)) => {
                let view = Arc::clone(view);
                let needs = self.needs.len();
                let query = colibri_syntax::parse_query(&format!("SELECT * FROM {name}"))?;
                // The statement itself is still at the top level.
                let is_outermost = self.is_outermost;
                let bound = self.query(&query);
                self.is_outermost = is_outermost;
                let bound = bound?;
                self.needs.truncate(needs);
                let default = |at| view.defaults.get(&at).cloned().unwrap_or_else(|| "NULL".to_owned());
                let columns = bound.columns.iter().enumerate();
                columns.map(|(at, one)| Column { name: one.name.clone(), ty: one.ty, default: default(at) }).collect()
            }
            _ => Vec::new(),
        };
        Ok(Some(Target { id, name: shown, columns, rules, owner, is_plain_view }))
    }

    /// What a statement and the rules of its target do, in PostgreSQL's order.
    fn apply_rules(
        &mut self,
        statement: &ast::Statement,
        event: char,
        target: &Target,
        above: &mut Vec<Above>,
        pieces: &mut Vec<Piece>,
    ) -> Result<()> {
        if above.iter().any(|one| one.relation == target.id && one.event == event) {
            let message = format!("infinite recursion detected in rules for relation \"{}\"", target.name);
            return Err(Error::new(SqlState("42P17"), message));
        }
        if let ast::Statement::Insert(insert) = statement
            && insert.on.is_some()
        {
            let message = "INSERT with ON CONFLICT clause cannot be used with table that has INSERT or UPDATE rules";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let rows = self.rows_of_statement(statement, target)?;
        let original = self.original(statement, event, target, &rows)?;
        let is_top = above.is_empty();
        let returning = returning_of(statement);
        let owners: Vec<RoleId> = above.iter().map(|one| one.owner).collect();
        let piece = original.map(|text| Piece {
            event,
            relation: Some(target.id),
            text,
            is_original: is_top,
            returns: returning.is_some(),
            owners,
        });
        let (first, last) = if event == 'a' { (piece, None) } else { (None, piece) };
        pieces.extend(first);
        above.push(Above { relation: target.id, event, owner: target.owner });
        for rule in &target.rules {
            for action in &rule.actions {
                let wanted = returning.map_or(Wanted::Nothing, |items| Wanted::Items(items, name_inside(statement)));
                let Some((done, returns)) = self.action(action, rule, target, &rows, wanted)? else { continue };
                self.expect_independent(action, rule, pieces)?;
                let inner = parsed(&done)?;
                let Some(event) = event_of(&inner) else {
                    return Err(Error::unsupported("a rule that does something other than INSERT, UPDATE and DELETE"));
                };
                match self.target_with_rules(&inner, event)? {
                    Some(target) => self.apply_rules(&inner, event, &target, above, pieces)?,
                    None => {
                        let relation = self.written_by(&inner)?;
                        let owners = above.iter().map(|one| one.owner).collect();
                        pieces.push(Piece { event, relation, text: done, is_original: false, returns, owners });
                    }
                }
            }
        }
        above.pop();
        pieces.extend(last);
        Ok(())
    }

    /// Refuses what a rule does if it looks at what is written in front of it: it would not see that.
    ///
    /// The UPDATE of the same table that stands instead of an INSERT is about other rows.
    fn expect_independent(&self, action: &str, rule: &Rule, pieces: &[Piece]) -> Result<()> {
        let action = parsed(action)?;
        let mut names = Vec::new();
        _ = ast::visit_relations(&action, |name| {
            names.push(name.clone());
            ControlFlow::<()>::Continue(())
        });
        // An INSERT does not look at what it adds to.
        if let (ast::Statement::Insert(_), Some((into, _))) = (&action, target_of(&action))
            && let Some(at) = names.iter().position(|name| name == into)
        {
            names.remove(at);
        }
        for name in &names {
            let Some(id) = self.relation(name)?.and_then(id_of) else { continue };
            let is_seen = |piece: &Piece| piece.relation == Some(id) && !(piece.is_original && rule.instead);
            if pieces.iter().any(is_seen) {
                return Err(Error::unsupported(format_args!(
                    "a rule that looks at the relation {name}, which is written to in front of it"
                )));
            }
        }
        Ok(())
    }

    /// The number of what a statement writes to.
    fn written_by(&self, statement: &ast::Statement) -> Result<Option<u32>> {
        let Some((name, _)) = target_of(statement) else { return Ok(None) };
        Ok(self.relation(name)?.and_then(id_of))
    }

    /// The rows that a statement is about, as a query in FROM.
    fn rows_of_statement(&mut self, statement: &ast::Statement, target: &Target) -> Result<String> {
        let mut list = Vec::new();
        let from = match statement {
            ast::Statement::Insert(insert) => {
                let places = self.inserted_places(insert, target)?;
                let source = source_text(insert, target, &places)?;
                for (place, column) in target.columns.iter().enumerate() {
                    let value = match places.iter().position(|&at| at == place) {
                        Some(at) if source.is_some() => format!("\"\u{1}given\".\"c{at}\""),
                        _ => column.default.clone(),
                    };
                    list.push(named(&cast(&value, column.ty), true, &column.name));
                }
                source.map_or_else(String::new, |source| {
                    let names: Vec<String> = (0..places.len()).map(|at| format!("\"c{at}\"")).collect();
                    format!(" FROM ({source}) AS \"\u{1}given\" ({})", names.join(", "))
                })
            }
            ast::Statement::Update(update) => {
                let inside = name_inside(statement);
                for column in &target.columns {
                    list.push(named(&format!("{inside}.{}", quote_identifier(&column.name)), false, &column.name));
                }
                for (place, column) in target.columns.iter().enumerate() {
                    list.push(named(&new_value(update, target, place, &inside)?, true, &column.name));
                }
                let from = match &update.from {
                    Some(ast::UpdateTableFromKind::BeforeSet(tables) | ast::UpdateTableFromKind::AfterSet(tables)) => {
                        tables.iter().map(|table| format!(", {table}")).collect::<String>()
                    }
                    None => String::new(),
                };
                format!(" FROM {}{from}{}", update.table, where_text(update.selection.as_ref())?)
            }
            ast::Statement::Delete(delete) => {
                let inside = name_inside(statement);
                for column in &target.columns {
                    list.push(named(&format!("{inside}.{}", quote_identifier(&column.name)), false, &column.name));
                }
                let using: String = delete.using.iter().flatten().map(|table| format!(", {table}")).collect();
                format!(" {}{using}{}", delete.from, where_text(delete.selection.as_ref())?)
            }
            _ => String::new(),
        };
        Ok(format!("(SELECT {}{from}) AS {ROWS}", list.join(", ")))
    }

    /// The places of the columns that an INSERT gives values for.
    fn inserted_places(&self, insert: &ast::Insert, target: &Target) -> Result<Vec<usize>> {
        if !insert.columns.is_empty() {
            let place = |name: &ast::ObjectName| {
                let name = name.0.first().and_then(|part| part.as_ident()).map(fold).unwrap_or_default();
                target.place(&name).ok_or_else(|| {
                    let message = format!("column \"{name}\" of relation \"{}\" does not exist", target.name);
                    Error::new(SqlState::NO_SUCH_COLUMN, message)
                })
            };
            return insert.columns.iter().map(place).collect();
        }
        let given = match insert.source.as_ref().map(|source| &*source.body) {
            Some(ast::SetExpr::Values(values)) => values.rows.first().map_or(0, |row| row.content.len()),
            Some(ast::SetExpr::Select(select))
                if select.projection.iter().all(|item| {
                    matches!(item, ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. })
                }) =>
            {
                select.projection.len()
            }
            _ => target.columns.len(),
        };
        Ok((0..given.min(target.columns.len())).collect())
    }

    /// The statement itself, for the rows that no rule stands instead of.
    fn original(
        &mut self,
        statement: &ast::Statement,
        event: char,
        target: &Target,
        rows: &str,
    ) -> Result<Option<String>> {
        let instead: Vec<&Arc<Rule>> = target.rules.iter().filter(|rule| rule.instead).collect();
        if instead.iter().any(|rule| rule.condition.is_none()) {
            return Ok(None);
        }
        if instead.is_empty() {
            return Ok(Some(statement.to_string()));
        }
        if target.is_plain_view {
            return Err(not_updatable(event, &target.name));
        }
        let conditions = |row: Row<'_>| -> Result<Vec<String>> {
            let one = |rule: &&Arc<Rule>| {
                let mut condition = colibri_syntax::parse_expr(rule.condition.as_deref().unwrap_or("true"))?;
                // The names of the statement's columns could mean others inside of a query.
                let has_relations =
                    ast::visit_relations(&condition, |_| ControlFlow::Break(())) == ControlFlow::Break(());
                if event != 'a' && has_relations {
                    return Err(Error::unsupported("a query in the condition of a rule instead of UPDATE or DELETE"));
                }
                substitute(&mut condition, target, row)?;
                Ok(format!("({condition}) IS NOT TRUE"))
            };
            instead.iter().map(one).collect()
        };
        let mut changed = statement.clone();
        match &mut changed {
            ast::Statement::Insert(insert) => {
                let places = self.inserted_places(insert, target)?;
                let names: Vec<String> =
                    places.iter().map(|&place| quote_identifier(&target.columns[place].name).to_string()).collect();
                let row = of_rows(event, target);
                let values: Vec<String> = places.iter().filter_map(|&place| row(true, place)).collect();
                let text = format!(
                    "INSERT INTO {} ({}) SELECT {} FROM {rows} WHERE {}{}",
                    insert.table,
                    names.join(", "),
                    values.join(", "),
                    conditions(&row)?.join(" AND "),
                    returning_text(insert.returning.as_ref()),
                );
                return Ok(Some(text));
            }
            ast::Statement::Update(update) => {
                let inside = name_inside(statement);
                let given = update.clone();
                let row = |is_new: bool, place: usize| {
                    if is_new {
                        return new_value(&given, target, place, &inside).ok();
                    }
                    Some(format!("{inside}.{}", quote_identifier(&target.columns[place].name)))
                };
                let all = conditions(&row)?.join(" AND ");
                update.selection = Some(narrowed(update.selection.as_ref(), &all)?);
            }
            ast::Statement::Delete(delete) => {
                let inside = name_inside(statement);
                let row = |is_new: bool, place: usize| {
                    (!is_new).then(|| format!("{inside}.{}", quote_identifier(&target.columns[place].name)))
                };
                let all = conditions(&row)?.join(" AND ");
                delete.selection = Some(narrowed(delete.selection.as_ref(), &all)?);
            }
            _ => {}
        }
        Ok(Some(changed.to_string()))
    }

    /// What a rule does for the rows of a statement; `None` if that is nothing.
    /// Says also whether that gives the rows of RETURNING.
    fn action(
        &mut self,
        action: &str,
        rule: &Rule,
        target: &Target,
        rows: &str,
        wanted: Wanted<'_>,
    ) -> Result<Option<(String, bool)>> {
        if Self::has_names_of_rules(action) || rule.condition.as_deref().is_some_and(Self::has_names_of_rules) {
            return Err(Error::unsupported("a rule with a name of the system's"));
        }
        let mut action = parsed(action)?;
        let row = of_rows(rule.event, target);
        substitute(&mut action, target, &row)?;
        let returned = match returning_of(&action) {
            Some(items) => wanted.text(items, target)?,
            None => String::new(),
        };
        let returns = !returned.is_empty();
        let mut condition = match &rule.condition {
            Some(condition) => Some(colibri_syntax::parse_expr(condition)?),
            None => None,
        };
        if let Some(condition) = &mut condition {
            substitute(condition, target, &row)?;
        }
        let condition = condition.map(|condition| format!("({condition})"));
        Ok(Some(match action {
            ast::Statement::Insert(insert) => {
                let behind = condition.as_ref().map_or_else(String::new, |condition| format!(" WHERE {condition}"));
                let columns: Vec<String> = insert.columns.iter().map(ToString::to_string).collect();
                let columns = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
                let source = match &insert.source {
                    None => {
                        return Err(Error::unsupported("a rule with INSERT … DEFAULT VALUES"));
                    }
                    Some(source) => match &*source.body {
                        ast::SetExpr::Values(values) => {
                            let written = self.default_of_written(&insert)?;
                            let of_row = |row: &ast::Parens<Vec<ast::Expr>>| {
                                let values =
                                    row.content.iter().enumerate().map(|(at, value)| {
                                        if is_default(value) { written(at) } else { value.to_string() }
                                    });
                                values.collect::<Vec<String>>().join(", ")
                            };
                            match &values.rows[..] {
                                [row] => format!("SELECT {} FROM {rows}{behind}", of_row(row)),
                                // What there is for one row comes in front of what there is for the next.
                                several => {
                                    let several: Vec<String> =
                                        several.iter().map(|row| format!("({})", of_row(row))).collect();
                                    format!(
                                        "SELECT \"\u{1}x\".* FROM {rows} CROSS JOIN LATERAL (VALUES {}) AS \"\u{1}x\"{behind}",
                                        several.join(", ")
                                    )
                                }
                            }
                        }
                        ast::SetExpr::Select(select) if source.with.is_none() && !has_groups(select) => {
                            let mut select = select.clone();
                            let all = [select.selection.as_ref().map(|one| format!("({one})")), condition];
                            let all: Vec<String> = all.into_iter().flatten().collect();
                            if !all.is_empty() {
                                select.selection = Some(colibri_syntax::parse_expr(&all.join(" AND "))?);
                            }
                            let carrier = colibri_syntax::parse_query(&format!("SELECT 1 FROM {rows}"))?;
                            if let ast::SetExpr::Select(carrier) = *carrier.body {
                                let mut from = carrier.from;
                                from.append(&mut select.from);
                                select.from = from;
                            }
                            select.to_string()
                        }
                        _ => format!(
                            "SELECT \"\u{1}x\".* FROM {rows} CROSS JOIN LATERAL ({source}) AS \"\u{1}x\"{behind}"
                        ),
                    },
                };
                (format!("INSERT INTO {}{columns} {source}{returned}", insert.table), returns)
            }
            ast::Statement::Update(update) => {
                let all = [update.selection.as_ref().map(|one| format!("({one})")), condition];
                let all: Vec<String> = all.into_iter().flatten().collect();
                let behind = if all.is_empty() { String::new() } else { format!(" WHERE {}", all.join(" AND ")) };
                let sets: Vec<String> = update.assignments.iter().map(ToString::to_string).collect();
                let from = match &update.from {
                    Some(ast::UpdateTableFromKind::BeforeSet(tables) | ast::UpdateTableFromKind::AfterSet(tables)) => {
                        tables.iter().map(|table| format!(", {table}")).collect::<String>()
                    }
                    None => String::new(),
                };
                (
                    format!("UPDATE {} SET {} FROM {rows}{from}{behind}{returned}", update.table, sets.join(", ")),
                    returns,
                )
            }
            ast::Statement::Delete(delete) => {
                let all = [delete.selection.as_ref().map(|one| format!("({one})")), condition];
                let all: Vec<String> = all.into_iter().flatten().collect();
                let behind = if all.is_empty() { String::new() } else { format!(" WHERE {}", all.join(" AND ")) };
                let using: String = delete.using.iter().flatten().map(|table| format!(", {table}")).collect();
                (format!("DELETE {} USING {rows}{using}{behind}{returned}", delete.from), returns)
            }
            _ => return Err(Error::unsupported("a rule that does something other than INSERT, UPDATE and DELETE")),
        }))
    }

    /// What DEFAULT stands for in the values of an INSERT, by their places.
    fn default_of_written(&mut self, insert: &ast::Insert) -> Result<impl Fn(usize) -> String + use<>> {
        let mut defaults: Vec<(CompactString, String)> = Vec::new();
        if let ast::TableObject::TableName(name) = &insert.table
            && let Some(Relation::Table(table)) = self.relation(name)?
        {
            for column in table.columns.iter().filter(|column| !column.dropped) {
                defaults.push((column.name.clone(), column.default.clone().unwrap_or_else(|| "NULL".to_owned())));
            }
        }
        let named: Vec<CompactString> = insert
            .columns
            .iter()
            .map(|name| name.0.first().and_then(|part| part.as_ident()).map(fold).unwrap_or_default())
            .collect();
        Ok(move |at: usize| {
            let found = match named.get(at) {
                Some(name) => defaults.iter().find(|(known, _)| known == name),
                None => defaults.get(at),
            };
            found.map_or_else(|| "NULL".to_owned(), |(_, default)| default.clone())
        })
    }
}

/// What is wanted of the rows that an action gives.
enum Wanted<'w> {
    Nothing,
    /// All columns.
    All,
    /// The RETURNING of a statement, and the name of its target inside of it.
    Items(&'w [ast::SelectItem], String),
}

impl Wanted<'_> {
    /// The RETURNING of an action that gives `items` in the places of the target's columns.
    fn text(&self, items: &[ast::SelectItem], target: &Target) -> Result<String> {
        let given = |item: &ast::SelectItem| match item {
            ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => Ok(expr.clone()),
            _ => Err(Error::unsupported("a RETURNING with * in a rule")),
        };
        let items: Vec<ast::Expr> = items.iter().map(given).collect::<Result<_>>()?;
        let (wanted, inside) = match self {
            Self::Nothing => return Ok(String::new()),
            Self::All => {
                let all: Vec<String> = items.iter().map(ToString::to_string).collect();
                return Ok(format!(" RETURNING {}", all.join(", ")));
            }
            Self::Items(wanted, inside) => (wanted, inside),
        };
        let all = || {
            let named = target.columns.iter().zip(&items);
            named.map(|(column, item)| format!("({item}) AS {}", quote_identifier(&column.name))).collect::<Vec<_>>()
        };
        let place = |name: &ast::Ident| target.place(&fold(name)).filter(|place| *place < items.len());
        let mut list = Vec::new();
        for item in *wanted {
            let (mut expr, alias) = match item {
                ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..) => {
                    list.extend(all());
                    continue;
                }
                ast::SelectItem::UnnamedExpr(expr) => (expr.clone(), name_of_item(expr)),
                ast::SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), Some(alias.to_string())),
                other => return Err(Error::unsupported(format_args!("{other} of a relation with rules"))),
            };
            if ast::visit_relations(&expr, |_| ControlFlow::Break(())) == ControlFlow::Break(()) {
                return Err(Error::unsupported("a query in the RETURNING of a relation with rules"));
            }
            _ = ast::visit_expressions_mut(&mut expr, |expr| {
                let found = match expr {
                    ast::Expr::Identifier(name) => place(name),
                    ast::Expr::CompoundIdentifier(parts) => match &parts[..] {
                        [relation, name] if relation.to_string() == *inside => place(name),
                        _ => None,
                    },
                    _ => None,
                };
                if let Some(place) = found {
                    *expr = ast::Expr::Nested(Box::new(items[place].clone()));
                }
                ControlFlow::<()>::Continue(())
            });
            list.push(match alias {
                Some(alias) => format!("{expr} AS {alias}"),
                None => expr.to_string(),
            });
        }
        Ok(format!(" RETURNING {}", list.join(", ")))
    }
}

/// The name of a column that RETURNING gives by another column's name.
fn name_of_item(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Identifier(name) => Some(name.to_string()),
        ast::Expr::CompoundIdentifier(parts) => parts.last().map(ToString::to_string),
        ast::Expr::Cast { expr, .. } | ast::Expr::Nested(expr) => name_of_item(expr),
        _ => None,
    }
}

/// The RETURNING of a statement.
fn returning_of(statement: &ast::Statement) -> Option<&[ast::SelectItem]> {
    let items = match statement {
        ast::Statement::Insert(insert) => &insert.returning,
        ast::Statement::Update(update) => &update.returning,
        ast::Statement::Delete(delete) => &delete.returning,
        _ => return None,
    };
    items.as_deref()
}

/// Refuses a RETURNING that does not give the columns of the relation.
fn expect_returned(target: &Target, given: &[super::logical::Column]) -> Result<()> {
    let wrong = |message: String| Error::new(SqlState::BAD_OBJECT_DEFINITION, message);
    for (at, column) in given.iter().enumerate() {
        let Some(of_target) = target.columns.get(at) else {
            return Err(wrong("RETURNING list has too many entries".to_owned()));
        };
        let (entry, name) = (at + 1, &of_target.name);
        let (ty, known) = (column.ty, ColumnType { domain: of_target.ty.domain, ..of_target.ty });
        if ty.ty != known.ty || ty.domain != known.domain {
            let message = format!("RETURNING list's entry {entry} has different type from column \"{name}\"");
            let detail = format!("RETURNING list entry has type {}, but column has type {}.", ty.ty, known.ty);
            return Err(wrong(message).detail(detail));
        }
        if ty != known {
            let message = format!("RETURNING list's entry {entry} has different size from column \"{name}\"");
            let detail = format!("RETURNING list entry has type {ty}, but column has type {known}.");
            return Err(wrong(message).detail(detail));
        }
    }
    match given.len() < target.columns.len() {
        true => Err(wrong("RETURNING list has too few entries".to_owned())),
        false => Ok(()),
    }
}

fn writing_of(event: char) -> Writing {
    match event {
        'a' => Writing::Insert,
        'w' => Writing::Update,
        _ => Writing::Delete,
    }
}

/// A view that only rules with conditions stand for.
fn not_updatable(event: char, view: &str) -> Error {
    let (what, doing, word) = match event {
        'a' => ("insert into", "inserting into", "INSERT"),
        'w' => ("update", "updating", "UPDATE"),
        _ => ("delete from", "deleting from", "DELETE"),
    };
    Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, format!("cannot {what} view \"{view}\""))
        .detail("Views with conditional DO INSTEAD rules are not automatically updatable.")
        .hint(format!(
            "To enable {doing} the view, provide an INSTEAD OF {word} trigger or an unconditional ON {word} DO INSTEAD rule."
        ))
}

fn has_groups(select: &ast::Select) -> bool {
    !matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty()) || select.having.is_some()
}

fn named(value: &str, is_new: bool, name: &str) -> String {
    let shown = format!("{} {name}", if is_new { "new" } else { "old" });
    format!("{value} AS {}", quote_identifier(&shown))
}

fn where_text(selection: Option<&ast::Expr>) -> Result<String> {
    match selection {
        None => Ok(String::new()),
        Some(ast::Expr::CompoundIdentifier(parts))
            if parts.first().is_some_and(|part| part.value == colibri_syntax::CURRENT_OF_MARK) =>
        {
            Err(Error::unsupported("WHERE CURRENT OF on a relation with rules"))
        }
        Some(selection) => Ok(format!(" WHERE {selection}")),
    }
}

fn narrowed(selection: Option<&ast::Expr>, condition: &str) -> Result<ast::Expr> {
    match selection {
        None => colibri_syntax::parse_expr(condition),
        Some(selection) => colibri_syntax::parse_expr(&format!("({selection}) AND {condition}")),
    }
}

fn returning_text(returning: Option<&Vec<ast::SelectItem>>) -> String {
    let Some(items) = returning else { return String::new() };
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    format!(" RETURNING {}", items.join(", "))
}

/// The name of what a statement writes to, inside of it.
fn name_inside(statement: &ast::Statement) -> String {
    match target_of(statement) {
        Some((_, Some(alias))) => alias.to_string(),
        Some((name, None)) => name.0.last().map_or_else(String::new, ToString::to_string),
        None => String::new(),
    }
}

/// The new value of a column of an UPDATE.
fn new_value(update: &ast::Update, target: &Target, place: usize, inside: &str) -> Result<String> {
    let column = &target.columns[place];
    let is_it = |name: &ast::ObjectName| {
        name.0.len() == 1 && name.0[0].as_ident().is_some_and(|ident| fold(ident) == column.name)
    };
    let given = |value: &ast::Expr| match is_default(value) {
        true => cast(&column.default, column.ty),
        false => cast(&value.to_string(), column.ty),
    };
    for assignment in &update.assignments {
        match (&assignment.target, &assignment.value) {
            (ast::AssignmentTarget::ColumnName(name), value) if is_it(name) => return Ok(given(value)),
            (ast::AssignmentTarget::Tuple(names), ast::Expr::Tuple(values)) => {
                if let Some(at) = names.iter().position(is_it)
                    && let Some(value) = values.get(at)
                {
                    return Ok(given(value));
                }
            }
            (ast::AssignmentTarget::Tuple(names), _) if names.iter().any(is_it) => {
                return Err(Error::unsupported("an UPDATE of several columns by a query on a relation with rules"));
            }
            _ => {}
        }
    }
    Ok(format!("{inside}.{}", quote_identifier(&column.name)))
}

/// The rows that an INSERT gives, as a query; `None` for DEFAULT VALUES.
fn source_text(insert: &ast::Insert, target: &Target, places: &[usize]) -> Result<Option<String>> {
    let Some(source) = &insert.source else { return Ok(None) };
    let ast::SetExpr::Values(values) = &*source.body else { return Ok(Some(source.to_string())) };
    let mut source = source.clone();
    let mut values = values.clone();
    for row in &mut values.rows {
        for (at, value) in row.content.iter_mut().enumerate() {
            let Some(&place) = places.get(at) else {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns"));
            };
            let column = &target.columns[place];
            if is_default(value) {
                *value = colibri_syntax::parse_expr(&cast(&column.default, column.ty))?;
            }
        }
    }
    *source.body = ast::SetExpr::Values(values);
    Ok(Some(source.to_string()))
}

//! `SEARCH` and `CYCLE` behind a query of WITH RECURSIVE.
//!
//! Both are other words for columns that the query keeps: which rows led to a row, and whether one of
//! them is the row itself. The query is written anew with these columns, as PostgreSQL does it:
//!
//! | clause | column | first rows | rows of the recursion |
//! | --- | --- | --- | --- |
//! | `SEARCH DEPTH FIRST BY a SET s` | `s` | `ARRAY[ROW(a)]` | `s \|\| ARRAY[ROW(a)]` |
//! | `SEARCH BREADTH FIRST BY a SET s` | `s` | `ROW(0, a)` | `ROW((s).f1 + 1, a)` |
//! | `CYCLE a SET m … USING p` | `m` | the default | whether `ROW(a)` is in `p` |
//! | | `p` | `ARRAY[ROW(a)]` | `p \|\| ARRAY[ROW(a)]` |

use std::fmt::Write as _;

use colibri_types::{Error, Result, SqlState};
use sqlparser::ast::{
    self, Ident, ObjectName, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetOperator,
    SetQuantifier, TableFactor,
};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::tree::fold;

/// `SEARCH … FIRST BY … SET …`
struct Search {
    is_depth: bool,
    columns: Vec<Ident>,
    sequence: Ident,
}

/// `CYCLE … SET … TO … DEFAULT … USING …`
struct Cycle {
    columns: Vec<Ident>,
    mark: Ident,
    /// The mark of a row that is met again, and that of others, as SQL.
    value: String,
    default: String,
    path: Ident,
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, message.into())
}

fn not_supported(message: impl Into<String>) -> Error {
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message.into())
}

fn not_at_top(name: &str) -> Error {
    not_supported(format!(
        "with a SEARCH or CYCLE clause, the recursive reference to WITH query \"{name}\" must be at the top level of its \
         right-hand SELECT"
    ))
}

/// Whether a part of a query, out of its parentheses, joins others.
fn is_set_operation(body: &SetExpr) -> bool {
    match body {
        SetExpr::SetOperation { .. } => true,
        SetExpr::Query(query) => is_set_operation(&query.body),
        _ => false,
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

/// Checks the columns that a clause names: each is one of the query's, and named once.
fn check_columns(what: &str, columns: &[Ident], known: &[String]) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::with_capacity(columns.len());
    for column in columns {
        let name = fold(column).to_string();
        if !known.contains(&name) {
            return Err(wrong(format!("{what} column \"{name}\" not in WITH query column list")));
        }
        if names.contains(&name) {
            let message = format!("{what} column \"{name}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
        names.push(name);
    }
    Ok(names)
}

/// The name that a column of a SELECT list has, if it can be told from the text alone.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias).to_string()),
        SelectItem::UnnamedExpr(ast::Expr::Identifier(ident)) => Some(fold(ident).to_string()),
        SelectItem::UnnamedExpr(ast::Expr::CompoundIdentifier(parts)) => {
            parts.last().map(|part| fold(part).to_string())
        }
        SelectItem::UnnamedExpr(_) => Some("?column?".to_owned()),
        _ => None,
    }
}

/// The names of the columns of the first rows; `None` if the list has a star in it.
fn names_of(body: &SetExpr) -> Option<Vec<String>> {
    match body {
        SetExpr::Select(select) => select.projection.iter().map(name_of).collect(),
        SetExpr::Values(values) => {
            let width = values.rows.first().map_or(0, |row| row.content.len());
            Some((1..=width).map(|at| format!("column{at}")).collect())
        }
        SetExpr::Query(query) => names_of(&query.body),
        _ => None,
    }
}

/// The SELECT that a part of a query is, out of its parentheses.
fn plain_select(body: SetExpr) -> Option<Box<Select>> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => {
            let is_plain = query.with.is_none()
                && query.order_by.is_none()
                && query.limit_clause.is_none()
                && query.fetch.is_none()
                && query.locks.is_empty();
            if is_plain { plain_select(*query.body) } else { None }
        }
        _ => None,
    }
}

/// The name by which FROM refers to a WITH query at the top level.
fn reference_in(factor: &TableFactor, name: &str) -> Option<String> {
    match factor {
        TableFactor::Table { name: relation, alias, args: None, .. } => match &relation.0[..] {
            [ObjectNamePart::Identifier(ident)] if fold(ident) == name => {
                Some(alias.as_ref().map_or_else(|| name.to_owned(), |alias| fold(&alias.name).to_string()))
            }
            _ => None,
        },
        TableFactor::NestedJoin { table_with_joins, .. } => in_joins(table_with_joins, name),
        _ => None,
    }
}

fn in_joins(joins: &ast::TableWithJoins, name: &str) -> Option<String> {
    let factors = std::iter::once(&joins.relation).chain(joins.joins.iter().map(|join| &join.relation));
    factors.into_iter().find_map(|factor| reference_in(factor, name))
}

fn column_of(table: &str, column: &str) -> SelectItem {
    let part = |name: &str| Ident::with_quote('"', name);
    SelectItem::UnnamedExpr(ast::Expr::CompoundIdentifier(vec![part(table), part(column)]))
}

/// `SELECT … FROM (…) "*first*"(…) …` with a query in the place of the one in parentheses.
fn around(text: &str, inner: SetExpr) -> Result<SetExpr> {
    let mut query = crate::parse_query(text)?;
    if let SetExpr::Select(select) = &mut *query.body
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        **subquery = Parser::query_of(inner);
    }
    Ok(*query.body)
}

impl Parser<'_> {
    /// SEARCH and CYCLE behind a WITH query, which is written anew with their columns.
    pub(super) fn search_and_cycle(&mut self, cte: &mut ast::Cte, is_recursive: bool) -> Result<()> {
        let token = self.peek();
        self.read_search_and_cycle(cte, is_recursive).map_err(|error| match error.report().position {
            None => self.error_at(token, error),
            Some(_) => error,
        })
    }

    fn read_search_and_cycle(&mut self, cte: &mut ast::Cte, is_recursive: bool) -> Result<()> {
        let search = self.search()?;
        let cycle = self.cycle()?;
        if search.is_none() && cycle.is_none() {
            return Ok(());
        }
        let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right } = &mut *cte.query.body else {
            return Err(wrong("WITH query is not recursive"));
        };
        if !is_recursive {
            return Err(wrong("WITH query is not recursive"));
        }
        if is_set_operation(left) {
            let message = "with a SEARCH or CYCLE clause, the left side of the UNION must be a SELECT";
            return Err(not_supported(message));
        }
        let placeholder =
            || SetExpr::Values(ast::Values { explicit_row: false, value_keyword: false, rows: Vec::new() });
        let first = std::mem::replace(&mut **left, placeholder());
        let again = std::mem::replace(&mut **right, placeholder());
        if is_set_operation(&again) {
            return Err(wrong("with a SEARCH or CYCLE clause, the right side of the UNION must be a SELECT"));
        }
        let Some(again) = plain_select(again) else { return Err(not_at_top(&fold(&cte.alias.name))) };
        let given: Vec<String> = cte.alias.columns.iter().map(|column| fold(&column.name).to_string()).collect();
        let names = match names_of(&first) {
            Some(names) => given.iter().cloned().chain(names.into_iter().skip(given.len())).collect(),
            None if given.is_empty() => {
                return Err(not_supported("SEARCH or CYCLE of a WITH query that has a star and no list of columns"));
            }
            None => given.clone(),
        };
        let parts = Parts::new(&fold(&cte.alias.name), names, search.as_ref(), cycle.as_ref())?;
        **left = around(&parts.first(), first)?;
        **right = around(&parts.again(), SetExpr::Select(parts.with_columns(again)?))?;
        if *set_quantifier == SetQuantifier::None {
            *set_quantifier = SetQuantifier::Distinct;
        }
        let columns = parts
            .names
            .iter()
            .chain(&parts.added)
            .map(|name| ast::TableAliasColumnDef { name: Ident::with_quote('"', name.as_str()), data_type: None });
        cte.alias.columns = columns.collect();
        Ok(())
    }

    fn search(&mut self) -> Result<Option<Search>> {
        if !self.eat(K::Search) {
            return Ok(None);
        }
        let is_depth = self.eat(K::Depth);
        if !is_depth {
            self.expect(K::Breadth)?;
        }
        self.expect_all(&[K::First, K::By])?;
        let columns = self.list(Self::name)?;
        self.expect(K::Set)?;
        Ok(Some(Search { is_depth, columns, sequence: self.name()? }))
    }

    fn cycle(&mut self) -> Result<Option<Cycle>> {
        if !self.eat(K::Cycle) {
            return Ok(None);
        }
        let columns = self.list(Self::name)?;
        self.expect(K::Set)?;
        let mark = self.name()?;
        let (mut value, mut default) = ("true".to_owned(), "false".to_owned());
        if self.eat(K::To) {
            value = self.expr()?.to_string();
            self.expect(K::Default)?;
            default = self.expr()?.to_string();
        }
        self.expect(K::Using)?;
        Ok(Some(Cycle { columns, mark, value, default, path: self.name()? }))
    }
}

/// What a query is written anew of.
struct Parts {
    name: String,
    /// Its own columns.
    names: Vec<String>,
    /// The columns that the clauses add.
    added: Vec<String>,
    search: Option<(bool, Vec<String>, String)>,
    cycle: Option<(Vec<String>, String, String, String, String)>,
}

impl Parts {
    fn new(name: &str, names: Vec<String>, search: Option<&Search>, cycle: Option<&Cycle>) -> Result<Self> {
        let mut parts = Self { name: name.to_owned(), names, added: Vec::new(), search: None, cycle: None };
        let expect_new = |what: &str, name: &str, names: &[String]| match names.iter().any(|known| known == name) {
            true => Err(wrong(format!("{what} column name \"{name}\" already used in WITH query column list"))),
            false => Ok(()),
        };
        if let Some(search) = search {
            let columns = check_columns("search", &search.columns, &parts.names)?;
            let sequence = fold(&search.sequence).to_string();
            expect_new("search sequence", &sequence, &parts.names)?;
            parts.added.push(sequence.clone());
            parts.search = Some((search.is_depth, columns, sequence));
        }
        if let Some(cycle) = cycle {
            let columns = check_columns("cycle", &cycle.columns, &parts.names)?;
            let (mark, path) = (fold(&cycle.mark).to_string(), fold(&cycle.path).to_string());
            expect_new("cycle mark", &mark, &parts.names)?;
            expect_new("cycle path", &path, &parts.names)?;
            if mark == path {
                return Err(wrong("cycle mark column name and cycle path column name are the same"));
            }
            if parts.added.contains(&mark) {
                return Err(wrong("search sequence column name and cycle mark column name are the same"));
            }
            if parts.added.contains(&path) {
                return Err(wrong("search sequence column name and cycle path column name are the same"));
            }
            parts.added.extend([mark.clone(), path.clone()]);
            parts.cycle = Some((columns, mark, path, cycle.value.clone(), cycle.default.clone()));
        }
        Ok(parts)
    }

    /// What stands around the first rows.
    fn first(&self) -> String {
        let mut text = format!("SELECT {}", list(&self.names));
        if let Some((is_depth, columns, _)) = &self.search {
            let columns = list(columns);
            _ = match is_depth {
                true => write!(text, ", ARRAY[ROW({columns})]"),
                false => write!(text, ", ROW(CAST(0 AS bigint), {columns})"),
            };
        }
        if let Some((columns, _, _, value, default)) = &self.cycle {
            // Both marks have a type in common.
            let columns = list(columns);
            _ = write!(text, ", CASE WHEN false THEN {value} ELSE {default} END, ARRAY[ROW({columns})]");
        }
        _ = write!(text, " FROM (SELECT 1) \"*first*\"({})", list(&self.names));
        text
    }

    /// What stands around the rows of the recursion.
    fn again(&self) -> String {
        let mut text = format!("SELECT {}", list(&self.names));
        if let Some((is_depth, columns, sequence)) = &self.search {
            let (columns, sequence) = (list(columns), quoted(sequence));
            _ = match is_depth {
                true => write!(text, ", {sequence} || ARRAY[ROW({columns})]"),
                false => write!(text, ", ROW(({sequence}).f1 + 1, {columns})"),
            };
        }
        let mut condition = String::new();
        if let Some((columns, mark, path, value, default)) = &self.cycle {
            let (columns, mark, path) = (list(columns), quoted(mark), quoted(path));
            _ = write!(text, ", CASE WHEN ROW({columns}) = ANY ({path}) THEN {value} ELSE {default} END");
            _ = write!(text, ", {path} || ARRAY[ROW({columns})]");
            condition = format!(" WHERE {mark} <> {value}");
        }
        let all: Vec<String> = self.names.iter().chain(&self.added).cloned().collect();
        _ = write!(text, " FROM (SELECT 1) \"*again*\"({}){condition}", list(&all));
        text
    }

    /// The recursion with the added columns of the rows that it takes.
    fn with_columns(&self, mut select: Box<Select>) -> Result<Box<Select>> {
        let Some(reference) = select.from.iter().find_map(|joins| in_joins(joins, &self.name)) else {
            return Err(not_at_top(&self.name));
        };
        let mut items = Vec::with_capacity(select.projection.len());
        for item in std::mem::take(&mut select.projection) {
            let is_own = |name: &ObjectName| matches!(&name.0[..], [ObjectNamePart::Identifier(ident)] if fold(ident) == reference);
            match &item {
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) if is_own(name) => {
                    items.extend(self.names.iter().map(|column| column_of(&reference, column)));
                }
                SelectItem::Wildcard(_) => {
                    return Err(not_supported("a star in the recursion of a WITH query with SEARCH or CYCLE"));
                }
                _ => items.push(item),
            }
        }
        items.extend(self.added.iter().map(|column| column_of(&reference, column)));
        select.projection = items;
        Ok(select)
    }
}

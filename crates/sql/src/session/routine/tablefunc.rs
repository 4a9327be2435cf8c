//! The functions of the extension `tablefunc`: `crosstab`, `connectby`, `normal_rand`.
//!
//! They run statements that they are given, or make, in the transaction at hand, as bodies do. What
//! they give goes by its text, so that the columns of the result may have any types that take it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use colibri_types::functions::{float, int, text};
use colibri_types::{ColumnType, Datum, Error, Result, Row, RowType, SqlState, Type, pulse, text_io};

use super::super::{ResultColumn, Session};
use super::nested::Ran;
use super::values::Frame;
use crate::exec::RowsHeld;
use crate::expr::RoutineCall;

/// Bytes of a category's name that tell it from others.
const CATEGORY_BYTES_MAX: usize = 62;
/// Columns of `connectby` without a branch and a place: the key, its parent, the level.
const CONNECTED_COLUMNS: usize = 3;
/// What is between the keys of a branch if nothing else was said.
const BRANCH_SEPARATOR: &str = "~";

/// The text of a value, if it is not NULL.
type Shown = Option<String>;

/// The rows that a function gives.
#[derive(Default)]
struct Given {
    rows: Vec<Datum>,
    held: RowsHeld,
}

/// A query's rows under a key, of which some are done.
struct Level {
    ran: Ran,
    next: usize,
    branch: String,
}

/// What `connectby` was asked for.
struct Tree<'a> {
    relation: &'a str,
    key: &'a str,
    parent: &'a str,
    /// What the rows under a key are sorted by; their places are then shown.
    order: Option<&'a str>,
    depth_max: i64,
    separator: &'a str,
    shows_branch: bool,
}

fn no_materialize() -> Error {
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, "materialize mode required, but it is not allowed in this context")
}

fn wrong_result(detail: impl Into<String>) -> Error {
    Error::new(SqlState::TYPE_MISMATCH, "invalid return type").detail(detail)
}

fn no_categories() -> Error {
    let message = "provided \"categories\" SQL must return 1 column of at least one row";
    Error::new(SqlState::SYNTAX_ERROR, message)
}

fn wrong_source(detail: &str) -> Error {
    Error::new(SqlState::BAD_PARAMETER, "invalid source data SQL statement").detail(detail)
}

/// The number of a column's type.
fn number(ty: ColumnType) -> u32 {
    match (ty.domain, ty.ty) {
        (Some(domain), _) => domain.oid(),
        (None, Type::Unknown) => Type::Text.oid(),
        (None, ty) => ty.oid(),
    }
}

/// What a column's type is called, with what it says of lengths.
fn type_name(ty: ColumnType) -> String {
    ty.sql_name().to_string()
}

/// The key of a category.
fn category(name: &str) -> &[u8] {
    &name.as_bytes()[..name.len().min(CATEGORY_BYTES_MAX)]
}

/// The rows of a SELECT; none of anything else.
fn selected(ran: &Ran) -> bool {
    ran.gives_rows && ran.tag.starts_with("SELECT") && !ran.rows.is_empty()
}

/// Fails unless the columns of `crosstab` take what its query gives.
fn expect_crosstab(shape: &RowType, columns: &[ResultColumn]) -> Result<()> {
    let incompatible = || Error::new(SqlState::SYNTAX_ERROR, "return and sql tuple descriptions are incompatible");
    let [(_, first), values @ ..] = &shape.fields[..] else { return Err(incompatible()) };
    if values.is_empty() {
        return Err(incompatible());
    }
    if number(*first) != number(columns[0].ty) {
        return Err(wrong_result("SQL rowid datatype does not match return rowid datatype."));
    }
    let fits = values.iter().all(|(_, ty)| number(*ty) == number(columns[2].ty));
    if fits { Ok(()) } else { Err(incompatible()) }
}

impl Tree<'_> {
    /// Fails unless the columns of the result are those that the tree has.
    fn expect_columns(&self, shape: &RowType) -> Result<()> {
        let count = CONNECTED_COLUMNS + usize::from(self.shows_branch) + usize::from(self.order.is_some());
        if shape.fields.len() != count {
            return Err(wrong_result("Query-specified return tuple has wrong number of columns."));
        }
        let numbers: Vec<u32> = shape.fields.iter().map(|(_, ty)| number(*ty)).collect();
        if numbers[0] != numbers[1] {
            return Err(wrong_result("First two columns must be the same type."));
        }
        if numbers[2] != Type::Int4.oid() {
            return Err(wrong_result("Third column must be type integer."));
        }
        if self.shows_branch && numbers[3] != Type::Text.oid() {
            return Err(wrong_result("Fourth column must be type text."));
        }
        if self.order.is_some() && numbers[count - 1] != Type::Int4.oid() {
            let place = if self.shows_branch { "fifth" } else { "fourth" };
            let message =
                format!("query-specified return tuple not valid for Connectby: {place} column must be type integer");
            return Err(Error::new(SqlState::TYPE_MISMATCH, message));
        }
        Ok(())
    }

    /// The query for the rows under a key.
    fn query(&self, above: &str) -> String {
        let Self { relation, key, parent, .. } = self;
        // A backslash means itself in a literal of this form only.
        let escape = if above.contains('\\') { "E" } else { "" };
        let above = above.replace('\\', "\\\\").replace('\'', "''");
        let order = self.order.map(|order| format!(" ORDER BY {order}")).unwrap_or_default();
        format!(
            "SELECT {key}, {parent} FROM {relation} WHERE {parent} = {escape}'{above}' AND {key} IS NOT NULL AND \
             {key} <> {parent}{order}"
        )
    }

    /// Fails unless the keys of a query are of the types that the result has for them.
    fn expect_keys(&self, shape: &RowType, columns: &[ResultColumn]) -> Result<()> {
        if columns.len() < 2 {
            return Err(wrong_result("Query must return at least two columns."));
        }
        for (at, what) in ["key", "parent key"].into_iter().enumerate() {
            let (source, result) = (columns[at].ty, shape.fields[at].1);
            let has_modifier = result.modifier != colibri_types::Modifier::NONE;
            if number(source) != number(result) || has_modifier && source.modifier != result.modifier {
                let (source, result) = (type_name(source), type_name(result));
                let detail = format!("Source {what} type {source} does not match return {what} type {result}.");
                return Err(wrong_result(detail));
            }
        }
        Ok(())
    }

    /// A row of the result.
    fn row(&self, key: Shown, parent: Shown, level: usize, branch: &str, place: &mut i64) -> Vec<Shown> {
        let mut row = vec![key, parent, Some(level.to_string())];
        if self.shows_branch {
            row.push(Some(branch.to_owned()));
        }
        if self.order.is_some() {
            row.push(Some(place.to_string()));
            *place += 1;
        }
        row
    }
}

impl Session {
    /// Runs a function that came with an extension.
    pub(super) fn run_compiled(&mut self, call: &RoutineCall, args: &[Datum]) -> Result<Vec<Datum>> {
        match call.routine.body.as_str() {
            "normal_rand" => self.normal_rand(args),
            "crosstab" => self.crosstab(call, text(&args[0])?),
            "crosstab_hash" => self.crosstab_of_categories(call, text(&args[0])?, text(&args[1])?),
            "connectby_text" | "connectby_text_serial" => self.connectby(call, args),
            other => Err(Error::internal(format!("there is no function {other}"))),
        }
    }

    /// `normal_rand(count, mean, deviation)`
    fn normal_rand(&mut self, args: &[Datum]) -> Result<Vec<Datum>> {
        let [count, mean, deviation] = args else { return Err(Error::internal("normal_rand lacks arguments")) };
        let (count, mean, deviation) = (int(count)?, float(mean)?, float(deviation)?);
        if count < 0 {
            return Err(Error::new(SqlState::BAD_PARAMETER, "number of rows cannot be negative"));
        }
        let mut given = Given::default();
        let mut left = count;
        while left > 0 {
            pulse::work(16)?;
            // The polar method makes two values of a point inside of the circle.
            let (x, y) = (2.0 * fastrand::f64() - 1.0, 2.0 * fastrand::f64() - 1.0);
            let square = x * x + y * y;
            if square >= 1.0 || square == 0.0 {
                continue;
            }
            let scale = deviation * (-2.0 * square.ln() / square).sqrt();
            for value in [x, y].into_iter().take(left.min(2) as usize) {
                let value = Datum::Float(mean + value * scale);
                given.held.add(self.memory_of_statements(), std::slice::from_ref(&value))?;
                given.rows.push(value);
                left -= 1;
            }
        }
        Ok(given.rows)
    }

    fn run_given(&mut self, query: &str) -> Result<Ran> {
        self.run_dynamic(&Frame::default(), query, &[], Vec::new(), usize::MAX)
    }

    /// The text of a value of a query.
    fn text_in(&self, ran: &Ran, row: &[Datum], column: usize) -> Result<Shown> {
        let (Some(value), Some(of)) = (row.get(column), ran.columns.get(column)) else { return Ok(None) };
        if value.is_null() {
            return Ok(None);
        }
        Ok(Some(text_io::written(of.ty.ty, value, &self.env)?.into()))
    }

    /// Keeps a row of the result, whose values are read from their texts.
    /// Columns without a text are NULL.
    fn keep_given(&mut self, given: &mut Given, shape: &Arc<RowType>, mut texts: Vec<Shown>) -> Result<()> {
        texts.resize(shape.fields.len(), None);
        pulse::work(4 * texts.len())?;
        let mut values = Vec::with_capacity(texts.len());
        for (text, (_, to)) in texts.into_iter().zip(&shape.fields) {
            values.push(match text {
                Some(text) if to.domain.is_none() && !to.ty.is_row() => {
                    text_io::parse(to.ty, to.modifier, &text, &self.env)?
                }
                text => {
                    let value = text.map_or(Datum::Null, |text| Datum::text(&text));
                    self.assigned_value(value, Type::Text.into(), *to)?
                }
            });
        }
        let row = Datum::Row(Arc::new(Row::new(Arc::clone(shape), values)));
        given.held.add(self.memory_of_statements(), std::slice::from_ref(&row))?;
        given.rows.push(row);
        Ok(())
    }

    /// `crosstab(query)`: the values of rows in a row that have the same first column, side by side.
    fn crosstab(&mut self, call: &RoutineCall, query: &str) -> Result<Vec<Datum>> {
        let ran = self.run_given(query)?;
        if !selected(&ran) {
            return Ok(Vec::new());
        }
        if ran.columns.len() != 3 {
            return Err(wrong_source("The provided SQL must return 3 columns: rowid, category, and values."));
        }
        let Some(shape) = call.row.clone() else {
            let message = "function returning record called in context that cannot accept type record";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        };
        expect_crosstab(&shape, &ran.columns)?;
        let mut given = Given::default();
        let mut open: Option<Vec<Shown>> = None;
        for row in ran.rows.iter() {
            let (of, value) = (self.text_in(&ran, row, 0)?, self.text_in(&ran, row, 2)?);
            let values = match &mut open {
                Some(values) if values[0] == of => values,
                other => {
                    if let Some(done) = other.take() {
                        self.keep_given(&mut given, &shape, done)?;
                    }
                    other.insert(vec![of])
                }
            };
            // Values that have no column are left out.
            if values.len() < shape.fields.len() {
                values.push(value);
            }
        }
        if let Some(done) = open {
            self.keep_given(&mut given, &shape, done)?;
        }
        Ok(given.rows)
    }

    /// `crosstab(query, categories)`: each value in the column of its category.
    fn crosstab_of_categories(&mut self, call: &RoutineCall, query: &str, categories: &str) -> Result<Vec<Datum>> {
        let shape = call.row.clone().ok_or_else(no_materialize)?;
        if shape.fields.len() < 2 {
            let message = "query-specified return tuple and crosstab function are not compatible";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        let places = self.places_of_categories(categories)?;
        let ran = self.run_given(query)?;
        if !selected(&ran) {
            return Ok(Vec::new());
        }
        if places.is_empty() {
            return Err(no_categories());
        }
        let columns = ran.columns.len();
        if columns < 3 {
            return Err(wrong_source("The provided SQL must return 3  columns; rowid, category, and values."));
        }
        let extra = columns - 2;
        if shape.fields.len() != extra + places.len() {
            let (listed, found) = (shape.fields.len(), extra + places.len());
            let detail = format!("Query-specified return tuple has {listed} columns but crosstab returns {found}.");
            return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid return type").detail(detail));
        }
        let mut given = Given::default();
        let mut open: Option<Vec<Shown>> = None;
        for row in ran.rows.iter() {
            let of = self.text_in(&ran, row, 0)?;
            let values = match &mut open {
                Some(values) if values[0] == of => values,
                other => {
                    if let Some(done) = other.take() {
                        self.keep_given(&mut given, &shape, done)?;
                    }
                    let mut values = vec![of];
                    for column in 1..extra {
                        values.push(self.text_in(&ran, row, column)?);
                    }
                    values.resize(shape.fields.len(), None);
                    other.insert(values)
                }
            };
            let name = self.text_in(&ran, row, extra)?;
            if let Some(&place) = name.and_then(|name| places.get(category(&name))) {
                values[extra + place] = self.text_in(&ran, row, extra + 1)?;
            }
        }
        if let Some(done) = open {
            self.keep_given(&mut given, &shape, done)?;
        }
        Ok(given.rows)
    }

    /// Categories and their places.
    fn places_of_categories(&mut self, query: &str) -> Result<HashMap<Vec<u8>, usize>> {
        let ran = self.run_given(query)?;
        let mut places = HashMap::new();
        if !selected(&ran) {
            return Ok(places);
        }
        if ran.columns.len() != 1 {
            return Err(no_categories());
        }
        for row in ran.rows.iter() {
            pulse::work(4)?;
            let Some(name) = self.text_in(&ran, row, 0)? else {
                let message = "provided \"categories\" SQL must not return NULL values";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            };
            let place = places.len();
            match places.entry(category(&name).to_vec()) {
                Entry::Vacant(free) => _ = free.insert(place),
                Entry::Occupied(_) => {
                    return Err(Error::new(SqlState::DUPLICATE_OBJECT, "duplicate category name"));
                }
            }
        }
        Ok(places)
    }

    /// `connectby(relation, key, parent [, order], start, depth [, separator])`: a row and what is
    /// below it, each row before those below it.
    fn connectby(&mut self, call: &RoutineCall, args: &[Datum]) -> Result<Vec<Datum>> {
        let has_order = call.routine.body == "connectby_text_serial";
        let given = args.get(..3).zip(args.get(3 + usize::from(has_order)..));
        let Some(([relation, key, parent], [start, depth, rest @ ..])) = given else {
            return Err(Error::internal("connectby lacks arguments"));
        };
        let tree = Tree {
            relation: text(relation)?,
            key: text(key)?,
            parent: text(parent)?,
            order: if has_order { Some(text(&args[3])?) } else { None },
            depth_max: int(depth)?,
            separator: rest.first().map_or(Ok(BRANCH_SEPARATOR), text)?,
            shows_branch: !rest.is_empty(),
        };
        let shape = call.row.clone().ok_or_else(no_materialize)?;
        tree.expect_columns(&shape)?;
        let start = text(start)?;
        let mut given = Given::default();
        let mut place = 1;
        let root = tree.row(Some(start.to_owned()), None, 0, start, &mut place);
        self.keep_given(&mut given, &shape, root)?;
        let mut levels = Vec::new();
        let goes_on = |level: usize| tree.depth_max <= 0 || level as i64 <= tree.depth_max;
        if goes_on(1) {
            levels.push(self.level_below(&tree, &shape, start, start.to_owned())?);
        }
        while let Some(level) = levels.last_mut() {
            let at = level.next;
            if at >= level.ran.rows.len() {
                levels.pop();
                continue;
            }
            level.next += 1;
            let row: Vec<Datum> = level.ran.rows.row(at).to_vec();
            let (key, parent) = (self.text_in(&level.ran, &row, 0)?, self.text_in(&level.ran, &row, 1)?);
            let mut branch = level.branch.clone();
            if let Some(key) = &key {
                let separator = tree.separator;
                pulse::work(branch.len())?;
                if format!("{separator}{branch}{separator}").contains(&format!("{separator}{key}{separator}")) {
                    return Err(Error::new(SqlState("42P19"), "infinite recursion detected"));
                }
                branch.push_str(separator);
                branch.push_str(key);
            }
            let depth = levels.len();
            let row = tree.row(key.clone(), parent, depth, &branch, &mut place);
            self.keep_given(&mut given, &shape, row)?;
            if let Some(key) = key.filter(|_| goes_on(depth + 1)) {
                levels.push(self.level_below(&tree, &shape, &key, branch)?);
            }
        }
        Ok(given.rows)
    }

    /// The rows under a key.
    fn level_below(&mut self, tree: &Tree<'_>, shape: &RowType, above: &str, branch: String) -> Result<Level> {
        let ran = self.run_given(&tree.query(above))?;
        if selected(&ran) {
            tree.expect_keys(shape, &ran.columns)?;
        }
        Ok(Level { ran, next: 0, branch })
    }
}

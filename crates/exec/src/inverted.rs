//! Rows that are found by the tokens of their values.
//!
//! The entries of a token are a range, in the order of the rows' keys, and how many they are is known
//! beforehand. So of tokens that all have to be there the rarest one is read first. Those that come
//! after it are read as well, and what both have is kept, or, where they have far more entries than
//! keys are left, each key is looked for among them. Of tokens any of which may be there all are
//! read; where several have to be there, keys are counted.
//!
//! What is found may be too much, never too little, as the conditions are asked again of each row.
//! So a token that many rows have is not looked at, and a query that most rows would be found by is
//! not followed. How many entries a token has is asked without coming to depend on it: nothing
//! depends on these choices but time.
//!
//! Invariants: the transaction comes to depend on the entries that were looked at, and on there being
//! no others beside them. The depth of queries is that of the patterns and paths that they are made
//! of, which is bounded.

use std::ops::ControlFlow;

use colibri_catalog::{Index, Table, inverted, record, store_error::InSql as _};
use colibri_txn::{ColumnSet, Direction, Key, KeyRange, Space};
use colibri_types::tokens::Query;
use colibri_types::{Datum, Error, Result, pulse};
use smallvec::SmallVec;

use super::gathered_keys::{Keys, VISITED_MAX};
use super::ranges::rest;
use super::{Exec, Scope};
use crate::eval::Evaluate as _;
use crate::plan::{Each, TokenCondition};

/// In tables of fewer rows every query is followed.
const ROWS_MIN: u64 = 1_000;
/// The index is given up, and the whole table is read, if the query would find a third of the rows or
/// more.
const SHARE_MAX: u64 = 3;
/// A token with so many times the entries as keys are left is not read: each key is looked for.
const PROBED_MIN: u64 = 8;
/// Where no more keys are left, their rows are looked at.
const KEYS_FEW: usize = 4;
/// Keys that are looked for together.
const PROBED_AT_ONCE: usize = 16;
/// What asking how many entries a token has takes, in units of work.
const UNITS_PER_COUNT: usize = 100;

/// What conditions ask for of an index.
pub(super) enum Asked {
    /// Tokens say nothing, or nothing that is worth following.
    Everything,
    Nothing,
    Search(Search),
}

/// A query with how many entries its tokens have.
struct Node {
    kind: Kind,
    rows: u64,
}

enum Kind {
    /// What the entries of a token begin with.
    Token(Key),
    Range(KeyRange),
    /// The rarest one first.
    And(Vec<usize>),
    /// So many of these.
    Some(usize, Vec<usize>),
}

/// A query that is being followed.
pub(super) struct Search {
    nodes: Vec<Node>,
    space: Space,
    stack: Vec<Frame>,
}

/// What is being done for a node.
enum Frame {
    Read {
        range: KeyRange,
        last: Option<Key>,
        keys: Keys,
        /// They come in order, each once.
        in_order: bool,
        /// Those of which the ones are kept that are here, too.
        among: Option<Keys>,
    },
    And {
        left: Vec<usize>,
    },
    Some {
        count: usize,
        left: Vec<usize>,
        keys: Keys,
        among: Option<Keys>,
    },
    Probe {
        node: usize,
        keys: SmallVec<[Key; 1]>,
        at: usize,
        kept: Keys,
    },
}

/// The query that a condition with a known operand is.
///
/// # Errors
/// Of evaluating the operand, and of reading it as a pattern or a path.
fn query_of((table, index): (&Table, &Index), condition: &TokenCondition, scope: &mut Scope<'_>) -> Result<Query> {
    let (part, class) = match (index.columns.get(condition.place), index.tokens.get(condition.place)) {
        (Some(part), Some(class)) => (part, class.0),
        _ => return Err(Error::internal("an inverted index has no such column")),
    };
    let mut scratch = Datum::Null;
    let env = scope.env;
    let operand = condition.operand.eval(scope, &[], &mut scratch)?;
    let ty = table.columns[part.column].ty.ty;
    let one = |operand: &Datum| class.query(ty, condition.operator, operand, env);
    match (condition.each, operand) {
        (None, operand) => one(operand),
        (Some(each), Datum::Array(array)) => {
            pulse::work(array.values().len())?;
            let queries: Vec<Query> = array.values().iter().map(one).collect::<Result<_>>()?;
            Ok(if each == Each::Any { Query::any_of(queries) } else { Query::all_of(queries) })
        }
        (Some(_), _) => Ok(Query::Nothing),
    }
}

/// About how many rows conditions find by an index, as entries are counted; `None`: the tokens say
/// nothing.
///
/// # Errors
/// Of evaluating operands, and of reading them as patterns or paths.
pub fn rows_of_tokens(
    (table, index): (&Table, &Index),
    conditions: &[TokenCondition],
    scope: &mut Scope<'_>,
    count: &mut dyn FnMut(&KeyRange) -> Result<u64>,
) -> Result<Option<u64>> {
    let mut least = None;
    for condition in conditions {
        match query_of((table, index), condition, scope)? {
            Query::All => {}
            query => {
                let mut nodes = Nodes { place: condition.place, nodes: Vec::new(), count };
                let root = nodes.add(&query)?;
                let rows = nodes.nodes[root].rows;
                least = Some(least.map_or(rows, |least: u64| least.min(rows)));
            }
        }
    }
    Ok(least)
}

/// Makes nodes of queries.
struct Nodes<'n> {
    place: usize,
    nodes: Vec<Node>,
    count: &'n mut dyn FnMut(&KeyRange) -> Result<u64>,
}

impl Nodes<'_> {
    fn push(&mut self, kind: Kind, rows: u64) -> usize {
        self.nodes.push(Node { kind, rows });
        self.nodes.len() - 1
    }

    fn token(&mut self, token: &[u8]) -> Result<usize> {
        pulse::work(UNITS_PER_COUNT)?;
        let entries = inverted::with_token(self.place, token);
        let rows = (self.count)(&record::prefix_range(entries.clone()))?;
        Ok(self.push(Kind::Token(entries), rows))
    }

    fn all(&mut self, queries: &[Query]) -> Result<Vec<usize>> {
        queries.iter().map(|query| self.add(query)).collect()
    }

    fn sum(&self, nodes: &[usize]) -> u64 {
        nodes.iter().fold(0_u64, |sum, &node| sum.saturating_add(self.nodes[node].rows))
    }

    fn add(&mut self, query: &Query) -> Result<usize> {
        Ok(match query {
            Query::Token(token) => self.token(token)?,
            Query::Prefix(prefix) => {
                pulse::work(UNITS_PER_COUNT)?;
                let range = inverted::range_of_prefix(self.place, prefix);
                let rows = (self.count)(&range)?;
                self.push(Kind::Range(range), rows)
            }
            Query::Between(low, high) => {
                pulse::work(UNITS_PER_COUNT)?;
                let range = inverted::range_between(self.place, low, high);
                let rows = (self.count)(&range)?;
                self.push(Kind::Range(range), rows)
            }
            Query::And(queries) => {
                let nodes = self.all(queries)?;
                self.all_of(nodes)
            }
            Query::Or(queries) => {
                let nodes = self.all(queries)?;
                let rows = self.sum(&nodes);
                self.push(Kind::Some(1, nodes), rows)
            }
            Query::AtLeast(count, tokens) => {
                let nodes: Vec<usize> = tokens.iter().map(|token| self.token(token)).collect::<Result<_>>()?;
                // A row with as many tokens is counted as often.
                let rows = self.sum(&nodes) / (*count).max(1) as u64;
                self.push(Kind::Some(*count, nodes), rows)
            }
            // Queries are put together so that these are never inside of others.
            Query::All | Query::Nothing => return Err(Error::internal("a query of tokens is not simplified")),
        })
    }

    fn all_of(&mut self, mut nodes: Vec<usize>) -> usize {
        nodes.sort_by_key(|&node| self.nodes[node].rows);
        let rows = nodes.first().map_or(0, |&node| self.nodes[node].rows);
        self.push(Kind::And(nodes), rows)
    }
}

impl Search {
    /// Begins.
    ///
    /// # Errors
    /// As [`rows_of_tokens`], and of the transaction.
    pub(super) fn begin(
        (table, index): (&Table, &Index),
        conditions: &[TokenCondition],
        ex: &mut Exec<'_, '_>,
    ) -> Result<Asked> {
        let mut queries = Vec::new();
        for condition in conditions {
            match query_of((table, index), condition, &mut ex.scope())? {
                Query::All => {}
                Query::Nothing => return Ok(Asked::Nothing),
                query => queries.push((condition.place, query)),
            }
        }
        let space = index.space();
        let mut count = |range: &KeyRange| ex.txn.estimate(&space, range).in_sql();
        let mut all = Nodes { place: 0, nodes: Vec::new(), count: &mut count };
        let mut roots = Vec::new();
        for (place, query) in &queries {
            all.place = *place;
            roots.push(all.add(query)?);
        }
        let root = match roots[..] {
            [] => return Ok(Asked::Everything),
            [root] => root,
            _ => all.all_of(roots),
        };
        let mut nodes = all.nodes;
        let rows = ex.txn.estimate(&table.space(), &record::whole_range()).in_sql()?;
        if rows >= ROWS_MIN {
            let most = rows / SHARE_MAX;
            if nodes[root].rows > most {
                return Ok(Asked::Everything);
            }
            let counts: Vec<u64> = nodes.iter().map(|node| node.rows).collect();
            for node in &mut nodes {
                if let Kind::And(parts) = &mut node.kind {
                    let rarest = parts.first().copied();
                    parts.retain(|&part| Some(part) == rarest || counts[part] <= most);
                }
            }
        }
        let mut search = Self { nodes, space, stack: Vec::new() };
        search.follow(root, None);
        Ok(Asked::Search(search))
    }

    /// What it holds in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let of = |keys: &Option<Keys>| keys.as_ref().map_or(0, Keys::bytes);
        self.stack
            .iter()
            .map(|frame| match frame {
                Frame::Read { keys, among, .. } | Frame::Some { keys, among, .. } => keys.bytes() + of(among),
                Frame::And { .. } => 0,
                Frame::Probe { keys, kept, .. } => keys.len() * size_of::<Key>() + kept.bytes(),
            })
            .sum()
    }

    /// Puts what is to be done for a node onto the stack.
    fn follow(&mut self, mut node: usize, among: Option<Keys>) {
        loop {
            let Node { kind, rows } = &self.nodes[node];
            if let Some(keys) = &among
                && *rows > keys.len() as u64 * PROBED_MIN
            {
                let keys = among.map(Keys::unpacked).unwrap_or_default();
                self.stack.push(Frame::Probe { node, keys, at: 0, kept: Keys::default() });
                return;
            }
            let read =
                |range, in_order, among| Frame::Read { range, last: None, keys: Keys::default(), in_order, among };
            match kind {
                Kind::Token(entries) => {
                    let range = record::prefix_range(entries.clone());
                    self.stack.push(read(range, true, among));
                    return;
                }
                Kind::Range(range) => {
                    let range = range.clone();
                    self.stack.push(read(range, false, among));
                    return;
                }
                Kind::And(parts) => {
                    let mut left: Vec<usize> = parts.iter().rev().copied().collect();
                    let first = left.pop();
                    self.stack.push(Frame::And { left });
                    // What was there before is passed on to the first one.
                    let Some(first) = first else { return };
                    node = first;
                }
                Kind::Some(count, parts) => {
                    let (count, mut left) = (*count, parts.clone());
                    let first = left.pop();
                    self.stack.push(Frame::Some { count, left, keys: Keys::default(), among });
                    let Some(first) = first else { return };
                    return self.follow(first, None);
                }
            }
        }
    }

    /// Goes on. Nothing while the budget is used up; in the end the keys of the rows.
    ///
    /// # Errors
    /// Of the transaction.
    pub(super) fn step(&mut self, (table, index): (&Table, &Index), ex: &mut Exec<'_, '_>) -> Result<Option<Keys>> {
        if ex.cx.budget_rows <= 0 {
            return Ok(None);
        }
        let over = match self.stack.last_mut() {
            Some(Frame::Read { range, last, keys, .. }) => read(&self.space, (table, index), (range, last, keys), ex)?,
            Some(Frame::Probe { node, keys, at, kept }) => {
                probe((&self.nodes, *node), &self.space, (keys, at, kept), ex)?;
                *at == keys.len()
            }
            _ => return Err(wrong_order()),
        };
        if !over {
            return Ok(None);
        }
        let among = |keys: Keys, among: Option<Keys>| match among {
            Some(among) => among.common(keys),
            None => keys,
        };
        let mut keys = match self.stack.pop() {
            Some(Frame::Read { keys, in_order: true, among: with, .. }) => among(keys, with),
            Some(Frame::Read { keys, among: with, .. }) => among(keys.sorted()?, with),
            Some(Frame::Probe { kept, .. }) => kept,
            _ => return Err(wrong_order()),
        };
        // Hands the keys on to what wanted them.
        loop {
            let next = match self.stack.last_mut() {
                None => return Ok(Some(keys)),
                Some(Frame::And { left }) => match left.pop() {
                    Some(next) if keys.len() > KEYS_FEW => {
                        self.follow(next, Some(keys));
                        return Ok(None);
                    }
                    _ => {
                        self.stack.pop();
                        continue;
                    }
                },
                Some(Frame::Some { left, keys: all, .. }) => {
                    all.append(std::mem::take(&mut keys));
                    left.pop()
                }
                Some(_) => return Err(wrong_order()),
            };
            if let Some(next) = next {
                self.follow(next, None);
                return Ok(None);
            }
            let Some(Frame::Some { count, keys: all, among: with, .. }) = self.stack.pop() else {
                return Err(wrong_order());
            };
            keys = among(all.sorted_at_least(count)?, with);
        }
    }
}

#[cold]
fn wrong_order() -> Error {
    Error::internal("nothing is being done for a query of tokens")
}

/// Reads a piece of a range; whether it was the last one.
fn read(
    space: &Space,
    (table, index): (&Table, &Index),
    (range, last, keys): (&KeyRange, &mut Option<Key>, &mut Keys),
    ex: &mut Exec<'_, '_>,
) -> Result<bool> {
    let left = rest(range, last.as_ref(), Direction::Forward);
    let visited_max = VISITED_MAX.min(ex.cx.budget_rows.max(1) as usize);
    let (mut visited, mut failed, mut broken) = (0, None, None);
    ex.txn
        .scan(space, &left, Direction::Forward, ColumnSet::NONE, visited_max, &mut |entry, _| {
            match record::split_index_entry(table, index, entry) {
                Ok(key) => keys.push(key),
                Err(error) => failed = Some(error),
            }
            visited += 1;
            if visited < visited_max && failed.is_none() {
                return ControlFlow::Continue(());
            }
            broken = Some(Key::from_slice(entry));
            ControlFlow::Break(())
        })
        .in_sql()?;
    if let Some(error) = failed {
        return Err(error);
    }
    // Looking for the first one counts, too.
    ex.cx.budget_rows -= visited.max(1) as i64;
    *last = broken;
    Ok(last.is_none())
}

/// Looks for some keys among the entries of a node.
fn probe(
    (nodes, node): (&[Node], usize),
    space: &Space,
    (keys, at, kept): (&[Key], &mut usize, &mut Keys),
    ex: &mut Exec<'_, '_>,
) -> Result<()> {
    if let Kind::Token(entries) = &nodes[node].kind {
        let end = keys.len().min(*at + PROBED_AT_ONCE);
        let wanted: SmallVec<[Key; PROBED_AT_ONCE]> = keys[*at..end].iter().map(|key| joined(entries, key)).collect();
        let wanted: SmallVec<[&[u8]; PROBED_AT_ONCE]> = wanted.iter().map(|key| &key[..]).collect();
        let (first, mut visited) = (*at, 0);
        let result = ex.txn.get_many(space, &wanted, ColumnSet::NONE, &mut |place, value| {
            if value.is_some() {
                kept.push(&keys[first + place]);
            }
            visited = place + 1;
            ControlFlow::Continue(())
        });
        *at += visited;
        ex.cx.budget_rows -= visited as i64;
        return result.in_sql();
    }
    if let Some(key) = keys.get(*at) {
        if may_have((nodes, node), space, key, ex)? {
            kept.push(key);
        }
        *at += 1;
    }
    Ok(())
}

fn joined(entries: &Key, key: &[u8]) -> Key {
    let mut entry = entries.clone();
    entry.extend_from_slice(key);
    entry
}

/// Whether a row may have the tokens of a node.
fn may_have((nodes, node): (&[Node], usize), space: &Space, key: &[u8], ex: &mut Exec<'_, '_>) -> Result<bool> {
    match &nodes[node].kind {
        Kind::Token(entries) => {
            ex.cx.budget_rows -= 1;
            pulse::work(pulse::UNITS_PER_ROW)?;
            Ok(ex.txn.get(space, &joined(entries, key), ColumnSet::NONE).in_sql()?.is_some())
        }
        // Which of its tokens the row has is not known.
        Kind::Range(_) => Ok(true),
        Kind::And(parts) => {
            for &part in parts {
                if !may_have((nodes, part), space, key, ex)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Kind::Some(count, parts) => {
            let mut found = 0;
            for &part in parts {
                found += usize::from(may_have((nodes, part), space, key, ex)?);
                if found >= *count {
                    return Ok(true);
                }
            }
            Ok(found >= *count)
        }
    }
}

//! Queries that are run for each row of another: their rows are found by keys.
//!
//! ```text
//! SELECT sum(v) FROM n JOIN m ON … WHERE n.k = <outer> AND m.open AND m.at > <outer>
//!
//! SELECT sum(v) FROM rows WHERE at > <outer>
//!   rows, by k: SELECT k, v, at FROM n JOIN m ON … WHERE m.open         computed once, kept by k
//! ```
//! Everything that depends on no row outside is computed once, and its rows are kept by what they
//! have to be equal to: this is what decorrelating by a join with the grouped query comes to, with
//! each outer row's group computed when, and only if, somebody asks for it. So aggregates of no
//! rows, a second row where one is allowed, LIMIT, and conditions other than equalities mean what
//! they mean in the query as it was written, wherever the query stands, and what is not evaluated
//! raises no error.
//!
//! What looks outside may stand deeper: in a query in FROM, in a side of a set operation, in ON of
//! an outer join. Each SELECT has its own rows by keys then; which parts of its FROM these are is
//! in [`super::keyed_parts`]. A query inside a condition of such a SELECT stays an expression if it
//! looks outside as well: it is run for few rows, and finds its own rows by keys.
//!
//! That pays if the query is run often enough, which only the run can tell: the plan has both ways,
//! and changes over once the written one has looked at as many rows as the other one costs (see
//! [`Node::Switch`]). So what is asked for a few rows, by a key or an index, stays as it is.

use colibri_types::Result;

use super::keyed_parts::query_by_key;
use super::{Planner, Rewrites, Way};
use crate::logical::Query;
use crate::plan::Node;

/// A run that looks at no more rows than this is as quick as it gets.
const QUICK_ROWS: f64 = 6.0;
/// Computing the rows is given up when it has looked at this many times as many rows as expected.
const SLACK: f64 = 8.0;
/// Rows that it may look at in any case.
const ROWS_MIN: f64 = 1_000.0;

impl Planner<'_> {
    /// Plans a query that is run for each row of another.
    // Not inlined, as those that it calls are not: queries may stand deep inside each other.
    #[inline(never)]
    pub(super) fn repeated(&mut self, query: &Query) -> Result<Node> {
        if !self.may_have_two_ways() {
            return self.query(query);
        }
        let (plain, _) = self.one_of_two_ways(query, false)?;
        let (_, each) = self.work(&plain);
        let rewrites = self.sizes.rewrites();
        if rewrites == Rewrites::None || (rewrites == Rewrites::Paying && each <= QUICK_ROWS) {
            return Ok(plain);
        }
        if query.has_effects() || query.reads_working() {
            return Ok(plain);
        }
        let Some(by_key) = query_by_key(query, 0) else { return Ok(plain) };
        let (by_key, way) = self.one_of_two_ways(&by_key, true)?;
        // Without keys all that is kept is looked at, which an index may spare the other way.
        if rewrites == Rewrites::Paying && way.keeps_all && self.work(&by_key).1 > each {
            return Ok(plain);
        }
        let after = match rewrites {
            Rewrites::All => 0,
            // Where no rows are kept, what the queries inside keep pays from the second run on.
            _ => way.keeping.unwrap_or(each).ceil() as u64,
        };
        Ok(Node::Switch { after, plain: Box::new(plain), by_key: Box::new(by_key) })
    }

    /// Plans a query one way, and tells what that way keeps.
    fn one_of_two_ways(&mut self, query: &Query, is_by_key: bool) -> Result<(Node, Way)> {
        let around = std::mem::replace(&mut self.way, Way { is_by_key, ..Way::default() });
        let planned = self.in_two_ways(|planner| planner.query(query));
        let way = std::mem::replace(&mut self.way, around);
        Ok((planned?, way))
    }

    /// How many rows computing what is kept by keys may look at; notes what it is expected to take.
    pub(super) fn looked_at_max(&mut self, input: &Node, has_keys: bool) -> u64 {
        let (_, once) = self.work(input);
        self.way.keeps_all |= !has_keys;
        *self.way.keeping.get_or_insert(0.0) += once;
        match self.sizes.rewrites() {
            Rewrites::All => u64::MAX,
            _ => (once * SLACK).max(ROWS_MIN) as u64,
        }
    }
}

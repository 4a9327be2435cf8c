//! The first rows of a join in an order: a part is sorted before it is joined.
//!
//! ```text
//! SELECT … FROM tickets t JOIN labels l ON … WHERE t.status = 'open' ORDER BY t.id LIMIT 20
//!
//! all joined, then sorted:    Sort (id) ── join ── tickets        every open ticket is joined
//! sorted first:               Limit ── join ── Sort (id) ── tickets      twenty are, or a few more
//! ```
//! No index gives the tickets in this order, but sorting them takes less than joining them. What is
//! joined by looking up its rows keeps the order of the first part, and the LIMIT ends it. With more
//! keys in the order than the part has, the rows are sorted part by part behind the join.

use std::sync::Arc;

use colibri_catalog::{Index, Table};
use colibri_types::Result;

use super::joins::{Item, Tables};
use super::order::{Fit, Ordered};
use super::{Planned, Planner, Rewrites};
use crate::expr::Expr;
use crate::logical::{From, Source};
use crate::plan::{Node, SortKey};

/// A part is sorted first only if it has more than this many times the rows that are wanted of it.
const PAYS_ABOVE: f64 = 4.0;

/// A plan and what it costs.
pub(super) type Costed = (f64, Planned);

impl Planner<'_> {
    /// The cheaper one of a plan and of another that sorts a part first.
    pub(super) fn or_sorted_first(
        &mut self,
        (all_cost, all): Costed,
        items: Vec<Item<'_>>,
        estimates: &[f64],
        across: Vec<Expr>,
        tables: &Tables<'_>,
    ) -> Result<Costed> {
        let (Some(limit), rewrites) = (tables.limit, self.sizes.rewrites()) else { return Ok((all_cost, all)) };
        let tries = rewrites == Rewrites::All;
        let can_lead = |at: &usize| leads(&items[*at], tables).is_some();
        let least =
            (0..items.len()).filter(can_lead).min_by(|&one, &other| estimates[one].total_cmp(&estimates[other]));
        let Some(first) = least.filter(|_| self.may_have_two_ways() && rewrites != Rewrites::None) else {
            return Ok((all_cost, all));
        };
        let wanted = limit * (estimates[first] / all.rows.max(1.0)).max(1.0);
        if !tries && wanted * PAYS_ABOVE > estimates[first] {
            return Ok((all_cost, all));
        }
        let tables = &Tables { limit: Some(wanted), ..*tables };
        let (cost, planned) =
            self.in_two_ways(|planner| planner.one_after_another(&[first], true, items, estimates, across, tables))?;
        let is_in_order = tables.order.fit(&planned.order) != Fit::No;
        Ok(if is_in_order && (tries || cost < all_cost) { (cost, planned) } else { (all_cost, all) })
    }

    /// A part's rows in the order that is wanted, as far as that is about the part.
    pub(super) fn sorted(&self, planned: Planned, item: &Item<'_>, tables: &Tables<'_>) -> Planned {
        let Some(order) = leads(item, tables) else { return planned };
        let key = |ordered: &Ordered| {
            let expr = Expr::Column(planned.layout.place(ordered.column)?);
            Some(SortKey { expr, descending: ordered.descending, nulls_first: ordered.nulls_first })
        };
        let Some(keys) = order.iter().map(key).collect::<Option<Vec<_>>>() else { return planned };
        let node = Node::Sort { input: Box::new(planned.node), keys: keys.into(), top: None, presorted: 0 };
        Planned { node, order, ..planned }
    }
}

/// The first columns of the order that is wanted, as columns of the wide row, if they are those of a
/// table whose rows can come first.
fn leads(item: &Item<'_>, tables: &Tables<'_>) -> Option<Vec<Ordered>> {
    let From::Relation(index) = item.from else { return None };
    let relation = &tables.relations[*index];
    let Source::Table(table) = &relation.source else { return None };
    if !item.is_inner() || !item.keys.is_empty() {
        return None;
    }
    let own = tables.order.of_relation(relation);
    // Of rows that are equal in these columns alone, all would be joined before the first is known.
    let is_whole = own.len() == tables.order.columns.len() && !tables.order.goes_on;
    if !is_whole && !is_unique(table, &own) {
        return None;
    }
    let over_wide = own.iter().map(|ordered| Ordered { column: relation.base + ordered.column, ..*ordered });
    (!own.is_empty()).then(|| over_wide.collect())
}

/// Whether no two rows of a table are equal in some columns.
fn is_unique(table: &Table, columns: &[Ordered]) -> bool {
    let has = |column: usize| columns.iter().any(|ordered| ordered.column == column);
    let by_key = table.primary_key.as_ref().is_some_and(|key| key.columns.iter().all(|&column| has(column)));
    let by_index = |index: &Arc<Index>| {
        let is_own = |column: usize| has(column) && table.columns[column].not_null;
        index.unique && index.predicate.is_none() && index.columns.iter().all(|part| is_own(part.column))
    };
    by_key || table.indexes.iter().any(by_index)
}

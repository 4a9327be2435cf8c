//! Rows that aggregates take in later, in an order: what of a row is kept.
//!
//! ```text
//! | group | arguments that differ from row to row | keys of the order that are no argument |
//! ```
//! `percentile_cont(0.5) WITHIN GROUP (ORDER BY x)` keeps `x` of each row, and the fraction once;
//! `array_agg(x ORDER BY x)` keeps `x` once in a row.

use colibri_types::Datum;
use smallvec::SmallVec;

use super::sorter::KeyOrder;
use crate::expr::{Expr, walk};
use crate::plan::AggregateCall;

/// Values of a row.
pub(super) type Values = SmallVec<[Datum; 4]>;

/// Where a value is that a call wants.
#[derive(Clone, Copy)]
enum Place {
    /// In each row.
    Row(usize),
    /// It is the same in all rows: among [`KeptArguments::fixed`].
    Fixed(usize),
}

/// What is kept of the rows for a call.
pub(super) struct KeptArguments {
    args: SmallVec<[Place; 4]>,
    fixed: Values,
    /// For each key of the order its place in the row.
    order: SmallVec<[usize; 2]>,
    /// The group and the arguments come first.
    args_end: usize,
    width: usize,
}

impl KeptArguments {
    /// By the group and the arguments of the first row.
    pub(super) fn new(call: &AggregateCall, first: &[Datum]) -> Self {
        let (mut args, mut fixed, mut args_end) = (SmallVec::new(), Values::new(), 1);
        for (arg, value) in call.args.iter().zip(&first[1..]) {
            if matches!(arg, Expr::Const(_) | Expr::Param(_)) {
                args.push(Place::Fixed(fixed.len()));
                fixed.push(value.clone());
            } else {
                args.push(Place::Row(args_end));
                args_end += 1;
            }
        }
        let mut width = args_end;
        let place = |expr: &Expr| {
            let of_arg = call.args.iter().zip(&args).find(|(arg, _)| walk::same(arg, expr));
            match of_arg {
                Some((_, Place::Row(place))) => *place,
                _ => {
                    width += 1;
                    width - 1
                }
            }
        };
        let order = call.order.iter().map(|key| &key.expr).map(place).collect();
        Self { args, fixed, order, args_end, width }
    }

    /// How many values a kept row has.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// What kept rows are sorted by: the group, if there are several, the call's order, and all
    /// arguments where equal ones are handed over once.
    pub(super) fn order(&self, call: &AggregateCall, grouped: bool) -> Vec<KeyOrder> {
        let mut order: Vec<KeyOrder> = grouped.then(|| KeyOrder::ascending(0)).into_iter().collect();
        order.extend(self.order.iter().zip(&call.order).map(|(&place, key)| KeyOrder::new(place, key)));
        if call.distinct {
            order.extend((1..self.args_end).map(KeyOrder::ascending));
        }
        order
    }

    /// The row that is kept, of a group and arguments, and of the keys of the order.
    pub(super) fn kept(&self, values: Values, order: Values) -> Values {
        let mut values = values.into_iter();
        let mut kept: Values = values.next().into_iter().collect();
        kept.extend(values.zip(&self.args).filter(|(_, place)| matches!(place, Place::Row(_))).map(|(value, _)| value));
        kept.extend(
            order.into_iter().zip(&self.order).filter(|(_, place)| **place >= self.args_end).map(|(value, _)| value),
        );
        kept
    }

    /// The group and the arguments of a kept row that differ from row to row.
    pub(super) fn differing<'r>(&self, row: &'r [Datum]) -> &'r [Datum] {
        &row[..self.args_end]
    }

    /// The arguments of a kept row.
    pub(super) fn arguments<'r>(&'r self, row: &'r [Datum]) -> SmallVec<[&'r Datum; 4]> {
        let argument = |place: &Place| match *place {
            Place::Row(place) => &row[place],
            Place::Fixed(place) => &self.fixed[place],
        };
        self.args.iter().map(argument).collect()
    }
}

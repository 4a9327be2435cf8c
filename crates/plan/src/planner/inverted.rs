//! Ways to a table's rows by the tokens of their values: which conditions an inverted index answers,
//! and about how many rows it finds for them.
//!
//! The conditions are asked again of each row found, so none is taken over. How many rows a way
//! finds follows from the counts of its tokens where their operands are known while the plan is made.

use std::sync::Arc;

use colibri_catalog::Index;
use colibri_types::Type;
use colibri_types::tokens::{TokenClass, exchanged};

use super::access::{Path, SEEK_COST, Wanted, lookup_in_order};
use super::{Rewrites, Sizes};
use crate::expr::{CompareOp, Expr, Test};
use crate::plan::{Access, Each, KeyRanges, TokenCondition};

/// What part of the rows a condition finds whose operand is not known.
const UNKNOWN_SHARE: f64 = 0.005;
/// What a token's entry costs, in rows looked at.
const ENTRY_COST: f64 = 0.3;
/// A way that finds more than this part of the rows is none.
const SHARE_MAX: f64 = 0.25;
/// In smaller tables it is one whatever it finds.
const ROWS_SMALL: f64 = 1_000.0;

impl Wanted<'_> {
    /// The paths by inverted indexes.
    pub(super) fn paths_inverted(&self, sizes: &dyn Sizes) -> Vec<Path> {
        if sizes.rewrites() == Rewrites::None {
            return Vec::new();
        }
        let inverted = self.table.indexes.iter().filter(|index| index.is_inverted() && self.is_usable(index));
        inverted.filter_map(|index| self.path_inverted(index, sizes)).collect()
    }

    fn path_inverted(&self, index: &Arc<Index>, sizes: &dyn Sizes) -> Option<Path> {
        let answered = |(at, condition)| Some((at, self.token_condition(index, condition)?));
        let found: Vec<(usize, TokenCondition)> = self.conditions.iter().enumerate().filter_map(answered).collect();
        let (counted, conditions): (Vec<usize>, Vec<TokenCondition>) = found.into_iter().unzip();
        if conditions.is_empty() {
            return None;
        }
        let all = sizes.rows(self.table).max(1.0);
        let guessed = all * UNKNOWN_SHARE;
        let rows = sizes.rows_of_tokens(self.table, index, &conditions, guessed)?.clamp(1.0, all);
        let tries = sizes.rewrites() == Rewrites::All;
        if !tries && all >= ROWS_SMALL && rows > all * SHARE_MAX {
            return None;
        }
        let start_cost = SEEK_COST * (conditions.len() + 1) as f64 + rows * ENTRY_COST;
        let cost = start_cost + rows * (1.0 + lookup_in_order(rows, all));
        Some(Path {
            index: None,
            ranges: KeyRanges::default(),
            gathered: vec![Access::Inverted { index: Arc::clone(index), conditions }],
            by_all: false,
            taken: Vec::new(),
            counted,
            rows,
            cost: if tries { 0.0 } else { cost },
            start_cost: if tries { 0.0 } else { start_cost },
            covering: false,
            order: self.key_order(None),
            unique: false,
            fixed: Vec::new(),
        })
    }

    /// A condition as an index answers it.
    fn token_condition(&self, index: &Index, condition: &Expr) -> Option<TokenCondition> {
        let (operator, left, right, each) = match condition {
            Expr::Call { function, args } => match &args[..] {
                [left, right] => (function.name, left, right, None),
                _ => return None,
            },
            Expr::Compare { op: CompareOp::Eq, left, right } => ("=", &**left, &**right, None),
            Expr::AnyOf { test, left, array, all } => {
                let operator = match test {
                    Test::Compare(CompareOp::Eq) => "=",
                    Test::Compare(_) => return None,
                    Test::Call(function) => function.name,
                };
                (operator, &**left, &**array, Some(if *all { Each::All } else { Each::Any }))
            }
            _ => return None,
        };
        // What is on the right of an array's values is on its right.
        let other_way = exchanged(operator).filter(|_| each.is_none());
        let sides = [(Some(operator), left, right), (other_way, right, left)];
        sides.into_iter().find_map(|(operator, value, operand)| {
            let operator = operator?;
            let column = self.column_of_tokens(value)?;
            let answers = |class: &TokenClass| class.answers(operator);
            let is_it = |place: &usize| index.columns[*place].column == column && answers(index.tokens[*place].0);
            let place = (0..index.columns.len().min(index.tokens.len())).find(is_it)?;
            self.is_known(operand).then(|| TokenCondition { place, operator, operand: operand.clone(), each })
        })
    }

    /// The column that a value is, or stands for; texts of all kinds have the same tokens, and so have
    /// arrays of them.
    fn column_of_tokens(&self, value: &Expr) -> Option<usize> {
        let are_texts = |ty: &Type| matches!(ty, Type::Text | Type::Varchar);
        match value {
            Expr::Cast { input, from, to, .. }
                if to.modifier.0 < 0
                    && [*from, to.ty].iter().all(|ty| ty.element().is_some_and(|element| are_texts(&element))) =>
            {
                self.rows_of(input).map(|(column, _)| column)
            }
            value => self.rows_of(value).map(|(column, _)| column),
        }
    }
}

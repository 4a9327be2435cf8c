//! Conditions whose fixed parts are computed once a run: `now() - interval '1 day'`, `$1 + 1`.
//!
//! Invariants: a part is replaced by its value only if that can be computed. One that fails stays,
//! and fails for the first row that reaches it, as if nothing had been tried.

use smallvec::SmallVec;

use super::Scope;
use crate::eval::Evaluate as _;
use crate::expr::Expr;
use crate::expr::walk;

type List = SmallVec<[Expr; 2]>;

/// Conditions that are looked at again and again.
pub(super) struct Conditions {
    given: List,
    /// Those of the run at hand, if they are others.
    of_run: Option<List>,
    has_fixed_parts: bool,
}

impl Conditions {
    pub(super) fn new(given: List) -> Self {
        let mut has_fixed_parts = false;
        given.iter().for_each(|one| walk::for_each_fixed(one, &mut |_| has_fixed_parts = true));
        Self { given, of_run: None, has_fixed_parts }
    }

    /// The conditions.
    #[inline]
    pub(super) fn get(&self) -> &[Expr] {
        self.of_run.as_ref().unwrap_or(&self.given)
    }

    /// Computes what is fixed, unless that was done in this run.
    #[inline]
    pub(super) fn settle(&mut self, scope: &mut Scope<'_>) {
        if self.has_fixed_parts && self.of_run.is_none() {
            let mut of_run = self.given.clone();
            of_run.iter_mut().for_each(|one| settle(one, scope));
            self.of_run = Some(of_run);
        }
    }

    /// Another run begins.
    pub(super) fn reset(&mut self) {
        self.of_run = None;
    }
}

fn settle(expr: &mut Expr, scope: &mut Scope<'_>) {
    if walk::is_fixed(expr) {
        if let Ok(value) = expr.eval_owned(scope, &[]) {
            *expr = Expr::Const(value);
        }
        return;
    }
    walk::for_each_child_mut(expr, &mut |child| settle(child, scope));
}

//! A choice between two orders of joins that is made when something is known that the planner could
//! not know: how many different values a query gives.
//!
//! Few values are looked up one by one in the table that they are compared with; many of them go
//! into a hash table, which the table's rows ask. The values are computed first, up to as many as
//! are few. If there are more, they are forgotten: that has cost a small share of what the other
//! way costs.
//!
//! Invariant: the values depend on no row outside, so that the choice holds for all runs in a
//! statement.

use colibri_types::{Result, SqlState};

use super::keyed::{self, Prepared};
use super::{Batch, Exec, Run, Step};
use crate::plan::Node;

/// A choice at work.
#[derive(Default)]
pub(crate) struct ChoiceRun {
    chosen: Option<(Way, Run)>,
}

#[derive(Clone, Copy)]
enum Way {
    Few,
    Many,
}

impl Way {
    fn node<'n>(self, few: &'n Node, many: &'n Node) -> &'n Node {
        match self {
            Self::Few => few,
            Self::Many => many,
        }
    }
}

impl ChoiceRun {
    pub(super) fn step(
        &mut self,
        few_max: usize,
        kept: &Node,
        few: &Node,
        many: &Node,
        ex: &mut Exec<'_, '_>,
        out: &mut Batch,
    ) -> Result<Step> {
        let (way, run) = match &mut self.chosen {
            Some(chosen) => chosen,
            None => {
                let way = match keyed::prepare(&keyed::parts(kept)?, few_max, ex) {
                    Ok(Prepared::Yield) => return Ok(Step::Yield),
                    Ok(Prepared::Ready) => Way::Few,
                    Ok(Prepared::TooMany) => Way::Many,
                    // They do not fit into memory: these are many.
                    Err(error) if error.state() == SqlState::OUT_OF_MEMORY => Way::Many,
                    Err(error) => return Err(error),
                };
                self.chosen.insert((way, Run::new(way.node(few, many))))
            }
        };
        run.step(way.node(few, many), ex, out)
    }

    pub(super) fn rewind(&mut self, few: &Node, many: &Node, ex: &mut Exec<'_, '_>) {
        if let Some((way, run)) = &mut self.chosen {
            run.rewind(way.node(few, many), ex);
        }
    }

    pub(super) fn give_back(&mut self, ex: &mut Exec<'_, '_>) {
        if let Some((_, run)) = &mut self.chosen {
            run.give_back(ex);
        }
    }
}

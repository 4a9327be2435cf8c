//! Running shapes on one server or two, in turns.
//!
//! Invariants
//! - Both servers get the same values in the same order.
//! - The changes of a statement are rolled back before the next one; only the statement is timed.
//! - A statement that takes too long on one server is not run there again.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Protocol;
use super::draw::Value;
use super::file::Shape;
use super::set::Scale;
use crate::measure::random::Random;
use crate::measure::{Error, Result};
use crate::sql::target::{
    self, Answer, BEGIN, Cell, FIRST, Failure, Isolation, ROLLBACK, Session, StatementId, Target,
};

/// The number of answers of a shape that are compared.
const ANSWERS_COMPARED: usize = 50;
/// Runs of a shape in a round even if its time is over.
const RUNS_MAX: usize = 2_000;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) protocol: Protocol,
    pub(super) scale: Scale,
    /// The time for a shape in a round on a server.
    pub(super) time: Duration,
    pub(super) rounds: u32,
    /// What a statement may take.
    pub(super) limit: Duration,
    pub(super) seed: u64,
}

/// The result of a shape on one server.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    /// What each run took, in order of time.
    pub(super) took: Vec<Duration>,
    /// Hashes of the first answers of the first round.
    answers: Vec<u64>,
    /// Why there are no more runs.
    pub(super) failure: Option<String>,
}

impl Outcome {
    /// The median; nothing if it never succeeded.
    pub(super) fn median(&self) -> Option<Duration> {
        self.took.get(self.took.len() / 2).copied()
    }

    /// Whether all answers that both have are alike.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        self.answers.iter().zip(&other.answers).all(|(own, others)| own == others)
    }
}

/// Measures a shape on some servers.
///
/// # Errors
/// A server that cannot be reached.
pub(super) async fn measure(shape: &Shape, targets: &[Arc<dyn Target>], plan: &Plan) -> Result<Vec<Outcome>> {
    let mut outcomes = vec![Outcome::default(); targets.len()];
    for round in 0..plan.rounds {
        for turn in 0..targets.len() {
            // The server that goes first changes from round to round.
            let at = (turn + round as usize) % targets.len();
            if outcomes[at].failure.is_some() {
                continue;
            }
            let target = &*targets[at];
            let stream = u64::from(round);
            match run(shape, target, plan, Random::new(plan.seed, stream), &mut outcomes[at]).await {
                Ok(()) => {}
                Err(failure) if failure.is_answer() || failure.is_timeout() => {
                    outcomes[at].failure = Some(failure.to_string());
                }
                Err(failure) => return Err(Error::target(target.name(), failure.doing(&shape.title()))),
            }
        }
    }
    for outcome in &mut outcomes {
        outcome.took.sort_unstable();
    }
    Ok(outcomes)
}

/// A round of a shape on a server.
async fn run(
    shape: &Shape,
    target: &dyn Target,
    plan: &Plan,
    mut random: Random,
    outcome: &mut Outcome,
) -> std::result::Result<(), Failure> {
    let is_first = outcome.took.is_empty();
    let of_workload = matches!(plan.protocol, Protocol::Prepared).then(|| shape.template.prepared());
    let statements = target::texts(Isolation::Default, of_workload);
    let mut session = target.connect(&statements).await?;
    session.query(&format!("SET statement_timeout = {}", plan.limit.as_millis())).await?;
    let until = Instant::now() + plan.time;
    for count in 0..RUNS_MAX {
        let values = shape.template.draw(plan.scale, &mut random);
        let (took, answer) = run_once(shape, &mut session, plan.protocol, &values).await?;
        outcome.took.push(took);
        if is_first && count < ANSWERS_COMPARED {
            outcome.answers.push(answer);
        }
        if Instant::now() >= until {
            break;
        }
    }
    Ok(())
}

/// Runs a shape once: what it took, and what the answer hashes to.
async fn run_once(
    shape: &Shape,
    session: &mut Session,
    protocol: Protocol,
    values: &[Value],
) -> std::result::Result<(Duration, u64), Failure> {
    if shape.writes {
        session.call(BEGIN);
        session.run().await?;
    }
    let done = match protocol {
        Protocol::Prepared => {
            let mut call = session.call(StatementId(FIRST));
            for value in values {
                call = match value {
                    Value::Int(value) => call.int(*value),
                    Value::Text(text) => call.text(text.as_bytes()),
                    Value::Time(micros) => call.time(*micros),
                };
            }
            let begun = Instant::now();
            session.run().await?;
            (begun.elapsed(), hash(session.answer(0), shape.is_ordered))
        }
        Protocol::Simple => {
            let sql = shape.template.simple(values);
            let begun = Instant::now();
            let table = session.query(&sql).await?;
            (begun.elapsed(), hash(table.answer(), shape.is_ordered))
        }
    };
    if shape.writes {
        session.call(ROLLBACK);
        session.run().await?;
    }
    Ok(done)
}

/// A hash that equal answers share. It covers all rows, and their order if the order is part of the
/// answer.
fn hash(answer: Answer<'_>, is_ordered: bool) -> u64 {
    let mut sum = answer.affected();
    for row in 0..answer.rows() {
        let mut hasher = DefaultHasher::new();
        if is_ordered {
            row.hash(&mut hasher);
        }
        for column in 0..answer.width() {
            match answer.cell(row, column) {
                Cell::Null => 0_u8.hash(&mut hasher),
                Cell::Int(value) => (1_u8, value).hash(&mut hasher),
                Cell::Decimal { mantissa, scale } => (2_u8, mantissa, scale).hash(&mut hasher),
                Cell::Text { .. } => (3_u8, answer.text(row, column)).hash(&mut hasher),
                Cell::Time(micros) => (4_u8, micros).hash(&mut hasher),
            }
        }
        sum = sum.wrapping_add(hasher.finish());
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::target::Batch;

    fn hash_of(rows: &[[i64; 2]], is_ordered: bool) -> u64 {
        let mut batch = Batch::default();
        let mut writer = batch.begin_answer();
        for row in rows {
            row.iter().for_each(|&value| writer.cell(Cell::Int(value)));
            writer.end_row(2);
        }
        writer.affected(rows.len() as u64);
        hash(batch.answer(0), is_ordered)
    }

    #[test]
    fn the_order_of_rows_counts_only_where_it_is_said() {
        let (one, other) = ([[1, 2], [3, 4]], [[3, 4], [1, 2]]);
        assert_eq!(hash_of(&one, false), hash_of(&other, false));
        assert_ne!(hash_of(&one, true), hash_of(&other, true));
    }

    #[test]
    fn other_rows_are_another_answer() {
        assert_ne!(hash_of(&[[1, 2]], false), hash_of(&[[2, 1]], false));
        assert_ne!(hash_of(&[[1, 2]], false), hash_of(&[[1, 2], [1, 2]], false));
        assert_ne!(hash_of(&[], false), hash_of(&[[0, 0]], false));
    }
}

//! Running a suite: each query by itself, several streams at once, and again behind changes.
//!
//! Invariants
//! - Databases take turns query by query, and the one that goes first changes from round to round.
//! - Time is counted from sending a query to having all of its rows. What it cost is read from the
//!   kernel's accounts outside of that time.
//! - A query that failed on a database, or took too long, is not run there again.

use std::time::{Duration, Instant};

use colibri_runtime::{Pool, spawn};

use super::answer::{self, Rows};
use super::side::{self, Side};
use super::suite::{Check, Known, Query, Transaction};
use crate::measure::output::tell;
use crate::measure::random::Random;
use crate::measure::{Error, Result};
use crate::sql::target::{Failure, Session};

/// Round trips that do nothing, of which the median counts.
const ROUND_TRIPS: usize = 21;
/// How far numbers of two databases may be apart: some sum in floating point.
const TOLERANCE: f64 = 1e-4;

/// What a query came to on a database.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    /// What each run took, in the order of the runs.
    pub(super) took: Vec<Duration>,
    /// Processor time of each run.
    pub(super) cpu: Vec<Duration>,
    pub(super) rows: Option<Rows>,
    /// Why there are no more runs.
    pub(super) failure: Option<String>,
    /// Why its rows are not those that they should be.
    pub(super) difference: Option<String>,
}

/// The median of some durations.
pub(super) fn median(durations: &[Duration]) -> Option<Duration> {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// Runs all queries in rounds; the outcomes are by query and by database.
///
/// # Errors
/// A database that cannot be reached.
pub(super) async fn power(sides: &mut [Side], queries: &[Query], rounds: u32) -> Result<Vec<Vec<Outcome>>> {
    let mut outcomes = vec![vec![Outcome::default(); sides.len()]; queries.len()];
    for round in 0..rounds as usize {
        for (query, outcomes) in queries.iter().zip(&mut outcomes) {
            for turn in 0..sides.len() {
                let at = (turn + round) % sides.len();
                if outcomes[at].failure.is_none() {
                    run(&mut sides[at], query, &mut outcomes[at]).await?;
                }
            }
        }
        if rounds > 1 {
            tell!("round {} of {rounds}", round + 1);
        }
    }
    for (query, outcomes) in queries.iter().zip(&mut outcomes) {
        compare(query, outcomes);
    }
    Ok(outcomes)
}

async fn run(side: &mut Side, query: &Query, outcome: &mut Outcome) -> Result<()> {
    let before = side.account(None);
    let name = side.target.name();
    let done = async {
        let session = side.session().await?;
        let begun = Instant::now();
        let table = session.query(&query.sql).await?;
        Ok::<_, Failure>((begun.elapsed(), table))
    };
    match done.await {
        Ok((took, table)) => {
            outcome.took.push(took);
            outcome.cpu.extend(side::cpu(before.as_ref(), side.account(before.as_ref()).as_ref()));
            outcome.rows.get_or_insert_with(|| answer::rows(table.answer()));
        }
        Err(failure) if failure.is_answer() || failure.is_timeout() => outcome.failure = Some(failure.to_string()),
        Err(failure) => return Err(Error::target(name, failure.doing(&query.name))),
    }
    Ok(())
}

/// Compares the answers of the first database with those of each other.
fn compare(query: &Query, outcomes: &mut [Outcome]) {
    let Some((own, others)) = outcomes.split_first_mut() else { return };
    for other in others {
        if let (Some(own), Some(rows)) = (&own.rows, &other.rows) {
            other.difference = differ(query.check, own, rows, TOLERANCE);
        }
    }
}

fn differ(check: Check, own: &Rows, others: &Rows, tolerance: f64) -> Option<String> {
    match check {
        Check::Rows => answer::difference(own, others, tolerance),
        Check::Count => (own.len() != others.len()).then(|| format!("{} rows, and not {}", own.len(), others.len())),
    }
}

/// Queries whose answers on the first database are not the known ones, and why.
pub(super) fn unlike(known: &Known, queries: &[Query], outcomes: &[Vec<Outcome>]) -> Vec<String> {
    let mut unlike = Vec::new();
    for (query, outcomes) in queries.iter().zip(outcomes) {
        let Some((_, wanted)) = known.answers.iter().find(|(name, _)| *name == query.name) else { continue };
        match &outcomes[0].rows {
            Some(rows) => {
                let why = differ(query.check, rows, wanted, known.tolerance);
                unlike.extend(why.map(|why| format!("{}: {why}", query.name)));
            }
            None => unlike.push(format!("{}: no answer", query.name)),
        }
    }
    unlike
}

/// What a query that does nothing takes.
pub(super) async fn round_trip(side: &mut Side) -> Result<Option<Duration>> {
    let name = side.target.name();
    let failed = |failure| Error::target(&name, failure);
    let mut took = Vec::new();
    let session = side.session().await.map_err(failed)?;
    for _ in 0..ROUND_TRIPS {
        let begun = Instant::now();
        session.query("SELECT 1").await.map_err(failed)?;
        took.push(begun.elapsed());
    }
    Ok(median(&took))
}

/// What several streams at once came to.
#[derive(Debug, Clone)]
pub(super) struct Streams {
    pub(super) took: Duration,
    /// Of all queries of all streams.
    pub(super) each: Vec<Duration>,
    pub(super) cpu: Option<Duration>,
    pub(super) failures: Vec<String>,
}

/// Runs all queries in several streams at the same time. Each stream has its own order of queries.
pub(super) async fn streams(side: &Side, queries: &[Query], count: u32, seed: u64) -> Result<Streams> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(side.connect().await.map_err(|failure| Error::target(side.target.name(), failure))?);
    }
    let before = side.account(None);
    let begun = Instant::now();
    let tasks: Vec<_> = (0_u64..)
        .zip(sessions)
        .map(|(number, session)| {
            let mut queries = queries.to_vec();
            Random::new(seed, number).shuffle(&mut queries);
            spawn(Pool::User, stream(session, queries))
        })
        .collect();
    let mut result = Streams { took: Duration::ZERO, each: Vec::new(), cpu: None, failures: Vec::new() };
    for task in tasks {
        let (each, failures) = task.await.map_err(|panic| Error::usage(format!("a stream has ended: {panic}")))?;
        result.each.extend(each);
        result.failures.extend(failures);
    }
    result.took = begun.elapsed();
    result.cpu = side::cpu(before.as_ref(), side.account(before.as_ref()).as_ref());
    Ok(result)
}

async fn stream(mut session: Session, queries: Vec<Query>) -> (Vec<Duration>, Vec<String>) {
    let (mut each, mut failures) = (Vec::new(), Vec::new());
    for query in queries {
        let begun = Instant::now();
        match session.query(&query.sql).await {
            Ok(_) => each.push(begun.elapsed()),
            Err(failure) => failures.push(format!("{}: {failure}", query.name)),
        }
        if session.is_broken() {
            break;
        }
    }
    (each, failures)
}

/// Commits transactions one after the other; gives how long all of them took, and the rows.
pub(super) async fn change(side: &mut Side, transactions: &[Transaction]) -> Result<(Duration, u64)> {
    let name = side.target.name();
    let begun = Instant::now();
    let mut rows = 0;
    let done = async {
        let session = side.session().await?;
        for transaction in transactions {
            session.query("BEGIN").await?;
            for statement in transaction {
                let changed = session.query(statement).await.map_err(|failure| failure.doing(statement))?;
                rows += changed.answer().affected();
            }
            session.query("COMMIT").await?;
        }
        Ok::<_, Failure>(())
    };
    done.await.map_err(|failure| Error::target(name, failure))?;
    Ok((begun.elapsed(), rows))
}

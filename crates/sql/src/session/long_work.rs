//! Tests that nothing a statement does keeps others waiting, and that everything can be ended: see
//! `tests/long/README.md`.
//!
//! A chance is a moment in which others may run: the end of a step, or a poll in the middle of one.
//! Between two of them no more than [`GAP_MAX`] may pass, in CPU time of this thread, so that what
//! else runs on the machine does not matter.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use colibri_storage::{Database, Durability, Options};
use colibri_types::{Error, Result, SqlState};

use super::plans::Command;
use super::{Engine, Progress, Rows, Session, TransactionState};
use crate::plan::Node;

/// Of a build without optimizations.
const GAP_MAX: Duration = Duration::from_millis(100);
/// Rows that a step looks at, as a server begins with.
const BUDGET_ROWS: i64 = 1024;
/// The number of chances after which a statement is ended: it has shown to be long.
const CHANCES: u64 = 40;
/// Utilities of tables that are not large have fewer.
const CHANCES_OF_UTILITIES: u64 = 5;

const TABLES: &str = include_str!("../../tests/long/tables.sql");
const SESSION: &str = include_str!("../../tests/long/session.sql");
const STATEMENTS: &str = include_str!("../../tests/long/statements.txt");

/// What cannot be long: it visits a path of a tree, whatever is in it.
const NEVER_LONG: &[&str] = &["operator count of a range"];

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// What a hook sees of a statement.
struct Chances {
    cancel: Arc<AtomicBool>,
    /// When the last one was, and the longest time between two, in nanoseconds.
    last: AtomicU64,
    longest: AtomicU64,
    count: AtomicU64,
    cancel_after: AtomicU64,
    canceled_at: AtomicU64,
}

impl Chances {
    fn of(session: &mut Session) -> Arc<Self> {
        let chances = Arc::new(Self {
            cancel: session.cancel_flag(),
            last: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            count: AtomicU64::new(0),
            cancel_after: AtomicU64::new(u64::MAX),
            canceled_at: AtomicU64::new(0),
        });
        let hook = Arc::clone(&chances);
        session.set_long_work_hook(Some(Arc::new(move || hook.take())));
        chances
    }

    fn begin(&self, cancel_after: u64) {
        self.last.store(cpu_time().as_nanos() as u64, Ordering::Relaxed);
        self.longest.store(0, Ordering::Relaxed);
        self.count.store(0, Ordering::Relaxed);
        self.canceled_at.store(0, Ordering::Relaxed);
        self.cancel_after.store(cancel_after, Ordering::Relaxed);
    }

    fn take(&self) {
        let now = cpu_time().as_nanos() as u64;
        let gap = now - self.last.swap(now, Ordering::Relaxed);
        self.longest.fetch_max(gap, Ordering::Relaxed);
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 == self.cancel_after.load(Ordering::Relaxed) {
            self.canceled_at.store(now, Ordering::Relaxed);
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

/// The operators there are. Whoever adds one adds a statement that is long because of it.
macro_rules! operators {
    ($($name:ident)*) => {
        const OPERATORS: &[&str] = &[$(stringify!($name)),*];

        fn name_of(node: &Node) -> &'static str {
            match node {
                $(Node::$name { .. } => stringify!($name)),*
            }
        }
    };
}

operators!(Values Series System Expand Window Scan CountRange GroupScan Filter Project NestedLoop HashJoin MergeJoin GroupingSets Aggregate Parallel Distinct
    Sort Limit Append SetOp Shared Recursive Working Keyed Switch FirstRows Choice AdaptiveJoin Rest LockRows Insert Update Delete Merge Parts);

fn operators_of(node: &Node, found: &mut BTreeSet<&'static str>) {
    found.insert(name_of(node));
    match node {
        Node::Values { .. } | Node::Series { .. } | Node::System { .. } | Node::Scan(_) | Node::CountRange { .. } => {}
        Node::GroupScan(_) | Node::Working { .. } | Node::Rest { .. } => {}
        Node::AdaptiveJoin { outer, few, many, .. } => {
            [&**outer, few, many].into_iter().for_each(|node| operators_of(node, found));
        }
        Node::Expand { input, .. }
        | Node::Window { input, .. }
        | Node::Filter { input, .. }
        | Node::Project { input, .. }
        | Node::GroupingSets { input, .. }
        | Node::Aggregate { input, .. }
        | Node::Distinct { input, .. }
        | Node::Sort { input, .. }
        | Node::Limit { input, .. }
        | Node::LockRows { input, .. } => operators_of(input, found),
        Node::Shared { input, .. } | Node::Keyed { input, .. } | Node::Parallel { input } => operators_of(input, found),
        Node::Choice { few, many, .. } => {
            operators_of(few, found);
            operators_of(many, found);
        }
        Node::NestedLoop { outer: left, inner: right, .. }
        | Node::HashJoin { left, right, .. }
        | Node::MergeJoin { left, right, .. }
        | Node::SetOp { left, right, .. }
        | Node::Switch { plain: left, by_key: right, .. }
        | Node::FirstRows { in_order: left, sorted: right, .. }
        | Node::Recursive { first: left, again: right, .. } => {
            operators_of(left, found);
            operators_of(right, found);
        }
        Node::Append { inputs } => inputs.iter().for_each(|input| operators_of(input, found)),
        Node::Insert(insert) => operators_of(&insert.source, found),
        Node::Update(update) => operators_of(&update.source, found),
        Node::Delete(delete) => operators_of(&delete.source, found),
        Node::Merge(merge) => operators_of(&merge.source, found),
        Node::Parts { main, parts } => std::iter::once(&**main).chain(parts).for_each(|node| operators_of(node, found)),
    }
}

/// Runs a statement as a server does: step by step, rows thrown away.
fn run(session: &mut Session, text: &str, chances: &Chances, found: &mut BTreeSet<&'static str>) -> Result<()> {
    let prepared = session.prepare(text, &[])?;
    if let Command::Plan { fragment, .. } = &prepared.command {
        operators_of(&fragment.root, found);
    }
    let mut running = session.start(&prepared, Vec::new())?;
    let mut rows = Rows::default();
    loop {
        let progress = session.step(&mut running, &mut rows, BUDGET_ROWS);
        chances.take();
        match progress? {
            Progress::Rows => rows.clear(),
            Progress::Yield | Progress::Sleep(_) => {}
            Progress::Wait(_) | Progress::Fetch(_) => return Err(Error::internal("nobody else has locks")),
            Progress::Commits(turn) => turn.wait(),
            Progress::Done(_) => return Ok(()),
        }
    }
}

fn database() -> (tempfile::TempDir, Arc<Engine>) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync);
    let engine = Engine::open(Database::open(dir.path(), &options).unwrap()).unwrap();
    Session::new(&engine, "colibri").run(TABLES).unwrap();
    (dir, engine)
}

fn statements() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = STATEMENTS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_once(": ").unwrap())
}

/// How many rows the tables have, and what is in them.
fn contents(session: &mut Session) -> Vec<String> {
    let tables = ["big", "other", "small", "target", "plain", "parent", "child", "long_texts"];
    let of = |table: &str| format!("SELECT count(*), sum(i), max(i) FROM {table}");
    tables.iter().map(|table| format!("{:?}", session.run(&of(table)).unwrap()[0].rows)).collect()
}

/// Says what is wrong with a statement of the list, ending it after some chances.
fn faults_of(
    session: &mut Session,
    (id, text): (&str, &str),
    chances: &Chances,
    found: &mut BTreeSet<&'static str>,
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |what: String| faults.push(format!("{id}: {what}"));
    let wanted = if id.starts_with("utility") { CHANCES_OF_UTILITIES } else { CHANCES };
    session.run("BEGIN").unwrap();
    chances.begin(wanted);
    let ended = run(session, text, chances, found);
    let end = cpu_time().as_nanos() as u64;
    let longest = Duration::from_nanos(chances.longest.load(Ordering::Relaxed));
    let count = chances.count.load(Ordering::Relaxed);
    if longest > GAP_MAX {
        fault(format!("{longest:?} between two chances, of {count}"));
    }
    let is_long = !NEVER_LONG.contains(&id);
    match ended {
        Ok(()) if is_long => fault(format!("it ends after {count} chances")),
        Ok(()) => {}
        Err(error) if is_long && error.state() == SqlState::CANCELED => {
            let late = Duration::from_nanos(end - chances.canceled_at.load(Ordering::Relaxed));
            if late > GAP_MAX {
                fault(format!("it ends {late:?} after it was cancelled"));
            }
            if session.state() != TransactionState::Failed {
                fault("its block has not failed".into());
            }
        }
        Err(error) => fault(error.to_string()),
    }
    session.run("ROLLBACK").unwrap();
    faults
}

#[test]
fn every_operator_and_expression_gives_others_a_chance_and_can_be_ended() {
    let (_dir, engine) = database();
    let mut session = Session::new(&engine, "colibri");
    session.run(SESSION).unwrap();
    let chances = Chances::of(&mut session);
    let before = contents(&mut session);
    let (mut found, mut faults) = (BTreeSet::new(), Vec::new());
    let only = std::env::var("COLIBRI_LONG").unwrap_or_default();
    for statement in statements().filter(|(id, _)| id.contains(&only)) {
        faults.extend(faults_of(&mut session, statement, &chances, &mut found));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(contents(&mut session), before);
    if only.is_empty() {
        let missing: Vec<_> = OPERATORS.iter().filter(|name| !found.contains(*name)).collect();
        assert!(missing.is_empty(), "no statement of the list is planned with {missing:?}");
    }
}

#[test]
fn a_statement_by_itself_that_is_ended_leaves_nothing_and_the_session_goes_on() {
    let (_dir, engine) = database();
    let mut session = Session::new(&engine, "colibri");
    let chances = Chances::of(&mut session);
    let before = contents(&mut session);
    let texts = [
        "INSERT INTO target SELECT a.i * 100000 + b.i, a.s FROM big a, big b",
        "UPDATE big SET g = (SELECT count(*) FROM other o WHERE o.s || big.s = 'x')",
        "SELECT (SELECT count(*) FROM big a, big b WHERE a.i * b.i = -1)",
        "CREATE INDEX ON big (s)",
    ];
    for text in texts {
        chances.begin(CHANCES_OF_UTILITIES);
        let error = run(&mut session, text, &chances, &mut BTreeSet::new()).unwrap_err();
        assert_eq!(error.state(), SqlState::CANCELED, "{text}");
        assert_eq!(session.state(), TransactionState::Idle, "{text}");
        chances.begin(u64::MAX);
        assert_eq!(contents(&mut session), before, "{text}");
    }
}

#[test]
fn what_was_cancelled_before_does_not_end_the_next_statement() {
    let (_dir, engine) = database();
    let mut session = Session::new(&engine, "colibri");
    for _ in 0..3 {
        session.cancel_flag().store(true, Ordering::Relaxed);
        session.run("SELECT length(repeat('x', 1000000) || 'y')").unwrap();
    }
}

#[test]
fn a_statement_cancelled_while_it_is_planned_ends_there() {
    let (_dir, engine) = database();
    let mut session = Session::new(&engine, "colibri");
    let chances = Chances::of(&mut session);
    let text = format!("SELECT 1 IN ({})", vec!["1 + 1"; 20_000].join(", "));
    // By its shape, with the literals left out, or as it is: whichever is cancelled, the statement
    // is.
    for lifting in [super::Lifting::Never, super::Lifting::Always] {
        session.set_lifting(lifting);
        chances.begin(3);
        assert!(session.prepare_simple(&text).is_none(), "{lifting:?}");
        let error = session.prepare(&text, &[]).err().map(|error| error.state());
        assert_eq!(error, Some(SqlState::CANCELED), "{lifting:?}");
        assert_eq!(session.state(), TransactionState::Idle);
        chances.begin(u64::MAX);
        session.run("SELECT 1").unwrap();
    }
}

#[test]
fn a_time_limit_ends_a_statement_that_a_thread_waits_for() {
    let (_dir, engine) = database();
    let mut session = Session::new(&engine, "colibri");
    session.run("SET statement_timeout = 200").unwrap();
    for text in [
        "SELECT count(*) FROM big a, big b WHERE a.i * b.i = -1",
        "SELECT (SELECT count(*) FROM big a, big b WHERE a.i * b.i = -1)",
        "EXPLAIN ANALYZE SELECT count(*) FROM big a, big b WHERE a.i * b.i = -1",
    ] {
        let began = std::time::Instant::now();
        let error = session.run(text).unwrap_err();
        assert_eq!(error.state(), SqlState::CANCELED, "{text}");
        assert!(error.to_string().contains("statement timeout"), "{text}: {error}");
        assert!(began.elapsed() < Duration::from_secs(10), "{text}: {:?}", began.elapsed());
    }
}

/// What operators do on disk lets others run, and can be ended, as all else they do; and nothing of
/// it is left.
#[test]
fn operators_that_have_little_memory_give_others_a_chance_and_can_be_ended_at_any_time() {
    const MORE: &[(&str, &str)] = &[
        ("join of many rows", "SELECT count(*) FROM big a, small b, big c WHERE a.i + b.i = c.i + b.g"),
        ("left join in order", "SELECT a.i, c.s FROM big a LEFT JOIN big c ON a.s = c.s OFFSET 10000000"),
        ("full join", "SELECT count(*) FROM big a FULL JOIN big b ON a.s || 'x' = b.s || 'x'"),
        ("join of one key", "SELECT count(*) FROM big a JOIN big b ON a.i - a.i = b.i - b.i AND a.i = -b.i"),
        ("sort", "SELECT s FROM (SELECT a.s || b.i AS s FROM big a, small b) x ORDER BY s OFFSET 10000000"),
        ("groups", "SELECT count(*) FROM (SELECT a.s, b.i, array_agg(a.i) FROM big a, small b GROUP BY a.s, b.i) x"),
        ("distinct aggregate", "SELECT count(DISTINCT a.s || b.i), sum(DISTINCT a.i * b.i) FROM big a, small b"),
        (
            "rows read twice",
            "WITH w AS MATERIALIZED (SELECT a.s, b.i FROM big a, small b) SELECT count(*) FROM w x, w y WHERE x.i = -y.i",
        ),
        ("rows of RETURNING", "UPDATE big SET g = g + 1 RETURNING s, (SELECT max(i) FROM small)"),
        (
            "recursive",
            "WITH RECURSIVE r(i) AS (SELECT 1 UNION SELECT (i * 2 + j) % 300000 FROM r, generate_series(0, 1) j) SELECT count(*) FROM r",
        ),
    ];
    let (_dir, engine) = database();
    let mut session = Session::new(&engine, "colibri");
    session.run(SESSION).unwrap();
    session.run("SET work_mem = '64kB'; SET hash_mem_multiplier = 1").unwrap();
    let chances = Chances::of(&mut session);
    let only = std::env::var("COLIBRI_LONG").unwrap_or_default();
    let keeps = ["join", "aggregate", "distinct", "sort", "except", "intersect", "shared", "recursive", "returning"];
    let of_those = |id: &str| id.starts_with("operator") && keeps.iter().any(|word| id.contains(word));
    let operators = statements().filter(|(id, _)| of_those(id));
    let mut faults = Vec::new();
    for (id, text) in operators.chain(MORE.iter().copied()).filter(|(id, _)| id.contains(&only)) {
        for wanted in [100, 2_000] {
            session.run("BEGIN").unwrap();
            chances.begin(wanted);
            let ended = run(&mut session, text, &chances, &mut BTreeSet::new());
            let end = cpu_time().as_nanos() as u64;
            let longest = Duration::from_nanos(chances.longest.load(Ordering::Relaxed));
            let is_over = match ended {
                Ok(()) => true,
                Err(error) if error.state() == SqlState::CANCELED => false,
                Err(error) => {
                    faults.push(format!("{id}: {error}"));
                    true
                }
            };
            let late = Duration::from_nanos(end.saturating_sub(chances.canceled_at.load(Ordering::Relaxed)));
            if longest > GAP_MAX || !is_over && late > GAP_MAX {
                faults.push(format!("{id}: {longest:?} between two chances, ended {late:?} after it was cancelled"));
            }
            session.run("ROLLBACK").unwrap();
            if (engine.temp_files().open, session.memory.kept()) != (0, 0) {
                faults.push(format!(
                    "{id}: {} files and {} bytes are left",
                    engine.temp_files().open,
                    session.memory.kept()
                ));
            }
            if is_over {
                break;
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(
        only.is_empty().then(|| engine.temp_files().files).is_none_or(|files| files > 30),
        "{:?}",
        engine.temp_files()
    );
}

//! The life of a client: choose, key, wait for a session, run, think.
//!
//! A waiting client is a task of a few hundred bytes: what a transaction needs is boxed, and exists
//! only while it is under way. A transaction that failed is followed by its think time like any
//! other.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use colibri_runtime::{sleep, sleep_until, timeout};

use super::pool::Given;
use super::record::{Ended, Sample};
use super::{Pacing, Run};
use crate::measure::random::Random;
use crate::sql::target::{Failure, Kind, ROLLBACK, Session};
use crate::sql::workload::{Choice, Client, Done};

/// Timers of terminals within this time share a wake-up.
const SLACK: Duration = Duration::from_millis(1);
/// A client that cannot connect tries for so long.
const CONNECT_FOR: Duration = Duration::from_secs(10);
const CONNECT_PAUSE: Duration = Duration::from_millis(200);
/// The pause before a transaction is tried again begins here and doubles each time, until it has
/// doubled `RETRY_DOUBLINGS` times.
const RETRY_PAUSE: Duration = Duration::from_micros(200);
const RETRY_DOUBLINGS: u32 = 7;

/// The number of transactions after which a client lets others run, however fast it is answered.
const TURNS: u32 = 8;

async fn let_others_run() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Counts a client as being at work, until dropped.
struct AtWork<'r>(&'r Run);

impl<'r> AtWork<'r> {
    fn new(run: &'r Run) -> Self {
        run.progress.begin();
        Self(run)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.progress.end();
    }
}

/// Lives until the run is over.
pub(super) async fn live(run: Arc<Run>, number: u32) {
    let mut client = run.workload.client(number, run.plan.seed);
    if run.plan.pacing == Pacing::Closed && run.pool.has_one_for_each(run.plan.clients) {
        Box::pin(with_own_session(&run, &mut client)).await;
    }
    let mut first = match run.plan.pacing {
        Pacing::Terminals => run.workload.first(&mut client),
        _ => None,
    };
    let mut turn = 0_u32;
    while !run.is_over() {
        // Against a target that answers at once, the client would never leave the thread.
        turn = turn.wrapping_add(1);
        if turn.is_multiple_of(TURNS) {
            let_others_run().await;
        }
        let Choice { kind, keying, think } = first.take().unwrap_or_else(|| run.workload.choose(&mut client));
        let due = match (&run.schedule, run.plan.pacing) {
            (Some(schedule), _) => schedule.take(),
            (None, Pacing::Terminals) => Instant::now() + keying,
            (None, _) => Instant::now(),
        };
        if run.plan.pacing != Pacing::Closed {
            let is_early = Instant::now() < due;
            let slack = if run.schedule.is_some() { Duration::ZERO } else { SLACK };
            sleep_until(due).slack(slack).await;
            if is_early {
                run.recorder.lag(due.elapsed());
            }
        }
        if run.is_over() {
            run.leave(kind, due);
            break;
        }
        Box::pin(one(&run, &mut client, kind, due)).await;
        if run.plan.pacing == Pacing::Terminals {
            sleep(think).slack(SLACK).await;
        }
    }
}

/// A client in closed loop with a session of its own. A transaction is due when the one before has
/// ended. Returns when the run is over, or when the target takes no more connections, so that
/// sessions have to be shared.
async fn with_own_session(run: &Run, client: &mut Client) {
    let mut own = None;
    let mut ended = None;
    let mut turn = 0_u32;
    loop {
        turn = turn.wrapping_add(1);
        if turn.is_multiple_of(TURNS) {
            let_others_run().await;
            ended = None;
        }
        // In this order, the thread that ends the run waits for this client.
        let _at_work = AtWork::new(run);
        if run.is_over() || run.pool.is_scarce() {
            run.progress.give_up();
            break;
        }
        let kind = run.workload.choose(client).kind;
        let due = ended.unwrap_or_else(Instant::now);
        let (session, admitted) = match &mut own {
            Some(session) => (session, due),
            None => {
                let Some(session) = session(run, kind, due).await else { break };
                (own.insert(session), Instant::now())
            }
        };
        ended = Some(transact(run, client, kind, (due, admitted), session).await);
        if session.is_broken() {
            own = None;
            run.pool.put_broken();
        }
    }
    if let Some(session) = own {
        run.pool.put(session);
    }
}

/// One transaction, from when it is due to when it is recorded.
async fn one(run: &Run, client: &mut Client, kind: u8, due: Instant) {
    // A client that finds the pool closed begins nothing. One that has taken a session before that
    // is seen to be at work.
    let _at_work = AtWork::new(run);
    let Some(mut session) = session(run, kind, due).await else { return };
    let times = (due, Instant::now());
    transact(run, client, kind, times, &mut session).await;
    if session.is_broken() {
        drop(session);
        run.pool.put_broken();
    } else {
        run.pool.put(session);
    }
}

/// A session, when it is this client's turn, for a transaction of that kind that was due then.
/// `None` if the run is over.
async fn session(run: &Run, kind: u8, due: Instant) -> Option<Session> {
    loop {
        let made = match run.pool.take().await {
            Given::Session(session) => return Some(session),
            Given::Permit => connect(run).await,
            Given::Closed => Made::Over,
        };
        match made {
            Made::Session(session) => return Some(session),
            Made::Refused => {}
            Made::Over => break,
        }
    }
    run.leave(kind, due);
    run.progress.give_up();
    None
}

/// Runs and records a transaction that was due, and got a session, at these times. Gives the time
/// of its end.
async fn transact(
    run: &Run,
    client: &mut Client,
    kind: u8,
    (due, admitted): (Instant, Instant),
    session: &mut Session,
) -> Instant {
    session.take_wire();
    session.take_repeated();
    let random = client.random;
    let mut retries = 0;
    let outcome = loop {
        session.take_row_bytes();
        let outcome = attempt(run, client, kind, session).await;
        match &outcome {
            Err(failure)
                if failure.kind() == Kind::Conflict && retries < run.plan.retries_max && !session.is_broken() =>
            {
                retries += 1;
                run.progress.conflict();
                pause(&mut client.random, retries).await;
                client.random = random;
            }
            _ => break outcome,
        }
    };
    let (wire, row_bytes) = (session.take_wire(), session.take_row_bytes());
    retries += session.take_repeated();
    let now = match (&outcome, session.take_answered()) {
        (Ok(_), Some(answered)) => answered,
        _ => Instant::now(),
    };
    let ended = match outcome {
        Ok(Done { rolled_back, tally }) => Ended::Done { rolled_back, tally },
        Err(failure) => {
            if !failure.is_answer() {
                session.give_up();
                run.progress.give_up();
            }
            Ended::Failed(failure)
        }
    };
    let sample = Sample { kind, scheduled: now - due, admitted: now - admitted, wire, retries, row_bytes };
    run.recorder.record(now, &sample, ended);
    now
}

/// Tries a transaction once. Afterwards the session is in no transaction.
async fn attempt(run: &Run, client: &mut Client, kind: u8, session: &mut Session) -> Result<Done, Failure> {
    let limit = run.plan.timeout;
    let mut transaction = run.workload.transaction(client, kind, session);
    // A target in process often answers at once. Then the clock is not read for the time limit.
    let at_once = poll_fn(|cx| Poll::Ready(transaction.as_mut().poll(cx))).await;
    let answered = match at_once {
        Poll::Ready(answered) => {
            drop(transaction);
            Ok(answered)
        }
        Poll::Pending => timeout(limit, transaction).await,
    };
    let failure = match answered {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(failure)) => failure,
        // Which call it was waiting for is not known. It may have been the commit.
        Err(_) => Failure::timed_out(run.workload.kinds()[usize::from(kind)].commits, limit),
    };
    session.reset();
    if failure.state() == "answer" && !session.is_broken() {
        session.call(ROLLBACK);
        let _the_first_failure_is_told = timeout(limit, session.run()).await;
    }
    Err(failure)
}

/// Waits a random time, longer after each attempt, so that others get ahead.
async fn pause(random: &mut Random, retries: u32) {
    let most = RETRY_PAUSE * (1 << retries.min(RETRY_DOUBLINGS));
    sleep(most.mul_f64(random.unit())).slack(Duration::from_micros(50)).await;
}

/// The result of an attempt to make a session.
#[allow(clippy::large_enum_variant, reason = "it is a session nearly always, and moved once")]
enum Made {
    Session(Session),
    /// The target takes no more connections, so those that there are have to do.
    Refused,
    /// The run has ended meanwhile, which it does if no session can be made for long.
    Over,
}

/// Makes a session.
async fn connect(run: &Run) -> Made {
    let begun = Instant::now();
    while !run.is_over() {
        let failure = match timeout(run.plan.timeout, run.pool.connect()).await {
            Ok(Ok(session)) => return Made::Session(session),
            Ok(Err(failure)) => failure,
            Err(_) => Failure::timed_out(false, run.plan.timeout),
        };
        if failure.is_full() && run.pool.withhold_permit() {
            return Made::Refused;
        }
        if begun.elapsed() > CONNECT_FOR.min(run.plan.timeout) {
            run.fail(format!("the target cannot be reached any more: {failure}"));
            break;
        }
        sleep(CONNECT_PAUSE).await;
    }
    run.pool.return_permit();
    Made::Over
}

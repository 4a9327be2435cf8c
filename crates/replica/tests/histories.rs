//! Histories of three nodes on the simulated service, with faults, under many seeds.
//!
//! Each node joins, campaigns, appends while it leads, publishes bases, trims, compacts and hands
//! over; beside it the same node follows the log. What a node has applied survives its death, as a
//! disk does. The network loses, repeats and reorders; nodes are cut off and killed; leases are
//! ended; the service is compacted under the watches.
//!
//! At the end of a history the network is mended, and then holds:
//! 1. Every node has applied the same records.
//! 2. Every acknowledged record is among them once. No record is there twice, and none that was
//!    told to be never there.
//! 3. A record that was acknowledged before another was begun stands before it.
//! 4. Epochs never descend, and each record has the epoch of the leadership that appended it.
//! 5. While a leader's lease was certainly valid, nobody else was elected.
//!
//! `COLIBRI_REPLICA_SEEDS` sets the number of seeds (300 otherwise).

#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use colibri_replica::simulation::{Faults, Simulation};
use colibri_replica::{
    Appender, Campaign, Cluster, Compactor, Database, Epoch, FollowError, JoinOptions, Leadership, Membership, Node,
    NodeId, Outcome, Point, Record, Replace, Reservation, Resolution, Staged,
};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const ENTRY_BYTES_MAX: usize = 200;

fn db() -> Database {
    Database("app".to_owned())
}

/// An append of which the client was told something.
struct Told {
    epoch: Epoch,
    begun: Duration,
    told: Duration,
    is_there: bool,
}

/// What survives a node's death.
struct Disk {
    applied: Vec<Record>,
    point: Point,
}

struct History {
    simulation: Simulation,
    disks: BTreeMap<&'static str, Disk>,
    told: BTreeMap<u64, Told>,
    next_record: u64,
    /// Who believes to lead.
    leading: BTreeMap<&'static str, Leadership>,
    members: BTreeMap<&'static str, Membership>,
    expiries_are_forced: bool,
    /// The first thing that was wrong while the history went on.
    wrong: Option<String>,
    seen: Counts,
}

/// What happened in a history, so that a test knows that it tests something.
#[derive(Default, Debug, Clone, Copy)]
struct Counts {
    acknowledged: u64,
    never: u64,
    unknown: u64,
    elections: u64,
    trims: u64,
    seeded_anew: u64,
}

type Shared = Rc<RefCell<History>>;

fn random(history: &Shared, below: u64) -> u64 {
    history.borrow().simulation.random(below)
}

fn now(history: &Shared) -> Duration {
    history.borrow().simulation.now().0
}

/// A node's life until it is killed.
async fn live(name: &'static str, cluster: Cluster, history: Shared) {
    let coordinator = cluster.coordinator().clone();
    loop {
        let node = Node { id: NodeId::new(name).unwrap(), address: format!("{name}:1") };
        let options =
            JoinOptions { lease_ttl: Duration::from_secs(3), replace: Replace::EarlierStart, ..JoinOptions::default() };
        let Ok(membership) = cluster.join(node, options).await else {
            coordinator.sleep(Duration::from_millis(200)).await;
            continue;
        };
        history.borrow_mut().members.insert(name, membership.clone());
        // Both in one task: the node's life as a member ends with its lease.
        let mut kept = Box::pin(membership.keep_alive());
        let mut working = Box::pin(work(name, &membership, &history));
        std::future::poll_fn(|context| {
            let is_over = kept.as_mut().poll(context).is_ready() || working.as_mut().poll(context).is_ready();
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        history.borrow_mut().leading.remove(name);
        history.borrow_mut().members.remove(name);
    }
}

async fn work(name: &'static str, membership: &Membership, history: &Shared) {
    let coordinator = membership.cluster().coordinator();
    loop {
        let reservation = if random(history, 8) == 0 { Reservation::Ignore } else { Reservation::Heed };
        match membership.campaign(&db(), reservation).await {
            Ok(Campaign::Elected(leadership)) => {
                note_elected(name, &leadership, history);
                lead(name, &leadership, history).await;
                history.borrow_mut().leading.remove(name);
            }
            _ => coordinator.sleep(Duration::from_millis(100 + random(history, 200))).await,
        }
    }
}

fn note_elected(name: &'static str, leadership: &Leadership, history: &Shared) {
    let mut history = history.borrow_mut();
    history.seen.elections += 1;
    let other = history
        .leading
        .iter()
        .find(|(other, older)| **other != name && older.epoch() < leadership.epoch() && !older.certain_for().is_zero());
    if let Some((other, _)) = other
        && !history.expiries_are_forced
    {
        let wrong = format!("{name} was elected while {other} was certain of its lease");
        history.wrong.get_or_insert(wrong);
    }
    history.leading.insert(name, leadership.clone());
}

/// Stages a record now. The future appends it, notes what a client would be told, and gives whether
/// the leader goes on.
fn append_one<'a>(
    name: &'static str,
    appender: &mut Appender,
    leadership: &'a Leadership,
    history: &'a Shared,
) -> Pin<Box<dyn Future<Output = bool> + 'a>> {
    let record = {
        let mut history = history.borrow_mut();
        history.next_record += 1;
        history.next_record
    };
    // Some have several parts.
    let size = if random(history, 4) == 0 { random(history, 3 * ENTRY_BYTES_MAX as u64) } else { 0 };
    let mut bytes = record.to_le_bytes().to_vec();
    bytes.resize(8 + size as usize, record as u8);
    let staged = appender.stage(&bytes);
    let begun = now(history);
    Box::pin(async move {
        let Some(is_there) = settle(name, &staged, leadership, history).await else { return false };
        let mut history = history.borrow_mut();
        let told = history.simulation.now().0;
        history.told.insert(record, Told { epoch: leadership.epoch(), begun, told, is_there });
        *(if is_there { &mut history.seen.acknowledged } else { &mut history.seen.never }) += 1;
        is_there
    })
}

/// Appends until the outcome is known. `None`: it never will be.
async fn settle(name: &str, staged: &Staged, leadership: &Leadership, history: &Shared) -> Option<bool> {
    let coordinator = leadership.membership().cluster().coordinator();
    loop {
        match staged.append().await {
            Outcome::Appended => return Some(true),
            Outcome::Fenced { .. } => return Some(false),
            Outcome::Trimmed => return None,
            Outcome::Gap { .. } => coordinator.sleep(Duration::from_millis(5)).await,
            Outcome::Unknown(_) | Outcome::NotSent(_) => {
                history.borrow_mut().seen.unknown += 1;
                if random(history, 2) == 0 {
                    match staged.resolve().await {
                        Ok(Resolution::Committed) => return Some(true),
                        Ok(Resolution::Never { .. }) => return Some(false),
                        Ok(Resolution::Trimmed) => return None,
                        Ok(Resolution::Repeat) | Err(_) => {}
                    }
                }
            }
            other => {
                history.borrow_mut().wrong.get_or_insert(format!("{name}: {other:?}"));
                return None;
            }
        }
    }
}

/// Runs futures together; gives their values.
async fn all_of<T>(futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let mut waiting: Vec<_> = futures.into_iter().map(Some).collect();
    let mut values = Vec::new();
    std::future::poll_fn(|context| {
        for place in &mut waiting {
            if let Some(future) = place
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                values.push(value);
                *place = None;
            }
        }
        if waiting.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    values
}

/// Appends until the leadership is over, or is given away.
async fn lead(name: &'static str, leadership: &Leadership, history: &Shared) {
    let coordinator = leadership.membership().cluster().coordinator();
    let Ok(mut appender) = leadership.appender().await else { return };
    let mut compactor = Compactor::new(leadership.membership().cluster(), 2000);
    loop {
        // Mostly one at a time, sometimes several under way together.
        let count = if random(history, 3) == 0 { 1 + random(history, 4) } else { 1 };
        let appending = (0..count).map(|_| append_one(name, &mut appender, leadership, history)).collect();
        if !all_of(appending).await.into_iter().all(|is_there| is_there) {
            return;
        }
        match random(history, 60) {
            0 => {
                let successor = NodeId::new(NODES[random(history, 3) as usize]).unwrap();
                _ = leadership.resign((random(history, 2) == 0).then_some(&successor)).await;
                return;
            }
            1..6 => {
                let cluster = leadership.membership().cluster();
                if let Ok(bases) = cluster.bases(&db()).await
                    && let Some(held) = bases.held_by(2)
                    && let Ok(trimmed) = leadership.trim(&held).await
                {
                    history.borrow_mut().seen.trims += 1;
                    if compactor.note(trimmed) {
                        _ = compactor.run().await;
                    }
                }
            }
            6..20 => coordinator.sleep(Duration::from_millis(random(history, 200))).await,
            _ => {}
        }
    }
}

/// Applies the log, and publishes what it has as a base now and then.
async fn follow(name: &'static str, cluster: Cluster, history: Shared) {
    let coordinator = cluster.coordinator().clone();
    loop {
        let point = history.borrow().disks[name].point;
        let mut follower = cluster.follow(&db(), point);
        loop {
            match follower.next().await {
                Ok(record) => {
                    let mut history = history.borrow_mut();
                    let disk = history.disks.get_mut(name).unwrap();
                    disk.point = record.end;
                    disk.applied.push(record);
                }
                Err(FollowError::Trimmed { .. }) => {
                    seed_anew(name, &history);
                    break;
                }
                Err(FollowError::Failed(_)) => break,
                Err(other) => {
                    history.borrow_mut().wrong.get_or_insert(format!("{name} cannot follow: {other}"));
                    return;
                }
            }
            if random(&history, 10) == 0 {
                let point = history.borrow().disks[name].point;
                let membership = history.borrow().members.get(name).cloned();
                if let Some(membership) = membership {
                    _ = membership.publish_base(&db(), point).await;
                }
            }
        }
        coordinator.sleep(Duration::from_millis(100)).await;
    }
}

/// Takes the applied records of the node that has most: a backup of it.
fn seed_anew(name: &'static str, history: &Shared) {
    let mut history = history.borrow_mut();
    history.seen.seeded_anew += 1;
    let best = history.disks.values().max_by_key(|disk| disk.point.next).unwrap();
    let copy = Disk { applied: best.applied.clone(), point: best.point };
    history.disks.insert(name, copy);
}

fn start(name: &'static str, history: &Shared) {
    let cluster = Cluster::new(history.borrow().simulation.connect(name), "test");
    let (living, following) = (live(name, cluster.clone(), history.clone()), follow(name, cluster, history.clone()));
    let simulation = history.borrow().simulation.clone();
    simulation.spawn(name, living);
    simulation.spawn(name, following);
}

fn run(seed: u64, ignored_compares: Option<&[u8]>) -> Result<(Counts, Vec<Record>), String> {
    let simulation = Simulation::new(seed);
    simulation.set_value_bytes_max(ENTRY_BYTES_MAX);
    if let Some(prefix) = ignored_compares {
        simulation.ignore_compares_of(prefix);
    }
    let permille = |simulation: &Simulation, most: u64| simulation.random(most) as u32;
    let slowest = 1 + simulation.random(60);
    let faults = Faults {
        delay: Duration::from_micros(200)..=Duration::from_millis(slowest),
        request_timeout: Duration::from_millis(500),
        requests_lost_permille: permille(&simulation, 60),
        answers_lost_permille: permille(&simulation, 60),
        duplicates_permille: permille(&simulation, 100),
        watches_cut_permille: permille(&simulation, 100),
        deliveries_repeated_permille: permille(&simulation, 100),
    };
    let expiries_are_forced = simulation.random(2) == 0;
    simulation.set_faults(faults);
    let cluster = Cluster::new(simulation.connect("nobody"), "test");
    let disk = || Disk { applied: Vec::new(), point: cluster.start(&db()) };
    let history = Rc::new(RefCell::new(History {
        simulation: simulation.clone(),
        disks: NODES.map(|name| (name, disk())).into(),
        told: BTreeMap::new(),
        next_record: 0,
        leading: BTreeMap::new(),
        members: BTreeMap::new(),
        expiries_are_forced,
        wrong: None,
        seen: Counts::default(),
    }));
    NODES.into_iter().for_each(|name| start(name, &history));
    for _ in 0..30 {
        simulation.run_for(Duration::from_millis(100 + random(&history, 1500)));
        let name = NODES[random(&history, 3) as usize];
        match random(&history, 10) {
            0..3 => simulation.cut(name),
            3..6 => NODES.into_iter().for_each(|name| simulation.heal(name)),
            6 => {
                simulation.kill(name);
                history.borrow_mut().leading.remove(name);
                history.borrow_mut().members.remove(name);
                start(name, &history);
            }
            7 if expiries_are_forced => {
                let leading = history.borrow().leading.get(name).map(|leadership| leadership.membership().lease());
                leading.into_iter().for_each(|lease| simulation.expire(lease));
            }
            8 => simulation.compact(),
            _ => {}
        }
    }
    // The network is mended, leaders end, and the followers come to the end of the log.
    NODES.into_iter().for_each(|name| simulation.heal(name));
    let quick = Faults { request_timeout: Duration::from_millis(500), ..Faults::default() };
    simulation.set_faults(quick);
    simulation.run_for(Duration::from_secs(8));
    NODES.into_iter().for_each(|name| simulation.kill(name));
    for name in NODES {
        let cluster = Cluster::new(history.borrow().simulation.connect(name), "test");
        let following = follow(name, cluster, history.clone());
        simulation.spawn(name, following);
    }
    simulation.run_for(Duration::from_secs(20));
    NODES.into_iter().for_each(|name| simulation.kill(name));
    let mut history = history.borrow_mut();
    check(&history)?;
    let applied = history.disks.remove("n1").unwrap().applied;
    Ok((history.seen, applied))
}

fn check(history: &History) -> Result<(), String> {
    if let Some(wrong) = &history.wrong {
        return Err(wrong.clone());
    }
    let applied = &history.disks["n1"].applied;
    for name in NODES {
        if history.disks[name].applied != *applied {
            return Err(format!("{name} has applied other records than n1"));
        }
    }
    let number = |record: &Record| u64::from_le_bytes(record.bytes[..8].try_into().unwrap());
    let mut there = BTreeSet::new();
    let (mut last_epoch, mut latest_begun) = (Epoch(0), Duration::ZERO);
    for record in applied {
        let n = number(record);
        if record.bytes[8..].iter().any(|&byte| byte != n as u8) {
            return Err(format!("record {n} is mixed with another"));
        }
        if !there.insert(n) {
            return Err(format!("record {n} is there twice"));
        }
        if record.epoch < last_epoch {
            return Err(format!("record {n} has an epoch below the one before"));
        }
        last_epoch = record.epoch;
        let Some(told) = history.told.get(&n) else { continue };
        if !told.is_there || told.epoch != record.epoch {
            return Err(format!("record {n} was told to be never there, or of another epoch"));
        }
        if told.told < latest_begun {
            return Err(format!("record {n} was acknowledged before one in front of it was begun"));
        }
        latest_begun = latest_begun.max(told.begun);
    }
    match history.told.iter().find(|(n, told)| told.is_there && !there.contains(n)) {
        Some((n, _)) => Err(format!("record {n} was acknowledged and is lost")),
        None => Ok(()),
    }
}

fn seeds() -> u64 {
    std::env::var("COLIBRI_REPLICA_SEEDS").map_or(300, |seeds| seeds.parse().unwrap())
}

#[test]
fn every_acknowledged_append_is_there_once_in_order_under_all_faults() {
    let mut sum = Counts::default();
    for seed in 0..seeds() {
        let (seen, _) = run(seed, None).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        sum.acknowledged += seen.acknowledged;
        sum.never += seen.never;
        sum.unknown += seen.unknown;
        sum.elections += seen.elections;
        sum.trims += seen.trims;
        sum.seeded_anew += seen.seeded_anew;
    }
    println!("{sum:?}");
    let each = [sum.acknowledged / 10, sum.never, sum.unknown, sum.elections, sum.trims, sum.seeded_anew];
    assert!(each.iter().all(|&count| count >= seeds() / 10), "the histories miss something: {sum:?}");
}

/// How many of so many seeds notice that compares of some keys are left out.
fn caught(prefix: &str, seeds: u64) -> usize {
    (0..seeds).filter(|&seed| run(seed, Some(prefix.as_bytes())).is_err()).count()
}

#[test]
fn leaving_out_the_compare_of_the_leader_is_caught() {
    assert!(caught("/colibri/test/leader/", 20) > 0);
}

#[test]
fn leaving_out_the_compares_of_positions_is_caught() {
    assert!(caught("/colibri/test/log/", 20) > 0);
}

#[test]
fn a_seed_gives_the_same_history_each_time() {
    for seed in 0..5 {
        assert_eq!(run(seed, None).unwrap().1, run(seed, None).unwrap().1);
    }
}

//! Which node should lead a database, and what a node does to bring that about.
//!
//! The *home* of a database is the node that an administrator has named (`colibri cluster move`),
//! while that is a member; else the member that comes first by a hash of the node's name and the
//! database's number. So leaders spread over the nodes, a node that goes leaves its databases to
//! all others, and a node that comes back gets its own ones again.
//!
//! - A database that nobody leads is taken by its home.
//! - A leader hands a database over when its home is another member, which holds the log nearly to
//!   its end, some seconds after the members or the database have changed.
//! - A node that lacks a database, or what was committed while it was away, opens it once.
//!
//! Invariant: nothing is asked of the service here while members, leaders and databases stay as
//! they are and none of those that this node leads is open.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use colibri_replica::{
    Campaign, Compaction, Compactor, Database, Leadership, Level, Node, NodeId, Reservation, Resigned, Trimmed,
};

use super::keeper::Keeper;
use super::wait::{all, block_on, race};
use super::{KnownDatabase, Replication, peer};
use crate::log::Log;

/// How long members have to stay as they are before a leader hands a database over.
const SETTLE: Duration = Duration::from_secs(5);
/// How long a database may have no leader before its home takes it. A node that has it open takes it
/// at once.
const LEADERLESS: Duration = Duration::from_millis(500);
/// A node gets a database back only when it lacks at most this many entries of the log.
const BEHIND_MAX: u64 = 64;
/// The same of entries that it has not applied, where it follows: what a standby applies in an
/// instant.
const APPLIED_BEHIND_MAX: u64 = 1_000;
/// The pause between looks at etcd while a database that this node leads is open.
const LOOK: Duration = Duration::from_secs(5);
/// The same while etcd is half full.
const LOOK_CLOSELY: Duration = Duration::from_secs(1);
/// The same while etcd is half full and this node leads no open database, so writes nothing.
const LOOK_SELDOM: Duration = Duration::from_secs(60);
/// How long transactions may go on that are open when a database is handed over, while others wait.
const OPEN_MAX: Duration = Duration::from_millis(400);
/// After this time they end, if an administrator has chosen the home.
const FORCED_AFTER: Duration = Duration::from_secs(10);
/// The longest pause between tries to hand a database over that is never between transactions.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// How long the end of a server waits until its databases are handed over.
const LEAVE_MAX: Duration = Duration::from_secs(5);
/// Databases that are opened together for what is missing here.
const REFRESHED_TOGETHER_MAX: usize = 16;
/// Trimmed bytes after which etcd is compacted.
const COMPACT_EVERY_BYTES: u64 = 16 << 20;

/// The node that should lead a database.
pub(crate) fn home_of<'n>(database: &KnownDatabase, members: &'n [Node]) -> Option<&'n NodeId> {
    let named = members.iter().find(|member| Some(member.id.as_str()) == database.home.as_deref());
    let first = || members.iter().max_by_key(|member| (weight(database.oid, &member.id), &member.id));
    named.or_else(first).map(|member| &member.id)
}

/// FNV-1a, with the bits mixed at the end. All nodes compute the same.
fn weight(oid: u32, node: &NodeId) -> u64 {
    let bytes = oid.to_le_bytes().into_iter().chain(node.as_str().bytes());
    let sum = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (sum ^ (sum >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

/// What is known from one round to the next.
struct Round {
    members: BTreeSet<NodeId>,
    /// Since when members are these.
    since: Instant,
    leaderless: BTreeMap<u32, Instant>,
    /// Databases that could not be handed over.
    tried: BTreeMap<u32, Tried>,
    /// Databases that were looked at for what is missing here.
    refreshed: BTreeSet<u32>,
    looked: Option<Instant>,
    level: Level,
    has_alarm: bool,
    compactor: Compactor,
}

/// Tries to hand a database over.
struct Tried {
    first: Instant,
    next: Instant,
    pause: Duration,
}

impl Round {
    /// Notes that a database could not be handed over; gives when to try again. An administrator's
    /// choice is tried often: somebody waits for it.
    fn note_tried(&mut self, oid: u32, is_named: bool) -> Duration {
        let now = Instant::now();
        let before = self.tried.get(&oid).map(|tried| (tried.first, tried.pause * 2));
        let (first, pause) = before.unwrap_or((now, Duration::from_secs(1)));
        let pause = if is_named { Duration::from_secs(1) } else { pause.min(RETRY_MAX) };
        self.tried.insert(oid, Tried { first, next: now + pause, pause });
        pause
    }

    /// The pause between looks at etcd, on a node that leads databases that are open, or none.
    fn look(&self, leads: bool) -> Duration {
        match (self.level, leads) {
            (_, false) => LOOK_SELDOM,
            (Level::Ample, true) => LOOK,
            (Level::Half | Level::Full, true) => LOOK_CLOSELY,
        }
    }
}

impl Replication {
    pub(super) async fn keep_homes(self: &Arc<Self>) {
        let mut round = Round {
            members: BTreeSet::new(),
            since: Instant::now(),
            leaderless: BTreeMap::new(),
            tried: BTreeMap::new(),
            refreshed: BTreeSet::new(),
            looked: None,
            level: Level::Ample,
            has_alarm: false,
            compactor: Compactor::new(&self.cluster, COMPACT_EVERY_BYTES),
        };
        while !self.is_ending() {
            let seen = self.news.count();
            let pause = self.look_round(&mut round).await;
            match pause {
                Some(pause) => _ = race(self.sleep(pause), self.news.wait(seen)).await,
                None => self.news.wait(seen).await,
            }
        }
    }

    /// Does what there is to do; gives when to look again though nothing has changed.
    async fn look_round(self: &Arc<Self>, round: &mut Round) -> Option<Duration> {
        let listener = self.listener()?;
        let databases = listener.databases();
        let members = self.staying_members();
        let ids: BTreeSet<NodeId> = members.iter().map(|member| member.id.clone()).collect();
        if ids != round.members {
            (round.members, round.since) = (ids, Instant::now());
        }
        let mut pause: Option<Duration> = None;
        let mut again_in = |time: Duration| pause = Some(pause.map_or(time, |pause| pause.min(time)));
        let is_listed = |oid| databases.iter().any(|database| database.oid == oid);
        if !remove_dropped(&self.dir, &is_listed, &|oid| listener.was_made(oid), &self.log) {
            again_in(LEADERLESS);
        }
        if !members.iter().any(|member| member.id == self.node.id) {
            return pause;
        }
        let settled_for = round.since.elapsed();
        for database in &databases {
            let db = database.db();
            let home = home_of(database, &members);
            let is_home = home == Some(&self.node.id);
            if self.leader(&db).is_some() {
                round.leaderless.remove(&database.oid);
            } else if is_home {
                let since = *round.leaderless.entry(database.oid).or_insert_with(Instant::now);
                let is_running = listener.keeper_of(database.oid).is_some_and(|keeper| keeper.is_running());
                if since.elapsed() < LEADERLESS || !is_running && !self.take(database).await {
                    again_in(LEADERLESS);
                }
            }
            if self.has_leadership(&db) && !is_home && home.is_some() {
                // The administrator's choice need not wait.
                let is_named = home.map(NodeId::as_str) == database.home.as_deref();
                let tried = round.tried.get(&database.oid);
                let early = tried.map_or(Duration::ZERO, |tried| tried.next.saturating_duration_since(Instant::now()));
                let is_forced = is_named && tried.is_some_and(|tried| tried.first.elapsed() >= FORCED_AFTER);
                if !is_named && settled_for < SETTLE {
                    again_in(SETTLE - settled_for);
                } else if !early.is_zero() {
                    again_in(early);
                } else if let Some(home) = home {
                    match self.hand_to(database, home, is_forced).await {
                        true => _ = round.tried.remove(&database.oid),
                        false => again_in(round.note_tried(database.oid, is_named)),
                    }
                }
            } else {
                round.tried.remove(&database.oid);
            }
            if !round.refreshed.contains(&database.oid) {
                match self.refresh(database).await {
                    true => _ = round.refreshed.insert(database.oid),
                    false => again_in(Duration::from_secs(1)),
                }
            }
            if self.is_ending() {
                return None;
            }
        }
        // What is full is looked at without anything that is open, too: it may have room again.
        let leads = listener.keepers().iter().any(|keeper| keeper.leads());
        if leads || round.level != Level::Ample {
            self.look_at_service(round, leads).await;
            again_in(round.look(leads));
        }
        pause
    }

    /// Takes the leadership of a closed database. True if somebody leads it now.
    async fn take(&self, database: &KnownDatabase) -> bool {
        let db = database.db();
        match self.membership().campaign(&db, Reservation::Ignore).await {
            Ok(Campaign::Elected(_)) => self.make_catalogue(database).await,
            Ok(Campaign::Led(leader)) => {
                self.note_leader(&db, leader);
                true
            }
            Ok(Campaign::Reserved(_)) | Err(_) => false,
        }
    }

    /// Opens a database once whose log is empty: its leader makes the catalogue, without which no
    /// standby serves sessions. True if it is opened, or need not be.
    async fn make_catalogue(&self, database: &KnownDatabase) -> bool {
        let db = database.db();
        let Ok(range) = self.cluster.log_range(&db).await else { return false };
        if range.end == self.cluster.start(&db)
            && let Some(keeper) = self.listener().and_then(|listener| listener.keeper_of(database.oid))
        {
            keeper.ask_for();
        }
        true
    }

    /// Hands a database over to its home, if that is near enough to the log's end. True if it was.
    async fn hand_to(&self, database: &KnownDatabase, home: &NodeId, is_forced: bool) -> bool {
        // A full etcd takes no successor, and the leader would have given up for nothing.
        if self.is_full() || !self.is_near(database, home).await {
            return false;
        }
        let db = database.db();
        let keeper = self.listener().and_then(|listener| listener.keeper_of(database.oid));
        let handed_over = match keeper {
            Some(keeper) if keeper.leads() => keeper.hand_over(self, home, OPEN_MAX, is_forced).await,
            // It is being opened or closed here.
            Some(keeper) if keeper.is_running() => false,
            _ => self.resign_closed(&db, home).await,
        };
        if handed_over {
            self.log.info("handed_over", &[("database", &database.name), ("to", home)]);
        }
        handed_over
    }

    /// Whether a node has a database nearly to the log's end: on its disk, or applied where it
    /// follows.
    ///
    /// Bug: only what nodes had on their disks was looked at, which they tell of every few seconds.
    /// Consequence: a database that was written to without a pause could not be moved. Fix: the node
    /// is asked how far it has applied the log.
    async fn is_near(&self, database: &KnownDatabase, node: &NodeId) -> bool {
        let db = database.db();
        let Ok(range) = self.cluster.log_range(&db).await else { return false };
        if range.end == self.cluster.start(&db) && database.origin.is_none() {
            return true;
        }
        let Ok(bases) = self.cluster.bases(&db).await else { return false };
        let base = bases.bases.iter().find(|base| base.node.id == *node);
        if base.is_some_and(|base| range.end.next.0.saturating_sub(base.covers.next.0) <= BEHIND_MAX) {
            return true;
        }
        let applied = self.applied_at(database.oid, node);
        applied.is_some_and(|applied| range.end.next.0.saturating_sub(applied) <= APPLIED_BEHIND_MAX)
    }

    /// The position up to which a node has applied a database's log, if it has it open. Waits for
    /// the node, with the thread.
    fn applied_at(&self, oid: u32, node: &NodeId) -> Option<u64> {
        let member = self.members().into_iter().find(|member| member.id == *node)?;
        let mut text = String::new();
        let mut answer = peer::ask(&member.address, &self.secret, peer::What::Standing, "").ok()?;
        std::io::Read::read_to_string(&mut answer, &mut text).ok()?;
        let standing: serde_json::Value = serde_json::from_str(&text).ok()?;
        let own = standing["databases"].as_array()?.iter().find(|one| one["oid"] == oid)?;
        own["position"].as_u64()
    }

    /// The server is about to end: hands the databases that are open here over to nodes that stay, and
    /// has others give it none. What is not between transactions for some time stays, and is led
    /// elsewhere when the server has ended. Waits, with the thread.
    pub(crate) fn hand_all_over(&self) {
        let leaving = async {
            if let Err(error) = self.membership().say_leaving().await {
                self.log.warn("leave_failed", &[("error", &error)]);
            }
            let Some(listener) = self.listener() else { return };
            let known = listener.databases();
            let led = known.iter().filter_map(|database| {
                let keeper =
                    listener.keepers().into_iter().find(|keeper| keeper.oid == database.oid && keeper.leads())?;
                Some(self.hand_away(database, keeper))
            });
            all(led, |_, ()| ()).await;
        };
        _ = block_on(race(leaving, self.sleep(LEAVE_MAX)));
    }

    async fn hand_away(&self, database: &KnownDatabase, keeper: Arc<Keeper>) {
        let until = Instant::now() + LEAVE_MAX;
        while keeper.leads() && Instant::now() < until {
            let mut others = self.staying_members();
            others.retain(|member| member.id != self.node.id);
            if others.is_empty() {
                return;
            }
            // Its home comes first.
            while let Some(home) = home_of(database, &others).cloned() {
                if self.is_near(database, &home).await && keeper.hand_over(self, &home, OPEN_MAX, false).await {
                    self.log.info("handed_over", &[("database", &database.name), ("to", &home)]);
                    return;
                }
                others.retain(|member| member.id != home);
            }
            self.sleep(LEADERLESS).await;
        }
    }

    /// Gives up a leadership whose database is closed.
    async fn resign_closed(&self, db: &Database, home: &NodeId) -> bool {
        let membership = self.membership();
        let Ok(Campaign::Elected(leadership)) = membership.campaign(db, Reservation::Heed).await else { return false };
        let resigned: Result<Resigned, _> = Leadership::resign(&leadership, Some(home)).await;
        matches!(resigned, Ok(Resigned::Done | Resigned::WasOver))
    }

    /// Opens a database once if this node lacks it, or a part of its log. True if that needs not be
    /// looked at again.
    async fn refresh(&self, database: &KnownDatabase) -> bool {
        let db = database.db();
        let Ok(range) = self.cluster.log_range(&db).await else { return false };
        let has_data = self.path_of(database.oid).join("data").exists();
        let is_complete = if range.end == self.cluster.start(&db) {
            has_data || database.origin.is_none()
        } else {
            let Ok(bases) = self.cluster.bases(&db).await else { return false };
            let own = bases.bases.iter().find(|base| base.node.id == self.node.id);
            has_data && own.is_some_and(|base| base.covers.next == range.end.next)
        };
        if is_complete {
            return true;
        }
        let Some(listener) = self.listener() else { return true };
        if listener.keepers().iter().filter(|keeper| keeper.is_running()).count() >= REFRESHED_TOGETHER_MAX {
            return false;
        }
        if let Some(keeper) = listener.keeper_of(database.oid) {
            keeper.run();
        }
        true
    }

    /// How full etcd is, and its compaction.
    async fn look_at_service(&self, round: &mut Round, leads: bool) {
        if round.looked.is_some_and(|looked| looked.elapsed() < round.look(leads)) {
            return;
        }
        round.looked = Some(Instant::now());
        if let Some(listener) = self.listener() {
            listener.keepers().iter().for_each(|keeper| keeper.look_at_disk());
            listener
                .keepers()
                .iter()
                .filter_map(|keeper| keeper.replica())
                .for_each(|replica| self.note_trimmed(&replica));
        }
        let bytes = self.trimmed_bytes.swap(0, Ordering::Relaxed) + self.shared.take_replaced_bytes();
        let is_due = round.compactor.note(Trimmed::Done { bytes });
        if let Ok((_, usage)) = self.cluster.health(self.quota_bytes).await {
            if (usage.level, usage.has_alarm) != (round.level, round.has_alarm) {
                let used = format!("{} of {} bytes", usage.bytes, usage.quota_bytes);
                let fields: [(&str, &dyn std::fmt::Display); 3] =
                    [("used", &used), ("defragment", &usage.defragment), ("alarm", &usage.has_alarm)];
                match usage.level {
                    Level::Ample => self.log.info("etcd_has_room", &fields),
                    Level::Half => self.log.warn("etcd_half_full", &fields),
                    Level::Full => self.log.error("etcd_full", &fields),
                }
                (round.level, round.has_alarm) = (usage.level, usage.has_alarm);
                self.level.store(usage.level as u8, Ordering::Release);
                let keepers = self.listener().map(|listener| listener.keepers()).unwrap_or_default();
                keepers.iter().for_each(|keeper| keeper.renew_access());
            }
            if (is_due || usage.level != Level::Ample && bytes > 0)
                && let Ok(Compaction::Done(revision)) = round.compactor.run().await
            {
                self.log.info("etcd_compacted", &[("revision", &revision.0)]);
            }
        }
    }
}

/// Removes copies of databases that were dropped. False if some of them are still open.
///
/// Bug: what was open was left, and nothing told when it was closed. Consequence: the copy of a
/// database that was dropped under sessions stayed. Fix: it is looked at again.
///
/// Bug: what the record of databases did not name was taken for dropped. Consequence: when etcd was
/// restored from a backup, databases that were made behind it were removed on all nodes. Fix: numbers
/// ascend, so one that is not given out yet was not dropped. Its directory is put aside.
fn remove_dropped(dir: &Path, is_listed: &dyn Fn(u32) -> bool, was_made: &dyn Fn(u32) -> bool, log: &Log) -> bool {
    let mut are_removed = true;
    let Ok(entries) = std::fs::read_dir(dir) else { return true };
    for entry in entries.flatten() {
        let Some(oid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if is_listed(oid) {
            continue;
        }
        // The keeper that still has it open is about to close it, and holds the lock until then.
        let locked = colibri_sql::DirectoryLock::for_sql(&entry.path());
        if locked.is_err() {
            are_removed = false;
            continue;
        }
        if !was_made(oid) {
            match super::seed::put_aside(&entry.path(), "unlisted") {
                Ok(kept) => log.error("unlisted_database", &[("oid", &oid), ("kept_as", &kept.display())]),
                Err(error) => log.error("unlisted_database", &[("oid", &oid), ("error", &error)]),
            }
        } else if let Err(error) = super::keeper::remove_dir(&entry.path()) {
            log.error("cannot_remove", &[("dir", &entry.path().display()), ("error", &error)]);
        }
    }
    are_removed
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn members(names: &[&str]) -> Vec<Node> {
        let member = |name: &&str| Node { id: NodeId::new(name).unwrap(), address: String::new() };
        names.iter().map(member).collect()
    }

    fn database(oid: u32) -> KnownDatabase {
        KnownDatabase { oid, name: oid.to_string(), origin: None, home: None }
    }

    #[test]
    fn leaders_spread_and_only_those_of_a_node_that_goes_move() {
        let (three, two) = (members(&["n1", "n2", "n3"]), members(&["n1", "n3"]));
        let mut counts = BTreeMap::new();
        for oid in 16_384..17_384 {
            let home = home_of(&database(oid), &three).unwrap();
            *counts.entry(home.clone()).or_insert(0) += 1;
            let without = home_of(&database(oid), &two).unwrap();
            assert!(home.as_str() == "n2" || home == without, "{oid} stays");
        }
        assert!(counts.len() == 3 && counts.values().all(|count| (250..420).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_named_home_counts_while_it_is_a_member() {
        let named = KnownDatabase { home: Some("n2".to_owned()), ..database(5) };
        assert_eq!(home_of(&named, &members(&["n1", "n2", "n3"])).unwrap().as_str(), "n2");
        let others = members(&["n1", "n3"]);
        assert_eq!(home_of(&named, &others), home_of(&database(5), &others));
        assert_eq!(home_of(&named, &[]), None);
    }

    #[test]
    fn dropped_databases_are_removed_and_those_that_nobody_knows_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["5", "16384", "16385", "16390", "5.copying"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let log = Log::default();
        assert!(remove_dropped(dir.path(), &|oid| oid < 16_385, &|oid| oid < 16_390, &log));
        let mut names: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["16384", "16390.unlisted-1", "5", "5.copying"]);
    }
}

//! Sessions of a cluster that go on at another node: when the leadership of their database has
//! moved, or when they write and their node does not lead.
//!
//! ```text
//!  at rest ─► a message ─► gate ─► this node leads, or need not ────────► the message is run
//!                           │  └─► another one does: the session goes there with the message
//!                           └ closed while the leadership is handed over: wait
//! ```
//! A session is *at rest* when its client has all answers and no transaction is open. Then it is
//! outside of the gate (`crate::replication::gate`), and what it is can be told to another node
//! (`crate::replication::relay`).
//!
//! | session | the node does not lead any more, or does not lead |
//! | --- | --- |
//! | was told that it may write | goes to the leader with the next message |
//! | came from another node | returns there, with what it was sent |
//! | has cursors that outlive their transaction | stays, and is a standby's from then on |
//! | has advisory locks | ends: others may have the locks by then |
//! | listens | ends at once: it would miss notifications |
//! | of a standby, has one of these | stays: its writes are refused |
//! | of a standby, `colibri.forward` is on | goes to the leader when it begins a transaction that may write, or with the first statement that writes |
//!
//! For the last line what the client has sent since the session was at rest is kept, up to
//! [`KEPT_BYTES_MAX`]. A statement that is refused because it writes (25006) has changed nothing. If
//! no answer was sent since, all of it runs again at the leader.
//!
//! Invariants
//! - What is run again has changed nothing, and the client has seen nothing of it.
//! - Nothing of this takes memory in a server without a cluster.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use colibri_sql::{Carried, Session, SqlState, Stays, TransactionState};

use super::{Client, End, Failure, cannot_move, ending};
use crate::cluster::Lease;
use crate::link::Link;
use crate::protocol::backend;
use crate::protocol::frontend::{HEADER_BYTES, Header};
use crate::registry::{Membership, Stop};
use crate::replication::gate::Inside;
use crate::replication::keeper::Keeper;
use crate::replication::relay::{self, Found, Package, Upstream};
use crate::shared::Shared;

/// Bytes that are kept to run them again at the leader.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// How long a session that returns may take.
const RETURN_MAX: Duration = Duration::from_secs(10);

/// What a session of a cluster has besides.
#[derive(Debug, Default)]
pub(super) struct Roaming {
    /// While it is not at rest.
    inside: Option<Inside>,
    /// Its client is connected to another node, to which it returns.
    came_from_elsewhere: bool,
    /// It stays, whoever leads.
    stays: bool,
    kept: Option<Kept>,
}

/// What the client has sent since the session was at rest.
#[derive(Debug)]
struct Kept {
    bytes: Vec<u8>,
    /// Where its answers begin in the bytes to send, and the number of writes to the client before.
    out_from: usize,
    sent: u64,
    lasting_changes: u64,
    /// Prepared statements that were made since.
    named: Vec<String>,
}

/// Whether a message begins a transaction that may write.
fn begins_to_write(kind: u8, body: &[u8]) -> bool {
    let text = match (kind, body.iter().position(|&byte| byte == 0)) {
        (b'Q', Some(end)) => &body[..end],
        // In front of a Parse message's text is a name.
        (b'P', Some(end)) => body[end + 1..].split(|&byte| byte == 0).next().unwrap_or_default(),
        _ => return false,
    };
    let mut words = text.split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let is = |word: &[u8], what: &str| word.eq_ignore_ascii_case(what.as_bytes());
    if !is(first, "begin") && !is(first, "start") {
        return false;
    }
    let words: Vec<_> = words.collect();
    !words.windows(2).any(|pair| is(pair[0], "read") && is(pair[1], "only"))
}

impl Client {
    /// A client of another node, whose session has come here.
    pub(crate) fn arrived(
        shared: Arc<Shared>,
        link: Link,
        session: Session,
        membership: Membership,
        lease: Lease,
        package: &Package,
    ) -> Self {
        let mut client = Self::new(shared, link, session, membership, lease);
        client.roaming = Some(Box::new(Roaming { came_from_elsewhere: true, ..Roaming::default() }));
        client.prepare_carried(&package.carried, package);
        client
    }

    /// A client of this node, whose session was elsewhere.
    pub(crate) fn returned(
        shared: Arc<Shared>,
        link: Link,
        mut session: Session,
        membership: Membership,
        lease: Lease,
        package: &Package,
    ) -> Self {
        if let Some(flag) = membership.member.flag() {
            session.set_cancel_flag(Arc::clone(flag));
        }
        let mut client = Self::new(shared, link, session, membership, lease);
        (client.is_known, client.has_led) = (true, true);
        client.prepare_carried(&package.carried, package);
        client
    }

    /// Prepares what was prepared elsewhere. What cannot be prepared any more, since what it is
    /// about is gone, is left out: the client is told so when it asks for it.
    fn prepare_carried(&mut self, carried: &Carried, package: &Package) {
        let told = self.link.out.len();
        for statement in &carried.statements {
            match statement.from_sql {
                true => _ = self.session().run(&statement.text),
                false => _ = self.parse(&statement.name, &statement.text, &statement.types),
            }
        }
        for (name, text) in &package.copies {
            _ = self.parse(name, text, &[]);
        }
        if let Some((text, types)) = &package.unnamed {
            _ = self.parse("", text, types);
        }
        self.session().take_notices();
        self.link.out.truncate(told);
    }

    /// The session as another node is told of it.
    fn package(&mut self) -> Result<Package, Stays> {
        let carried = self.session().carry()?;
        let (unnamed, copies) = self.portals.carried();
        let member = &self.membership.member;
        Ok(Package {
            user: member.user.to_string(),
            database: member.database.to_string(),
            client: member.client(),
            carried,
            unnamed,
            copies,
        })
    }

    fn roaming(&mut self) -> &mut Roaming {
        self.roaming.get_or_insert_default()
    }

    // ---- the gate ----

    /// Called before a message is run, and before the greeting. Leaves the message where it is if
    /// the session goes elsewhere.
    pub(super) async fn enter(&mut self, header: Option<Header>) -> Result<(), End> {
        let Some(keeper) = self.lease.keeper().filter(|_| !self.is_inside()).cloned() else { return Ok(()) };
        match keeper.gate.try_enter() {
            Some(inside) if !self.is_to_go(&keeper, header) => {
                self.roaming().inside = Some(inside);
                self.begin_to_keep(&keeper);
                Ok(())
            }
            inside => {
                drop(inside);
                // Behind a pointer: what it needs would be part of each idle connection.
                Box::pin(self.enter_or_go(keeper, header)).await
            }
        }
    }

    pub(super) fn is_inside(&self) -> bool {
        self.roaming.as_ref().is_some_and(|roaming| roaming.inside.is_some())
    }

    /// The client has all answers. Leaves the gate, unless a transaction is open.
    pub(super) fn is_at_rest(&mut self) {
        if self.is_inside() && self.session().state() == TransactionState::Idle && self.link.out.is_empty() {
            let roaming = self.roaming();
            (roaming.inside, roaming.kept) = (None, None);
        }
    }

    /// Whether others wait for this session to be at rest.
    pub(super) fn is_waited_for(&self) -> bool {
        self.is_inside() && self.lease.keeper().is_some_and(|keeper| keeper.gate.is_closed())
    }

    fn is_to_go(&self, keeper: &Keeper, header: Option<Header>) -> bool {
        let (stays, came) = self.roaming.as_ref().map_or((false, false), |it| (it.stays, it.came_from_elsewhere));
        let Some(header) = header.filter(|_| !stays && !keeper.leads() && !keeper.is_cut_off()) else { return false };
        if self.has_led || came {
            return true;
        }
        self.limits.is_forwarded && {
            let body = &self.link.inbox.unread()[HEADER_BYTES..HEADER_BYTES + header.body_bytes];
            begins_to_write(header.kind, body)
        }
    }

    async fn enter_or_go(&mut self, keeper: Arc<Keeper>, header: Option<Header>) -> Result<(), End> {
        loop {
            let inside = self.wait_for_gate(&keeper).await?;
            if !self.is_to_go(&keeper, header) {
                self.roaming().inside = Some(inside);
                self.begin_to_keep(&keeper);
                return Ok(());
            }
            drop(inside);
            self.go().await?;
        }
    }

    /// Waits until the gate is open.
    async fn wait_for_gate(&mut self, keeper: &Keeper) -> Result<Inside, End> {
        loop {
            let seen = keeper.gate.changed.count();
            if let Some(inside) = keeper.gate.try_enter() {
                return Ok(inside);
            }
            let mut opened = pin!(keeper.gate.changed.wait(seen));
            let (link, member) = (&mut self.link, &self.membership.member);
            poll_fn(|cx| {
                if opened.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Ok(()));
                }
                if member.stopping() == Stop::Now {
                    return Poll::Ready(Err(End::Fatal(ending(member))));
                }
                if super::drive::is_gone(link, cx) { Poll::Ready(Err(End::Gone)) } else { Poll::Pending }
            })
            .await?;
        }
    }

    // ---- going ----

    /// Goes to the leader, which is an end here. Comes back if this node leads, or if the session
    /// stays.
    async fn go(&mut self) -> Result<(), End> {
        let package = match self.package() {
            Ok(package) => package,
            Err(Stays::HasCursors | Stays::HasTemporaryObjects) => {
                // What it reads is what this node has, from here on.
                self.roaming().stays = true;
                self.has_led = false;
                return Ok(());
            }
            Err(Stays::HasLocks) => return Err(End::Fatal(cannot_move("What advisory locks lock", "lock again"))),
            Err(Stays::Listens) => return Err(End::Fatal(cannot_move("LISTEN", "listen there"))),
            Err(Stays::InTransaction) => return Err(End::Fatal(cannot_move("A transaction", "begin it again"))),
        };
        if self.roaming().came_from_elsewhere {
            return Err(self.give_back(&package).await);
        }
        match relay::find(&self.shared, &mut self.link, &self.membership.member, &package).await {
            Found::There(upstream) => Err(End::Elsewhere(upstream)),
            Found::Here(_) => Ok(()),
            Found::Told(message) => {
                self.link.out.extend_from_slice(&message);
                _ = self.link.flush().await;
                Err(End::Gone)
            }
            Found::Gone if self.member().stopping() == Stop::Now => Err(End::Fatal(ending(self.member()))),
            Found::Gone => Err(End::Gone),
            Found::Nobody(error) => Err(End::Fatal(error)),
        }
    }

    /// The node that the client is connected to gets the session back.
    async fn give_back(&mut self, package: &Package) -> End {
        let bytes_max = self.shared.options.message_bytes_max;
        _ = colibri_runtime::timeout(RETURN_MAX, relay::give_back(&mut self.link, package, bytes_max)).await;
        End::Gone
    }

    /// The server ends, and the session is at rest: if its client is connected to another node, it
    /// goes on there.
    pub(super) async fn leave_server(&mut self) -> Option<End> {
        if !self.roaming.as_ref().is_some_and(|roaming| roaming.came_from_elsewhere) {
            return None;
        }
        let package = self.package().ok()?;
        Some(self.give_back(&package).await)
    }

    /// What is left of a session that has gone, for passing on what its client says.
    pub(super) fn into_away(mut self, upstream: Box<Upstream>) -> relay::Away {
        for (name, value) in &upstream.reported {
            let known = super::REPORTED.iter().position(|(reported, _)| reported == name);
            if known.is_some_and(|at| self.reported.values[at] != super::mark_of(value)) {
                backend::parameter_status(&mut self.link.out, name, value);
            }
        }
        self.shared.counts.moved.add(1);
        self.member().rests(colibri_sql::cluster::SessionState::Idle, self.shared.clock.now_us());
        let Self { shared, link, session, membership, lease, .. } = self;
        drop(session);
        drop(lease);
        relay::Away { shared, link, membership, upstream }
    }

    // ---- statements that are refused here ----

    /// Begins to keep what the client sends, if it may have to be run at the leader.
    fn begin_to_keep(&mut self, keeper: &Keeper) {
        if !self.limits.is_forwarded || keeper.leads() || self.roaming().stays {
            return;
        }
        let (out_from, sent) = (self.link.out.len(), self.sent);
        let lasting_changes = self.session().lasting_changes();
        let kept = Kept { bytes: Vec::new(), out_from, sent, lasting_changes, named: Vec::new() };
        self.roaming().kept = Some(kept);
    }

    /// A message is about to be run.
    pub(super) fn keep(&mut self, header: Header) {
        let Some(roaming) = self.roaming.as_deref_mut().filter(|roaming| roaming.kept.is_some()) else { return };
        let message = &self.link.inbox.unread()[..HEADER_BYTES + header.body_bytes];
        let Some(kept) = &mut roaming.kept else { return };
        if kept.bytes.len() + message.len() > KEPT_BYTES_MAX {
            roaming.kept = None;
            return;
        }
        kept.bytes.extend_from_slice(message);
        if header.kind == b'P' {
            let name = message[HEADER_BYTES..].split(|&byte| byte == 0).next().unwrap_or_default();
            kept.named.extend((!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned()));
        }
    }

    /// Whether a statement has failed only since this node does not lead, and runs at the leader.
    pub(super) fn is_refused_here<T>(&mut self, done: &Result<T, Failure>) -> bool {
        let Err(Failure::Error(error)) = done else { return false };
        if error.state() != SqlState::READ_ONLY_TRANSACTION || !self.session().engine().is_standby() {
            return false;
        }
        let (sent, lasting_changes) = (self.sent, self.session().lasting_changes());
        let kept = self.roaming.as_ref().and_then(|roaming| roaming.kept.as_ref());
        kept.is_some_and(|kept| kept.sent == sent && kept.lasting_changes == lasting_changes)
    }

    /// Goes to the leader with what was refused here, which runs again there, or here if this node
    /// leads by now.
    pub(super) async fn run_at_leader(&mut self) -> Result<(), End> {
        let Some(kept) = self.roaming().kept.take() else { return Ok(()) };
        self.link.out.truncate(kept.out_from);
        self.link.put_back(&kept.bytes);
        self.session().take_back_block();
        self.session().take_notices();
        (self.unit, self.is_skipping, self.is_text_at_work) = (None, false, false);
        self.portals.clear();
        for name in &kept.named {
            self.session().forget_named(name);
        }
        self.roaming().inside = None;
        if self.package().is_err() {
            // It runs here again, and its client is told why it cannot.
            self.roaming().stays = true;
            return Ok(());
        }
        self.go().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_that_may_write_are_told_from_those_that_do_not() {
        for (kind, body) in [
            (b'Q', &b"BEGIN\0"[..]),
            (b'Q', b" begin isolation level serializable;\0"),
            (b'Q', b"START TRANSACTION READ WRITE\0"),
            (b'P', b"name\0BEGIN\0\0\0"),
            (b'P', b"\0begin\0\0\0"),
        ] {
            assert!(begins_to_write(kind, body), "{:?}", String::from_utf8_lossy(body));
        }
        for (kind, body) in [
            (b'Q', &b"BEGIN READ ONLY\0"[..]),
            (b'Q', b"start transaction isolation level repeatable read,read  only\0"),
            (b'Q', b"SELECT 'begin'\0"),
            (b'P', b"begin\0SELECT 1\0\0\0"),
            (b'B', b"begin\0"),
            (b'Q', b"\0"),
            (b'P', b""),
        ] {
            assert!(!begins_to_write(kind, body), "{:?}", String::from_utf8_lossy(body));
        }
    }
}

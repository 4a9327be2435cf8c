//! A client's connection that another node serves, at the node that has the client.
//!
//! ```text
//! client ◄─► this node ◄─ [TLS], proofs ─► the leader of the database
//!              │  1  the session as it is here: its package, in pieces with a code
//!              │  2  'O', then PostgreSQL's protocol: a greeting, and what the client says and is told
//!              │  3  'm': the leader does not lead any more. This node ends its direction
//!              │  4  'M': the session as it is there, and what it was sent and has not begun
//!              ▼  and on to the next leader, or back here
//! ```
//! A session moves between transactions, when its client sends something: an idle one costs nothing
//! when the leadership moves. Between the two nodes the client's bytes are passed on as they are;
//! those for the client are divided into messages, since a session that returns says so by a message
//! of its own. A client cancels by the number and key that this node has given it; this node passes
//! that on.
//!
//! Invariants:
//! 1. A session is at one node. The one that it comes from forgets it when the other has taken it,
//!    and no statement is begun at both.
//! 2. No byte of a client is lost, repeated or out of order when its session moves.
//! 3. What waits here to be sent in either direction is bounded.

use std::future::{Future as _, poll_fn};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use colibri_replica::{Node, NodeId};
use colibri_runtime::net::TcpStream;
use colibri_runtime::{Pool, sleep, spawn, spawn_blocking, timeout};
use colibri_sql::encoding::Encoding;
use colibri_sql::{Carried, Error, Session, SqlState};
use serde::{Deserialize, Serialize};

use super::Replication;
use super::answer::push_piece;
use super::peer::{NONCE_BYTES, PIECE_BYTES_MAX, PROOF_BYTES, Request, Transcript, What, is_same};
use crate::auth::scram;
use crate::cluster::Lease;
use crate::link::{Inbox, Link, Socket};
use crate::protocol::backend;
use crate::registry::{Member, Membership, Stop};
use crate::session::Client;
use crate::shared::Shared;
use crate::tls::Tls;

/// The longest session that moves, in bytes.
pub(crate) const PACKAGE_BYTES_MAX: usize = 32 << 20;
/// How long a node may take to take a session.
const OPEN_MAX: Duration = Duration::from_secs(6);
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// How long a session waits until another node leads its database.
const MOVE_MAX: Duration = Duration::from_secs(15);
/// The shortest and the longest pause between tries.
const RETRY: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_millis(200);
/// A node that is no member for so long is not waited for any more.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// How long a node may take to give a session back.
const RETURN_MAX: Duration = Duration::from_secs(10);
/// Bytes that wait for one side before the other one is read on.
const WAITING_BYTES_MAX: usize = 64 << 10;
/// Pieces that are passed on before others run.
const TURNS_MAX: usize = 32;
/// How long a client or a node may take to read the last of what it is told.
const GOODBYE_MAX: Duration = Duration::from_secs(2);
/// Why a session does not go on: PostgreSQL's `cannot_connect_now`. Drivers and pools take it for
/// the end of a connection, and connect again.
const CANNOT_CONNECT_NOW: SqlState = SqlState("57P03");

/// Messages between nodes, of kinds that PostgreSQL's servers do not send.
const RETURNS: u8 = b'm';
const RETURNED: u8 = b'M';
const HEADER_BYTES: usize = 5;
const KEY_BYTES_MAX: usize = 256;

/// A session on its way to another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Package {
    pub(crate) user: String,
    pub(crate) database: String,
    /// Where its client is.
    pub(crate) client: Option<SocketAddr>,
    pub(crate) carried: Carried,
    /// The prepared statement without a name, with the numbers of its parameters' types.
    pub(crate) unnamed: Option<(String, Vec<u32>)>,
    /// Prepared statements that are COPY.
    pub(crate) copies: Vec<(String, String)>,
}

/// A connection to the node that serves the session.
pub(crate) struct Upstream {
    link: Link,
    node: Node,
    /// By which the session is cancelled there.
    pid: i32,
    key: Vec<u8>,
    /// Settings as the node has reported them.
    pub(crate) reported: Vec<(String, String)>,
}

/// Why a node has not taken a session.
pub(crate) enum Refused {
    /// It does not lead, or cannot be reached: it may be another one by now.
    Later(String),
    /// It says so to the client, by this message.
    Told(Vec<u8>),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Later(error.to_string())
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// The name of a session in a request to cancel it.
fn name_of_session(pid: i32, key: &[u8]) -> String {
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{pid}/{digits}")
}

/// The session of such a name.
pub(crate) fn session_named(name: &str) -> Option<(i32, Vec<u8>)> {
    let (pid, digits) = name.split_once('/')?;
    let pairs = digits.as_bytes().chunks(2);
    let key = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    Some((pid.parse().ok()?, key.collect::<Option<_>>()?))
}

// ---- asking another node from a task ----

/// Waits for so many bytes.
async fn exact(link: &mut Link, count: usize) -> io::Result<Vec<u8>> {
    while link.inbox.unread().len() < count {
        if !link.fill().await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let bytes = link.inbox.unread()[..count].to_vec();
    link.inbox.take(count);
    Ok(bytes)
}

async fn connect(address: &str) -> io::Result<Link> {
    let addresses: Vec<SocketAddr> = match address.parse() {
        Ok(address) => vec![address],
        Err(_) => {
            let name = address.to_owned();
            let looking = spawn_blocking(move || name.to_socket_addrs().map(Iterator::collect));
            looking.await.map_err(|error| io::Error::other(error.to_string()))??
        }
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match timeout(CONNECT_MAX, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return encrypted(Link::new(Socket::Tcp(stream, address))).await;
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// Encrypts the connection if the other node has a certificate.
async fn encrypted(mut link: Link) -> io::Result<Link> {
    link.out.extend_from_slice(&8_i32.to_be_bytes());
    link.out.extend_from_slice(&80_877_103_i32.to_be_bytes());
    link.flush().await?;
    match exact(&mut link, 1).await?[0] {
        b'S' if link.inbox.unread().is_empty() => link.encrypt(Tls::to_node()?),
        b'N' => {}
        _ => return Err(wrong("it is no server of Colibri")),
    }
    Ok(link)
}

/// Begins a request: both sides have proved that they know the secret, and what the caller puts
/// behind the proof has to be sent.
async fn ask(node: &Replication, address: &str, what: What, name: String) -> io::Result<(Link, Transcript)> {
    let mut link = connect(address).await?;
    let nonce: [u8; NONCE_BYTES] = scram::random().map_err(|error| io::Error::other(error.to_string()))?;
    let request = Request { nonce, what, name };
    link.out.extend_from_slice(&request.write());
    link.flush().await?;
    expect(&mut link, b'R').await?;
    let theirs = exact(&mut link, NONCE_BYTES + PROOF_BYTES).await?;
    let (nonce, proof) = theirs.split_first_chunk::<NONCE_BYTES>().expect("so many were asked for");
    let binding = link.tls().and_then(Tls::binding_of_node);
    let transcript = Transcript::new(&node.secret, &request, nonce, binding.as_deref());
    if !is_same(proof, &transcript.answerer()) {
        return Err(wrong("it does not know the secret of this cluster"));
    }
    link.out.extend_from_slice(&transcript.asker());
    Ok((link, transcript))
}

/// Waits for a byte that says what the answer is.
async fn expect(link: &mut Link, kind: u8) -> io::Result<()> {
    let found = exact(link, 1).await?[0];
    if found == kind {
        return Ok(());
    }
    if found != b'E' {
        return Err(wrong("it is no server of Colibri, or one of another version"));
    }
    while link.inbox.unread().len() < 1024 && link.fill().await.unwrap_or(false) {}
    let why = String::from_utf8_lossy(link.inbox.unread()).into_owned();
    Err(io::Error::other(format!("it refuses: {}", why.trim_ascii())))
}

/// Has a session cancelled at the node that serves it. It is not told whether there was anything to
/// cancel.
async fn cancel(node: &Replication, address: &str, session: String) {
    let asking = async {
        let (mut link, _) = ask(node, address, What::Cancel, session).await?;
        link.flush().await?;
        expect(&mut link, b'O').await
    };
    _ = timeout(OPEN_MAX, asking).await;
}

impl Package {
    /// As it is sent, unless it is too long.
    pub(crate) fn write(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok().filter(|bytes| bytes.len() <= PACKAGE_BYTES_MAX)
    }
}

/// Has a node take a session.
pub(crate) async fn open(node: &Replication, to: &Node, package: &[u8]) -> Result<Upstream, Refused> {
    match timeout(OPEN_MAX, open_in_time(node, to, package)).await {
        Ok(opened) => opened,
        Err(_) => Err(Refused::Later(format!("{} does not answer", to.id))),
    }
}

async fn open_in_time(node: &Replication, to: &Node, package: &[u8]) -> Result<Upstream, Refused> {
    let (mut link, transcript) = ask(node, &to.address, What::Session, String::new()).await?;
    let mut code = transcript.code_of_request();
    for piece in package.chunks(PIECE_BYTES_MAX) {
        push_piece(&mut link, &mut code, piece);
        link.flush().await?;
    }
    link.out.extend_from_slice(&0_u32.to_be_bytes());
    link.out.extend_from_slice(&code.end());
    link.flush().await?;
    match exact(&mut link, 1).await?[0] {
        b'O' => {}
        b'N' => return Err(Refused::Later(format!("{} does not lead the database", to.id))),
        _ => {
            while link.inbox.unread().len() < 1024 && link.fill().await.unwrap_or(false) {}
            let why = String::from_utf8_lossy(link.inbox.unread()).into_owned();
            return Err(Refused::Later(format!("{} refuses: {why}", to.id)));
        }
    }
    let mut upstream = Upstream { link, node: to.clone(), pid: 0, key: Vec::new(), reported: Vec::new() };
    upstream.read_greeting().await?;
    Ok(upstream)
}

impl Upstream {
    /// Reads what a server says to a client that has logged in, up to its being ready.
    async fn read_greeting(&mut self) -> Result<(), Refused> {
        loop {
            let header = exact(&mut self.link, HEADER_BYTES).await?;
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
            let length = length.checked_sub(4).filter(|&length| length <= PIECE_BYTES_MAX);
            let body = exact(&mut self.link, length.ok_or_else(|| wrong("a message has no length"))?).await?;
            match header[0] {
                b'S' => {
                    let mut texts =
                        body.split(|&byte| byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
                    self.reported.push((texts.next().unwrap_or_default(), texts.next().unwrap_or_default()));
                }
                b'K' if (4..4 + KEY_BYTES_MAX).contains(&body.len()) => {
                    self.pid = i32::from_be_bytes([body[0], body[1], body[2], body[3]]);
                    self.key = body[4..].to_vec();
                }
                b'E' => return Err(Refused::Told([header, body].concat())),
                b'Z' => return Ok(()),
                _ => {}
            }
        }
    }
}

// ---- passing on ----

/// What a client has asked for, by the messages that were passed on.
#[derive(Debug, Default)]
struct Asked {
    /// The header of a message of which a part has come.
    header: Vec<u8>,
    /// Bytes of the message that have not come yet.
    left: usize,
    /// Messages that the session answers by saying that it is ready, and has not.
    waiting: usize,
    /// The last of these was a Sync.
    by_sync: bool,
    /// There were messages behind the last of these, so another one follows.
    is_open: bool,
}

impl Asked {
    /// Notes what is passed on. `copies`: the session waits for the rows of a COPY.
    fn take(&mut self, mut bytes: &[u8], copies: bool) {
        loop {
            let count = self.left.min(bytes.len());
            bytes = &bytes[count..];
            self.left -= count;
            if self.left > 0 {
                return;
            }
            let count = (HEADER_BYTES - self.header.len()).min(bytes.len());
            self.header.extend_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            let Some(&[kind, length @ ..]) = self.header.first_chunk::<HEADER_BYTES>() else { return };
            self.header.clear();
            // What is no message ends the session there.
            self.left = (u32::from_be_bytes(length) as usize).saturating_sub(4);
            match kind {
                b'Q' | b'F' | b'S' => {
                    self.waiting += 1;
                    (self.by_sync, self.is_open) = (kind == b'S', false);
                }
                // A Sync that came before the rows is not answered: one behind them is.
                b'c' | b'f' if copies && self.by_sync => (self.waiting, self.is_open) = (0, true),
                b'P' | b'B' | b'E' | b'D' | b'C' | b'H' => self.is_open = true,
                _ => {}
            }
        }
    }

    fn is_answered(&self) -> bool {
        self.waiting == 0 && !self.is_open && self.left == 0 && self.header.is_empty()
    }
}

/// Where in the messages for the client the bytes that come are.
#[derive(Debug, Default)]
struct Framing {
    /// Bytes of the message that were not passed on yet.
    left: usize,
    /// The session has said that it is ready outside of a transaction, or has not been asked yet.
    is_ready: bool,
    /// It waits for the rows of a COPY.
    copies: bool,
    asked: Asked,
}

impl Framing {
    fn new() -> Self {
        Self { is_ready: true, ..Self::default() }
    }

    /// All that the client has asked for is answered, and the session is outside of a transaction.
    fn is_idle(&self) -> bool {
        self.is_ready && self.asked.is_answered()
    }

    /// Passes on what has come. True if the session is about to return.
    fn take(&mut self, inbox: &mut Inbox, out: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            let unread = inbox.unread();
            if self.left > 0 {
                let count = self.left.min(unread.len());
                if count == 0 {
                    return Ok(false);
                }
                out.extend_from_slice(&unread[..count]);
                inbox.take(count);
                self.left -= count;
                continue;
            }
            let Some(header) = unread.first_chunk::<HEADER_BYTES>() else { return Ok(false) };
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
            if length < 4 {
                return Err(wrong("a message has no length"));
            }
            match header[0] {
                RETURNS => {
                    inbox.take(HEADER_BYTES);
                    return Ok(true);
                }
                b'Z' => {
                    let Some(&state) = unread.get(HEADER_BYTES) else { return Ok(false) };
                    (self.is_ready, self.copies) = (state == b'I', false);
                    self.asked.waiting = self.asked.waiting.saturating_sub(1);
                }
                b'G' => self.copies = true,
                _ => {}
            }
            self.left = 1 + length;
        }
    }
}

/// Why passing on has ended.
enum Pumped {
    /// The client has gone.
    ClientGone,
    /// The other node has, or it says what cannot be.
    NodeGone,
    /// The session returns.
    Returns,
    /// This node ends it.
    Stopped,
}

/// A client whose session is at another node.
pub(crate) struct Away {
    pub(crate) shared: Arc<Shared>,
    pub(crate) link: Link,
    pub(crate) membership: Membership,
    pub(crate) upstream: Box<Upstream>,
}

impl Away {
    /// Serves the client until its session is here again: `None` if it does not come back.
    pub(crate) async fn relay(mut self) -> Option<Box<Client>> {
        loop {
            let mut framing = Framing::new();
            let error = match self.pump(&mut framing).await {
                Pumped::ClientGone => {
                    _ = timeout(GOODBYE_MAX, self.upstream.link.close()).await;
                    None
                }
                Pumped::Stopped => Some(crate::session::ending(&self.membership.member)),
                Pumped::NodeGone => Some(self.lost(&framing)),
                Pumped::Returns => match timeout(RETURN_MAX, self.take_back()).await {
                    Ok(Ok(package)) => match self.go_on(&package).await {
                        Next::There => continue,
                        Next::Here(session, lease) => {
                            let Self { shared, link, membership, .. } = self;
                            let client = Client::returned(shared, link, *session, membership, *lease, &package);
                            return Some(Box::new(client));
                        }
                        Next::Over(error) => error,
                    },
                    Ok(Err(_)) | Err(_) => Some(self.lost(&framing)),
                },
            };
            if let Some(error) = error {
                self.shared.log.warn("session_ended", &[("pid", &self.membership.member.pid), ("error", &error)]);
                backend::error(&mut self.link.out, "FATAL", &error, Encoding::UTF8);
            }
            _ = timeout(GOODBYE_MAX, self.link.close()).await;
            self.shared.counts.traffic(self.link.bytes_in, self.link.bytes_out);
            return None;
        }
    }

    /// The error for a client whose session is lost.
    fn lost(&self, framing: &Framing) -> Error {
        let node = &self.upstream.node.id;
        // Bug: an answer was taken for that to all that the client had sent. Consequence: with two
        // messages under way, a transaction of the second one could have committed, and the client
        // was told that nothing had. Fix: what is asked and what is answered is counted.
        if framing.is_idle() && framing.left == 0 {
            return Error::new(
                CANNOT_CONNECT_NOW,
                format!("the connection to {node}, which leads the database, was lost"),
            );
        }
        let message = format!("the connection to {node}, which leads the database, was lost during a transaction");
        Error::new(SqlState::COMMIT_UNKNOWN, message)
            .hint("Connect again, and look for the effects of the transaction.")
    }

    async fn pump(&mut self, framing: &mut Framing) -> Pumped {
        let Self { shared, link: client, membership, upstream } = self;
        let member: &Arc<Member> = &membership.member;
        // What the client had sent before.
        let first = client.inbox.unread().to_vec();
        client.inbox.take(first.len());
        framing.asked.take(&first, framing.copies);
        upstream.link.out.extend_from_slice(&first);
        let mut gone = pin!(until_gone(shared, upstream.node.id.clone()));
        poll_fn(|cx| {
            if gone.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Pumped::NodeGone);
            }
            for _ in 0..TURNS_MAX {
                match member.stopping() {
                    Stop::Now => return Poll::Ready(Pumped::Stopped),
                    Stop::WhenIdle if framing.is_idle() => return Poll::Ready(Pumped::Stopped),
                    Stop::WhenIdle | Stop::No => {}
                }
                if member.take_cancellation() {
                    pass_cancellation_on(shared, upstream);
                }
                match turn(cx, client, &mut upstream.link, framing) {
                    Ok(true) => {}
                    Ok(false) => return Poll::Pending,
                    Err(pumped) => return Poll::Ready(pumped),
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    /// Ends this node's direction, and waits for the session and for what it has not begun.
    async fn take_back(&mut self) -> io::Result<Package> {
        self.upstream.link.close().await;
        self.upstream.link.end_sending();
        expect(&mut self.upstream.link, RETURNED).await?;
        let lengths = exact(&mut self.upstream.link, 8).await?;
        let (package, rest) = lengths.split_at(4);
        let length = |bytes: &[u8]| bytes.iter().fold(0_usize, |sum, &byte| sum << 8 | usize::from(byte));
        let (package, rest) = (length(package), length(rest));
        if package > PACKAGE_BYTES_MAX || rest > self.shared.options.message_bytes_max + PACKAGE_BYTES_MAX {
            return Err(wrong("a session that returns is too long"));
        }
        let package = exact(&mut self.upstream.link, package).await?;
        let rest = exact(&mut self.upstream.link, rest).await?;
        self.link.put_back(&rest);
        serde_json::from_slice(&package).map_err(|_| wrong("a session that returns cannot be read"))
    }

    /// Finds who leads the database now.
    async fn go_on(&mut self, package: &Package) -> Next {
        let member = Arc::clone(&self.membership.member);
        match find(&self.shared, &mut self.link, &member, package).await {
            Found::There(upstream) => {
                for (name, value) in &upstream.reported {
                    backend::parameter_status(&mut self.link.out, name, value);
                }
                self.upstream = upstream;
                self.shared.counts.moved.add(1);
                Next::There
            }
            Found::Here(lease) => match super::forwarded::session(&self.shared, &lease, package, member.pid) {
                Ok(session) => Next::Here(Box::new(session), lease),
                Err(error) => Next::Over(Some(error)),
            },
            Found::Told(message) => {
                self.link.out.extend_from_slice(&message);
                Next::Over(None)
            }
            Found::Gone => Next::Over(None),
            Found::Nobody(error) => Next::Over(Some(error)),
        }
    }
}

/// Where a session goes on that has returned.
enum Next {
    There,
    Here(Box<Session>, Box<Lease>),
    /// Nowhere; an error that the client was not told of.
    Over(Option<Error>),
}

/// Waits until a node is no member of the cluster any more, and stays so. A network that is cut says
/// nothing, and what the node was to answer never comes.
async fn until_gone(shared: &Shared, id: NodeId) {
    let Some(node) = shared.directory.replication() else { return };
    let is_member = || node.members().iter().any(|member| member.id == id);
    loop {
        let seen = node.news.count();
        if !is_member() {
            sleep(GONE_AFTER).await;
            if !is_member() {
                return;
            }
        }
        node.news.wait(seen).await;
    }
}

/// Passes on what there is. False if all sides have to be waited for.
fn turn(cx: &mut Context<'_>, client: &mut Link, node: &mut Link, framing: &mut Framing) -> Result<bool, Pumped> {
    let mut is_news = false;
    if let Poll::Ready(Err(_)) = node.poll_flush(cx) {
        // It may have said why.
        while let Poll::Ready(Ok(true)) = node.poll_fill(cx) {}
        _ = framing.take(&mut node.inbox, &mut client.out);
        return Err(Pumped::NodeGone);
    }
    if node.unsent() < WAITING_BYTES_MAX {
        match client.poll_fill(cx) {
            Poll::Ready(Ok(true)) => {
                let bytes = client.inbox.unread();
                framing.asked.take(bytes, framing.copies);
                node.out.extend_from_slice(bytes);
                let count = bytes.len();
                client.inbox.take(count);
                is_news = true;
            }
            Poll::Ready(_) => return Err(Pumped::ClientGone),
            Poll::Pending => {}
        }
    }
    if let Poll::Ready(Err(_)) = client.poll_flush(cx) {
        return Err(Pumped::ClientGone);
    }
    if client.unsent() < WAITING_BYTES_MAX {
        match node.poll_fill(cx) {
            Poll::Ready(Ok(true)) => {
                is_news = true;
                match framing.take(&mut node.inbox, &mut client.out) {
                    Ok(false) => {}
                    Ok(true) => return Err(Pumped::Returns),
                    Err(_) => return Err(Pumped::NodeGone),
                }
            }
            Poll::Ready(_) => return Err(Pumped::NodeGone),
            Poll::Pending => {}
        }
    }
    Ok(is_news)
}

fn pass_cancellation_on(shared: &Arc<Shared>, upstream: &Upstream) {
    let Some(node) = shared.directory.replication().cloned() else { return };
    let (address, session) = (upstream.node.address.clone(), name_of_session(upstream.pid, &upstream.key));
    drop(spawn(Pool::System, async move { cancel(&node, &address, session).await }));
}

/// Where a session goes on.
pub(crate) enum Found {
    There(Box<Upstream>),
    /// This node leads.
    Here(Box<Lease>),
    /// A node has refused it, by this message to the client.
    Told(Vec<u8>),
    /// The client has gone, or is to end.
    Gone,
    Nobody(Error),
}

/// Waits until somebody leads the database of a session, and has that node take it.
pub(crate) async fn find(shared: &Arc<Shared>, link: &mut Link, member: &Member, package: &Package) -> Found {
    let nobody = |why: &str| {
        let message = format!("nobody takes the session over: {why}");
        Found::Nobody(Error::new(CANNOT_CONNECT_NOW, message).hint("Connect again."))
    };
    let Some(bytes) = package.write() else { return nobody("it has too many prepared statements") };
    let (Some(node), Some(keeper)) = (shared.directory.replication(), shared.directory.keeper_named(&package.database))
    else {
        return nobody("its database is not there any more");
    };
    let until = Instant::now() + MOVE_MAX;
    let mut why = "nobody leads the database".to_owned();
    let mut pause = RETRY;
    loop {
        let seen = keeper.changed.count();
        if keeper.leads() {
            return match shared.directory.lease(&package.database).await {
                Ok(lease) => Found::Here(Box::new(lease)),
                Err(error) => Found::Nobody(error),
            };
        }
        if let Some(leader) = node.leader(&keeper.db).filter(|leader| leader.node.id != node.node.id) {
            match open(node, &leader.node, &bytes).await {
                Ok(upstream) => return Found::There(Box::new(upstream)),
                Err(Refused::Told(message)) => return Found::Told(message),
                Err(Refused::Later(reason)) => why = reason,
            }
        }
        if member.stopping() == Stop::Now || is_gone(link).await {
            return Found::Gone;
        }
        if Instant::now() >= until || keeper.is_gone() {
            return nobody(&why);
        }
        // A change of the leader wakes it up; the pause is for what does not change.
        _ = timeout(pause, keeper.changed.wait(seen)).await;
        pause = (pause * 2).min(RETRY_MAX);
        sleep(RETRY).await;
    }
}

/// Whether the client has gone. What it sends meanwhile is kept.
async fn is_gone(link: &mut Link) -> bool {
    poll_fn(|cx| {
        while link.inbox.unread().len() < WAITING_BYTES_MAX {
            match link.poll_fill(cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(_) => return Poll::Ready(true),
                Poll::Pending => break,
            }
        }
        Poll::Ready(false)
    })
    .await
}

/// Says that a session returns, waits for what was sent to it meanwhile, and gives it back.
pub(crate) async fn give_back(link: &mut Link, package: &Package, bytes_max: usize) -> io::Result<()> {
    link.out.push(RETURNS);
    link.out.extend_from_slice(&4_u32.to_be_bytes());
    link.flush().await?;
    while link.fill().await? {
        if link.inbox.unread().len() > bytes_max + PACKAGE_BYTES_MAX {
            return Err(wrong("too much was sent to a session that returns"));
        }
    }
    let package = package.write().ok_or_else(|| wrong("the session is too long"))?;
    let rest = link.inbox.unread();
    let out = &mut link.out;
    out.push(RETURNED);
    out.extend_from_slice(&(package.len() as u32).to_be_bytes());
    out.extend_from_slice(&(rest.len() as u32).to_be_bytes());
    out.extend_from_slice(&package);
    out.extend_from_slice(rest);
    link.flush().await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn pass(bytes: &[u8], piece: usize) -> (Vec<u8>, bool, bool, usize) {
        let (mut framing, mut inbox, mut out) = (Framing::default(), Inbox::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            inbox.push(piece);
            if framing.take(&mut inbox, &mut out).unwrap() {
                return (out, framing.is_ready, true, inbox.unread().len());
            }
        }
        (out, framing.is_ready, false, inbox.unread().len())
    }

    #[test]
    fn messages_are_passed_on_whole_however_they_come_and_the_last_one_is_not() {
        // A row, whose bytes look like other messages; ready; in a transaction; returns; more.
        let row = b"D\0\0\0\x0emmmm\0\0\0\x04ZI";
        let (idle, open) = (b"Z\0\0\0\x05I", b"Z\0\0\0\x05T");
        let all = [&row[..], idle, open, row, idle, b"m\0\0\0\x04", b"M...."].concat();
        let told = all.len() - 10;
        for piece in 1..=all.len() {
            let (out, is_idle, returns, _) = pass(&all, piece);
            assert_eq!(out, all[..told], "{piece}");
            assert!(is_idle && returns, "{piece}");
        }
        assert_eq!(pass(&[&row[..], open].concat(), 3), ([&row[..], open].concat(), false, false, 0));
        assert_eq!(pass(b"D\0\0\0\x0e123", 99).0, b"D\0\0\0\x0e123", "what has come of a message is not held up");
        let (mut framing, mut inbox) = (Framing::default(), Inbox::default());
        inbox.push(b"D\0\0\0\x03");
        assert!(framing.take(&mut inbox, &mut Vec::new()).is_err());
    }

    /// A message of a kind with a body.
    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
    }

    #[test]
    fn a_session_is_idle_when_all_that_was_asked_is_answered() {
        let (query, sync) = (message(b'Q', b"select 1\0"), message(b'S', b""));
        let (parse, execute) = (message(b'P', b"\0select 1\0\0\0"), message(b'E', b"\0\0\0\0\0"));
        let (rows, done) = (message(b'd', b"QQQQSSSS"), message(b'c', b""));
        let (ready, open, copy) = (message(b'Z', b"I"), message(b'Z', b"T"), message(b'G', b"\0\0\0"));
        let asked = |bytes: &[u8]| (true, bytes.to_vec());
        let told = |bytes: &[u8]| (false, bytes.to_vec());
        // Each step, and whether the session is idle behind it.
        type Step = ((bool, Vec<u8>), bool);
        let histories: [&[Step]; 7] = [
            &[(asked(&query), false), (told(&ready), true)],
            &[(asked(&[&query[..], &query].concat()), false), (told(&ready), false), (told(&ready), true)],
            &[(asked(&query), false), (told(&open), false), (asked(&query), false), (told(&ready), true)],
            &[(asked(&[&parse[..], &execute].concat()), false), (asked(&sync), false), (told(&ready), true)],
            &[
                (asked(&[&parse[..], &execute, &sync, &parse, &execute, &sync].concat()), false),
                (told(&ready), false),
                (asked(&parse), false),
                (told(&ready), false),
                (asked(&sync), false),
                (told(&ready), true),
            ],
            // A COPY FROM of each protocol.
            &[
                (asked(&query), false),
                (told(&copy), false),
                (asked(&[&rows[..], &done].concat()), false),
                (told(&ready), true),
            ],
            &[
                (asked(&[&parse[..], &execute, &sync].concat()), false),
                (told(&copy), false),
                (asked(&[&rows[..], &done, &sync].concat()), false),
                (told(&ready), true),
            ],
        ];
        for (number, history) in histories.iter().enumerate() {
            for piece in [1, 2, 3, 7, 100] {
                let (mut framing, mut inbox) = (Framing::new(), Inbox::default());
                for (at, ((is_asked, bytes), is_idle)) in history.iter().enumerate() {
                    for bytes in bytes.chunks(piece) {
                        if *is_asked {
                            framing.asked.take(bytes, framing.copies);
                            assert!(!framing.is_idle() || *is_idle, "history {number}, step {at}");
                        } else {
                            inbox.push(bytes);
                            framing.take(&mut inbox, &mut Vec::new()).unwrap();
                        }
                    }
                    assert_eq!(framing.is_idle(), *is_idle, "history {number}, step {at}, pieces of {piece}");
                }
            }
        }
    }

    #[test]
    fn sessions_have_names() {
        for (pid, key) in [(7, vec![1, 0xab]), (i32::MAX, vec![]), (1, vec![0; 32])] {
            assert_eq!(session_named(&name_of_session(pid, &key)), Some((pid, key)));
        }
        for wrong in ["", "7", "x/00", "7/0g", "7/über"] {
            assert_eq!(session_named(wrong), None, "{wrong}");
        }
    }
}

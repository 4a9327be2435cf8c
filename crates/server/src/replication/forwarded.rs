//! A session whose client is connected to another node, at the node that leads its database.
//!
//! It is like any other session, but for its beginning and its end: it comes as a package
//! ([`super::relay`]), its user was authenticated by the node that asks, and when the leadership
//! moves it returns there.
//!
//! Invariant: nobody gets a session who has not proved to know the secret of the cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use colibri_runtime::timeout;
use colibri_sql::cluster::Cluster;
use colibri_sql::encoding::Encoding;
use colibri_sql::{DefaultBy, Error, Session};

use super::Replication;
use super::answer::{prove, send};
use super::peer::{PIECE_BYTES_MAX, PROOF_BYTES, Request, Transcript, is_same};
use super::relay::{PACKAGE_BYTES_MAX, Package};
use crate::cluster::Lease;
use crate::connection;
use crate::link::Link;
use crate::protocol::backend;
use crate::registry::Membership;
use crate::session::Client;
use crate::shared::Shared;

/// How long the other node may take to send a piece.
const PIECE_MAX: Duration = Duration::from_secs(10);
/// How long a session waits until this node leads, as it is about to.
const LEAD_MAX: Duration = Duration::from_secs(2);
const OPEN_MAX: Duration = Duration::from_secs(5);

/// Why there is no session.
enum Refusal {
    /// The other side is no node, or does not do what nodes do.
    Peer(String),
    /// This node does not lead the database.
    NotLeading,
    /// The client is told.
    Told(Error),
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Peer(why)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

/// Serves the session that another node asks for. Gives its client if there is one, or what went
/// wrong.
pub(crate) async fn serve(shared: &Arc<Shared>, mut link: Link, request: &Request) -> Result<Client, (Link, String)> {
    let begun = match shared.directory.replication() {
        Some(node) => begin(shared, node, &mut link, request).await,
        None => Err(Refusal::Peer("this server is no node of a cluster".to_owned())),
    };
    match begun {
        Ok((session, membership, lease, package)) => {
            link.out.push(b'O');
            Ok(Client::arrived(Arc::clone(shared), link, session, membership, lease, &package))
        }
        Err(refusal) => {
            match &refusal {
                Refusal::NotLeading => link.out.push(b'N'),
                Refusal::Told(error) => {
                    link.out.push(b'O');
                    backend::error(&mut link.out, "FATAL", error, Encoding::UTF8);
                }
                Refusal::Peer(_) => {}
            }
            match refusal {
                Refusal::Peer(why) => Err((link, why)),
                Refusal::NotLeading | Refusal::Told(_) => {
                    _ = send(&mut link, PIECE_MAX).await;
                    Err((link, String::new()))
                }
            }
        }
    }
}

async fn begin(
    shared: &Arc<Shared>,
    node: &Arc<Replication>,
    link: &mut Link,
    request: &Request,
) -> Result<(Session, Membership, Lease, Package), Refusal> {
    let transcript = prove(node, link, request).await?;
    let package = timeout(PIECE_MAX, read(link, &transcript)).await.map_err(|_| "no session came".to_owned())??;
    if shared.is_ending() {
        return Err(Refusal::NotLeading);
    }
    let keeper = shared.directory.keeper_named(&package.database);
    let keeper = keeper.ok_or_else(|| crate::cluster::no_such_database(&package.database))?;
    keeper.ask_for();
    let until = Instant::now() + LEAD_MAX;
    loop {
        let seen = keeper.changed.count();
        if keeper.leads() {
            break;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || node.is_led_by_another(&keeper.db) {
            return Err(Refusal::NotLeading);
        }
        _ = timeout(left, keeper.changed.wait(seen)).await;
    }
    let membership = connection::admit_forwarded(shared, &package, link.ends())?;
    let leasing = timeout(OPEN_MAX, shared.directory.lease(&package.database));
    let lease = leasing.await.map_err(|_| Refusal::NotLeading)??;
    let session = session(shared, &lease, &package, membership.member.pid)?;
    Ok((session, membership, lease, package))
}

/// Reads a package: pieces, and the code of all of them.
async fn read(link: &mut Link, transcript: &Transcript) -> Result<Package, String> {
    let mut code = transcript.code_of_request();
    let mut bytes = Vec::new();
    loop {
        let length = exact(link, 4).await?;
        let length = length.iter().fold(0_usize, |sum, &byte| sum << 8 | usize::from(byte));
        if length > PIECE_BYTES_MAX || bytes.len() + length > PACKAGE_BYTES_MAX {
            return Err("the session is too long".to_owned());
        }
        if length == 0 {
            break;
        }
        let piece = exact(link, length).await?;
        code.add(&piece);
        bytes.extend_from_slice(&piece);
    }
    if !is_same(&exact(link, PROOF_BYTES).await?, &code.end()) {
        return Err("the session was changed on its way".to_owned());
    }
    serde_json::from_slice(&bytes)
        .map_err(|_| "the session cannot be read: the nodes have different versions".to_owned())
}

async fn exact(link: &mut Link, count: usize) -> Result<Vec<u8>, String> {
    while link.inbox.unread().len() < count {
        if !link.fill().await.unwrap_or(false) {
            return Err("the other side has gone".to_owned());
        }
    }
    let bytes = link.inbox.unread()[..count].to_vec();
    link.inbox.take(count);
    Ok(bytes)
}

/// A session that was another node's, without its prepared statements.
///
/// # Errors
/// Those of a login.
pub(crate) fn session(shared: &Arc<Shared>, lease: &Lease, package: &Package, pid: i32) -> Result<Session, Error> {
    let cluster: Arc<dyn Cluster> = Arc::clone(&shared.directory) as _;
    let mut session = Session::in_cluster(lease.engine(), &cluster, &package.user, pid)?;
    for (name, value) in &shared.session_defaults {
        session.set_default(name, value, DefaultBy::Server)?;
    }
    session.take_in(&package.carried);
    Ok(session)
}

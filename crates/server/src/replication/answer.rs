//! What a node answers to another one ([`super::peer`] has the messages).
//!
//! A copy is made by a thread that may wait, and sent by the connection's task. Between them are a
//! few pieces: a reader that is slow stops the copy, and one that goes away ends it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, Write};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use colibri_runtime::{sleep, spawn_blocking, timeout};
use colibri_storage::Database;
use parking_lot::{Condvar, Mutex};
use serde_json::json;

use super::Replication;
use super::keeper::{Keeper, Standing};
use super::peer::{Code, PIECE_BYTES_MAX, PROOF_BYTES, Request, Transcript, What, is_same};
use crate::auth::scram;
use crate::link::Link;
use crate::tls::Tls;

/// How long the other node may take to prove who it is, and to take a piece.
const PROOF_MAX: Duration = Duration::from_secs(10);
const PIECE_MAX: Duration = Duration::from_secs(20);
/// How long a database may take to be opened for a copy.
const OPEN_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
/// Pieces that wait to be sent.
const PIECES_MAX: usize = 4;

/// Proves to the other side that this is a node of the cluster, and has the other one prove it.
pub(crate) async fn prove(node: &Arc<Replication>, link: &mut Link, request: &Request) -> Result<Transcript, String> {
    let binding = link.tls().and_then(Tls::binding).map(<[u8]>::to_vec);
    let nonce = scram::random().map_err(|error| error.to_string())?;
    let transcript = Transcript::new(&node.secret, request, &nonce, binding.as_deref());
    link.out.push(b'R');
    link.out.extend_from_slice(&nonce);
    link.out.extend_from_slice(&transcript.answerer());
    send(link, PROOF_MAX).await?;
    let proof = timeout(PROOF_MAX, proof(link)).await.map_err(|_| "no proof came".to_owned())??;
    if !is_same(&proof, &transcript.asker()) {
        return Err("the other side does not know the secret of this cluster".to_owned());
    }
    Ok(transcript)
}

/// Answers a request; gives what went wrong. `cancel` cancels what a session does.
pub(crate) async fn serve(
    node: &Arc<Replication>,
    link: &mut Link,
    request: &Request,
    cancel: impl FnOnce(i32, &[u8]),
) -> Result<(), String> {
    let transcript = prove(node, link, request).await?;
    match request.what {
        What::Standing => {
            link.out.push(b'O');
            let mut code = transcript.code();
            for piece in standing(node).to_string().as_bytes().chunks(PIECE_BYTES_MAX) {
                push_piece(link, &mut code, piece);
            }
            end(link, code).await
        }
        What::Copy => copy(node, link, &request.name, transcript.code()).await,
        What::Cancel => {
            let (pid, key) = super::relay::session_named(&request.name).ok_or("this is no session")?;
            cancel(pid, &key);
            link.out.push(b'O');
            end(link, transcript.code()).await
        }
        What::Session => Err("a session is answered elsewhere".to_owned()),
    }
}

pub(crate) async fn send(link: &mut Link, time_max: Duration) -> Result<(), String> {
    match timeout(time_max, link.flush()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the other side does not read".to_owned()),
    }
}

async fn proof(link: &mut Link) -> Result<[u8; PROOF_BYTES], String> {
    loop {
        if let Some(proof) = link.inbox.unread().first_chunk::<PROOF_BYTES>() {
            let proof = *proof;
            link.inbox.take(PROOF_BYTES);
            return Ok(proof);
        }
        if !link.fill().await.unwrap_or(false) {
            return Err("the other side has gone".to_owned());
        }
    }
}

pub(crate) fn push_piece(link: &mut Link, code: &mut Code, piece: &[u8]) {
    code.add(piece);
    link.out.extend_from_slice(&(piece.len() as u32).to_be_bytes());
    link.out.extend_from_slice(piece);
}

async fn end(link: &mut Link, code: Code) -> Result<(), String> {
    link.out.extend_from_slice(&0_u32.to_be_bytes());
    link.out.extend_from_slice(&code.end());
    send(link, PIECE_MAX).await
}

/// Where the node's databases stand, and what it knows of the cluster: for whoever does not reach
/// etcd.
fn standing(node: &Replication) -> serde_json::Value {
    let keepers = node.listener().map(|listener| listener.keepers()).unwrap_or_default();
    let databases: Vec<_> = keepers
        .iter()
        .map(|keeper| {
            let standing = keeper.replica().map(|replica| replica.standing());
            json!({
                "oid": keeper.oid,
                "standing": keeper.standing().name(),
                "txn": standing.map(|standing| standing.txn.0),
                "position": standing.and_then(|standing| standing.point).map(|point| point.next.0),
                "under_way": standing.map(|standing| standing.commits_under_way),
                "trouble": keeper.trouble(),
            })
        })
        .collect();
    let known = node.listener().map(|listener| listener.databases()).unwrap_or_default();
    let known: Vec<_> = known
        .iter()
        .map(|database| {
            let leader = node.leader(&database.db());
            json!({
                "oid": database.oid,
                "name": database.name,
                "home": database.home,
                "leader": leader.as_ref().map(|leader| leader.node.id.as_str()),
                "epoch": leader.as_ref().map(|leader| leader.epoch.0),
            })
        })
        .collect();
    let members: Vec<_> =
        node.members().iter().map(|member| json!({ "id": member.id.as_str(), "address": member.address })).collect();
    json!({
        "cluster": node.cluster.name(),
        "node": node.node.id.as_str(),
        "trouble": node.trouble(),
        "members": members,
        "known": known,
        "databases": databases,
    })
}

async fn copy(node: &Arc<Replication>, link: &mut Link, name: &str, code: Code) -> Result<(), String> {
    let keeper = name.parse().ok().and_then(|oid| node.listener()?.keeper_of(oid));
    let keeper = keeper.ok_or_else(|| format!("there is no database {name}"))?;
    if !node.path_of(keeper.oid).join("data").exists() {
        return Err("this node has no copy of the database".to_owned());
    }
    let database = open(&keeper).await?;
    let pieces = Arc::new(Pieces::default());
    let (making, source) = (Arc::clone(&pieces), Arc::clone(&keeper));
    let made = spawn_blocking(move || {
        let mut writer = PieceWriter { pieces: making, keeper: source, piece: Vec::new() };
        let result = database.backup_replica(&mut writer).map_err(|error| error.to_string());
        let result = result.and_then(|_| writer.flush().map_err(|error| error.to_string()));
        drop(database);
        writer.pieces.finish(result);
    });
    link.out.push(b'O');
    let sent = send_pieces(link, &pieces, code).await;
    pieces.give_up();
    _ = made.await;
    sent
}

/// The database, opened if it is closed.
async fn open(keeper: &Arc<Keeper>) -> Result<Database, String> {
    let until = Instant::now() + OPEN_MAX;
    loop {
        keeper.run();
        if let Some(Ok(database)) = keeper.replica().map(|replica| replica.engine()) {
            return Ok(database);
        }
        if Instant::now() >= until {
            return Err(keeper.trouble().unwrap_or_else(|| "the database is not open yet".to_owned()));
        }
        sleep(LOOK).await;
    }
}

async fn send_pieces(link: &mut Link, pieces: &Pieces, mut code: Code) -> Result<(), String> {
    loop {
        match pieces.next().await {
            Some(Ok(piece)) => {
                push_piece(link, &mut code, &piece);
                send(link, PIECE_MAX).await?;
            }
            Some(Err(why)) => return Err(why),
            None => return end(link, code).await,
        }
    }
}

/// Pieces between who makes them and who sends them.
#[derive(Default)]
struct Pieces {
    state: Mutex<State>,
    room: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Vec<u8>>,
    result: Option<Result<(), String>>,
    is_given_up: bool,
    waker: Option<Waker>,
}

impl Pieces {
    /// Waits for room; an error if nobody takes pieces any more.
    fn push(&self, piece: Vec<u8>) -> io::Result<()> {
        let mut state = self.state.lock();
        while state.queue.len() >= PIECES_MAX && !state.is_given_up {
            self.room.wait(&mut state);
        }
        if state.is_given_up {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        state.queue.push_back(piece);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn finish(&self, result: Result<(), String>) {
        let mut state = self.state.lock();
        state.result = Some(result);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn give_up(&self) {
        self.state.lock().is_given_up = true;
        self.room.notify_all();
    }

    /// The next piece; `None` after the last one.
    async fn next(&self) -> Option<Result<Vec<u8>, String>> {
        poll_fn(|context| {
            let mut state = self.state.lock();
            if let Some(piece) = state.queue.pop_front() {
                self.room.notify_all();
                return Poll::Ready(Some(Ok(piece)));
            }
            match state.result.take() {
                Some(Ok(())) => Poll::Ready(None),
                Some(Err(why)) => Poll::Ready(Some(Err(why))),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// Makes pieces of what is written. It ends when the database has to be opened again, since that
/// waits until nobody uses the database.
struct PieceWriter {
    pieces: Arc<Pieces>,
    keeper: Arc<Keeper>,
    piece: Vec<u8>,
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(PIECE_BYTES_MAX - self.piece.len());
        self.piece.extend_from_slice(&bytes[..length]);
        if self.piece.len() == PIECE_BYTES_MAX {
            self.flush()?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        if self.keeper.standing() == Standing::Opening {
            return Err(io::Error::other("the database is opened again"));
        }
        self.pieces.push(std::mem::take(&mut self.piece))
    }
}

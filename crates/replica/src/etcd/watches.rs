//! All watches of a connection, on one stream.
//!
//! The task here owns the stream. Watches give themselves numbers, ask the task through the
//! connection's commands, and find their events in their inboxes. When the stream ends, or the
//! connection was given up, every watch is cut; the stream is made again for the next one.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;

use super::Command;
use super::link::SharedLink;
use super::messages as pb;
use super::requests::{key_value, number};
use crate::coordinator::{Change, Revision, Watch, WatchEvent};

/// An owner that is slower than the service is left so many bytes of changes.
const INBOX_BYTES_MAX: usize = 32 << 20;

fn bytes_of(event: &WatchEvent) -> usize {
    let WatchEvent::Changes(changes) = event else { return 0 };
    let bytes = |change: &Change| match change {
        Change::Put(put) => put.key.len() + put.value.len(),
        Change::Deleted(key) => key.len(),
    };
    changes.iter().map(bytes).sum()
}

/// Where a watch's events wait for its owner.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<InboxState>,
}

#[derive(Default)]
struct InboxState {
    events: VecDeque<WatchEvent>,
    /// Bytes of the values in them.
    bytes: usize,
    waker: Option<Waker>,
}

impl Inbox {
    /// Gives whether there was room. If there was none, the watch is cut: its owner reads what it
    /// has not seen, at its own pace.
    fn push(&self, event: WatchEvent) -> bool {
        let (waker, has_room) = {
            let mut state = self.state.lock();
            state.bytes += bytes_of(&event);
            let has_room = state.bytes <= INBOX_BYTES_MAX;
            if has_room {
                state.events.push_back(event);
            } else {
                state.events = VecDeque::from([WatchEvent::Cut]);
                state.bytes = 0;
            }
            (state.waker.take(), has_room)
        };
        waker.into_iter().for_each(Waker::wake);
        has_room
    }
}

/// The owner's end of a watch.
pub(super) struct Watching {
    number: i64,
    inbox: Arc<Inbox>,
    commands: mpsc::UnboundedSender<Command>,
}

impl Watching {
    pub(super) fn new(commands: mpsc::UnboundedSender<Command>, keys: Range<Vec<u8>>, from: Revision) -> Self {
        // Zero would let etcd choose.
        static LAST: AtomicI64 = AtomicI64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let inbox = Arc::<Inbox>::default();
        if commands.send(Command::Watch { number, keys, from, inbox: inbox.clone() }).is_err() {
            _ = inbox.push(WatchEvent::Cut);
        }
        Self { number, inbox, commands }
    }
}

impl Watch for Watching {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<WatchEvent> {
        let mut state = self.inbox.state.lock();
        match state.events.pop_front() {
            Some(event) => {
                state.bytes = state.bytes.saturating_sub(bytes_of(&event));
                Poll::Ready(event)
            }
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        _ = self.commands.send(Command::Unwatch(self.number));
    }
}

type Watches = HashMap<i64, Arc<Inbox>>;

/// The stream, while there is one.
struct Stream {
    requests: mpsc::UnboundedSender<pb::WatchRequest>,
    answers: Streaming<pb::WatchResponse>,
}

/// The task of all watches, until the connection's handles are gone.
pub(super) async fn serve(link: SharedLink, mut commands: mpsc::UnboundedReceiver<Command>) {
    let mut watches = Watches::new();
    let mut given_up = link.given_up();
    let mut stream: Option<Stream> = None;
    loop {
        // Without a stream there is nothing to wait for but commands.
        let answer = async {
            match &mut stream {
                Some(stream) => stream.answers.message().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = commands.recv() => match command {
                None => return,
                Some(command) => obey(command, &link, &mut stream, &mut watches).await,
            },
            answer = answer => match answer {
                // Without a number: the user may not watch, which is what an old token looks like.
                Ok(Some(answer)) if answer.canceled && answer.watch_id < 0 => {
                    link.forget_token();
                    stream = None;
                    cut(&mut watches);
                }
                Ok(Some(answer)) => {
                    if let Some(full) = take(answer, &mut watches) {
                        obey(Command::Unwatch(full), &link, &mut stream, &mut watches).await;
                    }
                }
                Ok(None) | Err(_) => {
                    stream = None;
                    cut(&mut watches);
                }
            },
            _ = given_up.changed() => {
                stream = None;
                cut(&mut watches);
            }
        }
    }
}

fn cut(watches: &mut Watches) {
    watches.drain().for_each(|(_, inbox)| _ = inbox.push(WatchEvent::Cut));
}

async fn obey(command: Command, link: &SharedLink, stream: &mut Option<Stream>, watches: &mut Watches) {
    match command {
        Command::Watch { number: watch_id, keys, from, inbox } => {
            let create = pb::WatchCreateRequest {
                key: keys.start,
                range_end: keys.end,
                start_revision: number(from.0),
                watch_id,
                fragment: true,
            };
            let create = pb::WatchRequest { change: Some(pb::WatchChange::Create(create)) };
            let is_sent = match stream {
                Some(stream) => stream.requests.send(create).is_ok(),
                None => {
                    *stream = open(link, create).await;
                    stream.is_some()
                }
            };
            if is_sent {
                watches.insert(watch_id, inbox);
            } else {
                _ = inbox.push(WatchEvent::Cut);
            }
        }
        Command::Unwatch(watch_id) => {
            // One that was cut has gone from the stream already.
            if let (Some(_), Some(stream)) = (watches.remove(&watch_id), stream) {
                let cancel = pb::WatchChange::Cancel(pb::WatchCancelRequest { watch_id });
                _ = stream.requests.send(pb::WatchRequest { change: Some(cancel) });
            }
        }
        Command::Call(_) => {}
    }
}

/// Opens the stream with its first request, since etcd answers nothing before one; `None` if etcd
/// cannot be reached.
async fn open(link: &SharedLink, first: pb::WatchRequest) -> Option<Stream> {
    let connected = link.connected().await.ok()?;
    let (requests, to_send) = mpsc::unbounded_channel();
    _ = requests.send(first);
    let opening = link.stream(&connected, "/etcdserverpb.Watch/Watch", UnboundedReceiverStream::new(to_send));
    match timeout(link.request_timeout(), opening).await {
        Ok(Ok(answers)) => Some(Stream { requests, answers }),
        Ok(Err(_)) | Err(_) => {
            link.forget_token();
            link.give_up(&connected).await;
            None
        }
    }
}

/// Gives the number of a watch whose owner is too slow.
fn take(answer: pb::WatchResponse, watches: &mut Watches) -> Option<i64> {
    let event = if answer.compact_revision > 0 {
        WatchEvent::Compacted
    } else if answer.canceled {
        WatchEvent::Cut
    } else if answer.events.is_empty() {
        return None;
    } else {
        WatchEvent::Changes(answer.events.into_iter().filter_map(change).collect())
    };
    let is_last = !matches!(event, WatchEvent::Changes(_));
    let has_room = watches.get(&answer.watch_id).is_none_or(|inbox| inbox.push(event));
    if is_last {
        watches.remove(&answer.watch_id);
    }
    (!has_room && !is_last).then_some(answer.watch_id)
}

fn change(event: pb::Event) -> Option<Change> {
    let key = event.kv?;
    Some(if event.kind == pb::DELETE { Change::Deleted(key.key) } else { Change::Put(key_value(key)) })
}

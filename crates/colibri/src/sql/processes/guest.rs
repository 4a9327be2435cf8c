//! A connection to a database that another process has open.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use colibri_sql::portable::Names;
use colibri_sql::{DirectoryLock, Env, Notice, SqlState, TransactionState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};

use super::address::{is_of_this_user, reach};
use super::frame::damaged;
use super::hello::{self, VERSION, Welcome, Wish};
use super::line::Line;
use super::reply::{self, Reply};
use super::request::{self, Request, owner_gone};
use crate::sql::value::Params;
use crate::sql::{Error, Result};

/// How long a directory whose lock is taken may be without a socket: its owner is about to make one,
/// or has just ended.
const SOCKET_PATIENCE: Duration = Duration::from_millis(300);
/// How long an owner may take to let somebody in. It may have to recover the database first.
const WELCOME_PATIENCE: Duration = Duration::from_secs(60);
/// How long cancelling a statement may take.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);

/// What coming to a directory has led to.
pub(in crate::sql) enum Entered {
    /// Nobody has it: this process does now.
    Owner(DirectoryLock),
    Guest(Box<Guest>),
}

/// A session in the owner's process.
pub(in crate::sql) struct Guest {
    line: Arc<Line>,
    place: Arc<Place>,
    pub(in crate::sql) number: i32,
    state: TransactionState,
    env: Env,
    names: Arc<Names>,
    notices: Vec<Notice>,
    /// The request that was sent and not answered.
    under_way: Option<Vec<u8>>,
    is_lost: bool,
}

/// A statement of a guest.
pub(in crate::sql) struct Run {
    /// What begins it, until that is sent.
    first: Option<Vec<u8>>,
}

/// Where a session is, for who cancels it.
pub(in crate::sql) struct Place {
    dir: PathBuf,
    number: i32,
    secret: u64,
    owner: u32,
}

/// Takes the lock of a directory. If another process has the lock, becomes a guest of that process.
///
/// # Errors
/// 55006 if the owner lets nobody in, or has another version; 58030 of the file system.
pub(in crate::sql) fn enter(dir: &Path, user: &str) -> Result<Entered> {
    let until = Instant::now() + SOCKET_PATIENCE;
    loop {
        let owner = match DirectoryLock::try_for_sql(dir)? {
            Ok(lock) => return Ok(Entered::Owner(lock)),
            Err(owner) => owner,
        };
        let by = || owner.map_or("by another process".to_owned(), |owner| format!("by process {owner}"));
        let taken = || DirectoryLock::taken_error(dir, &by());
        let entered = reach(dir).and_then(|stream| greet(stream, &Wish::Session(user.to_owned()), WELCOME_PATIENCE));
        match entered {
            Ok((stream, Welcome::Session { number, secret, owner })) => {
                let place = Place { dir: dir.to_owned(), number, secret, owner };
                return Ok(Entered::Guest(Box::new(Guest::new(stream, place))));
            }
            Ok((_, Welcome::OtherVersion(version))) => {
                let message = format!(
                    "{} is open for SQL {} with version {version} of Colibri, and this is version {VERSION}",
                    dir.display(),
                    by()
                );
                return Err(Error::new(taken().state(), message)
                    .hint("Processes that have a database open together use the same version."));
            }
            Ok((_, Welcome::Refused(why))) => return Err(taken().detail(why)),
            Ok((_, Welcome::Done)) => return Err(damaged()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(taken().detail(format!("Its socket is of another user: {error}")));
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(taken().detail("It has a socket there, and does not answer."));
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(taken().detail(error.to_string())),
            // There is no socket yet, or its owner has just ended.
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(3)),
            Err(_) => return Err(taken()),
        }
    }
}

/// Says what is wanted, and waits for the answer.
fn greet(stream: UnixStream, wish: &Wish, patience: Duration) -> io::Result<(UnixStream, Welcome)> {
    if !is_of_this_user(&stream) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there"));
    }
    stream.set_read_timeout(Some(patience))?;
    hello::say(&stream, VERSION, wish)?;
    let welcome = hello::heed(&stream)?;
    stream.set_read_timeout(None)?;
    Ok((stream, welcome))
}

impl Place {
    /// The process that has the database open.
    pub(in crate::sql) fn owner(&self) -> u32 {
        self.owner
    }

    /// Ends what the session is running. If the owner is gone, nothing runs any more.
    pub(in crate::sql) fn cancel(&self) {
        let wish = Wish::Cancel { number: self.number, secret: self.secret };
        _ = reach(&self.dir).and_then(|stream| greet(stream, &wish, CANCEL_PATIENCE));
    }
}

impl Run {
    /// A statement that is still to begin.
    pub(in crate::sql) fn new(sql: &str, params: &impl Params) -> Result<Self> {
        Ok(Self { first: Some(request::run(sql, params)?) })
    }
}

impl Guest {
    fn new(stream: UnixStream, place: Place) -> Self {
        let names = Arc::<Names>::default();
        Self {
            line: Line::new(stream),
            number: place.number,
            place: Arc::new(place),
            state: TransactionState::Idle,
            env: Env { surroundings: Some(Arc::<Names>::clone(&names)), ..Env::default() },
            names,
            notices: Vec::new(),
            under_way: None,
            is_lost: false,
        }
    }

    pub(in crate::sql) fn place(&self) -> &Arc<Place> {
        &self.place
    }

    /// The socket, for those who have to close it in a child of `fork`.
    pub(in crate::sql) fn stream(&self) -> &Arc<UnixStream> {
        self.line.stream()
    }

    pub(in crate::sql) fn state(&self) -> TransactionState {
        self.state
    }

    pub(in crate::sql) fn env(&self) -> &Env {
        &self.env
    }

    pub(in crate::sql) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    pub(in crate::sql) fn on_notification(&self, hook: Arc<dyn Fn() + Send + Sync>) {
        self.line.on_ring(hook);
    }

    /// Whether the owner was still there a moment ago.
    pub(in crate::sql) fn is_connected(&self) -> bool {
        let mut fds = [PollFd::new(self.line.stream(), PollFlags::RDHUP)];
        !self.is_lost && poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }

    /// Asks for something, and waits for the answer; an error that the owner tells is one here.
    /// `canceled` is a flag that somebody, such as a handler of signals, may set meanwhile.
    pub(in crate::sql) fn ask(&mut self, request: &Request<'_>, canceled: &AtomicBool) -> Result<Reply> {
        self.ask_frame(request.frame()?, canceled)
    }

    /// Runs a statement once for each of these parameters; gives how many rows it was about.
    pub(in crate::sql) fn run_many<P: Params>(&mut self, sql: &str, rows: &[P], canceled: &AtomicBool) -> Result<u64> {
        match self.ask_frame(request::many(sql, rows)?, canceled)? {
            Reply::Count(count) => Ok(count),
            _ => Err(self.confused()),
        }
    }

    fn ask_frame(&mut self, frame: Vec<u8>, canceled: &AtomicBool) -> Result<Reply> {
        canceled.store(false, Ordering::Relaxed);
        self.send(frame)?;
        self.wait(canceled)
    }

    fn send(&mut self, frame: Vec<u8>) -> Result<()> {
        if self.is_lost || self.line.send(&frame).is_err() {
            return Err(self.lose());
        }
        self.under_way = Some(frame);
        Ok(())
    }

    fn wait(&mut self, canceled: &AtomicBool) -> Result<Reply> {
        let place = Arc::clone(&self.place);
        let frame = self.line.wait(|| {
            if canceled.swap(false, Ordering::Relaxed) {
                place.cancel();
            }
        });
        self.take_in(frame)
    }

    /// Takes note of what comes with a reply.
    fn take_in(&mut self, frame: Option<Vec<u8>>) -> Result<Reply> {
        let Some(frame) = frame else { return Err(self.lose()) };
        self.under_way = None;
        let (status, reply) = reply::read(&frame, &self.names).inspect_err(|_| self.is_lost = true)?;
        self.state = status.state;
        if let Some(settings) = status.settings {
            self.env = settings.env(&self.names);
        }
        self.notices.extend(status.notices);
        match reply {
            Reply::Failed(error) => Err(error),
            reply => Ok(reply),
        }
    }

    /// The error for what was under way, if anything was.
    #[cold]
    fn lose(&mut self) -> Error {
        self.is_lost = true;
        let is_in_block = std::mem::replace(&mut self.state, TransactionState::Idle) != TransactionState::Idle;
        self.under_way.take().map_or_else(owner_gone, |frame| request::lost(&frame, is_in_block))
    }

    /// The error of an answer to something else.
    #[cold]
    pub(in crate::sql) fn confused(&mut self) -> Error {
        self.is_lost = true;
        damaged()
    }

    // ---- statements ----

    fn send_next(&mut self, run: &mut Run, canceled: &AtomicBool) -> Result<()> {
        if self.under_way.is_some() {
            return Ok(());
        }
        let frame = match run.first.take() {
            Some(frame) => {
                canceled.store(false, Ordering::Relaxed);
                frame
            }
            None => Request::More.frame()?,
        };
        self.send(frame)
    }

    /// Waits for what a statement gives next.
    pub(in crate::sql) fn next(&mut self, run: &mut Run, canceled: &AtomicBool) -> Result<Reply> {
        self.send_next(run, canceled)?;
        self.wait(canceled)
    }

    /// The same without waiting.
    pub(in crate::sql) fn poll_next(
        &mut self,
        run: &mut Run,
        canceled: &AtomicBool,
        context: &Context<'_>,
    ) -> Poll<Result<Reply>> {
        if let Err(error) = self.send_next(run, canceled) {
            return Poll::Ready(Err(error));
        }
        self.line.poll(context).map(|frame| self.take_in(frame))
    }

    /// Ends a statement that has not ended.
    pub(in crate::sql) fn stop(&mut self, run: &Run, canceled: &AtomicBool) -> Result<()> {
        if run.first.is_some() {
            return Ok(());
        }
        if self.under_way.is_some() {
            self.place.cancel();
            match self.wait(canceled) {
                Ok(Reply::Rows { tag: None, .. }) => {}
                Ok(_) => return Ok(()),
                Err(error) if error.state() == SqlState::CANCELED => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        match self.ask(&Request::Stop, canceled)? {
            Reply::Done => Ok(()),
            _ => Err(self.confused()),
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // A thread that reads there ends, and the owner ends the session.
        _ = shutdown(&**self.line.stream(), Shutdown::Both);
    }
}

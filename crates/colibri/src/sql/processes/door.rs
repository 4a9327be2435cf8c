//! Where an owner lets guests in: one thread that sleeps until somebody comes or goes.
//!
//! Each guest has a thread of its own, on which its session runs ([`super::host`]). The door's thread
//! watches the guests' sockets as well, so that a statement of a process that was killed is cancelled
//! and does not go on for nobody.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use colibri_sql::{Engine, SqlState};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{Shutdown, shutdown};

use super::address::{Entrance, is_of_this_user};
use super::hello::{self, Welcome, Wish};
use super::{host, inherited};
use crate::sql::{CancelHandle, Connection, Error, Result};

/// How long somebody may take to say what it wants.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);

/// The door, until it is dropped: guests are sent away then, and what they had begun is rolled back.
pub(in crate::sql) struct Door {
    entrance: Arc<Entrance>,
    guests: Arc<Guests>,
    thread: Option<JoinHandle<()>>,
}

/// Who is inside.
struct Guests {
    engine: Arc<Engine>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Nobody is let in any more.
    is_closed: bool,
    next_place: u64,
    guests: HashMap<u64, Inside>,
}

/// A guest.
struct Inside {
    stream: Arc<UnixStream>,
    thread: Option<JoinHandle<()>>,
    /// Its session, once it has one.
    session: Option<SessionOf>,
    /// Its process has closed the socket.
    is_gone: bool,
}

struct SessionOf {
    number: i32,
    secret: u64,
    cancel: CancelHandle,
}

impl Door {
    /// Lets guests in from now on; those who wait already are first.
    pub(in crate::sql) fn open(entrance: Entrance, engine: &Arc<Engine>) -> Result<Self> {
        let entrance = Arc::new(entrance);
        let guests = Arc::new(Guests { engine: Arc::clone(engine), known: Mutex::default() });
        let (at, inside) = (Arc::clone(&entrance), Arc::clone(&guests));
        let thread = thread::Builder::new().name("colibri-door".to_owned()).spawn(move || attend(&at, &inside));
        let thread = thread.map_err(|error| {
            Error::new(SqlState::OUT_OF_MEMORY, format!("there is no thread that lets other processes in: {error}"))
        })?;
        Ok(Self { entrance, guests, thread: Some(thread) })
    }

    /// In a child of `fork`, which has neither the door's thread nor its guests': closes its copies
    /// of the sockets. The door must not be dropped then.
    pub(in crate::sql) fn leave_to_parent(&self) {
        // If a thread of the parent had this at the time, it stays locked.
        let Some(known) = self.guests.known.try_lock() else { return };
        let guests = known.guests.values().map(|guest| guest.stream.as_raw_fd());
        inherited::close_in_child(guests.chain([self.entrance.listener.as_raw_fd()]));
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let threads: Vec<JoinHandle<()>> = {
            let mut known = self.guests.known.lock();
            known.is_closed = true;
            for guest in known.guests.values() {
                if let Some(session) = &guest.session {
                    session.cancel.cancel();
                }
                // A thread that reads or writes there goes on with an error.
                _ = shutdown(&*guest.stream, Shutdown::Both);
            }
            known.guests.values_mut().filter_map(|guest| guest.thread.take()).collect()
        };
        // This wakes the thread that waits for guests.
        _ = shutdown(&self.entrance.listener, Shutdown::Both);
        for thread in threads.into_iter().chain(self.thread.take()) {
            // A panic there was told by the thread itself.
            _ = thread.join();
        }
    }
}

/// The door's thread.
fn attend(entrance: &Entrance, guests: &Arc<Guests>) {
    loop {
        let watched: Vec<(u64, Arc<UnixStream>)> = {
            let known = guests.known.lock();
            if known.is_closed {
                return;
            }
            let inside = known.guests.iter().filter(|(_, guest)| !guest.is_gone);
            inside.map(|(place, guest)| (*place, Arc::clone(&guest.stream))).collect()
        };
        let mut fds = vec![PollFd::new(&entrance.listener, PollFlags::IN)];
        fds.extend(watched.iter().map(|(_, stream)| PollFd::new(&**stream, PollFlags::RDHUP)));
        if poll(&mut fds, None).is_err() {
            // A signal; the handlers of a program do not matter here.
            continue;
        }
        let has_come = !fds[0].revents().is_empty();
        let mut known = guests.known.lock();
        for ((place, _), fd) in watched.iter().zip(&fds[1..]) {
            if !fd.revents().is_empty()
                && let Some(guest) = known.guests.get_mut(place)
            {
                guest.is_gone = true;
                if let Some(session) = &guest.session {
                    session.cancel.cancel();
                }
            }
        }
        let is_closed = known.is_closed;
        drop(known);
        if has_come && !is_closed {
            match entrance.listener.accept() {
                Ok((stream, _)) => guests.let_in(stream),
                // The other side has gone, or there are too many descriptors: then a pause keeps
                // this from being tried again and again.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Guests {
    fn let_in(self: &Arc<Self>, stream: UnixStream) {
        if !is_of_this_user(&stream) {
            _ = hello::answer(&stream, &Welcome::Refused("another user has the database open".to_owned()));
            return;
        }
        let stream = Arc::new(stream);
        let mut known = self.known.lock();
        if known.is_closed {
            return;
        }
        let place = known.next_place;
        known.next_place += 1;
        let (guests, socket) = (Arc::clone(self), Arc::clone(&stream));
        let attend = move || {
            let leave = Leave { guests: &guests, place };
            guests.receive(place, &socket);
            drop(leave);
        };
        match thread::Builder::new().name("colibri-guest".to_owned()).spawn(attend) {
            Ok(thread) => {
                let inside = Inside { stream, thread: Some(thread), session: None, is_gone: false };
                known.guests.insert(place, inside);
            }
            Err(error) => {
                let text = format!("the process that has the database open has no thread left: {error}");
                _ = hello::answer(&stream, &Welcome::Refused(text));
            }
        }
    }

    /// A guest's thread: hears what it wants, and does it.
    fn receive(self: &Arc<Self>, place: u64, stream: &Arc<UnixStream>) {
        if stream.set_read_timeout(Some(HELLO_PATIENCE)).is_err() {
            return;
        }
        let user = match hello::hear(stream) {
            Ok(Ok(Wish::Session(user))) => user,
            Ok(Ok(Wish::Cancel { number, secret })) => {
                self.cancel(number, secret);
                _ = hello::answer(stream, &Welcome::Done);
                return;
            }
            Ok(Err(other)) => {
                _ = hello::answer(stream, &Welcome::OtherVersion(other));
                return;
            }
            Err(_) => return,
        };
        if stream.set_read_timeout(None).is_err() {
            return;
        }
        let connection = Connection::here_for(&self.engine, &user, None);
        let (number, secret) = (connection.number(), fastrand::u64(..));
        {
            let mut known = self.known.lock();
            if known.is_closed {
                return;
            }
            let Some(guest) = known.guests.get_mut(&place) else { return };
            guest.session = Some(SessionOf { number, secret, cancel: connection.cancel_handle() });
        }
        if hello::answer(stream, &Welcome::Session { number, secret, owner: std::process::id() }).is_ok() {
            host::attend(connection, stream);
        }
    }

    fn cancel(&self, number: i32, secret: u64) {
        let known = self.known.lock();
        let sessions = known.guests.values().filter_map(|guest| guest.session.as_ref());
        for session in sessions.filter(|session| session.number == number && session.secret == secret) {
            session.cancel.cancel();
        }
    }
}

/// Takes a guest off the list when its thread ends, whatever the reason.
struct Leave<'g> {
    guests: &'g Guests,
    place: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let left = self.guests.known.lock().guests.remove(&self.place);
        if let Some(left) = left {
            // The door may still watch the socket; this ends it for the other side.
            _ = shutdown(&*left.stream, Shutdown::Both);
        }
    }
}

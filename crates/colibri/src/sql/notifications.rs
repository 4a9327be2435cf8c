//! What reaches a connection besides the results of its statements: NOTIFY of others, and notices.

use std::sync::Arc;
use std::time::{Duration, Instant};

use colibri_sql::{Notice, Notification, TransactionState};
use parking_lot::{Condvar, Mutex};

use super::connection::Link;
use super::processes::{Reply, Request};
use super::{Connection, Result};

impl Connection {
    /// Takes the notifications that have arrived since the last call, in the order of their
    /// commits; none within a transaction, whose end they wait for. The connection has to have run
    /// LISTEN.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # let db = colibri::sql::Database::open(dir.path())?;
    /// let (mut listener, mut other) = (db.connect(), db.connect());
    /// listener.batch("LISTEN nests")?;
    /// other.batch("NOTIFY nests, 'two eggs'")?;
    /// let told = listener.notifications()?;
    /// assert_eq!((told.len(), told[0].payload.as_str()), (1, "two eggs"));
    /// # Ok::<(), colibri::sql::Error>(())
    /// ```
    ///
    /// # Errors
    /// 40003 if the flush of the commit that has notified fails.
    pub fn notifications(&mut self) -> Result<Vec<Arc<Notification>>> {
        if self.transaction_state() != TransactionState::Idle || self.at_rest().is_err() {
            return Ok(Vec::new());
        }
        let Link::Here(session) = &mut self.link else {
            return match self.ask(&Request::Notifications)? {
                Reply::Notifications(told) => Ok(told),
                _ => Err(self.confused()),
            };
        };
        let arrived = session.take_notifications();
        if let Some(ticket) = arrived.ticket {
            session.wait_durable(ticket)?;
        }
        Ok(arrived.notifications)
    }

    /// As [`Connection::notifications`]; if there are none, waits for the first, at most as long as
    /// `patience`. It sets [`Connection::on_notification`].
    ///
    /// # Errors
    /// As [`Connection::notifications`].
    pub fn wait_for_notifications(&mut self, patience: Duration) -> Result<Vec<Arc<Notification>>> {
        let signal = Arc::new((Mutex::new(false), Condvar::new()));
        let rung = Arc::clone(&signal);
        self.on_notification(move || {
            *rung.0.lock() = true;
            rung.1.notify_all();
        });
        let until = Instant::now() + patience;
        loop {
            let told = self.notifications()?;
            if !told.is_empty() || self.transaction_state() != TransactionState::Idle || self.is_running() {
                return Ok(told);
            }
            let mut has_rung = signal.0.lock();
            while !*has_rung {
                if signal.1.wait_until(&mut has_rung, until).timed_out() {
                    drop(has_rung);
                    return self.notifications();
                }
            }
            *has_rung = false;
        }
    }

    /// Sets what is called when a notification arrives after all were taken. It is called on
    /// another connection's thread, and must not wait.
    pub fn on_notification(&mut self, hook: impl Fn() + Send + Sync + 'static) {
        match &mut self.link {
            Link::Here(session) => session.set_notification_hook(Arc::new(hook)),
            Link::There(guest) => guest.on_notification(Arc::new(hook)),
            Link::Lost(_) => {}
        }
    }

    /// Takes the notices of statements since the last call: messages that are no errors, such as
    /// those of `RAISE NOTICE` and of `DROP TABLE IF EXISTS`.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        match &mut self.link {
            Link::Here(session) => session.take_notices(),
            Link::There(guest) => guest.take_notices(),
            Link::Lost(_) => Vec::new(),
        }
    }
}

//! What all connections of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use crate::auth::Auth;
use crate::clock::Clock;
use crate::cluster::Directory;
use crate::counts::Counts;
use crate::log::Log;
use crate::options::Options;
use crate::registry::{Member, Registry};
use crate::tls::Certificate;

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) directory: Arc<Directory>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) counts: Counts,
    pub(crate) log: Log,
    pub(crate) clock: Clock,
    pub(crate) auth: Auth,
    /// The present certificate, which new connections use.
    pub(crate) certificate: RwLock<Option<Arc<Certificate>>>,
    /// No new sessions are accepted.
    pub(crate) is_ending: AtomicBool,
    /// Rings when a session has ended, and when the server is asked to end.
    pub(crate) news: crate::bell::Bell,
    pub(crate) started: std::time::Instant,
    /// Settings that sessions begin with.
    pub(crate) session_defaults: Vec<(&'static str, String)>,
}

impl Shared {
    /// Logs a statement that has taken long.
    #[cold]
    pub(crate) fn slow(&self, member: &Member, took: Duration, text: &str) {
        self.counts.slow(took, &member.database, text);
        let ms = format!("{:.3}", took.as_secs_f64() * 1e3);
        let fields: [(&str, &dyn std::fmt::Display); 5] = [
            ("ms", &ms),
            ("pid", &member.pid),
            ("user", &member.user),
            ("database", &member.database),
            ("query", &crate::registry::shown(text)),
        ];
        self.log.warn("slow_statement", &fields);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }
}

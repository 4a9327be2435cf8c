//! A hook that is called before long work: commits, checks and rollbacks of many changes.
//!
//! Such work is one call that cannot be interrupted. A server calls it on a thread that serves
//! other sessions as well. The hook ([`crate::LocalStore::set_long_work_hook`]) lets the server
//! move those sessions to another thread first.

use std::fmt;
use std::sync::OnceLock;

/// Changes, or things read, from which on work on them counts as long: about 3 ms.
const ITEMS_MIN: usize = 4_000;

/// Whom to tell that long work begins.
#[derive(Default)]
pub(crate) struct LongWork(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl LongWork {
    /// Gives whether the hook is the first one.
    pub(crate) fn set(&self, hook: Box<dyn Fn() + Send + Sync>) -> bool {
        self.0.set(hook).is_ok()
    }

    /// Calls the hook if `items`, a number of changes or reads, is large. Call this before the
    /// work.
    #[inline]
    pub(crate) fn begins(&self, items: usize) {
        if items >= ITEMS_MIN {
            self.begins_to_wait();
        }
    }

    /// Calls the hook before the thread waits for other machines.
    pub(crate) fn begins_to_wait(&self) {
        if let Some(hook) = self.0.get() {
            hook();
        }
    }
}

impl fmt::Debug for LongWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LongWork").field(&self.0.get().is_some()).finish()
    }
}

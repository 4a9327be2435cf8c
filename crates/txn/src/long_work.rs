//! Work that cannot be put aside and says nothing along the way: commits, checks and rollbacks of many changes.
//!
//! A thread that serves many sessions wants to hear of it before, so that another one can take over what it does. Who has
//! such threads gives the store a hook ([`crate::LocalStore::set_long_work_hook`]).

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

    /// To be called before work on so many changes or reads.
    #[inline]
    pub(crate) fn begins(&self, items: usize) {
        if items >= ITEMS_MIN
            && let Some(hook) = self.0.get()
        {
            hook();
        }
    }
}

impl fmt::Debug for LongWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LongWork").field(&self.0.get().is_some()).finish()
    }
}

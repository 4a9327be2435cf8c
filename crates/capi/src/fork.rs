//! How often this process came out of a fork: what was opened before one is not this process's.
#![allow(unsafe_code, reason = "a call of C")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::fault::Fault;

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A number that is another one in a process that was forked since the last call.
pub(crate) fn forks() -> u32 {
    static ASKED: Once = Once::new();
    ASKED.call_once(register_fork);
    FORKS.load(Ordering::Relaxed)
}

fn register_fork() {
    // SAFETY: `note_fork` changes an atomic number only, which a child may do after a fork.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(note_fork)) };
}

/// Something that only the process may use, and end, that has made it. In a process that was forked
/// meanwhile it is refused, and left as it is when it goes.
pub(crate) struct OfProcess<T> {
    inner: Option<T>,
    forks: u32,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner: Some(inner), forks: forks() }
    }

    /// # Errors
    /// The process was forked meanwhile.
    #[inline]
    pub(crate) fn get(&mut self) -> Result<&mut T, Fault> {
        match &mut self.inner {
            Some(inner) if self.forks == forks() => Ok(inner),
            _ => Err(Fault::Forked),
        }
    }

    /// What a parent process has made.
    pub(crate) fn of_parent(&self) -> Option<&T> {
        self.inner.as_ref().filter(|_| self.forks != forks())
    }

    /// # Errors
    /// As [`OfProcess::get`].
    pub(crate) fn take(mut self) -> Result<T, Fault> {
        self.get()?;
        self.inner.take().ok_or(Fault::Forked)
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.forks != forks() {
            std::mem::forget(self.inner.take());
        }
    }
}

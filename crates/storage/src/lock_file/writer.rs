//! The writer's lock between processes, and the steady point that keeps other processes from writing.
//!
//! Invariants
//! - `writer` is 0, or the process slot + 1 of the holder, with a bit for sleepers; the lock of a dead process is given back
//!   under the gate, when no slot can change hands.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::thread::futex;

#[cfg(test)]
use super::{FIRST_PROCESS_BYTE, range_lock};
use super::{Shared, WAITERS};
use crate::{Error, Result};

/// A sleeper for the writer's lock looks this often whether the holder is still alive.
const HOLDER_CHECK_PERIOD_MS: i64 = 100;

impl Shared {
    /// Takes the writer's lock between processes. Returns whether this process also wrote last, so that what it
    /// knows of free space still holds; else it calls [`Self::wrote`] once it has learnt what the files say.
    pub(crate) fn lock_writer(&self, wait: bool) -> Result<bool> {
        let word = &self.header().writer;
        let mine = self.slot + 1;
        // Once having slept, others may sleep too: keep the bit set.
        let mut value = mine;
        loop {
            match word.compare_exchange(0, value, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(held) if !wait => {
                    if self.is_alive((held & !WAITERS) - 1) || !self.release_dead_writer() {
                        return Err(Error::Busy);
                    }
                }
                Err(held) => {
                    let holder = (held & !WAITERS) - 1;
                    value = mine | WAITERS;
                    if held & WAITERS == 0
                        && word.compare_exchange(held, held | WAITERS, Ordering::Relaxed, Ordering::Relaxed).is_err()
                    {
                        continue;
                    }
                    let timeout = futex::Timespec { tv_sec: 0, tv_nsec: HOLDER_CHECK_PERIOD_MS * 1_000_000 };
                    let slept = futex::wait(word, futex::Flags::empty(), held | WAITERS, Some(&timeout));
                    if slept == Err(rustix::io::Errno::TIMEDOUT) && !self.is_alive(holder) {
                        self.release_dead_writer();
                    }
                }
            }
        }
        #[cfg(test)]
        {
            self.holders.lock().writer = Some(std::thread::current().id());
        }
        Ok(self.header().last_writer.load(Ordering::Acquire) == self.incarnation)
    }

    /// Frees the writer's lock if its holder is no more: its transaction was never published. Returns whether the lock
    /// is worth trying for.
    fn release_dead_writer(&self) -> bool {
        // With the gate closed no process slot found dead can come to life under another owner.
        let Ok(_gate) = self.close_gate() else { return false };
        let word = &self.header().writer;
        let held = word.load(Ordering::Relaxed);
        let Some(holder) = (held & !WAITERS).checked_sub(1) else { return true };
        !self.is_alive(holder) && word.compare_exchange(held, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Lets go of what this thread has, as the death of its process would: the writer's lock, and the steady point it was
    /// making. What another thread of this process has, that will give back: it goes on, as if it had died later.
    #[cfg(test)]
    pub(crate) fn let_go_of_threads_own(&self) {
        let thread = Some(std::thread::current().id());
        let (has_lock, makes_steady) = {
            let holders = self.holders.lock();
            (holders.writer == thread, holders.steady == thread)
        };
        if has_lock {
            self.unlock_writer();
        }
        if makes_steady {
            self.end_steady();
        }
    }

    /// Lets go of the process slot and of nothing else, as the kernel does for a process that dies.
    #[cfg(test)]
    pub(crate) fn lose_process_slot(&self) {
        let file = self.file.as_ref().expect("attached state has a file");
        range_lock(file, libc::F_UNLCK, FIRST_PROCESS_BYTE + i64::from(self.slot), 1, false).expect("unlocking");
    }

    /// This process is the last writer from now on. Whoever dies before has changed nothing, so that what the last
    /// writer knows still holds.
    pub(crate) fn wrote(&self) {
        self.header().last_writer.store(self.incarnation, Ordering::Release);
    }

    /// Whether this process is the last writer.
    pub(crate) fn is_last_writer(&self) -> bool {
        self.header().last_writer.load(Ordering::Acquire) == self.incarnation
    }

    /// Announces a steady point that is flushed without the writer's lock, so that no other process writes meanwhile.
    pub(crate) fn begin_steady(&self) {
        #[cfg(test)]
        {
            self.holders.lock().steady = Some(std::thread::current().id());
        }
        self.header().steady_maker.store(self.slot + 1, Ordering::Release);
    }

    pub(crate) fn end_steady(&self) {
        #[cfg(test)]
        {
            self.holders.lock().steady = None;
        }
        self.header().steady_maker.store(0, Ordering::Release);
    }

    /// Waits for the steady point that another process is making. The caller holds the writer's lock, so no other begins.
    pub(crate) fn wait_for_steady(&self) {
        loop {
            let maker = self.header().steady_maker.load(Ordering::Acquire);
            if maker == 0 || maker == self.slot + 1 || !self.is_alive(maker - 1) {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    pub(crate) fn unlock_writer(&self) {
        #[cfg(test)]
        {
            self.holders.lock().writer = None;
        }
        let word = &self.header().writer;
        if word.swap(0, Ordering::Release) & WAITERS != 0 {
            let _ = futex::wake(word, futex::Flags::empty(), 1);
        }
    }
}

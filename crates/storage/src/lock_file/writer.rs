//! The writer's lock between processes, and the mark that keeps other processes from writing while
//! a steady point is flushed.
//!
//! Invariants
//! - `writer` is 0, or the process slot + 1 of the holder, with a bit that says that others sleep.
//! - The lock of a dead process is released under the gate, when no process slot can change hands.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::thread::futex;

#[cfg(test)]
use super::{FIRST_PROCESS_BYTE, range_lock};
use super::{Shared, WAITERS};
use crate::{Error, Result};

/// A thread that sleeps for the writer's lock checks this often whether the holder is alive.
const HOLDER_CHECK_PERIOD_MS: i64 = 100;

impl Shared {
    /// Takes the writer's lock between processes. Gives whether this process also wrote last: then
    /// what it knows of free space still holds. If not, it calls [`Self::wrote`] once it has read
    /// the files.
    pub(crate) fn lock_writer(&self, wait: bool) -> Result<bool> {
        let word = &self.header().writer;
        let mine = self.slot + 1;
        // A thread that has slept cannot know whether others still sleep, so it keeps the bit set.
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

    /// Releases the writer's lock if its holder is dead; what that had not published is lost. Gives
    /// whether trying for the lock makes sense now.
    fn release_dead_writer(&self) -> bool {
        // While the gate is closed, no process slot can pass from a dead process to a new one.
        let Ok(_gate) = self.close_gate() else { return false };
        let word = &self.header().writer;
        let held = word.load(Ordering::Relaxed);
        let Some(holder) = (held & !WAITERS).checked_sub(1) else { return true };
        !self.is_alive(holder) && word.compare_exchange(held, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Plays the death of this thread's process: releases the writer's lock and the mark of a
    /// steady point if this thread has them. Other threads of the process go on as if it had died
    /// later.
    #[cfg(test)]
    pub(crate) fn release_of_this_thread(&self) {
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

    /// Releases the process slot and nothing else, as the kernel does for a process that dies.
    #[cfg(test)]
    pub(crate) fn lose_process_slot(&self) {
        let file = self.file.as_ref().expect("attached state has a file");
        range_lock(file, libc::F_UNLCK, FIRST_PROCESS_BYTE + i64::from(self.slot), 1, false).expect("unlocking");
    }

    /// Makes this process the last writer. A process that dies before this has changed nothing, so
    /// what the last writer knows still holds.
    pub(crate) fn wrote(&self) {
        self.header().last_writer.store(self.incarnation, Ordering::Release);
    }

    /// Whether this process is the last writer.
    pub(crate) fn is_last_writer(&self) -> bool {
        self.header().last_writer.load(Ordering::Acquire) == self.incarnation
    }

    /// Marks that this process flushes a steady point without the writer's lock, so that no other
    /// writes.
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

    /// Waits until another process has finished its steady point. The caller holds the writer's
    /// lock, so no other one begins.
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

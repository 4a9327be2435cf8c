//! Telling a wait for the disk from a touch of memory, and whether lookups have lately waited.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// A touch that takes so many nanoseconds has waited for the disk, or the thread for a processor.
const SLOW_NS: u64 = 8_000;
/// A moment, to tell a touch of memory from a wait for the disk.
#[derive(Clone, Copy)]
pub(crate) struct Moment(#[cfg(target_arch = "x86_64")] u64, #[cfg(not(target_arch = "x86_64"))] std::time::Instant);

#[cfg(target_arch = "x86_64")]
impl Moment {
    /// The processor's own counter takes a third of the time of the system's clock. It counts at
    /// 1 to 5 GHz: three cycles a nanosecond are about right.
    #[inline]
    pub(crate) fn now() -> Self {
        // SAFETY: every processor of this architecture has the instruction.
        Self(unsafe { std::arch::x86_64::_rdtsc() })
    }

    /// Whether what began here has waited for the disk.
    #[inline]
    pub(crate) fn was_slow(self) -> bool {
        Self::now().0.wrapping_sub(self.0) > 3 * SLOW_NS
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Moment {
    #[inline]
    pub(crate) fn now() -> Self {
        Self(std::time::Instant::now())
    }

    /// Whether what began here has waited for the disk.
    #[inline]
    pub(crate) fn was_slow(self) -> bool {
        self.0.elapsed().as_nanos() > u128::from(SLOW_NS)
    }
}

/// Whether what is looked up comes from the disk: a credit of lookups that look first whether their
/// pages are in memory.
#[derive(Default)]
pub(crate) struct Cold(AtomicI32);

/// What a wait for the disk gives, and the most there is. Where fewer than one lookup in so many
/// waits, nobody looks first.
const CREDIT: i32 = 64;
const CREDIT_MAX: i32 = 1024;
/// From here on it counts, for tests, what seems to be missing.
const PRETENDED: i32 = 1 << 20;

impl Cold {
    /// A lookup began at `started`, and is over.
    #[inline]
    pub(crate) fn note(&self, started: Moment) {
        if started.was_slow() {
            self.missed();
        }
    }

    /// A lookup has waited, or would have.
    #[cold]
    pub(crate) fn missed(&self) {
        if self.0.load(Relaxed) >= PRETENDED {
            return;
        }
        let credit = self.0.load(Relaxed);
        self.0.store((credit.max(0) + CREDIT).min(CREDIT_MAX), Relaxed);
    }

    /// A lookup looked first.
    pub(crate) fn looked(&self, was_missing: bool) {
        match was_missing {
            _ if self.0.load(Relaxed) >= PRETENDED => {}
            true => self.missed(),
            false => drop(self.0.fetch_sub(1, Relaxed)),
        }
    }

    /// For tests: from here on some pages, always others, seem to be missing.
    pub(crate) fn pretend(&self, pretends: bool) {
        if pretends {
            self.0.store(PRETENDED, Relaxed);
        }
    }

    /// Whether a page that is in memory seems not to be.
    pub(crate) fn pretends(&self) -> bool {
        self.0.load(Relaxed) >= PRETENDED && self.0.fetch_add(1, Relaxed) % 3 == 0
    }

    #[inline]
    pub(crate) fn is_cold(&self) -> bool {
        self.0.load(Relaxed) > 0
    }
}

//! Locks for the code that models run through: real ones, and with the feature `shuttle` those of a
//! scheduler that decides every interleaving.
//!
//! They are used by `locks` and `queue`, where threads wait for each other; `recent` uses the
//! atomics.
//!
//! The storage, the transactions and the runtime each have such a module. Real locks need no shared
//! code, and what the models need is small and differs: the storage has a fair lock, and the
//! runtime another checker (`loom`). So none of these crates depends on another for it.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Condvar, Mutex};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::AtomicU64;

#[cfg(feature = "shuttle")]
pub(crate) use scheduled::{Condvar, Mutex};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::AtomicU64;

#[cfg(feature = "shuttle")]
mod scheduled {
    use std::ops::{Deref, DerefMut};
    use std::time::Instant;

    use shuttle::sync;

    #[derive(Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    pub(crate) struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>, &'a Mutex<T>);

    pub(crate) struct TimedOut;

    impl TimedOut {
        #[expect(clippy::unused_self, reason = "as the real one is asked")]
        pub(crate) fn timed_out(&self) -> bool {
            true
        }
    }

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(self.0.lock().ok(), self)
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("held but while waiting")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("held but while waiting")
        }
    }

    #[derive(Default)]
    pub(crate) struct Condvar(sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect("held but while waiting");
            guard.0 = self.0.wait(held).ok();
        }

        /// The scheduler has no clock: the time is over when other threads have had a turn.
        pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _deadline: Instant) -> TimedOut {
            let mutex = guard.1;
            drop(guard.0.take());
            shuttle::thread::yield_now();
            *guard = mutex.lock();
            TimedOut
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

//! Locks for the code that models run through: real ones, and with the feature `shuttle` those of a
//! scheduler that decides every interleaving.
//!
//! They are used by `log`, `steady`, `flusher` and `workspace`.
//!
//! The background threads sleep on the locks of `sleep`, which are those of the standard library.
//! A process that has forked may open databases of its own, and `parking_lot` fails in it: its
//! table of sleeping threads still names the threads of the parent, whose memory the new threads
//! of the child reuse. The locks of the standard library keep nothing but a number.
//!
//! The storage, the transactions and the runtime each have such a module. Real locks need no shared
//! code, and what the models need is small and differs: the storage has a fair lock, and the
//! runtime another checker (`loom`). So none of these crates depends on another for it.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use real::{FairMutex, sleep};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::AtomicU32;

#[cfg(feature = "shuttle")]
pub(crate) use scheduled::{self as sleep, Condvar, FairMutex, Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::AtomicU32;

#[cfg(not(feature = "shuttle"))]
mod real {
    use parking_lot::{Mutex, MutexGuard};

    /// A lock that waiting threads get in the order of their arrival.
    #[derive(Default)]
    pub(crate) struct FairMutex(Mutex<()>);

    pub(crate) struct FairGuard<'a>(Option<MutexGuard<'a, ()>>);

    impl FairMutex {
        #[inline]
        pub(crate) fn lock(&self) -> FairGuard<'_> {
            FairGuard(Some(self.0.lock()))
        }
    }

    impl Drop for FairGuard<'_> {
        #[inline]
        fn drop(&mut self) {
            if let Some(guard) = self.0.take() {
                MutexGuard::unlock_fair(guard);
            }
        }
    }

    pub(crate) mod sleep {
        use std::ops::{Deref, DerefMut};
        use std::sync::{self, PoisonError};
        use std::time::Instant;

        #[derive(Default)]
        pub(crate) struct Mutex<T>(sync::Mutex<T>);

        pub(crate) struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

        #[derive(Default)]
        pub(crate) struct Condvar(sync::Condvar);

        impl<T> Mutex<T> {
            pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
                MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
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

        impl Condvar {
            pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
                let held = guard.0.take().expect("held but while waiting");
                guard.0 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
            }

            /// Whether the time is over.
            pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, deadline: Instant) -> bool {
                let held = guard.0.take().expect("held but while waiting");
                let left = deadline.saturating_duration_since(Instant::now());
                let (held, over) = self.0.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner);
                guard.0 = Some(held);
                over.timed_out()
            }

            pub(crate) fn notify_one(&self) {
                self.0.notify_one();
            }
        }
    }
}

#[cfg(feature = "shuttle")]
pub(crate) mod scheduled {
    use std::ops::{Deref, DerefMut};
    use std::time::Instant;

    use shuttle::sync;

    #[derive(Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    pub(crate) struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>, &'a Mutex<T>);

    pub(crate) struct TimedOut;

    impl TimedOut {
        pub(crate) fn timed_out(&self) -> bool {
            true
        }
    }

    impl<T> Mutex<T> {
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

        pub(crate) fn wait_while<T>(&self, guard: &mut MutexGuard<'_, T>, mut condition: impl FnMut(&mut T) -> bool) {
            while condition(guard) {
                self.wait(guard);
            }
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// How many numbers were drawn, and the number that is served.
    #[derive(Default)]
    struct Line {
        taken: u64,
        served: u64,
    }

    #[derive(Default)]
    pub(crate) struct FairMutex {
        line: Mutex<Line>,
        moved: Condvar,
    }

    pub(crate) struct FairGuard<'a>(&'a FairMutex);

    impl FairMutex {
        pub(crate) fn lock(&self) -> FairGuard<'_> {
            let mut line = self.line.lock();
            let number = line.taken;
            line.taken += 1;
            self.moved.wait_while(&mut line, |line| line.served != number);
            FairGuard(self)
        }
    }

    impl Drop for FairGuard<'_> {
        fn drop(&mut self) {
            self.0.line.lock().served += 1;
            self.0.moved.notify_all();
        }
    }
}

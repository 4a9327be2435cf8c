//! Locks and atomics for the code that models run through: real ones, and with the feature `loom`
//! those of a model checker that tries every interleaving.
//!
//! The model checker treats `SeqCst` accesses as weaker than they are, so code that needs a total
//! order uses a fence.
//!
//! The storage and the transactions have the like for another checker (`shuttle`). Real locks need
//! no shared code, and what is needed for the models is small and different for each checker; so
//! none of these crates depends on another for it.

#[cfg(not(feature = "loom"))]
pub(crate) use parking_lot::{Condvar, Mutex};
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};

#[cfg(feature = "loom")]
pub(crate) use checked::{Condvar, Mutex};
#[cfg(feature = "loom")]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};

#[cfg(feature = "loom")]
mod checked {
    use std::ops::{Deref, DerefMut};

    use loom::sync;

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    /// `None` only while its condition variable waits.
    pub(crate) struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(self.0.lock().ok())
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
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

    #[derive(Debug)]
    pub(crate) struct Condvar(sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect("held but while waiting");
            guard.0 = self.0.wait(held).ok();
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

/// For tests of wakers that do more than waking.
#[cfg(all(test, not(feature = "loom")))]
pub(crate) mod tests {
    use std::sync::mpsc;
    use std::task::Wake;
    use std::time::Duration;

    use parking_lot::Mutex;

    /// A waker that does something when it is dropped.
    pub(crate) struct OnDrop(Mutex<Option<Box<dyn FnOnce() + Send>>>);

    impl OnDrop {
        pub(crate) fn new(f: impl FnOnce() + Send + 'static) -> Self {
            Self(Mutex::new(Some(Box::new(f))))
        }
    }

    impl Drop for OnDrop {
        fn drop(&mut self) {
            if let Some(f) = self.0.get_mut().take() {
                f();
            }
        }
    }

    impl Wake for OnDrop {
        fn wake(self: std::sync::Arc<Self>) {}
    }

    /// Fails when `f` does not end in time.
    pub(crate) fn within_seconds(f: impl FnOnce() + Send + 'static) {
        let (told, tell) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            f();
            let _ = told.send(());
        });
        let in_time = tell.recv_timeout(Duration::from_secs(20));
        assert!(in_time != Err(mpsc::RecvTimeoutError::Timeout), "it waits for ever");
        if let Err(cause) = thread.join() {
            std::panic::resume_unwind(cause);
        }
    }
}

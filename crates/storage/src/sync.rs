//! Locks, of which there are two kinds: real ones, and with the feature `shuttle` ones whose every interleaving a
//! test's scheduler decides. Only what the models of `log` and `steady` run through is here.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Condvar, Mutex};

#[cfg(feature = "shuttle")]
pub(crate) use scheduled::{Condvar, Mutex};

#[cfg(feature = "shuttle")]
mod scheduled {
    use std::ops::{Deref, DerefMut};

    use shuttle::sync;

    #[derive(Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    pub(crate) struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(self.0.lock().ok())
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

        pub(crate) fn wait_while<T>(&self, guard: &mut MutexGuard<'_, T>, mut condition: impl FnMut(&mut T) -> bool) {
            while condition(guard) {
                self.wait(guard);
            }
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

//! Threads that let a server on the same machine finish what it is at.
//!
//! An answer wakes the thread that waits for it, and the kernel may let it go first: before the server, in the middle of its
//! next transaction. From another machine that could not be. Threads of the policy `SCHED_BATCH` have the same share of the
//! processors, and do not interrupt others when they wake. Where something is due at a given time, they might be late for it.

#![allow(unsafe_code, reason = "scheduling policies are in no library that leaves niceness alone")]

// The calls themselves: musl's functions of these names only say that there are none.

/// The policy of this thread.
fn policy() -> Option<libc::c_int> {
    // SAFETY: it asks about the calling thread and touches no memory.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    libc::c_int::try_from(policy).ok().filter(|&policy| policy >= 0)
}

/// Whether it could be set; if not, nothing has changed.
fn set_policy(policy: libc::c_int) -> bool {
    // What the kernel takes, a priority alone; these policies have none.
    let priority: libc::c_int = 0;
    // SAFETY: `priority` lives for the call, which sets the policy of the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
}

/// Whether this thread interrupts nobody.
#[cfg(test)]
pub(super) fn is_patient() -> bool {
    policy() == Some(libc::SCHED_BATCH)
}

/// Threads that `start` makes interrupt nobody when they wake, unless this thread has a policy of its own, or may not change it; and
/// whether that is so.
pub(super) fn patiently<T>(start: impl FnOnce() -> T) -> (T, bool) {
    let is_patient = policy() == Some(libc::SCHED_OTHER) && set_policy(libc::SCHED_BATCH);
    let started = start();
    if is_patient {
        set_policy(libc::SCHED_OTHER);
    }
    (started, is_patient)
}

//! Threads that let a server on the same machine finish what it is at.
//!
//! An answer wakes the thread that waits for it, and the kernel may let it go first: before the server, in the middle of its
//! next transaction. From another machine that could not be. Threads of the policy `SCHED_BATCH` have the same share of the
//! processors, and do not interrupt others when they wake. Where something is due at a given time, they might be late for it.

#![allow(unsafe_code, reason = "scheduling policies are in no library that leaves niceness alone")]

/// The policy of this thread.
fn policy() -> libc::c_int {
    // SAFETY: it asks about the calling thread and touches no memory.
    unsafe { libc::sched_getscheduler(0) }
}

/// If it cannot be set, nothing changes.
fn set_policy(policy: libc::c_int) {
    // SAFETY: all fields are numbers; policies without priorities have 0.
    let none = unsafe { std::mem::zeroed::<libc::sched_param>() };
    // SAFETY: `none` lives for the call, which sets the policy of the calling thread.
    let _may_be_refused = unsafe { libc::sched_setscheduler(0, policy, &raw const none) };
}

/// Whether this thread interrupts nobody.
#[cfg(test)]
pub(super) fn is_patient() -> bool {
    policy() == libc::SCHED_BATCH
}

/// Threads that `start` makes interrupt nobody when they wake, if this thread has no policy of its own.
pub(super) fn patiently<T>(start: impl FnOnce() -> T) -> T {
    let is_usual = policy() == libc::SCHED_OTHER;
    if is_usual {
        set_policy(libc::SCHED_BATCH);
    }
    let started = start();
    if is_usual {
        set_policy(libc::SCHED_OTHER);
    }
    started
}

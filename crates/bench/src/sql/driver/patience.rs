//! A scheduling policy that lets a server on the same machine finish what it is doing.
//!
//! An answer wakes the thread that waits for it. The kernel may run that thread first and interrupt
//! the server in the middle of its next transaction, which a client on another machine could not
//! do. Threads with the policy `SCHED_BATCH` get the same share of the processors, and do not
//! interrupt others when they wake. They might be late where something is due at a given time.

#![allow(unsafe_code, reason = "scheduling policies are in no library that leaves niceness alone")]

// The system calls themselves, since musl's functions of these names only return an error.

/// The policy of this thread.
fn policy() -> Option<libc::c_int> {
    // SAFETY: it asks about the calling thread and touches no memory.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    libc::c_int::try_from(policy).ok().filter(|&policy| policy >= 0)
}

/// Sets the policy; `false` if that is refused, and then nothing has changed.
fn set_policy(policy: libc::c_int) -> bool {
    // The kernel reads a priority, which is zero for these policies.
    let priority: libc::c_int = 0;
    // SAFETY: `priority` lives for the call, which sets the policy of the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) == 0 }
}

/// Whether this thread has the policy.
#[cfg(test)]
pub(super) fn is_patient() -> bool {
    policy() == Some(libc::SCHED_BATCH)
}

/// Gives the policy to the threads that `start` makes, unless this thread has another policy or may
/// not change it. Gives whether it did.
pub(super) fn patiently<T>(start: impl FnOnce() -> T) -> (T, bool) {
    let is_patient = policy() == Some(libc::SCHED_OTHER) && set_policy(libc::SCHED_BATCH);
    let started = start();
    if is_patient {
        set_policy(libc::SCHED_OTHER);
    }
    (started, is_patient)
}

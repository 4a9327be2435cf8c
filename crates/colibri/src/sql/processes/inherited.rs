//! Descriptors that a child of `fork` has of its parent.
//!
//! The threads that own them do not run in the child, so nothing there would ever close them, and
//! sockets that the parent closes would stay open for the other side.
#![allow(unsafe_code, reason = "closing what no thread of this process owns")]

use std::os::fd::RawFd;

/// Closes descriptors that belong to threads of the parent. Only a child of `fork` may call it, and
/// whatever owns them is never used, or dropped, in it.
pub(in crate::sql) fn close_in_child(descriptors: impl Iterator<Item = RawFd>) {
    for descriptor in descriptors {
        // SAFETY: the owner of the descriptor is a thread of the parent, or a value of it that the
        // caller promises to forget, so nothing in this process uses it or closes it again.
        unsafe { rustix::io::close(descriptor) };
    }
}

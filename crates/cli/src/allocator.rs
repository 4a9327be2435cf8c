//! The allocator of the program.
//!
//! Sessions go from thread to thread, so much of what one thread allocates another frees. In
//! glibc's allocator the two threads wait for each other; in mimalloc each thread has a list for
//! memory that other threads free. TPC-C on the server costs a tenth less CPU with it
//! (`docs/design/0007-server.md`). Its pages are small ones: huge ones would double what an idle
//! server keeps.
//!
//! Not here: a choice for programs that embed Colibri, whose libraries have no allocator.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Returns free memory that the allocator keeps for later to the system.
#[allow(unsafe_code, reason = "a call of the allocator")]
pub(crate) fn give_memory_back() {
    // SAFETY: any thread may call it at any time; it changes free memory only.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

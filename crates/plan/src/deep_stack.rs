//! The stack that deep statements take.
//!
//! How deep a tree will be is told by the tokens, before there is one: parsing, binding and
//! dropping it take stack for each level. Statements of everyday depth are prepared where they come
//! from; deeper ones on a stack made for them ([`on_deep_stack`]); the deepest are refused. Depth
//! is counted in units that stand for about a kilobyte of stack.

use std::cell::Cell;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use colibri_syntax::too_deep;
use colibri_types::{Result, pulse, pulse::Pulse};

/// Expressions inside each other that the stack of any thread can evaluate.
pub const EXPRESSIONS_MAX: usize = 3_000;
/// The stack for deep statements. Only what is used of it becomes memory.
const DEEP_STACK_BYTES: usize = 128 << 20;

/// How often a thread that waits for such a stack lets others run.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

thread_local! {
    /// Whether this thread was made for a deep statement.
    static ON_DEEP_STACK: Cell<bool> = const { Cell::new(false) };
}

/// Whether the stack at hand fits the deepest statement.
pub fn is_on_deep_stack() -> bool {
    ON_DEEP_STACK.get()
}

/// Runs on a thread whose stack fits the deepest statement. What is made of the tree has to leave
/// it behind.
///
/// That thread only looks whether the statement was cancelled; this one lets others run while it
/// waits.
pub fn on_deep_stack<T: Send>(run: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pulse = pulse::elsewhere();
    let (running, over) = std::sync::mpsc::channel::<()>();
    let run = move || {
        // Dropped at the end, which this thread is told by.
        let _running = running;
        let _at_work = pulse.map(Pulse::begin);
        ON_DEEP_STACK.set(true);
        run()
    };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("deep statement".to_owned()).stack_size(DEEP_STACK_BYTES);
        let Ok(thread) = builder.spawn_scoped(scope, run) else { return Err(too_deep()) };
        while over.recv_timeout(LOOK_AGAIN) == Err(RecvTimeoutError::Timeout) {
            // Whether it was cancelled is for the other thread to say.
            let _ = pulse::check();
        }
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

//! How what has ended is told to JavaScript's thread.
//!
//! Each thread of JavaScript (the main one, and each of `worker_threads`) has one hub: a function
//! that is called with the number of a job and its outcome. The hub does not keep the process
//! alive; `lib/native.js` does, as long as there is something to wait for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use colibri::sql::{Error, Result, SqlState};
use napi::Status;
use napi::bindgen_prelude::{Buffer, FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;

use crate::failure::error_json;
use crate::workers::Lane;

/// A string of JavaScript has at most 2^29 - 24 units.
pub(crate) const STRING_MAX: usize = (1 << 29) - 24;

/// What a job has given.
#[derive(Default)]
pub(crate) struct Outcome {
    /// JSON; empty for nothing.
    pub(crate) text: String,
    pub(crate) bytes: Option<Vec<u8>>,
}

impl Outcome {
    pub(crate) fn json(text: String) -> Self {
        Self { text, bytes: None }
    }
}

/// What is told: the number of a job, whether it succeeded, and its outcome or its error.
struct Told {
    id: u32,
    result: Result<Outcome>,
}

type Args = FnArgs<(u32, bool, String, Option<Buffer>)>;
type Call = ThreadsafeFunction<Told, (), Args, Status, false, true>;

/// Where ends are told.
#[napi]
pub struct Hub {
    call: Arc<Call>,
}

/// A place to tell ends to, which any thread may have.
#[derive(Clone)]
pub(crate) struct Teller(Arc<Call>);

#[napi]
impl Hub {
    /// `told(id, succeeded, json, bytes)` is called when a job has ended.
    #[napi(constructor)]
    pub fn new(told: Function<'_, Args, ()>) -> napi::Result<Self> {
        let call = told.build_threadsafe_function::<Told>().weak::<true>().callee_handled::<false>();
        let call = call.build_callback(|context| {
            let Told { id, result } = context.value;
            let too_long = || Error::new(SqlState("54000"), "a result is longer than a string of JavaScript may be");
            let result = result.and_then(|outcome| match outcome.text.len() {
                0..=STRING_MAX => Ok(outcome),
                _ => Err(too_long()),
            });
            Ok(match result {
                Ok(outcome) => (id, true, outcome.text, outcome.bytes.map(Buffer::from)).into(),
                Err(error) => (id, false, error_json(&error), None).into(),
            })
        })?;
        Ok(Self { call: Arc::new(call) })
    }
}

impl Hub {
    pub(crate) fn teller(&self) -> Teller {
        Teller(Arc::clone(&self.call))
    }

    /// Runs a job on a lane, and tells of its end.
    pub(crate) fn run(&self, lane: &Arc<Lane>, id: u32, job: impl FnOnce() -> Result<Outcome> + Send + 'static) {
        let teller = self.teller();
        lane.push(Box::new(move |has_thread| {
            let result = if has_thread {
                catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|_| Err(Error::internal("a job has panicked")))
            } else {
                Err(Error::new(SqlState("53000"), "the system gives no thread to run this on"))
            };
            teller.tell(id, result);
        }));
    }
}

impl Teller {
    /// Tells of an end. If the thread of JavaScript is gone, nobody is told.
    pub(crate) fn tell(&self, id: u32, result: Result<Outcome>) {
        self.0.call(Told { id, result }, ThreadsafeFunctionCallMode::NonBlocking);
    }
}

//! Tasks that help with long statements of sessions.
//!
//! A statement gives its jobs to tasks of the users' pool: a thread that has nothing else to do
//! takes one. While others wait for threads, the job is in the pool for long work, and its statement
//! goes on with it if no thread takes it there.

use std::sync::Arc;

use colibri_runtime::{Handle, Pool, budget};
use colibri_sql::parallel::{Helpers, Hook, Job, Left};

/// Rows that a job looks at in one step.
const STEP_ROWS: i64 = 512;

/// Helps with as many tasks as there are threads besides the statement's own.
#[derive(Debug)]
pub(super) struct Tasks;

impl Helpers for Tasks {
    fn count(&self) -> usize {
        Handle::try_current().map_or(0, |runtime| runtime.threads() - 1)
    }

    fn help(&self, job: Arc<Job>) {
        if let Some(runtime) = Handle::try_current() {
            drop(runtime.spawn(Pool::User, run(job)));
        }
    }

    fn hook(&self) -> Option<Hook> {
        Some(Arc::new(budget::in_long_step))
    }
}

/// So many waiting tasks are no reason to make room: one of them is the statement that is helped.
const WAITING_MAX: usize = 1;

async fn run(job: Arc<Job>) {
    let mut pool = Pool::User;
    while job.run(STEP_ROWS) == Left::More {
        let wanted = if budget::waiting(Pool::User) > WAITING_MAX { Pool::Batch } else { Pool::User };
        if wanted != pool {
            pool = wanted;
            budget::move_to(pool).await;
        } else {
            budget::yield_if_over().await;
        }
    }
}

//! The control group: answers at once, with rows such as a database would give. All costs of a run
//! against it are those of the generator.

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::sql::target::{Batch, Boxed, Connection, FIRST, Failure, Place, Session, Table, Target};
use crate::sql::workload::Workload;

/// A target that stores nothing.
pub(crate) struct Null {
    workload: Arc<dyn Workload>,
}

impl Null {
    pub(crate) fn new(workload: &Arc<dyn Workload>) -> Self {
        Self { workload: Arc::clone(workload) }
    }
}

impl Target for Null {
    fn name(&self) -> String {
        "null".to_owned()
    }

    fn about(&self) -> Boxed<'_, String> {
        Box::pin(async { "null: answers at once and keeps nothing; the generator's own ceiling".to_owned() })
    }

    fn place(&self) -> Place {
        Place::Nowhere
    }

    fn connect<'a>(&'a self, _statements: &'a [String]) -> Boxed<'a, Result<Session, Failure>> {
        Box::pin(async { Ok(Session::new(Nobody { workload: Arc::clone(&self.workload) })) })
    }

    fn keeps_data(&self) -> bool {
        false
    }
}

struct Nobody {
    workload: Arc<dyn Workload>,
}

impl Connection for Nobody {
    fn poll_run(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<(), Failure>> {
        batch.imitate(|statement, params, answer| {
            if statement.0 >= FIRST {
                self.workload.imitate(statement, params, answer);
            }
        });
        Poll::Ready(Ok(()))
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn query<'a>(&'a mut self, _sql: &'a str) -> Boxed<'a, Result<Table, Failure>> {
        Box::pin(async { Ok(Table::default()) })
    }

    fn copy_begin<'a>(&'a mut self, _sql: &'a str) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }

    fn copy_data<'a>(&'a mut self, _bytes: &'a [u8]) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }

    fn copy_end(&mut self) -> Boxed<'_, Result<u64, Failure>> {
        Box::pin(async { Ok(0) })
    }
}

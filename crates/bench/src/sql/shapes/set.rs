//! What shapes run on: tables, their rows, and the statements on them.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use clap::ValueEnum;

use super::helpdesk::HelpDesk;
use super::introspection::Introspection;
use super::service::Service;
use crate::sql::workload::load::{Data, Dataset};

/// Tables with rows, and statements on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Set {
    /// A service with tenants: values are drawn anew for each run
    Service,
    /// A help desk with a shop, whose statements are written out
    Helpdesk,
    /// What mappers, drivers and tools ask of the catalogue, over a schema of 300 tables
    Introspection,
}

impl Set {
    /// The file of its statements.
    pub(super) fn shapes(self) -> &'static str {
        match self {
            Self::Service => include_str!("service/shapes.sql"),
            Self::Helpdesk => include_str!("helpdesk/shapes.sql"),
            Self::Introspection => include_str!("introspection/shapes.sql"),
        }
    }

    pub(super) fn dataset(self, scale: Scale) -> Arc<dyn Dataset> {
        Arc::new(Scaled { set: self, scale })
    }
}

/// The tables of a set with their rows, at a scale.
struct Scaled {
    set: Set,
    scale: Scale,
}

impl Dataset for Scaled {
    fn name(&self) -> &str {
        match self.set {
            Set::Service => "shapes",
            Set::Helpdesk => "helpdesk",
            Set::Introspection => "introspection",
        }
    }

    fn data(&self) -> Box<dyn Data + '_> {
        match self.set {
            Set::Service => Box::new(Service(self.scale)),
            Set::Helpdesk => Box::new(HelpDesk(self.scale)),
            Set::Introspection => Box::new(Introspection(self.scale)),
        }
    }
}

/// How much data there is, in hundredths of the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale(i64);

impl Scale {
    pub(super) fn new(scale: u32) -> Self {
        Self(100 * i64::from(scale))
    }

    /// To try things out in seconds.
    pub(super) fn miniature() -> Self {
        Self(1)
    }

    /// A count of rows, of which there are `usual` at scale 1.
    pub(super) fn of(self, usual: i64) -> i64 {
        usual * self.0 / 100
    }
}

impl Display for Scale {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 as f64 / 100.0)
    }
}

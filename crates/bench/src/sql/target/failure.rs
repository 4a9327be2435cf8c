//! Failures: why a batch has no answers.

use std::fmt;

/// The code of a call that had no answer in time.
const TIMEOUT: &str = "timeout";

/// What a failure means for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Another transaction was in the way: the same one may succeed if it is tried again.
    Conflict,
    /// The target refused, and would refuse it again.
    Refused,
    /// The connection is gone; nothing was committed.
    Disconnected,
    /// The connection is gone, or gave no answer, while a commit was under way: it may have
    /// happened.
    Unknown,
    /// There was no answer in time, and no commit was under way.
    TimedOut,
}

/// Why a batch failed.
#[derive(Debug, Clone)]
pub(crate) struct Failure(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    kind: Kind,
    /// The five characters of SQLSTATE, or a word if there are none.
    state: String,
    message: String,
}

impl Failure {
    /// The failure for an error of the target with an SQLSTATE code.
    pub(crate) fn sql(state: &str, message: impl Into<String>) -> Self {
        let kind = match state {
            "40001" | "40P01" => Kind::Conflict,
            "40003" => Kind::Unknown,
            // The server is shutting down or starting.
            "57P01" | "57P02" | "57P03" => Kind::Disconnected,
            _ if state.starts_with("08") => Kind::Disconnected,
            _ => Kind::Refused,
        };
        Self(Box::new(Parts { kind, state: state.to_owned(), message: message.into() }))
    }

    /// The connection is gone.
    pub(crate) fn connection(committing: bool, message: impl Into<String>) -> Self {
        let kind = if committing { Kind::Unknown } else { Kind::Disconnected };
        Self(Box::new(Parts { kind, state: "connection".to_owned(), message: message.into() }))
    }

    /// No answer in time.
    pub(crate) fn timed_out(committing: bool, limit: std::time::Duration) -> Self {
        let kind = if committing { Kind::Unknown } else { Kind::TimedOut };
        let message = format!("no answer within {:.1} s", limit.as_secs_f64());
        Self(Box::new(Parts { kind, state: TIMEOUT.to_owned(), message }))
    }

    /// No answer in time, and no other connection got one either.
    pub(crate) fn hangs(limit: std::time::Duration) -> Self {
        let message = format!(
            "the server hangs: it has said nothing for {:.1} s, and did not answer another connection either",
            limit.as_secs_f64()
        );
        Self(Box::new(Parts { kind: Kind::TimedOut, state: TIMEOUT.to_owned(), message }))
    }

    /// An answer that the workload cannot interpret.
    pub(crate) fn answer(message: impl Into<String>) -> Self {
        Self(Box::new(Parts { kind: Kind::Refused, state: "answer".to_owned(), message: message.into() }))
    }

    /// The same failure, with what was being done.
    pub(crate) fn doing(mut self, what: &str) -> Self {
        let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown: String = what.chars().take(120).collect();
        self.0.message = format!("{} ({shown})", self.0.message);
        self
    }

    /// The same failure, if a commit was under way.
    pub(crate) fn while_committing(mut self) -> Self {
        if matches!(self.0.kind, Kind::Disconnected | Kind::TimedOut) {
            self.0.kind = Kind::Unknown;
        }
        self
    }

    /// The same failure, if a part of the work has been committed and the rest will not be.
    pub(crate) fn half_way(mut self) -> Self {
        self.0.kind = Kind::Unknown;
        self
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Whether there was no answer in time.
    pub(crate) fn is_timeout(&self) -> bool {
        self.0.state == TIMEOUT
    }

    /// Whether the target has reported an error and the connection can be used again.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self.0.kind, Kind::Conflict | Kind::Refused)
    }

    /// Whether the target has reached its limit of connections.
    pub(crate) fn is_full(&self) -> bool {
        self.0.state == "53300"
    }

    /// SQLSTATE, or a word.
    pub(crate) fn state(&self) -> &str {
        &self.0.state
    }

    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.state, self.0.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_what_to_do() {
        let kind = |state| Failure::sql(state, "").kind();
        assert_eq!([kind("40001"), kind("40P01"), kind("40003")], [Kind::Conflict, Kind::Conflict, Kind::Unknown]);
        assert_eq!(
            [kind("08006"), kind("57P01"), kind("23505")],
            [Kind::Disconnected, Kind::Disconnected, Kind::Refused]
        );
        assert_eq!(Failure::sql("57P01", "").while_committing().kind(), Kind::Unknown);
        assert_eq!(Failure::sql("40001", "").while_committing().kind(), Kind::Conflict);
        assert_eq!(Failure::connection(true, "").kind(), Kind::Unknown);
        assert_eq!(Failure::sql("23514", "").half_way().kind(), Kind::Unknown);
    }
}

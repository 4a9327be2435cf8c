//! Who a client is.
//!
//! Invariants: a name that is no role takes the same exchange, and fails with the same words, as a wrong password; nothing
//! is said of a role before it is proven.

pub(crate) mod scram;

use std::str::FromStr;

/// How clients prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// Not at all: whoever can connect is who they say they are.
    Trust,
    /// By a password that is never sent: SCRAM-SHA-256.
    Scram,
}

impl Auth {
    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Scram => "scram-sha-256",
        }
    }
}

impl FromStr for Auth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "trust" => Ok(Self::Trust),
            "scram-sha-256" | "scram" => Ok(Self::Scram),
            other => Err(format!("{other:?} is no way to log in: trust or scram-sha-256")),
        }
    }
}

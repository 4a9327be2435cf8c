//! Authentication of clients.
//!
//! Invariants: an unknown name leads to the same exchange and the same message as a wrong password;
//! nothing about a role is disclosed before the login.

pub(crate) mod scram;

use std::str::FromStr;

/// The method of authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// None: any client may log in under any name.
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

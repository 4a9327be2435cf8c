//! Why a server does not start.

use std::io;

use crate::tls::TlsError;

/// Why a server does not start, or ends other than asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An address cannot be understood.
    #[error("{0:?} is no address to listen at: give HOST:PORT, such as 127.0.0.1:5432")]
    Address(String),
    /// The address is in use, or the system refuses it for another reason.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// An address can be reached from other machines, and no method of authentication was chosen.
    #[error(
        "{0} can be reached from elsewhere, and clients would not have to log in: \
         give --auth scram-sha-256, or --auth trust if that is meant"
    )]
    Open(String),
    /// The directory is in use, or damaged, or not one of a server.
    #[error("{0}{hint}", hint = .0.report().hint.as_ref().map_or(String::new(), |hint| format!(". {hint}")))]
    Cluster(#[from] colibri_sql::Error),
    /// The password file holds no password.
    #[error("cannot take a password from {path}: {source}")]
    PasswordFile {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The cluster cannot be joined or changed.
    #[error("{0}")]
    Replication(String),
    /// A node of a cluster was given a key.
    #[error("a server of a cluster cannot encrypt its databases: their log is in etcd")]
    EncryptedNode,
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system refuses something else.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What it says.
        source: io::Error,
    },
}

impl ServeError {
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }
}

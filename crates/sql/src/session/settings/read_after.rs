//! The value of `colibri.read_after`: the token of a commit that reads have to see.

/// What `colibri.read_after` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ReadAfter {
    /// Nothing.
    #[default]
    None,
    /// Reads have to see this transaction of this database.
    Txn { database: u32, txn: u64 },
    /// It is no token.
    Unknown,
}

impl ReadAfter {
    /// Reads `DATABASE/TXN`, as `colibri_commit_token()` gives it: a decimal and a hexadecimal number.
    pub(super) fn of(token: &str) -> Self {
        let parts = token.split_once('/');
        let numbers =
            parts.and_then(|(database, txn)| Some((database.parse().ok()?, u64::from_str_radix(txn, 16).ok()?)));
        match numbers {
            _ if token.is_empty() => Self::None,
            Some((database, txn)) => Self::Txn { database, txn },
            None => Self::Unknown,
        }
    }
}

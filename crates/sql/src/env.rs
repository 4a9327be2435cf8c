//! What a pure function may know of the session that calls it.
//!
//! Functions see values and an [`Env`], nothing else: no catalogue, no transaction. What depends on more than this
//! (sequences, settings, the catalogue's `pg_*` functions) is the planner's and the session's business.

use compact_str::CompactString;

use crate::datetime::Zone;

/// The surroundings of an expression: fixed while one statement runs.
#[derive(Debug, Clone)]
pub struct Env {
    /// When the transaction began, in microseconds since 2000-01-01 00:00 UTC: `now()`.
    pub transaction_us: i64,
    /// When the statement came in, in microseconds since 2000-01-01 00:00 UTC: `statement_timestamp()`.
    pub statement_us: i64,
    /// The session's time zone.
    pub zone: Zone,
    /// Who is logged in.
    pub user: CompactString,
    /// The database's name.
    pub database: CompactString,
    /// The first schema of the search path.
    pub schema: CompactString,
    /// The setting `extra_float_digits`: above 0, the shortest digits that name a float exactly.
    pub extra_float_digits: i32,
}

impl Default for Env {
    fn default() -> Self {
        Self {
            transaction_us: 0,
            statement_us: 0,
            zone: Zone::Utc,
            user: CompactString::const_new("colibri"),
            database: CompactString::const_new("colibri"),
            schema: CompactString::const_new("public"),
            extra_float_digits: 1,
        }
    }
}

/// The wall clock, in microseconds since 2000-01-01 00:00 UTC.
#[must_use]
pub(crate) fn clock_us() -> i64 {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    unix.as_micros() as i64 - crate::datetime::UNIX_EPOCH_TO_2000_US
}

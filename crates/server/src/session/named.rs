//! Names of statements and portals that come by the protocol.

/// Bytes of a name that count, as in PostgreSQL.
const NAME_BYTES_MAX: usize = 63;

/// As much of a name as counts.
pub(super) fn within_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES_MAX)]
}

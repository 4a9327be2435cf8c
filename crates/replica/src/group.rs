//! What a record of the agreed log holds for a replicated database: the records of several commits.
//!
//! ```text
//! 0  1  format, 1
//! 1  7  zero
//! 8     records of commits, as the engine has made them, one behind the other
//! ```
//! Each record says its length, its transaction and, in its checksum, the record before.
//!
//! Invariant: the transactions of a group, and of all groups of a log, ascend without gaps.

use colibri_storage::{CommitRecord, split_records};

/// The format of groups. ON DISK: never renumber.
const FORMAT: u8 = 1;
/// Bytes of a group before its records.
pub(crate) const HEADER_BYTES: usize = 8;

/// The bytes of a group without records.
pub(crate) fn empty() -> Vec<u8> {
    vec![FORMAT, 0, 0, 0, 0, 0, 0, 0]
}

/// The records of a group; gives why it is none, if it is damaged.
pub(crate) fn decode(group: &[u8]) -> Result<Vec<CommitRecord<'_>>, &'static str> {
    let (header, records) = group.split_at_checked(HEADER_BYTES).ok_or("it is shorter than a group's header")?;
    if header[0] != FORMAT {
        return Err("its format is not known to this version");
    }
    let records = split_records(records).map_err(|_| "it ends within the record of a commit")?;
    let ascend = records.windows(2).all(|pair| pair[0].txn.0 + 1 == pair[1].txn.0);
    if ascend { Ok(records) } else { Err("its transactions do not follow each other") }
}

/// The checksum of the last record of a group that this node has made.
pub(crate) fn last_chain(group: &[u8]) -> u64 {
    let records = decode(group).expect("it was made of records");
    records.last().expect("it has a record").chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_group_is_not_understood() {
        assert_eq!(decode(&empty()).unwrap(), []);
        assert!(decode(&empty()[..7]).is_err());
        assert!(decode(&[2, 0, 0, 0, 0, 0, 0, 0]).is_err());
        let mut cut = empty();
        cut.extend_from_slice(&[1; 30]);
        assert!(decode(&cut).is_err());
    }
}

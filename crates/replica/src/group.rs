//! What a record of the agreed log holds for a replicated database: the records of several commits.
//!
//! ```text
//! 0  1  format: 1 as they are, 2 packed
//! 1  3  zero
//! 4  4  packed: bytes of the records before they were packed; else zero
//! 8     records of commits, as the engine has made them, one behind the other; packed: as one
//!       frame of Zstandard
//! ```
//! Integers are little-endian. Each record says its length, its transaction and, in its checksum,
//! the record before.
//!
//! A group is packed if it is long enough and becomes shorter by it. etcd writes every byte twice on
//! each of its machines and sends it to all nodes; packing costs one pass on the leader and one on
//! each node.
//!
//! Invariant: the transactions of a group, and of all groups of a log, ascend without gaps.

use std::borrow::Cow;

use colibri_storage::{CommitRecord, split_records};
use zstd::bulk::{Compressor, Decompressor};

/// The formats of groups. ON DISK: never renumber.
const PLAIN: u8 = 1;
const PACKED: u8 = 2;
/// Bytes of a group before its records.
pub(crate) const HEADER_BYTES: usize = 8;

/// Shorter groups are not packed: what is saved is less than what an append costs anyway. The small
/// groups of simulated histories are packed as well.
const PACKED_BYTES_MIN: usize = if cfg!(test) { 128 } else { 2 << 10 };
/// The fastest of the levels that Zstandard names by small numbers. Level 3 makes the groups of
/// TPC-C no shorter.
const LEVEL: i32 = 1;

/// The bytes of a group without records.
pub(crate) fn empty() -> Vec<u8> {
    vec![PLAIN, 0, 0, 0, 0, 0, 0, 0]
}

/// Packs groups, with memory that is used again. A leader has one.
#[derive(Default)]
pub(crate) struct Packer {
    compressor: Option<Compressor<'static>>,
    packed: Vec<u8>,
}

impl Packer {
    /// The group as it goes into the log: packed, or as it is.
    pub(crate) fn pack<'a>(&'a mut self, group: &'a [u8]) -> &'a [u8] {
        if group.len() < PACKED_BYTES_MIN || self.try_pack(group).is_none() { group } else { &self.packed }
    }

    fn try_pack(&mut self, group: &[u8]) -> Option<()> {
        let records = &group[HEADER_BYTES..];
        let length = u32::try_from(records.len()).ok()?;
        if self.compressor.is_none() {
            self.compressor = Compressor::new(LEVEL).ok();
        }
        // With room for less than the group has, it ends as soon as it is clear that it does not pay.
        let room = group.len() - group.len() / 8;
        self.packed.clear();
        self.packed.extend_from_slice(&[PACKED, 0, 0, 0]);
        self.packed.extend_from_slice(&length.to_le_bytes());
        self.packed.resize(room, 0);
        let bytes = self.compressor.as_mut()?.compress_to_buffer(records, &mut self.packed[HEADER_BYTES..]).ok()?;
        self.packed.truncate(HEADER_BYTES + bytes);
        Some(())
    }
}

/// The records of a group's commits, unpacked; gives why they are none, if the group is damaged.
pub(crate) fn unpack(group: &[u8]) -> Result<Cow<'_, [u8]>, &'static str> {
    let (header, records) = group.split_at_checked(HEADER_BYTES).ok_or("it is shorter than a group's header")?;
    match header[0] {
        PLAIN => Ok(Cow::Borrowed(records)),
        PACKED => {
            let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
            let mut unpacked = Vec::new();
            unpacked.try_reserve_exact(length).map_err(|_| "there is no memory for what it holds")?;
            let mut decompressor = Decompressor::new().map_err(|_| "there is no memory to unpack it")?;
            match decompressor.decompress_to_buffer(records, &mut unpacked) {
                Ok(bytes) if bytes == length => Ok(Cow::Owned(unpacked)),
                _ => Err("it cannot be unpacked"),
            }
        }
        _ => Err("its format is not known to this version"),
    }
}

/// The commits of records that were unpacked; gives why they are none, if they are damaged.
pub(crate) fn decode(records: &[u8]) -> Result<Vec<CommitRecord<'_>>, &'static str> {
    let records = split_records(records).map_err(|_| "it ends within the record of a commit")?;
    let ascend = records.windows(2).all(|pair| pair[0].txn.0 + 1 == pair[1].txn.0);
    if ascend { Ok(records) } else { Err("its transactions do not follow each other") }
}

/// The checksum of the last record of a group that this node has made, and has not packed.
pub(crate) fn last_chain(group: &[u8]) -> u64 {
    let records = decode(&group[HEADER_BYTES..]).expect("it was made of records");
    records.last().expect("it has a record").chain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group without a meaning for the engine.
    fn group(records: &[u8]) -> Vec<u8> {
        let mut group = empty();
        group.extend_from_slice(records);
        group
    }

    #[test]
    fn what_is_no_group_is_not_understood() {
        assert_eq!(*unpack(&empty()).unwrap(), []);
        assert_eq!(decode(&[]).unwrap(), []);
        assert!(unpack(&empty()[..7]).is_err());
        assert!(unpack(&[3, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(decode(&[1; 30]).is_err());
    }

    #[test]
    fn long_groups_are_packed_if_that_helps_and_come_back_whole() {
        let mut packer = Packer::default();
        let mut random = fastrand::Rng::with_seed(1);
        for length in [0, 1, 799, PACKED_BYTES_MIN, 70_000, 3 << 20] {
            let alike: Vec<u8> = (0..length).map(|at| (at / 100 % 7) as u8 + random.u8(0..4)).collect();
            let noise: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            for (records, helps) in [(alike, length >= PACKED_BYTES_MIN), (noise, false)] {
                let plain = group(&records);
                let packed = packer.pack(&plain).to_vec();
                assert_eq!(packed.len() < plain.len(), helps, "{length}");
                assert_eq!(packed[0] == PACKED, helps, "{length}");
                assert_eq!(*unpack(&packed).unwrap(), records, "{length}");
            }
        }
    }

    #[test]
    fn a_damaged_packed_group_is_an_error() {
        let records = vec![7; 10_000];
        let packed = Packer::default().pack(&group(&records)).to_vec();
        assert_eq!(packed[0], PACKED);
        // Of a length that is not true, in both directions, too long for memory included.
        for length in [0_u32, 9_999, 10_001, u32::MAX] {
            let mut wrong = packed.clone();
            wrong[4..8].copy_from_slice(&length.to_le_bytes());
            assert!(unpack(&wrong).is_err(), "{length}");
        }
        for end in 0..packed.len() {
            assert!(unpack(&packed[..end]).is_err(), "{end}");
        }
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..2_000 {
            let mut wrong = packed.clone();
            let at = random.usize(HEADER_BYTES..wrong.len());
            wrong[at] ^= 1 << random.u32(0..8);
            // It may be another content, which the checksums of entries and records refuse; it never panics.
            if let Ok(records) = unpack(&wrong) {
                _ = decode(&records);
            }
        }
    }
}

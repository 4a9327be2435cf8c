//! The keys of a cluster in the coordination service, and the small values under them.
//!
//! ```text
//! /colibri/NAME/
//!   member/<node>          node, address                     under the node's lease
//!   leader/<db>            node, address                     under the node's lease
//!   successor/<db>         node                              under the successor's lease
//!   log/<db>/<position>    an entry (`entry`)                position: 16 hexadecimal digits
//!   trim/<db>              the first position that is left, bytes of the entries before
//!   base/<db>/<node>       position, chain, node, address, transaction, its checksum
//!   open/<db>              nothing                           under the leader's lease
//!   record/<name>          what the record's owner writes
//!   compaction             nothing: its revisions are what counts
//! ```
//! Values other than entries and records are lines of text, the first of which is the format's number, so that
//! an operator can read them with `etcdctl get --prefix /colibri/`.
//!
//! Invariants:
//! 1. Names of databases and clusters are escaped, so that a name never ends a key's part and
//!    two names never share a key.
//! 2. Positions sort as their keys do.

use std::fmt::Write;
use std::ops::Range;

use crate::coordinator::{beginning_with, only};
use crate::entry::{Chain, Point, Position};
use crate::names::{CommitId, Database, Instance, Node, NodeId};

/// The format of the small values. ON DISK: never renumber.
const FORMAT: &str = "1";

/// The keys of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(cluster: &str) -> Self {
        Self { prefix: format!("/colibri/{}", escape(cluster)) }
    }

    pub(crate) fn member(&self, node: &NodeId) -> Vec<u8> {
        format!("{}/member/{node}", self.prefix).into_bytes()
    }

    pub(crate) fn members(&self) -> Range<Vec<u8>> {
        self.range("member/")
    }

    pub(crate) fn leader(&self, db: &Database) -> Vec<u8> {
        format!("{}/leader/{}", self.prefix, escape(&db.0)).into_bytes()
    }

    pub(crate) fn leaders(&self) -> Range<Vec<u8>> {
        self.range("leader/")
    }

    pub(crate) fn successor(&self, db: &Database) -> Vec<u8> {
        format!("{}/successor/{}", self.prefix, escape(&db.0)).into_bytes()
    }

    pub(crate) fn trim(&self, db: &Database) -> Vec<u8> {
        format!("{}/trim/{}", self.prefix, escape(&db.0)).into_bytes()
    }

    pub(crate) fn base(&self, db: &Database, node: &NodeId) -> Vec<u8> {
        format!("{}/base/{}/{node}", self.prefix, escape(&db.0)).into_bytes()
    }

    pub(crate) fn bases(&self, db: &Database) -> Range<Vec<u8>> {
        self.range(&format!("base/{}/", escape(&db.0)))
    }

    pub(crate) fn open(&self, db: &Database) -> Vec<u8> {
        format!("{}/open/{}", self.prefix, escape(&db.0)).into_bytes()
    }

    pub(crate) fn all_open(&self) -> Range<Vec<u8>> {
        self.range("open/")
    }

    pub(crate) fn record(&self, name: &str) -> Vec<u8> {
        format!("{}/record/{}", self.prefix, escape(name)).into_bytes()
    }

    pub(crate) fn records(&self) -> Range<Vec<u8>> {
        self.range("record/")
    }

    pub(crate) fn compaction(&self) -> Vec<u8> {
        format!("{}/compaction", self.prefix).into_bytes()
    }

    pub(crate) fn entry(&self, db: &Database, position: Position) -> Vec<u8> {
        format!("{}/log/{}/{:016x}", self.prefix, escape(&db.0), position.0).into_bytes()
    }

    /// The entries of a database from a position on.
    pub(crate) fn entries_from(&self, db: &Database, position: Position) -> Range<Vec<u8>> {
        self.entry(db, position)..self.entries(db).end
    }

    /// The entries of a database below a position.
    pub(crate) fn entries_below(&self, db: &Database, position: Position) -> Range<Vec<u8>> {
        self.entries(db).start..self.entry(db, position)
    }

    pub(crate) fn entries(&self, db: &Database) -> Range<Vec<u8>> {
        self.range(&format!("log/{}/", escape(&db.0)))
    }

    /// One entry.
    pub(crate) fn only_entry(&self, db: &Database, position: Position) -> Range<Vec<u8>> {
        only(&self.entry(db, position))
    }

    fn range(&self, below: &str) -> Range<Vec<u8>> {
        beginning_with(format!("{}/{below}", self.prefix).as_bytes())
    }
}

/// The position that an entry's key ends with.
pub(crate) fn position_of(key: &[u8]) -> Option<Position> {
    let digits = std::str::from_utf8(key.get(key.len().checked_sub(16)?..)?).ok()?;
    u64::from_str_radix(digits, 16).ok().map(Position)
}

/// The database, or another name, that a key ends with.
pub(crate) fn database_of(key: &[u8]) -> Option<Database> {
    let name = key.rsplit(|&byte| byte == b'/').next()?;
    unescape(std::str::from_utf8(name).ok()?).map(Database)
}

/// Letters, digits, `-`, `_` and `.` stay; each other byte becomes `%` and two digits.
fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for &byte in name.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => escaped.push(char::from(byte)),
            _ => _ = write!(escaped, "%{byte:02x}"),
        }
    }
    escaped
}

fn unescape(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The value of a leader. That of a member begins in the same way.
pub(crate) fn encode_node(node: &Node) -> Vec<u8> {
    format!("{FORMAT}\n{}\n{}\n", node.id, node.address).into_bytes()
}

pub(crate) fn decode_node(value: &[u8]) -> Option<Node> {
    let [id, address] = lines(value)?;
    Some(Node { id: NodeId::new(id).ok()?, address: address.to_owned() })
}

/// The word behind a member that is about to leave, and behind others.
const LEAVING: &str = "leaving";
const STAYING: &str = "staying";

/// The value of a member: behind the node whether it is about to leave, and who has the name.
pub(crate) fn encode_member(node: &Node, instance: Instance, is_leaving: bool) -> Vec<u8> {
    let word = if is_leaving { LEAVING } else { STAYING };
    let Instance { dir, start } = instance;
    [encode_node(node), format!("{word}\n{dir:016x}\n{start:016x}\n").into_bytes()].concat()
}

/// Who has the name. Versions before this one did not say.
pub(crate) fn decode_instance(value: &[u8]) -> Option<Instance> {
    let [_, _, _, dir, start] = lines(value)?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(Instance { dir: number(dir)?, start: number(start)? })
}

/// Whether that is the value of such a member.
pub(crate) fn says_leaving(value: &[u8]) -> bool {
    lines::<3>(value).is_some_and(|[.., word]| word == LEAVING)
}

pub(crate) fn encode_successor(node: &NodeId) -> Vec<u8> {
    format!("{FORMAT}\n{node}\n").into_bytes()
}

pub(crate) fn decode_successor(value: &[u8]) -> Option<NodeId> {
    let [id] = lines(value)?;
    NodeId::new(id).ok()
}

/// Up to where a log was trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrimPoint {
    /// The first entry that is left.
    pub(crate) first: Position,
    /// The bytes of all entries before it.
    pub(crate) bytes_before: u64,
}

impl TrimPoint {
    /// That of a log which was never trimmed.
    pub(crate) const NONE: Self = Self { first: Position::FIRST, bytes_before: 0 };
}

pub(crate) fn encode_trim(trim: TrimPoint) -> Vec<u8> {
    format!("{FORMAT}\n{}\n{}\n", trim.first.0, trim.bytes_before).into_bytes()
}

pub(crate) fn decode_trim(value: &[u8]) -> Option<TrimPoint> {
    let [first, bytes_before] = lines(value)?;
    Some(TrimPoint { first: Position(first.parse().ok()?), bytes_before: bytes_before.parse().ok()? })
}

pub(crate) fn encode_base(node: &Node, covers: Point, commit: Option<CommitId>) -> Vec<u8> {
    let (next, chain) = (covers.next.0, covers.chain.0);
    let mut lines = format!("{FORMAT}\n{next}\n{chain:016x}\n{}\n{}\n", node.id, node.address);
    if let Some(CommitId { txn, chain }) = commit {
        _ = write!(lines, "{txn}\n{chain:016x}\n");
    }
    lines.into_bytes()
}

pub(crate) fn decode_base(value: &[u8]) -> Option<(Node, Point, Option<CommitId>)> {
    let [next, chain, id, address] = lines(value)?;
    let covers = Point { next: Position(next.parse().ok()?), chain: Chain(u64::from_str_radix(chain, 16).ok()?) };
    // Who keeps other things than databases in the log leaves it out.
    let commit = lines::<6>(value).and_then(|[.., txn, chain]| {
        Some(CommitId { txn: txn.parse().ok()?, chain: u64::from_str_radix(chain, 16).ok()? })
    });
    Some((Node { id: NodeId::new(id).ok()?, address: address.to_owned() }, covers, commit))
}

/// The lines behind the format's number. A later version may add lines behind.
fn lines<const N: usize>(value: &[u8]) -> Option<[&str; N]> {
    let mut lines = std::str::from_utf8(value).ok()?.lines();
    (lines.next()? == FORMAT).then_some(())?;
    let mut found = [""; N];
    for line in &mut found {
        *line = lines.next()?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_like_paths_stay_one_part_of_a_key() {
        let keys = Keys::new("a/b");
        for name in ["plain", "a/b", "%2f", "über", "", "two words"] {
            let key = keys.leader(&Database(name.to_owned()));
            assert_eq!(key.iter().filter(|&&byte| byte == b'/').count(), 4, "{name}");
            assert_eq!(database_of(&key), Some(Database(name.to_owned())));
        }
        let (one, other) = (Database("a/b".to_owned()), Database("a%2fb".to_owned()));
        assert_ne!(keys.leader(&one), keys.leader(&other));
    }

    #[test]
    fn entries_sort_as_their_positions_and_apart_from_other_databases() {
        let keys = Keys::new("c");
        let db = Database("d".to_owned());
        let found: Vec<_> = [0, 1, 255, 256, u64::MAX].map(|n| keys.entry(&db, Position(n))).into();
        assert!(found.is_sorted());
        assert!(found.iter().all(|key| keys.entries(&db).contains(key)));
        assert_eq!(position_of(&found[3]), Some(Position(256)));
        assert!(!keys.entries(&db).contains(&keys.entry(&Database("d.".to_owned()), Position(1))));
    }

    #[test]
    fn small_values_come_back_and_other_formats_are_not_understood() {
        let node = Node { id: NodeId::new("n1").unwrap(), address: "h:5432".to_owned() };
        assert_eq!(decode_node(&encode_node(&node)), Some(node.clone()));
        let instance = Instance { dir: 7, start: u64::MAX };
        for is_leaving in [false, true] {
            let member = encode_member(&node, instance, is_leaving);
            assert_eq!((decode_node(&member), decode_instance(&member)), (Some(node.clone()), Some(instance)));
            assert_eq!(says_leaving(&member), is_leaving);
        }
        // As versions before this one have written it.
        let before = [encode_node(&node), b"leaving\n".to_vec()].concat();
        assert!(says_leaving(&before) && !says_leaving(&encode_node(&node)));
        assert_eq!(decode_instance(&before), None);
        let covers = Point { next: Position(7), chain: Chain(0xabc) };
        for commit in [None, Some(CommitId { txn: 12, chain: 0xdef })] {
            assert_eq!(decode_base(&encode_base(&node, covers, commit)), Some((node.clone(), covers, commit)));
        }
        let trim = TrimPoint { first: Position(9), bytes_before: 70 };
        assert_eq!(decode_trim(&encode_trim(trim)), Some(trim));
        assert_eq!(decode_trim(b"2\n9\n70\n"), None);
        assert_eq!(decode_node(b"1\nn1"), None);
    }
}

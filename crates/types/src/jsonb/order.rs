//! The order of `jsonb`, its hash, and its bytes in keys.
//!
//! Null < string < number < boolean < array < object. Arrays and objects of more parts are above
//! those of fewer; else the first part that differs decides, where an object's key stands before
//! its value. As in PostgreSQL, an empty array that is no part of anything is below all.
//!
//! ```text
//! key    := escaped bytes 00, as those of bytea
//! bytes  := 02 null | 03 string 00 | 04 number, as one of numeric | 05 false | 06 true
//!         | 07 count element ... | 08 count (key 00 value) ...       count: u32, big-endian
//!         | 01 the empty array, outermost
//! ```
//! Invariants: the order of the bytes is that of [`compare`]; what compares as equal has equal bytes
//! and an equal hash. Malformed bytes count as null. ON DISK: the bytes of keys may not change.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use super::{JsonbRef, Node};
use crate::numeric::Numeric;
use crate::pulse;

fn node(value: JsonbRef<'_>) -> Node<'_> {
    value.node().unwrap_or(Node::Null)
}

fn rank(node: &Node<'_>) -> u8 {
    match node {
        Node::Null => 0,
        Node::String(_) => 1,
        Node::Number(_) => 2,
        Node::Bool(_) => 3,
        Node::Array(_) => 4,
        Node::Object(_) => 5,
    }
}

/// The order of two documents.
#[must_use]
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (node(JsonbRef::new(a)), node(JsonbRef::new(b)));
    let is_empty = |node: &Node<'_>| matches!(node, Node::Array(list) if list.is_empty());
    match (is_empty(&a), is_empty(&b)) {
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        _ => compare_nodes(a, b),
    }
}

/// The order of two values inside documents.
pub(crate) fn compare_nodes(a: Node<'_>, b: Node<'_>) -> Ordering {
    pulse::note(1);
    match (a, b) {
        (Node::Bool(a), Node::Bool(b)) => a.cmp(&b),
        (Node::Number(a), Node::Number(b)) => a.cmp(&b),
        (Node::String(a), Node::String(b)) => a.cmp(b),
        (Node::Array(a), Node::Array(b)) => a.len().cmp(&b.len()).then_with(|| {
            let pairs = a.iter().zip(b.iter());
            first_difference(pairs.map(|(a, b)| compare_nodes(node(a), node(b))))
        }),
        (Node::Object(a), Node::Object(b)) => a.len().cmp(&b.len()).then_with(|| {
            let pairs = a.iter().zip(b.iter());
            first_difference(pairs.map(|(a, b)| a.0.cmp(b.0).then_with(|| compare_nodes(node(a.1), node(b.1)))))
        }),
        (a, b) => rank(&a).cmp(&rank(&b)),
    }
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Feeds a document to a hasher.
pub fn hash(bytes: &[u8], hasher: &mut impl Hasher) {
    hash_node(node(JsonbRef::new(bytes)), hasher);
}

fn hash_node(value: Node<'_>, hasher: &mut impl Hasher) {
    pulse::note(1);
    hasher.write_u8(rank(&value));
    match value {
        Node::Null => {}
        Node::Bool(value) => hasher.write_u8(u8::from(value)),
        Node::Number(value) => value.hash(hasher),
        Node::String(value) => value.hash(hasher),
        Node::Array(list) => {
            hasher.write_usize(list.len());
            list.iter().for_each(|value| hash_node(node(value), hasher));
        }
        Node::Object(map) => {
            hasher.write_usize(map.len());
            for (key, value) in map.iter() {
                key.hash(hasher);
                hash_node(node(value), hasher);
            }
        }
    }
}

/// Bytes of a key.
type Key = SmallVec<[u8; 32]>;
/// Appends the bytes of a number.
type EncodeNumber = fn(&Numeric, &mut Key);

/// Appends what sorts as documents do, not escaped yet.
pub fn encode_key(bytes: &[u8], number: EncodeNumber, out: &mut Key) {
    match node(JsonbRef::new(bytes)) {
        Node::Array(list) if list.is_empty() => out.push(1),
        value => encode_node(value, number, out),
    }
}

fn encode_node(value: Node<'_>, number: EncodeNumber, out: &mut Key) {
    pulse::note(1);
    match value {
        Node::Null => out.push(2),
        Node::String(text) => {
            out.push(3);
            encode_text(text, out);
        }
        Node::Number(value) => {
            out.push(4);
            number(&value, out);
        }
        Node::Bool(value) => out.push(5 + u8::from(value)),
        Node::Array(list) => {
            out.push(7);
            out.extend_from_slice(&(list.len() as u32).to_be_bytes());
            list.iter().for_each(|value| encode_node(node(value), number, out));
        }
        Node::Object(map) => {
            out.push(8);
            out.extend_from_slice(&(map.len() as u32).to_be_bytes());
            for (key, value) in map.iter() {
                encode_text(key, out);
                encode_node(node(value), number, out);
            }
        }
    }
}

/// No text of JSON has a zero in it.
fn encode_text(text: &str, out: &mut Key) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

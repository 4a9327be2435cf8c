//! Keys and values of the catalogue's space: a byte that says what kind of object it is, and its
//! number; the object as JSON.

use colibri_txn::Key;
use colibri_types::{Error, Result, SqlState};
use serde::{Deserialize, Serialize};

use crate::objects::ObjectId;

/// The key of an object in the catalogue's space.
pub(crate) fn object_key(kind: u8, id: ObjectId) -> Key {
    let mut key = Key::from_slice(&[kind]);
    key.extend_from_slice(&id.to_be_bytes());
    key
}

/// The error for a value that is no object.
pub(crate) fn damaged(what: impl std::fmt::Display) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("the catalogue is damaged: {what}"))
}

/// An object from the value that the space has of it.
pub(crate) fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(damaged)
}

/// The value that the space has of an object.
pub(crate) fn to_json(object: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(object).expect("objects of the catalogue have text keys and finite numbers")
}

//! What the meta pages of an encrypted database have beside: the data key, wrapped, and a tag.
//!
//! ```text
//! 160  4  cipher: 1 for AES-256-GCM-SIV
//! 164 12  nonce   176 32  data key, wrapped   208 16  tag of the wrapping
//! 224 16  tag of the meta page, with zeros in this place, over all but its checksum
//! 240 16  zero
//! ```
//! The rest of a meta page stays readable: page numbers, the length of the file, the transaction.

use std::path::Path;

use crate::encryption::{Cipher, EncryptionKey, TAG_BYTES, WRAPPED_BYTES, Wrapped};
use crate::meta::{AT_SEALING, META_BYTES, SEALING_BYTES};
use crate::page;
use crate::{Error, Result};

// ON DISK: never renumber.
const AT_TAG: usize = AT_SEALING + WRAPPED_BYTES;
const _: () = assert!(AT_TAG == 224 && AT_TAG + TAG_BYTES <= AT_SEALING + SEALING_BYTES);

/// Adds to a meta page what an encrypted database has beside.
pub(crate) fn seal(cipher: &Cipher, slot: u32, bytes: &mut [u8; META_BYTES]) {
    cipher.wrapped().encode(&mut bytes[AT_SEALING..]);
    bytes[AT_TAG..AT_TAG + TAG_BYTES].fill(0);
    let tag = cipher.tag_of(slot, page::txn_of(bytes), &bytes[8..]);
    bytes[AT_TAG..AT_TAG + TAG_BYTES].copy_from_slice(&tag);
    page::seal(bytes);
}

/// Whether a meta page is as [`seal`] has left it.
pub(crate) fn is_authentic(cipher: &Cipher, slot: u32, bytes: &[u8; META_BYTES]) -> bool {
    let mut bytes = *bytes;
    let (mut tag, at) = ([0; TAG_BYTES], AT_TAG..AT_TAG + TAG_BYTES);
    tag.copy_from_slice(&bytes[at.clone()]);
    bytes[at].fill(0);
    cipher.is_tag_of(slot, page::txn_of(&bytes), &bytes[8..], &tag)
}

/// The cipher of the database with these meta pages: those that are intact and say that it is
/// encrypted. `None` if there are none.
pub(crate) fn cipher_of(metas: &[&[u8]], key: Option<&EncryptionKey>, path: &Path) -> Result<Option<Cipher>> {
    if metas.is_empty() {
        return match key {
            Some(_) => Err(Error::NotEncrypted { path: path.into() }),
            None => Ok(None),
        };
    }
    let Some(key) = key else { return Err(Error::KeyMissing { path: path.into() }) };
    // While a key is being replaced, the two pages may have different ones.
    let mut wrapped = metas.iter().filter_map(|meta| Wrapped::decode(&meta[AT_SEALING..]));
    let cipher = wrapped.find_map(|wrapped| Cipher::unlock(&wrapped, key));
    cipher.map(Some).ok_or_else(|| Error::WrongKey { path: path.into() })
}

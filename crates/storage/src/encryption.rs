//! Encryption at rest: keys, and the one cipher that seals pages, meta pages, records of the log and
//! backups.
//!
//! ```text
//! key of the user ──wraps──▶ data key, random, of one database ──seals──▶ pages, records, backups
//!                            wrapped in both meta pages
//! ```
//! The cipher is AES-256-GCM-SIV (RFC 8452). Each thing that is sealed has a place, which gives the
//! nonce and the associated data. So nothing that was sealed for one place is accepted at another.
//! The same place may be sealed twice with different contents: a crash takes transactions, and their
//! numbers come again. This cipher allows that. Who sees both learns whether they are equal, and
//! nothing else.
//!
//! Invariants:
//! 1. Keys are in memory only, which is cleared before it is given back.
//! 2. What is not authentic is an error, and no byte of it is used.
//!
//! Not here: where a key comes from, and where sealed pages lie (`encrypted_disk`).

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use aes_gcm_siv::aead::{AeadInPlace, KeyInit};
use aes_gcm_siv::{Aes256GcmSiv, Nonce, Tag};
use parking_lot::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroizing;

use crate::page::{TxnId, get_u32, put_u32};
use crate::{Error, Result};

/// Bytes of a key.
pub const ENCRYPTION_KEY_BYTES: usize = 32;
/// What sealing adds to the bytes that are sealed.
pub(crate) const TAG_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
/// More than the longest text that is a key: 64 digits with some space around them.
const KEY_TEXT_BYTES_MAX: u64 = 256;

// ON DISK: never renumber.
const AES_256_GCM_SIV: u32 = 1;

/// Where bytes belong that are sealed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// A page of the data file, as of a steady point.
    Page { page: u32, steady: TxnId },
    /// A record of the log, behind the record with this checksum.
    Record { txn: TxnId, chain: u64 },
    /// A page of a backup of the state of a transaction.
    Backup { page: u32, txn: TxnId },
}

impl Place {
    // ON DISK: the labels never change.
    fn nonce_and_label(self) -> ([u8; NONCE_BYTES], [u8; 16]) {
        let (number, txn, label, context) = match self {
            Self::Page { page, steady } => (page, steady, b"COLIBPAG", 0),
            Self::Record { txn, chain } => (0, txn, b"COLIBLOG", chain),
            Self::Backup { page, txn } => (page, txn, b"COLIBKUP", 0),
        };
        let mut with_context = [0; 16];
        with_context[..8].copy_from_slice(label);
        with_context[8..].copy_from_slice(&context.to_le_bytes());
        (nonce(number, txn), with_context)
    }
}

fn nonce(number: u32, txn: TxnId) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[..4].copy_from_slice(&number.to_le_bytes());
    nonce[4..].copy_from_slice(&txn.0.to_le_bytes());
    nonce
}

/// The bytes are not what was sealed for this place with this key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotAuthentic;

/// The key that opens an encrypted database: 32 bytes. Memory that held it is cleared.
#[derive(Clone, PartialEq, Eq)]
pub struct EncryptionKey(Zeroizing<[u8; ENCRYPTION_KEY_BYTES]>);

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionKey(…)")
    }
}

impl EncryptionKey {
    /// A key of these bytes. They should come from a source of randomness, and not from a password.
    #[must_use]
    pub fn new(bytes: [u8; ENCRYPTION_KEY_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// A new key from the system's source of randomness.
    pub fn random() -> Result<Self> {
        let mut key = Self(Zeroizing::new([0; ENCRYPTION_KEY_BYTES]));
        fill_with_random(&mut *key.0)?;
        Ok(key)
    }

    /// The key that bytes hold as users keep keys: 32 bytes, or 64 hexadecimal digits with white
    /// space around them.
    ///
    /// ```
    /// use colibri_storage::EncryptionKey;
    /// let digits = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
    /// assert_eq!(EncryptionKey::parse(digits.as_bytes())?, EncryptionKey::new(std::array::from_fn(|i| i as u8)));
    /// assert!(EncryptionKey::parse(b"a password").is_err());
    /// # Ok::<(), colibri_storage::Error>(())
    /// ```
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut key = Self(Zeroizing::new([0; ENCRYPTION_KEY_BYTES]));
        if let Ok(raw) = <&[u8; ENCRYPTION_KEY_BYTES]>::try_from(bytes) {
            key.0.copy_from_slice(raw);
            return Ok(key);
        }
        let digits = bytes.trim_ascii();
        let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
        let reason = "must be 32 bytes, or 64 hexadecimal digits";
        let wrong = || Error::InvalidOption { option: "encryption_key", reason };
        if digits.len() != 2 * ENCRYPTION_KEY_BYTES {
            return Err(wrong());
        }
        for (byte, pair) in key.0.iter_mut().zip(digits.chunks(2)) {
            *byte = value(pair[0]).zip(value(pair[1])).map(|(high, low)| high << 4 | low).ok_or_else(wrong)?;
        }
        Ok(key)
    }

    /// Reads a key to the end of its source: see [`EncryptionKey::parse`]. `path` names the source in errors.
    pub fn read_from(source: &mut dyn Read, path: &Path) -> Result<Self> {
        // Of this size from the beginning: a vector that grows leaves copies of the key behind.
        let mut bytes = Zeroizing::new([0; KEY_TEXT_BYTES_MAX as usize]);
        let mut length = 0;
        while length < bytes.len() {
            match source.read(&mut bytes[length..]) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("cannot read the key in", path, e)),
            }
        }
        Self::parse(&bytes[..length])
    }

    /// Reads a key from a file: see [`EncryptionKey::parse`]. A file that its group or others can read is
    /// refused, as `ssh` refuses such keys.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut file = File::open(path).map_err(|e| Error::io("cannot open the key in", path, e))?;
        let metadata = file.metadata().map_err(|e| Error::io("cannot look at the key in", path, e))?;
        if metadata.is_file() && metadata.mode() & 0o077 != 0 {
            return Err(Error::KeyFileOpen { path: path.into(), mode: metadata.mode() & 0o777 });
        }
        Self::read_from(&mut file, path)
    }
}

fn fill_with_random(bytes: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Error::io("cannot read from", "the system's source of randomness", e)),
        }
    }
    Ok(())
}

/// The data key of a database, sealed with the key of its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wrapped {
    nonce: [u8; NONCE_BYTES],
    key: [u8; ENCRYPTION_KEY_BYTES],
    tag: [u8; TAG_BYTES],
}

const WRAP_LABEL: &[u8] = b"COLIBKEY";
/// Bytes of [`Wrapped`] where it is stored: the cipher, and its fields.
pub(crate) const WRAPPED_BYTES: usize = 4 + NONCE_BYTES + ENCRYPTION_KEY_BYTES + TAG_BYTES;

impl Wrapped {
    /// Reads what [`Self::encode`] has written: `None` if it is of a cipher that this build does not
    /// know, or of none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (nonce, rest) = bytes[4..WRAPPED_BYTES].split_at(NONCE_BYTES);
        let (key, tag) = rest.split_at(ENCRYPTION_KEY_BYTES);
        (get_u32(bytes, 0) == AES_256_GCM_SIV).then_some(Self {
            nonce: nonce.try_into().ok()?,
            key: key.try_into().ok()?,
            tag: tag.try_into().ok()?,
        })
    }

    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        put_u32(bytes, 0, AES_256_GCM_SIV);
        let (nonce, rest) = bytes[4..WRAPPED_BYTES].split_at_mut(NONCE_BYTES);
        let (key, tag) = rest.split_at_mut(ENCRYPTION_KEY_BYTES);
        nonce.copy_from_slice(&self.nonce);
        key.copy_from_slice(&self.key);
        tag.copy_from_slice(&self.tag);
    }
}

/// Seals and opens what belongs to one database.
pub(crate) struct Cipher {
    data_key: Zeroizing<[u8; ENCRYPTION_KEY_BYTES]>,
    aead: Aes256GcmSiv,
    /// As the meta pages have it from their next writing on.
    wrapped: Mutex<Wrapped>,
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher(…)")
    }
}

impl Cipher {
    /// Of a new database: with a new data key.
    pub(crate) fn create(key: &EncryptionKey) -> Result<Self> {
        let data_key = EncryptionKey::random()?.0;
        let wrapped = wrap(key, &data_key)?;
        Ok(Self::of(data_key, wrapped))
    }

    fn of(data_key: Zeroizing<[u8; ENCRYPTION_KEY_BYTES]>, wrapped: Wrapped) -> Self {
        let aead = Aes256GcmSiv::new((&*data_key).into());
        Self { data_key, aead, wrapped: Mutex::new(wrapped) }
    }

    /// Of an existing database. `None` for a wrong key.
    pub(crate) fn unlock(wrapped: &Wrapped, key: &EncryptionKey) -> Option<Self> {
        let mut data_key = Zeroizing::new(wrapped.key);
        let (nonce, tag): (&Nonce, &Tag) = ((&wrapped.nonce).into(), (&wrapped.tag).into());
        let wrapping = Aes256GcmSiv::new((&*key.0).into());
        wrapping.decrypt_in_place_detached(nonce, WRAP_LABEL, &mut *data_key, tag).ok()?;
        Some(Self::of(data_key, *wrapped))
    }

    /// For a copy of the database, which has the same data key.
    pub(crate) fn same(&self) -> Self {
        Self::of(self.data_key.clone(), self.wrapped())
    }

    /// Whether both have the same data key.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.data_key == other.data_key
    }

    pub(crate) fn wrapped(&self) -> Wrapped {
        *self.wrapped.lock()
    }

    /// Has the database opened by another key from the next writing of its meta pages on.
    pub(crate) fn rewrap(&self, key: &EncryptionKey) -> Result<()> {
        *self.wrapped.lock() = wrap(key, &self.data_key)?;
        Ok(())
    }

    /// Encrypts bytes in their place.
    pub(crate) fn seal(&self, place: Place, bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let (nonce, label) = place.nonce_and_label();
        let sealed = self.aead.encrypt_in_place_detached((&nonce).into(), &label, bytes);
        sealed.expect("pages and records are shorter than the cipher allows").into()
    }

    /// Decrypts bytes in their place. If they are not authentic, their contents mean nothing.
    pub(crate) fn open(
        &self,
        place: Place,
        bytes: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> std::result::Result<(), NotAuthentic> {
        let (nonce, label) = place.nonce_and_label();
        let opened = self.aead.decrypt_in_place_detached((&nonce).into(), &label, bytes, tag.into());
        opened.map_err(|_| NotAuthentic)
    }

    /// The tag of bytes that stay plain.
    pub(crate) fn tag_of(&self, number: u32, txn: TxnId, plain: &[u8]) -> [u8; TAG_BYTES] {
        let nonce = nonce(number, txn);
        let tag = self.aead.encrypt_in_place_detached((&nonce).into(), plain, &mut []);
        tag.expect("meta pages and headers are shorter than the cipher allows").into()
    }

    /// Whether [`Self::tag_of`] gives this tag.
    pub(crate) fn is_tag_of(&self, number: u32, txn: TxnId, plain: &[u8], tag: &[u8; TAG_BYTES]) -> bool {
        let nonce = nonce(number, txn);
        let (nonce, tag): (&Nonce, &Tag) = ((&nonce).into(), tag.into());
        self.aead.decrypt_in_place_detached(nonce, plain, &mut [], tag).is_ok()
    }
}

/// Seals what is put on disk beside the database and does not outlive the process, as temporary files
/// of statements: with a random key that is in memory only.
pub struct TransientCipher {
    aead: Aes256GcmSiv,
    sealed: AtomicU64,
}

impl fmt::Debug for TransientCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TransientCipher(…)")
    }
}

/// What opens bytes that a [`TransientCipher`] has sealed. It is kept in memory, and is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransientSeal {
    number: u64,
    tag: [u8; TAG_BYTES],
}

impl TransientCipher {
    /// With a new key.
    pub fn new() -> Result<Self> {
        let key = EncryptionKey::random()?;
        Ok(Self { aead: Aes256GcmSiv::new((&*key.0).into()), sealed: AtomicU64::new(0) })
    }

    fn nonce(number: u64) -> [u8; NONCE_BYTES] {
        nonce(0, TxnId(number))
    }

    /// Encrypts bytes in their place.
    pub fn seal(&self, bytes: &mut [u8]) -> TransientSeal {
        let number = self.sealed.fetch_add(1, Ordering::Relaxed);
        let nonce = Self::nonce(number);
        let tag = self.aead.encrypt_in_place_detached((&nonce).into(), b"", bytes);
        TransientSeal { number, tag: tag.expect("memory is shorter than the cipher allows").into() }
    }

    /// Decrypts bytes in their place; `false` if they are not what was sealed, and then they mean
    /// nothing.
    #[must_use]
    pub fn open(&self, bytes: &mut [u8], seal: &TransientSeal) -> bool {
        let nonce = Self::nonce(seal.number);
        let opened = self.aead.decrypt_in_place_detached((&nonce).into(), b"", bytes, (&seal.tag).into());
        opened.is_ok()
    }
}

/// Seals a data key with the key of a user.
fn wrap(key: &EncryptionKey, data_key: &[u8; ENCRYPTION_KEY_BYTES]) -> Result<Wrapped> {
    let mut wrapped = Wrapped { nonce: [0; NONCE_BYTES], key: [0; ENCRYPTION_KEY_BYTES], tag: [0; TAG_BYTES] };
    fill_with_random(&mut wrapped.nonce)?;
    // Copied in one step with its encryption: the array holds the plain key for that long only.
    wrapped.key = *data_key;
    let wrapping = Aes256GcmSiv::new((&*key.0).into());
    let tag = wrapping.encrypt_in_place_detached((&wrapped.nonce).into(), WRAP_LABEL, &mut wrapped.key);
    wrapped.tag = tag.expect("a key is shorter than the cipher allows").into();
    Ok(wrapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Place = Place::Page { page: 5, steady: TxnId(7) };

    fn cipher(byte: u8) -> Cipher {
        Cipher::create(&EncryptionKey::new([byte; ENCRYPTION_KEY_BYTES])).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_in_its_place_only() {
        let cipher = cipher(1);
        let mut sealed = *b"some bytes";
        let tag = cipher.seal(PAGE, &mut sealed);
        assert_ne!(&sealed, b"some bytes");
        let opens = |cipher: &Cipher, place, tag| {
            let mut bytes = sealed;
            cipher.open(place, &mut bytes, &tag).map(|()| bytes)
        };
        assert_eq!(opens(&cipher, PAGE, tag), Ok(*b"some bytes"));
        for place in [
            Place::Page { page: 6, steady: TxnId(7) },
            Place::Page { page: 5, steady: TxnId(8) },
            Place::Backup { page: 5, txn: TxnId(7) },
            Place::Record { txn: TxnId(7), chain: 0 },
        ] {
            assert_eq!(opens(&cipher, place, tag), Err(NotAuthentic), "{place:?}");
        }
        assert_eq!(opens(&super::tests::cipher(1), PAGE, tag), Err(NotAuthentic), "another data key");
        assert_eq!(opens(&cipher.same(), PAGE, tag), Ok(*b"some bytes"));
        for bit in 0..8 * TAG_BYTES {
            let mut tag = tag;
            tag[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opens(&cipher, PAGE, tag), Err(NotAuthentic));
        }
    }

    #[test]
    fn a_record_opens_behind_the_record_it_was_written_behind() {
        let cipher = cipher(1);
        let mut sealed = *b"operations";
        let tag = cipher.seal(Place::Record { txn: TxnId(3), chain: 11 }, &mut sealed);
        let mut bytes = sealed;
        assert_eq!(cipher.open(Place::Record { txn: TxnId(3), chain: 12 }, &mut bytes, &tag), Err(NotAuthentic));
        let mut bytes = sealed;
        assert_eq!(cipher.open(Place::Record { txn: TxnId(3), chain: 11 }, &mut bytes, &tag), Ok(()));
        assert_eq!(&bytes, b"operations");
    }

    #[test]
    fn the_data_key_stays_when_the_key_of_the_user_is_replaced() {
        let [first, second] = [1, 2].map(|byte| EncryptionKey::new([byte; ENCRYPTION_KEY_BYTES]));
        let cipher = Cipher::create(&first).unwrap();
        let before = cipher.wrapped();
        cipher.rewrap(&second).unwrap();
        let mut bytes = [0; WRAPPED_BYTES];
        cipher.wrapped().encode(&mut bytes);
        let after = Wrapped::decode(&bytes).unwrap();
        assert_eq!(after, cipher.wrapped());
        assert!(Cipher::unlock(&before, &first).unwrap().is_same(&Cipher::unlock(&after, &second).unwrap()));
        assert!(Cipher::unlock(&after, &first).is_none() && Cipher::unlock(&before, &second).is_none());
        bytes[0] = 2;
        assert_eq!(Wrapped::decode(&bytes), None, "a cipher that is not known");
    }

    /// The vector of RFC 8452, appendix C.2, for a message of eight bytes without associated data.
    #[test]
    fn the_cipher_is_the_one_of_the_standard() {
        let mut key = [0; 32];
        key[0] = 1;
        let aead = Aes256GcmSiv::new((&key).into());
        let mut nonce = [0; NONCE_BYTES];
        nonce[0] = 3;
        let mut bytes = [1, 0, 0, 0, 0, 0, 0, 0];
        let tag = aead.encrypt_in_place_detached((&nonce).into(), b"", &mut bytes).unwrap();
        assert_eq!(bytes, [0xc2, 0xef, 0x32, 0x8e, 0x5c, 0x71, 0xc8, 0x3b]);
        let expected = 0x843122130f7364b761e0b97427e3df28_u128;
        assert_eq!(u128::from_be_bytes(tag.into()), expected);
    }

    #[test]
    fn temporary_bytes_open_with_their_seal_only() {
        let cipher = TransientCipher::new().unwrap();
        let [mut first, mut second] = [*b"the same bytes"; 2];
        let seals = [cipher.seal(&mut first), cipher.seal(&mut second)];
        assert!(first != second && first != *b"the same bytes");
        assert!(!cipher.open(&mut { first }, &seals[1]));
        assert!(!TransientCipher::new().unwrap().open(&mut { first }, &seals[0]));
        assert!(cipher.open(&mut first, &seals[0]) && first == *b"the same bytes");
    }
}

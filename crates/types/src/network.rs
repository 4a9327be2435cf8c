//! Network addresses: `inet`, `cidr`, `macaddr` and `macaddr8`.
//!
//! ```text
//! inet, cidr := family network bits address
//! family     := 02 of version 4, 03 of version 6
//! network    := 4 or 16 bytes: the address, its last bits zero
//! bits       := 1 byte: how many of them are the network's
//! address    := 4 or 16 bytes
//! macaddr    := 6 bytes
//! macaddr8   := 8 bytes
//! ```
//! ON DISK: this is how rows and keys hold the values; the bytes sort as the values do. Damaged bytes
//! are read as the address `0.0.0.0`, or as zeros.

mod mac;
mod read;
mod write;

pub use mac::{Mac, Mac8};

use crate::error::{Error, Result, SqlState};

/// An address and its network: `inet`, or `cidr` if no bit of it is set beyond the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Whether it is of version 6.
    pub is_v6: bool,
    /// How many bits are the network's.
    pub bits: u8,
    /// The address, from the highest bit on; of version 4 the first 32 bits.
    pub value: u128,
}

/// The first `bits` bits.
fn mask(bits: u8) -> u128 {
    if bits == 0 { 0 } else { u128::MAX << (128 - u32::from(bits)) }
}

impl Address {
    /// Bits of an address of its version.
    #[must_use]
    pub fn bits_max(self) -> u8 {
        if self.is_v6 { 128 } else { 32 }
    }

    fn bytes(self) -> usize {
        usize::from(self.bits_max() / 8)
    }

    /// The address in its bytes.
    #[must_use]
    pub fn to_bytes(self) -> Box<[u8]> {
        let length = self.bytes();
        let mut out = Vec::with_capacity(2 + 2 * length);
        out.push(if self.is_v6 { 3 } else { 2 });
        out.extend_from_slice(&self.network().value.to_be_bytes()[..length]);
        out.push(self.bits);
        out.extend_from_slice(&self.value.to_be_bytes()[..length]);
        out.into_boxed_slice()
    }

    /// The address with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let is_v6 = bytes.first() == Some(&3);
        let length = if is_v6 { 16 } else { 4 };
        let mut value = [0; 16];
        let address = bytes.get(2 + length..2 + 2 * length).unwrap_or_default();
        value[..address.len()].copy_from_slice(address);
        let bits = bytes.get(1 + length).copied().unwrap_or(0).min(length as u8 * 8);
        Self { is_v6, bits, value: u128::from_be_bytes(value) }
    }

    /// The first address of its network.
    #[must_use]
    pub fn network(self) -> Self {
        Self { value: self.value & mask(self.bits), ..self }
    }

    /// The last address of its network.
    #[must_use]
    pub fn broadcast(self) -> Self {
        Self { value: self.value | mask(self.bits_max()) & !mask(self.bits), ..self }
    }

    /// The bits of its network.
    #[must_use]
    pub fn netmask(self) -> Self {
        Self { value: mask(self.bits), bits: self.bits_max(), ..self }
    }

    /// The bits that are not its network's.
    #[must_use]
    pub fn hostmask(self) -> Self {
        Self { value: mask(self.bits_max()) & !mask(self.bits), bits: self.bits_max(), ..self }
    }

    /// Whether it has bits that are not its network's.
    #[must_use]
    pub fn is_network(self) -> bool {
        self.network().value == self.value
    }

    /// The same address in a network of so many bits; -1 for all.
    ///
    /// # Errors
    /// 22023 if an address has not so many.
    pub fn with_bits(self, bits: i64) -> Result<Self> {
        let max = self.bits_max();
        match bits {
            -1 => Ok(Self { bits: max, ..self }),
            _ => match u8::try_from(bits).ok().filter(|&bits| bits <= max) {
                Some(bits) => Ok(Self { bits, ..self }),
                None => Err(Error::new(SqlState::BAD_PARAMETER, format!("invalid mask length: {bits}"))),
            },
        }
    }

    fn agrees(self, other: Self, bits: u8) -> bool {
        self.is_v6 == other.is_v6 && (self.value ^ other.value) & mask(bits) == 0
    }

    /// Whether its network is within that of another: the same one, or a part of it.
    #[must_use]
    pub fn is_within(self, other: Self, may_be_same: bool) -> bool {
        (self.bits > other.bits || may_be_same && self.bits == other.bits) && self.agrees(other, other.bits)
    }

    /// Whether its network is within that of another, or the other way round.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.agrees(other, self.bits.min(other.bits))
    }

    /// Two addresses' bits joined.
    ///
    /// # Errors
    /// 22023 if they are of different versions.
    pub fn combined(self, other: Self, name: &str, join: fn(u128, u128) -> u128) -> Result<Self> {
        if self.is_v6 != other.is_v6 {
            let message = format!("cannot {name} inet values of different sizes");
            return Err(Error::new(SqlState::BAD_PARAMETER, message));
        }
        Ok(Self { value: join(self.value, other.value), bits: self.bits.max(other.bits), ..self })
    }

    /// All other bits.
    #[must_use]
    pub fn inverted(self) -> Self {
        Self { value: !self.value & mask(self.bits_max()), ..self }
    }

    fn number(self) -> u128 {
        self.value >> (128 - u32::from(self.bits_max()))
    }

    /// The address so many further on.
    ///
    /// # Errors
    /// 22003 if there is none.
    pub fn plus(self, count: i128) -> Result<Self> {
        let shift = 128 - u32::from(self.bits_max());
        let size = self.number();
        let moved =
            if count < 0 { size.checked_sub(count.unsigned_abs()) } else { size.checked_add(count.unsigned_abs()) };
        let moved = moved.filter(|moved| self.is_v6 || *moved <= u128::from(u32::MAX));
        let moved = moved.ok_or_else(|| Error::new(SqlState::OUT_OF_RANGE, "result is out of range"))?;
        Ok(Self { value: moved << shift, ..self })
    }

    /// How much further on an address is than another.
    ///
    /// # Errors
    /// 22023 if they are of different versions, 22003 if it is too much.
    pub fn minus(self, other: Self) -> Result<i64> {
        if self.is_v6 != other.is_v6 {
            let message = "cannot subtract inet values of different sizes";
            return Err(Error::new(SqlState::BAD_PARAMETER, message));
        }
        let (a, b) = (self.number(), other.number());
        let distance = i128::try_from(a.abs_diff(b)).ok().map(|distance| if a < b { -distance } else { distance });
        distance
            .and_then(|distance| i64::try_from(distance).ok())
            .ok_or_else(|| Error::new(SqlState::OUT_OF_RANGE, "result is out of range"))
    }

    /// The smallest network that has both.
    ///
    /// # Errors
    /// 22023 if they are of different versions.
    pub fn merged(self, other: Self) -> Result<Self> {
        if self.is_v6 != other.is_v6 {
            let message = "cannot merge addresses from different families";
            return Err(Error::new(SqlState::BAD_PARAMETER, message));
        }
        let same = (self.value ^ other.value).leading_zeros() as u8;
        Ok(Self { bits: same.min(self.bits).min(other.bits), ..self }.network())
    }
}

//! Addresses out of texts and out of what clients send.

use super::Address;
use crate::error::{Error, Result, SqlState, too_short};
use crate::types::Type;

impl Address {
    /// Reads an `inet` or a `cidr`.
    ///
    /// # Errors
    /// 22P02 if it is none.
    pub fn parse(ty: Type, text: &str) -> Result<Self> {
        let is_network = ty == Type::Cidr;
        let address = match (text.contains(':'), is_network) {
            (true, _) => v6(text),
            (false, true) => v4_network(text),
            (false, false) => v4(text),
        };
        let wrong = || Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type {ty}: \"{text}\""));
        let address = address.ok_or_else(wrong)?;
        if is_network && !address.is_network() {
            let message = format!("invalid cidr value: \"{text}\"");
            return Err(Error::new(SqlState::BAD_TEXT, message).detail("Value has bits set to right of mask."));
        }
        Ok(address)
    }

    /// Reads what clients send: the family, the network's bits, whether it is a `cidr`, how many
    /// bytes, and these.
    ///
    /// # Errors
    /// 22P03 if it is none.
    pub fn parse_binary(ty: Type, bytes: &[u8]) -> Result<Self> {
        let bad = |what: &str| {
            Err(Error::new(SqlState::BAD_BINARY, format!("invalid {what} in external \"{}\" value", ty.sql_name())))
        };
        let [family, bits, _, length, rest @ ..] = bytes else { return Err(too_short()) };
        let is_v6 = match family {
            2 => false,
            3 => true,
            _ => return bad("address family"),
        };
        let size = if is_v6 { 16 } else { 4 };
        if usize::from(*bits) > size * 8 {
            return bad("bits");
        }
        if usize::from(*length) != size {
            return bad("length");
        }
        let mut value = [0; 16];
        let Some(address) = rest.get(..size) else { return Err(too_short()) };
        if rest.len() > size {
            return Err(Error::new(SqlState::BAD_BINARY, "incorrect binary data format"));
        }
        value[..size].copy_from_slice(address);
        let address = Self { is_v6, bits: *bits, value: u128::from_be_bytes(value) };
        if ty == Type::Cidr && !address.is_network() {
            return Err(Error::new(SqlState::BAD_BINARY, "invalid external \"cidr\" value")
                .detail("Value has bits set to right of mask."));
        }
        Ok(address)
    }
}

/// Up to four octets, and how many bits are the network's if it is said.
fn octets(text: &str) -> Option<(Vec<u8>, Option<u8>)> {
    let (octets, bits) = match text.split_once('/') {
        Some((octets, bits)) => (octets, Some(decimal(bits, 32)?)),
        None => (text, None),
    };
    let octets: Vec<u8> = octets.split('.').map(|octet| decimal(octet, 255)).collect::<Option<_>>()?;
    (octets.len() <= 4).then_some((octets, bits))
}

fn decimal(digits: &str, max: u32) -> Option<u8> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = digits.bytes().try_fold(0_u32, |value, digit| {
        let value = value * 10 + u32::from(digit - b'0');
        (value <= max).then_some(value)
    })?;
    u8::try_from(value).ok()
}

fn of_octets(octets: &[u8], bits: u8) -> Address {
    let mut value = [0; 16];
    value[..octets.len()].copy_from_slice(octets);
    Address { is_v6: false, bits, value: u128::from_be_bytes(value) }
}

/// `10.1.2.3`, `10.1.2.3/16`, `10.1/16`
fn v4(text: &str) -> Option<Address> {
    let (octets, bits) = octets(text)?;
    let bits = match bits {
        Some(bits) => bits,
        None if octets.len() == 4 => 32,
        None => return None,
    };
    (usize::from(bits / 8) <= octets.len()).then(|| of_octets(&octets, bits))
}

/// The same, or fewer octets: how many bits are the network's is then told by its class.
fn v4_network(text: &str) -> Option<Address> {
    let (octets, bits) = match hexadecimal(text) {
        Some(read) => read?,
        None => octets(text)?,
    };
    let bits = match bits {
        Some(bits) => bits,
        None => {
            let by_class = match octets.first()? {
                240.. => 32,
                224.. => 8,
                192.. => 24,
                128.. => 16,
                _ => 8,
            };
            let bits = by_class.max(octets.len() as u8 * 8);
            // Addresses of many hosts.
            if bits == 8 && octets.first() == Some(&224) { 4 } else { bits }
        }
    };
    Some(of_octets(&octets, bits))
}

type Octets = Option<(Vec<u8>, Option<u8>)>;

/// `0xA0B1/16`; `None` if it is not written so.
fn hexadecimal(text: &str) -> Option<Octets> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    if !digits.bytes().next()?.is_ascii_hexdigit() {
        return None;
    }
    let read = || {
        let (digits, bits) = match digits.split_once('/') {
            Some((digits, bits)) => (digits, Some(decimal(bits, 32)?)),
            None => (digits, None),
        };
        let digits: Vec<u8> =
            digits.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
        // An odd one is the upper half of an octet.
        let octets: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or(0)).collect();
        (octets.len() <= 4).then_some((octets, bits))
    };
    Some(read())
}

/// `2001:db8::1/64`, `::ffff:10.1.2.3`
fn v6(text: &str) -> Option<Address> {
    let (text, bits) = match text.split_once('/') {
        Some((address, bits)) => {
            let has_zeros = bits.len() > 1 && bits.starts_with('0');
            (address, if has_zeros { return None } else { decimal(bits, 128)? })
        }
        None => (text, 128),
    };
    // Octets that are missing at the end are zeros. Otherwise what the library reads is
    // PostgreSQL's form.
    let octets = text.rsplit(':').next().unwrap_or_default();
    let missing = match octets.matches('.').count() {
        1 if !octets.ends_with('.') => ".0.0",
        2 if !octets.ends_with('.') => ".0",
        _ => "",
    };
    let address: std::net::Ipv6Addr = format!("{text}{missing}").parse().ok()?;
    Some(Address { is_v6: true, bits, value: u128::from(address) })
}

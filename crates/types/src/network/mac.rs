//! Addresses of devices: six or eight bytes.

use std::fmt::Write;

use crate::error::{Error, Result, SqlState};
use crate::letters::is_blank;
use crate::types::Type;

/// `macaddr`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

/// `macaddr8`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mac8(pub [u8; 8]);

#[cold]
fn bad(ty: Type, text: &str) -> Error {
    Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type {ty}: \"{text}\""))
}

fn write(bytes: &[u8], out: &mut String) {
    for (at, byte) in bytes.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(out, "{}{byte:02x}", if at > 0 { ":" } else { "" });
    }
}

/// The forms of `macaddr`: digits of each octet at most (0 for any number), and what stands behind
/// it.
const FORMS: [(usize, [&str; 6]); 7] = [
    (0, [":", ":", ":", ":", ":", ""]),
    (0, ["-", "-", "-", "-", "-", ""]),
    (2, ["", "", ":", "", "", ""]),
    (2, ["", "", "-", "", "", ""]),
    (2, ["", ".", "", ".", "", ""]),
    (2, ["", "-", "", "-", "", ""]),
    (2, ["", "", "", "", "", ""]),
];

/// Reads hexadecimal digits as C's `scanf` does: behind blanks, a sign and `0x`.
fn octet(rest: &mut &[u8], digits_max: usize) -> Option<u32> {
    let mut text = *rest;
    while text.first().is_some_and(|&byte| is_blank(byte)) {
        text = &text[1..];
    }
    let mut left = if digits_max == 0 { usize::MAX } else { digits_max };
    let mut is_negative = false;
    if let [sign @ (b'+' | b'-'), behind @ ..] = text
        && left > 1
    {
        (is_negative, text, left) = (*sign == b'-', behind, left - 1);
    }
    if let [b'0', b'x' | b'X', digit, ..] = text
        && digit.is_ascii_hexdigit()
        && left > 2
    {
        (text, left) = (&text[2..], left - 2);
    }
    let count = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count().min(left);
    let mut value = 0_u32;
    for &digit in &text[..count] {
        value = value.saturating_mul(16).saturating_add(char::from(digit).to_digit(16)?);
    }
    *rest = &text[count..];
    (count > 0).then_some(if is_negative { value.wrapping_neg() } else { value })
}

fn read_as(text: &[u8], digits_max: usize, marks: &[&str; 6]) -> Option<[u32; 6]> {
    let mut rest = text;
    let mut octets = [0; 6];
    for (value, mark) in octets.iter_mut().zip(marks) {
        *value = octet(&mut rest, digits_max)?;
        rest = rest.strip_prefix(mark.as_bytes())?;
    }
    rest.iter().all(|&byte| is_blank(byte)).then_some(octets)
}

impl Mac {
    /// Reads an address, in any of PostgreSQL's forms.
    ///
    /// # Errors
    /// 22P02 if it is none, 22003 if an octet is too great.
    pub fn parse(text: &str) -> Result<Self> {
        let octets = FORMS.iter().find_map(|(digits, marks)| read_as(text.as_bytes(), *digits, marks));
        let octets = octets.ok_or_else(|| bad(Type::MacAddr, text))?;
        let mut bytes = [0; 6];
        for (byte, octet) in bytes.iter_mut().zip(octets) {
            *byte = u8::try_from(octet).map_err(|_| {
                Error::new(SqlState::OUT_OF_RANGE, format!("invalid octet value in \"macaddr\" value: \"{text}\""))
            })?;
        }
        Ok(Self(bytes))
    }

    /// The address with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.try_into().unwrap_or_default())
    }

    /// Appends the address.
    pub fn write(self, out: &mut String) {
        write(&self.0, out);
    }

    /// The manufacturer's part.
    #[must_use]
    pub fn truncated(self) -> Self {
        let [a, b, c, ..] = self.0;
        Self([a, b, c, 0, 0, 0])
    }

    /// With two bytes in the middle.
    #[must_use]
    pub fn widened(self) -> Mac8 {
        let [a, b, c, d, e, f] = self.0;
        Mac8([a, b, c, 0xff, 0xfe, d, e, f])
    }
}

impl Mac8 {
    /// Reads an address of six or eight octets.
    ///
    /// # Errors
    /// 22P02 if it is none.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || bad(Type::MacAddr8, text);
        let bytes = text.as_bytes();
        let blanks = |from: usize| bytes[from..].iter().take_while(|&&byte| is_blank(byte)).count();
        let mut at = blanks(0);
        let mut octets: Vec<u8> = Vec::with_capacity(8);
        let mut mark = None;
        // A digit that is left over at the end is not looked at.
        while at + 1 < bytes.len() {
            if octets.len() == 8 {
                return Err(wrong());
            }
            let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(wrong);
            octets.push((digit(bytes[at])? * 16 + digit(bytes[at + 1])?) as u8);
            at += 2;
            if let Some(&found @ (b':' | b'-' | b'.')) = bytes.get(at) {
                if *mark.get_or_insert(found) != found {
                    return Err(wrong());
                }
                at += 1;
            }
            if matches!(octets.len(), 6 | 8) && blanks(at.min(bytes.len())) > 0 {
                at += blanks(at);
                if at < bytes.len() {
                    return Err(wrong());
                }
            }
        }
        match octets[..] {
            [a, b, c, d, e, f] => Ok(Mac([a, b, c, d, e, f]).widened()),
            [a, b, c, d, e, f, g, h] => Ok(Self([a, b, c, d, e, f, g, h])),
            _ => Err(wrong()),
        }
    }

    /// The address with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.try_into().unwrap_or_default())
    }

    /// Appends the address.
    pub fn write(self, out: &mut String) {
        write(&self.0, out);
    }

    /// The manufacturer's part.
    #[must_use]
    pub fn truncated(self) -> Self {
        let [a, b, c, ..] = self.0;
        Self([a, b, c, 0, 0, 0, 0, 0])
    }

    /// With the bit set that makes it part of an address of version 6.
    #[must_use]
    pub fn with_seventh_bit(self) -> Self {
        let [a, rest @ ..] = self.0;
        let mut bytes = [a | 2; 8];
        bytes[1..].copy_from_slice(&rest);
        Self(bytes)
    }

    /// Without the two bytes in the middle.
    ///
    /// # Errors
    /// 22003 if these are others.
    pub fn narrowed(self) -> Result<Mac> {
        match self.0 {
            [a, b, c, 0xff, 0xfe, d, e, f] => Ok(Mac([a, b, c, d, e, f])),
            _ => Err(Error::new(SqlState::OUT_OF_RANGE, "macaddr8 data out of range to convert to macaddr").hint(
                "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example \
                 xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr.",
            )),
        }
    }
}

//! `bit(n)` and `bit varying(n)`: strings of bits, as bytes that sort as they do.
//!
//! ```text
//! value := group ...       a byte for each seven bits; the last has one to seven
//! group := the place of its bits among all strings of up to seven, where each stands before those
//!          that it is the beginning of: "" 0, "0" 1, "00" 2, ... "01" 65, ... "1" 128, ... 254
//! ```
//! So values are kept, compared, hashed and put into keys as `bytea` is, and take a seventh more
//! than their bits would. PostgreSQL's binary form is the count of bits and the bits, packed.
//!
//! Invariants: every group but the last has seven bits, and none has no bits. ON DISK: the places of
//! groups never change.

use crate::error::{Error, Result, SqlState, too_short};
use crate::pulse;
use crate::types::{Modifier, Type};
use crate::value::Datum;

/// Bits of a group.
const GROUP: usize = 7;
/// How many strings of up to seven bits there are.
const PLACES: usize = (1 << (GROUP + 1)) - 1;
/// The most bits that `bit(n)` may ask for.
pub const LENGTH_MAX: u64 = 83_886_080;
/// Groups that are gone through in a unit of work.
const GROUPS_PER_UNIT: usize = 8;

/// A group by its place: how many bits, and the bits.
#[derive(Debug, Clone, Copy)]
struct Group {
    count: u8,
    bits: u8,
}

/// The place of a group.
const fn place(count: usize, bits: usize) -> u8 {
    let (mut place, mut at) = (0, 0);
    while at < count {
        // Behind a string stand those that begin with it and a zero, then those with a one.
        place += 1 + (bits >> (count - 1 - at) & 1) * ((1 << (GROUP - at)) - 1);
        at += 1;
    }
    place as u8
}

/// All groups by their places.
const GROUPS: [Group; PLACES] = {
    let mut groups = [Group { count: 0, bits: 0 }; PLACES];
    let mut count = 0;
    while count <= GROUP {
        let mut bits = 0;
        while bits < 1 << count {
            groups[place(count, bits) as usize] = Group { count: count as u8, bits: bits as u8 };
            bits += 1;
        }
        count += 1;
    }
    groups
};

/// The place of every group, by count and bits.
const OF_BITS: [[u8; 1 << GROUP]; GROUP + 1] = {
    let mut table = [[0; 1 << GROUP]; GROUP + 1];
    let mut at = 0;
    while at < PLACES {
        table[GROUPS[at].count as usize][GROUPS[at].bits as usize] = at as u8;
        at += 1;
    }
    table
};

fn group(byte: u8) -> Group {
    GROUPS[usize::from(byte).min(PLACES - 1)]
}

/// A string of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits<'a>(&'a [u8]);

/// A string of bits in the making.
#[derive(Debug, Default)]
pub struct Builder {
    out: Vec<u8>,
    count: usize,
    bits: usize,
}

impl Builder {
    /// For so many bits.
    #[must_use]
    pub fn for_bits(count: usize) -> Self {
        Self { out: Vec::with_capacity(count.div_ceil(GROUP)), count: 0, bits: 0 }
    }

    /// Appends a bit.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub fn push(&mut self, bit: bool) -> Result<()> {
        self.bits = self.bits << 1 | usize::from(bit);
        self.count += 1;
        if self.count == GROUP {
            self.out.push(OF_BITS[GROUP][self.bits]);
            (self.count, self.bits) = (0, 0);
            if self.out.len().is_multiple_of(GROUPS_PER_UNIT) {
                pulse::work(1)?;
            }
        }
        Ok(())
    }

    /// Appends bits.
    ///
    /// # Errors
    /// As [`Builder::push`].
    pub fn extend(&mut self, bits: impl Iterator<Item = bool>) -> Result<()> {
        for bit in bits {
            self.push(bit)?;
        }
        Ok(())
    }

    /// The string.
    #[must_use]
    pub fn finish(mut self) -> Datum {
        if self.count > 0 {
            self.out.push(OF_BITS[self.count][self.bits]);
        }
        Datum::Bytes(self.out.into())
    }
}

impl<'a> Bits<'a> {
    /// The string that bytes are.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How many bits.
    #[must_use]
    pub fn len(self) -> usize {
        match self.0.split_last() {
            Some((&last, rest)) => rest.len() * GROUP + usize::from(group(last).count),
            None => 0,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The bit at a place, counted from 0.
    #[must_use]
    pub fn get(self, at: usize) -> Option<bool> {
        let group = group(*self.0.get(at / GROUP)?);
        let below = usize::from(group.count).checked_sub(at % GROUP + 1)?;
        Some(group.bits >> below & 1 == 1)
    }

    /// All bits, the first first.
    pub fn iter(self) -> impl Iterator<Item = bool> + use<'a> {
        self.0.iter().flat_map(|&byte| {
            let group = group(byte);
            (0..group.count).rev().map(move |below| group.bits >> below & 1 == 1)
        })
    }

    /// The bits from a place on, and at most so many.
    pub fn part(self, from: usize, count: usize) -> impl Iterator<Item = bool> + use<'a> {
        let first = from / GROUP;
        Bits(self.0.get(first..).unwrap_or(&[])).iter().skip(from % GROUP).take(count)
    }

    /// How many bits are set.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub fn count_ones(self) -> Result<i64> {
        pulse::work(self.0.len() / GROUPS_PER_UNIT)?;
        Ok(self.0.iter().map(|&byte| i64::from(group(byte).bits.count_ones())).sum())
    }

    /// What an operation makes of the bits of two strings of the same length.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub fn combined(self, other: Bits<'_>, operation: fn(u8, u8) -> u8) -> Result<Datum> {
        pulse::work(self.0.len() / GROUPS_PER_UNIT)?;
        let both = self.0.iter().zip(other.0).map(|(&a, &b)| {
            let (a, b) = (group(a), group(b));
            let count = usize::from(a.count.min(b.count));
            OF_BITS[count][usize::from(operation(a.bits, b.bits)) & ((1 << count) - 1)]
        });
        Ok(Datum::Bytes(both.collect()))
    }

    /// The string with every bit turned over.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub fn negated(self) -> Result<Datum> {
        self.combined(self, |bits, _| !bits)
    }

    /// With zeros at its end, or cut, to so many bits.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub fn resized(self, count: usize) -> Result<Datum> {
        let mut out = Builder::for_bits(count);
        out.extend(self.iter().chain(std::iter::repeat(false)).take(count))?;
        Ok(out.finish())
    }

    /// Eight bits a byte, the last filled up with zeros.
    #[must_use]
    pub fn packed(self) -> Vec<u8> {
        let mut out = vec![0; self.len().div_ceil(8)];
        for (at, bit) in self.iter().enumerate() {
            out[at / 8] |= u8::from(bit) << (7 - at % 8);
        }
        pulse::note(self.0.len() / GROUPS_PER_UNIT);
        out
    }

    /// The number whose bits they are, at most 64: the last counts one.
    #[must_use]
    pub fn to_u64(self) -> u64 {
        self.iter().fold(0, |number, bit| number << 1 | u64::from(bit))
    }

    /// Appends the text: a digit a bit.
    pub fn write(self, out: &mut String) {
        pulse::note(self.0.len() / GROUPS_PER_UNIT);
        out.reserve(self.len());
        out.extend(self.iter().map(|bit| if bit { '1' } else { '0' }));
    }
}

/// The string of a number's last bits; beyond 64 the sign fills it up.
///
/// # Errors
/// The statement was cancelled.
pub fn of_int(value: i64, count: usize) -> Result<Datum> {
    let mut out = Builder::for_bits(count);
    out.extend((0..count).rev().map(|below| value >> below.min(63) & 1 == 1))?;
    Ok(out.finish())
}

fn wrong_length(length: usize, wanted: usize) -> Error {
    let message = format!("bit string length {length} does not match type bit({wanted})");
    Error::new(SqlState("22026"), message)
}

fn too_long(wanted: usize) -> Error {
    Error::new(SqlState::STRING_TOO_LONG, format!("bit string too long for type bit varying({wanted})"))
}

/// How many bits a modifier asks for.
fn wanted(modifier: Modifier) -> Option<usize> {
    usize::try_from(modifier.0).ok().filter(|&count| count > 0)
}

fn check_length(ty: Type, length: usize, modifier: Modifier) -> Result<()> {
    match wanted(modifier) {
        Some(count) if ty == Type::Bit && length != count => Err(wrong_length(length, count)),
        Some(count) if ty == Type::VarBit && length > count => Err(too_long(count)),
        _ => Ok(()),
    }
}

/// Reads binary digits, perhaps behind `b`, or hexadecimal ones behind `x`.
///
/// # Errors
/// 22P02 for other texts; 22026 and 22001 for lengths that the modifier does not allow.
pub fn parse(ty: Type, modifier: Modifier, text: &str) -> Result<Datum> {
    let (digits, is_hex) = match text.as_bytes().first() {
        Some(b'b' | b'B') => (&text[1..], false),
        Some(b'x' | b'X') => (&text[1..], true),
        _ => (text, false),
    };
    let (radix, width, name) = if is_hex { (16, 4, "hexadecimal") } else { (2, 1, "binary") };
    let length = digits.len() * width;
    check_length(ty, length, modifier)?;
    let mut out = Builder::for_bits(length);
    for digit in digits.chars() {
        let value = digit
            .to_digit(radix)
            .ok_or_else(|| Error::new(SqlState::BAD_TEXT, format!("\"{digit}\" is not a valid {name} digit")))?;
        out.extend((0..width).rev().map(|below| value >> below & 1 == 1))?;
    }
    Ok(out.finish())
}

/// Reads PostgreSQL's binary form.
///
/// # Errors
/// 08P01 if there are too few bytes, 22P03 if they are not of this form.
pub fn parse_binary(bytes: &[u8]) -> Result<Datum> {
    let (count, packed) = bytes.split_first_chunk::<4>().ok_or_else(too_short)?;
    let bad = |message: &str| Error::new(SqlState::BAD_BINARY, message);
    let count =
        usize::try_from(i32::from_be_bytes(*count)).map_err(|_| bad("invalid length in external bit string"))?;
    match packed.len().cmp(&count.div_ceil(8)) {
        std::cmp::Ordering::Less => return Err(too_short()),
        std::cmp::Ordering::Greater => return Err(bad("incorrect binary data format")),
        std::cmp::Ordering::Equal => {}
    }
    let mut out = Builder::for_bits(count);
    out.extend((0..count).map(|at| packed[at / 8] >> (7 - at % 8) & 1 == 1))?;
    Ok(out.finish())
}

/// Appends PostgreSQL's binary form.
pub fn write_binary(bits: Bits<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&(bits.len() as i32).to_be_bytes());
    out.extend_from_slice(&bits.packed());
}

/// Fits a string to the modifier of its type.
///
/// # Errors
/// 22026 and 22001 for lengths that it does not allow, unless the cast is asked for.
pub fn apply_modifier(bytes: Box<[u8]>, ty: Type, modifier: Modifier, is_asked_for: bool) -> Result<Datum> {
    let bits = Bits::new(&bytes);
    let Some(count) = wanted(modifier) else { return Ok(Datum::Bytes(bytes)) };
    let fits = if ty == Type::Bit { bits.len() == count } else { bits.len() <= count };
    if fits {
        return Ok(Datum::Bytes(bytes));
    }
    if !is_asked_for {
        check_length(ty, bits.len(), modifier)?;
    }
    bits.resized(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Box<[u8]> {
        match parse(Type::VarBit, Modifier::NONE, text).unwrap() {
            Datum::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    fn text(bytes: &[u8]) -> String {
        let mut out = String::new();
        Bits::new(bytes).write(&mut out);
        out
    }

    #[test]
    fn places_of_groups_never_change() {
        for (digits, place) in
            [("0", 1), ("00", 2), ("0000000", 7), ("0000001", 8), ("01", 65), ("1", 128), ("1111111", 254)]
        {
            assert_eq!(&*of(digits), [place], "{digits}");
        }
        assert!(of("").is_empty());
        assert_eq!(&*of("11111110"), [254, 1]);
    }

    #[test]
    fn bytes_sort_as_bits_do() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let mut digits =
                || -> String { (0..random.usize(..20)).map(|_| if random.bool() { '1' } else { '0' }).collect() };
            let (a, b) = (digits(), digits());
            // Digits sort as the bits that they show.
            assert_eq!(of(&a).cmp(&of(&b)), a.cmp(&b), "{a} {b}");
            assert_eq!(text(&of(&a)), a);
            assert_eq!(Bits::new(&of(&a)).len(), a.len());
            let mut binary = Vec::new();
            write_binary(Bits::new(&of(&a)), &mut binary);
            assert_eq!(parse_binary(&binary).unwrap(), Datum::Bytes(of(&a)));
            for (at, digit) in a.chars().enumerate() {
                assert_eq!(Bits::new(&of(&a)).get(at), Some(digit == '1'));
            }
            assert_eq!(Bits::new(&of(&a)).get(a.len()), None);
        }
    }

    #[test]
    fn any_bytes_are_some_string() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..10_000 {
            let bytes: Vec<u8> = (0..random.usize(..6)).map(|_| random.u8(..)).collect();
            let bits = Bits::new(&bytes);
            let _ = (bits.len(), bits.packed(), bits.to_u64(), bits.get(random.usize(..50)), bits.count_ones());
            let _ = (bits.negated(), bits.resized(9), text(&bytes));
            let _ = parse_binary(&bytes);
        }
    }
}

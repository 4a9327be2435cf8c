//! `vector` of the extension of that name: lists of reals of 4 bytes, between which there are
//! distances.
//!
//! ```text
//! vector := element element*        1 to 16,000 of them
//! element                           4 bytes, the first one first: the bits of the real with the
//!                                   sign turned, all bits turned if it is negative
//! ```
//! ON DISK: this may not change. The order of the bytes is the order of the elements, one after the
//! other, and of the beginnings of longer vectors before these. Zero has no sign.

use crate::array::Array;
use crate::error::{Error, Result, SqlState};
use crate::float_text;
use crate::pulse;
use crate::types::{Modifier, Type};
use crate::value::Datum;

/// Elements of a vector, at most.
pub const DIMENSIONS_MAX: usize = 16_000;

const ELEMENT_BYTES: usize = 4;
const SIGN: u32 = 1 << 31;
/// Sums that are made side by side.
const LANES: usize = 8;

/// The bytes of a vector.
#[derive(Debug, Clone, Copy)]
pub struct Vector<'a>(&'a [u8]);

fn data_error(message: impl Into<String>) -> Error {
    Error::new(SqlState("22000"), message)
}

/// The error for a sum or a product that is no real.
#[must_use]
pub fn overflow() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "value out of range: overflow")
}

#[inline]
fn encoded(value: f32) -> [u8; ELEMENT_BYTES] {
    // Zero has no sign.
    let bits = (value + 0.0).to_bits();
    (if bits & SIGN == 0 { bits | SIGN } else { !bits }).to_be_bytes()
}

#[inline]
fn decoded(bytes: [u8; ELEMENT_BYTES]) -> f32 {
    let bits = u32::from_be_bytes(bytes);
    f32::from_bits(if bits & SIGN == 0 { !bits } else { bits & !SIGN })
}

fn check_count(count: usize) -> Result<()> {
    match count {
        0 => Err(data_error("vector must have at least 1 dimension")),
        1..=DIMENSIONS_MAX => Ok(()),
        _ => {
            let message = format!("vector cannot have more than {DIMENSIONS_MAX} dimensions");
            Err(Error::new(SqlState::PROGRAM_LIMIT, message))
        }
    }
}

fn check_element(value: f32) -> Result<()> {
    if value.is_nan() {
        return Err(data_error("NaN not allowed in vector"));
    }
    if value.is_infinite() {
        return Err(data_error("infinite value not allowed in vector"));
    }
    Ok(())
}

/// A vector of some elements.
///
/// # Errors
/// 22000 for none, and for what is no finite number; 54000 for too many.
pub fn of_elements(elements: impl ExactSizeIterator<Item = f32>) -> Result<Box<[u8]>> {
    check_count(elements.len())?;
    pulse::work(elements.len())?;
    let mut bytes = Vec::with_capacity(elements.len() * ELEMENT_BYTES);
    for element in elements {
        check_element(element)?;
        bytes.extend_from_slice(&encoded(element));
    }
    Ok(bytes.into())
}

/// Reads `[1, 2.5, 3]`.
///
/// # Errors
/// 22P02 for another form, 22003 for a number that is too large, as [`of_elements`].
pub fn parse(text: &str) -> Result<Box<[u8]>> {
    let wrong = || Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type vector: \"{text}\""));
    let space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    let Some(inner) = text.trim_start_matches(space).strip_prefix('[') else {
        return Err(wrong().detail("Vector contents must start with \"[\"."));
    };
    let Some((inner, rest)) = inner.split_once(']') else { return Err(wrong()) };
    if !rest.trim_matches(space).is_empty() {
        return Err(wrong().detail("Junk after closing right brace."));
    }
    if inner.trim_matches(space).is_empty() {
        return Err(data_error("vector must have at least 1 dimension"));
    }
    let mut elements = Vec::new();
    for part in inner.split(',') {
        pulse::work(8)?;
        check_count(elements.len() + 1)?;
        let part = part.trim_matches(space);
        let element: f32 = part.parse().map_err(|_| wrong())?;
        if element.is_infinite() && part.bytes().any(|byte| byte.is_ascii_digit()) {
            return Err(Error::new(SqlState::OUT_OF_RANGE, format!("\"{part}\" is out of range for type vector")));
        }
        elements.push(element);
    }
    of_elements(elements.into_iter())
}

/// Reads the binary form: the count in 2 bytes, 2 bytes of zero, the reals.
///
/// # Errors
/// 22P03 for another form, as [`of_elements`].
pub fn receive(bytes: &[u8]) -> Result<Box<[u8]>> {
    let bad = || Error::new(SqlState::BAD_BINARY, "incorrect binary data format");
    let (head, reals) = bytes.split_first_chunk::<4>().ok_or_else(bad)?;
    let count = usize::from(u16::from_be_bytes([head[0], head[1]]));
    let unused = i16::from_be_bytes([head[2], head[3]]);
    check_count(count)?;
    if unused != 0 {
        return Err(data_error(format!("expected unused to be 0, not {unused}")));
    }
    let (reals, rest) = reals.as_chunks::<ELEMENT_BYTES>();
    if reals.len() != count || !rest.is_empty() {
        return Err(bad());
    }
    of_elements(reals.iter().map(|bytes| f32::from_be_bytes(*bytes)))
}

/// A vector of the numbers of an array.
///
/// # Errors
/// 22000 for one of several dimensions, 22004 for NULLs, as [`of_elements`].
pub fn of_array(array: &Array) -> Result<Datum> {
    if array.dimensions().len() > 1 {
        return Err(data_error("array must be 1-D"));
    }
    if array.values().iter().any(Datum::is_null) {
        return Err(Error::new(SqlState("22004"), "array must not contain nulls"));
    }
    check_count(array.values().len())?;
    let elements = array.values().iter().map(number_of).collect::<Result<Vec<f64>>>()?;
    of_elements(elements.into_iter().map(|element| element as f32)).map(Datum::Bytes)
}

fn number_of(value: &Datum) -> Result<f64> {
    match value {
        Datum::Int(value) => Ok(*value as f64),
        Datum::Float(value) => Ok(*value),
        Datum::Numeric(value) => Ok(value.to_f64()),
        _ => Err(data_error("unsupported array type")),
    }
}

/// Refuses a vector whose type says another number of dimensions.
///
/// # Errors
/// 22000
pub fn check_modifier(bytes: &[u8], modifier: Modifier) -> Result<()> {
    let (wanted, found) = (modifier.0, Vector::new(bytes).count());
    if wanted >= 0 && wanted as usize != found {
        return Err(data_error(format!("expected {wanted} dimensions, not {found}")));
    }
    Ok(())
}

/// The modifier of `vector(n)`.
///
/// # Errors
/// 22023 for what is no number of dimensions.
pub fn modifier(given: &[String]) -> Result<Modifier> {
    let bad = |message: String| Error::new(SqlState::BAD_PARAMETER, message);
    let [count] = given else { return Err(bad("invalid type modifier".to_owned())) };
    match count.parse::<i32>() {
        Ok(count) if count < 1 => Err(bad("dimensions for type vector must be at least 1".to_owned())),
        Ok(count) if count as usize > DIMENSIONS_MAX => {
            Err(bad(format!("dimensions for type vector cannot exceed {DIMENSIONS_MAX}")))
        }
        Ok(count) => Ok(Modifier(count)),
        Err(_) => Err(bad("invalid type modifier".to_owned())),
    }
}

impl<'a> Vector<'a> {
    /// What has been made by one of the functions above.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How many elements there are.
    #[must_use]
    pub fn count(self) -> usize {
        self.0.len() / ELEMENT_BYTES
    }

    /// The elements.
    pub fn elements(self) -> impl ExactSizeIterator<Item = f32> + use<'a> {
        self.0.as_chunks::<ELEMENT_BYTES>().0.iter().map(|bytes| decoded(*bytes))
    }

    /// Appends the text form.
    pub fn write(self, out: &mut String) {
        out.push('[');
        for (at, element) in self.elements().enumerate() {
            if at > 0 {
                out.push(',');
            }
            float_text::write_float4(element, 1, out);
        }
        out.push(']');
    }

    /// Appends the binary form.
    pub fn write_binary(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.count() as u16).to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        for element in self.elements() {
            out.extend_from_slice(&element.to_be_bytes());
        }
    }

    /// The elements as an array of reals.
    #[must_use]
    pub fn to_array(self) -> Array {
        let values = self.elements().map(|element| Datum::Float(f64::from(element))).collect();
        Array::new(Type::Float4, values)
    }

    /// Refuses two vectors of which one is longer.
    ///
    /// # Errors
    /// 22000
    pub fn expect_as_long(self, other: Self) -> Result<()> {
        self.expect_count(other.count())
    }

    /// Refuses a vector that has not so many elements.
    ///
    /// # Errors
    /// 22000
    pub fn expect_count(self, other: usize) -> Result<()> {
        let one = self.count();
        if one == other {
            return Ok(());
        }
        Err(data_error(format!("different vector dimensions {one} and {other}")))
    }

    /// The sum of what is made of each two elements in the same place, for several such sums.
    ///
    /// # Errors
    /// 22000 if one is longer; the statement was cancelled.
    pub fn sums<const N: usize>(self, other: Self, of: impl Fn(f32, f32) -> [f32; N]) -> Result<[f32; N]> {
        self.expect_as_long(other)?;
        pulse::work(self.count() / 4)?;
        // Independent sums let several elements be dealt with at once.
        let mut sums = [[0_f32; LANES]; N];
        let (left, right) = (self.0.as_chunks::<ELEMENT_BYTES>().0, other.0.as_chunks::<ELEMENT_BYTES>().0);
        let (many, many_right) = (left.as_chunks::<LANES>(), right.as_chunks::<LANES>());
        for (one, other) in many.0.iter().zip(many_right.0) {
            for (lane, (one, other)) in one.iter().zip(other).enumerate() {
                for (sums, part) in sums.iter_mut().zip(of(decoded(*one), decoded(*other))) {
                    sums[lane] += part;
                }
            }
        }
        for (lane, (one, other)) in many.1.iter().zip(many_right.1).enumerate() {
            for (sums, part) in sums.iter_mut().zip(of(decoded(*one), decoded(*other))) {
                sums[lane] += part;
            }
        }
        Ok(sums.map(|lanes| lanes.iter().sum()))
    }

    /// The length of the arrow from the origin.
    #[must_use]
    pub fn norm(self) -> f64 {
        self.elements().map(|element| f64::from(element) * f64::from(element)).sum::<f64>().sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        let mut out = String::new();
        Vector::new(bytes).write(&mut out);
        out
    }

    #[test]
    fn the_order_of_the_bytes_is_that_of_the_elements() {
        let texts = ["[-2]", "[-1,5]", "[-1e-30]", "[0]", "[0,-1]", "[0,1]", "[1e-30]", "[1]", "[1,0]", "[3e38]"];
        let all: Vec<Box<[u8]>> = texts.iter().map(|text| parse(text).unwrap()).collect();
        assert!(all.is_sorted());
        assert_eq!(parse("[-0]").unwrap(), parse("[0]").unwrap());
        assert_eq!(shown(&all[1]), "[-1,5]");
    }

    #[test]
    fn other_forms_are_refused() {
        for (text, state) in [
            ("", "22P02"),
            ("1", "22P02"),
            ("[1", "22P02"),
            ("[1,]", "22P02"),
            ("[,1]", "22P02"),
            ("[1 2]", "22P02"),
            ("[1]x", "22P02"),
            ("[]", "22000"),
            ("[nan]", "22000"),
            ("[Infinity]", "22000"),
            ("[4e38]", "22003"),
        ] {
            assert_eq!(parse(text).unwrap_err().state(), SqlState(state), "{text}");
        }
        assert_eq!(shown(&parse(" [ 1 , 2.5,-3e-2 ] ").unwrap()), "[1,2.5,-0.03]");
    }

    #[test]
    fn sums_of_all_lengths_have_all_elements() {
        for count in 1_u16..40 {
            let bytes = of_elements((0..count).map(f32::from)).unwrap();
            let vector = Vector::new(&bytes);
            let [sum, squares] = vector.sums(vector, |one, other| [one, one * other]).unwrap();
            let count = f32::from(count);
            assert_eq!(sum, count * (count - 1.0) / 2.0);
            assert_eq!(squares, (count - 1.0) * count * (2.0 * count - 1.0) / 6.0);
            let mut binary = Vec::new();
            vector.write_binary(&mut binary);
            assert_eq!(receive(&binary).unwrap(), bytes);
        }
    }
}

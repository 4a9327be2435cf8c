//! `money`: amounts of cents, written as the locale `C` has it: `$1,234.56`, `-$0.05`.
//!
//! A value is a count of cents, and is kept, compared and hashed as a `bigint` is.

use crate::error::{Error, Result, SqlState};
use crate::letters::is_blank;
use crate::numeric::Numeric;

/// Digits behind the point.
const FRACTION_DIGITS: u32 = 2;
/// Cents of a dollar.
const UNIT: i64 = 100;

#[cold]
fn bad_syntax(text: &str) -> Error {
    Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type money: \"{text}\""))
}

#[cold]
fn too_much(text: &str) -> Error {
    Error::new(SqlState::OUT_OF_RANGE, format!("value \"{text}\" is out of range for type money"))
}

/// `22003`
#[cold]
#[must_use]
pub fn out_of_range() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "money out of range")
}

/// Reads an amount, nothing being none: digits with commas anywhere, a point, a dollar sign, and a sign before or behind
/// or parentheses around what is owed. More digits than cents have are rounded.
///
/// # Errors
/// 22P02 for other texts, 22003 for amounts that are too large.
pub fn parse(text: &str) -> Result<i64> {
    let blanks = |text: &'_ str| text.bytes().take_while(|&byte| is_blank(byte)).count();
    let mut rest = text;
    let take = |rest: &mut &str, sign: char| -> bool {
        match rest.strip_prefix(sign) {
            Some(behind) => {
                *rest = behind;
                true
            }
            None => false,
        }
    };
    rest = &rest[blanks(rest)..];
    take(&mut rest, '$');
    rest = &rest[blanks(rest)..];
    let mut negative = take(&mut rest, '-') || take(&mut rest, '(');
    if !negative {
        take(&mut rest, '+');
    }
    rest = &rest[blanks(rest)..];
    take(&mut rest, '$');
    rest = &rest[blanks(rest)..];
    // Counted down from zero, which reaches one amount further than up.
    let (mut cents, mut places, mut point) = (0i64, 0, false);
    let bytes = rest.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'0'..=b'9' if point && places == FRACTION_DIGITS => break,
            b'0'..=b'9' => {
                let next = cents.checked_mul(10).and_then(|cents| cents.checked_sub(i64::from(byte - b'0')));
                cents = next.ok_or_else(|| too_much(text))?;
                places += u32::from(point);
            }
            b'.' if !point => point = true,
            b',' => {}
            _ => break,
        }
        at += 1;
    }
    if let Some(digit @ b'0'..=b'9') = bytes.get(at) {
        if *digit >= b'5' {
            cents = cents.checked_sub(1).ok_or_else(|| too_much(text))?;
        }
        at += bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    }
    for _ in places..FRACTION_DIGITS {
        cents = cents.checked_mul(10).ok_or_else(|| too_much(text))?;
    }
    rest = &rest[at..];
    while let Some(sign) = rest.chars().next() {
        match sign {
            '-' => negative = true,
            ')' | '+' | '$' => {}
            _ if sign.is_ascii() && is_blank(sign as u8) => {}
            _ => return Err(bad_syntax(text)),
        }
        rest = &rest[1..];
    }
    if negative { Ok(cents) } else { cents.checked_neg().ok_or_else(|| too_much(text)) }
}

/// Appends an amount.
pub fn write(cents: i64, out: &mut String) {
    if cents < 0 {
        out.push('-');
    }
    out.push('$');
    let dollars = (cents.unsigned_abs() / UNIT.unsigned_abs()).to_string();
    for (at, digit) in dollars.chars().enumerate() {
        if at > 0 && (dollars.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    let rest = cents.unsigned_abs() % UNIT.unsigned_abs();
    out.push('.');
    out.extend([rest / 10, rest % 10].map(|digit| char::from(b'0' + digit as u8)));
}

/// Whole dollars.
///
/// # Errors
/// 22003 if they are too many.
pub fn of_int(dollars: i64) -> Result<i64> {
    dollars.checked_mul(UNIT).ok_or_else(|| Error::new(SqlState::OUT_OF_RANGE, "bigint out of range"))
}

/// Dollars, rounded to cents.
///
/// # Errors
/// 22003 if they are too many, 0A000 for what is no number.
pub fn of_numeric(dollars: &Numeric) -> Result<i64> {
    if !dollars.is_finite() {
        let what = if dollars.is_nan() { "NaN" } else { "infinity" };
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot convert {what} to bigint")));
    }
    let cents = dollars.mul(&Numeric::from(UNIT))?.to_i64_rounded();
    cents.ok_or_else(|| Error::new(SqlState::OUT_OF_RANGE, "bigint out of range"))
}

/// As dollars.
///
/// # Errors
/// None: every amount is one.
pub fn to_numeric(cents: i64) -> Result<Numeric> {
    Numeric::checked(i128::from(cents), FRACTION_DIGITS)
}

/// A float of cents, rounded half to even.
///
/// # Errors
/// 22003 if they are too many.
pub fn of_float(cents: f64) -> Result<i64> {
    let rounded = cents.round_ties_even();
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
        Ok(rounded as i64)
    } else {
        Err(out_of_range())
    }
}

/// A number up to 999 in words.
fn hundreds(value: u64) -> String {
    const SMALL: [&str; 20] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    const TENS: [&str; 10] = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    let below_hundred = |value: u64| match (value / 10, value % 10) {
        (0 | 1, _) => SMALL[value as usize].to_owned(),
        (tens, 0) => TENS[tens as usize].to_owned(),
        (tens, ones) => format!("{} {}", TENS[tens as usize], SMALL[ones as usize]),
    };
    let (hundred, rest) = (value / 100, value % 100);
    match (hundred, rest) {
        (0, rest) => below_hundred(rest),
        (hundred, 0) => format!("{} hundred", SMALL[hundred as usize]),
        (hundred, rest) if rest % 10 == 0 && rest > 10 => {
            format!("{} hundred {}", SMALL[hundred as usize], below_hundred(rest))
        }
        (hundred, rest) if rest < 20 => format!("{} hundred and {}", SMALL[hundred as usize], below_hundred(rest)),
        (hundred, rest) => format!("{} hundred {}", SMALL[hundred as usize], below_hundred(rest)),
    }
}

/// An amount in English words.
#[must_use]
pub fn words(cents: i64) -> String {
    let (value, mut out) = (cents.unsigned_abs(), String::new());
    if cents < 0 {
        out.push_str("minus ");
    }
    let (dollars, rest) = (value / UNIT.unsigned_abs(), value % UNIT.unsigned_abs());
    for (power, name) in [(5, "quadrillion"), (4, "trillion"), (3, "billion"), (2, "million"), (1, "thousand")] {
        let part = dollars / 1000u64.pow(power) % 1000;
        if part > 0 {
            out.push_str(&hundreds(part));
            out.push(' ');
            out.push_str(name);
            out.push(' ');
        }
    }
    let part = dollars % 1000;
    if part > 0 {
        out.push_str(&hundreds(part));
    }
    if dollars == 0 {
        out.push_str("zero");
    }
    out.push_str(if dollars == 1 { " dollar and " } else { " dollars and " });
    out.push_str(&hundreds(rest));
    out.push_str(if rest == 1 { " cent" } else { " cents" });
    let first = out.chars().next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(out.chars().skip(1)).collect()
}

//! `to_char` of numbers.

use super::{Anchor, Part, Picture};
use crate::error::{Error, Result, SqlState};
use crate::numeric::{Numeric, SCALE_MAX};
use crate::pulse;

/// How wide a number in Roman digits is.
const ROMAN_WIDTH: usize = 15;

fn roman_digits(value: i64) -> String {
    const STEPS: [(i64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..4000).contains(&value) {
        return "#".repeat(ROMAN_WIDTH);
    }
    let mut text = String::new();
    let mut rest = value;
    for (step, letters) in STEPS {
        while rest >= step {
            text.push_str(letters);
            rest -= step;
        }
    }
    text
}

/// The ending of a number that ends in these digits.
fn ordinal(digits: &[u8]) -> &'static str {
    if digits.len() >= 2 && digits[digits.len() - 2] == b'1' {
        return "th";
    }
    match digits.last() {
        Some(b'1') => "st",
        Some(b'2') => "nd",
        Some(b'3') => "rd",
        _ => "th",
    }
}

fn integer_out_of_range() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "integer out of range")
}

/// A number as a picture shows it.
pub(in crate::functions) fn to_char(value: &Numeric, picture: &str) -> Result<String> {
    let form = Picture::parse(picture)?;
    if form.roman {
        if !value.is_finite() {
            let what = if value.is_nan() { "NaN" } else { "infinity" };
            let message = format!("cannot convert {what} to integer");
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let rounded = value.to_i64_rounded().and_then(|value| i32::try_from(value).ok());
        return show(&form, &roman_digits(rounded.ok_or_else(integer_out_of_range)?.into()), None);
    }
    if form.scientific {
        return scientific(value, &form);
    }
    let mut form = form;
    let mut value = value.clone();
    if let Some(shift) = form.shift {
        value = value.mul(&Numeric::from(10i64).power(&Numeric::from(shift.min(100_000) as i64))?)?;
        form.before += shift;
    }
    let value = value.round(form.after.min(SCALE_MAX as usize) as i32)?;
    show_digits(form, &value.abs().to_string(), value.signum() < 0)
}

/// An integer as a picture shows it; `in_floats` if exponents are computed in floats.
pub(in crate::functions) fn integer_to_char(value: i64, in_floats: bool, picture: &str) -> Result<String> {
    let form = Picture::parse(picture)?;
    if form.roman {
        let value =
            if in_floats { value } else { i64::from(i32::try_from(value).map_err(|_| integer_out_of_range())?) };
        return show(&form, &roman_digits(value), None);
    }
    if form.scientific && in_floats {
        return Ok(float_scientific(value as f64, &form));
    }
    to_char(&Numeric::from(value), picture)
}

/// Digits as a picture shows them, filled up with zeros behind the point.
fn show_digits(form: Picture, digits: &str, negative: bool) -> Result<String> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut text = whole.to_owned();
    if form.after > 0 && digits.starts_with(|first: char| first.is_ascii_digit()) {
        text.push('.');
        text.push_str(fraction);
        text.extend(std::iter::repeat_n('0', form.after.saturating_sub(fraction.len())));
    }
    if whole.len() > form.before {
        // It does not fit.
        text = format!("{}.{}", "#".repeat(form.before), "#".repeat(form.after));
    }
    show(&form, &text, Some(negative))
}

/// Writes a number by a picture.
struct Writer<'a> {
    form: &'a Picture,
    number: &'a [u8],
    at: usize,
    /// Blanks before the number.
    blanks: usize,
    /// Places passed.
    place: usize,
    /// How many places there are, but for the blanks' and the point's.
    count: usize,
    /// The last digit that says something, with FM.
    last: Option<usize>,
    negative: bool,
    sign_is_out: bool,
    anchor: Option<Anchor>,
    brackets: bool,
    /// Whether the number has begun.
    in_number: bool,
    /// Whether TH shows anything.
    has_ending: bool,
    out: String,
}

/// Shows the characters of a number (`None` as the sign for Roman digits) by a picture.
fn show(form: &Picture, number: &str, negative: Option<bool>) -> Result<String> {
    let mut plain = form.clone();
    if negative.is_none() {
        // Roman digits know nothing but FM.
        plain = Picture { parts: plain.parts, tight: form.tight, roman: true, ..Picture::default() };
    }
    let form = &plain;
    let negative = negative.unwrap_or(false);
    let bytes = number.as_bytes();
    let has_ending = !form.roman && !negative && !form.point && bytes.first() != Some(&b'#');
    if has_ending
        && form.parts.iter().any(|part| matches!(part, Part::Ordinal(_)))
        && !bytes.last().is_some_and(u8::is_ascii_digit)
    {
        return Err(Error::new(SqlState::BAD_TEXT, format!("\"{number}\" is not a number")));
    }
    let whole = number.find('.').unwrap_or(number.len());
    let blanks = if form.roman { 0 } else { form.before.saturating_sub(whole) };
    let mut anchor = form.sign.map(|(anchor, _)| anchor);
    let (mut brackets, mut sign_is_out) = (form.brackets, false);
    if form.has_loose_sign() {
        sign_is_out = !form.plus || form.minus;
    } else {
        if !negative && form.tight {
            brackets = false;
        }
        sign_is_out |= !negative && form.tight && form.sign.is_none();
        if form.sign == Some((Anchor::Before, form.before)) {
            anchor = Some(Anchor::Behind);
        }
    }
    let mut last = (form.tight && form.point).then(|| number.find('.')).flatten();
    if let Some(point) = last {
        let significant = bytes.iter().rposition(|&byte| byte != b'0').unwrap_or(point).max(point);
        let asked = if form.zeros_end > blanks { (form.zeros_end - blanks).min(bytes.len() - 1) } else { 0 };
        last = Some(significant.max(asked));
    }
    let count = (form.before + form.after) as i64 - 1 + i64::from(!sign_is_out && blanks == 0);
    let mut writer = Writer {
        form,
        number: bytes,
        at: 0,
        blanks,
        place: 0,
        count: count.max(0) as usize,
        last,
        negative,
        sign_is_out,
        anchor,
        brackets,
        in_number: false,
        has_ending,
        out: String::new(),
    };
    if count < 0 {
        // Without any place there is no last one either.
        writer.count = usize::MAX / 2;
    }
    for part in &form.parts {
        pulse::work(10)?;
        writer.part(*part);
    }
    let mut out = writer.out;
    // Behind the digits that a float has, there is nothing.
    if let Some(end) = out.find('\0') {
        out.truncate(end);
    }
    Ok(out)
}

impl Writer<'_> {
    fn part(&mut self, part: Part) {
        let tight = self.form.tight;
        match part {
            Part::Nine | Part::Zero | Part::Point => self.digit(part == Part::Zero),
            Part::Comma | Part::Group => {
                if self.in_number {
                    self.out.push(',');
                } else if !tight {
                    self.out.push(' ');
                }
            }
            Part::Currency => self.out.push(' '),
            Part::Roman(upper) => {
                let text = String::from_utf8_lossy(self.number);
                let text = if upper { text.into_owned() } else { text.to_ascii_lowercase() };
                self.out.push_str(&if tight { text } else { format!("{text:>ROMAN_WIDTH$}") });
            }
            Part::Ordinal(upper) => {
                if self.has_ending {
                    let ending = ordinal(self.number);
                    self.out.push_str(&if upper { ending.to_ascii_uppercase() } else { ending.to_owned() });
                }
            }
            Part::Minus if self.negative => self.out.push('-'),
            Part::Plus if !self.negative && !self.form.roman => self.out.push('+'),
            Part::Minus | Part::Plus => {
                if !tight {
                    self.out.push(' ');
                }
            }
            Part::PlusMinus if self.form.roman => self.out.push('\0'),
            Part::PlusMinus => self.out.push(if self.negative { '-' } else { '+' }),
            Part::Sign | Part::Mark => {}
            Part::Char(c) => self.out.push(c),
        }
    }

    /// Whether the place is that of the zero of `0.1`, which is not shown.
    fn is_blank_zero(&self) -> bool {
        self.form.zeros_from.is_none() && self.at == 0 && self.number.first() == Some(&b'0') && self.form.after != 0
    }

    fn ends_at_point(&self) -> bool {
        self.last.is_some_and(|last| self.number.get(last) == Some(&b'.'))
    }

    fn sign(&mut self) {
        let zero_here = self.form.zeros_from == Some(self.place);
        let begins = self.place >= self.blanks || zero_here;
        if self.sign_is_out || !begins || (self.is_blank_zero() && !self.ends_at_point()) {
            return;
        }
        let shown = match self.anchor {
            Some(Anchor::Before) => Some(if self.negative { "-" } else { "+" }),
            Some(Anchor::Behind) => None,
            None if self.brackets => Some(if self.negative { "<" } else { " " }),
            None if self.negative => Some("-"),
            None => Some(if self.form.tight { "" } else { " " }),
        };
        if let Some(shown) = shown {
            self.out.push_str(shown);
            self.sign_is_out = true;
        }
    }

    fn digit(&mut self, is_zero: bool) {
        if self.form.roman {
            return;
        }
        self.in_number = false;
        self.sign();
        let zeros_begun = self.form.zeros_from.is_some_and(|from| from <= self.place);
        if self.place < self.blanks && !zeros_begun {
            if !self.form.tight {
                self.out.push(' ');
            }
        } else if self.place < self.blanks {
            self.out.push('0');
            self.in_number = true;
        } else {
            let byte = self.number.get(self.at).copied().unwrap_or(0);
            if byte == b'.' {
                self.out.push('.');
            } else if self.last.is_some_and(|last| self.at > last) && !is_zero {
                // A zero that FM leaves out.
            } else if self.is_blank_zero() {
                if !self.form.tight {
                    self.out.push(' ');
                } else if self.ends_at_point() {
                    self.out.push('0');
                }
            } else {
                self.out.push(char::from(byte));
                self.in_number = true;
            }
            self.at += usize::from(self.at < self.number.len());
        }
        let mut end = self.count + usize::from(self.blanks > 0) + usize::from(self.form.point);
        if self.last == Some(self.at) {
            end = self.place;
        }
        if self.place + 1 == end {
            if self.sign_is_out && self.brackets {
                self.out.push(if self.negative { '>' } else { ' ' });
            } else if self.anchor == Some(Anchor::Behind) {
                self.out.push(if self.negative { '-' } else { '+' });
            }
        }
        self.place += 1;
    }
}

fn scientific(value: &Numeric, form: &Picture) -> Result<String> {
    if !value.is_finite() {
        return Ok(no_exponent(form));
    }
    let text = value.abs().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let (first, rest) = digits.split_at(digits.len().min(1));
    // Rounding looks at one digit behind those that are shown.
    let after = form.after.min(SCALE_MAX as usize - 1);
    let rest = &rest[..rest.len().min(after + 1)];
    let exponent = if first.is_empty() { 0 } else { digits.len() as i32 - 1 - fraction.len() as i32 };
    // What is rounded up to 10 stays 10: the exponent is that of the value.
    let shown = Numeric::parse(&format!("0{first}.{rest}"))?.round(after as i32)?;
    let sign = if value.signum() < 0 { '-' } else { ' ' };
    Ok(format!("{sign}{shown}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs()))
}

/// What has no exponent: a sign, a point, an exponent of two digits and its sign.
fn no_exponent(form: &Picture) -> String {
    let mut text = "#".repeat(form.before + form.after + 6);
    text.replace_range(..1, " ");
    text.replace_range(form.before + 1..form.before + 2, ".");
    text
}

/// A float as a picture shows it: rounded as C does, from its exact value, and cut off behind the
/// digits that floats of its type are sure to have, `digits_max`.
pub(in crate::functions) fn float_to_char(value: f64, digits_max: usize, picture: &str) -> Result<String> {
    let mut form = Picture::parse(picture)?;
    if form.roman {
        return show(&form, &roman_digits(value.round_ties_even() as i64), None);
    }
    if form.scientific {
        return Ok(float_scientific(value, &form));
    }
    let mut value = value;
    if let Some(shift) = form.shift {
        value *= 10f64.powi(shift.min(400) as i32);
        form.before += shift;
    }
    let magnitude = |decimals: usize| match value {
        _ if value.is_nan() => "NaN".to_owned(),
        _ if value.is_infinite() => "Infinity".to_owned(),
        _ => format!("{:.decimals$}", value.abs()),
    };
    form.after = form.after.min(digits_max.saturating_sub(magnitude(0).len()));
    let text = magnitude(form.after);
    let whole = text.find('.').unwrap_or(text.len());
    let shown =
        if whole > form.before { format!("{}.{}", "#".repeat(form.before), "#".repeat(form.after)) } else { text };
    show(&form, &shown, Some(value.is_sign_negative() && !value.is_nan()))
}

fn float_scientific(value: f64, form: &Picture) -> String {
    if !value.is_finite() {
        return no_exponent(form);
    }
    let text = format!("{:.*e}", form.after, value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{}{mantissa}e{sign}{exponent:0>2}", if value.is_sign_negative() { '-' } else { ' ' })
}

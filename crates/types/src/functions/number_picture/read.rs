//! `to_number`: texts read by a picture, part by part.

use super::{Anchor, Part, Picture};
use crate::error::{Error, Result, SqlState};
use crate::numeric::Numeric;
use crate::pulse;

/// The text while it is read.
struct Reader<'a> {
    form: &'a Picture,
    text: &'a [u8],
    at: usize,
    /// The sign, a blank as long as there is none.
    sign: u8,
    digits: String,
    before: usize,
    after: usize,
    has_point: bool,
}

impl Reader<'_> {
    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn is_sign(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), Some(b'-' | b'+'))
    }

    fn take_sign(&mut self) {
        self.sign = self.text[self.at];
    }

    fn skip_char(&mut self) {
        self.at += 1;
        while self.byte(0).is_some_and(|byte| byte & 0xc0 == 0x80) {
            self.at += 1;
        }
    }

    /// Skips characters that are no part of a number.
    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            if self.byte(0).is_none_or(|byte| b"0123456789.,+-".contains(&byte)) {
                return;
            }
            self.skip_char();
        }
    }

    /// Reads what stands in a digit's or the point's place. Passing the place itself is up to the
    /// caller.
    fn digit(&mut self, is_digit: bool) {
        if self.byte(0) == Some(b' ') {
            self.at += 1;
        }
        let Some(byte) = self.byte(0) else { return };
        if self.sign == b' ' && is_digit && self.before + self.after == 0 {
            let anchored = matches!(self.form.sign, Some((Anchor::Before, _)));
            if self.is_sign(0) || (!anchored && self.form.brackets && byte == b'<') {
                self.sign = if byte == b'+' { b'+' } else { b'-' };
                self.at += 1;
            }
        }
        let Some(byte) = self.byte(0) else { return };
        let mut was_read = false;
        if byte.is_ascii_digit() {
            if self.has_point && self.after == self.form.after {
                return;
            }
            self.digits.push(char::from(byte));
            *(if self.has_point { &mut self.after } else { &mut self.before }) += 1;
            was_read = true;
        } else if self.form.point && !self.has_point && byte == b'.' {
            self.digits.push('.');
            self.has_point = true;
            was_read = true;
        }
        if self.sign == b' ' && self.before + self.after > 0 {
            self.sign_behind(was_read);
        }
    }

    /// A sign behind the number: S stands right behind it, MI and PL anywhere.
    fn sign_behind(&mut self, was_read: bool) {
        let ends = self.byte(1).is_some_and(|byte| !byte.is_ascii_digit());
        if self.form.sign.is_some() && was_read && ends {
            if self.is_sign(1) {
                self.at += 1;
                self.take_sign();
            }
        } else if !was_read && self.form.sign.is_none() && self.form.has_loose_sign() && self.is_sign(0) {
            self.take_sign();
        }
    }

    fn part(&mut self, part: Part) {
        match part {
            Part::Nine | Part::Zero | Part::Point => {
                self.digit(part != Part::Point);
                self.at += 1;
            }
            // With FM, nothing is skipped here.
            Part::Comma | Part::Group => self.at += usize::from(!self.form.tight && self.byte(0) == Some(b',')),
            Part::Currency => self.skip(1),
            Part::Ordinal(_) if !self.form.point => self.skip(2),
            Part::Minus | Part::Plus | Part::PlusMinus => {
                let fits = match self.byte(0) {
                    Some(b'-') => part != Part::Plus,
                    Some(b'+') => part != Part::Minus,
                    _ => false,
                };
                if fits {
                    self.take_sign();
                    self.at += 1;
                } else {
                    self.skip(1);
                }
            }
            Part::Char(_) => self.skip_char(),
            Part::Ordinal(_) | Part::Sign | Part::Roman(_) | Part::Mark => {}
        }
    }
}

/// The number that a text shows by a picture; `None` without a picture.
pub(in crate::functions) fn to_number(text: &str, picture: &str) -> Result<Option<Numeric>> {
    if picture.is_empty() {
        return Ok(None);
    }
    let form = Picture::parse(picture)?;
    for (is_there, word) in [(form.scientific, "EEEE"), (form.roman, "RN")] {
        if is_there {
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("\"{word}\" not supported for input")));
        }
    }
    let mut reader = Reader {
        form: &form,
        text: text.as_bytes(),
        at: 0,
        sign: b' ',
        digits: String::new(),
        before: 0,
        after: 0,
        has_point: false,
    };
    for part in &form.parts {
        pulse::work(10)?;
        if reader.byte(0).is_none() {
            break;
        }
        reader.part(*part);
    }
    let digits = reader.digits.strip_suffix('.').unwrap_or(&reader.digits);
    if digits.is_empty() {
        let shown = format!("{}{digits}", char::from(reader.sign));
        return Err(Error::new(SqlState::BAD_TEXT, format!("invalid input syntax for type numeric: \"{shown}\"")));
    }
    let value = Numeric::parse(digits)?;
    let places = form.before + form.shift.unwrap_or(0) + reader.after;
    let value = value.with_precision(places.min(1000) as u16, reader.after as i16)?;
    let value = if reader.sign == b'-' { value.negate() } else { value };
    match form.shift {
        Some(shift) => Ok(Some(value.mul(&Numeric::from(10i64).power(&Numeric::from(-(shift.min(30) as i64)))?)?)),
        None => Ok(Some(value)),
    }
}

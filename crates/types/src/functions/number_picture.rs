//! The pictures of `to_char` and `to_number`: `FM999,990.00`, `S9999`, `999D99PR`. A picture is
//! read here; `show` writes numbers by it, `read` reads them.

mod read;
mod show;

pub(super) use read::to_number;
pub(super) use show::{float_to_char, integer_to_char, to_char};

use crate::error::{Error, Result, SqlState};
use crate::pulse;

/// A part of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Nine,
    Zero,
    /// `.` and `D`.
    Point,
    /// `,`
    Comma,
    /// `G`
    Group,
    /// `S`
    Sign,
    /// `MI`
    Minus,
    /// `PL`
    Plus,
    /// `SG`
    PlusMinus,
    /// `L`
    Currency,
    /// `TH` (true) or `th`
    Ordinal(bool),
    /// `RN` (true) or `rn`
    Roman(bool),
    /// `V`, `FM`, `PR` and others that stand for no place.
    Mark,
    Char(char),
}

/// Where S wants the sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Before,
    Behind,
}

/// A picture, read.
#[derive(Debug, Clone, Default)]
struct Picture {
    parts: Vec<Part>,
    /// Places before the point and behind it.
    before: usize,
    after: usize,
    /// V, and places behind it.
    shift: Option<usize>,
    /// FM: no blanks.
    tight: bool,
    roman: bool,
    scientific: bool,
    /// PR
    brackets: bool,
    /// B before any place.
    blank: bool,
    point: bool,
    minus: bool,
    plus: bool,
    /// S, and how many places stand before it.
    sign: Option<(Anchor, usize)>,
    /// The place of the first 0 before the point, counted from 0.
    zeros_from: Option<usize>,
    /// Places up to the last 0.
    zeros_end: usize,
}

fn bad(message: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, message)
}

/// The keywords, longer ones before their beginnings.
const KEYWORDS: [&str; 20] =
    ["EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "SP", "TH", "S", "B", "C", "D", "G", "L", "V", ",", ".", "0", "9"];

/// The keyword that a picture begins with, and whether it is written in upper case; mixed cases are
/// none.
fn leading_keyword(text: &str) -> Option<(&'static str, bool)> {
    KEYWORDS.iter().find_map(|keyword| {
        let written = text.get(..keyword.len())?;
        let lower = written.eq_ignore_ascii_case(keyword) && written == written.to_ascii_lowercase();
        (written == *keyword || lower).then_some((*keyword, written == *keyword))
    })
}

impl Picture {
    fn parse(picture: &str) -> Result<Self> {
        let mut out = Self::default();
        let mut rest = picture;
        while !rest.is_empty() {
            pulse::work(20)?;
            if let Some((keyword, is_upper)) = leading_keyword(rest) {
                rest = &rest[keyword.len()..];
                let part = out.keyword(keyword, is_upper)?;
                out.parts.push(part);
            } else if let Some(body) = rest.strip_prefix('"') {
                let mut chars = body.chars();
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => out.parts.push(Part::Char(chars.next().unwrap_or('\\'))),
                        c => out.parts.push(Part::Char(c)),
                    }
                }
                rest = chars.as_str();
            } else {
                // Outside of quotes a backslash stands for itself, unless a quote follows.
                if rest.starts_with("\\\"") {
                    rest = &rest[1..];
                }
                let mut chars = rest.chars();
                out.parts.extend(chars.next().map(Part::Char));
                rest = chars.as_str();
            }
        }
        Ok(out)
    }

    fn has_loose_sign(&self) -> bool {
        self.minus || self.plus
    }

    fn refuse_sign(&self, word: &str) -> Result<()> {
        if self.sign.is_some() { Err(bad(&format!("cannot use \"S\" and \"{word}\" together"))) } else { Ok(()) }
    }

    fn keyword(&mut self, keyword: &str, is_upper: bool) -> Result<Part> {
        if self.scientific && keyword != "EEEE" {
            return Err(bad("\"EEEE\" must be the last pattern used"));
        }
        match keyword {
            "9" | "0" if self.brackets => return Err(bad(&format!("\"{keyword}\" must be ahead of \"PR\""))),
            "9" => {
                match &mut self.shift {
                    Some(shift) => *shift += 1,
                    None if self.point => self.after += 1,
                    None => self.before += 1,
                }
                return Ok(Part::Nine);
            }
            "0" => {
                if !self.point && self.zeros_from.is_none() {
                    self.zeros_from = Some(self.before);
                }
                *(if self.point { &mut self.after } else { &mut self.before }) += 1;
                self.zeros_end = self.before + self.after;
                return Ok(Part::Zero);
            }
            "." | "D" => {
                if self.point {
                    return Err(bad("multiple decimal points"));
                }
                if self.shift.is_some() {
                    return Err(bad("cannot use \"V\" and decimal point together"));
                }
                self.point = true;
                return Ok(Part::Point);
            }
            "S" => {
                if self.sign.is_some() {
                    return Err(bad("cannot use \"S\" twice"));
                }
                if self.has_loose_sign() || self.brackets {
                    return Err(bad("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
                }
                let anchor = if self.point { Anchor::Behind } else { Anchor::Before };
                self.sign = Some((anchor, self.before));
                return Ok(Part::Sign);
            }
            "MI" | "PL" | "SG" => {
                self.refuse_sign(keyword)?;
                self.minus |= keyword != "PL";
                self.plus |= keyword != "MI";
                return Ok(match keyword {
                    "MI" => Part::Minus,
                    "PL" => Part::Plus,
                    _ => Part::PlusMinus,
                });
            }
            _ => {}
        }
        self.mark(keyword, is_upper)
    }

    fn mark(&mut self, keyword: &str, is_upper: bool) -> Result<Part> {
        Ok(match keyword {
            "," => Part::Comma,
            "G" => Part::Group,
            "L" => Part::Currency,
            "TH" => Part::Ordinal(is_upper),
            "RN" => {
                self.roman = true;
                Part::Roman(is_upper)
            }
            "B" => {
                self.blank |= self.before + self.after == 0;
                Part::Mark
            }
            "FM" => {
                self.tight = true;
                Part::Mark
            }
            "PR" => {
                if self.sign.is_some() || self.has_loose_sign() {
                    return Err(bad("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                self.brackets = true;
                Part::Mark
            }
            "V" => {
                if self.point {
                    return Err(bad("cannot use \"V\" and decimal point together"));
                }
                self.shift.get_or_insert(0);
                Part::Mark
            }
            "EEEE" => {
                if self.scientific {
                    return Err(bad("cannot use \"EEEE\" twice"));
                }
                let others = self.tight
                    || self.sign.is_some()
                    || self.brackets
                    || self.blank
                    || self.has_loose_sign()
                    || self.roman
                    || self.shift.is_some();
                if others {
                    return Err(bad("\"EEEE\" is incompatible with other formats")
                        .detail("\"EEEE\" may only be used together with digit and decimal point patterns."));
                }
                self.scientific = true;
                Part::Mark
            }
            _ => Part::Mark,
        })
    }
}

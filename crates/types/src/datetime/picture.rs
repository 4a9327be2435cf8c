//! The pictures of `to_char`, `to_date` and `to_timestamp`: `YYYY-MM-DD HH24:MI:SS.US`.
//!
//! A picture is cut into fields, separators and other characters here; `show` writes by it, `read`
//! reads by it.

mod read;
mod show;

pub use read::{to_date, to_timestamp};
pub use show::{interval_to_char, timestamp_to_char};

use std::cell::RefCell;
use std::rc::Rc;

use crate::error::Result;
use crate::letters::is_blank_char;
use crate::pulse;

/// Which fields go together in reading: those of one calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Convention {
    Any,
    Gregorian,
    IsoWeek,
}

/// A keyword in upper case, in whose cases it may be written, whether it is read as digits, and its
/// calendar. Longer keywords stand before their beginnings.
struct Keyword {
    name: &'static str,
    /// `Month`, beside `MONTH` and `month`.
    has_title_case: bool,
    is_digits: bool,
    convention: Convention,
}

const fn keyword(name: &'static str, is_digits: bool, convention: Convention) -> Keyword {
    Keyword { name, has_title_case: false, is_digits, convention }
}

const fn name(name: &'static str, convention: Convention) -> Keyword {
    Keyword { name, has_title_case: true, is_digits: false, convention }
}

use Convention::{Any, Gregorian, IsoWeek};

const KEYWORDS: [Keyword; 54] = [
    keyword("A.D.", false, Any),
    keyword("A.M.", false, Any),
    keyword("AD", false, Any),
    keyword("AM", false, Any),
    keyword("B.C.", false, Any),
    keyword("BC", false, Any),
    keyword("CC", true, Any),
    name("DAY", Any),
    keyword("DDD", true, Gregorian),
    keyword("DD", true, Gregorian),
    name("DY", Any),
    keyword("D", true, Gregorian),
    keyword("FF1", true, Any),
    keyword("FF2", true, Any),
    keyword("FF3", true, Any),
    keyword("FF4", true, Any),
    keyword("FF5", true, Any),
    keyword("FF6", true, Any),
    keyword("FX", false, Any),
    keyword("HH24", true, Any),
    keyword("HH12", true, Any),
    keyword("HH", true, Any),
    keyword("IDDD", true, IsoWeek),
    keyword("ID", true, IsoWeek),
    keyword("IW", true, IsoWeek),
    keyword("IYYY", true, IsoWeek),
    keyword("IYY", true, IsoWeek),
    keyword("IY", true, IsoWeek),
    keyword("I", true, IsoWeek),
    keyword("J", true, Any),
    keyword("MI", true, Any),
    keyword("MM", true, Gregorian),
    name("MONTH", Gregorian),
    name("MON", Gregorian),
    keyword("MS", true, Any),
    keyword("OF", false, Any),
    keyword("P.M.", false, Any),
    keyword("PM", false, Any),
    keyword("Q", true, Any),
    keyword("RM", false, Gregorian),
    keyword("SSSSS", true, Any),
    keyword("SSSS", true, Any),
    keyword("SS", true, Any),
    keyword("TZH", false, Any),
    keyword("TZM", true, Any),
    keyword("TZ", false, Any),
    keyword("US", true, Any),
    keyword("WW", true, Gregorian),
    keyword("W", true, Gregorian),
    keyword("Y,YYY", true, Gregorian),
    keyword("YYYY", true, Gregorian),
    keyword("YYY", true, Gregorian),
    keyword("YY", true, Gregorian),
    keyword("Y", true, Gregorian),
];

/// The case in which a keyword is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Upper,
    Title,
    Lower,
}

impl Case {
    fn apply(self, text: &str) -> String {
        match self {
            Self::Upper => text.to_ascii_uppercase(),
            Self::Title => text.to_owned(),
            Self::Lower => text.to_ascii_lowercase(),
        }
    }
}

/// A field of a picture.
#[derive(Clone, Copy)]
struct Field {
    keyword: &'static Keyword,
    case: Case,
    /// No FM before it: it is filled up.
    fill: bool,
    /// TM before it: names as they are, without blanks behind them.
    translated: bool,
    /// `TH` (true) or `th` behind it.
    ordinal: Option<bool>,
}

/// A part of a picture.
#[derive(Clone, Copy)]
enum Part {
    Field(Field),
    Separator(char),
    Blank(char),
    Char(char),
}

/// The keyword that a picture begins with, and its case.
fn leading_keyword(text: &str) -> Option<(&'static Keyword, Case)> {
    let first = text.bytes().next()?.to_ascii_uppercase();
    // Most keywords begin with another letter.
    KEYWORDS.iter().filter(|keyword| keyword.name.as_bytes()[0] == first).find_map(|keyword| {
        let written = text.get(..keyword.name.len())?;
        if written == keyword.name {
            return Some((keyword, Case::Upper));
        }
        if !written.eq_ignore_ascii_case(keyword.name) {
            return None;
        }
        let (first, rest) = (&written[..1], &written[1..]);
        if *written == written.to_ascii_lowercase() {
            Some((keyword, Case::Lower))
        } else if keyword.has_title_case && *first == first.to_ascii_uppercase() && *rest == rest.to_ascii_lowercase() {
            Some((keyword, Case::Title))
        } else {
            None
        }
    })
}

fn is_separator(c: char) -> bool {
    c.is_ascii_punctuation()
}

/// What reading a part of a picture takes, in units of work.
const UNITS_PER_PART: usize = 50;

/// Pictures that are kept in parts, by each thread.
const KEPT_MAX: usize = 8;
/// The longest picture that is kept, in bytes.
const KEPT_BYTES_MAX: usize = 200;

/// Pictures and their parts, the one that was asked for last in front.
type Kept = Vec<(Box<str>, Rc<[Part]>)>;

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Vec::new()) };
}

/// The parts of a picture. A query asks for those of the same picture for each of its rows.
fn parts(picture: &str) -> Result<Rc<[Part]>> {
    let found = KEPT.with_borrow_mut(|kept| {
        let at = kept.iter().position(|(known, _)| **known == *picture)?;
        kept[..=at].rotate_right(1);
        Some(Rc::clone(&kept[0].1))
    });
    if let Some(parts) = found {
        return Ok(parts);
    }
    let parts: Rc<[Part]> = cut(picture)?.into();
    if picture.len() <= KEPT_BYTES_MAX {
        KEPT.with_borrow_mut(|kept| {
            kept.truncate(KEPT_MAX - 1);
            kept.insert(0, (picture.into(), Rc::clone(&parts)));
        });
    }
    Ok(parts)
}

fn cut(picture: &str) -> Result<Vec<Part>> {
    let mut out = Vec::new();
    let mut rest = picture;
    while !rest.is_empty() {
        pulse::work(UNITS_PER_PART)?;
        let (mut fill, mut translated) = (true, false);
        match rest.get(..2) {
            Some("FM" | "fm") => fill = false,
            Some("TM" | "tm") => translated = true,
            _ => {}
        }
        if !fill || translated {
            rest = &rest[2..];
        }
        if let Some((keyword, case)) = leading_keyword(rest) {
            rest = &rest[keyword.name.len()..];
            let ordinal = match rest.get(..2) {
                Some("TH") => Some(true),
                Some("th") => Some(false),
                _ => None,
            };
            if ordinal.is_some() || rest.starts_with("SP") {
                rest = &rest[2..];
            }
            out.push(Part::Field(Field { keyword, case, fill, translated, ordinal }));
        } else if let Some(body) = rest.strip_prefix('"') {
            let mut chars = body.chars();
            while let Some(c) = chars.next() {
                match c {
                    '"' => break,
                    '\\' => out.push(Part::Char(chars.next().unwrap_or('\\'))),
                    c => out.push(Part::Char(c)),
                }
            }
            rest = chars.as_str();
        } else {
            // Outside of quotes a backslash stands for itself, unless a quote follows.
            if rest.starts_with("\\\"") {
                rest = &rest[1..];
            }
            let mut chars = rest.chars();
            if let Some(c) = chars.next() {
                out.push(match c {
                    c if is_separator(c) => Part::Separator(c),
                    c if is_blank_char(c) => Part::Blank(c),
                    c => Part::Char(c),
                });
            }
            rest = chars.as_str();
        }
    }
    Ok(out)
}

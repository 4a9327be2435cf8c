//! The functions of the extension `fuzzystrmatch`: how far texts are apart, and how they sound.

use super::{Function, f, int, text};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::pulse;
use crate::types::Type;
use crate::types::Type::{Int4, Text};
use crate::value::Datum;

/// Characters of a text of which a distance is computed, at most.
const LEVENSHTEIN_CHARS_MAX: usize = 255;
/// Bytes of a text that is spelled as it sounds, and of what it becomes, at most.
const METAPHONE_BYTES_MAX: usize = 255;
/// Characters of a Soundex code.
const SOUNDEX_CHARS: usize = 4;

/// What each kind of change costs.
#[derive(Clone, Copy)]
struct Costs {
    insert: i64,
    delete: i64,
    replace: i64,
}

const EVEN: Costs = Costs { insert: 1, delete: 1, replace: 1 };

fn costs(a: &[&Datum]) -> Result<Costs> {
    match a {
        [_, _, insert, delete, replace, ..] => {
            Ok(Costs { insert: int(insert)?, delete: int(delete)?, replace: int(replace)? })
        }
        _ => Ok(EVEN),
    }
}

/// What it costs at least to make one text of another.
fn distance(from: &str, to: &str, costs: Costs) -> Result<i64> {
    // Of a text that is too long no more is looked at.
    let chars = |text: &str| text.chars().take(LEVENSHTEIN_CHARS_MAX + 1).collect::<Vec<char>>();
    let (from, to) = (chars(from), chars(to));
    if from.len().max(to.len()) > LEVENSHTEIN_CHARS_MAX {
        let message = format!("levenshtein argument exceeds maximum length of {LEVENSHTEIN_CHARS_MAX} characters");
        return Err(Error::new(SqlState::BAD_PARAMETER, message));
    }
    if from.is_empty() {
        return Ok(to.len() as i64 * costs.insert);
    }
    if to.is_empty() {
        return Ok(from.len() as i64 * costs.delete);
    }
    let mut before: Vec<i64> = (0..=from.len() as i64).map(|count| count * costs.delete).collect();
    for (row, wanted) in to.iter().enumerate() {
        pulse::work(from.len())?;
        let mut here = Vec::with_capacity(before.len());
        here.push((row as i64 + 1) * costs.insert);
        for (at, given) in from.iter().enumerate() {
            let replaced = before[at] + if given == wanted { 0 } else { costs.replace };
            here.push(replaced.min(before[at + 1] + costs.insert).min(here[at] + costs.delete));
        }
        before = here;
    }
    Ok(before.last().copied().unwrap_or_default())
}

/// The cost as an integer of PostgreSQL's.
fn shown(distance: i64) -> Datum {
    Datum::Int(i64::from(distance as i32))
}

fn levenshtein(a: &[&Datum], _: &Env) -> Result<Datum> {
    distance(text(a[0])?, text(a[1])?, costs(a)?).map(shown)
}

/// The distance if it is no more than a limit, which comes last; else something above that.
fn levenshtein_up_to(a: &[&Datum], _: &Env) -> Result<Datum> {
    let most = a.last().map_or(Ok(0), |most| int(most))?;
    let found = distance(text(a[0])?, text(a[1])?, costs(&a[..a.len() - 1])?)?;
    Ok(shown(if most >= 0 { found.min(most + 1) } else { found }))
}

/// The digit of a letter, or the byte itself.
fn soundex_code(byte: u8) -> u8 {
    const CODES: [u8; 26] = *b"01230120022455012623010202";
    match byte.to_ascii_uppercase() {
        letter @ b'A'..=b'Z' => CODES[usize::from(letter - b'A')],
        other => other,
    }
}

fn soundex(text: &str) -> String {
    let bytes = text.as_bytes();
    let Some(first) = bytes.iter().position(u8::is_ascii_alphabetic) else { return String::new() };
    let mut out = String::from(char::from(bytes[first].to_ascii_uppercase()));
    for pair in bytes[first..].windows(2) {
        if out.len() == SOUNDEX_CHARS {
            break;
        }
        let code = soundex_code(pair[1]);
        if pair[1].is_ascii_alphabetic() && code != soundex_code(pair[0]) && code != b'0' {
            out.push(char::from(code));
        }
    }
    while out.len() < SOUNDEX_CHARS {
        out.push('0');
    }
    out
}

fn soundex_of(a: &[&Datum], _: &Env) -> Result<Datum> {
    Ok(Datum::text(&soundex(text(a[0])?)))
}

/// How many characters of the Soundex codes are the same.
fn difference(a: &[&Datum], _: &Env) -> Result<Datum> {
    let (one, other) = (soundex(text(a[0])?), soundex(text(a[1])?));
    let at = |code: &str, place: usize| code.as_bytes().get(place).copied();
    Ok(Datum::Int((0..SOUNDEX_CHARS).filter(|&place| at(&one, place) == at(&other, place)).count() as i64))
}

/// A word whose letters are asked for by their places; what is no letter is the byte 0.
struct Word<'a>(&'a [u8]);

impl Word<'_> {
    fn at(&self, place: usize) -> u8 {
        self.0.get(place).map_or(0, u8::to_ascii_uppercase)
    }

    fn before(&self, place: usize, back: usize) -> u8 {
        place.checked_sub(back).map_or(0, |place| self.at(place))
    }
}

fn is_vowel(letter: u8) -> bool {
    matches!(letter, b'A' | b'E' | b'I' | b'O' | b'U')
}

/// Letters before which C and G are soft.
fn softens(letter: u8) -> bool {
    matches!(letter, b'E' | b'I' | b'Y')
}

/// How the beginning of a word sounds where it follows rules of its own, and how long it is.
fn beginning(word: &Word<'_>, at: usize) -> (&'static str, usize) {
    match (word.at(at), word.at(at + 1)) {
        (b'A', b'E') => ("E", 2),
        (b'A', _) => ("A", 1),
        (b'G' | b'K' | b'P', b'N') => ("N", 2),
        (b'X', _) => ("S", 1),
        (b'E', _) => ("E", 1),
        (b'I', _) => ("I", 1),
        (b'O', _) => ("O", 1),
        (b'U', _) => ("U", 1),
        (b'W', b'R') => ("R", 2),
        (b'W', b'H') => ("H", 2),
        (b'W', next) if is_vowel(next) => ("W", 2),
        _ => ("", 0),
    }
}

/// How a letter sounds, and how many of those behind it sound with it.
fn sound(word: &Word<'_>, at: usize) -> (&'static str, usize) {
    let (last, next, after) = (word.before(at, 1), word.at(at + 1), word.at(at + 2));
    match word.at(at) {
        b'B' if last != b'M' => ("B", 0),
        b'C' if softens(next) => match (next, after) {
            (b'I', b'A') => ("X", 0),
            _ if last == b'S' => ("", 0),
            _ => ("S", 0),
        },
        b'C' if next == b'H' => (if after == b'R' || last == b'S' { "K" } else { "X" }, 1),
        b'D' if next == b'G' && softens(after) => ("J", 1),
        b'D' => ("T", 0),
        b'G' if next == b'H' => {
            let is_silent = matches!(word.before(at, 3), b'B' | b'D' | b'H') || word.before(at, 4) == b'H';
            if is_silent { ("", 0) } else { ("F", 1) }
        }
        b'G' if next == b'N' => {
            let is_silent = !after.is_ascii_alphabetic() || after == b'E' && word.at(at + 3) == b'D';
            (if is_silent { "" } else { "K" }, 0)
        }
        b'G' if softens(next) && last != b'G' => ("J", 0),
        b'H' if is_vowel(next) && !matches!(last, b'C' | b'G' | b'P' | b'S' | b'T') => ("H", 0),
        b'K' if last == b'C' => ("", 0),
        b'C' | b'G' | b'K' | b'Q' => ("K", 0),
        b'P' => (if next == b'H' { "F" } else { "P" }, 0),
        b'S' | b'T' if next == b'I' && matches!(after, b'O' | b'A') => ("X", 0),
        b'S' if next == b'H' => ("X", 1),
        b'S' if next == b'C' && after == b'H' => (if word.at(at + 3) == b'W' { "X" } else { "SK" }, 2),
        b'S' | b'Z' => ("S", 0),
        b'T' if next == b'H' => ("0", 1),
        b'T' => ("T", 0),
        b'F' | b'V' => ("F", 0),
        b'W' if is_vowel(next) => ("W", 0),
        b'X' => ("KS", 0),
        b'Y' if is_vowel(next) => ("Y", 0),
        b'J' => ("J", 0),
        b'L' => ("L", 0),
        b'M' => ("M", 0),
        b'N' => ("N", 0),
        b'R' => ("R", 0),
        _ => ("", 0),
    }
}

fn metaphone(a: &[&Datum], _: &Env) -> Result<Datum> {
    let (value, length) = (text(a[0])?, int(a[1])?);
    if value.is_empty() {
        return Ok(Datum::text(""));
    }
    let refused = |message: String| Err(Error::new(SqlState::BAD_PARAMETER, message));
    if value.len() > METAPHONE_BYTES_MAX {
        return refused(format!("argument exceeds the maximum length of {METAPHONE_BYTES_MAX} bytes"));
    }
    if length > METAPHONE_BYTES_MAX as i64 {
        return refused(format!("output exceeds the maximum length of {METAPHONE_BYTES_MAX} bytes"));
    }
    if length <= 0 {
        return Err(Error::new(SqlState("2200F"), "output cannot be empty string"));
    }
    let word = Word(value.as_bytes());
    let Some(first) = value.bytes().position(|byte| byte.is_ascii_alphabetic()) else { return Ok(Datum::text("")) };
    let (begins, skipped) = beginning(&word, first);
    let (mut out, mut at) = (begins.to_owned(), first + skipped);
    while at < value.len() && (out.len() as i64) < length {
        let letter = word.at(at);
        if letter.is_ascii_alphabetic() && (letter == b'C' || letter != word.before(at, 1)) {
            let (sounds, with) = sound(&word, at);
            out.push_str(sounds);
            at += with;
        }
        at += 1;
    }
    out.truncate(length as usize);
    Ok(Datum::text(&out))
}

const fn fuzzy(name: &'static str, args: &'static [Type], result: Type, eval: super::Eval) -> Function {
    f(name, args, result, eval).of_extension("fuzzystrmatch")
}

pub(super) const TABLE: &[Function] = &[
    fuzzy("levenshtein", &[Text, Text], Int4, levenshtein),
    fuzzy("levenshtein", &[Text, Text, Int4, Int4, Int4], Int4, levenshtein),
    fuzzy("levenshtein_less_equal", &[Text, Text, Int4], Int4, levenshtein_up_to),
    fuzzy("levenshtein_less_equal", &[Text, Text, Int4, Int4, Int4, Int4], Int4, levenshtein_up_to),
    fuzzy("soundex", &[Text], Text, soundex_of),
    fuzzy("text_soundex", &[Text], Text, soundex_of),
    fuzzy("difference", &[Text, Text], Int4, difference),
    fuzzy("metaphone", &[Text, Int4], Text, metaphone),
];

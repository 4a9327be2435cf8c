//! Blanks and letters, as the reading of values and the functions of texts know them.
//!
//! PostgreSQL's input functions skip the six blanks of C and no others: a no-break space belongs to
//! a value. Rust's `str::trim` and its kin know the blanks of all scripts, so reading a value with
//! them would change it. The names of settings, units and months are folded in ASCII only.
//! Functions of texts (`upper`, `\w`) do know all scripts.
//!
//! Invariant: nothing else in this crate asks `char` or `str` about blanks or letters;
//! `clippy.toml` sees to it.

#![allow(clippy::disallowed_methods, reason = "this is the one place that may")]

use std::sync::OnceLock;

use regex_syntax::hir::{Class, HirKind};

/// Whether a byte is a blank of C: space, tab, line feed, vertical tab, form feed, carriage return.
#[inline]
#[must_use]
pub fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The same of a character.
#[inline]
#[must_use]
pub fn is_blank_char(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// A text without the blanks around it.
#[inline]
#[must_use]
pub fn trim(text: &str) -> &str {
    text.trim_matches(is_blank_char)
}

/// A text without the blanks before it.
#[inline]
#[must_use]
pub fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_blank_char)
}

/// A text without the blanks behind it.
#[inline]
#[must_use]
pub fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_blank_char)
}

/// Whether a character is a blank of SQL's own grammar, in which the vertical tab is none: names
/// are read so.
#[inline]
#[must_use]
pub fn is_name_blank(c: char) -> bool {
    is_blank_char(c) && c != '\x0b'
}

/// A text without the blanks of SQL's own grammar around it.
#[inline]
#[must_use]
pub fn trim_name(text: &str) -> &str {
    text.trim_matches(is_name_blank)
}

/// A character in lower case, if that is one character.
#[must_use]
pub fn lower(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        // The Turkish capital I with a dot, the only one of several characters: its dot is lost.
        _ => {
            if c == '\u{130}' {
                'i'
            } else {
                c
            }
        }
    }
}

/// A character in upper case, if that is one character.
#[must_use]
pub fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// Whether a character is a letter or a decimal digit of some script; fractions and superscripts
/// are neither.
#[must_use]
pub fn is_alnum(c: char) -> bool {
    c.is_alphabetic() || c.is_ascii_digit() || (!c.is_ascii() && c.is_numeric() && is_decimal(c))
}

fn is_decimal(c: char) -> bool {
    static DECIMALS: OnceLock<Vec<(u32, u32)>> = OnceLock::new();
    let ranges = DECIMALS.get_or_init(|| unicode_ranges(r"\p{Nd}"));
    let at = ranges.partition_point(|&(_, to)| to < u32::from(c));
    ranges.get(at).is_some_and(|&(from, _)| from <= u32::from(c))
}

/// The characters of a class of Unicode, as ranges in order.
pub fn unicode_ranges(class: &str) -> Vec<(u32, u32)> {
    match regex_syntax::parse(class).map(regex_syntax::hir::Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => {
            class.iter().map(|range| (u32::from(range.start()), u32::from(range.end()))).collect()
        }
        _ => Vec::new(),
    }
}

/// Digraphs whose first letter only is a capital, which count as both.
fn is_half_capital(c: char) -> bool {
    matches!(c, '\u{1c5}' | '\u{1c8}' | '\u{1cb}' | '\u{1f2}')
}

/// Whether it is a lower case letter of some script.
#[must_use]
pub fn is_lower(c: char) -> bool {
    c.is_lowercase() || is_half_capital(c)
}

/// Whether it is an upper case letter of some script, or a Greek capital with a small letter beside
/// it.
#[must_use]
pub fn is_upper(c: char) -> bool {
    let is_greek_pair =
        matches!(u32::from(c), 0x1f88..=0x1f8f | 0x1f98..=0x1f9f | 0x1fa8..=0x1faf | 0x1fbc | 0x1fcc | 0x1ffc);
    c.is_uppercase() || is_half_capital(c) || is_greek_pair
}

/// Whether it is a blank of some script at which a line may be broken: what `\s` matches.
#[must_use]
pub fn is_wide_space(c: char) -> bool {
    c.is_whitespace() && !matches!(c, '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}')
}

/// Appends bytes that are ASCII.
pub(crate) fn push_ascii(text: &[u8], out: &mut String) {
    debug_assert!(text.is_ascii());
    out.push_str(std::str::from_utf8(text).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::{trim, trim_end, trim_start};

    #[test]
    fn only_the_blanks_of_c_are_trimmed() {
        assert_eq!(trim(" \t\n\x0b\x0c\r x \r\x0c\x0b\n\t "), "x");
        for other in ["\u{85}", "\u{a0}", "\u{1680}", "\u{2003}", "\u{2028}", "\u{3000}", "\u{feff}", "\u{1f}"] {
            let text = format!("{other}x{other}");
            assert_eq!((trim(&text), trim_start(&text), trim_end(&text)), (&*text, &*text, &*text));
        }
    }
}

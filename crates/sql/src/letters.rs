//! Blanks and letters, as the reading of values and the functions of texts know them.
//!
//! PostgreSQL's input functions skip the six blanks of C and no others: a no-break space belongs to a value. Rust's
//! `str::trim` and its kin know the blanks of all scripts, so reading a value with them would change it. The names of
//! settings, units and months are folded in ASCII only. Functions of texts (`upper`, `\w`) do know all scripts.
//!
//! Invariant: nothing else in this crate asks `char` or `str` about blanks or letters; `clippy.toml` sees to it.

#![allow(clippy::disallowed_methods, reason = "this is the one place that may")]

/// Whether a byte is a blank of C: space, tab, line feed, vertical tab, form feed, carriage return.
#[inline]
#[must_use]
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The same of a character.
#[inline]
#[must_use]
pub(crate) fn is_blank_char(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// A text without the blanks around it.
#[inline]
#[must_use]
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(is_blank_char)
}

/// A text without the blanks before it.
#[inline]
#[must_use]
pub(crate) fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_blank_char)
}

/// A text without the blanks behind it.
#[inline]
#[must_use]
pub(crate) fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_blank_char)
}

/// A character in lower case, if that is one character.
#[must_use]
pub(crate) fn lower(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// A character in upper case, if that is one character.
#[must_use]
pub(crate) fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// Whether a character is a letter or digit of some script.
#[must_use]
pub(crate) fn is_alnum(c: char) -> bool {
    c.is_alphanumeric()
}

/// Whether it is a lower case letter of some script.
#[must_use]
pub(crate) fn is_lower(c: char) -> bool {
    c.is_lowercase()
}

/// Whether it is an upper case letter of some script.
#[must_use]
pub(crate) fn is_upper(c: char) -> bool {
    c.is_uppercase()
}

/// Whether it is a blank of some script at which a line may be broken: what `\s` matches.
#[must_use]
pub(crate) fn is_wide_space(c: char) -> bool {
    c.is_whitespace() && !matches!(c, '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}')
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

//! Values of settings: checked as PostgreSQL does, converted to the form in which they are stored,
//! and shown.
//!
//! Numbers are stored in their setting's unit, words as the table has them, and other values as
//! SHOW gives them.

use colibri_types::{
    Error, Result, SqlState,
    datetime::{DateStyle, ZoneFault, zone_of_setting},
    encoding::Encoding,
    pulse,
};

use super::known::{Kind, Known, Unit};
use super::read_after::ReadAfter;

fn invalid(known: &Known, value: &str) -> Error {
    let message = format!("invalid value for parameter \"{}\": \"{value}\"", known.shown);
    Error::new(SqlState::BAD_PARAMETER, message)
}

/// The error for a value that only PostgreSQL supports.
fn unsupported(known: &Known, value: &str) -> Error {
    Error::unsupported(format_args!("{} {value}", known.shown))
}

/// Checks a value, and converts it to the form in which it is stored.
///
/// # Errors
/// 22023 for a wrong value, 0A000 for one that Colibri does not support, 55P02 if the setting
/// cannot be set.
pub(super) fn usual(known: &Known, value: &str) -> Result<String> {
    Ok(match &known.kind {
        Kind::Text if known.name == "application_name" => in_ascii(value),
        Kind::Text | Kind::Role | Kind::Mode => value.to_owned(),
        Kind::Bool | Kind::OnlyBool(_) => {
            let on = parse_bool(value).ok_or_else(|| {
                let message = format!("parameter \"{}\" requires a Boolean value", known.shown);
                Error::new(SqlState::BAD_PARAMETER, message)
            })?;
            let name = if on { "on" } else { "off" };
            match known.kind {
                Kind::OnlyBool(only) if only != on => return Err(unsupported(known, name)),
                _ => name.to_owned(),
            }
        }
        Kind::Integer(min, max, unit) => integer(known, value, (*min, *max), *unit)?.to_string(),
        Kind::Real(min, max, unit) => real(known, value, (*min, *max), *unit)?.to_string(),
        Kind::OneOf(here, elsewhere) => one_of(known, value, here, elsewhere)?,
        Kind::Names => match names(value) {
            Some(_) => value.to_owned(),
            None => return Err(invalid(known, value).detail("List syntax is invalid.")),
        },
        // What it does not name stays as it is, which whoever sets it knows.
        Kind::Dates => date_style(known, value, known.default)?,
        Kind::Encoding => encoding(known, value)?,
        Kind::SearchConfiguration => {
            crate::system::search::usual_setting(value).ok_or_else(|| invalid(known, value))?
        }
        Kind::Zone => match zone_of_setting(value) {
            Ok((name, _)) => name,
            Err(ZoneFault::Invalid(None)) => return Err(invalid(known, value)),
            Err(ZoneFault::Invalid(Some(detail))) => return Err(invalid(known, value).detail(detail)),
            Err(ZoneFault::Interval(error)) => return Err(error),
        },
        Kind::CommitToken if ReadAfter::of(value) == ReadAfter::Unknown => {
            let hint = "SELECT colibri_commit_token() gives the token of a session's last commit.";
            return Err(invalid(known, value).hint(hint));
        }
        Kind::CommitToken => value.to_owned(),
        Kind::Fixed | Kind::OfServer => {
            let of_start =
                ["listen_addresses", "max_connections", "max_prepared_transactions", "port", "unix_socket_directories"];
            let until = if of_start.contains(&known.name) { " without restarting the server" } else { "" };
            let message = format!("parameter \"{}\" cannot be changed{until}", known.shown);
            return Err(Error::new(SqlState("55P02"), message));
        }
    })
}

/// A stored value as SHOW gives it.
pub(super) fn show(known: &Known, kept: &str) -> String {
    match known.kind {
        Kind::Integer(_, _, unit) if unit != Unit::None => {
            let number: i64 = kept.parse().unwrap_or(0);
            let (number, units) = match unit {
                Unit::Blocks => (number * 8, unit.names()),
                _ => (number, unit.names()),
            };
            let fits = |&&(_, factor): &&(&str, f64)| factor >= 1.0 && number % factor as i64 == 0;
            match units.iter().rev().find(fits) {
                Some((name, factor)) if number > 0 => format!("{}{name}", number / *factor as i64),
                _ => number.to_string(),
            }
        }
        Kind::Real(_, _, unit) => {
            let number: f64 = kept.parse().unwrap_or(0.0);
            let is_whole = |value: f64| value > 0.0 && (value.round() / value - 1.0).abs() <= 1e-8;
            match unit.names().iter().rev().find(|(_, factor)| is_whole(number / factor)) {
                Some((name, factor)) if number > 0.0 => format!("{}{name}", general(number / factor)),
                _ => general(number),
            }
        }
        _ => kept.to_owned(),
    }
}

/// Like C's `%g`: six digits, and an exponent if there are many zeros.
pub(super) fn general(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return if number.is_finite() { "0".to_owned() } else { number.to_string() };
    }
    let scientific = format!("{number:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return without_zeros(&format!("{number:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(digits), exponent.abs())
}

// ---- truth and words ----

/// Any beginning of a word that no other word of them begins with.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    let begins = |word: &str, at_least: usize| lower.len() >= at_least && word.starts_with(&lower);
    if lower == "1" || begins("true", 1) || begins("yes", 1) || lower == "on" {
        return Some(true);
    }
    (lower == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2)).then_some(false)
}

fn one_of(known: &Known, value: &str, here: &[&str], elsewhere: &[&str]) -> Result<String> {
    let alias = match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => "on",
        "false" | "no" | "0" => "off",
        "debug" => "debug2",
        _ => value,
    };
    if let Some(choice) = here.iter().find(|choice| choice.eq_ignore_ascii_case(alias)) {
        return Ok((*choice).to_owned());
    }
    if let Some(choice) = elsewhere.iter().find(|choice| choice.eq_ignore_ascii_case(alias)) {
        return Err(unsupported(known, choice));
    }
    Err(invalid(known, value).hint(format!("Available values: {}.", told(known, here).join(", "))))
}

/// The words that a setting is said to know: PostgreSQL hides this one.
pub(super) fn told<'a>(known: &Known, words: &[&'a str]) -> Vec<&'a str> {
    words.iter().copied().filter(|&word| known.name != "client_min_messages" || word != "info").collect()
}

/// A name that goes into logs: each byte that is no visible letter of ASCII is a question mark.
fn in_ascii(name: &str) -> String {
    name.bytes().map(|byte| if (b' '..=b'~').contains(&byte) { char::from(byte) } else { '?' }).collect()
}

// ---- numbers ----

const TIMES_MS: &[(&str, f64)] =
    &[("us", 0.001), ("ms", 1.0), ("s", 1_000.0), ("min", 60_000.0), ("h", 3_600_000.0), ("d", 86_400_000.0)];
const TIMES_S: &[(&str, f64)] =
    &[("us", 1e-6), ("ms", 0.001), ("s", 1.0), ("min", 60.0), ("h", 3_600.0), ("d", 86_400.0)];
const SIZES_KB: &[(&str, f64)] =
    &[("B", 1.0 / 1024.0), ("kB", 1.0), ("MB", 1024.0), ("GB", 1_048_576.0), ("TB", 1_073_741_824.0)];

impl Unit {
    /// The units that a value may be written in, and their factors.
    fn names(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::None => &[],
            Self::Ms => TIMES_MS,
            Self::S => TIMES_S,
            Self::Kb | Self::Blocks => SIZES_KB,
        }
    }

    /// How many of the units that names are counted in make one.
    fn base(self) -> f64 {
        if self == Self::Blocks { 8.0 } else { 1.0 }
    }

    /// The unit as `pg_settings` shows it.
    pub(super) fn shown(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Ms => Some("ms"),
            Self::S => Some("s"),
            Self::Kb => Some("kB"),
            Self::Blocks => Some("8kB"),
        }
    }

    fn hint(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Ms | Self::S => {
                Some("Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".")
            }
            Self::Kb | Self::Blocks => {
                Some("Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".")
            }
        }
    }
}

/// The number that a text begins with, as C reads it, and the rest. An integer may be octal or
/// hexadecimal.
fn number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1.0, &text[1..]),
        Some(b'+') => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        return Some((sign * u64::from_str_radix(&hex[..end], 16).ok()? as f64, &hex[end..]));
    }
    let word = digits.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(digits.len());
    if ["inf", "infinity", "nan"].iter().any(|name| digits[..word].eq_ignore_ascii_case(name)) {
        return Some((sign * digits[..word].to_ascii_lowercase().parse::<f64>().ok()?, &digits[word..]));
    }
    let mut end = digits.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(digits.len());
    let is_octal =
        digits.len() > 1 && digits.starts_with('0') && digits[..end].bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    if is_octal {
        return Some((sign * u64::from_str_radix(&digits[..end], 8).ok()? as f64, &digits[end..]));
    }
    // An exponent, unless it is the beginning of something else.
    let exponent = digits[end..].strip_prefix(['e', 'E']).map(|rest| (rest, rest.trim_start_matches(['+', '-'])));
    if let Some((rest, figures)) = exponent.filter(|(_, figures)| figures.starts_with(|c: char| c.is_ascii_digit())) {
        let length = figures.find(|c: char| !c.is_ascii_digit()).unwrap_or(figures.len());
        end += 1 + (rest.len() - figures.len()) + length;
    }
    Some((sign * digits[..end].parse::<f64>().ok()?, &digits[end..]))
}

/// A number in its setting's unit.
fn with_unit(known: &Known, value: &str, unit: Unit) -> Result<f64> {
    let (number, rest) = number(value).ok_or_else(|| invalid(known, value))?;
    let name = rest.trim_ascii();
    if name.is_empty() {
        return Ok(number);
    }
    match unit.names().iter().find(|(known, _)| *known == name) {
        Some((_, factor)) => Ok(number * factor / unit.base()),
        None => {
            let error = invalid(known, value);
            Err(if let Some(hint) = unit.hint() { error.hint(hint) } else { error })
        }
    }
}

fn outside(known: &Known, value: &str, unit: Unit, min: &str, max: &str) -> Error {
    let unit = unit.shown().map(|unit| format!(" {unit}")).unwrap_or_default();
    let message =
        format!("{value}{unit} is outside the valid range for parameter \"{}\" ({min} .. {max})", known.shown);
    Error::new(SqlState::BAD_PARAMETER, message)
}

fn integer(known: &Known, value: &str, (min, max): (i64, i64), unit: Unit) -> Result<i64> {
    let number = with_unit(known, value, unit)?.round_ties_even();
    if number.is_nan() || number < f64::from(i32::MIN) || number > f64::from(i32::MAX) {
        return Err(invalid(known, value).hint("Value exceeds integer range."));
    }
    let number = number as i64;
    if !(min..=max).contains(&number) {
        return Err(outside(known, &number.to_string(), unit, &min.to_string(), &max.to_string()));
    }
    Ok(number)
}

fn real(known: &Known, value: &str, (min, max): (f64, f64), unit: Unit) -> Result<f64> {
    let number = with_unit(known, value, unit)?;
    if number.is_nan() {
        return Err(invalid(known, value));
    }
    if !(min..=max).contains(&number) {
        let shown = if number.is_infinite() { "Infinity".to_owned() } else { general(number) };
        return Err(outside(known, &shown, unit, &general(min), &general(max)));
    }
    Ok(number)
}

// ---- lists, dates, encodings ----

/// The names of a list with commas between them, as a text holds it; `None` if that is not what it
/// is.
pub(crate) fn names(text: &str) -> Option<Vec<String>> {
    pulse::note(text.len());
    const BLANKS: [char; 6] = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];
    let mut rest = text.trim_start_matches(BLANKS);
    let mut names = Vec::new();
    if rest.is_empty() {
        return Some(names);
    }
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut chars = quoted.char_indices();
            let end = loop {
                match chars.next()? {
                    (at, '"') if quoted[at + 1..].starts_with('"') => {
                        chars.next();
                        name.push('"');
                    }
                    (at, '"') => break at + 1,
                    (_, other) => name.push(other),
                }
            };
            names.push(name);
            rest = &quoted[end..];
        } else {
            let end = rest.find(|c: char| c == ',' || BLANKS.contains(&c)).unwrap_or(rest.len());
            if end == 0 {
                return None;
            }
            names.push(rest[..end].to_ascii_lowercase());
            rest = &rest[end..];
        }
        rest = rest.trim_start_matches(BLANKS);
        if rest.is_empty() {
            return Some(names);
        }
        rest = rest.strip_prefix(',')?.trim_start_matches(BLANKS);
    }
}

/// How dates are written and read: in one style only.
/// A date style with what its words name, and the rest as `old` has it.
pub(super) fn date_style(known: &Known, value: &str, old: &str) -> Result<String> {
    let words = names(value).ok_or_else(|| invalid(known, value).detail("List syntax is invalid."))?;
    match DateStyle::of_shown(old).with_words(&words) {
        Ok(style) => Ok(style.shown().to_owned()),
        Err(Some(word)) => Err(invalid(known, value).detail(format!("Unrecognized key word: \"{word}\"."))),
        Err(None) => Err(invalid(known, value).detail("Conflicting \"datestyle\" specifications.")),
    }
}

/// The encoding of the client, by its name.
fn encoding(known: &Known, value: &str) -> Result<String> {
    let encoding = Encoding::named(value).ok_or_else(|| invalid(known, value))?;
    if let Err(error) = encoding.expect_converted() {
        return Err(invalid(known, value).detail(error.report().message.clone()));
    }
    // PostgreSQL shows this name as it was written.
    Ok(if value == "UNICODE" { value } else { encoding.name() }.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn shown(name: &str, value: &str) -> String {
        let known = Known::find(name).unwrap();
        match usual(known, value) {
            Ok(kept) => show(known, &kept),
            Err(error) => error.state().0.to_owned(),
        }
    }

    #[test]
    fn a_token_of_a_commit_is_two_numbers_or_nothing() {
        for token in ["", "5/1", "16384/ffffffffffffffff"] {
            assert_eq!(shown("colibri.read_after", token), token);
        }
        for wrong in ["5", "/", "5/", "/1", "5/g", "-1/1", "4294967296/1", "5/10000000000000000", "5/1/1", " "] {
            assert_eq!(shown("colibri.read_after", wrong), "22023", "{wrong}");
        }
    }

    #[test]
    fn numbers_are_read_with_units_and_shown_in_the_largest_that_fits() {
        for (value, expected) in [
            ("10min", "10min"),
            ("1.5s", "1500ms"),
            (" 0x10 ms ", "16ms"),
            ("1.6", "2ms"),
            ("010", "8ms"),
            ("1e3", "1s"),
            ("0", "0"),
            ("500us", "0"),
            ("-1", "22023"),
            ("10 MIN", "22023"),
            ("30d", "22023"),
            ("", "22023"),
            ("on", "22023"),
        ] {
            assert_eq!(shown("statement_timeout", value), expected, "{value}");
        }
        for (value, expected) in
            [("1.5MB", "1536kB"), ("64", "64kB"), ("2097152", "2GB"), ("100000B", "98kB"), ("1mb", "22023")]
        {
            assert_eq!(shown("work_mem", value), expected, "{value}");
        }
        for (value, expected) in [("1GB", "1GB"), ("3", "24kB")] {
            assert_eq!(shown("effective_cache_size", value), expected, "{value}");
        }
        for (value, expected) in [("500us", "500us"), ("2", "2ms"), ("2.5", "2500us")] {
            assert_eq!(shown("vacuum_cost_delay", value), expected, "{value}");
        }
        for (value, expected) in [
            ("1.10", "1.1"),
            ("1e10", "1e+10"),
            ("0.0000123456789", "1.23457e-05"),
            ("1234567.8", "1.23457e+06"),
            ("100000", "100000"),
            ("inf", "22023"),
            ("nan", "22023"),
            ("1MB", "22023"),
        ] {
            assert_eq!(shown("random_page_cost", value), expected, "{value}");
        }
    }

    #[test]
    fn words_are_taken_in_any_case_and_truth_by_its_first_letters() {
        assert_eq!(shown("constraint_exclusion", "TRUE"), "on");
        assert_eq!(shown("client_min_messages", "debug"), "debug2");
        assert_eq!(shown("xmloption", "Document"), "document");
        for (value, expected) in [("of", "off"), ("tr", "on"), ("0", "off"), ("o", "22023"), (" on", "22023")] {
            assert_eq!(shown("enable_seqscan", value), expected, "{value}");
        }
        assert_eq!(shown("bytea_output", "Escape"), "escape");
        assert_eq!(shown("array_nulls", "off"), "0A000");
        for (value, expected) in [
            ("utf-8", "UTF8"),
            ("UNICODE", "UNICODE"),
            ("unicode", "UTF8"),
            ("sql_ascii", "SQL_ASCII"),
            ("latin1", "LATIN1"),
            ("windows-1251", "WIN1251"),
            ("johab", "22023"),
            ("foo", "22023"),
        ] {
            assert_eq!(shown("client_encoding", value), expected, "{value}");
        }
    }

    #[test]
    fn a_list_of_names_is_split_where_a_comma_stands_outside_quotes() {
        assert_eq!(names(" Foo,  \"A,b\" ,\"c\"\"d\"").unwrap(), ["foo", "A,b", "c\"d"]);
        assert_eq!(names("").unwrap(), [""; 0]);
        assert_eq!(names("\"\"").unwrap(), [""]);
        for wrong in ["a,", ",a", "a b", "\"a", "a,,b"] {
            assert!(names(wrong).is_none(), "{wrong}");
        }
    }
}

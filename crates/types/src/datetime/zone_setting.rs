//! The setting `TimeZone`: an interval, a number of hours, a name, or a POSIX specification.
//!
//! Signs: an interval and a number are east of Greenwich, as in SQL; what POSIX writes behind a
//! name, or without one (`+02:00`), is west of it. `SET timezone = '+02:00'` is two hours behind
//! UTC, `SET timezone = 2` two hours ahead.

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::Zone;
use crate::error::Error;
use crate::interval::Interval;

/// Hours that an offset has at most.
const HOURS_MAX: i64 = 167;
/// When daylight saving begins and ends where a POSIX specification does not say so.
const DEFAULT_RULE: &str = ",M3.2.0,M11.1.0";

/// What is wrong with a value.
#[derive(Debug)]
pub enum ZoneFault {
    /// It is none, and there is perhaps more to say.
    Invalid(Option<&'static str>),
    /// What should be an interval is none.
    Interval(Error),
}

/// The zone that a value of the setting means, and the value as SHOW gives it.
///
/// # Errors
/// What is wrong with the value.
pub fn zone_of_setting(value: &str) -> Result<(String, Zone), ZoneFault> {
    match offset_of_setting(value)? {
        Some(offset) => Ok(offset),
        None => {
            let (shown, zone) = named_zone(value).ok_or(ZoneFault::Invalid(None))?;
            // Seconds at the start of 2000 are taken for a sign of leap seconds in the zone's
            // clocks.
            if zone.offset_at(0) % 60 != 0 {
                return Err(ZoneFault::Invalid(Some("The zone appears to use leap seconds.")));
            }
            Ok((shown, zone))
        }
    }
}

/// The zone of a value as SHOW gives it. What an interval has made of itself may have seconds.
pub fn zone_of_shown(value: &str) -> Option<Zone> {
    match offset_of_setting(value) {
        Ok(Some((_, zone))) => Some(zone),
        _ => named_zone(value).map(|(_, zone)| zone),
    }
}

/// The zone that an interval or a number of hours stands for; `None` if the value is neither.
fn offset_of_setting(value: &str) -> Result<Option<(String, Zone)>, ZoneFault> {
    const OUT_OF_RANGE: ZoneFault = ZoneFault::Invalid(Some("UTC timezone offset is out of range."));
    if value.get(..8).is_some_and(|word| word.eq_ignore_ascii_case("interval")) {
        return offset(interval_seconds(&value[8..])?).ok_or(OUT_OF_RANGE).map(Some);
    }
    match hours(value) {
        Some(hours) => offset((hours * 3600.0) as i64).filter(|_| hours.is_finite()).ok_or(OUT_OF_RANGE).map(Some),
        None => Ok(None),
    }
}

/// A zone by its name in the database, or a POSIX specification.
fn named_zone(value: &str) -> Option<(String, Zone)> {
    if value.strip_prefix(':').unwrap_or(value).eq_ignore_ascii_case("utc") {
        return Some(("UTC".to_owned(), Zone::Utc));
    }
    if let Some(zone) = Zone::of_database(value) {
        return Some((zone.name(), zone));
    }
    let shown = value.to_ascii_uppercase();
    let zone = posix(&shown)?;
    Some((shown, zone))
}

/// The seconds of `'…'`, which stands behind the word INTERVAL.
fn interval_seconds(quoted: &str) -> Result<i64, ZoneFault> {
    let inside = |quoted: &str| quoted.trim_ascii_start().strip_prefix('\'')?.strip_suffix('\'').map(str::to_owned);
    let text = inside(quoted).ok_or(ZoneFault::Invalid(None))?;
    let interval = Interval::parse(&text).map_err(ZoneFault::Interval)?;
    let wrong = |detail| Err(ZoneFault::Invalid(Some(detail)));
    match interval {
        Interval { months: 1.. | ..=-1, .. } => wrong("Cannot specify months in time zone interval."),
        Interval { days: 1.. | ..=-1, .. } => wrong("Cannot specify days in time zone interval."),
        Interval { micros, .. } => Ok(micros / 1_000_000),
    }
}

/// A number, as C reads it.
fn hours(text: &str) -> Option<f64> {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => Some(sign * f64::from(u32::from_str_radix(hex, 16).ok()?)),
        None => Some(sign * digits.parse::<f64>().ok()?),
    }
}

/// A zone that is a fixed number of seconds east all the year, and its name.
fn offset(seconds: i64) -> Option<(String, Zone)> {
    let size = seconds.unsigned_abs();
    let (hours, minutes, rest) = (size / 3600, size / 60 % 60, size % 60);
    if hours > HOURS_MAX as u64 {
        return None;
    }
    let mut text = format!("{hours:02}");
    if minutes != 0 || rest != 0 {
        text.push_str(&format!(":{minutes:02}"));
    }
    if rest != 0 {
        text.push_str(&format!(":{rest:02}"));
    }
    let (east, west) = if seconds < 0 { ('-', '+') } else { ('+', '-') };
    Some((format!("<{east}{text}>{west}{text}"), fixed(seconds as i32)))
}

fn fixed(seconds: i32) -> Zone {
    if seconds == 0 { Zone::Utc } else { Zone::Fixed(seconds) }
}

/// A POSIX specification: `EST5EDT,M3.2.0,M11.1.0`, `<+03>-03`, `-02:30`.
pub(super) fn posix(text: &str) -> Option<Zone> {
    let (name, rest) = match text.strip_prefix('<') {
        Some(inside) => inside.split_once('>')?,
        None if text.starts_with(':') => return None,
        None => text.split_at(text.find(|c: char| c.is_ascii_digit() || matches!(c, ',' | '+' | '-'))?),
    };
    let (seconds, behind) = posix_offset(rest)?;
    let library = |text: &str| TimeZone::posix(text).ok().map(|zone| Zone::Named(Arc::new((text.to_owned(), zone))));
    if !behind.is_empty() {
        let rule = if behind.contains(',') { "" } else { DEFAULT_RULE };
        // Names that the library does not take, such as short ones, are no cause to refuse the
        // rest.
        let (offset, summer) = (&rest[..rest.len() - behind.len()], behind_name(behind)?);
        return library(&format!("{text}{rule}")).or_else(|| library(&format!("STD{offset}DST{summer}{rule}")));
    }
    let east = fixed(-seconds);
    Some(if name == east.name() { east } else { Zone::Called(Arc::new((name.to_owned(), -seconds))) })
}

/// What stands behind a name.
fn behind_name(text: &str) -> Option<&str> {
    match text.strip_prefix('<') {
        Some(inside) => inside.split_once('>').map(|(_, behind)| behind),
        None => Some(text.trim_start_matches(|c: char| !(c.is_ascii_digit() || matches!(c, ',' | '+' | '-')))),
    }
}

/// `[+-]hh[:mm[:ss]]`, in seconds as it is written, and what follows.
fn posix_offset(text: &str) -> Option<(i32, &str)> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut seconds = 0;
    for (unit, max) in [(3600, HOURS_MAX), (60, 59), (1, 60)] {
        if unit < 3600 {
            match rest.strip_prefix(':') {
                Some(behind) => rest = behind,
                None => break,
            }
        }
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: i64 = rest[..end].parse().ok().filter(|number| *number <= max)?;
        seconds += number as i32 * unit;
        rest = &rest[end..];
    }
    Some((sign * seconds, rest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// How it is shown, and how many seconds east it is at the start of 2020.
    fn of(value: &str) -> Option<(String, i32)> {
        let at = 631_152_000_000_000;
        zone_of_setting(value).ok().map(|(name, zone)| (name, zone.offset_at(at)))
    }

    #[test]
    fn numbers_and_intervals_are_east_and_posix_is_west() {
        for (value, shown, seconds) in [
            ("3", "<+03>-03", 10_800),
            ("-3.5", "<-03:30>+03:30", -12_600),
            ("+2", "<+02>-02", 7_200),
            ("02", "<+02>-02", 7_200),
            ("0x10", "<+16>-16", 57_600),
            ("-167", "<-167>+167", -601_200),
            ("INTERVAL '-08:30'", "<-08:30>+08:30", -30_600),
            ("interval '2'", "<+00:00:02>-00:00:02", 2),
            ("INTERVAL '+00:00'", "<+00>-00", 0),
            ("+02:00", "+02:00", -7_200),
            ("-02:30", "-02:30", 9_000),
            ("02:00", "02:00", -7_200),
            ("utc+3", "UTC+3", -10_800),
            ("foo-3", "FOO-3", 10_800),
            ("<+03>-03", "<+03>-03", 10_800),
            ("<+0330>-3:30", "<+0330>-3:30", 12_600),
            ("xyz5xdt", "XYZ5XDT", -18_000),
            ("2h", "2H", -7_200),
            ("europe/berlin", "Europe/Berlin", 3_600),
            ("Etc/UTC", "Etc/UTC", 0),
            (":utc", "UTC", 0),
            ("posix/europe/berlin", "posix/Europe/Berlin", 3_600),
            ("f3", "F3", -10_800),
            (" x3", " X3", -10_800),
            ("uTc", "UTC", 0),
            ("est", "EST", -18_000),
        ] {
            assert_eq!(of(value), Some((shown.to_owned(), seconds)), "{value}");
        }
        for wrong in [
            "",
            "pst",
            "msk",
            "Z",
            "+0530",
            "200",
            "inf",
            "nan",
            " utc",
            "utc ",
            "default",
            "INTERVAL '1 day'",
            "++2",
            ":foo3",
            "foo3:00:15",
            "<+00:00:02>-00:00:02",
            "..",
            "posix/",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_means_the_same_when_it_is_set() {
        for value in ["3", "-3.5", "+02:00", "interval '1:02:03'", "foo-3", "xyz5xdt", "europe/berlin", "utc"] {
            let (shown, seconds) = of(value).unwrap();
            assert_eq!(zone_of_shown(&shown).unwrap().offset_at(631_152_000_000_000), seconds, "{value}");
        }
    }
}

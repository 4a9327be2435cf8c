//! The pictures of `to_char`, `to_date` and `to_timestamp`: `YYYY-MM-DD HH24:MI:SS.US`.

use std::fmt::Write;

use super::{
    JULIAN_DAY_2000, MONTHS, WEEKDAYS, Zone, checked_date, checked_timestamp, civil_from_days, days_from_civil,
    days_in_month, is_infinite_timestamp, iso_week, local_to_instant, weekday, write_offset,
};
use crate::error::{Error, Result, SqlState};
use crate::interval::{DAY_US, Interval};
use crate::pulse;

/// The keywords of pictures, longer ones before their beginnings.
const KEYWORDS: [&str; 46] = [
    "A.D.", "A.M.", "B.C.", "P.M.", "AD", "AM", "BC", "PM", "CC", "DAY", "DDD", "DD", "DY", "D", "FF1", "FF2", "FF3",
    "FF4", "FF5", "FF6", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM", "MONTH",
    "MON", "MS", "OF", "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ", "US",
];
const MORE_KEYWORDS: [&str; 8] = ["WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y", "FX"];

/// A part of a picture.
#[derive(Debug, Clone, Copy)]
enum Part<'picture> {
    /// A keyword in upper case, as it was written, with `FM` before it, with `TH` or `th` behind it.
    Field {
        name: &'static str,
        written: &'picture str,
        fill: bool,
        ordinal: Option<bool>,
    },
    Literal(&'picture str),
    /// A literal in quotes: each character of it stands for any one when reading.
    Quoted(&'picture str),
}

/// What reading a part of a picture takes, in units of work.
const UNITS_PER_PART: usize = 50;

fn parts(picture: &str) -> Result<Vec<Part<'_>>> {
    let mut out = Vec::new();
    let mut rest = picture;
    while !rest.is_empty() {
        pulse::work(UNITS_PER_PART)?;
        let mut after = rest;
        let mut fill = true;
        let begins = |text: &str, word: &str| {
            text.len() >= word.len()
                && text.is_char_boundary(word.len())
                && text[..word.len()].eq_ignore_ascii_case(word)
        };
        while begins(after, "FM") || begins(after, "TM") {
            fill &= !begins(after, "FM");
            after = &after[2..];
        }
        let keyword = KEYWORDS.iter().chain(&MORE_KEYWORDS).find(|word| begins(after, word));
        if let Some(&name) = keyword {
            let (written, mut behind) = after.split_at(name.len());
            let mut ordinal = None;
            if begins(behind, "TH") {
                ordinal = Some(behind.starts_with('T'));
                behind = &behind[2..];
            }
            if name != "FX" {
                out.push(Part::Field { name, written, fill, ordinal });
            }
            rest = behind;
        } else if let Some(body) = rest.strip_prefix('"') {
            let end = body.find('"').unwrap_or(body.len());
            out.push(Part::Quoted(&body[..end]));
            rest = body.get(end + 1..).unwrap_or("");
        } else {
            let skip = usize::from(rest.starts_with('\\') && rest.len() > 1);
            let length = rest[skip..].chars().next().map_or(1, char::len_utf8);
            out.push(Part::Literal(&rest[skip..skip + length]));
            rest = &rest[skip + length..];
        }
    }
    Ok(out)
}

/// What `to_char` shows.
struct Shown<'a> {
    year: i64,
    month: i64,
    day: i64,
    /// Days since 2000-01-01; `None` for intervals.
    days: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    fraction: i64,
    zone: Option<(&'a Zone, i64)>,
}

/// A name in the case that the keyword is written in: `MONTH`, `Month`, `month`.
fn cased(name: &str, written: &str) -> String {
    let mut letters = written.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && second.is_uppercase() => name.to_uppercase(),
        (Some(first), _) if first.is_lowercase() => name.to_lowercase(),
        _ => name.to_owned(),
    }
}

const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

fn ordinal_ending(value: i64) -> &'static str {
    match (value.abs() / 10 % 10, value.abs() % 10) {
        (1, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

fn show(shown: &Shown<'_>, picture: &str) -> Result<String> {
    let mut out = String::new();
    let parts = parts(picture)?;
    pulse::work(UNITS_PER_PART * parts.len())?;
    for part in parts {
        let (name, written, fill, ordinal) = match part {
            Part::Literal(text) | Part::Quoted(text) => {
                out.push_str(text);
                continue;
            }
            Part::Field { name, written, fill, ordinal } => (name, written, fill, ordinal),
        };
        let no_interval = || {
            Error::new(SqlState::BAD_DATETIME, "invalid format specification for an interval value")
                .hint("Intervals are not tied to specific calendar dates.")
        };
        let days = || shown.days.ok_or_else(no_interval);
        let year = if shown.days.is_some() && shown.year <= 0 { 1 - shown.year } else { shown.year };
        let padded = |name: String, width: usize| if fill { format!("{name:<width$}") } else { name };
        // Numbers: the value and how many digits it fills; texts are written at once.
        let (value, width) = match name {
            "A.M." | "P.M." | "AM" | "PM" => {
                let text = if shown.hour.rem_euclid(24) >= 12 { "PM" } else { "AM" };
                let text = if name.contains('.') { format!("{}.M.", &text[..1]) } else { text.to_owned() };
                out.push_str(&cased(&text, written));
                continue;
            }
            "A.D." | "B.C." | "AD" | "BC" => {
                days()?;
                let text = match (shown.year <= 0, name.contains('.')) {
                    (true, true) => "B.C.",
                    (true, false) => "BC",
                    (false, true) => "A.D.",
                    (false, false) => "AD",
                };
                out.push_str(&cased(text, written));
                continue;
            }
            "DAY" | "DY" => {
                let full = WEEKDAYS[weekday(days()?) as usize];
                let text = if name == "DY" { &full[..3] } else { full };
                out.push_str(&padded(cased(text, written), if name == "DY" { 3 } else { 9 }));
                continue;
            }
            "MONTH" | "MON" => {
                days()?;
                let full = MONTHS[(shown.month - 1).clamp(0, 11) as usize];
                let text = if name == "MON" { &full[..3] } else { full };
                out.push_str(&padded(cased(text, written), if name == "MON" { 3 } else { 9 }));
                continue;
            }
            "RM" => {
                if shown.month != 0 {
                    let month = if shown.month < 0 { shown.month + 12 } else { shown.month - 1 };
                    let text = ROMAN[month.clamp(0, 11) as usize];
                    out.push_str(&padded(
                        if written.starts_with('r') { text.to_lowercase() } else { text.to_owned() },
                        4,
                    ));
                }
                continue;
            }
            "TZ" => {
                days()?;
                if let Some((zone, instant)) = shown.zone {
                    let text = zone.abbreviation_at(instant);
                    out.push_str(&if written.starts_with('t') { text.to_lowercase() } else { text });
                }
                continue;
            }
            "OF" | "TZH" | "TZM" => {
                days()?;
                let seconds = shown.zone.map_or(0, |(zone, instant)| zone.offset_at(instant));
                // Writing to a string cannot fail.
                let _ = match name {
                    "OF" => {
                        write_offset(seconds, &mut out);
                        Ok(())
                    }
                    "TZH" => write!(out, "{}{:02}", if seconds < 0 { '-' } else { '+' }, seconds.abs() / 3600),
                    _ => write!(out, "{:02}", seconds.abs() / 60 % 60),
                };
                continue;
            }
            "Y,YYY" => {
                let _ = write!(out, "{},{:03}", year / 1000, year % 1000);
                continue;
            }
            "HH24" => (shown.hour, 2),
            "HH12" | "HH" => (if shown.hour % 12 == 0 { 12 } else { shown.hour % 12 }, 2),
            "MI" => (shown.minute, 2),
            "SS" => (shown.second, 2),
            "SSSSS" | "SSSS" => (shown.hour * 3600 + shown.minute * 60 + shown.second, 0),
            "MS" | "FF3" => (shown.fraction / 1000, 3),
            "US" | "FF6" => (shown.fraction, 6),
            "FF1" => (shown.fraction / 100_000, 1),
            "FF2" => (shown.fraction / 10_000, 2),
            "FF4" => (shown.fraction / 100, 4),
            "FF5" => (shown.fraction / 10, 5),
            "DDD" => match shown.days {
                Some(days) => (days - days_from_civil(shown.year, 1, 1) + 1, 3),
                None => (shown.year * 360 + shown.month * 30 + shown.day, 3),
            },
            "DD" => (shown.day, 2),
            "D" => (weekday(days()?) + 1, 1),
            "ID" => ((weekday(days()?) + 6) % 7 + 1, 1),
            "IDDD" => {
                let (iso_year, week) = iso_week(days()?);
                let _ = iso_year;
                ((week - 1) * 7 + (weekday(days()?) + 6) % 7 + 1, 3)
            }
            "IW" => (iso_week(days()?).1, 2),
            "IYYY" | "IYY" | "IY" | "I" => {
                let iso_year = iso_week(days()?).0;
                let iso_year = if iso_year <= 0 { 1 - iso_year } else { iso_year };
                let digits = name.len() as u32;
                (if digits == 4 { iso_year } else { iso_year % 10i64.pow(digits) }, digits as usize)
            }
            "YYYY" => (year, 4),
            "YYY" => (year % 1000, 3),
            "YY" => (year % 100, 2),
            "Y" => (year % 10, 1),
            "MM" => (shown.month, 2),
            "Q" => {
                if shown.month == 0 {
                    continue;
                }
                ((shown.month - 1) / 3 + 1, 0)
            }
            "WW" => ((days()? - days_from_civil(shown.year, 1, 1)) / 7 + 1, 2),
            "W" => ((shown.day - 1) / 7 + 1, 1),
            "CC" => {
                let century = if shown.days.is_none() {
                    shown.year / 100
                } else if shown.year > 0 {
                    (shown.year - 1) / 100 + 1
                } else {
                    shown.year / 100 - 1
                };
                (century, 2)
            }
            "J" => (days()? + JULIAN_DAY_2000, 0),
            _ => continue,
        };
        if fill || matches!(name, "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6") {
            let sign = if value < 0 { "-" } else { "" };
            // The width of days has no room for a sign, as in PostgreSQL.
            let width = if value < 0 && matches!(name, "DD" | "DDD") { width - 1 } else { width };
            let _ = write!(out, "{sign}{:0width$}", value.unsigned_abs());
        } else {
            let _ = write!(out, "{value}");
        }
        if let Some(upper) = ordinal {
            let ending = ordinal_ending(value);
            out.push_str(&if upper { ending.to_uppercase() } else { ending.to_owned() });
        }
    }
    Ok(out)
}

/// `to_char` of a timestamp, given as the clocks show it; with a time zone also the zone and the instant.
pub(crate) fn timestamp_to_char(local: i64, zone: Option<(&Zone, i64)>, picture: &str) -> Result<String> {
    if is_infinite_timestamp(local) {
        return Ok(String::new());
    }
    let (days, time) = (local.div_euclid(DAY_US), local.rem_euclid(DAY_US));
    let (year, month, day) = civil_from_days(days);
    let seconds = time / 1_000_000;
    let shown = Shown {
        year,
        month,
        day,
        days: Some(days),
        hour: seconds / 3600,
        minute: seconds / 60 % 60,
        second: seconds % 60,
        fraction: time % 1_000_000,
        zone,
    };
    show(&shown, picture)
}

/// `to_char` of an interval.
pub(crate) fn interval_to_char(interval: Interval, picture: &str) -> Result<String> {
    let seconds = interval.micros / 1_000_000;
    let shown = Shown {
        year: i64::from(interval.months / 12),
        month: i64::from(interval.months % 12),
        day: i64::from(interval.days),
        days: None,
        hour: seconds / 3600,
        minute: seconds / 60 % 60,
        second: seconds % 60,
        fraction: interval.micros % 1_000_000,
        zone: None,
    };
    show(&shown, picture)
}

/// What reading by a picture has found.
#[derive(Debug, Default)]
struct Found {
    year: Option<i64>,
    bc: bool,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    julian: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_weekday: Option<i64>,
    week: Option<i64>,
    hour: i64,
    half_day: Option<bool>,
    minute: i64,
    second: i64,
    day_seconds: Option<i64>,
    micros: i64,
    zone_sign: i64,
    zone_hour: Option<i64>,
    zone_minute: i64,
    zone: Option<Zone>,
}

fn invalid(text: &str, name: &str) -> Error {
    Error::new(SqlState::BAD_DATETIME, format!("invalid value \"{text}\" for \"{name}\""))
}

fn field_out_of_range(text: &str) -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
}

/// Takes a whole number of at most `digits_max` digits off the text.
fn take_number<'text>(rest: &mut &'text str, digits_max: usize, name: &str) -> Result<(i64, &'text str)> {
    let trimmed = rest.trim_start();
    let sign = usize::from(trimmed.starts_with(['-', '+']));
    let count = trimmed[sign..].bytes().take_while(u8::is_ascii_digit).count().min(digits_max);
    if count == 0 {
        let shown: String = trimmed.chars().take(digits_max).collect();
        return Err(invalid(&shown, name).detail("Value must be an integer."));
    }
    let digits = &trimmed[..sign + count];
    *rest = &trimmed[sign + count..];
    let value = digits.parse().map_err(|_| invalid(digits, name).detail("Value must be an integer."))?;
    Ok((value, &digits[sign..]))
}

fn take_name(rest: &mut &str, names: &[&str], full: bool, field: &str) -> Result<i64> {
    let trimmed = rest.trim_start();
    // Longer names first: `MAY` is a beginning of none, but `VIII` begins with `VII`.
    let mut best: Option<(usize, usize)> = None;
    for (index, name) in names.iter().enumerate() {
        let name = if full { name } else { &name[..3] };
        let matches = trimmed.len() >= name.len()
            && trimmed.is_char_boundary(name.len())
            && trimmed[..name.len()].eq_ignore_ascii_case(name);
        if matches && best.is_none_or(|(_, length)| name.len() > length) {
            best = Some((index, name.len()));
        }
    }
    let (index, length) = best.ok_or_else(|| {
        let shown: String = trimmed.chars().take_while(|c| c.is_alphanumeric()).collect();
        invalid(&shown, field).detail("The given value did not match any of the allowed values for this field.")
    })?;
    *rest = &trimmed[length..];
    Ok(index as i64)
}

fn starts_with_digit(part: Option<&Part<'_>>) -> bool {
    // Fields side by side take only as many digits as their keywords have.
    matches!(part, Some(Part::Field { .. }))
}

fn find(text: &str, picture: &str) -> Result<Found> {
    let mut found = Found::default();
    let mut rest = text;
    let all = parts(picture)?;
    pulse::work(UNITS_PER_PART * all.len())?;
    for (index, part) in all.iter().enumerate() {
        let (name, fill, ordinal) = match *part {
            Part::Literal(literal) => {
                // A separator stands for any one, a blank for any number of them, and neither must be there.
                let is_separator = |c: char| c.is_ascii_punctuation();
                if literal.chars().all(char::is_whitespace) || literal.chars().all(is_separator) {
                    let trimmed = rest.trim_start();
                    // A sign before digits may belong to the number or the zone that follows.
                    let next_is_zone = matches!(all.get(index + 1), Some(Part::Field { name: "TZH", .. }));
                    match trimmed.chars().next() {
                        Some(c) if is_separator(c) && !next_is_zone => rest = trimmed[c.len_utf8()..].trim_start(),
                        _ => rest = trimmed,
                    }
                } else {
                    let mut chars = rest.chars();
                    chars.next();
                    rest = chars.as_str();
                }
                continue;
            }
            Part::Quoted(literal) => {
                let mut chars = rest.chars();
                for _ in literal.chars() {
                    chars.next();
                }
                rest = chars.as_str();
                continue;
            }
            Part::Field { name, fill, ordinal, .. } => (name, fill, ordinal),
        };
        if rest.trim_start().is_empty() {
            break;
        }
        let narrow = starts_with_digit(all.get(index + 1));
        let digits = |own: usize| if narrow && fill { own } else { own.max(if narrow { own } else { 9 }) };
        let short = |own: usize| if narrow { own } else { own.max(2) };
        match name {
            "YYYY" | "IYYY" => {
                let (value, _) = take_number(&mut rest, digits(4), name)?;
                *(if name == "YYYY" { &mut found.year } else { &mut found.iso_year }) = Some(value);
            }
            "Y,YYY" => {
                let (thousands, _) = take_number(&mut rest, 9, name)?;
                rest = rest.strip_prefix(',').unwrap_or(rest);
                let (units, _) = take_number(&mut rest, 3, name)?;
                found.year = Some(thousands * 1000 + units);
            }
            "YYY" | "YY" | "Y" | "IYY" | "IY" | "I" => {
                let own = name.trim_start_matches('I').len().max(usize::from(name.starts_with('I')));
                let own = if name.starts_with('I') { name.len() } else { own };
                let (value, shown) = take_number(&mut rest, if narrow { own } else { 4 }, name)?;
                // The year nearest to 2020.
                let year = match shown.len() {
                    4.. => value,
                    3 if value < 520 => value + 2000,
                    3 => value + 1000,
                    _ if value < 70 => value + 2000,
                    _ => value + 1900,
                };
                *(if name.starts_with('I') { &mut found.iso_year } else { &mut found.year }) = Some(year);
            }
            "MM" => found.month = Some(take_number(&mut rest, short(2), name)?.0),
            "MONTH" => {
                let before = rest;
                found.month = match take_name(&mut rest, &MONTHS, true, name) {
                    Ok(month) => Some(month + 1),
                    Err(error) => {
                        rest = before;
                        Some(take_name(&mut rest, &MONTHS, false, name).map_err(|_| error)? + 1)
                    }
                };
            }
            "MON" => found.month = Some(take_name(&mut rest, &MONTHS, false, name)? + 1),
            "RM" => found.month = Some(take_name(&mut rest, &ROMAN, true, name)? + 1),
            "DD" => found.day = Some(take_number(&mut rest, short(2), name)?.0),
            "DDD" | "IDDD" => found.day_of_year = Some(take_number(&mut rest, 3, name)?.0),
            "DAY" => {
                take_name(&mut rest, &WEEKDAYS, true, name)?;
            }
            "DY" => {
                take_name(&mut rest, &WEEKDAYS, false, name)?;
            }
            "D" => {
                take_number(&mut rest, 1, name)?;
            }
            "ID" => found.iso_weekday = Some(take_number(&mut rest, 1, name)?.0),
            "IW" => found.iso_week = Some(take_number(&mut rest, 2, name)?.0),
            "WW" => found.week = Some(take_number(&mut rest, 2, name)?.0),
            "W" | "CC" | "Q" => {
                take_number(&mut rest, 2, name)?;
            }
            "J" => found.julian = Some(take_number(&mut rest, 9, name)?.0),
            "HH24" => found.hour = take_number(&mut rest, 2, name)?.0,
            "HH12" | "HH" => {
                found.hour = take_number(&mut rest, 2, name)?.0;
                found.half_day.get_or_insert(false);
                if !(1..=12).contains(&found.hour) {
                    return Err(Error::new(
                        SqlState::BAD_DATETIME,
                        format!("hour \"{}\" is invalid for the 12-hour clock", found.hour),
                    )
                    .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
                }
            }
            "MI" => found.minute = take_number(&mut rest, 2, name)?.0,
            "SS" => found.second = take_number(&mut rest, 2, name)?.0,
            "SSSSS" | "SSSS" => found.day_seconds = Some(take_number(&mut rest, 5, name)?.0),
            "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let width = match name {
                    "MS" => 3,
                    "US" => 6,
                    other => usize::from(other.as_bytes()[2] - b'0'),
                };
                let (_, shown) = take_number(&mut rest, width, name)?;
                found.micros += format!("{shown:0<6}").parse::<i64>().map_err(|_| invalid(shown, name))?;
            }
            "AM" | "PM" | "A.M." | "P.M." => {
                let choices: &[&str] = if name.contains('.') { &["A.M.", "P.M."] } else { &["AM", "PM"] };
                found.half_day = Some(take_name(&mut rest, choices, true, name)? == 1);
            }
            "AD" | "BC" | "A.D." | "B.C." => {
                let choices: &[&str] = if name.contains('.') { &["A.D.", "B.C."] } else { &["AD", "BC"] };
                found.bc = take_name(&mut rest, choices, true, name)? == 1;
            }
            "TZH" => {
                let trimmed = rest.trim_start();
                found.zone_sign = if trimmed.starts_with('-') { -1 } else { 1 };
                found.zone_hour = Some(take_number(&mut rest, 2, name)?.0.abs());
            }
            "TZM" => found.zone_minute = take_number(&mut rest, 2, name)?.0,
            "TZ" | "OF" => {
                let trimmed = rest.trim_start();
                let end = trimmed.find(|c: char| c.is_whitespace()).unwrap_or(trimmed.len());
                found.zone = Some(Zone::parse(&trimmed[..end]).map_err(|_| invalid(&trimmed[..end], name))?);
                rest = &trimmed[end..];
            }
            _ => {}
        }
        if ordinal.is_some() {
            rest = rest.get(2..).unwrap_or("");
        }
    }
    Ok(found)
}

impl Found {
    /// Days since 2000-01-01.
    fn days(&self, text: &str) -> Result<i64> {
        let out = || field_out_of_range(text);
        if let Some(julian) = self.julian {
            return Ok(julian - JULIAN_DAY_2000);
        }
        if let (Some(year), Some(week)) = (self.iso_year, self.iso_week) {
            if !(1..=53).contains(&week) || year.abs() > 6_000_000 {
                return Err(out());
            }
            // The week of January 4 is the first.
            let fourth = days_from_civil(year, 1, 4);
            let monday = fourth - (weekday(fourth) + 6) % 7;
            return Ok(monday + (week - 1) * 7 + self.iso_weekday.unwrap_or(1) - 1);
        }
        let year = match (self.year, self.bc) {
            (Some(year), true) => 1 - year.abs(),
            (Some(year), false) if year < 0 => year + 1,
            (Some(year), false) => year,
            // Without a year, it is 1 BC.
            (None, _) => 0,
        };
        if year.abs() > 6_000_000 {
            return Err(out());
        }
        if let (Some(day), None, None) = (self.day_of_year, self.month, self.day) {
            let length = if days_in_month(year, 2) == 29 { 366 } else { 365 };
            if !(1..=length).contains(&day) {
                return Err(out());
            }
            return Ok(days_from_civil(year, 1, 1) + day - 1);
        }
        if let (Some(week), None, None) = (self.week, self.month, self.day) {
            return if (1..=53).contains(&week) {
                Ok(days_from_civil(year, 1, 1) + (week - 1) * 7)
            } else {
                Err(out())
            };
        }
        let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return Err(out());
        }
        Ok(days_from_civil(year, month, day))
    }

    /// Microseconds since midnight.
    fn time(&self, text: &str) -> Result<i64> {
        let out = || field_out_of_range(text);
        if let Some(seconds) = self.day_seconds {
            return if (0..86_400).contains(&seconds) { Ok(seconds * 1_000_000 + self.micros) } else { Err(out()) };
        }
        let hour = match self.half_day {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        if !(0..24).contains(&hour) || !(0..60).contains(&self.minute) || !(0..60).contains(&self.second) {
            return Err(out());
        }
        Ok(((hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + self.micros)
    }
}

/// The date that a text shows by a picture.
pub(crate) fn to_date(text: &str, picture: &str) -> Result<i32> {
    let found = find(text, picture)?;
    found.time(text)?;
    checked_date(found.days(text)?)
        .map_err(|_| Error::new(SqlState::DATETIME_OVERFLOW, format!("date out of range: \"{text}\"")))
}

/// The instant that a text shows by a picture, in `zone` if it names none.
pub(crate) fn to_timestamp(text: &str, picture: &str, zone: &Zone) -> Result<i64> {
    let found = find(text, picture)?;
    let local = i128::from(found.days(text)?) * i128::from(DAY_US) + i128::from(found.time(text)?);
    let local = checked_timestamp(local)?;
    match (&found.zone, found.zone_hour) {
        (Some(zone), _) => local_to_instant(local, zone),
        (None, Some(hours)) => {
            let seconds = found.zone_sign * (hours * 3600 + found.zone_minute * 60);
            checked_timestamp(i128::from(local) - i128::from(seconds) * 1_000_000)
        }
        (None, None) => local_to_instant(local, zone),
    }
}

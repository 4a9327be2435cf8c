//! Dates, times and timestamps: the calendar and the text forms. What their functions compute is in
//! `arithmetic`, the pictures of `to_char` and `to_timestamp` are in `picture`.
//!
//! Units: a date is days since 2000-01-01, a time microseconds since midnight, a timestamp
//! microseconds since 2000-01-01 00:00; a timestamp with time zone counts them in UTC. The calendar
//! is the proleptic Gregorian one, from 4714-11-24 BC on; timestamps go to 294276-12-31, dates to
//! 5874897-12-31. Years are counted with a year 0, which is 1 BC, everywhere but in texts.
//!
//! Invariant: no value of the types, in range or not, makes any function here panic.

use std::fmt::Write;

use crate::error::{Error, Result, SqlState};
use crate::interval::DAY_US;
use crate::letters::push_ascii;

mod arithmetic;
mod fields;
mod parse;
mod picture;
mod style;
mod time_tz;
mod words;
mod zone;
mod zone_setting;

pub use arithmetic::*;
pub use fields::{Look, fields, fraction, leading_integer};
pub use parse::{
    Fault, Parsed, clock_fields, parse_date, parse_time, parse_time_tz, parse_timestamp, parse_timestamptz,
    zone_argument,
};
pub use picture::{interval_to_char, timestamp_to_char, to_date, to_timestamp};
pub use style::{DateFormat, DateOrder, DateStyle, IntervalStyle};
pub use time_tz::TimeTz;
pub use zone::Zone;
pub use zone_setting::{ZoneFault, zone_of_setting, zone_of_shown};

/// Full names of the months; the first three letters are the short ones.
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Full names of the days of the week, from Sunday; the first three letters are the short ones.
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The abbreviations of zones, in lower case: seconds east of Greenwich at a moment, and whether it
/// is a summer time.
pub fn abbreviations_at(moment: i64) -> Vec<(&'static str, i32, bool)> {
    let meaning = |(name, stands_for)| match stands_for {
        words::Abbreviation::Offset(seconds, is_summer) => Some((name, seconds, is_summer)),
        words::Abbreviation::Zone(zone) => {
            let (seconds, is_summer) = Zone::named(zone).ok()?.meaning_of_abbreviation(name, moment);
            Some((name, seconds, is_summer))
        }
    };
    words::all_abbreviations().filter_map(meaning).collect()
}

/// Microseconds from 1970-01-01 to 2000-01-01.
pub const UNIX_EPOCH_TO_2000_US: i64 = 946_684_800_000_000;
/// Days from 1970-01-01 to 2000-01-01.
pub const UNIX_EPOCH_TO_2000_DAYS: i64 = 10_957;
/// The Julian day number of 2000-01-01.
pub const JULIAN_DAY_2000: i64 = 2_451_545;
/// 4714-11-24 BC, the first day there is.
pub const DATE_MIN: i64 = -JULIAN_DAY_2000;
/// The day after 5874897-12-31.
pub const DATE_END: i64 = 2_147_483_494 - JULIAN_DAY_2000;
/// 4714-11-24 00:00 BC.
pub const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
/// 294277-01-01 00:00.
pub const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;

/// `22008`
#[cold]
pub fn timestamp_out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range")
}

/// `22008`
#[cold]
pub fn date_out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "date out of range")
}

/// The day of a date in the calendar, as days since 2000-01-01.
#[must_use]
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March end with the leap day; 400 of them have 146,097 days.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468 - UNIX_EPOCH_TO_2000_DAYS
}

/// Year, month and day of a day given as days since 2000-01-01.
#[must_use]
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + UNIX_EPOCH_TO_2000_DAYS + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// How many days a month has.
#[must_use]
pub fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The day of the week, Sunday being 0, of a day given as days since 2000-01-01.
#[must_use]
pub fn weekday(days: i64) -> i64 {
    (days + 6).rem_euclid(7)
}

/// ISO 8601's year and week of a day given as days since 2000-01-01.
#[must_use]
pub fn iso_week(days: i64) -> (i64, i64) {
    // A week belongs to the year of its Thursday.
    let monday_from_0 = (weekday(days) + 6) % 7;
    let thursday = days - monday_from_0 + 3;
    let (year, ..) = civil_from_days(thursday);
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

/// Whether a timestamp is `infinity` or `-infinity`.
#[inline]
#[must_use]
pub fn is_infinite_timestamp(timestamp: i64) -> bool {
    timestamp == i64::MIN || timestamp == i64::MAX
}

/// Whether a date is `infinity` or `-infinity`.
#[inline]
#[must_use]
pub fn is_infinite_date(date: i32) -> bool {
    date == i32::MIN || date == i32::MAX
}

/// A timestamp, if it is in range.
#[inline]
pub fn checked_timestamp(us: i128) -> Result<i64> {
    if us >= i128::from(TIMESTAMP_MIN) && us < i128::from(TIMESTAMP_END) {
        Ok(us as i64)
    } else {
        Err(timestamp_out_of_range())
    }
}

/// A date, if it is in range.
#[inline]
pub fn checked_date(days: i64) -> Result<i32> {
    if (DATE_MIN..DATE_END).contains(&days) { Ok(days as i32) } else { Err(date_out_of_range()) }
}

/// The timestamp of a date's midnight.
pub fn date_to_timestamp(date: i32) -> Result<i64> {
    match date {
        i32::MIN => Ok(i64::MIN),
        i32::MAX => Ok(i64::MAX),
        _ => checked_timestamp(i128::from(date) * i128::from(DAY_US))
            .map_err(|_| Error::new(SqlState::DATETIME_OVERFLOW, "date out of range for timestamp")),
    }
}

/// The date of a timestamp without time zone.
#[must_use]
pub fn timestamp_to_date(local: i64) -> i32 {
    match local {
        i64::MIN => i32::MIN,
        i64::MAX => i32::MAX,
        _ => local.div_euclid(DAY_US) as i32,
    }
}

/// The instant at which a zone's clocks show a local timestamp.
pub fn local_to_instant(local: i64, zone: &Zone) -> Result<i64> {
    if is_infinite_timestamp(local) {
        return Ok(local);
    }
    checked_timestamp(i128::from(zone.to_instant(local)))
}

/// What a zone's clocks show at an instant.
pub fn instant_to_local(instant: i64, zone: &Zone) -> Result<i64> {
    if is_infinite_timestamp(instant) {
        return Ok(instant);
    }
    checked_timestamp(i128::from(zone.to_local(instant)))
}

/// What a zone's clocks show at an instant, to take parts of it: near the ends of what timestamps
/// there are, that may be no timestamp.
pub fn clocks_at(instant: i64, zone: &Zone) -> i64 {
    if is_infinite_timestamp(instant) { instant } else { zone.to_local(instant) }
}

fn write_day(days: i64, out: &mut String) -> bool {
    let (year, month, day) = civil_from_days(days);
    let (year, is_bc) = if year <= 0 { (1 - year, true) } else { (year, false) };
    let digits = |value: i64| [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
    if year < 10_000 {
        let (century, rest, month, day) = (digits(year / 100), digits(year % 100), digits(month), digits(day));
        let text = [century[0], century[1], rest[0], rest[1], b'-', month[0], month[1], b'-', day[0], day[1]];
        push_ascii(&text, out);
    } else {
        // Writing to a string cannot fail.
        let _ = write!(out, "{year:04}-{month:02}-{day:02}");
    }
    is_bc
}

/// Appends `HH:MM:SS` and the fraction without zeros at its end. The hours may be more than 24.
pub fn write_clock(us: i64, out: &mut String) {
    let (seconds, mut fraction) = (us / 1_000_000, us % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let digits = |value: i64| [b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8];
    if hours >= 100 {
        // Writing to a string cannot fail.
        let _ = write!(out, "{}", hours / 100);
    }
    let (hours, minutes, seconds) = (digits(hours), digits(minutes), digits(seconds));
    let mut text = *b"00:00:00.000000";
    (text[0], text[1], text[3], text[4]) = (hours[0], hours[1], minutes[0], minutes[1]);
    (text[6], text[7]) = (seconds[0], seconds[1]);
    let mut end = "00:00:00".len();
    if fraction != 0 {
        end = text.len();
        for place in text[9..].iter_mut().rev() {
            *place = b'0' + (fraction % 10) as u8;
            fraction /= 10;
        }
        while text[end - 1] == b'0' {
            end -= 1;
        }
    }
    push_ascii(&text[..end], out);
}

/// Appends a date: `YYYY-MM-DD`.
pub fn write_date(date: i32, out: &mut String) {
    match date {
        i32::MIN => out.push_str("-infinity"),
        i32::MAX => out.push_str("infinity"),
        _ => {
            if write_day(i64::from(date), out) {
                out.push_str(" BC");
            }
        }
    }
}

/// Appends a time: `HH:MM:SS.ffffff`.
pub fn write_time(time: i64, out: &mut String) {
    write_clock(time.clamp(0, DAY_US), out);
}

fn write_infinity(timestamp: i64, out: &mut String) -> bool {
    match timestamp {
        i64::MIN => out.push_str("-infinity"),
        i64::MAX => out.push_str("infinity"),
        _ => return false,
    }
    true
}

/// Appends a timestamp without time zone: `YYYY-MM-DD HH:MM:SS.ffffff`.
pub fn write_timestamp(local: i64, out: &mut String) {
    if write_infinity(local, out) {
        return;
    }
    let is_bc = write_day(local.div_euclid(DAY_US), out);
    out.push(' ');
    write_clock(local.rem_euclid(DAY_US), out);
    if is_bc {
        out.push_str(" BC");
    }
}

/// Appends a timestamp with time zone as the zone's clocks show it, and the offset.
pub fn write_timestamptz(instant: i64, zone: &Zone, out: &mut String) {
    if write_infinity(instant, out) {
        return;
    }
    let offset = zone.offset_at(instant);
    let local = instant.saturating_add(i64::from(offset) * 1_000_000);
    let is_bc = write_day(local.div_euclid(DAY_US), out);
    out.push(' ');
    write_clock(local.rem_euclid(DAY_US), out);
    write_offset(offset, out);
    if is_bc {
        out.push_str(" BC");
    }
}

/// Appends an offset as PostgreSQL shows it: `+00`, `-05:30`.
pub fn write_offset(seconds: i32, out: &mut String) {
    let (sign, rest) = (if seconds < 0 { b'-' } else { b'+' }, seconds.unsigned_abs());
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    if hours < 100 {
        push_ascii(&[sign, b'0' + (hours / 10) as u8, b'0' + (hours % 10) as u8], out);
    } else {
        // Writing to a string cannot fail.
        let _ = write!(out, "{}{hours}", char::from(sign));
    }
    if minutes != 0 || seconds != 0 {
        let _ = write!(out, ":{minutes:02}");
    }
    if seconds != 0 {
        let _ = write!(out, ":{seconds:02}");
    }
}

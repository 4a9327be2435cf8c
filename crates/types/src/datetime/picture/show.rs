//! `to_char` of timestamps and intervals.

use std::fmt::Write;

use super::{Field, Part, UNITS_PER_PART, parts};
use crate::datetime::{
    MONTHS, WEEKDAYS, Zone, civil_from_days, days_from_civil, is_infinite_timestamp, iso_week, weekday,
};
use crate::error::{Error, Result, SqlState};
use crate::interval::{DAY_US, Interval};
use crate::pulse;
use compact_str::{CompactString, format_compact};

/// What is shown.
struct Shown<'a> {
    year: i64,
    month: i64,
    day: i64,
    /// Days since 2000-01-01; `None` for intervals.
    days: Option<i64>,
    day_of_year: i64,
    hour: i64,
    minute: i64,
    second: i64,
    fraction: i64,
    zone: Option<(&'a Zone, i64)>,
}

const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The day of a year, a month and a day that may be out of bounds.
fn day_of_parts(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year + 4800, month + 1) } else { (year + 4799, month + 13) };
    let century = year / 100;
    let julian = year * 365 - 32_167 + year / 4 - century + century / 4 + 7834 * month / 256 + day;
    julian - crate::datetime::JULIAN_DAY_2000
}

/// The ending of a number that is shown so.
fn ordinal_ending(shown: &str) -> Result<&'static str> {
    let bytes = shown.as_bytes();
    let last = bytes.last().copied().unwrap_or(b' ');
    if !last.is_ascii_digit() {
        return Err(Error::new(SqlState::BAD_TEXT, format!("\"{shown}\" is not a number")));
    }
    let is_teen = bytes.len() > 1 && bytes[bytes.len() - 2] == b'1';
    Ok(match last {
        _ if is_teen => "th",
        b'1' => "st",
        b'2' => "nd",
        b'3' => "rd",
        _ => "th",
    })
}

/// A number as it is shown, and the ending that it may get.
enum Text {
    Number(CompactString),
    Other(String),
}

/// A number with zeros in front, up to a width.
fn digits(value: i64, width: usize) -> CompactString {
    const DIGITS_MAX: usize = 20;
    if value < 0 || width > DIGITS_MAX {
        return format_compact!("{value:0width$}");
    }
    let (mut digits, mut from, mut left) = ([b'0'; DIGITS_MAX], DIGITS_MAX, value);
    while left > 0 {
        from -= 1;
        digits[from] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let from = from.min(DIGITS_MAX - width.max(1));
    CompactString::from_utf8_lossy(&digits[from..])
}

impl Shown<'_> {
    fn days(&self) -> Result<i64> {
        self.days.ok_or_else(|| {
            Error::new(SqlState::BAD_DATETIME, "invalid format specification for an interval value")
                .hint("Intervals are not tied to specific calendar dates.")
        })
    }

    /// A year as texts have it: without a year 0, before Christ as after.
    fn shown_year(&self, year: i64) -> i64 {
        if self.days.is_some() && year <= 0 { 1 - year } else { year }
    }

    /// The day, also of what is none: an interval's parts taken for a date.
    fn day_number(&self) -> i64 {
        self.days.unwrap_or_else(|| day_of_parts(self.year, self.month, self.day))
    }

    /// The year and week of ISO 8601, and the day of that year.
    fn iso(&self) -> (i64, i64, i64) {
        if let Some(days) = self.days {
            let (year, week) = iso_week(days);
            return (year, week, (week - 1) * 7 + (weekday(days) + 6) % 7 + 1);
        }
        // An interval's parts need not be in a year's bounds.
        let first_monday = |year: i64| {
            let fourth = day_of_parts(year, 1, 4);
            fourth - (weekday(fourth) + 6) % 7
        };
        let (mut year, day) = (self.year, self.day_number());
        if day < first_monday(year) {
            year -= 1;
        }
        let mut week = (day - first_monday(year)) / 7 + 1;
        let next = self.year + 1;
        if week >= 52 && day >= first_monday(next) {
            week = (day - first_monday(next)) / 7 + 1;
            year += 1;
        }
        (year, week, day - first_monday(year) + 1)
    }

    fn field(&self, field: &Field) -> Result<Option<Text>> {
        let number = |value: i64, width: usize| {
            // The sign has a place of its own.
            let width = if value < 0 { width + 1 } else { width };
            let width = if field.fill { width } else { 0 };
            Ok(Some(Text::Number(digits(value, width))))
        };
        let exact = |value: i64, width: usize| Ok(Some(Text::Number(digits(value, width))));
        let other = |text: String| Ok(Some(Text::Other(text)));
        let cased = |text: &str| field.case.apply(text);
        let padded = |text: &str, width: usize| {
            let width = if field.fill && !field.translated { width } else { 0 };
            other(format!("{:<width$}", cased(text)))
        };
        match field.keyword.name {
            "A.M." | "P.M." => other(cased(if self.hour % 24 >= 12 { "P.M." } else { "A.M." })),
            "AM" | "PM" => other(cased(if self.hour % 24 >= 12 { "PM" } else { "AM" })),
            "A.D." | "B.C." => self.days().and_then(|_| other(cased(if self.year <= 0 { "B.C." } else { "A.D." }))),
            "AD" | "BC" => self.days().and_then(|_| other(cased(if self.year <= 0 { "BC" } else { "AD" }))),
            "DAY" => padded(WEEKDAYS[weekday(self.days()?) as usize], 9),
            "DY" => other(cased(&WEEKDAYS[weekday(self.days()?) as usize][..3])),
            "MONTH" | "MON" => {
                self.days()?;
                let full = MONTHS[(self.month - 1).clamp(0, 11) as usize];
                if field.keyword.name == "MON" { other(cased(&full[..3])) } else { padded(full, 9) }
            }
            "RM" => self.roman_month(field),
            "TZ" => {
                self.days()?;
                let Some((zone, instant)) = self.zone else { return Ok(None) };
                other(cased(&zone.abbreviation_at(instant)))
            }
            "OF" | "TZH" | "TZM" => self.zone_part(field),
            "Y,YYY" => {
                let year = self.shown_year(self.year);
                Ok(Some(Text::Number(format_compact!("{},{:03}", year / 1000, year % 1000))))
            }
            "HH24" => number(self.hour, 2),
            "HH12" | "HH" => {
                let hour = if self.hour % 12 == 0 { 12 } else { self.hour % 12 };
                // The sign's place is there for all hours before midnight.
                let width = if self.hour < 0 { 3 } else { 2 };
                exact(hour, if field.fill { width } else { 0 })
            }
            "MI" => number(self.minute, 2),
            "SS" => number(self.second, 2),
            "SSSSS" | "SSSS" => exact(self.hour * 3600 + self.minute * 60 + self.second, 0),
            "MS" | "FF3" => exact(self.fraction / 1000, 3),
            "US" | "FF6" => exact(self.fraction, 6),
            "FF1" => exact(self.fraction / 100_000, 1),
            "FF2" => exact(self.fraction / 10_000, 2),
            "FF4" => exact(self.fraction / 100, 4),
            "FF5" => exact(self.fraction / 10, 5),
            name => self.date_number(name, field.fill),
        }
    }

    /// The numbers of dates.
    fn date_number(&self, name: &str, fill: bool) -> Result<Option<Text>> {
        let exact = |value: i64, width: usize| Ok(Some(Text::Number(digits(value, width))));
        let filled = |value: i64, width: usize| exact(value, if fill { width } else { 0 });
        let signed = |value: i64, width: usize| filled(value, if value < 0 { width + 1 } else { width });
        let year_of = |year: i64, digits: usize| {
            let year = self.shown_year(year);
            // The plain year says whether there is a place for a sign.
            let width = if self.shown_year(self.year) < 0 { digits + 1 } else { digits };
            filled(if digits == 4 { year } else { year % 10i64.pow(digits as u32) }, width)
        };
        match name {
            "DDD" => filled(self.day_of_year, 3),
            "IDDD" => filled(self.iso().2, 3),
            "DD" => filled(self.day, 2),
            "D" => exact(weekday(self.days()?) + 1, 0),
            "ID" => exact((weekday(self.days()?) + 6) % 7 + 1, 0),
            "WW" => filled((self.day_of_year - 1) / 7 + 1, 2),
            "IW" => filled(self.iso().1, 2),
            "Q" if self.month == 0 => Ok(None),
            "Q" => exact((self.month - 1) / 3 + 1, 0),
            "CC" => {
                let century = match (self.days, self.year) {
                    (None, year) => year / 100,
                    (_, 1..) => (self.year - 1) / 100 + 1,
                    _ => self.year / 100 - 1,
                };
                if century.abs() <= 99 { signed(century, 2) } else { exact(century, 0) }
            }
            "YYYY" => year_of(self.year, 4),
            "YYY" => year_of(self.year, 3),
            "YY" => year_of(self.year, 2),
            "Y" => exact(self.shown_year(self.year) % 10, 1),
            "IYYY" => year_of(self.iso().0, 4),
            "IYY" => year_of(self.iso().0, 3),
            "IY" => year_of(self.iso().0, 2),
            "I" => exact(self.shown_year(self.iso().0) % 10, 1),
            "MM" => signed(self.month, 2),
            "W" => exact((self.day - 1) / 7 + 1, 0),
            "J" => exact(self.day_number() + crate::datetime::JULIAN_DAY_2000, 0),
            // FX says how to read.
            _ => Ok(None),
        }
    }

    /// Of an interval of whole years, it is the twelfth month; months before are counted from the
    /// year's end.
    fn roman_month(&self, field: &Field) -> Result<Option<Text>> {
        let index = match (self.month, self.year) {
            (0, 0) => return Ok(None),
            (0, 1..) => 11,
            (0, _) => 0,
            (month @ ..0, _) => 12 + month,
            (month, _) => month - 1,
        };
        let width = if field.fill { 4 } else { 0 };
        Ok(Some(Text::Other(format!("{:<width$}", field.case.apply(ROMAN[index.clamp(0, 11) as usize])))))
    }

    fn zone_part(&self, field: &Field) -> Result<Option<Text>> {
        self.days()?;
        let seconds = self.zone.map_or(0, |(zone, instant)| zone.offset_at(instant));
        let (sign, rest) = (if seconds < 0 { '-' } else { '+' }, seconds.abs());
        let (hours, minutes) = (rest / 3600, rest / 60 % 60);
        Ok(Some(Text::Other(match field.keyword.name {
            "TZH" => format!("{sign}{hours:02}"),
            "TZM" => format!("{minutes:02}"),
            _ => {
                let width = if field.fill { 2 } else { 0 };
                let mut text = format!("{sign}{hours:0width$}");
                if rest % 3600 != 0 {
                    // Writing to a string cannot fail.
                    let _ = write!(text, ":{minutes:02}");
                }
                text
            }
        })))
    }

    fn show(&self, picture: &str) -> Result<String> {
        let mut out = String::with_capacity(picture.len());
        for part in parts(picture)?.iter() {
            pulse::work(UNITS_PER_PART)?;
            match part {
                Part::Separator(c) | Part::Blank(c) | Part::Char(c) => out.push(*c),
                Part::Field(field) => match (self.field(field)?, field.ordinal) {
                    (None, _) => {}
                    (Some(Text::Number(text)), Some(upper)) => {
                        let ending = ordinal_ending(&text)?;
                        out.push_str(&text);
                        out.push_str(&if upper { ending.to_ascii_uppercase() } else { ending.to_owned() });
                    }
                    (Some(Text::Number(text)), None) => out.push_str(&text),
                    (Some(Text::Other(text)), _) => out.push_str(&text),
                },
            }
        }
        Ok(out)
    }
}

/// `to_char` of a timestamp, given as the clocks show it; with a time zone also the zone and the
/// instant.
pub fn timestamp_to_char(local: i64, zone: Option<(&Zone, i64)>, picture: &str) -> Result<String> {
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
        day_of_year: days - days_from_civil(year, 1, 1) + 1,
        hour: seconds / 3600,
        minute: seconds / 60 % 60,
        second: seconds % 60,
        fraction: time % 1_000_000,
        zone,
    };
    shown.show(picture)
}

/// `to_char` of an interval.
pub fn interval_to_char(interval: Interval, picture: &str) -> Result<String> {
    let seconds = interval.micros / 1_000_000;
    let (year, month) = (i64::from(interval.months / 12), i64::from(interval.months % 12));
    let day = i64::from(interval.days);
    let shown = Shown {
        year,
        month,
        day,
        days: None,
        // All of it, with months of 30 days.
        day_of_year: (year * 12 + month) * 30 + day,
        hour: seconds / 3600,
        minute: seconds / 60 % 60,
        second: seconds % 60,
        fraction: interval.micros % 1_000_000,
        zone: None,
    };
    shown.show(picture)
}

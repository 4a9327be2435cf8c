//! The settings DateStyle and IntervalStyle: how dates, timestamps and intervals are written, and in
//! which order the numbers of a date are read.
//!
//! ```text
//! format    date          timestamp with time zone (MDY)
//! ISO       2001-02-16    2001-02-16 20:38:40.12-08
//! SQL       02/16/2001    02/16/2001 20:38:40.12 PST
//! Postgres  02-16-2001    Fri Feb 16 20:38:40.12 2001 PST
//! German    16.02.2001    16.02.2001 20:38:40.12 PST
//! ```
//! With DMY the day stands before the month in SQL and Postgres, too.

use std::fmt::Write;

use super::{
    MONTHS, WEEKDAYS, Zone, civil_from_days, timestamp_to_char, weekday, write_clock, write_date, write_infinity,
    write_timestamp, write_timestamptz,
};
use crate::interval::{DAY_US, Interval};

/// The form of dates and timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DateFormat {
    /// As ISO 8601 has it, with a blank before the time.
    #[default]
    Iso,
    /// With slashes.
    Sql,
    /// As `date` of Unix has it.
    Postgres,
    /// With points.
    German,
}

/// The order of the numbers of a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DateOrder {
    /// Month, day, year.
    #[default]
    Mdy,
    /// Day, month, year.
    Dmy,
    /// Year, month, day.
    Ymd,
}

/// The setting `DateStyle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DateStyle {
    /// How they are written.
    pub format: DateFormat,
    /// How they are read.
    pub order: DateOrder,
}

/// The setting `IntervalStyle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`
    PostgresVerbose,
    /// `+1-2 +3 +4:05:06`
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`
    Iso8601,
}

impl DateStyle {
    /// The style that the setting's words name; the form and the order that no word names are those
    /// of `self`. The word that is none, if one is.
    ///
    /// # Errors
    /// The word that is unknown, or that contradicts one before it (`None`).
    pub fn with_words(mut self, words: &[String]) -> std::result::Result<Self, Option<&str>> {
        let (mut format, mut order) = (None, None);
        for word in words {
            let lower = word.to_ascii_lowercase();
            // As many letters are looked at as tell the words apart.
            let found = match lower.as_str() {
                "iso" => (Some(DateFormat::Iso), None),
                "sql" => (Some(DateFormat::Sql), None),
                "german" => (Some(DateFormat::German), None),
                "ymd" => (None, Some(DateOrder::Ymd)),
                "dmy" => (None, Some(DateOrder::Dmy)),
                "mdy" | "us" => (None, Some(DateOrder::Mdy)),
                "default" => (Some(DateFormat::Iso), Some(DateOrder::Mdy)),
                _ if lower.starts_with("postgres") => (Some(DateFormat::Postgres), None),
                _ if lower.starts_with("euro") => (None, Some(DateOrder::Dmy)),
                _ if lower.starts_with("noneuro") => (None, Some(DateOrder::Mdy)),
                _ => return Err(Some(word)),
            };
            if found.0.is_some_and(|new| format.is_some_and(|old| old != new))
                || found.1.is_some_and(|new| order.is_some_and(|old| old != new))
            {
                return Err(None);
            }
            (format, order) = (found.0.or(format), found.1.or(order));
            // Germans write the day first, unless another order is asked for.
            if lower == "german" && order.is_none() && !words.iter().any(|word| is_order(word)) {
                order = Some(DateOrder::Dmy);
            }
        }
        self.format = format.unwrap_or(self.format);
        self.order = order.unwrap_or(self.order);
        Ok(self)
    }

    /// As SHOW gives it.
    #[must_use]
    pub const fn shown(self) -> &'static str {
        match (self.format, self.order) {
            (DateFormat::Iso, DateOrder::Mdy) => "ISO, MDY",
            (DateFormat::Iso, DateOrder::Dmy) => "ISO, DMY",
            (DateFormat::Iso, DateOrder::Ymd) => "ISO, YMD",
            (DateFormat::Sql, DateOrder::Mdy) => "SQL, MDY",
            (DateFormat::Sql, DateOrder::Dmy) => "SQL, DMY",
            (DateFormat::Sql, DateOrder::Ymd) => "SQL, YMD",
            (DateFormat::Postgres, DateOrder::Mdy) => "Postgres, MDY",
            (DateFormat::Postgres, DateOrder::Dmy) => "Postgres, DMY",
            (DateFormat::Postgres, DateOrder::Ymd) => "Postgres, YMD",
            (DateFormat::German, DateOrder::Mdy) => "German, MDY",
            (DateFormat::German, DateOrder::Dmy) => "German, DMY",
            (DateFormat::German, DateOrder::Ymd) => "German, YMD",
        }
    }

    /// What [`DateStyle::shown`] gave.
    #[must_use]
    pub fn of_shown(shown: &str) -> Self {
        let words: Vec<String> = shown.split(", ").map(str::to_owned).collect();
        Self::default().with_words(&words).unwrap_or_default()
    }

    /// Appends a date.
    pub fn write_date(self, date: i32, out: &mut String) {
        match date {
            i32::MIN | i32::MAX => write_date(date, out),
            _ if self.format == DateFormat::Iso => write_date(date, out),
            _ => {
                let (year, month, day) = civil_from_days(i64::from(date));
                self.write_day(year, month, day, out);
                write_era(year, out);
            }
        }
    }

    /// Day, month and year with what is between them; not the era.
    fn write_day(self, year: i64, month: i64, day: i64, out: &mut String) {
        let year = if year <= 0 { 1 - year } else { year };
        let (sign, day_first) = match self.format {
            DateFormat::German => ('.', true),
            DateFormat::Sql => ('/', self.order == DateOrder::Dmy),
            _ => ('-', self.order == DateOrder::Dmy),
        };
        let (first, second) = if day_first { (day, month) } else { (month, day) };
        // Writing to a string cannot fail.
        let _ = write!(out, "{first:02}{sign}{second:02}{sign}{year:04}");
    }

    /// Appends a timestamp without time zone.
    pub fn write_timestamp(self, local: i64, out: &mut String) {
        if self.format == DateFormat::Iso || super::is_infinite_timestamp(local) {
            return write_timestamp(local, out);
        }
        self.write_moment(local, None, out);
    }

    /// Appends a timestamp with time zone as the zone's clocks show it.
    pub fn write_timestamptz(self, instant: i64, zone: &Zone, out: &mut String) {
        if self.format == DateFormat::Iso || write_infinity(instant, out) {
            if self.format == DateFormat::Iso {
                write_timestamptz(instant, zone, out);
            }
            return;
        }
        self.write_moment(zone.to_local(instant), Some((zone, instant)), out);
    }

    fn write_moment(self, local: i64, zone: Option<(&Zone, i64)>, out: &mut String) {
        let (days, time) = (local.div_euclid(DAY_US), local.rem_euclid(DAY_US));
        let (year, month, day) = civil_from_days(days);
        if self.format == DateFormat::Postgres {
            let weekday = WEEKDAYS[weekday(days) as usize];
            let month = MONTHS[month as usize - 1];
            let _ = if self.order == DateOrder::Dmy {
                write!(out, "{} {day:02} {} ", &weekday[..3], &month[..3])
            } else {
                write!(out, "{} {} {day:02} ", &weekday[..3], &month[..3])
            };
            write_clock(time, out);
            let _ = write!(out, " {:04}", if year <= 0 { 1 - year } else { year });
        } else {
            self.write_day(year, month, day, out);
            out.push(' ');
            write_clock(time, out);
        }
        if let Some((zone, instant)) = zone {
            out.push(' ');
            // What the zone is called at the moment.
            out.push_str(&timestamp_to_char(local, Some((zone, instant)), "TZ").unwrap_or_default());
        }
        write_era(year, out);
    }
}

fn is_order(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    matches!(lower.as_str(), "ymd" | "dmy" | "mdy" | "us" | "default")
        || lower.starts_with("euro")
        || lower.starts_with("noneuro")
}

fn write_era(year: i64, out: &mut String) {
    if year <= 0 {
        out.push_str(" BC");
    }
}

/// The parts of an interval, each with its sign.
struct Parts {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    seconds: i64,
    micros: i64,
}

impl Parts {
    fn of(interval: Interval) -> Self {
        let seconds = interval.micros / 1_000_000;
        Self {
            years: i64::from(interval.months / 12),
            months: i64::from(interval.months % 12),
            days: i64::from(interval.days),
            hours: seconds / 3600,
            minutes: seconds / 60 % 60,
            seconds: seconds % 60,
            micros: interval.micros % 1_000_000,
        }
    }

    /// Seconds and their fraction, without the sign.
    fn write_seconds(&self, width: usize, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = write!(out, "{:0width$}", self.seconds.unsigned_abs());
        if self.micros != 0 {
            let _ = write!(out, ".{:06}", self.micros.unsigned_abs());
            out.truncate(out.trim_end_matches('0').len());
        }
    }

    fn write_sql_standard(&self, out: &mut String) {
        let all = [self.years, self.months, self.days, self.hours, self.minutes, self.seconds, self.micros];
        let (has_negative, has_positive) = (all.iter().any(|&part| part < 0), all.iter().any(|&part| part > 0));
        let has_months = self.years != 0 || self.months != 0;
        let has_time = all[2..].iter().any(|&part| part != 0);
        let [years, months, days, hours, minutes] = [0, 1, 2, 3, 4].map(|at| all[at].unsigned_abs());
        if !has_negative && !has_positive {
            out.push('0');
            return;
        }
        // Writing to a string cannot fail.
        if has_negative && has_positive || has_months && has_time {
            // One sign does not say it all: every group has its own.
            let sign = |parts: &[i64]| if parts.iter().any(|&part| part < 0) { '-' } else { '+' };
            let (of_months, of_days, of_time) = (sign(&all[..2]), sign(&all[2..3]), sign(&all[3..]));
            let _ = write!(out, "{of_months}{years}-{months} {of_days}{days} {of_time}{hours}:{minutes:02}:");
            return self.write_seconds(2, out);
        }
        if has_negative {
            out.push('-');
        }
        let _ = if has_months {
            write!(out, "{years}-{months}")
        } else if days != 0 {
            write!(out, "{days} {hours}:{minutes:02}:")
        } else {
            write!(out, "{hours}:{minutes:02}:")
        };
        if !has_months {
            self.write_seconds(2, out);
        }
    }

    fn write_iso_8601(&self, out: &mut String) {
        let start = out.len();
        out.push('P');
        let part = |value: i64, unit: char, out: &mut String| {
            if value != 0 {
                let _ = write!(out, "{value}{unit}");
            }
        };
        part(self.years, 'Y', out);
        part(self.months, 'M', out);
        part(self.days, 'D', out);
        let has_seconds = self.seconds != 0 || self.micros != 0;
        if self.hours != 0 || self.minutes != 0 || has_seconds {
            out.push('T');
        }
        part(self.hours, 'H', out);
        part(self.minutes, 'M', out);
        if has_seconds {
            if self.seconds < 0 || self.micros < 0 {
                out.push('-');
            }
            self.write_seconds(1, out);
            out.push('S');
        }
        if out.len() == start + 1 {
            out.push_str("T0S");
        }
    }

    fn write_verbose(&self, out: &mut String) {
        out.push('@');
        // The sign of the first part that is there is that of the whole.
        let (mut is_zero, mut is_before) = (true, false);
        for (value, unit) in [
            (self.years, "year"),
            (self.months, "mon"),
            (self.days, "day"),
            (self.hours, "hour"),
            (self.minutes, "min"),
        ] {
            if value == 0 {
                continue;
            }
            if is_zero {
                is_before = value < 0;
            }
            let value = if is_before { -value } else { value };
            let _ = write!(out, " {value} {unit}{}", if value == 1 { "" } else { "s" });
            is_zero = false;
        }
        if self.seconds != 0 || self.micros != 0 {
            out.push(' ');
            let negative = self.seconds < 0 || self.micros < 0;
            if negative && is_zero {
                is_before = true;
            } else if negative != is_before {
                out.push('-');
            }
            self.write_seconds(1, out);
            out.push_str(if self.seconds.abs() != 1 || self.micros != 0 { " secs" } else { " sec" });
            is_zero = false;
        }
        if is_zero {
            out.push_str(" 0");
        }
        if is_before {
            out.push_str(" ago");
        }
    }
}

impl IntervalStyle {
    /// The style of a name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "postgres_verbose" => Self::PostgresVerbose,
            "sql_standard" => Self::SqlStandard,
            "iso_8601" => Self::Iso8601,
            _ => Self::Postgres,
        }
    }

    /// Appends an interval.
    pub fn write(self, interval: Interval, out: &mut String) {
        let parts = Parts::of(interval);
        match self {
            Self::Postgres => interval.write(out),
            Self::PostgresVerbose => parts.write_verbose(out),
            Self::SqlStandard => parts.write_sql_standard(out),
            Self::Iso8601 => parts.write_iso_8601(out),
        }
    }
}

//! Dates and times on a path: what `.datetime()` makes of texts.

use std::cmp::Ordering;

use crate::datetime;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};

/// A date, a time or both. Times with a zone keep its offset, in seconds east of Greenwich.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Moment {
    Date(i32),
    Time(i64),
    /// Microseconds of the day there.
    TimeTz(i64, i32),
    Timestamp(i64),
    /// Microseconds since 2000-01-01 UTC.
    TimestampTz(i64, i32),
}

const SECOND_US: i64 = 1_000_000;

/// Digits at the beginning of a text, as a number, and what follows.
fn number(text: &str, digits_max: usize) -> Option<(i64, &str)> {
    let count = text.bytes().take(digits_max).take_while(u8::is_ascii_digit).count();
    let number = text.get(..count)?.parse().ok()?;
    Some((number, &text[count..]))
}

fn date(text: &str) -> Option<(i32, &str)> {
    let (year, rest) = number(text, 6)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 2)?;
    Some((datetime::make_date(year, month, day).ok()?, rest))
}

/// A time of day and the offset of a zone, if there is one.
fn time(text: &str) -> Option<(i64, Option<i32>)> {
    let (hour, rest) = number(text, 2)?;
    let (minute, rest) = number(rest.strip_prefix(':')?, 2)?;
    let (second, rest) = number(rest.strip_prefix(':')?, 2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (micros, rest) = match rest.strip_prefix('.') {
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (fraction, _) = number(&rest[..digits.min(6)], 6)?;
            (fraction * 10_i64.pow(6 - digits.min(6) as u32), &rest[digits..])
        }
        None => (0, rest),
    };
    let time = ((hour * 60 + minute) * 60 + second) * SECOND_US + micros;
    let rest = crate::letters::trim_start(rest);
    let sign = match rest.chars().next() {
        None => return Some((time, None)),
        Some('+') => 1,
        Some('-') => -1,
        Some(_) => return None,
    };
    let (hours, rest) = number(&rest[1..], 2)?;
    let (minutes, rest) = match rest.strip_prefix(':') {
        Some(rest) => number(rest, 2)?,
        None => (0, rest),
    };
    let offset = sign * (hours * 3600 + minutes * 60);
    (rest.is_empty() && hours < 16 && minutes < 60).then_some((time, Some(offset as i32)))
}

fn on_day(date: i32, time: i64, offset: Option<i32>) -> Option<Moment> {
    let local = datetime::date_to_timestamp(date).ok()?.checked_add(time)?;
    Some(match offset {
        None => Moment::Timestamp(local),
        Some(offset) => Moment::TimestampTz(local - i64::from(offset) * SECOND_US, offset),
    })
}

/// A text in one of the forms of ISO 8601.
fn iso(text: &str) -> Option<Moment> {
    if let Some((date, rest)) = date(text) {
        if rest.is_empty() {
            return Some(Moment::Date(date));
        }
        let (time, offset) = time(rest.strip_prefix(['T', 't', ' '])?)?;
        return on_day(date, time, offset);
    }
    let (time, offset) = time(text)?;
    Some(offset.map_or(Moment::Time(time), |offset| Moment::TimeTz(time, offset)))
}

/// A text in the form that a template tells.
fn by_template(text: &str, template: &str) -> Result<Moment> {
    let lower = template.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    let has_time = has(&["hh", "mi", "ss", "ms", "us", "ff", "am", "pm"]);
    let has_date = has(&["y", "mm", "mon", "dd", "day", "iw", "ww", "j", "id", "q"]);
    let instant = datetime::to_timestamp(text, template, &datetime::Zone::Utc)?;
    let (date, time) = (datetime::timestamp_to_date(instant), instant.rem_euclid(86_400 * SECOND_US));
    // The zone stands at the end of the text.
    let zone = || {
        let at = text.rfind(['+', '-'])?;
        let (hours, rest) = number(&text[at + 1..], 2)?;
        let minutes = rest.strip_prefix(':').and_then(|rest| number(rest, 2)).map_or(0, |(minutes, _)| minutes);
        let offset = hours * 3600 + minutes * 60;
        Some(if text[at..].starts_with('-') { -offset } else { offset } as i32)
    };
    let offset = if lower.contains("tzh") { zone() } else { None };
    Ok(match (has_date, has_time, offset) {
        (true, false, _) => Moment::Date(date),
        (false, true, None) => Moment::Time(time),
        (false, true, Some(offset)) => {
            Moment::TimeTz((time + i64::from(offset) * SECOND_US).rem_euclid(86_400 * SECOND_US), offset)
        }
        (_, _, Some(offset)) => Moment::TimestampTz(instant, offset),
        _ => Moment::Timestamp(instant),
    })
}

/// What `.datetime()` makes of a text.
pub(super) fn read(text: &str, template: Option<&str>) -> Result<Moment> {
    match template {
        Some(template) => by_template(text, template),
        None => iso(text).ok_or_else(|| {
            Error::new(SqlState("22031"), format!("datetime format is not recognized: \"{text}\""))
                .hint("Use a datetime template argument to specify the input data format.")
        }),
    }
}

impl Moment {
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Date(_) => "date",
            Self::Time(_) => "time without time zone",
            Self::TimeTz(..) => "time with time zone",
            Self::Timestamp(_) => "timestamp without time zone",
            Self::TimestampTz(..) => "timestamp with time zone",
        }
    }

    fn short_name(self) -> &'static str {
        match self {
            Self::Date(_) => "date",
            Self::Time(_) => "time",
            Self::TimeTz(..) => "timetz",
            Self::Timestamp(_) => "timestamp",
            Self::TimestampTz(..) => "timestamptz",
        }
    }

    /// Its text in JSON.
    pub(super) fn text(self) -> String {
        let offset = |seconds: i32, out: &mut String| {
            let minutes = seconds.abs() / 60;
            let sign = if seconds < 0 { '-' } else { '+' };
            out.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
        };
        let mut out = String::new();
        match self {
            Self::Date(date) => datetime::write_date(date, &mut out),
            Self::Time(time) => datetime::write_time(time, &mut out),
            Self::TimeTz(time, seconds) => {
                datetime::write_time(time, &mut out);
                offset(seconds, &mut out);
            }
            Self::Timestamp(local) => datetime::write_timestamp(local, &mut out),
            Self::TimestampTz(instant, seconds) => {
                datetime::write_timestamp(instant + i64::from(seconds) * SECOND_US, &mut out);
                offset(seconds, &mut out);
            }
        }
        match self {
            Self::Timestamp(_) | Self::TimestampTz(..) => out.replacen(' ', "T", 1),
            _ => out,
        }
    }

    /// The instant that a moment without a zone is in the session's.
    fn instant(self, other: Self, zone: Option<&datetime::Zone>) -> Result<i64> {
        let local = match self {
            Self::TimestampTz(instant, _) => return Ok(instant),
            Self::Timestamp(local) => local,
            Self::Date(date) => datetime::date_to_timestamp(date)?,
            _ => return Err(Error::internal("a time of day is no instant")),
        };
        let zone = zone.ok_or_else(|| self.needs_zone(other))?;
        datetime::local_to_instant(local, zone)
    }

    #[cold]
    fn needs_zone(self, other: Self) -> Error {
        let (from, to) = (self.short_name(), other.short_name());
        let message = format!("cannot convert value from {from} to {to} without time zone usage");
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint("Use *_tz() function for time zone support.")
    }

    /// The order of two; `None` if they have none. `zone` is there if it may be used.
    pub(super) fn compare(self, other: Self, zone: Option<&datetime::Zone>, env: &Env) -> Result<Option<Ordering>> {
        use Moment::{Date, Time, TimeTz, Timestamp, TimestampTz};
        Ok(Some(match (self, other) {
            (Date(a), Date(b)) => a.cmp(&b),
            (Time(a), Time(b)) | (Timestamp(a), Timestamp(b)) => a.cmp(&b),
            (Date(a), Timestamp(b)) => datetime::date_to_timestamp(a)?.cmp(&b),
            (Timestamp(a), Date(b)) => a.cmp(&datetime::date_to_timestamp(b)?),
            (TimestampTz(..), Date(_) | Timestamp(_) | TimestampTz(..)) | (Date(_) | Timestamp(_), TimestampTz(..)) => {
                self.instant(other, zone)?.cmp(&other.instant(self, zone)?)
            }
            (Time(_) | TimeTz(..), Time(_) | TimeTz(..)) => {
                let at = |moment: Self, other: Self| match moment {
                    TimeTz(time, offset) => Ok((time - i64::from(offset) * SECOND_US, -offset)),
                    Time(time) => {
                        let zone = zone.ok_or_else(|| moment.needs_zone(other))?;
                        let offset = zone.offset_at(env.statement_us);
                        Ok((time - i64::from(offset) * SECOND_US, -offset))
                    }
                    _ => Err(Error::internal("no time of day")),
                };
                at(self, other)?.cmp(&at(other, self)?)
            }
            _ => return Ok(None),
        }))
    }
}

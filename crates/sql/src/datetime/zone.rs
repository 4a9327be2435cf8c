//! Time zones: UTC and fixed offsets without any table, the others from the system's tzdata or the copy built in.

use std::fmt;
use std::sync::Arc;

use jiff::tz::{AmbiguousOffset, TimeZone};

use super::UNIX_EPOCH_TO_2000_US;
use crate::error::{Error, Result, SqlState};

/// A time zone.
#[derive(Debug, Clone)]
pub enum Zone {
    /// UTC.
    Utc,
    /// A fixed offset, in seconds east of Greenwich.
    Fixed(i32),
    /// A zone with a history, and its name.
    Named(Arc<(String, TimeZone)>),
}

/// Seconds of 400 years, after which the calendar repeats with its weekdays.
const CYCLE_SECONDS: i64 = 146_097 * 86_400;
/// Beyond these the library has no times: the last and first second of the years 9998 and -4713 from 1970.
const LIBRARY_MAX: i64 = 253_370_764_800;
const LIBRARY_MIN: i64 = -210_929_832_000;

impl Zone {
    /// Reads a zone: a name of the tz database, `UTC`, an abbreviation such as `EST`, an offset such as `+02` or
    /// `-05:30` (east of Greenwich positive), or a POSIX specification such as `EST5EDT`.
    pub fn parse(name: &str) -> Result<Self> {
        let bad = || Error::new(SqlState::BAD_PARAMETER, format!("time zone \"{name}\" not recognized"));
        let trimmed = name.trim();
        if ["utc", "gmt", "z", "zulu", "etc/utc", "uct"].iter().any(|known| trimmed.eq_ignore_ascii_case(known)) {
            return Ok(Self::Utc);
        }
        if let Some(seconds) = parse_offset(trimmed) {
            return Ok(if seconds == 0 { Self::Utc } else { Self::Fixed(seconds) });
        }
        if let Some(seconds) = abbreviation(trimmed) {
            return Ok(Self::Fixed(seconds));
        }
        if trimmed.is_empty() || trimmed.starts_with(['/', '.']) || trimmed.contains("..") {
            return Err(bad());
        }
        if let Ok(zone) = jiff::tz::db().get(trimmed) {
            let name = zone.iana_name().unwrap_or(trimmed).to_owned();
            return Ok(Self::Named(Arc::new((name, zone))));
        }
        let zone = TimeZone::posix(trimmed).map_err(|_| bad())?;
        Ok(Self::Named(Arc::new((trimmed.to_owned(), zone))))
    }

    /// Its name, as SHOW gives it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Utc => "UTC".to_owned(),
            Self::Fixed(seconds) => {
                let mut text = String::new();
                super::write_offset(*seconds, &mut text);
                text
            }
            Self::Named(named) => named.0.clone(),
        }
    }

    /// Seconds east of Greenwich at an instant, in microseconds since 2000 UTC.
    #[inline]
    #[must_use]
    pub fn offset_at(&self, instant_us: i64) -> i32 {
        match self {
            Self::Utc => 0,
            Self::Fixed(seconds) => *seconds,
            Self::Named(named) => match library_timestamp(instant_us) {
                Some(timestamp) => named.1.to_offset(timestamp).seconds(),
                None => 0,
            },
        }
    }

    /// The zone's abbreviation at an instant, as `to_char`'s TZ gives it.
    #[must_use]
    pub fn abbreviation_at(&self, instant_us: i64) -> String {
        match self {
            Self::Utc => "UTC".to_owned(),
            Self::Fixed(_) => self.name(),
            Self::Named(named) => match library_timestamp(instant_us) {
                Some(timestamp) => named.1.to_offset_info(timestamp).abbreviation().to_owned(),
                None => named.0.clone(),
            },
        }
    }

    /// The instant at which the zone's clocks show a local time, both in microseconds since 2000. Of a time that comes
    /// twice it is the later one (standard time); a time that is left out counts as if the clocks had not changed yet.
    #[must_use]
    pub fn to_instant(&self, local_us: i64) -> i64 {
        let offset = match self {
            Self::Utc => 0,
            Self::Fixed(seconds) => *seconds,
            Self::Named(named) => match library_datetime(local_us) {
                Some(local) => match named.1.to_ambiguous_timestamp(local).offset() {
                    AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
                    AmbiguousOffset::Gap { before, .. } => before.seconds(),
                    AmbiguousOffset::Fold { after, .. } => after.seconds(),
                },
                None => 0,
            },
        };
        local_us.saturating_sub(i64::from(offset) * 1_000_000)
    }

    /// The local time at an instant, both in microseconds since 2000.
    #[inline]
    #[must_use]
    pub fn to_local(&self, instant_us: i64) -> i64 {
        match self {
            Self::Utc => instant_us,
            _ => instant_us.saturating_add(i64::from(self.offset_at(instant_us)) * 1_000_000),
        }
    }
}

/// Seconds since 1970, moved by whole cycles of 400 years into what the library knows.
fn into_library(us: i64) -> i64 {
    let seconds = us.saturating_add(UNIX_EPOCH_TO_2000_US).div_euclid(1_000_000);
    if seconds > LIBRARY_MAX {
        seconds - ((seconds - LIBRARY_MAX) / CYCLE_SECONDS + 1) * CYCLE_SECONDS
    } else {
        seconds.max(LIBRARY_MIN)
    }
}

fn library_timestamp(us: i64) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_second(into_library(us)).ok()
}

fn library_datetime(us: i64) -> Option<jiff::civil::DateTime> {
    // A local time is what UTC's clocks show at the instant of the same number.
    library_timestamp(us).map(|timestamp| jiff::tz::Offset::UTC.to_datetime(timestamp))
}

/// Seconds east of `+05`, `-05:30`, `+0530`, `+05:30:15`.
pub(super) fn parse_offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes() {
        [b'+', ..] => (1, &text[1..]),
        [b'-', ..] => (-1, &text[1..]),
        _ => return None,
    };
    let number = |part: &str| -> Option<i32> {
        (!part.is_empty() && part.len() <= 6 && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse().ok())
            .flatten()
    };
    let mut parts = digits.split(':');
    let first = parts.next()?;
    let (mut hours, mut minutes, mut seconds) = (number(first)?, 0, 0);
    match (parts.next(), parts.next(), parts.next()) {
        (None, ..) if first.len() > 2 => {
            if first.len() > 4 {
                (hours, minutes, seconds) = (hours / 10_000, hours / 100 % 100, hours % 100);
            } else {
                (hours, minutes) = (hours / 100, hours % 100);
            }
        }
        (None, ..) => {}
        (Some(part), None, _) => minutes = number(part)?,
        (Some(part), Some(next), None) => (minutes, seconds) = (number(part)?, number(next)?),
        _ => return None,
    }
    (hours <= 15 && minutes < 60 && seconds < 60).then_some(sign * (hours * 3600 + minutes * 60 + seconds))
}

/// Seconds east of the abbreviations that PostgreSQL knows by default and that are in wide use.
pub(super) fn abbreviation(text: &str) -> Option<i32> {
    const HOUR: i32 = 3600;
    let upper = text.to_ascii_uppercase();
    Some(match upper.as_str() {
        "UTC" | "GMT" | "Z" | "ZULU" | "WET" | "UT" | "UCT" => 0,
        "BST" | "CET" | "MET" | "WEST" | "WETDST" => HOUR,
        "CEST" | "MEST" | "EET" | "SAST" | "CETDST" => 2 * HOUR,
        "EEST" | "MSK" | "EAT" | "EETDST" => 3 * HOUR,
        "MSD" | "GST" => 4 * HOUR,
        "PKT" => 5 * HOUR,
        "IST" => 2 * HOUR,
        "NPT" => 5 * HOUR + 2700,
        "CCT" | "HKT" | "SGT" | "AWST" | "PHT" => 8 * HOUR,
        "JST" | "KST" => 9 * HOUR,
        "ACST" => 9 * HOUR + 1800,
        "AEST" => 10 * HOUR,
        "ACDT" => 10 * HOUR + 1800,
        "AEDT" => 11 * HOUR,
        "NZST" => 12 * HOUR,
        "NZDT" => 13 * HOUR,
        "BRT" | "ART" | "ADT" => -3 * HOUR,
        "NST" => -3 * HOUR - 1800,
        "NDT" => -2 * HOUR - 1800,
        "AST" | "EDT" | "CLT" => -4 * HOUR,
        "EST" | "CDT" | "COT" => -5 * HOUR,
        "CST" | "MDT" => -6 * HOUR,
        "MST" | "PDT" => -7 * HOUR,
        "PST" | "AKDT" => -8 * HOUR,
        "AKST" => -9 * HOUR,
        "HST" => -10 * HOUR,
        _ => return None,
    })
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

//! Time zones: UTC and fixed offsets without any table, the others from the system's tzdata or the
//! copy built in.

use std::fmt;
use std::sync::Arc;

use jiff::tz::{AmbiguousOffset, TimeZone};

use super::UNIX_EPOCH_TO_2000_US;
use super::words::{self, Abbreviation};
use crate::error::{Error, Result, SqlState};

/// A time zone.
#[derive(Debug, Clone)]
pub enum Zone {
    /// UTC.
    Utc,
    /// A fixed offset, in seconds east of Greenwich.
    Fixed(i32),
    /// The same with a name of its own, which may be empty: POSIX writes `FOO3`.
    Called(Arc<(String, i32)>),
    /// A zone with a history, and its name.
    Named(Arc<(String, TimeZone)>),
}

/// Seconds of 400 years, after which the calendar repeats with its weekdays.
const CYCLE_SECONDS: i64 = 146_097 * 86_400;
/// Beyond these the library has no times: the last and first second of the years 9998 and -4713
/// from 1970.
const LIBRARY_MAX: i64 = 253_370_764_800;
const LIBRARY_MIN: i64 = -210_929_832_000;
/// How far into the future an abbreviation's first use is looked for.
const TRANSITIONS_MAX: usize = 400;

/// What functions read of a text that names a zone, as in PostgreSQL.
pub(super) fn cut(name: &str) -> &str {
    const BYTES_MAX: usize = 255;
    &name[..name.floor_char_boundary(BYTES_MAX)]
}

impl Zone {
    /// A zone of the tz database, in any case, or a POSIX specification, whose offsets count
    /// westward.
    pub fn named(name: &str) -> Result<Self> {
        let bad = || Error::new(SqlState::BAD_PARAMETER, format!("time zone \"{name}\" not recognized"));
        if ["utc", "gmt", "etc/utc", "uct"].iter().any(|known| name.eq_ignore_ascii_case(known)) {
            return Ok(Self::Utc);
        }
        match Self::of_database(name) {
            Some(zone) => Ok(zone),
            None => posix(name).ok_or_else(bad),
        }
    }

    /// A zone of the tz database, in any case; `posix/` may stand before its name, and a colon
    /// before that.
    pub(super) fn of_database(name: &str) -> Option<Self> {
        let path = name.strip_prefix(':').unwrap_or(name);
        let prefix = "posix/";
        let plain = match path.get(..prefix.len()) {
            Some(start) if start.eq_ignore_ascii_case(prefix) => &path[prefix.len()..],
            _ => path,
        };
        // A file of the database is looked for by its name as it is, and within its directory.
        if plain.is_empty() || plain.starts_with(['/', '.', ' ']) || plain.ends_with(' ') || plain.contains("..") {
            return None;
        }
        let zone = jiff::tz::db().get(plain).ok()?;
        let known = zone.iana_name().unwrap_or(plain);
        let shown = if plain.len() < path.len() { format!("{prefix}{known}") } else { known.to_owned() };
        Some(Self::Named(Arc::new((shown, zone))))
    }

    /// A zone as `AT TIME ZONE` names it: an abbreviation, a zone, or a POSIX specification. What
    /// an abbreviation stands for may hang on the moment, which is given in microseconds since
    /// 2000 of the clocks there.
    pub fn at(name: &str, local_us: i64) -> Result<Self> {
        Self::with_meaning(name, |zone, name| zone.offset_of_abbreviation(name, local_us))
    }

    /// The same at an instant, in microseconds since 2000 UTC.
    pub fn at_instant(name: &str, instant_us: i64) -> Result<Self> {
        Self::with_meaning(name, |zone, name| zone.meaning_at(name, instant_us).0)
    }

    fn with_meaning(name: &str, offset_of: impl FnOnce(&Self, &str) -> i32) -> Result<Self> {
        let name = cut(name);
        match words::abbreviation(name) {
            Some(Abbreviation::Offset(seconds, _)) => Ok(Self::Fixed(seconds)),
            Some(Abbreviation::Zone(zone)) => Ok(Self::Fixed(offset_of(&Self::named(zone)?, name))),
            None => Self::named(name),
        }
    }

    /// The same with a zone's rules for an abbreviation that is one zone's alone, as `date_trunc`
    /// takes it.
    pub fn with_rules(name: &str) -> Result<Self> {
        let name = cut(name);
        match words::abbreviation(name) {
            Some(Abbreviation::Offset(seconds, _)) => Ok(Self::Fixed(seconds)),
            Some(Abbreviation::Zone(zone)) => Self::named(zone),
            None => Self::named(name),
        }
    }

    /// Seconds east of Greenwich that an abbreviation of this zone meant at a local time: as of its
    /// last use until then, or of its first one afterwards; the zone's own offset if it never was
    /// one of its abbreviations.
    pub fn offset_of_abbreviation(&self, name: &str, local_us: i64) -> i32 {
        self.meaning_of_abbreviation(name, local_us).0
    }

    /// The same, and whether it is a summer time.
    pub(super) fn meaning_of_abbreviation(&self, name: &str, local_us: i64) -> (i32, bool) {
        self.meaning_at(name, self.to_instant(local_us))
    }

    fn meaning_at(&self, name: &str, instant: i64) -> (i32, bool) {
        let own = (self.offset_at(instant), false);
        let Self::Named(named) = self else { return own };
        let Some(timestamp) = library_timestamp(instant) else { return own };
        let info = named.1.to_offset_info(timestamp);
        if info.abbreviation().eq_ignore_ascii_case(name) {
            return (own.0, info.dst() == jiff::tz::Dst::Yes);
        }
        let is_named =
            |transition: &jiff::tz::TimeZoneTransition<'_>| transition.abbreviation().eq_ignore_ascii_case(name);
        let before = named.1.preceding(timestamp).find(&is_named);
        let found = before.or_else(|| named.1.following(timestamp).take(TRANSITIONS_MAX).find(&is_named));
        found.map_or(own, |transition| (transition.offset().seconds(), transition.dst() == jiff::tz::Dst::Yes))
    }

    /// Whether it has had the same offset at all times.
    pub fn is_fixed(&self) -> bool {
        let Self::Named(named) = self else { return true };
        let offset = named.1.to_offset(jiff::Timestamp::MIN);
        named.1.following(jiff::Timestamp::MIN).take(TRANSITIONS_MAX).all(|transition| transition.offset() == offset)
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
            Self::Called(called) => called.0.clone(),
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
            Self::Called(called) => called.1,
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
            Self::Fixed(_) | Self::Called(_) => self.name(),
            Self::Named(named) => match library_timestamp(instant_us) {
                Some(timestamp) => named.1.to_offset_info(timestamp).abbreviation().to_owned(),
                None => named.0.clone(),
            },
        }
    }

    /// The instant at which the zone's clocks show a local time, both in microseconds since 2000.
    /// Of a time that comes twice it is the later one (standard time); a time that is left out
    /// counts as if the clocks had not changed yet.
    #[must_use]
    pub fn to_instant(&self, local_us: i64) -> i64 {
        let offset = match self {
            Self::Utc => 0,
            Self::Fixed(seconds) => *seconds,
            Self::Called(called) => called.1,
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
    let seconds = us.div_euclid(1_000_000) + UNIX_EPOCH_TO_2000_US / 1_000_000;
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

/// A POSIX specification: a name, hours westward, perhaps a summer time's name, its hours and its
/// rules: `EST5EDT`, `+03`, `<X>-2:30`, `PST8PDT,M3.2.0,M11.1.0`.
fn posix(text: &str) -> Option<Zone> {
    // Only a name of the database has a colon before it.
    if text.starts_with(':') {
        return None;
    }
    let text = text.to_ascii_uppercase();
    let (_, rest) = posix_name(&text)?;
    let (west, rest) = posix_offset(rest)?;
    if rest.is_empty() {
        return Some(if west == 0 { Zone::Utc } else { Zone::Fixed(-west) });
    }
    let (name, rest) = posix_name(rest)?;
    if name.is_empty() {
        return None;
    }
    let (summer_west, rules) = match rest.as_bytes().first() {
        None | Some(b',' | b';') => (west - 3600, rest),
        Some(_) => posix_offset(rest)?,
    };
    // Without rules, those of the United States.
    let rules = match rules.strip_prefix([',', ';']) {
        Some(rules) => rules,
        None if rules.is_empty() => "M3.2.0,M11.1.0",
        None => return None,
    };
    let clock = |west: i32| {
        let (sign, rest) = (if west < 0 { "-" } else { "" }, west.abs());
        format!("{sign}{}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
    };
    let plain = format!("AAA{}BBB{},{rules}", clock(west), clock(summer_west));
    let zone = TimeZone::posix(&plain).ok()?;
    Some(Zone::Named(Arc::new((text, zone))))
}

/// A name of a POSIX specification, which may be empty, and what is behind it.
fn posix_name(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split_once('>');
    }
    let end = text.find(|c: char| c.is_ascii_digit() || matches!(c, ',' | '-' | '+')).unwrap_or(text.len());
    Some(text.split_at(end))
}

/// Seconds of `5`, `+5:30`, `-05:30:15`, and what is behind them.
fn posix_offset(text: &str) -> Option<(i32, &str)> {
    const HOURS_MAX: i32 = 167;
    let number = |text: &str, max: i32| -> Option<(i32, usize)> {
        let length = text.bytes().take_while(u8::is_ascii_digit).count();
        let value = text[..length].parse().ok()?;
        (value <= max).then_some((value, length))
    };
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mut seconds, mut unit) = (0, 3600);
    loop {
        let max = match unit {
            3600 => HOURS_MAX,
            60 => 59,
            _ => 60,
        };
        let (value, length) = number(rest, max)?;
        seconds += value * unit;
        rest = &rest[length..];
        match rest.strip_prefix(':') {
            Some(more) if unit > 1 => (rest, unit) = (more, unit / 60),
            _ => return Some((sign * seconds, rest)),
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

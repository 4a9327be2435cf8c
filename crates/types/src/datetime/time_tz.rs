//! `time with time zone`: a time of day and its distance from Greenwich.
//!
//! Invariants: values are ordered by the time that it is at Greenwich, and equal times by the zone,
//! the eastern one first.

use std::cmp::Ordering;

use super::arithmetic::{Part, clock_part, micros_with_scale, unknown_part, unsupported_part, whole};
use super::{Zone, write_clock, write_offset};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::interval::DAY_US;
use crate::numeric::Numeric;

/// A zone's distance from Greenwich is less than this.
const ZONE_END_S: i32 = 16 * 3600;

/// A time of day with its zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeTz {
    /// Microseconds since the zone's midnight.
    pub micros: i64,
    /// Seconds west of Greenwich, as PostgreSQL has it.
    pub west_s: i32,
}

impl TimeTz {
    /// A time in a zone that is so many seconds east of Greenwich.
    #[must_use]
    pub const fn at_offset(micros: i64, east_s: i32) -> Self {
        Self { micros, west_s: -east_s }
    }

    /// What clocks in a zone show at an instant.
    #[must_use]
    pub fn of_instant(instant: i64, zone: &Zone) -> Self {
        Self::at_offset(zone.to_local(instant).rem_euclid(DAY_US), zone.offset_at(instant))
    }

    /// A time of today, in the session's zone.
    #[must_use]
    pub fn of_today(micros: i64, env: &Env) -> Self {
        let today = env.zone.to_local(env.transaction_us).div_euclid(DAY_US);
        let local = today * DAY_US + micros;
        Self::at_offset(micros, ((local - env.zone.to_instant(local)) / 1_000_000) as i32)
    }

    /// Microseconds since midnight at Greenwich, which may be another day's.
    #[must_use]
    pub const fn at_greenwich(self) -> i64 {
        // Frames of windows have times beyond all days.
        self.micros.saturating_add(self.west_s as i64 * 1_000_000)
    }

    /// As PostgreSQL sends it.
    ///
    /// # Errors
    /// 22008 for times beyond a day, 22009 for zones too far away.
    pub fn checked(micros: i64, west_s: i32) -> Result<Self> {
        if !(0..=DAY_US).contains(&micros) {
            return Err(Error::new(SqlState::DATETIME_OVERFLOW, "time out of range"));
        }
        if west_s <= -ZONE_END_S || west_s >= ZONE_END_S {
            return Err(Error::new(SqlState("22009"), "time zone displacement out of range"));
        }
        Ok(Self { micros, west_s })
    }

    /// A time so many microseconds later, in the same zone.
    #[must_use]
    pub fn shifted(self, micros: i64) -> Self {
        Self { micros: (self.micros + micros % DAY_US).rem_euclid(DAY_US), ..self }
    }

    /// The same time as clocks show it that are so many seconds east of Greenwich.
    #[must_use]
    pub fn moved_to(self, east_s: i32) -> Self {
        Self::at_offset((self.at_greenwich() + i64::from(east_s) * 1_000_000).rem_euclid(DAY_US), east_s)
    }

    /// Appends `HH:MM:SS.ffffff+HH`.
    pub fn write(self, out: &mut String) {
        write_clock(self.micros.clamp(0, DAY_US), out);
        write_offset(self.west_s.saturating_neg(), out);
    }

    /// A part of it.
    ///
    /// # Errors
    /// 22023 and 0A000 for parts that it has not.
    pub fn extract(self, name: &str) -> Result<Option<Numeric>> {
        let ty = "time with time zone";
        let part = Part::parse(name).ok_or_else(|| unknown_part(name, ty))?;
        if let Some(result) = clock_part(part, self.micros) {
            return result;
        }
        let east_s = -i64::from(self.west_s);
        match part {
            Part::Zone => whole(east_s),
            Part::ZoneHour => whole(east_s / 3600),
            Part::ZoneMinute => whole(east_s / 60 % 60),
            Part::Epoch => micros_with_scale(i128::from(self.at_greenwich()), 6),
            _ => Err(unsupported_part(name, ty)),
        }
    }
}

impl Ord for TimeTz {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_greenwich(), self.west_s).cmp(&(other.at_greenwich(), other.west_s))
    }
}

impl PartialOrd for TimeTz {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

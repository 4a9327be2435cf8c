//! `interval`: months, days and microseconds, kept apart because months and days differ in length.
//!
//! Comparison takes a month for 30 days and a day for 24 hours, as PostgreSQL's does: two intervals
//! of different form may be equal.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::datetime::IntervalStyle;
use crate::error::{Error, Result, SqlState};

/// Microseconds of a day.
pub const DAY_US: i64 = 86_400_000_000;
const HOUR_US: i64 = 3_600_000_000;
const MINUTE_US: i64 = 60_000_000;
const SECOND_US: i64 = 1_000_000;

mod parse;

/// The fields of an interval's type, as PostgreSQL numbers them: `interval day to minute`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IntervalFields(pub u16);

impl IntervalFields {
    /// `interval`
    pub const ALL: Self = Self(0x7fff);
    /// `interval month`
    pub const MONTH: Self = Self(1 << 1);
    /// `interval year`
    pub const YEAR: Self = Self(1 << 2);
    /// `interval day`
    pub const DAY: Self = Self(1 << 3);
    /// `interval hour`
    pub const HOUR: Self = Self(1 << 10);
    /// `interval minute`
    pub const MINUTE: Self = Self(1 << 11);
    /// `interval second`
    pub const SECOND: Self = Self(1 << 12);
    /// `interval year to month`
    pub const YEAR_TO_MONTH: Self = Self(Self::YEAR.0 | Self::MONTH.0);
    /// `interval day to hour`
    pub const DAY_TO_HOUR: Self = Self(Self::DAY.0 | Self::HOUR.0);
    /// `interval hour to minute`
    pub const HOUR_TO_MINUTE: Self = Self(Self::HOUR.0 | Self::MINUTE.0);
    /// `interval minute to second`
    pub const MINUTE_TO_SECOND: Self = Self(Self::MINUTE.0 | Self::SECOND.0);
    /// `interval day to minute`
    pub const DAY_TO_MINUTE: Self = Self(Self::DAY.0 | Self::HOUR_TO_MINUTE.0);
    /// `interval hour to second`
    pub const HOUR_TO_SECOND: Self = Self(Self::HOUR.0 | Self::MINUTE_TO_SECOND.0);
    /// `interval day to second`
    pub const DAY_TO_SECOND: Self = Self(Self::DAY.0 | Self::HOUR_TO_SECOND.0);

    /// Their names in SQL, between blanks; empty if it is all of them.
    pub fn name(self) -> &'static str {
        match self {
            Self::MONTH => " month",
            Self::YEAR => " year",
            Self::DAY => " day",
            Self::HOUR => " hour",
            Self::MINUTE => " minute",
            Self::SECOND => " second",
            Self::YEAR_TO_MONTH => " year to month",
            Self::DAY_TO_HOUR => " day to hour",
            Self::HOUR_TO_MINUTE => " hour to minute",
            Self::MINUTE_TO_SECOND => " minute to second",
            Self::DAY_TO_MINUTE => " day to minute",
            Self::HOUR_TO_SECOND => " hour to second",
            Self::DAY_TO_SECOND => " day to second",
            _ => "",
        }
    }
}

/// A span of time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Interval {
    /// Whole months; 12 are a year.
    pub months: i32,
    /// Whole days.
    pub days: i32,
    /// The rest, in microseconds.
    pub micros: i64,
}

/// `22008`
#[cold]
pub fn out_of_range() -> Error {
    Error::new(SqlState("22008"), "interval out of range")
}

/// Rounded to the microsecond of a day or second, as PostgreSQL keeps errors of floats from adding
/// up.
fn round_to_micro(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

fn to_i32(value: f64) -> Result<i32> {
    if value > f64::from(i32::MIN) - 1.0 && value < f64::from(i32::MAX) + 1.0 {
        Ok(value as i32)
    } else {
        Err(out_of_range())
    }
}

#[expect(clippy::should_implement_trait, reason = "these can fail")]
impl Interval {
    /// Its length in microseconds if months had 30 days and days 24 hours: what comparison goes by.
    #[must_use]
    pub fn length_us(self) -> i128 {
        (i128::from(self.months) * 30 + i128::from(self.days)) * i128::from(DAY_US) + i128::from(self.micros)
    }

    /// Reads an interval: `1 year 2 mons 3 days 04:05:06.7`, `1-2 3 4:05:06`, `P1Y2M3DT4H5M6S`, `5
    /// minutes ago`.
    pub fn parse(text: &str) -> Result<Self> {
        parse::parse(text, IntervalFields::ALL, false)
    }

    /// The same for a type with fields, `interval day to minute`: what a number without a unit is,
    /// they say.
    /// In the style `sql_standard` a sign before all of it is that of every part.
    pub fn parse_styled(text: &str, range: IntervalFields, style: IntervalStyle) -> Result<Self> {
        parse::parse(text, range, style == IntervalStyle::SqlStandard)
    }

    /// Without what is below the fields of a type: `interval year to month` has no days.
    #[must_use]
    pub fn cut_to(self, range: IntervalFields) -> Self {
        let Self { months, days, micros } = self;
        match range {
            IntervalFields::YEAR => Self { months: months / 12 * 12, days: 0, micros: 0 },
            IntervalFields::MONTH | IntervalFields::YEAR_TO_MONTH => Self { months, days: 0, micros: 0 },
            IntervalFields::DAY => Self { months, days, micros: 0 },
            IntervalFields::HOUR | IntervalFields::DAY_TO_HOUR => {
                Self { months, days, micros: micros / HOUR_US * HOUR_US }
            }
            IntervalFields::MINUTE | IntervalFields::HOUR_TO_MINUTE | IntervalFields::DAY_TO_MINUTE => {
                Self { months, days, micros: micros / MINUTE_US * MINUTE_US }
            }
            _ => self,
        }
    }

    /// Appends its text in the style `postgres`: `1 year 2 mons 3 days 04:05:06.7`.
    pub fn write(self, out: &mut String) {
        use fmt::Write;
        let start = out.len();
        let mut after_negative = false;
        for (count, unit) in [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")] {
            if count == 0 {
                continue;
            }
            let separator = if out.len() == start { "" } else { " " };
            let sign = if after_negative && count > 0 { "+" } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(out, "{separator}{sign}{count} {unit}{}", if count == 1 { "" } else { "s" });
            after_negative = count < 0;
        }
        if out.len() != start && self.micros == 0 {
            return;
        }
        if out.len() != start {
            out.push(' ');
        }
        if self.micros < 0 {
            out.push('-');
        } else if after_negative {
            out.push('+');
        }
        let magnitude = self.micros.unsigned_abs();
        match i64::try_from(magnitude) {
            Ok(magnitude) => crate::datetime::write_clock(magnitude, out),
            Err(_) => out.push_str("2562047788:00:54.775808"),
        }
    }

    /// `self + other`
    pub fn add(self, other: Self) -> Result<Self> {
        Ok(Self {
            months: self.months.checked_add(other.months).ok_or_else(out_of_range)?,
            days: self.days.checked_add(other.days).ok_or_else(out_of_range)?,
            micros: self.micros.checked_add(other.micros).ok_or_else(out_of_range)?,
        })
    }

    /// `self - other`
    pub fn sub(self, other: Self) -> Result<Self> {
        Ok(Self {
            months: self.months.checked_sub(other.months).ok_or_else(out_of_range)?,
            days: self.days.checked_sub(other.days).ok_or_else(out_of_range)?,
            micros: self.micros.checked_sub(other.micros).ok_or_else(out_of_range)?,
        })
    }

    /// The negated interval.
    pub fn negate(self) -> Result<Self> {
        Self::default().sub(self)
    }

    /// `self * factor`; fractions of months go to the days, fractions of days to the microseconds.
    pub fn mul(self, factor: f64) -> Result<Self> {
        self.scale(|part| part * factor)
    }

    /// `self / divisor`
    pub fn div(self, divisor: f64) -> Result<Self> {
        if divisor == 0.0 {
            return Err(crate::numeric::division_by_zero());
        }
        self.scale(|part| part / divisor)
    }

    fn scale(self, by: impl Fn(f64) -> f64) -> Result<Self> {
        let (exact_months, exact_days) = (by(f64::from(self.months)), by(f64::from(self.days)));
        let (months, mut days) = (to_i32(exact_months)?, to_i32(exact_days)?);
        let month_rest_days = round_to_micro((exact_months - f64::from(months)) * 30.0);
        let whole_rest_days = month_rest_days.trunc();
        let mut rest_seconds =
            round_to_micro((exact_days - f64::from(days) + month_rest_days - whole_rest_days) * 86_400.0);
        if rest_seconds.abs() >= 86_400.0 {
            let whole = (rest_seconds / 86_400.0).trunc();
            days = days.checked_add(whole as i32).ok_or_else(out_of_range)?;
            rest_seconds -= whole * 86_400.0;
        }
        let days = days.checked_add(whole_rest_days as i32).ok_or_else(out_of_range)?;
        let micros = (by(self.micros as f64) + rest_seconds * 1e6).round_ties_even();
        if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&micros) {
            return Err(out_of_range());
        }
        Ok(Self { months, days, micros: micros as i64 })
    }

    /// With whole days taken out of the microseconds: `justify_hours`.
    pub fn justify_hours(self) -> Result<Self> {
        let whole = i32::try_from(self.micros / DAY_US).map_err(|_| out_of_range())?;
        let mut days = self.days.checked_add(whole).ok_or_else(out_of_range)?;
        let mut micros = self.micros % DAY_US;
        if days > 0 && micros < 0 {
            (days, micros) = (days - 1, micros + DAY_US);
        } else if days < 0 && micros > 0 {
            (days, micros) = (days + 1, micros - DAY_US);
        }
        Ok(Self { months: self.months, days, micros })
    }

    /// With whole months of 30 days taken out of the days: `justify_days`.
    pub fn justify_days(self) -> Result<Self> {
        let mut months = self.months.checked_add(self.days / 30).ok_or_else(out_of_range)?;
        let mut days = self.days % 30;
        if months > 0 && days < 0 {
            (months, days) = (months - 1, days + 30);
        } else if months < 0 && days > 0 {
            (months, days) = (months + 1, days - 30);
        }
        Ok(Self { months, days, micros: self.micros })
    }

    /// With hours, days and months in their bounds and of one sign: `justify_interval`.
    pub fn justify(self) -> Result<Self> {
        let month_us = 30 * i128::from(DAY_US);
        let length = self.length_us();
        let months = i32::try_from(length / month_us).map_err(|_| out_of_range())?;
        let rest = length % month_us;
        Ok(Self { months, days: (rest / i128::from(DAY_US)) as i32, micros: (rest % i128::from(DAY_US)) as i64 })
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Self) -> Ordering {
        self.length_us().cmp(&other.length_us())
    }
}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Interval {
    fn eq(&self, other: &Self) -> bool {
        self.length_us() == other.length_us()
    }
}

impl Eq for Interval {}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.length_us().hash(state);
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

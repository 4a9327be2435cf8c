//! Dates and times as SQL has them: microseconds, the proleptic Gregorian calendar, two infinities.
//!
//! With the feature `jiff` its types of dates and times can be parameters and columns as well.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// From 1970-01-01 to 2000-01-01.
const UNIX_TO_2000_DAYS: i64 = 10_957;
const DAY_US: i64 = 86_400_000_000;
const UNIX_TO_2000_US: i64 = UNIX_TO_2000_DAYS * DAY_US;

/// A day: `date`.
///
/// ```
/// use colibri::sql::Date;
/// let day = Date::from_ymd(2024, 2, 29).expect("a leap day");
/// assert_eq!(day.to_string(), "2024-02-29");
/// assert_eq!(day.ymd(), Some((2024, 2, 29)));
/// assert_eq!(Date::from_ymd(2023, 2, 29), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Date(i32);

impl Date {
    /// `'infinity'`: behind all days.
    pub const INFINITY: Self = Self(i32::MAX);
    /// `'-infinity'`: before all days.
    pub const NEG_INFINITY: Self = Self(i32::MIN);

    /// A day of the calendar, if there is such a one. The year before 1 is 0.
    #[must_use]
    pub fn from_ymd(year: i32, month: u8, day: u8) -> Option<Self> {
        let days = days_from_civil(i64::from(year), i64::from(month), i64::from(day));
        let date = Self(i32::try_from(days).ok()?);
        (date.ymd() == Some((year, month, day))).then_some(date)
    }

    /// Year, month and day; `None` for the infinities.
    #[must_use]
    pub fn ymd(self) -> Option<(i32, u8, u8)> {
        self.is_finite().then(|| civil_from_days(i64::from(self.0)))
    }

    /// So many days after 2000-01-01.
    #[must_use]
    pub fn from_days(days: i32) -> Self {
        Self(days)
    }

    /// Days since 2000-01-01.
    #[must_use]
    pub fn days(self) -> i32 {
        self.0
    }

    /// Whether it is a day, and not an infinity.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self != Self::INFINITY && self != Self::NEG_INFINITY
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ymd() {
            None => f.write_str(infinity(*self == Self::INFINITY)),
            Some((year, month, day)) if year > 0 => write!(f, "{year:04}-{month:02}-{day:02}"),
            Some((year, month, day)) => write!(f, "{:04}-{month:02}-{day:02} BC", 1 - year),
        }
    }
}

/// A time of day: `time`.
///
/// ```
/// use colibri::sql::Time;
/// let noon = Time::from_hms_micro(12, 0, 0, 250_000).expect("a time of day");
/// assert_eq!(noon.to_string(), "12:00:00.25");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(i64);

impl Time {
    /// A time of day, if there is such a one; 24:00:00 is.
    #[must_use]
    pub fn from_hms_micro(hour: u8, minute: u8, second: u8, micro: u32) -> Option<Self> {
        let parts_fit = minute < 60 && second < 60 && micro < 1_000_000;
        let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        let time = Self(seconds * 1_000_000 + i64::from(micro));
        (parts_fit && time.0 <= DAY_US).then_some(time)
    }

    /// A time of day, from microseconds since midnight, if there is such a one; 24:00:00 is.
    #[must_use]
    pub fn from_micros(micros: i64) -> Option<Self> {
        (0..=DAY_US).contains(&micros).then_some(Self(micros))
    }

    /// Hour, minute, second and microsecond.
    #[must_use]
    pub fn hms_micro(self) -> (u8, u8, u8, u32) {
        let seconds = self.0 / 1_000_000;
        ((seconds / 3600) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8, (self.0 % 1_000_000) as u32)
    }

    pub(crate) fn from_micros_of_day(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since midnight.
    #[must_use]
    pub fn micros_of_day(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hour, minute, second, micro) = self.hms_micro();
        write!(f, "{hour:02}:{minute:02}:{second:02}")?;
        if micro > 0 {
            let digits = format!("{micro:06}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

/// A day and a time of day, wherever that may be: `timestamp`.
///
/// ```
/// use colibri::sql::{Date, Time, Timestamp};
/// let day = Date::from_ymd(2024, 2, 29).expect("a leap day");
/// let noon = Time::from_hms_micro(12, 0, 0, 0).expect("a time of day");
/// let timestamp = Timestamp::new(day, noon).expect("finite");
/// assert_eq!(timestamp.to_string(), "2024-02-29 12:00:00");
/// assert_eq!((timestamp.date(), timestamp.time()), (Some(day), Some(noon)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// `'infinity'`
    pub const INFINITY: Self = Self(i64::MAX);
    /// `'-infinity'`
    pub const NEG_INFINITY: Self = Self(i64::MIN);

    /// Of a day and a time; `None` if the day is infinite or too far away for microseconds.
    #[must_use]
    pub fn new(date: Date, time: Time) -> Option<Self> {
        let midnight = i64::from(date.0).checked_mul(DAY_US)?;
        date.is_finite().then_some(Self(midnight.checked_add(time.0)?))
    }

    /// So many microseconds after 2000-01-01 00:00.
    #[must_use]
    pub fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 2000-01-01 00:00.
    #[must_use]
    pub fn micros(self) -> i64 {
        self.0
    }

    /// The day; `None` for the infinities.
    #[must_use]
    pub fn date(self) -> Option<Date> {
        self.is_finite().then(|| Date(self.0.div_euclid(DAY_US) as i32))
    }

    /// The time of day; `None` for the infinities.
    #[must_use]
    pub fn time(self) -> Option<Time> {
        self.is_finite().then(|| Time(self.0.rem_euclid(DAY_US)))
    }

    /// Whether it is not an infinity.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self != Self::INFINITY && self != Self::NEG_INFINITY
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_timestamp(self.0, "", f)
    }
}

/// A moment: `timestamptz`. It is kept in UTC, as in PostgreSQL, and has no time zone of its own.
///
/// ```
/// use std::time::SystemTime;
/// use colibri::sql::TimestampTz;
/// let start = TimestampTz::try_from(SystemTime::UNIX_EPOCH)?;
/// assert_eq!(start.to_string(), "1970-01-01 00:00:00+00");
/// assert_eq!(SystemTime::try_from(start), Ok(SystemTime::UNIX_EPOCH));
/// # Ok::<(), colibri::sql::OutOfRange>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimestampTz(i64);

impl TimestampTz {
    /// `'infinity'`
    pub const INFINITY: Self = Self(i64::MAX);
    /// `'-infinity'`
    pub const NEG_INFINITY: Self = Self(i64::MIN);

    /// So many microseconds after 2000-01-01 00:00 UTC.
    #[must_use]
    pub fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 2000-01-01 00:00 UTC.
    #[must_use]
    pub fn micros(self) -> i64 {
        self.0
    }

    /// Whether it is not an infinity.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self != Self::INFINITY && self != Self::NEG_INFINITY
    }
}

impl fmt::Display for TimestampTz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_timestamp(self.0, "+00", f)
    }
}

/// A moment that the other type does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange;

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the moment is out of range")
    }
}

impl std::error::Error for OutOfRange {}

impl TryFrom<SystemTime> for TimestampTz {
    type Error = OutOfRange;

    /// Cuts off what is less than a microsecond.
    fn try_from(time: SystemTime) -> Result<Self, OutOfRange> {
        let unix = match time.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).map_err(|_| OutOfRange)?,
            Err(before) => -i64::try_from(before.duration().as_micros()).map_err(|_| OutOfRange)?,
        };
        unix.checked_sub(UNIX_TO_2000_US).map(Self).filter(|time| time.is_finite()).ok_or(OutOfRange)
    }
}

impl TryFrom<TimestampTz> for SystemTime {
    type Error = OutOfRange;

    fn try_from(time: TimestampTz) -> Result<Self, OutOfRange> {
        let unix = time.0.checked_add(UNIX_TO_2000_US).filter(|_| time.is_finite()).ok_or(OutOfRange)?;
        let distance = Duration::from_micros(unix.unsigned_abs());
        let time = if unix < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
        time.ok_or(OutOfRange)
    }
}

fn infinity(positive: bool) -> &'static str {
    if positive { "infinity" } else { "-infinity" }
}

fn write_timestamp(micros: i64, zone: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let timestamp = Timestamp(micros);
    let (Some(date), Some(time)) = (timestamp.date(), timestamp.time()) else {
        return f.write_str(infinity(micros > 0));
    };
    let day = date.to_string();
    let (day, era) = day.strip_suffix(" BC").map_or((day.as_str(), ""), |day| (day, " BC"));
    write!(f, "{day} {time}{zone}{era}")
}

/// Days since 2000-01-01, by Howard Hinnant's algorithm: the year begins in March, so that the leap
/// day is its last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468 - UNIX_TO_2000_DAYS
}

fn civil_from_days(days: i64) -> (i32, u8, u8) {
    let days = days + UNIX_TO_2000_DAYS + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as i32, month as u8, day as u8)
}

#[cfg(feature = "jiff")]
mod with_jiff {
    //! jiff's types. What is less than a microsecond is cut off; what jiff has no room for is
    //! refused.

    use super::{DAY_US, Date, Time, Timestamp, TimestampTz, UNIX_TO_2000_US};
    use crate::sql::{FromSql, ToSql, Value};

    impl From<jiff::civil::Date> for Date {
        fn from(date: jiff::civil::Date) -> Self {
            let days = super::days_from_civil(date.year().into(), date.month().into(), date.day().into());
            Self(days as i32)
        }
    }

    impl From<jiff::civil::Time> for Time {
        fn from(time: jiff::civil::Time) -> Self {
            let seconds = i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
            Self(seconds * 1_000_000 + i64::from(time.subsec_nanosecond() / 1000))
        }
    }

    impl From<jiff::civil::DateTime> for Timestamp {
        fn from(at: jiff::civil::DateTime) -> Self {
            Self(i64::from(Date::from(at.date()).0) * DAY_US + Time::from(at.time()).0)
        }
    }

    impl From<jiff::Timestamp> for TimestampTz {
        fn from(at: jiff::Timestamp) -> Self {
            Self(at.as_microsecond() - UNIX_TO_2000_US)
        }
    }

    fn date(date: Date) -> Option<jiff::civil::Date> {
        let (year, month, day) = date.ymd()?;
        jiff::civil::Date::new(i16::try_from(year).ok()?, month as i8, day as i8).ok()
    }

    fn time(time: Time) -> Option<jiff::civil::Time> {
        let (hour, minute, second, micro) = time.hms_micro();
        jiff::civil::Time::new(hour as i8, minute as i8, second as i8, (micro * 1000) as i32).ok()
    }

    macro_rules! convert {
        ($($ty:ty, $variant:ident, $from:expr;)*) => {
            $(
                impl ToSql for $ty {
                    fn to_sql(&self) -> Value<'_> {
                        Value::$variant((*self).into())
                    }
                }

                impl<'a> FromSql<'a> for $ty {
                    fn from_sql(value: Value<'a>) -> Result<Self, Value<'a>> {
                        match value {
                            Value::$variant(inner) => $from(inner).ok_or(value),
                            other => Err(other),
                        }
                    }
                }
            )*
        };
    }

    convert! {
        jiff::civil::Date, Date, date;
        jiff::civil::Time, Time, time;
        jiff::civil::DateTime, Timestamp, |at: Timestamp| Some(date(at.date()?)?.to_datetime(time(at.time()?)?));
        jiff::Timestamp, TimestampTz, |at: TimestampTz| {
            jiff::Timestamp::from_microsecond(at.0.checked_add(UNIX_TO_2000_US).filter(|_| at.is_finite())?).ok()
        };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn days_and_dates_are_each_others_inverse() {
        for days in (-2_500_000..3_000_000).step_by(97) {
            let (year, month, day) = Date(days).ymd().unwrap();
            assert_eq!(Date::from_ymd(year, month, day), Some(Date(days)), "{year}-{month}-{day}");
        }
        assert_eq!(Date::from_ymd(2000, 1, 1), Some(Date(0)));
        assert_eq!(Date::from_ymd(0, 3, 1).unwrap().to_string(), "0001-03-01 BC");
        assert_eq!(Date::from_ymd(2024, 13, 1), None);
        assert_eq!(Date::from_ymd(2024, 0, 1), None);
    }

    #[test]
    fn moments_before_the_epochs_count_backwards() {
        assert_eq!(Timestamp(-1).to_string(), "1999-12-31 23:59:59.999999");
        let before = UNIX_EPOCH - Duration::from_micros(1);
        let moment = TimestampTz::try_from(before).unwrap();
        assert_eq!(moment.to_string(), "1969-12-31 23:59:59.999999+00");
        assert_eq!(SystemTime::try_from(moment), Ok(before));
        assert_eq!(SystemTime::try_from(TimestampTz::INFINITY), Err(OutOfRange));
    }

    #[test]
    fn texts_are_those_that_sql_reads_and_writes() {
        let dir = tempfile::tempdir().unwrap();
        let db = crate::sql::Database::open(dir.path()).unwrap();
        let mut connection = db.connect();
        let mut check = |ty: &str, text: String| {
            let row = connection.query_row(format!("SELECT '{text}'::{ty}::text"), ()).unwrap();
            assert_eq!(row.get::<_, String>(0).unwrap(), text, "{ty}");
        };
        for days in [-2_451_545, -730_485, -730_120, -730_119, -1, 0, 58, 59, 60, 8_825, 2_921_939] {
            check("date", Date(days).to_string());
            for micros in [0, 1, 500_000, 86_399_999_999] {
                check("timestamp", Timestamp(i64::from(days) * DAY_US + micros).to_string());
                check("timestamptz", TimestampTz(i64::from(days) * DAY_US + micros).to_string());
            }
        }
        for micros in [0, 1, 1_000_000, 3_723_456_000, DAY_US] {
            check("time", Time(micros).to_string());
        }
        for (ty, text) in [("date", Date::INFINITY.to_string()), ("timestamp", Timestamp::NEG_INFINITY.to_string())] {
            check(ty, text);
        }
    }

    #[test]
    fn what_does_not_exist_is_none() {
        assert_eq!(Time::from_hms_micro(24, 0, 0, 0).unwrap().to_string(), "24:00:00");
        assert_eq!(Time::from_hms_micro(24, 0, 0, 1), None);
        assert_eq!(Time::from_hms_micro(23, 60, 0, 0), None);
        assert_eq!(Time::from_hms_micro(0, 0, 0, 1_000_000), None);
        assert_eq!(Date::INFINITY.ymd(), None);
        assert_eq!(Timestamp::new(Date::INFINITY, Time(0)), None);
        assert_eq!(Timestamp::new(Date(i32::MAX - 1), Time(0)), None);
        assert_eq!(Timestamp::INFINITY.date(), None);
        assert_eq!(TimestampTz::try_from(UNIX_EPOCH + Duration::from_secs(1 << 60)), Err(OutOfRange));
    }

    #[cfg(feature = "jiff")]
    #[test]
    fn types_of_jiff_come_back_unless_jiff_has_no_room() {
        use crate::sql::{FromSql, ToSql, Value};
        let day = jiff::civil::date(1969, 12, 31);
        let at = day.at(23, 59, 59, 999_999_000);
        assert_eq!(jiff::civil::Date::from_sql(day.to_sql()), Ok(day));
        assert_eq!(jiff::civil::DateTime::from_sql(at.to_sql()), Ok(at));
        assert_eq!(jiff::civil::Time::from_sql(at.time().to_sql()), Ok(at.time()));
        let moment = jiff::Timestamp::from_microsecond(-1).unwrap();
        assert_eq!(jiff::Timestamp::from_sql(moment.to_sql()), Ok(moment));
        assert_eq!(TimestampTz::from(moment).to_string(), "1969-12-31 23:59:59.999999+00");
        assert!(jiff::civil::Date::from_sql(Value::Date(Date::INFINITY)).is_err());
        assert!(jiff::civil::Date::from_sql(Value::Date(Date(5_000_000))).is_err(), "after the year 9999");
        assert!(jiff::civil::Time::from_sql(Value::Time(Time(DAY_US))).is_err(), "24:00");
        assert!(jiff::Timestamp::from_sql(Value::TimestampTz(TimestampTz::INFINITY)).is_err());
    }
}

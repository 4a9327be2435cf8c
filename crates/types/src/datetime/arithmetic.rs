//! Computing with dates, times and timestamps: sums, differences, parts, truncation.

use super::{
    JULIAN_DAY_2000, UNIX_EPOCH_TO_2000_US, Zone, checked_date, checked_timestamp, civil_from_days, clocks_at,
    days_from_civil, days_in_month, is_infinite_date, is_infinite_timestamp, iso_week, local_to_instant,
    timestamp_out_of_range, weekday,
};
use crate::error::{Error, Result, SqlState};
use crate::interval::{DAY_US, Interval, out_of_range};
use crate::numeric::Numeric;

/// A local timestamp plus an interval: months first (no further than the end of the month), then
/// days, then the rest.
pub fn timestamp_add(local: i64, interval: Interval) -> Result<i64> {
    if is_infinite_timestamp(local) {
        return Ok(local);
    }
    let moved = checked_timestamp(add_calendar(local, interval).into())?;
    checked_timestamp(i128::from(moved) + i128::from(interval.micros))
}

/// Adds an interval's months and days; the result may be no timestamp.
fn add_calendar(local: i64, interval: Interval) -> i64 {
    if interval.months == 0 && interval.days == 0 {
        return local;
    }
    let (mut days, time) = (local.div_euclid(DAY_US), local.rem_euclid(DAY_US));
    if interval.months != 0 {
        let (year, month, day) = civil_from_days(days);
        let months = year * 12 + month - 1 + i64::from(interval.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        days = days_from_civil(year, month, day.min(days_in_month(year, month)));
    }
    days += i64::from(interval.days);
    days.saturating_mul(DAY_US).saturating_add(time)
}

/// An instant plus an interval: months and days are those of the zone's calendar.
pub fn timestamptz_add(instant: i64, interval: Interval, zone: &Zone) -> Result<i64> {
    if is_infinite_timestamp(instant) {
        return Ok(instant);
    }
    let moved = if interval.months == 0 && interval.days == 0 {
        instant
    } else {
        checked_timestamp(zone.to_instant(add_calendar(clocks_at(instant, zone), interval)).into())?
    };
    checked_timestamp(i128::from(moved) + i128::from(interval.micros))
}

/// The time between two timestamps: days and the rest, both of the same sign.
pub fn timestamp_sub(a: i64, b: i64) -> Result<Interval> {
    if is_infinite_timestamp(a) || is_infinite_timestamp(b) {
        return Err(Error::new(SqlState::DATETIME_OVERFLOW, "cannot subtract infinite timestamps"));
    }
    let micros = a.checked_sub(b).ok_or_else(out_of_range)?;
    Interval { months: 0, days: 0, micros }.justify_hours()
}

/// A date plus days.
pub fn date_add(date: i32, days: i64) -> Result<i32> {
    if is_infinite_date(date) {
        return Ok(date);
    }
    checked_date(i64::from(date).saturating_add(days))
}

/// The days between two dates.
pub fn date_sub(a: i32, b: i32) -> Result<i64> {
    if is_infinite_date(a) || is_infinite_date(b) {
        return Err(Error::new(SqlState::DATETIME_OVERFLOW, "cannot subtract infinite dates"));
    }
    Ok(i64::from(a) - i64::from(b))
}

/// The span between two local timestamps in years, months, days and the rest, as people count it:
/// `age(a, b)`.
pub fn age(a: i64, b: i64) -> Result<Interval> {
    if is_infinite_timestamp(a) || is_infinite_timestamp(b) {
        return Err(timestamp_out_of_range());
    }
    // Counted from the earlier to the later, with the lengths of the earlier one's months.
    let (later, earlier, sign) = if a >= b { (a, b, 1) } else { (b, a, -1) };
    let (year, month, day) = civil_from_days(later.div_euclid(DAY_US));
    let (from_year, from_month, from_day) = civil_from_days(earlier.div_euclid(DAY_US));
    let mut micros = later.rem_euclid(DAY_US) - earlier.rem_euclid(DAY_US);
    let mut months = (year - from_year) * 12 + month - from_month;
    let mut days = day - from_day;
    if micros < 0 {
        (micros, days) = (micros + DAY_US, days - 1);
    }
    if days < 0 {
        (days, months) = (days + days_in_month(from_year, from_month), months - 1);
    }
    Ok(Interval { months: (months * sign) as i32, days: (days * sign) as i32, micros: micros * sign })
}

/// A part of a date, a time or a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `microseconds`, with the seconds
    Microseconds,
    /// `milliseconds`, with the seconds
    Milliseconds,
    /// `second`, with its fraction
    Second,
    /// `minute`
    Minute,
    /// `hour`
    Hour,
    /// `day`
    Day,
    /// `week`, ISO 8601's
    Week,
    /// `month`
    Month,
    /// `quarter`
    Quarter,
    /// `year`
    Year,
    /// `decade`
    Decade,
    /// `century`
    Century,
    /// `millennium`
    Millennium,
    /// `dow`: day of the week from Sunday, 0
    Weekday,
    /// `isodow`: day of the week from Monday, 1
    IsoWeekday,
    /// `doy`: day of the year
    YearDay,
    /// `isoyear`
    IsoYear,
    /// `julian`
    Julian,
    /// `epoch`: seconds since 1970
    Epoch,
    /// `timezone`: seconds east
    Zone,
    /// `timezone_hour`
    ZoneHour,
    /// `timezone_minute`
    ZoneMinute,
}

impl Part {
    /// Reads a part's name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let lower = as_identifier(name);
        Some(match lower.as_str() {
            "microseconds" | "microsecond" | "us" | "usec" | "usecs" | "useconds" | "microsecon" => Self::Microseconds,
            "milliseconds" | "millisecond" | "ms" | "msec" | "msecs" | "mseconds" | "millisecon" => Self::Milliseconds,
            "second" | "seconds" | "s" | "sec" | "secs" => Self::Second,
            "minute" | "minutes" | "m" | "min" | "mins" => Self::Minute,
            "hour" | "hours" | "h" | "hr" | "hrs" => Self::Hour,
            "day" | "days" | "d" => Self::Day,
            "week" | "weeks" | "w" => Self::Week,
            "month" | "months" | "mon" | "mons" => Self::Month,
            "quarter" | "qtr" => Self::Quarter,
            "year" | "years" | "y" | "yr" | "yrs" => Self::Year,
            "decade" | "decades" | "dec" | "decs" => Self::Decade,
            "century" | "centuries" | "c" | "cent" => Self::Century,
            "millennium" | "millennia" | "mil" | "mils" => Self::Millennium,
            "dow" => Self::Weekday,
            "isodow" => Self::IsoWeekday,
            "doy" => Self::YearDay,
            "isoyear" => Self::IsoYear,
            "julian" | "jd" | "j" => Self::Julian,
            "epoch" => Self::Epoch,
            "timezone" => Self::Zone,
            "timezone_h" | "timezone_hour" => Self::ZoneHour,
            "timezone_m" | "timezone_minute" => Self::ZoneMinute,
            _ => return None,
        })
    }

    /// Whether it is infinite of an infinite timestamp; the parts that begin anew are NULL.
    fn grows_for_ever(self) -> bool {
        matches!(
            self,
            Self::Year | Self::Decade | Self::Century | Self::Millennium | Self::IsoYear | Self::Julian | Self::Epoch
        )
    }
}

/// A name of a part as PostgreSQL reads it, however long the text is: in lower case and cut as
/// identifiers are.
fn as_identifier(name: &str) -> String {
    const BYTES_MAX: usize = 63;
    name[..name.floor_char_boundary(BYTES_MAX)].to_ascii_lowercase()
}

#[cold]
pub(super) fn unknown_part(name: &str, ty: &str) -> Error {
    // A part that there is, but not of this type.
    let name = as_identifier(name);
    if name.starts_with("timezone") {
        let message = format!("unit \"{name}\" not supported for type {ty}");
        return Error::new(SqlState::FEATURE_NOT_SUPPORTED, message);
    }
    Error::new(SqlState::BAD_PARAMETER, format!("unit \"{name}\" not recognized for type {ty}"))
}

#[cold]
pub(super) fn unsupported_part(name: &str, ty: &str) -> Error {
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("unit \"{}\" not supported for type {ty}", as_identifier(name)))
}

pub(super) fn whole(value: i64) -> Result<Option<Numeric>> {
    Ok(Some(Numeric::from(value)))
}

pub(super) fn micros_with_scale(micros: i128, scale: u8) -> Result<Option<Numeric>> {
    Numeric::checked(micros, u32::from(scale)).map(Some)
}

pub(super) fn clock_part(part: Part, time: i64) -> Option<Result<Option<Numeric>>> {
    let minute = time % 60_000_000;
    Some(match part {
        Part::Microseconds => whole(minute),
        Part::Milliseconds => micros_with_scale(i128::from(minute), 3),
        Part::Second => micros_with_scale(i128::from(minute), 6),
        Part::Minute => whole(time / 60_000_000 % 60),
        Part::Hour => whole(time / 3_600_000_000),
        _ => return None,
    })
}

fn calendar_part(part: Part, days: i64) -> Option<Result<Option<Numeric>>> {
    let (year, month, day) = civil_from_days(days);
    Some(whole(match part {
        Part::Day => day,
        Part::Month => month,
        Part::Quarter => (month - 1) / 3 + 1,
        Part::Week => iso_week(days).1,
        // There is no year 0 in what people see.
        Part::Year => year - i64::from(year <= 0),
        Part::Decade => year.div_euclid(10),
        Part::Century => {
            if year > 0 {
                (year + 99) / 100
            } else {
                -((99 - (year - 1)) / 100)
            }
        }
        Part::Millennium => {
            if year > 0 {
                (year + 999) / 1000
            } else {
                -((999 - (year - 1)) / 1000)
            }
        }
        Part::Weekday => weekday(days),
        Part::IsoWeekday => (weekday(days) + 6) % 7 + 1,
        Part::YearDay => days - days_from_civil(year, 1, 1) + 1,
        Part::IsoYear => {
            let year = iso_week(days).0;
            year - i64::from(year <= 0)
        }
        _ => return None,
    }))
}

/// The same as a float, which can be infinite: `date_part`.
pub fn timestamp_part(name: &str, local: i64, zone_offset: Option<i32>) -> Result<Option<f64>> {
    match Part::parse(name) {
        Some(part) if is_infinite_timestamp(local) && part.grows_for_ever() => {
            Ok(Some(if local > 0 { f64::INFINITY } else { f64::NEG_INFINITY }))
        }
        _ => Ok(extract_timestamp(name, local, zone_offset)?.map(|part| part.to_f64())),
    }
}

/// A part of a timestamp; `local` is what its clocks show, `zone_offset` (if it has a zone) seconds
/// east. `None` (NULL) for parts of infinity that have no value.
pub fn extract_timestamp(name: &str, local: i64, zone_offset: Option<i32>) -> Result<Option<Numeric>> {
    let ty = if zone_offset.is_some() { "timestamp with time zone" } else { "timestamp without time zone" };
    let part = Part::parse(name).ok_or_else(|| unknown_part(name, ty))?;
    if is_infinite_timestamp(local) {
        return match part {
            _ if part.grows_for_ever() => {
                Ok(Some(if local > 0 { Numeric::INFINITY } else { Numeric::NEGATIVE_INFINITY }))
            }
            _ => Ok(None),
        };
    }
    let (days, time) = (local.div_euclid(DAY_US), local.rem_euclid(DAY_US));
    if let Some(result) = clock_part(part, time).or_else(|| calendar_part(part, days)) {
        return result;
    }
    match (part, zone_offset) {
        (Part::Epoch, _) => {
            let instant = i128::from(local) - i128::from(zone_offset.unwrap_or(0)) * 1_000_000;
            micros_with_scale(instant + i128::from(UNIX_EPOCH_TO_2000_US), 6)
        }
        (Part::Julian, _) => {
            let day = Numeric::from(days + JULIAN_DAY_2000);
            Numeric::from(time).div(&Numeric::from(DAY_US)).and_then(|part| day.add(&part)).map(Some)
        }
        (Part::Zone, Some(offset)) => whole(i64::from(offset)),
        (Part::ZoneHour, Some(offset)) => whole(i64::from(offset / 3600)),
        (Part::ZoneMinute, Some(offset)) => whole(i64::from(offset / 60 % 60)),
        _ => Err(unsupported_part(name, ty)),
    }
}

/// A part of a date.
pub fn extract_date(name: &str, date: i32) -> Result<Option<Numeric>> {
    let part = Part::parse(name).ok_or_else(|| unknown_part(name, "date"))?;
    if is_infinite_date(date)
        && clock_part(part, 0).is_none()
        && !matches!(part, Part::Zone | Part::ZoneHour | Part::ZoneMinute)
    {
        return extract_timestamp(name, if date < 0 { i64::MIN } else { i64::MAX }, None);
    }
    if let Some(result) = calendar_part(part, i64::from(date)) {
        return result;
    }
    match part {
        Part::Epoch => whole((i64::from(date) + super::UNIX_EPOCH_TO_2000_DAYS) * 86_400),
        Part::Julian => whole(i64::from(date) + JULIAN_DAY_2000),
        _ => Err(unsupported_part(name, "date")),
    }
}

/// A part of a time of day.
pub fn extract_time(name: &str, time: i64) -> Result<Option<Numeric>> {
    let ty = "time without time zone";
    let part = Part::parse(name).ok_or_else(|| unknown_part(name, ty))?;
    match clock_part(part, time) {
        Some(result) => result,
        None if part == Part::Epoch => micros_with_scale(i128::from(time), 6),
        None => Err(unsupported_part(name, ty)),
    }
}

/// A part of an interval.
pub fn extract_interval(name: &str, interval: Interval) -> Result<Option<Numeric>> {
    let part = Part::parse(name).ok_or_else(|| unknown_part(name, "interval"))?;
    if let Some(result) = clock_part(part, interval.micros) {
        return result;
    }
    let (years, months) = (i64::from(interval.months / 12), i64::from(interval.months % 12));
    match part {
        Part::Day => whole(i64::from(interval.days)),
        Part::Month => whole(months),
        Part::Quarter => whole(months / 3 + 1),
        Part::Year => whole(years),
        Part::Decade => whole(years / 10),
        Part::Century => whole(years / 100),
        Part::Millennium => whole(years / 1000),
        Part::Epoch => {
            // A year has 365.25 days here, a month 30.
            let days = i128::from(years) * 1461 + (i128::from(months) * 30 + i128::from(interval.days)) * 4;
            micros_with_scale(days * i128::from(DAY_US / 4) + i128::from(interval.micros), 6)
        }
        _ => Err(unsupported_part(name, "interval")),
    }
}

fn truncate_clock(part: Part, time: i64) -> Option<i64> {
    let unit = match part {
        Part::Microseconds => 1,
        Part::Milliseconds => 1000,
        Part::Second => 1_000_000,
        Part::Minute => 60_000_000,
        Part::Hour => 3_600_000_000,
        _ => return None,
    };
    Some(time - time % unit)
}

/// A local timestamp with all parts below one set to their least: `date_trunc`.
pub fn truncate_timestamp(name: &str, local: i64, ty: &str) -> Result<i64> {
    if is_infinite_timestamp(local) {
        return Ok(local);
    }
    checked_timestamp(i128::from(truncate_clocks(name, local, ty)?))
}

/// The same of what clocks show, which may be no timestamp.
fn truncate_clocks(name: &str, local: i64, ty: &str) -> Result<i64> {
    let part = Part::parse(name).ok_or_else(|| unknown_part(name, ty))?;
    let (days, time) = (local.div_euclid(DAY_US), local.rem_euclid(DAY_US));
    if let Some(time) = truncate_clock(part, time) {
        return Ok(days * DAY_US + time);
    }
    let (year, month, _) = civil_from_days(days);
    let first = |year: i64| days_from_civil(year, 1, 1);
    let truncated = match part {
        Part::Day => days,
        Part::Week => days - (weekday(days) + 6) % 7,
        Part::Month => days_from_civil(year, month, 1),
        Part::Quarter => days_from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        Part::Year => first(year),
        Part::Decade => first(year.div_euclid(10) * 10),
        Part::Century => first((year - 1).div_euclid(100) * 100 + 1),
        Part::Millennium => first((year - 1).div_euclid(1000) * 1000 + 1),
        _ => return Err(unknown_part(name, ty)),
    };
    Ok(truncated.saturating_mul(DAY_US))
}

/// An instant truncated as the zone's clocks show it.
pub fn truncate_timestamptz(name: &str, instant: i64, zone: &Zone) -> Result<i64> {
    if is_infinite_timestamp(instant) {
        return Ok(instant);
    }
    let offset = i64::from(zone.offset_at(instant)) * 1_000_000;
    let truncated = truncate_clocks(name, clocks_at(instant, zone), "timestamp with time zone")?;
    // Within the day the offset stays, even where clocks show an hour twice.
    match Part::parse(name) {
        Some(part) if truncate_clock(part, 0).is_some() => {
            checked_timestamp(i128::from(truncated) - i128::from(offset))
        }
        _ => local_to_instant(truncated, zone),
    }
}

/// An interval with all parts below one set to zero.
pub fn truncate_interval(name: &str, interval: Interval) -> Result<Interval> {
    let part = Part::parse(name).ok_or_else(|| unknown_part(name, "interval"))?;
    if let Some(micros) = truncate_clock(part, interval.micros) {
        return Ok(Interval { micros, ..interval });
    }
    let unit_months = match part {
        Part::Day => return Ok(Interval { micros: 0, ..interval }),
        Part::Month => 1,
        Part::Quarter => 3,
        Part::Year => 12,
        Part::Decade => 120,
        Part::Century => 1200,
        Part::Millennium => 12_000,
        Part::Week => return Err(unsupported_part(name, "interval")),
        _ => return Err(unknown_part(name, "interval")),
    };
    Ok(Interval { months: interval.months - interval.months % unit_months, days: 0, micros: 0 })
}

/// The beginning of the span of `stride` that a timestamp is in, spans being counted from `origin`:
/// `date_bin`.
pub fn bin(stride: Interval, timestamp: i64, origin: i64) -> Result<i64> {
    if is_infinite_timestamp(timestamp) {
        return Ok(timestamp);
    }
    if is_infinite_timestamp(origin) {
        return Err(Error::new(SqlState::DATETIME_OVERFLOW, "origin out of range"));
    }
    if stride.months != 0 {
        return Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let too_long = crate::interval::out_of_range;
    let stride = i64::try_from(stride.length_us()).map_err(|_| too_long())?;
    if stride <= 0 {
        return Err(Error::new(SqlState::DATETIME_OVERFLOW, "stride must be greater than zero"));
    }
    let distance = timestamp.checked_sub(origin).ok_or_else(too_long)?;
    checked_timestamp(i128::from(origin) + i128::from(distance.div_euclid(stride)) * i128::from(stride))
}

/// A date of year (negative for BC), month and day: `make_date`.
pub fn make_date(year: i64, month: i64, day: i64) -> Result<i32> {
    let out = || {
        Error::new(SqlState::DATETIME_OVERFLOW, format!("date field value out of range: {year}-{month:02}-{day:02}"))
    };
    if year == 0 || !(-5_000_000..=5_874_897).contains(&year) || !(1..=12).contains(&month) {
        return Err(out());
    }
    let civil_year = if year < 0 { year + 1 } else { year };
    if day < 1 || day > days_in_month(civil_year, month) {
        return Err(out());
    }
    checked_date(days_from_civil(civil_year, month, day))
        .map_err(|_| Error::new(SqlState::DATETIME_OVERFLOW, format!("date out of range: {year}-{month:02}-{day:02}")))
}

/// A time of day of hours, minutes and seconds: `make_time`.
pub fn make_time(hours: i64, minutes: i64, seconds: f64) -> Result<i64> {
    let valid = (0..=24).contains(&hours) && (0..60).contains(&minutes) && (0.0..=60.0).contains(&seconds);
    let time = (hours.clamp(0, 24) * 60 + minutes.clamp(0, 60)) * 60_000_000
        + (seconds.clamp(0.0, 60.0) * 1e6).round_ties_even() as i64;
    if !valid || time > DAY_US {
        return Err(Error::new(
            SqlState::DATETIME_OVERFLOW,
            format!("time field value out of range: {hours}:{minutes:02}:{seconds:02}"),
        ));
    }
    Ok(time)
}

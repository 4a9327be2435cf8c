//! Dates, times, timestamps and intervals.

use std::time::Duration;

use super::{Function, date, f, float, int, interval, text, time, timestamp};
use crate::datetime::{self as dt, TimeTz, Zone};
use crate::env::{self, Env};
use crate::error::{Error, Result, SqlState};
use crate::interval::{DAY_US, Interval};
use crate::numeric::Numeric;
use crate::pulse;
use crate::types::Type::{self, Bool, Float8, Int4, Text, TimestampTz};
use crate::value::Datum;

const DATE: Type = Type::Date;
const TIME: Type = Type::Time;
const TTZ: Type = Type::TimeTz;
const TS: Type = Type::Timestamp;
const SPAN: Type = Type::Interval;
const NUM: Type = Type::Numeric;

fn at(us: i64) -> Result<Datum> {
    Ok(Datum::Timestamp(us))
}

fn span(interval: Interval) -> Result<Datum> {
    Ok(Datum::Interval(interval))
}

fn part(value: Option<Numeric>) -> Result<Datum> {
    Ok(value.map_or(Datum::Null, Datum::Numeric))
}

fn float_part(value: Option<Numeric>) -> Result<Datum> {
    Ok(value.map_or(Datum::Null, |value| Datum::Float(value.to_f64())))
}

fn timestamptz_part(name: &str, instant: i64, env: &Env) -> Result<Option<Numeric>> {
    dt::extract_timestamp(name, dt::clocks_at(instant, &env.zone), Some(env.zone.offset_at(instant)))
}

fn infinite_part(name: &str, local: i64, zone_offset: Option<i32>) -> Result<Datum> {
    Ok(dt::timestamp_part(name, local, zone_offset)?.map_or(Datum::Null, Datum::Float))
}

/// A timestamp moved into a zone by name, or out of it. Infinity stays, whatever the name.
fn in_zone(
    name: &str,
    us: i64,
    zone: fn(&str, i64) -> Result<Zone>,
    moved: fn(i64, &Zone) -> Result<i64>,
) -> Result<Datum> {
    if dt::is_infinite_timestamp(us) { at(us) } else { at(moved(us, &zone(name, us)?)?) }
}

/// The same with an interval for a zone.
fn in_offset(offset: Interval, us: i64, moved: fn(i64, &Zone) -> Result<i64>) -> Result<Datum> {
    if dt::is_infinite_timestamp(us) { at(us) } else { at(moved(us, &interval_zone(offset)?)?) }
}

fn date_plus_interval(date: i32, interval: Interval) -> Result<Datum> {
    dt::timestamp_add(dt::date_to_timestamp(date)?, interval).map(Datum::Timestamp)
}

fn time_tz(value: &Datum) -> Result<TimeTz> {
    match value {
        Datum::TimeTz(time) => Ok(*time),
        other => Err(super::wrong("TimeTz", other)),
    }
}

/// The instant at which a day's clocks in the time's zone show it.
fn date_plus_time_tz(date: i32, time: TimeTz) -> Result<Datum> {
    let midnight = dt::date_to_timestamp(date)?;
    if dt::is_infinite_timestamp(midnight) {
        return at(midnight);
    }
    at(dt::checked_timestamp(i128::from(midnight) + i128::from(time.at_greenwich()))?)
}

/// The time of a statement that may have to sleep yet: its clock is ahead by as much.
fn clock_us() -> i64 {
    let ahead_us = i64::try_from(pulse::time_ahead().as_micros()).unwrap_or(i64::MAX);
    env::clock_us().saturating_add(ahead_us)
}

/// Has the statement sleep for a number of seconds; not at all if it is negative or not a number.
fn sleep(seconds: f64) -> Result<Datum> {
    if seconds > 0.0 {
        pulse::sleep(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    }
    Ok(Datum::text(""))
}

/// Has the statement sleep until an instant.
fn sleep_until(instant: i64) -> Result<Datum> {
    if instant == i64::MAX {
        return sleep(f64::INFINITY);
    }
    sleep(instant.saturating_sub(clock_us()) as f64 / 1e6)
}

fn today(env: &Env) -> i32 {
    dt::timestamp_to_date(env.zone.to_local(env.transaction_us))
}

/// Seconds since 1970, as a float, as an instant.
fn from_epoch(seconds: f64) -> Result<Datum> {
    if seconds.is_nan() {
        return Err(Error::new(SqlState::DATETIME_OVERFLOW, "timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        return at(if seconds > 0.0 { i64::MAX } else { i64::MIN });
    }
    let us = ((seconds - dt::UNIX_EPOCH_TO_2000_US as f64 / 1e6) * 1e6).round_ties_even();
    if us < dt::TIMESTAMP_MIN as f64 || us >= dt::TIMESTAMP_END as f64 {
        return Err(Error::new(SqlState::DATETIME_OVERFLOW, format!("timestamp out of range: \"{seconds}\"")));
    }
    at(us as i64)
}

/// The fixed zone that an interval names.
fn interval_zone(offset: Interval) -> Result<Zone> {
    if offset.months != 0 || offset.days != 0 {
        return Err(Error::new(
            SqlState::BAD_PARAMETER,
            format!("interval time zone \"{offset}\" must not include months or days"),
        ));
    }
    let seconds = offset.micros / 1_000_000;
    i32::try_from(seconds)
        .ok()
        .filter(|seconds| seconds.abs() < 168 * 3600)
        .map(Zone::Fixed)
        .ok_or_else(|| Error::new(SqlState::BAD_PARAMETER, "time zone displacement out of range"))
}

fn make_timestamp(a: &[&Datum]) -> Result<i64> {
    let date = dt::make_date(int(a[0])?, int(a[1])?, int(a[2])?)?;
    let time = dt::make_time(int(a[3])?, int(a[4])?, float(a[5])?)?;
    dt::checked_timestamp(i128::from(date) * i128::from(DAY_US) + i128::from(time))
}

fn make_interval(a: &[&Datum]) -> Result<Datum> {
    let out = crate::interval::out_of_range;
    let mut values = [0i64; 6];
    for (value, arg) in values.iter_mut().zip(a) {
        *value = int(arg)?;
    }
    let seconds = match a.get(6) {
        Some(seconds) => float(seconds)?,
        None => 0.0,
    };
    let [years, months, weeks, days, hours, minutes] = values;
    let seconds_us = (seconds * 1e6).round_ties_even();
    if !seconds_us.is_finite() || seconds_us.abs() > 9e18 {
        return Err(out());
    }
    let micros = i128::from(hours) * 3_600_000_000 + i128::from(minutes) * 60_000_000 + seconds_us as i128;
    span(Interval {
        months: i32::try_from(years * 12 + months).map_err(|_| out())?,
        days: i32::try_from(weeks * 7 + days).map_err(|_| out())?,
        micros: i64::try_from(micros).map_err(|_| out())?,
    })
}

fn shifted_time(time: i64, interval: Interval, sign: i64) -> Result<Datum> {
    let shift = interval.micros % DAY_US * sign;
    Ok(Datum::Time((time + shift).rem_euclid(DAY_US)))
}

fn rounded(us: i64, digits: &Datum) -> Result<i64> {
    let digits = int(digits)?.clamp(0, 6) as u32;
    let unit = 10i64.pow(6 - digits);
    Ok(us.saturating_add(unit / 2).div_euclid(unit) * unit)
}

/// `to_char`; nothing for infinity and for an empty picture.
fn shown(local: i64, zone: Option<(&Zone, i64)>, picture: &str) -> Result<Datum> {
    if dt::is_infinite_timestamp(local) || picture.is_empty() {
        return Ok(Datum::Null);
    }
    dt::timestamp_to_char(local, zone, picture).map(|text| Datum::text(&text))
}

/// One end of a span: a value, or NULL.
type End = Option<i64>;

/// Whether two spans have a moment in common. A span is half open and has its ends in any order;
/// one without a second end, or of no length, is its one moment.
fn overlaps(first: (End, End), second: (End, End)) -> Datum {
    let span = |ends: (End, End)| match ends {
        (None, None) => None,
        (None, Some(one)) | (Some(one), None) => Some((one, None)),
        (Some(one), Some(other)) => Some((one.min(other), Some(one.max(other)))),
    };
    let (Some(first), Some(second)) = (span(first), span(second)) else { return Datum::Null };
    if first.0 == second.0 {
        return if first.1.is_some() && second.1.is_some() { Datum::Bool(true) } else { Datum::Null };
    }
    let (earlier, later) = if first.0 < second.0 { (first, second) } else { (second, first) };
    match (earlier.1, later.1) {
        (None, _) => Datum::Null,
        (Some(end), _) if later.0 < end => Datum::Bool(true),
        (_, None) => Datum::Null,
        _ => Datum::Bool(false),
    }
}

/// How an interval is added to a start.
type Later = fn(i64, Interval, &Env) -> Result<i64>;

/// OVERLAPS of two starts and ends, or of starts and intervals.
fn overlaps_of(a: &[&Datum], env: &Env, later: Later) -> Result<Datum> {
    let start = |value: &Datum| match value {
        Datum::Null => Ok(None),
        Datum::Timestamp(us) | Datum::Time(us) => Ok(Some(*us)),
        // In their order, which the zone decides for equal times.
        Datum::TimeTz(time) => Ok(Some((time.at_greenwich() << 18) + i64::from(time.west_s))),
        other => Err(super::wrong("OVERLAPS", other)),
    };
    let span = |from: &Datum, to: &Datum| -> Result<(End, End)> {
        let from = start(from)?;
        Ok((
            from,
            match (from, to) {
                (Some(from), Datum::Interval(length)) => Some(later(from, *length, env)?),
                (None, Datum::Interval(_)) => None,
                (_, to) => start(to)?,
            },
        ))
    };
    Ok(overlaps(span(a[0], a[1])?, span(a[2], a[3])?))
}

fn later_timestamp(local: i64, length: Interval, _: &Env) -> Result<i64> {
    dt::timestamp_add(local, length)
}

fn later_instant(instant: i64, length: Interval, env: &Env) -> Result<i64> {
    dt::timestamptz_add(instant, length, &env.zone)
}

fn later_time(time: i64, length: Interval, _: &Env) -> Result<i64> {
    Ok((time + length.micros % DAY_US).rem_euclid(DAY_US))
}

pub(super) const TABLE: &[Function] = &[
    f("+", &[DATE, Int4], DATE, |a, _| dt::date_add(date(a[0])?, int(a[1])?).map(Datum::Date)),
    f("+", &[Int4, DATE], DATE, |a, _| dt::date_add(date(a[1])?, int(a[0])?).map(Datum::Date)),
    f("-", &[DATE, Int4], DATE, |a, _| dt::date_add(date(a[0])?, -int(a[1])?).map(Datum::Date)),
    f("-", &[DATE, DATE], Int4, |a, _| {
        dt::date_sub(date(a[0])?, date(a[1])?).and_then(|days| crate::cast::int_in_range(days, Int4))
    }),
    f("+", &[DATE, SPAN], TS, |a, _| date_plus_interval(date(a[0])?, interval(a[1])?)),
    f("+", &[SPAN, DATE], TS, |a, _| date_plus_interval(date(a[1])?, interval(a[0])?)),
    f("-", &[DATE, SPAN], TS, |a, _| date_plus_interval(date(a[0])?, interval(a[1])?.negate()?)),
    f("+", &[DATE, TIME], TS, |a, _| {
        date_plus_interval(date(a[0])?, Interval { micros: time(a[1])?, ..Interval::default() })
    }),
    f("+", &[TIME, DATE], TS, |a, _| {
        date_plus_interval(date(a[1])?, Interval { micros: time(a[0])?, ..Interval::default() })
    }),
    f("+", &[TS, SPAN], TS, |a, _| dt::timestamp_add(timestamp(a[0])?, interval(a[1])?).map(Datum::Timestamp)),
    f("+", &[SPAN, TS], TS, |a, _| dt::timestamp_add(timestamp(a[1])?, interval(a[0])?).map(Datum::Timestamp)),
    f("-", &[TS, SPAN], TS, |a, _| {
        dt::timestamp_add(timestamp(a[0])?, interval(a[1])?.negate()?).map(Datum::Timestamp)
    }),
    f("+", &[TimestampTz, SPAN], TimestampTz, |a, env| {
        dt::timestamptz_add(timestamp(a[0])?, interval(a[1])?, &env.zone).map(Datum::Timestamp)
    })
    .stable(),
    f("+", &[SPAN, TimestampTz], TimestampTz, |a, env| {
        dt::timestamptz_add(timestamp(a[1])?, interval(a[0])?, &env.zone).map(Datum::Timestamp)
    })
    .stable(),
    f("-", &[TimestampTz, SPAN], TimestampTz, |a, env| {
        dt::timestamptz_add(timestamp(a[0])?, interval(a[1])?.negate()?, &env.zone).map(Datum::Timestamp)
    })
    .stable(),
    f("-", &[TS, TS], SPAN, |a, _| dt::timestamp_sub(timestamp(a[0])?, timestamp(a[1])?).map(Datum::Interval)),
    f("-", &[TimestampTz, TimestampTz], SPAN, |a, _| {
        dt::timestamp_sub(timestamp(a[0])?, timestamp(a[1])?).map(Datum::Interval)
    }),
    f("+", &[TIME, SPAN], TIME, |a, _| shifted_time(time(a[0])?, interval(a[1])?, 1)),
    f("+", &[SPAN, TIME], TIME, |a, _| shifted_time(time(a[1])?, interval(a[0])?, 1)),
    f("-", &[TIME, SPAN], TIME, |a, _| shifted_time(time(a[0])?, interval(a[1])?, -1)),
    f("-", &[TIME, TIME], SPAN, |a, _| span(Interval { micros: time(a[0])? - time(a[1])?, ..Interval::default() })),
    f("+", &[SPAN, SPAN], SPAN, |a, _| interval(a[0])?.add(interval(a[1])?).map(Datum::Interval)),
    f("-", &[SPAN, SPAN], SPAN, |a, _| interval(a[0])?.sub(interval(a[1])?).map(Datum::Interval)),
    f("-", &[SPAN], SPAN, |a, _| interval(a[0])?.negate().map(Datum::Interval)),
    f("*", &[SPAN, Float8], SPAN, |a, _| interval(a[0])?.mul(float(a[1])?).map(Datum::Interval)),
    f("*", &[Float8, SPAN], SPAN, |a, _| interval(a[1])?.mul(float(a[0])?).map(Datum::Interval)),
    f("/", &[SPAN, Float8], SPAN, |a, _| interval(a[0])?.div(float(a[1])?).map(Datum::Interval)),
    f("now", &[], TimestampTz, |_, env| at(env.transaction_us)).stable(),
    f("transaction_timestamp", &[], TimestampTz, |_, env| at(env.transaction_us)).stable(),
    f("statement_timestamp", &[], TimestampTz, |_, env| at(env.statement_us)).stable(),
    f("clock_timestamp", &[], TimestampTz, |_, _| at(clock_us())).volatile(),
    f("current_timestamp", &[], TimestampTz, |_, env| at(env.transaction_us)).stable(),
    f("current_timestamp", &[Int4], TimestampTz, |a, env| at(rounded(env.transaction_us, a[0])?)).stable(),
    f("localtimestamp", &[], TS, |_, env| at(env.zone.to_local(env.transaction_us))).stable(),
    f("localtimestamp", &[Int4], TS, |a, env| at(rounded(env.zone.to_local(env.transaction_us), a[0])?)).stable(),
    f("current_date", &[], DATE, |_, env| Ok(Datum::Date(today(env)))).stable(),
    f("localtime", &[], TIME, |_, env| Ok(Datum::Time(env.zone.to_local(env.transaction_us).rem_euclid(DAY_US))))
        .stable(),
    f("localtime", &[Int4], TIME, |a, env| {
        Ok(Datum::Time(rounded(env.zone.to_local(env.transaction_us), a[0])?.rem_euclid(DAY_US)))
    })
    .stable(),
    f("pg_sleep", &[Float8], Type::Void, |a, _| sleep(float(a[0])?)).volatile(),
    f("pg_sleep_for", &[SPAN], Type::Void, |a, env| {
        sleep_until(dt::timestamptz_add(clock_us(), interval(a[0])?, &env.zone)?)
    })
    .volatile(),
    f("pg_sleep_until", &[TimestampTz], Type::Void, |a, _| sleep_until(timestamp(a[0])?)).volatile(),
    f("timeofday", &[], Text, |_, env| {
        let now = clock_us();
        let local = env.zone.to_local(now);
        dt::timestamp_to_char(local, Some((&env.zone, now)), "Dy Mon DD HH24:MI:SS.US YYYY TZ")
            .map(|text| Datum::text(&text))
    })
    .volatile(),
    f("isfinite", &[DATE], Bool, |a, _| Ok(Datum::Bool(!dt::is_infinite_date(date(a[0])?)))),
    f("isfinite", &[TS], Bool, |a, _| Ok(Datum::Bool(!dt::is_infinite_timestamp(timestamp(a[0])?)))),
    f("isfinite", &[TimestampTz], Bool, |a, _| Ok(Datum::Bool(!dt::is_infinite_timestamp(timestamp(a[0])?)))),
    f("isfinite", &[SPAN], Bool, |_, _| Ok(Datum::Bool(true))),
    f("age", &[TS, TS], SPAN, |a, _| dt::age(timestamp(a[0])?, timestamp(a[1])?).map(Datum::Interval)),
    f("age", &[TimestampTz, TimestampTz], SPAN, |a, env| {
        let local = |value: &Datum| Ok::<i64, Error>(dt::clocks_at(timestamp(value)?, &env.zone));
        dt::age(local(a[0])?, local(a[1])?).map(Datum::Interval)
    })
    .stable(),
    f("age", &[TS], SPAN, |a, env| dt::age(dt::date_to_timestamp(today(env))?, timestamp(a[0])?).map(Datum::Interval))
        .stable(),
    f("age", &[TimestampTz], SPAN, |a, env| {
        let local = dt::clocks_at(timestamp(a[0])?, &env.zone);
        dt::age(dt::date_to_timestamp(today(env))?, local).map(Datum::Interval)
    })
    .stable(),
    f("extract", &[Text, DATE], NUM, |a, _| part(dt::extract_date(text(a[0])?, date(a[1])?)?)),
    f("extract", &[Text, TIME], NUM, |a, _| part(dt::extract_time(text(a[0])?, time(a[1])?)?)),
    f("extract", &[Text, TTZ], NUM, |a, _| part(time_tz(a[1])?.extract(text(a[0])?)?)),
    f("date_part", &[Text, TTZ], Float8, |a, _| float_part(time_tz(a[1])?.extract(text(a[0])?)?)),
    f("+", &[TTZ, SPAN], TTZ, |a, _| Ok(Datum::TimeTz(time_tz(a[0])?.shifted(interval(a[1])?.micros)))),
    f("+", &[SPAN, TTZ], TTZ, |a, _| Ok(Datum::TimeTz(time_tz(a[1])?.shifted(interval(a[0])?.micros)))),
    f("-", &[TTZ, SPAN], TTZ, |a, _| Ok(Datum::TimeTz(time_tz(a[0])?.shifted(-(interval(a[1])?.micros % DAY_US))))),
    f("+", &[DATE, TTZ], TimestampTz, |a, _| date_plus_time_tz(date(a[0])?, time_tz(a[1])?)),
    f("+", &[TTZ, DATE], TimestampTz, |a, _| date_plus_time_tz(date(a[1])?, time_tz(a[0])?)),
    f("current_time", &[], TTZ, |_, env| Ok(Datum::TimeTz(TimeTz::of_instant(env.transaction_us, &env.zone)))).stable(),
    f("current_time", &[Int4], TTZ, |a, env| {
        let now = TimeTz::of_instant(env.transaction_us, &env.zone);
        Ok(Datum::TimeTz(TimeTz { micros: rounded(now.micros, a[0])?, ..now }))
    })
    .stable(),
    f("timezone", &[Text, TTZ], TTZ, |a, env| {
        let zone = Zone::at_instant(text(a[0])?, env.transaction_us)?;
        Ok(Datum::TimeTz(time_tz(a[1])?.moved_to(zone.offset_at(env.transaction_us))))
    })
    .stable(),
    f("timezone", &[SPAN, TTZ], TTZ, |a, env| {
        let zone = interval_zone(interval(a[0])?)?;
        Ok(Datum::TimeTz(time_tz(a[1])?.moved_to(zone.offset_at(env.transaction_us))))
    }),
    f("overlaps", &[TTZ, TTZ, TTZ, TTZ], Bool, |a, env| overlaps_of(a, env, later_time)).called_on_null(),
    f("extract", &[Text, TS], NUM, |a, _| part(dt::extract_timestamp(text(a[0])?, timestamp(a[1])?, None)?)),
    f("extract", &[Text, TimestampTz], NUM, |a, env| part(timestamptz_part(text(a[0])?, timestamp(a[1])?, env)?))
        .stable(),
    f("extract", &[Text, SPAN], NUM, |a, _| part(dt::extract_interval(text(a[0])?, interval(a[1])?)?)),
    f("date_part", &[Text, DATE], Float8, |a, _| {
        // By way of a timestamp, so that a date has hours.
        let local = dt::date_to_timestamp(date(a[1])?)?;
        infinite_part(text(a[0])?, local, None)
    }),
    f("date_part", &[Text, TIME], Float8, |a, _| float_part(dt::extract_time(text(a[0])?, time(a[1])?)?)),
    f("date_part", &[Text, TS], Float8, |a, _| infinite_part(text(a[0])?, timestamp(a[1])?, None)),
    f("date_part", &[Text, TimestampTz], Float8, |a, env| {
        let instant = timestamp(a[1])?;
        infinite_part(text(a[0])?, dt::clocks_at(instant, &env.zone), Some(env.zone.offset_at(instant)))
    })
    .stable(),
    f("date_part", &[Text, SPAN], Float8, |a, _| float_part(dt::extract_interval(text(a[0])?, interval(a[1])?)?)),
    f("date_trunc", &[Text, TS], TS, |a, _| {
        at(dt::truncate_timestamp(text(a[0])?, timestamp(a[1])?, "timestamp without time zone")?)
    }),
    f("date_trunc", &[Text, TimestampTz], TimestampTz, |a, env| {
        at(dt::truncate_timestamptz(text(a[0])?, timestamp(a[1])?, &env.zone)?)
    })
    .stable(),
    f("date_trunc", &[Text, TimestampTz, Text], TimestampTz, |a, _| {
        let instant = timestamp(a[1])?;
        if dt::is_infinite_timestamp(instant) {
            return at(instant);
        }
        at(dt::truncate_timestamptz(text(a[0])?, instant, &Zone::with_rules(text(a[2])?)?)?)
    }),
    f("date_trunc", &[Text, SPAN], SPAN, |a, _| span(dt::truncate_interval(text(a[0])?, interval(a[1])?)?)),
    f("date_bin", &[SPAN, TS, TS], TS, |a, _| at(dt::bin(interval(a[0])?, timestamp(a[1])?, timestamp(a[2])?)?)),
    f("date_bin", &[SPAN, TimestampTz, TimestampTz], TimestampTz, |a, _| {
        at(dt::bin(interval(a[0])?, timestamp(a[1])?, timestamp(a[2])?)?)
    }),
    f("timezone", &[Text, TS], TimestampTz, |a, _| {
        in_zone(text(a[0])?, timestamp(a[1])?, Zone::at, dt::local_to_instant)
    }),
    f("timezone", &[Text, TimestampTz], TS, |a, _| {
        in_zone(text(a[0])?, timestamp(a[1])?, Zone::at_instant, dt::instant_to_local)
    }),
    f("timezone", &[SPAN, TS], TimestampTz, |a, _| in_offset(interval(a[0])?, timestamp(a[1])?, dt::local_to_instant)),
    f("timezone", &[SPAN, TimestampTz], TS, |a, _| in_offset(interval(a[0])?, timestamp(a[1])?, dt::instant_to_local)),
    f("make_date", &[Int4, Int4, Int4], DATE, |a, _| {
        dt::make_date(int(a[0])?, int(a[1])?, int(a[2])?).map(Datum::Date)
    }),
    f("make_time", &[Int4, Int4, Float8], TIME, |a, _| {
        dt::make_time(int(a[0])?, int(a[1])?, float(a[2])?).map(Datum::Time)
    }),
    f("make_timestamp", &[Int4, Int4, Int4, Int4, Int4, Float8], TS, |a, _| at(make_timestamp(a)?)),
    f("make_timestamptz", &[Int4, Int4, Int4, Int4, Int4, Float8], TimestampTz, |a, env| {
        at(dt::local_to_instant(make_timestamp(a)?, &env.zone)?)
    })
    .stable(),
    f("make_timestamptz", &[Int4, Int4, Int4, Int4, Int4, Float8, Text], TimestampTz, |a, _| {
        let local = make_timestamp(a)?;
        at(dt::local_to_instant(local, &dt::zone_argument(text(a[6])?, local)?)?)
    })
    .stable(),
    f("make_interval", &[], SPAN, |a, _| make_interval(a)),
    f("make_interval", &[Int4], SPAN, |a, _| make_interval(a)),
    f("make_interval", &[Int4, Int4], SPAN, |a, _| make_interval(a)),
    f("make_interval", &[Int4, Int4, Int4], SPAN, |a, _| make_interval(a)),
    f("make_interval", &[Int4, Int4, Int4, Int4], SPAN, |a, _| make_interval(a)),
    f("make_interval", &[Int4, Int4, Int4, Int4, Int4], SPAN, |a, _| make_interval(a)),
    f("make_interval", &[Int4, Int4, Int4, Int4, Int4, Int4], SPAN, |a, _| make_interval(a)),
    f("make_interval", &[Int4, Int4, Int4, Int4, Int4, Int4, Float8], SPAN, |a, _| make_interval(a)),
    f("justify_hours", &[SPAN], SPAN, |a, _| span(interval(a[0])?.justify_hours()?)),
    f("justify_days", &[SPAN], SPAN, |a, _| span(interval(a[0])?.justify_days()?)),
    f("justify_interval", &[SPAN], SPAN, |a, _| span(interval(a[0])?.justify()?)),
    f("to_timestamp", &[Float8], TimestampTz, |a, _| from_epoch(float(a[0])?)),
    f("to_timestamp", &[Text, Text], TimestampTz, |a, env| at(dt::to_timestamp(text(a[0])?, text(a[1])?, &env.zone)?))
        .stable(),
    f("to_date", &[Text, Text], DATE, |a, _| dt::to_date(text(a[0])?, text(a[1])?).map(Datum::Date)).stable(),
    f("to_char", &[TS, Text], Text, |a, _| shown(timestamp(a[0])?, None, text(a[1])?)).stable(),
    f("to_char", &[TimestampTz, Text], Text, |a, env| {
        let instant = timestamp(a[0])?;
        shown(dt::clocks_at(instant, &env.zone), Some((&env.zone, instant)), text(a[1])?)
    })
    .stable(),
    f("to_char", &[SPAN, Text], Text, |a, _| {
        dt::interval_to_char(interval(a[0])?, text(a[1])?).map(|text| Datum::text(&text))
    })
    .stable(),
    f("overlaps", &[TS, TS, TS, TS], Bool, |a, env| overlaps_of(a, env, later_timestamp)).called_on_null(),
    f("overlaps", &[TS, TS, TS, SPAN], Bool, |a, env| overlaps_of(a, env, later_timestamp)).called_on_null(),
    f("overlaps", &[TS, SPAN, TS, TS], Bool, |a, env| overlaps_of(a, env, later_timestamp)).called_on_null(),
    f("overlaps", &[TS, SPAN, TS, SPAN], Bool, |a, env| overlaps_of(a, env, later_timestamp)).called_on_null(),
    f("overlaps", &[TimestampTz, TimestampTz, TimestampTz, TimestampTz], Bool, |a, env| {
        overlaps_of(a, env, later_instant)
    })
    .called_on_null(),
    f("overlaps", &[TimestampTz, TimestampTz, TimestampTz, SPAN], Bool, |a, env| overlaps_of(a, env, later_instant))
        .called_on_null()
        .stable(),
    f("overlaps", &[TimestampTz, SPAN, TimestampTz, TimestampTz], Bool, |a, env| overlaps_of(a, env, later_instant))
        .called_on_null()
        .stable(),
    f("overlaps", &[TimestampTz, SPAN, TimestampTz, SPAN], Bool, |a, env| overlaps_of(a, env, later_instant))
        .called_on_null()
        .stable(),
    f("overlaps", &[TIME, TIME, TIME, TIME], Bool, |a, env| overlaps_of(a, env, later_time)).called_on_null(),
    f("overlaps", &[TIME, TIME, TIME, SPAN], Bool, |a, env| overlaps_of(a, env, later_time)).called_on_null(),
    f("overlaps", &[TIME, SPAN, TIME, TIME], Bool, |a, env| overlaps_of(a, env, later_time)).called_on_null(),
    f("overlaps", &[TIME, SPAN, TIME, SPAN], Bool, |a, env| overlaps_of(a, env, later_time)).called_on_null(),
];

//! `interval`: months, days and microseconds, kept apart because months and days differ in length.
//!
//! Comparison takes a month for 30 days and a day for 24 hours, as PostgreSQL's does: two intervals of different form
//! may be equal.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::error::{Error, Result, SqlState};

/// Microseconds of a day.
pub(crate) const DAY_US: i64 = 86_400_000_000;
const HOUR_US: i64 = 3_600_000_000;
const MINUTE_US: i64 = 60_000_000;
const SECOND_US: i64 = 1_000_000;

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
pub(crate) fn out_of_range() -> Error {
    Error::new(SqlState("22008"), "interval out of range")
}

/// Rounded to the microsecond of a day or second, as PostgreSQL keeps errors of floats from adding up.
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

    /// Reads an interval: `1 year 2 mons 3 days 04:05:06.7`, `1-2 3 4:05:06`, `P1Y2M3DT4H5M6S`, `5 minutes ago`.
    pub fn parse(text: &str) -> Result<Self> {
        let parsed = match parse_iso(text.trim()) {
            Some(parsed) => parsed,
            None => parse_fields(&text.to_ascii_lowercase()),
        };
        parsed.map_err(|fault| match fault {
            Fault::Syntax => {
                Error::new(SqlState::BAD_DATETIME, format!("invalid input syntax for type interval: \"{text}\""))
            }
            Fault::Months => Error::new(SqlState("22008"), "interval out of range"),
            Fault::Range => Error::new(SqlState("22015"), format!("interval field value out of range: \"{text}\"")),
        })
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

/// What is wrong with a text.
enum Fault {
    Syntax,
    Range,
    /// Years that are more months than fit.
    Months,
}

type Parsed<T> = std::result::Result<T, Fault>;

/// An interval while it is read.
#[derive(Default)]
struct Sum {
    months: i64,
    days: i64,
    micros: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

fn unit(word: &str) -> Option<Unit> {
    // PostgreSQL compares the first ten letters only.
    let word = word.get(..10).unwrap_or(word);
    Some(match word {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Unit::Microsecond,
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Unit::Millisecond,
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
        "dec" | "decs" | "decade" | "decades" => Unit::Decade,
        "c" | "cent" | "century" | "centuries" => Unit::Century,
        "mil" | "mils" | "millennia" | "millennium" => Unit::Millennium,
        _ => return None,
    })
}

impl Sum {
    /// Adds a whole number and a fraction of a unit, both of the same sign.
    fn add(&mut self, whole: i64, fraction: f64, unit: Unit) -> Parsed<()> {
        let add = |sum: &mut i64, value: i64, factor: i64| {
            *sum = value.checked_mul(factor).and_then(|value| sum.checked_add(value)).ok_or(Fault::Range)?;
            Ok(())
        };
        let part_us = |fraction: f64, unit_us: i64| (fraction * unit_us as f64).round_ties_even() as i64;
        match unit {
            Unit::Microsecond => {
                add(&mut self.micros, whole, 1)?;
                add(&mut self.micros, part_us(fraction, 1), 1)
            }
            Unit::Millisecond | Unit::Second | Unit::Minute | Unit::Hour => {
                let unit_us = match unit {
                    Unit::Millisecond => 1000,
                    Unit::Second => SECOND_US,
                    Unit::Minute => MINUTE_US,
                    _ => HOUR_US,
                };
                add(&mut self.micros, whole, unit_us)?;
                add(&mut self.micros, part_us(fraction, unit_us), 1)
            }
            Unit::Day => {
                add(&mut self.days, whole, 1)?;
                add(&mut self.micros, part_us(fraction, DAY_US), 1)
            }
            Unit::Week | Unit::Month => {
                let unit_days = if unit == Unit::Week { 7 } else { 30 };
                if unit == Unit::Week {
                    add(&mut self.days, whole, 7)?;
                } else {
                    add(&mut self.months, whole, 1)?;
                }
                let days = fraction * f64::from(unit_days);
                add(&mut self.days, days.trunc() as i64, 1)?;
                add(&mut self.micros, part_us(days.fract(), DAY_US), 1)
            }
            Unit::Year | Unit::Decade | Unit::Century | Unit::Millennium => {
                let unit_months = match unit {
                    Unit::Year => 12,
                    Unit::Decade => 120,
                    Unit::Century => 1200,
                    _ => 12_000,
                };
                // Years that are a number, but of more months than there are.
                if i32::try_from(whole).is_ok() && i32::try_from(whole * unit_months).is_err() {
                    return Err(Fault::Months);
                }
                add(&mut self.months, whole, unit_months)?;
                add(&mut self.months, (fraction * unit_months as f64).round_ties_even() as i64, 1)
            }
        }
    }

    fn finish(self, negate: bool) -> Parsed<Interval> {
        let sign = if negate { -1 } else { 1 };
        Ok(Interval {
            months: i32::try_from(self.months * sign).map_err(|_| Fault::Range)?,
            days: i32::try_from(self.days * sign).map_err(|_| Fault::Range)?,
            micros: self.micros.checked_mul(sign).ok_or(Fault::Range)?,
        })
    }
}

/// A field of PostgreSQL's forms.
enum Field<'text> {
    /// Sign, digits, digits after the point.
    Number(bool, &'text str, &'text str),
    /// Sign, years, months: `1-2`.
    YearMonth(bool, &'text str, &'text str),
    /// Sign, `h:m:s.f`.
    Clock(bool, &'text str),
    Word(&'text str),
}

fn digits(text: &str) -> &str {
    &text[..text.bytes().take_while(u8::is_ascii_digit).count()]
}

fn whole_number(text: &str) -> Parsed<i64> {
    if text.is_empty() { Ok(0) } else { text.parse().map_err(|_| Fault::Range) }
}

fn fraction(text: &str) -> Parsed<f64> {
    if text.is_empty() { Ok(0.0) } else { format!("0.{text}").parse().map_err(|_| Fault::Syntax) }
}

fn split_fields(text: &str) -> Parsed<SmallVec<[Field<'_>; 8]>> {
    let mut fields = SmallVec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || matches!(c, '@' | ',' | '\x0b'));
        let Some(first) = rest.chars().next() else { break };
        if first.is_ascii_alphabetic() {
            let length = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
            fields.push(Field::Word(&rest[..length]));
            rest = rest[length..].strip_prefix('.').unwrap_or(&rest[length..]);
            continue;
        }
        let negative = first == '-';
        if negative || first == '+' {
            rest = rest[1..].trim_start();
        }
        let whole = digits(rest);
        let after = &rest[whole.len()..];
        if after.starts_with(':') {
            let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || b":.".contains(byte)).count();
            fields.push(Field::Clock(negative, &rest[..length]));
            rest = &rest[length..];
        } else if let Some(part) = after.strip_prefix('.') {
            let part = digits(part);
            if whole.is_empty() && part.is_empty() {
                return Err(Fault::Syntax);
            }
            fields.push(Field::Number(negative, whole, part));
            rest = &after[1 + part.len()..];
        } else if let Some(months) = after.strip_prefix('-').map(digits).filter(|months| !months.is_empty())
            && !whole.is_empty()
        {
            fields.push(Field::YearMonth(negative, whole, months));
            rest = &after[1 + months.len()..];
            // A date is no interval.
            if rest.starts_with('-') {
                return Err(Fault::Syntax);
            }
        } else if whole.is_empty() {
            return Err(Fault::Syntax);
        } else {
            fields.push(Field::Number(negative, whole, ""));
            rest = after;
        }
    }
    Ok(fields)
}

/// Reads PostgreSQL's forms and the SQL standard's: from the last field to the first, as units follow their numbers.
fn parse_fields(text: &str) -> Parsed<Interval> {
    let fields = split_fields(text)?;
    if fields.is_empty() {
        return Err(Fault::Syntax);
    }
    let mut sum = Sum::default();
    let mut seen: SmallVec<[Unit; 8]> = SmallVec::new();
    let mut see = |units: &[Unit]| {
        if units.iter().any(|unit| seen.contains(unit)) {
            return Err(Fault::Syntax);
        }
        seen.extend_from_slice(units);
        Ok(())
    };
    // The unit of the next number to the left: its word, or what the field to its right implies. Only the last number
    // may do without.
    let mut pending = Some(Unit::Second);
    let mut word_waits = false;
    let mut ago = false;
    for (index, field) in fields.iter().enumerate().rev() {
        match *field {
            Field::Word("ago") if index + 1 == fields.len() && index > 0 => ago = true,
            Field::Word(word) => {
                if word_waits {
                    return Err(Fault::Syntax);
                }
                pending = Some(unit(word).ok_or(Fault::Syntax)?);
                word_waits = true;
            }
            Field::Clock(negative, clock) => {
                if word_waits && pending != Some(Unit::Hour) {
                    return Err(Fault::Syntax);
                }
                see(&[Unit::Hour, Unit::Minute, Unit::Second])?;
                let micros = clock_us(clock)?;
                sum.micros = sum.micros.checked_add(if negative { -micros } else { micros }).ok_or(Fault::Range)?;
                (pending, word_waits) = (Some(Unit::Day), false);
            }
            Field::YearMonth(negative, years, months) => {
                see(&[Unit::Year, Unit::Month])?;
                let months = whole_number(months)?;
                if months >= 12 {
                    return Err(Fault::Range);
                }
                let total = whole_number(years)?
                    .checked_mul(12)
                    .and_then(|years| years.checked_add(months))
                    .ok_or(Fault::Range)?;
                sum.add(if negative { -total } else { total }, 0.0, Unit::Month)?;
                (pending, word_waits) = (None, false);
            }
            Field::Number(negative, whole, part) => {
                let unit = pending.ok_or(Fault::Syntax)?;
                see(&[unit])?;
                let (whole, part) = (whole_number(whole)?, fraction(part)?);
                let (whole, part) = if negative { (-whole, -part) } else { (whole, part) };
                sum.add(whole, part, unit)?;
                (pending, word_waits) = (None, false);
            }
        }
    }
    if word_waits {
        return Err(Fault::Syntax);
    }
    sum.finish(ago)
}

/// Microseconds of `h:m`, `h:m:s`, `h:m:s.f`, `m:s.f`.
fn clock_us(clock: &str) -> Parsed<i64> {
    let (whole, part) = clock.split_once('.').unwrap_or((clock, ""));
    let fields: SmallVec<[&str; 3]> = whole.split(':').collect();
    let numbers = fields.iter().map(|field| whole_number(field)).collect::<Parsed<SmallVec<[i64; 3]>>>()?;
    let part = (fraction(part)? * 1e6).round_ties_even() as i64;
    let (hours, minutes, seconds) = match numbers[..] {
        [minutes, seconds] if clock.contains('.') => (0, minutes, seconds),
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return Err(Fault::Syntax),
    };
    if minutes > 59 || seconds > 60 {
        return Err(Fault::Range);
    }
    hours
        .checked_mul(HOUR_US)
        .and_then(|us| us.checked_add(minutes * MINUTE_US + seconds * SECOND_US + part))
        .ok_or(Fault::Range)
}

/// Reads ISO 8601's `P1Y2M3W4DT5H6M7.8S` and `P0001-02-03T04:05:06`; `None` if the text does not begin with P.
fn parse_iso(text: &str) -> Option<Parsed<Interval>> {
    let rest = text.strip_prefix('P')?;
    Some(parse_iso_fields(rest))
}

fn parse_iso_fields(mut rest: &str) -> Parsed<Interval> {
    if rest.is_empty() {
        return Err(Fault::Syntax);
    }
    let mut sum = Sum::default();
    let mut in_time = false;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            (in_time, rest) = (true, after);
            if rest.is_empty() {
                return Err(Fault::Syntax);
            }
            continue;
        }
        let (negative, unsigned) = match rest.as_bytes()[0] {
            b'-' => (true, &rest[1..]),
            b'+' => (false, &rest[1..]),
            _ => (false, rest),
        };
        let whole = digits(unsigned);
        let after = &unsigned[whole.len()..];
        let (part, after) = match after.strip_prefix('.') {
            Some(part) => (digits(part), &part[digits(part).len()..]),
            None => ("", after),
        };
        if whole.is_empty() && part.is_empty() {
            return Err(Fault::Syntax);
        }
        let (whole_value, part_value) = (whole_number(whole)?, fraction(part)?);
        let (whole_value, part_value) = if negative { (-whole_value, -part_value) } else { (whole_value, part_value) };
        let unit = match (after.as_bytes().first(), in_time) {
            (Some(b'Y'), false) => Unit::Year,
            (Some(b'M'), false) => Unit::Month,
            (Some(b'W'), false) => Unit::Week,
            (Some(b'D'), false) => Unit::Day,
            (Some(b'H'), true) => Unit::Hour,
            (Some(b'M'), true) => Unit::Minute,
            (Some(b'S'), true) => Unit::Second,
            // The alternative format: years-months-days, hours:minutes:seconds.
            (Some(b'-'), false) | (Some(b':'), true) => return parse_iso_alternative(rest, in_time, sum),
            _ => return Err(Fault::Syntax),
        };
        sum.add(whole_value, part_value, unit)?;
        rest = &after[1..];
    }
    sum.finish(false)
}

fn parse_iso_alternative(rest: &str, in_time: bool, mut sum: Sum) -> Parsed<Interval> {
    let (date, time) = if in_time { ("", rest) } else { rest.split_once('T').unwrap_or((rest, "")) };
    let strict = |text: &str| {
        if text.bytes().all(|byte| byte.is_ascii_digit()) { whole_number(text) } else { Err(Fault::Syntax) }
    };
    if !date.is_empty() {
        let parts: SmallVec<[&str; 3]> = date.split('-').collect();
        if parts.len() > 3 {
            return Err(Fault::Syntax);
        }
        for (part, unit) in parts.iter().zip([Unit::Year, Unit::Month, Unit::Day]) {
            sum.add(strict(part)?, 0.0, unit)?;
        }
    }
    if !time.is_empty() {
        if !time.bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte)) {
            return Err(Fault::Syntax);
        }
        sum.micros = sum.micros.checked_add(clock_us(time)?).ok_or(Fault::Range)?;
    }
    sum.finish(false)
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

//! Reading intervals: PostgreSQL's forms and the SQL standard's (`1 year 2 mons 3 days 04:05:06.7`,
//! `1-2 3 4:05:06`), and those of ISO 8601 (`P1Y2M3DT4H5M6S`, `P0001-02-03T04:05:06`).

use super::{DAY_US, HOUR_US, Interval, IntervalFields, MINUTE_US, SECOND_US};
use crate::datetime::{Fault, Look, Parsed, clock_fields, fields, fraction, leading_integer};
use crate::error::{Error, Result, SqlState};

/// How many characters a text may have without blanks.
const LENGTH_MAX: usize = 256;
const MONTHS_PER_YEAR: i64 = 12;
const DAYS_PER_MONTH: f64 = 30.0;

/// Reads an interval; what the last number without a unit is, the fields of its type say.
///
/// `one_sign` says that a sign before all of it, if no other is there, is that of every part.
pub(super) fn parse(text: &str, range: IntervalFields, one_sign: bool) -> Result<Interval> {
    let mut sum = Sum::default();
    let mut read = fields(text, LENGTH_MAX).and_then(|fields| sum.add_fields(&fields, range, one_sign));
    if matches!(read, Err(Fault::Syntax)) {
        sum = Sum::default();
        read = sum.add_iso(text);
    }
    match read {
        Ok(()) => sum.finish(),
        Err(Fault::Syntax) => {
            Err(Error::new(SqlState::BAD_DATETIME, format!("invalid input syntax for type interval: \"{text}\"")))
        }
        Err(_) => Err(Error::new(SqlState("22015"), format!("interval field value out of range: \"{text}\""))),
    }
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

impl Unit {
    /// Its bit among the units that were said.
    fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The bits of a time of day.
const CLOCK: u32 = 1 << Unit::Hour as u32 | 1 << Unit::Minute as u32 | SECONDS;
const SECONDS: u32 = 1 << Unit::Second as u32 | 1 << Unit::Millisecond as u32 | 1 << Unit::Microsecond as u32;

fn unit(word: &str) -> Option<Unit> {
    // Words are told apart by ten letters.
    let word = word.get(..10).unwrap_or(word);
    Some(match word {
        "us" | "usec" | "usecond" | "useconds" | "usecs" | "microsecon" => Unit::Microsecond,
        "ms" | "msec" | "msecond" | "mseconds" | "msecs" | "millisecon" => Unit::Millisecond,
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

/// What the next number to the left is.
#[derive(Debug, Clone, Copy)]
enum Pending {
    /// What the fields of the type say.
    ByFields,
    Unit(Unit),
    /// No number may come.
    Wrong,
}

/// An interval while it is read.
#[derive(Debug, Default)]
struct Sum {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
}

fn narrow(value: i64) -> Parsed<i32> {
    i32::try_from(value).map_err(|_| Fault::Range)
}

fn add_to(sum: &mut i32, value: i64, factor: i32) -> Parsed<()> {
    let product = narrow(value)?.checked_mul(factor).ok_or(Fault::Range)?;
    *sum = sum.checked_add(product).ok_or(Fault::Range)?;
    Ok(())
}

impl Sum {
    fn add_micros(&mut self, value: i64, part: f64, unit_us: i64) -> Parsed<()> {
        let product = value.checked_mul(unit_us).ok_or(Fault::Range)?;
        self.micros = self.micros.checked_add(product).ok_or(Fault::Range)?;
        self.add_part_of(part, unit_us)
    }

    /// Adds a fraction of a unit, rounded to microseconds.
    fn add_part_of(&mut self, part: f64, unit_us: i64) -> Parsed<()> {
        let exact = part * unit_us as f64;
        if !(-9.223_372_036_854_775e18..9.223_372_036_854_775e18).contains(&exact) {
            return Err(Fault::Range);
        }
        let whole = exact.trunc();
        let rest = exact - whole;
        let rounded = whole as i64 + i64::from(rest > 0.5) - i64::from(rest < -0.5);
        self.micros = self.micros.checked_add(rounded).ok_or(Fault::Range)?;
        Ok(())
    }

    /// Adds a fraction of a unit that has a given number of days.
    fn add_part_of_days(&mut self, part: f64, unit_days: f64) -> Parsed<()> {
        let exact = part * unit_days;
        let whole = exact.trunc();
        self.days = self.days.checked_add(whole as i32).ok_or(Fault::Range)?;
        self.add_part_of(exact - whole, DAY_US)
    }

    fn add_years(&mut self, value: i64, part: f64, unit_years: i32) -> Parsed<()> {
        add_to(&mut self.years, value, unit_years)?;
        let months = (part * f64::from(unit_years) * MONTHS_PER_YEAR as f64).round_ties_even();
        self.months = self.months.checked_add(months as i32).ok_or(Fault::Range)?;
        Ok(())
    }

    /// Adds a whole number and a fraction of a unit, both of the same sign; says which units that
    /// were.
    fn add(&mut self, value: i64, part: f64, unit: Unit) -> Parsed<u32> {
        match unit {
            Unit::Microsecond => self.add_micros(value, part, 1)?,
            Unit::Millisecond => self.add_micros(value, part, 1000)?,
            Unit::Second => {
                self.add_micros(value, part, SECOND_US)?;
                if part != 0.0 {
                    return Ok(SECONDS);
                }
            }
            Unit::Minute => self.add_micros(value, part, MINUTE_US)?,
            Unit::Hour => self.add_micros(value, part, HOUR_US)?,
            Unit::Day => {
                add_to(&mut self.days, value, 1)?;
                self.add_part_of(part, DAY_US)?;
            }
            Unit::Week => {
                add_to(&mut self.days, value, 7)?;
                self.add_part_of_days(part, 7.0)?;
            }
            Unit::Month => {
                add_to(&mut self.months, value, 1)?;
                self.add_part_of_days(part, DAYS_PER_MONTH)?;
            }
            Unit::Year => self.add_years(value, part, 1)?,
            Unit::Decade => self.add_years(value, part, 10)?,
            Unit::Century => self.add_years(value, part, 100)?,
            Unit::Millennium => self.add_years(value, part, 1000)?,
        }
        Ok(unit.bit())
    }

    fn finish(self) -> Result<Interval> {
        let months = i64::from(self.years) * MONTHS_PER_YEAR + i64::from(self.months);
        Ok(Interval {
            months: i32::try_from(months).map_err(|_| super::out_of_range())?,
            days: self.days,
            micros: self.micros,
        })
    }

    /// Reads fields from the last to the first, as units follow their numbers.
    fn add_fields(&mut self, fields: &[(Look, String)], range: IntervalFields, one_sign: bool) -> Parsed<()> {
        let mut said = 0;
        // The unit of the next number to the left: what a word said, or what stands to its right
        // implies.
        let mut pending = Pending::ByFields;
        let mut ago = false;
        // A sign before all of it may be that of every part.
        let is_signed = |(_, field): &(Look, String)| field.starts_with(['-', '+']);
        let all_negative = one_sign
            && fields.first().is_some_and(|(_, field)| field.starts_with('-'))
            && !fields[1..].iter().any(is_signed);
        for (look, field) in fields.iter().rev() {
            let negative = all_negative || field.starts_with('-');
            let signed;
            let field = if all_negative && !field.starts_with('-') && matches!(look, Look::Date | Look::Number) {
                signed = format!("-{field}");
                &signed
            } else {
                field
            };
            let parts = match look {
                Look::Time => {
                    self.set_clock(field, negative, range)?;
                    pending = Pending::Unit(Unit::Day);
                    CLOCK
                }
                Look::Offset if field.contains(':') => {
                    // What is no time is taken for a number, which a colon ends too early.
                    if self.set_clock(&field[1..], negative, range).is_err() {
                        return leading_integer(field).and(Err(Fault::Syntax));
                    }
                    pending = Pending::Unit(Unit::Day);
                    CLOCK
                }
                Look::Offset | Look::Date | Look::Number => {
                    let unit = match pending {
                        Pending::ByFields => range.last_unit(),
                        Pending::Unit(unit) => unit,
                        Pending::Wrong => return Err(Fault::Syntax),
                    };
                    let (unit, parts) = self.add_number(field, unit)?;
                    pending = Pending::Unit(unit);
                    parts
                }
                Look::Word | Look::Signed => {
                    pending = match &**field {
                        "ago" => {
                            ago = true;
                            Pending::Wrong
                        }
                        word => Pending::Unit(unit(word).ok_or(Fault::Syntax)?),
                    };
                    0
                }
            };
            if said & parts != 0 {
                return Err(Fault::Syntax);
            }
            said |= parts;
        }
        if said == 0 {
            return Err(Fault::Syntax);
        }
        if ago {
            let negated = |value: i32| value.checked_neg().ok_or(Fault::Range);
            (self.years, self.months, self.days) = (negated(self.years)?, negated(self.months)?, negated(self.days)?);
            self.micros = self.micros.checked_neg().ok_or(Fault::Range)?;
        }
        Ok(())
    }

    /// A time takes the place of whatever was said of times behind it.
    fn set_clock(&mut self, field: &str, negative: bool, range: IntervalFields) -> Parsed<()> {
        let (hours, minutes, seconds, part_us) = clock_fields(field, range == IntervalFields::MINUTE_TO_SECOND)?;
        let total = hours
            .checked_mul(HOUR_US)
            .and_then(|us| us.checked_add(minutes.checked_mul(MINUTE_US)?))
            .and_then(|us| us.checked_add(seconds * SECOND_US + part_us))
            .ok_or(Fault::Range)?;
        self.micros = if negative { -total } else { total };
        Ok(())
    }

    fn add_number(&mut self, field: &str, unit: Unit) -> Parsed<(Unit, u32)> {
        let negative = field.starts_with('-');
        let (mut value, rest) = leading_integer(field)?;
        let (mut unit, mut part) = (unit, 0.0);
        if let Some(months) = rest.strip_prefix('-') {
            // The SQL standard's years and months.
            let (months, rest) = leading_integer(months)?;
            if !(0..MONTHS_PER_YEAR).contains(&months) {
                return Err(Fault::Range);
            }
            if !rest.is_empty() {
                return Err(Fault::Syntax);
            }
            unit = Unit::Month;
            let months = if negative { -months } else { months };
            value =
                value.checked_mul(MONTHS_PER_YEAR).and_then(|value| value.checked_add(months)).ok_or(Fault::Range)?;
        } else if rest.starts_with('.') {
            part = fraction(rest)?;
            if negative {
                part = -part;
            }
        } else if !rest.is_empty() {
            return Err(Fault::Syntax);
        }
        let parts = self.add(value, part, unit)?;
        // What stands to the left of hours without a unit is days.
        Ok((if unit == Unit::Hour { Unit::Day } else { unit }, parts))
    }

    /// Reads a text of ISO 8601.
    fn add_iso(&mut self, text: &str) -> Parsed<()> {
        let mut rest = text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(Fault::Syntax)?;
        let (mut in_time, mut has_field) = (false, false);
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('T') {
                (in_time, has_field, rest) = (true, false, after);
                continue;
            }
            let begin = rest;
            let (value, part, after) = iso_number(rest)?;
            let unit = after.chars().next();
            rest = after.get(unit.map_or(0, char::len_utf8)..).unwrap_or("");
            let known = match (unit, in_time) {
                (Some('Y'), false) => Unit::Year,
                (Some('M'), false) => Unit::Month,
                (Some('W'), false) => Unit::Week,
                (Some('D'), false) => Unit::Day,
                (Some('H'), true) => Unit::Hour,
                (Some('M'), true) => Unit::Minute,
                (Some('S'), true) => Unit::Second,
                (None | Some('T' | '-'), false) if !has_field || unit != Some('-') => {
                    if iso_width(begin) == 8 && !has_field && unit != Some('-') {
                        self.add(value / 10_000, 0.0, Unit::Year)?;
                        self.add(value / 100 % 100, 0.0, Unit::Month)?;
                        self.add(value % 100, 0.0, Unit::Day)?;
                        self.add_part_of(part, DAY_US)?;
                    } else if has_field {
                        return Err(Fault::Syntax);
                    } else {
                        rest = self.add_iso_date(value, part, unit, rest)?;
                    }
                    (in_time, has_field) = (true, false);
                    continue;
                }
                (None | Some(':'), true) => {
                    if iso_width(begin) == 6 && !has_field && unit.is_none() {
                        self.add(value / 10_000, 0.0, Unit::Hour)?;
                        self.add(value / 100 % 100, 0.0, Unit::Minute)?;
                        self.add(value % 100, 0.0, Unit::Second)?;
                        return self.add_part_of(part, 1);
                    }
                    if has_field {
                        return Err(Fault::Syntax);
                    }
                    return self.add_iso_time(value, part, unit, rest);
                }
                _ => return Err(Fault::Syntax),
            };
            self.add(value, part, known)?;
            has_field = true;
        }
        Ok(())
    }

    /// `years-months-days`, of which the years have been read, with what stood behind them; gives
    /// what is behind the T.
    fn add_iso_date<'t>(&mut self, years: i64, part: f64, behind: Option<char>, rest: &'t str) -> Parsed<&'t str> {
        self.add(years, part, Unit::Year)?;
        if behind != Some('-') {
            return Ok(rest);
        }
        let (months, part, rest) = iso_number(rest)?;
        self.add(months, part, Unit::Month)?;
        let rest = match rest.as_bytes().first() {
            None => return Ok(rest),
            Some(b'T') => return Ok(&rest[1..]),
            Some(b'-') => &rest[1..],
            Some(_) => return Err(Fault::Syntax),
        };
        let (days, part, rest) = iso_number(rest)?;
        self.add(days, part, Unit::Day)?;
        if rest.is_empty() { Ok(rest) } else { rest.strip_prefix('T').ok_or(Fault::Syntax) }
    }

    /// `hours:minutes:seconds`, of which the hours have been read.
    fn add_iso_time(&mut self, hours: i64, part: f64, behind: Option<char>, rest: &str) -> Parsed<()> {
        self.add(hours, part, Unit::Hour)?;
        if behind.is_none() {
            return Ok(());
        }
        let (minutes, part, rest) = iso_number(rest)?;
        self.add(minutes, part, Unit::Minute)?;
        if rest.is_empty() {
            return Ok(());
        }
        let (seconds, part, rest) = iso_number(rest.strip_prefix(':').ok_or(Fault::Syntax)?)?;
        self.add(seconds, part, Unit::Second)?;
        if rest.is_empty() { Ok(()) } else { Err(Fault::Syntax) }
    }
}

/// How many digits a text begins with, behind a sign.
fn iso_width(text: &str) -> usize {
    text.strip_prefix('-').unwrap_or(text).bytes().take_while(u8::is_ascii_digit).count()
}

/// The number that a text begins with (`-1.5`, `.5e3`): its whole part, its fraction, and the rest.
fn iso_number(text: &str) -> Parsed<(i64, f64, &str)> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from.min(bytes.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(end);
    end += whole;
    let mut part = 0;
    if bytes.get(end) == Some(&b'.') {
        part = digits(end + 1);
        if whole + part > 0 {
            end += 1 + part;
        }
    }
    if whole + part == 0 {
        return Err(Fault::Syntax);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    let value: f64 = text[..end].parse().map_err(|_| Fault::Syntax)?;
    if value.is_infinite() {
        return Err(Fault::Syntax);
    }
    if value.abs() > 1e15 {
        return Err(Fault::Range);
    }
    Ok((value.trunc() as i64, value - value.trunc(), &text[end..]))
}

impl IntervalFields {
    /// What a number without a unit is, if it is the last one.
    fn last_unit(self) -> Unit {
        match self {
            Self::YEAR => Unit::Year,
            Self::MONTH | Self::YEAR_TO_MONTH => Unit::Month,
            Self::DAY => Unit::Day,
            Self::HOUR | Self::DAY_TO_HOUR => Unit::Hour,
            Self::MINUTE | Self::HOUR_TO_MINUTE | Self::DAY_TO_MINUTE => Unit::Minute,
            _ => Unit::Second,
        }
    }
}

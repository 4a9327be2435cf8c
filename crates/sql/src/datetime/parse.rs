//! Reading dates, times and timestamps, as PostgreSQL does with DateStyle `ISO, MDY`.
//!
//! A text is cut into fields by the look of its characters, then each field says what it can by what is still missing.

use smallvec::SmallVec;

use super::{DATE_END, DATE_MIN, Zone, checked_timestamp, days_from_civil, days_in_month};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::interval::DAY_US;

/// Full names of the months; the first three letters are the short ones.
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Full names of the days of the week, from Sunday; the first three letters are the short ones.
pub(super) const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// What is wrong with a text.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Syntax,
    Range,
    /// A month or day that another order of the fields might explain.
    MonthOrDay,
    Displacement,
    Zone,
}

type Parsed<T> = std::result::Result<T, Fault>;

fn report(fault: Fault, ty: &str, text: &str) -> Error {
    match fault {
        Fault::Syntax => Error::new(SqlState::BAD_DATETIME, format!("invalid input syntax for type {ty}: \"{text}\"")),
        Fault::Range => {
            Error::new(SqlState::DATETIME_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
        }
        Fault::MonthOrDay => report(Fault::Range, ty, text).hint("Perhaps you need a different \"datestyle\" setting."),
        Fault::Displacement => {
            Error::new(SqlState("22009"), format!("time zone displacement out of range: \"{text}\""))
        }
        Fault::Zone => Error::new(SqlState::BAD_PARAMETER, format!("time zone in \"{text}\" not recognized")),
    }
}

/// The looks of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Number,
    Date,
    Time,
    Offset,
    Word,
    /// A word with a sign: `-infinity`.
    Signed,
}

type Fields<'text> = SmallVec<[(Look, &'text str); 8]>;

/// Cuts a text in lower case into fields.
fn fields(text: &str) -> Parsed<Fields<'_>> {
    let bytes = text.as_bytes();
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let skip = |mut index: usize, fits: &dyn Fn(u8) -> bool| {
        while index < bytes.len() && fits(bytes[index]) {
            index += 1;
        }
        index
    };
    let digit = |byte: u8| byte.is_ascii_digit();
    let space = |byte: u8| byte.is_ascii_whitespace() || byte == 0x0b;
    let mut fields = Fields::new();
    let mut start = 0;
    while start < bytes.len() {
        let byte = bytes[start];
        if space(byte) {
            start += 1;
            continue;
        }
        let mut end = start + 1;
        let look = if digit(byte) {
            end = skip(end, &digit);
            match at(end) {
                b':' => {
                    end = skip(end, &|byte| digit(byte) || byte == b':' || byte == b'.');
                    Look::Time
                }
                delimiter @ (b'-' | b'/' | b'.') => {
                    end += 1;
                    if digit(at(end)) {
                        end = skip(end, &digit);
                        if at(end) == delimiter {
                            end = skip(end, &|byte| digit(byte) || byte == delimiter);
                            Look::Date
                        } else if delimiter == b'.' {
                            Look::Number
                        } else {
                            Look::Date
                        }
                    } else {
                        end = skip(end, &|byte| byte.is_ascii_alphanumeric() || byte == delimiter);
                        Look::Date
                    }
                }
                _ => Look::Number,
            }
        } else if byte == b'.' {
            end = skip(end, &digit);
            Look::Number
        } else if byte.is_ascii_alphabetic() {
            end = skip(end, &|byte| byte.is_ascii_alphabetic());
            let joins = matches!(at(end), b'-' | b'/' | b'.')
                || ((at(end) == b'+' || digit(at(end))) && keyword(&text[start..end]).is_none());
            if joins {
                end = skip(end, &|byte| byte.is_ascii_alphanumeric() || b"+-/_.:".contains(&byte));
                Look::Date
            } else {
                Look::Word
            }
        } else if byte == b'+' || byte == b'-' {
            end = skip(end, &space);
            if digit(at(end)) || at(end) == b':' {
                end = skip(end, &|byte| digit(byte) || b":.-".contains(&byte));
                Look::Offset
            } else if at(end).is_ascii_alphabetic() {
                end = skip(end, &|byte| byte.is_ascii_alphabetic());
                Look::Signed
            } else {
                return Err(Fault::Syntax);
            }
        } else if byte.is_ascii_punctuation() {
            start += 1;
            continue;
        } else {
            return Err(Fault::Syntax);
        };
        if fields.len() >= 25 {
            return Err(Fault::Syntax);
        }
        fields.push((look, &text[start..end]));
        start = end;
    }
    Ok(fields)
}

/// What a word means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keyword {
    Month(i64),
    Weekday,
    Meridiem { pm: bool },
    Bc,
    Ad,
    Now,
    Today,
    Tomorrow,
    Yesterday,
    Epoch,
    Infinity,
    MinusInfinity,
    Midnight,
    IsoTime,
    Julian,
    Noise,
    Offset(i32),
}

fn keyword(word: &str) -> Option<Keyword> {
    let named = |names: &[&str]| {
        names.iter().position(|name| {
            name.eq_ignore_ascii_case(word) || (word.len() == 3 && name[..3].eq_ignore_ascii_case(word))
        })
    };
    if word.len() >= 3 && word.is_ascii() {
        if let Some(month) = named(&MONTHS) {
            return Some(Keyword::Month(month as i64 + 1));
        }
        if named(&WEEKDAYS).is_some() || matches!(word, "tues" | "weds" | "thur" | "thurs") {
            return Some(Keyword::Weekday);
        }
    }
    Some(match word {
        "sept" => Keyword::Month(9),
        "am" => Keyword::Meridiem { pm: false },
        "pm" => Keyword::Meridiem { pm: true },
        "bc" => Keyword::Bc,
        "ad" => Keyword::Ad,
        "now" => Keyword::Now,
        "today" => Keyword::Today,
        "tomorrow" => Keyword::Tomorrow,
        "yesterday" => Keyword::Yesterday,
        "epoch" => Keyword::Epoch,
        "infinity" | "+infinity" => Keyword::Infinity,
        "-infinity" => Keyword::MinusInfinity,
        "allballs" => Keyword::Midnight,
        "t" => Keyword::IsoTime,
        "j" | "jd" | "julian" => Keyword::Julian,
        "at" | "on" => Keyword::Noise,
        _ => Keyword::Offset(super::zone::abbreviation(word)?),
    })
}

/// Where a text's time is counted from.
#[derive(Debug, Clone)]
enum Place {
    /// It does not say.
    Unsaid,
    Offset(i32),
    Zone(Zone),
}

/// What the fields have said so far.
#[derive(Debug)]
struct Moment {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    year_has_two_digits: bool,
    text_month: bool,
    bc: bool,
    /// Microseconds since midnight.
    time: Option<i64>,
    meridiem: Option<bool>,
    place: Place,
    special: Option<Keyword>,
    julian: Option<i64>,
}

fn number(text: &str) -> Parsed<i64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::Syntax);
    }
    // More digits than any field has are out of any field's range.
    if text.len() > 12 { Err(Fault::Range) } else { text.parse().map_err(|_| Fault::Range) }
}

/// Microseconds of the digits after a point, rounded.
fn fraction_us(digits: &str) -> Option<i64> {
    if digits.is_empty() {
        return Some(0);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: f64 = format!("0.{digits}").parse().ok()?;
    Some((fraction * 1_000_000.0).round_ties_even() as i64)
}

impl Moment {
    fn new() -> Self {
        Self {
            year: None,
            month: None,
            day: None,
            day_of_year: None,
            year_has_two_digits: false,
            text_month: false,
            bc: false,
            time: None,
            meridiem: None,
            place: Place::Unsaid,
            special: None,
            julian: None,
        }
    }

    fn has_date(&self) -> bool {
        self.julian.is_some()
            || (self.year.is_some() && ((self.month.is_some() && self.day.is_some()) || self.day_of_year.is_some()))
    }

    /// Reads all fields of a text in lower case.
    fn parse(text: &str) -> Parsed<Self> {
        let fields = fields(text)?;
        if fields.is_empty() {
            return Err(Fault::Syntax);
        }
        let mut moment = Self::new();
        let mut before = None;
        for (index, &(look, field)) in fields.iter().enumerate() {
            let prefix = before.take();
            match look {
                Look::Number | Look::Date if prefix == Some(Keyword::Julian) => moment.take_julian(field)?,
                Look::Number if prefix == Some(Keyword::IsoTime) => moment.take_time_digits(field)?,
                Look::Date => {
                    if moment.has_date()
                        || (moment.month.is_some() && moment.day.is_some())
                        || (field.as_bytes()[0].is_ascii_alphabetic()
                            && keyword(field.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or(""))
                                .is_none_or(|word| matches!(word, Keyword::Offset(_))))
                    {
                        moment.take_time_or_zone(field)?;
                    } else {
                        moment.take_date(field)?;
                    }
                }
                Look::Time => {
                    if moment.time.is_some() {
                        return Err(Fault::Syntax);
                    }
                    moment.time = Some(clock(field)?);
                }
                Look::Offset => moment.take_offset(field)?,
                Look::Number => moment.take_number(field)?,
                Look::Word | Look::Signed => {
                    let word: String = field.chars().filter(|c| !c.is_ascii_whitespace()).collect();
                    match keyword(&word) {
                        Some(Keyword::Month(month)) => moment.take_text_month(month)?,
                        Some(Keyword::Weekday | Keyword::Noise | Keyword::Ad) => {}
                        Some(Keyword::Bc) => moment.bc = true,
                        Some(Keyword::Meridiem { pm }) => moment.meridiem = Some(pm),
                        Some(word @ (Keyword::IsoTime | Keyword::Julian)) => {
                            if index + 1 == fields.len() {
                                return Err(Fault::Syntax);
                            }
                            before = Some(word);
                        }
                        Some(Keyword::Offset(seconds)) => moment.set_place(Place::Offset(seconds))?,
                        Some(Keyword::Midnight) => {
                            moment.time = Some(0);
                            moment.set_place(Place::Offset(0))?;
                        }
                        Some(special) => {
                            if moment.special.is_some() {
                                return Err(Fault::Syntax);
                            }
                            moment.special = Some(special);
                        }
                        None if word == "dst" => {}
                        None => moment.take_zone(&word)?,
                    }
                }
            }
        }
        moment.finish()?;
        Ok(moment)
    }

    fn set_place(&mut self, place: Place) -> Parsed<()> {
        if !matches!(self.place, Place::Unsaid) {
            return Err(Fault::Syntax);
        }
        self.place = place;
        Ok(())
    }

    fn take_zone(&mut self, name: &str) -> Parsed<()> {
        // Only what looks like a name of the tz database: anything else is bad syntax, not an unknown zone.
        let zone = Zone::parse(name).map_err(|_| if name.contains('/') { Fault::Zone } else { Fault::Syntax })?;
        self.set_place(Place::Zone(zone))
    }

    fn take_offset(&mut self, field: &str) -> Parsed<()> {
        let compact: String = field.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        if compact.contains('.') {
            return Err(Fault::Syntax);
        }
        let seconds = super::zone::parse_offset(&compact).ok_or(Fault::Displacement)?;
        // `EST+3` and the like: the sign counts from the abbreviation.
        if let Place::Offset(base) = self.place {
            self.place = Place::Offset(base - seconds);
            return Ok(());
        }
        self.set_place(Place::Offset(seconds))
    }

    fn take_time_or_zone(&mut self, field: &str) -> Parsed<()> {
        if !field.as_bytes()[0].is_ascii_digit() {
            return self.take_zone(field);
        }
        // `hhmmss-zz`
        let (time, offset) = field.split_once('-').ok_or(Fault::Syntax)?;
        self.take_time_digits(time)?;
        self.take_offset(&format!("-{offset}"))
    }

    fn take_julian(&mut self, field: &str) -> Parsed<()> {
        let (days, fraction) = field.split_once('.').unwrap_or((field, ""));
        self.julian = Some(number(days)?);
        if !fraction.is_empty() {
            let part: f64 = format!("0.{fraction}").parse().map_err(|_| Fault::Syntax)?;
            self.time = Some((part * DAY_US as f64).round() as i64);
        }
        Ok(())
    }

    fn take_text_month(&mut self, month: i64) -> Parsed<()> {
        // `08 Jan 1999`: the first number was taken for a month.
        if self.month.is_some() && !self.text_month && self.day.is_none() {
            self.day = self.month;
        } else if self.month.is_some() {
            return Err(Fault::Syntax);
        }
        self.month = Some(month);
        self.text_month = true;
        Ok(())
    }

    /// Reads `1999-01-08`, `1/8/99`, `08-Jan-1999`, `Jan.08.1999`.
    fn take_date(&mut self, field: &str) -> Parsed<()> {
        let mut parts: SmallVec<[&str; 4]> = SmallVec::new();
        let mut rest = field;
        while !rest.is_empty() {
            let first = rest.as_bytes()[0];
            let length = if first.is_ascii_digit() {
                rest.bytes().take_while(u8::is_ascii_digit).count()
            } else if first.is_ascii_alphabetic() {
                rest.bytes().take_while(u8::is_ascii_alphabetic).count()
            } else {
                rest = &rest[1..];
                continue;
            };
            parts.push(&rest[..length]);
            rest = &rest[length..];
        }
        if parts.len() > 3 {
            return Err(Fault::Syntax);
        }
        for part in &parts {
            if part.as_bytes()[0].is_ascii_alphabetic() {
                match keyword(part) {
                    Some(Keyword::Month(month)) if !self.text_month => self.take_text_month(month)?,
                    Some(Keyword::Weekday) => {}
                    _ => return Err(Fault::Syntax),
                }
            }
        }
        for part in parts.iter().filter(|part| part.as_bytes()[0].is_ascii_digit()) {
            self.take_date_number(part)?;
        }
        if !self.has_date() { Err(Fault::Syntax) } else { Ok(()) }
    }

    /// Takes a number for what the date still lacks.
    fn take_date_number(&mut self, digits: &str) -> Parsed<()> {
        let value = number(digits)?;
        let length = digits.len();
        if length == 3 && self.year.is_some() && self.month.is_none() && self.day.is_none() {
            if !(1..=366).contains(&value) {
                return Err(Fault::Range);
            }
            self.day_of_year = Some(value);
            return Ok(());
        }
        enum Part {
            Year,
            Month,
            Day,
        }
        let part = match (self.year.is_some(), self.month.is_some(), self.day.is_some()) {
            (false, false, false) if length >= 3 => Part::Year,
            (false, false, false) | (true, false, false) | (false, false, true) => Part::Month,
            (false, true, false) if self.text_month && length >= 3 => Part::Year,
            (false, true, false) => Part::Day,
            // `08-Jan-1999`: what was taken for the year was the day.
            (true, true, false) if self.text_month && length >= 3 && self.year_has_two_digits => {
                self.day = self.year;
                Part::Year
            }
            (true, true, false) => Part::Day,
            (false, true, true) => Part::Year,
            _ => return Err(Fault::Syntax),
        };
        match part {
            Part::Year => {
                self.year = Some(value);
                self.year_has_two_digits = length <= 2;
            }
            Part::Month => self.month = Some(value),
            Part::Day => self.day = Some(value),
        }
        Ok(())
    }

    /// Takes a number outside of a date with delimiters.
    fn take_number(&mut self, field: &str) -> Parsed<()> {
        let (whole, fraction) = field.split_once('.').map_or((field, None), |(whole, rest)| (whole, Some(rest)));
        if fraction.is_some() && !self.has_date() && self.month.is_none() && whole.len() <= 4 {
            return self.take_date(field);
        }
        if fraction.is_some() && whole.len() > 2 {
            return self.take_time_digits(field);
        }
        if self.has_date() || whole.len() > 4 {
            if !self.has_date() && whole.len() >= 6 && self.year.is_none() && self.month.is_none() {
                // YYYYMMDD or YYMMDD
                let (rest, day) = whole.split_at(whole.len() - 2);
                let (year, month) = rest.split_at(rest.len() - 2);
                (self.year, self.month, self.day) = (Some(number(year)?), Some(number(month)?), Some(number(day)?));
                self.year_has_two_digits = year.len() == 2;
                return Ok(());
            }
            return self.take_time_digits(field);
        }
        if fraction.is_some() {
            return Err(Fault::Syntax);
        }
        self.take_date_number(whole)
    }

    /// `hhmmss.fff`, `hhmm`
    fn take_time_digits(&mut self, field: &str) -> Parsed<()> {
        if self.time.is_some() {
            return Err(Fault::Syntax);
        }
        let (digits, fraction) = field.split_once('.').unwrap_or((field, ""));
        let (hours, minutes, seconds) = match digits.len() {
            6 => (number(&digits[..2])?, number(&digits[2..4])?, number(&digits[4..])?),
            4 => (number(&digits[..2])?, number(&digits[2..])?, 0),
            _ => return Err(Fault::Syntax),
        };
        let fraction = fraction_us(fraction).ok_or(Fault::Syntax)?;
        self.time = Some(clock_us(hours, minutes, seconds, fraction)?);
        Ok(())
    }

    /// Completes and checks the date, and applies AM and PM.
    fn finish(&mut self) -> Parsed<()> {
        if let (Some(pm), Some(time)) = (self.meridiem, self.time) {
            let hour = time / 3_600_000_000;
            if hour > 12 {
                return Err(Fault::Range);
            }
            let half_day = DAY_US / 2;
            self.time = Some(match (pm, hour) {
                (true, 12) | (false, ..12) => time,
                (true, _) => time + half_day,
                (false, _) => time - half_day,
            });
        }
        if self.julian.is_some() {
            return Ok(());
        }
        if let Some(year) = self.year {
            let mut year = year;
            if self.bc {
                if year <= 0 {
                    return Err(Fault::Range);
                }
                year = 1 - year;
            } else if self.year_has_two_digits {
                year += if year < 70 { 2000 } else { 1900 };
            } else if year == 0 {
                return Err(Fault::Range);
            }
            self.year = Some(year);
        }
        if let (Some(year), Some(day)) = (self.year, self.day_of_year) {
            let (_, month, day) = super::civil_from_days(days_from_civil(year, 1, 1) + day - 1);
            (self.month, self.day) = (Some(month), Some(day));
        }
        if self.month.is_some_and(|month| !(1..=12).contains(&month))
            || self.day.is_some_and(|day| !(1..=31).contains(&day))
        {
            return Err(Fault::MonthOrDay);
        }
        if let (Some(year), Some(month), Some(day)) = (self.year, self.month, self.day)
            && day > days_in_month(year, month)
        {
            return Err(Fault::Range);
        }
        let any = self.year.is_some() || self.month.is_some() || self.day.is_some();
        if any && !self.has_date() { Err(Fault::Syntax) } else { Ok(()) }
    }

    /// The date as days since 2000-01-01, if it says one.
    fn days(&self) -> Parsed<Option<i64>> {
        if let Some(julian) = self.julian {
            return Ok(Some(julian - super::JULIAN_DAY_2000));
        }
        match (self.year, self.month, self.day) {
            (Some(year), Some(month), Some(day)) if year < 6_000_000 => Ok(Some(days_from_civil(year, month, day))),
            (Some(_), Some(_), Some(_)) => Err(Fault::Range),
            _ => Ok(None),
        }
    }
}

fn clock_us(hours: i64, minutes: i64, seconds: i64, fraction: i64) -> Parsed<i64> {
    let time = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction;
    if hours > 24 || minutes > 59 || seconds > 60 || time > DAY_US { Err(Fault::Range) } else { Ok(time) }
}

/// Reads `hh:mm`, `hh:mm:ss`, `hh:mm:ss.fff`.
fn clock(field: &str) -> Parsed<i64> {
    let (whole, fraction) = field.split_once('.').unwrap_or((field, ""));
    let mut parts = whole.split(':');
    let (hours, minutes) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let seconds = parts.next();
    if parts.next().is_some() || hours.len() > 10 {
        return Err(Fault::Syntax);
    }
    let fraction_digits = fraction_us(fraction).ok_or(Fault::Syntax)?;
    match seconds {
        Some(seconds) => clock_us(
            number(hours)?,
            number(minutes)?,
            if seconds.is_empty() { 0 } else { number(seconds)? },
            fraction_digits,
        ),
        // With a fraction, two numbers are minutes and seconds.
        None if field.contains('.') => clock_us(0, number(hours)?, number(minutes)?, fraction_digits),
        None => clock_us(number(hours)?, number(minutes)?, 0, 0),
    }
}

/// A date and time of day, read.
enum Reading {
    Infinity,
    MinusInfinity,
    /// Local microseconds, and where.
    Local(i128, Place),
    /// Microseconds in UTC.
    Instant(i64),
}

fn read(text: &str, env: &Env, time_only: bool) -> Parsed<Reading> {
    let lower = text.to_ascii_lowercase();
    let moment = Moment::parse(&lower)?;
    let time = moment.time.unwrap_or(0);
    let today = || env.zone.to_local(env.transaction_us).div_euclid(DAY_US);
    let days = match moment.special {
        Some(Keyword::Infinity) => return Ok(Reading::Infinity),
        Some(Keyword::MinusInfinity) => return Ok(Reading::MinusInfinity),
        Some(Keyword::Now) => return Ok(Reading::Instant(env.transaction_us)),
        Some(Keyword::Epoch) => return Ok(Reading::Instant(-super::UNIX_EPOCH_TO_2000_US)),
        Some(Keyword::Today) => Some(today()),
        Some(Keyword::Tomorrow) => Some(today() + 1),
        Some(Keyword::Yesterday) => Some(today() - 1),
        _ => moment.days()?,
    };
    let days = match days {
        Some(days) => days,
        None if time_only && moment.time.is_some() => today(),
        None => return Err(Fault::Syntax),
    };
    if time_only && moment.time.is_none() && moment.special.is_none() {
        return Err(Fault::Syntax);
    }
    Ok(Reading::Local(i128::from(days) * i128::from(DAY_US) + i128::from(time), moment.place))
}

/// Reads a date.
pub(crate) fn parse_date(text: &str, env: &Env) -> Result<i32> {
    if let Some(days) = fast_date(text.as_bytes()) {
        return Ok(days as i32);
    }
    match read(text, env, false).map_err(|fault| report(fault, "date", text))? {
        Reading::Infinity => Ok(i32::MAX),
        Reading::MinusInfinity => Ok(i32::MIN),
        Reading::Local(us, _) => {
            let days = us.div_euclid(i128::from(DAY_US));
            if days >= i128::from(DATE_MIN) && days < i128::from(DATE_END) {
                Ok(days as i32)
            } else {
                Err(Error::new(SqlState::DATETIME_OVERFLOW, format!("date out of range: \"{text}\"")))
            }
        }
        Reading::Instant(us) => Ok(env.zone.to_local(us).div_euclid(DAY_US) as i32),
    }
}

/// Reads a time of day.
pub(crate) fn parse_time(text: &str, env: &Env) -> Result<i64> {
    if let Some(us) = fast_clock(text.as_bytes()) {
        return Ok(us);
    }
    // Digits without colons would be taken for a date.
    let trimmed = text.trim();
    if trimmed.as_bytes().first().is_some_and(u8::is_ascii_digit)
        && trimmed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        let mut moment = Moment::new();
        return match moment.take_time_digits(trimmed) {
            Ok(()) => Ok(moment.time.unwrap_or(0)),
            Err(fault) => Err(report(fault, "time", text)),
        };
    }
    match read(text, env, true).map_err(|fault| report(fault, "time", text))? {
        Reading::Infinity | Reading::MinusInfinity => Err(report(Fault::Syntax, "time", text)),
        Reading::Local(us, _) => {
            let time = us.rem_euclid(i128::from(DAY_US)) as i64;
            // 24:00 is a time of its own, also if the last second of a day was rounded to it.
            let is_end = time == 0 && (text.trim_start().starts_with("24:") || text.contains("23:59:"));
            Ok(if is_end { DAY_US } else { time })
        }
        Reading::Instant(us) => Ok(env.zone.to_local(us).rem_euclid(DAY_US)),
    }
}

fn out_of_range(text: &str) -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, format!("timestamp out of range: \"{text}\""))
}

/// Reads a timestamp without time zone; a zone in the text is not looked at.
pub(crate) fn parse_timestamp(text: &str, env: &Env) -> Result<i64> {
    if let Some(us) = fast_timestamp(text.as_bytes()) {
        return Ok(us);
    }
    match read(text, env, false).map_err(|fault| report(fault, "timestamp", text))? {
        Reading::Infinity => Ok(i64::MAX),
        Reading::MinusInfinity => Ok(i64::MIN),
        Reading::Local(us, _) => checked_timestamp(us).map_err(|_| out_of_range(text)),
        Reading::Instant(us) if us == -super::UNIX_EPOCH_TO_2000_US => Ok(us),
        Reading::Instant(us) => Ok(env.zone.to_local(us)),
    }
}

/// Reads a timestamp with time zone; without a zone in the text it is in the session's.
pub(crate) fn parse_timestamptz(text: &str, env: &Env) -> Result<i64> {
    if let Some(us) = fast_timestamp(text.as_bytes()) {
        return checked_timestamp(i128::from(env.zone.to_instant(us))).map_err(|_| out_of_range(text));
    }
    match read(text, env, false).map_err(|fault| report(fault, "timestamp with time zone", text))? {
        Reading::Infinity => Ok(i64::MAX),
        Reading::MinusInfinity => Ok(i64::MIN),
        Reading::Instant(us) => Ok(us),
        Reading::Local(us, place) => {
            let local = checked_timestamp(us).map_err(|_| out_of_range(text))?;
            let instant = match place {
                Place::Unsaid => i128::from(env.zone.to_instant(local)),
                Place::Offset(seconds) => us - i128::from(seconds) * 1_000_000,
                Place::Zone(zone) => i128::from(zone.to_instant(local)),
            };
            checked_timestamp(instant).map_err(|_| out_of_range(text))
        }
    }
}

fn two(bytes: &[u8]) -> Option<i64> {
    match bytes {
        [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Some(i64::from((a - b'0') * 10 + (b - b'0'))),
        _ => None,
    }
}

/// `YYYY-MM-DD`, the form that programs send.
fn fast_date(bytes: &[u8]) -> Option<i64> {
    let [century @ .., b'-', m1, m2, b'-', d1, d2] = bytes else { return None };
    let [y1, y2, y3, y4] = century else { return None };
    let year = two(&[*y1, *y2])? * 100 + two(&[*y3, *y4])?;
    let (month, day) = (two(&[*m1, *m2])?, two(&[*d1, *d2])?);
    (year > 0 && (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month))
        .then(|| days_from_civil(year, month, day))
}

/// `HH:MM:SS` and perhaps a fraction of at most six digits.
fn fast_clock(bytes: &[u8]) -> Option<i64> {
    let (whole, fraction) = match bytes.get(8) {
        None => (bytes, &[][..]),
        Some(b'.') => (&bytes[..8], &bytes[9..]),
        Some(_) => return None,
    };
    let [h1, h2, b':', m1, m2, b':', s1, s2] = whole else { return None };
    let (hours, minutes, seconds) = (two(&[*h1, *h2])?, two(&[*m1, *m2])?, two(&[*s1, *s2])?);
    if hours > 23 || minutes > 59 || seconds > 59 || fraction.len() > 6 {
        return None;
    }
    let mut us = 0;
    for place in 0..6 {
        let digit = fraction.get(place).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        us = us * 10 + i64::from(digit - b'0');
    }
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + us)
}

/// `YYYY-MM-DD HH:MM:SS.ffffff`
fn fast_timestamp(bytes: &[u8]) -> Option<i64> {
    let (date, rest) = bytes.split_at_checked(10)?;
    let days = fast_date(date)?;
    let time = match rest {
        [] => 0,
        [b' ' | b'T', clock @ ..] => fast_clock(clock)?,
        _ => return None,
    };
    Some(days * DAY_US + time)
}

//! Reading dates, times and timestamps, as PostgreSQL does. The order of a date's numbers is that of
//! the session's DateStyle, where their looks do not tell.
//!
//! A text is cut into fields by the look of its characters (`fields`), then each field says what it
//! can by what is still missing. Invariant: no part of a date or time is said twice; a text that
//! says one twice is an error.

use super::fields::{Fields, Look, digits_value, fields, fraction, fraction_us, leading_int};
use super::style::DateOrder;
use super::time_tz::TimeTz;
use super::words::{self, Abbreviation, Label, Word};
use super::{DATE_END, DATE_MIN, JULIAN_DAY_2000, Zone, checked_timestamp, days_from_civil, days_in_month};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::interval::DAY_US;

/// What is wrong with a text.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It is no text of the type.
    Syntax,
    /// A field, or the whole, is out of range.
    Range,
    /// A month or day that another order of the fields might explain.
    MonthOrDay,
    /// A zone's displacement is out of range.
    Displacement,
    /// A zone that there is not, by its name.
    Zone(String),
}

/// What was read, or what is wrong.
pub type Parsed<T> = std::result::Result<T, Fault>;

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
        Fault::Zone(name) => Error::new(SqlState::BAD_PARAMETER, format!("time zone \"{name}\" not recognized")),
    }
}

/// Parts that a text has said: bits.
mod said {
    pub(super) const YEAR: u32 = 1;
    pub(super) const MONTH: u32 = 1 << 1;
    pub(super) const DAY: u32 = 1 << 2;
    pub(super) const DATE: u32 = YEAR | MONTH | DAY;
    pub(super) const HOUR: u32 = 1 << 3;
    pub(super) const MINUTE: u32 = 1 << 4;
    pub(super) const SECOND: u32 = 1 << 5;
    pub(super) const FRACTION: u32 = 1 << 6;
    pub(super) const TIME: u32 = HOUR | MINUTE | SECOND | FRACTION;
    pub(super) const ZONE: u32 = 1 << 7;
    pub(super) const SUMMER: u32 = 1 << 8;
    pub(super) const SUMMER_WORD: u32 = 1 << 9;
    pub(super) const DAY_OF_YEAR: u32 = 1 << 10;
    pub(super) const SPECIAL: u32 = 1 << 11;
    pub(super) const MERIDIEM: u32 = 1 << 12;
    pub(super) const ERA: u32 = 1 << 13;
    pub(super) const WEEKDAY: u32 = 1 << 14;
    pub(super) const CHANGING_ZONE: u32 = 1 << 15;
}

/// Where a text's time is counted from.
#[derive(Debug, Clone)]
enum Place {
    /// It does not say.
    Unsaid,
    Zone(Zone),
    /// An abbreviation, and the zone whose history tells its offset.
    Abbreviation(String, Zone),
}

/// A moment that is not said by its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Special {
    Epoch,
    Infinity,
    MinusInfinity,
}

/// What the fields have said so far.
struct Moment<'env> {
    env: &'env Env,
    /// Only a time is looked for: other numbers than those of dates.
    time_only: bool,
    said: u32,
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    hour: i64,
    minute: i64,
    second: i64,
    fraction_us: i64,
    year_has_two_digits: bool,
    is_julian: bool,
    text_month: bool,
    bc: bool,
    meridiem: Option<bool>,
    /// Seconds east of Greenwich.
    offset: i64,
    place: Place,
    special: Option<Special>,
    /// What the word before says of the next number.
    label: Option<Label>,
}

impl<'env> Moment<'env> {
    fn new(env: &'env Env, time_only: bool) -> Self {
        Self {
            env,
            time_only,
            said: 0,
            year: 0,
            month: 0,
            day: 0,
            day_of_year: 0,
            hour: 0,
            minute: 0,
            second: 0,
            fraction_us: 0,
            year_has_two_digits: false,
            is_julian: false,
            text_month: false,
            bc: false,
            meridiem: None,
            offset: 0,
            place: Place::Unsaid,
            special: None,
            label: None,
        }
    }

    fn has(&self, parts: u32) -> bool {
        self.said & parts == parts
    }

    /// Reads all fields of a text.
    fn read(&mut self, fields: &Fields) -> Parsed<()> {
        for index in 0..fields.len() {
            let parts = self.field(fields, index)?;
            if self.said & parts != 0 {
                return Err(Fault::Syntax);
            }
            self.said |= parts;
        }
        self.check_date()?;
        self.apply_meridiem()
    }

    /// Reads a field and says what it is.
    fn field(&mut self, fields: &Fields, index: usize) -> Parsed<u32> {
        let (look, field) = &fields[index];
        match look {
            Look::Date => self.date_field(fields, index),
            Look::Time => {
                if !self.time_only && self.label.take().is_some_and(|label| label != Label::IsoTime) {
                    return Err(Fault::Syntax);
                }
                self.clock(field)?;
                if !self.time_only {
                    self.check_time()?;
                }
                Ok(said::TIME)
            }
            Look::Offset => {
                self.offset = zone_offset(field)?;
                Ok(said::ZONE)
            }
            Look::Number => match self.label.take() {
                Some(label) => self.labelled_number(label, field),
                None if self.time_only => self.number_of_time(fields, index),
                None => self.number(field),
            },
            Look::Word | Look::Signed => self.word(fields, index),
        }
    }

    fn date_field(&mut self, fields: &Fields, index: usize) -> Parsed<u32> {
        let field = &*fields[index].1;
        let starts_with_digit = field.as_bytes()[0].is_ascii_digit();
        if self.time_only {
            let last = fields.len() - 1;
            if index == 0 && last > 0 && (fields[last].0 == Look::Date || fields[1].0 == Look::Time) {
                return self.date(field);
            }
            return if starts_with_digit { self.time_with_offset(field, true) } else { self.named_zone(field) };
        }
        match self.label {
            Some(Label::Julian) => {
                self.label = None;
                let (days, rest) = leading_int(field)?;
                if days < 0 {
                    return Err(Fault::Range);
                }
                self.julian(days);
                self.offset = zone_offset(rest)?;
                Ok(said::DATE | said::TIME | said::ZONE)
            }
            Some(label) => {
                if label != Label::IsoTime {
                    return Err(Fault::Syntax);
                }
                self.label = None;
                self.time_with_offset(field, false)
            }
            None if self.has(said::MONTH | said::DAY) => {
                if starts_with_digit {
                    self.time_with_offset(field, false)
                } else {
                    self.named_zone(field)
                }
            }
            None => self.date(field),
        }
    }

    fn named_zone(&mut self, name: &str) -> Parsed<u32> {
        let zone = Zone::named(name).map_err(|_| Fault::Zone(name.to_owned()))?;
        self.place = Place::Zone(zone);
        Ok(said::ZONE)
    }

    /// `hhmmss-zz`
    fn time_with_offset(&mut self, field: &str, date_is_said: bool) -> Parsed<u32> {
        if self.has(said::TIME) {
            return Err(Fault::Syntax);
        }
        let at = field.find('-').ok_or(Fault::Syntax)?;
        self.offset = zone_offset(&field[at..])?;
        let known = self.said | if date_is_said { said::DATE } else { 0 };
        Ok(self.run_together(&field[..at], known)? | said::ZONE)
    }

    /// Reads `1999-01-08`, `1/8/99`, `08-Jan-1999`, `Jan.08.1999`.
    fn date(&mut self, field: &str) -> Parsed<u32> {
        let mut parts: Vec<&str> = Vec::new();
        let mut rest = field;
        while !rest.is_empty() {
            rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            if rest.is_empty() {
                return Err(Fault::Syntax);
            }
            let is_digits = rest.as_bytes()[0].is_ascii_digit();
            let fits = |byte: &u8| if is_digits { byte.is_ascii_digit() } else { byte.is_ascii_alphabetic() };
            let length = rest.bytes().take_while(|byte| fits(byte)).count();
            parts.push(&rest[..length]);
            // Whatever stands behind a part is taken for a delimiter.
            rest = rest.get(length + 1..).unwrap_or("");
        }
        let mut known = self.said;
        let mut found = 0;
        let mut has_text_month = false;
        for part in parts.iter().filter(|part| part.as_bytes()[0].is_ascii_alphabetic()) {
            match words::word(part) {
                Some(Word::Month(month)) => self.month = month,
                _ => return Err(Fault::Syntax),
            }
            has_text_month = true;
            if known & said::MONTH != 0 {
                return Err(Fault::Syntax);
            }
            known |= said::MONTH;
            found |= said::MONTH;
        }
        for part in parts.iter().filter(|part| part.as_bytes()[0].is_ascii_digit()) {
            let parts = self.plain_number(part, has_text_month, known)?;
            if known & parts != 0 {
                return Err(Fault::Syntax);
            }
            known |= parts;
            found |= parts;
        }
        if known & !(said::DAY_OF_YEAR | said::ZONE) == said::DATE { Ok(found) } else { Err(Fault::Syntax) }
    }

    /// Reads `hh:mm`, `hh:mm:ss`, `hh:mm:ss.fff`, `mm:ss.fff`.
    fn clock(&mut self, field: &str) -> Parsed<()> {
        (self.hour, self.minute, self.second, self.fraction_us) = clock_fields(field, false)?;
        if self.hour > i64::from(i32::MAX) { Err(Fault::Range) } else { Ok(()) }
    }

    /// Hours and the whole time must be within a day.
    fn check_time(&self) -> Parsed<()> {
        let total = ((self.hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + self.fraction_us;
        let is_inside = (0..=24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..=60).contains(&self.second)
            && (0..=1_000_000).contains(&self.fraction_us)
            && total <= DAY_US;
        if is_inside { Ok(()) } else { Err(Fault::Range) }
    }

    /// Takes a day by its Julian number.
    fn julian(&mut self, days: i64) {
        (self.year, self.month, self.day) = super::civil_from_days(days - JULIAN_DAY_2000);
        self.is_julian = true;
    }

    /// A number behind a word that says what it is.
    fn labelled_number(&mut self, label: Label, field: &str) -> Parsed<u32> {
        let (value, rest) = leading_int(field)?;
        let takes_fraction = matches!(label, Label::Julian | Label::IsoTime | Label::Second);
        let is_fraction = rest.starts_with('.') && takes_fraction;
        if !rest.is_empty() && !is_fraction {
            return Err(Fault::Syntax);
        }
        self.special = None;
        Ok(match label {
            Label::Year => {
                self.year = value;
                said::YEAR
            }
            Label::Month if self.has(said::MONTH | said::HOUR) => {
                self.minute = value;
                said::MINUTE
            }
            Label::Month => {
                self.month = value;
                said::MONTH
            }
            Label::Day => {
                self.day = value;
                said::DAY
            }
            Label::Hour => {
                self.hour = value;
                said::HOUR
            }
            Label::Minute => {
                self.minute = value;
                said::MINUTE
            }
            Label::Second => {
                self.second = value;
                if rest.is_empty() {
                    said::SECOND
                } else {
                    self.fraction_us = fraction_us(rest)?;
                    said::SECOND | said::FRACTION
                }
            }
            Label::Julian => {
                if value < 0 {
                    return Err(Fault::Range);
                }
                self.julian(value);
                if rest.is_empty() {
                    return Ok(said::DATE);
                }
                self.set_time((fraction(rest)? * DAY_US as f64) as i64);
                said::DATE | said::TIME
            }
            Label::IsoTime => {
                let parts = self.run_together(field, self.said | said::DATE)?;
                if parts != said::TIME {
                    return Err(Fault::Syntax);
                }
                parts
            }
            Label::Other => return Err(Fault::Syntax),
        })
    }

    fn set_time(&mut self, us: i64) {
        let seconds = us / 1_000_000;
        (self.hour, self.minute) = (seconds / 3600, seconds / 60 % 60);
        (self.second, self.fraction_us) = (seconds % 60, us % 1_000_000);
    }

    fn number(&mut self, field: &str) -> Parsed<u32> {
        let point = field.find('.');
        match point {
            Some(_) if self.said & said::DATE == 0 => self.date(field),
            Some(point) if point > 2 => self.run_together(field, self.said),
            _ if field.len() >= 6 && (self.said & said::DATE == 0 || self.said & said::TIME == 0) => {
                self.run_together(field, self.said)
            }
            _ => self.plain_number(field, self.text_month, self.said),
        }
    }

    /// A number where a time is expected.
    fn number_of_time(&mut self, fields: &Fields, index: usize) -> Parsed<u32> {
        let field = &*fields[index].1;
        let known = self.said | said::DATE;
        match field.find('.') {
            Some(_) if index == 0 && fields.len() > 1 && fields[fields.len() - 1].0 == Look::Date => self.date(field),
            Some(point) if point > 2 => self.run_together(field, known),
            Some(_) => Err(Fault::Syntax),
            None if field.len() > 4 => self.run_together(field, known),
            None => self.plain_number(field, false, known),
        }
    }

    /// Takes a number for what is still missing.
    fn plain_number(&mut self, field: &str, has_text_month: bool, known: u32) -> Parsed<u32> {
        let (value, rest) = leading_int(field)?;
        let length = field.len();
        if rest.len() == length {
            return Err(Fault::Syntax);
        }
        if rest.starts_with('.') {
            if length - rest.len() > 2 {
                return self.run_together(field, known | said::DATE);
            }
            self.fraction_us = fraction_us(rest)?;
        } else if !rest.is_empty() {
            return Err(Fault::Syntax);
        }
        let date = known & said::DATE;
        if length == 3 && date == said::YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(said::DAY_OF_YEAR | said::MONTH | said::DAY);
        }
        let order = self.env.dates.order;
        const MONTH_AND_DAY: u32 = said::MONTH | said::DAY;
        const YEAR_AND_MONTH: u32 = said::YEAR | said::MONTH;
        let part = match date {
            0 if length >= 3 || order == DateOrder::Ymd => said::YEAR,
            0 if order == DateOrder::Dmy => said::DAY,
            0 | said::YEAR | said::DAY => said::MONTH,
            said::MONTH if has_text_month && (length >= 3 || order == DateOrder::Ymd) => said::YEAR,
            said::MONTH => said::DAY,
            YEAR_AND_MONTH => {
                // `08-Jan-1999`: what was taken for the year was the day.
                if has_text_month && length >= 3 && self.year_has_two_digits {
                    (self.day, self.year) = (self.year, value);
                    self.year_has_two_digits = false;
                    return Ok(said::DAY);
                }
                said::DAY
            }
            MONTH_AND_DAY => said::YEAR,
            said::DATE => return self.run_together(field, known),
            _ => return Err(Fault::Syntax),
        };
        match part {
            said::YEAR => {
                self.year = value;
                self.year_has_two_digits = length <= 2;
            }
            said::MONTH => self.month = value,
            _ => self.day = value,
        }
        Ok(part)
    }

    /// Takes digits for a date (`yyyymmdd`, `yymmdd`) or a time (`hhmmss.fff`, `hhmm`).
    fn run_together(&mut self, field: &str, known: u32) -> Parsed<u32> {
        let mut digits = field;
        if let Some(point) = field.find('.') {
            let end = field[point + 1..].find(|c: char| !c.is_ascii_digit()).map_or(field.len(), |end| point + 1 + end);
            self.fraction_us = fraction_us(&field[point..end])?;
            digits = &field[..point];
        } else if known & said::DATE != said::DATE && field.len() >= 6 {
            let (rest, day) = field.split_at(field.len() - 2);
            let (year, month) = rest.split_at(rest.len() - 2);
            (self.year, self.month, self.day) = (digits_value(year), digits_value(month), digits_value(day));
            if year.len() == 2 {
                self.year_has_two_digits = true;
            }
            return Ok(said::DATE);
        }
        if known & said::TIME == said::TIME || !matches!(digits.len(), 4 | 6) {
            return Err(Fault::Syntax);
        }
        self.hour = digits_value(&digits[..2]);
        self.minute = digits_value(&digits[2..4]);
        self.second = digits_value(&digits[4..]);
        if digits.len() == 4 {
            self.second = 0;
        }
        Ok(said::TIME)
    }

    fn word(&mut self, fields: &Fields, index: usize) -> Parsed<u32> {
        let field = &*fields[index].1;
        match words::abbreviation(field) {
            Some(Abbreviation::Offset(seconds, is_summer)) => {
                self.offset = i64::from(seconds);
                return Ok(said::ZONE | if is_summer { said::SUMMER } else { 0 });
            }
            Some(Abbreviation::Zone(name)) => {
                let zone = Zone::named(name).map_err(|_| Fault::Syntax)?;
                self.place = Place::Abbreviation(field.to_owned(), zone);
                return Ok(said::ZONE | said::CHANGING_ZONE);
            }
            None => {}
        }
        let Some(word) = words::word(field) else {
            let zone = Zone::named(field).map_err(|_| Fault::Syntax)?;
            self.place = Place::Zone(zone);
            return Ok(said::ZONE);
        };
        self.known_word(word, fields, index)
    }

    fn known_word(&mut self, word: Word, fields: &Fields, index: usize) -> Parsed<u32> {
        Ok(match word {
            Word::Noise => 0,
            Word::Now if self.time_only => {
                self.set_time(self.env.zone.to_local(self.env.transaction_us).rem_euclid(DAY_US));
                said::TIME
            }
            Word::Now => {
                let (zone, now) = (&self.env.zone, self.env.transaction_us);
                self.take_day(0);
                self.set_time(zone.to_local(now).rem_euclid(DAY_US));
                self.offset = i64::from(zone.offset_at(now));
                said::DATE | said::TIME | said::ZONE
            }
            Word::Midnight => {
                self.special = None;
                (self.hour, self.minute, self.second, self.offset) = (0, 0, 0, 0);
                said::TIME | said::ZONE
            }
            Word::Today | Word::Tomorrow | Word::Yesterday | Word::Epoch | Word::Infinity | Word::MinusInfinity
                if self.time_only =>
            {
                return Err(Fault::Syntax);
            }
            Word::Today => self.take_day(0),
            Word::Tomorrow => self.take_day(1),
            Word::Yesterday => self.take_day(-1),
            Word::Epoch => self.take_special(Special::Epoch),
            Word::Infinity => self.take_special(Special::Infinity),
            Word::MinusInfinity => self.take_special(Special::MinusInfinity),
            Word::Month(_) if self.time_only => return Err(Fault::Syntax),
            Word::Month(month) => {
                let mut part = said::MONTH;
                // `08 Jan 1999`: the first number was taken for a month.
                if self.has(said::MONTH) && !self.text_month && !self.has(said::DAY) && (1..=31).contains(&self.month) {
                    self.day = self.month;
                    part = said::DAY;
                }
                self.text_month = true;
                self.month = month;
                part
            }
            Word::SummerTime => {
                self.offset += 3600;
                said::SUMMER_WORD | said::SUMMER
            }
            Word::Meridiem { pm } => {
                self.meridiem = Some(pm);
                said::MERIDIEM
            }
            Word::Era { bc } => {
                self.bc = bc;
                said::ERA
            }
            Word::Weekday if self.time_only => return Err(Fault::Syntax),
            Word::Weekday => said::WEEKDAY,
            Word::Unit(label) => {
                self.label = Some(label);
                0
            }
            Word::IsoTime => {
                let next = fields.get(index + 1).map(|(look, _)| *look);
                let is_sensible = (self.time_only || self.has(said::DATE))
                    && matches!(next, Some(Look::Number | Look::Time | Look::Date));
                if !is_sensible {
                    return Err(Fault::Syntax);
                }
                self.label = Some(Label::IsoTime);
                0
            }
        })
    }

    fn take_special(&mut self, special: Special) -> u32 {
        self.special = Some(special);
        said::SPECIAL
    }

    /// Takes the day that is `after` days after today.
    fn take_day(&mut self, after: i64) -> u32 {
        let today = self.env.zone.to_local(self.env.transaction_us).div_euclid(DAY_US);
        (self.year, self.month, self.day) = super::civil_from_days(today + after);
        // Years before Christ are counted from 0 here, and not as texts count them.
        self.is_julian = true;
        self.special = None;
        said::DATE
    }

    /// Completes and checks the date.
    fn check_date(&mut self) -> Parsed<()> {
        if self.has(said::YEAR) && !self.is_julian {
            if self.bc {
                if self.year <= 0 {
                    return Err(Fault::Range);
                }
                self.year = 1 - self.year;
            } else if self.year_has_two_digits {
                match self.year {
                    ..0 => return Err(Fault::Range),
                    0..70 => self.year += 2000,
                    70..100 => self.year += 1900,
                    _ => {}
                }
            } else if self.year <= 0 {
                return Err(Fault::Range);
            }
        }
        if self.has(said::DAY_OF_YEAR) {
            let days = days_from_civil(self.year, 1, 1) + self.day_of_year - 1;
            (self.year, self.month, self.day) = super::civil_from_days(days);
        }
        if (self.has(said::MONTH) && !(1..=12).contains(&self.month))
            || (self.has(said::DAY) && !(1..=31).contains(&self.day))
        {
            return Err(Fault::MonthOrDay);
        }
        if self.has(said::DATE) && self.day > days_in_month(self.year, self.month) {
            return Err(Fault::Range);
        }
        Ok(())
    }

    fn apply_meridiem(&mut self) -> Parsed<()> {
        let Some(pm) = self.meridiem else { return Ok(()) };
        match (pm, self.hour) {
            (_, 13..) => return Err(Fault::Range),
            (false, 12) => self.hour = 0,
            (true, hour) if hour != 12 => self.hour += 12,
            _ => {}
        }
        Ok(())
    }

    /// Microseconds since midnight.
    fn time_us(&self) -> i64 {
        ((self.hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + self.fraction_us
    }

    /// Seconds east of Greenwich at a local time; `None` if the text does not say.
    fn offset_at(&self, local: i64) -> Parsed<Option<i64>> {
        if self.has(said::SUMMER_WORD)
            && (!self.has(said::ZONE) || matches!(self.place, Place::Zone(_) | Place::Abbreviation(..)))
        {
            return Err(Fault::Syntax);
        }
        Ok(match &self.place {
            Place::Zone(zone) => Some((local - zone.to_instant(local)) / 1_000_000),
            Place::Abbreviation(name, zone) => Some(i64::from(zone.offset_of_abbreviation(name, local))),
            Place::Unsaid => self.has(said::ZONE).then_some(self.offset),
        })
    }
}

/// Reads `h:m`, `h:m:s`, `h:m:s.f`, `m:s.f`, and `m:s` for `h:m` if minutes come first; the hours
/// may be any number.
pub fn clock_fields(field: &str, minutes_first: bool) -> Parsed<(i64, i64, i64, i64)> {
    let (mut hour, rest) = super::fields::leading_integer(field)?;
    let rest = rest.strip_prefix(':').ok_or(Fault::Syntax)?;
    let (mut minute, rest) = leading_int(rest)?;
    let (mut second, mut part_us) = (0, 0);
    if rest.starts_with('.') {
        // With a fraction, two numbers are minutes and seconds.
        part_us = fraction_us(rest)?;
        if hour > i64::from(i32::MAX) {
            return Err(Fault::Range);
        }
        (hour, minute, second) = (0, hour, minute);
    } else if let Some(rest) = rest.strip_prefix(':') {
        let (value, rest) = leading_int(rest)?;
        second = value;
        if rest.starts_with('.') {
            part_us = fraction_us(rest)?;
        } else if !rest.is_empty() {
            return Err(Fault::Syntax);
        }
    } else if !rest.is_empty() {
        return Err(Fault::Syntax);
    } else if minutes_first {
        (hour, minute, second) = (0, hour, minute);
    }
    let is_inside =
        hour >= 0 && (0..60).contains(&minute) && (0..=60).contains(&second) && (0..=1_000_000).contains(&part_us);
    if is_inside { Ok((hour, minute, second, part_us)) } else { Err(Fault::Range) }
}

/// Seconds east of Greenwich of `+05`, `-05:30`, `+0530`, `+05:30:15`.
fn zone_offset(field: &str) -> Parsed<i64> {
    let sign = match field.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Err(Fault::Syntax),
    };
    let too_far = |_| Fault::Displacement;
    let (mut hours, mut rest) = leading_int(&field[1..]).map_err(too_far)?;
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(more) = rest.strip_prefix(':') {
        (minutes, rest) = leading_int(more).map_err(too_far)?;
        if let Some(more) = rest.strip_prefix(':') {
            (seconds, rest) = leading_int(more).map_err(too_far)?;
        }
    } else if rest.is_empty() && field.len() > 3 {
        (hours, minutes) = (hours / 100, hours % 100);
    }
    if !(0..=15).contains(&hours) || !(0..60).contains(&minutes) || !(0..60).contains(&seconds) {
        return Err(Fault::Displacement);
    }
    if rest.is_empty() { Ok(sign * ((hours * 60 + minutes) * 60 + seconds)) } else { Err(Fault::Syntax) }
}

/// A zone as an argument of a function: an offset, an abbreviation or a name.
pub fn zone_argument(name: &str, local: i64) -> Result<Zone> {
    let name = super::zone::cut(name);
    let bad = |message: String| Error::new(SqlState::BAD_PARAMETER, message);
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(bad(format!("invalid input syntax for type numeric time zone: \"{name}\""))
            .hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    match zone_offset(name) {
        Ok(seconds) => Ok(Zone::Fixed(seconds as i32)),
        Err(Fault::Displacement) => Err(bad(format!("numeric time zone \"{name}\" out of range"))),
        Err(_) => Zone::at(name, local),
    }
}

/// A date and time of day, read.
enum Reading {
    Infinity,
    MinusInfinity,
    Epoch,
    /// The day since 2000-01-01, microseconds since its midnight, and seconds east of Greenwich if
    /// the text says.
    Local(i64, i64, Option<i64>),
}

/// How many characters a text may have without blanks.
const LENGTH_MAX: usize = 153;

fn read(text: &str, env: &Env) -> Parsed<Reading> {
    let mut moment = Moment::new(env, false);
    let fields = fields(text, LENGTH_MAX)?;
    moment.read(&fields)?;
    match moment.special {
        Some(Special::Infinity) => return Ok(Reading::Infinity),
        Some(Special::MinusInfinity) => return Ok(Reading::MinusInfinity),
        Some(Special::Epoch) => return Ok(Reading::Epoch),
        None => {}
    }
    if !moment.has(said::DATE) {
        return Err(Fault::Syntax);
    }
    let days = days_from_civil(moment.year, moment.month, moment.day);
    let time = moment.time_us();
    let local = days.saturating_mul(DAY_US).saturating_add(time);
    Ok(Reading::Local(days, time, moment.offset_at(local)?))
}

/// Reads a date.
pub fn parse_date(text: &str, env: &Env) -> Result<i32> {
    if let Some(days) = fast_date(text.as_bytes()) {
        return Ok(days as i32);
    }
    match read(text, env).map_err(|fault| report(fault, "date", text))? {
        Reading::Infinity => Ok(i32::MAX),
        Reading::MinusInfinity => Ok(i32::MIN),
        Reading::Epoch => Ok(-super::UNIX_EPOCH_TO_2000_DAYS as i32),
        Reading::Local(days, ..) if (DATE_MIN..DATE_END).contains(&days) => Ok(days as i32),
        Reading::Local(..) => Err(Error::new(SqlState::DATETIME_OVERFLOW, format!("date out of range: \"{text}\""))),
    }
}

/// Reads a time of day.
pub fn parse_time(text: &str, env: &Env) -> Result<i64> {
    if let Some(us) = fast_clock(text.as_bytes()) {
        return Ok(us);
    }
    read_time(text, env).map(|moment| moment.time_us()).map_err(|fault| report(fault, "time", text))
}

/// Reads a time of day with its zone; without one in the text it is in the session's.
pub fn parse_time_tz(text: &str, env: &Env) -> Result<TimeTz> {
    let ty = "time with time zone";
    let moment = read_time(text, env).map_err(|fault| report(fault, ty, text))?;
    let time = moment.time_us();
    // A zone's offset may hang on the date: on today, if the text has none.
    let day = if moment.has(said::DATE) {
        days_from_civil(moment.year, moment.month, moment.day)
    } else {
        env.zone.to_local(env.transaction_us).div_euclid(DAY_US)
    };
    let local = day.saturating_mul(DAY_US).saturating_add(time);
    let offset = match moment.offset_at(local).map_err(|fault| report(fault, ty, text))? {
        Some(offset) => offset,
        None => (local - env.zone.to_instant(local)) / 1_000_000,
    };
    Ok(TimeTz::at_offset(time, offset as i32))
}

fn read_time<'env>(text: &str, env: &'env Env) -> Parsed<Moment<'env>> {
    const TIME_LENGTH_MAX: usize = 129;
    let mut moment = Moment::new(env, true);
    let fields = fields(text, TIME_LENGTH_MAX)?;
    moment.read(&fields)?;
    moment.check_time()?;
    if !moment.has(said::TIME) {
        return Err(Fault::Syntax);
    }
    if let Place::Zone(zone) = &moment.place {
        // A zone's offset may hang on the date.
        if moment.has(said::SUMMER_WORD) || (!zone.is_fixed() && !moment.has(said::DATE)) {
            return Err(Fault::Syntax);
        }
    }
    // A part of a date does not tell the offset of a zone whose offset changes.
    let says_part = moment.said & said::DATE != 0 && !moment.has(said::DATE);
    let is_open = match moment.place {
        Place::Abbreviation(..) => true,
        Place::Unsaid => !moment.has(said::ZONE),
        Place::Zone(_) => false,
    };
    if says_part && is_open {
        return Err(Fault::Syntax);
    }
    if moment.has(said::SUMMER_WORD) && (!moment.has(said::ZONE) || matches!(moment.place, Place::Abbreviation(..))) {
        return Err(Fault::Syntax);
    }
    Ok(moment)
}

fn out_of_range(text: &str) -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, format!("timestamp out of range: \"{text}\""))
}

/// Reads a timestamp without time zone; a zone in the text is not looked at.
pub fn parse_timestamp(text: &str, env: &Env) -> Result<i64> {
    if let Some(us) = fast_timestamp(text.as_bytes()) {
        return Ok(us);
    }
    match read(text, env).map_err(|fault| report(fault, "timestamp", text))? {
        Reading::Infinity => Ok(i64::MAX),
        Reading::MinusInfinity => Ok(i64::MIN),
        Reading::Epoch => Ok(-super::UNIX_EPOCH_TO_2000_US),
        Reading::Local(days, time, _) => {
            let us = i128::from(days) * i128::from(DAY_US) + i128::from(time);
            checked_timestamp(us).map_err(|_| out_of_range(text))
        }
    }
}

/// Reads a timestamp with time zone; without a zone in the text it is in the session's.
pub fn parse_timestamptz(text: &str, env: &Env) -> Result<i64> {
    if let Some(us) = fast_timestamp(text.as_bytes()) {
        return checked_timestamp(i128::from(env.zone.to_instant(us))).map_err(|_| out_of_range(text));
    }
    match read(text, env).map_err(|fault| report(fault, "timestamp with time zone", text))? {
        Reading::Infinity => Ok(i64::MAX),
        Reading::MinusInfinity => Ok(i64::MIN),
        Reading::Epoch => Ok(-super::UNIX_EPOCH_TO_2000_US),
        Reading::Local(days, time, offset) => {
            let local = i128::from(days) * i128::from(DAY_US) + i128::from(time);
            let instant = match offset {
                Some(seconds) => local - i128::from(seconds) * 1_000_000,
                None => {
                    let local = i64::try_from(local).map_err(|_| out_of_range(text))?;
                    i128::from(env.zone.to_instant(local))
                }
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

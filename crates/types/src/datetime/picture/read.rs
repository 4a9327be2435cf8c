//! `to_date` and `to_timestamp`: texts read by a picture.
//!
//! Separators and blanks need not be the picture's, nor be there at all, unless FX says so. Numbers
//! next to each other have exactly the digits of their fields; others end where their digits do.

use super::{Convention, Field, Part, UNITS_PER_PART, is_separator, parts};
use crate::datetime::{
    JULIAN_DAY_2000, MONTHS, WEEKDAYS, Zone, checked_date, checked_timestamp, civil_from_days, days_from_civil,
    days_in_month, local_to_instant, weekday,
};
use crate::error::{Error, Result, SqlState};
use crate::interval::DAY_US;
use crate::letters::is_blank;
use crate::pulse;

/// What the fields of a text have said; 0 is what was not said.
#[derive(Debug, Default)]
struct Found {
    convention: Option<Convention>,
    hour: i64,
    pm: i64,
    minute: i64,
    second: i64,
    day_seconds: i64,
    /// The day of the week, Sunday being 1.
    weekday: i64,
    day: i64,
    day_of_year: i64,
    month: i64,
    millis: i64,
    year: i64,
    /// Digits of the year's field.
    year_digits: usize,
    bc: i64,
    week: i64,
    week_of_month: i64,
    century: i64,
    julian: i64,
    micros: i64,
    /// Digits of FF1 to FF6.
    fraction_digits: u32,
    twelve_hours: bool,
    zone_sign: i64,
    zone_hours: i64,
    zone_minutes: i64,
}

fn bad(message: String) -> Error {
    Error::new(SqlState::BAD_DATETIME, message)
}

fn out_of_range(text: &str) -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
}

/// The text while it is read, and how strictly.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    exact: bool,
    /// Characters skipped beyond those of the picture.
    extra: i64,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn first(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while self.first().is_some_and(is_blank) {
            self.at += 1;
            self.extra += 1;
        }
    }

    fn skip_char(&mut self) {
        self.at += self.rest().chars().next().map_or(0, char::len_utf8);
    }

    /// The number that a text begins with, behind blanks and a sign; its value and its length in
    /// bytes, 0 if none.
    fn number_in(text: &str) -> (Option<i64>, usize) {
        let blanks = text.bytes().take_while(|&byte| is_blank(byte)).count();
        let rest = &text[blanks..];
        let sign = usize::from(rest.starts_with(['+', '-']));
        let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return (Some(0), 0);
        }
        let value = rest[..sign + digits].parse::<i64>().ok();
        (value.filter(|value| i32::try_from(*value).is_ok()), blanks + sign + digits)
    }

    /// Reads a number; `digits` if another one follows at once, else all there are. Gives its
    /// length, too.
    fn number(&mut self, field: &Field, digits: usize, is_open: bool) -> Result<(i64, usize)> {
        let name = field.case.apply(field.keyword.name);
        let begin = self.at;
        let blanks = self.rest().bytes().take_while(|&byte| is_blank(byte)).count();
        let shown: String = self.text[begin + blanks..].chars().take(digits).collect();
        let value = if is_open {
            let (value, length) = Self::number_in(self.rest());
            self.at += length;
            value
        } else {
            self.at += blanks;
            let rest = self.rest();
            if rest.len() < digits {
                return Err(bad(format!("source string too short for \"{name}\" formatting field"))
                    .detail(format!("Field requires {digits} characters, but only {} remain.", rest.len()))
                    .hint("If your source string is not fixed-width, try using the \"FM\" modifier."));
            }
            // Only ASCII is read, so bytes are characters as far as it matters.
            let end = (0..=digits).rev().find(|&end| rest.is_char_boundary(end)).unwrap_or(0);
            let (value, length) = Self::number_in(&rest[..end]);
            if length > 0 && length < digits {
                return Err(bad(format!("invalid value \"{shown}\" for \"{name}\""))
                    .detail(format!("Field requires {digits} characters, but only {length} could be parsed."))
                    .hint("If your source string is not fixed-width, try using the \"FM\" modifier."));
            }
            self.at += length;
            value
        };
        if self.at == begin {
            return Err(bad(format!("invalid value \"{shown}\" for \"{name}\"")).detail("Value must be an integer."));
        }
        let value = value.ok_or_else(|| {
            let message = format!("value for \"{name}\" in source string is out of range");
            Error::new(SqlState::DATETIME_OVERFLOW, message)
        })?;
        Ok((value, self.at - begin))
    }

    /// Reads one of some names, of which the first that fits counts.
    fn name(&mut self, field: &Field, names: &[&str], letters_max: usize) -> Result<i64> {
        let rest = self.rest();
        let found = names.iter().position(|name| {
            let name = &name[..name.len().min(letters_max)];
            rest.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name))
        });
        let Some(index) = found else {
            let shown: String = rest.chars().take_while(|&c| !crate::letters::is_blank_char(c)).collect();
            // As the picture writes it.
            let (first, rest) = field.keyword.name.split_at(1);
            let name = field.case.apply(&format!("{first}{}", rest.to_ascii_lowercase()));
            return Err(bad(format!("invalid value \"{shown}\" for \"{name}\""))
                .detail("The given value did not match any of the allowed values for this field."));
        };
        self.at += names[index].len().min(letters_max);
        Ok(index as i64)
    }
}

/// Whether a number ends where its digits do: no other number follows at once.
fn is_open(field: &Field, next: Option<&Part>) -> bool {
    !field.fill
        || field.ordinal.is_some()
        || match next {
            Some(Part::Field(next)) => !next.keyword.is_digits,
            Some(Part::Char(c)) => !c.is_ascii_digit(),
            Some(Part::Separator(_) | Part::Blank(_)) | None => true,
        }
}

/// The year nearest to 2020 with the last digits given.
fn nearest_to_2020(year: i64) -> i64 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

const ROMAN: [&str; 12] = ["xii", "xi", "x", "ix", "viii", "vii", "vi", "v", "iv", "iii", "ii", "i"];

impl Found {
    fn read(text: &str, picture: &str) -> Result<Self> {
        let mut found = Self::default();
        let mut reader = Reader { text, at: 0, exact: false, extra: 0 };
        let all = parts(picture)?;
        pulse::work(UNITS_PER_PART * all.len())?;
        for (index, part) in all.iter().enumerate() {
            if reader.first().is_none() {
                break;
            }
            let skips = match part {
                Part::Field(field) => field.keyword.name != "FX",
                _ => index == 0,
            };
            if !reader.exact && skips {
                reader.skip_blanks();
            }
            match part {
                Part::Field(field) => {
                    found.field(&mut reader, field, is_open(field, all.get(index + 1)))?;
                    if !reader.exact {
                        reader.extra = 0;
                        reader.skip_blanks();
                    }
                }
                Part::Separator(_) | Part::Blank(_) if !reader.exact => {
                    reader.extra -= 1;
                    if reader.first().is_some_and(|byte| is_blank(byte) || is_separator(char::from(byte))) {
                        reader.at += 1;
                        reader.extra += 1;
                    }
                }
                // What was skipped already need not be skipped again.
                Part::Char(_) if !reader.exact && reader.extra > 0 => reader.extra -= 1,
                Part::Separator(_) | Part::Blank(_) | Part::Char(_) => reader.skip_char(),
            }
        }
        Ok(found)
    }

    fn field(&mut self, reader: &mut Reader<'_>, field: &Field, is_open: bool) -> Result<()> {
        let name = field.keyword.name;
        let convention = field.keyword.convention;
        if convention != Convention::Any && *self.convention.get_or_insert(convention) != convention {
            return Err(bad("invalid combination of date conventions".to_owned())
                .hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
        }
        match name {
            "FX" => reader.exact = true,
            "A.M." | "P.M." | "AM" | "PM" => {
                let names = if name.contains('.') { ["A.M.", "P.M."] } else { ["AM", "PM"] };
                let pm = reader.name(field, &names, usize::MAX)?;
                set(&mut self.pm, pm, field)?;
                self.twelve_hours = true;
            }
            "A.D." | "B.C." | "AD" | "BC" => {
                let names = if name.contains('.') { ["A.D.", "B.C."] } else { ["AD", "BC"] };
                let bc = reader.name(field, &names, usize::MAX)?;
                set(&mut self.bc, bc, field)?;
            }
            "MONTH" | "MON" => {
                let letters = if name == "MON" { 3 } else { usize::MAX };
                let month = reader.name(field, &MONTHS, letters)? + 1;
                set(&mut self.month, month, field)?;
            }
            "RM" => {
                let month = 12 - reader.name(field, &ROMAN, usize::MAX)?;
                set(&mut self.month, month, field)?;
            }
            "DAY" | "DY" => {
                let letters = if name == "DY" { 3 } else { usize::MAX };
                let day = reader.name(field, &WEEKDAYS, letters)?;
                set(&mut self.weekday, day, field)?;
                self.weekday += 1;
            }
            "TZ" | "OF" => {
                let name = field.case.apply(name);
                let message = format!("formatting field \"{name}\" is only supported in to_char");
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            "TZH" => {
                self.zone_sign = match reader.first() {
                    Some(b'-') => -1,
                    // The sign may have been taken for a separator.
                    Some(b'+' | b' ') => 1,
                    _ if reader.extra > 0 && reader.text.as_bytes().get(reader.at.wrapping_sub(1)) == Some(&b'-') => -1,
                    _ => 1,
                };
                reader.at += usize::from(matches!(reader.first(), Some(b'-' | b'+' | b' ')));
                let (hours, _) = reader.number(field, 2, is_open)?;
                return set(&mut self.zone_hours, hours, field);
            }
            "Y,YYY" => self.grouped_year(reader, field)?,
            _ => self.number(reader, field, is_open)?,
        }
        if field.ordinal.is_some() && field.keyword.is_digits && name != "TZM" {
            reader.skip_char();
            reader.skip_char();
        }
        Ok(())
    }

    /// `1,999`
    fn grouped_year(&mut self, reader: &mut Reader<'_>, field: &Field) -> Result<()> {
        let wrong = || bad("invalid input string for \"Y,YYY\"".to_owned());
        let (thousands, length) = Reader::number_in(reader.rest());
        let thousands = thousands.filter(|_| length > 0).ok_or_else(wrong)?;
        let rest = reader.rest()[length..].strip_prefix(',').ok_or_else(wrong)?;
        let blanks = rest.bytes().take_while(|&byte| is_blank(byte)).count();
        let three = &rest[blanks..];
        let end = (0..=3.min(three.len())).rev().find(|&end| three.is_char_boundary(end)).unwrap_or(0);
        let (units, used) = Reader::number_in(&three[..end]);
        let units = units.filter(|_| used > 0).ok_or_else(wrong)?;
        reader.at += length + 1 + blanks + used;
        set(&mut self.year, thousands * 1000 + units, field)?;
        self.year_digits = 4;
        Ok(())
    }

    /// The fields that are one number.
    fn number(&mut self, reader: &mut Reader<'_>, field: &Field, is_open: bool) -> Result<()> {
        let name = field.keyword.name;
        let digits = match name {
            "HH24" | "HH12" | "TZM" => 2,
            "MS" | "IDDD" => 3,
            "US" => 6,
            "ID" => 1,
            name if name.starts_with("FF") => usize::from(name.as_bytes()[2] - b'0'),
            name => name.len(),
        };
        if name.starts_with("FF") {
            self.fraction_digits = digits as u32;
        }
        let (value, length) = reader.number(field, digits, is_open)?;
        let year_digits = name.trim_start_matches('I').len() + usize::from(name.starts_with('I'));
        match name {
            "HH24" => set(&mut self.hour, value, field)?,
            "HH12" | "HH" => {
                set(&mut self.hour, value, field)?;
                self.twelve_hours = true;
            }
            "MI" => set(&mut self.minute, value, field)?,
            "SS" => set(&mut self.second, value, field)?,
            "SSSSS" | "SSSS" => set(&mut self.day_seconds, value, field)?,
            // 25 is a quarter, as 250 is.
            "MS" => {
                set(&mut self.millis, value, field)?;
                self.millis *= 10i64.pow(3 - length.clamp(1, 3) as u32);
            }
            "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                set(&mut self.micros, value, field)?;
                self.micros *= 10i64.pow(6 - length.clamp(1, 6) as u32);
            }
            "TZM" => {
                if self.zone_sign == 0 {
                    self.zone_sign = 1;
                }
                set(&mut self.zone_minutes, value, field)?;
            }
            "MM" => set(&mut self.month, value, field)?,
            "DDD" | "IDDD" => set(&mut self.day_of_year, value, field)?,
            "DD" => set(&mut self.day, value, field)?,
            "D" => set(&mut self.weekday, value, field)?,
            "ID" => {
                set(&mut self.weekday, value, field)?;
                self.weekday = if self.weekday + 1 > 7 { 1 } else { self.weekday + 1 };
            }
            "WW" | "IW" => set(&mut self.week, value, field)?,
            "CC" => set(&mut self.century, value, field)?,
            "W" => set(&mut self.week_of_month, value, field)?,
            "J" => set(&mut self.julian, value, field)?,
            "YYYY" | "IYYY" => {
                set(&mut self.year, value, field)?;
                self.year_digits = 4;
            }
            "YYY" | "YY" | "Y" | "IYY" | "IY" | "I" => {
                set(&mut self.year, value, field)?;
                if length < 4 {
                    self.year = nearest_to_2020(self.year);
                }
                self.year_digits = if name == "I" { 1 } else { year_digits };
            }
            // Which day of a quarter is meant cannot be said.
            _ => {}
        }
        Ok(())
    }

    /// Microseconds since midnight.
    fn time(&self, text: &str) -> Result<i64> {
        let (mut hour, mut minute, mut second) =
            (self.day_seconds / 3600, self.day_seconds % 3600 / 60, self.day_seconds % 60);
        if self.second != 0 {
            second = self.second;
        }
        if self.minute != 0 {
            minute = self.minute;
        }
        if self.hour != 0 {
            hour = self.hour;
        }
        if self.twelve_hours {
            if !(1..=12).contains(&hour) {
                return Err(bad(format!("hour \"{hour}\" is invalid for the 12-hour clock"))
                    .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            hour = hour % 12 + if self.pm != 0 { 12 } else { 0 };
        }
        let fraction = self.millis * 1000 + self.micros;
        let is_inside = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..1_000_000).contains(&fraction);
        if !is_inside {
            return Err(out_of_range(text));
        }
        Ok(((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction)
    }

    /// The year, 0 being 1 BC or not said, and whether it was said.
    fn full_year(&self) -> (i64, bool) {
        let century = if self.bc != 0 { -self.century } else { self.century };
        match (self.year, self.century) {
            (0, 0) => (0, false),
            (0, _) if century >= 0 => ((century - 1) * 100 + 1, true),
            (0, _) => (century * 100 + 1, true),
            (year, cc) if cc != 0 && self.year_digits <= 2 => {
                let year = year % 100;
                let full = match (year, century >= 0) {
                    (0, true) => century * 100,
                    (0, false) => century * 100 + 1,
                    (_, true) => year + (century - 1) * 100,
                    (_, false) => (century + 1) * 100 - year + 1,
                };
                (full, true)
            }
            (year, _) => {
                let year = if self.bc != 0 { -year } else { year };
                (if year < 0 { year + 1 } else { year }, true)
            }
        }
    }

    /// Days since 2000-01-01.
    fn days(&self, text: &str) -> Result<i64> {
        let (mut year, mut has_year) = self.full_year();
        let (mut month, mut day, mut has_month, mut has_day) = (1, 1, false, false);
        let mut day_of_year = self.day_of_year;
        let take = |days: i64| {
            let (year, month, day) = civil_from_days(days);
            (year, month, day, true, true, true)
        };
        if self.julian != 0 {
            (year, month, day, has_year, has_month, has_day) = take(self.julian - JULIAN_DAY_2000);
        }
        if self.week != 0 {
            if self.convention == Some(Convention::IsoWeek) {
                let monday = monday_of_week(year, self.week);
                // Sunday, the first day elsewhere, is the last one here.
                let after = match self.weekday {
                    0 => 0,
                    1 => 6,
                    weekday if weekday > 1 => weekday - 2,
                    _ => 6,
                };
                (year, month, day, has_year, has_month, has_day) = take(monday + after);
            } else {
                day_of_year = (self.week - 1) * 7 + 1;
            }
        }
        let own_day = if self.week_of_month != 0 { (self.week_of_month - 1) * 7 + 1 } else { self.day };
        if own_day != 0 {
            (day, has_day) = (own_day, true);
        }
        if self.month != 0 {
            (month, has_month) = (self.month, true);
        }
        if day_of_year != 0 && (month <= 1 || day <= 1) {
            if year == 0 && self.bc == 0 {
                return Err(bad("cannot calculate day of year without year information".to_owned()));
            }
            if self.convention == Some(Convention::IsoWeek) {
                let first = monday_of_week(year, 1);
                (year, month, day, has_year, has_month, has_day) = take(first + day_of_year - 1);
            } else {
                let (of_month, rest) = month_of_day(year, day_of_year);
                month = if month <= 1 { of_month } else { month };
                day = if day <= 1 { rest } else { day };
                (has_month, has_day) = (true, true);
            }
        }
        let is_wrong = (has_month && !(1..=12).contains(&month))
            || (has_day && !(1..=31).contains(&day))
            || (has_year && has_month && has_day && day > days_in_month(year, month));
        if is_wrong { Err(out_of_range(text)) } else { Ok(days_from_civil(year, month, day)) }
    }

    /// Days since 2000-01-01 and microseconds since midnight. What is no date comes before what is
    /// no time of a day.
    fn moment(&self, text: &str) -> Result<(i64, i64)> {
        let time = self.time(text);
        if time.as_ref().is_err_and(|error| error.state() == SqlState::BAD_DATETIME) {
            return time.map(|time| (0, time));
        }
        Ok((self.days(text)?, time?))
    }

    /// Seconds east of Greenwich, if the text says.
    fn offset(&self, text: &str) -> Result<Option<i64>> {
        if self.zone_sign == 0 {
            return Ok(None);
        }
        if !(0..=15).contains(&self.zone_hours) || !(0..60).contains(&self.zone_minutes) {
            let message = format!("time zone displacement out of range: \"{text}\"");
            return Err(Error::new(SqlState("22009"), message));
        }
        Ok(Some(self.zone_sign * (self.zone_hours * 60 + self.zone_minutes) * 60))
    }
}

/// Takes a value, which no other field may have said otherwise.
fn set(known: &mut i64, value: i64, field: &Field) -> Result<()> {
    if *known != 0 && *known != value {
        let name = field.case.apply(field.keyword.name);
        return Err(bad(format!("conflicting values for \"{name}\" field in formatting string"))
            .detail("This value contradicts a previous setting for the same field type."));
    }
    *known = value;
    Ok(())
}

/// The Monday of a week of ISO 8601, whose first one has January 4.
fn monday_of_week(year: i64, week: i64) -> i64 {
    let fourth = days_from_civil(year, 1, 4);
    fourth - (weekday(fourth) + 6) % 7 + (week - 1) * 7
}

/// The month of a day of a year, and the day in it; beyond the year's end it is the 13th month.
fn month_of_day(year: i64, day_of_year: i64) -> (i64, i64) {
    let mut rest = day_of_year;
    for month in 1..=12 {
        let length = days_in_month(year, month);
        if rest <= length {
            return (month, rest);
        }
        rest -= length;
    }
    (13, rest)
}

/// The date that a text shows by a picture.
pub fn to_date(text: &str, picture: &str) -> Result<i32> {
    let found = Found::read(text, picture)?;
    let (days, _) = found.moment(text)?;
    found.offset(text)?;
    checked_date(days).map_err(|_| Error::new(SqlState::DATETIME_OVERFLOW, format!("date out of range: \"{text}\"")))
}

/// The instant that a text shows by a picture, in `zone` if it names none.
pub fn to_timestamp(text: &str, picture: &str, zone: &Zone) -> Result<i64> {
    let found = Found::read(text, picture)?;
    let (days, time) = found.moment(text)?;
    let local = i128::from(days) * i128::from(DAY_US) + i128::from(time);
    let instant = match found.offset(text)? {
        Some(seconds) => checked_timestamp(local - i128::from(seconds) * 1_000_000)?,
        None => local_to_instant(checked_timestamp(local)?, zone)?,
    };
    if found.fraction_digits == 0 || found.fraction_digits >= 6 {
        return Ok(instant);
    }
    let unit = 10i64.pow(6 - found.fraction_digits);
    let half = if instant < 0 { -unit / 2 } else { unit / 2 };
    Ok(instant.saturating_add(half) / unit * unit)
}

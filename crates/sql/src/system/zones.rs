//! `pg_timezone_names` and `pg_timezone_abbrevs`: the time zones that can be named, as they are
//! now, and short names of offsets.

use colibri_types::{Datum, Env, Interval, Result};
use jiff::Timestamp;
use jiff::tz::Dst;

use super::{Fill, Rows, text};

/// Seconds from 1970 to 2000.
const EPOCH_SECONDS: i64 = 946_684_800;

pub(super) const FILLS: &[(&str, Fill)] = &[("pg_timezone_names", names), ("pg_timezone_abbrevs", abbreviations)];

fn abbreviations(env: &Env, rows: &mut Rows) -> Result<()> {
    for (name, seconds, is_summer) in colibri_types::datetime::abbreviations_at(env.statement_us) {
        let micros = i64::from(seconds) * 1_000_000;
        let offset = Datum::Interval(Interval { months: 0, days: 0, micros });
        rows.push([text(&name.to_ascii_uppercase()), offset, Datum::Bool(is_summer)])?;
    }
    Ok(())
}

fn names(env: &Env, rows: &mut Rows) -> Result<()> {
    let now = Timestamp::from_second(env.statement_us.div_euclid(1_000_000) + EPOCH_SECONDS).unwrap_or_default();
    for name in jiff::tz::db().available() {
        let Ok(zone) = jiff::tz::db().get(name.as_str()) else { continue };
        let info = zone.to_offset_info(now);
        let micros = i64::from(info.offset().seconds()) * 1_000_000;
        rows.push([
            text(name.as_str()),
            text(info.abbreviation()),
            Datum::Interval(Interval { months: 0, days: 0, micros }),
            Datum::Bool(info.dst() == Dst::Yes),
        ])?;
    }
    Ok(())
}

//! Conversions between types, and what a type's modifier does to a value.
//!
//! Which conversions there are, and where they happen by themselves, is as PostgreSQL's `pg_cast`
//! has it; besides, every type converts to text on assignment and from text when asked, by way of
//! its text form.

use compact_str::CompactString;

use crate::datetime::{self, TimeTz};
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::interval::{DAY_US, Interval};
use crate::jsonb::{self, JsonbRef, Node};
use crate::network::{Address, Mac, Mac8};
use crate::numeric::Numeric;
use crate::pieces;
use crate::text_io;
use crate::types::{Category, Modifier, Scalar, Type};
use crate::value::Datum;
use crate::{money, positions};

/// Where a conversion happens: what may be converted there without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// Anywhere in an expression.
    Implicit,
    /// Into a column.
    Assignment,
    /// By CAST or `::`.
    Explicit,
}

/// Whether values are bytes of a form of the type's own, but for strings of bits.
fn is_packed(ty: Type) -> bool {
    ty == Type::TsQuery || ty != Type::Bytea && ty.base() == Type::Bytea && ty.category() != Category::BitString
}

/// Whether a cast gives the same whatever the session's settings are.
#[must_use]
pub fn is_immutable(from: Type, to: Type) -> bool {
    let is_number = |ty: Type| ty.is_integer() || matches!(ty, Type::Float4 | Type::Float8 | Type::Numeric | Type::Oid);
    let is_exact = |ty: Type| ty.is_integer() || matches!(ty, Type::Numeric | Type::Bool | Type::Oid);
    let is_text = |ty: Type| ty.is_text() || ty == Type::Unknown;
    match (from, to) {
        (from, to) if is_number(from) && is_number(to) => true,
        (Type::Bool, to) => to.is_integer() || is_text(to) || matches!(to, Type::Bool | Type::Citext),
        (from, Type::Bool) => from.is_integer() || is_text(from),
        (from, to) if is_text(from) => {
            is_text(to)
                || is_number(to)
                || matches!(to, Type::Bit | Type::VarBit | Type::Uuid | Type::Json | Type::Jsonb | Type::JsonPath)
                || to == Type::Citext
                || is_packed(to)
        }
        (from, to) if is_packed(from) && is_packed(to) => true,
        (from, to) if is_text(to) => {
            is_exact(from)
                || is_packed(from) && !from.is_geometric()
                || matches!(
                    from,
                    Type::Bit | Type::VarBit | Type::Uuid | Type::Json | Type::Jsonb | Type::Xml | Type::Citext
                )
        }
        (Type::Hstore, Type::Json | Type::Jsonb) | (Type::Array(_), Type::Hstore) => true,
        (Type::Vector, Type::Array(_)) | (Type::Array(_), Type::Vector) => true,
        (Type::Json, Type::Jsonb) | (Type::Jsonb, Type::Json) => true,
        (Type::Jsonb, to) => is_number(to) || to == Type::Bool,
        (Type::Date | Type::Timestamp, Type::Date | Type::Timestamp | Type::Time) => true,
        (Type::Money, Type::Numeric) | (Type::TimeTz, Type::Time) => true,
        (from, Type::Money) => is_exact(from),
        (Type::Bit | Type::VarBit, to) => to.is_integer() || to.category() == Category::BitString,
        (from, Type::Bit) => from.is_integer(),
        // What an array function gives has its type from there.
        (Type::AnyArray, Type::Array(_)) => true,
        (from, to) => from == to && matches!(to.category(), Category::DateTime) && to != Type::TimestampTz,
    }
}

/// The weakest context in which values of one type become another by themselves; `None` if they
/// never do.
#[must_use]
pub fn cast_context(from: Type, to: Type) -> Option<CastContext> {
    use CastContext::{Assignment, Explicit, Implicit};
    use Type::{Bool, Char, Date, Float4, Float8, Int2, Int4, Int8, Interval, Name, Numeric, Oid, Text, Time};
    use Type::{Timestamp, TimestampTz, Unknown, Varchar, Void};
    if from == to {
        return Some(Implicit);
    }
    Some(match (from, to) {
        (Unknown, Void) => Implicit,
        (Void, to) if to.category() == Category::String => Assignment,
        (_, Void | Unknown) | (Void, _) => return None,
        (_, Type::AnyArray) if from.is_array() || from == Unknown => Implicit,
        (_, Type::AnyElement | Type::AnyCompatible) => Implicit,
        (_, to) if to.is_polymorphic() && to != Type::AnyArray => return None,
        (Type::AnyArray, _) if to.is_array() => Implicit,
        (Type::Int2Vector | Type::OidVector, Type::Array(element)) => {
            return from.element().and_then(|from| cast_context(from, element.ty()));
        }
        (Type::Array(from), Type::Array(to)) => return cast_context(from.ty(), to.ty()),
        (Unknown, Type::Record) => Implicit,
        (Type::Composite(_), Type::Record) | (Type::Record, Type::Composite(_)) => Implicit,
        (_, Type::AnyArray | Type::Record) | (Type::AnyElement, _) => return None,
        (Type::RegProc, Type::RegProcedure) | (Type::RegProcedure, Type::RegProc) => Implicit,
        (Type::RegOper, Type::RegOperator) | (Type::RegOperator, Type::RegOper) => Implicit,
        (Oid, to) if to.is_reg() => Implicit,
        (from, Oid) if from.is_reg() => Implicit,
        (from, Int4 | Int8) if from.is_reg() => Assignment,
        (Int2 | Int4 | Int8, to) if to.is_reg() => Implicit,
        (Text | Varchar, Type::RegClass) => Implicit,
        (Type::InternalChar, Text) => Implicit,
        (Text | Varchar | Char, Type::InternalChar) => Assignment,
        (Int4, Type::InternalChar) | (Type::InternalChar, Int4) => Explicit,
        (Unknown, _) => Implicit,
        (Type::Cidr, Type::Inet) | (Type::MacAddr, Type::MacAddr8) | (Type::MacAddr8, Type::MacAddr) => Implicit,
        (Type::Inet, Type::Cidr) => Assignment,
        (Type::Point, Type::Box) | (Type::Path, Type::Polygon) | (Type::Box, Type::Polygon) => Assignment,
        (Type::Polygon, Type::Path) => Assignment,
        (Type::Lseg | Type::Box | Type::Polygon | Type::Circle, Type::Point)
        | (Type::Box, Type::Lseg | Type::Circle)
        | (Type::Polygon, Type::Box | Type::Circle)
        | (Type::Circle, Type::Box | Type::Polygon) => Explicit,
        (Int2, Int4 | Int8 | Float4 | Float8 | Numeric | Oid)
        | (Int4, Int8 | Float4 | Float8 | Numeric | Oid)
        | (Int8, Float4 | Float8 | Numeric | Oid)
        | (Float4, Float8)
        | (Numeric, Float4 | Float8) => Implicit,
        (Int4, Int2)
        | (Int8, Int2 | Int4)
        | (Float4 | Float8 | Numeric, Int2 | Int4 | Int8)
        | (Float4, Numeric)
        | (Float8, Float4 | Numeric)
        | (Oid, Int4 | Int8) => Assignment,
        (Type::Json, Type::Jsonb) | (Type::Jsonb, Type::Json) => Assignment,
        (Type::Jsonb, Bool | Int2 | Int4 | Int8 | Float4 | Float8 | Numeric) => Explicit,
        (Int4, Bool) | (Bool, Int4) => Explicit,
        (Type::Bit, Type::VarBit) | (Type::VarBit, Type::Bit) => Implicit,
        (Int4 | Int8, Type::Bit) | (Type::Bit, Int4 | Int8) => Explicit,
        (Text | Char | Varchar, Text | Char | Varchar | Name) | (Name, Text) => Implicit,
        (Type::Citext, Text | Varchar) => Implicit,
        (Type::Hstore, Type::Json | Type::Jsonb) | (Type::Array(Scalar::Text), Type::Hstore) => Explicit,
        (Type::Vector, Type::Array(Scalar::Float4)) => Implicit,
        (Type::Array(Scalar::Int4 | Scalar::Float4 | Scalar::Float8 | Scalar::Numeric), Type::Vector) => Assignment,
        (Date, Timestamp | TimestampTz) | (Timestamp, TimestampTz) | (Time, Interval | Type::TimeTz) => Implicit,
        (Timestamp, Date | Time) | (TimestampTz, Date | Time | Timestamp) | (Interval, Time) => Assignment,
        (TimestampTz, Type::TimeTz) | (Type::TimeTz, Time) => Assignment,
        (Int4 | Int8 | Numeric, Type::Money) | (Type::Money, Numeric) => Assignment,
        (Type::Xid8, Type::Xid) => Explicit,
        (from, to) if from.multirange() == Some(to) => Explicit,
        (_, to) if to.category() == Category::String => Assignment,
        (from, _) if from.category() == Category::String => Explicit,
        _ => return None,
    })
}

/// Whether a conversion changes no value: its work can be left out.
#[must_use]
pub fn is_noop(from: Type, to: Type, modifier: Modifier) -> bool {
    use Type::{Char, Float4, Float8, Int2, Int4, Int8, Name, Oid, Text, Unknown, Varchar};
    if modifier != Modifier::NONE {
        return false;
    }
    from == to
        || to == Type::Void
        || matches!(
            (from, to),
            (Int2, Int4 | Int8)
                | (Int4 | Oid, Int8)
                | (Float4, Float8)
                | (Char | Varchar | Text | Name, Text | Varchar)
                | (Unknown, Text | Varchar)
                | (Type::Cidr, Type::Inet)
                | (Type::Composite(_), Type::Record)
        )
}

#[cold]
fn out_of_range(ty: Type) -> Error {
    Error::new(SqlState::OUT_OF_RANGE, format!("{} out of range", if ty == Type::Oid { "OID" } else { ty.sql_name() }))
}

/// An integer as a value of an integer type, if the type has it.
#[inline]
pub fn int_in_range(value: i64, ty: Type) -> Result<Datum> {
    let fits = match ty {
        Type::Int2 => value as i16 as i64 == value,
        Type::Int4 => value as i32 as i64 == value,
        // As PostgreSQL has it, a negative integer is the object number with the same bits.
        Type::Oid if value < 0 => {
            return if value as i32 as i64 == value {
                Ok(Datum::Int(i64::from(value as u32)))
            } else {
                Err(out_of_range(ty))
            };
        }
        Type::Oid => value as u32 as i64 == value,
        _ => true,
    };
    if fits { Ok(Datum::Int(value)) } else { Err(out_of_range(ty)) }
}

/// A float as a value of an integer type, rounded half to even.
pub fn float_to_int(value: f64, ty: Type) -> Result<Datum> {
    let rounded = value.round_ties_even();
    // The upper bound is exact as a float, the greatest i64 is not.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
        int_in_range(rounded as i64, ty)
    } else {
        Err(out_of_range(ty))
    }
}

/// A float as a `real`.
pub fn to_float4(value: f64) -> Result<f64> {
    let narrow = value as f32;
    if narrow.is_infinite() && value.is_finite() {
        return Err(Error::new(SqlState::OUT_OF_RANGE, "value out of range: overflow"));
    }
    if narrow == 0.0 && value != 0.0 {
        return Err(Error::new(SqlState::OUT_OF_RANGE, "value out of range: underflow"));
    }
    Ok(f64::from(narrow))
}

/// Converts a value from one type to another, and to its modifier.
///
/// # Errors
/// 42846 if there is no such conversion in the context; the errors of the types' input functions;
/// 22003 and 22001 for values that do not fit.
pub fn cast(value: &Datum, from: Type, to: Type, modifier: Modifier, context: CastContext, env: &Env) -> Result<Datum> {
    if value.is_null() {
        return Ok(Datum::Null);
    }
    if let (Datum::Int(value), Type::Bit) = (value, to) {
        // Of a number so many bits are taken as there are to be.
        let value = if from == Type::Int4 { i64::from(*value as i32) } else { *value };
        return crate::bits::of_int(value, usize::try_from(modifier.0).unwrap_or(1));
    }
    let value = if from == to { value.clone() } else { convert(value, from, to, env)? };
    if modifier == Modifier::NONE { Ok(value) } else { apply_modifier(value, to, modifier, context) }
}

/// Whether a cast leaves every value as it is.
#[must_use]
pub fn keeps_values(from: Type, to: Type, modifier: Modifier) -> bool {
    let between = match from {
        Type::Varchar | Type::Text | Type::Char | Type::Name => matches!(to, Type::Text | Type::Varchar),
        Type::Int2 => matches!(to, Type::Int4 | Type::Int8),
        Type::Int4 => to == Type::Int8,
        Type::Cidr => to == Type::Inet,
        Type::Composite(_) => to == Type::Record,
        _ => false,
    };
    modifier == Modifier::NONE && (from == to || between)
}

fn convert(value: &Datum, from: Type, to: Type, env: &Env) -> Result<Datum> {
    Ok(match (value, to) {
        // What takes `any` says so by the type void.
        (_, Type::Void | Type::AnyArray | Type::AnyElement) => value.clone(),
        (Datum::Row(row), Type::Composite(of)) => {
            return crate::composite_values::of_row(of, row, CastContext::Explicit, env);
        }
        (Datum::Row(_), Type::Record) => value.clone(),
        (Datum::Array(array), to) if to.is_array() => return array.cast(from, to, env),
        (Datum::Int(_), Type::Text | Type::Varchar | Type::Char | Type::Name) if from.is_named_number() => {
            Datum::Text(text_io::written(from, value, env)?)
        }
        (Datum::Int(_), Type::Citext) if from.is_named_number() => Datum::Citext(text_io::written(from, value, env)?),
        (Datum::Int(value), Type::Xid) if from == Type::Xid8 => Datum::Int(i64::from(positions::to_u64(*value) as u32)),
        (_, to) if to.base() == Type::Oid && to != Type::Oid && matches!(value, Datum::Int(_)) => {
            return convert(value, if from.is_reg() { Type::Oid } else { from }, Type::Oid, env);
        }
        (Datum::Int(value), Type::InternalChar) => {
            let byte = i8::try_from(*value).map_err(|_| Error::new(SqlState::OUT_OF_RANGE, "\"char\" out of range"))?;
            Datum::Text(text_io::shown_byte(byte as u8))
        }
        (Datum::Text(value), Type::Int4) if from == Type::InternalChar => {
            Datum::Int(i64::from(text_io::byte_of_char(value) as i8))
        }
        (Datum::Int(cents), Type::Numeric) if from == Type::Money => Datum::Numeric(money::to_numeric(*cents)?),
        (Datum::Int(value), Type::Money) => Datum::Int(money::of_int(*value)?),
        (Datum::Numeric(value), Type::Money) => Datum::Int(money::of_numeric(value)?),
        (_, to) if from.is_reg() => return convert(value, Type::Oid, to, env),
        // An object number and an integer with the same bits are each other's, but a bigint must be
        // in range.
        (Datum::Int(value), Type::Int4) if from == Type::Oid => Datum::Int(i64::from(*value as u32 as i32)),
        (Datum::Int(value), Type::Oid) if from == Type::Int8 && *value < 0 => return Err(out_of_range(to)),
        (Datum::Int(value), Type::Int2 | Type::Int4 | Type::Int8 | Type::Oid) => return int_in_range(*value, to),
        (Datum::Int(value), Type::Float4) => Datum::Float(f64::from(*value as f32)),
        (Datum::Int(value), Type::Float8) => Datum::Float(*value as f64),
        (Datum::Int(value), Type::Numeric) => Datum::Numeric(Numeric::from(*value)),
        (Datum::Int(value), Type::Bool) if from == Type::Int4 => Datum::Bool(*value != 0),
        (Datum::Bytes(_), Type::Bit | Type::VarBit) => value.clone(),
        (Datum::Bytes(bytes), Type::Int4 | Type::Int8) => {
            let bits = crate::bits::Bits::new(bytes);
            match (bits.len(), to) {
                (0..=32, Type::Int4) => Datum::Int(i64::from(bits.to_u64() as u32 as i32)),
                (0..=64, Type::Int8) => Datum::Int(bits.to_u64() as i64),
                _ => return Err(out_of_range(to)),
            }
        }
        (Datum::Bool(value), Type::Int4) => Datum::Int(i64::from(*value)),
        (Datum::Float(value), Type::Int2 | Type::Int4 | Type::Int8) => return float_to_int(*value, to),
        (Datum::Float(value), Type::Float8) => Datum::Float(*value),
        (Datum::Float(value), Type::Float4) => Datum::Float(to_float4(*value)?),
        (Datum::Float(value), Type::Numeric) if from == Type::Float4 => {
            Datum::Numeric(Numeric::from_f32(*value as f32)?)
        }
        (Datum::Float(value), Type::Numeric) => Datum::Numeric(Numeric::from_f64(*value)?),
        (Datum::Numeric(value), Type::Int2 | Type::Int4 | Type::Int8) => {
            if !value.is_finite() {
                let what = if value.is_nan() { "NaN" } else { "infinity" };
                let message = format!("cannot convert {what} to {to}");
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            return int_in_range(value.to_i64_rounded().ok_or_else(|| out_of_range(to))?, to);
        }
        (Datum::Numeric(value), Type::Float8) => {
            let float = value.to_f64();
            if value.is_finite() && (float.is_infinite() || (float == 0.0 && !value.is_zero())) {
                let message = format!("\"{value}\" is out of range for type double precision");
                return Err(Error::new(SqlState::OUT_OF_RANGE, message));
            }
            Datum::Float(float)
        }
        (Datum::Numeric(value), Type::Float4) => {
            let narrow = value.to_f64() as f32;
            if value.is_finite() && (narrow.is_infinite() || (narrow == 0.0 && !value.is_zero())) {
                return Err(Error::new(SqlState::OUT_OF_RANGE, format!("\"{value}\" is out of range for type real")));
            }
            // Rounding twice, by way of a double, could end one digit off.
            Datum::Float(f64::from(value.to_string().parse::<f32>().unwrap_or(narrow)))
        }
        (Datum::Jsonb(bytes), Type::Json) => {
            let mut text = String::new();
            jsonb::write(JsonbRef::new(bytes), &mut text)?;
            Datum::Text(text.into())
        }
        (Datum::Jsonb(bytes), to) if to == Type::Bool || to.category() == Category::Number => {
            let node = JsonbRef::new(bytes).node()?;
            let kind = node.cast_name();
            match (node, to) {
                (Node::Bool(value), Type::Bool) => Datum::Bool(value),
                (Node::Number(value), Type::Numeric) => Datum::Numeric(value),
                (Node::Number(value), to) if to != Type::Bool => {
                    return convert(&Datum::Numeric(value), Type::Numeric, to, env);
                }
                _ => {
                    let message = format!("cannot cast jsonb {kind} to type {to}");
                    return Err(Error::new(SqlState::BAD_PARAMETER, message));
                }
            }
        }
        (Datum::Range(bytes), to) if from.multirange() == Some(to) => {
            crate::ranges::value(to, &crate::ranges::spans(from, bytes)?)
        }
        (Datum::Bytes(bytes), _) if is_packed(from) => {
            return convert_packed(bytes, from, to, env);
        }
        (Datum::Text(text), Type::Citext) => Datum::Citext(text.clone()),
        (Datum::Citext(text), to) => return convert(&Datum::Text(text.clone()), Type::Text, to, env),
        (Datum::Array(_), Type::Hstore) => return crate::hstore::of_array(value),
        (Datum::Array(array), Type::Vector) => return crate::vector::of_array(array),
        (Datum::Text(text), Type::Name) => Datum::Text(CompactString::new(cut_name(text))),
        (Datum::Text(text), Type::Char) => return crate::copies::copy(pieces::without_blanks_at_end(text)?),
        (Datum::Text(_), Type::Text | Type::Varchar) => value.clone(),
        (Datum::Text(text), _) => return text_io::parse(to, Modifier::NONE, text, env),
        (Datum::Bool(value), Type::Text | Type::Varchar | Type::Char) => {
            Datum::text(if *value { "true" } else { "false" })
        }
        (Datum::Bool(value), Type::Citext) => Datum::Citext(if *value { "true" } else { "false" }.into()),
        (Datum::Date(date), Type::Timestamp) => Datum::Timestamp(datetime::date_to_timestamp(*date)?),
        (Datum::Date(date), Type::TimestampTz) => {
            let local = datetime::date_to_timestamp(*date)?;
            Datum::Timestamp(datetime::local_to_instant(local, &env.zone)?)
        }
        (Datum::Time(time), Type::TimeTz) => Datum::TimeTz(TimeTz::of_today(*time, env)),
        (Datum::TimeTz(time), Type::Time) => Datum::Time(time.micros),
        (Datum::Timestamp(instant), Type::TimeTz) if datetime::is_infinite_timestamp(*instant) => Datum::Null,
        (Datum::Timestamp(instant), Type::TimeTz) => Datum::TimeTz(TimeTz::of_instant(*instant, &env.zone)),
        (Datum::Timestamp(local), Type::TimestampTz) => {
            Datum::Timestamp(datetime::local_to_instant(*local, &env.zone)?)
        }
        (Datum::Timestamp(instant), Type::Timestamp) => {
            Datum::Timestamp(datetime::instant_to_local(*instant, &env.zone)?)
        }
        (Datum::Timestamp(timestamp), Type::Date | Type::Time) => {
            let local = if from == Type::TimestampTz { datetime::clocks_at(*timestamp, &env.zone) } else { *timestamp };
            match to {
                Type::Date => Datum::Date(datetime::timestamp_to_date(local)),
                _ if datetime::is_infinite_timestamp(local) => Datum::Null,
                _ => Datum::Time(local.rem_euclid(DAY_US)),
            }
        }
        (Datum::Time(time), Type::Interval) => Datum::Interval(Interval { months: 0, days: 0, micros: *time }),
        (Datum::Interval(interval), Type::Time) => Datum::Time(interval.micros.rem_euclid(DAY_US)),
        (_, Type::Text | Type::Varchar | Type::Char | Type::Name | Type::Citext) => {
            let text = text_io::written(from, value, env)?;
            match to {
                Type::Citext => Datum::Citext(text),
                Type::Name => Datum::text(cut_name(&text)),
                Type::Char => Datum::Text(without_blanks(text)?),
                _ => Datum::Text(text),
            }
        }
        _ => return Err(Error::new(SqlState::CANNOT_COERCE, format!("cannot cast type {from} to {to}"))),
    })
}

/// Values whose bytes are a form of their own.
fn convert_packed(bytes: &[u8], from: Type, to: Type, env: &Env) -> Result<Datum> {
    let kept = || Datum::Bytes(bytes.into());
    Ok(match (from, to) {
        (Type::Cidr, Type::Inet) => kept(),
        (Type::Inet, Type::Cidr) => Datum::Bytes(Address::from_bytes(bytes).network().to_bytes()),
        (Type::MacAddr, Type::MacAddr8) => Datum::Bytes(Mac::from_bytes(bytes).widened().0.into()),
        (Type::MacAddr8, Type::MacAddr) => Datum::Bytes(Mac8::from_bytes(bytes).narrowed()?.0.into()),
        (from, to) if from.is_geometric() && to.is_geometric() => match crate::geometry::cast(bytes, from, to)? {
            Some(cast) => Datum::Bytes(cast.into()),
            None => return Err(Error::new(SqlState::CANNOT_COERCE, format!("cannot cast type {from} to {to}"))),
        },
        (Type::Vector, Type::Array(Scalar::Float4)) => {
            Datum::Array(std::sync::Arc::new(crate::vector::Vector::new(bytes).to_array()))
        }
        (Type::Hstore, Type::Json) => Datum::Text(crate::hstore::Hstore::new(bytes).to_json(false)?.into()),
        (Type::Hstore, Type::Jsonb) => crate::hstore::Hstore::new(bytes).to_jsonb(false)?,
        // Unlike where the type writes them, all networks have their bits.
        (Type::Inet, Type::Citext) => {
            let text = convert_packed(bytes, from, Type::Text, env)?;
            return convert(&text, Type::Text, to, env);
        }
        (Type::Inet, Type::Text | Type::Varchar | Type::Char) => {
            let mut text = String::new();
            Address::from_bytes(bytes).write(true, &mut text);
            Datum::Text(text.into())
        }
        (_, Type::Text | Type::Varchar | Type::Char | Type::Name | Type::Citext) => {
            let text = Datum::Text(text_io::written(from, &kept(), env)?);
            return convert(&text, Type::Text, to, env);
        }
        _ => return Err(Error::new(SqlState::CANNOT_COERCE, format!("cannot cast type {from} to {to}"))),
    })
}

/// The beginning of a text that an identifier has room for: 63 bytes, whole characters.
pub fn cut_name(text: &str) -> &str {
    let mut end = text.len().min(63);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Fits a value of a type to the type's modifier: cuts, rounds, or refuses it.
pub fn apply_modifier(value: Datum, ty: Type, modifier: Modifier, context: CastContext) -> Result<Datum> {
    Ok(match (value, ty) {
        (Datum::Text(text), Type::Varchar | Type::Char) => {
            let Some(chars_max) = modifier.chars_max() else { return Ok(Datum::Text(text)) };
            // As many bytes as characters are allowed are never too many.
            if text.len() <= chars_max {
                return Ok(if ty == Type::Char { Datum::Text(without_blanks(text)?) } else { Datum::Text(text) });
            }
            let Some((end, _)) = text.char_indices().nth(chars_max) else {
                return Ok(if ty == Type::Char { Datum::Text(without_blanks(text)?) } else { Datum::Text(text) });
            };
            if context != CastContext::Explicit && !pieces::without_blanks_at_end(&text[end..])?.is_empty() {
                return Err(Error::new(
                    SqlState::STRING_TOO_LONG,
                    format!("value too long for type {ty}({chars_max})"),
                ));
            }
            let cut = CompactString::new(&text[..end]);
            Datum::Text(if ty == Type::Char { without_blanks(cut)? } else { cut })
        }
        (Datum::Bytes(bytes), Type::Vector) => {
            crate::vector::check_modifier(&bytes, modifier)?;
            Datum::Bytes(bytes)
        }
        (Datum::Bytes(bytes), Type::Bit | Type::VarBit) => {
            return crate::bits::apply_modifier(bytes, ty, modifier, context == CastContext::Explicit);
        }
        (Datum::Numeric(value), _) => match modifier.precision_scale() {
            Some((precision, scale)) => Datum::Numeric(value.with_precision(precision, scale)?),
            None => Datum::Numeric(value),
        },
        (Datum::Timestamp(value), _) if !datetime::is_infinite_timestamp(value) => {
            Datum::Timestamp(round_fraction(value, modifier))
        }
        (Datum::Array(array), Type::Array(element)) => {
            let fit = |value: &Datum| apply_modifier(value.clone(), element.ty(), modifier, context);
            Datum::Array(std::sync::Arc::new(array.map(fit)?))
        }
        (Datum::TimeTz(value), _) => Datum::TimeTz(TimeTz { micros: round_fraction(value.micros, modifier), ..value }),
        (Datum::Time(value), _) => Datum::Time(round_fraction(value, modifier)),
        (Datum::Interval(value), _) => {
            let (fields, digits) = modifier.interval_parts();
            let value = value.cut_to(fields);
            let fits = |digits: u8| round_to_digits(value.micros, digits).ok_or_else(crate::interval::out_of_range);
            let micros = digits.map_or(Ok(value.micros), fits)?;
            Datum::Interval(Interval { micros, ..value })
        }
        (value, _) => value,
    })
}

fn without_blanks(mut text: CompactString) -> Result<CompactString> {
    let length = pieces::without_blanks_at_end(&text)?.len();
    text.truncate(length);
    Ok(text)
}

/// Microseconds rounded half away from zero to the modifier's digits of a second.
fn round_fraction(micros: i64, modifier: Modifier) -> i64 {
    modifier.fraction_digits().and_then(|digits| round_to_digits(micros, digits)).unwrap_or(micros)
}

/// The same, if it fits.
fn round_to_digits(micros: i64, digits: u8) -> Option<i64> {
    let unit = 10i64.pow(6 - u32::from(digits.min(6)));
    let half = if micros < 0 { -unit / 2 } else { unit / 2 };
    Some(micros.checked_add(half)? / unit * unit)
}

/// Whether values of a type are shown with the blanks that a modifier says: `char(n)`, and arrays of
/// it.
#[must_use]
pub fn is_padded(ty: Type) -> bool {
    ty == Type::Char || ty.element() == Some(Type::Char)
}

/// A `char(n)` value with the blanks at its end, which are not stored.
#[must_use]
pub fn pad_char(value: &Datum, modifier: Modifier) -> Datum {
    match (value, modifier.chars_max()) {
        (Datum::Array(array), Some(_)) => match array.map(|element| Ok(pad_char(element, modifier))) {
            Ok(padded) => Datum::Array(std::sync::Arc::new(padded)),
            Err(_) => value.clone(),
        },
        (Datum::Text(text), Some(chars_max)) => {
            let count = text.chars().count();
            if count >= chars_max {
                return value.clone();
            }
            let mut padded = text.clone();
            padded.extend(std::iter::repeat_n(' ', chars_max - count));
            Datum::Text(padded)
        }
        _ => value.clone(),
    }
}

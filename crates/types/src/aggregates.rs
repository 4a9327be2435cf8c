//! Aggregates: a state for each group, fed row by row.
//!
//! NULLs among the arguments are skipped here, so a caller needs to know nothing of a function to
//! run it. Sums of integers are kept in integers wide enough that no number of rows overflows them
//! before the result does.

mod combine;
mod moving;
pub mod ordered;
mod pairs;

use std::cmp::Ordering;

use crate::array::Array;
use crate::bits::Bits;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::functions::combined_bits as combined;
use crate::functions::{document, json_item, json_key_of, write_json};
use crate::interval::Interval;
use crate::json_text;
use crate::jsonb::Item;
use crate::numeric::Numeric;
use crate::operators::compare;
use crate::pieces::{self, Pace};
use crate::pulse;
use crate::ranges::{self, Span};
use crate::types::Type;
use crate::value::Datum;
use crate::vector::{self, Vector};

pub use moving::Moving;
pub use pairs::Figure;

/// An aggregate function.
#[derive(Debug, Clone, Copy)]
pub struct Aggregate {
    /// Its name.
    pub name: &'static str,
    /// What it takes; nothing for `count(*)`.
    pub args: &'static [Type],
    /// What it gives.
    pub result: Type,
    /// Makes the state of a new group.
    pub start: fn() -> State,
}

/// What an aggregate remembers of a group.
#[derive(Debug, Clone)]
pub enum State {
    /// `count(*)`
    CountRows(i64),
    /// `count(x)`
    Count(i64),
    /// `sum` of smallint and integer.
    SumInt(Option<i64>),
    /// `sum` of bigint: the sum, and whether there was a value.
    SumBigint(i128, bool),
    /// `avg` of integers: sum and count.
    AvgInt(i128, i64),
    /// `sum` of numeric: the sum, which has as many digits after the point as any of the values,
    /// and whether there was a value.
    SumNumeric(Numeric, bool),
    /// `avg` of numeric: sum and count.
    AvgNumeric(Numeric, i64),
    /// `sum` of double precision.
    SumFloat(Option<f64>),
    /// `sum` of real, rounded to one at each step.
    SumReal(Option<f32>),
    /// `avg`, variance and standard deviation of floats.
    Floats(Spread, Moments),
    /// Variance and standard deviation of integers.
    Ints(Spread, Box<(i64, i128, i128)>),
    /// Variance and standard deviation of numeric: count, sum, sum of squares.
    Numerics(Spread, Box<(i64, Numeric, Numeric)>),
    /// `sum` of interval.
    SumInterval(Option<Interval>),
    /// `avg` of interval.
    AvgInterval(Interval, i64),
    /// `avg` (true) and `sum` of vectors: the sums of the elements, and the count.
    Vectors(bool, Vec<f64>, i64),
    /// `min`
    Min(Datum),
    /// `max`
    Max(Datum),
    /// [`FIRST`]
    First(Datum),
    /// `bit_and`, `bit_or` and `bit_xor` of strings of bits.
    Bits(fn(u8, u8) -> u8, &'static str, Option<Box<[u8]>>),
    /// `bool_and`, `every`
    And(Option<bool>),
    /// `bool_or`
    Or(Option<bool>),
    /// `bit_and`
    BitAnd(Option<i64>),
    /// `bit_or`
    BitOr(Option<i64>),
    /// `bit_xor`
    BitXor(Option<i64>),
    /// `string_agg` of text, `xmlagg`
    Text(Option<String>),
    /// `string_agg` of bytea.
    Bytes(Option<Vec<u8>>),
    /// `array_agg`, NULLs among the values.
    Array(Option<Vec<Datum>>),
    /// `percentile_cont` (true), `percentile_disc`
    Percentile(bool, Box<ordered::Percentile>),
    /// `mode`
    Mode(Box<ordered::Mode>),
    /// `rank` and its kin of a hypothetical row.
    Hypothetical(Box<ordered::Hypothetical>),
    /// `regr_slope`, `corr` and their kin.
    Pairs(Figure, Box<pairs::Sums>),
    /// `range_agg`: the multirange that it gives, and the values.
    Ranges(Type, Type, Option<Vec<Span>>),
    /// `range_intersect_agg`
    Common(Type, Option<Vec<Span>>),
    /// `json_agg`, `json_object_agg`
    Json(JsonForm, Option<String>),
    /// `jsonb_agg`, `jsonb_object_agg`: the values, and the keys in front of them.
    Jsonb(JsonForm, Option<Vec<(Option<String>, Datum)>>),
}

/// What an aggregate of JSON makes. Behind its arguments come the numbers of their types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonForm {
    /// An array of the values.
    Array,
    /// An object of keys and values.
    Object,
}

/// Which figure of a distribution is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// `avg`
    Mean,
    /// `var_pop`
    PopulationVariance,
    /// `var_samp`, `variance`
    SampleVariance,
    /// `stddev_pop`
    PopulationDeviation,
    /// `stddev_samp`, `stddev`
    SampleDeviation,
}

impl Spread {
    fn is_sample(self) -> bool {
        matches!(self, Self::SampleVariance | Self::SampleDeviation)
    }

    fn is_deviation(self) -> bool {
        matches!(self, Self::PopulationDeviation | Self::SampleDeviation)
    }
}

/// Count, sum, and sum of squared differences from the mean (Youngs and Cramer), which lose no
/// digits to a large mean.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    #[inline]
    fn add(&mut self, value: f64) -> Result<()> {
        let before = self.count;
        self.count += 1.0;
        self.sum += value;
        if before > 0.0 {
            let difference = value * self.count - self.sum;
            self.squares += difference * difference / (self.count * before);
            if self.sum.is_infinite() || self.squares.is_infinite() {
                // Only an infinite value may make the sum infinite.
                if value.is_finite() && (self.sum - value).is_finite() {
                    return Err(Error::new(SqlState::OUT_OF_RANGE, "value out of range: overflow"));
                }
                self.squares = f64::NAN;
            }
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
        Ok(())
    }

    fn finish(&self, spread: Spread) -> Datum {
        if self.count == 0.0 || (self.count == 1.0 && spread.is_sample()) {
            return Datum::Null;
        }
        if spread == Spread::Mean {
            return Datum::Float(self.sum / self.count);
        }
        let variance = self.squares / if spread.is_sample() { self.count - 1.0 } else { self.count };
        Datum::Float(if spread.is_deviation() { variance.sqrt() } else { variance })
    }
}

/// The error of a sum that is no bigint (22003).
#[cold]
#[must_use]
pub fn bigint_out_of_range() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "bigint out of range")
}

#[cold]
fn numeric_overflow() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "value overflows numeric format")
}

#[cold]
fn wrong(value: &Datum) -> Error {
    Error::internal(format!("an aggregate was fed with {value:?}"))
}

impl State {
    /// Takes in a row's arguments; `count(*)` takes none.
    #[inline]
    pub fn update(&mut self, args: &[&Datum], env: &Env) -> Result<()> {
        let value = match (&mut *self, args) {
            (Self::CountRows(count), _) => {
                *count += 1;
                return Ok(());
            }
            (Self::Array(values), [value, ..]) => {
                values.get_or_insert_default().push((*value).clone());
                return Ok(());
            }
            (Self::Json(form, out), _) => return add_json(*form, out, args, env),
            (Self::Percentile(_, percentile), _) => return percentile.add(args),
            (Self::Hypothetical(row), _) => return row.add(args),
            (Self::Pairs(_, sums), [Datum::Float(y), Datum::Float(x)]) => return sums.add(*y, *x),
            (Self::Pairs(..), _) => return Ok(()),
            (Self::Jsonb(form, values), _) => return add_jsonb(*form, values, args, env),
            (_, [value, ..]) if !value.is_null() => *value,
            _ => return Ok(()),
        };
        match (self, value) {
            (Self::Count(count), _) => *count += 1,
            (Self::SumInt(sum), Datum::Int(value)) => {
                *sum = Some(sum.unwrap_or(0).checked_add(*value).ok_or_else(bigint_out_of_range)?);
            }
            (Self::SumBigint(sum, any), Datum::Int(value)) => {
                *sum += i128::from(*value);
                *any = true;
            }
            (Self::AvgInt(sum, count), Datum::Int(value)) => {
                *sum += i128::from(*value);
                *count += 1;
            }
            (Self::SumNumeric(sum, any), Datum::Numeric(value)) => {
                *sum = sum.add_unbounded(value)?;
                *any = true;
            }
            (Self::AvgNumeric(sum, count), Datum::Numeric(value)) => {
                *sum = sum.add_unbounded(value)?;
                *count += 1;
            }
            (Self::SumFloat(sum), Datum::Float(value)) => {
                let total = sum.map_or(*value, |sum| sum + value);
                if total.is_infinite() && value.is_finite() && sum.is_none_or(f64::is_finite) {
                    return Err(Error::new(SqlState::OUT_OF_RANGE, "value out of range: overflow"));
                }
                *sum = Some(total);
            }
            (Self::SumReal(sum), Datum::Float(value)) => {
                let value = *value as f32;
                let total = sum.map_or(value, |sum| sum + value);
                if total.is_infinite() && value.is_finite() && sum.is_none_or(f32::is_finite) {
                    return Err(Error::new(SqlState::OUT_OF_RANGE, "value out of range: overflow"));
                }
                *sum = Some(total);
            }
            (Self::Floats(_, moments), Datum::Float(value)) => moments.add(*value)?,
            (Self::Min(least), value) => {
                if least.is_null() || takes_over(compare(value, least), Ordering::Less, value) {
                    *least = value.clone();
                }
            }
            (Self::Max(most), value) => {
                if most.is_null() || takes_over(compare(value, most), Ordering::Greater, value) {
                    *most = value.clone();
                }
            }
            (Self::First(first), value) => {
                if first.is_null() {
                    *first = value.clone();
                }
            }
            (Self::And(all), Datum::Bool(value)) => *all = Some(all.unwrap_or(true) & value),
            (Self::Or(any), Datum::Bool(value)) => *any = Some(any.unwrap_or(false) | value),
            (state, value) => state.update_rare(value, args, env)?,
        }
        Ok(())
    }

    /// The states whose updates are long or rare.
    fn update_rare(&mut self, value: &Datum, args: &[&Datum], _env: &Env) -> Result<()> {
        match (&mut *self, value) {
            (Self::Ints(_, sums), Datum::Int(value)) => {
                let (count, sum, squares) = &mut **sums;
                let value = i128::from(*value);
                *count += 1;
                *sum += value;
                *squares = squares.checked_add(value * value).ok_or_else(numeric_overflow)?;
            }
            (Self::Numerics(_, sums), Datum::Numeric(value)) => {
                let (count, sum, squares) = &mut **sums;
                *count += 1;
                *sum = sum.add_unbounded(value)?;
                *squares = squares.add_unbounded(&value.mul_unbounded(value)?)?;
            }
            (Self::SumInterval(sum), Datum::Interval(value)) => {
                *sum = Some(sum.unwrap_or_default().add(*value)?);
            }
            (Self::AvgInterval(sum, count), Datum::Interval(value)) => {
                *sum = sum.add(*value)?;
                *count += 1;
            }
            (Self::Vectors(is_mean, sums, count), Datum::Bytes(bytes)) => {
                let vector = Vector::new(bytes);
                if sums.is_empty() {
                    sums.resize(vector.count(), 0.0);
                }
                vector.expect_count(sums.len())?;
                pulse::work(sums.len())?;
                for (sum, element) in sums.iter_mut().zip(vector.elements()) {
                    // A sum is a real of 4 bytes all the time.
                    let (whole, real) = (*sum + f64::from(element), *sum as f32 + element);
                    *sum = if *is_mean { whole } else { f64::from(real) };
                    if sum.is_infinite() {
                        return Err(vector::overflow());
                    }
                }
                *count += 1;
            }
            (Self::Mode(mode), value) => mode.add(value),
            (Self::Ranges(ty, _, spans), Datum::Range(bytes)) => {
                spans.get_or_insert_default().extend(ranges::spans(*ty, bytes)?);
            }
            (Self::Common(ty, common), Datum::Range(bytes)) => {
                let spans = ranges::spans(*ty, bytes)?;
                *common = Some(match common.take() {
                    Some(common) => ranges::intersection(&common, &spans),
                    None => spans,
                });
            }
            (Self::Bits(operation, name, bits), Datum::Bytes(value)) => {
                *bits = match bits.take() {
                    None => Some(value.clone()),
                    Some(bits) => match combined(Bits::new(&bits), Bits::new(value), *operation, name)? {
                        Datum::Bytes(bits) => Some(bits),
                        _ => None,
                    },
                };
            }
            (Self::BitAnd(bits), Datum::Int(value)) => *bits = Some(bits.unwrap_or(-1) & value),
            (Self::BitOr(bits), Datum::Int(value)) => *bits = Some(bits.unwrap_or(0) | value),
            (Self::BitXor(bits), Datum::Int(value)) => *bits = Some(bits.unwrap_or(0) ^ value),
            (Self::Text(_), Datum::Text(_)) | (Self::Bytes(_), Datum::Bytes(_)) => return self.append(value, args),
            (_, value) => return Err(wrong(value)),
        }
        Ok(())
    }

    /// A text or byte string more, behind the separator.
    fn append(&mut self, value: &Datum, args: &[&Datum]) -> Result<()> {
        fn bytes(value: &Datum) -> &[u8] {
            match value {
                Datum::Text(text) => text.as_bytes(),
                Datum::Bytes(bytes) => bytes,
                _ => &[],
            }
        }
        pieces::pass(bytes(value).len(), Pace::Copied)?;
        let separator = args.get(1).copied().unwrap_or(&Datum::Null);
        match (self, value) {
            (Self::Text(Some(sum)), Datum::Text(value)) => {
                if let Datum::Text(separator) = separator {
                    sum.push_str(separator);
                }
                sum.push_str(value);
            }
            (Self::Text(sum), Datum::Text(value)) => *sum = Some(value.to_string()),
            (Self::Bytes(Some(sum)), value) => {
                sum.extend_from_slice(bytes(separator));
                sum.extend_from_slice(bytes(value));
            }
            (Self::Bytes(sum), value) => *sum = Some(bytes(value).to_vec()),
            (_, value) => return Err(wrong(value)),
        }
        Ok(())
    }

    /// The group's result. The state is of no more use.
    pub fn finish(&mut self) -> Result<Datum> {
        let int = |value: &Option<i64>| value.map_or(Datum::Null, Datum::Int);
        let truth = |value: &Option<bool>| value.map_or(Datum::Null, Datum::Bool);
        Ok(match self {
            Self::CountRows(count) | Self::Count(count) => Datum::Int(*count),
            Self::SumInt(sum) | Self::BitAnd(sum) | Self::BitOr(sum) | Self::BitXor(sum) => int(sum),
            Self::SumBigint(_, false) | Self::SumNumeric(_, false) => Datum::Null,
            Self::AvgInt(_, 0) | Self::AvgNumeric(_, 0) | Self::AvgInterval(_, 0) => Datum::Null,
            Self::Vectors(.., 0) => Datum::Null,
            Self::Vectors(is_mean, sums, count) => {
                let divisor = if *is_mean { *count as f64 } else { 1.0 };
                let elements = sums.iter().map(|sum| (sum / divisor) as f32);
                Datum::Bytes(vector::of_elements(elements)?)
            }
            Self::SumBigint(sum, _) => Datum::Numeric(Numeric::from(*sum)),
            Self::AvgInt(sum, count) => Datum::Numeric(Numeric::from(*sum).div(&Numeric::from(*count))?),
            Self::SumNumeric(sum, true) => Datum::Numeric(std::mem::replace(sum, Numeric::ZERO).bounded()?),
            Self::AvgNumeric(sum, count) => Datum::Numeric(sum.div(&Numeric::from(*count))?),
            Self::SumFloat(sum) => sum.map_or(Datum::Null, Datum::Float),
            Self::Percentile(is_continuous, percentile) => percentile.finish(*is_continuous)?,
            Self::Mode(mode) => mode.finish(),
            Self::Hypothetical(row) => row.finish(),
            Self::Ranges(_, to, spans) => match spans.take() {
                Some(spans) => ranges::value(*to, &ranges::normalized(spans)),
                None => Datum::Null,
            },
            Self::Common(ty, spans) => spans.take().map_or(Datum::Null, |spans| ranges::value(*ty, &spans)),
            Self::Pairs(figure, sums) => sums.finish(*figure),
            Self::SumReal(sum) => sum.map_or(Datum::Null, |sum| Datum::Float(f64::from(sum))),
            Self::Floats(spread, moments) => moments.finish(*spread),
            Self::Ints(spread, sums) => {
                let (count, sum, squares) = **sums;
                exact_spread(*spread, count, &Numeric::from(sum), &Numeric::from(squares))?
            }
            Self::Numerics(spread, sums) => {
                let (count, sum, squares) = &**sums;
                exact_spread(*spread, *count, sum, squares)?
            }
            Self::SumInterval(sum) => sum.map_or(Datum::Null, Datum::Interval),
            Self::AvgInterval(sum, count) => Datum::Interval(sum.div(*count as f64)?),
            Self::Min(value) | Self::Max(value) | Self::First(value) => std::mem::take(value),
            Self::And(value) | Self::Or(value) => truth(value),
            Self::Bits(_, _, bits) => bits.take().map_or(Datum::Null, Datum::Bytes),
            Self::Text(text) => text.take().map_or(Datum::Null, |text| Datum::Text(text.into())),
            Self::Bytes(bytes) => bytes.take().map_or(Datum::Null, |bytes| Datum::Bytes(bytes.into())),
            Self::Json(form, out) => match out.take() {
                Some(mut out) => {
                    out.push_str(if *form == JsonForm::Array { "]" } else { " }" });
                    Datum::Text(out.into())
                }
                None => Datum::Null,
            },
            Self::Jsonb(form, values) => match values.take() {
                Some(values) => finish_jsonb(*form, &values)?,
                None => Datum::Null,
            },
            // The binder casts it to the type of array that it is.
            Self::Array(values) => match values.take() {
                Some(values) if values.iter().any(|value| matches!(value, Datum::Array(_))) => {
                    let is_empty = |value: &Datum| matches!(value, Datum::Array(array) if array.values().is_empty());
                    if values.iter().any(Datum::is_null) {
                        return Err(Error::new(SqlState::NULL_NOT_ALLOWED, "cannot accumulate null arrays"));
                    }
                    if values.iter().any(is_empty) {
                        return Err(Error::new(SqlState("2202E"), "cannot accumulate empty arrays"));
                    }
                    Datum::Array(std::sync::Arc::new(Array::of_values(Type::Unknown, values)?))
                }
                Some(values) => Datum::Array(std::sync::Arc::new(Array::of_values(Type::Unknown, values)?)),
                None => Datum::Null,
            },
        })
    }

    /// Bytes that it holds besides its own size, for limits of memory.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Text(Some(text)) => text.capacity(),
            Self::Bits(_, _, Some(bits)) => bits.len(),
            Self::Bytes(Some(bytes)) => bytes.capacity(),
            Self::Json(_, Some(text)) => text.capacity(),
            Self::Jsonb(_, Some(values)) => {
                let bytes = |(key, value): &(Option<String>, Datum)| {
                    key.as_ref().map_or(0, String::len) + if let Datum::Jsonb(bytes) = value { bytes.len() } else { 0 }
                };
                values.capacity() * size_of::<(Option<String>, Datum)>() + values.iter().map(bytes).sum::<usize>()
            }
            Self::Array(Some(values)) => values.capacity() * size_of::<Datum>(),
            Self::Ranges(_, _, Some(spans)) | Self::Common(_, Some(spans)) => spans.capacity() * size_of::<Span>(),
            Self::Percentile(_, percentile) => percentile.heap_bytes(),
            Self::Mode(_) => size_of::<ordered::Mode>(),
            Self::Hypothetical(_) => size_of::<ordered::Hypothetical>(),
            Self::Pairs(..) => size_of::<pairs::Sums>(),
            Self::Min(value) | Self::Max(value) | Self::First(value) => match value {
                Datum::Text(text) | Datum::Citext(text) if text.is_heap_allocated() => text.capacity(),
                Datum::Bytes(bytes) | Datum::Query(bytes) | Datum::Range(bytes) => bytes.len(),
                Datum::Numeric(value) => value.heap_bytes(),
                _ => 0,
            },
            Self::Ints(..) => size_of::<(i64, i128, i128)>(),
            Self::Numerics(_, sums) => size_of_val(&**sums) + sums.1.heap_bytes() + sums.2.heap_bytes(),
            Self::SumNumeric(sum, _) | Self::AvgNumeric(sum, _) => sum.heap_bytes(),
            _ => 0,
        }
    }
}

/// A value's type, from its number behind the arguments.
fn type_at(args: &[&Datum], at: usize) -> Type {
    match args.get(at) {
        Some(Datum::Int(oid)) => Type::from_code(*oid as u32).unwrap_or(Type::Text),
        _ => Type::Text,
    }
}

/// A value with its type.
type Typed<'a> = (Type, &'a Datum);

/// The key, if there is one, and the value that a row gives an aggregate of JSON.
fn json_parts<'a>(form: JsonForm, args: &[&'a Datum]) -> Result<(Option<Typed<'a>>, Typed<'a>)> {
    match (form, args) {
        (JsonForm::Array, [value, _]) => Ok((None, (type_at(args, 1), value))),
        (JsonForm::Object, [Datum::Null, ..]) => {
            Err(Error::new(SqlState::BAD_PARAMETER, "field name must not be null"))
        }
        (JsonForm::Object, [key, value, _, _]) => Ok((Some((type_at(args, 2), key)), (type_at(args, 3), value))),
        _ => Err(Error::internal("an aggregate of JSON without types")),
    }
}

fn add_json(form: JsonForm, out: &mut Option<String>, args: &[&Datum], env: &Env) -> Result<()> {
    let (key, (ty, value)) = json_parts(form, args)?;
    let is_first = out.is_none();
    let out = out.get_or_insert_with(|| if form == JsonForm::Array { "[".into() } else { "{ ".into() });
    if !is_first {
        out.push_str(", ");
        // Rows and arrays begin lines of their own.
        if form == JsonForm::Array && matches!(value, Datum::Row(_) | Datum::Array(_)) {
            out.push_str("\n ");
        }
    }
    if let Some((ty, key)) = key {
        json_text::write_quoted(&json_key_of(ty, key, env)?, out)?;
        out.push_str(" : ");
    }
    write_json(ty, value, env, out)
}

type Members = Vec<(Option<String>, Datum)>;

fn add_jsonb(form: JsonForm, values: &mut Option<Members>, args: &[&Datum], env: &Env) -> Result<()> {
    let (key, (ty, value)) = json_parts(form, args)?;
    let key = key.map(|(ty, key)| json_key_of(ty, key, env)).transpose()?;
    let value = match value {
        Datum::Jsonb(_) => value.clone(),
        value => json_item(ty, value, env)?.datum()?,
    };
    values.get_or_insert_default().push((key, value));
    Ok(())
}

fn finish_jsonb(form: JsonForm, values: &Members) -> Result<Datum> {
    let parts = values.iter().map(|(key, value)| Ok::<_, Error>((key.as_deref(), Item::Part(document(value)?))));
    match form {
        JsonForm::Array => Item::Array(parts.map(|part| Ok(part?.1)).collect::<Result<_>>()?).datum(),
        JsonForm::Object => {
            let mut members = Vec::with_capacity(values.len());
            for part in parts {
                let (key, value) = part?;
                members.push((key.unwrap_or_default().into(), value));
            }
            Item::Object(members).datum()
        }
    }
}

/// Variance or deviation from exact sums: (n Σx² - (Σx)²) / n², or / n (n - 1).
fn exact_spread(spread: Spread, count: i64, sum: &Numeric, squares: &Numeric) -> Result<Datum> {
    if count == 0 || (count == 1 && spread.is_sample()) {
        return Ok(Datum::Null);
    }
    if !sum.is_finite() {
        return Ok(Datum::Numeric(Numeric::NAN));
    }
    let n = Numeric::from(count);
    let numerator = n.mul_unbounded(squares)?.add_unbounded(&sum.mul_unbounded(sum)?.negate())?;
    if numerator.signum() <= 0 {
        return Ok(Datum::Numeric(Numeric::ZERO));
    }
    let divisor = n.mul(&Numeric::from(if spread.is_sample() { count - 1 } else { count }))?;
    let variance = numerator.div(&divisor)?;
    Ok(Datum::Numeric(if spread.is_deviation() {
        variance.sqrt_to_scale(u32::from(variance.scale()))?
    } else {
        variance
    }))
}

/// The first value of a group that is not NULL, of any type. No statement can call it: it is what
/// becomes of a key of groups in which all rows have the same value.
pub static FIRST: Aggregate = a("first", &[Type::AnyElement], Type::AnyElement, || State::First(Datum::Null));

/// `min` of values that have the type of the argument: enums and arrays.
pub static MIN_OF_ANY: Aggregate = a("min", &[Type::Void], Type::AnyElement, || State::Min(Datum::Null));

/// `max` of the same.
pub static MAX_OF_ANY: Aggregate = a("max", &[Type::Void], Type::AnyElement, || State::Max(Datum::Null));

const fn a(name: &'static str, args: &'static [Type], result: Type, start: fn() -> State) -> Aggregate {
    Aggregate { name, args, result, start }
}

macro_rules! spread {
    ($name:literal, $spread:ident) => {
        &[
            a($name, &[Type::Int2], Type::Numeric, || State::Ints(Spread::$spread, Box::default())),
            a($name, &[Type::Int4], Type::Numeric, || State::Ints(Spread::$spread, Box::default())),
            a($name, &[Type::Int8], Type::Numeric, || State::Ints(Spread::$spread, Box::default())),
            a($name, &[Type::Numeric], Type::Numeric, || {
                State::Numerics(Spread::$spread, Box::new((0, Numeric::ZERO, Numeric::ZERO)))
            }),
            a($name, &[Type::Float4], Type::Float8, || State::Floats(Spread::$spread, Moments::default())),
            a($name, &[Type::Float8], Type::Float8, || State::Floats(Spread::$spread, Moments::default())),
        ]
    };
}

macro_rules! of_pairs {
    ($name:literal, $result:ident, $figure:ident) => {
        const {
            &[a($name, &[Type::Float8, Type::Float8], Type::$result, || {
                State::Pairs(Figure::$figure, Box::default())
            })]
        }
    };
}

macro_rules! ordered {
    ($name:literal, $variant:ident, $($ty:ident)*) => {
        &[$(a($name, &[Type::$ty], Type::$ty, || State::$variant(Datum::Null))),*]
    };
}

macro_rules! of_ints {
    ($name:literal, $variant:ident, $operation:expr, $done:literal) => {
        &[
            a($name, &[Type::Bit], Type::Bit, || State::Bits($operation, $done, None)),
            a($name, &[Type::Int2], Type::Int2, || State::$variant(None)),
            a($name, &[Type::Int4], Type::Int4, || State::$variant(None)),
            a($name, &[Type::Int8], Type::Int8, || State::$variant(None)),
        ]
    };
}

macro_rules! of_ranges {
    ($variant:ident: $($range:ident $multirange:ident),*) => {
        const { &[$(of_ranges!($variant $range $multirange), of_ranges!($variant $multirange $multirange)),*] }
    };
    (Ranges $from:ident $multirange:ident) => {
        a("range_agg", &[Type::$from], Type::$multirange, || State::Ranges(Type::$from, Type::$multirange, None))
    };
    (Common $from:ident $multirange:ident) => {
        a("range_intersect_agg", &[Type::$from], Type::$from, || State::Common(Type::$from, None))
    };
}

/// The names of all aggregates.
pub const NAMES: &[&str] = &[
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "every",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_object_agg",
    "max",
    "min",
    "range_agg",
    "range_intersect_agg",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
    "xmlagg",
];

/// All aggregates of a name, which is in lower case.
#[must_use]
pub fn named(name: &str) -> &'static [Aggregate] {
    match name {
        // The type void takes any.
        "count" => {
            const {
                &[
                    a("count", &[], Type::Int8, || State::CountRows(0)),
                    a("count", &[Type::Void], Type::Int8, || State::Count(0)),
                ]
            }
        }
        "sum" => {
            const {
                &[
                    a("sum", &[Type::Int2], Type::Int8, || State::SumInt(None)),
                    a("sum", &[Type::Int4], Type::Int8, || State::SumInt(None)),
                    a("sum", &[Type::Int8], Type::Numeric, || State::SumBigint(0, false)),
                    a("sum", &[Type::Numeric], Type::Numeric, || State::SumNumeric(Numeric::ZERO, false)),
                    a("sum", &[Type::Money], Type::Money, || State::SumInt(None)),
                    a("sum", &[Type::Float4], Type::Float4, || State::SumReal(None)),
                    a("sum", &[Type::Float8], Type::Float8, || State::SumFloat(None)),
                    a("sum", &[Type::Interval], Type::Interval, || State::SumInterval(None)),
                    a("sum", &[Type::Vector], Type::Vector, || State::Vectors(false, Vec::new(), 0)),
                ]
            }
        }
        "avg" => {
            const {
                &[
                    a("avg", &[Type::Int2], Type::Numeric, || State::AvgInt(0, 0)),
                    a("avg", &[Type::Int4], Type::Numeric, || State::AvgInt(0, 0)),
                    a("avg", &[Type::Int8], Type::Numeric, || State::AvgInt(0, 0)),
                    a("avg", &[Type::Numeric], Type::Numeric, || State::AvgNumeric(Numeric::ZERO, 0)),
                    a("avg", &[Type::Float4], Type::Float8, || State::Floats(Spread::Mean, Moments::default())),
                    a("avg", &[Type::Float8], Type::Float8, || State::Floats(Spread::Mean, Moments::default())),
                    a("avg", &[Type::Interval], Type::Interval, || State::AvgInterval(Interval::default(), 0)),
                    a("avg", &[Type::Vector], Type::Vector, || State::Vectors(true, Vec::new(), 0)),
                ]
            }
        }
        "min" => {
            const {
                ordered!("min", Min, Int2 Int4 Int8 Float4 Float8 Numeric Oid Text Char Date Time TimeTz Timestamp TimestampTz Interval Inet Money Tid Xid8 PgLsn Citext)
            }
        }
        "max" => {
            const {
                ordered!("max", Max, Int2 Int4 Int8 Float4 Float8 Numeric Oid Text Char Date Time TimeTz Timestamp TimestampTz Interval Inet Money Tid Xid8 PgLsn Citext)
            }
        }
        "bool_and" => const { &[a("bool_and", &[Type::Bool], Type::Bool, || State::And(None))] },
        "every" => const { &[a("every", &[Type::Bool], Type::Bool, || State::And(None))] },
        "bool_or" => const { &[a("bool_or", &[Type::Bool], Type::Bool, || State::Or(None))] },
        "bit_and" => const { of_ints!("bit_and", BitAnd, |a, b| a & b, "AND") },
        "bit_or" => const { of_ints!("bit_or", BitOr, |a, b| a | b, "OR") },
        "bit_xor" => const { of_ints!("bit_xor", BitXor, |a, b| a ^ b, "XOR") },
        "string_agg" => {
            const {
                &[
                    a("string_agg", &[Type::Text, Type::Text], Type::Text, || State::Text(None)),
                    a("string_agg", &[Type::Bytea, Type::Bytea], Type::Bytea, || State::Bytes(None)),
                ]
            }
        }
        "xmlagg" => const { &[a("xmlagg", &[Type::Xml], Type::Xml, || State::Text(None))] },
        "array_agg" => const { &[a("array_agg", &[Type::Void], Type::AnyArray, || State::Array(None))] },
        "json_agg" => const { &[a("json_agg", &[Type::Void], Type::Json, || State::Json(JsonForm::Array, None))] },
        "jsonb_agg" => const { &[a("jsonb_agg", &[Type::Void], Type::Jsonb, || State::Jsonb(JsonForm::Array, None))] },
        "json_object_agg" => {
            const { &[a("json_object_agg", &[Type::Void, Type::Void], Type::Json, || State::Json(JsonForm::Object, None))] }
        }
        "jsonb_object_agg" => {
            const {
                &[a("jsonb_object_agg", &[Type::Void, Type::Void], Type::Jsonb, || {
                    State::Jsonb(JsonForm::Object, None)
                })]
            }
        }
        "var_pop" => const { spread!("var_pop", PopulationVariance) },
        "var_samp" => const { spread!("var_samp", SampleVariance) },
        "variance" => const { spread!("variance", SampleVariance) },
        "stddev_pop" => const { spread!("stddev_pop", PopulationDeviation) },
        "stddev_samp" => const { spread!("stddev_samp", SampleDeviation) },
        "stddev" => const { spread!("stddev", SampleDeviation) },
        "range_agg" => {
            of_ranges!(Ranges: Int4Range Int4Multirange, Int8Range Int8Multirange, NumRange NumMultirange, DateRange DateMultirange, TsRange TsMultirange, TsTzRange TsTzMultirange)
        }
        "range_intersect_agg" => {
            of_ranges!(Common: Int4Range Int4Multirange, Int8Range Int8Multirange, NumRange NumMultirange, DateRange DateMultirange, TsRange TsMultirange, TsTzRange TsTzMultirange)
        }
        "corr" => of_pairs!("corr", Float8, Correlation),
        "covar_pop" => of_pairs!("covar_pop", Float8, PopulationCovariance),
        "covar_samp" => of_pairs!("covar_samp", Float8, SampleCovariance),
        "regr_avgx" => of_pairs!("regr_avgx", Float8, MeanOfX),
        "regr_avgy" => of_pairs!("regr_avgy", Float8, MeanOfY),
        "regr_count" => of_pairs!("regr_count", Int8, Count),
        "regr_intercept" => of_pairs!("regr_intercept", Float8, Intercept),
        "regr_r2" => of_pairs!("regr_r2", Float8, Determination),
        "regr_slope" => of_pairs!("regr_slope", Float8, Slope),
        "regr_sxx" => of_pairs!("regr_sxx", Float8, SquaresOfX),
        "regr_sxy" => of_pairs!("regr_sxy", Float8, Products),
        "regr_syy" => of_pairs!("regr_syy", Float8, SquaresOfY),
        _ => &[],
    }
}

/// Whether a value takes the place of the one that `min` or `max` had. Of equal ones that look
/// different (`1.5` and `1.50`, `0` and `-0`) the last one stays, as in PostgreSQL.
fn takes_over(ordering: Ordering, wanted: Ordering, value: &Datum) -> bool {
    ordering == wanted
        || (ordering == Ordering::Equal && matches!(value, Datum::Float(_) | Datum::Numeric(_) | Datum::Interval(_)))
}

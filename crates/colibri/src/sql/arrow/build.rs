//! Columns of Arrow from rows: one growing set of buffers for each column.
//!
//! Invariant: after each row every column has one more value, so `len` is the same for all; a
//! column's validity has a bit for each value, and its offsets, if it has any, one more number than
//! values.

use colibri_sql::{ColumnType, Datum, Env, SqlState, Type};

use super::super::running::RowBlock;
use super::super::{Column, Error, Result};

/// Days and microseconds from Arrow's epoch, 1970-01-01, to PostgreSQL's, 2000-01-01.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400_000_000;
/// The most digits of a decimal of 128 bits.
const DECIMAL_DIGITS_MAX: u16 = 38;

/// Memory of a column, aligned as its values need.
pub(super) enum Buffer {
    Bytes(Vec<u8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    I128(Vec<i128>),
    /// Months, days, nanoseconds.
    Intervals(Vec<MonthDayNano>),
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct MonthDayNano {
    months: i32,
    days: i32,
    nanos: i64,
}

/// The description of a column.
pub(super) struct Field {
    pub(super) name: String,
    /// Arrow's format string.
    pub(super) format: String,
    /// Key and value pairs of its metadata.
    pub(super) metadata: Vec<(&'static str, String)>,
    pub(super) children: Vec<Self>,
}

/// The values of a column, or of a whole batch.
pub(super) struct Values {
    pub(super) len: usize,
    pub(super) null_count: usize,
    /// As Arrow orders them; the first is the validity, `None` if nothing is NULL.
    pub(super) buffers: Vec<Option<Buffer>>,
    pub(super) children: Vec<Self>,
}

/// How values of a type lie in Arrow.
#[derive(Clone, Copy)]
enum Layout {
    Bool,
    I16,
    I32,
    I64,
    Oid,
    F32,
    F64,
    Decimal { precision: u16, scale: i16 },
    Text,
    Json,
    Bytes,
    Date,
    Time,
    Timestamp { has_zone: bool },
    Interval,
    Uuid,
    List(Type),
}

impl Layout {
    fn of(ty: ColumnType) -> Self {
        match ty.ty {
            Type::Bool => Self::Bool,
            Type::Int2 => Self::I16,
            Type::Int4 => Self::I32,
            Type::Int8 => Self::I64,
            Type::Oid => Self::Oid,
            Type::Float4 => Self::F32,
            Type::Float8 => Self::F64,
            Type::Numeric => match ty.modifier.precision_scale() {
                Some((precision, scale)) if precision <= DECIMAL_DIGITS_MAX && scale >= 0 => {
                    Self::Decimal { precision, scale }
                }
                _ => Self::Text,
            },
            Type::Json | Type::Jsonb => Self::Json,
            Type::Bytea => Self::Bytes,
            Type::Date => Self::Date,
            Type::Time => Self::Time,
            Type::Timestamp => Self::Timestamp { has_zone: false },
            Type::TimestampTz => Self::Timestamp { has_zone: true },
            Type::Interval => Self::Interval,
            Type::Uuid => Self::Uuid,
            Type::Array(element) => Self::List(element.ty()),
            _ => Self::Text,
        }
    }

    fn format(self) -> String {
        match self {
            Self::Bool => "b",
            Self::I16 => "s",
            Self::I32 => "i",
            Self::I64 => "l",
            Self::Oid => "I",
            Self::F32 => "f",
            Self::F64 => "g",
            Self::Decimal { precision, scale } => return format!("d:{precision},{scale}"),
            Self::Text | Self::Json => "u",
            Self::Bytes => "z",
            Self::Date => "tdD",
            Self::Time => "ttu",
            Self::Timestamp { has_zone: false } => "tsu:",
            Self::Timestamp { has_zone: true } => "tsu:UTC",
            Self::Interval => "tin",
            Self::Uuid => "w:16",
            Self::List(_) => "+l",
        }
        .to_owned()
    }

    fn field(self, name: &str) -> Field {
        let extension = match self {
            Self::Json => Some("arrow.json"),
            Self::Uuid => Some("arrow.uuid"),
            _ => None,
        };
        let metadata = match extension {
            Some(extension) => {
                vec![("ARROW:extension:name", extension.to_owned()), ("ARROW:extension:metadata", String::new())]
            }
            None => Vec::new(),
        };
        let children = match self {
            Self::List(element) => vec![Self::of(element.into()).field("item")],
            _ => Vec::new(),
        };
        Field { name: name.to_owned(), format: self.format(), metadata, children }
    }
}

/// The description of a batch of rows.
pub(super) fn schema(columns: &[Column]) -> Field {
    let children = columns.iter().map(|column| Layout::of(column.column.ty).field(column.name())).collect();
    Field { name: String::new(), format: "+s".to_owned(), metadata: Vec::new(), children }
}

/// A column that grows.
struct Building {
    ty: ColumnType,
    layout: Layout,
    len: usize,
    null_count: usize,
    validity: Vec<u8>,
    /// The fixed part: values, or bits of booleans.
    fixed: Buffer,
    /// Ends of texts, bytes and lists.
    offsets: Vec<i32>,
    /// What lists hold.
    inner: Option<Box<Self>>,
}

/// Appends bit number `at`.
fn push_bit(bits: &mut Vec<u8>, at: usize, bit: bool) {
    if at.is_multiple_of(8) {
        bits.push(0);
    }
    if let (true, Some(last)) = (bit, bits.last_mut()) {
        *last |= 1 << (at % 8);
    }
}

impl Building {
    fn new(ty: ColumnType) -> Self {
        let layout = Layout::of(ty);
        let fixed = match layout {
            Layout::I16 => Buffer::I16(Vec::new()),
            Layout::I32 | Layout::Date => Buffer::I32(Vec::new()),
            Layout::I64 | Layout::Time | Layout::Timestamp { .. } => Buffer::I64(Vec::new()),
            Layout::Oid => Buffer::U32(Vec::new()),
            Layout::F32 => Buffer::F32(Vec::new()),
            Layout::F64 => Buffer::F64(Vec::new()),
            Layout::Decimal { .. } => Buffer::I128(Vec::new()),
            Layout::Interval => Buffer::Intervals(Vec::new()),
            Layout::Bool | Layout::Text | Layout::Json | Layout::Bytes | Layout::Uuid | Layout::List(_) => {
                Buffer::Bytes(Vec::new())
            }
        };
        let has_offsets = matches!(layout, Layout::Text | Layout::Json | Layout::Bytes | Layout::List(_));
        let inner = match layout {
            Layout::List(element) => Some(Box::new(Self::new(element.into()))),
            _ => None,
        };
        let offsets = if has_offsets { vec![0] } else { Vec::new() };
        Self { ty, layout, len: 0, null_count: 0, validity: Vec::new(), fixed, offsets, inner }
    }

    /// Appends a value. After an error the column is not usable.
    fn push(&mut self, value: &Datum, env: &Env) -> Result<()> {
        let at = self.len;
        let is_null = matches!(value, Datum::Null);
        push_bit(&mut self.validity, at, !is_null);
        self.null_count += usize::from(is_null);
        self.len += 1;
        match &mut self.fixed {
            Buffer::I16(values) => values.push(int(value) as i16),
            Buffer::U32(values) => values.push(int(value) as u32),
            Buffer::F32(values) => values.push(float(value) as f32),
            Buffer::F64(values) => values.push(float(value)),
            Buffer::I32(values) => values.push(match value {
                Datum::Date(days) => arrow_days(*days)?,
                other => int(other) as i32,
            }),
            Buffer::I64(values) => values.push(match value {
                Datum::Timestamp(micros) => arrow_micros(*micros)?,
                Datum::Time(micros) => *micros,
                other => int(other),
            }),
            Buffer::I128(values) => values.push(decimal(value, self.layout)?),
            Buffer::Intervals(values) => values.push(interval(value)?),
            Buffer::Bytes(bytes) => match (self.layout, value) {
                (Layout::Bool, value) => push_bit(bytes, at, matches!(value, Datum::Bool(true))),
                (Layout::Uuid, Datum::Uuid(uuid)) => bytes.extend_from_slice(uuid),
                (Layout::Uuid, _) => bytes.extend_from_slice(&[0; 16]),
                (Layout::List(_), value) => {
                    let inner = self.inner.as_mut().expect("lists have a column for what they hold");
                    if let Datum::Array(array) = value {
                        if array.dimensions().len() > 1 {
                            return Err(several_dimensions());
                        }
                        array.values().iter().try_for_each(|value| inner.push(value, env))?;
                    }
                    self.offsets.push(offset(inner.len)?);
                }
                (_, Datum::Null) => self.offsets.push(offset(bytes.len())?),
                (Layout::Bytes, Datum::Bytes(value)) => {
                    bytes.extend_from_slice(value);
                    self.offsets.push(offset(bytes.len())?);
                }
                _ => {
                    let format = colibri_sql::wire::Format::Text;
                    colibri_sql::wire::write(self.ty, format, value, env, &mut String::new(), bytes);
                    self.offsets.push(offset(bytes.len())?);
                }
            },
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let fixed = match &self.fixed {
            Buffer::Bytes(values) => values.len(),
            Buffer::I16(values) => 2 * values.len(),
            Buffer::I32(values) => 4 * values.len(),
            Buffer::U32(values) => 4 * values.len(),
            Buffer::F32(values) => 4 * values.len(),
            Buffer::I64(values) => 8 * values.len(),
            Buffer::F64(values) => 8 * values.len(),
            Buffer::I128(values) => 16 * values.len(),
            Buffer::Intervals(values) => 16 * values.len(),
        };
        fixed + self.inner.as_ref().map_or(0, |inner| inner.bytes())
    }

    fn finish(self) -> Values {
        let validity = (self.null_count > 0).then_some(Buffer::Bytes(self.validity));
        let offsets = Some(Buffer::I32(self.offsets));
        let buffers = match self.layout {
            Layout::List(_) => vec![validity, offsets],
            Layout::Text | Layout::Json | Layout::Bytes => vec![validity, offsets, Some(self.fixed)],
            _ => vec![validity, Some(self.fixed)],
        };
        let children = self.inner.map(|inner| inner.finish()).into_iter().collect();
        Values { len: self.len, null_count: self.null_count, buffers, children }
    }
}

/// A batch of rows that grows.
pub(super) struct Batch {
    columns: Vec<Building>,
    rows: usize,
}

impl Batch {
    pub(super) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.iter().map(|column| Building::new(column.column.ty)).collect(), rows: 0 }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn bytes(&self) -> usize {
        self.columns.iter().map(Building::bytes).sum()
    }

    pub(super) fn append(&mut self, block: &RowBlock, env: &Env) -> Result<()> {
        for (place, column) in self.columns.iter_mut().enumerate() {
            // Labels of an enum may have been added meanwhile.
            column.ty = block.columns()[place].column.ty;
            for row in 0..block.len() {
                let datum = block.datum(row, place).expect("rows have all columns");
                column.push(datum, env).map_err(|error| {
                    error.within(format!("column \"{}\" as a column of Arrow", block.columns()[place].name()))
                })?;
            }
        }
        self.rows += block.len();
        Ok(())
    }

    pub(super) fn finish(self) -> Values {
        let children = self.columns.into_iter().map(Building::finish).collect();
        Values { len: self.rows, null_count: 0, buffers: vec![None], children }
    }
}

fn int(value: &Datum) -> i64 {
    if let Datum::Int(value) = value { *value } else { 0 }
}

fn float(value: &Datum) -> f64 {
    if let Datum::Float(value) = value { *value } else { 0.0 }
}

fn offset(bytes: usize) -> Result<i32> {
    i32::try_from(bytes).map_err(|_| Error::new(SqlState::PROGRAM_LIMIT, "a batch of rows is larger than 2 GB"))
}

fn several_dimensions() -> Error {
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, "an array of several dimensions is no list of Arrow")
        .hint("Cast the column to text.")
}

fn infinite() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "infinity is no date of Arrow").hint("Cast the column to text.")
}

fn arrow_days(days: i32) -> Result<i32> {
    if days == i32::MIN || days == i32::MAX { Err(infinite()) } else { Ok(days + EPOCH_DAYS) }
}

fn arrow_micros(micros: i64) -> Result<i64> {
    if micros == i64::MIN || micros == i64::MAX { Err(infinite()) } else { Ok(micros + EPOCH_US) }
}

fn interval(value: &Datum) -> Result<MonthDayNano> {
    let Datum::Interval(value) = value else { return Ok(MonthDayNano::default()) };
    let nanos = value.micros.checked_mul(1_000).ok_or_else(|| {
        Error::new(SqlState::DATETIME_OVERFLOW, "the interval has more nanoseconds than an interval of Arrow")
    })?;
    Ok(MonthDayNano { months: value.months, days: value.days, nanos })
}

fn decimal(value: &Datum, layout: Layout) -> Result<i128> {
    let (Datum::Numeric(value), Layout::Decimal { precision, scale }) = (value, layout) else { return Ok(0) };
    let unfit = || Error::new(SqlState::OUT_OF_RANGE, "the number is no decimal of Arrow").hint("Cast it to text.");
    let value = value.clone().with_precision(precision, scale)?;
    if !value.is_finite() {
        return Err(unfit());
    }
    if let Some((mantissa, digits)) = value.small() {
        let missing = u32::try_from(i32::from(scale) - i32::from(digits)).map_err(|_| unfit())?;
        return 10_i128.checked_pow(missing).and_then(|by| mantissa.checked_mul(by)).ok_or_else(unfit);
    }
    // A number of more digits than the engine's short form has.
    let mut text = String::new();
    value.write(&mut text);
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    format!("{whole}{fraction:0<width$}", width = usize::from(scale.unsigned_abs())).parse().map_err(|_| unfit())
}

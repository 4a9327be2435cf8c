//! Rows: the values of a table's columns as bytes that can be read in place, a column at a time.
//!
//! ```text
//! 0            2                       fixed_start          ends_start
//! | generation | bits: wide, NULLs ... | fixed-width values | ends of the others | the others' bytes |
//! ```
//! - generation: u16, the number of the table's layout that the row was written with. Its highest
//!   bit says that some of the row's values are compressed: the highest bit of such a value's end is
//!   set, and its bytes are those of `compression`.
//! - bits: bit 0 says that the ends are u32 (else u16); bit 1 + i that column i is NULL.
//! - fixed-width values are at constant offsets, little-endian, NULL or not: bool 1 byte, smallint
//!   2, integer, oid, date and real 4, bigint, enums, double, time and timestamps 8, time with
//!   time zone (microseconds, seconds west of Greenwich) 12, uuid and interval 16.
//! - the others (text, bytea, numeric, arrays) are one after the other; an end counts from the
//!   first one's beginning. The last end is the end of the row.
//! - numeric: a byte of scale, its highest bit set if negative, then the digits as a big-endian
//!   integer without leading zero bytes. Instead of the scale, 7F says that the stored form of a
//!   large one follows, see `numeric::bytes`.
//! - citext: the text as it was written; hstore: see `hstore`.
//! - an array: PostgreSQL's binary format of it, see `array`; of enums, that of bigints.
//! - jsonb and ranges: as they are in memory, see `jsonb` and `ranges`.
//! - a row of a composite type: see `composite_values`; arrays of such hold the same for each value.
//!
//! Invariants: bytes of NULL columns are zero or empty, so equal values have equal bytes where
//! neither is compressed. A row without compressed values has the bytes that it has in a table
//! without compression. ON DISK: none of this may change; a new layout is a new kind of generation.

use colibri_types::{
    Array, CompositeType, Datum, Error, Interval, Numeric, Result, SqlState, Type, composite_values,
    datetime::TimeTz,
    interval::DAY_US,
    numeric::{LARGE_SCALE, SMALL_SCALE_MAX},
};
use compact_str::CompactString;
use smallvec::SmallVec;

mod columns;
mod compression;

pub use compression::{COMPRESSED_BYTES_MIN, Compression};

/// Bytes before the bits.
const HEADER_BYTES: usize = 2;
/// The bit of a generation that says that some values of the row are compressed.
const COMPRESSED: u16 = 1 << 15;
/// The bit of an end, in such a row, that says that the value is compressed.
const END_COMPRESSED: u16 = 1 << 15;
/// The same of a wide end.
const WIDE_END_COMPRESSED: u32 = 1 << 31;

/// How a column's bytes are to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Bool,
    Int2,
    Int4,
    Oid,
    Int8,
    Float4,
    Float8,
    Date,
    Time,
    Timestamp,
    Interval,
    Uuid,
    TimeTz,
    Text,
    Bytes,
    Numeric,
    /// If of a type that a user has defined, of which one.
    Array(Option<Type>),
    Row(CompositeType),
    Jsonb,
    Query,
    Range,
    Citext,
}

impl Form {
    fn of(ty: Type) -> Self {
        match ty.base() {
            Type::Bool => Self::Bool,
            Type::Int2 => Self::Int2,
            Type::Int4 => Self::Int4,
            Type::Oid => Self::Oid,
            Type::Int8 => Self::Int8,
            Type::Float4 => Self::Float4,
            Type::Float8 => Self::Float8,
            Type::Date => Self::Date,
            Type::Time => Self::Time,
            Type::TimeTz => Self::TimeTz,
            Type::Timestamp | Type::TimestampTz => Self::Timestamp,
            Type::Interval => Self::Interval,
            Type::Uuid => Self::Uuid,
            Type::Bytea => Self::Bytes,
            Type::Numeric => Self::Numeric,
            Type::Jsonb => Self::Jsonb,
            Type::TsQuery => Self::Query,
            Type::Citext => Self::Citext,
            ty if ty.bounds().is_some() => Self::Range,
            Type::Composite(of) => Self::Row(of),
            ty if ty.is_array() => Self::Array(ty.of_user()),
            _ => Self::Text,
        }
    }

    /// Bytes of a value; `None` if they vary.
    fn width(self) -> Option<usize> {
        match self {
            Self::Bool => Some(1),
            Self::Int2 => Some(2),
            Self::Int4 | Self::Oid | Self::Float4 | Self::Date => Some(4),
            Self::Int8 | Self::Float8 | Self::Time | Self::Timestamp => Some(8),
            Self::TimeTz => Some(12),
            Self::Interval | Self::Uuid => Some(16),
            Self::Text
            | Self::Bytes
            | Self::Numeric
            | Self::Array(_)
            | Self::Jsonb
            | Self::Query
            | Self::Range
            | Self::Citext
            | Self::Row(_) => None,
        }
    }
}

/// Memory of this size is used again for a text of any length that fits.
const TEXT_BYTES_REUSED: usize = 256;

/// Where a column is.
#[derive(Debug, Clone, Copy)]
struct Slot {
    form: Form,
    /// Of fixed width: the offset in the row. Else: which of the others it is.
    place: u32,
}

/// How the rows of a table are laid out.
#[derive(Debug, Clone)]
pub struct RowFormat {
    generation: u16,
    slots: Box<[Slot]>,
    /// The columns whose width varies, in order.
    varying: Box<[u32]>,
    ends_start: usize,
    /// Of each of these whether its values are compressed when they are written; empty if none are.
    compressed: Box<[bool]>,
}

#[cold]
fn malformed(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("malformed row: {what}"))
}

/// A column's value where it lies in a row. No memory is taken for it, and a text is not checked.
#[derive(Debug)]
pub enum Peeked<'row> {
    /// NULL.
    Null,
    /// A boolean.
    Bool(bool),
    /// Of an integer, an object number, a date, a time or a timestamp: what its [`Datum`] holds.
    Int(i64),
    /// A numeric.
    Numeric(Numeric),
    /// Of a text, a bytea or a uuid.
    Bytes(&'row [u8]),
    /// Of another type.
    Other,
}

/// A row's parts, found and checked once.
#[derive(Clone, Copy)]
struct Parts<'row> {
    row: &'row [u8],
    /// Where the varying columns' bytes begin.
    varying_start: usize,
    wide: bool,
    /// Some of the values are compressed.
    compressed: bool,
}

/// What was written of a column.
enum Written {
    Null,
    Value,
    Compressed,
}

impl Written {
    fn new(is_there: bool) -> Self {
        if is_there { Self::Value } else { Self::Null }
    }
}

impl RowFormat {
    /// The format of rows with columns of these types, in this order.
    #[must_use]
    pub fn new(generation: u16, columns: &[Type]) -> Self {
        let mut offset = HEADER_BYTES + (columns.len() + 1).div_ceil(8);
        let mut varying = Vec::new();
        let slots = columns
            .iter()
            .enumerate()
            .map(|(column, &ty)| {
                let form = Form::of(ty);
                let place = match form.width() {
                    Some(width) => {
                        offset += width;
                        offset - width
                    }
                    None => {
                        varying.push(column as u32);
                        varying.len() - 1
                    }
                };
                Slot { form, place: place as u32 }
            })
            .collect();
        debug_assert!(generation < COMPRESSED, "a table has at most 1600 columns, and fewer layouts than 32768");
        Self { generation, slots, varying: varying.into(), ends_start: offset, compressed: Box::default() }
    }

    /// The same format, but for the columns whose long values are compressed when they are written:
    /// those of varying width for which `is_compressed` says so.
    #[must_use]
    pub fn compressing(mut self, is_compressed: impl Fn(usize) -> bool) -> Self {
        self.compressed = self.varying.iter().map(|&column| is_compressed(column as usize)).collect();
        if !self.compressed.contains(&true) {
            self.compressed = Box::default();
        }
        self
    }

    /// Whether rows that are written in it may have compressed values.
    #[must_use]
    pub fn compresses(&self) -> bool {
        !self.compressed.is_empty()
    }

    /// The number of this layout.
    #[must_use]
    pub fn generation(&self) -> u16 {
        self.generation
    }

    /// How many columns it has.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.slots.len()
    }

    /// The number of the layout that a row was written with.
    #[inline]
    pub fn generation_of(row: &[u8]) -> Result<u16> {
        match row.first_chunk() {
            Some(bytes) => Ok(u16::from_le_bytes(*bytes) & !COMPRESSED),
            None => Err(malformed("too short")),
        }
    }

    /// Whether some of a row's values are compressed.
    #[inline]
    #[must_use]
    pub fn has_compressed(row: &[u8]) -> bool {
        row.get(HEADER_BYTES - 1).is_some_and(|byte| byte >> 7 != 0)
    }

    /// The bytes of a row and of its compressed values without compression.
    ///
    /// # Errors
    /// The row is damaged.
    pub fn expanded_bytes(&self, row: &[u8]) -> Result<usize> {
        let parts = self.parts(row)?;
        let mut bytes = row.len();
        if parts.compressed {
            for index in 0..self.varying.len() {
                if self.is_compressed(parts, index)? {
                    bytes += compression::expanded_bytes(self.varying_bytes(parts, index)?)?;
                }
            }
        }
        Ok(bytes)
    }

    /// The bytes that a column takes in a row if it is compressed there.
    ///
    /// # Errors
    /// The row is damaged.
    pub fn compressed_bytes(&self, row: &[u8], column: usize) -> Result<Option<usize>> {
        let parts = self.parts(row)?;
        if !self.is_column_compressed(parts, column)? {
            return Ok(None);
        }
        self.varying_bytes(parts, self.slots[column].place as usize).map(|bytes| Some(bytes.len()))
    }

    /// Appends a row of these values, one for each column, each of its column's type or NULL.
    pub fn encode(&self, values: &[Datum], out: &mut Vec<u8>) -> Result<()> {
        assert_eq!(values.len(), self.slots.len(), "a value for each column");
        self.assemble(out, |column, out| self.write(column, &values[column], out))
    }

    /// Appends a column's bytes, compressed if they are to be.
    #[inline]
    fn write(&self, column: usize, value: &Datum, out: &mut Vec<u8>) -> Result<Written> {
        let (start, slot) = (out.len(), self.slots[column]);
        let is_there = write_value(slot.form, value, out)?;
        if out.len() - start >= COMPRESSED_BYTES_MIN
            && self.compressed.get(slot.place as usize) == Some(&true)
            && slot.form.width().is_none()
            && compression::compress_tail(out, start)
        {
            return Ok(Written::Compressed);
        }
        Ok(Written::new(is_there))
    }

    /// Appends a row whose columns' bytes `write` appends, and says of each what they are.
    fn assemble(&self, out: &mut Vec<u8>, mut write: impl FnMut(usize, &mut Vec<u8>) -> Result<Written>) -> Result<()> {
        let start = out.len();
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.resize(start + HEADER_BYTES + (self.slots.len() + 1).div_ceil(8), 0);
        let set_null = |column: usize, out: &mut Vec<u8>| {
            out[start + HEADER_BYTES + (column + 1) / 8] |= 1 << ((column + 1) % 8);
        };
        for (column, slot) in self.slots.iter().enumerate() {
            let Some(width) = slot.form.width() else { continue };
            let before = out.len();
            if let Written::Null = write(column, out)? {
                set_null(column, out);
                out.resize(before + width, 0);
            }
            debug_assert_eq!(out.len(), before + width, "fixed widths are fixed");
        }
        if self.varying.is_empty() {
            return Ok(());
        }
        let ends = out.len();
        out.resize(ends + 2 * self.varying.len(), 0);
        let bytes = out.len();
        // Most rows are short: the ends are written as u16, and widened once one does not fit.
        let mut overflow_ends: Vec<u32> = Vec::new();
        let mut compressed: SmallVec<[usize; 4]> = SmallVec::new();
        for (index, &column) in self.varying.iter().enumerate() {
            match write(column as usize, out)? {
                Written::Null => set_null(column as usize, out),
                Written::Value => {}
                Written::Compressed => compressed.push(index),
            }
            let end = out.len() - bytes;
            match u16::try_from(end) {
                Ok(end) => out[ends + 2 * index..][..2].copy_from_slice(&end.to_le_bytes()),
                Err(_) => {
                    let end = u32::try_from(end)
                        .map_err(|_| Error::new(SqlState::PROGRAM_LIMIT, "row is larger than 4 GiB"))?;
                    overflow_ends.push(end);
                }
            }
        }
        // In a row with compressed values the highest bit of an end is a mark.
        let is_marked = !compressed.is_empty();
        let end = out.len() - bytes;
        if is_marked && end >= WIDE_END_COMPRESSED as usize {
            return Err(Error::new(SqlState::PROGRAM_LIMIT, "row is larger than 2 GiB"));
        }
        let is_wide = !overflow_ends.is_empty() || is_marked && end >= usize::from(END_COMPRESSED);
        if is_wide {
            out[start + HEADER_BYTES] |= 1;
            let short = self.varying.len() - overflow_ends.len();
            let all = (0..short)
                .map(|index| u32::from(u16::from_le_bytes([out[ends + 2 * index], out[ends + 2 * index + 1]])))
                .chain(overflow_ends.iter().copied())
                .flat_map(u32::to_le_bytes)
                .collect::<Vec<u8>>();
            out.splice(ends..bytes, all);
        }
        if is_marked {
            out[start + HEADER_BYTES - 1] |= (COMPRESSED >> 8) as u8;
            for index in compressed {
                let bytes = if is_wide { 4 } else { 2 };
                out[ends + bytes * index + bytes - 1] |= 1 << 7;
            }
        }
        Ok(())
    }

    #[inline]
    fn parts<'row>(&self, row: &'row [u8]) -> Result<Parts<'row>> {
        if row.len() < self.ends_start {
            return Err(malformed("too short"));
        }
        let mut compressed = false;
        if row[..HEADER_BYTES] != self.generation.to_le_bytes() {
            if row[..HEADER_BYTES] != (self.generation | COMPRESSED).to_le_bytes() {
                return Err(malformed("of another generation"));
            }
            compressed = true;
        }
        let wide = row[HEADER_BYTES] & 1 != 0;
        let varying_start = self.ends_start + self.varying.len() * if wide { 4 } else { 2 };
        if row.len() < varying_start {
            return Err(malformed("too short"));
        }
        Ok(Parts { row, varying_start, wide, compressed })
    }

    /// One column's value.
    #[inline]
    pub fn get(&self, row: &[u8], column: usize) -> Result<Datum> {
        self.value(self.parts(row)?, column)
    }

    /// Several columns' values: `out[i]` becomes the value of column `columns[i]`.
    #[inline]
    pub fn read(&self, row: &[u8], columns: &[usize], out: &mut [Datum]) -> Result<()> {
        let parts = self.parts(row)?;
        for (slot, &column) in out.iter_mut().zip(columns) {
            self.read_into(parts, column, slot)?;
        }
        Ok(())
    }

    /// All columns' values, appended.
    pub fn read_all(&self, row: &[u8], out: &mut Vec<Datum>) -> Result<()> {
        let parts = self.parts(row)?;
        out.reserve(self.slots.len());
        for column in 0..self.slots.len() {
            out.push(self.value(parts, column)?);
        }
        Ok(())
    }

    /// Whether a column is NULL.
    #[inline]
    pub fn is_null(&self, row: &[u8], column: usize) -> Result<bool> {
        assert!(column < self.slots.len(), "a column of the table");
        Ok(is_null_at(self.parts(row)?.row, column))
    }

    /// One column's value in place.
    #[inline]
    pub fn peek<'row>(&self, row: &'row [u8], column: usize) -> Result<Peeked<'row>> {
        let parts = self.parts(row)?;
        let slot = self.slots[column];
        let at = slot.place as usize;
        if is_null_at(row, column) {
            return Ok(Peeked::Null);
        }
        if parts.compressed && slot.form.width().is_none() && self.is_compressed(parts, at)? {
            return Ok(Peeked::Other);
        }
        Ok(match slot.form {
            Form::Text | Form::Bytes => Peeked::Bytes(self.varying_bytes(parts, at)?),
            Form::Int4 | Form::Date => Peeked::Int(i64::from(i32::from_le_bytes(fixed(row, at)?))),
            Form::Int8 | Form::Timestamp | Form::Time => Peeked::Int(i64::from_le_bytes(fixed(row, at)?)),
            Form::Int2 => Peeked::Int(i64::from(i16::from_le_bytes(fixed(row, at)?))),
            Form::Oid => Peeked::Int(i64::from(u32::from_le_bytes(fixed(row, at)?))),
            Form::TimeTz => Peeked::Other,
            Form::Uuid => Peeked::Bytes(row.get(at..at + 16).ok_or_else(|| malformed("too short"))?),
            Form::Bool => Peeked::Bool(fixed::<1>(row, at)?[0] != 0),
            Form::Numeric => Peeked::Numeric(read_numeric(self.varying_bytes(parts, at)?)?),
            Form::Float4
            | Form::Float8
            | Form::Interval
            | Form::Array(_)
            | Form::Jsonb
            | Form::Query
            | Form::Range
            | Form::Citext
            | Form::Row(_) => Peeked::Other,
        })
    }

    /// Overwrites a value. A text goes into the memory of the one that was there, if that is about
    /// as large.
    #[inline]
    fn read_into(&self, parts: Parts<'_>, column: usize, out: &mut Datum) -> Result<()> {
        let slot = self.slots[column];
        if let (Form::Text, Datum::Text(text)) = (slot.form, &mut *out)
            && !is_null_at(parts.row, column)
            && !parts.compressed
        {
            let bytes = self.varying_bytes(parts, slot.place as usize)?;
            let fits = bytes.len()..=(2 * bytes.len()).max(TEXT_BYTES_REUSED);
            if fits.contains(&text.capacity()) {
                text.clear();
                text.push_str(utf8(bytes)?);
                return Ok(());
            }
        }
        *out = self.value(parts, column)?;
        Ok(())
    }

    #[inline]
    fn value(&self, parts: Parts<'_>, column: usize) -> Result<Datum> {
        let slot = self.slots[column];
        let row = parts.row;
        if is_null_at(row, column) {
            return Ok(Datum::Null);
        }
        let at = slot.place as usize;
        if parts.compressed && slot.form.width().is_none() {
            return self.marked_value(parts, slot);
        }
        Ok(match slot.form {
            Form::Int4 => Datum::Int(i64::from(i32::from_le_bytes(fixed(row, at)?))),
            Form::Int8 => Datum::Int(i64::from_le_bytes(fixed(row, at)?)),
            Form::Int2 => Datum::Int(i64::from(i16::from_le_bytes(fixed(row, at)?))),
            Form::Oid => Datum::Int(i64::from(u32::from_le_bytes(fixed(row, at)?))),
            Form::Float8 => Datum::Float(f64::from_le_bytes(fixed(row, at)?)),
            Form::Float4 => Datum::Float(f64::from(f32::from_le_bytes(fixed(row, at)?))),
            Form::Timestamp => Datum::Timestamp(i64::from_le_bytes(fixed(row, at)?)),
            Form::Date => Datum::Date(i32::from_le_bytes(fixed(row, at)?)),
            Form::Bool => match fixed::<1>(row, at)?[0] {
                0 => Datum::Bool(false),
                1 => Datum::Bool(true),
                _ => return Err(malformed("neither true nor false")),
            },
            Form::Time => match i64::from_le_bytes(fixed(row, at)?) {
                time @ 0..=DAY_US => Datum::Time(time),
                _ => return Err(malformed("time of day")),
            },
            Form::TimeTz => Datum::TimeTz(TimeTz {
                micros: i64::from_le_bytes(fixed(row, at)?),
                west_s: i32::from_le_bytes(fixed(row, at + 8)?),
            }),
            Form::Uuid => Datum::Uuid(fixed(row, at)?),
            Form::Interval => Datum::Interval(Interval {
                micros: i64::from_le_bytes(fixed(row, at)?),
                days: i32::from_le_bytes(fixed(row, at + 8)?),
                months: i32::from_le_bytes(fixed(row, at + 12)?),
            }),
            Form::Text => Datum::Text(CompactString::new(utf8(self.varying_bytes(parts, at)?)?)),
            Form::Numeric => Datum::Numeric(read_numeric(self.varying_bytes(parts, at)?)?),
            form => varying_value(form, self.varying_bytes(parts, at)?)?,
        })
    }

    /// A value of varying width in a row that has compressed ones. It is not NULL.
    #[cold]
    fn marked_value(&self, parts: Parts<'_>, slot: Slot) -> Result<Datum> {
        let index = slot.place as usize;
        let bytes = self.varying_bytes(parts, index)?;
        if !self.is_compressed(parts, index)? {
            return varying_value(slot.form, bytes);
        }
        let bytes = compression::expand(bytes)?;
        let text = |bytes| String::from_utf8(bytes).map(CompactString::from).map_err(|_| malformed("not UTF-8"));
        // The memory of what was decompressed is kept where it can be.
        match slot.form {
            Form::Text => text(bytes).map(Datum::Text),
            Form::Citext => text(bytes).map(Datum::Citext),
            Form::Bytes => Ok(Datum::Bytes(bytes.into())),
            form => varying_value(form, &bytes),
        }
    }

    /// Whether the value of a column of varying width is compressed, in a row that has such.
    fn is_compressed(&self, parts: Parts<'_>, index: usize) -> Result<bool> {
        let bytes = if parts.wide { 4 } else { 2 };
        let end = parts.row.get(self.ends_start + bytes * index + bytes - 1);
        end.map(|end| end >> 7 != 0).ok_or_else(|| malformed("too short"))
    }

    /// The bytes of a column of varying width, as they are in the row.
    #[inline]
    fn varying_bytes<'row>(&self, parts: Parts<'row>, index: usize) -> Result<&'row [u8]> {
        let span = self.span(parts, index)?;
        parts.row[parts.varying_start..].get(span).ok_or_else(|| malformed("ends out of order"))
    }

    /// Where they are, from the first such column's beginning on.
    #[inline]
    fn span(&self, parts: Parts<'_>, index: usize) -> Result<std::ops::Range<usize>> {
        let mut begin = if index == 0 { 0 } else { self.end(parts, index - 1)? };
        let mut end = self.end(parts, index)?;
        if parts.compressed {
            let lengths = if parts.wide { !WIDE_END_COMPRESSED as usize } else { usize::from(!END_COMPRESSED) };
            (begin, end) = (begin & lengths, end & lengths);
        }
        Ok(begin..end)
    }

    /// An end as it is in the row, with its mark.
    #[inline]
    fn end(&self, parts: Parts<'_>, index: usize) -> Result<usize> {
        Ok(if parts.wide {
            u32::from_le_bytes(fixed(parts.row, self.ends_start + 4 * index)?) as usize
        } else {
            usize::from(u16::from_le_bytes(fixed(parts.row, self.ends_start + 2 * index)?))
        })
    }

    /// A column's bytes as they are in the row, or none if it is NULL.
    fn bytes<'row>(&self, parts: Parts<'row>, column: usize) -> Result<Option<&'row [u8]>> {
        if is_null_at(parts.row, column) {
            return Ok(None);
        }
        let slot = self.slots[column];
        let at = slot.place as usize;
        match slot.form.width() {
            Some(width) => parts.row.get(at..at + width).map(Some).ok_or_else(|| malformed("too short")),
            None => self.varying_bytes(parts, at).map(Some),
        }
    }

    /// Whether a column is of varying width and compressed.
    fn is_column_compressed(&self, parts: Parts<'_>, column: usize) -> Result<bool> {
        let slot = self.slots[column];
        Ok(parts.compressed && slot.form.width().is_none() && self.is_compressed(parts, slot.place as usize)?)
    }

    /// The columns whose bytes differ. Equal values of another form (1.0 and 1.00, 0 and -0,
    /// compressed or not) count as different.
    pub fn changed(&self, old: &[u8], new: &[u8]) -> Result<Vec<usize>> {
        let mut columns = Vec::new();
        self.for_each_changed(old, new, |column| columns.push(column))?;
        Ok(columns)
    }

    /// As `changed`, without a list: calls `visit` with each column whose bytes differ, in order.
    pub fn for_each_changed(&self, old: &[u8], new: &[u8], mut visit: impl FnMut(usize)) -> Result<()> {
        let (old, new) = (self.parts(old)?, self.parts(new)?);
        for column in 0..self.slots.len() {
            let is_same = self.bytes(old, column)? == self.bytes(new, column)?
                && self.is_column_compressed(old, column)? == self.is_column_compressed(new, column)?;
            if !is_same {
                visit(column);
            }
        }
        Ok(())
    }

    /// Appends a copy of a row with other values in some columns. Of several changes of one column
    /// the last counts.
    pub fn patch(&self, row: &[u8], changes: &[(usize, Datum)], out: &mut Vec<u8>) -> Result<()> {
        let parts = self.parts(row)?;
        if changes.iter().all(|(column, _)| self.slots[*column].form.width().is_some()) {
            let start = out.len();
            out.extend_from_slice(row);
            let end = out.len();
            for (column, value) in changes {
                let slot = self.slots[*column];
                // Behind the row at first: that is room enough, and no memory of its own.
                let present = write_value(slot.form, value, out)?;
                out.resize(end + slot.form.width().unwrap_or_default(), 0);
                out.copy_within(end.., start + slot.place as usize);
                out.truncate(end);
                let bits = &mut out[start + HEADER_BYTES + (column + 1) / 8];
                let bit = 1 << ((column + 1) % 8);
                *bits = if present { *bits & !bit } else { *bits | bit };
            }
            return Ok(());
        }
        self.assemble(out, |column, out| match changes.iter().rev().find(|(changed, _)| *changed == column) {
            Some((_, value)) => self.write(column, value, out),
            None => match self.bytes(parts, column)? {
                Some(bytes) => {
                    out.extend_from_slice(bytes);
                    let is_compressed = self.is_column_compressed(parts, column)?;
                    Ok(if is_compressed { Written::Compressed } else { Written::Value })
                }
                None => Ok(Written::Null),
            },
        })
    }

    /// Whether a row is well-formed in every column, and has nothing behind the last.
    pub fn check(&self, row: &[u8]) -> Result<()> {
        let parts = self.parts(row)?;
        let mut has_compressed = false;
        for column in 0..self.slots.len() {
            self.value(parts, column)?;
            let is_compressed = self.is_column_compressed(parts, column)?;
            if is_compressed && is_null_at(row, column) {
                return Err(malformed("a NULL is compressed"));
            }
            has_compressed |= is_compressed;
        }
        if has_compressed != parts.compressed {
            return Err(malformed("no value is compressed"));
        }
        let end = match self.varying.len() {
            0 => 0,
            count => self.span(parts, count - 1)?.end,
        };
        if parts.varying_start + end == row.len() { Ok(()) } else { Err(malformed("bytes behind the last column")) }
    }
}

#[inline]
fn fixed<const N: usize>(row: &[u8], at: usize) -> Result<[u8; N]> {
    row.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(|| malformed("too short"))
}

#[inline]
fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| malformed("not UTF-8"))
}

#[inline]
fn is_null_at(row: &[u8], column: usize) -> bool {
    row[HEADER_BYTES + (column + 1) / 8] >> ((column + 1) % 8) & 1 != 0
}

/// The value of a column of varying width.
fn varying_value(form: Form, bytes: &[u8]) -> Result<Datum> {
    Ok(match form {
        Form::Text => Datum::Text(CompactString::new(utf8(bytes)?)),
        Form::Citext => Datum::Citext(CompactString::new(utf8(bytes)?)),
        Form::Bytes => Datum::Bytes(bytes.into()),
        Form::Jsonb => Datum::Jsonb(bytes.into()),
        Form::Query => Datum::Query(bytes.into()),
        Form::Row(of) => composite_values::read_stored(of, bytes)?,
        Form::Range => Datum::Range(bytes.into()),
        Form::Array(of) => Datum::Array(std::sync::Arc::new(Array::read_stored(bytes, of)?)),
        Form::Numeric => Datum::Numeric(read_numeric(bytes)?),
        _ => return Err(Error::internal("a form of fixed width has no bytes of varying width")),
    })
}

/// Appends a value's bytes; says whether it is not NULL.
fn write_value(form: Form, value: &Datum, out: &mut Vec<u8>) -> Result<bool> {
    match (form, value) {
        (_, Datum::Null) => return Ok(false),
        (Form::Bool, Datum::Bool(value)) => out.push(u8::from(*value)),
        (Form::Int2, Datum::Int(value)) => out.extend_from_slice(&(*value as i16).to_le_bytes()),
        (Form::Int4, Datum::Int(value)) => out.extend_from_slice(&(*value as i32).to_le_bytes()),
        (Form::Oid, Datum::Int(value)) => out.extend_from_slice(&(*value as u32).to_le_bytes()),
        (Form::Int8, Datum::Int(value))
        | (Form::Time, Datum::Time(value))
        | (Form::Timestamp, Datum::Timestamp(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Form::Float4, Datum::Float(value)) => out.extend_from_slice(&(*value as f32).to_le_bytes()),
        (Form::Float8, Datum::Float(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Form::Date, Datum::Date(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Form::Interval, Datum::Interval(value)) => {
            out.extend_from_slice(&value.micros.to_le_bytes());
            out.extend_from_slice(&value.days.to_le_bytes());
            out.extend_from_slice(&value.months.to_le_bytes());
        }
        (Form::TimeTz, Datum::TimeTz(value)) => {
            out.extend_from_slice(&value.micros.to_le_bytes());
            out.extend_from_slice(&value.west_s.to_le_bytes());
        }
        (Form::Uuid, Datum::Uuid(value)) => out.extend_from_slice(value),
        (Form::Text, Datum::Text(value)) | (Form::Citext, Datum::Citext(value)) => {
            out.extend_from_slice(value.as_bytes())
        }
        (Form::Bytes, Datum::Bytes(value))
        | (Form::Query, Datum::Query(value))
        | (Form::Range, Datum::Range(value)) => out.extend_from_slice(value),
        (Form::Array(_), Datum::Array(array)) => array.write_stored(out),
        (Form::Row(of), Datum::Row(row)) => composite_values::write_stored(of, row, out),
        (Form::Jsonb, Datum::Jsonb(value)) => out.extend_from_slice(value),
        (Form::Numeric, Datum::Numeric(value)) => {
            let Some((mantissa, scale)) = value.small() else {
                out.push(LARGE_SCALE);
                value.write_large(out);
                return Ok(true);
            };
            let bytes = mantissa.unsigned_abs().to_be_bytes();
            let skip = (mantissa.unsigned_abs().leading_zeros() / 8) as usize;
            out.push(scale | if mantissa < 0 { 0x80 } else { 0 });
            out.extend_from_slice(&bytes[skip..]);
        }
        _ => return Err(Error::internal(format!("a value {value:?} in a column of form {form:?}"))),
    }
    Ok(true)
}

fn read_numeric(bytes: &[u8]) -> Result<Numeric> {
    let (&head, digits) = bytes.split_first().ok_or_else(|| malformed("empty numeric"))?;
    let scale = u32::from(head & 0x7f);
    if head == LARGE_SCALE {
        return Numeric::read_large(digits).ok_or_else(|| malformed("numeric"));
    }
    if digits.len() > 16 || scale > SMALL_SCALE_MAX {
        return Err(malformed("numeric digits"));
    }
    let mantissa = if digits.len() <= 8 {
        i128::from(digits.iter().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte)))
    } else {
        let wide = digits.iter().fold(0u128, |sum, &byte| sum << 8 | u128::from(byte));
        i128::try_from(wide).map_err(|_| malformed("numeric digits"))?
    };
    let mantissa = if head & 0x80 != 0 { -mantissa } else { mantissa };
    Numeric::checked(mantissa, scale).map_err(|_| malformed("numeric digits"))
}

#[cfg(test)]
mod tests;

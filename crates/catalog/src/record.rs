//! The keys and values of a table's rows and of its indexes' entries.
//!
//! ```text
//! row:           key   = primary key's columns in its order, encoded, without markers for NULL
//!                      | hidden number: 8 bytes, big-endian, sign flipped
//!                value = columns that the key does not give back exactly, in the format of a generation
//! index entry:   key   = indexed columns, encoded, each with a marker for NULL | row's key
//!                value = nothing
//! ```
//!
//! Invariants: a row here is a slice of all the table's columns, dropped ones included (NULL),
//! followed by the hidden number where the table has no primary key. Rows are written in the newest
//! generation only. A column that a row's generation does not hold and the key does not give has
//! the column's `missing` value; a dropped one is NULL.

use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use colibri_txn::{Key, KeyRange};
use colibri_types::{Datum, Error, Result, SqlState, Type, key};
use smallvec::SmallVec;

use crate::objects::{Index, Table, TableLayout};
use crate::row::{Peeked, RowFormat};

/// The longest key: what a page of 4 KiB takes.
pub const KEY_BYTES_MAX: usize = 960;
/// What stands before a value that is not NULL; see [`colibri_types::key`].
const NOT_NULL: u8 = 1;
/// Bytes of a hidden number.
const NUMBER_BYTES: usize = 8;

/// The key of a row.
///
/// # Errors
/// The key is too long.
#[inline]
pub fn row_key(table: &Table, row: &[Datum]) -> Result<Key> {
    let mut key = Key::new();
    match &table.primary_key {
        Some(primary) => {
            for &column in &primary.columns {
                key::encode(table.columns[column].ty.ty, &row[column], false, false, true, &mut key);
            }
            check_length(key.len(), &primary.name)?;
        }
        None => match row[table.columns.len()] {
            Datum::Int(number) => key.extend_from_slice(&number_bytes(number)),
            _ => return Err(Error::internal("a row without a key has no number")),
        },
    }
    Ok(key)
}

/// The key of a row, or the beginning of one, from values in the key's order; for a table without
/// primary key, from the hidden number.
///
/// # Errors
/// The key is too long.
pub fn key_from_values<'a>(table: &Table, values: impl IntoIterator<Item = &'a Datum>) -> Result<Key> {
    let mut key = Key::new();
    match &table.primary_key {
        Some(primary) => {
            for (&column, value) in primary.columns.iter().zip(values) {
                key::encode(table.columns[column].ty.ty, value, false, false, true, &mut key);
            }
            check_length(key.len(), &primary.name)?;
        }
        None => match values.into_iter().next() {
            Some(Datum::Int(number)) => key.extend_from_slice(&number_bytes(*number)),
            None => {}
            Some(_) => return Err(Error::internal("a row's number is not an integer")),
        },
    }
    Ok(key)
}

fn number_bytes(number: i64) -> [u8; NUMBER_BYTES] {
    (number ^ i64::MIN).to_be_bytes()
}

#[inline]
fn check_length(bytes: usize, index: &str) -> Result<()> {
    if bytes > KEY_BYTES_MAX { Err(too_long(bytes, index)) } else { Ok(()) }
}

#[cold]
fn too_long(bytes: usize, index: &str) -> Error {
    Error::new(
        SqlState::PROGRAM_LIMIT,
        format!("index row size {bytes} exceeds maximum {KEY_BYTES_MAX} for index \"{index}\""),
    )
    .hint("Values so long cannot be indexed. Consider an index of a hash of the value.")
}

#[cold]
fn damaged(what: &str) -> Error {
    Error::new(SqlState::DATA_CORRUPTED, format!("a row is damaged: {what}"))
}

/// Appends the value of a row, in the newest generation.
///
/// # Errors
/// The row is too large.
pub fn encode_row(table: &Table, row: &[Datum], out: &mut Vec<u8>) -> Result<()> {
    let layout = table.layout();
    match (layout.formats.last(), layout.stored.last()) {
        (Some(format), Some(stored)) => encode_with(format, stored, row, out),
        _ => Err(Error::internal("a table has no format of rows")),
    }
}

/// Appends the columns `stored` of a row in a format.
pub fn encode_with(format: &RowFormat, stored: &[usize], row: &[Datum], out: &mut Vec<u8>) -> Result<()> {
    // Without a key among the first columns the stored ones are the row itself.
    if stored.iter().enumerate().all(|(place, &column)| place == column) {
        return format.encode(&row[..stored.len()], out);
    }
    let values: SmallVec<[Datum; 16]> = stored.iter().map(|&column| row[column].clone()).collect();
    format.encode(&values, out)
}

/// Reads some columns of a row; see [`RowReader`] for many rows.
///
/// # Errors
/// The row is damaged.
pub fn read_row(table: &Table, key: &[u8], value: &[u8], columns: &[usize], out: &mut [Datum]) -> Result<()> {
    RowReader::new(table, columns).read(key, value, out)
}

/// Reads given columns of a table's rows: where each is found is worked out once.
#[derive(Debug)]
pub struct RowReader {
    columns: SmallVec<[usize; 8]>,
    layout: Arc<TableLayout>,
    key: KeyReader,
    newest: u16,
    plan: ValuePlan,
    /// Of all generations, made when the first row of an old one comes.
    older: OnceLock<Vec<ValuePlan>>,
}

/// Where the columns of a generation's rows are.
#[derive(Debug, Default)]
struct ValuePlan {
    /// Places in the format, for neighbouring places of the row read.
    runs: SmallVec<[(usize, SmallVec<[usize; 8]>); 2]>,
    /// Places of the row read that have the same value in all rows.
    fixed: Vec<(usize, Datum)>,
    /// Why such a value is not known.
    unreadable: Option<Error>,
}

/// Where columns are in a key.
#[derive(Debug, Default)]
struct KeyReader {
    /// The key's columns up to the last one wanted, and where their values go.
    steps: SmallVec<[KeyStep; 4]>,
    /// Where the hidden number goes.
    number: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
struct KeyStep {
    ty: Type,
    descending: bool,
    nulls_first: bool,
    not_null: bool,
    out: Option<usize>,
}

impl KeyStep {
    #[inline]
    fn take(self, rest: &mut &[u8], out: &mut [Datum]) -> Result<()> {
        match self.out {
            Some(place) => {
                out[place] = key::decode(self.ty, self.descending, self.nulls_first, self.not_null, rest)?;
                Ok(())
            }
            None => skip(self.ty, self.descending, self.not_null, rest),
        }
    }
}

impl KeyReader {
    fn new(table: &Table, columns: &[usize], is_wanted: &dyn Fn(usize) -> bool) -> Self {
        let mut reader = Self::default();
        let place_of = |column| columns.iter().position(|&wanted| wanted == column).filter(|&place| is_wanted(place));
        for &column in table.key_columns() {
            let ty = table.columns[column].ty.ty;
            let out = place_of(column).filter(|_| key::is_exact(ty));
            reader.steps.push(KeyStep { ty, descending: false, nulls_first: false, not_null: true, out });
        }
        while reader.steps.last().is_some_and(|step| step.out.is_none()) {
            reader.steps.pop();
        }
        if table.primary_key.is_none() {
            reader.number = place_of(table.columns.len());
        }
        reader
    }

    #[inline]
    fn read(&self, key: &[u8], out: &mut [Datum]) -> Result<()> {
        let mut rest = key;
        for step in &self.steps {
            step.take(&mut rest, out)?;
        }
        if let Some(place) = self.number {
            let bytes: [u8; NUMBER_BYTES] = key.try_into().map_err(|_| damaged("its number has a wrong length"))?;
            out[place] = Datum::Int(i64::from_be_bytes(bytes) ^ i64::MIN);
        }
        Ok(())
    }
}

/// Whether a row's key gives back a column exactly.
pub(crate) fn is_in_key(table: &Table, column: usize) -> bool {
    table.key_columns().contains(&column) && key::is_exact(table.columns[column].ty.ty)
}

impl RowReader {
    /// A reader of some columns, each named once; `table.columns.len()` is the hidden number.
    pub fn new(table: &Table, columns: &[usize]) -> Self {
        Self::of_places(table, columns, &|_| true)
    }

    /// As [`RowReader::new`], but it reads the columns of some places only, and leaves the others
    /// as they are.
    pub fn of_places(table: &Table, columns: &[usize], is_wanted: &dyn Fn(usize) -> bool) -> Self {
        let layout = table.layout.as_ref().expect("a table of a catalogue has its layout");
        let key = KeyReader::new(table, columns, is_wanted);
        // From here on only what values hold is of interest.
        let columns: SmallVec<[usize; 8]> = columns
            .iter()
            .enumerate()
            .map(|(place, &column)| match table.columns.get(column) {
                _ if !is_wanted(place) => ELSEWHERE,
                Some(known) if known.dropped => DROPPED,
                Some(_) if !is_in_key(table, column) => column,
                _ => ELSEWHERE,
            })
            .collect();
        let newest = layout.stored.len().saturating_sub(1);
        let plan = layout.stored.get(newest).map(|stored| plan_values(&layout.missing, stored, &columns));
        Self {
            columns,
            layout: Arc::clone(layout),
            key,
            newest: newest as u16,
            plan: plan.unwrap_or_default(),
            older: OnceLock::new(),
        }
    }

    /// Reads a row into the first places of `out`, as many as there are columns.
    ///
    /// # Errors
    /// The row is damaged.
    #[inline]
    pub fn read(&self, key: &[u8], value: &[u8], out: &mut [Datum]) -> Result<()> {
        self.key.read(key, out)?;
        let newest = RowFormat::generation_of(value)? == self.newest;
        let (plan, format) =
            if newest { (&self.plan, &self.layout.formats[usize::from(self.newest)]) } else { self.older(value)? };
        for (start, places) in &plan.runs {
            format.read(value, places, &mut out[*start..*start + places.len()])?;
        }
        for (place, value) in &plan.fixed {
            out[*place] = value.clone();
        }
        match &plan.unreadable {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    #[cold]
    fn older(&self, value: &[u8]) -> Result<(&ValuePlan, &RowFormat)> {
        let generation = RowFormat::generation_of(value)?;
        let all = self.older.get_or_init(|| {
            let plan = |stored: &Vec<usize>| plan_values(&self.layout.missing, stored, &self.columns);
            self.layout.stored.iter().map(plan).collect()
        });
        let generation = usize::from(generation);
        match (all.get(generation), self.layout.formats.get(generation)) {
            (Some(plan), Some(format)) => Ok((plan, format)),
            _ => Err(damaged("it has a generation that its table does not know")),
        }
    }
}

/// Where a column is in the values of a table's rows, for looking at it in place.
#[derive(Debug)]
pub struct InRow {
    layout: Arc<TableLayout>,
    generation: u16,
    place: usize,
}

impl InRow {
    /// Of a column that rows of the newest generation hold.
    pub fn new(table: &Table, column: usize) -> Option<Self> {
        let layout = table.layout.as_ref()?;
        if is_in_key(table, column) || table.columns.get(column)?.dropped {
            return None;
        }
        let place = layout.stored.last()?.iter().position(|&stored| stored == column)?;
        Some(Self { layout: Arc::clone(layout), generation: (layout.stored.len() - 1) as u16, place })
    }

    /// The column's value in a row; `None` if that is of an older generation.
    ///
    /// # Errors
    /// The row is damaged.
    #[inline]
    pub fn peek<'row>(&self, value: &'row [u8]) -> Result<Option<Peeked<'row>>> {
        if RowFormat::generation_of(value)? != self.generation {
            return Ok(None);
        }
        self.layout.formats[usize::from(self.generation)].peek(value, self.place).map(Some)
    }
}

/// Where a column of an index is in its entries, for looking at it in place.
#[derive(Debug)]
pub struct InEntry {
    before: SmallVec<[KeyStep; 2]>,
    step: KeyStep,
}

impl InEntry {
    /// Of a column of the index; a text in descending order is not looked at in place.
    pub fn new(table: &Table, index: &Index, column: usize) -> Option<Self> {
        let place = index.columns.iter().position(|part| part.column == column)?;
        let mut steps = index.columns[..=place].iter().map(|part| KeyStep {
            ty: table.columns[part.column].ty.ty,
            descending: part.descending,
            nulls_first: part.nulls_first,
            not_null: false,
            out: None,
        });
        let step = steps.next_back()?;
        let is_bytes = is_text(step.ty);
        let is_looked_at = is_bytes && !step.descending || !is_bytes && key::is_exact(step.ty);
        is_looked_at.then(|| Self { before: steps.collect(), step })
    }

    /// The column's value in an entry; `None` if its bytes are not as they are in the value.
    ///
    /// # Errors
    /// The entry is damaged.
    #[inline]
    pub fn peek<'entry>(&self, entry: &'entry [u8]) -> Result<Option<Peeked<'entry>>> {
        let mut rest = entry;
        for step in &self.before {
            step.take(&mut rest, &mut [])?;
        }
        let KeyStep { ty, descending, nulls_first, .. } = self.step;
        if !is_text(ty) {
            return Ok(match key::decode(ty, descending, nulls_first, false, &mut rest)? {
                Datum::Null => Some(Peeked::Null),
                Datum::Bool(value) => Some(Peeked::Bool(value)),
                Datum::Int(value) | Datum::Time(value) | Datum::Timestamp(value) => Some(Peeked::Int(value)),
                Datum::Date(value) => Some(Peeked::Int(value.into())),
                Datum::Numeric(value) => Some(Peeked::Numeric(value)),
                _ => None,
            });
        }
        let (&marker, bytes) = rest.split_first().ok_or_else(|| damaged("a key is too short"))?;
        if marker != NOT_NULL {
            return Ok(Some(Peeked::Null));
        }
        // What is below 2 ends the text, or begins a byte that is written as two.
        let end = bytes.iter().position(|&byte| byte < 2).ok_or_else(|| damaged("a key's text has no end"))?;
        Ok((bytes[end] == 0).then(|| Peeked::Bytes(&bytes[..end])))
    }
}

fn is_text(ty: Type) -> bool {
    matches!(ty, Type::Text | Type::Varchar | Type::Char | Type::Name)
}

/// A place of the row read that is not the value's business.
const ELSEWHERE: usize = usize::MAX;
/// A place that is always NULL.
const DROPPED: usize = usize::MAX - 1;

fn plan_values(missing: &[Result<Datum>], stored: &[usize], columns: &[usize]) -> ValuePlan {
    let mut plan = ValuePlan::default();
    for (out, &column) in columns.iter().enumerate() {
        match (column, stored.iter().position(|&stored| stored == column)) {
            (ELSEWHERE, _) => {}
            (DROPPED, _) => plan.fixed.push((out, Datum::Null)),
            (_, Some(place)) => match plan.runs.last_mut() {
                Some((start, places)) if *start + places.len() == out => places.push(place),
                _ => plan.runs.push((out, SmallVec::from_slice(&[place]))),
            },
            (_, None) => match missing.get(column) {
                Some(Ok(value)) => plan.fixed.push((out, value.clone())),
                Some(Err(error)) => plan.unreadable = Some(error.clone()),
                None => plan.fixed.push((out, Datum::Null)),
            },
        }
    }
    plan
}

/// The beginning of an index' entries: the first columns' values, in the index' order.
///
/// # Errors
/// The entry is too long.
#[inline]
pub fn index_prefix<'a>(table: &Table, index: &Index, values: impl IntoIterator<Item = &'a Datum>) -> Result<Key> {
    let mut entry = Key::new();
    for (part, value) in index.columns.iter().zip(values) {
        let ty = table.columns[part.column].ty.ty;
        key::encode(ty, value, part.descending, part.nulls_first, false, &mut entry);
    }
    check_length(entry.len(), &index.name)?;
    Ok(entry)
}

/// The indexed columns of a row, encoded: the entry without the row's key, and what a unique index
/// has only once.
///
/// # Errors
/// The entry is too long.
#[inline]
pub fn index_values(table: &Table, index: &Index, row: &[Datum]) -> Result<Key> {
    index_prefix(table, index, index.columns.iter().map(|part| &row[part.column]))
}

/// The entry of a row in an index.
///
/// # Errors
/// The entry is too long.
#[inline]
pub fn index_entry(table: &Table, index: &Index, row: &[Datum], row_key: &[u8]) -> Result<Key> {
    let mut entry = index_values(table, index, row)?;
    finish_entry(index, &mut entry, row_key)?;
    Ok(entry)
}

/// Makes an entry of a row's encoded columns.
///
/// # Errors
/// The entry is too long.
#[inline]
pub fn finish_entry(index: &Index, entry: &mut Key, row_key: &[u8]) -> Result<()> {
    entry.extend_from_slice(row_key);
    check_length(entry.len(), &index.name)
}

/// Whether a row has an entry in an index.
#[inline]
pub fn has_entry(index: &Index, row: &[Datum]) -> bool {
    index.predicate.is_none_or(|condition| matches!(row[condition], Datum::Bool(true)))
}

/// Whether a row has a NULL among an index' columns, so that no other row is equal to it there.
#[inline]
pub fn has_null(index: &Index, row: &[Datum]) -> bool {
    !index.nulls_not_distinct && index.columns.iter().any(|part| row[part.column].is_null())
}

/// The key of the row that an entry of an inverted index leads to.
///
/// # Errors
/// The entry is damaged.
#[inline]
pub(crate) fn behind_token(entry: &[u8]) -> Result<&[u8]> {
    let damaged = || Error::new(SqlState::DATA_CORRUPTED, "malformed key: an entry's token has no end");
    let (_, rest) = entry.split_first().ok_or_else(damaged)?;
    let end = rest.iter().position(|&byte| byte == 0).ok_or_else(damaged)?;
    Ok(&rest[end + 1..])
}

/// The key of the row that an index' entry leads to.
///
/// # Errors
/// The entry is damaged.
#[inline]
pub fn split_index_entry<'a>(table: &Table, index: &Index, entry: &'a [u8]) -> Result<&'a [u8]> {
    if index.is_inverted() {
        return behind_token(entry);
    }
    if table.primary_key.is_none() {
        let values = entry.len().checked_sub(NUMBER_BYTES).ok_or_else(|| damaged("an index' entry is too short"))?;
        return Ok(&entry[values..]);
    }
    if let Some(bytes) = key_bytes(table) {
        let values = entry.len().checked_sub(bytes).ok_or_else(|| damaged("an index' entry is too short"))?;
        return Ok(&entry[values..]);
    }
    behind_values(table, index, entry)
}

/// As [`split_index_entry`], and looks at all columns before the key, as a check does.
///
/// # Errors
/// The entry is damaged.
pub fn split_whole_entry<'a>(table: &Table, index: &Index, entry: &'a [u8]) -> Result<&'a [u8]> {
    let row_key = split_index_entry(table, index, entry)?;
    if !index.is_inverted() && behind_values(table, index, entry)?.len() != row_key.len() {
        return Err(damaged("an index' entry has another length than its columns and its row's key"));
    }
    Ok(row_key)
}

/// What is behind an entry's encoded columns.
#[inline]
fn behind_values<'a>(table: &Table, index: &Index, entry: &'a [u8]) -> Result<&'a [u8]> {
    let mut rest = entry;
    for part in &index.columns {
        skip(table.columns[part.column].ty.ty, part.descending, false, &mut rest)?;
    }
    Ok(rest)
}

/// The bytes of a row's key, if all keys of the table have as many.
#[inline]
fn key_bytes(table: &Table) -> Option<usize> {
    let columns = &table.primary_key.as_ref()?.columns;
    columns.iter().map(|&column| fixed_bytes(table.columns[column].ty.ty)).sum()
}

/// Whether there is a NULL among an entry's encoded columns, so that no other one is equal to it.
///
/// # Errors
/// The entry is damaged.
pub fn has_null_marker(table: &Table, index: &Index, values: &[u8]) -> Result<bool> {
    if index.nulls_not_distinct {
        return Ok(false);
    }
    let mut rest = values;
    for part in &index.columns {
        if rest.first().is_some_and(|&marker| marker != NOT_NULL) {
            return Ok(true);
        }
        skip(table.columns[part.column].ty.ty, part.descending, false, &mut rest)?;
    }
    Ok(false)
}

/// Reads an entry's encoded columns into a row, as far as they can be read: for messages.
pub fn decode_values(table: &Table, index: &Index, values: &[u8], row: &mut [Datum]) {
    let mut rest = values;
    for part in &index.columns {
        let ty = table.columns[part.column].ty.ty;
        let Ok(value) = key::decode(ty, part.descending, part.nulls_first, false, &mut rest) else { return };
        row[part.column] = value;
    }
}

/// The bytes of a value in a key behind its marker, if all values of the type have as many.
#[inline]
fn fixed_bytes(ty: Type) -> Option<usize> {
    Some(match ty.base() {
        Type::Bool => 1,
        Type::Int2 => 2,
        Type::Int4 | Type::Oid | Type::Date | Type::Float4 => 4,
        Type::Int8 | Type::Time | Type::Timestamp | Type::TimestampTz | Type::Float8 => 8,
        Type::Interval => 10,
        Type::TimeTz => 12,
        Type::Uuid => 16,
        _ => return None,
    })
}

/// Moves `input` behind a column of a key; see [`colibri_types::key`] for the bytes.
#[inline]
fn skip(ty: Type, descending: bool, not_null: bool, input: &mut &[u8]) -> Result<()> {
    if !not_null {
        let (&marker, rest) = input.split_first().ok_or_else(|| damaged("a key is too short"))?;
        *input = rest;
        if marker != NOT_NULL {
            return Ok(());
        }
    }
    if let Some(bytes) = fixed_bytes(ty) {
        *input = input.get(bytes..).ok_or_else(|| damaged("a key is too short"))?;
        return Ok(());
    }
    let bytes = match ty.base() {
        Type::Char
        | Type::Varchar
        | Type::Text
        | Type::Name
        | Type::Unknown
        | Type::Bytea
        | Type::Jsonb
        | Type::TsQuery
        | Type::Citext
        | Type::Composite(_) => {
            let end = if descending { u8::MAX } else { 0 };
            let text = input.iter().position(|&byte| byte == end);
            text.ok_or_else(|| damaged("a key's text has no end"))? + 1
        }
        _ => {
            return key::decode(ty, descending, false, true, input).map(|_| ());
        }
    };
    *input = input.get(bytes..).ok_or_else(|| damaged("a key is too short"))?;
    Ok(())
}

/// The first columns of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// What they take of the key.
    pub bytes: usize,
    /// Whether one of them is NULL.
    pub has_null: bool,
}

/// How many bytes the first `columns` columns of a key take: of an index' entry, or of a row's key.
///
/// # Errors
/// The key is damaged.
pub fn prefix_bytes(table: &Table, index: Option<&Index>, columns: usize, key: &[u8]) -> Result<usize> {
    prefix_of(table, index, columns, key).map(|prefix| prefix.bytes)
}

/// The first `columns` columns of a key.
///
/// # Errors
/// As [`prefix_bytes`].
pub fn prefix_of(table: &Table, index: Option<&Index>, columns: usize, key: &[u8]) -> Result<Prefix> {
    let mut rest = key;
    let mut has_null = false;
    match index {
        Some(index) => {
            for part in &index.columns[..columns] {
                has_null |= rest.first().is_some_and(|&marker| marker != key::NOT_NULL);
                skip(table.columns[part.column].ty.ty, part.descending, false, &mut rest)?;
            }
        }
        None => {
            for &column in &table.key_columns()[..columns] {
                skip(table.columns[column].ty.ty, false, true, &mut rest)?;
            }
        }
    }
    Ok(Prefix { bytes: key.len() - rest.len(), has_null })
}

/// All keys that begin with a prefix.
pub fn prefix_range(prefix: Key) -> KeyRange {
    let high = key::prefix_end(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
    KeyRange { low: Bound::Included(prefix), high }
}

/// All keys that begin with a prefix of whole columns, and in which the column behind these is not
/// NULL: of an index, or of a table's own key, which has no NULLs.
pub fn not_null_range(index: Option<&Index>, mut prefix: Key) -> KeyRange {
    if index.is_some() {
        prefix.push(NOT_NULL);
    }
    prefix_range(prefix)
}

/// The whole of a space.
pub fn whole_range() -> KeyRange {
    KeyRange { low: Bound::Unbounded, high: Bound::Unbounded }
}

/// Whether an index' entries give a column exactly: all that a covering scan may ask for.
pub fn is_covered(table: &Table, index: &Index, column: usize) -> bool {
    if column == table.columns.len() {
        return table.primary_key.is_none();
    }
    let ty = table.columns[column].ty.ty;
    key::is_exact(ty) && (index.columns.iter().any(|part| part.column == column) || is_in_key(table, column))
}

/// Reads given columns from an index' entries alone.
#[derive(Debug)]
pub struct IndexReader {
    steps: SmallVec<[KeyStep; 4]>,
    key: KeyReader,
}

impl IndexReader {
    /// A reader of some columns, each named once; `None` if the entries do not give them all
    /// exactly.
    pub fn new(table: &Table, index: &Index, columns: &[usize]) -> Option<Self> {
        if !columns.iter().all(|&column| is_covered(table, index, column)) {
            return None;
        }
        let mut found = vec![false; columns.len()];
        let mut steps = SmallVec::new();
        for part in &index.columns {
            let ty = table.columns[part.column].ty.ty;
            let out = columns.iter().position(|&wanted| wanted == part.column).filter(|_| key::is_exact(ty));
            let out = out.filter(|&out| !std::mem::replace(&mut found[out], true));
            let (descending, nulls_first) = (part.descending, part.nulls_first);
            steps.push(KeyStep { ty, descending, nulls_first, not_null: false, out });
        }
        // What the index' own columns give is not looked for in the row's key again.
        let others: SmallVec<[usize; 8]> =
            columns.iter().zip(&found).map(|(&column, &found)| if found { ELSEWHERE } else { column }).collect();
        Some(Self { steps, key: KeyReader::new(table, &others, &|_| true) })
    }

    /// Reads an entry into the first places of `out`, as many as there are columns. Gives the row's
    /// key.
    ///
    /// # Errors
    /// The entry is damaged.
    #[inline]
    pub fn read<'a>(&self, entry: &'a [u8], out: &mut [Datum]) -> Result<&'a [u8]> {
        let mut rest = entry;
        for step in &self.steps {
            step.take(&mut rest, out)?;
        }
        self.key.read(rest, out)?;
        Ok(rest)
    }
}

//! Rows of a table into column vectors: of each row the columns that are wanted.
//!
//! Invariants: a row is read as [`RowReader`] would read it, or not at all. A `RowReader` reads rare
//! cases: rows of an older layout, and columns that are in the key. The reader refuses damaged rows
//! and values that a vector cannot hold. Its caller then reads these rows one by one.

use std::sync::Arc;

use colibri_types::column_vector::ColumnVector;
use colibri_types::{Datum, Result};
use smallvec::SmallVec;

use crate::objects::{Table, TableLayout};
use crate::record::{RowReader, is_in_key};
use crate::row::RowFormat;

/// Reads given columns of a table's rows into column vectors.
#[derive(Debug)]
pub struct ColumnReader {
    layout: Arc<TableLayout>,
    /// The newest, which is the one of nearly all rows.
    generation: u16,
    /// What values of that generation hold: the format's column, and the vector's place.
    in_value: SmallVec<[(usize, usize); 8]>,
    /// What is not in these values, and the vectors' places.
    elsewhere: Option<(RowReader, SmallVec<[usize; 4]>)>,
    /// Reads all of the columns, of rows of other generations.
    all: RowReader,
    width: usize,
}

impl ColumnReader {
    /// A reader of some columns, each named once, with empty vectors for them; `None` if some have
    /// no vectors.
    #[must_use]
    pub fn new(table: &Table, columns: &[usize]) -> Option<(Self, Vec<ColumnVector>)> {
        let layout = Arc::clone(table.layout.as_ref()?);
        let stored = layout.stored.last()?;
        let (mut in_value, mut elsewhere, mut places) = (SmallVec::new(), Vec::new(), SmallVec::new());
        let mut vectors = Vec::with_capacity(columns.len());
        for (place, &column) in columns.iter().enumerate() {
            let known = table.columns.get(column).filter(|known| !known.dropped)?;
            vectors.push(ColumnVector::of_type(known.ty.ty)?);
            match stored.iter().position(|&other| other == column).filter(|_| !is_in_key(table, column)) {
                Some(of_format) => in_value.push((of_format, place)),
                None => {
                    elsewhere.push(column);
                    places.push(place);
                }
            }
        }
        let reader = Self {
            generation: (layout.stored.len() - 1) as u16,
            in_value,
            elsewhere: (!elsewhere.is_empty()).then(|| (RowReader::new(table, &elsewhere), places)),
            all: RowReader::new(table, columns),
            width: columns.len(),
            layout,
        };
        Some((reader, vectors))
    }

    /// The bytes that a row's values take when they are read.
    #[inline]
    #[must_use]
    pub fn expanded_bytes(&self, value: &[u8]) -> usize {
        self.layout.expanded_bytes(value)
    }

    /// Adds a row to the vectors, one for each column; `false` if one of them does not take its
    /// value, or the value is damaged. Some of the vectors may have a value more then. `scratch` is
    /// room for values.
    ///
    /// # Errors
    /// The row is damaged.
    #[inline]
    pub fn read(&self, key: &[u8], value: &[u8], scratch: &mut Vec<Datum>, out: &mut [ColumnVector]) -> Result<bool> {
        if RowFormat::generation_of(value)? != self.generation {
            scratch.resize(self.width, Datum::Null);
            self.all.read(key, value, scratch)?;
            return Ok(scratch.iter().zip(out).all(|(value, vector)| vector.push(value)));
        }
        if let Some((reader, places)) = &self.elsewhere {
            scratch.resize(places.len(), Datum::Null);
            reader.read(key, value, scratch)?;
            if !scratch.iter().zip(places).all(|(value, &place)| out[place].push(value)) {
                return Ok(false);
            }
        }
        self.layout.formats[usize::from(self.generation)].push_columns(value, &self.in_value, out)
    }
}

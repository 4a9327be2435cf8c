//! A row's values into column vectors, without values in between.

use colibri_types::Result;
use colibri_types::column_vector::ColumnVector;
use colibri_types::interval::DAY_US;

use super::{Form, RowFormat, fixed, is_null_at};

impl RowFormat {
    /// Adds columns of a row of this format to vectors: of each pair the format's column, and the
    /// vector's place in `out`. `false` if a vector does not take its value, or the value is
    /// damaged; some of the vectors may have a value more then.
    ///
    /// # Errors
    /// The row is damaged.
    #[inline]
    pub fn push_columns(&self, row: &[u8], columns: &[(usize, usize)], out: &mut [ColumnVector]) -> Result<bool> {
        let parts = self.parts(row)?;
        for &(column, place) in columns {
            let vector = &mut out[place];
            if is_null_at(row, column) {
                vector.push_null();
                continue;
            }
            let slot = self.slots[column];
            let at = slot.place as usize;
            if parts.compressed && slot.form.width().is_none() && self.is_compressed(parts, at)? {
                if !vector.push(&self.value(parts, column)?) {
                    return Ok(false);
                }
                continue;
            }
            let is_taken = match slot.form {
                Form::Int4 | Form::Date => vector.push_word(i64::from(i32::from_le_bytes(fixed(row, at)?))),
                Form::Int8 | Form::Timestamp => vector.push_word(i64::from_le_bytes(fixed(row, at)?)),
                Form::Int2 => vector.push_word(i64::from(i16::from_le_bytes(fixed(row, at)?))),
                Form::Oid => vector.push_word(i64::from(u32::from_le_bytes(fixed(row, at)?))),
                Form::Time => match i64::from_le_bytes(fixed(row, at)?) {
                    time @ 0..=DAY_US => vector.push_word(time),
                    _ => false,
                },
                Form::Float8 => vector.push_float(f64::from_le_bytes(fixed(row, at)?)),
                Form::Float4 => vector.push_float(f64::from(f32::from_le_bytes(fixed(row, at)?))),
                Form::Bool => match fixed::<1>(row, at)?[0] {
                    byte @ 0..=1 => vector.push_truth(byte == 1),
                    _ => false,
                },
                Form::Numeric => vector.push_stored_decimal(self.varying_bytes(parts, at)?),
                Form::Text => {
                    let bytes = self.varying_bytes(parts, at)?;
                    (bytes.is_ascii() || std::str::from_utf8(bytes).is_ok()) && vector.push_text(bytes)
                }
                _ => false,
            };
            if !is_taken {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

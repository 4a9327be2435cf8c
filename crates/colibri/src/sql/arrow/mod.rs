//! Rows as columns of Apache Arrow, handed over without copies by its C data interface: to pyarrow,
//! polars, pandas, DuckDB and whatever else reads [`ArrowArrayStream`]s.
//!
//! | type of SQL | type of Arrow |
//! | --- | --- |
//! | `boolean` | bool |
//! | `smallint`, `integer`, `bigint`, `oid` | int16, int32, int64, uint32 |
//! | `real`, `double precision` | float32, float64 |
//! | `numeric(p,s)` with `p` up to 38 and `s` from 0 | decimal128(p,s) |
//! | `text`, `varchar`, `char`, `name`, and every type not listed | utf8: PostgreSQL's text |
//! | `json`, `jsonb` | utf8, with the extension `arrow.json` |
//! | `bytea` | binary |
//! | `date` | date32 |
//! | `time`, `timestamp`, `timestamptz` | time64(us), timestamp(us), timestamp(us, UTC) |
//! | `interval` | month_day_nano_interval |
//! | `uuid` | fixed_size_binary(16), with the extension `arrow.uuid` |
//! | arrays of these | list |
//!
//! What Arrow has no place for is an error, never another value: `infinity` as a date (22008), NaN
//! as a decimal (22003), an interval whose nanoseconds do not fit (22008), an array of several
//! dimensions (0A000). Cast such columns to `text`.
//!
//! | file | what |
//! | --- | --- |
//! | `build` | columns from rows |
//! | `abi` | the three structs of the C data interface, and what owns their memory |

mod abi;
mod build;

pub use abi::{ArrowArray, ArrowArrayStream, ArrowSchema};

use std::sync::Arc;

use colibri_sql::Env;

use super::running::RowBlock;
use super::{Column, Connection, Error, Result};
use build::Batch;

/// Rows of a batch, at least, unless the result is at its end.
const BATCH_ROWS_MIN: usize = 64 * 1024;
/// Bytes of a batch after which it takes no further block.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// A stream of rows as Arrow's record batches.
///
/// `columns` are those of the rows, and `connection` is the one whose settings say how values look
/// that become texts. `next` gives blocks of rows, `None` at the end; it is called by whatever
/// thread reads the stream, one call at a time, and is dropped at the end, after an error, and with
/// the stream. Consumers get the text of an error; `failed` is called with all of it.
pub fn stream(
    columns: &[Column],
    connection: &Connection,
    next: impl FnMut() -> Result<Option<RowBlock>> + Send + 'static,
    failed: impl Fn(&Error) + Send + 'static,
) -> ArrowArrayStream {
    let (schema, columns) = (build::schema(columns), Arc::<[Column]>::from(columns));
    let env = connection.env().clone();
    let mut source = Some(next);
    let next_batch = move || {
        let Some(next) = &mut source else { return Ok(None) };
        match gathered(&columns, &env, next) {
            Ok((batch, is_over)) => {
                if is_over {
                    source = None;
                }
                Ok((batch.rows() > 0).then(|| batch.finish()))
            }
            Err(error) => {
                source = None;
                failed(&error);
                Err(error)
            }
        }
    };
    ArrowArrayStream::new(schema, next_batch)
}

/// A batch of enough rows, and whether it is the last.
fn gathered(
    columns: &[Column],
    env: &Env,
    next: &mut impl FnMut() -> Result<Option<RowBlock>>,
) -> Result<(Batch, bool)> {
    let mut batch = Batch::new(columns);
    while batch.rows() < BATCH_ROWS_MIN && batch.bytes() < BATCH_BYTES_MAX {
        match next()? {
            Some(block) => batch.append(&block, env)?,
            None => return Ok((batch, true)),
        }
    }
    Ok((batch, false))
}

/// Rows that came together, with the schema of their columns.
///
/// # Errors
/// Those of values for which Arrow has no place.
pub fn batch_of(block: &RowBlock, connection: &Connection) -> Result<(ArrowSchema, ArrowArray)> {
    let mut batch = Batch::new(block.columns());
    batch.append(block, connection.env())?;
    Ok((build::schema(block.columns()).to_c(), batch.finish().into_c()))
}

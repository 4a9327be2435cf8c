//! How a value is stored: what `pg_column_compression` and `pg_column_size` tell of a column of a table.

use colibri_catalog::{record, store_error::InSql as _};
use colibri_txn::Transaction;
use colibri_types::{Datum, Error, Result};

use super::own::Own;

impl Own {
    /// The method by which a value is compressed in its row, or the bytes that it takes there; NULL
    /// of one that is not compressed, and if there is no such row.
    ///
    /// `args`: the number of the table that has the row, that of the table in FROM, the place of the
    /// column in the latter, and the row's key.
    pub(super) fn stored_form(&self, txn: &mut dyn Transaction, name: &str, args: &[Datum]) -> Result<Datum> {
        let [Datum::Int(of_rows), Datum::Int(named), Datum::Int(column), key @ ..] = args else {
            return Ok(Datum::Null);
        };
        let table = |id: i64| u32::try_from(id).ok().and_then(|id| self.catalog.table(id));
        let (Some(table), Some(named)) = (table(*of_rows), table(*named)) else { return Ok(Datum::Null) };
        // Partitions and heirs may have their columns in another order.
        let known = usize::try_from(*column).ok().and_then(|column| named.columns.get(column));
        let Some(column) = known.and_then(|column| table.column(&column.name)) else { return Ok(Datum::Null) };
        if key.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        if table.primary_key.is_some() != named.primary_key.is_some() {
            return Err(Error::unsupported(
                "how values are stored in a table with another key than the one it inherits from",
            ));
        }
        let key = record::key_from_values(table, key)?;
        let Some(row) = txn.peek(&table.space(), &key).in_sql()? else { return Ok(Datum::Null) };
        Ok(match (table.layout().compressed_bytes(row, column)?, name) {
            (None, _) => Datum::Null,
            (Some(bytes), "pg_column_size") => Datum::Int(bytes as i64),
            (Some(_), _) => Datum::text("lz4"),
        })
    }
}

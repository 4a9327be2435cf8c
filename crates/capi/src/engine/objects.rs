//! Databases, snapshots, write transactions, tables and tickets of C.

use std::sync::Arc;

use embedded::{Database, Snapshot, Table, Ticket, WriteTxn};

use crate::fault::Result;
use crate::fork::OfProcess;
use crate::handles::{Handle, Handles};

/// `colibri_kv`
pub(crate) struct Kv {
    pub(crate) database: OfProcess<Database>,
}

/// `colibri_snapshot`. Cursors keep it alive.
pub(crate) struct Snap {
    pub(crate) snapshot: OfProcess<Arc<Snapshot<'static>>>,
}

/// `colibri_txn`
pub(crate) struct Txn {
    pub(crate) txn: OfProcess<WriteTxn>,
}

/// `colibri_table`
pub(crate) struct Tab {
    pub(crate) table: Table,
}

/// `colibri_ticket`
pub(crate) struct Tick {
    pub(crate) ticket: OfProcess<Ticket>,
}

pub(crate) static DATABASES: Handles<Kv> = Handles::new(4);
pub(crate) static SNAPSHOTS: Handles<Snap> = Handles::new(5);
pub(crate) static TXNS: Handles<Txn> = Handles::new(6);
pub(crate) static TABLES: Handles<Tab> = Handles::new(7);
pub(crate) static TICKETS: Handles<Tick> = Handles::new(9);

/// Runs a function on a write transaction and a table.
pub(crate) fn in_txn<T>(
    txn: *mut Txn,
    table: *mut Tab,
    run: impl FnOnce(&mut WriteTxn, &Table) -> Result<T>,
) -> Result<T> {
    let table = table_of(table)?;
    TXNS.with(Handle::of(txn), |txn| run(txn.txn.get()?, &table))
}

/// Runs a function on a snapshot and a table.
pub(crate) fn in_snapshot<T>(
    snapshot: *mut Snap,
    table: *mut Tab,
    run: impl FnOnce(&Snapshot<'static>, &Table) -> Result<T>,
) -> Result<T> {
    let table = table_of(table)?;
    SNAPSHOTS.with(Handle::of(snapshot), |snapshot| run(snapshot.snapshot.get()?, &table))
}

/// The table of a handle, which other threads may use meanwhile.
pub(crate) fn table_of(table: *mut Tab) -> Result<Table> {
    TABLES.copy_of(Handle::of(table), |table| Ok(table.table.clone()))
}

/// The database of a handle, which other threads may use meanwhile.
pub(crate) fn database_of(kv: *mut Kv) -> Result<Database> {
    DATABASES.copy_of(Handle::of(kv), |kv| Ok(kv.database.get()?.clone()))
}

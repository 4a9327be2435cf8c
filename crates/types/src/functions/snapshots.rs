//! Functions of `pg_snapshot` and `txid_snapshot`.

use super::{Function, f, int, text};
use crate::array::Array;
use crate::error::Result;
use crate::positions::{of_u64, to_u64};
use crate::snapshots::Snapshot;
use crate::types::Type::{self, Bool, Int8, PgSnapshot, TxidSnapshot, Xid8};
use crate::value::Datum;

fn snapshot(ty: Type, value: &Datum) -> Result<Snapshot> {
    Snapshot::parse(ty, text(value)?)
}

fn number(txid: u64) -> Datum {
    Datum::Int(of_u64(txid))
}

/// The transactions that were at work, in an array of a type.
fn at_work(ty: Type, number_type: Type, value: &Datum) -> Result<Datum> {
    // Numbers of transactions are below 2⁶³ in a snapshot.
    let value_of = |txid: u64| if number_type == Xid8 { number(txid) } else { Datum::Int(txid as i64) };
    let values = snapshot(ty, value)?.at_work.into_iter().map(value_of).collect();
    Ok(Datum::Array(std::sync::Arc::new(Array::of_values(number_type, values)?)))
}

pub(super) const TABLE: &[Function] = &[
    f("pg_snapshot_xmin", &[PgSnapshot], Xid8, |a, _| Ok(number(snapshot(PgSnapshot, a[0])?.xmin))),
    f("pg_snapshot_xmax", &[PgSnapshot], Xid8, |a, _| Ok(number(snapshot(PgSnapshot, a[0])?.xmax))),
    f(".pg_snapshot_xip", &[PgSnapshot], Xid8.array_of(), |a, _| at_work(PgSnapshot, Xid8, a[0])),
    f("pg_visible_in_snapshot", &[Xid8, PgSnapshot], Bool, |a, _| {
        Ok(Datum::Bool(snapshot(PgSnapshot, a[1])?.sees(to_u64(int(a[0])?))))
    }),
    f("txid_snapshot_xmin", &[TxidSnapshot], Int8, |a, _| Ok(Datum::Int(snapshot(TxidSnapshot, a[0])?.xmin as i64))),
    f("txid_snapshot_xmax", &[TxidSnapshot], Int8, |a, _| Ok(Datum::Int(snapshot(TxidSnapshot, a[0])?.xmax as i64))),
    f(".txid_snapshot_xip", &[TxidSnapshot], Int8.array_of(), |a, _| at_work(TxidSnapshot, Int8, a[0])),
    f("txid_visible_in_snapshot", &[Int8, TxidSnapshot], Bool, |a, _| {
        Ok(Datum::Bool(snapshot(TxidSnapshot, a[1])?.sees(int(a[0])? as u64)))
    }),
];

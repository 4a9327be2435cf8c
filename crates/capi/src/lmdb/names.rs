//! Opening, dropping and describing databases.
//!
//! The table `lmdb-databases` has a record for each database that needs one: the unnamed one under
//! the byte 0, others under the byte 1 and their name. LMDB shows named databases as entries of the
//! unnamed one, under their names; programs find them by that. So each has an entry there too, whose
//! value is always [`MARK`].

use colibri_storage::{Error, Snapshot, Table, TableKind, WriteTxn};

use super::abi::{Code, Compare, Result, db_flag};
use super::env::{FREE_DBI, MAIN_DBI};
use super::order;
use super::table::{Db, Description, Shape};
use super::txn::Txn;

pub(crate) const MAIN_TABLE: &str = "lmdb";
const DESCRIPTIONS: &str = "lmdb-databases";

/// The value of a named database's entry in the unnamed one: as long as LMDB's, and nothing that a
/// program would store.
// ON DISK: never renumber.
pub(crate) const MARK: [u8; 48] = *b"\xc0\x11\xb4\x19named database of a Colibri environment\x00\x01\xfe\xff\x01";

/// Where descriptions are looked up.
pub(crate) enum In<'a> {
    Snapshot(&'a Snapshot<'a>),
    Write(&'a WriteTxn),
}

impl In<'_> {
    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = match self {
            Self::Snapshot(snapshot) => snapshot.get(table, key),
            Self::Write(txn) => txn.get(table, key),
        };
        match found {
            Err(Error::NoSuchTable { .. }) => Ok(None),
            found => Ok(found?.map(<[u8]>::to_vec)),
        }
    }
}

fn descriptions() -> Table {
    Table::named(DESCRIPTIONS, TableKind::Plain)
}

fn record_key(name: Option<&[u8]>) -> Vec<u8> {
    name.map_or_else(|| vec![0], |name| [&[1], name].concat())
}

/// What is kept of a database; `None` if there is none of this name.
pub(crate) fn description(within: &mut In<'_>, name: Option<&[u8]>) -> Result<Option<Description>> {
    let found = within.get(&descriptions(), &record_key(name))?;
    found.map(|found| Description::decode(&found)).transpose()
}

/// Stores what is kept of a database.
pub(crate) fn describe(txn: &mut WriteTxn, name: Option<&[u8]>, description: Description) -> Result<()> {
    let table = txn.create_table(DESCRIPTIONS, TableKind::Plain)?;
    Ok(txn.put(&table, &record_key(name), &description.encode())?)
}

/// The name of a named database's table. Bytes that are no text, and `%`, are written as `%` and two
/// digits.
fn table_name(name: &[u8]) -> String {
    let mut table = format!("{MAIN_TABLE}:");
    for part in name.utf8_chunks() {
        for sign in part.valid().chars() {
            if sign == '%' { table.push_str("%25") } else { table.push(sign) }
        }
        for byte in part.invalid() {
            table.push_str(&format!("%{byte:02x}"));
        }
    }
    table
}

/// Whether the unnamed database has entries for named ones at all, as far as a write transaction
/// sees.
pub(crate) fn has_named(txn: &WriteTxn) -> Result<bool> {
    match txn.view(&descriptions()) {
        Err(Error::NoSuchTable { .. }) => Ok(false),
        view => Ok(view?.count(&[1_u8][..]..)? > 0),
    }
}

/// Opens a database by name, or the unnamed one: its handle.
pub(crate) fn open(txn: &mut Txn, name: Option<&[u8]>, flags: u32) -> Result<u32> {
    if flags & !(db_flag::KEPT | db_flag::CREATE) != 0 {
        return Err(Code::INVAL);
    }
    txn.ensure_usable()?;
    let Some(name) = name else { return open_main(txn, flags) };
    // A handle that is open serves.
    if let Some(dbi) = txn.env().opened()?.find(name, |owner| txn.sees(owner))
        && txn.knows_or_finds(dbi)?
    {
        return Ok(dbi);
    }
    txn.env().opened()?.expect_room()?;
    let main = txn.state(MAIN_DBI)?.shape;
    if main.is_multi() || main.has(db_flag::INTEGERKEY) {
        return Err(if flags & db_flag::CREATE != 0 { Code::INCOMPATIBLE } else { Code::NOTFOUND });
    }
    if name.is_empty() || name.len() > super::abi::KEY_BYTES_MAX {
        return Err(Code::BAD_VALSIZE);
    }
    let (description, is_new) = match txn.description(Some(name))? {
        Some(found) => (found, false),
        None => {
            if txn.get_stored(MAIN_DBI, name)?.is_some() {
                return Err(Code::INCOMPATIBLE);
            }
            if flags & db_flag::CREATE == 0 {
                return Err(Code::NOTFOUND);
            }
            txn.ensure_writing()?;
            (Description { flags: flags & db_flag::KEPT, labels: false }, true)
        }
    };
    let table = table_name(name);
    if is_new {
        create(txn, name, &table, description, main)?;
    }
    // The name may have a handle from before it was dropped elsewhere.
    let opened = txn.env().opened()?;
    if let Some(old) = opened.find(name, |owner| txn.sees(owner)) {
        opened.close_dbi(old);
    }
    let owner = txn.serial();
    let dbi = opened.add(Db::new(Some(name.to_vec()), &table, description), owner)?;
    txn.note_new(dbi);
    Ok(dbi)
}

fn create(txn: &mut Txn, name: &[u8], table: &str, description: Description, main: Shape) -> Result<()> {
    let mut key = Vec::new();
    main.identity_onto(name, &mut key);
    txn.prepare_write(MAIN_DBI)?;
    let write = txn.write()?;
    write.create_table(table, TableKind::Plain)?;
    describe(write, Some(name), description)?;
    if main.labels {
        // The unnamed database has an order of the program's own.
        return super::write::put_entry(txn, MAIN_DBI, name, &MARK);
    }
    let main_table = Table::named(MAIN_TABLE, TableKind::Plain);
    txn.write()?.put(&main_table, &key, &MARK)?;
    txn.changed();
    Ok(())
}

fn open_main(txn: &mut Txn, flags: u32) -> Result<u32> {
    let wanted = flags & db_flag::KEPT;
    let shape = txn.state(MAIN_DBI)?.shape;
    if shape.flags | wanted != shape.flags && txn.is_writing() {
        let description = Description { flags: shape.flags | wanted, labels: shape.labels };
        // Its entries would lie otherwise.
        let is_same_layout = description.flags & !db_flag::DUPFIXED == shape.flags & !db_flag::DUPFIXED;
        if !is_same_layout && txn.entries(MAIN_DBI)? > 0 {
            return Err(Code::INCOMPATIBLE);
        }
        txn.redescribe(MAIN_DBI, description)?;
    }
    Ok(MAIN_DBI)
}

/// Empties a database, or removes it.
pub(crate) fn drop(txn: &mut Txn, dbi: u32, remove: bool) -> Result<()> {
    txn.ensure_usable()?;
    if dbi == FREE_DBI {
        return Err(Code::INVAL);
    }
    let db = txn.state(dbi)?.db.clone();
    txn.ensure_writing()?;
    txn.prepare_write(dbi)?;
    txn.flush_reserved(true)?;
    if dbi == MAIN_DBI {
        drop_all_named(txn)?;
    }
    txn.forget_cursors_of(dbi);
    match &db.name {
        Some(name) if remove => {
            let main = txn.state(MAIN_DBI)?.shape;
            remove_named(txn, name)?;
            if main.labels {
                super::write::delete_key(txn, MAIN_DBI, name)?;
            } else {
                let mut key = Vec::new();
                main.identity_onto(name, &mut key);
                txn.write()?.delete(&Table::named(MAIN_TABLE, TableKind::Plain), &key)?;
            }
            txn.changed();
            txn.env().opened()?.close_dbi(dbi);
        }
        _ => {
            match txn.write()?.clear_table(&db.table) {
                Err(Error::NoSuchTable { .. }) => {}
                cleared => cleared?,
            }
            txn.changed();
        }
    }
    Ok(())
}

/// Removes a named database's table and description.
fn remove_named(txn: &mut Txn, name: &[u8]) -> Result<()> {
    let write = txn.write()?;
    let table = Table::named(&table_name(name), TableKind::Plain);
    match write.drop_table(&table) {
        Err(Error::NoSuchTable { .. }) => {}
        dropped => dropped?,
    }
    write.delete(&descriptions(), &record_key(Some(name)))?;
    Ok(())
}

/// With the entries of the unnamed database go the databases that they stand for.
fn drop_all_named(txn: &mut Txn) -> Result<()> {
    let view = match txn.write()?.view(&descriptions()) {
        Err(Error::NoSuchTable { .. }) => return Ok(()),
        view => view?,
    };
    let mut named = Vec::new();
    for entry in view.range(&[1_u8][..]..)? {
        named.push(entry?.0[1..].to_vec());
    }
    std::mem::drop(view);
    for name in named {
        remove_named(txn, &name)?;
        let opened = txn.env().opened()?;
        if let Some(dbi) = opened.find(&name, |owner| txn.sees(owner)) {
            opened.close_dbi(dbi);
        }
    }
    Ok(())
}

/// Has keys, or values, compared by a function of the program.
pub(crate) fn set_compare(txn: &mut Txn, dbi: u32, compare: Option<Compare>, of_values: bool) -> Result<()> {
    let (db, shape) = {
        let state = txn.state(dbi)?;
        (state.db.clone(), state.shape)
    };
    if compare.is_none() || of_values && !shape.is_multi() {
        return Ok(());
    }
    if !shape.labels && txn.entries(dbi)? > 0 {
        // They are in another order, which this function may not share.
        return Err(Code::INCOMPATIBLE);
    }
    db.set_compare(compare, of_values);
    db.describe_as(Description { labels: true, ..shape.description() });
    txn.reshape(dbi)
}

/// The bound behind all entries of a key.
pub(crate) fn bound_behind(identity: &[u8]) -> Vec<u8> {
    let mut bound = identity.to_vec();
    order::make_bound_after(&mut bound);
    bound
}

//! Loading: the parts of a workload's data, by COPY, by several connections at once, each part in
//! one transaction that notes it. A load that was interrupted goes on where it was.
//!
//! ```text
//! bench_data   workload │ fingerprint │ complete       what the tables hold, or will
//! bench_part   workload │ part                         the parts that are there
//! ```
//!
//! Invariants
//! - A part is there as a whole, and noted, or neither.
//! - A part depends on its number, the seed and the scale alone, and not on the connection that
//!   loads it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use colibri_runtime::{Pool, sleep, spawn};

use crate::measure::{Error, Result};
use crate::sql::target::{Failure, Kind, Session, Target};
use crate::sql::workload::Workload;

/// Bytes of a COPY that are sent at once.
const PIECE_BYTES: usize = 128 << 10;
/// A part is tried again so often if others were in its way.
const TRIES: u32 = 10;

/// What is to be loaded.
pub(crate) trait Data: Send + Sync {
    /// Everything that the data depend on: another fingerprint, other data.
    fn fingerprint(&self) -> String;

    /// Statements that make the tables.
    fn tables(&self) -> Vec<String>;

    /// Statements for when all rows are there: indexes. They may be run twice.
    fn indexes(&self) -> Vec<String>;

    /// Names of the tables, those first that others refer to.
    fn table_names(&self) -> Vec<&'static str>;

    fn parts(&self) -> u32;

    /// Rows of all parts, about.
    fn rows(&self) -> u64;

    /// Makes the rows of a part.
    fn generate(&self, part: u32, rows: &mut PartRows);
}

/// The owner of loaded data.
pub(crate) trait Dataset: Send + Sync {
    /// Its name in `bench_data`.
    fn name(&self) -> &str;

    fn data(&self) -> Box<dyn Data + '_>;
}

impl Dataset for dyn Workload {
    fn name(&self) -> &str {
        Workload::name(self)
    }

    fn data(&self) -> Box<dyn Data + '_> {
        Workload::data(self)
    }
}

/// Rows of one table, as COPY takes them.
#[derive(Debug, Default)]
pub(crate) struct TableRows {
    /// The table and its columns: `t (a, b)`.
    pub(crate) into: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) rows: u64,
}

/// Rows of a part, a table at a time; or a statement by which the target makes them itself.
#[derive(Debug, Default)]
pub(crate) struct PartRows {
    tables: Vec<TableRows>,
    used: usize,
    statement: Option<String>,
}

impl PartRows {
    /// Forgets the rows, and keeps their room.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.statement = None;
    }

    pub(crate) fn set_statement(&mut self, statement: String) {
        self.statement = Some(statement);
    }

    /// What makes rows besides those of the tables.
    pub(crate) fn statement(&self) -> Option<&str> {
        self.statement.as_deref()
    }

    /// Begins a table, whose rows follow.
    pub(crate) fn table(&mut self, into: &'static str) -> &mut TableRows {
        if self.used == self.tables.len() {
            self.tables.push(TableRows::default());
        }
        let table = &mut self.tables[self.used];
        self.used += 1;
        table.into = into;
        table.bytes.clear();
        table.rows = 0;
        table
    }

    pub(crate) fn tables(&self) -> &[TableRows] {
        &self.tables[..self.used]
    }

    pub(crate) fn rows(&self) -> u64 {
        self.tables().iter().map(|table| table.rows).sum()
    }
}

impl TableRows {
    /// Ends a column.
    pub(crate) fn end_column(&mut self) {
        self.bytes.push(b'\t');
    }

    /// Ends a row behind its last column.
    pub(crate) fn end_row(&mut self) {
        match self.bytes.last_mut() {
            Some(last) if *last == b'\t' => *last = b'\n',
            _ => self.bytes.push(b'\n'),
        }
        self.rows += 1;
    }

    pub(crate) fn int(&mut self, value: i64) -> &mut Self {
        push_int(&mut self.bytes, value);
        self.end_column();
        self
    }

    /// An exact number with `digits` digits behind the point; not negative.
    pub(crate) fn decimal(&mut self, mantissa: u64, digits: u32) -> &mut Self {
        let unit = 10_u64.pow(digits);
        push_int(&mut self.bytes, (mantissa / unit) as i64);
        self.bytes.push(b'.');
        let start = self.bytes.len();
        self.bytes.resize(start + digits as usize, b'0');
        let mut rest = mantissa % unit;
        for byte in self.bytes[start..].iter_mut().rev() {
            *byte = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.end_column();
        self
    }

    pub(crate) fn text(&mut self, text: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(text);
        self.end_column();
        self
    }

    pub(crate) fn null(&mut self) -> &mut Self {
        self.text(b"\\N")
    }
}

/// Appends a number in decimal digits.
pub(crate) fn push_int(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// The statements of a file; a `;` at the end of a line ends one.
pub(crate) fn statements(text: &str) -> Vec<String> {
    text.split(";\n").map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

/// What a load came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Loaded {
    /// Loaded now; what was there before does not count.
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) parts_before: u32,
    pub(crate) took: Duration,
}

/// How far a load is.
#[derive(Debug, Default)]
pub(crate) struct LoadProgress {
    pub(crate) rows: AtomicU64,
    bytes: AtomicU64,
    next_part: AtomicU32,
}

fn failed(target: &dyn Target, failure: &Failure) -> Error {
    Error::target(target.name(), failure)
}

/// Brings data to a target, by as many connections as there are loaders. Data that are there
/// already are left as they are.
pub(crate) async fn load<D: Dataset + ?Sized + 'static>(
    target: &Arc<dyn Target>,
    workload: &Arc<D>,
    loaders: u32,
    progress: &Arc<LoadProgress>,
) -> Result<Loaded> {
    let begun = Instant::now();
    let mut loaded = Loaded { rows: 0, bytes: 0, parts_before: 0, took: Duration::ZERO };
    if has_no_data(&**workload) {
        return Ok(loaded);
    }
    let mut session = target.connect(&[]).await.map_err(|e| failed(&**target, &e))?;
    let there = begin(&mut session, &**workload).await.map_err(|e| failed(&**target, &e))?;
    let name = workload.name();
    let fingerprint = workload.data().fingerprint();
    match there {
        There::Other(other) => {
            return Err(Error::usage(format!(
                "{} holds other data: {other}, and not: {fingerprint}; use other flags, or another database, or drop its \
                 tables: {}, bench_data, bench_part",
                target.name(),
                workload.data().table_names().join(", ")
            )));
        }
        There::Foreign { table, workloads } => {
            let of =
                if workloads.is_empty() { String::new() } else { format!(", and data of {}", workloads.join(", ")) };
            return Err(Error::usage(format!(
                "{} has a table {table} already{of}: {name} needs a database of its own, or another --dir",
                target.name(),
            )));
        }
        There::Complete => loaded.parts_before = workload.data().parts(),
        There::Parts(parts) => {
            loaded.parts_before = parts.iter().filter(|&&is_there| is_there).count() as u32;
            load_parts(target, workload, loaders, progress, parts).await?;
            let mut finish: Vec<String> = workload.data().indexes();
            for table in workload.data().table_names() {
                finish.extend([format!("VACUUM {table}"), format!("ANALYZE {table}")]);
            }
            finish.push(format!("UPDATE bench_data SET complete = 1 WHERE workload = '{name}'"));
            let texts: Vec<&str> = finish.iter().map(String::as_str).collect();
            session.execute_all(&texts).await.map_err(|e| failed(&**target, &e))?;
        }
    }
    loaded.rows = progress.rows.load(Ordering::Relaxed);
    loaded.bytes = progress.bytes.load(Ordering::Relaxed);
    loaded.took = begun.elapsed();
    Ok(loaded)
}

/// Whether a workload takes what it finds.
fn has_no_data<D: Dataset + ?Sized>(workload: &D) -> bool {
    let data = workload.data();
    data.parts() == 0 && data.tables().is_empty()
}

/// Whether the data of a workload are all there.
///
/// # Errors
/// The target's; and if there is nothing, or something else.
pub(crate) async fn ensure_loaded<D: Dataset + ?Sized>(target: &dyn Target, workload: &D) -> Result<()> {
    if !target.keeps_data() || has_no_data(workload) {
        return Ok(());
    }
    let mut session = target.connect(&[]).await.map_err(|e| failed(target, &e))?;
    let sql = format!("SELECT fingerprint, complete FROM bench_data WHERE workload = '{}'", workload.name());
    let missing = || {
        Error::usage(format!(
            "{} holds no data of {}: load them first, by the step `load`",
            target.name(),
            workload.name()
        ))
    };
    let table = session.query(&sql).await.map_err(|failure| match failure.kind() {
        Kind::Refused => missing(),
        _ => failed(target, &failure),
    })?;
    let row = table.answer();
    let found = row.text(0, 0).ok_or_else(missing)?;
    let wanted = workload.data().fingerprint();
    if found != wanted.as_bytes() {
        let found = String::from_utf8_lossy(found);
        return Err(Error::usage(format!("{} holds other data: {found}, and not: {wanted}", target.name())));
    }
    if row.int(0, 1) != Some(1) {
        return Err(Error::usage(format!("a load of {} was interrupted: go on with it by `load`", workload.name())));
    }
    Ok(())
}

enum There {
    Other(String),
    /// A table of this name, which this workload has not made, and the workloads that have data
    /// here.
    Foreign {
        table: &'static str,
        workloads: Vec<String>,
    },
    Complete,
    /// Which parts are there.
    Parts(Vec<bool>),
}

/// Makes the tables, unless they are there.
async fn begin<D: Dataset + ?Sized>(session: &mut Session, workload: &D) -> std::result::Result<There, Failure> {
    let data = workload.data();
    let (name, fingerprint) = (workload.name(), data.fingerprint());
    session
        .execute_all(&[
            "CREATE TABLE IF NOT EXISTS bench_data (workload varchar(20) PRIMARY KEY, fingerprint varchar(200) NOT NULL, \
             complete int NOT NULL)",
            "CREATE TABLE IF NOT EXISTS bench_part (workload varchar(20) NOT NULL, part int NOT NULL, \
             PRIMARY KEY (workload, part))",
        ])
        .await?;
    let table =
        session.query(&format!("SELECT fingerprint, complete FROM bench_data WHERE workload = '{name}'")).await?;
    let row = table.answer();
    let Some(found) = row.text(0, 0) else {
        if let Some(foreign) = foreign(session, &*data).await? {
            return Ok(foreign);
        }
        let tables = data.tables();
        let texts: Vec<&str> = tables.iter().map(String::as_str).collect();
        session.execute_all(&texts).await?;
        session.query(&format!("INSERT INTO bench_data VALUES ('{name}', '{fingerprint}', 0)")).await?;
        return Ok(There::Parts(vec![false; data.parts() as usize]));
    };
    if found != fingerprint.as_bytes() {
        return Ok(There::Other(String::from_utf8_lossy(found).into_owned()));
    }
    if row.int(0, 1) == Some(1) {
        return Ok(There::Complete);
    }
    // All tables are made before the row of bench_data is, but one by one.
    let mut parts = vec![false; data.parts() as usize];
    let table = session.query(&format!("SELECT part FROM bench_part WHERE workload = '{name}'")).await?;
    for row in 0..table.answer().rows() {
        let part = table.answer().int(row, 0).and_then(|part| usize::try_from(part).ok());
        if let Some(is_there) = part.and_then(|part| parts.get_mut(part)) {
            *is_there = true;
        }
    }
    Ok(There::Parts(parts))
}

/// Whether a table that this workload needs was made by another workload or by other means.
async fn foreign(session: &mut Session, data: &dyn Data) -> std::result::Result<Option<There>, Failure> {
    for table in data.table_names() {
        match session.query(&format!("SELECT 1 FROM {table} LIMIT 1")).await {
            Err(failure) if failure.kind() == Kind::Refused => continue,
            found => drop(found?),
        }
        let others = session.query("SELECT workload FROM bench_data ORDER BY workload").await?;
        let rows = others.answer();
        let text = |row| String::from_utf8_lossy(rows.text(row, 0).unwrap_or_default()).into_owned();
        return Ok(Some(There::Foreign { table, workloads: (0..rows.rows()).map(text).collect() }));
    }
    Ok(None)
}

async fn load_parts<D: Dataset + ?Sized + 'static>(
    target: &Arc<dyn Target>,
    workload: &Arc<D>,
    loaders: u32,
    progress: &Arc<LoadProgress>,
    parts: Vec<bool>,
) -> Result<()> {
    let parts: Arc<[bool]> = parts.into();
    let tasks: Vec<_> = (0..loaders.max(1))
        .map(|_| {
            let (target, workload) = (Arc::clone(target), Arc::clone(workload));
            let (progress, parts) = (Arc::clone(progress), Arc::clone(&parts));
            spawn(Pool::User, async move { loader(&*target, &*workload, &progress, &parts).await })
        })
        .collect();
    let mut result = Ok(());
    for task in tasks {
        let outcome = task.await.map_err(|panic| Error::usage(format!("a loader has ended: {panic}")))?;
        if let Err(failure) = outcome {
            // The others find no more parts.
            progress.next_part.store(u32::MAX / 2, Ordering::Relaxed);
            result = Err(failed(&**target, &failure));
        }
    }
    result
}

/// Loads one part after the other, until there is none.
async fn loader<D: Dataset + ?Sized>(
    target: &dyn Target,
    workload: &D,
    progress: &LoadProgress,
    parts: &[bool],
) -> std::result::Result<(), Failure> {
    let mut session = target.connect(&[]).await?;
    let mut rows = PartRows::default();
    loop {
        let part = progress.next_part.fetch_add(1, Ordering::Relaxed);
        match parts.get(part as usize) {
            None => return Ok(()),
            Some(true) => continue,
            Some(false) => {}
        }
        rows.clear();
        // Nothing borrowed is kept over an await that need not be.
        workload.data().generate(part, &mut rows);
        let mut tries = 1;
        let made = loop {
            let failure = match load_part(&mut session, workload.name(), part, &rows).await {
                Ok(made) => break made,
                Err(failure) => failure,
            };
            _ = session.query("ROLLBACK").await;
            if failure.kind() != Kind::Conflict || tries == TRIES {
                return Err(failure);
            }
            sleep(Duration::from_millis(10 << tries)).await;
            tries += 1;
        };
        progress.rows.fetch_add(made, Ordering::Relaxed);
        let bytes = rows.tables().iter().map(|table| table.bytes.len() as u64).sum();
        progress.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Loads a part, and tells of how many rows.
async fn load_part(session: &mut Session, name: &str, part: u32, rows: &PartRows) -> std::result::Result<u64, Failure> {
    session.query("BEGIN").await?;
    for table in rows.tables() {
        session.copy_begin(&format!("COPY {} FROM STDIN", table.into)).await?;
        for piece in table.bytes.chunks(PIECE_BYTES) {
            session.copy_data(piece).await?;
        }
        let copied = session.copy_end().await?;
        if copied != table.rows {
            return Err(Failure::answer(format!("COPY took {copied} of {} rows into {}", table.rows, table.into)));
        }
    }
    let mut made = rows.rows();
    if let Some(statement) = rows.statement() {
        made += session.query(statement).await?.answer().affected();
    }
    session.query(&format!("INSERT INTO bench_part VALUES ('{name}', {part})")).await?;
    session.query("COMMIT").await?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_written_as_copy_reads_them() {
        let mut rows = PartRows::default();
        let table = rows.table("t (a)");
        table.int(-7).int(0).int(i64::MIN).decimal(5, 2).decimal(123_456, 4).text(b"x y").null();
        table.end_row();
        assert_eq!(table.bytes, b"-7\t0\t-9223372036854775808\t0.05\t12.3456\tx y\t\\N\n");
        assert_eq!(rows.rows(), 1);
        rows.clear();
        assert_eq!(rows.rows(), 0);
    }
}

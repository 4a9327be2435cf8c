//! Bringing the data to a server, unless they are there.

use super::data::{self, Scale};
use crate::measure::output::tell;
use crate::measure::{Error, Result};
use crate::sql::target::{Failure, Kind, Session, Target};
use crate::sql::workload::load::PartRows;

const SCHEMA: &str = include_str!("schema.sql");
const INDEXES: &str = include_str!("indexes.sql");
/// The name under which `bench_data` knows these data.
const NAME: &str = "shapes";
/// Bytes of a COPY that are sent at once.
const PIECE_BYTES: usize = 128 << 10;

/// # Errors
/// The target's; and if it holds other data.
pub(super) async fn load(target: &dyn Target, scale: Scale) -> Result<()> {
    let failed = |failure: Failure| Error::target(target.name(), failure);
    let mut session = target.connect(&[]).await.map_err(failed)?;
    match found(&mut session).await.map_err(failed)? {
        None => {}
        Some(there) if there == scale.fingerprint() => return Ok(()),
        Some(other) => {
            return Err(Error::usage(format!(
                "{} holds other data: {other}, and not: {}; use another --scale or another database",
                target.name(),
                scale.fingerprint()
            )));
        }
    }
    tell!("loading {} into {}", scale.fingerprint(), target.name());
    fill(&mut session, scale).await.map_err(failed)
}

/// What data of shapes are there as a whole.
async fn found(session: &mut Session) -> std::result::Result<Option<String>, Failure> {
    let sql = format!("SELECT fingerprint FROM bench_data WHERE workload = '{NAME}' AND complete = 1");
    match session.query(&sql).await {
        Ok(table) => Ok(table.answer().text(0, 0).map(|text| String::from_utf8_lossy(text).into_owned())),
        Err(failure) if failure.kind() == Kind::Refused => Ok(None),
        Err(failure) => Err(failure),
    }
}

async fn fill(session: &mut Session, scale: Scale) -> std::result::Result<(), Failure> {
    execute_all(session, SCHEMA).await?;
    let mut rows = PartRows::default();
    for table in data::TABLES.into_iter().chain([data::COUNTERS_TABLE]) {
        for part in 0..data::parts(table, scale) {
            rows.clear();
            data::generate(table, part, scale, &mut rows);
            let bytes: Vec<u8> = rows.tables().iter().flat_map(|table| &table.bytes).copied().collect();
            session.copy_begin(&format!("COPY {table} FROM STDIN")).await?;
            for piece in bytes.chunks(PIECE_BYTES) {
                session.copy_data(piece).await?;
            }
            let copied = session.copy_end().await?;
            if copied != rows.rows() {
                return Err(Failure::answer(format!("COPY took {copied} of {} rows into {table}", rows.rows())));
            }
        }
    }
    execute_all(session, INDEXES).await?;
    for table in data::TABLES {
        session.execute_all(&[&format!("VACUUM {table}"), &format!("ANALYZE {table}")]).await?;
    }
    let fingerprint = scale.fingerprint();
    session
        .execute_all(&[
            "CREATE TABLE IF NOT EXISTS bench_data (workload varchar(20) PRIMARY KEY, fingerprint varchar(200) NOT NULL, \
             complete int NOT NULL)",
            &format!("INSERT INTO bench_data VALUES ('{NAME}', '{fingerprint}', 1)"),
        ])
        .await
}

/// Runs the statements of a file; a `;` at the end of a line ends one.
async fn execute_all(session: &mut Session, text: &str) -> std::result::Result<(), Failure> {
    for statement in text.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
        session.execute_all(&[statement]).await?;
    }
    Ok(())
}

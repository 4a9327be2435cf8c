//! `colibri dump`: tables as text, in the format of LMDB's `mdb_dump`.

use std::io;
use std::path::PathBuf;

use clap::Args;
use colibri::{Database, Snapshot, dump};

use crate::database::open_to_read;
use crate::dump_sql;
use crate::failure::{Failure, Result};
use crate::key::KeyArgs;
use crate::new_file;

/// Write tables as text: in the format of LMDB's mdb_dump, or as SQL
///
/// The text is the database as of one moment, whatever writers do meanwhile. `colibri load` and
/// mdb_load read it, or psql and `colibri sql -f` with --sql. Only --sql knows the tables of SQL:
/// without it, those of a database for SQL are the engine's, which have other names. --sql opens
/// the database for SQL, so one that a server or a shell has in use is backed up, and the restored
/// copy is dumped. The text of an encrypted database is plain.
#[derive(Debug, Args)]
#[command(after_help = "Examples, any database (birds):\n  colibri dump birds | gzip > birds.dump.gz\n\n\
                        Of tables of keys and values (wings, as `colibri load` makes it from a dump of LMDB):\n  \
                        colibri dump wings --table wingbeats --output wingbeats.dump\n\n\
                        Of SQL (birds, as `colibri sql` makes it; nest, a server's directory):\n  \
                        colibri dump birds --sql --table wingbeats > wingbeats.sql\n  \
                        colibri dump nest/databases/postgres --sql | psql -h other -v ON_ERROR_STOP=1 -1 -f -\n  \
                        colibri dump nest/databases/postgres --sql --roles nest/cluster > all.sql")]
pub(crate) struct DumpArgs {
    /// Directory of the database
    dir: PathBuf,
    /// Table to write; may be given more than once [default: all tables]
    #[arg(long = "table", value_name = "NAME")]
    tables: Vec<String>,
    /// Branch to write instead of the main one
    #[arg(long, value_name = "BRANCH", conflicts_with = "sql")]
    branch: Option<String>,
    /// Write SQL that psql can load into another server
    #[arg(long)]
    sql: bool,
    /// Directory of a server's roles, `cluster`: write these as SQL, too, and owners and grants
    #[arg(long, value_name = "DIR", requires = "sql")]
    roles: Option<PathBuf>,
    /// File to make [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(args: &DumpArgs) -> Result<()> {
    if args.sql {
        return match &args.output {
            Some(path) => new_file::make(path, |out| {
                dump_sql::dump(&args.dir, &args.tables, args.roles.as_deref(), args.key.read()?, out)
            }),
            None => dump_sql::dump(
                &args.dir,
                &args.tables,
                args.roles.as_deref(),
                args.key.read()?,
                &mut io::stdout().lock(),
            ),
        };
    }
    let mut db = open_to_read(&args.dir, &args.key)?;
    if let Some(branch) = &args.branch {
        db = db.open_branch(branch).map_err(Failure::engine(&args.dir))?;
    }
    match &args.output {
        Some(path) => new_file::make(path, |out| write_to(&db, args, out)),
        None => write_to(&db, args, &mut io::stdout().lock()),
    }
}

fn write_to(db: &Database, args: &DumpArgs, out: &mut dyn io::Write) -> Result<()> {
    let names: Vec<&str> = args.tables.iter().map(String::as_str).collect();
    let tables = (!names.is_empty()).then_some(&names[..]);
    let snapshot = db.read().map_err(Failure::engine(&args.dir))?;
    dump::dump(&snapshot, tables, out).map_err(|source| match source {
        colibri::Error::NoSuchTable { name } if is_for_sql(&snapshot) => {
            Failure::NoTableOfTheEngine { dir: args.dir.clone(), name }
        }
        source => Failure::engine(&args.dir)(source),
    })
}

/// Whether SQL has made the tables of a database: its catalogue is among them.
fn is_for_sql(snapshot: &Snapshot) -> bool {
    snapshot.table("s0").is_ok()
}

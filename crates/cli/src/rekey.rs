//! `colibri rekey`: another key for an encrypted database, or for all those of a server.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use colibri::{Database, EncryptionKey, Error, Options};

use crate::database::{is_database, is_of_a_server};
use crate::failure::{Failure, Result};
use crate::key::{KeyArgs, Source};

/// Replace the key of an encrypted database, or of all databases in a server's directory
///
/// Nobody may have the database open. The data are not encrypted anew: the key that they are encrypted with
/// stays, and is from now on kept under the new key. So copies and backups that were made before still open
/// with the old one. If the command is interrupted, run it again.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  head -c 32 /dev/urandom > new.key && chmod 600 new.key\n  \
                        colibri rekey birds --key-file birds.key --new-key-file new.key")]
pub(crate) struct RekeyArgs {
    /// Directory of the database, or of a server
    dir: PathBuf,
    #[command(flatten)]
    key: KeyArgs,
    /// File with the new key: 32 bytes, or 64 hexadecimal digits
    #[arg(long, value_name = "FILE", conflicts_with_all = ["new_key_fd", "new_key_command"])]
    new_key_file: Option<PathBuf>,
    /// Open file descriptor to read the new key from
    #[arg(long, value_name = "NUMBER", conflicts_with = "new_key_command")]
    new_key_fd: Option<u32>,
    /// Command that prints the new key, as `sh` runs it
    #[arg(long, value_name = "COMMAND")]
    new_key_command: Option<String>,
}

pub(crate) fn run(args: &RekeyArgs) -> Result<()> {
    let new = Source::of(args.new_key_file.as_deref(), args.new_key_fd, args.new_key_command.as_deref());
    let (Some(old), Some(new)) = (args.key.read()?, new.map(Source::read).transpose()?) else {
        return Err(Failure::NoKey);
    };
    let (mut replaced, mut had_it) = (0, 0);
    for dir in databases(&args.dir)? {
        *(if rekey(&dir, &old, &new)? { &mut replaced } else { &mut had_it }) += 1;
    }
    let what = match (replaced, had_it) {
        (1, 0) => "its key was replaced".to_owned(),
        (0, 1) => "it has the new key already".to_owned(),
        (_, 0) => format!("{replaced} keys were replaced"),
        (0, _) => format!("all {had_it} have the new key already"),
        _ => format!("{replaced} keys were replaced, {had_it} had been before"),
    };
    writeln!(io::stdout(), "{}: {what}", args.dir.display())?;
    Ok(())
}

/// The directory itself, or the databases of a server. The server's own records come last: with the
/// old key in them, an interrupted command can be told from one that is done.
fn databases(dir: &Path) -> Result<Vec<PathBuf>> {
    if !is_of_a_server(dir) {
        return Ok(vec![dir.to_owned()]);
    }
    let inside = dir.join("databases");
    let entries = inside.read_dir().map_err(Failure::io("cannot look into", &inside))?;
    let mut found = Vec::new();
    for entry in entries {
        found.push(entry.map_err(Failure::io("cannot look into", &inside))?.path());
    }
    found.retain(|path| is_database(path));
    found.sort();
    found.push(dir.join("cluster"));
    Ok(found)
}

/// False: it has the new key already, from an interrupted command.
fn rekey(dir: &Path, old: &EncryptionKey, new: &EncryptionKey) -> Result<bool> {
    let open = |key: &EncryptionKey| Database::open(dir, &Options::new().create(false).encryption_key(key.clone()));
    let done = match open(old) {
        Err(Error::WrongKey { path }) => match open(new) {
            Err(Error::WrongKey { .. }) => Err(Error::WrongKey { path }),
            opened => opened.and_then(Database::close).map(|()| false),
        },
        opened => opened.and_then(|db| {
            db.set_encryption_key(new)?;
            db.close().map(|()| true)
        }),
    };
    done.map_err(Failure::engine(dir))
}

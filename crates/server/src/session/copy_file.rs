//! Files of the server's machine that COPY reads and writes, with PostgreSQL's errors.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use colibri_sql::{Error, SqlState};

/// Bytes that are read at once.
const PIECE_BYTES: u64 = 256 << 10;

/// A file that COPY reads or writes.
pub(super) struct File {
    file: fs::File,
    name: String,
}

/// The code of what the system says (`errcode_for_file_access` of PostgreSQL).
fn failed(what: &str, name: &str, error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "42501",
        io::ErrorKind::NotFound => "58P01",
        io::ErrorKind::AlreadyExists => "58P02",
        io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory | io::ErrorKind::DirectoryNotEmpty => "42809",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "53100",
        io::ErrorKind::OutOfMemory => "53200",
        _ => "58030",
    };
    let text = error.to_string();
    let reason = text.split(" (os error").next().unwrap_or_default();
    Error::new(SqlState(code), format!("could not {what} file \"{name}\": {reason}"))
}

fn opened(name: &str, way: &str, open: io::Result<fs::File>) -> Result<File, Error> {
    let what = format!("open file \"{name}\" for {way}");
    let does = if way == "reading" {
        "COPY FROM instructs the server to read"
    } else {
        "COPY TO instructs the server to write"
    };
    let hint = format!("{does} a file. You may want a client-side facility such as psql's \\copy.");
    let cannot = |error: &io::Error| {
        let told = failed("open", name, error);
        let reason = told.message().rsplit(": ").next().unwrap_or_default().to_owned();
        Error::new(told.state(), format!("could not {what}: {reason}")).hint(hint.clone())
    };
    let file = open.map_err(|error| cannot(&error))?;
    let about = file.metadata().map_err(|error| failed("stat", name, &error))?;
    if about.is_dir() {
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is a directory")));
    }
    Ok(File { file, name: name.to_owned() })
}

/// Opens a file to read it.
pub(super) fn open(name: &str) -> Result<File, Error> {
    opened(name, "reading", fs::File::open(name))
}

/// Creates a file, or empties the one that is there. Others may read it, and not write.
pub(super) fn create(name: &str) -> Result<File, Error> {
    opened(name, "writing", fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(name))
}

impl File {
    /// The next piece; nothing at the end.
    pub(super) fn read(&mut self) -> Result<Vec<u8>, Error> {
        let mut piece = Vec::new();
        let read = (&mut self.file).take(PIECE_BYTES).read_to_end(&mut piece);
        read.map_err(|error| failed("read", &self.name, &error))?;
        Ok(piece)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(|error| failed("write to", &self.name, &error))
    }
}

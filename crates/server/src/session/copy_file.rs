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

/// The code of what the system says, as PostgreSQL has it, and the reason in the system's words.
fn told(error: &io::Error) -> (SqlState, String) {
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
    (SqlState(code), text.split(" (os error").next().unwrap_or_default().to_owned())
}

fn failed(what: &str, name: &str, error: &io::Error) -> Error {
    let (code, reason) = told(error);
    Error::new(code, format!("could not {what} file \"{name}\": {reason}"))
}

fn opened(name: &str, way: &str, file: io::Result<fs::File>) -> Result<File, Error> {
    let file = file.map_err(|error| {
        let (code, reason) = told(&error);
        let does = if way == "reading" { "COPY FROM has the server read" } else { "COPY TO has the server write" };
        Error::new(code, format!("could not open file \"{name}\" for {way}: {reason}"))
            .hint(format!("{does} a file. For a file of the client there is psql's \\copy."))
    })?;
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

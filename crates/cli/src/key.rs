//! The key of an encrypted database, as commands take it: from a file, a descriptor or a command, and
//! never from the command line or the environment, which others can read.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use colibri::{EncryptionKey, Options};

use crate::failure::{Failure, Result};

/// Where the key of a database comes from, if it is encrypted.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct KeyArgs {
    /// File with the key of an encrypted database: 32 bytes, or 64 hexadecimal digits
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_fd", "key_command"])]
    key_file: Option<PathBuf>,
    /// Open file descriptor to read the key from
    #[arg(long, value_name = "NUMBER", conflicts_with = "key_command")]
    key_fd: Option<u32>,
    /// Command that prints the key, as `sh` runs it
    #[arg(long, value_name = "COMMAND")]
    key_command: Option<String>,
}

impl KeyArgs {
    /// Reads the key, if one was given.
    pub(crate) fn read(&self) -> Result<Option<EncryptionKey>> {
        Source::of(self.key_file.as_deref(), self.key_fd, self.key_command.as_deref()).map(Source::read).transpose()
    }

    /// Options with the key.
    pub(crate) fn add_to(&self, options: Options) -> Result<Options> {
        Ok(options.encryption_key(self.read()?))
    }
}

/// Where a key comes from.
pub(crate) enum Source<'a> {
    File(&'a Path),
    Descriptor(u32),
    Command(&'a str),
}

impl<'a> Source<'a> {
    /// The one that was given; clap has seen to it that there are no two.
    pub(crate) fn of(file: Option<&'a Path>, descriptor: Option<u32>, command: Option<&'a str>) -> Option<Self> {
        let command = command.map(Self::Command);
        file.map(Self::File).or(descriptor.map(Self::Descriptor)).or(command)
    }

    pub(crate) fn read(self) -> Result<EncryptionKey> {
        match self {
            Self::File(path) => EncryptionKey::from_file(path).map_err(|source| wrong(&path.display(), source)),
            Self::Descriptor(number) => {
                let path = PathBuf::from(format!("/dev/fd/{number}"));
                let mut file = File::open(&path).map_err(Failure::io("cannot open the key in", &path))?;
                EncryptionKey::read_from(&mut file, &path).map_err(|source| wrong(&path.display(), source))
            }
            Self::Command(command) => from_command(command),
        }
    }
}

fn from_command(command: &str) -> Result<EncryptionKey> {
    let path = Path::new(command);
    let failed = || Failure::io("cannot run the command that prints the key:", path);
    let shell = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = shell.map_err(failed())?;
    let mut output = child.stdout.take().expect("the output was asked for");
    let key = EncryptionKey::read_from(&mut output, path);
    // A command that has more to say than a key is told so by a closed pipe.
    drop(output);
    let status = child.wait().map_err(failed())?;
    if !status.success() {
        return Err(Failure::Key { place: command.to_owned(), reason: format!("the command ended with {status}") });
    }
    key.map_err(|source| wrong(&command, source))
}

/// What is wrong with a key, without a word of it.
fn wrong(source: &dyn std::fmt::Display, error: colibri::Error) -> Failure {
    let reason = match error {
        colibri::Error::InvalidOption { reason, .. } => format!("a key {reason}"),
        error => error.to_string(),
    };
    Failure::Key { place: source.to_string(), reason }
}

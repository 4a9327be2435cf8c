//! What a database may be told to be: one encoding, one locale and one place are all there are.

use colibri_syntax::tree::{DatabaseOption, RoleName};
use colibri_types::{Error, Result, SqlState};

/// What options say together.
#[derive(Default)]
pub(super) struct Wanted<'o> {
    pub(super) owner: Option<&'o RoleName>,
    pub(super) limit: Option<i32>,
    pub(super) allow: Option<bool>,
}

impl<'o> Wanted<'o> {
    /// # Errors
    /// 0A000 and others for what no database can be.
    pub(super) fn of(options: &'o [DatabaseOption]) -> Result<Self> {
        let mut wanted = Self::default();
        for option in options {
            match option {
                DatabaseOption::Owner(owner) => wanted.owner = Some(owner),
                DatabaseOption::ConnectionLimit(limit) => wanted.limit = Some(*limit),
                DatabaseOption::AllowConnections(allow) => wanted.allow = Some(*allow),
                DatabaseOption::IsTemplate(false) => {}
                DatabaseOption::IsTemplate(true) => return Err(Error::unsupported("a database that is a template")),
                DatabaseOption::Oid => {
                    return Err(Error::unsupported("a database with a number of one's choice"));
                }
                DatabaseOption::Other(name, value) => expect_option(name, value)?,
            }
        }
        Ok(wanted)
    }
}

/// Refuses what a database cannot be made with.
fn expect_option(option: &str, value: &str) -> Result<()> {
    let folded = value.to_ascii_lowercase();
    let accepted: &[&str] = match option {
        "TEMPLATE" => &["template0", "template1", "default"],
        "ENCODING" => &["utf8", "utf-8", "unicode", "default"],
        "LOCALE" | "LC_COLLATE" | "LC_CTYPE" => &["c", "posix", "c.utf-8", "c.utf8", "default"],
        "STRATEGY" => &["wal_log", "file_copy"],
        "TABLESPACE" => &["pg_default", "default"],
        "LOCALE_PROVIDER" => &["libc"],
        _ => &[],
    };
    if accepted.contains(&&*folded) {
        return Ok(());
    }
    Err(match option {
        "TEMPLATE" => Error::unsupported(format_args!("a database after the model of \"{value}\"")),
        "ENCODING" => Error::unsupported(format_args!("the encoding {value}")),
        "LOCALE" | "LC_COLLATE" | "LC_CTYPE" => Error::unsupported(format_args!("the locale {value}")),
        "STRATEGY" => {
            let message = format!("invalid create database strategy \"{value}\"");
            Error::new(SqlState::BAD_PARAMETER, message).hint("Valid strategies are \"wal_log\", and \"file_copy\".")
        }
        "TABLESPACE" => Error::new(SqlState::NO_SUCH_OBJECT, format!("tablespace \"{value}\" does not exist")),
        _ => Error::unsupported(format_args!("{option} {value} of a database")),
    })
}

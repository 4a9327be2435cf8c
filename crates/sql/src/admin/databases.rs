//! What a database may be told to be: one encoding and one place are all there are.

use colibri_catalog::cluster::DatabaseLocale;
use colibri_syntax::tree::{DatabaseOption, RoleName};
use colibri_types::{CompactString, Error, Result, SqlState, collation};

/// What options say together.
#[derive(Default)]
pub(super) struct Wanted<'o> {
    pub(super) owner: Option<&'o RoleName>,
    pub(super) limit: Option<i32>,
    pub(super) allow: Option<bool>,
    /// Its locale; `None` is `C`.
    pub(super) locale: Option<DatabaseLocale>,
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
        wanted.locale = locale_of(options)?;
        Ok(wanted)
    }
}

/// The locale of a new database; `None` is `C`.
fn locale_of(options: &[DatabaseOption]) -> Result<Option<DatabaseLocale>> {
    let value = |wanted: &str| {
        options.iter().rev().find_map(|option| match option {
            DatabaseOption::Other(name, value) if *name == wanted && value != "default" => Some(value.as_str()),
            _ => None,
        })
    };
    let wrong = |message: &str| Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
    let is_empty_template = value("TEMPLATE").is_some_and(|template| template.eq_ignore_ascii_case("template0"));
    if value("LOCALE").is_some() && (value("LC_COLLATE").is_some() || value("LC_CTYPE").is_some()) {
        let error = Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options");
        return Err(error.detail("LOCALE cannot be specified together with LC_COLLATE or LC_CTYPE."));
    }
    let is_icu = value("LOCALE_PROVIDER").is_some_and(|provider| provider.eq_ignore_ascii_case("icu"));
    let icu = match (is_icu, value("ICU_LOCALE")) {
        (false, Some(_)) => return wrong("ICU locale cannot be specified unless locale provider is ICU"),
        (true, None) => return wrong("ICU locale must be specified"),
        (_, icu) => icu,
    };
    let named = |name: &str, usual: &str| value(name).or_else(|| value("LOCALE")).unwrap_or(usual).to_owned();
    let (collate, ctype) = (named("LC_COLLATE", "C"), named("LC_CTYPE", "C.UTF-8"));
    for name in [&collate, &ctype] {
        if !is_of_bytes(name) && collation::builtin_locale(name).is_none() {
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("invalid locale name: \"{name}\"")));
        }
    }
    if let Some(locale) = icu {
        collation::check_locale(locale)?;
        if !is_empty_template {
            let message = "new locale provider (icu) does not match locale provider of the template database (libc)";
            return Err(Error::new(SqlState::BAD_PARAMETER, message)
                .hint("Use the same locale provider as in the template database, or use template0 as template."));
        }
    }
    let order = match icu {
        Some(locale) => Some(locale),
        None => Some(&*collate).filter(|name| !is_of_bytes(name)).and_then(collation::builtin_locale),
    };
    if order.is_some() && !is_empty_template {
        let message =
            format!("new collation ({collate}) is incompatible with the collation of the template database (C)");
        let hint = "Use the same collation as in the template database, or use template0 as template.";
        return Err(Error::new(SqlState::BAD_PARAMETER, message).hint(hint));
    }
    if order.is_none() && (&*collate, &*ctype) == ("C", "C.UTF-8") {
        return Ok(None);
    }
    let order = order.map(CompactString::from);
    Ok(Some(DatabaseLocale { order, collate: collate.into(), ctype: ctype.into(), is_icu }))
}

/// Whether texts are compared by their bytes in a locale.
fn is_of_bytes(locale: &str) -> bool {
    matches!(&*locale.to_ascii_lowercase(), "c" | "posix" | "c.utf-8" | "c.utf8" | "default")
}

/// Refuses what a database cannot be made with.
fn expect_option(option: &str, value: &str) -> Result<()> {
    let folded = value.to_ascii_lowercase();
    let accepted: &[&str] = match option {
        "TEMPLATE" => &["template0", "template1", "default"],
        "ENCODING" => &["utf8", "utf-8", "unicode", "default", "6"],
        "LOCALE" | "LC_COLLATE" | "LC_CTYPE" if is_of_bytes(value) || collation::builtin_locale(value).is_some() => {
            return Ok(());
        }
        "ICU_LOCALE" | "COLLATION_VERSION" => return Ok(()),
        "STRATEGY" => &["wal_log", "file_copy"],
        "TABLESPACE" => &["pg_default", "default"],
        "LOCALE_PROVIDER" => &["libc", "icu"],
        _ => &[],
    };
    if accepted.contains(&&*folded) {
        return Ok(());
    }
    Err(match option {
        "TEMPLATE" => Error::unsupported(format_args!("a database after the model of \"{value}\"")),
        "ENCODING" if !is_encoding(value) => {
            Error::new(SqlState::NO_SUCH_OBJECT, format!("{value} is not a valid encoding name"))
        }
        "ENCODING" => Error::unsupported(format_args!("the encoding {value}")),
        "LOCALE" | "LC_COLLATE" | "LC_CTYPE" => {
            Error::new(SqlState::WRONG_OBJECT_TYPE, format!("invalid locale name: \"{value}\""))
        }
        "LOCALE_PROVIDER" => {
            Error::new(SqlState::BAD_OBJECT_DEFINITION, format!("unrecognized locale provider: {value}"))
        }
        "STRATEGY" => {
            let message = format!("invalid create database strategy \"{value}\"");
            Error::new(SqlState::BAD_PARAMETER, message).hint("Valid strategies are \"wal_log\", and \"file_copy\".")
        }
        "TABLESPACE" => Error::new(SqlState::NO_SUCH_OBJECT, format!("tablespace \"{value}\" does not exist")),
        _ => Error::unsupported(format_args!("{option} {value} of a database")),
    })
}

/// Whether PostgreSQL knows an encoding by a name.
fn is_encoding(name: &str) -> bool {
    const NAMES: &str = "sqlascii eucjp euccn euckr euctw eucjis2004 muleinternal latin1 latin2 latin3 latin4 latin5 \
        latin6 latin7 latin8 latin9 latin10 iso88595 iso88596 iso88597 iso88598 win1250 win1251 win1252 win1253 \
        win1254 win1255 win1256 win1257 win1258 win866 win874 koi8r koi8u koi8 windows1250 windows1251 windows1252 \
        windows1253 windows1254 windows1255 windows1256 windows1257 windows1258 windows866 windows874 iso88591 \
        iso88592 iso88593 iso88594 iso88599 iso885910 iso885913 iso885914 iso885915 iso885916 win abc alt tcvn \
        tcvn5712 vscii utf8 unicode";
    let bare: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    NAMES.split_ascii_whitespace().any(|known| known == bare)
}

//! What a database may be told to be: one encoding and one place are all there are.

use colibri_catalog::cluster::{DatabaseInfo, DatabaseLocale, Template, storage_time};
use colibri_syntax::tree::{AsOf, DatabaseOption, RoleName};
use colibri_types::encoding::Encoding;
use colibri_types::{CompactString, Env, Error, Result, SqlState, collation};

/// What options say together.
#[derive(Default)]
pub(super) struct Wanted<'o> {
    pub(super) owner: Option<&'o RoleName>,
    pub(super) limit: Option<i32>,
    pub(super) allow: Option<bool>,
    /// Its locale; `None` is `C`.
    pub(super) locale: Option<DatabaseLocale>,
    /// Whether anything is said of its locale.
    names_locale: bool,
    pub(super) is_template: Option<bool>,
    /// The name of its model, if one is named that is not the empty one.
    template: Option<&'o str>,
    /// Whether it is to be a copy of its model, in a file of its own.
    copies: bool,
    /// The state of its model.
    as_of: Option<colibri_storage::AsOf>,
}

/// PostgreSQL's models of new databases. Here they are empty, and not databases.
const EMPTY: [&str; 2] = ["template0", "template1"];

impl<'o> Wanted<'o> {
    /// # Errors
    /// 0A000 and others for what no database can be.
    pub(super) fn of(options: &'o [DatabaseOption], env: &Env) -> Result<Self> {
        let mut wanted = Self::default();
        for option in options {
            match option {
                DatabaseOption::Owner(owner) => wanted.owner = Some(owner),
                DatabaseOption::ConnectionLimit(limit) => wanted.limit = Some(*limit),
                DatabaseOption::AllowConnections(allow) => wanted.allow = Some(*allow),
                DatabaseOption::IsTemplate(is_template) => wanted.is_template = Some(*is_template),
                DatabaseOption::Oid => {
                    return Err(Error::unsupported("a database with a number of one's choice"));
                }
                DatabaseOption::AsOf(as_of) => wanted.as_of = Some(state_of(as_of, env)?),
                DatabaseOption::Other("TEMPLATE", value) => {
                    wanted.template = Some(&**value).filter(|name| *name != "default");
                }
                DatabaseOption::Other(name, value) => {
                    expect_option(name, value)?;
                    wanted.copies |= *name == "STRATEGY" && value.eq_ignore_ascii_case("file_copy");
                    wanted.names_locale |= LOCALE_OPTIONS.contains(name) && value != "default";
                }
            }
        }
        wanted.template = wanted.template.filter(|name| !EMPTY.contains(name));
        wanted.locale = locale_of(options)?;
        if wanted.as_of.is_some() && wanted.template.is_none() {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "AS OF needs a TEMPLATE that has had a past"));
        }
        if wanted.as_of.is_some() && wanted.copies {
            return Err(Error::unsupported("STRATEGY file_copy of a database as it was"));
        }
        Ok(wanted)
    }

    /// Its model, whose locale it gets, as one of the databases there are.
    ///
    /// # Errors
    /// 3D000 if there is none of that name, 22023 if it has another locale than the one that is wanted.
    pub(super) fn template<'d>(
        &mut self,
        databases: &'d [DatabaseInfo],
    ) -> Result<Option<(&'d DatabaseInfo, Template)>> {
        let Some(name) = self.template else { return Ok(None) };
        let Some(found) = databases.iter().find(|database| database.name == name) else {
            let message = format!("template database \"{name}\" does not exist");
            return Err(Error::new(SqlState::NO_SUCH_DATABASE, message));
        };
        if self.names_locale && self.locale != found.locale {
            let collate = |locale: &Option<DatabaseLocale>| match locale {
                Some(locale) => locale.collate.clone(),
                None => CompactString::const_new("C"),
            };
            let (wanted, has) = (collate(&self.locale), collate(&found.locale));
            let message =
                format!("new collation ({wanted}) is incompatible with the collation of the template database ({has})");
            let hint = "Use the same collation as in the template database, or use template0 as template.";
            return Err(Error::new(SqlState::BAD_PARAMETER, message).hint(hint));
        }
        self.locale.clone_from(&found.locale);
        Ok(Some((found, Template { name: name.into(), copies: self.copies, as_of: self.as_of })))
    }
}

/// The state of the storage that AS OF names.
///
/// # Errors
/// 22007 and 22008 for what is no time.
pub(super) fn state_of(as_of: &AsOf, env: &Env) -> Result<colibri_storage::AsOf> {
    Ok(match as_of {
        AsOf::Transaction(number) => colibri_storage::AsOf::Transaction(colibri_storage::TxnId(*number)),
        AsOf::Time(text) => colibri_storage::AsOf::Time(storage_time(text, env)?),
    })
}

/// Options that say which locale.
const LOCALE_OPTIONS: [&str; 5] = ["LOCALE", "LC_COLLATE", "LC_CTYPE", "LOCALE_PROVIDER", "ICU_LOCALE"];

/// The locale of a new database; `None` is `C`.
fn locale_of(options: &[DatabaseOption]) -> Result<Option<DatabaseLocale>> {
    let value = |wanted: &str| {
        options.iter().rev().find_map(|option| match option {
            DatabaseOption::Other(name, value) if *name == wanted && value != "default" => Some(value.as_str()),
            _ => None,
        })
    };
    let wrong = |message: &str| Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
    // A model other than PostgreSQL's own is compared with what is wanted when it is known.
    let is_empty_template = value("TEMPLATE").is_some_and(|template| template != "template1");
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
        "ENCODING" if Encoding::named(value).is_none() => {
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

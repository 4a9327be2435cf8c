//! CREATE, ALTER and DROP COLLATION.
//!
//! Invariant: columns and stored expressions name a collation of a user by its schema and name. So it is
//! not renamed, moved or dropped as long as one of them does.

use std::sync::Arc;

use colibri_catalog::{Catalog, Change, Collation};
use colibri_syntax::tree::{CollationOption, Collations};
use colibri_types::collation::{self, VERSION};
use colibri_types::{Error, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::drop::{Cascade, depended_on};
use crate::bind;
use crate::session::Severity;
use crate::system::names::quoted;

/// What uses a collation.
enum User {
    Column { table: u32, name: CompactString, shown: String },
    Other { shown: String },
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_OBJECT_DEFINITION, message)
}

fn no_such(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("collation \"{name}\" for encoding \"UTF8\" does not exist"))
}

/// What a collation is, besides its name.
struct Definition {
    provider: char,
    locale: CompactString,
    deterministic: bool,
    version: Option<CompactString>,
}

impl Session {
    /// The collation that a column is declared with; `None` is the database's.
    pub(super) fn column_collation(&self, name: &ast::ObjectName, ty: Type) -> Result<Option<CompactString>> {
        self.with_binder("", |binder| binder.collation_of_column(name, ty))
    }

    pub(crate) fn about_collations(&mut self, statement: &Collations) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        match statement {
            Collations::Create { name, if_not_exists, options } => {
                let definition = self.definition(options)?;
                self.create_collation(name, *if_not_exists, definition)
            }
            Collations::Copy { name, if_not_exists, from } => {
                let definition = self.copied(from)?;
                self.create_collation(name, *if_not_exists, definition)
            }
            Collations::Rename { name, to } => {
                let known = self.own_collation(name)?;
                self.move_collation(&known, &known.schema, to)
            }
            Collations::SetSchema { name, schema } => {
                let known = self.own_collation(name)?;
                self.move_collation(&known, schema, &known.name)
            }
            Collations::Owner { name, to } => {
                let known = self.own_collation(name)?;
                let owner = self.actor(to)?;
                self.change(vec![Change::PutCollation(Collation { owner, ..(*known).clone() })])
            }
            Collations::Refresh { name } => self.refresh_collation(name),
            Collations::Drop { names, if_exists, cascade } => {
                for name in names {
                    self.drop_collation(name, *if_exists, *cascade)?;
                }
                Ok(())
            }
            Collations::Comment { name, text } => {
                let known = self.own_collation(name)?;
                self.change(vec![Change::Comment(known.id, 0, text.clone())])
            }
        }
    }

    fn definition(&self, options: &[CollationOption]) -> Result<Definition> {
        const KNOWN: [&str; 8] =
            ["from", "locale", "lc_collate", "lc_ctype", "provider", "deterministic", "rules", "version"];
        let mut seen: Vec<&str> = Vec::new();
        let redundant = || Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options");
        for option in options {
            if !KNOWN.contains(&option.name.as_str()) || option.name == "rules" {
                let message = format!("collation attribute \"{}\" not recognized", option.name);
                return Err(Error::new(SqlState::SYNTAX_ERROR, message).at(option.position));
            }
            if seen.contains(&option.name.as_str()) {
                return Err(redundant().at(option.position));
            }
            seen.push(&option.name);
        }
        let value = |name: &str| options.iter().find(|option| option.name == name).map(|option| &option.value);
        let text = |name: &str| value(name).map(|parts| CompactString::from(parts.join(".")));
        if value("locale").is_some() && (value("lc_collate").is_some() || value("lc_ctype").is_some()) {
            return Err(redundant().detail("LOCALE cannot be specified together with LC_COLLATE or LC_CTYPE."));
        }
        if let Some(from) = value("from") {
            if options.len() > 1 {
                return Err(redundant().detail("FROM cannot be specified together with any other options."));
            }
            return self.copied(from);
        }
        let deterministic = match text("deterministic").as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("true" | "on" | "1" | "") => true,
            Some("false" | "off" | "0") => false,
            Some(_) => return Err(Error::new(SqlState::SYNTAX_ERROR, "deterministic requires a Boolean value")),
        };
        let provider = match text("provider").map(|provider| provider.to_ascii_lowercase()).as_deref() {
            Some("icu") => 'i',
            None | Some("libc") => 'c',
            Some(other) => return Err(wrong(format!("unrecognized collation provider: {other}"))),
        };
        let missing = |name: &str| wrong(format!("parameter \"{name}\" must be specified"));
        let version = text("version");
        if provider == 'i' {
            let locale = text("locale").ok_or_else(|| missing("locale"))?;
            collation::check_locale(&locale)?;
            let version = version.or_else(|| Some(VERSION.into()));
            return Ok(Definition { provider, locale, deterministic, version });
        }
        let collate = text("locale").or_else(|| text("lc_collate")).ok_or_else(|| missing("lc_collate"))?;
        let class = text("locale").or_else(|| text("lc_ctype")).ok_or_else(|| missing("lc_ctype"))?;
        if !deterministic {
            let message = "nondeterministic collations not supported with this provider";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let locale = match (bind::collation::OF_BYTES.contains(&&*collate), collation::builtin_locale(&collate)) {
            (true, _) => return Ok(Definition { provider, locale: collate, deterministic, version: None }),
            (false, Some(locale)) if collate == class => locale,
            _ => {
                let detail =
                    format!("The operating system could not find any locale data for the locale name \"{collate}\".");
                let message = format!("could not create locale \"{collate}\": No such file or directory");
                return Err(Error::new(SqlState::BAD_PARAMETER, message).detail(detail));
            }
        };
        // The operating system's locales have no tables here: those of Unicode take their place.
        Ok(Definition { provider: 'i', locale: locale.into(), deterministic, version: Some(VERSION.into()) })
    }

    fn copied(&self, from: &[CompactString]) -> Result<Definition> {
        if let Some(known) = self.find_collation(from)? {
            let Collation { provider, locale, deterministic, version, .. } = &*known;
            let (locale, version) = (locale.clone().unwrap_or_default(), version.clone());
            return Ok(Definition { provider: *provider, locale, deterministic: *deterministic, version });
        }
        let name = from.last().cloned().unwrap_or_default();
        if name == "default" {
            return Err(wrong("collation \"default\" cannot be copied"));
        }
        if bind::collation::OF_BYTES.contains(&&*name) {
            return Ok(Definition { provider: 'c', locale: name, deterministic: true, version: None });
        }
        match collation::builtin_locale(&name) {
            Some(locale) => {
                let (locale, version) = (locale.into(), Some(VERSION.into()));
                Ok(Definition { provider: 'i', locale, deterministic: true, version })
            }
            None => Err(no_such(&name)),
        }
    }

    fn create_collation(
        &mut self,
        name: &[CompactString],
        if_not_exists: bool,
        Definition { provider, locale, deterministic, version }: Definition,
    ) -> Result<()> {
        let (schema, name) = self.new_collation_name(name)?;
        self.expect_may_create_in(&schema)?;
        if self.catalog().collations().any(|known| known.schema == schema && known.name == name) {
            let message = format!("collation \"{name}\" already exists");
            if if_not_exists {
                let message = format!("{message}, skipping");
                self.notice(Severity::Notice, SqlState::DUPLICATE_OBJECT, message);
                return Ok(());
            }
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let (id, owner) = (self.new_id()?, self.role());
        let locale = Some(locale);
        let made = Collation { id, schema, name, owner, provider, locale, deterministic, version };
        self.change(vec![Change::PutCollation(made)])
    }

    /// The schema and name of a new collation.
    fn new_collation_name(&self, name: &[CompactString]) -> Result<(CompactString, CompactString)> {
        let (schema, name) = match name {
            [.., schema, name] => (schema.clone(), name.clone()),
            [name] => {
                let is_there = |schema: &&CompactString| self.catalog().schema(schema).is_some();
                let schema =
                    self.search_path().iter().find(is_there).ok_or_else(|| {
                        Error::new(SqlState::NO_SUCH_SCHEMA, "no schema has been selected to create in")
                    })?;
                (schema.clone(), name.clone())
            }
            [] => return Err(Error::internal("a collation without a name")),
        };
        if colibri_catalog::system_tables::is_system_schema(&schema) {
            return Err(Error::denied("schema", &schema));
        }
        if self.catalog().schema(&schema).is_none() {
            return Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")));
        }
        Ok((schema, name))
    }

    /// A collation that a user has made.
    fn find_collation(&self, name: &[CompactString]) -> Result<Option<Arc<Collation>>> {
        let in_schema = |schema: &str, name: &str| {
            self.catalog().collations().find(|known| known.schema == schema && known.name == name).cloned()
        };
        match name {
            [.., schema, name] => {
                if colibri_catalog::system_tables::is_system_schema(schema) {
                    return Ok(None);
                }
                if self.catalog().schema(schema).is_none() {
                    return Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")));
                }
                Ok(in_schema(schema, name))
            }
            [name] if bind::collation::is_builtin(name) => Ok(None),
            [name] => Ok(self.search_path().iter().find_map(|schema| in_schema(schema, name))),
            [] => Ok(None),
        }
    }

    /// A collation that the user may change.
    fn own_collation(&self, name: &[CompactString]) -> Result<Arc<Collation>> {
        let shown = name.last().cloned().unwrap_or_default();
        match self.find_collation(name)? {
            Some(known) => {
                self.expect_owner(known.owner, "collation", &known.name)?;
                Ok(known)
            }
            None if bind::collation::is_builtin(&shown) => {
                if self.authority().is_superuser() {
                    return Err(Error::unsupported(format_args!("a change of the collation {}", quoted(&shown))));
                }
                Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be owner of collation {shown}")))
            }
            None => Err(no_such(&shown)),
        }
    }

    fn move_collation(&mut self, known: &Arc<Collation>, schema: &str, name: &str) -> Result<()> {
        if self.catalog().schema(schema).is_none() {
            return Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")));
        }
        self.expect_may_create_in(schema)?;
        if (schema, name) == (known.schema.as_str(), known.name.as_str()) && schema == known.schema {
            let is_rename = name == known.name;
            return if is_rename && schema == known.schema { Ok(()) } else { Err(no_such(name)) };
        }
        if self.catalog().collations().any(|other| other.schema == schema && other.name == name) {
            let message = format!("collation \"{name}\" already exists in schema \"{schema}\"");
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        if let Some(user) = self.users_of_collation(known).into_iter().next() {
            let (User::Column { shown, .. } | User::Other { shown }) = user;
            let what = "another name or schema for a collation that is in use";
            return Err(
                Error::unsupported(what).detail(format!("{shown} depends on collation {}", quoted(&known.name)))
            );
        }
        let moved = Collation { schema: schema.into(), name: name.into(), ..(**known).clone() };
        self.change(vec![Change::PutCollation(moved)])
    }

    fn refresh_collation(&mut self, name: &[CompactString]) -> Result<()> {
        let shown = name.last().cloned().unwrap_or_default();
        let known = match self.find_collation(name)? {
            None if bind::collation::is_builtin(&shown) => None,
            None => return Err(no_such(&shown)),
            Some(known) => {
                self.expect_owner(known.owner, "collation", &known.name)?;
                Some(known)
            }
        };
        let Some(known) = known.filter(|known| known.is_icu() && known.version.as_deref() != Some(VERSION)) else {
            self.notice(Severity::Notice, SqlState("00000"), "version has not changed".to_owned());
            return Ok(());
        };
        let old = known.version.clone().unwrap_or_default();
        self.notice(Severity::Notice, SqlState("00000"), format!("changing version from {old} to {VERSION}"));
        self.change(vec![Change::PutCollation(Collation { version: Some(VERSION.into()), ..(*known).clone() })])
    }

    pub(crate) fn drop_collation(&mut self, name: &[CompactString], if_exists: bool, cascade: bool) -> Result<()> {
        let shown = name.last().cloned().unwrap_or_default();
        match self.find_collation(name) {
            Err(error) if if_exists && error.state() == SqlState::NO_SUCH_SCHEMA => {
                let message = format!("{}, skipping", error.report().message);
                self.notice(Severity::Notice, SqlState("00000"), message);
                return Ok(());
            }
            Ok(None) if if_exists && !bind::collation::is_builtin(&shown) => {
                let message = format!("collation \"{shown}\" does not exist, skipping");
                self.notice(Severity::Notice, SqlState("00000"), message);
                return Ok(());
            }
            found => _ = found?,
        }
        let mut along = Cascade::new(cascade);
        self.drop_collation_along(name, &mut along)?;
        self.tell_cascade(along);
        Ok(())
    }

    /// Drops a collation with what uses it, if that may go.
    pub(super) fn drop_collation_along(&mut self, name: &[CompactString], along: &mut Cascade) -> Result<()> {
        let known = self.own_collation(name)?;
        let users = self.users_of_collation(&known);
        let what = format!("collation {}", quoted(&known.name));
        let shown = |user: &User| {
            let (User::Column { shown, .. } | User::Other { shown }) = user;
            shown.clone()
        };
        if !users.is_empty() && !along.allows() {
            let details: Vec<String> = users.iter().map(|user| format!("{} depends on {what}", shown(user))).collect();
            return Err(depended_on(&what, &details));
        }
        if let Some(other) = users.iter().find(|user| matches!(user, User::Other { .. })) {
            let error = Error::unsupported("DROP COLLATION … CASCADE of what is used by others than columns");
            return Err(error.detail(format!("{} depends on {what}", shown(other))));
        }
        for user in users {
            if let User::Column { table, name, shown } = user {
                along.takes(shown);
                self.drop_column(&table, &name, true, along)?;
            }
        }
        self.change(vec![Change::DropCollation(known.id)])
    }

    /// What uses a collation: columns that are declared with it, and texts that name it.
    fn users_of_collation(&self, known: &Collation) -> Vec<User> {
        let identity = known.identity();
        let named = format!("COLLATE {identity}");
        let names = |text: Option<&str>| text.is_some_and(|text| text.contains(&named));
        let mut tables: Vec<_> = self.catalog().tables().cloned().collect();
        tables.sort_by_key(|table| table.id);
        let mut users = Vec::new();
        for table in tables {
            for (_, column) in table.live_columns() {
                let is_of = column.collation.as_deref() == Some(&identity);
                if is_of {
                    let shown = format!("column {} of table {}", quoted(&column.name), quoted(&table.name));
                    users.push(User::Column { table: table.id, name: column.name.clone(), shown });
                } else if names(column.default.as_deref()) || names(column.generated.as_deref()) {
                    let shown =
                        format!("default value for column {} of table {}", quoted(&column.name), quoted(&table.name));
                    users.push(User::Other { shown });
                }
            }
            for check in table.checks.iter().filter(|check| names(Some(&check.condition))) {
                let shown = format!("constraint {} on table {}", quoted(&check.name), quoted(&table.name));
                users.push(User::Other { shown });
            }
            for index in &table.indexes {
                let mut places = index.columns.iter().map(|part| part.column).chain(index.predicate);
                if places.any(|place| names(table.columns[place].expression.as_deref())) {
                    users.push(User::Other { shown: format!("index {}", quoted(&index.name)) });
                }
            }
            for policy in &table.security.policies {
                if names(policy.using.as_deref()) || names(policy.check.as_deref()) {
                    let shown = format!("policy {} on table {}", quoted(&policy.name), quoted(&table.name));
                    users.push(User::Other { shown });
                }
            }
        }
        let mut views: Vec<_> = self.catalog().views().collect();
        views.sort_by_key(|view| view.id);
        for view in views.into_iter().filter(|view| names(Some(&view.query))) {
            users.push(User::Other { shown: format!("view {}", quoted(&view.name)) });
        }
        for ty in self.catalog().types() {
            let in_domain = ty.domain().is_some_and(|domain| {
                domain.collation.as_deref() == Some(&identity)
                    || names(domain.default.as_deref())
                    || domain.checks.iter().any(|check| names(Some(&check.condition)))
            });
            let fields = ty.composite().into_iter().flat_map(|composite| &composite.fields);
            if in_domain || fields.into_iter().any(|field| field.collation.as_deref() == Some(&identity)) {
                users.push(User::Other { shown: format!("type {}", quoted(&ty.name)) });
            }
        }
        users
    }
}

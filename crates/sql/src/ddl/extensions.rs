//! CREATE, ALTER and DROP EXTENSION.
//!
//! What an extension contains is there always, but for what `extension_members` makes: CREATE
//! EXTENSION notes that somebody asked for it, so that `pg_extension` tells. One whose contents are
//! not here is refused, as PostgreSQL refuses one that is not installed.

use colibri_catalog::{
    Catalog, Change, Extension, PUBLIC, UserType, UserTypeKind,
    cluster::{BOOTSTRAP_ROLE, ObjectKind, Privileges},
};
use colibri_syntax::tree::ExtensionChange;
use colibri_types::{Error, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::drop::{Cascade, depended_on};
use super::topics;
use crate::session::Severity;
use crate::system::extensions::{self, Available};

impl Session {
    pub(crate) fn create_extension(
        &mut self,
        name: &CompactString,
        if_not_exists: bool,
        schema: Option<&CompactString>,
        version: Option<&CompactString>,
    ) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let is_there = |known: &str| known == name;
        let has = |session: &Self| session.catalog().extensions().any(|known| is_there(&known.name));
        if is_there(extensions::PLPGSQL) || has(self) {
            if if_not_exists {
                let message = format!("extension \"{name}\" already exists, skipping");
                self.notice(Severity::Notice, SqlState::DUPLICATE_OBJECT, message);
                return Ok(());
            }
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, format!("extension \"{name}\" already exists")));
        }
        let available = extensions::available(name).ok_or_else(|| not_available(name))?;
        expect_version(available, version)?;
        let database = self.own_database_info();
        if !self.authority().may(Privileges::CREATE, ObjectKind::Database, database.owner, database.acl.as_ref()) {
            return Err(Error::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied to create extension \"{name}\""),
            )
            .hint("Must have CREATE privilege on current database to create this extension."));
        }
        let schema = match schema {
            Some(schema) if name == topics::EXTENSION && schema != topics::EXTENSION => {
                let message = format!("extension \"{name}\" must be installed in schema \"{}\"", topics::EXTENSION);
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            _ if name == topics::EXTENSION => {
                if self.catalog().schema(topics::EXTENSION).is_none() {
                    let schema = ast::Ident::with_quote('"', topics::EXTENSION);
                    self.create_schema(&ast::SchemaName::Simple(vec![schema].into()), false)?;
                }
                topics::EXTENSION.into()
            }
            Some(schema) => self.expect_schema(schema)?,
            None => {
                let path = self.creation_path().iter().find(|schema| self.catalog().schema(schema).is_some());
                path.cloned().unwrap_or(CompactString::const_new(PUBLIC))
            }
        };
        let id = self.new_id_in(&schema)?;
        let version = available.version.into();
        let (owner, members) = (self.role(), Vec::new());
        let mut extension = Extension { id, name: name.clone(), schema, version, owner, members };
        self.create_members(&mut extension)?;
        let comment = Change::Comment(id, 0, Some(available.comment.to_owned()));
        self.change(vec![Change::PutExtension(extension), comment])
    }

    fn expect_schema(&self, schema: &CompactString) -> Result<CompactString> {
        if self.catalog().schema(schema).is_some() || crate::system::is_system_schema(schema) {
            return Ok(schema.clone());
        }
        Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")))
    }

    /// The number of an extension.
    pub(crate) fn expect_extension(&self, name: &str) -> Result<u32> {
        if name == extensions::PLPGSQL {
            return Ok(extensions::PLPGSQL_NUMBER);
        }
        let found = self.catalog().extensions().find(|known| known.name == name).cloned();
        let found = found.ok_or_else(|| no_such_extension(name))?;
        self.expect_owner(found.owner, "extension", name)?;
        Ok(found.id)
    }

    pub(crate) fn alter_extension(&mut self, name: &CompactString, change: &ExtensionChange) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let id = self.expect_extension(name)?;
        match change {
            ExtensionChange::Update(version) => {
                let available = extensions::available(name).ok_or_else(|| not_available(name))?;
                expect_version(available, version.as_ref())?;
                let message = format!("version \"{}\" of extension \"{name}\" is already installed", available.version);
                self.notice(Severity::Notice, SqlState("00000"), message);
                Ok(())
            }
            ExtensionChange::SetSchema(_) if name == topics::EXTENSION => {
                let message = format!("extension \"{name}\" does not support SET SCHEMA");
                Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            ExtensionChange::SetSchema(schema) => {
                let schema = self.expect_schema(schema)?;
                let found = self.catalog().extensions().find(|known| known.id == id).cloned();
                let Some(found) = found else {
                    return Err(Error::unsupported(format_args!("another schema for the extension {name}")));
                };
                if schema == found.schema {
                    return Ok(());
                }
                self.move_members(&found, &schema)?;
                self.change(vec![Change::PutExtension(Extension { schema, ..(*found).clone() })])
            }
        }
    }

    pub(crate) fn drop_extensions(&mut self, names: &[CompactString], if_exists: bool, cascade: bool) -> Result<()> {
        let mut cascade = Cascade::new(cascade);
        Catalog::lock(self.catalog_and_txn()?.1)?;
        for name in names {
            match self.expect_extension(name) {
                Ok(extensions::PLPGSQL_NUMBER) => {
                    let message = format!("cannot drop extension {name} because it is required by the database system");
                    return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message));
                }
                Ok(id) => {
                    let found = self.catalog().extensions().find(|known| known.id == id).cloned();
                    if let Some(extension) = found {
                        self.drop_extension(&extension, &mut cascade)?;
                    }
                }
                Err(error) if if_exists && error.state() == SqlState::NO_SUCH_OBJECT => {
                    self.notice_missing("extension", name);
                }
                Err(error) => return Err(error),
            }
        }
        self.tell_cascade(cascade);
        Ok(())
    }

    /// Drops an extension with what depends on it, if that may go.
    pub(super) fn drop_extension(&mut self, extension: &Extension, cascade: &mut Cascade) -> Result<()> {
        self.drop_users_of_types(&extension.name, cascade)?;
        self.drop_indexes_by(&extension.name, cascade)?;
        self.drop_members(extension, cascade)?;
        self.change(vec![Change::DropExtension(extension.id)])
    }

    /// Drops what names the types of an extension.
    fn drop_users_of_types(&mut self, extension: &str, cascade: &mut Cascade) -> Result<()> {
        let schema = self.catalog().extensions().find(|known| known.name == extension);
        let Some(schema) = schema.map(|known| known.schema.clone()) else { return Ok(()) };
        let brought: Vec<Type> = Type::ALL.into_iter().filter(|ty| ty.extension() == Some(extension)).collect();
        for ty in brought {
            let ty = UserType {
                id: ty.oid(),
                array: ty.array().map_or(0, Type::oid),
                schema: schema.clone(),
                name: ty.inner_name().into(),
                owner: BOOTSTRAP_ROLE,
                acl: None,
                kind: UserTypeKind::Enum(Vec::new()),
                handle: None,
            };
            let told = self.dependents_told(&ty, cascade)?;
            if !told.is_empty() {
                return Err(depended_on(&format!("extension {extension}"), &told));
            }
            self.drop_type(&ty, &[], cascade)?;
        }
        Ok(())
    }

    /// Drops the indexes whose columns have operator classes of an extension.
    fn drop_indexes_by(&mut self, extension: &str, cascade: &mut Cascade) -> Result<()> {
        let mut found = Vec::new();
        for table in self.catalog().tables() {
            for index in &table.indexes {
                let class = index.tokens.iter().find(|class| class.0.extension == Some(extension));
                if let Some(class) = class {
                    let on = format!("operator class {} for access method {}", class.0.name, class.0.method);
                    found.push((table.id, index.name.clone(), format!("index {} depends on {on}", index.name)));
                }
            }
        }
        if !cascade.allows() && !found.is_empty() {
            let details: Vec<String> = found.into_iter().map(|(.., detail)| detail).collect();
            let message = format!("cannot drop extension {extension} because other objects depend on it");
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message)
                .detail(details.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for (table, index, _) in found {
            self.drop_index_of(table, &index)?;
            cascade.takes(format!("index {index}"));
        }
        Ok(())
    }
}

fn no_such_extension(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("extension \"{name}\" does not exist"))
}

fn not_available(name: &str) -> Error {
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("extension \"{name}\" is not available"))
        .detail("Colibri has no such extension: pg_available_extensions lists those that there are.")
        .hint("The extension must first be installed on the system where PostgreSQL is running.")
}

fn expect_version(available: &Available, version: Option<&CompactString>) -> Result<()> {
    match version {
        Some(version) if *version != available.version => {
            let name = available.name;
            let message =
                format!("extension \"{name}\" has no installation script nor update path for version \"{version}\"");
            Err(Error::new(SqlState::BAD_PARAMETER, message))
        }
        _ => Ok(()),
    }
}

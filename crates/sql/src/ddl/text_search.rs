//! CREATE, ALTER, DROP and COMMENT ON TEXT SEARCH, and DROP of objects of kinds that no database
//! has.
//!
//! Invariants: the dictionaries that a configuration names are there; they go with CASCADE only.

use std::collections::BTreeMap;
use std::sync::Arc;

use colibri_catalog::{Catalog, Change, SearchChange, SearchConfiguration, SearchDictionary, parse_name};
use colibri_syntax::tree::{MappingChange, Name, OnTextSearch, QualifiedName, SearchKind, SearchOption};
use colibri_types::text_search::{self, KINDS};
use colibri_types::{Error, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::drop::{Cascade, depended_on};
use crate::session::Severity;
use crate::system::{dictionary_of, search};

/// A configuration or a dictionary that a user has made.
#[derive(Clone)]
enum Made {
    Dictionary(Arc<SearchDictionary>),
    Configuration(Arc<SearchConfiguration>),
}

impl Made {
    fn id(&self) -> u32 {
        match self {
            Self::Dictionary(one) => one.id,
            Self::Configuration(one) => one.id,
        }
    }

    fn name(&self) -> &CompactString {
        match self {
            Self::Dictionary(one) => &one.name,
            Self::Configuration(one) => &one.name,
        }
    }

    fn schema(&self) -> &CompactString {
        match self {
            Self::Dictionary(one) => &one.schema,
            Self::Configuration(one) => &one.schema,
        }
    }

    fn owner(&self) -> u32 {
        match self {
            Self::Dictionary(one) => one.owner,
            Self::Configuration(one) => one.owner,
        }
    }

    /// The change that gives it another schema, name or owner.
    fn moved(&self, schema: &CompactString, name: &CompactString, owner: u32) -> Change {
        let (schema, name) = (schema.clone(), name.clone());
        Change::Search(match self {
            Self::Dictionary(one) => {
                SearchChange::PutDictionary(SearchDictionary { schema, name, owner, ..(**one).clone() })
            }
            Self::Configuration(one) => {
                SearchChange::PutConfiguration(SearchConfiguration { schema, name, owner, ..(**one).clone() })
            }
        })
    }
}

fn bad_parameter(message: impl Into<String>) -> Error {
    Error::new(SqlState::BAD_PARAMETER, message)
}

fn no_such(kind: SearchKind, name: &[CompactString]) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("{} \"{}\" does not exist", kind.name(), name.join(".")))
}

fn type_of(kind: SearchKind) -> Type {
    if kind == SearchKind::Configuration { Type::RegConfig } else { Type::RegDictionary }
}

/// The names that an option's value has.
fn names_in(value: &str) -> Result<Vec<CompactString>> {
    parse_name(value).ok_or_else(|| Error::new(SqlState::BAD_NAME, "invalid name syntax"))
}

impl Session {
    pub(crate) fn about_text_search(&mut self, statement: &OnTextSearch) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        match statement {
            OnTextSearch::Create { kind: SearchKind::Configuration, name, options } => {
                self.create_search_configuration(name, options)
            }
            OnTextSearch::Create { name, options, .. } => self.create_search_dictionary(name, options),
            OnTextSearch::Options { name, options } => self.change_search_dictionary(name, options),
            OnTextSearch::Mapping { name, change } => self.change_mapping(name, change),
            OnTextSearch::Rename { kind, name, to } => {
                let made = self.own_search_object(*kind, name)?;
                let schema = made.schema().clone();
                self.expect_may_create_in(&schema)?;
                self.expect_free_search_name(*kind, &schema, to)?;
                self.change(vec![made.moved(&schema, to, made.owner())])
            }
            OnTextSearch::Owner { kind, name, to } => {
                let made = self.own_search_object(*kind, name)?;
                let owner = self.actor(to)?;
                self.expect_may_be_given(owner, made.schema())?;
                self.change(vec![made.moved(&made.schema().clone(), &made.name().clone(), owner)])
            }
            OnTextSearch::SetSchema { kind, name, schema } => {
                let made = self.own_search_object(*kind, name)?;
                if self.catalog().schema(schema).is_none() {
                    return Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")));
                }
                self.expect_may_create_in(schema)?;
                if schema == made.schema() {
                    return Ok(());
                }
                self.expect_free_search_name(*kind, schema, made.name())?;
                self.change(vec![made.moved(schema, &made.name().clone(), made.owner())])
            }
            OnTextSearch::Drop { kind, names, if_exists, cascade } => {
                names.iter().try_for_each(|name| self.drop_search_object(*kind, name, *if_exists, *cascade))
            }
            OnTextSearch::Comment { kind, name, text } => {
                let made = self.own_search_object(*kind, name)?;
                self.change(vec![Change::Comment(made.id(), 0, text.clone())])
            }
            OnTextSearch::DropAbsent { kind, names, if_exists } => {
                names.iter().try_for_each(|name| self.drop_absent(kind, name, *if_exists))
            }
        }
    }

    /// A new owner has to be a role that the user may act as, and has to have the right to make
    /// objects in the schema.
    fn expect_may_be_given(&self, owner: u32, schema: &str) -> Result<()> {
        if self.authority().is_superuser() || owner == self.role() {
            return Ok(());
        }
        if !self.authority().has_role(owner) {
            let name = self.all_roles().get(owner).map(|role| role.name.clone()).unwrap_or_default();
            let message = format!("must be member of role \"{name}\"");
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        self.expect_may_create_in(schema)
    }

    /// What a name means: a number of the system's, or a user's object.
    fn search_number(&self, kind: SearchKind, name: &[CompactString]) -> Result<u32> {
        if let [schema, _] = name
            && !crate::system::is_system_schema(schema)
            && self.catalog().schema(schema).is_none()
        {
            return Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")));
        }
        let found = search::number_named(self.catalog(), self.search_path(), type_of(kind), name);
        found.ok_or_else(|| no_such(kind, name))
    }

    fn made_search_object(&self, kind: SearchKind, number: u32) -> Option<Made> {
        match kind {
            SearchKind::Configuration => self.catalog().search_configuration(number).cloned().map(Made::Configuration),
            _ => self.catalog().search_dictionary(number).cloned().map(Made::Dictionary),
        }
    }

    /// An object that the user may change.
    fn own_search_object(&self, kind: SearchKind, name: &[CompactString]) -> Result<Made> {
        if matches!(kind, SearchKind::Parser | SearchKind::Template) {
            let is_there = match name {
                [name] => is_system_s(kind, name),
                [schema, name] => schema == "pg_catalog" && is_system_s(kind, name),
                _ => false,
            };
            return Err(match is_there {
                true => Error::unsupported(format_args!("a change of a {}", kind.name())),
                false => no_such(kind, name),
            });
        }
        let number = self.search_number(kind, name)?;
        match self.made_search_object(kind, number) {
            Some(made) => {
                self.expect_owner(made.owner(), kind.name(), made.name())?;
                Ok(made)
            }
            None if self.authority().is_superuser() => {
                Err(Error::unsupported(format_args!("a change of the system's {}", kind.name())))
            }
            None => {
                let message = format!("must be owner of {} {}", kind.name(), name.join("."));
                Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
            }
        }
    }

    fn is_search_name_taken(&self, kind: SearchKind, schema: &str, name: &str) -> bool {
        match kind {
            SearchKind::Configuration => {
                self.catalog().search_configurations().any(|one| one.schema == schema && one.name == name)
            }
            _ => self.catalog().search_dictionaries().any(|one| one.schema == schema && one.name == name),
        }
    }

    fn expect_free_search_name(&self, kind: SearchKind, schema: &str, name: &str) -> Result<()> {
        if !self.is_search_name_taken(kind, schema, name) {
            return Ok(());
        }
        let message = format!("{} \"{name}\" already exists in schema \"{schema}\"", kind.name());
        Err(Error::new(SqlState::DUPLICATE_OBJECT, message))
    }

    /// The schema and the name of a new object.
    fn new_search_name(&self, kind: SearchKind, name: &[CompactString]) -> Result<(CompactString, CompactString)> {
        let idents: Vec<_> = name.iter().map(|part| ast::Ident::with_quote('"', part.as_str())).collect();
        let (schema, name) = self.new_name(&ast::ObjectName::from(idents))?;
        if self.is_search_name_taken(kind, &schema, &name) {
            let table = if kind == SearchKind::Configuration { "pg_ts_config_cfgname" } else { "pg_ts_dict_dictname" };
            let message = format!("duplicate key value violates unique constraint \"{table}_index\"");
            return Err(Error::new(SqlState::UNIQUE_VIOLATION, message)
                .detail(format!("{} \"{name}\" already exists.", kind.name())));
        }
        Ok((schema, name))
    }

    fn create_search_dictionary(&mut self, name: &QualifiedName, options: &[SearchOption]) -> Result<()> {
        let (schema, name) = self.new_search_name(SearchKind::Dictionary, name)?;
        let mut template = None;
        let mut kept = Vec::new();
        for (option, value) in options {
            let value = value.clone().unwrap_or_default();
            match option.as_str() {
                "template" => {
                    let names = names_in(&value)?;
                    let found = search::template_named(self.catalog(), &names);
                    template = Some(found.ok_or_else(|| no_such(SearchKind::Template, &names))?);
                }
                _ => kept.push((option.clone(), value)),
            }
        }
        let Some(template) = template else {
            return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, "text search template is required"));
        };
        dictionary_of(template, &kept)?;
        let (id, owner) = (self.new_id()?, self.role());
        let made = SearchDictionary { id, schema, name, owner, template, options: kept };
        self.change(vec![Change::Search(SearchChange::PutDictionary(made))])
    }

    fn change_search_dictionary(&mut self, name: &QualifiedName, options: &[SearchOption]) -> Result<()> {
        let Made::Dictionary(known) = self.own_search_object(SearchKind::Dictionary, name)? else {
            return Err(Error::internal("a dictionary is something else"));
        };
        let mut changed = (*known).clone();
        for (option, value) in options {
            changed.options.retain(|(known, _)| known != option);
            if let Some(value) = value {
                changed.options.push((option.clone(), value.clone()));
            }
        }
        dictionary_of(changed.template, &changed.options)?;
        self.change(vec![Change::Search(SearchChange::PutDictionary(changed))])
    }

    fn create_search_configuration(&mut self, name: &QualifiedName, options: &[SearchOption]) -> Result<()> {
        let (schema, name) = self.new_search_name(SearchKind::Configuration, name)?;
        let (mut copy, mut has_parser) = (None, false);
        for (option, value) in options {
            let names = names_in(value.as_deref().unwrap_or_default())?;
            match option.as_str() {
                "parser" => {
                    let is_known = matches!(&names[..], [name] if name == "default")
                        || matches!(&names[..], [schema, name] if schema == "pg_catalog" && name == "default");
                    if !is_known {
                        return Err(no_such(SearchKind::Parser, &names));
                    }
                    has_parser = true;
                }
                "copy" => copy = Some(self.search_number(SearchKind::Configuration, &names)?),
                other => {
                    let message = format!("text search configuration parameter \"{other}\" not recognized");
                    return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                }
            }
        }
        let mappings = match (copy, has_parser) {
            (Some(_), true) => {
                let message = "cannot specify both PARSER and COPY options";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            (None, false) => {
                return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, "text search parser is required"));
            }
            (None, true) => BTreeMap::new(),
            (Some(number), false) => search::mappings_of(self.catalog(), number),
        };
        let (id, owner) = (self.new_id()?, self.role());
        let made = SearchConfiguration { id, schema, name, owner, mappings };
        self.change(vec![Change::Search(SearchChange::PutConfiguration(made))])
    }

    fn change_mapping(&mut self, name: &QualifiedName, change: &MappingChange) -> Result<()> {
        let Made::Configuration(known) = self.own_search_object(SearchKind::Configuration, name)? else {
            return Err(Error::internal("a configuration is something else"));
        };
        let kinds = |names: &[Name]| -> Result<Vec<(u8, CompactString)>> {
            let kind = |name: &Name| {
                let at = KINDS.iter().position(|(known, _)| known == name);
                let number = at.map(|at| (at + 1) as u8);
                number
                    .map(|number| (number, name.clone()))
                    .ok_or_else(|| bad_parameter(format!("token type \"{name}\" does not exist")))
            };
            names.iter().map(kind).collect()
        };
        let mut changed = (*known).clone();
        match change {
            MappingChange::Set { kinds: names, dictionaries, replaces } => {
                let kinds = kinds(names)?;
                let asked: Vec<u32> = dictionaries
                    .iter()
                    .map(|name| self.search_number(SearchKind::Dictionary, name))
                    .collect::<Result<_>>()?;
                for (kind, _) in kinds {
                    if !replaces && changed.mappings.contains_key(&kind) {
                        let message = "duplicate key value violates unique constraint \"pg_ts_config_map_index\"";
                        return Err(Error::new(SqlState::UNIQUE_VIOLATION, message));
                    }
                    changed.mappings.insert(kind, asked.clone());
                }
            }
            MappingChange::Replace { kinds: names, old, new } => {
                let kinds = kinds(names)?;
                let old = self.search_number(SearchKind::Dictionary, old)?;
                let new = self.search_number(SearchKind::Dictionary, new)?;
                let is_meant = |kind: u8| kinds.is_empty() || kinds.iter().any(|(meant, _)| *meant == kind);
                for (_, asked) in changed.mappings.iter_mut().filter(|(kind, _)| is_meant(**kind)) {
                    asked.iter_mut().filter(|asked| **asked == old).for_each(|asked| *asked = new);
                }
            }
            MappingChange::Drop { kinds: names, if_exists } => {
                for (kind, name) in kinds(names)? {
                    if changed.mappings.remove(&kind).is_some() {
                        continue;
                    }
                    let message = format!("mapping for token type \"{name}\" does not exist");
                    if !if_exists {
                        return Err(Error::new(SqlState::NO_SUCH_OBJECT, message));
                    }
                    self.notice(Severity::Notice, SqlState("00000"), format!("{message}, skipping"));
                }
            }
        }
        self.change(vec![Change::Search(SearchChange::PutConfiguration(changed))])
    }

    fn drop_search_object(
        &mut self,
        kind: SearchKind,
        name: &QualifiedName,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let made = match self.own_search_object(kind, name) {
            Err(error) if if_exists && matches!(error.state(), SqlState::NO_SUCH_OBJECT | SqlState::NO_SUCH_SCHEMA) => {
                let message = format!("{}, skipping", error.report().message);
                self.notice(Severity::Notice, SqlState("00000"), message);
                return Ok(());
            }
            made => made?,
        };
        let mut along = Cascade::new(cascade);
        self.drop_made_search_object(&made, &mut along)?;
        self.tell_cascade(along);
        Ok(())
    }

    fn drop_made_search_object(&mut self, made: &Made, along: &mut Cascade) -> Result<()> {
        let id = made.id();
        let mut changes = Vec::new();
        match made {
            Made::Configuration(_) => changes.push(Change::Search(SearchChange::DropConfiguration(id))),
            Made::Dictionary(dictionary) => {
                let what = format!("text search dictionary {}", dictionary.name);
                let users: Vec<_> =
                    self.catalog().search_configurations().filter(|one| one.asks(id)).cloned().collect();
                if !users.is_empty() && !along.allows() {
                    let shown = |one: &Arc<SearchConfiguration>| {
                        format!("text search configuration {} depends on {what}", one.name)
                    };
                    return Err(depended_on(&what, &users.iter().map(shown).collect::<Vec<_>>()));
                }
                for one in users {
                    along.takes(format!("text search configuration {}", one.name));
                    changes.push(Change::Search(SearchChange::DropConfiguration(one.id)));
                }
                changes.push(Change::Search(SearchChange::DropDictionary(id)));
            }
        }
        self.change(changes)
    }

    /// Configurations and dictionaries of some schemas or owners, as messages show them.
    pub(crate) fn told_of_search(&self, is_meant: impl Fn(&str, u32) -> bool) -> Vec<String> {
        let catalog = self.catalog();
        let configurations = catalog.search_configurations().filter(|one| is_meant(&one.schema, one.owner));
        let mut told: Vec<String> =
            configurations.map(|one| format!("text search configuration {}", one.name)).collect();
        let dictionaries = catalog.search_dictionaries().filter(|one| is_meant(&one.schema, one.owner));
        told.extend(dictionaries.map(|one| format!("text search dictionary {}", one.name)));
        told
    }

    /// Drops the configurations and dictionaries of some schemas or owners, and what needs them.
    pub(crate) fn drop_search(&mut self, is_meant: impl Fn(&str, u32) -> bool) -> Result<()> {
        let catalog = self.catalog();
        let configurations = catalog.search_configurations().filter(|one| is_meant(&one.schema, one.owner));
        let mut made: Vec<Made> = configurations.cloned().map(Made::Configuration).collect();
        let dictionaries = catalog.search_dictionaries().filter(|one| is_meant(&one.schema, one.owner));
        made.extend(dictionaries.cloned().map(Made::Dictionary));
        for one in made {
            self.drop_made_search_object(&one, &mut Cascade::new(true))?;
        }
        Ok(())
    }

    /// The changes that give configurations and dictionaries of some roles to another one.
    pub(crate) fn reassigned_search(&self, from: &[u32], to: u32) -> Vec<Change> {
        let catalog = self.catalog();
        let configurations = catalog.search_configurations().cloned().map(Made::Configuration);
        let dictionaries = catalog.search_dictionaries().cloned().map(Made::Dictionary);
        let owned = configurations.chain(dictionaries).filter(|one| from.contains(&one.owner()));
        owned.map(|one| one.moved(one.schema(), one.name(), to)).collect()
    }

    /// DROP of an object of a kind of which there are none.
    fn drop_absent(&mut self, kind: &'static str, name: &[CompactString], if_exists: bool) -> Result<()> {
        let shown = name.join(".");
        let is_known = match kind {
            "language" => matches!(shown.as_str(), "plpgsql" | "sql" | "c" | "internal"),
            "access method" => matches!(shown.as_str(), "heap" | "btree" | "hash" | "gist" | "gin" | "spgist" | "brin"),
            _ => false,
        };
        if is_known {
            let message = format!("cannot drop {kind} {shown} because it is required by the database system");
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message));
        }
        let missing_schema = match name {
            [schema, _] if !crate::system::is_system_schema(schema) && self.catalog().schema(schema).is_none() => {
                Some(format!("schema \"{schema}\" does not exist"))
            }
            _ => None,
        };
        if kind == "foreign table" && missing_schema.is_none() && self.relation_named(name)?.is_some() {
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{shown}\" is not a foreign table")));
        }
        let state = if missing_schema.is_some() { SqlState::NO_SUCH_SCHEMA } else { SqlState::NO_SUCH_OBJECT };
        let message = missing_schema.unwrap_or_else(|| format!("{kind} \"{shown}\" does not exist"));
        if !if_exists {
            return Err(Error::new(state, message));
        }
        self.notice(Severity::Notice, SqlState("00000"), format!("{message}, skipping"));
        Ok(())
    }
}

/// Whether the system has a parser or a template of a name.
fn is_system_s(kind: SearchKind, name: &str) -> bool {
    match kind {
        SearchKind::Parser => name == "default",
        _ => text_search::TEMPLATES.iter().any(|template| template.name == name),
    }
}

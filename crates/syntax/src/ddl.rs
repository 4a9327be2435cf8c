//! CREATE, ALTER, DROP and TRUNCATE.

use colibri_types::{Error, Result};
use sqlparser::ast::{self, ObjectType};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};
use crate::tree::{Admin, Statement};

mod alter;
mod columns;
mod constraints;
mod index;
mod options;
mod partitions;
mod table;
mod view;

/// Kinds of objects that are made, changed and dropped elsewhere, or not at all.
const KINDS: [K; 40] = [
    K::Access,
    K::Aggregate,
    K::Cast,
    K::Collation,
    K::Constraint,
    K::Conversion,
    K::Database,
    K::Default,
    K::Domain,
    K::Event,
    K::Extension,
    K::Foreign,
    K::Function,
    K::Group,
    K::Language,
    K::Large,
    K::Materialized,
    K::Operator,
    K::Owned,
    K::Policy,
    K::Procedural,
    K::Procedure,
    K::Publication,
    K::Role,
    K::Routine,
    K::Rule,
    K::Schema,
    K::Sequence,
    K::Server,
    K::Statistics,
    K::Subscription,
    K::System,
    K::Tablespace,
    K::Text,
    K::Transform,
    K::Trigger,
    K::Trusted,
    K::Type,
    K::User,
    K::View,
];

impl Parser<'_> {
    pub(crate) fn create(&mut self) -> Result<Statement> {
        let token = self.expect(K::Create)?;
        let or_replace = self.eat_all(&[K::Or, K::Replace]);
        let global = self.eat(K::Global);
        let local = !global && self.eat(K::Local);
        let temporary = self.eat(K::Temporary) || self.eat(K::Temp);
        let unlogged = !temporary && self.eat(K::Unlogged);
        if (global || local) && !temporary {
            return Err(self.wrong());
        }
        let is_plain = !or_replace && !temporary && !unlogged;
        if is_plain && let Some(word) = self.eat_role() {
            return self.create_role(word).map(Statement::from);
        }
        match self.kind() {
            Kind::Key(K::Table) if !or_replace => {
                self.next();
                let global = (global || local).then_some(global);
                self.create_table(table::Persistence { temporary, unlogged, global }).map(Statement::from)
            }
            Kind::Key(K::Recursive | K::View) if !unlogged => {
                self.create_view(or_replace, temporary).map(Statement::from)
            }
            Kind::Key(K::Materialized) if !or_replace && !temporary => {
                self.create_materialized_view().map(Statement::from)
            }
            Kind::Key(K::Unique | K::Index) if is_plain => self.create_index().map(Statement::from),
            Kind::Key(K::Schema) if is_plain => self.create_schema(),
            Kind::Key(K::Database) if is_plain => {
                self.next();
                self.create_database().map(Statement::from)
            }
            Kind::Key(K::Type) if is_plain => self.create_type(token).map(Statement::from),
            Kind::Key(K::Domain) if is_plain => self.create_domain().map(Statement::from),
            Kind::Key(K::Function | K::Procedure) if !temporary && !unlogged => {
                self.create_routine(or_replace).map(Statement::from)
            }
            Kind::Key(K::Cast) if is_plain => self.create_cast().map(Statement::from),
            Kind::Key(K::Operator) if is_plain && !matches!(self.kind_behind(1), Kind::Key(K::Class | K::Family)) => {
                self.create_operator().map(Statement::from)
            }
            Kind::Key(K::Collation) if is_plain => self.create_collation().map(Statement::from),
            Kind::Key(K::Statistics) if is_plain => self.create_statistics().map(Statement::from),
            Kind::Key(K::Text) if is_plain => self.create_text_search(token).map(Statement::from),
            Kind::Key(K::Aggregate) if !temporary && !unlogged => {
                self.create_aggregate(or_replace).map(Statement::from)
            }
            Kind::Key(K::Trigger) if !temporary && !unlogged => self.create_trigger(or_replace).map(Statement::from),
            Kind::Key(K::Constraint) if self.kind_behind(1) == Kind::Key(K::Trigger) && !temporary && !unlogged => {
                self.create_trigger(or_replace).map(Statement::from)
            }
            Kind::Key(K::Event) if is_plain && self.kind_behind(1) == Kind::Key(K::Trigger) => {
                Err(self.refuse_event_trigger(token, "CREATE"))
            }
            Kind::Key(K::Rule) if !temporary && !unlogged => self.create_rule(or_replace).map(Statement::from),
            Kind::Key(K::Policy) if is_plain => self.create_policy().map(Statement::from),
            Kind::Key(K::Extension) if is_plain => self.create_extension().map(Statement::from),
            // One that is not logged is an ordinary one, which keeps more than it has to.
            Kind::Key(K::Sequence) if !or_replace => {
                self.next();
                self.create_sequence(temporary).map(Statement::from)
            }
            Kind::Key(K::View | K::Schema | K::Materialized | K::System | K::Owned) => Err(self.wrong()),
            _ => Err(self.other_kind(token, "CREATE")),
        }
    }

    /// The error for a statement of a kind that is not supported, all of which is taken.
    pub(crate) fn other_kind(&mut self, token: Token, verb: &str) -> Error {
        let is_kind = matches!(self.kind(), Kind::Key(word) if KINDS.contains(&word));
        if !is_kind {
            return self.wrong();
        }
        let kind = self.next();
        let mut what = format!("{verb} {}", self.token_text(kind).to_ascii_uppercase());
        if matches!(kind.kind, Kind::Key(K::Foreign | K::Event | K::Text | K::Default | K::User | K::Large))
            && let Kind::Key(_) = self.kind()
        {
            what = format!("{what} {}", self.token_text(self.peek()).to_ascii_uppercase());
        }
        self.refuse_statement(token, &what)
    }

    /// The error for a statement that is not supported, all of which is taken.
    pub(crate) fn refuse_statement(&mut self, token: Token, what: &str) -> Error {
        while !matches!(self.kind(), Kind::Semicolon | Kind::End) {
            if self.kind() == Kind::Bad {
                return self.wrong();
            }
            self.next();
        }
        self.error_at(token, Error::unsupported(what))
    }

    pub(crate) fn if_not_exists(&mut self) -> Result<bool> {
        if !self.eat(K::If) {
            return Ok(false);
        }
        self.expect_all(&[K::Not, K::Exists])?;
        Ok(true)
    }

    pub(crate) fn if_exists(&mut self) -> Result<bool> {
        if !self.eat(K::If) {
            return Ok(false);
        }
        self.expect(K::Exists)?;
        Ok(true)
    }

    /// `CREATE SCHEMA [IF NOT EXISTS] name [AUTHORIZATION role] [elements]`
    fn create_schema(&mut self) -> Result<Statement> {
        self.expect(K::Schema)?;
        let if_not_exists = self.if_not_exists()?;
        let schema_name = if self.eat(K::Authorization) {
            ast::SchemaName::UnnamedAuthorization(self.role()?)
        } else {
            let name = ast::ObjectName::from(vec![self.name()?]);
            if self.eat(K::Authorization) {
                ast::SchemaName::NamedAuthorization(name, self.role()?)
            } else {
                ast::SchemaName::Simple(name)
            }
        };
        let mut elements = Vec::new();
        while let Kind::Key(K::Create | K::Grant) = self.kind() {
            if if_not_exists {
                let message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements";
                let error = Error::new(colibri_types::SqlState::FEATURE_NOT_SUPPORTED, message);
                return Err(self.error_at(self.peek(), error));
            }
            elements.push(self.schema_element()?);
        }
        let schema = ast::Statement::CreateSchema {
            schema_name,
            or_replace: false,
            if_not_exists,
            with: None,
            options: None,
            default_collate_spec: None,
            clone: None,
        };
        if elements.is_empty() {
            return Ok(schema.into());
        }
        Ok(Admin::CreateSchemaWith { schema: Box::new(schema), elements }.into())
    }

    /// A statement that makes an object of a new schema, or grants something on one.
    fn schema_element(&mut self) -> Result<Statement> {
        if self.is_next(K::Grant) {
            return self.grant().map(Statement::from);
        }
        let behind = |parser: &Self| {
            let mut ahead = 1;
            while let Kind::Key(
                K::Or
                | K::Replace
                | K::Temporary
                | K::Temp
                | K::Unlogged
                | K::Unique
                | K::Constraint
                | K::Recursive
                | K::Local
                | K::Global,
            ) = parser.kind_behind(ahead)
            {
                ahead += 1;
            }
            parser.kind_behind(ahead)
        };
        match behind(self) {
            Kind::Key(K::Table | K::View | K::Index | K::Sequence | K::Trigger) => self.create(),
            _ => {
                self.next();
                Err(self.wrong())
            }
        }
    }

    /// The name of a role, or a word that stands for one.
    pub(crate) fn role(&mut self) -> Result<ast::Ident> {
        match self.kind() {
            Kind::Key(K::CurrentUser | K::SessionUser | K::CurrentRole) => {
                let token = self.next();
                self.ident_of(token)
            }
            _ => self.name(),
        }
    }

    pub(crate) fn drop_statement(&mut self) -> Result<Statement> {
        let token = self.expect(K::Drop)?;
        if self.eat_role().is_some() {
            return self.drop_roles().map(Statement::from);
        }
        if self.eat(K::Database) {
            return self.drop_database().map(Statement::from);
        }
        if self.is_next(K::Type) {
            return self.drop_types().map(Statement::from);
        }
        if self.is_next(K::Domain) {
            return self.drop_domains().map(Statement::from);
        }
        if self.is_next(K::Extension) {
            return self.drop_extensions().map(Statement::from);
        }
        if let Some(kind) = self.eat_routine() {
            return self.drop_routines(kind).map(Statement::from);
        }
        if self.is_next(K::Trigger) {
            return self.drop_trigger().map(Statement::from);
        }
        if self.is_next(K::Policy) {
            return self.drop_policy().map(Statement::from);
        }
        if self.is_next(K::Rule) {
            return self.drop_rule().map(Statement::from);
        }
        if self.is_next(K::Collation) {
            return self.drop_collations().map(Statement::from);
        }
        if self.is_next(K::Statistics) {
            return self.drop_statistics().map(Statement::from);
        }
        if self.is_next(K::Cast) {
            return self.drop_cast().map(Statement::from);
        }
        if self.is_next(K::Operator) && !matches!(self.kind_behind(1), Kind::Key(K::Class | K::Family)) {
            return self.drop_operator().map(Statement::from);
        }
        if self.is_next(K::Owned) {
            return self.drop_owned().map(Statement::from);
        }
        if self.is_next(K::Text) {
            return self.drop_text_search().map(Statement::from);
        }
        if let Some(drop) = self.drop_absent()? {
            return Ok(drop.into());
        }
        let object_type = match self.kind() {
            Kind::Key(K::Table) => ObjectType::Table,
            Kind::Key(K::View) => ObjectType::View,
            Kind::Key(K::Index) => ObjectType::Index,
            Kind::Key(K::Sequence) => ObjectType::Sequence,
            Kind::Key(K::Schema) => ObjectType::Schema,
            Kind::Key(K::Materialized) if self.kind_behind(1) == Kind::Key(K::View) => {
                self.next();
                ObjectType::MaterializedView
            }
            _ => return Err(self.other_kind(token, "DROP")),
        };
        self.next();
        let concurrently = object_type == ObjectType::Index && self.eat(K::Concurrently);
        let if_exists = self.if_exists()?;
        let names = self.list(Self::object_name)?;
        let cascade = self.eat(K::Cascade);
        let restrict = !cascade && self.eat(K::Restrict);
        let dropped = ast::Statement::Drop {
            object_type,
            if_exists,
            names,
            cascade,
            restrict,
            purge: concurrently,
            temporary: false,
            table: None,
        };
        Ok(dropped.into())
    }

    pub(crate) fn truncate(&mut self) -> Result<ast::Statement> {
        self.expect(K::Truncate)?;
        let table = self.eat(K::Table);
        let table_names = self.list(|parser| {
            let only = parser.is_next(K::Only);
            let name = parser.relation_name()?;
            let has_asterisk = parser.last().kind == Kind::Star;
            Ok(ast::TruncateTableTarget { name, only, has_asterisk })
        })?;
        let identity = if self.eat(K::Restart) {
            self.expect(K::Identity)?;
            Some(ast::TruncateIdentityOption::Restart)
        } else if self.eat(K::Continue) {
            self.expect(K::Identity)?;
            Some(ast::TruncateIdentityOption::Continue)
        } else {
            None
        };
        let cascade = if self.eat(K::Cascade) {
            Some(ast::CascadeOption::Cascade)
        } else if self.eat(K::Restrict) {
            Some(ast::CascadeOption::Restrict)
        } else {
            None
        };
        Ok(ast::Statement::Truncate(ast::Truncate {
            table_names,
            partitions: None,
            table,
            if_exists: false,
            identity,
            cascade,
            on_cluster: None,
        }))
    }

    pub(crate) fn drop_behavior(&mut self) -> Option<ast::DropBehavior> {
        if self.eat(K::Cascade) {
            Some(ast::DropBehavior::Cascade)
        } else if self.eat(K::Restrict) {
            Some(ast::DropBehavior::Restrict)
        } else {
            None
        }
    }
}

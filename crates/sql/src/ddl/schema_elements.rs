//! `CREATE SCHEMA s CREATE TABLE t …`: a schema with its first objects.
//!
//! The elements run in PostgreSQL's order, whatever theirs is: sequences, tables, views, indexes,
//! triggers, privileges. Their names mean objects of the new schema first. They belong to the role
//! that the schema is made for.

use std::sync::Arc;

use colibri_syntax::tree::{Admin, Routines, Statement as Tree};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;
use sqlparser::ast::{self, Statement};

use super::Session;
use crate::bind::{fold, name_parts};

/// When an element is made.
fn rank(element: &Tree) -> u8 {
    match element {
        Tree::Admin(admin) => match &**admin {
            Admin::CreateSequence { .. } => 0,
            Admin::Grant { .. } => 5,
            _ => 4,
        },
        Tree::Relational(statement) => match &**statement {
            Statement::CreateTable(_) => 1,
            Statement::CreateView(_) => 2,
            _ => 3,
        },
        _ => 4,
    }
}

/// The schema that an element says it is made in.
fn named_schema(element: &Tree) -> Option<CompactString> {
    let of_name = |name: &ast::ObjectName| {
        let parts = name_parts(name).ok()?;
        let before = parts.len().checked_sub(2)?;
        Some(fold(parts[before]))
    };
    match element {
        Tree::Admin(admin) => match &**admin {
            Admin::CreateSequence { name, .. } => name.len().checked_sub(2).map(|before| name[before].clone()),
            Admin::Routines(routines) => match &**routines {
                Routines::CreateTrigger(trigger) => {
                    trigger.table.len().checked_sub(2).map(|before| trigger.table[before].clone())
                }
                _ => None,
            },
            _ => None,
        },
        Tree::Relational(statement) => match &**statement {
            Statement::CreateTable(create) => of_name(&create.name),
            Statement::CreateView(create) => of_name(&create.name),
            Statement::CreateIndex(create) => of_name(&create.table_name),
            _ => None,
        },
        _ => None,
    }
}

impl Session {
    /// Makes a schema, and what is in it.
    pub(crate) fn create_schema_with(&mut self, schema: &Statement, elements: &[Tree]) -> Result<()> {
        let Statement::CreateSchema { schema_name, .. } = schema else {
            return Err(Error::internal("a schema is made by another statement"));
        };
        let (name, owner) = match schema_name {
            ast::SchemaName::Simple(name) => (name_parts(name)?.last().map(|part| fold(part)), None),
            ast::SchemaName::NamedAuthorization(name, owner) => {
                (name_parts(name)?.last().map(|part| fold(part)), Some(fold(owner)))
            }
            ast::SchemaName::UnnamedAuthorization(owner) => (Some(fold(owner)), Some(fold(owner))),
        };
        let name = name.ok_or_else(|| Error::internal("a name has no parts"))?;
        self.ddl(schema)?;
        for element in elements {
            if let Some(other) = named_schema(element).filter(|other| *other != name) {
                let message =
                    format!("CREATE specifies a schema ({other}) different from the one being created ({name})");
                return Err(Error::new(SqlState("42P15"), message));
            }
        }
        let mut ordered: Vec<&Tree> = elements.iter().collect();
        ordered.sort_by_key(|element| rank(element));
        let owner = match owner.as_deref() {
            None | Some("current_user" | "current_role") => None,
            Some("session_user") => Some(self.session_role()),
            Some(owner) => Some(self.all_roles().expect(owner)?.oid),
        };
        let mut path = vec![name];
        path.extend(self.search_path().iter().cloned());
        self.within_schema(Arc::from(path), owner, |session| {
            for element in ordered {
                match element {
                    Tree::Relational(statement) => session.ddl(statement).map(drop)?,
                    Tree::Admin(statement) => session.administer(statement)?,
                    _ => return Err(Error::internal("a statement makes no element of a schema")),
                }
            }
            Ok(())
        })
    }
}

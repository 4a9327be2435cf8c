//! CREATE, ALTER and DROP EXTENSION.
//!
//! ```text
//! CREATE EXTENSION [IF NOT EXISTS] name [WITH] {SCHEMA name | VERSION version | CASCADE} …
//! ALTER EXTENSION name {UPDATE [TO version] | SET SCHEMA name}
//! DROP EXTENSION [IF EXISTS] name, … [CASCADE | RESTRICT]
//! ```

use colibri_types::Result;

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Token;
use crate::tree::{Admin, ExtensionChange, Name};

impl Parser<'_> {
    /// Behind CREATE.
    pub(crate) fn create_extension(&mut self) -> Result<Admin> {
        self.expect(K::Extension)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.folded()?;
        self.eat(K::With);
        let (mut schema, mut version, mut cascade) = (None, None, false);
        while !self.is_over() {
            match self.eat_any(&[K::Schema, K::Version, K::Cascade]) {
                Some(0) if schema.is_none() => schema = Some(self.folded()?),
                Some(1) if version.is_none() => version = Some(self.version()?),
                Some(2) if !cascade => cascade = true,
                _ => return Err(self.wrong()),
            }
        }
        Ok(Admin::CreateExtension { name, if_not_exists, schema, version, cascade })
    }

    /// A version: a word or a string.
    fn version(&mut self) -> Result<Name> {
        if Self::is_string(self.kind()) { self.string().map(Name::from) } else { self.folded() }
    }

    /// Behind ALTER, which is `token`.
    pub(crate) fn alter_extension(&mut self, token: Token) -> Result<Admin> {
        self.expect(K::Extension)?;
        let name = self.folded()?;
        let change = if self.eat(K::Update) {
            ExtensionChange::Update(if self.eat(K::To) { Some(self.version()?) } else { None })
        } else if self.eat_all(&[K::Set, K::Schema]) {
            ExtensionChange::SetSchema(self.folded()?)
        } else if self.is_next(K::Add) || self.is_next(K::Drop) {
            return Err(self.refuse_statement(token, "changing what belongs to an extension"));
        } else {
            return Err(self.wrong());
        };
        Ok(Admin::AlterExtension { name, change })
    }

    /// Behind DROP.
    pub(crate) fn drop_extensions(&mut self) -> Result<Admin> {
        self.expect(K::Extension)?;
        let if_exists = self.if_exists()?;
        let names = self.list(Self::folded)?;
        let cascade = self.cascade();
        Ok(Admin::DropExtensions { names, if_exists, cascade })
    }
}

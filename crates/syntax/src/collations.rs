//! CREATE, ALTER and DROP COLLATION.
//!
//! ```text
//! CREATE COLLATION [IF NOT EXISTS] name {(option = value, …) | FROM name}
//! ALTER COLLATION name {RENAME TO name | OWNER TO role | SET SCHEMA name | REFRESH VERSION}
//! DROP COLLATION [IF EXISTS] name, … [CASCADE | RESTRICT]
//! ```

use colibri_types::Result;

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Admin, CollationOption, Collations};

impl From<Collations> for Admin {
    fn from(statement: Collations) -> Self {
        Self::Collations(Box::new(statement))
    }
}

impl Parser<'_> {
    /// Behind CREATE.
    pub(crate) fn create_collation(&mut self) -> Result<Admin> {
        self.expect(K::Collation)?;
        let if_not_exists = self.eat_all(&[K::If, K::Not, K::Exists]);
        let name = self.qualified()?;
        if self.eat(K::From) {
            let from = self.qualified()?;
            return Ok(Collations::Copy { name, if_not_exists, from }.into());
        }
        self.expect_kind(Kind::LeftParen)?;
        let options = self.list(Self::collation_option)?;
        self.expect_kind(Kind::RightParen)?;
        Ok(Collations::Create { name, if_not_exists, options }.into())
    }

    fn collation_option(&mut self) -> Result<CollationOption> {
        let token = self.peek();
        let name = self.folded_label()?;
        let mut value = Vec::new();
        if self.eat_kind(Kind::Equal) {
            value = match self.kind() {
                kind if Self::is_string(kind) => vec![self.string()?.into()],
                kind if Self::is_type_name(kind) || Self::is_column_name(kind) => self.qualified_function()?,
                _ => {
                    let token = self.next();
                    vec![self.token_text(token).into()]
                }
            };
        }
        Ok(CollationOption { name, value, position: self.place_of(token) })
    }

    /// Behind ALTER.
    pub(crate) fn alter_collation(&mut self) -> Result<Admin> {
        self.expect(K::Collation)?;
        let name = self.qualified()?;
        if self.eat_all(&[K::Rename, K::To]) {
            return Ok(Collations::Rename { name, to: self.folded()? }.into());
        }
        if self.eat_all(&[K::Owner, K::To]) {
            return Ok(Collations::Owner { name, to: self.role_name()? }.into());
        }
        if self.eat_all(&[K::Set, K::Schema]) {
            return Ok(Collations::SetSchema { name, schema: self.folded()? }.into());
        }
        self.expect(K::Refresh)?;
        self.expect(K::Version)?;
        Ok(Collations::Refresh { name }.into())
    }

    /// Behind DROP.
    pub(crate) fn drop_collations(&mut self) -> Result<Admin> {
        self.expect(K::Collation)?;
        let if_exists = self.if_exists()?;
        let names = self.list(Self::qualified)?;
        let cascade = self.cascade();
        Ok(Collations::Drop { names, if_exists, cascade }.into())
    }

    pub(crate) fn comment_on_collation(&mut self) -> Result<Admin> {
        self.expect(K::Collation)?;
        let name = self.qualified()?;
        let text = self.comment_text()?;
        Ok(Collations::Comment { name, text }.into())
    }
}

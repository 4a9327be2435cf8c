//! CREATE, ALTER and DROP TYPE: enums.
//!
//! ```text
//! CREATE TYPE name AS ENUM ([text, …])
//! ALTER TYPE name ADD VALUE [IF NOT EXISTS] text [{BEFORE | AFTER} text]
//! ALTER TYPE name RENAME VALUE text TO text
//! ALTER TYPE name {RENAME TO name | SET SCHEMA name | OWNER TO role}
//! DROP TYPE [IF EXISTS] name, … [CASCADE | RESTRICT]
//! ```

use colibri_types::Result;

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};
use crate::tree::{Admin, LabelPlace, TypeChange};

impl Parser<'_> {
    /// Behind CREATE, which is `token`.
    pub(crate) fn create_type(&mut self, token: Token) -> Result<Admin> {
        self.expect(K::Type)?;
        let name = self.qualified()?;
        if !self.are_next(&[K::As, K::Enum]) {
            return Err(self.refuse_statement(token, "CREATE TYPE of another kind than ENUM"));
        }
        self.next();
        self.next();
        let labels = if self.kind() == Kind::LeftParen && self.kind_behind(1) == Kind::RightParen {
            self.next();
            self.next();
            Vec::new()
        } else {
            self.in_parens(Self::string)?
        };
        Ok(Admin::CreateEnum { name, labels })
    }

    /// Behind ALTER, which is `token`.
    pub(crate) fn alter_user_type(&mut self, token: Token) -> Result<Admin> {
        self.expect(K::Type)?;
        let name = self.qualified()?;
        let change = if self.eat_all(&[K::Add, K::Value]) {
            let if_not_exists = self.if_not_exists()?;
            let text = self.string()?;
            let place = match self.eat_any(&[K::Before, K::After]) {
                Some(0) => LabelPlace::Before(self.string()?),
                Some(_) => LabelPlace::After(self.string()?),
                None => LabelPlace::Last,
            };
            TypeChange::AddValue { text, if_not_exists, place }
        } else if self.eat_all(&[K::Rename, K::Value]) {
            let from = self.string()?;
            self.expect(K::To)?;
            TypeChange::RenameValue { from, to: self.string()? }
        } else if self.eat_all(&[K::Rename, K::To]) {
            TypeChange::Rename(self.folded()?)
        } else if self.eat_all(&[K::Set, K::Schema]) {
            TypeChange::SetSchema(self.folded()?)
        } else if self.eat_all(&[K::Owner, K::To]) {
            TypeChange::Owner(self.role_name()?)
        } else if let Kind::Key(_) = self.kind() {
            let what = format!("ALTER TYPE {}", self.token_text(self.peek()).to_ascii_uppercase());
            return Err(self.refuse_statement(token, &what));
        } else {
            return Err(self.wrong());
        };
        Ok(Admin::AlterType { name, change })
    }

    /// Behind DROP.
    pub(crate) fn drop_types(&mut self) -> Result<Admin> {
        self.expect(K::Type)?;
        let if_exists = self.if_exists()?;
        let names = self.list(Self::qualified)?;
        let cascade = self.cascade();
        Ok(Admin::DropTypes { names, if_exists, cascade, domains: false })
    }
}

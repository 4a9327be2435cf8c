//! CREATE, ALTER and DROP TYPE: enums and composite types.
//!
//! ```text
//! CREATE TYPE name AS ENUM ([text, …])
//! CREATE TYPE name AS RANGE (SUBTYPE = type [, option = value, …])
//! CREATE TYPE name AS ([name type [COLLATE name], …])
//! ALTER TYPE name {ADD ATTRIBUTE name type [COLLATE name] | DROP ATTRIBUTE [IF EXISTS] name |
//!     ALTER ATTRIBUTE name [SET DATA] TYPE type [COLLATE name]} [CASCADE | RESTRICT], …
//! ALTER TYPE name RENAME ATTRIBUTE name TO name [CASCADE | RESTRICT]
//! ALTER TYPE name ADD VALUE [IF NOT EXISTS] text [{BEFORE | AFTER} text]
//! ALTER TYPE name RENAME VALUE text TO text
//! ALTER TYPE name {RENAME TO name | SET SCHEMA name | OWNER TO role}
//! DROP TYPE [IF EXISTS] name, … [CASCADE | RESTRICT]
//! ```

use colibri_types::{Error, Result, SqlState};
use sqlparser::ast;

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};
use crate::tree::{Admin, AttributeChange, LabelPlace, RangeOption, TypeChange, TypeField};

impl Parser<'_> {
    /// Behind CREATE, which is `token`.
    pub(crate) fn create_type(&mut self, token: Token) -> Result<Admin> {
        self.expect(K::Type)?;
        let name = self.qualified()?;
        if self.is_next(K::As) && self.kind_behind(1) == Kind::LeftParen {
            self.next();
            let is_empty = self.kind_behind(1) == Kind::RightParen;
            let fields = if is_empty { Vec::new() } else { self.in_parens(Self::type_field)? };
            if is_empty {
                self.next();
                self.next();
            }
            return Ok(Admin::CreateComposite { name, fields });
        }
        if self.are_next(&[K::As, K::Range]) {
            self.next();
            self.next();
            let options = self.in_parens(Self::range_option)?;
            return Ok(Admin::CreateRange { name, options });
        }
        if !self.are_next(&[K::As, K::Enum]) {
            return Err(self.refuse_statement(token, "CREATE TYPE of another kind than ENUM, RANGE and composite"));
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

    fn range_option(&mut self) -> Result<RangeOption> {
        let token = self.peek();
        let name = self.folded_label()?;
        self.expect_kind(Kind::Equal)?;
        Ok(match name.as_str() {
            "subtype" => RangeOption::Subtype(self.data_type()?),
            "subtype_opclass" => RangeOption::Class(self.qualified()?),
            "collation" => RangeOption::Collation(self.qualified()?),
            "canonical" => {
                self.qualified()?;
                RangeOption::Canonical
            }
            "subtype_diff" => RangeOption::Difference(self.qualified()?),
            "multirange_type_name" => RangeOption::Multirange(self.qualified()?),
            _ => {
                let message = format!("type attribute \"{name}\" not recognized");
                return Err(self.error_at(token, Error::new(SqlState::SYNTAX_ERROR, message)));
            }
        })
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
        } else if let Some(change) = self.attribute_change()? {
            let mut changes = vec![change];
            while self.eat_kind(Kind::Comma) {
                changes.push(self.attribute_change()?.ok_or_else(|| self.wrong())?);
            }
            TypeChange::Attributes(changes)
        } else if self.is_next(K::Rename) && self.is_attribute_behind() {
            self.next();
            self.next();
            let from = self.folded()?;
            self.expect(K::To)?;
            let to = self.folded()?;
            self.cascade();
            TypeChange::RenameAttribute { from, to }
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

    /// Whether the word ATTRIBUTE comes behind the next one.
    fn is_attribute_behind(&self) -> bool {
        self.kind_behind(1) == Kind::Key(K::Attribute)
    }

    fn type_field(&mut self) -> Result<TypeField> {
        let name = self.folded()?;
        let data_type = self.data_type()?;
        Ok(TypeField { name, data_type, collation: self.field_collation()? })
    }

    fn field_collation(&mut self) -> Result<Option<ast::ObjectName>> {
        if self.eat(K::Collate) { self.object_name().map(Some) } else { Ok(None) }
    }

    fn attribute_change(&mut self) -> Result<Option<AttributeChange>> {
        let Kind::Key(word @ (K::Add | K::Drop | K::Alter)) = self.kind() else { return Ok(None) };
        if !self.is_attribute_behind() {
            return Ok(None);
        }
        self.next();
        self.next();
        let change = match word {
            K::Add => AttributeChange::Add(self.type_field()?),
            K::Drop => {
                let if_exists = self.if_exists()?;
                AttributeChange::Drop { name: self.folded()?, if_exists }
            }
            _ => {
                let name = self.folded()?;
                if self.eat(K::Set) {
                    self.expect(K::Data)?;
                }
                self.expect(K::Type)?;
                let data_type = self.data_type()?;
                AttributeChange::Type(TypeField { name, data_type, collation: self.field_collation()? })
            }
        };
        self.cascade();
        Ok(Some(change))
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

//! CREATE and DROP CAST.
//!
//! ```text
//! CREATE CAST (type AS type) {WITH FUNCTION name [(argument, …)] | WITHOUT FUNCTION | WITH INOUT}
//!     [AS {ASSIGNMENT | IMPLICIT}]
//! DROP CAST [IF EXISTS] (type AS type) [CASCADE | RESTRICT]
//! ```

use colibri_types::Result;

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Admin, CastTypes, CreateCast, Routines, TypeGiven};

impl Parser<'_> {
    /// `(type AS type)`
    pub(crate) fn cast_types(&mut self) -> Result<CastTypes> {
        self.expect_kind(Kind::LeftParen)?;
        let from = self.data_type().map(TypeGiven::Named)?;
        self.expect(K::As)?;
        let to = self.data_type().map(TypeGiven::Named)?;
        self.expect_kind(Kind::RightParen)?;
        Ok(CastTypes { from, to })
    }

    /// Behind CREATE.
    pub(crate) fn create_cast(&mut self) -> Result<Admin> {
        self.expect(K::Cast)?;
        let types = self.cast_types()?;
        let (mut function, mut by_text) = (None, false);
        if self.eat(K::Without) {
            self.expect(K::Function)?;
        } else {
            self.expect(K::With)?;
            if self.eat(K::Inout) {
                by_text = true;
            } else {
                self.expect(K::Function)?;
                function = Some(self.routine_named()?);
            }
        }
        let mut context = 'e';
        if self.eat(K::As) {
            context = match self.eat_any(&[K::Assignment, K::Implicit]) {
                Some(0) => 'a',
                Some(_) => 'i',
                None => return Err(self.wrong()),
            };
        }
        Ok(Routines::CreateCast(CreateCast { types, function, by_text, context }).into())
    }

    /// Behind DROP.
    pub(crate) fn drop_cast(&mut self) -> Result<Admin> {
        self.expect(K::Cast)?;
        let if_exists = self.if_exists()?;
        let types = self.cast_types()?;
        let cascade = self.cascade();
        Ok(Routines::DropCast { types, if_exists, cascade }.into())
    }
}

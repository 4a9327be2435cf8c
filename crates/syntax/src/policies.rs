//! CREATE, ALTER and DROP POLICY.
//!
//! ```text
//! CREATE POLICY name ON table [AS {PERMISSIVE | RESTRICTIVE}] [FOR {ALL | SELECT | INSERT | UPDATE | DELETE}]
//!     [TO role, …] [USING (condition)] [WITH CHECK (condition)]
//! ALTER POLICY name ON table {RENAME TO name | [TO role, …] [USING (condition)] [WITH CHECK (condition)]}
//! DROP POLICY [IF EXISTS] name ON table [CASCADE | RESTRICT]
//! ```

use colibri_types::{Error, Result, SqlState};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Admin, CreatePolicy, Policies, RoleName};

impl From<Policies> for Admin {
    fn from(statement: Policies) -> Self {
        Self::Policies(Box::new(statement))
    }
}

impl Parser<'_> {
    /// Behind CREATE.
    pub(crate) fn create_policy(&mut self) -> Result<Admin> {
        self.expect(K::Policy)?;
        let name = self.folded()?;
        self.expect(K::On)?;
        let table = self.qualified()?;
        let mut permissive = true;
        if self.eat(K::As) {
            let token = self.peek();
            permissive = match self.folded()?.as_str() {
                "permissive" => true,
                "restrictive" => false,
                other => {
                    let message = format!("unrecognized row security option \"{other}\"");
                    let error = Error::new(SqlState::SYNTAX_ERROR, message)
                        .hint("Only PERMISSIVE or RESTRICTIVE policies are supported currently.");
                    return Err(self.error_at(token, error));
                }
            };
        }
        let mut command = '*';
        if self.eat(K::For) {
            let words = [K::All, K::Select, K::Insert, K::Update, K::Delete];
            let word = self.eat_any(&words).ok_or_else(|| self.wrong())?;
            command = ['*', 'r', 'a', 'w', 'd'][word];
        }
        let to = self.policy_roles()?.unwrap_or_else(|| vec![None]);
        let (using, check) = self.policy_conditions()?;
        Ok(Policies::Create(CreatePolicy { name, table, permissive, command, to, using, check }).into())
    }

    fn policy_roles(&mut self) -> Result<Option<Vec<Option<RoleName>>>> {
        if self.eat(K::To) { self.list(Self::grantee).map(Some) } else { Ok(None) }
    }

    fn policy_conditions(&mut self) -> Result<(Option<String>, Option<String>)> {
        let using = if self.eat(K::Using) { Some(self.policy_condition()?) } else { None };
        let check = if self.eat_all(&[K::With, K::Check]) { Some(self.policy_condition()?) } else { None };
        Ok((using, check))
    }

    fn policy_condition(&mut self) -> Result<String> {
        self.expect_kind(Kind::LeftParen)?;
        let taken = self.taken();
        self.expr()?;
        let text = self.text_since(taken).to_owned();
        self.expect_kind(Kind::RightParen)?;
        Ok(text)
    }

    /// Behind ALTER.
    pub(crate) fn alter_policy(&mut self) -> Result<Admin> {
        self.expect(K::Policy)?;
        let if_exists = self.if_exists()?;
        let name = self.folded()?;
        self.expect(K::On)?;
        let table = self.qualified()?;
        if self.eat_all(&[K::Rename, K::To]) {
            return Ok(Policies::Rename { name, table, to: self.folded()? }.into());
        }
        if if_exists {
            return Err(self.wrong());
        }
        let to = self.policy_roles()?;
        let (using, check) = self.policy_conditions()?;
        Ok(Policies::Alter { name, table, to, using, check }.into())
    }

    /// Behind DROP.
    pub(crate) fn drop_policy(&mut self) -> Result<Admin> {
        self.expect(K::Policy)?;
        let if_exists = self.if_exists()?;
        let name = self.folded()?;
        self.expect(K::On)?;
        let table = self.qualified()?;
        // Nothing depends on a policy, so that both mean the same.
        self.cascade();
        Ok(Policies::Drop { name, table, if_exists }.into())
    }
}

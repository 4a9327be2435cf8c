//! CREATE, ALTER and DROP DOMAIN.
//!
//! ```text
//! CREATE DOMAIN name [AS] type [COLLATE name] [DEFAULT expr]
//!     [[CONSTRAINT name] {NOT NULL | NULL | CHECK (condition)}] …
//! ALTER DOMAIN name {SET DEFAULT expr | DROP DEFAULT | SET NOT NULL | DROP NOT NULL}
//! ALTER DOMAIN name ADD [CONSTRAINT name] CHECK (condition) [NOT VALID]
//! ALTER DOMAIN name DROP CONSTRAINT [IF EXISTS] name [CASCADE | RESTRICT]
//! ALTER DOMAIN name {RENAME CONSTRAINT name TO name | VALIDATE CONSTRAINT name}
//! ALTER DOMAIN name {RENAME TO name | SET SCHEMA name | OWNER TO role}
//! DROP DOMAIN [IF EXISTS] name, … [CASCADE | RESTRICT]
//! ```

use colibri_types::{Error, Result, SqlState};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;
use crate::tree::{Admin, DomainChange, TypeChange};

impl Parser<'_> {
    /// Behind CREATE.
    pub(crate) fn create_domain(&mut self) -> Result<Admin> {
        self.expect(K::Domain)?;
        let name = self.qualified()?;
        self.eat(K::As);
        let data_type = self.data_type()?;
        let options = self.column_options().map_err(|error| match error.report().message.as_str() {
            "misplaced DEFERRABLE clause" => {
                let message = "specifying constraint deferrability not supported for domains";
                Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            }
            _ => error,
        })?;
        Ok(Admin::CreateDomain { name, data_type: Box::new(data_type), options })
    }

    /// Behind ALTER.
    pub(crate) fn alter_domain(&mut self) -> Result<Admin> {
        self.expect(K::Domain)?;
        let name = self.qualified()?;
        let change = if self.eat_all(&[K::Set, K::Default]) {
            DomainChange::SetDefault(Some(Box::new(self.expr()?)))
        } else if self.eat_all(&[K::Drop, K::Default]) {
            DomainChange::SetDefault(None)
        } else if self.eat_all(&[K::Set, K::Not]) {
            self.expect(K::Null)?;
            DomainChange::SetNotNull(true)
        } else if self.eat_all(&[K::Drop, K::Not]) {
            self.expect(K::Null)?;
            DomainChange::SetNotNull(false)
        } else if self.eat(K::Add) {
            self.added_constraint()?
        } else if self.eat_all(&[K::Drop, K::Constraint]) {
            let if_exists = self.if_exists()?;
            let constraint = self.folded()?;
            // Nothing depends on a condition.
            if !self.eat(K::Cascade) {
                self.eat(K::Restrict);
            }
            DomainChange::DropConstraint { constraint, if_exists }
        } else if self.eat_all(&[K::Rename, K::Constraint]) {
            let constraint = self.folded()?;
            self.expect(K::To)?;
            DomainChange::RenameConstraint { constraint, to: self.folded()? }
        } else if self.eat_all(&[K::Validate, K::Constraint]) {
            DomainChange::Validate(self.folded()?)
        } else if self.eat_all(&[K::Rename, K::To]) {
            DomainChange::Type(TypeChange::Rename(self.folded()?))
        } else if self.eat_all(&[K::Set, K::Schema]) {
            DomainChange::Type(TypeChange::SetSchema(self.folded()?))
        } else if self.eat_all(&[K::Owner, K::To]) {
            DomainChange::Type(TypeChange::Owner(self.role_name()?))
        } else {
            return Err(self.wrong());
        };
        Ok(Admin::AlterDomain { name, change })
    }

    /// Behind ADD.
    fn added_constraint(&mut self) -> Result<DomainChange> {
        let name = if self.eat(K::Constraint) { Some(self.name()?) } else { None };
        let token = self.peek();
        match token.kind {
            Kind::Key(K::Check) => {
                let check = self.domain_check(name)?;
                let mut not_valid = false;
                loop {
                    let at = self.peek();
                    if self.eat_all(&[K::Not, K::Valid]) {
                        not_valid = true;
                    } else if self.eat_all(&[K::No, K::Inherit]) {
                        let message = "CHECK constraints cannot be marked NO INHERIT";
                        return Err(self.error_at(at, Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)));
                    } else {
                        break;
                    }
                }
                Ok(DomainChange::AddConstraint { check: Box::new(check), not_valid })
            }
            Kind::Key(K::Unique) => Err(self.error_at(token, not_for_domains("unique"))),
            Kind::Key(K::Primary) => Err(self.error_at(token, not_for_domains("primary key"))),
            Kind::Key(K::Foreign) => Err(self.error_at(token, not_for_domains("foreign key"))),
            _ => Err(self.wrong()),
        }
    }

    /// Behind DROP.
    pub(crate) fn drop_domains(&mut self) -> Result<Admin> {
        self.expect(K::Domain)?;
        let if_exists = self.if_exists()?;
        let names = self.list(Self::qualified)?;
        let cascade = self.eat(K::Cascade);
        if !cascade {
            self.eat(K::Restrict);
        }
        Ok(Admin::DropTypes { names, if_exists, cascade, domains: true })
    }
}

/// The error for a constraint that domains cannot have.
#[must_use]
pub fn not_for_domains(kind: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, format!("{kind} constraints not possible for domains"))
}

/// The error for NO INHERIT of a domain's condition.
#[must_use]
pub fn no_inherit() -> Error {
    Error::new(SqlState::BAD_OBJECT_DEFINITION, "check constraints for domains cannot be marked NO INHERIT")
}

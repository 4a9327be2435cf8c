//! GRANT and REVOKE.
//!
//! ```text
//! GRANT|REVOKE [GRANT OPTION FOR] privilege, … ON object, … {TO|FROM} role, …
//! GRANT|REVOKE [ADMIN OPTION FOR] role, … {TO|FROM} role, …
//! ```

use colibri_types::Result;

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};
use crate::tree::{Admin, Granting, Name, Object, ObjectKind, On, OnRoutines, RoleName, RoutineKind, Routines};

impl Parser<'_> {
    pub(crate) fn grant(&mut self) -> Result<Admin> {
        let token = self.next();
        let revoke = token.kind == Kind::Key(K::Revoke);
        if revoke && self.eat_all(&[K::Admin, K::Option, K::For]) {
            let roles = self.list(Self::folded)?;
            return self.grant_roles(roles, revoke, true);
        }
        let only_option = revoke && self.eat_all(&[K::Grant, K::Option, K::For]);
        let privileges = self.privileges(token)?;
        if !self.eat(K::On) {
            // These were names of roles.
            return match privileges {
                Some(roles) if !only_option => self.grant_roles(roles, revoke, false),
                _ => Err(self.wrong()),
            };
        }
        if let Some((kind, on)) = self.granted_routines()? {
            self.expect(if revoke { K::From } else { K::To })?;
            let to = self.list(Self::grantee)?;
            let option = if revoke { only_option } else { self.eat_all(&[K::With, K::Grant, K::Option]) };
            let by = self.granted_by()?;
            let cascade = revoke && self.cascade();
            let granting = Granting { privileges, option, revoke, by, cascade };
            return Ok(Routines::Grant { granting, kind, on, to }.into());
        }
        let on = self.granted_objects(token)?;
        self.expect(if revoke { K::From } else { K::To })?;
        let to = self.list(Self::grantee)?;
        let option = if revoke { only_option } else { self.eat_all(&[K::With, K::Grant, K::Option]) };
        let by = self.granted_by()?;
        let cascade = revoke && self.cascade();
        Ok(Admin::Grant { granting: Granting { privileges, option, revoke, by, cascade }, on, to })
    }

    /// Who is granted something; `None` is PUBLIC.
    pub(crate) fn grantee(&mut self) -> Result<Option<RoleName>> {
        self.eat(K::Group);
        // Even in quotes it is nobody's name.
        Ok(Some(self.role_name()?).filter(|role| !matches!(role, RoleName::Named(name) if name == "public")))
    }

    fn granted_by(&mut self) -> Result<Option<RoleName>> {
        if self.eat_all(&[K::Granted, K::By]) { self.role_name().map(Some) } else { Ok(None) }
    }

    /// Privileges by name; `None` is ALL. They may turn out to be names of roles.
    fn privileges(&mut self, token: Token) -> Result<Option<Vec<Name>>> {
        const ON_COLUMNS: &str = "privileges on columns";
        if self.eat(K::All) {
            self.eat(K::Privileges);
            return match self.kind() {
                Kind::LeftParen => Err(self.refuse_statement(token, ON_COLUMNS)),
                _ => Ok(None),
            };
        }
        let privileges = self.list(|parser| {
            // The reserved words among the privileges' names.
            let is_word = matches!(parser.kind(), Kind::Key(K::Select | K::References | K::Create));
            let name = if is_word { parser.folded_label()? } else { parser.folded()? };
            match parser.kind() {
                Kind::LeftParen => Err(parser.refuse_statement(token, ON_COLUMNS)),
                _ => Ok(name),
            }
        })?;
        Ok(Some(privileges))
    }

    /// Functions, if they come next.
    fn granted_routines(&mut self) -> Result<Option<(RoutineKind, OnRoutines)>> {
        if self.is_next(K::All) {
            let kind = match self.kind_behind(1) {
                Kind::Key(K::Functions) => RoutineKind::Function,
                Kind::Key(K::Procedures) => RoutineKind::Procedure,
                Kind::Key(K::Routines) => RoutineKind::Routine,
                _ => return Ok(None),
            };
            self.next();
            self.next();
            self.expect_all(&[K::In, K::Schema])?;
            return Ok(Some((kind, OnRoutines::AllIn(self.list(Self::folded)?))));
        }
        let Some(kind) = self.eat_routine() else { return Ok(None) };
        Ok(Some((kind, OnRoutines::Named(self.list(Self::routine_named)?))))
    }

    fn granted_objects(&mut self, token: Token) -> Result<On> {
        if self.eat(K::All) {
            let kinds = [K::Tables, K::Sequences, K::Functions, K::Procedures, K::Routines];
            let sequences = match self.eat_any(&kinds) {
                Some(0) => false,
                Some(1) => true,
                Some(_) => return Err(self.refuse_statement(token, "privileges on functions")),
                None => return Err(self.wrong()),
            };
            self.expect_all(&[K::In, K::Schema])?;
            return Ok(On::AllIn { schemas: self.list(Self::folded)?, sequences });
        }
        let kind = match self.eat_any(&[K::Table, K::Sequence, K::Database, K::Schema, K::Type, K::Domain]) {
            Some(1) => ObjectKind::Sequence,
            Some(2) => ObjectKind::Database,
            Some(3) => ObjectKind::Schema,
            Some(4) => ObjectKind::Type,
            Some(5) => ObjectKind::Domain,
            Some(_) => ObjectKind::Relation,
            None => {
                let next = self.peek();
                let is_other = matches!(
                    next.kind,
                    Kind::Key(
                        K::Function
                            | K::Procedure
                            | K::Routine
                            | K::Language
                            | K::Tablespace
                            | K::Foreign
                            | K::Large
                            | K::Parameter
                    )
                );
                if is_other {
                    let what = format!("privileges on a {}", self.token_text(next).to_ascii_lowercase());
                    return Err(self.refuse_statement(token, &what));
                }
                ObjectKind::Relation
            }
        };
        let names = self.list(Self::qualified)?;
        Ok(On::Objects(names.into_iter().map(|name| Object { kind, name }).collect()))
    }

    fn grant_roles(&mut self, roles: Vec<Name>, revoke: bool, only_admin: bool) -> Result<Admin> {
        self.expect(if revoke { K::From } else { K::To })?;
        let to = self.list(|parser| {
            parser.eat(K::Group);
            parser.role_name()
        })?;
        let admin = if revoke { only_admin } else { self.eat_all(&[K::With, K::Admin, K::Option]) };
        let by = self.granted_by()?;
        if revoke {
            // Nothing depends on a membership, so that both mean the same.
            self.cascade();
        }
        Ok(Admin::GrantRoles { roles, to, admin, revoke, by })
    }
}

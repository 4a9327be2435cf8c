//! GRANT and REVOKE.
//!
//! ```text
//! GRANT|REVOKE [GRANT OPTION FOR] privilege, … ON object, … {TO|FROM} role, …
//! GRANT|REVOKE [ADMIN OPTION FOR] role, … {TO|FROM} role, …
//! ```

use colibri_types::{Error, Result, SqlState};

use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::{Kind, Token};
use crate::tree::{Admin, Granting, Name, Object, ObjectKind, On, OnRoutines, RoleName, RoutineKind, Routines};

/// Privileges on columns.
type ColumnPrivileges = Vec<(Option<Name>, Vec<Name>)>;

impl Parser<'_> {
    pub(crate) fn grant(&mut self) -> Result<Admin> {
        let token = self.next();
        let revoke = token.kind == Kind::Key(K::Revoke);
        if revoke && self.eat_all(&[K::Admin, K::Option, K::For]) {
            let roles = self.list(Self::folded)?;
            return self.grant_roles(roles, revoke, true);
        }
        let only_option = revoke && self.eat_all(&[K::Grant, K::Option, K::For]);
        let (privileges, columns) = self.privileges()?;
        if !self.eat(K::On) {
            // These were names of roles.
            return match privileges {
                Some(roles) if !only_option && columns.is_empty() => self.grant_roles(roles, revoke, false),
                _ => Err(self.wrong()),
            };
        }
        if let Some((kind, on)) = self.granted_routines()? {
            self.expect(if revoke { K::From } else { K::To })?;
            let to = self.list(Self::grantee)?;
            let option = if revoke { only_option } else { self.eat_all(&[K::With, K::Grant, K::Option]) };
            let by = self.granted_by()?;
            let cascade = revoke && self.cascade();
            let granting = Granting { privileges, columns, option, revoke, by, cascade };
            return Ok(Routines::Grant { granting, kind, on, to }.into());
        }
        let on = self.granted_objects(token)?;
        self.expect(if revoke { K::From } else { K::To })?;
        let to = self.list(Self::grantee)?;
        let option = if revoke { only_option } else { self.eat_all(&[K::With, K::Grant, K::Option]) };
        let by = self.granted_by()?;
        let cascade = revoke && self.cascade();
        Ok(Admin::Grant { granting: Granting { privileges, columns, option, revoke, by, cascade }, on, to })
    }

    /// `ALTER DEFAULT PRIVILEGES [FOR ROLE role, …] [IN SCHEMA schema, …] {GRANT | REVOKE} …`
    pub(crate) fn alter_default_privileges(&mut self) -> Result<Admin> {
        self.expect_all(&[K::Default, K::Privileges])?;
        let (mut roles, mut schemas) = (Vec::new(), Vec::new());
        loop {
            if roles.is_empty() && self.eat(K::For) {
                if self.eat_any(&[K::Role, K::User]).is_none() {
                    return Err(self.wrong());
                }
                roles = self.list(Self::role_name)?;
            } else if schemas.is_empty() && self.eat_all(&[K::In, K::Schema]) {
                schemas = self.list(Self::folded)?;
            } else {
                break;
            }
        }
        let revoke = match self.eat_any(&[K::Grant, K::Revoke]) {
            Some(which) => which == 1,
            None => return Err(self.wrong()),
        };
        let only_option = revoke && self.eat_all(&[K::Grant, K::Option, K::For]);
        let (privileges, columns) = self.privileges()?;
        if !columns.is_empty() {
            let error = Error::new(SqlState::INVALID_GRANT_OPERATION, "default privileges cannot be set for columns");
            self.note_error(error);
        }
        self.expect(K::On)?;
        let kinds = [K::Tables, K::Functions, K::Routines, K::Sequences, K::Types, K::Schemas];
        let kind = self.eat_any(&kinds).ok_or_else(|| self.wrong())?;
        let object = ['r', 'f', 'f', 'S', 'T', 'n'][kind];
        self.expect(if revoke { K::From } else { K::To })?;
        let to = self.list(Self::grantee)?;
        let option = if revoke { only_option } else { self.eat_all(&[K::With, K::Grant, K::Option]) };
        let cascade = revoke && self.cascade();
        let granting = Granting { privileges, columns, option, revoke, by: None, cascade };
        Ok(Admin::DefaultPrivileges { roles, schemas, granting, object, to })
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

    /// Privileges by name, and those on columns; `None` is ALL. They may turn out to be names of
    /// roles.
    fn privileges(&mut self) -> Result<(Option<Vec<Name>>, ColumnPrivileges)> {
        if self.eat(K::All) {
            self.eat(K::Privileges);
            return match self.maybe_in_parens(Self::folded)? {
                columns if columns.is_empty() => Ok((None, Vec::new())),
                columns => Ok((Some(Vec::new()), vec![(None, columns)])),
            };
        }
        let mut on_columns = Vec::new();
        let privileges = self.list(|parser| {
            // The reserved words among the privileges' names.
            let is_word = matches!(parser.kind(), Kind::Key(K::Select | K::References | K::Create));
            let name = if is_word { parser.folded_label()? } else { parser.folded()? };
            let columns = parser.maybe_in_parens(Self::folded)?;
            Ok((name, columns))
        })?;
        let mut whole = Vec::new();
        for (name, columns) in privileges {
            if columns.is_empty() { whole.push(name) } else { on_columns.push((Some(name), columns)) }
        }
        Ok((Some(whole), on_columns))
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

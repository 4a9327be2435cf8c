//! Constraints of tables.

use colibri_types::{Error, Result, SqlState};
use sqlparser::ast::{self, ConstraintCharacteristics, DeferrableInitial, Ident, ReferentialAction, TableConstraint};

use crate::DELETE_COLUMNS_MARK;
use crate::keyword::Keyword as K;
use crate::parser::Parser;
use crate::token::Kind;

impl Parser<'_> {
    /// Whether a constraint of a table comes next.
    pub(super) fn is_constraint_next(&self) -> bool {
        match self.kind() {
            Kind::Key(K::Constraint | K::Check | K::Unique | K::Primary | K::Foreign) => true,
            Kind::Key(K::Exclude) => matches!(self.kind_behind(1), Kind::Key(K::Using) | Kind::LeftParen),
            _ => false,
        }
    }

    /// A constraint of a table, and whether it is NOT VALID.
    pub(super) fn table_constraint(&mut self) -> Result<(TableConstraint, bool)> {
        let name = if self.eat(K::Constraint) { Some(self.name()?) } else { None };
        let token = self.peek();
        let mut constraint = match token.kind {
            Kind::Key(K::Check) => TableConstraint::Check(self.check(name)?),
            Kind::Key(K::Unique) => self.unique(name)?,
            Kind::Key(K::Primary) => self.primary_key(name)?,
            Kind::Key(K::Foreign) => {
                self.next();
                self.expect(K::Key)?;
                let columns = self.column_names()?;
                TableConstraint::ForeignKey(self.references(name, columns)?)
            }
            Kind::Key(K::Exclude) => {
                self.next();
                TableConstraint::Exclude(self.exclusion_constraint(name)?)
            }
            _ => return Err(self.wrong()),
        };
        let mut not_valid = false;
        let mut found = ConstraintCharacteristics { deferrable: None, initially: None, enforced: None };
        loop {
            if self.eat_all(&[K::Not, K::Valid]) {
                let kind = match &constraint {
                    TableConstraint::Check(_) | TableConstraint::ForeignKey(_) => None,
                    TableConstraint::PrimaryKey(_) | TableConstraint::PrimaryKeyUsingIndex(_) => Some("PRIMARY KEY"),
                    TableConstraint::Exclude(_) => Some("EXCLUDE"),
                    _ => Some("UNIQUE"),
                };
                if let Some(kind) = kind {
                    let message = format!("{kind} constraints cannot be marked NOT VALID");
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                not_valid = true;
            } else if self.is_next(K::No) && self.kind_behind(1) == Kind::Key(K::Inherit) {
                let TableConstraint::Check(check) = &mut constraint else { return Err(self.wrong()) };
                check.no_inherit = true;
                self.eat_all(&[K::No, K::Inherit]);
            } else if !self.characteristic(&mut found)? {
                break;
            }
        }
        let has_any = found.deferrable.is_some() || found.initially.is_some();
        self.characterize(&mut constraint, has_any.then_some(found));
        Ok((constraint, not_valid))
    }

    fn characterize(&mut self, constraint: &mut TableConstraint, found: Option<ConstraintCharacteristics>) {
        match constraint {
            TableConstraint::Unique(unique) => unique.characteristics = found,
            TableConstraint::PrimaryKey(key) => key.characteristics = found,
            TableConstraint::ForeignKey(key) => key.characteristics = found,
            TableConstraint::Exclude(exclude) => exclude.characteristics = found,
            TableConstraint::PrimaryKeyUsingIndex(key) | TableConstraint::UniqueUsingIndex(key) => {
                key.characteristics = found;
            }
            _ if found.is_some() => {
                let error = Error::unsupported("a deferrable CHECK constraint");
                self.note_error(error);
            }
            _ => {}
        }
    }

    /// Takes one of DEFERRABLE, INITIALLY DEFERRED and their like, if it comes next.
    pub(super) fn characteristic(&mut self, found: &mut ConstraintCharacteristics) -> Result<bool> {
        if self.eat(K::Deferrable) {
            found.deferrable = Some(true);
        } else if self.eat_all(&[K::Not, K::Deferrable]) {
            found.deferrable = Some(false);
        } else if self.eat(K::Initially) {
            found.initially = Some(if self.eat(K::Deferred) {
                DeferrableInitial::Deferred
            } else {
                self.expect(K::Immediate)?;
                DeferrableInitial::Immediate
            });
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Behind EXCLUDE.
    fn exclusion_constraint(&mut self, name: Option<Ident>) -> Result<ast::ExcludeConstraint> {
        let index_method = if self.eat(K::Using) { Some(self.name()?) } else { None };
        let elements = self.in_parens(|parser| {
            let column = parser.index_column()?;
            parser.expect(K::With)?;
            let operator = ast::ExcludeConstraintOperator::Token(parser.operator_symbol()?);
            Ok(ast::ExcludeConstraintElement { column, operator })
        })?;
        let include = if self.eat(K::Include) { self.in_parens(Self::name)? } else { Vec::new() };
        let where_clause = if self.eat(K::Where) {
            self.expect_kind(Kind::LeftParen)?;
            let condition = self.expr()?;
            self.expect_kind(Kind::RightParen)?;
            Some(Box::new(condition))
        } else {
            None
        };
        Ok(ast::ExcludeConstraint { name, index_method, elements, include, where_clause, characteristics: None })
    }

    /// `CHECK (…)`
    pub(super) fn check(&mut self, name: Option<Ident>) -> Result<ast::CheckConstraint> {
        self.expect(K::Check)?;
        self.expect_kind(Kind::LeftParen)?;
        let expr = Box::new(self.expr()?);
        self.expect_kind(Kind::RightParen)?;
        Ok(ast::CheckConstraint { name, expr, no_inherit: false, enforced: None })
    }

    /// `CHECK (…)` of a domain.
    pub(crate) fn domain_check(&mut self, name: Option<Ident>) -> Result<ast::CheckConstraint> {
        self.check(name)
    }

    fn unique(&mut self, name: Option<Ident>) -> Result<TableConstraint> {
        self.expect(K::Unique)?;
        if self.is_next(K::Using) {
            return Ok(TableConstraint::UniqueUsingIndex(self.using_index(name)?));
        }
        let nulls = self.nulls_distinct()?;
        let columns = self.key_columns()?;
        let mut unique = unique_of(name, columns);
        unique.nulls_distinct = match nulls {
            None => ast::NullsDistinctOption::None,
            Some(true) => ast::NullsDistinctOption::Distinct,
            Some(false) => ast::NullsDistinctOption::NotDistinct,
        };
        unique.include = self.key_options()?;
        Ok(TableConstraint::Unique(unique))
    }

    fn primary_key(&mut self, name: Option<Ident>) -> Result<TableConstraint> {
        self.expect_all(&[K::Primary, K::Key])?;
        if self.is_next(K::Using) {
            return Ok(TableConstraint::PrimaryKeyUsingIndex(self.using_index(name)?));
        }
        let columns = self.key_columns()?;
        let mut key = primary_key_of(name, columns);
        key.include = self.key_options()?;
        Ok(TableConstraint::PrimaryKey(key))
    }

    fn using_index(&mut self, name: Option<Ident>) -> Result<ast::ConstraintUsingIndex> {
        self.expect_all(&[K::Using, K::Index])?;
        Ok(ast::ConstraintUsingIndex { name, index_name: self.name()?, characteristics: None })
    }

    fn key_columns(&mut self) -> Result<Vec<ast::IndexColumn>> {
        let names = self.column_names()?;
        let column = |name| ast::IndexColumn {
            column: ast::OrderByExpr {
                expr: ast::Expr::Identifier(name),
                options: ast::OrderByOptions { sort: None, nulls_first: None },
                with_fill: None,
            },
            operator_class: None,
        };
        Ok(names.into_iter().map(column).collect())
    }

    /// INCLUDE, WITH and USING INDEX TABLESPACE behind a key: gives what it includes.
    pub(super) fn key_options(&mut self) -> Result<Vec<Ident>> {
        let include = if self.eat(K::Include) { self.included()? } else { Vec::new() };
        let token = self.peek();
        if self.is_next(K::With) && self.kind_behind(1) == Kind::LeftParen {
            self.next();
            self.storage_parameters()?;
            self.not_supported(token, "options of a constraint's index");
        }
        if self.eat_all(&[K::Using, K::Index, K::Tablespace]) {
            self.tablespace()?;
        }
        Ok(include)
    }

    /// The name of a tablespace: there is one.
    pub(super) fn tablespace(&mut self) -> Result<()> {
        let name = self.name()?;
        match &*name.value {
            "pg_default" => {}
            "pg_global" => {
                let message = "only shared relations can be placed in pg_global tablespace";
                self.note_error(Error::new(SqlState::BAD_PARAMETER, message));
            }
            other => {
                let message = format!("tablespace \"{other}\" does not exist");
                self.note_error(Error::new(SqlState::NO_SUCH_OBJECT, message));
            }
        }
        Ok(())
    }

    /// `REFERENCES …`
    pub(super) fn references(&mut self, name: Option<Ident>, columns: Vec<Ident>) -> Result<ast::ForeignKeyConstraint> {
        self.expect(K::References)?;
        let foreign_table = self.object_name()?;
        let mut referred_columns = self.maybe_in_parens(Self::name)?;
        let match_kind = match self.eat(K::Match) {
            true => Some(match self.next().kind {
                Kind::Key(K::Full) => ast::ConstraintReferenceMatchKind::Full,
                Kind::Key(K::Partial) => ast::ConstraintReferenceMatchKind::Partial,
                Kind::Key(K::Simple) => ast::ConstraintReferenceMatchKind::Simple,
                _ => return Err(self.wrong_at(self.last())),
            }),
            false => None,
        };
        let (mut on_delete, mut on_update) = (None, None);
        while self.is_next(K::On) {
            let (on, is_delete) = (self.peek(), self.kind_behind(1) == Kind::Key(K::Delete));
            let action = match self.kind_behind(1) {
                Kind::Key(K::Delete) if on_delete.is_none() => &mut on_delete,
                Kind::Key(K::Update) if on_update.is_none() => &mut on_update,
                _ => {
                    self.next();
                    return Err(self.wrong());
                }
            };
            self.next();
            self.next();
            let found = self.referential_action()?;
            let set = match found {
                ReferentialAction::SetNull => Some("NULL"),
                ReferentialAction::SetDefault => Some("DEFAULT"),
                _ => None,
            };
            *action = Some(found);
            if let (Some(set), Kind::LeftParen) = (set, self.kind()) {
                let columns = self.column_names()?;
                if !is_delete {
                    let message = format!("a column list with SET {set} is only supported for ON DELETE actions");
                    return Err(self.error_at(on, Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)));
                }
                referred_columns.push(Self::mark(DELETE_COLUMNS_MARK, on.span()));
                referred_columns.extend(columns);
            }
        }
        Ok(ast::ForeignKeyConstraint {
            name,
            index_name: None,
            columns,
            foreign_table,
            referred_columns,
            on_delete,
            on_update,
            match_kind,
            characteristics: None,
        })
    }

    fn referential_action(&mut self) -> Result<ReferentialAction> {
        let token = self.peek();
        let action = match token.kind {
            Kind::Key(K::No) => {
                self.next();
                self.expect(K::Action)?;
                return Ok(ReferentialAction::NoAction);
            }
            Kind::Key(K::Restrict) => ReferentialAction::Restrict,
            Kind::Key(K::Cascade) => ReferentialAction::Cascade,
            Kind::Key(K::Set) => {
                self.next();
                match self.kind() {
                    Kind::Key(K::Null) => ReferentialAction::SetNull,
                    Kind::Key(K::Default) => ReferentialAction::SetDefault,
                    _ => return Err(self.wrong()),
                }
            }
            _ => return Err(self.wrong()),
        };
        self.next();
        Ok(action)
    }
}

pub(super) fn unique_of(name: Option<Ident>, columns: Vec<ast::IndexColumn>) -> ast::UniqueConstraint {
    ast::UniqueConstraint {
        name,
        index_name: None,
        index_type_display: ast::KeyOrIndexDisplay::None,
        index_type: None,
        columns,
        include: Vec::new(),
        index_options: Vec::new(),
        characteristics: None,
        nulls_distinct: ast::NullsDistinctOption::None,
    }
}

pub(super) fn primary_key_of(name: Option<Ident>, columns: Vec<ast::IndexColumn>) -> ast::PrimaryKeyConstraint {
    ast::PrimaryKeyConstraint {
        name,
        index_name: None,
        index_type: None,
        columns,
        include: Vec::new(),
        index_options: Vec::new(),
        characteristics: None,
    }
}

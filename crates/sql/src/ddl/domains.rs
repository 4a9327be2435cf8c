//! CREATE and ALTER DOMAIN. Dropping, renaming and giving away is that of all types: `user_types`.
//!
//! A condition is kept as SQL over the word VALUE. One that is added is held against the values
//! that rows have in columns of the domain, and of domains over it.
//!
//! Invariant: the names of a domain's conditions differ.

use std::ops::ControlFlow;
use std::sync::Arc;

use colibri_catalog::{Catalog, Change, Check, Column, Domain, Table, UserType, UserTypeKind};
use colibri_syntax::tree::DomainChange;
use colibri_types::{ColumnType, Error, Result, SqlState, Type};
use compact_str::CompactString;
use sqlparser::ast::{self, ColumnOption};

use super::user_types::{no_such_type, object_name};
use super::{Session, whole};
use crate::bind::fold;
use crate::exec::constraints::validate::{self, InDomain};
use crate::expr::Expr;

/// What rows have to obey that have columns of a domain.
#[derive(Clone, Copy)]
enum Demand<'a> {
    NotNull,
    Check(&'a Expr),
}

fn no_such_constraint(name: &str, domain: &str) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("constraint \"{name}\" of domain \"{domain}\" does not exist"))
}

/// The word VALUE as PostgreSQL shows it, however it was written.
fn with_value_in_capitals(mut condition: ast::Expr) -> ast::Expr {
    _ = ast::visit_expressions_mut(&mut condition, |expr| {
        if let ast::Expr::Identifier(ident) = expr
            && fold(ident) == "value"
        {
            *ident = ast::Ident::new("VALUE");
        }
        ControlFlow::<()>::Continue(())
    });
    condition
}

impl Session {
    pub(crate) fn create_domain(
        &mut self,
        name: &[CompactString],
        data_type: &ast::DataType,
        options: &[ast::ColumnOptionDef],
    ) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let (schema, name) = self.new_name_of(&object_name(name), false)?;
        self.expect_free_type(&schema, &name)?;
        let base = self.usable_type_named(data_type)?;
        if !base.ty.is_storable() {
            let message = format!("\"{}\" is not a valid base type for a domain", base.sql_name());
            return Err(Error::new(SqlState::TYPE_MISMATCH, message));
        }
        let parent = base.domain.filter(|domain| !domain.is_array());
        let parent = parent.and_then(|domain| self.catalog().user_type(domain.oid()).cloned());
        let inherited = parent.as_ref().and_then(|ty| ty.domain());
        let mut domain = Domain {
            base,
            collation: inherited.and_then(|parent| parent.collation.clone()),
            not_null: false,
            default: inherited.and_then(|parent| parent.default.clone()),
            checks: Vec::new(),
        };
        let mut checks = Vec::new();
        let (mut nullable, mut has_default, mut has_collation) = (None, false, false);
        let wrong = |message: &str| Err(Error::new(SqlState::SYNTAX_ERROR, message));
        for option in options {
            match &option.option {
                ColumnOption::Null | ColumnOption::NotNull => {
                    let this = option.option == ColumnOption::Null;
                    if *nullable.get_or_insert(this) != this {
                        return wrong("conflicting NULL/NOT NULL constraints");
                    }
                    domain.not_null = !this;
                }
                ColumnOption::Default(_) if has_default => return wrong("multiple default expressions"),
                ColumnOption::Default(expr) => {
                    has_default = true;
                    domain.default = self.domain_default(expr, &name, base)?;
                }
                ColumnOption::Check(check) if check.no_inherit => return Err(colibri_syntax::no_inherit()),
                ColumnOption::Check(check) => checks.push((option.name.clone(), check)),
                ColumnOption::Unique(_) => return Err(colibri_syntax::not_for_domains("unique")),
                ColumnOption::PrimaryKey(_) => return Err(colibri_syntax::not_for_domains("primary key")),
                ColumnOption::ForeignKey(_) => return Err(colibri_syntax::not_for_domains("foreign key")),
                ColumnOption::Collation(_) if has_collation => return wrong("multiple COLLATE clauses not allowed"),
                ColumnOption::Collation(name) => {
                    has_collation = true;
                    domain.collation = self.column_collation(name, base.ty)?;
                }
                other => return Err(Error::unsupported(format_args!("a domain with {other}"))),
            }
        }
        let owner = self.role();
        let id = self.new_ids_in(&schema, 2)?;
        // Arrays of arrays are arrays of what is in them, so there are none of such a domain.
        let array = if base.ty.array().is_some() { id + 1 } else { 0 };
        let acl = self.catalog().privileges_of_new('T', owner, Some(&schema));
        let mut new =
            UserType { acl, id, array, schema, name, owner, kind: UserTypeKind::Domain(domain), handle: None };
        for (given, check) in checks {
            self.add_check(&mut new, given.as_ref(), check, false)?;
        }
        self.change(vec![Change::PutType(new)])
    }

    /// A domain's default, as it is stored; `None` for NULL.
    fn domain_default(&mut self, expr: &ast::Expr, name: &str, base: ColumnType) -> Result<Option<String>> {
        if matches!(expr, ast::Expr::Value(value) if value.value == ast::Value::Null) {
            return Ok(None);
        }
        self.with_binder("", |binder| binder.stored_default(expr, name, base)).map(|(_, text)| Some(text))
    }

    /// Adds a condition to a domain; gives it bound, over the value.
    fn add_check(
        &mut self,
        ty: &mut UserType,
        given: Option<&ast::Ident>,
        check: &ast::CheckConstraint,
        not_valid: bool,
    ) -> Result<Expr> {
        whole::check(check)?;
        let domain = expect_domain(ty)?;
        let name = match given {
            Some(given) => {
                let name = fold(given);
                if domain.checks.iter().any(|known| known.name == name) {
                    let message = format!("constraint \"{name}\" for domain \"{}\" already exists", ty.name);
                    return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
                }
                name
            }
            None => {
                let mut taken: Vec<CompactString> = domain.checks.iter().map(|known| known.name.clone()).collect();
                taken.extend(self.constraint_names(&ty.schema));
                self.free_name(&ty.schema, &[&ty.name], "check", &taken)
            }
        };
        let base = domain.base;
        let condition = self.stored_text(&with_value_in_capitals((*check.expr).clone()))?;
        let bound = self.with_binder("", |binder| binder.domain_condition(&condition, base.base()))?;
        let id = self.new_id_in(&ty.schema)?;
        if let UserTypeKind::Domain(domain) = &mut ty.kind {
            domain.checks.push(Check {
                id,
                name,
                condition,
                no_inherit: false,
                not_valid,
                inherited: false,
                declared: false,
            });
        }
        Ok(bound)
    }

    /// The names of the constraints in a schema that have no index.
    fn constraint_names(&self, schema: &str) -> Vec<CompactString> {
        let tables = self.catalog().tables().filter(|table| table.schema == schema);
        let of_tables = tables.flat_map(|table| {
            let keys = table.foreign_keys.iter().map(|key| key.name.clone());
            table.checks.iter().map(|check| check.name.clone()).chain(keys)
        });
        let types = self.catalog().types().filter(|ty| ty.schema == schema);
        let of_domains = types.filter_map(|ty| ty.domain()).flat_map(|domain| &domain.checks);
        of_tables.chain(of_domains.map(|check| check.name.clone())).collect()
    }

    pub(crate) fn alter_domain(&mut self, name: &[CompactString], change: &DomainChange) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let old = self.expect_domain_named(name)?;
        let mut new = (*old).clone();
        let domain = expect_domain(&old)?;
        let find = |name: &str| domain.checks.iter().position(|check| check.name == *name);
        match change {
            DomainChange::Type(change) => return self.alter_user_type(name, change),
            DomainChange::SetDefault(default) => {
                let default = match default {
                    Some(expr) => self.domain_default(expr, &old.name, domain.base)?,
                    None => None,
                };
                change_domain(&mut new, |domain| domain.default = default);
            }
            DomainChange::SetNotNull(not_null) => {
                if domain.not_null == *not_null {
                    return Ok(());
                }
                if *not_null {
                    self.hold_against_rows(&old, Demand::NotNull)?;
                }
                change_domain(&mut new, |domain| domain.not_null = *not_null);
            }
            DomainChange::AddConstraint { check, not_valid } => {
                let given = check.name.clone();
                let condition = self.add_check(&mut new, given.as_ref(), check, *not_valid)?;
                if !not_valid {
                    self.hold_against_rows(&old, Demand::Check(&condition))?;
                }
            }
            DomainChange::DropConstraint { constraint, if_exists } => match find(constraint) {
                Some(at) => change_domain(&mut new, |domain| _ = domain.checks.remove(at)),
                None if *if_exists => {
                    let message = format!("constraint \"{constraint}\" of domain \"{}\" does not exist", old.name);
                    self.notice_skipped(&message);
                    return Ok(());
                }
                None => return Err(no_such_constraint(constraint, &old.name)),
            },
            DomainChange::RenameConstraint { constraint, to } => {
                let at = find(constraint).ok_or_else(|| {
                    let message = format!("constraint \"{constraint}\" for domain {} does not exist", old.name);
                    Error::new(SqlState::NO_SUCH_OBJECT, message)
                })?;
                if find(to).is_some() {
                    let message = format!("constraint \"{to}\" for domain {} already exists", old.name);
                    return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
                }
                change_domain(&mut new, |domain| domain.checks[at].name = to.clone());
            }
            DomainChange::Validate(constraint) => {
                let at = find(constraint).ok_or_else(|| no_such_constraint(constraint, &old.name))?;
                // Also one that is valid: what cannot be looked at is an error, as in PostgreSQL.
                let (check, base) = (&domain.checks[at], domain.base.base());
                let condition = self.with_binder("", |binder| binder.domain_condition(&check.condition, base))?;
                self.hold_against_rows(&old, Demand::Check(&condition))?;
                change_domain(&mut new, |domain| domain.checks[at].not_valid = false);
            }
        }
        self.change(vec![Change::PutType(new)])
    }

    /// The domain of a name, which the session's role has to own.
    fn expect_domain_named(&mut self, name: &[CompactString]) -> Result<Arc<UserType>> {
        let data_type = ast::DataType::Custom(object_name(name), Vec::new());
        let found = match self.type_named(&data_type) {
            Ok(found) => found,
            Err(error) if error.state() == SqlState::NO_SUCH_OBJECT => return Err(no_such_type(&name.join("."))),
            Err(error) => return Err(error),
        };
        let ty = self.catalog().domain_of(found).filter(|ty| ty.id == found.oid()).cloned();
        let ty =
            ty.ok_or_else(|| Error::new(SqlState::WRONG_OBJECT_TYPE, format!("{} is not a domain", found.sql_name())))?;
        self.expect_owner(ty.owner, "type", &ty.name)?;
        Ok(ty)
    }

    /// The number of a domain's condition.
    pub(crate) fn domain_constraint(&mut self, name: &[CompactString]) -> Result<u32> {
        let (constraint, name) = name.split_last().ok_or_else(|| Error::internal("a name has no parts"))?;
        let ty = self.expect_domain_named(name)?;
        let check = ty.domain().into_iter().flat_map(|domain| &domain.checks).find(|check| check.name == *constraint);
        check.map(|check| check.id).ok_or_else(|| {
            let message = format!("constraint \"{constraint}\" for domain {} does not exist", ty.name);
            Error::new(SqlState::NO_SUCH_OBJECT, message)
        })
    }

    /// Looks at the values that rows have in columns of a domain, and of domains over it.
    ///
    /// Bug: the tables' records stayed as they were. Consequence: a transaction that had planned
    /// before wrote what the new condition forbids, as nothing that it depends on had changed. Fix:
    /// the records count these changes, so that such a writer fails as with a changed table.
    fn hold_against_rows(&mut self, ty: &UserType, demand: Demand<'_>) -> Result<()> {
        let mut domains = vec![ty.id];
        let mut next = 0;
        while let Some(&domain) = domains.get(next) {
            next += 1;
            let over = self.catalog().types().filter(|other| {
                other.domain().and_then(|of| of.base.domain).is_some_and(|base| base.element().oid() == domain)
            });
            let over: Vec<u32> = over.map(|other| other.id).filter(|id| !domains.contains(id)).collect();
            domains.extend(over);
        }
        let mut tables: Vec<Arc<Table>> = self.catalog().tables().cloned().collect();
        tables.sort_by_key(|table| table.id);
        for table in tables {
            let holds = |column: &&Column| column.ty.domain.is_none() && has_fields_of(column.ty.ty, &domains);
            if let Some((_, column)) = table.live_columns().find(|(_, column)| holds(column)) {
                let message = format!(
                    "cannot alter type \"{}\" because column \"{}.{}\" uses it",
                    ty.name, table.name, column.name
                );
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            let columns: Vec<usize> = table
                .live_columns()
                .filter(|(_, column)| column.ty.domain.is_some_and(|domain| domains.contains(&domain.element().oid())))
                .map(|(place, _)| place)
                .collect();
            let mut changed = false;
            for place in columns {
                let column = &table.columns[place];
                let of_arrays = column.ty.domain.is_some_and(|domain| domain.is_array())
                    || column.ty.domain.is_some_and(|domain| self.is_over_arrays_of(domain.oid(), &domains));
                if of_arrays {
                    let message = format!(
                        "cannot alter type \"{}\" because column \"{}.{}\" uses it",
                        ty.name, table.name, column.name
                    );
                    return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                self.lock_table(&table)?;
                let demand = match demand {
                    Demand::NotNull => InDomain::NotNull,
                    Demand::Check(condition) => InDomain::Check(condition),
                };
                self.with_context(|txn, cx| validate::validate_domain(txn, cx, &table, place, demand))?;
                changed = true;
            }
            if changed {
                let renewed = Table { domains_changed: table.domains_changed.wrapping_add(1), ..(*table).clone() };
                self.change(vec![Change::PutTable(renewed)])?;
            }
        }
        Ok(())
    }

    /// Whether a domain is over arrays of one of some domains, at whatever distance.
    fn is_over_arrays_of(&self, domain: u32, of: &[u32]) -> bool {
        let mut at = domain;
        while let Some(base) = self.catalog().user_type(at).and_then(|ty| ty.domain()?.base.domain) {
            if base.is_array() {
                return of.contains(&base.element().oid());
            }
            at = base.oid();
        }
        false
    }
}

fn expect_domain(ty: &UserType) -> Result<&Domain> {
    ty.domain().ok_or_else(|| Error::new(SqlState::WRONG_OBJECT_TYPE, format!("{} is not a domain", ty.name)))
}

fn change_domain(ty: &mut UserType, change: impl FnOnce(&mut Domain)) {
    if let UserTypeKind::Domain(domain) = &mut ty.kind {
        change(domain);
    }
}

/// Whether rows of a composite type, or of those in arrays, have fields of one of some domains.
fn has_fields_of(ty: Type, domains: &[u32]) -> bool {
    let of = match (ty, ty.element()) {
        (Type::Composite(of), _) | (_, Some(Type::Composite(of))) => of,
        _ => return false,
    };
    of.fields().iter().any(|field| match field.ty.domain {
        Some(domain) => domains.contains(&domain.element().oid()),
        None => has_fields_of(field.ty.ty, domains),
    })
}

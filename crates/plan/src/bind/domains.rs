//! What domains demand of values: bound once a statement for each domain, and put around what is
//! cast to one.
//!
//! A condition is stored as SQL over the word VALUE. It is bound by itself, over a row that has the
//! value as its only column.
//!
//! Invariants: the conditions of a domain that another one is over come before that one's own, and
//! those of one domain are in the order of their names, as PostgreSQL evaluates them.

use std::sync::Arc;

use colibri_catalog::Check;
use colibri_types::{ColumnType, DomainType, Error, Result, SqlState, Type, cast::CastContext};
use sqlparser::ast;
use sqlparser::tokenizer::Span;

use super::expr::Bound;
use super::logical::Column;
use super::{Binder, Scope, ScopeTable, collation, rewrite};
use crate::expr::{DomainCheck, DomainRules, Expr};

impl Binder<'_> {
    /// What a domain, or each value in arrays of one, has to obey.
    ///
    /// # Errors
    /// 42704 if the domain is gone, 54001 if its conditions lead back to it, and those of binding
    /// them.
    pub fn domain_rules(&mut self, domain: DomainType) -> Result<Arc<DomainRules>> {
        if let Some(known) = self.domains.iter().find(|rules| rules.domain.is_identical(domain)) {
            return Ok(Arc::clone(known));
        }
        let mut rules = DomainRules::without_conditions(domain);
        let mut at = Some(domain.element());
        let mut levels: Vec<Vec<Check>> = Vec::new();
        let mut base: Option<ColumnType> = None;
        while let Some(this) = at {
            let found = self.catalog.user_type(this.oid()).and_then(|ty| Some((ty, ty.domain()?)));
            let (ty, of) = found.ok_or_else(|| {
                Error::new(SqlState::NO_SUCH_OBJECT, format!("type with OID {} does not exist", this.oid()))
            })?;
            if base.is_none() {
                rules.schema = ty.schema.clone();
                rules.name = ty.name.clone();
            }
            rules.not_null |= of.not_null;
            let mut checks = of.checks.clone();
            checks.sort_by(|a, b| a.name.cmp(&b.name));
            levels.push(checks);
            base = Some(of.base.base());
            at = of.base.domain.filter(|domain| !domain.is_array());
        }
        let base = base.ok_or_else(|| Error::internal("a domain is over nothing"))?;
        if self.open_domains.contains(&domain.element().oid()) {
            return Err(colibri_syntax::too_deep());
        }
        self.open_domains.push(domain.element().oid());
        for check in levels.into_iter().rev().flatten() {
            let condition = self.domain_condition(&check.condition, base)?;
            rules.is_volatile |= rewrite::is_volatile(&condition);
            rules.asks_session |= rewrite::any(&condition, &|part| matches!(part, Expr::Session { .. }));
            rules.checks.push(DomainCheck { name: check.name, condition });
        }
        self.open_domains.pop();
        let rules = Arc::new(rules);
        self.domains.push(Arc::clone(&rules));
        Ok(rules)
    }

    /// A condition of a domain over values of a type, as it is stored: over a row of the value.
    ///
    /// # Errors
    /// It cannot be bound, is no condition, or looks at something else than the value.
    pub fn domain_condition(&mut self, text: &str, base: ColumnType) -> Result<Expr> {
        self.stored(|binder| binder.new_domain_condition(text, base))
    }

    /// The same of what a statement says.
    pub fn new_domain_condition(&mut self, text: &str, base: ColumnType) -> Result<Expr> {
        let parsed = colibri_syntax::parse_expr(text)?;
        let around = std::mem::take(&mut self.text);
        let frames = std::mem::replace(&mut self.frames, vec![super::Frame::default()]);
        let with = std::mem::take(&mut self.with);
        let bound = self.apart(|binder| binder.over_value(&parsed, base));
        (self.text, self.frames, self.with) = (around, frames, with);
        let bound = self.without_queries(Bound::new(bound?, Type::Bool), "check constraint")?;
        Ok(bound.expr)
    }

    fn over_value(&mut self, condition: &ast::Expr, base: ColumnType) -> Result<Expr> {
        let value = Column { name: "value".into(), ty: base, origin: None, collation: collation::Collation::Default };
        let scope = Scope {
            no_calls: "check constraints",
            width: 1,
            tables: vec![ScopeTable {
                // No name that a statement can say.
                name: "".into(),
                schema: None,
                base: 0,
                columns: vec![value],
                hidden: vec![false],
                visible: true,
                oid: None,
                marker: None,
                row_name: "".into(),
                is_scalar: false,
                is_nullable: false,
            }],
            ..Scope::default()
        };
        self.frame().scopes.push(scope);
        let bound = self.condition(condition, "CHECK");
        self.frame().scopes.pop();
        bound
    }

    /// A value of the type that a domain is over as one of the domain.
    pub(super) fn in_domain(&mut self, value: Expr, domain: DomainType) -> Result<Expr> {
        let rules = self.domain_rules(domain)?;
        if rules.is_empty() {
            return Ok(value);
        }
        Ok(Expr::Domain { input: Box::new(value), rules })
    }

    /// The domains of a table's columns, with the places of these.
    ///
    /// # Errors
    /// Those of [`Binder::domain_rules`].
    pub fn domains_of(&mut self, table: &colibri_catalog::Table) -> Result<Vec<(usize, Arc<DomainRules>)>> {
        let mut found = Vec::new();
        for (place, column) in table.live_columns() {
            if let Some(domain) = column.ty.domain {
                let rules = self.domain_rules(domain)?;
                if !rules.is_empty() {
                    found.push((place, rules));
                }
            }
        }
        Ok(found)
    }

    /// The default of a domain, as a value of it; `None` if it has none.
    pub(super) fn domain_default(&mut self, ty: ColumnType) -> Result<Option<Expr>> {
        let domain = ty.domain.filter(|domain| !domain.is_array());
        let found = domain.and_then(|domain| self.catalog.user_type(domain.oid()));
        let text = found.and_then(|ty| ty.domain()).and_then(|domain| domain.default.clone());
        text.map(|text| self.stored_expr(&text, None, ty)).transpose()
    }

    /// NULL in a column of a domain.
    pub(super) fn null_in(&mut self, ty: ColumnType) -> Result<Expr> {
        self.coerce(Bound::null(), ty, CastContext::Assignment, Span::empty())
    }
}

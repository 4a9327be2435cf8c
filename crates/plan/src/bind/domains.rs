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
use colibri_types::{ColumnType, DomainType, Error, Result, RowType, SqlState, Type, cast::CastContext};
use sqlparser::ast;
use sqlparser::tokenizer::Span;

use super::expr::Bound;
use super::logical::Column;
use super::{Binder, Scope, ScopeTable, collation, rewrite};
use crate::expr::{DomainCheck, DomainRules, Expr};

/// Calls that a look at a condition takes, in expressions inside each other.
const CHECK_DEPTH: usize = 3;

/// How many expressions are inside each other at the deepest place of a condition, those of the
/// conditions that it asks included.
fn depth_of(expr: &Expr) -> usize {
    let mut inside = match expr {
        Expr::Domain { rules, .. } => rules.depth,
        _ => 0,
    };
    rewrite::for_each_child(expr, &mut |child| inside = inside.max(depth_of(child)));
    inside + 1
}

/// The domain that arrays of values of a type are of: arrays of the values' domain, if it has arrays.
pub(super) fn arrays_of(ty: ColumnType) -> Option<DomainType> {
    let domain = ty.domain?;
    if domain.is_array() {
        return Some(domain);
    }
    (ty.ty.element().is_none() && ty.ty.array().is_some()).then(|| domain.arrays())
}

impl Binder<'_> {
    /// What a domain, or each value in arrays of one, has to obey.
    ///
    /// # Errors
    /// 42704 if the domain is gone, 54001 if its conditions lead back to it, and those of binding
    /// them.
    pub fn domain_rules(&mut self, domain: DomainType) -> Result<Arc<DomainRules>> {
        let is_meant = |rules: &DomainRules| rules.domain.is_some_and(|known| known.is_identical(domain));
        if let Some((known, levels)) = self.domains.iter().find(|(rules, _)| is_meant(rules)) {
            let (known, levels) = (Arc::clone(known), *levels);
            // Its conditions are evaluated below what stands here, as if they were bound here.
            self.deepens(levels)?;
            return Ok(known);
        }
        if self.open_domains.contains(&domain.element().oid()) {
            return Err(colibri_syntax::too_deep());
        }
        self.open_domains.push(domain.element().oid());
        let bound = self.measured(|binder| binder.new_domain_rules(domain));
        self.open_domains.pop();
        let (rules, levels) = bound?;
        let rules = Arc::new(rules);
        self.domains.push((Arc::clone(&rules), levels));
        Ok(rules)
    }

    fn new_domain_rules(&mut self, domain: DomainType) -> Result<DomainRules> {
        let mut rules = DomainRules::without_conditions(Some(domain));
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
            if let Some(arrays) = of.base.domain.filter(|domain| domain.is_array()) {
                // Bug: the walk ended here. Consequence: values in arrays obeyed nothing. Fix: what
                // they have to obey comes before the conditions of the array.
                let elements = self.deeper(|binder| binder.domain_rules(arrays))?;
                if !elements.is_empty() {
                    rules.takes_in(&elements);
                    rules.elements = Some(elements);
                }
            }
        }
        let base = base.ok_or_else(|| Error::internal("a domain is over nothing"))?;
        for check in levels.into_iter().rev().flatten() {
            let condition = self.deeper(|binder| binder.domain_condition(&check.condition, base))?;
            rules.is_volatile |= rewrite::is_volatile(&condition);
            rules.asks_session |= !rewrite::is_pure(&condition);
            rules.depth = rules.depth.max(CHECK_DEPTH + depth_of(&condition));
            rules.checks.push(DomainCheck { name: check.name, condition });
        }
        Ok(rules)
    }

    /// What the domains of a row's fields demand; `None` if they demand nothing.
    pub(super) fn rules_of_fields(&mut self, ty: &RowType) -> Result<Option<Arc<DomainRules>>> {
        let mut fields = Vec::new();
        for (place, (_, ty)) in ty.fields.iter().enumerate() {
            if let Some(rules) = self.rules_of(*ty)? {
                fields.push((place, rules));
            }
        }
        Ok((!fields.is_empty()).then(|| Arc::new(DomainRules::of_fields(fields))))
    }

    /// What a type demands of values by being a domain, or by having fields of domains.
    fn rules_of(&mut self, ty: ColumnType) -> Result<Option<Arc<DomainRules>>> {
        match ty.domain {
            Some(domain) => self.domain_rules(domain).map(|rules| (!rules.is_empty()).then_some(rules)),
            None => self.rules_within(ty.ty),
        }
    }

    /// What domains demand of the fields of rows: of those of a composite type, or of arrays of one.
    ///
    /// Bug: rows that came as text, and rows within others, were taken as they came. Consequence:
    /// what no domain allows was stored. Fix: they are looked at like rows whose fields are given.
    pub(super) fn rules_within(&mut self, ty: Type) -> Result<Option<Arc<DomainRules>>> {
        if let Type::Composite(of) = ty {
            return self.deeper(|binder| binder.rules_of_fields(of.row_type()));
        }
        let Some(Type::Composite(of)) = ty.element() else { return Ok(None) };
        let rows = self.deeper(|binder| binder.rules_of_fields(of.row_type()))?;
        Ok(rows.map(|rows| Arc::new(DomainRules::of_elements(rows))))
    }

    /// A value that was no row of its type before, looked at as one.
    pub(super) fn with_rules_within(&mut self, value: Expr, ty: Type) -> Result<Expr> {
        Ok(match self.rules_within(ty)? {
            Some(rules) => Expr::Domain { input: Box::new(value), rules },
            None => value,
        })
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
                computed: None,
                read: None,
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
            if let Some(rules) = self.rules_of(column.ty)? {
                found.push((place, rules));
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

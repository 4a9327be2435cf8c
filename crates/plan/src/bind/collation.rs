//! COLLATE: there is one order of texts, but what is said of it must not contradict itself.
//!
//! A collation that an expression names goes over to what is made of it, as long as that is a text.
//! Two different ones that are named and meet in one operation are an error. Those of columns yield
//! to one that is named; two different ones of columns leave it open which counts, which is an
//! error only for what has to know: a comparison when it is made, an order when the statement is
//! bound.

use colibri_types::{
    Category, Datum, Error, Result, SqlState, Type,
    functions::{Function, Volatility},
};
use compact_str::CompactString;
use sqlparser::ast::{self, Spanned as _};
use sqlparser::tokenizer::Span;

use super::expr::Bound;
use super::{Binder, fold, name_parts, operator_position};
use crate::expr::{CompareOp, Expr};
pub use crate::logical::Collation;
use crate::logical::undetermined;

/// The names that there are.
const NAMES: [&str; 4] = ["C", "POSIX", "default", "ucs_basic"];

/// Stands for a text that has to be compared without anybody knowing how.
static UNDETERMINED: Function = Function {
    name: "undetermined_collation",
    args: &[Type::Text, Type::Text],
    variadic: false,
    result: Type::Text,
    strict: true,
    volatility: Volatility::Stable,
    eval: |_, _| Err(undetermined("string comparison")),
};

/// Functions that look at letters, or compare texts.
const LOOKING: [&str; 19] = [
    "upper",
    "lower",
    "initcap",
    "replace",
    "position",
    "strpos",
    "split_part",
    "string_to_array",
    "regexp_match",
    "regexp_matches",
    "regexp_replace",
    "regexp_split_to_array",
    "regexp_split_to_table",
    "regexp_like",
    "starts_with",
    "array_position",
    "array_positions",
    "array_remove",
    "array_replace",
];

/// The least or the greatest of texts that nobody knows how to compare: fails if there is more than
/// one.
pub(super) fn open_extreme(extreme: Expr, count: Expr) -> Expr {
    let one = Box::new(Expr::Const(Datum::Int(1)));
    let are_several = Expr::Compare { op: CompareOp::Gt, left: Box::new(count), right: one };
    let fails = open(extreme.clone(), &extreme);
    Expr::Case { arms: vec![(are_several, fails)], otherwise: Box::new(extreme) }
}

/// Fails when both values are there: as an expression in the place of `left`.
pub(super) fn open(left: Expr, right: &Expr) -> Expr {
    Expr::Call { function: &UNDETERMINED, args: vec![left, right.clone()] }
}

pub fn is_collatable(ty: Type) -> bool {
    let ty = ty.element().unwrap_or(ty);
    matches!(ty.category(), Category::String | Category::Unknown)
}

impl Binder<'_> {
    /// Binds an expression whose collation is told to the one around it, if there is one.
    pub(super) fn with_collation(
        &mut self,
        span: Span,
        bind: impl FnOnce(&mut Self) -> Result<Bound>,
    ) -> Result<Bound> {
        let around = self.collation.replace(Collation::default());
        let bound = bind(self);
        let mut own = std::mem::replace(&mut self.collation, around).unwrap_or_default();
        let bound = bound?;
        if !is_collatable(bound.ty.ty) {
            own = Collation::default();
        }
        if self.collation.is_none() {
            self.ended_with = own;
        } else {
            self.meet(own, span)?;
        }
        Ok(bound)
    }

    /// Binds what has no part in the collation of the expression at hand: a query, a condition of
    /// CASE.
    pub(super) fn apart<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let around = self.collation.take();
        let bound = bind(self);
        self.collation = around;
        bound
    }

    /// What was bound so far has become something else than a text.
    pub(super) fn forget_collation(&mut self, ty: Type) {
        if let (Some(named), false) = (&mut self.collation, is_collatable(ty)) {
            *named = Collation::default();
        }
    }

    pub(super) fn meet(&mut self, part: Collation, span: Span) -> Result<()> {
        if let Some(whole) = &mut self.collation {
            let both = std::mem::take(whole).with(part).map_err(|error| self.place(span, error))?;
            self.collation = Some(both);
        }
        Ok(())
    }

    /// What a column says, where it stands.
    pub(super) fn meet_column(&mut self, collation: Collation, span: Span) -> Result<()> {
        let collation = match collation {
            Collation::Explicit(name, _) => Collation::Implicit(name),
            Collation::Conflict(..) => Collation::Open,
            other => other,
        };
        if self.collation.is_some() {
            return self.meet(collation, span);
        }
        self.ended_with = collation;
        Ok(())
    }

    /// What the expression that was bound last says, if it stood by itself.
    pub(super) fn take_collation(&mut self) -> Collation {
        std::mem::take(&mut self.ended_with)
    }

    /// Whether two columns of different collations have met in the expression at hand.
    pub(super) fn is_collation_open(&self) -> bool {
        self.collation.as_ref().is_some_and(Collation::is_open)
    }

    /// Both sides of an operator, or arguments of a function: it fails when it is called without
    /// knowing its collation.
    pub(super) fn checked_for_collation(&self, name: &str, args: &mut [Expr]) {
        let looks = LOOKING.contains(&name) || matches!(name, "~" | "~*" | "!~" | "!~*" | "~~*" | "!~~*" | "^@");
        if looks
            && self.is_collation_open()
            && let Some(last) = args.last().cloned()
            && let Some(first) = args.first_mut()
        {
            *first = open(first.clone(), &last);
        }
    }

    /// `input COLLATE name`
    pub(super) fn collate(&mut self, input: &ast::Expr, collation: &ast::ObjectName, span: Span) -> Result<Bound> {
        let behind = super::name_span(collation);
        let placed = |binder: &Self, error| binder.place_between("collate", input.span(), behind, error);
        let name = named(collation, |schema| self.catalog.schema(schema).is_some());
        let name = name.map_err(|error| placed(self, error))?;
        // What it says of its operand's collation is over here.
        let bound = self.apart(|binder| binder.expr(input))?;
        if !matches!(bound.ty.ty.category(), Category::String | Category::Unknown) {
            return Err(placed(self, not_collatable(bound.ty.ty)));
        }
        let keyword = operator_position(self.text, "collate", input.span(), behind);
        self.meet(Collation::Explicit(name, keyword), span)?;
        Ok(bound)
    }
}

fn no_such_collation(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("collation \"{name}\" for encoding \"UTF8\" does not exist"))
}

/// The collation that a name means.
fn named(collation: &ast::ObjectName, is_schema: impl Fn(&str) -> bool) -> Result<CompactString> {
    let parts = name_parts(collation)?;
    let name = parts.last().map(|ident| fold(ident)).unwrap_or_default();
    if let [.., schema, _] = parts[..]
        && !colibri_catalog::system_tables::is_system_schema(&fold(schema))
    {
        let schema = fold(schema);
        return Err(if is_schema(&schema) {
            no_such_collation(&name)
        } else {
            Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist"))
        });
    }
    if NAMES.contains(&name.as_str()) { Ok(name) } else { Err(no_such_collation(&name)) }
}

/// The collation that a column is declared with; `None` is the database's.
pub fn of_column(collation: &ast::ObjectName, ty: Type) -> Result<Option<CompactString>> {
    let name = named(collation, |_| true)?;
    if !is_collatable(ty) {
        return Err(not_collatable(ty));
    }
    Ok((name != "default").then_some(name))
}

pub(super) fn not_collatable(ty: Type) -> Error {
    Error::new(SqlState::TYPE_MISMATCH, format!("collations are not supported by type {ty}"))
}

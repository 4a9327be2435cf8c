//! COLLATE: which collation counts, and sort keys in the place of texts where it is not that of bytes.
//!
//! A collation that an expression names goes over to what is made of it, as long as that is a text.
//! Two different ones that are named and meet in one operation are an error. Those of columns yield
//! to one that is named; two different ones of columns leave it open which counts, which is an
//! error only for what has to know: a comparison when it is made, an order when the statement is
//! bound.
//!
//! What comes behind the binder compares bytes. So a comparison by another collation is bound as one
//! of sort keys: see [`colibri_types::collation`]. Equality by a deterministic collation is that of
//! bytes, and stays as it is.
//!
//! Where collations are kept, and in [`Collation`], one is called by its *identity*: its name, if it is
//! in every database, else its schema and its name, both in quotes.

use colibri_catalog::Catalog;
use colibri_types::collation::{self, Spec};
use colibri_types::{
    Category, Datum, Error, Result, SqlState, Type,
    aggregates::{self, Aggregate},
    functions::{Function, Volatility, quote_identifier},
};
use compact_str::CompactString;
use sqlparser::ast::{self, Spanned as _};
use sqlparser::tokenizer::Span;

use super::expr::Bound;
use super::{Binder, fold, name_parts, operator_before};
use crate::bind::rewrite;
use crate::expr::{CompareOp, Expr};
pub use crate::logical::Collation;
use crate::logical::{Body, Distinct, Query, undetermined};
use crate::plan::SortKey;

/// The collations that compare bytes, and the database's.
pub const OF_BYTES: [&str; 5] = ["C", "POSIX", "ucs_basic", "C.utf8", "C.UTF-8"];
pub const DEFAULT: &str = "default";

/// Stands for a text that has to be compared without anybody knowing how.
static UNDETERMINED: Function = Function {
    name: "undetermined_collation",
    args: &[Type::Text, Type::Text],
    variadic: false,
    result: Type::Text,
    strict: true,
    volatility: Volatility::Stable,
    extension: None,
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

    /// What both sides of an operation say together. An error is placed at the COLLATE of the
    /// second one if there is one, else at `span`.
    pub(super) fn both_collations(&self, one: Collation, other: Collation, span: Span) -> Result<Collation> {
        let named = match &other {
            Collation::Explicit(_, named) => *named,
            _ => Span::empty(),
        };
        one.with(other).map_err(|error| match operator_before(self.text, "collate", named) {
            Some(position) => error.at(position),
            None => self.place(span, error),
        })
    }

    pub(super) fn meet(&mut self, part: Collation, span: Span) -> Result<()> {
        if let Some(whole) = &mut self.collation {
            let whole = std::mem::take(whole);
            self.collation = Some(self.both_collations(whole, part, span)?);
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
        let name = self.collation_named(collation).map_err(|error| placed(self, error))?;
        // What it says of its operand's collation is over here.
        let bound = self.apart(|binder| binder.expr(input))?;
        if !is_collatable(bound.ty.ty) {
            return Err(placed(self, not_collatable(bound.ty.ty)));
        }
        self.meet(Collation::Explicit(name, behind), span)?;
        Ok(bound)
    }
}

fn no_such_collation(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("collation \"{name}\" for encoding \"UTF8\" does not exist"))
}

/// Whether there is a collation of this name in every database.
pub fn is_builtin(name: &str) -> bool {
    OF_BYTES.contains(&name) || name == DEFAULT || collation::builtin_locale(name).is_some()
}

/// The order that a collation of texts has, by its identity; `None` is that of bytes.
pub fn order_of(catalog: &Catalog, identity: &str) -> Option<Spec> {
    if OF_BYTES.contains(&identity) {
        return None;
    }
    if identity == DEFAULT {
        let locale = catalog.locale()?;
        return Some(Spec { name: DEFAULT.into(), locale: locale.into(), deterministic: true });
    }
    if let Some(locale) = collation::builtin_locale(identity) {
        let name = quote_identifier(identity).into();
        return Some(Spec { name, locale: locale.into(), deterministic: true });
    }
    let known = catalog.collations().find(|known| known.identity() == identity)?;
    let locale = known.locale.clone().filter(|_| known.is_icu())?;
    Some(Spec { name: identity.into(), locale, deterministic: known.deterministic })
}

impl Binder<'_> {
    /// The identity of the collation that a name means.
    pub(super) fn collation_named(&self, collation: &ast::ObjectName) -> Result<CompactString> {
        let parts = name_parts(collation)?;
        let name = parts.last().map(|ident| fold(ident)).unwrap_or_default();
        let in_schema =
            |schema: &str| self.catalog.collations().find(|known| known.name == name && known.schema == schema);
        if let [.., schema, _] = parts[..]
            && !colibri_catalog::system_tables::is_system_schema(&fold(schema))
        {
            let schema = fold(schema);
            return match in_schema(&schema) {
                Some(known) => Ok(known.identity()),
                None if self.catalog.schema(&schema).is_some() => Err(no_such_collation(&name)),
                None => Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist"))),
            };
        }
        if is_builtin(&name) {
            return Ok(name);
        }
        let says_schema = parts.len() > 1;
        let mut path = self.search_path.iter().filter(|_| !says_schema);
        let known = path.find_map(|schema| in_schema(schema)).map(|known| known.identity());
        known.ok_or_else(|| no_such_collation(&name))
    }

    /// The collation that a column is declared with; `None` is the database's.
    ///
    /// # Errors
    /// There is none of the name, or the type is not one of texts.
    pub fn collation_of_column(&self, collation: &ast::ObjectName, ty: Type) -> Result<Option<CompactString>> {
        let name = self.collation_named(collation)?;
        if !is_collatable(ty) {
            return Err(not_collatable(ty));
        }
        Ok((name != DEFAULT).then_some(name))
    }

    /// The order that a collation has; `None` is that of bytes.
    pub(super) fn order_by(&self, collation: &Collation) -> Option<Spec> {
        match collation {
            Collation::Default => order_of(self.catalog, DEFAULT),
            Collation::Implicit(name) | Collation::Explicit(name, _) => order_of(self.catalog, name),
            Collation::Conflict(..) | Collation::Open => None,
        }
    }

    /// The order by which texts of a type are compared in the expression at hand.
    pub(super) fn order_at_hand(&self, ty: Type) -> Option<Spec> {
        if !has_order(ty) { None } else { self.order_by(self.collation.as_ref().unwrap_or(&Collation::Default)) }
    }

    /// What rows are put in order by in the place of an expression.
    pub(super) fn sort_key(&self, expr: Expr, ty: Type, collation: &Collation) -> Expr {
        match self.order_by(collation).filter(|_| has_order(ty)) {
            Some(order) => keyed(&order, expr, ty),
            None => expr,
        }
    }

    /// What tells whether values are equal in the place of an expression, where that is not the
    /// expression.
    pub(super) fn equality_key(&self, expr: &Expr, ty: Type, collation: &Collation) -> Option<Expr> {
        let order = self.order_by(collation).filter(|order| has_order(ty) && !order.deterministic)?;
        Some(keyed(&order, expr.clone(), ty))
    }

    /// The same for a key of GROUP BY.
    pub(super) fn folded_key(&self, text: &Expr, ty: Type, collation: &Collation) -> Option<FoldedKey> {
        let order = self.order_by(collation).filter(|order| has_order(ty) && !order.deterministic)?;
        let key = keyed(&order, text.clone(), ty);
        Some(FoldedKey { text: text.clone(), key, chosen_by: with_text(&order, text.clone()) })
    }

    /// Refuses to tell equal texts apart where the collation says when they are equal.
    pub(super) fn expect_deterministic(&self, ty: Type, collation: &Collation, what: &str) -> Result<()> {
        match self.order_by(collation) {
            Some(order) if has_order(ty) && !order.deterministic => Err(nondeterministic(what)),
            _ => Ok(()),
        }
    }

    /// A call whose arguments were checked: letters change case as the collation at hand has it.
    pub(super) fn collated(&self, function: &'static Function, mut args: Vec<Expr>) -> Result<Expr> {
        let takes_text = |function: &Function| function.args.first().is_some_and(|ty| is_collatable(*ty));
        if !takes_text(function) && !function.args.iter().any(|ty| ty.is_array() || *ty == Type::AnyArray) {
            return Ok(Expr::Call { function, args });
        }
        let Some(order) = self.order_at_hand(Type::Text) else { return Ok(Expr::Call { function, args }) };
        if !order.deterministic
            && let Some(what) = refused_in(function.name)
        {
            return Err(nondeterministic(what));
        }
        let of_language = match (function.name, function.args) {
            ("lower", [Type::Text]) => &collation::LOWER,
            ("upper", [Type::Text]) => &collation::UPPER,
            ("initcap", [Type::Text]) => &collation::INITCAP,
            _ => return Ok(Expr::Call { function, args }),
        };
        args.insert(0, Expr::Const(order.datum()));
        Ok(Expr::Call { function: of_language, args })
    }

    /// `min` and `max` of texts go by their sort keys, of which the text comes back: see
    /// [`text_of_extreme`].
    pub(super) fn extreme_of(&self, aggregate: &'static Aggregate, args: &mut [Expr], ty: Type) -> &'static Aggregate {
        let by_key = match aggregate.name {
            "min" => &aggregates::MIN_OF_ANY,
            "max" => &aggregates::MAX_OF_ANY,
            _ => return aggregate,
        };
        if let (Some(order), [arg]) = (self.order_at_hand(ty), args)
            && !ty.is_array()
        {
            *arg = with_text(&order, arg.clone());
            return by_key;
        }
        aggregate
    }
}

/// The text of the least, the greatest or another one of sort keys; any other value as it is.
pub(super) fn text_of_extreme(value: Expr, name: &str, args: &[Expr]) -> Expr {
    let chooses = matches!(name, "min" | "max" | "mode" | "percentile_disc");
    if chooses && args.first().is_some_and(has_text) { text_of(value) } else { value }
}

/// Whether an expression is a sort key that has its text behind it.
fn has_text(expr: &Expr) -> bool {
    let Expr::Call { function, args } = expr else { return false };
    let is = |known: &'static Function| std::ptr::eq(*function, known);
    let of_deterministic = matches!(args.first(), Some(Expr::Const(order)) if Spec::is_deterministic(order));
    is(&collation::KEY_AND_TEXT) || is(&collation::KEY) && of_deterministic
}

/// Has a query give sort keys in the place of columns that are compared by other orders than that of
/// bytes.
pub(super) fn key_output(query: &mut Query, orders: &[Option<Spec>]) {
    let inner = std::mem::replace(query, Query::plain(Body::Values(Vec::new()), Vec::new()));
    let mut outer = super::query::enclose(inner);
    if let Body::Select(select) = &mut outer.body {
        for ((output, column), order) in select.output.iter_mut().zip(&mut outer.columns).zip(orders) {
            if let Some(order) = order {
                let text = std::mem::replace(output, Expr::Const(Datum::Null));
                *output = keyed(order, text, column.ty.ty);
                column.ty = if column.ty.ty.is_array() { Type::Bytea.array_of() } else { Type::Bytea }.into();
            }
        }
    }
    *query = outer;
}

/// A query whose rows are distinct by the keys of its columns, where there are such: one of those that
/// are equal is kept.
pub(super) fn distinct_by_keys(query: Query, keys: Vec<Option<Expr>>) -> Query {
    let mut outer = super::query::enclose(query);
    if let Body::Select(select) = &mut outer.body {
        let mut places = Vec::with_capacity(keys.len());
        for (place, key) in keys.into_iter().enumerate() {
            match key {
                Some(key) => {
                    places.push(select.output.len());
                    select.output.push(key);
                }
                None => places.push(place),
            }
        }
        let key = |&place: &usize| SortKey { expr: Expr::Column(place), descending: false, nulls_first: false };
        outer.order = places.iter().map(key).collect();
        select.distinct = Distinct::On(places);
    }
    outer
}

/// Puts rows in the order of keys over the columns that a query gives.
pub(super) fn ordered_by_keys(query: Query, keys: Vec<SortKey>) -> Query {
    let mut outer = super::query::enclose(query);
    if let Body::Select(select) = &mut outer.body {
        for key in keys {
            let place = match key.expr {
                Expr::Column(place) => place,
                expr => {
                    select.output.push(expr);
                    select.output.len() - 1
                }
            };
            outer.order.push(SortKey { expr: Expr::Column(place), ..key });
        }
    }
    outer
}

/// A key of groups of texts that are equal by a nondeterministic collation.
pub(super) struct FoldedKey {
    /// The texts.
    pub(super) text: Expr,
    /// Their sort keys, by which they are grouped.
    pub(super) key: Expr,
    /// What one of a group's texts is found by.
    pub(super) chosen_by: Expr,
}

impl FoldedKey {
    /// Has an expression over groups show one text of those that are equal.
    pub(super) fn replace(&self, expr: &mut Expr, chosen: usize) {
        if rewrite::same(expr, &self.key) {
            return;
        }
        if rewrite::same(expr, &self.text) {
            *expr = text_of(Expr::Aggregate(chosen));
            return;
        }
        rewrite::for_each_child_mut(expr, &mut |child| self.replace(child, chosen));
    }
}

fn text_of(key: Expr) -> Expr {
    Expr::Call { function: &collation::TEXT_OF_KEY, args: vec![key] }
}

/// The least or the greatest of texts by an order.
pub(super) fn extreme(order: &Spec, greatest: bool, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| with_text(order, arg)).collect();
    text_of(Expr::Extreme { greatest, args })
}

pub(super) fn with_text(order: &Spec, text: Expr) -> Expr {
    // The keys of deterministic collations have their texts behind them.
    let function = if order.deterministic { &collation::KEY } else { &collation::KEY_AND_TEXT };
    Expr::Call { function, args: vec![Expr::Const(order.datum()), text] }
}

/// The sort key of a text, or those of an array of texts.
pub(super) fn keyed(order: &Spec, text: Expr, ty: Type) -> Expr {
    let function = if ty.is_array() { &collation::KEYS_OF_ARRAY } else { &collation::KEY };
    Expr::Call { function, args: vec![Expr::Const(order.datum()), text] }
}

/// Whether texts of a type are compared by a collation that may be another than that of bytes.
pub fn has_order(ty: Type) -> bool {
    is_collatable(ty)
        && !matches!(ty.element().unwrap_or(ty), Type::Name | Type::InternalChar | Type::NodeTree | Type::Citext)
}

fn nondeterministic(what: &str) -> Error {
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("nondeterministic collations are not supported for {what}"))
}

/// What PostgreSQL says of a function or an operator that does not do with nondeterministic
/// collations.
fn refused_in(name: &str) -> Option<&'static str> {
    Some(match name {
        "~~" | "!~~" | "like" | "notlike" => "LIKE",
        "~~*" | "!~~*" => "ILIKE",
        "~" | "~*" | "!~" | "!~*" => "regular expressions",
        "replace" | "position" | "strpos" | "split_part" | "string_to_array" | "starts_with" | "^@" => {
            "substring searches"
        }
        "array_position" | "array_positions" | "array_remove" | "array_replace" | "@>" | "<@" | "&&" => {
            "searches in arrays"
        }
        name if name.starts_with("regexp_") => "regular expressions",
        _ => return None,
    })
}

pub(super) fn not_collatable(ty: Type) -> Error {
    Error::new(SqlState::TYPE_MISMATCH, format!("collations are not supported by type {ty}"))
}

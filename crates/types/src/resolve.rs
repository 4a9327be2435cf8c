//! Which function, operator or common type is meant, by the types at hand: PostgreSQL's rules.
//!
//! An exact match wins. Else the candidates are those whose arguments the given types convert to by
//! themselves, and they are narrowed down: most exact matches, then most preferred types, then, for
//! literals of yet unknown type, the category that all candidates share (text if any takes it). One
//! must remain.

use smallvec::SmallVec;

use crate::aggregates::{self, Aggregate};
use crate::cast::{CastContext, cast_context};
use crate::error::{Error, Result, SqlState};
use crate::functions::{Function, Registry};
use crate::types::{Category, Type};

/// Something chosen by its arguments' types.
trait Candidate {
    /// Whether it takes this many.
    fn takes(&self, count: usize) -> bool;
    /// The type of an argument.
    fn arg(&self, index: usize) -> Type;
    /// Whether an argument of a type may stand there, converted if need be.
    fn accepts(&self, index: usize, from: Type) -> bool {
        // What takes `any` says so by the type void.
        let to = self.arg(index);
        to == Type::Void || cast_context(from, to) == Some(CastContext::Implicit)
    }
}

impl Candidate for Function {
    fn takes(&self, count: usize) -> bool {
        if self.variadic { count >= self.args.len() } else { count == self.args.len() }
    }

    fn arg(&self, index: usize) -> Type {
        self.arg_type(index)
    }

    fn accepts(&self, index: usize, from: Type) -> bool {
        let to = self.arg(index);
        cast_context(from, to)
            .is_some_and(|context| context == CastContext::Implicit || (to == Type::Text && self.takes_any_as_text()))
    }
}

impl Candidate for Aggregate {
    fn takes(&self, count: usize) -> bool {
        count == self.args.len()
    }

    fn arg(&self, index: usize) -> Type {
        self.args[index]
    }
}

enum Choice<'a, C> {
    One(&'a C),
    None,
    Many,
}

/// Chooses among candidates by PostgreSQL's rules.
fn choose<'a, C: Candidate>(candidates: impl Iterator<Item = &'a C>, args: &[Type]) -> Choice<'a, C> {
    let mut left: SmallVec<[&C; 8]> = candidates.filter(|candidate| candidate.takes(args.len())).collect();
    let indices = || 0..args.len();
    if let Some(exact) = left.iter().find(|candidate| indices().all(|index| candidate.arg(index) == args[index])) {
        return Choice::One(exact);
    }
    left.retain(|candidate| indices().all(|index| candidate.accepts(index, args[index])));
    if left.len() < 2 {
        return left.first().map_or(Choice::None, |one| Choice::One(one));
    }
    let known = |index: &usize| args[*index] != Type::Unknown;
    keep_best(&mut left, |candidate| {
        indices().filter(known).filter(|&index| candidate.arg(index) == args[index]).count()
    });
    if let [one] = left[..] {
        return Choice::One(one);
    }
    keep_best(&mut left, |candidate| {
        indices()
            .filter(known)
            .filter(|&index| {
                let ty = candidate.arg(index);
                ty == args[index] || (ty.is_preferred() && ty.category() == args[index].category())
            })
            .count()
    });
    if let [one] = left[..] {
        return Choice::One(one);
    }
    if indices().all(|index| known(&index)) {
        return Choice::Many;
    }
    narrow_by_category(&mut left, args);
    if let [one] = left[..] {
        return Choice::One(one);
    }
    // If all known arguments are of one type, take the unknown ones for it too.
    let mut types = indices().filter(known).map(|index| args[index]);
    if let Some(first) = types.next()
        && types.all(|ty| ty == first)
    {
        let mut fitting = left.iter().filter(|candidate| indices().all(|index| candidate.accepts(index, first)));
        if let (Some(one), None) = (fitting.next(), fitting.next()) {
            return Choice::One(one);
        }
    }
    Choice::Many
}

fn keep_best<C>(left: &mut SmallVec<[&C; 8]>, score: impl Fn(&C) -> usize) {
    let best = left.iter().map(|candidate| score(candidate)).max().unwrap_or(0);
    left.retain(|candidate| score(candidate) == best);
}

/// For arguments of unknown type, keeps the candidates of the category that is meant.
fn narrow_by_category<C: Candidate>(left: &mut SmallVec<[&C; 8]>, args: &[Type]) {
    let mut wanted: SmallVec<[(usize, Category, bool); 8]> = SmallVec::new();
    for index in (0..args.len()).filter(|&index| args[index] == Type::Unknown) {
        let types = || left.iter().map(|candidate| candidate.arg(index));
        let category = if types().any(|ty| ty.category() == Category::String) {
            Category::String
        } else {
            let first = left[0].arg(index).category();
            if types().any(|ty| ty.category() != first) {
                return;
            }
            first
        };
        let preferred = types().any(|ty| ty.category() == category && ty.is_preferred());
        wanted.push((index, category, preferred));
    }
    let fits = |candidate: &&mut &C| {
        wanted.iter().all(|&(index, category, preferred)| {
            let ty = candidate.arg(index);
            ty.category() == category && (!preferred || ty.is_preferred())
        })
    };
    let kept: SmallVec<[&C; 8]> = left.iter_mut().filter(fits).map(|candidate| *candidate).collect();
    if !kept.is_empty() {
        *left = kept;
    }
}

/// A function by what it takes, `anyelement` and `anyarray` among it.
struct Listed<'a>(&'a [Type]);

impl Candidate for Listed<'_> {
    fn takes(&self, count: usize) -> bool {
        count == self.0.len()
    }

    fn arg(&self, index: usize) -> Type {
        self.0[index]
    }

    fn accepts(&self, index: usize, from: Type) -> bool {
        match self.0[index] {
            to if to == from => true,
            Type::AnyElement | Type::AnyCompatible => true,
            Type::AnyNonArray | Type::AnyCompatibleNonArray => from.element().is_none(),
            Type::AnyEnum => from == Type::Unknown || from.is_enum(),
            Type::AnyArray | Type::AnyCompatibleArray => from == Type::Unknown || from.element().is_some(),
            Type::AnyRange | Type::AnyCompatibleRange => from == Type::Unknown || from.is_range(),
            Type::AnyMultirange | Type::AnyCompatibleMultirange => from == Type::Unknown || from.is_multirange(),
            Type::Void => false,
            to => cast_context(from, to) == Some(CastContext::Implicit),
        }
    }
}

/// Chooses among lists of types that functions take, by the types of a call's arguments. Gives the
/// place in the list.
///
/// # Errors
/// If several are as good.
#[expect(clippy::result_unit_err, reason = "the caller knows what to say")]
pub fn choose_types(lists: &[Vec<Type>], args: &[Type]) -> std::result::Result<Option<usize>, ()> {
    let listed: Vec<Listed<'_>> = lists.iter().map(|list| Listed(list)).collect();
    match choose(listed.iter(), args) {
        Choice::One(one) => Ok(listed.iter().position(|known| std::ptr::eq(known, one))),
        Choice::None => Ok(None),
        Choice::Many => Err(()),
    }
}

fn signature(name: &str, args: &[Type]) -> String {
    let args: Vec<&str> = args.iter().map(|ty| ty.sql_name()).collect();
    format!("{name}({})", args.join(", "))
}

#[cold]
fn no_function(name: &str, args: &[Type]) -> Error {
    Error::new(SqlState::NO_SUCH_FUNCTION, format!("function {} does not exist", signature(name, args)))
        .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

#[cold]
fn many_functions(name: &str, args: &[Type]) -> Error {
    Error::new(SqlState::AMBIGUOUS_FUNCTION, format!("function {} is not unique", signature(name, args)))
        .hint("Could not choose a best candidate function. You might need to add explicit type casts.")
}

impl Registry {
    /// The function that a call means.
    ///
    /// # Errors
    /// 42883 if there is none, 42725 if several are as good.
    pub fn function(&self, name: &str, args: &[Type]) -> Result<&Function> {
        self.function_among(name, args, &|_| true)
    }

    /// The same, where some functions are not there.
    ///
    /// # Errors
    /// As [`Registry::function`].
    pub fn function_among(&self, name: &str, args: &[Type], is_there: &dyn Fn(&Function) -> bool) -> Result<&Function> {
        match choose(self.named(name).iter().filter(|function| is_there(function)), args) {
            Choice::One(function) => Ok(function),
            Choice::None => Err(no_function(name, args)),
            Choice::Many => Err(many_functions(name, args)),
        }
    }

    /// The operator that an expression means; `left` is `None` for a prefix operator. Comparisons
    /// are not among them: see [`comparison_type`].
    ///
    /// # Errors
    /// 42883 if there is none, 42725 if several are as good.
    pub fn operator(&self, symbol: &str, left: Option<Type>, right: Type) -> Result<&Function> {
        self.operator_among(symbol, left, right, &|_| true)
    }

    /// The same, where some functions are not there.
    ///
    /// # Errors
    /// As [`Registry::operator`].
    pub fn operator_among(
        &self,
        symbol: &str,
        left: Option<Type>,
        right: Type,
        is_there: &dyn Fn(&Function) -> bool,
    ) -> Result<&Function> {
        let candidates = || self.named(symbol).iter().filter(|function| is_there(function));
        let choice = match left {
            None => choose(candidates(), &[right]),
            Some(left) => {
                // A literal is first taken for the other side's type.
                let assumed = match (left, right) {
                    (Type::Unknown, other) | (other, Type::Unknown) => other,
                    _ => left,
                };
                let exact = candidates().find(|function| match function.args {
                    [a, b] if left == Type::Unknown || right == Type::Unknown => *a == assumed && *b == assumed,
                    [a, b] => *a == left && *b == right,
                    _ => false,
                });
                match exact {
                    Some(exact) if assumed != Type::Unknown => Choice::One(exact),
                    _ => choose(candidates(), &[left, right]),
                }
            }
        };
        // Text takes a value of any type beside it.
        let choice = match (choice, left) {
            (Choice::None, Some(left))
                if symbol == "||"
                    && [left, right].iter().any(|ty| matches!(ty.category(), Category::String | Category::Unknown))
                    && [left, right].iter().all(|&ty| cast_context(ty, Type::Text).is_some()) =>
            {
                candidates().find(|function| function.args == [Type::Text; 2]).map_or(Choice::None, Choice::One)
            }
            (choice, _) => choice,
        };
        let written = match left {
            Some(left) => format!("{left} {symbol} {right}"),
            None => format!("{symbol} {right}"),
        };
        match choice {
            Choice::One(function) => Ok(function),
            Choice::None => Err(no_operator(&written, left.is_none())),
            Choice::Many => Err(Error::new(SqlState::AMBIGUOUS_FUNCTION, format!("operator is not unique: {written}"))
                .hint("Could not choose a best candidate operator. You might need to add explicit type casts.")),
        }
    }
}

/// The error for an operator, or a comparison, that does not exist: `written` is like `integer +
/// text`.
#[must_use]
#[cold]
pub fn no_operator(written: &str, prefix: bool) -> Error {
    Error::new(SqlState::NO_SUCH_FUNCTION, format!("operator does not exist: {written}")).hint(if prefix {
        "No operator matches the given name and argument type. You might need to add an explicit type cast."
    } else {
        "No operator matches the given name and argument types. You might need to add explicit type casts."
    })
}

/// The type that both sides of `=`, `<` and so on are converted to; `None` if they do not compare.
#[must_use]
pub fn comparison_type(left: Type, right: Type) -> Option<Type> {
    use Type::{Char, Date, Float4, Float8, Int2, Int4, Int8, Numeric, Oid, Text, Timestamp, TimestampTz, Unknown};
    use Type::{Interval, Time, Void};
    Some(match (left, right) {
        (Void, _) | (_, Void) => return None,
        (Type::Record, Type::Record | Unknown) | (Unknown, Type::Record) => Type::Record,
        (Type::Composite(one), Type::Composite(other)) if one == other => Type::Composite(one),
        // A literal is no row, as rows of all types are compared by one operator.
        (Type::Composite(_) | Type::Record, Type::Composite(_) | Type::Record | Unknown)
        | (Unknown, Type::Composite(_)) => Type::Record,
        // These are not compared.
        (Type::Json | Type::JsonPath | Type::Xml | Type::Record, _)
        | (_, Type::Json | Type::JsonPath | Type::Xml | Type::Record) => {
            return None;
        }
        (Type::Lquery | Type::Ltxtquery | Type::IntQuery, _) | (_, Type::Lquery | Type::Ltxtquery | Type::IntQuery) => {
            return None;
        }
        // Operators of their own compare these.
        (left, right) if left.is_geometric() || right.is_geometric() => return None,
        (Unknown, Unknown) => Text,
        (Unknown, other) | (other, Unknown) => other,
        (left, right) if left == right => left,
        (Int2 | Int4 | Int8, Int2 | Int4 | Int8) => left.max(right),
        (Oid, Int2 | Int4 | Int8) | (Int2 | Int4 | Int8, Oid) => Oid,
        (reg, other) | (other, reg)
            if reg.is_reg() && (other == Oid || other.is_reg() || matches!(other, Int2 | Int4 | Int8)) =>
        {
            Oid
        }
        (Int2 | Int4 | Int8, Numeric) | (Numeric, Int2 | Int4 | Int8) => Numeric,
        (Float4 | Float8, Int2 | Int4 | Int8 | Numeric | Float4 | Float8)
        | (Int2 | Int4 | Int8 | Numeric, Float4 | Float8) => Float8,
        (Char, Type::Varchar) | (Type::Varchar, Char) => Char,
        (Type::Bit, Type::VarBit) | (Type::VarBit, Type::Bit) => Type::VarBit,
        (left, right) if left.category() == Category::String && right.category() == Category::String => Text,
        (Date, Timestamp) | (Timestamp, Date) => Timestamp,
        (Date | Timestamp, TimestampTz) | (TimestampTz, Date | Timestamp) => TimestampTz,
        (Time, Interval) | (Interval, Time) => Interval,
        (Type::Inet, Type::Cidr) | (Type::Cidr, Type::Inet) => Type::Inet,
        (Time, Type::TimeTz) | (Type::TimeTz, Time) => Type::TimeTz,
        _ => return None,
    })
}

/// The type of a UNION's column, of CASE, COALESCE, GREATEST or VALUES: what all of the types
/// convert to by themselves. `None` if there is none. Of unknown types only, it is text.
#[must_use]
pub fn common_type(types: &[Type]) -> Option<Type> {
    let mut known = types.iter().copied().filter(|&ty| ty != Type::Unknown);
    let Some(mut common) = known.next() else { return Some(Type::Text) };
    for ty in known {
        if ty == common {
            continue;
        }
        if ty.category() != common.category() {
            return None;
        }
        if !common.is_preferred()
            && cast_context(common, ty) == Some(CastContext::Implicit)
            && cast_context(ty, common) != Some(CastContext::Implicit)
        {
            common = ty;
        }
    }
    types.iter().all(|&ty| cast_context(ty, common) == Some(CastContext::Implicit)).then_some(common)
}

/// The aggregate that a call means, `count(*)` being called without arguments; `None` if no
/// aggregate has the name.
#[must_use]
pub fn resolve_aggregate(name: &str, args: &[Type]) -> Option<Result<&'static Aggregate>> {
    let candidates = aggregates::named(name);
    if candidates.is_empty() {
        return None;
    }
    match (name, args) {
        ("min", [Type::Enum(_) | Type::Array(_)]) => return Some(Ok(&aggregates::MIN_OF_ANY)),
        ("max", [Type::Enum(_) | Type::Array(_)]) => return Some(Ok(&aggregates::MAX_OF_ANY)),
        _ => {}
    }
    Some(match choose(candidates.iter(), args) {
        Choice::One(aggregate) => Ok(aggregate),
        Choice::None => Err(no_function(name, args)),
        Choice::Many => Err(many_functions(name, args)),
    })
}

//! Where a path leads.
//!
//! In lax mode an array that stands where something else is asked for is gone through, a value that
//! stands where an array is asked for counts as one of itself, and what is missing is nothing. In
//! strict mode all of these are errors. A condition of which a part fails is unknown.
//!
//! Invariant: values are given one after the other, in the order of the document; whoever takes them
//! may end it.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::rc::Rc;

use super::moment;
use super::value::{Scalar, Seen, Value};
use crate::datetime::Zone;
use crate::env::Env;
use crate::error::{Error, Result, SqlState};
use crate::jsonb::{Item, JsonbRef, List};
use crate::jsonpath::{Arithmetic, Comparison, Head, LAST_LEVEL, Method, Path, Program, Step, regex_flags};
use crate::numeric::Numeric;
use crate::pulse;
use crate::regular::Regular;
use crate::text_io;
use crate::types::Type;
use crate::value::Datum;

/// Why a path ends before its end.
enum Fault {
    /// A mistake that a condition, or a silent call, takes for nothing.
    Soft(Error),
    /// One that it does not.
    Hard(Error),
    /// There is enough.
    Enough,
}

type Flow<T = ()> = std::result::Result<T, Fault>;
type Sink<'s> = &'s mut dyn FnMut(Value<'_>) -> Flow;

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Hard(error)
    }
}

/// How a path is gone along.
pub(crate) struct Options<'o> {
    /// The object that variables are members of.
    pub vars: Option<JsonbRef<'o>>,
    /// Whether mistakes are nothing.
    pub silent: bool,
    /// Whether the session's time zone may be used.
    pub with_zone: bool,
}

struct Run<'r> {
    root: JsonbRef<'r>,
    is_strict: bool,
    options: &'r Options<'r>,
    env: &'r Env,
    /// How many parts of the path, and levels of the document, it is in.
    depth: Cell<usize>,
    /// Patterns of the path, by where they stand in it.
    regulars: RefCell<Vec<(*const Path, Rc<Regular>)>>,
}

/// Parts of a path and levels of a document that may be inside each other.
const DEPTH_MAX: usize = 1_500;
/// Bytes of all values that one call gives.
const FOUND_BYTES_MAX: usize = 256 << 20;

/// What is around a part of a path.
#[derive(Clone, Copy)]
struct Scope<'s> {
    current: &'s Value<'s>,
    /// Of the innermost array that a subscript is of.
    array_length: i64,
    ignores_structure: bool,
}

fn soft(code: &'static str, message: impl Into<String>) -> Fault {
    Fault::Soft(Error::new(SqlState(code), message))
}

/// Runs a path; `None` if it failed silently.
fn run(program: &Program, root: JsonbRef<'_>, options: &Options<'_>, env: &Env, sink: Sink<'_>) -> Result<Option<()>> {
    if let Some(vars) = options.vars
        && !matches!(vars.node()?, crate::jsonb::Node::Object(_))
    {
        return Err(Error::new(SqlState::BAD_PARAMETER, "\"vars\" argument is not an object")
            .detail("Jsonpath parameters should be encoded as key-value pairs of \"vars\" object."));
    }
    let run =
        Run { root, is_strict: program.is_strict, options, env, depth: Cell::new(0), regulars: RefCell::default() };
    let value = Value::Part(root);
    let scope = Scope { current: &value, array_length: 0, ignores_structure: !program.is_strict };
    match run.path(&program.path, scope, sink) {
        Ok(()) | Err(Fault::Enough) => Ok(Some(())),
        Err(Fault::Soft(_)) if options.silent => Ok(None),
        Err(Fault::Soft(error) | Fault::Hard(error)) => Err(error),
    }
}

/// Whether a path leads anywhere; `None` if it failed silently.
pub(crate) fn exists(program: &Program, root: JsonbRef<'_>, options: &Options<'_>, env: &Env) -> Result<Option<bool>> {
    let mut any = false;
    let done = run(program, root, options, env, &mut |_| {
        any = true;
        // In strict mode there must be no mistake behind it either.
        if program.is_strict { Ok(()) } else { Err(Fault::Enough) }
    })?;
    Ok(done.map(|()| any))
}

/// What a condition says; `None` if it is unknown, or failed silently.
pub(crate) fn matches(program: &Program, root: JsonbRef<'_>, options: &Options<'_>, env: &Env) -> Result<Option<bool>> {
    let (mut count, mut last) = (0, None);
    let done = run(program, root, options, env, &mut |value| {
        count += 1;
        last = match value.seen()? {
            Seen::Bool(value) => Some(Some(value)),
            Seen::Null => Some(None),
            _ => None,
        };
        Ok(())
    })?;
    match last.filter(|_| count == 1) {
        _ if done.is_none() => Ok(None),
        Some(said) => Ok(said),
        None if options.silent => Ok(None),
        None => Err(Error::new(SqlState("22038"), "single boolean result is expected")),
    }
}

/// The values that a path leads to; those before a mistake if that is passed over in silence.
pub(crate) fn query(program: &Program, root: JsonbRef<'_>, options: &Options<'_>, env: &Env) -> Result<Vec<Datum>> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    run(program, root, options, env, &mut |value| {
        let value = value.item().datum()?;
        if let Datum::Jsonb(value) = &value {
            bytes += value.len() + size_of::<Datum>();
        }
        if bytes > FOUND_BYTES_MAX {
            let message = format!("the values that a jsonpath leads to exceed the maximum of {FOUND_BYTES_MAX} bytes");
            return Err(Fault::Hard(Error::new(SqlState::PROGRAM_LIMIT, message)));
        }
        found.push(value);
        Ok(())
    })?;
    Ok(found)
}

impl Run<'_> {
    fn is_lax(&self) -> bool {
        !self.is_strict
    }

    /// Goes one part of the path, or one level of the document, deeper.
    fn inside<T>(&self, act: impl FnOnce() -> Flow<T>) -> Flow<T> {
        let depth = self.depth.get();
        if depth >= DEPTH_MAX {
            return Err(Fault::Hard(Error::new(SqlState::TOO_COMPLEX, "stack depth limit exceeded")));
        }
        self.depth.set(depth + 1);
        let result = act();
        self.depth.set(depth);
        result
    }

    /// The pattern of a condition, made once.
    fn regular(&self, path: &Path, pattern: &str, letters: &str) -> Flow<Rc<Regular>> {
        let known =
            self.regulars.borrow().iter().find(|(at, _)| std::ptr::eq(*at, path)).map(|(_, known)| known.clone());
        if let Some(known) = known {
            return Ok(known);
        }
        let made = Rc::new(Regular::new(pattern, regex_flags(letters)?)?);
        self.regulars.borrow_mut().push((path, Rc::clone(&made)));
        Ok(made)
    }

    fn zone(&self) -> Option<&Zone> {
        self.options.with_zone.then_some(&self.env.zone)
    }

    /// Gives what a path leads to.
    fn path(&self, path: &Path, scope: Scope<'_>, sink: Sink<'_>) -> Flow {
        self.inside(|| self.path_inside(path, scope, sink))
    }

    fn path_inside(&self, path: &Path, scope: Scope<'_>, sink: Sink<'_>) -> Flow {
        pulse::work(4)?;
        let value = match &path.head {
            Head::Root => Value::Part(self.root),
            Head::Current => scope.current.clone(),
            Head::Last => Value::Number(Numeric::from(scope.array_length - 1)),
            Head::Null => Value::Null,
            Head::Bool(value) => Value::Bool(*value),
            Head::Number(value) => Value::Number(value.clone()),
            Head::String(value) => Value::String(Cow::Borrowed(value)),
            Head::Variable(name) => self.variable(name)?,
            Head::Arithmetic(op, left, right) => Value::Number(self.arithmetic(*op, left, right, scope)?),
            Head::Sign(is_minus, operand) => return self.sign(path, *is_minus, operand, scope, sink),
            _ => match self.condition(path, scope)? {
                Some(value) => Value::Bool(value),
                None => Value::Null,
            },
        };
        self.steps(&path.steps, scope, value, self.is_lax(), sink)
    }

    fn variable(&self, name: &str) -> Flow<Value<'_>> {
        let found = match self.options.vars {
            Some(vars) => match vars.node()? {
                crate::jsonb::Node::Object(map) => map.get(name),
                _ => None,
            },
            None => None,
        };
        found.map(Value::Part).ok_or_else(|| {
            let message = format!("could not find jsonpath variable \"{name}\"");
            Fault::Hard(Error::new(SqlState::NO_SUCH_OBJECT, message))
        })
    }

    /// The values of a path, to be compared; in lax mode arrays are gone through, if `unwraps`.
    fn scalars(&self, path: &Path, scope: Scope<'_>, unwraps: bool) -> Flow<Vec<Scalar>> {
        let mut all = Vec::new();
        let is_lax = self.is_lax();
        self.path(path, scope, &mut |value| {
            pulse::work(1)?;
            match value.seen()? {
                Seen::Array(list) if unwraps && is_lax => {
                    for element in list.iter() {
                        all.push(Value::Part(element).scalar()?);
                    }
                }
                _ => all.push(value.scalar()?),
            }
            Ok(())
        })?;
        Ok(all)
    }

    fn arithmetic(&self, op: Arithmetic, left: &Path, right: &Path, scope: Scope<'_>) -> Flow<Numeric> {
        let operand = |side: &str, path: &Path| match &self.scalars(path, scope, true)?[..] {
            [Scalar::Number(number)] => Ok(number.clone()),
            _ => {
                let symbol = op.symbol();
                Err(soft(
                    "22038",
                    format!("{side} operand of jsonpath operator {symbol} is not a single numeric value"),
                ))
            }
        };
        let (left, right) = (operand("left", left)?, operand("right", right)?);
        match op {
            Arithmetic::Add => left.add(&right),
            Arithmetic::Subtract => left.sub(&right),
            Arithmetic::Multiply => left.mul(&right),
            Arithmetic::Divide => left.div(&right),
            Arithmetic::Modulo => left.rem(&right),
        }
        .map_err(Fault::Soft)
    }

    fn sign(&self, path: &Path, is_minus: bool, operand: &Path, scope: Scope<'_>, sink: Sink<'_>) -> Flow {
        for value in self.scalars(operand, scope, true)? {
            let Scalar::Number(number) = value else {
                let symbol = if is_minus { "-" } else { "+" };
                let message = format!("operand of unary jsonpath operator {symbol} is not a numeric value");
                return Err(soft("2203B", message));
            };
            let value = Value::Number(if is_minus { number.negate() } else { number });
            self.steps(&path.steps, scope, value, self.is_lax(), sink)?;
        }
        Ok(())
    }

    /// Goes on along steps from a value. `unwraps` says whether an array is gone through where
    /// something else is asked for.
    fn steps(&self, steps: &[Step], scope: Scope<'_>, value: Value<'_>, unwraps: bool, sink: Sink<'_>) -> Flow {
        self.inside(|| self.steps_inside(steps, scope, value, unwraps, sink))
    }

    fn steps_inside(&self, steps: &[Step], scope: Scope<'_>, value: Value<'_>, unwraps: bool, sink: Sink<'_>) -> Flow {
        pulse::work(4)?;
        let Some((step, rest)) = steps.split_first() else { return sink(value) };
        let takes_array = match step {
            Step::AnyElement | Step::Elements(_) | Step::AnyDepth(..) => true,
            Step::Method(method) => matches!(method, Method::Type | Method::Size),
            _ => false,
        };
        let seen = value.seen()?;
        if let (false, true, Seen::Array(list)) = (takes_array, unwraps, &seen) {
            for element in list.iter() {
                self.steps(steps, scope, Value::Part(element), false, sink)?;
            }
            return Ok(());
        }
        let next = |value: Value<'_>, sink: Sink<'_>| self.steps(rest, scope, value, self.is_lax(), sink);
        match (step, seen) {
            (Step::Key(key), Seen::Object(map)) => match map.get(key) {
                Some(found) => next(Value::Part(found), sink),
                None if scope.ignores_structure => Ok(()),
                None => Err(soft("2203A", format!("JSON object does not contain key \"{key}\""))),
            },
            (Step::Key(_), _) if scope.ignores_structure => Ok(()),
            (Step::Key(_), _) => Err(soft("2203A", "jsonpath member accessor can only be applied to an object")),
            (Step::AnyKey, Seen::Object(map)) => map.iter().try_for_each(|(_, inner)| next(Value::Part(inner), sink)),
            (Step::AnyKey, _) if scope.ignores_structure => Ok(()),
            (Step::AnyKey, _) => {
                Err(soft("2203C", "jsonpath wildcard member accessor can only be applied to an object"))
            }
            (Step::AnyElement, Seen::Array(list)) => {
                list.iter().try_for_each(|element| next(Value::Part(element), sink))
            }
            (Step::AnyElement, _) if self.is_lax() => next(value, sink),
            (Step::AnyElement, _) if scope.ignores_structure => Ok(()),
            (Step::AnyElement, _) => {
                Err(soft("22039", "jsonpath wildcard array accessor can only be applied to an array"))
            }
            (Step::Elements(list), Seen::Array(array)) => self.elements(list, scope, Some(array), &value, rest, sink),
            (Step::Elements(list), _) if self.is_lax() => self.elements(list, scope, None, &value, rest, sink),
            (Step::Elements(_), _) if scope.ignores_structure => Ok(()),
            (Step::Elements(_), _) => Err(soft("22039", "jsonpath array accessor can only be applied to an array")),
            (Step::AnyDepth(from, to), _) => {
                let inside = Scope { ignores_structure: true, ..scope };
                if *from == 0 {
                    self.steps(rest, inside, value.clone(), self.is_lax(), sink)?;
                }
                self.deeper(rest, inside, &value, (*from, *to), 1, sink)
            }
            (Step::Filter(filter), _) => {
                let inner = Scope { current: &value, ..scope };
                match self.condition(filter, inner)? {
                    Some(true) => next(value.clone(), sink),
                    _ => Ok(()),
                }
            }
            (Step::Method(method), _) => self.method(*method, scope, &value, &mut |value| next(value, sink)),
            (Step::DateTime(template), Seen::String(text)) => {
                let moment = moment::read(text, template.as_deref()).map_err(Fault::Soft)?;
                next(Value::Moment(moment), sink)
            }
            (Step::DateTime(_), _) => {
                Err(soft("22031", "jsonpath item method .datetime() can only be applied to a string"))
            }
        }
    }

    /// Goes on from what is inside a value, `level` deep.
    fn deeper(
        &self,
        rest: &[Step],
        scope: Scope<'_>,
        value: &Value<'_>,
        (from, to): (u32, u32),
        level: u32,
        sink: Sink<'_>,
    ) -> Flow {
        let mut each = |part: JsonbRef<'_>| {
            pulse::work(2)?;
            let inner = Value::Part(part);
            let is_inner = matches!(inner.seen()?, Seen::Array(_) | Seen::Object(_));
            if (level >= from && level <= to) || (from == LAST_LEVEL && to == LAST_LEVEL && !is_inner) {
                self.steps(rest, scope, inner.clone(), self.is_lax(), sink)?;
            }
            if is_inner && level < to {
                self.inside(|| self.deeper(rest, scope, &inner, (from, to), level + 1, sink))?;
            }
            Ok(())
        };
        match value.seen()? {
            Seen::Array(list) => list.iter().try_for_each(&mut each),
            Seen::Object(map) => map.iter().try_for_each(|(_, inner)| each(inner)),
            _ => Ok(()),
        }
    }

    /// Goes on from the elements that subscripts tell; `array` is nothing for a value that counts as
    /// an array of itself.
    fn elements(
        &self,
        list: &[(Path, Option<Path>)],
        scope: Scope<'_>,
        array: Option<List<'_>>,
        value: &Value<'_>,
        rest: &[Step],
        sink: Sink<'_>,
    ) -> Flow {
        let length = array.as_ref().map_or(1, |array| array.len() as i64);
        let inner = Scope { array_length: length, ..scope };
        for (from, to) in list {
            let from = self.place(from, inner)?;
            let to = to.as_ref().map_or(Ok(from), |to| self.place(to, inner))?;
            if !scope.ignores_structure && (from < 0 || from > to || to >= length) {
                return Err(soft("22033", "jsonpath array subscript is out of bounds"));
            }
            for at in from.max(0)..=to.min(length - 1) {
                let element = match &array {
                    Some(array) => array.at(at).map(Value::Part),
                    None => Some(value.clone()),
                };
                if let Some(element) = element {
                    self.steps(rest, scope, element, self.is_lax(), sink)?;
                }
            }
        }
        Ok(())
    }

    /// The place that a subscript is.
    fn place(&self, path: &Path, scope: Scope<'_>) -> Flow<i64> {
        let [Scalar::Number(number)] = &self.scalars(path, scope, false)?[..] else {
            return Err(soft("22033", "jsonpath array subscript is not a single numeric value"));
        };
        let whole = number.trunc(0).map_err(Fault::Soft)?.to_i64_rounded();
        whole
            .filter(|place| i32::try_from(*place).is_ok())
            .ok_or_else(|| soft("22033", "jsonpath array subscript is out of integer range"))
    }

    fn method(&self, method: Method, scope: Scope<'_>, value: &Value<'_>, sink: Sink<'_>) -> Flow {
        let name = method.name();
        match (method, value.seen()?) {
            (Method::Type, _) => sink(Value::String(Cow::Borrowed(value.type_name()?))),
            (Method::Size, Seen::Array(list)) => sink(Value::Number(Numeric::from(list.len() as i64))),
            (Method::Size, _) if self.is_lax() => sink(Value::Number(Numeric::ONE)),
            (Method::Size, _) if scope.ignores_structure => Ok(()),
            (Method::Size, _) => Err(soft("22039", "jsonpath item method .size() can only be applied to an array")),
            (Method::Abs, Seen::Number(number)) => sink(Value::Number(number.abs())),
            (Method::Floor, Seen::Number(number)) => sink(Value::Number(number.floor().map_err(Fault::Soft)?)),
            (Method::Ceiling, Seen::Number(number)) => sink(Value::Number(number.ceil().map_err(Fault::Soft)?)),
            (Method::Double, Seen::Number(number)) => sink(Value::Number(number)),
            (Method::Double, Seen::String(text)) => {
                let number = text_io::parse_float(Type::Float8, text).ok().filter(|number| number.is_finite());
                let number = number.and_then(|number| Numeric::from_f64(number).ok()).ok_or_else(|| {
                    let message = "string argument of jsonpath item method .double() is not a valid representation of \
                                   a double precision number";
                    soft("22036", message)
                })?;
                sink(Value::Number(number))
            }
            (Method::Double, _) => {
                Err(soft("22036", "jsonpath item method .double() can only be applied to a string or numeric value"))
            }
            (Method::Abs | Method::Floor | Method::Ceiling, _) => {
                Err(soft("22036", format!("jsonpath item method .{name}() can only be applied to a numeric value")))
            }
            (Method::KeyValue, Seen::Object(map)) => {
                let id = self.id_of(value);
                for (key, inner) in map.iter() {
                    let members = vec![
                        (Cow::Borrowed("id"), Item::Number(Numeric::from(id))),
                        (Cow::Borrowed("key"), Item::String(Cow::Borrowed(key))),
                        (Cow::Borrowed("value"), Item::Part(inner)),
                    ];
                    if let Datum::Jsonb(bytes) = Item::Object(members).datum()? {
                        sink(Value::Part(JsonbRef::new(&bytes)))?;
                    }
                }
                Ok(())
            }
            (Method::KeyValue, _) => {
                Err(soft("2203C", "jsonpath item method .keyvalue() can only be applied to an object"))
            }
        }
    }

    /// A number that tells an object from others: where it is in the document.
    fn id_of(&self, value: &Value<'_>) -> i64 {
        /// The number of what is not in the document.
        const ELSEWHERE: i64 = 10_000_000_000;
        let Value::Part(part) = value else { return ELSEWHERE };
        let root = self.root.bytes().as_ptr_range();
        let at = part.bytes().as_ptr();
        if root.contains(&at) { (at as usize - root.start as usize) as i64 } else { ELSEWHERE }
    }

    /// What a condition says; `None` if that is unknown.
    fn condition(&self, path: &Path, scope: Scope<'_>) -> Flow<Option<bool>> {
        self.inside(|| self.condition_inside(path, scope))
    }

    fn condition_inside(&self, path: &Path, scope: Scope<'_>) -> Flow<Option<bool>> {
        pulse::work(4)?;
        Ok(match &path.head {
            Head::And(left, right) => match self.condition(left, scope)? {
                Some(false) => Some(false),
                left => match self.condition(right, scope)? {
                    Some(true) => left,
                    right => right,
                },
            },
            Head::Or(left, right) => match self.condition(left, scope)? {
                Some(true) => Some(true),
                left => match self.condition(right, scope)? {
                    Some(false) => left,
                    right => right,
                },
            },
            Head::Not(inner) => self.condition(inner, scope)?.map(|value| !value),
            Head::IsUnknown(inner) => Some(self.condition(inner, scope)?.is_none()),
            Head::Exists(inner) => {
                let mut any = false;
                let is_strict = self.is_strict;
                match self.path(inner, scope, &mut |_| {
                    any = true;
                    if is_strict { Ok(()) } else { Err(Fault::Enough) }
                }) {
                    Ok(()) | Err(Fault::Enough) => Some(any),
                    Err(Fault::Soft(_)) => None,
                    Err(hard) => return Err(hard),
                }
            }
            Head::Compare(op, left, right) => {
                let Some(left) = self.operands(left, scope, true)? else { return Ok(None) };
                let Some(right) = self.operands(right, scope, true)? else { return Ok(None) };
                self.any_pair(&left, &right, |left, right| self.compare(*op, left, right))?
            }
            Head::StartsWith(left, right) => {
                let Some(left) = self.operands(left, scope, true)? else { return Ok(None) };
                let Some(right) = self.operands(right, scope, false)? else { return Ok(None) };
                self.any_pair(&left, &right, |left, right| {
                    Ok(match (left, right) {
                        (Scalar::String(left), Scalar::String(right)) => Some(left.starts_with(right.as_str())),
                        _ => None,
                    })
                })?
            }
            Head::LikeRegex(left, pattern, letters) => {
                let Some(left) = self.operands(left, scope, true)? else { return Ok(None) };
                let regular = self.regular(path, pattern, letters)?;
                self.any_pair(&left, &[Scalar::Null], |left, _| match left {
                    Scalar::String(text) => Ok(Some(regular.search(text)?.is_match()?)),
                    _ => Ok(None),
                })?
            }
            _ => return Err(Fault::Hard(Error::internal("a condition that is none"))),
        })
    }

    /// The values of a condition's side; `None` if they cannot be told.
    fn operands(&self, path: &Path, scope: Scope<'_>, unwraps: bool) -> Flow<Option<Vec<Scalar>>> {
        match self.scalars(path, scope, unwraps) {
            Ok(values) => Ok(Some(values)),
            Err(Fault::Soft(_)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Whether a test holds for any pair.
    fn any_pair(
        &self,
        left: &[Scalar],
        right: &[Scalar],
        test: impl Fn(&Scalar, &Scalar) -> Flow<Option<bool>>,
    ) -> Flow<Option<bool>> {
        let (mut found, mut is_unknown) = (false, false);
        for left in left {
            for right in right {
                pulse::work(2)?;
                match test(left, right)? {
                    None if self.is_strict => return Ok(None),
                    None => is_unknown = true,
                    Some(true) if self.is_lax() => return Ok(Some(true)),
                    Some(true) => found = true,
                    Some(false) => {}
                }
            }
        }
        Ok(match (found, is_unknown) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        })
    }

    fn compare(&self, op: Comparison, left: &Scalar, right: &Scalar) -> Flow<Option<bool>> {
        let order = match (left, right) {
            (Scalar::Null, Scalar::Null) => Ordering::Equal,
            (Scalar::Null, _) | (_, Scalar::Null) => return Ok(Some(op == Comparison::NotEqual)),
            (Scalar::Bool(a), Scalar::Bool(b)) => a.cmp(b),
            (Scalar::Number(a), Scalar::Number(b)) => a.cmp(b),
            (Scalar::String(a), Scalar::String(b)) => a.cmp(b),
            (Scalar::Moment(a), Scalar::Moment(b)) => match a.compare(*b, self.zone(), self.env)? {
                Some(order) => order,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(match op {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterEqual => order.is_ge(),
        }))
    }
}

//! What a path into `jsonb` asks of the tokens of a document.
//!
//! A path gives something only if all its steps do: the keys that it goes by are there, and its
//! filters are true of something. A condition that compares what a path gives with a scalar is true
//! only if that scalar is there. What is said by anything else (NOT, arithmetic, methods, other
//! comparisons) follows from no token, but the paths inside still have to give something.

use super::Query;
use super::json::Scalar;
use crate::error::Result;
use crate::jsonpath::{self, Comparison, Head, Path, Step};
use crate::pulse;

/// How a class of tokens follows a path.
pub(super) trait Ways {
    /// What is known of the way to a value.
    type Way: Clone;

    /// The way to the document itself.
    fn root(&self) -> Self::Way;

    /// The way to a member by its key, and what has to be there.
    fn member(&self, way: &Self::Way, key: &str) -> (Self::Way, Query);

    /// What has to be there if a scalar is at the end of a way.
    fn value(&self, way: &Self::Way, value: Scalar<'_>) -> Query;

    /// A way of which nothing is known, if something follows from it.
    fn anywhere(&self) -> Option<Self::Way>;
}

/// `@?`: the path gives something.
pub(super) fn exists<W: Ways>(ways: &W, text: &str) -> Result<Query> {
    let program = jsonpath::compiled(text)?;
    Ok(gives(ways, &program.path, Some(&ways.root()))?.0)
}

/// `@@`: the path, which is a condition, is true.
pub(super) fn is_true<W: Ways>(ways: &W, text: &str) -> Result<Query> {
    let program = jsonpath::compiled(text)?;
    holds(ways, &program.path, Some(&ways.root()))
}

/// What has to be there for a path to give something, and the way to what it gives. `current` is the
/// way to what `@` stands for.
fn gives<W: Ways>(ways: &W, path: &Path, current: Option<&W::Way>) -> Result<(Query, Option<W::Way>)> {
    pulse::work(5)?;
    let (mut query, mut way) = match &path.head {
        Head::Root => (Query::All, Some(ways.root())),
        Head::Current => (Query::All, current.cloned()),
        Head::Arithmetic(_, left, right) => {
            (Query::all_of([gives(ways, left, current)?.0, gives(ways, right, current)?.0]), None)
        }
        Head::Sign(_, operand) => (gives(ways, operand, current)?.0, None),
        // Scalars are there; conditions give true, false or null.
        _ => (Query::All, None),
    };
    for step in &path.steps {
        pulse::work(5)?;
        match step {
            Step::Key(key) => {
                // What a method makes has keys of its own.
                if let Some(known) = way {
                    let (next, needed) = ways.member(&known, key);
                    way = Some(next);
                    query = Query::all_of([query, needed]);
                }
            }
            Step::AnyElement | Step::Elements(_) => {}
            Step::AnyKey | Step::AnyDepth(..) => way = way.and_then(|_| ways.anywhere()),
            Step::Filter(condition) => {
                query = Query::all_of([query, holds(ways, condition, way.as_ref())?]);
            }
            Step::Method(_) | Step::DateTime(_) => way = None,
        }
    }
    Ok((query, way))
}

/// What has to be there for a condition to be true.
fn holds<W: Ways>(ways: &W, path: &Path, current: Option<&W::Way>) -> Result<Query> {
    pulse::work(5)?;
    if !path.steps.is_empty() {
        return Ok(gives(ways, path, current)?.0);
    }
    let given = |path: &Path| Ok(gives(ways, path, current)?.0);
    Ok(match &path.head {
        Head::And(left, right) => Query::all_of([holds(ways, left, current)?, holds(ways, right, current)?]),
        Head::Or(left, right) => Query::any_of([holds(ways, left, current)?, holds(ways, right, current)?]),
        Head::Not(_) | Head::IsUnknown(_) => Query::All,
        Head::Exists(path) => given(path)?,
        Head::Compare(comparison, left, right) => {
            let (of_left, left_way) = gives(ways, left, current)?;
            let (of_right, right_way) = gives(ways, right, current)?;
            let equal = |way: Option<W::Way>, other: &Path| match (comparison, way, scalar(other)) {
                (Comparison::Equal, Some(way), Some(value)) => ways.value(&way, value),
                _ => Query::All,
            };
            let (left_is, right_is) = (equal(left_way, right), equal(right_way, left));
            Query::all_of([of_left, of_right, left_is, right_is])
        }
        Head::StartsWith(path, _) | Head::LikeRegex(path, ..) => given(path)?,
        _ => given(path)?,
    })
}

/// The scalar that a path is.
fn scalar(path: &Path) -> Option<Scalar<'_>> {
    if !path.steps.is_empty() {
        return None;
    }
    Some(match &path.head {
        Head::Null => Scalar::Null,
        Head::Bool(value) => Scalar::Bool(*value),
        Head::Number(value) => Scalar::Number(value.clone()),
        Head::String(value) => Scalar::String(value),
        _ => return None,
    })
}

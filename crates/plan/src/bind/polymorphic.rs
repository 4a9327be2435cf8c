//! What `anyelement`, `anycompatible` and their kin stand for in a call.
//!
//! There are two families. Of the first (`anyelement`, `anyarray`, `anyrange`, …) all arguments
//! agree on one type, exactly. Of the second (`anycompatible…`) they become the type that all
//! convert to, as in UNION; the bounds of ranges do not convert. An argument of a type yet unknown
//! tells nothing.

use colibri_types::{Error, Result, SqlState, Type, resolve};

/// What one family stands for.
#[derive(Debug, Clone, Copy, Default)]
struct Family {
    element: Option<Type>,
    /// An array that is no array of `element` by its type, as the vectors of the catalogue are.
    array: Option<Type>,
    range: Option<Type>,
    multirange: Option<Type>,
}

/// What the polymorphic types of a declaration stand for in a call.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meaning {
    exact: Family,
    common: Family,
    /// An argument of the second family is there.
    has_common: bool,
}

/// Why arguments do not fit a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfit {
    /// Two arguments of one family are of different types, or one is of another kind.
    Different,
    /// No argument tells what the types stand for.
    Unknown,
}

impl Misfit {
    /// As a call has it that means no other function.
    pub(super) fn error(self, otherwise: impl FnOnce() -> Error) -> Error {
        match self {
            Self::Different => otherwise(),
            Self::Unknown => {
                let message = "could not determine polymorphic type because input has type unknown";
                Error::new(SqlState::TYPE_MISMATCH, message)
            }
        }
    }
}

/// One more type where all have to be the same.
fn agree(known: &mut Option<Type>, ty: Type) -> std::result::Result<(), Misfit> {
    match *known {
        Some(known) if known != ty => Err(Misfit::Different),
        _ => {
            *known = Some(ty);
            Ok(())
        }
    }
}

impl Meaning {
    /// What the types of a declaration stand for, each with that of the argument there.
    pub(super) fn of(args: &[(Type, Type)]) -> std::result::Result<Self, Misfit> {
        let mut meaning = Self::default();
        let mut elements = Vec::new();
        let mut wants_exact = false;
        for &(declared, given) in args {
            if !declared.is_polymorphic() {
                continue;
            }
            let family = match is_common(declared) {
                true => &mut meaning.common,
                false => &mut meaning.exact,
            };
            meaning.has_common |= is_common(declared);
            wants_exact |= !is_common(declared);
            if given == Type::Unknown {
                continue;
            }
            let element = match declared {
                Type::AnyElement | Type::AnyCompatible => given,
                Type::AnyNonArray | Type::AnyCompatibleNonArray if given.element().is_none() => given,
                Type::AnyEnum if given.is_enum() => given,
                Type::AnyArray | Type::AnyCompatibleArray => {
                    let element = given.element().ok_or(Misfit::Different)?;
                    if !is_common(declared) {
                        agree(&mut family.array, given)?;
                    }
                    element
                }
                Type::AnyRange | Type::AnyCompatibleRange if given.is_range() => {
                    agree(&mut family.range, given)?;
                    given.bounds().ok_or(Misfit::Different)?
                }
                Type::AnyMultirange | Type::AnyCompatibleMultirange if given.is_multirange() => {
                    agree(&mut family.multirange, given)?;
                    given.bounds().ok_or(Misfit::Different)?
                }
                _ => return Err(Misfit::Different),
            };
            if is_common(declared) {
                elements.push(element);
            } else {
                agree(&mut family.element, element)?;
            }
        }
        if wants_exact && meaning.exact.element.is_none() {
            return Err(Misfit::Unknown);
        }
        if meaning.has_common {
            meaning.common.element = Some(resolve::common_type(&elements).ok_or(Misfit::Different)?);
        }
        for family in [&mut meaning.exact, &mut meaning.common] {
            family.close()?;
        }
        Ok(meaning)
    }

    /// The type that a declared one stands for; itself, if it is none of these or nothing tells.
    pub(super) fn actual(&self, declared: Type) -> Type {
        let family = if is_common(declared) { &self.common } else { &self.exact };
        let found = match declared {
            Type::AnyElement
            | Type::AnyNonArray
            | Type::AnyEnum
            | Type::AnyCompatible
            | Type::AnyCompatibleNonArray => family.element,
            Type::AnyArray | Type::AnyCompatibleArray => {
                family.array.or_else(|| family.element.map(|element| element.array().unwrap_or(element)))
            }
            Type::AnyRange | Type::AnyCompatibleRange => family.range,
            Type::AnyMultirange | Type::AnyCompatibleMultirange => family.multirange,
            _ => None,
        };
        found.unwrap_or(declared)
    }

    /// Whether the argument that would tell what a type stands for is of an open type itself.
    fn is_open(&self, declared: Type) -> bool {
        let family = if is_common(declared) { &self.common } else { &self.exact };
        declared.is_polymorphic() && family.element.is_some_and(|element| element.is_polymorphic())
    }

    /// The same for what a function gives.
    ///
    /// # Errors
    /// 42804 if it is a range of which no argument tells.
    pub(super) fn result(&self, declared: Type) -> Result<Type> {
        match self.actual(declared) {
            // CREATE AGGREGATE resolves its functions with open types of its own. The result stays
            // open then.
            open if self.is_open(open) => Ok(open),
            open if open.is_polymorphic() => {
                let message = format!("could not determine polymorphic type {open} because input has type unknown");
                Err(Error::new(SqlState::TYPE_MISMATCH, message))
            }
            known => Ok(known),
        }
    }
}

impl Family {
    /// Ranges and multiranges tell each other, and agree with the element.
    fn close(&mut self) -> std::result::Result<(), Misfit> {
        if let Some(multirange) = self.multirange {
            agree(&mut self.range, multirange.range_within().ok_or(Misfit::Different)?)?;
        }
        if let Some(range) = self.range {
            self.multirange = range.multirange();
            agree(&mut self.element, range.bounds().ok_or(Misfit::Different)?)?;
        }
        Ok(())
    }
}

fn is_common(declared: Type) -> bool {
    matches!(
        declared,
        Type::AnyCompatible
            | Type::AnyCompatibleArray
            | Type::AnyCompatibleNonArray
            | Type::AnyCompatibleRange
            | Type::AnyCompatibleMultirange
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_agree_each_in_its_own_way() {
        let exact = |args: &[(Type, Type)]| Meaning::of(args);
        let ints = Type::Int4.array_of();
        let meaning = exact(&[(Type::AnyElement, Type::Int4), (Type::AnyArray, ints)]).unwrap();
        assert_eq!((meaning.actual(Type::AnyArray), meaning.actual(Type::AnyEnum)), (ints, Type::Int4));
        let differ = exact(&[(Type::AnyElement, Type::Int8), (Type::AnyArray, ints)]);
        assert_eq!(differ.unwrap_err(), Misfit::Different);
        let open = exact(&[(Type::AnyElement, Type::Unknown)]);
        assert_eq!(open.unwrap_err(), Misfit::Unknown);
        let range = exact(&[(Type::AnyRange, Type::Int4Range), (Type::AnyElement, Type::Unknown)]).unwrap();
        assert_eq!(range.actual(Type::AnyElement), Type::Int4);
        assert_eq!(range.actual(Type::AnyMultirange), Type::Int4Multirange);
        let common = [(Type::AnyCompatible, Type::Int4), (Type::AnyCompatibleArray, Type::Numeric.array_of())];
        let meaning = exact(&common).unwrap();
        assert_eq!(meaning.actual(Type::AnyCompatible), Type::Numeric);
        assert_eq!(exact(&[(Type::AnyCompatible, Type::Unknown)]).unwrap().actual(Type::AnyCompatible), Type::Text);
        let bounds = [(Type::AnyCompatibleRange, Type::Int4Range), (Type::AnyCompatible, Type::Numeric)];
        assert_eq!(exact(&bounds).unwrap_err(), Misfit::Different);
        assert!(exact(&[(Type::AnyElement, Type::Int4)]).unwrap().result(Type::AnyRange).is_err());
    }
}

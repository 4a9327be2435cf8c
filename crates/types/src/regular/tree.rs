//! The syntax tree of a regular expression.
//!
//! It has two layers. An `Ast` says which texts match, and becomes an automaton. A `Sub` says how a
//! match is divided among groups, and exists only where that matters: where there are groups,
//! back-references, or parts that disagree about whether they prefer a longer match or a shorter
//! one. Each `Sub` has the `Ast` of what it matches.

use std::rc::Rc;

use super::sets::CharSet;

/// How often the last repetition of a bound without an end may come.
pub(super) const NO_BOUND: u32 = u32::MAX;

/// A condition on a place between characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// The text's beginning.
    Begin,
    /// The text's end.
    End,
    /// The text's beginning, or behind a line break.
    LineBegin,
    /// The text's end, or before a line break.
    LineEnd,
    WordBegin,
    WordEnd,
    WordEdge,
    NoWordEdge,
}

/// Which texts match.
#[derive(Debug)]
pub(super) enum Ast {
    Empty,
    Set(Rc<CharSet>),
    Place(Place),
    /// Whether a match of the inner expression begins (or, behind, ends) here.
    Look {
        behind: bool,
        negative: bool,
        inner: Rc<Ast>,
    },
    Concat(Vec<Rc<Ast>>),
    Alt(Vec<Rc<Ast>>),
    Repeat {
        inner: Rc<Ast>,
        min: u32,
        max: u32,
    },
}

impl Ast {
    /// One after the other.
    pub(super) fn concat(left: &Rc<Self>, right: &Rc<Self>) -> Rc<Self> {
        match (&**left, &**right) {
            (Self::Empty, _) => right.clone(),
            (_, Self::Empty) => left.clone(),
            _ => Rc::new(Self::Concat(vec![left.clone(), right.clone()])),
        }
    }

    /// A number of times.
    pub(super) fn repeat(inner: &Rc<Self>, min: u32, max: u32) -> Rc<Self> {
        match (min, max) {
            (1, 1) => inner.clone(),
            (_, 0) => Rc::new(Self::Empty),
            _ => Rc::new(Self::Repeat { inner: inner.clone(), min, max }),
        }
    }

    /// Without conditions on places: what a back-reference to it may match at most.
    pub(super) fn without_conditions(this: &Rc<Self>) -> Rc<Self> {
        match &**this {
            Self::Empty | Self::Set(_) => this.clone(),
            Self::Place(_) | Self::Look { .. } => Rc::new(Self::Empty),
            Self::Concat(parts) => Rc::new(Self::Concat(parts.iter().map(Self::without_conditions).collect())),
            Self::Alt(parts) => Rc::new(Self::Alt(parts.iter().map(Self::without_conditions).collect())),
            Self::Repeat { inner, min, max } => {
                Rc::new(Self::Repeat { inner: Self::without_conditions(inner), min: *min, max: *max })
            }
        }
    }
}

/// What is known of a part: bits, of which the first two are its preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traits(u8);

impl Traits {
    pub(super) const NONE: Self = Self(0);
    /// It prefers a longer match.
    pub(super) const LONGER: Self = Self(1);
    /// It prefers a shorter match.
    pub(super) const SHORTER: Self = Self(2);
    /// Parts of it disagree about that.
    pub(super) const MIXED: Self = Self(4);
    /// It has groups.
    pub(super) const GROUPS: Self = Self(8);
    /// It has back-references.
    pub(super) const BACK: Self = Self(16);
    const PREFERENCE: u8 = 3;

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    #[must_use]
    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub(super) fn preference(self) -> Self {
        Self(self.0 & Self::PREFERENCE)
    }

    /// What remains of it in what it is a part of.
    #[must_use]
    pub(super) fn upward(self) -> Self {
        let mixed = if self.0 & Self::PREFERENCE == Self::PREFERENCE { Self::MIXED.0 } else { 0 };
        Self(self.0 & !Self::PREFERENCE | mixed)
    }

    /// Of two parts one after the other: the first one that prefers something decides.
    #[must_use]
    pub(super) fn combine(self, later: Self) -> Self {
        let preference = if self.preference() == Self::NONE { later.preference() } else { self.preference() };
        self.with(later).upward().with(preference)
    }

    /// Those of its bits that are among others.
    #[must_use]
    pub(super) fn only(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Whether a match has to be divided among its parts.
    pub(super) fn is_divided(self) -> bool {
        self.has(Self(Self::MIXED.0 | Self::GROUPS.0 | Self::BACK.0))
    }
}

/// How a match is divided.
#[derive(Debug)]
pub(super) enum Op {
    /// Not at all.
    Leaf,
    Concat(Box<[Sub; 2]>),
    Alt(Vec<Sub>),
    Repeat {
        inner: Box<Sub>,
        min: u32,
        max: u32,
    },
    /// What a group matched, a number of times.
    Back {
        group: usize,
        min: u32,
        max: u32,
    },
    /// A group that is nothing but another group.
    Group(Box<Sub>),
}

/// A part of a pattern.
#[derive(Debug)]
pub(super) struct Sub {
    pub op: Op,
    pub traits: Traits,
    /// The group that it is; 0 is none.
    pub group: usize,
    pub ast: Rc<Ast>,
    /// Its number among the parts of a pattern.
    pub id: usize,
}

impl Sub {
    pub(super) fn leaf(traits: Traits, ast: Rc<Ast>) -> Self {
        Self { op: Op::Leaf, traits, group: 0, ast, id: 0 }
    }

    pub(super) fn concat(left: Self, right: Self, traits: Traits) -> Self {
        let ast = Ast::concat(&left.ast, &right.ast);
        Self { op: Op::Concat(Box::new([left, right])), traits, group: 0, ast, id: 0 }
    }

    /// Whether it is a part that matches only nothing and asks for nothing.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self.op, Op::Leaf) && self.group == 0 && self.traits == Traits::NONE && matches!(*self.ast, Ast::Empty)
    }
}

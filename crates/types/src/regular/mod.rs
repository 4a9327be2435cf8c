//! PostgreSQL's regular expressions: the three flavours, with groups, back-references and
//! conditions.
//!
//! A match is the one that begins first. Among those, it is the longest or the shortest, as the
//! whole expression prefers: a quantified atom prefers as its quantifier says, a concatenation as
//! its first part that prefers anything, an alternation always a longer match. Automata find its
//! beginning and its end in time linear in the text. Then the match is divided among the parts of
//! the pattern, from the left, each as long or as short as it prefers while the rest still matches
//! (`divide`), which gives the groups.
//!
//! Only back-references need trying. `FUEL` bounds the work of one search, so that no pattern holds
//! a thread for long.

mod automaton;
mod classes;
mod divide;
mod lexer;
mod parse;
mod required;
mod sets;
mod tree;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use automaton::{Automaton, LOOKS_MAX, View};
use classes::{Classes, Subject};
use lexer::Fault;
use tree::{Ast, Op, Sub, Traits};

pub(crate) use required::{Required, required};

use crate::error::{Error, Result, SqlState};
use crate::pieces::{self, Pace};
use crate::pulse;

/// The flags of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Flags {
    /// Extended or advanced, and not basic.
    pub extended: bool,
    /// Escapes, conditions and short quantifiers are there.
    pub advanced: bool,
    /// The pattern stands for itself.
    pub quote: bool,
    pub ignore_case: bool,
    /// Blanks and comments are skipped.
    pub expanded: bool,
    /// `.` and `[^…]` do not match a line break.
    pub newline_stops: bool,
    /// `^` and `$` match at line breaks.
    pub newline_anchors: bool,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            extended: true,
            advanced: true,
            quote: false,
            ignore_case: false,
            expanded: false,
            newline_stops: false,
            newline_anchors: false,
        }
    }
}

impl Flags {
    /// Sets what a letter says.
    pub(crate) fn set(&mut self, letter: char) -> std::result::Result<(), ()> {
        match letter {
            'b' => (self.extended, self.advanced, self.quote) = (false, false, false),
            'e' => (self.extended, self.advanced, self.quote) = (true, false, false),
            'q' => (self.extended, self.advanced, self.quote) = (false, false, true),
            'c' => self.ignore_case = false,
            'i' => self.ignore_case = true,
            'm' | 'n' => (self.newline_stops, self.newline_anchors) = (true, true),
            'p' => (self.newline_stops, self.newline_anchors) = (true, false),
            'w' => (self.newline_stops, self.newline_anchors) = (false, true),
            's' => (self.newline_stops, self.newline_anchors) = (false, false),
            't' => self.expanded = false,
            'x' => self.expanded = true,
            _ => return Err(()),
        }
        Ok(())
    }

    /// Makes it a literal one, for which blanks and line breaks are nothing special.
    fn make_literal(&mut self) {
        *self = Self { ignore_case: self.ignore_case, quote: true, extended: false, advanced: false, ..*self };
        (self.expanded, self.newline_stops, self.newline_anchors) = (false, false, false);
    }
}

/// Characters that are read between two looks whether others should run.
const STEPS_AT_ONCE: usize = 1_024;

/// How many characters one search may read, all attempts together.
const FUEL: usize = 1 << 30;

/// `54000`
#[cold]
fn out_of_fuel() -> Error {
    Error::new(SqlState::PROGRAM_LIMIT, "regular expression takes too many steps")
}

fn report(fault: Fault) -> Error {
    Error::new(SqlState::BAD_REGULAR_EXPRESSION, format!("invalid regular expression: {}", fault.message()))
}

/// The automata of a part: forwards and backwards.
type Pair = [Option<Automaton>; 2];

/// A condition of the kind `(?=…)`.
#[derive(Debug)]
struct Look {
    behind: bool,
    automaton: RefCell<Automaton>,
}

/// A pattern, compiled.
#[derive(Debug)]
pub(crate) struct Regular {
    root: Sub,
    groups: usize,
    ignore_case: bool,
    classes: Classes,
    looks: Vec<Look>,
    look_numbers: HashMap<*const Ast, usize>,
    /// Finds where the first match that ends, ends.
    search: RefCell<Automaton>,
    /// Finds where matches can begin.
    begins: RefCell<Option<Automaton>>,
    parts: RefCell<HashMap<usize, Pair>>,
}

/// The part of a text that something matched, in characters.
pub(crate) type Span = (usize, usize);

fn collect_looks(ast: &Rc<Ast>, out: &mut Vec<(bool, Rc<Ast>)>) {
    match &**ast {
        Ast::Empty | Ast::Set(_) | Ast::Place(_) => {}
        Ast::Look { behind, inner, .. } => {
            collect_looks(inner, out);
            out.push((*behind, inner.clone()));
        }
        Ast::Concat(parts) | Ast::Alt(parts) => parts.iter().for_each(|part| collect_looks(part, out)),
        Ast::Repeat { inner, .. } => collect_looks(inner, out),
    }
}

impl Regular {
    /// Reads and compiles a pattern.
    pub(crate) fn new(pattern: &str, flags: Flags) -> Result<Self> {
        let mut chars = Vec::with_capacity(pattern.len());
        for piece in pieces::of_text(pattern, Pace::Computed) {
            chars.extend(piece?.chars());
        }
        let parsed = parse::parse(chars, flags).map_err(report)?;
        let root = parsed.root;
        let mut inner = Vec::new();
        collect_looks(&root.ast, &mut inner);
        if inner.len() > LOOKS_MAX {
            return Err(report(Fault::TooBig));
        }
        let classes = Classes::new(std::slice::from_ref(&root.ast));
        let mut looks = Vec::new();
        let mut look_numbers = HashMap::new();
        for (behind, ast) in inner {
            // Whether a match begins here is seen from its end, and the other way round.
            let automaton = Automaton::new(&ast, !behind, true, &classes, &look_numbers).map_err(report)?;
            look_numbers.insert(Rc::as_ptr(&ast), looks.len());
            looks.push(Look { behind, automaton: RefCell::new(automaton) });
        }
        let search = Automaton::new(&root.ast, false, true, &classes, &look_numbers).map_err(report)?;
        Ok(Self {
            groups: parsed.groups,
            ignore_case: parsed.flags.ignore_case,
            search: RefCell::new(search),
            begins: RefCell::new(None),
            parts: RefCell::default(),
            root,
            classes,
            looks,
            look_numbers,
        })
    }

    /// How many groups it has.
    pub(crate) fn groups(&self) -> usize {
        self.groups
    }

    /// Prepares for searches in a text.
    pub(crate) fn search<'a>(&'a self, text: &'a str) -> Result<Search<'a>> {
        let subject = Subject::new(text, &self.classes)?;
        let mut looks = vec![0u64; if self.looks.is_empty() { 0 } else { subject.len() + 1 }];
        for (number, look) in self.looks.iter().enumerate() {
            let mut held = Vec::new();
            let view = View { text: &subject.classes, classes: &self.classes, looks: &looks };
            let (from, to) = if look.behind { (0, subject.len()) } else { (subject.len(), 0) };
            look.automaton.borrow_mut().run(&view, from, to, |at| {
                held.push(at);
                false
            });
            held.into_iter().for_each(|at| looks[at] |= 1 << number);
        }
        Ok(Search { pattern: self, subject, looks, fuel: FUEL, begins: None })
    }
}

/// Searches in one text.
pub(crate) struct Search<'a> {
    pattern: &'a Regular,
    subject: Subject<'a>,
    looks: Vec<u64>,
    fuel: usize,
    /// Where matches can begin, once that was needed.
    begins: Option<Vec<bool>>,
}

impl<'a> Search<'a> {
    /// How many characters the text has.
    pub(crate) fn len(&self) -> usize {
        self.subject.len()
    }

    /// A part of the text.
    pub(crate) fn slice(&self, (from, to): Span) -> &'a str {
        self.subject.slice(from, to)
    }

    fn burn(&mut self, count: usize) -> Result<()> {
        match count < STEPS_AT_ONCE {
            true => pulse::work(count + 1)?,
            false => pulse::check()?,
        }
        self.fuel = self.fuel.checked_sub(count + 1).ok_or_else(out_of_fuel)?;
        Ok(())
    }

    fn view(&self) -> View<'_> {
        View { text: &self.subject.classes, classes: &self.pattern.classes, looks: &self.looks }
    }

    /// Calls `found` with the places at which a part's matches from `from` end (backwards: begin),
    /// as far as `to`.
    fn run(
        &mut self,
        sub: &Sub,
        backwards: bool,
        from: usize,
        to: usize,
        found: impl FnMut(usize) -> bool,
    ) -> Result<()> {
        let pattern = self.pattern;
        let mut parts = pattern.parts.borrow_mut();
        let slot = &mut parts.entry(sub.id).or_default()[usize::from(backwards)];
        if slot.is_none() {
            let made = Automaton::new(&sub.ast, backwards, false, &pattern.classes, &pattern.look_numbers);
            *slot = Some(made.map_err(report)?);
        }
        let count = match slot {
            Some(automaton) => automaton.run(&self.view(), from, to, found),
            None => 0,
        };
        drop(parts);
        self.burn(count)
    }

    /// Whether anything matches.
    pub(crate) fn is_match(&mut self) -> Result<bool> {
        if self.pattern.root.traits.has(Traits::BACK) {
            return Ok(self.find(0)?.is_some());
        }
        Ok(self.first_end(0)?.is_some())
    }

    fn first_end(&mut self, from: usize) -> Result<Option<usize>> {
        let mut end = None;
        let count = self.pattern.search.borrow_mut().run(&self.view(), from, self.subject.len(), |at| {
            end = Some(at);
            true
        });
        self.burn(count)?;
        Ok(end)
    }

    /// The first match from a place on: all of it, then its groups.
    pub(crate) fn find(&mut self, from: usize) -> Result<Option<Vec<Option<Span>>>> {
        let root = &self.pattern.root;
        let has_back = root.traits.has(Traits::BACK);
        let Some(close) = self.first_end(from)? else { return Ok(None) };
        // A match with back-references may begin later than the first that would do without them.
        let last = if has_back { self.subject.len() } else { close };
        let budget = self.fuel.saturating_sub(4 * self.subject.len());
        for begin in from..=last {
            if self.fuel < budget && self.begins.is_none() {
                self.begins = Some(self.all_begins()?);
            }
            if self.begins.as_ref().is_some_and(|begins| !begins[begin]) {
                continue;
            }
            if let Some(found) = if has_back { self.try_all(begin)? } else { self.try_at(begin)? } {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Where matches can begin.
    fn all_begins(&mut self) -> Result<Vec<bool>> {
        let pattern = self.pattern;
        let mut begins = vec![false; self.subject.len() + 1];
        let mut automaton = pattern.begins.borrow_mut();
        if automaton.is_none() {
            let made = Automaton::new(&pattern.root.ast, true, true, &pattern.classes, &pattern.look_numbers);
            *automaton = Some(made.map_err(report)?);
        }
        if let Some(automaton) = &mut *automaton {
            automaton.run(&self.view(), self.subject.len(), 0, |at| {
                begins[at] = true;
                false
            });
        }
        pulse::check()?;
        Ok(begins)
    }

    fn groups(&self) -> Vec<Option<Span>> {
        vec![None; self.pattern.groups + 1]
    }

    fn try_at(&mut self, begin: usize) -> Result<Option<Vec<Option<Span>>>> {
        let root = &self.pattern.root;
        let shortest = root.traits.has(Traits::SHORTER);
        let mut end = None;
        self.run(root, false, begin, self.subject.len(), |at| {
            end = Some(at);
            shortest
        })?;
        let Some(end) = end else { return Ok(None) };
        let mut groups = self.groups();
        if self.pattern.groups > 0 {
            self.divide(root, begin, end, &mut groups)?;
        }
        groups[0] = Some((begin, end));
        Ok(Some(groups))
    }

    /// Tries all ends, the preferred ones first, until one fits the back-references.
    fn try_all(&mut self, begin: usize) -> Result<Option<Vec<Option<Span>>>> {
        let root = &self.pattern.root;
        let mut ends = Vec::new();
        self.run(root, false, begin, self.subject.len(), |at| {
            ends.push(at);
            false
        })?;
        if !root.traits.has(Traits::SHORTER) {
            ends.reverse();
        }
        for end in ends {
            let mut groups = self.groups();
            if self.divide(root, begin, end, &mut groups)? {
                groups[0] = Some((begin, end));
                return Ok(Some(groups));
            }
        }
        Ok(None)
    }
}

/// Whether a part leads to others.
fn children(sub: &Sub) -> &[Sub] {
    match &sub.op {
        Op::Leaf | Op::Back { .. } => &[],
        Op::Concat(pair) => &**pair,
        Op::Alt(subs) => subs,
        Op::Repeat { inner, .. } | Op::Group(inner) => std::slice::from_ref(inner),
    }
}

#[cfg(test)]
mod tests;

//! The automaton of an expression: which ends (or, backwards, which beginnings) its matches have.
//!
//! An expression becomes a list of instructions. A state is the set of instructions reached, with
//! what stands behind it; states and the steps between them are made when a text first needs them,
//! and kept. So a step is a look into a table as soon as a text repeats itself, and never costs
//! more than the pattern is long: there is no backtracking.
//!
//! Invariant: what is kept is bounded (`CELLS_MAX`); when it is full, it is thrown away and made
//! anew.

use std::collections::HashMap;
use std::rc::Rc;

use super::STEPS_AT_ONCE;
use super::classes::Classes;
use super::lexer::{Fault, Lexed};
use super::tree::{Ast, NO_BOUND, Place};
use crate::pulse;

/// How many instructions an automaton may have.
const INSTRUCTIONS_MAX: usize = 60_000;
/// How many steps are kept.
const CELLS_MAX: usize = 1 << 16;
/// How many instructions the kept states may name.
const NAMED_MAX: usize = 1 << 17;
/// How many conditions of the kind `(?=…)` a pattern may have.
pub(super) const LOOKS_MAX: usize = 64;

#[derive(Debug, Clone)]
enum Instruction {
    /// Takes a character of some classes.
    Take(Rc<Vec<bool>>, u32),
    Both(u32, u32),
    Place(Place, u32),
    /// A condition by its number, and whether it must not hold.
    Look(usize, bool, u32),
    Match,
}

/// What stands beside a place, as far as conditions ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Beside {
    /// Nothing: the text's edge.
    Edge,
    Newline,
    Word,
    Other,
}

impl Beside {
    pub(super) fn of(class: u16, classes: &Classes) -> Self {
        match (classes.is_newline[usize::from(class)], classes.is_word[usize::from(class)]) {
            (true, _) => Self::Newline,
            (_, true) => Self::Word,
            _ => Self::Other,
        }
    }
}

fn holds(place: Place, before: Beside, after: Beside) -> bool {
    let (word_before, word_after) = (before == Beside::Word, after == Beside::Word);
    match place {
        Place::Begin => before == Beside::Edge,
        Place::End => after == Beside::Edge,
        Place::LineBegin => matches!(before, Beside::Edge | Beside::Newline),
        Place::LineEnd => matches!(after, Beside::Edge | Beside::Newline),
        Place::WordBegin => !word_before && word_after,
        Place::WordEnd => word_before && !word_after,
        Place::WordEdge => word_before != word_after,
        Place::NoWordEdge => word_before == word_after,
    }
}

/// Turns expressions into instructions.
struct Builder<'a> {
    out: Vec<Instruction>,
    classes: &'a Classes,
    looks: &'a HashMap<*const Ast, usize>,
    backwards: bool,
    sets: HashMap<*const super::sets::CharSet, Rc<Vec<bool>>>,
}

impl Builder<'_> {
    fn push(&mut self, instruction: Instruction) -> Lexed<u32> {
        if self.out.len() >= INSTRUCTIONS_MAX {
            return Err(Fault::TooBig);
        }
        self.out.push(instruction);
        Ok(self.out.len() as u32 - 1)
    }

    /// The first instruction of an expression, after which it goes on with `next`.
    fn build(&mut self, ast: &Rc<Ast>, next: u32) -> Lexed<u32> {
        match &**ast {
            Ast::Empty => Ok(next),
            Ast::Set(set) => {
                let members =
                    self.sets.entry(Rc::as_ptr(set)).or_insert_with(|| Rc::new(self.classes.members(set))).clone();
                self.push(Instruction::Take(members, next))
            }
            Ast::Place(place) => self.push(Instruction::Place(*place, next)),
            Ast::Look { inner, negative, .. } => {
                let number = self.looks.get(&Rc::as_ptr(inner)).copied().ok_or(Fault::TooBig)?;
                self.push(Instruction::Look(number, *negative, next))
            }
            Ast::Concat(parts) => {
                let mut next = next;
                if self.backwards {
                    for part in parts {
                        next = self.build(part, next)?;
                    }
                } else {
                    for part in parts.iter().rev() {
                        next = self.build(part, next)?;
                    }
                }
                Ok(next)
            }
            Ast::Alt(parts) => {
                let mut all: Option<u32> = None;
                for part in parts.iter().rev() {
                    let begin = self.build(part, next)?;
                    all = Some(match all {
                        Some(rest) => self.push(Instruction::Both(begin, rest))?,
                        None => begin,
                    });
                }
                Ok(all.unwrap_or(next))
            }
            Ast::Repeat { inner, min, max } => {
                let mut begin = next;
                if *max == NO_BOUND {
                    let again = self.push(Instruction::Both(next, next))?;
                    let body = self.build(inner, again)?;
                    self.out[again as usize] = Instruction::Both(body, next);
                    begin = again;
                } else {
                    for _ in *min..*max {
                        let body = self.build(inner, begin)?;
                        begin = self.push(Instruction::Both(body, next))?;
                    }
                }
                for _ in 0..*min {
                    begin = self.build(inner, begin)?;
                }
                Ok(begin)
            }
        }
    }
}

/// A state: what was reached, and what stands behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    reached: Box<[u32]>,
    behind: Beside,
}

/// A step that is kept: the next state and whether a match ends before the step. 0 is a step not
/// yet made.
#[derive(Debug, Clone, Copy, Default)]
struct Step(u32);

impl Step {
    fn new(next: usize, ends: bool) -> Self {
        Self(((next as u32 + 1) << 1) | u32::from(ends))
    }

    fn get(self) -> Option<(usize, bool)> {
        (self.0 != 0).then(|| ((self.0 >> 1) as usize - 1, self.0 & 1 == 1))
    }
}

/// The automaton of an expression in one direction.
#[derive(Debug)]
pub(super) struct Automaton {
    instructions: Vec<Instruction>,
    start: u32,
    backwards: bool,
    /// Whether a match may begin anywhere.
    anywhere: bool,
    states: Vec<State>,
    known: HashMap<State, usize>,
    steps: Vec<Step>,
    /// The same for patterns with conditions of the kind `(?=…)`, by state, class and what holds.
    conditional: HashMap<(usize, usize, u64), Step>,
    named: usize,
    width: usize,
    // Kept for its memory only.
    marked: Vec<u64>,
    round: u64,
    stack: Vec<u32>,
}

/// What a text offers to an automaton.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub text: &'a [u16],
    pub classes: &'a Classes,
    /// Which conditions hold at each place; empty if the pattern has none.
    pub looks: &'a [u64],
}

/// The state in which there is nothing left to match.
const DEAD: usize = 0;

impl Automaton {
    pub(super) fn new(
        ast: &Rc<Ast>,
        backwards: bool,
        anywhere: bool,
        classes: &Classes,
        looks: &HashMap<*const Ast, usize>,
    ) -> Lexed<Self> {
        let mut builder = Builder { out: vec![Instruction::Match], classes, looks, backwards, sets: HashMap::new() };
        let start = builder.build(ast, 0)?;
        let instructions = builder.out;
        let mut out = Self {
            start,
            backwards,
            anywhere,
            states: Vec::new(),
            known: HashMap::new(),
            steps: Vec::new(),
            conditional: HashMap::new(),
            named: 0,
            width: classes.count() + 1,
            marked: vec![0; instructions.len()],
            round: 0,
            stack: Vec::new(),
            instructions,
        };
        out.forget();
        Ok(out)
    }

    fn forget(&mut self) {
        self.states.clear();
        self.known.clear();
        self.steps.clear();
        self.conditional.clear();
        self.named = 0;
        self.intern(State { reached: Box::new([]), behind: Beside::Other });
    }

    fn intern(&mut self, mut state: State) -> usize {
        if state.reached.is_empty() && !self.anywhere {
            // Nothing can follow, whatever stands behind.
            state.behind = Beside::Other;
        }
        if let Some(&known) = self.known.get(&state) {
            return known;
        }
        self.named += state.reached.len() + 8;
        self.states.push(state.clone());
        self.steps.resize(self.states.len() * self.width, Step::default());
        self.known.insert(state, self.states.len() - 1);
        self.states.len() - 1
    }

    /// Makes the step from a state over a class (the last one is the text's edge).
    #[cold]
    fn make(&mut self, from: usize, class: usize, view: &View<'_>, looks: u64) -> (State, bool) {
        let ahead = if class + 1 == self.width { Beside::Edge } else { Beside::of(class as u16, view.classes) };
        let behind = self.states[from].behind;
        let (before, after) = if self.backwards { (ahead, behind) } else { (behind, ahead) };
        self.round += 1;
        let mut reached = Vec::new();
        let mut ends = false;
        self.stack.clear();
        self.stack.extend_from_slice(&self.states[from].reached);
        if self.anywhere {
            self.stack.push(self.start);
        }
        while let Some(at) = self.stack.pop() {
            pulse::note(1);
            if std::mem::replace(&mut self.marked[at as usize], self.round) == self.round {
                continue;
            }
            match &self.instructions[at as usize] {
                Instruction::Match => ends = true,
                Instruction::Both(a, b) => self.stack.extend([*a, *b]),
                Instruction::Place(place, next) => {
                    if holds(*place, before, after) {
                        self.stack.push(*next);
                    }
                }
                Instruction::Look(number, negative, next) => {
                    if (looks >> number & 1 == 1) != *negative {
                        self.stack.push(*next);
                    }
                }
                Instruction::Take(members, next) => {
                    if class + 1 < self.width && members[class] {
                        reached.push(*next);
                    }
                }
            }
        }
        reached.sort_unstable();
        reached.dedup();
        (State { reached: reached.into(), behind: ahead }, ends)
    }

    /// The step from a state over a class: the next state, and whether a match ends before it.
    #[inline]
    fn step(&mut self, from: usize, class: usize, view: &View<'_>, at: usize) -> (usize, bool) {
        let looks = view.looks.get(at).copied().unwrap_or(0);
        let kept = if view.looks.is_empty() {
            self.steps[from * self.width + class].get()
        } else {
            self.conditional.get(&(from, class, looks)).and_then(|step| step.get())
        };
        if let Some(kept) = kept {
            return kept;
        }
        let (state, ends) = self.make(from, class, view, looks);
        if self.steps.len() + self.conditional.len() > CELLS_MAX.max(4 * self.width) || self.named > NAMED_MAX {
            self.forget();
            return (self.intern(state), ends);
        }
        let next = self.intern(state);
        let step = Step::new(next, ends);
        if view.looks.is_empty() {
            self.steps[from * self.width + class] = step;
        } else {
            self.conditional.insert((from, class, looks), step);
        }
        (next, ends)
    }

    /// Runs from a place to another, and calls `found` at each place at which a match ends (of one
    /// that began at `from`, or at any place passed) until that gives true. Returns how many
    /// characters were read.
    pub(super) fn run(
        &mut self,
        view: &View<'_>,
        from: usize,
        to: usize,
        mut found: impl FnMut(usize) -> bool,
    ) -> usize {
        let edge = self.width - 1;
        let length = view.text.len();
        let behind = match (self.backwards, from) {
            (false, 0) => Beside::Edge,
            (true, from) if from == length => Beside::Edge,
            (false, from) => Beside::of(view.text[from - 1], view.classes),
            (true, from) => Beside::of(view.text[from], view.classes),
        };
        let reached: Box<[u32]> = if self.anywhere { Box::new([]) } else { Box::new([self.start]) };
        let mut state = self.intern(State { reached, behind });
        let mut at = from;
        let mut count = 0;
        loop {
            let class = match (self.backwards, at) {
                (false, at) if at < length => usize::from(view.text[at]),
                (true, at) if at > 0 => usize::from(view.text[at - 1]),
                _ => edge,
            };
            let (next, ends) = self.step(state, class, view, at);
            if ends && found(at) {
                return count;
            }
            if at == to || (next == DEAD && !self.anywhere) {
                return count;
            }
            state = next;
            count += 1;
            // Whoever is cancelled is told behind it.
            if count % STEPS_AT_ONCE == 0 && pulse::note(STEPS_AT_ONCE) {
                return count;
            }
            if self.backwards {
                at -= 1;
            } else {
                at += 1;
            }
        }
    }
}

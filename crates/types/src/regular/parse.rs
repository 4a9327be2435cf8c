//! Reads a regular expression into its tree.

use std::rc::Rc;

use super::Flags;
use super::lexer::{Fault, Lexed, Lexer, Quantifier, Token};
use super::sets::CharSet;
use super::tree::{Ast, Op, Place, Sub, Traits};

/// How many levels parentheses may have.
const DEPTH_MAX: usize = 250;

/// A pattern, read.
pub(super) struct Parsed {
    pub root: Sub,
    pub groups: usize,
    pub flags: Flags,
}

/// Reads a pattern.
pub(super) fn parse(pattern: Vec<char>, flags: Flags) -> Lexed<Parsed> {
    let mut lexer = Lexer::new(pattern, flags)?;
    let token = lexer.next()?;
    let mut parser = Parser { lexer, token, groups: vec![None], depth: 0 };
    let mut root = parser.alternatives(false, false)?;
    number(&mut root, &mut 0);
    Ok(Parsed { root, groups: parser.groups.len() - 1, flags: parser.lexer.flags })
}

fn number(sub: &mut Sub, next: &mut usize) {
    // Concatenations lean to the right, and may be long.
    let mut sub = sub;
    loop {
        sub.id = *next;
        *next += 1;
        match &mut sub.op {
            Op::Leaf | Op::Back { .. } => return,
            Op::Repeat { inner, .. } | Op::Group(inner) => sub = inner,
            Op::Alt(subs) => return subs.iter_mut().for_each(|sub| number(sub, next)),
            Op::Concat(pair) => {
                let [left, right] = &mut **pair;
                number(left, next);
                sub = right;
            }
        }
    }
}

struct Parser {
    lexer: Lexer,
    token: Token,
    /// What each group matches, once it is closed.
    groups: Vec<Option<Rc<Ast>>>,
    depth: usize,
}

/// An atom: plain, a group, or a back-reference.
struct Atom {
    sub: Sub,
    is_group: bool,
    /// A back-reference, not in parentheses.
    is_back: bool,
}

impl Parser {
    fn next(&mut self) -> Lexed<()> {
        self.lexer.groups = self.groups.len() - 1;
        self.token = self.lexer.next()?;
        Ok(())
    }

    fn branch_ends(&self, inside: bool) -> bool {
        match self.token {
            Token::Or | Token::End => true,
            Token::Close => inside,
            _ => false,
        }
    }

    /// Reads branches up to the closing parenthesis, or to the end.
    fn alternatives(&mut self, inside: bool, looking: bool) -> Lexed<Sub> {
        let mut branches = Vec::new();
        let mut traits = Traits::LONGER;
        loop {
            let branch = self.branch(inside, looking)?;
            traits = traits.with(Traits::LONGER.with(branch.traits).upward());
            branches.push(branch);
            if self.token != Token::Or {
                break;
            }
            self.next()?;
        }
        if inside != (self.token == Token::Close) {
            return Err(Fault::Parentheses);
        }
        if branches.len() == 1 {
            return branches.pop().ok_or(Fault::TooBig);
        }
        let ast = Rc::new(Ast::Alt(branches.iter().map(|branch| branch.ast.clone()).collect()));
        let op = if traits.is_divided() { Op::Alt(branches) } else { Op::Leaf };
        Ok(Sub { op, traits, group: 0, ast, id: 0 })
    }

    /// Reads one branch: plain parts run together, the others are divided off.
    fn branch(&mut self, inside: bool, looking: bool) -> Lexed<Sub> {
        let mut plain: Vec<Rc<Ast>> = Vec::new();
        let mut traits = Traits::NONE;
        // What is divided off: the plain part before it, itself, and what its place in the branch
        // has of traits.
        let mut divided: Vec<(Sub, Sub, Traits)> = Vec::new();
        let run = |plain: Vec<Rc<Ast>>, traits| Sub::leaf(traits, joined(plain));
        while !self.branch_ends(inside) {
            let Some(atom) = self.atom(&mut plain, looking)? else { continue };
            let (min, max, preference) = match self.token {
                Token::Quantifier(Quantifier { min, max, longer }) => {
                    self.next()?;
                    let preference = match longer {
                        Some(true) => Traits::LONGER,
                        Some(false) => Traits::SHORTER,
                        None => Traits::NONE,
                    };
                    (min, max, preference)
                }
                _ => (1, 1, Traits::NONE),
            };
            if (min, max) == (0, 0) {
                // Its groups are there, and never match.
                continue;
            }
            let all = traits.with(preference).with(atom.sub.traits);
            if !atom.is_group && !all.upward().is_divided() {
                plain.push(Ast::repeat(&atom.sub.ast, min, max));
                traits = all;
                continue;
            }
            let own = preference.combine(atom.sub.traits);
            let sub = quantified(atom, min, max, preference);
            divided.push((run(std::mem::take(&mut plain), traits), sub, own));
            traits = Traits::NONE;
        }
        let mut rest = run(plain, traits);
        for (before, mut sub, own) in divided.into_iter().rev() {
            let traits = own.with(own.combine(rest.traits));
            rest = if rest.is_nothing() {
                sub.traits = sub.traits.upward().with(traits);
                sub
            } else {
                Sub::concat(sub, rest, traits)
            };
            if !before.is_nothing() {
                let traits = before.traits.with(before.traits.combine(rest.traits));
                rest = Sub::concat(before, rest, traits);
            }
        }
        Ok(rest)
    }

    /// Reads an atom; conditions, which take no quantifier, go to the plain parts.
    fn atom(&mut self, plain: &mut Vec<Rc<Ast>>, looking: bool) -> Lexed<Option<Atom>> {
        let leaf = |set: CharSet| {
            let ast = Rc::new(Ast::Set(Rc::new(set)));
            Ok(Some(Atom { sub: Sub::leaf(Traits::NONE, ast), is_group: false, is_back: false }))
        };
        let flags = self.lexer.flags;
        match std::mem::replace(&mut self.token, Token::End) {
            Token::Plain(c) => {
                self.next()?;
                leaf(self.lexer.cased(CharSet::one(c)))
            }
            Token::Set(set) => {
                self.next()?;
                leaf(set)
            }
            Token::Any => {
                self.next()?;
                let all = CharSet::all();
                leaf(if flags.newline_stops { all.without(u32::from('\n')) } else { all })
            }
            Token::Caret => {
                plain.push(Rc::new(Ast::Place(if flags.newline_anchors { Place::LineBegin } else { Place::Begin })));
                self.next()?;
                Ok(None)
            }
            Token::Dollar => {
                plain.push(Rc::new(Ast::Place(if flags.newline_anchors { Place::LineEnd } else { Place::End })));
                self.next()?;
                Ok(None)
            }
            Token::Place(place) => {
                plain.push(Rc::new(Ast::Place(place)));
                self.next()?;
                Ok(None)
            }
            Token::Look { behind, negative } => {
                self.next()?;
                let inner = self.nested(true)?.ast;
                plain.push(Rc::new(Ast::Look { behind, negative, inner }));
                Ok(None)
            }
            Token::Open { captures } => {
                let captures = captures && !looking;
                let group = self.groups.len();
                if captures {
                    self.groups.push(None);
                }
                self.next()?;
                let mut sub = self.nested(looking)?;
                if captures {
                    sub = grouped(sub, group);
                    self.groups[group] = Some(sub.ast.clone());
                }
                Ok(Some(Atom { sub, is_group: captures, is_back: false }))
            }
            // The extended flavour takes a parenthesis that nothing opens as it is.
            Token::Close if flags.extended && !flags.advanced => {
                self.next()?;
                leaf(self.lexer.cased(CharSet::one(u32::from(')'))))
            }
            Token::Close => Err(Fault::Parentheses),
            Token::Back(group) => {
                let ast = self.groups.get(group).and_then(Option::as_ref).filter(|_| !looking);
                let ast = Ast::without_conditions(ast.ok_or(Fault::Reference)?);
                self.next()?;
                let op = Op::Back { group, min: 1, max: 1 };
                let sub = Sub { op, traits: Traits::BACK, group: 0, ast, id: 0 };
                Ok(Some(Atom { sub, is_group: true, is_back: true }))
            }
            Token::Quantifier(_) => Err(Fault::Repeat),
            Token::Start | Token::End | Token::Or => Err(Fault::TooBig),
        }
    }

    /// Reads what is in parentheses, and the closing one.
    fn nested(&mut self, looking: bool) -> Lexed<Sub> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fault::TooBig);
        }
        let sub = self.alternatives(true, looking)?;
        self.depth -= 1;
        self.next()?;
        Ok(sub)
    }
}

fn joined(mut parts: Vec<Rc<Ast>>) -> Rc<Ast> {
    match parts.len() {
        0 => Rc::new(Ast::Empty),
        1 => parts.swap_remove(0),
        _ => Rc::new(Ast::Concat(parts)),
    }
}

fn grouped(mut sub: Sub, group: usize) -> Sub {
    if sub.group == 0 {
        sub.group = group;
        sub.traits = sub.traits.with(Traits::GROUPS);
        return sub;
    }
    let (traits, ast) = (sub.traits.with(Traits::GROUPS), sub.ast.clone());
    Sub { op: Op::Group(Box::new(sub)), traits, group, ast, id: 0 }
}

/// An atom that is divided off, with its quantifier.
fn quantified(atom: Atom, min: u32, max: u32, preference: Traits) -> Sub {
    let (is_back, mut atom) = (atom.is_back, atom.sub);
    let own = preference.combine(atom.traits);
    let inner = Traits::LONGER.with(Traits::SHORTER).with(Traits::MIXED);
    let is_vacuous = (min, max) == (1, 1)
        && (preference == Traits::NONE || !atom.traits.has(inner) || preference == atom.traits.only(inner));
    let ast = Ast::repeat(&atom.ast, min, max);
    // Where a group is not set, a reference to it fails however often it may come, but what is in
    // parentheses (`(?:\1)?`) can be left out.
    if let Op::Back { group, .. } = atom.op
        && is_back
    {
        atom.op = Op::Back { group, min, max };
        atom.traits = atom.traits.with(own);
        atom.ast = ast;
        return atom;
    }
    if is_vacuous {
        return atom;
    }
    if !atom.traits.has(Traits::GROUPS.with(Traits::BACK)) {
        return Sub::leaf(own, ast);
    }
    // Without back-references only the last repetition's groups count.
    if min > 0 && !atom.traits.has(Traits::BACK) {
        let rest = Sub::leaf(own.preference(), Ast::repeat(&atom.ast, min - 1, max.saturating_sub(less_one(max))));
        return Sub::concat(rest, atom, own);
    }
    Sub { op: Op::Repeat { inner: Box::new(atom), min, max }, traits: own, group: 0, ast, id: 0 }
}

/// What to take off a bound so that there is one repetition less: nothing if there is no bound.
fn less_one(max: u32) -> u32 {
    u32::from(max != super::tree::NO_BOUND)
}

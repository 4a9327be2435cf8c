//! `ts_rewrite`: a part of a query replaced by another query.
//!
//! Operands of `&` and of `|` count without their order and their parentheses: they are made lists
//! that are sorted. What stands for a part is not looked at again.
//!
//! Trees are places in one list, each before its parts, so depth takes no stack. What stands for a
//! part is there once, however often it is put in; its nodes are counted before the result is made.

use std::cmp::Ordering;

use super::query::{Node, Operand, Operator, Query, checksum};
use crate::error::{Error, Result, SqlState};
use crate::pulse;

/// Operands and operators of a result; more are an error.
const ITEMS_MAX: usize = 1 << 23;

/// A part of a query.
struct Tree<'q> {
    kind: Kind<'q>,
    /// The right operand comes first, as PostgreSQL has it.
    parts: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind<'q> {
    /// A lexeme, and its checksum as PostgreSQL compares it.
    Lexeme(&'q Operand, i32),
    Not,
    Join(Operator),
}

impl Kind<'_> {
    /// PostgreSQL's order: operators first, those of higher numbers before others.
    fn place(self) -> u8 {
        match self {
            Self::Join(Operator::Phrase(_)) => 0,
            Self::Join(Operator::Or) => 1,
            Self::Join(Operator::And) => 2,
            Self::Not => 3,
            Self::Lexeme(..) => 4,
        }
    }

    fn has_order(self) -> bool {
        matches!(self, Self::Join(Operator::Phrase(_)))
    }
}

/// The trees of the queries. A tree's parts come behind it.
#[derive(Default)]
struct Trees<'q>(Vec<Tree<'q>>);

impl<'q> Trees<'q> {
    fn at(&self, at: u32) -> &Tree<'q> {
        &self.0[at as usize]
    }

    /// Adds a query, with lists of operands if `has_lists`; its root.
    fn add(&mut self, query: &'q Query, has_lists: bool) -> Result<Option<u32>> {
        let first = self.0.len();
        let mut nodes = Vec::from_iter(query.root());
        while let Some(&node) = nodes.get(self.0.len() - first) {
            pulse::work(8)?;
            let mut parts = Vec::new();
            let kind = match query.node(node) {
                Node::Lexeme(operand) => Kind::Lexeme(operand, checksum(operand.lexeme.as_bytes()) as i32),
                Node::Stop => return Err(Error::internal("a word that was taken out is in a query")),
                Node::Not(inner) => {
                    parts.push(*inner);
                    Kind::Not
                }
                Node::Join(operator, left, right) => {
                    let is_list = has_lists && !matches!(operator, Operator::Phrase(_));
                    let mut open = vec![*left, *right];
                    while let Some(at) = open.pop() {
                        match query.node(at) {
                            Node::Join(inner, left, right) if is_list && inner == operator => {
                                open.extend([*left, *right]);
                            }
                            _ => parts.push(at),
                        }
                    }
                    pulse::work(parts.len() * 4)?;
                    Kind::Join(*operator)
                }
            };
            let begin = (first + nodes.len()) as u32;
            nodes.extend_from_slice(&parts);
            let parts = (begin..begin + parts.len() as u32).collect();
            self.0.push(Tree { kind, parts });
        }
        Ok((self.0.len() > first).then_some(first as u32))
    }

    /// PostgreSQL's order, in which distances count last.
    fn compare(&self, a: u32, b: u32) -> Ordering {
        enum Next {
            Trees(u32, u32),
            Is(Ordering),
        }
        let mut next = vec![Next::Trees(a, b)];
        let mut count = 0;
        while let Some(step) = next.pop() {
            count += 1;
            let order = match step {
                Next::Is(order) => order,
                Next::Trees(a, b) => {
                    let (a, b) = (self.at(a), self.at(b));
                    let order = match (a.kind, b.kind) {
                        (Kind::Lexeme(a, a_check), Kind::Lexeme(b, b_check)) => {
                            b_check.cmp(&a_check).then_with(|| a.lexeme.cmp(&b.lexeme))
                        }
                        _ => (a.kind.place().cmp(&b.kind.place())).then_with(|| b.parts.len().cmp(&a.parts.len())),
                    };
                    if order.is_eq() {
                        if let (Kind::Join(Operator::Phrase(a)), Kind::Join(Operator::Phrase(b))) = (a.kind, b.kind) {
                            next.push(Next::Is(b.cmp(&a)));
                        }
                        next.extend(a.parts.iter().zip(&b.parts).rev().map(|(&a, &b)| Next::Trees(a, b)));
                    }
                    order
                }
            };
            if order.is_ne() {
                return order;
            }
        }
        // Who is cancelled finds it out at the next poll that can fail.
        drop(pulse::work(count * 4));
        Ordering::Equal
    }

    fn sort(&mut self, at: u32) {
        if !self.at(at).kind.has_order() && self.at(at).parts.len() > 1 {
            let mut parts = std::mem::take(&mut self.0[at as usize].parts);
            parts.sort_by(|&a, &b| self.compare(a, b));
            self.0[at as usize].parts = parts;
        }
    }

    /// Sorts the trees from one on.
    fn sort_from(&mut self, first: usize) -> Result<()> {
        for at in (first..self.0.len()).rev() {
            self.sort(at as u32);
            pulse::work(4 + self.0[at].parts.len() * 8)?;
        }
        Ok(())
    }

    /// The parts of a list that are left without those of another one; `None` if it has not all of them.
    fn without(&self, list: u32, part: u32) -> Option<Vec<u32>> {
        let mut wanted = self.at(part).parts.iter().peekable();
        let is_left = |tree: &u32| wanted.next_if(|&&wanted| self.compare(*tree, wanted).is_eq()).is_none();
        let left: Vec<u32> = self.at(list).parts.iter().copied().filter(is_left).collect();
        (left.len() + self.at(part).parts.len() == self.at(list).parts.len()).then_some(left)
    }

    /// The root of what is left of a tree where `part` is replaced.
    fn replaced(&mut self, root: u32, part: u32, by: &Replacement) -> Result<Option<u32>> {
        enum Task {
            Visit(u32),
            /// The parts that are left of a tree are those that were done since.
            Leave(u32, usize),
        }
        let mut tasks = vec![Task::Visit(root)];
        let mut done = Vec::new();
        while let Some(task) = tasks.pop() {
            pulse::work(8)?;
            match task {
                Task::Visit(at) if by.is(at) => done.push(at),
                Task::Visit(at) => {
                    let (count, part_count) = (self.at(at).parts.len(), self.at(part).parts.len());
                    if self.at(at).kind.place() == self.at(part).kind.place() {
                        if count == part_count {
                            if self.compare(at, part).is_eq() {
                                done.extend(by.as_written);
                                continue;
                            }
                        } else if count > part_count
                            && let Some(mut left) = self.without(at, part)
                        {
                            left.extend(by.sorted);
                            self.0[at as usize].parts = left;
                            self.sort(at);
                        }
                    }
                    if matches!(self.at(at).kind, Kind::Lexeme(..)) {
                        done.push(at);
                        continue;
                    }
                    tasks.push(Task::Leave(at, done.len()));
                    tasks.extend(self.at(at).parts.iter().rev().map(|&part| Task::Visit(part)));
                }
                Task::Leave(at, before) => match done.len() - before {
                    0 => {}
                    1 if self.at(at).kind != Kind::Not => {}
                    _ => {
                        self.0[at as usize].parts = done.split_off(before);
                        done.push(at);
                    }
                },
            }
        }
        Ok(done.pop())
    }

    /// Operands and operators of a tree.
    fn count(&self, root: u32, by: &Replacement) -> Result<usize> {
        let (mut count, mut open) = (0, vec![root]);
        while let Some(at) = open.pop() {
            pulse::work(4)?;
            count += match self.at(at) {
                _ if by.is(at) => by.count,
                Tree { kind: Kind::Join(_), parts } => parts.len() - 1,
                _ => 1,
            };
            if !by.is(at) {
                open.extend(&self.at(at).parts);
            }
        }
        Ok(count)
    }

    /// The tree as a query: left operands, right operands, operators.
    fn query(&self, root: u32) -> Result<Query> {
        enum Task {
            Visit(u32),
            Join(Kind<'static>, usize),
        }
        let mut query = Query::default();
        let mut tasks = vec![Task::Visit(root)];
        let mut done: Vec<u32> = Vec::new();
        while let Some(task) = tasks.pop() {
            pulse::work(8)?;
            match task {
                Task::Visit(at) => match self.at(at) {
                    Tree { kind: Kind::Lexeme(operand, _), .. } => {
                        done.push(query.push(Node::Lexeme((*operand).clone())));
                    }
                    Tree { kind: Kind::Not, parts } => {
                        tasks.push(Task::Join(Kind::Not, 1));
                        tasks.extend(parts.iter().map(|&part| Task::Visit(part)));
                    }
                    Tree { kind: Kind::Join(operator), parts } => {
                        // PostgreSQL joins the first two, to these the last one, to these the one before it.
                        tasks.push(Task::Join(Kind::Join(*operator), parts.len()));
                        tasks.extend(parts.iter().take(2).chain(parts.iter().skip(2).rev()).map(|&at| Task::Visit(at)));
                    }
                },
                Task::Join(Kind::Join(operator), count) => {
                    let mut right = done.pop();
                    for _ in 1..count {
                        right =
                            done.pop().zip(right).map(|(left, right)| query.push(Node::Join(operator, left, right)));
                    }
                    done.extend(right);
                }
                Task::Join(..) => {
                    if let Some(inner) = done.pop() {
                        done.push(query.push(Node::Not(inner)));
                    }
                }
            }
        }
        Ok(query)
    }
}

/// What stands for a part: as it is written, and, within a list, sorted. An empty query is nothing.
struct Replacement {
    as_written: Option<u32>,
    sorted: Option<u32>,
    /// Its operands and operators.
    count: usize,
}

impl Replacement {
    fn is(&self, at: u32) -> bool {
        self.as_written == Some(at) || self.sorted == Some(at)
    }
}

/// A query in which a part is replaced, or, by an empty query, left out.
///
/// # Errors
/// 54000 if the result has too many operands and operators.
pub fn rewritten(query: &Query, part: &Query, by: &Query) -> Result<Query> {
    let mut trees = Trees::default();
    let (Some(root), Some(part)) = (trees.add(query, true)?, trees.add(part, true)?) else { return Ok(query.clone()) };
    let sorted = trees.add(by, false)?;
    trees.sort_from(0)?;
    let as_written = trees.add(by, false)?;
    let by = Replacement { as_written, sorted, count: by.nodes().len() };
    let Some(root) = trees.replaced(root, part, &by)? else { return Ok(Query::default()) };
    if trees.count(root, &by)? > ITEMS_MAX {
        return Err(Error::new(SqlState("54000"), "tsquery is too large"));
    }
    trees.query(root)
}

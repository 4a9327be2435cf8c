//! `ts_rewrite`: a part of a query replaced by another query.
//!
//! Operands of `&` and of `|` count without their order and their parentheses: they are made lists
//! that are sorted. What stands for a part is not looked at again.

use std::cmp::Ordering;

use super::query::{Node, Operand, Operator, Query, checksum};
use crate::error::{Error, Result, SqlState};
use crate::pulse;

/// Operators inside of each other; more are an error.
const DEPTH_MAX: usize = 500;

/// A part of a query. The right operand comes first, as PostgreSQL has it.
#[derive(Clone)]
struct Tree {
    kind: Kind,
    parts: Vec<Tree>,
    /// Whether it stands for what was replaced.
    is_new: bool,
}

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Lexeme(Operand),
    Not,
    Join(Operator),
}

impl Kind {
    /// PostgreSQL's order: operators first, those of higher numbers before others.
    fn place(&self) -> u8 {
        match self {
            Self::Join(Operator::Phrase(_)) => 0,
            Self::Join(Operator::Or) => 1,
            Self::Join(Operator::And) => 2,
            Self::Not => 3,
            Self::Lexeme(_) => 4,
        }
    }
}

impl Tree {
    fn of(query: &Query) -> Result<Option<Self>> {
        let mut depths: Vec<usize> = Vec::with_capacity(query.nodes().len());
        let mut trees: Vec<Option<Self>> = Vec::with_capacity(query.nodes().len());
        for node in query.nodes() {
            pulse::work(8)?;
            let mut depth = 1;
            let mut part = |at: &u32| {
                depth = depth.max(depths[*at as usize] + 1);
                trees[*at as usize].take()
            };
            let (kind, parts) = match node {
                Node::Lexeme(operand) => (Kind::Lexeme(operand.clone()), Vec::new()),
                Node::Stop => continue,
                Node::Not(inner) => (Kind::Not, Vec::from_iter(part(inner))),
                Node::Join(operator, left, right) => {
                    (Kind::Join(*operator), part(right).into_iter().chain(part(left)).collect())
                }
            };
            // Operands of one operator in a row are one list and no depth.
            let is_flat = |tree: &Self| matches!(kind, Kind::Join(Operator::And | Operator::Or)) && tree.kind == kind;
            let is_list = parts.iter().any(is_flat);
            let parts = parts.into_iter().fold(Vec::new(), |mut list: Vec<Self>, tree| {
                if is_flat(&tree) {
                    list.extend(tree.parts)
                } else {
                    list.push(tree)
                }
                list
            });
            if is_list {
                depth = depth.saturating_sub(1).max(1);
            }
            if depth > DEPTH_MAX {
                return Err(Error::new(SqlState("54001"), "stack depth limit exceeded"));
            }
            trees.push(Some(Self { kind, parts, is_new: false }));
            depths.push(depth);
        }
        Ok(trees.pop().flatten())
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.kind
            .place()
            .cmp(&other.kind.place())
            .then_with(|| other.parts.len().cmp(&self.parts.len()))
            .then_with(|| match (&self.kind, &other.kind) {
                (Kind::Lexeme(a), Kind::Lexeme(b)) => {
                    let check = |operand: &Operand| checksum(operand.lexeme.as_bytes()) as i32;
                    check(b).cmp(&check(a)).then_with(|| a.lexeme.cmp(&b.lexeme))
                }
                _ => Ordering::Equal,
            })
            .then_with(|| {
                let parts = self.parts.iter().zip(&other.parts);
                parts.map(|(a, b)| a.compare(b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            })
            .then_with(|| match (&self.kind, &other.kind) {
                (Kind::Join(Operator::Phrase(a)), Kind::Join(Operator::Phrase(b))) => b.cmp(a),
                _ => Ordering::Equal,
            })
    }

    fn sort(&mut self) {
        self.parts.iter_mut().for_each(Self::sort);
        if !matches!(self.kind, Kind::Join(Operator::Phrase(_))) {
            self.parts.sort_by(Self::compare);
        }
    }

    /// What is left of the tree where `part` is replaced.
    fn replaced(mut self, part: &Self, by: Option<&Self>) -> Result<Option<Self>> {
        pulse::work(8)?;
        let new = || by.map(|by| Self { is_new: true, ..by.clone() });
        if self.is_new {
            return Ok(Some(self));
        }
        if self.kind.place() == part.kind.place() {
            if self.parts.len() == part.parts.len() {
                if self.compare(part).is_eq() {
                    return Ok(new());
                }
            } else if self.parts.len() > part.parts.len() && self.has_all(part) {
                let mut wanted = part.parts.iter().peekable();
                self.parts.retain(|tree| wanted.next_if(|wanted| tree.compare(wanted).is_eq()).is_none());
                self.parts.extend(new());
                self.sort();
            }
        }
        let is_leaf = matches!(self.kind, Kind::Lexeme(_));
        if is_leaf {
            return Ok(Some(self));
        }
        let mut parts = Vec::with_capacity(self.parts.len());
        for tree in std::mem::take(&mut self.parts) {
            parts.extend(tree.replaced(part, by)?);
        }
        if parts.len() < 2 && self.kind != Kind::Not {
            return Ok(parts.pop());
        }
        self.parts = parts;
        Ok((!self.parts.is_empty()).then_some(self))
    }

    /// Whether all of another list's operands are among those of this one.
    fn has_all(&self, part: &Self) -> bool {
        let mut own = self.parts.iter();
        part.parts.iter().all(|wanted| own.by_ref().any(|tree| tree.compare(wanted).is_eq()))
    }

    /// Appends the tree to a query; the place of its root.
    fn push(self, query: &mut Query) -> u32 {
        let mut parts: Vec<u32> = self.parts.into_iter().map(|tree| tree.push(query)).collect();
        match self.kind {
            Kind::Lexeme(operand) => query.push(Node::Lexeme(operand)),
            Kind::Not => {
                let inner = parts.pop().unwrap_or_default();
                query.push(Node::Not(inner))
            }
            Kind::Join(operator) => {
                while parts.len() > 2 {
                    let joined = query.push(Node::Join(operator, parts[1], parts[0]));
                    parts[0] = joined;
                    parts[1] = parts.pop().unwrap_or(joined);
                }
                match parts[..] {
                    [right, left] => query.push(Node::Join(operator, left, right)),
                    [only] => only,
                    _ => 0,
                }
            }
        }
    }
}

/// A query in which a part is replaced, or, by an empty query, left out.
///
/// # Errors
/// 54001 for operators too deep inside of each other.
pub fn rewritten(query: &Query, part: &Query, by: &Query) -> Result<Query> {
    let (Some(mut tree), Some(mut part)) = (Tree::of(query)?, Tree::of(part)?) else { return Ok(query.clone()) };
    tree.sort();
    part.sort();
    let Some(tree) = tree.replaced(&part, Tree::of_plain(by)?.as_ref())? else { return Ok(Query::default()) };
    let mut result = Query::default();
    let root = tree.push(&mut result);
    Ok(Query::rooted(result.nodes(), root))
}

impl Tree {
    /// A tree whose lists are as they are written.
    fn of_plain(query: &Query) -> Result<Option<Self>> {
        let mut trees: Vec<Option<Self>> = Vec::with_capacity(query.nodes().len());
        let mut depths: Vec<usize> = Vec::with_capacity(query.nodes().len());
        for node in query.nodes() {
            pulse::work(8)?;
            let (kind, operands) = match node {
                Node::Lexeme(operand) => (Kind::Lexeme(operand.clone()), vec![]),
                Node::Stop => continue,
                Node::Not(inner) => (Kind::Not, vec![*inner]),
                Node::Join(operator, left, right) => (Kind::Join(*operator), vec![*right, *left]),
            };
            let depth = operands.iter().map(|at| depths[*at as usize] + 1).max().unwrap_or(1);
            if depth > DEPTH_MAX {
                return Err(Error::new(SqlState("54001"), "stack depth limit exceeded"));
            }
            let parts = operands.iter().filter_map(|at| trees[*at as usize].take()).collect();
            trees.push(Some(Self { kind, parts, is_new: false }));
            depths.push(depth);
        }
        Ok(trees.pop().flatten())
    }
}

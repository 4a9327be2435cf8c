//! `tsquery`: operands and operators.
//!
//! ```text
//! query    := compared end* operands
//! compared := count size [item]
//! count    := 4 bytes, big-endian: operands and operators
//! size     := 4 bytes, big-endian: what PostgreSQL's form of the value takes
//! item     := 01 right left distance                     an operator, first its right operand
//!           | 02 right left | 03 right left | 04 right   `|`, `&`, `!`
//!           | 05 check lexeme 00
//! right    := item
//! left     := item
//! distance := 2 bytes, big-endian, all bits flipped
//! check    := 4 bytes, big-endian: a checksum of the lexeme, by which PostgreSQL sorts operands
//! end      := weights | 10 if it is a prefix             one byte for each operand, in their order
//! operands := 4 bytes, big-endian: how many ends there are
//! ```
//! ON DISK: this is how rows hold the value, and keys what is compared of it, which sorts as PostgreSQL
//! sorts the values: weights and prefixes make no difference. An empty query has no items.
//!
//! In memory a query is a list of nodes, each behind its operands: whatever looks at all of it goes
//! through the list, and depth takes no stack.

use crate::error::{Error, Result, SqlState, too_short};
use crate::pulse;
use crate::text_search::vector::{self, LEXEME_BYTES_MAX, TEXT_BYTES_MAX};

/// Which weights an operand asks for: a bit for each, 8 for `A` and 1 for `D`. None asks for any.
pub type Weights = u8;

/// The greatest distance of a phrase.
pub(super) const DISTANCE_MAX: u16 = 1 << 14;

/// Bytes of an item in PostgreSQL's form, and of what stands before them.
const ITEM_BYTES: usize = 12;
const HEADER_BYTES: usize = 8;

/// Operands and operators of a query.
const ITEMS_MAX: usize = 1 << 24;

/// A lexeme that is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operand {
    /// The lexeme, or its beginning.
    pub lexeme: Box<str>,
    /// With which weights it counts.
    pub weights: Weights,
    /// Whether lexemes that begin so count, too.
    pub is_prefix: bool,
}

/// What joins two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `&`
    And,
    /// `|`
    Or,
    /// `<n>`: the right one stands so many places behind the left one.
    Phrase(u16),
}

impl Operator {
    fn priority(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Phrase(_) => 3,
        }
    }
}

/// A node of a query. Operands are places in its list, before the node itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A lexeme.
    Lexeme(Operand),
    /// A word that has been taken out; in queries in the making only.
    Stop,
    /// `!`
    Not(u32),
    /// An operator between two.
    Join(Operator, u32, u32),
}

/// A query. Its last node is its root; without nodes it is empty and matches nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    nodes: Vec<Node>,
}

const PHRASE: u8 = 1;
const OR: u8 = 2;
const AND: u8 = 3;
const NOT: u8 = 4;
const LEXEME: u8 = 5;
const PREFIX: u8 = 0x10;

impl Query {
    /// Its nodes, each behind its operands.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether it has no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Its operands, in the order in which they are written.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Lexeme(operand) => Some(operand),
            _ => None,
        })
    }

    /// Appends a node whose operands are there; its place.
    pub(super) fn push(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// The node at a place.
    pub(super) fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    /// The place of the root.
    pub(super) fn root(&self) -> Option<u32> {
        self.nodes.len().checked_sub(1).map(|at| at as u32)
    }

    /// A query of what a root reaches, in this order: left operands, right operands, operators.
    pub(super) fn rooted(nodes: &[Node], root: u32) -> Self {
        enum Task {
            Visit(u32),
            Not,
            Join(Operator),
        }
        let mut query = Self::default();
        let mut tasks = vec![Task::Visit(root)];
        let mut done: Vec<u32> = Vec::new();
        while let Some(task) = tasks.pop() {
            match task {
                Task::Visit(at) => match &nodes[at as usize] {
                    Node::Not(inner) => tasks.extend([Task::Not, Task::Visit(*inner)]),
                    Node::Join(operator, left, right) => {
                        tasks.extend([Task::Join(*operator), Task::Visit(*right), Task::Visit(*left)]);
                    }
                    leaf => done.push(query.push(leaf.clone())),
                },
                Task::Not => {
                    if let Some(inner) = done.pop() {
                        done.push(query.push(Node::Not(inner)));
                    }
                }
                Task::Join(operator) => {
                    if let (Some(right), Some(left)) = (done.pop(), done.pop()) {
                        done.push(query.push(Node::Join(operator, left, right)));
                    }
                }
            }
        }
        query
    }

    /// Two queries joined; where one is empty, it is the other.
    #[must_use]
    pub fn joined(self, operator: Operator, other: Self) -> Self {
        let (Some(left), Some(right)) = (self.root(), other.root()) else {
            return if self.is_empty() { other } else { self };
        };
        let mut joined = self;
        let shift = joined.nodes.len() as u32;
        joined.nodes.extend(other.nodes.into_iter().map(|node| match node {
            Node::Not(inner) => Node::Not(inner + shift),
            Node::Join(operator, left, right) => Node::Join(operator, left + shift, right + shift),
            leaf => leaf,
        }));
        joined.push(Node::Join(operator, left, right + shift));
        joined
    }

    /// What matches where this does not; an empty query stays so.
    #[must_use]
    pub fn negated(mut self) -> Self {
        if let Some(root) = self.root() {
            self.push(Node::Not(root));
        }
        self
    }

    /// The places of the nodes as PostgreSQL numbers them: the root, the right side, the left one.
    fn right_first(&self) -> Vec<u32> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut left = Vec::from_iter(self.root());
        while let Some(at) = left.pop() {
            order.push(at);
            match self.node(at) {
                Node::Not(inner) => left.push(*inner),
                Node::Join(_, first, second) => left.extend([*first, *second]),
                Node::Lexeme(_) | Node::Stop => {}
            }
        }
        order
    }

    /// Makes a query of items in PostgreSQL's order.
    fn of_right_first(items: Vec<Item>) -> Option<Self> {
        let mut nodes = Vec::with_capacity(items.len());
        let mut done: Vec<u32> = Vec::new();
        for item in items.into_iter().rev() {
            let node = match item {
                Item::Lexeme(operand) => Node::Lexeme(operand),
                Item::Not => Node::Not(done.pop()?),
                Item::Join(operator) => {
                    let right = done.pop()?;
                    Node::Join(operator, done.pop()?, right)
                }
            };
            nodes.push(node);
            done.push(nodes.len() as u32 - 1);
        }
        match done[..] {
            [] => Some(Self::default()),
            [root] => Some(Self::rooted(&nodes, root)),
            _ => None,
        }
    }

    /// The query in its bytes.
    ///
    /// # Errors
    /// 54000 if it is too large.
    pub fn to_bytes(&self) -> Result<Box<[u8]>> {
        pulse::work(self.nodes.len() * 8)?;
        /// What is still to be written.
        enum Task {
            Visit(u32),
            Distance(u16),
        }
        let mut out = vec![0; HEADER_BYTES];
        let mut ends = Vec::new();
        let mut text_bytes = 0;
        let mut tasks = Vec::from_iter(self.root().map(Task::Visit));
        while let Some(task) = tasks.pop() {
            let at = match task {
                Task::Visit(at) => at,
                Task::Distance(distance) => {
                    out.extend_from_slice(&(!distance).to_be_bytes());
                    continue;
                }
            };
            match self.node(at) {
                Node::Not(inner) => {
                    out.push(NOT);
                    tasks.push(Task::Visit(*inner));
                }
                Node::Join(operator, left, right) => {
                    out.push(match operator {
                        Operator::And => AND,
                        Operator::Or => OR,
                        Operator::Phrase(_) => PHRASE,
                    });
                    if let Operator::Phrase(distance) = operator {
                        tasks.push(Task::Distance(*distance));
                    }
                    tasks.extend([Task::Visit(*left), Task::Visit(*right)]);
                }
                Node::Lexeme(operand) => {
                    out.push(LEXEME);
                    let check = checksum(operand.lexeme.as_bytes());
                    out.extend_from_slice(&(!(check ^ 1 << 31)).to_be_bytes());
                    out.extend_from_slice(operand.lexeme.as_bytes());
                    out.push(0);
                    ends.push(operand.weights | if operand.is_prefix { PREFIX } else { 0 });
                    text_bytes += operand.lexeme.len() + 1;
                }
                Node::Stop => {}
            }
        }
        if self.nodes.len() > ITEMS_MAX || text_bytes > 1 << 28 {
            return Err(Error::new(SqlState("54000"), "tsquery is too large"));
        }
        let size = (HEADER_BYTES + ITEM_BYTES * self.nodes.len() + text_bytes) as u32;
        out[..4].copy_from_slice(&(self.nodes.len() as u32).to_be_bytes());
        out[4..8].copy_from_slice(&size.to_be_bytes());
        out.extend_from_slice(&ends);
        out.extend_from_slice(&(ends.len() as u32).to_be_bytes());
        Ok(out.into_boxed_slice())
    }

    /// What is compared of a query's bytes: all but the weights and which operands are prefixes.
    #[must_use]
    pub fn compared(bytes: &[u8]) -> &[u8] {
        Self::parts(bytes).map_or(bytes, |(compared, _)| compared)
    }

    /// What is compared of a query's bytes, and the ends of its operands.
    fn parts(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let (rest, operands) = bytes.split_last_chunk::<4>()?;
        rest.split_at_checked(rest.len().checked_sub(u32::from_be_bytes(*operands) as usize)?)
    }

    /// The query with these bytes. What is damaged is an empty query.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::decoded(bytes).unwrap_or_default()
    }

    fn decoded(bytes: &[u8]) -> Option<Self> {
        let (compared, ends) = Self::parts(bytes)?;
        let (count, rest) = compared.split_first_chunk::<4>()?;
        let count = u32::from_be_bytes(*count) as usize;
        let mut rest = rest.get(4..)?;
        let mut ends = ends.iter();
        let mut items: Vec<Item> = Vec::with_capacity(count.min(rest.len()));
        // Operators whose operands are not all read: which items they are, and how many are missing.
        let mut open: Vec<(usize, u8)> = Vec::new();
        for _ in 0..count {
            let (&kind, behind) = rest.split_first()?;
            rest = behind;
            let missing = match kind {
                NOT => 1,
                AND | OR | PHRASE => 2,
                LEXEME => 0,
                _ => return None,
            };
            if missing > 0 {
                open.push((items.len(), missing));
            }
            items.push(match kind {
                NOT => Item::Not,
                AND => Item::Join(Operator::And),
                OR => Item::Join(Operator::Or),
                // Its distance comes behind its operands.
                PHRASE => Item::Join(Operator::Phrase(0)),
                _ => {
                    let behind = rest.get(4..)?;
                    let end = memchr::memchr(0, behind)?;
                    rest = &behind[end + 1..];
                    let lexeme = std::str::from_utf8(&behind[..end]).ok()?.into();
                    let end = ends.next()?;
                    Item::Lexeme(Operand { lexeme, weights: end & 0xf, is_prefix: end & PREFIX != 0 })
                }
            });
            // An operand is read, and with it may be the operators that it is the last one of.
            while missing == 0
                && let Some((at, left)) = open.last_mut()
            {
                *left -= 1;
                if *left > 0 {
                    break;
                }
                if let Item::Join(Operator::Phrase(read)) = &mut items[*at] {
                    let (distance, behind) = rest.split_first_chunk::<2>()?;
                    (*read, rest) = (!u16::from_be_bytes(*distance), behind);
                }
                open.pop();
            }
        }
        Self::of_right_first(items)
    }

    /// Appends the query as text: `'cat' & !( 'dog':A | 'fox':* )`.
    ///
    /// # Errors
    /// 57014 if the statement was cancelled.
    pub fn write(&self, out: &mut String) -> Result<()> {
        enum Task {
            Visit { at: u32, outside: u8, is_right_of_phrase: bool },
            Symbol(Operator),
            Close,
        }
        let root = self.root().map(|at| Task::Visit { at, outside: 0, is_right_of_phrase: false });
        let mut tasks = Vec::from_iter(root);
        while let Some(task) = tasks.pop() {
            pulse::work(2)?;
            match task {
                Task::Close => out.push_str(" )"),
                Task::Symbol(Operator::And) => out.push_str(" & "),
                Task::Symbol(Operator::Or) => out.push_str(" | "),
                Task::Symbol(Operator::Phrase(1)) => out.push_str(" <-> "),
                Task::Symbol(Operator::Phrase(distance)) => out.push_str(&format!(" <{distance}> ")),
                Task::Visit { at, outside, is_right_of_phrase } => match self.node(at) {
                    Node::Lexeme(operand) => operand.write(out),
                    Node::Stop => {}
                    Node::Not(inner) => {
                        out.push('!');
                        tasks.push(Task::Visit { at: *inner, outside: 4, is_right_of_phrase: false });
                    }
                    Node::Join(operator, left, right) => {
                        let priority = operator.priority();
                        let is_phrase = matches!(operator, Operator::Phrase(_));
                        if priority < outside || is_phrase && is_right_of_phrase {
                            out.push_str("( ");
                            tasks.push(Task::Close);
                        }
                        tasks.extend([
                            Task::Visit { at: *right, outside: priority, is_right_of_phrase: is_phrase },
                            Task::Symbol(*operator),
                            Task::Visit { at: *left, outside: priority, is_right_of_phrase: false },
                        ]);
                    }
                },
            }
        }
        Ok(())
    }

    /// Appends PostgreSQL's binary form.
    pub fn write_binary(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.nodes.len() as u32).to_be_bytes());
        for at in self.right_first() {
            match self.node(at) {
                Node::Lexeme(operand) => {
                    out.extend_from_slice(&[1, operand.weights, u8::from(operand.is_prefix)]);
                    out.extend_from_slice(operand.lexeme.as_bytes());
                    out.push(0);
                }
                Node::Not(_) => out.extend_from_slice(&[2, 1]),
                Node::Join(Operator::And, ..) => out.extend_from_slice(&[2, 2]),
                Node::Join(Operator::Or, ..) => out.extend_from_slice(&[2, 3]),
                Node::Join(Operator::Phrase(distance), ..) => {
                    out.extend_from_slice(&[2, 4]);
                    out.extend_from_slice(&distance.to_be_bytes());
                }
                Node::Stop => {}
            }
        }
    }

    /// The part of the query that an index can look for, as text: nothing that is negated. `T` if
    /// there is none.
    ///
    /// # Errors
    /// 57014 if the statement was cancelled.
    pub fn searchable(&self) -> Result<String> {
        let mut text = String::new();
        if self.is_empty() {
            return Ok(text);
        }
        let mut nodes: Vec<Node> = Vec::with_capacity(self.nodes.len());
        let mut kept: Vec<Option<u32>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let place = match node {
                Node::Lexeme(_) => Some(node.clone()),
                Node::Stop | Node::Not(_) => None,
                Node::Join(operator, left, right) => match (kept[*left as usize], kept[*right as usize]) {
                    (Some(left), Some(right)) => Some(Node::Join(*operator, left, right)),
                    (Some(one), None) | (None, Some(one)) if *operator != Operator::Or => {
                        kept.push(Some(one));
                        continue;
                    }
                    _ => None,
                },
            };
            kept.push(place.map(|node| {
                nodes.push(node);
                nodes.len() as u32 - 1
            }));
        }
        match kept.last() {
            Some(Some(root)) => Self::rooted(&nodes, *root).write(&mut text)?,
            _ => text.push('T'),
        }
        Ok(text)
    }

    /// The lexemes of its operands, sorted and each once.
    #[must_use]
    pub fn lexemes(&self) -> Vec<&str> {
        let mut lexemes: Vec<&str> = self.operands().map(|operand| &*operand.lexeme).collect();
        lexemes.sort_unstable();
        lexemes.dedup();
        lexemes
    }

    /// The query without the words that were taken out: distances grow by the places that these
    /// took.
    #[must_use]
    pub(super) fn without_stops(&self) -> Self {
        /// What is left of a node, and what its operands' distances grow by on either side.
        #[derive(Clone, Copy)]
        struct Left {
            at: Option<u32>,
            left: u32,
            right: u32,
        }
        let mut nodes: Vec<Node> = Vec::with_capacity(self.nodes.len());
        let mut kept: Vec<Left> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let mut push = |node: Node| {
                nodes.push(node);
                Some(nodes.len() as u32 - 1)
            };
            let left = match node {
                Node::Lexeme(_) => Left { at: push(node.clone()), left: 0, right: 0 },
                Node::Stop => Left { at: None, left: 0, right: 0 },
                Node::Not(inner) => {
                    let inner = kept[*inner as usize];
                    Left { at: inner.at.and_then(|at| push(Node::Not(at))), ..inner }
                }
                Node::Join(operator, left, right) => {
                    let (left, right) = (kept[*left as usize], kept[*right as usize]);
                    let distance = match operator {
                        Operator::Phrase(distance) => Some(u32::from(*distance)),
                        _ => None,
                    };
                    match (left.at, right.at, distance) {
                        (None, None, Some(distance)) => {
                            let both = left.left.saturating_add(distance).saturating_add(right.left);
                            Left { at: None, left: both, right: both }
                        }
                        (None, None, None) => {
                            let most = left.left.max(right.left);
                            Left { at: None, left: most, right: most }
                        }
                        (None, Some(_), Some(distance)) => {
                            let both = left.left.saturating_add(distance).saturating_add(right.left);
                            Left { left: both, ..right }
                        }
                        (Some(_), None, Some(distance)) => {
                            let both = left.right.saturating_add(distance).saturating_add(right.right);
                            Left { right: both, ..left }
                        }
                        // What took places beside an operand of `&` or `|` took none of the operand's.
                        (None, Some(_), None) => right,
                        (Some(_), None, None) => left,
                        (Some(a), Some(b), Some(distance)) => {
                            let distance = distance.saturating_add(left.right).saturating_add(right.left);
                            let distance = u16::try_from(distance).unwrap_or(u16::MAX);
                            Left {
                                at: push(Node::Join(Operator::Phrase(distance), a, b)),
                                left: left.left,
                                right: right.right,
                            }
                        }
                        (Some(a), Some(b), None) => Left { at: push(Node::Join(*operator, a, b)), left: 0, right: 0 },
                    }
                }
            };
            kept.push(left);
        }
        kept.last().and_then(|root| root.at).map_or_else(Self::default, |root| Self::rooted(&nodes, root))
    }
}

impl Operand {
    fn write(&self, out: &mut String) {
        vector::write_quoted(&self.lexeme, out);
        if self.weights != 0 || self.is_prefix {
            out.push(':');
        }
        if self.is_prefix {
            out.push('*');
        }
        for weight in (0..4).rev() {
            if self.weights >> weight & 1 == 1 {
                out.push_str(vector::weight_letter(weight));
            }
        }
    }

    /// An operand of a word as it stands in a query.
    ///
    /// # Errors
    /// 54000 if it is too long.
    pub(super) fn checked(
        lexeme: &str,
        weights: Weights,
        is_prefix: bool,
        bytes_before: usize,
        query: &str,
    ) -> Result<Self> {
        let too_long =
            |what: &str| Err(Error::new(SqlState("54000"), format!("{what} is too long in tsquery: \"{query}\"")));
        if lexeme.len() >= LEXEME_BYTES_MAX {
            return too_long("word");
        }
        if bytes_before >= TEXT_BYTES_MAX {
            return too_long("operand");
        }
        Ok(Self { lexeme: lexeme.into(), weights, is_prefix })
    }
}

/// An operand or an operator, in a list of them.
enum Item {
    Lexeme(Operand),
    Not,
    Join(Operator),
}

/// Reads PostgreSQL's binary form.
///
/// # Errors
/// 08P01 or XX000 if it is not one, 22021 for text that is not UTF-8.
pub fn read_binary(bytes: &[u8]) -> Result<Box<[u8]>> {
    let (count, mut rest) = bytes.split_first_chunk::<4>().ok_or_else(too_short)?;
    let count = u32::from_be_bytes(*count) as usize;
    if count > ITEMS_MAX {
        return Err(Error::internal("invalid size of tsquery"));
    }
    let mut items = Vec::with_capacity(count.min(rest.len()));
    let mut text_bytes = 0;
    for _ in 0..count {
        pulse::work(4)?;
        let (&kind, behind) = rest.split_first().ok_or_else(too_short)?;
        rest = behind;
        let mut byte = || {
            let (&byte, behind) = rest.split_first().ok_or_else(too_short)?;
            rest = behind;
            Ok::<u8, Error>(byte)
        };
        items.push(match kind {
            1 => {
                let (weights, is_prefix) = (byte()?, byte()? != 0);
                let no_end = || Error::new(SqlState("08P01"), "invalid string in message");
                let end = memchr::memchr(0, rest).ok_or_else(no_end)?;
                let lexeme = std::str::from_utf8(&rest[..end])
                    .map_err(|_| Error::new(SqlState::BAD_CHARACTER, "invalid byte sequence for encoding \"UTF8\""))?;
                rest = &rest[end + 1..];
                if weights > 0xf {
                    return Err(Error::internal("invalid tsquery: invalid weight bitmap"));
                }
                if lexeme.len() > LEXEME_BYTES_MAX {
                    return Err(Error::internal("invalid tsquery: operand too long"));
                }
                text_bytes += lexeme.len() + 1;
                if text_bytes > TEXT_BYTES_MAX {
                    return Err(Error::internal("invalid tsquery: total operand length exceeded"));
                }
                Item::Lexeme(Operand { lexeme: lexeme.into(), weights, is_prefix })
            }
            2 => match byte()? {
                1 => Item::Not,
                2 => Item::Join(Operator::And),
                3 => Item::Join(Operator::Or),
                4 => Item::Join(Operator::Phrase(u16::from_be_bytes([byte()?, byte()?]))),
                other => {
                    return Err(Error::internal(format_args!("invalid tsquery: unrecognized operator type {other}")));
                }
            },
            other => return Err(Error::internal(format_args!("unrecognized tsquery node type: {other}"))),
        });
    }
    if !rest.is_empty() {
        return Err(Error::new(SqlState::BAD_BINARY, "incorrect binary data format"));
    }
    let malformed = || Error::internal("malformed tsquery: operand not found");
    Query::of_right_first(items).ok_or_else(malformed)?.to_bytes()
}

/// The table of a CRC-32 whose bits are reflected.
const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut value, mut bit) = (at as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xEDB8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
};

/// PostgreSQL's checksum of an operand: a CRC-32 with the table of the reflected one, though not
/// reflected itself. Only the order of queries depends on it.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let step = |check: u32, byte: &u8| CRC_TABLE[usize::from((check >> 24) as u8 ^ byte)] ^ check << 8;
    !bytes.iter().fold(u32::MAX, step)
}

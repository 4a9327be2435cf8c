//! PostgreSQL's grammar: text to syntax tree, with PostgreSQL's errors.
//!
//! ```text
//! text ── lexer ──► tokens ── parser ──► statements
//!                     └── depth ──► how much stack the tree needs, before there is one
//! ```
//!
//! | file | holds |
//! | --- | --- |
//! | `keyword` | PostgreSQL's words, and where each may be a name |
//! | `token`, `lexer`, `strings` | tokens, how a text is divided into them, what strings say |
//! | `depth` | how deep a tree tokens make |
//! | `errors` | the texts of errors, and positions |
//! | `tree` and its folder | the tree of a statement, which is data |
//! | `parser` | the place in a text: words, names, lists, errors |
//! | `expr` and its folder | operators by precedence; operands, calls, windows |
//! | `types` | names of types |
//! | `query` and its folder | SELECT, set operations, FROM, ORDER BY, LIMIT, locks |
//! | `dml` | INSERT, UPDATE, DELETE, MERGE |
//! | `ddl` and its folder | CREATE, ALTER, DROP, TRUNCATE |
//! | `control` | transactions, prepared statements, EXPLAIN, DISCARD |
//! | `settings` | SET, RESET, SHOW |
//! | `cursors`, `copy` | DECLARE, FETCH, MOVE, CLOSE; COPY |
//! | `roles`, `databases`, `privileges`, `comments` | roles, databases, GRANT and REVOKE, COMMENT |
//! | `sequences`, `upkeep` | sequences and identity columns; VACUUM and its like |
//! | `user_types`, `domains`, `extensions` | CREATE, ALTER and DROP TYPE; the same of domains and of extensions |
//! | `routines`, `triggers`, `plpgsql` | functions, procedures, DO, CALL; triggers; PL/pgSQL |
//! | `statement` | which statement it is |
//! | `lift` | literals lifted out of a text |
//!
//! To add a statement: its data as a variant in `tree`, its grammar in a file of its own here, its
//! first word in `statement`.
//!
//! A statement is a [`tree::Statement`]. What reads or changes rows, and what makes, changes or
//! drops relations, is in it as a tree of [`ast`]. What those types have no place for is kept in
//! marks, names that nobody can write: see the constants below.
//!
//! Reading a long text counts as work ([`colibri_types::pulse`]): others get their turn, and a
//! statement that was cancelled ends.
//!
//! Invariants: every text is read from left to right once, in time proportional to its length. A
//! tree is never deeper than [`Scanned::is_deep`] and the limit here allow.

use colibri_types::{Error, Result, SqlState};

use crate::depth::depth;
use crate::keyword::Keyword;
use crate::parser::Parser;
use crate::token::Kind;

mod casts;
mod collations;
mod comments;
mod control;
mod copy;
mod cursors;
mod databases;
mod ddl;
mod depth;
mod dml;
mod domains;
mod errors;
mod expr;
mod extensions;
mod keyword;
mod lexer;
mod lift;
mod operators;
mod parser;
pub mod plpgsql;
mod policies;
mod privileges;
mod query;
mod roles;
mod routines;
mod rules;
mod sequences;
mod settings;
mod shown;
mod statement;
mod statistics;
mod strings;
mod text_search;
mod token;
pub mod tree;
mod triggers;
mod types;
mod upkeep;
mod user_types;

pub use domains::{no_inherit, not_for_domains};
pub use lift::{Lifted, lift};
pub use shown::{shown_query, with_exclusions};
/// The types of what reads or changes rows, and of what is about relations.
pub use sqlparser::ast;
pub use tree::Statement;

/// Places in a text.
pub use sqlparser::tokenizer::{Location, Span};

/// The first part of a name behind `FOR … OF` that stands for several names.
pub const LOCK_MARK: &str = "\u{1}rows";
/// The same, where keys are locked apart from rows: FOR NO KEY UPDATE and FOR KEY SHARE.
pub const KEY_LOCK_MARK: &str = "\u{1}rows but keys";
/// The first part of a name that stands for `CURRENT OF`; the second is the cursor's.
pub const CURRENT_OF_MARK: &str = "\u{1}row of";
/// In the list of columns that a foreign key refers to: behind it come those that ON DELETE SET
/// NULL or SET DEFAULT sets.
pub const DELETE_COLUMNS_MARK: &str = "\u{1}set";

/// The quotation mark of what is no column but an expression, among the columns of ON CONFLICT.
pub const CONFLICT_EXPRESSION: char = '(';

/// The quotation mark of the condition behind these columns.
pub const CONFLICT_CONDITION: char = '?';
pub use operators::PREFIX_MARK;

/// What stands in front of an argument of a call that is an array of arguments.
pub const VARIADIC_MARK: &str = "VARIADIC";
/// What begins the last name in the list of a window's PARTITION BY that is none of its expressions:
/// behind it stands what EXCLUDE leaves out of the frame (`current row`, `group`, `ties`).
pub const EXCLUDE_MARK: &str = "\u{1}exclude ";
/// What begins the last name in the list of USING that is no column: behind it stands the alias of
/// the columns that the list merges.
pub const USING_ALIAS_MARK: &str = "\u{1}alias ";
/// What ROWS FROM is spelled as in the tree.
pub const ROWS_FROM: &str = "rows from";
/// What begins the last part of the name of a table that another one is LIKE: behind it stands a
/// letter for each thing that is taken beside columns (comments `m`, constraints `c`, defaults `d`,
/// generated columns `g`, identities `i`, indexes `x`).
pub const LIKE_MARK: &str = "\u{1}like ";

/// `LIKE t …` among the elements of CREATE TABLE, as a column whose type is marked.
fn like_element(like: sqlparser::ast::CreateTableLike, span: sqlparser::tokenizer::Span) -> sqlparser::ast::ColumnDef {
    sqlparser::ast::ColumnDef {
        name: sqlparser::ast::Ident { span, ..sqlparser::ast::Ident::new("like") },
        data_type: sqlparser::ast::DataType::Custom(like.name, vec![LIKE_MARK.to_owned()]),
        options: Vec::new(),
    }
}

/// The table that an element of CREATE TABLE is like, if it is no column.
#[must_use]
pub fn liked_table(element: &sqlparser::ast::ColumnDef) -> Option<&sqlparser::ast::ObjectName> {
    match &element.data_type {
        sqlparser::ast::DataType::Custom(name, marks) if marks.first().is_some_and(|mark| mark == LIKE_MARK) => {
            Some(name)
        }
        _ => None,
    }
}
/// The name of the option of a column that `COMPRESSION method` is.
pub const COMPRESSION_OPTION: &str = "compression";
/// What begins the text of an identity column's options, or of a change of one, in place of the
/// number of START.
pub const IDENTITY_MARK: &str = "\u{1}identity ";
/// What the name of a function in FROM begins with that stands for EXECUTE, behind CREATE TABLE …
/// AS: the prepared statement's name follows.
pub const EXECUTE_MARK: &str = "\u{1}execute ";
/// The type of a column that `CREATE TABLE t (a) AS` names: its query tells the real one.
pub const ANY_TYPE_MARK: &str = "\u{1}any";
/// Stands among the partitions of a table in FROM that is named with ONLY.
pub const ONLY_MARK: &str = "\u{1}only";

/// The parser calls itself at most once for this number of units of depth.
const UNITS_PER_CALL: usize = 2;
/// Calls inside each other that a text without any depth takes.
const CALLS_MIN: usize = 64;
/// Units that fit the stack of any thread, of 2 MiB.
const DEPTH_SHALLOW: usize = 800;
/// What the catalogue keeps may have become a little deeper than the statement was that it comes
/// from.
const DEPTH_KEPT: usize = 1_000;
/// Units at most: what fits a stack of 128 MiB.
const DEPTH_MAX: usize = 40_000;

/// The tokens of a text, and how deep a tree they make.
pub struct Scanned<'t> {
    tokens: lexer::Tokens<'t>,
    depth: usize,
}

/// Finds the tokens of a text.
///
/// # Errors
/// 54000 for a text that is too long, 22021 for one with a NUL, 54001 for one that is nested too
/// deep. What no token begins with is told by [`Scanned::parse`].
pub fn scan(text: &str) -> Result<Scanned<'_>> {
    let tokens = lexer::tokens(text)?;
    let depth = depth(&tokens.list);
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    Ok(Scanned { tokens, depth })
}

impl<'t> Scanned<'t> {
    /// Whether what is done with the tree needs a stack made for it: that of a thread of 2 MiB is
    /// too small.
    #[must_use]
    pub fn is_deep(&self) -> bool {
        self.depth > DEPTH_SHALLOW
    }

    /// The statements of the text.
    ///
    /// # Errors
    /// 42601 and what else may be wrong with a text. The statement was cancelled.
    pub fn parse(self) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        self.read(false, |parser| parser.statements(|statement, _| statements.push(statement)))?;
        Ok(statements)
    }

    /// Reads all statements of the text for their mistakes, and gives their texts. There is no more
    /// than one tree at a time.
    ///
    /// # Errors
    /// As [`Scanned::parse`].
    pub fn parse_parts(self) -> Result<Vec<&'t str>> {
        let (text, mut parts) = (self.tokens.text, Vec::new());
        self.read(false, |parser| parser.statements(|_, bytes| parts.push(&text[bytes])))?;
        Ok(parts)
    }

    /// What is between the semicolons of the text, which is not read; `None` if something is no
    /// token.
    #[must_use]
    pub fn plain_parts(&self) -> Option<Vec<&'t str>> {
        if self.tokens.error.is_some() {
            return None;
        }
        let is_token = |token: &token::Token| token.kind != Kind::Semicolon && token.kind != Kind::End;
        let statements = self.tokens.list.split(|token| !is_token(token));
        let text_of = |tokens: &[token::Token]| {
            let (first, last) = (tokens.first()?, tokens.last()?);
            Some(&self.tokens.text[first.start as usize..last.end as usize])
        };
        Some(statements.filter_map(text_of).collect())
    }

    /// The text's only statement, which is not read; `None` if there may be several, or something
    /// is no token.
    #[must_use]
    pub fn only_part(&self) -> Option<&'t str> {
        let is_token = |token: &&token::Token| token.kind != Kind::Semicolon && token.kind != Kind::End;
        let first = self.tokens.list.iter().position(|token| is_token(&token))?;
        let rest = &self.tokens.list[first..];
        let count = rest.iter().take_while(is_token).count();
        if self.tokens.error.is_some() || rest[count..].iter().any(|token| is_token(&token)) {
            return None;
        }
        Some(&self.tokens.text[rest[0].start as usize..rest[count - 1].end as usize])
    }

    /// The texts of the tokens.
    #[must_use]
    pub fn token_texts(&self) -> Vec<&'t str> {
        self.tokens.list.iter().map(|token| &self.tokens.text[token.start as usize..token.end as usize]).collect()
    }

    fn read<T>(self, is_kept: bool, read: impl FnOnce(&mut Parser<'t>) -> Result<T>) -> Result<T> {
        let mut parser = Parser::new(self.tokens, CALLS_MIN + self.depth / UNITS_PER_CALL);
        parser.is_kept = is_kept;
        let got = read(&mut parser)?;
        if parser.kind() != Kind::End {
            return Err(parser.wrong());
        }
        match parser.take_noted() {
            Some(error) => Err(error),
            None => Ok(got),
        }
    }
}

/// The statements of a text that is not deep.
///
/// # Errors
/// As [`scan`] and [`Scanned::parse`].
pub fn parse(text: &str) -> Result<Vec<Statement>> {
    shallow(text)?.parse()
}

/// What the definition of an identity column has behind `AS IDENTITY`: options in parentheses.
///
/// # Errors
/// As [`parse`].
pub fn parse_identity_options(text: &str) -> Result<Vec<tree::SequenceOption>> {
    shallow(text)?.read(false, Parser::identity_options)
}

/// What ALTER TABLE says of an identity column, behind the column's name.
///
/// # Errors
/// As [`parse`].
pub fn parse_identity_change(text: &str) -> Result<tree::IdentityChange> {
    shallow(text)?.read(false, Parser::changed_identity)
}

/// Whether a text begins like a COPY, which only its first word tells.
#[must_use]
pub fn is_copy(text: &str) -> bool {
    lexer::first(text).is_some_and(|token| token.kind == Kind::Key(Keyword::Copy))
}

fn shallow(text: &str) -> Result<Scanned<'_>> {
    let scanned = scan(text)?;
    if scanned.depth > DEPTH_KEPT { Err(too_deep()) } else { Ok(scanned) }
}

/// One expression, as the catalogue stores it.
///
/// # Errors
/// As [`parse`].
pub fn parse_expr(text: &str) -> Result<ast::Expr> {
    shallow(text)?.read(true, Parser::expr)
}

/// The name of a type.
///
/// # Errors
/// As [`parse`].
pub fn parse_type(text: &str) -> Result<ast::DataType> {
    shallow(text)?.read(false, Parser::data_type)
}

/// One query, as the catalogue stores it.
///
/// # Errors
/// As [`parse`].
pub fn parse_query(text: &str) -> Result<ast::Query> {
    shallow(text)?.read(true, |parser| {
        let query = parser.query_or_change()?;
        while parser.eat_kind(Kind::Semicolon) {}
        Ok(*query)
    })
}

/// The error for what is nested too deep, or has too many operators in a row.
#[must_use]
pub fn too_deep() -> Error {
    Error::new(SqlState::TOO_COMPLEX, "stack depth limit exceeded")
        .hint("The statement has too many operators in a row, or too many levels of parentheses or queries inside each other.")
}

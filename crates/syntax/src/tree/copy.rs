//! COPY.

use sqlparser::ast;

use super::{Inner, Name, QualifiedName};

/// A COPY as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// What is copied.
    pub source: CopySource,
    /// COPY TO.
    pub is_to: bool,
    /// The file on the server's machine; `None`: the client's side.
    pub file: Option<String>,
    /// How.
    pub options: CopyOptions,
    /// The condition on rows of COPY FROM.
    pub condition: Option<ast::Expr>,
}

/// What is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopySource {
    /// A table.
    Table {
        /// Its name.
        name: QualifiedName,
        /// Its columns; none are all of them.
        columns: Vec<Name>,
    },
    /// What a statement gives.
    Query(Box<Inner>),
}

/// How the rows of a file are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyFormat {
    /// Lines with tabs between values.
    Text,
    /// Values with commas between them.
    Csv,
    /// PostgreSQL's binary format.
    Binary,
}

/// What the first line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyHeader {
    /// A row.
    None,
    /// Names of columns, whatever they are.
    Line,
    /// Names of columns, which have to be the right ones. Only for COPY FROM.
    Match,
}

/// Some columns, or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyColumns {
    /// `*`
    All,
    /// By name.
    Named(Vec<Name>),
}

/// The options as they are written; each may be given once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each has the name that it has in the statement")]
pub struct CopyOptions {
    pub format: Option<CopyFormat>,
    pub freeze: Option<bool>,
    pub delimiter: Option<String>,
    pub null: Option<String>,
    pub header: Option<CopyHeader>,
    pub quote: Option<String>,
    pub escape: Option<String>,
    pub force_quote: Option<CopyColumns>,
    pub force_not_null: Option<CopyColumns>,
    pub force_null: Option<CopyColumns>,
    pub encoding: Option<String>,
}

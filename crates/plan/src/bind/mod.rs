//! Binding: from the parser's tree to queries whose names and types are resolved.
//!
//! Names are looked up from the innermost query outwards. A query inside an expression has slots of
//! its own; a column that it takes from outside becomes one of its arguments ([`Expr::Arg`]),
//! filled by each row of the outer query.
//!
//! Invariants: every expression that leaves here has operands of the types that its operation
//! wants; literals without a type and parameters have got theirs from the context, as in
//! PostgreSQL.

mod changes;
pub mod collation;
mod columns_read;
mod current_of;
mod domains;
mod elements;
mod expr;
mod from;
mod functions;
mod joins;
mod merge;
pub mod partitions;
mod polymorphic;
mod query;
mod recursive;
pub mod rewrite;
pub mod routine_bodies;
pub mod routines;
mod rows;
mod rule_rights;
pub mod rules;
mod scope;
mod security;
mod series;
pub mod stored;
mod stored_form;
pub mod types;
mod user_aggregates;
mod user_casts;
mod user_operators;
mod user_ranges;
mod view_target;
mod view_triggers;
mod whole;
mod write;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use colibri_catalog::{
    Catalog, ColumnAcls, NAME_BYTES_MAX, Relation, Table,
    builtin::Builtin,
    cluster::{Acl, Authority, ObjectKind, PUBLIC_ROLE, Privileges, RoleId},
};
use colibri_types::{Env, Error, Result, SqlState, Type, keywords::is_reserved, letters};
use compact_str::CompactString;
use sqlparser::ast::{self, Spanned as _};
use sqlparser::tokenizer::Span;

use crate::expr::Expr;
pub use crate::logical;
use crate::planner::Sizes;

pub use changes::{BoundChange, Part};
pub use current_of::{CurrentOf, CursorRows};
pub use expr::Bound;
pub use functions::COMPATIBLE_FUNCTIONS;
pub use logical::Query;
pub use merge::{BoundAction, BoundMerge, BoundWhat};
pub use partitions::WrittenTree;
pub use query::{index_column_name, sort_key_options};
pub use security::{Rights, is_leakproof};
pub use types::{TypeNames, bind_type, extension_type};
pub use view_target::{ViewTarget, Writing};
pub use write::{BoundDelete, BoundInsert, BoundUpdate, BoundValue, messages_stay, unique_on};

/// Levels of queries and expressions inside each other, on the stack of any thread.
const DEPTH_MAX: usize = 200;
/// The same on a stack made for deep statements, whose text tells how deep it is.
const DEPTH_MAX_DEEP: usize = 8_000;
/// Levels of queries inside each other that are planned on the stack of any thread: each takes up
/// to 14 kB of it.
const QUERIES_MAX: usize = 110;
/// The same on a stack made for deep statements; the plan runs on that of any thread.
const QUERIES_MAX_DEEP: usize = 200;

/// What names and types are looked up in.
pub struct Binder<'a> {
    /// What every database has.
    builtin: Builtin,
    pub catalog: &'a Catalog,
    pub env: &'a Env,
    pub sizes: &'a dyn Sizes,
    /// The statement, for positions.
    pub text: &'a str,
    /// Schemas, in the order in which they are looked through.
    pub search_path: &'a [CompactString],
    /// Types of parameters, as far as they are known.
    pub params: Vec<Option<Type>>,
    /// Those that are values of domains, where what was cast to a domain told the type.
    pub param_domains: Vec<Option<colibri_types::ColumnType>>,
    /// Parameters asked whether they are NULL, which tells no type.
    pub params_tested: Vec<usize>,
    /// Which parameters are named: one that is not has no type that could be found.
    pub params_named: Vec<bool>,
    /// One for the statement, and one for each query inside an expression that is being bound.
    frames: Vec<Frame>,
    /// WITH queries in sight, the innermost last.
    with: Vec<With>,
    /// Whether the place at hand is not inside any query: a WITH there may have parts that write.
    is_outermost: bool,
    /// These parts, in their order.
    pub parts: Vec<Part>,
    /// What stands around the place at hand and keeps a query from referring to itself, the
    /// innermost last.
    barriers: Vec<recursive::Barrier>,
    at: Levels,
    /// The deepest that has been gone so far, within the query that is measured.
    deepest: Levels,
    /// Levels of queries and expressions that this stack holds.
    depth_max: usize,
    queries_max: usize,
    /// Expressions inside those that were copied since they are looked at more than once.
    copied: usize,
    /// What the parts of the expression that is being bound say of its collation; `None` outside of
    /// expressions.
    collation: Option<collation::Collation>,
    /// What the expression that was bound last, and stood by itself, says of its collation.
    ended_with: collation::Collation,
    /// Copies of WITH queries that depend on an outer query: one is planned for each place that
    /// reads it.
    copies: usize,
    /// Numbers subqueries and shared queries.
    next_id: Cell<usize>,
    /// Types of rows that expressions have.
    row_types: Vec<std::sync::Arc<colibri_types::RowType>>,
    /// System tables read so far, with the numbers under which their rows are kept.
    system: Vec<(&'static str, usize)>,
    /// Tables and views that the statement uses.
    pub used: Vec<u32>,
    /// What whoever runs the statement needs to be allowed.
    pub needs: Vec<Need>,
    /// What names mean, while something is bound that is to be stored.
    meanings: Option<Box<stored::Meanings>>,
    /// A text of the catalogue is being bound.
    is_stored: bool,
    /// Views whose queries are being bound, from the outermost inwards.
    views: Vec<u32>,
    /// Tables whose policies are being bound.
    policies: Vec<u32>,
    /// Whose privileges count instead of the user's: a view's owner's, while its query is bound.
    by: Option<RoleId>,
    /// Where it is noted what a statement reads of the table that it writes to.
    target_read: Option<Arc<columns_read::ColumnsRead>>,
    /// The view that the statement at hand writes to.
    target_view: Option<Arc<view_target::ViewTarget>>,
    /// Whether a session function that changes something, or a volatile one, is called.
    pub has_side_effects: bool,
    /// Whether rows are locked, wherever.
    pub locks_rows: Option<crate::plan::RowLock>,
    /// Set for a cursor's query, whose rows come with what `WHERE CURRENT OF` finds them by.
    pub cursor_rows: Option<CursorRows>,
    /// `WHERE CURRENT OF` a cursor.
    pub current_of: Option<CurrentOf>,
    /// What domains demand, of those met so far, and the levels of their conditions.
    domains: Vec<(Arc<crate::expr::DomainRules>, Levels)>,
    /// Domains whose conditions are being bound.
    open_domains: Vec<u32>,
    /// Whether functions of users are called.
    pub calls_routines: bool,
    /// The columns that FROM lists for a function that gives rows of any kind, which is bound next.
    listed_columns: Option<Vec<(CompactString, colibri_types::ColumnType)>>,
    /// The variables in sight, inside of a body.
    /// The next aggregate gives what it has gathered as it is, for one of a user's.
    gathers: bool,
    /// The same of the aggregate that is being bound.
    gathers_row: bool,
    /// What it binds is kept and not run: policies are applied when it is read.
    pub ignores_policies: bool,
    pub variables: Option<&'a dyn routines::Variables>,
    /// Whether a literal was read in a way that depends on the session: its settings, roles, search
    /// path.
    pub is_personal: bool,
    /// The owners of the rules that the parts of a rewritten statement are of, by their numbers.
    rule_parts: Vec<Vec<RoleId>>,
    /// What a rule does is being bound.
    rule: Option<Box<rule_rights::ByRule<'a>>>,
    /// Users' operators that were met.
    pub used_operators: Vec<u32>,
    /// Functions whose bodies are being bound, from the outermost inwards.
    bodies: Vec<colibri_catalog::ObjectId>,
}

/// A privilege that a statement needs.
#[derive(Debug, Clone)]
pub struct Need {
    on: NeedOn,
    privileges: Privileges,
    /// Whether one of the privileges is enough.
    any: bool,
    /// Who needs it, if not the user.
    pub by: Option<RoleId>,
    /// The columns that it is enough to have it on.
    columns: OnColumns,
}

/// On which columns of a relation a privilege is enough, where there is none on the relation. On no
/// column in particular, any column will do.
#[derive(Debug, Clone)]
enum OnColumns {
    /// Nothing less than the relation is enough.
    Relation,
    /// Those that are read.
    Read(Arc<columns_read::ColumnsRead>),
    /// The same, but nothing is needed if none is read.
    IfRead(Arc<columns_read::ColumnsRead>),
    Listed(Vec<usize>),
}

#[derive(Debug, Clone)]
enum NeedOn {
    Relation(u32),
    Schema(CompactString),
    Routine(u32),
}

impl Need {
    /// 55000 if it is about the rows of a materialized view that has none yet.
    pub fn expect_populated(&self, catalog: &Catalog) -> Result<()> {
        let NeedOn::Relation(id) = &self.on else { return Ok(()) };
        match catalog.table(*id) {
            Some(table) if table.materialized.is_some_and(|view| !view.populated) => {
                let message = format!("materialized view \"{}\" has not been populated", table.name);
                Err(Error::new(SqlState::NOT_IN_PREREQUISITE_STATE, message)
                    .hint("Use the REFRESH MATERIALIZED VIEW command."))
            }
            _ => Ok(()),
        }
    }

    /// Whether it is had on the columns that matter.
    fn has_on_columns(&self, authority: &Authority, acls: &ColumnAcls) -> bool {
        let has = |acl: &Acl| {
            let has = authority.privileges(ObjectKind::Table, PUBLIC_ROLE, Some(acl));
            self.privileges.without(has).is_empty()
        };
        let has_on = |column: usize| acls.get(&column).is_some_and(has);
        match &self.columns {
            OnColumns::Relation => false,
            OnColumns::Read(read) if read.is_empty() => acls.values().any(has),
            OnColumns::Read(read) | OnColumns::IfRead(read) => read.all(has_on),
            OnColumns::Listed(columns) if columns.is_empty() => acls.values().any(has),
            OnColumns::Listed(columns) => columns.iter().copied().all(has_on),
        }
    }

    /// Refuses whoever has it not.
    pub fn check(&self, catalog: &Catalog, authority: &Authority) -> Result<()> {
        let has = |kind, owner, acl: Option<&Acl>| {
            let missing = self.privileges.without(authority.privileges(kind, owner, acl));
            if self.any { missing != self.privileges } else { missing.is_empty() }
        };
        match &self.on {
            NeedOn::Schema(name) => match catalog.schema(name) {
                Some(schema) if !has(ObjectKind::Schema, schema.owner, schema.acl.as_ref()) => {
                    Err(Error::denied("schema", name))
                }
                _ => Ok(()),
            },
            NeedOn::Routine(id) => match catalog.routine(*id) {
                Some(routine) if !has(ObjectKind::Function, routine.owner, routine.acl.as_ref()) => {
                    Err(Error::denied(routine.kind(), &routine.name))
                }
                _ => Ok(()),
            },
            NeedOn::Relation(id) => {
                if matches!(&self.columns, OnColumns::IfRead(read) if read.is_empty()) {
                    return Ok(());
                }
                if let Some(table) = catalog.table(*id) {
                    if !has(ObjectKind::Table, table.owner, table.acl.as_ref())
                        && !self.has_on_columns(authority, &table.column_acls)
                    {
                        let is_view = table.materialized.is_some();
                        return Err(Error::denied(if is_view { "materialized view" } else { "table" }, &table.name));
                    }
                } else if let Some(view) = catalog.view(*id) {
                    if !has(ObjectKind::Table, view.owner, view.acl.as_ref())
                        && !self.has_on_columns(authority, &view.column_acls)
                    {
                        return Err(Error::denied("view", &view.name));
                    }
                } else if let Some(sequence) = catalog.sequence(*id)
                    && !has(ObjectKind::Sequence, sequence.owner, sequence.acl.as_ref())
                {
                    return Err(Error::denied("sequence", &sequence.name));
                }
                Ok(())
            }
        }
    }
}

/// A query that is run on its own, with the queries that are part of it.
#[derive(Default)]
struct Frame {
    scopes: Vec<Scope>,
    /// What it takes from outside, as expressions of the frame around it.
    args: Vec<Expr>,
}

/// The names that expressions of one SELECT see.
#[derive(Default)]
struct Scope {
    tables: Vec<ScopeTable>,
    /// Columns joined by USING or NATURAL: an unqualified name means these.
    merged: Vec<Merged>,
    /// Columns of the wide row so far.
    width: usize,
    /// Aggregates found in the expressions being bound; `None` where there may be none.
    calls: Option<Vec<crate::plan::AggregateCall>>,
    /// Direct arguments of aggregates with WITHIN GROUP, and where they stand.
    direct_args: Vec<(Expr, Span)>,
    /// There is a GROUPING in it.
    has_groupings: bool,
    /// What was found of functions that give rows, and of window functions; `None` where there may
    /// be none.
    extras: Option<Vec<logical::Extra>>,
    /// How many calls of functions that give rows were met.
    rows_calls: usize,
    /// Why there may be no aggregates here.
    no_calls: &'static str,
    /// Inside an aggregate's arguments.
    in_call: bool,
    /// Inside a call over a window: why there may be no other one here. Empty outside.
    in_window: &'static str,
    /// The windows that WINDOW names.
    windows: Arc<functions::NamedWindows>,
    /// The windows that are computed: what each is partitioned and ordered by.
    computed_windows: Vec<(Vec<Expr>, Vec<crate::plan::SortKey>)>,
    /// Keys of GROUP BY by which different texts are equal.
    folded_keys: Vec<collation::FoldedKey>,
    /// Columns that were named outside of aggregates, and where: for what is said of those that are
    /// not grouped by.
    references: Vec<(usize, Span)>,
}

/// A relation under a name.
struct ScopeTable {
    name: CompactString,
    schema: Option<CompactString>,
    base: usize,
    columns: Vec<logical::Column>,
    /// Columns not to be found: dropped ones and hidden ones.
    hidden: Vec<bool>,
    /// An alias of a join hides the names inside.
    visible: bool,
    /// Its number in the catalogue, which is its `tableoid`.
    oid: Option<u32>,
    /// A column that no row of it has as NULL.
    marker: Option<usize>,
    /// The name of the type of its rows.
    row_name: CompactString,
    /// Whether its rows are the values of one function.
    is_scalar: bool,
    /// Whether an outer join may find no row of it.
    is_nullable: bool,
    /// Of a view's column that is computed: how. It has no place.
    computed: Option<Expr>,
    /// Where it is noted which columns are read, and what number the first of them has there.
    read: Option<(Arc<columns_read::ColumnsRead>, usize)>,
}

/// A column that stands for several.
#[derive(Clone)]
struct Merged {
    name: CompactString,
    expr: Expr,
    ty: Type,
    /// The columns that it stands for.
    parts: Vec<usize>,
}

/// How deep something is.
#[derive(Debug, Clone, Copy, Default)]
struct Levels {
    /// Queries and expressions inside each other.
    all: usize,
    /// Queries alone.
    queries: usize,
}

impl Levels {
    fn with(self, all: usize, queries: usize) -> Self {
        Self { all: self.all + all, queries: self.queries + queries }
    }

    fn max(self, other: Self) -> Self {
        Self { all: self.all.max(other.all), queries: self.queries.max(other.queries) }
    }
}

struct With {
    name: CompactString,
    columns: Vec<logical::Column>,
    source: WithSource,
    /// How deep it is, with the queries that it refers to.
    levels: Levels,
    /// How many copies of other WITH queries are planned in its place.
    copies: usize,
    /// Frames that were open when it was bound: it may refer to their rows only from inside the
    /// same one.
    frame: usize,
}

/// What a WITH query stands for.
enum WithSource {
    Query {
        id: usize,
        query: Arc<Query>,
        /// It takes values from a query around it.
        uses_args: bool,
        /// How often it is read so far; see [`logical::Source::Shared`].
        reads: Arc<AtomicUsize>,
    },
    /// A part of the statement that writes.
    Part {
        id: usize,
        /// Whether it has a RETURNING.
        returns: bool,
    },
    /// It refers to itself and is being bound: the rows of its last round.
    Working {
        id: usize,
        /// How many barriers stand around it.
        barriers: usize,
        /// How often it was referred to.
        references: usize,
    },
}

/// An identifier as PostgreSQL reads it: in lower case unless it was quoted, cut to 63 bytes.
pub fn fold(ident: &ast::Ident) -> CompactString {
    let mut name = match ident.quote_style {
        Some(_) => CompactString::new(&ident.value),
        None => CompactString::new(ident.value.to_ascii_lowercase()),
    };
    if name.len() > NAME_BYTES_MAX {
        let end = (0..=NAME_BYTES_MAX).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
        name.truncate(end);
    }
    name
}

/// Refuses a reserved word as a name.
pub fn check_name(text: &str, ident: &ast::Ident) -> Result<()> {
    if ident.quote_style.is_some() || !is_reserved(&ident.value) {
        return Ok(());
    }
    let error = Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{}\"", ident.value));
    Err(match position(text, ident.span) {
        0 => error,
        position => error.at(position),
    })
}

/// The parts of a qualified name.
pub fn name_parts(name: &ast::ObjectName) -> Result<Vec<&ast::Ident>> {
    name.0
        .iter()
        .map(|part| match part {
            ast::ObjectNamePart::Identifier(ident) => Ok(ident),
            ast::ObjectNamePart::Function(_) => Err(Error::new(SqlState::SYNTAX_ERROR, "a name was expected")),
        })
        .collect()
}

/// Schema, if given, and name. Of three parts the first is a database: see [`in_database`].
pub fn qualified(name: &ast::ObjectName) -> Result<(Option<CompactString>, CompactString)> {
    match *name_parts(name)? {
        [name] => Ok((None, fold(name))),
        [schema, name] | [_, schema, name] => Ok((Some(fold(schema)), fold(name))),
        _ => {
            Err(Error::new(SqlState::SYNTAX_ERROR, format!("improper qualified name (too many dotted names): {name}")))
        }
    }
}

/// Schema, if given, and name, of something in this database. 0A000 if the name says that it is
/// another's.
pub fn in_database(database: &str, name: &ast::ObjectName) -> Result<(Option<CompactString>, CompactString)> {
    if let [first, _, _] = *name_parts(name)? {
        expect_database(database, &fold(first), || name_parts_text(name))?;
    }
    qualified(name)
}

/// 0A000 if a name is of another database than the one at hand.
pub fn expect_database(database: &str, named: &str, whole: impl FnOnce() -> String) -> Result<()> {
    if named == database {
        return Ok(());
    }
    let message = format!("cross-database references are not implemented: \"{}\"", whole());
    Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
}

/// A name as messages show it: its parts folded, with dots between them.
fn name_parts_text(name: &ast::ObjectName) -> String {
    let parts = name_parts(name).unwrap_or_default();
    parts.iter().map(|part| fold(part)).collect::<Vec<_>>().join(".")
}

/// Where an expression begins, as its span says. The span is that of all that is inside; asked for
/// at each level, it would cost the square of the depth.
fn start_of(expr: &ast::Expr) -> Span {
    use ast::Expr as E;
    let mut first = expr;
    let span = loop {
        first = match first {
            E::Nested(inner)
            | E::UnaryOp { expr: inner, .. }
            | E::BinaryOp { left: inner, .. }
            | E::AnyOp { left: inner, .. }
            | E::AllOp { left: inner, .. }
            | E::Between { expr: inner, .. }
            | E::InList { expr: inner, .. }
            | E::InSubquery { expr: inner, .. }
            | E::Like { expr: inner, .. }
            | E::ILike { expr: inner, .. }
            | E::SimilarTo { expr: inner, .. }
            | E::IsDistinctFrom(inner, _)
            | E::IsNotDistinctFrom(inner, _)
            | E::AtTimeZone { timestamp: inner, .. }
            | E::Collate { expr: inner, .. }
            | E::CompoundFieldAccess { root: inner, .. }
            | E::Cast { expr: inner, .. }
            | E::IsNull(inner)
            | E::IsNotNull(inner)
            | E::IsTrue(inner)
            | E::IsNotTrue(inner)
            | E::IsFalse(inner)
            | E::IsNotFalse(inner)
            | E::IsUnknown(inner)
            | E::IsNotUnknown(inner) => inner,
            E::Case { case_token, .. } => break case_token.0.span,
            E::Function(function) => break function.name.0.first().map_or(Span::empty(), |part| part.span()),
            other => break other.span(),
        };
    };
    if span.start.line > 0 { span } else { expr.span() }
}

/// The place of a span in a text, in characters from 1; 0 if the span or the text is empty.
pub fn position(text: &str, span: Span) -> u32 {
    // Where the text is not at hand, a place in it would be a guess.
    if span.start.line == 0 || text.is_empty() {
        return 0;
    }
    let before: usize =
        text.split_inclusive('\n').take(span.start.line as usize - 1).map(|line| line.chars().count()).sum();
    (before as u64 + span.start.column) as u32
}

/// Words that stand for operators.
const OPERATOR_WORDS: [&str; 9] = ["not", "in", "between", "like", "ilike", "similar", "is", "operator", "collate"];

/// Where an operator stands between its operands, counted in characters from 1. Strings, quoted
/// names and comments are passed over.
fn operator_position(text: &str, symbol: &str, left: Span, right: Span) -> Option<u32> {
    let end_of_left = position(text, Span { start: left.end, end: left.end });
    let first = end_of_left.max(position(text, left)).checked_sub(1)? as usize;
    let last = (position(text, right) as usize).checked_sub(1).filter(|&last| last > first)?;
    let between: Vec<char> = text.chars().take(last).skip(first).collect();
    let begins = |at: usize, word: &str| {
        let rest = between[at..].iter().copied();
        word.chars().zip(rest).filter(|(one, other)| one.eq_ignore_ascii_case(other)).count() == word.chars().count()
    };
    let is_letter =
        |at: usize| between.get(at).is_some_and(|c| c.is_ascii_alphanumeric() || !c.is_ascii() || *c == '_');
    let mut at = 0;
    while at < between.len() {
        let ends: &str = match between[at] {
            '\'' => "'",
            '"' => "\"",
            '-' if begins(at, "--") => "\n",
            '/' if begins(at, "/*") => "*/",
            _ => "",
        };
        if !ends.is_empty() {
            at += 1;
            while at < between.len() && !begins(at, ends) {
                at += 1;
            }
            at += ends.len();
            continue;
        }
        let is_there = begins(at, symbol) || symbol == "<>" && begins(at, "!=");
        let starts_word = is_letter(at) && (at == 0 || !is_letter(at - 1));
        let is_word = |word: &&str| starts_word && begins(at, word) && !is_letter(at + word.len());
        if is_there || OPERATOR_WORDS.iter().any(is_word) {
            return Some((first + at + 1) as u32);
        }
        at += 1;
    }
    None
}

/// Where an operator stands in front of its operand, counted in characters from 1.
fn operator_before(text: &str, symbol: &str, operand: Span) -> Option<u32> {
    let at = (position(text, operand) as usize).checked_sub(1)?;
    let before: Vec<char> = text.chars().take(at).collect();
    let end = before.iter().rposition(|&c| !letters::is_blank_char(c) && c != '(')? + 1;
    let start = end.checked_sub(symbol.chars().count())?;
    let is_there = before[start..end].iter().zip(symbol.chars()).all(|(one, other)| one.eq_ignore_ascii_case(&other));
    is_there.then_some(start as u32 + 1)
}

impl<'a> Binder<'a> {
    pub fn new(
        builtin: Builtin,
        catalog: &'a Catalog,
        env: &'a Env,
        sizes: &'a dyn Sizes,
        text: &'a str,
        search_path: &'a [CompactString],
        params: Vec<Option<Type>>,
    ) -> Self {
        let is_deep = crate::deep_stack::is_on_deep_stack();
        // Clients name types as they were when they asked.
        let newest = |ty: Type| types::current_type(catalog, ty).unwrap_or(ty);
        let params = params.into_iter().map(|ty| ty.map(newest)).collect();
        Self {
            builtin,
            catalog,
            env,
            sizes,
            text,
            search_path,
            params,
            param_domains: Vec::new(),
            params_tested: Vec::new(),
            params_named: Vec::new(),
            frames: vec![Frame::default()],
            with: Vec::new(),
            is_outermost: true,
            parts: Vec::new(),
            barriers: Vec::new(),
            at: Levels::default(),
            deepest: Levels::default(),
            copied: 0,
            depth_max: if is_deep { DEPTH_MAX_DEEP } else { DEPTH_MAX },
            queries_max: if is_deep { QUERIES_MAX_DEEP } else { QUERIES_MAX },
            collation: None,
            ended_with: collation::Collation::default(),
            copies: 0,
            next_id: Cell::new(0),
            row_types: Vec::new(),
            system: Vec::new(),
            used: Vec::new(),
            needs: Vec::new(),
            meanings: None,
            is_stored: false,
            views: Vec::new(),
            policies: Vec::new(),
            by: None,
            target_read: None,
            target_view: None,
            has_side_effects: false,
            locks_rows: None,
            cursor_rows: None,
            current_of: None,
            domains: Vec::new(),
            open_domains: Vec::new(),
            calls_routines: false,
            listed_columns: None,
            gathers: false,
            gathers_row: false,
            ignores_policies: false,
            variables: None,
            is_personal: false,
            rule_parts: Vec::new(),
            rule: None,
            used_operators: Vec::new(),
            bodies: Vec::new(),
        }
    }

    fn new_id(&self) -> usize {
        self.next_id.replace(self.next_id.get() + 1)
    }

    /// Says where in the text an error is.
    fn at<T>(&self, span: Span, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.place(span, error))
    }

    fn place(&self, span: Span, error: Error) -> Error {
        match position(self.text, span) {
            0 => error,
            position => error.at(position),
        }
    }

    /// Places an error at an operator, or at the word that stands for one, between its operands.
    fn place_between(&self, symbol: &str, left: Span, right: Span, error: Error) -> Error {
        match operator_position(self.text, symbol, left, right) {
            Some(position) => error.at(position),
            None => self.place(if left.start.line > 0 { left } else { right }, error),
        }
    }

    /// An error about an operator in front of its operand.
    fn place_before(&self, symbol: &str, operand: Span, error: Error) -> Error {
        match operator_before(self.text, symbol, operand) {
            Some(position) => error.at(position),
            None => self.place(operand, error),
        }
    }

    /// 0A000 if a name of `parts` parts or more begins with another database's than the one at
    /// hand.
    fn expect_here(&self, name: &ast::ObjectName, parts: usize) -> Result<()> {
        match *name_parts(name)? {
            [first, ..] if name.0.len() >= parts => {
                expect_database(&self.env.database, &fold(first), || name_parts_text(name))
            }
            _ => Ok(()),
        }
    }

    /// Binds a query one level down.
    fn deeper<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.levels_down(1, bind)
    }

    /// Binds what is nested one expression deeper, or `queries` levels of queries deeper.
    fn levels_down<T>(&mut self, queries: usize, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let around = self.at;
        if self.is_too_deep(around) {
            return Err(colibri_syntax::too_deep());
        }
        self.at = around.with(queries.max(1), queries);
        self.deepest = self.deepest.max(self.at);
        let bound = bind(self);
        self.at = around;
        bound
    }

    fn is_too_deep(&self, levels: Levels) -> bool {
        levels.all >= self.depth_max || levels.queries >= self.queries_max
    }

    /// Binds a query that others refer to, and gives how many levels it has.
    fn measured<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, Levels)> {
        let around = std::mem::replace(&mut self.deepest, self.at);
        let bound = bind(self);
        let deepest = std::mem::replace(&mut self.deepest, around);
        let levels = Levels { all: deepest.all - self.at.all, queries: deepest.queries - self.at.queries };
        Ok((bound?, levels))
    }

    /// Counts the levels of a WITH query that is referred to here. Later passes walk into it from
    /// here, so its levels add to those around. 54001 if that makes too many.
    fn deepens(&mut self, levels: Levels) -> Result<()> {
        self.deepest = self.deepest.max(self.at.with(levels.all, levels.queries));
        if self.is_too_deep(self.deepest) { Err(colibri_syntax::too_deep()) } else { Ok(()) }
    }

    /// What a name means in the schemas looked through.
    pub fn relation(&self, name: &ast::ObjectName) -> Result<Option<&'a Relation>> {
        for part in name_parts(name)? {
            check_name(self.text, part)?;
        }
        let (schema, relation) = in_database(&self.env.database, name)?;
        match schema {
            Some(schema) => Ok(self.catalog.relation(&schema, &relation)),
            None => Ok(self.catalog.find(&[relation], self.search_path)),
        }
    }

    /// A type by its name.
    pub fn type_named(&self, data_type: &ast::DataType) -> Result<colibri_types::ColumnType> {
        let search_path = self.types_path();
        types::TypeNames { database: &self.env.database, catalog: self.catalog, search_path }.find(data_type)
    }

    /// The schemas that types are looked for in: a stored text means the same for everybody.
    fn types_path(&self) -> &[CompactString] {
        if self.is_stored { &stored::SEARCH_PATH } else { self.search_path }
    }

    /// Binds a text that the catalogue holds.
    fn stored<T>(&mut self, bind: impl FnOnce(&mut Self) -> T) -> T {
        let around = std::mem::replace(&mut self.is_stored, true);
        let bound = bind(self);
        self.is_stored = around;
        bound
    }

    /// The relation of the system that a name means, if it means no other one.
    pub fn system_relation(
        &self,
        name: &ast::ObjectName,
    ) -> Result<Option<&'static colibri_catalog::system_tables::SystemTable>> {
        let (schema, relation) = in_database(&self.env.database, name)?;
        Ok(self.builtin.tables.table(schema.as_deref().unwrap_or("pg_catalog"), &relation))
    }

    /// A table, for writing or changing.
    pub fn table(&mut self, name: &ast::ObjectName) -> Result<Arc<Table>> {
        let found = self.relation(name)?;
        let result = match found {
            Some(Relation::Table(table)) => Ok(Arc::clone(table)),
            Some(Relation::View(view)) => {
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", view.name)))
            }
            Some(other) => {
                let (_, name) = qualified(name)?;
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is a {}, not a table", other.kind())))
            }
            None => match self.system_relation(name)? {
                Some(system) => Err(no_change_of_system(system.name)),
                None => Err(no_such_relation(name)),
            },
        };
        let table = self.at(name_span(name), result)?;
        self.used.push(table.id);
        Ok(table)
    }

    /// Forgets the privileges that reading relations needs, but for the use of schemas: a view may be
    /// made by whoever cannot read it.
    pub fn forget_reads(&mut self) {
        self.needs.retain(|need| matches!(need.on, NeedOn::Schema(_)) && need.by.is_none());
    }

    /// The statement needs privileges on a relation, and the use of its schema.
    pub fn need(&mut self, id: u32, schema: &CompactString, privileges: Privileges) {
        self.need_on(id, schema, privileges, OnColumns::Relation);
    }

    fn need_on(&mut self, id: u32, schema: &CompactString, privileges: Privileges, columns: OnColumns) {
        let by = self.by;
        self.needs.push(Need {
            on: NeedOn::Schema(schema.clone()),
            privileges: Privileges::USAGE,
            any: false,
            by,
            columns: OnColumns::Relation,
        });
        self.needs.push(Need { on: NeedOn::Relation(id), privileges, any: false, by, columns });
    }

    /// The statement reads columns of a relation, which are noted as their names are met.
    fn need_read(&mut self, id: u32, schema: &CompactString) -> Arc<columns_read::ColumnsRead> {
        let read = Arc::default();
        self.need_on(id, schema, Privileges::SELECT, OnColumns::Read(Arc::clone(&read)));
        read
    }

    /// The same of what a statement writes to, which it need not read.
    fn need_if_read(&mut self, id: u32, schema: &CompactString, read: &Arc<columns_read::ColumnsRead>) {
        self.need_on(id, schema, Privileges::SELECT, OnColumns::IfRead(Arc::clone(read)));
    }

    /// The statement needs a privilege on some columns; on any column if it lists none.
    pub fn need_columns(&mut self, id: u32, schema: &CompactString, privilege: Privileges, columns: Vec<usize>) {
        self.need_on(id, schema, privilege, OnColumns::Listed(columns));
    }

    /// What is read of the relation that was added last is noted here.
    fn notes_reads(&mut self, read: &Arc<columns_read::ColumnsRead>) {
        if let Some(last) = self.scope().tables.last_mut() {
            last.read = Some((Arc::clone(read), 0));
        }
    }

    /// The statement takes values from a sequence.
    pub(super) fn need_sequence(&mut self, id: u32) {
        let privileges = Privileges::USAGE.with(Privileges::UPDATE);
        let (on, by) = (NeedOn::Relation(id), self.by);
        self.needs.push(Need { on, privileges, any: true, by, columns: OnColumns::Relation });
    }

    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("the statement's frame is never taken away")
    }

    fn scope(&mut self) -> &mut Scope {
        self.frame().scopes.last_mut().expect("expressions are bound within a scope")
    }
}

/// The place of a name.
pub fn name_span(name: &ast::ObjectName) -> Span {
    match name.0.first() {
        Some(ast::ObjectNamePart::Identifier(ident)) => ident.span,
        _ => Span::empty(),
    }
}

/// `relation "x" does not exist`
/// The system's relations are computed from the catalogue: nobody changes them by themselves.
pub fn no_change_of_system(name: &str) -> Error {
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied: \"{name}\" is a system catalog"))
}

pub fn no_such_relation(name: &ast::ObjectName) -> Error {
    let parts: Vec<_> = name_parts(name).unwrap_or_default().into_iter().map(fold).collect();
    Error::new(SqlState::NO_SUCH_TABLE, format!("relation \"{}\" does not exist", parts.join(".")))
}

#[cfg(test)]
mod tests {
    use sqlparser::tokenizer::Location;

    use super::*;

    #[test]
    fn an_operator_is_found_between_its_operands() {
        let span = |from: u64, to: u64| Span {
            start: Location { line: 1, column: from },
            end: Location { line: 1, column: to },
        };
        let at = |text: &str, symbol: &str, left: (u64, u64), right: u64| {
            operator_position(text, symbol, span(left.0, left.1), span(right, right + 1))
        };
        assert_eq!(at("1 + true", "+", (1, 2), 5), Some(3));
        assert_eq!(at("a::oid /* + */ + 1", "+", (1, 2), 18), Some(16));
        assert_eq!(at("'+' + '-'", "+", (1, 4), 7), Some(5));
        assert_eq!(at("a != b", "<>", (1, 2), 6), Some(3));
        assert_eq!(at("inn NOT IN (1)", "=", (1, 4), 13), Some(5));
        assert_eq!(at("(inner1) like 'x'", "~~", (2, 8), 15), Some(10));
        assert_eq!(at("é = ü", "=", (1, 2), 5), Some(3));
        assert_eq!(at("a b", "+", (1, 2), 3), None);
        assert_eq!(at("a", "+", (1, 2), 1), None);
    }
}

//! Plans as text, in PostgreSQL's form as far as the operators are alike.
//!
//! ```text
//! Sort  (actual time=0.118 rows=2 loops=1)
//!   Sort Key: name
//!   ->  Index Scan using birds_pkey on birds  (rows=2) (actual time=0.097 rows=2 loops=1)
//!         Index Cond: (id < 3)
//! ```
//! There are no costs: the planner counts rows, and shows what it counted where a table is read.
//! Times are an operator's with those below it, a loop's on average as in PostgreSQL.
//!
//! Invariants: a plan is only looked at. Projections are not shown: they are part of the operator
//! below.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use colibri_txn::Direction;
use colibri_types::functions::{JsonRows, SearchRows};
use colibri_types::prefix::PatternKind;

use crate::expr::walk;
use crate::expr::{Expr, Subquery};
use crate::plan::columns::Columns;
use crate::plan::parallel;
use crate::plan::{
    Access, AggregateCall, AssignedValue, ConflictAction, Each, Exclude, Fragment, FrameBound, FrameUnits, IfRowLocked,
    JoinKind, KeyColumn, KeyPart, KeyRanges, Most, Node, RestId, Scan, Series, SetOp, SortKey, SystemValues,
    TokenCondition, WindowCall, WindowFunction,
};

mod expression;
mod json;
mod usage;

use expression::{Names, expr_text, list_text};
pub use usage::{Spilled, Usage};

/// What to show.
#[derive(Debug, Clone, Copy)]
pub struct ExplainOptions {
    /// What each operator gives.
    pub verbose: bool,
    /// How many rows the planner counted with.
    pub costs: bool,
    /// Times, with ANALYZE.
    pub timing: bool,
    /// Groupings may work on column vectors.
    pub columns: bool,
}

impl Default for ExplainOptions {
    fn default() -> Self {
        Self { verbose: false, costs: true, timing: true, columns: true }
    }
}

/// What an operator did, for EXPLAIN ANALYZE.
#[derive(Debug, Clone, Copy, Default)]
pub struct Actual {
    pub rows: u64,
    /// How often it was run from its start.
    pub loops: u64,
    /// With the operators below it.
    pub time: Duration,
    /// Of those that keep rows: the most of all times that it was run.
    pub usage: Option<Usage>,
    /// What was kept of all that it gave, as the rows that an expression compares with.
    pub set: Option<Usage>,
}

/// An execution that counts what its operators do.
pub trait Watched {
    /// What the operator of a number in the plan's order did (see [`Node::for_each_operator`]), if
    /// it has run.
    fn actual(&self, operator: usize) -> Option<Actual>;
}

/// The lines that show a plan; with an execution that was watched (see [`Watched`]) what its
/// operators did as well.
pub fn explain(fragment: &Fragment, watched: Option<&dyn Watched>, options: ExplainOptions) -> Vec<String> {
    shown(fragment, watched, options).iter().map(|part| part.line(options)).collect()
}

/// The same as one JSON text, with what is said of the statement as a whole behind the plan.
pub fn explain_json(
    fragment: &Fragment,
    watched: Option<&dyn Watched>,
    options: ExplainOptions,
    summary: &[(&str, f64)],
) -> String {
    json::plan(&shown(fragment, watched, options), options, summary)
}

fn shown(fragment: &Fragment, watched: Option<&dyn Watched>, options: ExplainOptions) -> Vec<Part> {
    let mut numbers = HashMap::new();
    if watched.is_some() {
        fragment.root.for_each_operator(&mut |node| {
            numbers.insert(std::ptr::from_ref(node), numbers.len());
        });
    }
    let mut writer = Writer {
        parts: Vec::new(),
        watched,
        numbers,
        options,
        set: None,
        qualified: scans(&fragment.root, &mut Vec::new()) > 1,
        shared: Vec::new(),
        shown_outer: Vec::new(),
        shared_names: RefCell::default(),
    };
    writer.node(&fragment.root, &mut Vec::new(), Place { indent: 0, child: false });
    writer.parts
}

/// An expression over columns of these names.
pub fn expr_text_over(expr: &Expr, columns: &[String]) -> String {
    expr_text(expr, Names { columns, slots: &[] })
}

/// The name of a function that gives rows.
fn function_name(series: Series) -> &'static str {
    match series {
        Series::Ints | Series::Numerics | Series::Timestamps | Series::TimestampTzs => "generate_series",
        Series::Unnest => "unnest",
        Series::Subscripts => "generate_subscripts",
        Series::Routine => "function",
        Series::Expanded => "_pg_expandarray",
        Series::Matches => "regexp_matches",
        Series::Split => "regexp_split_to_table",
        Series::Pieces => "string_to_table",
        Series::Json(JsonRows::Elements { .. }) => "json_array_elements",
        Series::Json(JsonRows::Members { .. }) => "json_each",
        Series::Json(JsonRows::Keys) => "json_object_keys",
        Series::Json(JsonRows::Query { .. }) => "jsonb_path_query",
        Series::Json(JsonRows::Records) => "json_populate_recordset",
        Series::Search(SearchRows::Lexemes) => "unnest",
        Series::Search(SearchRows::Kinds) => "ts_token_type",
        Series::Search(SearchRows::Tokens) => "ts_parse",
        Series::Search(SearchRows::Debug) => "ts_debug",
        Series::Search(SearchRows::Pairs) => "each",
        Series::Search(SearchRows::Privileges) => "aclexplode",
        Series::One => "value",
    }
}

/// How many tables a plan reads.
fn scans(node: &Node, seen: &mut Vec<usize>) -> usize {
    if let Node::Shared { id, .. } = node {
        if seen.contains(id) {
            return 0;
        }
        seen.push(*id);
    }
    let own = usize::from(matches!(node, Node::Scan(_) | Node::Update(_) | Node::Delete(_) | Node::Merge(_)));
    own + children(node).into_iter().map(|child| scans(child, seen)).sum::<usize>()
}

fn children(node: &Node) -> Vec<&Node> {
    match node {
        Node::Values { .. }
        | Node::Series { .. }
        | Node::System { .. }
        | Node::Scan(_)
        | Node::CountRange { .. }
        | Node::GroupScan(_) => Vec::new(),
        Node::Expand { input, .. } | Node::Window { input, .. } => vec![&**input],
        Node::Filter { input, .. }
        | Node::Project { input, .. }
        | Node::GroupingSets { input, .. }
        | Node::Aggregate { input, .. }
        | Node::Distinct { input, .. }
        | Node::Sort { input, .. }
        | Node::Limit { input, .. }
        | Node::LockRows { input, .. } => vec![&**input],
        Node::NestedLoop { outer, inner, .. } => vec![&**outer, &**inner],
        Node::HashJoin { left, right, .. } | Node::MergeJoin { left, right, .. } | Node::SetOp { left, right, .. } => {
            vec![&**left, &**right]
        }
        Node::Append { inputs } => inputs.iter().collect(),
        Node::Shared { input, .. } | Node::Parallel { input } => vec![&**input],
        Node::Keyed { input, .. } => vec![&**input],
        Node::Switch { plain, .. } => vec![&**plain],
        Node::FirstRows { in_order, .. } => vec![&**in_order],
        Node::Choice { many, .. } => vec![&**many],
        Node::AdaptiveJoin { few, .. } => vec![&**few],
        Node::Rest { outer, .. } => vec![&**outer],
        Node::Recursive { first, again, .. } => vec![&**first, &**again],
        Node::Working { .. } => Vec::new(),
        Node::Insert(insert) => vec![&insert.source],
        Node::Update(update) => vec![&update.source],
        Node::Delete(delete) => vec![&delete.source],
        Node::Merge(merge) => vec![&merge.source],
        Node::Parts { main, parts } => std::iter::once(&**main).chain(parts).collect(),
    }
}

/// Where a node's lines begin.
#[derive(Clone, Copy)]
struct Place {
    indent: usize,
    child: bool,
}

impl Place {
    /// Of the lines that belong to the node.
    fn inside(self) -> usize {
        self.indent + if self.child { 6 } else { 2 }
    }

    fn below(self) -> Self {
        Self { indent: self.inside(), child: true }
    }
}

/// Something that is shown, and how far to the right: what is below an operator stands further
/// right than it does.
struct Part {
    indent: usize,
    what: What,
}

enum What {
    Operator {
        is_child: bool,
        label: String,
        /// Rows that the planner counted with, where a table is read.
        rows: Option<f64>,
        /// What it did, if it was watched and has run.
        actual: Option<Option<Actual>>,
    },
    Property {
        name: &'static str,
        values: Vec<String>,
    },
    /// What the operator in front of it kept.
    Usage(Usage),
    /// What the operator behind it is there for.
    Note(String),
}

impl Part {
    fn line(&self, options: ExplainOptions) -> String {
        let text = match &self.what {
            What::Operator { is_child, label, rows, actual } => {
                let arrow = if *is_child { "->  " } else { "" };
                format!("{arrow}{label}{}", figures(*rows, *actual, options))
            }
            What::Property { name, values } => format!("{name}: {}", values.join(", ")),
            What::Usage(usage) => usage.line(),
            What::Note(text) => text.clone(),
        };
        format!("{:indent$}{text}", "", indent = self.indent)
    }
}

/// What is shown behind an operator's name.
fn figures(rows: Option<f64>, actual: Option<Option<Actual>>, options: ExplainOptions) -> String {
    let mut text = String::new();
    if let Some(rows) = rows {
        let _ = write!(text, "  (rows={rows:.0})");
    }
    let Some(actual) = actual else { return text };
    text.push_str(if text.is_empty() { "  (" } else { " (" });
    match actual {
        None => text.push_str("never executed"),
        Some(actual) => {
            let loops = actual.loops.max(1);
            if options.timing {
                let _ = write!(text, "actual time={:.3} ", actual.time.as_secs_f64() * 1e3 / loops as f64);
            } else {
                text.push_str("actual ");
            }
            let _ = write!(text, "rows={:.0} loops={loops}", actual.rows as f64 / loops as f64);
        }
    }
    text.push(')');
    text
}

struct Writer<'e> {
    parts: Vec<Part>,
    watched: Option<&'e dyn Watched>,
    /// The operators' numbers, if they were watched.
    numbers: HashMap<*const Node, usize>,
    options: ExplainOptions,
    /// What was kept of all that the next operator, or one above it that is not shown, gave.
    set: Option<Usage>,
    /// Whether columns are shown with their tables.
    qualified: bool,
    /// WITH queries that were shown already.
    shared: Vec<usize>,
    /// Adaptive joins whose outer side was shown already.
    shown_outer: Vec<RestId>,
    /// What their columns are called.
    shared_names: RefCell<HashMap<usize, Vec<String>>>,
}

/// A column's name, which is the expression that it is: of one over others that are over others,
/// the beginning.
fn shortened(mut name: String) -> String {
    const NAME_BYTES_MAX: usize = 200;
    if name.len() > NAME_BYTES_MAX {
        name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
        name.push('…');
    }
    name
}

fn join_name(kind: JoinKind) -> &'static str {
    match kind {
        JoinKind::Inner => "",
        JoinKind::Left => " Left",
        JoinKind::Right => " Right",
        JoinKind::Full => " Full",
        JoinKind::Semi => " Semi",
        JoinKind::Anti => " Anti",
    }
}

fn sort_key(key: &SortKey, names: Names<'_>) -> String {
    let mut text = expr_text(&key.expr, names);
    if key.descending {
        text.push_str(" DESC");
    }
    match (key.descending, key.nulls_first) {
        (true, false) => text.push_str(" NULLS LAST"),
        (false, true) => text.push_str(" NULLS FIRST"),
        _ => {}
    }
    text
}

fn call_text(call: &AggregateCall, names: Names<'_>) -> String {
    let mut text = format!("{}(", call.aggregate.name);
    if call.distinct {
        text.push_str("DISTINCT ");
    }
    if call.args.is_empty() {
        text.push('*');
    }
    text.push_str(&list_text(&call.args, names));
    if !call.order.is_empty() {
        let keys: Vec<String> = call.order.iter().map(|key| sort_key(key, names)).collect();
        let _ = write!(text, " ORDER BY {}", keys.join(", "));
    }
    text.push(')');
    if let Some(filter) = &call.filter {
        let _ = write!(text, " FILTER (WHERE {})", expr_text(filter, names));
    }
    text
}

/// A call over a window, without the window.
fn window_text(call: &WindowCall, names: Names<'_>) -> String {
    let mut text = format!("{}(", call.function.name());
    if call.args.is_empty() && matches!(call.function, WindowFunction::Aggregate(_)) {
        text.push('*');
    }
    text.push_str(&list_text(&call.args, names));
    text.push(')');
    if let Some(filter) = &call.filter {
        let _ = write!(text, " FILTER (WHERE {})", expr_text(filter, names));
    }
    let bound = |bound: &FrameBound| match bound {
        FrameBound::UnboundedPreceding => "UNBOUNDED PRECEDING".to_owned(),
        FrameBound::Preceding(offset) => format!("{} PRECEDING", expr_text(offset, names)),
        FrameBound::CurrentRow => "CURRENT ROW".to_owned(),
        FrameBound::Following(offset) => format!("{} FOLLOWING", expr_text(offset, names)),
        FrameBound::UnboundedFollowing => "UNBOUNDED FOLLOWING".to_owned(),
    };
    let frame = &call.frame;
    let is_default = matches!(
        (frame.units, &frame.start, &frame.end, frame.exclude),
        (FrameUnits::Range(_), FrameBound::UnboundedPreceding, FrameBound::CurrentRow, Exclude::NoOthers)
    );
    if !is_default {
        let units = match frame.units {
            FrameUnits::Rows => "ROWS",
            FrameUnits::Range(_) => "RANGE",
            FrameUnits::Groups => "GROUPS",
        };
        let exclude = match frame.exclude {
            Exclude::NoOthers => "",
            Exclude::CurrentRow => " EXCLUDE CURRENT ROW",
            Exclude::Group => " EXCLUDE GROUP",
            Exclude::Ties => " EXCLUDE TIES",
        };
        let _ = write!(text, " {units} BETWEEN {} AND {}{exclude}", bound(&frame.start), bound(&frame.end));
    }
    text
}

impl Writer<'_> {
    fn note(&mut self, indent: usize, text: String) {
        self.parts.push(Part { indent, what: What::Note(text) });
    }

    /// The names of the columns that a node gives.
    fn names(&self, node: &Node, slots: &[String]) -> Vec<String> {
        match node {
            Node::Values { rows } => (1..=rows.first().map_or(0, Vec::len)).map(|n| format!("column{n}")).collect(),
            Node::Series { series, numbered, .. } => {
                let number = numbered.then(|| "ordinality".to_owned());
                std::iter::once(function_name(*series).to_owned()).chain(number).collect()
            }
            Node::System { table, columns, .. } => {
                columns.iter().map(|&column| table.columns[column].0.to_owned()).collect()
            }
            Node::Expand { input, calls } => {
                let mut names = self.names(input, slots);
                names.extend(calls.iter().map(|(series, _)| function_name(*series).to_owned()));
                names
            }
            Node::Window { input, calls, .. } => {
                let mut names = self.names(input, slots);
                let of_calls = calls.iter().map(|call| window_text(call, Names { columns: &names, slots }));
                let of_calls: Vec<String> = of_calls.collect();
                names.extend(of_calls);
                names
            }
            Node::Scan(scan) => {
                let table = &scan.table;
                let name = |&column: &usize| {
                    let name = table.columns.get(column).map_or("row number", |column| column.name.as_str());
                    if self.qualified { format!("{}.{name}", table.name) } else { name.to_owned() }
                };
                scan.columns.iter().map(name).collect()
            }
            Node::CountRange { .. } => vec!["count(*)".to_owned()],
            Node::GroupScan(scan) => (0..scan.columns + scan.calls.len()).map(|place| scan.name(place)).collect(),
            Node::Filter { input, .. }
            | Node::Distinct { input, .. }
            | Node::Sort { input, .. }
            | Node::Limit { input, .. }
            | Node::LockRows { input, .. } => self.names(input, slots),
            Node::Project { input, exprs } => {
                let columns = self.names(input, slots);
                exprs.iter().map(|expr| shortened(expr_text(expr, Names { columns: &columns, slots }))).collect()
            }
            Node::NestedLoop { kind, outer: left, inner: right, .. }
            | Node::HashJoin { kind, left, right, .. }
            | Node::MergeJoin { kind, left, right, .. } => {
                let mut names = self.names(left, slots);
                if !matches!(kind, JoinKind::Semi | JoinKind::Anti) {
                    names.extend(self.names(right, slots));
                }
                names
            }
            Node::Aggregate { input, keys, calls, .. } => {
                let columns = self.names(input, slots);
                let names = Names { columns: &columns, slots };
                let keys = keys.iter().map(|key| expr_text(key, names));
                keys.chain(calls.iter().map(|call| call_text(call, names))).map(shortened).collect()
            }
            Node::GroupingSets { input, .. } => {
                let mut names = self.names(input, slots);
                names.push("set".to_owned());
                names
            }
            Node::Parallel { input } => self.names(input, slots),
            Node::Append { inputs } => inputs.first().map(|input| self.names(input, slots)).unwrap_or_default(),
            Node::SetOp { left, .. } => self.names(left, slots),
            Node::Recursive { first, .. } => self.names(first, slots),
            Node::Keyed { input, .. } => self.names(input, slots),
            Node::Switch { plain, .. } => self.names(plain, slots),
            Node::FirstRows { in_order, .. } => self.names(in_order, slots),
            Node::Choice { many, .. } => self.names(many, slots),
            Node::AdaptiveJoin { many, .. } => self.names(many, slots),
            Node::Rest { outer, .. } => self.names(outer, slots),
            Node::Working { columns, .. } => columns.iter().map(ToString::to_string).collect(),
            Node::Shared { id, input } => {
                if let Some(names) = self.shared_names.borrow().get(id) {
                    return names.clone();
                }
                let names = self.names(input, slots);
                self.shared_names.borrow_mut().insert(*id, names.clone());
                names
            }
            Node::Insert(insert) => insert.table.columns.iter().map(|column| column.name.to_string()).collect(),
            Node::Update(update) => update.table.columns.iter().map(|column| column.name.to_string()).collect(),
            Node::Delete(delete) => delete.table.columns.iter().map(|column| column.name.to_string()).collect(),
            Node::Merge(merge) => merge.table.columns.iter().map(|column| column.name.to_string()).collect(),
            Node::Parts { main, .. } => self.names(main, slots),
        }
    }

    fn head(&mut self, node: &Node, place: Place, label: impl std::fmt::Display) {
        let rows = match node {
            Node::Scan(scan) if self.options.costs => Some(scan.rows.max(0.0)),
            _ => None,
        };
        let actual = self.watched.map(|_| self.actual(node));
        let what = What::Operator { is_child: place.child, label: label.to_string(), rows, actual };
        self.parts.push(Part { indent: place.indent, what });
        if let Some(set) = self.set.take() {
            self.parts.push(Part { indent: place.inside(), what: What::Usage(set) });
        }
    }

    fn actual(&self, node: &Node) -> Option<Actual> {
        self.watched?.actual(*self.numbers.get(&std::ptr::from_ref(node))?)
    }

    /// What an operator kept, if it was watched and has run; with `always` not only if it was on
    /// disk.
    fn usage(&mut self, node: &Node, place: Place, always: bool) {
        let actual = self.actual(node);
        if let Some(usage) = actual.and_then(|actual| actual.usage)
            && (always || usage.spilled().disk_bytes > 0)
        {
            self.parts.push(Part { indent: place.inside(), what: What::Usage(usage) });
        }
    }

    fn property(&mut self, place: Place, name: &'static str, value: impl std::fmt::Display) {
        self.list(place, name, vec![value.to_string()]);
    }

    fn list(&mut self, place: Place, name: &'static str, values: Vec<String>) {
        self.parts.push(Part { indent: place.inside(), what: What::Property { name, values } });
    }

    /// Queries inside expressions, below the operator that evaluates them.
    fn subqueries<'p>(
        &mut self,
        exprs: impl IntoIterator<Item = &'p Expr>,
        place: Place,
        columns: &[String],
        slots: &[String],
    ) {
        let mut found: Vec<&'p Subquery> = Vec::new();
        exprs.into_iter().for_each(|expr| walk::for_each_subquery(expr, &mut |subquery| found.push(subquery)));
        for subquery in found {
            let once = subquery.args.is_empty();
            let kind = if once { "InitPlan" } else { "SubPlan" };
            self.note(place.inside(), format!("{kind} {}", subquery.id + 1));
            let names = Names { columns, slots };
            let mut inner: Vec<String> = subquery.args.iter().map(|arg| expr_text(arg, names)).collect();
            if let Ok(fragment) = subquery.fragment() {
                self.set = self.actual(&fragment.root).and_then(|actual| actual.set);
                self.node(&fragment.root, &mut inner, Place { indent: place.inside() + 2, child: true });
            }
        }
    }

    /// Writes a node and those below. `slots` are the names of what slots hold.
    fn node(&mut self, node: &Node, slots: &mut Vec<String>, place: Place) {
        match node {
            Node::Values { rows } => {
                if rows.len() == 1 {
                    self.head(node, place, "Result");
                } else {
                    self.head(node, place, "Values Scan on \"*VALUES*\"");
                }
                self.subqueries(rows.iter().flatten(), place, &[], slots);
            }
            Node::System { table, lookup, .. } => {
                self.head(node, place, format_args!("Catalog Scan on {table:?}"));
                if let Some(lookup) = lookup {
                    let column = table.columns[table.keys[lookup.key].column].0;
                    let names = Names { columns: &[], slots };
                    let mut condition = match &lookup.values {
                        SystemValues::Are(part) => part_text(column, part, names),
                        SystemValues::Start(kind, pattern) => starts_text(*kind, column, pattern, names),
                    };
                    if let (Some(second), Some(part)) = (table.keys[lookup.key].second, &lookup.second) {
                        let second = part_text(table.columns[second].0, part, names);
                        condition = format!("({condition} AND {second})");
                    }
                    self.property(place, "Lookup Cond", condition);
                    let mut values = Vec::new();
                    lookup.for_each_value(&mut |value| values.push(value));
                    self.subqueries(values, place, &[], slots);
                }
            }
            Node::Expand { input, calls } => {
                self.head(node, place, "ProjectSet");
                let columns = self.names(input, slots);
                let args = calls.iter().flat_map(|(_, args)| args);
                self.subqueries(args, place, &columns, slots);
                self.node(input, slots, Place { indent: place.inside(), child: true });
            }
            Node::Window { input, partition, order, calls } => {
                self.head(node, place, "WindowAgg");
                let columns = self.names(input, slots);
                let names = Names { columns: &columns, slots };
                if !partition.is_empty() {
                    let keys: Vec<String> =
                        partition.iter().map(|&column| expr_text(&Expr::Column(column), names)).collect();
                    self.property(place, "Partition Key", keys.join(", "));
                }
                if !order.is_empty() {
                    let keys: Vec<String> = order.iter().map(|key| sort_key(key, names)).collect();
                    self.property(place, "Order By", keys.join(", "));
                }
                let bounds = calls.iter().filter_map(|call| {
                    let Most { value, is_excluded } = call.most.as_ref()?;
                    let op = if *is_excluded { "<" } else { "<=" };
                    Some(format!("({} {op} {})", window_text(call, names), expr_text(value, names)))
                });
                let bounds: Vec<String> = bounds.collect();
                if !bounds.is_empty() {
                    self.property(place, "Run Condition", bounds.join(" AND "));
                }
                if self.options.verbose {
                    let calls: Vec<String> = calls.iter().map(|call| window_text(call, names)).collect();
                    self.property(place, "Functions", calls.join(", "));
                }
                self.node(input, slots, Place { indent: place.inside(), child: true });
            }
            Node::Series { series, args, .. } => {
                self.head(node, place, format_args!("Function Scan on {}", function_name(*series)));
                if self.options.verbose {
                    let names = Names { columns: &[], slots };
                    let call = format_args!("{}({})", function_name(*series), list_text(args, names)).to_string();
                    self.property(place, "Function Call", call);
                    let unit = match series {
                        Series::Ints => Some("integers"),
                        Series::Numerics => Some("numerics"),
                        Series::Timestamps | Series::TimestampTzs => Some("timestamps"),
                        _ => None,
                    };
                    if let Some(unit) = unit {
                        self.property(place, "Series", unit);
                    }
                }
            }
            Node::Scan(scan) => self.scan(node, scan, slots, place),
            Node::CountRange { table, access } => {
                self.head(node, place, format_args!("Count of Keys on {}", table.name));
                self.condition(access, table, slots, place);
            }
            Node::GroupScan(scan) => {
                let key = scan.index.as_ref().map(|index| &index.name);
                let key = key.or(scan.table.primary_key.as_ref().map(|key| &key.name));
                let key = key.map(ToString::to_string).unwrap_or_default();
                self.head(node, place, format_args!("Group Scan using {key} on {}", scan.table.name));
                self.list(place, "Group Key", (0..scan.columns).map(|place| scan.name(place)).collect());
                let calls: Vec<String> =
                    (scan.columns..scan.columns + scan.calls.len()).map(|place| scan.name(place)).collect();
                if !calls.is_empty() {
                    self.list(place, "Aggregates", calls);
                }
            }
            Node::Project { input, exprs } => {
                self.node(input, slots, place);
                let columns = self.names(input, slots);
                if self.options.verbose {
                    let names = Names { columns: &columns, slots };
                    self.list(place, "Output", exprs.iter().map(|expr| expr_text(expr, names)).collect());
                }
                self.subqueries(exprs.iter(), place, &columns, slots);
            }
            Node::Filter { input, condition } => {
                let columns = self.names(input, slots);
                self.head(node, place, "Filter");
                let name = if walk::depends_on_no_row(condition) { "One-Time Filter" } else { "Filter" };
                self.property(place, name, expr_text(condition, Names { columns: &columns, slots }));
                self.subqueries([&**condition], place, &columns, slots);
                self.node(input, slots, place.below());
            }
            Node::NestedLoop { kind, outer, inner, first_slot, args, on, .. } => {
                let join = if *kind == JoinKind::Inner { "" } else { " Join" };
                self.head(node, place, format_args!("Nested Loop{}{join}", join_name(*kind)));
                let outer_names = self.names(outer, slots);
                if slots.len() < first_slot + args.len() {
                    slots.resize(first_slot + args.len(), String::new());
                }
                for (at, arg) in args.iter().enumerate() {
                    slots[first_slot + at] = expr_text(arg, Names { columns: &outer_names, slots });
                }
                if let Some(on) = on {
                    let columns = [outer_names, self.names(inner, slots)].concat();
                    self.property(place, "Join Filter", expr_text(on, Names { columns: &columns, slots }));
                    self.subqueries([&**on], place, &columns, slots);
                }
                self.node(outer, slots, place.below());
                self.node(inner, slots, place.below());
            }
            Node::MergeJoin { kind, left, right, keys, on, .. } => {
                self.head(node, place, format_args!("Merge{} Join", join_name(*kind)));
                let (left_names, right_names) = (self.names(left, slots), self.names(right, slots));
                let pairs: Vec<String> =
                    keys.iter().map(|key| format!("({} = {})", left_names[key.left], right_names[key.right])).collect();
                self.property(place, "Merge Cond", all_of(&pairs));
                if let Some(on) = on {
                    let columns = [left_names, right_names].concat();
                    self.property(place, "Join Filter", expr_text(on, Names { columns: &columns, slots }));
                    self.subqueries([&**on], place, &columns, slots);
                }
                self.usage(node, place, false);
                self.node(left, slots, place.below());
                self.node(right, slots, place.below());
            }
            Node::HashJoin { kind, left, right, left_keys, right_keys, on, .. } => {
                self.head(node, place, format_args!("Hash{} Join", join_name(*kind)));
                let (left_names, right_names) = (self.names(left, slots), self.names(right, slots));
                let pair = |(a, b)| {
                    let a = expr_text(a, Names { columns: &left_names, slots });
                    format!("({a} = {})", expr_text(b, Names { columns: &right_names, slots }))
                };
                let pairs: Vec<String> = left_keys.iter().zip(right_keys.iter()).map(pair).collect();
                if !pairs.is_empty() {
                    self.property(place, "Hash Cond", all_of(&pairs));
                }
                if let Some(on) = on {
                    let columns = [left_names, right_names].concat();
                    self.property(place, "Join Filter", expr_text(on, Names { columns: &columns, slots }));
                    self.subqueries([&**on], place, &columns, slots);
                }
                self.node(left, slots, place.below());
                let hash = place.below();
                let label = "Hash".to_owned();
                let what = What::Operator { is_child: true, label, rows: None, actual: None };
                self.parts.push(Part { indent: hash.indent, what });
                self.usage(node, hash, true);
                self.node(right, slots, hash.below());
            }
            Node::GroupingSets { input, sets } => {
                let columns = self.names(input, slots);
                self.head(node, place, "Grouping Sets");
                let of_set = |set: &[bool]| {
                    let names = columns.iter().zip(set).filter(|(_, is_in_set)| **is_in_set);
                    let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
                    format!("({})", names.join(", "))
                };
                self.list(place, "Sets", sets.iter().map(|set| of_set(set)).collect());
                self.node(input, slots, place.below());
            }
            Node::Parallel { input } => {
                self.head(node, place, "Gather");
                if let Some(scan) = parallel::divided_by(input) {
                    self.list(place, "Divided By", vec![scan.table.name.to_string()]);
                    if let Some(columns) = Columns::new(input, scan).filter(|_| self.options.columns) {
                        let names = columns.read.iter().map(|&column| scan.table.columns[column].name.to_string());
                        self.list(place, "Column Vectors", names.collect());
                    }
                }
                self.node(input, slots, place.below());
            }
            Node::Aggregate { input, keys, calls, presorted, .. } => {
                let columns = self.names(input, slots);
                let names = Names { columns: &columns, slots };
                let name = match (keys.is_empty(), presorted.is_empty()) {
                    (true, _) => "Aggregate",
                    (false, true) => "HashAggregate",
                    (false, false) => "GroupAggregate",
                };
                self.head(node, place, name);
                if self.options.verbose {
                    let calls: Vec<String> = calls.iter().map(|call| call_text(call, names)).collect();
                    self.list(place, "Output", calls);
                }
                if !keys.is_empty() {
                    self.list(place, "Group Key", keys.iter().map(|key| expr_text(key, names)).collect());
                }
                if !presorted.is_empty() && presorted.len() < keys.len() {
                    let presorted = presorted.iter().map(|&key| expr_text(&keys[key], names));
                    self.list(place, "Presorted Key", presorted.collect());
                }
                let exprs = calls.iter().flat_map(|call| call.args.iter().chain(&call.filter));
                self.usage(node, place, !keys.is_empty());
                self.subqueries(keys.iter().chain(exprs), place, &columns, slots);
                self.node(input, slots, place.below());
            }
            Node::Distinct { input, columns, sorted } => {
                let names = self.names(input, slots);
                self.head(node, place, if *sorted { "Unique" } else { "HashAggregate" });
                if !sorted {
                    self.list(place, "Group Key", names[..(*columns).min(names.len())].to_vec());
                    self.usage(node, place, true);
                }
                self.node(input, slots, place.below());
            }
            Node::Sort { input, keys, top, presorted } => {
                let columns = self.names(input, slots);
                let names = Names { columns: &columns, slots };
                self.head(node, place, if *presorted > 0 { "Incremental Sort" } else { "Sort" });
                let keys: Vec<String> = keys.iter().map(|key| sort_key(key, names)).collect();
                self.list(place, "Sort Key", keys.clone());
                if *presorted > 0 {
                    self.list(place, "Presorted Key", keys[..*presorted].to_vec());
                }
                if let Some(top) = top {
                    self.property(place, "Rows Kept", expr_text(top, names));
                }
                self.usage(node, place, true);
                self.node(input, slots, place.below());
            }
            Node::Limit { input, .. } => {
                self.head(node, place, "Limit");
                self.node(input, slots, place.below());
            }
            Node::Append { inputs } => {
                self.head(node, place, "Append");
                inputs.iter().for_each(|input| self.node(input, slots, place.below()));
            }
            Node::SetOp { op, all, left, right } => {
                let op = if *op == SetOp::Intersect { "Intersect" } else { "Except" };
                self.head(node, place, format_args!("HashSetOp {op}{}", if *all { " All" } else { "" }));
                self.usage(node, place, false);
                self.node(left, slots, place.below());
                self.node(right, slots, place.below());
            }
            Node::Shared { id, input } => {
                let name = match &**input {
                    Node::Recursive { name, .. } => name.to_string(),
                    _ => format!("query {}", id + 1),
                };
                self.head(node, place, format_args!("CTE Scan on {name}"));
                self.usage(node, place, false);
                if !self.shared.contains(id) {
                    self.shared.push(*id);
                    self.note(place.inside(), format!("CTE {name}"));
                    self.node(input, slots, Place { indent: place.inside() + 2, child: true });
                }
            }
            Node::Recursive { first, again, .. } => {
                self.head(node, place, "Recursive Union");
                self.usage(node, place, false);
                self.node(first, slots, place.below());
                self.node(again, slots, place.below());
            }
            Node::Keyed { input, keys, .. } => {
                self.head(node, place, if keys.is_empty() { "Materialize" } else { "Hash Lookup" });
                let columns = self.names(input, slots);
                let pair = |key: &KeyColumn| {
                    let column = columns.get(key.column).map_or("?", String::as_str);
                    let value = expr_text(&key.value, Names { columns: &[], slots });
                    match key.with_nulls {
                        true => format!("(NOT ({column} IS DISTINCT FROM {value}))"),
                        false => format!("({column} = {value})"),
                    }
                };
                let pairs: Vec<String> = keys.iter().map(pair).collect();
                if !pairs.is_empty() {
                    self.property(place, "Hash Cond", all_of(&pairs));
                }
                self.usage(node, place, !pairs.is_empty());
                self.node(input, slots, place.below());
            }
            Node::Choice { few_max, few, many, .. } => {
                self.head(node, place, "Choice");
                self.property(place, "Rows Looked Up At Most", few_max);
                self.node(few, slots, place.below());
                self.node(many, slots, place.below());
            }
            Node::AdaptiveJoin { rest, after, expects_more, few, many, .. } => {
                let has_changed = self.actual(many).is_some_and(|actual| actual.loops > 0);
                if !has_changed && !self.options.verbose {
                    // The way that is expected, or that was enough.
                    let shown = if *expects_more && self.watched.is_none() { many } else { few };
                    return self.node(shown, slots, place);
                }
                self.head(node, place, "Adaptive Join");
                self.property(place, "Rows Before Change", after);
                self.node(few, slots, place.below());
                self.shown_outer.push(*rest);
                self.node(many, slots, place.below());
            }
            Node::Rest { id, .. } if self.shown_outer.contains(id) => self.head(node, place, "Rows Left"),
            Node::Rest { outer, .. } => self.node(outer, slots, place),
            Node::FirstRows { after, in_order, sorted, .. } => {
                let has_changed = self.actual(sorted).is_some_and(|actual| actual.loops > 0);
                if !has_changed && !self.options.verbose {
                    return self.node(in_order, slots, place);
                }
                self.head(node, place, "First Rows");
                self.property(place, "Rows Before Change", after);
                self.node(in_order, slots, place.below());
                self.node(sorted, slots, place.below());
            }
            Node::Switch { after, plain, by_key } => {
                self.head(node, place, "Switch");
                self.property(place, "Rows Before Switch", after);
                self.node(plain, slots, place.below());
                self.node(by_key, slots, place.below());
            }
            Node::Working { name, .. } => self.head(node, place, format_args!("WorkTable Scan on {name}")),
            Node::LockRows { input, if_locked, .. } => {
                self.head(node, place, "LockRows");
                match if_locked {
                    IfRowLocked::Wait => {}
                    IfRowLocked::NoWait => self.property(place, "If Locked", "NOWAIT"),
                    IfRowLocked::Skip => self.property(place, "If Locked", "SKIP LOCKED"),
                }
                self.node(input, slots, place.below());
            }
            Node::Insert(insert) => {
                self.head(node, place, format_args!("Insert on {}", insert.table.name));
                if let Some(conflict) = &insert.on_conflict {
                    let nothing = matches!(conflict.action, ConflictAction::Nothing);
                    self.property(place, "Conflict Resolution", if nothing { "NOTHING" } else { "UPDATE" });
                }
                self.usage(node, place, false);
                self.node(&insert.source, slots, place.below());
            }
            Node::Update(update) => {
                self.head(node, place, format_args!("Update on {}", update.table.name));
                let adds =
                    |assignment: &&crate::plan::Assignment| matches!(assignment.value, AssignedValue::Add { .. });
                let name = |assignment: &crate::plan::Assignment| update.table.columns[assignment.column].name.as_str();
                let added: Vec<&str> = update.assignments.iter().filter(adds).map(name).collect();
                if !added.is_empty() {
                    self.property(place, "Added at Commit", added.join(", "));
                }
                self.usage(node, place, false);
                self.node(&update.source, slots, place.below());
            }
            Node::Delete(delete) => {
                self.head(node, place, format_args!("Delete on {}", delete.table.name));
                self.usage(node, place, false);
                self.node(&delete.source, slots, place.below());
            }
            Node::Merge(merge) => {
                self.head(node, place, format_args!("Merge on {}", merge.table.name));
                let columns = self.names(&merge.source, slots);
                self.usage(node, place, false);
                let mut exprs = Vec::new();
                merge.for_each_expr(&mut |expr| exprs.push(expr));
                self.subqueries(exprs, place, &columns, slots);
                self.node(&merge.source, slots, place.below());
            }
            Node::Parts { main, parts } => {
                self.node(main, slots, place);
                for part in parts {
                    if let Node::Shared { id, input } = part
                        && !self.shared.contains(id)
                    {
                        self.shared.push(*id);
                        self.note(place.inside(), format!("CTE query {}", id + 1));
                        self.node(input, slots, Place { indent: place.inside() + 2, child: true });
                    }
                }
            }
        }
    }

    fn scan(&mut self, node: &Node, scan: &Scan, slots: &[String], place: Place) {
        let table = &scan.table.name;
        let backward = if scan.direction == Direction::Backward { " Backward" } else { "" };
        let bounded = scan.access.ranges().any(|ranges| !ranges.is_everything());
        match &scan.access {
            Access::Inverted { .. } => self.head(node, place, format_args!("Bitmap Heap Scan on {table}")),
            Access::Gathered { parts, by_all } => {
                self.head(node, place, format_args!("Bitmap Heap Scan{backward} on {table}"));
                self.gathered((parts, *by_all), &scan.table, slots, place);
            }
            Access::Key { .. } => match &scan.table.primary_key {
                Some(key) if bounded || !backward.is_empty() => {
                    self.head(node, place, format_args!("Index Scan{backward} using {} on {table}", key.name));
                }
                _ => self.head(node, place, format_args!("Seq Scan{backward} on {table}")),
            },
            Access::Index { index, covering, .. } => {
                let only = if *covering { " Only" } else { "" };
                self.head(node, place, format_args!("Index{only} Scan{backward} using {} on {table}", index.name));
            }
        }
        self.condition(&scan.access, &scan.table, slots, place);
        let columns = self.names(node, slots);
        if let Some(filter) = &scan.filter {
            self.property(place, "Filter", expr_text(filter, Names { columns: &columns, slots }));
        }
        if self.options.verbose {
            self.property(place, "Reads", columns.join(", "));
        }
    }

    /// The ways whose keys come together before the rows are looked up.
    fn gathered(
        &mut self,
        (parts, by_all): (&[Access], bool),
        table: &colibri_catalog::Table,
        slots: &[String],
        place: Place,
    ) {
        let conditions: Vec<String> =
            parts.iter().filter_map(|part| condition_text(part, table, Names { columns: &[], slots })).collect();
        let name = |part: &Access| match part {
            Access::Index { index, .. } | Access::Inverted { index, .. } => index.name.to_string(),
            _ => table.primary_key.as_ref().map_or_else(String::new, |key| key.name.to_string()),
        };
        let condition = match (by_all, &conditions[..]) {
            (true, conditions) => all_of(conditions),
            (false, [one]) => one.clone(),
            (false, conditions) => format!("({})", conditions.join(" OR ")),
        };
        self.property(place, "Recheck Cond", condition);
        self.list(place, "Indexes", parts.iter().map(name).collect());
    }

    fn condition(&mut self, access: &Access, table: &colibri_catalog::Table, slots: &[String], place: Place) {
        if let Some(text) = condition_text(access, table, Names { columns: &[], slots }) {
            self.property(place, "Index Cond", text);
        }
        if access.skips()
            && let Some(first) = key_columns(access, table).first()
        {
            self.property(place, "Skipped Column", {
                let column = &table.columns[*first];
                column.expression.clone().unwrap_or_else(|| column.name.to_string())
            });
        }
    }
}

/// The columns of the key that an access goes by.
fn key_columns(access: &Access, table: &colibri_catalog::Table) -> Vec<usize> {
    let own = table.key_columns().iter().copied();
    match access {
        Access::Gathered { .. } | Access::Inverted { .. } => Vec::new(),
        Access::Key { .. } => own.collect(),
        Access::Index { index, .. } => index.columns.iter().map(|column| column.column).chain(own).collect(),
    }
}

/// The conditions that the ranges of a table or an index stand for, if any.
fn condition_text(access: &Access, table: &colibri_catalog::Table, names: Names<'_>) -> Option<String> {
    if let Access::Inverted { index, conditions } = access {
        let text = |condition: &TokenCondition| {
            let column = index.columns.get(condition.place).and_then(|part| table.columns.get(part.column));
            let name = column.map_or("", |column| column.expression.as_deref().unwrap_or(&column.name));
            let operand = expr_text(&condition.operand, names);
            match condition.each {
                None => format!("({name} {} {operand})", condition.operator),
                Some(Each::Any) => format!("({name} {} ANY ({operand}))", condition.operator),
                Some(Each::All) => format!("({name} {} ALL ({operand}))", condition.operator),
            }
        };
        return Some(all_of(&conditions.iter().map(text).collect::<Vec<_>>()));
    }
    let (Access::Key { ranges } | Access::Index { ranges, .. }) = access else { return None };
    let columns = key_columns(access, table);
    let name = |place: usize| {
        let column = columns.get(place).and_then(|&column| table.columns.get(column));
        column.map_or("row number", |column| column.expression.as_deref().unwrap_or(&column.name))
    };
    match &ranges.alternatives[..] {
        [] => range_text(ranges, &name, names),
        alternatives => {
            let all: Vec<_> = alternatives.iter().filter_map(|ranges| range_text(ranges, &name, names)).collect();
            Some(format!("({})", all.join(" OR ")))
        }
    }
}

/// The conditions that ranges stand for, if any.
fn range_text<'n>(ranges: &KeyRanges, name: &dyn Fn(usize) -> &'n str, names: Names<'_>) -> Option<String> {
    let mut conditions = Vec::new();
    let name = |place: usize| name(ranges.skipped + place);
    for (place, part) in ranges.prefix.iter().enumerate() {
        conditions.push(match part {
            KeyPart::Eq(value) => format!("({} = {})", name(place), expr_text(value, names)),
            KeyPart::In(values) => format!("({} = ANY ({}))", name(place), list_text(values, names)),
            KeyPart::AnyOf(array) => format!("({} = ANY ({}))", name(place), expr_text(array, names)),
            KeyPart::Null => format!("({} IS NULL)", name(place)),
        });
    }
    let bounded = name(ranges.prefix.len());
    if let Some((kind, pattern)) = &ranges.starts {
        conditions.push(starts_text(*kind, bounded, pattern, names));
    }
    for (bound, strict, inclusive) in [(&ranges.low, ">", ">="), (&ranges.high, "<", "<=")] {
        if let Some((value, including)) = bound {
            let op = if including.0 { inclusive } else { strict };
            conditions.push(format!("({bounded} {op} {})", expr_text(value, names)));
        }
    }
    if ranges.not_null {
        conditions.push(format!("({bounded} IS NOT NULL)"));
    }
    (!conditions.is_empty()).then(|| all_of(&conditions))
}

/// The condition that a column has values of a key.
fn part_text(column: &str, part: &KeyPart, names: Names<'_>) -> String {
    match part {
        KeyPart::Eq(value) => format!("({column} = {})", expr_text(value, names)),
        KeyPart::AnyOf(array) => format!("({column} = ANY ({}))", expr_text(array, names)),
        KeyPart::In(list) => {
            let list: Vec<String> = list.iter().map(|value| expr_text(value, names)).collect();
            format!("({column} IN ({}))", list.join(", "))
        }
        KeyPart::Null => format!("({column} IS NULL)"),
    }
}

/// The condition that a column begins as a pattern does.
fn starts_text(kind: PatternKind, column: &str, pattern: &Expr, names: Names<'_>) -> String {
    let op = match kind {
        PatternKind::Like => "~~",
        PatternKind::Regular => "~",
        PatternKind::Plain => "^@",
    };
    format!("({column} {op} {})", expr_text(pattern, names))
}

fn all_of(conditions: &[String]) -> String {
    match conditions {
        [condition] => condition.clone(),
        _ => format!("({})", conditions.join(" AND ")),
    }
}

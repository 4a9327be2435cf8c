//! What is kept as text, with its names written out.
//!
//! A view's query and a column's default are texts that are bound each time they are used: by
//! whoever has another search path, after tables have got more columns. So that they go on meaning
//! what they meant when they were made, the text that is kept has
//! - a schema before each relation, and in what `nextval` and its kin are given,
//! - the relation before a column where several are in sight,
//! - columns instead of `*` and `TABLE`, and USING instead of NATURAL.
//!
//! The binder notes what names mean by their places in the text; then the parser's tree is changed
//! there. What cannot be said by a name (a column of a query in FROM that has another of the same
//! name) stays as it was: such a query lists its columns itself, so nothing is added to them.

use std::collections::HashMap;
use std::ops::ControlFlow;

use colibri_catalog::{Relation, Sequence, Table};
use colibri_types::{ColumnType, Error, Result, functions::quote_identifier};
use compact_str::CompactString;
use sqlparser::ast::{self, Spanned, VisitMut, VisitorMut};
use sqlparser::tokenizer::{Location, Span};

use super::{Binder, Query, rewrite};
use crate::expr::Expr;

/// Where the names of a stored query are looked up. They have schemas; those of views that were
/// stored before they had are at least nothing that the user decides on.
pub(super) static SEARCH_PATH: [CompactString; 1] = [CompactString::const_new(UNSAID_SCHEMA)];

/// The same, to be a session's for a while.
pub fn search_path() -> std::sync::Arc<[CompactString]> {
    std::sync::Arc::from(SEARCH_PATH.as_slice())
}

/// Functions whose first argument names a sequence.
pub(super) const SEQUENCE_FUNCTIONS: [&str; 3] = ["nextval", "currval", "setval"];

/// What names mean, by where they begin.
#[derive(Default)]
pub(super) struct Meanings {
    /// The schemas of relations.
    schemas: HashMap<Location, CompactString>,
    /// The relations of columns, as they are in sight.
    relations: HashMap<Location, Vec<CompactString>>,
    /// What `*` stands for.
    stars: HashMap<Location, Vec<Vec<CompactString>>>,
    /// What NATURAL joins, by where the right side begins.
    common: HashMap<Location, Vec<CompactString>>,
    /// The schemas of functions that users have defined.
    functions: HashMap<Location, CompactString>,
    /// The sequences of calls.
    sequences: HashMap<Location, String>,
}

impl Binder<'_> {
    /// Binds a query that is to be stored; and its text.
    pub fn stored_query(&mut self, query: &ast::Query) -> Result<(Query, String)> {
        // With the places of what the user wrote, for errors.
        let bound = self.query(query)?;
        let mut without_table = query.clone();
        let _ = VisitMut::visit(&mut without_table, &mut Tables);
        let mut written = colibri_syntax::parse_query(&without_table.to_string())?;
        let ((), meanings) = self.noting(|binder| binder.query(&written).map(drop))?;
        let _ = VisitMut::visit(&mut written, &mut Writer { meanings });
        self.qualify_types(&mut written);
        let text = colibri_syntax::with_exclusions(written.to_string());
        let again = self.query(&colibri_syntax::parse_query(&text)?)?;
        let columns =
            |query: &Query| query.columns.iter().map(|column| (column.name.clone(), column.ty)).collect::<Vec<_>>();
        if columns(&again) != columns(&bound) {
            return Err(Error::internal(format_args!("a query means something else as it would be stored: {text}")));
        }
        Ok((bound, text))
    }

    /// Binds a column's default that is to be stored; and its text.
    pub fn stored_default(&mut self, expr: &ast::Expr, column: &str, ty: ColumnType) -> Result<(Expr, String)> {
        let text = expr.to_string();
        let (bound, meanings) = self.noting(|binder| binder.new_default(&text, column, ty))?;
        let mut written = colibri_syntax::parse_expr(&text)?;
        let _ = VisitMut::visit(&mut written, &mut Writer { meanings });
        self.qualify_types(&mut written);
        Ok((bound, written.to_string()))
    }

    pub(super) fn noting<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, Meanings)> {
        self.meanings = Some(Box::default());
        let bound = bind(self);
        let meanings = self.meanings.take().unwrap_or_default();
        Ok((bound?, *meanings))
    }

    /// A call names a function that a user has defined.
    pub(super) fn note_function(&mut self, span: Span, parts: usize, schema: &str) {
        if let (Some(meanings), 1, Some(place)) = (&mut self.meanings, parts, place(span)) {
            meanings.functions.insert(place, schema.into());
            meanings.schemas.insert(place, schema.into());
        }
    }

    pub(super) fn note_schema(&mut self, name: &ast::ObjectName, schema: &str) {
        if let (Some(meanings), [_]) = (&mut self.meanings, &name.0[..])
            && let Some(place) = place(super::name_span(name))
        {
            meanings.schemas.insert(place, schema.into());
        }
    }

    /// A column without a relation before it was found in the frame `depth`.
    pub(super) fn note_column(&mut self, span: Span, depth: usize, name: &str, expr: &Expr) {
        if let (true, Some(place)) = (self.meanings.is_some() && self.are_several_in_sight(), place(span))
            && let Some(relation) = self.relation_of(depth, name, expr)
            && let Some(meanings) = &mut self.meanings
        {
            meanings.relations.insert(place, relation);
        }
    }

    /// `*` means columns of the query at hand.
    pub(super) fn note_star<'c>(&mut self, span: Span, columns: impl Iterator<Item = (&'c str, &'c Expr)>) {
        let (true, Some(place)) = (self.meanings.is_some(), place(span)) else { return };
        let (depth, several) = (self.frames.len() - 1, self.are_several_in_sight());
        let mut names = Vec::new();
        for (name, expr) in columns {
            let relation = if several { self.relation_of(depth, name, expr) } else { None };
            let mut parts = relation.unwrap_or_default();
            if parts.is_empty() && !self.means(None, name, depth, expr) {
                return;
            }
            parts.push(name.into());
            names.push(parts);
        }
        if let (Some(meanings), false) = (&mut self.meanings, names.is_empty()) {
            meanings.stars.insert(place, names);
        }
    }

    pub(super) fn note_common(&mut self, span: Span, names: &[CompactString]) {
        if let (Some(meanings), Some(place)) = (&mut self.meanings, place(span)) {
            meanings.common.insert(place, names.to_vec());
        }
    }

    /// A function is given the name of a sequence.
    pub(super) fn note_sequence(&mut self, span: Span, name: &str) {
        if let (Some(meanings), Some(place)) = (&mut self.meanings, place(span))
            && let Some(parts) = colibri_catalog::parse_name(name)
            && let Some(Relation::Sequence(sequence)) = self.catalog.find(&parts, self.search_path)
        {
            meanings.sequences.insert(place, qualified_text(&sequence.schema, &sequence.name));
        }
    }

    fn are_several_in_sight(&self) -> bool {
        let scopes = self.frames.iter().filter_map(|frame| frame.scopes.last());
        scopes.flat_map(|scope| &scope.tables).filter(|table| table.visible).nth(1).is_some()
    }

    /// What to write before a column's name so that it means just that; `None` for one that USING
    /// has joined.
    fn relation_of(&self, depth: usize, name: &str, expr: &Expr) -> Option<Vec<CompactString>> {
        let scope = self.frames[depth].scopes.last()?;
        if scope.merged.iter().any(|merged| merged.name == name) {
            return None;
        }
        let table = scope
            .tables
            .iter()
            .find(|table| table.visible && (0..table.columns.len()).any(|at| rewrite::same(&table.column(at), expr)))?;
        let with_schema = table.schema.as_ref().map(|schema| (Some(schema.clone()), table.name.clone()));
        let ways = [Some((None, table.name.clone())), with_schema];
        let way = ways.into_iter().flatten().find(|way| self.means(Some(way), name, depth, expr))?;
        Some(way.0.into_iter().chain([way.1]).collect())
    }

    /// Whether a name, looked up here, is an expression of the frame `depth`.
    fn means(
        &self,
        relation: Option<&(Option<CompactString>, CompactString)>,
        name: &str,
        depth: usize,
        expr: &Expr,
    ) -> bool {
        for at in (0..self.frames.len()).rev() {
            let Some(scope) = self.frames[at].scopes.last() else { continue };
            match scope.find(relation, name) {
                Ok(None) => {}
                Ok(Some(found)) => return at == depth && rewrite::same(&found.expr, expr),
                Err(_) => return false,
            }
        }
        false
    }
}

/// Where something begins, if it came from the text.
fn place(span: Span) -> Option<Location> {
    (span.start.line > 0).then_some(span.start)
}

fn ident(name: &str) -> ast::Ident {
    if quote_identifier(name) == name { ast::Ident::new(name) } else { ast::Ident::with_quote('"', name) }
}

fn named(parts: &[CompactString]) -> ast::Expr {
    match parts {
        [column] => ast::Expr::Identifier(ident(column)),
        parts => ast::Expr::CompoundIdentifier(parts.iter().map(|part| ident(part)).collect()),
    }
}

/// Puts queries in the place of `TABLE name`.
struct Tables;

impl Tables {
    fn replace(body: &mut ast::SetExpr) {
        match body {
            ast::SetExpr::SetOperation { left, right, .. } => {
                Self::replace(left);
                Self::replace(right);
            }
            ast::SetExpr::Table(table) => {
                if let Ok(query) = colibri_syntax::parse_query(&super::query::text_of_table(table)) {
                    *body = *query.body;
                }
            }
            _ => {}
        }
    }
}

impl VisitorMut for Tables {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        Self::replace(&mut query.body);
        ControlFlow::Continue(())
    }
}

/// Writes meanings into the parser's tree.
pub(super) struct Writer {
    pub(super) meanings: Meanings,
}

impl Writer {
    fn write_joins(&self, tables: &mut ast::TableWithJoins) {
        use ast::JoinOperator as J;
        for join in &mut tables.joins {
            let place = join.relation.span().start;
            self.write_factor(&mut join.relation);
            let (J::Join(on)
            | J::Inner(on)
            | J::Left(on)
            | J::LeftOuter(on)
            | J::Right(on)
            | J::RightOuter(on)
            | J::FullOuter(on)) = &mut join.join_operator
            else {
                continue;
            };
            if let (ast::JoinConstraint::Natural, Some(names)) = (&*on, self.meanings.common.get(&place)) {
                *on = match &names[..] {
                    [] => ast::JoinConstraint::On(ast::Expr::Value(ast::Value::Boolean(true).into())),
                    names => ast::JoinConstraint::Using(
                        names.iter().map(|name| ast::ObjectName::from(vec![ident(name)])).collect(),
                    ),
                };
            }
        }
        self.write_factor(&mut tables.relation);
    }

    fn write_factor(&self, factor: &mut ast::TableFactor) {
        if let ast::TableFactor::NestedJoin { table_with_joins, .. } = factor {
            self.write_joins(table_with_joins);
        }
    }
}

impl VisitorMut for Writer {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<()> {
        select.from.iter_mut().for_each(|tables| self.write_joins(tables));
        let items = std::mem::take(&mut select.projection);
        for item in items {
            match self.meanings.stars.get(&item.span().start) {
                Some(columns) if is_star(&item) => {
                    let columns = columns.iter().map(|parts| ast::SelectItem::UnnamedExpr(named(parts)));
                    select.projection.extend(columns);
                }
                _ => select.projection.push(item),
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &mut ast::ObjectName) -> ControlFlow<()> {
        if let Some(schema) = self.meanings.schemas.get(&super::name_span(name).start) {
            name.0.insert(0, ast::ObjectNamePart::Identifier(ident(schema)));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        match expr {
            ast::Expr::Identifier(column) => {
                if let Some(relation) = self.meanings.relations.get(&column.span.start) {
                    let parts = relation.iter().map(|part| ident(part)).chain([column.clone()]);
                    *expr = ast::Expr::CompoundIdentifier(parts.collect());
                }
            }
            ast::Expr::Function(function) => {
                if let Some(schema) = self.meanings.functions.get(&super::name_span(&function.name).start)
                    && function.name.0.len() == 1
                {
                    function.name.0.insert(0, ast::ObjectNamePart::Identifier(ident(schema)));
                }
                if let Some(sequence) = self.meanings.sequences.get(&function.span().start)
                    && let Some(named) = sequence_named(function)
                {
                    sequence.clone_into(named);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_star(item: &ast::SelectItem) -> bool {
    matches!(item, ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..))
}

/// How a tree names a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedAs {
    /// As a type.
    Type,
    /// As a function: a cast written as a call.
    Call,
}

/// Gives the name to write instead of a type's, of which it is told the schema, if that is said,
/// and the name.
type Renaming<'r> = &'r mut dyn FnMut(Option<&str>, &str, NamedAs) -> Option<(Option<CompactString>, CompactString)>;

/// Calls something with each type in a tree that is named without being one of the grammar's own,
/// and with each function of one argument, which may be a type. Says whether any name was written.
pub fn rename_types(tree: &mut impl VisitMut, name: Renaming<'_>) -> bool {
    let mut renamed = false;
    _ = ast::visit_expressions_mut(tree, |expr| {
        match expr {
            ast::Expr::Cast { data_type, .. } => renamed |= rename_type(data_type, name),
            ast::Expr::TypedString(typed) => renamed |= rename_type(&mut typed.data_type, name),
            ast::Expr::Function(function) if takes_one_value(function) => {
                renamed |= rename_object(&mut function.name, NamedAs::Call, name);
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    renamed
}

/// Whether a call may be a cast.
fn takes_one_value(function: &ast::Function) -> bool {
    let ast::FunctionArguments::List(list) = &function.args else { return false };
    matches!(list.args[..], [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(_))]) && function.over.is_none()
}

fn rename_type(data_type: &mut ast::DataType, name: Renaming<'_>) -> bool {
    match data_type {
        ast::DataType::Array(
            ast::ArrayElemTypeDef::SquareBracket(element, _) | ast::ArrayElemTypeDef::Qualified(element, _),
        ) => rename_type(element, name),
        ast::DataType::Custom(object, modifiers) if modifiers.is_empty() => rename_object(object, NamedAs::Type, name),
        _ => false,
    }
}

fn rename_object(object: &mut ast::ObjectName, named_as: NamedAs, name: Renaming<'_>) -> bool {
    let Ok((schema, named)) = super::qualified(object) else { return false };
    let Some((schema, named)) = name(schema.as_deref(), &named, named_as) else { return false };
    let parts = schema.iter().chain([&named]).map(|part| ident(part)).collect::<Vec<_>>();
    *object = ast::ObjectName::from(parts);
    true
}

impl Binder<'_> {
    /// Writes the schemas of functions that users have defined into a tree that is to be stored, but
    /// for the schema that stored texts look in.
    fn qualify_functions(&self, tree: &mut impl VisitMut) {
        if self.catalog.routines().next().is_none() {
            return;
        }
        _ = ast::visit_expressions_mut(tree, |expr| {
            if let ast::Expr::Function(function) = expr
                && let [ast::ObjectNamePart::Identifier(name)] = &function.name.0[..]
                && let Some(routine) = self.routines_of_name(None, &super::fold(name)).first()
                && routine.schema != SEARCH_PATH[0]
            {
                function.name.0.insert(0, ast::ObjectNamePart::Identifier(ident(&routine.schema)));
            }
            ControlFlow::<()>::Continue(())
        });
    }

    /// Writes the schemas of the sequences that `nextval` and its kin are given.
    pub fn qualify_sequences(&self, tree: &mut impl VisitMut) {
        _ = ast::visit_expressions_mut(tree, |expr| {
            if let ast::Expr::Function(function) = expr
                && let Some(named) = sequence_named(function)
                && let Some(parts) = colibri_catalog::parse_name(named)
                && let Some(Relation::Sequence(sequence)) = self.catalog.find(&parts, self.search_path)
            {
                *named = qualified_text(&sequence.schema, &sequence.name);
            }
            ControlFlow::<()>::Continue(())
        });
    }

    /// Writes the schemas of types that users have defined into a tree that is to be stored, but
    /// for the schema that stored texts look in. A cast that is written as a call has a schema
    /// always: without one it is a function.
    pub fn qualify_types(&self, tree: &mut impl VisitMut) {
        self.qualify_functions(tree);
        if self.catalog.collations().next().is_some() {
            _ = ast::visit_expressions_mut(tree, |expr| {
                if let ast::Expr::Collate { collation, .. } = expr
                    && let Ok(identity) = self.collation_named(collation)
                    && let Some(known) = self.catalog.collations().find(|known| known.identity() == identity)
                {
                    let quoted = |name: &str| ast::Ident::with_quote('"', name);
                    *collation = ast::ObjectName::from(vec![quoted(&known.schema), quoted(&known.name)]);
                }
                std::ops::ControlFlow::<()>::Continue(())
            });
        }
        if self.catalog.types().next().is_none() && self.catalog.extensions().next().is_none() {
            return;
        }
        rename_types(tree, &mut |schema, name, named_as| {
            let is_known = || match named_as {
                NamedAs::Call => self.is_function(name),
                NamedAs::Type => {
                    let data_type = ast::DataType::Custom(ast::ObjectName::from(vec![ident(name)]), Vec::new());
                    super::bind_type(&data_type).is_ok()
                }
            };
            if schema.is_some() || is_known() {
                return None;
            }
            if let Some((_, schema)) = super::types::extension_type(self.catalog, None, name, self.search_path) {
                let says_schema = named_as == NamedAs::Call || *schema != SEARCH_PATH[0];
                return says_schema.then(|| (Some(schema.clone()), name.into()));
            }
            let (found, _) = super::types::find_user_type(self.catalog, None, name, self.search_path)?;
            let says_schema = named_as == NamedAs::Call || found.schema != SEARCH_PATH[0];
            says_schema.then(|| (Some(found.schema.clone()), name.into()))
        });
    }
}

/// The schema that a type of a stored text is in, if the text does not say it.
pub const UNSAID_SCHEMA: &str = colibri_catalog::PUBLIC;

/// Whether a stored default takes its numbers from a sequence.
pub fn uses_sequence(default: &str, sequence: &Sequence) -> bool {
    with_sequence_renamed(default, sequence, ("", "")).is_some()
}

/// Whether a sequence is the one that an identity column of the table takes its values from: a
/// column may own others.
pub fn is_of_identity(table: &Table, sequence: &Sequence) -> bool {
    let column = sequence.owned_by.filter(|(owner, _)| *owner == table.id).map(|(_, place)| &table.columns[place]);
    column.is_some_and(|column| {
        column.identity.is_some() && column.default.as_ref().is_some_and(|default| uses_sequence(default, sequence))
    })
}

/// A stored default with another name for a sequence; `None` if it does not use that.
pub fn with_sequence_renamed(default: &str, sequence: &Sequence, (to_schema, to): (&str, &str)) -> Option<String> {
    let mut expr = colibri_syntax::parse_expr(default).ok()?;
    let mut renamed = false;
    _ = ast::visit_expressions_mut(&mut expr, |expr| {
        if let ast::Expr::Function(function) = expr
            && let Some(named) = sequence_named(function)
            && let Some([schema @ .., name]) = colibri_catalog::parse_name(named).as_deref()
            && *name == sequence.name
            && schema.last().is_none_or(|schema| *schema == sequence.schema)
        {
            *named = qualified_text(to_schema, to);
            renamed = true;
        }
        ControlFlow::<()>::Continue(())
    });
    renamed.then(|| expr.to_string())
}

fn qualified_text(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_identifier(schema), quote_identifier(name))
}

/// The name that `nextval` and its kin are given: `'q'` and `'q'::regclass`.
fn sequence_named(function: &mut ast::Function) -> Option<&mut String> {
    let (_, name) = super::qualified(&function.name).ok()?;
    let ast::FunctionArguments::List(list) = &mut function.args else { return None };
    let (true, Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg)))) =
        (SEQUENCE_FUNCTIONS.contains(&&*name), list.args.first_mut())
    else {
        return None;
    };
    let mut arg = arg;
    loop {
        arg = match arg {
            ast::Expr::Cast { expr, .. } | ast::Expr::Nested(expr) => expr,
            ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::SingleQuotedString(text), .. }) => {
                return Some(text);
            }
            _ => return None,
        }
    }
}

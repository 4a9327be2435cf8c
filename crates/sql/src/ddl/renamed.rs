//! Relations and columns that get other names under views.
//!
//! A view's query is a text that names relations with their schemas. When one of these gets another
//! name, the text names the new one and goes on to call it as before: `FROM s.old` becomes `FROM
//! s.new AS old`. When a column does, the text calls the columns as before: `FROM s.t` becomes `FROM
//! s.t AS t (a, b)`. So nothing else in the query changes, neither names of columns that it
//! gives nor what it groups or joins by; and PostgreSQL shows such views in the same way.
//!
//! Invariant: each view that was rewritten is bound again, and gives columns of the same types.

use std::ops::ControlFlow;
use std::sync::Arc;

use colibri_catalog::{Change, View};
use colibri_types::{Error, Result};
use compact_str::CompactString;
use sqlparser::ast::{self, VisitMut, VisitorMut};

use super::Session;
use crate::bind::{fold, qualified};

/// What gets another name.
pub(super) enum Renamed<'a> {
    /// The relation itself.
    Relation(&'a str),
    /// It is in another schema.
    Schema(&'a str),
    /// One of its columns, all of which were called so.
    Columns(Vec<CompactString>),
}

/// Writes the new name into a query.
struct Writer<'a> {
    schema: &'a str,
    name: &'a str,
    renamed: &'a Renamed<'a>,
    is_changed: bool,
}

fn ident(name: &str) -> ast::Ident {
    if crate::system::names::quoted(name) == name { ast::Ident::new(name) } else { ast::Ident::with_quote('"', name) }
}

impl VisitorMut for Writer<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<()> {
        let ast::TableFactor::Table { name, alias, args: None, .. } = factor else { return ControlFlow::Continue(()) };
        let is_meant =
            matches!(qualified(name), Ok((Some(schema), named)) if schema == self.schema && named == self.name);
        if !is_meant {
            return ControlFlow::Continue(());
        }
        self.is_changed = true;
        if let Renamed::Schema(to) = self.renamed {
            *name = ast::ObjectName::from(vec![ident(to), ident(self.name)]);
            return ControlFlow::Continue(());
        }
        let alias = alias.get_or_insert_with(|| ast::TableAlias {
            explicit: true,
            name: ident(self.name),
            columns: Vec::new(),
            at: None,
        });
        match self.renamed {
            Renamed::Relation(to) => {
                *name = ast::ObjectName::from(vec![ident(self.schema), ident(to)]);
            }
            Renamed::Schema(_) => {}
            Renamed::Columns(old) => {
                let missing = old.iter().skip(alias.columns.len());
                alias
                    .columns
                    .extend(missing.map(|name| ast::TableAliasColumnDef { name: ident(name), data_type: None }));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        // A relation with an alias is not found by its schema any more.
        if let ast::Expr::CompoundIdentifier(parts) = expr
            && let [schema, table, _] = &parts[..]
            && fold(schema) == self.schema
            && fold(table) == self.name
        {
            parts.remove(0);
        }
        ControlFlow::Continue(())
    }
}

/// Writes the new name of a relation into a tree; says whether it was there.
pub(super) fn write<T: VisitMut>(tree: &mut T, (schema, name): (&str, &str), renamed: &Renamed<'_>) -> bool {
    let mut writer = Writer { schema, name, renamed, is_changed: false };
    _ = VisitMut::visit(tree, &mut writer);
    writer.is_changed
}

impl Session {
    /// The views that read a relation, with what they read under its new name. To be put into the
    /// catalogue together with the relation, by [`Session::change_with_views`].
    pub(super) fn views_with_renamed(
        &self,
        id: u32,
        (schema, name): (&str, &str),
        renamed: &Renamed<'_>,
    ) -> Result<Vec<View>> {
        let mut found = Vec::new();
        let mut views: Vec<&Arc<View>> = self.catalog().views().filter(|view| view.reads.contains(&id)).collect();
        views.sort_by_key(|view| view.id);
        for view in views {
            let mut query = crate::statement::parse_query(&view.query)?;
            if write(&mut query, (schema, name), renamed) {
                found.push(View { query: colibri_syntax::with_exclusions(query.to_string()), ..(**view).clone() });
            }
        }
        Ok(found)
    }

    /// Makes changes of which some are views that name something anew.
    ///
    /// # Errors
    /// 0A000 if a view would mean something else.
    pub(super) fn change_with_views(&mut self, views: Vec<View>, mut changes: Vec<Change>, what: &str) -> Result<()> {
        let types = |session: &Self, view: &View| {
            session.with_binder("", |binder| {
                let bound = binder.view(view);
                // Nothing is read.
                binder.needs.clear();
                Ok(bound?.columns.iter().map(|column| column.ty).collect::<Vec<_>>())
            })
        };
        let mut before = Vec::with_capacity(views.len());
        for view in &views {
            let old = self.catalog().view(view.id).cloned();
            before.push(old.and_then(|old| types(self, &old).ok()));
        }
        changes.extend(views.iter().cloned().map(Change::PutView));
        self.change(changes)?;
        for (view, before) in views.iter().zip(before) {
            let Some(before) = before else { continue };
            if types(self, view).ok() != Some(before) {
                let error = Error::unsupported(format_args!("{what} used by a view"));
                return Err(error.detail(format!("View {} depends on it.", view.name)));
            }
        }
        Ok(())
    }
}

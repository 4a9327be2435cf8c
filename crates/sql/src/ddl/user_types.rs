//! CREATE, ALTER and DROP TYPE: enums. Ranges are in `ranges`. What domains have in common with
//! them is here, too.
//!
//! A label that is added gets a place between those of its neighbours, and no row is written anew:
//! see [`colibri_types::enums`]. What the catalogue keeps as SQL (defaults, conditions, views) names
//! types and labels, so it is written anew when these get other names.
//! What depends on a type, and goes with it, is in `type_dependents`.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use colibri_catalog::{
    Catalog, Change, Label, NAME_BYTES_MAX, Relation, Table, UserType, UserTypeKind, View, cluster::RoleId, store_error,
};
use colibri_syntax::tree::{LabelPlace, TypeChange};
use colibri_types::enums::{array_name, place_between};
use colibri_types::{Array, Datum, Env, Error, Modifier, Result, SqlState, Type, pulse, text_io};
use compact_str::CompactString;
use sqlparser::ast::{self, VisitMut};

use super::Session;
use crate::bind::stored::NamedAs;
use crate::bind::{Binder, Query, TypeNames, stored};
use crate::expr::Expr;
use crate::session::Severity;

/// What looking at a label takes, in units of [`pulse::work`].
const UNITS_PER_LABEL: usize = 20;

/// A name as the trees of relations have it.
pub(super) fn object_name(name: &[CompactString]) -> ast::ObjectName {
    let parts: Vec<ast::Ident> = name.iter().map(|part| ast::Ident::with_quote('"', part.as_str())).collect();
    ast::ObjectName::from(parts)
}

pub(super) fn no_such_type(name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("type \"{name}\" does not exist"))
}

fn duplicate_type(name: &str) -> Error {
    Error::new(SqlState::DUPLICATE_OBJECT, format!("type \"{name}\" already exists"))
}

fn no_such_label(text: &str) -> Error {
    Error::new(SqlState::BAD_PARAMETER, format!("\"{text}\" is not an existing enum label"))
}

fn duplicate_label(text: &str) -> String {
    format!("enum label \"{text}\" already exists")
}

fn expect_label(text: &str) -> Result<()> {
    if text.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(Error::new(SqlState("42602"), format!("invalid enum label \"{text}\""))
        .detail(format!("Labels must be {NAME_BYTES_MAX} bytes or less.")))
}

impl Session {
    pub(crate) fn create_enum(&mut self, name: &[CompactString], labels: &[String]) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let (schema, name) = self.new_name_of(&object_name(name), false)?;
        self.expect_free_type(&schema, &name)?;
        let first = self.new_ids_in(&schema, 2 + labels.len() as u32)?;
        let mut known: Vec<Label> = Vec::with_capacity(labels.len());
        let mut texts = HashSet::with_capacity(labels.len());
        for (at, text) in labels.iter().enumerate() {
            pulse::work(UNITS_PER_LABEL)?;
            expect_label(text)?;
            if !texts.insert(text) {
                let message = "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"";
                let detail = format!("Key (enumtypid, enumlabel)=({first}, {text}) already exists.");
                return Err(Error::new(SqlState::UNIQUE_VIOLATION, message).detail(detail).about(
                    "pg_catalog",
                    "pg_enum",
                    None,
                    Some("pg_enum_typid_label_index"),
                ));
            }
            let place = place_between(known.last().map(|label| label.place), None).ok_or_else(no_place)?;
            known.push(Label { id: first + 2 + at as u32, text: text.as_str().into(), place });
        }
        let owner = self.role();
        let kind = UserTypeKind::Enum(known);
        let acl = self.catalog().privileges_of_new('T', owner, Some(&schema));
        let ty = UserType { acl, id: first, array: first + 1, schema, name, owner, kind, handle: None };
        self.change(vec![Change::PutType(ty)])
    }

    /// 42710 if something has the name of a new type.
    pub(super) fn expect_free_type(&self, schema: &str, name: &str) -> Result<()> {
        let of_rows = matches!(self.catalog().relation(schema, name), Some(Relation::Table(_) | Relation::View(_)));
        if of_rows || self.catalog().type_named(schema, name).is_some() {
            return Err(duplicate_type(name));
        }
        Ok(())
    }

    /// 42710 if a type has the name of something new that has rows, and so a type of these.
    pub(super) fn expect_no_type(&self, schema: &str, name: &str) -> Result<()> {
        match self.catalog().type_named(schema, name) {
            None => Ok(()),
            Some(_) => Err(duplicate_type(name).hint(
                "A relation has an associated type of the same name, so you must use a name that doesn't conflict \
                 with any existing type.",
            )),
        }
    }

    /// The type that a name means: one that a user has defined. `None` if there is none.
    pub(crate) fn find_user_type(&self, name: &[CompactString]) -> Result<Option<Arc<UserType>>> {
        let data_type = ast::DataType::Custom(object_name(name), Vec::new());
        let (catalog, search_path) = (self.catalog(), self.search_path());
        let names = TypeNames { database: self.engine().name(), catalog, search_path };
        match names.find(&data_type) {
            Ok(found) => match found.ty {
                _ if found.domain.is_some_and(|domain| !domain.is_array()) => {
                    Ok(catalog.user_type(found.oid()).cloned())
                }
                Type::Range(of) if of.is_multirange() => {
                    let range = of.range().sql_name();
                    let message = format!("cannot drop type {} because type {range} requires it", of.sql_name());
                    Err(Error::new(SqlState::DEPENDENT_OBJECTS, message)
                        .hint(format!("You can drop type {range} instead.")))
                }
                Type::Enum(_) | Type::Composite(_) | Type::Range(_) => Ok(catalog.user_type(found.oid()).cloned()),
                Type::Array(_) if found.ty.of_user().is_some() || found.domain.is_some() => {
                    let shown = found.sql_name();
                    let element = found.domain.map_or_else(
                        || found.ty.element().map_or("", Type::sql_name),
                        |domain| domain.element().sql_name(),
                    );
                    Err(Error::new(
                        SqlState::DEPENDENT_OBJECTS,
                        format!("cannot drop type {shown} because type {element} requires it"),
                    )
                    .hint(format!("You can drop type {element} instead.")))
                }
                other => {
                    let message = format!("cannot change type {other} because it is required by the database system");
                    Err(Error::new(SqlState::DEPENDENT_OBJECTS, message))
                }
            },
            Err(error) if error.state() == SqlState::NO_SUCH_OBJECT => Ok(None),
            // Words that are types elsewhere.
            Err(error) if error.state() == SqlState::FEATURE_NOT_SUPPORTED && name.len() == 1 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// 42809 if a name is of a type that is no domain.
    pub(crate) fn expect_domain(&self, name: &[CompactString]) -> Result<()> {
        let found = match self.type_named(&ast::DataType::Custom(object_name(name), Vec::new())) {
            Err(error) if error.state() == SqlState::NO_SUCH_OBJECT => return Err(no_such_type(&name.join("."))),
            found => found?,
        };
        if found.domain.is_some_and(|domain| !domain.is_array()) {
            return Ok(());
        }
        Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a domain", name.join("."))))
    }

    /// Any type of a name.
    pub(crate) fn expect_type(&self, name: &[CompactString]) -> Result<()> {
        self.type_named(&ast::DataType::Custom(object_name(name), Vec::new())).map(drop)
    }

    pub(crate) fn expect_user_type(&self, name: &[CompactString]) -> Result<Arc<UserType>> {
        let found = self.find_user_type(name)?.ok_or_else(|| no_such_type(&name.join(".")))?;
        self.expect_owner(found.owner, "type", &found.name)?;
        Ok(found)
    }

    pub(crate) fn alter_user_type(&mut self, name: &[CompactString], change: &TypeChange) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let of_fields = matches!(change, TypeChange::Attributes(_) | TypeChange::RenameAttribute { .. });
        let old = self.expect_user_type(name).map_err(|error| match error.state() {
            SqlState::DEPENDENT_OBJECTS => {
                Error::new(SqlState::WRONG_OBJECT_TYPE, format!("{} is not an enum", name.join(".")))
            }
            SqlState::NO_SUCH_OBJECT if of_fields => {
                let message = format!("relation \"{}\" does not exist", name.join("."));
                Error::new(SqlState::NO_SUCH_TABLE, message)
            }
            _ => error,
        })?;
        let of_labels = matches!(change, TypeChange::AddValue { .. } | TypeChange::RenameValue { .. });
        if of_labels && !old.is_enum() {
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("{} is not an enum", name.join("."))));
        }
        if of_fields && old.composite().is_none() {
            let message = format!("relation \"{}\" does not exist", name.join("."));
            return Err(Error::new(SqlState::NO_SUCH_TABLE, message));
        }
        match change {
            TypeChange::AddValue { text, if_not_exists, place } => self.add_label(&old, text, *if_not_exists, place),
            TypeChange::RenameValue { from, to } => self.rename_label(&old, from, to),
            TypeChange::Attributes(changes) => self.change_fields(&old, changes),
            TypeChange::RenameAttribute { from, to } => self.rename_field(&old, from, to),
            TypeChange::Rename(to) => {
                self.expect_free_type(&old.schema, to)?;
                self.rename_type(&old, &old.schema, to)
            }
            TypeChange::SetSchema(schema) => {
                if self.catalog().schema(schema).is_none() {
                    let message = format!("schema \"{schema}\" does not exist");
                    return Err(Error::new(SqlState::NO_SUCH_SCHEMA, message));
                }
                self.expect_may_create_in(schema)?;
                self.move_type(&old, schema)
            }
            TypeChange::Owner(to) => {
                let to = self.actor(to)?;
                self.give_type(&old, to)
            }
        }
    }

    /// Moves a type to another schema.
    pub(super) fn move_type(&mut self, old: &UserType, schema: &CompactString) -> Result<()> {
        if *schema == old.schema {
            return Ok(());
        }
        if self.expect_free_type(schema, &old.name).is_err() {
            let message = format!("type \"{}\" already exists in schema \"{schema}\"", old.name);
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        self.rename_type(old, schema, &old.name)
    }

    /// Makes a role the owner of a type.
    pub(crate) fn give_type(&mut self, old: &UserType, to: RoleId) -> Result<()> {
        self.change(vec![Change::PutType(UserType { owner: to, ..old.clone() })])
    }

    fn add_label(&mut self, old: &UserType, text: &str, if_not_exists: bool, place: &LabelPlace) -> Result<()> {
        expect_label(text)?;
        let mut labels = old.labels().to_vec();
        if labels.iter().any(|label| label.text == *text) {
            if if_not_exists {
                let message = format!("{}, skipping", duplicate_label(text));
                self.notice(Severity::Notice, SqlState::DUPLICATE_OBJECT, message);
                return Ok(());
            }
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, duplicate_label(text)));
        }
        let of = |text: &str| labels.iter().position(|label| label.text == *text).ok_or_else(|| no_such_label(text));
        let at = match place {
            LabelPlace::Last => labels.len(),
            LabelPlace::Before(neighbour) => of(neighbour)?,
            LabelPlace::After(neighbour) => of(neighbour)? + 1,
        };
        let place_at = |at: Option<usize>| at.and_then(|at| labels.get(at)).map(|label| label.place);
        let place = place_between(place_at(at.checked_sub(1)), place_at(Some(at))).ok_or_else(no_place)?;
        let id = self.new_id_in(&old.schema)?;
        labels.insert(at, Label { id, text: text.into(), place });
        self.change(vec![Change::PutType(UserType { kind: UserTypeKind::Enum(labels), ..old.clone() })])
    }

    fn rename_label(&mut self, old: &UserType, from: &str, to: &str) -> Result<()> {
        expect_label(to)?;
        let mut labels = old.labels().to_vec();
        let at = labels.iter().position(|label| label.text == *from).ok_or_else(|| no_such_label(from))?;
        if labels.iter().any(|label| label.text == *to) {
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, duplicate_label(to)));
        }
        for (table, place) in self.columns_made_of(old) {
            // The values of its partitions are kept as texts.
            if table.partitioned.as_ref().is_some_and(|partitioned| partitioned.keys.contains(&place)) {
                let what = format!(
                    "renaming a label of type \"{}\", by which table \"{}\" is partitioned",
                    old.name, table.name
                );
                return Err(Error::unsupported(what));
            }
        }
        labels[at].text = to.into();
        let mut renamed = UserType { kind: UserTypeKind::Enum(labels.clone()), ..old.clone() };
        renamed.renew_handle();
        // What texts mean is asked while the label has both names.
        let both = Label { text: from.into(), ..labels[at].clone() };
        labels.insert(at, both);
        self.change(vec![Change::PutType(UserType { kind: UserTypeKind::Enum(labels), ..old.clone() })])?;
        let of = LabelTexts { old, renamed: &renamed, from, to };
        let tables: Vec<Arc<Table>> = self.catalog().tables().cloned().collect();
        let mut changes = Vec::new();
        for domain in self.catalog().types().filter(|ty| ty.domain().is_some()).cloned().collect::<Vec<_>>() {
            if let Some(changed) = self.with_label_renamed(&domain, &of)? {
                changes.push(Change::PutType(changed));
            }
        }
        for table in tables {
            let mut changed = (*table).clone();
            let mut is_changed = self.rename_label_in(&mut changed, &table, &of)?;
            // What rows have that were written before a column was added.
            for column in &mut changed.columns {
                if column.ty.ty.enum_within().is_none_or(|of| of.oid() != old.id) {
                    continue;
                }
                column.ty.ty = if column.ty.ty.is_array() { renamed.array_ty() } else { renamed.ty() };
                if let Some(missing) = &mut column.missing {
                    *missing = of.value(missing, column.ty.ty.is_array())?;
                    is_changed = true;
                }
            }
            if is_changed {
                changed.renew_layout();
                changes.push(Change::PutTable(changed));
            }
        }
        let views: Vec<Arc<View>> = self.catalog().views().cloned().collect();
        for view in views {
            let query = crate::statement::parse_query(&view.query)?;
            let meaning = |query: &ast::Query| {
                let view = View { query: query.to_string(), ..(*view).clone() };
                self.with_binder("", |binder| {
                    let bound = binder.view(&view);
                    // Nothing is read.
                    binder.needs.clear();
                    Ok(format!("{:?}", Query { view: None, ..bound? }))
                })
            };
            if let Some(query) = of.renamed_in(query, meaning)? {
                changes.push(Change::PutView(View { query: query.to_string(), ..(*view).clone() }));
            }
        }
        // Tables have the renamed type, so the type finds nothing to renew in what they keep of it.
        changes.push(Change::PutType(renamed.clone()));
        self.change(changes)?;
        self.expect_texts_without(from)
    }

    /// 0A000 if something that the catalogue keeps as SQL with a text in it cannot be bound any more.
    fn expect_texts_without(&self, text: &str) -> Result<()> {
        let refuse = |error: Error| match error.state() {
            SqlState::BAD_TEXT => {
                Error::unsupported(format_args!("renaming the label \"{text}\", which a stored expression has"))
                    .detail(error.report().message.clone())
            }
            _ => error,
        };
        for view in self.catalog().views().filter(|view| view.query.contains(text)) {
            self.with_binder("", |binder| {
                let bound = binder.view(view);
                binder.needs.clear();
                bound.map(drop)
            })
            .map_err(refuse)?;
        }
        for table in self.catalog().tables() {
            let columns = table.columns.iter();
            let of_columns = columns.flat_map(|column| [&column.default, &column.generated, &column.expression]);
            let mut texts = of_columns.flatten().chain(table.checks.iter().map(|check| &check.condition));
            if texts.any(|known| known.contains(text)) {
                let bind = |binder: &mut Binder<'_>| {
                    for place in 0..table.columns.len() {
                        binder.column_default(table, place)?;
                    }
                    binder.needs.clear();
                    binder.rules(table).map(drop)
                };
                self.with_binder("", bind).map_err(refuse)?;
            }
        }
        for ty in self.catalog().types() {
            let Some(domain) = ty.domain() else { continue };
            let mut texts = domain.checks.iter().map(|check| &check.condition).chain(&domain.default);
            if texts.any(|known| known.contains(text)) {
                let bind = |binder: &mut Binder<'_>| {
                    if let Some(default) = &domain.default {
                        binder.stored_expr(default, None, domain.base.base())?;
                    }
                    ty.column_type().domain.map_or(Ok(()), |domain| binder.domain_rules(domain).map(drop))
                };
                self.with_binder("", bind).map_err(refuse)?;
            }
        }
        Ok(())
    }

    /// A domain with the new name of a label in its default and its conditions; `None` if none of
    /// them has it.
    ///
    /// Bug: the label was renamed for tables and views alone. Consequence: conditions of domains had
    /// a label that is none any more, and every statement that met the domain failed. Fix: this.
    fn with_label_renamed(&self, ty: &UserType, of: &LabelTexts<'_>) -> Result<Option<UserType>> {
        let Some(domain) = ty.domain() else { return Ok(None) };
        let base = domain.base;
        let renamed = |text: &str, bind: &dyn Fn(&mut Binder<'_>, &str) -> Result<Expr>| -> Result<Option<String>> {
            // A constant of an enum is a string.
            if !text.contains('\'') {
                return Ok(None);
            }
            let meaning =
                |expr: &ast::Expr| self.with_binder("", |binder| Ok(format!("{:?}", bind(binder, &expr.to_string())?)));
            let renamed = of.renamed_in(crate::statement::parse_expr(text)?, meaning)?;
            Ok(renamed.map(|expr| expr.to_string()))
        };
        let mut changed = ty.clone();
        let mut is_changed = false;
        let UserTypeKind::Domain(new) = &mut changed.kind else { return Ok(None) };
        for check in &mut new.checks {
            let bind = |binder: &mut Binder<'_>, text: &str| binder.domain_condition(text, base.base());
            if let Some(text) = renamed(&check.condition, &bind)? {
                (check.condition, is_changed) = (text, true);
            }
        }
        if let Some(default) = &mut new.default {
            let bind = |binder: &mut Binder<'_>, text: &str| binder.stored_expr(text, None, base.base());
            if let Some(text) = renamed(default, &bind)? {
                (*default, is_changed) = (text, true);
            }
        }
        Ok(is_changed.then_some(changed))
    }

    /// Renames a label in the expressions that a table keeps as SQL. Whether any has it.
    fn rename_label_in(&self, changed: &mut Table, table: &Table, of: &LabelTexts<'_>) -> Result<bool> {
        let rename = |text: &mut String, bind: &dyn Fn(&mut Binder<'_>, &str) -> Result<String>| -> Result<bool> {
            // A constant of an enum is a string.
            if !text.contains('\'') {
                return Ok(false);
            }
            let meaning = |expr: &ast::Expr| self.with_binder("", |binder| bind(binder, &expr.to_string()));
            let renamed = of.renamed_in(crate::statement::parse_expr(text)?, meaning)?;
            Ok(renamed.is_some_and(|expr| {
                *text = expr.to_string();
                true
            }))
        };
        let mut is_changed = false;
        for (place, column) in changed.columns.iter_mut().enumerate().filter(|(_, column)| !column.dropped) {
            let (name, ty) = (column.name.clone(), table.columns[place].ty);
            if let Some(text) = &mut column.default {
                is_changed |= rename(text, &|binder, text| {
                    binder.default_expr(text, &name, ty).map(|bound| format!("{bound:?}"))
                })?;
            }
            if let Some(text) = &mut column.generated {
                is_changed |= rename(text, &|binder, text| {
                    binder.generated_expr(text, table, place).map(|bound| format!("{bound:?}"))
                })?;
            }
        }
        for (place, column) in changed.columns.iter_mut().enumerate() {
            let is_condition = table.indexes.iter().any(|index| index.predicate == Some(place));
            if let Some(text) = &mut column.expression {
                is_changed |= rename(text, &|binder, text| match is_condition {
                    true => binder.index_predicate(text, table).map(|bound| format!("{bound:?}")),
                    false => binder.index_expr(text, table).map(|bound| format!("{:?}", bound.expr)),
                })?;
            }
        }
        for check in &mut changed.checks {
            is_changed |= rename(&mut check.condition, &|binder, text| {
                binder.check_expr(text, table).map(|bound| format!("{bound:?}"))
            })?;
        }
        Ok(is_changed)
    }

    fn rename_type(&mut self, old: &UserType, schema: &str, name: &str) -> Result<()> {
        let mut renamed = old.clone();
        (renamed.schema, renamed.name) = (schema.into(), name.into());
        let pair = renamed_pair(&mut renamed, self.catalog());
        let (names, to) = (self.names_of(old), (schema, name));
        // A condition of a domain may name the domain.
        rename_in_domain(&mut renamed, |text| names.renamed_in(text, to));
        let mut changes = vec![Change::PutType(renamed)];
        let mut tables: Vec<Table> = self.catalog().tables().map(|table| (**table).clone()).collect();
        for table in &mut tables {
            if for_each_text(table, |text| names.renamed_in(text, to)) {
                changes.push(Change::PutTable(table.clone()));
            }
        }
        for other in self.catalog().types().filter(|other| other.id != old.id && other.domain().is_some()) {
            let mut other = (**other).clone();
            if rename_in_domain(&mut other, |text| names.renamed_in(text, to)) {
                changes.push(Change::PutType(other));
            }
        }
        for view in self.catalog().views() {
            if !names.may_be_in(&view.query) {
                continue;
            }
            let mut query = crate::statement::parse_query(&view.query)?;
            if names.rename(&mut query, to) {
                changes.push(Change::PutView(View { query: query.to_string(), ..(**view).clone() }));
            }
        }
        // Tables come before the type, so that they get the type's newest state.
        changes.rotate_left(1);
        changes.extend(pair.map(Change::PutType));
        self.change(changes)
    }

    pub(super) fn names_of(&self, ty: &UserType) -> TypeNamesInTexts {
        let array_name = ty.array_name();
        let is_taken = self.catalog().type_named(&ty.schema, &array_name).is_some();
        TypeNamesInTexts {
            schema: ty.schema.clone(),
            name: ty.name.clone(),
            array_name: (!is_taken).then_some(array_name),
        }
    }
}

/// Says a range type's new name to it and to its multirange type, which it gives.
fn renamed_pair(renamed: &mut UserType, catalog: &Catalog) -> Option<UserType> {
    let name = renamed.name.clone();
    let (UserTypeKind::Range(pair) | UserTypeKind::Multirange(pair)) = &mut renamed.kind else { return None };
    let half = usize::from(pair.ids[1] == renamed.id);
    pair.names[half] = name;
    let mut other = (**catalog.user_type(pair.ids[1 - half])?).clone();
    let (UserTypeKind::Range(known) | UserTypeKind::Multirange(known)) = &mut other.kind else { return None };
    known.names.clone_from(&pair.names);
    // A range type's schema is that of both.
    other.schema.clone_from(&renamed.schema);
    Some(other)
}

fn no_place() -> Error {
    Error::new(SqlState::PROGRAM_LIMIT, "there is no place left between two labels of the enum")
        .hint("Make another enum with all labels in their order, and change the columns to it.")
}

/// Whether a text may name the type. It may answer yes for one that does not.
fn mentions(text: &str, name: &str) -> bool {
    text.to_ascii_lowercase().contains(&name.replace('"', "\"\"").to_ascii_lowercase())
}

/// Changes the expressions that a domain keeps as SQL; says whether any was changed.
pub(super) fn rename_in_domain(ty: &mut UserType, change: impl Fn(&str) -> Option<String>) -> bool {
    let UserTypeKind::Domain(domain) = &mut ty.kind else { return false };
    let mut changed = false;
    let conditions = domain.checks.iter_mut().map(|check| &mut check.condition);
    for text in conditions.chain(domain.default.as_mut()) {
        if let Some(new) = change(text) {
            *text = new;
            changed = true;
        }
    }
    changed
}

/// Changes the expressions that a table keeps as SQL; says whether any was changed.
fn for_each_text(table: &mut Table, mut change: impl FnMut(&str) -> Option<String>) -> bool {
    let mut changed = false;
    let of_columns = table.columns.iter_mut().flat_map(|column| {
        [column.default.as_mut(), column.generated.as_mut(), column.expression.as_mut()].into_iter().flatten()
    });
    for text in of_columns.chain(table.checks.iter_mut().map(|check| &mut check.condition)) {
        if let Some(new) = change(text) {
            *text = new;
            changed = true;
        }
    }
    changed
}

/// The name of a label in texts, and that it gets.
struct LabelTexts<'a> {
    old: &'a UserType,
    renamed: &'a UserType,
    from: &'a str,
    to: &'a str,
}

impl LabelTexts<'_> {
    /// A tree with the label's new name in constants of the enum and of its arrays, if there is one
    /// of the label. A string is such a constant if the tree means the same with the new name in its
    /// place: a text would be another one.
    fn renamed_in<T: VisitMut + Clone>(&self, tree: T, meaning: impl Fn(&T) -> Result<String>) -> Result<Option<T>> {
        let mut tree = tree;
        let mut found = Vec::new();
        for_each_string(&mut tree, &mut |at, value| {
            if let Some(new) = self.constant(value) {
                found.push((at, new));
            }
        });
        if found.is_empty() {
            return Ok(None);
        }
        let before = meaning(&tree)?;
        let mut is_changed = false;
        for (place, new) in found {
            let mut tried = tree.clone();
            for_each_string(&mut tried, &mut |at, value| {
                if at == place {
                    *value = ast::Value::SingleQuotedString(new.clone());
                }
            });
            pulse::check()?;
            match meaning(&tried) {
                Ok(after) if after == before => (tree, is_changed) = (tried, true),
                // It is not known yet.
                Err(error) if store_error::pause(&error).is_some() => return Err(error),
                _ => {}
            }
        }
        Ok(is_changed.then_some(tree))
    }

    /// What a string is with the new name, if it may be a constant with the label in it.
    fn constant(&self, value: &ast::Value) -> Option<String> {
        let text = string_of(value)?;
        if text == self.from {
            return Some(self.to.to_owned());
        }
        // Texts of arrays have labels in a form of their own.
        let new = text.contains('{').then(|| self.value(text, true).ok())??;
        (new != *text).then_some(new)
    }

    /// The text of a value of the enum, or of its arrays, with the new name.
    fn value(&self, text: &str, is_array: bool) -> Result<String> {
        let (from, to) = match is_array {
            true => (self.old.array_ty(), self.renamed.array_ty()),
            false => (self.old.ty(), self.renamed.ty()),
        };
        let env = Env::default();
        let value = match text_io::parse(from, Modifier::NONE, text, &env)? {
            Datum::Array(array) => {
                let values = array.values().to_vec();
                let array = Array::of_parts(self.renamed.ty(), array.dimensions(), values);
                Datum::Array(Arc::new(array.ok_or_else(|| Error::internal("an array lost its dimensions"))?))
            }
            value => value,
        };
        let mut written = String::new();
        text_io::write(to, &value, &env, &mut written);
        Ok(written)
    }
}

/// The text of a string constant.
fn string_of(value: &ast::Value) -> Option<&String> {
    match value {
        ast::Value::SingleQuotedString(text)
        | ast::Value::EscapedStringLiteral(text)
        | ast::Value::UnicodeStringLiteral(text)
        | ast::Value::NationalStringLiteral(text) => Some(text),
        ast::Value::DollarQuotedString(text) => Some(&text.value),
        _ => None,
    }
}

/// Calls something with each string constant of a tree, and with its number among them.
fn for_each_string(tree: &mut impl VisitMut, visit: &mut dyn FnMut(usize, &mut ast::Value)) {
    let mut at = 0;
    _ = ast::visit_expressions_mut(tree, |expr| {
        let value = match expr {
            ast::Expr::Value(value) => &mut value.value,
            ast::Expr::TypedString(typed) => &mut typed.value.value,
            _ => return ControlFlow::<()>::Continue(()),
        };
        if string_of(value).is_some() {
            visit(at, value);
            at += 1;
        }
        ControlFlow::Continue(())
    });
}

/// How stored texts name a type.
pub(super) struct TypeNamesInTexts {
    schema: CompactString,
    name: CompactString,
    /// The name of its arrays, if that is no other type's.
    array_name: Option<CompactString>,
}

impl TypeNamesInTexts {
    /// Whether a text may name the type. It may answer yes for one that does not.
    pub(super) fn may_be_in(&self, text: &str) -> bool {
        mentions(text, &self.name) || self.array_name.as_ref().is_some_and(|name| mentions(text, name))
    }

    /// An expression with another schema and name in the place of the type's; `None` if it does not
    /// name the type.
    pub(super) fn renamed_in(&self, text: &str, to: (&str, &str)) -> Option<String> {
        if !self.may_be_in(text) {
            return None;
        }
        let mut expr = crate::statement::parse_expr(text).ok()?;
        self.rename(&mut expr, to).then(|| expr.to_string())
    }

    /// Writes another schema and name in the place of the type's, wherever it stands in a tree; says
    /// whether it did.
    pub(super) fn rename(&self, tree: &mut impl VisitMut, (schema, name): (&str, &str)) -> bool {
        stored::rename_types(tree, &mut |named_in, named, named_as| {
            // A call without a schema is one of a function.
            let is_type = named_in.is_some() || named_as == NamedAs::Type;
            if !is_type || named_in.unwrap_or(stored::UNSAID_SCHEMA) != self.schema {
                return None;
            }
            let new_name: CompactString = match named {
                _ if *named == *self.name => name.into(),
                _ if self.array_name.as_deref() == Some(named) => array_name(name).into(),
                _ => return None,
            };
            let says_schema = named_in.is_some() || *schema != *self.schema;
            Some((says_schema.then(|| schema.into()), new_name))
        })
    }
}

//! CREATE, ALTER and DROP TYPE: enums.
//!
//! A label that is added gets a place between those of its neighbours, and no row is written anew:
//! see [`colibri_types::enums`]. What the catalogue keeps as SQL (defaults, conditions, views) names
//! types and labels, so it is written anew when these get other names.
//!
//! Invariant: a type is dropped only together with the columns of it, and with what else names it.

use std::ops::ControlFlow;
use std::sync::Arc;

use colibri_catalog::{
    Catalog, Change, Label, NAME_BYTES_MAX, Relation, Table, UserType, UserTypeKind, View, cluster::RoleId,
};
use colibri_syntax::tree::{LabelPlace, TypeChange};
use colibri_types::{Error, Result, SqlState, Type, enums::place_between, text_io};
use compact_str::CompactString;
use sqlparser::ast::{self, VisitMut};

use super::drop::Cascade;
use super::{Session, drop::depended_on};
use crate::bind::{TypeNames, stored};
use crate::session::Severity;
use crate::system::names::quoted;

/// A name as the trees of relations have it.
fn object_name(name: &[CompactString]) -> ast::ObjectName {
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

/// What names a type, and how messages call it.
enum Dependent {
    Column { table: Arc<Table>, place: usize },
    Default { table: Arc<Table>, place: usize },
    Constraint { table: Arc<Table>, name: CompactString },
    View(Arc<View>),
}

impl Session {
    pub(crate) fn create_enum(&mut self, name: &[CompactString], labels: &[String]) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let (schema, name) = self.new_name(&object_name(name))?;
        self.expect_free_type(&schema, &name)?;
        let (_, txn) = self.catalog_and_txn()?;
        let first = Catalog::new_ids(txn, 2 + labels.len() as u32)?;
        let mut known: Vec<Label> = Vec::with_capacity(labels.len());
        for (at, text) in labels.iter().enumerate() {
            expect_label(text)?;
            if known.iter().any(|label| label.text == *text) {
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
        let ty = UserType { id: first, array: first + 1, schema, name, owner, kind, handle: None };
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
    fn find_user_type(&self, name: &[CompactString]) -> Result<Option<Arc<UserType>>> {
        let data_type = ast::DataType::Custom(object_name(name), Vec::new());
        let (catalog, search_path) = (self.catalog(), self.search_path());
        let names = TypeNames { database: self.engine().name(), catalog, search_path };
        match names.find(&data_type) {
            Ok(found) => match found.ty {
                Type::Enum(of) => Ok(catalog.user_type(of.oid()).cloned()),
                Type::Array(_) if found.ty.enum_within().is_some() => {
                    let shown = found.ty.sql_name();
                    let element = found.ty.element().map_or("", Type::sql_name);
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

    pub(crate) fn expect_user_type(&self, name: &[CompactString]) -> Result<Arc<UserType>> {
        let found = self.find_user_type(name)?.ok_or_else(|| no_such_type(&name.join(".")))?;
        self.expect_owner(found.owner, "type", &found.name)?;
        Ok(found)
    }

    pub(crate) fn alter_user_type(&mut self, name: &[CompactString], change: &TypeChange) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let old = self.expect_user_type(name).map_err(|error| match error.state() {
            SqlState::DEPENDENT_OBJECTS => {
                Error::new(SqlState::WRONG_OBJECT_TYPE, format!("{} is not an enum", name.join(".")))
            }
            _ => error,
        })?;
        match change {
            TypeChange::AddValue { text, if_not_exists, place } => self.add_label(&old, text, *if_not_exists, place),
            TypeChange::RenameValue { from, to } => self.rename_label(&old, from, to),
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
                if *schema == old.schema {
                    return Ok(());
                }
                if self.expect_free_type(schema, &old.name).is_err() {
                    let message = format!("type \"{}\" already exists in schema \"{schema}\"", old.name);
                    return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
                }
                self.rename_type(&old, schema, &old.name)
            }
            TypeChange::Owner(to) => {
                let to = self.actor(to)?;
                self.give_type(&old, to)
            }
        }
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
        let id = self.new_id()?;
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
        labels[at].text = to.into();
        let string = ast::Value::SingleQuotedString(from.to_owned()).to_string();
        if let Some(view) = self.catalog().views().find(|view| view.query.contains(&string)) {
            let error = Error::unsupported(format_args!("renaming the label \"{from}\", which a view has as a text"));
            return Err(error.detail(format!("View {} has it.", view.name)));
        }
        let before = self.meanings_of_texts(&[from, to])?;
        let tables: Vec<Arc<Table>> = self.catalog().tables().cloned().collect();
        self.change(vec![Change::PutType(UserType { kind: UserTypeKind::Enum(labels), ..old.clone() })])?;
        let mut changes = Vec::new();
        for table in tables {
            let Some(current) = self.catalog().table(table.id) else { continue };
            let mut changed = (**current).clone();
            let mut is_changed = false;
            // What rows have that were written before a column was added.
            for (column, value) in changed.columns.iter_mut().zip(&table.layout().missing) {
                if column.missing.is_some() && column.ty.ty.enum_within().is_some_and(|of| of.oid() == old.id) {
                    let mut text = String::new();
                    text_io::write(column.ty.ty, value, self.env(), &mut text);
                    column.missing = Some(text);
                    is_changed = true;
                }
            }
            is_changed |= for_each_text(&mut changed, |text| with_string(text, from, to));
            if is_changed {
                changed.renew_layout();
                changes.push(Change::PutTable(changed));
            }
        }
        self.change(changes)?;
        if self.meanings_of_texts(&[from, to])? == before {
            return Ok(());
        }
        Err(Error::unsupported(format_args!("renaming the label \"{from}\", which a stored expression has as a text")))
    }

    /// What stored texts with one of these strings in them mean, so that another label in its place can be told
    /// from another text.
    fn meanings_of_texts(&self, labels: &[&str]) -> Result<Vec<String>> {
        let strings: Vec<String> =
            labels.iter().map(|label| ast::Value::SingleQuotedString((*label).to_owned()).to_string()).collect();
        let has = |text: &str| strings.iter().any(|string| text.contains(string));
        let mut tables: Vec<&Arc<Table>> = self.catalog().tables().collect();
        tables.sort_by_key(|table| table.id);
        let mut found = Vec::new();
        for table in tables {
            for (place, column) in table.live_columns() {
                if let Some(text) = column.default.as_ref().filter(|text| has(text)) {
                    let bound = self.with_binder("", |binder| binder.default_expr(text, &column.name, column.ty))?;
                    found.push(format!("{} {place} {bound:?}", table.id));
                }
                if let Some(text) = column.generated.as_ref().filter(|text| has(text)) {
                    let bound = self.with_binder("", |binder| binder.generated_expr(text, table, place))?;
                    found.push(format!("{} {place} {bound:?}", table.id));
                }
            }
            for check in table.checks.iter().filter(|check| has(&check.condition)) {
                let bound = self.with_binder("", |binder| binder.check_expr(&check.condition, table))?;
                found.push(format!("{} {} {bound:?}", table.id, check.name));
            }
            for (place, text) in table.expressions().filter(|(_, text)| has(text)) {
                let bound = self.with_binder("", |binder| binder.index_expr(text, table))?;
                found.push(format!("{} {place} {:?}", table.id, bound.expr));
            }
        }
        Ok(found)
    }

    fn rename_type(&mut self, old: &UserType, schema: &str, name: &str) -> Result<()> {
        let mut renamed = old.clone();
        (renamed.schema, renamed.name) = (schema.into(), name.into());
        let mut changes = vec![Change::PutType(renamed)];
        let mut tables: Vec<Table> = self.catalog().tables().map(|table| (**table).clone()).collect();
        for table in &mut tables {
            if for_each_text(table, |text| with_type_renamed(text, old, schema, name)) {
                changes.push(Change::PutTable(table.clone()));
            }
        }
        for view in self.catalog().views() {
            if !mentions(&view.query, &old.name) {
                continue;
            }
            let mut query = crate::statement::parse_query(&view.query)?;
            if rename_types(&mut query, old, schema, name) {
                changes.push(Change::PutView(View { query: query.to_string(), ..(**view).clone() }));
            }
        }
        // Tables come before the type, so that they get the type's newest state.
        changes.rotate_left(1);
        self.change(changes)
    }

    /// What names a type, in the order of the messages.
    fn dependents_of_type(&self, ty: &UserType) -> Vec<Dependent> {
        let mut tables: Vec<Arc<Table>> = self.catalog().tables().cloned().collect();
        tables.sort_by_key(|table| table.id);
        let names = |text: &str| {
            mentions(text, &ty.name)
                && crate::statement::parse_expr(text).is_ok_and(|mut expr| rename_types(&mut expr, ty, "", ""))
        };
        let mut found = Vec::new();
        for table in tables {
            for (place, column) in table.live_columns() {
                if column.ty.ty.enum_within().is_some_and(|of| of.oid() == ty.id) {
                    found.push(Dependent::Column { table: Arc::clone(&table), place });
                } else if column.default.as_deref().is_some_and(names) {
                    found.push(Dependent::Default { table: Arc::clone(&table), place });
                } else if column.generated.as_deref().is_some_and(names) {
                    found.push(Dependent::Column { table: Arc::clone(&table), place });
                }
            }
            for check in table.checks.iter().filter(|check| names(&check.condition)) {
                found.push(Dependent::Constraint { table: Arc::clone(&table), name: check.name.clone() });
            }
        }
        let mut views: Vec<&Arc<View>> = self.catalog().views().collect();
        views.sort_by_key(|view| view.id);
        for view in views.into_iter().filter(|view| mentions(&view.query, &ty.name)) {
            if crate::statement::parse_query(&view.query).is_ok_and(|mut query| rename_types(&mut query, ty, "", "")) {
                found.push(Dependent::View(Arc::clone(view)));
            }
        }
        found
    }

    fn described_dependent(&self, dependent: &Dependent) -> String {
        match dependent {
            Dependent::Column { table, place } => {
                format!("column {} of {}", quoted(&table.columns[*place].name), self.described_table(table))
            }
            Dependent::Default { table, place } => {
                format!("default value for column {} of {}", table.columns[*place].name, self.described_table(table))
            }
            Dependent::Constraint { table, name } => self.described_constraint(name, table),
            Dependent::View(view) => self.described(&Relation::View(Arc::clone(view))),
        }
    }

    /// A type, as a message has it.
    pub(super) fn described_type(&self, ty: &UserType) -> String {
        let first = self.catalog().find_type(None, &ty.name, self.search_path());
        match first {
            Some(found) if found.id == ty.id => format!("type {}", quoted(&ty.name)),
            _ => format!("type {}.{}", quoted(&ty.schema), quoted(&ty.name)),
        }
    }

    pub(crate) fn drop_types(&mut self, names: &[Vec<CompactString>], if_exists: bool, cascade: bool) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let mut found: Vec<Arc<UserType>> = Vec::new();
        for name in names {
            match self.find_user_type(name) {
                Ok(Some(ty)) => {
                    self.expect_owner(ty.owner, "type", &ty.name)?;
                    if found.iter().all(|known| known.id != ty.id) {
                        found.push(ty);
                    }
                }
                Ok(None) if if_exists => self.notice_missing("type", &name.join(".")),
                Ok(None) => return Err(no_such_type(&name.join("."))),
                Err(error) if if_exists && error.state() == SqlState::NO_SUCH_SCHEMA => {
                    self.notice_skipped(&error.report().message);
                }
                Err(error) => {
                    let report = error.report();
                    let message = report.message.replace("cannot change type", "cannot drop type");
                    let hint = report.hint.clone();
                    let error = Error::new(error.state(), message);
                    return Err(match hint {
                        Some(hint) => error.hint(hint),
                        None => error,
                    });
                }
            }
        }
        for ty in found {
            let mut along = Cascade::new(cascade);
            self.drop_type(&ty, &mut along)?;
            self.tell_cascade(along);
        }
        Ok(())
    }

    /// Drops a type together with what names it.
    pub(super) fn drop_type(&mut self, ty: &UserType, cascade: &mut Cascade) -> Result<()> {
        let dependents = self.dependents_of_type(ty);
        if !cascade.allows() && !dependents.is_empty() {
            let described = self.described_type(ty);
            let on = |dependent| format!("{} depends on {described}", self.described_dependent(dependent));
            return Err(depended_on(&described, &dependents.iter().map(on).collect::<Vec<_>>()));
        }
        for dependent in dependents {
            let described = self.described_dependent(&dependent);
            match dependent {
                Dependent::Column { table, place } => {
                    let name = &table.columns[place].name;
                    if self.catalog().table(table.id).is_some_and(|table| table.column(name).is_some()) {
                        cascade.takes(described);
                        self.lock_table(&table)?;
                        self.drop_column(&table.id, name, true, cascade)?;
                    }
                }
                Dependent::Default { table, place } => {
                    let Some(current) = self.catalog().table(table.id).cloned() else { continue };
                    if current.columns[place].default.is_some() {
                        cascade.takes(described);
                        self.lock_table(&current)?;
                        let mut changed = (*current).clone();
                        changed.columns[place].default = None;
                        self.change(vec![Change::PutTable(changed)])?;
                    }
                }
                Dependent::Constraint { table, name } => {
                    let Some(current) = self.catalog().table(table.id).cloned() else { continue };
                    if current.checks.iter().any(|check| check.name == name) {
                        cascade.takes(described);
                        self.lock_table(&current)?;
                        self.drop_constraint(&current, &name, cascade)?;
                    }
                }
                Dependent::View(view) => {
                    if self.catalog().view(view.id).is_some() {
                        cascade.takes(described);
                        self.drop_view(&view, cascade, &[])?;
                    }
                }
            }
        }
        self.change(vec![Change::DropType(ty.id)])
    }
}

fn no_place() -> Error {
    Error::new(SqlState::PROGRAM_LIMIT, "there is no place left between two labels of the enum")
        .hint("Make another enum with all labels in their order, and change the columns to it.")
}

/// Whether a text may name the type. It may answer yes for one that does not.
fn mentions(text: &str, name: &str) -> bool {
    text.to_ascii_lowercase().contains(&name.replace('"', "\"\"").to_ascii_lowercase())
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

/// An expression with another string in the place of one; `None` if that is not in it.
fn with_string(text: &str, from: &str, to: &str) -> Option<String> {
    let mut expr = crate::statement::parse_expr(text).ok()?;
    replace_strings(&mut expr, from, to).then(|| expr.to_string())
}

fn replace_strings(tree: &mut impl VisitMut, from: &str, to: &str) -> bool {
    let mut replaced = false;
    _ = ast::visit_expressions_mut(tree, |expr| {
        let value = match expr {
            ast::Expr::Value(value) => Some(&mut value.value),
            ast::Expr::TypedString(typed) => Some(&mut typed.value.value),
            _ => None,
        };
        if let Some(ast::Value::SingleQuotedString(text)) = value
            && text == from
        {
            to.clone_into(text);
            replaced = true;
        }
        ControlFlow::<()>::Continue(())
    });
    replaced
}

fn with_type_renamed(text: &str, old: &UserType, schema: &str, name: &str) -> Option<String> {
    if !mentions(text, &old.name) {
        return None;
    }
    let mut expr = crate::statement::parse_expr(text).ok()?;
    rename_types(&mut expr, old, schema, name).then(|| expr.to_string())
}

/// Writes another name in the place of a type's, wherever it stands in a tree; says whether it did.
fn rename_types(tree: &mut impl VisitMut, old: &UserType, schema: &str, name: &str) -> bool {
    stored::rename_types(tree, &mut |named_in, named| {
        let is_it = named == old.name && named_in.is_none_or(|named_in| named_in == old.schema);
        let to_schema = named_in.map_or(schema != old.schema, |_| true);
        is_it.then(|| (to_schema.then(|| schema.into()), name.into()))
    })
}

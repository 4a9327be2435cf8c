//! What depends on a type, and how it goes with the type.
//!
//! Invariant: a type is dropped only together with the columns of it, and with what else names it.

use std::collections::HashSet;
use std::sync::Arc;

use colibri_catalog::{
    Catalog, Change, Domain, Index, Relation, Routine, Sequence, Table, UserType, UserTypeKind, View,
};
use colibri_syntax::tree::AttributeChange;
use colibri_types::{ColumnType, Error, Result, SqlState, pulse};
use compact_str::CompactString;

use super::drop::Cascade;
use super::user_types::{no_such_type, rename_in_domain};
use super::{Session, drop::depended_on};
use crate::bind::stored;
use crate::system::names::quoted;

/// What names a type, and how messages call it.
enum Dependent {
    Column {
        table: Arc<Table>,
        place: usize,
    },
    Default {
        table: Arc<Table>,
        place: usize,
    },
    Constraint {
        table: Arc<Table>,
        name: CompactString,
    },
    Index {
        table: Arc<Table>,
        index: Arc<Index>,
    },
    View(Arc<View>),
    Routine(Arc<Routine>),
    /// A field of a composite type.
    Field {
        of: Arc<UserType>,
        name: CompactString,
    },
    /// A domain over it, or with a default that names it; a range of it.
    Domain(Arc<UserType>),
    /// A condition of a domain.
    DomainConstraint {
        domain: Arc<UserType>,
        name: CompactString,
    },
}

impl Session {
    /// What names a type, in the order of the messages.
    fn dependents_of_type(&self, ty: &UserType) -> Vec<Dependent> {
        let mut tables: Vec<Arc<Table>> = self.catalog().tables().cloned().collect();
        tables.sort_by_key(|table| table.id);
        let of_type = self.names_of(ty);
        let names = |text: &str| of_type.renamed_in(text, ("", "")).is_some();
        let mut found = Vec::new();
        for table in tables {
            for (place, column) in table.live_columns() {
                if is_of(column.ty, ty) {
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
            for index in &table.indexes {
                let places = index.columns.iter().map(|part| part.column).chain(index.predicate);
                if places.filter_map(|place| table.columns[place].expression.as_deref()).any(names) {
                    found.push(Dependent::Index { table: Arc::clone(&table), index: Arc::clone(index) });
                }
            }
        }
        let mut views: Vec<&Arc<View>> = self.catalog().views().collect();
        views.sort_by_key(|view| view.id);
        for view in views.into_iter().filter(|view| of_type.may_be_in(&view.query)) {
            if crate::statement::parse_query(&view.query).is_ok_and(|mut query| of_type.rename(&mut query, ("", ""))) {
                found.push(Dependent::View(Arc::clone(view)));
            }
        }
        for routine in self.catalog().routines().filter(|one| {
            one.uses_type(ty.id)
                || ty.array != 0 && one.uses_type(ty.array)
                || ty.composite().is_some_and(|composite| one.uses_type(composite.relation))
        }) {
            found.push(Dependent::Routine(Arc::clone(routine)));
        }
        for other in self.catalog().types().filter(|other| other.id != ty.id) {
            for field in other.composite().iter().flat_map(|composite| &composite.fields) {
                if is_of(field.ty, ty) {
                    found.push(Dependent::Field { of: Arc::clone(other), name: field.name.clone() });
                }
            }
            if other.range().is_some_and(|pair| is_of(pair.subtype, ty)) && !other.is_multirange() {
                found.push(Dependent::Domain(Arc::clone(other)));
            }
            let Some(domain) = other.domain() else { continue };
            if is_of(domain.base, ty) {
                found.push(Dependent::Domain(Arc::clone(other)));
                continue;
            }
            if domain.default.as_deref().is_some_and(names) {
                found.push(Dependent::Domain(Arc::clone(other)));
                continue;
            }
            for check in domain.checks.iter().filter(|check| names(&check.condition)) {
                found.push(Dependent::DomainConstraint { domain: Arc::clone(other), name: check.name.clone() });
            }
        }
        // A multirange goes with its range.
        if let Some(pair) = ty.range().filter(|pair| pair.ids[1] != ty.id)
            && let Some(multirange) = self.catalog().user_type(pair.ids[1])
        {
            found.extend(self.dependents_of_type(multirange));
        }
        found
    }

    /// What depends on a type, each with what depends on it in turn behind it, as messages say it.
    fn all_dependents(&self, ty: &UserType) -> Vec<String> {
        let mut found = Vec::new();
        // Types, each with those of its dependents that are yet to be told, the last one first.
        let mut open = vec![(self.described_type(ty), self.dependents_of_type(ty))];
        open[0].1.reverse();
        while let Some((on, left)) = open.last_mut() {
            let Some(dependent) = left.pop() else {
                open.pop();
                continue;
            };
            let described = self.described_dependent(&dependent);
            found.push(format!("{described} depends on {on}"));
            if let Dependent::Domain(domain) = dependent {
                let mut further = self.dependents_of_type(&domain);
                further.reverse();
                open.push((described, further));
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
            Dependent::Index { table, index } => self.described(&Relation::Index(table.id, Arc::clone(index))),
            Dependent::View(view) => self.described(&Relation::View(Arc::clone(view))),
            Dependent::Routine(routine) => format!("{} {}", routine.kind(), self.routine_text(routine)),
            Dependent::Field { of, name } => {
                format!("column {} of composite {}", quoted(name), self.described_type(of))
            }
            Dependent::Domain(domain) => self.described_type(domain),
            Dependent::DomainConstraint { name, .. } => format!("constraint {name}"),
        }
    }

    /// A type, as a message has it.
    pub(super) fn described_type(&self, ty: &UserType) -> String {
        let first = self.catalog().find_type(None, &ty.name, self.search_path());
        match first {
            Some(found) if found.id == ty.id => format!("type {}", quoted(&ty.name)),
            None if crate::bind::extension_type(self.catalog(), None, &ty.name, self.search_path()).is_some() => {
                format!("type {}", quoted(&ty.name))
            }
            _ => format!("type {}.{}", quoted(&ty.schema), quoted(&ty.name)),
        }
    }

    pub(crate) fn drop_types(
        &mut self,
        names: &[Vec<CompactString>],
        if_exists: bool,
        cascade: bool,
        domains: bool,
    ) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let mut found: Vec<Arc<UserType>> = Vec::new();
        for name in names {
            let is_domain = if domains { self.expect_domain(name) } else { Ok(()) };
            if let Err(error) = is_domain
                && error.state() == SqlState::WRONG_OBJECT_TYPE
            {
                return Err(error);
            }
            match self.find_user_type(name) {
                Ok(Some(ty)) => {
                    self.expect_owner(ty.owner, "type", &ty.name)?;
                    self.expect_no_member(ty.id, || self.described_type(&ty))?;
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
        let together: Vec<u32> = found.iter().map(|ty| ty.id).collect();
        let mut known: HashSet<u32> = together.iter().copied().collect();
        let mut details = Vec::new();
        for ty in found.iter().rev().filter(|_| !cascade) {
            self.tell_dependents(ty, &mut known, &mut details)?;
        }
        if !details.is_empty() {
            let details: Vec<String> =
                details.into_iter().map(|(what, on)| format!("{what} depends on {on}")).collect();
            return Err(match &found[..] {
                [one] => depended_on(&self.described_type(one), &details),
                _ => {
                    let message = "cannot drop desired object(s) because other objects depend on them";
                    Error::new(SqlState::DEPENDENT_OBJECTS, message)
                        .detail(details.join("\n"))
                        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
                }
            });
        }
        // Bug: each was dropped by itself. Consequence: two of which one is over the other could not
        // be dropped together. Fix: what is in the list keeps nothing in it; the youngest, which
        // nothing else in the list is over, goes first.
        found.sort_by_key(|ty| std::cmp::Reverse(ty.id));
        let mut along = Cascade::new(cascade);
        for ty in found {
            self.drop_type(&ty, &together, &mut along)?;
        }
        self.tell_cascade(along);
        Ok(())
    }

    /// What depends on a type, with what it depends on: that of domains over it, too. `known`: types
    /// that go anyway, or have been told.
    fn tell_dependents(&self, ty: &UserType, known: &mut HashSet<u32>, told: &mut Vec<(String, String)>) -> Result<()> {
        let of_casts = self.catalog().casts().filter(|cast| [cast.from, cast.to].contains(&ty.id));
        told.extend(of_casts.map(|cast| (self.described_cast(cast), self.described_type(ty))));
        let of_operators = self.catalog().operators().filter(|operator| operator.uses_type(ty.id));
        told.extend(of_operators.map(|operator| (self.described_operator(operator), self.described_type(ty))));
        // Domains may be over each other at any depth.
        let mut open = vec![(self.described_type(ty), self.dependents_of_type(ty).into_iter())];
        while let Some((on, dependents)) = open.last_mut() {
            match dependents.next() {
                Some(Dependent::Domain(domain)) if known.insert(domain.id) => {
                    pulse::check()?;
                    let described = self.described_type(&domain);
                    told.push((described.clone(), on.clone()));
                    open.push((described, self.dependents_of_type(&domain).into_iter()));
                }
                Some(Dependent::Domain(_)) => {}
                // The type that has the field goes with it.
                Some(Dependent::Field { of, .. }) if known.contains(&of.id) => {}
                Some(other) => told.push((self.described_dependent(&other), on.clone())),
                None => _ = open.pop(),
            }
        }
        Ok(())
    }

    /// What keeps a type, as messages say it; nothing if it goes along.
    pub(super) fn dependents_told(&self, ty: &UserType, cascade: &Cascade) -> Result<Vec<String>> {
        let mut told = Vec::new();
        if !cascade.allows() {
            self.tell_dependents(ty, &mut HashSet::new(), &mut told)?;
        }
        Ok(told.into_iter().map(|(what, on)| format!("{what} depends on {on}")).collect())
    }

    /// What depends on a sequence among domains: those whose default takes its numbers, with all
    /// that depends on them, and conditions.
    pub(super) fn types_told(&self, sequence: &Sequence, together: &[u32]) -> Result<Vec<(String, String)>> {
        let on = self.described(&Relation::Sequence(Arc::new(sequence.clone())));
        let (mut known, mut told) = (together.iter().copied().collect::<HashSet<u32>>(), Vec::new());
        for user in self.domains_using(sequence) {
            match user {
                Dependent::Domain(domain) if known.insert(domain.id) => {
                    told.push((self.described_type(&domain), on.clone()));
                    self.tell_dependents(&domain, &mut known, &mut told)?;
                }
                Dependent::Domain(_) => {}
                other => told.push((self.described_dependent(&other), on.clone())),
            }
        }
        Ok(told)
    }

    fn domains_using(&self, sequence: &Sequence) -> Vec<Dependent> {
        let mut found = Vec::new();
        for ty in self.catalog().types() {
            let Some(domain) = ty.domain() else { continue };
            if domain.default.as_deref().is_some_and(|default| stored::uses_sequence(default, sequence)) {
                found.push(Dependent::Domain(Arc::clone(ty)));
                continue;
            }
            for check in domain.checks.iter().filter(|check| stored::uses_sequence(&check.condition, sequence)) {
                found.push(Dependent::DomainConstraint { domain: Arc::clone(ty), name: check.name.clone() });
            }
        }
        found
    }

    /// Drops the domains that take their defaults from a sequence, and conditions with it.
    pub(super) fn forget_in_domains(&mut self, sequence: &Sequence, cascade: &mut Cascade) -> Result<()> {
        let users = self.domains_using(sequence).into_iter();
        users.into_iter().try_for_each(|user| self.drop_dependent(user, cascade))
    }

    /// The domains that say a sequence's name in their texts, with another name for it.
    pub(super) fn domains_with_sequence_renamed(&self, sequence: &Sequence, to: (&str, &str)) -> Vec<Change> {
        let mut changes = Vec::new();
        for ty in self.catalog().types().filter(|ty| ty.domain().is_some()) {
            let mut ty = (**ty).clone();
            if rename_in_domain(&mut ty, |text| stored::with_sequence_renamed(text, sequence, to)) {
                changes.push(Change::PutType(ty));
            }
        }
        changes
    }

    /// Drops a type together with what names it, but for types that go anyway.
    pub(super) fn drop_type(&mut self, ty: &UserType, together: &[u32], cascade: &mut Cascade) -> Result<()> {
        let is_kept = |dependent: &Dependent| match dependent {
            Dependent::Domain(domain) => !together.contains(&domain.id),
            Dependent::Field { of, .. } => !together.contains(&of.id),
            _ => true,
        };
        let mut dependents = self.dependents_of_type(ty);
        dependents.retain(is_kept);
        if !cascade.allows() && !dependents.is_empty() {
            return Err(depended_on(&self.described_type(ty), &self.all_dependents(ty)));
        }
        let casts: Vec<_> =
            self.catalog().casts().filter(|cast| [cast.from, cast.to].contains(&ty.id)).cloned().collect();
        for cast in casts {
            let described = self.described_cast(&cast);
            if !cascade.allows() {
                let of = self.described_type(ty);
                return Err(depended_on(&of, &[format!("{described} depends on {of}")]));
            }
            cascade.takes(described);
            self.change(vec![Change::DropCast(cast.id)])?;
        }
        let operators: Vec<_> =
            self.catalog().operators().filter(|operator| operator.uses_type(ty.id)).cloned().collect();
        for operator in &operators {
            let described = self.described_operator(operator);
            if !cascade.allows() {
                let of = self.described_type(ty);
                return Err(depended_on(&of, &[format!("{described} depends on {of}")]));
            }
            cascade.takes(described);
        }
        self.drop_operators(&operators, cascade)?;
        // Domains may be over each other at any depth.
        let mut open = vec![(ty.id, dependents.into_iter())];
        while let Some((id, dependents)) = open.last_mut() {
            match dependents.next() {
                Some(Dependent::Domain(domain)) => {
                    if self.catalog().user_type(domain.id).is_some() {
                        pulse::check()?;
                        cascade.takes(self.described_type(&domain));
                        let mut dependents = self.dependents_of_type(&domain);
                        dependents.retain(is_kept);
                        open.push((domain.id, dependents.into_iter()));
                    }
                }
                Some(dependent) => self.drop_dependent(dependent, cascade)?,
                None => {
                    let id = *id;
                    open.pop();
                    if let Some(ty) = self.catalog().user_type(id) {
                        let ids = ty.range().map_or_else(|| vec![id], |pair| pair.ids.to_vec());
                        self.change(ids.into_iter().map(Change::DropType).collect())?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Drops what depends on a type and is no domain over it.
    fn drop_dependent(&mut self, dependent: Dependent, cascade: &mut Cascade) -> Result<()> {
        let described = self.described_dependent(&dependent);
        match dependent {
            Dependent::Routine(routine) => {
                if self.catalog().routine(routine.id).is_some() {
                    cascade.takes(described);
                    self.drop_routine(&routine, cascade)?;
                }
            }
            // Its columns are those of its query.
            Dependent::Column { table, .. } if table.materialized.is_some() => {
                if self.catalog().table(table.id).is_some() {
                    cascade.takes(self.described_table(&table));
                    self.drop_table(table.id, cascade, &[])?;
                }
            }
            Dependent::Column { table, place } => {
                let name = &table.columns[place].name;
                if self.catalog().table(table.id).is_some_and(|table| table.column(name).is_some()) {
                    cascade.takes(described);
                    self.lock_table(&table)?;
                    self.drop_column(&table.id, name, true, cascade)?;
                }
            }
            Dependent::Default { table, place } => {
                let Some(current) = self.catalog().table(table.id).cloned() else { return Ok(()) };
                if current.columns[place].default.is_some() {
                    cascade.takes(described);
                    self.lock_table(&current)?;
                    let mut changed = (*current).clone();
                    changed.columns[place].default = None;
                    self.change(vec![Change::PutTable(changed)])?;
                }
            }
            Dependent::Constraint { table, name } => {
                let Some(current) = self.catalog().table(table.id).cloned() else { return Ok(()) };
                if current.checks.iter().any(|check| check.name == name) {
                    cascade.takes(described);
                    self.lock_table(&current)?;
                    self.drop_constraint(&current, &name, cascade)?;
                }
            }
            Dependent::Index { table, index } => {
                let Some(current) = self.catalog().table(table.id).cloned() else { return Ok(()) };
                if current.indexes.iter().any(|other| other.id == index.id) {
                    cascade.takes(described);
                    self.lock_table(&current)?;
                    self.drop_index_of(table.id, &index.name)?;
                }
            }
            Dependent::View(view) => {
                if self.catalog().view(view.id).is_some() {
                    cascade.takes(described);
                    self.drop_view(&view, cascade, &[])?;
                }
            }
            Dependent::Field { of, name } => {
                let Some(current) = self.catalog().user_type(of.id).cloned() else { return Ok(()) };
                cascade.takes(described);
                self.change_fields(&current, &[AttributeChange::Drop { name, if_exists: true }])?;
            }
            Dependent::Domain(domain) => {
                if self.catalog().user_type(domain.id).is_some() {
                    cascade.takes(described);
                    self.drop_type(&domain, &[], cascade)?;
                }
            }
            Dependent::DomainConstraint { domain, name } => {
                if self.catalog().user_type(domain.id).is_some() {
                    cascade.takes(described);
                    self.change_domain_of(domain.id, |domain| domain.checks.retain(|check| check.name != name))?;
                }
            }
        }
        Ok(())
    }

    /// Changes a domain, if it is still there.
    fn change_domain_of(&mut self, id: u32, change: impl FnOnce(&mut Domain)) -> Result<()> {
        let Some(ty) = self.catalog().user_type(id) else { return Ok(()) };
        let mut changed = (**ty).clone();
        if let UserTypeKind::Domain(domain) = &mut changed.kind {
            change(domain);
        }
        self.change(vec![Change::PutType(changed)])
    }
}

/// Whether a column's type is a type that a user has defined, or of arrays of it.
fn is_of(column: ColumnType, ty: &UserType) -> bool {
    match column.domain {
        Some(domain) => domain.element().oid() == ty.id,
        None if column.ty.extension().is_some() => [ty.id, ty.array].contains(&column.ty.oid()),
        None => column.ty.of_user().is_some_and(|of| of.oid() == ty.id),
    }
}

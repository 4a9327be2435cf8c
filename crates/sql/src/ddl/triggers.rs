//! CREATE, ALTER and DROP TRIGGER.

use std::sync::Arc;

use colibri_catalog::cluster::{ObjectKind, Privileges};
use colibri_catalog::{Catalog, Change, Relation, RoutineType, Table, Timing, Trigger, TriggerTime, View};
use colibri_syntax::tree::{CreateTrigger, TriggerEvent, TriggerTiming, TriggersMeant};
use colibri_types::{Error, Result, SqlState};
use compact_str::CompactString;

use super::Session;
use crate::exec::{truncate_triggers, with_exec};

/// What has triggers.
enum Owner {
    Table(Arc<Table>),
    View(Arc<View>),
}

impl Owner {
    fn triggers(&self) -> &[Arc<Trigger>] {
        match self {
            Self::Table(table) => &table.triggers,
            Self::View(view) => &view.triggers,
        }
    }

    fn schema(&self) -> &CompactString {
        match self {
            Self::Table(table) => &table.schema,
            Self::View(view) => &view.schema,
        }
    }

    fn name(&self) -> &CompactString {
        match self {
            Self::Table(table) => &table.name,
            Self::View(view) => &view.name,
        }
    }

    fn with(&self, mut triggers: Vec<Arc<Trigger>>) -> Change {
        // They fire in the order of their names.
        triggers.sort_by(|one, other| one.name.cmp(&other.name));
        match self {
            Self::Table(table) => Change::PutTable(Table { triggers, ..(**table).clone() }),
            Self::View(view) => Change::PutView(View { triggers, ..(**view).clone() }),
        }
    }
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, message)
}

impl Session {
    /// The triggers that name a column of their table, in UPDATE OF or in WHEN.
    pub(super) fn triggers_on_column(&self, table: &Arc<Table>, place: usize) -> Result<Vec<CompactString>> {
        let mut found = Vec::new();
        for trigger in &table.triggers {
            let mut is_named = trigger.columns.contains(&place);
            if let Some(when) = self.with_binder("", |binder| binder.trigger_condition(table, trigger))? {
                let places = [place, table.columns.len() + place];
                crate::bind::rewrite::for_each_column(&when, &mut |column| is_named |= places.contains(&column));
            }
            if is_named {
                found.push(trigger.name.clone());
            }
        }
        Ok(found)
    }

    fn trigger_owner(&mut self, name: &[CompactString]) -> Result<Owner> {
        match self.relation_named(name)?.cloned() {
            Some(Relation::Table(table)) => {
                self.lock_table(&table)?;
                let newest = self.catalog().table(table.id).cloned();
                Ok(Owner::Table(newest.unwrap_or(table)))
            }
            Some(Relation::View(view)) => Ok(Owner::View(view)),
            Some(other) => {
                let shown = name.last().cloned().unwrap_or_default();
                Err(bad(format!("relation \"{shown}\" cannot have triggers"))
                    .detail(format!("This operation is not supported for {}s.", other.kind())))
            }
            None => {
                let message = format!("relation \"{}\" does not exist", name.join("."));
                Err(Error::new(SqlState::NO_SUCH_TABLE, message))
            }
        }
    }

    /// As [`Session::trigger_owner`]. With IF EXISTS a missing relation is a notice, and `None`.
    fn trigger_owner_if_there(&mut self, name: &[CompactString], if_exists: bool) -> Result<Option<Owner>> {
        match self.trigger_owner(name) {
            Err(error) if if_exists && error.state() == SqlState::NO_SUCH_TABLE => {
                self.notice_missing("relation", &name.join("."));
                Ok(None)
            }
            owner => owner.map(Some),
        }
    }

    pub(super) fn create_trigger(&mut self, create: &CreateTrigger) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let owner = self.trigger_owner(&create.table)?;
        let shown = owner.name().clone();
        if let Owner::Table(table) = &owner {
            let may = self.authority().may(Privileges::TRIGGER, ObjectKind::Table, table.owner, table.acl.as_ref());
            if !may {
                return Err(Error::denied("table", &table.name));
            }
        }
        check_kind(&owner, create)?;
        let function = self.trigger_function(create)?;
        let mut events = 0;
        let mut columns = Vec::new();
        for event in &create.events {
            events |= match event {
                TriggerEvent::Insert => Trigger::INSERT,
                TriggerEvent::Delete => Trigger::DELETE,
                TriggerEvent::Truncate => Trigger::TRUNCATE,
                TriggerEvent::Update(names) => {
                    for name in names {
                        let place = match &owner {
                            Owner::Table(table) => table.column(name),
                            Owner::View(view) => view.columns.iter().position(|column| column == name),
                        };
                        let place = place.ok_or_else(|| {
                            let message = format!("column \"{name}\" of relation \"{shown}\" does not exist");
                            Error::new(SqlState::NO_SUCH_COLUMN, message)
                        })?;
                        if columns.contains(&place) {
                            let message = format!("column \"{name}\" specified more than once");
                            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
                        }
                        columns.push(place);
                    }
                    Trigger::UPDATE
                }
            };
        }
        let from = match &create.from {
            None => None,
            Some(name) => match self.relation_named(name)? {
                Some(Relation::Table(table)) => Some(table.id),
                _ => {
                    let message = format!("relation \"{}\" does not exist", name.join("."));
                    return Err(Error::new(SqlState::NO_SUCH_TABLE, message));
                }
            },
        };
        let known = owner.triggers().iter().find(|trigger| trigger.name == create.name);
        if let Some(known) = known
            && (!create.or_replace || known.is_constraint || create.is_constraint)
        {
            let name = &create.name;
            let message = match create.or_replace && known.is_constraint {
                true => format!("trigger \"{name}\" for relation \"{shown}\" is a constraint trigger"),
                false => format!("trigger \"{name}\" for relation \"{shown}\" already exists"),
            };
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        if let Some(known) = known.filter(|known| known.parent.is_some()) {
            let name = &known.name;
            let message = format!("trigger \"{name}\" for relation \"{shown}\" is an internal or a child trigger");
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let id = match known {
            Some(known) => known.id,
            None => self.new_id_in(&owner.schema().clone())?,
        };
        let trigger = Trigger {
            id,
            name: create.name.clone(),
            function,
            timing: match create.timing {
                TriggerTiming::Before => TriggerTime::Before,
                TriggerTiming::After => TriggerTime::After,
                TriggerTiming::InsteadOf => TriggerTime::InsteadOf,
            },
            row: create.for_each_row,
            events,
            columns,
            when: create.when.clone(),
            old_table: create.old_table.clone(),
            new_table: create.new_table.clone(),
            args: create.args.clone(),
            enabled: 'O',
            is_constraint: create.is_constraint,
            deferral: match (create.deferrable, create.initially_deferred) {
                (_, true) => Timing::Deferred,
                (true, false) => Timing::Immediate,
                (false, false) => Timing::Fixed,
            },
            parent: None,
            from,
        };
        if let Owner::Table(table) = &owner {
            self.with_binder("", |binder| binder.trigger_condition(table, &trigger).map(drop))?;
        }
        let mut triggers: Vec<Arc<Trigger>> = owner.triggers().iter().filter(|known| known.id != id).cloned().collect();
        triggers.push(Arc::new(trigger.clone()));
        self.change(vec![owner.with(triggers)])?;
        if let (Owner::Table(table), true) = (&owner, trigger.row) {
            for partition in table.partitioned.iter().flat_map(|partitioned| &partitioned.partitions) {
                self.take_trigger(table, &trigger, *partition, create.or_replace)?;
            }
        }
        Ok(())
    }

    /// A trigger of a partitioned table as one of a partition, with new numbers.
    fn own_trigger(&mut self, parent: &Table, trigger: &Trigger, table: &Table) -> Result<Trigger> {
        if table.triggers.iter().any(|known| known.name == trigger.name) {
            let message = format!("trigger \"{}\" for relation \"{}\" already exists", trigger.name, table.name);
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let columns = super::partitions::own_columns(parent, table, &trigger.columns)?;
        let id = self.new_id_in(&table.schema.clone())?;
        Ok(Trigger { id, columns, parent: Some(trigger.id), ..trigger.clone() })
    }

    /// Gives a new partition the row triggers of its table.
    pub(super) fn inherit_triggers(&mut self, table: &mut Table, parent: &Table) -> Result<()> {
        for trigger in parent.triggers.iter().filter(|trigger| trigger.row) {
            let own = self.own_trigger(parent, trigger, table)?;
            table.triggers.push(Arc::new(own));
        }
        Ok(())
    }

    /// Gives a partition, and those below it, a copy of a row trigger of its table.
    pub(super) fn take_trigger(
        &mut self,
        parent: &Table,
        trigger: &Trigger,
        partition: u32,
        replaces: bool,
    ) -> Result<()> {
        let table = self.current(partition)?;
        self.lock_table(&table)?;
        let mut changed = (*table).clone();
        if replaces {
            changed.triggers.retain(|known| known.parent != Some(trigger.id));
        }
        let own = self.own_trigger(parent, trigger, &changed)?;
        changed.triggers.push(Arc::new(own.clone()));
        changed.triggers.sort_by(|one, other| one.name.cmp(&other.name));
        self.change(vec![Change::PutTable(changed)])?;
        for below in table.partitioned.iter().flat_map(|partitioned| &partitioned.partitions) {
            self.take_trigger(&table, &own, *below, replaces)?;
        }
        Ok(())
    }

    /// The partitions of a table with their copies of a trigger, and those of the partitions below.
    fn copies_of(&self, trigger: u32) -> Vec<(Arc<Table>, Arc<Trigger>)> {
        let mut found: Vec<(Arc<Table>, Arc<Trigger>)> = Vec::new();
        let mut wanted = vec![trigger];
        while let Some(parent) = wanted.pop() {
            for table in self.catalog().tables() {
                for copy in table.triggers.iter().filter(|copy| copy.parent == Some(parent)) {
                    wanted.push(copy.id);
                    found.push((Arc::clone(table), Arc::clone(copy)));
                }
            }
        }
        found
    }

    /// Takes the copies of the triggers of former tables above from a table and those below it.
    pub(super) fn release_triggers(&mut self, table: u32) -> Result<()> {
        let table = self.current(table)?;
        let gone: Vec<Arc<Trigger>> =
            table.triggers.iter().filter(|trigger| trigger.parent.is_some()).cloned().collect();
        for trigger in gone {
            self.drop_copies(trigger.id)?;
            let mut changed = (*self.current(table.id)?).clone();
            changed.triggers.retain(|known| known.id != trigger.id);
            self.change(vec![Change::Comment(trigger.id, 0, None), Change::PutTable(changed)])?;
        }
        Ok(())
    }

    fn drop_copies(&mut self, trigger: u32) -> Result<()> {
        for (table, copy) in self.copies_of(trigger) {
            let mut changed = (*self.current(table.id)?).clone();
            changed.triggers.retain(|known| known.id != copy.id);
            self.change(vec![Change::Comment(copy.id, 0, None), Change::PutTable(changed)])?;
        }
        Ok(())
    }

    /// Changes the copies of a trigger as it was changed itself.
    fn change_copies(&mut self, trigger: u32, change: &dyn Fn(&mut Trigger)) -> Result<()> {
        for (table, copy) in self.copies_of(trigger) {
            let mut changed = (*self.current(table.id)?).clone();
            changed.triggers.iter_mut().filter(|known| known.id == copy.id).for_each(|known| {
                change(Arc::make_mut(known));
            });
            changed.triggers.sort_by(|one, other| one.name.cmp(&other.name));
            self.change(vec![Change::PutTable(changed)])?;
        }
        Ok(())
    }

    /// Fires the triggers of TRUNCATE of a table.
    pub(super) fn fire_truncate(&mut self, table: &Arc<Table>, time: TriggerTime) -> Result<()> {
        let is_meant = |trigger: &Arc<Trigger>| trigger.events & Trigger::TRUNCATE != 0 && trigger.timing == time;
        if !table.triggers.iter().any(is_meant) {
            return Ok(());
        }
        let rules = self.with_binder("", |binder| binder.rules(table))?;
        self.with_context(|txn, cx| with_exec(txn, cx, |ex| truncate_triggers(ex, table, &rules, time)))
    }

    fn trigger_function(&mut self, create: &CreateTrigger) -> Result<u32> {
        let shown = create.function.join(".");
        let (schema, name) = match &create.function[..] {
            [name] => (None, name.clone()),
            [schema, name] => (Some(schema.clone()), name.clone()),
            _ => return Err(Error::new(SqlState::SYNTAX_ERROR, "improper qualified name")),
        };
        let found = self.with_binder("", |binder| Ok(binder.routines_of_name(schema.as_deref(), &name)))?;
        let Some(function) = found.iter().find(|routine| routine.given().next().is_none()) else {
            return Err(Error::new(SqlState::NO_SUCH_FUNCTION, format!("function {shown}() does not exist")));
        };
        if function.result != RoutineType::Trigger {
            let message = format!("function {shown} must return type trigger");
            return Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
        }
        let may =
            self.authority().may(Privileges::EXECUTE, ObjectKind::Function, function.owner, function.acl.as_ref());
        if !may {
            return Err(Error::denied("function", &function.name));
        }
        Ok(function.id)
    }

    pub(super) fn drop_trigger(
        &mut self,
        name: &CompactString,
        table: &[CompactString],
        if_exists: bool,
    ) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let Some(owner) = self.trigger_owner_if_there(table, if_exists)? else { return Ok(()) };
        self.expect_trigger_owner(&owner)?;
        let Some(known) = owner.triggers().iter().find(|trigger| trigger.name == *name).cloned() else {
            let what = format!("trigger \"{name}\" for relation \"{}\" does not exist", owner.name());
            if if_exists {
                self.notice(crate::session::Severity::Notice, SqlState("00000"), format!("{what}, skipping"));
                return Ok(());
            }
            return Err(Error::new(SqlState::NO_SUCH_OBJECT, what));
        };
        if let (Some(parent), Owner::Table(table)) = (known.parent, &owner) {
            let of = |table: &&Arc<Table>| table.triggers.iter().any(|trigger| trigger.id == parent);
            let root = self.catalog().tables().find(of).cloned();
            let required = match &root {
                Some(root) => format!("trigger {name} on {}", self.described_table(root)),
                None => format!("trigger {name}"),
            };
            let message =
                format!("cannot drop trigger {name} on {} because {required} requires it", self.described_table(table));
            return Err(
                Error::new(SqlState::DEPENDENT_OBJECTS, message).hint(format!("You can drop {required} instead."))
            );
        }
        self.drop_copies(known.id)?;
        let kept = owner.triggers().iter().filter(|trigger| trigger.id != known.id).cloned().collect();
        self.change(vec![Change::Comment(known.id, 0, None), owner.with(kept)])
    }

    fn expect_trigger_owner(&self, owner: &Owner) -> Result<()> {
        match owner {
            Owner::Table(table) => self.expect_owner(table.owner, "table", &table.name),
            Owner::View(view) => self.expect_owner(view.owner, "view", &view.name),
        }
    }

    fn expect_trigger(&self, owner: &Owner, name: &str) -> Result<Arc<Trigger>> {
        owner.triggers().iter().find(|trigger| trigger.name == name).cloned().ok_or_else(|| {
            let message = format!("trigger \"{name}\" for table \"{}\" does not exist", owner.name());
            Error::new(SqlState::NO_SUCH_OBJECT, message)
        })
    }

    pub(super) fn rename_trigger(&mut self, name: &str, table: &[CompactString], to: &CompactString) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let owner = self.trigger_owner(table)?;
        self.expect_trigger_owner(&owner)?;
        let known = self.expect_trigger(&owner, name)?;
        if owner.triggers().iter().any(|trigger| trigger.name == *to) {
            let message = format!("trigger \"{to}\" for relation \"{}\" already exists", owner.name());
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let renamed = |trigger: &Arc<Trigger>| match trigger.id == known.id {
            true => Arc::new(Trigger { name: to.clone(), ..(**trigger).clone() }),
            false => Arc::clone(trigger),
        };
        if let (true, Owner::Table(table)) = (known.parent.is_some(), &owner) {
            let message = format!("cannot rename trigger \"{name}\" on table \"{}\"", table.name);
            let parent = table.partition_of.as_ref().map(|of| self.current(of.parent)).transpose()?;
            let root = parent.map(|parent| parent.name.clone()).unwrap_or_default();
            return Err(Error::new(SqlState("XX000"), message)
                .hint(format!("Rename the trigger on the partitioned table \"{root}\" instead.")));
        }
        let triggers = owner.triggers().iter().map(renamed).collect();
        self.change(vec![owner.with(triggers)])?;
        self.change_copies(known.id, &|copy| copy.name = to.clone())
    }

    pub(super) fn comment_on_trigger(
        &mut self,
        name: &str,
        table: &[CompactString],
        text: Option<String>,
    ) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let owner = self.trigger_owner(table)?;
        self.expect_trigger_owner(&owner)?;
        let known = self.expect_trigger(&owner, name)?;
        self.change(vec![Change::Comment(known.id, 0, text)])
    }

    pub(super) fn enable_triggers(
        &mut self,
        table: &[CompactString],
        if_exists: bool,
        which: &TriggersMeant,
        state: char,
        only: bool,
    ) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let Some(owner) = self.trigger_owner_if_there(table, if_exists)? else { return Ok(()) };
        self.expect_trigger_owner(&owner)?;
        let meant = match which {
            TriggersMeant::Named(name) => Some(self.expect_trigger(&owner, name)?.id),
            _ => None,
        };
        let owner = match (&owner, which) {
            (Owner::Table(table), TriggersMeant::All) => {
                // With them go, and come, those that make foreign keys work.
                let is_referred = self.catalog().referring_to(table.id).next().is_some();
                if (is_referred || !table.foreign_keys.is_empty()) && !self.authority().is_superuser() {
                    let number = table.foreign_keys.first().map_or(table.id, |key| key.id);
                    let message = format!("permission denied: \"RI_ConstraintTrigger_c_{number}\" is a system trigger");
                    return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
                }
                let table = Table { references_off: matches!(state, 'D' | 'R'), ..(**table).clone() };
                Owner::Table(Arc::new(table))
            }
            _ => owner,
        };
        let changed = |trigger: &Arc<Trigger>| match meant.is_none_or(|id| id == trigger.id) {
            true => Arc::new(Trigger { enabled: state, ..(**trigger).clone() }),
            false => Arc::clone(trigger),
        };
        let triggers = owner.triggers().iter().map(changed).collect();
        let meant: Vec<u32> =
            owner.triggers().iter().map(|trigger| trigger.id).filter(|id| meant.is_none_or(|one| one == *id)).collect();
        self.change(vec![owner.with(triggers)])?;
        if only {
            return Ok(());
        }
        for trigger in meant {
            self.change_copies(trigger, &|copy| copy.enabled = state)?;
        }
        Ok(())
    }
}

/// Refuses what the kind of relation cannot have.
fn check_kind(owner: &Owner, create: &CreateTrigger) -> Result<()> {
    let name = owner.name();
    let has_table_names = create.old_table.is_some() || create.new_table.is_some();
    match owner {
        Owner::Table(table) if table.materialized.is_some() => {
            return Err(bad(format!("relation \"{name}\" cannot have triggers"))
                .detail("This operation is not supported for materialized views."));
        }
        Owner::Table(_) if create.timing == TriggerTiming::InsteadOf => {
            return Err(bad(format!("\"{name}\" is a table")).detail("Tables cannot have INSTEAD OF triggers."));
        }
        Owner::View(_) if create.timing != TriggerTiming::InsteadOf && create.for_each_row => {
            return Err(
                bad(format!("\"{name}\" is a view")).detail("Views cannot have row-level BEFORE or AFTER triggers.")
            );
        }
        Owner::View(_) if create.events.contains(&TriggerEvent::Truncate) => {
            return Err(bad(format!("\"{name}\" is a view")).detail("Views cannot have TRUNCATE triggers."));
        }
        _ => {}
    }
    let refuse = |message: &str| Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    if create.timing == TriggerTiming::InsteadOf {
        if !create.for_each_row {
            return refuse("INSTEAD OF triggers must be FOR EACH ROW");
        }
        if create.when.is_some() {
            return refuse("INSTEAD OF triggers cannot have WHEN conditions");
        }
        if create.events.iter().any(|event| matches!(event, TriggerEvent::Update(columns) if !columns.is_empty())) {
            return refuse("INSTEAD OF triggers cannot have column lists");
        }
    }
    if create.events.contains(&TriggerEvent::Truncate) && create.for_each_row {
        return refuse("TRUNCATE FOR EACH ROW triggers are not supported");
    }
    if has_table_names {
        match owner {
            Owner::View(_) => {
                return Err(
                    bad(format!("\"{name}\" is a view")).detail("Triggers on views cannot have transition tables.")
                );
            }
            Owner::Table(table) if table.partitioned.is_some() && create.for_each_row => {
                let message = format!("\"{name}\" is a partitioned table");
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .detail("ROW triggers with transition tables are not supported on partitioned tables."));
            }
            Owner::Table(table) if table.partition_of.is_some() && create.for_each_row => {
                return refuse("ROW triggers with transition tables are not supported on partitions");
            }
            Owner::Table(_) => {}
        }
        let wrong = |message: &str| Err(Error::new(SqlState::BAD_OBJECT_DEFINITION, message));
        if create.timing != TriggerTiming::After {
            return wrong("transition table name can only be specified for an AFTER trigger");
        }
        if create.events.contains(&TriggerEvent::Truncate) {
            return refuse("TRUNCATE triggers with transition tables are not supported");
        }
        if create.events.len() > 1 {
            return refuse("transition tables cannot be specified for triggers with more than one event");
        }
        if create.events.iter().any(|event| matches!(event, TriggerEvent::Update(columns) if !columns.is_empty())) {
            return refuse("transition tables cannot be specified for triggers with column lists");
        }
        let has = |event: TriggerEvent| {
            create.events.iter().any(|known| std::mem::discriminant(known) == std::mem::discriminant(&event))
        };
        if create.new_table.is_some() && has(TriggerEvent::Delete) {
            return wrong("NEW TABLE can only be specified for an INSERT or UPDATE trigger");
        }
        if create.old_table.is_some() && has(TriggerEvent::Insert) {
            return wrong("OLD TABLE can only be specified for a DELETE or UPDATE trigger");
        }
        if create.old_table.is_some() && create.old_table == create.new_table {
            return wrong("OLD TABLE name and NEW TABLE name cannot be the same");
        }
    }
    Ok(())
}

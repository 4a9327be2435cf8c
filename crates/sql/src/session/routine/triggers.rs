//! Functions of triggers: what they find, and what they give back.

use std::sync::Arc;

use colibri_catalog::{RoutineLanguage, Trigger, TriggerTime};
use colibri_types::{Array, Datum, Error, Result, Row, SqlState, Type};

use super::super::Session;
use super::run::{Activation, Returns};
use super::values::{Record, TableRows, Value};
use crate::exec::TriggerCall;

impl Session {
    /// Runs a trigger's function.
    pub(in super::super) fn run_trigger(&mut self, call: &TriggerCall<'_>) -> Result<Datum> {
        let trigger = &call.rule.trigger;
        let replicates = self.own.settings.hot().replicates;
        let is_enabled = match trigger.enabled {
            'A' => true,
            'R' => replicates,
            'D' => false,
            _ => !replicates,
        };
        if !is_enabled {
            return Ok(call.new.clone().or_else(|| call.old.clone()).unwrap_or_default());
        }
        if self.own.calls.depth >= super::DEPTH_MAX {
            return Err(super::too_deep());
        }
        self.own.calls.depth += 1;
        self.own.calls.triggers += 1;
        let only_reads = std::mem::replace(&mut self.own.calls.only_reads, false);
        let depth = self.own.calls.depth;
        let given = if depth.is_multiple_of(super::DEPTH_SHALLOW) && !crate::statement::is_on_deep_stack() {
            crate::statement::on_deep_stack(|| self.run_trigger_here(call))
        } else {
            self.run_trigger_here(call)
        };
        self.own.calls.only_reads = only_reads;
        self.own.calls.depth -= 1;
        self.own.calls.triggers -= 1;
        given
    }

    fn run_trigger_here(&mut self, call: &TriggerCall<'_>) -> Result<Datum> {
        let routine = &call.rule.routine;
        if routine.language != RoutineLanguage::PlPgSql {
            return Err(Error::unsupported("a trigger's function in SQL"));
        }
        let before = self.take_on(routine)?;
        let given = self.run_trigger_body(call);
        self.take_off(before);
        given
    }

    fn run_trigger_body(&mut self, call: &TriggerCall<'_>) -> Result<Datum> {
        let program = self.program_of(&call.rule.routine)?;
        let mut activation = Activation::new(self, &program, Returns::Trigger);
        activation.frame.enter(Some(call.rule.routine.name.clone()));
        activation.push_found();
        activation.push_of_trigger(call, program.names_trigger);
        activation.run()?;
        let given = activation.result_of_trigger();
        let is_before_row = call.rule.trigger.row && call.rule.trigger.timing != TriggerTime::After;
        let given = given?;
        if !is_before_row {
            return Ok(Datum::Null);
        }
        let wanted = call.new.as_ref().or(call.old.as_ref());
        match (given, wanted) {
            (Datum::Row(given), Some(Datum::Row(wanted))) => {
                if given.values().len() != wanted.values().len() {
                    let message = "returned row structure does not match the structure of the triggering table";
                    return Err(Error::new(SqlState::TYPE_MISMATCH, message));
                }
                let mut values = Vec::with_capacity(given.values().len());
                let pairs: Vec<_> = given
                    .fields()
                    .zip(wanted.fields())
                    .map(|((_, from, value), (_, to, _))| (value.clone(), from, to))
                    .collect();
                for (value, from, to) in pairs {
                    values.push(self.assigned_value(value, from, to)?);
                }
                Ok(Datum::Row(Arc::new(Row::new(Arc::clone(wanted.ty()), values))))
            }
            (Datum::Null, _) => Ok(Datum::Null),
            _ => Err(Error::new(
                SqlState::TYPE_MISMATCH,
                "cannot return non-composite value from function returning composite type",
            )),
        }
    }
}

/// The old row and the new one, and a few variables of the function's own.
const SLOTS_OF_ROWS: usize = 6;
/// The same with what tells of the trigger.
const SLOTS_OF_TRIGGER: usize = 16;

impl Activation<'_> {
    /// The variables of a trigger's function; with `all`, also those that tell of the trigger, which
    /// few functions name.
    fn push_of_trigger(&mut self, call: &TriggerCall<'_>, all: bool) {
        let trigger = &call.rule.trigger;
        self.frame.slots.reserve(if all { SLOTS_OF_TRIGGER } else { SLOTS_OF_ROWS });
        for (name, row) in [("new", &call.new), ("old", &call.old)] {
            let value = match row {
                Some(Datum::Row(row)) => {
                    let (shape, values) = (Arc::clone(row.ty()), row.values().to_vec());
                    Value::Record(Some(Record { shape, values, is_null: false }))
                }
                // Without a row each field of it is NULL.
                _ => match call.new.as_ref().or(call.old.as_ref()) {
                    Some(Datum::Row(other)) => Value::Record(Some(Record::null(Arc::clone(other.ty())))),
                    _ => Value::Record(call.shape().map(Record::null)),
                },
            };
            self.frame.push(name, value);
        }
        let Trigger { old_table, new_table, .. } = &**trigger;
        for (name, rows) in [(old_table, &call.old_rows), (new_table, &call.new_rows)] {
            if let (Some(name), Some(rows), Some(shape)) = (name, rows, call.shape()) {
                self.frame.tables.push(TableRows { name: name.clone(), shape, rows: rows.clone() });
            }
        }
        if !all {
            return;
        }
        let event = match call.event {
            Trigger::INSERT => "INSERT",
            Trigger::DELETE => "DELETE",
            Trigger::UPDATE => "UPDATE",
            _ => "TRUNCATE",
        };
        let when = match trigger.timing {
            TriggerTime::Before => "BEFORE",
            TriggerTime::After => "AFTER",
            TriggerTime::InsteadOf => "INSTEAD OF",
        };
        let texts = [
            ("tg_name", trigger.name.as_str()),
            ("tg_when", when),
            ("tg_level", if trigger.row { "ROW" } else { "STATEMENT" }),
            ("tg_op", event),
            ("tg_relname", call.table.name.as_str()),
            ("tg_table_name", call.table.name.as_str()),
            ("tg_table_schema", call.table.schema.as_str()),
        ];
        for (name, text) in texts {
            self.frame.push(name, Value::Scalar(Type::Text.into(), Datum::text(text)));
        }
        let number = Datum::Int(i64::from(call.table.id));
        self.frame.push("tg_relid", Value::Scalar(Type::Oid.into(), number));
        let count = Datum::Int(trigger.args.len() as i64);
        self.frame.push("tg_nargs", Value::Scalar(Type::Int4.into(), count));
        let args = trigger.args.iter().map(|arg| Datum::text(arg)).collect();
        // They are counted from 0.
        let args = Datum::Array(Arc::new(Array::counted_from(Type::Text, args, 0)));
        self.frame.push("tg_argv", Value::Scalar(Type::Text.array_of().into(), args));
    }
}

//! CREATE AGGREGATE. An aggregate is a routine of the catalogue, and is dropped, renamed and granted as
//! one.

use std::sync::Arc;

use colibri_catalog::{
    AggregateParts, ArgumentMode, Catalog, Change, Routine, RoutineLanguage, RoutineType, RoutineVolatility,
};
use colibri_syntax::tree::{AggregateValue, CreateAggregate, CreateRoutine, TypeGiven};
use colibri_types::{ColumnType, Error, Result, SqlState, functions::quote_identifier};
use compact_str::CompactString;

use super::Session;
use super::partitions::name_of;

fn bad_definition(message: impl Into<String>) -> Error {
    Error::new(SqlState("42P13"), message)
}

/// A name as it is written, qualified.
fn written(value: &AggregateValue) -> String {
    match value {
        AggregateValue::None => "true".to_owned(),
        AggregateValue::Name(parts) => parts.join("."),
        AggregateValue::Text(text) => text.clone(),
        AggregateValue::Type(_) => String::new(),
    }
}

fn is_true(value: &AggregateValue) -> bool {
    matches!(value, AggregateValue::None) || matches!(written(value).to_ascii_lowercase().as_str(), "true" | "on" | "1")
}

impl Session {
    /// A function's name as calls write it: that of a user's with its schema, else one of the
    /// system's.
    fn function_written(&mut self, value: &AggregateValue) -> Result<String> {
        let parts: Vec<CompactString> = match value {
            AggregateValue::Name(parts) => parts.clone(),
            AggregateValue::Text(text) => text.split('.').map(Into::into).collect(),
            _ => return Err(Error::new(SqlState::SYNTAX_ERROR, "a function's name is expected")),
        };
        let (schema, name) = match &parts[..] {
            [name] => (None, name.clone()),
            [schema, name] => (Some(schema.clone()), name.clone()),
            _ => return Err(Error::new(SqlState::SYNTAX_ERROR, "improper qualified name")),
        };
        let found = self.with_binder("", |binder| Ok(binder.routines_of_name(schema.as_deref(), &name)))?;
        let schema = match found.first() {
            Some(routine) => routine.schema.clone(),
            None => schema.unwrap_or_else(|| "pg_catalog".into()),
        };
        Ok(format!("{}.{}", quote_identifier(&schema), quote_identifier(&name)))
    }

    pub(super) fn create_aggregate(&mut self, create: &CreateAggregate) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let (schema, name) = self.new_name(&name_of(&create.name))?;
        let plain = CreateRoutine {
            or_replace: create.or_replace,
            is_procedure: false,
            name: create.name.clone(),
            args: create.args.clone(),
            returns: None,
            options: Vec::new(),
            body: None,
        };
        let args = self.arguments(&plain)?;
        if args.iter().any(|arg| !matches!(arg.mode, ArgumentMode::In | ArgumentMode::Variadic)) {
            return Err(bad_definition("aggregates cannot have output arguments"));
        }
        let (mut transition, mut state, mut parts_finish, mut initial) = (None, None, None, None);
        let (mut finish_extra, mut others, mut parallel) = (false, Vec::new(), 'u');
        for (option, value) in &create.options {
            match (option.as_str(), value) {
                ("sfunc" | "sfunc1", value) => transition = Some(self.function_written(value)?),
                ("stype" | "stype1", AggregateValue::Type(ty)) => state = Some(self.routine_type(ty)?),
                ("stype" | "stype1", AggregateValue::Name(parts)) => {
                    let name = colibri_syntax::ast::DataType::Custom(name_of(parts), Vec::new());
                    state = Some(self.routine_type(&TypeGiven::Named(name))?);
                }
                ("finalfunc", value) => parts_finish = Some(self.function_written(value)?),
                ("finalfunc_extra", value) => finish_extra = is_true(value),
                ("initcond" | "initcond1", value) => initial = Some(written(value)),
                ("hypothetical", _) => {
                    return Err(bad_definition("only ordered-set aggregates can be hypothetical"));
                }
                ("parallel", value) => {
                    parallel = match written(value).as_str() {
                        "safe" => 's',
                        "restricted" => 'r',
                        "unsafe" => 'u',
                        _ => {
                            let message = "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE";
                            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                        }
                    }
                }
                (
                    "combinefunc" | "serialfunc" | "deserialfunc" | "msfunc" | "minvfunc" | "mfinalfunc" | "mstype"
                    | "mstype1" | "sspace" | "msspace" | "minitcond" | "sortop" | "finalfunc_modify"
                    | "mfinalfunc_modify" | "mfinalfunc_extra",
                    value,
                ) => others.push((option.clone(), written(value))),
                (other, _) => {
                    let message = format!("aggregate attribute \"{other}\" not recognized");
                    self.notice(crate::session::Severity::Warning, SqlState::SYNTAX_ERROR, message);
                }
            }
        }
        let state = state.ok_or_else(|| bad_definition("aggregate stype must be specified"))?;
        let transition = transition.ok_or_else(|| bad_definition("aggregate sfunc must be specified"))?;
        let mut routine = Routine {
            id: 0,
            schema,
            name,
            owner: self.role(),
            acl: None,
            is_procedure: false,
            language: RoutineLanguage::Sql,
            args,
            result: state,
            set: false,
            body: String::new(),
            standard: None,
            strict: false,
            volatility: RoutineVolatility::Immutable,
            security_definer: false,
            leakproof: false,
            cost: None,
            rows: None,
            parallel,
            settings: Vec::new(),
            aggregate: Some(Box::new(AggregateParts {
                transition,
                state,
                finish: parts_finish,
                finish_extra,
                initial,
                others,
            })),
        };
        // Its functions have to be there, and to fit. What they give is the result.
        let given: Vec<ColumnType> = routine.given().filter_map(|arg| arg.ty.value()).collect();
        let (_, ty) =
            self.with_binder("", |binder| binder.fold_of(&routine, &given)).map_err(Error::without_position)?;
        routine.result = RoutineType::Value(ty);
        let old = self.same_routine(&routine);
        match &old {
            Some(_) if !create.or_replace => {
                let message = format!("function \"{}\" already exists with same argument types", routine.name);
                return Err(Error::new(SqlState("42723"), message));
            }
            Some(old) => {
                self.expect_owner(old.owner, old.kind(), &old.name)?;
                if old.aggregate.is_none() {
                    let what = if old.is_procedure { "procedure" } else { "function" };
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, "cannot change routine kind")
                        .detail(format!("\"{}\" is a {what}.", old.name)));
                }
                if old.result != routine.result {
                    return Err(bad_definition("cannot change return type of existing function")
                        .hint(format!("Use DROP AGGREGATE {} first.", self.routine_text(old))));
                }
                (routine.id, routine.owner, routine.acl) = (old.id, old.owner, old.acl.clone());
            }
            None => routine.id = self.new_id_in(&routine.schema.clone())?,
        }
        self.change(vec![Change::PutRoutine(routine)])
    }

    /// The aggregates that a function is a part of.
    pub(super) fn aggregates_of(&self, routine: &Routine) -> Vec<Arc<Routine>> {
        let name = format!("{}.{}", quote_identifier(&routine.schema), quote_identifier(&routine.name));
        let is_part = |aggregate: &&Arc<Routine>| {
            let Some(parts) = &aggregate.aggregate else { return false };
            parts.transition == name || parts.finish.as_ref() == Some(&name)
        };
        self.catalog().routines().filter(is_part).cloned().collect()
    }
}

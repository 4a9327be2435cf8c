//! CREATE, ALTER and DROP of functions and procedures, and privileges on them.
//!
//! A body is read when the function is made, unless `check_function_bodies` is off: mistakes of its
//! grammar are told then. What its names mean is found out when it runs.

use std::sync::Arc;

use colibri_catalog::cluster::{Acl, Grant, ObjectKind, PUBLIC_ROLE, Privileges};
use colibri_catalog::{
    Argument, ArgumentMode, CastMethod, Catalog, Change, Routine, RoutineLanguage, RoutineType, RoutineVolatility,
    StandardBody, Table,
};
use colibri_syntax::plpgsql;
use colibri_syntax::tree::{
    ArgMode, CreateRoutine, Granting, OnRoutines, RoleName, RoutineBody, RoutineChange, RoutineKind, RoutineNamed,
    RoutineOption, Routines, SettingChange, To, TypeGiven,
};
use colibri_types::{ColumnType, Error, Result, SqlState, Type, cast::CastContext};
use compact_str::CompactString;
use sqlparser::ast;

use super::Session;
use super::drop::Cascade;
use super::routine_users::{calls_in_expression, calls_in_query};
use super::user_types::object_name;
use crate::session::{Severity, no_such_language};

fn bad_definition(message: impl Into<String>) -> Error {
    Error::new(SqlState("42P13"), message)
}

/// Whether a function takes or gives rows, or values of types, that are gone with the session.
fn uses_temporary(routine: &Routine) -> bool {
    let is_temporary = |ty: &RoutineType| match ty {
        RoutineType::Value(ty) => ty.ty.of_user().is_some() && colibri_catalog::temporary::is_temporary(ty.ty.oid()),
        RoutineType::RowOf(relation) => colibri_catalog::temporary::is_temporary(*relation),
        _ => false,
    };
    is_temporary(&routine.result) || routine.args.iter().any(|arg| is_temporary(&arg.ty))
}

/// The polymorphic type of a name.
fn polymorphic(name: &str) -> Option<Type> {
    Type::ALL.into_iter().find(|ty| ty.is_polymorphic() && ty.inner_name() == name)
}

/// 42P13 if no argument tells what a polymorphic result stands for.
fn expect_told(result: RoutineType, args: &[Argument]) -> Result<()> {
    const RANGES: [Type; 2] = [Type::AnyRange, Type::AnyMultirange];
    const COMMON_RANGES: [Type; 2] = [Type::AnyCompatibleRange, Type::AnyCompatibleMultirange];
    let Some(ty) = result.value().map(|ty| ty.ty).filter(|ty| ty.is_polymorphic()) else { return Ok(()) };
    let is_common = ty.inner_name().starts_with("anycompatible");
    let of_ranges = RANGES.contains(&ty) || COMMON_RANGES.contains(&ty);
    let tells = |arg: &Argument| {
        let Some(given) = arg.ty.value().map(|ty| ty.ty).filter(|ty| arg.is_given() && ty.is_polymorphic()) else {
            return false;
        };
        let is_same_family = given.inner_name().starts_with("anycompatible") == is_common;
        is_same_family && (!of_ranges || RANGES.contains(&given) || COMMON_RANGES.contains(&given))
    };
    if args.iter().any(tells) {
        return Ok(());
    }
    let needed = match (is_common, of_ranges) {
        (false, false) => "anyelement, anyarray, anynonarray, anyenum, anyrange, or anymultirange",
        (false, true) => "anyrange or anymultirange",
        (true, false) => {
            "anycompatible, anycompatiblearray, anycompatiblenonarray, anycompatiblerange, or anycompatiblemultirange"
        }
        (true, true) => "anycompatiblerange or anycompatiblemultirange",
    };
    Err(bad_definition("cannot determine result data type")
        .detail(format!("A result of type {ty} requires at least one input of type {needed}.")))
}

impl Session {
    pub(crate) fn about_routines(&mut self, statement: &Routines) -> Result<()> {
        let has_body = matches!(statement, Routines::Create(_) | Routines::Do { .. } | Routines::CreateTrigger(_));
        if has_body && self.store_fetches() {
            // A statement of a body that has to fetch would run again without the effects of those before.
            return Err(Error::unsupported("a function, a trigger or DO on a store that fetches its rows"));
        }
        match statement {
            Routines::Create(create) => self.create_routine(create),
            Routines::Drop { kind, names, if_exists, cascade } => {
                self.drop_routines(*kind, names, *if_exists, *cascade)
            }
            Routines::Alter { kind, routine, change } => self.alter_routine(*kind, routine, change),
            Routines::Comment { kind, routine, text } => {
                Catalog::lock(self.catalog_and_txn()?.1)?;
                let routine = self.own_routine(*kind, routine)?;
                self.change(vec![Change::Comment(routine.id, 0, text.clone())])
            }
            Routines::Grant { granting, kind, on, to } => self.grant_routines(granting, *kind, on, to),
            Routines::Do { language, body } => self.run_do(language.as_ref(), body),
            Routines::CreateAggregate(create) => self.create_aggregate(create),
            Routines::Rules(statement) => self.about_rules(statement),
            Routines::Operators(statement) => self.about_operators(statement),
            Routines::CreateCast(create) => self.create_cast(create),
            Routines::DropCast { types, if_exists, cascade: _ } => self.drop_cast(types, *if_exists),
            Routines::CommentCast { types, text } => self.comment_on_cast(types, text.clone()),
            Routines::CreateTrigger(create) => self.create_trigger(create),
            Routines::DropTrigger { name, table, if_exists, cascade: _ } => self.drop_trigger(name, table, *if_exists),
            Routines::RenameTrigger { name, table, to } => self.rename_trigger(name, table, to),
            Routines::CommentTrigger { name, table, text } => self.comment_on_trigger(name, table, text.clone()),
            Routines::EnableTrigger { table, if_exists, only, which, state } => {
                self.enable_triggers(table, *if_exists, which, *state, *only)
            }
        }
    }

    // ---- types ----

    /// A type that a function takes or gives.
    pub(super) fn routine_type(&mut self, given: &TypeGiven) -> Result<RoutineType> {
        let named = match given {
            TypeGiven::Named(named) => named,
            TypeGiven::Of(name) => {
                let ty = self.type_of_column(name)?;
                let message = format!("type reference {}%TYPE converted to {}", name.join("."), ty.sql_name());
                self.notice(Severity::Notice, SqlState("00000"), message);
                return Ok(RoutineType::Value(ty));
            }
            TypeGiven::RowOf(name) => {
                return Err(Error::new(
                    SqlState::SYNTAX_ERROR,
                    format!("syntax error at or near \"%\" behind {}", name.join(".")),
                ));
            }
        };
        let parts = custom_name(named);
        if let Some([name]) = parts.as_deref() {
            if let Some(ty) = polymorphic(name) {
                return Ok(RoutineType::Value(ty.into()));
            }
            match name.as_str() {
                "trigger" => return Ok(RoutineType::Trigger),
                "void" => return Ok(RoutineType::Value(Type::Void.into())),
                "record" => return Ok(RoutineType::Value(Type::Record.into())),
                "refcursor" => return Ok(RoutineType::Value(Type::Text.into())),
                "event_trigger" => return Err(Error::unsupported("a function of event triggers")),
                _ => {}
            }
        }
        match self.usable_type_named(named) {
            Ok(ty) => Ok(match self.catalog().relation_of_rows(ty.ty).filter(|_| ty.domain.is_none()) {
                Some(relation) => RoutineType::RowOf(relation),
                None => RoutineType::Value(ColumnType { modifier: colibri_types::Modifier::NONE, ..ty }),
            }),
            Err(error) => {
                let Some(parts) = parts else { return Err(error) };
                let relation = self.relation_named(&parts)?.cloned();
                match relation.and_then(|relation| self.catalog().number_of(&relation)) {
                    Some(number) => Ok(RoutineType::RowOf(number)),
                    None => Err(error),
                }
            }
        }
    }

    // ---- CREATE ----

    fn create_routine(&mut self, create: &CreateRoutine) -> Result<()> {
        let name = object_name(&create.name);
        // Whoever makes a temporary function waits for nobody.
        if !self.is_named_temporary(&name)? {
            Catalog::lock(self.catalog_and_txn()?.1)?;
        }
        let (schema, name) = self.new_name_of(&name, false)?;
        let args = self.arguments(create)?;
        let (result, set) = self.result_of(create, &args)?;
        let acl = self.catalog().privileges_of_new('f', self.role(), Some(&schema));
        let mut routine = Routine {
            id: 0,
            schema,
            name,
            owner: self.role(),
            acl,
            is_procedure: create.is_procedure,
            language: RoutineLanguage::Sql,
            args,
            result,
            set,
            body: String::new(),
            standard: None,
            strict: false,
            volatility: RoutineVolatility::Volatile,
            security_definer: false,
            leakproof: false,
            cost: None,
            rows: None,
            parallel: 'u',
            settings: Vec::new(),
            aggregate: None,
        };
        self.take_body(&mut routine, create)?;
        self.take_options(&mut routine, &create.options, true)?;
        let old = self.same_routine(&routine);
        match &old {
            Some(_) if !create.or_replace => {
                let message =
                    format!("{} \"{}\" already exists with same argument types", routine.kind(), routine.name);
                return Err(Error::new(SqlState("42723"), message));
            }
            Some(old) => {
                self.expect_owner(old.owner, old.kind(), &old.name)?;
                expect_replaceable(old, &routine)?;
                (routine.id, routine.owner, routine.acl) = (old.id, old.owner, old.acl.clone());
            }
            // It cannot be called any more when the session's temporary tables are gone.
            None if uses_temporary(&routine) => {
                let schema = self.temporary_schema()?;
                routine.id = self.new_id_in(&schema)?;
            }
            None => routine.id = self.new_id_in(&routine.schema.clone())?,
        }
        self.check_body(&routine)?;
        let is_renewed = old.is_some();
        self.change(vec![Change::PutRoutine(routine.clone())])?;
        if is_renewed {
            self.renew_indexes_of(&routine)?;
        }
        Ok(())
    }

    /// The routine of the same name and arguments.
    pub(super) fn same_routine(&self, routine: &Routine) -> Option<Arc<Routine>> {
        let types = |routine: &Routine| routine.given().map(|arg| arg.ty.oid()).collect::<Vec<_>>();
        let wanted = types(routine);
        self.catalog()
            .routines_named(&routine.name)
            .find(|known| known.schema == routine.schema && types(known) == wanted)
            .cloned()
    }

    pub(super) fn arguments(&mut self, create: &CreateRoutine) -> Result<Vec<Argument>> {
        let mut args: Vec<Argument> = Vec::with_capacity(create.args.len());
        let mut has_default = false;
        for given in &create.args {
            let ty = self.routine_type(&given.ty)?;
            let mode = match given.mode {
                ArgMode::In => ArgumentMode::In,
                ArgMode::Out => ArgumentMode::Out,
                ArgMode::InOut => ArgumentMode::InOut,
                ArgMode::Variadic => ArgumentMode::Variadic,
                ArgMode::Table => ArgumentMode::Table,
            };
            let refused = |ty: &str| match language_of(create) {
                Some("plpgsql") => {
                    let message = format!("PL/pgSQL functions cannot accept type {ty}");
                    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                }
                _ => bad_definition(format!("SQL functions cannot have arguments of type {ty}")),
            };
            match ty {
                RoutineType::Trigger => return Err(refused("trigger")),
                RoutineType::Value(ty) if ty.ty == Type::Void => return Err(refused("void")),
                RoutineType::Value(ty)
                    if ty.ty == Type::Record
                        && create.body.is_none()
                        && matches!(mode, ArgumentMode::In | ArgumentMode::Variadic)
                        && language_of(create) == Some("sql") =>
                {
                    return Err(bad_definition("SQL functions cannot have arguments of type record"));
                }
                _ => {}
            }
            let is_array = ty.value().is_some_and(|ty| ty.ty.is_array());
            if mode == ArgumentMode::Variadic && !is_array {
                return Err(bad_definition("VARIADIC parameter must be an array"));
            }
            if args.iter().any(|known| known.mode == ArgumentMode::Variadic)
                && mode != ArgumentMode::Out
                && mode != ArgumentMode::Table
            {
                return Err(bad_definition("VARIADIC parameter must be the last input parameter"));
            }
            let name = given.name.clone().unwrap_or_default();
            let clashes = |known: &Argument| {
                let both_given = known.mode != ArgumentMode::Table && known.mode != ArgumentMode::Out;
                let is_given = mode != ArgumentMode::Table && mode != ArgumentMode::Out;
                // An input and an output may share a name, unless the language says otherwise.
                let is_shared = both_given != is_given
                    && known.mode != ArgumentMode::InOut
                    && mode != ArgumentMode::InOut
                    && language_of(create).is_none_or(|language| language == "sql");
                known.name == name && !name.is_empty() && !is_shared
            };
            if args.iter().any(clashes) {
                return Err(bad_definition(format!("parameter name \"{name}\" used more than once")));
            }
            let is_input = matches!(mode, ArgumentMode::In | ArgumentMode::InOut | ArgumentMode::Variadic);
            let default = match &given.default {
                Some(_) if !is_input => {
                    return Err(bad_definition("only input parameters can have default values"));
                }
                Some(default) => {
                    has_default = true;
                    Some(self.argument_default(default, &ty)?)
                }
                None if has_default && is_input => {
                    return Err(bad_definition(
                        "input parameters after one with a default value must also have defaults",
                    ));
                }
                None => None,
            };
            args.push(Argument { name, mode, ty, default });
        }
        Ok(args)
    }

    fn argument_default(&mut self, text: &str, ty: &RoutineType) -> Result<String> {
        let expr = crate::statement::parse_expr(text)?;
        let to = ty.value().unwrap_or(Type::Text.into());
        self.with_binder("", |binder| {
            let bound = binder.body_expression(&expr)?;
            if to.ty.is_polymorphic() || to.ty == Type::Record {
                return Ok(());
            }
            binder.coerce(bound, to, CastContext::Assignment, sqlparser::tokenizer::Span::empty()).map(drop)
        })?;
        let is_text =
            matches!(&expr, ast::Expr::Value(value) if matches!(value.value, ast::Value::SingleQuotedString(_)));
        match is_text && !to.ty.is_polymorphic() && to.ty != Type::Record && to.domain.is_none() {
            true => Ok(format!("{expr}::{}", to.sql_name())),
            false => self.stored_text(&expr),
        }
    }

    fn result_of(&mut self, create: &CreateRoutine, args: &[Argument]) -> Result<(RoutineType, bool)> {
        let results: Vec<&Argument> = args.iter().filter(|arg| arg.is_result()).collect();
        let of_results = |is_procedure: bool| match &results[..] {
            [] => None,
            [one] if !is_procedure => Some(one.ty),
            _ => Some(RoutineType::Value(Type::Record.into())),
        };
        if create.is_procedure {
            return Ok((of_results(true).unwrap_or(RoutineType::Nothing), false));
        }
        let Some(returns) = &create.returns else {
            results.iter().try_for_each(|result| expect_told(result.ty, args))?;
            return match of_results(false) {
                Some(ty) => Ok((ty, false)),
                None => Err(bad_definition("function result type must be specified")),
            };
        };
        let Some(given) = &returns.ty else {
            return Ok((of_results(false).unwrap_or(RoutineType::Value(Type::Record.into())), true));
        };
        let ty = self.routine_type(given)?;
        expect_told(ty, args)?;
        for result in &results {
            expect_told(result.ty, args)?;
        }
        if let Some(wanted) = of_results(false)
            && wanted.oid() != ty.oid()
        {
            let shown = match wanted.value() {
                Some(ty) => ty.sql_name().to_string(),
                None => "record".to_owned(),
            };
            return Err(bad_definition(format!("function result type must be {shown} because of OUT parameters")));
        }
        if returns.set && ty == RoutineType::Trigger {
            return Err(bad_definition("trigger functions cannot return sets"));
        }
        Ok((ty, returns.set))
    }

    fn take_body(&self, routine: &mut Routine, create: &CreateRoutine) -> Result<()> {
        let text = create.options.iter().find_map(|option| match option {
            RoutineOption::As(texts) => Some(texts),
            _ => None,
        });
        let language = language_of(create);
        routine.language = match (language, &create.body) {
            (Some("sql"), _) | (None, Some(_)) => RoutineLanguage::Sql,
            (Some("plpgsql"), _) => RoutineLanguage::PlPgSql,
            (Some("internal" | "c"), _) => {
                return Err(Error::new(
                    SqlState::INSUFFICIENT_PRIVILEGE,
                    format!("permission denied for language {}", language.unwrap_or_default()),
                ));
            }
            (Some(other), _) => {
                let error = no_such_language(other);
                return Err(match other {
                    "plpython3u" | "plperl" | "plperlu" | "pltcl" | "pltclu" | "plv8" => {
                        error.hint("Use CREATE EXTENSION to load the language into the database.")
                    }
                    _ => error,
                });
            }
            (None, None) => return Err(bad_definition("no language specified")),
        };
        match (&create.body, text) {
            (Some(_), Some(_)) => return Err(bad_definition("duplicate function body specified")),
            (Some(_), None) if routine.language != RoutineLanguage::Sql => {
                return Err(bad_definition("inline SQL function body only valid for language SQL"));
            }
            (Some(RoutineBody::Return(text)), None) => {
                routine.standard = Some(StandardBody::Return);
                routine.body = format!("SELECT {text}");
            }
            (Some(RoutineBody::Atomic(texts)), None) => {
                routine.standard = Some(StandardBody::Atomic);
                routine.body = texts.join(";\n");
            }
            (None, Some(texts)) => {
                if texts.len() > 1 {
                    return Err(bad_definition(format!(
                        "only one AS item needed for language \"{}\"",
                        language.unwrap_or("sql")
                    )));
                }
                routine.body.clone_from(&texts[0]);
            }
            (None, None) => return Err(bad_definition("no function body specified")),
        }
        Ok(())
    }

    fn take_options(&mut self, routine: &mut Routine, options: &[RoutineOption], is_new: bool) -> Result<()> {
        for option in options {
            let only_functions = matches!(
                option,
                RoutineOption::Volatility(_)
                    | RoutineOption::Strict(_)
                    | RoutineOption::Leakproof(_)
                    | RoutineOption::Window
                    | RoutineOption::Cost(_)
                    | RoutineOption::Rows(_)
                    | RoutineOption::Support(_)
                    | RoutineOption::Parallel(_)
            );
            if routine.is_procedure && only_functions {
                return Err(bad_definition("invalid attribute in procedure definition"));
            }
            match option {
                RoutineOption::Language(_) | RoutineOption::As(_) if is_new => {}
                RoutineOption::Language(_) | RoutineOption::As(_) => {
                    return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"LANGUAGE\""));
                }
                RoutineOption::Volatility(letter) => {
                    routine.volatility = match letter {
                        'i' => RoutineVolatility::Immutable,
                        's' => RoutineVolatility::Stable,
                        _ => RoutineVolatility::Volatile,
                    };
                }
                RoutineOption::Strict(strict) => routine.strict = *strict,
                RoutineOption::SecurityDefiner(definer) => routine.security_definer = *definer,
                RoutineOption::Leakproof(leakproof) => {
                    if *leakproof && !self.authority().is_superuser() {
                        let message = "only superuser can define a leakproof function";
                        return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
                    }
                    routine.leakproof = *leakproof;
                }
                RoutineOption::Window => return Err(Error::unsupported("a window function of a user's")),
                RoutineOption::Cost(text) => match text.parse::<f64>() {
                    Ok(cost) if cost > 0.0 && cost.is_finite() => routine.cost = Some(cost),
                    _ => return Err(Error::new(SqlState::BAD_PARAMETER, "COST must be positive")),
                },
                RoutineOption::Rows(text) => match text.parse::<f64>() {
                    Ok(rows) if rows > 0.0 && rows.is_finite() => {
                        if !routine.set {
                            let message = "ROWS is not applicable when function does not return a set";
                            return Err(Error::new(SqlState::BAD_PARAMETER, message));
                        }
                        routine.rows = Some(rows);
                    }
                    _ => return Err(Error::new(SqlState::BAD_PARAMETER, "ROWS must be positive")),
                },
                RoutineOption::Support(_) => return Err(Error::unsupported("SUPPORT")),
                RoutineOption::Parallel(word) => {
                    routine.parallel = match word.as_str() {
                        "safe" => 's',
                        "restricted" => 'r',
                        "unsafe" => 'u',
                        _ => {
                            let message = "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE";
                            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                        }
                    };
                }
                RoutineOption::Setting(change) => self.take_setting(routine, change)?,
            }
        }
        Ok(())
    }

    fn take_setting(&self, routine: &mut Routine, change: &SettingChange) -> Result<()> {
        match change {
            SettingChange::ResetAll => routine.settings.clear(),
            SettingChange::Reset(name) => routine.settings.retain(|(known, _)| known != name),
            SettingChange::Set(name, to) => {
                let value = match to {
                    To::Default => {
                        routine.settings.retain(|(known, _)| known != name);
                        return Ok(());
                    }
                    To::Current => self.setting(name)?,
                    To::Values(values) => crate::session::flatten_setting(name, values)?,
                };
                match routine.settings.iter_mut().find(|(known, _)| known == name) {
                    Some(known) => known.1 = value,
                    None => routine.settings.push((name.clone(), value)),
                }
            }
        }
        Ok(())
    }

    /// Reads a body for mistakes.
    fn check_body(&mut self, routine: &Routine) -> Result<()> {
        if self.setting("check_function_bodies").is_ok_and(|value| value == "off") {
            return Ok(());
        }
        match routine.language {
            RoutineLanguage::C => Ok(()),
            RoutineLanguage::PlPgSql => plpgsql::parse(&routine.body).map(drop).map_err(|error| {
                let title = crate::bind::routines::signature(routine);
                let name = title.split('(').next().unwrap_or_default().to_owned();
                error.without_position().within(format!("compilation of PL/pgSQL function \"{name}\""))
            }),
            RoutineLanguage::Sql => {
                let texts = crate::statement::scan(&routine.body)?.parse_parts();
                texts.map(drop).map_err(Error::without_position)
            }
        }
    }

    // ---- DROP and ALTER ----

    /// The routine that a statement names.
    pub(crate) fn routine_named(&mut self, kind: RoutineKind, named: &RoutineNamed) -> Result<Arc<Routine>> {
        let (schema, name) = match &named.name[..] {
            [name] => (None, name.clone()),
            [schema, name] => (Some(schema.clone()), name.clone()),
            _ => return Err(Error::new(SqlState::SYNTAX_ERROR, "improper qualified name")),
        };
        if let Some(schema) = &schema
            && self.catalog().schema(schema).is_none()
        {
            return Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")));
        }
        let found = self.with_binder("", |binder| Ok(binder.routines_of_name(schema.as_deref(), &name)))?;
        let is_kind = |routine: &Arc<Routine>| match kind {
            RoutineKind::Function => !routine.is_procedure && routine.aggregate.is_none(),
            RoutineKind::Procedure => routine.is_procedure,
            RoutineKind::Aggregate => routine.aggregate.is_some(),
            RoutineKind::Routine => true,
        };
        let shown = named.name.join(".");
        let word = kind.word();
        let Some(args) = &named.args else {
            let fitting: Vec<&Arc<Routine>> = found.iter().filter(|routine| is_kind(routine)).collect();
            return match fitting[..] {
                [one] => Ok(Arc::clone(one)),
                [] => {
                    let message = format!("could not find a {word} named \"{shown}\"");
                    Err(Error::new(SqlState::NO_SUCH_FUNCTION, message))
                }
                _ => {
                    let message = format!("{word} name \"{shown}\" is not unique");
                    let hint = format!("Specify the argument list to select the {word} unambiguously.");
                    Err(Error::new(SqlState::AMBIGUOUS_FUNCTION, message).hint(hint))
                }
            };
        };
        let mut types = Vec::new();
        let mut shown_types = Vec::new();
        for (mode, data_type) in args {
            if matches!(mode, ArgMode::Out | ArgMode::Table) {
                continue;
            }
            let ty = self.routine_type(&TypeGiven::Named(data_type.clone()))?;
            shown_types.push(self.type_text(&ty));
            types.push(ty.oid());
        }
        let same = |routine: &&Arc<Routine>| routine.given().map(|arg| arg.ty.oid()).eq(types.iter().copied());
        match found.iter().find(same) {
            Some(routine) if is_kind(routine) => Ok(Arc::clone(routine)),
            Some(routine) => {
                let message = format!("{shown}({}) is not a {word}", shown_types.join(", "));
                let _ = routine;
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            None => {
                let message = format!("{word} {shown}({}) does not exist", shown_types.join(", "));
                Err(Error::new(SqlState::NO_SUCH_FUNCTION, message))
            }
        }
    }

    /// How a type of a function is written.
    pub(crate) fn type_text(&self, ty: &RoutineType) -> String {
        crate::system::routines::type_text(self.catalog(), ty)
    }

    fn own_routine(&mut self, kind: RoutineKind, named: &RoutineNamed) -> Result<Arc<Routine>> {
        let routine = self.routine_named(kind, named)?;
        self.expect_owner(routine.owner, routine.kind(), &routine.name)?;
        Ok(routine)
    }

    fn drop_routines(
        &mut self,
        kind: RoutineKind,
        names: &[RoutineNamed],
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let mut cascade = Cascade::new(cascade);
        for named in names {
            let missing = |error: &Error| {
                matches!(
                    error.state(),
                    SqlState::NO_SUCH_FUNCTION | SqlState::NO_SUCH_SCHEMA | SqlState::NO_SUCH_OBJECT
                )
            };
            let routine = match self.routine_named(kind, named) {
                Err(error) if if_exists && missing(&error) => {
                    let message = &error.report().message;
                    let message = match message.strip_prefix(&format!("could not find a {} named ", kind.word())) {
                        Some(name) => {
                            format!("{} {}() does not exist", kind.word(), name.trim_matches('"'))
                        }
                        None => message.clone(),
                    };
                    self.notice(Severity::Notice, SqlState("00000"), format!("{message}, skipping"));
                    continue;
                }
                found => found?,
            };
            self.expect_owner(routine.owner, routine.kind(), &routine.name)?;
            self.expect_no_member(routine.id, || format!("{} {}", routine.kind(), self.routine_text(&routine)))?;
            self.drop_routine(&routine, &mut cascade)?;
        }
        self.tell_cascade(cascade);
        Ok(())
    }

    /// Drops a routine with what depends on it, if that may go.
    pub(super) fn drop_routine(&mut self, routine: &Arc<Routine>, cascade: &mut Cascade) -> Result<()> {
        let shown = format!("{} {}", routine.kind(), self.routine_text(routine));
        let (mut blocking, _) = self.dependents_of_routine(routine)?;
        let bound = self.bound_to_routine(routine);
        blocking.extend(bound.iter().map(|(described, _)| described.clone()));
        if !blocking.is_empty() && !cascade.allows() {
            let mut details: Vec<String> =
                blocking.iter().map(|dependent| format!("{dependent} depends on {shown}")).collect();
            details.extend(self.told_by_operators(&self.operators_of_routine(routine.id)));
            let message = format!("cannot drop {shown} because other objects depend on it");
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS, message)
                .detail(details.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for dependent in blocking {
            cascade.takes(dependent);
        }
        // While the routine is still there: the tables have to be understood.
        let operators = self.operators_of_routine(routine.id);
        self.drop_operators(&operators, cascade)?;
        bound.into_iter().try_for_each(|(_, user)| self.drop_bound(user))?;
        let (_, mut changes) = self.dependents_of_routine(routine)?;
        changes.push(Change::DropRoutine(routine.id));
        self.change(changes)
    }

    /// What keeps a routine, as messages say it.
    pub(super) fn told_of_routine(&mut self, routine: &Arc<Routine>) -> Result<Vec<String>> {
        let shown = format!("{} {}", routine.kind(), self.routine_text(routine));
        let (mut blocking, _) = self.dependents_of_routine(routine)?;
        blocking.extend(self.bound_to_routine(routine).into_iter().map(|(described, _)| described));
        Ok(blocking.into_iter().map(|dependent| format!("{dependent} depends on {shown}")).collect())
    }

    /// What depends on a routine and can be without it, as messages show it; and what becomes of that.
    fn dependents_of_routine(&mut self, routine: &Arc<Routine>) -> Result<(Vec<String>, Vec<Change>)> {
        let mut blocking = Vec::new();
        let mut changes = Vec::new();
        let tables: Vec<Arc<Table>> = self.catalog().tables().cloned().collect();
        for table in &tables {
            let (gone, kept): (Vec<_>, Vec<_>) =
                table.triggers.iter().cloned().partition(|trigger| trigger.function == routine.id);
            for trigger in &gone {
                blocking.push(format!("trigger {} on {}", trigger.name, self.described_table(table)));
            }
            if !gone.is_empty() {
                changes.push(Change::PutTable(Table { triggers: kept, ..(**table).clone() }));
            }
        }
        let casts: Vec<_> = self.catalog().casts().cloned().collect();
        for cast in casts.iter().filter(|cast| cast.method == CastMethod::Routine(routine.id)) {
            blocking.push(self.described_cast(cast));
            changes.push(Change::DropCast(cast.id));
        }
        for operator in self.operators_of_routine(routine.id) {
            blocking.push(self.described_operator(&operator));
            changes.push(Change::DropOperator(operator.id));
        }
        for aggregate in self.aggregates_of(routine) {
            blocking.push(format!("function {}", self.routine_text(&aggregate)));
            changes.push(Change::DropRoutine(aggregate.id));
        }
        let users = self.users_of_routine(routine)?;
        blocking.extend(users.iter().map(|(described, _)| described.clone()));
        for (_, change) in users {
            changes.extend(change);
        }
        Ok((blocking, changes))
    }

    /// Drops the routines that take or give rows of a relation, or values of a type.
    pub(super) fn without_routines_of(&self, number: u32) -> Vec<Change> {
        let using = self.catalog().routines().filter(|routine| routine.uses_type(number));
        using.map(|routine| Change::DropRoutine(routine.id)).collect()
    }

    /// What names a routine in a text of the catalogue: how it is called, and what becomes of it
    /// without the routine.
    fn users_of_routine(&mut self, routine: &Routine) -> Result<Vec<(String, Vec<Change>)>> {
        let mut users = Vec::new();
        let names = |text: &str| {
            text.to_ascii_lowercase().contains(routine.name.to_ascii_lowercase().as_str())
                && calls_in_expression(text, routine)
        };
        let tables: Vec<Arc<Table>> = self.catalog().tables().cloned().collect();
        for table in tables {
            let mut changed = (*table).clone();
            let mut described = Vec::new();
            for column in &mut changed.columns {
                if column.default.as_deref().is_some_and(names) {
                    described.push(format!(
                        "default value for column {} of {}",
                        column.name,
                        self.described_table(&table)
                    ));
                    column.default = None;
                }
            }
            let (gone, kept): (Vec<_>, Vec<_>) =
                std::mem::take(&mut changed.checks).into_iter().partition(|check| names(&check.condition));
            changed.checks = kept;
            for check in gone {
                described.push(self.described_constraint(&check.name, &table));
            }
            if let Some((last, rest)) = described.split_last() {
                users.extend(rest.iter().map(|described| (described.clone(), Vec::new())));
                users.push((last.clone(), vec![Change::PutTable(changed)]));
            }
        }
        let views: Vec<_> = self.catalog().views().cloned().collect();
        for view in views {
            if view.query.to_ascii_lowercase().contains(routine.name.to_ascii_lowercase().as_str())
                && calls_in_query(&view.query, routine)
            {
                let change = if view.materialized { Vec::new() } else { vec![Change::DropView(view.id)] };
                users.push((self.described_view(&view), change));
            }
        }
        Ok(users)
    }

    /// A routine as messages show it: with its schema where the name alone would not find it.
    pub(crate) fn routine_text(&self, routine: &Routine) -> String {
        let types: Vec<String> = routine.given().map(|arg| self.type_text(&arg.ty)).collect();
        let is_found = self.search_path().contains(&routine.schema);
        let quote = colibri_types::functions::quote_identifier;
        let schema = if is_found { String::new() } else { format!("{}.", quote(&routine.schema)) };
        format!("{schema}{}({})", quote(&routine.name), types.join(","))
    }

    fn alter_routine(&mut self, kind: RoutineKind, named: &RoutineNamed, change: &RoutineChange) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        let old = self.own_routine(kind, named)?;
        let mut routine = (*old).clone();
        match change {
            RoutineChange::Rename(name) => routine.name.clone_from(name),
            RoutineChange::SetSchema(schema) => {
                if self.catalog().schema(schema).is_none() {
                    return Err(Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{schema}\" does not exist")));
                }
                self.expect_may_create_in(schema)?;
                routine.schema.clone_from(schema);
            }
            RoutineChange::Owner(role) => routine.owner = self.actor(role)?,
            RoutineChange::Options(options) => self.take_options(&mut routine, options, false)?,
            RoutineChange::DependsOn => return Ok(()),
        }
        if (routine.name != old.name || routine.schema != old.schema) && self.same_routine(&routine).is_some() {
            let message = format!(
                "{} {} already exists in schema \"{}\"",
                routine.kind(),
                crate::bind::routines::signature(&routine).replace(',', ", "),
                routine.schema
            );
            return Err(Error::new(SqlState("42723"), message));
        }
        let mut changes = Vec::new();
        if routine.name != old.name || routine.schema != old.schema {
            changes = self.renamed_in_texts(&old, &routine)?;
        }
        changes.push(Change::PutRoutine(routine));
        self.change(changes)
    }

    /// Moves a routine of an extension to another schema.
    pub(super) fn move_routine(&mut self, old: &Routine, schema: &CompactString) -> Result<()> {
        let routine = Routine { schema: schema.clone(), ..old.clone() };
        if self.same_routine(&routine).is_some() {
            let signature = crate::bind::routines::signature(&routine).replace(',', ", ");
            let message = format!("{} {signature} already exists in schema \"{schema}\"", routine.kind());
            return Err(Error::new(SqlState("42723"), message));
        }
        let mut changes = self.renamed_in_texts(old, &routine)?;
        changes.push(Change::PutRoutine(routine));
        self.change(changes)
    }

    // ---- privileges ----

    fn grant_routines(
        &mut self,
        granting: &Granting,
        kind: RoutineKind,
        on: &OnRoutines,
        to: &[Option<RoleName>],
    ) -> Result<()> {
        Catalog::lock(self.catalog_and_txn()?.1)?;
        if !granting.columns.is_empty() {
            let message = "column privileges are only valid for relations";
            return Err(Error::new(SqlState::INVALID_GRANT_OPERATION, message));
        }
        for privilege in granting.privileges.iter().flatten() {
            if privilege != "execute" {
                let message = format!("invalid privilege type {} for {}", privilege.to_ascii_uppercase(), kind.word());
                return Err(Error::new(SqlState::INVALID_GRANT_OPERATION, message));
            }
        }
        let routines = match on {
            OnRoutines::Named(names) => {
                names.iter().map(|named| self.routine_named(kind, named)).collect::<Result<Vec<_>>>()?
            }
            OnRoutines::AllIn(schemas) => {
                for schema in schemas {
                    if self.catalog().schema(schema).is_none() {
                        let message = format!("schema \"{schema}\" does not exist");
                        return Err(Error::new(SqlState::NO_SUCH_SCHEMA, message));
                    }
                }
                let is_kind = |routine: &&Arc<Routine>| match kind {
                    RoutineKind::Function => !routine.is_procedure,
                    RoutineKind::Procedure => routine.is_procedure,
                    RoutineKind::Aggregate => routine.aggregate.is_some(),
                    RoutineKind::Routine => true,
                };
                let is_in = |routine: &&Arc<Routine>| schemas.contains(&routine.schema);
                self.catalog().routines().filter(is_in).filter(is_kind).cloned().collect()
            }
        };
        let mut grantees = Vec::with_capacity(to.len());
        for role in to {
            grantees.push(match role {
                Some(role) => self.actor(role)?,
                None => PUBLIC_ROLE,
            });
        }
        for routine in routines {
            let authority = self.authority();
            let may_grant = authority.has_role(routine.owner)
                || !authority.grantable(ObjectKind::Function, routine.owner, routine.acl.as_ref()).is_empty();
            if !may_grant {
                return Err(Error::denied(routine.kind(), &routine.name));
            }
            let mut acl = routine.acl.clone().unwrap_or_else(|| Acl::default_of(ObjectKind::Function, routine.owner));
            for &grantee in &grantees {
                if granting.revoke {
                    for grant in acl.0.iter_mut().filter(|grant| grant.grantee == grantee) {
                        grant.grantable = Privileges::NONE;
                        if !granting.option {
                            grant.privileges = Privileges::NONE;
                        }
                    }
                    acl.0.retain(|grant| !grant.privileges.is_empty());
                } else {
                    let grantable = if granting.option { Privileges::EXECUTE } else { Privileges::NONE };
                    let grantor = routine.owner;
                    acl.add(Grant { grantee, grantor, privileges: Privileges::EXECUTE, grantable });
                }
            }
            self.change(vec![Change::PutRoutine(Routine { acl: Some(acl), ..(*routine).clone() })])?;
        }
        Ok(())
    }
}

/// The parts of a type's name, if it is none of the grammar's own.
fn custom_name(data_type: &ast::DataType) -> Option<Vec<CompactString>> {
    match data_type {
        ast::DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            Some(name.0.iter().filter_map(|part| part.as_ident()).map(crate::bind::fold).collect())
        }
        ast::DataType::Trigger => Some(vec!["trigger".into()]),
        _ => None,
    }
}

fn language_of(create: &CreateRoutine) -> Option<&str> {
    create.options.iter().find_map(|option| match option {
        RoutineOption::Language(name) => Some(name.as_str()),
        _ => None,
    })
}

/// Refuses to replace a routine by one that callers would take for another.
fn expect_replaceable(old: &Routine, new: &Routine) -> Result<()> {
    if old.is_procedure != new.is_procedure {
        let message = "cannot change routine kind";
        let detail = format!("\"{}\" is a {}.", old.name, old.kind());
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message).detail(detail));
    }
    let drop_first = || {
        let word = old.kind().to_ascii_uppercase();
        format!("Use DROP {word} {} first.", crate::bind::routines::signature(old))
    };
    if old.result.oid() != new.result.oid() || old.set != new.set {
        return Err(bad_definition("cannot change return type of existing function").hint(drop_first()));
    }
    let results = |routine: &Routine| routine.results().map(|arg| (arg.name.clone(), arg.ty.oid())).collect::<Vec<_>>();
    if results(old) != results(new) {
        return Err(bad_definition("cannot change return type of existing function")
            .detail("Row type defined by OUT parameters is different.")
            .hint(drop_first()));
    }
    for (one, other) in old.given().zip(new.given()) {
        if !one.name.is_empty() && one.name != other.name {
            let message = format!("cannot change name of input parameter \"{}\"", one.name);
            return Err(bad_definition(message).hint(drop_first()));
        }
        if one.default.is_some() && other.default.is_none() {
            let message = "cannot remove parameter defaults from existing function";
            return Err(bad_definition(message).hint(drop_first()));
        }
    }
    Ok(())
}

//! Functions with which clients read the catalogue and the server: `pg_get_indexdef`,
//! `format_type`, `has_table_privilege` and the like.
//!
//! They use the catalogue as the statement's transaction sees it (see
//! [`crate::surroundings::Surroundings`]). For a missing object they give NULL, as in PostgreSQL.

use std::net::SocketAddr;

use colibri_catalog::{CONSTRAINT_COMMENT, ObjectId, Relation, cluster::Authority};
use colibri_types::{
    Array, Datum, Env, Error, Result, SqlState, Type,
    Type::{
        Bool, Inet, Int2, Int4, Int8, Name, NodeTree, Oid, RegClass, RegNamespace, RegOper, RegOperator, RegProc,
        RegProcedure, RegRole, RegType, Text, TimestampTz,
    },
    encoding::Encoding,
    functions::{Eval, Function, f, int, text},
};

use crate::bind::Writing;
use crate::surroundings::Names as _;
use crate::system::names::{Found, Meaning, format_type};
use crate::system::{
    activity, describe, extended_statistics, partitions, policies, procedures, relations, routines, types,
};

const YES: Eval = |_, _| Ok(Datum::Bool(true));
const NO: Eval = |_, _| Ok(Datum::Bool(false));

fn is_standby(_: &[&Datum], env: &Env) -> Result<Datum> {
    Ok(Datum::Bool(env.names().engine.as_ref().is_some_and(|engine| engine.is_standby())))
}

fn number(value: &Datum) -> Result<ObjectId> {
    Ok(int(value)? as u32)
}

fn text_or_null(value: Option<impl AsRef<str>>) -> Result<Datum> {
    Ok(value.map_or(Datum::Null, |value| Datum::text(value.as_ref())))
}

fn truth(value: Option<&&Datum>) -> bool {
    matches!(value, Some(Datum::Bool(true)))
}

// ---- names and definitions ----

fn relation_is_visible(args: &[&Datum], env: &Env) -> Result<Datum> {
    let names = env.names();
    Ok(names.relation(number(args[0])?).map_or(Datum::Null, |found| Datum::Bool(names.is_visible(&found))))
}

fn type_is_visible(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (names, ty) = (env.names(), number(args[0])?);
    Ok(match types::relation_of(ty) {
        Some((relation, _)) => {
            let found = names.relation(relation).filter(|_| names.columns_of(relation).is_some());
            found.map_or(Datum::Null, |found| Datum::Bool(names.is_visible(&found)))
        }
        None if let Some(known) = Type::from_oid(ty) => {
            Datum::Bool(known.extension().is_none() || names.is_extension_type_visible(known))
        }
        None => {
            let found = names.catalog.user_type_of(ty);
            found.map_or(Datum::Null, |(found, _)| Datum::Bool(names.is_type_visible(found)))
        }
    })
}

fn shown_type(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (Datum::Int(oid), modifier) = (args[0], args[1]) else { return Ok(Datum::Null) };
    let modifier = match modifier {
        Datum::Int(modifier) => Some(*modifier as i32),
        _ => None,
    };
    Ok(Datum::text(&format_type(env.names(), *oid as u32, modifier)))
}

fn index_definition(args: &[&Datum], env: &Env) -> Result<Datum> {
    let column = args.get(1).map_or(Ok(0), |column| int(column))?;
    text_or_null(describe::index_by_number(env.names(), number(args[0])?, column, truth(args.get(2))))
}

fn constraint_definition(args: &[&Datum], env: &Env) -> Result<Datum> {
    text_or_null(describe::constraint_by_number(env.names(), number(args[0])?, truth(args.get(1))))
}

fn rule_definition(args: &[&Datum], env: &Env) -> Result<Datum> {
    text_or_null(crate::system::relations::rule_definition(env.names(), number(args[0])?))
}

fn trigger_definition(args: &[&Datum], env: &Env) -> Result<Datum> {
    text_or_null(routines::trigger_definition(env.names(), number(args[0])?))
}

fn function_result(args: &[&Datum], env: &Env) -> Result<Datum> {
    let id = number(args[0])?;
    match env.names().catalog.routine(id) {
        Some(_) => text_or_null(routines::result(env.names(), id)),
        None => text_or_null(procedures::result(id)),
    }
}

fn function_arguments(args: &[&Datum], env: &Env, with_defaults: bool) -> Result<Datum> {
    let id = number(args[0])?;
    let own = routines::arguments(env.names(), id, with_defaults);
    text_or_null(own.or_else(|| procedures::arguments(id)))
}

fn function_definition(args: &[&Datum], env: &Env) -> Result<Datum> {
    let id = number(args[0])?;
    match routines::definition(env.names(), id) {
        Some(own) => Ok(Datum::text(&own)),
        None => text_or_null(procedures::definition(id)?),
    }
}

fn function_is_visible(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (names, id) = (env.names(), number(args[0])?);
    Ok(match names.catalog.routine(id) {
        Some(routine) => Datum::Bool(names.search_path.contains(&routine.schema)),
        None => procedures::name_of(id).map_or(Datum::Null, |_| Datum::Bool(true)),
    })
}

fn view_definition(args: &[&Datum], env: &Env) -> Result<Datum> {
    let names = env.names();
    let id = match args[0] {
        Datum::Text(name) => env.object_number(RegClass, name)?,
        other => number(other)?,
    };
    text_or_null(names.catalog.view(id).map(|view| describe::view_definition(view)))
}

/// `obj_description`: of the object that has a number in a system table; of any, where the table is
/// not said.
fn comment(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (names, id) = (env.names(), number(args[0])?);
    let parts = [0, CONSTRAINT_COMMENT];
    let class = match args.get(1) {
        None => None,
        Some(name) => match crate::system::table("pg_catalog", text(name)?) {
            Some(table) => Some(table.oid),
            None => return Ok(Datum::Null),
        },
    };
    if let Some(description) = class.and_then(|class| crate::system::search::description(class, id)) {
        return Ok(Datum::text(&description));
    }
    if id == relations::PUBLIC_NUMBER
        && class.is_none_or(|class| class == relations::PG_NAMESPACE)
        && relations::public_is_as_made(names)
    {
        return Ok(Datum::text(relations::PUBLIC_COMMENT));
    }
    let is_of = |part: &i32| class.is_none_or(|class| crate::system::class_of_comment(names, id, *part) == class);
    text_or_null(parts.into_iter().filter(is_of).find_map(|part| names.catalog.comment(id, part)))
}

fn column_comment(args: &[&Datum], env: &Env) -> Result<Datum> {
    let column = int(args[1])? as i32;
    if column == CONSTRAINT_COMMENT {
        return Ok(Datum::Null);
    }
    text_or_null(env.names().catalog.comment(number(args[0])?, column))
}

/// `shobj_description`: of a database or a role.
fn shared_comment(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (names, id) = (env.names(), number(args[0])?);
    text_or_null(match text(args[1])? {
        "pg_database" => {
            names.databases().into_iter().find(|database| database.oid == id).and_then(|found| found.comment)
        }
        "pg_authid" => names.roles().get(id).and_then(|role| role.comment.clone()),
        _ => None,
    })
}

/// The names of the types whose numbers are in a vector.
fn type_names(args: &[&Datum], env: &Env) -> Result<Datum> {
    let Datum::Array(numbers) = args[0] else { return Err(Error::internal("a vector is no array")) };
    let name = |value: &Datum| Ok(format_type(env.names(), number(value)?, None).to_string());
    Ok(Datum::text(&numbers.values().iter().map(name).collect::<Result<Vec<_>>>()?.join(", ")))
}

/// `to_regclass` and its kin.
fn find(ty: Type, args: &[&Datum], env: &Env) -> Result<Datum> {
    Ok(match env.names().look_up(ty, text(args[0])?)? {
        Meaning::Number(number) => Datum::Int(number.into()),
        _ => Datum::Null,
    })
}

/// `pg_my_temp_schema`
fn my_temp_schema(_: &[&Datum], env: &Env) -> Result<Datum> {
    let schema = env.names().catalog.temporary_schema().map_or(0, |schema| schema.id);
    Ok(Datum::Int(schema.into()))
}

fn current_schemas(args: &[&Datum], env: &Env) -> Result<Datum> {
    let names = env.names();
    let implicit = ["pg_catalog"].into_iter().filter(|_| truth(args.first()));
    // The schema of temporary objects stands before all others, unless the search path says where.
    let first = names.catalog.temporary_schema().map(|schema| schema.name.as_str());
    let own = first.filter(|_| !names.settings.text("search_path").contains("pg_temp"));
    let implicit = own.into_iter().filter(|_| truth(args.first())).chain(implicit);
    let path = names.search_path.iter().map(|schema| schema.as_str()).filter(|schema| Some(*schema) != own);
    let there = path.filter(|schema| names.schema_number(schema).is_some());
    let mut all: Vec<&str> = Vec::new();
    for schema in implicit.chain(there) {
        if !all.contains(&schema) {
            all.push(schema);
        }
    }
    Ok(array(Name, all.into_iter().map(Datum::text)))
}

fn array(element: Type, values: impl IntoIterator<Item = Datum>) -> Datum {
    Datum::Array(std::sync::Arc::new(Array::new(element, values.into_iter().collect())))
}

// ---- other sessions ----

/// The session of a number, if the user may end it: it has to be of the user, or of a role that the
/// user is a member of.
fn others_session(
    args: &[&Datum],
    env: &Env,
    act: fn(&dyn colibri_catalog::cluster::Cluster, i32) -> bool,
) -> Result<Datum> {
    let names = env.names();
    let pid = int(args[0])? as i32;
    let Some(cluster) = &names.cluster else { return Ok(Datum::Bool(false)) };
    let Some(session) = cluster.sessions().into_iter().find(|session| session.pid == pid) else {
        return Ok(Datum::Bool(false));
    };
    let owner = names.roles().named(&session.user).map(|role| (role.oid, role.superuser));
    let authority = names.authority.as_deref().cloned().unwrap_or_else(Authority::superuser);
    let may = authority.is_superuser() || owner.is_some_and(|(role, superuser)| !superuser && authority.has_role(role));
    if !may {
        let message = "must be a member of the role whose query is being canceled";
        return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    Ok(Datum::Bool(act(&**cluster, pid)))
}

fn cancel(args: &[&Datum], env: &Env) -> Result<Datum> {
    others_session(args, env, |cluster, pid| cluster.cancel(pid))
}

fn terminate(args: &[&Datum], env: &Env) -> Result<Datum> {
    others_session(args, env, |cluster, pid| cluster.terminate(pid))
}

fn ip(end: Option<SocketAddr>) -> Datum {
    end.map_or(Datum::Null, |end| activity::address(end.ip()))
}

fn port(end: Option<SocketAddr>) -> Datum {
    end.map_or(Datum::Null, |end| Datum::Int(end.port().into()))
}

fn started(_: &[&Datum], env: &Env) -> Result<Datum> {
    let started = env.names().cluster.as_ref().map(|cluster| cluster.started_us());
    Ok(started.map_or(Datum::Null, Datum::Timestamp))
}

fn is_user_table(args: &[&Datum], env: &Env) -> Result<Datum> {
    let found = env.names().relation(number(args[0])?);
    Ok(found
        .map_or(Datum::Null, |found| Datum::Bool(matches!(found, Found::User { relation: Relation::Table(_), .. }))))
}

fn row_security_active(args: &[&Datum], env: &Env) -> Result<Datum> {
    let Datum::Text(name) = args[0] else { return Ok(Datum::Null) };
    let table = env.names().named(Type::RegClass, name)?;
    Ok(Datum::Bool(policies::is_active(env, table)))
}

/// The changes that a relation supports: the bits of UPDATE, INSERT and DELETE.
fn updatable(args: &[&Datum], env: &Env) -> Result<Datum> {
    if let Some(view) = env.names().catalog.view(number(args[0])?).filter(|view| !view.materialized) {
        let bit = |writing, bit| if describe::view_target(env, view, writing).is_some() { bit } else { 0 };
        return Ok(Datum::Int(bit(Writing::Update, 4) | bit(Writing::Insert, 8) | bit(Writing::Delete, 16)));
    }
    Ok(Datum::Int(if is_user_table(args, env)? == Datum::Bool(true) { 4 | 8 | 16 } else { 0 }))
}

/// `pg_column_is_updatable`
fn column_updatable(args: &[&Datum], env: &Env) -> Result<Datum> {
    let Datum::Int(column) = *args[1] else { return Ok(Datum::Null) };
    let Some(at) = usize::try_from(column - 1).ok() else { return Ok(Datum::Bool(false)) };
    if let Some(view) = env.names().catalog.view(number(args[0])?).filter(|view| !view.materialized) {
        let target = describe::view_target(env, view, Writing::Update);
        return Ok(Datum::Bool(target.is_some_and(|target| target.place(at).is_some())));
    }
    is_user_table(args, env)
}

fn numbers(all: Vec<ObjectId>) -> Datum {
    let values = all.into_iter().map(|id| Datum::Int(id.into())).collect();
    Datum::Array(Array::new(Type::Oid, values).into())
}

/// A column of the rows of `pg_partition_tree`: the relations, what they are partitions of (0 of what
/// is none), whether they have no partitions, their levels.
fn partition_tree(args: &[&Datum], env: &Env) -> Result<Datum> {
    let column = int(args[1])?;
    let tree = partitions::tree_of(env.names(), number(args[0])?).into_iter();
    Ok(numbers(
        tree.map(|(id, parent, is_leaf, level)| match column {
            0 => id,
            1 => parent.unwrap_or_default(),
            2 => is_leaf.into(),
            _ => level as ObjectId,
        })
        .collect(),
    ))
}

pub(super) const TABLE: &[Function] = &[
    f("pg_get_userbyid", &[Oid], Name, |a, env| Ok(Datum::Text(env.names().roles().name_of(number(a[0])?)))).stable(),
    f("pg_table_is_visible", &[Oid], Bool, relation_is_visible).stable(),
    f("pg_type_is_visible", &[Oid], Bool, type_is_visible).stable(),
    f("pg_operator_is_visible", &[Oid], Bool, YES).stable(),
    f("pg_opclass_is_visible", &[Oid], Bool, YES).stable(),
    f("pg_opfamily_is_visible", &[Oid], Bool, YES).stable(),
    f("pg_collation_is_visible", &[Oid], Bool, YES).stable(),
    f("pg_conversion_is_visible", &[Oid], Bool, YES).stable(),
    f("pg_statistics_obj_is_visible", &[Oid], Bool, YES).stable(),
    f("pg_ts_config_is_visible", &[Oid], Bool, YES).stable(),
    f("pg_ts_dict_is_visible", &[Oid], Bool, YES).stable(),
    f("pg_ts_parser_is_visible", &[Oid], Bool, YES).stable(),
    f("pg_ts_template_is_visible", &[Oid], Bool, YES).stable(),
    f("format_type", &[Oid, Int4], Text, shown_type).stable().called_on_null(),
    f("pg_get_expr", &[NodeTree, Oid], Text, |a, _| Ok(a[0].clone())).stable(),
    f("pg_get_expr", &[NodeTree, Oid, Bool], Text, |a, _| Ok(a[0].clone())).stable(),
    f("pg_get_indexdef", &[Oid], Text, index_definition).stable(),
    f("pg_get_indexdef", &[Oid, Int4, Bool], Text, index_definition).stable(),
    f("pg_get_constraintdef", &[Oid], Text, constraint_definition).stable(),
    f("pg_get_constraintdef", &[Oid, Bool], Text, constraint_definition).stable(),
    f("pg_get_viewdef", &[Oid], Text, view_definition).stable(),
    f("pg_get_viewdef", &[Oid, Bool], Text, view_definition).stable(),
    f("pg_get_viewdef", &[Oid, Int4], Text, view_definition).stable(),
    f("pg_get_viewdef", &[Text], Text, view_definition).stable(),
    f("pg_get_viewdef", &[Text, Bool], Text, view_definition).stable(),
    f("pg_get_triggerdef", &[Oid], Text, trigger_definition).stable(),
    f("pg_get_triggerdef", &[Oid, Bool], Text, trigger_definition).stable(),
    f("pg_get_ruledef", &[Oid], Text, rule_definition).stable(),
    f("pg_get_ruledef", &[Oid, Bool], Text, rule_definition).stable(),
    f("pg_get_partition_constraintdef", &[Oid], Text, |a, env| {
        text_or_null(partitions::constraint_text(env.names(), number(a[0])?, env))
    })
    .stable(),
    f("pg_get_partkeydef", &[Oid], Text, |a, env| text_or_null(partitions::key_text(env.names(), number(a[0])?)))
        .stable(),
    f("pg_get_statisticsobjdef", &[Oid], Text, |a, env| {
        text_or_null(extended_statistics::definition(env.names(), number(a[0])?))
    })
    .stable(),
    f("pg_get_statisticsobjdef_columns", &[Oid], Text, |a, env| {
        text_or_null(extended_statistics::columns(env.names(), number(a[0])?))
    })
    .stable(),
    f("pg_get_function_result", &[Oid], Text, function_result).stable(),
    f("pg_get_function_arguments", &[Oid], Text, |a, env| function_arguments(a, env, true)).stable(),
    f("pg_get_function_identity_arguments", &[Oid], Text, |a, env| function_arguments(a, env, false)).stable(),
    f("obj_description", &[Oid], Text, comment).stable(),
    f("obj_description", &[Oid, Name], Text, comment).stable(),
    f("col_description", &[Oid, Int4], Text, column_comment).stable(),
    f("shobj_description", &[Oid, Name], Text, shared_comment).stable(),
    f("pg_encoding_to_char", &[Int4], Name, |a, _| {
        Ok(Datum::text(Encoding::numbered(int(a[0])?).map_or("", Encoding::name)))
    })
    .stable(),
    f("pg_char_to_encoding", &[Name], Int4, |a, _| {
        Ok(Datum::Int(Encoding::named(text(a[0])?).map_or(-1, Encoding::number)))
    })
    .stable(),
    f("pg_client_encoding", &[], Name, |_, env| Ok(Datum::text(env.client_encoding.name()))).stable(),
    f("getdatabaseencoding", &[], Name, |_, _| Ok(Datum::text("UTF8"))).stable(),
    f("current_schemas", &[Bool], Type::Name.array_of(), current_schemas).stable(),
    f("to_regclass", &[Text], RegClass, |a, env| find(RegClass, a, env)).stable(),
    f("to_regtype", &[Text], RegType, |a, env| find(RegType, a, env)).stable(),
    f("to_regrole", &[Text], RegRole, |a, env| find(RegRole, a, env)).stable(),
    f("to_regnamespace", &[Text], RegNamespace, |a, env| find(RegNamespace, a, env)).stable(),
    f("to_regproc", &[Text], RegProc, |a, env| find(RegProc, a, env)).stable(),
    f("to_regprocedure", &[Text], RegProcedure, |a, env| find(RegProcedure, a, env)).stable(),
    f("to_regoper", &[Text], RegOper, |a, env| find(RegOper, a, env)).stable(),
    f("to_regoperator", &[Text], RegOperator, |a, env| find(RegOperator, a, env)).stable(),
    f("pg_get_functiondef", &[Oid], Text, function_definition).stable(),
    f("_pg_partition_ancestors", &[RegClass], Type::Oid.array_of(), |a, env| {
        Ok(numbers(partitions::with_ancestors(env.names(), number(a[0])?)))
    })
    .stable(),
    f("_pg_partition_tree", &[RegClass, Int4], Type::Oid.array_of(), partition_tree).stable(),
    f("pg_partition_root", &[RegClass], RegClass, |a, env| {
        Ok(partitions::root_of(env.names(), number(a[0])?).map_or(Datum::Null, |root| Datum::Int(root.into())))
    })
    .stable(),
    f("pg_jit_available", &[], Bool, NO).volatile(),
    f("pg_encoding_max_length", &[Int4], Int4, |a, _| {
        Ok(Encoding::numbered(int(a[0])?).map_or(Datum::Null, |encoding| Datum::Int(encoding.bytes_max())))
    }),
    f("oidvectortypes", &[Type::OidVector], Text, type_names).stable(),
    f("pg_relation_filenode", &[RegClass], Oid, |a, _| Ok(a[0].clone())).stable(),
    f("pg_relation_is_publishable", &[RegClass], Bool, is_user_table).stable(),
    f("pg_column_is_updatable", &[RegClass, Int2, Bool], Bool, column_updatable).stable(),
    f("pg_relation_is_updatable", &[RegClass, Bool], Int4, updatable).stable(),
    f("pg_get_function_sqlbody", &[Oid], Text, |a, env| {
        text_or_null(routines::standard_body(env.names(), number(a[0])?))
    })
    .stable(),
    f("pg_function_is_visible", &[Oid], Bool, function_is_visible).stable(),
    f("pg_tablespace_location", &[Oid], Text, |_, _| Ok(Datum::text(""))).stable(),
    f("pg_is_in_recovery", &[], Bool, is_standby).stable(),
    f("pg_is_wal_replay_paused", &[], Bool, NO).stable(),
    f("pg_my_temp_schema", &[], Oid, my_temp_schema).stable(),
    f("pg_is_other_temp_schema", &[Oid], Bool, NO).stable(),
    f("row_security_active", &[Oid], Bool, |a, env| Ok(Datum::Bool(policies::is_active(env, number(a[0])?)))).stable(),
    f("row_security_active", &[Text], Bool, row_security_active).stable(),
    f("pg_postmaster_start_time", &[], TimestampTz, started).stable(),
    f("pg_conf_load_time", &[], TimestampTz, started).stable(),
    f("pg_cancel_backend", &[Int4], Bool, cancel).volatile(),
    f("pg_terminate_backend", &[Int4], Bool, terminate).volatile(),
    f("pg_terminate_backend", &[Int4, Int8], Bool, terminate).volatile(),
    f("inet_client_addr", &[], Inet, |_, env| Ok(ip(activity::own(env).and_then(|own| own.client)))).stable(),
    f("inet_client_port", &[], Int4, |_, env| Ok(port(activity::own(env).and_then(|own| own.client)))).stable(),
    f("inet_server_addr", &[], Inet, |_, env| Ok(ip(activity::own(env).and_then(|own| own.server)))).stable(),
    f("inet_server_port", &[], Int4, |_, env| Ok(port(activity::own(env).and_then(|own| own.server)))).stable(),
    f("pg_backend_pid", &[], Int4, |_, env| Ok(Datum::Int(env.names().pid.into()))).stable(),
];

//! `has_table_privilege` and the like: whether a role has privileges on an object.
//!
//! An unknown name is an error. An unknown number gives NULL, since numbers come from reading the
//! catalogue, and their objects may have been dropped since. The names of schemas, databases,
//! languages, roles and columns are taken as they are; those of relations, functions and types are
//! read as SQL reads them.

use colibri_catalog::{
    ColumnAcls, ObjectId, Relation,
    cluster::{Acl, Authority, BOOTSTRAP_ROLE, ObjectKind, PUBLIC_ROLE, Privileges, RoleId},
};
use colibri_types::{
    Array, Datum, Env, Error, Result, SqlState, Type,
    Type::{AclItem, Bool, Int2, InternalChar, Oid, RegProcedure, RegType, Text},
    functions::{Eval, Function, f, int, text},
    pulse,
};
use compact_str::CompactString;

use crate::surroundings::Names as _;
use crate::surroundings::Surroundings;
use crate::system::names::Found;
use crate::system::{procedures, types};

// ---- who, and what is asked for ----

/// A role by name or number.
fn role_of(names: &Surroundings, value: &Datum) -> Result<RoleId> {
    match value {
        Datum::Int(oid) => Ok(*oid as u32),
        Datum::Text(name) => names.roles().expect(name).map(|role| role.oid),
        _ => Err(Error::internal("a role is neither a name nor a number")),
    }
}

/// The cost of looking up a role and its memberships, in units of [`pulse`].
const UNITS_PER_ROLE: usize = 20;

fn authority_of(names: &Surroundings, role: RoleId) -> Authority {
    let authority = match &names.authority {
        Some(authority) if authority.role == role => (**authority).clone(),
        _ => {
            let here = names.engine.as_ref().map(|engine| engine.name().to_owned()).unwrap_or_default();
            let owner = names.databases().iter().find(|database| database.name == here).map(|database| database.owner);
            Authority::of(&names.roles(), role, owner.unwrap_or(BOOTSTRAP_ROLE))
        }
    };
    pulse::note(authority.role_count() * UNITS_PER_ROLE);
    authority
}

/// The role, if the first argument names one, and the other arguments, which are `count`.
fn who<'a, 'd>(names: &Surroundings, args: &'a [&'d Datum], count: usize) -> Result<(Authority, &'a [&'d Datum])> {
    if args.len() == count {
        let authority = names.authority.as_deref().cloned().unwrap_or_else(Authority::superuser);
        return Ok((authority, args));
    }
    let role = match args[0] {
        Datum::Text(name) if name == "public" => PUBLIC_ROLE,
        other => role_of(names, other)?,
    };
    Ok((authority_of(names, role), &args[1..]))
}

fn unrecognized(privilege: &str) -> Error {
    Error::new(SqlState::BAD_PARAMETER, format!("unrecognized privilege type: \"{privilege}\""))
}

/// The items of a list of privileges. Blanks around them are those of the C locale.
fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(|item| item.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']))
}

/// The privileges of a list, any of which is enough: each with whether its grant option is asked
/// for.
fn wanted(list: &str, known: Privileges) -> Result<Vec<(Privileges, bool)>> {
    const OPTION: &str = " WITH GRANT OPTION";
    let one = |item: &str| {
        let cut = item.len().checked_sub(OPTION.len()).filter(|&cut| item.is_char_boundary(cut));
        let (name, option) = match cut {
            Some(cut) if item[cut..].eq_ignore_ascii_case(OPTION) => (&item[..cut], true),
            _ => (item, false),
        };
        match Privileges::named(name) {
            Some(privilege) if privilege.without(known).is_empty() => Ok((privilege, option)),
            // RULE is an old privilege: no role has it, and asking for it is no error.
            None if known == ObjectKind::Table.all() && name.eq_ignore_ascii_case("RULE") => {
                Ok((Privileges::NONE, option))
            }
            _ => Err(unrecognized(item)),
        }
    };
    items(list).map(one).collect()
}

fn allowed(
    authority: &Authority,
    wanted: &[(Privileges, bool)],
    kind: ObjectKind,
    owner: RoleId,
    acl: Option<&Acl>,
) -> Datum {
    let (may, may_grant) = (authority.privileges(kind, owner, acl), authority.grantable(kind, owner, acl));
    // A sequence has fewer privileges than the table that the function takes it for; superusers
    // have all of them.
    let has = |&(privilege, option): &(Privileges, bool)| {
        let has = if option { may_grant } else { may };
        let is_any = !privilege.is_empty();
        is_any && (authority.is_superuser() || privilege.without(has).is_empty())
    };
    Datum::Bool(wanted.iter().any(has))
}

/// Of objects that all roles may use, and only superusers may grant.
fn allowed_to_all(authority: &Authority, wanted: &[(Privileges, bool)], everybodys: Privileges) -> Datum {
    let has = |&(privilege, option): &(Privileges, bool)| {
        let may = !option && privilege.without(everybodys).is_empty();
        !privilege.is_empty() && (authority.is_superuser() || may)
    };
    Datum::Bool(wanted.iter().any(has))
}

// ---- relations ----

fn relation_id(names: &Surroundings, value: &Datum) -> Result<ObjectId> {
    match value {
        // It is a name, even if it consists of digits.
        Datum::Text(name) => names.named(Type::RegClass, name),
        other => Ok(int(other)? as u32),
    }
}

/// Whether the role has any of the privileges on a relation; NULL if there is no such relation.
fn on_relation(names: &Surroundings, authority: &Authority, id: ObjectId, wanted: &[(Privileges, bool)]) -> Datum {
    match names.relation(id) {
        None => Datum::Null,
        Some(Found::System(_)) => allowed_to_all(authority, wanted, Privileges::SELECT),
        Some(Found::User { relation, .. }) => {
            let (kind, owner, acl) = match &relation {
                Relation::Table(table) => (ObjectKind::Table, table.owner, table.acl.as_ref()),
                Relation::View(view) => (ObjectKind::Table, view.owner, view.acl.as_ref()),
                Relation::Sequence(sequence) => (ObjectKind::Sequence, sequence.owner, sequence.acl.as_ref()),
                // Nothing can be granted on an index.
                Relation::Index(table, _) | Relation::PrimaryKey(table) => match names.table(*table) {
                    Some(table) => (ObjectKind::Table, table.owner, None),
                    None => return Datum::Null,
                },
            };
            allowed(authority, wanted, kind, owner, acl)
        }
    }
}

fn table_privilege(args: &[&Datum], env: &Env) -> Result<Datum> {
    let names = env.names();
    let (authority, args) = who(names, args, 2)?;
    let id = relation_id(names, args[0])?;
    Ok(on_relation(names, &authority, id, &wanted(text(args[1])?, ObjectKind::Table.all())?))
}

fn sequence_privilege(args: &[&Datum], env: &Env) -> Result<Datum> {
    let names = env.names();
    let (authority, args) = who(names, args, 2)?;
    let id = relation_id(names, args[0])?;
    let wanted = wanted(text(args[1])?, ObjectKind::Sequence.all())?;
    match names.relation(id) {
        None => Ok(Datum::Null),
        Some(Found::User { relation: Relation::Sequence(_), .. }) => Ok(on_relation(names, &authority, id, &wanted)),
        Some(other) => {
            let message = format!("\"{}\" is not a sequence", other.name());
            Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
    }
}

fn any_column_privilege(args: &[&Datum], env: &Env) -> Result<Datum> {
    let names = env.names();
    let (authority, args) = who(names, args, 2)?;
    let id = relation_id(names, args[0])?;
    let wanted = wanted(text(args[1])?, Privileges::OF_COLUMNS)?;
    let on_all = on_relation(names, &authority, id, &wanted);
    Ok(match on_all {
        Datum::Bool(false) => {
            let acls = column_acls(names, id);
            Datum::Bool(acls.values().any(|acl| on_column(&authority, acl, &wanted)))
        }
        known => known,
    })
}

fn column_acls(names: &Surroundings, id: ObjectId) -> ColumnAcls {
    match (names.catalog.table(id), names.catalog.view(id)) {
        (Some(table), _) => table.column_acls.clone(),
        (None, Some(view)) => view.column_acls.clone(),
        (None, None) => ColumnAcls::new(),
    }
}

/// Whether the role has any of the privileges by the list of a column.
fn on_column(authority: &Authority, acl: &Acl, wanted: &[(Privileges, bool)]) -> bool {
    allowed(authority, wanted, ObjectKind::Table, PUBLIC_ROLE, Some(acl)) == Datum::Bool(true)
}

fn column_privilege(args: &[&Datum], env: &Env) -> Result<Datum> {
    let names = env.names();
    let (authority, args) = who(names, args, 3)?;
    let id = relation_id(names, args[0])?;
    let columns = columns_known(names, id);
    let mut place = None;
    let is_there = match (args[1], &columns) {
        (_, None) => false,
        (Datum::Text(column), Some(columns)) => {
            place = columns.iter().position(|known| known.as_ref() == Some(column));
            if place.is_none() && !is_system_column(names, id, column) {
                let table = names.relation(id).map(|found| found.name().to_owned()).unwrap_or_default();
                let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
                return Err(Error::new(SqlState::NO_SUCH_COLUMN, message));
            }
            true
        }
        (number, Some(columns)) => match int(number)? {
            at @ 1.. => {
                place = Some(at as usize - 1);
                columns.get(at as usize - 1).is_some_and(Option::is_some)
            }
            at => (-6..0).contains(&at) && has_system_columns(names, id),
        },
    };
    let wanted = wanted(text(args[2])?, Privileges::OF_COLUMNS)?;
    if !is_there {
        return Ok(Datum::Null);
    }
    let acls = column_acls(names, id);
    Ok(match (on_relation(names, &authority, id, &wanted), place.and_then(|place| acls.get(&place))) {
        (Datum::Bool(false), Some(acl)) => Datum::Bool(on_column(&authority, acl, &wanted)),
        (known, _) => known,
    })
}

/// The columns of a relation, a sequence being one.
fn columns_known(names: &Surroundings, id: ObjectId) -> Option<Vec<Option<CompactString>>> {
    match names.relation(id)? {
        Found::User { relation: Relation::Sequence(_), .. } => {
            Some(["last_value", "log_cnt", "is_called"].map(|name| Some(name.into())).into())
        }
        _ => names.columns_of(id).or(Some(Vec::new())),
    }
}

fn has_system_columns(names: &Surroundings, id: ObjectId) -> bool {
    match names.relation(id) {
        Some(Found::System(table)) => !table.is_view,
        Some(Found::User { relation: Relation::Table(_) | Relation::Sequence(_), .. }) => true,
        _ => false,
    }
}

fn is_system_column(names: &Surroundings, id: ObjectId, column: &str) -> bool {
    matches!(column, "tableoid" | "xmin" | "xmax" | "cmin" | "cmax" | "ctid") && has_system_columns(names, id)
}

// ---- schemas and databases ----

fn schema_privilege(args: &[&Datum], env: &Env) -> Result<Datum> {
    let names = env.names();
    let (authority, args) = who(names, args, 2)?;
    let id = match args[0] {
        Datum::Text(name) => names
            .schema_number(name)
            .ok_or_else(|| Error::new(SqlState::NO_SUCH_SCHEMA, format!("schema \"{name}\" does not exist")))?,
        other => int(other)? as u32,
    };
    let wanted = wanted(text(args[1])?, ObjectKind::Schema.all())?;
    if crate::system::is_system_schema(&names.schema_name(id).unwrap_or_default()) {
        return Ok(allowed_to_all(&authority, &wanted, Privileges::USAGE));
    }
    let schema = names.catalog.schemas().find(|schema| schema.id == id);
    Ok(schema.map_or(Datum::Null, |schema| {
        allowed(&authority, &wanted, ObjectKind::Schema, schema.owner, schema.acl.as_ref())
    }))
}

fn database_privilege(args: &[&Datum], env: &Env) -> Result<Datum> {
    let names = env.names();
    let (authority, args) = who(names, args, 2)?;
    let databases = names.databases();
    let found =
        match args[0] {
            Datum::Text(name) => Some(databases.iter().find(|database| database.name == *name).ok_or_else(|| {
                Error::new(SqlState::NO_SUCH_DATABASE, format!("database \"{name}\" does not exist"))
            })?),
            other => {
                let oid = int(other)? as u32;
                databases.iter().find(|database| database.oid == oid)
            }
        };
    let wanted = wanted(text(args[1])?, ObjectKind::Database.all())?;
    Ok(found.map_or(Datum::Null, |database| {
        allowed(&authority, &wanted, ObjectKind::Database, database.owner, database.acl.as_ref())
    }))
}

// ---- roles ----

fn has_role(args: &[&Datum], env: &Env) -> Result<Datum> {
    let names = env.names();
    let (authority, args) = match args.len() {
        2 => who(names, args, 2)?,
        _ => (authority_of(names, role_of(names, args[0])?), &args[1..]),
    };
    let role = role_of(names, args[0])?;
    let roles = names.roles();
    let is_owner_of_all = authority.is_superuser();
    let mut has = false;
    for privilege in items(text(args[1])?) {
        pulse::work(authority.role_count() * UNITS_PER_ROLE)?;
        has |= match privilege.to_ascii_uppercase().as_str() {
            "USAGE" => authority.has_role(role),
            "MEMBER" => is_owner_of_all || authority.has_role(role) || roles.groups_of(authority.role).contains(&role),
            "USAGE WITH GRANT OPTION"
            | "USAGE WITH ADMIN OPTION"
            | "MEMBER WITH GRANT OPTION"
            | "MEMBER WITH ADMIN OPTION" => is_owner_of_all || roles.is_admin_of(authority.role, role),
            _ => return Err(unrecognized(privilege)),
        };
    }
    Ok(Datum::Bool(has))
}

// ---- what is the system's own ----

/// For objects that all roles may use. `find` gives the number for a name, or an error; `is_there`
/// says whether a number exists.
fn system_privilege(
    args: &[&Datum],
    env: &Env,
    known: Privileges,
    find: fn(&Surroundings, &str) -> Result<u32>,
    is_there: fn(&Surroundings, u32) -> bool,
    everybodys: Privileges,
) -> Result<Datum> {
    let names = env.names();
    let (authority, args) = who(names, args, 2)?;
    let id = match args[0] {
        Datum::Text(name) => find(names, name)?,
        other => int(other)? as u32,
    };
    let wanted = wanted(text(args[1])?, known)?;
    Ok(if is_there(names, id) { allowed_to_all(&authority, &wanted, everybodys) } else { Datum::Null })
}

fn function_privilege(args: &[&Datum], env: &Env) -> Result<Datum> {
    let find = |names: &Surroundings, text: &str| names.named(RegProcedure, text);
    let is_there = |_: &Surroundings, id| procedures::name_of(id).is_some();
    let names = env.names();
    let (authority, own) = who(names, args, 2)?;
    let id = match own[0] {
        Datum::Text(name) => find(names, name)?,
        other => int(other)? as u32,
    };
    if let Some(routine) = names.catalog.routine(id) {
        let wanted = wanted(text(own[1])?, Privileges::EXECUTE)?;
        return Ok(allowed(&authority, &wanted, ObjectKind::Function, routine.owner, routine.acl.as_ref()));
    }
    system_privilege(args, env, Privileges::EXECUTE, find, is_there, Privileges::EXECUTE)
}

fn type_privilege(args: &[&Datum], env: &Env) -> Result<Datum> {
    let find = |names: &Surroundings, text: &str| names.named(RegType, text);
    let is_there = |names: &Surroundings, id| names.type_name(id).is_some();
    let names = env.names();
    let (authority, own) = who(names, args, 2)?;
    let id = match own[0] {
        Datum::Text(name) => find(names, name)?,
        other => int(other)? as u32,
    };
    if let Some(ty) = names.catalog.types().find(|ty| ty.id == id || ty.array == id) {
        let wanted = wanted(text(own[1])?, Privileges::USAGE)?;
        return Ok(allowed(&authority, &wanted, ObjectKind::Type, ty.owner, ty.acl.as_ref()));
    }
    system_privilege(args, env, Privileges::USAGE, find, is_there, Privileges::USAGE)
}

fn no_such(what: &str, name: &str) -> Error {
    Error::new(SqlState::NO_SUCH_OBJECT, format!("{what} \"{name}\" does not exist"))
}

fn language_privilege(args: &[&Datum], env: &Env) -> Result<Datum> {
    let find = |_: &Surroundings, text: &str| {
        let known = types::LANGUAGES.iter().find(|(_, name, _)| *name == text);
        known.map(|(number, ..)| *number).ok_or_else(|| no_such("language", text))
    };
    let is_there = |_: &Surroundings, id| types::LANGUAGES.iter().any(|(number, ..)| *number == id);
    system_privilege(args, env, Privileges::USAGE, find, is_there, Privileges::USAGE)
}

fn tablespace_privilege(args: &[&Datum], env: &Env) -> Result<Datum> {
    const TABLESPACES: [(u32, &str); 2] = [(1663, "pg_default"), (1664, "pg_global")];
    let find = |_: &Surroundings, text: &str| {
        let known = TABLESPACES.iter().find(|(_, name)| *name == text);
        known.map(|(number, _)| *number).ok_or_else(|| no_such("tablespace", text))
    };
    let is_there = |_: &Surroundings, id| TABLESPACES.iter().any(|(number, _)| *number == id);
    system_privilege(args, env, Privileges::CREATE, find, is_there, Privileges::NONE)
}

/// There are no foreign servers, and no wrappers that make them.
fn foreign_privilege(args: &[&Datum], env: &Env, what: &str) -> Result<Datum> {
    let (_, args) = who(env.names(), args, 2)?;
    match args[0] {
        Datum::Text(name) => Err(no_such(what, name)),
        _ => wanted(text(args[1])?, Privileges::USAGE).map(|_| Datum::Null),
    }
}

/// `acldefault`: the privileges of an object before any GRANT or REVOKE.
fn default_list(args: &[&Datum], env: &Env) -> Result<Datum> {
    let (kind, roles) = (text(args[0])?, env.names().roles());
    let owner = int(args[1])? as u32;
    let (everybodys, owners) = match kind {
        "c" => ("", ""),
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "p" => ("", "sA"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        _ => {
            let message = format!("unrecognized objtype abbreviation: {kind}");
            return Err(Error::new(SqlState::INTERNAL, message));
        }
    };
    let name = colibri_catalog::cluster::quoted_role(&roles.name_of(owner));
    let everybody = Some(format!("={everybodys}/{name}")).filter(|_| !everybodys.is_empty());
    let own = Some(format!("{name}={owners}/{name}")).filter(|_| !owners.is_empty());
    let items = [everybody, own].into_iter().flatten().map(|item| Datum::text(&item));
    Ok(Datum::Array(std::sync::Arc::new(Array::new(AclItem, items.collect()))))
}

pub(super) const LISTS: &[Function] =
    &[f("acldefault", &[InternalChar, Oid], AclItem.array_of(), default_list).stable()];

const fn privilege(name: &'static str, args: &'static [Type], eval: Eval) -> Function {
    f(name, args, Bool, eval).stable()
}

macro_rules! privileges {
    ($(($name:literal, $eval:expr);)*) => {
        &[$(
            privilege($name, &[Text, Text], $eval),
            privilege($name, &[Oid, Text], $eval),
            privilege($name, &[Text, Text, Text], $eval),
            privilege($name, &[Text, Oid, Text], $eval),
            privilege($name, &[Oid, Text, Text], $eval),
            privilege($name, &[Oid, Oid, Text], $eval),
        )*]
    };
}

pub(super) const TABLE: &[Function] = privileges! {
    ("has_table_privilege", table_privilege);
    ("has_sequence_privilege", sequence_privilege);
    ("has_any_column_privilege", any_column_privilege);
    ("has_schema_privilege", schema_privilege);
    ("has_database_privilege", database_privilege);
    ("pg_has_role", has_role);
    ("has_function_privilege", function_privilege);
    ("has_type_privilege", type_privilege);
    ("has_language_privilege", language_privilege);
    ("has_tablespace_privilege", tablespace_privilege);
    ("has_foreign_data_wrapper_privilege", |args, env| foreign_privilege(args, env, "foreign-data wrapper"));
    ("has_server_privilege", |args, env| foreign_privilege(args, env, "server"));
};

macro_rules! column_privileges {
    ($([$($who:ident)?]),*) => {
        &[$(
            privilege("has_column_privilege", &[$($who,)? Text, Text, Text], column_privilege),
            privilege("has_column_privilege", &[$($who,)? Text, Int2, Text], column_privilege),
            privilege("has_column_privilege", &[$($who,)? Oid, Text, Text], column_privilege),
            privilege("has_column_privilege", &[$($who,)? Oid, Int2, Text], column_privilege),
        )*]
    };
}

pub(super) const COLUMNS: &[Function] = column_privileges!([], [Text], [Oid]);

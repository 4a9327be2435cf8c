//! Policies of row-level security as the catalogue shows them.

use colibri_catalog::cluster::{PUBLIC_ROLE, Roles};
use colibri_catalog::{Policy, Table};
use colibri_types::{Datum, Env, Result, Type};

use super::relations::sorted_tables;
use super::{Rows, array, flag, oid, text, text_or_null};
use crate::surroundings::{Names as _, Surroundings};
use colibri_catalog::system_tables::Fill;

pub(super) const FILLS: &[(&str, Fill)] = &[("pg_policy", policies), ("pg_policies", policy_list)];

fn each(names: &Surroundings, mut push: impl FnMut(&Table, &Policy) -> Result<()>) -> Result<()> {
    for table in sorted_tables(names) {
        for policy in &table.security.policies {
            push(&table, policy)?;
        }
    }
    Ok(())
}

fn policies(env: &Env, rows: &mut Rows) -> Result<()> {
    each(env.names(), |table, policy| {
        rows.push([
            oid(policy.id),
            text(&policy.name),
            oid(table.id),
            text(policy.command.encode_utf8(&mut [0; 4])),
            flag(policy.permissive),
            array(Type::Oid, policy.roles.iter().map(|&role| oid(role))),
            text_or_null(policy.using.as_deref()),
            text_or_null(policy.check.as_deref()),
        ])
    })
}

fn policy_list(env: &Env, rows: &mut Rows) -> Result<()> {
    let roles = env.names().roles();
    each(env.names(), |table, policy| {
        rows.push([
            text(&table.schema),
            text(&table.name),
            text(&policy.name),
            text(if policy.permissive { "PERMISSIVE" } else { "RESTRICTIVE" }),
            role_names(policy, &roles),
            text(match policy.command {
                'r' => "SELECT",
                'a' => "INSERT",
                'w' => "UPDATE",
                'd' => "DELETE",
                _ => "ALL",
            }),
            text_or_null(policy.using.as_deref()),
            text_or_null(policy.check.as_deref()),
        ])
    })
}

fn role_names(policy: &Policy, roles: &Roles) -> Datum {
    let mut named: Vec<_> = policy
        .roles
        .iter()
        .map(|&role| if role == PUBLIC_ROLE { "public".into() } else { roles.name_of(role) })
        .collect();
    named.sort();
    array(Type::Name, named.iter().map(|name| text(name)))
}

/// Whether policies of a table hold for whoever asks.
pub(crate) fn is_active(env: &Env, table: u32) -> bool {
    let names = env.names();
    let (Some(table), Some(authority)) = (names.catalog.table(table), &names.authority) else { return false };
    let is_owner = authority.has_role(table.owner) && !table.security.forced;
    table.security.enabled && !authority.bypasses_security() && !is_owner
}

/// Whether a number is a policy's.
pub(super) fn is_policy(names: &Surroundings, object: u32) -> bool {
    let table = names.catalog.table_with_part(object);
    table.is_some_and(|table| table.security.policies.iter().any(|policy| policy.id == object))
}

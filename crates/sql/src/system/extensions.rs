//! `pg_extension` and its kin: extensions that there are, and those that were asked for.

use colibri_catalog::cluster::BOOTSTRAP_ROLE;
use colibri_types::{Datum, Env, Result, Type};

use super::{Fill, NULL, PG_CATALOG, Rows, array, flag, oid, text, text_or_null};
use crate::surroundings::Names as _;

pub(super) const FILLS: &[(&str, Fill)] =
    &[("pg_extension", installed), ("pg_available_extensions", all), ("pg_available_extension_versions", versions)];

/// The extension that every database has.
pub(crate) const PLPGSQL: &str = "plpgsql";
/// Its number.
pub(crate) const PLPGSQL_NUMBER: u32 = 13_543;

/// An extension whose contents are here.
pub(crate) struct Available {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) comment: &'static str,
    /// Whether its schema can be changed.
    relocatable: bool,
    trusted: bool,
}

const AVAILABLE: [Available; 17] = [
    Available {
        name: "bloom",
        version: "1.0",
        comment: "bloom access method - signature file based index",
        relocatable: true,
        trusted: false,
    },
    Available {
        name: "btree_gin",
        version: "1.3",
        comment: "support for indexing common datatypes in GIN",
        relocatable: true,
        trusted: true,
    },
    Available {
        name: "btree_gist",
        version: "1.7",
        comment: "support for indexing common datatypes in GiST",
        relocatable: true,
        trusted: true,
    },
    Available {
        name: "citext",
        version: "1.6",
        comment: "data type for case-insensitive character strings",
        relocatable: true,
        trusted: true,
    },
    Available {
        name: "fuzzystrmatch",
        version: "1.1",
        comment: "determine similarities and distance between strings",
        relocatable: true,
        trusted: true,
    },
    Available {
        name: "hstore",
        version: "1.8",
        comment: "data type for storing sets of (key, value) pairs",
        relocatable: true,
        trusted: true,
    },
    Available {
        name: "intarray",
        version: "1.5",
        comment: "functions, operators, and index support for 1-D arrays of integers",
        relocatable: true,
        trusted: true,
    },
    Available {
        name: "ltree",
        version: "1.2",
        comment: "data type for hierarchical tree-like structures",
        relocatable: true,
        trusted: true,
    },
    Available {
        name: "pg_stat_statements",
        version: "1.10",
        comment: "track planning and execution statistics of all SQL statements executed",
        relocatable: true,
        trusted: false,
    },
    Available {
        name: "pg_trgm",
        version: "1.6",
        comment: "text similarity measurement and index searching based on trigrams",
        relocatable: true,
        trusted: true,
    },
    Available {
        name: "pgcrypto",
        version: "1.3",
        comment: "cryptographic functions",
        relocatable: true,
        trusted: true,
    },
    Available {
        name: PLPGSQL,
        version: "1.0",
        comment: "PL/pgSQL procedural language",
        relocatable: false,
        trusted: true,
    },
    Available {
        name: "tablefunc",
        version: "1.0",
        comment: "functions that manipulate whole tables, including crosstab",
        relocatable: true,
        trusted: true,
    },
    Available {
        name: "topic",
        version: "1.0",
        comment: "partitioned, ordered messages with consumers that keep their place",
        relocatable: false,
        trusted: true,
    },
    Available {
        name: "unaccent",
        version: "1.1",
        comment: "text search dictionary that removes accents",
        relocatable: true,
        trusted: true,
    },
    Available {
        name: "uuid-ossp",
        version: "1.1",
        comment: "generate universally unique identifiers (UUIDs)",
        relocatable: true,
        trusted: true,
    },
    Available { name: "vector", version: "0.8.0", comment: "vector data type", relocatable: true, trusted: true },
];

/// An extension whose contents are here, by its name.
pub(crate) fn available(name: &str) -> Option<&'static Available> {
    AVAILABLE.iter().find(|known| known.name == name)
}

fn installed(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    let mut push = |number: u32, name: &str, owner: u32, schema: u32, version: &str| {
        let relocatable = available(name).is_some_and(|known| known.relocatable);
        rows.push([oid(number), text(name), oid(owner), oid(schema), flag(relocatable), text(version), NULL, NULL])
    };
    push(PLPGSQL_NUMBER, PLPGSQL, BOOTSTRAP_ROLE, PG_CATALOG, "1.0")?;
    for extension in names.catalog.extensions() {
        let schema = names.schema_number(&extension.schema).unwrap_or_default();
        push(extension.id, &extension.name, extension.owner, schema, &extension.version)?;
    }
    Ok(())
}

fn installed_version(env: &Env, known: &Available) -> Option<String> {
    let found = env.names().catalog.extensions().find(|extension| extension.name == known.name);
    let is_there = known.name == PLPGSQL;
    found.map(|extension| extension.version.to_string()).or_else(|| is_there.then(|| known.version.to_owned()))
}

fn all(env: &Env, rows: &mut Rows) -> Result<()> {
    for known in &AVAILABLE {
        let installed = installed_version(env, known);
        rows.push([text(known.name), text(known.version), text_or_null(installed.as_deref()), text(known.comment)])?;
    }
    Ok(())
}

fn versions(env: &Env, rows: &mut Rows) -> Result<()> {
    for known in &AVAILABLE {
        let none: Datum = array(Type::Name, std::iter::empty());
        let is_installed = installed_version(env, known).is_some();
        let schema = if known.name == PLPGSQL { text("pg_catalog") } else { NULL };
        rows.push([
            text(known.name),
            text(known.version),
            flag(is_installed),
            flag(true),
            flag(known.trusted),
            flag(known.relocatable),
            schema,
            if known.name == PLPGSQL { NULL } else { none },
            text(known.comment),
        ])?;
    }
    Ok(())
}

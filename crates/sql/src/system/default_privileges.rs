//! `pg_default_acl`

use colibri_types::{Env, Result};

use super::relations::acl;
use super::{Rows, oid, text};
use crate::surroundings::Names as _;
use colibri_catalog::system_tables::Fill;

pub(super) const FILLS: &[(&str, Fill)] = &[("pg_default_acl", default_privileges)];

fn default_privileges(env: &Env, rows: &mut Rows) -> Result<()> {
    let names = env.names();
    for one in names.catalog.default_privileges() {
        rows.push([
            oid(one.id),
            oid(one.role),
            oid(one.schema.unwrap_or(0)),
            text(one.object.encode_utf8(&mut [0; 4])),
            acl(Some(&one.acl), names),
        ])?;
    }
    Ok(())
}

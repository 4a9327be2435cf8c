//! What a session knows of itself, and what is different at each call.

use super::{Function, f};
use crate::types::Type::{Name, Uuid};
use crate::value::Datum;

pub(super) const TABLE: &[Function] = &[
    f("current_user", &[], Name, |_, env| Ok(Datum::Text(env.user.clone()))).stable(),
    f("session_user", &[], Name, |_, env| Ok(Datum::Text(env.user.clone()))).stable(),
    f("user", &[], Name, |_, env| Ok(Datum::Text(env.user.clone()))).stable(),
    f("current_role", &[], Name, |_, env| Ok(Datum::Text(env.user.clone()))).stable(),
    f("current_database", &[], Name, |_, env| Ok(Datum::Text(env.database.clone()))).stable(),
    f("current_catalog", &[], Name, |_, env| Ok(Datum::Text(env.database.clone()))).stable(),
    f("current_schema", &[], Name, |_, env| Ok(Datum::Text(env.schema.clone()))).stable(),
    f("gen_random_uuid", &[], Uuid, |_, _| {
        let mut uuid = [0; 16];
        super::crypto::fill_random(&mut uuid)?;
        // Version 4, variant 1.
        uuid[6] = uuid[6] & 0x0f | 0x40;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        Ok(Datum::Uuid(uuid))
    })
    .volatile(),
];

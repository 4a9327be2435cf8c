#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use super::*;
use crate::exec::MemoryLimits;

/// Without a server the user is a superuser.
const ALONE: Around<'static> =
    Around { server: None, is_superuser: true, modes: None, session_user: "me", is_standby: false };

fn set(settings: &mut Settings, name: &str, value: &str) {
    settings.set(name, Some(value), false, true).unwrap();
}

#[test]
fn what_statements_ask_for_follows_every_change() {
    let mut settings = Settings::default();
    let first = *settings.hot();
    assert_eq!((first.isolation, first.is_read_only), (Isolation::Serializable, false));
    assert_eq!((first.memory.work_bytes, first.statement_timeout), (256 << 20, None));
    set(&mut settings, "default_transaction_isolation", "read committed");
    set(&mut settings, "default_transaction_read_only", "yes");
    set(&mut settings, "work_mem", "1MB");
    set(&mut settings, "statement_timeout", "5s");
    let all = *settings.hot();
    assert_eq!((all.isolation, all.is_read_only), (Isolation::ReadCommitted, true));
    assert_eq!((all.memory.work_bytes, all.statement_timeout), (1 << 20, Some(Duration::from_secs(5))));
    let before = settings.clone();
    settings.set("work_mem", None, false, true).unwrap();
    assert_eq!(settings.hot().memory.work_bytes, first.memory.work_bytes);
    settings.set("work_mem", Some("3MB"), true, true).unwrap();
    assert_eq!(settings.hot().memory.work_bytes, 3 << 20);
    assert!(settings.forget_local());
    assert_eq!(settings.hot().memory.work_bytes, first.memory.work_bytes);
    settings.go_back_to(before);
    assert_eq!(settings.hot().memory.work_bytes, 1 << 20);
    settings.set_default("work_mem", "2MB", DefaultBy::Server).unwrap();
    settings.reset_all();
    assert_eq!(
        *settings.hot(),
        Hot { memory: MemoryLimits { work_bytes: 2 << 20, hash_bytes: 4 << 20, ..first.memory }, ..first }
    );
}

#[test]
fn values_take_their_usual_form() {
    let mut settings = Settings::default();
    set(&mut settings, "Statement_Timeout", "2min");
    assert_eq!(settings.show("Statement_Timeout", &ALONE).unwrap(), "2min");
    assert_eq!(settings.duration("statement_timeout"), Some(Duration::from_secs(120)));
    set(&mut settings, "row_security", "FALSE");
    assert_eq!(settings.show("row_security", &ALONE).unwrap(), "off");
    set(&mut settings, "search_path", "a, \"B\", $user");
    assert_eq!(*settings.search_path("me"), ["a", "B", "me"]);
    for (name, state) in [
        ("no_such_thing", "42704"),
        ("server_version", "55P02"),
        ("port", "55P02"),
        ("extra_float_digits", "22023"),
        ("app.9", "42602"),
    ] {
        assert_eq!(settings.set(name, Some("9"), false, true).unwrap_err().state().0, state, "{name}");
    }
    assert_eq!(settings.set("log_statement", Some("all"), false, false).unwrap_err().state().0, "42501");
}

#[test]
fn a_name_that_was_made_up_is_empty_when_its_value_is_taken_back() {
    let mut settings = Settings::default();
    assert!(settings.show("app.tenant", &ALONE).is_err());
    let before = settings.clone();
    settings.set("App.Tenant", Some("acme"), true, false).unwrap();
    assert_eq!(settings.show("app.tenant", &ALONE).unwrap(), "acme");
    settings.forget_local();
    assert_eq!(settings.show("app.tenant", &ALONE).unwrap(), "");
    settings.go_back_to(before);
    assert_eq!(settings.show("app.tenant", &ALONE).unwrap(), "");
    assert_eq!(settings.shown_name("APP.TENANT"), "App.Tenant");
}

#[test]
fn who_counts_more_says_what_a_default_is_in_whatever_order_they_speak() {
    use DefaultBy::{AllRoles, Client, Database, Role, RoleInDatabase, Server};
    let all = [Server, AllRoles, Database, Role, RoleInDatabase, Client];
    for order in [all, [Client, RoleInDatabase, Role, Database, AllRoles, Server]] {
        let mut settings = Settings::default();
        for by in order {
            settings.set_default("application_name", &format!("{by:?}"), by).unwrap();
        }
        assert_eq!(settings.text("application_name"), "Client");
    }
}

/// What SET says and what SET LOCAL says, each with what they were before, savepoint by savepoint:
/// as PostgreSQL describes it, and not as it is done here.
#[derive(Clone, Default)]
struct Model {
    session: BTreeMap<&'static str, String>,
    local: BTreeMap<&'static str, String>,
}

#[test]
fn any_order_of_set_local_savepoints_and_ends_leaves_what_the_model_says() {
    const NAMES: [&str; 3] = ["application_name", "app.a", "app.b"];
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..500 {
        let (mut settings, mut model) = (Settings::default(), Model::default());
        let mut stack: Vec<(Settings, Model)> = Vec::new();
        for step in 0..40 {
            let name = NAMES[random.usize(..NAMES.len())];
            let value = format!("{round}.{step}");
            match random.u8(..10) {
                0..3 => {
                    settings.set(name, Some(&value), false, true).unwrap();
                    model.local.remove(name);
                    model.session.insert(name, value);
                }
                3..6 => {
                    settings.set(name, Some(&value), true, true).unwrap();
                    model.local.insert(name, value);
                }
                6 => stack.push((settings.clone(), model.clone())),
                7 => {
                    if let Some((before, was)) = stack.last().cloned() {
                        settings.go_back_to(before);
                        model = was;
                    }
                }
                8 => _ = stack.pop(),
                _ => {
                    stack.clear();
                    settings.forget_local();
                    model.local.clear();
                }
            }
            for name in NAMES {
                let expected = model.local.get(name).or_else(|| model.session.get(name));
                let is = settings.show(name, &ALONE).unwrap_or_default();
                assert_eq!(is, expected.cloned().unwrap_or_default(), "round {round}, step {step}, {name}");
            }
        }
    }
}

/// Bug: each name of a search path was compared with all those before it, and each SET of a
/// program's own setting copied all the others. Consequence: 100,000 names took 14 s, 20,000
/// settings 24 s. Fix: names are looked up, and maps share what did not change.
#[test]
fn long_search_paths_and_many_settings_take_no_longer_for_each() {
    let began = std::time::Instant::now();
    let mut settings = Settings::default();
    let names: Vec<String> = (0..100_000).map(|at| format!("n{}", at % 70_000)).collect();
    set(&mut settings, "search_path", &names.join(", "));
    assert_eq!(settings.search_path("me").len(), 70_000);
    let mut copies = Vec::new();
    for at in 0..20_000 {
        set(&mut settings, &format!("app.x{at}"), "1");
        copies.push(settings.clone());
    }
    assert_eq!(settings.show("app.x19999", &ALONE).unwrap(), "1");
    assert!(copies[9_999].show("app.x10000", &ALONE).is_err());
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
}

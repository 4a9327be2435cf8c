//! Roles, memberships, and effects of grants.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn privileges_come_from_grants_to_the_role_to_its_groups_and_to_everybody() {
    let mut roles = Roles::new("root");
    let alice = roles.add(Role::new(0, "alice")).unwrap();
    let staff = roles.add(Role::new(0, "staff")).unwrap();
    roles.add_member(staff, alice, BOOTSTRAP_ROLE, false).unwrap();
    let mut acl = Acl::default_of(ObjectKind::Table, BOOTSTRAP_ROLE);
    acl.add(Grant::plain(staff, BOOTSTRAP_ROLE, Privileges::SELECT));
    acl.add(Grant::plain(PUBLIC_ROLE, BOOTSTRAP_ROLE, Privileges::INSERT));
    acl.add(Grant { grantable: Privileges::UPDATE, ..Grant::plain(alice, BOOTSTRAP_ROLE, Privileges::UPDATE) });
    let authority = |roles: &Roles, role| Authority::of(roles, role, BOOTSTRAP_ROLE);
    let has = |roles: &Roles, role| {
        let privileges = authority(roles, role).privileges(ObjectKind::Table, BOOTSTRAP_ROLE, Some(&acl));
        privileges.names().collect::<Vec<_>>()
    };
    assert_eq!(has(&roles, alice), ["INSERT", "SELECT", "UPDATE"]);
    assert_eq!(has(&roles, staff), ["INSERT", "SELECT"]);
    assert_eq!(has(&roles, BOOTSTRAP_ROLE).len(), 7);
    assert_eq!(acl.items(&roles), ["root=arwdDxt/root", "staff=r/root", "=a/root", "alice=w*/root"]);
    roles.expect_mut("alice").unwrap().inherit = false;
    assert_eq!(has(&roles, alice), ["INSERT", "UPDATE"]);
    roles.remove("staff").unwrap();
    assert_eq!(has(&roles, alice), ["INSERT", "UPDATE"]);
}

#[test]
fn no_role_is_a_member_of_itself_by_whatever_way() {
    let mut roles = Roles::new("root");
    let ids: Vec<_> = ["a", "b", "c"].map(|name| roles.add(Role::new(0, name)).unwrap()).into();
    roles.add_member(ids[1], ids[0], BOOTSTRAP_ROLE, false).unwrap();
    roles.add_member(ids[2], ids[1], BOOTSTRAP_ROLE, false).unwrap();
    assert_eq!(roles.add_member(ids[0], ids[2], BOOTSTRAP_ROLE, false).unwrap_err().state().0, "0LP01");
    assert_eq!(roles.groups_of(ids[0]).len(), 3);
}

/// Bug: whether a membership closes a circle was found out anew for each pair of a group and a new
/// member. Consequence: a GRANT of 200 roles to 200 others blocked all sessions for half a second.
/// Fix: each role is visited once.
#[test]
fn memberships_of_many_at_once_are_those_of_one_after_the_other() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        let mut roles = Roles::new("root");
        let ids: Vec<RoleId> = (0..8).map(|at| roles.add(Role::new(0, &format!("r{at}"))).unwrap()).collect();
        let mut some = |most: usize| -> Vec<RoleId> {
            (0..random.usize(1..=most)).map(|_| *random.choice(&ids).unwrap()).collect()
        };
        for _ in 0..6 {
            let (groups, members) = (some(3), some(3));
            let admin = groups.len() == 2;
            let mut one_by_one = roles.clone();
            let mut unchanged = Vec::new();
            let mut refused = None;
            for (&group, &member) in groups.iter().flat_map(|group| members.iter().map(move |member| (group, member))) {
                match one_by_one.add_member(group, member, BOOTSTRAP_ROLE, admin) {
                    Ok(true) => {}
                    Ok(false) => unchanged.push((group, member)),
                    Err(error) => {
                        refused = Some(error);
                        break;
                    }
                }
            }
            let before = format!("{roles:?}");
            match roles.add_members(&groups, &members, BOOTSTRAP_ROLE, admin) {
                Ok(same) => {
                    assert!(refused.is_none());
                    assert_eq!(same, unchanged);
                    assert_eq!(format!("{roles:?}"), format!("{one_by_one:?}"));
                }
                Err(error) => {
                    assert_eq!(error.state().0, "0LP01");
                    assert!(refused.is_some(), "{error}");
                    assert_eq!(format!("{roles:?}"), before, "nothing of it is done");
                }
            }
        }
    }
}

#[test]
fn numbers_and_names_of_roles_are_not_given_twice() {
    let mut roles = Roles::new("root");
    let first = roles.add(Role::new(0, "a")).unwrap();
    assert_eq!(roles.add(Role::new(0, "a")).unwrap_err().state().0, "42710");
    assert_eq!(roles.add(Role::new(0, "pg_x")).unwrap_err().state().0, "42939");
    roles.remove("a").unwrap();
    assert_ne!(roles.add(Role::new(0, "a")).unwrap(), first);
    assert!(roles.remove("root").is_err());
}

#[test]
fn who_owned_an_object_before_has_nothing_left() {
    let mut roles = Roles::new("root");
    let alice = roles.add(Role::new(0, "alice")).unwrap();
    let mut acl = Acl::default_of(ObjectKind::Table, BOOTSTRAP_ROLE);
    acl.change_owner(BOOTSTRAP_ROLE, alice);
    assert_eq!(acl.items(&roles), ["alice=arwdDxt/alice"]);
    let parties = Parties { roles: &roles, database_owner: BOOTSTRAP_ROLE, owner: alice };
    acl.revoke(&parties, acl.0[0], Dependents::Refuse).unwrap();
    assert_eq!(acl.0, []);
}

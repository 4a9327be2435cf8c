//! Settings that a server stores for databases and roles: the defaults of their sessions.
//!
//! They are stored as they were given, and checked again at the login, since the possible values
//! may have changed.

use serde::{Deserialize, Serialize};

use super::RoleId;

/// Sources of a session's defaults, in ascending order of rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DefaultBy {
    /// The server, of all sessions.
    Server,
    /// `ALTER ROLE ALL SET`
    AllRoles,
    /// `ALTER DATABASE … SET`
    Database,
    /// `ALTER ROLE … SET`
    Role,
    /// `ALTER ROLE … IN DATABASE … SET`
    RoleInDatabase,
    /// The client, as it connects.
    Client,
}

/// What settings are for: a database, a role, a role in a database; 0 stands for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Whose {
    /// The database's number.
    pub database: u32,
    /// The role's.
    pub role: RoleId,
}

impl Whose {
    /// The rank of its settings.
    fn by(self) -> DefaultBy {
        match (self.database, self.role) {
            (0, 0) => DefaultBy::AllRoles,
            (_, 0) => DefaultBy::Database,
            (0, _) => DefaultBy::Role,
            _ => DefaultBy::RoleInDatabase,
        }
    }

    fn is_for(self, database: u32, role: RoleId) -> bool {
        (self.database == 0 || self.database == database) && (self.role == 0 || self.role == role)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    whose: Whose,
    /// Names, each once, and values.
    values: Vec<(String, String)>,
}

/// All settings that a server keeps.
///
/// Invariant: each scope is there once at most, and has settings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KeptSettings {
    all: Vec<Kept>,
}

impl KeptSettings {
    /// Stores a value; `None` removes it.
    pub fn set(&mut self, whose: Whose, name: &str, value: Option<&str>) {
        let at = match self.all.binary_search_by_key(&whose, |kept| kept.whose) {
            Ok(at) => at,
            Err(at) => {
                self.all.insert(at, Kept { whose, values: Vec::new() });
                at
            }
        };
        let values = &mut self.all[at].values;
        let place = values.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
        match (place, value) {
            (Some(place), Some(value)) => value.clone_into(&mut values[place].1),
            (None, Some(value)) => values.push((name.to_owned(), value.to_owned())),
            (Some(place), None) => _ = values.remove(place),
            (None, None) => {}
        }
        self.all.retain(|kept| !kept.values.is_empty());
    }

    /// Removes all settings of a scope.
    pub fn forget(&mut self, whose: Whose) {
        self.all.retain(|kept| kept.whose != whose);
    }

    /// Removes the settings for a dropped database.
    pub fn forget_database(&mut self, database: u32) {
        self.all.retain(|kept| kept.whose.database != database);
    }

    /// Removes the settings for a dropped role.
    pub fn forget_role(&mut self, role: RoleId) {
        self.all.retain(|kept| kept.whose.role != role);
    }

    /// All of them: scope, names and values.
    pub fn iter(&self) -> impl Iterator<Item = (Whose, &[(String, String)])> {
        self.all.iter().map(|kept| (kept.whose, &*kept.values))
    }

    /// The settings that a session of a role in a database begins with, with their ranks.
    pub fn of(&self, database: u32, role: RoleId) -> impl Iterator<Item = (&str, &str, DefaultBy)> {
        let mine = self.all.iter().filter(move |kept| kept.whose.is_for(database, role));
        mine.flat_map(|kept| kept.values.iter().map(|(name, value)| (&**name, &**value, kept.whose.by())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_session_gets_what_is_kept_for_its_role_its_database_and_both() {
        let mut kept = KeptSettings::default();
        for (database, role) in [(0, 0), (5, 0), (0, 10), (5, 10), (6, 10), (5, 11)] {
            kept.set(Whose { database, role }, "a.b", Some(&format!("{database}/{role}")));
        }
        let of: Vec<_> = kept.of(5, 10).map(|(_, value, by)| (value.to_owned(), by)).collect();
        let expected = [
            ("0/0", DefaultBy::AllRoles),
            ("0/10", DefaultBy::Role),
            ("5/0", DefaultBy::Database),
            ("5/10", DefaultBy::RoleInDatabase),
        ];
        assert_eq!(of, expected.map(|(value, by)| (value.to_owned(), by)));
        kept.forget_role(10);
        kept.forget_database(5);
        assert_eq!(kept.of(5, 10).count(), 1);
    }

    #[test]
    fn a_name_is_there_once_and_nobody_without_settings() {
        let mut kept = KeptSettings::default();
        let whose = Whose { database: 0, role: 10 };
        kept.set(whose, "TimeZone", Some("UTC"));
        kept.set(whose, "timezone", Some("CET"));
        assert_eq!(kept.iter().next().unwrap().1, [("TimeZone".to_owned(), "CET".to_owned())]);
        kept.set(whose, "TIMEZONE", None);
        assert_eq!(kept, KeptSettings::default());
        kept.set(whose, "x.y", Some("1"));
        let text = serde_json::to_string(&kept).unwrap();
        assert_eq!(serde_json::from_str::<KeptSettings>(&text).unwrap(), kept);
        kept.forget(whose);
        assert_eq!(kept.iter().count(), 0);
    }
}

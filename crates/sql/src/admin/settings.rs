//! `ALTER ROLE … SET` and `ALTER DATABASE … SET`: settings that the server stores, and applies at
//! login.

use colibri_catalog::cluster::Whose;
use colibri_syntax::tree::{SettingChange, SettingsOf, To};
use colibri_types::{Error, Result, SqlState};

use crate::session::{Session, flatten_setting};

impl Session {
    pub(super) fn change_settings(&mut self, of: &SettingsOf, change: &SettingChange) -> Result<()> {
        let cluster = self.server(if of.is_database { "ALTER DATABASE" } else { "ALTER ROLE" })?;
        let role = of.role.as_ref().map(|role| self.actor(role)).transpose()?;
        let database = match &of.database {
            None => None,
            Some(name) => Some(cluster.databases().into_iter().find(|known| known.name == *name).ok_or_else(|| {
                Error::new(SqlState::NO_SUCH_DATABASE, format!("database \"{name}\" does not exist"))
            })?),
        };
        match (role, &database) {
            (Some(role), _) => self.expect_may_alter(role)?,
            (None, Some(database)) => self.expect_owner(database.owner, "database", &database.name)?,
            (None, None) if !self.authority().is_superuser() => {
                let message = "must be superuser to alter settings globally";
                return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
            (None, None) => {}
        }
        let whose = Whose { database: database.map_or(0, |database| database.oid), role: role.unwrap_or(0) };
        let (name, value) = match change {
            SettingChange::ResetAll => {
                return cluster.change_settings(&mut |kept| {
                    kept.forget(whose);
                    Ok(())
                });
            }
            SettingChange::Reset(name) | SettingChange::Set(name, To::Default) => (name, None),
            SettingChange::Set(name, To::Current) => (name, Some(self.setting(name)?)),
            SettingChange::Set(name, To::Values(values)) => (name, Some(flatten_setting(name, values)?)),
        };
        self.expect_setting(name, value.as_deref())?;
        let name = self.shown_setting(name);
        cluster.change_settings(&mut |kept| {
            kept.set(whose, &name, value.as_deref());
            Ok(())
        })
    }

    /// 42501 unless the current role may change the role. A role may change its own settings.
    fn expect_may_alter(&self, role: u32) -> Result<()> {
        let (authority, roles) = (self.authority(), self.all_roles());
        let is_superuser = roles.get(role).is_some_and(|role| role.superuser);
        let creates = roles.get(authority.role).is_some_and(|own| own.createrole);
        if authority.is_superuser() || (role == authority.role) || (creates && !is_superuser) {
            return Ok(());
        }
        let message = if is_superuser {
            "must be superuser to alter superuser roles or change superuser attribute"
        } else {
            "permission denied"
        };
        Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }
}

//! How full the coordination service is. The server acts on it; here it is only computed.

use crate::coordinator::Health;

/// etcd's quota where its operator has set none.
pub const QUOTA_BYTES_DEFAULT: u64 = 2 << 30;

/// How full the service is, as what has to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Less than half of the quota.
    Ample,
    /// Half of the quota or more: warn.
    Half,
    /// Nine tenths of the quota or more, or the service has stopped writing: refuse new writes, so
    /// that trimming and compaction still can.
    Full,
}

/// How full the service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that count against the quota.
    pub bytes: u64,
    /// The quota in bytes.
    pub quota_bytes: u64,
    /// Whether the service has told the quota; else it is assumed.
    pub is_told: bool,
    /// What has to be done.
    pub level: Level,
    /// Defragmentation would bring the level down: most of the bytes are free, but only
    /// defragmentation gives them back.
    pub defragment: bool,
    /// The service has reached its quota and writes nothing, whatever its size is now, before an
    /// operator takes its alarm back (etcd: `etcdctl alarm disarm`).
    pub has_alarm: bool,
}

impl Usage {
    /// Of a service's state, and the quota that is assumed if the service does not tell it.
    #[must_use]
    pub fn of(health: &Health, quota_bytes_assumed: u64) -> Self {
        let quota_bytes = health.quota_bytes.unwrap_or(quota_bytes_assumed).max(1);
        let level = if health.no_space { Level::Full } else { level(health.bytes, quota_bytes) };
        Self {
            bytes: health.bytes,
            quota_bytes,
            is_told: health.quota_bytes.is_some(),
            level,
            defragment: level > level_of_use(health, quota_bytes),
            has_alarm: health.no_space,
        }
    }
}

fn level_of_use(health: &Health, quota_bytes: u64) -> Level {
    level(health.bytes_in_use, quota_bytes)
}

fn level(bytes: u64, quota_bytes: u64) -> Level {
    // In u128, since quotas near the end of u64 are possible and mean "no limit".
    let (bytes, quota) = (u128::from(bytes), u128::from(quota_bytes));
    if bytes * 10 >= quota * 9 {
        Level::Full
    } else if bytes * 2 >= quota {
        Level::Half
    } else {
        Level::Ample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(bytes: u64, bytes_in_use: u64, quota_bytes: Option<u64>) -> Usage {
        let health = Health { bytes, bytes_in_use, quota_bytes, ..Health::default() };
        Usage::of(&health, 1000)
    }

    #[test]
    fn levels_begin_at_half_and_at_nine_tenths_of_the_quota() {
        assert_eq!(usage(499, 499, None).level, Level::Ample);
        assert_eq!(usage(500, 500, None).level, Level::Half);
        assert_eq!(usage(899, 899, None).level, Level::Half);
        assert_eq!(usage(900, 900, None).level, Level::Full);
        assert_eq!(usage(900, 900, Some(10_000)).level, Level::Ample);
        assert!(usage(1, 1, Some(9)).is_told && !usage(1, 1, None).is_told);
    }

    #[test]
    fn a_service_that_has_stopped_writing_is_full_whatever_its_size() {
        let health = Health { no_space: true, bytes: 1, bytes_in_use: 1, ..Health::default() };
        let usage = Usage::of(&health, u64::MAX);
        assert!(usage.level == Level::Full && usage.has_alarm, "{usage:?}");
    }

    #[test]
    fn defragmentation_is_told_where_it_helps() {
        assert!(usage(950, 100, None).defragment);
        assert!(!usage(950, 940, None).defragment);
        assert!(!usage(100, 10, None).defragment);
    }
}

//! The table of settings: the possible values of each, and its default.
//!
//! Many of them have no effect here: programs written for PostgreSQL set them, above all those of
//! its planner. They are accepted, and their values checked, so that such a program gets the answer
//! that it expects. A value is refused if it would change what statements mean and Colibri does not
//! support it.
//!
//! Invariant: the table is in the order of the names, which are in lower case.

/// A known setting.
pub(super) struct Known {
    /// In lower case: names are the same in whatever case they are written.
    pub(super) name: &'static str,
    /// As SHOW writes it.
    pub(super) shown: &'static str,
    /// In its usual form: see [`super::value::usual`].
    pub(super) default: &'static str,
    /// How a value is checked and brought into its usual form.
    pub(super) kind: Kind,
    /// Only superusers may set it.
    pub(super) of_superusers: bool,
}

pub(super) enum Kind {
    Text,
    Bool,
    /// A boolean with one possible value.
    OnlyBool(bool),
    /// A number from the first to the second, in a unit.
    Integer(i64, i64, Unit),
    Real(f64, f64, Unit),
    /// Words that are accepted, and words that only PostgreSQL has.
    OneOf(&'static [&'static str], &'static [&'static str]),
    /// A list of names.
    Names,
    Dates,
    Encoding,
    /// A configuration of text search.
    SearchConfiguration,
    Zone,
    /// A role, which the session looks up.
    Role,
    /// A mode of the current transaction, which the session sets.
    Mode,
    /// What `colibri_commit_token()` gives, or nothing.
    CommitToken,
    /// Cannot be set.
    Fixed,
    /// Cannot be set, and is missing without a server.
    OfServer,
}

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    None,
    Ms,
    S,
    Kb,
    /// 8 kB.
    Blocks,
}

pub(super) const ISOLATIONS: &[&str] = &["serializable", "repeatable read", "read committed", "read uncommitted"];
const CLIENT_MESSAGES: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "info", "log", "notice", "warning", "error"];
const LOG_MESSAGES: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log", "fatal", "panic"];
const INT_MAX: i64 = i32::MAX as i64;

const fn known(name: &'static str, default: &'static str, kind: Kind) -> Known {
    Known { name, shown: name, default, kind, of_superusers: false }
}

impl Known {
    const fn shown(self, shown: &'static str) -> Self {
        Self { shown, ..self }
    }

    const fn superuser(self) -> Self {
        Self { of_superusers: true, ..self }
    }

    /// The setting of a name in lower case.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        KNOWN.binary_search_by(|known| known.name.cmp(name)).ok().map(|at| &KNOWN[at])
    }

    /// Whether SET takes several values for it.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.kind, Kind::Names | Kind::Dates)
    }

    /// Whether RESET ALL does not change it.
    pub(super) fn outlives_reset_all(&self) -> bool {
        matches!(self.kind, Kind::Role | Kind::Mode)
    }
}

pub(super) const KNOWN: &[Known] = &[
    known("allow_in_place_tablespaces", "off", Kind::Bool).superuser(),
    known("allow_system_table_mods", "off", Kind::Bool).superuser(),
    known("application_name", "", Kind::Text),
    known("array_nulls", "on", Kind::OnlyBool(true)),
    known("backend_flush_after", "0", Kind::Integer(0, 256, Unit::Blocks)),
    known("backslash_quote", "safe_encoding", Kind::OneOf(&["safe_encoding", "on", "off"], &[])),
    known("backtrace_functions", "", Kind::Text).superuser(),
    known("bytea_output", "hex", Kind::OneOf(&["hex", "escape"], &[])),
    known("check_function_bodies", "on", Kind::Bool),
    known("client_connection_check_interval", "0", Kind::Integer(0, INT_MAX, Unit::Ms)),
    known("client_encoding", "UTF8", Kind::Encoding),
    known("client_min_messages", "notice", Kind::OneOf(CLIENT_MESSAGES, &[])),
    known("colibri.batch_after", "10", Kind::Integer(0, INT_MAX, Unit::Ms)),
    known("colibri.columns", "on", Kind::Bool),
    known("colibri.forward", "off", Kind::Bool),
    known("colibri.priority", "user", Kind::OneOf(&["user", "batch"], &[])),
    known("colibri.read_after", "", Kind::CommitToken),
    known("colibri.reads", "current", Kind::OneOf(&["current", "agreed"], &[])),
    known("commit_delay", "0", Kind::Integer(0, 100000, Unit::None)).superuser(),
    known("commit_siblings", "5", Kind::Integer(0, 1000, Unit::None)),
    known("compute_query_id", "auto", Kind::OneOf(&["auto", "regress", "on", "off"], &[])).superuser(),
    known("constraint_exclusion", "partition", Kind::OneOf(&["partition", "on", "off"], &[])),
    known("cpu_index_tuple_cost", "0.005", Kind::Real(0.0, f64::MAX, Unit::None)),
    known("cpu_operator_cost", "0.0025", Kind::Real(0.0, f64::MAX, Unit::None)),
    known("cpu_tuple_cost", "0.01", Kind::Real(0.0, f64::MAX, Unit::None)),
    known("cursor_tuple_fraction", "0.1", Kind::Real(0.0, 1.0, Unit::None)),
    known("data_directory", "", Kind::OfServer),
    known("datestyle", "ISO, MDY", Kind::Dates).shown("DateStyle"),
    known("deadlock_timeout", "1000", Kind::Integer(1, INT_MAX, Unit::Ms)).superuser(),
    known("debug_pretty_print", "on", Kind::Bool),
    known("debug_print_parse", "off", Kind::Bool),
    known("debug_print_plan", "off", Kind::Bool),
    known("debug_print_rewritten", "off", Kind::Bool),
    known("default_statistics_target", "100", Kind::Integer(1, 10000, Unit::None)),
    known("default_table_access_method", "heap", Kind::OneOf(&["heap"], &[])),
    known("default_tablespace", "", Kind::Text),
    known("default_text_search_config", "pg_catalog.english", Kind::SearchConfiguration),
    known("default_toast_compression", "pglz", Kind::OneOf(&["pglz", "lz4"], &[])),
    known("default_transaction_deferrable", "off", Kind::Bool),
    known("default_transaction_isolation", "serializable", Kind::OneOf(ISOLATIONS, &[])),
    known("default_transaction_read_only", "off", Kind::Bool),
    known("dynamic_library_path", "$libdir", Kind::Text).superuser(),
    known("effective_cache_size", "524288", Kind::Integer(1, INT_MAX, Unit::Blocks)),
    known("effective_io_concurrency", "1", Kind::Integer(0, 1000, Unit::None)),
    known("enable_async_append", "on", Kind::Bool),
    known("enable_bitmapscan", "on", Kind::Bool),
    known("enable_gathermerge", "on", Kind::Bool),
    known("enable_hashagg", "on", Kind::Bool),
    known("enable_hashjoin", "on", Kind::Bool),
    known("enable_incremental_sort", "on", Kind::Bool),
    known("enable_indexonlyscan", "on", Kind::Bool),
    known("enable_indexscan", "on", Kind::Bool),
    known("enable_material", "on", Kind::Bool),
    known("enable_memoize", "on", Kind::Bool),
    known("enable_mergejoin", "on", Kind::Bool),
    known("enable_nestloop", "on", Kind::Bool),
    known("enable_parallel_append", "on", Kind::Bool),
    known("enable_parallel_hash", "on", Kind::Bool),
    known("enable_partition_pruning", "on", Kind::Bool),
    known("enable_partitionwise_aggregate", "off", Kind::Bool),
    known("enable_partitionwise_join", "off", Kind::Bool),
    known("enable_seqscan", "on", Kind::Bool),
    known("enable_sort", "on", Kind::Bool),
    known("enable_tidscan", "on", Kind::Bool),
    known("escape_string_warning", "on", Kind::Bool),
    known("extra_float_digits", "1", Kind::Integer(-15, 3, Unit::None)),
    known("force_parallel_mode", "off", Kind::OneOf(&["off", "on", "regress"], &[])),
    known("from_collapse_limit", "8", Kind::Integer(1, INT_MAX, Unit::None)),
    known("geqo", "on", Kind::Bool),
    known("geqo_effort", "5", Kind::Integer(1, 10, Unit::None)),
    known("geqo_generations", "0", Kind::Integer(0, INT_MAX, Unit::None)),
    known("geqo_pool_size", "0", Kind::Integer(0, INT_MAX, Unit::None)),
    known("geqo_seed", "0", Kind::Real(0.0, 1.0, Unit::None)),
    known("geqo_selection_bias", "2", Kind::Real(1.5, 2.0, Unit::None)),
    known("geqo_threshold", "12", Kind::Integer(2, INT_MAX, Unit::None)),
    known("gin_fuzzy_search_limit", "0", Kind::Integer(0, INT_MAX, Unit::None)),
    known("gin_pending_list_limit", "4096", Kind::Integer(64, INT_MAX, Unit::Kb)),
    known("hash_mem_multiplier", "2", Kind::Real(1.0, 1000.0, Unit::None)),
    known("idle_in_transaction_session_timeout", "0", Kind::Integer(0, INT_MAX, Unit::Ms)),
    known("idle_session_timeout", "0", Kind::Integer(0, INT_MAX, Unit::Ms)),
    known("ignore_checksum_failure", "off", Kind::Bool).superuser(),
    known("in_hot_standby", "off", Kind::Fixed),
    known("integer_datetimes", "on", Kind::Fixed),
    known("intervalstyle", "postgres", Kind::OneOf(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"], &[]))
        .shown("IntervalStyle"),
    known("is_superuser", "on", Kind::Fixed),
    known("jit", "off", Kind::Bool),
    known("jit_above_cost", "100000", Kind::Real(-1.0, f64::MAX, Unit::None)),
    known("jit_dump_bitcode", "off", Kind::Bool).superuser(),
    known("jit_expressions", "on", Kind::Bool),
    known("jit_inline_above_cost", "500000", Kind::Real(-1.0, f64::MAX, Unit::None)),
    known("jit_optimize_above_cost", "500000", Kind::Real(-1.0, f64::MAX, Unit::None)),
    known("jit_tuple_deforming", "on", Kind::Bool),
    known("join_collapse_limit", "8", Kind::Integer(1, INT_MAX, Unit::None)),
    known("lc_collate", "C", Kind::Fixed),
    known("lc_ctype", "C.UTF-8", Kind::Fixed),
    known("lc_messages", "C", Kind::Text),
    known("lc_monetary", "C", Kind::Text),
    known("lc_numeric", "C", Kind::Text),
    known("lc_time", "C", Kind::Text),
    known("listen_addresses", "", Kind::OfServer),
    known("lo_compat_privileges", "off", Kind::Bool).superuser(),
    known("local_preload_libraries", "", Kind::Text),
    known("lock_timeout", "0", Kind::Integer(0, INT_MAX, Unit::Ms)),
    known("log_duration", "off", Kind::Bool).superuser(),
    known("log_error_verbosity", "default", Kind::OneOf(&["terse", "default", "verbose"], &[])).superuser(),
    known("log_executor_stats", "off", Kind::Bool).superuser(),
    known("log_lock_waits", "off", Kind::Bool).superuser(),
    known("log_min_duration_sample", "-1", Kind::Integer(-1, INT_MAX, Unit::Ms)).superuser(),
    known("log_min_duration_statement", "-1", Kind::Integer(-1, INT_MAX, Unit::Ms)).superuser(),
    known("log_min_error_statement", "error", Kind::OneOf(LOG_MESSAGES, &[])).superuser(),
    known("log_min_messages", "warning", Kind::OneOf(LOG_MESSAGES, &[])).superuser(),
    known("log_parameter_max_length", "-1", Kind::Integer(-1, 1073741823, Unit::None)).superuser(),
    known("log_parameter_max_length_on_error", "0", Kind::Integer(-1, 1073741823, Unit::None)),
    known("log_parser_stats", "off", Kind::Bool).superuser(),
    known("log_planner_stats", "off", Kind::Bool).superuser(),
    known("log_replication_commands", "off", Kind::Bool).superuser(),
    known("log_statement", "none", Kind::OneOf(&["none", "ddl", "mod", "all"], &[])).superuser(),
    known("log_statement_sample_rate", "1", Kind::Real(0.0, 1.0, Unit::None)).superuser(),
    known("log_statement_stats", "off", Kind::Bool).superuser(),
    known("log_temp_files", "-1", Kind::Integer(-1, INT_MAX, Unit::Kb)).superuser(),
    known("log_transaction_sample_rate", "0", Kind::Real(0.0, 1.0, Unit::None)).superuser(),
    known("logical_decoding_work_mem", "65536", Kind::Integer(64, INT_MAX, Unit::Kb)),
    known("maintenance_io_concurrency", "10", Kind::Integer(0, 1000, Unit::None)),
    known("maintenance_work_mem", "65536", Kind::Integer(1024, INT_MAX, Unit::Kb)),
    known("max_connections", "100", Kind::Fixed),
    known("max_identifier_length", "63", Kind::Fixed),
    known("max_index_keys", "32", Kind::Fixed),
    known("max_parallel_maintenance_workers", "2", Kind::Integer(0, 1024, Unit::None)),
    known("max_parallel_workers", "8", Kind::Integer(0, 1024, Unit::None)),
    known("max_parallel_workers_per_gather", "2", Kind::Integer(0, 1024, Unit::None)),
    known("max_prepared_transactions", "0", Kind::Fixed),
    known("max_stack_depth", "2048", Kind::Integer(100, 7680, Unit::Kb)).superuser(),
    known("min_parallel_index_scan_size", "64", Kind::Integer(0, 715827882, Unit::Blocks)),
    known("min_parallel_table_scan_size", "1024", Kind::Integer(0, 715827882, Unit::Blocks)),
    known("parallel_leader_participation", "on", Kind::Bool),
    known("parallel_setup_cost", "1000", Kind::Real(0.0, f64::MAX, Unit::None)),
    known("parallel_tuple_cost", "0.1", Kind::Real(0.0, f64::MAX, Unit::None)),
    known("password_encryption", "scram-sha-256", Kind::OneOf(&["scram-sha-256"], &["md5"])),
    known("pg_trgm.similarity_threshold", "0.3", Kind::Real(0.0, 1.0, Unit::None)),
    known("pg_trgm.strict_word_similarity_threshold", "0.5", Kind::Real(0.0, 1.0, Unit::None)),
    known("pg_trgm.word_similarity_threshold", "0.6", Kind::Real(0.0, 1.0, Unit::None)),
    known("plan_cache_mode", "auto", Kind::OneOf(&["auto", "force_generic_plan", "force_custom_plan"], &[])),
    known("port", "", Kind::OfServer),
    known("quote_all_identifiers", "off", Kind::OnlyBool(false)),
    known("random_page_cost", "4", Kind::Real(0.0, f64::MAX, Unit::None)),
    known("recursive_worktable_factor", "10", Kind::Real(0.001, 1e6, Unit::None)),
    known("role", "none", Kind::Role),
    known("row_security", "on", Kind::Bool),
    known("search_path", "\"$user\", public", Kind::Names),
    known("seq_page_cost", "1", Kind::Real(0.0, f64::MAX, Unit::None)),
    known("server_encoding", "UTF8", Kind::Fixed),
    known("server_version", crate::session::SERVER_VERSION, Kind::Fixed),
    known("server_version_num", "150000", Kind::Fixed),
    known("session_authorization", "", Kind::Role),
    known("session_preload_libraries", "", Kind::Text).superuser(),
    known("session_replication_role", "origin", Kind::OneOf(&["origin", "local", "replica"], &[])).superuser(),
    known("ssl", "", Kind::OfServer),
    known("standard_conforming_strings", "on", Kind::OnlyBool(true)),
    known("statement_timeout", "0", Kind::Integer(0, INT_MAX, Unit::Ms)),
    known("stats_fetch_consistency", "cache", Kind::OneOf(&["none", "cache", "snapshot"], &[])),
    known("synchronize_seqscans", "on", Kind::Bool),
    known("synchronous_commit", "on", Kind::OneOf(&["local", "remote_write", "remote_apply", "on", "off"], &[])),
    known("tcp_keepalives_count", "0", Kind::Integer(0, INT_MAX, Unit::None)),
    known("tcp_keepalives_idle", "0", Kind::Integer(0, INT_MAX, Unit::S)),
    known("tcp_keepalives_interval", "0", Kind::Integer(0, INT_MAX, Unit::S)),
    known("tcp_user_timeout", "0", Kind::Integer(0, INT_MAX, Unit::Ms)),
    known("temp_buffers", "1024", Kind::Integer(100, 1073741823, Unit::Blocks)),
    known("temp_file_limit", "-1", Kind::Integer(-1, INT_MAX, Unit::Kb)).superuser(),
    known("temp_tablespaces", "", Kind::Names),
    known("timezone", "UTC", Kind::Zone).shown("TimeZone"),
    known("timezone_abbreviations", "Default", Kind::Text),
    known("trace_notify", "off", Kind::Bool),
    known("trace_sort", "off", Kind::Bool),
    known("track_activities", "on", Kind::Bool).superuser(),
    known("track_counts", "on", Kind::Bool).superuser(),
    known("track_functions", "none", Kind::OneOf(&["none", "pl", "all"], &[])).superuser(),
    known("track_io_timing", "off", Kind::Bool).superuser(),
    known("track_wal_io_timing", "off", Kind::Bool).superuser(),
    known("transaction_deferrable", "off", Kind::Mode),
    known("transaction_isolation", "serializable", Kind::Mode),
    known("transaction_read_only", "off", Kind::Mode),
    known("transform_null_equals", "off", Kind::OnlyBool(false)),
    known("unix_socket_directories", "", Kind::OfServer),
    known("update_process_title", "on", Kind::Bool).superuser(),
    known("vacuum_cost_delay", "0", Kind::Real(0.0, 100.0, Unit::Ms)),
    known("vacuum_cost_limit", "200", Kind::Integer(1, 10000, Unit::None)),
    known("vacuum_cost_page_dirty", "20", Kind::Integer(0, 10000, Unit::None)),
    known("vacuum_cost_page_hit", "1", Kind::Integer(0, 10000, Unit::None)),
    known("vacuum_cost_page_miss", "2", Kind::Integer(0, 10000, Unit::None)),
    known("vacuum_failsafe_age", "1600000000", Kind::Integer(0, 2100000000, Unit::None)),
    known("vacuum_freeze_min_age", "50000000", Kind::Integer(0, 1000000000, Unit::None)),
    known("vacuum_freeze_table_age", "150000000", Kind::Integer(0, 2000000000, Unit::None)),
    known("vacuum_multixact_failsafe_age", "1600000000", Kind::Integer(0, 2100000000, Unit::None)),
    known("vacuum_multixact_freeze_min_age", "5000000", Kind::Integer(0, 1000000000, Unit::None)),
    known("vacuum_multixact_freeze_table_age", "150000000", Kind::Integer(0, 2000000000, Unit::None)),
    known("wal_compression", "off", Kind::OneOf(&["pglz", "lz4", "zstd", "on", "off"], &[])).superuser(),
    known("wal_consistency_checking", "", Kind::Text).superuser(),
    known("wal_init_zero", "on", Kind::Bool).superuser(),
    known("wal_recycle", "on", Kind::Bool).superuser(),
    known("wal_sender_timeout", "60000", Kind::Integer(0, INT_MAX, Unit::Ms)),
    known("wal_skip_threshold", "2048", Kind::Integer(0, INT_MAX, Unit::Kb)),
    known("work_mem", "262144", Kind::Integer(64, INT_MAX, Unit::Kb)),
    known("xmlbinary", "base64", Kind::OneOf(&["base64", "hex"], &[])),
    known("xmloption", "content", Kind::OneOf(&["content", "document"], &[])),
    known("zero_damaged_pages", "off", Kind::Bool).superuser(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_listed_in_order() {
        assert!(KNOWN.is_sorted_by_key(|known| known.name));
    }
}

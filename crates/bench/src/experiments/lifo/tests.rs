//! Figures of the experiment that have to come out, and the model behind those that are not
//! measured.

use colibri::{WriteKind, WriteTrace};

use super::extrapolation::lifo_misses;
use super::sink::Place;
use super::*;
use crate::parse;

#[test]
fn a_file_that_fits_the_caches_costs_the_disk_nothing() {
    let outer = directory();
    let mut args: LifoArgs = parse("--records 42,1764 --txns 300 --log without").unwrap();
    args.dir = Some(outer.path().join("data"));
    args.output.json = Some(outer.path().join("results.json"));
    args.output.svg = Some(outer.path().join("results.svg"));
    run(&args).unwrap();
    let json = std::fs::read_to_string(args.output.json.unwrap()).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(rows.len(), 4);
    for row in &rows {
        // The leaf, the catalogue, the meta page at least.
        assert!(row["pages_per_txn"].as_f64().unwrap() >= 3.0, "{row}");
        assert_eq!(row["caches"][0]["lifo"], 0.0);
        assert_eq!(row["caches"][1]["fifo"], 0.0);
    }
    assert!(std::fs::read_to_string(args.output.svg.unwrap()).unwrap().contains("512 MB"));
}

/// In memory, where there is some to write to, and not shared: tests run at the same time.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(MEMORY_DIR).or_else(|_| tempfile::tempdir()).unwrap()
}

fn one_case(flags: &str, outer: &Path) -> (LifoArgs, Case, Workplace) {
    let args: LifoArgs = parse(flags).unwrap();
    let mut cases = cases(&args).unwrap();
    let workplace = Workplace::new(outer, false).unwrap();
    assert_eq!(cases.len(), 1);
    (args, cases.remove(0), workplace)
}

#[test]
fn data_larger_than_the_cache_costs_the_disk_less_with_lifo() {
    let outer = directory();
    let flags = "--records 20000 --log without --page-records-max 0 --txns 1000";
    let (args, mut case, workplace) = one_case(flags, outer.path());
    // Leaves take some 3 MB, free pages twice that.
    case.cache_mb = [1, 2];
    let environment = Environment::observe(workplace.dir());
    let rows = measure_case(&args, &case, &workplace, &Progress::silent(), &environment).unwrap();
    let [row] = &rows[..] else { panic!("one row") };
    for cache in &row.caches {
        // FIFO comes back to a page after all the free ones, and so never finds it in the cache.
        assert!(cache.fifo > row.pages_per_txn - 1.1, "{row:?}");
        assert!(cache.lifo < 0.6 * cache.fifo && cache.fewer.is_some_and(|times| times > 1.6), "{row:?}");
    }
    assert!(row.caches[0].lifo > row.caches[1].lifo, "a larger cache saves more: {row:?}");
}

#[test]
fn with_log_each_transaction_writes_its_record_and_steady_points_write_pages() {
    let outer = directory();
    let flags = "--records 1764 --txns 300 --log with --log-bytes 65536 --page-records-max 0";
    let (args, case, workplace) = one_case(flags, outer.path());
    let case = &case;
    let measured = measure_in(&args, case, FreeSpace::Lifo, &workplace, &Progress::silent()).unwrap();
    // A record of some 200 bytes is in one block, sometimes in two.
    assert!((1.0..1.5).contains(&measured.log_blocks_per_txn), "{}", measured.log_blocks_per_txn);
    // Many transactions to a steady point, which writes each page that they changed once.
    assert!(measured.txns_per_steady_point >= 100.0, "{}", measured.txns_per_steady_point);
    assert!(measured.pages_per_txn > 0.0 && measured.pages_per_txn < 1.0, "{}", measured.pages_per_txn);
}

#[test]
fn a_record_is_written_to_every_block_it_touches_and_the_files_are_apart() {
    let commit = |file, bytes| WriteTrace {
        kind: WriteKind::Commit,
        txn: colibri::TxnId(1),
        page_size: PAGE_BYTES as u32,
        ranges: vec![(2, 3)],
        leaves: 3,
        branches: 0,
        overflow: 0,
        free_map: 0,
        log: Some((file, bytes)),
    };
    let mut sink = Sink::new(CACHE_MB);
    sink.take(&commit(0, 4000..4200));
    sink.take(&commit(0, 4200..8192));
    sink.take(&commit(1, 0..100));
    assert_eq!((sink.txns, sink.log_blocks, sink.pages), (3, 4, 0));
    sink.take(&WriteTrace { kind: WriteKind::Steady, log: None, ..commit(0, 0..0) });
    assert_eq!((sink.txns, sink.pages, sink.steady_points), (3, 4, 1));
    let numbers = [Place::Data, Place::Log(0), Place::Log(1)].map(|place| place.number(5));
    assert_eq!(numbers, [15, 16, 17]);
}

#[test]
fn wrong_flags_say_what_would_be_right() {
    let error = |flags: &str| cases(&parse(flags).unwrap()).err().unwrap().to_string();
    assert!(error("--records 0").contains("--records is 0, but must be from 1"));
    assert!(error("--value-size 0").contains("--value-size"));
    assert!(error("--txns 0").contains("--txns"));
    assert!(error("--free 101").contains("--free"));
    assert!(error("--log-bytes 5").contains("--log-bytes is 5, but must be from 65536"));
}

/// A tree of 1,000 leaves, from which the largest size would have 96,000.
fn made_up(log: LogUse) -> (Case, Measured) {
    let case = Case {
        record: "small",
        records: EXTRAPOLATED_RECORDS / 96,
        value_bytes: 128,
        extrapolate: true,
        free: 2,
        log,
        log_bytes: Some(1 << 20),
        cache_mb: CACHE_MB,
    };
    let stat = TableStat {
        kind: TableKind::Plain,
        entries: case.records,
        depth: 3,
        leaf_pages: 1000,
        branch_pages: 11,
        overflow_pages: 0,
    };
    let measured = Measured {
        stat,
        pages_per_txn: 5.0,
        log_blocks_per_txn: 0.0,
        txns_per_steady_point: 1.0,
        disk_per_txn: [4.0, 1.0],
        warm_up_txns: 1,
        txns: 1,
    };
    (case, measured)
}

#[test]
fn the_largest_size_has_the_levels_of_its_leaves_and_misses_where_they_exceed_the_cache() {
    let (case, measured) = made_up(LogUse::Without);
    let row = extrapolated(&case, &measured, &Environment::observe(Path::new(".")));
    // 91.8 children a branch: 96,000 leaves below 1,046, 12 and 1 branches; beside the path two
    // pages, as before.
    assert_eq!((row.records, row.depth, row.data_pages), (EXTRAPOLATED_RECORDS, 4, 97_059));
    assert_eq!((row.pages_per_txn, row.txns_per_steady_point), (6.0, 1.0));
    let [small, large] = &row.caches[..] else { panic!("two caches") };
    // 128 MB are 32,768 pages: the branches and 31,709 leaves. 512 MB hold everything.
    assert_eq!((small.cache_mb, small.fifo), (128, 5.0));
    assert!((small.lifo - (1.0 - 31_709.0 / 96_000.0)).abs() < 1e-9, "{small:?}");
    assert!((small.fewer.unwrap() - 5.0 / small.lifo).abs() < 1e-9, "{small:?}");
    assert_eq!((large.fifo, large.lifo, large.fewer), (5.0, 0.0, None));
}

#[test]
fn with_log_the_largest_size_touches_more_pages_and_misses_with_what_rests_too_long() {
    let (case, mut measured) = made_up(LogUse::With);
    // In 1,000 leaves, 1,000 changes touch 632, all 11 or 12 above and the root.
    let touched = 1000.0 * (1.0 - (0.999_f64).powi(1000)) + 12.0;
    measured.txns_per_steady_point = 1000.0;
    measured.pages_per_txn = touched / 1000.0;
    measured.log_blocks_per_txn = 1.05;
    let row = extrapolated(&case, &measured, &Environment::observe(Path::new(".")));
    assert!(row.log && row.extrapolated && row.txns_per_steady_point == 1000.0, "{row:?}");
    // In 96,000 leaves nearly each change has a leaf of its own (995), below 644 of the 1,046, 12
    // and 1 branches.
    assert!((row.pages_per_txn - 1.652).abs() < 0.005, "{row:?}");
    let [small, large] = &row.caches[..] else { panic!("two caches") };
    // Some 1,700 blocks a period: the caches hold 19 and 77 of them, and with that both files of
    // the log.
    for cache in [small, large] {
        assert!((cache.fifo - (row.pages_per_txn - 0.001)).abs() < 1e-9, "{cache:?}");
    }
    // Leaves rest 96 periods in the mean, branches less than 2.
    assert!((small.lifo - 0.995 * (1.0 - 1.0 / 96.5_f64).powf(18.25)).abs() < 0.01, "{small:?}");
    assert!((large.lifo - 0.995 * (1.0 - 1.0 / 96.5_f64).powf(76.0)).abs() < 0.01, "{large:?}");

    // Where the cache does not hold what one steady point writes, the order makes no difference.
    measured.txns_per_steady_point = 1e6;
    measured.pages_per_txn = 0.001;
    let row = extrapolated(&case, &measured, &Environment::observe(Path::new(".")));
    let cache = row.caches[0];
    assert!(cache.fifo > 0.05 && (cache.fifo - cache.lifo).abs() < 1e-9, "{cache:?}");
}

#[test]
fn a_database_is_made_in_memory_only_where_it_leaves_room() {
    let (case, _) = made_up(LogUse::Without);
    let large = Case { value_bytes: 4000, ..made_up(LogUse::Without).0 };
    let raw = |case: &Case| case.records * (KEY_BYTES + case.value_bytes) as u64 * 3;
    assert!(case.file_bytes_max() > raw(&case) && large.file_bytes_max() > raw(&large));
    assert!(fits(3 << 30, 4 << 30) && !fits(3 << 30, (4 << 30) - 4) && !fits(1, 0));
}

#[test]
fn what_is_extrapolated_misses_on_the_lowest_levels() {
    assert_eq!(lifo_misses(&[1000.0, 10.0, 1.0], 511.0), 0.5);
    assert_eq!(lifo_misses(&[1000.0, 10.0, 1.0], 5000.0), 0.0);
    assert_eq!(lifo_misses(&[1000.0, 10.0, 1.0], 6.0), 1.5);
}

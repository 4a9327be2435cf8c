use std::collections::HashSet;

use colibri::Durability;

use super::*;
use crate::measure::random::tests::unevenness;
use crate::sql::driver::{self, Pacing, RunPlan, Unwatched};
use crate::sql::result::totals;
use crate::sql::target::colibri::Colibri;
use crate::sql::target::null::Null;
use crate::sql::target::{Isolation, texts};
use crate::sql::workload::Verdict;
use crate::sql::workload::load::{LoadProgress, PartRows, ensure_loaded, load};

use std::sync::Arc;

/// A warehouse in miniature.
pub(crate) const SMALL: Scale = Scale { warehouses: 1, items: 200, customers: 30 };

pub(crate) fn plan(pacing: Pacing, clients: u32, seconds: f64) -> RunPlan {
    RunPlan {
        pacing,
        clients,
        shard: (0, 1),
        in_flight: clients.min(64),
        warmup: Duration::ZERO,
        duration: Duration::from_secs_f64(seconds),
        timeout: Duration::from_secs(20),
        retries_max: 1_000,
        threads: 2,
        seed: 42,
    }
}

/// A database with the data of a scale.
struct Bed {
    target: Arc<dyn Target>,
    workload: Arc<dyn Workload>,
    _dir: tempfile::TempDir,
}

impl Bed {
    fn new(scale: Scale) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let target: Arc<dyn Target> = Arc::new(Colibri::open(dir.path(), Durability::NoSync).unwrap());
        let bed = Self { target, workload: Arc::new(Tpcc::new(scale, 42)), _dir: dir };
        bed.load();
        bed
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        driver::runtime(1).unwrap().block_on(future)
    }

    fn load(&self) -> u64 {
        let progress = Arc::new(LoadProgress::default());
        Self::block_on(load(&self.target, &self.workload, 2, &progress)).unwrap().rows
    }

    fn sql(&self, statements: &[&str]) {
        Self::block_on(async { self.target.connect(&[]).await?.execute_all(statements).await }).unwrap();
    }

    fn count(&self, sql: &str) -> i64 {
        let table = Self::block_on(async { self.target.connect(&[]).await?.query(sql).await }).unwrap();
        table.answer().decimal(0, 0, 0).unwrap()
    }

    /// Numbers of the conditions that are broken; 0 if rows are missing.
    fn broken(&self) -> Vec<usize> {
        let findings = Self::block_on(self.workload.check(&*self.target, &mut |_| {})).unwrap();
        assert_eq!(findings.len(), 13);
        let broken = findings.iter().enumerate().filter(|(_, finding)| finding.verdict == Verdict::Broken);
        broken.map(|(number, _)| number).collect()
    }
}

/// Breaks loaded data, and expects that these conditions fail.
fn break_and_find(statements: &[&str], expected: &[usize]) {
    let bed = Bed::new(SMALL);
    assert_eq!(bed.broken(), [0; 0], "freshly loaded");
    bed.sql(statements);
    assert_eq!(bed.broken(), expected);
}

#[test]
fn condition_1_is_found_broken() {
    break_and_find(&["UPDATE warehouse SET w_ytd = w_ytd + 0.01"], &[1, 8]);
}

#[test]
fn condition_2_is_found_broken() {
    break_and_find(&["UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3"], &[2]);
}

#[test]
fn condition_3_is_found_broken() {
    break_and_find(&["DELETE FROM new_order WHERE no_d_id = 4 AND no_o_id = 25"], &[3, 5, 11]);
}

#[test]
fn condition_4_is_found_broken() {
    break_and_find(&["UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_d_id = 5 AND o_id = 7"], &[4, 6]);
}

#[test]
fn condition_5_is_found_broken() {
    break_and_find(
        &["INSERT INTO new_order VALUES (1, 10, 21)", "DELETE FROM new_order WHERE no_d_id = 9 AND no_o_id = 22"],
        &[5, 11],
    );
}

#[test]
fn condition_6_is_found_broken() {
    let moved = [
        "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_d_id = 2 AND o_id = 3",
        "UPDATE orders SET o_ol_cnt = o_ol_cnt - 1 WHERE o_d_id = 2 AND o_id = 4",
    ];
    break_and_find(&moved, &[6]);
}

#[test]
fn condition_7_is_found_broken() {
    break_and_find(
        &["UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 6 AND ol_o_id = 5 AND ol_number = 2"],
        &[7],
    );
}

#[test]
fn condition_8_is_found_broken() {
    let both = ["UPDATE warehouse SET w_ytd = w_ytd + 5", "UPDATE district SET d_ytd = d_ytd + 5 WHERE d_id = 1"];
    break_and_find(&both, &[8, 9]);
}

#[test]
fn condition_9_is_found_broken() {
    let moved = [
        "UPDATE district SET d_ytd = d_ytd + 5 WHERE d_id = 1",
        "UPDATE district SET d_ytd = d_ytd - 5 WHERE d_id = 2",
    ];
    break_and_find(&moved, &[9]);
}

#[test]
fn condition_10_is_found_broken() {
    let sql = "UPDATE customer SET c_balance = c_balance + 1, c_ytd_payment = c_ytd_payment - 1 WHERE c_d_id = 3 AND c_id = 9";
    break_and_find(&[sql], &[10]);
}

#[test]
fn condition_11_is_found_broken() {
    break_and_find(&["UPDATE customer SET c_delivery_cnt = 1 WHERE c_d_id = 8 AND c_id = 30"], &[11]);
}

#[test]
fn condition_12_is_found_broken() {
    break_and_find(&["UPDATE customer SET c_ytd_payment = c_ytd_payment + 0.01 WHERE c_d_id = 1 AND c_id = 1"], &[12]);
}

#[test]
fn sums_over_nothing_do_not_pass() {
    // Without payments the sum is NULL, and NULL is not what the customer has paid.
    break_and_find(&["DELETE FROM history WHERE h_d_id = 7"], &[8, 9, 10]);
    break_and_find(&["DELETE FROM warehouse"], &[0]);
}

#[test]
fn many_clients_leave_consistent_data_and_nothing_acknowledged_is_missing() {
    let scale = Scale { warehouses: 2, ..SMALL };
    let bed = Bed::new(scale);
    let before = Bed::block_on(bed.workload.mark(&*bed.target)).unwrap().unwrap();
    let statements = texts(Isolation::Default, bed.workload.statements());
    let plan = plan(Pacing::Closed, 20, 3.0);
    let measured = driver::run(&bed.workload, &bed.target, &statements, &plan, &mut Unwatched).unwrap();
    assert_eq!(measured.ended_early, None);
    assert_eq!((measured.failed(), measured.failures.len()), (0, 0), "{:?}", measured.failures);
    assert!(measured.kinds.iter().all(|kind| kind.committed > 0), "{measured:?}");
    let retries: u64 = measured.kinds.iter().map(|kind| kind.retries).sum();
    assert!(retries * 10 < measured.ended(), "{retries} retries of {}", measured.ended());
    let after = Bed::block_on(bed.workload.mark(&*bed.target)).unwrap().unwrap();
    let finding = bed.workload.reconcile(before, after, &measured.acknowledged).unwrap();
    assert_eq!(finding.verdict, Verdict::Holds, "{finding:?}");
    assert_eq!(bed.broken(), [0; 0]);
    assert!(bed.workload.audit(&totals(&measured, Pacing::Closed)).iter().all(|f| f.verdict != Verdict::Broken));
}

#[test]
fn a_lost_or_invented_commit_is_told() {
    let tpcc = Tpcc::new(SMALL, 42);
    let verdict = |found: i64, committed, unknown| {
        let acknowledged = Acknowledged { committed: vec![committed, 9, 9, 9, 9], unknown: vec![unknown, 9, 9, 9, 9] };
        tpcc.reconcile(1_000, 1_000 + found, &acknowledged).unwrap().verdict
    };
    assert_eq!([verdict(10, 10, 0), verdict(12, 10, 2)], [Verdict::Holds; 2]);
    assert_eq!([verdict(9, 10, 2), verdict(13, 10, 2), verdict(11, 10, 0)], [Verdict::Broken; 3]);
}

#[test]
fn a_load_that_was_interrupted_goes_on_and_one_that_is_complete_does_nothing() {
    let bed = Bed::new(SMALL);
    let sum = "SELECT sum(ol_i_id) + sum(ol_quantity) FROM order_line";
    let (rows, lines) = (bed.count(sum), bed.count("SELECT count(*) FROM order_line"));
    assert_eq!(bed.load(), 0);
    // As after an interrupted load: a part, and the mark of a complete load, are missing.
    bed.sql(&[
        "DELETE FROM customer WHERE c_d_id = 3",
        "DELETE FROM history WHERE h_d_id = 3",
        "DELETE FROM orders WHERE o_d_id = 3",
        "DELETE FROM new_order WHERE no_d_id = 3",
        "DELETE FROM order_line WHERE ol_d_id = 3",
        "DELETE FROM bench_part WHERE part = 5",
        "UPDATE bench_data SET complete = 0",
    ]);
    let told = Bed::block_on(ensure_loaded(&*bed.target, &*bed.workload)).unwrap_err().to_string();
    assert!(told.contains("interrupted"), "{told}");
    assert!(bed.load() > 0);
    Bed::block_on(ensure_loaded(&*bed.target, &*bed.workload)).unwrap();
    assert_eq!((bed.count(sum), bed.count("SELECT count(*) FROM order_line")), (rows, lines));
    assert_eq!(bed.broken(), [0; 0]);
}

#[test]
fn data_of_other_flags_are_refused() {
    let bed = Bed::new(SMALL);
    let other: Arc<dyn Workload> = Arc::new(Tpcc::new(SMALL, 43));
    let told = Bed::block_on(load(&bed.target, &other, 1, &Arc::default())).unwrap_err().to_string();
    assert!(told.contains("holds other data"), "{told}");
    assert!(Bed::block_on(ensure_loaded(&*bed.target, &*other)).is_err());
}

#[test]
fn data_of_another_workload_are_told_and_left_alone() {
    use crate::sql::workload::stock::{Mix, Stock};
    let bed = Bed::new(SMALL);
    let stock: Arc<dyn Workload> = Arc::new(Stock::new(Mix::PutRandOrder, 10, 10, 10, 42));
    let told = Bed::block_on(load(&bed.target, &stock, 1, &Arc::default())).unwrap_err().to_string();
    assert!(told.contains("has a table stock already, and data of tpcc: stock needs a database of its own"), "{told}");
    assert!(Bed::block_on(ensure_loaded(&*bed.target, &*stock)).is_err());
    assert_eq!(bed.broken(), [0; 0]);
}

/// Rows of a table in the parts of a scale, as columns of text.
fn generated(scale: Scale, table: &str) -> Vec<Vec<String>> {
    let tpcc = Tpcc::new(scale, 42);
    let data = tpcc.data();
    let mut rows = PartRows::default();
    let mut found = Vec::new();
    for part in 0..data.parts() {
        rows.clear();
        data.generate(part, &mut rows);
        for of_table in rows.tables().iter().filter(|rows| rows.into.split(' ').next() == Some(table)) {
            let text = String::from_utf8(of_table.bytes.clone()).unwrap();
            assert_eq!(text.lines().count() as u64, of_table.rows);
            found.extend(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()));
        }
    }
    found
}

#[test]
fn the_data_are_those_of_the_specification() {
    let scale = Scale { warehouses: 2, items: 10_000, customers: 3_000 };
    let tpcc = Tpcc::new(scale, 42);
    let data = tpcc.data();
    let (mut rows, mut all) = (PartRows::default(), 0);
    for part in 0..data.parts() {
        rows.clear();
        data.generate(part, &mut rows);
        all += rows.rows();
    }
    let off = (all as f64 / data.rows() as f64 - 1.0).abs();
    assert!(off < 0.005, "{all} rows, and {} were announced", data.rows());

    let customers = generated(scale, "customer");
    assert_eq!(customers.len(), 60_000);
    let bad = customers.iter().filter(|row| row[13] == "BC").count();
    assert!((5_600..6_400).contains(&bad), "{bad} of 60,000 have bad credit");
    let first: Vec<String> = customers[..1000].iter().map(|row| row[5].clone()).collect();
    assert_eq!(
        (first[0].as_str(), first[999].as_str(), first[371].as_str()),
        ("BARBARBAR", "EINGEINGEING", "PRICALLYOUGHT")
    );
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 1000, "each name once among the first thousand");
    assert!(customers.iter().all(|row| (300..=500).contains(&row[20].len()) && row[16] == "-10.00"));

    let orders = generated(scale, "orders");
    let of_district: HashSet<&str> =
        orders.iter().filter(|row| row[0] == "2" && row[1] == "7").map(|row| row[3].as_str()).collect();
    assert_eq!(of_district.len(), 3_000, "customers of orders are a permutation");
    assert!(orders.iter().all(|row| (row[5] == "\\N") == (row[2].parse::<i64>().unwrap() > 2_100)));
    let lines = generated(scale, "order_line");
    let counts: i64 = orders.iter().map(|row| row[6].parse::<i64>().unwrap()).sum();
    assert_eq!(lines.len() as i64, counts);
    assert!((9.95..10.05).contains(&(counts as f64 / orders.len() as f64)));
    assert!(lines.iter().all(|row| (row[8] == "0.00") == (row[6] != "\\N")));
    assert_eq!(generated(scale, "new_order").len(), 2 * 10 * 900);

    for (table, column, count) in [("item", 4, 10_000), ("stock", 17, 20_000)] {
        let found = generated(scale, table);
        assert_eq!(found.len(), count);
        let original =
            found.iter().filter(|row| row[column - usize::from(table == "stock")].contains("ORIGINAL")).count();
        assert!((count * 9 / 100..=count * 11 / 100).contains(&original), "{table}: {original} of {count}");
    }
}

#[test]
fn what_is_generated_does_not_depend_on_who_generates_it() {
    let tpcc = Tpcc::new(SMALL, 42);
    let (data, other) = (tpcc.data(), Tpcc::new(SMALL, 43));
    let bytes = |data: &dyn load::Data, part| {
        let mut rows = PartRows::default();
        data.generate(part, &mut rows);
        rows.tables().iter().flat_map(|table| table.bytes.clone()).collect::<Vec<u8>>()
    };
    assert_eq!(bytes(&*data, 5), bytes(&*tpcc.data(), 5));
    assert_ne!(bytes(&*data, 5), bytes(&*data, 6));
    assert_ne!(bytes(&*data, 5), bytes(&*other.data(), 5));
    // A load that was interrupted goes on with what this gives: other bytes want another
    // fingerprint.
    assert_eq!((0..data.parts()).fold(0, |hash, part| fnv_of(hash, &bytes(&*data, part))), 12_618_026_974_776_936_192);
}

/// FNV-1a of bytes, going on from a hash.
pub(crate) fn fnv_of(hash: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(hash ^ 0xCBF2_9CE4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

#[test]
fn the_constant_of_last_names_differs_from_that_of_the_data_as_it_has_to() {
    for seed in 0..2_000 {
        let stored = c_load(seed);
        let difference = (c_run(stored, &mut Random::new(seed, 1)) - stored).abs();
        assert!((65..=119).contains(&difference) && difference != 96 && difference != 112, "seed {seed}: {difference}");
    }
}

#[test]
fn a_terminal_plays_its_deck_to_the_last_card() {
    let tpcc = Tpcc::new(SMALL, 42);
    let mut client = tpcc.client(0, 42);
    let mut orders = HashSet::new();
    for _ in 0..200 {
        let cards: Vec<u8> = (0..100).map(|_| tpcc.choose(&mut client).kind).collect();
        let count = |kind| cards.iter().filter(|&&card| card == kind).count();
        assert_eq!([count(0), count(1), count(2), count(3), count(4)], [45, 43, 4, 4, 4]);
        orders.insert(cards);
    }
    assert_eq!(orders.len(), 200, "decks are shuffled");
    // Where a rare card lies is uniform.
    let mut places = [0; 10];
    for _ in 0..20_000 {
        for place in 0..100 {
            if tpcc.choose(&mut client).kind == DELIVERY {
                places[place / 10] += 1;
            }
        }
    }
    assert!(unevenness(&places).abs() < 5.0, "{places:?}");
}

#[test]
fn keying_is_constant_and_thinking_is_not() {
    let tpcc = Tpcc::new(SMALL, 42);
    let mut client = tpcc.client(0, 42);
    let (mut sums, mut counts, mut longest) = ([0.0; 5], [0.0; 5], [0.0_f64; 5]);
    for _ in 0..200_000 {
        let choice = tpcc.choose(&mut client);
        let kind = usize::from(choice.kind);
        assert_eq!(choice.keying, Duration::from_secs(DECK[kind].1));
        sums[kind] += choice.think.as_secs_f64();
        counts[kind] += 1.0;
        longest[kind] = longest[kind].max(choice.think.as_secs_f64());
    }
    for (kind, (_, _, mean)) in DECK.iter().enumerate() {
        let found = sums[kind] / counts[kind];
        // Four standard errors of an exponential distribution.
        assert!((found - mean).abs() < 4.0 * mean / f64::sqrt(counts[kind]), "{kind}: {found}");
        assert!(longest[kind] <= mean * 10.0);
    }
    // 45 % of a cycle of 20.99 s, ten terminals, sixty seconds.
    let most = 0.45 / tpcc.cycle().unwrap().as_secs_f64() * 600.0;
    assert!((most - TPMC_MAX).abs() < 0.01, "{most}");
}

#[test]
fn load_and_mix_of_terminals_are_at_their_level_from_the_first_second_on() {
    const TERMINALS: u32 = 100_000;
    let tpcc = Tpcc::new(Scale::new(10_000), 42);
    // Transactions that are due in each ten seconds, by kind.
    let mut due = [[0_u32; 5]; 7];
    for number in 0..TERMINALS {
        let mut client = tpcc.client(number, 42);
        let mut choice = tpcc.first(&mut client).unwrap();
        let mut at = choice.keying;
        while at < Duration::from_secs(70) {
            due[at.as_secs() as usize / 10][usize::from(choice.kind)] += 1;
            at += choice.think;
            choice = tpcc.choose(&mut client);
            at += choice.keying;
        }
    }
    // In each ten seconds 47,642 ± 218, and of them 45 % ± 0.23 % NewOrders.
    let level = f64::from(TERMINALS) / tpcc.cycle().unwrap().as_secs_f64() * 10.0;
    for (tenth, due) in due.iter().enumerate() {
        let all = f64::from(due.iter().sum::<u32>());
        assert!((all / level - 1.0).abs() < 0.02, "{tenth}: {all} of {level}");
        for (kind, (cards, ..)) in DECK.iter().enumerate() {
            let off = f64::from(due[kind]) / all - f64::from(*cards) / 100.0;
            assert!(off.abs() < 0.01, "{tenth}: {} is {:+.1} % off", KINDS[kind].name, off * 100.0);
        }
    }
}

#[test]
fn a_terminal_that_is_met_within_its_deck_plays_what_is_left_of_it() {
    let tpcc = Tpcc::new(SMALL, 42);
    let mut left_in = [0_u64; 10];
    for number in 0..20_000 {
        let mut client = tpcc.client(number, 42);
        let first = tpcc.first(&mut client).unwrap();
        let left: u8 = client.deck[..5].iter().sum();
        left_in[usize::from(left) / 10] += 1;
        let mut played = [0; 5];
        for _ in 0..left {
            played[usize::from(tpcc.choose(&mut client).kind)] += 1;
        }
        assert_eq!(client.deck[..5], [0; 5]);
        played[usize::from(first.kind)] += 1;
        assert!(played.iter().zip(DECK).all(|(&played, (cards, ..))| played <= cards), "{played:?}");
    }
    // Of 0 to 99 cards each number is as likely.
    assert!(unevenness(&left_in).abs() < 4.0, "{left_in:?}");
}

#[test]
fn homes_are_all_terminals_once() {
    let tpcc = Tpcc::new(Scale { warehouses: 7, ..SMALL }, 42);
    let homes: HashSet<(i64, i64)> = (0..70).map(|client| tpcc.home(client)).collect();
    assert_eq!(homes.len(), 70);
    let mut random = Random::new(42, 0);
    let others: HashSet<i64> = (0..1000).map(|_| tpcc.other_warehouse(3, &mut random)).collect();
    assert_eq!(others, HashSet::from([1, 2, 4, 5, 6, 7]));
}

/// A number of transactions against the control group, with warehouses of full size.
fn audited(warehouses: u32, count: u32) -> (Vec<Finding>, Totals) {
    let workload: Arc<dyn Workload> = Arc::new(Tpcc::new(Scale::new(warehouses), 42));
    let target: Arc<dyn Target> = Arc::new(Null::new(&workload));
    let mut totals = Totals { committed: vec![0; 5], rolled_back: vec![0; 5], ..Totals::default() };
    Bed::block_on(async {
        let mut session = target.connect(&[]).await.unwrap();
        for number in 0..100 {
            let mut client = workload.client(number, 42);
            for _ in 0..count / 100 {
                let kind = workload.choose(&mut client).kind;
                let done = workload.transaction(&mut client, kind, &mut session).await.unwrap();
                let counts = if done.rolled_back { &mut totals.rolled_back } else { &mut totals.committed };
                counts[usize::from(kind)] += 1;
                totals.tally.iter_mut().zip(done.tally).for_each(|(sum, more)| *sum += u64::from(more));
            }
        }
    });
    (workload.audit(&totals), totals)
}

#[test]
fn a_run_is_within_every_band_of_the_audit() {
    let (findings, _) = audited(10, 400_000);
    assert!(findings.len() >= 10);
    for finding in findings {
        assert_eq!(finding.verdict, Verdict::Holds, "{finding:?}");
    }
}

/// Bug: a run in miniature was held to the specification's share of districts in which nothing is
/// left to deliver, with a hundredth of its orders. Consequence: now and then a run was not valid,
/// by chance. Fix: that share is asked of data of full size.
#[test]
fn in_miniature_chance_may_deliver_all_there_is() {
    let (findings, totals) = audited(10, 40_000);
    let what = |findings: Vec<Finding>| findings.into_iter().map(|finding| finding.what).collect::<Vec<_>>();
    let (full, small) = (what(findings), what(Tpcc::new(Scale::miniature(10), 42).audit(&totals)));
    let missing: Vec<&String> = full.iter().filter(|what| !small.contains(what)).collect();
    assert_eq!(missing, ["districts without an order to deliver"]);
}

#[test]
fn the_bands_of_the_audit_are_those_of_the_specification() {
    const ALL: f64 = 1e9;
    let tpcc = Tpcc::new(Scale::new(10), 42);
    let part = |of: f64, share: f64| (of * share).round() as u64;
    let (orders, payments, lines) = (0.45 * ALL, 0.43 * ALL, 4.5 * ALL);
    let mut honest = Totals {
        committed: [0.4455, 0.43, 0.04, 0.04, 0.04].map(|share| part(ALL, share)).to_vec(),
        rolled_back: vec![part(orders, 0.01), 0, 0, 0, 0],
        has_think_times: true,
        p90: [1, 1, 1, 1, 1].map(Duration::from_secs).to_vec(),
        ..Totals::default()
    };
    honest.tally[LINES] = lines as u64;
    honest.tally[REMOTE_LINES] = part(lines, 0.01);
    honest.tally[REMOTE_PAYMENTS] = part(payments, 0.15);
    honest.tally[PAYMENTS_BY_NAME] = part(payments, 0.6);
    honest.tally[DELIVERED] = part(ALL, 0.4);
    // Another share of a kind is one of the next as well.
    let share = |kind: usize| {
        move |totals: &mut Totals, share: f64| {
            let of_kind = totals.committed[kind] + totals.rolled_back[kind];
            let wanted = part(ALL, share);
            totals.committed[kind] = totals.committed[kind] + wanted - of_kind;
            totals.committed[(kind + 1) % 5] = totals.committed[(kind + 1) % 5] + of_kind - wanted;
        }
    };
    let p90 = |kind: usize| move |totals: &mut Totals, s: f64| totals.p90[kind] = Duration::from_secs_f64(s);
    let rolled_back = |totals: &mut Totals, share: f64| {
        totals.committed[0] += totals.rolled_back[0];
        totals.rolled_back[0] = part(orders, share);
        totals.committed[0] -= totals.rolled_back[0];
    };
    let tally = |which: usize, of: f64| move |totals: &mut Totals, share: f64| totals.tally[which] = part(of, share);
    let skipped = |totals: &mut Totals, share: f64| totals.tally[SKIPPED] = part(0.4 * ALL, share / (1.0 - share));
    // How a figure is set, and its edges: just inside, and just outside.
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Totals, f64), &'a [(f64, f64)]);
    let cases: [Case<'_>; 16] = [
        ("share of NewOrder", &share(0), &[(0.4401, 0.4399), (0.4599, 0.4601)]),
        ("share of Payment", &share(1), &[(0.4301, 0.4299)]),
        ("share of OrderStatus", &share(2), &[(0.0401, 0.0399)]),
        ("share of Delivery", &share(3), &[(0.0401, 0.0399)]),
        ("share of StockLevel", &share(4), &[(0.0401, 0.0399)]),
        ("orders rolled back", &rolled_back, &[(0.00901, 0.00899), (0.01099, 0.01101)]),
        ("lines of an order", &tally(LINES, orders), &[(9.51, 9.49), (10.49, 10.51)]),
        ("remote order lines", &tally(REMOTE_LINES, lines), &[(0.00951, 0.00949), (0.01049, 0.01051)]),
        ("remote payments", &tally(REMOTE_PAYMENTS, payments), &[(0.1401, 0.1399), (0.1599, 0.1601)]),
        ("payments by name", &tally(PAYMENTS_BY_NAME, payments), &[(0.5701, 0.5699), (0.6299, 0.6301)]),
        ("districts without an order to deliver", &skipped, &[(0.0099, 0.0101)]),
        ("p90 of NewOrder", &p90(0), &[(5.0, 5.001)]),
        ("p90 of Payment", &p90(1), &[(5.0, 5.001)]),
        ("p90 of OrderStatus", &p90(2), &[(5.0, 5.001)]),
        ("p90 of Delivery", &p90(3), &[(5.0, 5.001)]),
        ("p90 of StockLevel", &p90(4), &[(20.0, 20.001)]),
    ];
    assert_eq!(cases.len(), tpcc.audit(&honest).len(), "each finding has its edges here");
    for (what, set, edges) in cases {
        let verdict = |value: f64| {
            let mut totals = honest.clone();
            set(&mut totals, value);
            let findings = tpcc.audit(&totals);
            findings.iter().find(|finding| finding.what == what).map(|finding| finding.verdict)
        };
        for &(inside, outside) in edges {
            assert_eq!(verdict(inside), Some(Verdict::Holds), "{what}: {inside}");
            assert_eq!(verdict(outside), Some(Verdict::Broken), "{what}: {outside}");
        }
    }
}

/// The generator's speed: `cargo test --release -p colibri-bench generation -- --ignored
/// --nocapture`.
#[test]
#[ignore = "measures"]
fn generation_costs_less_than_a_microsecond_a_row() {
    let tpcc = Tpcc::new(Scale::new(1), 42);
    let data = tpcc.data();
    let mut rows = PartRows::default();
    let (mut count, mut bytes) = (0, 0);
    let before = crate::measure::cost::thread_cpu_ns();
    for part in 0..data.parts() {
        rows.clear();
        data.generate(part, &mut rows);
        count += rows.rows();
        bytes += rows.tables().iter().map(|table| table.bytes.len()).sum::<usize>();
    }
    let seconds = (crate::measure::cost::thread_cpu_ns() - before) as f64 / 1e9;
    println!("{count} rows, {bytes} bytes in {seconds:.3} s of CPU: {:.0} rows/s", count as f64 / seconds);
    assert!(count as f64 / seconds > 1e6);
}

/// `cargo test --release -p colibri-bench fifteen_thousand -- --ignored --nocapture`.
#[test]
#[ignore = "measures, and takes a minute"]
fn fifteen_thousand_warehouses_with_think_times_cost_less_than_a_core_and_a_gigabyte() {
    let workload: Arc<dyn Workload> = Arc::new(Tpcc::new(Scale::new(15_000), 42));
    let target: Arc<dyn Target> = Arc::new(Null::new(&workload));
    let statements = texts(Isolation::Default, workload.statements());
    let plan = RunPlan {
        warmup: Duration::from_secs(25),
        in_flight: 128,
        threads: 1,
        ..plan(Pacing::Terminals, 150_000, 30.0)
    };
    let mut ledger = Watched(crate::sql::ledger::Ledger::new(None));
    let measured = driver::run(&workload, &target, &statements, &plan, &mut ledger).unwrap();
    let cost = ledger.0.cost(&measured, true, None, None);
    let rate = measured.throughput();
    println!("{rate:.0} a second; {:?}; lag {:?} us", cost, measured.lag.value_at_quantile(0.99) / 1000);
    assert!((rate / 7_146.0 - 1.0).abs() < 0.01, "{rate}");
    assert!(cost.cpus.unwrap() < 1.0 && cost.rss_bytes.unwrap() < 1 << 30);
}

struct Watched(crate::sql::ledger::Ledger);

impl driver::Watch for Watched {
    fn measuring_begins(&mut self) {
        self.0.begin();
    }

    fn measuring_ends(&mut self) {
        self.0.end();
    }
}

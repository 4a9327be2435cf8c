//! What has to be true of a run (clauses 5.2.3, 5.2.5, 5.5): the mix, the shares of what is rare, and how long things took.

use super::{
    DELIVERED, KINDS, LINES, NEW_ORDER, PAYMENT, PAYMENTS_BY_NAME, REMOTE_LINES, REMOTE_PAYMENTS, SKIPPED, Tpcc,
};
use crate::kv::report::significant;
use crate::workload::{Finding, Totals, Verdict};

/// The least share of each kind but NewOrder (clause 5.2.3).
const SHARES: [f64; 5] = [0.0, 0.43, 0.04, 0.04, 0.04];

pub(super) fn audit(tpcc: &Tpcc, totals: &Totals) -> Vec<Finding> {
    let of = |kind: u8| totals.committed[usize::from(kind)] + totals.rolled_back[usize::from(kind)];
    let tally = &totals.tally;
    let (orders, payments) = (of(NEW_ORDER), of(PAYMENT));
    let mut findings = Vec::new();

    let all: u64 = (0..KINDS.len() as u8).map(of).sum();
    for (kind, (described, share)) in KINDS.iter().zip(SHARES).enumerate().skip(1) {
        // A run ends in the middle of decks, so the mix is right up to chance.
        findings.push(Finding::share(&format!("share of {}", described.name), of(kind as u8), all, share, share, 1.0));
    }
    let rolled_back = totals.rolled_back[usize::from(NEW_ORDER)];
    findings.push(Finding::share("orders rolled back", rolled_back, orders, 0.01, 0.009, 0.011));
    findings.push(lines(tally[LINES], orders));
    if tpcc.active() > 1 {
        findings.push(Finding::share("remote order lines", tally[REMOTE_LINES], tally[LINES], 0.01, 0.0095, 0.0105));
        findings.push(Finding::share("remote payments", tally[REMOTE_PAYMENTS], payments, 0.15, 0.14, 0.16));
    }
    findings.push(Finding::share("payments by name", tally[PAYMENTS_BY_NAME], payments, 0.60, 0.57, 0.63));
    let districts = tally[DELIVERED] + tally[SKIPPED];
    findings.push(Finding::share("districts without an order to deliver", tally[SKIPPED], districts, 0.0, 0.0, 0.01));
    if totals.has_think_times {
        for (kind, &p90) in KINDS.iter().zip(&totals.p90) {
            let Some(most) = kind.p90_max else { continue };
            let (found, most_s) = (p90.as_secs_f64(), most.as_secs_f64());
            let what = format!("p90 of {}", kind.name);
            let found_text = format!("{} s", significant(found));
            findings.push(Finding::fact(what, found_text, format!("at most {most_s} s"), p90 <= most));
        }
    }
    findings
}

/// Order lines on average: 9.5 to 10.5. Uniform numbers from 5 to 15 have a standard deviation of √10.
fn lines(lines: u64, orders: u64) -> Finding {
    let mean = lines as f64 / orders.max(1) as f64;
    let deviation = (10.0 / orders.max(1) as f64).sqrt();
    let verdict = if (9.5..=10.5).contains(&mean) {
        Verdict::Holds
    } else if orders == 0 || (mean - 10.0).abs() <= 4.0 * deviation {
        Verdict::TooFew
    } else {
        Verdict::Broken
    };
    Finding {
        what: "lines of an order".to_owned(),
        found: format!("{mean:.2} of {orders}"),
        wanted: "9.5 to 10.5".to_owned(),
        verdict,
    }
}

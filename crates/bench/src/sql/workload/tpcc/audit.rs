//! Requirements on a run (clauses 5.2.3, 5.2.5, 5.5): the mix, the shares of rare cases, and
//! response times.

use super::{
    DELIVERED, KINDS, LINES, NEW_ORDER, PAYMENT, PAYMENTS_BY_NAME, REMOTE_LINES, REMOTE_PAYMENTS, SKIPPED, Tpcc,
};
use crate::sql::workload::{Finding, Totals};

/// The least share of each kind but NewOrder (clause 5.2.3), which is the rest of the deck.
const SHARES: [f64; 5] = [0.45, 0.43, 0.04, 0.04, 0.04];
/// How far NewOrder may be off its share. One transaction in a hundred may fail in a run that is
/// valid, and if all of them are NewOrders, 44.4 % are left; tpmC is then off by as much as it may
/// be in any case.
const NEW_ORDER_BAND: f64 = 0.01;

pub(super) fn audit(tpcc: &Tpcc, totals: &Totals) -> Vec<Finding> {
    let of = |kind: u8| totals.committed[usize::from(kind)] + totals.rolled_back[usize::from(kind)];
    let tally = &totals.tally;
    let (orders, payments) = (of(NEW_ORDER), of(PAYMENT));
    let mut findings = Vec::new();

    let all: u64 = (0..KINDS.len() as u8).map(of).sum();
    for (kind, (described, share)) in (0_u8..).zip(KINDS.iter().zip(SHARES)) {
        // A run ends in the middle of decks, so the mix is right up to chance.
        let (low, high) = match kind {
            NEW_ORDER => (share - NEW_ORDER_BAND, share + NEW_ORDER_BAND),
            _ => (share, 1.0),
        };
        findings.push(Finding::share(&format!("share of {}", described.name), of(kind), all, share, low, high));
    }
    let rolled_back = totals.rolled_back[usize::from(NEW_ORDER)];
    findings.push(Finding::share("orders rolled back", rolled_back, orders, 0.01, 0.009, 0.011));
    // Uniform numbers from 5 to 15 have a standard deviation of √10.
    findings.push(Finding::mean("lines of an order", (tally[LINES], orders), 10.0, (9.5, 10.5), 10_f64.sqrt()));
    if tpcc.active() > 1 {
        findings.push(Finding::share("remote order lines", tally[REMOTE_LINES], tally[LINES], 0.01, 0.0095, 0.0105));
        findings.push(Finding::share("remote payments", tally[REMOTE_PAYMENTS], payments, 0.15, 0.14, 0.16));
    }
    findings.push(Finding::share("payments by name", tally[PAYMENTS_BY_NAME], payments, 0.60, 0.57, 0.63));
    if tpcc.scale.is_full() {
        // In miniature nine orders of a district wait, not nine hundred, and chance delivers those.
        let districts = tally[DELIVERED] + tally[SKIPPED];
        let found = Finding::share("districts without an order to deliver", tally[SKIPPED], districts, 0.0, 0.0, 0.01);
        findings.push(found);
    }
    if totals.has_think_times {
        for (kind, &p90) in KINDS.iter().zip(&totals.p90) {
            let Some(most) = kind.p90_max else { continue };
            findings.push(Finding::p90(kind.name, p90, most));
        }
    }
    findings
}

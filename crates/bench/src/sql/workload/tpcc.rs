//! TPC-C, revision 5.11.
//!
//! | module | holds |
//! | --- | --- |
//! | `schema` | tables, indexes, the texts of all statements |
//! | `generate` | the rows that are loaded (clause 4.3) |
//! | `suppliers` | the tables that CH-benCHmark adds |
//! | `transactions` | the five transactions (clause 2), in exchanges |
//! | `imitate` | answers such as a database would give, for the control group |
//! | `conditions` | the twelve consistency conditions (clause 3.3.2) |
//! | `audit` | what has to be true of a run |
//!
//! **The deck** of each terminal has 100 cards: 45 NewOrder, 43 Payment, and 4 of each of the
//! others. A warehouse can then have 12.86 NewOrders a minute at the most.
//!
//! **Money is in cents** everywhere here, and `numeric` in the database.
//!
//! **The constants of NURand**: that of last names is stored with the data, and a run's differs
//! from it as clause 2.1.6.1 wants; all come from seeds, so that several processes have the same.

mod audit;
mod conditions;
mod generate;
mod imitate;
mod schema;
mod suppliers;
mod transactions;

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::measure::random::Random;
use crate::sql::target::batch::AnswerWriter;
use crate::sql::target::{Boxed, Cell, Failure, Session, StatementId, Target};
use crate::sql::workload::{Acknowledged, Choice, Client, Done, Finding, Totals, TransactionKind, Workload, load};

pub(crate) const NEW_ORDER: u8 = 0;
pub(crate) const PAYMENT: u8 = 1;
pub(crate) const ORDER_STATUS: u8 = 2;
pub(crate) const DELIVERY: u8 = 3;

const fn kind(name: &'static str, commits: bool, p90_max_s: u64) -> TransactionKind {
    TransactionKind { name, commits, p90_max: Some(Duration::from_secs(p90_max_s)) }
}

const KINDS: [TransactionKind; 5] = [
    kind("NewOrder", true, 5),
    kind("Payment", true, 5),
    kind("OrderStatus", false, 5),
    kind("Delivery", true, 5),
    kind("StockLevel", false, 20),
];

/// Cards of a deck, keying in seconds and mean think time in seconds (clause 5.2.5.7).
const DECK: [(u8, u64, f64); 5] = [(45, 18, 12.0), (43, 3, 12.0), (4, 2, 10.0), (4, 2, 5.0), (4, 2, 5.0)];
const CARDS: u8 = 100;
/// The longest think time, as a multiple of the mean.
const THINK_MAX: f64 = 10.0;
/// NewOrders a minute and warehouse at the most.
pub(crate) const TPMC_MAX: f64 = 12.86;

/// What a transaction adds up: see the names below.
const LINES: usize = 0;
const REMOTE_LINES: usize = 1;
const PAYMENTS_BY_NAME: usize = 2;
const REMOTE_PAYMENTS: usize = 3;
const STATUS_BY_NAME: usize = 4;
const DELIVERED: usize = 5;
const SKIPPED: usize = 6;
const TALLY_NAMES: [&str; 7] = [
    "order lines",
    "remote order lines",
    "payments by name",
    "remote payments",
    "order status by name",
    "orders delivered",
    "districts without a new order",
];

pub(crate) const DISTRICTS: i64 = 10;
const TERMINALS: u32 = 10;

/// Sizes that the specification fixes. Tests have smaller ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) warehouses: i64,
    pub(crate) items: i64,
    /// In a district; as many orders are loaded.
    pub(crate) customers: i64,
}

impl Scale {
    pub(crate) fn new(warehouses: u32) -> Self {
        Self { warehouses: warehouses.into(), items: 100_000, customers: 3_000 }
    }

    /// A hundredth of the items and customers, for trying things out: its rows are hotter than
    /// TPC-C's, so its figures are others.
    pub(crate) fn miniature(warehouses: u32) -> Self {
        Self { warehouses: warehouses.into(), items: 1_000, customers: 30 }
    }

    /// Of a size that the specification fixes.
    fn is_full(self) -> bool {
        self == Self::new(self.warehouses as u32)
    }

    /// Orders that are delivered when the data are loaded, in a district.
    fn delivered(self) -> i64 {
        self.customers * 7 / 10
    }

    /// Last names that occur.
    fn names(self) -> i64 {
        self.customers.min(1_000)
    }
}

/// The workload.
#[derive(Debug)]
pub(crate) struct Tpcc {
    pub(crate) scale: Scale,
    /// Warehouses that have terminals: the first ones of those that are loaded.
    active: AtomicI64,
    /// Whether it has the tables that CH-benCHmark adds.
    has_suppliers: bool,
    /// Of the data.
    seed: u64,
    /// Constants of NURand in this run: for last names, customers, items.
    c_last: AtomicI64,
    c_customer: i64,
    c_item: i64,
}

/// The constant of last names in the data of a seed.
fn c_load(seed: u64) -> i64 {
    Random::new(seed, u64::MAX).between(0, 255)
}

/// A constant of last names that differs from that of the data as it has to: by 65 to 119, and
/// neither 96 nor 112.
fn c_run(c_load: i64, random: &mut Random) -> i64 {
    loop {
        let c = random.between(0, 255);
        let difference = (c - c_load).abs();
        if (65..=119).contains(&difference) && difference != 96 && difference != 112 {
            return c;
        }
    }
}

impl Tpcc {
    /// With data of a seed, and a run of the same.
    pub(crate) fn new(scale: Scale, seed: u64) -> Self {
        let mut random = Random::new(seed, u64::MAX - 1);
        let c_last = c_run(c_load(seed), &mut random);
        Self {
            scale,
            active: AtomicI64::new(scale.warehouses),
            has_suppliers: false,
            seed,
            c_last: AtomicI64::new(c_last),
            c_customer: random.between(0, 1023),
            c_item: random.between(0, 8191),
        }
    }

    /// The same transactions on the data of CH-benCHmark.
    pub(crate) fn with_suppliers(scale: Scale, seed: u64) -> Self {
        Self { has_suppliers: true, ..Self::new(scale, seed) }
    }

    fn active(&self) -> i64 {
        self.active.load(Ordering::Relaxed)
    }

    /// The home of a terminal, and its district.
    fn home(&self, client: u32) -> (i64, i64) {
        let (client, warehouses) = (i64::from(client), self.active());
        (client % warehouses + 1, client / warehouses % DISTRICTS + 1)
    }

    fn customer_number(&self, random: &mut Random) -> i64 {
        random.nurand(1023, 1, self.scale.customers, self.c_customer)
    }

    fn item_number(&self, random: &mut Random) -> i64 {
        random.nurand(8191, 1, self.scale.items, self.c_item)
    }

    /// The number of a last name in a run.
    fn name_number(&self, random: &mut Random) -> i64 {
        random.nurand(255, 0, self.scale.names() - 1, self.c_last.load(Ordering::Relaxed))
    }

    /// A warehouse other than this one, if there is another.
    fn other_warehouse(&self, home: i64, random: &mut Random) -> i64 {
        let warehouses = self.active();
        if warehouses == 1 {
            return home;
        }
        let other = random.between(1, warehouses - 1);
        other + i64::from(other >= home)
    }
}

/// Takes a card out of a deck that is not empty, each as likely, which is what shuffling and
/// dealing is; gives its kind.
fn deal(deck: &mut [u8; 5], random: &mut Random) -> usize {
    let left: u8 = deck.iter().sum();
    let mut card = random.below(left.into()) as u8;
    let mut kind = 0;
    while card >= deck[kind] {
        card -= deck[kind];
        kind += 1;
    }
    deck[kind] -= 1;
    kind
}

/// A think time after a transaction of this kind.
fn think(kind: usize, random: &mut Random) -> Duration {
    let (_, _, mean) = DECK[kind];
    Duration::from_secs_f64(random.exponential(mean).min(mean * THINK_MAX))
}

const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The parts of a last name: one syllable for each of three digits.
fn last_name(number: i64) -> [&'static [u8]; 3] {
    [number / 100, number / 10, number].map(|digit| SYLLABLES[(digit % 10) as usize].as_bytes())
}

impl Workload for Tpcc {
    fn name(&self) -> &'static str {
        if self.has_suppliers { "ch" } else { "tpcc" }
    }

    fn about(&self) -> String {
        let warehouses = self.scale.warehouses;
        if !self.scale.is_full() {
            return format!("TPC-C in miniature, scale {warehouses}: its figures are not those of TPC-C");
        }
        let plural = if warehouses == 1 { "" } else { "s" };
        format!(
            "TPC-C 5.11, {warehouses} warehouse{plural}, deck of 100 cards a terminal (45/43/4/4/4), not audited by TPC"
        )
    }

    fn kinds(&self) -> &'static [TransactionKind] {
        &KINDS
    }

    fn tallies(&self) -> &'static [&'static str] {
        &TALLY_NAMES
    }

    fn statements(&self) -> Vec<String> {
        schema::statements()
    }

    fn imitate(&self, statement: StatementId, params: &[Cell], answer: &mut AnswerWriter<'_>) {
        imitate::imitate(self, statement, params, answer);
    }

    fn clients(&self) -> Option<u32> {
        u32::try_from(self.scale.warehouses).ok()?.checked_mul(TERMINALS)
    }

    fn set_warehouses(&self, warehouses: u32) -> Option<u32> {
        let active = i64::from(warehouses).clamp(1, self.scale.warehouses);
        self.active.store(active, Ordering::Relaxed);
        Some(active as u32 * TERMINALS)
    }

    fn warehouses(&self) -> Option<u32> {
        u32::try_from(self.scale.warehouses).ok()
    }

    fn cycle(&self) -> Option<Duration> {
        let seconds = |&(cards, keying, think): &(u8, u64, f64)| f64::from(cards) * (keying as f64 + think);
        Some(Duration::from_secs_f64(DECK.iter().map(seconds).sum::<f64>() / f64::from(CARDS)))
    }

    /// The cycle that a visitor comes into at a random moment, thinking after one card and keying
    /// the next: long ones are met more often, and they are those that lead to a NewOrder, whose
    /// keying is long. Spread evenly over a mean cycle instead, terminals would come in waves for
    /// minutes; with a card that the wait knows nothing of, NewOrders would be missing until their
    /// keying is over.
    fn first(&self, client: &mut Client) -> Option<Choice> {
        let longest = |of: fn(&(u8, u64, f64)) -> f64| DECK.iter().map(of).fold(0.0, f64::max);
        let cycle_max = longest(|&(_, keying, _)| keying as f64) + longest(|&(_, _, mean)| mean * THINK_MAX);
        let random = &mut client.random;
        loop {
            let mut deck = DECK.map(|(cards, ..)| cards);
            let before = deal(&mut deck, random);
            // Any two cards of a deck are as likely to be neighbours; the last one is followed by
            // the first of another deck.
            let is_last = random.chance(1, CARDS.into());
            if is_last {
                deck = DECK.map(|(cards, ..)| cards);
            }
            let next = deal(&mut deck, random);
            let (_, keying, _) = DECK[next];
            let cycle = keying as f64 + think(before, random).as_secs_f64();
            if random.unit() * cycle_max >= cycle {
                continue;
            }
            if !is_last {
                // Those dealt before the two: none to all of the others.
                for _ in 0..random.below(u64::from(CARDS) - 1) {
                    deal(&mut deck, random);
                }
            }
            client.deck[..5].copy_from_slice(&deck);
            let left = Duration::from_secs_f64(random.unit() * cycle);
            return Some(Choice { kind: next as u8, keying: left, think: think(next, random) });
        }
    }

    fn choose(&self, client: &mut Client) -> Choice {
        let deck = client.deck.first_chunk_mut().expect("the sixth place is not for cards");
        if deck.iter().all(|&left| left == 0) {
            *deck = DECK.map(|(cards, ..)| cards);
        }
        let kind = deal(deck, &mut client.random);
        let (_, keying, _) = DECK[kind];
        Choice { kind: kind as u8, keying: Duration::from_secs(keying), think: think(kind, &mut client.random) }
    }

    fn transaction<'a>(
        &'a self,
        client: &'a mut Client,
        kind: u8,
        session: &'a mut Session,
    ) -> Boxed<'a, Result<Done, Failure>> {
        match kind {
            NEW_ORDER => Box::pin(transactions::new_order(self, client, session)),
            PAYMENT => Box::pin(transactions::payment(self, client, session)),
            ORDER_STATUS => Box::pin(transactions::order_status(self, client, session)),
            DELIVERY => Box::pin(transactions::delivery(self, client, session)),
            // StockLevel.
            _ => Box::pin(transactions::stock_level(self, client, session)),
        }
    }

    fn data(&self) -> Box<dyn load::Data + '_> {
        Box::new(generate::TpccData { scale: self.scale, seed: self.seed, has_suppliers: self.has_suppliers })
    }

    fn prepare<'a>(&'a self, target: &'a dyn Target) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async move {
            if !target.keeps_data() {
                return Ok(());
            }
            let mut session = target.connect(&[]).await?;
            let table = session.query("SELECT c_last FROM tpcc_load").await?;
            let stored = table.answer().int(0, 0).ok_or_else(|| Failure::answer("the table tpcc_load is empty"))?;
            self.c_last.store(c_run(stored, &mut Random::new(self.seed, u64::MAX - 1)), Ordering::Relaxed);
            Ok(())
        })
    }

    fn check<'a>(
        &'a self,
        target: &'a dyn Target,
        each: &'a mut (dyn FnMut(&Finding) + Send),
    ) -> Boxed<'a, Result<Vec<Finding>, Failure>> {
        Box::pin(conditions::check(self.scale, target, each))
    }

    fn mark_query(&self) -> Option<&'static str> {
        Some("SELECT sum(d_next_o_id) FROM district")
    }

    fn reconcile(&self, before: i64, after: i64, acknowledged: &Acknowledged) -> Option<Finding> {
        let orders = usize::from(NEW_ORDER);
        let least = acknowledged.committed[orders] as i64;
        let most = least + acknowledged.unknown[orders] as i64;
        Some(Finding::count("acknowledged NewOrders are there, and no others", after - before, least, most))
    }

    fn audit(&self, totals: &Totals) -> Vec<Finding> {
        audit::audit(self, totals)
    }

    fn figures(&self, totals: &Totals, seconds: f64) -> Vec<(&'static str, f64)> {
        let orders = usize::from(NEW_ORDER);
        let (Some(&committed), Some(&rolled_back)) = (totals.committed.get(orders), totals.rolled_back.get(orders))
        else {
            return Vec::new();
        };
        let a_minute = |count: u64| count as f64 * 60.0 / seconds;
        let mut figures =
            vec![("tpmC", a_minute(committed)), ("tpmC with rolled-back orders", a_minute(committed + rolled_back))];
        if totals.has_think_times {
            let most = TPMC_MAX * self.active() as f64;
            figures.push(("efficiency %", a_minute(committed) / most * 100.0));
        }
        figures
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! YDB's orders on a stock of products.
//!
//! | transaction | does |
//! | --- | --- |
//! | `add-rand-order` | inserts an order, not processed, and its lines |
//! | `put-rand-order` | the same, and then processes it: takes all its lines from stock, or changes nothing and gives those that are short |
//! | `put-same-order` | the same on always the same first products |
//! | `rand-user-hist`, `user-hist` | the latest ten orders of any customer, or of one |
//!
//! Adding an order is one transaction, processing it another; `put` is both, one after the other,
//! and its latency that of both. An order has round(2·E) lines, where E is exponential with λ =
//! 1.6, drawn again while that is none; each line is another product.
//!
//! Not here: restocking. The original's 1,000 units of 100 products last for 55,000 orders, which
//! is seconds: by default there are a thousand times as many, and the audit tells of orders that
//! were short.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;

use crate::measure::random::{Random, mix};
use crate::sql::target::batch::AnswerWriter;
use crate::sql::target::{BEGIN, Boxed, COMMIT, Cell, FIRST, Failure, Kind, ROLLBACK, Session, StatementId, Target};
use crate::sql::workload::load::{self, PartRows, push_int};
use crate::sql::workload::{Acknowledged, Choice, Client, Done, Finding, TALLIES, Totals, TransactionKind, Workload};

const ADD: u8 = 0;
const PUT: u8 = 1;
const HISTORY: u8 = 2;

const KINDS: [TransactionKind; 3] = [
    TransactionKind::new("AddOrder", true),
    TransactionKind::new("PutOrder", true),
    TransactionKind::new("UserHistory", false),
];

const RATE_OF_LINES: f64 = 1.6;
const CUSTOMERS: i64 = 10_000;
const HISTORY_ORDERS: i64 = 10;
/// Lines of an order at the most, however exponential; one in ten million would have more.
const LINES_MAX: usize = 20;

const INSERT_ORDER: StatementId = StatementId(FIRST);
const INSERT_LINE: StatementId = StatementId(FIRST + 1);
const LOCK_STOCK: StatementId = StatementId(FIRST + 2);
const READ_LINES: StatementId = StatementId(FIRST + 3);
const TAKE_STOCK: StatementId = StatementId(FIRST + 4);
const PROCESS: StatementId = StatementId(FIRST + 5);
const READ_HISTORY: StatementId = StatementId(FIRST + 6);

const LINES: usize = 0;
const PROCESSED: usize = 1;
const SHORT: usize = 2;
const SHORT_ORDERS: &str = "orders short of stock";
const TALLY_NAMES: [&str; 3] = ["order lines", "orders processed", SHORT_ORDERS];
/// The share of orders of a run that may be short of stock.
const SHORT_MAX: f64 = 0.01;

/// Which transactions are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mix {
    /// Insert orders.
    AddRandOrder,
    /// Insert and process orders.
    PutRandOrder,
    /// Insert and process orders of the same products.
    PutSameOrder,
    /// The latest orders of any customer.
    RandUserHist,
    /// The latest orders of one customer.
    UserHist,
}

impl Mix {
    fn kind(self) -> u8 {
        match self {
            Self::AddRandOrder => ADD,
            Self::PutRandOrder | Self::PutSameOrder => PUT,
            Self::RandUserHist | Self::UserHist => HISTORY,
        }
    }
}

/// Orders that are checked at once: what a database groups and joins for that fits into the memory
/// that it gives a statement.
const CHECKED_AT_ONCE: u32 = 50_000;

/// The workload.
#[derive(Debug)]
pub(crate) struct Stock {
    mix: Mix,
    products: i64,
    quantity: i64,
    orders: i64,
    seed: u64,
    /// Of a run: another one on the same data has other orders.
    salt: AtomicU64,
    checked_at_once: u32,
}

/// A name that ends in a number.
#[derive(Clone, Copy)]
struct Name {
    bytes: [u8; 32],
    count: usize,
}

impl Name {
    fn new(word: &str, number: i64) -> Self {
        let mut bytes = [0; 32];
        bytes[..word.len()].copy_from_slice(word.as_bytes());
        let mut digits = Vec::with_capacity(20);
        push_int(&mut digits, number);
        bytes[word.len()..word.len() + digits.len()].copy_from_slice(&digits);
        Self { bytes, count: word.len() + digits.len() }
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..self.count]
    }
}

fn product(number: i64) -> Name {
    Name::new("product_", number)
}

fn customer(number: i64) -> Name {
    Name::new("Name", number)
}

fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as i64 - 946_684_800_000_000
}

/// How many lines an order has: at least one.
fn line_count(random: &mut Random) -> usize {
    loop {
        let count = (2.0 * random.exponential(1.0 / RATE_OF_LINES)).round() as usize;
        if count > 0 {
            return count.min(LINES_MAX);
        }
    }
}

struct Order {
    id: i64,
    customer: i64,
    /// Numbers of products, each once, in ascending order.
    products: [i64; LINES_MAX],
    count: usize,
}

impl Stock {
    pub(crate) fn new(mix: Mix, products: u32, quantity: u32, orders: u32, seed: u64) -> Self {
        Self {
            mix,
            products: products.into(),
            quantity: quantity.into(),
            orders: orders.into(),
            seed,
            salt: AtomicU64::new(0),
            checked_at_once: CHECKED_AT_ONCE,
        }
    }

    fn draw(&self, random: &mut Random) -> Order {
        let id = (random.next() ^ self.salt.load(Ordering::Relaxed)) as i64;
        let customer = random.between(1, CUSTOMERS);
        let count = line_count(random).min(self.products as usize);
        let mut products = [0; LINES_MAX];
        for place in 0..count {
            products[place] = place as i64 + 1;
            if self.mix != Mix::PutSameOrder {
                products[place] = loop {
                    let drawn = random.between(1, self.products);
                    if !products[..place].contains(&drawn) {
                        break drawn;
                    }
                };
            }
        }
        products[..count].sort_unstable();
        Order { id, customer, products, count }
    }

    async fn add(&self, order: &Order, session: &mut Session) -> Result<(), Failure> {
        session.call(BEGIN);
        session.call(INSERT_ORDER).int(order.id).text(customer(order.customer).get()).time(now_micros());
        for &number in &order.products[..order.count] {
            session.call(INSERT_LINE).int(order.id).text(product(number).get()).int(1);
        }
        session.call(COMMIT);
        session.run().await
    }

    /// Whether everything was in stock.
    async fn process(&self, order: &Order, session: &mut Session) -> Result<bool, Failure> {
        session.call(BEGIN);
        for &number in &order.products[..order.count] {
            session.call(LOCK_STOCK).text(product(number).get());
        }
        session.call(READ_LINES).int(order.id);
        session.run().await?;
        let lines = session.answer(1 + order.count);
        if lines.rows() == 0 {
            return Err(Failure::answer("the lines of an order are not there"));
        }
        // Product, wanted, in stock.
        let short = (0..lines.rows()).filter(|&row| lines.int(row, 1) > lines.int(row, 2)).count();
        if short > 0 {
            session.call(ROLLBACK);
            session.run().await?;
            return Ok(false);
        }
        for &number in &order.products[..order.count] {
            session.call(TAKE_STOCK).text(product(number).get()).int(1);
        }
        session.call(PROCESS).int(order.id).time(now_micros());
        session.call(COMMIT);
        session.run().await?;
        Ok(true)
    }

    async fn history(&self, random: &mut Random, session: &mut Session) -> Result<(), Failure> {
        let number = if self.mix == Mix::UserHist { 1 } else { random.between(1, CUSTOMERS) };
        session.call(READ_HISTORY).text(customer(number).get()).int(HISTORY_ORDERS);
        session.run().await
    }
}

impl Workload for Stock {
    fn name(&self) -> &'static str {
        "stock"
    }

    fn about(&self) -> String {
        let mix = self.mix.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        format!("stock {mix}, {} products, {} of each, {} orders", self.products, self.quantity, self.orders)
    }

    fn kinds(&self) -> &'static [TransactionKind] {
        &KINDS
    }

    fn tallies(&self) -> &'static [&'static str] {
        &TALLY_NAMES
    }

    fn statements(&self) -> Vec<String> {
        [
            "INSERT INTO orders (id, customer, created) VALUES ($1, $2, $3)",
            "INSERT INTO order_lines (id_order, product, quantity) VALUES ($1, $2, $3)",
            "SELECT quantity FROM stock WHERE product = $1 FOR UPDATE",
            "SELECT l.product, l.quantity, s.quantity FROM order_lines AS l JOIN stock AS s ON s.product = l.product \
             WHERE l.id_order = $1",
            "UPDATE stock SET quantity = quantity - $2 WHERE product = $1",
            "UPDATE orders SET processed = $2 WHERE id = $1",
            "SELECT id, created, processed FROM orders WHERE customer = $1 ORDER BY created DESC LIMIT $2",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn imitate(&self, statement: StatementId, _params: &[Cell], answer: &mut AnswerWriter<'_>) {
        match statement {
            LOCK_STOCK => {
                answer.cell(Cell::Int(self.quantity));
                answer.end_row(1);
            }
            READ_LINES => {
                // About as many as orders have.
                for line in 1..=2 {
                    answer.text(product(line).get());
                    answer.cell(Cell::Int(1));
                    answer.cell(Cell::Int(self.quantity));
                    answer.end_row(3);
                }
            }
            READ_HISTORY => {
                for order in 0..HISTORY_ORDERS {
                    [Cell::Int(order), Cell::Time(order), Cell::Null].into_iter().for_each(|cell| answer.cell(cell));
                    answer.end_row(3);
                }
            }
            _ => answer.affected(1),
        }
    }

    fn choose(&self, _client: &mut Client) -> Choice {
        Choice { kind: self.mix.kind(), keying: Duration::ZERO, think: Duration::ZERO }
    }

    fn transaction<'a>(
        &'a self,
        client: &'a mut Client,
        kind: u8,
        session: &'a mut Session,
    ) -> Boxed<'a, Result<Done, Failure>> {
        Box::pin(async move {
            let mut tally = [0; TALLIES];
            if kind == HISTORY {
                self.history(&mut client.random, session).await?;
                return Ok(Done { rolled_back: false, tally });
            }
            let order = self.draw(&mut client.random);
            tally[LINES] = order.count as u32;
            self.add(&order, session).await?;
            if kind == PUT {
                // Tried again by itself: the order is there already.
                let processed = self.process_until_done(&order, session).await?;
                tally[if processed { PROCESSED } else { SHORT }] = 1;
            }
            Ok(Done { rolled_back: false, tally })
        })
    }

    fn data(&self) -> Box<dyn load::Data + '_> {
        Box::new(StockData { of: self })
    }

    fn prepare<'a>(&'a self, target: &'a dyn Target) -> Boxed<'a, Result<(), Failure>> {
        Box::pin(async move {
            let there = self.mark(target).await?.unwrap_or_default();
            self.salt.store(mix(there as u64), Ordering::Relaxed);
            Ok(())
        })
    }

    fn check<'a>(
        &'a self,
        target: &'a dyn Target,
        each: &'a mut (dyn FnMut(&Finding) + Send),
    ) -> Boxed<'a, Result<Vec<Finding>, Failure>> {
        Box::pin(async move {
            let mut session = target.connect(&[]).await?;
            let (mut taken, mut without_lines, mut without_order) = (HashMap::new(), 0, 0);
            for range in IdRange::all(session.count("SELECT count(*) FROM orders").await?, self.checked_at_once) {
                let (of_order, of_line) = (range.holds("id"), range.holds("id_order"));
                let sql = format!(
                    "SELECT l.product, sum(l.quantity) FROM orders AS o JOIN order_lines AS l ON l.id_order = o.id \
                     WHERE o.processed IS NOT NULL AND {of_order} AND {of_line} GROUP BY l.product"
                );
                let table = session.query(&sql).await.map_err(|failure| failure.doing(&sql))?;
                let answer = table.answer();
                for row in 0..answer.rows() {
                    let product = answer.text(row, 0).unwrap_or_default().to_vec();
                    *taken.entry(product).or_insert(0) += answer.decimal(row, 1, 0).unwrap_or_default();
                }
                without_lines += session
                    .count(&format!(
                        "SELECT count(*) FROM orders LEFT JOIN (SELECT id_order, count(*) AS lines FROM order_lines \
                         WHERE {of_line} GROUP BY id_order) AS l ON id_order = id WHERE lines IS NULL AND {of_order}"
                    ))
                    .await?;
                without_order += session
                    .count(&format!(
                        "SELECT count(*) FROM order_lines LEFT JOIN (SELECT id FROM orders WHERE {of_order}) AS o \
                         ON id = id_order WHERE id IS NULL AND {of_line}"
                    ))
                    .await?;
            }
            let sql = "SELECT product, quantity FROM stock";
            let table = session.query(sql).await.map_err(|failure| failure.doing(sql))?;
            let answer = table.answer();
            let is_off = |&row: &usize| {
                let taken = taken.get(answer.text(row, 0).unwrap_or_default()).copied().unwrap_or_default();
                let left = answer.decimal(row, 1, 0);
                left.is_none_or(|left| left < 0 || left != self.quantity - taken)
            };
            let off = (0..answer.rows()).filter(is_off).count();
            let findings = [
                ("products", answer.rows() as i64, self.products),
                ("products with another quantity than was left over by processed orders", off as i64, 0),
                ("orders without lines", without_lines, 0),
                ("lines without an order", without_order, 0),
            ];
            let findings: Vec<Finding> =
                findings.into_iter().map(|(what, found, wanted)| Finding::count(what, found, wanted, wanted)).collect();
            findings.iter().for_each(each);
            Ok(findings)
        })
    }

    fn mark_query(&self) -> Option<&'static str> {
        Some("SELECT count(*) FROM orders")
    }

    fn reconcile(&self, before: i64, after: i64, acknowledged: &Acknowledged) -> Option<Finding> {
        let sum = |counts: &[u64]| (counts[usize::from(ADD)] + counts[usize::from(PUT)]) as i64;
        let least = sum(&acknowledged.committed);
        // A put that failed for good has added its order before, or may have.
        let most = least + sum(&acknowledged.unknown);
        Some(Finding::count("acknowledged orders are there, and no others", after - before, least, most))
    }

    fn audit(&self, totals: &Totals) -> Vec<Finding> {
        let orders = totals.committed[usize::from(ADD)] + totals.committed[usize::from(PUT)];
        let mut findings = Vec::new();
        if orders > 0 {
            // Of round(2·E) where it is not zero, which rounding makes geometric: 1 + 1/(e^(λ/2) −
            // 1), and its deviation.
            let rest = (-RATE_OF_LINES / 2.0).exp();
            let (expected, deviation) = (1.0 / (1.0 - rest), rest.sqrt() / (1.0 - rest));
            let band = (expected * 0.98, expected * 1.02);
            findings.push(Finding::mean("lines of an order", (totals.tally[LINES], orders), expected, band, deviation));
        }
        let (processed, short) = (totals.tally[PROCESSED], totals.tally[SHORT]);
        if processed + short > 0 {
            // An order that is short changes nothing: a run of them measures something else than
            // its name says.
            findings.push(Finding::share(SHORT_ORDERS, short, processed + short, 0.0, 0.0, SHORT_MAX));
        }
        findings
    }
}

impl Stock {
    /// Processes an order, again after conflicts: those of a transaction that has already added it
    /// may not add it again. However that fails, the order is there, so what the transaction has
    /// done is not known.
    async fn process_until_done(&self, order: &Order, session: &mut Session) -> Result<bool, Failure> {
        const TRIES: u32 = 100;
        let mut random = Random::new(mix(order.id as u64), 1);
        let mut tries = 0;
        loop {
            let failure = match self.process(order, session).await {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            tries += 1;
            if failure.kind() != Kind::Conflict || tries == TRIES {
                return Err(failure.half_way());
            }
            session.repeats();
            let most = Duration::from_micros(200) * (1 << tries.min(7));
            colibri_runtime::sleep(most.mul_f64(random.unit())).await;
        }
    }
}

/// A range of the ids of orders. A bound that is not there leaves nothing out.
#[derive(Debug)]
struct IdRange {
    first: Option<i64>,
    last: Option<i64>,
}

impl IdRange {
    /// All ids, which are uniform, in ranges with about `in_each` orders each.
    fn all(orders: i64, in_each: u32) -> impl Iterator<Item = Self> {
        let count = orders / i64::from(in_each) + 1;
        let begin = move |place: i64| {
            let number = i128::from(i64::MIN) + (1 << 64) * i128::from(place) / i128::from(count);
            i64::try_from(number).ok().filter(|_| place > 0)
        };
        (0..count).map(move |place| Self { first: begin(place), last: begin(place + 1).map(|next| next - 1) })
    }

    /// The condition that a column is in it.
    fn holds(&self, column: &str) -> String {
        let bounds = [
            self.first.map(|first| format!("{column} >= {first}")),
            self.last.map(|last| format!("{column} <= {last}")),
        ];
        let bounds: Vec<String> = bounds.into_iter().flatten().collect();
        if bounds.is_empty() { "1 = 1".to_owned() } else { bounds.join(" AND ") }
    }
}

struct StockData<'s> {
    of: &'s Stock,
}

impl load::Data for StockData<'_> {
    fn fingerprint(&self) -> String {
        let Stock { products, quantity, orders, seed, .. } = self.of;
        format!("stock, {products} products, {quantity} of each, {orders} orders, seed {seed}")
    }

    fn tables(&self) -> Vec<String> {
        [
            "CREATE TABLE stock (product varchar(32) PRIMARY KEY, quantity bigint NOT NULL)",
            "CREATE TABLE orders (id bigint PRIMARY KEY, customer varchar(32) NOT NULL, created timestamp NOT NULL, \
             processed timestamp)",
            "CREATE TABLE order_lines (id_order bigint, product varchar(32), quantity bigint NOT NULL, \
             PRIMARY KEY (id_order, product))",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn indexes(&self) -> Vec<String> {
        vec!["CREATE INDEX IF NOT EXISTS orders_by_customer ON orders (customer, created)".to_owned()]
    }

    fn table_names(&self) -> Vec<&'static str> {
        vec!["stock", "orders", "order_lines"]
    }

    fn parts(&self) -> u32 {
        1
    }

    fn rows(&self) -> u64 {
        (self.of.products + self.of.orders * 3) as u64
    }

    fn generate(&self, part: u32, rows: &mut PartRows) {
        let random = &mut Random::new(self.of.seed, part.into());
        let table = rows.table("stock (product, quantity)");
        for number in 1..=self.of.products {
            table.text(product(number).get()).int(self.of.quantity).end_row();
        }
        // Without the salt of a run, which may have been set before.
        let salt = self.of.salt.load(Ordering::Relaxed);
        let unsalted = |order: Order| Order { id: order.id ^ salt as i64, ..order };
        let orders: Vec<Order> = (0..self.of.orders).map(|_| unsalted(self.of.draw(random))).collect();
        let table = rows.table("orders (id, customer, created)");
        for order in &orders {
            table.int(order.id).text(customer(order.customer).get()).text(b"2020-01-01 00:00:00").end_row();
        }
        let table = rows.table("order_lines (id_order, product, quantity)");
        for order in &orders {
            for &number in &order.products[..order.count] {
                table.int(order.id).text(product(number).get()).int(1).end_row();
            }
        }
    }
}

#[cfg(test)]
mod tests;

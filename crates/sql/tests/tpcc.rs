//! TPC-C's five transactions from many sessions on one warehouse: hardly any has to be run again,
//! and the consistency conditions of clause 3.3.2 hold afterwards.
//!
//! The ordinary form loads a tenth of a warehouse, `--ignored` all of it and runs for longer:
//! `cargo test --release -p colibri-sql --test tpcc -- --ignored --nocapture`.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use colibri_sql::{Datum, Engine, Error, Numeric, Prepared, Result, Session};
use colibri_storage::{Database, Durability, Options};

const SCHEMA: &str = "
CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name varchar(10), w_tax numeric(4,4), w_ytd numeric(12,2));
CREATE TABLE district (d_w_id int, d_id int, d_name varchar(10), d_tax numeric(4,4), d_ytd numeric(12,2), d_next_o_id int,
  PRIMARY KEY (d_w_id, d_id));
CREATE TABLE customer (c_w_id int, c_d_id int, c_id int, c_first varchar(16), c_middle char(2), c_last varchar(16),
  c_credit char(2), c_discount numeric(4,4), c_balance numeric(12,2), c_ytd_payment numeric(12,2), c_payment_cnt int,
  c_delivery_cnt int, c_data varchar(500), PRIMARY KEY (c_w_id, c_d_id, c_id));
CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE TABLE history (h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date timestamp,
  h_amount numeric(6,2), h_data varchar(24));
CREATE TABLE orders (o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d timestamp, o_carrier_id int, o_ol_cnt int,
  o_all_local int, PRIMARY KEY (o_w_id, o_d_id, o_id));
CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id DESC);
CREATE TABLE new_order (no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE item (i_id int PRIMARY KEY, i_im_id int, i_name varchar(24), i_price numeric(5,2), i_data varchar(50));
CREATE TABLE stock (s_w_id int, s_i_id int, s_quantity int, s_dist char(24), s_ytd int, s_order_cnt int,
  s_remote_cnt int, s_data varchar(50), PRIMARY KEY (s_w_id, s_i_id));
CREATE TABLE order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_supply_w_id int,
  ol_delivery_d timestamp, ol_quantity int, ol_amount numeric(6,2), ol_dist_info char(24),
  PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
";

#[derive(Clone, Copy)]
struct Scale {
    items: i64,
    customers: i64,
}

impl Scale {
    /// Orders that are delivered when the database is loaded: seven of ten.
    fn delivered(self) -> i64 {
        self.customers * 7 / 10
    }
}

fn last_name(number: i64) -> String {
    const PARTS: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    let part = |digit: i64| PARTS[(digit % 10) as usize];
    format!("{}{}{}", part(number / 100), part(number / 10), part(number))
}

fn load(engine: &Arc<Engine>, scale: Scale) {
    let mut session = Session::new(engine, "tpcc");
    session.run(SCHEMA).unwrap();
    let Scale { items, customers } = scale;
    let delivered = scale.delivered();
    session
        .run(&format!(
            "INSERT INTO warehouse VALUES (1, 'W', 0.1000, 300000.00);
             INSERT INTO district SELECT 1, d, 'D' || d, 0.0500, 30000.00, {customers} + 1 FROM generate_series(1, 10) AS g(d);
             INSERT INTO item SELECT i, i % 10000, 'item ' || i, 1 + (i % 9900) / 100.0, 'data' FROM generate_series(1, {items}) AS g(i);
             INSERT INTO stock SELECT 1, i, 10 + i % 91, 'dist', 0, 0, 0, 'data' FROM generate_series(1, {items}) AS g(i)"
        ))
        .unwrap();
    let insert = session
        .prepare(
            "INSERT INTO customer VALUES (1, $1, $2, $3, 'OE', $4, $5, 0.1000, -10.00, 10.00, 1, 0, 'some data')",
            &[],
        )
        .unwrap();
    for district in 1..=10 {
        session.run("BEGIN").unwrap();
        for customer in 1..=customers {
            let last = if customer <= 1000 { customer - 1 } else { (customer * 7919) % 1000 };
            let credit = if customer % 10 == 0 { "BC" } else { "GC" };
            let params = vec![
                Datum::Int(district),
                Datum::Int(customer),
                Datum::text(&format!("first{}", customer % 100)),
                Datum::text(&last_name(last)),
                Datum::text(credit),
            ];
            session.execute(&insert, params).unwrap();
        }
        session.run("COMMIT").unwrap();
        // Customers in another order than orders: multiplying by a number without a common factor
        // is a permutation.
        session
            .run(&format!(
                "INSERT INTO history SELECT c_id, {district}, 1, {district}, 1, now(), 10.00, 'h' FROM customer
                   WHERE c_w_id = 1 AND c_d_id = {district};
                 INSERT INTO orders SELECT 1, {district}, o, 1 + (o * 7919) % {customers}, now(),
                   CASE WHEN o <= {delivered} THEN 1 + o % 10 END, 5 + o % 11, 1 FROM generate_series(1, {customers}) AS g(o);
                 INSERT INTO new_order SELECT 1, {district}, o FROM generate_series({delivered} + 1, {customers}) AS g(o);
                 INSERT INTO order_line SELECT 1, {district}, o, l, 1 + (o * 31 + l * 17) % {items}, 1,
                   CASE WHEN o <= {delivered} THEN now()::timestamp END, 5,
                   CASE WHEN o <= {delivered} THEN 0.00 ELSE 1 + (o + l) % 99 + 0.01 END, 'dist'
                   FROM generate_series(1, {customers}) AS g(o), generate_series(1, 15) AS h(l) WHERE l <= 5 + o % 11"
            ))
            .unwrap();
    }
}

/// A small generator of random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// From 1.
    fn up_to(&mut self, high: i64) -> i64 {
        1 + (self.next() % high as u64) as i64
    }

    fn skewed(&mut self, a: i64, high: i64) -> i64 {
        let (one, other) = (self.up_to(a + 1) - 1, self.up_to(high) - 1);
        1 + ((one | other) + 42) % high
    }
}

struct Terminal {
    session: Session,
    random: Random,
    scale: Scale,
    statements: std::collections::HashMap<&'static str, Arc<Prepared>>,
}

fn int(value: &Datum) -> i64 {
    match value {
        Datum::Int(value) => *value,
        other => panic!("{other:?} is not an integer"),
    }
}

fn cents(value: i64) -> Datum {
    Datum::Numeric(Numeric::new(value.into(), 2))
}

impl Terminal {
    fn new(engine: &Arc<Engine>, number: u64, scale: Scale) -> Self {
        Self {
            session: Session::new(engine, "tpcc"),
            random: Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            scale,
            statements: std::collections::HashMap::new(),
        }
    }

    fn sql(&mut self, text: &'static str, params: Vec<Datum>) -> Result<Vec<Vec<Datum>>> {
        let prepared = match self.statements.get(text) {
            Some(prepared) => Arc::clone(prepared),
            None => {
                let prepared = self.session.prepare(text, &[])?;
                self.statements.insert(text, Arc::clone(&prepared));
                prepared
            }
        };
        Ok(self.session.execute(&prepared, params)?.rows.iter().map(<[Datum]>::to_vec).collect())
    }

    fn ints(&mut self, text: &'static str, params: &[i64]) -> Result<Vec<Vec<Datum>>> {
        self.sql(text, params.iter().map(|&value| Datum::Int(value)).collect())
    }

    /// One transaction; `false` if it rolls itself back, as one NewOrder in a hundred does.
    fn transaction(&mut self) -> Result<bool> {
        self.sql("BEGIN", Vec::new())?;
        let done = match self.random.up_to(100) {
            1..=45 => self.new_order(),
            46..=88 => self.payment().map(|()| true),
            89..=92 => self.order_status().map(|()| true),
            93..=96 => self.delivery().map(|()| true),
            _ => self.stock_level().map(|()| true),
        };

        match &done {
            Ok(true) => self.sql("COMMIT", Vec::new()).map(|_| true),
            Ok(false) => self.sql("ROLLBACK", Vec::new()).map(|_| false),
            Err(_) => {
                self.sql("ROLLBACK", Vec::new())?;
                done
            }
        }
    }

    fn new_order(&mut self) -> Result<bool> {
        let district = self.random.up_to(10);
        let customer = self.random.skewed(1023, self.scale.customers);
        let lines = 4 + self.random.up_to(11);
        let rolls_back = self.random.up_to(100) == 1;
        self.ints("SELECT w_tax FROM warehouse WHERE w_id = $1", &[1])?;
        let next = self.ints(
            "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE",
            &[1, district],
        )?;
        let order = int(&next[0][0]);
        self.ints("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2", &[1, district])?;
        self.ints(
            "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            &[1, district, customer],
        )?;
        self.ints(
            "INSERT INTO orders VALUES ($1, $2, $3, $4, now(), NULL, $5, 1)",
            &[1, district, order, customer, lines],
        )?;
        self.ints("INSERT INTO new_order VALUES ($1, $2, $3)", &[1, district, order])?;
        // In the order of items, so that two orders never wait for each other's stock.
        let mut items: Vec<i64> = Vec::new();
        while (items.len() as i64) < lines {
            let item = self.random.skewed(8191, self.scale.items);
            if !items.contains(&item) {
                items.push(item);
            }
        }
        items.sort_unstable();
        for (line, &item) in items.iter().enumerate() {
            let last = line + 1 == items.len();
            let item = if rolls_back && last { self.scale.items + 1 } else { item };
            let found = self.ints("SELECT i_price, i_name, i_data FROM item WHERE i_id = $1", &[item])?;
            let [row] = &found[..] else { return Ok(false) };
            let Datum::Numeric(price) = &row[0] else { panic!("a price is numeric") };
            let quantity = self.random.up_to(10);
            let stock = self.ints(
                "SELECT s_quantity, s_dist FROM stock WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE",
                &[1, item],
            )?;
            let left = int(&stock[0][0]);
            let left = if left >= quantity + 10 { left - quantity } else { left - quantity + 91 };
            self.ints(
                "UPDATE stock SET s_quantity = $3, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1 \
                 WHERE s_w_id = $1 AND s_i_id = $2",
                &[1, item, left, quantity],
            )?;
            let amount = price.mul(&Numeric::new(quantity.into(), 0))?;
            let mut params: Vec<Datum> = [1, district, order, line as i64 + 1, item, quantity].map(Datum::Int).to_vec();
            params.push(Datum::Numeric(amount));
            self.sql("INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, 1, NULL, $6, $7, 'dist')", params)?;
        }
        Ok(true)
    }

    fn customer(&mut self, district: i64) -> Result<i64> {
        if self.random.up_to(100) > 60 {
            return Ok(self.random.skewed(1023, self.scale.customers));
        }
        let last = last_name(self.random.skewed(255, self.scale.customers.min(1000)) - 1);
        let found = self.sql(
            "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first",
            vec![Datum::Int(1), Datum::Int(district), Datum::text(&last)],
        )?;
        Ok(int(&found[found.len().div_ceil(2) - 1][0]))
    }

    fn payment(&mut self) -> Result<()> {
        let district = self.random.up_to(10);
        let amount = cents(99 + self.random.up_to(499_901));
        self.sql("UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1", vec![Datum::Int(1), amount.clone()])?;
        self.ints("SELECT w_name FROM warehouse WHERE w_id = $1", &[1])?;
        self.sql(
            "UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2",
            vec![Datum::Int(1), Datum::Int(district), amount.clone()],
        )?;
        self.ints("SELECT d_name FROM district WHERE d_w_id = $1 AND d_id = $2", &[1, district])?;
        let customer = self.customer(district)?;
        let found = self.ints(
            "SELECT c_credit, c_balance, c_data FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE",
            &[1, district, customer],
        )?;
        let mut params = vec![Datum::Int(1), Datum::Int(district), Datum::Int(customer), amount.clone()];
        if found[0][0] == Datum::text("BC") {
            params.push(Datum::text(&format!("{customer} {district} {amount:?}")));
            self.sql(
                "UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, \
                 c_payment_cnt = c_payment_cnt + 1, c_data = substring($5 || c_data FROM 1 FOR 500) \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
                params,
            )?;
        } else {
            self.sql(
                "UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, \
                 c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
                params,
            )?;
        }
        self.sql(
            "INSERT INTO history VALUES ($1, $2, 1, $2, 1, now(), $3, 'h')",
            vec![Datum::Int(customer), Datum::Int(district), amount],
        )?;
        Ok(())
    }

    fn order_status(&mut self) -> Result<()> {
        let district = self.random.up_to(10);
        let customer = self.customer(district)?;
        let found = self.ints(
            "SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 \
             ORDER BY o_id DESC LIMIT 1",
            &[1, district, customer],
        )?;
        if let [row] = &found[..] {
            let lines = self.ints(
                "SELECT ol_i_id, ol_quantity, ol_amount FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
                &[1, district, int(&row[0])],
            )?;
            assert!((5..=15).contains(&lines.len()));
        }
        Ok(())
    }

    fn delivery(&mut self) -> Result<()> {
        let carrier = self.random.up_to(10);
        for district in 1..=10 {
            let found = self.ints(
                "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1 FOR UPDATE",
                &[1, district],
            )?;
            let [row] = &found[..] else { continue };
            let order = int(&row[0]);
            self.ints(
                "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3",
                &[1, district, order],
            )?;
            let customer = self.ints(
                "UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3 RETURNING o_c_id",
                &[1, district, order, carrier],
            )?;
            self.ints(
                "UPDATE order_line SET ol_delivery_d = now() WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
                &[1, district, order],
            )?;
            let sum = self.ints(
                "SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
                &[1, district, order],
            )?;
            self.sql(
                "UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1 \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
                vec![Datum::Int(1), Datum::Int(district), customer[0][0].clone(), sum[0][0].clone()],
            )?;
        }
        Ok(())
    }

    fn stock_level(&mut self) -> Result<()> {
        let district = self.random.up_to(10);
        let next = self.ints("SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2", &[1, district])?;
        let (next, threshold) = (int(&next[0][0]), 9 + self.random.up_to(11));
        self.ints(
            "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_i_id = ol_i_id AND s_w_id = ol_w_id \
             WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id < $3 AND ol_o_id >= $4 AND s_quantity < $5",
            &[1, district, next, next - 20, threshold],
        )?;
        Ok(())
    }
}

/// The conditions of clause 3.3.2, each as a query for what breaks it. NULL breaks it too.
const CONDITIONS: [&str; 12] = [
    "SELECT 1 FROM warehouse WHERE (w_ytd = (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)) IS NOT TRUE",
    "SELECT 1 FROM district WHERE (d_next_o_id - 1 = (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
       AND d_next_o_id - 1 = (SELECT max(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)) IS NOT TRUE",
    "SELECT 1 FROM new_order GROUP BY no_w_id, no_d_id HAVING (max(no_o_id) - min(no_o_id) + 1 = count(*)) IS NOT TRUE",
    "SELECT 1 FROM district WHERE ((SELECT sum(o_ol_cnt) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
       = (SELECT count(*) FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id)) IS NOT TRUE",
    "SELECT 1 FROM orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
       WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    "SELECT 1 FROM orders WHERE (o_ol_cnt = (SELECT count(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id
       AND ol_o_id = o_id)) IS NOT TRUE",
    "SELECT 1 FROM order_line JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
       WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    "SELECT 1 FROM warehouse WHERE (w_ytd - 300000 + (SELECT count(*) * 10 FROM customer)
       = (SELECT sum(h_amount) FROM history WHERE h_w_id = w_id)) IS NOT TRUE",
    "SELECT 1 FROM district WHERE (d_ytd - 30000 + (SELECT count(*) * 10 FROM customer WHERE c_w_id = d_w_id AND c_d_id = d_id)
       = (SELECT sum(h_amount) FROM history WHERE h_w_id = d_w_id AND h_d_id = d_id)) IS NOT TRUE",
    "SELECT 1 FROM customer
       LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM orders
         JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
         WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS d
         ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
       JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history
         GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
       WHERE (c_balance = coalesce(delivered, 0) - paid) IS NOT TRUE",
    "SELECT 1 FROM district WHERE ((SELECT count(*) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
       - (SELECT count(*) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)
       = (SELECT count(*) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id AND o_carrier_id IS NOT NULL)) IS NOT TRUE",
    "SELECT 1 FROM customer
       LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM orders
         JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
         WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS d
         ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
       WHERE (c_balance + c_ytd_payment = coalesce(delivered, 0)) IS NOT TRUE",
];

fn check_conditions(engine: &Arc<Engine>) {
    let mut session = Session::new(engine, "tpcc");
    for (index, condition) in CONDITIONS.iter().enumerate() {
        let broken = session.run(condition).unwrap()[0].rows.len();
        assert_eq!(broken, 0, "condition {} is broken by {broken} rows", index + 1);
    }
}

fn run(engine: &Arc<Engine>, sessions: u64, scale: Scale, time: Duration, transactions_max: i64) {
    let (done, aborted) = (AtomicU64::new(0), AtomicU64::new(0));
    let left = AtomicI64::new(transactions_max);
    let until = Instant::now() + time;
    std::thread::scope(|scope| {
        for number in 0..sessions {
            let (done, aborted, left) = (&done, &aborted, &left);
            scope.spawn(move || {
                let mut terminal = Terminal::new(engine, number + 1, scale);
                while left.fetch_sub(1, Ordering::Relaxed) > 0 && Instant::now() < until {
                    match terminal.transaction() {
                        Ok(_) => _ = done.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            assert!(is_conflict(&error), "{error:?}");
                            aborted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let (done, aborted) = (done.into_inner(), aborted.into_inner());
    let share = aborted as f64 / (done + aborted) as f64;
    println!("{sessions} sessions: {done} transactions, {aborted} aborted ({:.2} %)", share * 100.0);
    assert!(done > 100, "only {done} transactions in all");
    assert!(share < 0.01, "{aborted} of {} transactions were aborted", done + aborted);
    check_conditions(engine);
}

fn is_conflict(error: &Error) -> bool {
    error.is_retryable()
}

fn one_warehouse(scale: Scale, durability: Durability, time: Duration, transactions: i64) {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(Database::open(dir.path(), &Options::new().durability(durability)).unwrap()).unwrap();
    load(&engine, scale);
    check_conditions(&engine);
    for sessions in [2, 16] {
        run(&engine, sessions, scale, time, transactions);
    }
}

#[test]
fn one_warehouse_stays_consistent_and_hardly_aborts() {
    let scale = Scale { items: 1_000, customers: 300 };
    one_warehouse(scale, Durability::LAZY, Duration::from_secs(60), 1_500);
}

#[test]
#[ignore = "a minute: cargo test --release -p colibri-sql --test tpcc -- --ignored --nocapture"]
fn a_whole_warehouse_stays_consistent_and_hardly_aborts() {
    let scale = Scale { items: 100_000, customers: 3_000 };
    one_warehouse(scale, Durability::Sync, Duration::from_secs(20), i64::MAX);
}

#[test]
fn a_broken_condition_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().durability(Durability::NoSync);
    let engine = Engine::open(Database::open(dir.path(), &options).unwrap()).unwrap();
    load(&engine, Scale { items: 50, customers: 20 });
    check_conditions(&engine);
    let breaks = [
        (1, "UPDATE district SET d_ytd = d_ytd + 0.01 WHERE d_id = 3"),
        (2, "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3"),
        (3, "DELETE FROM new_order WHERE no_d_id = 3 AND no_o_id = 17"),
        (4, "DELETE FROM order_line WHERE ol_d_id = 3 AND ol_o_id = 5 AND ol_number = 1"),
        (5, "UPDATE orders SET o_carrier_id = 1 WHERE o_d_id = 3 AND o_id = 20"),
        (6, "UPDATE orders SET o_ol_cnt = 3 WHERE o_d_id = 3 AND o_id = 20"),
        (7, "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 3 AND ol_o_id = 1"),
        (8, "UPDATE history SET h_amount = 11 WHERE h_c_id = 3"),
        (9, "UPDATE history SET h_d_id = 4 WHERE h_d_id = 3 AND h_c_id = 3"),
        (10, "UPDATE customer SET c_balance = 0 WHERE c_id = 3"),
        (11, "DELETE FROM new_order WHERE no_d_id = 3 AND no_o_id = 20"),
        (12, "UPDATE customer SET c_ytd_payment = 0 WHERE c_id = 3"),
    ];
    let mut session = Session::new(&engine, "tpcc");
    for (number, change) in breaks {
        session.run("BEGIN").unwrap();
        session.run(change).unwrap();
        let broken = session.run(CONDITIONS[number - 1]).unwrap()[0].rows.len();
        assert!(broken > 0, "condition {number} does not see {change}");
        session.run("ROLLBACK").unwrap();
    }
}

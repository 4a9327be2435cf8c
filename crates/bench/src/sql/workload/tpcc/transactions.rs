//! The five transactions (clauses 2.4 to 2.8), each in two to three exchanges.
//!
//! ```text
//! NewOrder     read and lock: district's number, items, stock      │ order, lines, COMMIT
//! Payment      read: warehouse, district, customer                 │ customer, district, warehouse, history, COMMIT
//! OrderStatus  customer [│] newest order                           │ lines, COMMIT
//! Delivery     ten times the oldest order                          │ orders, lines, sums │ customers, COMMIT
//! StockLevel   district's number                                   │ count, COMMIT
//! ```
//!
//! Contended rows (district, warehouse) are changed in the last exchange where that is possible, so
//! that their locks are not held over a round trip. Stock is taken in the order of its key, so two
//! orders never wait for each other.
//!
//! Not here: formatting for a screen.

use std::hint::black_box;
use std::time::{SystemTime, UNIX_EPOCH};

use super::schema::{Statement as S, take_stock};
use super::{
    DELIVERED, DISTRICTS, LINES, PAYMENTS_BY_NAME, REMOTE_LINES, REMOTE_PAYMENTS, SKIPPED, STATUS_BY_NAME, Tpcc,
    last_name,
};
use crate::measure::random::Random;
use crate::sql::target::{BEGIN, BEGIN_READ_ONLY, COMMIT, Failure, ROLLBACK, Session};
use crate::sql::workload::load::push_int;
use crate::sql::workload::{Client, Done, TALLIES};

const LINES_MAX: usize = 15;
/// Seconds from 1970 to 2000.
const EPOCH_SECONDS: u64 = 946_684_800;
/// How often a district without an order is looked at again: another delivery may have taken its
/// oldest order.
const DELIVERY_TRIES: usize = 3;

/// Microseconds since 2000-01-01.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as i64 - (EPOCH_SECONDS * 1_000_000) as i64
}

fn missing(what: &str) -> Failure {
    Failure::answer(format!("there is no {what}: the data are damaged, or of another scale"))
}

/// A text of the database that is needed when its answer is gone.
#[derive(Clone, Copy)]
struct Short {
    bytes: [u8; 24],
    count: usize,
}

impl Short {
    fn new(text: Option<&[u8]>) -> Self {
        let text = text.unwrap_or_default();
        let count = text.len().min(24);
        let mut bytes = [0; 24];
        bytes[..count].copy_from_slice(&text[..count]);
        Self { bytes, count }
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..self.count]
    }
}

#[derive(Clone, Copy)]
struct Line {
    supply: i64,
    item: i64,
    quantity: i64,
}

struct NewOrder {
    customer: i64,
    lines: [Line; LINES_MAX],
    count: usize,
    remote: u32,
    rolls_back: bool,
}

impl NewOrder {
    fn draw(tpcc: &Tpcc, home: i64, random: &mut Random) -> Self {
        let customer = tpcc.customer_number(random);
        let count = random.between(5, 15) as usize;
        let rolls_back = random.chance(1, 100);
        let mut lines = [Line { supply: home, item: 0, quantity: 0 }; LINES_MAX];
        let mut remote = 0;
        for line in &mut lines[..count] {
            line.item = tpcc.item_number(random);
            if random.chance(1, 100) {
                line.supply = tpcc.other_warehouse(home, random);
                remote += u32::from(line.supply != home);
            }
            line.quantity = random.between(1, 10);
        }
        lines[..count].sort_unstable_by_key(|line| (line.supply, line.item));
        if rolls_back {
            // The number of an item that does not exist.
            lines[count - 1].item = tpcc.scale.items + 1;
        }
        Self { customer, lines, count, remote, rolls_back }
    }
}

pub(super) async fn new_order(tpcc: &Tpcc, client: &mut Client, session: &mut Session) -> Result<Done, Failure> {
    let (home, _) = tpcc.home(client.number);
    let district = client.random.between(1, DISTRICTS);
    let order = NewOrder::draw(tpcc, home, &mut client.random);
    let lines = &order.lines[..order.count];

    session.call(BEGIN);
    session.call(S::WarehouseTax.id()).int(home);
    session.call(S::TakeOrderNumber.id()).int(home).int(district);
    session.call(S::CustomerDiscount.id()).int(home).int(district).int(order.customer);
    for line in lines {
        session.call(S::Item.id()).int(line.item);
        if line.item <= tpcc.scale.items {
            let is_remote = i64::from(line.supply != home);
            session.call(take_stock(district)).int(line.supply).int(line.item).int(line.quantity).int(is_remote);
        }
    }
    session.run().await?;

    let warehouse_tax = session.answer(1).decimal(0, 0, 4).ok_or_else(|| missing("warehouse"))?;
    let number = session.answer(2).int(0, 0).ok_or_else(|| missing("district"))? - 1;
    let district_tax = session.answer(2).decimal(0, 1, 4).ok_or_else(|| missing("district"))?;
    let discount = session.answer(3).decimal(0, 0, 4).ok_or_else(|| missing("customer"))?;
    let mut amounts = [0; LINES_MAX];
    let mut places = [Short::new(None); LINES_MAX];
    let mut rolls_back = false;
    for (index, line) in lines.iter().enumerate() {
        let item = session.answer(4 + 2 * index);
        if item.rows() == 0 && order.rolls_back && index + 1 == lines.len() {
            rolls_back = true;
            break;
        }
        let price = item.decimal(0, 0, 2).ok_or_else(|| missing("item"))?;
        let stock = session.answer(5 + 2 * index);
        if stock.rows() != 1 {
            return Err(missing("stock"));
        }
        amounts[index] = price * line.quantity;
        places[index] = Short::new(stock.text(0, 1));
        black_box(is_brand(item.text(0, 2)) && is_brand(stock.text(0, 2)));
    }
    if order.rolls_back != rolls_back {
        return Err(Failure::answer("there is an item that must not be"));
    }
    // What the terminal would show: sum · (1 − discount) · (1 + taxes), in 10⁻¹⁰.
    let sum: i64 = amounts.iter().sum();
    black_box(i128::from(sum) * i128::from(10_000 - discount) * i128::from(10_000 + warehouse_tax + district_tax));

    let is_local = i64::from(order.remote == 0);
    let count = lines.len() as i64;
    let entry = session.call(S::InsertOrder.id()).int(home).int(district).int(number).int(order.customer);
    entry.time(now()).int(count).int(is_local);
    session.call(S::InsertNewOrder.id()).int(home).int(district).int(number);
    let kept = lines.len() - usize::from(rolls_back);
    for (index, line) in lines[..kept].iter().enumerate() {
        let call = session.call(S::InsertLine.id()).int(home).int(district).int(number).int(index as i64 + 1);
        let call = call.int(line.item).int(line.supply).int(line.quantity);
        call.cents(amounts[index]).text(places[index].get());
    }
    session.call(if rolls_back { ROLLBACK } else { COMMIT });
    session.run().await?;
    let mut tally = [0; TALLIES];
    tally[LINES] = lines.len() as u32;
    tally[REMOTE_LINES] = order.remote;
    Ok(Done { rolled_back: rolls_back, tally })
}

/// Whether data of an item or stock name the brand.
fn is_brand(data: Option<&[u8]>) -> bool {
    data.is_some_and(|data| data.windows(8).any(|part| part == b"ORIGINAL"))
}

/// How a customer is looked for.
#[derive(Clone, Copy)]
enum Who {
    Number(i64),
    Name(i64),
}

impl Who {
    fn draw(tpcc: &Tpcc, random: &mut Random) -> Self {
        match random.chance(60, 100) {
            true => Self::Name(tpcc.name_number(random)),
            false => Self::Number(tpcc.customer_number(random)),
        }
    }

    fn is_name(self) -> bool {
        matches!(self, Self::Name(_))
    }

    /// Asks by one of two statements: by number, by name.
    fn ask(self, session: &mut Session, statements: [S; 2], warehouse: i64, district: i64) {
        match self {
            Self::Number(number) => session.call(statements[0].id()).int(warehouse).int(district).int(number),
            Self::Name(name) => session.call(statements[1].id()).int(warehouse).int(district).texts(&last_name(name)),
        };
    }

    /// The customer's number, and whether the credit is bad.
    fn found(session: &Session, call: usize) -> Result<(i64, bool), Failure> {
        let answer = session.answer(call);
        // The one in the middle, rounded up, of those with the name; the only one of a number.
        let row = answer.rows().div_ceil(2).saturating_sub(1);
        let number = answer.int(row, 0).ok_or_else(|| missing("customer"))?;
        Ok((number, answer.text(row, 11) == Some(b"BC")))
    }
}

pub(super) async fn payment(tpcc: &Tpcc, client: &mut Client, session: &mut Session) -> Result<Done, Failure> {
    let (home, _) = tpcc.home(client.number);
    let random = &mut client.random;
    let district = random.between(1, DISTRICTS);
    let (mut warehouse_of, mut district_of) = (home, district);
    if random.chance(15, 100) {
        warehouse_of = tpcc.other_warehouse(home, random);
        if warehouse_of != home {
            district_of = random.between(1, DISTRICTS);
        }
    }
    let who = Who::draw(tpcc, random);
    let amount = random.between(100, 500_000);

    session.call(BEGIN);
    session.call(S::WarehouseAddress.id()).int(home);
    session.call(S::DistrictAddress.id()).int(home).int(district);
    // Without the balance, which the update returns. So this read does not conflict with other
    // payments.
    who.ask(session, [S::CustomerById, S::CustomersByName], warehouse_of, district_of);
    session.run().await?;

    let names = [Short::new(session.answer(1).text(0, 0)), Short::new(session.answer(2).text(0, 0))];
    let (customer, is_bad) = Who::found(session, 3)?;
    if is_bad {
        let note = note_of_payment(&[customer, district_of, warehouse_of, district, home], amount);
        let call = session.call(S::PayBadCustomer.id()).int(warehouse_of).int(district_of).int(customer);
        call.cents(amount).text(&note);
    } else {
        session.call(S::PayCustomer.id()).int(warehouse_of).int(district_of).int(customer).cents(amount);
    }
    let call = session.call(S::InsertHistory.id()).int(customer).int(district_of).int(warehouse_of).int(district);
    call.int(home).time(now()).cents(amount).texts(&[names[0].get(), b"    ", names[1].get()]);
    session.call(S::PayDistrict.id()).int(home).int(district).cents(amount);
    session.call(S::PayWarehouse.id()).int(home).cents(amount);
    session.call(COMMIT);
    session.run().await?;
    if session.answer(0).rows() != 1 {
        return Err(missing("customer that has paid"));
    }
    let mut tally = [0; TALLIES];
    tally[PAYMENTS_BY_NAME] = u32::from(who.is_name());
    tally[REMOTE_PAYMENTS] = u32::from(warehouse_of != home);
    Ok(Done { rolled_back: false, tally })
}

/// What is put before the data of a customer with bad credit.
fn note_of_payment(numbers: &[i64], cents: i64) -> Vec<u8> {
    let mut note = Vec::with_capacity(64);
    for &number in numbers {
        push_int(&mut note, number);
        note.push(b' ');
    }
    push_int(&mut note, cents / 100);
    note.push(b'.');
    note.push(b'0' + (cents / 10 % 10) as u8);
    note.push(b'0' + (cents % 10) as u8);
    note.push(b'|');
    note
}

pub(super) async fn order_status(tpcc: &Tpcc, client: &mut Client, session: &mut Session) -> Result<Done, Failure> {
    let (home, _) = tpcc.home(client.number);
    let district = client.random.between(1, DISTRICTS);
    let who = Who::draw(tpcc, &mut client.random);
    let newest = |session: &mut Session, customer| {
        session.call(S::NewestOrder.id()).int(home).int(district).int(customer);
    };

    session.call(BEGIN_READ_ONLY);
    who.ask(session, [S::StatusById, S::StatusByName], home, district);
    let mut at = 2;
    if let Who::Number(number) = who {
        newest(session, number);
    }
    session.run().await?;
    let (customer, _) = Who::found(session, 1)?;
    if who.is_name() {
        newest(session, customer);
        session.run().await?;
        at = 0;
    }
    let order = session.answer(at).int(0, 0).ok_or_else(|| missing("order of a customer"))?;
    session.call(S::OrderLines.id()).int(home).int(district).int(order);
    session.call(COMMIT);
    session.run().await?;
    let lines = session.answer(0).rows();
    if !(5..=LINES_MAX).contains(&lines) {
        return Err(Failure::answer(format!("an order has {lines} lines")));
    }
    let mut tally = [0; TALLIES];
    tally[STATUS_BY_NAME] = u32::from(who.is_name());
    Ok(Done { rolled_back: false, tally })
}

pub(super) async fn delivery(tpcc: &Tpcc, client: &mut Client, session: &mut Session) -> Result<Done, Failure> {
    const COUNT: usize = DISTRICTS as usize;
    let (home, _) = tpcc.home(client.number);
    let carrier = client.random.between(1, 10);
    let mut orders = [None; COUNT];
    session.call(BEGIN);
    for attempt in 0..DELIVERY_TRIES {
        if orders.iter().all(Option::is_some) {
            break;
        }
        for index in (0..COUNT).filter(|&index| orders[index].is_none()) {
            session.call(S::OldestNewOrder.id()).int(home).int(index as i64 + 1);
        }
        session.run().await?;
        let missing = orders.iter_mut().filter(|order| order.is_none());
        for (call, order) in (usize::from(attempt == 0)..).zip(missing) {
            *order = session.answer(call).int(0, 0);
        }
    }

    let found = || orders.iter().enumerate().filter_map(|(index, order)| Some((index, index as i64 + 1, (*order)?)));
    let date = now();
    for (_, district, order) in found() {
        session.call(S::DeleteNewOrder.id()).int(home).int(district).int(order);
        session.call(S::DeliverOrder.id()).int(home).int(district).int(order).int(carrier);
        session.call(S::SumLines.id()).int(home).int(district).int(order);
        session.call(S::DeliverLines.id()).int(home).int(district).int(order).time(date);
    }
    let mut credits = [(0, 0); COUNT];
    if found().next().is_some() {
        session.run().await?;
        for (place, (index, ..)) in found().enumerate() {
            let customer = session.answer(4 * place + 1).int(0, 0).ok_or_else(|| missing("order of a new order"))?;
            let sum = session.answer(4 * place + 2).decimal(0, 0, 2).ok_or_else(|| missing("line of an order"))?;
            credits[index] = (customer, sum);
        }
    }
    for (index, district, _) in found() {
        let (customer, sum) = credits[index];
        session.call(S::CreditCustomer.id()).int(home).int(district).int(customer).cents(sum);
    }
    session.call(COMMIT);
    session.run().await?;
    let mut tally = [0; TALLIES];
    tally[DELIVERED] = found().count() as u32;
    tally[SKIPPED] = COUNT as u32 - tally[DELIVERED];
    Ok(Done { rolled_back: false, tally })
}

pub(super) async fn stock_level(tpcc: &Tpcc, client: &mut Client, session: &mut Session) -> Result<Done, Failure> {
    let (home, district) = tpcc.home(client.number);
    let threshold = client.random.between(10, 20);
    session.call(BEGIN_READ_ONLY);
    session.call(S::NextOrder.id()).int(home).int(district);
    session.run().await?;
    let next = session.answer(1).int(0, 0).ok_or_else(|| missing("district"))?;
    session.call(S::LowStock.id()).int(home).int(district).int(next - 20).int(next).int(threshold);
    session.call(COMMIT);
    session.run().await?;
    session.answer(0).int(0, 0).ok_or_else(|| missing("count of stock"))?;
    Ok(Done { rolled_back: false, tally: [0; TALLIES] })
}

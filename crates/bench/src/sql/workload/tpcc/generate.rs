//! The rows that are loaded (clause 4.3.3): a part is the items, half of a warehouse's stock, or a
//! district.
//!
//! ```text
//! part 0                 constants and items
//! part 1 + 12·(w−1) + p  p = 0, 1: half of the stock (and in 0 the warehouse and its districts);  p = 1 + d: district d
//! ```
//!
//! Invariants
//! - Each part has a stream of random numbers of its own, so any loader may make it, at any time.

use super::schema::{INDEXES, TABLE_NAMES, TABLES};
use super::{DISTRICTS, Scale, c_load, last_name, suppliers};
use crate::measure::random::Random;
use crate::sql::workload::load::{Data, PartRows, TableRows};

const STOCK_PARTS: u32 = 2;
const PARTS_A_WAREHOUSE: u32 = STOCK_PARTS + DISTRICTS as u32;
/// When everything that is loaded happened.
const LOADED_AT: &[u8] = b"2020-01-01 00:00:00";
/// Lines of an order on average.
const LINES_MEAN: u64 = 10;

/// What is loaded for a scale and a seed.
pub(super) struct TpccData {
    pub(super) scale: Scale,
    pub(super) seed: u64,
    /// Whether suppliers, nations and regions belong to the items.
    pub(super) has_suppliers: bool,
}

impl Data for TpccData {
    fn fingerprint(&self) -> String {
        let Scale { warehouses, items, customers } = self.scale;
        let name = if self.has_suppliers { "CH-benCHmark on TPC-C 5.11" } else { "TPC-C 5.11" };
        format!(
            "{name}, {warehouses} warehouses of {customers} customers a district, {items} items, seed {}",
            self.seed
        )
    }

    fn tables(&self) -> Vec<String> {
        let added: &[&str] = if self.has_suppliers { &suppliers::TABLES } else { &[] };
        TABLES.iter().chain(added).map(|&table| table.to_owned()).collect()
    }

    fn indexes(&self) -> Vec<String> {
        INDEXES.map(str::to_owned).to_vec()
    }

    fn table_names(&self) -> Vec<&'static str> {
        let added: &[&'static str] = if self.has_suppliers { &suppliers::TABLE_NAMES } else { &[] };
        TABLE_NAMES.iter().chain(added).copied().collect()
    }

    fn parts(&self) -> u32 {
        1 + PARTS_A_WAREHOUSE * self.scale.warehouses as u32
    }

    fn rows(&self) -> u64 {
        let Scale { warehouses, items, customers } = self.scale;
        let (items, customers) = (items as u64, customers as u64);
        let orders = customers * (3 + LINES_MEAN) + customers * 3 / 10;
        let suppliers = if self.has_suppliers { suppliers::rows() } else { 0 };
        suppliers + items + warehouses as u64 * (1 + DISTRICTS as u64 + items + DISTRICTS as u64 * orders)
    }

    fn generate(&self, part: u32, rows: &mut PartRows) {
        let random = &mut Random::new(self.seed, part.into());
        let Some(of_warehouses) = part.checked_sub(1) else {
            self.items(rows, random);
            if self.has_suppliers {
                suppliers::generate(rows, random);
            }
            return;
        };
        let warehouse = i64::from(of_warehouses / PARTS_A_WAREHOUSE) + 1;
        match of_warehouses % PARTS_A_WAREHOUSE {
            half @ 0..STOCK_PARTS => {
                if half == 0 {
                    self.warehouse(warehouse, rows, random);
                }
                self.stock(warehouse, half, rows, random);
            }
            district => self.district(warehouse, i64::from(district - STOCK_PARTS) + 1, rows, random),
        }
    }
}

impl TpccData {
    fn items(&self, rows: &mut PartRows, random: &mut Random) {
        let constants = rows.table("tpcc_load (c_last)");
        constants.int(c_load(self.seed)).end_row();
        let table = rows.table("item (i_id, i_im_id, i_name, i_price, i_data)");
        for item in 1..=self.scale.items {
            table.int(item).int(random.between(1, 10_000));
            string(table, random, 14, 24);
            table.decimal(random.between(100, 10_000) as u64, 2);
            data(table, random);
            table.end_row();
        }
    }

    fn warehouse(&self, warehouse: i64, rows: &mut PartRows, random: &mut Random) {
        let paid = self.scale.customers as u64 * 1_000;
        let columns = "warehouse (w_id, w_name, w_street_1, w_street_2, w_city, w_state, w_zip, w_tax, w_ytd)";
        let table = rows.table(columns);
        table.int(warehouse);
        string(table, random, 6, 10);
        address(table, random);
        table.decimal(random.below(2_001), 4).decimal(paid * DISTRICTS as u64, 2).end_row();
        let columns = "district (d_w_id, d_id, d_name, d_street_1, d_street_2, d_city, d_state, d_zip, d_tax, d_ytd, \
                       d_next_o_id)";
        let table = rows.table(columns);
        for district in 1..=DISTRICTS {
            table.int(warehouse).int(district);
            string(table, random, 6, 10);
            address(table, random);
            table.decimal(random.below(2_001), 4).decimal(paid, 2).int(self.scale.customers + 1).end_row();
        }
    }

    fn stock(&self, warehouse: i64, half: u32, rows: &mut PartRows, random: &mut Random) {
        let columns = "stock (s_w_id, s_i_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, \
                       s_dist_07, s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, s_remote_cnt, s_data)";
        let table = rows.table(columns);
        let middle = self.scale.items / 2;
        let items = if half == 0 { 1..=middle } else { middle + 1..=self.scale.items };
        for item in items {
            table.int(warehouse).int(item).int(random.between(10, 100));
            (0..DISTRICTS).for_each(|_| string(table, random, 24, 24));
            table.int(0).int(0).int(0);
            data(table, random);
            table.end_row();
        }
    }

    fn district(&self, warehouse: i64, district: i64, rows: &mut PartRows, random: &mut Random) {
        self.customers(warehouse, district, rows, random);
        let table = rows.table("history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)");
        for customer in 1..=self.scale.customers {
            table
                .int(customer)
                .int(district)
                .int(warehouse)
                .int(district)
                .int(warehouse)
                .text(LOADED_AT)
                .decimal(1_000, 2);
            string(table, random, 12, 24);
            table.end_row();
        }
        self.orders(warehouse, district, rows, random);
    }

    fn customers(&self, warehouse: i64, district: i64, rows: &mut PartRows, random: &mut Random) {
        let c_last = c_load(self.seed);
        let columns = "customer (c_w_id, c_d_id, c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, \
                       c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, c_ytd_payment, \
                       c_payment_cnt, c_delivery_cnt, c_data)";
        let table = rows.table(columns);
        for customer in 1..=self.scale.customers {
            let name = match customer {
                1..=1_000 => customer - 1,
                _ => random.nurand(255, 0, self.scale.names() - 1, c_last),
            };
            table.int(warehouse).int(district).int(customer);
            string(table, random, 8, 16);
            table.text(b"OE");
            last_name(name).iter().for_each(|part| table.bytes.extend_from_slice(part));
            table.end_column();
            address(table, random);
            random.digits(16, &mut table.bytes);
            table.end_column();
            table.text(LOADED_AT).text(if random.chance(1, 10) { b"BC" } else { b"GC" }).decimal(5_000_000, 2);
            table.decimal(random.below(5_001), 4).text(b"-10.00").decimal(1_000, 2).int(1).int(0);
            string(table, random, 300, 500);
            table.end_row();
        }
    }

    fn orders(&self, warehouse: i64, district: i64, rows: &mut PartRows, random: &mut Random) {
        let Scale { customers, items, .. } = self.scale;
        let mut order_of: Vec<i64> = (1..=customers).collect();
        random.shuffle(&mut order_of);
        let counts: Vec<i64> = (0..customers).map(|_| random.between(5, 15)).collect();
        let is_delivered = |order: i64| order <= self.scale.delivered();
        let order_numbers = || (1..=customers).zip(&counts);

        let table = rows.table("orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)");
        for (order, &count) in order_numbers() {
            table.int(warehouse).int(district).int(order).int(order_of[order as usize - 1]).text(LOADED_AT);
            match is_delivered(order) {
                true => table.int(random.between(1, 10)),
                false => table.null(),
            };
            table.int(count).int(1).end_row();
        }
        let table = rows.table("new_order (no_w_id, no_d_id, no_o_id)");
        for order in (1..=customers).filter(|&order| !is_delivered(order)) {
            table.int(warehouse).int(district).int(order).end_row();
        }
        let columns = "order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, \
                       ol_amount, ol_dist_info)";
        let table = rows.table(columns);
        for (order, &count) in order_numbers() {
            for line in 1..=count {
                table.int(warehouse).int(district).int(order).int(line).int(random.between(1, items)).int(warehouse);
                match is_delivered(order) {
                    true => table.text(LOADED_AT).int(5).decimal(0, 2),
                    false => table.null().int(5).decimal(random.between(1, 999_999) as u64, 2),
                };
                string(table, random, 24, 24);
                table.end_row();
            }
        }
    }
}

/// A random string of a length between two.
fn string(table: &mut TableRows, random: &mut Random, low: i64, high: i64) {
    let count = if low == high { low } else { random.between(low, high) };
    random.characters(count as usize, &mut table.bytes);
    table.end_column();
}

/// Data of items and stock: one in ten holds the brand, anywhere.
fn data(table: &mut TableRows, random: &mut Random) {
    const BRAND: &[u8] = b"ORIGINAL";
    let start = table.bytes.len();
    let count = random.between(26, 50) as usize;
    random.characters(count, &mut table.bytes);
    if random.chance(1, 10) {
        let at = start + random.below((count - BRAND.len() + 1) as u64) as usize;
        table.bytes[at..at + BRAND.len()].copy_from_slice(BRAND);
    }
    table.end_column();
}

/// Two streets, a city, a state, a zip code.
fn address(table: &mut TableRows, random: &mut Random) {
    (0..3).for_each(|_| string(table, random, 10, 20));
    string(table, random, 2, 2);
    random.digits(4, &mut table.bytes);
    table.text(b"11111");
}

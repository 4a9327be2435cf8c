//! Tables, indexes, and the texts of all statements that transactions call.
//!
//! Not here: foreign keys, which the specification does not ask for.

use crate::sql::target::{FIRST, StatementId};

pub(super) const TABLES: [&str; 10] = [
    "CREATE TABLE tpcc_load (c_last int PRIMARY KEY)",
    "CREATE TABLE item (i_id int PRIMARY KEY, i_im_id int NOT NULL, i_name varchar(24) NOT NULL, \
     i_price numeric(5,2) NOT NULL, i_data varchar(50) NOT NULL)",
    "CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name varchar(10) NOT NULL, w_street_1 varchar(20) NOT NULL, \
     w_street_2 varchar(20) NOT NULL, w_city varchar(20) NOT NULL, w_state char(2) NOT NULL, w_zip char(9) NOT NULL, \
     w_tax numeric(4,4) NOT NULL, w_ytd numeric(12,2) NOT NULL)",
    "CREATE TABLE district (d_w_id int, d_id int, d_name varchar(10) NOT NULL, d_street_1 varchar(20) NOT NULL, \
     d_street_2 varchar(20) NOT NULL, d_city varchar(20) NOT NULL, d_state char(2) NOT NULL, d_zip char(9) NOT NULL, \
     d_tax numeric(4,4) NOT NULL, d_ytd numeric(12,2) NOT NULL, d_next_o_id int NOT NULL, PRIMARY KEY (d_w_id, d_id))",
    "CREATE TABLE customer (c_w_id int, c_d_id int, c_id int, c_first varchar(16) NOT NULL, c_middle char(2) NOT NULL, \
     c_last varchar(16) NOT NULL, c_street_1 varchar(20) NOT NULL, c_street_2 varchar(20) NOT NULL, \
     c_city varchar(20) NOT NULL, c_state char(2) NOT NULL, c_zip char(9) NOT NULL, c_phone char(16) NOT NULL, \
     c_since timestamp NOT NULL, c_credit char(2) NOT NULL, c_credit_lim numeric(12,2) NOT NULL, \
     c_discount numeric(4,4) NOT NULL, c_balance numeric(12,2) NOT NULL, c_ytd_payment numeric(12,2) NOT NULL, \
     c_payment_cnt int NOT NULL, c_delivery_cnt int NOT NULL, c_data varchar(500) NOT NULL, \
     PRIMARY KEY (c_w_id, c_d_id, c_id))",
    "CREATE TABLE history (h_c_id int NOT NULL, h_c_d_id int NOT NULL, h_c_w_id int NOT NULL, h_d_id int NOT NULL, \
     h_w_id int NOT NULL, h_date timestamp NOT NULL, h_amount numeric(6,2) NOT NULL, h_data varchar(24) NOT NULL)",
    "CREATE TABLE orders (o_w_id int, o_d_id int, o_id int, o_c_id int NOT NULL, o_entry_d timestamp NOT NULL, \
     o_carrier_id int, o_ol_cnt int NOT NULL, o_all_local int NOT NULL, PRIMARY KEY (o_w_id, o_d_id, o_id))",
    "CREATE TABLE new_order (no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id))",
    "CREATE TABLE order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int NOT NULL, \
     ol_supply_w_id int NOT NULL, ol_delivery_d timestamp, ol_quantity int NOT NULL, ol_amount numeric(6,2) NOT NULL, \
     ol_dist_info char(24) NOT NULL, PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))",
    "CREATE TABLE stock (s_w_id int, s_i_id int, s_quantity int NOT NULL, s_dist_01 char(24) NOT NULL, \
     s_dist_02 char(24) NOT NULL, s_dist_03 char(24) NOT NULL, s_dist_04 char(24) NOT NULL, s_dist_05 char(24) NOT NULL, \
     s_dist_06 char(24) NOT NULL, s_dist_07 char(24) NOT NULL, s_dist_08 char(24) NOT NULL, s_dist_09 char(24) NOT NULL, \
     s_dist_10 char(24) NOT NULL, s_ytd int NOT NULL, s_order_cnt int NOT NULL, s_remote_cnt int NOT NULL, \
     s_data varchar(50) NOT NULL, PRIMARY KEY (s_w_id, s_i_id))",
];

pub(super) const TABLE_NAMES: [&str; 10] =
    ["tpcc_load", "item", "warehouse", "district", "customer", "history", "orders", "new_order", "order_line", "stock"];

pub(super) const INDEXES: [&str; 2] = [
    "CREATE INDEX IF NOT EXISTS customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE INDEX IF NOT EXISTS orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
];

/// The statements of transactions. `TakeStock` has one text for each district behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Statement {
    WarehouseTax,
    TakeOrderNumber,
    CustomerDiscount,
    Item,
    InsertOrder,
    InsertNewOrder,
    InsertLine,
    WarehouseAddress,
    DistrictAddress,
    CustomerById,
    CustomersByName,
    StatusById,
    StatusByName,
    PayCustomer,
    PayBadCustomer,
    PayDistrict,
    PayWarehouse,
    InsertHistory,
    NewestOrder,
    OrderLines,
    OldestNewOrder,
    DeleteNewOrder,
    DeliverOrder,
    DeliverLines,
    SumLines,
    CreditCustomer,
    NextOrder,
    LowStock,
    TakeStock,
}

impl Statement {
    const ALL: [Self; 29] = [
        Self::WarehouseTax,
        Self::TakeOrderNumber,
        Self::CustomerDiscount,
        Self::Item,
        Self::InsertOrder,
        Self::InsertNewOrder,
        Self::InsertLine,
        Self::WarehouseAddress,
        Self::DistrictAddress,
        Self::CustomerById,
        Self::CustomersByName,
        Self::StatusById,
        Self::StatusByName,
        Self::PayCustomer,
        Self::PayBadCustomer,
        Self::PayDistrict,
        Self::PayWarehouse,
        Self::InsertHistory,
        Self::NewestOrder,
        Self::OrderLines,
        Self::OldestNewOrder,
        Self::DeleteNewOrder,
        Self::DeliverOrder,
        Self::DeliverLines,
        Self::SumLines,
        Self::CreditCustomer,
        Self::NextOrder,
        Self::LowStock,
        Self::TakeStock,
    ];

    pub(super) const fn id(self) -> StatementId {
        StatementId(FIRST + self as u16)
    }

    /// Of a number; those of all districts are [`Statement::TakeStock`].
    pub(super) fn of(id: StatementId) -> Self {
        let index = usize::from(id.0.saturating_sub(FIRST));
        Self::ALL[index.min(Self::ALL.len() - 1)]
    }

    fn text(self) -> &'static str {
        match self {
            Self::WarehouseTax => "SELECT w_tax FROM warehouse WHERE w_id = $1",
            Self::TakeOrderNumber => {
                "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 \
                 RETURNING d_next_o_id, d_tax"
            }
            Self::CustomerDiscount => {
                "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
            }
            Self::Item => "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1",
            Self::InsertOrder => {
                "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)"
            }
            Self::InsertNewOrder => "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)",
            Self::InsertLine => {
                "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
                 ol_amount, ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
            }
            Self::WarehouseAddress => {
                "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = $1"
            }
            Self::DistrictAddress => {
                "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district \
                 WHERE d_w_id = $1 AND d_id = $2"
            }
            Self::CustomerById => {
                "SELECT c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, \
                 c_credit, c_credit_lim, c_discount FROM customer \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
            }
            Self::CustomersByName => {
                "SELECT c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, \
                 c_credit, c_credit_lim, c_discount FROM customer \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first"
            }
            Self::StatusById => {
                "SELECT c_id, c_first, c_middle, c_last, c_balance FROM customer \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
            }
            Self::StatusByName => {
                "SELECT c_id, c_first, c_middle, c_last, c_balance FROM customer \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first"
            }
            Self::PayCustomer => {
                "UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, \
                 c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 RETURNING c_balance"
            }
            Self::PayBadCustomer => {
                "UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, \
                 c_payment_cnt = c_payment_cnt + 1, c_data = substr(CAST($5 AS varchar) || c_data, 1, 500) \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 RETURNING c_balance, substr(c_data, 1, 200)"
            }
            Self::PayDistrict => "UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2",
            Self::PayWarehouse => "UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1",
            Self::InsertHistory => {
                "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
            }
            Self::NewestOrder => {
                "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 \
                 ORDER BY o_id DESC LIMIT 1"
            }
            Self::OrderLines => {
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3"
            }
            Self::OldestNewOrder => {
                "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1 FOR UPDATE"
            }
            Self::DeleteNewOrder => "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3",
            Self::DeliverOrder => {
                "UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3 RETURNING o_c_id"
            }
            Self::DeliverLines => {
                "UPDATE order_line SET ol_delivery_d = $4 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3"
            }
            Self::SumLines => {
                "SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3"
            }
            Self::CreditCustomer => {
                "UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1 \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
            }
            Self::NextOrder => "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2",
            Self::LowStock => {
                "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 AND s_quantity < $5"
            }
            Self::TakeStock => {
                "UPDATE stock SET s_quantity = CASE WHEN s_quantity >= $3 + 10 THEN s_quantity - $3 \
                 ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, \
                 s_remote_cnt = s_remote_cnt + $4 WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_quantity, s_dist_DD, s_data"
            }
        }
    }
}

/// Taking stock for an order of a district.
pub(super) fn take_stock(district: i64) -> StatementId {
    StatementId(Statement::TakeStock.id().0 + district as u16 - 1)
}

/// The texts of all statements, in the order of their numbers.
pub(super) fn statements() -> Vec<String> {
    let (stock, others) = Statement::ALL.split_last().expect("there are statements");
    let stock = (1..=10).map(|district| stock.text().replace("DD", &format!("{district:02}")));
    others.iter().map(|statement| statement.text().to_owned()).chain(stock).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_found_by_their_numbers() {
        let texts = statements();
        for (index, &statement) in Statement::ALL.iter().enumerate() {
            assert_eq!(usize::from(statement.id().0), index + usize::from(FIRST));
            assert_eq!(Statement::of(statement.id()), statement);
        }
        let last = take_stock(10);
        assert_eq!(usize::from(last.0 - FIRST), texts.len() - 1);
        assert!(texts[usize::from(last.0 - FIRST)].contains("s_dist_10"));
        assert_eq!(Statement::of(last), Statement::TakeStock);
    }

    #[test]
    fn what_a_district_is_called_is_in_its_statement_alone() {
        let of = |district: i64| statements()[usize::from(take_stock(district).0 - FIRST)].clone();
        assert!(of(1).contains("s_dist_01") && of(7).contains("s_dist_07"));
    }
}

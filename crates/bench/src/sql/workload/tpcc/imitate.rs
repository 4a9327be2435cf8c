//! Answers such as a database would give: right in shape, and made of the parameters. For the
//! control group.

use super::schema::Statement as S;
use super::{DISTRICTS, Tpcc};
use crate::sql::target::batch::AnswerWriter;
use crate::sql::target::{Cell, StatementId};

const TEXT: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWX";
/// Customers of a last name.
const NAMESAKES: i64 = 3;

fn number(params: &[Cell], place: usize) -> i64 {
    match params.get(place) {
        Some(Cell::Int(value)) => *value,
        _ => 1,
    }
}

fn customer(answer: &mut AnswerWriter<'_>, id: i64) {
    answer.cell(Cell::Int(id));
    (0..9).for_each(|_| answer.text(&TEXT[..12]));
    answer.cell(Cell::Time(0));
    answer.text(if id % 10 == 0 { b"BC" } else { b"GC" });
    answer.cell(Cell::Decimal { mantissa: 5_000_000, scale: 2 });
    answer.cell(Cell::Decimal { mantissa: 1_000, scale: 4 });
    answer.end_row(14);
}

fn status(answer: &mut AnswerWriter<'_>, id: i64) {
    answer.cell(Cell::Int(id));
    (0..3).for_each(|_| answer.text(&TEXT[..12]));
    answer.cell(Cell::Decimal { mantissa: -1_000, scale: 2 });
    answer.end_row(5);
}

pub(super) fn imitate(tpcc: &Tpcc, statement: StatementId, params: &[Cell], answer: &mut AnswerWriter<'_>) {
    let tax = Cell::Decimal { mantissa: 1_000, scale: 4 };
    let cents = Cell::Decimal { mantissa: 12_345, scale: 2 };
    match S::of(statement) {
        S::WarehouseTax => {
            answer.cell(tax);
            answer.end_row(1);
        }
        S::TakeOrderNumber => {
            answer.cell(Cell::Int(tpcc.scale.customers + 2));
            answer.cell(tax);
            answer.end_row(2);
        }
        S::CustomerDiscount => {
            answer.cell(tax);
            answer.text(b"BARBARBAR");
            answer.text(b"GC");
            answer.end_row(3);
        }
        S::Item => {
            if number(params, 0) <= tpcc.scale.items {
                answer.cell(cents);
                answer.text(TEXT);
                answer.text(TEXT);
                answer.end_row(3);
            }
        }
        S::WarehouseAddress | S::DistrictAddress => {
            (0..6).for_each(|_| answer.text(&TEXT[..9]));
            answer.end_row(6);
        }
        S::CustomerById => customer(answer, number(params, 2)),
        S::CustomersByName => (1..=NAMESAKES).for_each(|id| customer(answer, id)),
        S::StatusById => status(answer, number(params, 2)),
        S::StatusByName => (1..=NAMESAKES).for_each(|id| status(answer, id)),
        S::PayCustomer => {
            answer.cell(cents);
            answer.end_row(1);
        }
        S::PayBadCustomer => {
            answer.cell(cents);
            answer.text(TEXT);
            answer.end_row(2);
        }
        S::NewestOrder => {
            answer.cell(Cell::Int(tpcc.scale.customers));
            answer.cell(Cell::Time(0));
            answer.cell(Cell::Null);
            answer.end_row(3);
        }
        S::OrderLines => {
            for item in 1..=DISTRICTS {
                [Cell::Int(item), Cell::Int(1), Cell::Int(5), cents, Cell::Null]
                    .into_iter()
                    .for_each(|cell| answer.cell(cell));
                answer.end_row(5);
            }
        }
        S::OldestNewOrder | S::DeliverOrder | S::NextOrder | S::LowStock => {
            answer.cell(Cell::Int(tpcc.scale.customers));
            answer.end_row(1);
        }
        S::SumLines => {
            answer.cell(cents);
            answer.end_row(1);
        }
        S::TakeStock => {
            answer.cell(Cell::Int(50));
            answer.text(TEXT);
            answer.text(TEXT);
            answer.end_row(3);
        }
        S::InsertOrder
        | S::InsertNewOrder
        | S::InsertLine
        | S::PayDistrict
        | S::PayWarehouse
        | S::InsertHistory
        | S::DeleteNewOrder
        | S::DeliverLines
        | S::CreditCustomer => {}
    }
    answer.affected(1);
}

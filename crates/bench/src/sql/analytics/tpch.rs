//! TPC-H: eight tables of a wholesale supplier, and 22 questions of its management.
//!
//! Rows are those of the specification's generator, made by the crate `tpchgen`. The parameters of
//! the queries are those that the specification validates with.
//!
//! Not here: the refresh functions. What changes rows instead is [`Suite::changes`], which can be
//! taken back.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

use super::answer;
use super::suite::{Known, Suite, Transaction};
use crate::sql::workload::load::{Data, Dataset, PartRows, statements};

/// The tables, each behind those that it refers to.
const TABLES: [&str; 8] = ["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"];
/// Rows of all tables at scale 1, about.
const ROWS: f64 = 8_661_245.0;
/// Parts of the data at scale 1: of 27 MB each.
const PARTS: f64 = 40.0;
/// The largest key of an order at scale 1. Of 32 keys 8 are used.
const ORDER_KEY_MAX: f64 = 6_000_000.0;
/// Keys of the orders that a transaction changes, and of those between.
const KEYS_A_TRANSACTION: i64 = 4_000;
/// What PostgreSQL 15 answers at scale 0.01.
const ANSWERS_AT_A_HUNDREDTH: &str = include_str!("tpch/answers-0.01.txt");

/// TPC-H at a scale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tpch {
    pub(crate) scale: f64,
}

impl Suite for Tpch {
    fn name(&self) -> &'static str {
        "tpch"
    }

    fn about(&self) -> String {
        format!("TPC-H at scale {}, its 22 queries, not audited by TPC", self.scale)
    }

    fn dataset(&self) -> Arc<dyn Dataset> {
        Arc::new(*self)
    }

    fn queries(&self) -> &'static str {
        include_str!("tpch/queries.sql")
    }

    fn known(&self) -> Option<Known> {
        if self.scale == 0.01 {
            let answers = answer::read(ANSWERS_AT_A_HUNDREDTH);
            return Some(Known { of: "PostgreSQL 15 at this scale", answers, tolerance: 1e-6 });
        }
        known_of_specification(self.scale)
    }

    fn changes(&self, percent: u32) -> Option<[Vec<Transaction>; 2]> {
        let transactions = |sign: &str| {
            let mut all = Vec::new();
            let mut first = 0;
            while first <= (ORDER_KEY_MAX * self.scale) as i64 {
                let last = first + KEYS_A_TRANSACTION - 1;
                let of = |key: &str| format!("{key} BETWEEN {first} AND {last} AND {key} % 100 < {percent}");
                all.push(vec![
                    format!("UPDATE orders SET o_totalprice = o_totalprice {sign} 1 WHERE {}", of("o_orderkey")),
                    format!(
                        "UPDATE lineitem SET l_quantity = l_quantity {sign} 1, l_extendedprice = l_extendedprice {sign} 1 \
                         WHERE {}",
                        of("l_orderkey")
                    ),
                ]);
                first += KEYS_A_TRANSACTION;
            }
            all
        };
        Some([transactions("+"), transactions("-")])
    }
}

/// The specification has answers at scale 1. They are 1.6 MB, which the plain build leaves out.
#[cfg(feature = "rivals")]
fn known_of_specification(scale: f64) -> Option<Known> {
    use tpchgen::q_and_a::QueryAndAnswer;

    if scale != 1.0 {
        return None;
    }
    let rows = |text: &str| -> answer::Rows {
        let lines = text.lines().filter(|line| !line.trim_ascii().is_empty()).skip(1);
        lines.map(|line| line.split('|').map(|cell| Some(cell.trim_ascii().to_owned())).collect()).collect()
    };
    let answer = |number| Some((format!("q{number}"), rows(QueryAndAnswer::new(number, 1.0).ok()?.answer())));
    let answers = (1..=22).map(answer).collect::<Option<_>>()?;
    // They are rounded to cents.
    Some(Known { of: "the specification, rounded as it has them", answers, tolerance: 0.0051 })
}

#[cfg(not(feature = "rivals"))]
fn known_of_specification(_scale: f64) -> Option<Known> {
    None
}

impl Dataset for Tpch {
    fn name(&self) -> &str {
        "tpch"
    }

    fn data(&self) -> Box<dyn Data + '_> {
        Box::new(*self)
    }
}

impl Data for Tpch {
    fn fingerprint(&self) -> String {
        format!("TPC-H 1, scale {}", self.scale)
    }

    fn tables(&self) -> Vec<String> {
        statements(include_str!("tpch/schema.sql"))
    }

    fn indexes(&self) -> Vec<String> {
        statements(include_str!("tpch/indexes.sql"))
    }

    fn table_names(&self) -> Vec<&'static str> {
        TABLES.to_vec()
    }

    fn parts(&self) -> u32 {
        (PARTS * self.scale).ceil().max(1.0) as u32
    }

    fn rows(&self) -> u64 {
        (ROWS * self.scale) as u64
    }

    /// A part has its share of each table. The first one also has the regions and nations.
    fn generate(&self, part: u32, rows: &mut PartRows) {
        let (scale, part, parts) = (self.scale, part as i32 + 1, self.parts() as i32);
        if part == 1 {
            fill(rows, "region", RegionGenerator::new(scale, 1, 1).iter());
            fill(rows, "nation", NationGenerator::new(scale, 1, 1).iter());
        }
        fill(rows, "part", PartGenerator::new(scale, part, parts).iter());
        fill(rows, "supplier", SupplierGenerator::new(scale, part, parts).iter());
        fill(rows, "partsupp", PartSuppGenerator::new(scale, part, parts).iter());
        fill(rows, "customer", CustomerGenerator::new(scale, part, parts).iter());
        fill(rows, "orders", OrderGenerator::new(scale, part, parts).iter());
        fill(rows, "lineitem", LineItemGenerator::new(scale, part, parts).iter());
    }
}

/// Puts rows into a table. The generator writes a `|` behind each column, and never within one.
fn fill<R: Display>(rows: &mut PartRows, table: &'static str, made: impl Iterator<Item = R>) {
    let table = rows.table(table);
    let mut line = String::new();
    for row in made {
        line.clear();
        write!(line, "{row}").expect("a String takes everything");
        let columns = line.strip_suffix('|').unwrap_or(&line);
        table.bytes.extend(columns.bytes().map(|byte| if byte == b'|' { b'\t' } else { byte }));
        table.end_row();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::analytics::suite::queries;

    #[test]
    fn parts_together_have_the_rows_of_the_scale() {
        let tpch = Tpch { scale: 0.05 };
        assert_eq!(tpch.parts(), 2);
        let mut counts = std::collections::BTreeMap::<&str, u64>::new();
        let mut rows = PartRows::default();
        for part in 0..tpch.parts() {
            rows.clear();
            tpch.generate(part, &mut rows);
            for table in rows.tables() {
                *counts.entry(table.into).or_default() += table.rows;
            }
        }
        let fixed: Vec<u64> = TABLES[..7].iter().map(|table| counts[table]).collect();
        assert_eq!(fixed, [5, 25, 10_000, 500, 40_000, 7_500, 75_000]);
        assert!((295_000..305_000).contains(&counts["lineitem"]), "{counts:?}");
    }

    #[test]
    fn there_are_22_queries_and_their_answers() {
        let tpch = Tpch { scale: 0.01 };
        let queries = queries(tpch.queries()).unwrap();
        let names: Vec<String> = queries.into_iter().map(|query| query.name).collect();
        assert_eq!(names, (1..=22).map(|number| format!("q{number}")).collect::<Vec<_>>());
        let known: Vec<String> = tpch.known().unwrap().answers.into_iter().map(|(name, _)| name).collect();
        assert_eq!(known, names);
    }
}

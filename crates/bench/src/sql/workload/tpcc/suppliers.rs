//! The tables that CH-benCHmark adds to those of TPC-C: suppliers, nations and regions, as TPC-H
//! has them. Transactions do not touch them.
//!
//! A nation's key is the code of a character, so that the first character of a customer's state
//! says the nation.

use crate::measure::random::{CHARACTERS, Random};
use crate::sql::workload::load::PartRows;

pub(super) const TABLES: [&str; 3] = [
    "CREATE TABLE region (r_regionkey int PRIMARY KEY, r_name varchar(55) NOT NULL, r_comment varchar(152) NOT NULL)",
    "CREATE TABLE nation (n_nationkey int PRIMARY KEY, n_name varchar(25) NOT NULL, n_regionkey int NOT NULL, \
     n_comment varchar(152) NOT NULL)",
    "CREATE TABLE supplier (su_suppkey int PRIMARY KEY, su_name varchar(25) NOT NULL, su_address varchar(40) NOT NULL, \
     su_nationkey int NOT NULL, su_phone varchar(15) NOT NULL, su_acctbal numeric(12,2) NOT NULL, \
     su_comment varchar(101) NOT NULL)",
];

pub(super) const TABLE_NAMES: [&str; 3] = ["region", "nation", "supplier"];

/// A stock's supplier is the rest of the product of warehouse and item by this number.
pub(super) const SUPPLIERS: i64 = 10_000;
const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];
/// A nation for each character, with its region.
const NATIONS: [(&str, i64); 64] = [
    ("ALGERIA", 0),
    ("ANGOLA", 0),
    ("ARGENTINA", 1),
    ("ARMENIA", 4),
    ("AUSTRIA", 3),
    ("BELGIUM", 3),
    ("BENIN", 0),
    ("BOLIVIA", 1),
    ("BOTSWANA", 0),
    ("BRAZIL", 1),
    ("BULGARIA", 3),
    ("CAMBODIA", 2),
    ("CANADA", 1),
    ("CHILE", 1),
    ("CHINA", 2),
    ("COLOMBIA", 1),
    ("CROATIA", 3),
    ("CUBA", 1),
    ("CZECHIA", 3),
    ("DENMARK", 3),
    ("ECUADOR", 1),
    ("EGYPT", 4),
    ("ESTONIA", 3),
    ("ETHIOPIA", 0),
    ("FINLAND", 3),
    ("FRANCE", 3),
    ("GEORGIA", 4),
    ("GERMANY", 3),
    ("GHANA", 0),
    ("GREECE", 3),
    ("HUNGARY", 3),
    ("ICELAND", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("IRELAND", 3),
    ("ITALY", 3),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KAZAKHSTAN", 2),
    ("KENYA", 0),
    ("LATVIA", 3),
    ("LITHUANIA", 3),
    ("MALAYSIA", 2),
    ("MEXICO", 1),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("NEPAL", 2),
    ("NETHERLANDS", 3),
    ("NIGERIA", 0),
    ("NORWAY", 3),
    ("PERU", 1),
    ("POLAND", 3),
    ("PORTUGAL", 3),
    ("ROMANIA", 3),
    ("RUSSIA", 3),
    ("SAUDI ARABIA", 4),
    ("SPAIN", 3),
    ("SWEDEN", 3),
    ("THAILAND", 2),
    ("TURKEY", 4),
    ("URUGUAY", 1),
    ("VIETNAM", 2),
];
/// One supplier in so many is said to be bad.
const BAD: u64 = 50;

/// Rows of all three.
pub(super) fn rows() -> u64 {
    (REGIONS.len() + NATIONS.len()) as u64 + SUPPLIERS as u64
}

pub(super) fn generate(rows: &mut PartRows, random: &mut Random) {
    let table = rows.table("region (r_regionkey, r_name, r_comment)");
    for (key, name) in REGIONS.iter().enumerate() {
        table.int(key as i64).text(name.as_bytes());
        comment(&mut table.bytes, random);
        table.end_row();
    }
    let table = rows.table("nation (n_nationkey, n_name, n_regionkey, n_comment)");
    for (&character, (name, region)) in CHARACTERS.iter().zip(NATIONS) {
        table.int(character.into()).text(name.as_bytes()).int(region);
        comment(&mut table.bytes, random);
        table.end_row();
    }
    let columns = "supplier (su_suppkey, su_name, su_address, su_nationkey, su_phone, su_acctbal, su_comment)";
    let table = rows.table(columns);
    for key in 0..SUPPLIERS {
        table.int(key).text(format!("Supplier#{key:09}").as_bytes());
        random.characters(20, &mut table.bytes);
        table.end_column();
        table.int(CHARACTERS[random.below(64) as usize].into());
        random.digits(15, &mut table.bytes);
        table.end_column();
        table.decimal(random.below(1_000_000), 2);
        if random.chance(1, BAD) {
            table.bytes.extend_from_slice(b"bad");
        }
        comment(&mut table.bytes, random);
        table.end_row();
    }
}

fn comment(bytes: &mut Vec<u8>, random: &mut Random) {
    random.characters(40, bytes);
    bytes.push(b'\t');
}

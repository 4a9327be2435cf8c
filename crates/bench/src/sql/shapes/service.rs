//! The rows that shapes are run on: a service with tenants, as `service/schema.sql` has it.
//!
//! What makes them like those of applications: few tenants and projects have most of the rows, keys
//! grow with time, some columns depend on others (a status on an age), some are NULL most of the
//! time.
//!
//! Invariants
//! - Rows depend on the scale alone: two databases of the same scale hold the same.

use colibri::sql::Timestamp;

use super::set::Scale;
use crate::measure::random::Random;
use crate::sql::workload::load::{Data, PartRows, TableRows, statements};

/// Microseconds of a day.
pub(super) const DAY: i64 = 86_400_000_000;
/// The first moment: 2024-01-01, as microseconds since 2000.
pub(super) const BEGIN: i64 = 8_766 * DAY;
/// The last one.
pub(super) const END: i64 = BEGIN + 365 * DAY;

pub(super) const TASK_STATES: [&str; 4] = ["done", "open", "review", "blocked"];
pub(super) const ORDER_STATES: [&str; 5] = ["shipped", "paid", "new", "returned", "disputed"];
pub(super) const QUEUES: [&str; 4] = ["default", "mail", "images", "reports"];
pub(super) const EVENT_KINDS: [&str; 6] = ["view", "click", "login", "purchase", "refund", "invite"];
pub(super) const SETTINGS: [&str; 5] = ["theme", "language", "zone", "currency", "week"];
const COUNTRIES: [&str; 8] = ["DE", "US", "FR", "PL", "JP", "BR", "IN", "NZ"];
/// Names are made of these.
pub(super) const WORDS: [&str; 16] = [
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "iris", "jade", "koala", "lotus", "maple",
    "north", "ocean", "pearl",
];
pub(super) const COUNTERS: i64 = 100;
/// Rows of a part: one COPY each.
const PART_ROWS: i64 = 20_000;

/// A table whose keys are numbers from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    Orgs,
    Users,
    Projects,
    Tasks,
    Comments,
    Tags,
    Categories,
    Products,
    Orders,
    Events,
    Jobs,
}

impl Keys {
    /// How many rows such a table has.
    pub(super) fn count(self, scale: Scale) -> i64 {
        match self {
            Self::Orgs => scale.of(200),
            Self::Users => scale.of(20_000),
            Self::Projects => scale.of(2_000),
            Self::Tasks | Self::Events => scale.of(200_000),
            Self::Comments => scale.of(300_000),
            Self::Tags => 500,
            Self::Categories => 1_000,
            Self::Products => scale.of(5_000),
            Self::Orders => scale.of(100_000),
            Self::Jobs => scale.of(50_000),
        }
    }
}

/// The tables in the order in which they are filled: those first that others refer to.
const TABLES: [&str; 15] = [
    "orgs",
    "users",
    "projects",
    "tasks",
    "comments",
    "tags",
    "task_tags",
    "categories",
    "products",
    "orders",
    "order_lines",
    "events",
    "jobs",
    "settings",
    "counters",
];

/// All rows, for loading. One connection loads them: parts come behind those that they refer to.
#[derive(Debug)]
pub(super) struct Service(pub(super) Scale);

impl Data for Service {
    fn fingerprint(&self) -> String {
        format!("shapes 1, scale {}", self.0)
    }

    fn tables(&self) -> Vec<String> {
        statements(include_str!("service/schema.sql"))
    }

    fn indexes(&self) -> Vec<String> {
        statements(include_str!("service/indexes.sql"))
    }

    fn table_names(&self) -> Vec<&'static str> {
        TABLES.to_vec()
    }

    fn parts(&self) -> u32 {
        TABLES.iter().map(|table| parts(table, self.0)).sum()
    }

    fn rows(&self) -> u64 {
        TABLES.iter().map(|table| keys_of(table, self.0) as u64).sum()
    }

    fn generate(&self, part: u32, rows: &mut PartRows) {
        let mut of_table = part;
        for table in TABLES {
            match of_table.checked_sub(parts(table, self.0)) {
                Some(behind) => of_table = behind,
                None => return generate(table, of_table.into(), self.0, rows),
            }
        }
    }
}

/// The most frequent of some words: half of the rows have the first, a quarter the second, and so
/// on.
fn skewed(words: &[&'static str], random: &mut Random) -> &'static str {
    let rank = (random.next().leading_zeros() as usize).min(words.len() - 1);
    words[rank]
}

/// From 1 to `count`, the low ones far more often: a tenth of them has a half of all.
fn hot(count: i64, random: &mut Random) -> i64 {
    let unit = random.unit();
    1 + ((unit * unit * unit) * count as f64) as i64
}

/// A project as tasks have it.
pub(super) fn hot_project(scale: Scale, random: &mut Random) -> i64 {
    hot(Keys::Projects.count(scale), random)
}

/// A moment of the time that the data are of.
pub(super) fn moment(random: &mut Random) -> i64 {
    BEGIN + random.below(((END - BEGIN) / 1_000_000) as u64) as i64 * 1_000_000
}

/// When something of a table was made whose keys grow with time.
fn made(key: i64, count: i64, random: &mut Random) -> i64 {
    let at = i128::from(END - BEGIN) * i128::from(key - 1) / i128::from(count);
    BEGIN + at as i64 / 1_000_000 * 1_000_000 + random.below(3_600) as i64 * 1_000_000
}

/// A day as text.
pub(super) fn date(micros: i64) -> String {
    Timestamp::from_micros(micros).date().map(|date| date.to_string()).unwrap_or_default()
}

/// A moment as text.
pub(super) fn timestamp(micros: i64) -> String {
    Timestamp::from_micros(micros).to_string()
}

pub(super) fn email(user: i64) -> String {
    format!("user{user}@example.com")
}

pub(super) fn sku(product: i64) -> String {
    format!("SKU-{product:08}")
}

pub(super) fn tag(tag: i64) -> String {
    format!("{}-{tag}", WORDS[tag as usize % WORDS.len()])
}

pub(super) fn counter(counter: i64) -> String {
    format!("counter {counter}")
}

fn words(count: usize, random: &mut Random) -> String {
    let word = |random: &mut Random| WORDS[random.below(WORDS.len() as u64) as usize];
    (0..count).map(|_| word(random)).collect::<Vec<_>>().join(" ")
}

/// How many keys a table's rows are made of.
fn keys_of(table: &str, scale: Scale) -> i64 {
    let keys = match table {
        "orgs" | "settings" => Keys::Orgs,
        "users" => Keys::Users,
        "projects" => Keys::Projects,
        "tasks" | "task_tags" => Keys::Tasks,
        "comments" => Keys::Comments,
        "tags" => Keys::Tags,
        "categories" => Keys::Categories,
        "products" => Keys::Products,
        "orders" | "order_lines" => Keys::Orders,
        "events" => Keys::Events,
        "jobs" => Keys::Jobs,
        _ => return COUNTERS,
    };
    keys.count(scale)
}

/// Parts of a table.
fn parts(table: &str, scale: Scale) -> u32 {
    ((keys_of(table, scale) + PART_ROWS - 1) / PART_ROWS) as u32
}

/// Makes the rows of a part of a table.
fn generate(table: &'static str, part: i64, scale: Scale, rows: &mut PartRows) {
    let count = keys_of(table, scale);
    let out = rows.table(table);
    for key in part * PART_ROWS + 1..=((part + 1) * PART_ROWS).min(count) {
        let number = TABLES.iter().position(|&other| other == table).unwrap_or(TABLES.len()) as u64;
        let mut random = Random::new(number, key as u64);
        row(table, key, count, scale, &mut random, out);
    }
}

fn row(table: &str, key: i64, count: i64, scale: Scale, random: &mut Random, out: &mut TableRows) {
    match table {
        "orgs" => {
            out.int(key).text(format!("{} {key}", words(1, random)).as_bytes());
            out.text(skewed(&["free", "team", "business"], random).as_bytes()).time(made(key, count, random));
            out.end_row();
        }
        "users" => user(key, count, scale, random, out),
        "projects" => {
            let org = random.between(1, Keys::Orgs.count(scale));
            out.int(key).int(org).int(user_of(org, scale, random)).text(words(2, random).as_bytes());
            out.text(if random.chance(1, 10) { b"t" } else { b"f" }).time(made(key, count, random));
            out.end_row();
        }
        "tasks" => task(key, count, scale, random, out),
        "comments" => {
            let author = random.between(1, Keys::Users.count(scale));
            out.int(key).int(hot(Keys::Tasks.count(scale), random)).int(author);
            out.text(words(8, random).as_bytes()).time(made(key, count, random));
            out.end_row();
        }
        "tags" => {
            out.int(key).text(tag(key).as_bytes());
            out.end_row();
        }
        "task_tags" => {
            let mut last = 0;
            for _ in 0..random.below(4) {
                last += random.between(1, 120);
                out.int(key).int(last);
                out.end_row();
            }
        }
        "categories" => {
            out.int(key);
            // Ten of each: three levels, as in shops.
            if key <= 10 {
                out.null()
            } else {
                out.int((key - 1) / 10)
            };
            out.text(words(2, random).as_bytes());
            out.end_row();
        }
        "products" => {
            out.int(key).text(sku(key).as_bytes()).int(random.between(1, Keys::Categories.count(scale)));
            out.text(words(3, random).as_bytes()).decimal(random.below(50_000) + 100, 2).int(random.between(0, 1_000));
            out.end_row();
        }
        "orders" => order(key, count, scale, random, out),
        "order_lines" => {
            for line in 1..=1 + random.below(5) as i64 {
                let product = hot(Keys::Products.count(scale), random);
                out.int(key).int(line).int(product).int(random.between(1, 9)).decimal(random.below(50_000) + 100, 2);
                out.end_row();
            }
        }
        "events" => {
            let org = hot(Keys::Orgs.count(scale), random);
            out.int(org).time(made(key, count, random)).int(key).text(skewed(&EVENT_KINDS, random).as_bytes());
            let has_user = random.chance(2, 3);
            if has_user {
                out.int(user_of(org, scale, random))
            } else {
                out.null()
            };
            out.int(random.between(1, 1_000));
            out.end_row();
        }
        "jobs" => job(key, count, random, out),
        "settings" => {
            for name in SETTINGS.iter().take(1 + random.below(SETTINGS.len() as u64) as usize) {
                out.int(key).text(name.as_bytes()).text(words(1, random).as_bytes());
                out.end_row();
            }
        }
        _ => {
            out.text(counter(key).as_bytes()).int(random.between(0, 1_000_000));
            out.end_row();
        }
    }
}

/// A user of a tenant: users belong to tenants in turn, so that each has as many.
fn user_of(org: i64, scale: Scale, random: &mut Random) -> i64 {
    let (orgs, users) = (Keys::Orgs.count(scale), Keys::Users.count(scale));
    org + orgs * random.between(0, users / orgs - 1)
}

fn user(key: i64, count: i64, scale: Scale, random: &mut Random, out: &mut TableRows) {
    let org = (key - 1) % Keys::Orgs.count(scale) + 1;
    out.int(key).int(org).text(email(key).as_bytes()).text(words(2, random).as_bytes());
    // Most new users have not answered yet.
    let is_invited = random.chance(if key > count * 9 / 10 { 6 } else { 1 }, 10);
    out.text(if is_invited { b"invited" } else { b"active" });
    if random.chance(3, 10) {
        out.null()
    } else {
        out.text(skewed(&COUNTRIES, random).as_bytes())
    };
    // A manager came before, in the same tenant.
    let manager = key - Keys::Orgs.count(scale) * random.between(1, 20);
    if manager > 0 {
        out.int(manager)
    } else {
        out.null()
    };
    let at = made(key, count, random);
    out.time(at);
    if random.chance(1, 20) {
        out.time(at + random.between(1, 30) * DAY)
    } else {
        out.null()
    };
    let logins = if is_invited { 0 } else { random.between(0, 500) };
    out.decimal(random.below(1_000_000), 2).int(logins);
    out.end_row();
}

fn task(key: i64, count: i64, scale: Scale, random: &mut Random, out: &mut TableRows) {
    out.int(key).int(hot_project(scale, random));
    let has_assignee = random.chance(3, 4);
    if has_assignee {
        out.int(random.between(1, Keys::Users.count(scale)))
    } else {
        out.null()
    };
    // What is old is done.
    let is_old = key < count * 8 / 10;
    let state =
        if is_old && random.chance(9, 10) { "done" } else { skewed(&["open", "review", "done", "blocked"], random) };
    out.text(state.as_bytes()).int(random.between(1, 5)).text(words(5, random).as_bytes());
    let at = made(key, count, random);
    if random.chance(1, 2) {
        out.text(date(at + random.between(1, 90) * DAY).as_bytes())
    } else {
        out.null()
    };
    out.time(at).time(at + random.below(30 * 86_400) as i64 * 1_000_000).int(random.between(1, 3));
    out.end_row();
}

fn order(key: i64, count: i64, scale: Scale, random: &mut Random, out: &mut TableRows) {
    let org = hot(Keys::Orgs.count(scale), random);
    let at = made(key, count, random);
    let status = match random.below(1_000) {
        0..5 => "disputed",
        5..30 => "returned",
        30..100 if key > count * 9 / 10 => "new",
        30..200 => "paid",
        _ => "shipped",
    };
    out.int(key).int(org).int(user_of(org, scale, random)).text(status.as_bytes());
    out.decimal(random.below(100_000) + 100, 2).time(at);
    if status == "shipped" {
        out.time(at + random.between(1, 5) * DAY)
    } else {
        out.null()
    };
    out.end_row();
}

fn job(key: i64, count: i64, random: &mut Random, out: &mut TableRows) {
    let state = match key {
        _ if key < count * 9 / 10 => "done",
        _ if random.chance(1, 20) => "failed",
        _ if random.chance(1, 20) => "running",
        _ => "ready",
    };
    out.int(key).text(skewed(&QUEUES, random).as_bytes()).text(state.as_bytes()).time(made(key, count, random));
    out.int(random.between(1, 3)).int(random.between(0, 3));
    if state == "ready" {
        out.null()
    } else {
        out.text(format!("worker {}", random.below(20)).as_bytes())
    };
    out.end_row();
}

trait TimeColumn {
    /// Adds a moment.
    fn time(&mut self, micros: i64) -> &mut Self;
}

impl TimeColumn for TableRows {
    fn time(&mut self, micros: i64) -> &mut Self {
        self.text(timestamp(micros).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_people_do() {
        assert_eq!(timestamp(BEGIN), "2024-01-01 00:00:00");
        assert_eq!(timestamp(END), "2024-12-31 00:00:00");
        assert_eq!(date(BEGIN + 59 * DAY), "2024-02-29");
        assert_eq!(date(BEGIN + 366 * DAY), "2025-01-01");
        assert_eq!(timestamp(0), "2000-01-01 00:00:00");
    }

    #[test]
    fn every_table_has_its_parts_one_behind_the_other() {
        let shapes = Service(Scale::miniature());
        let mut filled = Vec::new();
        for part in 0..shapes.parts() {
            let mut rows = PartRows::default();
            shapes.generate(part, &mut rows);
            assert!(rows.rows() > 0, "{part}");
            filled.extend(rows.tables().iter().map(|table| table.into));
        }
        assert_eq!(filled, TABLES);
    }

    #[test]
    fn rows_depend_on_their_part_alone() {
        let rows = |part| {
            let mut rows = PartRows::default();
            generate("tasks", part, Scale::new(1), &mut rows);
            rows.tables()[0].bytes.clone()
        };
        assert_eq!(rows(3), rows(3));
        assert_ne!(rows(3), rows(4));
        assert_eq!(parts("tasks", Scale::new(1)), 10);
        assert_eq!(parts("tags", Scale::new(7)), 1);
    }

    #[test]
    fn few_projects_have_most_of_the_tasks() {
        let mut random = Random::new(1, 1);
        let low = (0..10_000).filter(|_| hot_project(Scale::new(1), &mut random) <= 200).count();
        assert!((4_300..5_000).contains(&low), "{low}");
    }
}

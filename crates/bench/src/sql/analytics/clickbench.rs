//! ClickBench's shape: one wide table of page views, and 43 queries that mostly read a few of its
//! columns.
//!
//! The rows of ClickBench are a download of 14 GB. These are made from a seed, with what makes the
//! queries differ from each other: a few counters have most views, most texts are empty or
//! repeated, a user has few visits with one address, region and screen, and times, pages and
//! referrers go together.
//!
//! Only the columns that the queries look at are there: 25 of 105. So figures are not those of
//! ClickBench, and say more of computing than of leaving columns out.

use std::sync::Arc;

use super::answer::date;
use super::suite::Suite;
use crate::measure::random::{Random, mix};
use crate::sql::workload::load::{Data, Dataset, PartRows, TableRows, statements};

const ROWS_A_PART: u64 = 50_000;
/// 2013-07-01 as days since 2000-01-01, and how many days there are.
const FIRST_DAY: i64 = 4_930;
const DAYS: i64 = 31;
/// What some queries ask for: one counter, user, page and referer.
const COUNTER: i64 = 62;
const USER: i64 = 435_090_932_899_640_449;
const URL_HASH: i64 = 2_868_770_270_353_813_622;
const REFERER_HASH: i64 = 3_594_120_000_172_545_465;

/// The user that is asked for has a few pages in a thousand: among others there are users with
/// many more.
const ASKED_FOR: u64 = 100;

const WORDS: [&str; 32] = [
    "weather", "tickets", "used", "cars", "house", "rent", "moscow", "films", "online", "watch", "recipe", "cake",
    "winter", "boots", "phone", "repair", "school", "exam", "map", "route", "football", "news", "music", "download",
    "free", "games", "doctor", "garden", "train", "times", "holiday", "sea",
];
const MODELS: [&str; 12] = [
    "iPhone 2",
    "iPad",
    "Galaxy S3",
    "Lumia 620",
    "Xperia Z",
    "Desire C",
    "One X",
    "Nexus 4",
    "Note II",
    "Ascend P6",
    "Optimus G",
    "Razr",
];
const WIDTHS: [i64; 8] = [1366, 1920, 1280, 1024, 1600, 1440, 320, 768];
/// Of visitors that come from a search.
const SEARCHES_PERCENT: u64 = 13;

/// The data of ClickBench in a generated form, with a given number of rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClickBench {
    pub(crate) rows: u64,
    pub(crate) seed: u64,
}

impl Suite for ClickBench {
    fn name(&self) -> &'static str {
        "clickbench"
    }

    fn about(&self) -> String {
        format!("a generated sample of ClickBench's shape: {} page views, its 43 queries", self.rows)
    }

    fn dataset(&self) -> Arc<dyn Dataset> {
        Arc::new(*self)
    }

    fn queries(&self) -> &'static str {
        include_str!("clickbench/queries.sql")
    }
}

impl Dataset for ClickBench {
    fn name(&self) -> &str {
        "clickbench"
    }

    fn data(&self) -> Box<dyn Data + '_> {
        Box::new(*self)
    }
}

impl Data for ClickBench {
    fn fingerprint(&self) -> String {
        format!("page views 1, {} rows, seed {}", self.rows, self.seed)
    }

    fn tables(&self) -> Vec<String> {
        statements(include_str!("clickbench/schema.sql"))
    }

    fn indexes(&self) -> Vec<String> {
        Vec::new()
    }

    fn table_names(&self) -> Vec<&'static str> {
        vec!["hits"]
    }

    fn parts(&self) -> u32 {
        self.rows.div_ceil(ROWS_A_PART) as u32
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn generate(&self, part: u32, rows: &mut PartRows) {
        let random = &mut Random::new(self.seed, part.into());
        let first = u64::from(part) * ROWS_A_PART;
        let table = rows.table("hits");
        let mut next = first;
        while next < (first + ROWS_A_PART).min(self.rows) {
            let left = (first + ROWS_A_PART).min(self.rows) - next;
            let views = (1 + random.exponential(4.0) as u64).min(left);
            self.visit(next, views, random, table);
            next += views;
        }
    }
}

/// One of `count` things, of which the first ones are met most often.
fn skewed(random: &mut Random, count: u64) -> u64 {
    let draw = random.unit();
    ((count as f64).powf(draw) - 1.0) as u64
}

/// A stable number that looks random.
fn hash(kind: u64, number: u64) -> i64 {
    (mix(mix(kind) ^ number) >> 1) as i64
}

impl ClickBench {
    /// The page views of one user on one site, a short time after each other.
    fn visit(&self, first: u64, views: u64, random: &mut Random, table: &mut TableRows) {
        let user = skewed(random, self.rows / 6 + 10);
        let user_id = if user == ASKED_FOR { USER } else { hash(1, user) };
        let counter = skewed(random, 5_000);
        let counter_id = if counter == 0 { COUNTER } else { counter as i64 + 100 };
        let is_phone = mix(user ^ 0x9E).is_multiple_of(16);
        let width = if is_phone { 320 } else { WIDTHS[skewed(&mut Random::new(user, 7), 8) as usize] };
        let region = skewed(&mut Random::new(user, 8), 5_000) as i64 + 1;
        let address = hash(3, user) as i32;
        let model = MODELS[(mix(user) % 12) as usize];
        let search = random.chance(SEARCHES_PERCENT, 100);
        let engine = if search { 1 + skewed(random, 60) as i64 } else { 0 };
        let phrase = if search { phrase(skewed(random, self.rows / 20 + 100)) } else { String::new() };
        let advert = if random.chance(1, 60) { 1 + skewed(random, 40) as i64 } else { 0 };
        let source = if search { 2 } else { [-1, 0, 1, 6][random.below(4) as usize] };
        let mut referer = self.referer(search, counter, &phrase, random);
        let day = random.between(0, DAYS - 1);
        let mut second = random.between(0, 86_000);
        for view in first..first + views {
            let page = skewed(random, 2_000);
            let (url, title) = page_of(counter, page);
            let url_hash = if counter == 0 && page == 0 { URL_HASH } else { hash(5, counter << 20 | page) };
            let referer_hash = if referer.1 == 0 { REFERER_HASH } else { hash(6, referer.1) };
            table.int(hash(7, view)).int(i64::from(random.chance(1, 8))).text(title.as_bytes());
            let (year, month, of_month) = date(FIRST_DAY + day);
            let day = format!("{year:04}-{month:02}-{of_month:02}");
            let time = format!("{day} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
            table
                .text(time.as_bytes())
                .text(day.as_bytes())
                .int(counter_id)
                .int(address.into())
                .int(region)
                .int(user_id);
            table.text(url.as_bytes()).text(referer.0.as_bytes()).int(width);
            table.int(i64::from(is_phone)).text(if is_phone { model.as_bytes() } else { b"" });
            table.int(source).int(engine).text(phrase.as_bytes()).int(advert);
            table.int(width - 16).int(width * 5 / 8 - random.between(0, 20) * 8);
            table.int(i64::from(random.chance(1, 20))).int(i64::from(random.chance(1, 200)));
            table.int(i64::from(random.chance(1, 30))).int(referer_hash).int(url_hash).end_row();
            // The next page is reached from this one.
            referer = (url, 1 + (counter << 20 | page));
            second = (second + 1 + random.exponential(30.0) as i64).min(86_399);
        }
    }

    /// Where a visit comes from, and its number; 0 is the one that is asked for.
    fn referer(&self, search: bool, counter: u64, phrase: &str, random: &mut Random) -> (String, u64) {
        if search {
            let host = ["www.google.com", "yandex.ru", "go.mail.ru"][skewed(random, 3) as usize];
            return (format!("http://{host}/search?q={}", phrase.replace(' ', "+")), 1 << 40 | counter);
        }
        match random.below(3) {
            0 => (String::new(), 1 << 41),
            _ => {
                let site = skewed(random, 3_000);
                (format!("http://site{site:04}.example/{}", random.below(100)), site)
            }
        }
    }
}

/// The search phrase of a number: one to four words.
fn phrase(number: u64) -> String {
    let words = 1 + number % 4;
    let word = |place| WORDS[(mix(number * 4 + place) % 32) as usize];
    let mut text: Vec<&str> = (0..words).map(word).collect();
    text.dedup();
    format!("{} {}", text.join(" "), number / 7)
}

/// Address and title of a page.
fn page_of(counter: u64, page: u64) -> (String, String) {
    let word = |kind| WORDS[(mix(counter << 20 | page << 4 | kind) % 32) as usize];
    // One page in 97 has a search engine in its address, another in its title.
    let (path, brand) = match mix(counter << 21 | page) % 97 {
        0 => ("google/", ""),
        1 => ("", " - Google+"),
        _ => ("", ""),
    };
    let url = format!("http://site{counter:04}.example/{path}{}/{}?id={page}", word(1), word(2));
    (url, format!("{} {} {page}{brand}", word(1), word(3)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::sql::analytics::suite::queries;

    const SAMPLE: ClickBench = ClickBench { rows: 100_000, seed: 42 };

    fn lines(part: u32) -> Vec<Vec<String>> {
        let mut rows = PartRows::default();
        SAMPLE.generate(part, &mut rows);
        let text = String::from_utf8(rows.tables()[0].bytes.clone()).unwrap();
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    #[test]
    fn there_are_43_queries_and_as_many_rows_as_asked_for() {
        assert_eq!(queries(SAMPLE.queries()).unwrap().len(), 43);
        let (one, other) = (lines(0), lines(1));
        assert_eq!((SAMPLE.parts(), one.len() + other.len()), (2, 100_000));
        assert!(one.iter().all(|line| line.len() == 25));
        assert_eq!(one, lines(0), "the rows of a part do not depend on the thread that makes them");
        let ids: HashSet<&String> = one.iter().chain(&other).map(|line| &line[0]).collect();
        assert_eq!(ids.len(), 100_000);
    }

    #[test]
    fn few_have_much_and_what_queries_ask_for_is_there() {
        let rows = lines(0);
        let share =
            |is: &dyn Fn(&Vec<String>) -> bool| rows.iter().filter(|row| is(row)).count() as f64 / rows.len() as f64;
        assert!((0.03..0.20).contains(&share(&|row| row[5] == COUNTER.to_string())), "one of 5,000 counters");
        assert!((0.80..0.92).contains(&share(&|row| row[16].is_empty())), "most have no search phrase");
        assert!((0.005..0.05).contains(&share(&|row| row[9].contains("google"))));
        assert!((0.001..0.05).contains(&share(&|row| row[2].contains("Google"))));
        for (column, value) in [(8, USER), (23, REFERER_HASH), (24, URL_HASH)] {
            assert!(share(&|row| row[column] == value.to_string()) > 0.0, "column {column}");
        }
        let users: HashSet<&String> = rows.iter().map(|row| &row[8]).collect();
        assert!((500..20_000).contains(&users.len()), "{} users", users.len());
        assert!(share(&|row| row[8] == USER.to_string()) < 0.01, "a user has few pages");
        // A user has one region.
        let pairs: HashSet<(&String, &String)> = rows.iter().map(|row| (&row[8], &row[7])).collect();
        assert_eq!(pairs.len(), users.len());
    }
}

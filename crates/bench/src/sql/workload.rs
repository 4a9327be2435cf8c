//! Workloads: transactions over SQL, the data they need, and what has to hold of both.
//!
//! | module | workload |
//! | --- | --- |
//! | `tpcc` | TPC-C 5.11: five transactions of a wholesale supplier |
//! | `ycsb` | YCSB's A to F: reads, updates, inserts and scans of one table |
//! | `stock` | YDB's orders on a stock of products |
//! | `queue` | jobs that are done once each; messages that several groups read |
//! | `script` | statements of a file |
//!
//! Invariants
//! - What a client asks depends on its random numbers alone, and neither on answers nor on time.
//!   (One exception: a transaction may ask more because of an answer, as for the customer that a
//!   name belongs to.)
//!
//! Not here: targets, clocks.

pub(crate) mod load;
pub(crate) mod queue;
pub(crate) mod script;
pub(crate) mod stock;
pub(crate) mod tpcc;
pub(crate) mod ycsb;

use std::time::Duration;

use crate::measure::format::significant;
use crate::measure::random::{Random, mix};
use crate::sql::target::batch::AnswerWriter;
use crate::sql::target::{Boxed, Cell, Failure, Session, StatementId, Target};

/// The most figures of its own that a workload can add up.
pub(crate) const TALLIES: usize = 10;

/// What one transaction adds to the figures of its workload.
pub(crate) type Tally = [u32; TALLIES];

/// A transaction type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransactionKind {
    pub(crate) name: &'static str,
    /// Whether it changes something. If its end is not known, neither is whether it did.
    pub(crate) commits: bool,
    /// What nine of ten may take, if the specification limits that.
    pub(crate) p90_max: Option<Duration>,
}

impl TransactionKind {
    /// A transaction type without a limit in a specification.
    pub(crate) const fn new(name: &'static str, commits: bool) -> Self {
        Self { name, commits, p90_max: None }
    }
}

/// What a client does next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    /// Index into [`Workload::kinds`].
    pub(crate) kind: u8,
    /// The waits before the transaction is due, and after it has ended. Only with think times.
    pub(crate) keying: Duration,
    pub(crate) think: Duration,
}

/// A client, such as a terminal of TPC-C. It is small, as there may be hundreds of thousands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) random: Random,
    pub(crate) number: u32,
    /// For the workload: the cards left in a deck.
    pub(crate) deck: [u8; 6],
}

/// How a transaction ended that the target has carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    /// It rolled itself back, as the workload wanted.
    pub(crate) rolled_back: bool,
    pub(crate) tally: Tally,
}

/// The result of a check: whether a run, or the data, meet a requirement of the workload's
/// specification.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Finding {
    /// What was checked.
    pub(crate) what: String,
    /// What was found.
    pub(crate) found: String,
    /// What is required.
    pub(crate) wanted: String,
    pub(crate) verdict: Verdict,
    /// The counts behind it, if findings of several processes can be added up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) basis: Option<Basis>,
}

/// Counts and bands of a finding. Those of the shards of a run can be added up.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Basis {
    /// `part` of the `of` events.
    Share { part: u64, of: u64, expected: f64, low: f64, high: f64 },
    /// The sum of `of` values. `deviation` is the standard deviation of one.
    Mean { sum: u64, of: u64, expected: f64, low: f64, high: f64, deviation: f64 },
    /// What nine of ten transactions of a kind may take, in seconds.
    P90 { kind: String, most_s: f64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Holds,
    /// It does not, but there were too few transactions to tell that from chance.
    TooFew,
    Broken,
}

impl Verdict {
    /// Judges a share or a mean of `of` values, of which one deviates by `deviation`.
    fn of_band(found: f64, of: u64, expected: f64, (low, high): (f64, f64), deviation: f64) -> Self {
        if (low..=high).contains(&found) {
            Self::Holds
        } else if of == 0 || (found - expected).abs() <= 4.0 * deviation / (of as f64).sqrt() {
            Self::TooFew
        } else {
            Self::Broken
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::TooFew => "too few to tell",
            Self::Broken => "BROKEN",
        }
    }
}

impl Finding {
    /// Judges a share of events, which has to lie between two bounds. Outside of them it is broken
    /// if it is more than four standard deviations away from the expected one.
    pub(crate) fn share(what: &str, part: u64, of: u64, expected: f64, low: f64, high: f64) -> Self {
        let share = if of == 0 { f64::NAN } else { part as f64 / of as f64 };
        let deviation = (expected * (1.0 - expected)).sqrt();
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        let wanted = match (low, high) {
            (low, high) if high >= 1.0 => format!("at least {}", percent(low)),
            (low, high) if low <= 0.0 => format!("at most {}", percent(high)),
            (low, high) => format!("{} to {}", percent(low), percent(high)),
        };
        let found = if of == 0 { "none".to_owned() } else { format!("{} of {of}", percent(share)) };
        let verdict = Verdict::of_band(share, of, expected, (low, high), deviation);
        let basis = Some(Basis::Share { part, of, expected, low, high });
        Self { what: what.to_owned(), found, wanted, verdict, basis }
    }

    /// Judges the mean of `of` values with this sum, as a share is judged. `deviation` is the
    /// standard deviation of one value.
    pub(crate) fn mean(
        what: &str,
        (sum, of): (u64, u64),
        expected: f64,
        (low, high): (f64, f64),
        deviation: f64,
    ) -> Self {
        let mean = if of == 0 { f64::NAN } else { sum as f64 / of as f64 };
        let found = if of == 0 { "none".to_owned() } else { format!("{mean:.2} of {of}") };
        let verdict = Verdict::of_band(mean, of, expected, (low, high), deviation);
        let basis = Some(Basis::Mean { sum, of, expected, low, high, deviation });
        Self { what: what.to_owned(), found, wanted: format!("{low:.2} to {high:.2}"), verdict, basis }
    }

    /// Judges what nine of ten transactions of a kind took.
    pub(crate) fn p90(kind: &str, p90: Duration, most: Duration) -> Self {
        let (found_s, most_s) = (p90.as_secs_f64(), most.as_secs_f64());
        let found = format!("{} s", significant(found_s));
        let finding = Self::fact(format!("p90 of {kind}"), found, format!("at most {most_s} s"), p90 <= most);
        Self { basis: Some(Basis::P90 { kind: kind.to_owned(), most_s }), ..finding }
    }

    /// The finding of two processes together; `None` if their counts are not known. The bands may
    /// differ a little, as shards insert rows.
    pub(crate) fn added(&self, other: &Self) -> Option<Self> {
        let between = |a: f64, a_of: u64, b: f64, b_of: u64| match a_of + b_of {
            0 => a,
            both => (a * a_of as f64 + b * b_of as f64) / both as f64,
        };
        match (self.basis.as_ref()?, other.basis.as_ref()?) {
            (
                &Basis::Share { part, of, expected, low, high },
                &Basis::Share { part: p, of: o, expected: e, low: l, high: h },
            ) => {
                let expected = between(expected, of, e, o);
                Some(Self::share(&self.what, part + p, of + o, expected, low.min(l), high.max(h)))
            }
            (&Basis::Mean { sum, of, expected, low, high, deviation }, &Basis::Mean { sum: more, of: of_more, .. }) => {
                Some(Self::mean(&self.what, (sum + more, of + of_more), expected, (low, high), deviation))
            }
            _ => None,
        }
    }

    /// Judges a number of rows, which has to lie between these.
    pub(crate) fn count(what: impl Into<String>, found: i64, least: i64, most: i64) -> Self {
        let wanted = match most {
            i64::MAX => format!("at least {least}"),
            most if most == least => least.to_string(),
            most => format!("{least} to {most}"),
        };
        Self::fact(what, found.to_string(), wanted, (least..=most).contains(&found))
    }

    /// Judges something that holds or does not.
    pub(crate) fn fact(
        what: impl Into<String>,
        found: impl Into<String>,
        wanted: impl Into<String>,
        holds: bool,
    ) -> Self {
        let verdict = if holds { Verdict::Holds } else { Verdict::Broken };
        Self { what: what.into(), found: found.into(), wanted: wanted.into(), verdict, basis: None }
    }
}

/// The totals of a run, for the audit of its workload.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    /// Transactions by kind.
    pub(crate) committed: Vec<u64>,
    pub(crate) rolled_back: Vec<u64>,
    /// What nine of ten of each kind did not exceed, from when they were due.
    pub(crate) p90: Vec<Duration>,
    pub(crate) tally: [u64; TALLIES],
    /// Clients played all their cards, so that the mix is the workload's.
    pub(crate) has_think_times: bool,
}

/// Transactions that were acknowledged over the whole run, warm-up included, by kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acknowledged {
    pub(crate) committed: Vec<u64>,
    /// Commits whose outcome is unknown, by kind.
    pub(crate) unknown: Vec<u64>,
}

impl Acknowledged {
    /// Adds those of another thread, or of a run before or after on the same data.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in [(&mut self.committed, &other.committed), (&mut self.unknown, &other.unknown)] {
            sum.resize(sum.len().max(more.len()), 0);
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }
}

/// A workload. Its data are on a target, its state in [`Client`]s.
pub(crate) trait Workload: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// What a reader of the result has to know, the scale above all.
    fn about(&self) -> String;

    fn kinds(&self) -> &'static [TransactionKind];

    /// Names of the figures of [`Done::tally`].
    fn tallies(&self) -> &'static [&'static str] {
        &[]
    }

    /// Texts of the statements that its transactions call; the first is
    /// [`crate::sql::target::FIRST`].
    fn statements(&self) -> Vec<String>;

    /// Writes rows such as a database would answer with.
    fn imitate(&self, statement: StatementId, params: &[Cell], answer: &mut AnswerWriter<'_>);

    /// How many clients make sense: with think times, and without.
    fn clients(&self) -> Option<u32> {
        None
    }

    /// Warehouses, if the workload has any.
    fn warehouses(&self) -> Option<u32> {
        None
    }

    /// Lets only the first `warehouses` of those loaded have clients from the next run on. Gives
    /// how many clients these are.
    fn set_warehouses(&self, warehouses: u32) -> Option<u32> {
        let _has_none = warehouses;
        None
    }

    /// How long a client with think times takes from one transaction to the next on average.
    fn cycle(&self) -> Option<Duration> {
        None
    }

    /// What a client with think times does first, so that load and mix have their level at once.
    /// The client is met in the middle of a cycle: its `keying` is the rest of that cycle, and its
    /// kind the one that the cycle leads to.
    fn first(&self, client: &mut Client) -> Option<Choice> {
        let keying = self.cycle()?.mul_f64(client.random.unit());
        Some(Choice { keying, ..self.choose(client) })
    }

    fn client(&self, number: u32, seed: u64) -> Client {
        // The data use the streams of the seed itself.
        Client { random: Random::new(mix(seed ^ 0xC11E), u64::from(number)), number, deck: [0; 6] }
    }

    fn choose(&self, client: &mut Client) -> Choice;

    /// Runs one transaction, in a session that is in none.
    ///
    /// # Errors
    /// Those of the target; the transaction is rolled back then.
    fn transaction<'a>(
        &'a self,
        client: &'a mut Client,
        kind: u8,
        session: &'a mut Session,
    ) -> Boxed<'a, Result<Done, Failure>>;

    /// The schema, and the parts of the data.
    fn data(&self) -> Box<dyn load::Data + '_>;

    /// Reads from the data, before a run, constants that were stored with them.
    fn prepare<'a>(&'a self, target: &'a dyn Target) -> Boxed<'a, Result<(), Failure>> {
        let _nothing_to_find_out = target;
        Box::pin(async { Ok(()) })
    }

    /// Checks the conditions that hold after any number of transactions. `each` is called with each
    /// finding as it is made.
    fn check<'a>(
        &'a self,
        target: &'a dyn Target,
        each: &'a mut (dyn FnMut(&Finding) + Send),
    ) -> Boxed<'a, Result<Vec<Finding>, Failure>>;

    /// A query for a figure of the data that grows with acknowledged transactions: see
    /// [`Workload::reconcile`].
    fn mark_query(&self) -> Option<&'static str> {
        None
    }

    /// That figure; `None` if the workload has none, or the target stores no data.
    fn mark<'a>(&'a self, target: &'a dyn Target) -> Boxed<'a, Result<Option<i64>, Failure>> {
        Box::pin(async move {
            let Some(query) = self.mark_query().filter(|_| target.keeps_data()) else { return Ok(None) };
            let mut session = target.connect(&[]).await?;
            session.count(query).await.map(Some)
        })
    }

    /// Checks that the data hold what was acknowledged: not less, and not more than that and what
    /// is unknown.
    fn reconcile(&self, before: i64, after: i64, acknowledged: &Acknowledged) -> Option<Finding> {
        let _nothing_to_compare = (before, after, acknowledged);
        None
    }

    /// Checks a run against the specification.
    fn audit(&self, totals: &Totals) -> Vec<Finding>;

    /// Figures of a result that only this workload has, with their names.
    fn figures(&self, totals: &Totals, seconds: f64) -> Vec<(&'static str, f64)> {
        let _nothing_of_its_own = (totals, seconds);
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_judged_by_its_band_and_by_chance() {
        let verdict = |part, of| Finding::share("", part, of, 0.01, 0.009, 0.011).verdict;
        assert_eq!(verdict(1_000, 100_000), Verdict::Holds);
        assert_eq!(verdict(1_200, 100_000), Verdict::Broken);
        assert_eq!(verdict(3, 100), Verdict::TooFew);
        assert_eq!(verdict(20, 100), Verdict::Broken);
        assert_eq!(verdict(0, 0), Verdict::TooFew);
    }

    #[test]
    fn findings_of_parts_are_judged_again_as_one() {
        let share = |part, of| Finding::share("", part, of, 0.01, 0.009, 0.011);
        // Chance explains either, and not both together.
        let (one, other) = (share(145, 10_000), share(140, 10_000));
        assert_eq!((one.verdict, share(139, 10_000).verdict), (Verdict::Broken, Verdict::TooFew));
        assert_eq!(one.added(&other), Some(share(285, 20_000)));
        assert_eq!(share(139, 10_000).added(&share(139, 10_000)).unwrap().verdict, Verdict::Broken);
        let mean = |sum, of| Finding::mean("", (sum, of), 10.0, (9.5, 10.5), 3.2);
        assert_eq!(mean(0, 0).added(&mean(100, 10)), Some(mean(100, 10)));
        assert_eq!(mean(1_100, 100).added(&mean(9_000, 1_000)), Some(mean(10_100, 1_100)));
        assert_eq!(share(1, 1).added(&mean(1, 1)), None);
        assert_eq!(Finding::fact("", "", "", true).added(&share(1, 1)), None);
    }
}

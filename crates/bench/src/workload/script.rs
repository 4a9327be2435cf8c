//! Statements of a file as a workload: one run of the file is one transaction for the statistics, in one exchange.
//!
//! ```text
//! -- lines of a script
//! \set account random(1, 100000)
//! \set delta random(-5000, 5000)
//! BEGIN;
//! UPDATE accounts SET balance = balance + :delta WHERE id = :account;
//! SELECT balance FROM accounts WHERE id = :account;
//! COMMIT;
//! ```
//!
//! `\set NAME EXPRESSION` gives a variable an integer: numbers, `:variables`, `client` (the client's number), `random(low, high)`,
//! `random_zipfian(low, high)` with θ = 0.99, `+ - * /` and parentheses. `:name` in a statement is a parameter.
//!
//! Not here: values from answers, and several scripts with weights.

mod expression;

use std::sync::Arc;
use std::time::Duration;

use crate::kv::{Error, Result};
use crate::random::mix;
use crate::target::batch::AnswerWriter;
use crate::target::{BEGIN, Boxed, COMMIT, Cell, FIRST, Failure, ROLLBACK, Session, StatementId, Target};
use crate::workload::load::{self, PartRows};
use crate::workload::{Choice, Client, Done, Finding, TALLIES, Totals, TransactionKind, Workload};
use expression::Expression;

pub(crate) const NAME: &str = "script";
const KINDS: [TransactionKind; 1] = [TransactionKind::new("Script", true)];

/// A line of a script.
#[derive(Debug, Clone, PartialEq)]
enum Command {
    /// A variable, by its place, and its value.
    Set(usize, Expression),
    /// A statement, and the variables that are its parameters.
    Run(StatementId, Vec<usize>),
}

/// The workload.
#[derive(Debug)]
pub(crate) struct Script {
    name: String,
    commands: Vec<Command>,
    variables: usize,
    statements: Vec<String>,
    /// Statements that are run once, before.
    setup: Vec<String>,
}

/// Statements of a text; `;` ends one, quotes and comments are what they are in SQL.
fn statements(text: &str) -> Vec<String> {
    let (mut found, mut statement, mut quote) = (Vec::new(), String::new(), None);
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '-') if rest.peek() == Some(&'-') => {
                rest.by_ref().find(|&character| character == '\n');
                statement.push('\n');
                continue;
            }
            (None, ';') => {
                found.push(std::mem::take(&mut statement));
                continue;
            }
            _ => {}
        }
        statement.push(character);
    }
    found.push(statement);
    found.into_iter().map(|statement| statement.trim().to_owned()).filter(|statement| !statement.is_empty()).collect()
}

impl Script {
    /// Reads a script, and what is to be run once before it.
    ///
    /// # Errors
    /// A variable that is not set, an expression that is none.
    pub(crate) fn parse(name: &str, text: &str, setup: &str) -> Result<Self> {
        let mut script = Self {
            name: name.to_owned(),
            commands: Vec::new(),
            variables: 0,
            statements: Vec::new(),
            setup: statements(setup),
        };
        let mut names: Vec<String> = Vec::new();
        let mut sql = String::new();
        for line in text.lines() {
            let Some(rest) = line.trim_start().strip_prefix('\\') else {
                sql.push_str(line);
                sql.push('\n');
                continue;
            };
            script.add_statements(&std::mem::take(&mut sql), &names)?;
            let set = rest.strip_prefix("set").and_then(|rest| rest.trim().split_once(char::is_whitespace));
            let Some((variable, value)) = set else {
                return Err(Error::usage(format!("{name}: not understood: {line}: \\set NAME EXPRESSION is")));
            };
            let value = Expression::parse(value, &names).map_err(|e| Error::usage(format!("{name}: {line}: {e}")))?;
            let place = names.iter().position(|known| known == variable).unwrap_or_else(|| {
                names.push(variable.to_owned());
                names.len() - 1
            });
            script.commands.push(Command::Set(place, value));
        }
        script.add_statements(&sql, &names)?;
        script.variables = names.len();
        if !script.commands.iter().any(|command| matches!(command, Command::Run(..))) {
            return Err(Error::usage(format!("{name} has no statement")));
        }
        Ok(script)
    }

    fn add_statements(&mut self, sql: &str, names: &[String]) -> Result<()> {
        for statement in statements(sql) {
            let known = match statement.to_ascii_lowercase().as_str() {
                "begin" => Some(BEGIN),
                "commit" | "end" => Some(COMMIT),
                "rollback" => Some(ROLLBACK),
                _ => None,
            };
            if let Some(id) = known {
                self.commands.push(Command::Run(id, Vec::new()));
                continue;
            }
            let (text, variables) = self.with_parameters(&statement, names)?;
            self.statements.push(text);
            let id = StatementId(FIRST + self.statements.len() as u16 - 1);
            self.commands.push(Command::Run(id, variables));
        }
        Ok(())
    }

    /// The text with `$1` for `:name`, and the variables in that order. `::type` is a cast, and quotes are left alone.
    fn with_parameters(&self, statement: &str, names: &[String]) -> Result<(String, Vec<usize>)> {
        let (mut text, mut variables, mut quote) = (String::new(), Vec::new(), None);
        let mut rest = statement;
        while let Some(character) = rest.chars().next() {
            let after = &rest[character.len_utf8()..];
            match (quote, character) {
                (Some(open), _) if character == open => quote = None,
                (None, '\'' | '"') => quote = Some(character),
                (None, ':') if after.starts_with(':') => {
                    text.push_str("::");
                    rest = &after[1..];
                    continue;
                }
                (None, ':') => {
                    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
                    let (name, after) = after.split_at(end);
                    let place = names.iter().position(|known| known == name);
                    let place = place
                        .ok_or_else(|| Error::usage(format!("{}: :{name} is not set before {statement}", self.name)))?;
                    let number = variables.iter().position(|&other| other == place).unwrap_or_else(|| {
                        variables.push(place);
                        variables.len() - 1
                    });
                    text.push_str(&format!("${}", number + 1));
                    rest = after;
                    continue;
                }
                _ => {}
            }
            text.push(character);
            rest = after;
        }
        Ok((text, variables))
    }
}

impl Workload for Script {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> String {
        format!("script {}, {} statements", self.name, self.commands.len())
    }

    fn kinds(&self) -> &'static [TransactionKind] {
        &KINDS
    }

    fn statements(&self) -> Vec<String> {
        self.statements.clone()
    }

    fn imitate(&self, _statement: StatementId, _params: &[Cell], answer: &mut AnswerWriter<'_>) {
        answer.affected(1);
    }

    fn choose(&self, _client: &mut Client) -> Choice {
        Choice { kind: 0, keying: Duration::ZERO, think: Duration::ZERO }
    }

    fn transaction<'a>(
        &'a self,
        client: &'a mut Client,
        _kind: u8,
        session: &'a mut Session,
    ) -> Boxed<'a, std::result::Result<Done, Failure>> {
        Box::pin(async move {
            let mut values = vec![0_i64; self.variables];
            for command in &self.commands {
                match command {
                    Command::Set(place, expression) => {
                        values[*place] = expression
                            .value(&values, client)
                            .ok_or_else(|| Failure::answer("an expression of the script has no value"))?;
                    }
                    Command::Run(statement, variables) => {
                        let call = session.call(*statement);
                        variables.iter().fold(call, |call, &place| call.int(values[place]));
                    }
                }
            }
            session.run().await?;
            Ok(Done { rolled_back: false, tally: [0; TALLIES] })
        })
    }

    fn data(&self) -> Box<dyn load::Data + '_> {
        Box::new(Setup { of: self })
    }

    fn check<'a>(
        &'a self,
        _target: &'a dyn Target,
        _each: &'a mut (dyn FnMut(&Finding) + Send),
    ) -> Boxed<'a, std::result::Result<Vec<Finding>, Failure>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn audit(&self, _totals: &Totals) -> Vec<Finding> {
        Vec::new()
    }
}

/// The script that makes the data.
struct Setup<'s> {
    of: &'s Script,
}

impl load::Data for Setup<'_> {
    fn fingerprint(&self) -> String {
        let text = self.of.setup.join(";");
        let hash = text.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
        format!("script {:016x}", hash)
    }

    fn tables(&self) -> Vec<String> {
        self.of.setup.clone()
    }

    fn indexes(&self) -> Vec<String> {
        Vec::new()
    }

    fn table_names(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn parts(&self) -> u32 {
        0
    }

    fn rows(&self) -> u64 {
        0
    }

    fn generate(&self, _part: u32, _rows: &mut PartRows) {}
}

/// As the command line has it: files.
pub(crate) fn open(script: &std::path::Path, setup: Option<&std::path::Path>) -> Result<Arc<dyn Workload>> {
    let read = |path: &std::path::Path| std::fs::read_to_string(path).map_err(|e| Error::io("cannot read", path, e));
    let setup = setup.map(read).transpose()?.unwrap_or_default();
    let name = script.file_name().unwrap_or_default().to_string_lossy();
    Ok(Arc::new(Script::parse(&name, &read(script)?, &setup)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{self, Pacing, Unwatched};
    use crate::target::colibri::Colibri;
    use crate::target::{Isolation, texts};
    use crate::workload::load::load;
    use crate::workload::tpcc::tests::plan;

    const SETUP: &str = "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL); -- all; of them
        INSERT INTO accounts SELECT i, 0 FROM generate_series(1, 100) AS g(i)";
    const SCRIPT: &str = "\\set id random(1, 100)\n\\set delta random(-50, 50) * 2\nBEGIN;\n\
        UPDATE accounts SET balance = balance + :delta WHERE id = :id;\n\
        UPDATE accounts SET balance = balance - :delta WHERE id = 101 - :id;\nCOMMIT;";

    #[test]
    fn variables_become_parameters_once_each_and_quotes_are_left_alone() {
        let script =
            Script::parse("s", "\\set a 1\n\\set b :a + 1\nSELECT :b, :a, :b, ':a', x::int -- :c\n;BEGIN;", "")
                .unwrap();
        assert_eq!(script.statements, ["SELECT $1, $2, $1, ':a', x::int"]);
        assert_eq!(script.commands[2], Command::Run(StatementId(FIRST), vec![1, 0]));
        assert_eq!(script.commands[3], Command::Run(BEGIN, Vec::new()));
    }

    #[test]
    fn a_script_that_cannot_run_is_refused() {
        for text in [
            "",
            "SELECT :a",
            "\\set a\nSELECT 1",
            "\\set a random(1\nSELECT 1",
            "\\shell rm\nSELECT 1",
            "\\set a :b\nSELECT :a",
        ] {
            assert!(Script::parse("s", text, "").is_err(), "{text}");
        }
    }

    #[test]
    fn a_script_runs_and_what_it_keeps_constant_stays() {
        let dir = tempfile::tempdir().unwrap();
        let target: Arc<dyn Target> = Arc::new(Colibri::open(dir.path(), colibri::Durability::NoSync).unwrap());
        let workload: Arc<dyn Workload> = Arc::new(Script::parse("s", SCRIPT, SETUP).unwrap());
        let runtime = driver::runtime(1).unwrap();
        runtime.block_on(load(&target, &workload, 1, &Arc::default())).unwrap();
        let statements = texts(Isolation::Default, workload.statements());
        let measured =
            driver::run(&workload, &target, &statements, &plan(Pacing::Closed, 4, 0.5), &mut Unwatched).unwrap();
        assert!(measured.ended() > 0 && measured.failed() == 0, "{:?}", measured.failures);
        let sums = "SELECT sum(balance), sum(abs(balance)) FROM accounts";
        let table = runtime.block_on(async { target.connect(&[]).await?.query(sums).await }).unwrap();
        assert_eq!(table.answer().decimal(0, 0, 0), Some(0));
        assert!(table.answer().decimal(0, 1, 0) > Some(0));
    }
}

//! A fresh database for each test, of a program that keeps its data in Colibri: `cargo test
//! --example fresh_database`.
//!
//! A database is a directory, and opening one takes no server and no port. The schema and the data
//! that all tests begin with are made once, and each test gets a copy of its own, which shares what
//! neither has changed: it costs a commit, whatever the size. All tests run side by side, and nothing
//! is left behind. `NoSync` takes the disk out of it; all else is as in production, isolation and
//! constraints included.

use std::sync::{Arc, Mutex, Weak};

use colibri::sql::{Connection, Database, Result};

const SCHEMA: &str = "
    CREATE TABLE accounts (owner text PRIMARY KEY, cents bigint NOT NULL CHECK (cents >= 0));
    CREATE TABLE transfers (id serial PRIMARY KEY, payer text NOT NULL REFERENCES accounts, payee text NOT NULL
        REFERENCES accounts, cents bigint NOT NULL CHECK (cents > 0))";

/// What is tested: moves money, or changes nothing.
fn transfer(conn: &mut Connection, payer: &str, payee: &str, cents: i64) -> Result<()> {
    conn.transaction(|tx| {
        tx.execute("UPDATE accounts SET cents = cents - $2 WHERE owner = $1", (payer, cents))?;
        tx.execute("UPDATE accounts SET cents = cents + $2 WHERE owner = $1", (payee, cents))?;
        tx.execute("INSERT INTO transfers (payer, payee, cents) VALUES ($1, $2, $3)", (payer, payee, cents)).map(drop)
    })
}

fn balance(conn: &mut Connection, owner: &str) -> Result<i64> {
    conn.query_row("SELECT cents FROM accounts WHERE owner = $1", (owner,))?.get(0)
}

/// What every test begins with: a database, and its directory, which goes with it.
struct Template {
    db: Database,
    _dir: tempfile::TempDir,
}

fn template() -> Result<Template> {
    let dir = tempfile::tempdir().expect("a directory");
    let options = colibri::Options::new().durability(colibri::Durability::NoSync);
    let db = Database::open_with(dir.path(), &options)?;
    db.connect().batch(SCHEMA)?;
    db.connect().batch("INSERT INTO accounts VALUES ('Ada', 500), ('Grace', 0)")?;
    Ok(Template { db, _dir: dir })
}

/// A database that goes away when the value is dropped.
struct Fresh {
    db: Database,
    _template: Arc<Template>,
}

fn fresh() -> Result<Fresh> {
    // The template lasts as long as tests use it. A value that stays to the end of the process would
    // leave its directory behind.
    static TEMPLATE: Mutex<Weak<Template>> = Mutex::new(Weak::new());
    let mut shared = TEMPLATE.lock().expect("no thread panics");
    let template = match shared.upgrade() {
        Some(template) => template,
        None => {
            let template = Arc::new(template()?);
            *shared = Arc::downgrade(&template);
            template
        }
    };
    Ok(Fresh { db: template.db.fresh()?, _template: template })
}

fn main() -> Result<()> {
    let fresh = fresh()?;
    let mut conn = fresh.db.connect();
    transfer(&mut conn, "Ada", "Grace", 200)?;
    println!(
        "Grace has {} cents. The tests of this program: cargo test --example fresh_database",
        balance(&mut conn, "Grace")?
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_moves() -> Result<()> {
        let fresh = fresh()?;
        let mut conn = fresh.db.connect();
        transfer(&mut conn, "Ada", "Grace", 200)?;
        assert_eq!((balance(&mut conn, "Ada")?, balance(&mut conn, "Grace")?), (300, 200));
        Ok(())
    }

    #[test]
    fn more_than_there_is_moves_nothing() -> Result<()> {
        let fresh = fresh()?;
        let mut conn = fresh.db.connect();
        let error = transfer(&mut conn, "Grace", "Ada", 1).expect_err("Grace has nothing");
        assert_eq!(error.report().constraint.as_deref(), Some("accounts_cents_check"));
        assert_eq!((balance(&mut conn, "Ada")?, balance(&mut conn, "Grace")?), (500, 0));
        Ok(())
    }

    #[test]
    fn nobody_pays_to_nobody() -> Result<()> {
        let fresh = fresh()?;
        let mut conn = fresh.db.connect();
        let error = transfer(&mut conn, "Ada", "Alan", 1).expect_err("there is no Alan");
        assert_eq!(error.state().0, "23503");
        assert_eq!(balance(&mut conn, "Ada")?, 500);
        Ok(())
    }

    #[test]
    fn money_stays_the_same_when_all_pay_at_once() -> Result<()> {
        let fresh = fresh()?;
        std::thread::scope(|scope| {
            let payers: Vec<_> = [("Ada", "Grace"), ("Grace", "Ada"), ("Ada", "Grace")]
                .map(|(payer, payee)| {
                    let mut conn = fresh.db.connect();
                    // A transfer without enough money is refused; that is part of the example.
                    scope.spawn(move || (0..20).for_each(|_| _ = transfer(&mut conn, payer, payee, 70)))
                })
                .into();
            payers.into_iter().for_each(|payer| payer.join().expect("no thread panics"));
        });
        let total = fresh.db.connect().query_row("SELECT sum(cents)::bigint FROM accounts", ())?;
        assert_eq!(total.get::<_, i64>(0)?, 500);
        Ok(())
    }
}

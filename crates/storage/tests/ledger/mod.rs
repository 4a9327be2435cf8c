//! A database whose every committed state can be told from a mixture of two: what the tests of
//! readers and writers in many threads and processes write and verify.
//!
//! State `n` follows from `n` alone, in a table of each kind:
//! - `stamps`: each of [`STAMPS`] keys has a value that spells out `n` and the key; one of them in
//!   pages of its own;
//! - `accounts`: balances between which each state moved some money, so that their sum stays what
//!   it was;
//! - `journal`: the last [`JOURNAL`] states, a pair for each.

#![allow(dead_code, reason = "each test file is a crate of its own and uses what it needs")]

use colibri_storage::{Database, Result, Snapshot, TableKind, WriteTxn};

pub(crate) const STAMPS: u64 = 40;
pub(crate) const ACCOUNTS: u64 = 600;
pub(crate) const JOURNAL: u64 = 50;
const BALANCE: i64 = 1000;

/// Mixes a number into a random-looking one.
pub(crate) fn mix(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ n >> 32
}

fn stamp_key(key: u64) -> Vec<u8> {
    format!("stamp/{key:04}").into_bytes()
}

fn stamp_value(state: u64, key: u64) -> Vec<u8> {
    let len = match key {
        0 => 5000 + mix(state) % 9000,
        _ => mix(state ^ key << 32) % 200,
    };
    let mut value = state.to_le_bytes().to_vec();
    value.extend((0..len).map(|i| mix(state.wrapping_mul(31) + key + i / 8) as u8));
    value
}

fn journal_key(state: u64) -> Vec<u8> {
    format!("day {}", state / 7).into_bytes()
}

/// The state a transaction starts from; 0 before the first.
pub(crate) fn state_of(txn: &WriteTxn) -> Result<u64> {
    let Ok(stamps) = txn.table("stamps") else { return Ok(0) };
    let first = txn.get(&stamps, &stamp_key(1))?.expect("a ledger has stamps");
    Ok(u64::from_le_bytes(first[..8].try_into().unwrap()))
}

/// Brings a transaction from its state to the next, which is returned.
pub(crate) fn advance(txn: &mut WriteTxn) -> Result<u64> {
    let state = state_of(txn)? + 1;
    let stamps = txn.create_table("stamps", TableKind::Plain)?;
    let accounts = txn.create_table("accounts", TableKind::Integer)?;
    let journal = txn.create_table("journal", TableKind::Multi)?;
    if state == 1 {
        let opening = (0..ACCOUNTS).map(|account| (account.to_be_bytes(), BALANCE.to_le_bytes()));
        txn.load_sorted(&accounts, opening)?;
    }
    for key in 0..STAMPS {
        txn.put(&stamps, &stamp_key(key), &stamp_value(state, key))?;
    }
    for i in 0..3 {
        let dice = mix(state * 3 + i);
        let (from, to) = (dice % ACCOUNTS, dice / ACCOUNTS % ACCOUNTS);
        let amount = (dice >> 40) as i64 % 100;
        for (account, change) in [(from, -amount), (to, amount)] {
            let balance = txn.get(&accounts, &account.to_be_bytes())?.expect("accounts stay");
            let balance = i64::from_le_bytes(balance.try_into().unwrap()) + change;
            txn.put(&accounts, &account.to_be_bytes(), &balance.to_le_bytes())?;
        }
    }
    txn.put(&journal, &journal_key(state), &state.to_be_bytes())?;
    if let Some(old) = state.checked_sub(JOURNAL).filter(|&old| old > 0) {
        assert!(txn.delete_value(&journal, &journal_key(old), &old.to_be_bytes())?);
    }
    Ok(state)
}

/// Commits the next state, which is returned.
pub(crate) fn commit_next(db: &Database) -> Result<u64> {
    let mut txn = db.write()?;
    let state = advance(&mut txn)?;
    txn.commit()?;
    Ok(state)
}

/// Reads everything and verifies that it is one state, which is returned; 0 for a database without
/// a ledger.
pub(crate) fn verify(snapshot: &Snapshot<'_>) -> u64 {
    let Ok(stamps) = snapshot.table("stamps") else { return 0 };
    let stamps = snapshot.view(&stamps).unwrap();
    let first = stamps.get(&stamp_key(0)).unwrap().expect("a ledger has stamps");
    let state = u64::from_le_bytes(first[..8].try_into().unwrap());
    let mut key = 0;
    for entry in stamps.range(..).unwrap() {
        let (found, value) = entry.unwrap();
        assert_eq!(found.as_slice(), stamp_key(key));
        assert!(*value == *stamp_value(state, key), "state {state} has another value under stamp {key}");
        key += 1;
    }
    assert_eq!(key, STAMPS, "state {state}");

    let accounts = snapshot.view(&snapshot.table("accounts").unwrap()).unwrap();
    let balances = accounts.range(..).unwrap().map(|entry| i64::from_le_bytes((*entry.unwrap().1).try_into().unwrap()));
    let (count, sum) = balances.fold((0, 0), |(count, sum), balance| (count + 1, sum + balance));
    assert_eq!((count, sum), (ACCOUNTS, ACCOUNTS as i64 * BALANCE), "state {state}");

    let journal = snapshot.view(&snapshot.table("journal").unwrap()).unwrap();
    let states: Vec<u64> =
        journal.range(..).unwrap().map(|entry| u64::from_be_bytes((*entry.unwrap().1).try_into().unwrap())).collect();
    let mut expected: Vec<u64> = (state.saturating_sub(JOURNAL - 1).max(1)..=state).collect();
    expected.sort_by_key(|&state| (journal_key(state), state));
    assert_eq!(states, expected, "state {state}");
    state
}

/// Fails unless `check` finds nothing.
pub(crate) fn assert_clean(db: &Database) {
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

//! The `null` target: no database at all, so that its numbers are the harness's own cost and
//! ceiling.
//!
//! Keys are generated and reads are verified as for every engine: a read is answered with the value
//! that belongs to the key, a walk with one entry over and over.
//!
//! Not here: storage. A read is answered whether or not the key was ever set.

use crate::engine::keys::{KeySpace, write_value};
use crate::engine::targets::{Config, EntryVisitor, Session, Target, TxnBody, ValueVisitor, WriteOps};
use crate::measure::Result;

struct Null(Config);

pub(super) fn open(config: &Config) -> Box<dyn Target> {
    Box::new(Null(*config))
}

/// Answers reads, for this target and for others that store nothing.
pub(super) fn session(config: &Config) -> NullSession {
    let mut key = vec![0; config.key_bytes];
    KeySpace::new(config.key_bytes, 0).write_key(0, &mut key);
    NullSession { key, ops: NullOps { value: vec![0; config.value_bytes] } }
}

impl Target for Null {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(session(&self.0)))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn keeps_records(&self) -> bool {
        false
    }

    fn notes(&self) -> String {
        "no engine: the harness's own cost".to_owned()
    }
}

pub(super) struct NullSession {
    key: Vec<u8>,
    ops: NullOps,
}

struct NullOps {
    value: Vec<u8>,
}

impl Session for NullSession {
    fn transact(&mut self, body: TxnBody<'_>) -> Result<()> {
        body(&mut self.ops)
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        self.ops.get(key, visit)
    }

    fn walk(&mut self, visit: EntryVisitor<'_>) -> Result<()> {
        write_value(&self.key, &mut self.ops.value);
        while visit(&self.key, &self.ops.value) {}
        Ok(())
    }
}

impl WriteOps for NullOps {
    fn set(&mut self, _key: &[u8], _value: &[u8]) -> Result<()> {
        Ok(())
    }

    fn delete(&mut self, _key: &[u8]) -> Result<bool> {
        Ok(true)
    }

    fn get(&mut self, key: &[u8], visit: ValueVisitor<'_>) -> Result<bool> {
        write_value(key, &mut self.value);
        visit(&self.value);
        Ok(true)
    }
}

//! What operators kept, as EXPLAIN ANALYZE tells it: in PostgreSQL's words where it has such lines.

/// What an operator kept in memory and on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spilled {
    /// The most at a time.
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    /// Parts that it was dealt with in.
    pub batches: u64,
}

/// The same, of an operator of some kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// A sort, and how it was done.
    Sort(&'static str, Spilled),
    /// A hash join's table, or that of rows kept by keys: without places to look at where rows are
    /// in order on disk.
    Hash { buckets: u64, spilled: Spilled },
    /// Grouping, DISTINCT, INTERSECT or EXCEPT.
    Groups(Spilled),
    /// Rows that are read more than once, or later.
    Rows(Spilled),
    /// Rows of a query that an expression compares with.
    Set(Spilled),
}

impl Usage {
    pub(super) fn spilled(self) -> Spilled {
        match self {
            Self::Sort(_, spilled) | Self::Hash { spilled, .. } => spilled,
            Self::Groups(spilled) | Self::Rows(spilled) | Self::Set(spilled) => spilled,
        }
    }

    /// This, or what there was before if that is more.
    pub fn or_more(self, before: Option<Self>) -> Self {
        let size = |usage: Self| (usage.spilled().disk_bytes, usage.spilled().memory_bytes);
        before.filter(|&before| size(before) > size(self)).unwrap_or(self)
    }

    /// As PostgreSQL says it.
    pub(super) fn line(self) -> String {
        let Spilled { memory_bytes, disk_bytes, batches } = self.spilled();
        let (memory, disk) = (kilobytes(memory_bytes), kilobytes(disk_bytes));
        let on_disk = if disk > 0 { format!("  Disk Usage: {disk}kB") } else { String::new() };
        match self {
            Self::Sort(method, _) if disk > 0 => format!("Sort Method: {method}  Disk: {disk}kB"),
            Self::Sort(method, _) => format!("Sort Method: {method}  Memory: {memory}kB"),
            Self::Hash { buckets: 0, .. } => format!("Batches: {batches}  Memory Usage: {memory}kB{on_disk}"),
            Self::Hash { buckets, .. } => {
                format!("Buckets: {buckets}  Batches: {batches}  Memory Usage: {memory}kB{on_disk}")
            }
            Self::Groups(_) => format!("Batches: {batches}  Memory Usage: {memory}kB{on_disk}"),
            Self::Rows(_) => format!("Storage: Disk  Maximum Storage: {disk}kB"),
            Self::Set(_) => format!("Set Memory Usage: {memory}kB{on_disk}"),
        }
    }

    /// The same as JSON has it.
    pub(super) fn figures(self) -> Vec<(&'static str, Figure)> {
        let Spilled { memory_bytes, disk_bytes, batches } = self.spilled();
        let (memory, disk) = (Figure::Number(kilobytes(memory_bytes)), Figure::Number(kilobytes(disk_bytes)));
        let (used, kind) = if disk_bytes > 0 { (disk, "Disk") } else { (memory, "Memory") };
        match self {
            Self::Sort(method, _) => vec![
                ("Sort Method", Figure::Word(method)),
                ("Sort Space Used", used),
                ("Sort Space Type", Figure::Word(kind)),
            ],
            Self::Hash { buckets, .. } => vec![
                ("Hash Buckets", Figure::Number(buckets)),
                ("Hash Batches", Figure::Number(batches)),
                ("Peak Memory Usage", memory),
                ("Disk Usage", disk),
            ],
            Self::Groups(_) => {
                vec![("HashAgg Batches", Figure::Number(batches)), ("Peak Memory Usage", memory), ("Disk Usage", disk)]
            }
            Self::Set(_) => vec![("Set Memory Usage", memory), ("Set Disk Usage", disk)],
            Self::Rows(_) => vec![("Storage", Figure::Word("Disk")), ("Maximum Storage", disk)],
        }
    }
}

/// A figure of JSON.
#[derive(Debug, Clone, Copy)]
pub(super) enum Figure {
    Word(&'static str),
    Number(u64),
}

fn kilobytes(bytes: u64) -> u64 {
    bytes.div_ceil(1024)
}

//! Functions over windows: what is called, and over which rows around the one at hand.

use colibri_types::Datum;
use colibri_types::aggregates::Aggregate;

use crate::expr::Expr;

/// A call of a function over a window.
#[derive(Debug, Clone)]
pub struct WindowCall {
    pub function: WindowFunction,
    pub args: Vec<Expr>,
    /// Only of aggregates.
    pub filter: Option<Expr>,
    pub frame: Frame,
    /// Rows for which it gives more than this are of no interest.
    pub most: Option<Most>,
}

/// A bound on what a call gives that never falls from row to row of a partition.
#[derive(Debug, Clone)]
pub struct Most {
    /// The same for all rows: a constant, a parameter, or a value of a row outside.
    pub value: Expr,
    /// What is equal to it is of no interest either.
    pub is_excluded: bool,
}

impl Most {
    /// The largest number that is of interest, if it is known.
    pub fn constant(&self) -> Option<f64> {
        if let Expr::Const(value) = &self.value { self.largest(value).map(|most| most as f64) } else { None }
    }

    /// The largest number that is of interest, by what the bound gives.
    pub fn largest(&self, value: &Datum) -> Option<i64> {
        if let Datum::Int(value) = value { value.checked_sub(i64::from(self.is_excluded)) } else { None }
    }
}

impl WindowCall {
    /// Whether what it gives for a row has nothing to do with rows behind that, not even with those
    /// that are equal to it in the order.
    pub fn looks_back_only(&self) -> bool {
        match self.function {
            WindowFunction::RowNumber | WindowFunction::Rank | WindowFunction::DenseRank => true,
            function => function.is_running() && self.frame.units == FrameUnits::Rows && self.frame.is_up_to_the_row(),
        }
    }

    /// Whether it gives numbers that never fall from row to row of a partition.
    pub fn never_falls(&self) -> bool {
        match self.function {
            WindowFunction::RowNumber | WindowFunction::Rank | WindowFunction::DenseRank => true,
            WindowFunction::Aggregate(aggregate) => aggregate.name == "count" && self.frame.is_up_to_the_row(),
            _ => false,
        }
    }
}

/// What can be called over a window.
#[derive(Debug, Clone, Copy)]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
    Aggregate(&'static Aggregate),
}

impl WindowFunction {
    /// All that are no aggregates.
    const ALL: [Self; 11] = [
        Self::RowNumber,
        Self::Rank,
        Self::DenseRank,
        Self::PercentRank,
        Self::CumeDist,
        Self::Ntile,
        Self::Lag,
        Self::Lead,
        Self::FirstValue,
        Self::LastValue,
        Self::NthValue,
    ];

    /// One that is no aggregate, by its name in lower case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::RowNumber => "row_number",
            Self::Rank => "rank",
            Self::DenseRank => "dense_rank",
            Self::PercentRank => "percent_rank",
            Self::CumeDist => "cume_dist",
            Self::Ntile => "ntile",
            Self::Lag => "lag",
            Self::Lead => "lead",
            Self::FirstValue => "first_value",
            Self::LastValue => "last_value",
            Self::NthValue => "nth_value",
            Self::Aggregate(aggregate) => aggregate.name,
        }
    }

    /// Whether it gives something of a frame that can be told row by row, if that begins with the
    /// first row and ends with the one at hand.
    pub fn is_running(self) -> bool {
        matches!(self, Self::FirstValue | Self::Aggregate(_))
    }

    /// Whether it looks at the rows of the frame. Others look at the whole partition.
    pub fn uses_frame(self) -> bool {
        matches!(self, Self::FirstValue | Self::LastValue | Self::NthValue | Self::Aggregate(_))
    }
}

/// Which rows around the one at hand a function sees.
#[derive(Debug, Clone)]
pub struct Frame {
    pub units: FrameUnits,
    pub start: FrameBound,
    pub end: FrameBound,
    pub exclude: Exclude,
}

impl Frame {
    /// Whether it goes from the first row of the partition to the one at hand, or to the last one
    /// that is equal to that.
    pub fn is_up_to_the_row(&self) -> bool {
        self.exclude == Exclude::NoOthers
            && matches!((&self.start, &self.end), (FrameBound::UnboundedPreceding, FrameBound::CurrentRow))
    }
}

impl Default for Frame {
    /// From the first row of the partition to the last one that is equal to that at hand.
    fn default() -> Self {
        Self {
            units: FrameUnits::Range(None),
            start: FrameBound::UnboundedPreceding,
            end: FrameBound::CurrentRow,
            exclude: Exclude::NoOthers,
        }
    }
}

/// What the bounds of a frame count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameUnits {
    Rows,
    /// Differences in the only key of the order, where a bound tells one.
    Range(Option<RangeOffset>),
    /// Groups of rows that are equal in the order.
    Groups,
}

/// How a difference is added to the key of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeOffset {
    Int,
    Float,
    Numeric,
    /// An interval, to days that are compared as moments.
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
}

/// An end of a frame.
#[derive(Debug, Clone)]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}

impl FrameBound {
    /// How far from the row at hand it is, if it says so.
    pub fn offset(&self) -> Option<&Expr> {
        match self {
            Self::Preceding(offset) | Self::Following(offset) => Some(offset),
            Self::UnboundedPreceding | Self::CurrentRow | Self::UnboundedFollowing => None,
        }
    }

    fn offset_mut(&mut self) -> Option<&mut Expr> {
        match self {
            Self::Preceding(offset) | Self::Following(offset) => Some(offset),
            Self::UnboundedPreceding | Self::CurrentRow | Self::UnboundedFollowing => None,
        }
    }
}

/// Rows of a frame that are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exclude {
    #[default]
    NoOthers,
    CurrentRow,
    /// The row at hand and those that are equal to it in the order.
    Group,
    /// Those that are equal to it, but not itself.
    Ties,
}

impl WindowCall {
    /// The expressions in it.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let bounds = [self.frame.start.offset(), self.frame.end.offset()];
        let most = self.most.as_ref().map(|most| &most.value);
        self.args.iter().chain(&self.filter).chain(bounds.into_iter().flatten()).chain(most)
    }

    /// The expressions in it.
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let bounds = [self.frame.start.offset_mut(), self.frame.end.offset_mut()];
        let most = self.most.as_mut().map(|most| &mut most.value);
        self.args.iter_mut().chain(&mut self.filter).chain(bounds.into_iter().flatten()).chain(most)
    }
}

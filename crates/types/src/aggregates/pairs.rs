//! Aggregates of pairs of numbers: regression, correlation and covariance.
//!
//! Source: E. A. Youngs and E. M. Cramer, "Some Results Relevant to Choice of Sum and Sum-of-Product
//! Algorithms", Technometrics 13 (1971): sums of squared differences from the mean, which lose no
//! digits to a large mean.

use crate::error::{Error, Result, SqlState};
use crate::value::Datum;

/// Which figure is asked for. The first argument is `y`, the second one `x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// `regr_count`
    Count,
    /// `regr_sxx`
    SquaresOfX,
    /// `regr_syy`
    SquaresOfY,
    /// `regr_sxy`
    Products,
    /// `regr_avgx`
    MeanOfX,
    /// `regr_avgy`
    MeanOfY,
    /// `regr_slope`
    Slope,
    /// `regr_intercept`
    Intercept,
    /// `regr_r2`
    Determination,
    /// `corr`
    Correlation,
    /// `covar_pop`
    PopulationCovariance,
    /// `covar_samp`
    SampleCovariance,
}

/// Sums of pairs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sums {
    count: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl Sums {
    pub(super) fn add(&mut self, y: f64, x: f64) -> Result<()> {
        let before = *self;
        self.count += 1.0;
        self.x += x;
        self.y += y;
        if before.count == 0.0 {
            let nan_unless = |is_finite: bool| if is_finite { 0.0 } else { f64::NAN };
            (self.xx, self.yy) = (nan_unless(x.is_finite()), nan_unless(y.is_finite()));
            self.xy = nan_unless(x.is_finite() && y.is_finite());
            return Ok(());
        }
        let (from_x, from_y) = (x * self.count - self.x, y * self.count - self.y);
        let scale = 1.0 / (self.count * before.count);
        self.xx += from_x * from_x * scale;
        self.yy += from_y * from_y * scale;
        self.xy += from_x * from_y * scale;
        let finite_x = !before.x.is_infinite() && !x.is_infinite();
        let finite_y = !before.y.is_infinite() && !y.is_infinite();
        // Only an infinite value may make a sum infinite.
        let overflows = (self.x.is_infinite() || self.xx.is_infinite()) && finite_x
            || (self.y.is_infinite() || self.yy.is_infinite()) && finite_y
            || self.xy.is_infinite() && finite_x && finite_y;
        if overflows {
            return Err(Error::new(SqlState::OUT_OF_RANGE, "value out of range: overflow"));
        }
        for sum in [&mut self.xx, &mut self.yy, &mut self.xy] {
            if sum.is_infinite() {
                *sum = f64::NAN;
            }
        }
        Ok(())
    }

    pub(super) fn finish(&self, figure: Figure) -> Datum {
        let Self { count, x, xx, y, yy, xy } = *self;
        let least = if figure == Figure::SampleCovariance { 2.0 } else { 1.0 };
        if figure == Figure::Count {
            return Datum::Int(count as i64);
        }
        if count < least {
            return Datum::Null;
        }
        Datum::Float(match figure {
            Figure::Count | Figure::SquaresOfX => xx,
            Figure::SquaresOfY => yy,
            Figure::Products => xy,
            Figure::MeanOfX => x / count,
            Figure::MeanOfY => y / count,
            Figure::PopulationCovariance => xy / count,
            Figure::SampleCovariance => xy / (count - 1.0),
            // No line goes through points above each other.
            Figure::Slope | Figure::Intercept | Figure::Determination if xx == 0.0 => return Datum::Null,
            Figure::Correlation if xx == 0.0 || yy == 0.0 => return Datum::Null,
            Figure::Slope => xy / xx,
            Figure::Intercept => (y - x * xy / xx) / count,
            Figure::Determination if yy == 0.0 => 1.0,
            Figure::Determination => (xy * xy) / (xx * yy),
            Figure::Correlation => xy / (xx * yy).sqrt(),
        })
    }
}

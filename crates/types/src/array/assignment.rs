//! Writing one value of an array, or a part of it: `a[2] = 5`, `a[2:3] = '{5,6}'`.
//!
//! An array of one dimension grows to where it is written to, with NULL between. One of several
//! dimensions keeps its shape.

use smallvec::SmallVec;

use super::{Array, DIMENSIONS_MAX, Dimension, VALUES_MAX};
use crate::error::{Error, Result, SqlState};
use crate::pulse;
use crate::value::Datum;

#[cold]
fn wrong_subscript(message: &str) -> Error {
    Error::new(SqlState("2202E"), message)
}

fn too_large() -> Error {
    Error::new(SqlState::PROGRAM_LIMIT, format!("array size exceeds the maximum allowed ({VALUES_MAX})"))
}

impl Array {
    /// With a value at a subscript for each dimension.
    ///
    /// # Errors
    /// 2202E if there is no such place and cannot be, 54000 if the array would be too large.
    pub fn with_value(&self, subscripts: &[i64], value: Datum) -> Result<Self> {
        if self.dimensions.is_empty() {
            let one = |&lower: &i64| Dimension { length: 1, lower: lower as i32 };
            return Self::filled(self.element, &value, subscripts.iter().map(one).collect());
        }
        if self.dimensions.len() != subscripts.len() {
            return Err(wrong_subscript("wrong number of array subscripts"));
        }
        if let ([_], [at]) = (&self.dimensions[..], subscripts) {
            let mut grown = self.reaching(*at, *at)?;
            let place = usize::try_from(at - i64::from(grown.dimensions[0].lower)).unwrap_or(0);
            grown.values[place] = value;
            return Ok(grown);
        }
        let mut place = 0;
        for (dimension, at) in self.dimensions.iter().zip(subscripts) {
            let offset = usize::try_from(at - i64::from(dimension.lower)).ok();
            let Some(offset) = offset.filter(|&offset| offset < dimension.length) else {
                return Err(wrong_subscript("array subscript out of range"));
            };
            place = place * dimension.length + offset;
        }
        let mut written = self.copied()?;
        written.values[place] = value;
        Ok(written)
    }

    /// With the first values of another array between two subscripts for each of the first
    /// dimensions; where a subscript is missing, from the first or to the last.
    ///
    /// # Errors
    /// 2202E if there are no such places and cannot be, or too few values; 54000 if the array would
    /// be too large.
    pub fn with_slice(&self, bounds: &[(Option<i64>, Option<i64>)], source: &Self) -> Result<Self> {
        if self.dimensions.is_empty() {
            return self.made_of_slice(bounds, source);
        }
        if self.dimensions.len() < bounds.len() {
            return Err(wrong_subscript("wrong number of array subscripts"));
        }
        let is_row = self.dimensions.len() == 1;
        let mut ranges: SmallVec<[(i64, i64); 1]> = SmallVec::new();
        for (at, dimension) in self.dimensions.iter().enumerate() {
            let (lower, upper) = bounds.get(at).copied().unwrap_or_default();
            let lower = lower.unwrap_or_else(|| dimension.lower.into());
            let upper = upper.unwrap_or_else(|| dimension.upper());
            if lower > upper {
                return Err(wrong_subscript("upper bound cannot be less than lower bound"));
            }
            if !is_row && (lower < i64::from(dimension.lower) || upper > dimension.upper()) {
                return Err(wrong_subscript("array subscript out of range"));
            }
            ranges.push((lower, upper));
        }
        let count = ranges.iter().fold(1_usize, |count, (lower, upper)| {
            count.saturating_mul(usize::try_from(upper - lower + 1).unwrap_or(0))
        });
        if source.values.len() < count {
            return Err(wrong_subscript("source array too small"));
        }
        let mut written = if is_row { self.reaching(ranges[0].0, ranges[0].1)? } else { self.copied()? };
        // The places of the values so far, of which each becomes one for each of the next
        // dimension.
        let mut places = vec![0];
        for (dimension, &(lower, upper)) in written.dimensions.iter().zip(&ranges) {
            let first = i64::from(dimension.lower);
            let offset = |at: i64| usize::try_from(at - first).unwrap_or(0);
            let mut inner = Vec::with_capacity(places.len().saturating_mul(offset(upper) + 1 - offset(lower)));
            for place in places {
                pulse::work(offset(upper) + 1 - offset(lower))?;
                inner.extend((offset(lower)..=offset(upper)).map(|offset| place * dimension.length + offset));
            }
            places = inner;
        }
        for (place, value) in places.into_iter().zip(&source.values) {
            pulse::work(1)?;
            written.values[place] = value.clone();
        }
        Ok(written)
    }

    /// What writing to a part of an empty array makes.
    fn made_of_slice(&self, bounds: &[(Option<i64>, Option<i64>)], source: &Self) -> Result<Self> {
        if bounds.len() > DIMENSIONS_MAX {
            let count = bounds.len();
            let message =
                format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
            return Err(Error::new(SqlState::PROGRAM_LIMIT, message));
        }
        let mut whole: SmallVec<[(i64, i64); 1]> = SmallVec::new();
        for bound in bounds {
            let &(Some(lower), Some(upper)) = bound else {
                let detail = "When assigning to a slice of an empty array value, \
                     slice boundaries must be fully specified.";
                return Err(wrong_subscript("array slice subscript must provide both boundaries").detail(detail));
            };
            whole.push((lower, upper));
        }
        let mut dimensions: SmallVec<[Dimension; 1]> = SmallVec::new();
        for (lower, upper) in whole {
            let length = usize::try_from(upper - lower + 1).map_err(|_| too_large())?;
            dimensions.push(Dimension { length, lower: lower as i32 });
        }
        let mut made = Self::filled(self.element, &Datum::Null, dimensions)?;
        if source.values.len() < made.values.len() {
            return Err(wrong_subscript("source array too small"));
        }
        made.values.clear();
        let count = made.dimensions.iter().map(|dimension| dimension.length).product::<usize>();
        let count = if made.dimensions.is_empty() { 0 } else { count };
        crate::copies::extend(&mut made.values, &source.values[..count])?;
        Ok(made)
    }

    /// An array of one dimension that has the subscripts from one to another, NULL where nothing
    /// was.
    fn reaching(&self, lower: i64, upper: i64) -> Result<Self> {
        let old = self.dimensions[0];
        let (first, last) = (i64::from(old.lower).min(lower), old.upper().max(upper));
        let length = usize::try_from(last - first + 1).map_err(|_| too_large())?;
        if length > VALUES_MAX {
            return Err(too_large());
        }
        let dimension = Dimension { length, lower: first as i32 };
        if dimension.upper() >= i64::from(i32::MAX) {
            let message = format!("array lower bound is too large: {first}");
            return Err(Error::new(SqlState::PROGRAM_LIMIT, message));
        }
        let mut values = Vec::with_capacity(length);
        let before = usize::try_from(i64::from(old.lower) - first).unwrap_or(0);
        pulse::work(length - self.values.len())?;
        values.resize(before, Datum::Null);
        crate::copies::extend(&mut values, &self.values)?;
        values.resize(length, Datum::Null);
        Ok(Self { element: self.element, dimensions: smallvec::smallvec![dimension], values })
    }

    fn copied(&self) -> Result<Self> {
        let mut values = Vec::with_capacity(self.values.len());
        crate::copies::extend(&mut values, &self.values)?;
        Ok(self.with_values(self.element, values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Type;

    /// All subscripts of an array with their values.
    fn places(array: &Array) -> Vec<(Vec<i64>, Datum)> {
        let mut all = vec![Vec::new()];
        for dimension in array.dimensions() {
            let range = i64::from(dimension.lower)..=dimension.upper();
            let longer = |at: &Vec<i64>| range.clone().map(|next| [&at[..], &[next]].concat()).collect::<Vec<_>>();
            all = all.iter().flat_map(longer).collect();
        }
        if array.dimensions().is_empty() {
            return Vec::new();
        }
        all.into_iter().map(|at| (at.clone(), array.get(&at).unwrap().clone())).collect()
    }

    fn random_array(random: &mut fastrand::Rng) -> Array {
        let dimensions: SmallVec<[Dimension; 1]> = (0..random.usize(..3))
            .map(|_| Dimension { length: random.usize(1..4), lower: random.i32(-2..3) })
            .collect();
        let filled = Array::filled(Type::Int4, &Datum::Int(0), dimensions).unwrap();
        filled.map(|_| Ok(Datum::Int(random_value()))).unwrap()
    }

    fn random_value() -> i64 {
        fastrand::i64(1..1000)
    }

    #[test]
    fn a_written_value_is_found_and_all_others_stay() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2000 {
            let old = random_array(&mut random);
            let count = random.usize(1..3);
            let at: Vec<i64> = (0..count).map(|_| random.i64(-4..6)).collect();
            let new = match old.with_value(&at, Datum::Int(-1)) {
                Ok(new) => new,
                Err(error) => {
                    assert_eq!(error.state(), SqlState("2202E"), "seed {seed}");
                    let is_inside = old.get(&at).is_some();
                    assert!(!old.dimensions().is_empty() && !is_inside, "seed {seed}: {old:?} at {at:?}");
                    continue;
                }
            };
            assert_eq!(new.get(&at), Some(&Datum::Int(-1)), "seed {seed}: {old:?} at {at:?}");
            for (place, value) in places(&new) {
                let before = old.get(&place).cloned().unwrap_or_default();
                assert!(place == at || value == before, "seed {seed}: {old:?} at {at:?}, {place:?}");
            }
        }
    }

    #[test]
    fn a_written_slice_is_the_source_and_all_others_stay() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2000 {
            let old = random_array(&mut random);
            let bounds: Vec<(Option<i64>, Option<i64>)> = (0..random.usize(1..3))
                .map(|_| {
                    let lower = random.i64(-3..4);
                    let bound = |value, random: &mut fastrand::Rng| (random.u8(..5) > 0).then_some(value);
                    (bound(lower, &mut random), bound(lower + random.i64(0..3), &mut random))
                })
                .collect();
            let source = Array::new(Type::Int4, (0..random.i64(..20)).map(|at| Datum::Int(-1 - at)).collect());
            let Ok(new) = old.with_slice(&bounds, &source) else { continue };
            let written: Vec<Datum> =
                new.slice(&bounds).unwrap().values().iter().filter(|value| !value.is_null()).cloned().collect();
            assert_eq!(written, source.values()[..written.len()], "seed {seed}: {old:?} {bounds:?}");
            let kept = places(&new).into_iter().filter(|(_, value)| !written.contains(value));
            for (place, value) in kept {
                let before = old.get(&place).cloned().unwrap_or_default();
                assert_eq!(value, before, "seed {seed}: {old:?} {bounds:?}");
            }
        }
    }
}

//! What is computed of geometric values: distances, crossings, what lies in what.

use super::{Circle, EPSILON, Line, Path, Point, Polygon, Rect, Segment};
use crate::error::{Error, Result, SqlState};
use crate::pulse;

/// How deep a polygon's edges may divide a segment that is looked for in it.
const DEPTH_MAX: usize = 400;

/// Whether a number is zero, but for [`EPSILON`].
#[must_use]
pub(crate) fn is_zero(a: f64) -> bool {
    a.abs() <= EPSILON
}

/// Whether two numbers are equal, but for [`EPSILON`]; so the comparisons beside it.
#[must_use]
pub(crate) fn eq(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= EPSILON
}

#[must_use]
pub(crate) fn ne(a: f64, b: f64) -> bool {
    a != b && (a - b).abs() > EPSILON
}

#[must_use]
pub(crate) fn lt(a: f64, b: f64) -> bool {
    a + EPSILON < b
}

#[must_use]
pub(crate) fn le(a: f64, b: f64) -> bool {
    a <= b + EPSILON
}

#[must_use]
pub(crate) fn gt(a: f64, b: f64) -> bool {
    a > b + EPSILON
}

#[must_use]
pub(crate) fn ge(a: f64, b: f64) -> bool {
    a + EPSILON >= b
}

#[cold]
fn overflow() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "value out of range: overflow")
}

#[cold]
fn underflow() -> Error {
    Error::new(SqlState::OUT_OF_RANGE, "value out of range: underflow")
}

fn checked(result: f64, a: f64, b: f64) -> Result<f64> {
    if result.is_infinite() && a.is_finite() && b.is_finite() { Err(overflow()) } else { Ok(result) }
}

/// The sum of two numbers.
///
/// # Errors
/// It is out of range, as in what is beside it.
pub(crate) fn add(a: f64, b: f64) -> Result<f64> {
    checked(a + b, a, b)
}

/// The difference of two numbers.
///
/// # Errors
/// It is out of range.
pub(crate) fn sub(a: f64, b: f64) -> Result<f64> {
    checked(a - b, a, b)
}

/// The product of two numbers.
///
/// # Errors
/// It is out of range.
pub(crate) fn mul(a: f64, b: f64) -> Result<f64> {
    let result = a * b;
    if result == 0.0 && a != 0.0 && b != 0.0 {
        return Err(underflow());
    }
    checked(result, a, b)
}

/// The quotient of two numbers.
///
/// # Errors
/// It is out of range, or the divisor is zero.
pub(crate) fn div(a: f64, b: f64) -> Result<f64> {
    if b == 0.0 && !a.is_nan() {
        return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
    }
    let result = a / b;
    if result.is_infinite() && a.is_finite() {
        return Err(overflow());
    }
    if result == 0.0 && a != 0.0 && b.is_finite() {
        return Err(underflow());
    }
    Ok(result)
}

/// The length of the long side of a triangle with a right angle.
///
/// # Errors
/// It is out of range.
pub(crate) fn hypot(x: f64, y: f64) -> Result<f64> {
    if x.is_infinite() || y.is_infinite() {
        return Ok(f64::INFINITY);
    }
    if x.is_nan() || y.is_nan() {
        return Ok(f64::NAN);
    }
    let (x, y) = (x.abs(), y.abs());
    let (x, y) = if x < y { (y, x) } else { (x, y) };
    if y == 0.0 {
        return Ok(x);
    }
    let ratio = y / x;
    let result = x * (1.0 + ratio * ratio).sqrt();
    if result.is_infinite() {
        return Err(overflow());
    }
    if result == 0.0 { Err(underflow()) } else { Ok(result) }
}

impl Point {
    /// Whether two points are equal. Those with NaN are if they are the same.
    #[must_use]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        if [self.x, self.y, other.x, other.y].iter().any(|number| number.is_nan()) {
            let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
            return same(self.x, other.x) && same(self.y, other.y);
        }
        eq(self.x, other.x) && eq(self.y, other.y)
    }

    /// # Errors
    /// It is out of range, as in all that is computed of numbers here.
    pub(crate) fn distance(&self, other: &Self) -> Result<f64> {
        hypot(sub(self.x, other.x)?, sub(self.y, other.y)?)
    }

    /// The slope of the line through two points.
    ///
    /// # Errors
    /// It is out of range.
    pub(crate) fn slope(&self, other: &Self) -> Result<f64> {
        if eq(self.x, other.x) {
            return Ok(f64::INFINITY);
        }
        if eq(self.y, other.y) {
            return Ok(0.0);
        }
        div(sub(self.y, other.y)?, sub(self.x, other.x)?)
    }

    /// The slope of the lines that stand upright on it.
    ///
    /// # Errors
    /// It is out of range.
    pub(crate) fn inverse_slope(&self, other: &Self) -> Result<f64> {
        if eq(self.x, other.x) {
            return Ok(0.0);
        }
        if eq(self.y, other.y) {
            return Ok(f64::INFINITY);
        }
        div(sub(self.x, other.x)?, sub(other.y, self.y)?)
    }

    /// # Errors
    /// It is out of range.
    pub(crate) fn plus(&self, other: &Self) -> Result<Self> {
        Ok(Self { x: add(self.x, other.x)?, y: add(self.y, other.y)? })
    }

    /// # Errors
    /// It is out of range.
    pub(crate) fn minus(&self, other: &Self) -> Result<Self> {
        Ok(Self { x: sub(self.x, other.x)?, y: sub(self.y, other.y)? })
    }

    /// The product, as of complex numbers.
    ///
    /// # Errors
    /// It is out of range.
    pub(crate) fn times(&self, other: &Self) -> Result<Self> {
        Ok(Self {
            x: sub(mul(self.x, other.x)?, mul(self.y, other.y)?)?,
            y: add(mul(self.x, other.y)?, mul(self.y, other.x)?)?,
        })
    }

    /// The quotient, as of complex numbers.
    ///
    /// # Errors
    /// It is out of range, or the divisor is zero.
    pub(crate) fn over(&self, other: &Self) -> Result<Self> {
        let by = add(mul(other.x, other.x)?, mul(other.y, other.y)?)?;
        Ok(Self {
            x: div(add(mul(self.x, other.x)?, mul(self.y, other.y)?)?, by)?,
            y: div(sub(mul(self.y, other.x)?, mul(self.x, other.y)?)?, by)?,
        })
    }

    /// # Errors
    /// It is out of range.
    pub(crate) fn between(&self, other: &Self) -> Result<Self> {
        Ok(Self { x: div(add(self.x, other.x)?, 2.0)?, y: div(add(self.y, other.y)?, 2.0)? })
    }

    /// The box that is nothing but this point.
    pub(crate) fn rect(&self) -> Rect {
        Rect { high: *self, low: *self }
    }

    fn is_nan(&self) -> bool {
        self.x.is_nan() || self.y.is_nan()
    }
}

impl Line {
    /// The line through a point with a slope.
    ///
    /// # Errors
    /// It is out of range.
    pub(crate) fn of_slope(point: &Point, slope: f64) -> Result<Self> {
        Ok(if slope.is_infinite() {
            Self { a: -1.0, b: 0.0, c: point.x }
        } else if slope == 0.0 {
            Self { a: 0.0, b: -1.0, c: point.y }
        } else {
            let c = sub(point.y, mul(slope, point.x)?)?;
            // No zero has a sign.
            Self { a: slope, b: -1.0, c: if c == 0.0 { 0.0 } else { c } }
        })
    }

    /// The line through two points.
    ///
    /// # Errors
    /// It is out of range.
    pub(crate) fn through(one: &Point, other: &Point) -> Result<Self> {
        Self::of_slope(one, one.slope(other)?)
    }

    fn slope(&self) -> Result<f64> {
        if is_zero(self.a) {
            return Ok(0.0);
        }
        if is_zero(self.b) { Ok(f64::INFINITY) } else { div(self.a, -self.b) }
    }

    fn inverse_slope(&self) -> Result<f64> {
        if is_zero(self.a) {
            return Ok(f64::INFINITY);
        }
        if is_zero(self.b) { Ok(0.0) } else { div(self.b, self.a) }
    }

    #[must_use]
    pub(crate) fn is_vertical(&self) -> bool {
        is_zero(self.b)
    }

    #[must_use]
    pub(crate) fn is_horizontal(&self) -> bool {
        is_zero(self.a)
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn is_perpendicular(&self, other: &Self) -> Result<bool> {
        if is_zero(self.a) {
            return Ok(is_zero(other.b));
        }
        if is_zero(other.a) {
            return Ok(is_zero(self.b));
        }
        if is_zero(self.b) {
            return Ok(is_zero(other.a));
        }
        if is_zero(other.b) {
            return Ok(is_zero(self.a));
        }
        Ok(eq(div(mul(self.a, other.a)?, mul(self.b, other.b)?)?, -1.0))
    }

    /// Whether two are the same, by proportional numbers too.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn is_same(&self, other: &Self) -> Result<bool> {
        if [self.a, self.b, self.c, other.a, other.b, other.c].iter().any(|number| number.is_nan()) {
            let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
            return Ok(same(self.a, other.a) && same(self.b, other.b) && same(self.c, other.c));
        }
        let ratio = if !is_zero(other.a) {
            div(self.a, other.a)?
        } else if !is_zero(other.b) {
            div(self.b, other.b)?
        } else if !is_zero(other.c) {
            div(self.c, other.c)?
        } else {
            1.0
        };
        Ok(eq(self.a, mul(ratio, other.a)?) && eq(self.b, mul(ratio, other.b)?) && eq(self.c, mul(ratio, other.c)?))
    }

    /// Where two lines cross.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn crossing(&self, other: &Self) -> Result<Option<Point>> {
        let (one, two) = if !is_zero(self.b) {
            (self, other)
        } else if !is_zero(other.b) {
            (other, self)
        } else {
            return Ok(None);
        };
        if eq(two.a, mul(one.a, div(two.b, one.b)?)?) {
            return Ok(None);
        }
        let x = div(sub(mul(one.b, two.c)?, mul(two.b, one.c)?)?, sub(mul(one.a, two.b)?, mul(two.a, one.b)?)?)?;
        let y = div(-add(mul(one.a, x)?, one.c)?, one.b)?;
        let unsigned = |number: f64| if number == 0.0 { 0.0 } else { number };
        Ok(Some(Point { x: unsigned(x), y: unsigned(y) }))
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn distance(&self, other: &Self) -> Result<f64> {
        if self.crossing(other)?.is_some() {
            return Ok(0.0);
        }
        let is_good = |number: f64| !is_zero(number) && !number.is_nan();
        let ratio = if is_good(self.a) && is_good(other.a) {
            div(self.a, other.a)?
        } else if is_good(self.b) && is_good(other.b) {
            div(self.b, other.b)?
        } else {
            1.0
        };
        div(sub(self.c, mul(ratio, other.c)?)?.abs(), hypot(self.a, self.b)?)
    }

    /// The distance of a point, and the line's point that is nearest to it.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn nearest(&self, point: &Point) -> Result<(f64, Point)> {
        match Self::of_slope(point, self.inverse_slope()?)?.crossing(self)? {
            None => Ok((f64::NAN, *point)),
            Some(nearest) => Ok((nearest.distance(point)?, nearest)),
        }
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn has(&self, point: &Point) -> Result<bool> {
        Ok(is_zero(add(add(mul(self.a, point.x)?, mul(self.b, point.y)?)?, self.c)?))
    }
}

/// The nearest of some points, each with its distance.
fn nearer(best: (f64, Point), other: (f64, Point)) -> (f64, Point) {
    // NaN is above all numbers.
    if other.0 < best.0 || best.0.is_nan() && !other.0.is_nan() { other } else { best }
}

impl Segment {
    /// # Errors
    /// It is out of range.
    pub(crate) fn slope(&self) -> Result<f64> {
        self.0.slope(&self.1)
    }

    fn inverse_slope(&self) -> Result<f64> {
        self.0.inverse_slope(&self.1)
    }

    /// # Errors
    /// It is out of range.
    pub(crate) fn length(&self) -> Result<f64> {
        self.0.distance(&self.1)
    }

    fn line(&self) -> Result<Line> {
        Line::of_slope(&self.0, self.slope()?)
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn is_parallel(&self, other: &Self) -> Result<bool> {
        Ok(eq(self.slope()?, other.slope()?))
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn is_perpendicular(&self, other: &Self) -> Result<bool> {
        Ok(eq(self.slope()?, other.inverse_slope()?))
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn has(&self, point: &Point) -> Result<bool> {
        Ok(eq(add(point.distance(&self.0)?, point.distance(&self.1)?)?, self.length()?))
    }

    /// Where it crosses a line.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn crossing_line(&self, line: &Line) -> Result<Option<Point>> {
        let Some(point) = self.line()?.crossing(line)? else { return Ok(None) };
        if !self.has(&point)? {
            return Ok(None);
        }
        // Its ends are given exactly.
        let ends = [self.0, self.1];
        Ok(Some(ends.into_iter().find(|end| end.is_same(&point)).unwrap_or(point)))
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn crossing(&self, other: &Self) -> Result<Option<Point>> {
        match self.crossing_line(&other.line()?)? {
            Some(point) if other.has(&point)? => Ok(Some(point)),
            _ => Ok(None),
        }
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn nearest_to_line(&self, line: &Line) -> Result<(f64, Point)> {
        if let Some(point) = self.crossing_line(line)? {
            return Ok((0.0, point));
        }
        let (one, other) = (line.nearest(&self.0)?.0, line.nearest(&self.1)?.0);
        Ok(if one < other { (one, self.0) } else { (other, self.1) })
    }

    /// The distance of a point, and the segment's point that is nearest to it.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn nearest(&self, point: &Point) -> Result<(f64, Point)> {
        let upright = Line::of_slope(point, self.inverse_slope()?)?;
        let (_, nearest) = self.nearest_to_line(&upright)?;
        Ok((nearest.distance(point)?, nearest))
    }

    /// The same of another segment.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn nearest_to(&self, other: &Self) -> Result<(f64, Point)> {
        if let Some(point) = self.crossing(other)? {
            return Ok((0.0, point));
        }
        let mut best = nearer(self.nearest(&other.0)?, self.nearest(&other.1)?);
        best = nearer(best, (other.nearest(&self.0)?.0, self.0));
        Ok(nearer(best, (other.nearest(&self.1)?.0, self.1)))
    }
}

impl Rect {
    /// A box with two corners that lie across.
    #[must_use]
    pub(crate) fn of_corners(one: Point, other: Point) -> Self {
        // NaN is above all numbers.
        let ordered = |a: f64, b: f64| if a > b || a.is_nan() { (a, b) } else { (b, a) };
        let ((high_x, low_x), (high_y, low_y)) = (ordered(one.x, other.x), ordered(one.y, other.y));
        Self { high: Point { x: high_x, y: high_y }, low: Point { x: low_x, y: low_y } }
    }

    /// # Errors
    /// It is out of range.
    pub(crate) fn area(&self) -> Result<f64> {
        mul(self.width()?, self.height()?)
    }

    /// # Errors
    /// It is out of range.
    pub(crate) fn width(&self) -> Result<f64> {
        sub(self.high.x, self.low.x)
    }

    /// # Errors
    /// It is out of range.
    pub(crate) fn height(&self) -> Result<f64> {
        sub(self.high.y, self.low.y)
    }

    /// # Errors
    /// It is out of range.
    pub(crate) fn center(&self) -> Result<Point> {
        self.high.between(&self.low)
    }

    #[must_use]
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        le(self.low.x, other.high.x)
            && le(other.low.x, self.high.x)
            && le(self.low.y, other.high.y)
            && le(other.low.y, self.high.y)
    }

    #[must_use]
    pub(crate) fn contains(&self, other: &Self) -> bool {
        ge(self.high.x, other.high.x)
            && le(self.low.x, other.low.x)
            && ge(self.high.y, other.high.y)
            && le(self.low.y, other.low.y)
    }

    #[must_use]
    pub(crate) fn has(&self, point: &Point) -> bool {
        self.high.x >= point.x && self.low.x <= point.x && self.high.y >= point.y && self.low.y <= point.y
    }

    /// Both, if they overlap.
    #[must_use]
    pub(crate) fn intersection(&self, other: &Self) -> Option<Self> {
        let least = |a: f64, b: f64| if b < a || a.is_nan() { b } else { a };
        let most = |a: f64, b: f64| if a > b || a.is_nan() { a } else { b };
        self.overlaps(other).then(|| Self {
            high: Point { x: least(self.high.x, other.high.x), y: least(self.high.y, other.high.y) },
            low: Point { x: most(self.low.x, other.low.x), y: most(self.low.y, other.low.y) },
        })
    }

    /// The smallest box that has both in it.
    #[must_use]
    pub(crate) fn union(&self, other: &Self) -> Self {
        let least = |a: f64, b: f64| if b < a || a.is_nan() { b } else { a };
        let most = |a: f64, b: f64| if a > b || a.is_nan() { a } else { b };
        Self {
            high: Point { x: most(self.high.x, other.high.x), y: most(self.high.y, other.high.y) },
            low: Point { x: least(self.low.x, other.low.x), y: least(self.low.y, other.low.y) },
        }
    }

    /// The smallest box that has all points in it.
    #[must_use]
    pub(crate) fn around(points: &[Point]) -> Self {
        let first = points.first().copied().unwrap_or(Point { x: 0.0, y: 0.0 });
        let mut found = Self { high: first, low: first };
        for point in points {
            found.low.x = if point.x < found.low.x { point.x } else { found.low.x };
            found.low.y = if point.y < found.low.y { point.y } else { found.low.y };
            found.high.x = if point.x > found.high.x { point.x } else { found.high.x };
            found.high.y = if point.y > found.high.y { point.y } else { found.high.y };
        }
        found
    }

    /// Its sides: left, top, bottom, right.
    #[must_use]
    pub(crate) fn sides(&self) -> [Segment; 4] {
        let left_top = Point { x: self.low.x, y: self.high.y };
        let right_bottom = Point { x: self.high.x, y: self.low.y };
        [
            Segment(self.low, left_top),
            Segment(self.high, left_top),
            Segment(self.low, right_bottom),
            Segment(self.high, right_bottom),
        ]
    }

    /// Whether a segment is in it, or crosses a side.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn meets(&self, segment: &Segment) -> Result<bool> {
        if !Self::of_corners(segment.0, segment.1).overlaps(self) {
            return Ok(false);
        }
        if self.has(&segment.0) || self.has(&segment.1) {
            return Ok(true);
        }
        for side in self.sides() {
            if side.crossing(segment)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a line crosses a side.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn meets_line(&self, line: &Line) -> Result<bool> {
        for side in self.sides() {
            if side.crossing_line(line)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The distance of a point, and the box's point that is nearest to it.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn nearest(&self, point: &Point) -> Result<(f64, Point)> {
        if self.has(point) {
            return Ok((0.0, *point));
        }
        let [left, top, bottom, right] = self.sides();
        let mut best = left.nearest(point)?;
        for side in [top, bottom, right] {
            best = nearer(best, side.nearest(point)?);
        }
        Ok(best)
    }

    /// The same of a segment.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn nearest_to(&self, segment: &Segment) -> Result<(f64, Point)> {
        if self.meets(segment)? {
            return Ok((0.0, segment.nearest(&self.center()?)?.1));
        }
        let [left, top, bottom, right] = self.sides();
        let mut best = left.nearest_to(segment)?;
        for side in [top, bottom, right] {
            best = nearer(best, side.nearest_to(segment)?);
        }
        Ok(best)
    }
}

impl Rect {
    /// The smallest circle around it.
    pub(crate) fn circle(&self) -> Result<Circle> {
        let center = self.center()?;
        Ok(Circle { center, radius: center.distance(&self.high)? })
    }

    pub(crate) fn diagonal(&self) -> Segment {
        Segment(self.high, self.low)
    }

    /// Its corners.
    pub(crate) fn polygon(&self) -> Polygon {
        let (low, high) = (self.low, self.high);
        Polygon { points: vec![low, Point { x: low.x, y: high.y }, high, Point { x: high.x, y: low.y }] }
    }
}

impl Circle {
    /// # Errors
    /// It is out of range.
    pub(crate) fn area(&self) -> Result<f64> {
        mul(mul(self.radius, self.radius)?, std::f64::consts::PI)
    }

    #[must_use]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.radius.is_nan() && other.radius.is_nan() || eq(self.radius, other.radius))
            && self.center.is_same(&other.center)
    }

    /// # Errors
    /// It is out of range.
    pub(crate) fn rect(&self) -> Result<Rect> {
        let delta = div(self.radius, 2.0_f64.sqrt())?;
        let (x, y) = (self.center.x, self.center.y);
        Ok(Rect {
            high: Point { x: add(x, delta)?, y: add(y, delta)? },
            low: Point { x: sub(x, delta)?, y: sub(y, delta)? },
        })
    }

    /// A polygon of points on it.
    ///
    /// # Errors
    /// The circle is a point, or the points are too few or too many.
    pub(crate) fn polygon(&self, count: i64) -> Result<Polygon> {
        if is_zero(self.radius) {
            let message = "cannot convert circle with radius zero to polygon";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if count < 2 {
            return Err(Error::new(SqlState::BAD_PARAMETER, "must request at least 2 points"));
        }
        if count as u64 > super::POINTS_MAX as u64 {
            return Err(Error::new(SqlState::PROGRAM_LIMIT, "too many points requested"));
        }
        let step = div(2.0 * std::f64::consts::PI, count as f64)?;
        let mut points = Vec::new();
        for at in 0..count {
            pulse::work(1)?;
            let angle = mul_freely(step, at as f64);
            points.push(Point {
                x: sub(self.center.x, mul_freely(self.radius, angle.cos()))?,
                y: add(self.center.y, mul_freely(self.radius, angle.sin()))?,
            });
        }
        Ok(Polygon { points })
    }
}

/// A product that may be as small as it likes.
fn mul_freely(a: f64, b: f64) -> f64 {
    a * b
}

/// The edges of points that follow each other, each with the one before it; the last one goes to the
/// first point in front if the points are closed.
fn edges(points: &[Point], closed: bool) -> impl Iterator<Item = Segment> + '_ {
    let first = match points {
        [first, .., last] if closed => Some(Segment(*last, *first)),
        [only] if closed => Some(Segment(*only, *only)),
        _ => None,
    };
    first.into_iter().chain(points.windows(2).map(|pair| Segment(pair[0], pair[1])))
}

impl Path {
    /// What a closed one encloses.
    pub(crate) fn polygon(self) -> Result<Polygon> {
        match self.closed {
            true => Ok(Polygon { points: self.points }),
            false => Err(Error::new(SqlState::BAD_PARAMETER, "open path cannot be converted to polygon")),
        }
    }

    /// The area of a closed one.
    ///
    /// # Errors
    /// It is out of range.
    pub(crate) fn area(&self) -> Result<Option<f64>> {
        if !self.closed {
            return Ok(None);
        }
        let mut area = 0.0;
        for (at, point) in self.points.iter().enumerate() {
            pulse::work(1)?;
            let next = self.points[(at + 1) % self.points.len()];
            area = add(area, mul(point.x, next.y)?)?;
            area = sub(area, mul(point.y, next.x)?)?;
        }
        Ok(Some(div(area.abs(), 2.0)?))
    }

    /// # Errors
    /// It is out of range.
    pub(crate) fn length(&self) -> Result<f64> {
        let mut length = 0.0;
        for edge in edges(&self.points, self.closed) {
            pulse::work(1)?;
            length = add(length, edge.length()?)?;
        }
        Ok(length)
    }

    /// Whether two cross.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn crosses(&self, other: &Self) -> Result<bool> {
        if !Rect::around(&self.points).overlaps(&Rect::around(&other.points)) {
            return Ok(false);
        }
        for one in edges(&self.points, self.closed) {
            for two in edges(&other.points, other.closed) {
                pulse::work(1)?;
                if one.crossing(&two)?.is_some() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn distance(&self, other: &Self) -> Result<Option<f64>> {
        let mut least: Option<f64> = None;
        for one in edges(&self.points, self.closed) {
            for two in edges(&other.points, other.closed) {
                pulse::work(1)?;
                let found = one.nearest_to(&two)?.0;
                least = Some(least.map_or(found, |least| if found < least { found } else { least }));
            }
        }
        Ok(least)
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn distance_of(&self, point: &Point) -> Result<Option<f64>> {
        if let [only] = self.points[..] {
            return point.distance(&only).map(Some);
        }
        let mut least: Option<f64> = None;
        for edge in edges(&self.points, self.closed) {
            pulse::work(1)?;
            let found = edge.nearest(point)?.0;
            least = Some(least.map_or(found, |least| if found < least { found } else { least }));
        }
        Ok(least)
    }

    /// Whether a point is on an open path, or in a closed one.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn has(&self, point: &Point) -> Result<bool> {
        if self.closed {
            return Ok(place_in(point, &self.points)? != Place::Outside);
        }
        for edge in edges(&self.points, false) {
            pulse::work(1)?;
            if edge.has(point)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Where a point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Outside,
    Inside,
    OnEdge,
}

/// How an edge crosses the right half of the axis of x: twice the direction, once for each end that is
/// on it; `None` if the point in the middle is on the edge.
fn crossing_of_axis(x: f64, y: f64, before_x: f64, before_y: f64) -> Result<Option<i32>> {
    if is_zero(y) {
        if is_zero(x) {
            return Ok(None);
        }
        if gt(x, 0.0) {
            if is_zero(before_y) {
                return Ok(gt(before_x, 0.0).then_some(0));
            }
            return Ok(Some(if lt(before_y, 0.0) { 1 } else { -1 }));
        }
        if is_zero(before_y) {
            return Ok(lt(before_x, 0.0).then_some(0));
        }
        return Ok(Some(0));
    }
    let sign = if gt(y, 0.0) { 1 } else { -1 };
    if is_zero(before_y) {
        return Ok(Some(if lt(before_x, 0.0) { 0 } else { sign }));
    }
    if sign < 0 && lt(before_y, 0.0) || sign > 0 && gt(before_y, 0.0) {
        return Ok(Some(0));
    }
    if ge(x, 0.0) && gt(before_x, 0.0) {
        return Ok(Some(2 * sign));
    }
    if lt(x, 0.0) && le(before_x, 0.0) {
        return Ok(Some(0));
    }
    let z = sub(mul(sub(x, before_x)?, y)?, mul(sub(y, before_y)?, x)?)?;
    if is_zero(z) {
        return Ok(None);
    }
    if sign < 0 && lt(z, 0.0) || sign > 0 && gt(z, 0.0) {
        return Ok(Some(0));
    }
    Ok(Some(2 * sign))
}

/// Where a point is to a polygon.
///
/// # Errors
/// A number is out of range.
pub(crate) fn place_in(point: &Point, points: &[Point]) -> Result<Place> {
    let Some(first) = points.first() else { return Ok(Place::Outside) };
    let start = first.minus(point)?;
    let mut before = start;
    let mut total = 0;
    for other in points[1..].iter().map(|other| other.minus(point)).chain([Ok(start)]) {
        pulse::work(1)?;
        let other = other?;
        match crossing_of_axis(other.x, other.y, before.x, before.y)? {
            None => return Ok(Place::OnEdge),
            Some(crossing) => total += crossing,
        }
        before = other;
    }
    Ok(if total == 0 { Place::Outside } else { Place::Inside })
}

impl Polygon {
    /// What encloses it.
    pub(crate) fn path(self) -> Path {
        Path { closed: true, points: self.points }
    }

    #[must_use]
    pub(crate) fn rect(&self) -> Rect {
        Rect::around(&self.points)
    }

    /// The circle around the middle of its points, with their mean distance.
    ///
    /// # Errors
    /// It is out of range.
    pub(crate) fn circle(&self) -> Result<Circle> {
        let count = self.points.len() as f64;
        let mut center = Point { x: 0.0, y: 0.0 };
        for point in &self.points {
            pulse::work(1)?;
            center = center.plus(point)?;
        }
        let center = Point { x: div(center.x, count)?, y: div(center.y, count)? };
        let mut radius = 0.0;
        for point in &self.points {
            pulse::work(1)?;
            radius = add(radius, point.distance(&center)?)?;
        }
        Ok(Circle { center, radius: div(radius, count)? })
    }

    /// Whether both have the same points in the same order, in either direction, whichever is first.
    ///
    /// # Errors
    /// The statement was cancelled.
    pub(crate) fn is_same(&self, other: &Self) -> Result<bool> {
        let (one, two) = (&self.points, &other.points);
        let count = one.len();
        if count != two.len() {
            return Ok(false);
        }
        for start in (0..count).filter(|&start| two[start].is_same(&one[0])) {
            pulse::work(count)?;
            let forwards = (1..count).all(|at| two[(start + at) % count].is_same(&one[at]));
            if forwards || (1..count).all(|at| two[(start + count - at) % count].is_same(&one[at])) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn overlaps(&self, other: &Self) -> Result<bool> {
        if !self.rect().overlaps(&other.rect()) {
            return Ok(false);
        }
        for one in edges(&self.points, true) {
            for two in edges(&other.points, true) {
                pulse::work(1)?;
                if one.crossing(&two)?.is_some() {
                    return Ok(true);
                }
            }
        }
        Ok(place_in(&self.points[0], &other.points)? != Place::Outside
            || place_in(&other.points[0], &self.points)? != Place::Outside)
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn contains(&self, other: &Self) -> Result<bool> {
        if !self.rect().contains(&other.rect()) {
            return Ok(false);
        }
        for edge in edges(&other.points, true) {
            if !self.contains_segment(edge, 0, 0)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn has(&self, point: &Point) -> Result<bool> {
        Ok(place_in(point, &self.points)? != Place::Outside)
    }

    /// Whether a part of a segment, which touches an edge at its beginning, is inside.
    fn contains_touching(&self, (a, b): (Point, Point), edge: &Segment, start: usize, depth: usize) -> Result<bool> {
        let whole = Segment(a, b);
        let from = if a.is_same(&edge.0) {
            whole.has(&edge.1)?.then_some(edge.1)
        } else if a.is_same(&edge.1) || whole.has(&edge.0)? {
            whole.has(&edge.0)?.then_some(edge.0)
        } else {
            whole.has(&edge.1)?.then_some(edge.1)
        };
        match from {
            Some(from) => self.contains_segment(Segment(b, from), start, depth),
            None => Ok(true),
        }
    }

    /// Whether a segment is inside, looking at edges from one on.
    fn contains_segment(&self, segment: Segment, start: usize, depth: usize) -> Result<bool> {
        if depth > DEPTH_MAX {
            return Err(Error::new(SqlState("54001"), "stack depth limit exceeded"));
        }
        let points = &self.points;
        let mut is_divided = false;
        let mut before = points[if start == 0 { points.len() - 1 } else { start - 1 }];
        for (at, &point) in points.iter().enumerate().skip(start) {
            pulse::work(1)?;
            let edge = Segment(before, point);
            let is_inside = if edge.has(&segment.0)? {
                if edge.has(&segment.1)? {
                    return Ok(true);
                }
                self.contains_touching((segment.0, segment.1), &edge, at + 1, depth + 1)?
            } else if edge.has(&segment.1)? {
                self.contains_touching((segment.1, segment.0), &edge, at + 1, depth + 1)?
            } else if let Some(crossing) = segment.crossing(&edge)? {
                is_divided = true;
                self.contains_segment(Segment(segment.0, crossing), at + 1, depth + 1)?
                    && self.contains_segment(Segment(segment.1, crossing), at + 1, depth + 1)?
            } else {
                true
            };
            if !is_inside {
                return Ok(false);
            }
            before = point;
        }
        // Parts that edges divide were looked at.
        if is_divided { Ok(true) } else { self.has(&segment.0.between(&segment.1)?) }
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn distance_of(&self, point: &Point) -> Result<f64> {
        if self.has(point)? {
            return Ok(0.0);
        }
        let mut least = f64::NAN;
        for edge in edges(&self.points, true) {
            pulse::work(1)?;
            let found = edge.nearest(point)?.0;
            least = if found < least || least.is_nan() { found } else { least };
        }
        Ok(least)
    }

    /// # Errors
    /// A number is out of range.
    pub(crate) fn distance(&self, other: &Self) -> Result<f64> {
        if self.overlaps(other)? {
            return Ok(0.0);
        }
        let mut least = f64::NAN;
        for one in edges(&self.points, true) {
            for two in edges(&other.points, true) {
                pulse::work(1)?;
                let found = one.nearest_to(&two)?.0;
                least = if found < least || least.is_nan() { found } else { least };
            }
        }
        Ok(least)
    }
}

/// The point of a line that is nearest to a segment; `None` if these run alike.
///
/// # Errors
/// A number is out of range.
pub(crate) fn nearest_of_line(line: &Line, segment: &Segment) -> Result<Option<Point>> {
    if segment.slope()? == line.slope()? {
        return Ok(None);
    }
    let (distance, point) = segment.nearest_to_line(line)?;
    Ok((!distance.is_nan() && !point.is_nan()).then_some(point))
}

//! Geometric types: points, lines, segments, boxes, paths, polygons and circles.
//!
//! Values are kept as PostgreSQL's binary form has them, numbers in big-endian order:
//! ```text
//! point    x y
//! lseg     x y x y
//! box      x y x y              the upper right corner, then the lower left one
//! line     a b c                of a x + b y + c = 0
//! circle   x y radius
//! path     closed (1 byte) n (4 bytes) (x y)*
//! polygon  n (4 bytes) (x y)*
//! ```
//! Two numbers are equal here if they differ by [`EPSILON`] at most, as in PostgreSQL.
//!
//! Invariants: a box's first corner is nowhere below or left of its second one; a line's first two
//! numbers are not both zero; a circle's radius is not negative; paths and polygons have a point.

mod shapes;
mod text;

pub(crate) use shapes::*;
pub(crate) use text::{read, write};

use crate::error::{Error, Result, SqlState};
use crate::types::Type;

/// Numbers that differ by no more are equal.
pub(crate) const EPSILON: f64 = 1.0e-6;

/// The most points of a path or a polygon, as in PostgreSQL, whose values have a gigabyte at most.
const POINTS_MAX: usize = (1 << 30) / 16 - 2;

/// A point of the plane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// A line, as the numbers of `a x + b y + c = 0`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    pub(crate) a: f64,
    pub(crate) b: f64,
    pub(crate) c: f64,
}

/// A segment of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Segment(pub(crate) Point, pub(crate) Point);

/// A rectangle whose sides are those of the axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rect {
    pub(crate) high: Point,
    pub(crate) low: Point,
}

/// A circle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Circle {
    pub(crate) center: Point,
    pub(crate) radius: f64,
}

/// A list of points, each joined to the next one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path {
    /// The last point is joined to the first one.
    pub(crate) closed: bool,
    pub(crate) points: Vec<Point>,
}

#[cold]
fn damaged() -> Error {
    Error::internal("a geometric value is damaged")
}

fn number(bytes: &[u8], at: usize) -> Result<f64> {
    let bytes = bytes.get(at * 8..at * 8 + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
    bytes.map(f64::from_be_bytes).ok_or_else(damaged)
}

fn point(bytes: &[u8], at: usize) -> Result<Point> {
    Ok(Point { x: number(bytes, at * 2)?, y: number(bytes, at * 2 + 1)? })
}

fn points(bytes: &[u8]) -> Result<Vec<Point>> {
    (0..bytes.len() / 16).map(|at| point(bytes, at)).collect()
}

fn packed(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn with_points(mut bytes: Vec<u8>, points: &[Point]) -> Vec<u8> {
    bytes.extend((points.len() as u32).to_be_bytes());
    for point in points {
        bytes.extend(point.x.to_be_bytes());
        bytes.extend(point.y.to_be_bytes());
    }
    bytes
}

/// A value of a geometric type.
pub(crate) trait Shape: Sized {
    /// Out of the bytes that a value has.
    ///
    /// # Errors
    /// They are damaged.
    fn from_bytes(bytes: &[u8]) -> Result<Self>;

    /// As a value's bytes.
    fn to_bytes(&self) -> Vec<u8>;
}

impl Shape for Point {
    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        point(bytes, 0)
    }

    fn to_bytes(&self) -> Vec<u8> {
        packed(&[self.x, self.y])
    }
}

impl Shape for Line {
    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self { a: number(bytes, 0)?, b: number(bytes, 1)?, c: number(bytes, 2)? })
    }

    fn to_bytes(&self) -> Vec<u8> {
        packed(&[self.a, self.b, self.c])
    }
}

impl Shape for Segment {
    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self(point(bytes, 0)?, point(bytes, 1)?))
    }

    fn to_bytes(&self) -> Vec<u8> {
        packed(&[self.0.x, self.0.y, self.1.x, self.1.y])
    }
}

impl Shape for Rect {
    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self { high: point(bytes, 0)?, low: point(bytes, 1)? })
    }

    fn to_bytes(&self) -> Vec<u8> {
        packed(&[self.high.x, self.high.y, self.low.x, self.low.y])
    }
}

impl Shape for Circle {
    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self { center: point(bytes, 0)?, radius: number(bytes, 2)? })
    }

    fn to_bytes(&self) -> Vec<u8> {
        packed(&[self.center.x, self.center.y, self.radius])
    }
}

impl Shape for Path {
    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (closed, rest) = bytes.split_first().ok_or_else(damaged)?;
        Ok(Self { closed: *closed != 0, points: points(rest.get(4..).ok_or_else(damaged)?)? })
    }

    fn to_bytes(&self) -> Vec<u8> {
        with_points(vec![u8::from(self.closed)], &self.points)
    }
}

impl Shape for Polygon {
    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self { points: points(bytes.get(4..).ok_or_else(damaged)?)? })
    }

    fn to_bytes(&self) -> Vec<u8> {
        with_points(Vec::new(), &self.points)
    }
}

/// A list of points that a surface lies between.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Polygon {
    pub(crate) points: Vec<Point>,
}

/// A value as one of another type; `None` if there is no such cast.
pub(crate) fn cast(bytes: &[u8], from: Type, to: Type) -> Result<Option<Vec<u8>>> {
    Ok(Some(match (from, to) {
        (Type::Point, Type::Box) => Point::from_bytes(bytes)?.rect().to_bytes(),
        (Type::Lseg, Type::Point) => {
            let Segment(one, other) = Segment::from_bytes(bytes)?;
            one.between(&other)?.to_bytes()
        }
        (Type::Path, Type::Polygon) => Path::from_bytes(bytes)?.polygon()?.to_bytes(),
        (Type::Box, Type::Point) => Rect::from_bytes(bytes)?.center()?.to_bytes(),
        (Type::Box, Type::Lseg) => Rect::from_bytes(bytes)?.diagonal().to_bytes(),
        (Type::Box, Type::Circle) => Rect::from_bytes(bytes)?.circle()?.to_bytes(),
        (Type::Box, Type::Polygon) => Rect::from_bytes(bytes)?.polygon().to_bytes(),
        (Type::Polygon, Type::Point) => Polygon::from_bytes(bytes)?.circle()?.center.to_bytes(),
        (Type::Polygon, Type::Box) => Polygon::from_bytes(bytes)?.rect().to_bytes(),
        (Type::Polygon, Type::Circle) => Polygon::from_bytes(bytes)?.circle()?.to_bytes(),
        (Type::Polygon, Type::Path) => Polygon::from_bytes(bytes)?.path().to_bytes(),
        (Type::Circle, Type::Point) => Circle::from_bytes(bytes)?.center.to_bytes(),
        (Type::Circle, Type::Box) => Circle::from_bytes(bytes)?.rect()?.to_bytes(),
        (Type::Circle, Type::Polygon) => Circle::from_bytes(bytes)?.polygon(12)?.to_bytes(),
        _ => return Ok(None),
    }))
}

/// Reads PostgreSQL's binary form of a value.
///
/// # Errors
/// It is malformed.
pub(crate) fn receive(ty: Type, bytes: &[u8]) -> Result<Vec<u8>> {
    let wrong = |message: &str| Error::new(SqlState::BAD_BINARY, message);
    let of_length = |length: usize| match bytes.len() {
        short if short < length => Err(wrong("insufficient data left in message")),
        long if long > length => Err(wrong("incorrect binary data format")),
        _ => Ok(bytes.to_vec()),
    };
    match ty {
        Type::Point => of_length(16),
        Type::Lseg => of_length(32),
        Type::Box => Ok(Rect::of_corners(point(&of_length(32)?, 0)?, point(bytes, 1)?).to_bytes()),
        Type::Line => {
            let line = Line::from_bytes(&of_length(24)?)?;
            if is_zero(line.a) && is_zero(line.b) {
                return Err(wrong("invalid line specification: A and B cannot both be zero"));
            }
            Ok(bytes.to_vec())
        }
        Type::Circle => {
            of_length(24)?;
            match Circle::from_bytes(bytes)?.radius {
                negative if negative < 0.0 => Err(wrong("invalid radius in external \"circle\" value")),
                _ => Ok(bytes.to_vec()),
            }
        }
        _ => {
            let (what, before) = if ty == Type::Path { ("path", 1) } else { ("polygon", 0) };
            let short = || wrong("insufficient data left in message");
            let count = bytes.get(before..before + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
            let count = count.map(i32::from_be_bytes).ok_or_else(short)?;
            let count = usize::try_from(count).ok().filter(|count| (1..POINTS_MAX).contains(count));
            let Some(count) = count else {
                return Err(wrong(&format!("invalid number of points in external \"{what}\" value")));
            };
            let mut bytes = of_length(before + 4 + count * 16)?;
            if let (Some(closed), 1) = (bytes.first_mut(), before) {
                *closed = u8::from(*closed != 0);
            }
            Ok(bytes)
        }
    }
}

//! Operators and functions of geometric types: see `geometry`.

use super::{Function, f, float, int};
use crate::error::{Error, Result, SqlState};
use crate::geometry::{
    Circle, Line, Path, Place, Point, Polygon, Rect, Segment, Shape, add, div, eq, ge, gt, hypot, le, lt, mul, ne,
    nearest_of_line, place_in, sub,
};
use crate::types::Type;
use crate::value::Datum;

/// What a function takes.
trait Arg: Sized {
    const TYPE: Type;

    fn of(value: &Datum) -> Result<Self>;
}

/// What a function gives.
trait Given {
    const TYPE: Type;

    fn give(self) -> Result<Datum>;
}

macro_rules! shapes {
    ($($shape:ident $ty:ident;)*) => {
        $(
            impl Arg for $shape {
                const TYPE: Type = Type::$ty;

                fn of(value: &Datum) -> Result<Self> {
                    Self::from_bytes(super::bytes(value)?)
                }
            }

            impl Given for $shape {
                const TYPE: Type = Type::$ty;

                fn give(self) -> Result<Datum> {
                    Ok(Datum::Bytes(self.to_bytes().into()))
                }
            }
        )*
    };
}

shapes! {
    Point Point;
    Segment Lseg;
    Rect Box;
    Line Line;
    Path Path;
    Polygon Polygon;
    Circle Circle;
}

impl Arg for f64 {
    const TYPE: Type = Type::Float8;

    fn of(value: &Datum) -> Result<Self> {
        float(value)
    }
}

impl Arg for i64 {
    const TYPE: Type = Type::Int4;

    fn of(value: &Datum) -> Result<Self> {
        int(value)
    }
}

impl Given for f64 {
    const TYPE: Type = Type::Float8;

    fn give(self) -> Result<Datum> {
        Ok(Datum::Float(self))
    }
}

impl Given for bool {
    const TYPE: Type = Type::Bool;

    fn give(self) -> Result<Datum> {
        Ok(Datum::Bool(self))
    }
}

/// How many points there are.
struct Count(usize);

impl Given for Count {
    const TYPE: Type = Type::Int4;

    fn give(self) -> Result<Datum> {
        Ok(Datum::Int(self.0 as i64))
    }
}

impl<G: Given> Given for Option<G> {
    const TYPE: Type = G::TYPE;

    fn give(self) -> Result<Datum> {
        self.map_or(Ok(Datum::Null), Given::give)
    }
}

macro_rules! of_one {
    ($([$($name:literal),+] ($a:ident: $A:ty) -> $R:ty = $body:expr;)*) => {
        pub(super) const OF_ONE: &[Function] = &[
            $($(
                f($name, &[<$A as Arg>::TYPE], <$R as Given>::TYPE, |args, _| {
                    let $a = <$A as Arg>::of(args[0])?;
                    let given: $R = $body;
                    given.give()
                }),
            )+)*
        ];
    };
}

macro_rules! of_two {
    ($([$($name:literal),+] ($a:ident: $A:ty, $b:ident: $B:ty) -> $R:ty = $body:expr;)*) => {
        pub(super) const OF_TWO: &[Function] = &[
            $($(
                f($name, &[<$A as Arg>::TYPE, <$B as Arg>::TYPE], <$R as Given>::TYPE, |args, _| {
                    let $a = <$A as Arg>::of(args[0])?;
                    let $b = <$B as Arg>::of(args[1])?;
                    let given: $R = $body;
                    given.give()
                }),
            )+)*
        ];
    };
}

/// Each point of a path as another one.
fn moved(path: Path, by: impl Fn(&Point) -> Result<Point>) -> Result<Path> {
    let points = path.points.iter().map(by).collect::<Result<_>>()?;
    Ok(Path { points, ..path })
}

/// A number that is not below zero.
fn no_less(distance: f64) -> f64 {
    if distance < 0.0 { 0.0 } else { distance }
}

fn between_circles(one: &Circle, other: &Circle) -> Result<f64> {
    Ok(no_less(sub(one.center.distance(&other.center)?, add(one.radius, other.radius)?)?))
}

fn to_circle(point: &Point, circle: &Circle) -> Result<f64> {
    Ok(no_less(sub(point.distance(&circle.center)?, circle.radius)?))
}

fn in_circle(point: &Point, circle: &Circle) -> Result<bool> {
    Ok(point.distance(&circle.center)? <= circle.radius)
}

fn to_polygon(circle: &Circle, polygon: &Polygon) -> Result<f64> {
    Ok(no_less(sub(polygon.distance_of(&circle.center)?, circle.radius)?))
}

fn size(point: &Point) -> Result<f64> {
    hypot(point.x, point.y)
}

fn radius_given(radius: f64) -> f64 {
    radius
}

of_one! {
    ["@@", "lseg_center", "point"] (s: Segment) -> Point = s.0.between(&s.1)?;
    ["@@", "box_center", "center", "point"] (b: Rect) -> Point = b.center()?;
    ["@@", "circle_center", "center", "point"] (c: Circle) -> Point = c.center;
    ["@@", "poly_center", "point"] (p: Polygon) -> Point = p.circle()?.center;
    ["@-@", "lseg_length", "length"] (s: Segment) -> f64 = s.length()?;
    ["@-@", "path_length", "length"] (p: Path) -> f64 = p.length()?;
    ["#", "path_npoints", "npoints"] (p: Path) -> Count = Count(p.points.len());
    ["#", "poly_npoints", "npoints"] (p: Polygon) -> Count = Count(p.points.len());
    ["?-", "line_horizontal", "ishorizontal"] (l: Line) -> bool = l.is_horizontal();
    ["?|", "line_vertical", "isvertical"] (l: Line) -> bool = l.is_vertical();
    ["?-", "lseg_horizontal", "ishorizontal"] (s: Segment) -> bool = eq(s.0.y, s.1.y);
    ["?|", "lseg_vertical", "isvertical"] (s: Segment) -> bool = eq(s.0.x, s.1.x);
    ["area"] (p: Path) -> Option<f64> = p.area()?;
    ["area"] (b: Rect) -> f64 = b.area()?;
    ["area"] (c: Circle) -> f64 = c.area()?;
    ["width"] (b: Rect) -> f64 = b.width()?;
    ["height"] (b: Rect) -> f64 = b.height()?;
    ["diagonal", "lseg"] (b: Rect) -> Segment = b.diagonal();
    ["diameter"] (c: Circle) -> f64 = mul(c.radius, 2.0)?;
    ["radius"] (c: Circle) -> f64 = radius_given(c.radius);
    ["isclosed"] (p: Path) -> bool = p.closed;
    ["isopen"] (p: Path) -> bool = !p.closed;
    ["pclose"] (p: Path) -> Path = Path { closed: true, ..p };
    ["popen"] (p: Path) -> Path = Path { closed: false, ..p };
    ["box"] (p: Point) -> Rect = p.rect();
    ["box"] (c: Circle) -> Rect = c.rect()?;
    ["box"] (p: Polygon) -> Rect = p.rect();
    ["circle"] (b: Rect) -> Circle = b.circle()?;
    ["circle"] (p: Polygon) -> Circle = p.circle()?;
    ["path"] (p: Polygon) -> Path = p.path();
    ["polygon"] (b: Rect) -> Polygon = b.polygon();
    ["polygon"] (p: Path) -> Polygon = p.polygon()?;
    ["polygon"] (c: Circle) -> Polygon = c.polygon(12)?;
}

of_two! {
    ["=", "line_eq"] (a: Line, b: Line) -> bool = a.is_same(&b)?;
    ["~=", "point_eq"] (a: Point, b: Point) -> bool = a.is_same(&b);
    ["<>", "point_ne"] (a: Point, b: Point) -> bool = !a.is_same(&b);
    ["<<", "point_left"] (a: Point, b: Point) -> bool = lt(a.x, b.x);
    [">>", "point_right"] (a: Point, b: Point) -> bool = gt(a.x, b.x);
    ["|>>", ">^", "point_above"] (a: Point, b: Point) -> bool = gt(a.y, b.y);
    ["<<|", "<^", "point_below"] (a: Point, b: Point) -> bool = lt(a.y, b.y);
    ["?|", "point_vert", "isvertical"] (a: Point, b: Point) -> bool = eq(a.x, b.x);
    ["?-", "point_horiz", "ishorizontal"] (a: Point, b: Point) -> bool = eq(a.y, b.y);
    ["+", "point_add"] (a: Point, b: Point) -> Point = a.plus(&b)?;
    ["-", "point_sub"] (a: Point, b: Point) -> Point = a.minus(&b)?;
    ["*", "point_mul"] (a: Point, b: Point) -> Point = a.times(&b)?;
    ["/", "point_div"] (a: Point, b: Point) -> Point = a.over(&b)?;
    ["slope"] (a: Point, b: Point) -> f64 = a.slope(&b)?;
    ["point"] (x: f64, y: f64) -> Point = Point { x, y };
    ["box"] (a: Point, b: Point) -> Rect = Rect::of_corners(a, b);
    ["lseg"] (a: Point, b: Point) -> Segment = Segment(a, b);
    ["line"] (a: Point, b: Point) -> Line = {
        if a.is_same(&b) {
            let message = "invalid line specification: must be two distinct points";
            return Err(Error::new(SqlState::BAD_PARAMETER, message));
        }
        Line::through(&a, &b)?
    };
    ["circle"] (center: Point, radius: f64) -> Circle = Circle { center, radius };
    ["polygon"] (count: i64, c: Circle) -> Polygon = c.polygon(count)?;

    ["?||", "line_parallel", "isparallel"] (a: Line, b: Line) -> bool = a.crossing(&b)?.is_none();
    ["?-|", "line_perp", "isperp"] (a: Line, b: Line) -> bool = a.is_perpendicular(&b)?;
    ["?#", "line_intersect"] (a: Line, b: Line) -> bool = a.crossing(&b)?.is_some();
    ["#", "line_interpt"] (a: Line, b: Line) -> Option<Point> = a.crossing(&b)?;
    ["?||", "lseg_parallel", "isparallel"] (a: Segment, b: Segment) -> bool = a.is_parallel(&b)?;
    ["?-|", "lseg_perp", "isperp"] (a: Segment, b: Segment) -> bool = a.is_perpendicular(&b)?;
    ["?#", "lseg_intersect"] (a: Segment, b: Segment) -> bool = a.crossing(&b)?.is_some();
    ["#", "lseg_interpt"] (a: Segment, b: Segment) -> Option<Point> = a.crossing(&b)?;
    ["?#", "inter_sl"] (a: Segment, b: Line) -> bool = a.crossing_line(&b)?.is_some();
    ["?#", "inter_sb"] (a: Segment, b: Rect) -> bool = b.meets(&a)?;
    ["?#", "inter_lb"] (a: Line, b: Rect) -> bool = b.meets_line(&a)?;
    ["=", "lseg_eq"] (a: Segment, b: Segment) -> bool = a.0.is_same(&b.0) && a.1.is_same(&b.1);
    ["<>", "lseg_ne"] (a: Segment, b: Segment) -> bool = !(a.0.is_same(&b.0) && a.1.is_same(&b.1));
    ["<", "lseg_lt"] (a: Segment, b: Segment) -> bool = lt(a.length()?, b.length()?);
    ["<=", "lseg_le"] (a: Segment, b: Segment) -> bool = le(a.length()?, b.length()?);
    [">", "lseg_gt"] (a: Segment, b: Segment) -> bool = gt(a.length()?, b.length()?);
    [">=", "lseg_ge"] (a: Segment, b: Segment) -> bool = ge(a.length()?, b.length()?);

    ["##", "close_ls"] (a: Line, b: Segment) -> Option<Point> = nearest_of_line(&a, &b)?;
    ["##", "close_sb"] (a: Segment, b: Rect) -> Option<Point> = found(b.nearest_to(&a)?);
    ["##", "close_lseg"] (a: Segment, b: Segment) -> Option<Point> = {
        if a.slope()? == b.slope()? { None } else { found(b.nearest_to(&a)?) }
    };
    ["##", "close_pb"] (a: Point, b: Rect) -> Option<Point> = found(b.nearest(&a)?);
    ["##", "close_pl"] (a: Point, b: Line) -> Option<Point> = found(b.nearest(&a)?);
    ["##", "close_ps"] (a: Point, b: Segment) -> Option<Point> = found(b.nearest(&a)?);

    ["<->", "point_distance"] (a: Point, b: Point) -> f64 = a.distance(&b)?;
    ["<->", "dist_pl"] (a: Point, b: Line) -> f64 = b.nearest(&a)?.0;
    ["<->", "dist_lp"] (a: Line, b: Point) -> f64 = a.nearest(&b)?.0;
    ["<->", "dist_ps"] (a: Point, b: Segment) -> f64 = b.nearest(&a)?.0;
    ["<->", "dist_sp"] (a: Segment, b: Point) -> f64 = a.nearest(&b)?.0;
    ["<->", "dist_pb"] (a: Point, b: Rect) -> f64 = b.nearest(&a)?.0;
    ["<->", "dist_bp"] (a: Rect, b: Point) -> f64 = a.nearest(&b)?.0;
    ["<->", "dist_ppath"] (a: Point, b: Path) -> Option<f64> = b.distance_of(&a)?;
    ["<->", "dist_pathp"] (a: Path, b: Point) -> Option<f64> = a.distance_of(&b)?;
    ["<->", "dist_ppoly"] (a: Point, b: Polygon) -> f64 = b.distance_of(&a)?;
    ["<->", "dist_polyp"] (a: Polygon, b: Point) -> f64 = a.distance_of(&b)?;
    ["<->", "dist_pc"] (a: Point, b: Circle) -> f64 = to_circle(&a, &b)?;
    ["<->", "dist_cpoint"] (a: Circle, b: Point) -> f64 = to_circle(&b, &a)?;
    ["<->", "line_distance"] (a: Line, b: Line) -> f64 = a.distance(&b)?;
    ["<->", "dist_ls"] (a: Line, b: Segment) -> f64 = b.nearest_to_line(&a)?.0;
    ["<->", "dist_sl"] (a: Segment, b: Line) -> f64 = a.nearest_to_line(&b)?.0;
    ["<->", "lseg_distance"] (a: Segment, b: Segment) -> f64 = a.nearest_to(&b)?.0;
    ["<->", "dist_sb"] (a: Segment, b: Rect) -> f64 = b.nearest_to(&a)?.0;
    ["<->", "dist_bs"] (a: Rect, b: Segment) -> f64 = a.nearest_to(&b)?.0;
    ["<->", "box_distance"] (a: Rect, b: Rect) -> f64 = a.center()?.distance(&b.center()?)?;
    ["<->", "path_distance"] (a: Path, b: Path) -> Option<f64> = a.distance(&b)?;
    ["<->", "poly_distance"] (a: Polygon, b: Polygon) -> f64 = a.distance(&b)?;
    ["<->", "circle_distance"] (a: Circle, b: Circle) -> f64 = between_circles(&a, &b)?;
    ["<->", "dist_cpoly"] (a: Circle, b: Polygon) -> f64 = to_polygon(&a, &b)?;
    ["<->", "dist_polyc"] (a: Polygon, b: Circle) -> f64 = to_polygon(&b, &a)?;

    ["<@", "on_pl"] (a: Point, b: Line) -> bool = b.has(&a)?;
    ["<@", "on_ps"] (a: Point, b: Segment) -> bool = b.has(&a)?;
    ["<@", "on_pb"] (a: Point, b: Rect) -> bool = b.has(&a);
    ["<@", "on_ppath"] (a: Point, b: Path) -> bool = b.has(&a)?;
    ["<@", "pt_contained_poly"] (a: Point, b: Polygon) -> bool = b.has(&a)?;
    ["<@", "pt_contained_circle"] (a: Point, b: Circle) -> bool = in_circle(&a, &b)?;
    ["<@", "on_sl"] (a: Segment, b: Line) -> bool = b.has(&a.0)? && b.has(&a.1)?;
    ["<@", "on_sb"] (a: Segment, b: Rect) -> bool = b.has(&a.0) && b.has(&a.1);
    ["@>", "box_contain_pt"] (a: Rect, b: Point) -> bool = a.has(&b);
    ["@>", "path_contain_pt"] (a: Path, b: Point) -> bool = a.has(&b)?;
    ["@>", "poly_contain_pt"] (a: Polygon, b: Point) -> bool = place_in(&b, &a.points)? != Place::Outside;
    ["@>", "circle_contain_pt"] (a: Circle, b: Point) -> bool = in_circle(&b, &a)?;

    ["~=", "box_same"] (a: Rect, b: Rect) -> bool = a.high.is_same(&b.high) && a.low.is_same(&b.low);
    ["&&", "?#", "box_overlap"] (a: Rect, b: Rect) -> bool = a.overlaps(&b);
    ["<<", "box_left"] (a: Rect, b: Rect) -> bool = lt(a.high.x, b.low.x);
    ["&<", "box_overleft"] (a: Rect, b: Rect) -> bool = le(a.high.x, b.high.x);
    [">>", "box_right"] (a: Rect, b: Rect) -> bool = gt(a.low.x, b.high.x);
    ["&>", "box_overright"] (a: Rect, b: Rect) -> bool = ge(a.low.x, b.low.x);
    ["<<|", "box_below"] (a: Rect, b: Rect) -> bool = lt(a.high.y, b.low.y);
    ["&<|", "box_overbelow"] (a: Rect, b: Rect) -> bool = le(a.high.y, b.high.y);
    ["|>>", "box_above"] (a: Rect, b: Rect) -> bool = gt(a.low.y, b.high.y);
    ["|&>", "box_overabove"] (a: Rect, b: Rect) -> bool = ge(a.low.y, b.low.y);
    ["<^", "box_below_eq"] (a: Rect, b: Rect) -> bool = le(a.high.y, b.low.y);
    [">^", "box_above_eq"] (a: Rect, b: Rect) -> bool = ge(a.low.y, b.high.y);
    ["@>", "box_contain"] (a: Rect, b: Rect) -> bool = a.contains(&b);
    ["<@", "box_contained"] (a: Rect, b: Rect) -> bool = b.contains(&a);
    ["=", "box_eq"] (a: Rect, b: Rect) -> bool = eq(a.area()?, b.area()?);
    ["<", "box_lt"] (a: Rect, b: Rect) -> bool = lt(a.area()?, b.area()?);
    ["<=", "box_le"] (a: Rect, b: Rect) -> bool = le(a.area()?, b.area()?);
    [">", "box_gt"] (a: Rect, b: Rect) -> bool = gt(a.area()?, b.area()?);
    [">=", "box_ge"] (a: Rect, b: Rect) -> bool = ge(a.area()?, b.area()?);
    ["#", "box_intersect"] (a: Rect, b: Rect) -> Option<Rect> = a.intersection(&b);
    ["bound_box"] (a: Rect, b: Rect) -> Rect = a.union(&b);
    ["+", "box_add"] (a: Rect, b: Point) -> Rect = Rect { high: a.high.plus(&b)?, low: a.low.plus(&b)? };
    ["-", "box_sub"] (a: Rect, b: Point) -> Rect = Rect { high: a.high.minus(&b)?, low: a.low.minus(&b)? };
    ["*", "box_mul"] (a: Rect, b: Point) -> Rect = Rect::of_corners(a.high.times(&b)?, a.low.times(&b)?);
    ["/", "box_div"] (a: Rect, b: Point) -> Rect = Rect::of_corners(a.high.over(&b)?, a.low.over(&b)?);

    ["=", "path_n_eq"] (a: Path, b: Path) -> bool = a.points.len() == b.points.len();
    ["<", "path_n_lt"] (a: Path, b: Path) -> bool = a.points.len() < b.points.len();
    ["<=", "path_n_le"] (a: Path, b: Path) -> bool = a.points.len() <= b.points.len();
    [">", "path_n_gt"] (a: Path, b: Path) -> bool = a.points.len() > b.points.len();
    [">=", "path_n_ge"] (a: Path, b: Path) -> bool = a.points.len() >= b.points.len();
    ["?#", "path_inter"] (a: Path, b: Path) -> bool = a.crosses(&b)?;
    ["+", "path_add"] (a: Path, b: Path) -> Option<Path> = match (a.closed, b.closed) {
        (false, false) => Some(Path { closed: false, points: [a.points, b.points].concat() }),
        _ => None,
    };
    ["+", "path_add_pt"] (a: Path, b: Point) -> Path = moved(a, |point| point.plus(&b))?;
    ["-", "path_sub_pt"] (a: Path, b: Point) -> Path = moved(a, |point| point.minus(&b))?;
    ["*", "path_mul_pt"] (a: Path, b: Point) -> Path = moved(a, |point| point.times(&b))?;
    ["/", "path_div_pt"] (a: Path, b: Point) -> Path = moved(a, |point| point.over(&b))?;

    ["~=", "poly_same"] (a: Polygon, b: Polygon) -> bool = a.is_same(&b)?;
    ["&&", "poly_overlap"] (a: Polygon, b: Polygon) -> bool = a.overlaps(&b)?;
    ["@>", "poly_contain"] (a: Polygon, b: Polygon) -> bool = a.contains(&b)?;
    ["<@", "poly_contained"] (a: Polygon, b: Polygon) -> bool = b.contains(&a)?;
    ["<<", "poly_left"] (a: Polygon, b: Polygon) -> bool = a.rect().high.x < b.rect().low.x;
    ["&<", "poly_overleft"] (a: Polygon, b: Polygon) -> bool = a.rect().high.x <= b.rect().high.x;
    [">>", "poly_right"] (a: Polygon, b: Polygon) -> bool = a.rect().low.x > b.rect().high.x;
    ["&>", "poly_overright"] (a: Polygon, b: Polygon) -> bool = a.rect().low.x >= b.rect().low.x;
    ["<<|", "poly_below"] (a: Polygon, b: Polygon) -> bool = a.rect().high.y < b.rect().low.y;
    ["&<|", "poly_overbelow"] (a: Polygon, b: Polygon) -> bool = a.rect().high.y <= b.rect().high.y;
    ["|>>", "poly_above"] (a: Polygon, b: Polygon) -> bool = a.rect().low.y > b.rect().high.y;
    ["|&>", "poly_overabove"] (a: Polygon, b: Polygon) -> bool = a.rect().low.y >= b.rect().low.y;

    ["~=", "circle_same"] (a: Circle, b: Circle) -> bool = a.is_same(&b);
    ["&&", "circle_overlap"] (a: Circle, b: Circle) -> bool =
        le(a.center.distance(&b.center)?, add(a.radius, b.radius)?);
    ["&<", "circle_overleft"] (a: Circle, b: Circle) -> bool =
        le(add(a.center.x, a.radius)?, add(b.center.x, b.radius)?);
    ["<<", "circle_left"] (a: Circle, b: Circle) -> bool = lt(add(a.center.x, a.radius)?, sub(b.center.x, b.radius)?);
    [">>", "circle_right"] (a: Circle, b: Circle) -> bool = gt(sub(a.center.x, a.radius)?, add(b.center.x, b.radius)?);
    ["&>", "circle_overright"] (a: Circle, b: Circle) -> bool =
        ge(sub(a.center.x, a.radius)?, sub(b.center.x, b.radius)?);
    ["<<|", "circle_below"] (a: Circle, b: Circle) -> bool = lt(add(a.center.y, a.radius)?, sub(b.center.y, b.radius)?);
    ["|>>", "circle_above"] (a: Circle, b: Circle) -> bool = gt(sub(a.center.y, a.radius)?, add(b.center.y, b.radius)?);
    ["&<|", "circle_overbelow"] (a: Circle, b: Circle) -> bool =
        le(add(a.center.y, a.radius)?, add(b.center.y, b.radius)?);
    ["|&>", "circle_overabove"] (a: Circle, b: Circle) -> bool =
        ge(sub(a.center.y, a.radius)?, sub(b.center.y, b.radius)?);
    [".subscript"] (a: Point, b: i64) -> Option<f64> = match b {
        0 => Some(a.x),
        1 => Some(a.y),
        _ => None,
    };
    [".subscript"] (a: Rect, b: i64) -> Option<Point> = match b {
        0 => Some(a.high),
        1 => Some(a.low),
        _ => None,
    };
    [".subscript"] (a: Segment, b: i64) -> Option<Point> = match b {
        0 => Some(a.0),
        1 => Some(a.1),
        _ => None,
    };
    [".subscript"] (a: Line, b: i64) -> Option<f64> = match b {
        0 => Some(a.a),
        1 => Some(a.b),
        2 => Some(a.c),
        _ => None,
    };

    ["<@", "circle_contained"] (a: Circle, b: Circle) -> bool =
        le(a.center.distance(&b.center)?, sub(b.radius, a.radius)?);
    ["@>", "circle_contain"] (a: Circle, b: Circle) -> bool =
        le(a.center.distance(&b.center)?, sub(a.radius, b.radius)?);
    ["=", "circle_eq"] (a: Circle, b: Circle) -> bool = eq(a.area()?, b.area()?);
    ["<>", "circle_ne"] (a: Circle, b: Circle) -> bool = ne(a.area()?, b.area()?);
    ["<", "circle_lt"] (a: Circle, b: Circle) -> bool = lt(a.area()?, b.area()?);
    ["<=", "circle_le"] (a: Circle, b: Circle) -> bool = le(a.area()?, b.area()?);
    [">", "circle_gt"] (a: Circle, b: Circle) -> bool = gt(a.area()?, b.area()?);
    [">=", "circle_ge"] (a: Circle, b: Circle) -> bool = ge(a.area()?, b.area()?);
    ["+", "circle_add_pt"] (a: Circle, b: Point) -> Circle = Circle { center: a.center.plus(&b)?, ..a };
    ["-", "circle_sub_pt"] (a: Circle, b: Point) -> Circle = Circle { center: a.center.minus(&b)?, ..a };
    ["*", "circle_mul_pt"] (a: Circle, b: Point) -> Circle =
        Circle { center: a.center.times(&b)?, radius: mul(a.radius, size(&b)?)? };
    ["/", "circle_div_pt"] (a: Circle, b: Point) -> Circle =
        Circle { center: a.center.over(&b)?, radius: div(a.radius, size(&b)?)? };
}

/// The nearest point, if there is one.
fn found((distance, point): (f64, Point)) -> Option<Point> {
    (!distance.is_nan()).then_some(point)
}

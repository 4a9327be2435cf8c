//! Bars and lines as an SVG file: enough for a few results side by side.
//!
//! ```text
//! title
//! ┌ panel ───────────────┐
//! │ title      ■ a  ■ b  │
//! │ 20 ┤      ▇          │
//! │ 10 ┤  ▇ ▅ █ ▅        │
//! │  0 ┼──────────────── │
//! │      group  group    │
//! └──────────────────────┘
//! ```
//!
//! Not here: anything that needs to know exactly how wide a text is.

use std::fmt::Write as _;

/// Least width of the picture; many groups of bars make it wider.
const WIDTH_MIN: f64 = 860.0;
/// What the label of a group and that of a bar take, about.
const GROUP_LABEL: f64 = 88.0;
const BAR_LABEL: f64 = 30.0;
/// Part of a group's width that its bars take.
const BARS_PART: f64 = 0.8;
const PANEL_HEIGHT: f64 = 280.0;
const HEADING_HEIGHT: f64 = 44.0;
/// What a key takes beside its name, and at least; what a character takes, about.
const KEY_ROOM: f64 = 40.0;
const KEY_MIN: f64 = 100.0;
const CHARACTER: f64 = 6.6;
/// Margins around the plotted area of a panel.
const LEFT: f64 = 90.0;
const RIGHT: f64 = 36.0;
const TOP: f64 = 54.0;
const BOTTOM: f64 = 44.0;
/// Colours that can be told apart with colour blindness, too.
const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#999999", "#cc79a7", "#56b4e9"];

/// A plot of several panels, one below the other.
#[derive(Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) panels: Vec<Panel>,
}

/// One pair of axes.
#[derive(Debug)]
pub(crate) struct Panel {
    /// What is shown, and its unit.
    pub(crate) title: String,
    pub(crate) shape: Shape,
    /// Powers of ten at equal distances; values of zero are then not shown.
    pub(crate) logarithmic: bool,
    /// A name, and a value for each group or place; not a number where there is none.
    pub(crate) series: Vec<(String, Vec<f64>)>,
}

/// How values are shown.
#[derive(Debug)]
pub(crate) enum Shape {
    /// A group of bars for each name, which may have several lines.
    Bars(Vec<String>),
    /// Lines over these places, which the text names.
    Lines(Vec<f64>, String),
}

impl Plot {
    /// The SVG document.
    pub(crate) fn render(&self) -> String {
        let height = HEADING_HEIGHT + PANEL_HEIGHT * self.panels.len() as f64;
        let width = self.panels.iter().map(Panel::width_min).fold(WIDTH_MIN, f64::max).ceil();
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
        );
        text(&mut svg, 20.0, 28.0, "start", &format!("<tspan font-size=\"16\">{}</tspan>", escaped(&self.title)));
        for (index, panel) in self.panels.iter().enumerate() {
            panel.render(&mut svg, width, HEADING_HEIGHT + PANEL_HEIGHT * index as f64);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// The range of values of a panel, and where they lie on the page.
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// The upper end of the plotted area, its height and its width.
    top: f64,
    height: f64,
    width: f64,
}

impl Scale {
    fn y(&self, value: f64) -> f64 {
        let part = match self.logarithmic {
            true => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.top + self.height * (1.0 - part)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            return (0..=decades).map(|n| self.low * 10_f64.powi(n)).collect();
        }
        (0..=4).map(|n| self.high * f64::from(n) / 4.0).collect()
    }
}

impl Panel {
    /// The width of the picture at which no label is over another.
    fn width_min(&self) -> f64 {
        match &self.shape {
            Shape::Bars(groups) => {
                let bars = BAR_LABEL * self.series.len() as f64 / BARS_PART;
                LEFT + RIGHT + groups.len() as f64 * bars.max(GROUP_LABEL)
            }
            Shape::Lines(..) => 0.0,
        }
    }

    fn scale(&self, width: f64, top: f64) -> Scale {
        let values = || self.series.iter().flat_map(|(_, values)| values).copied().filter(|value| value.is_finite());
        let largest = values().fold(0.0, f64::max);
        let (low, high) = if self.logarithmic {
            let smallest = values().filter(|&value| value > 0.0).fold(f64::INFINITY, f64::min).min(largest.max(1.0));
            let low = 10_f64.powf(smallest.log10().floor());
            (low, 10_f64.powf(largest.max(low * 10.0).log10().ceil()))
        } else {
            (0.0, round_up(largest))
        };
        let (width, height) = (width - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM);
        Scale { low, high, logarithmic: self.logarithmic, top, height, width }
    }

    fn render(&self, svg: &mut String, width: f64, offset: f64) {
        let scale = self.scale(width, offset + TOP);
        text(
            svg,
            20.0,
            offset + 20.0,
            "start",
            &format!("<tspan font-weight=\"bold\">{}</tspan>", escaped(&self.title)),
        );
        let mut x = LEFT;
        // A single series has no name: the title says what it is.
        for (index, (name, _)) in self.series.iter().enumerate().filter(|(_, (name, _))| !name.is_empty()) {
            rectangle(svg, x, offset + 31.0, 10.0, 10.0, index);
            text(svg, x + 15.0, offset + 40.0, "start", &escaped(name));
            x += (KEY_ROOM + CHARACTER * name.chars().count() as f64).max(KEY_MIN);
        }
        for tick in scale.ticks() {
            let y = scale.y(tick);
            let end = LEFT + scale.width;
            let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{end}\" stroke=\"#ddd\"/>");
            text(svg, LEFT - 8.0, y + 4.0, "end", &number(tick));
        }
        match &self.shape {
            Shape::Bars(groups) => self.bars(svg, &scale, groups),
            Shape::Lines(places, name) => self.lines(svg, &scale, places, name),
        }
    }

    fn bars(&self, svg: &mut String, scale: &Scale, groups: &[String]) {
        let bottom = scale.top + scale.height;
        let group_width = scale.width / groups.len().max(1) as f64;
        let bar_width = (group_width * BARS_PART / self.series.len().max(1) as f64).min(70.0);
        for (group, name) in groups.iter().enumerate() {
            let middle = LEFT + group_width * (group as f64 + 0.5);
            for (line, name) in name.lines().enumerate() {
                text(svg, middle, bottom + 18.0 + 14.0 * line as f64, "middle", &escaped(name));
            }
            let first = middle - bar_width * self.series.len() as f64 / 2.0;
            for (index, (_, values)) in self.series.iter().enumerate() {
                let Some(&value) = values.get(group).filter(|value| value.is_finite()) else { continue };
                let (x, y) = (first + bar_width * index as f64, scale.y(value));
                rectangle(svg, x + 1.0, y, bar_width - 2.0, bottom - y, index);
                // A white edge sets it off the lines of the scale.
                let label = format!(
                    "<tspan font-size=\"10\" paint-order=\"stroke\" stroke=\"white\" stroke-width=\"3\">{}</tspan>",
                    number(value)
                );
                text(svg, x + bar_width / 2.0, y - 3.0, "middle", &label);
            }
        }
    }

    fn lines(&self, svg: &mut String, scale: &Scale, places: &[f64], name: &str) {
        let bottom = scale.top + scale.height;
        let width = scale.width;
        let last = places.last().copied().filter(|&last| last > 0.0).unwrap_or(1.0);
        let x = |place: f64| LEFT + width * place / last;
        for place in round_places(last) {
            text(svg, x(place), bottom + 16.0, "middle", &number(place));
        }
        text(svg, LEFT + width / 2.0, bottom + 32.0, "middle", &escaped(name));
        for (index, (_, values)) in self.series.iter().enumerate() {
            let points = places.iter().zip(values).filter(|(_, value)| value.is_finite());
            let points: Vec<_> =
                points.map(|(&place, &value)| format!("{:.1},{:.1}", x(place), scale.y(value))).collect();
            let colour = COLOURS[index % COLOURS.len()];
            // A line of one point is visible only by its round ends.
            let (points, stroke) = if points.len() == 1 { (vec![points[0].clone(); 2], 8) } else { (points, 2) };
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{stroke}\" stroke-linecap=\"round\"/>",
                points.join(" ")
            );
        }
    }
}

/// Values as a line of text, the largest one at its full height.
pub(crate) fn sparks(values: &[f64]) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let step = |value: f64| ((value / largest * STEPS.len() as f64).ceil() as usize).clamp(1, STEPS.len()) - 1;
    values.iter().map(|&value| STEPS[step(value)]).collect()
}

/// Places from 0 to an end of more than 0, three to six of them, at a distance of 1, 2 or 5 times a
/// power of ten.
fn round_places(last: f64) -> impl Iterator<Item = f64> {
    let least = last / 5.0;
    let power = 10_f64.powf(least.log10().floor());
    // Independent of how the division is rounded.
    let holds = |step: &f64| *step * 1.000_000_1 >= least;
    let step = [1.0, 2.0, 5.0].map(|times| times * power).into_iter().find(holds).unwrap_or(10.0 * power);
    (0..=5).map(move |n| f64::from(n) * step).filter(move |place| *place <= last * 1.000_000_1)
}

fn rectangle(svg: &mut String, x: f64, y: f64, width: f64, height: f64, series: usize) {
    let colour = COLOURS[series % COLOURS.len()];
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
    );
}

/// Writes a text that is escaped already.
fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The next number that divides well by four.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0];
    // A little more room, for the label above the highest bar.
    steps.iter().map(|step| step * decade).find(|&round| round >= value * 1.04).unwrap_or(12.0 * decade)
}

fn number(value: f64) -> String {
    let text = if value > 0.0 && value < 0.1 {
        // Three digits tell the quarters of a round number apart, however small it is.
        let decimals = 2 - value.log10().floor() as i32;
        format!("{value:.0$}", decimals as usize)
    } else {
        crate::measure::format::significant(value)
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(shape: Shape, logarithmic: bool) -> Panel {
        let series = vec![("a & b".to_owned(), vec![1.0, 20.0]), ("c".to_owned(), vec![f64::NAN, 300.0])];
        Panel { title: "ranges < pages".to_owned(), shape, logarithmic, series }
    }

    #[test]
    fn every_value_is_in_the_picture() {
        let bars = panel(Shape::Bars(vec!["one".to_owned(), "two".to_owned()]), true);
        let lines = panel(Shape::Lines(vec![0.0, 10.0], "transactions".to_owned()), false);
        let svg = Plot { title: "a title".to_owned(), panels: vec![bars, lines] }.render();
        // A background, two keys a panel, three bars.
        assert_eq!(svg.matches("<rect").count(), 1 + 4 + 3);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("a &amp; b") && svg.contains("ranges &lt; pages") && !svg.contains("NaN"));
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn many_groups_make_the_picture_wider() {
        let width = |groups: usize| panel(Shape::Bars(vec!["a name".to_owned(); groups]), false).width_min();
        assert!(width(5) < WIDTH_MIN && width(50) >= 50.0 * GROUP_LABEL);
    }

    #[test]
    fn an_axis_has_round_places() {
        let places = |last: f64| round_places(last).collect::<Vec<_>>();
        assert_eq!(places(59.0), [0.0, 20.0, 40.0]);
        assert_eq!(places(10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(places(0.5), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5].map(|place: f64| (place * 10.0).round() * 0.1));
        for last in [1e-6, 0.3, 1.0, 2.9, 7.0, 299.0, 3_600.0, 12_345_678.0] {
            assert!((3..=6).contains(&places(last).len()), "{last}: {:?}", places(last));
        }
    }

    /// Bug: an axis over the place 0 alone ended at the smallest number there is, in hundreds of
    /// digits, and a line of one point is not seen. Consequence: pages of runs of a second had
    /// black bars for charts. Fix: such an axis ends at 1, and a point is a dot.
    #[test]
    fn one_point_is_a_dot_on_an_axis() {
        let lone = Panel {
            series: vec![("a".to_owned(), vec![7.0])],
            ..panel(Shape::Lines(vec![0.0], "seconds".to_owned()), false)
        };
        let svg = Plot { title: String::new(), panels: vec![lone] }.render();
        assert!(svg.lines().all(|line| line.len() < 300), "{svg}");
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let (first, second) = points.split_once(' ').unwrap();
        assert_eq!(first, second);
        assert!(svg.contains("stroke-linecap=\"round\""));
    }

    #[test]
    fn sparks_are_as_high_as_their_values() {
        assert_eq!(sparks(&[0.0, 1.0, 4.0, 8.0]), "▁▁▄█");
        assert_eq!(sparks(&[]) + &sparks(&[0.0, 0.0]), "▁▁");
    }

    #[test]
    fn numbers_have_no_zeros_to_spare() {
        let expected = ["0", "0.003", "0.3", "1", "1.05", "20", "300", "1,000"];
        assert_eq!([0.0, 0.003, 0.3, 1.0, 1.05, 20.0, 300.0, 1000.0].map(number), expected);
        // The quarters of an axis of microseconds in milliseconds.
        assert_eq!([0.00125, 0.0025, 0.00375, 0.000_012].map(number), ["0.00125", "0.0025", "0.00375", "0.000012"]);
    }

    #[test]
    fn nothing_to_show_is_still_a_picture() {
        let empty = Panel {
            title: String::new(),
            shape: Shape::Bars(Vec::new()),
            logarithmic: true,
            series: vec![("none".to_owned(), vec![0.0])],
        };
        let svg = Plot { title: String::new(), panels: vec![empty] }.render();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn the_scale_ends_just_above_the_largest_value() {
        for value in [0.001, 0.9, 1.0, 1.19, 7.0, 99.0, 211.0, 1e9] {
            let round = round_up(value);
            assert!(round > value && round <= value * 1.6, "{value}: {round}");
        }
    }
}

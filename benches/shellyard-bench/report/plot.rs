//! A curve as a picture: both axes are logarithmic, so that a power law is a straight line.

use super::Curve;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 48.0;

/// Text and lines in grey, and colours, that can be seen on white and on black.
const STYLE: &str = "text { font: 11px sans-serif; fill: #808080 } .t { font-size: 13px } \
     .g { stroke: #808080; stroke-opacity: .3 } .s0 { stroke: #2f81f7; fill: #2f81f7 } \
     .s1 { stroke: #d9730d; fill: #d9730d } polyline.s0, polyline.s1 { fill: none; stroke-width: 2 } \
     text.s0, text.s1 { stroke: none }";

/// One line for each series.
pub(super) fn svg(curve: &Curve, series: &[(&str, &[(f64, f64)])]) -> String {
    let all: Vec<(f64, f64)> =
        series.iter().flat_map(|(_, points)| points.iter().copied()).collect();
    let x = Axis::over(all.iter().map(|(x, _)| *x), LEFT, WIDTH - RIGHT);
    let y = Axis::over(all.iter().map(|(_, y)| *y), HEIGHT - BOTTOM, TOP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\"><style>{STYLE}</style>\n"
    );
    svg += &text(LEFT, 18.0, "class=\"t\"", curve.title);
    svg += &text((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8.0, "text-anchor=\"middle\"", curve.load);
    svg += &text(4.0, TOP - 8.0, "", curve.cost);
    svg += &grid(&x, &y);
    for (index, (name, points)) in series.iter().enumerate() {
        svg += &line(index, points, &x, &y);
        let at = WIDTH - RIGHT - 60.0 * (series.len() - index) as f64;
        svg += &text(at, TOP - 8.0, &format!("class=\"s{index}\""), name);
    }
    svg + "</svg>\n"
}

/// Whole decades from the least to the most, drawn between two places.
struct Axis {
    first: i32,
    last: i32,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let first = values.clone().fold(f64::MAX, f64::min).log10().floor() as i32;
        let last = values.fold(f64::MIN, f64::max).log10().ceil() as i32;
        Self { first, last: last.max(first + 1), from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.first)) / f64::from(self.last - self.first);
        self.from + part * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = (String, f64)> {
        (self.first..=self.last).map(|power| {
            let value = 10_f64.powi(power);
            (short(value), self.place(value))
        })
    }
}

fn grid(x: &Axis, y: &Axis) -> String {
    let mut svg = String::new();
    for (label, at) in x.ticks() {
        svg += &rule([at, y.from, at, y.to]);
        svg += &text(at, y.from + 16.0, "text-anchor=\"middle\"", &label);
    }
    for (label, at) in y.ticks() {
        svg += &rule([x.from, at, x.to, at]);
        svg += &text(x.from - 6.0, at + 4.0, "text-anchor=\"end\"", &label);
    }
    svg
}

fn line(index: usize, points: &[(f64, f64)], x: &Axis, y: &Axis) -> String {
    let places: Vec<(f64, f64)> =
        points.iter().map(|point| (x.place(point.0), y.place(point.1))).collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let dots = places.iter().map(|(x, y)| {
        format!("<circle class=\"s{index}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>\n")
    });
    let path = format!("<polyline class=\"s{index}\" points=\"{}\"/>\n", path.join(" "));
    path + &dots.collect::<String>()
}

fn rule([x1, y1, x2, y2]: [f64; 4]) -> String {
    format!("<line class=\"g\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n")
}

/// The words are ours and need no escaping.
fn text(x: f64, y: f64, attributes: &str, words: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{words}</text>\n")
}

fn short(value: f64) -> String {
    match value {
        large if large >= 1e9 => format!("{} G", large / 1e9),
        large if large >= 1e6 => format!("{} M", large / 1e6),
        large if large >= 1e3 => format!("{} k", large / 1e3),
        small => format!("{small}"),
    }
}

//! `--plot-xy`: two states against one another, in constant memory.

use optfilter_model::ModelSpec;
use optfilter_plot::color::{BLUE, GREY};
use optfilter_plot::{Axis, Figure, Mark, Panel};
use optfilter_run::Estimate;

/// Points of a path that are kept at most.
const MOST: usize = 8192;

/// A path of which every point is kept, then every second, every fourth and so on.
#[derive(Default)]
struct Path {
    points: Vec<(f64, f64)>,
    every: usize,
    seen: usize,
}

impl Path {
    fn push(&mut self, point: (f64, f64)) {
        let every = self.every.max(1);
        if self.seen.is_multiple_of(every) && point.0.is_finite() && point.1.is_finite() {
            self.points.push(point);
            if self.points.len() >= MOST {
                let mut k = 0;
                self.points.retain(|_| {
                    k += 1;
                    k % 2 == 1
                });
                self.every = 2 * every;
            }
        }
        self.seen += 1;
    }
}

/// Two states in their plane, with what was measured of them.
pub struct Plane {
    states: [usize; 2],
    /// The observations that are these states, if both are measured.
    outputs: Option<[usize; 2]>,
    names: [String; 2],
    estimated: Path,
    measured: Path,
    outliers: Vec<(f64, f64)>,
    /// Semi-axes of the last estimate's ellipse need its covariance.
    last: Option<[f64; 5]>,
}

impl Plane {
    /// Of the states `X,Y`.
    pub fn new(spec: &ModelSpec, text: &str) -> Result<Self, String> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        let [x, y] = names[..] else { return Err("is two states, as in x,y".into()) };
        let place = |name: &str| {
            let known = spec.states.iter().position(|s| s == name);
            known.ok_or_else(|| {
                format!("{name:?} is not among the states {}", spec.states.join(", "))
            })
        };
        let states = [place(x)?, place(y)?];
        // An observation whose equation is the state alone measures it.
        let seen = |name: &str| spec.observation.iter().position(|q| q.text.trim() == name);
        let single = spec.observation.len() == spec.observations.len();
        let outputs = seen(x).zip(seen(y)).filter(|_| single).map(|(a, b)| [a, b]);
        Ok(Self {
            states,
            outputs,
            names: [x.to_owned(), y.to_owned()],
            estimated: Path::default(),
            measured: Path::default(),
            outliers: Vec::new(),
            last: None,
        })
    }

    /// The next row.
    pub fn push(&mut self, y: &[f64], estimate: &Estimate, outlier: bool) {
        let [i, j] = self.states;
        let (at, n) = ((estimate.mean[i], estimate.mean[j]), estimate.mean.len());
        self.estimated.push(at);
        let cov = |a: usize, b: usize| estimate.cov.get(a * n + b).copied();
        self.last = match (cov(i, i), cov(i, j), cov(j, j)) {
            (Some(xx), Some(xy), Some(yy)) => Some([at.0, at.1, xx, xy, yy]),
            _ => None,
        };
        if let Some([a, b]) = self.outputs {
            let point = (y[a], y[b]);
            match outlier {
                true if self.outliers.len() < MOST && !(point.0 + point.1).is_nan() => {
                    self.outliers.push(point);
                }
                _ => self.measured.push(point),
            }
        }
    }

    /// The path, the measurements, and where it ends with two standard deviations.
    pub fn figure(&self, title: &str) -> Figure {
        let [x, y] = &self.names;
        let mut panel = Panel::new("", Axis::linear(x.as_str()), Axis::linear(y.as_str()));
        if !self.measured.points.is_empty() {
            let points = self.measured.points.iter().copied();
            panel.marks.push(Mark::points(points).color(GREY).named("measured"));
        }
        if !self.outliers.is_empty() {
            panel.marks.push(Mark::outliers(self.outliers.iter().copied()));
        }
        let path = self.estimated.points.iter().copied();
        panel.marks.push(Mark::line(path).color(BLUE).named("estimate"));
        if let Some(outline) = self.last.and_then(ellipse) {
            let mark = Mark::line(outline).color(BLUE).size(1.0);
            panel.marks.push(mark.named("two standard deviations at the end"));
        }
        let mut figure = Figure::new(title).with(panel);
        figure.panel_height = 620.0;
        figure
    }
}

/// The points two standard deviations from a mean.
fn ellipse([x, y, xx, xy, yy]: [f64; 5]) -> Option<Vec<(f64, f64)>> {
    // The factor of the covariance carries the unit circle there.
    let a = xx.sqrt();
    let (b, c) = (xy / a, (yy - xy * xy / xx).sqrt());
    (a > 0.0 && b.is_finite() && c.is_finite()).then(|| {
        let turn = |k: u32| f64::from(k) * std::f64::consts::TAU / 60.0;
        let at = |t: f64| (x + 2.0 * a * t.cos(), y + 2.0 * (b * t.cos() + c * t.sin()));
        (0..=60).map(|k| at(turn(k))).collect()
    })
}

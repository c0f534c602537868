//! In which units rows are, and where a search begins in them.
//!
//! ```text
//! s_i^2 = half the mean square of the differences of neighbours of output i        (its level, where nothing changes)
//! d_j   = min s_i / |dy_i(k) / dx_j(0)|  over outputs i and the first rows k       (along the path from the first state)
//! R_ii = s_i^2,    Q_jj = d_j^2 / 4
//! ```
//!
//! A move of a state by d_j is seen by no output as more than its neighbours differ by. A start at these variances has, to rounding, the
//! units of the rows, whatever the file says. The other start is the file's, its open variances times the factor that suits
//! the rows best. Where all are free that is known at once: if innovations are weighed by k S, the slope of the likelihood
//! along ln k is (chi^2 / k - N) / 2.

use super::quantity::{Quantity, Target};
use crate::file::ModelSpec;
use crate::run::Dataset;
use optfilter::model::{Dynamics, Observation};
use optfilter::scalar::Dual;

/// The variance of a state's noise in units of the square of its move.
const SHARE: f64 = 0.25;
/// Rows along which a state is looked for in the outputs.
const MAX_ROWS: usize = 32;
/// Steps on the way to the best factor, each at most so large.
const STEPS: usize = 8;
const LEAST_FACTOR: f64 = 1e-12;

/// The sizes of outputs and states that rows tell.
pub(super) struct Units {
    /// s.
    outputs: Vec<Option<f64>>,
    /// d, and the same of the levels of outputs.
    states: Vec<(Option<f64>, Option<f64>)>,
    /// The length of a step for which noise is stated.
    step: f64,
}

fn usable(v: f64) -> Option<f64> {
    (v.is_finite() && v > 0.0).then_some(v)
}

/// The mean square of some numbers as a root; none where there is none, or where it is zero.
fn root_mean_square(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut largest, mut all) = (0.0_f64, Vec::new());
    for v in values.filter(|v| v.is_finite()) {
        largest = largest.max(v.abs());
        all.push(v);
    }
    // Over the largest, so that no square is beyond all numbers.
    let sum: f64 = all.iter().map(|v| (v / largest).powi(2)).sum();
    usable(largest * (sum / all.len() as f64).sqrt())
}

impl Units {
    pub(super) fn of(spec: &ModelSpec, data: &[Dataset]) -> Self {
        let m = spec.observations.len();
        let column = |i: usize, data: &Dataset| -> Vec<f64> {
            let all = (0..data.len()).map(|row| data.output(row)[i]);
            all.filter(|v| v.is_finite()).collect()
        };
        let columns = |i: usize| data.iter().map(move |data| column(i, data));
        let levels: Vec<_> = (0..m).map(|i| root_mean_square(columns(i).flatten())).collect();
        let outputs: Vec<_> = (0..m)
            .map(|i| {
                let moves = |y: Vec<f64>| -> Vec<f64> {
                    y.windows(2).map(|pair| (pair[1] - pair[0]) * 0.5_f64.sqrt()).collect()
                };
                root_mean_square(columns(i).flat_map(moves)).or(levels[i])
            })
            .collect();
        let steps = data.iter().flat_map(|d| d.steps.iter().skip(1)).map(|step| step.dt);
        let per_time = spec.process_noise.as_ref().is_some_and(|noise| noise.per_time);
        let (sum, count) = steps.fold((0.0, 0), |(sum, count), dt| (sum + dt, count + 1));
        let step = if per_time { usable(sum / f64::from(count)).unwrap_or(spec.dt) } else { 1.0 };
        let states = sizes(spec, data, &outputs, &levels);
        Self { outputs, states, step }
    }

    /// The variance of a noise.
    fn variance(&self, target: Target) -> Option<f64> {
        let size = match target {
            Target::Measurement(i) => self.outputs[i]?.powi(2),
            Target::Process(i) => SHARE * self.states[i].0?.powi(2) / self.step,
            Target::Parameter(_) | Target::Mean(_) => return None,
        };
        usable(size)
    }

    /// Gives quantities the sizes that the rows tell.
    pub(super) fn scale(&self, quantities: &mut [Quantity]) {
        for q in quantities {
            q.scale = match q.target {
                Target::Mean(i) => self.states[i].1.unwrap_or(q.scale),
                target => self.variance(target).unwrap_or(q.scale),
            };
            if let (low, high) = q.bounds
                && low.is_finite()
                && high.is_finite()
            {
                q.scale = q.scale.min(high - low);
            }
        }
    }

    /// Where a search by what the rows tell begins; what they do not tell is as in `start`.
    pub(super) fn place(&self, quantities: &[Quantity], start: &[f64]) -> Vec<f64> {
        let place = |(q, &z): (&Quantity, &f64)| {
            let said = self.variance(q.target).filter(|v| q.bounds.0 < *v && *v < q.bounds.1);
            said.map_or(z, |v| q.place(v))
        };
        quantities.iter().zip(start).map(place).collect()
    }
}

/// d of every state for differences and for levels.
fn sizes(
    spec: &ModelSpec,
    data: &[Dataset],
    outputs: &[Option<f64>],
    levels: &[Option<f64>],
) -> Vec<(Option<f64>, Option<f64>)> {
    const WIDTH: usize = 4;
    let (n, m) = (spec.states.len(), spec.observations.len());
    let model = spec.compile();
    let mut out = vec![(None, None); n];
    let Some(data) = data.iter().find(|data| !data.is_empty()) else { return out };
    let rows = data.len().min(n + 1).min(MAX_ROWS);
    let (mut next, mut seen) = (vec![Dual::constant(0.0); n], vec![Dual::constant(0.0); m]);
    for first in (0..n).step_by(WIDTH) {
        let mut x: Vec<Dual<f64, WIDTH>> = (spec.initial_mean.iter().enumerate())
            .map(|(j, &v)| Dual::variable(v, j.wrapping_sub(first)))
            .collect();
        for row in 0..rows {
            let (u, step) = (data.input(row), &data.steps[row]);
            if row > 0 {
                model.transition(&x, u, step, &mut next);
                core::mem::swap(&mut x, &mut next);
            }
            model.observe(&x, u, step, &mut seen);
            for (i, seen) in seen.iter().enumerate() {
                for (d, slope) in seen.eps.iter().enumerate().take(n - first) {
                    let least = |now: Option<f64>, size: Option<f64>| {
                        let size = size.and_then(|size| usable(size / slope.abs()));
                        [now, size].into_iter().flatten().reduce(f64::min)
                    };
                    let (moves, level) = &mut out[first + d];
                    (*moves, *level) = (least(*moves, outputs[i]), least(*level, levels[i]));
                }
            }
        }
    }
    out
}

/// Uphill along the common factor of all open variances; `count` numbers are measured.
pub(super) fn stretched(
    quantities: &[Quantity],
    mut z: Vec<f64>,
    count: f64,
    f: &dyn Fn(&[f64]) -> Option<(f64, Vec<f64>)>,
) -> Option<(f64, Vec<f64>)> {
    let open: Vec<usize> =
        (0..z.len()).filter(|&i| quantities[i].is_open_variance() && z[i].is_finite()).collect();
    let (mut value, mut gradient) = f(&z)?;
    for _ in 0..STEPS {
        let slope: f64 = open.iter().map(|&i| gradient[i]).sum();
        let by = (1.0 + 2.0 * slope / count).max(LEAST_FACTOR).ln();
        if !by.is_finite() || by.abs() < 0.05 {
            break;
        }
        let mut moved = z.clone();
        open.iter().for_each(|&i| moved[i] += by);
        match f(&moved).filter(|(v, _)| *v > value) {
            Some(next) => (z, (value, gradient)) = (moved, next),
            None => break,
        }
    }
    Some((value, z))
}

/// The sizes of quantities; of parameters that start at zero, which says nothing of their size, a hundred standard errors by the
/// curvature there.
pub(super) fn sizes_of_zero(
    quantities: &[Quantity],
    places: &[Vec<f64>],
    f: &dyn Fn(&[f64]) -> Option<(f64, Vec<f64>)>,
) -> Vec<f64> {
    let size = |(i, q): (usize, &Quantity)| {
        let is_open = q.bounds == (f64::NEG_INFINITY, f64::INFINITY);
        let z = places.first().filter(|z| is_open && q.start == 0.0 && z[i] == 0.0)?;
        let mut step = 1e-4;
        for _ in 0..6 {
            let slope = |by: f64| {
                let mut z = z.clone();
                z[i] = by;
                f(&z).map(|(_, gradient)| gradient[i])
            };
            let error = usable((slope(-step)? - slope(step)?) / (2.0 * step))?.sqrt().recip();
            // Differences over about a standard error are above rounding and below what bends.
            if (0.01..1.0).contains(&(step / error)) {
                return usable(100.0 * error * q.scale);
            }
            step = 0.1 * error;
        }
        None
    };
    let all = quantities.iter().enumerate();
    all.map(|(i, q)| size((i, q)).unwrap_or(q.scale)).collect()
}

/// Places to climb from, the best one first: the file's, and where the rows tell of a better one, that.
pub(super) fn begin(
    quantities: &[Quantity],
    (units, start, count): (&Units, &[f64], f64),
    f: &dyn Fn(&[f64]) -> Option<(f64, Vec<f64>)>,
) -> Vec<Vec<f64>> {
    let from = |z: Vec<f64>| stretched(quantities, z, count, f);
    let (file, told) = (from(start.to_vec()), from(units.place(quantities, start)));
    match (file, told) {
        (Some((value, file)), Some((better, told))) if better > value => vec![told, file],
        (None, Some((_, told))) => vec![told],
        (Some((_, file)), _) => vec![file],
        (None, None) => Vec::new(),
    }
}

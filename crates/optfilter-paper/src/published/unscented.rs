//! The unscented Kalman filter of the published program.
//!
//! `lambda = 3 - n`, points `m` and `m +- sqrt(n + lambda) L_i` with the Cholesky factor `L`, weights `lambda / (n + lambda)` and
//! `1 / (2 (n + lambda))`, the same for mean and covariance, **all divided by n**. The points are drawn anew from the predicted moments
//! before the update. Q and R are added to the weighted sums undivided; update `m + G (y - z)`, `P - G S G'`.

use super::lanes::{Pairs, all};
use super::model::{Lorenz, Toy};
use super::quirks::Quirks;
use super::simulate::Data;
use super::symmetric::{self, Full, Symmetric};
use crate::systems::STEPS;
use optfilter::scalar::{Lanes, Scalar};
use optfilter::simd::{Kernel, dispatch};
use rayon::prelude::*;

const W_TOY: usize = 16;
const W_LORENZ: usize = 8;

/// Weights of the central and of the other points, for means and for covariances.
#[derive(Clone, Copy)]
struct Weights {
    spread: f64,
    mean: [f64; 2],
    cov: [f64; 2],
}

impl Weights {
    fn new(n: f64, quirks: &Quirks) -> Self {
        let lambda = 3.0 - n;
        let divisor = if quirks.ukf_weights_over_n { n } else { 1.0 };
        let central = lambda / (n + lambda);
        let other = 1.0 / (2.0 * (n + lambda));
        let extra = if quirks.ukf_central_weight_plain {
            0.0
        } else {
            3.0 - n // 1 - alpha^2 + beta with alpha = 1 and the text's beta = 3 - n
        };
        Self {
            spread: (n + lambda).sqrt(),
            mean: [central / divisor, other / divisor],
            cov: [(central + extra) / divisor, other / divisor],
        }
    }
}

struct ToyBlock<'a> {
    model: &'a Toy,
    data: &'a Data<1>,
    q_var: f64,
    r_var: f64,
    weights: Weights,
    first: usize,
}

impl ToyBlock<'_> {
    /// `record` sees the predicted and the updated mean of every step.
    #[inline(always)]
    fn run_recording(self, mut record: impl FnMut(Lanes<W_TOY>, Lanes<W_TOY>)) -> Lanes<W_TOY> {
        let w = self.weights;
        let lanes = Pairs::<W_TOY>::new(1, self.data.runs, self.first);
        let points = |m: Lanes<W_TOY>, p: Lanes<W_TOY>| {
            let d = p.sqrt().scale(w.spread);
            [m, m + d, m - d]
        };
        let mean = |v: &[Lanes<W_TOY>; 3]| {
            v[0].scale(w.mean[0]) + v[1].scale(w.mean[1]) + v[2].scale(w.mean[1])
        };
        let cov =
            |a: &[Lanes<W_TOY>; 3], ma: Lanes<W_TOY>, b: &[Lanes<W_TOY>; 3], mb: Lanes<W_TOY>| {
                ((a[0] - ma) * (b[0] - mb)).scale(w.cov[0])
                    + ((a[1] - ma) * (b[1] - mb)).scale(w.cov[1])
                    + ((a[2] - ma) * (b[2] - mb)).scale(w.cov[1])
            };
        let [mut x] = lanes.rows(&self.data.start, 0);
        let mut p = all(1.0);
        let mut sum = all(0.0);
        for t in 0..STEPS {
            let [y] = lanes.rows(&self.data.y, t);
            let mut moved = points(x, p);
            for v in &mut moved {
                *v = self.model.transition(*v, t);
            }
            let m = mean(&moved);
            let prior = cov(&moved, m, &moved, m) + all(self.q_var);
            let drawn = points(m, prior);
            let mut seen = drawn;
            for v in &mut seen {
                *v = Toy::measure(*v);
            }
            let z = mean(&seen);
            let s = cov(&seen, z, &seen, z) + all(self.r_var);
            let gain = cov(&drawn, m, &seen, z) / s;
            x = m + gain * (y - z);
            p = prior - gain * s * gain;
            record(m, x);
            let [truth] = lanes.rows(&self.data.x, t);
            let error = x - truth;
            sum += error * error;
        }
        (sum / all(STEPS as f64)).sqrt()
    }
}

impl Kernel for ToyBlock<'_> {
    type Output = Lanes<W_TOY>;
    #[inline(always)]
    fn run(self) -> Lanes<W_TOY> {
        self.run_recording(|_, _| {})
    }
}

/// Predicted and updated means of one run of the toy system, step by step.
pub fn toy_means(
    model: &Toy,
    data: &Data<1>,
    (q, r): (u32, u32),
    run: usize,
    quirks: &Quirks,
) -> Vec<(f64, f64)> {
    let mut out = Vec::with_capacity(STEPS);
    let block = ToyBlock {
        model,
        data,
        q_var: f64::from(q),
        r_var: f64::from(r),
        weights: Weights::new(1.0, quirks),
        first: run,
    };
    block.run_recording(|m, x| out.push((m.0[0], x.0[0])));
    out
}

/// RMSE of every run of the toy system.
pub fn toy(model: &Toy, data: &Data<1>, q: u32, r: u32, quirks: &Quirks) -> Vec<f64> {
    (0..data.runs.div_ceil(W_TOY))
        .flat_map(|block| {
            let first = block * W_TOY;
            let out = dispatch(ToyBlock {
                model,
                data,
                q_var: f64::from(q),
                r_var: f64::from(r),
                weights: Weights::new(1.0, quirks),
                first,
            });
            out.0.into_iter().take(data.runs - first)
        })
        .collect()
}

type Point = [Lanes<W_LORENZ>; 3];

#[inline(always)]
fn points(m: &Point, root: &Full<W_LORENZ>, spread: f64) -> [Point; 7] {
    let mut out = [*m; 7];
    for i in 0..3 {
        for c in 0..3 {
            let d = root[c][i].scale(spread);
            out[1 + i][c] = m[c] + d;
            out[4 + i][c] = m[c] - d;
        }
    }
    out
}

#[inline(always)]
fn mean(points: &[Point; 7], w: &Weights) -> Point {
    let mut out = points[0];
    for c in 0..3 {
        out[c] = points[0][c].scale(w.mean[0]);
        for point in &points[1..] {
            out[c] += point[c].scale(w.mean[1]);
        }
    }
    out
}

#[inline(always)]
fn deviations(points: &[Point; 7], m: &Point) -> [Point; 7] {
    let mut out = *points;
    for point in &mut out {
        for c in 0..3 {
            point[c] -= m[c];
        }
    }
    out
}

#[inline(always)]
fn covariance(deviations: &[Point; 7], w: &Weights) -> Symmetric<W_LORENZ> {
    let mut out = Symmetric::zero();
    for (i, d) in deviations.iter().enumerate() {
        out = out.add_outer(w.cov[usize::from(i > 0)], d);
    }
    out
}

struct LorenzBlock<'a> {
    model: Lorenz,
    data: &'a Data<3>,
    q_vars: &'a [f64],
    weights: Weights,
    first: usize,
}

impl Kernel for LorenzBlock<'_> {
    type Output = Lanes<W_LORENZ>;
    #[inline(always)]
    fn run(self) -> Lanes<W_LORENZ> {
        let w = &self.weights;
        let r_var = all(2.0);
        let lanes = Pairs::<W_LORENZ>::new(self.q_vars.len(), self.data.runs, self.first);
        let q_var = lanes.parameter(self.q_vars);
        let mut x = lanes.rows(&self.data.start, 0);
        let mut p = Symmetric::identity();
        let mut sum = all(0.0);
        for t in 0..STEPS {
            let y: [_; 3] = lanes.rows(&self.data.y, t);
            let mut moved = points(&x, &p.cholesky(), w.spread);
            for point in &mut moved {
                *point = self.model.step(point);
            }
            let m = mean(&moved, w);
            let prior = covariance(&deviations(&moved, &m), w).add_diagonal(q_var);
            let drawn = points(&m, &prior.cholesky(), w.spread);
            let z = mean(&drawn, w);
            let dx = deviations(&drawn, &m);
            let dz = deviations(&drawn, &z);
            let s = covariance(&dz, w).add_diagonal(r_var);
            let mut cross = [[all(0.0); 3]; 3];
            for i in 0..7 {
                let weight = w.cov[usize::from(i > 0)];
                for r in 0..3 {
                    for c in 0..3 {
                        cross[r][c] += (dx[i][r] * dz[i][c]).scale(weight);
                    }
                }
            }
            let inverse = s.inverse();
            let mut gain = cross;
            for r in 0..3 {
                for c in 0..3 {
                    gain[r][c] = cross[r][0] * inverse.get(0, c)
                        + cross[r][1] * inverse.get(1, c)
                        + cross[r][2] * inverse.get(2, c);
                }
            }
            let mut v = y;
            for c in 0..3 {
                v[c] = y[c] - z[c];
            }
            let correction = symmetric::apply(&gain, &v);
            let truth: [_; 3] = lanes.rows(&self.data.x, t);
            for c in 0..3 {
                x[c] = m[c] + correction[c];
                let error = x[c] - truth[c];
                sum += error * error;
            }
            p = prior.subtract(&s.congruence(&gain));
        }
        (sum / all((3 * STEPS) as f64)).sqrt()
    }
}

/// RMSE of every run of a Lorenz system for each process variance, run by run.
pub fn lorenz(model: Lorenz, data: &Data<3>, q_vars: &[f64], quirks: &Quirks) -> Vec<f64> {
    let pairs = q_vars.len() * data.runs;
    (0..pairs.div_ceil(W_LORENZ))
        .into_par_iter()
        .with_min_len(16)
        .flat_map_iter(|block| {
            let first = block * W_LORENZ;
            let out = dispatch(LorenzBlock {
                model,
                data,
                q_vars,
                weights: Weights::new(3.0, quirks),
                first,
            });
            out.0.into_iter().take(pairs - first)
        })
        .collect()
}

//! The extended and the iterated extended Kalman filter of the published program.
//!
//! Predict: `m = f(x)`, `P = F P F' + Q` with `F` at the *predicted* mean. Update, for `i = 1..K` with `H`, `S`, `G` at `x_{i-1}`, `x_0 = m`:
//! `x_i = m + G (y - h(x_{i-1}) - H (m - x_{i-1}))`; then `P - G S G'` with the last `G` and `S`. `K = 1` is the EKF.

use super::lanes::{Pairs, all};
use super::model::{Lorenz, Toy};
use super::quirks::Quirks;
use super::simulate::Data;
use super::symmetric::{self, Symmetric};
use crate::systems::STEPS;
use optfilter::scalar::{Lanes, Scalar};
use optfilter::simd::{Kernel, dispatch};
use rayon::prelude::*;

const W_TOY: usize = 16;
const W_LORENZ: usize = 8;

struct ToyBlock<'a> {
    model: &'a Toy,
    data: &'a Data<1>,
    q_var: f64,
    r_var: f64,
    iterations: u32,
    first: usize,
    quirks: &'a Quirks,
}

impl ToyBlock<'_> {
    /// `record` sees the predicted and the updated mean of every step.
    #[inline(always)]
    fn run_recording(self, mut record: impl FnMut(Lanes<W_TOY>, Lanes<W_TOY>)) -> Lanes<W_TOY> {
        let lanes = Pairs::<W_TOY>::new(1, self.data.runs, self.first);
        let [mut x] = lanes.rows(&self.data.start, 0);
        let mut p = all(1.0);
        let mut sum = all(0.0);
        for t in 0..STEPS {
            let [y] = lanes.rows(&self.data.y, t);
            let m = self.model.transition(x, t);
            let f = Toy::slope(if self.quirks.toy_jacobian_at_prediction { m } else { x });
            let prior = f * p * f + all(self.q_var);
            x = m;
            for _ in 0..self.iterations {
                let h = Toy::measure_slope(x);
                let s = h * prior * h + all(self.r_var);
                let gain = prior * h / s;
                x = m + gain * (y - Toy::measure(x) - h * (m - x));
                p = prior - gain * s * gain;
            }
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
        iterations: 1,
        first: run,
        quirks,
    };
    block.run_recording(|m, x| out.push((m.0[0], x.0[0])));
    out
}

/// RMSE of every run of the toy system.
pub fn toy(
    model: &Toy,
    data: &Data<1>,
    q: u32,
    r: u32,
    iterations: u32,
    quirks: &Quirks,
) -> Vec<f64> {
    (0..data.runs.div_ceil(W_TOY))
        .flat_map(|block| {
            let first = block * W_TOY;
            let out = dispatch(ToyBlock {
                model,
                data,
                q_var: f64::from(q),
                r_var: f64::from(r),
                iterations,
                first,
                quirks,
            });
            out.0.into_iter().take(data.runs - first)
        })
        .collect()
}

struct LorenzBlock<'a> {
    model: Lorenz,
    data: &'a Data<3>,
    q_vars: &'a [f64],
    iterations: u32,
    first: usize,
    quirks: &'a Quirks,
}

impl Kernel for LorenzBlock<'_> {
    type Output = Lanes<W_LORENZ>;
    #[inline(always)]
    fn run(self) -> Lanes<W_LORENZ> {
        let r_var = 2.0;
        let lanes = Pairs::<W_LORENZ>::new(self.q_vars.len(), self.data.runs, self.first);
        let q_var = lanes.parameter(self.q_vars);
        let mut x = lanes.rows(&self.data.start, 0);
        let mut p = Symmetric::identity();
        let mut sum = all(0.0);
        for t in 0..STEPS {
            let y: [_; 3] = lanes.rows(&self.data.y, t);
            let m = self.model.step(&x);
            let at = if self.quirks.lorenz_jacobian_at_prediction { &m } else { &x };
            let f = self.model.step_jacobian(at, self.quirks);
            let prior = p.congruence(&f).add_diagonal(q_var);
            // H = I, so that S and the gain are the same in every iteration.
            let s = prior.add_diagonal(all(r_var));
            let gain = symmetric::product(&prior, &s.inverse());
            x = m;
            for _ in 0..self.iterations {
                let mut v = x;
                for c in 0..3 {
                    v[c] = y[c] - x[c] - (m[c] - x[c]);
                }
                let moved = symmetric::apply(&gain, &v);
                for c in 0..3 {
                    x[c] = m[c] + moved[c];
                }
            }
            p = prior.subtract(&s.congruence(&gain));
            let truth: [_; 3] = lanes.rows(&self.data.x, t);
            for c in 0..3 {
                let error = x[c] - truth[c];
                sum += error * error;
            }
        }
        (sum / all((3 * STEPS) as f64)).sqrt()
    }
}

/// RMSE of every run of a Lorenz system for each process variance, run by run.
pub fn lorenz(
    model: Lorenz,
    data: &Data<3>,
    q_vars: &[f64],
    iterations: u32,
    quirks: &Quirks,
) -> Vec<f64> {
    let pairs = q_vars.len() * data.runs;
    (0..pairs.div_ceil(W_LORENZ))
        .into_par_iter()
        .with_min_len(16)
        .flat_map_iter(|block| {
            let first = block * W_LORENZ;
            let out = dispatch(LorenzBlock { model, data, q_vars, iterations, first, quirks });
            out.0.into_iter().take(pairs - first)
        })
        .collect()
}

//! Many series of a linear model at once: covariances once for all, means side by side.
//!
//! ```text
//! P, S and the gain G depend on the clock, the inputs and the gaps of a series, not on what was measured;
//! only  m <- f(m),  v = y - h(m),  m <- m + G v  are of the series itself.
//! ```
//!
//! So series with one clock walk over one graph of covariances. A node is a covariance before a row; which components of the
//! row are there leads to a node of the next row, made when somebody first goes there. Series with the same gaps go the same
//! way, and those with other gaps come back to it, since covariances forget (two that are equal to the bit are one node). The
//! means are lanes of a vector, each with the gain of its own node.
//!
//! A lane is, to the bit, what [`ExtendedKalmanFilter`] gives for its series alone: every number comes from the same operations in the
//! same order. Whoever asks promises that the model is linear in the state; derivatives are taken where the state is zero.
//!
//! Two walks, the second with a gap:
//!
//! ```
//! use nalgebra::{Dyn, dmatrix, dvector};
//! use optfilter::Series;
//! use optfilter::drive::Run;
//! use optfilter::filter::{CommonGain, ExtendedKalmanFilter, GaussianBelief};
//! use optfilter::model::{GaussianNoise, RandomWalk};
//! let filter = ExtendedKalmanFilter::new(RandomWalk::new(Dyn(1)), GaussianNoise::new(dmatrix![0.5], dmatrix![1.0])?);
//! let start = GaussianBelief::new(dvector![0.0], dmatrix![1.0])?;
//! let series = [Series::new(&[1.0, 2.0, 3.0], 1)?, Series::new(&[1.5, f64::NAN, 0.5], 1)?];
//! let mut together = vec![Vec::new(); 2];
//! CommonGain::new(&filter, series[0], start.cov.clone()).run::<8>(&[&[0.0], &[0.0]], &series, &mut |_, _, row| {
//!     for (lane, out) in together.iter_mut().enumerate() {
//!         let mut cov = [0.0];
//!         row.write_cov(lane, &mut cov);
//!         out.push((row.mean[0].0[lane], cov[0]));
//!     }
//! });
//! for (series, together) in series.iter().zip(&together) {
//!     let alone = filter.run(&mut start.clone(), series)?;
//!     let alone: Vec<(f64, f64)> = alone.means.into_iter().zip(alone.covs).collect();
//!     assert_eq!(&alone, together);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::extended::ExtendedKalmanFilter;
use super::gaussian::{
    GaussianBelief, GaussianMeasurement, LN_TAU, check_process_cov, conditioned, is_steep,
    propagated,
};
use super::lane_row::{LaneCovs, LaneRow, Together, is_sane};
use super::traits::Belief;
use crate::Shapes;
use crate::linalg::{Solver, product};
use crate::model::likelihood::{Observed, masked_cov};
use crate::model::stretch::{may_be_exact, measurement_cov, process_cov};
use crate::model::{Model, Noise, Step, linearize_observation, linearize_transition};
use crate::scalar::{Lanes, Scalar};
use crate::series::Series;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// Covariances that a row may have before they are too many to be worth sharing.
const MOST: usize = 256;

/// Ways of a row that are made without asking, and rows that each further one must serve.
const FREE: usize = 16;

/// Numbers that a graph may hold: 64 MiB.
const ROOM: usize = 1 << 23;

/// The graph of covariances of series that share a clock.
pub struct CommonGain<'a, M: Model, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    filter: &'a ExtendedKalmanFilter<M, Q>,
    clock: Series<'a>,
    /// By row.
    layers: Vec<Vec<Known<M::State, M::Output>>>,
    /// Ways so far.
    ways: usize,
    /// Rows of lanes so far.
    taken: usize,
}

/// What is known before a row.
struct Known<N: Dim, M: Dim>
where
    DefaultAllocator: Shapes<N, M>,
{
    /// P after the row before.
    cov: OMatrix<f64, N, N>,
    /// P before the measurement, once somebody has come here.
    predicted: Option<OMatrix<f64, N, N>>,
    /// By the components that were measured.
    learnt: Vec<(Vec<bool>, Learnt<N, M>)>,
}

/// What a row makes of it.
struct Learnt<N: Dim, M: Dim>
where
    DefaultAllocator: Shapes<N, M>,
{
    cov: OMatrix<f64, N, N>,
    /// S, NaN where nothing was measured.
    innovation_cov: OMatrix<f64, M, M>,
    /// `None` where nothing at all was measured.
    update: Option<Worth<N, M>>,
    next: usize,
}

/// How a measurement acts.
struct Worth<N: Dim, M: Dim>
where
    DefaultAllocator: Shapes<N, M>,
{
    gain: OMatrix<f64, N, M>,
    solver: Solver<f64, M>,
    /// Observed components times ln 2 pi.
    constant: f64,
    ln_det: f64,
}

impl<'a, M: Model, Q: Noise<M::State, M::Output>> CommonGain<'a, M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// For series with the times and inputs of `clock`, all from a covariance `cov`.
    pub fn new(
        filter: &'a ExtendedKalmanFilter<M, Q>,
        clock: Series<'a>,
        cov: OMatrix<f64, M::State, M::State>,
    ) -> Self {
        let mut layers: Vec<_> = (0..=clock.len()).map(|_| Vec::new()).collect();
        layers[0].push(Known { cov, predicted: None, learnt: Vec::new() });
        Self { filter, clock, layers, ways: 0, taken: 0 }
    }

    /// Runs up to `W` series that have [the clock](Series::same_clock), each from its own mean, and hands out their rows.
    #[inline(always)] // so that it can be part of a kernel for the vector unit at hand
    pub fn run<const W: usize>(
        &mut self,
        starts: &[&[f64]],
        series: &[Series<'_>],
        sink: &mut impl FnMut(usize, &Step, &LaneRow<'_, M::State, M::Output, W>),
    ) -> Together {
        let model = &self.filter.model;
        let (dim, outputs) = (model.state_dim(), model.output_dim());
        let (n, m) = (dim.value(), outputs.value());
        let fits = |s: &Series<'_>| s.same_clock(&self.clock) && s.output_dim() == m;
        let sized = starts.iter().all(|start| start.len() == n) && starts.len() == series.len();
        let some = (1..=W).contains(&series.len());
        if !some
            || !sized
            || !series.iter().all(fits)
            || self.clock.input_dim() != model.input_dim()
        {
            return Together::Apart;
        }
        if self.clock.len() * self.size() > ROOM {
            return Together::Crowded;
        }
        // Unused lanes repeat the first series.
        let of = |lane: usize| if lane < series.len() { lane } else { 0 };
        let mut x = OVector::<Lanes<W>, M::State>::from_element_generic(dim, U1, Lanes([0.0; W]));
        for lane in 0..W {
            for (i, &v) in starts[of(lane)].iter().enumerate() {
                x[i].0[lane] = v;
            }
        }
        let mut next = x.clone();
        let mut y =
            OVector::<Lanes<W>, M::Output>::from_element_generic(outputs, U1, Lanes([0.0; W]));
        let (mut v, mut room) = (y.clone(), y.clone());
        let mut mask = vec![true; m];
        // Where each lane is, and whether all are at one place.
        let (mut at, mut together) = ([(0, 0); W], true);
        let mut seen: [&[f64]; W] = [series[0].observations(); W];
        for (seen, series) in seen.iter_mut().zip(series) {
            *seen = series.observations();
        }
        for k in 0..self.clock.len() {
            let (step, u) = (self.clock.step(k), self.clock.input(k));
            if self.moves(k, &step) {
                self.filter.model.transition(x.as_slice(), u, &step, next.as_mut_slice());
                core::mem::swap(&mut x, &mut next);
                if !is_sane(x.as_slice()) {
                    return Together::Apart;
                }
            }
            let mut gaps = false;
            for lane in 0..W {
                for (i, &value) in seen[lane][k * m..][..m].iter().enumerate() {
                    y[i].0[lane] = value;
                }
            }
            for i in 0..m {
                gaps |= !Scalar::all_lt(y[i].abs(), Lanes([f64::INFINITY; W]));
            }
            let same = !gaps && together;
            mask.fill(true);
            for lane in 0..if same { 1 } else { W } {
                if gaps {
                    (0..m).for_each(|i| mask[i] = !y[i].0[lane].is_nan());
                }
                at[lane].1 = match self.go(k, at[lane].0, &mask, &step) {
                    Ok(way) => way,
                    Err(why) => return why,
                };
            }
            let layer = &self.layers[k];
            let taken = |(node, way): (usize, usize)| &layer[node].learnt[way].1;
            let mut learnt = [taken(at[0]); W];
            if !same {
                for lane in 0..W {
                    learnt[lane] = taken(at[lane]);
                }
            }
            let worth = |lane: usize| learnt[lane].update.as_ref();
            let (mut log_likelihood, mut nis) = (Lanes([0.0; W]), Lanes([f64::NAN; W]));
            if let Some(some) = (0..W).find_map(worth) {
                let model = &self.filter.model;
                model.observe(x.as_slice(), u, &step, v.as_mut_slice());
                for i in 0..m {
                    let difference = y[i] - v[i];
                    v[i] =
                        if model.is_angle(i) { difference.wrap(model.turn(i)) } else { difference };
                    for lane in 0..if gaps { W } else { 0 } {
                        if y[i].0[lane].is_nan() {
                            v[i].0[lane] = 0.0;
                        }
                    }
                }
                (nis, log_likelihood) = if same {
                    some.update(&x, &v, &mut next, &mut room)
                } else {
                    // What a lane without a measurement computes is thrown away.
                    let worths: [&Worth<M::State, M::Output>; W] =
                        core::array::from_fn(|lane| worth(lane).unwrap_or(some));
                    let (mean, square, log_density) = updated(&worths, &x, &v);
                    next = mean;
                    (square, log_density)
                };
                if !is_sane(next.as_slice()) || !v.iter().all(|v| v.is_finite()) {
                    return Together::Apart;
                }
                if log_likelihood.0.iter().any(|v| v.is_nan()) {
                    return Together::Apart;
                }
                for lane in 0..if gaps { W } else { 0 } {
                    if worth(lane).is_none() {
                        (0..n).for_each(|i| next[i].0[lane] = x[i].0[lane]);
                        (nis.0[lane], log_likelihood.0[lane]) = (f64::NAN, 0.0);
                    }
                }
                core::mem::swap(&mut x, &mut next);
            }
            if gaps {
                for i in 0..m {
                    v[i] = v[i].zip(y[i], |v, y| if y.is_nan() { f64::NAN } else { v });
                }
            }
            let (mean, innovation) = (x.as_slice(), v.as_slice());
            let covs = LaneCovs::Common(learnt.map(|l| (&l.cov, &l.innovation_cov)));
            sink(k, &step, &LaneRow { mean, innovation, log_likelihood, nis, covs });
            if same {
                at = [(learnt[0].next, 0); W];
            } else {
                for lane in 0..W {
                    at[lane].0 = learnt[lane].next;
                }
                together = at.iter().all(|&(node, _)| node == at[0].0);
            }
            self.taken += W;
        }
        Together::Done
    }

    /// Numbers that a way takes, with the node behind it and what the allocator adds.
    fn size(&self) -> usize {
        let (n, m) =
            (self.filter.model.state_dim().value(), self.filter.model.output_dim().value());
        3 * n * n + n * m + 3 * m * m + 64
    }

    fn moves(&self, k: usize, step: &Step) -> bool {
        self.clock.predicts(k) && step.dt != 0.0
    }

    /// The way that a row with these components takes from a node.
    #[inline(always)]
    fn go(&mut self, k: usize, node: usize, mask: &[bool], step: &Step) -> Result<usize, Together> {
        let known = &self.layers[k][node].learnt;
        match known.iter().position(|(gaps, _)| gaps == mask) {
            Some(way) => Ok(way),
            None => self.explore(k, node, mask, step),
        }
    }

    #[cold]
    #[inline(never)]
    fn explore(
        &mut self,
        k: usize,
        node: usize,
        mask: &[bool],
        step: &Step,
    ) -> Result<usize, Together> {
        // A way that few rows take costs more than it saves.
        let worth = FREE * self.clock.len() + self.taken / FREE;
        if (self.ways + 1) * self.size() > ROOM || self.ways > worth {
            return Err(Together::Crowded);
        }
        self.ways += 1;
        let predicted = match &self.layers[k][node].predicted {
            Some(cov) => cov.clone(),
            None => {
                let cov = self.predicted(k, &self.layers[k][node].cov, step)?;
                self.layers[k][node].predicted = Some(cov.clone());
                cov
            }
        };
        let mut learnt = self.learn(k, predicted, mask, step)?;
        let after = &mut self.layers[k + 1];
        learnt.next = match after.iter().position(|known| is_same(&known.cov, &learnt.cov)) {
            Some(next) => next,
            None if after.len() == MOST => return Err(Together::Crowded),
            None => {
                let cov = learnt.cov.clone();
                after.push(Known { cov, predicted: None, learnt: Vec::new() });
                after.len() - 1
            }
        };
        let ways = &mut self.layers[k][node].learnt;
        ways.push((mask.to_vec(), learnt));
        Ok(ways.len() - 1)
    }

    /// P before the measurement of row `k`.
    fn predicted(
        &self,
        k: usize,
        cov: &OMatrix<f64, M::State, M::State>,
        step: &Step,
    ) -> Result<OMatrix<f64, M::State, M::State>, Together> {
        if !self.moves(k, step) {
            return Ok(cov.clone());
        }
        let ExtendedKalmanFilter { model, noise } = self.filter;
        let (dim, u) = (model.state_dim(), self.clock.input(k));
        let zero = OVector::<f64, M::State>::zeros_generic(dim, U1);
        let q = process_cov(model, noise, u, step);
        check_process_cov(noise, &q, dim.value(), step.index).map_err(|_| Together::Apart)?;
        let (_, f) = linearize_transition(model, zero.as_slice(), u, step);
        sound(GaussianBelief { mean: zero, cov: propagated(cov, &f, q) })
    }

    fn learn(
        &self,
        k: usize,
        cov: OMatrix<f64, M::State, M::State>,
        mask: &[bool],
        step: &Step,
    ) -> Result<Learnt<M::State, M::Output>, Together> {
        let ExtendedKalmanFilter { model, noise } = self.filter;
        let (dim, outputs, u) = (model.state_dim(), model.output_dim(), self.clock.input(k));
        let m = outputs.value();
        let observed = if mask.contains(&false) { Observed::Some(mask) } else { Observed::All };
        let count = observed.count(m);
        if count == 0 {
            let innovation_cov = OMatrix::repeat_generic(outputs, outputs, f64::NAN);
            return Ok(Learnt { cov, innovation_cov, update: None, next: 0 });
        }
        let zero = OVector::<f64, M::State>::zeros_generic(dim, U1);
        let r = measurement_cov(model, noise, u, step);
        let (_, mut h) = linearize_observation(model, dim, zero.as_slice(), u, step);
        let measurement = GaussianMeasurement {
            residual: OVector::zeros_generic(outputs, U1),
            h: h.clone(),
            r: r.clone(),
            is_direct: model.is_identity(),
        };
        let belief = GaussianBelief { mean: zero, cov };
        let may_be_exact = may_be_exact(model, noise);
        let done = conditioned(&belief, measurement, may_be_exact, observed, step.index);
        let (after, update) = done.map_err(|_| Together::Apart)?;
        let mut s = update.innovation_cov.ok_or(Together::Apart)?;
        if is_steep(&s, &masked_cov(&r, observed)) {
            return Err(Together::Apart); // means are not moved by a gain alone
        }
        // As `condition` has them, which keeps neither.
        for i in 0..m {
            if !observed.has(i) {
                h.row_mut(i).fill(0.0);
            }
        }
        let solver = Solver::new(&s).ok_or(Together::Apart)?;
        let gain = solver.solve(&product(&h, &belief.cov)).transpose();
        let (constant, ln_det) = (count as f64 * LN_TAU, solver.ln_det());
        for i in 0..m {
            if !observed.has(i) {
                s.row_mut(i).fill(f64::NAN);
                s.column_mut(i).fill(f64::NAN);
            }
        }
        let update = Some(Worth { gain, solver, constant, ln_det });
        Ok(Learnt { cov: sound(after)?, innovation_cov: s, update, next: 0 })
    }
}

impl<N: Dim, M: Dim> Worth<N, M>
where
    DefaultAllocator: Shapes<N, M>,
{
    /// [`updated`] where it is that of every lane: the same operations, and no memory asked for.
    #[inline(always)]
    fn update<const W: usize>(
        &self,
        x: &OVector<Lanes<W>, N>,
        v: &OVector<Lanes<W>, M>,
        mean: &mut OVector<Lanes<W>, N>,
        room: &mut OVector<Lanes<W>, M>,
    ) -> (Lanes<W>, Lanes<W>) {
        for i in 0..x.nrows() {
            let mut shift = v[0].scale(self.gain[(i, 0)]);
            for k in 1..v.nrows() {
                shift += v[k].scale(self.gain[(i, k)]);
            }
            mean[i] = x[i] + shift;
        }
        let nis = self.solver.quadratic_forms(v, room);
        let of = |value: f64| Lanes([value; W]);
        (nis, (nis + of(self.constant) + of(self.ln_det)).scale(-0.5))
    }
}

/// The mean after a measurement, v' S^-1 v and ln N(v; 0, S), of every lane.
#[inline(always)]
fn updated<N: Dim, M: Dim, const W: usize>(
    worths: &[&Worth<N, M>; W],
    x: &OVector<Lanes<W>, N>,
    v: &OVector<Lanes<W>, M>,
) -> (OVector<Lanes<W>, N>, Lanes<W>, Lanes<W>)
where
    DefaultAllocator: Shapes<N, M>,
{
    let (n, m) = worths[0].gain.shape_generic();
    let lanes =
        |of: &dyn Fn(&Worth<N, M>) -> f64| Lanes(core::array::from_fn(|lane| of(worths[lane])));
    let gain = OMatrix::from_fn_generic(n, m, |i, j| lanes(&|worth| worth.gain[(i, j)]));
    let mean = x + product(&gain, v);
    let solvers: [&Solver<f64, M>; W] = core::array::from_fn(|lane| &worths[lane].solver);
    let nis = match Solver::side_by_side(&solvers) {
        Some(solver) => solver.quadratic_form(v),
        None => {
            Lanes(core::array::from_fn(|lane| solvers[lane].quadratic_form(&v.map(|v| v.0[lane]))))
        }
    };
    let sum = nis + lanes(&|worth| worth.constant) + lanes(&|worth| worth.ln_det);
    (mean, nis, sum.scale(-0.5))
}

/// Whether two covariances are one, to the bit.
fn is_same<N: Dim>(a: &OMatrix<f64, N, N>, b: &OMatrix<f64, N, N>) -> bool
where
    DefaultAllocator: nalgebra::allocator::Allocator<N, N>,
{
    a.iter().zip(b.iter()).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// The covariance of a belief without a flaw.
fn sound<N: Dim>(belief: GaussianBelief<N>) -> Result<OMatrix<f64, N, N>, Together>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
{
    if belief.flaw().is_some() { Err(Together::Apart) } else { Ok(belief.cov) }
}

#[cfg(test)]
mod tests;

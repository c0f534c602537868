//! The path of the highest posterior density through a series whose measurements do not scatter by a Gaussian.
//!
//! ```text
//! J(x) = 1/2 |x_1 - m|^2_P + 1/2 sum |x_{t+1} - f(x_t)|^2_Q - sum ln p(y_t | h(x_t))
//! ```
//!
//! Every pass is a smoother of Rauch, Tung and Striebel. Dynamics and observations are linearised along the path so far, and each loss
//! gives way to a square, of the slope g and a curvature c that it has there: the measurement eta - g / c with the variance 1 / c.
//! For Student's t and Huber's law c is the weight of robust regression, and the square lies nowhere below the loss: where the model
//! is linear J never rises (iteratively reweighted least squares). Counts and binary measurements have Fisher's information. There,
//! and where the model is not linear, a step that would raise J is halved until it does not, then tried with the curvature of a long
//! step.
//!
//! It ends where a pass gains next to nothing: at the best of all paths if the model is linear and no law is Student's t, else at one
//! that is better than its neighbours. The first pass takes every measurement for a good one, unless a path to start from is given.
//!
//! Directions without noise (of Q, of the start) are kept by the passes and not counted in J. Standard deviations are those of the
//! squares at the end.
//!
//! A level, and an outlier in its second row:
//!
//! ```
//! use nalgebra::{Const, matrix, vector};
//! use optfilter::filter::GaussianBelief;
//! use optfilter::model::likelihood::{Component, Independent, StudentT};
//! use optfilter::{Series, model::{GaussianNoise, RandomWalk}, most_likely::MostLikely};
//! let noise = GaussianNoise::new(matrix![0.1], matrix![1.0])?;
//! let laws = Independent::new(vec![Component::StudentT(StudentT::new(3.0, 0.5)?)]);
//! let start = GaussianBelief::new(vector![0.0], matrix![1.0])?;
//! let series = Series::new(&[1.0, 30.0, 1.2], 1)?;
//! let best = MostLikely::new(RandomWalk::new(Const::<1>), noise, laws)?.path(&start, &series, None, &|| false)?;
//! println!("{:.3?} after {} passes", best.beliefs.iter().map(|b| b.mean[0]).collect::<Vec<_>>(), best.passes);
//! assert!((best.beliefs[1].mean[0] - 0.953).abs() < 0.2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! References: Lange, Little and Taylor 1989; Fahrmeir and Kaufmann 1991; Bell 1994 (the iterated smoother is Gauss-Newton).

use crate::Shapes;
use crate::error::{FilterError, check_len};
use crate::filter::{Belief, GaussianBelief, GaussianMeasurement, condition, propagated};
use crate::linalg::{product, psd_factor};
use crate::model::likelihood::{Component, Independent, Likelihood, Observed};
use crate::model::stretch::{measurement_factors, process_cov, shrink};
use crate::model::{Model, Noise, Step, linearize_observation, linearize_transition};
use crate::optim::Bounds;
use crate::scalar::Scalar;
use crate::series::Series;
use crate::smoother::Joint;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// Passes after which a path is what it is.
const MAX_PASSES: u32 = 100;

/// A pass that gains less than this share of J is the last.
const ENOUGH: f64 = 1e-9;

/// A curvature that says nothing.
const FLAT: f64 = 1e-200;

/// What the best path through a series is looked for with.
#[derive(Clone, Debug)]
pub struct MostLikely<M, Q> {
    model: M,
    noise: Q,
    laws: Independent,
    bounds: Option<Bounds>,
}

/// The best path that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct BestPath<N: Dim>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
{
    /// The path, with the covariances of the squares at the end.
    pub beliefs: Vec<GaussianBelief<N>>,
    /// J after each pass, from that of the first path on.
    pub losses: Vec<f64>,
    /// Passes over the series, back and forth.
    pub passes: u32,
    /// Whether the last pass gained next to nothing.
    pub converged: bool,
}

impl<N: Dim> BestPath<N>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
{
    /// J: minus the logarithm of the posterior density, but for what does not depend on the path.
    pub fn loss(&self) -> f64 {
        self.losses.last().copied().unwrap_or(f64::NAN)
    }
}

/// Along what a pass takes its squares.
#[derive(Clone, Copy)]
enum Along<'a> {
    /// What the pass itself predicts; measurements count as good ones.
    Itself,
    /// A path (T x n), with the curvature of the step.
    Path(&'a [f64], Stride),
}

#[derive(Clone, Copy, PartialEq)]
enum Stride {
    Short,
    Long,
}

impl<M: Model, Q: Noise<M::State, M::Output>> MostLikely<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// Of a model, its process noise, and the law of each measured component.
    pub fn new(model: M, noise: Q, laws: Independent) -> Result<Self, FilterError> {
        check_len("likelihood", model.output_dim().value(), laws.components().len(), None)?;
        Ok(Self { model, noise, laws, bounds: None })
    }

    /// The path kept inside a box.
    pub fn with_bounds(mut self, bounds: Option<Bounds>) -> Result<Self, FilterError> {
        if let Some(bounds) = &bounds {
            check_len("bounds", self.model.state_dim().value(), bounds.dim(), None)?;
        }
        self.bounds = bounds;
        Ok(self)
    }

    /// The best path that is found from a path, or from none; `stop` ends it between two passes, with an empty "watch".
    pub fn path(
        &self,
        start: &GaussianBelief<M::State>,
        series: &Series<'_>,
        from: Option<&[f64]>,
        stop: &dyn Fn() -> bool,
    ) -> Result<BestPath<M::State>, FilterError> {
        let start = self.first(start, series)?;
        let (mut beliefs, mut path, mut passes) = match from {
            Some(path) => (Vec::new(), path.to_vec(), 0),
            None => {
                let beliefs = self.pass(&start, series, Along::Itself)?;
                let path = flat(&beliefs);
                (beliefs, path, 1)
            }
        };
        let mut losses = vec![self.loss_from(&start, series, &path)?];
        let mut converged = false;
        while passes < MAX_PASSES && !converged {
            if stop() {
                return Err(FilterError::Empty { argument: "watch" });
            }
            let before = losses[losses.len() - 1];
            let mut found = None;
            for stride in [Stride::Short, Stride::Long] {
                let next = self.pass(&start, series, Along::Path(&path, stride))?;
                passes += 1;
                if let Some(moved) = self.step(&start, series, (&path, before), &flat(&next))? {
                    found = Some((next, moved));
                    break;
                }
            }
            let Some((next, (moved, loss))) = found else {
                converged = true;
                break;
            };
            (beliefs, path) = (next, moved);
            losses.push(loss);
            converged = before - loss <= ENOUGH * (1.0 + loss.abs());
        }
        if beliefs.is_empty() || !self.laws.has_own_curvature() {
            beliefs = self.pass(&start, series, Along::Path(&path, Stride::Short))?;
            passes += 1;
        }
        let n = self.model.state_dim();
        for (belief, x) in beliefs.iter_mut().zip(path.chunks_exact(n.value())) {
            belief.mean = OVector::from_column_slice_generic(n, U1, x);
        }
        Ok(BestPath { beliefs, losses, passes, converged })
    }

    /// J of a path (T x n).
    pub fn loss(
        &self,
        start: &GaussianBelief<M::State>,
        series: &Series<'_>,
        path: &[f64],
    ) -> Result<f64, FilterError> {
        self.loss_from(&self.first(start, series)?, series, path)
    }

    /// The belief of the first row before it is measured.
    fn first(
        &self,
        start: &GaussianBelief<M::State>,
        series: &Series<'_>,
    ) -> Result<GaussianBelief<M::State>, FilterError> {
        if series.len() == 0 || !series.predicts(0) || series.step(0).dt == 0.0 {
            return Ok(start.clone());
        }
        let (u, step) = (series.input(0), series.step(0));
        let (mean, f) = linearize_transition(&self.model, start.mean.as_slice(), u, &step);
        let q = process_cov(&self.model, &self.noise, u, &step);
        Ok(GaussianBelief { mean, cov: propagated(&start.cov, &f, q) })
    }

    /// As far from a path towards another as J falls; `None` where it does nowhere.
    fn step(
        &self,
        start: &GaussianBelief<M::State>,
        series: &Series<'_>,
        (path, before): (&[f64], f64),
        towards: &[f64],
    ) -> Result<Option<(Vec<f64>, f64)>, FilterError> {
        let n = self.model.state_dim().value();
        let mut share = 1.0;
        while share > 1e-3 {
            let mut next = match share {
                1.0 => towards.to_vec(),
                _ => path.iter().zip(towards).map(|(a, b)| a + share * (b - a)).collect(),
            };
            if let Some(bounds) = &self.bounds {
                next.chunks_exact_mut(n).for_each(|x| bounds.project(x));
            }
            let loss = self.loss_from(start, series, &next)?;
            if loss <= before || (before.is_nan() && !loss.is_nan()) {
                return Ok(Some((next, loss)));
            }
            share *= 0.5;
        }
        Ok(None)
    }

    fn loss_from(
        &self,
        start: &GaussianBelief<M::State>,
        series: &Series<'_>,
        path: &[f64],
    ) -> Result<f64, FilterError> {
        let n = self.model.state_dim();
        let size = n.value();
        check_len("path", series.len() * size, path.len(), None)?;
        let mut sum = 0.0;
        let mut x = OVector::zeros_generic(n, U1);
        let mut eta = OVector::zeros_generic(self.model.output_dim(), U1);
        for k in 0..series.len() {
            let (here, u, step) = (&path[k * size..][..size], series.input(k), series.step(k));
            if k == 0 {
                sum += self.distance(here, start.mean.as_slice(), &start.cov, step.index)?;
            } else if series.predicts(k) && step.dt != 0.0 {
                let before = &path[(k - 1) * size..][..size];
                self.model.transition(before, u, &step, x.as_mut_slice());
                let q = process_cov(&self.model, &self.noise, u, &step);
                sum += self.distance(here, x.as_slice(), &q, step.index)?;
            }
            self.model.observe(here, u, &step, eta.as_mut_slice());
            let (mask, y) = self.measured(series.observation(k), eta.as_slice());
            let mut y = y;
            if let Some(factors) = measurement_factors(&self.model, u, &step) {
                shrink(&mut y, factors.as_slice());
                shrink(eta.as_mut_slice(), factors.as_slice());
            }
            sum += self.laws.loss(&y, eta.as_slice(), Observed::Some(&mask));
        }
        Ok(sum)
    }

    /// x less `from`, the short way round where states are angles.
    fn between(
        &self,
        x: &OVector<f64, M::State>,
        from: &OVector<f64, M::State>,
    ) -> OVector<f64, M::State> {
        let mut out = x - from;
        for i in 0..out.nrows() {
            if self.model.is_state_angle(i) {
                out[i] = out[i].wrap(self.model.state_turn(i));
            }
        }
        out
    }

    /// Half the squared distance of two states under a covariance, in the directions that it has.
    fn distance(
        &self,
        x: &[f64],
        from: &[f64],
        cov: &OMatrix<f64, M::State, M::State>,
        index: u64,
    ) -> Result<f64, FilterError> {
        let quantity = "process_cov (Q)";
        let l = psd_factor(cov)
            .ok_or(FilterError::NotPositiveDefinite { quantity, index: Some(index) })?;
        let mut z = vec![0.0; x.len()];
        for i in 0..x.len() {
            let mut v = x[i] - from[i];
            if self.model.is_state_angle(i) {
                v = v.wrap(self.model.state_turn(i));
            }
            for k in 0..i {
                v -= l[(i, k)] * z[k];
            }
            z[i] = if l[(i, i)] > 0.0 { v / l[(i, i)] } else { 0.0 };
        }
        Ok(0.5 * z.iter().map(|z| z * z).sum::<f64>())
    }

    /// Which components are measured, and the measurements on the turn of what is expected.
    fn measured(&self, y: &[f64], eta: &[f64]) -> (Vec<bool>, Vec<f64>) {
        let on_turn = |(i, y): (usize, &f64)| match self.model.is_angle(i) && !y.is_nan() {
            true => eta[i] + (y - eta[i]).wrap(self.model.turn(i)),
            false => *y,
        };
        (y.iter().map(|v| !v.is_nan()).collect(), y.iter().enumerate().map(on_turn).collect())
    }

    /// One pass forth and back.
    fn pass(
        &self,
        start: &GaussianBelief<M::State>,
        series: &Series<'_>,
        along: Along<'_>,
    ) -> Result<Vec<GaussianBelief<M::State>>, FilterError> {
        let size = self.model.state_dim().value();
        let at = |k: usize, mean: &OVector<f64, M::State>| match along {
            Along::Itself => mean.clone(),
            Along::Path(path, _) => OVector::from_column_slice_generic(
                mean.shape_generic().0,
                U1,
                &path[k * size..][..size],
            ),
        };
        let mut beliefs: Vec<GaussianBelief<M::State>> = Vec::with_capacity(series.len());
        let mut joints = Vec::with_capacity(series.len());
        for k in 0..series.len() {
            let (u, step) = (series.input(k), series.step(k));
            let (belief, joint) = match beliefs.last() {
                None => (start.clone(), None),
                Some(last) if series.predicts(k) && step.dt != 0.0 => {
                    let place = at(k - 1, &last.mean);
                    let (value, f) = linearize_transition(&self.model, place.as_slice(), u, &step);
                    let mean = value + product(&f, &self.between(&last.mean, &place));
                    let q = process_cov(&self.model, &self.noise, u, &step);
                    let cov = propagated(&last.cov, &f, q.clone());
                    let predicted = GaussianBelief { mean, cov };
                    let joint = Joint::linear(last, predicted.clone(), &f, q, step.index)?;
                    (predicted, Some(joint))
                }
                Some(last) => (last.clone(), None),
            };
            let place = at(k, &belief.mean);
            beliefs.push(self.taken(belief, &place, along, series.observation(k), u, &step)?);
            joints.push(joint);
        }
        let turn = |i| self.model.is_state_angle(i).then(|| self.model.state_turn(i));
        for k in (1..beliefs.len()).rev() {
            let step = series.step(k);
            beliefs[k - 1] = match &joints[k] {
                Some(joint) => joint.smoothed(&beliefs[k - 1], &beliefs[k], turn, step.index)?,
                None => beliefs[k].clone(),
            };
            if beliefs[k - 1].flaw().is_some() {
                let (index, quantity) = (step.index, "smoothed estimate");
                let last_good = beliefs[k].mean.as_slice().to_vec();
                return Err(FilterError::Diverged { index, quantity, last_good });
            }
        }
        Ok(beliefs)
    }

    /// A belief after the squares of a row's losses at a place.
    fn taken(
        &self,
        belief: GaussianBelief<M::State>,
        place: &OVector<f64, M::State>,
        along: Along<'_>,
        y: &[f64],
        u: &[f64],
        step: &Step,
    ) -> Result<GaussianBelief<M::State>, FilterError> {
        if y.iter().all(|v| v.is_nan()) {
            return Ok(belief);
        }
        let (n, m) = (self.model.state_dim(), y.len());
        let (mut eta, h) = linearize_observation(&self.model, n, place.as_slice(), u, step);
        let (mut mask, mut y) = self.measured(y, eta.as_slice());
        let factors = measurement_factors(&self.model, u, step);
        if let Some(factors) = &factors {
            shrink(&mut y, factors.as_slice());
            shrink(eta.as_mut_slice(), factors.as_slice());
        }
        let ones = vec![1.0; m];
        let (mut slopes, mut bends) = (vec![0.0; m], vec![0.0; m]);
        let observed = Observed::Some(&mask);
        let values = eta.as_slice();
        self.laws.score(&y, values, observed, &mut slopes);
        match along {
            Along::Path(_, Stride::Long) => {
                self.laws.steady_curvature(&y, values, observed, &ones, &mut bends);
            }
            Along::Path(_, Stride::Short) => {
                self.laws.curvature(&y, values, observed, &ones, &mut bends);
            }
            Along::Itself => {
                // A good measurement is where it is expected.
                let mut good = values.to_vec();
                for (i, law) in self.laws.components().iter().enumerate() {
                    if law.is_robust() {
                        good[i] = y[i];
                    }
                }
                self.laws.curvature(&y, &good, observed, &ones, &mut bends);
                for (i, law) in self.laws.components().iter().enumerate() {
                    if law.is_robust() && mask[i] {
                        slopes[i] = bends[i] * (values[i] - y[i]);
                    }
                }
            }
        }
        let mut residual = OVector::zeros_generic(eta.shape_generic().0, U1);
        let shift = product(&h, &self.between(&belief.mean, place));
        let mut variances = residual.clone();
        for i in 0..m {
            mask[i] &= bends[i] > FLAT && bends[i].is_finite();
            if mask[i] {
                let unit = factors.as_ref().map_or(1.0, |factors| factors[i]);
                residual[i] = -unit * slopes[i] / bends[i] - shift[i];
                variances[i] = unit * unit / bends[i];
            }
        }
        let r = OMatrix::from_diagonal(&variances);
        let mut measurement = GaussianMeasurement { residual, h, r, is_direct: false };
        let done = condition(&belief.mean, &belief.cov, &mut measurement, Observed::Some(&mask));
        let index = Some(step.index);
        let quantity = "innovation covariance";
        let done = done.ok_or(FilterError::NotPositiveDefinite { quantity, index })?;
        Ok(GaussianBelief { mean: done.mean, cov: done.cov })
    }
}

/// Whether a path that fits better than its neighbours is the best of all, where the model is linear.
pub fn has_one_hill(laws: &[Component]) -> bool {
    laws.iter().all(Component::is_log_concave)
}

/// The means of beliefs, one after the other.
fn flat<N: Dim>(beliefs: &[GaussianBelief<N>]) -> Vec<f64>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
{
    beliefs.iter().flat_map(|belief| belief.mean.iter().copied()).collect()
}

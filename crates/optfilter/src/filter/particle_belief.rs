//! Weighted samples of the state: the belief of a particle filter.
//!
//! Particles are kept in groups of sixteen, component by component, so that a group goes through a model
//! as lanes. Weights are kept as logarithms, normalised; a particle whose likelihood is zero or not a
//! number weighs nothing.

use super::gaussian::GaussianBelief;
use super::resampling::{Scheme, resample};
use super::spread::Spread;
use super::traits::{Belief, is_sane};
use crate::error::{FilterError, check_len, check_square};
use crate::linalg::psd_factor;
use crate::optim::{Bounds, reflect};
use crate::rng::{Stream, fast};
use crate::scalar::{Lanes, Scalar};
use crate::simd::dispatch;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};
use serde::{Deserialize, Serialize};

/// Particles that go through the model at once.
pub(super) const LANES: usize = 16;

/// Weighted samples of the state, and the stream of their random numbers.
///
/// Means and covariances are those of the numbers as they are, but for states that are angles: theirs are taken around the
/// mean direction, from deviations of no more than half a turn. Which states are angles, the filter's model says with the first step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ParticleBelief<N: Dim> {
    pub(super) count: usize,
    pub(super) dim: usize,
    /// Groups of sixteen particles: for each group, for each component, one number per particle.
    /// Shared by the beliefs before and after an update, which moves none of them.
    #[serde(with = "shared")]
    pub(super) values: Arc<Vec<f64>>,
    /// Normalised log-weights; minus infinity in the unused lanes of the last group.
    pub(super) log_weights: Vec<f64>,
    /// Their exponentials.
    pub(super) weights: Vec<f64>,
    /// Whether all weights are equal, as after resampling.
    pub(super) even: bool,
    pub(super) stream: Stream,
    /// How long a whole turn of each component is, 0 for one that is no angle; empty where none is.
    pub(super) turns: Vec<f64>,
    #[serde(skip)]
    size: PhantomData<N>,
}

impl<N: Dim> ParticleBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// `count` equally weighted draws from a Gaussian.
    pub fn new(
        start: &GaussianBelief<N>,
        count: usize,
        stream: Stream,
    ) -> Result<Self, FilterError> {
        check_square("initial cov", start.mean.nrows(), &start.cov, None)?;
        Self::draw(&start.mean, psd_factor(&start.cov).map(Spread::Lower), count, stream)
    }

    /// `count` equally weighted draws from a Gaussian of independent components, without a covariance matrix.
    pub fn independent(
        mean: &OVector<f64, N>,
        variances: &[f64],
        count: usize,
        stream: Stream,
    ) -> Result<Self, FilterError> {
        check_len("initial cov", mean.nrows(), variances.len(), None)?;
        Self::draw(mean, Spread::each(variances), count, stream)
    }

    fn draw(
        mean: &OVector<f64, N>,
        spread: Option<Spread<N>>,
        count: usize,
        mut stream: Stream,
    ) -> Result<Self, FilterError> {
        if count == 0 {
            return Err(FilterError::Zero { argument: "particles" });
        }
        let Some(spread) = spread else {
            return Err(FilterError::NotPositiveDefinite { quantity: "initial cov", index: None });
        };
        let dim = mean.nrows();
        let groups = count.div_ceil(LANES);
        let mut values = vec![0.0; groups * dim * LANES];
        stream.fill_normal(&mut values);
        for g in 0..groups {
            // From the last component up: each needs the numbers above it as they were drawn.
            for i in (0..dim).rev() {
                let x = spread.thrown(Lanes([mean[i]; LANES]), i, |j| load(&values, g * dim + j));
                store(&mut values, g * dim + i, x);
            }
        }
        let none = Self {
            count,
            dim,
            values: Arc::default(),
            log_weights: vec![],
            weights: vec![0.0; groups * LANES],
            even: true,
            stream: stream.clone(),
            turns: vec![],
            size: PhantomData,
        };
        Ok(none.moved_to(values, stream, true))
    }

    /// The number of particles.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Component `component` of particle `index`.
    pub fn value(&self, index: usize, component: usize) -> f64 {
        self.values[((index / LANES) * self.dim + component) * LANES + index % LANES]
    }

    /// The normalised weights.
    pub fn weights(&self) -> &[f64] {
        &self.weights[..self.count]
    }

    /// The effective sample size 1 / sum w_i^2, between 1 and the number of particles.
    pub fn effective_count(&self) -> f64 {
        1.0 / self.weights().iter().map(|w| w * w).sum::<f64>()
    }

    /// Whose offspring each lane is after resampling; unused lanes of the last group are the first
    /// particle's, so that no model sees garbage. `stream` is left where the draw left it.
    pub(super) fn parents(&self, scheme: Scheme, stream: &mut Stream) -> Vec<usize> {
        let mut parents = resample(scheme, &self.weights[..self.count], stream);
        parents.resize(self.weights.len(), 0);
        parents
    }

    /// The same number of particles elsewhere: with equal weights, or with those they had.
    pub(super) fn moved_to(&self, values: Vec<f64>, stream: Stream, even: bool) -> Self {
        let (count, dim, size) = (self.count, self.dim, PhantomData);
        let (log_weights, weights) = if even {
            let (weight, lanes) = (1.0 / count as f64, self.weights.len());
            let mut log_weights = vec![Scalar::ln(weight); lanes];
            let mut weights = vec![weight; lanes];
            log_weights[count..].fill(f64::NEG_INFINITY);
            weights[count..].fill(0.0);
            (log_weights, weights)
        } else {
            (self.log_weights.clone(), self.weights.clone())
        };
        let (values, even, turns) = (Arc::new(values), even || self.even, self.turns.clone());
        Self { count, dim, values, log_weights, weights, even, stream, turns, size }
    }

    /// The same particles with these log-weights, not yet normalised and so without weights.
    pub(super) fn weighed(&self, log_weights: Vec<f64>) -> Self {
        Self {
            values: Arc::clone(&self.values),
            weights: Vec::new(),
            log_weights,
            even: false,
            stream: self.stream.clone(),
            turns: self.turns.clone(),
            ..*self
        }
    }

    /// The length of a whole turn of a component that is an angle.
    fn turn(&self, component: usize) -> Option<f64> {
        self.turns.get(component).copied().filter(|turn| *turn > 0.0)
    }

    /// sum w f(x) over a component of the particles.
    #[inline(always)]
    fn sum(&self, component: usize, f: impl Fn(Lanes<LANES>) -> Lanes<LANES>) -> f64 {
        let mut sum = Lanes([0.0; LANES]);
        for g in 0..self.weights.len() / LANES {
            sum += load(&self.weights, g) * f(load(&self.values, g * self.dim + component));
        }
        sum.0.iter().sum()
    }

    /// The mean of an angle: c + sum w wrap(x - c) around the mean direction c = arg sum w exp(i x), in the turn that is
    /// nearest to the mean of the numbers.
    fn mean_angle(&self, component: usize, turn: f64, plain: f64) -> f64 {
        let radians = core::f64::consts::TAU / turn;
        let sin = self.sum(component, |x| x.scale(radians).sin());
        let cos = self.sum(component, |x| x.scale(radians).cos());
        let centre = Scalar::atan2(sin, cos) / radians;
        let centre = plain + (centre - plain).wrap(turn);
        let around = Lanes([centre; LANES]);
        centre + self.sum(component, |x| (x - around).wrap(turn))
    }

    /// x - mean, by no more than half a turn for an angle.
    #[inline(always)]
    fn deviation(&self, group: usize, component: usize, mean: f64) -> Lanes<LANES> {
        let plain = load(&self.values, group * self.dim + component) - Lanes([mean; LANES]);
        match self.turn(component) {
            Some(turn) => plain.wrap(turn),
            None => plain,
        }
    }

    /// Takes particles that left the finite numbers, or every sane range of them, out of the sums: they weigh nothing and stand where
    /// another stands. `false` if none is left.
    #[cold]
    pub(super) fn drop_lost(&mut self) -> bool {
        let dim = self.dim;
        let at = |index: usize, i: usize| ((index / LANES) * dim + i) * LANES + index % LANES;
        let is_good = |values: &[f64], k| (0..dim).all(|i| is_sane(&[values[at(k, i)]]));
        let spare = (0..self.count).find(|&k| self.weights[k] > 0.0 && is_good(&self.values, k));
        let Some(spare) = spare else { return false };
        let mut lighter = false;
        let values = Arc::make_mut(&mut self.values);
        for index in 0..self.weights.len() {
            if !is_good(values, index) {
                for i in 0..dim {
                    values[at(index, i)] = values[at(spare, i)];
                }
                // Unused lanes weigh nothing as it is, and must not show.
                lighter |= self.weights[index] > 0.0;
                self.log_weights[index] = f64::NEG_INFINITY;
            }
        }
        if !lighter {
            return true;
        }
        self.even = false;
        self.normalize().is_some()
    }

    /// Normalises the log-weights; returns the logarithm of their sum, or `None` if that is not finite.
    pub(super) fn normalize(&mut self) -> Option<f64> {
        let mut largest = Lanes([f64::NEG_INFINITY; LANES]);
        let groups = self.log_weights.len() / LANES;
        self.weights.clear();
        self.weights.reserve_exact(groups * LANES);
        let total = dispatch(
            #[inline(always)]
            || {
                for g in 0..groups {
                    largest = largest.max(load(&self.log_weights, g));
                }
                let top =
                    largest.0.iter().fold(f64::NEG_INFINITY, |a, &b| if b > a { b } else { a });
                let mut sum = Lanes([0.0; LANES]);
                for g in 0..groups {
                    let w = load(&self.log_weights, g).map(|l| fast::exp(l - top));
                    sum += w;
                    self.weights.extend_from_slice(&w.0);
                }
                let sum: f64 = sum.0.iter().sum();
                let inverse = 1.0 / sum;
                let total = top + Scalar::ln(sum);
                for g in 0..groups {
                    let w = load(&self.weights, g).scale(inverse);
                    store(&mut self.weights, g, w);
                    let l = load(&self.log_weights, g).map(|l| l - total);
                    store(&mut self.log_weights, g, l);
                }
                total
            },
        );
        total.is_finite().then_some(total)
    }
}

/// Writes and reads shared numbers as what they are.
mod shared {
    use super::{Arc, Vec};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        values: &Arc<Vec<f64>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        values.as_slice().serialize(to)
    }
    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Arc<Vec<f64>>, D::Error> {
        Vec::deserialize(from).map(Arc::new)
    }
}

#[inline(always)]
pub(super) fn load(values: &[f64], k: usize) -> Lanes<LANES> {
    let mut out = [0.0; LANES];
    out.copy_from_slice(&values[k * LANES..(k + 1) * LANES]);
    Lanes(out)
}

#[inline(always)]
pub(super) fn store(values: &mut [f64], k: usize, v: Lanes<LANES>) {
    values[k * LANES..(k + 1) * LANES].copy_from_slice(&v.0);
}

impl<N: Dim> Belief<N> for ParticleBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    const HAS_COV: bool = true;
    fn mean(&self) -> OVector<f64, N> {
        let mut mean = OVector::zeros_generic(N::from_usize(self.dim), U1);
        for i in 0..self.dim {
            let plain = self.sum(i, |x| x);
            mean[i] = self.turn(i).map_or(plain, |turn| self.mean_angle(i, turn, plain));
        }
        mean
    }

    fn cov(&self) -> Option<OMatrix<f64, N, N>> {
        let n = N::from_usize(self.dim);
        let mean = self.mean();
        let mut cov = OMatrix::zeros_generic(n, n);
        for i in 0..self.dim {
            for j in 0..=i {
                let mut sum = Lanes([0.0; LANES]);
                for g in 0..self.weights.len() / LANES {
                    let (a, b) = (self.deviation(g, i, mean[i]), self.deviation(g, j, mean[j]));
                    sum += load(&self.weights, g) * a * b;
                }
                cov[(i, j)] = sum.0.iter().sum();
                cov[(j, i)] = cov[(i, j)];
            }
        }
        Some(cov)
    }

    fn check_dim(&self, n: usize, index: u64) -> Result<(), FilterError> {
        if !self.turns.is_empty() {
            check_len("particles' turns", n, self.turns.len(), Some(index))?;
        }
        let lanes = self.count.div_ceil(LANES).saturating_mul(LANES);
        check_len("particles' state", n, self.dim, Some(index))?;
        check_len("particles' weights", lanes.max(1), self.weights.len(), Some(index))?;
        check_len("particles' log-weights", lanes, self.log_weights.len(), Some(index))?;
        check_len("particles' values", lanes.saturating_mul(n), self.values.len(), Some(index))
    }

    fn is_within(&self, bounds: &Bounds) -> bool {
        let groups = self.values.chunks_exact(self.dim * LANES);
        let side = |i| bounds.sides(i).unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        groups.flat_map(|group| group.chunks_exact(LANES).enumerate()).all(|(i, values)| {
            let (low, high) = side(i);
            !values.iter().any(|v| *v < low || *v > high)
        })
    }

    /// Every particle reflected at the sides it went through.
    fn confine(&mut self, bounds: &Bounds) {
        if self.is_within(bounds) {
            return; // and shares its numbers with the belief before
        }
        let dim = self.dim;
        for group in Arc::make_mut(&mut self.values).chunks_exact_mut(dim * LANES) {
            for (i, values) in group.chunks_exact_mut(LANES).enumerate() {
                let Some(sides) = bounds.sides(i) else { continue };
                values.iter_mut().for_each(|v| *v = reflect(*v, sides));
            }
        }
    }

    fn flaw(&self) -> Option<&'static str> {
        (!is_sane(self.mean().as_slice())).then_some("mean")
    }
}

//! The bootstrap particle filter: weighted samples, moved by the dynamics, weighed by the likelihood.
//!
//! ```text
//! predict   (resample if due)   x_i <- f(x_i) + q_i,   q_i ~ N(0, Q)
//! update    ln w_i <- ln w_i - loss(y, h(x_i)),  normalised;   estimate = sum w_i x_i
//! ```
//!
//! The log-likelihood of a measurement is ln sum w_i p(y | x_i) with the weights before it. Resampling
//! waits for the next predict, so estimates use all the information in the weights. Sixteen particles
//! go through the model at once as lanes; weights are kept as logarithms.
//!
//! References: Gordon, Salmond and Smith 1993; Doucet, de Freitas and Gordon 2001.

use super::implicit_map::check_possible;
use super::resampling::{Scheme, resample};
use super::{Belief, Filter, FilterError, GaussianBelief, Update};
use super::{check_inputs, check_len, check_measurement, check_square, residual, with_observed};
use crate::Shapes;
use crate::linalg::{Solver, psd_factor};
use crate::model::likelihood::{Likelihood, Observed, masked_cov};
use crate::model::{Model, Noise, Step};
use crate::rng::{Stream, fast};
use crate::scalar::{Lanes, Scalar};
use crate::simd::dispatch;
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};
use serde::{Deserialize, Serialize};

/// Particles that go through the model at once.
const LANES: usize = 16;

/// When to resample, and how.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Resampling {
    /// After every measurement.
    Always(Scheme),
    /// When the effective sample size 1 / sum w_i^2 falls below this fraction of the particles.
    Below(Scheme, f64),
}

/// The bootstrap particle filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Particle<M, L, Q> {
    model: M,
    likelihood: L,
    noise: Q,
    resampling: Resampling,
}

impl<M: Model, L: Likelihood, Q: Noise<M::State, M::Output>> Particle<M, L, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// From a model, a likelihood and noise. Of the noise, Q moves the particles; R enters only the
    /// innovation covariance that updates report.
    pub fn new(
        model: M,
        likelihood: L,
        noise: Q,
        resampling: Resampling,
    ) -> Result<Self, FilterError> {
        if let Resampling::Below(_, fraction) = resampling
            && !(0.0..=1.0).contains(&fraction)
        {
            let (argument, requirement) = ("resampling threshold", "between 0 and 1");
            return Err(FilterError::Setting { argument, value: fraction, requirement });
        }
        if let Some(dim) = likelihood.dim() {
            check_len("likelihood", model.output_dim().value(), dim, None)?;
        }
        Ok(Self { model, likelihood, noise, resampling })
    }
}

/// Weighted samples of the state, and the stream of their random numbers.
///
/// Means and covariances are those of the numbers as they are: a state that is an angle and wraps inside its
/// own dynamics should be averaged by the caller, from the particles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ParticleBelief<N: Dim> {
    count: usize,
    dim: usize,
    /// Groups of sixteen particles: for each group, for each component, one number per particle.
    values: Vec<f64>,
    /// Normalised log-weights; minus infinity in the unused lanes of the last group.
    log_weights: Vec<f64>,
    /// Their exponentials.
    weights: Vec<f64>,
    /// Whether all weights are equal, as after resampling.
    even: bool,
    stream: Stream,
    #[serde(skip)]
    normals: Vec<f64>,
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
        mut stream: Stream,
    ) -> Result<Self, FilterError> {
        if count == 0 {
            return Err(FilterError::Zero { argument: "particles" });
        }
        check_square("initial cov", start.mean.nrows(), &start.cov, None)?;
        let Some(factor) = psd_factor(&start.cov) else {
            return Err(FilterError::NotPositiveDefinite { quantity: "initial cov", index: None });
        };
        let dim = start.mean.nrows();
        let groups = count.div_ceil(LANES);
        let mut normals = vec![0.0; groups * dim * LANES];
        stream.fill_normal(&mut normals);
        let mut values = vec![0.0; groups * dim * LANES];
        for g in 0..groups {
            for i in 0..dim {
                let mut x = Lanes([start.mean[i]; LANES]);
                for j in 0..=i {
                    x += load(&normals, g * dim + j).scale(factor[(i, j)]);
                }
                store(&mut values, g * dim + i, x);
            }
        }
        let mut belief = Self {
            count,
            dim,
            values,
            log_weights: vec![0.0; groups * LANES],
            weights: vec![0.0; groups * LANES],
            even: true,
            stream,
            normals,
            size: PhantomData,
        };
        belief.even_weights();
        Ok(belief)
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

    fn even_weights(&mut self) {
        let (weight, count) = (1.0 / self.count as f64, self.count);
        self.log_weights.fill(f64::NEG_INFINITY);
        self.weights.fill(0.0);
        self.log_weights[..count].fill(Scalar::ln(weight));
        self.weights[..count].fill(weight);
        self.even = true;
    }

    /// Replaces the particles by offspring of equal weight.
    fn resample(&mut self, scheme: Scheme) {
        let parents = resample(scheme, &self.weights[..self.count], &mut self.stream);
        let old = core::mem::take(&mut self.values);
        let mut new = core::mem::take(&mut self.normals);
        new.resize(old.len(), 0.0);
        let dim = self.dim;
        let groups = new.chunks_exact_mut(dim * LANES).zip(parents.chunks(LANES));
        for (group, parents) in groups {
            for (lane, &parent) in parents.iter().enumerate() {
                let from = &old[(parent / LANES) * dim * LANES..][..dim * LANES];
                for i in 0..dim {
                    group[i * LANES + lane] = from[i * LANES + parent % LANES];
                }
            }
        }
        // Unused lanes of the last group keep some particle's value, so that no model sees garbage.
        for index in self.count..self.weights.len() {
            let to = (index / LANES) * dim * LANES + index % LANES;
            for i in 0..dim {
                new[to + i * LANES] = old[i * LANES];
            }
        }
        self.values = new;
        self.normals = old;
        self.even_weights();
    }
}

#[inline(always)]
fn load(values: &[f64], k: usize) -> Lanes<LANES> {
    let mut out = [0.0; LANES];
    out.copy_from_slice(&values[k * LANES..(k + 1) * LANES]);
    Lanes(out)
}

#[inline(always)]
fn store(values: &mut [f64], k: usize, v: Lanes<LANES>) {
    values[k * LANES..(k + 1) * LANES].copy_from_slice(&v.0);
}

impl<N: Dim> Belief<N> for ParticleBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    fn mean(&self) -> OVector<f64, N> {
        let mut mean = OVector::zeros_generic(N::from_usize(self.dim), U1);
        for i in 0..self.dim {
            let mut sum = Lanes([0.0; LANES]);
            for g in 0..self.weights.len() / LANES {
                sum += load(&self.weights, g) * load(&self.values, g * self.dim + i);
            }
            mean[i] = sum.0.iter().sum();
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
                    let a = load(&self.values, g * self.dim + i) - Lanes([mean[i]; LANES]);
                    let b = load(&self.values, g * self.dim + j) - Lanes([mean[j]; LANES]);
                    sum += load(&self.weights, g) * a * b;
                }
                cov[(i, j)] = sum.0.iter().sum();
                cov[(j, i)] = cov[(i, j)];
            }
        }
        Some(cov)
    }
}

impl<M: Model, L: Likelihood, Q: Noise<M::State, M::Output>> Filter for Particle<M, L, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = ParticleBelief<M::State>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        (self.model.state_dim(), self.model.output_dim(), self.model.input_dim())
    }

    fn predict(
        &self,
        belief: &mut Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<(), FilterError> {
        let n = self.model.state_dim();
        check_inputs(self.model.input_dim(), u, step)?;
        check_len("particles' state", n.value(), belief.dim, Some(step.index))?;
        if !belief.even {
            match self.resampling {
                Resampling::Always(scheme) => belief.resample(scheme),
                Resampling::Below(scheme, fraction) => {
                    if belief.effective_count() < fraction * belief.count as f64 {
                        belief.resample(scheme);
                    }
                }
            }
        }
        let q = self.noise.process_cov(step);
        check_square("process_cov (Q)", n.value(), &q, Some(step.index))?;
        let Some(factor) = psd_factor(&q) else {
            return Err(FilterError::NotPositiveDefinite {
                quantity: "process_cov (Q)",
                index: Some(step.index),
            });
        };
        belief.normals.resize(belief.values.len(), 0.0);
        belief.stream.fill_normal(&mut belief.normals);
        let (values, normals) = (&mut belief.values, &belief.normals);
        dispatch(
            #[inline(always)]
            || {
                let dim = n.value();
                let zeros = || {
                    OVector::<Lanes<LANES>, M::State>::from_element_generic(
                        n,
                        U1,
                        Lanes([0.0; LANES]),
                    )
                };
                let (mut x, mut next) = (zeros(), zeros());
                for g in 0..values.len() / (LANES * dim) {
                    for i in 0..dim {
                        x[i] = load(values, g * dim + i);
                    }
                    self.model.transition(x.as_slice(), u, step, next.as_mut_slice());
                    for i in 0..dim {
                        let mut moved = next[i];
                        for j in 0..=i {
                            moved += load(normals, g * dim + j).scale(factor[(i, j)]);
                        }
                        store(values, g * dim + i, moved);
                    }
                }
            },
        );
        Ok(())
    }

    fn update(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        u: &[f64],
        step: &Step,
    ) -> Result<Update<M::Output>, FilterError> {
        let m = self.model.output_dim();
        check_measurement(m.value(), self.model.input_dim(), y, u, step)?;
        check_len(
            "particles' state",
            self.model.state_dim().value(),
            belief.dim,
            Some(step.index),
        )?;
        let r = self.noise.measurement_cov(step);
        check_square("measurement_cov (R)", m.value(), &r, Some(step.index))?;
        with_observed(m, y, |observed| {
            if observed.count(y.len()) == 0 {
                return Ok(Update::nothing(m, true));
            }
            check_possible(&self.likelihood, y, observed, step)?;
            let seen = dispatch(
                #[inline(always)]
                || self.weigh(belief, y, u, step, observed),
            );
            let Some(total) = normalize(belief) else {
                // Weights are left even, so that a caller may go on from the unweighted particles.
                belief.even_weights();
                let last_good = belief.mean().as_slice().to_vec();
                return Err(FilterError::Diverged {
                    index: step.index,
                    quantity: "sum of the weights",
                    last_good,
                });
            };
            let log_likelihood = total - self.likelihood.log_normalizer(y, observed);
            self.report(y, observed, step, seen, r, log_likelihood)
        })
    }
}

/// First and second moments of h over the weighted particles.
struct SeenMoments<M: Dim>
where
    DefaultAllocator: Allocator<M> + Allocator<M, M>,
{
    mean: OVector<f64, M>,
    cov: OMatrix<f64, M, M>,
}

impl<M: Model, L: Likelihood, Q: Noise<M::State, M::Output>> Particle<M, L, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// Subtracts each particle's loss from its log-weight, and gathers the moments of h before that.
    #[inline(always)]
    fn weigh(
        &self,
        belief: &mut ParticleBelief<M::State>,
        y: &[f64],
        u: &[f64],
        step: &Step,
        observed: Observed<'_>,
    ) -> SeenMoments<M::Output> {
        let (n, m) = (self.model.state_dim(), self.model.output_dim());
        let dim = n.value();
        let zero = Lanes([0.0; LANES]);
        let mut x = OVector::<Lanes<LANES>, M::State>::from_element_generic(n, U1, zero);
        let mut eta = OVector::<Lanes<LANES>, M::Output>::from_element_generic(m, U1, zero);
        let mut measured = eta.clone();
        // Deviations from the first particle's h keep the second moments free of cancellation.
        let mut origin = OVector::<f64, M::Output>::zeros_generic(m, U1);
        let mut sums = eta.clone();
        let mut squares =
            OMatrix::<Lanes<LANES>, M::Output, M::Output>::from_element_generic(m, m, zero);
        for g in 0..belief.weights.len() / LANES {
            for i in 0..dim {
                x[i] = load(&belief.values, g * dim + i);
            }
            self.model.observe(x.as_slice(), u, step, eta.as_mut_slice());
            let weights = load(&belief.weights, g);
            for i in 0..m.value() {
                if g == 0 {
                    origin[i] = eta[i].0[0];
                }
                measured[i] = Lanes([y[i]; LANES]);
                if self.model.is_angle(i) {
                    measured[i] = eta[i] + (measured[i] - eta[i]).wrap_angle();
                }
                let mut deviation = eta[i] - Lanes([origin[i]; LANES]);
                if self.model.is_angle(i) {
                    deviation = deviation.wrap_angle();
                }
                let weighted = weights * deviation;
                sums[i] += weighted;
                for j in 0..=i {
                    let mut other = eta[j] - Lanes([origin[j]; LANES]);
                    if self.model.is_angle(j) {
                        other = other.wrap_angle();
                    }
                    squares[(i, j)] += weighted * other;
                }
            }
            let loss = self.likelihood.loss(measured.as_slice(), eta.as_slice(), observed);
            let lighter = load(&belief.log_weights, g) - loss;
            store(&mut belief.log_weights, g, lighter);
        }
        belief.even = false;
        let mut mean = origin.clone();
        let mut cov = OMatrix::<f64, M::Output, M::Output>::zeros_generic(m, m);
        let total = |v: &Lanes<LANES>| v.0.iter().sum::<f64>();
        for i in 0..m.value() {
            mean[i] += total(&sums[i]);
            for j in 0..=i {
                cov[(i, j)] = total(&squares[(i, j)]) - total(&sums[i]) * total(&sums[j]);
                cov[(j, i)] = cov[(i, j)];
            }
        }
        SeenMoments { mean, cov }
    }

    /// The innovation with its covariance Cov(h) + R.
    fn report(
        &self,
        y: &[f64],
        observed: Observed<'_>,
        step: &Step,
        seen: SeenMoments<M::Output>,
        r: OMatrix<f64, M::Output, M::Output>,
        log_likelihood: f64,
    ) -> Result<Update<M::Output>, FilterError> {
        let innovation = residual(&self.model, y, &seen.mean, observed);
        let mut s = seen.cov + r;
        if observed != Observed::All {
            s = masked_cov(&s, observed);
        }
        let Some(factor) = Solver::new(&s) else {
            return Err(FilterError::NotPositiveDefinite {
                quantity: "innovation covariance",
                index: Some(step.index),
            });
        };
        let nis = factor.quadratic_form(&innovation);
        let count = observed.count(y.len());
        Ok(Update {
            innovation,
            innovation_cov: Some(s),
            log_likelihood: Some(log_likelihood),
            nis: Some(nis),
            observed: count,
        })
    }
}

/// Normalises the log-weights; returns the logarithm of their sum, or `None` if that is not finite.
fn normalize<N: Dim>(belief: &mut ParticleBelief<N>) -> Option<f64> {
    let mut largest = Lanes([f64::NEG_INFINITY; LANES]);
    let groups = belief.weights.len() / LANES;
    let total = dispatch(
        #[inline(always)]
        || {
            for g in 0..groups {
                largest = largest.max(load(&belief.log_weights, g));
            }
            let top = largest.0.iter().fold(f64::NEG_INFINITY, |a, &b| if b > a { b } else { a });
            let mut sum = Lanes([0.0; LANES]);
            for g in 0..groups {
                let w = load(&belief.log_weights, g).map(|l| fast::exp(l - top));
                sum += w;
                store(&mut belief.weights, g, w);
            }
            let sum: f64 = sum.0.iter().sum();
            let inverse = 1.0 / sum;
            let total = top + Scalar::ln(sum);
            for g in 0..groups {
                let w = load(&belief.weights, g).scale(inverse);
                store(&mut belief.weights, g, w);
                let l = load(&belief.log_weights, g).map(|l| l - total);
                store(&mut belief.log_weights, g, l);
            }
            total
        },
    );
    total.is_finite().then_some(total)
}

//! The bootstrap particle filter: weighted samples, moved by the dynamics, weighed by the likelihood.
//!
//! ```text
//! predict   (resample if due)   x_i <- f(x_i) + q_i,   q_i ~ N(0, Q)
//! update    ln w_i <- ln w_i - loss(y, h(x_i)),  normalised;   estimate = sum w_i x_i, of angles around their mean direction
//! ```
//!
//! The log-likelihood of a measurement is ln sum w_i p(y | x_i) with the weights before it. Resampling
//! waits for the next predict, so estimates use all the information in the weights. Sixteen particles
//! go through the model at once as lanes; weights are kept as logarithms.
//!
//! On a random walk the exact answer is the Kalman filter's, and samples come close to it:
//!
//! ```
//! use nalgebra::{Const, matrix, vector};
//! use optfilter::filter::{Belief, GaussianBelief, ParticleFilter, ParticleBelief, Resampling, Scheme};
//! use optfilter::model::{GaussianNoise, RandomWalk, likelihood::SquaredError};
//! use optfilter::{Series, drive::Run, rng::Stream};
//! let noise = GaussianNoise::new(matrix![0.5], matrix![1.0])?;
//! let resampling = Resampling::Below(Scheme::Systematic, 0.5);
//! let filter = ParticleFilter::new(RandomWalk::new(Const::<1>), SquaredError, noise, resampling)?;
//! let start = GaussianBelief::new(vector![0.0], matrix![1.0])?;
//! let mut belief = ParticleBelief::new(&start, 20_000, Stream::new(1, 0, "example"))?;
//! let series = Series::new(&[1.2, 1.9, 3.3], 1)?.predict_first();
//! let log_likelihood = filter.run(&mut belief, &series)?.log_likelihood().unwrap_or(f64::NAN);
//! println!("{:.3}, log-likelihood {log_likelihood:.3}", belief.mean()[0]);
//! assert!((belief.mean()[0] - 2.33058824).abs() < 0.03); // filterpy 2.0, KalmanFilter
//! assert!((log_likelihood + 5.50889105).abs() < 0.03);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! References: Gordon, Salmond and Smith 1993; Doucet, de Freitas and Gordon 2001.

use super::gaussian::not_positive_definite;
use super::particle_belief::{LANES, ParticleBelief, load, store};
use super::point::check_possible;
use super::resampling::Scheme;
use super::spread::Spread;
use super::traits::{Filter, LARGEST, Update, residual};
use crate::Shapes;
use crate::error::{FilterError, check_len, check_square};
use crate::linalg::{Solver, psd_factor};
use crate::model::likelihood::{Likelihood, Observed, masked_cov};
use crate::model::stretch::{measurement_cov, measurement_factors, shrink};
use crate::model::{Model, Noise, Step};
use crate::scalar::{Lanes, Scalar};
use crate::simd::dispatch;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};
use serde::{Deserialize, Serialize};

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
pub struct ParticleFilter<M, L, Q> {
    model: M,
    likelihood: L,
    noise: Q,
    resampling: Resampling,
}

impl<M: Model, L: Likelihood, Q: Noise<M::State, M::Output>> ParticleFilter<M, L, Q>
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

impl<M: Model, L: Likelihood, Q: Noise<M::State, M::Output>> Filter for ParticleFilter<M, L, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = ParticleBelief<M::State>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        (self.model.state_dim(), self.model.output_dim(), self.model.input_dim())
    }

    fn propagate(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError> {
        let lower = |q: &OMatrix<_, _, _>| psd_factor(q).map(Spread::Lower);
        let Some(spread) = Spread::of_step((&self.model, &self.noise), lower, u, step)? else {
            return Err(not_positive_definite("process_cov (Q)", step.index));
        };
        let mut stream = belief.stream.clone();
        let due = match self.resampling {
            _ if belief.even => None,
            Resampling::Always(scheme) => Some(scheme),
            Resampling::Below(scheme, fraction) => {
                (belief.effective_count() < fraction * belief.count as f64).then_some(scheme)
            }
        };
        let parents = due.map(|scheme| belief.parents(scheme, &mut stream));
        // The noise first; every particle is then written over its own.
        let mut values = vec![0.0; belief.values.len()];
        stream.fill_normal(&mut values);
        let all_sane = dispatch(
            #[inline(always)]
            || self.move_all(&belief.values, parents.as_deref(), &mut values, &spread, u, step),
        );
        let mut next = belief.moved_to(values, stream, parents.is_some());
        next.turns = self.turns();
        if !all_sane && !next.drop_lost() {
            let quantity = "every particle";
            return Err(FilterError::Diverged { index: step.index, quantity, last_good: vec![] });
        }
        Ok(next)
    }

    fn correct(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(Self::Belief, Update<M::Output>), FilterError> {
        let r = measurement_cov(&self.model, &self.noise, u, step);
        check_square("measurement_cov (R)", y.len(), &r, Some(step.index))?;
        check_possible(&self.likelihood, y, observed, step)?;
        let mut log_weights = belief.log_weights.clone();
        let (seen, all_sane) = dispatch(
            #[inline(always)]
            || self.weigh(belief, &mut log_weights, y, u, step, observed),
        );
        let mut next = belief.weighed(log_weights);
        next.turns = self.turns();
        let total = next.normalize();
        // Particles that a start or a checkpoint put where nothing is measured.
        let sound = all_sane || next.drop_lost();
        let Some(total) = total.filter(|_| sound) else {
            let quantity = "sum of the weights";
            return Err(FilterError::Diverged { index: step.index, quantity, last_good: vec![] });
        };
        let mut log_likelihood = total - self.likelihood.log_normalizer(y, observed);
        if let Some(factors) = self.stretch(u, step) {
            log_likelihood -=
                observed.indices(y.len()).map(|i| Scalar::ln(factors[i])).sum::<f64>();
        }
        let update = self.report(y, observed, step, seen, r, log_likelihood)?;
        Ok((next, update))
    }

    /// Both kernels leave particles of sane values with weights that sum to one, and so a sane mean.
    #[inline(always)]
    fn flaw(&self, _belief: &Self::Belief) -> Option<&'static str> {
        None
    }
}

/// The marks, and one more for every lane whose number is not of a size below the limit. Marks are looked at once for many numbers:
/// bringing lanes together costs more than comparing them.
#[inline(always)]
fn unless_below(v: Lanes<LANES>, limit: f64, marks: Lanes<LANES>) -> Lanes<LANES> {
    Scalar::select_lt(v.abs(), Lanes([limit; LANES]), marks, Lanes([1.0; LANES]))
}

/// First and second moments of the expected measurement over the weighted particles, and the mean of the variances
/// that the likelihood has of its own.
struct SeenMoments<M: Dim>
where
    DefaultAllocator: Allocator<M> + Allocator<M, M>,
{
    mean: OVector<f64, M>,
    cov: OMatrix<f64, M, M>,
    own: Option<OVector<f64, M>>,
}

impl<M: Model, L: Likelihood, Q: Noise<M::State, M::Output>> ParticleFilter<M, L, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// How long a whole turn of each state is, 0 for one that is no angle; empty where none is.
    fn turns(&self) -> alloc::vec::Vec<f64> {
        let (model, n) = (&self.model, self.model.state_dim().value());
        let turn = |i| if model.is_state_angle(i) { model.state_turn(i) } else { 0.0 };
        if (0..n).any(|i| model.is_state_angle(i)) { (0..n).map(turn).collect() } else { vec![] }
    }

    /// The factors on the likelihood's scale in a row.
    #[inline(always)]
    fn stretch(&self, u: &[f64], step: &Step) -> Option<OVector<f64, M::Output>> {
        measurement_factors(&self.model, u, step).filter(|_| self.likelihood.has_scale())
    }

    /// Moves every particle (or the parent it comes from) by the dynamics and by the noise that `values` holds,
    /// into `values`; whether all stay numbers that measure something.
    #[inline(always)]
    fn move_all(
        &self,
        from: &[f64],
        parents: Option<&[usize]>,
        values: &mut [f64],
        spread: &Spread<M::State>,
        u: &[f64],
        step: &Step,
    ) -> bool {
        let n = self.model.state_dim();
        let dim = n.value();
        let zero = Lanes([0.0; LANES]);
        let mut x = OVector::<Lanes<LANES>, M::State>::from_element_generic(n, U1, zero);
        let (mut next, mut noise) = (x.clone(), x.clone());
        let mut astray = zero;
        let parent = |k: usize| parents.map_or(k, |parents| parents[k]);
        let points = || states(from, dim, (0..values.len() / dim).map(parent));
        let many = self.model.transition_many(&points, u, step);
        for g in 0..values.len() / (LANES * dim) {
            match parents {
                None => (0..dim).for_each(|i| x[i] = load(from, g * dim + i)),
                Some(parents) => {
                    let parents = &parents[g * LANES..(g + 1) * LANES];
                    for (lane, &parent) in parents.iter().enumerate() {
                        let group = &from[(parent / LANES) * dim * LANES..][..dim * LANES];
                        for i in 0..dim {
                            x[i].0[lane] = group[i * LANES + parent % LANES];
                        }
                    }
                }
            }
            match &many {
                Some(many) => fill_lanes(many, g, next.as_mut_slice()),
                None => self.model.transition(x.as_slice(), u, step, next.as_mut_slice()),
            }
            for i in 0..dim {
                noise[i] = load(values, g * dim + i);
            }
            for i in 0..dim {
                let moved = spread.thrown(next[i], i, |j| noise[j]);
                astray = unless_below(moved, LARGEST, astray);
                store(values, g * dim + i, moved);
            }
        }
        astray == zero
    }

    /// h of every particle, one after the other.
    #[inline(never)]
    fn seen(&self, belief: &ParticleBelief<M::State>, u: &[f64], step: &Step) -> Vec<f64> {
        let (n, m) = (self.model.state_dim().value(), self.model.output_dim().value());
        let mut etas = vec![0.0; belief.weights.len() * m];
        let points = states(&belief.values, n, 0..belief.weights.len());
        for (x, eta) in points.chunks_exact(n).zip(etas.chunks_exact_mut(m)) {
            self.model.observe(x, u, step, eta);
        }
        etas
    }

    /// The loss of every particle, of a likelihood that is asked once for all.
    #[inline(never)]
    fn losses(&self, etas: &[f64], y: &[f64]) -> Vec<f64> {
        let mut out = vec![f64::NAN; etas.len() / y.len().max(1)];
        self.likelihood.losses(y, etas, &mut out);
        out
    }

    /// Subtracts each particle's loss from its log-weight, and gathers the moments of h before that; also
    /// whether all particles are numbers that measure something.
    #[inline(always)]
    fn weigh(
        &self,
        belief: &ParticleBelief<M::State>,
        log_weights: &mut [f64],
        y: &[f64],
        u: &[f64],
        step: &Step,
        observed: Observed<'_>,
    ) -> (SeenMoments<M::Output>, bool) {
        let (n, m) = (self.model.state_dim(), self.model.output_dim());
        let dim = n.value();
        let zero = Lanes([0.0; LANES]);
        let mut x = OVector::<Lanes<LANES>, M::State>::from_element_generic(n, U1, zero);
        let mut eta = OVector::<Lanes<LANES>, M::Output>::from_element_generic(m, U1, zero);
        let (mut measured, mut expected) = (eta.clone(), eta.clone());
        let (mut variances, mut own_sums, mut own) = (eta.clone(), eta.clone(), false);
        // Deviations from the first particle's h keep the second moments free of cancellation; those of angles are taken from
        // their mean direction, so that no particle is on the wrong side of the circle.
        let mut origin = OVector::<f64, M::Output>::zeros_generic(m, U1);
        let mut sums = eta.clone();
        let mut squares =
            OMatrix::<Lanes<LANES>, M::Output, M::Output>::from_element_generic(m, m, zero);
        let mut lost = 0.0;
        let mut astray = zero;
        let points = || states(&belief.values, dim, 0..belief.weights.len());
        let many = self.model.observe_many(&points, u, step);
        let stretch = self.stretch(u, step);
        let losses = self.likelihood.wants_many().then(|| {
            let etas = match &many {
                Some(many) => many.clone(),
                None => self.seen(belief, u, step),
            };
            self.losses(&etas, y)
        });
        let turned = (0..m.value()).any(|i| self.model.is_angle(i));
        if turned {
            self.directions(belief, many.as_deref(), u, step, &mut origin);
        }
        for g in 0..belief.weights.len() / LANES {
            for i in 0..dim {
                x[i] = load(&belief.values, g * dim + i);
                astray = unless_below(x[i], LARGEST, astray);
            }
            match &many {
                Some(many) => fill_lanes(many, g, eta.as_mut_slice()),
                None => self.model.observe(x.as_slice(), u, step, eta.as_mut_slice()),
            }
            expected.copy_from(&eta);
            self.likelihood.expect(expected.as_mut_slice());
            let mut weights = load(&belief.weights, g);
            // No iterator: one over two vectors is a function of its own, compiled for no particular vector unit.
            let mut unseen = zero;
            for i in 0..m.value() {
                unseen = unless_below(eta[i], f64::INFINITY, unseen);
                unseen = unless_below(expected[i], f64::INFINITY, unseen);
            }
            if unseen != zero {
                let marks = &mut log_weights[g * LANES..(g + 1) * LANES];
                lost += set_aside(
                    &mut weights,
                    marks,
                    [&mut eta, &mut expected].map(|v| v.as_mut_slice()),
                );
            }
            own = self.likelihood.variances(expected.as_slice(), variances.as_mut_slice());
            if let Some(factors) = &stretch {
                for (v, f) in variances.iter_mut().zip(factors.iter()) {
                    *v = v.scale(f * f);
                }
            }
            for i in 0..m.value() {
                if g == 0 && !self.model.is_angle(i) {
                    origin[i] = expected[i].0[0];
                }
                measured[i] = Lanes([y[i]; LANES]);
                if self.model.is_angle(i) {
                    measured[i] = eta[i] + (measured[i] - eta[i]).wrap(self.model.turn(i));
                }
                let mut deviation = expected[i] - Lanes([origin[i]; LANES]);
                if self.model.is_angle(i) {
                    deviation = deviation.wrap(self.model.turn(i));
                }
                let weighted = weights * deviation;
                sums[i] += weighted;
                if own {
                    own_sums[i] += weights * variances[i];
                }
                for j in 0..=i {
                    let mut other = expected[j] - Lanes([origin[j]; LANES]);
                    if self.model.is_angle(j) {
                        other = other.wrap(self.model.turn(j));
                    }
                    squares[(i, j)] += weighted * other;
                }
            }
            if let Some(factors) = &stretch {
                shrink(measured.as_mut_slice(), factors.as_slice());
                shrink(eta.as_mut_slice(), factors.as_slice());
            }
            let loss = match &losses {
                Some(losses) => load(losses, g),
                None => self.likelihood.loss(measured.as_slice(), eta.as_slice(), observed),
            };
            // What was set aside, and a loss that is not a number, weigh nothing.
            let nothing = Lanes([f64::NEG_INFINITY; LANES]);
            let lighter = load(log_weights, g) - loss;
            let lighter = Scalar::select_lt(nothing, lighter, lighter, nothing);
            store(log_weights, g, lighter);
        }
        let mut mean = origin.clone();
        let mut cov = OMatrix::<f64, M::Output, M::Output>::zeros_generic(m, m);
        let share = if lost > 0.0 { 1.0 / (1.0 - lost) } else { 1.0 };
        let total = |v: &Lanes<LANES>| v.0.iter().sum::<f64>() * share;
        for i in 0..m.value() {
            mean[i] += total(&sums[i]);
            for j in 0..=i {
                cov[(i, j)] = total(&squares[(i, j)]) - total(&sums[i]) * total(&sums[j]);
                cov[(j, i)] = cov[(i, j)];
            }
        }
        let own = own.then(|| own_sums.map(|v| total(&v)));
        (SeenMoments { mean, cov, own }, astray == zero)
    }

    /// The mean direction of each expected measurement that is an angle: arg sum w exp(i h).
    fn directions(
        &self,
        belief: &ParticleBelief<M::State>,
        many: Option<&[f64]>,
        u: &[f64],
        step: &Step,
        out: &mut OVector<f64, M::Output>,
    ) {
        let (n, m) = (self.model.state_dim(), self.model.output_dim());
        let zero = Lanes([0.0; LANES]);
        let mut x = OVector::<Lanes<LANES>, M::State>::from_element_generic(n, U1, zero);
        let mut eta = OVector::<Lanes<LANES>, M::Output>::from_element_generic(m, U1, zero);
        let (mut sin, mut cos) = (out.clone(), out.clone());
        for g in 0..belief.weights.len() / LANES {
            for i in 0..n.value() {
                x[i] = load(&belief.values, g * n.value() + i);
            }
            match many {
                Some(many) => fill_lanes(many, g, eta.as_mut_slice()),
                None => self.model.observe(x.as_slice(), u, step, eta.as_mut_slice()),
            }
            self.likelihood.expect(eta.as_mut_slice());
            let weights = load(&belief.weights, g);
            for i in (0..m.value()).filter(|&i| self.model.is_angle(i)) {
                let radians = core::f64::consts::TAU / self.model.turn(i);
                for (h, weight) in eta[i].0.iter().zip(weights.0).filter(|(h, _)| h.is_finite()) {
                    sin[i] += weight * Scalar::sin(h * radians);
                    cos[i] += weight * Scalar::cos(h * radians);
                }
            }
        }
        for i in (0..m.value()).filter(|&i| self.model.is_angle(i)) {
            out[i] = Scalar::atan2(sin[i], cos[i]) * self.model.turn(i) / core::f64::consts::TAU;
        }
    }

    /// The innovation with its covariance Cov(h) + R, where R is the likelihood's own if it has one.
    fn report(
        &self,
        y: &[f64],
        observed: Observed<'_>,
        step: &Step,
        seen: SeenMoments<M::Output>,
        r: OMatrix<f64, M::Output, M::Output>,
        log_likelihood: f64,
    ) -> Result<Update<M::Output>, FilterError> {
        let innovation = residual(&self.model, y, seen.mean, observed);
        let own = seen.own.map(|variances| OMatrix::from_diagonal(&variances));
        let has_own = own.is_some();
        let mut s = seen.cov + own.unwrap_or(r);
        if observed != Observed::All {
            s = masked_cov(&s, observed);
        }
        // A law without a variance, or a sure thing, has no normalised innovation.
        let nis = match Solver::new(&s).filter(|_| s.iter().all(|v| v.is_finite())) {
            Some(factor) => factor.quadratic_form(&innovation),
            None if has_own => f64::NAN,
            None => return Err(not_positive_definite("innovation covariance", step.index)),
        };
        Ok(Update::spread(innovation, s, log_likelihood, nis))
    }
}

/// The states of these particles, one after the other.
fn states(values: &[f64], dim: usize, which: impl Iterator<Item = usize>) -> alloc::vec::Vec<f64> {
    let group = |k: usize| &values[(k / LANES) * dim * LANES..][..dim * LANES];
    which.flat_map(|k| (0..dim).map(move |i| group(k)[i * LANES + k % LANES])).collect()
}

/// The rows of group `g` of vectors that stand one after the other, as lanes.
fn fill_lanes(rows: &[f64], g: usize, out: &mut [Lanes<LANES>]) {
    let width = out.len();
    for (i, out) in out.iter_mut().enumerate() {
        *out = Lanes(core::array::from_fn(|lane| rows[(g * LANES + lane) * width + i]));
    }
}

/// Gives particles whose eta or expected measurement is not finite no weight, and values that disturb nothing;
/// returns the weight they had.
#[cold]
fn set_aside(
    weights: &mut Lanes<LANES>,
    log_weights: &mut [f64],
    seen: [&mut [Lanes<LANES>]; 2],
) -> f64 {
    let mut lost = 0.0;
    for lane in 0..LANES {
        if seen.iter().flat_map(|v| v.iter()).any(|v| !v.0[lane].is_finite()) {
            lost += core::mem::take(&mut weights.0[lane]);
            log_weights[lane] = f64::NEG_INFINITY;
        }
    }
    for v in seen.into_iter().flatten() {
        for (v, mark) in v.0.iter_mut().zip(&*log_weights) {
            if *mark == f64::NEG_INFINITY {
                *v = 0.0;
            }
        }
    }
    lost
}

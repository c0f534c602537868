//! Any Gaussian filter made robust: measurements count by how well they fit, as Student's t and Huber's law say.
//!
//! ```text
//! p(y_i | eta_i) N(eta_i; m, V)  has the mean and the variance of  N(y*_i; eta_i, R*_ii) N(eta_i; m, V)
//! ```
//!
//! Then the filter updates as ever, by y* and R*: far measurements pull little. Several components are taken one after the other; under
//! Huber's law each again after all others (expectation propagation). A far measurement of Student's law leaves two stories, it was off or the belief
//! was, and no single Gaussian tells both: whoever throws out a first outlier's successors has lost the track. So each story goes
//! on as a Gaussian of its own, weighed by how well it predicts what follows; the likeliest [`STORIES`] are kept, those that agree
//! are joined. Under Huber's law there is one story always.
//!
//! The innovation and its covariance are those of the whole belief, with the variance of the law; where it has none (two degrees of
//! freedom or less) with the square of its scale. The log-likelihood is that of the measurements as they are, exact of one component but for the stories that
//! were left out. What the file states as correlated noise counts as independent: the laws are
//! of single components.
//!
//! A level of 0 +- 2, and measurements around 10 with a scale of 1/2. The first may be an outlier; the second settles it:
//!
//! ```
//! use nalgebra::{Const, matrix, vector};
//! use optfilter::filter::{Belief, ExtendedKalmanFilter, Filter, GaussianBelief, MixtureBelief, Robust};
//! use optfilter::model::{GaussianNoise, RandomWalk, Step, likelihood::{Component, StudentT}};
//! let noise = GaussianNoise::new(matrix![0.01], matrix![0.25])?;
//! let law = Component::StudentT(StudentT::new(3.0, 0.5)?);
//! let filter = Robust::new(ExtendedKalmanFilter::new(RandomWalk::new(Const::<1>), noise), vec![law])?;
//! let mut belief = MixtureBelief::from(GaussianBelief::new(vector![0.0], matrix![4.0])?);
//! let mut means = Vec::new();
//! for y in [10.0, 10.1, 10.0, 9.9] {
//!     filter.predict(&mut belief, &[], &Step::even(1, 1.0))?;
//!     filter.update(&mut belief, &[y], &[], &Step::even(1, 1.0))?;
//!     means.push(belief.mean()[0]);
//! }
//! println!("{means:.2?}");
//! assert!(means[0] < 5.0 && means[3] > 9.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: Alspach and Sorenson 1972; Masreliez 1975; Minka 2001; Agamennoni, Nieto and Nebot 2012.

use super::gaussian::{GaussianBelief, not_positive_definite};
use super::mixture::{MixtureBelief, Part, joined, log_sum};
use super::traits::{Belief, Filter, Update};
use crate::Shapes;
use crate::error::{FilterError, check_len};
use crate::linalg::Solver;
use crate::model::Step;
use crate::model::likelihood::{Component, Observed, Site};
use alloc::vec::Vec;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector};

/// How many stories go on from row to row.
pub const STORIES: usize = 4;

/// Stories whose means are all within so many standard deviations of each other are told as one.
const AGREE: f64 = 0.5;

/// How often components under Huber's law are taken again, and how many may be.
const ROUNDS: usize = 3;
const MAX_AGAIN: usize = 16;

/// A Gaussian filter whose update can be told the noise of each component.
pub trait Reweigh: Filter<Belief = GaussianBelief<<Self as Filter>::State>>
where
    DefaultAllocator: Shapes<Self::State, Self::Output>,
{
    /// The variances on the diagonal of R in a row.
    fn variances(&self, u: &[f64], step: &Step) -> OVector<f64, Self::Output>;

    /// [`correct`](Filter::correct) by y plus a shift, with independent components of these variances for R. The shift is added to the
    /// residual, so that it may reach beyond half a turn of an angle.
    fn correct_under(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
        shift_and_variances: (&OVector<f64, Self::Output>, &OVector<f64, Self::Output>),
    ) -> Result<(Self::Belief, Update<Self::Output>), FilterError>;
}

/// A Gaussian filter under laws that forgive outliers.
#[derive(Clone, Debug, PartialEq)]
pub struct Robust<F> {
    filter: F,
    laws: Vec<Component>,
    /// Of each law the variance over the square of its scale.
    widths: Vec<f64>,
}

impl<F: Reweigh> Robust<F>
where
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    /// From a filter, whose R holds the squares of the scales, and the law of each component: Gaussian, Student's t or Huber's.
    pub fn new(filter: F, laws: Vec<Component>) -> Result<Self, FilterError> {
        check_len("likelihood", filter.dims().1.value(), laws.len(), None)?;
        let width = |(component, law): (usize, &Component)| {
            let (argument, index) = ("likelihood", None);
            let scale = law.scale().ok_or(FilterError::NotFinite { argument, component, index })?;
            let width = law.variance().unwrap_or(f64::INFINITY) / (scale * scale);
            Ok(if width.is_finite() { width } else { 1.0 })
        };
        let widths = laws.iter().enumerate().map(width).collect::<Result<_, FilterError>>()?;
        Ok(Self { filter, laws, widths })
    }
}

/// A part of the belief, told under one story of the measurement.
struct Story<M: Dim>
where
    DefaultAllocator: nalgebra::allocator::Allocator<M>,
{
    part: usize,
    log_weight: f64,
    shifts: OVector<f64, M>,
    variances: OVector<f64, M>,
}

/// What is believed of the components, while one after the other is taken: mean and covariance of their innovations, and the
/// measurements that stand for theirs.
#[derive(Clone)]
struct Branch<M: Dim>
where
    DefaultAllocator: nalgebra::allocator::Allocator<M> + nalgebra::allocator::Allocator<M, M>,
{
    log_evidence: f64,
    mean: OVector<f64, M>,
    cov: OMatrix<f64, M, M>,
    values: OVector<f64, M>,
    variances: OVector<f64, M>,
}

impl<M: Dim> Branch<M>
where
    DefaultAllocator: nalgebra::allocator::Allocator<M> + nalgebra::allocator::Allocator<M, M>,
{
    /// Takes component `i` for a Gaussian measurement.
    fn take(&mut self, i: usize, value: f64, variance: f64) {
        let column = self.cov.column(i).clone_owned();
        let total = self.cov[(i, i)].max(0.0) + variance;
        let off = value - self.mean[i];
        self.mean.axpy(off / total, &column, 1.0);
        self.cov.ger(-1.0 / total, &column, &column, 1.0);
        (self.values[i], self.variances[i]) = (value, variance);
    }
}

impl<F: Reweigh> Robust<F>
where
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    /// The stories of a row under one Gaussian: `v` off its prediction, which has the covariance `cov`.
    fn branches(
        &self,
        v: &OVector<f64, F::Output>,
        cov: &OMatrix<f64, F::Output, F::Output>,
        squares: &OVector<f64, F::Output>,
        observed: Observed<'_>,
    ) -> Vec<Branch<F::Output>> {
        let before = Branch {
            log_evidence: 0.0,
            mean: v * 0.0,
            cov: cov.clone(),
            values: v.clone(),
            variances: squares.clone(),
        };
        let mut branches = Vec::with_capacity(2 * STORIES);
        branches.push(before.clone());
        for i in observed.indices(v.nrows()) {
            for k in 0..branches.len() {
                let branch: &mut Branch<F::Output> = &mut branches[k];
                let (from, prior) = (branch.mean[i], branch.cov[(i, i)].max(0.0));
                let (one, other) = self.laws[i].sites(v[i] - from, prior, squares[i]);
                let taken = |branch: &mut Branch<F::Output>, site: Site| {
                    branch.log_evidence += site.log_evidence;
                    branch.take(i, from + site.value, site.variance);
                };
                let second = other.map(|site| {
                    let mut branch = branch.clone();
                    taken(&mut branch, site);
                    branch
                });
                taken(branch, one);
                branches.extend(second);
            }
            branches.sort_by(|a, b| b.log_evidence.total_cmp(&a.log_evidence));
            branches.truncate(STORIES);
        }
        let huber = |i: &usize| matches!(self.laws[*i], Component::Huber(_));
        let count = observed.count(v.nrows());
        if (2..=MAX_AGAIN).contains(&count) && observed.indices(v.nrows()).any(|i| huber(&i)) {
            for branch in &mut branches {
                for _ in 0..ROUNDS {
                    for i in observed.indices(v.nrows()).filter(huber) {
                        let mut others = before.clone();
                        for j in observed.indices(v.nrows()).filter(|j| *j != i) {
                            others.take(j, branch.values[j], branch.variances[j]);
                        }
                        let (from, prior) = (others.mean[i], others.cov[(i, i)].max(0.0));
                        let (site, _) = self.laws[i].sites(v[i] - from, prior, squares[i]);
                        branch.values[i] = from + site.value;
                        branch.variances[i] = site.variance;
                    }
                }
            }
        }
        branches
    }
}

impl<F: Reweigh> Filter for Robust<F>
where
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    type State = F::State;
    type Output = F::Output;
    type Belief = MixtureBelief<F::State>;

    fn dims(&self) -> (F::State, F::Output, usize) {
        self.filter.dims()
    }

    fn propagate(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError> {
        let ahead = |part: &Part<F::State>| {
            let belief = self.filter.propagate(&part.belief, u, step)?;
            Ok(Part { log_weight: part.log_weight, belief })
        };
        let parts = sound(belief.parts().iter().map(ahead))?;
        Ok(MixtureBelief::weighted(parts))
    }

    fn correct(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(Self::Belief, Update<F::Output>), FilterError> {
        let squares = self.filter.variances(u, step);
        let still = &squares * 0.0;
        let mut stories = Vec::new();
        let mut seen: Vec<(f64, OVector<f64, F::Output>, OMatrix<f64, F::Output, F::Output>)> =
            Vec::new();
        let mut failed = None;
        for (k, part) in belief.parts().iter().enumerate() {
            let filter = &self.filter;
            let plain =
                filter.correct_under(&part.belief, y, observed, u, step, (&still, &squares));
            let (innovation, mut cov) = match plain {
                Ok((_, Update { innovation, innovation_cov: Some(cov), .. })) => (innovation, cov),
                Ok(_) => continue,
                Err(error) => {
                    failed.get_or_insert(error);
                    continue;
                }
            };
            for i in 0..y.len() {
                cov[(i, i)] -= if observed.has(i) { squares[i] } else { cov[(i, i)] };
            }
            let told = self.branches(&innovation, &cov, &squares, observed);
            stories.extend(told.into_iter().map(|branch| Story {
                part: k,
                log_weight: part.log_weight + branch.log_evidence,
                shifts: branch.values - &innovation,
                variances: branch.variances,
            }));
            seen.push((part.log_weight, innovation, cov));
        }
        if let (true, Some(error)) = (stories.is_empty(), failed) {
            return Err(error);
        }
        let log_likelihood = log_sum(stories.iter().map(|story| story.log_weight));
        stories.sort_by(|a, b| b.log_weight.total_cmp(&a.log_weight));
        stories.truncate(2 * STORIES);
        let told = stories.iter().map(|story| {
            let from = &belief.parts()[story.part].belief;
            let Story { shifts, variances, .. } = story;
            let filter = &self.filter;
            let (after, _) =
                filter.correct_under(from, y, observed, u, step, (shifts, variances))?;
            Ok(Part { log_weight: story.log_weight, belief: after })
        });
        let parts = sound(told)?;
        let mut update = self.summed(&seen, observed, &squares, step)?;
        update.log_likelihood = Some(log_likelihood);
        Ok((MixtureBelief::weighted(few(parts)), update))
    }
}

impl<F: Reweigh> Robust<F>
where
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    /// The innovation of all parts together.
    fn summed(
        &self,
        seen: &[(f64, OVector<f64, F::Output>, OMatrix<f64, F::Output, F::Output>)],
        observed: Observed<'_>,
        squares: &OVector<f64, F::Output>,
        step: &Step,
    ) -> Result<Update<F::Output>, FilterError> {
        let parts: Vec<Part<F::Output>> = seen
            .iter()
            .map(|(log_weight, mean, cov)| {
                let belief = GaussianBelief { mean: mean.clone(), cov: cov.clone() };
                Part { log_weight: *log_weight, belief }
            })
            .collect();
        let failed = || not_positive_definite("innovation covariance", step.index);
        let GaussianBelief { mean, mut cov } = joined(&parts).ok_or_else(failed)?;
        for i in 0..mean.nrows() {
            cov[(i, i)] += if observed.has(i) { squares[i] * self.widths[i] } else { 1.0 };
        }
        let nis = Solver::new(&cov).ok_or_else(failed)?.quadratic_form(&mean);
        Ok(Update::spread(mean, cov, 0.0, nis))
    }
}

/// The parts that are beliefs still; the first error where none is.
fn sound<N: Dim>(
    parts: impl Iterator<Item = Result<Part<N>, FilterError>>,
) -> Result<Vec<Part<N>>, FilterError>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
{
    let (mut kept, mut flawed, mut failed) = (Vec::new(), None, None);
    for part in parts {
        match part {
            Ok(part) if part.belief.flaw().is_none() => kept.push(part),
            Ok(part) => flawed = flawed.or(Some(part)),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match (kept.is_empty(), flawed, failed) {
        // What is wrong with it is said by whoever asked.
        (true, Some(part), _) => kept.push(part),
        (true, None, Some(error)) => return Err(error),
        _ => {}
    }
    Ok(kept)
}

/// The likeliest stories, those that agree told as one; likeliest first.
fn few<N: Dim>(mut parts: Vec<Part<N>>) -> Vec<Part<N>>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
{
    let mut out: Vec<Part<N>> = Vec::with_capacity(STORIES);
    while !parts.is_empty() && out.len() < STORIES {
        let base = parts.remove(0);
        let agrees = |part: &Part<N>| {
            (0..base.belief.mean.nrows()).all(|i| {
                let off = part.belief.mean[i] - base.belief.mean[i];
                off * off <= AGREE * AGREE * base.belief.cov[(i, i)]
            })
        };
        let (alike, rest): (Vec<_>, Vec<_>) = parts.into_iter().partition(agrees);
        parts = rest;
        let mut same = Vec::with_capacity(1 + alike.len());
        same.push(base);
        same.extend(alike);
        let log_weight = log_sum(same.iter().map(|part| part.log_weight));
        out.extend(joined(&same).map(|belief| Part { log_weight, belief }));
    }
    out
}

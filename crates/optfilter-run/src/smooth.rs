//! What all rows, also those after it, say of each row.
//!
//! | filter | smoother |
//! |---|---|
//! | kf, ekf, iekf, ukf | Rauch-Tung-Striebel ([`optfilter::smoother`]) |
//! | pf | backward simulation: trajectories drawn from the end to the beginning |
//! | ekf, iekf, ukf and imap where measurements do not scatter by a Gaussian and Q is known | the path of the highest posterior density ([`optfilter::most_likely`]), up to a hundred states |
//! | imap else | the whole series as one window, by conjugate gradients; the path may bend where Q is known |
//! | vkf, etkf, letkf | none: they keep no joint distribution of two rows |
//!
//! Where a gate lost the track and the filter started anew, the belief that took over stands from the row where it began, and
//! the rows on both sides of it are smoothed apart.
//!
//! The filtered beliefs of all rows are kept in memory: n + n^2 numbers a row, all particles of every row for pf.
//!
//! ```
//! use optfilter::{Series, model::Growth};
//! use optfilter_run::{FilterSpec, Problem, build, smooth};
//!
//! let problem = Problem::new(Growth).noise(3.0, 2.0).start(0.1, 1.0).dt(0.1);
//! let spec = FilterSpec::of("ekf")?.smoothing(&problem, 4)?;
//! let smoothed = smooth(&*build(&spec, &problem)?, &Series::new(&[0.3, 1.1, f64::NAN, 2.4], 1)?)?;
//! assert_eq!((smoothed.means.len(), smoothed.covs.len()), (4, 4));
//! assert!(smoothed.covs[0] < smoothed.filtered_covs[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! References: Rauch, Tung and Striebel 1965; Godsill, Doucet and West 2004; Douc, Garivier, Moulines and Olsson 2011 (drawing
//! by rejection).

use crate::choice::{Constraint, Method};
use crate::error::{RunError, SpecError, check_room};
use crate::problem::Problem;
use crate::runner::{CancelCheck, DynFilter, Estimate, InitialState, OutputBuffers, Restart};
use crate::setting::CG;
use crate::settings::FilterSpec;
use crate::state_space::StateSpace;
use nalgebra::{DMatrix, Dim};
use optfilter::Pooled;
use optfilter::Series;
use optfilter::filter::{Belief, FilterError, GaussianBelief};
use optfilter::linalg::psd_factor;
use optfilter::model::Dynamics;
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;

/// Conjugate gradients over a whole series, unless another number is asked for. They stop early where nothing is left.
const ITERATIONS: u32 = 100;

/// How often a parent is proposed before all of them are weighed.
const PROPOSALS: usize = 32;

/// Smoothed and filtered estimates of a series, rows in time order. Covariances are empty where the filter has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Smoothed {
    /// T x n, angles between minus and plus half a turn.
    pub means: Vec<f64>,
    /// T x n x n
    pub covs: Vec<f64>,
    /// T x n: the estimates of the filter, by the rows up to each.
    pub filtered_means: Vec<f64>,
    /// T x n x n
    pub filtered_covs: Vec<f64>,
    /// How the path of the highest posterior density was found, where one was looked for.
    pub search: Option<Search>,
}

/// The end of a search for the best path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// Passes over the series, back and forth.
    pub passes: u32,
    /// Minus the logarithm of the posterior density, but for what does not depend on the path.
    pub loss: f64,
    /// Whether it is known to be the best of all paths; else it is better than its neighbours.
    pub global: bool,
}

impl FilterSpec {
    /// These settings for smoothing `rows` rows of a problem: for imap the whole series as its window and conjugate gradients,
    /// unless a window is chosen; an error for filters without a smoother. Of settings that name no filter,
    /// [`fitted`](Self::fitted) comes first; an imap that it has chosen gives way to a filter with a smoother of its own.
    pub fn smoothing(&self, problem: &Problem, rows: usize) -> Result<Self, SpecError> {
        let mut spec = self.clone();
        let unnamed = Self { method: None, optimizer: None, lr: None, ..self.clone() };
        if self.method() == Method::Imap && unnamed.believing(problem) == *self {
            spec = unnamed.classical(problem);
        }
        match spec.method() {
            Method::Vkf | Method::Etkf | Method::Letkf => {
                let name = spec.method().name();
                let message =
                    format!("{name} cannot be smoothed; use kf, ekf, iekf, ukf, pf or imap");
                return Err(SpecError::of("method", message));
            }
            // All particles of every row are kept.
            Method::Pf => {
                let each = rows.saturating_mul(problem.model.state_dim().value() + 1);
                check_room("particles", spec.particles() as usize, each)?;
            }
            Method::Imap if spec.window.is_none() => {
                spec.window = Some(u32::try_from(rows.saturating_sub(1)).unwrap_or(u32::MAX));
                // An optimizer that was chosen for a row is none for all of them at once.
                if spec.optimizer.as_deref() != Some(CG) {
                    spec.optimizer = Some(CG.into());
                    spec.steps = None;
                    (spec.lr, spec.decay, spec.carry) = (None, None, None);
                }
                spec.steps = spec.steps.or(Some(ITERATIONS));
                let free = rows > 1 && problem.process.is_some() && !spec.carry();
                if spec.constraint.is_none() && free {
                    spec.constraint = Some(Constraint::Weak);
                    // They come from the curvature along the path, not from the filter.
                    spec.error_bars = Some(false);
                }
            }
            _ => {}
        }
        Ok(spec)
    }
}

/// Smooths a series from the start of the problem.
pub fn smooth(runner: &dyn DynFilter, series: &Series<'_>) -> Result<Smoothed, RunError> {
    smooth_from(runner, runner.default_start(), series, &CancelCheck::NEVER)
}

/// [`smooth`] from any start, watched as a run of the filter is.
pub fn smooth_from(
    runner: &dyn DynFilter,
    start: &InitialState,
    series: &Series<'_>,
    watch: &CancelCheck<'_>,
) -> Result<Smoothed, RunError> {
    let state_space = runner.state_space();
    let state_space = &*state_space;
    let mut out = match state_space.method() {
        _ if state_space.has_best_path() && whole_or_none(runner, series) => {
            best_path(runner, state_space, start, series, watch)?
        }
        Method::Kf | Method::Ekf | Method::Iekf | Method::Ukf => {
            gaussian(runner, state_space, start, series, watch)?
        }
        Method::Pf => particles(runner, state_space, start, series, watch)?,
        Method::Imap if runner.lag().is_some() => {
            window(runner, state_space, start, series, watch)?
        }
        Method::Imap => {
            let message = "imap is smoothed over a window; leave it open, or choose one";
            return Err(SpecError::of("window", message).into());
        }
        method => {
            let message = format!("{} cannot be smoothed", method.name());
            return Err(SpecError::of("method", message).into());
        }
    };
    let n = runner.dims().0;
    for state in out.means.chunks_exact_mut(n) {
        for (i, v) in state.iter_mut().enumerate() {
            *v = state_space.state_angle(i).map_or(*v, |turn| v.wrap(turn));
        }
    }
    Ok(out)
}

/// The filter over the whole series: means, and covariances where they are wanted.
fn filtered(
    runner: &dyn DynFilter,
    start: &InitialState,
    series: &Series<'_>,
    watch: &CancelCheck<'_>,
    into: OutputBuffers<'_>,
    with_covs: bool,
) -> Result<(Vec<f64>, Vec<f64>), FilterError> {
    let (n, _, _) = runner.dims();
    let mut means = vec![0.0; series.len() * n];
    let mut covs = vec![0.0; if with_covs { series.len() * n * n } else { 0 }];
    let mut rows = OutputBuffers { means: &mut means, covs: &mut covs, ..into };
    runner.run(start, series, &mut rows, watch)?;
    Ok((means, covs))
}

fn belief(means: &[f64], covs: &[f64], n: usize, k: usize) -> GaussianBelief<Pooled> {
    GaussianBelief {
        mean: Pooled::vector(&means[k * n..][..n]),
        cov: Pooled::matrix(n, n, &covs[k * n * n..][..n * n]),
    }
}

/// Rauch-Tung-Striebel.
fn gaussian(
    runner: &dyn DynFilter,
    state_space: &dyn StateSpace,
    start: &InitialState,
    series: &Series<'_>,
    watch: &CancelCheck<'_>,
) -> Result<Smoothed, RunError> {
    let n = runner.dims().0;
    let (mut first, mut anew) = (Vec::new(), Vec::new());
    let into = OutputBuffers {
        diffuse: Some(&mut first),
        anew: Some(&mut anew),
        ..OutputBuffers::default()
    };
    let (filtered_means, filtered_covs) = filtered(runner, start, series, watch, into, true)?;
    let (mut means, mut covs) = (filtered_means.clone(), filtered_covs.clone());
    for Restart { row, means: m, covs: p } in &anew {
        means[row * n..][..m.len()].copy_from_slice(m);
        covs[row * n * n..][..p.len()].copy_from_slice(p);
    }
    let here = |k: usize, means: &[f64], covs: &[f64]| match first.get(k) {
        Some(diffuse) => diffuse.clone(),
        None => belief(means, covs, n, k).into(),
    };
    let mut next = here(series.len() - 1, &means, &covs);
    for k in (1..series.len()).rev() {
        let here = here(k - 1, &means, &covs);
        // Where a filter started anew, what came before says nothing of what comes, nor the other way round.
        next = match anew.iter().any(|anew| anew.row == k) {
            true => here,
            false => state_space.smooth_back(&here, &next, series, k)?,
        };
        means[(k - 1) * n..][..n].copy_from_slice(next.known.mean.as_slice());
        let Some(cov) = next.cov() else { continue };
        covs[(k - 1) * n * n..][..n * n].copy_from_slice(cov.as_slice());
    }
    Ok(Smoothed { means, covs, filtered_means, filtered_covs, search: None })
}

/// Whether a filter has no window, or one over the whole series.
fn whole_or_none(runner: &dyn DynFilter, series: &Series<'_>) -> bool {
    runner.lag().is_none_or(|lag| lag + 1 >= series.len())
}

/// The path of the highest posterior density where measurements do not scatter by Gaussians.
fn best_path(
    runner: &dyn DynFilter,
    state_space: &dyn StateSpace,
    start: &InitialState,
    series: &Series<'_>,
    watch: &CancelCheck<'_>,
) -> Result<Smoothed, RunError> {
    // A window over all rows would be descended anew in every row.
    let companion = if runner.lag().is_some() { Some(runner.companion()?) } else { None };
    let filter = companion.as_deref().unwrap_or(runner);
    let (filtered_means, filtered_covs) =
        filtered(filter, start, series, watch, OutputBuffers::default(), filter.has_cov())?;
    let found =
        state_space.best_path((&start.mean, &start.cov), series, &filtered_means, watch.stop)?;
    let global = found.converged && state_space.has_one_hill();
    let search = Search { passes: found.passes, loss: found.loss(), global };
    let means = found.beliefs.iter().flat_map(|b| b.mean.iter().copied()).collect();
    let covs = found.beliefs.iter().flat_map(|b| b.cov.iter().copied()).collect();
    Ok(Smoothed { means, covs, filtered_means, filtered_covs, search: Some(search) })
}

/// The path through a window. Where it may bend and all noise is Gaussian, its covariances are those of the
/// Rauch-Tung-Striebel smoother linearised along it: the inverse curvature of what was minimised.
fn window(
    runner: &dyn DynFilter,
    state_space: &dyn StateSpace,
    start: &InitialState,
    series: &Series<'_>,
    watch: &CancelCheck<'_>,
) -> Result<Smoothed, RunError> {
    let n = runner.dims().0;
    let mut means = vec![0.0; series.len() * n];
    let (filtered_means, _) = {
        let into = OutputBuffers { lagged: &mut means, ..OutputBuffers::default() };
        filtered(runner, start, series, watch, into, false)?
    };
    let whole = runner.lag().is_some_and(|lag| lag + 1 >= series.len());
    let mut out = Smoothed { means, filtered_means, ..Smoothed::default() };
    if !(whole
        && state_space.is_posterior()
        && state_space.is_gaussian()
        && state_space.has_noise())
    {
        return Ok(out);
    }
    let state = |k: usize| &out.means[k * n..][..n];
    let mut beliefs =
        vec![GaussianBelief { mean: Pooled::vector(&start.mean), cov: start.cov.dense(Pooled(n)) }];
    for k in 0..series.len() {
        let after = state_space.cov_along(&beliefs[k], state(k), series, k)?;
        beliefs.push(after);
    }
    beliefs.remove(0);
    let mut covs = vec![0.0; series.len() * n * n];
    for k in (0..series.len()).rev() {
        if k + 1 < series.len() {
            let [here, next] = [k, k + 1].map(|k| beliefs[k].clone().into());
            beliefs[k].cov = state_space.smooth_back(&here, &next, series, k + 1)?.known.cov;
        }
        covs[k * n * n..][..n * n].copy_from_slice(beliefs[k].cov.as_slice());
    }
    out.covs = covs;
    Ok(out)
}

/// Particles of a row and their weights.
struct Cloud {
    states: Vec<f64>,
    weights: Vec<f64>,
}

/// Backward simulation: as many trajectories as particles.
fn particles(
    runner: &dyn DynFilter,
    state_space: &dyn StateSpace,
    start: &InitialState,
    series: &Series<'_>,
    watch: &CancelCheck<'_>,
) -> Result<Smoothed, RunError> {
    let n = runner.dims().0;
    let mut live = runner.start(start)?;
    let (mut out, mut estimate) = (Smoothed::default(), Estimate::default());
    let mut clouds = Vec::with_capacity(series.len());
    for k in 0..series.len() {
        let (y, u, step) = (series.observation(k), series.input(k), series.step(k));
        live.step(series.predicts(k), &step, u, y, &mut estimate)?;
        out.filtered_means.extend_from_slice(&estimate.mean);
        out.filtered_covs.extend_from_slice(&estimate.cov);
        let (states, weights) = live.particles().unwrap_or_default();
        clouds.push(Cloud { states, weights });
        watched(watch, k)?;
    }
    let mut stream = state_space.stream(start.run, "smooth");
    let Some(last) = clouds.last() else { return Ok(out) };
    let count = last.weights.len();
    // The ends of the trajectories: the particles of the last row, evenly by weight.
    let (sums, shift) = (cumulative(&last.weights), stream.uniform());
    let mut paths = Vec::with_capacity(count * n);
    for j in 0..count {
        let i = find(&sums, (j as f64 + shift) / count as f64);
        paths.extend_from_slice(&last.states[i * n..][..n]);
    }
    out.means = vec![0.0; series.len() * n];
    out.covs = vec![0.0; series.len() * n * n];
    for k in (0..series.len()).rev() {
        if k + 1 < series.len() {
            let step = series.step(k + 1);
            if series.predicts(k + 1) && step.dt > 0.0 {
                let law = Parents::new(state_space, &clouds[k], series, k + 1)?;
                for path in paths.chunks_exact_mut(n) {
                    let parent = law.draw(path, &clouds[k].weights, &mut stream);
                    path.copy_from_slice(&clouds[k].states[parent * n..][..n]);
                }
            }
        }
        let angle = |i| state_space.state_angle(i);
        moments(
            &paths,
            n,
            angle,
            &mut out.means[k * n..][..n],
            &mut out.covs[k * n * n..][..n * n],
        );
        watched(watch, k)?;
    }
    Ok(out)
}

fn watched(watch: &CancelCheck<'_>, k: usize) -> Result<(), FilterError> {
    let due = (k + 1).is_multiple_of(watch.stride.clamp(1, 64));
    if due && (watch.stop)() { Err(crate::runner::stopped()) } else { Ok(()) }
}

/// Sums of weights up to each, the last of them 1.
fn cumulative(weights: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let mut sums: Vec<f64> = weights
        .iter()
        .map(|w| {
            sum += w;
            sum
        })
        .collect();
    sums.iter_mut().for_each(|s| *s /= sum);
    sums
}

/// The first place whose sum is above `at`.
fn find(sums: &[f64], at: f64) -> usize {
    sums.partition_point(|s| *s <= at).min(sums.len().saturating_sub(1))
}

/// From which particles of a row the states of the next may have come.
struct Parents<'a> {
    /// Where the dynamics lead from each.
    images: Vec<f64>,
    /// L with L L' = Q.
    factor: DMatrix<f64>,
    sums: Vec<f64>,
    state_space: &'a dyn StateSpace,
}

impl<'a> Parents<'a> {
    fn new(
        state_space: &'a dyn StateSpace,
        cloud: &Cloud,
        series: &Series<'_>,
        k: usize,
    ) -> Result<Self, RunError> {
        let step = series.step(k);
        let q = state_space.process_cov(series.input(k), &step)?;
        let factor = psd_factor(&q).ok_or(FilterError::NotPositiveDefinite {
            quantity: "process_cov (Q)",
            index: Some(step.index),
        })?;
        let images = state_space.moved(&cloud.states, series.input(k), &step);
        Ok(Self { images, factor, sums: cumulative(&cloud.weights), state_space })
    }

    /// The squared distance of a state from where parent `i` leads, in units of the noise; infinite where no noise
    /// leads there.
    fn distance(&self, x: &[f64], i: usize, z: &mut [f64]) -> f64 {
        let n = x.len();
        let image = &self.images[i * n..][..n];
        let (l, mut sum) = (&self.factor, 0.0);
        for i in 0..n {
            let mut v = x[i] - image[i];
            if let Some(turn) = self.state_space.state_angle(i) {
                v = v.wrap(turn);
            }
            for k in 0..i {
                v -= l[(i, k)] * z[k];
            }
            z[i] = if l[(i, i)] > 0.0 { v / l[(i, i)] } else { 0.0 };
            sum += z[i] * z[i];
            if l[(i, i)] == 0.0 && v.abs() > 1e-9 * (1.0 + x[i].abs()) {
                return f64::INFINITY;
            }
        }
        sum
    }

    /// Draws the parent of a state: proposed by weight and accepted by how likely the step is, which no step exceeds at its
    /// middle; by the weights of all where that takes too long.
    fn draw(&self, x: &[f64], weights: &[f64], stream: &mut Stream) -> usize {
        let z = &mut vec![0.0; x.len()];
        // Where a direction has no noise hardly any proposal could be right.
        let proposals = if self.factor.diagonal().min() > 0.0 { PROPOSALS } else { 0 };
        for _ in 0..proposals {
            let i = find(&self.sums, stream.uniform());
            if stream.uniform() < (-0.5 * self.distance(x, i, z)).exp() {
                return i;
            }
        }
        let logs: Vec<f64> = weights
            .iter()
            .enumerate()
            .map(|(i, weight)| weight.ln() - 0.5 * self.distance(x, i, z))
            .collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !most.is_finite() {
            // Nobody leads here (a box was in the way): any of them.
            return find(&self.sums, stream.uniform());
        }
        let likely: Vec<f64> = logs.iter().map(|l| (l - most).exp()).collect();
        find(&cumulative(&likely), stream.uniform())
    }
}

/// Mean and covariance of equally likely states; of angles around their mean direction.
fn moments(
    states: &[f64],
    n: usize,
    angle: impl Fn(usize) -> Option<f64>,
    mean: &mut [f64],
    cov: &mut [f64],
) {
    let count = (states.len() / n) as f64;
    for state in states.chunks_exact(n) {
        for (m, v) in mean.iter_mut().zip(state) {
            *m += v / count;
        }
    }
    for (i, m) in mean.iter_mut().enumerate() {
        if let Some(turn) = angle(i) {
            let values = || states.chunks_exact(n).map(|state| (state[i], 1.0));
            let centre = mean_direction(values(), turn);
            *m = centre + values().map(|(v, _)| (v - centre).wrap(turn)).sum::<f64>() / count;
        }
    }
    let deviation = |state: &[f64], i: usize| {
        let plain = state[i] - mean[i];
        angle(i).map_or(plain, |turn| plain.wrap(turn))
    };
    for state in states.chunks_exact(n) {
        for j in 0..n {
            for i in 0..n {
                cov[j * n + i] += deviation(state, i) * deviation(state, j) / count;
            }
        }
    }
}

/// arg sum w exp(i x) of angles and their weights, in the unit of their turn.
pub(crate) fn mean_direction(angles: impl Iterator<Item = (f64, f64)>, turn: f64) -> f64 {
    let radians = std::f64::consts::TAU / turn;
    let add = |(sin, cos), (v, weight): (f64, f64)| {
        let at = v * radians;
        (sin + weight * Scalar::sin(at), cos + weight * Scalar::cos(at))
    };
    let (sin, cos): (f64, f64) = angles.fold((0.0, 0.0), add);
    Scalar::atan2(sin, cos) / radians
}

#[cfg(test)]
mod tests {
    use super::moments;

    #[test]
    fn angles_are_averaged_around_their_direction() {
        // 178, -179 and -176 degrees, with numbers beside them.
        let states = [178.0, 1.0, -179.0, 2.0, -176.0 + 720.0, 3.0];
        let turn = |i| (i == 0).then_some(360.0);
        let (mut mean, mut cov) = ([0.0; 2], [0.0; 4]);
        moments(&states, 2, turn, &mut mean, &mut cov);
        assert!((mean[0] + 179.0).abs() < 1e-12 && (mean[1] - 2.0).abs() < 1e-15, "{mean:?}");
        let expected = [6.0, 2.0, 2.0, 2.0 / 3.0];
        assert!(cov.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{cov:?}");
    }
}

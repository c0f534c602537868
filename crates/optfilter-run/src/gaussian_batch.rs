//! Many series of a Gaussian filter together, as lanes of vectors: of a linear model the means beside one another and the
//! covariances once for all, of any other both.

use crate::choice::{GatingMode, Method};
use crate::error::SpecError;
use crate::flags::{Judged, RowFlagger};
use crate::problem::Problem;
use crate::runner::{GaussianBatch, InitialState, OutputBuffers};
use crate::settings::FilterSpec;
use crate::step_timer::StepTimer;
use nalgebra::Dim;
use optfilter::Pooled;
use optfilter::Series;
use optfilter::filter::{
    CommonGain, ExtendedKalmanFilter, Filter, Followed, GaussianBelief, IteratedKalmanFilter,
    LaneRow, SideBySide, Together, UnscentedKalmanFilter, side_by_side,
};
use optfilter::model::{Dynamics, Erased, GaussianNoise, Observation, Step};
use optfilter::scalar::{Lanes, Scalar};
use optfilter::simd::{Kernel, dispatch};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Lanes of means that share their covariances, and of beliefs that do not.
const WIDTH: usize = 32;
const BELIEFS: usize = 8;

/// Fewer series than these are as fast one by one.
const FEW: usize = 4;

/// What runs many series of a Gaussian filter at once; nothing for what each must do for itself: gates, bounds, other likelihoods.
pub(crate) fn gaussian_batch(
    spec: &FilterSpec,
    problem: &Problem,
    (model, noise): (Erased, GaussianNoise<Pooled, Pooled>),
    stop: &Arc<AtomicBool>,
) -> Result<Option<Box<dyn GaussianBatch>>, SpecError> {
    let gates = spec.gate.is_some() && spec.gating != Some(GatingMode::Flag);
    if gates || problem.bounds.is_some() || !problem.is_gaussian() {
        return Ok(None);
    }
    let (n, m) = (model.state_dim().value(), model.output_dim().value());
    let page = BatchContext {
        model: model.clone(),
        even: problem.refuses_irregular(spec),
        flagger: RowFlagger::new(m, spec.gate_of(problem)?, None)?,
    };
    Ok(Some(match spec.method() {
        Method::Iekf => {
            let filter = IteratedKalmanFilter::new(model, noise, spec.steps())?
                .damped()
                .stopping_at(stop.clone());
            Box::new(OwnCovBatch { filter, page })
        }
        Method::Ukf => {
            let filter = UnscentedKalmanFilter::new(model, noise, spec.sigma_points(n))?;
            Box::new(OwnCovBatch { filter, page })
        }
        _ if problem.model.is_linear() => {
            Box::new(Linear { filter: ExtendedKalmanFilter::new(model, noise), page })
        }
        _ => Box::new(OwnCovBatch { filter: ExtendedKalmanFilter::new(model, noise), page }),
    }))
}

/// What rows are judged and written by.
struct BatchContext {
    model: Erased,
    /// Whether irregular times are an error.
    even: bool,
    flagger: RowFlagger,
}

impl BatchContext {
    /// Whether the clock is one that the filter takes.
    fn is_even(&self, clock: &Series<'_>) -> bool {
        let mut timer = StepTimer::default();
        !self.even || (1..clock.len()).all(|k| timer.check(&clock.step(k)).is_ok())
    }
}

/// Groups of neighbours that are alike, enough of them to be worth it; each with the range of its members.
fn groups(count: usize, alike: impl Fn(usize, usize) -> bool) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut first = 0;
    while first < count {
        let end = (first + 1..count).find(|b| !alike(first, *b)).unwrap_or(count);
        if end - first >= FEW {
            out.push(first..end);
        }
        first = end;
    }
    out
}

/// A filter whose series have covariances of their own.
struct OwnCovBatch<F> {
    filter: F,
    page: BatchContext,
}

impl<F> GaussianBatch for OwnCovBatch<F>
where
    F: SideBySide + Filter<State = Pooled, Output = Pooled> + Send + Sync,
{
    fn run(
        &self,
        starts: &[InitialState],
        series: &[Series<'_>],
        rows: &mut [OutputBuffers<'_>],
        stop: &dyn Fn() -> bool,
    ) -> Vec<bool> {
        let n = self.page.model.state_dim().value();
        let begin = |start: &InitialState| {
            let mean = Pooled::vector(&start.mean);
            let sized = start.mean.len() == n;
            sized.then(|| GaussianBelief::new(mean, start.cov.dense(Pooled(n))).ok()).flatten()
        };
        let mut done = vec![false; series.len()];
        for group in groups(series.len(), |a, b| series[a].same_clock(&series[b])) {
            if !self.page.is_even(&series[group.start]) {
                continue;
            }
            for first in group.clone().step_by(BELIEFS) {
                if stop() {
                    return done;
                }
                let these = first..group.end.min(first + BELIEFS);
                let starts: Option<Vec<_>> = starts[these.clone()].iter().map(begin).collect();
                let Some(starts) = starts else { continue };
                let scribe = LaneWriter::new(&self.page, &mut rows[these.clone()]);
                let run = OwnCovKernel {
                    filter: &self.filter,
                    starts: &starts,
                    series: &series[these.clone()],
                    scribe,
                };
                if dispatch(run) == Together::Done {
                    done[these].fill(true);
                }
            }
        }
        done
    }
}

/// As many series as a vector has lanes, each with a covariance of its own.
struct OwnCovKernel<'g, 'r, F> {
    filter: &'g F,
    starts: &'g [GaussianBelief<Pooled>],
    series: &'g [Series<'g>],
    scribe: LaneWriter<'g, 'r, BELIEFS>,
}

impl<F> Kernel for OwnCovKernel<'_, '_, F>
where
    F: SideBySide + Filter<State = Pooled, Output = Pooled>,
{
    type Output = Together;
    #[inline(always)]
    fn run(self) -> Together {
        let Self { filter, starts, series, mut scribe } = self;
        side_by_side::<F, BELIEFS>(filter, starts, series, &mut |k, step, row| {
            scribe.write(k, step, row, series);
        })
    }
}

/// The extended filter of a linear model, which is the Kalman filter.
struct Linear {
    filter: ExtendedKalmanFilter<Erased, GaussianNoise<Pooled, Pooled>>,
    page: BatchContext,
}

impl GaussianBatch for Linear {
    fn run(
        &self,
        starts: &[InitialState],
        series: &[Series<'_>],
        rows: &mut [OutputBuffers<'_>],
        stop: &dyn Fn() -> bool,
    ) -> Vec<bool> {
        let mut done = vec![false; series.len()];
        let alike =
            |a: usize, b: usize| series[b].same_clock(&series[a]) && starts[b].cov == starts[a].cov;
        for these in groups(series.len(), alike) {
            if self.page.is_even(&series[these.start]) {
                let (starts, series) = (&starts[these.clone()], &series[these.clone()]);
                self.alike(starts, series, &mut rows[these.clone()], &mut done[these], stop);
            }
        }
        done
    }
}

impl Linear {
    /// Series of one clock, from one covariance.
    fn alike(
        &self,
        starts: &[InitialState],
        series: &[Series<'_>],
        rows: &mut [OutputBuffers<'_>],
        done: &mut [bool],
        stop: &dyn Fn() -> bool,
    ) {
        let n = self.page.model.state_dim().value();
        let cov = starts[0].cov.dense(Pooled(n));
        let begins = |start: &InitialState| {
            let mean = Pooled::vector(&start.mean);
            start.mean.len() == n && mean.iter().all(|v| v.is_finite())
        };
        let sound = GaussianBelief::new(Pooled::vector(&vec![0.0; n]), cov.clone()).is_ok();
        if !sound || !starts.iter().all(begins) {
            return;
        }
        let mut graph = CommonGain::new(&self.filter, series[0], cov);
        let groups = starts.chunks(WIDTH).zip(series.chunks(WIDTH));
        for ((starts, series), (rows, done)) in
            groups.zip(rows.chunks_mut(WIDTH).zip(done.chunks_mut(WIDTH)))
        {
            if stop() {
                return;
            }
            let means: Vec<&[f64]> = starts.iter().map(|start| start.mean.as_slice()).collect();
            let scribe = LaneWriter::new(&self.page, rows);
            match dispatch(Group { graph: &mut graph, means: &means, series, scribe }) {
                Together::Done => done.fill(true),
                Together::Apart => {}
                Together::Crowded => return,
            }
        }
    }
}

/// As many series as a vector has lanes, on their way.
struct Group<'g, 'a, 'r> {
    graph: &'g mut CommonGain<'a, Erased, GaussianNoise<Pooled, Pooled>>,
    means: &'g [&'g [f64]],
    series: &'g [Series<'g>],
    scribe: LaneWriter<'g, 'r, WIDTH>,
}

impl Kernel for Group<'_, '_, '_> {
    type Output = Together;
    #[inline(always)]
    fn run(self) -> Together {
        let Self { graph, means, series, mut scribe } = self;
        graph.run::<WIDTH>(means, series, &mut |k, step, row| scribe.write(k, step, row, series))
    }
}

/// Writes the rows of all lanes to where each belongs.
struct LaneWriter<'a, 'r, const W: usize> {
    model: &'a Erased,
    rows: &'a mut [OutputBuffers<'r>],
    gauges: Vec<RowFlagger>,
    /// The length of a whole turn of each state that is an angle.
    turns: Vec<Option<f64>>,
    mean: Vec<Lanes<W>>,
    expected: Vec<Lanes<W>>,
}

impl<'a, 'r, const W: usize> LaneWriter<'a, 'r, W> {
    fn new(page: &'a BatchContext, rows: &'a mut [OutputBuffers<'r>]) -> Self {
        let BatchContext { model, flagger, .. } = page;
        let (n, m) = (model.state_dim().value(), model.output_dim().value());
        let flagged = rows.iter().any(|rows| !rows.flags.is_empty());
        Self {
            model,
            gauges: vec![flagger.clone(); if flagged { rows.len() } else { 0 }],
            turns: (0..n).map(|i| model.is_state_angle(i).then(|| model.state_turn(i))).collect(),
            mean: vec![Lanes([0.0; W]); n],
            expected: vec![Lanes([0.0; W]); m],
            rows,
        }
    }

    #[inline(always)]
    fn write(
        &mut self,
        k: usize,
        step: &Step,
        row: &LaneRow<'_, Pooled, Pooled, W>,
        series: &[Series<'_>],
    ) {
        for ((out, &v), turn) in self.mean.iter_mut().zip(row.mean).zip(&self.turns) {
            *out = turn.map_or(v, |turn| v.wrap(turn));
        }
        let (n, m) = (self.mean.len(), self.expected.len());
        if !self.gauges.is_empty() {
            let u = series[0].input(k);
            self.model.observe(&self.mean, u, step, &mut self.expected);
        }
        let flagged = usize::from(!self.gauges.is_empty());
        let (mut mean, mut expected) = (vec![0.0; n * flagged], vec![0.0; m * flagged]);
        let by_sensor = self.gauges.first().is_some_and(|flagger| flagger.by_sensor);
        let (mut v, mut s) = (vec![0.0; m * flagged], vec![0.0; m * m * usize::from(by_sensor)]);
        for (lane, rows) in self.rows.iter_mut().enumerate() {
            spread(rows.means, k, &self.mean, lane);
            spread(rows.innovations, k, row.innovation, lane);
            if let Some(out) = rows.covs.get_mut(k * n * n..(k + 1) * n * n) {
                row.write_cov(lane, out);
            }
            if let Some(out) = rows.innovation_covs.get_mut(k * m * m..(k + 1) * m * m) {
                row.write_innovation_cov(lane, out);
            }
            if let Some(out) = rows.log_likelihoods.get_mut(k) {
                *out = row.log_likelihood.0[lane];
            }
            if let Some(out) = rows.nis.get_mut(k) {
                *out = row.nis.0[lane];
            }
            if let Some((out, flagger)) = rows.flags.get_mut(k).zip(self.gauges.get_mut(lane)) {
                mean.iter_mut().zip(&self.mean).for_each(|(out, v)| *out = v.0[lane]);
                expected.iter_mut().zip(&self.expected).for_each(|(out, v)| *out = v.0[lane]);
                let y = series[lane].observation(k);
                v.iter_mut().zip(row.innovation).for_each(|(out, v)| *out = v.0[lane]);
                if by_sensor {
                    row.write_innovation_cov(lane, &mut s);
                }
                let (nis, followed) = (row.nis.0[lane], Followed::OnTrack);
                let judged = Judged { v: &v, s: &s, nis, followed };
                *out = f64::from(flagger.flag(y, &mean, &judged, &expected) as u8);
            }
        }
    }
}

/// One lane into row `k` of results that may not be asked for.
#[inline(always)]
fn spread<const W: usize>(rows: &mut [f64], k: usize, values: &[Lanes<W>], lane: usize) {
    if let Some(row) = rows.get_mut(k * values.len()..(k + 1) * values.len()) {
        for (out, v) in row.iter_mut().zip(values) {
            *out = v.0[lane];
        }
    }
}

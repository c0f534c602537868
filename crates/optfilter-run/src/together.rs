//! Many series of a linear model together: their covariances once, their means as lanes of a vector.

use crate::flags::Gauge;
use crate::model::{Flexible, RunModel};
use crate::rhythm::Rhythm;
use crate::runner::{Results, Start};
use nalgebra::{DVector, Dim, Dyn};
use optfilter::Series;
use optfilter::filter::{CommonGain, Extended, GaussianBelief, LaneRow, Together};
use optfilter::model::{Dynamics, GaussianNoise, Observation, Step};
use optfilter::scalar::{Lanes, Scalar};
use optfilter::simd::{Kernel, dispatch};

/// Lanes of one run.
const WIDTH: usize = 32;

/// Fewer series than these are as fast one by one.
const FEW: usize = 4;

/// Anything that filters many series at once where they have enough in common.
pub(crate) trait RunTogether: Send + Sync {
    /// Runs what can run together into `rows`; says of every series whether it did. The others are to be run alone.
    fn run(
        &self,
        starts: &[Start],
        series: &[Series<'_>],
        rows: &mut [Results<'_>],
        stop: &dyn Fn() -> bool,
    ) -> Vec<bool>;
}

/// The extended filter of a linear model, which is the Kalman filter.
pub(crate) struct Linear<T: RunModel> {
    pub(crate) filter: Extended<Flexible<T>, GaussianNoise<Dyn, Dyn>>,
    pub(crate) model: Flexible<T>,
    /// Whether irregular times are an error.
    pub(crate) even: bool,
    pub(crate) gauge: Gauge,
}

impl<T: RunModel> RunTogether for Linear<T> {
    fn run(
        &self,
        starts: &[Start],
        series: &[Series<'_>],
        rows: &mut [Results<'_>],
        stop: &dyn Fn() -> bool,
    ) -> Vec<bool> {
        let mut done = vec![false; series.len()];
        let mut first = 0;
        while first < series.len() {
            let clock = &series[first];
            let alike =
                |b: &usize| series[*b].same_clock(clock) && starts[*b].cov == starts[first].cov;
            let end = (first..series.len()).take_while(alike).last().map_or(first, |b| b) + 1;
            if end - first >= FEW && self.is_even(clock) {
                let (starts, series) = (&starts[first..end], &series[first..end]);
                self.alike(starts, series, &mut rows[first..end], &mut done[first..end], stop);
            }
            first = end;
        }
        done
    }
}

impl<T: RunModel> Linear<T> {
    /// Whether the clock is one that the filter takes.
    fn is_even(&self, clock: &Series<'_>) -> bool {
        let mut rhythm = Rhythm::default();
        !self.even || (1..clock.len()).all(|k| rhythm.check(&clock.step(k)).is_ok())
    }

    /// Series of one clock, from one covariance.
    fn alike(
        &self,
        starts: &[Start],
        series: &[Series<'_>],
        rows: &mut [Results<'_>],
        done: &mut [bool],
        stop: &dyn Fn() -> bool,
    ) {
        let n = self.model.state_dim().value();
        let cov = starts[0].cov.dense(Dyn(n));
        let begins = |start: &Start| {
            let mean = DVector::from_column_slice(&start.mean);
            start.mean.len() == n && mean.iter().all(|v| v.is_finite())
        };
        let sound = GaussianBelief::new(DVector::zeros(n), cov.clone()).is_ok();
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
            let scribe = Scribe::new(&self.model, &self.gauge, rows);
            match dispatch(Group { graph: &mut graph, means: &means, series, scribe }) {
                Together::Done => done.fill(true),
                Together::Apart => {}
                Together::Crowded => return,
            }
        }
    }
}

/// As many series as a vector has lanes, on their way.
struct Group<'g, 'a, 'r, T: RunModel> {
    graph: &'g mut CommonGain<'a, Flexible<T>, GaussianNoise<Dyn, Dyn>>,
    means: &'g [&'g [f64]],
    series: &'g [Series<'g>],
    scribe: Scribe<'g, 'r, T>,
}

impl<T: RunModel> Kernel for Group<'_, '_, '_, T> {
    type Output = Together;
    #[inline(always)]
    fn run(self) -> Together {
        let Self { graph, means, series, mut scribe } = self;
        graph.run::<WIDTH>(means, series, &mut |k, step, row| scribe.write(k, step, row, series))
    }
}

/// Writes the rows of all lanes to where each belongs.
struct Scribe<'a, 'r, T: RunModel> {
    model: &'a Flexible<T>,
    rows: &'a mut [Results<'r>],
    gauges: Vec<Gauge>,
    /// The length of a whole turn of each state that is an angle.
    turns: Vec<Option<f64>>,
    mean: Vec<Lanes<WIDTH>>,
    expected: Vec<Lanes<WIDTH>>,
}

impl<'a, 'r, T: RunModel> Scribe<'a, 'r, T> {
    fn new(model: &'a Flexible<T>, gauge: &Gauge, rows: &'a mut [Results<'r>]) -> Self {
        let (n, m) = (model.state_dim().value(), model.output_dim().value());
        let flagged = rows.iter().any(|rows| !rows.flags.is_empty());
        Self {
            model,
            gauges: vec![gauge.clone(); if flagged { rows.len() } else { 0 }],
            turns: (0..n).map(|i| model.is_state_angle(i).then(|| model.state_turn(i))).collect(),
            mean: vec![Lanes([0.0; WIDTH]); n],
            expected: vec![Lanes([0.0; WIDTH]); m],
            rows,
        }
    }

    #[inline(always)]
    fn write(
        &mut self,
        k: usize,
        step: &Step,
        row: &LaneRow<'_, Dyn, Dyn, WIDTH>,
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
        for (lane, rows) in self.rows.iter_mut().enumerate() {
            spread(rows.means, k, &self.mean, lane);
            spread(rows.innovations, k, row.innovation, lane);
            copy(rows.covs, k, row.cov(lane));
            copy(rows.innovation_covs, k, row.innovation_cov(lane));
            if let Some(out) = rows.log_likelihoods.get_mut(k) {
                *out = row.log_likelihood.0[lane];
            }
            if let Some(out) = rows.nis.get_mut(k) {
                *out = row.nis.0[lane];
            }
            if let Some((out, gauge)) = rows.flags.get_mut(k).zip(self.gauges.get_mut(lane)) {
                mean.iter_mut().zip(&self.mean).for_each(|(out, v)| *out = v.0[lane]);
                expected.iter_mut().zip(&self.expected).for_each(|(out, v)| *out = v.0[lane]);
                let y = series[lane].observation(k);
                *out = f64::from(gauge.flag(y, &mean, row.nis.0[lane], &expected) as u8);
            }
        }
    }
}

/// One lane into row `k` of results that may not be asked for.
#[inline(always)]
fn spread(rows: &mut [f64], k: usize, values: &[Lanes<WIDTH>], lane: usize) {
    if let Some(row) = rows.get_mut(k * values.len()..(k + 1) * values.len()) {
        for (out, v) in row.iter_mut().zip(values) {
            *out = v.0[lane];
        }
    }
}

/// The same of numbers that are a lane's own.
#[inline(always)]
fn copy(rows: &mut [f64], k: usize, values: &[f64]) {
    if let Some(row) = rows.get_mut(k * values.len()..(k + 1) * values.len()) {
        for (out, v) in row.iter_mut().zip(values) {
            *out = *v;
        }
    }
}

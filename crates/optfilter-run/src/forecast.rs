//! What comes after the last row: states and measurements ahead, with intervals.
//!
//! The belief is carried on through steps in which nothing is measured.
//!
//! | filter | states | measurements |
//! |---|---|---|
//! | kf, ekf, iekf, ukf, etkf, letkf | its mean and covariance | the innovation covariance H P H' + R that it would expect |
//! | imap with error bars | the same, the covariance of its error carried through the linearised dynamics with Q | the same |
//! | pf | quantiles of the particles | quantiles of one draw of the likelihood for each particle |
//! | any, where measurements are not Gaussian | as above | quantiles of [`DRAWS`] draws of state and likelihood |
//! | imap without error bars, vkf | the mean only | the mean only |
//!
//! What is not there is NaN. Draws come from the stream (seed, run, "forecast"), so a forecast is the same each time.
//!
//! ```
//! use optfilter::model::{RandomWalk, Step};
//! use optfilter_run::{Estimate, FilterSpec, Problem, build, forecast};
//!
//! let problem = Problem::new(RandomWalk::new(nalgebra::Dyn(1))).noise(0.5, 1.0).start(0.0, 1.0);
//! let runner = build(&FilterSpec::of("kf")?, &problem)?;
//! let mut live = runner.start(runner.default_start())?;
//! let steps = [Step::even(1, 1.0), Step::even(2, 1.0)];
//! let ahead = forecast(&*runner, &mut *live, &steps, &[])?;
//! println!("{:?}", ahead.measurements[1][0].intervals[2]);
//! assert_eq!(ahead.states[1][0].std, 2f64.sqrt()); // 1 + 0.5 + 0.5
//! assert_eq!(ahead.measurements[1][0].std, 3f64.sqrt());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::choice::Method;
use crate::error::RunError;
use crate::runner::{DynFilter, Estimate, OnlineFilter};
use crate::smooth::mean_direction;
use crate::state_space::StateSpace;
use nalgebra::{DMatrix, DVector};
use optfilter::filter::FilterError;
use optfilter::linalg::psd_factor;
use optfilter::model::Step;
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;

/// How much of the probability the intervals hold.
pub const LEVELS: [f64; 3] = [0.5, 0.8, 0.95];

/// Their names in per cent.
pub const LEVEL_NAMES: [&str; 3] = ["50", "80", "95"];

/// Half their widths on a standard normal.
const HALF_WIDTHS: [f64; 3] =
    [0.674_489_750_196_081_7, 1.281_551_565_544_600_4, 1.959_963_984_540_054];

/// Draws of a Gaussian state whose measurements are not Gaussian.
pub const DRAWS: usize = 4000;

/// A forecast number: its mean, its standard deviation, and the intervals of [`LEVELS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForecastSummary {
    /// The mean.
    pub mean: f64,
    /// The standard deviation; NaN where there is none.
    pub std: f64,
    /// The lower and the upper end for each of [`LEVELS`]; NaN where there are none.
    pub intervals: [(f64, f64); 3],
}

impl ForecastSummary {
    /// Of a Gaussian; NaN in the variance leaves a mean alone.
    pub fn gaussian(mean: f64, variance: f64) -> Self {
        // A variance of minus rounding error is zero.
        let std = if variance.is_nan() { f64::NAN } else { variance.max(0.0).sqrt() };
        Self { mean, std, intervals: HALF_WIDTHS.map(|z| (mean - z * std, mean + z * std)) }
    }

    /// Of draws and their weights; the mean is given.
    fn sampled(mean: f64, draws: &mut [(f64, f64)]) -> Self {
        draws.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = draws.iter().map(|d| d.1).sum();
        let centre: f64 = draws.iter().map(|d| d.0 * d.1).sum::<f64>() / total;
        let variance: f64 = draws.iter().map(|d| (d.0 - centre).powi(2) * d.1).sum::<f64>() / total;
        let intervals = LEVELS.map(|level| {
            let tail = 0.5 * (1.0 - level);
            (quantile(draws, tail * total), quantile(draws, (1.0 - tail) * total))
        });
        Self { mean, std: variance.sqrt(), intervals }
    }
}

/// An angle as the one within half a turn of `centre`; other numbers as they are.
fn near(value: f64, centre: f64, angle: Option<f64>) -> f64 {
    match angle {
        Some(turn) => centre + (value - centre).wrap(turn),
        None => value,
    }
}

/// The smallest draw below which there is no less than this weight.
fn quantile(sorted: &[(f64, f64)], weight: f64) -> f64 {
    let mut sum = 0.0;
    for (value, share) in sorted {
        sum += share;
        if sum >= weight {
            return *value;
        }
    }
    sorted.last().map_or(f64::NAN, |d| d.0)
}

/// States and measurements ahead.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// The steps that lead to each row.
    pub steps: Vec<Step>,
    /// The states, row by row.
    pub states: Vec<Vec<ForecastSummary>>,
    /// The measurements, row by row.
    pub measurements: Vec<Vec<ForecastSummary>>,
}

/// Carries a belief through `steps`, with `inputs` for each of them (steps x inputs), and says what is to be expected.
/// The belief ends where the forecast does.
pub fn forecast(
    runner: &dyn DynFilter,
    live: &mut dyn OnlineFilter,
    steps: &[Step],
    inputs: &[f64],
) -> Result<Forecast, RunError> {
    look_ahead(&*runner.state_space(), runner, live, steps, inputs)
}

/// [`forecast`] by a state space that is there already.
pub(crate) fn look_ahead(
    state_space: &dyn StateSpace,
    runner: &dyn DynFilter,
    live: &mut dyn OnlineFilter,
    steps: &[Step],
    inputs: &[f64],
) -> Result<Forecast, RunError> {
    let (n, m, width) = runner.dims();
    let (expected, found) = (steps.len() * width, inputs.len());
    if expected != found {
        let argument = "inputs of the steps ahead";
        return Err(FilterError::Size { argument, expected, found, index: None }.into());
    }
    let mut stream = state_space.stream(runner.default_start().run, "forecast");
    let (mut out, mut estimate) = (Forecast::default(), Estimate::default());
    for (k, step) in steps.iter().enumerate() {
        let u = &inputs[k * width..][..width];
        live.predict(u, step)?;
        live.estimate(&mut estimate);
        let ahead = Ahead { state_space, u, step, n, m };
        let (states, measurements) = match live.particles() {
            Some((states, weights)) if state_space.method() == Method::Pf => {
                ahead.of_particles(live, &estimate.mean, &states, &weights, &mut stream)?
            }
            _ => ahead.of_moments(live, &estimate, &mut stream)?,
        };
        out.steps.push(*step);
        out.states.push(states);
        out.measurements.push(measurements);
    }
    Ok(out)
}

/// One step of a forecast.
struct Ahead<'a> {
    state_space: &'a dyn StateSpace,
    u: &'a [f64],
    step: &'a Step,
    n: usize,
    m: usize,
}

type Both = (Vec<ForecastSummary>, Vec<ForecastSummary>);

impl Ahead<'_> {
    /// From weighted particles.
    fn of_particles(
        &self,
        live: &dyn OnlineFilter,
        mean: &[f64],
        states: &[f64],
        weights: &[f64],
        stream: &mut Stream,
    ) -> Result<Both, RunError> {
        let measured = self.measured(live, states, weights, stream)?;
        let of_state = |i: usize| {
            let angle = self.state_space.state_angle(i);
            let values = states.chunks_exact(self.n).map(|x| near(x[i], mean[i], angle));
            let mut draws: Vec<_> = values.zip(weights.iter().copied()).collect();
            ForecastSummary::sampled(mean[i], &mut draws)
        };
        Ok(((0..self.n).map(of_state).collect(), measured))
    }

    /// One draw of the measurements for each state; angles around the mean direction of what is expected.
    fn measured(
        &self,
        live: &dyn OnlineFilter,
        states: &[f64],
        weights: &[f64],
        stream: &mut Stream,
    ) -> Result<Vec<ForecastSummary>, RunError> {
        let (mut y, mut means) = (vec![0.0; self.m], vec![0.0; self.m]);
        let mut draws = vec![Vec::with_capacity(weights.len()); self.m];
        let total: f64 = weights.iter().sum();
        let mut expected = vec![0.0; weights.len() * self.m];
        for (x, y) in states.chunks_exact(self.n).zip(expected.chunks_exact_mut(self.m)) {
            live.expected(x, self.u, self.step, y);
        }
        let direction = |i: usize| {
            let values = expected.chunks_exact(self.m).map(|y| y[i]).zip(weights.iter().copied());
            self.state_space.angle(i).map_or(0.0, |turn| mean_direction(values, turn))
        };
        let centre: Vec<f64> = (0..self.m).map(direction).collect();
        let around = |i: usize, y: f64| near(y, centre[i], self.state_space.angle(i));
        let pairs = states.chunks_exact(self.n).zip(weights).zip(expected.chunks_exact(self.m));
        for ((x, weight), expected) in pairs {
            y.copy_from_slice(expected);
            for (i, (mean, y)) in means.iter_mut().zip(&y).enumerate() {
                *mean += around(i, *y) * weight / total;
            }
            self.state_space.draw(x, self.u, self.step, stream, &mut y)?;
            for (i, (draws, y)) in draws.iter_mut().zip(&y).enumerate() {
                draws.push((around(i, *y), *weight));
            }
        }
        Ok(means
            .iter()
            .zip(&mut draws)
            .map(|(m, draws)| ForecastSummary::sampled(*m, draws))
            .collect())
    }

    /// From a mean and a covariance, if there is one.
    fn of_moments(
        &self,
        live: &mut dyn OnlineFilter,
        estimate: &Estimate,
        stream: &mut Stream,
    ) -> Result<Both, RunError> {
        let (n, m) = (self.n, self.m);
        let variance = |i: usize| estimate.std(i).powi(2);
        let states =
            (0..n).map(|i| ForecastSummary::gaussian(estimate.mean[i], variance(i))).collect();
        let mut y = vec![0.0; m];
        live.expected(&estimate.mean, self.u, self.step, &mut y);
        let known = !estimate.cov.is_empty() && !estimate.cov.iter().any(|v| v.is_nan());
        if !known {
            return Ok((
                states,
                y.iter().map(|y| ForecastSummary::gaussian(*y, f64::NAN)).collect(),
            ));
        }
        if !self.state_space.is_gaussian() {
            let points = self.drawn(estimate, stream)?;
            let measured = self.measured(live, &points, &vec![1.0; DRAWS], stream)?;
            return Ok((states, measured));
        }
        // What the filter would make of the expected measurement says how far it expects to be off.
        let (saved, mut seen) = (live.save(), Estimate::default());
        let lost = |_| FilterError::Empty { argument: "saved belief" };
        let saved = saved.map_err(lost)?;
        live.update(&y, self.u, self.step, &mut seen)?;
        live.restore(&saved).map_err(lost)?;
        let of = |i: usize| {
            // Where anything is as likely as anything else there is no innovation.
            let moved = if seen.innovation[i].is_nan() { 0.0 } else { seen.innovation[i] };
            ForecastSummary::gaussian(y[i] - moved, seen.innovation_std(i).powi(2))
        };
        Ok((states, (0..m).map(of).collect()))
    }

    /// States drawn from a Gaussian belief.
    fn drawn(&self, estimate: &Estimate, stream: &mut Stream) -> Result<Vec<f64>, RunError> {
        let n = self.n;
        let cov = DMatrix::from_column_slice(n, n, &estimate.cov);
        let factor = psd_factor(&cov).ok_or(FilterError::NotPositiveDefinite {
            quantity: "predicted covariance",
            index: Some(self.step.index),
        })?;
        let (mut out, mut z) = (Vec::with_capacity(DRAWS * n), DVector::zeros(n));
        for _ in 0..DRAWS {
            stream.fill_normal(z.as_mut_slice());
            let deviation = &factor * &z;
            out.extend(estimate.mean.iter().zip(deviation.iter()).map(|(m, d)| m + d));
        }
        Ok(out)
    }
}

//! What the paper's text says, with the library's own filters and optimizers.
//!
//! All noises are variances and covariances; `Q = alpha^2 dt I` for the Lorenz attractor; filters start at the mean and covariance of the prior;
//! Jacobians are those of the integrator's step; the UKF has Julier's weights with `kappa = 3 - n`; optimizers are the standard ones. Hyper-parameters and the Q of
//! the searches are chosen on 5 separate runs and reported on the others, as the text says.

pub mod simulate;

use crate::control::{Control, Stopped};
use crate::grid::{self, GridMethod, Optimizer, Rule};
use crate::row::{Row, Tuning};
use crate::stats::Summary;
use crate::systems::{Dynamics as Integrator, System};
use nalgebra::{Const, SMatrix, SVector};
use optfilter::Series;
use optfilter::batch::Batch;
use optfilter::drive::{Run, drive};
use optfilter::filter::{
    ExtendedKalmanFilter, Filter, FilterError, GaussianBelief, ImplicitMap, IteratedKalmanFilter,
    ParticleBelief, ParticleFilter, Resampling, Scheme, SigmaPoints, UnscentedKalmanFilter,
};
use optfilter::model::likelihood::{Gaussian, SquaredError};
use optfilter::model::{
    Dynamics, GaussianNoise, Growth, Lorenz63, Model, NoiseError, Observation, RandomWalk, Step,
};
use optfilter::optim::{AnyOptimizer, OptimizerError};
use optfilter::rng::Stream;
use optfilter::simulate::Simulation;
use rayon::prelude::*;
use simulate::{Data, LORENZ_DT, LORENZ_R_VAR, TOY_DT};
use thiserror::Error;

/// Particles of the particle filter.
const PARTICLES: usize = 1000;

/// The library refused something: a defect of this module.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum SpecifiedError {
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error(transparent)]
    Noise(#[from] NoiseError),
    #[error(transparent)]
    Optimizer(#[from] OptimizerError),
    #[error("stopped")]
    Stopped,
}

impl From<Stopped> for SpecifiedError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Rough seconds of work on two cores, for the progress bar only.
pub mod work {
    /// Everything of a toy system.
    pub const TOY: f64 = 2.0;
    /// Everything of a Lorenz system.
    pub const LORENZ: f64 = 8.0;
}

/// A model with its noise and its prior.
struct Case<'a, M> {
    model: M,
    q_var: f64,
    r_var: f64,
    /// Every component of the prior's mean; its covariance is the identity.
    start: f64,
    dt: f64,
    data: &'a Data,
    seed: u32,
}

/// Estimates of the reported runs and of the tuning runs; `None` where the filter failed.
struct Estimates {
    test: Vec<Option<Vec<f64>>>,
    tuning: Vec<Option<Vec<f64>>>,
}

/// All rows of a system.
pub fn rows(
    system: System,
    data: &Data,
    seed: u32,
    control: &Control<'_>,
) -> Result<Vec<Row>, SpecifiedError> {
    match system {
        System::Toy { q, r } => Case {
            model: Growth,
            q_var: f64::from(q),
            r_var: f64::from(r),
            start: 0.0,
            dt: TOY_DT,
            data,
            seed,
        }
        .rows(false, work::TOY, control),
        System::Lorenz { alpha, dynamics } => {
            let alpha = f64::from(alpha);
            let q_var = alpha * alpha * LORENZ_DT;
            let lorenz = Lorenz63::default();
            match dynamics {
                Integrator::Rk4 => lorenz_case(lorenz.rk4(), q_var, data, seed, control),
                Integrator::Euler => lorenz_case(lorenz.euler(), q_var, data, seed, control),
                Integrator::Grw => {
                    lorenz_case(RandomWalk::new(Const::<3>), q_var, data, seed, control)
                }
            }
        }
    }
}

fn lorenz_case<M>(
    model: M,
    q_var: f64,
    data: &Data,
    seed: u32,
    control: &Control<'_>,
) -> Result<Vec<Row>, SpecifiedError>
where
    M: Model + Dynamics<State = Const<3>> + Observation<Output = Const<3>> + Clone + Send + Sync,
{
    Case { model, q_var, r_var: LORENZ_R_VAR, start: 10.0, dt: LORENZ_DT, data, seed }.rows(
        true,
        work::LORENZ,
        control,
    )
}

impl<M> Case<'_, M> {
    fn rows<const N: usize>(
        &self,
        search: bool,
        work: f64,
        control: &Control<'_>,
    ) -> Result<Vec<Row>, SpecifiedError>
    where
        M: Model
            + Dynamics<State = Const<N>>
            + Observation<Output = Const<N>>
            + Clone
            + Send
            + Sync,
    {
        let mut rows = Vec::new();
        let own = [self.q_var];
        control.phase("specified EKF, IEKF", 7, 0.02 * work, || {
            self.extended(&own, |_| GridMethod::Ekf, &mut rows)?;
            for steps in grid::IEKF_STEPS {
                let filter =
                    IteratedKalmanFilter::new(self.model.clone(), self.noise(self.q_var)?, steps)?;
                let estimates = self.gaussian(&filter)?;
                rows.push(self.row(GridMethod::Iekf { steps }, &estimates));
            }
            Ok::<_, SpecifiedError>(())
        })??;
        control.phase("specified UKF", 1, 0.02 * work, || {
            self.unscented(&own, |_| GridMethod::Ukf, &mut rows)
        })??;
        control.phase("specified PF", 1, 0.2 * work, || {
            let estimates = self.particles()?;
            rows.push(self.row(GridMethod::Pf, &estimates));
            Ok::<_, SpecifiedError>(())
        })??;
        self.implicit(if search { 0.4 } else { 0.76 } * work, control, &mut rows)?;
        if search {
            let values: Vec<f64> = (0..grid::Q_SEARCH).map(grid::q_search_value).collect();
            control.phase("specified Q search, EKF", values.len(), 0.12 * work, || {
                self.extended(&values, |q| GridMethod::EkfSearch { q }, &mut rows)
            })??;
            control.phase("specified Q search, UKF", values.len(), 0.24 * work, || {
                self.unscented(&values, |q| GridMethod::UkfSearch { q }, &mut rows)
            })??;
        }
        Ok(rows)
    }

    fn noise<const N: usize>(
        &self,
        q_var: f64,
    ) -> Result<GaussianNoise<Const<N>, Const<N>>, NoiseError> {
        let identity = SMatrix::<f64, N, N>::identity();
        GaussianNoise::new(identity * q_var, identity * self.r_var)
    }

    fn prior<const N: usize>(&self) -> Result<GaussianBelief<Const<N>>, FilterError> {
        GaussianBelief::new(SVector::repeat(self.start), SMatrix::identity())
    }

    fn extended<const N: usize>(
        &self,
        q_vars: &[f64],
        method: impl Fn(f64) -> GridMethod + Sync,
        rows: &mut Vec<Row>,
    ) -> Result<(), SpecifiedError>
    where
        M: Model
            + Dynamics<State = Const<N>>
            + Observation<Output = Const<N>>
            + Clone
            + Send
            + Sync,
    {
        let computed: Vec<Row> = q_vars
            .par_iter()
            .map(|&q| {
                let filter = ExtendedKalmanFilter::new(self.model.clone(), self.noise(q)?);
                Ok(self.row(method(q), &self.gaussian(&filter)?))
            })
            .collect::<Result<_, SpecifiedError>>()?;
        rows.extend(computed);
        Ok(())
    }

    fn unscented<const N: usize>(
        &self,
        q_vars: &[f64],
        method: impl Fn(f64) -> GridMethod + Sync,
        rows: &mut Vec<Row>,
    ) -> Result<(), SpecifiedError>
    where
        M: Model
            + Dynamics<State = Const<N>>
            + Observation<Output = Const<N>>
            + Clone
            + Send
            + Sync,
    {
        let points = SigmaPoints::julier(3.0 - N as f64);
        let computed: Vec<Row> = q_vars
            .par_iter()
            .map(|&q| {
                let filter =
                    UnscentedKalmanFilter::new(self.model.clone(), self.noise(q)?, points)?;
                Ok(self.row(method(q), &self.gaussian(&filter)?))
            })
            .collect::<Result<_, SpecifiedError>>()?;
        rows.extend(computed);
        Ok(())
    }

    /// Run a filter that starts at the prior's mean and covariance.
    fn gaussian<F, const N: usize>(&self, filter: &F) -> Result<Estimates, SpecifiedError>
    where
        F: Filter<State = Const<N>, Output = Const<N>, Belief = GaussianBelief<Const<N>>> + Sync,
    {
        // Taken out: threads share what the closure has, and the model need not be shared.
        let (prior, dt) = (self.prior::<N>()?, self.dt);
        self.each(|_, simulation| {
            let mut means = Vec::with_capacity(simulation.states.len());
            let series = Series::new(&simulation.observations, N).ok()?.with_dt(dt).ok()?;
            drive(filter, &mut prior.clone(), &series.predict_first(), &mut |_, _, belief, _| {
                means.extend_from_slice(belief.mean.as_slice());
                Ok(())
            })
            .ok()?;
            Some(means)
        })
    }

    fn particles<const N: usize>(&self) -> Result<Estimates, SpecifiedError>
    where
        M: Model
            + Dynamics<State = Const<N>>
            + Observation<Output = Const<N>>
            + Clone
            + Send
            + Sync,
    {
        let likelihood = Gaussian::new(SMatrix::<f64, N, N>::identity() * self.r_var)?;
        let filter = ParticleFilter::new(
            self.model.clone(),
            likelihood,
            self.noise(self.q_var)?,
            Resampling::Always(Scheme::Multinomial),
        )?;
        let prior = self.prior::<N>()?;
        self.each(|run, simulation| {
            let stream = Stream::new(u64::from(self.seed), run, "particles");
            let mut belief = ParticleBelief::new(&prior, PARTICLES, stream).ok()?;
            let series = Series::new(&simulation.observations, N).ok()?.with_dt(self.dt).ok()?;
            let series = series.predict_first();
            Some(filter.run(&mut belief, &series).ok()?.means)
        })
    }

    /// Apply a filter to every run, each with a number of its own.
    fn each(
        &self,
        filter: impl Fn(u64, &Simulation) -> Option<Vec<f64>> + Sync,
    ) -> Result<Estimates, SpecifiedError> {
        let part = |runs: &[Simulation], first: u64| {
            runs.par_iter()
                .enumerate()
                .map(|(i, simulation)| filter(first + i as u64, simulation))
                .collect()
        };
        Ok(Estimates { test: part(&self.data.test, 0), tuning: part(&self.data.tuning, 1 << 40) })
    }

    fn implicit<const N: usize>(
        &self,
        work: f64,
        control: &Control<'_>,
        rows: &mut Vec<Row>,
    ) -> Result<(), SpecifiedError>
    where
        M: Model
            + Dynamics<State = Const<N>>
            + Observation<Output = Const<N>>
            + Clone
            + Send
            + Sync,
    {
        let runs = || self.data.test.iter().chain(&self.data.tuning);
        let series = runs()
            .map(|run| Ok(Series::new(&run.observations, N)?.with_dt(self.dt)?.predict_first()))
            .collect::<Result<Vec<_>, FilterError>>()?;
        let starts = vec![SVector::<f64, N>::repeat(self.start); series.len()];
        let batch = Batch::new(series);
        for rule in Rule::ALL {
            let all = grid::optimizers().into_iter().filter(|o| o.rule == rule);
            let configurations: Vec<Optimizer> = all.collect();
            let share = configurations.len() as f64 / 287.0;
            let name = format!("specified {}", rule.method());
            let computed = control.phase(&name, configurations.len(), share * work, || {
                configurations
                    .par_iter()
                    .map(|o| {
                        let optimizer = standard(o)?;
                        let filter =
                            ImplicitMap::new(self.model.clone(), SquaredError, optimizer, o.steps)?;
                        let out = batch.run(&filter, &starts)?;
                        let of = |range: core::ops::Range<usize>| {
                            range.map(|b| out.trajectory(b)?.ok()).collect()
                        };
                        let tests = self.data.test.len();
                        let estimates =
                            Estimates { test: of(0..tests), tuning: of(tests..batch.len()) };
                        Ok(self.row(GridMethod::Imap(*o), &estimates))
                    })
                    .collect::<Result<Vec<Row>, SpecifiedError>>()
            })??;
            rows.extend(computed);
        }
        Ok(())
    }

    /// Summarise estimates.
    fn row<const N: usize>(&self, method: GridMethod, estimates: &Estimates) -> Row
    where
        M: Model + Dynamics<State = Const<N>> + Observation<Output = Const<N>>,
    {
        let rmses = |runs: &[Simulation], estimates: &[Option<Vec<f64>>]| -> Vec<f64> {
            let each = runs.iter().zip(estimates);
            each.map(|(run, means)| match means {
                Some(means) => optfilter::metrics::rmse(means, &run.states),
                None => f64::NAN,
            })
            .collect()
        };
        let tuning = rmses(&self.data.tuning, &estimates.tuning);
        let predictions = self.data.tuning.iter().zip(&estimates.tuning);
        let prediction: f64 = predictions
            .map(|(run, means)| match means {
                Some(means) => self.prediction_error(run, means),
                None => f64::NAN,
            })
            .sum();
        let count = self.data.tuning.len() as f64;
        Row {
            method,
            summary: Summary::of(&rmses(&self.data.test, &estimates.test)),
            tuning: Some(Tuning {
                rmse: tuning.iter().sum::<f64>() / count,
                prediction: prediction / count,
            }),
        }
    }

    /// Root mean square of `y_t - h(f(x_{t-1}))`: how well the estimates foretell the next measurement.
    fn prediction_error<const N: usize>(&self, run: &Simulation, means: &[f64]) -> f64
    where
        M: Model + Dynamics<State = Const<N>> + Observation<Output = Const<N>>,
    {
        let mut before = [self.start; N];
        let mut sum = 0.0;
        for (k, y) in run.observations.chunks(N).enumerate() {
            let step = Step::even(k as u64 + 1, self.dt);
            let (mut ahead, mut seen) = ([0.0; N], [0.0; N]);
            self.model.transition(&before, &[], &step, &mut ahead);
            self.model.observe(&ahead, &[], &step, &mut seen);
            for c in 0..N {
                sum += (y[c] - seen[c]) * (y[c] - seen[c]);
            }
            before.copy_from_slice(&means[k * N..][..N]);
        }
        (sum / run.observations.len() as f64).sqrt()
    }
}

/// The library's optimizer of a configuration.
fn standard(o: &Optimizer) -> Result<AnyOptimizer, OptimizerError> {
    let name = match o.rule {
        Rule::Gd => "gd",
        Rule::Adam => "adam",
        Rule::RmsProp => "rmsprop",
        Rule::Adagrad => "adagrad",
        Rule::Adadelta => "adadelta",
    };
    AnyOptimizer::from_name(name, o.lr.unwrap_or(1.0), o.decay)
}

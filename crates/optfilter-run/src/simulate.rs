//! Trajectories of a problem and measurements of them.

use crate::error::SpecError;
use crate::problem::{Covariance, LikelihoodSpec, Problem};
use optfilter::Pooled;
use optfilter::filter::{FilterError, GaussianBelief};
use optfilter::model::{Dynamics, Observation, Step};
use optfilter::rng::Stream;
use optfilter::simulate::{Beginning, Scene};

/// Why a model cannot be simulated.
#[derive(Clone, Debug, PartialEq)]
pub enum SimulationError {
    /// The model does not say enough.
    Problem(SpecError),
    /// The simulation failed on the way.
    Run(FilterError),
}

impl From<SpecError> for SimulationError {
    fn from(error: SpecError) -> Self {
        Self::Problem(error)
    }
}

impl std::fmt::Display for SimulationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Problem(e) => e.fmt(f),
            Self::Run(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for SimulationError {}

/// Simulates any problem; every random number comes from the stream (seed, run, "simulate").
pub fn simulate(
    problem: &Problem,
    rows: usize,
    (seed, run): (u64, u64),
    predict_first: bool,
    inputs: &[f64],
    visit: impl FnMut(&Step, &[f64], &[f64]) -> bool,
) -> Result<(), SimulationError> {
    let model = problem.model.equations().clone();
    let (n, m) = (model.state_dim(), model.output_dim());
    if problem.likelihood.is_none() && problem.measurement.is_none() {
        return Err(SpecError::of("R", "to simulate, the model needs measurement noise").into());
    }
    if problem.process.is_none() {
        return Err(SpecError::of("Q", "to simulate, the model needs process noise").into());
    }
    if let Some(LikelihoodSpec::Foreign(_)) = problem.likelihood {
        let message = "a density that is only known by its logarithm cannot be drawn from; simulate with another likelihood";
        return Err(SpecError::of("likelihood", message).into());
    }
    let likelihood = scattered(problem, m.0).likelihood(m, false)?;
    let unit = Covariance::Scalar(1.0);
    let noise = problem.slim_noise(n, m, 1.0, Some(&unit))?;
    let mean = Pooled::vector(&problem.mean);
    let (joint, variances);
    let start = match &problem.cov {
        Covariance::Dense(cov) => {
            joint =
                GaussianBelief::new(mean, Pooled::matrix(cov.nrows(), cov.ncols(), cov.as_slice()))
                    .map_err(SimulationError::Run)?;
            Beginning::Joint(&joint)
        }
        each => {
            variances = Pooled::vector(&(0..n.0).map(|i| each.variance(i)).collect::<Vec<_>>());
            Beginning::Each(&mean, &variances)
        }
    };
    let scene = Scene {
        model: &model,
        noise: &noise,
        likelihood: &likelihood,
        start,
        bounds: problem.bounds.as_ref(),
        inputs,
        dt: problem.dt,
        predict_first,
    };
    let mut stream = Stream::new(seed, run, "simulate");
    scene.play(rows, &mut stream, visit).map_err(SimulationError::Run)
}

/// The problem with measurements that can be drawn: where one has no noise, with noise that no number notices.
fn scattered(problem: &Problem, m: usize) -> Problem {
    const UNNOTICED: f64 = 1e-300;
    let mut out = problem.clone();
    out.measurement = problem.measurement.clone().map(|r| match r {
        Covariance::Dense(mut cov) => {
            (0..m.min(cov.nrows())).for_each(|i| cov[(i, i)] = cov[(i, i)].max(UNNOTICED));
            Covariance::Dense(cov)
        }
        exact if (0..m).any(|i| exact.variance(i) == 0.0) => {
            Covariance::Diagonal((0..m).map(|i| exact.variance(i).max(UNNOTICED)).collect())
        }
        other => other,
    });
    out
}

//! What must hold for one filter on one model and its rows.

use crate::data::{Data, ROWS};
use optfilter_model::run::build_text;
use optfilter_model::{FilterSpec, LikelihoodKind, Method, ModelSpec};
use optfilter_run::{CancelCheck, Estimate, OutputBuffers, Session};

/// How a filter ended where nothing was wrong.
#[derive(Clone, Copy, PartialEq)]
pub enum Ending {
    /// The filter does not fit the model, and says so.
    Refused,
    /// A row ended it, and says so.
    Failed,
    /// Every row was taken.
    Done,
}

/// Runs one method over the rows, as a stream, as a series and in lanes. The error says what does not hold.
pub fn trial(spec: &ModelSpec, data: &Data, method: Method) -> Result<Ending, String> {
    let filter = FilterSpec { method: Some(method), ..FilterSpec::default() }.over(&spec.filter);
    let Ok(problem) = spec.problem() else { return Ok(Ending::Refused) };
    let Ok(runner) = build_text(&filter, &problem, None, true) else { return Ok(Ending::Refused) };
    let Ok(mut session) = Session::new(&*runner, &filter, spec.dt) else {
        return Err("a filter was built that cannot start".into());
    };
    let rows = stream(spec, data, method, &mut session)?;
    let before = save(&session)?;
    let failed = rows.len() < ROWS;
    // A series that cannot be (an infinite value, times that run backwards) has a row that failed.
    let Ok(series) = data.series(spec, filter.predict_first()) else {
        return if failed {
            Ok(Ending::Failed)
        } else {
            Err("a stream took rows that no series can hold".into())
        };
    };
    let (n, _, _) = runner.dims();
    let (mut means, mut covs) =
        (vec![0.0; ROWS * n], vec![0.0; if runner.has_cov() { ROWS * n * n } else { 0 }]);
    let mut into = OutputBuffers { means: &mut means, covs: &mut covs, ..OutputBuffers::default() };
    let run = runner.run(runner.default_start(), &series, &mut into, &CancelCheck::NEVER);
    if run.is_err() != failed {
        return Err(format!("series and stream disagree: {run:?} after {} rows", rows.len()));
    }
    for (k, row) in rows.iter().enumerate() {
        let cov = covs.get(k * n * n..(k + 1) * n * n).unwrap_or_default();
        if !same(&row.mean, &means[k * n..(k + 1) * n]) || !same(&row.cov, cov) {
            return Err(format!("series and stream differ at row {}", k + 1));
        }
    }
    if !means[rows.len() * n..].iter().all(|v| v.is_nan()) {
        return Err("a series that failed holds rows from after its failure".into());
    }
    if save(&session)? != before {
        return Err("a series moved the stream beside it".into());
    }
    if let Some(lanes) = runner.lanes()
        && !spec.state_angles.contains(&true)
    {
        let start = runner.default_start().clone();
        let estimates = lanes
            .run(&[start.clone(), start], &[series, series])
            .map_err(|e| format!("lanes refuse: {e}"))?;
        match estimates.trajectory(1) {
            Some(Ok(lane)) if !failed && same(&lane, &means) => {}
            Some(Err(_)) if failed => {}
            other => return Err(format!("lanes give {other:?}, a series {run:?} with {means:?}")),
        }
    }
    Ok(if failed { Ending::Failed } else { Ending::Done })
}

/// Takes every row, those after a failure too, and returns the estimates from before the first failure.
fn stream(
    spec: &ModelSpec,
    data: &Data,
    method: Method,
    session: &mut Session,
) -> Result<Vec<Estimate>, String> {
    let (p, m) = (spec.inputs.len(), spec.observations.len());
    let (mut taken, mut failed) = (Vec::new(), false);
    for row in 0..ROWS {
        let before = save(session)?;
        let time = data.times.as_ref().map(|t| t[row]);
        let (u, y) = (&data.inputs[row * p..(row + 1) * p], &data.outputs[row * m..(row + 1) * m]);
        match session.take(time, false, u, y) {
            Ok(_) => {
                check(&session.estimate, y, spec, method)
                    .map_err(|what| format!("{what} at row {}", row + 1))?;
                if !failed {
                    taken.push(session.estimate.clone());
                }
            }
            Err(_) if save(session)? == before => failed = true,
            Err(e) => {
                return Err(format!("row {} failed ({e:?}) and left something changed", row + 1));
            }
        }
        if row == ROWS / 2 {
            let bytes = save(session)?;
            session.restore(&bytes).map_err(|e| format!("a checkpoint does not load: {e}"))?;
            if save(session)? != bytes {
                return Err("a checkpoint does not come back as it was".into());
            }
        }
    }
    Ok(taken)
}

/// Whether an estimate is one: numbers where there must be some, NaN only where something is missing or given up.
fn check(estimate: &Estimate, y: &[f64], spec: &ModelSpec, method: Method) -> Result<(), String> {
    let finite = |values: &[f64]| values.iter().all(|v| v.is_finite());
    if !finite(&estimate.mean) {
        return Err(format!("`Ok` with the estimate {:?}", estimate.mean));
    }
    let given_up = method == Method::Imap && estimate.cov.iter().all(|v| v.is_nan());
    if !given_up && !finite(&estimate.cov) {
        return Err(format!("`Ok` with the covariance {:?}", estimate.cov));
    }
    let n = estimate.mean.len();
    if !given_up && !estimate.cov.is_empty() && (0..n).any(|i| estimate.std(i).is_nan()) {
        return Err(format!("`Ok` with a negative variance: {:?}", estimate.cov));
    }
    for (i, (v, y)) in estimate.innovation.iter().zip(y).enumerate() {
        if v.is_nan() != y.is_nan() || v.is_infinite() {
            return Err(format!("`Ok` with innovation {i} = {v} of {y}"));
        }
    }
    let observed = y.iter().filter(|v| !v.is_nan()).count();
    if estimate.observed != observed {
        return Err(format!("{} components count as observed, not {observed}", estimate.observed));
    }
    let spreads = !estimate.innovation_cov.is_empty() && !given_up;
    // Counts and zeros and ones have no normalised innovation, no square of theirs being chi-square; nor has what has
    // no variance.
    let has_none = |kind: &LikelihoodKind| match kind {
        LikelihoodKind::Poisson { .. } | LikelihoodKind::Bernoulli { .. } => true,
        LikelihoodKind::StudentT { dof } => *dof <= 2.0,
        _ => false,
    };
    // Particles weigh by the likelihood and go on where the covariance of their innovations has no inverse.
    let may_lack = method == Method::Pf || spec.likelihoods.iter().any(has_none);
    let lost = estimate.nis.is_nan() && !may_lack;
    if spreads && observed > 0 && (estimate.log_likelihood.is_nan() || lost) {
        return Err(format!(
            "`Ok` with log-likelihood {} and NIS {}",
            estimate.log_likelihood, estimate.nis
        ));
    }
    Ok(())
}

fn same(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
}

fn save(session: &Session) -> Result<Vec<u8>, String> {
    session.save().map_err(|e| format!("a checkpoint cannot be written: {e}"))
}

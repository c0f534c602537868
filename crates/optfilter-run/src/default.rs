//! The filter that fits a problem where none is named, and what a filter leaves untouched.
//!
//! | the problem | its filter |
//! |---|---|
//! | Q and R given, linear, Gaussian | kf; imap, as below, where by the model's own account that hardly beats repeating |
//! | Q and R given | ekf, robust under Student's t and Huber's law; pf where that loses the state on what the model itself simulates |
//! | otherwise | imap: gradient descent at half of one over the largest curvature of the likelihood |
//!
//! A stream has shown nothing yet when its filter is made, so nothing here looks at data. An extended Kalman filter
//! of a model whose measurements leave several states possible can follow a wrong one for ever; twenty short
//! simulations show it. Gradient descent at such a rate converges, and 50 steps of it end at what the measurement
//! says in every direction that is seen: without noise to go by, a measurement is believed, and the prediction is
//! the model's own from there.
//!
//! The same simulations show what a Kalman filter has to gain. Where its predictions, of a model that is right, are less
//! than 1 % better than repeating the measurement before, there is next to nothing to win by doubting a measurement, and
//! more to lose if the model is wrong: a series whose changes go on in their direction, under a random walk that does not
//! say so, is then predicted worse than by repeating. Believing measurements costs that 1 % at most. (What is not linear or
//! not Gaussian gains more in one place than in another, so simulations from the start do not tell.)

use crate::build::build;
use crate::choice::Method;
use crate::linearize::Linearized;
use crate::problem::{LikelihoodSpec, Problem};
use crate::runner::{DynFilter, Estimate};
use crate::settings::FilterSpec;
use crate::simulate::simulate;
use crate::spec::MAX_STATES_WITH_BARS;
use nalgebra::Dim;
use optfilter::Pooled;
use optfilter::model::likelihood::Component;
use optfilter::model::{Dynamics, Observation, Step};
use optfilter::scalar::Scalar;

/// States and measurements up to which the curvature is looked at; it takes their third power.
const MAX_LINEARIZED: usize = 300;

/// Simulations that a filter is tried on, their rows, and the most states of a model that is simulated.
const TRIALS: u64 = 20;
const TRIAL_ROWS: usize = 100;
const MAX_TRIED: usize = 10;

/// The share of the error of repeating that a filter has to save on its own simulations to be worth its doubts.
const LEAST_GAIN: f64 = 0.01;

/// Fewer particles than these that count are one.
pub const LONELY: f64 = 2.0;

/// Rows that the initial mean is carried through to see where the model goes.
const ROWS_AHEAD: u64 = 100;

impl FilterSpec {
    /// The same settings with the filter named: the one they name, imap where they set an optimizer, else the
    /// one that fits the problem.
    #[must_use]
    pub fn fitted(&self, problem: &Problem) -> Self {
        let classical = self.classical(problem);
        // A start that is unknown asks for the filter that knows what follows from it.
        let named = self.method.is_some() || self.sets_optimizer() || problem.is_diffuse();
        if named || classical.method() != Method::Kf {
            return classical;
        }
        let believing = self.believing(problem);
        // What imap leaves where it is, it cannot stand in for.
        let stands_in = || {
            build(&believing, problem).is_ok_and(|r| unmoved_by(&[false], &*r, problem).is_empty())
        };
        let small = problem.model.state_dim().value() <= MAX_TRIED;
        let little = small && stands_in() && Trial::of(&classical, problem) == Trial::GainsLittle;
        if little { believing } else { classical }
    }

    /// [`fitted`](Self::fitted) where a likelihood is asked for: where noise is given, always a filter that has one.
    #[must_use]
    pub fn classical(&self, problem: &Problem) -> Self {
        if self.method.is_some() || self.sets_optimizer() {
            return Self { method: Some(self.method()), ..self.clone() };
        }
        let (n, m) = (problem.model.state_dim().value(), problem.model.output_dim().value());
        let scales = problem.robust_laws().map(Problem::scales);
        let r = scales.as_ref().or(problem.measurement.as_ref());
        let noise = || problem.gaussian_noise(Pooled(n), Pooled(m), 1.0, r);
        if let Some(LikelihoodSpec::Foreign(_)) = problem.likelihood
            && n <= MAX_STATES_WITH_BARS
            && problem.process.is_some()
        {
            return Self { method: Some(Method::Pf), ..self.clone() };
        }
        if n > MAX_STATES_WITH_BARS || noise().is_err() {
            return self.believing(problem);
        }
        let of = |method| Self { method: Some(method), ..self.clone() };
        if problem.model.is_linear() && problem.is_gaussian() {
            return of(Method::Kf);
        }
        let ekf = of(Method::Ekf);
        let lost = n <= MAX_TRIED && Trial::of(&ekf, problem) == Trial::Lost;
        if lost { of(Method::Pf) } else { ekf }
    }

    /// imap that believes what is measured.
    #[must_use]
    pub fn believing(&self, problem: &Problem) -> Self {
        let (n, m) = (problem.model.state_dim().value(), problem.model.output_dim().value());
        let mut imap = Self { method: Some(Method::Imap), ..self.clone() };
        let curvature = if n.max(m) <= MAX_LINEARIZED { curvature(problem) } else { 0.0 };
        if curvature > 0.0 {
            // Three digits: enough for a rate, and few enough to read and to write.
            let rate = format!("{:.2e}", 0.5 / curvature).parse().ok();
            (imap.optimizer, imap.lr) = (Some("gd".into()), rate);
        }
        imap
    }
}

/// What a filter makes of simulations of its own model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trial {
    /// It failed, or predicted one of them worse, by more than a tenth, than repeating the measurement before.
    Lost,
    /// Over all of them it predicted no measurement better than repeating, by [`LEAST_GAIN`] at least.
    GainsLittle,
    Works,
}

impl Trial {
    fn of(spec: &FilterSpec, problem: &Problem) -> Self {
        let Ok(runner) = build(spec, problem) else { return Self::Works };
        let model = &problem.model;
        let (m, inputs) = (model.output_dim().value(), model.input_dim());
        let all_inputs = vec![1.0; TRIAL_ROWS * inputs];
        let (mut all_errors, mut all_changes) = (vec![0.0; m], vec![0.0; m]);
        for run in 0..TRIALS {
            let Ok(mut live) = runner.start(runner.default_start()) else { return Self::Works };
            let mut out = Estimate::default();
            let mut last: Option<Vec<f64>> = None;
            let (mut errors, mut changes, mut failed) = (vec![0.0; m], vec![0.0; m], false);
            let take = |step: &Step, _: &[f64], y: &[f64]| {
                let u = &all_inputs[..inputs];
                failed = live.step(last.is_some(), step, u, y, &mut out).is_err();
                if let (Some(last), false) = (&last, failed) {
                    for i in 0..m {
                        let change = y[i] - last[i];
                        let change =
                            if model.is_angle(i) { change.wrap(model.turn(i)) } else { change };
                        errors[i] += out.innovation[i] * out.innovation[i];
                        changes[i] += change * change;
                    }
                }
                last = Some(y.to_vec());
                !failed
            };
            let seed = (u64::from(u32::MAX), run);
            if simulate(problem, TRIAL_ROWS, seed, false, &all_inputs, take).is_err() {
                continue;
            }
            if failed || (0..m).any(|i| errors[i] > 1.1 * 1.1 * changes[i]) {
                return Self::Lost;
            }
            all_errors.iter_mut().zip(&errors).for_each(|(sum, e)| *sum += e);
            all_changes.iter_mut().zip(&changes).for_each(|(sum, c)| *sum += c);
        }
        let most = (1.0 - LEAST_GAIN) * (1.0 - LEAST_GAIN);
        // Nothing simulated, nothing known.
        let little = |i: usize| all_changes[i] > 0.0 && all_errors[i] > most * all_changes[i];
        if (0..m).all(little) { Self::GainsLittle } else { Self::Works }
    }
}

/// The largest curvature of the likelihood at the initial mean, a deviation to each side of it, and where the
/// equations carry it.
fn curvature(problem: &Problem) -> f64 {
    let model = problem.model.equations().clone();
    let u = vec![0.0; model.input_dim()];
    let start = Step { time: 0.0, ..Step::even(1, problem.dt) };
    let mut points = vec![(problem.mean.clone(), start)];
    if problem.mean.len() <= MAX_STATES_WITH_BARS {
        for i in 0..problem.mean.len() {
            let std = problem.cov.variance(i).sqrt();
            for side in [std, -std] {
                let mut x = problem.mean.clone();
                x[i] += side;
                points.push((x, start));
            }
        }
        let mut x = problem.mean.clone();
        for index in 2..ROWS_AHEAD {
            let time = (index - 1) as f64 * problem.dt;
            let step = Step { time, ..Step::even(index, problem.dt) };
            let before = x.clone();
            model.transition(&before, &u, &step, &mut x);
            points.push((x.clone(), step));
        }
    }
    let at = |(x, step): &(Vec<f64>, Step)| {
        let seen = Linearized::at(problem, x, step, &u).map(|at| at.curvature()).unwrap_or(0.0);
        if seen.is_finite() { seen } else { 0.0 }
    };
    points.iter().map(at).fold(0.0, f64::max)
}

/// The states whose estimates depend on no measurement: neither does an update move them, nor do the equations
/// carry a correction to them. Found by runs on measurements that differ: by a deviation of theirs and, where some states stay as
/// they were, by as much as the filter itself is unsure of them, since a deviation may be lost in the last place of a number. Empty
/// where these fail or leave a particle alone, and for more than a hundred states.
pub fn unmoved(runner: &dyn DynFilter, problem: &Problem) -> Vec<usize> {
    unmoved_by(&[false, true], runner, problem)
}

/// [`unmoved`] by measurements that differ so widely or not.
fn unmoved_by(widely: &[bool], runner: &dyn DynFilter, problem: &Problem) -> Vec<usize> {
    let n = problem.mean.len();
    if n > MAX_STATES_WITH_BARS {
        return Vec::new();
    }
    let model = problem.model.equations().clone();
    let m = model.output_dim().value();
    // Inputs of one: a robot that stands still learns less than one that drives.
    let u = vec![1.0; model.input_dim()];
    let run = |by: [f64; 2], wide: &[Estimate]| -> Option<Vec<Estimate>> {
        let mut live = runner.start(runner.default_start()).ok()?;
        let (mut x, mut y) = (problem.mean.clone(), vec![0.0; m]);
        let mut out = Estimate::default();
        // Each row carries a correction at least one state further.
        (1..=n as u64 + 1)
            .map(|index| {
                let time = (index - 1) as f64 * problem.dt;
                let step = Step { time, ..Step::even(index, problem.dt) };
                if index > 1 {
                    let before = x.clone();
                    model.transition(&before, &u, &step, &mut x);
                }
                model.observe(&x, &u, &step, &mut y);
                let (by, row) = (by[(index % 2) as usize], wide.get(index as usize - 1));
                for (i, y) in y.iter_mut().enumerate() {
                    let spread = row.map_or(0.0, |row| row.innovation_std(i).max(1e-6 * y.abs()));
                    *y = problem.imagined(i, *y, by, spread);
                }
                live.step(index > 1, &step, &u, &y, &mut out).ok()?;
                // A particle that is alone stays where it is, whatever is measured.
                (out.effective >= LONELY).then(|| out.clone())
            })
            .collect()
    };
    let Some(one) = run([0.0; 2], &[]) else { return Vec::new() };
    let mut still: Vec<usize> = (0..n).collect();
    for &widely in widely {
        let wide = if widely { &one[..] } else { &[] };
        // By turns more and less: a path of another speed would not be seen in numbers that are all moved alike.
        let Some(two) = run([1.0, 2.0], wide) else {
            return if widely { still } else { Vec::new() };
        };
        still.retain(|&i| one.iter().zip(&two).all(|(a, b)| a.mean[i] == b.mean[i]));
        if still.is_empty() {
            break;
        }
    }
    still
}

impl Problem {
    /// A measurement that component `i` may have where `eta` is expected, or others: `shift` is 0, or else 1 or 2, of its own
    /// deviation or a wider spread.
    fn imagined(&self, i: usize, eta: f64, shift: f64, spread: f64) -> f64 {
        match &self.likelihood {
            Some(LikelihoodSpec::Components(parts)) => match parts.get(i) {
                Some(Component::Poisson(_)) => 1.0 + 2.0 * shift,
                Some(Component::Bernoulli(_)) => f64::from(shift == 1.0),
                _ => eta + shift * spread.max(1.0),
            },
            _ => {
                let std = self.measurement.as_ref().map_or(1.0, |r| r.variance(i).sqrt());
                // What is measured exactly may still be another number.
                eta + shift * spread.max(if std > 0.0 { std } else { 1.0 })
            }
        }
    }
}

//! Whether the error bars of windows tell the truth on chaotic systems: the mean of e' P^-1 e / D, which is 1 where they do.
//!
//! ```text
//! cargo run --release -p optfilter --example window_consistency [CYCLES]
//! ```
//!
//! Every window knows the Q and R of the simulation for its error bars; strong constraints do not use them for the
//! estimate. An extended Kalman filter on the same measurements stands beside them.

use nalgebra::{DMatrix, DVector, Dyn};
use optfilter::Series;
use optfilter::drive::drive;
use optfilter::filter::{
    Belief, ExtendedKalmanFilter, Filter, GaussianBelief, ProcessFactor, Responsive, Window,
    WindowBars, WindowBarsBelief,
};
use optfilter::model::likelihood::Gaussian;
use optfilter::model::{
    Dynamics, GaussianNoise, Integrated, Lorenz63, Lorenz96, Model, Observation, Step,
};
use optfilter::optim::{ConjugateGradients, GradientDescent};
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;
use std::error::Error;
use std::sync::Arc;

/// Three states that are counted at run time, as forty are.
#[derive(Clone, Copy)]
struct AtRunTime(Integrated<Lorenz63>);

impl Dynamics for AtRunTime {
    type State = Dyn;
    fn state_dim(&self) -> Dyn {
        Dyn(3)
    }
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.0.transition(x, u, step, out);
    }
}

impl Observation for AtRunTime {
    type Output = Dyn;
    fn output_dim(&self) -> Dyn {
        Dyn(3)
    }
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out.copy_from_slice(x);
    }
}

/// A simulation with every state measured.
struct Twin<M> {
    name: &'static str,
    model: M,
    dt: f64,
    q: f64,
    r: f64,
    truth: Vec<f64>,
    seen: Vec<f64>,
    start: DVector<f64>,
}

impl<M: Model<State = Dyn, Output = Dyn> + Clone> Twin<M> {
    fn new(
        name: &'static str,
        model: M,
        begin: Vec<f64>,
        (dt, q, r): (f64, f64, f64),
        cycles: usize,
    ) -> Self {
        let mut stream = Stream::new(11, 0, "window consistency");
        let (mut x, mut next) = (begin.clone(), begin);
        let (mut truth, mut seen, mut start) = (Vec::new(), Vec::new(), DVector::zeros(x.len()));
        for k in 1..=cycles + 1000 {
            model.transition(&x, &[], &Step::even(k as u64, dt), &mut next);
            for (x, next) in x.iter_mut().zip(&next) {
                *x = next + q.sqrt() * stream.normal();
            }
            if k == 1000 {
                start = DVector::from_fn(x.len(), |i, _| x[i] + stream.normal());
            }
            if k > 1000 {
                truth.extend_from_slice(&x);
                seen.extend(x.iter().map(|x| x + r.sqrt() * stream.normal()));
            }
        }
        Self { name, model, dt, q, r, truth, seen, start }
    }

    fn noise(&self) -> Result<GaussianNoise<Dyn, Dyn>, Box<dyn Error>> {
        let identity = DMatrix::identity(self.start.len(), self.start.len());
        Ok(GaussianNoise::new(&identity * self.q, identity * self.r)?)
    }

    /// Prints RMSE, NEES over D and NIS over the measurements after a tenth of the rows.
    fn show<F>(&self, name: &str, filter: &F, mut belief: F::Belief) -> Result<(), Box<dyn Error>>
    where
        F: Filter<State = Dyn, Output = Dyn>,
        F::Belief: Belief<Dyn>,
    {
        let n = self.start.len();
        let series = Series::new(&self.seen, n)?.with_dt(self.dt)?.predict_first();
        let (mut rows, mut rmse, mut nees, mut nis) = (0, 0.0, 0.0, 0.0);
        let mut row = 0;
        drive(filter, &mut belief, &series, &mut |_, _, belief, update| {
            let truth = &self.truth[row * n..][..n];
            row += 1;
            if row > self.truth.len() / n / 10 {
                let error = belief.mean() - DVector::from_column_slice(truth);
                rows += 1;
                rmse += (error.norm_squared() / n as f64).sqrt();
                let solved = belief.cov().and_then(|cov| cov.cholesky()).map(|c| c.solve(&error));
                nees += solved.map_or(f64::NAN, |s| s.dot(&error) / n as f64);
                nis += update.nis.unwrap_or(f64::NAN) / n as f64;
            }
            Ok(())
        })?;
        let mean = |sum: f64| sum / f64::from(rows);
        println!(
            "{:34} {name:34} RMSE {:.4}  NEES/D {:6.3}  NIS/D {:.3}",
            self.name,
            mean(rmse),
            mean(nees),
            mean(nis)
        );
        Ok(())
    }

    fn window<R: Responsive>(
        &self,
        name: &str,
        rule: R,
        (steps, length, discount, weak): (u32, usize, f64, bool),
    ) -> Result<(), Box<dyn Error>> {
        let n = self.start.len();
        let likelihood = Gaussian::new(DMatrix::identity(n, n) * self.r)?;
        let mut window = Window::new(self.model.clone(), likelihood, rule, steps, length)?
            .with_discount(discount)?;
        if weak {
            let factor = Arc::new(ProcessFactor::Diagonal(vec![self.q.sqrt(); n]));
            let initial = ProcessFactor::Diagonal(vec![1.0; n]);
            window = window.weak(move |_: &Step| factor.clone(), initial)?;
        }
        let bars = WindowBars::new(window, self.noise()?)?;
        let start = WindowBarsBelief::new(self.start.clone(), DMatrix::identity(n, n))?;
        let kind = if weak { "weak" } else { "strong" };
        self.show(&format!("{kind}, {name} K={steps} L={length} g={discount}"), &bars, start)
    }

    fn extended(&self) -> Result<(), Box<dyn Error>> {
        let n = self.start.len();
        let start = GaussianBelief::new(self.start.clone(), DMatrix::identity(n, n))?;
        self.show(
            "extended Kalman filter",
            &ExtendedKalmanFilter::new(self.model.clone(), self.noise()?),
            start,
        )
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let cycles = std::env::args().nth(1).map_or(Ok(1000), |text| text.parse())?;
    let cg = ConjugateGradients::default;
    let gd = GradientDescent::new;
    for q in [0.01, 0.1] {
        let name = if q < 0.05 { "Lorenz '63, Q = 0.01" } else { "Lorenz '63, Q = 0.1" };
        let model = AtRunTime(Lorenz63::default().rk4());
        let twin = Twin::new(name, model, vec![1.0, 2.0, 20.0], (0.02, q, 2.0), cycles);
        twin.extended()?;
        twin.window("gd lr=0.1", gd(0.1)?, (3, 4, 0.8, false))?;
        twin.window("cg", cg(), (3, 16, 0.9, false))?;
        twin.window("cg", cg(), (3, 8, 0.7, false))?;
        twin.window("gd lr=0.03", gd(0.03)?, (10, 8, 1.0, true))?;
        twin.window("cg", cg(), (10, 16, 1.0, true))?;
        twin.window("cg", cg(), (40, 16, 1.0, true))?;
    }
    // Without any model noise the errors die out in most directions, and the covariance has no inverse.
    let model = Lorenz96::new(Dyn(40), 8.0).rk4();
    let begin = (0..40).map(|i| 8.0 + f64::from(u8::from(i == 3))).collect();
    let begin: Vec<f64> = begin;
    for (name, q) in [
        ("Lorenz '96, D = 40, Q = 0.01", 0.01),
        ("Lorenz '96, D = 40, Q = 0.001", 1e-3),
        ("Lorenz '96, D = 40, Q = 0.0001", 1e-4),
    ] {
        let twin = Twin::new(name, model, begin.clone(), (0.05, q, 1.0), cycles / 5);
        twin.extended()?;
        twin.window("gd lr=0.1", gd(0.1)?, (3, 0, 1.0, false))?;
        // What is recommended where there is no noise in the model at all.
        for (steps, length) in [(2, 24), (3, 40), (4, 48), (5, 56)] {
            twin.window("cg", cg(), (steps, length, 1.0, false))?;
        }
        twin.window("cg", cg(), (3, 16, 0.8, false))?;
        twin.window("cg", cg(), (10, 4, 1.0, true))?;
        if q > 5e-3 {
            twin.window("cg", cg(), (40, 4, 1.0, true))?;
        }
    }
    Ok(())
}

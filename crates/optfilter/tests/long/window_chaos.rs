//! Error bars of windows on chaotic systems: the mean of e' P^-1 e / D lies between 0.8 and 1.25 on Lorenz '63 and Lorenz '96.
//!
//! Every window is told the Q and R of the simulation for its error bars, and the covariance has an inverse at every row. The streams
//! are fixed, and there are fewer rows than in the table of `bench/dapper/windows.md` (`cargo run --release -p optfilter --example window_consistency`):
//! that they are enough is tested with bars which are told a wrong Q or R.

use nalgebra::{Const, DefaultAllocator, Dim, Dyn, OMatrix, OVector, U1};
use optfilter::drive::Run;
use optfilter::filter::{ProcessFactor, Responsive, Window, WindowBars, WindowBarsBelief};
use optfilter::metrics::nees;
use optfilter::model::likelihood::Gaussian;
use optfilter::model::{Dynamics, GaussianNoise, Lorenz63, Lorenz96, Pair, RandomWalk, Step};
use optfilter::optim::{ConjugateGradients, GradientDescent};
use optfilter::rng::Stream;
use optfilter::{Series, Shapes};
use std::sync::Arc;

/// A simulation of which every state is measured.
struct Twin<N: Dim, D>
where
    DefaultAllocator: Shapes<N, N>,
{
    model: Pair<D, RandomWalk<N>>,
    n: N,
    dt: f64,
    q: f64,
    r: f64,
    truth: Vec<f64>,
    seen: Vec<f64>,
    start: OVector<f64, N>,
}

/// How a window descends: steps, past rows, discount, and whether its path may bend.
type Setting = (u32, usize, f64, bool);

impl<N: Dim, D: Dynamics<State = N> + Clone> Twin<N, D>
where
    DefaultAllocator: Shapes<N, N>,
{
    fn new(dynamics: D, begin: &[f64], (dt, q, r): (f64, f64, f64), rows: u64) -> Self {
        let n = dynamics.state_dim();
        let mut stream = Stream::new(29, 0, "chaos");
        let (mut x, mut next) = (begin.to_vec(), begin.to_vec());
        let (mut truth, mut seen) = (Vec::new(), Vec::new());
        let mut start = OVector::zeros_generic(n, U1);
        for k in 1..=rows + 300 {
            dynamics.transition(&x, &[], &Step::even(k, dt), &mut next);
            for (x, next) in x.iter_mut().zip(&next) {
                *x = next + q.sqrt() * stream.normal();
            }
            if k == 300 {
                start.iter_mut().zip(&x).for_each(|(to, x)| *to = x + stream.normal());
            }
            if k > 300 {
                truth.extend_from_slice(&x);
                seen.extend(x.iter().map(|x| x + r.sqrt() * stream.normal()));
            }
        }
        let model = Pair { dynamics, observation: RandomWalk::new(n) };
        Self { model, n, dt, q, r, truth, seen, start }
    }

    /// The mean of NEES over D after a tenth of the rows, of bars that take Q and R for so many times what they are.
    fn nees<R: Responsive>(
        &self,
        rule: R,
        (steps, length, discount, weak): Setting,
        (q, r): (f64, f64),
    ) -> f64 {
        let size = self.n.value();
        let unit = || OMatrix::<f64, N, N>::identity_generic(self.n, self.n);
        let likelihood = Gaussian::new(unit() * self.r).unwrap();
        let mut window = Window::new(self.model.clone(), likelihood, rule, steps, length)
            .unwrap()
            .with_discount(discount)
            .unwrap();
        if weak {
            let factor = Arc::new(ProcessFactor::Diagonal(vec![self.q.sqrt(); size]));
            let initial = ProcessFactor::Diagonal(vec![1.0; size]);
            window = window.weak(move |_: &Step| factor.clone(), initial).unwrap();
        }
        let noise = GaussianNoise::new(unit() * (q * self.q), unit() * (r * self.r)).unwrap();
        let bars = WindowBars::new(window, noise).unwrap();
        let mut belief = WindowBarsBelief::new(self.start.clone(), unit()).unwrap();
        let series = Series::new(&self.seen, size).unwrap().with_dt(self.dt).unwrap();
        let trace = bars.run(&mut belief, &series.predict_first()).unwrap();
        let rows = trace.len() / 10..trace.len();
        let of = |k: usize| {
            let truth = &self.truth[k * size..][..size];
            nees(trace.mean(k), truth, trace.cov(k).unwrap()).unwrap() / size as f64
        };
        rows.clone().map(of).sum::<f64>() / rows.len() as f64
    }

    #[track_caller]
    fn honest<R: Responsive>(&self, rule: R, setting: Setting) {
        let found = self.nees(rule, setting, (1.0, 1.0));
        println!("{setting:?}: {found:.3}");
        assert!((0.8..=1.25).contains(&found), "{setting:?}: {found}");
    }

    /// Bars that are told so many times Q and R are out of the band: below it where that is too much, else above.
    #[track_caller]
    fn seen_through<R: Responsive + Clone>(&self, rule: R, setting: Setting, wrong: &[(f64, f64)]) {
        for &(q, r) in wrong {
            let found = self.nees(rule.clone(), setting, (q, r));
            println!("{setting:?} Q x {q}, R x {r}: {found:.3}");
            assert!(if q * r > 1.0 { found < 0.8 } else { found > 1.25 }, "{q} {r}: {found}");
        }
    }
}

fn gd(lr: f64) -> GradientDescent {
    GradientDescent::new(lr).unwrap()
}

fn cg() -> ConjugateGradients {
    ConjugateGradients::default()
}

#[test]
fn bars_of_windows_are_honest_on_lorenz_63() {
    for q in [0.01, 0.1] {
        let noise = (0.02, q, 2.0);
        let twin =
            Twin::<Const<3>, _>::new(Lorenz63::default().rk4(), &[1.0, 2.0, 20.0], noise, 600);
        twin.honest(gd(0.1), (3, 4, 0.8, false));
        twin.honest(cg(), (3, 16, 0.9, false));
        twin.honest(cg(), (3, 8, 0.7, false));
        twin.honest(gd(0.03), (10, 8, 1.0, true));
        twin.honest(cg(), (10, 8, 1.0, true));
        // With much noise in the model, that of the measurements hardly matters.
        let wrong = [(3.0, 1.0), (0.3, 1.0), (1.0, 2.0), (1.0, 0.5)];
        twin.seen_through(cg(), (3, 16, 0.9, false), &wrong[..if q < 0.05 { 4 } else { 2 }]);
    }
}

#[test]
fn bars_of_windows_are_honest_on_lorenz_96() {
    let begin: Vec<f64> = (0..40).map(|i| 8.0 + f64::from(u8::from(i == 3))).collect();
    let twin = Twin::new(Lorenz96::new(Dyn(40), 8.0).rk4(), &begin, (0.05, 0.01, 1.0), 60);
    twin.honest(gd(0.1), (3, 0, 1.0, false));
    twin.honest(cg(), (2, 24, 1.0, false));
    twin.honest(cg(), (3, 16, 0.8, false));
    twin.honest(cg(), (10, 2, 1.0, true));
    let wrong = [(3.0, 1.0), (0.3, 1.0), (1.0, 2.0), (1.0, 0.5)];
    twin.seen_through(cg(), (3, 8, 0.8, false), &wrong);
    // Long windows are for models with next to no noise.
    let twin = Twin::new(Lorenz96::new(Dyn(40), 8.0).rk4(), &begin, (0.05, 1e-4, 1.0), 80);
    twin.honest(cg(), (2, 24, 1.0, false));
    twin.honest(cg(), (4, 48, 1.0, false));
}

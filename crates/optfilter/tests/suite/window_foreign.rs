//! Conjugate gradients under somebody else's density: never uphill, and to the minimum that others find.

use nalgebra::{Const, DMatrix, DVector, Dyn, matrix, vector};
use optfilter::Series;
use optfilter::drive::Run;
use optfilter::filter::{Filter, Window, WindowBars, WindowBarsBelief, WindowBelief};
use optfilter::model::likelihood::{Foreign, Gaussian, Likelihood, LogDensity, Observed, StudentT};
use optfilter::model::{GaussianNoise, Linear, RandomWalk, Step};
use optfilter::optim::ConjugateGradients;
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;
use std::sync::Arc;

/// ln p of one component and its derivative by eta, of y and eta.
type One = fn(f64, f64) -> (f64, f64);

/// Independent components that all have one density.
#[derive(Debug)]
struct Each(One);

impl LogDensity for Each {
    fn log_prob(&self, y: &[f64], etas: &[f64], out: &mut [f64]) {
        for (out, eta) in out.iter_mut().zip(etas.chunks(y.len())) {
            let seen = y.iter().zip(eta).filter(|(y, _)| !y.is_nan());
            *out = seen.map(|(y, eta)| (self.0)(*y, *eta).0).sum();
        }
    }
    fn gradient(&self, y: &[f64], eta: &[f64], out: &mut [f64]) {
        for i in 0..y.len() {
            out[i] = (self.0)(y[i], eta[i]).1;
        }
    }
}

fn foreign(one: One) -> Foreign {
    Foreign::new(Arc::new(Each(one)))
}

/// Student's t of 4 degrees of freedom and scale 0.7.
fn student(y: f64, eta: f64) -> (f64, f64) {
    let (r, width) = (y - eta, 4.0 * 0.49);
    (-2.5 * (r * r / width).ln_1p(), 5.0 * r / (r * r + width))
}

/// Cauchy's of scale 0.5: Student's t of one degree of freedom.
fn cauchy(y: f64, eta: f64) -> (f64, f64) {
    let r = y - eta;
    (-(4.0 * r * r).ln_1p(), 2.0 * r / (r * r + 0.25))
}

/// The logistic of scale 0.4: exponential tails, whose second derivative soon is no number above zero.
fn logistic(y: f64, eta: f64) -> (f64, f64) {
    let z = (y - eta) / 0.4;
    (-z.abs() - 2.0 * (-z.abs()).exp().ln_1p(), (0.5 * z).tanh() / 0.4)
}

/// Laplace's of scale 0.5, which has no second derivative at all.
fn laplace(y: f64, eta: f64) -> (f64, f64) {
    (-2.0 * (y - eta).abs(), if y == eta { 0.0 } else { 2.0 * (y - eta).signum() })
}

/// Stochastic volatility: eta is the logarithm of the variance, and no neighbour of y.
fn volatility(y: f64, eta: f64) -> (f64, f64) {
    let squared = y * y * (-eta).exp();
    (-0.5 * (eta + squared), 0.5 * (squared - 1.0))
}

/// Counts whose logarithm of the rate is eta.
fn counts(y: f64, eta: f64) -> (f64, f64) {
    let y = (y.abs() * 20.0).round();
    (y * eta - eta.exp(), y - eta.exp())
}

/// Two states seen by twelve measurements, of which the third is far off.
fn scene() -> (Linear<Dyn, Dyn>, DMatrix<f64>, Vec<f64>) {
    let mut stream = Stream::new(8, 0, "foreign");
    let h = DMatrix::from_fn(12, 2, |_, _| stream.normal());
    let mut y: Vec<f64> =
        (0..12).map(|i| 1.5 * h[(i, 0)] - 0.8 * h[(i, 1)] + 0.5 * stream.normal()).collect();
    y[2] += 9.0;
    (Linear::new(DMatrix::identity(2, 2), h.clone()).unwrap(), h, y)
}

/// What is descended, at a state.
fn loss(likelihood: &impl Likelihood, h: &DMatrix<f64>, y: &[f64], x: &DVector<f64>) -> f64 {
    likelihood.loss(y, (h * x).as_slice(), Observed::All)
}

/// The losses and the last state of so many updates with the same measurements.
fn descents<L: Likelihood + Clone>(
    likelihood: &L,
    start: [f64; 2],
    iterations: u32,
    updates: u64,
) -> (Vec<f64>, DVector<f64>) {
    let (model, h, y) = scene();
    let cg = ConjugateGradients::default();
    let filter = Window::new(model, likelihood.clone(), cg, iterations, 0).unwrap();
    let mut belief = WindowBelief::new(DVector::from_row_slice(&start)).unwrap();
    let mut losses = vec![loss(likelihood, &h, &y, &belief.mean)];
    for k in 1..=updates {
        filter.update(&mut belief, &y, &[], &Step::even(k, 1.0)).unwrap();
        losses.push(loss(likelihood, &h, &y, &belief.mean));
    }
    (losses, belief.mean)
}

/// Steepest descent with a line search, from a good place: slow and beyond doubt.
fn searched(likelihood: &impl Likelihood) -> DVector<f64> {
    let (_, h, y) = scene();
    let mut x = DVector::from_row_slice(&[1.0, 0.0]);
    let mut score = vec![0.0; y.len()];
    for _ in 0..20_000 {
        likelihood.score(&y, (&h * &x).as_slice(), Observed::All, &mut score);
        let slope = h.tr_mul(&DVector::from_column_slice(&score));
        let (now, mut far) = (loss(likelihood, &h, &y, &x), 1.0);
        while loss(likelihood, &h, &y, &(&x - &slope * far))
            > now - 0.3 * far * slope.norm_squared()
        {
            far *= 0.5;
            if far < 1e-18 {
                return x;
            }
        }
        x -= slope * far;
    }
    x
}

const STARTS: [[f64; 2]; 6] =
    [[0.0, 0.0], [3.0, -3.0], [-40.0, 25.0], [300.0, 500.0], [-2e4, 1e3], [1e6, 1e6]];

/// From wherever it starts, with however few iterations.
#[test]
fn the_loss_never_rises() {
    for (name, one) in [
        ("student", student as One),
        ("cauchy", cauchy),
        ("logistic", logistic),
        ("laplace", laplace),
        ("volatility", volatility),
        ("counts", counts),
    ] {
        let density = foreign(one);
        for start in STARTS {
            for iterations in [1, 2, 6] {
                let (losses, _) = descents(&density, start, iterations, 30);
                for (k, pair) in losses.windows(2).enumerate() {
                    // A likelihood that is zero at the start can only become better; sums are rounded.
                    let highest = pair[0] + 1e-14 * pair[0].abs();
                    assert!(pair[1] <= highest, "{name} {start:?} K={iterations} {k}: {pair:?}");
                }
                let (first, last) = (losses[0], losses[30]);
                assert!(last < first || !first.is_finite(), "{name} {start:?}: {first} {last}");
            }
        }
    }
}

/// Convex losses have one minimum, which a line search finds as well.
#[test]
fn it_ends_at_the_minimum_of_a_line_search() {
    for (name, one) in
        [("logistic", logistic as One), ("volatility", volatility), ("counts", counts)]
    {
        let density = foreign(one);
        let expected = searched(&density);
        for start in STARTS {
            // Where the exponential of the start is no number, nothing says which way to go. Down an exponential a parabola leads
            // one unit at a time.
            let (losses, found) = descents(&density, start, 2, 1500);
            if !losses[0].is_finite() {
                continue;
            }
            // A line search ends where the loss is flat to rounding, the square root of which is 1e-8.
            let off = (&found - &expected).amax();
            assert!(off < 1e-6, "{name} {start:?}: {found} instead of {expected}");
        }
    }
}

/// Student's t and Cauchy's are weighed as the built-in ones are: the same way to the same minimum, and not by luck a better one.
#[test]
fn robust_densities_are_reweighted_as_the_built_in_ones_are() {
    for (one, ours) in [
        (student as One, StudentT::new(4.0, 0.7).unwrap()),
        (cauchy, StudentT::new(1.0, 0.5).unwrap()),
    ] {
        for start in STARTS {
            for iterations in [1, 2] {
                for updates in [1, 3, 60] {
                    let (_, found) = descents(&foreign(one), start, iterations, updates);
                    let (_, expected) = descents(&ours, start, iterations, updates);
                    // Second derivatives are differences, but do not count where the weight is larger. A step is rounded by
                    // a share of its length, which for the first is the distance of the start.
                    let off = (&found - &expected).amax();
                    let allowed = 1e-9 + 1e-13 * start[0].abs().max(start[1].abs());
                    assert!(
                        off < allowed,
                        "{start:?} K={iterations} {updates}: {found} {expected}"
                    );
                }
            }
        }
    }
}

/// A user's own likelihood of which only the loss is known, and that bends nowhere: to the median all the same.
#[test]
fn a_loss_without_a_second_derivative_is_descended() {
    #[derive(Clone)]
    struct Laplace;
    impl Likelihood for Laplace {
        fn loss<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>) -> S {
            observed.indices(y.len()).fold(S::ZERO, |sum, i| sum + (y[i] - eta[i]).abs())
        }
    }
    let model = Linear::new(matrix![1.0], vector![1.0, 1.0, 1.0, 1.0, 1.0, 1.0]).unwrap();
    let y = [3.0, 1.0, 100.0, 2.0, f64::NAN, 5.0];
    let cg = ConjugateGradients::default();
    for start in [-60.0, 2.4, 1e5] {
        let filter = Window::new(model.clone(), Laplace, cg.clone(), 1, 0).unwrap();
        let mut belief = WindowBelief::new(vector![start]).unwrap();
        for k in 1..=60 {
            filter.update(&mut belief, &y, &[], &Step::even(k, 1.0)).unwrap();
        }
        assert!((belief.mean[0] - 3.0).abs() < 1e-6, "{start}: {}", belief.mean[0]);
    }
}

/// In a window of many rows with gaps, too.
#[test]
fn a_window_of_somebody_elses_student_t_is_ours() {
    let f = matrix![0.9, 0.2, 0.0; -0.2, 0.95, 0.1; 0.05, 0.0, 1.0];
    let model = Linear::new(f, matrix![1.0, 0.0, 0.5; 0.0, 1.0, -1.0]).unwrap();
    let mut stream = Stream::new(2, 0, "foreign window");
    let mut y: Vec<f64> = (0..80).map(|_| stream.normal()).collect();
    (y[7], y[20], y[22], y[23]) = (f64::NAN, -30.0, f64::NAN, f64::NAN);
    let series = Series::new(&y, 2).unwrap();
    let start = || WindowBelief::new(vector![20.0, -4.0, 9.0]).unwrap();
    let cg = ConjugateGradients::default();
    let run = |steps, length| {
        let mine = Window::new(model.clone(), foreign(student), cg.clone(), steps, length).unwrap();
        let ours = StudentT::new(4.0, 0.7).unwrap();
        let ours = Window::new(model.clone(), ours, cg.clone(), steps, length).unwrap();
        let mine = mine.with_discount(0.9).unwrap().run(&mut start(), &series).unwrap();
        (mine, ours.with_discount(0.9).unwrap().run(&mut start(), &series).unwrap())
    };
    for (steps, length) in [(1, 0), (2, 4), (3, 12), (6, 100)] {
        let (mine, ours) = run(steps, length);
        for (k, (a, b)) in mine.means.iter().zip(&ours.means).enumerate() {
            assert!((a - b).abs() < 1e-8 * (1.0 + b.abs()), "K={steps} L={length} {k}: {a} {b}");
        }
    }
}

/// Error bars know of a step that was shortened: D is an eighth of one over the curvature.
#[test]
fn error_bars_are_those_of_the_step_that_was_taken() {
    let walk = RandomWalk::new(Const::<1>);
    let cg = ConjugateGradients::default();
    let noise = GaussianNoise::new(matrix![0.0], matrix![2.0]).unwrap();
    let window = Window::new(walk, foreign(volatility), cg.clone(), 1, 0).unwrap();
    let bars = WindowBars::new(window, noise.clone()).unwrap();
    let mut belief = WindowBarsBelief::new(vector![8.0], matrix![3.0]).unwrap();
    bars.update(&mut belief, &[-12.0], &[], &Step::even(1, 1.0)).unwrap();
    // By hand: slope 0.4758, second derivative 0.0242 (the weight of a square about -12 is 0.0238), so d = -19.7; the loss
    // is 4.02 at 8, and 72 e^11.7, 453, 4.9 and 3.0 after all of it, a half, a quarter and an eighth.
    let bend = |h: f64| 72.0 * f64::exp(-h);
    let taken = (belief.mean()[0] - 8.0) / -((0.5 - bend(8.0)) / bend(8.0));
    assert!((taken - 0.125).abs() < 1e-7, "{taken}");
    // e <- (1 - D W) e + D W v, with W where the step has led.
    let gain = 0.125 * bend(belief.mean()[0]) / bend(8.0);
    let expected = (1.0 - gain).powi(2) * 3.0 + gain.powi(2) * 2.0;
    assert!((belief.cov()[0] / expected - 1.0).abs() < 1e-7, "{} {expected}", belief.cov());
    // Somebody else's Gaussian has the bars of ours.
    fn normal(y: f64, eta: f64) -> (f64, f64) {
        (-0.25 * (y - eta) * (y - eta), 0.5 * (y - eta))
    }
    let y = [1.0, f64::NAN, 40.0, 2.0, -1.0];
    let series = Series::new(&y, 1).unwrap();
    let start = || WindowBarsBelief::new(vector![8.0], matrix![3.0]).unwrap();
    let mine = Window::new(walk, foreign(normal), cg.clone(), 2, 2).unwrap();
    let ours = Window::new(walk, Gaussian::new(matrix![2.0]).unwrap(), cg, 2, 2).unwrap();
    let mine = WindowBars::new(mine, noise.clone()).unwrap().run(&mut start(), &series).unwrap();
    let ours = WindowBars::new(ours, noise).unwrap().run(&mut start(), &series).unwrap();
    for (a, b) in mine.means.iter().chain(&mine.covs).zip(ours.means.iter().chain(&ours.covs)) {
        assert!((a - b).abs() < 1e-8 * (1.0 + b.abs()), "{a} {b}");
    }
}

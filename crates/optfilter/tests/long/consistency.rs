//! Error bars are honest: the normalised estimation error squared (NEES) lies in its 95 % band; and the
//! particle filter's log-likelihood is the exact one within its Monte Carlo error.
//!
//! A consistent filter's NEES e' P^-1 e is chi-square with n degrees of freedom. Errors at different times of
//! one run depend on each other, so the mean is taken over independent runs at one time: over N runs it lies in
//! `chi_square_band(n, N)` with 95 % probability. A test looks at several times far apart and, since one in
//! twenty of honest means falls outside, allows one of the ten to; all streams are fixed, so it either holds
//! or does not.
//!
//! On Lorenz '63 the error bars are first-order (as those of the extended filter are): they are honest as long
//! as errors are small against the curvature of the flow. The settings below say where that was found to hold:
//! steps of 0.02, process noise alpha = 2 (Q = alpha^2 dt), unit measurement noise, every component seen, and
//! gradient descent whose K steps close a third or more of the gap to the measurement, or Adam run to its
//! minimum.

use crate::common::{System, close};
use nalgebra::{Const, DefaultAllocator, Dim, SMatrix, matrix, vector};
use optfilter::drive::Run;
use optfilter::filter::{
    Belief, ErrorBars, ExtendedKalmanFilter, Filter, GaussianBelief, ImplicitMap, KalmanFilter,
    ParticleBelief, ParticleFilter, Resampling, Scheme, SigmaPoints, UnscentedKalmanFilter,
};
use optfilter::metrics::{chi_square_band, nees};
use optfilter::model::likelihood::{Gaussian, SquaredError};
use optfilter::model::{GaussianNoise, Linear, Lorenz63, Model, Noise, RandomWalk, Step};
use optfilter::optim::{Adam, AnyOptimizer, GradientDescent};
use optfilter::rng::Stream;
use optfilter::simulate::simulate;
use optfilter::{Series, Shapes};

/// Mean NEES over `runs` simulated trajectories at ten times, and the mean NIS over all of them.
fn mean_nees<M, Q, F>(
    model: &M,
    noise: &Q,
    start: &GaussianBelief<M::State>,
    filter: &F,
    (runs, len, dt): (usize, usize, f64),
) -> (Vec<f64>, f64)
where
    M: Model,
    Q: Noise<M::State, M::Output>,
    F: Filter<State = M::State, Output = M::Output, Belief = GaussianBelief<M::State>>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    let (n, m) = (model.state_dim().value(), model.output_dim().value());
    let (mut sums, mut nis) = (vec![0.0; 10], 0.0);
    for run in 0..runs {
        let mut stream = Stream::new(31, run as u64, "consistency");
        let truth = simulate(model, noise, start, len, dt, &mut stream).unwrap();
        let series =
            Series::new(&truth.observations, m).unwrap().with_dt(dt).unwrap().predict_first();
        let trace = filter.run(&mut start.clone(), &series).unwrap();
        for (slot, sum) in sums.iter_mut().enumerate() {
            let k = (slot + 1) * len / 10 - 1;
            let state = &truth.states[k * n..(k + 1) * n];
            *sum += nees(trace.mean(k), state, trace.cov(k).unwrap()).unwrap();
        }
        nis += trace.nis.iter().sum::<f64>() / trace.len() as f64;
    }
    (sums.into_iter().map(|s| s / runs as f64).collect(), nis / runs as f64)
}

/// Whether at least nine of ten means lie in the band.
fn within(means: &[f64], n: usize, runs: usize) -> bool {
    let (low, high) = chi_square_band(n, runs);
    means.iter().filter(|v| (low..=high).contains(*v)).count() >= 9
}

#[track_caller]
fn honest<M, Q, F>(
    model: &M,
    noise: &Q,
    start: &GaussianBelief<M::State>,
    filter: &F,
    size: (usize, usize, f64),
    what: &str,
) where
    M: Model,
    Q: Noise<M::State, M::Output>,
    F: Filter<State = M::State, Output = M::Output, Belief = GaussianBelief<M::State>>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    let n = model.state_dim().value();
    let (means, nis) = mean_nees(model, noise, start, filter, size);
    let band = chi_square_band(n, size.0);
    println!("{what}: NEES {means:.3?} in {band:.3?}, mean NIS {nis:.3}");
    assert!(within(&means, n, size.0), "{what}: {means:?} should lie in {band:?}");
}

/// Position and speed of which the position is seen.
fn tracking()
-> (Linear<Const<2>, Const<1>>, GaussianNoise<Const<2>, Const<1>>, GaussianBelief<Const<2>>) {
    let model = Linear::new(matrix![1.0, 0.5; 0.0, 0.95], matrix![1.0, 0.0]).unwrap();
    let noise = GaussianNoise::new(matrix![0.05, 0.02; 0.02, 0.1], matrix![0.6]).unwrap();
    let start = GaussianBelief::new(vector![1.0, -0.5], matrix![1.0, 0.1; 0.1, 0.5]).unwrap();
    (model, noise, start)
}

#[test]
fn gaussian_filters_are_honest_on_linear_systems() {
    let (model, noise, start) = tracking();
    let size = (400, 50, 1.0);
    let kalman = KalmanFilter::new(model.clone(), noise.clone());
    honest(&model, &noise, &start, &kalman, size, "Kalman");
    let extended = ExtendedKalmanFilter::new(model.clone(), noise.clone());
    honest(&model, &noise, &start, &extended, size, "extended");
    // A filter told half the measurement noise is not honest, and the test says so.
    let sure = GaussianNoise::new(matrix![0.05, 0.02; 0.02, 0.1], matrix![0.3]).unwrap();
    let (means, _) =
        mean_nees(&model, &noise, &start, &KalmanFilter::new(model.clone(), sure), size);
    assert!(!within(&means, 2, size.0), "{means:?}");
}

#[test]
fn error_bars_are_honest_on_linear_systems() {
    // The update of gradient descent is linear in prediction and measurement here, so the error bars are
    // exact for any rate and number of steps, however far from the best gain.
    let (model, noise, start) = tracking();
    let size = (400, 50, 1.0);
    for (lr, steps) in [(0.05, 1), (0.1, 5), (0.3, 10)] {
        let gd = GradientDescent::new(lr).unwrap();
        let filter = ImplicitMap::new(model.clone(), SquaredError, gd, steps).unwrap();
        let bars = ErrorBars::new(filter, noise.clone()).unwrap();
        honest(&model, &noise, &start, &bars, size, &format!("gradient descent {lr} x {steps}"));
    }
    for name in ["momentum", "nesterov"] {
        let optimizer = AnyOptimizer::from_name(name, 0.02, Some(0.8)).unwrap();
        let filter = ImplicitMap::new(model.clone(), SquaredError, optimizer, 6).unwrap();
        let bars = ErrorBars::new(filter, noise.clone()).unwrap();
        honest(&model, &noise, &start, &bars, size, name);
    }
    // The gain differs from Kalman's, so the error is larger, and the bars must know.
    let gd = GradientDescent::new(0.05).unwrap();
    let filter = ImplicitMap::new(model.clone(), SquaredError, gd, 1).unwrap();
    let bars = ErrorBars::new(filter, noise.clone()).unwrap();
    let ys = vec![0.0; 200];
    let series = Series::new(&ys, 1).unwrap().predict_first();
    let wide = bars.run(&mut start.clone(), &series).unwrap();
    let best = KalmanFilter::new(model, noise).run(&mut start.clone(), &series).unwrap();
    assert!(wide.cov(199).unwrap()[0] > 1.5 * best.cov(199).unwrap()[0]);
}

#[test]
fn error_bars_are_honest_on_lorenz_63() {
    let unit = SMatrix::<f64, 3, 3>::identity();
    let model = Lorenz63::default().rk4();
    let noise = GaussianNoise::per_time(unit * 4.0, unit).unwrap();
    // A point of the attractor.
    let start = GaussianBelief::new(vector![-5.0, -8.0, 20.0], unit).unwrap();
    let size = (300, 200, 0.02);
    let extended = ExtendedKalmanFilter::new(model, noise.clone());
    honest(&model, &noise, &start, &extended, size, "extended, Lorenz");
    let unscented =
        UnscentedKalmanFilter::new(model, noise.clone(), SigmaPoints::merwe(1.0, 2.0, 0.0))
            .unwrap();
    honest(&model, &noise, &start, &unscented, size, "unscented, Lorenz");
    for (lr, steps) in [(0.4, 1), (0.15, 3), (0.1, 10)] {
        let gd = GradientDescent::new(lr).unwrap();
        let filter = ImplicitMap::new(model, SquaredError, gd, steps).unwrap();
        let bars = ErrorBars::new(filter, noise.clone()).unwrap();
        honest(&model, &noise, &start, &bars, size, &format!("Lorenz, {lr} x {steps}"));
    }
    // Adam run until it has reached the measurement: then the estimate is the measurement.
    let adam = |steps| {
        let filter = ImplicitMap::new(model, SquaredError, Adam::new(0.1).unwrap(), steps).unwrap();
        ErrorBars::new(filter, noise.clone()).unwrap()
    };
    let size = (300, 40, 0.02);
    honest(&model, &noise, &start, &adam(200), size, "Lorenz, Adam to convergence");
    // Stopped on the way it moves by steps of a fixed length, which first order takes for no correction at
    // all: its error bars are then too wide. (Gradient descent has no such limit.)
    let (means, _) = mean_nees(&model, &noise, &start, &adam(10), size);
    println!("Lorenz, Adam stopped early: NEES {means:.3?}");
    let (low, _) = chi_square_band(3, size.0);
    assert!(means[5..].iter().all(|v| *v < low), "{means:?}");
}

#[test]
fn error_bars_survive_a_missing_component() {
    // A component that is not seen has gradient zero, and Adam divides by its root: no NaN may come of it.
    let walk = RandomWalk::new(Const::<2>);
    let unit = matrix![1.0, 0.0; 0.0, 1.0];
    let noise = GaussianNoise::new(unit * 0.1, unit).unwrap();
    for name in AnyOptimizer::NAMES {
        let optimizer = AnyOptimizer::from_name(name, 0.1, None).unwrap();
        let filter = ImplicitMap::new(walk, SquaredError, optimizer, 3).unwrap();
        let bars = ErrorBars::new(filter, noise.clone()).unwrap();
        let mut belief = GaussianBelief::new(vector![0.0, 0.5], unit).unwrap();
        let step = Step::even(1, 1.0);
        bars.update(&mut belief, &[f64::NAN, 1.0], &[], &step).unwrap();
        // The component that was not seen keeps its covariance.
        assert_eq!(belief.cov[(0, 0)], 1.0, "{name}");
        assert_eq!(belief.mean[0], 0.0, "{name}");
        assert!(belief.cov.iter().all(|v| v.is_finite()), "{name}: {}", belief.cov);
    }
}

#[test]
fn error_bars_survive_a_measurement_that_is_exactly_as_predicted() {
    // Adam's step there is zero over epsilon: flat in value and as steep as 1e8 in its derivative.
    let walk = RandomWalk::new(Const::<2>);
    let unit = matrix![1.0, 0.0; 0.0, 1.0];
    let noise = GaussianNoise::new(unit * 0.1, unit).unwrap();
    for name in AnyOptimizer::NAMES {
        let optimizer = AnyOptimizer::from_name(name, 0.1, None).unwrap();
        let filter = ImplicitMap::new(walk, SquaredError, optimizer, 50).unwrap();
        let bars = ErrorBars::new(filter, noise.clone()).unwrap();
        let mut belief = GaussianBelief::new(vector![0.25, 0.5], unit).unwrap();
        bars.update(&mut belief, &[0.25, 1.5], &[], &Step::even(1, 1.0)).unwrap();
        assert_eq!(belief.mean[0], 0.25, "{name}");
        // A measurement with unit noise on top of unit uncertainty cannot leave more than the two together.
        assert!(belief.cov.iter().all(|v| v.abs() <= 2.0), "{name}: {}", belief.cov);
        assert!(belief.cov[(0, 0)] > 0.0, "{name}: {}", belief.cov);
    }
}

#[test]
fn particle_log_likelihoods_are_the_exact_ones() {
    let mut stream = Stream::new(41, 0, "particle test");
    let system = System::random(2, 2, 2, &mut stream);
    let truth =
        simulate(&system.model(), &system.noise(), &system.start, 25, 1.0, &mut stream).unwrap();
    let mut ys = truth.observations;
    ys[7] = f64::NAN;
    ys[20..22].fill(f64::NAN);
    let series = Series::new(&ys, 2).unwrap().predict_first();
    let kalman = system.kalman().run(&mut system.start.clone(), &series).unwrap();
    let exact = kalman.log_likelihood().unwrap();

    let repeats = 60;
    for scheme in [Scheme::Multinomial, Scheme::Residual, Scheme::Stratified, Scheme::Systematic] {
        for resampling in [Resampling::Always(scheme), Resampling::Below(scheme, 0.5)] {
            let filter = ParticleFilter::new(
                system.model(),
                Gaussian::new(system.r.clone()).unwrap(),
                system.noise(),
                resampling,
            )
            .unwrap();
            let (mut ratios, mut last_means) = (Vec::new(), Vec::new());
            for run in 0..repeats {
                let stream = Stream::new(42, run, "particles");
                let mut belief = ParticleBelief::new(&system.start, 1500, stream).unwrap();
                let trace = filter.run(&mut belief, &series).unwrap();
                ratios.push((trace.log_likelihood().unwrap() - exact).exp());
                last_means.push(belief.mean()[0]);
            }
            // The likelihood itself (not its logarithm) is unbiased: its mean ratio to the exact one is 1.
            let (mean, error) = mean_and_error(&ratios);
            println!("{resampling:?}: ratio {mean:.4} +- {error:.4}");
            // Four standard errors; and those must be small, or the test would pass anything.
            assert!(error < 0.06, "{resampling:?}: {error}");
            assert!((mean - 1.0).abs() < 4.0 * error, "{resampling:?}: {mean} +- {error}");
            // The filtered mean, with a bias of order 1/N on top.
            let (mean, error) = mean_and_error(&last_means);
            let expected = kalman.mean(24)[0];
            assert!(
                (mean - expected).abs() < 4.0 * error + 2e-3,
                "{resampling:?}: {mean}, {expected}"
            );
        }
    }
}

/// The mean of a sample and its standard error.
fn mean_and_error(sample: &[f64]) -> (f64, f64) {
    let n = sample.len() as f64;
    let mean = sample.iter().sum::<f64>() / n;
    let var = sample.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
    (mean, (var / n).sqrt())
}

#[test]
fn innovations_of_a_particle_filter_are_those_of_kalman() {
    // One update from an exact start: S and the innovation are moments of 20000 particles.
    let mut stream = Stream::new(43, 0, "innovation");
    let system = System::random(2, 2, 2, &mut stream);
    let filter = ParticleFilter::new(
        system.model(),
        Gaussian::new(system.r.clone()).unwrap(),
        system.noise(),
        Resampling::Always(Scheme::Systematic),
    )
    .unwrap();
    let step = Step::even(1, 1.0);
    let mut particles = ParticleBelief::new(&system.start, 20_000, stream).unwrap();
    let mut exact = system.start.clone();
    filter.predict(&mut particles, &[], &step).unwrap();
    system.kalman().predict(&mut exact, &[], &step).unwrap();
    let ours = filter.update(&mut particles, &[0.3, -0.2], &[], &step).unwrap();
    let theirs = system.kalman().update(&mut exact, &[0.3, -0.2], &[], &step).unwrap();
    let (s, s_exact) = (ours.innovation_cov.unwrap(), theirs.innovation_cov.unwrap());
    for i in 0..2 {
        // Four standard errors of a mean and, sqrt(2) wider, of a variance.
        let root = (s_exact[(i, i)] / 20_000.0).sqrt();
        assert!((ours.innovation[i] - theirs.innovation[i]).abs() < 4.0 * root);
        let spread = 4.0 * s_exact[(i, i)] * (2.0 / 20_000.0f64).sqrt();
        assert!((s[(i, i)] - s_exact[(i, i)]).abs() < spread);
    }
    close(ours.log_likelihood.unwrap(), theirs.log_likelihood.unwrap(), 0.02, "log-likelihood");
    let cov = particles.cov().unwrap();
    for i in 0..2 {
        assert!((cov[(i, i)] - exact.cov[(i, i)]).abs() < 0.06 * exact.cov[(i, i)]);
    }
}

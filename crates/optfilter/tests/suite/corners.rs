//! Bounds, equal times and gaps, for every filter.

use nalgebra::{Const, SVector, Vector1, matrix, vector};
use optfilter::Series;
use optfilter::batch::Batch;
use optfilter::drive::{Run, Trace};
use optfilter::filter::{
    Belief, Bounded, ErrorBars, ExtendedKalmanFilter, Filter, FilterError, GaussianBelief,
    ImplicitMap, IteratedKalmanFilter, KalmanFilter, ParticleBelief, ParticleFilter, PointBelief,
    Resampling, Scheme, SigmaPoints, UnscentedKalmanFilter, VariationalKalmanFilter,
};
use optfilter::model::likelihood::Gaussian;
use optfilter::model::{GaussianNoise, Linear, Noise, RandomWalk, Step};
use optfilter::optim::{Adam, AnyOptimizer, Bounds, GradientDescent, Optimizer};
use optfilter::rng::Stream;

type One = Const<1>;
const NAN: f64 = f64::NAN;

fn noise() -> GaussianNoise<One, One> {
    GaussianNoise::new(matrix![0.5], matrix![0.2]).unwrap()
}

/// A level that sinks by the input.
fn sinking() -> Linear<One, One> {
    Linear::new(matrix![1.0], matrix![1.0]).unwrap().with_inputs(vec![vector![1.0]]).unwrap()
}

fn positive() -> Bounds {
    Bounds::new(vec![0.0], vec![f64::INFINITY]).unwrap()
}

fn likelihood() -> Gaussian<One> {
    Gaussian::new(matrix![0.2]).unwrap()
}

fn implicit() -> ImplicitMap<Linear<One, One>, Gaussian<One>, GradientDescent> {
    ImplicitMap::new(sinking(), likelihood(), GradientDescent::new(0.05).unwrap(), 5).unwrap()
}

fn particles(start: &GaussianBelief<One>) -> ParticleBelief<One> {
    ParticleBelief::new(start, 500, Stream::new(3, 0, "particles")).unwrap()
}

fn particle() -> ParticleFilter<Linear<One, One>, Gaussian<One>, GaussianNoise<One, One>> {
    let resampling = Resampling::Below(Scheme::Systematic, 0.5);
    ParticleFilter::new(sinking(), likelihood(), noise(), resampling).unwrap()
}

fn variational() -> VariationalKalmanFilter<Linear<One, One>, Gaussian<One>, Adam> {
    let adam = Adam::new(0.1).unwrap();
    VariationalKalmanFilter::new(sinking(), likelihood(), matrix![0.5], adam, 50).unwrap()
}

/// Calls `$check(name, filter, belief)` for every filter, kept inside `$bounds` or not.
macro_rules! every_filter {
    ($bounds:expr, $start:expr, $check:expr) => {{
        let bounds: Option<Bounds> = $bounds;
        let gaussian = GaussianBelief::new(vector![$start], matrix![0.3]).unwrap();
        let point = PointBelief::new(vector![$start]).unwrap();
        let boxed = bounds.clone();
        let kalman = Bounded::new(KalmanFilter::new(sinking(), noise()), boxed.clone()).unwrap();
        $check("kf", &kalman, gaussian.clone());
        let extended =
            Bounded::new(ExtendedKalmanFilter::new(sinking(), noise()), boxed.clone()).unwrap();
        $check("ekf", &extended, gaussian.clone());
        let iterated = IteratedKalmanFilter::new(sinking(), noise(), 3).unwrap();
        $check("iekf", &Bounded::new(iterated, boxed.clone()).unwrap(), gaussian.clone());
        let points = SigmaPoints { alpha: 1.0, beta: 1.0, kappa: 1.0 };
        let unscented = UnscentedKalmanFilter::new(sinking(), noise(), points).unwrap();
        $check("ukf", &Bounded::new(unscented, boxed.clone()).unwrap(), gaussian.clone());
        $check("pf", &Bounded::new(particle(), boxed).unwrap(), particles(&gaussian));
        let (mut implicit, mut variational) = (implicit(), variational());
        if let Some(bounds) = bounds {
            implicit = implicit.with_bounds(bounds.clone()).unwrap();
            variational = variational.with_bounds(bounds).unwrap();
        }
        $check("vkf", &variational, PointBelief::new(vector![$start]).unwrap());
        $check("imap", &implicit, point);
        $check("imap with error bars", &ErrorBars::new(implicit, noise()).unwrap(), gaussian);
    }};
}

#[test]
fn bounds_hold_through_missing_rows_and_error_bars_stay_honest() {
    let mut y = vec![0.4, -0.3, -0.2];
    y.extend([NAN; 8]);
    y.extend([0.1, -0.4, NAN, -0.3]);
    let push = vec![-0.3; y.len()];
    let series = Series::new(&y, 1).unwrap().with_inputs(&push, 1).unwrap();
    fn run<F: Filter>(filter: &F, mut belief: F::Belief, series: &Series<'_>) -> Trace
    where
        F::Belief: Belief<F::State>,
        nalgebra::DefaultAllocator: optfilter::Shapes<F::State, F::Output>,
    {
        filter.run(&mut belief, series).unwrap()
    }
    let mut free = Vec::new();
    every_filter!(None, -0.5, |_, filter, belief| free.push(run(filter, belief, &series).means));
    assert!(free.iter().all(|means| means.iter().any(|m| *m < -0.5)), "the bounds must matter");
    every_filter!(Some(positive()), -0.5, |name, filter, belief| {
        let trace = run(filter, belief, &series);
        assert!(trace.means.iter().all(|m| *m >= 0.0), "{name}: {:?}", trace.means);
        // Q alone scatters a state by 0.7 from row to row; half of it on one side of a bound by 0.4.
        assert!(trace.covs.iter().all(|v| *v > 0.03 && *v < 10.0), "{name}: {:?}", trace.covs);
    });
    // Several trajectories side by side are kept inside as single ones are.
    let filter = implicit().with_bounds(positive()).unwrap();
    let batch = Batch::new(vec![series; 3]).run(&filter, &[Vector1::new(-0.5); 3]).unwrap();
    let mut alone = PointBelief::new(vector![-0.5]).unwrap();
    let alone = filter.run(&mut alone, &series).unwrap().means;
    assert_eq!(batch.trajectory(2), Some(Ok(alone)));
}

#[test]
fn the_first_gradient_is_taken_inside_the_box() {
    // With y = sqrt(x) there is no gradient at a negative x.
    #[derive(Clone)]
    struct Root;
    impl optfilter::model::Dynamics for Root {
        type State = One;
        fn state_dim(&self) -> One {
            Const
        }
        fn transition<S: optfilter::scalar::Scalar>(
            &self,
            x: &[S],
            _: &[f64],
            _: &Step,
            out: &mut [S],
        ) {
            out[0] = x[0] - S::ONE;
        }
    }
    impl optfilter::model::Observation for Root {
        type Output = One;
        fn output_dim(&self) -> One {
            Const
        }
        fn observe<S: optfilter::scalar::Scalar>(
            &self,
            x: &[S],
            _: &[f64],
            _: &Step,
            out: &mut [S],
        ) {
            out[0] = x[0].sqrt();
        }
    }
    let bounds = Bounds::new(vec![0.01], vec![4.0]).unwrap();
    let descent = GradientDescent::new(0.05).unwrap();
    let filter = ImplicitMap::new(Root, likelihood(), descent, 5).unwrap();
    let y = [1.0, 0.8, NAN, 0.9];
    let series = Series::new(&y, 1).unwrap();
    let start = PointBelief::new(vector![-2.0]).unwrap();
    assert!(matches!(filter.run(&mut start.clone(), &series), Err(FilterError::Diverged { .. })));
    let means = filter.with_bounds(bounds).unwrap().run(&mut start.clone(), &series).unwrap().means;
    assert!(means.iter().all(|m| (0.01..=4.0).contains(m)), "{means:?}");
}

#[test]
fn states_that_hang_together_are_truncated_together() {
    // N(0, [[1, 0.8], [0.8, 1]]) with x0 >= 0: the mean of x1 is 0.8 of that of x0, by regression, and its variance
    // 1 - 0.64 + 0.64 var(x0); the moments of x0 are scipy.stats.truncnorm's for (0, inf).
    let noise =
        GaussianNoise::new(matrix![1.0, 0.8; 0.8, 1.0], matrix![1.0, 0.0; 0.0, 1.0]).unwrap();
    let bounds = Bounds::new(vec![0.0, -50.0], vec![f64::INFINITY, 50.0]).unwrap();
    let walk = ExtendedKalmanFilter::new(RandomWalk::new(Const::<2>), noise);
    let filter = Bounded::new(walk, bounds).unwrap();
    let mut belief = GaussianBelief::new(vector![0.0, 0.0], matrix![0.0, 0.0; 0.0, 0.0]).unwrap();
    filter.predict(&mut belief, &[], &Step::even(1, 1.0)).unwrap();
    let (mean, var) = (0.7978845608028654, 0.3633802276324186);
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{belief:?}");
    close(belief.mean[0], mean);
    close(belief.mean[1], 0.8 * mean);
    close(belief.cov[(0, 0)], var);
    close(belief.cov[(0, 1)], 0.8 * var);
    close(belief.cov[(1, 1)], 0.36 + 0.64 * var);
}

#[test]
fn rows_at_one_time_are_not_predicted() {
    let (y, push) = ([0.4, 0.9, 0.2, 1.1], [0.7; 4]);
    let times = [0.0, 1.0, 1.0, 2.0];
    let series = Series::new(&y, 1).unwrap().with_times(&times).unwrap();
    let series = series.with_inputs(&push, 1).unwrap();
    assert_eq!([0, 1, 2, 3].map(|k| series.predicts(k)), [false, true, false, true]);
    fn check<F: Filter<State = One>>(name: &str, filter: &F, belief: F::Belief, series: &Series<'_>)
    where
        F::Belief: Belief<One>,
        nalgebra::DefaultAllocator: optfilter::Shapes<One, F::Output>,
    {
        let trace = filter.run(&mut belief.clone(), series).unwrap();
        let mut by_hand = belief;
        for k in 0..4 {
            let (step, u, y) = (series.step(k), series.input(k), series.observation(k));
            if k == 1 || k == 3 {
                filter.predict(&mut by_hand, u, &step).unwrap();
            }
            let before = by_hand.mean();
            // Asked for by hand, a step of no length changes nothing either.
            filter.predict(&mut by_hand, u, &Step { dt: 0.0, ..step }).unwrap();
            assert_eq!(by_hand.mean(), before, "{name}");
            filter.update(&mut by_hand, y, u, &step).unwrap();
            assert_eq!(trace.mean(k), by_hand.mean().as_slice(), "{name}, row {k}");
        }
    }
    every_filter!(None, 0.1, |name, filter, belief| check(name, filter, belief, &series));
}

#[test]
fn continuous_time_does_not_care_how_a_step_is_cut() {
    // Forty steps of 0.05 are one of 2, for means, covariances and inputs alike.
    let (a, d) = (matrix![0.0, 1.0; -4.0, -0.6], matrix![0.0, 0.0; 0.0, 0.5]);
    let model = Linear::continuous(a, matrix![1.0, 0.0], 0.05).unwrap();
    let model = model.with_inputs(vec![vector![0.2, 1.5]]).unwrap();
    let noise = GaussianNoise::continuous(a, d, matrix![0.04], 0.05).unwrap();
    let start = GaussianBelief::new(vector![1.0, 0.5], matrix![0.5, 0.1; 0.1, 0.4]).unwrap();
    let (kalman, extended) =
        (KalmanFilter::new(model.clone(), noise.clone()), ExtendedKalmanFilter::new(model, noise));
    let (mut pieces, mut whole, mut linearized) = (start.clone(), start.clone(), start);
    for k in 1..=40 {
        kalman.predict(&mut pieces, &[0.7], &Step::even(k, 0.05)).unwrap();
    }
    kalman.predict(&mut whole, &[0.7], &Step::even(1, 2.0)).unwrap();
    extended.predict(&mut linearized, &[0.7], &Step::even(1, 2.0)).unwrap();
    assert!((pieces.mean - whole.mean).norm() < 1e-13, "{pieces:?} {whole:?}");
    assert!((pieces.cov - whole.cov).norm() < 1e-13, "{pieces:?} {whole:?}");
    assert!((linearized.cov - whole.cov).norm() < 1e-15, "{linearized:?} {whole:?}");
    assert!((linearized.mean - whole.mean).norm() < 1e-15, "{linearized:?} {whole:?}");
}

/// Root mean square errors at the first row after 60 missing ones of a random walk, over 400 walks.
fn error_after_gap<F: Filter<State = One>>(filter: &F, start: &F::Belief) -> f64
where
    F::Belief: Belief<One>,
    nalgebra::DefaultAllocator: optfilter::Shapes<One, F::Output>,
{
    let mut sum = 0.0;
    for run in 0..400 {
        let mut stream = Stream::new(11, run, "walk");
        let (mut x, mut y) = (0.0, Vec::new());
        for k in 0..91 {
            x += 0.5 * stream.normal();
            let seen = x + stream.normal();
            y.push(if (30..90).contains(&k) { NAN } else { seen });
        }
        let mut belief = start.clone();
        filter.run(&mut belief, &Series::new(&y, 1).unwrap()).unwrap();
        sum += (belief.mean()[0] - x).powi(2);
    }
    (sum / 400.0).sqrt()
}

#[test]
fn an_implicit_filter_that_widens_crosses_gaps_as_the_kalman_filter_does() {
    let walk = || RandomWalk::new(Const::<1>);
    let noise = GaussianNoise::new(matrix![0.25], matrix![1.0]).unwrap();
    let start = GaussianBelief::new(vector![0.0], matrix![1.0]).unwrap();
    let best = error_after_gap(&ExtendedKalmanFilter::new(walk(), noise.clone()), &start);
    assert!((best - 1.0).abs() < 0.15, "{best}");
    // The steady gain is that of P = P - P^2 / (P + 1) + 0.25: 0.390388, left after one step, or after three, or five.
    fn filter<O: Optimizer<f64>>(
        optimizer: O,
        steps: u32,
    ) -> ImplicitMap<RandomWalk<One>, Gaussian<One>, O> {
        let unit = Gaussian::new(matrix![1.0]).unwrap();
        ImplicitMap::new(RandomWalk::new(Const::<1>), unit, optimizer, steps).unwrap()
    }
    let point = PointBelief::new(vector![0.0]).unwrap();
    for (steps, tolerance) in [(1, 0.05), (3, 0.02), (5, 0.02)] {
        let rate = 1.0 - (1.0f64 - 0.390_388_2).powf(1.0 / f64::from(steps));
        let ignoring = filter(GradientDescent::new(rate).unwrap(), steps);
        let lost = error_after_gap(&ignoring, &point);
        assert!(lost > 2.0 * best, "{lost}");
        let widening = ignoring.widening();
        let found = error_after_gap(&widening, &point);
        assert!(found < (1.0 + tolerance) * best, "{steps} steps: {found}, Kalman {best}");
        // With error bars the estimates are the same, and the bars are right.
        let bars = ErrorBars::new(widening, noise.clone()).unwrap();
        assert_eq!(error_after_gap(&bars, &start), found);
        let mut belief = start.clone();
        let mut y = vec![0.0; 30];
        y.extend([NAN; 60]);
        y.push(4.0);
        bars.run(&mut belief, &Series::new(&y, 1).unwrap()).unwrap();
        assert!((belief.cov[0].sqrt() / found - 1.0).abs() < 0.1, "{} {found}", belief.cov[0]);
    }
    // An adaptive rule has no prior that one could write down; how far its slope comes down says enough.
    let adam = filter(AnyOptimizer::Adam(Adam::new(0.05).unwrap()), 20);
    let point = PointBelief::new(vector![0.0]).unwrap();
    let lost = error_after_gap(&adam, &point);
    let found = error_after_gap(&adam.widening(), &point);
    assert!(lost > 3.0 * best && found < 0.6 * lost, "{lost} {found}, Kalman {best}");
}

#[test]
fn without_a_gap_widening_changes_no_bit() {
    let y: Vec<f64> = (0..50).map(|k| if k % 7 == 3 { NAN } else { (k as f64).sin() }).collect();
    let full: Vec<f64> = y.iter().map(|v| if v.is_nan() { 0.3 } else { *v }).collect();
    let walk = RandomWalk::new(Const::<1>);
    let plain =
        ImplicitMap::new(walk, likelihood(), GradientDescent::new(0.02).unwrap(), 4).unwrap();
    let widening = plain.clone().widening();
    let run = |filter: &ImplicitMap<_, _, _>, y: &[f64]| {
        let series = Series::new(y, 1).unwrap().with_dt(0.1).unwrap();
        filter.run(&mut PointBelief::new(vector![0.0]).unwrap(), &series).unwrap().means
    };
    assert_eq!(run(&plain, &full), run(&widening, &full));
    assert_ne!(run(&plain, &y), run(&widening, &y));
    // Nor do the months of a calendar make a gap; a longer step does.
    let months: Vec<f64> = (0..50).map(|k| f64::from(30 * k + (k % 2))).collect();
    let timed = |filter: &ImplicitMap<_, _, _>, times: &[f64]| {
        let series = Series::new(&full, 1).unwrap().with_times(times).unwrap();
        filter.run(&mut PointBelief::new(vector![0.0]).unwrap(), &series).unwrap().means
    };
    assert_eq!(timed(&plain, &months), timed(&widening, &months));
    let longer: Vec<f64> =
        months.iter().map(|t| t + if *t > 900.0 { 300.0 } else { 0.0 }).collect();
    assert_ne!(timed(&plain, &longer), timed(&widening, &longer));
    // A batch with gaps takes every series by itself.
    let series = Series::new(&y, 1).unwrap().with_dt(0.1).unwrap();
    let starts = vec![SVector::<f64, 1>::zeros(); 5];
    let batch = Batch::new(vec![series; 5]).run(&widening, &starts).unwrap();
    assert_eq!(batch.trajectory(4), Some(Ok(run(&widening, &y))));
}

#[test]
fn noise_of_continuous_time_is_checked() {
    let wrong = GaussianNoise::continuous(matrix![NAN], matrix![1.0], matrix![1.0], 1.0);
    assert!(wrong.is_err());
    let noise =
        GaussianNoise::<One, One>::continuous(matrix![-0.5], matrix![1.0], matrix![1.0], 1.0);
    // Of an Ornstein-Uhlenbeck process: (1 - e^(-2 a dt)) / (2 a), a = 0.5.
    let q = noise.unwrap().process_cov(&Step::even(1, 3.0))[0];
    assert!((q - (1.0 - (-3.0f64).exp())).abs() < 1e-15, "{q}");
}

#[test]
fn a_confined_covariance_that_is_not_finite_is_a_flaw() {
    let cov = matrix![1.0, f64::INFINITY; f64::INFINITY, 1.0];
    // So far inside that nothing is cut off.
    let mut belief = GaussianBelief { mean: vector![1e9, 1e9], cov };
    belief.confine(&Bounds::new(vec![0.0, 0.0], vec![f64::INFINITY; 2]).unwrap());
    assert_eq!(belief.flaw(), Some("cov"));
}

/// Measurements far more precise than the belief, whose R is lost in the rounding of S: of a linear model the unscented filter is the
/// Kalman filter.
#[test]
fn unscented_updates_by_very_precise_measurements_are_those_of_kalman() {
    let points = SigmaPoints::merwe(1.0, 2.0, 0.0);
    let track = Linear::new(matrix![1.0, 1.0; 0.0, 1.0], matrix![1.0, 0.0]).unwrap();
    for r in [1e-13, 1e-16, 1e-20, 1e-36, 1e-100] {
        let level = GaussianNoise::new(matrix![0.01], matrix![r]).unwrap();
        let unscented =
            UnscentedKalmanFilter::new(RandomWalk::new(Const::<1>), level.clone(), points).unwrap();
        let kalman = KalmanFilter::new(Linear::new(matrix![1.0], matrix![1.0]).unwrap(), level);
        let start = GaussianBelief::new(vector![-6.8], matrix![1.0]).unwrap();
        agree(&unscented, &kalman, start, r);

        let q = matrix![0.25, 0.5; 0.5, 1.0];
        let noise = GaussianNoise::new(q + matrix![0.1, 0.0; 0.0, 0.0], matrix![r]).unwrap();
        let unscented = UnscentedKalmanFilter::new(track.clone(), noise.clone(), points).unwrap();
        let start = GaussianBelief::new(vector![0.3, -1.7], matrix![9.0, 2.0; 2.0, 4.0]).unwrap();
        agree(&unscented, &KalmanFilter::new(track.clone(), noise), start, r);
    }
}

fn agree<F, K>(unscented: &F, kalman: &K, start: F::Belief, r: f64)
where
    F: Filter,
    F::Belief: Belief<F::State>,
    K: Filter<State = F::State, Output = F::Output, Belief = F::Belief>,
    nalgebra::DefaultAllocator: optfilter::Shapes<F::State, F::Output>,
{
    let (mut a, mut b) = (start.clone(), start);
    for (k, y) in [1.0, 2.0, 1.5, 3.7].into_iter().enumerate() {
        let step = Step::even(k as u64 + 1, 1.0);
        let seen = optfilter::drive::advance(unscented, &mut a, k > 0, (&[y], &[]), &step).unwrap();
        let known = optfilter::drive::advance(kalman, &mut b, k > 0, (&[y], &[]), &step).unwrap();
        // Rounding, of numbers that go through a factor of the covariance.
        let close =
            |a: f64, b: f64| (a - b).abs() <= 1e-11 * (a.abs() + b.abs()) + 1e-13 * r.sqrt();
        assert!(close(seen.nis.unwrap(), known.nis.unwrap()), "R {r}, row {k}: {seen:?} {known:?}");
        for (a, b) in a.mean().iter().zip(b.mean().iter()) {
            assert!((a - b).abs() < 1e-12 * (1.0 + b.abs()), "R {r}, row {k}: {a} {b}");
        }
        for (a, b) in a.cov().unwrap().iter().zip(b.cov().unwrap().iter()) {
            assert!(close(*a, *b), "R {r}, row {k}: {a} {b}");
        }
    }
}

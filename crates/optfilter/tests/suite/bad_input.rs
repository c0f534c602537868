//! Bad input gets a typed error that names the argument and, where there is one, the time index; nothing
//! panics.
//!
//! The first part gives one bad argument at a time and reads the whole message, since the message is what a
//! user has. The second part throws random sizes, NaN, infinities and huge numbers at every constructor and
//! step: it asserts nothing but that control returns.

use nalgebra::{Const, DMatrix, DVector, Dyn, SMatrix, matrix, vector};
use optfilter::Series;
use optfilter::batch::sweep;
use optfilter::drive::Run;
use optfilter::equivalence::{
    EquivalenceError, compensated_cov, implied_prior, implied_prior_of_rate, largest_rate,
    learning_rate_matrix,
};
use optfilter::filter::{
    Belief, ErrorBars, ExtendedKalmanFilter, Filter, FilterError, GaussianBelief, ImplicitMap,
    IteratedKalmanFilter, KalmanFilter, Memory, ParticleBelief, ParticleFilter, PointBelief,
    Resampling, Scheme, SigmaPoints, UnscentedKalmanFilter, VariationalKalmanFilter,
};
use optfilter::metrics::{nees, rmse};
use optfilter::model::likelihood::{
    Bernoulli, Component, Gaussian, Huber, Independent, Link, Poisson, SquaredError, StudentT,
};
use optfilter::model::{
    Dynamics, GaussianNoise, Growth, Linear, Lorenz63, Noise, Observation, RandomWalk, Step,
};
use optfilter::optim::{
    Adadelta, Adagrad, Adam, AnyOptimizer, Bounds, GradientDescent, Preconditioned, RmsProp,
};
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;
use optfilter::simulate::simulate;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The message of an error.
#[track_caller]
fn message<T, E: std::fmt::Display>(result: Result<T, E>) -> String {
    match result {
        Ok(_) => panic!("bad input was taken for good"),
        Err(error) => error.to_string(),
    }
}

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

#[test]
fn beliefs() {
    let unit = matrix![1.0, 0.0; 0.0, 1.0];
    let bad = GaussianBelief::new(vector![1.0, NAN], unit);
    assert_eq!(message(bad), "initial mean: component 1 is not a finite number");
    let bad = GaussianBelief::new(vector![-INF, 1.0], unit);
    assert_eq!(message(bad), "initial mean: component 0 is not a finite number");
    for cov in [
        matrix![1.0, 2.0; 2.0, 1.0],  // indefinite
        matrix![1.0, 0.5; -0.5, 1.0], // not symmetric
        matrix![-1.0, 0.0; 0.0, 1.0], // negative
        matrix![NAN, 0.0; 0.0, 1.0],
        matrix![1.0, INF; INF, 1.0],
    ] {
        let bad = GaussianBelief::new(vector![0.0, 0.0], cov);
        assert_eq!(message(bad), "initial cov is not symmetric positive definite", "{cov}");
    }
    let bad = GaussianBelief::new(DVector::zeros(2), DMatrix::identity(3, 3));
    assert_eq!(message(bad), "initial cov has 9 numbers where 4 are needed");
    let bad = GaussianBelief::new(DVector::zeros(2), DMatrix::zeros(1, 4));
    assert_eq!(message(bad), "initial cov is not symmetric positive definite");
    let bad = PointBelief::<_, ()>::new(vector![0.0, 0.0, NAN]);
    assert_eq!(message(bad), "initial mean: component 2 is not a finite number");
    let start = GaussianBelief::new(vector![0.0, 0.0], unit).unwrap();
    let bad = ParticleBelief::new(&start, 0, Stream::new(0, 0, "p"));
    assert_eq!(message(bad), "particles must be at least 1");
    let odd = GaussianBelief { mean: DVector::zeros(2), cov: DMatrix::identity(1, 1) };
    let bad = ParticleBelief::new(&odd, 5, Stream::new(0, 0, "p"));
    assert_eq!(message(bad), "initial cov has 1 numbers where 2 are needed");
    // A covariance of zeros is a certain state, and fine.
    assert!(GaussianBelief::new(vector![0.0, 0.0], unit * 0.0).is_ok());
}

#[test]
fn noise() {
    let (good, indefinite) = (matrix![1.0, 0.0; 0.0, 1.0], matrix![1.0, 2.0; 2.0, 1.0]);
    let q = "process_cov (Q) must be square, finite, symmetric and positive semi-definite";
    let r = "measurement_cov (R) must be square, finite, symmetric and positive definite";
    for bad in [indefinite, good * NAN, good * INF, -good, matrix![1.0, 0.1; 0.0, 1.0]] {
        assert_eq!(message(GaussianNoise::new(bad, good)), q, "{bad}");
        assert_eq!(message(GaussianNoise::per_time(bad, good)), q, "{bad}");
        assert_eq!(message(GaussianNoise::new(good, bad)), r, "{bad}");
        assert_eq!(message(Gaussian::new(bad)), r, "{bad}");
    }
    // Q may be singular, R may not.
    assert!(GaussianNoise::new(good * 0.0, good).is_ok());
    assert!(GaussianNoise::new(good, good * 0.0).is_ok());
    assert_eq!(message(GaussianNoise::new(good, -good)), r);
    assert_eq!(message(GaussianNoise::new(DMatrix::zeros(2, 3), DMatrix::identity(1, 1))), q);
    assert_eq!(message(Gaussian::diagonal(vector![1.0, 0.0])), r);
    let bad = VariationalKalmanFilter::new(
        RandomWalk::new(Const::<2>),
        SquaredError,
        indefinite,
        GradientDescent::new(0.1).unwrap(),
        1,
    );
    assert_eq!(message(bad), "prior_cov is not symmetric positive definite");
}

#[test]
fn optimizers() {
    for lr in [0.0, -0.1, NAN, INF] {
        for name in AnyOptimizer::NAMES {
            let text = message(AnyOptimizer::from_name(name, lr, None));
            let rule = match name {
                "gd" | "momentum" | "nesterov" => "gradient descent",
                other => other,
            };
            let expected =
                format!("{rule}: lr = {lr} is not allowed; it must be positive and finite");
            assert_eq!(text, expected);
        }
        assert!(Adagrad::new(lr).is_err() && Adadelta::new(lr).is_err());
    }
    for decay in [1.0, 1.5, -0.1, NAN] {
        let tail = format!("= {decay} is not allowed; it must be at least 0 and below 1");
        let texts = [
            (message(GradientDescent::with_momentum(0.1, decay)), "gradient descent: momentum"),
            (message(GradientDescent::with_nesterov(0.1, decay)), "gradient descent: momentum"),
            (message(Adadelta::with_decay(0.1, decay)), "adadelta: rho"),
            (message(RmsProp::with_decay(0.1, decay)), "rmsprop: gamma"),
            (message(Adam::with_decay(0.1, decay, 0.5)), "adam: beta1"),
            (message(Adam::with_decay(0.1, 0.5, decay)), "adam: beta2"),
        ];
        for (text, head) in texts {
            assert_eq!(text, format!("{head} {tail}"));
        }
    }
    let text = message(AnyOptimizer::from_name("sgd", 0.1, None));
    assert!(text.contains("\"sgd\"") && text.contains("rmsprop"), "{text}");
    for bad in [DMatrix::from_element(2, 2, NAN), DMatrix::zeros(2, 3), -DMatrix::identity(2, 2)] {
        assert_eq!(
            message(Preconditioned::new(bad)),
            "the learning-rate matrix must be square, finite, symmetric and positive semi-definite"
        );
    }
    let text = message(Bounds::new(vec![0.0, 2.0], vec![1.0, 1.0]));
    assert_eq!(text, "bounds: lower[1] = 2 is above upper[1] = 1, or one is NaN");
    assert!(message(Bounds::new(vec![0.0], vec![1.0, 1.0])).contains("lower[1] = NaN"));
    assert!(message(Bounds::new(vec![NAN], vec![1.0])).contains("lower[0] = NaN"));
}

#[test]
fn settings() {
    let noise = GaussianNoise::new(matrix![1.0], matrix![1.0]).unwrap();
    let gd = GradientDescent::new(0.1).unwrap();
    let implicit = |steps| ImplicitMap::new(Growth, SquaredError, gd, steps);
    assert_eq!(message(implicit(0)), "steps must be at least 1");
    let variational = VariationalKalmanFilter::new(Growth, SquaredError, matrix![1.0], gd, 0);
    assert_eq!(message(variational), "steps must be at least 1");
    assert_eq!(
        message(IteratedKalmanFilter::new(Growth, noise.clone(), 0)),
        "iterations must be at least 1"
    );
    let text =
        message(implicit(1).unwrap().with_bounds(Bounds::new(vec![0.0; 2], vec![1.0; 2]).unwrap()));
    assert_eq!(text, "bounds has 2 numbers where 1 are needed");
    for (points, value) in [
        (SigmaPoints::merwe(0.0, 2.0, 0.0), "0"),
        (SigmaPoints::merwe(1.0, 2.0, -1.0), "0"),
        (SigmaPoints::julier(-2.0), "-1"),
        (SigmaPoints::merwe(NAN, 2.0, 0.0), "NaN"),
        (SigmaPoints::merwe(1.0, 2.0, INF), "inf"),
    ] {
        assert_eq!(
            message(UnscentedKalmanFilter::new(Growth, noise.clone(), points)),
            format!("alpha^2 (n + kappa) = {value} is not allowed; it must be positive and finite")
        );
    }
    let text = message(UnscentedKalmanFilter::new(
        Growth,
        noise.clone(),
        SigmaPoints::merwe(1.0, NAN, 0.0),
    ));
    assert_eq!(text, "beta = NaN is not allowed; it must be finite");
    for threshold in [-0.1, 1.5, NAN] {
        let resampling = Resampling::Below(Scheme::Systematic, threshold);
        assert_eq!(
            message(ParticleFilter::new(Growth, SquaredError, noise.clone(), resampling)),
            format!(
                "resampling threshold = {threshold} is not allowed; it must be between 0 and 1"
            )
        );
    }
    let carried = implicit(1).unwrap().with_memory(Memory::Carry);
    let text = message(ErrorBars::new(carried, noise.clone()));
    assert!(text.contains("memory = Carry") && text.contains("Restart"), "{text}");
    let adam = AnyOptimizer::from_name("adam", 0.1, None).unwrap();
    let filter = ImplicitMap::new(Growth, SquaredError, adam, 1).unwrap();
    let y = [1.0];
    let series = Series::new(&y, 1).unwrap().predict_first();
    let text = message(sweep(&filter, &[(adam, 3), (adam, 0)], &vector![0.0], &series));
    assert_eq!(text, "steps must be at least 1");

    // Parts made for another size than the model's.
    let walk = RandomWalk::new(Dyn(2));
    let three = Gaussian::new(DMatrix::identity(3, 3)).unwrap();
    let text = message(ImplicitMap::new(walk, three.clone(), gd, 1));
    assert_eq!(text, "likelihood has 3 numbers where 2 are needed");
    let one = Independent::new(vec![Component::normal(1.0).unwrap()]);
    let text = message(ImplicitMap::new(walk, one.clone(), gd, 1));
    assert_eq!(text, "likelihood has 1 numbers where 2 are needed");
    let text = message(VariationalKalmanFilter::new(walk, one, DMatrix::identity(2, 2), gd, 1));
    assert_eq!(text, "likelihood has 1 numbers where 2 are needed");
    let text =
        message(VariationalKalmanFilter::new(walk, SquaredError, DMatrix::identity(3, 3), gd, 1));
    assert!(text.starts_with("prior_cov has"), "{text}");
    let pair = GaussianNoise::new(DMatrix::identity(2, 2), DMatrix::identity(2, 2)).unwrap();
    let resampling = Resampling::Always(Scheme::Systematic);
    let text = message(ParticleFilter::new(walk, three, pair, resampling));
    assert_eq!(text, "likelihood has 3 numbers where 2 are needed");
    let big = Preconditioned::new(DMatrix::identity(3, 3)).unwrap();
    let text = message(ImplicitMap::new(walk, SquaredError, big.clone(), 1));
    assert_eq!(text, "learning-rate matrix has 3 numbers where 2 are needed");
    // The optimizer may be exchanged later.
    let small = Preconditioned::new(DMatrix::identity(2, 2)).unwrap();
    let mut filter = ImplicitMap::new(walk, SquaredError, small, 1).unwrap();
    filter.set_optimizer(big);
    let mut belief = PointBelief::new(DVector::zeros(2)).unwrap();
    let text = message(filter.update(&mut belief, &[0.0, 0.0], &[], &Step::even(6, 1.0)));
    assert_eq!(text, "learning-rate matrix has 3 numbers where 2 are needed at time index 6");
}

#[test]
fn likelihood_parameters() {
    for bad in [0.0, -1.0, NAN, INF] {
        let tail = format!("= {bad} is not allowed; it must be positive and finite");
        assert_eq!(message(StudentT::new(bad, 1.0)), format!("Student-t: dof {tail}"));
        assert_eq!(message(StudentT::new(1.0, bad)), format!("Student-t: scale {tail}"));
        assert_eq!(message(Huber::new(bad, 1.0)), format!("Huber: delta {tail}"));
        assert_eq!(message(Huber::new(1.0, bad)), format!("Huber: scale {tail}"));
        assert_eq!(message(Component::normal(bad)), format!("Gaussian: std {tail}"));
    }
}

#[test]
fn series() {
    assert_eq!(message(Series::new(&[], 1)), "observations is empty");
    assert_eq!(message(Series::new(&[1.0], 0)), "observations is empty");
    assert_eq!(
        message(Series::new(&[1.0, 2.0, 3.0], 2)),
        "observations has 3 numbers where 4 are needed"
    );
    let text = message(Series::new(&[1.0, 2.0, 3.0, INF], 2));
    assert_eq!(text, "observations: component 1 is not a finite number at time index 2");
    let y = [1.0, 2.0, 3.0];
    let series = Series::new(&y, 1).unwrap().predict_first();
    for dt in [0.0, -0.5, NAN, INF] {
        assert_eq!(
            message(series.with_dt(dt)),
            format!("dt = {dt} is not allowed; a time step must be positive and finite")
        );
    }
    let text = message(series.with_times(&[1.0, 2.0]).and_then(|s| s.start_at(0.0)));
    assert_eq!(text, "times has 2 numbers where 3 are needed");
    let text = message(series.with_times(&[1.0, 3.0, 2.5]).and_then(|s| s.start_at(0.0)));
    assert_eq!(
        text,
        "times run backwards at time index 3: 2.5 after 3; sort the measurements by time"
    );
    let text = message(series.with_times(&[1.0, 3.0, 4.0]).and_then(|s| s.start_at(1.5)));
    assert!(text.starts_with("times run backwards at time index 1: 1 after 1.5"), "{text}");
    let text = message(series.with_times(&[1.0, NAN, 2.0]).and_then(|s| s.start_at(0.0)));
    assert_eq!(text, "times: component 0 is not a finite number at time index 2");
    for start in [NAN, INF, -INF] {
        let text = message(series.with_times(&[1.0, 2.0, 3.0]).and_then(|s| s.start_at(start)));
        assert_eq!(text, "start: component 0 is not a finite number");
    }
    // Several measurements at one time are fine.
    assert!(series.with_times(&[1.0, 1.0, 1.0]).and_then(|s| s.start_at(0.0)).is_ok());
    let text = message(series.with_inputs(&[1.0, 2.0], 1));
    assert_eq!(text, "inputs has 2 numbers where 3 are needed");
    let text = message(series.with_inputs(&[1.0, 2.0, 3.0, 4.0, NAN, 6.0], 2));
    assert_eq!(text, "inputs: component 0 is not a finite number at time index 3");
    assert!(series.with_inputs(&[], usize::MAX).is_err());
}

/// A filter's answers to bad steps, whatever the filter: 2 states, 2 measurements, 1 input.
fn refuses_bad_steps<F>(filter: &F, belief: &F::Belief, what: &str)
where
    F: Filter<State = Const<2>, Output = Const<2>>,
    F::Belief: Belief<Const<2>>,
{
    let step = Step::even(7, 0.1);
    let mut b = belief.clone();
    for (u, text) in [
        (vec![], "u has 0 numbers where 1 are needed at time index 7"),
        (vec![0.0, 0.0], "u has 2 numbers where 1 are needed at time index 7"),
        (vec![NAN], "u: component 0 is not a finite number at time index 7"),
        (vec![-INF], "u: component 0 is not a finite number at time index 7"),
    ] {
        assert_eq!(message(filter.predict(&mut b, &u, &step)), text, "{what}");
        assert_eq!(message(filter.update(&mut b, &[0.0, 0.0], &u, &step)), text, "{what}");
    }
    for (y, text) in [
        (vec![1.0], "y has 1 numbers where 2 are needed at time index 7"),
        (vec![], "y has 0 numbers where 2 are needed at time index 7"),
        (vec![1.0, INF], "y: component 1 is not a finite number at time index 7"),
        (vec![-INF, NAN], "y: component 0 is not a finite number at time index 7"),
    ] {
        assert_eq!(message(filter.update(&mut b, &y, &[0.0], &step)), text, "{what}");
    }
    filter.predict(&mut b, &[0.0], &step).unwrap();
    filter.update(&mut b, &[0.5, NAN], &[0.0], &step).unwrap();
}

#[test]
fn steps() {
    let unit = matrix![1.0, 0.0; 0.0, 1.0];
    let model = Linear::new(unit, unit).unwrap().with_inputs(vec![vector![1.0, 0.0]]).unwrap();
    let noise = GaussianNoise::new(unit, unit).unwrap();
    let start = GaussianBelief::new(vector![0.0, 0.0], unit).unwrap();
    let point = PointBelief::new(vector![0.0, 0.0]).unwrap();
    refuses_bad_steps(&KalmanFilter::new(model.clone(), noise.clone()), &start, "Kalman");
    refuses_bad_steps(&ExtendedKalmanFilter::new(model.clone(), noise.clone()), &start, "extended");
    refuses_bad_steps(
        &IteratedKalmanFilter::new(model.clone(), noise.clone(), 2).unwrap(),
        &start,
        "iterated",
    );
    let unscented =
        UnscentedKalmanFilter::new(model.clone(), noise.clone(), SigmaPoints::julier(1.0)).unwrap();
    refuses_bad_steps(&unscented, &start, "unscented");
    let gd = GradientDescent::new(0.1).unwrap();
    let implicit = ImplicitMap::new(model.clone(), SquaredError, gd, 2).unwrap();
    refuses_bad_steps(&implicit, &point, "implicit");
    let bars = ErrorBars::new(implicit.clone(), noise.clone()).unwrap();
    refuses_bad_steps(&bars, &start, "error bars");
    let variational =
        VariationalKalmanFilter::new(model.clone(), SquaredError, unit, gd, 2).unwrap();
    refuses_bad_steps(&variational, &PointBelief::new(vector![0.0, 0.0]).unwrap(), "variational");
    let resampling = Resampling::Always(Scheme::Residual);
    let particle = ParticleFilter::new(model, SquaredError, noise, resampling).unwrap();
    let particles = ParticleBelief::new(&start, 9, Stream::new(0, 0, "p")).unwrap();
    refuses_bad_steps(&particle, &particles, "particle");

    // A whole series of the wrong shape.
    let (y, u) = ([1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]);
    let thin = Series::new(&y, 1).unwrap().with_inputs(&u, 1).unwrap().predict_first();
    let text = message(implicit.run(&mut point.clone(), &thin));
    assert_eq!(text, "observations has 1 numbers where 2 are needed");
    let undriven = Series::new(&y, 2).unwrap().predict_first();
    let text = message(implicit.run(&mut point.clone(), &undriven));
    assert_eq!(text, "inputs has 0 numbers where 1 are needed");
}

/// Gives a belief of 3 components to a filter of 2.
fn refuses_other_beliefs<F>(filter: &F, belief: F::Belief, text: &str, what: &str)
where
    F: Filter<State = Dyn, Output = Dyn>,
    F::Belief: Belief<Dyn>,
{
    let step = Step::even(4, 1.0);
    let mut belief = belief;
    assert_eq!(message(filter.predict(&mut belief, &[], &step)), text, "{what}");
    assert_eq!(message(filter.update(&mut belief, &[0.0, 0.0], &[], &step)), text, "{what}");
}

#[test]
fn sizes_known_at_run_time() {
    let unit = DMatrix::identity(2, 2);
    let model = Linear::new(unit.clone(), unit.clone()).unwrap();
    let noise = GaussianNoise::new(unit.clone(), unit.clone()).unwrap();
    let other = GaussianBelief::new(DVector::zeros(3), DMatrix::identity(3, 3)).unwrap();
    let odd = GaussianBelief { mean: DVector::zeros(2), cov: DMatrix::identity(3, 3) };
    let kalman = KalmanFilter::new(model.clone(), noise.clone());
    let extended = ExtendedKalmanFilter::new(model.clone(), noise.clone());
    let iterated = IteratedKalmanFilter::new(model.clone(), noise.clone(), 2).unwrap();
    let unscented =
        UnscentedKalmanFilter::new(model.clone(), noise.clone(), SigmaPoints::julier(1.0)).unwrap();
    let gd = GradientDescent::new(0.1).unwrap();
    let implicit = ImplicitMap::new(model.clone(), SquaredError, gd, 2).unwrap();
    let bars = ErrorBars::new(implicit.clone(), noise.clone()).unwrap();
    for (belief, text) in [
        (other.clone(), "belief has 3 numbers where 2 are needed at time index 4"),
        (odd, "belief's cov has 3 numbers where 2 are needed at time index 4"),
    ] {
        refuses_other_beliefs(&kalman, belief.clone(), text, "Kalman");
        refuses_other_beliefs(&extended, belief.clone(), text, "extended");
        refuses_other_beliefs(&iterated, belief.clone(), text, "iterated");
        refuses_other_beliefs(&unscented, belief.clone(), text, "unscented");
        refuses_other_beliefs(&bars, belief, text, "error bars");
    }
    let text = "belief has 3 numbers where 2 are needed at time index 4";
    let point = PointBelief::new(DVector::zeros(3)).unwrap();
    refuses_other_beliefs(&implicit, point, text, "implicit");
    let variational =
        VariationalKalmanFilter::new(model.clone(), SquaredError, unit.clone(), gd, 2).unwrap();
    let point = PointBelief::new(DVector::zeros(3)).unwrap();
    refuses_other_beliefs(&variational, point, text, "variational");
    let resampling = Resampling::Always(Scheme::Stratified);
    let particle = ParticleFilter::new(model.clone(), SquaredError, noise, resampling).unwrap();
    let particles = ParticleBelief::new(&other, 9, Stream::new(0, 0, "p")).unwrap();
    let text = "particles' state has 3 numbers where 2 are needed at time index 4";
    refuses_other_beliefs(&particle, particles, text, "particle");

    // Noise of another size than the model's.
    let step = Step::even(5, 1.0);
    let start = GaussianBelief::new(DVector::zeros(2), unit.clone()).unwrap();
    let particles = ParticleBelief::new(&start, 9, Stream::new(0, 0, "p")).unwrap();
    let wide_q = GaussianNoise::new(DMatrix::identity(3, 3), unit.clone()).unwrap();
    let wide_r = GaussianNoise::new(unit.clone(), DMatrix::identity(3, 3)).unwrap();
    let q_text = "process_cov (Q) has 3 numbers where 2 are needed at time index 5";
    let r_text = "measurement_cov (R) has 3 numbers where 2 are needed at time index 5";
    let y = [1.0, 1.0];
    macro_rules! refuses_noise {
        ($make:expr, $belief:expr) => {
            let filter = $make(wide_q.clone());
            assert_eq!(message(filter.predict(&mut $belief.clone(), &[], &step)), q_text);
            let filter = $make(wide_r.clone());
            assert_eq!(message(filter.update(&mut $belief.clone(), &y, &[], &step)), r_text);
        };
    }
    refuses_noise!(|q| KalmanFilter::new(model.clone(), q), start);
    refuses_noise!(|q| ExtendedKalmanFilter::new(model.clone(), q), start);
    refuses_noise!(|q| IteratedKalmanFilter::new(model.clone(), q, 2).unwrap(), start);
    refuses_noise!(
        |q| UnscentedKalmanFilter::new(model.clone(), q, SigmaPoints::julier(1.0)).unwrap(),
        start
    );
    refuses_noise!(|q| ErrorBars::new(implicit.clone(), q).unwrap(), start);
    refuses_noise!(
        |q| ParticleFilter::new(model.clone(), SquaredError, q, resampling).unwrap(),
        particles
    );
    let mut stream = Stream::new(0, 0, "s");
    let text = message(simulate(&model, &wide_q, &start, 3, 1.0, &mut stream));
    assert_eq!(text, "process_cov (Q) has 3 numbers where 2 are needed at time index 1");
    let text = message(simulate(&model, &wide_r, &start, 3, 1.0, &mut stream));
    assert_eq!(text, "measurement_cov (R) has 3 numbers where 2 are needed at time index 1");
    let text = message(simulate(&model, &wide_r, &other, 3, 1.0, &mut stream));
    assert_eq!(text, "initial mean has 3 numbers where 2 are needed");

    let text = message(Linear::new(DMatrix::zeros(2, 3), DMatrix::zeros(1, 2)));
    assert_eq!(text, "F is 2 x 3; a state of 2 components was expected");
    let text = message(Linear::new(DMatrix::zeros(2, 2), DMatrix::zeros(1, 3)));
    assert_eq!(text, "H is 1 x 3; a state of 2 components was expected");
    let text = message(model.with_inputs(vec![DVector::zeros(3)]));
    assert_eq!(text, "B is 3 x 1; a state of 2 components was expected");
}

#[test]
fn impossible_measurements() {
    let walk = RandomWalk::new(Const::<2>);
    let gd = GradientDescent::new(0.1).unwrap();
    let step = Step::even(3, 1.0);
    let unit = matrix![1.0, 0.0; 0.0, 1.0];
    let noise = GaussianNoise::new(unit, unit).unwrap();
    let start = GaussianBelief::new(vector![0.5, 0.5], unit).unwrap();
    for (y, component, value) in
        [([1.0, -1.0], 1, "-1"), ([1.5, 2.0], 0, "1.5"), ([NAN, 0.1], 1, "0.1")]
    {
        let text = format!(
            "measurement {value} of component {component} at time index 3 is impossible under the likelihood"
        );
        let counts = Poisson { link: Link::Canonical };
        let mut point = PointBelief::new(vector![0.5, 0.5]).unwrap();
        let filter = ImplicitMap::new(walk, counts, gd, 2).unwrap();
        assert_eq!(message(filter.update(&mut point, &y, &[], &step)), text);
        let mut point = PointBelief::new(vector![0.5, 0.5]).unwrap();
        let filter = VariationalKalmanFilter::new(walk, counts, unit, gd, 2).unwrap();
        assert_eq!(message(filter.update(&mut point, &y, &[], &step)), text);
        let always = Resampling::Always(Scheme::Systematic);
        let filter = ParticleFilter::new(walk, counts, noise.clone(), always).unwrap();
        let mut particles = ParticleBelief::new(&start, 9, Stream::new(0, 0, "p")).unwrap();
        assert_eq!(message(filter.update(&mut particles, &y, &[], &step)), text);
        let filter = ImplicitMap::new(walk, counts, gd, 2).unwrap();
        let bars = ErrorBars::new(filter, noise.clone()).unwrap();
        assert_eq!(message(bars.update(&mut start.clone(), &y, &[], &step)), text);
    }
    let filter = ImplicitMap::new(walk, Bernoulli { link: Link::Identity }, gd, 2).unwrap();
    let mut point = PointBelief::new(vector![0.5, 0.5]).unwrap();
    let text = message(filter.update(&mut point, &[1.0, 0.5], &[], &step));
    assert!(text.starts_with("measurement 0.5 of component 1 at time index 3"), "{text}");
    let mixed = Independent::new(vec![
        Component::normal(1.0).unwrap(),
        Component::Poisson(Poisson { link: Link::Identity }),
    ]);
    let filter = ImplicitMap::new(walk, mixed, gd, 2).unwrap();
    let mut point = PointBelief::new(vector![0.5, 0.5]).unwrap();
    let text = message(filter.update(&mut point, &[-1.5, -1.0], &[], &step));
    assert!(text.starts_with("measurement -1 of component 1"), "{text}");
}

#[test]
fn equivalence() {
    let one = matrix![1.0];
    let text = message(implied_prior_of_rate(4.0, &one, &one, 3));
    assert_eq!(
        text,
        "no prior implies this learning rate: its largest product with the curvature is 4 and must stay \
         below 1; scale the learning rate by less than 0.25 (the largest admissible rate is \
         just below 1)"
    );
    // Exactly at the border, too; and with R = 4 the border is 4.
    assert!(implied_prior_of_rate(1.0, &one, &one, 1).is_err());
    let error = implied_prior_of_rate(8.0, &one, &matrix![4.0], 1).unwrap_err();
    let EquivalenceError::LearningRateTooLarge { largest_rate: Some(largest), .. } = error else {
        panic!("{error}")
    };
    assert!((largest - 4.0).abs() < 1e-14);
    assert!(implied_prior_of_rate(largest * 0.999, &one, &matrix![4.0], 1).is_ok());
    let text = message(implied_prior(&matrix![4.0], &one, &one, 3));
    assert!(text.contains("scale the learning rate by less than 0.25"), "{text}");
    assert_eq!(message(implied_prior(&matrix![0.5], &one, &one, 0)), "steps must be at least 1");
    let text = message(learning_rate_matrix(&matrix![0.5], &one, &one, 0));
    assert_eq!(text, "steps must be at least 1");
    for rate in [0.0, -1.0, NAN, INF] {
        assert_eq!(
            message(implied_prior_of_rate(rate, &one, &one, 1)),
            format!("learning rate {rate} is not allowed; it must be positive and finite")
        );
    }
    let (good, bad) = (DMatrix::identity(2, 2), matrix_of(&[1.0, 2.0, 2.0, 1.0]));
    let tail = "must be square, finite, symmetric and positive definite";
    let text = message(learning_rate_matrix(&bad, &good, &good, 1));
    assert_eq!(text, format!("prior_cov {tail}"));
    assert_eq!(message(learning_rate_matrix(&good, &good, &bad, 1)), format!("r {tail}"));
    let text = message(implied_prior(&bad, &good, &good, 1));
    assert_eq!(text, format!("learning-rate matrix {tail}"));
    assert_eq!(message(compensated_cov(&bad, &good, &good)), format!("cov {tail}"));
    assert_eq!(message(largest_rate(&good, &bad)), format!("r {tail}"));
    let text = message(learning_rate_matrix(&good, &DMatrix::zeros(1, 3), &good, 1));
    assert_eq!(text, "h is 1 x 3, which does not fit the others");
    let empty = DMatrix::<f64>::zeros(0, 0);
    assert!(learning_rate_matrix(&empty, &empty, &empty, 1).is_err());
    assert!(compensated_cov(&empty, &empty, &empty).is_err());
    // A curvature beyond the largest double.
    let text = message(learning_rate_matrix(&good, &(&good * 1e200), &good, 1));
    assert_eq!(text, format!("H' R^-1 H {tail}"));
    // No measurement direction at all: every rate is admissible.
    assert_eq!(largest_rate(&DMatrix::zeros(1, 2), &DMatrix::identity(1, 1)).unwrap(), INF);
}

fn matrix_of(rows: &[f64]) -> DMatrix<f64> {
    let n = (rows.len() as f64).sqrt() as usize;
    DMatrix::from_row_slice(n, n, rows)
}

#[test]
fn simulation_and_metrics() {
    let unit = SMatrix::<f64, 3, 3>::identity();
    let noise = GaussianNoise::new(unit, unit).unwrap();
    let start = GaussianBelief::new(vector![0.0, 0.0, 0.0], unit).unwrap();
    let model = Lorenz63::default().rk4();
    let mut stream = Stream::new(0, 0, "s");
    for dt in [0.0, -1.0, NAN] {
        let text = message(simulate(&model, &noise, &start, 3, dt, &mut stream));
        let expected = format!("dt = {dt} is not allowed; a time step must be positive and finite");
        assert_eq!(text, expected);
    }
    let indefinite = GaussianBelief { mean: start.mean, cov: -unit };
    let text = message(simulate(&model, &noise, &indefinite, 3, 0.1, &mut stream));
    assert_eq!(text, "initial cov is not symmetric positive definite");
    let driven =
        Linear::new(matrix![1.0], matrix![1.0]).unwrap().with_inputs(vec![vector![1.0]]).unwrap();
    let noise = GaussianNoise::new(matrix![1.0], matrix![1.0]).unwrap();
    let start = GaussianBelief::new(vector![0.0], matrix![1.0]).unwrap();
    assert!(simulate(&driven, &noise, &start, 3, 0.1, &mut stream).is_err());

    assert!(rmse(&[1.0], &[1.0, 2.0]).is_nan() && rmse(&[], &[]).is_nan());
    assert_eq!(nees(&[1.0], &[1.0, 2.0], &[1.0]), None);
    assert_eq!(nees(&[1.0, 2.0], &[1.0, 2.0], &[1.0, 0.0]), None);
    assert_eq!(nees(&[1.0], &[2.0], &[-1.0]), None);
    assert_eq!(nees(&[1.0], &[3.0], &[4.0]), Some(1.0));
}

/// A covariance that goes bad at step 3.
struct Spoilt;
impl Noise<Const<1>, Const<1>> for Spoilt {
    fn process_cov(&self, step: &Step) -> SMatrix<f64, 1, 1> {
        matrix![if step.index < 3 { 1.0 } else { -100.0 }]
    }
    fn measurement_cov(&self, _step: &Step) -> SMatrix<f64, 1, 1> {
        matrix![1.0]
    }
}

#[test]
fn what_goes_bad_on_the_way_is_reported_with_its_time() {
    let y = [1.0; 6];
    let series = Series::new(&y, 1).unwrap().predict_first();
    let start = GaussianBelief::new(vector![1.0], matrix![1.0]).unwrap();
    let walk = RandomWalk::new(Const::<1>);
    let text = message(ExtendedKalmanFilter::new(walk, Spoilt).run(&mut start.clone(), &series));
    assert_eq!(text, "process_cov (Q) is not symmetric positive definite at time index 3");
    let unscented = UnscentedKalmanFilter::new(walk, Spoilt, SigmaPoints::julier(1.0)).unwrap();
    let text = message(unscented.run(&mut start.clone(), &series));
    assert_eq!(text, "process_cov (Q) is not symmetric positive definite at time index 3");
    let always = Resampling::Always(Scheme::Systematic);
    let particle = ParticleFilter::new(walk, SquaredError, Spoilt, always).unwrap();
    let mut particles = ParticleBelief::new(&start, 9, Stream::new(0, 0, "p")).unwrap();
    let text = message(particle.run(&mut particles, &series));
    assert_eq!(text, "process_cov (Q) is not symmetric positive definite at time index 3");

    // Divergence: the time, the quantity and the last good state.
    let fast = GradientDescent::new(1e40).unwrap();
    let filter = ImplicitMap::new(walk, SquaredError, fast, 2).unwrap();
    let mut belief = PointBelief::new(vector![0.0]).unwrap();
    let error = filter.run(&mut belief, &series).unwrap_err();
    let FilterError::Diverged { index: 2, quantity: "estimate", last_good } = &error else {
        panic!("{error}")
    };
    assert!(last_good[0].abs() > 1e70 && last_good[0].abs() < 1e100);
    assert_eq!(belief.mean[0], last_good[0], "the belief stays at the last good state");
    assert!(error.to_string().starts_with("the filter diverged at time index 2: estimate is not"));

    // A model that leaves the numbers by itself.
    let filter = ExtendedKalmanFilter::new(
        Explodes,
        GaussianNoise::new(matrix![1.0], matrix![1.0]).unwrap(),
    );
    let text = message(filter.run(&mut start.clone(), &series));
    assert!(text.starts_with("the filter diverged at time index 2: mean is not finite"), "{text}");
    let filter = ImplicitMap::new(Explodes, SquaredError, GradientDescent::new(0.1).unwrap(), 1);
    let mut belief = PointBelief::new(vector![1.0]).unwrap();
    let error = filter.unwrap().run(&mut belief, &series).unwrap_err();
    assert!(
        matches!(error, FilterError::Diverged { index: 2, quantity: "prediction", .. }),
        "{error}"
    );
}

/// x^2 / (2 - t): infinite at t = 2.
struct Explodes;
impl Dynamics for Explodes {
    type State = Const<1>;
    fn state_dim(&self) -> Const<1> {
        Const
    }
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], step: &Step, out: &mut [S]) {
        out[0] = x[0].square() / S::from_f64(2.0 - step.time);
    }
}
impl Observation for Explodes {
    type Output = Const<1>;
    fn output_dim(&self) -> Const<1> {
        Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out[0] = x[0];
    }
}

/// Any number at all, mostly of the kinds that break things.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -3.0..3.0f64,
        1 => Just(0.0),
        1 => Just(1.0),
        1 => Just(NAN),
        1 => Just(INF),
        1 => Just(-INF),
        1 => Just(f64::MAX),
        1 => Just(f64::MIN_POSITIVE),
        1 => any::<f64>(),
    ]
}

fn list(most: usize) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(number(), 0..=most)
}

/// A matrix of any shape up to 3 x 3; half the time one that looks like a covariance.
fn any_matrix() -> impl Strategy<Value = DMatrix<f64>> {
    prop_oneof![
        (0usize..=3, 0usize..=3).prop_flat_map(|(rows, columns)| {
            prop::collection::vec(number(), rows * columns)
                .prop_map(move |v| DMatrix::from_vec(rows, columns, v))
        }),
        (0usize..=3, number()).prop_map(|(n, v)| DMatrix::identity(n, n) * v),
        (1usize..=3).prop_map(|n| DMatrix::identity(n, n)),
        (2usize..=2).prop_map(|n| DMatrix::identity(n, n)),
        (2usize..=2).prop_map(|n| DMatrix::identity(n, n) * 0.5),
    ]
}

/// Three steps of a filter. Whatever they give, one that fails leaves the belief as it was, and one that does
/// not keeps a finite estimate finite.
fn throw<F>(filter: &F, belief: &mut F::Belief, y: &[f64], u: &[f64], dt: f64)
where
    F: Filter<State = Dyn, Output = Dyn>,
    F::Belief: Belief<Dyn> + std::fmt::Debug,
{
    let mut attempt = |step: &mut dyn FnMut(&mut F::Belief) -> bool| {
        let (before, finite) = (format!("{belief:?}"), belief.mean().iter().all(|v| v.is_finite()));
        if !step(belief) {
            assert_eq!(format!("{belief:?}"), before, "a step that failed");
        } else if finite {
            assert!(belief.mean().iter().all(|v| v.is_finite()), "{before} became {belief:?}");
        }
    };
    for k in 1..=3 {
        let step = Step { time: dt * k as f64, ..Step::even(k, dt) };
        attempt(&mut |belief| filter.predict(belief, u, &step).is_ok());
        attempt(&mut |belief| filter.update(belief, y, u, &step).is_ok());
        attempt(&mut |belief| filter.update(belief, &[1.0, NAN], u, &step).is_ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: match ProptestConfig::default().rng_seed {
            RngSeed::Random => RngSeed::Fixed(7),
            given => given,
        },
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_constructor_or_step_panics(
        (f, h, q, r, p) in (any_matrix(), any_matrix(), any_matrix(), any_matrix(), any_matrix()),
        (mean, y, u, column) in (list(3), list(3), list(2), list(3)),
        (a, b, c, dt) in (number(), number(), number(), number()),
        (count, steps) in (0usize..40, 0u32..4),
    ) {
        let sound = GaussianBelief::new(DVector::zeros(2), DMatrix::identity(2, 2)).unwrap();
        let mut beliefs = vec![
            sound.clone(),
            GaussianBelief { mean: DVector::from_vec(mean.clone()), cov: p.clone() },
        ];
        beliefs.extend(GaussianBelief::new(DVector::from_vec(mean.clone()), p.clone()));
        let _ = Series::new(&y, count).and_then(|s| s.with_dt(dt));
        let _ = Series::new(&y, 1)
            .and_then(|s| s.with_times(&mean).and_then(|s| s.start_at(a)))
            .and_then(|s| s.with_inputs(&u, count));
        let _ = (Bounds::new(mean.clone(), y.clone()), StudentT::new(a, b), Huber::new(a, b));
        for name in AnyOptimizer::NAMES {
            let _ = AnyOptimizer::from_name(name, a, Some(b));
        }
        let _ = learning_rate_matrix(&p, &h, &r, steps);
        let _ = implied_prior(&p, &h, &r, steps);
        let _ = implied_prior_of_rate(a, &h, &r, steps);
        let _ = compensated_cov(&p, &h, &r);
        let _ = largest_rate(&h, &r);
        let _ = nees(&mean, &y, p.as_slice());

        let unit = DMatrix::identity(2, 2);
        let mut models = vec![Linear::new(unit.clone(), unit.clone()).unwrap()];
        models.extend(Linear::new(f.clone(), h.clone()));
        models.extend(
            Linear::new(f, h).and_then(|l| l.with_inputs(vec![DVector::from_vec(column)])),
        );
        let mut noises = vec![GaussianNoise::new(unit.clone(), unit.clone()).unwrap()];
        noises.extend(GaussianNoise::new(q.clone(), r.clone()));
        noises.extend(GaussianNoise::per_time(q, r.clone()));
        let points = SigmaPoints::merwe(a, b, c);
        for model in &models {
            for noise in &noises {
                for belief in &beliefs {
                    let mut stream = Stream::new(1, 2, "chaos");
                    let _ = simulate(model, noise, belief, 2, dt, &mut stream);
                    let fresh = || belief.clone();
                    let (model, noise) = (|| model.clone(), || noise.clone());
                    throw(&KalmanFilter::new(model(), noise()), &mut fresh(), &y, &u, dt);
                    throw(&ExtendedKalmanFilter::new(model(), noise()), &mut fresh(), &y, &u, dt);
                    if let Ok(filter) = IteratedKalmanFilter::new(model(), noise(), steps) {
                        throw(&filter, &mut fresh(), &y, &u, dt);
                    }
                    for points in [points, SigmaPoints::julier(1.0)] {
                        if let Ok(filter) = UnscentedKalmanFilter::new(model(), noise(), points) {
                            throw(&filter, &mut fresh(), &y, &u, dt);
                        }
                    }
                    let optimizer = Adam::new(a).unwrap_or(Adam::new(0.1).unwrap());
                    let mut likelihoods = vec![Gaussian::new(unit.clone()).unwrap()];
                    likelihoods.extend(Gaussian::new(r.clone()));
                    for likelihood in likelihoods {
                        let resampling = Resampling::Below(Scheme::Residual, b);
                        if let (Ok(filter), Ok(mut particles)) = (
                            ParticleFilter::new(model(), likelihood.clone(), noise(), resampling),
                            ParticleBelief::new(belief, count, stream.clone()),
                        ) {
                            throw(&filter, &mut particles, &y, &u, dt);
                        }
                        let implicit =
                            ImplicitMap::new(model(), likelihood.clone(), optimizer, steps);
                        if let Ok(filter) = implicit {
                            let point = PointBelief::new(belief.mean.clone());
                            if let Ok(mut point) = point {
                                throw(&filter, &mut point, &y, &u, dt);
                            }
                            if let Ok(bars) = ErrorBars::new(filter, noise()) {
                                throw(&bars, &mut fresh(), &y, &u, dt);
                            }
                        }
                        if let Ok(matrix) = Preconditioned::new(p.clone())
                            && let Ok(filter) = ImplicitMap::new(
                                model(), likelihood.clone(), matrix, steps,
                            )
                            && let Ok(mut point) = PointBelief::new(belief.mean.clone())
                        {
                            throw(&filter, &mut point, &y, &u, dt);
                        }
                        let filter =
                            VariationalKalmanFilter::new(model(), likelihood, p.clone(), optimizer, steps);
                        if let (Ok(filter), Ok(mut point)) =
                            (filter, PointBelief::new(belief.mean.clone()))
                        {
                            throw(&filter, &mut point, &y, &u, dt);
                        }
                    }
                }
            }
        }
    }
}

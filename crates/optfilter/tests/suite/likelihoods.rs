//! Each likelihood does what it is for, through the filters that descend or weigh it; and angles are
//! compared modulo whole turns by every filter.
//!
//! Tolerances: statistical tests allow four standard errors of a stated variance from a fixed stream; turned
//! problems are the same arithmetic up to rounding, so they agree to 1e-10 relative to 1 + |entry|.

use crate::common::{RangeBearing, all_close, close, same_bits};
use nalgebra::{Const, SMatrix, SVector, matrix, vector};
use optfilter::Series;
use optfilter::drive::Run;
use optfilter::filter::{
    Belief, ErrorBars, ExtendedKalmanFilter, Filter, GaussianBelief, ImplicitMap,
    IteratedKalmanFilter, KalmanFilter, ParticleBelief, ParticleFilter, PointBelief, Resampling,
    Scheme, SigmaPoints, UnscentedKalmanFilter, VariationalKalmanFilter,
};
use optfilter::model::likelihood::{
    Bernoulli, Component, Gaussian, Huber, Independent, Likelihood, Link, Observed, Poisson,
    SquaredError, StudentT,
};
use optfilter::model::{Dynamics, GaussianNoise, Linear, Observation, RandomWalk, Step};
use optfilter::optim::{AnyOptimizer, GradientDescent};
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;
use std::f64::consts::PI;

const WALK: fn() -> RandomWalk<Const<1>> = || RandomWalk::new(Const::<1>);

/// Estimates of a random walk under a likelihood, by plain gradient descent.
fn follow<L: Likelihood>(likelihood: L, lr: f64, steps: u32, start: f64, ys: &[f64]) -> Vec<f64> {
    let optimizer = GradientDescent::new(lr).unwrap();
    let filter = ImplicitMap::new(WALK(), likelihood, optimizer, steps).unwrap();
    let mut belief = PointBelief::new(vector![start]).unwrap();
    filter.run(&mut belief, &Series::new(ys, 1).unwrap().predict_first()).unwrap().means
}

#[test]
fn heavy_tails_forgive_an_outlier() {
    let mut stream = Stream::new(1, 0, "outlier");
    let mut ys: Vec<f64> = (0..40).map(|_| 1.0 + 0.1 * stream.normal()).collect();
    ys[30] = 50.0;
    let gaussian = follow(SquaredError, 0.05, 5, 1.0, &ys);
    let student = follow(StudentT::new(3.0, 0.1).unwrap(), 0.0005, 5, 1.0, &ys);
    let huber = follow(Huber::new(1.345, 0.1).unwrap(), 0.0005, 5, 1.0, &ys);
    // All track before the outlier.
    for (name, means) in [("Gaussian", &gaussian), ("Student-t", &student), ("Huber", &huber)] {
        assert!((means[29] - 1.0).abs() < 0.1, "{name}: {}", means[29]);
    }
    // The Gaussian moves 1 - 0.95^5 = 23 % of the way to 50.
    assert!(
        (gaussian[30] - gaussian[29] - (1.0 - 0.95f64.powi(5)) * (50.0 - gaussian[29])).abs()
            < 1e-12
    );
    // Student-t's pull falls off like (dof + 1) / distance: five steps of 0.0005 * 4 / 49.
    assert!((student[30] - student[29]).abs() < 3e-4, "{}", student[30] - student[29]);
    // Huber's pull is capped at delta / scale: exactly five steps of 0.0005 * 13.45.
    close(huber[30] - huber[29], 5.0 * 0.0005 * 1.345 / 0.1, 1e-12, "Huber");
}

#[test]
fn near_the_centre_heavy_tails_are_gaussian() {
    // Huber is exactly Gaussian within delta; Student-t has curvature (dof + 1) / (dof scale^2).
    let ys = [0.3, -0.2, 0.1, 0.05];
    let exact = follow(Gaussian::new(matrix![0.25]).unwrap(), 0.01, 3, 0.0, &ys);
    let huber = follow(Huber::new(2.0, 0.5).unwrap(), 0.01, 3, 0.0, &ys);
    all_close(&huber, &exact, 1e-15, "Huber");
    let wide = 1e6;
    let student = follow(StudentT::new(wide, 0.5).unwrap(), 0.01, 3, 0.0, &ys);
    all_close(&student, &exact, 1e-6, "Student-t of many degrees of freedom");
}

/// A Poisson draw by multiplication of uniforms (Knuth).
fn poisson(rate: f64, stream: &mut Stream) -> f64 {
    let (limit, mut product, mut count) = ((-rate).exp(), stream.uniform(), 0.0);
    while product > limit {
        product *= stream.uniform();
        count += 1.0;
    }
    count
}

#[test]
fn counts_give_back_their_rate() {
    let (rate, count) = (7.0, 4000);
    let mut stream = Stream::new(2, 0, "counts");
    let ys: Vec<f64> = (0..count).map(|_| poisson(rate, &mut stream)).collect();
    // Steps of lr on the loss average over about 2 / (lr * curvature) measurements; the mean over the last
    // 3000 estimates is that of 3000 counts, with a standard error of sqrt(7 / 3000) = 0.048.
    let allowed = 4.0 * (rate / 3000.0f64).sqrt();
    let log_rates = follow(Poisson { link: Link::Canonical }, 0.002, 1, 1.0, &ys);
    let mean = log_rates[1000..].iter().map(|v| v.exp()).sum::<f64>() / 3000.0;
    assert!((mean - rate).abs() < allowed + 0.02, "log link: {mean}");
    let rates = follow(Poisson { link: Link::Identity }, 0.1, 1, 3.0, &ys);
    let mean = rates[1000..].iter().sum::<f64>() / 3000.0;
    assert!((mean - rate).abs() < allowed + 0.02, "identity link: {mean}");
    assert!(rates.iter().all(|&r| r > 0.0));
}

/// A rate that strayed below zero while nothing was counted comes back; the count after it is no catastrophe.
#[test]
fn a_stray_rate_comes_back() {
    let ys = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 1.0];
    for (start, lr, steps) in [(0.03, 0.1, 1), (-0.25, 0.1, 3), (-4.97, 0.05, 50), (0.5, 0.3, 10)] {
        let rates = follow(Poisson { link: Link::Identity }, lr, steps, start, &ys);
        // A step is at most lr long while nothing is counted.
        let low = start.min(0.0) - lr;
        assert!(rates[..6].iter().all(|r| (low..=0.5).contains(r)), "{start}: {rates:?}");
        assert!(rates.iter().all(|r| *r < 50.0), "{start}: {rates:?}");
        let strayed = follow(Bernoulli { link: Link::Identity }, 1e-3, steps, 1.2, &[1.0; 300]);
        assert!(strayed[299] < 1.1 && strayed[299] > 0.8, "{strayed:?}");
    }
}

#[test]
fn zeros_and_ones_give_back_their_probability() {
    let (p, count) = (0.3, 4000);
    let mut stream = Stream::new(3, 0, "bits");
    let ys: Vec<f64> = (0..count).map(|_| f64::from(u8::from(stream.uniform() < p))).collect();
    let allowed = 4.0 * (p * (1.0 - p) / 3000.0f64).sqrt();
    let logits = follow(Bernoulli { link: Link::Canonical }, 0.05, 1, 0.0, &ys);
    let mean = logits[1000..].iter().map(|v| 1.0 / (1.0 + (-v).exp())).sum::<f64>() / 3000.0;
    assert!((mean - p).abs() < allowed + 0.005, "logit link: {mean}");
    let probabilities = follow(Bernoulli { link: Link::Identity }, 0.002, 1, 0.5, &ys);
    let mean = probabilities[1000..].iter().sum::<f64>() / 3000.0;
    assert!((mean - p).abs() < allowed + 0.005, "identity link: {mean}");
}

/// Laplace noise, a user's own: the loss and nothing else.
#[derive(Clone)]
struct Laplace(f64);
impl Likelihood for Laplace {
    fn loss<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>) -> S {
        observed
            .indices(y.len())
            .fold(S::ZERO, |sum, i| sum + (y[i] - eta[i]).abs().scale(1.0 / self.0))
    }
}

/// The squared error with its derivative left to the library.
#[derive(Clone)]
struct PlainSquares;
impl Likelihood for PlainSquares {
    fn loss<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>) -> S {
        SquaredError.loss(y, eta, observed)
    }
}

#[test]
fn a_users_own_likelihood_needs_only_its_loss() {
    let mut stream = Stream::new(4, 0, "own");
    let ys: Vec<f64> = (0..60).map(|_| stream.normal()).collect();
    let own = follow(PlainSquares, 0.1, 3, 0.5, &ys);
    all_close(&own, &follow(SquaredError, 0.1, 3, 0.5, &ys), 1e-14, "squares");
    // Laplace descends by a fixed length: the estimate is a running median.
    let laplace = follow(Laplace(1.0), 0.01, 1, 0.5, &ys);
    for (k, pair) in laplace.windows(2).enumerate() {
        close((pair[1] - pair[0]).abs(), 0.01, 1e-12, &format!("step {k}"));
    }
    // In the error bars' dual numbers, too: duals of duals.
    let noise = GaussianNoise::new(matrix![0.1], matrix![1.0]).unwrap();
    let start = GaussianBelief::new(vector![0.5], matrix![1.0]).unwrap();
    let gd = GradientDescent::new(0.1).unwrap();
    let series = Series::new(&ys, 1).unwrap().predict_first();
    let mine =
        ErrorBars::new(ImplicitMap::new(WALK(), PlainSquares, gd, 3).unwrap(), noise.clone());
    let ours = ErrorBars::new(ImplicitMap::new(WALK(), SquaredError, gd, 3).unwrap(), noise);
    let mine = mine.unwrap().run(&mut start.clone(), &series).unwrap();
    let ours = ours.unwrap().run(&mut start.clone(), &series).unwrap();
    all_close(&mine.covs, &ours.covs, 1e-13, "error bars");
}

#[test]
fn mixtures_of_kinds_are_their_kinds() {
    let mut stream = Stream::new(5, 0, "kinds");
    let ys: Vec<f64> = (0..30).map(|_| f64::from(u8::from(stream.uniform() < 0.5))).collect();
    let student = StudentT::new(4.0, 0.7).unwrap();
    let huber = Huber::new(1.0, 0.5).unwrap();
    let (counts, bits) = (Poisson { link: Link::Canonical }, Bernoulli { link: Link::Canonical });
    let one = |component| Independent::new(vec![component]);
    let pairs = [
        (
            follow(one(Component::StudentT(student)), 0.1, 4, 0.2, &ys),
            follow(student, 0.1, 4, 0.2, &ys),
        ),
        (follow(one(Component::Huber(huber)), 0.1, 4, 0.2, &ys), follow(huber, 0.1, 4, 0.2, &ys)),
        (
            follow(one(Component::Poisson(counts)), 0.1, 4, 0.2, &ys),
            follow(counts, 0.1, 4, 0.2, &ys),
        ),
        (follow(one(Component::Bernoulli(bits)), 0.1, 4, 0.2, &ys), follow(bits, 0.1, 4, 0.2, &ys)),
        (
            follow(one(Component::normal(0.5).unwrap()), 0.1, 4, 0.2, &ys),
            follow(Gaussian::new(matrix![0.25]).unwrap(), 0.1, 4, 0.2, &ys),
        ),
        (
            follow(SquaredError, 0.1, 4, 0.2, &ys),
            follow(Gaussian::new(matrix![1.0]).unwrap(), 0.1, 4, 0.2, &ys),
        ),
    ];
    for (k, (a, b)) in pairs.iter().enumerate() {
        same_bits(a, b, &format!("pair {k}"));
    }
}

#[test]
fn particle_likelihoods_are_densities() {
    // With all particles at one point, the log-likelihood of a measurement is its log-density there.
    let start = GaussianBelief::new(vector![0.4], matrix![0.0]).unwrap();
    let noise = GaussianNoise::new(matrix![0.0], matrix![1.0]).unwrap();
    let density = |component: Component, y: f64| {
        let resampling = Resampling::Always(Scheme::Systematic);
        let likelihood = Independent::new(vec![component]);
        let filter = ParticleFilter::new(WALK(), likelihood, noise.clone(), resampling).unwrap();
        let mut belief = ParticleBelief::new(&start, 10, Stream::new(6, 0, "p")).unwrap();
        filter.update(&mut belief, &[y], &[], &Step::even(1, 1.0)).unwrap().log_likelihood.unwrap()
    };
    // ln N(1; 0.4, 0.25), ln Poisson(2; e^0.4), ln Poisson(2; 0.4), ln sigmoid(0.4), ln 0.6.
    let normal = -0.5 * 0.36 / 0.25 - 0.5 * (2.0 * PI * 0.25).ln();
    close(density(Component::normal(0.5).unwrap(), 1.0), normal, 1e-13, "normal");
    let counts = |link| Component::Poisson(Poisson { link });
    close(density(counts(Link::Canonical), 2.0), 0.8 - 0.4f64.exp() - 2f64.ln(), 1e-13, "log");
    close(density(counts(Link::Identity), 2.0), 2.0 * 0.4f64.ln() - 0.4 - 2f64.ln(), 1e-13, "id");
    let bits = |link| Component::Bernoulli(Bernoulli { link });
    close(density(bits(Link::Canonical), 1.0), -(1.0 + (-0.4f64).exp()).ln(), 1e-13, "logit");
    close(density(bits(Link::Identity), 0.0), 0.6f64.ln(), 1e-13, "probability");
    // Student-t with 1 degree of freedom is Cauchy: 1 / (pi s (1 + z^2)).
    let cauchy = Component::StudentT(StudentT::new(1.0, 0.5).unwrap());
    close(density(cauchy, 1.0), -(PI * 0.5 * (1.0 + 1.44)).ln(), 1e-13, "Cauchy");
}

/// A start just above the negative x axis, measured just below it; and the same half a turn on.
fn turned() -> [(SVector<f64, 4>, Vec<f64>); 2] {
    let x = vector![-5.0, 0.05, 0.1, -0.02];
    let bearings = [-PI + 0.02, PI - 0.015, -PI + 0.01, PI - 0.001, -PI];
    let here = bearings.iter().enumerate().flat_map(|(k, b)| [5.0 + 0.1 * k as f64, *b]);
    let there = bearings.iter().enumerate().flat_map(|(k, b)| {
        let turned: f64 = b + PI;
        let near = if turned > PI { turned - 2.0 * PI } else { turned };
        [5.0 + 0.1 * k as f64, near]
    });
    [(x, here.collect()), (-x, there.collect())]
}

fn bearing_noise() -> GaussianNoise<Const<4>, Const<2>> {
    GaussianNoise::new(SMatrix::identity() * 0.01, matrix![0.04, 0.0; 0.0, 0.0004]).unwrap()
}

/// A filter that wraps gives, half a turn on, the same estimates half a turn on.
#[track_caller]
fn wraps<F>(filter: &F, start: impl Fn(SVector<f64, 4>) -> F::Belief, what: &str)
where
    F: Filter<State = Const<4>, Output = Const<2>>,
    F::Belief: Belief<Const<4>>,
{
    let [cut, away] = turned().map(|(x, ys)| {
        let series = Series::new(&ys, 2).unwrap().with_dt(0.5).unwrap().predict_first();
        filter.run(&mut start(x), &series).unwrap()
    });
    for bearing in cut.innovations.iter().skip(1).step_by(2) {
        assert!(bearing.abs() < 0.2, "{what}: a bearing off by {bearing}");
    }
    all_close(&cut.innovations, &away.innovations, 1e-10, what);
    let negated: Vec<f64> = away.means.iter().map(|v| -v).collect();
    all_close(&cut.means, &negated, 1e-10, what);
    all_close(&cut.log_likelihoods, &away.log_likelihoods, 1e-10, what);
    all_close(&cut.covs, &away.covs, 1e-10, what);
}

#[test]
fn bearings_wrap_in_every_filter() {
    let model = RangeBearing::constant_velocity(0.5);
    let noise = bearing_noise();
    let gaussian = |x| GaussianBelief::new(x, SMatrix::identity() * 0.1).unwrap();
    wraps(&ExtendedKalmanFilter::new(model.clone(), noise.clone()), gaussian, "extended");
    wraps(
        &IteratedKalmanFilter::new(model.clone(), noise.clone(), 4).unwrap(),
        gaussian,
        "iterated",
    );
    let points = SigmaPoints::merwe(1.0, 2.0, -1.0);
    let unscented = UnscentedKalmanFilter::new(model.clone(), noise.clone(), points).unwrap();
    wraps(&unscented, gaussian, "unscented");
    let likelihood = Gaussian::new(matrix![0.04, 0.0; 0.0, 0.0004]).unwrap();
    for name in AnyOptimizer::NAMES {
        let optimizer = AnyOptimizer::from_name(name, 1e-3, None).unwrap();
        let implicit = ImplicitMap::new(model.clone(), likelihood.clone(), optimizer, 5).unwrap();
        wraps(&implicit, |x| PointBelief::new(x).unwrap(), name);
        let bars = ErrorBars::new(implicit, noise.clone()).unwrap();
        wraps(&bars, gaussian, &format!("error bars of {name}"));
    }
    let gd = GradientDescent::new(1e-4).unwrap();
    let prior = SMatrix::identity() * 0.1;
    let variational =
        VariationalKalmanFilter::new(model.clone(), likelihood.clone(), prior, gd, 9).unwrap();
    wraps(&variational, |x| PointBelief::new(x).unwrap(), "variational");

    // Particles draw other numbers half a turn on; here the estimate must stay by the cut.
    let resampling = Resampling::Always(Scheme::Systematic);
    let particle =
        ParticleFilter::new(model.clone(), likelihood, noise.clone(), resampling).unwrap();
    let [(x, ys), _] = turned();
    let mut belief =
        ParticleBelief::new(&gaussian(x), 2000, Stream::new(7, 0, "particles")).unwrap();
    let series = Series::new(&ys, 2).unwrap().with_dt(0.5).unwrap().predict_first();
    let trace = particle.run(&mut belief, &series).unwrap();
    let exact = ExtendedKalmanFilter::new(model.clone(), noise.clone())
        .run(&mut gaussian(x), &series)
        .unwrap();
    for k in 0..trace.len() {
        // Half a standard deviation of the position: thirty standard errors of 2000 particles, and far
        // less than the metres by which a bearing taken the long way round is off.
        for i in 0..2 {
            assert!((trace.mean(k)[i] - exact.mean(k)[i]).abs() < 0.1, "particles at {k}");
        }
        assert!(trace.innovations[2 * k + 1].abs() < 0.2);
        assert!((trace.log_likelihoods[k] - exact.log_likelihoods[k]).abs() < 0.5, "at {k}");
    }

    // Without wrapping the same series throws the filter off: the test can fail.
    let straight = RangeBearing { wraps: false, ..model };
    let off = ExtendedKalmanFilter::new(straight, noise).run(&mut gaussian(x), &series).unwrap();
    assert!(off.innovations[1].abs() > 6.0);
}

/// A heading that turns steadily, kept in [-pi, pi) by the model itself.
#[derive(Clone)]
struct Heading;
impl Dynamics for Heading {
    type State = Const<1>;
    fn state_dim(&self) -> Const<1> {
        Const
    }
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out[0] = (x[0] + S::from_f64(0.1)).wrap_angle();
    }
    fn is_state_angle(&self, _component: usize) -> bool {
        true
    }
}
impl Observation for Heading {
    type Output = Const<1>;
    fn output_dim(&self) -> Const<1> {
        Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out[0] = x[0].wrap_angle();
    }
    fn is_angle(&self, _component: usize) -> bool {
        true
    }
}

#[test]
fn sigma_points_of_an_angle_on_the_cut_stay_together() {
    // The same heading on the line, where it is a linear system.
    let line =
        Linear::new(matrix![1.0], matrix![1.0]).unwrap().with_inputs(vec![vector![1.0]]).unwrap();
    let noise = GaussianNoise::new(matrix![0.01], matrix![0.04]).unwrap();
    let kalman = KalmanFilter::new(line, noise.clone());
    let unscented =
        UnscentedKalmanFilter::new(Heading, noise.clone(), SigmaPoints::merwe(1.0, 2.0, 2.0))
            .unwrap();
    let extended = ExtendedKalmanFilter::new(Heading, noise).clone();
    let start = GaussianBelief::new(vector![PI - 0.3], matrix![0.09]).unwrap();
    let (mut exact, mut ukf, mut ekf) = (start.clone(), start.clone(), start);
    let mut stream = Stream::new(8, 0, "heading");
    let mut crossed = false;
    for k in 1..=40u64 {
        let step = Step::even(k, 1.0);
        let heading = PI - 0.3 + 0.1 * k as f64 + 0.2 * stream.normal();
        kalman.predict(&mut exact, &[0.1], &step).unwrap();
        unscented.predict(&mut ukf, &[], &step).unwrap();
        extended.predict(&mut ekf, &[], &step).unwrap();
        kalman.update(&mut exact, &[heading], &[0.1], &step).unwrap();
        let wrapped = heading.wrap_angle();
        crossed |= wrapped < 0.0;
        unscented.update(&mut ukf, &[wrapped], &[], &step).unwrap();
        extended.update(&mut ekf, &[wrapped], &[], &step).unwrap();
        for (name, belief) in [("unscented", &ukf), ("extended", &ekf)] {
            let apart = (belief.mean[0] - exact.mean[0]).wrap_angle();
            assert!(apart.abs() < 1e-9, "{name} at {k}: {apart}");
            close(belief.cov[0], exact.cov[0], 1e-9, name);
        }
    }
    assert!(crossed);
}

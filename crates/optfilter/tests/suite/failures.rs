//! A step that fails leaves the belief as it was, in every filter; and `Ok` never carries an estimate that is
//! not a number.
//!
//! One system sets traps at certain time indices: f or h that leave the finite numbers, covariances that are
//! none, arguments of a wrong size, a count that cannot occur. Every filter walks into every trap from a belief
//! that has seen two measurements, and the bytes of its checkpoint are compared.

use nalgebra::{Const, DefaultAllocator, SMatrix, matrix, vector};
use optfilter::batch::Batch;
use optfilter::checkpoint::save;
use optfilter::drive::{Run, advance};
use optfilter::filter::{
    Belief, ErrorBars, ExtendedKalmanFilter, Filter, FilterError, GaussianBelief, ImplicitMap,
    IteratedKalmanFilter, KalmanFilter, Memory, ParticleBelief, ParticleFilter, PointBelief,
    Resampling, Scheme, SigmaPoints, UnscentedKalmanFilter, VariationalKalmanFilter,
};
use optfilter::model::likelihood::{
    AnyLikelihood, Component, Huber, Independent, Likelihood, Link, Observed, Poisson,
    SquaredError, StudentT,
};
use optfilter::model::{Dynamics, GaussianNoise, Linear, Noise, Observation, Step};
use optfilter::optim::{Adam, AnyOptimizer, GradientDescent};
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;
use optfilter::simulate::{Beginning, Scene};
use optfilter::{Series, Shapes};
use serde::Serialize;

type Square = SMatrix<f64, 2, 2>;

const F_NAN: u64 = 11;
const F_INFINITE: u64 = 12;
const F_HUGE: u64 = 13;
const H_NAN: u64 = 14;
const H_INFINITE: u64 = 15;
const BAD_Q: u64 = 16;
const BAD_R: u64 = 17;

/// What is added to f and h at a step.
fn trap(step: &Step) -> (f64, f64) {
    match step.index {
        F_NAN => (f64::NAN, 0.0),
        F_INFINITE => (f64::INFINITY, 0.0),
        F_HUGE => (1e101, 0.0),
        H_NAN => (0.0, f64::NAN),
        H_INFINITE => (0.0, f64::INFINITY),
        _ => (0.0, 0.0),
    }
}

/// A slow swing, seen as it is.
#[derive(Clone, Debug)]
struct Trap;

impl Dynamics for Trap {
    type State = Const<2>;
    fn state_dim(&self) -> Const<2> {
        Const
    }
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], step: &Step, out: &mut [S]) {
        out[0] = x[0] + x[1].scale(0.1) + S::from_f64(trap(step).0);
        out[1] = x[1] - x[0].sin().scale(0.1);
    }
}

impl Observation for Trap {
    type Output = Const<2>;
    fn output_dim(&self) -> Const<2> {
        Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], step: &Step, out: &mut [S]) {
        out[0] = x[0] + x[1].square().scale(0.1);
        out[1] = x[1] + S::from_f64(trap(step).1);
    }
}

/// A state that stands still, seen through a function that is infinite from the second row on, and flat.
#[derive(Clone, Debug)]
struct Ceiling;

impl Dynamics for Ceiling {
    type State = Const<2>;
    fn state_dim(&self) -> Const<2> {
        Const
    }
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out.copy_from_slice(x);
    }
}

impl Observation for Ceiling {
    type Output = Const<2>;
    fn output_dim(&self) -> Const<2> {
        Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], step: &Step, out: &mut [S]) {
        out[0] = x[0];
        out[1] = if step.index == 1 { x[1] } else { S::from_f64(f64::INFINITY) };
    }
}

#[derive(Clone, Debug)]
struct TrapNoise;

impl Noise<Const<2>, Const<2>> for TrapNoise {
    fn process_cov(&self, step: &Step) -> Square {
        Square::identity() * if step.index == BAD_Q { -100.0 } else { 0.1 }
    }
    fn measurement_cov(&self, step: &Step) -> Square {
        Square::identity() * if step.index == BAD_R { -100.0 } else { 1.0 }
    }
}

/// Walks a filter into every trap; returns the names of those that it survived.
fn survived<F>(filter: &F, start: &F::Belief) -> Vec<&'static str>
where
    F: Filter,
    F::Belief: Belief<F::State> + Serialize + PartialEq + std::fmt::Debug,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    let mut belief = start.clone();
    for k in 1..=2 {
        let step = Step::even(k, 1.0);
        filter.predict(&mut belief, &[], &step).unwrap();
        filter.update(&mut belief, &[1.0, 0.0], &[], &step).unwrap();
    }
    let mut out = Vec::new();
    let mut attempt =
        |name: &'static str, go: &dyn Fn(&mut F::Belief) -> Result<(), FilterError>| {
            let mut after = belief.clone();
            match go(&mut after) {
                Err(error) => {
                    assert_eq!(after, belief, "{name}");
                    assert_eq!(save("b", &after).unwrap(), save("b", &belief).unwrap(), "{name}");
                    assert_ne!(error.to_string(), "", "{name}");
                }
                Ok(()) => {
                    assert!(after.mean().iter().all(|v| v.is_finite()), "{name}: {after:?}");
                    out.push(name);
                }
            }
        };
    let predict =
        |index: u64, u: &[f64], b: &mut F::Belief| filter.predict(b, u, &Step::even(index, 1.0));
    let update = |index: u64, y: &[f64], u: &[f64], b: &mut F::Belief| {
        filter.update(b, y, u, &Step::even(index, 1.0)).map(|update| {
            assert!(update.innovation.iter().all(|v| v.is_finite()));
        })
    };
    let y = [1.0, 2.0];
    attempt("nothing", &|b| predict(3, &[], b).and_then(|()| update(3, &y, &[], b)));
    attempt("f is NaN", &|b| predict(F_NAN, &[], b));
    attempt("f is infinite", &|b| predict(F_INFINITE, &[], b));
    attempt("f is huge", &|b| predict(F_HUGE, &[], b));
    attempt("h is NaN", &|b| update(H_NAN, &y, &[], b));
    attempt("h is infinite", &|b| update(H_INFINITE, &y, &[], b));
    // A row is one step: where its update fails, its prediction goes back as well.
    attempt("h is NaN after a prediction", &|b| {
        advance(filter, b, true, (&y, &[]), &Step::even(H_NAN, 1.0)).map(|_| ())
    });
    attempt("Q", &|b| predict(BAD_Q, &[], b));
    attempt("R", &|b| update(BAD_R, &y, &[], b));
    attempt("size of u", &|b| predict(3, &[1.0], b));
    attempt("size of u in an update", &|b| update(3, &y, &[1.0], b));
    attempt("size of y", &|b| update(3, &[1.0], &[], b));
    attempt("y is infinite", &|b| update(3, &[1.0, f64::INFINITY], &[], b));
    attempt("half a count", &|b| update(3, &[1.0, 2.5], &[], b));
    out
}

#[test]
fn a_step_that_fails_leaves_the_belief_as_it_was() {
    let start = GaussianBelief::new(vector![0.5, 0.5], Square::identity()).unwrap();
    let sound = ["nothing", "half a count"];
    let extended = ExtendedKalmanFilter::new(Trap, TrapNoise);
    assert_eq!(survived(&extended, &start), sound, "extended");
    let iterated = IteratedKalmanFilter::new(Trap, TrapNoise, 3).unwrap();
    assert_eq!(survived(&iterated, &start), sound, "iterated");
    for points in [
        SigmaPoints::merwe(1.0, 2.0, 0.0),
        SigmaPoints::merwe(0.1, 2.0, 1.0),
        SigmaPoints::julier(1.0),
        SigmaPoints::julier(-0.5),
    ] {
        let unscented = UnscentedKalmanFilter::new(Trap, TrapNoise, points).unwrap();
        assert_eq!(survived(&unscented, &start), sound, "unscented, {points:?}");
    }
    // A linear model sets no traps in f and h.
    let model = Linear::new(Square::identity(), Square::identity()).unwrap();
    let kalman = KalmanFilter::new(model, TrapNoise);
    let linear = [
        "nothing",
        "f is NaN",
        "f is infinite",
        "f is huge",
        "h is NaN",
        "h is infinite",
        "h is NaN after a prediction",
        "half a count",
    ];
    assert_eq!(survived(&kalman, &start), linear, "Kalman");

    let particles = ParticleBelief::new(&start, 100, Stream::new(0, 0, "p")).unwrap();
    for resampling in
        [Resampling::Always(Scheme::Systematic), Resampling::Below(Scheme::Residual, 0.5)]
    {
        let filter = ParticleFilter::new(Trap, SquaredError, TrapNoise, resampling).unwrap();
        assert_eq!(survived(&filter, &particles), sound, "particle");
        let counts = Poisson { link: Link::Canonical };
        let filter = ParticleFilter::new(Trap, counts, TrapNoise, resampling).unwrap();
        // Counts have a variance of their own, so R is not read.
        assert_eq!(survived(&filter, &particles), ["nothing", "R"], "particle, counts");
    }

    // Point estimates read neither Q nor R.
    let adam = Adam::new(0.1).unwrap();
    let point = PointBelief::new(start.mean).unwrap();
    for memory in [Memory::Restart, Memory::Carry] {
        let filter = ImplicitMap::new(Trap, SquaredError, adam, 5).unwrap().with_memory(memory);
        assert_eq!(survived(&filter, &point), ["nothing", "Q", "R", "half a count"], "{memory:?}");
        let counts = Poisson { link: Link::Canonical };
        let filter = ImplicitMap::new(Trap, counts, adam, 5).unwrap().with_memory(memory);
        assert_eq!(survived(&filter, &point), ["nothing", "Q", "R"], "{memory:?}, counts");
    }
    // Huber's loss bounds its gradient: h may be infinite and the estimate a number, which is of no use.
    let huber = Huber::new(1.0, 1.0).unwrap();
    for memory in [Memory::Restart, Memory::Carry] {
        let filter = ImplicitMap::new(Trap, huber, adam, 5).unwrap().with_memory(memory);
        assert_eq!(survived(&filter, &point), ["nothing", "Q", "R", "half a count"], "huber");
        // The same beside others: lanes give it up where a single run does.
        let series = [vec![1.0, 2.0, 1.0, 1.0], vec![1.0, 2.0, 1.0, 3.0]];
        let rows: Vec<_> = series.iter().map(|y| Series::new(y, 2).unwrap()).collect();
        let trapped = ImplicitMap::new(Ceiling, huber, adam, 5).unwrap().with_memory(memory);
        let lanes = Batch::new(rows.clone()).run(&trapped, &[start.mean; 2]).unwrap();
        for (b, rows) in rows.iter().enumerate() {
            let mut belief = PointBelief::new(start.mean).unwrap();
            let alone = trapped.run(&mut belief, rows).map(|trace| trace.means);
            assert!(alone.is_err());
            assert_eq!(lanes.trajectory(b).unwrap(), alone);
        }
    }
    let unit = Square::identity();
    let point = PointBelief::new(start.mean).unwrap();
    let filter = VariationalKalmanFilter::new(Trap, SquaredError, unit, adam, 5).unwrap();
    assert_eq!(survived(&filter, &point), ["nothing", "Q", "R", "half a count"], "variational");

    // Error bars give a covariance up that is lost, unless they are strict.
    let descent = GradientDescent::new(0.1).unwrap();
    let implicit = ImplicitMap::new(Trap, SquaredError, descent, 5).unwrap();
    let bars = ErrorBars::new(implicit.clone(), TrapNoise).unwrap();
    assert_eq!(survived(&bars, &start), ["nothing", "Q", "R", "half a count"], "error bars");
    assert_eq!(survived(&bars.clone().strict(), &start), sound, "strict error bars");
    for (index, predict) in [(BAD_Q, true), (BAD_R, false)] {
        let (mut with, mut without) = (start.clone(), PointBelief::new(start.mean).unwrap());
        let step = Step::even(index, 1.0);
        if predict {
            bars.predict(&mut with, &[], &step).unwrap();
            implicit.predict(&mut without, &[], &step).unwrap();
        } else {
            let update = bars.update(&mut with, &[1.0, 2.0], &[], &step).unwrap();
            assert_eq!((update.nis, update.log_likelihood), (None, None));
            implicit.update(&mut without, &[1.0, 2.0], &[], &step).unwrap();
        }
        assert_eq!(with.mean, without.mean, "the estimates go on as without error bars");
        assert!(with.cov.iter().all(|v| v.is_nan()), "{}", with.cov);
    }
}

/// A state seen as it is, but for rows whose measurement loss is as steep as no number can be squared.
#[derive(Clone, Copy, Debug)]
struct Steep;

impl Likelihood for Steep {
    fn loss<S: Scalar>(&self, y: &[S], eta: &[S], _observed: Observed<'_>) -> S {
        (y[0] - eta[0]).square().scale(0.5)
    }
    fn score<S: Scalar>(&self, y: &[S], eta: &[S], _observed: Observed<'_>, out: &mut [S]) {
        let steep = S::from_f64(1e200);
        out[0] = S::select_lt(S::from_f64(50.0), y[0], steep, eta[0] - y[0]);
    }
}

#[test]
fn ok_never_carries_an_optimizer_state_that_has_overflowed() {
    let model = Linear::new(matrix![1.0], matrix![1.0]).unwrap();
    let series = [vec![1.0, 100.0, 1.0, 1.0], vec![1.0, 2.0, 1.0, 1.0]];
    for name in ["adagrad", "adadelta", "rmsprop", "adam"] {
        let rule = AnyOptimizer::from_name(name, 0.1, None).unwrap();
        let filter = ImplicitMap::new(model.clone(), Steep, rule, 2).unwrap();
        let carrying = filter.clone().with_memory(Memory::Carry);
        let step = Step::even(2, 1.0);
        let mut belief = PointBelief::new(vector![0.0]).unwrap();
        carrying.update(&mut belief, &[1.0], &[], &Step::even(1, 1.0)).unwrap();
        let before = belief.clone();
        // The square of the gradient is infinite and so the step zero: the estimate stays, but nothing would move it
        // again.
        let error = carrying.update(&mut belief, &[100.0], &[], &step).unwrap_err();
        assert!(
            matches!(error, FilterError::Diverged { index: 2, quantity: "optimizer state", .. }),
            "{name}: {error}"
        );
        assert_eq!(belief, before, "{name}");
        // A rule that starts anew at every row forgets it.
        let mut fresh = PointBelief::new(vector![0.0]).unwrap();
        filter.update(&mut fresh, &[100.0], &[], &step).unwrap();
        let stood = fresh.mean[0];
        filter.update(&mut fresh, &[1.0], &[], &step).unwrap();
        assert!(fresh.mean[0] > stood, "{name}");
        // Side by side the same, and the neighbour goes on.
        let rows: Vec<_> = series.iter().map(|y| Series::new(y, 1).unwrap()).collect();
        let starts = [vector![0.0], vector![0.0]];
        let lanes = Batch::new(rows.clone()).run(&carrying, &starts).unwrap();
        for (b, rows) in rows.iter().enumerate() {
            let mut belief = PointBelief::new(vector![0.0]).unwrap();
            let alone = carrying.run(&mut belief, rows).map(|trace| trace.means);
            assert_eq!(alone.is_ok(), b == 1, "{name}");
            assert_eq!(lanes.trajectory(b).unwrap(), alone, "{name}");
        }
    }
}

#[test]
fn a_measurement_that_is_no_number_ends_a_simulation() {
    let model = Linear::new(matrix![1.0], matrix![1.0]).unwrap();
    let noise = GaussianNoise::new(matrix![0.0], matrix![1.0]).unwrap();
    let start = GaussianBelief::new(vector![0.0], matrix![1.0]).unwrap();
    // Tails so heavy that a draw leaves the numbers.
    let law = Component::StudentT(StudentT::new(1e-20, 1.0).unwrap());
    let likelihood = &AnyLikelihood::Independent(Independent::new(vec![law]));
    let scene = Scene {
        model: &model,
        noise: &noise,
        likelihood,
        start: Beginning::Joint(&start),
        bounds: None,
        inputs: &[],
        dt: 1.0,
        predict_first: false,
    };
    let mut seen = Vec::new();
    let played = scene.play(5, &mut Stream::new(1, 0, "s"), |_, _, y| {
        seen.extend_from_slice(y);
        true
    });
    assert!(matches!(played, Err(FilterError::Diverged { quantity: "measurement", .. })));
    assert!(seen.iter().all(|v| v.is_finite()), "{seen:?}");
}

/// x + x^2 and x^2: what points with a negative centre make a negative variance of.
#[derive(Clone, Debug)]
struct Bend {
    in_f: bool,
    in_h: bool,
}

impl Dynamics for Bend {
    type State = Const<2>;
    fn state_dim(&self) -> Const<2> {
        Const
    }
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        let bend = x[0].square() + x[1].square();
        out[0] = x[0] + bend.scale(if self.in_f { 10.0 } else { 0.0 });
        out[1] = x[1];
    }
}

impl Observation for Bend {
    type Output = Const<1>;
    fn output_dim(&self) -> Const<1> {
        Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        let bend = x[0].square() + x[1].square();
        out[0] = x[0] + bend.scale(if self.in_h { 0.5 } else { 0.0 });
    }
}

#[test]
fn an_unscented_covariance_without_a_factor_is_refused_by_the_step_that_made_it() {
    let noise = GaussianNoise::new(Square::identity() * 1e-3, matrix![1e-3]).unwrap();
    let start = GaussianBelief::new(vector![0.0, 0.0], Square::identity()).unwrap();
    let step = Step::even(4, 1.0);
    let refused =
        FilterError::NotPositiveDefinite { quantity: "belief covariance", index: Some(4) };
    // kappa = -1 gives the centre a negative weight; the images bend away from it.
    let points = SigmaPoints::julier(-1.0);
    let unscented =
        |model, points| UnscentedKalmanFilter::new(model, noise.clone(), points).unwrap();
    let filter = unscented(Bend { in_f: true, in_h: false }, points);
    let mut belief = start.clone();
    assert_eq!(filter.predict(&mut belief, &[], &step), Err(refused.clone()));
    assert_eq!(belief, start);
    // The belief before is of use still.
    let straight = unscented(Bend { in_f: false, in_h: false }, points);
    straight.predict(&mut belief, &[], &step).unwrap();
    straight.update(&mut belief, &[0.3], &[], &step).unwrap();

    // In an update the innovation covariance goes first, or the belief's.
    let filter = unscented(Bend { in_f: false, in_h: true }, points);
    let mut belief = start.clone();
    assert!(filter.update(&mut belief, &[0.3], &[], &step).is_err());
    assert_eq!(belief, start);

    // Where alpha^2 kappa + n beta >= 0 nothing of this can happen.
    for points in [SigmaPoints::julier(0.0), SigmaPoints::merwe(1.0, 2.0, 0.0)] {
        let filter = unscented(Bend { in_f: true, in_h: true }, points);
        let mut belief = start.clone();
        filter.predict(&mut belief, &[], &step).unwrap();
        filter.update(&mut belief, &[0.3], &[], &step).unwrap();
        assert!(nalgebra::Cholesky::new(belief.cov).is_some(), "{points:?}: {}", belief.cov);
    }
}

/// What the particle tests ask of a model: some particles are lost on the way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    /// f of a state below the edge is NaN, infinite or huge.
    State(f64),
    /// h of a state below the edge is NaN or infinite.
    Seen(f64),
    /// The likelihood of a state below the edge is this.
    Likelihood(f64),
}

#[derive(Clone, Copy, Debug)]
struct Lossy {
    edge: f64,
    loss: Loss,
}

impl Dynamics for Lossy {
    type State = Const<1>;
    fn state_dim(&self) -> Const<1> {
        Const
    }
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        let Loss::State(v) = self.loss else { return out.copy_from_slice(x) };
        out[0] = S::select_lt(x[0], S::from_f64(self.edge), S::from_f64(v), x[0]);
    }
}

impl Observation for Lossy {
    type Output = Const<1>;
    fn output_dim(&self) -> Const<1> {
        Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        let Loss::Seen(v) = self.loss else { return out.copy_from_slice(x) };
        out[0] = S::select_lt(x[0], S::from_f64(self.edge), S::from_f64(v), x[0]);
    }
}

impl Likelihood for Lossy {
    fn loss<S: Scalar>(&self, y: &[S], eta: &[S], _observed: Observed<'_>) -> S {
        let squares = (y[0] - eta[0]).square().scale(0.5);
        let Loss::Likelihood(v) = self.loss else { return squares };
        S::select_lt(eta[0], S::from_f64(self.edge), S::from_f64(-v.ln()), squares)
    }
}

#[test]
fn a_lost_particle_weighs_nothing() {
    let noise = GaussianNoise::new(matrix![0.0], matrix![1.0]).unwrap();
    let start = GaussianBelief::new(vector![0.0], matrix![1.0]).unwrap();
    let (y, step) = (0.7, Step::even(1, 1.0));
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for loss in [
        Loss::State(nan),
        Loss::State(inf),
        Loss::State(-inf),
        Loss::State(1e150),
        Loss::Seen(nan),
        Loss::Seen(-inf),
        Loss::Likelihood(0.0),
        Loss::Likelihood(nan),
    ] {
        // 50 particles leave lanes of the last group unused.
        let particles = ParticleBelief::new(&start, 50, Stream::new(1, 0, "p")).unwrap();
        let filter = |edge| {
            let lossy = Lossy { edge, loss };
            let always = Resampling::Always(Scheme::Systematic);
            ParticleFilter::new(lossy, lossy, noise.clone(), always).unwrap()
        };
        let x: Vec<f64> = (0..50).map(|k| particles.value(k, 0)).collect();
        let kept: Vec<usize> = (0..50).filter(|&k| x[k] >= -0.3).collect();
        assert!(kept.len() > 10 && kept.len() < 45 && x[0].max(x[1]) < 3.0);

        let mut belief = particles.clone();
        let half = filter(-0.3);
        half.predict(&mut belief, &[], &step).unwrap();
        let update = half.update(&mut belief, &[y], &[], &step).unwrap();
        // Q is zero, so the kept particles stand where they stood.
        let weigh = |k: usize| (-0.5 * (y - x[k]) * (y - x[k])).exp();
        let total: f64 = kept.iter().map(|&k| weigh(k)).sum();
        for k in 0..50 {
            let wanted = if kept.contains(&k) { weigh(k) / total } else { 0.0 };
            // The weights' own exponential is good to some 1e-14; a lost one's weight is zero exactly.
            assert!((belief.weights()[k] - wanted).abs() <= 1e-13 * wanted, "{loss:?} {k}");
        }
        let mean: f64 = kept.iter().map(|&k| weigh(k) * x[k]).sum::<f64>() / total;
        assert!((belief.mean()[0] - mean).abs() < 1e-13, "{loss:?}");
        assert!(belief.cov().unwrap()[0].is_finite() && update.innovation[0].is_finite());
        // ln sum w p(y | x): a particle lost in f shares out its weight, one lost in h or p has p = 0.
        let count = if matches!(loss, Loss::State(_)) { kept.len() } else { 50 };
        let expected = (total / count as f64).ln();
        let shift = update.log_likelihood.unwrap() - expected;
        assert!(shift.abs() < 1e-12, "{loss:?}: {shift}");
        // And the filter goes on.
        half.predict(&mut belief, &[], &Step::even(2, 1.0)).unwrap();
        half.update(&mut belief, &[y], &[], &Step::even(2, 1.0)).unwrap();

        // Only when all are lost it is an error, and the belief stays.
        let all = filter(10.0);
        let mut belief = particles.clone();
        let failed = match loss {
            Loss::State(_) => all.predict(&mut belief, &[], &step),
            _ => all.update(&mut belief, &[y], &[], &step).map(|_| ()),
        };
        assert!(matches!(failed, Err(FilterError::Diverged { index: 1, .. })), "{loss:?}");
        assert_eq!(save("p", &belief).unwrap(), save("p", &particles).unwrap(), "{loss:?}");
    }
}

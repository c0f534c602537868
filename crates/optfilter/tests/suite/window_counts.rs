//! Windows over counts and zeros and ones: from anywhere, and with error bars in whatever parameter the model has.

use nalgebra::{Const, DVector, Dyn, matrix, vector};
use optfilter::Series;
use optfilter::drive::Run;
use optfilter::filter::{Window, WindowBars, WindowBarsBelief, WindowBelief};
use optfilter::model::likelihood::{Bernoulli, Likelihood, Link, Poisson};
use optfilter::model::{Dynamics, GaussianNoise, Observation, RandomWalk, Step};
use optfilter::optim::{ConjugateGradients, GradientDescent};
use optfilter::scalar::Scalar;

/// Estimates of a walk whose state is the parameter itself.
fn followed<L: Likelihood + Clone>(
    likelihood: L,
    start: f64,
    data: &[f64],
    length: usize,
) -> Vec<f64> {
    let walk = RandomWalk::new(Dyn(1));
    let cg = ConjugateGradients::default();
    let window = Window::new(walk, likelihood, cg, 5, length).unwrap();
    let mut belief = WindowBelief::new(DVector::from_element(1, start)).unwrap();
    window.run(&mut belief, &Series::new(data, 1).unwrap()).unwrap().means
}

#[test]
fn conjugate_gradients_find_a_rate_from_anywhere() {
    let poisson = Poisson { link: Link::Canonical };
    let counts = [31.0, 28.0, 33.0, 30.0, 29.0, 27.0, 32.0, 30.0, 30.0, 31.0];
    for start in [0.0, -50.0, 12.0, 3.4] {
        for length in [0, 3] {
            let found = followed(poisson, start, &counts, length);
            // The first count is the best estimate of its rate; later ones stay near.
            assert!((found[0] - 31.0_f64.ln()).abs() < 1e-9, "{start} {length} {found:?}");
            assert!(found.iter().all(|x| (x - 30.0_f64.ln()).abs() < 0.15), "{start} {found:?}");
        }
    }
}

#[test]
fn conjugate_gradients_stay_near_log_odds() {
    let bernoulli = Bernoulli { link: Link::Canonical };
    let mixed = [0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0];
    for start in [2.0, 25.0, -400.0] {
        let found = followed(bernoulli, start, &mixed, 3);
        // After the first, no step leads further than to the mirror image.
        assert!(found.iter().all(|x| x.abs() <= start.abs().max(4.0) + 1e-6), "{start} {found:?}");
        assert!(found[5..].iter().all(|x| x.abs() < 3.0), "{start} {found:?}");
    }
    // Nothing but zeros: the odds fall, and stay numbers that a one can bring back.
    for start in [5.0, 25.0] {
        let zeros = followed(bernoulli, start, &[0.0; 12], 3);
        assert!(zeros.iter().all(|x| *x < 0.0 && *x >= -start - 1.0), "{zeros:?}");
    }
}

/// A walk that is seen through an exponential, or as it is.
#[derive(Clone, Copy)]
struct Seen {
    exponential: bool,
}

impl Dynamics for Seen {
    type State = Const<1>;
    fn state_dim(&self) -> Const<1> {
        Const
    }
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out.copy_from_slice(x);
    }
}

impl Observation for Seen {
    type Output = Const<1>;
    fn output_dim(&self) -> Const<1> {
        Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out[0] = if self.exponential { x[0].exp() } else { x[0] };
    }
}

/// A rate that is seen, and a logarithm of a rate that is linked to it, are the same filter: estimates, error bars and what the measurements
/// were worth.
#[test]
fn error_bars_do_not_depend_on_who_takes_the_exponential() {
    let counts = [9.0, 12.0, 8.0, 11.0, 14.0, 7.0, 10.0, 9.0];
    let series = Series::new(&counts, 1).unwrap();
    let run = |exponential: bool, link: Link| {
        let rule = GradientDescent::new(0.02).unwrap();
        let window = Window::new(Seen { exponential }, Poisson { link }, rule, 3, 2).unwrap();
        let noise = GaussianNoise::new(matrix![0.01], matrix![10.0]).unwrap();
        let bars = WindowBars::new(window, noise).unwrap();
        let mut belief = WindowBarsBelief::new(vector![2.1], matrix![0.05]).unwrap();
        let found = bars.run(&mut belief, &series).unwrap();
        [found.means, found.covs, found.nis, found.log_likelihoods]
    };
    let (seen, linked) = (run(true, Link::Identity), run(false, Link::Canonical));
    assert_eq!(seen[1].len(), 8);
    for (a, b) in seen.iter().flatten().zip(linked.iter().flatten()) {
        assert!(a.is_finite() && (a - b).abs() < 1e-9 * (1.0 + b.abs()), "{seen:?}\n{linked:?}");
    }
}

//! Weight filters against exact posteriors on linear networks, where the Kalman filter is the answer.
#![allow(clippy::unwrap_used)] // a test may panic

use optfilter::optim::{Adam, GradientDescent};
use optfilter::rng::Stream;
use optfilter_nn::filter::{
    ImplicitMap, Memory, Particle, Static, Transition, Variational, WeightFilter, fit,
};
use optfilter_nn::{Evaluator, Loss, Minibatch, Network, Reduction, Targets};

/// One input and one output: the weights are (bias, slope), and half the squared error is the negative log-likelihood of
/// a measurement with variance 1.
fn line() -> Network {
    Network::mlp(1, &[], 1).unwrap()
}

/// Mean and covariance after measuring `y` at `x` with variance 1, for weights (bias, slope).
fn kalman(m: [f64; 2], p: [[f64; 2]; 2], x: f64, y: f64) -> ([f64; 2], [[f64; 2]; 2]) {
    let h = [1.0, x];
    let ph = [p[0][0] * h[0] + p[0][1] * h[1], p[1][0] * h[0] + p[1][1] * h[1]];
    let s = h[0] * ph[0] + h[1] * ph[1] + 1.0;
    let e = y - m[0] - m[1] * x;
    let m = [m[0] + ph[0] / s * e, m[1] + ph[1] / s * e];
    let p = [
        [p[0][0] - ph[0] * ph[0] / s, p[0][1] - ph[0] * ph[1] / s],
        [p[1][0] - ph[1] * ph[0] / s, p[1][1] - ph[1] * ph[1] / s],
    ];
    (m, p)
}

const MEASURED: [([f64; 2], [f64; 2]); 4] = [
    ([0.5, -1.0], [1.2, 0.3]),
    ([2.0, 0.1], [2.9, 1.0]),
    ([-0.7, 1.5], [0.4, 2.6]),
    ([1.0, -2.0], [2.2, -0.9]),
];

#[test]
fn particles_follow_the_exact_posterior() {
    let network = line();
    let mut evaluator = Evaluator::<f64>::new(&network);
    let (count, var) = (100_000, 0.3);
    let mut filter = Particle::new(count, var, vec![0.2, 0.8], 11).unwrap();
    let (mut m, mut p) = ([0.2, 0.8], [[0.0; 2]; 2]);
    for (x, y) in MEASURED {
        filter.predict();
        let batch =
            Minibatch::new(&network, &x, Targets::Values(&y), Loss::SquaredError, Reduction::Mean)
                .unwrap();
        filter.update(&mut evaluator, &batch);
        (p[0][0], p[1][1]) = (p[0][0] + var, p[1][1] + var);
        for i in 0..2 {
            (m, p) = kalman(m, p, x[i], y[i]);
        }
        // Monte Carlo error: a standard deviation below 1 over sqrt(50,000 effective particles) is 0.0045; four of them.
        assert!(filter.effective() > 20_000.0 && filter.effective() < 100_000.0);
        for i in 0..2 {
            assert!((filter.weights()[i] - m[i]).abs() < 0.018, "{:?} but {m:?}", filter.weights());
        }
        for i in 0..2 {
            let spread: f64 =
                filter.particles().chunks_exact(2).map(|w| (w[i] - m[i]).powi(2)).sum();
            assert!(
                (spread / count as f64 - p[i][i]).abs() < 0.03 * p[i][i] + 0.002,
                "variance {i}"
            );
        }
    }
}

#[test]
fn particles_do_not_depend_on_threads() {
    let network = line();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut evaluator = Evaluator::<f32>::new(&network);
            let mut filter = Particle::new(101, 0.1, vec![0.0, 0.0], 3).unwrap();
            let (x, y) = ([1.0, 2.0], [0.5, 1.0]);
            let batch = Minibatch::new(
                &network,
                &x,
                Targets::Values(&y),
                Loss::SquaredError,
                Reduction::Sum,
            )
            .unwrap();
            for _ in 0..3 {
                filter.predict();
                filter.update(&mut evaluator, &batch);
            }
            filter.weights().to_vec()
        })
    };
    assert_eq!(run(1), run(2));
}

#[test]
fn variational_filter_is_the_kalman_filter_for_one_time_step() {
    let network = line();
    let mut evaluator = Evaluator::<f64>::new(&network);
    let var = 0.3;
    let (x, y) = MEASURED[0];
    let batch =
        Minibatch::new(&network, &x, Targets::Values(&y), Loss::SquaredError, Reduction::Sum)
            .unwrap();
    let gd = GradientDescent::new(0.2).unwrap();
    let mut filter = Variational::new(gd, 500, var, vec![0.2, 0.8]).unwrap();
    filter.predict();
    filter.update(&mut evaluator, &batch);
    let (mut m, mut p) = ([0.2, 0.8], [[var, 0.0], [0.0, var]]);
    for i in 0..2 {
        (m, p) = kalman(m, p, x[i], y[i]);
    }
    // Converged gradient descent: only rounding is left.
    assert!((filter.weights()[0] - m[0]).abs() < 1e-9 && (filter.weights()[1] - m[1]).abs() < 1e-9);
    assert!(Variational::new(gd, 1, -1.0, vec![0.0]).is_err());
}

#[test]
fn implicit_map_moves_with_steps_memory_and_transition() {
    let network = line();
    let mut evaluator = Evaluator::<f64>::new(&network);
    let (x, y) = ([0.0, 1.0, 2.0], [1.0, 3.0, 5.0]);
    let batch =
        Minibatch::new(&network, &x, Targets::Values(&y), Loss::SquaredError, Reduction::Sum)
            .unwrap();
    let adam = Adam::new(0.01).unwrap();
    let after = |mut filter: ImplicitMap<f64, Adam>, evaluator: &mut Evaluator<f64>| {
        for _ in 0..3 {
            filter.predict();
            filter.update(evaluator, &batch);
        }
        filter.weights().to_vec()
    };
    let fresh = || ImplicitMap::new(adam, 10, vec![0.0, 0.0]);
    let restarted = after(fresh(), &mut evaluator);
    let carried = after(fresh().with_memory(Memory::Carry), &mut evaluator);
    let decayed = after(
        fresh().with_transition(Transition::Decay { reference: vec![0.0; 2], rate: 0.5 }),
        &mut evaluator,
    );
    let fixed = after(
        fresh().with_transition(Transition::Custom(Box::new(|w| w.fill(0.0)))),
        &mut evaluator,
    );
    assert_ne!(restarted, carried);
    assert!(decayed[0] < restarted[0]);
    // Begun at zero each time, the last update alone counts.
    let mut once = ImplicitMap::new(adam, 10, vec![0.0, 0.0]);
    once.update(&mut evaluator, &batch);
    assert_eq!(fixed, once.weights());
    // Carried memory and one long descent are the same thing when the data do not change.
    let mut long = ImplicitMap::new(adam, 30, vec![0.0, 0.0]);
    long.update(&mut evaluator, &batch);
    assert_eq!(carried, long.weights());
    let mut still = Static(vec![1.0, 2.0]);
    still.update(&mut evaluator, &batch);
    assert_eq!(still.weights(), [1.0, 2.0]);
}

#[test]
fn first_step_is_fitted_until_it_settles() {
    let network = line();
    let mut evaluator = Evaluator::<f64>::new(&network);
    let mut stream = Stream::new(1, 0, "fit");
    let x: Vec<f64> = (0..20).map(|_| stream.normal()).collect();
    let y: Vec<f64> = x.iter().map(|x| 1.0 + 2.0 * x + 0.1 * stream.normal()).collect();
    let batch =
        Minibatch::new(&network, &x, Targets::Values(&y), Loss::SquaredError, Reduction::Mean)
            .unwrap();
    let mut w = vec![0.0; 2];
    let end = fit(&Adam::new(0.05).unwrap(), &mut evaluator, &batch, &mut w, 5000, 1e-6);
    assert!(end.settled && end.steps < 5000, "{end:?}");
    assert!((w[0] - 1.0).abs() < 0.1 && (w[1] - 2.0).abs() < 0.1);
    let short = fit(&Adam::new(0.05).unwrap(), &mut evaluator, &batch, &mut vec![0.0; 2], 30, 1e-6);
    assert!(!short.settled);
}

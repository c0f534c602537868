//! Windows over Lorenz '96 of up to a hundred thousand states follow it.

use nalgebra::{Dyn, OVector};
use optfilter::filter::{Filter, Window, WindowBelief};
use optfilter::model::likelihood::SquaredError;
use optfilter::model::{Dynamics, Lorenz96, Step};
use optfilter::optim::ConjugateGradients;
use optfilter::rng::Stream;

/// Lorenz '96 with every component measured: the mean error over a run.
fn lorenz96(
    n: usize,
    cycles: usize,
    length: usize,
    (iterations, probes): (u32, u32),
    seed: u64,
) -> f64 {
    let model = Lorenz96::new(Dyn(n), 8.0).rk4();
    let mut stream = Stream::new(seed, 0, "lorenz 96");
    let mut truth = vec![8.0; n];
    truth.iter_mut().for_each(|x| *x += 0.1 * stream.normal());
    let mut next = truth.clone();
    for k in 1..=400u64 {
        model.transition(&truth, &[], &Step::even(k, 0.05), &mut next);
        truth.copy_from_slice(&next);
    }
    let cg = ConjugateGradients::default().with_probes(probes);
    let filter = Window::new(model, SquaredError, cg, iterations, length).unwrap();
    let start = OVector::<f64, Dyn>::from_fn(n, |i, _| truth[i] + stream.normal());
    let mut belief = WindowBelief::new(start).unwrap();
    let (mut sum, mut y) = (0.0, vec![0.0; n]);
    let warm_up = cycles / 4;
    for k in 1..=cycles {
        let step = Step::even(k as u64, 0.05);
        model.transition(&truth, &[], &step, &mut next);
        truth.copy_from_slice(&next);
        for i in 0..n {
            y[i] = truth[i] + stream.normal();
        }
        filter.predict(&mut belief, &[], &step).unwrap();
        filter.update(&mut belief, &y, &[], &step).unwrap();
        if k > warm_up {
            let square: f64 = (0..n).map(|i| (belief.mean[i] - truth[i]).powi(2)).sum();
            sum += (square / n as f64).sqrt();
        }
    }
    sum / (cycles - warm_up) as f64
}

#[test]
fn a_window_follows_chaos_better_than_one_row() {
    let (one, window) = (lorenz96(40, 300, 0, (1, 0), 7), lorenz96(40, 300, 24, (3, 0), 7));
    println!("{one} {window}");
    assert!(window < 0.26 && one > 0.7, "{one} {window}");
}

/// Of a large field, a few iterations scaled by the curvature reach what many more reach without.
#[test]
fn probes_save_iterations_on_a_large_field() {
    let run = |iterations, probes| lorenz96(3000, 40, 20, (iterations, probes), 5);
    let (few, scaled) = (run(6, 0), run(6, 4));
    println!("{few} {scaled}");
    assert!(scaled < 0.9 * few, "{few} {scaled}");
}

/// A hundred thousand states take seconds and no matrix.
#[test]
fn a_window_over_a_hundred_thousand_states() {
    let error = lorenz96(100_000, 6, 3, (2, 0), 5);
    println!("{error}");
    // Measurements are off by one each, and four of them are seen together.
    assert!(error < 0.8, "{error}");
}

//! Filters with error bars against the Kalman filter, dense algebra and the authors' program.
#![allow(clippy::unwrap_used)] // a test may panic

use optfilter::rng::Stream;
use optfilter_nn::filter::{
    Diagonal, DiagonalRule, Ivon, IvonOptions, Likelihood, LowRank, Resumable, WeightFilter,
};
use optfilter_nn::{Evaluator, Loss, Minibatch, Network, Reduction, Targets};

const D: usize = 4;

/// Three inputs and one output: the weights are the bias and three slopes.
fn plane() -> Network {
    Network::mlp(3, &[], 1).unwrap()
}

fn batch<'a>(network: &Network, x: &'a [f64], y: &'a [f64]) -> Minibatch<'a, f64> {
    Minibatch::new(network, x, Targets::Values(y), Loss::SquaredError, Reduction::Sum).unwrap()
}

/// The Kalman filter in plain loops.
struct Kalman {
    m: [f64; D],
    p: [[f64; D]; D],
}

impl Kalman {
    fn measure(&mut self, x: &[f64], y: f64, r: f64) {
        let h = [1.0, x[0], x[1], x[2]];
        let ph: Vec<f64> = self.p.iter().map(|row| (0..D).map(|k| row[k] * h[k]).sum()).collect();
        let s = r + (0..D).map(|k| h[k] * ph[k]).sum::<f64>();
        let e = y - (0..D).map(|k| h[k] * self.m[k]).sum::<f64>();
        for i in 0..D {
            self.m[i] += ph[i] / s * e;
            for k in 0..D {
                self.p[i][k] -= ph[i] * ph[k] / s;
            }
        }
    }
}

fn samples(n: usize) -> Vec<([f64; 3], f64)> {
    let mut draw = Stream::new(3, 0, "samples");
    let mut one = || {
        let x = [draw.normal(), draw.normal(), draw.normal()];
        (x, 0.3 - x[0] + 2.0 * x[1] + 0.5 * x[2] + 0.2 * draw.normal())
    };
    (0..n).map(|_| one()).collect()
}

#[test]
fn full_rank_is_the_kalman_filter() {
    let network = plane();
    let mut evaluator = Evaluator::new(&network);
    for (q, r) in [(0.0, 1.0), (0.01, 0.3)] {
        let likelihood = Likelihood { noise_var: r, robust: None };
        let mut filter = LowRank::new(vec![0.1, 0.2, -0.3, 0.0], 2.0, D)
            .with_likelihood(likelihood)
            .with_drift(q, 1.0);
        let mut kalman = Kalman { m: [0.1, 0.2, -0.3, 0.0], p: [[0.0; D]; D] };
        (0..D).for_each(|i| kalman.p[i][i] = 2.0);
        for (x, y) in samples(60) {
            filter.predict();
            (0..D).for_each(|i| kalman.p[i][i] += q);
            let h = [1.0, x[0], x[1], x[2]];
            filter.update(&mut evaluator, &batch(&network, &x, &[y]));
            kalman.measure(&x, y, r);
            for i in 0..D {
                assert!((filter.weights()[i] - kalman.m[i]).abs() < 1e-10, "{i} {q}");
            }
            let php: f64 =
                (0..D).map(|i| (0..D).map(|k| h[i] * kalman.p[i][k] * h[k]).sum::<f64>()).sum();
            let var = filter.variance_along(&h).unwrap();
            assert!((var - php).abs() < 1e-10, "{var} but {php}");
        }
    }
}

#[test]
fn fewer_directions_lose_little_and_stay_sound() {
    let network = plane();
    let mut evaluator = Evaluator::new(&network);
    let mut filter = LowRank::new(vec![0.0; D], 2.0, 2).with_drift(1e-4, 1.0);
    for (x, y) in samples(400) {
        filter.predict();
        filter.update(&mut evaluator, &batch(&network, &x, &[y]));
    }
    for (found, true_value) in filter.weights().iter().zip([0.3, -1.0, 2.0, 0.5]) {
        assert!((found - true_value).abs() < 0.15, "{:?}", filter.weights());
    }
}

/// One update of each diagonal rule from a belief that is diagonal, by dense algebra.
#[test]
fn diagonal_rules_are_their_equations() {
    let network = plane();
    let mut evaluator = Evaluator::new(&network);
    let (start, v0, q, r) = (vec![0.1, 0.2, -0.3, 0.4], 0.7, 0.05, 0.3);
    let (x, y) = ([0.5, -1.5, 2.0], 1.1);
    let h = [1.0, x[0], x[1], x[2]];
    let v = v0 + q;
    let e = y - (0..D).map(|i| h[i] * start[i]).sum::<f64>();
    let s = r + (0..D).map(|i| h[i] * v * h[i]).sum::<f64>();
    for rule in [DiagonalRule::Decoupled, DiagonalRule::Variational, DiagonalRule::Bong] {
        let mut filter = Diagonal::new(rule, start.clone(), v0)
            .with_likelihood(Likelihood { noise_var: r, robust: None })
            .with_drift(q, 1.0);
        filter.predict();
        filter.update(&mut evaluator, &batch(&network, &x, &[y]));
        for i in 0..D {
            let informed = 1.0 / (1.0 / v + h[i] * h[i] / r);
            let (m, var) = match rule {
                DiagonalRule::Decoupled => (v * h[i] / s * e, v - v * h[i] / s * h[i] * v),
                DiagonalRule::Variational => (v * h[i] / s * e, informed),
                _ => (informed * h[i] / r * e, informed),
            };
            assert!((filter.weights()[i] - start[i] - m).abs() < 1e-12, "{rule:?}");
            assert!((filter.variances()[i] - var).abs() < 1e-12, "{rule:?}");
        }
    }
}

/// Where only the bias is seen, a diagonal belief is the exact one.
#[test]
fn one_weight_is_the_kalman_filter_for_every_rule() {
    let network = plane();
    let mut evaluator = Evaluator::new(&network);
    for rule in [DiagonalRule::Decoupled, DiagonalRule::Variational, DiagonalRule::Bong] {
        let mut filter = Diagonal::new(rule, vec![0.0; D], 2.0).with_drift(0.1, 1.0);
        let mut kalman = Kalman { m: [0.0; D], p: [[0.0; D]; D] };
        (0..D).for_each(|i| kalman.p[i][i] = 2.0);
        for (_, y) in samples(40) {
            filter.predict();
            (0..D).for_each(|i| kalman.p[i][i] += 0.1);
            filter.update(&mut evaluator, &batch(&network, &[0.0; 3], &[y]));
            kalman.measure(&[0.0; 3], y, 1.0);
            assert!((filter.weights()[0] - kalman.m[0]).abs() < 1e-10);
            assert!((filter.variances()[0] - kalman.p[0][0]).abs() < 1e-10);
        }
    }
}

#[test]
fn an_outlier_counts_by_its_weight() {
    let network = plane();
    let mut evaluator = Evaluator::new(&network);
    let (x, y, c, r) = ([0.0; 3], 50.0, 2.0, 0.5);
    let weight = 1.0 / (1.0 + y * y / r / (c * c));
    let mut filter = LowRank::new(vec![0.0; D], 1.0, D)
        .with_likelihood(Likelihood { noise_var: r, robust: Some(c) });
    filter.update(&mut evaluator, &batch(&network, &x, &[y]));
    let expected = 1.0 / (1.0 + r / weight) * y;
    assert!((filter.weights()[0] - expected).abs() < 1e-10 && expected < 1.0);
}

/// Classes: two of them through one output and through two say the same, and error bars shrink where samples were seen.
#[test]
fn classes_are_learnt_with_error_bars() {
    let network = Network::mlp(3, &[8], 3).unwrap();
    let mut evaluator = Evaluator::<f64>::new(&network);
    let start: Vec<f64> = network.init(&mut Stream::new(1, 0, "weights"));
    let filters: Vec<Box<dyn Resumable<f64>>> = vec![
        Box::new(Diagonal::new(DiagonalRule::Decoupled, start.clone(), 0.3)),
        Box::new(Diagonal::new(DiagonalRule::Variational, start.clone(), 0.3)),
        Box::new(Diagonal::new(DiagonalRule::Bong, start.clone(), 0.03)),
        Box::new(Diagonal::new(DiagonalRule::BongSampled { draws: 4 }, start.clone(), 0.03)),
        Box::new(LowRank::new(start.clone(), 0.3, 6)),
        Box::new(Ivon::new(IvonOptions { lr: 1.0, ..IvonOptions::default() }, 1, start.clone(), 1)),
    ];
    for (number, mut filter) in filters.into_iter().enumerate() {
        let mut draw = Stream::new(9, 0, "classes");
        let mut right = 0;
        for i in 0..900 {
            let class = (3.0 * draw.uniform()) as u32;
            let mut x = [draw.normal(), draw.normal(), draw.normal()];
            x[class as usize] += 3.0;
            let y = [class];
            let loss = Loss::SoftmaxCrossEntropy;
            let batch =
                Minibatch::new(&network, &x, Targets::Classes(&y), loss, Reduction::Sum).unwrap();
            let mut z = [0.0; 3];
            evaluator.predict(filter.weights(), &x, &mut z);
            let named = (0..3).fold(0, |a, b| if z[b] > z[a] { b } else { a });
            right += i32::from(i >= 300 && named == class as usize);
            filter.predict();
            filter.update(&mut evaluator, &batch);
        }
        assert!(right > 540, "filter {number}: {right} of 600"); // 90 %; the best possible is about 97 %
        let (mut z, mut h) = ([0.0; 3], vec![0.0; 3 * start.len()]);
        evaluator.jacobian(filter.weights(), &[3.0, 0.0, 0.0], &mut z, &mut h);
        let near = filter.variance_along(&h[..start.len()]).unwrap();
        evaluator.jacobian(filter.weights(), &[30.0, 0.0, -40.0], &mut z, &mut h);
        let far = filter.variance_along(&h[..start.len()]).unwrap();
        assert!(near > 0.0 && far > 3.0 * near, "filter {number}: {near} {far}");
        // Put aside and taken up again.
        let bytes = filter.save().unwrap();
        let before = filter.weights().to_vec();
        filter.load(&bytes).unwrap();
        assert_eq!(filter.weights(), before);
    }
}

/// The sampled form by hand, from the same normal numbers: the mean over draws of the gradient of the log-likelihood, and its square.
#[test]
fn sampled_bong_is_its_equations() {
    let network = plane();
    let mut evaluator = Evaluator::new(&network);
    let (start, v, r, seed) = (vec![0.1, 0.2, -0.3, 0.4], 0.7, 0.3, 5);
    let (x, y) = ([0.5, -1.5, 2.0], 1.1);
    let h = [1.0, x[0], x[1], x[2]];
    for draws in [1, 4] {
        let rule = DiagonalRule::BongSampled { draws };
        let mut filter = Diagonal::new(rule, start.clone(), v)
            .with_likelihood(Likelihood { noise_var: r, robust: None })
            .with_seed(seed);
        filter.update(&mut evaluator, &batch(&network, &x, &[y]));
        let mut mean = [0.0; D];
        for k in 0..draws {
            let mut z = [0.0; D];
            Stream::new(seed, u64::from(k), "belief").fill_normal(&mut z);
            let w: Vec<f64> = (0..D).map(|i| start[i] + v.sqrt() * z[i]).collect();
            let e = y - (0..D).map(|i| h[i] * w[i]).sum::<f64>();
            (0..D).for_each(|i| mean[i] += h[i] * e / r / f64::from(draws));
        }
        for i in 0..D {
            let var = 1.0 / (1.0 / v + mean[i] * mean[i]);
            assert!((filter.variances()[i] - var).abs() < 1e-12, "{draws}");
            assert!((filter.weights()[i] - start[i] - var * mean[i]).abs() < 1e-12, "{draws}");
        }
    }
    // The variance of numbers is nothing to classes.
    let network = Network::mlp(3, &[], 1).unwrap();
    let weights = |noise_var: f64| {
        let rule = DiagonalRule::BongSampled { draws: 2 };
        let mut filter = Diagonal::new(rule, start.clone(), v)
            .with_likelihood(Likelihood { noise_var, robust: None });
        let (loss, y) = (Loss::BinaryCrossEntropy, [1]);
        let batch =
            Minibatch::new(&network, &x, Targets::Classes(&y), loss, Reduction::Sum).unwrap();
        filter.update(&mut Evaluator::new(&network), &batch);
        filter.weights().to_vec()
    };
    assert_eq!(weights(0.1), weights(1.0));
}

/// Low-rank BONG on the linearised network is LoFi: dense algebra of its own step, natural gradient with the new precision, gives the same.
#[test]
fn low_rank_bong_is_lofi() {
    let network = plane();
    let mut evaluator = Evaluator::new(&network);
    let r = 0.3;
    let mut filter = LowRank::new(vec![0.1, 0.2, -0.3, 0.4], 2.0, D)
        .with_likelihood(Likelihood { noise_var: r, robust: None });
    let (mut m, mut precision) = (vec![0.1, 0.2, -0.3, 0.4], vec![0.0; D * D]);
    (0..D).for_each(|i| precision[i * D + i] = 0.5);
    for (x, y) in samples(30) {
        filter.update(&mut evaluator, &batch(&network, &x, &[y]));
        let h = [1.0, x[0], x[1], x[2]];
        let e = y - (0..D).map(|i| h[i] * m[i]).sum::<f64>();
        (0..D * D).for_each(|i| precision[i] += h[i / D] * h[i % D] / r);
        // The natural gradient is the gradient H' g in the metric of the new precision.
        let (mut a, mut step) = (precision.clone(), h.map(|h| h * e / r));
        eliminate(&mut a, &mut step);
        (0..D).for_each(|i| m[i] += step[i]);
        for i in 0..D {
            assert!((filter.weights()[i] - m[i]).abs() < 1e-10);
        }
    }
}

/// Solves `a x = b` in place; `a` is positive definite.
fn eliminate(a: &mut [f64], b: &mut [f64; D]) {
    for i in 0..D {
        for k in (0..D).filter(|k| *k != i) {
            let factor = a[k * D + i] / a[i * D + i];
            (0..D).for_each(|j| a[k * D + j] -= factor * a[i * D + j]);
            b[k] -= factor * b[i];
        }
    }
    (0..D).for_each(|i| b[i] /= a[i * D + i]);
}

/// Against `ivon-opt` (golden/ivon_golden.py): the same problem, the same normal numbers.
#[test]
fn ivon_is_the_authors_ivon() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("golden/ivon.json")).unwrap();
    let numbers = |v: &serde_json::Value| -> Vec<f64> {
        v.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    let network = plane();
    let mut evaluator = Evaluator::new(&network);
    let (x, y) = (numbers(&golden["x"]), numbers(&golden["y"]));
    let batch =
        Minibatch::new(&network, &x, Targets::Values(&y), Loss::SquaredError, Reduction::Mean)
            .unwrap();
    let options = IvonOptions {
        lr: 0.2,
        samples: 50.0,
        first_curvature: 0.7,
        beta1: 0.9,
        beta2: 0.98,
        weight_decay: 0.01,
    };
    let mut filter = Ivon::new(options, 1, numbers(&golden["start"]), 0);
    for step in golden["steps"].as_array().unwrap() {
        filter.step(&mut evaluator, &batch, &numbers(&step["normal"]));
        let (mean, std) = (numbers(&step["mean"]), numbers(&step["std"]));
        for i in 0..D {
            // Both in double precision; sums in another order.
            assert!((filter.weights()[i] - mean[i]).abs() < 1e-12);
            assert!((filter.deviations()[i] - std[i]).abs() < 1e-12);
        }
    }
}

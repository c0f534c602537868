//! Twenty Adam steps against JAX (flax and optax), see `golden/adam_trajectory.py`.
#![allow(clippy::unwrap_used)] // a test may panic

use optfilter::optim::{Adam, Optimizer};
use optfilter::scalar::Scalar;
use optfilter_nn::kernel::Real;
use optfilter_nn::{Evaluator, Loss, Minibatch, Network, Reduction, Targets};
use serde_json::Value;

fn follow<E: Real + Scalar>(tolerance: f64) {
    let golden: Value = serde_json::from_str(include_str!("golden/adam_trajectory.json")).unwrap();
    let number = |v: &Value| v.as_f64().unwrap();
    let network = Network::paper_cnn();
    assert_eq!(network.len() as u64, golden["weights"].as_u64().unwrap());
    let n = 32;
    let y: Vec<u32> = (0..n as u32).map(|i| (i * 5 / 3) % 2).collect();
    let pixel = |i: usize| {
        let (sample, row, column) = (i / 1024, i / 32 % 32, i % 32);
        let angle =
            0.3 * (row as f64) * f64::from(1 + y[sample]) + 0.2 * column as f64 + sample as f64;
        E::of(0.5 + 0.5 * angle.sin())
    };
    let x: Vec<E> = (0..n * 1024).map(pixel).collect();
    let mut w: Vec<E> =
        (1..=network.len()).map(|i| E::of(0.1 * (12.9898 * i as f64).sin())).collect();
    let targets = Targets::Classes(&y);
    let batch =
        Minibatch::new(&network, &x, targets, Loss::BinaryCrossEntropy, Reduction::Sum).unwrap();
    let mut evaluator = Evaluator::new(&network);
    let adam = Adam::new(1e-3).unwrap();
    let mut state = adam.init(&w);
    let mut g = w.clone();
    for (k, row) in golden["steps"].as_array().unwrap().iter().enumerate() {
        let loss = evaluator.gradient(&w, &batch, &mut g).to_double();
        let norm = g.iter().map(|v| v.to_double().powi(2)).sum::<f64>().sqrt();
        let (loss_there, norm_there) = (number(&row["loss"]), number(&row["gradient_norm"]));
        assert!(
            (loss - loss_there).abs() < tolerance * loss_there,
            "step {k}: loss {loss} but {loss_there}"
        );
        assert!(
            (norm - norm_there).abs() < tolerance * norm_there,
            "step {k}: gradient {norm} but {norm_there}"
        );
        adam.step(&mut w, &g, &mut state);
    }
    let every = golden["every"].as_u64().unwrap() as usize;
    for (i, there) in golden["final"].as_array().unwrap().iter().enumerate() {
        let (here, there) = (w[i * every].to_double(), number(there));
        assert!(
            (here - there).abs() < tolerance * (0.1 + there.abs()),
            "weight {}: {here} but {there}",
            i * every
        );
    }
}

#[test]
fn double_precision_follows_jax() {
    // Both sides sum the same terms in another order, 20 steps on: 1e-16 grows to about 1e-12.
    follow::<f64>(1e-9);
}

#[test]
fn single_precision_follows_jax() {
    // Adam divides each derivative by its own size, so rounding in a tiny one moves its weight: 1e-4.
    follow::<f32>(1e-4);
}

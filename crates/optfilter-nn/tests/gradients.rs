//! Gradients against finite differences for every layer and loss, and the instruction sets against each other.
#![allow(clippy::unwrap_used)] // a test may panic

use optfilter::rng::Stream;
use optfilter_nn::kernel::{Level, Real};
use optfilter_nn::{Evaluator, Layer, Loss, Minibatch, Network, Reduction, Shape, Targets};

fn normals<E: Real>(n: usize, seed: u64) -> Vec<E> {
    let mut stream = Stream::new(seed, 0, "test");
    (0..n).map(|_| E::of(stream.normal())).collect()
}

fn image(height: usize, width: usize, channels: usize) -> Shape {
    Shape::Image { height, width, channels }
}

/// Networks that between them use every layer, fused and alone, with sizes that do and do not fill a lane.
fn networks() -> Vec<(&'static str, Network)> {
    use Layer::{AnyConv, AnyPool, Conv, Dense, Elu, Flatten, LeakyRelu, MaxPool, Relu, Tanh};
    let net = |shape, layers: &[Layer]| Network::new(shape, layers.to_vec()).unwrap();
    vec![
        ("dense", net(Shape::Vector(5), &[Dense { outputs: 3 }])),
        (
            "any conv, elu, any pools, leaky relu",
            net(
                image(13, 11, 2),
                &[
                    AnyConv { channels: 5, size: 5, stride: 2, border: 2 },
                    Elu,
                    AnyConv { channels: 3, size: 2, stride: 1, border: 0 },
                    LeakyRelu,
                    AnyPool { size: 3, mean: false },
                    AnyConv { channels: 4, size: 1, stride: 1, border: 0 },
                    AnyPool { size: 1, mean: true },
                    LeakyRelu,
                    Flatten,
                    Dense { outputs: 3 },
                ],
            ),
        ),
        (
            "means of odd images between the usual convolutions",
            net(
                image(9, 10, 1),
                &[
                    Conv { channels: 3 },
                    Elu,
                    AnyPool { size: 2, mean: true },
                    Conv { channels: 4 },
                    Relu,
                    AnyConv { channels: 6, size: 3, stride: 2, border: 1 },
                    Flatten,
                    Dense { outputs: 3 },
                ],
            ),
        ),
        ("mlp relu", net(Shape::Vector(7), &[Dense { outputs: 9 }, Relu, Dense { outputs: 3 }])),
        (
            "mlp tanh",
            net(Shape::Vector(7), &[Tanh, Dense { outputs: 9 }, Tanh, Dense { outputs: 3 }]),
        ),
        ("conv alone", net(image(5, 6, 1), &[Conv { channels: 3 }, Flatten, Dense { outputs: 3 }])),
        (
            "conv relu",
            net(image(5, 7, 2), &[Conv { channels: 4 }, Relu, Flatten, Dense { outputs: 3 }]),
        ),
        (
            "conv tanh pool",
            net(
                image(6, 7, 3),
                &[Conv { channels: 5 }, Tanh, MaxPool, Flatten, Dense { outputs: 3 }],
            ),
        ),
        (
            "conv relu pool twice",
            net(
                image(9, 8, 1),
                &[
                    Conv { channels: 6 },
                    Relu,
                    MaxPool,
                    Conv { channels: 8 },
                    Relu,
                    MaxPool,
                    Flatten,
                    Dense { outputs: 3 },
                ],
            ),
        ),
        (
            "pool first, then conv pool relu",
            net(
                image(12, 12, 2),
                &[
                    MaxPool,
                    Conv { channels: 4 },
                    Conv { channels: 4 },
                    MaxPool,
                    Relu,
                    Flatten,
                    Dense { outputs: 3 },
                ],
            ),
        ),
        (
            "wide",
            net(
                image(6, 6, 3),
                &[
                    Conv { channels: 48 },
                    Relu,
                    Conv { channels: 33 },
                    Relu,
                    MaxPool,
                    Flatten,
                    Dense { outputs: 3 },
                ],
            ),
        ),
    ]
}

#[test]
fn gradient_equals_finite_differences() {
    for (name, network) in networks() {
        let n = 4;
        let x: Vec<f64> = normals(n * network.input().len(), 1);
        // Non-zero biases, so that nothing sits on a corner of the ReLU.
        let w: Vec<f64> = normals::<f64>(network.len(), 2).iter().map(|v| 0.3 * v).collect();
        let values: Vec<f64> = normals(n * 3, 3);
        let cases = [
            (Loss::SoftmaxCrossEntropy, Targets::Classes(&[0, 2, 1, 2]), Reduction::Sum),
            (Loss::SquaredError, Targets::Values(&values), Reduction::Mean),
        ];
        for (loss, targets, reduction) in cases {
            let batch = Minibatch::new(&network, &x, targets, loss, reduction).unwrap();
            check(name, &network, &w, &batch);
        }
    }
    let network = Network::new(Shape::Vector(4), vec![Layer::Dense { outputs: 1 }]).unwrap();
    let (x, w): (Vec<f64>, Vec<f64>) = (normals(12, 4), normals(5, 5));
    let targets = Targets::Classes(&[1, 0, 1]);
    let batch =
        Minibatch::new(&network, &x, targets, Loss::BinaryCrossEntropy, Reduction::Mean).unwrap();
    check("binary", &network, &w, &batch);
}

fn check(name: &str, network: &Network, w: &[f64], batch: &Minibatch<'_, f64>) {
    let mut eval = Evaluator::new(network);
    let mut g = vec![f64::NAN; network.len()];
    let value = eval.gradient(w, batch, &mut g);
    assert!((value - eval.loss(w, batch)).abs() <= 1e-12 * value.abs(), "{name}: value");
    let mut moved = w.to_vec();
    // Central differences of step h err by h^2 f''' / 6 and by 1e-16 f / h: near 1e-9 here. Every weight up to 200, then a sample.
    let h = 1e-5;
    for i in (0..w.len()).step_by(1 + w.len() / 200) {
        moved[i] = w[i] + h;
        let up = eval.loss(&moved, batch);
        moved[i] = w[i] - h;
        let down = eval.loss(&moved, batch);
        moved[i] = w[i];
        let slope = (up - down) / (2.0 * h);
        assert!(
            (slope - g[i]).abs() < 1e-6 * (1.0 + slope.abs()),
            "{name}: weight {i}: {slope} but {}",
            g[i]
        );
    }
}

/// Derivatives are written by the first sample and added by the others: an empty batch before it or beside it changes no bit, and of no
/// sample at all they are zero, whatever was there before.
#[test]
fn an_empty_batch_adds_nothing() {
    for (name, network) in networks().into_iter().chain([("paper", Network::paper_cnn())]) {
        let x: Vec<f32> = normals(2 * network.input().len(), 5);
        let w: Vec<f32> = normals::<f32>(network.len(), 6).iter().map(|v| 0.1 * v).collect();
        let one = network.outputs() == 1;
        let loss = if one { Loss::BinaryCrossEntropy } else { Loss::SoftmaxCrossEntropy };
        for reduction in [Reduction::Sum, Reduction::Mean] {
            let make = |x, classes| {
                Minibatch::new(&network, x, Targets::Classes(classes), loss, reduction).unwrap()
            };
            let (batch, none) = (make(&x[..], &[1, 0]), make(&[], &[]));
            let mut eval = Evaluator::<f32>::new(&network);
            let (mut a, mut b) = (vec![f32::NAN; w.len()], vec![f32::NAN; w.len()]);
            let alone = eval.gradient(&w, &batch, &mut a);
            let beside = eval.gradient_over(&w, &[(none, 1.0), (batch, 1.0), (none, 1.0)], &mut b);
            let bits = |g: &[f32]| g.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert!(alone == beside && bits(&a) == bits(&b), "{name}");
            assert_eq!(eval.gradient(&w, &none, &mut a), 0.0);
            assert!(a.iter().all(|g| *g == 0.0), "{name}");
        }
    }
}

#[test]
fn instruction_sets_agree() {
    for (name, network) in networks().into_iter().chain([("paper", Network::paper_cnn())]) {
        let n = 3;
        let x: Vec<f32> = normals(n * network.input().len(), 1);
        let w: Vec<f32> = normals::<f32>(network.len(), 2).iter().map(|v| 0.1 * v).collect();
        let classes = if network.outputs() == 1 { [0, 1, 1] } else { [0, 1, 2] };
        let loss = if network.outputs() == 1 {
            Loss::BinaryCrossEntropy
        } else {
            Loss::SoftmaxCrossEntropy
        };
        let batch =
            Minibatch::new(&network, &x, Targets::Classes(&classes), loss, Reduction::Sum).unwrap();
        let x64: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
        let w64: Vec<f64> = w.iter().map(|v| f64::from(*v)).collect();
        let batch64 =
            Minibatch::new(&network, &x64, Targets::Classes(&classes), loss, Reduction::Sum)
                .unwrap();
        let mut exact = vec![0.0; w.len()];
        let value = Evaluator::new(&network).gradient(&w64, &batch64, &mut exact);
        let scale = exact.iter().map(|v| v * v).sum::<f64>().sqrt();
        for level in Level::available() {
            let mut eval = Evaluator::at_level(&network, level);
            let mut g = vec![f32::NAN; w.len()];
            let v = f64::from(eval.gradient(&w, &batch, &mut g));
            // Single precision sums of a few hundred terms: 300 * 6e-8.
            assert!(
                (v - value).abs() < 2e-5 * value.abs(),
                "{name} {level:?}: loss {v} but {value}"
            );
            let distance =
                g.iter().zip(&exact).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum::<f64>().sqrt();
            assert!(
                distance < 2e-5 * scale,
                "{name} {level:?}: gradient off by {} of its length",
                distance / scale
            );
            let mut z = vec![0.0; n * network.outputs()];
            eval.predict(&w, &x, &mut z);
            assert!(z.iter().all(|v| v.is_finite()));
        }
    }
}

#[test]
fn unsuitable_batches_are_refused() {
    let network = Network::mlp(2, &[], 3).unwrap();
    let batch = |x: &[f64], y: &[u32], loss| {
        Minibatch::new(&network, x, Targets::Classes(y), loss, Reduction::Sum)
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    let e = batch(&[0.0; 4], &[0, 3], Loss::SoftmaxCrossEntropy).unwrap_err();
    assert_eq!(e, "sample 1 has class 3, but the network knows classes 0 to 2");
    assert!(
        batch(&[0.0; 3], &[0, 1], Loss::SoftmaxCrossEntropy)
            .unwrap_err()
            .contains("3 where 4 is needed")
    );
    assert!(
        batch(&[0.0; 4], &[0, 1], Loss::SquaredError).unwrap_err().contains("numbers, not classes")
    );
    assert!(batch(&[0.0; 4], &[0, 1], Loss::BinaryCrossEntropy).is_err());
}

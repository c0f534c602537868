//! The window over time steps: its gradient by finite differences, its updates against sums made by hand.
#![allow(clippy::unwrap_used)] // a test may panic

use optfilter::optim::{Adam, AnyOptimizer, Objective, Optimizer, descend};
use optfilter::rng::Stream;
use optfilter_nn::filter::{
    ImplicitMap, Memory, Past, Resumable, Variational, WeightFilter, Window, WindowObjective,
};
use optfilter_nn::{
    Evaluator, Loss, Minibatch, Network, NetworkObjective, Reduction, Shape, Targets,
};

/// Batches of a small network with three classes, of 5, 2, 0 and 4 samples.
struct World {
    network: Network,
    start: Vec<f64>,
    batches: Vec<(Vec<f64>, Vec<u32>)>,
}

fn world() -> World {
    let network = Network::from_description("mlp:6,5", Shape::Vector(3), 3).unwrap();
    let mut stream = Stream::new(4, 0, "weights");
    let mut start: Vec<f64> = network.init(&mut stream);
    // Biases are drawn at zero, where a unit behind units that are off sits on its kink and has no slope.
    start.iter_mut().for_each(|w| *w += 0.1 * stream.normal());
    let mut stream = Stream::new(5, 0, "samples");
    let batches = [5usize, 2, 0, 4].iter().map(|n| {
        let x = (0..3 * n).map(|_| stream.normal()).collect();
        (x, (0..*n).map(|_| (3.0 * stream.uniform()) as u32).collect())
    });
    World { batches: batches.collect(), network, start }
}

impl World {
    fn batch(&self, i: usize, reduction: Reduction) -> Minibatch<'_, f64> {
        let (x, y) = &self.batches[i];
        let loss = Loss::SoftmaxCrossEntropy;
        Minibatch::new(&self.network, x, Targets::Classes(y), loss, reduction).unwrap()
    }
    /// The loss of one batch by itself.
    fn gradient(&self, i: usize, w: &[f64]) -> (f64, Vec<f64>) {
        let mut g = vec![0.0; w.len()];
        let mut evaluator = Evaluator::new(&self.network);
        (evaluator.gradient(w, &self.batch(i, Reduction::Sum), &mut g), g)
    }
}

#[test]
fn the_gradient_is_the_slope_of_the_value() {
    let world = world();
    for reduction in [Reduction::Sum, Reduction::Mean] {
        let mut past = Past::new(Window::new(3, 0.7).unwrap());
        for i in 0..4 {
            past.advance();
            past.put(&world.batch(i, reduction));
        }
        let newest = world.batch(3, reduction);
        let parts = past.parts(&newest);
        let mut evaluator = Evaluator::new(&world.network);
        let mut objective = WindowObjective::new(&mut evaluator, &parts);
        let mut g = vec![0.0; world.start.len()];
        objective.gradient(&world.start, &mut g);
        for i in 0..g.len() {
            let mut at = |d: f64| {
                let mut w = world.start.clone();
                w[i] += d;
                objective.value(&w)
            };
            // Central differences with this step are wrong by the third derivative times 1e-10 and by rounding, 1e-16 / 1e-5.
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((slope - g[i]).abs() < 1e-8, "weight {i}: {slope} but {}", g[i]);
        }
    }
}

#[test]
fn factors_and_means_are_those_made_by_hand() {
    let world = world();
    let mut past = Past::new(Window::new(2, 0.5).unwrap());
    for i in 0..4 {
        past.advance();
        past.put(&world.batch(i, Reduction::Mean));
    }
    // Batch 3 now, batch 2 has no labels but takes its place, batch 1 is two time steps old, batch 0 is forgotten.
    let (l3, g3) = world.gradient(3, &world.start);
    let (l1, g1) = world.gradient(1, &world.start);
    let n = 4.0 + 0.25 * 2.0;
    let newest = world.batch(3, Reduction::Mean);
    let mut g = vec![0.0; world.start.len()];
    let mut evaluator = Evaluator::new(&world.network);
    let loss = evaluator.gradient_over(&world.start, &past.parts(&newest), &mut g);
    assert!((loss - (l3 + 0.25 * l1) / n).abs() < 1e-14);
    for i in 0..g.len() {
        assert!((g[i] - (g3[i] + 0.25 * g1[i]) / n).abs() < 1e-14);
    }
}

#[test]
fn no_window_is_the_filter_of_old_to_the_bit() {
    let world = world();
    let adam = Adam::new(0.03).unwrap();
    let mut evaluator = Evaluator::new(&world.network);
    let mut filter = ImplicitMap::new(adam, 7, world.start.clone())
        .with_window(Window::new(0, 0.3).unwrap())
        .with_memory(Memory::Carry);
    let mut by_hand = world.start.clone();
    let mut state = adam.init(&by_hand);
    for i in [0, 1, 3] {
        let batch = world.batch(i, Reduction::Sum);
        filter.predict();
        filter.update(&mut evaluator, &batch);
        let mut objective = NetworkObjective::new(&mut evaluator, batch);
        descend(&adam, &mut objective, &mut by_hand, &mut state, 7);
    }
    assert_eq!(filter.weights(), by_hand);
    let mut alone = ImplicitMap::new(adam, 7, world.start.clone()).with_memory(Memory::Carry);
    for i in [0, 1, 3] {
        alone.predict();
        alone.update(&mut evaluator, &world.batch(i, Reduction::Sum));
    }
    assert_eq!(alone.weights(), by_hand);
}

/// With no discount a window is one large batch, for the implicit and for the variational filter.
#[test]
fn an_undiscounted_window_is_one_batch() {
    let world = world();
    let adam = Adam::new(0.03).unwrap();
    let mut evaluator = Evaluator::new(&world.network);
    let wide = Window::new(9, 1.0).unwrap();
    let (mut x, mut y) = (Vec::new(), Vec::new());
    // Newest first, as the window sums.
    for i in [1, 0] {
        x.extend_from_slice(&world.batches[i].0);
        y.extend_from_slice(&world.batches[i].1);
    }
    let loss = Loss::SoftmaxCrossEntropy;
    let both =
        Minibatch::new(&world.network, &x, Targets::Classes(&y), loss, Reduction::Sum).unwrap();
    let go = |filter: &mut dyn WeightFilter<f64>, second: &Minibatch<'_, f64>| {
        let mut evaluator = Evaluator::new(&world.network);
        filter.predict();
        filter.update(&mut evaluator, &world.batch(0, Reduction::Sum));
        filter.predict();
        filter.update(&mut evaluator, second);
        filter.weights().to_vec()
    };
    let imap = |window| ImplicitMap::new(adam, 5, world.start.clone()).with_window(window);
    let a = go(&mut imap(wide), &world.batch(1, Reduction::Sum));
    assert_eq!(a, go(&mut imap(Window::default()), &both));
    let vkf =
        |window| Variational::new(adam, 5, 0.1, world.start.clone()).unwrap().with_window(window);
    let a = go(&mut vkf(wide), &world.batch(1, Reduction::Sum));
    assert_eq!(a, go(&mut vkf(Window::default()), &both));
    assert_ne!(a, go(&mut vkf(Window::default()), &world.batch(1, Reduction::Sum)));
    // A second batch of the same time step joins the first.
    let mut twice = imap(wide);
    twice.predict();
    twice.update(&mut evaluator, &world.batch(0, Reduction::Sum));
    let mut past = Past::new(wide);
    past.put(&world.batch(0, Reduction::Sum));
    past.put(&world.batch(1, Reduction::Sum));
    let newest = world.batch(1, Reduction::Sum);
    assert_eq!(past.parts(&newest).len(), 1);
    assert_eq!(evaluator.count(&past.parts(&newest)[0].0), 7);
}

#[test]
fn what_was_put_aside_goes_on_to_the_bit() {
    let world = world();
    let build = || -> Vec<Box<dyn Resumable<f64>>> {
        let window = Window::new(2, 0.8).unwrap();
        let rule = |name| AnyOptimizer::from_name(name, 0.02, None).unwrap();
        let start = || world.start.clone();
        vec![
            Box::new(
                ImplicitMap::new(rule("adam"), 3, start())
                    .with_window(window)
                    .with_memory(Memory::Carry),
            ),
            Box::new(
                Variational::new(rule("momentum"), 3, 0.1, start())
                    .unwrap()
                    .with_window(window)
                    .with_memory(Memory::Carry),
            ),
            Box::new(optfilter_nn::filter::Particle::new(20, 0.01, start(), 3).unwrap()),
        ]
    };
    let mut evaluator = Evaluator::new(&world.network);
    for (mut whole, mut second) in build().into_iter().zip(build()) {
        for i in 0..4 {
            whole.predict();
            whole.update(&mut evaluator, &world.batch(i, Reduction::Sum));
            if i == 1 {
                second.load(&whole.save().unwrap()).unwrap();
            }
            if i > 1 {
                second.predict();
                second.update(&mut evaluator, &world.batch(i, Reduction::Sum));
            }
        }
        assert_eq!(whole.weights(), second.weights());
        let before = second.weights().to_vec();
        let mut damaged = whole.save().unwrap();
        damaged[30] ^= 1;
        assert!(second.load(&damaged).is_err());
        assert_eq!(second.weights(), before);
    }
}

#[test]
fn a_discount_is_above_zero_and_at_most_one() {
    for wrong in [0.0, -1.0, 1.1, f64::NAN] {
        assert!(Window::new(3, wrong).unwrap_err().to_string().contains("discount"));
    }
}

/// One row of the Jacobian of a linear network is the sample itself; of any network, the gradient of that output.
#[test]
fn a_jacobian_is_made_of_gradients() {
    let world = world();
    let mut evaluator = Evaluator::new(&world.network);
    let x = &world.batches[0].0[..3];
    let d = world.start.len();
    let (mut z, mut h) = (vec![0.0; 3], vec![0.0; 3 * d]);
    evaluator.jacobian(&world.start, x, &mut z, &mut h);
    for i in 0..d {
        let mut at = |delta: f64| {
            let mut w = world.start.clone();
            w[i] += delta;
            let mut z = vec![0.0; 3];
            evaluator.predict(&w, x, &mut z);
            z
        };
        let (up, down) = (at(1e-5), at(-1e-5));
        for o in 0..3 {
            let slope = (up[o] - down[o]) / 2e-5;
            assert!((slope - h[o * d + i]).abs() < 1e-8);
        }
    }
}

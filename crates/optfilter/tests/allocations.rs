//! A step of a filter whose sizes are known at compile time allocates nothing.
//!
//! The global allocator of this test binary counts the allocations of each thread. The count over 30 steps
//! of every such filter, with whole, partly missing and missing measurements, must be exactly zero, and so it must be of filters
//! chosen by name, whatever their sizes. That the
//! counter counts is shown first, on a vector and on the same filter with sizes known only at run time.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use nalgebra::{Const, DMatrix, DVector, SMatrix, matrix, vector};
use optfilter::Shapes;
use optfilter::filter::{
    Belief, ErrorBars, ExtendedKalmanFilter, Filter, GaussianBelief, ImplicitMap,
    IteratedKalmanFilter, KalmanFilter, Memory, PointBelief, SigmaPoints, UnscentedKalmanFilter,
    VariationalKalmanFilter,
};
use optfilter::model::likelihood::{
    Bernoulli, Component, Gaussian, Huber, Independent, Link, Poisson, SquaredError, StudentT,
};
use optfilter::model::{
    Dynamics, GaussianNoise, Growth, Linear, Lorenz63, Lorenz96, RandomWalk, Step,
};
use optfilter::optim::{AnyOptimizer, Bounds, GradientDescent, Preconditioned};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Constant initialisation, no destructor: touching it from the allocator allocates nothing.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count_one() {
    // A thread that is being torn down has no counter any more, and runs no filter either.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every method hands its arguments unchanged to the system's allocator, which keeps the contract of
// `GlobalAlloc`; counting touches a thread-local integer and neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller's obligations are passed on as they are.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; `pointer` came from `System` through this allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(f: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    f();
    COUNT.with(Cell::get) - before
}

/// 30 steps with whole and missing measurements.
fn steps<F: Filter>(filter: &F, belief: &mut F::Belief, y: &[f64], gap: &[f64], gone: &[f64])
where
    F::Belief: optfilter::filter::Belief<F::State>,
    nalgebra::DefaultAllocator: Shapes<F::State, F::Output>,
{
    for k in 1..=30u64 {
        let step = Step::even(k, 0.01);
        filter.predict(belief, &[], &step).unwrap();
        let seen = match k % 5 {
            0 => gone,
            1 => gap,
            _ => y,
        };
        filter.update(belief, seen, &[], &step).unwrap();
    }
}

#[track_caller]
fn quiet<F: Filter>(filter: &F, mut belief: F::Belief, y: &[f64], what: &str)
where
    F::Belief: Belief<F::State>,
    nalgebra::DefaultAllocator: Shapes<F::State, F::Output>,
{
    let gone = vec![f64::NAN; y.len()];
    let mut gap = y.to_vec();
    gap[0] = f64::NAN;
    let count = allocations(|| steps(filter, &mut belief, y, &gap, &gone));
    assert_eq!(count, 0, "{what} allocates");
}

#[test]
fn fixed_size_steps_allocate_nothing() {
    // The counter counts.
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1.0f64; 10]))), 1);
    let eye = DMatrix::identity(2, 2);
    let model = Linear::new(eye.clone(), eye.clone()).unwrap();
    let kalman = KalmanFilter::new(model, GaussianNoise::new(eye.clone(), eye.clone()).unwrap());
    let mut belief = GaussianBelief::new(DVector::zeros(2), eye).unwrap();
    let y = [1.0, 2.0];
    assert!(allocations(|| steps(&kalman, &mut belief, &y, &y, &y)) > 100);

    // Gaussian filters.
    let unit2 = matrix![1.0, 0.0; 0.0, 1.0];
    let model = Linear::new(matrix![1.0, 0.1; 0.0, 1.0], matrix![1.0, 0.0; 0.3, 1.0]).unwrap();
    let noise = GaussianNoise::new(unit2 * 0.1, matrix![1.0, 0.2; 0.2, 1.0]).unwrap();
    let start = GaussianBelief::new(vector![0.0, 1.0], unit2).unwrap();
    quiet(&KalmanFilter::new(model.clone(), noise.clone()), start.clone(), &y, "Kalman");
    quiet(&ExtendedKalmanFilter::new(model.clone(), noise.clone()), start, &y, "extended, linear");

    let unit3 = SMatrix::<f64, 3, 3>::identity();
    let lorenz = Lorenz63::default().rk4();
    let noise3 = GaussianNoise::per_time(unit3 * 4.0, unit3).unwrap();
    let start3 = GaussianBelief::new(vector![1.0, 2.0, 20.0], unit3).unwrap();
    let y3 = [1.5, 2.0, 19.0];
    let extended = ExtendedKalmanFilter::new(lorenz, noise3.clone());
    quiet(&extended, start3.clone(), &y3, "extended, Lorenz");
    let iterated = IteratedKalmanFilter::new(lorenz, noise3.clone(), 4).unwrap();
    quiet(&iterated, start3.clone(), &y3, "iterated");
    for points in [SigmaPoints::merwe(0.5, 2.0, 0.0), SigmaPoints::julier(0.0)] {
        let unscented = UnscentedKalmanFilter::new(lorenz, noise3.clone(), points).unwrap();
        quiet(&unscented, start3.clone(), &y3, "unscented");
    }
    let start1 = GaussianBelief::new(vector![0.1], matrix![1.0]).unwrap();
    let noise1 = GaussianNoise::new(matrix![1.0], matrix![1.0]).unwrap();
    quiet(&ExtendedKalmanFilter::new(Growth, noise1), start1, &[3.0], "extended, growth");
    // More states than one chunk of directions.
    let wide = Lorenz96::new(Const::<10>, 8.0).rk4();
    let unit10 = SMatrix::<f64, 10, 10>::identity();
    let noise10 = GaussianNoise::new(unit10 * 0.1, unit10).unwrap();
    let start10 = GaussianBelief::new(nalgebra::SVector::repeat(1.0), unit10).unwrap();
    quiet(&ExtendedKalmanFilter::new(wide, noise10), start10, &[1.0; 10], "extended, Lorenz 96");
    let bearing = common::RangeBearing::constant_velocity(0.1);
    let noise42 = GaussianNoise::new(SMatrix::identity() * 0.1, unit2 * 0.1).unwrap();
    let start4 = GaussianBelief::new(vector![3.0, 2.0, 0.0, 0.0], SMatrix::identity()).unwrap();
    quiet(
        &ExtendedKalmanFilter::new(bearing.clone(), noise42),
        start4,
        &[3.5, 0.6],
        "extended, angles",
    );

    // Implicit filters with every optimizer, memory and bounds, and their error bars.
    for name in AnyOptimizer::NAMES {
        let optimizer = AnyOptimizer::from_name(name, 0.01, None).unwrap();
        for memory in [Memory::Restart, Memory::Carry] {
            let filter =
                ImplicitMap::new(lorenz, SquaredError, optimizer, 5).unwrap().with_memory(memory);
            let start = PointBelief::new(start3.mean).unwrap();
            quiet(&filter, start.clone(), &y3, name);
            let bounds = Bounds::new(vec![-50.0; 3], vec![50.0; 3]).unwrap();
            quiet(&filter.with_bounds(bounds).unwrap(), start, &y3, name);
        }
        let full = Gaussian::new(matrix![1.0, 0.2, 0.0; 0.2, 1.0, 0.1; 0.0, 0.1, 1.0]).unwrap();
        let filter = ImplicitMap::new(lorenz, full.clone(), optimizer, 5).unwrap();
        quiet(&filter, PointBelief::new(start3.mean).unwrap(), &y3, name);
        let bars = ErrorBars::new(filter, noise3.clone()).unwrap();
        quiet(&bars, start3.clone(), &y3, &format!("error bars of {name}"));
        let filter = VariationalKalmanFilter::new(lorenz, full, unit3, optimizer, 5).unwrap();
        quiet(&filter, PointBelief::new(start3.mean).unwrap(), &y3, &format!("variational {name}"));
        // Automatic derivatives and an angle.
        let filter = ImplicitMap::new(bearing.clone(), SquaredError, optimizer, 5).unwrap();
        let start = PointBelief::new(vector![3.0, 2.0, 0.0, 0.0]).unwrap();
        quiet(&filter, start, &[3.5, 0.6], &format!("{name} with angles"));
    }
    let matrix = Preconditioned::new(unit3 * 0.1).unwrap();
    let filter = ImplicitMap::new(lorenz, SquaredError, matrix, 5).unwrap();
    quiet(&filter, PointBelief::new(start3.mean).unwrap(), &y3, "preconditioned");

    // Every likelihood.
    let walk = RandomWalk::new(Const::<2>);
    let step = GradientDescent::new(0.01).unwrap();
    let point = || PointBelief::new(vector![0.5, 0.5]).unwrap();
    let student = StudentT::new(3.0, 1.0).unwrap();
    let filter = ImplicitMap::new(walk, student, step, 3).unwrap();
    quiet(&filter, point(), &y, "Student-t");
    let huber = Huber::new(1.3, 1.0).unwrap();
    quiet(&ImplicitMap::new(walk, huber, step, 3).unwrap(), point(), &y, "Huber");
    for link in [Link::Identity, Link::Canonical] {
        let filter = ImplicitMap::new(walk, Poisson { link }, step, 3).unwrap();
        quiet(&filter, point(), &y, "Poisson");
        let filter = ImplicitMap::new(walk, Bernoulli { link }, step, 3).unwrap();
        quiet(&filter, point(), &[1.0, 0.0], "Bernoulli");
    }
    let mixed = Independent::new(vec![Component::normal(1.0).unwrap(), Component::Huber(huber)]);
    quiet(&ImplicitMap::new(walk, mixed, step, 3).unwrap(), point(), &y, "mixed");
}

/// Behind the door, where the model has no type any more and the filter is chosen by name: of sizes that are compiled in, and of one that is
/// known at run time only.
#[test]
fn steps_of_filters_chosen_by_name_allocate_nothing() {
    use optfilter_run::{Estimate, FilterSpec, Problem, build};
    let small = Problem::new(Lorenz63::default().rk4());
    let large = Problem::new(Lorenz96::new(nalgebra::Dyn(7), 8.0).rk4());
    for problem in [small, large] {
        let problem = problem.noise(0.1, 1.0).start(1.0, 1.0).dt(0.01);
        let n = nalgebra::Dim::value(&problem.model.state_dim());
        let y: Vec<f64> = (0..n).map(|i| 1.0 + i as f64 / 10.0).collect();
        let (mut gap, gone) = (y.clone(), vec![f64::NAN; n]);
        gap[0] = f64::NAN;
        for method in ["ekf", "iekf", "ukf", "imap", "vkf"] {
            for error_bars in [true, false] {
                let mut spec = FilterSpec::of(method).unwrap();
                spec.error_bars = (method == "imap").then_some(error_bars);
                let runner = build(&spec, &problem).unwrap();
                let mut live = runner.start(runner.default_start()).unwrap();
                let mut out = Estimate::default();
                let mut run = |from: u64| {
                    for k in from..from + 30 {
                        let y = [&gone, &gap, &y, &y, &y][(k % 5) as usize];
                        live.step(k > 1, &Step::even(k, 0.01), &[], y, &mut out).unwrap();
                    }
                };
                // The first rows make room for what is written, and fill the pool.
                run(1);
                assert_eq!(allocations(|| run(31)), 0, "{method} of {n} states allocates");
            }
        }
    }
}

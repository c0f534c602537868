//! The windowed filter against the windowless one, and against batch least squares.

use nalgebra::{Const, DMatrix, DVector, Dyn, OVector, matrix, vector};
use optfilter::Series;
use optfilter::Shapes;
use optfilter::drive::Run;
use optfilter::filter::{
    Filter, FilterError, ImplicitMap, Memory, PointBelief, ProcessFactor, Window, WindowBelief,
};
use optfilter::model::likelihood::{Gaussian, Likelihood, SquaredError, StudentT};
use optfilter::model::{Linear, Lorenz96, Model, Step};
use optfilter::optim::{AnyOptimizer, Bounds, ConjugateGradients, GradientDescent};
use optfilter::rng::Stream;
use std::sync::Arc;

/// A series of `rows` x `m` numbers with some gaps.
fn numbers(rows: usize, m: usize, seed: u64) -> Vec<f64> {
    let mut stream = Stream::new(seed, 0, "window test");
    let mut y: Vec<f64> = (0..rows * m).map(|_| 2.0 * stream.normal()).collect();
    for k in (5..rows).step_by(7) {
        y[k * m..][..m].fill(f64::NAN);
    }
    for k in (8..rows).step_by(5) {
        y[k * m] = f64::NAN;
    }
    y
}

/// Without past rows it is the paper's filter, to the bit: every rule, restarted and carried, with gaps and bounds.
#[test]
fn no_past_is_the_windowless_filter() {
    fn check<M, L>(model: M, likelihood: L, n: usize, m: usize)
    where
        M: Model<State = Dyn> + Clone,
        L: Likelihood + Clone,
        nalgebra::DefaultAllocator: Shapes<M::State, M::Output>,
    {
        let y = numbers(40, m, 3);
        let start = OVector::<f64, Dyn>::from_fn(n, |i, _| 0.3 + i as f64);
        for name in AnyOptimizer::NAMES {
            for (memory, bounded, first) in [
                (Memory::Restart, false, false),
                (Memory::Carry, false, true),
                (Memory::Restart, true, true),
            ] {
                let rule = AnyOptimizer::from_name(name, 0.03, None).unwrap();
                let mut plain = ImplicitMap::new(model.clone(), likelihood.clone(), rule, 4)
                    .unwrap()
                    .with_memory(memory);
                let mut window = Window::new(model.clone(), likelihood.clone(), rule, 4, 0)
                    .unwrap()
                    .with_memory(memory)
                    .unwrap();
                if bounded {
                    let bounds = Bounds::new(vec![-1.0; n], vec![1.5; n]).unwrap();
                    plain = plain.with_bounds(bounds.clone()).unwrap();
                    window = window.with_bounds(bounds).unwrap();
                }
                let mut series = Series::new(&y, m).unwrap().with_dt(0.02).unwrap();
                if first {
                    series = series.predict_first();
                }
                let mut belief = PointBelief::new(start.clone()).unwrap();
                let expected = plain.run(&mut belief, &series).unwrap();
                let mut belief = WindowBelief::new(start.clone()).unwrap();
                let found = window.run(&mut belief, &series).unwrap();
                let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&expected.means), bits(&found.means), "{name}");
                assert_eq!(bits(&expected.innovations), bits(&found.innovations), "{name}");
            }
        }
    }
    check(Lorenz96::new(Dyn(6), 8.0).rk4(), SquaredError, 6, 6);
    check(Lorenz96::new(Dyn(5), 8.0).euler(), StudentT::new(4.0, 0.7).unwrap(), 5, 5);
    let f = DMatrix::from_row_slice(2, 2, &[1.0, 0.1, -0.1, 0.95]);
    let h = DMatrix::from_row_slice(1, 2, &[1.0, 0.5]);
    check(Linear::new(f, h).unwrap(), Gaussian::new(DMatrix::identity(1, 1) * 0.3).unwrap(), 2, 1);
}

/// x_t = F x_{t-1}, two measurements of three states.
fn linear() -> Linear<Const<3>, Const<2>> {
    let f = matrix![0.9, 0.2, 0.0; -0.2, 0.95, 0.1; 0.05, 0.0, 1.0];
    Linear::new(f, matrix![1.0, 0.0, 0.5; 0.0, 1.0, -1.0]).unwrap()
}

/// The state at the newest row that fits the rows `from ..= to` best, by a QR-free oracle: the stacked normal
/// equations, solved by nalgebra.
fn least_squares(y: &[f64], r: &DMatrix<f64>, from: usize, to: usize, g: f64) -> DVector<f64> {
    let model = linear();
    let f = DMatrix::from_fn(3, 3, |i, j| model.f()[(i, j)]);
    let h = DMatrix::from_fn(2, 3, |i, j| model.h()[(i, j)]);
    let (mut power, mut normal) = (DMatrix::identity(3, 3), DMatrix::zeros(3, 3));
    let mut right = DVector::zeros(3);
    for k in from..=to {
        if k > from {
            power = &f * power;
        }
        let seen: Vec<usize> = (0..2).filter(|i| !y[2 * k + i].is_nan()).collect();
        if seen.is_empty() {
            continue;
        }
        let h = h.select_rows(&seen) * &power;
        let weight = r.select_rows(&seen).select_columns(&seen).try_inverse().unwrap()
            * g.powi((to - k) as i32);
        let y = DVector::from_iterator(seen.len(), seen.iter().map(|i| y[2 * k + i]));
        normal += h.transpose() * &weight * &h;
        right += h.transpose() * weight * y;
    }
    power * normal.lu().solve(&right).unwrap()
}

/// With enough iterations any window is batch least squares over its rows, gaps and all; a window over
/// everything is recursive least squares.
#[test]
fn converged_windows_are_least_squares() {
    let r = matrix![0.5, 0.1; 0.1, 0.8];
    let dense = DMatrix::from_fn(2, 2, |i, j| r[(i, j)]);
    let y = numbers(60, 2, 9);
    let series = Series::new(&y, 2).unwrap();
    for (length, discount, probes) in [
        (4, 1.0, 0),
        (12, 1.0, 0),
        (12, 0.8, 0),
        (1000, 1.0, 0),
        (1000, 0.9, 0),
        (12, 0.8, 1),
        (1000, 1.0, 3),
    ] {
        let cg = ConjugateGradients::default().with_probes(probes);
        let filter = Window::new(linear(), Gaussian::new(r).unwrap(), cg, 12, length)
            .unwrap()
            .with_discount(discount)
            .unwrap();
        let means = filter.run(&mut WindowBelief::new(vector![0.0, 0.0, 0.0]).unwrap(), &series);
        let means = means.unwrap().means;
        for k in 6..60 {
            let from = k - k.min(length);
            let nothing = y[2 * k..][..2].iter().all(|v| v.is_nan());
            let (from, to) = if nothing { (from.max(1) - 1, k - 1) } else { (from, k) };
            let mut expected = least_squares(&y, &dense, from, to, discount);
            if nothing {
                let f = linear();
                expected = DMatrix::from_fn(3, 3, |i, j| f.f()[(i, j)]) * expected;
            }
            for i in 0..3 {
                let difference = (means[3 * k + i] - expected[i]).abs();
                let scale = 1.0 + expected.amax();
                assert!(difference < 1e-10 * scale, "L={length} g={discount} k={k}: {difference}");
            }
        }
    }
}

/// A weak constraint with all rows in the window is the Kalman smoother's end: the filter itself.
#[test]
fn a_weak_window_over_everything_is_the_kalman_filter() {
    use optfilter::filter::{GaussianBelief, KalmanFilter, WindowBars, WindowBarsBelief};
    use optfilter::model::GaussianNoise;
    let (q, r) =
        (matrix![0.2, 0.05, 0.0; 0.05, 0.1, 0.0; 0.0, 0.0, 0.3], matrix![0.5, 0.1; 0.1, 0.8]);
    let y = numbers(30, 2, 4);
    let series = Series::new(&y, 2).unwrap();
    let noise = GaussianNoise::new(q, r).unwrap();
    let kalman = KalmanFilter::new(linear(), noise.clone());
    let p0 = nalgebra::Matrix3::from_diagonal(&vector![2.0, 0.0, 0.5]);
    let mean = vector![0.3, -0.2, 1.0];
    let factor = DMatrix::from_fn(3, 3, |i, j| q.cholesky().unwrap().l()[(i, j)]);
    let factor = Arc::new(ProcessFactor::Dense(factor));
    let initial = ProcessFactor::Diagonal(vec![2f64.sqrt(), 0.0, 0.5f64.sqrt()]);
    let cg = ConjugateGradients::default();
    let filter = Window::new(linear(), Gaussian::new(r).unwrap(), cg, 200, 1000)
        .unwrap()
        .weak(move |_: &Step| factor.clone(), initial)
        .unwrap();
    let bars = WindowBars::new(filter.clone(), noise).unwrap();
    for series in [series, series.predict_first()] {
        let mut belief = GaussianBelief::new(mean, p0).unwrap();
        let trace = kalman.run(&mut belief, &series).unwrap();
        let spread = bars.run(&mut WindowBarsBelief::new(mean, p0).unwrap(), &series).unwrap();
        for k in 0..series.len() {
            let (found, expected) = (spread.cov(k).unwrap(), trace.cov(k).unwrap());
            for (a, b) in found.iter().zip(expected) {
                assert!((a - b).abs() < 1e-10, "row {k}: {found:?} {expected:?}");
            }
        }
        let expected = trace.means;
        let mut belief = WindowBelief::new(mean).unwrap();
        let found = filter.run(&mut belief, &series).unwrap().means;
        for (k, (a, b)) in found.iter().zip(&expected).enumerate() {
            assert!((a - b).abs() < 1e-10 * (1.0 + b.abs()), "row {}: {a} {b}", k / 3);
        }
        assert_eq!(filter.path(&belief).len(), 30 * 3);
    }
}

/// The error covariance of an estimator that is linear in the data, by running it on every noise alone.
fn exact_covs<F>(
    filter: &F,
    mut begin: impl FnMut() -> F::Belief,
    y: &[f64],
    predict_first: bool,
    (p0, q, r): (&DMatrix<f64>, &DMatrix<f64>, &DMatrix<f64>),
) -> Vec<DMatrix<f64>>
where
    F: Filter<State = Const<3>, Output = Const<2>>,
    F::Belief: optfilter::filter::Belief<Const<3>>,
{
    let model = linear();
    let rows = y.len() / 2;
    let root = |a: &DMatrix<f64>| a.clone().cholesky().unwrap().l();
    let (p0, q, r) = (root(p0), root(q), root(r));
    let mut covs = vec![DMatrix::zeros(3, 3); rows];
    // Sources: the start, the process noise of each row, the measurement noise of each row.
    for source in 0..3 + rows * 5 {
        let mut truth = DVector::zeros(3);
        if source < 3 {
            truth.copy_from(&p0.column(source));
        }
        let mut data = Vec::new();
        let mut truths = Vec::new();
        for k in 0..rows {
            if k > 0 || predict_first {
                truth = DMatrix::from_fn(3, 3, |i, j| model.f()[(i, j)]) * truth;
                let here = (source as i64 - 3) - 5 * k as i64;
                if (0..3).contains(&here) {
                    truth += q.column(here as usize);
                }
            }
            let mut seen = DMatrix::from_fn(2, 3, |i, j| model.h()[(i, j)]) * &truth;
            let here = (source as i64 - 3) - 5 * k as i64 - 3;
            if (0..2).contains(&here) {
                seen += r.column(here as usize);
            }
            data.extend((0..2).map(|i| if y[2 * k + i].is_nan() { f64::NAN } else { seen[i] }));
            truths.push(truth.clone());
        }
        let mut series = Series::new(&data, 2).unwrap();
        if predict_first {
            series = series.predict_first();
        }
        let found = filter.run(&mut begin(), &series).unwrap().means;
        for k in 0..rows {
            let error = DVector::from_column_slice(&found[3 * k..][..3]) - &truths[k];
            covs[k] += &error * error.transpose();
        }
    }
    covs
}

/// Error bars of a window equal the exact covariance of the estimator: gradient descent, momentum, a matrix, and
/// conjugate gradients run to their end, with gaps, discounts, both beginnings, and both constraints.
fn check_bars<R: optfilter::filter::Responsive>(
    (rule, weak): (R, bool),
    steps: u32,
    length: usize,
    discount: f64,
    first: bool,
) {
    use optfilter::filter::{WindowBars, WindowBarsBelief};
    use optfilter::model::GaussianNoise;
    let q = matrix![0.2, 0.05, 0.0; 0.05, 0.1, 0.0; 0.0, 0.0, 0.3];
    let r = matrix![0.5, 0.1; 0.1, 0.8];
    let p0 = nalgebra::Matrix3::from_diagonal(&vector![2.0, 1.0, 0.5]);
    let y = numbers(24, 2, 4);
    let likelihood = Gaussian::new(r).unwrap();
    let window = Window::new(linear(), likelihood, rule, steps, length).unwrap();
    let mut window = window.with_discount(discount).unwrap();
    let dense = |rows: usize, v: &[f64]| DMatrix::from_column_slice(rows, rows, v);
    if weak {
        // Not the noise that there is: the bars are of the estimator, whatever it believes.
        let factor = dense(3, (q * 1.5).cholesky().unwrap().l().as_slice());
        let factor = Arc::new(ProcessFactor::Dense(factor));
        let initial = ProcessFactor::Diagonal(vec![1.2, 1.0, 0.6]);
        window = window.weak(move |_: &Step| factor.clone(), initial).unwrap();
    }
    let noises = (&dense(3, p0.as_slice()), &dense(3, q.as_slice()), &dense(2, r.as_slice()));
    let zero = vector![0.0, 0.0, 0.0];
    let expected = exact_covs(&window, || WindowBelief::new(zero).unwrap(), &y, first, noises);
    let bars = WindowBars::new(window, GaussianNoise::new(q, r).unwrap()).unwrap();
    let mut series = Series::new(&y, 2).unwrap();
    if first {
        series = series.predict_first();
    }
    let found = bars.run(&mut WindowBarsBelief::new(zero, p0).unwrap(), &series).unwrap();
    for (k, expected) in expected.iter().enumerate() {
        // Until the state can be told, least squares without a prior is anything.
        if k < 6 && length > 0 && steps > 10 && !weak {
            continue;
        }
        let cov = dense(3, found.cov(k).unwrap());
        let difference = (&cov - expected).amax() / expected.amax();
        assert!(
            difference < 1e-10,
            "weak={weak} L={length} g={discount} {first} row {k}: {difference:e}\n{cov}{expected}"
        );
    }
}

#[test]
fn error_bars_of_linear_rules_are_exact() {
    use optfilter::optim::Preconditioned;
    for (length, discount, first) in
        [(0, 1.0, false), (3, 1.0, true), (6, 0.8, false), (40, 1.0, true)]
    {
        // Many increments that push the same way want smaller steps.
        for (weak, rate) in [(false, 1.0), (true, if length < 10 { 1.0 } else { 0.1 })] {
            let gd = GradientDescent::new(0.02 * rate).unwrap();
            check_bars((gd, weak), 5, length, discount, first);
            let momentum = AnyOptimizer::from_name("momentum", 0.01 * rate, Some(0.5)).unwrap();
            check_bars((momentum, weak), 4, length, discount, first);
        }
        let m = matrix![0.03, 0.01, 0.0; 0.01, 0.02, 0.0; 0.0, 0.0, 0.01];
        check_bars((Preconditioned::new(m).unwrap(), false), 3, length, discount, first);
    }
    for (length, discount, probes) in [(6, 1.0, 0), (8, 0.8, 0), (40, 1.0, 0), (8, 0.8, 2)] {
        let cg = ConjugateGradients::default().with_probes(probes);
        check_bars((cg, false), 12, length, discount, false);
    }
    for (length, discount, first) in [(5, 1.0, false), (4, 0.8, true)] {
        check_bars((ConjugateGradients::default(), true), 60, length, discount, first);
    }
}

/// A system that grows by half at every row: over eleven rows the slope of the loss is thousands of times that of one, and the rate too
/// large by far.
fn too_steep(length: usize) -> Window<Linear<Const<1>, Const<1>>, SquaredError, GradientDescent> {
    let model = Linear::new(matrix![1.5], matrix![1.0]).unwrap();
    Window::new(model, SquaredError, GradientDescent::new(0.1).unwrap(), 50, length).unwrap()
}

/// Rows until one fails, with its error; every failed row is tried twice, from what it left behind.
fn rows_until_lost(
    filter: &Window<Linear<Const<1>, Const<1>>, SquaredError, GradientDescent>,
) -> (usize, Option<FilterError>, usize) {
    let mut belief = WindowBelief::new(vector![1.0]).unwrap();
    let mut shortest = usize::MAX;
    for k in 1..=30u64 {
        let (step, y) = (Step::even(k, 1.0), [(0.7 * k as f64).sin()]);
        filter.predict(&mut belief, &[], &step).unwrap();
        let before = (belief.mean, belief.lagged().to_vec(), belief.rows());
        if let Err(error) = filter.update(&mut belief, &y, &[], &step) {
            assert_eq!((belief.mean, belief.lagged().to_vec(), belief.rows()), before);
            assert_eq!(filter.update(&mut belief, &y, &[], &step).unwrap_err(), error);
            return (k as usize, Some(error), shortest);
        }
        assert!(belief.mean[0].is_finite() && belief.lagged()[0].is_finite());
        if k > 12 {
            shortest = shortest.min(belief.rows());
        }
    }
    (30, None, shortest)
}

/// A window that diverges is an error that names the row and leaves the belief as it was; where it may be shortened, it goes on
/// with fewer rows.
#[test]
fn a_window_that_diverges_is_taken_back_or_shortened() {
    let (row, error, _) = rows_until_lost(&too_steep(10));
    let Some(FilterError::Diverged { index, last_good, .. }) = error else { panic!("{error:?}") };
    assert!(row > 2 && index == row as u64 && last_good[0].is_finite(), "{row} {index}");
    let (row, error, shortest) = rows_until_lost(&too_steep(10).shortening());
    assert_eq!((row, error), (30, None));
    assert!(shortest < 11, "{shortest}");
    // What does not diverge is not touched.
    let calm = |w: Window<_, _, GradientDescent>| {
        let y: Vec<f64> = (0..20).map(|k| (0.7 * k as f64).sin()).collect();
        let mut belief = WindowBelief::new(vector![1.0]).unwrap();
        w.run(&mut belief, &Series::new(&y, 1).unwrap()).unwrap().means
    };
    assert_eq!(calm(too_steep(1)), calm(too_steep(1).shortening()));
}

#[test]
fn a_discount_is_a_share() {
    for wrong in [-0.5, 0.0, 1.5, f64::NAN, f64::INFINITY] {
        let refused = too_steep(3).with_discount(wrong).map(|_| ());
        assert!(
            matches!(refused, Err(FilterError::Setting { argument: "discount", .. })),
            "{wrong}"
        );
    }
}

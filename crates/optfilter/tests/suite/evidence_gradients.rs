//! The likelihood that fits climb, against the filters themselves, against differences, and against a start that is merely very uncertain.

use nalgebra::{DMatrix, DVector, matrix, vector};
use optfilter::Series;
use optfilter::drive::Run;
use optfilter::filter::evidence::{Approximation, Family, Row, Setting, log_likelihood};
use optfilter::filter::{
    ExtendedKalmanFilter, GaussianBelief, IteratedKalmanFilter, SigmaPoints, UnscentedKalmanFilter,
};
use optfilter::model::{Dynamics, GaussianNoise, Growth, Observation, Step};
use optfilter::scalar::{Dual, Scalar};

/// The growth system, whose gain is a parameter.
struct Grown;

impl Family for Grown {
    fn dims(&self) -> (usize, usize) {
        (1, 1)
    }
    fn transition<S: Scalar>(&self, theta: &[S], x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        Growth.transition(x, u, step, out);
        out[0] *= theta[0];
    }
    fn observe<S: Scalar>(&self, _: &[S], x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        Growth.observe(x, u, step, out);
    }
}

const YS: [f64; 6] = [0.3, 1.9, f64::NAN, 4.2, 5.1, 3.0];

fn rows() -> impl Iterator<Item = Row<'static>> {
    let series = Series::new(&YS, 1).unwrap().with_dt(0.1).unwrap();
    (0..YS.len()).map(move |k| Row {
        y: std::slice::from_ref(&YS[k]),
        u: &[],
        step: series.step(k),
        predict: k > 0,
    })
}

/// ln p at (gain, Q, R, initial mean).
fn value<S: Scalar>(at: [S; 4], approximation: &Approximation) -> S {
    let one = |v| DMatrix::from_element(1, 1, v);
    let setting = Setting {
        theta: vec![at[0]],
        process_cov: one(at[1]),
        measurement_cov: one(at[2]),
        mean: DVector::from_element(1, at[3]),
        ..Setting::new(1, 1)
    };
    log_likelihood(&Grown, &setting, approximation, rows()).unwrap()
}

const AT: [f64; 4] = [1.0, 1.5, 0.7, 0.4];

#[test]
fn the_value_is_what_the_filter_sums() {
    let noise = GaussianNoise::new(matrix![AT[1]], matrix![AT[2]]).unwrap();
    let series = Series::new(&YS, 1).unwrap().with_dt(0.1).unwrap();
    let start = GaussianBelief::new(vector![AT[3]], matrix![1.0]).unwrap();
    let points = SigmaPoints::merwe(1.0, 2.0, 2.0);
    let sums = [
        ExtendedKalmanFilter::new(Growth, noise.clone()).run(&mut start.clone(), &series),
        IteratedKalmanFilter::new(Growth, noise.clone(), 4)
            .unwrap()
            .run(&mut start.clone(), &series),
        UnscentedKalmanFilter::new(Growth, noise, points).unwrap().run(&mut start.clone(), &series),
    ]
    .map(|trace| trace.unwrap().log_likelihood().unwrap());
    let ours = [
        Approximation::Linearized { iterations: 1 },
        Approximation::Linearized { iterations: 4 },
        Approximation::Unscented(points),
    ]
    .map(|approximation| value(AT, &approximation));
    assert!(sums[0] != sums[1] && sums[1] != sums[2]);
    for (ours, theirs) in ours.iter().zip(sums) {
        // The same operations in the same order, but for the sum.
        assert!((ours - theirs).abs() < 1e-13 * theirs.abs(), "{ours} {theirs}");
    }
}

#[test]
fn the_gradient_is_that_of_central_differences() {
    for approximation in [
        Approximation::Linearized { iterations: 1 },
        Approximation::Linearized { iterations: 3 },
        Approximation::Unscented(SigmaPoints::merwe(1.0, 2.0, 2.0)),
    ] {
        let exact =
            value(std::array::from_fn(|i| Dual::<f64, 4>::variable(AT[i], i)), &approximation);
        for i in 0..4 {
            let moved = |by: f64| {
                let mut at = AT;
                at[i] += by;
                value(at, &approximation)
            };
            let h = 1e-5;
            let near = 8.0 * (moved(h) - moved(-h)) - (moved(2.0 * h) - moved(-2.0 * h));
            let slope = near / (12.0 * h);
            // Differences carry h^4 of a function that bends on a scale of 1e-2, and rounding over h.
            let found = exact.eps[i];
            assert!((found - slope).abs() < 1e-6 * (1.0 + slope.abs()), "{i}: {found} {slope}");
        }
    }
}

/// A level and its slope in continuous time, seen through a matrix, damped by a parameter.
struct Trend;

impl Family for Trend {
    fn dims(&self) -> (usize, usize) {
        (2, 2)
    }
    fn transition<S: Scalar>(&self, _: &[S], _: &[S], _: &[f64], _: &Step, _: &mut [S]) {}
    fn observe<S: Scalar>(&self, _: &[S], x: &[S], _: &[f64], _: &Step, out: &mut [S]) {
        (out[0], out[1]) = (x[0], x[0] + x[1].scale(0.5));
    }
    fn is_exact(&self) -> bool {
        true
    }
    fn rate<S: Scalar>(&self, theta: &[S], x: &[S], _: &[f64], out: &mut [S]) {
        (out[0], out[1]) = (x[1], S::from_f64(0.2) - theta[0] * x[1]);
    }
}

fn trend<S: Scalar>(damping: S, variance: Option<f64>) -> S {
    let ys = [1.0, f64::NAN, f64::NAN, 2.2, 3.1, 3.4, 2.0, 2.9, f64::NAN, f64::NAN, 4.4, 4.9];
    let cov = DMatrix::from_diagonal_element(2, 2, variance.unwrap_or(f64::NAN));
    let setting = Setting {
        theta: vec![damping],
        cov: cov.map(S::from_f64),
        diffuse: vec![variance.is_none(); 2],
        process_cov: DMatrix::from_fn(2, 2, |i, j| S::from_f64([[0.3, 0.1], [0.1, 0.2]][i][j])),
        per_time: true,
        measurement_cov: DMatrix::from_fn(2, 2, |i, j| S::from_f64(if i == j { 0.5 } else { 0.0 })),
        ..Setting::new(2, 2)
    };
    let times = [0.0, 0.7, 1.0, 2.5, 2.6, 4.0];
    let rows = (0..6).map(|k| Row {
        y: &ys[2 * k..2 * k + 2],
        u: &[],
        step: Step::to_row(k as u64 + 1, times[k], times[k] - times[k.max(1) - 1], 0.0),
        predict: k > 0,
    });
    log_likelihood(&Trend, &setting, &Approximation::Linearized { iterations: 1 }, rows).unwrap()
}

#[test]
fn a_diffuse_start_is_the_limit_of_a_wide_one() {
    let exact = trend(0.3, None);
    for variance in [1e4, 1e6, 1e8] {
        // Two unknowns: the limit is approached as one over the variance.
        let wide = trend(0.3, Some(variance)) + variance.ln();
        assert!((wide - exact).abs() < 20.0 / variance, "{variance}: {wide} {exact}");
    }
    let slope = trend(Dual::<f64, 1>::variable(0.3, 0), None).eps[0];
    let difference = (trend(0.3 + 1e-5, None) - trend(0.3 - 1e-5, None)) / 2e-5;
    assert!((slope - difference).abs() < 1e-8, "{slope} {difference}");
    assert!(slope.abs() > 1e-3);
}

/// A damped curve pushed by an input, seen once or twice; its coefficients are asked for at every row, or once.
struct Curve {
    once: bool,
    outputs: usize,
}

impl Family for Curve {
    fn dims(&self) -> (usize, usize) {
        (3, self.outputs)
    }
    fn input_dim(&self) -> usize {
        1
    }
    fn transition<S: Scalar>(&self, p: &[S], x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        out[0] = x[0] + x[1].scale(step.dt) + S::from_f64(0.3);
        out[1] = x[1] + x[2].scale(step.dt);
        out[2] = p[0] * x[2] + S::from_f64(u[0]);
    }
    fn observe<S: Scalar>(&self, _: &[S], x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        out[0] = x[0] + S::from_f64(1.0 + u[0]);
        if let Some(second) = out.get_mut(1) {
            *second = x[0] - x[1].scale(0.5 * step.dt);
        }
    }
    fn is_invariant(&self) -> bool {
        self.once
    }
}

/// Covariances that repeat themselves are not computed again: values and derivatives are those of every row by itself, through
/// gaps, missing outputs, and steps that are longer, have rounding in them, or no length.
#[test]
fn covariances_at_rest_change_nothing() {
    type D = Dual<f64, 3>;
    let wave = |k: usize, phase: f64| (0.37 * k as f64 + phase).sin() + 0.2 * (k as f64);
    for (outputs, gaps) in [(1, false), (1, true), (2, false), (2, true)] {
        let mut ys: Vec<f64> =
            (0..900 * outputs).map(|i| wave(i / outputs, 2.0 * (i % outputs) as f64)).collect();
        let mut times: Vec<f64> = (0..900).map(|k| 0.1 * k as f64).collect();
        if gaps {
            ys[300 * outputs..305 * outputs].fill(f64::NAN);
            ys[450 * outputs] = f64::NAN;
            times[600..].iter_mut().for_each(|t| *t += 0.35);
            times[700] = times[699];
        }
        let us: Vec<f64> = (0..900).map(|k| 0.1 * wave(k, 1.0).cos()).collect();
        let sum = |once: bool| -> D {
            let value = [0.9, 0.02, 0.5];
            let [damping, q, r]: [D; 3] = core::array::from_fn(|i| D::variable(value[i], i));
            let setting = Setting {
                theta: vec![damping],
                process_cov: DMatrix::from_fn(3, 3, |i, j| if i == j { q } else { D::ZERO }),
                measurement_cov: DMatrix::from_fn(outputs, outputs, |i, j| {
                    if i == j { r } else { r.scale(0.2) }
                }),
                ..Setting::new(3, outputs)
            };
            let rows = (0..900).map(|k| Row {
                y: &ys[k * outputs..][..outputs],
                u: &us[k..=k],
                step: Step::to_row(k as u64 + 1, times[k], times[k] - times[k.max(1) - 1], 0.0),
                predict: k > 0,
            });
            let one = Approximation::Linearized { iterations: 1 };
            log_likelihood(&Curve { once, outputs }, &setting, &one, rows).unwrap()
        };
        let (each, once) = (sum(false), sum(true));
        // Rounding of times, and of sums in another order.
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9 * (1.0 + a.abs());
        assert!(near(each.re, once.re), "{outputs} {gaps}: {each:?} {once:?}");
        for (a, b) in each.eps.iter().zip(&once.eps) {
            assert!(near(*a, *b) && a.abs() > 1.0, "{outputs} {gaps}: {each:?} {once:?}");
        }
    }
}

//! What several test files share: reading golden numbers, random linear systems, comparisons.
#![allow(dead_code)] // every test file uses its own part of this
#![allow(clippy::unwrap_used, clippy::expect_used)]

use nalgebra::{Const, DMatrix, DVector, Dyn};
use optfilter::filter::{GaussianBelief, KalmanFilter};
use optfilter::model::{Dynamics, GaussianNoise, Linear, Observation, Step};
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;
use serde_json::Value;

/// A file of golden numbers.
pub fn golden(name: &str) -> Value {
    // The library's, from whichever package.
    let path = format!("{}/../optfilter/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// All numbers of a nested list in the order they are written; null is NaN.
pub fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        Value::Null => vec![f64::NAN],
        number => vec![number.as_f64().unwrap()],
    }
}

/// A list as a vector.
pub fn vector(value: &Value) -> DVector<f64> {
    DVector::from_vec(numbers(value))
}

/// A list of rows as a matrix.
pub fn matrix(value: &Value) -> DMatrix<f64> {
    let rows = value.as_array().unwrap().len();
    let all = numbers(value);
    DMatrix::from_row_slice(rows, all.len() / rows, &all)
}

/// Fails unless two numbers agree to `tolerance` relative to 1 + the expected one's size.
#[track_caller]
pub fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
    let allowed = tolerance * (1.0 + expected.abs());
    // A NaN on either side fails.
    assert!(
        (found - expected).abs() <= allowed,
        "{what}: {found:e} where {expected:e} is expected; {:e} apart, {allowed:e} allowed",
        (found - expected).abs()
    );
}

/// [`close`] for every entry.
#[track_caller]
pub fn all_close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: lengths");
    for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        close(found, expected, tolerance, &format!("{what}[{i}]"));
    }
}

/// [`all_close`], where NaN marks what is missing and must be missing on both sides.
#[track_caller]
pub fn all_close_or_missing(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    let missing = |values: &[f64]| values.iter().map(|v| v.is_nan()).collect::<Vec<bool>>();
    assert_eq!(missing(found), missing(expected), "{what}: missing");
    let kept = |values: &[f64]| values.iter().filter(|v| !v.is_nan()).copied().collect::<Vec<_>>();
    all_close(&kept(found), &kept(expected), tolerance, what);
}

/// Fails unless two matrices agree to `tolerance` relative to the expected one's largest entry.
#[track_caller]
pub fn matrices_close(found: &DMatrix<f64>, expected: &DMatrix<f64>, tolerance: f64, what: &str) {
    assert_eq!(found.shape(), expected.shape(), "{what}: shapes");
    let (apart, scale) = ((found - expected).amax(), expected.amax());
    assert!(
        apart <= tolerance * scale && found.iter().all(|v| v.is_finite()),
        "{what}: {apart:e} apart at a scale of {scale:e}"
    );
}

/// Fails unless two slices are the same bits.
#[track_caller]
pub fn same_bits(a: &[f64], b: &[f64], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}: lengths");
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert_eq!(x.to_bits(), y.to_bits(), "{what}[{i}]: {x:e} is not {y:e}");
    }
}

/// A matrix of standard normal numbers.
pub fn normal_matrix(rows: usize, columns: usize, stream: &mut Stream) -> DMatrix<f64> {
    DMatrix::from_fn(rows, columns, |_, _| stream.normal())
}

/// A random covariance with eigenvalues of at least `floor`.
pub fn covariance(n: usize, floor: f64, stream: &mut Stream) -> DMatrix<f64> {
    let a = normal_matrix(n, n, stream);
    let p = &a * a.transpose() / n as f64 + DMatrix::identity(n, n) * floor;
    0.5 * (&p + p.transpose())
}

/// A random matrix of the given rank.
pub fn of_rank(rows: usize, columns: usize, rank: usize, stream: &mut Stream) -> DMatrix<f64> {
    if rank >= rows.min(columns) {
        return normal_matrix(rows, columns, stream);
    }
    normal_matrix(rows, rank, stream) * normal_matrix(rank, columns, stream)
}

/// A linear-Gaussian system with measurements.
#[derive(Clone, Debug)]
pub struct System {
    pub f: DMatrix<f64>,
    pub h: DMatrix<f64>,
    pub q: DMatrix<f64>,
    pub r: DMatrix<f64>,
    pub start: GaussianBelief<Dyn>,
}

impl System {
    /// A random system of `n` states and `m` measurements whose H has rank `rank`, with full Q and R.
    pub fn random(n: usize, m: usize, rank: usize, stream: &mut Stream) -> Self {
        let f = normal_matrix(n, n, stream) * (0.9 / (n as f64).sqrt());
        let h = of_rank(m, n, rank, stream);
        let (q, r) = (covariance(n, 0.1, stream), covariance(m, 0.1, stream));
        let mean = DVector::from_fn(n, |_, _| stream.normal());
        let start = GaussianBelief::new(mean, covariance(n, 0.1, stream)).unwrap();
        Self { f, h, q, r, start }
    }

    pub fn model(&self) -> Linear<Dyn, Dyn> {
        Linear::new(self.f.clone(), self.h.clone()).unwrap()
    }

    pub fn noise(&self) -> GaussianNoise<Dyn, Dyn> {
        GaussianNoise::new(self.q.clone(), self.r.clone()).unwrap()
    }

    pub fn kalman(&self) -> KalmanFilter<Dyn, Dyn, GaussianNoise<Dyn, Dyn>> {
        KalmanFilter::new(self.model(), self.noise())
    }

    pub fn dims(&self) -> (usize, usize) {
        (self.f.nrows(), self.h.nrows())
    }

    /// Measurements of a few standard deviations; they need not come from the system for filters to
    /// agree on them.
    pub fn measurements(&self, count: usize, stream: &mut Stream) -> Vec<f64> {
        (0..count * self.h.nrows()).map(|_| 2.0 * stream.normal()).collect()
    }
}

/// Distance and bearing of a point that moves in a plane: state (px, py, vx, vy), linear dynamics.
#[derive(Clone, Debug)]
pub struct RangeBearing {
    pub f: DMatrix<f64>,
    /// Whether bearings are compared modulo whole turns.
    pub wraps: bool,
}

impl RangeBearing {
    /// Constant velocity over steps of `dt`.
    pub fn constant_velocity(dt: f64) -> Self {
        let mut f = DMatrix::identity(4, 4);
        (f[(0, 2)], f[(1, 3)]) = (dt, dt);
        Self { f, wraps: true }
    }
}

impl Dynamics for RangeBearing {
    type State = Const<4>;
    fn state_dim(&self) -> Const<4> {
        Const
    }
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        for i in 0..4 {
            out[i] = (0..4).fold(S::ZERO, |sum, j| sum + x[j].scale(self.f[(i, j)]));
        }
    }
}

impl Observation for RangeBearing {
    type Output = Const<2>;
    fn output_dim(&self) -> Const<2> {
        Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out[0] = (x[0].square() + x[1].square()).sqrt();
        out[1] = x[1].atan2(x[0]);
    }
    fn is_angle(&self, component: usize) -> bool {
        self.wraps && component == 1
    }
}

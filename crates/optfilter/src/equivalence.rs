//! Section 3 of the paper: every Kalman filter is K gradient steps, and K gradient steps are a prior.
//!
//! For a measurement y = H x + r, r ~ N(0, R), and a prediction mu with covariance Sigma, the Kalman
//! mean minimises
//!
//! ```text
//! 1/2 (y - H x)' R^-1 (y - H x) + 1/2 (x - mu)' Sigma^-1 (x - mu).
//! ```
//!
//! Santos (1996) shows that K steps x <- x + M H' R^-1 (y - H x) from mu, on the likelihood alone, end at
//! the same point for the right learning-rate matrix M, and that every M is the right one for some Sigma.
//!
//! - [`learning_rate_matrix`]: Sigma, K -> M. With B such that B' Sigma^-1 B = I and
//!   B' H' R^-1 H B = diag(r), M = B diag(lambda) B', lambda = (1 - (1 + r)^(-1/K)) / r (1 where r = 0).
//! - [`implied_prior`]: M, K -> Sigma. With C such that C' M^-1 C = I and C' H' R^-1 H C = diag(s),
//!   Sigma = C diag(sigma) C', sigma = ((1 - s)^-K - 1) / s (1 where s = 0). A step with s > 1 overshoots the
//!   minimum; an even number of them with s < 2 still ends on the side where it began, and implies a prior. There is none
//!   where s > 1 and K is odd, nor where s >= 2.
//! - [`implied_prior_of_rate`]: the same for plain gradient descent, M = rate * I.
//! - [`implied_prior_of_rule`]: the same for momentum and every other rule that is linear in its gradients. Its steps leave a share q(s) of an
//!   error along a direction of curvature s, whatever the error, and sigma = (1 / q(s) - 1) / s where q(s) is above 0 and below 1.
//! - [`compensated_cov`]: the covariance that makes up for pretending that R = I.
//!
//! Directions that H does not see (r = 0 or s = 0) are not moved by any step; the convention lambda =
//! sigma = 1 keeps the prior's own covariance there, so that prior -> M -> prior is the identity.
//!
//! # The variational reading of a step
//!
//! Let q = N(m, M) with M fixed. Its natural parameter is M^-1 m and its expectation parameter is m, so a
//! natural-gradient step of unit length on `E_q[l]` is `M^-1 m <- M^-1 m - grad_m E_q[l]`, that is,
//! `m <- m - M grad_m E_q[l]`. For a quadratic l the expectation's gradient is the gradient at the mean
//! (the extra term, half the trace of l'' M, does not depend on m), so the step is the preconditioned
//! gradient step x <- x - M l'(x). The learning-rate matrix is thus at once the covariance of q, the
//! learning rate, and, through K, the prior. (The test `a_step_is_a_natural_gradient_step` checks this
//! with the expectation taken numerically.)
//!
//! ```
//! use nalgebra::matrix;
//! use optfilter::equivalence::{implied_prior_of_rate, learning_rate_matrix};
//! // Three steps of gradient descent with rate 0.1 on a state seen directly with unit noise:
//! let prior = implied_prior_of_rate(0.1, &matrix![1.0], &matrix![1.0], 3)?;
//! assert!((prior[(0, 0)] - (0.9f64.powi(-3) - 1.0)).abs() < 1e-12);
//! // ... and back:
//! let m = learning_rate_matrix(&prior, &matrix![1.0], &matrix![1.0], 3)?;
//! assert!((m[(0, 0)] - 0.1).abs() < 1e-12);
//! # Ok::<(), optfilter::equivalence::EquivalenceError>(())
//! ```

use crate::linalg::is_symmetric_pd;
use crate::optim::{Objective, Optimizer, descend};
use crate::scalar::Scalar;
use nalgebra::allocator::Allocator;
use nalgebra::{Cholesky, DMatrix, DVector, DefaultAllocator, Dim, OMatrix};

/// Why there is no equivalent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EquivalenceError {
    /// No prior implies so large a learning rate: gradient descent would end beyond the minimum, or diverge.
    #[error(
        "no prior implies this learning rate: its largest product with the curvature is {largest_s} and must \
         stay below {}; scale the learning rate by less than {admissible_scale}{}",
        libm::round(.largest_s * .admissible_scale), rate_text(.largest_rate)
    )]
    LearningRateTooLarge {
        /// The largest s_i.
        largest_s: f64,
        /// What the learning rate or matrix may be multiplied with at most (exclusive).
        admissible_scale: f64,
        /// The largest admissible plain learning rate (exclusive), where one was given.
        largest_rate: Option<f64>,
    },
    /// The steps go all the way to the measurement.
    #[error(
        "the prior that {steps} such steps imply is wider than any number: they go all the way to the measurement"
    )]
    PriorTooWide {
        /// The number of steps.
        steps: u32,
    },
    /// The steps end beyond the minimum, or where they began, or diverge.
    #[error(
        "no prior implies these steps: along a direction of curvature {curvature} they leave {left} of an error, and it must be above 0 and below 1"
    )]
    Overshoot {
        /// An eigenvalue of H' R^-1 H.
        curvature: f64,
        /// What the steps leave of an error along it.
        left: f64,
    },
    /// K = 0: no step implies no prior.
    #[error("steps must be at least 1")]
    ZeroSteps,
    /// A learning rate that is not positive.
    #[error("learning rate {rate} is not allowed; it must be positive and finite")]
    Rate {
        /// The rate.
        rate: f64,
    },
    /// A matrix that should be a covariance is not.
    #[error("{matrix} must be square, finite, symmetric and positive definite")]
    NotPositiveDefinite {
        /// Which matrix.
        matrix: &'static str,
    },
    /// Matrices that do not fit together.
    #[error("{matrix} is {rows} x {columns}, which does not fit the others")]
    Shape {
        /// Which matrix.
        matrix: &'static str,
        /// Its rows.
        rows: usize,
        /// Its columns.
        columns: usize,
    },
}

fn rate_text(rate: &Option<f64>) -> alloc::string::String {
    rate.map(|r| alloc::format!(" (the largest admissible rate is just below {r})"))
        .unwrap_or_default()
}

/// The learning-rate matrix M with which `steps` preconditioned gradient steps give the Kalman mean for
/// the predictive covariance `prior_cov` (n x n), observation matrix `h` (m x n, of any rank) and
/// measurement covariance `r` (m x m).
pub fn learning_rate_matrix<N: Dim, M: Dim>(
    prior_cov: &OMatrix<f64, N, N>,
    h: &OMatrix<f64, M, N>,
    r: &OMatrix<f64, M, M>,
    steps: u32,
) -> Result<OMatrix<f64, N, N>, EquivalenceError>
where
    DefaultAllocator: Allocator<N, N> + Allocator<M, N> + Allocator<M, M>,
{
    let modes = Modes::new("prior_cov", prior_cov, h, r, steps)?;
    let k = f64::from(steps);
    // (1 - (1 + r)^(-1/K)) / r without cancellation for small r.
    let matrix = modes.compose(|r| -libm::expm1(-Scalar::ln_1p(r) / k) / r);
    Ok(shaped(prior_cov, &matrix))
}

/// The predictive covariance that `steps` preconditioned gradient steps with learning-rate matrix
/// `matrix` (n x n) imply.
pub fn implied_prior<N: Dim, M: Dim>(
    matrix: &OMatrix<f64, N, N>,
    h: &OMatrix<f64, M, N>,
    r: &OMatrix<f64, M, M>,
    steps: u32,
) -> Result<OMatrix<f64, N, N>, EquivalenceError>
where
    DefaultAllocator: Allocator<N, N> + Allocator<M, N> + Allocator<M, M>,
{
    let modes = Modes::new("learning-rate matrix", matrix, h, r, steps)?;
    let largest_s = modes.values.max();
    // |1 - s|^K is (1 - s)^K where K is even.
    let limit = if steps.is_multiple_of(2) { 2.0 } else { 1.0 };
    if largest_s >= limit && largest_s != 1.0 {
        let admissible_scale = limit / largest_s;
        return Err(EquivalenceError::LearningRateTooLarge {
            largest_s,
            admissible_scale,
            largest_rate: None,
        });
    }
    let k = f64::from(steps);
    // ((1 - s)^-K - 1) / s without cancellation for small s.
    let remains = |s: f64| if s < 1.0 { Scalar::ln_1p(-s) } else { Scalar::ln(s - 1.0) };
    let prior = modes.compose(|s| libm::expm1(-k * remains(s)) / s);
    if !prior.iter().all(|v| v.is_finite()) {
        return Err(EquivalenceError::PriorTooWide { steps });
    }
    Ok(shaped(matrix, &prior))
}

/// The predictive covariance that `steps` plain gradient steps with learning rate `rate` imply.
pub fn implied_prior_of_rate<N: Dim, M: Dim>(
    rate: f64,
    h: &OMatrix<f64, M, N>,
    r: &OMatrix<f64, M, M>,
    steps: u32,
) -> Result<OMatrix<f64, N, N>, EquivalenceError>
where
    DefaultAllocator: Allocator<N, N> + Allocator<M, N> + Allocator<M, M>,
{
    if !(rate > 0.0 && rate.is_finite()) {
        return Err(EquivalenceError::Rate { rate });
    }
    let n = h.shape_generic().1;
    let matrix = OMatrix::<f64, N, N>::identity_generic(n, n) * rate;
    implied_prior(&matrix, h, r, steps).map_err(|error| match error {
        EquivalenceError::LearningRateTooLarge { largest_s, admissible_scale, .. } => {
            let largest_rate = Some(rate * admissible_scale);
            EquivalenceError::LearningRateTooLarge { largest_s, admissible_scale, largest_rate }
        }
        other => other,
    })
}

/// The predictive covariance that `steps` steps of a rule imply that is linear in its gradients, as gradient descent with momentum is;
/// of other rules it would depend on the data.
pub fn implied_prior_of_rule<N: Dim, M: Dim, O: Optimizer<f64>>(
    rule: &O,
    h: &OMatrix<f64, M, N>,
    r: &OMatrix<f64, M, M>,
    steps: u32,
) -> Result<OMatrix<f64, N, N>, EquivalenceError>
where
    DefaultAllocator: Allocator<N, N> + Allocator<M, N> + Allocator<M, M>,
{
    /// Half the square of one number, times a curvature.
    struct Square(f64);
    impl Objective<f64> for Square {
        fn value(&mut self, x: &[f64]) -> f64 {
            0.5 * self.0 * x[0] * x[0]
        }
        fn gradient(&mut self, x: &[f64], out: &mut [f64]) {
            out[0] = self.0 * x[0];
        }
    }
    let n = h.shape_generic().1;
    let identity = OMatrix::<f64, N, N>::identity_generic(n, n);
    let modes = Modes::new("identity", &identity, h, r, steps)?;
    let left = |curvature: f64| {
        let mut error = alloc::vec![1.0];
        let mut state = rule.init(&error);
        descend(rule, &mut Square(curvature), &mut error, &mut state, steps);
        error[0]
    };
    for curvature in modes.values.iter().copied().filter(|s| *s > 0.0) {
        let left = left(curvature);
        if !(left > 0.0 && left < 1.0) {
            return Err(EquivalenceError::Overshoot { curvature, left });
        }
    }
    let prior = modes.compose(|s| (1.0 / left(s) - 1.0) / s);
    Ok(shaped(&identity, &prior))
}

/// The learning rate below which some prior implies any number of steps: 1 over the largest eigenvalue of H' R^-1 H.
/// Infinite if H is zero. (An even number of steps may go up to twice that, except where a step reaches the
/// minimum at once.)
pub fn largest_rate<N: Dim, M: Dim>(
    h: &OMatrix<f64, M, N>,
    r: &OMatrix<f64, M, M>,
) -> Result<f64, EquivalenceError>
where
    DefaultAllocator: Allocator<N, N> + Allocator<M, N> + Allocator<M, M>,
{
    let n = h.shape_generic().1;
    let identity = OMatrix::<f64, N, N>::identity_generic(n, n);
    let modes = Modes::new("identity", &identity, h, r, 1)?;
    Ok(1.0 / modes.values.max())
}

/// The predictive covariance X = Sigma H' R^-1 (H')^+ that gives, under R = I, the gain that Sigma gives
/// under R (the paper's appendix on R = I).
///
/// The gains agree exactly where H has full row rank. X is symmetric only if R commutes with the
/// situation (R a multiple of I, or H square and R, Sigma simultaneously diagonal, say): it is a device
/// for reading learning rates, not always a covariance.
pub fn compensated_cov<N: Dim, M: Dim>(
    cov: &OMatrix<f64, N, N>,
    h: &OMatrix<f64, M, N>,
    r: &OMatrix<f64, M, M>,
) -> Result<OMatrix<f64, N, N>, EquivalenceError>
where
    DefaultAllocator: Allocator<N, N> + Allocator<M, N> + Allocator<M, M>,
{
    check("cov", cov, h, r)?;
    let (cov_d, h, r) = (dynamic(cov), dynamic(h), dynamic(r));
    let Some(r_factor) = Cholesky::new(r) else {
        return Err(EquivalenceError::NotPositiveDefinite { matrix: "r" });
    };
    let scale = h.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    // (H')^+ is m x n.
    let inverse = h.transpose().pseudo_inverse(scale * 1e-12).map_err(|_| {
        EquivalenceError::Shape { matrix: "h", rows: h.nrows(), columns: h.ncols() }
    })?;
    let x = cov_d * h.transpose() * r_factor.solve(&inverse);
    Ok(shaped(cov, &x))
}

/// A = G G' and the curvature H' R^-1 H, diagonalised together: columns of `basis` are B with
/// B' A^-1 B = I and B' H' R^-1 H B = diag(values).
struct Modes {
    basis: DMatrix<f64>,
    values: DVector<f64>,
}

impl Modes {
    fn new<N: Dim, M: Dim>(
        name: &'static str,
        a: &OMatrix<f64, N, N>,
        h: &OMatrix<f64, M, N>,
        r: &OMatrix<f64, M, M>,
        steps: u32,
    ) -> Result<Self, EquivalenceError>
    where
        DefaultAllocator: Allocator<N, N> + Allocator<M, N> + Allocator<M, M>,
    {
        if steps == 0 {
            return Err(EquivalenceError::ZeroSteps);
        }
        check(name, a, h, r)?;
        let (a, h, r) = (dynamic(a), dynamic(h), dynamic(r));
        let Some(a_factor) = Cholesky::new(a) else {
            return Err(EquivalenceError::NotPositiveDefinite { matrix: name });
        };
        let Some(r_factor) = Cholesky::new(r) else {
            return Err(EquivalenceError::NotPositiveDefinite { matrix: "r" });
        };
        // With A = G G' and W = L_R^-1 H G: W' W = G' H' R^-1 H G has the wanted eigenvalues, and its
        // eigenvectors U give B = G U. The singular values of W are their roots, at twice the precision, and U are
        // its right singular vectors.
        let g = a_factor.unpack();
        let mut w = h * &g; // m x n
        r_factor.l_dirty().solve_lower_triangular_mut(&mut w);
        let largest = w.amax();
        let Some((roots, u)) = right_singular(w / largest.max(f64::MIN_POSITIVE)) else {
            return Err(EquivalenceError::NotPositiveDefinite { matrix: "H' R^-1 H" });
        };
        let tiny =
            roots.max() * u.nrows().max(r_factor.l_dirty().nrows()) as f64 * 8.0 * f64::EPSILON;
        let values = roots.map(|v| if v <= tiny { 0.0 } else { (v * largest) * (v * largest) });
        if !values.iter().all(|v| v.is_finite()) {
            return Err(EquivalenceError::NotPositiveDefinite { matrix: "H' R^-1 H" });
        }
        Ok(Self { basis: g * u, values })
    }

    /// B diag(f(values)) B', with f = 1 where a value is zero.
    fn compose(&self, f: impl Fn(f64) -> f64) -> DMatrix<f64> {
        let weights = self.values.map(|v| if v == 0.0 { 1.0 } else { f(v) });
        let mut out = &self.basis * DMatrix::from_diagonal(&weights) * self.basis.transpose();
        crate::linalg::symmetrize(&mut out);
        out
    }
}

/// The singular values of `w` (m x n) and all n right singular vectors, by rotations of its columns (Hestenes 1958):
/// each value is right relative to itself, however far apart they are. `None` if `w` is not finite.
fn right_singular(mut w: DMatrix<f64>) -> Option<(DVector<f64>, DMatrix<f64>)> {
    if !w.iter().all(|v| v.is_finite()) {
        return None;
    }
    let n = w.ncols();
    let mut u = DMatrix::identity(n, n);
    // A dozen sweeps are more than enough; the bound only makes the loop end.
    for _ in 0..60 {
        let mut turned = false;
        for i in 0..n {
            for j in i + 1..n {
                let (a, b) = (w.column(i).norm_squared(), w.column(j).norm_squared());
                let c = w.column(i).dot(&w.column(j));
                if c.abs() <= f64::EPSILON * Scalar::sqrt(a) * Scalar::sqrt(b) {
                    continue;
                }
                turned = true;
                // The smaller root of t^2 + 2 zeta t - 1 makes the two columns orthogonal.
                let zeta = (b - a) / (2.0 * c);
                let t = 1.0f64.copysign(zeta) / (zeta.abs() + libm::hypot(1.0, zeta));
                let cos = 1.0 / libm::hypot(1.0, t);
                for matrix in [&mut w, &mut u] {
                    for row in 0..matrix.nrows() {
                        let (x, y) = (matrix[(row, i)], matrix[(row, j)]);
                        matrix[(row, i)] = cos * (x - t * y);
                        matrix[(row, j)] = cos * (t * x + y);
                    }
                }
            }
        }
        if !turned {
            break;
        }
    }
    let values = DVector::from_iterator(n, w.column_iter().map(|column| column.norm()));
    Some((values, u))
}

fn check<N: Dim, M: Dim>(
    name: &'static str,
    a: &OMatrix<f64, N, N>,
    h: &OMatrix<f64, M, N>,
    r: &OMatrix<f64, M, M>,
) -> Result<(), EquivalenceError>
where
    DefaultAllocator: Allocator<N, N> + Allocator<M, N> + Allocator<M, M>,
{
    let shape = |matrix, rows, columns| EquivalenceError::Shape { matrix, rows, columns };
    let fits = h.ncols() == a.nrows() && h.nrows() == r.nrows() && !h.is_empty();
    if !fits || !h.iter().all(|v| v.is_finite()) {
        return Err(shape("h", h.nrows(), h.ncols()));
    }
    if !is_symmetric_pd(a) {
        return Err(EquivalenceError::NotPositiveDefinite { matrix: name });
    }
    if !is_symmetric_pd(r) {
        return Err(EquivalenceError::NotPositiveDefinite { matrix: "r" });
    }
    Ok(())
}

fn dynamic<R: Dim, C: Dim>(a: &OMatrix<f64, R, C>) -> DMatrix<f64>
where
    DefaultAllocator: Allocator<R, C>,
{
    DMatrix::from_column_slice(a.nrows(), a.ncols(), a.as_slice())
}

fn shaped<N: Dim>(like: &OMatrix<f64, N, N>, a: &DMatrix<f64>) -> OMatrix<f64, N, N>
where
    DefaultAllocator: Allocator<N, N>,
{
    let (rows, columns) = like.shape_generic();
    OMatrix::from_column_slice_generic(rows, columns, a.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::{dmatrix, matrix};

    fn one_state(rate: f64, steps: u32) -> Result<f64, EquivalenceError> {
        implied_prior_of_rate(rate, &matrix![1.0], &matrix![1.0], steps).map(|prior| prior[0])
    }

    #[test]
    fn momentum_implies_the_prior_whose_kalman_gain_is_its_own() {
        use crate::optim::GradientDescent;
        let h = matrix![1.0, 0.5; 0.2, -1.0];
        let r = matrix![1.0, 0.3; 0.3, 2.0];
        let plain = GradientDescent::new(0.1).unwrap();
        let by_rate = implied_prior_of_rate(0.1, &h, &r, 4).unwrap();
        let by_rule = implied_prior_of_rule(&plain, &h, &r, 4).unwrap();
        // The share that is left is rounded once a step.
        assert!((by_rate - by_rule).amax() < 1e-13);
        let rule = GradientDescent::with_momentum(0.05, 0.6).unwrap();
        let prior = implied_prior_of_rule(&rule, &h, &r, 5).unwrap();
        let gain = prior * h.transpose() * (h * prior * h.transpose() + r).try_inverse().unwrap();
        // By hand: x, v <- x - 0.05 v, 0.6 v + H' R^-1 (H x - y), from 0 with y of one.
        let weight = r.try_inverse().unwrap();
        for j in 0..2 {
            let mut y = nalgebra::Vector2::zeros();
            y[j] = 1.0;
            let (mut x, mut v) = (nalgebra::Vector2::zeros(), nalgebra::Vector2::zeros());
            for _ in 0..5 {
                v = v * 0.6 + h.transpose() * weight * (h * x - y);
                x -= v * 0.05;
            }
            assert!((gain.column(j) - x).amax() < 1e-13, "{gain} {x}");
        }
        let wild = GradientDescent::with_momentum(1.5, 0.9).unwrap();
        let refused = implied_prior_of_rule(&wild, &h, &r, 5);
        assert!(matches!(refused, Err(EquivalenceError::Overshoot { .. })), "{refused:?}");
    }

    #[test]
    fn an_even_number_of_overshoots_implies_a_prior() {
        // By hand: (1 - 1.5)^2 = 1/4 is left, so the gain is 3/4 and the prior 3.
        let prior = one_state(1.5, 2).unwrap();
        assert!((prior - 3.0).abs() < 1e-14 && (prior / (1.0 + prior) - 0.75).abs() < 1e-14);
        // All of K steps, against the steps themselves.
        for (rate, steps) in [(0.3, 7), (1.2, 4), (1.9, 40), (1.999, 2), (0.999, 9)] {
            let left = (0..steps).fold(1.0, |left: f64, _| left - rate * left);
            let prior = one_state(rate, steps).unwrap();
            assert!(
                (prior / (1.0 + prior) - (1.0 - left)).abs() < 1e-13,
                "{rate}, {steps}: {prior}"
            );
        }
        for (rate, steps) in [(1.5, 3), (2.0, 2), (2.5, 4)] {
            let error = one_state(rate, steps).unwrap_err();
            assert!(matches!(error, EquivalenceError::LearningRateTooLarge { .. }), "{error}");
        }
        assert!(one_state(2.5, 4).unwrap_err().to_string().contains("must stay below 2; "));
    }

    #[test]
    fn a_prior_is_a_number_or_an_error() {
        for (rate, steps) in [(0.9, 320), (0.9, u32::MAX), (1.0, 2), (1.0, 1), (1.1, 320)] {
            assert_eq!(one_state(rate, steps), Err(EquivalenceError::PriorTooWide { steps }));
        }
        // 0.1^-300 is a number, and so is its prior; 300 powers enlarge the rounding of 1 - 0.9.
        assert!((one_state(0.9, 300).unwrap() / 1e300 - 1.0).abs() < 300.0 * 1e-15);
        assert!((one_state(1e-300, 5).unwrap() / 5e-300 - 1.0).abs() < 1e-15);
    }

    /// Curvatures twenty orders apart, of which a product W' W would have lost one, are both seen.
    #[test]
    fn modes_of_any_size_are_seen() {
        let h = dmatrix![1e6, 0.0; 0.0, 1e-4];
        let rate = 0.5e-12;
        let prior = implied_prior_of_rate(rate, &h, &DMatrix::identity(2, 2), 4).unwrap();
        // By hand: (0.5^-4 - 1) / 0.5 = 30 in the first, 4 steps of next to nothing in the second.
        let expected = dmatrix![30.0, 0.0; 0.0, 4.0] * rate;
        assert!((prior - expected).amax() < 1e-13 * rate);
        let (roots, u) = right_singular(dmatrix![1e8, 1.0; 0.0, 1e-9]).unwrap();
        // The product of the singular values is the determinant, 0.1; the large one is 1e8 (1 + 5e-17).
        assert!((roots.max() / 1e8 - 1.0).abs() < 1e-15);
        assert!((roots.min() / 1e-9 - 1.0).abs() < 1e-15, "{roots}");
        assert!((&u.transpose() * &u - DMatrix::identity(2, 2)).amax() < 1e-15);
    }
}

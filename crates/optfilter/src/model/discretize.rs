//! A linear differential equation over a step of any length, exactly.
//!
//! Over a step of length h, dx = (A x + B u) dt + dw with white noise w of spectral density D has
//!
//! ```text
//! F = e^(A h),   G = integral of e^(A s) ds  (inputs held: x <- F x + G B u),   Q = integral of e^(A s) D e^(A' s) ds.
//! ```
//!
//! All three are power series over a piece so short that |A| h <= 1/4, where fourteen terms are exact to rounding, doubled
//! until the step is whole: F <- F F, G <- G + F G, Q <- Q + F Q F'. These are the integrals of Van Loan (1978) without his
//! exponential of -A, which overflows where something decays fast; a sum of covariances stays one.

use crate::linalg::{product, sandwich, symmetrize};
use crate::scalar::Scalar;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix};

/// Terms of the series: |2 A h| <= 1/2 leaves 2^-14 / 15! of the first.
const TERMS: u32 = 14;

/// A linear differential equation over one step, in any scalar: rates may carry derivatives by a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Discretized<S: Scalar, N: Dim>
where
    DefaultAllocator: Allocator<N, N>,
{
    /// F: n x n.
    pub(crate) f: OMatrix<S, N, N>,
    /// The integral of F over the step, n x n.
    pub(crate) g: OMatrix<S, N, N>,
    /// Q: n x n; zero where no density was given.
    pub(crate) q: OMatrix<S, N, N>,
}

/// dx = A x dt + dw over a step of length `dt`, for w of spectral density `density` (n x n).
pub(crate) fn discretize<S: Scalar, N: Dim>(
    a: &OMatrix<S, N, N>,
    density: Option<&OMatrix<S, N, N>>,
    dt: f64,
) -> Discretized<S, N>
where
    DefaultAllocator: Allocator<N, N>,
{
    let n = a.shape_generic().0;
    let scaled = |m: &OMatrix<S, N, N>, k: f64| m.map(|v| v.scale(k));
    let mut size = S::ZERO;
    for i in 0..n.value() {
        let row = (0..n.value()).fold(S::ZERO, |sum, j| sum + a[(i, j)].abs());
        size = S::select_lt(size, row, row, size);
    }
    size = size.scale(dt);
    let (mut h, mut doublings) = (dt, 0);
    while S::all_lt(S::from_f64(0.25), size) && doublings < 2000 {
        (size, h, doublings) = (size.scale(0.5), h / 2.0, doublings + 1);
    }
    // Term k of F is (A h)^k / k!; G has h / (k + 1) times as much of it.
    let unit = |i, j| if i == j { S::ONE } else { S::ZERO };
    let mut term = OMatrix::<S, N, N>::from_fn_generic(n, n, unit);
    let (mut f, mut g) = (term.clone(), scaled(&term, h));
    let mut spread = density.map(|d| scaled(d, h)); // term k of Q: h^(k+1) / (k+1)! of the k-th derivative
    let none = || OMatrix::from_element_generic(n, n, S::ZERO);
    let mut q = spread.clone().unwrap_or_else(none);
    for k in 1..=TERMS {
        term = scaled(&product(a, &term), h / f64::from(k));
        f += &term;
        g += scaled(&term, h / f64::from(k + 1));
        if let Some(spread) = &mut spread {
            let half = product(a, spread);
            *spread = scaled(&(&half + half.transpose()), h / f64::from(k + 1));
            q += &*spread;
        }
    }
    for _ in 0..doublings {
        if density.is_some() {
            q += sandwich(&f, &q);
        }
        g += product(&f, &g);
        f = product(&f, &f);
    }
    symmetrize(&mut q);
    Discretized { f, g, q }
}

#[cfg(test)]
mod tests {
    use super::discretize;
    use nalgebra::{Matrix2, matrix, vector};

    /// A damped oscillator pushed by white noise of density 0.5 and by a held input of (0.2, 1.5):
    ///
    /// ```python
    /// A, D = np.array([[0, 1], [-4, -0.6]]), np.diag([0, 0.5])
    /// E = scipy.linalg.expm(np.block([[-A, D], [np.zeros((2, 2)), A.T]]) * dt)
    /// F = E[2:, 2:].T; Q = F @ E[:2, 2:]
    /// Bd = scipy.signal.cont2discrete((A, [[0.2], [1.5]], np.eye(2), np.zeros((2, 1))), dt)[1]
    /// ```
    #[test]
    fn steps_of_any_length_are_exact() {
        let (a, d) = (matrix![0.0, 1.0; -4.0, -0.6], matrix![0.0, 0.0; 0.0, 0.5]);
        let golden: [(f64, [f64; 4], [f64; 4], [f64; 2]); 3] = [
            (
                0.1,
                [0.9804590751057712, 0.09641338155415506, -0.3856535262166202, 0.9226110461732782],
                [
                    0.00015810848665700832,
                    0.0023238850356767714,
                    0.0023238850356767714,
                    0.0465027903784253,
                ],
                [0.02719675089299366, 0.14071188735238685],
            ),
            (
                1.0,
                [-0.18973674493056758, 0.3441067379103841, -1.376426951641536, -0.3962007876767979],
                [
                    0.051079393679359174,
                    0.02960236176883141,
                    0.02960236176883141,
                    0.1539113114762418,
                ],
                [0.5506647292789566, 0.2782127578794626],
            ),
            (
                7.5,
                [
                    -0.05504306801719435,
                    0.04100331744744119,
                    -0.16401326978976485,
                    -0.07964505848565902,
                ],
                [
                    0.10315053880171797,
                    0.0004203180104239626,
                    0.0004203180104239626,
                    0.41122149020499027,
                ],
                [0.435493106036452, -0.14950363743227707],
            ),
        ];
        for (dt, f, q, b) in golden {
            let found = discretize(&a, Some(&d), dt);
            // Rounding of scipy's own exponential, which grows with e^(|A| dt).
            let close = |x: f64, y: f64| assert!((x - y).abs() < 2e-13, "dt = {dt}: {x} {y}");
            for (k, (f, q)) in f.into_iter().zip(q).enumerate() {
                close(found.f[(k / 2, k % 2)], f);
                close(found.q[(k / 2, k % 2)], q);
            }
            let pushed = found.g * vector![0.2, 1.5];
            close(pushed[0], b[0]);
            close(pushed[1], b[1]);
        }
    }

    #[test]
    fn fast_decay_over_a_long_step_does_not_overflow() {
        // x' = -50 x + w: the variance is D / 100 once 50 dt is large; e^(50 dt) would be infinite.
        let found = discretize(&matrix![-50.0f64], Some(&matrix![2.0]), 1e4);
        assert!(found.f[0] == 0.0 && (found.q[0] - 0.02).abs() < 1e-16, "{found:?}");
        assert!((found.g[0] - 0.02).abs() < 1e-16, "{found:?}");
        let nothing = discretize(&Matrix2::<f64>::zeros(), Some(&Matrix2::identity()), 0.0);
        assert_eq!((nothing.f, nothing.q), (Matrix2::identity(), Matrix2::zeros()));
    }
}

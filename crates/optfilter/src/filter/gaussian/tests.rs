//! The Gaussian kernels in other scalars: lanes are scalar runs bit for bit, duals are derivatives.

use super::*;
use crate::linalg::Factor;
use crate::rng::Stream;
use crate::scalar::{Dual, Lanes};
use nalgebra::{DMatrix, DVector, Dyn, matrix};

const W: usize = 4;
type Wide = Lanes<W>;

/// A prediction and a measurement of it.
struct Problem {
    mean: DVector<f64>,
    cov: DMatrix<f64>,
    f: DMatrix<f64>,
    q: DMatrix<f64>,
    h: DMatrix<f64>,
    r: DMatrix<f64>,
    residual: DVector<f64>,
}

impl Problem {
    fn random(n: usize, m: usize, stream: &mut Stream) -> Self {
        let mut normal = |rows, columns| DMatrix::from_fn(rows, columns, |_, _| stream.normal());
        let (a, b, c) = (normal(n, n), normal(n, n), normal(m, m));
        let unit = |n| DMatrix::<f64>::identity(n, n);
        Self {
            mean: normal(n, 1).column(0).into_owned(),
            cov: &a * a.transpose() / n as f64 + unit(n),
            f: normal(n, n) * 0.5,
            q: &b * b.transpose() / n as f64 + unit(n),
            h: normal(m, n),
            // Noise that decorrelates S, so that two and three equations are well conditioned in all lanes.
            r: &c * c.transpose() / m as f64 + unit(m) * (10.0 * n as f64),
            residual: normal(m, 1).column(0).into_owned(),
        }
    }
}

fn pack<R: Dim, C: Dim>(of: [&OMatrix<f64, R, C>; W]) -> OMatrix<Wide, R, C>
where
    DefaultAllocator: Allocator<R, C>,
{
    let (rows, columns) = of[0].shape_generic();
    OMatrix::from_fn_generic(rows, columns, |i, j| Lanes(of.map(|m| m[(i, j)])))
}

#[track_caller]
fn same_lane<R: Dim, C: Dim>(wide: &OMatrix<Wide, R, C>, lane: usize, alone: &OMatrix<f64, R, C>)
where
    DefaultAllocator: Allocator<R, C>,
{
    for (w, a) in wide.iter().zip(alone.iter()) {
        assert_eq!(w.0[lane].to_bits(), a.to_bits(), "lane {lane}: {} is not {a}", w.0[lane]);
    }
}

fn lanes_are_scalar_runs(n: usize, m: usize, observed: Observed<'_>) {
    let mut stream = Stream::new(3, (n * 100 + m) as u64, "lanes");
    let problems: [Problem; W] = core::array::from_fn(|_| Problem::random(n, m, &mut stream));
    let p = problems.each_ref();
    let wide_cov =
        propagated(&pack(p.map(|p| &p.cov)), &pack(p.map(|p| &p.f)), pack(p.map(|p| &p.q)));
    let mut measurement = GaussianMeasurement {
        residual: pack(p.map(|p| &p.residual)),
        h: pack(p.map(|p| &p.h)),
        r: pack(p.map(|p| &p.r)),
        is_direct: false,
    };
    let wide = condition(&pack(p.map(|p| &p.mean)), &wide_cov, &mut measurement, observed).unwrap();
    for (lane, p) in problems.iter().enumerate() {
        let cov = propagated(&p.cov, &p.f, p.q.clone());
        same_lane(&wide_cov, lane, &cov);
        let (residual, h, r) = (p.residual.clone(), p.h.clone(), p.r.clone());
        let mut measurement = GaussianMeasurement { residual, h, r, is_direct: false };
        let alone = condition(&p.mean, &cov, &mut measurement, observed).unwrap();
        same_lane(&wide.mean, lane, &alone.mean);
        same_lane(&wide.cov, lane, &alone.cov);
        same_lane(&wide.innovation_cov, lane, &alone.innovation_cov);
        assert_eq!(wide.nis.0[lane].to_bits(), alone.nis.to_bits());
        assert_eq!(wide.log_likelihood.0[lane].to_bits(), alone.log_likelihood.to_bits());
    }
}

#[test]
fn lanes_equal_scalar_runs_bit_for_bit() {
    // Cramer's rule, the factor, and (from ten on) nalgebra's blocked products.
    for (n, m) in [(1, 1), (2, 2), (3, 3), (5, 2), (2, 5), (4, 4), (10, 10), (13, 7)] {
        lanes_are_scalar_runs(n, m, Observed::All);
        let mut mask = alloc::vec![true; m];
        mask[m / 2] = m == 1;
        lanes_are_scalar_runs(n, m, Observed::Some(&mask));
    }
}

#[test]
fn what_is_measured_directly_has_the_bits_of_a_product_with_the_identity() {
    let mut stream = Stream::new(7, 0, "direct");
    for n in [1, 2, 3, 5, 8, 9, 12, 31, 40, 70] {
        let p = Problem::random(n, n, &mut stream);
        let mut cov = propagated(&p.cov, &p.f, p.q.clone());
        // Symmetric but for rounding, as a user's may be.
        if n > 1 {
            cov[(0, n - 1)] = cov[(0, n - 1)].next_up();
        }
        let mut mask = alloc::vec![true; n];
        mask[n / 2] = false;
        for observed in [Observed::All, Observed::Some(&mask)] {
            let condition = |is_direct| {
                let (residual, h, r) = (p.residual.clone(), DMatrix::identity(n, n), p.r.clone());
                let mut measurement = GaussianMeasurement { residual, h, r, is_direct };
                condition(&p.mean, &cov, &mut measurement, observed).unwrap()
            };
            let (direct, product) = (condition(true), condition(false));
            same_lane(&pack([&direct.mean; W]), 0, &product.mean);
            same_lane(&pack([&direct.cov; W]), 0, &product.cov);
            same_lane(&pack([&direct.innovation_cov; W]), 0, &product.innovation_cov);
            assert_eq!(direct.log_likelihood.to_bits(), product.log_likelihood.to_bits());
        }
    }
}

#[test]
fn factors_equal_scalar_factors_bit_for_bit() {
    let mut stream = Stream::new(4, 0, "lanes");
    for n in 1..9 {
        // Determinants far outside a double's range in some lanes and not in others.
        let sizes = [1.0, 1e-60, 1e60, 3.0];
        let cov: [DMatrix<f64>; W] =
            core::array::from_fn(|lane| Problem::random(n, 1, &mut stream).cov * sizes[lane]);
        let wide = Factor::new(&pack(cov.each_ref())).unwrap();
        let v = DVector::from_fn(n, |_, _| stream.normal());
        let mut solved = pack([&v; W]);
        wide.solve(&mut solved);
        for (lane, cov) in cov.iter().enumerate() {
            let alone = Factor::new(cov).unwrap();
            same_lane(&wide.cholesky(), lane, &alone.cholesky());
            assert_eq!(wide.ln_det().0[lane].to_bits(), alone.ln_det().to_bits());
            let form = wide.quadratic_form(&pack([&v; W])).0[lane];
            assert_eq!(form.to_bits(), alone.quadratic_form(&v).to_bits());
            let mut x = v.clone();
            alone.solve(&mut x);
            same_lane(&solved, lane, &x);
        }
    }
}

#[test]
fn lanes_that_part_are_each_solved_as_alone() {
    let well = matrix![2.0, 0.1; 0.1, 1.0];
    let ill = matrix![1.0, 0.9999; 0.9999, 1.0];
    let bad = matrix![1.0, 2.0; 2.0, 1.0];
    let solved = |of: [&OMatrix<f64, _, _>; W]| Solver::new(&pack(of));
    assert!(matches!(solved([&well; W]), Some(Solver::Cofactors(..))));
    assert!(matches!(solved([&ill; W]), Some(Solver::Factor(..))));
    assert!(solved([&well, &bad, &well, &well]).is_none());
    assert!(solved([&ill, &ill, &ill, &bad]).is_none());
    assert!(solved([&well, &(well * f64::NAN), &well, &well]).is_none());
    let three = |d: f64| matrix![1.0, d, 0.0; d, 1.0, d; 0.0, d, 1.0];
    assert!(Solver::new(&pack([&three(0.1), &three(0.7), &three(0.1), &three(0.1)])).is_some());
    parted([&well, &well, &ill, &well], &nalgebra::vector![0.3, -1.2]);
    let v = nalgebra::vector![0.3, -1.2, 0.7];
    parted([&three(0.1), &three(0.706), &three(0.1), &three(0.2)], &v);
}

/// Some lanes by cofactors and others through the factor, each to the bit.
fn parted<M: Dim>(each: [&OMatrix<f64, M, M>; W], v: &OVector<f64, M>)
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    let wide = Solver::new(&pack(each)).unwrap();
    assert!(matches!(wide, Solver::Mixed(..)));
    let (many, form) = (pack([v; W]), wide.quadratic_form(&pack([v; W])));
    let solved = wide.solve(&many);
    for (lane, matrix) in each.into_iter().enumerate() {
        let alone = Solver::new(matrix).unwrap();
        same_lane(&solved, lane, &alone.solve(v));
        assert_eq!(form.0[lane].to_bits(), alone.quadratic_form(v).to_bits());
        assert_eq!(wide.ln_det().0[lane].to_bits(), alone.ln_det().to_bits());
    }
}

/// The log-likelihood of three measurements of a system whose every matrix depends on a parameter.
fn log_likelihood<S: Scalar>(p: &Problem, theta: S) -> S {
    let lift = |m: &DMatrix<f64>, k: S| m.map(|v| k.scale(v));
    let lift_vector = |m: &DVector<f64>, k: S| m.map(|v| k.scale(v));
    let (mut mean, mut cov) = (lift_vector(&p.mean, S::ONE), lift(&p.cov, S::ONE + theta.square()));
    let (f, q) = (lift(&p.f, theta), lift(&p.q, theta.exp()));
    let (h, r) = (lift(&p.h, S::ONE + theta.sin()), lift(&p.r, theta.square()));
    let mut total = S::ZERO;
    for k in 0..3 {
        mean = product(&f, &mean);
        cov = propagated(&cov, &f, q.clone());
        let seen = product(&h, &mean);
        let residual = lift_vector(&p.residual, S::from_f64(1.0 + f64::from(k))) - seen;
        let mut measurement =
            GaussianMeasurement { residual, h: h.clone(), r: r.clone(), is_direct: false };
        let done = condition::<S, Dyn, Dyn>(&mean, &cov, &mut measurement, Observed::All).unwrap();
        (mean, cov) = (done.mean, done.cov);
        total += done.log_likelihood;
    }
    total
}

#[test]
fn the_likelihood_differentiates_by_a_parameter() {
    for (n, m) in [(1, 1), (2, 2), (3, 3), (4, 2), (3, 5), (9, 9)] {
        let p = Problem::random(n, m, &mut Stream::new(5, (n * 10 + m) as u64, "dual"));
        for theta in [0.4, 0.9, 1.3] {
            let dual = log_likelihood(&p, Dual::<f64, 1>::variable(theta, 0));
            let value = log_likelihood(&p, theta);
            // Blocked products round otherwise than loops; twenty operations deep that is a dozen digits.
            assert!((dual.re - value).abs() < 1e-12 * (1.0 + value.abs()), "{n} {m}");
            // Central differences: rounding of 1e-16 |value| / d and d^2 / 6 of the third derivative.
            let d = 1e-5;
            let slope = (log_likelihood(&p, theta + d) - log_likelihood(&p, theta - d)) / (2.0 * d);
            let apart = (dual.eps[0] - slope).abs();
            assert!(apart < 1e-7 * (1.0 + slope.abs()), "{n} {m}: {} {slope}", dual.eps[0]);
            assert!(slope.abs() > 1e-3, "{n} {m}: there is something to see: {slope}");
        }
    }
}

#[test]
fn a_negative_variance_is_a_flaw_unless_it_is_rounding() {
    let flaw = |variance: f64| {
        let cov = matrix![1.0, 0.0; 0.0, variance];
        GaussianBelief { mean: nalgebra::vector![0.0, 0.0], cov }.flaw()
    };
    assert_eq!([flaw(0.5), flaw(0.0), flaw(-1e-14)], [None; 3]);
    assert_eq!([flaw(-1e-3), flaw(-1e200)], [Some(NEGATIVE_VARIANCE); 2]);
    assert_eq!(flaw(f64::NEG_INFINITY), Some("cov"));
}

#[test]
fn large_states_are_conditioned_as_the_textbook_says() {
    for (n, m) in [(40, 40), (150, 140), (120, 3)] {
        let p = Problem::random(n, m, &mut Stream::new(6, (n * 1000 + m) as u64, "large"));
        let predicted = propagated(&p.cov, &p.f, p.q.clone());
        let textbook = &p.f * &p.cov * p.f.transpose() + &p.q;
        assert!((&predicted - &textbook).amax() < 1e-12 * textbook.amax());
        assert_eq!(predicted, predicted.transpose());
        let mut measurement = GaussianMeasurement {
            residual: p.residual.clone(),
            h: p.h.clone(),
            r: p.r.clone(),
            is_direct: false,
        };
        let found = condition(&p.mean, &predicted, &mut measurement, Observed::All).unwrap();
        let s = &p.h * &predicted * p.h.transpose() + &p.r;
        let cholesky = s.clone().cholesky().unwrap();
        let gain = cholesky.solve(&(&p.h * &predicted)).transpose();
        let mean = &p.mean + &gain * &p.residual;
        let cov = &predicted - &gain * &p.h * &predicted;
        assert!((&found.mean - &mean).amax() < 1e-11 * (1.0 + mean.amax()), "{n} {m}");
        assert!((&found.cov - &cov).amax() < 1e-11 * predicted.amax(), "{n} {m}");
        let nis = p.residual.dot(&cholesky.solve(&p.residual));
        let ln_det = 2.0 * cholesky.l().diagonal().map(f64::ln).sum();
        let log_likelihood = -0.5 * (nis + ln_det + m as f64 * LN_TAU);
        assert!((found.nis - nis).abs() < 1e-11 * nis);
        assert!((found.log_likelihood - log_likelihood).abs() < 1e-10 * log_likelihood.abs());
    }
}

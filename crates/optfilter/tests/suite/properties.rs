//! What theory says must hold on every system, tried on random ones.
//!
//! Systems have covariances with eigenvalues of at least 0.1 and matrices of normal numbers, so condition
//! numbers are in the hundreds and a chain of a dozen operations keeps about 12 of 16 digits: tolerances of
//! 1e-10 relative to 1 + |entry| leave two digits of room, and an error in a formula shows in the first.
//! Where another one is used, it stands beside its reason.
//!
//! Cases are drawn from a fixed seed, so that a failure is reproducible; `PROPTEST_RNG_SEED` and
//! `PROPTEST_CASES` try others.

use crate::common::{
    RangeBearing, System, all_close, all_close_or_missing, close, covariance, matrices_close,
    normal_matrix, of_rank, same_bits,
};
use nalgebra::{
    Cholesky, Const, DMatrix, DVector, DefaultAllocator, Dim, Dyn, SMatrix, matrix, vector,
};
use optfilter::drive::{Run, Trace};
use optfilter::equivalence::{
    compensated_cov, implied_prior, implied_prior_of_rate, largest_rate, learning_rate_matrix,
};
use optfilter::filter::{
    Belief, EnsembleBelief, EnsembleKalmanFilter, ErrorBars, ExtendedKalmanFilter, Filter,
    GaussianBelief, ImplicitMap, IteratedKalmanFilter, ParticleBelief, ParticleFilter, PointBelief,
    Resampling, Scheme, SigmaPoints, UnscentedKalmanFilter, VariationalKalmanFilter,
};
use optfilter::model::likelihood::{Gaussian, Likelihood, Observed, StudentT};
use optfilter::model::{
    Dynamics, GaussianNoise, Growth, Integrated, Integrator, JacobianMut, Lorenz63, Lorenz96,
    Model, Observation, RandomWalk, Step, Vjp, check_derivatives, linearize_observation,
    linearize_transition,
};
use optfilter::optim::{AnyOptimizer, GradientDescent, Preconditioned};
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;
use optfilter::{Series, Shapes};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn config() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 64;
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(2024);
    }
    config.failure_persistence = None;
    config
}

/// Sizes of a system, the rank of its H, and the seed of its numbers.
fn shapes() -> impl Strategy<Value = (usize, usize, usize, u64)> {
    (1usize..=5, 1usize..=4, any::<u64>())
        .prop_flat_map(|(n, m, seed)| (Just(n), Just(m), 1..=n.min(m), Just(seed)))
}

/// Measurements with gaps: a missing component or a missing row now and then.
fn with_gaps(mut ys: Vec<f64>, m: usize, stream: &mut Stream) -> Vec<f64> {
    for row in ys.chunks_mut(m) {
        match (stream.uniform() * 4.0) as usize {
            0 => row.fill(f64::NAN),
            1 => row[(stream.uniform() * m as f64) as usize] = f64::NAN,
            _ => {}
        }
    }
    ys
}

fn run<F>(filter: &F, start: &F::Belief, ys: &[f64]) -> Trace
where
    F: Filter,
    F::Belief: Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    let series = Series::new(ys, filter.dims().1.value()).unwrap().predict_first();
    filter.run(&mut start.clone(), &series).unwrap()
}

/// Everything two Gaussian filters say.
#[track_caller]
fn traces_close(found: &Trace, expected: &Trace, tolerance: f64, what: &str) {
    all_close(&found.means, &expected.means, tolerance, &format!("{what}: mean"));
    all_close(&found.covs, &expected.covs, tolerance, &format!("{what}: cov"));
    all_close_or_missing(
        &found.innovations,
        &expected.innovations,
        tolerance,
        &format!("{what}: innovation"),
    );
    all_close_or_missing(
        &found.innovation_covs,
        &expected.innovation_covs,
        tolerance,
        &format!("{what}: innovation cov"),
    );
    all_close(
        &found.log_likelihoods,
        &expected.log_likelihoods,
        tolerance,
        &format!("{what}: log-likelihood"),
    );
    all_close_or_missing(&found.nis, &expected.nis, tolerance, &format!("{what}: nis"));
    assert_eq!(found.observed, expected.observed);
}

proptest! {
    #![proptest_config(config())]

    /// On a linear-Gaussian system all Gaussian filters are the Kalman filter, for every number of
    /// iterations and every choice of sigma points.
    #[test]
    fn gaussian_filters_are_the_kalman_filter_on_linear_systems((n, m, rank, seed) in shapes()) {
        let mut stream = Stream::new(seed, 0, "system");
        let system = System::random(n, m, rank, &mut stream);
        let ys = with_gaps(system.measurements(8, &mut stream), m, &mut stream);
        let exact = run(&system.kalman(), &system.start, &ys);

        let extended = ExtendedKalmanFilter::new(system.model(), system.noise());
        traces_close(&run(&extended, &system.start, &ys), &exact, 1e-12, "extended");
        for iterations in [1, 2, 5, 20] {
            let iterated = IteratedKalmanFilter::new(system.model(), system.noise(), iterations).unwrap();
            let what = format!("{iterations} iterations");
            traces_close(&run(&iterated, &system.start, &ys), &exact, 1e-10, &what);
        }
        for points in [
            SigmaPoints::merwe(1.0, 2.0, 0.0),
            SigmaPoints::merwe(0.5, 2.0, 1.0),
            SigmaPoints::merwe(0.1, 2.0, 0.0),
            SigmaPoints::merwe(1.0, 3.0 - n as f64, 3.0 - n as f64),
            SigmaPoints::julier(1.0),
        ] {
            // Outer weights grow like 1 / alpha^2 and multiply the rounding of each point.
            let tolerance = 1e-10 / (points.alpha * points.alpha);
            let unscented = UnscentedKalmanFilter::new(system.model(), system.noise(), points).unwrap();
            let what = format!("{points:?}");
            traces_close(&run(&unscented, &system.start, &ys), &exact, tolerance, &what);
        }
    }

    /// K preconditioned gradient steps on the likelihood alone end at the Kalman mean, at every time step
    /// of a filter whose predictive covariance changes, whatever is missing (Section 3 of the paper).
    #[test]
    fn preconditioned_steps_are_the_kalman_filter((n, m, rank, seed) in shapes()) {
        let mut stream = Stream::new(seed, 0, "system");
        let system = System::random(n, m, rank, &mut stream);
        let ys = with_gaps(system.measurements(5, &mut stream), m, &mut stream);
        let kalman = system.kalman();
        for steps in [1, 2, 5, 50] {
            let mut exact = system.start.clone();
            let mut implicit = PointBelief::new(system.start.mean.clone()).unwrap();
            let none = Preconditioned::new(DMatrix::zeros(n, n)).unwrap();
            let likelihood = Gaussian::new(system.r.clone()).unwrap();
            let mut filter = ImplicitMap::new(system.model(), likelihood, none, steps).unwrap();
            for (k, y) in ys.chunks(m).enumerate() {
                let step = Step::even(k as u64 + 1, 1.0);
                kalman.predict(&mut exact, &[], &step).unwrap();
                filter.predict(&mut implicit, &[], &step).unwrap();
                let seen: Vec<usize> = (0..m).filter(|&i| !y[i].is_nan()).collect();
                if !seen.is_empty() {
                    let h = system.h.select_rows(&seen);
                    let r = system.r.select_rows(&seen).select_columns(&seen);
                    let matrix = learning_rate_matrix(&exact.cov, &h, &r, steps).unwrap();
                    filter.set_optimizer(Preconditioned::new(matrix).unwrap());
                }
                kalman.update(&mut exact, y, &[], &step).unwrap();
                filter.update(&mut implicit, y, &[], &step).unwrap();
                let what = format!("K = {steps} at {k}");
                all_close(implicit.mean.as_slice(), exact.mean.as_slice(), 1e-10, &what);
            }
        }
    }

    /// prior -> M -> prior and M -> prior -> M are the identity, for any R and any rank of H.
    #[test]
    fn prior_to_matrix_and_back_is_the_identity((n, m, rank, seed) in shapes()) {
        let mut stream = Stream::new(seed, 0, "equivalence");
        let (prior, r) = (covariance(n, 0.1, &mut stream), covariance(m, 0.1, &mut stream));
        let h = of_rank(m, n, rank, &mut stream);
        // The largest and the least nonzero ratio r of curvature to prior precision. Two things magnify
        // rounding: on the way back 1 - s = (1 + r)^(-1/K), so an error of s grows 1 + r times; and the
        // formulas jump between directions that are hardly seen (lambda = 1/K) and not seen (lambda = 1), so
        // an error of the angle between the two, largest / least times rounding, grows K times.
        let g = Cholesky::new(prior.clone()).unwrap().l();
        let seen = r.clone().cholesky().unwrap().l().solve_lower_triangular(&(&h * g)).unwrap();
        let mut ratios: Vec<f64> = seen.singular_values().iter().map(|v| v * v).collect();
        ratios.sort_by(f64::total_cmp);
        let (largest, least) = (ratios[ratios.len() - 1], ratios[ratios.len() - rank]);
        for steps in [1, 2, 5, 50] {
            let matrix = learning_rate_matrix(&prior, &h, &r, steps).unwrap();
            let back = implied_prior(&matrix, &h, &r, steps).unwrap();
            let tolerance = 1e-13 * (10.0 + largest + f64::from(steps) * largest / least);
            matrices_close(&back, &prior, tolerance, &format!("prior, K = {steps}"));

            let rate = 0.7 * largest_rate(&h, &r).unwrap();
            let plain = DMatrix::identity(n, n) * rate;
            let implied = implied_prior_of_rate(rate, &h, &r, steps).unwrap();
            // 50 steps of s = 0.7 reduce an error 1e26-fold: the prior they imply is flat beyond double
            // precision, so the way back is tried where (1 - s)^-K is below 1e6.
            if steps <= 5 {
                let again = learning_rate_matrix(&implied, &h, &r, steps).unwrap();
                let grown = 0.3f64.powi(-(steps as i32));
                matrices_close(&again, &plain, 1e-12 * grown, &format!("rate, K = {steps}"));
            }
        }
    }

    /// A rate at or above the largest admissible one is an error that names it; just below, it is not.
    #[test]
    fn the_largest_admissible_rate_is_the_border((n, m, rank, seed) in shapes()) {
        let mut stream = Stream::new(seed, 0, "equivalence");
        let r = covariance(m, 0.1, &mut stream);
        let h = of_rank(m, n, rank, &mut stream);
        let largest = largest_rate(&h, &r).unwrap();
        prop_assert!(implied_prior_of_rate(largest * (1.0 - 1e-9), &h, &r, 3).is_ok());
        let error = implied_prior_of_rate(largest * 1.5, &h, &r, 3).unwrap_err();
        match error {
            optfilter::equivalence::EquivalenceError::LearningRateTooLarge {
                largest_s, admissible_scale, largest_rate,
            } => {
                close(largest_s, 1.5, 1e-12, "s");
                close(admissible_scale, 1.0 / 1.5, 1e-12, "scale");
                close(largest_rate.unwrap() / largest, 1.0, 1e-12, "rate");
            }
            other => prop_assert!(false, "{other}"),
        }
    }

    /// The compensated covariance gives, under R = I, the gain that the true one gives under R.
    #[test]
    fn a_compensated_covariance_makes_up_for_unit_noise((n, m, _, seed) in shapes()) {
        let m = m.min(n);
        let mut stream = Stream::new(seed, 0, "equivalence");
        let (cov, r) = (covariance(n, 0.1, &mut stream), covariance(m, 0.1, &mut stream));
        // Full row rank with room: singular values of at least 0.5.
        let svd = normal_matrix(m, n, &mut stream).svd(true, true);
        let kept = DMatrix::from_diagonal(&svd.singular_values.map(|s| s + 0.5));
        let h = svd.u.unwrap() * kept * svd.v_t.unwrap();
        let gain = |p: &DMatrix<f64>, r: &DMatrix<f64>| {
            let s = &h * p * h.transpose() + r;
            p * h.transpose() * s.try_inverse().unwrap()
        };
        let x = compensated_cov(&cov, &h, &r).unwrap();
        let unit = DMatrix::identity(m, m);
        matrices_close(&gain(&x, &unit), &gain(&cov, &r), 1e-10, "gain");
        // Nothing to make up for where R = I and H is square.
        if m == n {
            matrices_close(&compensated_cov(&cov, &h, &unit).unwrap(), &cov, 1e-10, "R = I");
        }
    }

    /// With the learning-rate matrix of the Kalman prior, error bars are the Kalman covariance.
    #[test]
    fn error_bars_of_kalman_steps_are_the_kalman_covariance((n, m, rank, seed) in shapes()) {
        let mut stream = Stream::new(seed, 0, "system");
        let system = System::random(n, m, rank, &mut stream);
        let ys = with_gaps(system.measurements(5, &mut stream), m, &mut stream);
        let kalman = system.kalman();
        for steps in [1, 5, 50] {
            let (mut exact, mut bars) = (system.start.clone(), system.start.clone());
            for (k, y) in ys.chunks(m).enumerate() {
                let step = Step::even(k as u64 + 1, 1.0);
                kalman.predict(&mut exact, &[], &step).unwrap();
                let seen: Vec<usize> = (0..m).filter(|&i| !y[i].is_nan()).collect();
                let matrix = if seen.is_empty() {
                    DMatrix::identity(n, n)
                } else {
                    let h = system.h.select_rows(&seen);
                    let r = system.r.select_rows(&seen).select_columns(&seen);
                    learning_rate_matrix(&exact.cov, &h, &r, steps).unwrap()
                };
                let likelihood = Gaussian::new(system.r.clone()).unwrap();
                let optimizer = Preconditioned::new(matrix).unwrap();
                let implicit =
                    ImplicitMap::new(system.model(), likelihood, optimizer, steps).unwrap();
                let filter = ErrorBars::new(implicit, system.noise()).unwrap();
                filter.predict(&mut bars, &[], &step).unwrap();
                let ours = filter.update(&mut bars, y, &[], &step).unwrap();
                let theirs = kalman.update(&mut exact, y, &[], &step).unwrap();
                let what = format!("K = {steps} at {k}");
                all_close(bars.mean.as_slice(), exact.mean.as_slice(), 1e-10, &what);
                all_close(bars.cov.as_slice(), exact.cov.as_slice(), 1e-10, &what);
                close(ours.log_likelihood.unwrap(), theirs.log_likelihood.unwrap(), 1e-10, &what);
                all_close_or_missing(&[ours.nis.unwrap()], &[theirs.nis.unwrap()], 1e-10, &what);
            }
        }
    }

    /// A preconditioned step is a natural-gradient step of q = N(x, M) with M fixed, the expectation of
    /// the loss under q taken by Gauss-Hermite quadrature.
    #[test]
    fn a_step_is_a_natural_gradient_step(n in 1usize..=3, m in 1usize..=3, seed in any::<u64>()) {
        let mut stream = Stream::new(seed, 0, "natural gradient");
        let system = System::random(n, m, n.min(m), &mut stream);
        let matrix = covariance(n, 0.1, &mut stream);
        let (x, y) = (normal_matrix(n, 1, &mut stream), normal_matrix(m, 1, &mut stream));
        let likelihood = Gaussian::new(system.r.clone()).unwrap();
        let step_to = |next: &DVector<f64>| {
            let optimizer = Preconditioned::new(matrix.clone()).unwrap();
            let filter =
                ImplicitMap::new(system.model(), likelihood.clone(), optimizer, 1).unwrap();
            let mut belief = PointBelief::new(next.clone()).unwrap();
            filter.update(&mut belief, y.as_slice(), &[], &Step::even(1, 1.0)).unwrap();
            belief.mean
        };
        let gradient = expected_gradient(&likelihood, &system.h, &matrix, &x, &y);
        // The natural parameter M^-1 x of q moves by minus the gradient by its expectation parameter x.
        let factor = Cholesky::new(matrix.clone()).unwrap();
        let natural = factor.solve(&x) - gradient;
        let moved = &matrix * natural;
        let stepped = step_to(&x.column(0).into_owned());
        // Three-point quadrature and central differences are both exact for a quadratic loss.
        all_close(moved.as_slice(), stepped.as_slice(), 1e-10, "natural-gradient step");
    }

    /// With enough steps the variational filter is the Kalman filter under its stated prior.
    #[test]
    fn the_variational_filter_converges_to_the_kalman_mean((n, m, rank, seed) in shapes()) {
        let mut stream = Stream::new(seed, 0, "system");
        let system = System::random(n, m, rank, &mut stream);
        let prior = covariance(n, 0.5, &mut stream);
        let ys = with_gaps(system.measurements(3, &mut stream), m, &mut stream);
        let precision = prior.clone().try_inverse().unwrap();
        let curvature = system.h.transpose() * system.r.clone().try_inverse().unwrap() * &system.h;
        let hessian = (&curvature + &precision).symmetric_eigen().eigenvalues;
        let (largest, least) = (hessian.max(), precision.symmetric_eigen().eigenvalues.min());
        // The error shrinks by 1 - least/largest per step; 30 e-foldings reach 1e-13.
        let steps = (30.0 * largest / least).ceil() as u32;
        let filter = VariationalKalmanFilter::new(
            system.model(),
            Gaussian::new(system.r.clone()).unwrap(),
            prior.clone(),
            GradientDescent::new(1.0 / largest).unwrap(),
            steps,
        ).unwrap();
        let kalman = system.kalman();
        let mut belief = PointBelief::new(system.start.mean.clone()).unwrap();
        for (k, y) in ys.chunks(m).enumerate() {
            let step = Step::even(k as u64 + 1, 1.0);
            filter.predict(&mut belief, &[], &step).unwrap();
            let mut exact = GaussianBelief::new(belief.mean.clone(), prior.clone()).unwrap();
            filter.update(&mut belief, y, &[], &step).unwrap();
            kalman.update(&mut exact, y, &[], &step).unwrap();
            all_close(belief.mean.as_slice(), exact.mean.as_slice(), 1e-10, "variational");
        }
    }

    /// Measuring a state in another unit changes the numbers by that unit and nothing else. Units are powers
    /// of two, up to a million either way, so that every product and every root is exact: no tolerance.
    #[test]
    fn a_change_of_units_changes_nothing_else((n, m, rank, seed) in shapes()) {
        let mut stream = Stream::new(seed, 0, "system");
        let system = System::random(n, m, rank, &mut stream);
        let ys = with_gaps(system.measurements(6, &mut stream), m, &mut stream);
        let unit: Vec<f64> =
            (0..n).map(|_| 2f64.powi((stream.uniform() * 41.0) as i32 - 20)).collect();
        let (into, back) = (
            DMatrix::from_diagonal(&DVector::from_vec(unit.clone())),
            DMatrix::from_diagonal(&DVector::from_iterator(n, unit.iter().map(|v| 1.0 / v))),
        );
        let cov_into = |p: &DMatrix<f64>| &into * p * &into;
        let other = System {
            f: &into * &system.f * &back,
            h: &system.h * &back,
            q: cov_into(&system.q),
            r: system.r.clone(),
            start: GaussianBelief::new(&into * &system.start.mean, cov_into(&system.start.cov)).unwrap(),
        };
        let same = |a: &Trace, b: &Trace, what: &str| {
            let mean: Vec<f64> = a.means.chunks(n).flat_map(|x| (0..n).map(|i| x[i] * unit[i])).collect();
            let cov: Vec<f64> = a
                .covs
                .chunks(n * n)
                .flat_map(|p| (0..n * n).map(|k| p[k] * unit[k / n] * unit[k % n]))
                .collect();
            same_bits(&b.means, &mean, what);
            same_bits(&b.covs, &cov, what);
            same_bits(&b.innovations, &a.innovations, what);
            same_bits(&b.innovation_covs, &a.innovation_covs, what);
            same_bits(&b.log_likelihoods, &a.log_likelihoods, what);
            same_bits(&b.nis, &a.nis, what);
        };
        macro_rules! same {
            ($what:expr, $start:expr, $make:expr) => {
                let (make, start) = ($make, $start);
                let (a, b) = (make(&system), make(&other));
                same(&run(&a, &start(&system), &ys), &run(&b, &start(&other), &ys), $what);
            };
        }
        let gaussian = |s: &System| s.start.clone();
        same!("Kalman", gaussian, |s: &System| s.kalman());
        same!("extended", gaussian, |s: &System| ExtendedKalmanFilter::new(s.model(), s.noise()));
        same!("iterated", gaussian, |s: &System| IteratedKalmanFilter::new(s.model(), s.noise(), 3).unwrap());
        for points in [SigmaPoints::merwe(0.5, 2.0, 1.0), SigmaPoints::julier(1.0)] {
            same!("unscented", gaussian, |s: &System| {
                UnscentedKalmanFilter::new(s.model(), s.noise(), points).unwrap()
            });
        }
        let likelihood = |s: &System| Gaussian::new(s.r.clone()).unwrap();
        let particles =
            |s: &System| ParticleBelief::new(&s.start, 40, Stream::new(seed, 1, "particles")).unwrap();
        same!("particle", particles, |s: &System| {
            let resampling = Resampling::Below(Scheme::Systematic, 0.5);
            ParticleFilter::new(s.model(), likelihood(s), s.noise(), resampling).unwrap()
        });
        let members = |s: &System| {
            EnsembleBelief::new(&s.start, 11, Stream::new(seed, 1, "members")).unwrap()
        };
        same!("ensemble", members, |s: &System| {
            EnsembleKalmanFilter::new(s.model(), s.noise(), 1.05).unwrap().rotated()
        });
        // An optimizer has a unit too: that of its learning-rate matrix.
        let descent = |s: &System| Preconditioned::new(&s.q * 0.05).unwrap();
        let implicit =
            |s: &System| ImplicitMap::new(s.model(), likelihood(s), descent(s), 4).unwrap();
        let point = |s: &System| PointBelief::new(s.start.mean.clone()).unwrap();
        same!("implicit", point, implicit);
        same!("error bars", gaussian, |s: &System| ErrorBars::new(implicit(s), s.noise()).unwrap());
        let point = |s: &System| PointBelief::new(s.start.mean.clone()).unwrap();
        same!("variational", point, |s: &System| {
            VariationalKalmanFilter::new(s.model(), likelihood(s), s.q.clone(), descent(s), 4).unwrap()
        });
    }

    /// A measurement with a missing component is the measurement without it.
    #[test]
    fn a_missing_component_is_a_smaller_measurement(
        n in 1usize..=4, m in 2usize..=4, gone in 0usize..4, seed in any::<u64>()
    ) {
        let gone = gone % m;
        let mut stream = Stream::new(seed, 0, "system");
        let system = System::random(n, m, n.min(m), &mut stream);
        let mut reduced = system.clone();
        let kept: Vec<usize> = (0..m).filter(|&i| i != gone).collect();
        reduced.h = system.h.select_rows(&kept);
        reduced.r = system.r.select_rows(&kept).select_columns(&kept);
        let mut ys = system.measurements(4, &mut stream);
        let few: Vec<f64> = ys
            .chunks(m)
            .flat_map(|row| kept.iter().map(|&i| row[i]).collect::<Vec<_>>())
            .collect();
        ys.iter_mut().skip(gone).step_by(m).for_each(|v| *v = f64::NAN);

        let alike = |a: &Trace, b: &Trace, what: &str| {
            all_close(&a.means, &b.means, 1e-10, what);
            all_close(&a.covs, &b.covs, 1e-10, what);
            all_close(&a.log_likelihoods, &b.log_likelihoods, 1e-10, what);
            all_close(&a.nis, &b.nis, 1e-10, what);
            assert_eq!(a.observed, b.observed);
            for (row, short) in a.innovations.chunks(m).zip(b.innovations.chunks(m - 1)) {
                assert!(row[gone].is_nan(), "{what}");
                let kept: Vec<f64> = kept.iter().map(|&i| row[i]).collect();
                all_close(&kept, short, 1e-10, what);
            }
        };
        let start = &system.start;
        alike(&run(&system.kalman(), start, &ys), &run(&reduced.kalman(), start, &few), "Kalman");
        let extended = |s: &System| ExtendedKalmanFilter::new(s.model(), s.noise());
        alike(
            &run(&extended(&system), start, &ys), &run(&extended(&reduced), start, &few), "extended",
        );
        let iterated = |s: &System| IteratedKalmanFilter::new(s.model(), s.noise(), 3).unwrap();
        alike(
            &run(&iterated(&system), start, &ys), &run(&iterated(&reduced), start, &few), "iterated",
        );
        let unscented = |s: &System| {
            UnscentedKalmanFilter::new(s.model(), s.noise(), SigmaPoints::merwe(1.0, 2.0, 0.5)).unwrap()
        };
        alike(
            &run(&unscented(&system), start, &ys),
            &run(&unscented(&reduced), start, &few),
            "unscented",
        );
        let likelihood = |s: &System| Gaussian::new(s.r.clone()).unwrap();
        let particle = |s: &System| {
            let resampling = Resampling::Always(Scheme::Systematic);
            ParticleFilter::new(s.model(), likelihood(s), s.noise(), resampling).unwrap()
        };
        let particles = ParticleBelief::new(start, 40, Stream::new(seed, 1, "particles")).unwrap();
        let ensemble = |s: &System| EnsembleKalmanFilter::new(s.model(), s.noise(), 1.0).unwrap().rotated();
        let members = EnsembleBelief::new(start, 9, Stream::new(seed, 1, "members")).unwrap();
        alike(
            &run(&ensemble(&system), &members, &ys),
            &run(&ensemble(&reduced), &members, &few),
            "ensemble",
        );
        alike(
            &run(&particle(&system), &particles, &ys),
            &run(&particle(&reduced), &particles, &few),
            "particle",
        );
        let point = PointBelief::new(start.mean.clone()).unwrap();
        for name in AnyOptimizer::NAMES {
            let optimizer = AnyOptimizer::from_name(name, 0.01, None).unwrap();
            let implicit =
                |s: &System| ImplicitMap::new(s.model(), likelihood(s), optimizer, 4).unwrap();
            alike(
                &run(&implicit(&system), &point, &ys),
                &run(&implicit(&reduced), &point, &few),
                name,
            );
            let bars = |s: &System| ErrorBars::new(implicit(s), s.noise()).unwrap();
            alike(
                &run(&bars(&system), start, &ys),
                &run(&bars(&reduced), start, &few),
                &format!("error bars of {name}"),
            );
        }
        let point = PointBelief::new(start.mean.clone()).unwrap();
        let variational = |s: &System| {
            let optimizer = GradientDescent::new(0.01).unwrap();
            VariationalKalmanFilter::new(s.model(), likelihood(s), s.q.clone(), optimizer, 4).unwrap()
        };
        alike(
            &run(&variational(&system), &point, &ys),
            &run(&variational(&reduced), &point, &few),
            "variational",
        );
    }
}

/// The gradient by m of E[loss(y, H x)] over x ~ N(m, M): central differences of three-point
/// Gauss-Hermite quadrature in every direction.
fn expected_gradient<L: Likelihood>(
    likelihood: &L,
    h: &DMatrix<f64>,
    cov: &DMatrix<f64>,
    mean: &DMatrix<f64>,
    y: &DMatrix<f64>,
) -> DVector<f64> {
    let n = mean.nrows();
    let l = Cholesky::new(cov.clone()).unwrap().l();
    // Nodes and weights of the standard normal, exact up to degree five.
    let nodes = [(-3f64.sqrt(), 1.0 / 6.0), (0.0, 2.0 / 3.0), (3f64.sqrt(), 1.0 / 6.0)];
    let expectation = |mean: &DMatrix<f64>| {
        let mut sum = 0.0;
        for k in 0..3usize.pow(n as u32) {
            let (mut z, mut weight, mut digits) = (DVector::zeros(n), 1.0, k);
            for i in 0..n {
                let (node, w) = nodes[digits % 3];
                (z[i], weight, digits) = (node, weight * w, digits / 3);
            }
            let eta = h * (mean + &l * z);
            sum += weight * likelihood.loss(y.as_slice(), eta.as_slice(), Observed::All);
        }
        sum
    };
    DVector::from_fn(n, |i, _| {
        let (mut up, mut down) = (mean.clone(), mean.clone());
        (up[i], down[i]) = (mean[i] + 0.5, mean[i] - 0.5);
        expectation(&up) - expectation(&down)
    })
}

#[test]
fn the_quadrature_notices_a_loss_that_is_not_quadratic() {
    // Where the loss is not quadratic the expectation's gradient is not the gradient at the mean, and the
    // two steps differ: the equality above says something.
    let (h, cov) = (DMatrix::identity(1, 1), DMatrix::identity(1, 1));
    let (x, y) = (DMatrix::from_element(1, 1, 0.5), DMatrix::from_element(1, 1, 1.5));
    let heavy = StudentT::new(2.0, 0.5).unwrap();
    let expected = expected_gradient(&heavy, &h, &cov, &x, &y)[0];
    let mut at_mean = [0.0];
    heavy.score(y.as_slice(), x.as_slice(), Observed::All, &mut at_mean);
    assert!((expected - at_mean[0]).abs() > 0.1, "{expected} and {}", at_mean[0]);
}

/// Automatic (or hand-written) Jacobians of a model against central differences at random points.
fn derivatives_hold<M: Model>(model: &M, u: &[f64], scale: f64, what: &str)
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    let (n, m) = (model.state_dim(), model.output_dim());
    let mut stream = Stream::new(9, 0, "derivatives");
    for trial in 0..10u64 {
        let step = Step { time: 0.37 * (trial + 1) as f64, ..Step::even(trial + 1, 0.02) };
        let x: Vec<f64> = (0..n.value()).map(|_| scale * stream.normal()).collect();
        check_derivatives(model, &x, u, &step).unwrap();
        let (value, f) = linearize_transition(model, &x, u, &step);
        let (seen, h) = linearize_observation(model, n, &x, u, &step);
        let mut direct = vec![0.0; n.value()];
        model.transition(&x, u, &step, &mut direct);
        same_bits(value.as_slice(), &direct, what);
        // Central differences carry d^2 f''' / 6 and rounding of about 1e-16 |f| / d.
        let d = 1e-5 * scale;
        for j in 0..n.value() {
            let at = |shift: f64| {
                let mut x = x.clone();
                x[j] += shift;
                let (mut to, mut y) = (vec![0.0; n.value()], vec![0.0; m.value()]);
                model.transition(&x, u, &step, &mut to);
                model.observe(&x, u, &step, &mut y);
                (to, y)
            };
            let ((up, y_up), (down, y_down)) = (at(d), at(-d));
            let (grown, y_grown) = (1.0 + value.amax(), 1.0 + seen.amax());
            for i in 0..n.value() {
                let slope = (up[i] - down[i]) / (2.0 * d);
                assert!(
                    (slope - f[(i, j)]).abs() < 1e-7 * grown,
                    "{what}: df{i}/dx{j} = {} but {slope} by differences",
                    f[(i, j)]
                );
            }
            for i in 0..m.value() {
                let slope = (y_up[i] - y_down[i]) / (2.0 * d);
                assert!((slope - h[(i, j)]).abs() < 1e-7 * y_grown, "{what}: dh{i}/dx{j}");
            }
        }
    }
}

#[test]
fn derivatives_agree_with_finite_differences() {
    derivatives_hold(&Growth, &[], 3.0, "growth");
    derivatives_hold(&Lorenz63::default().rk4(), &[], 5.0, "Lorenz 63, Runge-Kutta");
    derivatives_hold(&Lorenz63::default().euler(), &[], 5.0, "Lorenz 63, Euler");
    let fine = Integrated { substeps: 4, ..Integrated::new(Lorenz63::default(), Integrator::Rk4) };
    derivatives_hold(&fine, &[], 5.0, "Lorenz 63, substeps");
    derivatives_hold(&Lorenz96::new(Const::<4>, 8.0).rk4(), &[], 4.0, "Lorenz 96 of 4");
    for n in [1, 2, 3, 5, 8, 9, 40] {
        derivatives_hold(&Lorenz96::new(Dyn(n), 8.0).rk4(), &[], 4.0, &format!("Lorenz 96 of {n}"));
        derivatives_hold(&Lorenz96::new(Dyn(n), 8.0).euler(), &[], 4.0, "Lorenz 96, Euler");
    }
    derivatives_hold(&RandomWalk::new(Dyn(6)), &[], 1.0, "random walk");
    let mut stream = Stream::new(10, 0, "derivatives");
    let system = System::random(5, 3, 2, &mut stream);
    let inputs = vec![DVector::from_element(5, 0.3), DVector::from_element(5, -1.0)];
    let driven = system.model().with_inputs(inputs).unwrap();
    derivatives_hold(&driven, &[2.0, 0.5], 1.0, "linear with inputs");
    derivatives_hold(&RangeBearing::constant_velocity(0.5), &[], 4.0, "range and bearing");
}

/// A model with a slip in a hand-written derivative of its choice.
struct Slip {
    transition: bool,
    observation: bool,
    vjp: bool,
}

impl Dynamics for Slip {
    type State = Const<2>;
    fn state_dim(&self) -> Const<2> {
        Const
    }
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        (out[0], out[1]) = (x[0] * x[1], x[1].sin());
    }
    fn transition_jacobian(
        &self,
        x: &[f64],
        _u: &[f64],
        _step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        (out[(0, 0)], out[(0, 1)]) = (x[1], x[0]);
        out[(1, 1)] = if self.transition { -x[1].cos() } else { x[1].cos() };
        true
    }
}

impl Observation for Slip {
    type Output = Const<1>;
    fn output_dim(&self) -> Const<1> {
        Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out[0] = x[0].square();
    }
    fn observation_jacobian(
        &self,
        x: &[f64],
        _u: &[f64],
        _step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        out[(0, 0)] = if self.observation { x[0] } else { 2.0 * x[0] };
        true
    }
    fn vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        Some(|model, x, _, _, r, out| {
            out[0] = x[0].scale(if model.vjp { 1.0 } else { 2.0 }) * r[0];
            out[1] = S::ZERO;
        })
    }
}

#[test]
fn a_slip_in_a_hand_written_derivative_is_named() {
    let slip = |transition, observation, vjp| {
        let model = Slip { transition, observation, vjp };
        check_derivatives(&model, &[0.7, 0.3], &[], &Step::even(1, 1.0))
    };
    assert_eq!(slip(false, false, false), Ok(()));
    let error = slip(true, false, false).unwrap_err();
    assert_eq!((error.function, error.row, error.column), ("transition", 1, 1));
    let error = slip(false, true, false).unwrap_err();
    assert_eq!((error.function, error.row, error.column), ("observation", 0, 0));
    let error = slip(false, false, true).unwrap_err();
    assert_eq!((error.function, error.hand), ("vjp", 0.7));
}

/// Iterating the update of a nonlinear measurement ends where the posterior is flat.
#[test]
fn the_iterated_filter_ends_at_the_posterior_mode() {
    let model = RangeBearing::constant_velocity(0.5);
    let r = matrix![0.01, 0.0; 0.0, 0.0025];
    let noise = GaussianNoise::new(SMatrix::identity() * 0.1, r).unwrap();
    let start =
        GaussianBelief::new(vector![3.0, 2.0, 0.1, -0.2], SMatrix::identity() * 0.5).unwrap();
    let y = [4.5, 0.9];
    let step = Step::even(1, 0.5);
    let slope_after = |iterations: u32| {
        let filter = IteratedKalmanFilter::new(model.clone(), noise.clone(), iterations).unwrap();
        let mut belief = start.clone();
        filter.update(&mut belief, &y, &[], &step).unwrap();
        let (seen, h) =
            linearize_observation(&model, Const::<4>, belief.mean.as_slice(), &[], &step);
        let residual = vector![y[0] - seen[0], y[1] - seen[1]];
        let pull = (belief.mean - start.mean) * 2.0; // P^-1 (x - m)
        (pull - h.transpose() * r.try_inverse().unwrap() * residual).amax()
    };
    // One linearisation is far from flat; Gauss-Newton with a small residual closes in on the mode.
    assert!(slope_after(1) > 1e-2, "{}", slope_after(1));
    assert!(slope_after(60) < 1e-8, "{}", slope_after(60));
}

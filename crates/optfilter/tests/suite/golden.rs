//! Our numbers against those of programs that are not ours: statsmodels, filterpy, optax, numpy, scipy.
//!
//! `golden/README.md` says what each file holds and how exact it is. Tolerances are relative to
//! 1 + |entry| unless said otherwise, and follow from there:
//! - Kalman: 1e-11. The script's own cross-checks (another filter, the joint density) hold to 1e-10 and
//!   differ by about 1e-12 in practice; the longest sum has 50 terms.
//! - EKF: 1e-13 times (10 + the file's sensitivity to its start), the growth of one rounding error.
//! - UKF: ten times the error that the file's numbers have against 80-bit arithmetic.
//! - Optimizers: 1e-13 times (1 + the file's rounding growth), absolute.
//! - Learning-rate matrices and priors: the 1e-12 and 1e-11 of the largest entry to which the file was
//!   checked at 60 digits.

use crate::common::{
    RangeBearing, all_close, close, golden, matrices_close, matrix, numbers, same_bits, vector,
};
use nalgebra::{Const, DMatrix, DefaultAllocator, Dim, Dyn, OMatrix, OVector, U1};
use optfilter::drive::Run;
use optfilter::equivalence::{implied_prior, implied_prior_of_rate, learning_rate_matrix};
use optfilter::filter::{
    ExtendedKalmanFilter, Filter, GaussianBelief, ImplicitMap, KalmanFilter, PointBelief,
    SigmaPoints, UnscentedKalmanFilter,
};
use optfilter::metrics::chi_square_band;
use optfilter::model::likelihood::Gaussian;
use optfilter::model::{GaussianNoise, Growth, Linear, Lorenz63, Step};
use optfilter::optim::{
    Adadelta, Adagrad, Adam, AnyOptimizer, GradientDescent, Momentum, Objective, Optimizer,
    Preconditioned, RmsProp, descend,
};
use optfilter::scalar::{Lanes, Scalar};
use optfilter::{Series, Shapes};
use serde_json::Value;

/// A matrix of the wanted size from a list of rows.
fn sized<R: Dim, C: Dim>(value: &Value, rows: R, columns: C) -> OMatrix<f64, R, C>
where
    DefaultAllocator: nalgebra::allocator::Allocator<R, C>,
{
    OMatrix::from_row_iterator_generic(rows, columns, numbers(value))
}

/// The noise and the start of a system.
fn given<N: Dim, M: Dim>(system: &Value, n: N, m: M) -> (GaussianNoise<N, M>, GaussianBelief<N>)
where
    DefaultAllocator: Shapes<N, M>,
{
    let noise = GaussianNoise::new(sized(&system["Q"], n, n), sized(&system["R"], m, m)).unwrap();
    let mean = OVector::from_iterator_generic(n, U1, numbers(&system["m0"]));
    (noise, GaussianBelief::new(mean, sized(&system["P0"], n, n)).unwrap())
}

/// Compares a matrix with a list of rows in which nulls mark what is missing.
#[track_caller]
fn entries_close<R: Dim, C: Dim>(
    found: &OMatrix<f64, R, C>,
    expected: &Value,
    tolerance: f64,
    what: &str,
) where
    DefaultAllocator: nalgebra::allocator::Allocator<R, C>,
{
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len(), "{what}");
    for i in 0..found.nrows() {
        for j in 0..found.ncols() {
            let (wanted, found) = (expected[i * found.ncols() + j], found[(i, j)]);
            if wanted.is_nan() {
                assert!(found.is_nan(), "{what}: missing ({i}, {j}) is {found}");
            } else {
                close(found, wanted, tolerance, &format!("{what} ({i}, {j})"));
            }
        }
    }
}

/// Runs a Gaussian filter through a system and compares everything it says with `expected`, step by
/// step; then the whole-series driver with the steps.
fn follow<N: Dim, M: Dim, F>(
    filter: &F,
    start: &GaussianBelief<N>,
    system: &Value,
    expected: &Value,
    tolerance: f64,
) where
    F: Filter<State = N, Output = M, Belief = GaussianBelief<N>>,
    DefaultAllocator: Shapes<N, M>,
{
    let name = system["name"].as_str().unwrap();
    let dt = system.get("dt").and_then(Value::as_f64).unwrap_or(1.0);
    let m = filter.dims().1.value();
    let ys = numbers(&system["ys"]);
    let mut belief = start.clone();
    let (mut means, mut sum) = (Vec::new(), 0.0);
    for (k, y) in ys.chunks(m).enumerate() {
        let step = Step::even(k as u64 + 1, dt);
        let what = |quantity: &str| format!("{name} {} {quantity} at {k}", expected["points"]);
        filter.predict(&mut belief, &[], &step).unwrap();
        entries_close(
            &belief.mean,
            &expected["predicted_mean"][k],
            tolerance,
            &what("predicted_mean"),
        );
        entries_close(
            &belief.cov,
            &expected["predicted_cov"][k],
            tolerance,
            &what("predicted_cov"),
        );
        let update = filter.update(&mut belief, y, &[], &step).unwrap();
        entries_close(
            &belief.mean,
            &expected["filtered_mean"][k],
            tolerance,
            &what("filtered_mean"),
        );
        entries_close(&belief.cov, &expected["filtered_cov"][k], tolerance, &what("filtered_cov"));
        for (i, wanted) in numbers(&expected["innovation"][k]).into_iter().enumerate() {
            let (found, what) = (update.innovation[i], what("innovation"));
            if wanted.is_nan() {
                assert!(found.is_nan(), "{what}: missing {i} is {found}");
            } else {
                // A difference of two numbers of the measurement's size is as exact as they are.
                close(y[i] - found, y[i] - wanted, tolerance, &what);
            }
        }
        entries_close(
            &update.innovation_cov.unwrap(),
            &expected["innovation_cov"][k],
            tolerance,
            &what("innovation_cov"),
        );
        let log_likelihood = update.log_likelihood.unwrap();
        close(
            log_likelihood,
            expected["loglik_obs"][k].as_f64().unwrap(),
            tolerance,
            &what("loglik"),
        );
        assert_eq!(update.observed, y.iter().filter(|v| !v.is_nan()).count());
        sum += log_likelihood;
        means.extend_from_slice(belief.mean.as_slice());
    }
    close(sum, expected["loglik"].as_f64().unwrap(), tolerance, &format!("{name} loglik"));

    let series = Series::new(&ys, m).unwrap().with_dt(dt).unwrap().predict_first();
    let mut belief = start.clone();
    let trace = filter.run(&mut belief, &series).unwrap();
    same_bits(&trace.means, &means, "the driver's means");
    assert_eq!(trace.log_likelihood(), Some(sum));
}

#[test]
fn kalman_equals_statsmodels_with_missing_values() {
    for system in golden("kalman_statsmodels")["systems"].as_array().unwrap() {
        let (n, m) = (matrix(&system["F"]).nrows(), matrix(&system["H"]).nrows());
        let model = Linear::new(matrix(&system["F"]), matrix(&system["H"])).unwrap();
        let (noise, start) = given(system, Dyn(n), Dyn(m));
        let missing = numbers(&system["ys"]).iter().filter(|v| v.is_nan()).count();
        assert!(missing > 0, "the file should test gaps");
        follow(&KalmanFilter::new(model.clone(), noise.clone()), &start, system, system, 1e-11);
        // The extended filter is the same on a linear model.
        follow(&ExtendedKalmanFilter::new(model, noise), &start, system, system, 1e-11);
        close(
            system["loglik"].as_f64().unwrap(),
            system["joint_loglik"].as_f64().unwrap(),
            1e-10,
            "joint density",
        );
    }
}

#[test]
fn extended_equals_filterpy() {
    for system in golden("ekf_filterpy")["systems"].as_array().unwrap() {
        let tolerance = 1e-13 * (10.0 + system["sensitivity_to_m0"].as_f64().unwrap());
        match system["name"].as_str().unwrap() {
            "growth" => {
                let (noise, start) = given(system, Const::<1>, Const::<1>);
                follow(
                    &ExtendedKalmanFilter::new(Growth, noise),
                    &start,
                    system,
                    system,
                    tolerance,
                );
            }
            "lorenz" => {
                let (noise, start) = given(system, Const::<3>, Const::<3>);
                let filter = ExtendedKalmanFilter::new(lorenz(system).rk4(), noise);
                follow(&filter, &start, system, system, tolerance);
            }
            "range_bearing" => {
                let (noise, start) = given(system, Const::<4>, Const::<2>);
                let model = RangeBearing { f: matrix(&system["F"]), wraps: true };
                follow(&ExtendedKalmanFilter::new(model, noise), &start, system, system, tolerance);
            }
            other => panic!("no model for {other}"),
        }
    }
}

fn lorenz(system: &Value) -> Lorenz63 {
    let constant = |name: &str| system[name].as_f64().unwrap();
    Lorenz63 { sigma: constant("sigma"), rho: constant("rho"), beta: constant("beta") }
}

#[test]
fn unscented_equals_filterpy() {
    for system in golden("ukf_filterpy")["systems"].as_array().unwrap() {
        for case in system["cases"].as_array().unwrap() {
            let parameter = |name: &str| case["points"][name].as_f64().unwrap();
            let points = match case["points"]["kind"].as_str().unwrap() {
                "merwe" => {
                    SigmaPoints::merwe(parameter("alpha"), parameter("beta"), parameter("kappa"))
                }
                "julier" => SigmaPoints::julier(parameter("kappa")),
                other => panic!("no points called {other}"),
            };
            let name = system["name"].as_str().unwrap();
            let tolerance = 10.0
                * match (name, points.alpha) {
                    ("growth", 0.1) => 3.2e-12,
                    ("growth", 0.5) => 2.7e-13,
                    _ => 2.8e-14,
                };
            match name {
                "growth" => {
                    let (noise, start) = given(system, Const::<1>, Const::<1>);
                    let filter = UnscentedKalmanFilter::new(Growth, noise, points).unwrap();
                    follow(&filter, &start, system, case, tolerance);
                }
                "lorenz" => {
                    let (noise, start) = given(system, Const::<3>, Const::<3>);
                    let filter =
                        UnscentedKalmanFilter::new(lorenz(system).rk4(), noise, points).unwrap();
                    follow(&filter, &start, system, case, tolerance);
                }
                "range_bearing" => {
                    let (noise, start) = given(system, Const::<4>, Const::<2>);
                    let model = RangeBearing { f: matrix(&system["F"]), wraps: true };
                    let filter = UnscentedKalmanFilter::new(model, noise, points).unwrap();
                    follow(&filter, &start, system, case, tolerance);
                }
                other => panic!("no model for {other}"),
            }
        }
    }
}

/// The two problems of the optax file, in any scalar.
#[derive(Clone)]
enum Problem {
    Quadratic(Vec<f64>, Vec<f64>),
    Valley(f64),
}

impl<S: Scalar> Objective<S> for Problem {
    fn value(&mut self, _x: &[S]) -> S {
        S::ZERO // no rule asks for it
    }
    fn gradient(&mut self, x: &[S], out: &mut [S]) {
        match self {
            Self::Quadratic(a, b) => {
                let n = b.len();
                for i in 0..n {
                    let product = (0..n).fold(S::ZERO, |sum, j| sum + x[j].scale(a[i * n + j]));
                    out[i] = product - S::from_f64(b[i]);
                }
            }
            Self::Valley(c) => {
                let d = x[1] - x[0].square();
                out[0] = (S::ONE - x[0]).scale(-2.0) - (x[0] * d).scale(4.0 * *c);
                out[1] = d.scale(2.0 * *c);
            }
        }
    }
}

/// The optimizer of a run, or `None` for a rule that the library does not have.
fn optimizer(run: &Value) -> Option<AnyOptimizer> {
    let hyper = &run["hyper"];
    let number = |name: &str| hyper[name].as_f64().unwrap();
    let lr = number("learning_rate");
    Some(match run["optimizer"].as_str().unwrap() {
        "sgd" => {
            let momentum = match (hyper.get("momentum"), hyper.get("nesterov")) {
                (None, _) => Momentum::None,
                (Some(_), Some(Value::Bool(true))) => Momentum::Nesterov(number("momentum")),
                _ => Momentum::Heavy(number("momentum")),
            };
            AnyOptimizer::GradientDescent(GradientDescent { lr, momentum })
        }
        "adagrad" => {
            let initial_accumulator = number("initial_accumulator_value");
            AnyOptimizer::Adagrad(Adagrad { lr, initial_accumulator, eps: number("eps") })
        }
        "adadelta" => {
            AnyOptimizer::Adadelta(Adadelta { lr, rho: number("rho"), eps: number("eps") })
        }
        // optax adds momentum to RMSprop; the rule as Tieleman and Hinton gave it, and ours, has none.
        "rmsprop" if hyper.get("momentum").is_some() => return None,
        "rmsprop" => {
            assert_eq!(number("initial_scale"), 0.0);
            let eps_in_sqrt = hyper["eps_in_sqrt"].as_bool().unwrap();
            AnyOptimizer::RmsProp(RmsProp {
                lr,
                gamma: number("decay"),
                eps: number("eps"),
                eps_in_sqrt,
            })
        }
        "adam" => AnyOptimizer::Adam(Adam {
            lr,
            beta1: number("b1"),
            beta2: number("b2"),
            eps: number("eps"),
        }),
        other => panic!("no optimizer called {other}"),
    })
}

/// Follows a run's iterates in scalars and in lanes.
fn follow_optimizer<O>(optimizer: &O, problem: &Problem, run: &Value)
where
    O: Optimizer<f64> + Optimizer<Lanes<8>>,
{
    let start = numbers(&run["x0"]);
    let (mut x, mut lanes) =
        (start.clone(), start.iter().map(|&v| Lanes([v; 8])).collect::<Vec<_>>());
    let mut state = Optimizer::<f64>::init(optimizer, &x);
    let mut lane_state = Optimizer::<Lanes<8>>::init(optimizer, &lanes);
    let mut problem = problem.clone();
    let growth = numbers(&run["rounding_growth"]);
    let mut done = 0;
    for (k, at) in run["steps"].as_array().unwrap().iter().enumerate() {
        let at = at.as_u64().unwrap();
        descend(optimizer, &mut problem, &mut x, &mut state, (at - done) as u32);
        descend(optimizer, &mut problem, &mut lanes, &mut lane_state, (at - done) as u32);
        done = at;
        let tolerance = 1e-13 * (1.0 + growth[k]);
        for (i, expected) in numbers(&run["iterates"][k]).into_iter().enumerate() {
            assert!(
                (x[i] - expected).abs() <= tolerance,
                "{} {} {} after {at} steps: {:e} is not {expected:e}",
                run["problem"],
                run["optimizer"],
                run["hyper"],
                x[i]
            );
            same_bits(&lanes[i].0, &[x[i]; 8], "lanes");
        }
    }
}

#[test]
fn every_optimizer_equals_optax() {
    let file = golden("optimizers_optax");
    let quadratic =
        Problem::Quadratic(numbers(&file["quadratic"]["A"]), numbers(&file["quadratic"]["b"]));
    let valley = Problem::Valley(file["valley"]["c"].as_f64().unwrap());
    let mut complete = std::collections::BTreeSet::new();
    for run in file["runs"].as_array().unwrap() {
        let problem = if run["problem"] == "valley" { &valley } else { &quadratic };
        let Some(any) = optimizer(run) else { continue };
        follow_optimizer(&any, problem, run);
        // The rule itself and the choice at run time are the same code, but say so.
        match any {
            AnyOptimizer::GradientDescent(o) => follow_optimizer(&o, problem, run),
            AnyOptimizer::Adagrad(o) => follow_optimizer(&o, problem, run),
            AnyOptimizer::Adadelta(o) => follow_optimizer(&o, problem, run),
            AnyOptimizer::RmsProp(o) => follow_optimizer(&o, problem, run),
            AnyOptimizer::Adam(o) => follow_optimizer(&o, problem, run),
        }
        if run["steps"].as_array().unwrap().iter().any(|k| k == 200) {
            complete.insert(run["optimizer"].as_str().unwrap().to_string());
        }
    }
    // Each rule has runs that were followed to the end.
    assert_eq!(complete.len(), 5, "{complete:?}");
}

/// K preconditioned steps on a Gaussian likelihood, from `mu`.
fn descend_to(
    h: &DMatrix<f64>,
    r: &DMatrix<f64>,
    m: DMatrix<f64>,
    mu: &Value,
    y: &Value,
    steps: u32,
) -> Vec<f64> {
    let n = h.ncols();
    let model = Linear::new(DMatrix::identity(n, n), h.clone()).unwrap();
    let likelihood = Gaussian::new(r.clone()).unwrap();
    let optimizer = Preconditioned::new(m).unwrap();
    let filter = ImplicitMap::new(model, likelihood, optimizer, steps).unwrap();
    let mut belief = PointBelief::new(vector(mu)).unwrap();
    filter.update(&mut belief, &numbers(y), &[], &Step::even(1, 1.0)).unwrap();
    belief.mean.as_slice().to_vec()
}

#[test]
fn learning_rate_matrices_and_implied_priors_equal_scipy() {
    for system in golden("implied_prior_numpy")["systems"].as_array().unwrap() {
        let (h, r) = (matrix(&system["H"]), matrix(&system["R"]));
        let (sigma, mu, y) = (matrix(&system["Sigma"]), &system["mu"], &system["y"]);
        let name = format!("n = {}, rank {}", system["n"], system["rank"]);
        for case in system["prior_to_matrix"].as_array().unwrap() {
            let steps = case["K"].as_u64().unwrap() as u32;
            let m = learning_rate_matrix(&sigma, &h, &r, steps).unwrap();
            let what = format!("{name}, K = {steps}");
            matrices_close(&m, &matrix(&case["M"]), 1e-12, &format!("M of {what}"));
            let mean = descend_to(&h, &r, m, mu, y, steps);
            all_close(&mean, &numbers(&case["mean_after_K_steps"]), 1e-12, &what);
            all_close(&mean, &numbers(&system["kalman_mean"]), 1e-12, &what);
        }
        for case in system["rate_to_prior"].as_array().unwrap() {
            let (steps, rho) = (case["K"].as_u64().unwrap() as u32, case["rho"].as_f64().unwrap());
            let what = format!("prior of {name}, K = {steps}, rate {rho}");
            let prior = implied_prior_of_rate(rho, &h, &r, steps).unwrap();
            matrices_close(&prior, &matrix(&case["Sigma"]), 1e-11, &what);
            let plain = DMatrix::identity(h.ncols(), h.ncols()) * rho;
            matrices_close(&implied_prior(&plain, &h, &r, steps).unwrap(), &prior, 0.0, &what);
            let mean = descend_to(&h, &r, plain, mu, y, steps);
            all_close(&mean, &numbers(&case["mean_after_K_steps"]), 1e-12, &what);
        }
    }
}

#[test]
fn chi_square_bands_equal_scipy() {
    let mut checked = 0;
    for entry in golden("chi2_scipy")["chi_square"].as_array().unwrap() {
        let df = entry["df"].as_u64().unwrap() as usize;
        let quantile = entry["quantile"].as_f64().unwrap();
        for dof in [1, 2, 3, 5, 10].into_iter().filter(|d| df.is_multiple_of(*d)) {
            let (low, high) = chi_square_band(dof, df / dof);
            let found = match entry["p"].as_f64().unwrap() {
                0.025 => low,
                0.975 => high,
                other => panic!("a band has no quantile at {other}"),
            } * (df / dof) as f64;
            // a ln x - x - ln Gamma(a) loses about a ln a ulps of the distribution function, which is 1e-10
            // at df = 60000; elsewhere Newton's last step leaves 1e-12.
            assert!(
                (found - quantile).abs() <= 1e-11 * quantile,
                "df {df}: {found} is not {quantile}"
            );
            checked += 1;
        }
    }
    assert!(checked >= 22);
}

//! Irregular times, gaps and bounds, as model files say them and every door gets them.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter::Series;
use optfilter::filter::FilterError;
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;
use optfilter_model::{FilterSpec, Method, ModelSpec};
use optfilter_run::{GapPolicy, IrregularSteps, Session};

const NAN: f64 = f64::NAN;

fn model(text: &str) -> ModelSpec {
    ModelSpec::parse("test.toml", text).unwrap()
}

fn of(method: Method) -> FilterSpec {
    FilterSpec { method: Some(method), ..FilterSpec::default() }
}

/// A random walk seen with noise, per row or per time.
fn walk(per: &str) -> ModelSpec {
    model(&format!(
        "states = [\"x\"]\n[dynamics]\nx = \"x\"\n[observation]\ny = \"x\"\n[process_noise]\nstd = 0.5\nper = \"{per}\"\n\
         [measurement_noise]\nstd = 1\n[initial]\nmean = 0\nstd = 1\n[filter]\noptimizer = \"gd\"\nsteps = 3\nlr = 0.152067\n"
    ))
}

#[test]
fn every_filter_keeps_the_bounds_of_a_model_file() {
    let spec = model(
        "states = [\"level\"]\n[dynamics]\nlevel = \"0.9*level - 0.4\"\n[observation]\ny = \"level\"\n\
         [process_noise]\nstd = 0.5\n[measurement_noise]\nstd = 0.3\n[initial]\nmean = -1\nstd = 0.5\n\
         [bounds]\nlevel = [0, inf]\n",
    );
    let free = ModelSpec { bounds: None, ..spec.clone() };
    let mut y = vec![NAN, 0.3, -0.4, -0.2];
    y.extend([NAN; 10]);
    y.extend([0.4, -0.3, NAN]);
    let series = Series::new(&y, 1).unwrap();
    let descent = FilterSpec {
        optimizer: Some("gd".into()),
        lr: Some(0.02),
        steps: Some(10),
        ..FilterSpec::default()
    };
    for method in Method::ALL {
        let filter = if method.optimizes() { of(method).over(&descent) } else { of(method) };
        let run = |spec: &ModelSpec| spec.runner(&filter).unwrap().filter(&series).unwrap();
        let lowest = |means: &[f64]| means.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(lowest(&run(&free).means) < -1.0, "{}: the bounds must matter", method.name());
        let kept = run(&spec);
        assert!(lowest(&kept.means) >= 0.0, "{}: {:?}", method.name(), kept.means);
        // A measurement of -0.4 +- 0.3 leaves a state above 0 a tail of about 0.13; none is wider than the walk's own spread.
        let honest = |v: &f64| *v > 0.01 && *v < 3.0;
        assert!(kept.covs.iter().all(honest), "{}: {:?}", method.name(), kept.covs);
        // Row by row, the same.
        let runner = spec.runner(&filter).unwrap();
        let mut session = Session::new(&*runner, &filter, spec.dt).unwrap();
        for (k, y) in y.iter().enumerate() {
            session.take(None, false, &[], &[*y]).unwrap();
            assert_eq!(session.estimate.mean[0], kept.means[k], "{}, row {k}", method.name());
        }
    }
}

#[test]
fn irregular_times_mean_nothing_to_a_model_without_time() {
    let y = [0.1, 0.5, 0.2, 0.9, 1.2];
    let kf = of(Method::Kf);
    let run = |spec: &ModelSpec, filter: &FilterSpec, times: &[f64]| {
        let series = Series::new(&y, 1).unwrap().with_times(times).unwrap();
        let whole = spec.runner(filter).unwrap().filter(&series).map(|t| t.means);
        // The same, row by row.
        let runner = spec.runner(filter).unwrap();
        let mut session = Session::new(&*runner, filter, spec.dt).unwrap();
        let taken = (0..5)
            .try_for_each(|k| session.take(Some(times[k]), false, &[], &y[k..=k]).map(|_| ()));
        assert_eq!(taken.is_ok(), whole.is_ok());
        if let Ok(means) = &whole {
            assert_eq!(session.estimate.mean[0], means[4]);
        }
        whole
    };
    let uneven = [0.0, 1.0, 2.0, 4.0, 5.0];
    let rows = walk("step");
    match run(&rows, &kf, &uneven) {
        Err(FilterError::Uneven { index: 4, dt: 2.0, usual: 1.0 }) => {}
        other => panic!("{other:?}"),
    }
    // An explicit choice; months of a calendar; several measurements at one time; a walk that knows time.
    let chosen = FilterSpec { irregular: Some(IrregularSteps::PerRow), ..kf.clone() };
    let even = run(&rows, &kf, &[0.0, 1.0, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(run(&rows, &chosen, &uneven).unwrap(), even);
    assert!(run(&rows, &kf, &[0.0, 31.0, 59.0, 90.0, 120.0]).is_ok());
    let twice = run(&rows, &kf, &[0.0, 1.0, 1.0, 2.0, 3.0]).unwrap();
    assert!(twice[1] == even[1] && twice[2] != even[2]);
    assert!(run(&walk("time"), &kf, &uneven).is_ok());
    // Equations that speak of time do, those that do not do not.
    let with = |equation: &str| {
        model(&format!(
            "states = [\"x\"]\n[definitions]\nunused = \"dt\"\n[dynamics]\n{equation}\n[observation]\ny = \"x\"\n\
             [process_noise]\nstd = 0.5\nper = \"time\"\n[measurement_noise]\nstd = 1\n[initial]\nmean = 0\nstd = 1\n"
        ))
    };
    assert!(run(&with("x = \"x - 0.1*dt*x\""), &kf, &uneven).is_ok());
    assert!(run(&with("\"dx/dt\" = \"-0.1*x\""), &kf, &uneven).is_ok());
    assert!(run(&with("x = \"0.9*x\""), &kf, &uneven).is_err());
}

#[test]
fn gaps_are_crossed_as_the_kalman_filter_crosses_them() {
    // 60 missing rows of a random walk, 300 times; per time, so that the implicit filter widens by itself.
    let (timed, by_rows) = (walk("time"), walk("step"));
    let imap = FilterSpec { error_bars: Some(false), ..of(Method::Imap) }.over(&timed.filter);
    let ignoring = FilterSpec { gaps: Some(GapPolicy::Ignore), ..imap.clone() };
    let error = |spec: &ModelSpec, filter: &FilterSpec| {
        let runner = spec.runner(filter).unwrap();
        let mut sum = 0.0;
        for run in 0..300 {
            let mut stream = Stream::new(5, run, "walk");
            let (mut x, mut y) = (0.0, Vec::new());
            for k in 0..81 {
                x += 0.5 * stream.normal();
                let seen = x + stream.normal();
                y.push(if (20..80).contains(&k) { NAN } else { seen });
            }
            let means = runner.filter(&Series::new(&y, 1).unwrap()).unwrap().means;
            sum += (means[80] - x).powi(2);
        }
        f64::sqrt(sum / 300.0)
    };
    let best = error(&timed, &of(Method::Kf));
    let (widened, ignored) = (error(&timed, &imap), error(&timed, &ignoring));
    assert!(widened < 1.05 * best, "{widened}, Kalman {best}");
    assert!(ignored > 2.0 * best, "{ignored}, Kalman {best}");
    // Noise per row says nothing of time: widening is there for the asking.
    assert_eq!(error(&by_rows, &imap), ignored);
    let asked = FilterSpec { gaps: Some(GapPolicy::Widen), ..imap };
    assert_eq!(error(&by_rows, &asked), widened);
}

#[test]
fn a_gap_outlives_a_checkpoint() {
    let spec = walk("time");
    let filter = of(Method::Imap).over(&spec.filter);
    let mut y = vec![0.3, -0.2, 0.5];
    y.extend([NAN; 7]);
    y.extend([4.0, 3.5]);
    let runner = spec.runner(&filter).unwrap();
    let whole = runner.filter(&Series::new(&y, 1).unwrap()).unwrap();
    for cut in [2, 6, 10] {
        let mut first = Session::new(&*runner, &filter, spec.dt).unwrap();
        for y in &y[..cut] {
            first.take(None, false, &[], &[*y]).unwrap();
        }
        let mut second = Session::new(&*runner, &filter, spec.dt).unwrap();
        second.restore(&first.save().unwrap()).unwrap();
        for (k, y) in y.iter().enumerate().skip(cut) {
            second.take(None, false, &[], &[*y]).unwrap();
            assert_eq!(second.estimate.mean[0], whole.means[k], "cut at {cut}, row {k}");
        }
    }
}

/// A damped oscillator pushed by white noise.
const OSCILLATOR: &str = "states = [\"p\", \"v\"]\n[dynamics]\n\"dp/dt\" = \"v\"\n\"dv/dt\" = \"-4*p - 0.6*v\"\n\
    [observation]\ny = \"p\"\n[process_noise]\nvar = { v = 0.5 }\nper = \"time\"\n[measurement_noise]\nvar = 0.04\n\
    [initial]\nmean = { p = 1, v = 0 }\nvar = 0.5\n[time]\ndt = 0.3\n";

#[test]
fn linear_rates_are_solved_exactly() {
    // numpy: m = F m, P = F P F' + Q with scipy.linalg.expm's block exponential (Van Loan) over each step, none over a step
    // of no length, and the textbook update.
    let spec = model(OSCILLATOR);
    let times = [0.0, 0.3, 0.3, 1.1, 4.0];
    let series = Series::new(&[1.1, 0.7, 0.9, -0.4, 0.05], 1).unwrap().with_times(&times).unwrap();
    let mean = [0.03460167368141062, -0.6296451663718792];
    let cov = [
        0.02798984189180037,
        -0.00037070638783816127,
        -0.00037070638783816127,
        0.36905664681978567,
    ];
    for method in [Method::Kf, Method::Ekf, Method::Iekf, Method::Ukf] {
        let found = spec.runner(&of(method)).unwrap().filter(&series).unwrap();
        let pairs = found.mean(4).iter().zip(&mean).chain(found.cov(4).unwrap().iter().zip(&cov));
        for (a, b) in pairs {
            assert!((a - b).abs() < 1e-12, "{}: {a} {b}", method.name());
        }
    }
    // Samples of the same law, by the same Q: the mean of many is near.
    let many = FilterSpec { particles: Some(20_000), ..of(Method::Pf) };
    let found = spec.runner(&many).unwrap().filter(&series).unwrap();
    assert!((found.mean(4)[0] - mean[0]).abs() < 0.02, "{:?}", found.mean(4));
    // An integrator that is asked for is what runs; so are coefficients that change.
    let stepped = model(&format!("{OSCILLATOR}[integrator]\nmethod = \"euler\"\n"));
    let found = stepped.runner(&of(Method::Kf)).unwrap().filter(&series).unwrap();
    assert!((found.mean(4)[0] - mean[0]).abs() > 1e-3, "{:?}", found.mean(4));
    for (changed, exact) in [("-4*p - 0.6*v", true), ("-4*t*p", false), ("-4*p*v", false)] {
        let text = OSCILLATOR.replace("-4*p - 0.6*v", changed);
        let described = model(&text).describe();
        assert_eq!(described.contains("exact over a step of any length"), exact, "{described}");
    }
}

#[test]
fn constant_terms_and_inputs_are_held_over_a_step() {
    // An Ornstein-Uhlenbeck process around 2 + u: by hand, over a step of 3 with u = 1.5.
    let spec = model(
        "states = [\"x\"]\ninputs = [\"u\"]\n[dynamics]\n\"dx/dt\" = \"0.5*(2 + u - x)\"\n[observation]\ny = \"x\"\n\
         [process_noise]\nvar = 0.3\nper = \"time\"\n[measurement_noise]\nvar = 1\n[initial]\nmean = 1\nvar = 0.4\n",
    );
    let series = Series::new(&[NAN, NAN], 1).unwrap().with_times(&[0.0, 3.0]).unwrap();
    let series = series.with_inputs(&[1.5, 1.5], 1).unwrap();
    let found = spec.runner(&of(Method::Kf)).unwrap().filter(&series).unwrap();
    let (slow, fast) = ((-1.5f64).exp(), (-3.0f64).exp());
    assert!((found.means[1] - (3.5 - 2.5 * slow)).abs() < 1e-14, "{:?}", found.means);
    assert!((found.covs[1] - (0.4 * fast + 0.3 * (1.0 - fast))).abs() < 1e-14, "{:?}", found.covs);
}

/// A heading in degrees, or in hours of a day, is the heading in radians in other units, for every filter.
#[test]
fn angles_have_any_whole_turn() {
    let system = |angle: &str, unit: f64| {
        let text = format!(
            "states = [\"heading\", \"rate\"]\n[dynamics]\nheading = \"heading + rate\"\nrate = \"rate\"\n[angles]\n\
             heading = {angle}\n[observation]\ncompass = {{ equation = \"heading\", angle = {angle} }}\n[process_noise]\n\
             std = {{ heading = {}, rate = {} }}\n[measurement_noise]\nstd = {}\n[initial]\nmean = [{}, {}]\nstd = {}\n",
            0.05 * unit,
            0.02 * unit,
            0.2 * unit,
            3.0 * unit,
            0.1 * unit,
            0.3 * unit,
        );
        model(&text)
    };
    let turn = std::f64::consts::TAU;
    let wrapped = |y: f64, turn: f64| y - turn * (y / turn + 0.5).floor();
    for (angle, length) in [("\"degrees\"", 360.0), ("24", 24.0)] {
        let unit = length / turn;
        let seen: Vec<f64> = (0..60)
            .map(|k| {
                if k % 9 == 4 {
                    NAN
                } else {
                    3.0 + 0.3 * f64::from(k) + 0.2 * (1.7 * f64::from(k)).sin()
                }
            })
            .collect();
        let radians: Vec<f64> = seen.iter().map(|y| wrapped(*y, turn)).collect();
        let others: Vec<f64> = seen.iter().map(|y| wrapped(y * unit, length)).collect();
        for method in ["kf", "ekf", "iekf", "ukf", "pf", "etkf"] {
            let filter = FilterSpec::of(method).unwrap();
            let run = |spec: &ModelSpec, y: &[f64]| {
                spec.runner(&filter).unwrap().filter(&Series::new(y, 1).unwrap()).unwrap().means
            };
            let (plain, other) =
                (run(&system("true", 1.0), &radians), run(&system(angle, unit), &others));
            for (a, b) in plain.iter().zip(&other) {
                let off = wrapped(a * unit - b, length);
                assert!(off.abs() < 1e-6 * unit.max(1.0), "{method} {angle}: {a} {b}");
            }
            assert!(other.iter().step_by(2).all(|v| v.abs() <= length / 2.0), "{method}");
            assert!(plain.iter().step_by(2).any(|v| *v < -2.0), "the heading must go round");
        }
    }
    let wrong = ModelSpec::parse(
        "m.toml",
        "states = [\"x\"]\n[dynamics]\nx = \"x\"\n[angles]\nx = \"grads\"\n[observation]\ny = \"x\"\n",
    );
    assert!(wrong.unwrap_err().message.contains("the length of a whole turn"));
}

/// A heading that may be anywhere, measured near the cut: particles on both sides of it are close to one another.
#[test]
fn particles_of_an_angle_are_averaged_around_the_circle() {
    let spec = model(
        "states = [\"h\", \"w\"]\n[dynamics]\nh = \"h + dt*w\"\nw = \"w\"\n[angles]\nh = \"degrees\"\n[observation]\n\
         y = { equation = \"h\", angle = \"degrees\" }\n[process_noise]\nvar = 1\n[measurement_noise]\nvar = 4\n\
         [initial]\nmean = [0, 0]\nstd = [120, 1]\n",
    );
    let ys = [179.0, -179.0, -178.0, 179.0];
    let series = Series::new(&ys, 1).unwrap();
    let many = FilterSpec { particles: Some(3000), ..of(Method::Pf) };
    let [exact, found] = [of(Method::Ekf), many].map(|filter| {
        let filter = spec.smoothing(&filter, ys.len()).unwrap();
        let runner = spec.runner(&filter).unwrap();
        let smoothed = optfilter_run::smooth(&*runner, &series).unwrap();
        let mut live = runner.start(runner.default_start()).unwrap();
        let mut estimate = optfilter_run::Estimate::default();
        for (k, y) in ys.iter().enumerate() {
            let step = optfilter::model::Step::even(k as u64 + 1, 1.0);
            live.step(k > 0, &step, &[], &[*y], &mut estimate).unwrap();
        }
        let steps = [optfilter::model::Step::even(5, 1.0)];
        let ahead = optfilter_run::forecast(&*runner, &mut *live, &steps, &[]).unwrap();
        let (state, measured) = (ahead.states[0][0], ahead.measurements[0][0]);
        let mut angles: Vec<f64> = [&smoothed.filtered_means, &smoothed.means]
            .map(|means| means.chunks(2).map(|x| x[0]).collect::<Vec<_>>())
            .concat();
        angles.extend([state.mean, measured.mean]);
        let mut spreads: Vec<f64> = [&smoothed.filtered_covs, &smoothed.covs]
            .map(|covs| covs.chunks(4).map(|p| p[0].sqrt()).collect::<Vec<_>>())
            .concat();
        spreads.extend([state.std, measured.std]);
        (angles, spreads)
    });
    // After one row of a prior as wide as this, about fifty particles count.
    for (a, b) in found.0.iter().zip(&exact.0) {
        assert!(Scalar::wrap(a - b, 360.0).abs() < 1.5, "{:?}\n{:?}", found.0, exact.0);
    }
    for (a, b) in found.1.iter().zip(&exact.1) {
        assert!((a / b - 1.0).abs() < 0.5, "{:?}\n{:?}", found.1, exact.1);
    }
}

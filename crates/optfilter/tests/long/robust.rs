//! The robust filter and the most likely path, on drives with outliers: against the Gaussian filter, against SciPy, and against what they promise.

use nalgebra::{Const, SMatrix, SVector, matrix, vector};
use optfilter::drive::Run;
use optfilter::filter::{Belief, ExtendedKalmanFilter, GaussianBelief, MixtureBelief, Robust};
use optfilter::model::likelihood::{
    Bernoulli, Component, Huber, Independent, Link, Poisson, StudentT,
};
use optfilter::model::{GaussianNoise, Growth, Linear, RandomWalk};
use optfilter::most_likely::MostLikely;
use optfilter::rng::Stream;
use optfilter::{Series, drive};

type Car = Linear<Const<4>, Const<2>>;

/// A car that is seen twice a row: position and velocity, a step a second.
fn car() -> (Car, SMatrix<f64, 4, 4>) {
    let f = matrix![1.0, 0.0, 1.0, 0.0; 0.0, 1.0, 0.0, 1.0; 0.0, 0.0, 1.0, 0.0; 0.0, 0.0, 0.0, 1.0];
    let h = matrix![1.0, 0.0, 0.0, 0.0; 0.0, 1.0, 0.0, 0.0];
    let third = 1.0 / 3.0;
    let q =
        matrix![third, 0.0, 0.5, 0.0; 0.0, third, 0.0, 0.5; 0.5, 0.0, 1.0, 0.0; 0.0, 0.5, 0.0, 1.0];
    (Linear::new(f, h).unwrap(), q)
}

const STD: f64 = 0.5;
const ROWS: usize = 200;

/// True positions and measurements, of which a share is 60 off in one coordinate.
fn drive_of(seed: u64, share: f64) -> (Vec<f64>, Vec<f64>) {
    let mut stream = Stream::new(seed, 0, "drive");
    let (model, q) = car();
    let root = q.cholesky().unwrap().l();
    let mut x: SVector<f64, 4> = vector![0.0, 0.0, 8.0, 3.0];
    let (mut truth, mut seen) = (Vec::new(), Vec::new());
    for _ in 0..ROWS {
        x = model.f() * x + root * SVector::<f64, 4>::from_fn(|_, _| stream.normal());
        for i in 0..2 {
            truth.push(x[i]);
            let off = if i == 0 && stream.uniform() < share { 60.0 } else { 0.0 };
            seen.push(x[i] + STD * stream.normal() + off);
        }
    }
    (truth, seen)
}

fn start() -> GaussianBelief<Const<4>> {
    let cov = SMatrix::from_diagonal(&vector![1e4, 1e4, 400.0, 400.0]);
    GaussianBelief::new(SVector::zeros(), cov).unwrap()
}

fn student() -> Vec<Component> {
    vec![Component::StudentT(StudentT::new(3.0, STD).unwrap()); 2]
}

fn huber() -> Vec<Component> {
    vec![Component::Huber(Huber::new(1.345, STD).unwrap()); 2]
}

fn noise(factor: f64) -> GaussianNoise<Const<4>, Const<2>> {
    GaussianNoise::new(car().1, SMatrix::identity() * (factor * STD * STD)).unwrap()
}

fn error(means: &[f64], width: usize, truth: &[f64]) -> f64 {
    let rows = means.chunks_exact(width).zip(truth.chunks_exact(2));
    let squares = rows.map(|(m, t)| (m[0] - t[0]).powi(2) + (m[1] - t[1]).powi(2));
    (squares.sum::<f64>() / (truth.len() / 2) as f64).sqrt()
}

fn filtered(laws: Vec<Component>, seen: &[f64]) -> Vec<f64> {
    let filter = Robust::new(ExtendedKalmanFilter::new(car().0, noise(1.0)), laws).unwrap();
    let mut belief = MixtureBelief::from(start());
    let mut means = Vec::new();
    drive::drive(&filter, &mut belief, &Series::new(seen, 2).unwrap(), &mut |_, _, belief, _| {
        means.extend_from_slice(belief.mean().as_slice());
        Ok(())
    })
    .unwrap();
    means
}

/// Judged on other seeds than those on which the number of stories was chosen. The Gaussian filter has the variance of the same
/// law.
#[test]
fn outliers_are_forgiven_and_the_track_is_kept() {
    for seed in 20..26 {
        let (truth, seen) = drive_of(seed, 0.05);
        let gaussian = ExtendedKalmanFilter::new(car().0, noise(3.0));
        let trace = gaussian.run(&mut start(), &Series::new(&seen, 2).unwrap()).unwrap();
        let plain = error(&trace.means, 4, &truth);
        let (heavy, linear) = (
            error(&filtered(student(), &seen), 4, &truth),
            error(&filtered(huber(), &seen), 4, &truth),
        );
        assert!(plain > 6.0, "{seed}: {plain}");
        assert!(heavy < 0.55 * plain, "{seed}: student-t {heavy}, Gaussian {plain}");
        assert!(linear < plain, "{seed}: huber {linear}, Gaussian {plain}");
        let series = Series::new(&seen, 2).unwrap();
        for laws in [student(), huber()] {
            let search = MostLikely::new(car().0, noise(1.0), Independent::new(laws)).unwrap();
            let best = search.path(&start(), &series, None, &|| false).unwrap();
            let means: Vec<f64> =
                best.beliefs.iter().flat_map(|b| b.mean.iter().copied()).collect();
            let smoothed = error(&means, 4, &truth);
            assert!(smoothed < 2.0 && smoothed < 0.3 * plain, "{seed}: {smoothed}");
        }
    }
}

#[test]
fn without_outliers_next_to_nothing_is_lost() {
    let (truth, seen) = drive_of(40, 0.0);
    let trace = ExtendedKalmanFilter::new(car().0, noise(1.0))
        .run(&mut start(), &Series::new(&seen, 2).unwrap())
        .unwrap();
    let plain = error(&trace.means, 4, &truth);
    for laws in [student(), huber()] {
        let robust = error(&filtered(laws, &seen), 4, &truth);
        assert!(robust < 1.1 * plain, "{robust} {plain}");
    }
}

/// A law that is nearly Gaussian is filtered as the Gaussian.
#[test]
fn laws_without_outliers_are_gaussians() {
    let (_, seen) = drive_of(41, 0.0);
    let trace = ExtendedKalmanFilter::new(car().0, noise(1.0))
        .run(&mut start(), &Series::new(&seen, 2).unwrap())
        .unwrap();
    let wide = vec![Component::Huber(Huber::new(60.0, STD).unwrap()); 2];
    for (robust, plain) in filtered(wide, &seen).iter().zip(&trace.means) {
        assert!((robust - plain).abs() < 2e-3 * (1.0 + plain.abs()), "{robust} {plain}");
    }
    let normal = vec![Component::normal(STD).unwrap(); 2];
    for (robust, plain) in filtered(normal, &seen).iter().zip(&trace.means) {
        assert!((robust - plain).abs() < 1e-9 * (1.0 + plain.abs()), "{robust} {plain}");
    }
}

/// Least squares reweighted never climb: on linear models J falls with every pass.
#[test]
fn no_pass_makes_the_path_less_likely() {
    for seed in 50..56 {
        let (_, seen) = drive_of(seed, 0.1);
        let series = Series::new(&seen, 2).unwrap();
        for laws in [student(), huber()] {
            let search = MostLikely::new(car().0, noise(1.0), Independent::new(laws)).unwrap();
            let best = search.path(&start(), &series, None, &|| false).unwrap();
            assert!(best.losses.windows(2).all(|pair| pair[1] <= pair[0]), "{:?}", best.losses);
            assert!(best.passes <= 100, "{}", best.passes);
            let path: Vec<f64> = best.beliefs.iter().flat_map(|b| b.mean.iter().copied()).collect();
            assert_eq!(search.loss(&start(), &series, &path).unwrap(), best.loss());
        }
    }
}

/// Nor where the model is not linear.
#[test]
fn no_pass_of_a_model_that_bends_climbs() {
    let mut stream = Stream::new(3, 0, "growth");
    let ys: Vec<f64> =
        (0..60).map(|k| 5.0 + stream.normal() + if k % 9 == 4 { 30.0 } else { 0.0 }).collect();
    let noise = GaussianNoise::new(matrix![1.0], matrix![1.0]).unwrap();
    let laws = Independent::new(vec![Component::StudentT(StudentT::new(4.0, 1.0).unwrap())]);
    let search = MostLikely::new(Growth, noise, laws).unwrap();
    let start = GaussianBelief::new(vector![5.0], matrix![4.0]).unwrap();
    let best = search
        .path(&start, &Series::new(&ys, 1).unwrap().with_dt(0.1).unwrap(), None, &|| false)
        .unwrap();
    assert!(
        best.losses.len() > 2 && best.losses.windows(2).all(|pair| pair[1] <= pair[0]),
        "{:?}",
        best.losses
    );
}

/// The best of sixty climbs by SciPy, under every law (golden/most_likely_scipy.py). A pass that gains less than 1e-9 of the loss is
/// the last, which is 1e-4 in place.
#[test]
fn the_most_likely_path_is_that_of_scipy() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../golden/most_likely_scipy.json")).unwrap();
    let numbers = |of: &serde_json::Value| -> Vec<f64> {
        of.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    let link = Link::Canonical;
    for (name, law) in [
        ("student", Component::StudentT(StudentT::new(3.0, 0.3).unwrap())),
        ("huber", Component::Huber(Huber::new(1.345, 0.3).unwrap())),
        ("poisson", Component::Poisson(Poisson { link })),
        ("bernoulli", Component::Bernoulli(Bernoulli { link })),
    ] {
        let (y, path) = (numbers(&golden[name]["y"]), numbers(&golden[name]["path"]));
        let q = golden["Q"].as_f64().unwrap();
        let noise = GaussianNoise::new(matrix![q], matrix![1.0]).unwrap();
        let laws = Independent::new(vec![law]);
        let search = MostLikely::new(RandomWalk::new(Const::<1>), noise, laws).unwrap();
        let start = GaussianBelief::new(vector![0.0], matrix![golden["P"].as_f64().unwrap()]);
        let series = Series::new(&y, 1).unwrap();
        let best = search.path(&start.unwrap(), &series, None, &|| false).unwrap();
        assert!(best.converged, "{name}");
        for (k, (ours, theirs)) in best.beliefs.iter().zip(&path).enumerate() {
            let off = (ours.mean[0] - theirs).abs();
            assert!(off < 2e-4, "{name}, row {k}: {} and {theirs}", ours.mean[0]);
        }
    }
}

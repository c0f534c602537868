//! A run that is saved, loaded and continued is the run that never stopped, bit for bit; and damaged bytes
//! are an error, never a panic and never a belief.
//!
//! There is no tolerance: a checkpoint holds every bit of a belief, with the optimizer's state or the random
//! stream inside it.

use crate::common::{System, same_bits};
use nalgebra::{Const, DVector, Dyn, SMatrix, matrix, vector};
use optfilter::Shapes;
use optfilter::checkpoint::{CheckpointError, VERSION, load, save};
use optfilter::filter::{
    Belief, EnsembleBelief, EnsembleKalmanFilter, ErrorBars, ExtendedKalmanFilter, Filter,
    FilterError, GaussianBelief, ImplicitMap, IteratedKalmanFilter, Localization, Memory,
    ParticleBelief, ParticleFilter, PointBelief, Resampling, Scheme, SigmaPoints,
    UnscentedKalmanFilter, VariationalKalmanFilter,
};
use optfilter::model::likelihood::{Gaussian, SquaredError};
use optfilter::model::{GaussianNoise, Growth, Lorenz63, Lorenz96, Step};
use optfilter::optim::{Adam, AnyOptimizer, GradientDescent, RmsProp};
use optfilter::rng::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Filters `ys` from row `first` on; returns the means.
fn go<F>(filter: &F, belief: &mut F::Belief, ys: &[f64], m: usize, first: usize) -> Vec<f64>
where
    F: Filter,
    F::Belief: Belief<F::State>,
    nalgebra::DefaultAllocator: Shapes<F::State, F::Output>,
{
    let mut means = Vec::new();
    for (k, y) in ys.chunks(m).enumerate().skip(first) {
        let step = Step::even(k as u64 + 1, 0.05);
        filter.predict(belief, &[], &step).unwrap();
        filter.update(belief, y, &[], &step).unwrap();
        means.extend_from_slice(belief.mean().as_slice());
    }
    means
}

/// Half a run, a checkpoint, the other half; against the whole run.
#[track_caller]
fn resumes<F>(filter: &F, start: &F::Belief, ys: &[f64], m: usize, what: &str)
where
    F: Filter,
    F::Belief: Belief<F::State> + Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
    nalgebra::DefaultAllocator: Shapes<F::State, F::Output>,
{
    let mut whole = start.clone();
    let all = go(filter, &mut whole, ys, m, 0);
    for stop in [0, 1, ys.len() / m / 2] {
        let mut before = start.clone();
        let mut means = go(filter, &mut before, &ys[..stop * m], m, 0);
        let bytes = save(what, &before).unwrap();
        drop(before);
        let mut after: F::Belief = load(what, &bytes).unwrap();
        assert_eq!(save(what, &after).unwrap(), bytes, "{what}: a loaded belief saves the same");
        means.extend(go(filter, &mut after, ys, m, stop));
        same_bits(&means, &all, what);
        assert_eq!(
            save(what, &after).unwrap(),
            save(what, &whole).unwrap(),
            "{what}: final beliefs differ"
        );
    }
}

fn series(len: usize, m: usize, seed: u64) -> Vec<f64> {
    let mut stream = Stream::new(seed, 0, "checkpoint test");
    let mut ys: Vec<f64> = (0..len * m).map(|_| 5.0 + 2.0 * stream.normal()).collect();
    ys[3 * m] = f64::NAN;
    ys[7 * m..8 * m].fill(f64::NAN);
    ys
}

#[test]
fn every_filter_resumes_where_it_stopped() {
    let unit = SMatrix::<f64, 3, 3>::identity();
    let lorenz = Lorenz63::default().rk4();
    let noise = GaussianNoise::per_time(unit * 2.0, unit).unwrap();
    let start = GaussianBelief::new(vector![1.0, -0.0, 1e-300], unit * 3.0).unwrap();
    let ys = series(20, 3, 1);
    resumes(&ExtendedKalmanFilter::new(lorenz, noise.clone()), &start, &ys, 3, "extended");
    let iterated = IteratedKalmanFilter::new(lorenz, noise.clone(), 3).unwrap();
    resumes(&iterated, &start, &ys, 3, "iterated");
    let unscented =
        UnscentedKalmanFilter::new(lorenz, noise.clone(), SigmaPoints::merwe(0.5, 2.0, 0.0))
            .unwrap();
    resumes(&unscented, &start, &ys, 3, "unscented");

    let mut stream = Stream::new(2, 0, "system");
    let system = System::random(4, 2, 2, &mut stream);
    resumes(&system.kalman(), &system.start, &series(20, 2, 3), 2, "Kalman");

    for name in AnyOptimizer::NAMES {
        let optimizer = AnyOptimizer::from_name(name, 0.05, None).unwrap();
        for memory in [Memory::Restart, Memory::Carry] {
            let filter =
                ImplicitMap::new(lorenz, SquaredError, optimizer, 4).unwrap().with_memory(memory);
            let point = PointBelief::new(start.mean).unwrap();
            resumes(&filter, &point, &ys, 3, &format!("{name} {memory:?}"));
        }
        let filter = ImplicitMap::new(lorenz, SquaredError, optimizer, 4).unwrap();
        let bars = ErrorBars::new(filter, noise.clone()).unwrap();
        resumes(&bars, &start, &ys, 3, &format!("error bars of {name}"));
    }
    // A rule on its own, and a size known at run time.
    let adam = Adam::new(0.1).unwrap();
    let carried =
        ImplicitMap::new(Growth, SquaredError, adam, 5).unwrap().with_memory(Memory::Carry);
    let point = PointBelief::new(vector![0.1]).unwrap();
    resumes(&carried, &point, &series(20, 1, 4), 1, "growth, Adam");
    let rms = RmsProp::new(0.1).unwrap();
    let wide = Lorenz96::new(Dyn(7), 8.0).rk4();
    let carried = ImplicitMap::new(wide, SquaredError, rms, 5).unwrap().with_memory(Memory::Carry);
    let point = PointBelief::new(DVector::from_element(7, 1.0)).unwrap();
    resumes(&carried, &point, &series(20, 7, 5), 7, "Lorenz 96, RMSprop");
    let variational = VariationalKalmanFilter::new(
        lorenz,
        SquaredError,
        unit,
        GradientDescent::new(0.1).unwrap(),
        9,
    )
    .unwrap();
    resumes(&variational, &PointBelief::new(start.mean).unwrap(), &ys, 3, "variational");

    let members = EnsembleBelief::new(&start, 7, Stream::new(6, 1, "members")).unwrap();
    let ensemble = EnsembleKalmanFilter::new(lorenz, noise.clone(), 1.1).unwrap().rotated();
    resumes(&ensemble, &members, &ys, 3, "ensemble");
    let near = Localization::index(1.0, true).unwrap();
    resumes(&ensemble.local(near).unwrap(), &members, &ys, 3, "local ensemble");

    for scheme in [Scheme::Multinomial, Scheme::Residual, Scheme::Stratified, Scheme::Systematic] {
        for resampling in [Resampling::Always(scheme), Resampling::Below(scheme, 0.5)] {
            let likelihood = Gaussian::new(unit * 4.0).unwrap();
            let filter =
                ParticleFilter::new(lorenz, likelihood, noise.clone(), resampling).unwrap();
            // 53 particles: the last group of lanes is not full.
            let belief = ParticleBelief::new(&start, 53, Stream::new(6, 1, "particles")).unwrap();
            resumes(&filter, &belief, &ys, 3, &format!("{resampling:?}"));
        }
    }
}

#[test]
fn a_stream_goes_on_in_the_middle_of_a_pair() {
    for drawn in 0..5 {
        let mut stream = Stream::new(7, 8, "checkpoint");
        for k in 0..drawn {
            if k % 2 == 0 {
                stream.normal();
            } else {
                stream.uniform();
            }
        }
        let mut again: Stream = load("stream", &save("stream", &stream).unwrap()).unwrap();
        for _ in 0..40 {
            assert_eq!(stream.normal().to_bits(), again.normal().to_bits());
        }
        assert_eq!(stream.bits(), again.bits());
    }
}

/// A belief with some of everything inside.
fn sample() -> Vec<u8> {
    let start = GaussianBelief::new(vector![1.0, 2.0], matrix![2.0, 0.1; 0.1, 1.0]).unwrap();
    let belief = ParticleBelief::new(&start, 3, Stream::new(9, 0, "sample")).unwrap();
    save("particles", &belief).unwrap()
}

fn read(bytes: &[u8]) -> Result<ParticleBelief<Const<2>>, CheckpointError> {
    load("particles", bytes)
}

#[test]
fn damage_anywhere_is_an_error() {
    let good = sample();
    assert!(read(&good).is_ok());
    for position in 0..good.len() {
        for damage in [0x01, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[position] ^= damage;
            let error = read(&bad).expect_err("a changed byte must not go unnoticed");
            match position {
                0..8 => assert_eq!(error, CheckpointError::NotACheckpoint, "byte {position}"),
                8..10 => assert!(matches!(error, CheckpointError::Version { .. })),
                _ => assert!(
                    matches!(error, CheckpointError::Damaged { .. }),
                    "byte {position}: {error}"
                ),
            }
        }
    }
    for length in 0..good.len() {
        assert!(read(&good[..length]).is_err(), "cut after {length} bytes");
    }
    let mut longer = good.clone();
    longer.push(0);
    assert!(matches!(read(&longer), Err(CheckpointError::Damaged { .. })));
    assert_eq!(read(b"").unwrap_err(), CheckpointError::NotACheckpoint);
}

#[test]
fn a_checkpoint_of_something_else_is_named() {
    let error = load::<ParticleBelief<Const<2>>>("ekf/toy", &sample()).unwrap_err();
    assert_eq!(
        error,
        CheckpointError::Kind { expected: "ekf/toy".into(), found: "particles".into() }
    );
    assert!(error.to_string().contains("\"particles\""), "{error}");
    let mut newer = sample();
    newer[8] = VERSION as u8 + 1;
    assert_eq!(read(&newer).unwrap_err(), CheckpointError::Version { found: VERSION + 1 });

    // The same kind, but a value of another type: too short, and too long.
    let short = save("belief", &1u8).unwrap();
    let error = load::<GaussianBelief<Const<2>>>("belief", &short).unwrap_err();
    assert!(matches!(error, CheckpointError::Body { .. }), "{error}");
    let wide =
        GaussianBelief::new(vector![1.0, 2.0, 3.0], SMatrix::<f64, 3, 3>::identity()).unwrap();
    let long = save("belief", &wide).unwrap();
    let error = load::<GaussianBelief<Const<1>>>("belief", &long).unwrap_err();
    assert!(matches!(error, CheckpointError::Body { .. }), "{error}");
    let error = load::<f64>("belief", &long).unwrap_err();
    assert!(matches!(error, CheckpointError::Body { .. }), "{error}");
}

#[test]
fn particles_of_another_size_are_an_error_of_the_filter() {
    // A particle belief does not hold its size in its type's bytes; the filter checks it.
    let bytes = sample();
    let mut belief: ParticleBelief<Const<3>> = load("particles", &bytes).unwrap();
    let unit = SMatrix::<f64, 3, 3>::identity();
    let filter = ParticleFilter::new(
        Lorenz63::default().rk4(),
        SquaredError,
        GaussianNoise::new(unit, unit).unwrap(),
        Resampling::Always(Scheme::Systematic),
    )
    .unwrap();
    let error = filter.predict(&mut belief, &[], &Step::even(4, 0.1)).unwrap_err();
    assert!(
        matches!(error, FilterError::Size { expected: 3, found: 2, index: Some(4), .. }),
        "{error}"
    );
}

//! Bootstrap particle filters of 1000 particles against multicalc: systematic resampling at every step,
//! the weighted mean read after each.

use crate::models::*;
use crate::{Row, race};
use multicalc::estimation::{GaussianLikelihood, ParticleFilter};
use multicalc::linear_algebra::{Matrix, Vector};
use nalgebra::{Matrix3, matrix, vector};
use optfilter::filter::{Belief, Filter, GaussianBelief, ParticleFilter as Particle, ParticleBelief, Resampling, Scheme};
use optfilter::model::likelihood::Gaussian;
use optfilter::model::{GaussianNoise, Step};
use optfilter::rng::Stream;
use std::hint::black_box;

const T: usize = 100;
const COUNT: usize = 1000;

pub fn rows(rows: &mut Vec<Row>) {
    let (growth, lorenz) = measurements(T);
    let eye = Matrix3::<f64>::identity();
    let per_step = |(a, b): (f64, f64)| (a / T as f64, b / T as f64);
    let always = Resampling::Always(Scheme::Systematic);

    let noise = GaussianNoise::new(matrix![1.0], matrix![1.0]).unwrap();
    let filter = Particle::new(AutoGrowth, Gaussian::new(matrix![1.0]).unwrap(), noise, always).unwrap();
    let start = GaussianBelief::new(vector![0.1], matrix![1.0]).unwrap();
    let (ours_us, peer_us) = per_step(race(
        1,
        || {
            let mut belief = ParticleBelief::new(&start, COUNT, Stream::new(1, 0, "bench")).unwrap();
            for (k, y) in growth.iter().enumerate() {
                let step = Step::even(k as u64 + 1, 0.1);
                filter.predict(&mut belief, &[], &step).unwrap();
                filter.update(&mut belief, &[*y], &[], &step).unwrap();
                black_box(belief.mean());
            }
        },
        || {
            let one = || Matrix::new([[1.0]]);
            let f = ParticleFilter::<1, 1>::new(COUNT, Vector::new([0.1]), one(), one(), 1).unwrap();
            let mut f = f.with_resample_threshold(f64::INFINITY);
            let sensor = GaussianLikelihood::new(one()).unwrap();
            for (k, y) in growth.iter().enumerate() {
                f.predict(&PeerGrowth { time: (k as f64 + 1.0) * 0.1 }).unwrap();
                f.update(&PeerSquare, &sensor, Vector::new([*y])).unwrap();
                let _ = black_box(f.mean());
            }
        },
    ));
    rows.push(Row { work: "bootstrap PF toy, 1000 particles", unit: "step", peer: "multicalc", ours_us, peer_us });

    let noise = GaussianNoise::new(eye * 2.0, eye * 2.0).unwrap();
    let filter = Particle::new(AutoLorenz, Gaussian::new(eye * 2.0).unwrap(), noise, always).unwrap();
    let start = GaussianBelief::new(vector![10.0, 10.0, 10.0], eye).unwrap();
    let (ours_us, peer_us) = per_step(race(
        1,
        || {
            let mut belief = ParticleBelief::new(&start, COUNT, Stream::new(1, 0, "bench")).unwrap();
            for (k, y) in lorenz.chunks_exact(3).enumerate() {
                let step = Step::even(k as u64 + 1, DT);
                filter.predict(&mut belief, &[], &step).unwrap();
                filter.update(&mut belief, y, &[], &step).unwrap();
                black_box(belief.mean());
            }
        },
        || {
            let three = |d: f64| Matrix::new([[d, 0.0, 0.0], [0.0, d, 0.0], [0.0, 0.0, d]]);
            let f = ParticleFilter::<3, 3>::new(COUNT, Vector::new([10.0; 3]), three(1.0), three(2.0), 1).unwrap();
            let mut f = f.with_resample_threshold(f64::INFINITY);
            let sensor = GaussianLikelihood::new(three(2.0)).unwrap();
            for y in lorenz.chunks_exact(3) {
                f.predict(&PeerLorenz).unwrap();
                f.update(&PeerIdentity, &sensor, Vector::new([y[0], y[1], y[2]])).unwrap();
                let _ = black_box(f.mean());
            }
        },
    ));
    rows.push(Row { work: "bootstrap PF Lorenz, 1000 particles", unit: "step", peer: "multicalc", ours_us, peer_us });
}

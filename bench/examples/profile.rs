//! One piece of work over and over, for a profiler: `perf record -e cpu-clock target/release/examples/profile ekf-hand`.
//!
//! A number of passes (of 200 steps) makes it the same work every time, whose instructions can be counted on any machine, busy or not:
//! `valgrind --tool=callgrind target/release/examples/profile ekf-hand 60` less the same with 10 is 10,000 steps.
#[path = "../src/models.rs"]
#[allow(dead_code)]
mod models;

use models::*;
use nalgebra::{Matrix3, matrix, vector};
use optfilter::filter::*;
use optfilter::filter::{
    ExtendedKalmanFilter as Extended, ParticleFilter as Particle, UnscentedKalmanFilter as Unscented,
};
use optfilter::model::likelihood::Gaussian;
use optfilter::model::{GaussianNoise, Step};
use optfilter::rng::Stream;
use std::hint::black_box;

fn main() {
    let which = std::env::args().nth(1).unwrap_or_default();
    let passes: Option<u64> = std::env::args().nth(2).map(|n| n.parse().expect("a number of passes"));
    let (growth, lorenz) = measurements(200);
    let eye = Matrix3::<f64>::identity();
    let noise3 = GaussianNoise::new(eye * 2.0, eye * 2.0).unwrap();
    let noise1 = GaussianNoise::new(matrix![1.0], matrix![1.0]).unwrap();
    let start3 = GaussianBelief::new(vector![10.0, 10.0, 10.0], eye).unwrap();
    let start1 = GaussianBelief::new(vector![0.1], matrix![1.0]).unwrap();
    let ekf1 = Extended::new(AutoGrowth, noise1.clone());
    let ekf3 = Extended::new(HandLorenz, noise3.clone());
    let auto3 = Extended::new(AutoLorenz, noise3.clone());
    let ukf1 = Unscented::new(AutoGrowth, noise1.clone(), SigmaPoints::merwe(1.0, 2.0, 2.0)).unwrap();
    let ukf3 = Unscented::new(AutoLorenz, noise3.clone(), SigmaPoints::merwe(1.0, 2.0, 0.0)).unwrap();
    let always = Resampling::Always(Scheme::Systematic);
    let pf1 = Particle::new(AutoGrowth, Gaussian::new(matrix![1.0]).unwrap(), noise1.clone(), always).unwrap();
    let pf3 = Particle::new(AutoLorenz, Gaussian::new(eye * 2.0).unwrap(), noise3, always).unwrap();
    let time = std::time::Instant::now();
    let mut steps = 0u64;
    let mut best = f64::INFINITY;
    while passes.map_or(time.elapsed().as_secs_f64() < 3.0, |passes| steps < 200 * passes) {
        let begun = std::time::Instant::now();
        match which.as_str() {
            "ekf-hand" => {
                let mut b = start3.clone();
                for (k, y) in lorenz.chunks_exact(3).enumerate() {
                    let step = Step::even(k as u64 + 1, DT);
                    ekf3.predict(&mut b, &[], &step).unwrap();
                    black_box(ekf3.update(&mut b, y, &[], &step).unwrap().observed);
                }
                black_box(&b);
            }
            "ekf-toy" => {
                let mut b = start1.clone();
                for (k, y) in growth.chunks_exact(1).enumerate() {
                    let step = Step::even(k as u64 + 1, 0.1);
                    ekf1.predict(&mut b, &[], &step).unwrap();
                    black_box(ekf1.update(&mut b, y, &[], &step).unwrap().observed);
                }
                black_box(&b);
            }
            "ekf-lorenz" => {
                let mut b = start3.clone();
                for (k, y) in lorenz.chunks_exact(3).enumerate() {
                    let step = Step::even(k as u64 + 1, DT);
                    auto3.predict(&mut b, &[], &step).unwrap();
                    black_box(auto3.update(&mut b, y, &[], &step).unwrap().observed);
                }
                black_box(&b);
            }
            "ukf-toy" => {
                let mut b = start1.clone();
                for (k, y) in growth.chunks_exact(1).enumerate() {
                    let step = Step::even(k as u64 + 1, 0.1);
                    ukf1.predict(&mut b, &[], &step).unwrap();
                    black_box(ukf1.update(&mut b, y, &[], &step).unwrap().observed);
                }
                black_box(&b);
            }
            "ukf-lorenz" => {
                let mut b = start3.clone();
                for (k, y) in lorenz.chunks_exact(3).enumerate() {
                    let step = Step::even(k as u64 + 1, DT);
                    ukf3.predict(&mut b, &[], &step).unwrap();
                    black_box(ukf3.update(&mut b, y, &[], &step).unwrap().observed);
                }
                black_box(&b);
            }
            "pf-toy" => {
                let mut b = ParticleBelief::new(&start1, 1000, Stream::new(1, 0, "bench")).unwrap();
                for (k, y) in growth.chunks_exact(1).enumerate() {
                    let step = Step::even(k as u64 + 1, 0.1);
                    pf1.predict(&mut b, &[], &step).unwrap();
                    pf1.update(&mut b, y, &[], &step).unwrap();
                    black_box(b.mean());
                }
            }
            "pf-lorenz" => {
                let mut b = ParticleBelief::new(&start3, 1000, Stream::new(1, 0, "bench")).unwrap();
                for (k, y) in lorenz.chunks_exact(3).enumerate() {
                    let step = Step::even(k as u64 + 1, DT);
                    pf3.predict(&mut b, &[], &step).unwrap();
                    pf3.update(&mut b, y, &[], &step).unwrap();
                    black_box(b.mean());
                }
            }
            other => panic!("no work called {other:?}"),
        }
        steps += 200;
        best = best.min(begun.elapsed().as_secs_f64() * 1e6 / 200.0);
    }
    println!("{which}: {:.4} us per step, {best:.4} in the fastest pass", time.elapsed().as_secs_f64() * 1e6 / steps as f64);
}

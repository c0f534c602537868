//! Prints what the library gives, bit for bit, for `python/tests/test_bits.py` to compare with.
//!
//! Each line is a name and the numbers' bits in hexadecimal. No Python is involved.

use nalgebra::{Const, matrix, vector};
use optfilter::Series;
use optfilter::batch::Batch;
use optfilter::filter::{
    Belief, Extended, Filter, GaussianBelief, ImplicitMap, Iterated, Particle, ParticleBelief,
    PointBelief, Resampling, Scheme, SigmaPoints, Unscented, Variational,
};
use optfilter::model::likelihood::{Gaussian, SquaredError};
use optfilter::model::{GaussianNoise, Growth, Lorenz63};
use optfilter::optim::Adam;
use optfilter::rng::Stream;
use optfilter::simulate::simulate;
use optfilter::uncertainty::ErrorBars;
use std::error::Error;

fn show(name: &str, values: &[f64]) {
    let words: Vec<String> = values.iter().map(|v| format!("{:016x}", v.to_bits())).collect();
    println!("{name} {}", words.join(" "));
}

fn run<F: Filter>(
    name: &str,
    filter: &F,
    mut belief: F::Belief,
    series: &Series<'_>,
) -> Result<(), Box<dyn Error>>
where
    F::Belief: Belief<F::State>,
    nalgebra::DefaultAllocator: optfilter::Shapes<F::State, F::Output>,
{
    let trace = filter.run(&mut belief, series)?;
    show(&format!("{name}.means"), &trace.means);
    show(&format!("{name}.innovations"), &trace.innovations);
    if !trace.covs.is_empty() {
        show(&format!("{name}.covariances"), &trace.covs);
    }
    if !trace.log_likelihoods.is_empty() {
        show(&format!("{name}.log_likelihoods"), &trace.log_likelihoods);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let steps = 60;
    // The growth system with Q = 3, R = 2, from N(0, 1).
    let noise = GaussianNoise::new(matrix![3.0], matrix![2.0])?;
    let start = GaussianBelief::new(vector![0.0], matrix![1.0])?;
    let mut all = Vec::new();
    for b in 0..40 {
        let mut stream = Stream::new(9, b, "simulate");
        all.push(simulate(&Growth, &noise, &start, steps, 0.1, &mut stream)?);
    }
    show("growth.states", &all[0].states);
    show("growth.observations", &all[0].observations);
    let series = Series::new(&all[0].observations, 1)?.with_dt(0.1)?;
    run("ekf", &Extended::new(Growth, noise.clone()), start.clone(), &series)?;
    run("iekf", &Iterated::new(Growth, noise.clone(), 4)?, start.clone(), &series)?;
    let points = SigmaPoints::julier(2.0);
    run("ukf", &Unscented::new(Growth, noise.clone(), points)?, start.clone(), &series)?;
    let likelihood = Gaussian::<Const<1>>::new(matrix![2.0])?;
    let resampling = Resampling::Always(Scheme::Systematic);
    let filter = Particle::new(Growth, likelihood.clone(), noise.clone(), resampling)?;
    let particles = ParticleBelief::new(&start, 100, Stream::new(5, 0, "particles"))?;
    run("pf", &filter, particles, &series)?;
    let adam = Adam::new(0.1)?;
    let imap = ImplicitMap::new(Growth, SquaredError, adam, 50)?;
    run("imap", &imap, PointBelief::new(vector![0.0])?, &series)?;
    run("bars", &ErrorBars::new(imap.clone(), noise)?, start, &series)?;
    let vkf = Variational::new(Growth, likelihood, matrix![2.0], adam, 30)?;
    run("vkf", &vkf, PointBelief::new(vector![0.0])?, &series)?;

    let many: Result<Vec<_>, _> =
        all.iter().map(|s| Series::new(&s.observations, 1).and_then(|s| s.with_dt(0.1))).collect();
    let estimates = Batch::new(many?).run(&imap, &vec![vector![0.0]; all.len()])?;
    let mut means = Vec::new();
    for b in 0..all.len() {
        means.extend(estimates.trajectory(b).ok_or("missing trajectory")??);
    }
    show("batch.means", &means);

    // Lorenz 63 with RK4, Q = 1 per unit of time, R = 4.
    let lorenz = Lorenz63::default().rk4();
    let identity = nalgebra::Matrix3::identity();
    let noise = GaussianNoise::per_time(identity, identity * 4.0)?;
    let start = GaussianBelief::new(vector![1.0, 1.0, 20.0], identity * 9.0)?;
    let mut stream = Stream::new(9, 0, "simulate");
    let data = simulate(&lorenz, &noise, &start, steps, 0.02, &mut stream)?;
    let series = Series::new(&data.observations, 3)?.with_dt(0.02)?;
    run("lorenz-ekf", &Extended::new(lorenz, noise.clone()), start.clone(), &series)?;
    let points = SigmaPoints::julier(0.0);
    run("lorenz-ukf", &Unscented::new(lorenz, noise, points)?, start, &series)?;
    Ok(())
}

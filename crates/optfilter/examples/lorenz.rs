//! Filters one stochastic Lorenz trajectory with an implicit filter and with the extended Kalman filter.
//!
//! `cargo run --release -p optfilter --example lorenz`

use nalgebra::{Matrix3, Vector3};
use optfilter::Series;
use optfilter::drive::Run;
use optfilter::filter::{ErrorBars, ExtendedKalmanFilter, GaussianBelief, ImplicitMap};
use optfilter::metrics::rmse;
use optfilter::model::likelihood::SquaredError;
use optfilter::model::{GaussianNoise, Lorenz63};
use optfilter::optim::GradientDescent;
use optfilter::rng::Stream;
use optfilter::simulate::simulate_sde;

const DT: f64 = 0.02;
const ALPHA: f64 = 10.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Two hundred states of dx = drift dt + alpha dW, and measurements with variance 2.
    let mut stream = Stream::new(1, 0, "lorenz example");
    let start = Vector3::repeat(10.0);
    let truth = simulate_sde(&Lorenz63::default(), ALPHA, start, 200, DT, 1000, &mut stream);
    let seen: Vec<f64> = truth.iter().map(|x| x + 2f64.sqrt() * stream.normal()).collect();
    let series = Series::new(&seen, 3)?.with_dt(DT)?;

    let eye = Matrix3::identity();
    let model = Lorenz63::default().rk4();
    let noise = GaussianNoise::per_time(eye * ALPHA * ALPHA, eye * 2.0)?;
    let belief = GaussianBelief::new(start, eye)?;

    // Three steps of gradient descent are the filter; the noise is only for its error bars.
    let implicit = ImplicitMap::new(model, SquaredError, GradientDescent::new(0.2)?, 3)?;
    let with_bars = ErrorBars::new(implicit, noise.clone())?.run(&mut belief.clone(), &series)?;
    let extended = ExtendedKalmanFilter::new(model, noise).run(&mut belief.clone(), &series)?;

    println!("root mean squared error over {} steps", series.len());
    println!("  measurements               {:.3}", rmse(&seen, &truth));
    println!("  extended Kalman filter     {:.3}", rmse(&extended.means, &truth));
    println!("  gradient descent, K = 3    {:.3}", rmse(&with_bars.means, &truth));
    let last = with_bars.len() - 1;
    let std = with_bars.cov(last).map_or(f64::NAN, |cov| cov[0].sqrt());
    println!("last x1: {:.2} +- {:.2}, truth {:.2}", with_bars.mean(last)[0], std, truth[3 * last]);
    Ok(())
}

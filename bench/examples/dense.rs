//! One cycle (predict and update) of a Kalman filter with N states and M measurements: `dense N M ROUNDS` prints the
//! seconds of the fastest round. `dense/compare.py` runs it beside NumPy.

use nalgebra::{DMatrix, DVector};
use optfilter::filter::{Filter, GaussianBelief, KalmanFilter as Kalman};
use optfilter::model::{GaussianNoise, Linear, Step};
use optfilter::rng::Stream;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<usize> =
        std::env::args().skip(1).map(|a| a.parse()).collect::<Result<_, _>>()?;
    let [n, m, rounds] = arguments[..] else { return Err("N M ROUNDS".into()) };
    let mut stream = Stream::new(1, 0, "dense");
    let mut normal = |rows, columns| DMatrix::from_fn(rows, columns, |_, _| stream.normal());
    // A rotation of sorts, so that nothing grows or fades.
    let f = normal(n, n) / (n as f64).sqrt() * 0.7;
    let h = normal(m, n);
    let filter = Kalman::new(
        Linear::new(f, h)?,
        GaussianNoise::new(DMatrix::identity(n, n), DMatrix::identity(m, m))?,
    );
    let mut belief = GaussianBelief::new(DVector::zeros(n), DMatrix::identity(n, n))?;
    let y: Vec<f64> = normal(m, 1).iter().copied().collect();
    let mut best = f64::INFINITY;
    for k in 0..=rounds {
        let step = Step::even(k as u64 + 1, 1.0);
        let start = Instant::now();
        filter.predict(&mut belief, &[], &step)?;
        filter.update(&mut belief, &y, &[], &step)?;
        if k > 0 {
            best = best.min(start.elapsed().as_secs_f64());
        }
    }
    println!("{best}");
    Ok(())
}

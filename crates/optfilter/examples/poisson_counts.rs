//! A model of one's own: a slowly wandering rate, seen only through counts.
//!
//! `cargo run --release -p optfilter --example poisson_counts`

use nalgebra::{Const, vector};
use optfilter::Series;
use optfilter::drive::Run;
use optfilter::filter::{ImplicitMap, PointBelief};
use optfilter::model::likelihood::{Link, Poisson};
use optfilter::model::{Dynamics, Observation, Step};
use optfilter::optim::Adam;
use optfilter::scalar::Scalar;

/// The state is the logarithm of the rate; it stays about where it was.
struct LogRate;

impl Dynamics for LogRate {
    type State = Const<1>;
    fn state_dim(&self) -> Const<1> {
        Const
    }
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out[0] = x[0];
    }
}

impl Observation for LogRate {
    type Output = Const<1>;
    fn output_dim(&self) -> Const<1> {
        Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out[0] = x[0]; // the canonical link: eta = ln rate
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Coal-mining disasters in Britain per year, 1851 to 1890 (Jarrett 1979); two years marked missing.
    let mut counts = [
        4., 5., 4., 1., 0., 4., 3., 4., 0., 6., 3., 3., 4., 0., 2., 6., 3., 3., 5., 4., //
        5., 3., 1., 4., 4., 1., 5., 5., 3., 4., 2., 5., 2., 2., 3., 4., 2., 1., 3., 2.,
    ];
    (counts[10], counts[25]) = (f64::NAN, f64::NAN);
    let series = Series::new(&counts, 1)?;

    let likelihood = Poisson { link: Link::Canonical };
    let filter = ImplicitMap::new(LogRate, likelihood, Adam::new(0.02)?, 5)?;
    let trace = filter.run(&mut PointBelief::new(vector![3f64.ln()])?, &series)?;
    for k in (0..trace.len()).step_by(5) {
        println!("{}  count {:>3}  rate {:.2}", 1851 + k, counts[k], trace.mean(k)[0].exp());
    }
    Ok(())
}

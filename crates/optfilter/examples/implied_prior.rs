//! Which prior does my learning rate imply?
//!
//! `cargo run --release -p optfilter --example implied_prior`

use nalgebra::{Matrix2, RowVector2, matrix, vector};
use optfilter::equivalence::{implied_prior_of_rate, largest_rate, learning_rate_matrix};
use optfilter::filter::{Filter, ImplicitMap, PointBelief};
use optfilter::model::likelihood::Gaussian;
use optfilter::model::{Linear, Step};
use optfilter::optim::Preconditioned;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Position and speed, of which the position is measured with variance 0.25.
    let h = RowVector2::new(1.0, 0.0);
    let r = matrix![0.25];

    println!("learning rates below {} imply a prior:", largest_rate(&h, &r)?);
    for (rate, steps) in [(0.01, 1), (0.01, 10), (0.1, 3), (0.2, 3), (0.3, 3)] {
        match implied_prior_of_rate(rate, &h, &r, steps) {
            Ok(prior) => {
                let gain = prior[(0, 0)] / (prior[(0, 0)] + r[(0, 0)]);
                println!("  lr {rate}, K = {steps}: variance {:.4}, gain {gain:.3}", prior[(0, 0)]);
            }
            Err(error) => println!("  lr {rate}, K = {steps}: {error}"),
        }
    }

    // The other way: the learning-rate matrix with which K steps are the Kalman update for a prior.
    let prior = matrix![1.0, 0.6; 0.6, 2.0];
    let model = Linear::new(Matrix2::identity(), h)?;
    let step = Step::even(1, 1.0);
    for steps in [1, 5, 50] {
        let m = learning_rate_matrix(&prior, &h, &r, steps)?;
        let filter =
            ImplicitMap::new(model.clone(), Gaussian::new(r)?, Preconditioned::new(m)?, steps)?;
        let mut belief = PointBelief::new(vector![0.0, 0.0])?;
        filter.update(&mut belief, &[1.0], &[], &step)?;
        println!("K = {steps:2}: estimate {:.12} {:.12}", belief.mean[0], belief.mean[1]);
    }
    let gain = prior.column(0) / (prior[(0, 0)] + r[(0, 0)]);
    println!("Kalman: estimate {:.12} {:.12}", gain[0], gain[1]);
    Ok(())
}

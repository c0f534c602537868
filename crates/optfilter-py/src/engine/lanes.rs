//! Many trajectories of an implicit filter side by side.

use super::Start;
use crate::convert::sized_vector;
use nalgebra::{DefaultAllocator, Dim, OVector};
use optfilter::batch::{Batch, Estimates};
use optfilter::filter::{FilterError, ImplicitMap};
use optfilter::model::{Likelihood, Model};
use optfilter::optim::Optimizer;
use optfilter::scalar::{Lanes, Scalar};
use optfilter::{Series, Shapes};

/// Anything that filters many trajectories of one filter as lanes.
pub(crate) trait LaneFilter: Send + Sync {
    fn run(&self, starts: &[Start], series: &[Series<'_>]) -> Result<Estimates, FilterError>;
    fn innovations(&self, start: &[f64], series: &Series<'_>, means: &[f64]) -> Vec<f64>;
}

/// An implicit filter whose rule runs in Rust, with its model.
pub(crate) struct Packed<M, L, O> {
    pub(crate) model: M,
    pub(crate) filter: ImplicitMap<M, L, O>,
}

impl<M, L, O> LaneFilter for Packed<M, L, O>
where
    M: Model + Send + Sync,
    L: Likelihood + Send + Sync,
    O: Optimizer<f64> + Optimizer<Lanes<8>> + Optimizer<Lanes<16>> + Optimizer<Lanes<32>>,
    O: Send + Sync,
    OVector<f64, M::State>: Send + Sync,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    fn run(&self, starts: &[Start], series: &[Series<'_>]) -> Result<Estimates, FilterError> {
        let n = self.model.state_dim();
        let starts: Vec<_> = starts.iter().map(|s| sized_vector(n, &s.mean)).collect();
        Batch::new(series.to_vec()).run(&self.filter, &starts)
    }

    fn innovations(&self, start: &[f64], series: &Series<'_>, means: &[f64]) -> Vec<f64> {
        let (n, m) = (self.model.state_dim().value(), self.model.output_dim().value());
        let mut out = vec![0.0; series.len() * m];
        let (mut prediction, mut seen) = (vec![0.0; n], vec![0.0; m]);
        for k in 0..series.len() {
            let before = if k == 0 { start } else { &means[(k - 1) * n..k * n] };
            let (step, u, y) = (series.step(k), series.input(k), series.observation(k));
            self.model.transition(before, u, &step, &mut prediction);
            self.model.observe(&prediction, u, &step, &mut seen);
            for i in 0..m {
                let difference = y[i] - seen[i];
                out[k * m + i] = match (y[i].is_nan(), self.model.is_angle(i)) {
                    (true, _) => 0.0,
                    (false, false) => difference,
                    (false, true) => difference.wrap_angle(),
                };
            }
        }
        out
    }
}

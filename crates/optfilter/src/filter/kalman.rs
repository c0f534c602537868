//! The Kalman filter: exact for linear-Gaussian systems.
//!
//! ```text
//! predict   m <- F m + B u,   P <- F P F' + Q          (F and Q of the step's length in continuous time)
//! update    v = y - H m;  then as in the shared Gaussian update, in Joseph form
//! ```
//!
//! Where something is, and how fast it moves, from three positions:
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::filter::{GaussianBelief, KalmanFilter};
//! use optfilter::{Series, drive::Run, model::{GaussianNoise, Linear}};
//! let model = Linear::new(matrix![1.0, 1.0; 0.0, 1.0], matrix![1.0, 0.0])?;
//! let noise = GaussianNoise::new(matrix![0.1, 0.0; 0.0, 0.1], matrix![0.5])?;
//! let mut belief = GaussianBelief::new(vector![0.0, 1.0], matrix![1.0, 0.0; 0.0, 1.0])?;
//! let series = Series::new(&[1.2, 1.9, 3.3], 1)?.predict_first();
//! let trace = KalmanFilter::new(model, noise).run(&mut belief, &series)?;
//! let place = format!("{:.8} {:.8}", belief.mean[0], belief.mean[1]);
//! println!("{place}, variance of the speed {:.8}", belief.cov[(1, 1)]);
//! assert_eq!(place, "3.19417621 1.06624191"); // filterpy 2.0, KalmanFilter
//! assert_eq!(format!("{:.8}", belief.cov[(1, 1)]), "0.30107516");
//! assert_eq!(trace.log_likelihood().map(|l| format!("{l:.8}")).as_deref(), Some("-3.98640088"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: Kalman 1960; Sarkka and Svensson 2023, chapter 6.

use super::gaussian::{
    GaussianBelief, GaussianMeasurement, check_process_cov, conditioned, propagated,
};
use super::traits::{Filter, Update, residual};
use crate::Shapes;
use crate::error::FilterError;
use crate::model::likelihood::Observed;
use crate::model::{Dynamics, Linear, Noise, Observation, Step};
use crate::scratch;
use crate::smoother::{Joint, Smooth};
use nalgebra::{DefaultAllocator, Dim, OVector, U1};

/// The Kalman filter of a linear model.
#[derive(Clone, Debug, PartialEq)]
pub struct KalmanFilter<N: Dim, M: Dim, Q>
where
    DefaultAllocator: Shapes<N, M>,
{
    model: Linear<N, M>,
    noise: Q,
}

impl<N: Dim, M: Dim, Q: Noise<N, M>> KalmanFilter<N, M, Q>
where
    DefaultAllocator: Shapes<N, M>,
{
    /// From a linear model and its noise.
    pub fn new(model: Linear<N, M>, noise: Q) -> Self {
        Self { model, noise }
    }
}

impl<N: Dim, M: Dim, Q: Noise<N, M>> Filter for KalmanFilter<N, M, Q>
where
    DefaultAllocator: Shapes<N, M>,
{
    type State = N;
    type Output = M;
    type Belief = GaussianBelief<N>;

    fn dims(&self) -> (N, M, usize) {
        (self.model.state_dim(), self.model.output_dim(), self.model.input_dim())
    }

    #[inline(always)]
    fn propagate(
        &self,
        belief: &GaussianBelief<N>,
        u: &[f64],
        step: &Step,
    ) -> Result<GaussianBelief<N>, FilterError> {
        let n = self.model.state_dim();
        let q = self.noise.process_cov(step);
        check_process_cov(&self.noise, &q, n.value(), step.index)?;
        let mut mean = OVector::zeros_generic(n, U1);
        self.model.transition(belief.mean.as_slice(), u, step, mean.as_mut_slice());
        let cov = propagated(&belief.cov, &self.model.transition_matrix(step), q);
        Ok(GaussianBelief { mean, cov })
    }

    #[inline(always)]
    fn correct(
        &self,
        belief: &GaussianBelief<N>,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(GaussianBelief<N>, Update<M>), FilterError> {
        let mut predicted = OVector::zeros_generic(self.model.output_dim(), U1);
        self.model.observe(belief.mean.as_slice(), u, step, predicted.as_mut_slice());
        let measurement = GaussianMeasurement {
            residual: residual(&self.model, y, predicted, observed),
            h: scratch::copy(self.model.h()),
            r: self.noise.measurement_cov(step),
            is_direct: false,
        };
        conditioned(belief, measurement, self.noise.may_be_exact(), observed, step.index)
    }

    #[inline(always)]
    fn adds_innovation(&self) -> bool {
        true
    }

    #[inline(always)]
    fn replace(&self, old: &mut GaussianBelief<N>, new: GaussianBelief<N>) {
        scratch::keep_matrix(core::mem::replace(old, new).cov);
    }
}

impl<N: Dim, M: Dim, Q: Noise<N, M>> Smooth for KalmanFilter<N, M, Q>
where
    DefaultAllocator: Shapes<N, M>,
{
    fn joint(
        &self,
        belief: &GaussianBelief<N>,
        u: &[f64],
        step: &Step,
    ) -> Result<Joint<N>, FilterError> {
        let predicted = self.propagate(belief, u, step)?;
        let (f, q) = (self.model.transition_matrix(step), self.noise.process_cov(step));
        Joint::linear(belief, predicted, &f, q, step.index)
    }

    fn state_angle(&self, i: usize) -> Option<f64> {
        self.model.is_state_angle(i).then(|| self.model.state_turn(i))
    }
}

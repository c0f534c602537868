//! State-space models: how the state moves and how it is seen.
//!
//! ```text
//! x_t = f(x_{t-1}, u_t, t) + q_t          Dynamics
//! y_t ~ p(y | h(x_t, u_t, t))             Observation, Likelihood
//! ```
//!
//! A model is written once over slices of any [`Scalar`](crate::scalar::Scalar); derivatives come by themselves. Noise is
//! kept apart ([`Noise`]): the implicit filter never reads it.
//!
//! ```
//! use nalgebra::Const;
//! use optfilter::model::{Dynamics, Observation, Step};
//! use optfilter::scalar::Scalar;
//!
//! /// A pendulum of unit length: angle and angular speed, of which the angle is measured.
//! struct Pendulum;
//! impl Dynamics for Pendulum {
//!     type State = Const<2>;
//!     fn state_dim(&self) -> Const<2> { Const }
//!     fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], step: &Step, out: &mut [S]) {
//!         out[0] = x[0] + x[1].scale(step.dt);
//!         out[1] = x[1] - x[0].sin().scale(9.81 * step.dt);
//!     }
//! }
//! impl Observation for Pendulum {
//!     type Output = Const<1>;
//!     fn output_dim(&self) -> Const<1> { Const }
//!     fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
//!         out[0] = x[0];
//!     }
//!     fn is_angle(&self, _component: usize) -> bool { true }
//! }
//! ```

mod check;
pub(crate) mod discretize;
#[cfg(feature = "std")]
mod erased;
pub mod growth;
pub mod integrator;
mod jacobian;
pub mod likelihood;
pub mod linear;
mod linearize;
pub mod lorenz63;
pub mod lorenz96;
pub mod noise;
mod pair;
pub mod random_walk;
mod step;
pub mod stretch;
mod traits;

pub use check::{DerivativeMismatch, check_derivatives};
#[cfg(feature = "std")]
pub use erased::Erased;
pub use growth::Growth;
pub use integrator::{Drift, Integrated, Integrator};
pub use jacobian::JacobianMut;
pub use likelihood::Likelihood;
pub use linear::Linear;
pub(crate) use linearize::{
    ObservationAt, TransitionAt, linearize_observation_lanes, linearize_transition_lanes,
};
pub use linearize::{
    linearize_observation, linearize_transition, observation_vjp_of, transition_vjp_of,
};
pub use lorenz63::Lorenz63;
pub use lorenz96::Lorenz96;
pub use noise::{DiagonalNoise, GaussianNoise, Noise, NoiseError};
pub use pair::Pair;
pub use random_walk::RandomWalk;
pub use step::Step;
pub use traits::{Dynamics, Jvp, Model, Observation, Stretch, Vjp};

//! An optimizer chosen at run time, by name.

use super::{
    Adadelta, AdadeltaState, Adagrad, AdagradState, Adam, AdamState, Buffer, GradientDescent,
    GradientDescentState, Optimizer, OptimizerError, RmsProp, RmsPropState,
};
use crate::scalar::Scalar;
use serde::{Deserialize, Serialize};

/// One of the element-wise optimizers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum AnyOptimizer {
    /// Gradient descent, with or without momentum.
    GradientDescent(GradientDescent),
    /// Adagrad.
    Adagrad(Adagrad),
    /// Adadelta.
    Adadelta(Adadelta),
    /// RMSprop.
    RmsProp(RmsProp),
    /// Adam.
    Adam(Adam),
}

/// The state of an [`AnyOptimizer`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AnyState<V> {
    /// Of gradient descent.
    GradientDescent(GradientDescentState<V>),
    /// Of Adagrad.
    Adagrad(AdagradState<V>),
    /// Of Adadelta.
    Adadelta(AdadeltaState<V>),
    /// Of RMSprop.
    RmsProp(RmsPropState<V>),
    /// Of Adam.
    Adam(AdamState<V>),
}

impl AnyOptimizer {
    /// The names that [`AnyOptimizer::from_name`] knows.
    pub const NAMES: [&'static str; 7] =
        ["gd", "momentum", "nesterov", "adagrad", "adadelta", "rmsprop", "adam"];

    /// The optimizer of that name. `decay` is the momentum, gamma of RMSprop, rho of Adadelta, or
    /// both betas of Adam; without it the usual defaults hold.
    pub fn from_name(name: &str, lr: f64, decay: Option<f64>) -> Result<Self, OptimizerError> {
        Ok(match name {
            "gd" => Self::GradientDescent(GradientDescent::new(lr)?),
            "momentum" => {
                Self::GradientDescent(GradientDescent::with_momentum(lr, decay.unwrap_or(0.9))?)
            }
            "nesterov" => {
                Self::GradientDescent(GradientDescent::with_nesterov(lr, decay.unwrap_or(0.9))?)
            }
            "adagrad" => Self::Adagrad(Adagrad::new(lr)?),
            "adadelta" => Self::Adadelta(Adadelta::with_decay(lr, decay.unwrap_or(0.9))?),
            "rmsprop" => Self::RmsProp(RmsProp::with_decay(lr, decay.unwrap_or(0.9))?),
            "adam" => Self::Adam(match decay {
                None => Adam::new(lr)?,
                Some(beta) => Adam::with_decay(lr, beta, beta)?,
            }),
            _ => return Err(OptimizerError::UnknownName { name: name.into() }),
        })
    }

    /// The learning rate.
    pub fn lr(&self) -> f64 {
        match self {
            Self::GradientDescent(o) => o.lr,
            Self::Adagrad(o) => o.lr,
            Self::Adadelta(o) => o.lr,
            Self::RmsProp(o) => o.lr,
            Self::Adam(o) => o.lr,
        }
    }
}

impl<S: Scalar> Optimizer<S> for AnyOptimizer {
    type State<V: Buffer<Elem = S>> = AnyState<V>;

    #[inline(always)]
    fn init<V: Buffer<Elem = S>>(&self, x: &V) -> AnyState<V> {
        match self {
            Self::GradientDescent(o) => AnyState::GradientDescent(o.init(x)),
            Self::Adagrad(o) => AnyState::Adagrad(o.init(x)),
            Self::Adadelta(o) => AnyState::Adadelta(o.init(x)),
            Self::RmsProp(o) => AnyState::RmsProp(o.init(x)),
            Self::Adam(o) => AnyState::Adam(o.init(x)),
        }
    }

    #[inline(always)]
    fn step<V: Buffer<Elem = S>>(&self, x: &mut V, g: &V, state: &mut AnyState<V>) {
        match (self, state) {
            (Self::GradientDescent(o), AnyState::GradientDescent(s)) => o.step(x, g, s),
            (Self::Adagrad(o), AnyState::Adagrad(s)) => o.step(x, g, s),
            (Self::Adadelta(o), AnyState::Adadelta(s)) => o.step(x, g, s),
            (Self::RmsProp(o), AnyState::RmsProp(s)) => o.step(x, g, s),
            (Self::Adam(o), AnyState::Adam(s)) => o.step(x, g, s),
            // A state of another optimizer (from a checkpoint, say) is replaced by a fresh one: the
            // memory of one rule means nothing to another.
            (_, state) => {
                *state = self.init(x);
                self.step(x, g, state);
            }
        }
    }
}

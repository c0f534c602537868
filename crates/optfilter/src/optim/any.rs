//! An optimizer chosen at run time, by name.

use super::{
    Adadelta, AdadeltaState, Adagrad, AdagradState, Adam, AdamState, Buffer, GradientDescent,
    GradientDescentState, Hyper, Momentum, Optimizer, OptimizerError, RmsProp, RmsPropState,
};
use crate::scalar::{Lanes, Scalar};
use serde::{Deserialize, Serialize};

/// One of the element-wise optimizers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum AnyOptimizer<H = f64> {
    /// Gradient descent, with or without momentum.
    GradientDescent(GradientDescent<H>),
    /// Adagrad.
    Adagrad(Adagrad<H>),
    /// Adadelta.
    Adadelta(Adadelta<H>),
    /// RMSprop.
    RmsProp(RmsProp<H>),
    /// Adam.
    Adam(Adam<H>),
}

/// The state of an [`AnyOptimizer`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AnyState<V, H = f64> {
    /// Of gradient descent.
    GradientDescent(GradientDescentState<V>),
    /// Of Adagrad.
    Adagrad(AdagradState<V>),
    /// Of Adadelta.
    Adadelta(AdadeltaState<V>),
    /// Of RMSprop.
    RmsProp(RmsPropState<V>),
    /// Of Adam.
    Adam(AdamState<V, H>),
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

    /// One optimizer whose lane `k` has the hyper-parameters of `group[k]`, or `None` if the group is
    /// empty, has more than `L` members, or they are not of one kind (with one eps). Lanes beyond the
    /// group repeat its first member.
    pub fn to_lanes<const L: usize>(group: &[Self]) -> Option<AnyOptimizer<Lanes<L>>> {
        let first = group.first()?;
        if group.len() > L {
            return None;
        }
        let mut hyper = [Lanes([0.0; L]); 3];
        for lane in 0..L {
            let member = group.get(lane).unwrap_or(first);
            if member.kind() != first.kind() {
                return None;
            }
            for (lanes, value) in hyper.iter_mut().zip(member.hyper_parameters()) {
                lanes.0[lane] = value;
            }
        }
        let [lr, a, b] = hyper;
        Some(match *first {
            Self::GradientDescent(o) => AnyOptimizer::GradientDescent(GradientDescent {
                lr,
                momentum: match o.momentum {
                    Momentum::None => Momentum::None,
                    Momentum::Heavy(_) => Momentum::Heavy(a),
                    Momentum::Nesterov(_) => Momentum::Nesterov(a),
                },
            }),
            Self::Adagrad(o) => {
                let Adagrad { initial_accumulator, eps, .. } = o;
                AnyOptimizer::Adagrad(Adagrad { lr, initial_accumulator, eps })
            }
            Self::Adadelta(o) => AnyOptimizer::Adadelta(Adadelta { lr, rho: a, eps: o.eps }),
            Self::RmsProp(o) => {
                let RmsProp { eps, eps_in_sqrt, .. } = o;
                AnyOptimizer::RmsProp(RmsProp { lr, gamma: a, eps, eps_in_sqrt })
            }
            Self::Adam(o) => AnyOptimizer::Adam(Adam { lr, beta1: a, beta2: b, eps: o.eps }),
        })
    }

    /// Learning rate and up to two decays, zero where there is none.
    fn hyper_parameters(&self) -> [f64; 3] {
        match *self {
            Self::GradientDescent(o) => match o.momentum {
                Momentum::None => [o.lr, 0.0, 0.0],
                Momentum::Heavy(decay) | Momentum::Nesterov(decay) => [o.lr, decay, 0.0],
            },
            Self::Adagrad(o) => [o.lr, 0.0, 0.0],
            Self::Adadelta(o) => [o.lr, o.rho, 0.0],
            Self::RmsProp(o) => [o.lr, o.gamma, 0.0],
            Self::Adam(o) => [o.lr, o.beta1, o.beta2],
        }
    }

    /// What optimizers must share to be lanes of one: the rule, and the numbers that are not lanes.
    fn kind(&self) -> (u8, u64, u64) {
        match *self {
            Self::GradientDescent(o) => match o.momentum {
                Momentum::None => (0, 0, 0),
                Momentum::Heavy(_) => (1, 0, 0),
                Momentum::Nesterov(_) => (2, 0, 0),
            },
            Self::Adagrad(o) => (3, o.eps.to_bits(), o.initial_accumulator.to_bits()),
            Self::Adadelta(o) => (4, o.eps.to_bits(), 0),
            Self::RmsProp(o) => (5, o.eps.to_bits(), u64::from(o.eps_in_sqrt)),
            Self::Adam(o) => (6, o.eps.to_bits(), 0),
        }
    }

    /// Whether two optimizers may be lanes of one.
    pub fn same_kind(&self, other: &Self) -> bool {
        self.kind() == other.kind()
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

impl<S: Scalar, H: Hyper<S>> Optimizer<S> for AnyOptimizer<H> {
    type State<V: Buffer<Elem = S>> = AnyState<V, H>;

    #[inline(always)]
    fn init<V: Buffer<Elem = S>>(&self, x: &V) -> AnyState<V, H> {
        match self {
            Self::GradientDescent(o) => AnyState::GradientDescent(o.init(x)),
            Self::Adagrad(o) => AnyState::Adagrad(o.init(x)),
            Self::Adadelta(o) => AnyState::Adadelta(o.init(x)),
            Self::RmsProp(o) => AnyState::RmsProp(o.init(x)),
            Self::Adam(o) => AnyState::Adam(o.init(x)),
        }
    }

    #[inline(always)]
    fn is_sound<V: Buffer<Elem = S>>(&self, state: &AnyState<V, H>) -> bool {
        match (self, state) {
            (Self::GradientDescent(o), AnyState::GradientDescent(s)) => o.is_sound::<V>(s),
            (Self::Adagrad(o), AnyState::Adagrad(s)) => o.is_sound::<V>(s),
            (Self::Adadelta(o), AnyState::Adadelta(s)) => o.is_sound::<V>(s),
            (Self::RmsProp(o), AnyState::RmsProp(s)) => o.is_sound::<V>(s),
            (Self::Adam(o), AnyState::Adam(s)) => o.is_sound::<V>(s),
            // It is replaced before it is used.
            _ => true,
        }
    }

    #[inline(always)]
    fn is_elementwise(&self) -> bool {
        true
    }

    #[inline(always)]
    fn step<V: Buffer<Elem = S>>(&self, x: &mut V, g: &V, state: &mut AnyState<V, H>) {
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

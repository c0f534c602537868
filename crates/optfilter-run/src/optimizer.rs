//! Optimizers of a filter chosen at run time: the library's rules, a learning-rate matrix, or a user's own.

use nalgebra::allocator::Allocator;
use nalgebra::{DMatrix, DefaultAllocator, Dim};
use optfilter::optim::{AnyOptimizer, AnyState, Buffer, Optimizer, Preconditioned};
use optfilter::scalar::{Dual, Scalar};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A rule that is not the library's: it moves `x`, given the gradient there.
pub trait CustomOptimizer: Send + Sync {
    /// One step. What it wants to remember it leaves in `memory`, which starts empty.
    fn step(&self, x: &mut [f64], gradient: &[f64], memory: &mut CustomOptimizerState);
}

/// What a user's rule remembers, in a form that can be saved.
pub trait CustomState: Send + Sync {
    /// As bytes.
    fn to_bytes(&self) -> Result<Vec<u8>, String>;
    /// For the rule, which knows what it is.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// The memory of a user's rule.
#[derive(Clone, Default)]
pub enum CustomOptimizerState {
    /// Nothing yet.
    #[default]
    Empty,
    /// As the rule left it.
    Live(Arc<dyn CustomState>),
    /// As a checkpoint left it.
    Saved(Vec<u8>),
}

impl std::fmt::Debug for CustomOptimizerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CustomOptimizerState")
    }
}

impl Serialize for CustomOptimizerState {
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        let bytes = match self {
            Self::Empty => None,
            Self::Live(memory) => Some(memory.to_bytes().map_err(serde::ser::Error::custom)?),
            Self::Saved(bytes) => Some(bytes.clone()),
        };
        bytes.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CustomOptimizerState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = Option::<Vec<u8>>::deserialize(deserializer)?;
        Ok(bytes.map_or(Self::Empty, Self::Saved))
    }
}

/// An optimizer that a [`FilterSpec`](crate::FilterSpec) cannot name.
#[derive(Clone)]
pub enum OptimizerChoice {
    /// A learning-rate matrix.
    Matrix(DMatrix<f64>),
    /// A rule of the user's own.
    Custom(Arc<dyn CustomOptimizer>),
}

/// Any rule, for a state of dimension `N`.
#[derive(Clone)]
pub(crate) enum AnyRunOptimizer<N: Dim>
where
    DefaultAllocator: Allocator<N, N>,
{
    Native(AnyOptimizer),
    Matrix(Preconditioned<N>),
    Custom(Arc<dyn CustomOptimizer>),
}

/// What any rule remembers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum AnyRuleState<V> {
    Native(AnyState<V>),
    Matrix,
    Custom(CustomOptimizerState),
}

/// A rule whose descent ends at once when a flag is raised; the result is then of no use.
#[derive(Clone, Debug)]
pub(crate) struct Stoppable<O> {
    pub(crate) rule: O,
    pub(crate) stop: Arc<AtomicBool>,
}

impl<S: Scalar, O: Optimizer<S>> Optimizer<S> for Stoppable<O> {
    type State<V: Buffer<Elem = S>> = O::State<V>;
    #[inline(always)]
    fn dim(&self) -> Option<usize> {
        self.rule.dim()
    }
    #[inline(always)]
    fn init<V: Buffer<Elem = S>>(&self, x: &V) -> Self::State<V> {
        self.rule.init(x)
    }
    #[inline(always)]
    fn step<V: Buffer<Elem = S>>(&self, x: &mut V, g: &V, state: &mut Self::State<V>) {
        self.rule.step(x, g, state);
    }
    #[inline(always)]
    fn is_sound<V: Buffer<Elem = S>>(&self, state: &Self::State<V>) -> bool {
        self.rule.is_sound::<V>(state)
    }
    #[inline(always)]
    fn is_elementwise(&self) -> bool {
        self.rule.is_elementwise()
    }
    #[inline(always)]
    fn is_done(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

macro_rules! any_rule {
    ($scalar:ty, $custom:expr) => {
        impl<N: Dim> Optimizer<$scalar> for AnyRunOptimizer<N>
        where
            DefaultAllocator: Allocator<N, N>,
        {
            type State<V: Buffer<Elem = $scalar>> = AnyRuleState<V>;

            fn dim(&self) -> Option<usize> {
                match self {
                    Self::Matrix(rule) => Optimizer::<$scalar>::dim(rule),
                    _ => None,
                }
            }
            #[inline(always)]
            fn init<V: Buffer<Elem = $scalar>>(&self, x: &V) -> AnyRuleState<V> {
                match self {
                    Self::Native(rule) => AnyRuleState::Native(rule.init(x)),
                    Self::Matrix(_) => AnyRuleState::Matrix,
                    Self::Custom(_) => AnyRuleState::Custom(CustomOptimizerState::Empty),
                }
            }
            fn is_elementwise(&self) -> bool {
                matches!(self, Self::Native(rule) if Optimizer::<$scalar>::is_elementwise(rule))
            }
            #[inline(always)]
            fn is_sound<V: Buffer<Elem = $scalar>>(&self, state: &AnyRuleState<V>) -> bool {
                match (self, state) {
                    (Self::Native(rule), AnyRuleState::Native(state)) => rule.is_sound::<V>(state),
                    // What a user's rule remembers only the user can judge.
                    _ => true,
                }
            }
            #[inline(always)]
            fn step<V: Buffer<Elem = $scalar>>(
                &self,
                x: &mut V,
                g: &V,
                state: &mut AnyRuleState<V>,
            ) {
                match (self, state) {
                    (Self::Native(rule), AnyRuleState::Native(state)) => rule.step(x, g, state),
                    (Self::Matrix(rule), _) => rule.step(x, g, &mut rule.init(x)),
                    (Self::Custom(rule), AnyRuleState::Custom(state)) => {
                        let custom: fn(
                            &dyn CustomOptimizer,
                            &mut [$scalar],
                            &[$scalar],
                            &mut CustomOptimizerState,
                        ) = $custom;
                        custom(&**rule, x.as_mut_slice(), g.as_slice(), state);
                    }
                    // The memory of one rule means nothing to another.
                    (_, state) => {
                        *state = self.init(x);
                        self.step(x, g, state);
                    }
                }
            }
        }
    };
}
any_rule!(f64, |rule, x, g, state| rule.step(x, g, state));
// A user's rule has no derivatives; no filter that needs them is built around one.
any_rule!(Dual<f64, 4>, |_, _, _, _| {});

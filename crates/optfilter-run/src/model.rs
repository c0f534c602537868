//! Any model at sizes that the compiler knows, or at any size.
//!
//! Models are written over slices, so the same one runs as [`Fixed`], whose sizes stand in its type and whose
//! filters allocate nothing, or as [`Flexible`], whose sizes are numbers. Which sizes are worth their
//! machine code is the model's to say ([`RunModel::SIZES`]).

use nalgebra::allocator::Allocator;
use nalgebra::{Const, DMatrix, DefaultAllocator, Dim, Dyn};
use optfilter::model::{
    Dynamics, Growth, Integrated, JacobianMut, Linear, Lorenz63, Lorenz96, Model, Observation,
    PullBack, PushForward, RandomWalk, Step, Stretch,
};
use optfilter::scalar::Scalar;

/// A size that filters are compiled for: states, measurements, and whether all filters are or only those that
/// stream fastest (imap, ekf and kf).
pub type Size = (usize, usize, bool);

/// What dynamics make of the length of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// They read it.
    Time,
    /// They leave the state where it is, so that only the noise could.
    Still,
    /// Every row is one step.
    Rows,
}

/// A model that a filter chosen at run time can run on.
pub trait RunModel: Model + Clone + Send + Sync + 'static {
    /// Sizes that filters are compiled for; all others work, with an allocation or two per step.
    const SIZES: &'static [Size] = &[];

    /// Whether transition and observation are known to be linear in the state.
    fn is_linear(&self) -> bool {
        false
    }

    /// The same model with logarithms of rates and log-odds for its measurements, where it has been given such links, and
    /// which those are. Its likelihood keeps its precision where rates and probabilities have lost theirs.
    fn canonical(&self) -> Option<(Self, Vec<bool>)> {
        None
    }

    /// What the dynamics make of the length of a step; unless they say otherwise, what is right.
    fn pace(&self) -> Pace {
        Pace::Time
    }

    /// The matrix A of dynamics dx = A x dt that are exact over every step, if they are such.
    fn drift(&self) -> Option<DMatrix<f64>> {
        None
    }

    /// The transition, with scratch of dimension `dim` where it needs some.
    #[inline(always)]
    fn transition_sized<D: Dim, S: Scalar>(
        &self,
        _dim: D,
        x: &[S],
        u: &[f64],
        step: &Step,
        out: &mut [S],
    ) where
        DefaultAllocator: Allocator<D>,
    {
        self.transition(x, u, step, out);
    }
}

/// Whether filters are compiled for a size: some of them, or all.
pub(crate) const fn compiled(sizes: &[Size], n: usize, m: usize, all: bool) -> bool {
    let mut i = 0;
    while i < sizes.len() {
        if sizes[i].0 == n && sizes[i].1 == m && (sizes[i].2 || !all) {
            return true;
        }
        i += 1;
    }
    false
}

impl RunModel for Growth {
    const SIZES: &'static [Size] = &[(1, 1, true)];
    fn pace(&self) -> Pace {
        Pace::Rows
    }
}

impl RunModel for Integrated<Lorenz63> {
    const SIZES: &'static [Size] = &[(3, 3, true)];
}

impl RunModel for Integrated<Lorenz96<Dyn>> {}

impl RunModel for RandomWalk<Dyn> {
    fn is_linear(&self) -> bool {
        true
    }
    fn pace(&self) -> Pace {
        Pace::Still
    }
}

impl RunModel for Linear<Dyn, Dyn> {
    fn is_linear(&self) -> bool {
        true
    }
    fn pace(&self) -> Pace {
        let still = self.input_dim() == 0 && self.f().is_identity(0.0);
        match self.drift() {
            Some(_) => Pace::Time,
            None if still => Pace::Still,
            None => Pace::Rows,
        }
    }
    fn drift(&self) -> Option<DMatrix<f64>> {
        self.drift().cloned()
    }
}

/// A model whose sizes are `N` states and `M` measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Fixed<const N: usize, const M: usize, T>(pub T);

/// A model whose sizes are numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Flexible<T>(pub T);

macro_rules! delegate {
    ([$($generics:tt)*] $type:ty, $n:ty, $m:ty, $this:ident => $states:expr, $outputs:expr) => {
        impl<$($generics)*> Dynamics for $type {
            type State = $n;
            #[inline(always)]
            fn state_dim(&self) -> $n {
                let $this = self;
                $states
            }
            #[inline(always)]
            fn input_dim(&self) -> usize {
                self.0.input_dim()
            }
            #[inline(always)]
            fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
                self.0.transition_sized(self.state_dim(), x, u, step, out);
            }
            #[inline(always)]
            fn transition_many(
                &self,
                points: &dyn Fn() -> Vec<f64>,
                u: &[f64],
                step: &Step,
            ) -> Option<Vec<f64>> {
                self.0.transition_many(points, u, step)
            }
            #[inline(always)]
            fn transition_jacobian(
                &self,
                x: &[f64],
                u: &[f64],
                step: &Step,
                out: &mut JacobianMut<'_>,
            ) -> bool {
                self.0.transition_jacobian(x, u, step, out)
            }
            #[inline(always)]
            fn transition_pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
                self.0.transition_pull_back::<S>()?;
                Some(
                    #[inline(always)]
                    |model, x, u, step, r, out| {
                        if let Some(pull_back) = model.0.transition_pull_back() {
                            pull_back(&model.0, x, u, step, r, out);
                        }
                    },
                )
            }
            #[inline(always)]
            fn transition_push_forward(&self) -> Option<PushForward<Self>> {
                self.0.transition_push_forward()?;
                Some(|model, x, u, step, v, out| {
                    if let Some(push_forward) = model.0.transition_push_forward() {
                        push_forward(&model.0, x, u, step, v, out);
                    }
                })
            }
            optfilter::trails_of!(0);
            #[inline(always)]
            fn is_state_angle(&self, component: usize) -> bool {
                self.0.is_state_angle(component)
            }
            #[inline(always)]
            fn state_turn(&self, component: usize) -> f64 {
                self.0.state_turn(component)
            }
            #[inline(always)]
            fn process_stretch(&self) -> Option<Stretch<Self>> {
                self.0.process_stretch()?;
                Some(|model, u, step, out| {
                    if let Some(write) = model.0.process_stretch() {
                        write(&model.0, u, step, out);
                    }
                })
            }
        }

        impl<$($generics)*> Observation for $type {
            type Output = $m;
            #[inline(always)]
            fn output_dim(&self) -> $m {
                let $this = self;
                $outputs
            }
            #[inline(always)]
            fn observe<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
                self.0.observe(x, u, step, out);
            }
            #[inline(always)]
            fn observe_many(
                &self,
                points: &dyn Fn() -> Vec<f64>,
                u: &[f64],
                step: &Step,
            ) -> Option<Vec<f64>> {
                self.0.observe_many(points, u, step)
            }
            #[inline(always)]
            fn observation_jacobian(
                &self,
                x: &[f64],
                u: &[f64],
                step: &Step,
                out: &mut JacobianMut<'_>,
            ) -> bool {
                self.0.observation_jacobian(x, u, step, out)
            }
            #[inline(always)]
            fn pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
                self.0.pull_back::<S>()?;
                Some(
                    #[inline(always)]
                    |model, x, u, step, r, out| {
                        if let Some(pull_back) = model.0.pull_back() {
                            pull_back(&model.0, x, u, step, r, out);
                        }
                    },
                )
            }
            #[inline(always)]
            fn push_forward(&self) -> Option<PushForward<Self>> {
                self.0.push_forward()?;
                Some(|model, x, u, step, v, out| {
                    if let Some(push_forward) = model.0.push_forward() {
                        push_forward(&model.0, x, u, step, v, out);
                    }
                })
            }
            #[inline(always)]
            fn is_identity(&self) -> bool {
                self.0.is_identity()
            }
            #[inline(always)]
            fn is_angle(&self, component: usize) -> bool {
                self.0.is_angle(component)
            }
            #[inline(always)]
            fn turn(&self, component: usize) -> f64 {
                self.0.turn(component)
            }
            #[inline(always)]
            fn measurement_stretch(&self) -> Option<Stretch<Self>> {
                self.0.measurement_stretch()?;
                Some(|model, u, step, out| {
                    if let Some(write) = model.0.measurement_stretch() {
                        write(&model.0, u, step, out);
                    }
                })
            }
        }
    };
}
delegate!([const N: usize, const M: usize, T: RunModel] Fixed<N, M, T>, Const<N>, Const<M>, _this => Const, Const);
delegate!([T: RunModel] Flexible<T>, Dyn, Dyn, this =>
    Dyn(this.0.state_dim().value()), Dyn(this.0.output_dim().value()));

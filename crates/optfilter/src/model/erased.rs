//! A model behind a pointer, so that filters are compiled once and not once for each model.
//!
//! A [`Dynamics`] is written over any [`Scalar`], which no trait object can be. [`Erased`] holds one entry for each kind of number that
//! filters use, a closed list, and finds the entry by the type of the number: a constant, so that a call costs no more than its pointer.
//! The machine code of a model is its equations in these numbers; that of filters is elsewhere.
//!
//! What is computed is the same, to the bit.
//!
//! ```
//! use optfilter::model::{Dynamics, Erased, Growth, Step};
//! let (step, mut one, mut two) = (Step::even(1, 0.1), [0.0], [0.0]);
//! Growth.transition(&[0.3], &[], &step, &mut one);
//! Erased::new(Growth).transition(&[0.3], &[], &step, &mut two);
//! assert_eq!(one, two);
//! ```

use super::{Dynamics, JacobianMut, Jvp, Model, Observation, Step, Stretch, Vjp};
use crate::Pooled;
use crate::scalar::tape::Recorded;
use crate::scalar::{Dual, Lanes, Scalar};
use crate::simd::dispatch;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::TypeId;
use core::mem::transmute_copy;
use nalgebra::{Const, Dim};

/// A model of any type: its sizes are numbers, or, once they are known, types.
#[derive(Clone)]
pub struct Erased<N: Dim = Pooled, M: Dim = Pooled> {
    equations: Arc<dyn Equations>,
    known: Arc<Known>,
    states: N,
    outputs: M,
}

/// What does not change from step to step, so that nobody has to ask the model for it.
struct Known {
    inputs: usize,
    stage_cache_len: usize,
    is_identity: bool,
    /// The length of a whole turn of each component that is an angle; empty where none is.
    state_turns: Vec<Option<f64>>,
    turns: Vec<Option<f64>>,
    has_transition_vjp: bool,
    has_vjp: bool,
    has_transition_jvp: bool,
    has_jvp: bool,
    has_process_stretch: bool,
    has_measurement_stretch: bool,
}

impl Known {
    fn of<M: Model>(model: &M) -> Self {
        let (states, outputs) = (model.state_dim().value(), model.output_dim().value());
        let turns = |len: usize, turn: &dyn Fn(usize) -> Option<f64>| -> Vec<Option<f64>> {
            match (0..len).any(|i| turn(i).is_some()) {
                true => (0..len).map(turn).collect(),
                false => Vec::new(),
            }
        };
        Self {
            inputs: model.input_dim(),
            stage_cache_len: model.stage_cache_len(),
            is_identity: model.is_identity(),
            state_turns: turns(states, &|i| model.is_state_angle(i).then(|| model.state_turn(i))),
            turns: turns(outputs, &|i| model.is_angle(i).then(|| model.turn(i))),
            has_transition_vjp: model.transition_vjp::<f64>().is_some(),
            has_vjp: model.vjp::<f64>().is_some(),
            has_transition_jvp: model.transition_jvp().is_some(),
            has_jvp: model.jvp().is_some(),
            has_process_stretch: model.process_stretch().is_some(),
            has_measurement_stretch: model.measurement_stretch().is_some(),
        }
    }
}

/// A model in one kind of number.
trait Over<S: Scalar>: Send + Sync {
    fn transition(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]);
    fn observe(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]);
}

/// Its transposed derivatives.
trait Back<S: Scalar>: Send + Sync {
    fn transition_vjp(&self, x: &[S], u: &[f64], step: &Step, r: &[S], out: &mut [S]);
    fn vjp(&self, x: &[S], u: &[f64], step: &Step, r: &[S], out: &mut [S]);
    fn transition_with_cache(
        &self,
        x: &[S],
        u: &[f64],
        step: &Step,
        out: &mut [S],
        trail: &mut [S],
    );
    fn vjp_cached(&self, x: &[S], u: &[f64], step: &Step, trail: &[S], r: &[S], out: &mut [S]);
}

/// Runs `f`; in the vector unit where every number is a vector.
#[inline(always)]
fn in_unit<S: Scalar>(mut f: impl FnMut()) {
    match const { S::WIDE } {
        true => dispatch(f),
        false => f(),
    }
}

impl<S: Scalar, M: Model + Send + Sync> Over<S> for M {
    fn transition(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        in_unit::<S>(
            #[inline(always)]
            || Dynamics::transition(self, x, u, step, out),
        );
    }
    fn observe(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        in_unit::<S>(
            #[inline(always)]
            || Observation::observe(self, x, u, step, out),
        );
    }
}

impl<S: Scalar, M: Model + Send + Sync> Back<S> for M {
    fn transition_vjp(&self, x: &[S], u: &[f64], step: &Step, r: &[S], out: &mut [S]) {
        if let Some(vjp) = Dynamics::transition_vjp(self) {
            in_unit::<S>(
                #[inline(always)]
                || vjp(self, x, u, step, r, out),
            );
        }
    }
    fn vjp(&self, x: &[S], u: &[f64], step: &Step, r: &[S], out: &mut [S]) {
        if let Some(vjp) = Observation::vjp(self) {
            in_unit::<S>(
                #[inline(always)]
                || vjp(self, x, u, step, r, out),
            );
        }
    }
    fn transition_with_cache(
        &self,
        x: &[S],
        u: &[f64],
        step: &Step,
        out: &mut [S],
        trail: &mut [S],
    ) {
        in_unit::<S>(
            #[inline(always)]
            || Dynamics::transition_with_cache(self, x, u, step, out, trail),
        );
    }
    fn vjp_cached(&self, x: &[S], u: &[f64], step: &Step, trail: &[S], r: &[S], out: &mut [S]) {
        in_unit::<S>(
            #[inline(always)]
            || Dynamics::vjp_cached(self, x, u, step, trail, r, out),
        );
    }
}

/// What is only asked in plain numbers.
trait Plain: Send + Sync {
    fn transition_many(
        &self,
        points: &dyn Fn() -> Vec<f64>,
        u: &[f64],
        step: &Step,
    ) -> Option<Vec<f64>>;
    fn observe_many(
        &self,
        points: &dyn Fn() -> Vec<f64>,
        u: &[f64],
        step: &Step,
    ) -> Option<Vec<f64>>;
    fn transition_jacobian(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool;
    fn observation_jacobian(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool;
    fn transition_jvp(&self, x: &[f64], u: &[f64], step: &Step, v: &[f64], out: &mut [f64]);
    fn jvp(&self, x: &[f64], u: &[f64], step: &Step, v: &[f64], out: &mut [f64]);
    fn jvp_cached(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        trail: &[f64],
        v: &[f64],
        out: &mut [f64],
    );
    fn process_stretch(&self, u: &[f64], step: &Step, out: &mut [f64]);
    fn measurement_stretch(&self, u: &[f64], step: &Step, out: &mut [f64]);
}

impl<M: Model + Send + Sync> Plain for M {
    fn transition_many(
        &self,
        points: &dyn Fn() -> Vec<f64>,
        u: &[f64],
        step: &Step,
    ) -> Option<Vec<f64>> {
        Dynamics::transition_many(self, points, u, step)
    }
    fn observe_many(
        &self,
        points: &dyn Fn() -> Vec<f64>,
        u: &[f64],
        step: &Step,
    ) -> Option<Vec<f64>> {
        Observation::observe_many(self, points, u, step)
    }
    fn transition_jacobian(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        Dynamics::transition_jacobian(self, x, u, step, out)
    }
    fn observation_jacobian(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        Observation::observation_jacobian(self, x, u, step, out)
    }
    fn transition_jvp(&self, x: &[f64], u: &[f64], step: &Step, v: &[f64], out: &mut [f64]) {
        if let Some(jvp) = Dynamics::transition_jvp(self) {
            jvp(self, x, u, step, v, out);
        }
    }
    fn jvp(&self, x: &[f64], u: &[f64], step: &Step, v: &[f64], out: &mut [f64]) {
        if let Some(jvp) = Observation::jvp(self) {
            jvp(self, x, u, step, v, out);
        }
    }
    fn jvp_cached(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        trail: &[f64],
        v: &[f64],
        out: &mut [f64],
    ) {
        Dynamics::jvp_cached(self, x, u, step, trail, v, out);
    }
    fn process_stretch(&self, u: &[f64], step: &Step, out: &mut [f64]) {
        if let Some(write) = Dynamics::process_stretch(self) {
            write(self, u, step, out);
        }
    }
    fn measurement_stretch(&self, u: &[f64], step: &Step, out: &mut [f64]) {
        if let Some(write) = Observation::measurement_stretch(self) {
            write(self, u, step, out);
        }
    }
}

/// Whether no filter computes in numbers of a kind: of several directions there are as many as [`derivative`](crate::derivative) takes
/// at once, which are one or four where numbers are vectors or have derivatives already.
const fn is_never(kind: u64) -> bool {
    let (inner, width) = (kind >> 10, (kind & 1023) >> 2);
    inner > f64::KIND && width != 1 && width != 4
}

/// The list of numbers, those that only programs with lanes need in the second part, and how to find a model's entry for one of them.
macro_rules! numbers {
    ($all:ident, $lanes:ident, $trait:ident, $find:ident, [$($number:ty),*], [$($lane:ty),*]) => {
        trait $all: $($trait<$number> +)* {}
        impl<M: $($trait<$number> +)*> $all for M {}
        #[cfg(feature = "lanes")]
        trait $lanes: $($trait<$lane> +)* {}
        #[cfg(feature = "lanes")]
        impl<M: $($trait<$lane> +)*> $lanes for M {}
        #[cfg(not(feature = "lanes"))]
        trait $lanes {}
        #[cfg(not(feature = "lanes"))]
        impl<M> $lanes for M {}

        impl<N: Dim, M: Dim> Erased<N, M> {
            /// The model in numbers `S`.
            #[inline(always)]
            fn $find<S: Scalar>(&self) -> &dyn $trait<S> {
                const {
                    let listed = [$(<$number as Scalar>::KIND,)* $(<$lane as Scalar>::KIND,)*];
                    let mut i = 0;
                    while i < listed.len() && listed[i] != S::KIND {
                        i += 1;
                    }
                    assert!(
                        i < listed.len() || is_never(S::KIND),
                        "a kind of number that erased models do not have"
                    );
                }
                macro_rules! entry {
                    ($kind:ty) => {
                        if TypeId::of::<S>() == TypeId::of::<$kind>() {
                            let model: &dyn $trait<$kind> = &*self.equations;
                            // SAFETY: `S` and this kind of number are one type, so these two are, too.
                            return unsafe {
                                transmute_copy::<&dyn $trait<$kind>, &dyn $trait<S>>(&model)
                            };
                        }
                    };
                }
                $(entry!($number);)*
                $(#[cfg(feature = "lanes")]
                entry!($lane);)*
                unreachable!("many series of an erased model side by side need the feature `lanes`")
            }
        }
    };
}
type Second<const D: usize> = Dual<Dual<f64, 4>, D>;
numbers!(
    InAll,
    InLanes,
    Over,
    over,
    [
        f64,
        Dual<f64, 1>,
        Dual<f64, 2>,
        Dual<f64, 3>,
        Dual<f64, 4>,
        Dual<f64, 8>,
        Second<1>,
        Second<4>,
        Lanes<8>,
        Lanes<16>,
        Recorded
    ],
    [
        Lanes<32>,
        Dual<Lanes<8>, 1>,
        Dual<Lanes<8>, 4>,
        Dual<Lanes<32>, 1>,
        Dual<Lanes<32>, 4>
    ]
);
numbers!(BackInAll, BackInLanes, Back, back, [f64, Dual<f64, 4>], [Lanes<8>, Lanes<32>]);

/// All that is asked of a model.
trait Equations: InAll + InLanes + BackInAll + BackInLanes + Plain {}
impl<M: InAll + InLanes + BackInAll + BackInLanes + Plain> Equations for M {}

impl Erased {
    /// A model without its type.
    ///
    /// Many series of it side by side, as lanes, need the feature `lanes` of this crate: without it a run of them panics, because its
    /// entries are not there.
    pub fn new<M: Model + Send + Sync + 'static>(model: M) -> Self {
        let known = Arc::new(Known::of(&model));
        let (states, outputs) =
            (Pooled(model.state_dim().value()), Pooled(model.output_dim().value()));
        Self { equations: Arc::new(model), known, states, outputs }
    }

    /// The same with sizes that the compiler knows, where they are its sizes: filters of these allocate nothing.
    #[must_use]
    pub fn sized<const N: usize, const M: usize>(&self) -> Option<Erased<Const<N>, Const<M>>> {
        let fits = (self.states.0, self.outputs.0) == (N, M);
        let (equations, known) = (self.equations.clone(), self.known.clone());
        fits.then_some(Erased { equations, known, states: Const, outputs: Const })
    }
}

impl<N: Dim, M: Dim> core::fmt::Debug for Erased<N, M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (states, outputs) = (self.states.value(), self.outputs.value());
        write!(f, "Erased({states} states, {outputs} measurements)")
    }
}

/// A component's turn among those of a model.
#[inline(always)]
fn turn_of(turns: &[Option<f64>], component: usize) -> Option<f64> {
    turns.get(component).copied().flatten()
}

impl<N: Dim, M: Dim> Dynamics for Erased<N, M> {
    type State = N;
    #[inline(always)]
    fn state_dim(&self) -> N {
        self.states
    }
    #[inline(always)]
    fn input_dim(&self) -> usize {
        self.known.inputs
    }
    #[inline(always)]
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.over().transition(x, u, step, out);
    }
    #[inline(always)]
    fn transition_many(
        &self,
        points: &dyn Fn() -> Vec<f64>,
        u: &[f64],
        step: &Step,
    ) -> Option<Vec<f64>> {
        Plain::transition_many(&*self.equations, points, u, step)
    }
    #[inline(always)]
    fn transition_jacobian(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        Plain::transition_jacobian(&*self.equations, x, u, step, out)
    }
    #[inline(always)]
    fn transition_vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        let vjp: Vjp<Self, S> =
            |model, x, u, step, r, out| model.back().transition_vjp(x, u, step, r, out);
        self.known.has_transition_vjp.then_some(vjp)
    }
    #[inline(always)]
    fn transition_jvp(&self) -> Option<Jvp<Self>> {
        let jvp: Jvp<Self> = |model, x, u, step, v, out| {
            Plain::transition_jvp(&*model.equations, x, u, step, v, out);
        };
        self.known.has_transition_jvp.then_some(jvp)
    }
    #[inline(always)]
    fn stage_cache_len(&self) -> usize {
        self.known.stage_cache_len
    }
    #[inline(always)]
    fn transition_with_cache<S: Scalar>(
        &self,
        x: &[S],
        u: &[f64],
        step: &Step,
        out: &mut [S],
        trail: &mut [S],
    ) {
        match self.known.stage_cache_len {
            0 => Dynamics::transition(self, x, u, step, out),
            _ => self.back().transition_with_cache(x, u, step, out, trail),
        }
    }
    #[inline(always)]
    fn vjp_cached<S: Scalar>(
        &self,
        x: &[S],
        u: &[f64],
        step: &Step,
        trail: &[S],
        r: &[S],
        out: &mut [S],
    ) {
        self.back().vjp_cached(x, u, step, trail, r, out);
    }
    #[inline(always)]
    fn jvp_cached(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        trail: &[f64],
        v: &[f64],
        out: &mut [f64],
    ) {
        Plain::jvp_cached(&*self.equations, x, u, step, trail, v, out);
    }
    #[inline(always)]
    fn is_state_angle(&self, component: usize) -> bool {
        turn_of(&self.known.state_turns, component).is_some()
    }
    #[inline(always)]
    fn state_turn(&self, component: usize) -> f64 {
        turn_of(&self.known.state_turns, component).unwrap_or(core::f64::consts::TAU)
    }
    #[inline(always)]
    fn process_stretch(&self) -> Option<Stretch<Self>> {
        let write: Stretch<Self> =
            |model, u, step, out| Plain::process_stretch(&*model.equations, u, step, out);
        self.known.has_process_stretch.then_some(write)
    }
}

impl<N: Dim, M: Dim> Observation for Erased<N, M> {
    type Output = M;
    #[inline(always)]
    fn output_dim(&self) -> M {
        self.outputs
    }
    #[inline(always)]
    fn observe<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.over().observe(x, u, step, out);
    }
    #[inline(always)]
    fn observe_many(
        &self,
        points: &dyn Fn() -> Vec<f64>,
        u: &[f64],
        step: &Step,
    ) -> Option<Vec<f64>> {
        Plain::observe_many(&*self.equations, points, u, step)
    }
    #[inline(always)]
    fn observation_jacobian(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        Plain::observation_jacobian(&*self.equations, x, u, step, out)
    }
    #[inline(always)]
    fn vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        let vjp: Vjp<Self, S> = |model, x, u, step, r, out| model.back().vjp(x, u, step, r, out);
        self.known.has_vjp.then_some(vjp)
    }
    #[inline(always)]
    fn jvp(&self) -> Option<Jvp<Self>> {
        let jvp: Jvp<Self> = |model, x, u, step, v, out| {
            Plain::jvp(&*model.equations, x, u, step, v, out);
        };
        self.known.has_jvp.then_some(jvp)
    }
    #[inline(always)]
    fn is_identity(&self) -> bool {
        self.known.is_identity
    }
    #[inline(always)]
    fn is_angle(&self, component: usize) -> bool {
        turn_of(&self.known.turns, component).is_some()
    }
    #[inline(always)]
    fn turn(&self, component: usize) -> f64 {
        turn_of(&self.known.turns, component).unwrap_or(core::f64::consts::TAU)
    }
    #[inline(always)]
    fn measurement_stretch(&self) -> Option<Stretch<Self>> {
        let write: Stretch<Self> =
            |model, u, step, out| Plain::measurement_stretch(&*model.equations, u, step, out);
        self.known.has_measurement_stretch.then_some(write)
    }
}

//! The implicit MAP filter: an optimizer and a number of steps are the filter (Algorithms 1 and 2).
//!
//! ```text
//! predict   m <- f(m)
//! update    K steps of the optimizer on l(x) = -ln p(y | h(x)), started at m
//! ```
//!
//! The likelihood alone is descended; the prior is in where the descent starts, how it steps and when
//! it stops. In a linear-Gaussian system this is a Kalman filter ([`crate::equivalence`]); elsewhere it
//! needs D numbers where a Gaussian filter needs D + D^2. Neither Q nor R is read.
//!
//! Three steps of gradient descent at rate 0.1 go the way 1 - 0.9^3 = 0.271 of the distance to each measurement,
//! and so filter a random walk with that gain:
//!
//! ```
//! use nalgebra::{Const, vector};
//! use optfilter::filter::{ImplicitMap, PointBelief};
//! use optfilter::model::{RandomWalk, likelihood::SquaredError};
//! use optfilter::{Series, drive::Run, optim::GradientDescent};
//! let walk = RandomWalk::new(Const::<1>);
//! let filter = ImplicitMap::new(walk, SquaredError, GradientDescent::new(0.1)?, 3)?;
//! let mut belief = PointBelief::new(vector![0.0])?;
//! let trace = filter.run(&mut belief, &Series::new(&[1.0, f64::NAN, 2.0], 1)?)?;
//! println!("{:.6?}", trace.means);
//! // By hand: 0.271; nothing was seen; 0.271 + 0.271 (2 - 0.271).
//! assert_eq!(format!("{:.6?}", trace.means), "[0.271000, 0.271000, 0.739559]");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Gaps
//!
//! An optimizer and K imply a prior of one width, that of the prediction from one row to the next. After a gap the prediction is less certain,
//! and the same K steps trust it too much. [`widening`](ImplicitMap::widening) makes the filter go on descending
//! until the gain is that of the wider prior. Section 3 of the paper says how far: K steps that leave the share r of the slope
//! have the gain k = 1 - r; a steady filter owes k of its prior's variance to the noise of one step, so g steps
//! without a measurement make it 1 + (g - 1) k times as wide, which leaves r / (1 + (g - 1) k^2) of the slope. In a
//! linear-Gaussian system that is the Kalman filter's gain, to the next whole step. A step counts g usual ones, the mean of those before
//! it; up to a quarter more than one is one, so a series without gaps is filtered as ever.
//!
//! Reference: Bencomo, Snell and Griffiths 2024.

use super::point::{
    MeasurementLoss, PointBelief, check_parts, check_possible, moved, predicted_measurement, refine,
};
use super::traits::{Belief, Filter, LARGEST, Update, learnt_by, residual};
use crate::Shapes;
use crate::error::{FilterError, check_len};
use crate::model::likelihood::{Likelihood, Observed};
use crate::model::{Model, Step};
use crate::optim::{Bounds, Objective, Optimizer, descend};
use crate::scratch::{is_long, keep, vector};
use crate::simd::{dispatch, dispatch_long};
use alloc::vec::Vec;
use nalgebra::{DefaultAllocator, Dim, OVector, U1};
use serde::{Deserialize, Serialize};

/// Whether the optimizer remembers the measurement before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// Its state starts afresh at each time step, as in the paper.
    #[default]
    Restart,
    /// Its state is carried from one time step to the next.
    Carry,
}

/// The implicit MAP filter.
#[derive(Clone, Debug, PartialEq)]
pub struct ImplicitMap<M, L, O> {
    pub(crate) model: M,
    pub(crate) likelihood: L,
    pub(crate) optimizer: O,
    pub(crate) steps: u32,
    pub(crate) memory: Memory,
    pub(crate) bounds: Option<Bounds>,
    pub(crate) widens: bool,
}

impl<M: Model, L: Likelihood, O: Optimizer<f64>> ImplicitMap<M, L, O> {
    /// From a model, a likelihood, an optimizer and the number of steps K it takes per measurement.
    pub fn new(model: M, likelihood: L, optimizer: O, steps: u32) -> Result<Self, FilterError> {
        if steps == 0 {
            return Err(FilterError::Zero { argument: "steps" });
        }
        check_parts(&model, &likelihood, &optimizer, None)?;
        let (memory, bounds, widens) = (Memory::Restart, None, false);
        Ok(Self { model, likelihood, optimizer, steps, memory, bounds, widens })
    }

    /// With the optimizer's state restarted or carried.
    #[must_use]
    pub fn with_memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// With more steps after a gap: a measurement that comes later than usual ([`Step::since`], [`Step::usual`]) is descended
    /// until its slope is as small as the wider prior asks for (see the head of this page).
    #[must_use]
    pub fn widening(mut self) -> Self {
        self.widens = true;
        self
    }

    /// With the state kept inside a box: the prediction, the first point of the descent, and every point after a step.
    pub fn with_bounds(mut self, bounds: Bounds) -> Result<Self, FilterError> {
        check_len("bounds", self.model.state_dim().value(), bounds.dim(), None)?;
        self.bounds = Some(bounds);
        Ok(self)
    }

    /// With another optimizer, for instance one made anew for each time step.
    pub fn set_optimizer(&mut self, optimizer: O) {
        self.optimizer = optimizer;
    }
}

impl<M: Model, L: Likelihood, O: Optimizer<f64>> Filter for ImplicitMap<M, L, O>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = PointBelief<M::State, O::State<OVector<f64, M::State>>>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        (self.model.state_dim(), self.model.output_dim(), self.model.input_dim())
    }

    fn bounds(&self) -> Option<&Bounds> {
        self.bounds.as_ref()
    }

    #[inline(always)]
    fn propagate(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError> {
        let mean = moved(&self.model, belief.mean.as_slice(), u, step);
        Ok(PointBelief { mean, optimizer_state: belief.optimizer_state.clone() })
    }

    #[inline(always)]
    fn correct(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(Self::Belief, Update<M::Output>), FilterError> {
        // A dimension that is a type takes no memory.
        if const { size_of::<M::State>() > 0 } {
            return self.learnt_apart(belief, y, observed, u, step);
        }
        self.learnt(belief, y, observed, u, step)
    }

    #[inline(always)]
    fn learn(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<Update<M::Output>, FilterError> {
        // Blocks are looked at while they are in the cache; long vectors would have to be gone through once more.
        if const { size_of::<M::State>() > 0 } && self.decouples(observed, step) {
            check_parts(&self.model, &self.likelihood, &self.optimizer, Some(step.index))?;
            let learnt = dispatch(
                #[inline(always)]
                || self.learnt_by_blocks(belief, y),
            );
            if let Some((next, mut update)) = learnt {
                self.replace(belief, next);
                update.observed = y.len();
                return Ok(update);
            }
        }
        learnt_by(self, belief, y, observed, u, step)
    }

    #[inline(always)]
    fn replace(&self, old: &mut Self::Belief, new: Self::Belief) {
        keep(core::mem::replace(old, new).mean);
    }

    #[inline(always)]
    fn flaw(&self, belief: &Self::Belief) -> Option<&'static str> {
        // A carried state that has overflowed would hold the estimate still, or spoil it, for ever.
        let lost = |state: &&_| !self.optimizer.is_sound(*state);
        let carried = belief.optimizer_state.as_ref();
        belief.flaw().or_else(|| carried.filter(lost).map(|_| "optimizer state"))
    }
}

impl<M: Model, L: Likelihood, O: Optimizer<f64>> ImplicitMap<M, L, O>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// [`correct`](Filter::correct) of any size, for this filter and for those around it.
    #[inline(never)]
    fn learnt_apart(
        &self,
        belief: &<Self as Filter>::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(<Self as Filter>::Belief, Update<M::Output>), FilterError> {
        dispatch_long::<M::State, _>(
            self.model.state_dim().value(),
            #[inline(always)]
            || self.learnt(belief, y, observed, u, step),
        )
    }

    /// [`correct`](Filter::correct), on any vector unit.
    #[inline(always)]
    fn learnt(
        &self,
        belief: &<Self as Filter>::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(<Self as Filter>::Belief, Update<M::Output>), FilterError> {
        // The optimizer may have been exchanged since the filter was made.
        check_parts(&self.model, &self.likelihood, &self.optimizer, Some(step.index))?;
        check_possible(&self.likelihood, y, observed, step)?;
        let (model, likelihood) = (&self.model, &self.likelihood);
        let predicted = predicted_measurement(model, likelihood, belief.mean.as_slice(), u, step);
        let innovation = residual(model, y, predicted, observed);
        let mut x = belief.mean.clone();
        let mut state = match (self.memory, &belief.optimizer_state) {
            (Memory::Carry, Some(state)) => state.clone(),
            _ => self.optimizer.init(&x),
        };
        let loss = MeasurementLoss { model, likelihood, y, u, step, observed };
        let steps = (self.steps, self.widens);
        refine(&self.optimizer, steps, self.bounds.as_ref(), loss, &mut x, &mut state);
        let optimizer_state = (self.memory == Memory::Carry).then_some(state);
        Ok((PointBelief { mean: x, optimizer_state }, Update::point(innovation)))
    }

    /// Whether every state is seen by itself and moved by itself, and nothing looks at all of them.
    #[inline(always)]
    fn decouples(&self, observed: Observed<'_>, step: &Step) -> bool {
        is_long::<M::State>(self.model.state_dim().value())
            && observed == Observed::All
            && self.model.is_identity()
            && self.likelihood.is_uniform()
            && self.optimizer.is_elementwise()
            && self.memory == Memory::Restart
            && self.bounds.is_none()
            && !(self.widens && step.gap() > 1.0)
    }

    /// The same where states [decouple](Self::decouples): block after block, so that all K steps of a block stay in the cache. `None` if a
    /// measurement is none that can occur, or a number leaves those that measure something.
    #[inline(always)]
    fn learnt_by_blocks(
        &self,
        belief: &<Self as Filter>::Belief,
        y: &[f64],
    ) -> Option<(<Self as Filter>::Belief, Update<M::Output>)> {
        let n = self.model.state_dim();
        let mut mean = vector(n);
        let mut innovation = Vec::with_capacity(y.len());
        let blocks = belief.mean.as_slice().chunks(BLOCK).zip(y.chunks(BLOCK));
        for ((x, y), to) in blocks.zip(mean.as_mut_slice().chunks_mut(BLOCK)) {
            let mut possible = true;
            for &y in y {
                possible &= self.likelihood.admits(0, y);
            }
            if !possible {
                return None;
            }
            let mut at = x.to_vec();
            self.likelihood.expect(&mut at);
            let first = innovation.len();
            innovation.extend(y.iter().zip(&at).map(|(y, expected)| y - expected));
            let mut sound = true;
            for v in &innovation[first..] {
                sound &= v.is_finite();
            }
            at.copy_from_slice(x);
            let mut state = self.optimizer.init(&at);
            let mut loss = Seen { likelihood: &self.likelihood, y };
            descend(&self.optimizer, &mut loss, &mut at, &mut state, self.steps);
            for v in &at {
                sound &= v.abs() < LARGEST;
            }
            if !sound {
                return None;
            }
            to.copy_from_slice(&at);
        }
        let innovation = OVector::from_vec_generic(self.model.output_dim(), U1, innovation);
        Some((PointBelief { mean, optimizer_state: None }, Update::point(innovation)))
    }
}

/// States that are descended together where each is seen by itself.
const BLOCK: usize = 2048;

/// The loss of states that are seen as they are.
struct Seen<'a, L> {
    likelihood: &'a L,
    y: &'a [f64],
}

impl<L: Likelihood> Objective<f64> for Seen<'_, L> {
    #[inline(always)]
    fn value(&mut self, x: &[f64]) -> f64 {
        self.likelihood.loss(self.y, x, Observed::All)
    }
    #[inline(always)]
    fn gradient(&mut self, x: &[f64], out: &mut [f64]) {
        self.likelihood.score(self.y, x, Observed::All, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::likelihood::{Link, Poisson, SquaredError, StudentT};
    use crate::model::{Dynamics, Observation, RandomWalk};
    use crate::optim::{AnyOptimizer, Buffer};
    use crate::scalar::Scalar;
    use nalgebra::{DVector, Dyn};

    /// A walk that does not say that its states are seen one by one.
    #[derive(Clone)]
    struct Discreet(RandomWalk<Dyn>);

    impl Dynamics for Discreet {
        type State = Dyn;
        fn state_dim(&self) -> Dyn {
            self.0.state_dim()
        }
        fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
            self.0.transition(x, u, step, out);
        }
    }

    impl Observation for Discreet {
        type Output = Dyn;
        fn output_dim(&self) -> Dyn {
            self.0.output_dim()
        }
        fn observe<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
            self.0.observe(x, u, step, out);
        }
        fn vjp<S: Scalar>(&self) -> Option<crate::model::Vjp<Self, S>> {
            Some(|_, _, _, _, r, out| out.copy_from_slice(r))
        }
    }

    fn check<L: Likelihood + Clone>(likelihood: L, y: &[f64]) {
        let n = y.len();
        let walk = RandomWalk::new(Dyn(n));
        for name in AnyOptimizer::NAMES {
            let rule = AnyOptimizer::from_name(name, 0.05, None).unwrap();
            let blocks = ImplicitMap::new(walk, likelihood.clone(), rule, 3).unwrap();
            let whole = ImplicitMap::new(Discreet(walk), likelihood.clone(), rule, 3).unwrap();
            let start = DVector::from_fn(n, |i, _| 1.5 + f64::sin(i as f64));
            let (mut a, mut b) =
                (PointBelief::new(start.clone()).unwrap(), PointBelief::new(start).unwrap());
            for k in 1..=3 {
                let step = Step::even(k, 1.0);
                blocks.predict(&mut a, &[], &step).unwrap();
                whole.predict(&mut b, &[], &step).unwrap();
                let one = blocks.update(&mut a, y, &[], &step).unwrap();
                let other = whole.update(&mut b, y, &[], &step).unwrap();
                assert_eq!(one, other, "{name}");
                assert_eq!(a.mean, b.mean, "{name}");
            }
        }
        // What cannot occur is refused by its number, far behind the first block.
        let mut wrong = y.to_vec();
        wrong[n - 1] = -0.5;
        let rule = AnyOptimizer::from_name("gd", 0.05, None).unwrap();
        let filter = ImplicitMap::new(walk, likelihood.clone(), rule, 1).unwrap();
        let mut belief = PointBelief::new(DVector::from_element(n, 1.0)).unwrap();
        let outcome = filter.update(&mut belief, &wrong, &[], &Step::even(1, 1.0));
        match likelihood.admits(0, -0.5) {
            true => assert!(outcome.is_ok()),
            false => assert!(matches!(
                outcome,
                Err(FilterError::Impossible { component, .. }) if component == n - 1
            )),
        }
    }

    #[test]
    fn blocks_of_states_have_the_bits_of_the_whole() {
        let y: Vec<f64> = (0..2 * BLOCK + 77).map(|i| (i % 7) as f64).collect();
        check(SquaredError, &y);
        check(StudentT::new(4.0, 0.7).unwrap(), &y);
        check(Poisson { link: Link::Canonical }, &y);
    }

    /// Moves by a length, whatever the gradient: the estimate stays where it is finite when the gradient is not.
    #[derive(Clone)]
    struct Signs(f64);

    impl<S: Scalar> Optimizer<S> for Signs {
        type State<V: Buffer<Elem = S>> = ();
        fn init<V: Buffer<Elem = S>>(&self, _x: &V) {}
        fn step<V: Buffer<Elem = S>>(&self, x: &mut V, g: &V, _state: &mut ()) {
            for (x, g) in x.as_mut_slice().iter_mut().zip(g.as_slice()) {
                let length = S::from_f64(self.0);
                *x += S::select_lt(*g, S::ZERO, length, -length);
            }
        }
        fn is_elementwise(&self) -> bool {
            true
        }
    }

    #[test]
    fn blocks_refuse_what_the_whole_refuses_and_leave_the_belief_as_it_was() {
        fn check<L: Likelihood + Clone, O: Optimizer<f64>>(
            (likelihood, rule): (L, O),
            (x, y): (f64, f64),
            expected: &str,
        ) {
            let n = 2 * BLOCK + 77;
            let walk = RandomWalk::new(Dyn(n));
            let blocks = ImplicitMap::new(walk, likelihood.clone(), rule.clone(), 1).unwrap();
            let whole = ImplicitMap::new(Discreet(walk), likelihood, rule, 1).unwrap();
            let step = Step::even(3, 1.0);
            let mut start = DVector::from_element(n, 1.0);
            start[n - 5] = x;
            let mut seen = std::vec![2.0; n];
            seen[n - 5] = y;
            let mean = start.clone();
            let (mut a, mut b) =
                (PointBelief::new(start.clone()).unwrap(), PointBelief::new(start).unwrap());
            let refused = blocks.update(&mut a, &seen, &[], &step).unwrap_err();
            let FilterError::Diverged { index: 3, quantity, .. } = refused else {
                panic!("{refused}")
            };
            assert_eq!(quantity, expected);
            assert_eq!(refused, whole.update(&mut b, &seen, &[], &step).unwrap_err());
            assert_eq!((&a.mean, &b.mean), (&mean, &mean));
        }
        let rule = AnyOptimizer::from_name("gd", 0.05, None).unwrap();
        check((SquaredError, rule), (1.0, 1e200), "estimate");
        // A rate of e^800 is none that a count can be compared with, though its logarithm is a number and stays one.
        let counts = Poisson { link: Link::Canonical };
        check((counts, Signs(0.1)), (800.0, 2.0), "predicted measurement");
    }
}

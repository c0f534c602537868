//! What all filters share: the three traits, and the work that is the same for every one of them.
//!
//! A filter is two pure kernels, [`Filter::propagate`] and [`Filter::correct`]: a belief in, a new belief
//! out. Around them stand [`Filter::predict`] and [`Filter::update`], written once here: they check sizes,
//! find the missing components, keep the belief inside the bounds, apply no dynamics to a step of no length, refuse what is not
//! finite, and only then replace the belief. So a step that
//! fails leaves the belief, with whatever it carries, as it was, and `Ok` never holds an estimate that is
//! not a number.

use super::track::{Followed, Track};
use crate::Shapes;
use crate::error::{FilterError, check_len};
use crate::model::Step;
use crate::model::likelihood::Observed;
use crate::optim::Bounds;
use crate::scalar::Scalar;
use crate::scratch::{LONG, is_fixed};
use crate::simd::dispatch;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// An estimate beyond this measures nothing any more: the filter has diverged, though not yet to infinity.
pub(crate) const LARGEST: f64 = 1e100;

/// The flaw of a covariance that is finite and still none.
pub(crate) const NEGATIVE_VARIANCE: &str = "negative variance";

/// Whether every number of an estimate is one that could measure something.
#[inline(always)]
pub(crate) fn is_sane(mean: &[f64]) -> bool {
    all_below(mean, LARGEST)
}

/// Whether every number is of a size below a limit, and none is missing.
#[inline(always)]
pub(crate) fn all_below(values: &[f64], limit: f64) -> bool {
    match values.len() >= LONG {
        true => all_below_of_many(values, limit),
        false => all_below_of_few(values, limit),
    }
}

/// Without early exit, so that it is a few vector comparisons.
#[inline(always)]
fn all_below_of_few(values: &[f64], limit: f64) -> bool {
    let mut below = true;
    for v in values {
        below &= v.abs() < limit;
    }
    below
}

/// In the vector unit, compiled once: nobody who asks of few numbers need have it.
#[inline(never)]
fn all_below_of_many(values: &[f64], limit: f64) -> bool {
    dispatch(
        #[inline(always)]
        || all_below_of_few(values, limit),
    )
}

/// What a filter believes of the state; all kinds have a mean, some a covariance.
pub trait Belief<N: Dim>: Clone
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// Whether there is a covariance; a point estimate has none.
    const HAS_COV: bool;
    /// Whether there are covariances of `size` components: an ensemble makes none that is far larger than itself.
    #[inline(always)]
    fn has_cov(_size: usize) -> bool {
        Self::HAS_COV
    }
    /// The estimate.
    fn mean(&self) -> OVector<f64, N>;
    /// Its error covariance (n x n), if the filter has one.
    fn cov(&self) -> Option<OMatrix<f64, N, N>>;
    /// Checks that the belief is about a state of `n` components.
    fn check_dim(&self, n: usize, index: u64) -> Result<(), FilterError>;
    /// Whether no part of it lies outside a box that it is confined to.
    fn is_within(&self, bounds: &Bounds) -> bool {
        bounds.contains(self.mean().as_slice())
    }
    /// Brings it into a box: its mean at least, and whatever else it consists of.
    fn confine(&mut self, bounds: &Bounds);
    /// What has left the finite numbers, if anything has.
    fn flaw(&self) -> Option<&'static str>;
}

/// What an update learnt from a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Update<M: Dim>
where
    DefaultAllocator: Allocator<M> + Allocator<M, M>,
{
    /// Measurement less prediction; NaN where the measurement is missing.
    pub innovation: OVector<f64, M>,
    /// The innovation's covariance S; rows and columns of missing components are NaN.
    pub innovation_cov: Option<OMatrix<f64, M, M>>,
    /// ln p(y_t | y_1 .. y_{t-1}) of the observed components; 0 where all are missing.
    pub log_likelihood: Option<f64>,
    /// The normalised innovation squared v' S^-1 v, chi-square with [`observed`](Self::observed)
    /// degrees of freedom if the filter is consistent; NaN where all components are missing.
    pub nis: Option<f64>,
    /// How many components were observed.
    pub observed: usize,
}

impl<M: Dim> Update<M>
where
    DefaultAllocator: Allocator<M> + Allocator<M, M>,
{
    /// Of a point estimate: an innovation and nothing else.
    #[inline(always)]
    pub(crate) fn point(innovation: OVector<f64, M>) -> Self {
        Self { innovation, innovation_cov: None, log_likelihood: None, nis: None, observed: 0 }
    }

    /// Of a predictive distribution with covariance S.
    #[inline(always)]
    pub(crate) fn spread(
        innovation: OVector<f64, M>,
        cov: OMatrix<f64, M, M>,
        log_likelihood: f64,
        nis: f64,
    ) -> Self {
        Self {
            innovation,
            innovation_cov: Some(cov),
            log_likelihood: Some(log_likelihood),
            nis: Some(nis),
            observed: 0,
        }
    }

    /// Of a measurement that is missing altogether: nothing was learnt.
    fn nothing(m: M, is_spread: bool, has_cov: bool) -> Self {
        Self {
            innovation: OVector::repeat_generic(m, U1, f64::NAN),
            innovation_cov: has_cov.then(|| OMatrix::repeat_generic(m, m, f64::NAN)),
            log_likelihood: is_spread.then_some(0.0),
            nis: is_spread.then_some(f64::NAN),
            observed: 0,
        }
    }

    /// NaN for what a missing component has none of.
    #[cold]
    pub(super) fn forget_missing(&mut self, observed: Observed<'_>) {
        for i in 0..self.innovation.nrows() {
            if observed.has(i) {
                continue;
            }
            self.innovation[i] = f64::NAN;
            if let Some(cov) = &mut self.innovation_cov {
                cov.row_mut(i).fill(f64::NAN);
                cov.column_mut(i).fill(f64::NAN);
            }
        }
    }
}

/// Inside an implementation of [`Filter`] around another, `self.filter`: what is left to that one.
macro_rules! as_the_inner_filter {
    () => {
        type State = F::State;
        type Output = F::Output;
        type Belief = F::Belief;

        fn dims(&self) -> (F::State, F::Output, usize) {
            self.filter.dims()
        }

        #[inline(always)]
        fn propagate(
            &self,
            belief: &F::Belief,
            u: &[f64],
            step: &Step,
        ) -> Result<F::Belief, FilterError> {
            self.filter.propagate(belief, u, step)
        }

        #[inline(always)]
        fn flaw(&self, belief: &F::Belief) -> Option<&'static str> {
            self.filter.flaw(belief)
        }

        #[inline(always)]
        fn adds_innovation(&self) -> bool {
            self.filter.adds_innovation()
        }
    };
}
pub(crate) use as_the_inner_filter;

/// A Bayesian filter: predict through a step, update by a measurement.
///
/// Users call [`predict`](Filter::predict) and [`update`](Filter::update), or
/// [`run`](crate::drive::Run::run) over a whole series. Whoever writes a filter writes the kernels
/// [`propagate`](Filter::propagate) and [`correct`](Filter::correct), which may rely on sizes and need not
/// undo anything when they fail.
pub trait Filter {
    /// The dimension of the state.
    type State: Dim;
    /// The dimension of the measurement.
    type Output: Dim;
    /// What the filter believes.
    type Belief;

    /// The dimensions of state and measurement, and the number of control inputs.
    fn dims(&self) -> (Self::State, Self::Output, usize);

    /// The belief carried through a step.
    fn propagate(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError>;

    /// The belief improved by the observed components of `y`, of which there is at least one, and what was
    /// learnt. Missing components of the innovation may hold anything.
    fn correct(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(Self::Belief, Update<Self::Output>), FilterError>
    where
        DefaultAllocator: Allocator<Self::Output> + Allocator<Self::Output, Self::Output>;

    /// The box that the state is kept in, if there is one.
    #[inline(always)]
    fn bounds(&self) -> Option<&Bounds> {
        None
    }

    /// Brings a new belief into the box.
    fn confine(&self, belief: &mut Self::Belief, bounds: &Bounds)
    where
        Self::Belief: Belief<Self::State>,
        DefaultAllocator: Shapes<Self::State, Self::Output>,
    {
        belief.confine(bounds);
    }

    /// How many past rows a belief still holds the states of, if it is of a window.
    fn lag(&self) -> Option<usize> {
        None
    }

    /// The states of the rows in a window, oldest first: smoothed estimates, of which the last is the filtered
    /// one. Empty without a window.
    fn path(&self, _belief: &Self::Belief) -> Vec<f64> {
        Vec::new()
    }

    /// Takes note of a row in which nothing was measured.
    #[inline(always)]
    fn miss(&self, _belief: &mut Self::Belief, _u: &[f64], _step: &Step) {}

    /// Takes note of a row that the belief was just updated by, and starts anew where a gate has lost the track.
    #[inline(always)]
    fn follow(
        &self,
        _track: &mut Track<Self::Belief>,
        _belief: &mut Self::Belief,
        _row: (&[f64], &[f64]),
        _step: &Step,
        _update: &Update<Self::Output>,
    ) -> Followed
    where
        DefaultAllocator: Allocator<Self::Output> + Allocator<Self::Output, Self::Output>,
    {
        Followed::OnTrack
    }

    /// Whether the new mean is the old one and a gain times the innovation: where it is finite, so is the innovation (a number that
    /// is none spoils even a gain of zero), and nobody waits for a density that he may never look at.
    #[doc(hidden)]
    #[inline(always)]
    fn adds_innovation(&self) -> bool {
        false
    }

    /// Puts a new belief in the place of an old one.
    #[doc(hidden)]
    #[inline(always)]
    fn replace(&self, old: &mut Self::Belief, new: Self::Belief) {
        *old = new;
    }

    /// What of a new belief has left the finite numbers, if that ends the filter.
    #[inline(always)]
    fn flaw(&self, belief: &Self::Belief) -> Option<&'static str>
    where
        Self::Belief: Belief<Self::State>,
        DefaultAllocator: Shapes<Self::State, Self::Output>,
    {
        belief.flaw()
    }

    /// Carries the belief through a step; one of no length changes nothing.
    // Not by way of `predicted`: a belief inside a result goes through memory, and a small one stays in registers here.
    #[inline]
    fn predict(&self, belief: &mut Self::Belief, u: &[f64], step: &Step) -> Result<(), FilterError>
    where
        Self::Belief: Belief<Self::State>,
        DefaultAllocator: Shapes<Self::State, Self::Output>,
    {
        let (n, _, inputs) = self.dims();
        check_inputs(inputs, u, step)?;
        belief.check_dim(n.value(), step.index)?;
        if step.dt == 0.0 {
            return Ok(());
        }
        if self.bounds().is_some() {
            *belief = self.predicted(belief, u, step)?;
            return Ok(());
        }
        let next = match self.propagate_sized(belief, u, step) {
            Ok(next) => next,
            Err(error) => return Err(with_last_good(error, numbers(&belief.mean()))),
        };
        if let Some(quantity) = self.flaw(&next) {
            return Err(diverged(numbers(&belief.mean()), predicted(quantity), step.index));
        }
        self.replace(belief, next);
        Ok(())
    }

    /// [`predict`](Filter::predict) as a function of its own.
    #[doc(hidden)]
    #[cold]
    #[inline(never)]
    fn predict_apart(
        &self,
        belief: &mut Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<(), FilterError>
    where
        Self::Belief: Belief<Self::State>,
        DefaultAllocator: Shapes<Self::State, Self::Output>,
    {
        self.predict(belief, u, step)
    }

    /// What [`predict`](Filter::predict) makes of a belief that is still needed: a row whose update fails goes
    /// back to it.
    #[inline]
    fn predicted(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError>
    where
        Self::Belief: Belief<Self::State>,
        DefaultAllocator: Shapes<Self::State, Self::Output>,
    {
        let (n, _, inputs) = self.dims();
        check_inputs(inputs, u, step)?;
        belief.check_dim(n.value(), step.index)?;
        if step.dt == 0.0 {
            return Ok(belief.clone());
        }
        let inside = self.inside(belief);
        let belief = inside.as_ref().unwrap_or(belief);
        let mut next = match self.propagate_sized(belief, u, step) {
            Ok(next) => next,
            Err(error) => return Err(with_last_good(error, numbers(&belief.mean()))),
        };
        if let Some(bounds) = self.bounds() {
            self.confine(&mut next, bounds);
        }
        if let Some(quantity) = self.flaw(&next) {
            return Err(diverged(numbers(&belief.mean()), predicted(quantity), step.index));
        }
        Ok(next)
    }

    /// Improves the belief by the measurement `y` at the end of the step; NaN marks what is missing.
    #[inline]
    fn update(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        u: &[f64],
        step: &Step,
    ) -> Result<Update<Self::Output>, FilterError>
    where
        Self::Belief: Belief<Self::State>,
        DefaultAllocator: Shapes<Self::State, Self::Output>,
    {
        let (n, m, inputs) = self.dims();
        check_len("y", m.value(), y.len(), Some(step.index))?;
        let complete = all_below(y, f64::INFINITY);
        if !complete && let Some(component) = y.iter().position(|v| v.is_infinite()) {
            let (argument, index) = ("y", Some(step.index));
            return Err(FilterError::NotFinite { argument, component, index });
        }
        check_inputs(inputs, u, step)?;
        belief.check_dim(n.value(), step.index)?;
        if !complete || self.bounds().is_some_and(|bounds| !belief.is_within(bounds)) {
            // What has nothing on the heap is small and goes by value: a reference would keep it in memory all the time, for the sake
            // of what is rare.
            if const { !core::mem::needs_drop::<Self::Belief>() } {
                let mut moved = belief.clone();
                let update = self.update_apart(&mut moved, y, u, step);
                *belief = moved;
                return update;
            }
            return self.update_apart(belief, y, u, step);
        }
        self.learn_sized(belief, y, Observed::All, u, step)
    }

    /// [`update`](Filter::update) where something is missing, or the belief comes from outside the box.
    #[doc(hidden)]
    #[cold]
    #[inline(never)]
    fn update_apart(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        u: &[f64],
        step: &Step,
    ) -> Result<Update<Self::Output>, FilterError>
    where
        Self::Belief: Belief<Self::State>,
        DefaultAllocator: Shapes<Self::State, Self::Output>,
    {
        let mut mask = OVector::<bool, Self::Output>::from_element_generic(self.dims().1, U1, true);
        for (mask, v) in mask.as_mut_slice().iter_mut().zip(y) {
            *mask = !v.is_nan();
        }
        let complete = mask.iter().all(|seen| *seen);
        let observed = if complete { Observed::All } else { Observed::Some(mask.as_slice()) };
        let mut inside = self.inside(belief);
        let inner = inside.as_mut().unwrap_or(&mut *belief);
        let update = self.learn_unsized(inner, y, observed, u, step)?;
        if let Some(inside) = inside {
            *belief = inside;
        }
        Ok(update)
    }

    /// [`propagate`](Filter::propagate): of a size known to the compiler for each caller, of any other once for all.
    #[doc(hidden)]
    #[inline(always)]
    fn propagate_sized(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError> {
        if const { is_fixed::<Self::State>() } {
            self.propagate(belief, u, step)
        } else {
            self.propagate_unsized(belief, u, step)
        }
    }

    /// [`propagate`](Filter::propagate) as a function of its own.
    #[doc(hidden)]
    #[inline(never)]
    fn propagate_unsized(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError> {
        self.propagate(belief, u, step)
    }

    /// [`correct`](Filter::correct) as a function of its own.
    #[doc(hidden)]
    #[inline(never)]
    fn correct_apart(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(Self::Belief, Update<Self::Output>), FilterError>
    where
        DefaultAllocator: Allocator<Self::Output> + Allocator<Self::Output, Self::Output>,
    {
        self.correct(belief, y, observed, u, step)
    }

    /// [`learn`](Filter::learn): of a size known to the compiler for each caller, of any other once for all.
    #[doc(hidden)]
    #[inline(always)]
    fn learn_sized(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<Update<Self::Output>, FilterError>
    where
        Self::Belief: Belief<Self::State>,
        DefaultAllocator: Shapes<Self::State, Self::Output>,
    {
        if const { is_fixed::<Self::State>() } {
            self.learn(belief, y, observed, u, step)
        } else {
            self.learn_unsized(belief, y, observed, u, step)
        }
    }

    /// [`learn`](Filter::learn) as a function of its own.
    #[doc(hidden)]
    #[inline(never)]
    fn learn_unsized(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<Update<Self::Output>, FilterError>
    where
        Self::Belief: Belief<Self::State>,
        DefaultAllocator: Shapes<Self::State, Self::Output>,
    {
        self.learn(belief, y, observed, u, step)
    }

    /// The belief replaced by what [`correct`](Filter::correct) makes of it, if that is sound.
    #[doc(hidden)]
    #[inline(always)]
    fn learn(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<Update<Self::Output>, FilterError>
    where
        Self::Belief: Belief<Self::State>,
        DefaultAllocator: Shapes<Self::State, Self::Output>,
    {
        learnt_by(self, belief, y, observed, u, step)
    }

    /// A belief from outside the box, brought into it; `None` if there is nothing to bring.
    #[inline(always)]
    fn inside(&self, belief: &Self::Belief) -> Option<Self::Belief>
    where
        Self::Belief: Belief<Self::State>,
        DefaultAllocator: Shapes<Self::State, Self::Output>,
    {
        let bounds = self.bounds().filter(|bounds| !belief.is_within(bounds))?;
        let mut inside = belief.clone();
        self.confine(&mut inside, bounds);
        Some(inside)
    }
}

/// What [`Filter::learn`] is, unless a filter knows something quicker.
// Written out, without closures and with as few results inside results as can be: small beliefs stay in registers then.
#[inline(always)]
pub(super) fn learnt_by<F: Filter + ?Sized>(
    filter: &F,
    belief: &mut F::Belief,
    y: &[f64],
    observed: Observed<'_>,
    u: &[f64],
    step: &Step,
) -> Result<Update<F::Output>, FilterError>
where
    F::Belief: Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    let count = observed.count(y.len());
    if count == 0 {
        filter.miss(belief, u, step);
        let m = filter.dims().1;
        let has_cov = F::Belief::has_cov(m.value());
        return Ok(Update::nothing(m, F::Belief::HAS_COV, has_cov));
    }
    let (mut next, mut update) = match filter.correct(belief, y, observed, u, step) {
        Ok(done) => done,
        Err(error) => return Err(with_last_good(error, numbers(&belief.mean()))),
    };
    if let Some(bounds) = filter.bounds() {
        filter.confine(&mut next, bounds);
    }
    if let Some(quantity) = filter.flaw(&next) {
        return Err(diverged(numbers(&belief.mean()), quantity, step.index));
    }
    // What is infinite may have been brought into a box.
    if !filter.adds_innovation() || filter.bounds().is_some() {
        if !is_known(&update.innovation, observed) {
            return Err(diverged(numbers(&belief.mean()), "predicted measurement", step.index));
        }
        if update.log_likelihood.is_some_and(f64::is_nan) {
            return Err(diverged(numbers(&belief.mean()), "log-likelihood", step.index));
        }
    }
    filter.replace(belief, next);
    update.observed = count;
    if observed != Observed::All {
        update.forget_missing(observed);
    }
    Ok(update)
}

/// Whether a prediction was a number wherever something was measured. A likelihood or a rule that bounds its steps
/// may leave the estimate finite all the same.
#[inline(always)]
fn is_known<M: Dim>(innovation: &OVector<f64, M>, observed: Observed<'_>) -> bool
where
    DefaultAllocator: Allocator<M>,
{
    if observed == Observed::All {
        return all_below(innovation.as_slice(), f64::INFINITY);
    }
    let mut known = true;
    for i in 0..innovation.nrows() {
        known &= innovation[i].is_finite() || !observed.has(i);
    }
    known
}

/// The name of a predicted quantity.
fn predicted(quantity: &'static str) -> &'static str {
    if quantity == "estimate" { "prediction" } else { quantity }
}

/// A copy on the heap, for a function that is hardly ever called. Not a copy by value: the optimiser would pass the place of the
/// original, and then a small belief is kept in memory all the time for the sake of what never happens.
#[inline(always)]
pub(super) fn numbers<S: Scalar, R: Dim, C: Dim>(of: &OMatrix<S, R, C>) -> Vec<S>
where
    DefaultAllocator: Allocator<R, C>,
{
    of.as_slice().to_vec()
}

/// The error of a filter whose `quantity` left the finite numbers after this estimate.
#[cold]
#[inline(never)]
fn diverged(last_good: Vec<f64>, quantity: &'static str, index: u64) -> FilterError {
    if quantity == NEGATIVE_VARIANCE {
        let quantity = "belief covariance";
        return FilterError::NotPositiveDefinite { quantity, index: Some(index) };
    }
    FilterError::Diverged { index, quantity, last_good }
}

/// The same error with the last good estimate in it.
#[cold]
#[inline(never)]
fn with_last_good(error: FilterError, last_good: Vec<f64>) -> FilterError {
    match error {
        FilterError::Diverged { index, quantity, .. } => {
            FilterError::Diverged { index, quantity, last_good }
        }
        other => other,
    }
}

/// Checks the control inputs of a step: their number, and that all are finite.
#[inline(always)]
fn check_inputs(expected: usize, u: &[f64], step: &Step) -> Result<(), FilterError> {
    check_len("u", expected, u.len(), Some(step.index))?;
    match u.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(component) => {
            Err(FilterError::NotFinite { argument: "u", component, index: Some(step.index) })
        }
    }
}

/// Measurement less prediction, zero where missing, angles brought into half a turn.
#[inline(always)]
pub(crate) fn residual<O: crate::model::Observation>(
    observation: &O,
    y: &[f64],
    predicted: OVector<f64, O::Output>,
    observed: Observed<'_>,
) -> OVector<f64, O::Output>
where
    DefaultAllocator: Allocator<O::Output>,
{
    let mut predicted = predicted;
    let v = &mut predicted.as_mut_slice()[..y.len()];
    for i in 0..y.len() {
        let difference = y[i] - v[i];
        v[i] = match (observed.has(i), observation.is_angle(i)) {
            (false, _) => 0.0,
            (true, false) => difference,
            (true, true) => crate::scalar::Scalar::wrap(difference, observation.turn(i)),
        };
    }
    predicted
}

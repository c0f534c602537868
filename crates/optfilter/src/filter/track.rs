//! Whether a filter behind a gate is still on the track, and how it comes back.
//!
//! A gate rejects what is too far from the prediction. Once the estimate itself is far away (a jump, an outlier that was taken in
//! the first rows, dynamics that turned) it rejects good measurements, and a covariance that grows by Q alone opens the gate too
//! slowly: an error that grows with time outruns it. So from the first row on in which a sensor is rejected a second belief
//! goes along, that the state has left the track there:
//!
//! ```text
//! start    P <- c P with c = 4, 16, .. until the rejected sensors' NIS is no more than their degrees of freedom,
//!          then the update by them
//! go on    every row, all sensors; started anew as soon as a sensor lies beyond the gate
//! end      when the sensors that were rejected are accepted again: there was nothing but outliers
//! take     when it has agreed with n + 3 m measured components: n are what its unknown state could be fitted to, and three
//!          rows more it has predicted
//! ```
//!
//! Outliers do not agree with one another, so bursts of them are rejected as before; what agrees is where the state is now.
//! Where sensors contradict each other no belief agrees with all of them, and the track is kept.
//!
//! A level that jumps from 0 to 100; four rows later the filter is there:
//!
//! ```
//! use nalgebra::{Const, matrix, vector};
//! use optfilter::drive::advance;
//! use optfilter::filter::{Extended, Filter, Followed, Gate, Gated, Gating, GaussianBelief, Track};
//! use optfilter::model::{GaussianNoise, RandomWalk, Step};
//! let noise = GaussianNoise::new(matrix![0.01], matrix![1.0])?;
//! let gate = Gate::new(0.999, Gating::Reject, 1)?;
//! let filter = Gated::new(Extended::new(RandomWalk::new(Const::<1>), noise), gate);
//! let mut belief = GaussianBelief::new(vector![0.0], matrix![1.0])?;
//! let (mut track, mut found) = (Track::default(), Vec::new());
//! for k in 1..=8 {
//!     let (step, y) = (Step::even(k, 1.0), [if k > 3 { 100.0 } else { 0.0 }]);
//!     let update = advance(&filter, &mut belief, true, (&y, &[]), &step)?;
//!     track.predict(&filter, &[], &step);
//!     let followed = filter.follow(&mut track, &mut belief, (&y, &[]), &step, &update);
//!     found.push((format!("{:.0}", belief.mean[0]), followed == Followed::Anew));
//! }
//! let at = |x: &str, anew| (x.to_owned(), anew);
//! assert_eq!(found[5..], [at("0", false), at("100", true), at("100", false)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::gated::{Gate, Gated};
use super::gaussian::GaussianBelief;
use super::traits::{Belief, Filter, Update};
use crate::Shapes;
use crate::model::Step;
use alloc::vec::Vec;
use nalgebra::{DefaultAllocator, Dim};
use serde::{Deserialize, Serialize};

/// How many rows a belief must have predicted before it takes the place of the filter's own.
const PREDICTED: usize = 3;

/// How often P is multiplied by four at most: from the unit of the last place to that of the first.
const MOST_WIDER: usize = 60;

/// What a row says of the track.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Followed {
    /// Nothing is wrong with it.
    #[default]
    OnTrack,
    /// Some sensor has been rejected so often in a row that good measurements would hardly ever be.
    Lost,
    /// The same, and the belief is a new one, which agrees with the last rows.
    Anew,
}

/// What is kept of the rows that a gate rejects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Track<B> {
    /// Rows in a row in which a sensor was rejected.
    rejected: u32,
    /// The components of the sensors that were rejected last time.
    doubted: Vec<bool>,
    /// The other belief, and with how many measured components it agreed.
    other: Option<(B, usize)>,
    /// Whether it began in the last row.
    is_new: bool,
}

impl<B> Default for Track<B> {
    fn default() -> Self {
        Self { rejected: 0, doubted: Vec::new(), other: None, is_new: false }
    }
}

impl<B> Track<B> {
    /// The belief that the state has left the track, if there is one, and whether it began in the last row.
    pub fn other(&self) -> Option<(&B, bool)> {
        self.other.as_ref().map(|(belief, _)| (belief, self.is_new))
    }

    /// Carries that belief through a step, as the filter's own was.
    #[inline(always)]
    pub fn predict<F>(&mut self, filter: &F, u: &[f64], step: &Step)
    where
        F: Filter<Belief = B>,
        B: Belief<F::State>,
        DefaultAllocator: Shapes<F::State, F::Output>,
    {
        if let Some((belief, _)) = &mut self.other
            && filter.predict(belief, u, step).is_err()
        {
            self.other = None;
        }
    }
}

impl<N: Dim> Track<GaussianBelief<N>>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
{
    /// See [`Filter::follow`].
    #[inline]
    pub(super) fn follow<F>(
        &mut self,
        filter: &Gated<F>,
        belief: &mut GaussianBelief<N>,
        row: (&[f64], &[f64]),
        step: &Step,
        update: &Update<F::Output>,
    ) -> Followed
    where
        F: Filter<State = N, Belief = GaussianBelief<N>>,
        DefaultAllocator: Shapes<N, F::Output>,
    {
        let Some(gate) = &filter.gate else { return Followed::OnTrack };
        match gate.rejects(update) {
            None if self.doubted.is_empty() => Followed::OnTrack,
            beyond => self.doubt(filter, gate, belief, row, step, (update, beyond)),
        }
    }

    #[cold]
    fn doubt<F>(
        &mut self,
        filter: &Gated<F>,
        gate: &Gate,
        belief: &mut GaussianBelief<N>,
        (y, u): (&[f64], &[f64]),
        step: &Step,
        (update, beyond): (&Update<F::Output>, Option<Vec<bool>>),
    ) -> Followed
    where
        F: Filter<State = N, Belief = GaussianBelief<N>>,
        DefaultAllocator: Shapes<N, F::Output>,
    {
        self.doubted.resize(y.len(), false);
        for (i, doubted) in self.doubted.iter_mut().enumerate() {
            if !update.innovation[i].is_nan() {
                *doubted = beyond.as_ref().is_some_and(|beyond| beyond[i]);
            }
        }
        if !self.doubted.contains(&true) {
            *self = Self::default();
            return Followed::OnTrack;
        }
        self.rejected = self.rejected.saturating_add(u32::from(beyond.is_some()));
        self.other = self.other.take().and_then(|(mut other, agreed)| {
            let update = filter.update(&mut other, y, u, step).ok()?;
            gate.rejects(&update).is_none().then_some((other, agreed + update.observed))
        });
        let enough = belief.mean.nrows() + PREDICTED * y.len();
        if let Some((other, _)) = self.other.take_if(|(_, agreed)| *agreed >= enough) {
            *belief = other;
            *self = Self::default();
            return Followed::Anew;
        }
        self.is_new = self.other.is_none();
        if let (None, Some(beyond)) = (&self.other, &beyond) {
            let other = started(filter, belief, y, beyond, (u, step));
            self.other = other.map(|other| (other, update.observed));
        }
        match beyond.is_some() && self.rejected >= gate.many {
            true => Followed::Lost,
            false => Followed::OnTrack,
        }
    }
}

/// The belief that the state is where the rejected sensors say.
fn started<F, N: Dim>(
    filter: &Gated<F>,
    belief: &GaussianBelief<N>,
    y: &[f64],
    beyond: &[bool],
    (u, step): (&[f64], &Step),
) -> Option<GaussianBelief<N>>
where
    F: Filter<State = N, Belief = GaussianBelief<N>>,
    DefaultAllocator: Shapes<N, F::Output>,
{
    let y: Vec<f64> =
        (y.iter().zip(beyond)).map(|(y, beyond)| if *beyond { *y } else { f64::NAN }).collect();
    let mut wide = belief.clone();
    for _ in 0..MOST_WIDER {
        wide.cov *= 4.0;
        let mut taken = wide.clone();
        let update = filter.filter.update(&mut taken, &y, u, step).ok()?;
        if update.nis? <= update.observed as f64 {
            return Some(taken);
        }
    }
    None
}

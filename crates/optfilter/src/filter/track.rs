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
//!          rows more it has predicted; of P times 4^3 or 4^4 with three rows, of less with one
//! ```
//!
//! In the first rows, when anything is likely, an outlier is taken as anything else is; see `first_rows` for how it is found out.
//!
//! Outliers do not agree with one another, so bursts of them are rejected as before; what agrees is where the state is now.
//! Where sensors contradict each other no belief agrees with all of them, and the track is kept.
//!
//! A level that jumps from 0 to 100; four rows later the filter is there:
//!
//! ```
//! use nalgebra::{Const, matrix, vector};
//! use optfilter::drive::advance;
//! use optfilter::filter::{ExtendedKalmanFilter, Filter, Followed, Gate, Gated, Gating, GaussianBelief, Track};
//! use optfilter::model::{GaussianNoise, RandomWalk, Step};
//! let noise = GaussianNoise::new(matrix![0.01], matrix![1.0])?;
//! let gate = Gate::new(0.999, Gating::Reject, 1)?;
//! let filter = Gated::new(ExtendedKalmanFilter::new(RandomWalk::new(Const::<1>), noise), gate);
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

use super::first_rows::First;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

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

/// What is kept of the rows that a gate rejects, and of the first ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Track<B> {
    /// Rows in a row in which a sensor was rejected.
    pub(super) rejected: u32,
    /// The components of the sensors that were rejected last time.
    pub(super) doubted: Vec<bool>,
    /// The other belief, and with how many measured components it agreed.
    pub(super) other: Option<(B, usize)>,
    /// Whether it began in the last row.
    pub(super) is_new: bool,
    /// The first rows, until enough of them agree.
    pub(super) first: Option<First<B>>,
    /// What should have been known after each of the last rows, where the last has told which of them were outliers.
    #[serde(skip, default = "Vec::new")]
    pub(super) corrected: Vec<B>,
}

impl<B> Default for Track<B> {
    fn default() -> Self {
        Self {
            rejected: 0,
            doubted: Vec::new(),
            other: None,
            is_new: false,
            first: None,
            corrected: Vec::new(),
        }
    }
}

impl<B> Track<B> {
    /// Of a filter that begins with this belief. (By default it has begun long ago.)
    pub fn begin(start: B) -> Self {
        let first = Some(First::new(start));
        Self { first, ..Self::default() }
    }

    /// The belief that the state has left the track, if there is one, and whether it began in the last row.
    pub fn other(&self) -> Option<(&B, bool)> {
        self.other.as_ref().map(|(belief, _)| (belief, self.is_new))
    }

    /// The beliefs of the last rows, up to this one, in place of those that they were filtered to; empty where those stand.
    pub fn corrected(&self) -> &[B] {
        &self.corrected
    }

    /// Forgets the rejected rows.
    pub(super) fn calm(&mut self) {
        *self = Self { first: self.first.take(), ..Self::default() };
    }

    /// The same of beliefs of another kind; without the first rows.
    pub(super) fn map<C>(self, kind: impl FnOnce(B) -> C) -> Track<C> {
        let Self { rejected, doubted, other, is_new, .. } = self;
        let other = other.map(|(belief, agreed)| (kind(belief), agreed));
        Track { rejected, doubted, other, is_new, ..Track::default() }
    }
}

//! Fixed-lag smoothing: what the next rows say of each row of a stream, in constant memory.
//!
//! A row comes out when `lag` rows have come after it, and says what smoothing all rows up to then would say of it: for kf, ekf,
//! iekf and ukf exactly, by the Rauch-Tung-Striebel recursion over the rows that are kept, at `lag` steps of it a row. The rows
//! at the end come out together, by what there is after them. imap's window of that many rows says it by itself, without a spread.
//!
//! ```
//! use optfilter::model::RandomWalk;
//! use optfilter_run::{FilterSpec, FixedLagSmoother, Problem, Session, build};
//!
//! let problem = Problem::new(RandomWalk::new(nalgebra::Dyn(1))).noise(0.5, 1.0).start(0.0, 1.0);
//! let spec = FilterSpec::of("kf")?;
//! let runner = build(&spec, &problem)?;
//! let mut session = Session::new(&*runner, &spec, 1.0)?;
//! let mut lag = FixedLagSmoother::new(&*runner, 1)?;
//! for (k, y) in [1.0, 2.0, 1.5].into_iter().enumerate() {
//!     let step = session.take(None, false, &[], &[y]).map_err(|e| format!("{e:?}"))?;
//!     let late = lag.push(&session, &step, &[])?;
//!     assert_eq!(late.is_some(), k > 0);
//! }
//! assert_eq!(lag.rest(&session)?.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::choice::Method;
use crate::error::{RunError, SpecError};
use crate::runner::DynFilter;
use crate::session::Session;
use crate::state_space::{DynBelief, StateSpace};
use optfilter::Pooled;
use optfilter::filter::{Belief, Followed, GaussianBelief};
use optfilter::model::Step;
use optfilter::scalar::Scalar;
use std::collections::VecDeque;

/// A row that waits for those after it.
struct Waiting {
    filtered: DynBelief,
    step: Step,
    u: Vec<f64>,
    /// Whether the filter started anew here: rows before it have nothing to learn from it.
    anew: bool,
}

/// A smoothed row. Covariances are empty where there are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SmoothedEstimate {
    /// The smoothed state, angles between minus and plus half a turn.
    pub mean: Vec<f64>,
    /// Its covariance, n x n.
    pub cov: Vec<f64>,
    /// The state as the filter had it.
    pub filtered_mean: Vec<f64>,
    /// Its covariance, n x n.
    pub filtered_cov: Vec<f64>,
}

/// The rows of one series that wait.
pub struct FixedLagSmoother {
    state_space: Box<dyn StateSpace>,
    windowed: bool,
    lag: usize,
    waiting: VecDeque<Waiting>,
}

impl FixedLagSmoother {
    /// For one session of a runner. An implicit filter needs a window of `lag` rows ([`FilterSpec::smoothing`] of `lag + 1` rows).
    ///
    /// [`FilterSpec::smoothing`]: crate::FilterSpec::smoothing
    pub fn new(runner: &dyn DynFilter, lag: usize) -> Result<Self, SpecError> {
        let state_space = runner.state_space();
        let windowed = match state_space.method() {
            Method::Kf | Method::Ekf | Method::Iekf | Method::Ukf => false,
            Method::Imap if runner.lag() == Some(lag) => true,
            Method::Imap => {
                let message = "a fixed lag of imap is that of its window; leave the window open";
                return Err(SpecError::of("window", message));
            }
            method => {
                let message =
                    format!("{} has no fixed lag; use kf, ekf, iekf, ukf or imap", method.name());
                return Err(SpecError::of("method", message));
            }
        };
        Ok(Self { state_space, windowed, lag, waiting: VecDeque::new() })
    }

    /// Takes what a session made of a row, and gives the row that has now waited long enough.
    pub fn push(
        &mut self,
        session: &Session,
        step: &Step,
        u: &[f64],
    ) -> Result<Option<SmoothedEstimate>, RunError> {
        let (mean, cov) = (&session.estimate.mean, &session.estimate.cov);
        let n = if cov.is_empty() { 0 } else { mean.len() };
        let filtered = match &session.estimate.diffuse {
            Some(diffuse) => DynBelief::clone(diffuse),
            None => DynBelief::from(GaussianBelief {
                mean: Pooled::vector(mean),
                cov: Pooled::matrix(n, n, cov),
            }),
        };
        let anew = session.estimate.followed == Followed::Anew;
        self.waiting.push_back(Waiting { filtered, step: *step, u: u.to_vec(), anew });
        if self.waiting.len() <= self.lag {
            return Ok(None);
        }
        let late = if self.windowed {
            let oldest = session.path();
            let state = oldest.get(..mean.len()).unwrap_or(mean).to_vec();
            self.waiting.front().map(|row| row.late(&point(&state)))
        } else {
            self.back(|_| {})?
        };
        self.waiting.pop_front();
        Ok(late.map(|late| self.wrapped(late)))
    }

    /// The rows that still wait, oldest first.
    pub fn rest(&mut self, session: &Session) -> Result<Vec<SmoothedEstimate>, RunError> {
        let mut out = Vec::new();
        if self.windowed {
            let n = session.estimate.mean.len().max(1);
            let path = session.path();
            let late = (path.len() / n).saturating_sub(self.waiting.len());
            for (row, state) in self.waiting.iter().zip(path.chunks_exact(n).skip(late)) {
                out.push(row.late(&point(state)));
            }
        } else {
            self.back(|late| out.push(late))?;
            out.reverse();
        }
        self.waiting.clear();
        Ok(out.into_iter().map(|late| self.wrapped(late)).collect())
    }

    /// The way back from the newest row to the oldest, which is returned; `visit` sees every row.
    fn back(
        &self,
        mut visit: impl FnMut(SmoothedEstimate),
    ) -> Result<Option<SmoothedEstimate>, RunError> {
        let mut after: Option<(&Waiting, DynBelief)> = None;
        for row in self.waiting.iter().rev() {
            let smoothed = match &after {
                None => row.filtered.clone(),
                Some((next, _)) if next.anew => row.filtered.clone(),
                Some((next, belief)) => {
                    self.state_space.smooth_step(&row.filtered, belief, &next.u, &next.step)?
                }
            };
            visit(row.late(&smoothed));
            after = Some((row, smoothed));
        }
        Ok(after.map(|(row, smoothed)| row.late(&smoothed)))
    }

    fn wrapped(&self, mut late: SmoothedEstimate) -> SmoothedEstimate {
        for (i, v) in late.mean.iter_mut().enumerate() {
            if let Some(turn) = self.state_space.state_angle(i) {
                *v = v.wrap(turn);
            }
        }
        late
    }
}

/// A state without a spread.
fn point(state: &[f64]) -> DynBelief {
    let mean = Pooled::vector(state);
    GaussianBelief { mean, cov: Pooled::matrix(0, 0, &[]) }.into()
}

impl Waiting {
    fn late(&self, smoothed: &DynBelief) -> SmoothedEstimate {
        let cov = |b: &DynBelief| b.cov().map_or_else(Vec::new, |cov| cov.as_slice().to_vec());
        SmoothedEstimate {
            mean: smoothed.known.mean.as_slice().to_vec(),
            cov: cov(smoothed),
            filtered_mean: self.filtered.known.mean.as_slice().to_vec(),
            filtered_cov: cov(&self.filtered),
        }
    }
}

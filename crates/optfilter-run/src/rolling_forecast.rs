//! Forecasts from every row of a stream, not only from its last.
//!
//! After a row the belief is carried on through the next steps as [`forecast`](crate::forecast()) does, and then put back where
//! it was. Steps ahead are as long as the model's `dt`; inputs stay as they were at the row, since those to come are not known.
//! Each forecast is that of the series up to its row, to the bit.
//!
//! ```
//! use optfilter::model::RandomWalk;
//! use optfilter_run::{FilterSpec, RollingForecaster, Problem, Session, build};
//!
//! let problem = Problem::new(RandomWalk::new(nalgebra::Dyn(1))).noise(0.5, 1.0).start(0.0, 1.0);
//! let spec = FilterSpec::of("kf")?;
//! let runner = build(&spec, &problem)?;
//! let mut session = Session::new(&*runner, &spec, 1.0)?;
//! let horizon = RollingForecaster::new(runner, 2);
//! for y in [0.3, -0.1] {
//!     let step = session.take(None, false, &[], &[y]).map_err(|e| format!("{e:?}"))?;
//!     let ahead = horizon.look(&mut session, &step, &[])?;
//!     println!("two rows later {:?}", ahead.measurements[1][0].intervals[2]);
//!     assert_eq!(ahead.states[1][0].mean, session.estimate.mean[0]);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::error::RunError;
use crate::forecast::{Forecast, look_ahead};
use crate::runner::{DynFilter, OnlineFilter};
use crate::session::Session;
use crate::state_space::StateSpace;
use optfilter::model::Step;
use std::sync::Arc;

/// Looks so many rows ahead from wherever a session is.
pub struct RollingForecaster {
    runner: Arc<dyn DynFilter>,
    state_space: Box<dyn StateSpace>,
    rows: usize,
}

impl RollingForecaster {
    /// For sessions of a runner.
    pub fn new(runner: Arc<dyn DynFilter>, rows: usize) -> Self {
        Self { state_space: runner.state_space(), runner, rows }
    }

    /// The forecast from the row that a session took last, with its step and its inputs. The session is as it was.
    pub fn look(
        &self,
        session: &mut Session,
        step: &Step,
        u: &[f64],
    ) -> Result<Forecast, RunError> {
        let dt = session.dt();
        session.aside(|live| self.look_from(live, step, u, dt))
    }

    /// The same of a belief on its way, which is carried on; steps ahead are `dt` long.
    pub fn look_from(
        &self,
        live: &mut dyn OnlineFilter,
        step: &Step,
        u: &[f64],
        dt: f64,
    ) -> Result<Forecast, RunError> {
        let ahead = |k: usize| {
            let (index, time) = (step.index + k as u64, step.time + k as f64 * dt);
            Step { time, ..Step::even(index, dt) }
        };
        let steps: Vec<Step> = (1..=self.rows).map(ahead).collect();
        let inputs = u.repeat(self.rows);
        look_ahead(&*self.state_space, &*self.runner, live, &steps, &inputs)
    }
}

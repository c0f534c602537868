//! The one way over rows in memory: a filter takes them one after the other, and whoever asked looks at each.
//!
//! Rows that come one by one, with times of their own, go through a [`Session`](crate::Session).
//!
//! ```
//! use optfilter::{Series, model::RandomWalk};
//! use optfilter_run::{FilterSpec, Problem, RunError, build, walk};
//! let problem = Problem::new(RandomWalk::new(nalgebra::Dyn(1))).noise(0.5, 1.0).start(0.0, 1.0);
//! let runner = build(&FilterSpec::of("kf")?, &problem)?;
//! let mut live = runner.start(runner.default_start())?;
//! let (series, mut innovations) = (Series::new(&[0.9, 1.1, 1.0], 1)?, Vec::new());
//! walk(&mut *live, &series, |_, _, estimate| {
//!     innovations.push(estimate.innovation[0]);
//!     Ok::<_, RunError>(())
//! })?;
//! assert_eq!((innovations.len(), innovations[0]), (3, 0.9));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::runner::{Estimate, OnlineFilter};
use optfilter::Series;
use optfilter::filter::FilterError;
use optfilter::model::Step;

/// A row of a series.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The step that leads to it.
    pub step: Step,
    /// Its control inputs.
    pub inputs: &'a [f64],
    /// What was measured; NaN where nothing was.
    pub measurements: &'a [f64],
    /// Whether it is predicted first; the first row is the belief's own time unless it is told otherwise.
    pub is_predicted: bool,
}

impl Row<'_> {
    /// Takes the row: predicts, unless the belief is of its time, and updates.
    pub fn take(&self, live: &mut dyn OnlineFilter, out: &mut Estimate) -> Result<(), FilterError> {
        live.step(self.is_predicted, &self.step, self.inputs, self.measurements, out)
    }

    /// The first half of it.
    pub fn predict(&self, live: &mut dyn OnlineFilter) -> Result<(), FilterError> {
        match self.is_predicted {
            true => live.predict(self.inputs, &self.step),
            false => Ok(()),
        }
    }
}

/// Rows in memory.
pub trait RowSource {
    /// How many there are.
    fn rows(&self) -> usize;
    /// One of them, from 0.
    fn row(&self, k: usize) -> Row<'_>;
}

impl RowSource for Series<'_> {
    fn rows(&self) -> usize {
        self.len()
    }
    fn row(&self, k: usize) -> Row<'_> {
        Row {
            step: self.step(k),
            inputs: self.input(k),
            measurements: self.observation(k),
            is_predicted: self.predicts(k),
        }
    }
}

/// Takes all rows. `visit` sees each after it was taken, by its number, with the filter and what it estimates, and may end the walk.
pub fn walk<E: From<FilterError>>(
    live: &mut dyn OnlineFilter,
    rows: &(impl RowSource + ?Sized),
    mut visit: impl FnMut(usize, &mut dyn OnlineFilter, &Estimate) -> Result<(), E>,
) -> Result<(), E> {
    let mut estimate = Estimate::default();
    for k in 0..rows.rows() {
        rows.row(k).take(live, &mut estimate)?;
        visit(k, live, &estimate)?;
    }
    Ok(())
}

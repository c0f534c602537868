//! A step in time.

/// The time step that a transition crosses or at whose end an observation is made.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Step {
    /// The number of the step, from 1.
    pub index: u64,
    /// The time at the end of the step.
    pub time: f64,
    /// The length of the step; over a step of none nothing is predicted.
    pub dt: f64,
    /// The time since the row before that was measured: `dt` where that is the row before, more after a gap.
    pub since: f64,
    /// The usual length of a step: the mean of those before, or `dt`.
    pub usual: f64,
}

impl Step {
    /// The step to row `index`, of a series whose first row was at time `first`, with nothing missing before it.
    pub fn to_row(index: u64, time: f64, dt: f64, first: f64) -> Self {
        let before = index.saturating_sub(2) as f64;
        let usual = if before > 0.0 { (time - dt - first) / before } else { dt };
        Self { index, time, dt, since: dt, usual }
    }

    /// How many usual steps passed since the last measurement; 1 where that is about one.
    pub(crate) fn gap(&self) -> f64 {
        let gap = self.since / self.usual;
        // A quarter more or less is the difference between two months.
        if gap > 1.25 && gap.is_finite() { gap } else { 1.0 }
    }

    /// Step number `index` of a series with even spacing `dt` that starts at time 0.
    pub fn even(index: u64, dt: f64) -> Self {
        Self { index, time: index as f64 * dt, dt, since: dt, usual: dt }
    }
}

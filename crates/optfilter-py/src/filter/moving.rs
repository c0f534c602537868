//! What changes while a filter is stepped.

use optfilter::model::Step;
use optfilter_run::{Estimate, OnlineFilter};

/// What changes while a filter is stepped.
pub(super) struct Moving {
    pub(super) live: Box<dyn OnlineFilter>,
    pub(super) clock: StepClock,
    /// Where a measurement is read to, before it is known whether it can be taken.
    pub(super) y: Vec<f64>,
    /// The inputs that hold now.
    pub(super) u: Vec<f64>,
    /// Whether a measurement was taken.
    pub(super) seen: bool,
    /// The last one, its inputs, and the step it was taken in: number, time and length.
    pub(super) z: Vec<f64>,
    pub(super) inputs: Vec<f64>,
    pub(super) at: (u64, f64, f64),
    /// What it told.
    pub(super) report: Estimate,
    /// The belief after the last prediction, or before the last measurement if none came between.
    pub(super) prior: Estimate,
    /// Whether `prior` was predicted since the last measurement.
    pub(super) predicted: bool,
    /// The belief before the last measurement, where `prior` is another one by now.
    pub(super) before: Estimate,
    /// The belief before a measurement that was not predicted, until it is taken.
    pub(super) now: Estimate,
}

impl Moving {
    pub(super) fn new(live: Box<dyn OnlineFilter>, dt: f64, outputs: usize, inputs: usize) -> Self {
        Self {
            live,
            clock: StepClock { index: 0, time: 0.0, dt, even: true, late: false },
            y: vec![0.0; outputs],
            u: vec![0.0; inputs],
            seen: false,
            z: vec![0.0; outputs],
            inputs: vec![0.0; inputs],
            at: (0, 0.0, dt),
            report: Estimate::default(),
            prior: Estimate::default(),
            predicted: false,
            before: Estimate::default(),
            now: Estimate::default(),
        }
    }

    /// Remembers a measurement that was taken with these inputs.
    pub(super) fn taken(&mut self, inputs: Vec<f64>, step: &Step) {
        if !std::mem::take(&mut self.predicted) {
            std::mem::swap(&mut self.prior, &mut self.now);
        }
        std::mem::swap(&mut self.y, &mut self.z);
        self.u.clone_from(&inputs);
        self.inputs = inputs;
        self.at = (step.index, step.time, step.dt);
        self.seen = true;
    }

    /// The belief before the last measurement.
    pub(super) fn met(&self) -> &Estimate {
        if self.predicted { &self.before } else { &self.prior }
    }

    /// What the last steps left besides the belief, as bytes: each part as its length and its numbers.
    pub(super) fn save_traces(&self) -> Vec<u8> {
        let truth = |yes: bool| if yes { 1.0 } else { 0.0 };
        let (index, time, dt) = self.at;
        let told = [self.report.log_likelihood, self.report.nis];
        let state = [truth(self.seen), truth(self.predicted), index as f64, time, dt];
        let parts: [&[f64]; PARTS] = [
            &state,
            &told,
            &self.z,
            &self.u,
            &self.inputs,
            &self.report.innovation,
            &self.report.innovation_cov,
            &self.prior.mean,
            &self.prior.cov,
            &self.before.mean,
            &self.before.cov,
        ];
        let mut out = Vec::new();
        for part in parts {
            out.extend((part.len() as u64).to_le_bytes());
            out.extend(part.iter().flat_map(|v| v.to_le_bytes()));
        }
        out
    }

    pub(super) fn load_traces(&mut self, traces: Traces) {
        let [state, told, z, u, inputs, innovation, innovation_cov, mean, cov, before, before_cov] =
            traces.0;
        (self.seen, self.predicted) = (state[0] != 0.0, state[1] != 0.0);
        self.at = (state[2] as u64, state[3], state[4]);
        (self.z, self.u, self.inputs) = (z, u, inputs);
        let (log_likelihood, nis) = (told[0], told[1]);
        self.report =
            Estimate { innovation, innovation_cov, log_likelihood, nis, ..Estimate::default() };
        self.prior = Estimate { mean, cov, ..Estimate::default() };
        self.before = Estimate { mean: before, cov: before_cov, ..Estimate::default() };
    }
}

/// Parts of saved [`Traces`].
const PARTS: usize = 11;

/// What [`Moving::save_traces`] wrote.
pub(super) struct Traces([Vec<f64>; PARTS]);

impl Traces {
    /// From the beginning of `bytes`; also returns the rest of them.
    pub(super) fn read(mut bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut parts: [Vec<f64>; PARTS] = Default::default();
        for part in &mut parts {
            let (count, rest) = bytes.split_first_chunk::<8>()?;
            let size = usize::try_from(u64::from_le_bytes(*count)).ok()?.checked_mul(8)?;
            let (values, rest) = rest.split_at_checked(size)?;
            part.extend(values.as_chunks::<8>().0.iter().map(|v| f64::from_le_bytes(*v)));
            bytes = rest;
        }
        Some((Self(parts), bytes))
    }

    /// Whether they are of a filter with that many states, measurements and inputs.
    pub(super) fn fit(&self, (n, m, p): (usize, usize, usize)) -> bool {
        let wanted = [5, 2, m, p, p, m, m * m, n, n * n, n, n * n];
        // Before the first step, and in filters without covariances, there is nothing yet.
        let may_be_empty = |part: usize| part > 4;
        let mut parts = self.0.iter().zip(wanted).enumerate();
        parts.all(|(i, (part, size))| part.len() == size || part.is_empty() && may_be_empty(i))
    }
}

/// The time line of a filter that is stepped by hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepClock {
    /// Rows: predictions, and one more if a measurement came before the first of them.
    pub(super) index: u64,
    pub(super) time: f64,
    /// The length of the last step.
    pub(super) dt: f64,
    /// Whether every step so far had the model's own length, so that time is a product, not a sum.
    even: bool,
    /// Whether the first row was not predicted.
    late: bool,
}

/// A clock for pickling: index, time, dt, even, late.
pub(super) type SavedClock = (u64, f64, f64, bool, bool);

impl StepClock {
    /// After a prediction through `length`; `own` is the model's step.
    pub(super) fn after(self, length: f64, own: f64) -> Self {
        let index = self.index + 1;
        let even = self.even && length == own;
        let steps = index - u64::from(self.late);
        let time = if even { steps as f64 * own } else { self.time + length };
        Self { index, time, dt: length, even, ..self }
    }

    /// At a measurement: before the first prediction it is the first row.
    pub(super) fn at_measurement(self) -> Self {
        if self.index > 0 { self } else { Self { index: 1, late: true, ..self } }
    }

    pub(super) fn save(self) -> SavedClock {
        (self.index, self.time, self.dt, self.even, self.late)
    }

    pub(super) fn load((index, time, dt, even, late): SavedClock) -> Self {
        Self { index, time, dt, even, late }
    }
}

//! Rows for a random model: simulated where the model can be, else noise; with gaps, times and now and then nonsense.

use crate::grammar::Dice;
use optfilter::Series;
use optfilter::filter::FilterError;
use optfilter_model::{LikelihoodKind, ModelSpec};

/// Rows of a case.
pub const ROWS: usize = 12;

/// Times, inputs and observations.
pub struct Data {
    pub times: Option<Vec<f64>>,
    pub inputs: Vec<f64>,
    pub outputs: Vec<f64>,
}

impl Data {
    pub fn new(spec: &ModelSpec, dice: &mut Dice) -> Result<Self, String> {
        let (p, m) = (spec.inputs.len(), spec.observations.len());
        let mut inputs: Vec<f64> = (0..ROWS * p).map(|_| dice.normal()).collect();
        let mut outputs = Vec::new();
        if dice.chance(0.6) {
            let seed = dice.whole(1 << 20) as u64;
            let mut sound = true;
            let played =
                spec.simulate(ROWS, (seed, 0), spec.filter.predict_first(), &inputs, |_, x, y| {
                    sound &= x.iter().chain(y).all(|v| v.is_finite());
                    outputs.extend_from_slice(y);
                    true
                });
            if played.is_ok() && !sound {
                return Err("a simulation is `Ok` with a number that is not finite".into());
            }
        }
        // What cannot be simulated, or not to the end, goes on with noise.
        for k in outputs.len()..ROWS * m {
            outputs.push(match spec.likelihoods[k % m] {
                LikelihoodKind::Poisson { .. } => dice.whole(6) as f64,
                LikelihoodKind::Bernoulli { .. } => dice.whole(2) as f64,
                _ => dice.normal() * dice.size().min(1e6),
            });
        }
        let (gap, partial) =
            (if dice.chance(0.4) { 0.3 } else { 0.0 }, if dice.chance(0.4) { 0.3 } else { 0.0 });
        for row in outputs.chunks_mut(m) {
            let gone = dice.chance(gap);
            for v in row {
                if gone || dice.chance(partial) {
                    *v = f64::NAN;
                }
            }
        }
        let nonsense = [f64::INFINITY, 1e300, -1e160, 0.5, -1.0, 1e5];
        if dice.chance(0.08) {
            outputs[dice.whole(ROWS * m)] = nonsense[dice.whole(nonsense.len())];
        }
        if p > 0 && dice.chance(0.05) {
            inputs[dice.whole(ROWS * p)] = [f64::NAN, 1e200][dice.whole(2)];
        }
        let times = spec.time_column.as_ref().map(|_| {
            let mut time = dice.normal();
            let mut next = || {
                time += match dice.whole(20) {
                    0..=3 => 0.0,
                    4 if dice.chance(0.05) => -1.0,
                    4 if dice.chance(0.1) => dice.size(),
                    _ => 2.0 * spec.dt * dice.between(0.0, 1.0),
                };
                time
            };
            (0..ROWS).map(|_| next()).collect()
        });
        Ok(Self { times, inputs, outputs })
    }

    /// As a series; an error if a row is none.
    pub fn series(&self, spec: &ModelSpec, predict_first: bool) -> Result<Series<'_>, FilterError> {
        let mut series = Series::new(&self.outputs, spec.observations.len())?
            .with_dt(spec.dt)?
            .with_inputs(&self.inputs, spec.inputs.len())?;
        if let Some(times) = &self.times {
            series = series.with_times(times)?;
        }
        Ok(if predict_first { series.predict_first() } else { series })
    }

    /// As a table that the program reads.
    pub fn table(&self, spec: &ModelSpec) -> String {
        let mut head: Vec<&str> = self.times.iter().map(|_| "when").collect();
        head.extend(spec.inputs.iter().chain(&spec.observations).map(String::as_str));
        let mut text = head.join(",") + "\n";
        let (p, m) = (spec.inputs.len(), spec.observations.len());
        for row in 0..ROWS {
            let mut cells: Vec<f64> = self.times.iter().map(|t| t[row]).collect();
            cells.extend_from_slice(&self.inputs[row * p..(row + 1) * p]);
            cells.extend_from_slice(&self.outputs[row * m..(row + 1) * m]);
            let cells: Vec<String> = cells.iter().map(|v| format!("{v:e}")).collect();
            text += &(cells.join(",") + "\n");
        }
        text
    }
}

//! Many series of an implicit filter with a window together, as lanes of vectors.

use crate::error::SpecError;
use crate::flags::Gauge;
use crate::model::{Flexible, RunModel};
use crate::problem::Problem;
use crate::rule::Stoppable;
use crate::runner::{Results, Start, put};
use crate::spec::FilterSpec;
use crate::together::{Page, RunTogether, groups};
use nalgebra::Dyn;
use optfilter::Series;
use optfilter::filter::{Memory, Window, WindowRow};
use optfilter::model::likelihood::AnyLikelihood;
use optfilter::model::{Dynamics, Observation, Step};
use optfilter::optim::AnyOptimizer;
use optfilter::scalar::{Lanes, Scalar};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Lanes of one run.
const WIDTH: usize = 8;

type Filter<T> = Window<Flexible<T>, AnyLikelihood<Dyn>, Stoppable<AnyOptimizer>>;

/// A window that does not bend, by a rule of the library's.
pub(crate) struct Windows<T: RunModel> {
    filter: Filter<T>,
    problem: Problem<T>,
    page: Page<T>,
    length: usize,
}

impl<T: RunModel> Windows<T> {
    pub(crate) fn new(
        spec: &FilterSpec,
        problem: &Problem<T>,
        squared: bool,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, SpecError> {
        let model = Flexible(problem.model.clone());
        let m = model.output_dim();
        let likelihood = problem.likelihood(m, squared)?;
        let rule = Stoppable { rule: spec.rule()?, stop: stop.clone() };
        let length = spec.window();
        let mut filter = Window::new(model.clone(), likelihood, rule, spec.steps(), length)?
            .with_discount(spec.discount())?;
        if spec.carry() {
            filter = filter.with_memory(Memory::Carry)?;
        }
        if let Some(bounds) = &problem.bounds {
            filter = filter.with_bounds(bounds.clone())?;
        }
        let gauge = Gauge::new(m.0, spec.gate, problem.bounds.clone());
        let page = Page { model, even: problem.refuses_irregular(spec), gauge };
        Ok(Self { filter, problem: problem.clone(), page, length })
    }
}

impl<T: RunModel> RunTogether for Windows<T> {
    fn run(
        &self,
        starts: &[Start],
        series: &[Series<'_>],
        rows: &mut [Results<'_>],
        stop: &dyn Fn() -> bool,
    ) -> Vec<bool> {
        let mut done = vec![false; series.len()];
        for group in groups(series.len(), |a, b| series[a].same_clock(&series[b])) {
            if !self.page.is_even(&series[group.start]) {
                continue;
            }
            for first in group.clone().step_by(WIDTH) {
                if stop() {
                    return done;
                }
                let these = first..group.end.min(first + WIDTH);
                let starts: Vec<&[f64]> =
                    starts[these.clone()].iter().map(|start| &start.mean[..]).collect();
                let mut scribe = Scribe::new(self, &mut rows[these.clone()]);
                let series = &series[these.clone()];
                // Not as code for the vector unit at hand: models of text choose that themselves, and a copy for each unit of the loop of every
                // rule takes longer to compile than all else here.
                let path =
                    self.filter.side_by_side::<WIDTH>(&starts, series, &mut |k, step, row| {
                        scribe.write(k, step, row, series);
                    });
                if let Some(path) = path {
                    scribe.finish(&path);
                    done[these].fill(true);
                }
            }
        }
        done
    }
}

/// Writes the rows of all lanes to where each belongs.
struct Scribe<'a, 'r, T: RunModel> {
    windows: &'a Windows<T>,
    rows: &'a mut [Results<'r>],
    gauges: Vec<Gauge>,
    /// The length of a whole turn of each state that is an angle.
    turns: Vec<Option<f64>>,
}

impl<'a, 'r, T: RunModel> Scribe<'a, 'r, T> {
    fn new(windows: &'a Windows<T>, rows: &'a mut [Results<'r>]) -> Self {
        let Page { model, gauge, .. } = &windows.page;
        let turn = |i: usize| model.is_state_angle(i).then(|| model.state_turn(i));
        let turns = (0..model.state_dim().0).map(turn).collect();
        Self { windows, gauges: vec![gauge.clone(); rows.len()], turns, rows }
    }

    fn write(&mut self, k: usize, step: &Step, row: &WindowRow<'_, WIDTH>, series: &[Series<'_>]) {
        let Windows { problem, length, .. } = self.windows;
        let (n, m) = (row.mean.len(), row.innovation.len());
        let mut expected = vec![0.0; m];
        for (lane, (rows, gauge)) in self.rows.iter_mut().zip(&mut self.gauges).enumerate() {
            let mean = wrapped(row.mean, lane, &self.turns);
            put(rows.means, k, Some(&mean), n);
            put(rows.innovations, k, Some(&wrapped(row.innovation, lane, &[])), m);
            put(rows.covs, k, None, n * n);
            put(rows.innovation_covs, k, None, m * m);
            put(rows.log_likelihoods, k, None, 1);
            put(rows.nis, k, None, 1);
            if let Some(flag) = rows.flags.get_mut(k) {
                let (y, u) = (series[lane].observation(k), series[lane].input(k));
                problem.expected(&mean, u, step, &mut expected);
                *flag = f64::from(gauge.flag(y, &mean, f64::NAN, &expected) as u8);
            }
            if !rows.lagged.is_empty() && k >= *length {
                put(rows.lagged, k - length, Some(&wrapped(row.oldest, lane, &self.turns)), n);
            }
        }
    }

    /// What the last window says of its rows.
    fn finish(&mut self, path: &[Lanes<WIDTH>]) {
        for (lane, rows) in self.rows.iter_mut().enumerate() {
            if !rows.lagged.is_empty() {
                let from = rows.lagged.len() - path.len();
                rows.lagged[from..].copy_from_slice(&wrapped(path, lane, &self.turns));
            }
        }
    }
}

/// One lane of states one after the other (or of other values, without turns), angles within half a turn.
fn wrapped(values: &[Lanes<WIDTH>], lane: usize, turns: &[Option<f64>]) -> Vec<f64> {
    let mut out: Vec<f64> = values.iter().map(|v| v.0[lane]).collect();
    for state in out.chunks_mut(turns.len().max(1)) {
        for (v, turn) in state.iter_mut().zip(turns) {
            *v = turn.map_or(*v, |turn| v.wrap(turn));
        }
    }
    out
}

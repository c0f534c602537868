//! What is kept of a long run for its picture.

use super::{BLUE, Figure, GREY, Mark, ORANGE, Panel};
use optfilter_model::ModelSpec;
use optfilter_run::Estimate;

/// A selection of rows, evenly spaced, of at most [`Thinned::MOST`].
pub struct Thinned {
    states: Vec<String>,
    outputs: Vec<String>,
    title: String,
    stride: u64,
    seen: u64,
    /// Per kept row: time, means, deviations, measurements, predictions.
    rows: Vec<Vec<f64>>,
    /// Seconds per unit of time if the rows have calendar times.
    pub calendar: Option<f64>,
}

impl Thinned {
    const MOST: usize = 1000;

    /// Empty, for a model.
    pub fn new(spec: &ModelSpec) -> Self {
        Self {
            states: spec.states.clone(),
            outputs: spec.observations.clone(),
            title: spec.name.clone(),
            stride: 1,
            seen: 0,
            rows: Vec::new(),
            calendar: None,
        }
    }

    /// Considers a row.
    pub fn push(&mut self, time: f64, y: &[f64], estimate: &Estimate) {
        if self.seen.is_multiple_of(self.stride) {
            if self.rows.len() == Self::MOST {
                let mut keep = false;
                self.rows.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride *= 2;
            }
            if self.seen.is_multiple_of(self.stride) {
                let mut row = vec![time];
                row.extend_from_slice(&estimate.mean);
                row.extend((0..estimate.mean.len()).map(|i| estimate.std(i)));
                row.extend_from_slice(y);
                row.extend(y.iter().zip(&estimate.innovation).map(|(y, v)| y - v));
                self.rows.push(row);
            }
        }
        self.seen += 1;
    }

    /// One panel for each state with its band, and one for each observation with its prediction.
    pub fn figure(&self) -> Figure {
        let (n, m) = (self.states.len(), self.outputs.len());
        let column =
            |c: usize| -> Vec<(f64, f64)> { self.rows.iter().map(|r| (r[0], r[c])).collect() };
        let mut panels = Vec::new();
        for (i, name) in self.states.iter().enumerate() {
            let band: Vec<(f64, f64, f64)> = self
                .rows
                .iter()
                .map(|r| (r[0], r[1 + i] - 2.0 * r[1 + n + i], r[1 + i] + 2.0 * r[1 + n + i]))
                .collect();
            let mut marks = Vec::new();
            if band.iter().any(|b| b.1.is_finite()) {
                marks.push(Mark::Band(band, "two standard deviations".into(), BLUE));
            }
            marks.push(Mark::Line(column(1 + i), "estimate".into(), BLUE));
            panels.push(Panel { title: name.clone(), marks });
        }
        for (i, name) in self.outputs.iter().enumerate() {
            let dots = Mark::Dots(column(1 + 2 * n + i), "measured".into(), GREY);
            let line =
                Mark::Line(column(1 + 2 * n + m + i), "predicted one row ahead".into(), ORANGE);
            panels.push(Panel { title: name.clone(), marks: vec![dots, line] });
        }
        let x_label = "time".into();
        Figure { title: self.title.clone(), panels, x_label, calendar: self.calendar }
    }
}

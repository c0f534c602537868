//! Inputs between the rows that state them: a straight line from the last known value to the next one.
//!
//! The next value comes later, so rows wait for it: a batch is let go when nothing in it waits any more, and what waits is
//! no longer than the longest gap. Before the first value and after the last there is no line; there an input is as if it
//! were [held](super::Held).

use super::Layout;
use crate::file::{Missing, ModelSpec};
use crate::table::Rows;
use std::collections::{HashMap, VecDeque};

/// Rows on their way, some of which wait for the inputs of later ones.
#[derive(Debug)]
pub struct Interpolation {
    layout: Layout,
    /// Where the inputs stand in a row.
    places: Vec<usize>,
    /// Batches with the number of cells that wait, oldest first.
    queue: VecDeque<(Rows, usize)>,
    /// The number of the oldest.
    first: usize,
    series: HashMap<String, Vec<Line>>,
}

/// What is known of an input of a series.
#[derive(Clone, Debug, Default)]
struct Line {
    rows: f64,
    last: Option<(f64, f64)>,
    /// Batch, row and time of cells after it.
    waiting: Vec<(usize, usize, f64)>,
}

impl Interpolation {
    /// For the inputs of a model that ask for it; `None` if none does.
    pub fn new(spec: &ModelSpec, layout: &Layout) -> Option<Self> {
        let before = usize::from(layout.time.is_some());
        let asks = |(_, rule): &(usize, &Missing)| **rule == Missing::Interpolate;
        let places: Vec<usize> =
            spec.missing_inputs.iter().enumerate().filter(asks).map(|(i, _)| before + i).collect();
        let layout = layout.clone();
        let (queue, first, series) = (VecDeque::new(), 0, HashMap::new());
        (!places.is_empty()).then_some(Self { layout, places, queue, first, series })
    }

    /// Takes a batch and lets go of those that wait for nothing any more, in order.
    pub fn push(&mut self, batch: Rows) -> Vec<Rows> {
        let (number, width) = (self.first + self.queue.len(), self.layout.width());
        let rows = batch.rows;
        self.queue.push_back((batch, 0));
        for row in 0..rows {
            let Some((batch, _)) = self.queue.back() else { break };
            let time = self.layout.split(batch, row).0;
            let label = self.layout.series(batch, row).and_then(|v| batch.labels.get(v as usize));
            let label = label.map_or("", String::as_str);
            let found = self.places.iter().map(|place| batch.values[row * width + place]);
            let found: Vec<f64> = found.collect();
            if !self.series.contains_key(label) {
                let lines = vec![Line::default(); self.places.len()];
                self.series.insert(label.to_owned(), lines);
            }
            let Some(lines) = self.series.get_mut(label) else { break };
            for ((line, value), place) in lines.iter_mut().zip(found).zip(&self.places) {
                // Without a column of times, rows are evenly spaced.
                let time = time.unwrap_or(line.rows);
                line.rows += 1.0;
                if value.is_nan() {
                    if line.last.is_some() {
                        line.waiting.push((number, row, time));
                        self.queue[number - self.first].1 += 1;
                    }
                    continue;
                }
                for (waiting, row, between) in line.waiting.drain(..) {
                    let (batch, count) = &mut self.queue[waiting - self.first];
                    *count -= 1;
                    if let Some((start, from)) = line.last {
                        let share =
                            if time > start { (between - start) / (time - start) } else { 0.0 };
                        batch.values[row * width + place] = from + (value - from) * share;
                    }
                }
                line.last = Some((time, value));
            }
        }
        let mut free = Vec::new();
        while self.queue.front().is_some_and(|(_, waiting)| *waiting == 0) {
            free.extend(self.queue.pop_front().map(|(batch, _)| batch));
            self.first += 1;
        }
        free
    }

    /// The rest, after the last batch: what still waits has no value after it.
    pub fn finish(&mut self) -> Vec<Rows> {
        self.first += self.queue.len();
        self.series.values_mut().flatten().for_each(|line| line.waiting.clear());
        self.queue.drain(..).map(|(batch, _)| batch).collect()
    }
}

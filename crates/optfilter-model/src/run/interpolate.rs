//! Inputs between the rows that state them: a straight line from the last known value to the next one, or the next one itself.
//!
//! The next value comes later, so rows wait for it: a batch is let go when nothing in it waits any more, and what waits is
//! no longer than the longest gap. After the last value an input stays as it was. Before the first it has its default; without
//! one the next value reaches back to the first row, and a line has no value there.
//!
//! Rows of other tables do not state an input. What they have of it must not change what it does to the state: where it acts on
//! the steps that end at the rows of its own table, the next value acts on each part of such a step.

use super::{Held, Layout};
use crate::file::{Missing, ModelSpec};
use crate::table::{Rows, Trail};
use std::collections::{HashMap, VecDeque};

/// Rows on their way, some of which wait for the inputs of later ones.
#[derive(Debug)]
pub struct Interpolation {
    layout: Layout,
    places: Vec<Place>,
    /// Batches with the number of cells that wait, oldest first.
    queue: VecDeque<(Rows, usize)>,
    /// The number of the oldest.
    first: usize,
    /// The number of the oldest that is let go; those before it were passed over.
    wanted: usize,
    series: HashMap<String, Vec<Line>>,
}

/// An input that is filled in.
#[derive(Clone, Debug)]
struct Place {
    /// Where it stands in a row.
    at: usize,
    fill: Fill,
    default: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fill {
    Last,
    Next,
    Line,
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
    /// For the inputs of a model whose rows may have to wait; `None` if none has to.
    pub fn new(spec: &ModelSpec, layout: &Layout) -> Option<Self> {
        let before = usize::from(layout.time.is_some());
        let mut places = Vec::new();
        for (i, (input, rule)) in spec.inputs.iter().zip(&spec.input_rules).enumerate() {
            let fill = match rule.missing {
                Missing::Interpolate | Missing::Mean => Fill::Line,
                Missing::Next => Fill::Next,
                Missing::Refuse | Missing::Hold if layout.joined => {
                    if spec.is_read_by_steps(input) { Fill::Next } else { Fill::Last }
                }
                Missing::Refuse | Missing::Hold | Missing::Previous => continue,
            };
            places.push(Place { at: before + i, fill, default: rule.default });
        }
        let layout = layout.clone();
        let (queue, series) = (VecDeque::new(), HashMap::new());
        (!places.is_empty()).then_some(Self { layout, places, queue, first: 0, wanted: 0, series })
    }

    /// Takes a batch and lets go of those that wait for nothing any more, in order.
    pub fn push(&mut self, mut batch: Rows) -> Vec<Rows> {
        let (number, width) = (self.first + self.queue.len(), self.layout.width());
        let rows = batch.rows;
        let print = |row| Trail::print(&batch, row, width, self.layout.label());
        batch.prints = (0..rows).map(print).collect();
        self.queue.push_back((batch, 0));
        for row in 0..rows {
            let Some((batch, _)) = self.queue.back() else { break };
            let time = self.layout.split(batch, row).0;
            let label = self.layout.series(batch, row).and_then(|v| batch.labels.get(v as usize));
            let label = label.map_or("", String::as_str);
            let found = self.places.iter().map(|place| batch.values[row * width + place.at]);
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
                    let at_once = match line.last {
                        // What is stated at the same time holds there.
                        Some((at, last)) if place.fill == Fill::Last || at == time => Some(last),
                        Some(_) => None,
                        None => place.default,
                    };
                    let (batch, count) = &mut self.queue[number - self.first];
                    if let Some(value) = at_once {
                        batch.values[row * width + place.at] = value;
                    } else if line.last.is_some() || place.fill == Fill::Next {
                        line.waiting.push((number, row, time));
                        *count += 1;
                    }
                    continue;
                }
                for (waiting, row, between) in line.waiting.drain(..) {
                    let (batch, count) = &mut self.queue[waiting - self.first];
                    *count -= 1;
                    batch.values[row * width + place.at] = match line.last {
                        Some((start, from)) if place.fill == Fill::Line && between < time => {
                            from + (value - from) * ((between - start) / (time - start))
                        }
                        _ => value,
                    };
                }
                line.last = Some((time, value));
            }
        }
        let mut free = Vec::new();
        while self.queue.front().is_some_and(|(_, waiting)| *waiting == 0) {
            let batch = self.queue.pop_front().map(|(batch, _)| batch);
            free.extend(batch.filter(|_| self.first >= self.wanted));
            self.first += 1;
        }
        free
    }

    /// Takes a batch of which nothing is wanted but what its inputs say of later rows.
    pub fn pass(&mut self, batch: Rows) {
        self.wanted = self.first + self.queue.len() + 1;
        self.push(batch);
    }

    /// The rest, after the last batch: what still waits has no value after it, and stays as it was.
    pub fn finish(&mut self) -> Vec<Rows> {
        let width = self.layout.width();
        for lines in self.series.values_mut() {
            for (line, place) in lines.iter_mut().zip(&self.places) {
                for (waiting, row, _) in line.waiting.drain(..) {
                    let value = line.last.map_or(f64::NAN, |(_, value)| value);
                    self.queue[waiting - self.first].0.values[row * width + place.at] = value;
                }
            }
        }
        let passed = self.wanted.saturating_sub(self.first);
        self.first += self.queue.len();
        self.queue.drain(..).map(|(batch, _)| batch).skip(passed).collect()
    }
}

/// The inputs of a series in memory that act on the step to each row; `held` are those before its first row.
pub fn acting_inputs(
    spec: &ModelSpec,
    times: Option<&[f64]>,
    inputs: &[f64],
    outputs: &[f64],
    held: &mut Held,
) -> Vec<f64> {
    let (p, m) = (spec.inputs.len(), spec.observations.len());
    if p == 0 {
        return Vec::new();
    }
    let mut layout = Layout::new(spec, None);
    layout.time = times.map(|_| "t".to_owned());
    let mut rows = Rows::default();
    rows.rows = outputs.len() / m;
    for (k, (u, y)) in inputs.chunks_exact(p).zip(outputs.chunks_exact(m)).enumerate() {
        rows.values.extend(times.and_then(|times| times.get(k)));
        rows.values.extend_from_slice(u);
        rows.values.extend_from_slice(y);
    }
    let rows = whole(spec, &layout, &rows).unwrap_or(rows);
    let mut out = Vec::with_capacity(inputs.len());
    for row in 0..rows.rows {
        let (_, u, y) = layout.split(&rows, row);
        out.extend_from_slice(held.fill(u, y));
    }
    out
}

/// A table in memory with inputs between those that it states; `None` where there are none to fill in.
pub(super) fn whole(spec: &ModelSpec, layout: &Layout, rows: &Rows) -> Option<Rows> {
    let mut lines = Interpolation::new(spec, layout)?;
    let mut whole = lines.push(rows.clone());
    whole.extend(lines.finish());
    whole.pop()
}

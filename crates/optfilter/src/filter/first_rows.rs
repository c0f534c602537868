//! Which of the first rows are outliers, where a gate cannot tell.
//!
//! While little is known a gate lets anything through. An outlier that was taken then makes it reject what is good. So the first
//! rows are kept until n + 3 m measured components agree (n are what any state could be fitted to), and when one is rejected the filter
//! is run again over all of them, from where it began:
//!
//! ```text
//! stories   nothing is left out; one sensor's measurement of one row is; besides the best of these one more
//! better    more measured components are within the gate; of as many, those have a higher density
//! ```
//!
//! As many outliers on either side have the same density, whatever it is, so that it need not be known.

use crate::model::Step;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// More rows than this are not run again and again.
const MAX_ROWS: usize = 16;
/// Nor more stories than take so many of them.
const MAX_RUN: usize = 512;
/// Nor more steps without rows between them.
const MAX_EVENTS: usize = 4 * MAX_ROWS;

/// What a filter began with, and what happened since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct First<B> {
    start: B,
    events: Vec<Event>,
    /// What is left out, in the story that the filter goes by.
    story: Story,
    /// With how many measured components it agrees.
    agreed: usize,
}

/// A step that was crossed, or a row at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Event {
    step: Step,
    u: Vec<f64>,
    /// Of a row.
    y: Option<Vec<f64>>,
}

/// Components of rows that are left out: the events, and the places in them.
type Story = Vec<(usize, Vec<usize>)>;

/// What to do with a belief: cross a step, or take a row; of a row how many components the gate let through, and their density.
pub(super) type Go<'a, B> =
    dyn FnMut(&mut B, Option<&[f64]>, &[f64], &Step) -> Option<(usize, f64)> + 'a;

/// What became of a story.
struct Told<B> {
    story: Story,
    agreed: usize,
    density: f64,
    /// After each row.
    beliefs: Vec<B>,
}

impl<B> Told<B> {
    fn is_better(&self, than: &Self) -> bool {
        self.agreed > than.agreed || self.agreed == than.agreed && self.density > than.density
    }
}

impl<B> First<B> {
    /// Of a filter that begins with this belief.
    pub(super) fn new(start: B) -> Self {
        Self { start, events: Vec::new(), story: Vec::new(), agreed: 0 }
    }

    /// Crosses a step; not if that fails, or if there have been too many.
    pub(super) fn cross(
        &mut self,
        u: &[f64],
        step: &Step,
        predict: impl FnOnce(&mut B) -> bool,
    ) -> bool {
        if self.events.is_empty() {
            return predict(&mut self.start);
        }
        self.events.push(Event { step: *step, u: u.to_vec(), y: None });
        self.events.len() < MAX_EVENTS
    }

    /// Takes note of a row, of which so many components agreed.
    pub(super) fn take(&mut self, (y, u): (&[f64], &[f64]), step: &Step, agreed: usize) {
        if !self.events.is_empty() || y.iter().any(|v| !v.is_nan()) {
            self.events.push(Event { step: *step, u: u.to_vec(), y: Some(y.to_vec()) });
            self.agreed += agreed;
        }
    }

    /// Whether so many components agree, or there is no end of it.
    pub(super) fn is_over(&self, enough: usize) -> bool {
        let rows = self.events.iter().filter(|event| event.y.is_some()).count();
        self.agreed >= enough || rows >= MAX_ROWS
    }
}

impl<B: Clone> First<B> {
    /// What should have been known after each row if another story is better than the one that the filter went by; `beyond` is what
    /// was rejected in the last row.
    pub(super) fn look_back(
        &mut self,
        sensors: &[Vec<usize>],
        beyond: &[bool],
        go: &mut Go<'_, B>,
    ) -> Option<Vec<B>> {
        // Where there are many sensors the mistake is rather one of those that disagree.
        let rows = self.events.iter().filter(|event| event.y.is_some()).count();
        let few = |count: usize| count * rows * rows <= MAX_RUN;
        let disagrees = |sensor: &&Vec<usize>| {
            few(sensors.len()) || sensor.iter().any(|i| beyond.get(*i) == Some(&true))
        };
        let sensors: Vec<&Vec<usize>> = sensors.iter().filter(disagrees).collect();
        if !few(sensors.len()) {
            return None;
        }
        let mut best = self.told(Vec::new(), go)?;
        let own = if self.story.is_empty() { None } else { self.told(self.story.clone(), go) };
        for _ in 0..2 {
            let besides = best.story.clone();
            for at in 0..self.events.len() {
                let Some(y) = self.events.get(at).and_then(|event| event.y.clone()) else {
                    continue;
                };
                for sensor in &sensors {
                    let there = |i: &usize| y.get(*i).is_some_and(|v| !v.is_nan());
                    let which: Vec<usize> = sensor.iter().copied().filter(there).collect();
                    if which.is_empty() {
                        continue;
                    }
                    let mut story = besides.clone();
                    story.push((at, which));
                    story.sort_unstable();
                    best = match self.told(story, go) {
                        Some(told) if told.is_better(&best) => told,
                        _ => best,
                    };
                }
            }
        }
        let goes_on = best.story == self.story || own.is_some_and(|own| !best.is_better(&own));
        if goes_on {
            return None;
        }
        (self.story, self.agreed) = (best.story, best.agreed);
        Some(best.beliefs)
    }

    fn told(&self, story: Story, go: &mut Go<'_, B>) -> Option<Told<B>> {
        let mut belief = self.start.clone();
        let (mut agreed, mut density, mut beliefs) = (0, 0.0, Vec::new());
        for (at, Event { step, u, y }) in self.events.iter().enumerate() {
            let mut y = y.clone();
            for (_, out) in story.iter().filter(|(row, _)| *row == at) {
                for i in out {
                    if let Some(v) = y.as_mut().and_then(|y| y.get_mut(*i)) {
                        *v = f64::NAN;
                    }
                }
            }
            let (more, each) = go(&mut belief, y.as_deref(), u, step)?;
            agreed += more;
            density += each;
            if y.is_some() {
                beliefs.push(belief.clone());
            }
        }
        Some(Told { story, agreed, density, beliefs })
    }
}

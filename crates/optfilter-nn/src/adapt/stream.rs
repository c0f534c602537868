//! Samples in the order of time.

use super::error::AdaptError;
use super::labels::Labels;
use crate::layer::Shape;
use std::ops::Range;

/// Samples with labels in the order of time.
#[derive(Clone, Debug)]
pub struct Stream {
    shape: Shape,
    x: Vec<f64>,
    labels: Labels,
    time: Vec<f64>,
    steps: Vec<Range<usize>>,
}

impl Stream {
    /// Samples of equal time form a time step. Times must not run backwards; everything must be finite.
    pub fn new(
        shape: Shape,
        x: Vec<f64>,
        labels: Labels,
        time: Vec<f64>,
    ) -> Result<Self, AdaptError> {
        let n = time.len();
        if n == 0 {
            return Err(AdaptError::Data("there are no samples".into()));
        }
        if labels.len() != n || x.len() != n * shape.len() {
            let (l, x, s) = (labels.len(), x.len(), shape.len());
            return Err(AdaptError::Data(format!(
                "{n} times, {l} labels and {x} numbers for samples of {s} numbers"
            )));
        }
        if let Some(i) = x.iter().position(|v| !v.is_finite()) {
            return Err(AdaptError::Data(format!(
                "sample {} has a feature that is not a finite number",
                i / shape.len()
            )));
        }
        if let Some(i) = time.iter().position(|t| !t.is_finite()) {
            return Err(AdaptError::Data(format!(
                "sample {i} has a time that is not a finite number"
            )));
        }
        if let Labels::Values(values) = &labels
            && let Some(i) = values.iter().position(|v| !v.is_finite())
        {
            return Err(AdaptError::Data(format!(
                "sample {i} has a label that is not a finite number"
            )));
        }
        if let Labels::Classes { of, names } = &labels
            && let Some(i) = of.iter().position(|c| *c as usize >= names.len())
        {
            return Err(AdaptError::Data(format!(
                "sample {i} has class {} of {}",
                of[i],
                names.len()
            )));
        }
        let mut steps: Vec<Range<usize>> = Vec::new();
        for i in 0..n {
            match steps.last_mut() {
                Some(last) if time[last.start] == time[i] => last.end = i + 1,
                Some(last) if time[i] < time[last.start] => {
                    let before = time[last.start];
                    return Err(AdaptError::Data(format!(
                        "time runs backwards at sample {i}: {} after {before}",
                        time[i]
                    )));
                }
                _ => steps.push(i..i + 1),
            }
        }
        Ok(Self { shape, x, labels, time, steps })
    }

    /// Shape of one sample.
    pub fn shape(&self) -> Shape {
        self.shape
    }
    /// Number of time steps.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.time.len()
    }
    /// Whether there are none; never true.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }
    /// The labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }
    /// The same stream with its classes numbered as these are; each of its own must be among them.
    pub fn with_classes(mut self, known: &[String]) -> Result<Self, AdaptError> {
        if let Labels::Classes { of, names } = &mut self.labels {
            let place = |name: &String| {
                known.iter().position(|k| k == name).map(|i| i as u32).ok_or_else(|| {
                    let known = known.join(", ");
                    AdaptError::Data(format!(
                        "the weights know no class {name:?}; they know {known}"
                    ))
                })
            };
            let places = names.iter().map(place).collect::<Result<Vec<u32>, _>>()?;
            of.iter_mut().for_each(|class| *class = places[*class as usize]);
            *names = known.to_vec();
        }
        Ok(self)
    }
    /// Time of a step.
    pub fn time(&self, step: usize) -> f64 {
        self.time[self.steps[step].start]
    }
    /// Samples of some consecutive steps.
    pub fn range(&self, steps: Range<usize>) -> Range<usize> {
        match (
            self.steps.get(steps.start),
            steps.end.checked_sub(1).and_then(|e| self.steps.get(e)),
        ) {
            (Some(first), Some(last)) if steps.start < steps.end => first.start..last.end,
            _ => 0..0,
        }
    }
    /// Features of some samples.
    pub fn x(&self, samples: Range<usize>) -> &[f64] {
        &self.x[samples.start * self.shape.len()..samples.end * self.shape.len()]
    }
}

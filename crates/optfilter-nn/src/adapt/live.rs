//! Following a stream as it comes: constant memory, labels that come late or not at all, classes nobody knew of, and a state that
//! can be put aside.
//!
//! A [`TableSteps`](super::TableSteps) gives the time steps of a table one after the other; a [`Live`] predicts each, remembers it until its labels
//! are due (`delay` time steps later), scores and learns. Nothing grows with the length of the stream.

use super::score::{Score, judge};
use super::steps::Step;
use super::tally::Tally;
use super::{AdaptError, Follower, Labels, Saved, Setup};
use crate::layer::Shape;
use optfilter::checkpoint;
use std::collections::VecDeque;

/// A follower on a stream, with what it owes and what it has scored.
pub struct Live {
    follower: Follower,
    regress: bool,
    delay: usize,
    /// Time steps whose labels are not due yet, and what was predicted for them.
    pending: VecDeque<Step>,
    tally: Tally,
    rows: u64,
    names: Vec<String>,
    predicted: Vec<f64>,
    /// What a run that goes on must have been told as well: names and values.
    settings: Vec<(String, String)>,
}

/// What is kept between two runs: settings, follower, pending time steps, scores, rows and names of classes.
type Kept = (Vec<(String, String)>, Vec<u8>, Vec<Step>, Tally, u64, Vec<String>);

/// The name of checkpoints of this form.
const KIND: &str = "adapt/live/3";

impl Live {
    /// Begins with drawn weights or given ones for samples of that shape, and a scaling that follows the stream unless the settings bring one. Labels of a time
    /// step become known after `delay` further ones were predicted.
    pub fn new(
        shape: Shape,
        regress: bool,
        setup: &Setup,
        weights: Option<Vec<f32>>,
        names: &[String],
        delay: usize,
    ) -> Result<Self, AdaptError> {
        let classes = if regress { 0 } else { names.len().max(2) };
        let setup = Setup { pretrain: 0, numbers: 1, running_scale: true, ..setup.clone() };
        let mut settings = Saved::settings(&setup);
        let task = if regress { "regress" } else { "classify" };
        settings.push(("task".into(), task.into()));
        settings.push(("delay".into(), delay.to_string()));
        Ok(Self {
            follower: Follower::begin(shape, classes, &setup, weights)?,
            regress,
            delay,
            pending: VecDeque::new(),
            tally: Tally::default(),
            rows: 0,
            names: names.to_vec(),
            predicted: Vec::new(),
            settings,
        })
    }

    /// What else must be the same in a run that goes on: names and values, such as [`TableSteps::layout`](super::TableSteps::layout).
    pub fn bind(&mut self, more: Vec<(String, String)>) {
        self.settings.extend(more);
    }

    /// The follower.
    pub fn follower(&self) -> &Follower {
        &self.follower
    }
    /// The scores so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
    /// Rows of the table that have been predicted.
    pub fn rows(&self) -> u64 {
        self.rows
    }
    /// The classes met so far, in the order of the network's outputs; those whose labels are not due have none yet.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// The labels' kind, with the names of the classes that the network has outputs for.
    pub fn labels(&self) -> Labels {
        let names = self.names.iter().take(self.follower.classes()).cloned();
        match self.regress {
            true => Labels::Values(Vec::new()),
            false => Labels::Classes { of: Vec::new(), names: names.collect() },
        }
    }

    /// The labels that a time step has, with its samples that have them.
    fn known(&self, step: &Step) -> (Vec<f64>, Labels) {
        let width = step.x.len() / step.labels.len().max(1);
        let samples = || step.labels.iter().enumerate().filter(|(_, v)| !v.is_nan());
        let x = samples().flat_map(|(i, _)| step.x[i * width..(i + 1) * width].iter().copied());
        let labels = match self.regress {
            true => Labels::Values(samples().map(|(_, v)| *v).collect()),
            false => Labels::Classes {
                of: samples().map(|(_, v)| *v as u32).collect(),
                names: Vec::new(),
            },
        };
        (x.collect(), labels)
    }

    /// Predicts a time step, scores it by the labels it has (nothing, if it has none), and learns from the one whose labels are due.
    /// `names` are the classes known by now. What does not fit is an error, and nothing was learnt.
    pub fn step(&mut self, step: &Step, names: &[String]) -> Result<Option<Score>, AdaptError> {
        self.follower.forecast(&step.x, &mut self.predicted)?;
        let classes = self.follower.classes();
        let each = classes.max(1);
        let (_, labels) = self.known(step);
        let kept = step.labels.iter().zip(self.predicted.chunks_exact(each));
        let judged: Vec<f64> =
            kept.filter(|(v, _)| !v.is_nan()).flat_map(|(_, row)| row.iter().copied()).collect();
        self.tally.unlabelled += (step.labels.len() - labels.len()) as u64;
        let score = (!labels.is_empty() && self.follower.is_judged()).then(|| {
            let factors = self.follower.label_factors(&labels);
            let score = judge(step.time, &judged, &labels, classes, &factors);
            self.tally.add(&score, &judged, &labels, classes);
            score
        });
        if score.is_some_and(|s| !s.loss.is_finite()) {
            return Err(AdaptError::Diverged { time: step.time });
        }
        // Counted here: a table that goes on where another ended begins to count anew.
        self.rows += step.labels.len() as u64;
        if names.len() > self.names.len() {
            self.names = names.to_vec();
        }
        if self.delay == 0 {
            self.learn(step)?;
        } else {
            self.pending.push_back(step.clone());
            self.follower.owe();
            if self.pending.len() > self.delay
                && let Some(due) = self.pending.pop_front()
            {
                self.learn(&due)?;
            }
        }
        Ok(score)
    }

    fn learn(&mut self, step: &Step) -> Result<(), AdaptError> {
        let (x, labels) = self.known(step);
        if labels.is_empty() {
            self.settle(step);
            self.follower.pass();
            return Ok(());
        }
        // A class is new when its label is due, not when its row is read.
        if let Labels::Classes { of, .. } = &labels
            && let Some(last) = of.iter().max()
        {
            self.follower.grow(*last as usize + 1)?;
        }
        self.settle(step);
        self.follower.learn_from(&x, &labels).map_err(|e| e.at(step.time))
    }

    /// What is learnt from next was predicted a while ago, if labels come late.
    fn settle(&mut self, step: &Step) {
        if self.delay > 0 {
            let samples = 0..step.labels.len();
            let labelled: Vec<usize> = samples.filter(|i| !step.labels[*i].is_nan()).collect();
            self.follower.settle(&labelled);
        }
    }

    /// Everything, for [`Live::load`].
    pub fn save(&self) -> Result<Vec<u8>, AdaptError> {
        let pending: Vec<Step> = self.pending.iter().cloned().collect();
        let follower = self.follower.save()?;
        let kept = (&self.settings, follower, pending, &self.tally, self.rows, &self.names);
        Ok(checkpoint::save(KIND, &kept)?)
    }

    /// Whether what was saved predicts numbers.
    pub fn predicts_numbers(bytes: &[u8]) -> Result<bool, AdaptError> {
        let kept: Kept = checkpoint::load(KIND, bytes)?;
        Ok(kept.0.iter().any(|(name, value)| name == "task" && value == "regress"))
    }

    /// Goes on where [`Live::save`] was called, bit for bit. Other settings than those of then are named in the error.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), AdaptError> {
        let (settings, follower, pending, tally, rows, names): Kept =
            checkpoint::load(KIND, bytes)?;
        let other = differences(&settings, &self.settings);
        if !other.is_empty() {
            return Err(AdaptError::Setting(format!(
                "the checkpoint was made with other settings: {}; go on with those of then, or begin with another checkpoint",
                other.join(", ")
            )));
        }
        self.follower.load(&follower)?;
        self.pending = pending.into();
        (self.tally, self.rows, self.names) = (tally, rows, names);
        Ok(())
    }
}

/// What differs between two lists of names and values, in words.
fn differences(then: &[(String, String)], now: &[(String, String)]) -> Vec<String> {
    /// Longer values (many columns) are cut.
    const LONGEST: usize = 60;
    fn value<'a>(list: &'a [(String, String)], name: &str) -> Option<&'a str> {
        list.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
    let short = |value: Option<&str>| match value {
        None => "none".to_owned(),
        Some(text) if text.chars().count() > LONGEST => {
            text.chars().take(LONGEST).chain("...".chars()).collect()
        }
        Some(text) => text.to_owned(),
    };
    let new = now.iter().filter(|(n, _)| value(then, n).is_none());
    then.iter()
        .chain(new)
        .map(|(name, _)| (name, value(then, name), value(now, name)))
        .filter(|(_, then, now)| then != now)
        .map(|(name, then, now)| format!("{name} {} (now {})", short(then), short(now)))
        .collect()
}

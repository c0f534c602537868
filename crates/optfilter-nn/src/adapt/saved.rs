//! What belongs to weights that were saved: the settings, the scaling of features and labels, and the classes.
//!
//! It travels in the metadata of the safetensors file, one line for each thing: `network mlp:64,64`, `feature MEAN FACTOR`
//! in their order, `class NAME` in theirs. A file of another program has no such lines.

use super::scale::Scaling;
use super::setup::{Setup, WeightMethod};
use super::{AdaptError, Follower, Labels};
use crate::filter::{IvonOptions, Memory, Window};
use crate::safetensors::{self, WeightsError};
use std::fmt::Write as _;
use std::path::Path;

/// Settings and classes that came with weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// The settings, with the scaling; nothing is left to pre-train.
    pub setup: Setup,
    /// The names of the classes in the order of the network's outputs; none where numbers are predicted.
    pub classes: Option<Vec<String>>,
}

impl Saved {
    /// Writes a follower's weights with all that belongs to them.
    pub fn write(
        follower: &Follower,
        setup: &Setup,
        labels: &Labels,
        path: &Path,
    ) -> Result<(), WeightsError> {
        let classes = match labels {
            Labels::Classes { names, .. } => Some(names.clone()),
            Labels::Values(_) => None,
        };
        let setup = Setup { scaling: Some(follower.scaling().clone()), ..setup.clone() };
        let about = Self { setup, classes }.text();
        safetensors::save(follower.network(), follower.weights(), Some(about), path)
    }

    /// Reads what a file says beside its weights; nothing if it says nothing.
    pub fn read(path: &Path) -> Result<Option<Self>, AdaptError> {
        let bad = |reason: String| AdaptError::File { path: path.display().to_string(), reason };
        let about = safetensors::about(path).map_err(|e| bad(e.to_string()))?;
        let wrong = |line: &str| bad(format!("what it says of its settings is damaged: {line:?}"));
        about.map(|text| Self::parse(&text).map_err(wrong)).transpose()
    }

    /// Names and values of settings, without the scaling.
    pub(super) fn settings(setup: &Setup) -> Vec<(String, String)> {
        let plain = Self { setup: Setup { scaling: None, ..setup.clone() }, classes: None };
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        plain.text().lines().filter_map(|line| line.split_once(' ').map(pair)).collect()
    }

    fn text(&self) -> String {
        let Setup { network, method, optimizer, lr, memory, window, decay, seed, scaling, .. } =
            &self.setup;
        let (name, steps, var, count) = method.parts();
        let mut out = format!("network {network}\nmethod {name}\noptimizer {optimizer}\nlr {lr}\n");
        // Writing to a String cannot fail.
        let _ = writeln!(out, "carry {}\ndecay {decay}\nseed {seed}", *memory == Memory::Carry);
        let _ = writeln!(out, "window {} {}", window.length(), window.discount());
        let _ = steps.map(|steps| writeln!(out, "steps {steps}"));
        let _ = var.map(|var| writeln!(out, "sigma2 {var}"));
        let _ = writeln!(
            out,
            "prior {}\nnoise {}",
            self.setup.prior_var, self.setup.likelihood.noise_var
        );
        let _ = self.setup.likelihood.robust.map(|c| writeln!(out, "robust {c}"));
        let _ = count.map(|count| writeln!(out, "particles {count}"));
        if let WeightMethod::Ivon { .. } = method {
            let IvonOptions { samples, first_curvature, beta1, beta2, weight_decay, .. } =
                self.setup.ivon;
            let _ =
                writeln!(out, "ivon {samples} {first_curvature} {beta1} {beta2} {weight_decay}");
        }
        if let Some(Scaling { features, targets }) = scaling {
            for (mean, factor) in features {
                let _ = writeln!(out, "feature {mean} {factor}");
            }
            for (mean, factor) in targets {
                let _ = writeln!(out, "target {mean} {factor}");
            }
        }
        for class in self.classes.iter().flatten() {
            let _ = writeln!(out, "class {}", class.replace(['\n', '\r'], " "));
        }
        out
    }

    /// The error is the line that cannot be read.
    fn parse(text: &str) -> Result<Self, &str> {
        let mut setup = Setup { pretrain: 0, ..Setup::default() };
        let (mut method, mut steps, mut var, mut count) = ("imap", None, None, None);
        let mut scaling = Scaling::plain(0, 0);
        let mut classes = Vec::new();
        for line in text.lines() {
            let (key, value) = line.split_once(' ').ok_or(line)?;
            let finite = |text: &str| text.parse().ok().filter(|v: &f64| v.is_finite()).ok_or(line);
            let pair = || {
                let (mean, factor) = value.split_once(' ').ok_or(line)?;
                Ok::<_, &str>((finite(mean)?, finite(factor)?))
            };
            match key {
                "network" => setup.network = value.into(),
                "method" => method = value,
                "optimizer" => setup.optimizer = value.into(),
                "lr" => setup.lr = finite(value)?,
                "carry" if value == "true" => setup.memory = Memory::Carry,
                "window" => {
                    let (length, discount) = value.split_once(' ').ok_or(line)?;
                    let length = length.parse().map_err(|_| line)?;
                    setup.window = Window::new(length, finite(discount)?).map_err(|_| line)?;
                }
                "decay" => setup.decay = finite(value)?,
                "prior" => setup.prior_var = finite(value)?,
                "noise" => setup.likelihood.noise_var = finite(value)?,
                "robust" => setup.likelihood.robust = Some(finite(value)?),
                "seed" => setup.seed = value.parse().map_err(|_| line)?,
                "steps" => steps = Some(value.parse().map_err(|_| line)?),
                "sigma2" => var = Some(finite(value)?),
                "particles" => count = Some(value.parse().map_err(|_| line)?),
                "ivon" => {
                    let numbers: Vec<f64> =
                        value.split(' ').map(finite).collect::<Result<_, _>>()?;
                    let [samples, first_curvature, beta1, beta2, weight_decay] = numbers[..] else {
                        return Err(line);
                    };
                    let lr = setup.ivon.lr;
                    setup.ivon =
                        IvonOptions { lr, samples, first_curvature, beta1, beta2, weight_decay };
                }
                "feature" => scaling.features.push(pair()?),
                "target" => scaling.targets.push(pair()?),
                "class" => classes.push(super::class_name(value)),
                _ => {} // of a later version
            }
        }
        setup.method = WeightMethod::of_parts(method, steps, var, count).ok_or(method)?;
        if scaling.targets.is_empty() {
            scaling.targets.push((0.0, 1.0));
        }
        setup.scaling = Some(scaling);
        Ok(Self { setup, classes: Some(classes).filter(|c| !c.is_empty()) })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may panic
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for method in [
            WeightMethod::ImplicitMap { steps: 7 },
            WeightMethod::DirectFit,
            WeightMethod::Variational { steps: 3, transition_var: 1.0 / 3.0 },
            WeightMethod::Particle { count: 20, transition_var: 1e-300 },
            WeightMethod::Static,
            WeightMethod::LoFi { rank: 4, drift_var: 1e-6 },
            WeightMethod::BongSampled { draws: 3, drift_var: 1e-6 },
            WeightMethod::BongLowRank { rank: 4, drift_var: 1e-6 },
            WeightMethod::Ivon { steps: 2 },
        ] {
            let scaling = Scaling {
                features: vec![(0.1, 1.0 / 3.0), (-1e10, 1e-5)],
                targets: vec![(5.0, 0.2)],
            };
            let setup = Setup {
                method,
                lr: 0.3,
                memory: Memory::Carry,
                window: Window::new(7, 0.9).unwrap(),
                pretrain: 0,
                scaling: Some(scaling),
                ivon: match method {
                    WeightMethod::Ivon { .. } => IvonOptions {
                        samples: 1.0 / 3.0,
                        first_curvature: 0.7,
                        beta1: 0.8,
                        beta2: 0.99,
                        weight_decay: 0.0,
                        ..IvonOptions::default()
                    },
                    _ => IvonOptions::default(), // which nobody else reads
                },
                ..Setup::default()
            };
            let saved = Saved { setup, classes: Some(vec!["up and away".into(), "down".into()]) };
            assert_eq!(Saved::parse(&saved.text()), Ok(saved));
        }
        for line in [
            "lr nan",
            "feature 1",
            "steps -1",
            "nonsense",
            "seed x",
            "ivon 1 2 3",
            "ivon a b c d e",
        ] {
            assert_eq!(Saved::parse(line), Err(line));
        }
        assert_eq!(Saved::parse("method mystery"), Err("mystery"));
    }
}

//! What a member of a bank is, which ones a bank begins with, and how one is varied.

use super::setup::{Setup, WeightMethod};
use crate::filter::{Memory, Window};
use optfilter::rng::Stream;
use serde::{Deserialize, Serialize};

/// What a member is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Name of the optimizer.
    pub optimizer: String,
    /// Learning rate.
    pub lr: f64,
    /// K.
    pub steps: u32,
    /// How far back.
    pub window: Window,
    /// Whether the optimizer's memory is carried.
    pub carry: bool,
}

impl Setting {
    /// One step per time step, no window.
    pub fn new(optimizer: &str, lr: f64, carry: bool) -> Self {
        Self { optimizer: optimizer.into(), lr, steps: 1, window: Window::default(), carry }
    }

    /// As settings of a single filter.
    pub fn setup(&self, base: &Setup) -> Setup {
        Setup {
            method: WeightMethod::ImplicitMap { steps: self.steps },
            optimizer: self.optimizer.clone(),
            rule: None,
            lr: self.lr,
            memory: if self.carry { Memory::Carry } else { Memory::Restart },
            window: self.window,
            ..base.clone()
        }
    }

    /// In a few words.
    pub fn label(&self) -> String {
        let mut words = format!("{} K={} lr={:.2e}", self.optimizer, self.steps, self.lr);
        if self.window.length() > 0 {
            words += &format!(" L={}", self.window.length());
        }
        if self.carry {
            words += " carried";
        }
        words
    }

    /// A neighbour: one thing is different.
    pub(super) fn varied(&self, draw: &mut Stream) -> Self {
        let mut other = self.clone();
        match (draw.uniform() * 8.0) as u32 {
            0 | 1 => other.lr *= 3.0,
            2 | 3 => other.lr /= 3.0,
            4 => other.steps = if self.steps == 1 { 3 } else { 1 },
            5 => {
                let length = if self.window.length() == 0 { 3 } else { 0 };
                other.window = Window::new(length, 0.8).unwrap_or_default();
            }
            6 if self.optimizer == "adam" => other.carry = !self.carry,
            _ => {
                // The rates of gradient descent and of Adam are of different sizes.
                let (name, factor) = match self.optimizer.as_str() {
                    "adam" => ("gd", 30.0),
                    _ => ("adam", 1.0 / 30.0),
                };
                (other.optimizer, other.lr) = (name.into(), self.lr * factor);
                other.carry = name == "adam"; // gradient descent has no memory
            }
        }
        other.lr = other.lr.clamp(1e-6, 30.0);
        other
    }
}

/// The settings a bank begins with: rates over four decades. A deep network does not bear the large ones.
pub(super) fn first(size: usize, linear: bool) -> Vec<Setting> {
    let all = match linear {
        true => [
            Setting::new("gd", 0.1, false),
            Setting::new("adam", 0.01, true),
            Setting::new("gd", 1.0, false),
            Setting::new("gd", 0.01, false),
            Setting::new("gd", 3.0, false),
            Setting::new("adam", 0.001, true),
            Setting::new("adam", 0.1, true),
        ],
        false => [
            Setting::new("gd", 0.1, false),
            Setting::new("adam", 0.001, true),
            Setting::new("gd", 0.01, false),
            Setting::new("adam", 0.0001, true),
            Setting::new("gd", 0.001, false),
            Setting::new("adam", 0.01, true),
            Setting::new("gd", 1.0, false),
        ],
    };
    all.into_iter().take(size.max(1)).collect()
}

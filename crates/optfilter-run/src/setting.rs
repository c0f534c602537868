//! What a setting is: its name, its kind, its range, who reads it, and how it is said.

use crate::choice::{Constraint, GapPolicy, GatingMode, IrregularSteps, Loss, Method};
use optfilter::filter::Scheme;
use optfilter::optim::AnyOptimizer;
use serde::Serialize;

/// The optimizer that has no learning rate: Gauss-Newton conjugate gradients.
pub const CG: &str = "cg";

/// A setting, as the table has it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Setting {
    /// Its name in model files, in Python and, with hyphens, among the flags.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// Which numbers it takes.
    pub range: Range,
    /// The filters that read it.
    pub readers: &'static [Method],
    /// What holds where it is not given; empty where there is none.
    pub default: &'static str,
    /// What help puts for its value.
    pub placeholder: &'static str,
    /// How the page offers it.
    pub slider: Option<Slider>,
    /// What it does.
    pub help: &'static str,
}

/// What the values of a setting are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A number.
    Number,
    /// A whole number.
    Whole,
    /// On or off.
    Switch,
    /// One of some names.
    Choice(&'static [&'static str]),
    /// A list of numbers.
    List,
    /// A list of lists of numbers.
    Table,
}

/// An interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// Its lower end, and whether that belongs to it.
    pub low: (f64, bool),
    /// Its upper end, and whether that belongs to it.
    pub high: (f64, bool),
    /// What a number of it must be.
    pub requirement: &'static str,
}

/// How a page offers a setting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slider {
    /// What stands beside it.
    pub label: &'static str,
    /// Its ends, where it is a number.
    pub ends: Option<(f64, f64)>,
    /// Whether it moves by factors.
    pub by_factors: bool,
}

const INF: f64 = f64::INFINITY;
const COUNT: (f64, bool) = (u32::MAX as f64, true);

const fn range(low: (f64, bool), high: (f64, bool), requirement: &'static str) -> Range {
    Range { low, high, requirement }
}

/// Settings that are no numbers have none.
pub(crate) const NONE: Range = range((-INF, true), (INF, true), "a number");
pub(crate) const FINITE: Range = range((-INF, false), (INF, false), "finite");
pub(crate) const POSITIVE: Range = range((0.0, false), (INF, false), "positive and finite");
pub(crate) const REACH: Range = range((0.0, false), (INF, true), "positive");
pub(crate) const NOT_NEGATIVE: Range = range((0.0, true), (INF, false), "at least 0 and finite");
pub(crate) const FRACTION: Range = range((0.0, true), (1.0, false), "at least 0 and below 1");
pub(crate) const SHARE: Range = range((0.0, true), (1.0, true), "between 0 and 1");
pub(crate) const INSIDE: Range =
    range((0.0, false), (1.0, false), "above 0 and below 1, as in 0.999");
pub(crate) const UP_TO_ONE: Range = range((0.0, false), (1.0, true), "above 0 and at most 1");
pub(crate) const FROM_0: Range = range((0.0, true), COUNT, "at least 0");
pub(crate) const FROM_1: Range = range((1.0, true), COUNT, "at least 1");
pub(crate) const FROM_2: Range = range((2.0, true), COUNT, "at least 2");
pub(crate) const SEEDS: Range = range((0.0, true), (u64::MAX as f64, true), "at least 0");

pub(crate) const IMAP: &[Method] = &[Method::Imap];
pub(crate) const OPTIMIZED: &[Method] = &[Method::Imap, Method::Vkf];
pub(crate) const STEPPED: &[Method] = &[Method::Imap, Method::Vkf, Method::Iekf];
pub(crate) const GAUSSIAN: &[Method] = &[Method::Kf, Method::Ekf, Method::Iekf, Method::Ukf];
pub(crate) const VKF: &[Method] = &[Method::Vkf];
pub(crate) const PF: &[Method] = &[Method::Pf];
pub(crate) const UKF: &[Method] = &[Method::Ukf];
pub(crate) const ENSEMBLES: &[Method] = &[Method::Etkf, Method::Letkf];
pub(crate) const LETKF: &[Method] = &[Method::Letkf];
pub(crate) const RANDOM: &[Method] = &[Method::Pf, Method::Etkf, Method::Letkf];

/// A slider that moves evenly.
pub(crate) const fn even(label: &'static str, low: f64, high: f64) -> Option<Slider> {
    Some(Slider { label, ends: Some((low, high)), by_factors: false })
}

/// One that moves by factors.
pub(crate) const fn factor(label: &'static str, low: f64, high: f64) -> Option<Slider> {
    Some(Slider { label, ends: Some((low, high)), by_factors: true })
}

/// A list or a box to tick.
pub(crate) const fn pick(label: &'static str) -> Option<Slider> {
    Some(Slider { label, ends: None, by_factors: false })
}

impl Range {
    /// Whether a number lies in it.
    pub fn holds(&self, v: f64) -> bool {
        let above = v > self.low.0 || self.low.1 && v == self.low.0;
        above && (v < self.high.0 || self.high.1 && v == self.high.0)
    }

    /// What is wrong with a number outside.
    pub fn complaint(&self, v: f64) -> String {
        match v > self.high.0 && self.high.0 > 1.0 {
            true => format!("it must be at most {}", self.high.0),
            false => format!("it must be {}", self.requirement),
        }
    }
}

impl Setting {
    /// The flag of the command line.
    pub fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    /// Whether a filter reads it.
    pub fn is_read_by(&self, method: Method) -> bool {
        self.readers.contains(&method)
    }

    /// The filters that read it, in words; "every filter" if all do.
    pub fn readers(&self) -> String {
        let names: Vec<&str> = self.readers.iter().map(|method| method.name()).collect();
        match names.as_slice() {
            all if all.len() == Method::ALL.len() => "every filter".into(),
            [before @ .., last] if !before.is_empty() => {
                format!("{} and {last}", before.join(", "))
            }
            _ => names.concat(),
        }
    }
}

/// A value that a setting can have.
pub(crate) trait Value: Sized {
    const KIND: Kind;

    /// From how a flag says it.
    fn parse(text: &str) -> Option<Self>;

    /// As a model file says it.
    fn toml(&self) -> String;

    /// It, if it is a number.
    fn number(&self) -> Option<f64> {
        None
    }
}

impl Value for f64 {
    const KIND: Kind = Kind::Number;
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn toml(&self) -> String {
        self.to_string()
    }
    fn number(&self) -> Option<f64> {
        Some(*self)
    }
}

macro_rules! whole {
    ($($type:ty)*) => {
        $(impl Value for $type {
            const KIND: Kind = Kind::Whole;
            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
            fn toml(&self) -> String {
                self.to_string()
            }
            fn number(&self) -> Option<f64> {
                Some(*self as f64)
            }
        })*
    };
}
whole!(u32 u64);

impl Value for bool {
    const KIND: Kind = Kind::Switch;
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn toml(&self) -> String {
        self.to_string()
    }
}

/// The only text is the name of an optimizer.
impl Value for String {
    const KIND: Kind = Kind::Choice(&OPTIMIZERS);
    fn parse(text: &str) -> Option<Self> {
        OPTIMIZERS.contains(&text).then(|| text.to_owned())
    }
    fn toml(&self) -> String {
        format!("{self:?}")
    }
}

/// The names of all optimizers.
const OPTIMIZERS: [&str; AnyOptimizer::NAMES.len() + 1] = {
    let mut all = [CG; AnyOptimizer::NAMES.len() + 1];
    let mut i = 0;
    while i < AnyOptimizer::NAMES.len() {
        all[i] = AnyOptimizer::NAMES[i];
        i += 1;
    }
    all
};

macro_rules! named {
    ($($type:ty)*) => {
        $(impl Value for $type {
            const KIND: Kind = Kind::Choice(&Self::NAMES);
            fn parse(text: &str) -> Option<Self> {
                Self::from_name(text)
            }
            fn toml(&self) -> String {
                format!("{:?}", self.name())
            }
        })*
    };
}
named!(Method Loss IrregularSteps GapPolicy Constraint GatingMode Scheme);

impl Value for Vec<f64> {
    const KIND: Kind = Kind::List;
    fn parse(_: &str) -> Option<Self> {
        None
    }
    fn toml(&self) -> String {
        format!("{self:?}")
    }
}

impl Value for Vec<Vec<f64>> {
    const KIND: Kind = Kind::Table;
    fn parse(_: &str) -> Option<Self> {
        None
    }
    fn toml(&self) -> String {
        format!("{self:?}")
    }
}

//! The table of settings: a line each, and everything that is made of it.
//!
//! From here come the fields of [`FilterSpec`], the flags of the command line with their help, the keys of a model file's `[filter]` table,
//! Python's arguments, the sliders of the page, the schema of model files and `docs/settings.md`. To add a setting, write a line here
//! and read it in the filter.

use crate::choice::{Constraint, GapPolicy, GatingMode, IrregularSteps, Loss, Method};
use crate::setting::{
    ENSEMBLES, FINITE, FRACTION, FROM_0, FROM_1, FROM_2, GAUSSIAN, IMAP, INSIDE, Kind, LETKF, NONE,
    NOT_NEGATIVE, OPTIMIZED, PF, POSITIVE, RANDOM, REACH, SEEDS, SHARE, STEPPED, Setting, UKF,
    UP_TO_ONE, VKF, Value, even, factor, pick,
};
use optfilter::filter::Scheme;
use serde::{Deserialize, Serialize};

const ALL: &[Method] = &Method::ALL;

/// Declares the settings. `= value` is a default that every filter shares, `| "text"` one that is worked out.
macro_rules! settings {
    ($($name:ident: $type:ty $(= $value:literal)? $(| $said:literal)?, $range:expr, $readers:expr, $placeholder:literal, $slider:expr, $help:literal;)*) => {
        /// Which filter, with what. What is `None` has its default.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct FilterSpec {
            $(#[doc = concat!($help, ".")] #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$type>,)*
        }

        /// Every setting.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: stringify!($name),
            kind: <$type as Value>::KIND,
            range: $range,
            readers: $readers,
            default: concat!("" $(, stringify!($value))? $(, $said)?),
            placeholder: $placeholder,
            slider: $slider,
            help: $help,
        }),*];

        impl FilterSpec {
            /// The names of all settings.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($name)),*];

            $($(
            #[doc = concat!($help, "; ", stringify!($value), " unless given.")]
            pub fn $name(&self) -> $type {
                self.$name.unwrap_or($value)
            }
            )?)*

            /// The defaults that every filter shares.
            pub(crate) fn defaults() -> Self {
                Self { $($($name: Some($value),)?)* ..Self::default() }
            }

            /// These settings, and those of `base` where these are open.
            #[must_use]
            pub fn over(&self, base: &Self) -> Self {
                Self { $($name: self.$name.clone().or_else(|| base.$name.clone()),)* }
            }

            /// The settings that are given, each with its value as a model file has it.
            pub fn given(&self) -> Vec<(&'static Setting, String)> {
                let values = [$(self.$name.as_ref().map(Value::toml)),*];
                SETTINGS.iter().zip(values).filter_map(|(s, v)| Some((s, v?))).collect()
            }

            /// The numbers among them.
            pub(crate) fn numbers(&self) -> impl Iterator<Item = (&'static Setting, f64)> {
                let values = [$(self.$name.as_ref().and_then(Value::number)),*];
                SETTINGS.iter().zip(values).filter_map(|(s, v)| Some((s, v?)))
            }

            /// Gives the setting of that name the value that a flag spells; whether there is such a setting and value.
            pub fn set(&mut self, name: &str, value: &str) -> bool {
                match name {
                    $(stringify!($name) => {
                        let value = Value::parse(value);
                        let known = value.is_some();
                        self.$name = value.or(self.$name.take());
                        known
                    })*
                    _ => false,
                }
            }

            /// These settings less those for which `keep` does not hold.
            #[must_use]
            pub fn only(mut self, keep: impl Fn(&Setting) -> bool) -> Self {
                let mut all = SETTINGS.iter();
                $(if !all.next().is_some_and(&keep) {
                    self.$name = None;
                })*
                self
            }
        }
    };
}

#[rustfmt::skip]
settings! {
    method: Method | "kf, ekf or pf where noise is given, else imap", NONE, ALL, "NAME", pick("filter"), "Which filter";
    optimizer: String | "adam", NONE, OPTIMIZED, "NAME", pick("optimizer"), "Which optimizer; cg has no learning rate";
    steps: u32 | "50, cg 3, iekf 5", FROM_1, STEPPED, "K", factor("steps K", 1.0, 200.0), "Optimizer steps per row, or linearisations of iekf";
    probes: u32 = 0, FROM_0, IMAP, "N", None, "Random probes of the curvature by which cg scales its directions; 4 for 10,000 states";
    window: u32 | "0", FROM_0, IMAP, "L", even("window L, past rows", 0.0, 64.0), "Past rows to look at besides the newest";
    state_places: Vec<Vec<f64>> | "by index", NONE, LETKF, "ROWS", None, "Where each state stands: a row of coordinates";
    measurement_places: Vec<Vec<f64>> | "by index", NONE, LETKF, "ROWS", None, "Where each measurement stands, in the same coordinates";
    period: Vec<f64> | "none", NONE, LETKF, "LENGTHS", None, "The length after which each coordinate repeats; 0: never";
    discount: f64 = 1.0, UP_TO_ONE, IMAP, "G", even("discount of past rows", 0.3, 1.0), "How much a row of the window counts, of the one after it";
    constraint: Constraint | "strong in filters, weak in smoothing", NONE, IMAP, "NAME", pick("path through the window"), "Whether the window's path follows the model or may bend as Q says";
    lr: f64 = 0.1, POSITIVE, OPTIMIZED, "RATE", factor("learning rate", 1e-4, 10.0), "Learning rate";
    decay: f64 | "0.9; adam 0.9 and 0.999", FRACTION, OPTIMIZED, "D", even("decay (momentum, betas)", 0.0, 0.999), "Momentum, RMSprop's gamma, Adadelta's rho, or both betas of Adam";
    beta1: f64 | "decay, or 0.9", FRACTION, OPTIMIZED, "D", None, "Adam's first beta, where the two differ";
    beta2: f64 | "decay, or 0.999", FRACTION, OPTIMIZED, "D", None, "Adam's second beta";
    eps: f64 | "the optimizer's", NOT_NEGATIVE, OPTIMIZED, "E", None, "The small number that keeps adaptive rules from dividing by zero";
    accumulator: f64 | "0.1", NOT_NEGATIVE, OPTIMIZED, "A", None, "Where Adagrad's accumulator starts";
    prior_var: f64 | "Q", POSITIVE, VKF, "V", None, "Variance of the prior in every state";
    process_scale: f64 = 1.0, POSITIVE, ALL, "F", factor("factor on Q", 1e-3, 1e3), "Factor on the process noise Q";
    measurement_scale: f64 = 1.0, POSITIVE, ALL, "F", factor("factor on R", 1e-3, 1e3), "Factor on the measurement noise R";
    inflation: f64 = 1.02, POSITIVE, ENSEMBLES, "F", even("inflation", 1.0, 1.5), "Factor on the members' deviations after each row";
    radius: f64 = 4.0, REACH, LETKF, "R", factor("radius of localisation", 0.5, 50.0), "How far away, in states, a measurement counts for two thirds";
    threshold: f64 = 0.5, SHARE, PF, "P", None, "Share of effective particles below which they are resampled; 1: after every row";
    gate: f64 | "none", INSIDE, GAUSSIAN, "P", None, "Share of good measurements to let through, as 0.999";
    alpha: f64 = 1.0, POSITIVE, UKF, "A", None, "Spread of the sigma points";
    beta: f64 = 1.0, FINITE, UKF, "B", None, "Weight of their centre in covariances";
    kappa: f64 | "2 less the number of states", FINITE, UKF, "K", None, "Second spread of the sigma points";
    eps_in_sqrt: bool | "true", NONE, OPTIMIZED, "", None, "Whether RMSprop's eps stands under its square root";
    shorten: bool = false, NONE, IMAP, "", None, "Try a window that diverges again with its newer half (no standard deviations)";
    carry: bool = false, NONE, IMAP, "", pick("carry the optimizer's state from row to row"), "Carry the optimizer's state from row to row (no standard deviations)";
    error_bars: bool | "true up to 100 states and measurements", NONE, IMAP, "", None, "Standard deviations of imap, at the cost of one estimate per state and measurement";
    strict: bool = false, NONE, IMAP, "", None, "Fail where imap's standard deviations are lost, instead of going on without";
    rotate: bool = false, NONE, ENSEMBLES, "", None, "Rotate the members at random after each row";
    periodic: bool = false, NONE, LETKF, "", None, "The last state is the first one's neighbour";
    predict_first: bool = false, NONE, ALL, "", None, "Predict before the first row too: the initial belief is one step before it";
    particles: u32 = 1000, FROM_1, PF, "N", factor("particles", 10.0, 20_000.0), "Number of particles";
    members: u32 = 40, FROM_2, ENSEMBLES, "N", factor("members", 2.0, 400.0), "Members of the ensemble";
    seed: u64 = 0, SEEDS, RANDOM, "S", even("seed", 0.0, 100.0), "Seed of the random numbers, those of forecasts too";
    resampling: Scheme | "systematic", NONE, PF, "NAME", None, "How particles are resampled";
    gaps: GapPolicy | "widen where process noise is per time", NONE, IMAP, "NAME", None, "Whether imap takes more steps after a gap";
    gating: GatingMode | "reject", NONE, GAUSSIAN, "NAME", None, "What happens beyond the gate; inflate counts a row as one at the gate";
    irregular: IrregularSteps | "error", NONE, ALL, "NAME", None, "What irregular times are to a model without dt";
    loss: Loss | "likelihood where R is given", NONE, OPTIMIZED, "NAME", pick("loss"), "What the optimizer descends";
}

impl Setting {
    /// The setting of that name.
    pub fn of(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// Whether a flag sets it; lists of numbers are for files and programs.
    pub fn is_flag(&self) -> bool {
        !matches!(self.kind, Kind::List | Kind::Table)
    }
}

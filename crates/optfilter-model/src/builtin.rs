//! Systems that a model file may name instead of writing their equations.
//!
//! Each is a model file of its own, so `optfilter model new` can show it and a user can change any part.

/// A built-in system.
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! systems {
    ($($name:literal),* $(,)?) => {
        &[$(System { name: $name, text: include_str!(concat!("../systems/", $name, ".toml")) }),*]
    };
}

pub(crate) const SYSTEMS: &[System] = systems![
    "local-level",
    "local-trend",
    "constant-velocity",
    "pendulum",
    "growth",
    "lorenz63",
    "lorenz96",
    "van-der-pol",
    "lotka-volterra",
    "logistic-counts",
    "bearings",
    "robot",
];

pub(crate) fn find(name: &str) -> Option<&'static System> {
    SYSTEMS.iter().find(|s| s.name == name)
}

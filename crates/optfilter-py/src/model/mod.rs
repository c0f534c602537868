//! Models that Python can name: built-in systems, text, callables.

mod callable;
mod class;

pub(crate) use class::{CoreModel, InputRules, built_in_systems};

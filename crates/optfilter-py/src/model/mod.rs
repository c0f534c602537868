//! One type for every model that Python can name: built-in systems, text, callables.
//!
//! Sizes are known at run time only; small ones also have filters of fixed size, which allocate nothing.

mod any;
mod class;

pub(crate) use any::AnyModel;
pub(crate) use class::{CoreModel, built_in_systems};

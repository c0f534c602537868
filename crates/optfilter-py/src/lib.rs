//! The extension module `optfilter._core`: glue between NumPy and the library.
//!
//! Nothing here computes. The Python package `optfilter` (python/optfilter) wraps these classes with
//! defaults, checks and help; users do not import this module.

mod callable;
mod convert;
mod errors;
mod explore;
mod extra;
mod filter;
mod fit;
mod log_prob;
mod model;
mod nn;
mod optimizer;
mod problem;
mod product;
mod reproduce;
mod simulate;
mod tangent;
mod theory;
mod threads;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("FLAGS", optfilter_model::table::FLAG_NAMES)?;
    module.add_class::<model::CoreModel>()?;
    module.add_class::<model::InputRules>()?;
    module.add_class::<filter::CoreFilter>()?;
    module.add_class::<explore::CorePage>()?;
    module.add_class::<nn::CoreFollower>()?;
    module.add_function(wrap_pyfunction!(model::built_in_systems, module)?)?;
    module.add_function(wrap_pyfunction!(problem::check_spec, module)?)?;
    module.add_function(wrap_pyfunction!(problem::settings, module)?)?;
    module.add_function(wrap_pyfunction!(problem::fit_spec, module)?)?;
    module.add_function(wrap_pyfunction!(fit::fit_text, module)?)?;
    module.add_function(wrap_pyfunction!(problem::check_likelihood, module)?)?;
    module.add_function(wrap_pyfunction!(problem::methods, module)?)?;
    module.add_function(wrap_pyfunction!(problem::parse_times, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(theory::implied_prior, module)?)?;
    module.add_function(wrap_pyfunction!(theory::learning_rate_matrix, module)?)?;
    module.add_function(wrap_pyfunction!(theory::largest_learning_rate, module)?)?;
    module.add_function(wrap_pyfunction!(theory::chi_square_band, module)?)?;
    module.add_function(wrap_pyfunction!(reproduce::paper_systems, module)?)?;
    module.add_function(wrap_pyfunction!(reproduce::reproduce_systems, module)?)?;
    module.add_function(wrap_pyfunction!(reproduce::reproduce_yearbook, module)?)?;
    Ok(())
}

//! What the results have in their columns.

use super::args::Args;
use optfilter_model::ModelSpec;
use optfilter_model::run::Layout;
use optfilter_model::table::OutputColumn;

/// The standard deviation of state `i` at row `k`; NaN where there is none.
pub(super) fn std(covs: &[f64], n: usize, k: usize, i: usize) -> f64 {
    covs.get(k * n * n + i * (n + 1)).map_or(f64::NAN, |&v| if v < 0.0 { 0.0 } else { v.sqrt() })
}

/// The columns of the results.
pub(super) fn columns(args: &Args, spec: &ModelSpec, layout: &Layout) -> Vec<OutputColumn> {
    let mut columns = vec![OutputColumn::Time(layout.time.clone().unwrap_or_else(|| "t".into()))];
    columns.extend(layout.by.clone().map(OutputColumn::Label));
    let endings: &[&str] =
        if args.both { &["", "_std", "_filtered", "_filtered_std"] } else { &["", "_std"] };
    for ending in endings {
        let name = |state: &String| OutputColumn::Number(format!("{state}{ending}"));
        columns.extend(spec.states.iter().map(name));
    }
    columns
}

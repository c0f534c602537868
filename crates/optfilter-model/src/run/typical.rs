//! The states that a series is typically in.

use super::dataset::Dataset;
use crate::file::ModelSpec;
use optfilter_run::{FilterSpec, Method};

/// About `count` states of the rows before `end`, each with its row, by an extended Kalman filter or, where the
/// model states no noise, by implicit MAP; the initial mean where neither runs.
pub fn typical_states(
    spec: &ModelSpec,
    data: &Dataset,
    count: usize,
    end: usize,
) -> Vec<(Vec<f64>, usize)> {
    let end = end.min(data.len()).min(20_000);
    let every = (end / count.max(1)).max(1);
    let ekf = FilterSpec { method: Some(Method::Ekf), ..FilterSpec::default() };
    for filter in [ekf, FilterSpec::default()] {
        let filter = FilterSpec { error_bars: Some(false), ..filter };
        let mut states = Vec::new();
        let done = data.run(spec, &filter, end, |row, estimate| {
            if row % every == every / 2 {
                states.push((estimate.mean.clone(), row));
            }
        });
        if matches!(done, Ok(Ok(()))) && !states.is_empty() {
            return states;
        }
    }
    vec![(spec.initial_mean.clone(), 0)]
}

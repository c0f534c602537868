//! A series that was smoothed.

use super::args::Args;
use super::columns::std;
use crate::whole::{Row, Whole};
use optfilter_model::ModelSpec;
use optfilter_run::{Search, Smoothed};

/// What is kept of a series that was smoothed.
pub(super) struct Done {
    pub(super) rows: Vec<Row>,
    /// Sums of standard deviations, of the smoother and of the filter; empty without any.
    pub(super) stds: [Vec<f64>; 2],
    pub(super) search: Option<Search>,
    /// For a picture; else empty.
    pub(super) smoothed: Smoothed,
}

impl Done {
    pub(super) fn new(args: &Args, spec: &ModelSpec, series: &Whole, smoothed: Smoothed) -> Self {
        let n = spec.states.len();
        let row = |k: usize| {
            let mut values = vec![series.data.time(k)];
            let mut push = |means: &[f64], covs: &[f64]| {
                values.extend_from_slice(&means[k * n..][..n]);
                values.extend((0..n).map(|i| std(covs, n, k, i)));
            };
            push(&smoothed.means, &smoothed.covs);
            if args.both {
                push(&smoothed.filtered_means, &smoothed.filtered_covs);
            }
            (values, series.rows.time_text(k).map(<[u8]>::to_vec))
        };
        let rows = (0..series.data.len()).map(row).collect();
        let sums = |covs: &[f64]| match covs.is_empty() {
            true => Vec::new(),
            false => {
                (0..n).map(|i| (0..series.data.len()).map(|k| std(covs, n, k, i)).sum()).collect()
            }
        };
        let stds = [sums(&smoothed.covs), sums(&smoothed.filtered_covs)];
        let drawn = args.tables.plot.path.is_some();
        let search = smoothed.search;
        Self { rows, stds, search, smoothed: if drawn { smoothed } else { Smoothed::default() } }
    }
}

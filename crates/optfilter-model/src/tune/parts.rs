//! Rows that settle, choose and judge.

use crate::run::Dataset;
use std::ops::Range;

/// Which rows are for what.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) settle: usize,
    pub(super) windows: Vec<Range<usize>>,
}

impl Parts {
    pub(super) fn new(data: &Dataset) -> Self {
        let tenth = |k: usize| data.len() * k / 10;
        Self { settle: tenth(1), windows: (6..10).map(|k| tenth(k)..tenth(k + 1)).collect() }
    }

    /// Where the search ends and the judging begins.
    pub(super) fn first(&self) -> usize {
        self.windows[0].start
    }

    /// The rows before a window, less those in which filters settle.
    pub(super) fn before(&self, window: &Range<usize>) -> Range<usize> {
        self.settle..window.start
    }

    pub(super) fn last(&self) -> &Range<usize> {
        &self.windows[self.windows.len() - 1]
    }
}

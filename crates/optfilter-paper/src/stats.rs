//! From the errors of single runs to a cell of a table.
//!
//! The RMSE of one run is the root of the mean squared error over time and components. A cell is the mean over runs
//! with the half-width `1.96 * std / sqrt(runs)`, where `std` is the population deviation (division by the number of runs).
//!
//! **Diverged runs.** A run has diverged when its RMSE is not a finite number. A configuration with such a run keeps its
//! row with the count, and its mean and half-width are NaN, which is what NumPy's mean makes of it: a mean over the
//! survivors would flatter it. The paper's program drops such configurations, and those with a mean of 1000 or more, from its search;
//! see [`Summary::in_search`].

/// Mean, half-width and number of diverged runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Mean RMSE; NaN when a run diverged.
    pub rmse: f64,
    /// Half-width of the 95 % interval; NaN when a run diverged.
    pub ci: f64,
    /// Number of runs without a finite RMSE.
    pub diverged: u32,
}

impl Summary {
    /// Summarise the RMSEs of all runs.
    pub fn of(rmses: &[f64]) -> Self {
        let n = rmses.len() as f64;
        let diverged = rmses.iter().filter(|v| !v.is_finite()).count() as u32;
        if diverged > 0 {
            return Self { rmse: f64::NAN, ci: f64::NAN, diverged };
        }
        let rmse = rmses.iter().sum::<f64>() / n;
        let var = rmses.iter().map(|v| (v - rmse) * (v - rmse)).sum::<f64>() / n;
        Self { rmse, ci: 1.96 * var.sqrt() / n.sqrt(), diverged }
    }

    /// Whether the paper's searches would consider this configuration at all.
    pub fn in_search(&self) -> bool {
        self.diverged == 0 && self.rmse < 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn population_deviation_and_diverged_runs() {
        let s = Summary::of(&[1.0, 3.0]);
        assert_eq!(s.rmse, 2.0);
        assert!((s.ci - 1.96 / 2.0_f64.sqrt()).abs() < 1e-15);
        let bad = Summary::of(&[1.0, f64::NAN, f64::INFINITY]);
        assert_eq!(bad.diverged, 2);
        assert!(bad.rmse.is_nan() && !bad.in_search());
    }
}

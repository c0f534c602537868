//! One row of the grid: a configuration and what came out, and its form in a file.

use crate::grid::{GridMethod, Optimizer, Rule};
use crate::stats::Summary;

/// What the runs set aside for tuning say about a configuration (specified protocol only).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Mean RMSE on the tuning runs, which needs the ground truth.
    pub rmse: f64,
    /// Root mean squared error of the one-step-ahead prediction of the measurements, which does not.
    pub prediction: f64,
}

/// One row of the grid.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What was run.
    pub method: GridMethod,
    /// What came out.
    pub summary: Summary,
    /// What the tuning runs say.
    pub tuning: Option<Tuning>,
}

impl Row {
    /// A row without tuning runs.
    pub fn new(method: GridMethod, summary: Summary) -> Self {
        Self { method, summary, tuning: None }
    }

    /// The row as text: `method,steps,lr,decay,q_search,rmse,ci,diverged_runs,tuning_rmse,tuning_prediction`.
    ///
    /// Numbers are the shortest text that reads back as the same number.
    pub fn to_columns(&self) -> [String; 10] {
        let [steps, lr, decay, q] = self.method.parameters();
        let s = &self.summary;
        let tuning = |pick: fn(&Tuning) -> f64| {
            self.tuning.as_ref().map(|t| format!("{:?}", pick(t))).unwrap_or_default()
        };
        [
            self.method.name().into(),
            steps,
            lr,
            decay,
            q,
            format!("{:?}", s.rmse),
            format!("{:?}", s.ci),
            s.diverged.to_string(),
            tuning(|t| t.rmse),
            tuning(|t| t.prediction),
        ]
    }

    /// The inverse of [`Row::to_columns`]; `None` for a text that is no row.
    pub fn from_columns(columns: &[&str]) -> Option<Self> {
        let &[name, steps, lr, decay, q, rmse, ci, diverged, tuning_rmse, tuning_prediction] =
            columns
        else {
            return None;
        };
        let number = |text: &str| text.parse::<f64>().ok();
        let optional = |text: &str| match text {
            "" => Some(None),
            text => number(text).map(Some),
        };
        let method = match (name, optional(q)?) {
            ("EKF", None) => GridMethod::Ekf,
            ("EKF", Some(q)) => GridMethod::EkfSearch { q },
            ("UKF", None) => GridMethod::Ukf,
            ("UKF", Some(q)) => GridMethod::UkfSearch { q },
            ("PF", None) => GridMethod::Pf,
            ("IEKF", None) => GridMethod::Iekf { steps: steps.parse().ok()? },
            (name, None) => GridMethod::Imap(Optimizer {
                rule: Rule::ALL.into_iter().find(|rule| rule.method() == name)?,
                steps: steps.parse().ok()?,
                lr: optional(lr)?,
                decay: optional(decay)?,
            }),
            _ => return None,
        };
        let tuning = match (optional(tuning_rmse)?, optional(tuning_prediction)?) {
            (Some(rmse), Some(prediction)) => Some(Tuning { rmse, prediction }),
            _ => None,
        };
        Some(Self {
            method,
            summary: Summary {
                rmse: number(rmse)?,
                ci: number(ci)?,
                diverged: diverged.parse().ok()?,
            },
            tuning,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_the_way_through_a_file() {
        let summary = Summary { rmse: 0.1 + 0.2, ci: 1e-300, diverged: 3 };
        let mut methods =
            vec![GridMethod::Ekf, GridMethod::Ukf, GridMethod::Pf, GridMethod::Iekf { steps: 5 }];
        methods.push(GridMethod::EkfSearch { q: 0.07 });
        methods.push(GridMethod::UkfSearch { q: 5.0 });
        methods.extend(crate::grid::optimizers().into_iter().map(GridMethod::Imap));
        for method in methods {
            let mut row = Row::new(method, summary);
            if method == GridMethod::Ukf {
                row.tuning = Some(Tuning { rmse: 1.0 / 3.0, prediction: f64::INFINITY });
            }
            let columns = row.to_columns();
            let back = Row::from_columns(&columns.each_ref().map(String::as_str)).unwrap();
            assert_eq!(back.method, row.method);
            assert_eq!(back.summary, row.summary);
            assert_eq!(back.tuning, row.tuning);
        }
    }
}

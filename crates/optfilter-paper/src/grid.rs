//! The configurations that are run on every system.
//!
//! 287 optimizers (105 Adam, 105 RMSprop, 35 gradient descent, 35 Adagrad, 7 Adadelta), the step counts of the
//! iterated EKF, and the 500 values of the search for Q.

/// Step counts tried with every optimizer.
pub const STEP_COUNTS: [u32; 7] = [1, 3, 5, 10, 25, 50, 100];
/// Learning rates tried.
pub const LEARNING_RATES: [f64; 5] = [1.0, 0.5, 0.1, 0.05, 0.01];
/// Decay rates tried: gamma of RMSprop, beta1 = beta2 of Adam.
pub const DECAYS: [f64; 3] = [0.9, 0.5, 0.1];
/// Iterations of the iterated EKF; one iteration is the EKF.
pub const IEKF_STEPS: [u32; 6] = [3, 5, 10, 25, 50, 100];
/// Number of values in the Q search.
pub const Q_SEARCH: usize = 500;

/// The `index`-th value of the Q search: 0.01, 0.02, ..., 5.00.
pub fn q_search_value(index: usize) -> f64 {
    (index + 1) as f64 / 100.0
}

/// The five optimizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Gradient descent.
    Gd,
    /// Adam with beta1 = beta2.
    Adam,
    /// RMSprop.
    RmsProp,
    /// Adagrad.
    Adagrad,
    /// Adadelta with gamma = 0.9 and no learning rate.
    Adadelta,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Adam, Self::RmsProp, Self::Gd, Self::Adagrad, Self::Adadelta];

    /// The name of the filter in the tables.
    pub fn method(self) -> &'static str {
        match self {
            Self::Gd => "IMAP-GD",
            Self::Adam => "IMAP-Adam",
            Self::RmsProp => "IMAP-RMSprop",
            Self::Adagrad => "IMAP-Adagrad",
            Self::Adadelta => "IMAP-Adadelta",
        }
    }
}

/// An optimizer with its hyper-parameters and number of steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optimizer {
    /// The rule.
    pub rule: Rule,
    /// Steps per measurement.
    pub steps: u32,
    /// Learning rate, where the rule has one.
    pub lr: Option<f64>,
    /// Decay, where the rule has one.
    pub decay: Option<f64>,
}

/// All configurations of one rule with the same number of steps.
pub fn optimizers_of(rule: Rule, steps: u32) -> Vec<Optimizer> {
    let with = |lr, decay| Optimizer { rule, steps, lr, decay };
    match rule {
        Rule::Adadelta => vec![with(None, None)],
        Rule::Gd | Rule::Adagrad => LEARNING_RATES.map(|lr| with(Some(lr), None)).to_vec(),
        Rule::Adam | Rule::RmsProp => LEARNING_RATES
            .iter()
            .flat_map(|&lr| DECAYS.map(|decay| with(Some(lr), Some(decay))))
            .collect(),
    }
}

/// All 287 configurations, in the order of the grid file.
pub fn optimizers() -> Vec<Optimizer> {
    Rule::ALL
        .into_iter()
        .flat_map(|rule| STEP_COUNTS.into_iter().flat_map(move |steps| optimizers_of(rule, steps)))
        .collect()
}

/// What identifies a row of the grid of one system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GridMethod {
    /// Extended Kalman filter with the system's own Q.
    Ekf,
    /// Iterated extended Kalman filter.
    Iekf {
        /// Iterations per update.
        steps: u32,
    },
    /// Unscented Kalman filter with the system's own Q.
    Ukf,
    /// Particle filter.
    Pf,
    /// Implicit MAP filter.
    Imap(Optimizer),
    /// Extended Kalman filter with Q = q I.
    EkfSearch {
        /// The value tried.
        q: f64,
    },
    /// Unscented Kalman filter with Q = q I.
    UkfSearch {
        /// The value tried.
        q: f64,
    },
}

impl GridMethod {
    /// The name in the column `method`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ekf | Self::EkfSearch { .. } => "EKF",
            Self::Iekf { .. } => "IEKF",
            Self::Ukf | Self::UkfSearch { .. } => "UKF",
            Self::Pf => "PF",
            Self::Imap(o) => o.rule.method(),
        }
    }

    /// The columns `steps,lr,decay,q_search`.
    pub fn parameters(&self) -> [String; 4] {
        let number = |v: Option<f64>| v.map(|v| format!("{v:?}")).unwrap_or_default();
        let mut columns = [const { String::new() }; 4];
        match self {
            Self::Ekf | Self::Ukf | Self::Pf => {}
            Self::Iekf { steps } => columns[0] = steps.to_string(),
            Self::Imap(o) => {
                columns[0] = o.steps.to_string();
                columns[1] = number(o.lr);
                columns[2] = number(o.decay);
            }
            Self::EkfSearch { q } | Self::UkfSearch { q } => columns[3] = number(Some(*q)),
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_the_sizes_of_the_paper() {
        let all = optimizers();
        let count = |rule| all.iter().filter(|o| o.rule == rule).count();
        assert_eq!(all.len(), 287);
        assert_eq!(count(Rule::Adam), 105);
        assert_eq!(count(Rule::RmsProp), 105);
        assert_eq!(count(Rule::Gd), 35);
        assert_eq!(count(Rule::Adagrad), 35);
        assert_eq!(count(Rule::Adadelta), 7);
        assert_eq!(q_search_value(0), 0.01);
        assert_eq!(q_search_value(499), 5.0);
    }
}

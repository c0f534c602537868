//! Flags that choose a filter, shared by the commands that run one.

use crate::failure::Failure;
use optfilter_model::run::{Method, Plan};
use optfilter_model::{ModelSpec, Settings};

/// Which filter, with what. A flag overrides the model file's filter table.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Filter")]
pub struct FilterFlags {
    /// imap, ekf, iekf, ukf, pf, kf or vkf [default: the model file's, else imap]
    #[arg(long, value_name = "NAME", value_parser = Settings::METHODS)]
    pub method: Option<String>,
    /// gd, momentum, nesterov, adagrad, adadelta, rmsprop or adam [default: adam]
    #[arg(long, value_name = "NAME", value_parser = optfilter::optim::AnyOptimizer::NAMES)]
    pub optimizer: Option<String>,
    /// Optimizer steps per row (imap, vkf) or linearisations (iekf) [default: 50, iekf 5]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: Option<u32>,
    /// Learning rate [default: 0.1]
    #[arg(long, value_name = "RATE", value_parser = positive, allow_negative_numbers = true)]
    pub lr: Option<f64>,
    /// Momentum, RMSprop's gamma, Adadelta's rho, or both betas of Adam
    #[arg(long, value_name = "D", value_parser = fraction, allow_negative_numbers = true)]
    pub decay: Option<f64>,
    /// Factor on the process noise of the classical filters [default: 1]
    #[arg(long, value_name = "F", value_parser = positive, allow_negative_numbers = true)]
    pub process_scale: Option<f64>,
    /// Particles of pf [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub particles: Option<u32>,
    /// Seed of pf
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Carry the optimizer's state from row to row instead of restarting it (no standard deviations)
    #[arg(long)]
    pub carry: bool,
    /// Leave out the standard deviations of imap, which cost about as much as the estimates
    #[arg(long)]
    pub no_std: bool,
}

/// A positive finite number.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v > 0.0 && v.is_finite() => Ok(v),
        _ => Err("a positive number is expected".into()),
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if (0.0..1.0).contains(&v) => Ok(v),
        _ => Err("a number of at least 0 and below 1 is expected".into()),
    }
}

impl FilterFlags {
    /// The flags over the model file's settings over the defaults; checked against the model.
    pub fn plan(&self, spec: &ModelSpec) -> Result<Plan, Failure> {
        let of_file = &spec.settings;
        // Settings of another method in the file mean nothing for the one asked for.
        let same =
            self.method.is_none() || self.method == of_file.method || of_file.method.is_none();
        let base = if same { of_file.clone() } else { Settings::default() };
        let merged = Settings {
            method: self.method.clone().or(base.method),
            optimizer: self.optimizer.clone().or(base.optimizer),
            steps: self.steps.or(base.steps),
            lr: self.lr.or(base.lr),
            decay: self.decay.or(base.decay),
            carry: if self.carry { Some(true) } else { base.carry },
            process_scale: self.process_scale.or(base.process_scale),
            particles: self.particles.or(base.particles),
        };
        let plan = Plan { seed: self.seed, error_bars: !self.no_std, ..Plan::new(&merged) };
        if !plan.method.optimizes() && (self.optimizer.is_some() || self.lr.is_some()) {
            return Err(Failure::usage(format!(
                "--optimizer and --lr belong to imap and vkf, not to {}",
                plan.method.name()
            )));
        }
        if plan.method != Method::Pf && self.particles.is_some() {
            return Err(Failure::usage("--particles belongs to pf"));
        }
        plan.check(spec)?;
        Ok(plan)
    }
}

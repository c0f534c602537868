//! What settings mean together: which go with which, and what holds where one is open.
//!
//! A [`FilterSpec`] is what a model file's `[filter]` table, the flags of the command line and the arguments of
//! Python all are. What it leaves open has a default here and nowhere else: the accessors of
//! [`FilterSpec`] give the value that holds.
//!
//! ```
//! use optfilter_run::{FilterSpec, Method};
//! let of_file = FilterSpec { method: Some(Method::Imap), lr: Some(0.05), ..FilterSpec::default() };
//! let flags = FilterSpec { steps: Some(3), ..FilterSpec::default() };
//! let both = flags.over(&of_file);
//! assert_eq!((both.method(), both.steps(), both.lr()), (Method::Imap, 3, 0.05));
//! assert_eq!(both.flags(), "--method imap --optimizer adam --steps 3 --lr 0.05");
//! ```

use crate::choice::{Constraint, Method};
use crate::error::SpecError;
use crate::setting::{CG, Setting};
use crate::settings::FilterSpec;
use optfilter::filter::{Resampling, SigmaPoints};
use optfilter::optim::AnyOptimizer;

/// States up to which a filter carries a covariance without being asked.
pub const MAX_STATES_WITH_BARS: usize = 100;

/// States, or measurements, up to which a filter that keeps matrices of them is built: one of 20,000 x 20,000 takes 3.2 GB.
pub const MAX_STATES_WITH_MATRICES: usize = 20_000;

/// States and measurements, together, up to which an implicit filter has standard deviations without being asked. Each of
/// them costs about what the estimates cost, and nobody waits a hundred times as long unasked.
pub const MAX_DIRECTIONS: usize = 100;

impl FilterSpec {
    /// The filter of that name with its defaults.
    pub fn of(method: &str) -> Result<Self, SpecError> {
        let known = Method::NAMES.join(", ");
        let found = Method::from_name(method)
            .ok_or_else(|| SpecError::of("method", format!("{method:?} is not one of {known}")))?;
        Ok(Self { method: Some(found), ..Self::default() })
    }

    /// The filter; imap where none is named. [`fitted`](Self::fitted) names the one that fits a problem.
    pub fn method(&self) -> Method {
        self.method.unwrap_or_default()
    }

    /// Whether a setting is given that only filters driven by an optimizer read.
    pub fn sets_optimizer(&self) -> bool {
        // Standard deviations are asked of any filter; a variance of the prior is asked of vkf by name.
        let told = ["error_bars", "strict", "prior_var"];
        let of_one = |method| matches!(method, &Method::Imap | &Method::Vkf | &Method::Iekf);
        let given = self.given().into_iter().filter(|(_, value)| value != "false");
        let mut given = given.map(|(setting, _)| setting);
        given.any(|s| s.readers.iter().all(of_one) && !told.contains(&s.name))
    }

    /// The optimizer's name.
    pub fn optimizer(&self) -> &str {
        self.optimizer.as_deref().unwrap_or("adam")
    }

    /// Optimizer steps per measurement, or linearisations.
    pub fn steps(&self) -> u32 {
        self.steps.unwrap_or(match (self.method(), self.optimizer()) {
            (Method::Iekf, _) => 5,
            (_, CG) => 3,
            _ => 50,
        })
    }

    /// Past rows that the filter looks at.
    pub fn window(&self) -> usize {
        self.window.unwrap_or(0) as usize
    }

    /// Whether the path through a window may bend.
    pub fn is_weak(&self) -> bool {
        self.constraint == Some(Constraint::Weak)
    }

    /// Whether the implicit filter is the one of a window: it looks back, or its optimizer is of that kind.
    pub fn is_windowed(&self) -> bool {
        self.method() == Method::Imap && (self.window() > 0 || self.optimizer() == CG)
    }

    /// When and how particles are resampled.
    pub fn resampling(&self) -> Resampling {
        Resampling::Below(self.resampling.unwrap_or_default(), self.threshold())
    }

    /// Sigma points for `n` states. The defaults alpha = 1, beta = 1, kappa = 2 - n are right to fourth order
    /// for sums of squares of any number of states and keep every covariance positive; docs/decisions has
    /// the evidence.
    pub fn sigma_points(&self, n: usize) -> SigmaPoints {
        SigmaPoints {
            alpha: self.alpha(),
            beta: self.beta(),
            kappa: self.kappa.unwrap_or(2.0 - n as f64),
        }
    }

    /// The optimizer, with every hyper-parameter that is given.
    pub fn rule(&self) -> Result<AnyOptimizer, SpecError> {
        let wrong = |e: optfilter::optim::OptimizerError| SpecError::of("optimizer", e);
        let mut rule =
            AnyOptimizer::from_name(self.optimizer(), self.lr(), self.decay).map_err(wrong)?;
        match &mut rule {
            AnyOptimizer::Adam(adam) => {
                let beta1 = self.beta1.unwrap_or(adam.beta1);
                let beta2 = self.beta2.unwrap_or(adam.beta2);
                *adam = optfilter::optim::Adam::with_decay(adam.lr, beta1, beta2).map_err(wrong)?;
                adam.eps = self.eps.unwrap_or(adam.eps);
            }
            AnyOptimizer::RmsProp(rmsprop) => {
                rmsprop.eps = self.eps.unwrap_or(rmsprop.eps);
                rmsprop.eps_in_sqrt = self.eps_in_sqrt.unwrap_or(rmsprop.eps_in_sqrt);
            }
            AnyOptimizer::Adagrad(adagrad) => {
                adagrad.eps = self.eps.unwrap_or(adagrad.eps);
                adagrad.initial_accumulator =
                    self.accumulator.unwrap_or(adagrad.initial_accumulator);
            }
            AnyOptimizer::Adadelta(adadelta) => adadelta.eps = self.eps.unwrap_or(adadelta.eps),
            AnyOptimizer::GradientDescent(_) => {}
        }
        Ok(rule)
    }

    /// Whether every setting lies in its range; the error names the one that does not.
    pub fn validate(&self) -> Result<(), SpecError> {
        for (setting, value) in self.numbers() {
            if !setting.range.holds(value) {
                let complaint = setting.range.complaint(value);
                let message = format!("{value} is not allowed; {complaint}");
                return Err(SpecError::of(setting.name, message));
            }
        }
        if self.gate.is_some() && self.method.is_some_and(|method| !method.is_gaussian()) {
            return Err(SpecError::of("gate", "is for kf, ekf, iekf and ukf"));
        }
        if self.gating.is_some() && self.gate.is_none() {
            return Err(SpecError::of("gating", "needs a gate, as in gate = 0.999"));
        }
        if let Some(name) = &self.optimizer
            && name != CG
            && !AnyOptimizer::NAMES.contains(&name.as_str())
        {
            let known = AnyOptimizer::NAMES.join(", ");
            return Err(SpecError::of(
                "optimizer",
                format!("{name:?} is not one of {known}, {CG}"),
            ));
        }
        if self.optimizer() == CG && self.method() == Method::Vkf {
            return Err(SpecError::of("optimizer", "cg is for imap; vkf descends with a prior"));
        }
        if self.optimizer() == CG && self.method() == Method::Imap && self.carry() {
            return Err(SpecError::of("carry", "cg has nothing to carry from row to row"));
        }
        if self.probes() > 0 && self.method.is_some_and(|m| m.optimizes()) && self.optimizer() != CG
        {
            let message = "are for cg; the other optimizers scale their steps by a learning rate";
            return Err(SpecError::of("probes", message));
        }
        if self.shorten() && self.method() == Method::Imap && self.window() == 0 {
            return Err(SpecError::of("shorten", "needs a window that could be shortened"));
        }
        self.check_places()?;
        if self.is_weak() && self.method() == Method::Imap {
            if self.window() == 0 {
                let message = "weak needs a window: past rows in which the path can bend";
                return Err(SpecError::of("constraint", message));
            }
            if self.carry() {
                let message = "cannot be weak where the optimizer's state is carried";
                return Err(SpecError::of("constraint", message));
            }
        }
        Ok(())
    }

    /// States and measurements stand somewhere, or neither do, all in the same coordinates.
    fn check_places(&self) -> Result<(), SpecError> {
        let rows = match (&self.state_places, &self.measurement_places) {
            (None, None) if self.period.is_none() => return Ok(()),
            (Some(states), Some(measurements)) => states.iter().chain(measurements),
            _ => {
                let message =
                    "state_places, measurement_places and period go together: where do both stand?";
                return Err(SpecError::of("state_places", message));
            }
        };
        let dims = rows.clone().next().map_or(0, Vec::len);
        let fits = |row: &Vec<f64>| row.len() == dims && row.iter().all(|v| v.is_finite());
        if dims == 0 || !rows.clone().all(fits) {
            let message = "every place needs the same number of coordinates, each a finite number";
            return Err(SpecError::of("state_places", message));
        }
        let positive = |v: &f64| *v >= 0.0 && v.is_finite();
        if self.period.as_ref().is_some_and(|p| p.len() != dims || !p.iter().all(positive)) {
            let message =
                format!("needs {dims} lengths, one for each coordinate (0: it never repeats)");
            return Err(SpecError::of("period", message));
        }
        if self.periodic == Some(true) {
            let message = "is for states in a row; for places say the period of each coordinate";
            return Err(SpecError::of("periodic", message));
        }
        Ok(())
    }

    /// Whether the filter reads a setting, with the others as they are.
    fn reads(&self, setting: &Setting) -> bool {
        let descends_by_rate = self.optimizer() != CG || !self.method().optimizes();
        // Forecasts of any filter may be drawn, too.
        let draws = setting.name == "seed" && self.seed.is_some_and(|seed| seed != 0);
        (setting.is_read_by(self.method()) || draws)
            && match setting.name {
                "lr" | "decay" | "beta1" | "beta2" | "eps" | "eps_in_sqrt" | "accumulator" => {
                    descends_by_rate
                }
                "probes" => !descends_by_rate,
                "discount" | "constraint" | "shorten" => self.is_windowed(),
                // Only its standard deviations and weak windows do.
                "process_scale" => self.method() != Method::Imap || self.process_scale.is_some(),
                _ => true,
            }
    }

    /// The same filter with every setting that it reads written out, defaults included.
    #[must_use]
    pub fn filled(&self) -> Self {
        let worked_out = Self {
            method: Some(self.method()),
            optimizer: Some(self.optimizer().into()),
            steps: Some(self.steps()),
            window: Some(self.window() as u32),
            ..Self::defaults()
        };
        self.over(&worked_out).only(|setting| self.reads(setting))
    }

    /// What a model file would say to get this filter: nothing that the filter does not read, what says how large the filter is, and of the
    /// rest what is given. (Left out is given by a file beneath it, so that only what changes nothing anywhere is left out.)
    #[must_use]
    pub fn essential(&self) -> Self {
        const SIZES: [&str; 8] =
            ["method", "optimizer", "steps", "lr", "particles", "members", "inflation", "radius"];
        const NEUTRAL: [&str; 12] = [
            "probes",
            "window",
            "discount",
            "shorten",
            "carry",
            "process_scale",
            "measurement_scale",
            "rotate",
            "periodic",
            "seed",
            "predict_first",
            "irregular",
        ];
        let changes = |(setting, value): &(&Setting, String)| {
            let number = |text: &str| text.parse::<f64>().ok();
            let differs = match number(value) {
                Some(v) => number(setting.default) != Some(v),
                None => value.trim_matches('"') != setting.default,
            };
            (differs || !NEUTRAL.contains(&setting.name)).then_some(setting.name)
        };
        let given: Vec<&str> = self.given().iter().filter_map(changes).collect();
        let filled = Self { error_bars: None, ..self.filled() };
        filled.only(|setting| SIZES.contains(&setting.name) || given.contains(&setting.name))
    }

    /// The flags that give this filter on the command line.
    pub fn flags(&self) -> String {
        let flag = |(setting, value): (&Setting, String)| match value.as_str() {
            "true" => setting.flag(),
            "false" => format!("{}=false", setting.flag()),
            value => format!("{} {}", setting.flag(), value.trim_matches('"')),
        };
        let given = self.essential().given().into_iter().filter(|(setting, _)| setting.is_flag());
        given.map(flag).collect::<Vec<_>>().join(" ")
    }

    /// The `[filter]` table of a model file.
    pub fn to_toml(&self) -> String {
        let lines = self.given().into_iter().map(|(s, value)| format!("{} = {value}\n", s.name));
        format!("[filter]\n{}", lines.collect::<String>())
    }
}

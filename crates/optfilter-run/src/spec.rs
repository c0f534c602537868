//! Every filter, every name and every default, once.
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

use crate::error::SpecError;
use crate::method::Method;
use optfilter::filter::{Resampling, Scheme, SigmaPoints};
use optfilter::optim::AnyOptimizer;
use serde::{Deserialize, Serialize};

/// What an optimizer descends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// The negative logarithm of the likelihood, with the measurement noise R.
    Likelihood,
    /// Half the squared error, R = I, as in the paper.
    Squared,
}

/// What to make of irregular times under a model that knows no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Irregular {
    /// An error.
    #[default]
    Error,
    /// Every row is one step, however long it took.
    PerRow,
}

impl Irregular {
    /// Their names.
    pub const NAMES: [&'static str; 2] = ["error", "per_row"];
}

/// What an implicit filter makes of a measurement that comes after a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gaps {
    /// It takes more steps, as the wider prior asks for.
    Widen,
    /// It takes as many steps as ever.
    Ignore,
}

impl Gaps {
    /// Their names.
    pub const NAMES: [&'static str; 2] = ["widen", "ignore"];
}

/// How far a window trusts the dynamics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Constraint {
    /// Altogether: the path through the window follows from its first state.
    Strong,
    /// As far as Q says: the path may bend at every row.
    Weak,
}

/// What happens to a measurement beyond the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Beyond {
    /// It is left out.
    #[default]
    Reject,
    /// It counts as much as one at the gate would.
    Inflate,
    /// It counts, and its row is flagged.
    Flag,
}

impl Beyond {
    /// Their names.
    pub const NAMES: [&'static str; 3] = ["reject", "inflate", "flag"];
}

/// The optimizer that has no learning rate: Gauss-Newton conjugate gradients.
pub const CG: &str = "cg";

/// Declares the settings: each once, with what it means.
macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// Which filter, with what. What is `None` has its default.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct FilterSpec {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$type>,)*
        }

        impl FilterSpec {
            /// The names of all settings.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($name)),*];

            /// These settings, and those of `base` where these are open.
            #[must_use]
            pub fn over(&self, base: &Self) -> Self {
                Self { $($name: self.$name.clone().or_else(|| base.$name.clone()),)* }
            }
        }
    };
}

settings! {
    /// imap, ekf, iekf, ukf, pf, kf, vkf, etkf or letkf.
    method: Method,
    /// gd, momentum, nesterov, adagrad, adadelta, rmsprop, adam or cg.
    optimizer: String,
    /// Optimizer steps per measurement; linearisations for iekf.
    steps: u32,
    /// Random probes of the curvature's diagonal, by which cg scales its directions.
    probes: u32,
    /// Learning rate.
    lr: f64,
    /// Momentum, RMSprop's gamma, Adadelta's rho, or both betas of Adam.
    decay: f64,
    /// Adam's first beta, where the two differ.
    beta1: f64,
    /// Adam's second beta.
    beta2: f64,
    /// The small number that keeps adaptive rules from dividing by zero.
    eps: f64,
    /// Whether RMSprop's eps stands under its square root.
    eps_in_sqrt: bool,
    /// Where Adagrad's accumulator starts.
    accumulator: f64,
    /// Past rows that an implicit filter looks at besides the newest.
    window: u32,
    /// How much each row of a window counts, of the one after it.
    discount: f64,
    /// Whether the path through a window may bend.
    constraint: Constraint,
    /// Whether a window that diverges is tried again with its newer half.
    shorten: bool,
    /// Whether the optimizer's state is carried from row to row.
    carry: bool,
    /// What the optimizer descends: the likelihood where R is given, else the squared error.
    loss: Loss,
    /// Whether an implicit filter takes more steps after a gap; where process noise is per time, unless said otherwise.
    gaps: Gaps,
    /// What to make of irregular times under a model that knows no time.
    irregular: Irregular,
    /// Whether an implicit filter carries standard deviations; where it can, unless said otherwise.
    error_bars: bool,
    /// Whether lost standard deviations are an error, instead of being given up.
    strict: bool,
    /// One variance of the prior of vkf for all states; Q unless given.
    prior_var: f64,
    /// A factor on the process noise Q.
    process_scale: f64,
    /// A factor on the measurement noise R.
    measurement_scale: f64,
    /// Particles of the particle filter.
    particles: u32,
    /// Members of an ensemble.
    members: u32,
    /// Factor on the members' deviations after each update.
    inflation: f64,
    /// Whether members are rotated at random after each update, which keeps their mean and covariance.
    rotate: bool,
    /// How far letkf lets measurements reach: at this distance, in states, they count for two thirds.
    radius: f64,
    /// Whether the last state is the first one's neighbour.
    periodic: bool,
    /// Where each state stands for letkf: a row of coordinates; by its index unless given.
    state_places: Vec<Vec<f64>>,
    /// Where each measurement stands, in the same coordinates.
    measurement_places: Vec<Vec<f64>>,
    /// The length after which each coordinate repeats; 0: never.
    period: Vec<f64>,
    /// Seed of the particle filter and of ensembles.
    seed: u64,
    /// How particles are resampled.
    resampling: Scheme,
    /// The share of effective particles below which they are resampled; 1 resamples after every row.
    threshold: f64,
    /// The share of good measurements that kf, ekf, iekf and ukf let through; those beyond are treated as `gating` says.
    gate: f64,
    /// What happens to a measurement beyond the gate: reject, inflate or flag.
    gating: Beyond,
    /// Spread of the sigma points.
    alpha: f64,
    /// Weight of their centre in covariances.
    beta: f64,
    /// Second spread parameter.
    kappa: f64,
    /// Whether the first row is predicted too: the initial belief is then of one step before it.
    predict_first: bool,
}

/// States up to which a filter carries a covariance without being asked.
pub const MOST_STATES_WITH_BARS: usize = 100;

/// States, or measurements, up to which a filter that keeps matrices of them is built: one of 20,000 x 20,000 takes 3.2 GB.
pub const MOST_STATES_WITH_MATRICES: usize = 20_000;

/// States and measurements, together, up to which an implicit filter has standard deviations without being asked. Each of
/// them costs about what the estimates cost, and nobody waits a hundred times as long unasked.
pub const MOST_DIRECTIONS: usize = 100;

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
        let numbers = [self.lr, self.decay, self.beta1, self.beta2, self.eps, self.accumulator];
        self.optimizer.is_some()
            || self.steps.or(self.probes).is_some()
            || numbers.iter().any(Option::is_some)
            || self.eps_in_sqrt.or(self.carry).is_some()
            || self.window.is_some()
            || self.discount.is_some()
            || self.constraint.is_some()
            || self.shorten.is_some()
            || self.gaps.is_some()
            || self.loss.is_some()
    }

    /// Whether a window that diverges is shortened.
    pub fn shorten(&self) -> bool {
        self.shorten.unwrap_or(false)
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

    /// Probes of the curvature's diagonal.
    pub fn probes(&self) -> u32 {
        self.probes.unwrap_or(0)
    }

    /// The learning rate.
    pub fn lr(&self) -> f64 {
        self.lr.unwrap_or(0.1)
    }

    /// Past rows that the filter looks at.
    pub fn window(&self) -> usize {
        self.window.unwrap_or(0) as usize
    }

    /// How much each row counts of the one after it.
    pub fn discount(&self) -> f64 {
        self.discount.unwrap_or(1.0)
    }

    /// Whether the path through a window may bend.
    pub fn is_weak(&self) -> bool {
        self.constraint == Some(Constraint::Weak)
    }

    /// Whether the implicit filter is the one of a window: it looks back, or its optimizer is of that kind.
    pub fn is_windowed(&self) -> bool {
        self.method() == Method::Imap && (self.window() > 0 || self.optimizer() == CG)
    }

    /// Whether the optimizer's state is carried.
    pub fn carry(&self) -> bool {
        self.carry.unwrap_or(false)
    }

    /// Whether lost standard deviations are an error.
    pub fn strict(&self) -> bool {
        self.strict.unwrap_or(false)
    }

    /// The factor on the process noise.
    pub fn process_scale(&self) -> f64 {
        self.process_scale.unwrap_or(1.0)
    }

    /// The factor on the measurement noise.
    pub fn measurement_scale(&self) -> f64 {
        self.measurement_scale.unwrap_or(1.0)
    }

    /// The number of particles.
    pub fn particles(&self) -> u32 {
        self.particles.unwrap_or(1000)
    }

    /// The number of members of an ensemble.
    pub fn members(&self) -> u32 {
        self.members.unwrap_or(40)
    }

    /// The factor on the members' deviations: a little, since every finite ensemble is too sure of itself.
    pub fn inflation(&self) -> f64 {
        self.inflation.unwrap_or(1.02)
    }

    /// Whether members are rotated.
    pub fn rotate(&self) -> bool {
        self.rotate.unwrap_or(false)
    }

    /// The radius of localisation, in states.
    pub fn radius(&self) -> f64 {
        self.radius.unwrap_or(4.0)
    }

    /// Whether the states are a circle.
    pub fn periodic(&self) -> bool {
        self.periodic.unwrap_or(false)
    }

    /// The seed of the particle filter and of ensembles.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    /// When and how particles are resampled.
    pub fn resampling(&self) -> Resampling {
        Resampling::Below(self.resampling.unwrap_or_default(), self.threshold.unwrap_or(0.5))
    }

    /// Sigma points for `n` states. The defaults alpha = 1, beta = 1, kappa = 2 - n are right to fourth order
    /// for sums of squares of any number of states and keep every covariance positive; docs/decisions has
    /// the evidence.
    pub fn sigma_points(&self, n: usize) -> SigmaPoints {
        SigmaPoints {
            alpha: self.alpha.unwrap_or(1.0),
            beta: self.beta.unwrap_or(1.0),
            kappa: self.kappa.unwrap_or(2.0 - n as f64),
        }
    }

    /// Whether the first row is predicted.
    pub fn predict_first(&self) -> bool {
        self.predict_first.unwrap_or(false)
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
        type Check = (&'static str, Option<f64>, fn(f64) -> bool, &'static str);
        let positive: (fn(f64) -> bool, _) = (|v| v > 0.0 && v.is_finite(), "positive and finite");
        let fraction: (fn(f64) -> bool, _) =
            (|v| (0.0..1.0).contains(&v), "at least 0 and below 1");
        let share: (fn(f64) -> bool, _) = (|v| (0.0..=1.0).contains(&v), "between 0 and 1");
        let small: (fn(f64) -> bool, _) = (|v| v >= 0.0 && v.is_finite(), "at least 0 and finite");
        let finite: (fn(f64) -> bool, _) = (f64::is_finite, "finite");
        let checks: [Check; 18] = [
            ("lr", self.lr, positive.0, positive.1),
            ("decay", self.decay, fraction.0, fraction.1),
            ("beta1", self.beta1, fraction.0, fraction.1),
            ("beta2", self.beta2, fraction.0, fraction.1),
            ("eps", self.eps, small.0, small.1),
            ("accumulator", self.accumulator, small.0, small.1),
            ("prior_var", self.prior_var, positive.0, positive.1),
            ("process_scale", self.process_scale, positive.0, positive.1),
            ("measurement_scale", self.measurement_scale, positive.0, positive.1),
            ("inflation", self.inflation, positive.0, positive.1),
            ("radius", self.radius, |v| v > 0.0, "positive"),
            ("threshold", self.threshold, share.0, share.1),
            ("gate", self.gate, |v| v > 0.0 && v < 1.0, "above 0 and below 1, as in 0.999"),
            ("alpha", self.alpha, positive.0, positive.1),
            ("beta", self.beta, finite.0, finite.1),
            ("kappa", self.kappa, finite.0, finite.1),
            ("steps", self.steps.map(f64::from), positive.0, "at least 1"),
            ("discount", self.discount, |v| v > 0.0 && v <= 1.0, "above 0 and at most 1"),
        ];
        for (key, value, holds, requirement) in checks {
            if let Some(value) = value
                && !holds(value)
            {
                let message = format!("{value} is not allowed; it must be {requirement}");
                return Err(SpecError::of(key, message));
            }
        }
        if self.gate.is_some() && self.method.is_some_and(|method| !method.is_gaussian()) {
            return Err(SpecError::of("gate", "is for kf, ekf, iekf and ukf"));
        }
        if self.gating.is_some() && self.gate.is_none() {
            return Err(SpecError::of("gating", "needs a gate, as in gate = 0.999"));
        }
        if self.particles == Some(0) {
            return Err(SpecError::of("particles", "must be at least 1"));
        }
        if self.members.is_some_and(|members| members < 2) {
            return Err(SpecError::of("members", "must be at least 2"));
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

    /// The same filter with every setting that it reads written out, defaults included.
    #[must_use]
    pub fn filled(&self) -> Self {
        let method = self.method();
        let optimizes = method.optimizes();
        let scaled = method != Method::Imap || self.process_scale.is_some();
        Self {
            method: Some(method),
            optimizer: optimizes.then(|| self.optimizer().into()),
            steps: (optimizes || method == Method::Iekf).then(|| self.steps()),
            probes: self.probes.filter(|_| self.is_windowed()),
            lr: (optimizes && self.optimizer() != CG).then(|| self.lr()),
            window: (method == Method::Imap).then(|| self.window() as u32),
            discount: self.discount.filter(|_| self.is_windowed()),
            constraint: self.constraint.filter(|_| self.is_windowed()),
            shorten: self.shorten.filter(|_| self.is_windowed()),
            carry: (method == Method::Imap).then(|| self.carry()),
            process_scale: scaled.then(|| self.process_scale()),
            particles: (method == Method::Pf).then(|| self.particles()),
            members: method.is_ensemble().then(|| self.members()),
            inflation: method.is_ensemble().then(|| self.inflation()),
            rotate: method.is_ensemble().then(|| self.rotate()),
            radius: (method == Method::Letkf).then(|| self.radius()),
            periodic: (method == Method::Letkf).then(|| self.periodic()),
            state_places: self.state_places.clone().filter(|_| method == Method::Letkf),
            measurement_places: self.measurement_places.clone().filter(|_| method == Method::Letkf),
            period: self.period.clone().filter(|_| method == Method::Letkf),
            seed: (method == Method::Pf || method.is_ensemble()).then(|| self.seed()),
            predict_first: Some(self.predict_first()),
            ..self.clone()
        }
    }

    /// What a model file would say to get this filter: nothing that the filter does not read, and no switch
    /// that is off.
    #[must_use]
    pub fn essential(&self) -> Self {
        let filled = self.filled();
        let optimizes = self.method().optimizes();
        Self {
            decay: self.decay.filter(|_| optimizes),
            probes: filled.probes.filter(|probes| *probes > 0),
            window: filled.window.filter(|rows| *rows > 0),
            discount: filled.discount.filter(|g| *g != 1.0),
            constraint: filled.constraint.filter(|c| *c == Constraint::Weak),
            shorten: filled.shorten.filter(|on| *on),
            carry: filled.carry.filter(|on| *on),
            process_scale: filled.process_scale.filter(|s| *s != 1.0),
            measurement_scale: self.measurement_scale.filter(|s| *s != 1.0),
            rotate: filled.rotate.filter(|on| *on),
            periodic: filled.periodic.filter(|on| *on),
            seed: self.seed.filter(|s| *s != 0),
            predict_first: self.predict_first.filter(|on| *on),
            gaps: self.gaps.filter(|_| self.method() == Method::Imap),
            irregular: self.irregular.filter(|i| *i != Irregular::Error),
            error_bars: None,
            ..filled
        }
    }

    /// The settings that are given, as (name, value in TOML).
    fn given(&self) -> Vec<(&'static str, String)> {
        let quoted = |text: &str| format!("{text:?}");
        let mut out: Vec<(&'static str, String)> = Vec::new();
        let mut put = |key, value: Option<String>| out.extend(value.map(|v| (key, v)));
        put("method", self.method.map(|m| quoted(m.name())));
        put("optimizer", self.optimizer.as_deref().map(quoted));
        put("steps", self.steps.map(|v| v.to_string()));
        put("probes", self.probes.map(|v| v.to_string()));
        put("window", self.window.map(|v| v.to_string()));
        put("state_places", self.state_places.as_ref().map(|v| format!("{v:?}")));
        put("measurement_places", self.measurement_places.as_ref().map(|v| format!("{v:?}")));
        put("period", self.period.as_ref().map(|v| format!("{v:?}")));
        put("discount", self.discount.map(|v| v.to_string()));
        let constraint = |c| quoted(if c == Constraint::Weak { "weak" } else { "strong" });
        put("constraint", self.constraint.map(constraint));
        for (key, value) in [
            ("lr", self.lr),
            ("decay", self.decay),
            ("beta1", self.beta1),
            ("beta2", self.beta2),
            ("eps", self.eps),
            ("accumulator", self.accumulator),
            ("prior_var", self.prior_var),
            ("process_scale", self.process_scale),
            ("measurement_scale", self.measurement_scale),
            ("inflation", self.inflation),
            ("radius", self.radius),
            ("threshold", self.threshold),
            ("gate", self.gate),
            ("alpha", self.alpha),
            ("beta", self.beta),
            ("kappa", self.kappa),
        ] {
            put(key, value.map(|v| v.to_string()));
        }
        for (key, value) in [
            ("eps_in_sqrt", self.eps_in_sqrt),
            ("shorten", self.shorten),
            ("carry", self.carry),
            ("error_bars", self.error_bars),
            ("strict", self.strict),
            ("rotate", self.rotate),
            ("periodic", self.periodic),
            ("predict_first", self.predict_first),
        ] {
            put(key, value.map(|v| v.to_string()));
        }
        put("particles", self.particles.map(|v| v.to_string()));
        put("members", self.members.map(|v| v.to_string()));
        put("seed", self.seed.map(|v| v.to_string()));
        put("resampling", self.resampling.map(|s| quoted(s.name())));
        put("gaps", self.gaps.map(|g| quoted(Gaps::NAMES[g as usize])));
        put("gating", self.gating.map(|g| quoted(Beyond::NAMES[g as usize])));
        put("irregular", self.irregular.map(|i| quoted(Irregular::NAMES[i as usize])));
        put(
            "loss",
            self.loss.map(|l| quoted(if l == Loss::Squared { "squared" } else { "likelihood" })),
        );
        out
    }

    /// The flags that give this filter on the command line.
    pub fn flags(&self) -> String {
        let flag = |(key, value): (&str, String)| match value.as_str() {
            "true" => format!("--{}", key.replace('_', "-")),
            value => format!("--{} {}", key.replace('_', "-"), value.trim_matches('"')),
        };
        self.essential().given().into_iter().map(flag).collect::<Vec<_>>().join(" ")
    }

    /// The `[filter]` table of a model file.
    pub fn to_toml(&self) -> String {
        let lines = self.given().into_iter().map(|(key, value)| format!("{key} = {value}\n"));
        format!("[filter]\n{}", lines.collect::<String>())
    }
}

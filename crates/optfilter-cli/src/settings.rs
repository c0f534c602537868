//! Flags that choose a filter, shared by the commands that run one.

use crate::failure::Failure;
use optfilter::filter::Scheme;
use optfilter::optim::AnyOptimizer;
use optfilter_model::ModelSpec;
use optfilter_run::{Beyond, CG, Constraint, FilterSpec, Gaps, Irregular, Loss, Method};
use std::io::Write;

/// Which filter, with what. A flag overrides the model file's filter table.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Filter")]
pub struct FilterFlags {
    /// imap, ekf, iekf, ukf, pf, kf, vkf, etkf or letkf [default: the model file's, else kf, ekf or pf
    /// where noise is given, else imap]
    #[arg(long, value_name = "NAME", value_parser = Method::NAMES)]
    pub method: Option<String>,
    /// gd, momentum, nesterov, adagrad, adadelta, rmsprop, adam, or cg, which has no learning rate
    /// [default: adam]
    #[arg(long, value_name = "NAME", value_parser = optimizers())]
    pub optimizer: Option<String>,
    /// Optimizer steps per row (imap, vkf) or linearisations (iekf) [default: 50, cg 3, iekf 5]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: Option<u32>,
    /// Random probes of the curvature's diagonal, by which cg scales its directions: 4 for states by the ten thousand
    /// [default: 0]
    #[arg(long, value_name = "N")]
    pub probes: Option<u32>,
    /// Learning rate [default: 0.1]
    #[arg(long, value_name = "RATE", value_parser = positive, allow_negative_numbers = true)]
    pub lr: Option<f64>,
    /// Momentum, RMSprop's gamma, Adadelta's rho, or both betas of Adam
    #[arg(long, value_name = "D", value_parser = fraction, allow_negative_numbers = true)]
    pub decay: Option<f64>,
    /// Adam's first beta, where the two differ
    #[arg(long, value_name = "D", value_parser = fraction, hide_short_help = true)]
    pub beta1: Option<f64>,
    /// Adam's second beta
    #[arg(long, value_name = "D", value_parser = fraction, hide_short_help = true)]
    pub beta2: Option<f64>,
    /// Past rows that imap looks at besides the newest [default: 0]
    #[arg(long, value_name = "L")]
    pub window: Option<u32>,
    /// How much each row of a window counts, of the one after it [default: 1]
    #[arg(long, value_name = "G", value_parser = positive, allow_negative_numbers = true)]
    pub discount: Option<f64>,
    /// Whether the path through a window follows the model (strong) or may bend as far as the process noise
    /// says (weak) [default: strong]
    #[arg(long, value_name = "NAME", value_parser = ["strong", "weak"])]
    pub constraint: Option<String>,
    /// Try a window that diverges again with its newer half, and so on down to the newest row (no standard deviations)
    #[arg(long)]
    pub shorten: bool,
    /// Carry the optimizer's state from row to row instead of restarting it (no standard deviations)
    #[arg(long)]
    pub carry: bool,
    /// What imap and vkf descend: likelihood or squared [default: likelihood where R is given]
    #[arg(long, value_name = "NAME", value_parser = ["likelihood", "squared"])]
    pub loss: Option<String>,
    /// More steps of imap after a gap: widen or ignore [default: widen where process noise is per time]
    #[arg(long, value_name = "NAME", value_parser = Gaps::NAMES)]
    pub gaps: Option<String>,
    /// Irregular times under a model without dt: error or per_row [default: error]
    #[arg(long, value_name = "NAME", value_parser = Irregular::NAMES)]
    pub irregular: Option<String>,
    /// Share of good measurements that kf, ekf, iekf and ukf let through, as 0.999; others are treated as --gating says
    #[arg(long, value_name = "P", value_parser = positive)]
    pub gate: Option<f64>,
    /// What happens beyond the gate: reject, inflate (count as one at the gate) or flag [default: reject]
    #[arg(long, value_name = "NAME", value_parser = Beyond::NAMES)]
    pub gating: Option<String>,
    /// Factor on the process noise Q of the classical filters [default: 1]
    #[arg(long, value_name = "F", value_parser = positive, allow_negative_numbers = true)]
    pub process_scale: Option<f64>,
    /// Factor on the measurement noise R [default: 1]
    #[arg(long, value_name = "F", value_parser = positive, allow_negative_numbers = true)]
    pub measurement_scale: Option<f64>,
    /// Variance of vkf's prior in every state [default: the process noise]
    #[arg(long, value_name = "V", value_parser = positive)]
    pub prior_var: Option<f64>,
    /// Particles of pf [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub particles: Option<u32>,
    /// Members of etkf and letkf [default: 40]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub members: Option<u32>,
    /// Factor on the members' deviations after each row [default: 1.02]
    #[arg(long, value_name = "F", value_parser = positive)]
    pub inflation: Option<f64>,
    /// Rotate the members at random after each row
    #[arg(long)]
    pub rotate: bool,
    /// How many states away a measurement counts for two thirds to letkf [default: 4]
    #[arg(long, value_name = "R", value_parser = positive)]
    pub radius: Option<f64>,
    /// The last state is the first one's neighbour to letkf
    #[arg(long)]
    pub periodic: bool,
    /// Seed of pf, etkf and letkf [default: 0]
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// How pf resamples: systematic, stratified, residual or multinomial [default: systematic]
    #[arg(long, value_name = "NAME", value_parser = Scheme::ALL.map(Scheme::name))]
    pub resampling: Option<String>,
    /// Share of effective particles below which pf resamples [default: 0.5]
    #[arg(long, value_name = "P")]
    pub threshold: Option<f64>,
    /// Spread of ukf's sigma points [default: 1]
    #[arg(long, value_name = "A", value_parser = positive)]
    pub alpha: Option<f64>,
    /// Weight of their centre in covariances [default: 1]
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    pub beta: Option<f64>,
    /// Second spread parameter [default: 2 less the number of states]
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub kappa: Option<f64>,
    /// Predict before the first row too: the initial belief is of one step before it
    #[arg(long)]
    pub predict_first: bool,
    /// Leave out the standard deviations of imap, which take about as long as the estimates for each state and each
    /// observation (beyond 100 of them together they are left out unless the file says error_bars = true)
    #[arg(long)]
    pub no_std: bool,
    /// Fail where imap's standard deviations are lost, instead of going on without them
    #[arg(long, conflicts_with = "no_std")]
    pub strict: bool,
}

/// The names of all optimizers.
fn optimizers() -> Vec<&'static str> {
    AnyOptimizer::NAMES.into_iter().chain([CG]).collect()
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

/// Takes a flag back; whether it was given.
fn taken<T: Default + PartialEq>(flag: &mut T) -> bool {
    std::mem::take(flag) != T::default()
}

/// Flags of a filter, with the form that the problem gives it.
pub fn with_form(flags: &str, form: Option<&str>) -> String {
    form.map_or_else(|| flags.to_owned(), |form| format!("{flags} ({form})"))
}

/// What to say of states that no measurement moves under a filter.
pub fn unmoved_text(states: &[&str], filter: &FilterSpec) -> Option<String> {
    let hint = match filter.method() {
        Method::Imap | Method::Vkf => "; kf, ekf (with noise) or imap with --window would",
        _ => "; nothing that is measured depends on them",
    };
    (!states.is_empty()).then(|| format!("no measurement moves {}{hint}", states.join(", ")))
}

/// Says it on standard error.
pub fn warn_of_unmoved(states: &[&str], filter: &FilterSpec) {
    if let Some(text) = unmoved_text(states, filter) {
        let _ = writeln!(std::io::stderr(), "warning: {text}");
    }
}

impl FilterFlags {
    /// The flags as settings.
    fn given(&self) -> FilterSpec {
        let on = |flag: bool| flag.then_some(true);
        let scheme = |name: &String| Scheme::ALL.into_iter().find(|s| s.name() == name.as_str());
        let loss = |name: &String| match name.as_str() {
            "squared" => Loss::Squared,
            _ => Loss::Likelihood,
        };
        FilterSpec {
            method: self.method.as_deref().and_then(Method::from_name),
            optimizer: self.optimizer.clone(),
            steps: self.steps,
            probes: self.probes,
            lr: self.lr,
            decay: self.decay,
            beta1: self.beta1,
            beta2: self.beta2,
            window: self.window,
            discount: self.discount,
            constraint: self.constraint.as_ref().map(|name| match name.as_str() {
                "weak" => Constraint::Weak,
                _ => Constraint::Strong,
            }),
            shorten: on(self.shorten),
            carry: on(self.carry),
            loss: self.loss.as_ref().map(loss),
            gaps: self
                .gaps
                .as_deref()
                .map(|g| if g == "widen" { Gaps::Widen } else { Gaps::Ignore }),
            irregular: self.irregular.as_deref().map(|i| match i {
                "per_row" => Irregular::PerRow,
                _ => Irregular::Error,
            }),
            gate: self.gate,
            gating: self.gating.as_deref().map(|name| match name {
                "inflate" => Beyond::Inflate,
                "flag" => Beyond::Flag,
                _ => Beyond::Reject,
            }),
            process_scale: self.process_scale,
            measurement_scale: self.measurement_scale,
            prior_var: self.prior_var,
            particles: self.particles,
            members: self.members,
            inflation: self.inflation,
            rotate: on(self.rotate),
            radius: self.radius,
            periodic: on(self.periodic),
            seed: self.seed,
            resampling: self.resampling.as_ref().and_then(scheme),
            threshold: self.threshold,
            alpha: self.alpha,
            beta: self.beta,
            kappa: self.kappa,
            predict_first: on(self.predict_first),
            error_bars: self.no_std.then_some(false),
            strict: on(self.strict),
            ..FilterSpec::default()
        }
    }

    /// The flags over the model file's settings; checked against the model.
    pub fn filter(&self, spec: &ModelSpec) -> Result<FilterSpec, Failure> {
        let (given, of_file) = (self.given(), &spec.filter);
        // Settings of another method in the file mean nothing for the one asked for.
        let same =
            given.method.is_none() || given.method == of_file.method || of_file.method.is_none();
        let FilterSpec { predict_first, irregular, .. } = *of_file;
        let clock = FilterSpec { predict_first, irregular, ..FilterSpec::default() };
        let filter = spec.fitted(&given.over(if same { of_file } else { &clock }))?;
        let method = filter.method();
        if let (_, Some((flag, readers))) = self.read_by(method) {
            let message = format!("{flag} belongs to {readers}, not to {}", method.name());
            return Err(Failure::usage(message));
        }
        let rates = [
            ("--lr", given.lr),
            ("--decay", given.decay),
            ("--beta1", given.beta1),
            ("--beta2", given.beta2),
        ];
        if let (Some((flag, _)), CG) =
            (rates.iter().find(|rate| rate.1.is_some()), filter.optimizer())
        {
            let message = format!(
                "{flag} is not for cg, which has no learning rate; its numbers are --steps and --probes"
            );
            return Err(Failure::usage(message));
        }
        spec.runner(&filter)?;
        Ok(filter)
    }

    /// Refuses a discount without a window, which a filter that runs forwards does not read. (A smoother's reaches over everything.)
    pub fn check_discount(&self, filter: &FilterSpec) -> Result<(), Failure> {
        if self.discount.is_some_and(|g| g != 1.0) && filter.window() == 0 {
            let message =
                "--discount fades the past rows of a window: say how many, as in --window 16";
            return Err(Failure::usage(message));
        }
        Ok(())
    }

    /// These flags less those that a filter does not read; and the first of them, with who would read it.
    pub fn read_by(&self, method: Method) -> (Self, Option<(&'static str, &'static str)>) {
        let (mut out, mut first) = (self.clone(), None);
        macro_rules! only {
            ($reads:expr, $readers:literal, $($field:ident $flag:literal)*) => {
                if !$reads {
                    $(if taken(&mut out.$field) {
                        first.get_or_insert(($flag, $readers));
                    })*
                }
            };
        }
        let (optimizes, imap) = (method.optimizes(), method == Method::Imap);
        only!(optimizes, "imap and vkf", optimizer "--optimizer" lr "--lr" decay "--decay" beta1 "--beta1"
            beta2 "--beta2" loss "--loss");
        only!(optimizes || method == Method::Iekf, "imap, vkf and iekf", steps "--steps (of an optimizer)");
        only!(imap, "imap", probes "--probes" window "--window" discount "--discount" constraint "--constraint" shorten "--shorten" carry "--carry"
            gaps "--gaps");
        only!(method == Method::Vkf, "vkf", prior_var "--prior-var");
        only!(method == Method::Pf, "pf", particles "--particles" resampling "--resampling"
            threshold "--threshold");
        only!(method.is_ensemble(), "etkf and letkf", members "--members" inflation "--inflation"
            rotate "--rotate");
        only!(method == Method::Letkf, "letkf", radius "--radius" periodic "--periodic");
        only!(method == Method::Ukf, "ukf", alpha "--alpha" beta "--beta" kappa "--kappa");
        (out, first)
    }
}

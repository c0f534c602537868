//! How a stream is followed: network, filter and optimizer, all by name and number.

use super::AdaptError;
use super::scale::Scaling;
use crate::filter::{
    Diagonal, DiagonalRule, ImplicitMap, Ivon, IvonOptions, Likelihood, LowRank, Memory, Particle,
    Resumable, Static, Transition, Variational, Window,
};
use optfilter::optim::AnyOptimizer;

/// How the weights are kept up to date.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightMethod {
    /// K optimizer steps per time step.
    ImplicitMap {
        /// K.
        steps: u32,
    },
    /// Optimizer steps to near convergence (1000).
    DirectFit,
    /// Variational Kalman filter: K steps with a pull to the prediction.
    Variational {
        /// K.
        steps: u32,
        /// Variance of the weights' random walk per time step.
        transition_var: f64,
    },
    /// Particle filter.
    Particle {
        /// Number of particles.
        count: usize,
        /// Variance of the weights' random walk per time step.
        transition_var: f64,
    },
    /// Weights that never change.
    Static,
    /// Extended Kalman filter with a diagonal belief, fully decoupled.
    Ekf {
        /// Variance of the weights' drift per time step.
        drift_var: f64,
    },
    /// The same, variational.
    VariationalEkf {
        /// Variance of the weights' drift per time step.
        drift_var: f64,
    },
    /// Bayesian online natural gradient with a diagonal belief.
    Bong {
        /// Variance of the weights' drift per time step.
        drift_var: f64,
    },
    /// The same with gradients at draws of the weights instead of the linearised network.
    BongSampled {
        /// Draws per sample.
        draws: u32,
        /// Variance of the weights' drift per time step.
        drift_var: f64,
    },
    /// Bayesian online natural gradient with a low-rank belief: the equations of [`WeightMethod::LoFi`].
    BongLowRank {
        /// Number of directions.
        rank: usize,
        /// Variance of the weights' drift per time step.
        drift_var: f64,
    },
    /// Low-rank extended Kalman filter.
    LoFi {
        /// Number of directions.
        rank: usize,
        /// Variance of the weights' drift per time step.
        drift_var: f64,
    },
    /// Variational online Newton.
    Ivon {
        /// K.
        steps: u32,
    },
    /// A bank of settings, mixed by how well they have predicted lately: nothing has to be chosen.
    Auto,
}

impl WeightMethod {
    /// The method of a name, with what it needs and is not told set as usual.
    pub fn of_parts(
        name: &str,
        steps: Option<u32>,
        transition_var: Option<f64>,
        count: Option<usize>,
    ) -> Option<Self> {
        let drift_var = transition_var.unwrap_or(1e-5);
        let rank = count.unwrap_or(10);
        let one = steps.unwrap_or(1);
        let (steps, particles) = (steps.unwrap_or(50), count.unwrap_or(1000));
        let transition_var = transition_var.unwrap_or(0.01);
        Some(match name {
            "imap" => Self::ImplicitMap { steps },
            "vkf" => Self::Variational { steps, transition_var },
            "pf" => Self::Particle { count: particles, transition_var },
            "direct" => Self::DirectFit,
            "static" => Self::Static,
            "auto" => Self::Auto,
            "ekf" => Self::Ekf { drift_var },
            "vdekf" => Self::VariationalEkf { drift_var },
            "bong" => Self::Bong { drift_var },
            "bong-sampled" => {
                let draws = count.map_or(1, |c| u32::try_from(c).unwrap_or(u32::MAX));
                Self::BongSampled { draws, drift_var }
            }
            "bong-low-rank" => Self::BongLowRank { rank, drift_var },
            "lofi" => Self::LoFi { rank, drift_var },
            "ivon" => Self::Ivon { steps: one },
            _ => return None,
        })
    }

    /// Its name, steps, variance and particles (directions, draws), as far as it has them.
    pub fn parts(&self) -> (&'static str, Option<u32>, Option<f64>, Option<usize>) {
        match *self {
            Self::ImplicitMap { steps } => ("imap", Some(steps), None, None),
            Self::Variational { steps, transition_var } => {
                ("vkf", Some(steps), Some(transition_var), None)
            }
            Self::Particle { count, transition_var } => {
                ("pf", None, Some(transition_var), Some(count))
            }
            Self::DirectFit => ("direct", None, None, None),
            Self::Static => ("static", None, None, None),
            Self::Auto => ("auto", None, None, None),
            Self::Ekf { drift_var } => ("ekf", None, Some(drift_var), None),
            Self::VariationalEkf { drift_var } => ("vdekf", None, Some(drift_var), None),
            Self::Bong { drift_var } => ("bong", None, Some(drift_var), None),
            Self::BongSampled { draws, drift_var } => {
                ("bong-sampled", None, Some(drift_var), Some(draws as usize))
            }
            Self::BongLowRank { rank, drift_var } => {
                ("bong-low-rank", None, Some(drift_var), Some(rank))
            }
            Self::LoFi { rank, drift_var } => ("lofi", None, Some(drift_var), Some(rank)),
            Self::Ivon { steps } => ("ivon", Some(steps), None, None),
        }
    }
}

/// How a bank is kept. The defaults were chosen on the SEA and weather streams and on generated ones, and on nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BankOptions {
    /// Discount of evidence per sample.
    pub forget: f64,
    /// Number of members.
    pub size: usize,
    /// Samples between two trials of something new.
    pub patience: u64,
    /// Rate at which temperatures are learnt.
    pub temper: f64,
    /// Members of the network asked for that are never dropped for being behind.
    pub anchors: usize,
    /// Linear members beside those of another network, two of which are never dropped.
    pub linear: usize,
}

impl Default for BankOptions {
    fn default() -> Self {
        Self { forget: 0.995, size: 5, patience: 300, temper: 0.003, anchors: 3, linear: 3 }
    }
}

/// Everything but the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// `cnn`, `linear` or `mlp:64,64`.
    pub network: String,
    /// The filter.
    pub method: WeightMethod,
    /// Name of the optimizer.
    pub optimizer: String,
    /// The optimizer itself, where a name and a rate do not say all of it: it comes before them.
    pub rule: Option<AnyOptimizer>,
    /// Learning rate, which acts on the loss *summed* over a time step's samples.
    pub lr: f64,
    /// Whether the optimizer's memory is carried from one time step to the next.
    pub memory: Memory,
    /// How many past time steps an update looks at, and how they are discounted.
    pub window: Window,
    /// Share of the way back to the initial weights per time step (0: none).
    pub decay: f64,
    /// Numbers that are predicted of each sample, where labels are numbers; a bank predicts one.
    pub numbers: usize,
    /// Time steps at the beginning to which the network is fitted before it is judged.
    pub pretrain: usize,
    /// For the initial weights and the particles.
    pub seed: u64,
    /// The scaling, where it came with the weights; else by the first time steps.
    pub scaling: Option<Scaling>,
    /// Whether features are scaled as the stream goes rather than by the first time steps; a given `scaling` comes before it.
    pub running_scale: bool,
    /// Variance of each weight at the start, for filters with error bars.
    pub prior_var: f64,
    /// How labels are taken by filters with error bars.
    pub likelihood: Likelihood,
    /// Of [`WeightMethod::Ivon`], but for its rate, which is `lr`.
    pub ivon: IvonOptions,
    /// Of the bank of [`WeightMethod::Auto`].
    pub bank: BankOptions,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            network: "mlp:64,64".into(),
            method: WeightMethod::ImplicitMap { steps: 50 },
            optimizer: "adam".into(),
            rule: None,
            lr: 1e-3,
            memory: Memory::Restart,
            window: Window::default(),
            decay: 0.0,
            numbers: 1,
            pretrain: 1,
            seed: 0,
            scaling: None,
            running_scale: false,
            prior_var: 0.1,
            likelihood: Likelihood { noise_var: 0.1, robust: None },
            ivon: IvonOptions::default(),
            bank: BankOptions::default(),
        }
    }
}

impl Setup {
    /// A name for tables and legends.
    pub fn label(&self) -> String {
        let back = match (self.window.length(), self.window.discount()) {
            (0, _) => String::new(),
            (length, 1.0) => format!(" L={length}"),
            (length, discount) => format!(" L={length} g={discount}"),
        };
        let robust = self.likelihood.robust.map(|c| format!(" robust={c}")).unwrap_or_default();
        let carried = if self.memory == Memory::Carry { " carried" } else { "" };
        match self.method {
            WeightMethod::ImplicitMap { steps } => {
                let (rule, lr) = (&self.optimizer, self.lr);
                format!("implicit MAP, {rule} K={steps} lr={lr}{back}{carried}")
            }
            WeightMethod::DirectFit => {
                format!("direct fit, {} K=1000 lr={}{back}{carried}", self.optimizer, self.lr)
            }
            WeightMethod::Variational { steps, transition_var } => {
                format!("variational, K={steps} sigma2={transition_var}{back}{carried}")
            }
            WeightMethod::Particle { count, transition_var } => {
                format!("particle, {count} particles sigma2={transition_var}")
            }
            WeightMethod::Static => "static weights".into(),
            WeightMethod::Ekf { drift_var } => format!("diagonal EKF, drift={drift_var}{robust}"),
            WeightMethod::VariationalEkf { drift_var } => {
                format!("variational diagonal EKF, drift={drift_var}{robust}")
            }
            WeightMethod::Bong { drift_var } => format!("BONG, drift={drift_var}{robust}"),
            WeightMethod::BongSampled { draws, drift_var } => {
                format!("BONG, draws={draws} drift={drift_var}")
            }
            WeightMethod::BongLowRank { rank, drift_var } => {
                format!("BONG rank {rank}, drift={drift_var}{robust}")
            }
            WeightMethod::LoFi { rank, drift_var } => {
                format!("LoFi, rank={rank} drift={drift_var}{robust}")
            }
            WeightMethod::Ivon { steps } => {
                format!("IVON, K={steps} lr={}{}", self.lr, self.ivon.differences())
            }
            WeightMethod::Auto => {
                // Beside any other network a linear one is tried.
                let linear = if self.network == "linear" { 0 } else { self.bank.linear };
                format!("auto, {} settings", self.bank.size + linear)
            }
        }
    }

    /// The filter, at the given weights.
    pub(super) fn filter(
        &self,
        start: Vec<f32>,
    ) -> Result<Box<dyn Resumable<f32> + Send>, AdaptError> {
        let optimizer = match self.rule {
            Some(rule) => rule,
            None => AnyOptimizer::from_name(&self.optimizer, self.lr, None)?,
        };
        if !(0.0..=1.0).contains(&self.decay) {
            return Err(AdaptError::Setting(format!(
                "the decay must be between 0 and 1, not {}",
                self.decay
            )));
        }
        let transition = if self.decay > 0.0 {
            Transition::Decay { reference: start.clone(), rate: self.decay }
        } else {
            Transition::Identity
        };
        self.check_belief()?;
        let setting = |e: &dyn std::fmt::Display| AdaptError::Setting(e.to_string());
        // Memory that is carried decays for as long as a unit is off; see `WindowObjective::with_floor`.
        let floor = if self.memory == Memory::Carry { 1e-30 } else { 0.0 };
        Ok(match self.method {
            // A bank is no single filter; it makes those of its members.
            WeightMethod::Static | WeightMethod::Auto => Box::new(Static(start)),
            WeightMethod::ImplicitMap { steps } => Box::new(
                ImplicitMap::new(optimizer, steps, start)
                    .with_memory(self.memory)
                    .with_window(self.window)
                    .with_floor(floor)
                    .with_transition(transition),
            ),
            WeightMethod::DirectFit => Box::new(
                ImplicitMap::direct_fit(optimizer, start)
                    .with_memory(self.memory)
                    .with_window(self.window)
                    .with_transition(transition),
            ),
            WeightMethod::Variational { steps, transition_var } => Box::new(
                Variational::new(optimizer, steps, transition_var, start)
                    .map_err(|e| setting(&e))?
                    .with_memory(self.memory)
                    .with_window(self.window)
                    .with_transition(transition),
            ),
            WeightMethod::Ekf { drift_var } => {
                Box::new(self.diagonal(DiagonalRule::Decoupled, drift_var, start))
            }
            WeightMethod::VariationalEkf { drift_var } => {
                Box::new(self.diagonal(DiagonalRule::Variational, drift_var, start))
            }
            WeightMethod::Bong { drift_var } => {
                Box::new(self.diagonal(DiagonalRule::Bong, drift_var, start))
            }
            WeightMethod::BongSampled { draws, drift_var } => {
                let rule = DiagonalRule::BongSampled { draws };
                Box::new(self.diagonal(rule, drift_var, start).with_seed(self.seed))
            }
            WeightMethod::BongLowRank { rank, drift_var }
            | WeightMethod::LoFi { rank, drift_var } => Box::new(
                LowRank::new(start, self.prior_var, rank)
                    .with_likelihood(self.likelihood)
                    .with_drift(drift_var, 1.0),
            ),
            WeightMethod::Ivon { steps } => {
                let options = IvonOptions { lr: self.lr, ..self.ivon };
                options.check().map_err(AdaptError::Setting)?;
                Box::new(Ivon::new(options, steps, start, self.seed))
            }
            WeightMethod::Particle { count, transition_var } => Box::new(
                Particle::new(count, transition_var, start, self.seed)
                    .map_err(|e| setting(&e))?
                    .with_transition(transition),
            ),
        })
    }

    fn diagonal(&self, rule: DiagonalRule, drift_var: f64, start: Vec<f32>) -> Diagonal<f32> {
        Diagonal::new(rule, start, self.prior_var)
            .with_likelihood(self.likelihood)
            .with_drift(drift_var, 1.0)
    }

    /// Variances must be variances.
    fn check_belief(&self) -> Result<(), AdaptError> {
        let positive = [
            ("the prior variance", self.prior_var),
            ("the noise variance", self.likelihood.noise_var),
            ("the robust threshold", self.likelihood.robust.unwrap_or(1.0)),
        ];
        for (name, value) in positive {
            if !(value > 0.0 && value.is_finite()) {
                return Err(AdaptError::Setting(format!(
                    "{name} must be positive and finite, not {value}"
                )));
            }
        }
        if let (WeightMethod::BongSampled { .. }, Some(_)) = (self.method, self.likelihood.robust) {
            return Err(AdaptError::Setting(
                "the sampled form of BONG counts all labels alike; leave out the robust threshold, or the draws".into(),
            ));
        }
        let (_, _, drift, _) = self.method.parts();
        match drift {
            Some(v) if !(v >= 0.0 && v.is_finite()) => Err(AdaptError::Setting(format!(
                "the drift variance must be finite and not negative, not {v}"
            ))),
            _ => Ok(()),
        }
    }
}

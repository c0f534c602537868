//! The twenty-one systems of the paper: nine toy systems and twelve Lorenz systems.

use core::fmt;

/// Number of measurements in a run.
pub const STEPS: usize = 200;

/// How a Lorenz filter carries its state from one measurement to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dynamics {
    /// One Runge-Kutta step of fourth order.
    Rk4,
    /// One Euler step.
    Euler,
    /// Gaussian random walk: the state stays where it is.
    Grw,
}

impl Dynamics {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 3] = [Self::Rk4, Self::Euler, Self::Grw];

    /// The name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rk4 => "rk4",
            Self::Euler => "euler",
            Self::Grw => "grw",
        }
    }
}

/// One system of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum System {
    /// The one-dimensional toy system with noise strengths Q and R.
    Toy {
        /// Process noise.
        q: u32,
        /// Measurement noise.
        r: u32,
    },
    /// The stochastic Lorenz attractor.
    Lorenz {
        /// Strength of the Wiener process.
        alpha: u32,
        /// The integrator inside the filters.
        dynamics: Dynamics,
    },
}

impl System {
    /// The nine toy systems.
    pub fn toy() -> Vec<Self> {
        [1, 3, 5].into_iter().flat_map(|q| [1, 2, 3].map(|r| Self::Toy { q, r })).collect()
    }

    /// The twelve Lorenz systems.
    pub fn lorenz() -> Vec<Self> {
        [1, 5, 10, 20]
            .into_iter()
            .flat_map(|alpha| Dynamics::ALL.map(|dynamics| Self::Lorenz { alpha, dynamics }))
            .collect()
    }

    /// All twenty-one.
    pub fn all() -> Vec<Self> {
        let mut systems = Self::toy();
        systems.extend(Self::lorenz());
        systems
    }

    /// Names the systems that share simulated data, and are best run together.
    pub fn group(&self) -> String {
        match self {
            Self::Toy { .. } => self.to_string(),
            Self::Lorenz { alpha, .. } => format!("lorenz alpha={alpha}"),
        }
    }

    /// `toy` or `lorenz`.
    pub fn family(&self) -> &'static str {
        match self {
            Self::Toy { .. } => "toy",
            Self::Lorenz { .. } => "lorenz",
        }
    }

    /// The five key columns `system,q,r,alpha,dynamics` of the tables.
    pub fn key(&self) -> [String; 5] {
        match self {
            Self::Toy { q, r } => {
                ["toy".into(), q.to_string(), r.to_string(), String::new(), String::new()]
            }
            Self::Lorenz { alpha, dynamics } => [
                "lorenz".into(),
                String::new(),
                String::new(),
                alpha.to_string(),
                dynamics.name().into(),
            ],
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Toy { q, r } => write!(f, "toy Q={q} R={r}"),
            Self::Lorenz { alpha, dynamics } => {
                write!(f, "lorenz alpha={alpha} {}", dynamics.name())
            }
        }
    }
}

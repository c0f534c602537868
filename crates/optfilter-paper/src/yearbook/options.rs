//! What to run, and where.

use super::method::YearbookMethod;
use crate::protocol::Protocol;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// An optimizer step of the paper's network on a year's images, on one core of 2026.
const STEP: Duration = Duration::from_millis(7);

/// Where the arithmetic is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// All cores.
    #[default]
    Cpu,
    /// The graphics card (feature `cuda`).
    Cuda,
}

/// How much to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Seconds: [`Options::quick`].
    Quick,
    /// What the experiment is about, in less than half a minute: [`Options::demonstration`].
    Demonstration,
    /// The paper's best configurations: [`Options::short`].
    Short,
    /// All configurations: [`Options::full`].
    Full,
    /// Beyond the paper: [`Options::beyond`].
    Beyond,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Archive folder or npz file; without it the generated stand-in.
    pub data: Option<PathBuf>,
    /// Whether the stand-in turns within the years asked for, so that few of them are enough.
    pub hurried: bool,
    /// Seeds 0 to `seeds - 1`.
    pub seeds: u64,
    /// Methods with their configurations.
    pub methods: Vec<YearbookMethod>,
    /// Protocols to follow.
    pub protocols: Vec<Protocol>,
    /// Where to compute.
    pub device: Device,
    /// Folder for `yearbook.csv`.
    pub out: PathBuf,
    /// Particles of the particle filter.
    pub particles: usize,
    /// First and last year.
    pub years: (i32, i32),
    /// Set to true to stop soon; finished chains are saved.
    pub stop: Arc<AtomicBool>,
}

impl Options {
    /// Of a size.
    pub fn new(size: Size, out: PathBuf) -> Self {
        match size {
            Size::Quick => Self::quick(out),
            Size::Demonstration => Self::demonstration(out),
            Size::Short => Self::short(out),
            Size::Full => Self::full(out),
            Size::Beyond => Self::beyond(out),
        }
    }

    /// To see that everything works: static weights, K = 10 and 50 particles, four years, one seed, published protocol.
    pub fn quick(out: PathBuf) -> Self {
        let methods = vec![
            YearbookMethod::Static,
            YearbookMethod::ImplicitMap(10),
            YearbookMethod::Particle(0.01),
        ];
        Self { seeds: 1, years: (1931, 1934), particles: 50, methods, ..Self::short(out) }
    }

    /// Where no photographs are there: stripes that turn in ten years, static weights, K = 50 and 100, a small particle
    /// filter, one seed.
    pub fn demonstration(out: PathBuf) -> Self {
        let methods = vec![
            YearbookMethod::Static,
            YearbookMethod::ImplicitMap(50),
            YearbookMethod::ImplicitMap(100),
            YearbookMethod::Particle(0.01),
        ];
        let years = (1931, 1940);
        Self { seeds: 1, years, particles: 200, methods, hurried: true, ..Self::short(out) }
    }

    /// About how long a run takes on so many cores: by its optimizer steps.
    pub fn estimate(&self, cores: usize) -> Duration {
        let chains = |m: &YearbookMethod| if m.shared() { 1 } else { self.protocols.len() };
        let years = f64::from(self.years.1 - self.years.0 + 1);
        let work = |m: &YearbookMethod| m.work(self.particles) * years * chains(m) as f64;
        let steps = self.methods.iter().map(work).sum::<f64>() * self.seeds as f64;
        STEP.mul_f64(steps / cores.max(1) as f64)
    }

    /// The short run: K = 50 and 100, direct fit, static weights, variational and particle filter at sigma^2 = 0.01,
    /// 3 seeds, published protocol.
    pub fn short(out: PathBuf) -> Self {
        Self {
            data: None,
            hurried: false,
            seeds: 3,
            methods: vec![
                YearbookMethod::Static,
                YearbookMethod::ImplicitMap(50),
                YearbookMethod::ImplicitMap(100),
                YearbookMethod::DirectFit,
                YearbookMethod::Variational(0.01),
                YearbookMethod::Particle(0.01),
            ],
            protocols: vec![Protocol::Published],
            device: Device::Cpu,
            out,
            particles: 1000,
            years: (1931, 2010),
            stop: Arc::default(),
        }
    }

    /// Windows of past years, which the paper does not have, beside the paper's filter, direct fit and static weights; 10 seeds.
    pub fn beyond(out: PathBuf) -> Self {
        Self { seeds: 10, methods: super::beyond::methods(), ..Self::short(out) }
    }

    /// Everything: all K, all sigma^2, 10 seeds, both protocols.
    pub fn full(out: PathBuf) -> Self {
        let sigma2 = [0.1, 0.05, 0.01, 0.005, 0.001];
        let mut methods = vec![YearbookMethod::Static];
        methods.extend([1, 10, 25, 50, 100].map(YearbookMethod::ImplicitMap));
        methods.push(YearbookMethod::DirectFit);
        methods.extend(sigma2.map(YearbookMethod::Variational));
        methods.extend(sigma2.map(YearbookMethod::Particle));
        let protocols = vec![Protocol::Published, Protocol::Specified];
        Self { seeds: 10, methods, protocols, ..Self::short(out) }
    }
}

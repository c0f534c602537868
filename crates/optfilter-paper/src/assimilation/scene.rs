//! Twin experiments on Lorenz '96: a truth, and what was measured of it.

use nalgebra::Dyn;
use optfilter::model::{Dynamics, Integrated, JacobianMut, Jvp, Lorenz96, Observation, Step, Vjp};
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;
use optfilter_table::npz::{NpzError, read_npy};
use std::path::{Path, PathBuf};

/// Time between measurements.
pub const DT: f64 = 0.05;
/// The forcing at which the system is chaotic.
const FORCING: f64 = 8.0;
/// Steps that a start from the fixed point needs to reach the attractor.
const SPIN_UP: u64 = 1000;

/// Lorenz '96 by Runge-Kutta steps, of which every `stride`-th state is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circle {
    dynamics: Integrated<Lorenz96<Dyn>>,
    states: usize,
    stride: usize,
}

impl Circle {
    /// On `states` points.
    pub fn new(states: usize, stride: usize) -> Self {
        Self { dynamics: Lorenz96::new(Dyn(states), FORCING).rk4(), states, stride: stride.max(1) }
    }
}

impl Dynamics for Circle {
    type State = Dyn;
    fn state_dim(&self) -> Dyn {
        Dyn(self.states)
    }
    #[inline(always)]
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.dynamics.transition(x, u, step, out);
    }
    #[inline(always)]
    fn transition_vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        Some(|circle, x, u, step, r, out| {
            if let Some(vjp) = circle.dynamics.transition_vjp() {
                vjp(&circle.dynamics, x, u, step, r, out);
            }
        })
    }
    optfilter::trails_of!(dynamics);
    fn transition_jvp(&self) -> Option<Jvp<Self>> {
        Some(|circle, x, u, step, v, out| {
            if let Some(jvp) = circle.dynamics.transition_jvp() {
                jvp(&circle.dynamics, x, u, step, v, out);
            }
        })
    }
}

impl Observation for Circle {
    type Output = Dyn;
    fn output_dim(&self) -> Dyn {
        Dyn(self.states.div_ceil(self.stride))
    }
    #[inline(always)]
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        for (out, x) in out.iter_mut().zip(x.iter().step_by(self.stride)) {
            *out = *x;
        }
    }
    fn observation_jacobian(
        &self,
        _x: &[f64],
        _u: &[f64],
        _step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        for i in 0..self.output_dim().0 {
            out[(i, i * self.stride)] = 1.0;
        }
        true
    }
    #[inline(always)]
    fn vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        Some(|circle, _, _, _, r, out| {
            out.fill(S::ZERO);
            for (out, r) in out.iter_mut().step_by(circle.stride).zip(r) {
                *out = *r;
            }
        })
    }
    fn jvp(&self) -> Option<Jvp<Self>> {
        Some(|circle, _, u, step, v, out| circle.observe(v, u, step, out))
    }
}

/// A truth, its measurements, and what is known one step before the first.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Where it comes from.
    pub name: String,
    /// The model that made it, which the filters have too.
    pub model: Circle,
    /// The variance of a measurement's noise; only ensemble filters are told.
    pub variance: f64,
    /// cycles x states
    pub truth: Vec<f64>,
    /// cycles x measurements
    pub observations: Vec<f64>,
    /// The first guess.
    pub start: Vec<f64>,
}

/// Arrays that are not a twin experiment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArraysError {
    /// An array cannot be read.
    #[error(transparent)]
    Npy(#[from] NpzError),
    /// Arrays that do not belong together.
    #[error("{folder}: {reason}")]
    Shape {
        /// The folder.
        folder: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// A folder without any.
    #[error(
        "{0} has no folder with truth.npy and observations.npy; bench/dapper/export.py makes them"
    )]
    None(PathBuf),
}

impl Scene {
    /// One of our own: on the attractor, every `stride`-th of `states` measured with that variance.
    pub fn simulated(
        states: usize,
        stride: usize,
        variance: f64,
        cycles: usize,
        seed: u64,
    ) -> Self {
        let model = Circle::new(states, stride);
        let mut stream = Stream::new(seed, 0, "lorenz 96");
        let mut x: Vec<f64> = (0..states).map(|_| FORCING + 0.1 * stream.normal()).collect();
        let mut next = x.clone();
        let mut advance = |x: &mut Vec<f64>, k: u64| {
            model.transition(x, &[], &Step::even(k, DT), &mut next);
            x.copy_from_slice(&next);
        };
        for k in 1..=SPIN_UP {
            advance(&mut x, k);
        }
        let start = x.iter().map(|x| x + stream.normal()).collect();
        let (mut truth, mut observations) = (Vec::new(), Vec::new());
        let deviation = variance.sqrt();
        for k in 1..=cycles as u64 {
            advance(&mut x, k);
            truth.extend_from_slice(&x);
            let seen = x.iter().step_by(stride.max(1));
            observations.extend(seen.map(|x| x + deviation * stream.normal()));
        }
        let name = format!("own simulation, D = {states}");
        Self { name, model, variance, truth, observations, start }
    }

    /// As `bench/dapper/export.py` leaves them: truth, observations, their variance and an initial ensemble.
    pub fn read(folder: &Path) -> Result<Self, ArraysError> {
        let wrong = |reason: &str| ArraysError::Shape {
            folder: folder.to_path_buf(),
            reason: reason.to_owned(),
        };
        let matrix = |name: &str| -> Result<(usize, Vec<f64>), ArraysError> {
            let array = read_npy(&folder.join(name))?;
            match array.shape[..] {
                [_, columns] if columns > 0 => Ok((columns, array.doubles())),
                _ => Err(wrong(&format!("{name} is not a matrix"))),
            }
        };
        let (states, truth) = matrix("truth.npy")?;
        let (outputs, observations) = matrix("observations.npy")?;
        let (members, ensemble) = matrix("ensemble.npy")?;
        let variance = read_npy(&folder.join("variance.npy"))?.doubles();
        if members != states || truth.len() / states != observations.len() / outputs {
            return Err(wrong("truth, observations and ensemble do not fit together"));
        }
        if !states.is_multiple_of(outputs) {
            return Err(wrong("only every k-th state being measured is understood"));
        }
        let count = (ensemble.len() / states) as f64;
        let mean = |i: usize| ensemble.iter().skip(i).step_by(states).sum::<f64>() / count;
        Ok(Self {
            name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            model: Circle::new(states, states / outputs),
            variance: variance.first().copied().ok_or_else(|| wrong("variance.npy is empty"))?,
            start: (0..states).map(mean).collect(),
            truth,
            observations,
        })
    }

    /// Every scene in the folders of `folder`, by name.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, ArraysError> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> =
            entries.map(|e| e.path()).filter(|p| p.join("truth.npy").is_file()).collect();
        folders.sort();
        if folders.is_empty() {
            return Err(ArraysError::None(folder.to_path_buf()));
        }
        folders.iter().map(|folder| Self::read(folder)).collect()
    }

    /// The name without the seed behind its last hyphen.
    pub fn setting(&self) -> &str {
        self.name.rsplit_once('-').map_or(&self.name, |(setting, _)| setting)
    }

    /// Measurements in time.
    pub fn cycles(&self) -> usize {
        self.truth.len() / self.start.len()
    }
}

//! A model of any type, and what filters ask of it besides its equations.

use nalgebra::{DMatrix, Dyn};
use optfilter::model::{
    Dynamics, Erased, Growth, Integrated, Linear, Lorenz63, Lorenz96, Model, RandomWalk,
};
use std::ops::Deref;
use std::sync::Arc;

/// What dynamics make of the length of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeDependence {
    /// They read it.
    Time,
    /// They leave the state where it is, so that only the noise could.
    Still,
    /// Every row is one step.
    Rows,
}

/// A model that a filter chosen at run time can run on.
pub trait RunModel: Model + Send + Sync + 'static {
    /// Whether transition and observation are known to be linear in the state.
    fn is_linear(&self) -> bool {
        false
    }

    /// The same model with logarithms of rates and log-odds for its measurements, where it has been given such links, and
    /// which those are. Its likelihood keeps its precision where rates and probabilities have lost theirs.
    fn canonical(&self) -> Option<(Self, Vec<bool>)> {
        None
    }

    /// Whether its equations run somebody else's code, which must stay on the calling thread.
    fn is_foreign(&self) -> bool {
        false
    }

    /// What the dynamics make of the length of a step; unless they say otherwise, what is right.
    fn pace(&self) -> TimeDependence {
        TimeDependence::Time
    }

    /// The matrix A of dynamics dx = A x dt that are exact over every step, if they are such.
    fn drift(&self) -> Option<DMatrix<f64>> {
        None
    }
}

/// A model without its type: every filter is compiled once, for this one.
#[derive(Clone, Debug)]
pub struct AnyModel {
    equations: Erased,
    about: Arc<About>,
}

/// What a model says of itself.
#[derive(Debug)]
struct About {
    is_linear: bool,
    is_foreign: bool,
    pace: TimeDependence,
    drift: Option<DMatrix<f64>>,
    canonical: Option<(AnyModel, Vec<bool>)>,
}

impl AnyModel {
    /// The equations, which are a [`Model`] of the library; so is this, through them.
    pub fn equations(&self) -> &Erased {
        &self.equations
    }

    /// Whether transition and observation are known to be linear in the state.
    pub fn is_linear(&self) -> bool {
        self.about.is_linear
    }

    /// Whether its equations run somebody else's code, which must stay on the calling thread.
    pub fn is_foreign(&self) -> bool {
        self.about.is_foreign
    }

    /// What the dynamics make of the length of a step.
    pub fn pace(&self) -> TimeDependence {
        self.about.pace
    }

    /// The matrix A of dynamics dx = A x dt that are exact over every step, if they are such.
    pub fn drift(&self) -> Option<&DMatrix<f64>> {
        self.about.drift.as_ref()
    }

    /// The model with logarithms of rates and log-odds for its measurements, where it has been given such links, and which those are.
    pub fn canonical(&self) -> Option<&(AnyModel, Vec<bool>)> {
        self.about.canonical.as_ref()
    }
}

impl<T: RunModel> From<T> for AnyModel {
    fn from(model: T) -> Self {
        let about = About {
            is_linear: model.is_linear(),
            is_foreign: model.is_foreign(),
            pace: model.pace(),
            drift: model.drift(),
            canonical: model.canonical().map(|(model, linked)| (Self::from(model), linked)),
        };
        Self { equations: Erased::new(model), about: Arc::new(about) }
    }
}

impl Deref for AnyModel {
    type Target = Erased;
    fn deref(&self) -> &Erased {
        &self.equations
    }
}

impl RunModel for Growth {
    fn pace(&self) -> TimeDependence {
        TimeDependence::Rows
    }
}

impl RunModel for Integrated<Lorenz63> {}

impl RunModel for Integrated<Lorenz96<Dyn>> {}

impl RunModel for RandomWalk<Dyn> {
    fn is_linear(&self) -> bool {
        true
    }
    fn pace(&self) -> TimeDependence {
        TimeDependence::Still
    }
}

impl RunModel for Linear<Dyn, Dyn> {
    fn is_linear(&self) -> bool {
        true
    }
    fn pace(&self) -> TimeDependence {
        let still = self.input_dim() == 0 && self.f().is_identity(0.0);
        match self.drift() {
            Some(_) => TimeDependence::Time,
            None if still => TimeDependence::Still,
            None => TimeDependence::Rows,
        }
    }
    fn drift(&self) -> Option<DMatrix<f64>> {
        self.drift().cloned()
    }
}

//! Dynamics that are solved exactly.

use super::family::Family;
use super::setting::Setting;
use crate::model::discretize::{Discretized, discretize};
use crate::scalar::Scalar;
use alloc::vec;
use nalgebra::{DMatrix, Dyn};

/// The dynamics of an exact solution, ready-made for the length of the step before.
pub(super) struct Flow<S: Scalar> {
    /// A, if the dynamics are solved exactly.
    a: Option<DMatrix<S>>,
    ready: Option<(f64, Discretized<S, Dyn>)>,
}

impl<S: Scalar> Flow<S> {
    pub(super) fn new<F: Family>(family: &F, setting: &Setting<S>) -> Self {
        Self { a: family.is_exact().then(|| drift(family, setting)), ready: None }
    }

    pub(super) fn over(&mut self, setting: &Setting<S>, dt: f64) -> Option<&Discretized<S, Dyn>> {
        let a = self.a.as_ref()?;
        if self.ready.as_ref().is_none_or(|(ready, _)| *ready != dt) {
            let density = setting.per_time.then_some(&setting.process_cov);
            self.ready = Some((dt, discretize(a, density, dt)));
        }
        self.ready.as_ref().map(|(_, made)| made)
    }
}

/// A of dx = (A x + b) dt.
fn drift<S: Scalar, F: Family>(family: &F, setting: &Setting<S>) -> DMatrix<S> {
    let (n, _) = family.dims();
    let (zero, mut offset) = (vec![S::ZERO; n], vec![S::ZERO; n]);
    let u = vec![0.0; family.input_dim()]; // inputs do not enter A
    family.rate(&setting.theta, &zero, &u, &mut offset);
    let mut a = DMatrix::from_element(n, n, S::ZERO);
    let mut rate = vec![S::ZERO; n];
    for j in 0..n {
        let mut unit = zero.clone();
        unit[j] = S::ONE;
        family.rate(&setting.theta, &unit, &u, &mut rate);
        for i in 0..n {
            a[(i, j)] = rate[i] - offset[i];
        }
    }
    a
}

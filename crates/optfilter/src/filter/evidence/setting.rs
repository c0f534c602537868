//! What a likelihood depends on besides the equations: noise, start, filter and rows.

use crate::filter::sigma_points::SigmaPoints;
use crate::model::Step;
use crate::scalar::Scalar;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::{DMatrix, DVector};

/// All that a likelihood depends on besides the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting<S: Scalar> {
    /// The parameters of the equations.
    pub theta: Vec<S>,
    /// Mean of the state before the first row.
    pub mean: DVector<S>,
    /// Its covariance (n x n); what it says of a diffuse state is not read.
    pub cov: DMatrix<S>,
    /// States of which nothing is known before the first row. Only linear models may have any.
    pub diffuse: Vec<bool>,
    /// Q per step, or per unit of time (n x n).
    pub process_cov: DMatrix<S>,
    /// Whether Q is per unit of time.
    pub per_time: bool,
    /// R (m x m).
    pub measurement_cov: DMatrix<S>,
}

impl<S: Scalar> Setting<S> {
    /// Unit covariances of `n` states and `m` measurements around a mean of zero.
    pub fn new(n: usize, m: usize) -> Self {
        let unit = |n| DMatrix::from_fn(n, n, |i, j| if i == j { S::ONE } else { S::ZERO });
        Self {
            theta: Vec::new(),
            mean: DVector::from_element(n, S::ZERO),
            cov: unit(n),
            diffuse: vec![false; n],
            process_cov: unit(n),
            per_time: false,
            measurement_cov: unit(m),
        }
    }
}

/// Which Gaussian filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Approximation {
    /// The extended filter with so many linearisations per update; one is exact for linear models.
    Linearized {
        /// Linearisations.
        iterations: u32,
    },
    /// The unscented filter.
    Unscented(SigmaPoints),
}

/// A row of a series.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Measurements; NaN where missing.
    pub y: &'a [f64],
    /// Inputs.
    pub u: &'a [f64],
    /// The step that leads to it.
    pub step: Step,
    /// Whether the belief is carried through that step first.
    pub predict: bool,
}

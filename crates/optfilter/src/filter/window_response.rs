//! How K steps down the loss of a window answer to a small push of the gradient: what its error bars are made from.
//!
//! For an optimizer the steps are differentiated, a few directions at a time. For conjugate gradients it is the polynomial of
//! the curvature that their iterations have applied, taken as fixed: run to their end it is the inverse, and exact.

use super::window::{Descent, Window, WindowBelief};
use crate::Shapes;
use crate::model::Model;
use crate::model::likelihood::Likelihood;
use crate::optim::{ConjugateGradients, Objective, Optimizer, descend_within};
use crate::scalar::Dual;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::{DMatrix, DefaultAllocator};

/// Directions carried by one differentiated descent.
const WIDTH: usize = 4;

/// A way down a window's loss that says how it answers to a push of the gradient.
pub trait Responsive: Descent {
    /// D: minus the derivative, by a constant added to every gradient, of where `steps` steps from the window's first
    /// state (and increments) end.
    fn response<M: Model, L: Likelihood>(
        window: &Window<M, L, Self>,
        belief: &WindowBelief<M::State, Self::Memory>,
    ) -> DMatrix<f64>
    where
        DefaultAllocator: Shapes<M::State, M::Output>;
}

/// A loss whose gradient is pushed along the directions `first ..`.
struct Pushed<F> {
    loss: F,
    first: usize,
}

impl<F: Objective<Dual<f64, WIDTH>>> Objective<Dual<f64, WIDTH>> for Pushed<F> {
    fn value(&mut self, x: &[Dual<f64, WIDTH>]) -> Dual<f64, WIDTH> {
        self.loss.value(x)
    }
    fn gradient(&mut self, x: &[Dual<f64, WIDTH>], out: &mut [Dual<f64, WIDTH>]) {
        self.loss.gradient(x, out);
        for d in 0..WIDTH.min(out.len() - self.first) {
            out[self.first + d].eps[d] += 1.0;
        }
    }
}

impl<O: Optimizer<f64> + Optimizer<Dual<f64, WIDTH>>> Responsive for O {
    fn response<M: Model, L: Likelihood>(
        window: &Window<M, L, Self>,
        belief: &WindowBelief<M::State, Self::Memory>,
    ) -> DMatrix<f64>
    where
        DefaultAllocator: Shapes<M::State, M::Output>,
    {
        let n = belief.start.len();
        let mut out = DMatrix::zeros(n, n);
        for first in (0..n).step_by(WIDTH) {
            let mut x: Vec<Dual<f64, WIDTH>> =
                belief.start.iter().map(|&v| Dual::constant(v)).collect();
            let loss = window.loss_over(&belief.rows);
            let mut state = Optimizer::<Dual<f64, WIDTH>>::init(&window.rule, &x);
            let (rule, steps) = (&window.rule, window.steps);
            descend_within(
                rule,
                &mut Pushed { loss, first },
                &mut x,
                &mut state,
                steps,
                window.bounds.as_ref(),
            );
            for d in 0..WIDTH.min(n - first) {
                for i in 0..n {
                    out[(i, first + d)] = -x[i].eps[d];
                }
            }
        }
        out
    }
}

impl Responsive for ConjugateGradients {
    fn response<M: Model, L: Likelihood>(
        window: &Window<M, L, Self>,
        belief: &WindowBelief<M::State, ()>,
    ) -> DMatrix<f64>
    where
        DefaultAllocator: Shapes<M::State, M::Output>,
    {
        let n = belief.start.len();
        let mut gradient = vec![0.0; n];
        let mut loss = window.loss(&belief.rows);
        loss.gradient(&belief.start, &mut gradient);
        let scales = window.rule.scales(n, |out| loss.probe(out));
        let curve = |v: &[f64], out: &mut [f64]| loss.curve(v, out);
        let (step, numbers) = window.rule.record(&gradient, window.steps, scales.as_deref(), curve);
        // The iterations as they went, on the identity in place of the gradient, and with the curvature of where they went: that
        // of any other place has other eigenvalues, at which a polynomial of many iterations is anything.
        let (mut curvature, mut unit) = (DMatrix::zeros(n, n), vec![0.0; n]);
        for i in 0..n {
            unit[i] = 1.0;
            loss.curve(&unit, curvature.column_mut(i).as_mut_slice());
            unit[i] = 0.0;
        }
        let (mut out, mut r) = (DMatrix::zeros(n, n), DMatrix::identity(n, n));
        let scaled = |r: &DMatrix<f64>| {
            let mut z: DMatrix<f64> = r.clone();
            for (i, scale) in scales.iter().flatten().enumerate() {
                z.row_mut(i).unscale_mut(*scale);
            }
            z
        };
        let mut p = scaled(&r);
        for (far, kept) in numbers {
            out += far * &p;
            r -= far * (&curvature * &p);
            p = scaled(&r) + kept * p;
        }
        if loss.is_guessed() {
            let bounds = window.bounds.as_ref();
            out *= window.rule.share(&mut loss, &belief.start, (&gradient, &step), bounds);
        }
        out
    }
}

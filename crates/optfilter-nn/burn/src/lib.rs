//! Any burn module as an objective of the library.
//!
//! The module's float parameters, in the order in which burn visits them, are the flat weight vector; burn's own
//! differentiation gives the gradient. So every optimizer and every K of the library moves a network that optfilter-nn's
//! layers cannot express. For the networks they can express, `optfilter_nn::Evaluator` is about ten times faster.
//!
//! ```
//! use burn::nn::{Linear, LinearConfig};
//! use burn::tensor::{Device, Tensor};
//! use optfilter::optim::{Adam, Optimizer, descend};
//! use optfilter_nn_burn::BurnObjective;
//! let device = Device::default().autodiff();
//! let x = Tensor::<2>::from_data([[0.0f32], [1.0], [2.0]], &device);
//! let y = Tensor::<2>::from_data([[1.0f32], [3.0], [5.0]], &device);
//! let loss = move |line: &Linear| (line.forward(x.clone()) - y.clone()).square().sum();
//! let mut objective = BurnObjective::new(LinearConfig::new(1, 1).init(&device), loss);
//! let mut weights = objective.weights()?;
//! let adam = Adam::new(0.1)?;
//! let mut state = adam.init(&weights);
//! descend(&adam, &mut objective, &mut weights, &mut state, 500);
//! assert!((weights[0] - 2.0).abs() < 1e-2 && (weights[1] - 1.0).abs() < 1e-2); // slope, offset
//! let line = objective.into_module(&weights);
//! # let _ = line;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor, TensorData};
use optfilter::optim::Objective;

/// A parameter whose numbers cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a parameter of the module cannot be read as single-precision numbers: {0}")]
pub struct BurnError(
    /// What burn says.
    pub String,
);

/// A module and a loss of it, as a function of the module's flat weights.
///
/// The module must lie on a device with `autodiff()`; `loss` returns one number.
#[derive(Clone, Debug)]
pub struct BurnObjective<M, F> {
    module: M,
    loss: F,
}

impl<M: Module, F: Fn(&M) -> Tensor<1>> BurnObjective<M, F> {
    /// With the module's weights as they are.
    pub fn new(module: M, loss: F) -> Self {
        Self { module, loss }
    }

    /// The module's float parameters one after the other.
    pub fn weights(&self) -> Result<Vec<f32>, BurnError> {
        let mut read = Read { flat: Vec::new(), failed: None };
        self.module.visit(&mut read);
        match read.failed {
            Some(reason) => Err(BurnError(reason)),
            None => Ok(read.flat),
        }
    }

    /// The module with these weights.
    pub fn into_module(self, weights: &[f32]) -> M {
        self.module.map(&mut Write { flat: weights, at: 0 })
    }

    fn at(&self, weights: &[f32]) -> M {
        self.module.clone().map(&mut Write { flat: weights, at: 0 })
    }
}

impl<M: Module, F: Fn(&M) -> Tensor<1>> Objective<f32> for BurnObjective<M, F> {
    /// NaN where the loss is not one single-precision number.
    fn value(&mut self, x: &[f32]) -> f32 {
        let loss = (self.loss)(&self.at(x)).into_data();
        loss.try_to_vec::<f32>().ok().and_then(|v| v.first().copied()).unwrap_or(f32::NAN)
    }

    /// Zero for a parameter the loss does not depend on; NaN for one whose derivative cannot be read.
    fn gradient(&mut self, x: &[f32], out: &mut [f32]) {
        let module = self.at(x);
        let gradients = (self.loss)(&module).backward();
        module.visit(&mut Derivatives { gradients: &gradients, out, at: 0 });
    }
}

struct Read {
    flat: Vec<f32>,
    failed: Option<String>,
}

impl ModuleVisitor for Read {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        match param.val().into_data().try_to_vec::<f32>() {
            Ok(values) => self.flat.extend(values),
            Err(e) => self.failed = Some(format!("{e:?}")),
        }
    }
}

struct Write<'a> {
    flat: &'a [f32],
    at: usize,
}

impl ModuleMapper for Write<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|old| {
            let shape = old.shape();
            let n = shape.num_elements();
            let values = self.flat.get(self.at..self.at + n).map(<[f32]>::to_vec);
            self.at += n;
            match values {
                Some(values) => {
                    Tensor::from_data(TensorData::new(values, shape), &old.device()).require_grad()
                }
                None => old, // fewer weights than the module has: the rest stays
            }
        })
    }
}

struct Derivatives<'a> {
    gradients: &'a Gradients,
    out: &'a mut [f32],
    at: usize,
}

impl ModuleVisitor for Derivatives<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        let n = tensor.shape().num_elements();
        let values = match tensor.grad(self.gradients) {
            None => vec![0.0; n],
            Some(g) => g.into_data().try_to_vec::<f32>().unwrap_or_else(|_| vec![f32::NAN; n]),
        };
        if let Some(out) = self.out.get_mut(self.at..self.at + n) {
            out.copy_from_slice(&values);
        }
        self.at += n;
    }
}

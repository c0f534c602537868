//! Losses of one sample and their derivative by the network's output.
//!
//! With the output `z`: binary cross-entropy `log(1 + e^z) - y z` for one output and classes 0 and 1; softmax
//! cross-entropy `log sum_j e^{z_j} - z_y`; squared error `sum_j (z_j - y_j)^2 / 2`. A batch sums them or takes their mean.

use super::Real;

/// What is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// One output, the log-odds of class 1.
    BinaryCrossEntropy,
    /// One output per class.
    SoftmaxCrossEntropy,
    /// Half the squared distance to the target.
    SquaredError,
}

/// How a batch's losses become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
}

/// The labels of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Targets<'a, E> {
    /// One class per sample.
    Classes(&'a [u32]),
    /// As many values per sample as the network has outputs.
    Values(&'a [E]),
}

impl<E> Targets<'_, E> {
    /// Samples, for a network with `outputs` outputs.
    pub fn len(&self, outputs: usize) -> usize {
        match self {
            Self::Classes(c) => c.len(),
            Self::Values(v) => v.len() / outputs.max(1),
        }
    }
}

impl Loss {
    /// The loss of sample `n` at the outputs `z`; its derivative goes to `dz`. Whether labels fit the loss was checked
    /// when the batch was made; a label that does not fit gives NaN here, never a panic.
    pub fn sample<E: Real>(self, z: &[E], targets: Targets<'_, E>, n: usize, dz: &mut [E]) -> E {
        self.at(z, targets, n, dz, true)
    }

    /// Its derivative alone, without the logarithm that nobody asks for.
    pub fn slope<E: Real>(self, z: &[E], targets: Targets<'_, E>, n: usize, dz: &mut [E]) {
        self.at(z, targets, n, dz, false);
    }

    /// The loss, if it is asked for, and its derivative.
    #[inline(always)]
    fn at<E: Real>(
        self,
        z: &[E],
        targets: Targets<'_, E>,
        n: usize,
        dz: &mut [E],
        value: bool,
    ) -> E {
        match (self, targets) {
            (Self::BinaryCrossEntropy, Targets::Classes(y)) => {
                let y = if y[n] == 0 { E::zero() } else { E::one() };
                let z0 = z[0];
                // e^-|z| never overflows: softplus(z) = max(z, 0) + log(1 + e^-|z|).
                let small = (-z0.abs()).exp();
                let sigmoid = if z0 >= E::zero() {
                    E::one() / (E::one() + small)
                } else {
                    small / (E::one() + small)
                };
                dz[0] = sigmoid - y;
                if !value {
                    return E::zero();
                }
                z0.max(E::zero()) + small.ln_1p() - y * z0
            }
            (Self::SoftmaxCrossEntropy, Targets::Classes(y)) if (y[n] as usize) < z.len() => {
                let top = z.iter().copied().fold(E::neg_infinity(), E::max);
                let mut sum = E::zero();
                for (d, &v) in dz.iter_mut().zip(z) {
                    *d = (v - top).exp();
                    sum += *d;
                }
                for d in dz.iter_mut().take(z.len()) {
                    *d = *d / sum;
                }
                let y = y[n] as usize;
                dz[y] = dz[y] - E::one();
                if !value {
                    return E::zero();
                }
                sum.ln() + top - z[y]
            }
            (Self::SquaredError, Targets::Values(y)) => {
                let mut sum = E::zero();
                for ((d, &v), &y) in dz.iter_mut().zip(z).zip(&y[n * z.len()..]) {
                    *d = v - y;
                    sum += *d * *d;
                }
                sum * E::of(0.5)
            }
            _ => {
                dz.fill(E::nan());
                E::nan()
            }
        }
    }
}

//! Random measurements under every likelihood.
//!
//! | likelihood | given eta = h(x), the measurement is |
//! |---|---|
//! | Gaussian | eta + L z with L L' = R |
//! | Student's t | eta + scale z / sqrt(c / dof), c chi-square with dof degrees of freedom |
//! | Huber | eta + scale w, w of the density whose negative logarithm is Huber's loss |
//! | Poisson | a count with rate eta, or exp(eta); 0 where the rate is negative |
//! | Bernoulli | 1 with probability eta, or 1 / (1 + exp(-eta)) |
//!
//! References: Marsaglia and Tsang 2000 (gamma); Ahrens and Dieter 1974 (Poisson); Huber 1964.

use super::any::AnyLikelihood;
use super::component::Component;
use crate::linalg::psd_factor;
use crate::rng::Stream;
use crate::scalar::Scalar;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// Rates above this are not counts that anybody measured, but a model that ran away.
const LARGEST_RATE: f64 = 1e9;

/// How measurements scatter about h(x), ready to draw from.
#[derive(Clone, Debug)]
pub enum Scatter<'a, M: Dim>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// Together, by a factor of their covariance.
    Together(OMatrix<f64, M, M>),
    /// Each as a normal of its own standard deviation.
    Each(OVector<f64, M>),
    /// Each by a law of its own.
    Apart(&'a [Component]),
}

impl<'a, M: Dim> Scatter<'a, M>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// Of a likelihood of `m` components; `None` if its covariance has no factor, or if nobody knows how to draw from it.
    pub fn new(likelihood: &'a AnyLikelihood<M>, m: M) -> Option<Self> {
        Some(match likelihood {
            AnyLikelihood::SquaredError(_) => Self::Each(OVector::repeat_generic(m, U1, 1.0)),
            AnyLikelihood::Gaussian(gaussian) => match gaussian.own_variances() {
                Some(variances) => Self::Each(variances.map(Scalar::sqrt)),
                None => Self::Together(psd_factor(&gaussian.cov())?),
            },
            AnyLikelihood::Independent(independent) => Self::Apart(independent.components()),
            AnyLikelihood::Foreign(_) => return None,
        })
    }

    /// Turns eta = h(x) into a measurement; an error names a component that nothing can be drawn from.
    pub fn draw(&self, y: &mut OVector<f64, M>, stream: &mut Stream) -> Result<(), usize> {
        match self {
            Self::Together(factor) => {
                let mut z = OVector::<f64, M>::zeros_generic(y.shape_generic().0, U1);
                stream.fill_normal(z.as_mut_slice());
                *y = &*y + factor * z;
            }
            // All at once: as many normals as a matrix would take, in the same order.
            Self::Each(deviations) => {
                let mut z = OVector::<f64, M>::zeros_generic(y.shape_generic().0, U1);
                stream.fill_normal(z.as_mut_slice());
                for i in 0..y.nrows() {
                    y[i] += deviations[i] * z[i];
                }
            }
            Self::Apart(components) => {
                for (i, component) in components.iter().enumerate() {
                    y[i] = component.draw(y[i], stream).ok_or(i)?;
                }
            }
        }
        Ok(())
    }
}

impl Component {
    /// A measurement at eta, or `None` if nothing can be drawn there.
    pub fn draw(&self, eta: f64, stream: &mut Stream) -> Option<f64> {
        Some(match self {
            Self::Normal(l) => eta + l.std * stream.normal(),
            Self::StudentT(l) => {
                // A normal over the root of a chi-square over its degrees of freedom.
                let chi_square = 2.0 * gamma(0.5 * l.dof, stream);
                eta + l.scale * stream.normal() / Scalar::sqrt(chi_square / l.dof)
            }
            Self::Huber(l) => eta + l.scale * huber(l.delta, stream),
            Self::Poisson(_) => {
                let rate = self.expected(eta);
                if rate.is_nan() || rate > LARGEST_RATE {
                    return None;
                }
                poisson(Scalar::max(rate, 0.0), stream)
            }
            Self::Bernoulli(_) => {
                let p = self.expected(eta);
                if p.is_nan() {
                    return None;
                }
                f64::from(u8::from(stream.uniform() < p))
            }
        })
    }
}

/// Gamma with this shape and unit scale.
fn gamma(shape: f64, stream: &mut Stream) -> f64 {
    if shape < 1.0 {
        return gamma(shape + 1.0, stream) * Scalar::powf(stream.uniform(), 1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / Scalar::sqrt(9.0 * d);
    loop {
        let z = stream.normal();
        let v = Scalar::powi(1.0 + c * z, 3);
        if v > 0.0 && Scalar::ln(stream.uniform()) < 0.5 * z * z + d - d * v + d * Scalar::ln(v) {
            return d * v;
        }
    }
}

/// From the density proportional to exp(-Huber's loss): the middle of a normal, with exponential tails.
///
/// Proposals come from the whole normal, of mass sqrt(2 pi), or from the tails, of mass 2 exp(-delta^2 / 2) / delta;
/// a normal beyond the middle is rejected. More than two thirds are accepted, whatever delta is.
fn huber(delta: f64, stream: &mut Stream) -> f64 {
    let tails = 2.0 * Scalar::exp(-0.5 * delta * delta) / delta;
    let share = tails / (tails + Scalar::sqrt(core::f64::consts::TAU));
    loop {
        if stream.uniform() < share {
            let size = delta - Scalar::ln(stream.uniform()) / delta;
            return if stream.uniform() < 0.5 { -size } else { size };
        }
        let z = stream.normal();
        if z.abs() <= delta {
            return z;
        }
    }
}

/// A Poisson count: products of uniforms for small rates; large ones are shortened by waiting times.
fn poisson(mut rate: f64, stream: &mut Stream) -> f64 {
    let mut count = 0.0;
    while rate > 30.0 {
        let order = Scalar::floor(0.875 * rate);
        let waited = gamma(order, stream);
        if waited > rate {
            // `order` arrivals took longer than `rate`: the others are binomial among order - 1.
            let p = rate / waited;
            return count + (1..order as u64).filter(|_| stream.uniform() < p).count() as f64;
        }
        count += order;
        rate -= waited;
    }
    let limit = Scalar::exp(-rate);
    let mut product = stream.uniform();
    while product > limit {
        product *= stream.uniform();
        count += 1.0;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_moments_of_their_laws() {
        let mut stream = Stream::new(1, 0, "test");
        let n = 200_000;
        let mut moments = |f: &mut dyn FnMut(&mut Stream) -> f64| {
            let values: alloc::vec::Vec<f64> = (0..n).map(|_| f(&mut stream)).collect();
            let mean = values.iter().sum::<f64>() / n as f64;
            let var = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n as f64;
            (mean, var)
        };
        for rate in [0.5, 7.0, 80.0, 900.0] {
            let (mean, var) = moments(&mut |s| poisson(rate, s));
            // Five standard errors of a mean, and of a variance (2 + 1/rate) rate^2 / n.
            assert!((mean - rate).abs() < 5.0 * (rate / n as f64).sqrt(), "{rate}: {mean}");
            let slack = 5.0 * ((2.0 + 1.0 / rate) * rate * rate / n as f64).sqrt();
            assert!((var - rate).abs() < slack, "{rate}: {var}");
        }
        let (mean, var) = moments(&mut |s| gamma(2.5, s));
        assert!((mean - 2.5).abs() < 0.02 && (var - 2.5).abs() < 0.08);
        // Student's t with 10 degrees of freedom has variance 10/8.
        let (mean, var) = moments(&mut |s| s.normal() / (2.0 * gamma(5.0, s) / 10.0).sqrt());
        assert!(mean.abs() < 0.015 && (var - 1.25).abs() < 0.04, "{mean} {var}");
        // Huber where much, a little and nothing lies beyond delta: variance by integration of its density.
        for delta in [0.3, 1.345, 12.0] {
            let density = |z: f64| {
                let a: f64 = z.abs();
                let loss = if a <= delta { 0.5 * a * a } else { delta * a - 0.5 * delta * delta };
                (-loss).exp()
            };
            let grid: alloc::vec::Vec<f64> =
                (-600_000..=600_000).map(|i| f64::from(i) * 1e-4).collect();
            let mass: f64 = grid.iter().map(|z| density(*z)).sum();
            let second: f64 = grid.iter().map(|z| z * z * density(*z)).sum();
            let (mean, var) = moments(&mut |s| huber(delta, s));
            let expected = second / mass;
            // Tails are at most exponential: a variance's standard error is below sqrt(5 / n) of it.
            let slack = 5.0 * (5.0 / n as f64).sqrt() * expected;
            assert!(mean.abs() < 5.0 * (expected / n as f64).sqrt(), "{delta}: {mean}");
            assert!((var - expected).abs() < slack, "{delta}: {var} {expected}");
        }
    }
}

//! The chi-square distribution, against which normalised innovations are judged.

use crate::scalar::Scalar;

/// Degrees of freedom beyond which the quantile is Wilson and Hilferty's (1931), which is right to about 1e-5 there.
const MANY: usize = 100;

/// The value below which a chi-square number of `dof` degrees of freedom lies with this probability.
///
/// ```
/// use optfilter::chi_square::quantile;
/// // scipy.stats.chi2.ppf(0.999, [1, 3])
/// assert!((quantile(0.999, 1) - 10.827566170662733).abs() < 1e-9);
/// assert!((quantile(0.999, 3) - 16.26623619623813).abs() < 1e-9);
/// ```
pub fn quantile(probability: f64, dof: usize) -> f64 {
    if dof == 0 || probability <= 0.0 {
        return 0.0;
    }
    if probability >= 1.0 {
        return f64::INFINITY;
    }
    if dof > MANY {
        let (d, upper) = (dof as f64, probability > 0.5);
        let z = Scalar::sqrt(quantile((2.0 * probability - 1.0).abs(), 1));
        let (c, z) = (2.0 / (9.0 * d), if upper { z } else { -z });
        let root = 1.0 - c + z * Scalar::sqrt(c);
        return d * root * root * root;
    }
    let (mut low, mut high) = (0.0, dof as f64 + 1.0);
    while distribution(high, dof) < probability && high < 1e4 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if distribution(middle, dof) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// The probability of less than `x`.
pub fn distribution(x: f64, dof: usize) -> f64 {
    if x <= 0.0 { 0.0 } else { gamma_p(0.5 * dof as f64, 0.5 * x) }
}

/// The chi-square quantile at the probability of the standard normal quantile `z`.
pub(crate) fn at_normal(dof: f64, z: f64) -> f64 {
    // Start: Wilson-Hilferty. Then Newton steps on the exact distribution function.
    let c = 2.0 / (9.0 * dof);
    let base = 1.0 - c + z * Scalar::sqrt(c);
    let mut x = (dof * base * base * base).max(1e-300);
    let target = 0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2);
    for _ in 0..30 {
        let density = Scalar::exp(
            (0.5 * dof - 1.0) * Scalar::ln(0.5 * x) - 0.5 * x - libm::lgamma(0.5 * dof),
        ) * 0.5;
        let step = (gamma_p(0.5 * dof, 0.5 * x) - target) / density;
        if !step.is_finite() {
            break;
        }
        x = (x - step).max(0.5 * x);
        if step.abs() < 1e-12 * x {
            break;
        }
    }
    x
}

/// The regularised lower incomplete gamma function P(a, x): its series below a + 1, its continued
/// fraction above (Lentz's method).
fn gamma_p(a: f64, x: f64) -> f64 {
    let front = Scalar::exp(a * Scalar::ln(x) - x - libm::lgamma(a));
    if x < a + 1.0 {
        let (mut term, mut sum, mut k) = (1.0 / a, 1.0 / a, a);
        while term.abs() > sum.abs() * 1e-17 {
            k += 1.0;
            term *= x / k;
            sum += term;
        }
        return sum * front;
    }
    let tiny = 1e-300;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / tiny, 1.0 / b);
    let mut h = d;
    for i in 1..1_000_000 {
        let an = -f64::from(i) * (f64::from(i) - a);
        b += 2.0;
        d = an * d + b;
        d = if d.abs() < tiny { tiny } else { d };
        c = b + an / c;
        c = if c.abs() < tiny { tiny } else { c };
        d = 1.0 / d;
        let delta = d * c;
        h *= delta;
        if (delta - 1.0).abs() < 1e-16 {
            break;
        }
    }
    1.0 - front * h
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_scipy() {
        // scipy.stats.chi2.ppf
        for (p, dof, expected) in [
            (0.5, 1, 0.454936423119572),
            (0.95, 1, 3.841458820694124),
            (0.99, 1, 6.6348966010212145),
            (0.95, 2, 5.991464547107983),
            (0.999, 10, 29.58829844507442),
            (0.025, 7, 1.689869180677355),
            (0.99, 100, 135.80672317102676),
            (1e-4, 3, 0.005214832329027977),
        ] {
            let found = quantile(p, dof);
            assert!((found - expected).abs() < 1e-9 * expected.max(0.01), "{p} {dof}: {found}");
        }
        // Beyond a hundred, close.
        let found = quantile(0.999, 400);
        assert!((found / 493.1317587399478 - 1.0).abs() < 1e-4, "{found}");
    }
}

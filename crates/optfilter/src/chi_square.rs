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

/// The probability of less than `x`: the regularised incomplete gamma function P(dof / 2, x / 2).
pub fn distribution(x: f64, dof: usize) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let (a, x) = (0.5 * dof as f64, 0.5 * x);
    let scale = Scalar::exp(a * Scalar::ln(x) - x - ln_gamma_of_half(dof));
    if x < a + 1.0 {
        // x^a e^-x / Gamma(a) (1/a + x/(a (a + 1)) + ...)
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        for _ in 0..10_000 {
            n += 1.0;
            term *= x / n;
            sum += term;
            if term < 1e-17 * sum {
                break;
            }
        }
        return scale * sum;
    }
    // The continued fraction of the rest, by Lentz's method.
    let tiny = 1e-300;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / tiny, 1.0 / b);
    let mut h = d;
    for i in 1..10_000 {
        let i = f64::from(i);
        let an = -i * (i - a);
        b += 2.0;
        d = 1.0 / not_zero(an * d + b, tiny);
        c = not_zero(b + an / c, tiny);
        h *= d * c;
        if (d * c - 1.0).abs() < 1e-16 {
            break;
        }
    }
    1.0 - scale * h
}

fn not_zero(v: f64, tiny: f64) -> f64 {
    if v.abs() < tiny { tiny } else { v }
}

/// ln Gamma(dof / 2), by its recursion.
fn ln_gamma_of_half(dof: usize) -> f64 {
    let even = dof.is_multiple_of(2);
    let (mut a, mut sum) =
        if even { (1.0, 0.0) } else { (0.5, 0.5 * Scalar::ln(core::f64::consts::PI)) };
    while a + 0.5 < 0.5 * dof as f64 {
        sum += Scalar::ln(a);
        a += 1.0;
    }
    sum
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
            (0.999, 10, 29.588298445074422),
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

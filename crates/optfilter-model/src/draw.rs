//! Random draws from the laws that measurements may follow.
//!
//! References: Marsaglia and Tsang 2000 (gamma); Ahrens and Dieter 1974 (Poisson); Huber 1964.

use optfilter::rng::Stream;

/// Gamma with this shape and unit scale.
pub fn gamma(shape: f64, stream: &mut Stream) -> f64 {
    if shape < 1.0 {
        return gamma(shape + 1.0, stream) * stream.uniform().powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let z = stream.normal();
        let v = (1.0 + c * z).powi(3);
        if v > 0.0 && stream.uniform().ln() < 0.5 * z * z + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// From the density proportional to exp(-Huber's loss): the middle of a normal, with exponential tails.
///
/// Proposals come from the whole normal, of mass sqrt(2 pi), or from the tails, of mass 2 exp(-delta^2 / 2) / delta;
/// a normal beyond the middle is rejected. More than two thirds are accepted, whatever delta is.
pub fn huber(delta: f64, stream: &mut Stream) -> f64 {
    let tails = 2.0 * (-0.5 * delta * delta).exp() / delta;
    let share = tails / (tails + std::f64::consts::TAU.sqrt());
    loop {
        if stream.uniform() < share {
            let size = delta - stream.uniform().ln() / delta;
            return if stream.uniform() < 0.5 { -size } else { size };
        }
        let z = stream.normal();
        if z.abs() <= delta {
            return z;
        }
    }
}

/// A Poisson count: products of uniforms for small rates; large ones are shortened by waiting times.
pub fn poisson(mut rate: f64, stream: &mut Stream) -> f64 {
    let mut count = 0.0;
    while rate > 30.0 {
        let order = (0.875 * rate).floor();
        let waited = gamma(order, stream);
        if waited > rate {
            // `order` arrivals took longer than `rate`: the others are binomial among order - 1.
            let p = rate / waited;
            return count + (1..order as u64).filter(|_| stream.uniform() < p).count() as f64;
        }
        count += order;
        rate -= waited;
    }
    let limit = (-rate).exp();
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
            let values: Vec<f64> = (0..n).map(|_| f(&mut stream)).collect();
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
            let grid: Vec<f64> = (-600_000..=600_000).map(|i| f64::from(i) * 1e-4).collect();
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

use super::any::dispatch;
use super::single::Single;
use super::*;
use crate::scalar::{Dual, Scalar};
use alloc::vec::Vec;

fn all() -> Vec<Component> {
    alloc::vec![
        Component::normal(0.7).unwrap(),
        Component::StudentT(StudentT::new(3.0, 0.6).unwrap()),
        Component::Huber(Huber::new(1.345, 0.8).unwrap()),
        Component::Poisson(Poisson { link: Link::Identity }),
        Component::Poisson(Poisson { link: Link::Canonical }),
        Component::Bernoulli(Bernoulli { link: Link::Identity }),
        Component::Bernoulli(Bernoulli { link: Link::Canonical }),
    ]
}

/// Points all over the line, close to both edges of the domains from both sides, and far beyond.
fn etas() -> Vec<f64> {
    let near = [1e-9, 2e-7, 5e-7, 0.9e-6, 1.1e-6, 3e-6, 1e-3, 0.3, 0.6];
    let far = [1.5, 4.0, 27.0, 40.0, 100.0, 690.0, 1e3, 1e6];
    let around = |edge: f64| near.into_iter().flat_map(move |d| [edge - d, edge + d]);
    around(0.0).chain(around(1.0)).chain(far.into_iter().flat_map(|v| [v, -v])).collect()
}

#[test]
fn scores_are_the_derivatives_of_the_losses() {
    for component in all() {
        let ys: &[f64] =
            if matches!(component, Component::Poisson(_)) { &[0.0, 1.0, 7.0] } else { &[0.0, 1.0] };
        for (&y, eta) in ys.iter().flat_map(|y| etas().into_iter().map(move |eta| (y, eta))) {
            let at = |eta: f64| dispatch!(&component, l => l.loss1(y, eta));
            if !at(eta).is_finite() {
                continue; // a rate of e^1000
            }
            let loss = dispatch!(&component, l => l.loss1(Dual::constant(y), Dual::<f64, 1>::variable(eta, 0)));
            let score = dispatch!(&component, l => l.score1(y, eta));
            let slack = 1e-9 * (1.0 + score.abs());
            assert!(
                (loss.eps[0] - score).abs() < slack,
                "{component:?} at {y}, {eta}: {score} {loss:?}"
            );
            // Differences with a step that is small beside the distance to the edges, where curvature changes.
            let h = (1e-4 * eta.abs().min((eta - 1.0).abs())).clamp(1e-11, 1e-2);
            let difference = (at(eta + h) - at(eta - h)) / (2.0 * h);
            let slack = 1e-3 * (1.0 + score.abs());
            assert!(
                (difference - score).abs() < slack,
                "{component:?} at {y}, {eta}: {score} {difference}"
            );
        }
    }
}

#[test]
fn what_has_left_its_domain_is_pushed_back() {
    let rate = Poisson { link: Link::Identity };
    let chance = Bernoulli { link: Link::Identity };
    for o in [1e-6, 1e-3, 0.2, 5.0, 1e6] {
        for y in [0.0, 1.0, 30.0] {
            assert!(rate.score1(y, -o) <= -1.0, "{y} at {o}");
        }
        for y in [0.0, 1.0] {
            assert!(chance.score1(y, -o) < -0.9 && chance.score1(y, 1.0 + o) > 0.9, "{y} at {o}");
        }
    }
    // Inside nothing differs from the textbook.
    assert_eq!((rate.score1(2.0, 0.5), rate.loss1(2.0, 0.5)), (-3.0, 0.5 - 2.0 * Scalar::ln(0.5)));
    assert_eq!((rate.score1(0.0, 0.0), rate.loss1(0.0, 0.0)), (1.0, 0.0));
}

#[test]
fn canonical_links_keep_their_precision_in_both_tails() {
    let (chance, rate) = (Bernoulli { link: Link::Canonical }, Poisson { link: Link::Canonical });
    for logit in [1.0, 27.0, 40.0, 300.0, 700.0, 740.0] {
        let tail = Scalar::exp(-logit) / (1.0 + Scalar::exp(-logit));
        for (score, loss) in [
            (-chance.score1(1.0, logit), chance.loss1(1.0, logit)),
            (chance.score1(0.0, -logit), chance.loss1(0.0, -logit)),
        ] {
            assert!((score - tail).abs() <= 1e-15 * tail, "{logit}: {score} {tail}");
            let expected = Scalar::ln_1p(Scalar::exp(-logit));
            assert!((loss - expected).abs() <= 1e-15 * expected, "{logit}: {loss}");
        }
        // On the wrong side the whole way is left to go, and derivatives of the score are numbers.
        assert!((chance.score1(1.0, -logit) + 1.0).abs() < 0.3);
        let score: Dual<f64, 1> = chance.score1(Dual::constant(1.0), Dual::variable(-logit, 0));
        assert!(score.is_finite() && (rate.score1(3.0, -logit) + 3.0).abs() < 0.4);
    }
}

#[test]
fn variances_are_those_of_the_densities() {
    // Student's t: scipy.stats.t(4, scale=0.5).var() = 0.5; Huber's by the trapezoidal rule.
    let t = |dof| Component::StudentT(StudentT::new(dof, 0.5).unwrap()).variance();
    assert!((t(4.0).unwrap() - 0.5).abs() < 1e-15 && t(2.0) == Some(f64::INFINITY));
    for delta in [0.3, 1.345, 12.0] {
        let huber = Huber::new(delta, 2.0).unwrap();
        let (mut mass, mut second) = (0.0, 0.0);
        for i in -1_000_000..=1_000_000 {
            let y = f64::from(i) * 2e-4;
            let density = Scalar::exp(-huber.loss1(y, 0.0));
            mass += density;
            second += y * y * density;
        }
        let variance = Component::Huber(huber).variance().unwrap();
        assert!((variance - second / mass).abs() < 1e-6 * variance, "{delta}: {variance}");
    }
    let poisson = Component::Poisson(Poisson { link: Link::Canonical });
    assert_eq!((poisson.variance(), poisson.expected(0.0)), (None, 1.0));
}

#[test]
fn densities_sum_to_one() {
    for component in all() {
        let eta = 0.4;
        let density =
            |y: f64| dispatch!(&component, l => (-(l.loss1(y, eta) + l.log_normalizer1(y))).exp());
        let total: f64 = match component {
            Component::Poisson(_) => (0..60).map(|k| density(f64::from(k))).sum(),
            Component::Bernoulli(_) => density(0.0) + density(1.0),
            // y = tan(angle) maps the line onto an interval, so heavy tails are integrated too.
            _ => {
                let n = 200_000;
                let h = core::f64::consts::PI / f64::from(n);
                (0..n)
                    .map(|k| {
                        let y = ((f64::from(k) + 0.5) * h - core::f64::consts::FRAC_PI_2).tan();
                        density(y) * (1.0 + y * y) * h
                    })
                    .sum()
            }
        };
        assert!((total - 1.0).abs() < 1e-6, "{component:?}: {total}");
    }
}

//! Figure 1: explicit priors against the priors implied by truncated gradient descent.

use super::picture::{Picture, untitled};
use nalgebra::SMatrix;
use optfilter::equivalence::implied_prior_of_rate;
use optfilter_plot::color::{BLUE, GREY, INK, ORANGE, PURPLE};
use optfilter_plot::{Anchor, Axis, Color, Mark, Panel};

/// The measurement and the variance of its noise.
const Y: f64 = 0.0;
const R_VAR: f64 = 1.0;
const RATE: f64 = 0.2;
/// Start and number of steps of the three descents.
const DESCENTS: [(f64, u32); 3] = [(-3.6, 3), (2.6, 4), (4.2, 5)];
const COLORS: [Color; 3] = [BLUE, ORANGE, PURPLE];

fn density(x: f64, mean: f64, var: f64) -> f64 {
    (-(x - mean) * (x - mean) / (2.0 * var)).exp() / (2.0 * core::f64::consts::PI * var).sqrt()
}

fn grid() -> impl Iterator<Item = f64> {
    (0..=400).map(|i| -6.0 + 12.0 * f64::from(i) / 400.0)
}

fn bell(mean: f64, var: f64) -> impl Iterator<Item = (f64, f64)> {
    grid().map(move |x| (x, density(x, mean, var)))
}

/// The figure with its caption.
pub fn picture() -> Picture {
    let panel = |title: &str| {
        let (x, y) = (Axis::linear("x").range(-6.0, 6.0), Axis::linear("density").range(0.0, 0.72));
        Panel::new(title, x, y)
            .with(Mark::line(bell(Y, R_VAR)).color(INK).size(2.2).named("likelihood"))
    };
    // The names of what has a colour of its own for each descent.
    let mut left = panel("Explicit: prior × likelihood → estimate")
        .with(Mark::line([]).color(GREY).dashed().named("prior (left: given, right: implied)"))
        .with(Mark::area([]).color(GREY).named("posterior"))
        .with(Mark::points([]).color(GREY).named("estimate and descent steps"));
    let mut right = panel("Implicit: K steps of descent → prior");
    for ((start, steps), color) in DESCENTS.into_iter().zip(COLORS) {
        let identity = SMatrix::<f64, 1, 1>::identity();
        let implied = implied_prior_of_rate(RATE, &identity, &(identity * R_VAR), steps);
        let prior_var = implied.map_or(f64::NAN, |cov| cov[(0, 0)]);
        let prior = Mark::line(bell(start, prior_var)).color(color).size(1.8).dashed();
        // Left: Bayes' rule with that prior.
        let gain = prior_var / (prior_var + R_VAR);
        let map = start + gain * (Y - start);
        let posterior_var = (1.0 - gain) * prior_var;
        let stem = [(map, 0.0), (map, 0.038)];
        left.marks.extend([
            prior.clone(),
            Mark::area(bell(map, posterior_var)).color(color),
            Mark::line(bell(map, posterior_var)).color(color).size(1.4),
            Mark::line(stem).color(color).size(2.0),
            Mark::points([stem[1]]).color(color).size(3.6),
        ]);
        // Right: descent on the likelihood, and the prior it implies.
        let path: Vec<(f64, f64)> = (0..=steps)
            .scan(start, |x, _| {
                let here = (*x, density(*x, Y, R_VAR));
                *x += RATE / R_VAR * (Y - *x);
                Some(here)
            })
            .collect();
        let top = (start, density(start, start, prior_var) + 0.01);
        right.marks.extend([
            prior,
            Mark::line(path.clone()).color(color).size(1.2),
            Mark::points(path.clone()).color(color).size(3.0),
            Mark::points(path.last().copied()).color(color).size(4.6),
            Mark::text(top, format!("K = {steps}"), Anchor::Middle).color(color).size(11.5),
        ]);
    }
    let title = "Figure 1: explicit priors and the priors implied by gradient descent";
    let mut figure = untitled(title, 2, 270.0).with(left).with(right);
    figure.note = "Both sides end at the same three estimates: descent with rate 0.2 from the prior's mean is Bayes' rule with the dashed prior.".into();
    Picture {
        name: "figure-1-equivalence",
        caption: "Explicit Bayesian inference (left) and gradient descent cut short on the likelihood alone (right). Three, four and five steps of rate 0.2 from \
                  three starting points end where Bayes' rule with the dashed priors ends."
            .into(),
        figure,
    }
}

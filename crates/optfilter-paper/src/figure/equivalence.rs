//! Figure 1: explicit priors against the priors implied by truncated gradient descent.

use super::Figure;
use super::axes::{Mark, Panel, Scale, legend_row};
use super::canvas::{Canvas, INK, PALETTE, Text};
use nalgebra::SMatrix;
use optfilter::equivalence::implied_prior_of_rate;

/// The measurement and the variance of its noise.
const Y: f64 = 0.0;
const R_VAR: f64 = 1.0;
const RATE: f64 = 0.2;
/// Start and number of steps of the three descents.
const DESCENTS: [(f64, u32); 3] = [(-3.6, 3), (2.6, 4), (4.2, 5)];
const COLORS: [&str; 3] = [PALETTE[0], PALETTE[1], PALETTE[4]];

fn density(x: f64, mean: f64, var: f64) -> f64 {
    (-(x - mean) * (x - mean) / (2.0 * var)).exp() / (2.0 * core::f64::consts::PI * var).sqrt()
}

fn grid() -> impl Iterator<Item = f64> {
    (0..=400).map(|i| -6.0 + 12.0 * f64::from(i) / 400.0)
}

fn bell(panel: &Panel, mean: f64, var: f64) -> Vec<(f64, f64)> {
    panel.curve(grid().map(|x| (x, density(x, mean, var))))
}

/// Draw it.
pub fn draw() -> Figure {
    let title = "Figure 1: explicit priors and the priors implied by gradient descent";
    let mut canvas = Canvas::new(920.0, 400.0, title);
    let panel = |x: f64| Panel {
        x,
        y: 34.0,
        w: 390.0,
        h: 270.0,
        sx: Scale::linear(-6.0, 6.0),
        sy: Scale::linear(0.0, 0.72),
    };
    let (left, right) = (panel(58.0), panel(508.0));
    left.draw(&mut canvas, "Explicit: prior × likelihood → estimate", "x", "density");
    right.draw(&mut canvas, "Implicit: K steps of descent → prior", "x", "density");
    let dashed = r#"stroke-dasharray="5 3""#;
    for panel in [&left, &right] {
        canvas.polyline(&bell(panel, Y, R_VAR), INK, 2.2, "");
    }
    for (i, (start, steps)) in DESCENTS.into_iter().enumerate() {
        let color = COLORS[i];
        let identity = SMatrix::<f64, 1, 1>::identity();
        let implied = implied_prior_of_rate(RATE, &identity, &(identity * R_VAR), steps);
        let prior_var = implied.map_or(f64::NAN, |cov| cov[(0, 0)]);
        // Left: Bayes' rule with that prior.
        let gain = prior_var / (prior_var + R_VAR);
        let map = start + gain * (Y - start);
        let posterior_var = (1.0 - gain) * prior_var;
        left.clip(&mut canvas);
        canvas.polyline(&bell(&left, start, prior_var), color, 1.8, dashed);
        canvas.polygon(&bell(&left, map, posterior_var), color, r#"fill-opacity="0.22""#);
        canvas.polyline(&bell(&left, map, posterior_var), color, 1.4, "");
        canvas.end_clip();
        let (px, base) = left.at(map, 0.0);
        canvas.line((px, base), (px, base - 14.0), color, 2.0);
        canvas.dot((px, base - 14.0), 3.6, color, "");
        // Right: descent on the likelihood, and the prior it implies.
        right.clip(&mut canvas);
        canvas.polyline(&bell(&right, start, prior_var), color, 1.8, dashed);
        canvas.end_clip();
        let mut x = start;
        let mut path = vec![right.at(x, density(x, Y, R_VAR))];
        for _ in 0..steps {
            x += RATE / R_VAR * (Y - x);
            path.push(right.at(x, density(x, Y, R_VAR)));
        }
        canvas.polyline(&path, color, 1.2, "");
        for (k, &point) in path.iter().enumerate() {
            let last = k + 1 == path.len();
            canvas.dot(point, if last { 4.6 } else { 3.0 }, color, "");
        }
        let (px, py) = right.at(start, density(start, start, prior_var));
        let label = Text { color, ..Text::new(11.0) };
        canvas.text((px, py - 10.0), &format!("K = {steps}"), &label.bold());
    }
    legend_row(
        &mut canvas,
        460.0,
        362.0,
        &[
            ("likelihood", INK, Mark::Line),
            ("prior (left: given, right: implied)", "#666666", Mark::Dashes),
            ("posterior", "#bbbbbb", Mark::Patch),
            ("estimate and descent steps", "#666666", Mark::Dot),
        ],
    );
    canvas.text(
        (460.0, 386.0),
        "Both sides end at the same three estimates: descent with rate 0.2 from the prior's mean is Bayes' rule with the dashed prior.",
        &Text::new(11.0),
    );
    Figure {
        name: "figure-1-equivalence",
        caption: "Explicit Bayesian inference (left) and gradient descent cut short on the likelihood alone (right). Three, four and five steps of rate 0.2 from \
                  three starting points end where Bayes' rule with the dashed priors ends."
            .into(),
        svg: canvas.finish(),
    }
}

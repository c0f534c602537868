//! Figure 5: eight Lorenz trajectories in three dimensions with the estimates of gradient descent.

use super::Figure;
use super::axes::{Mark, legend_row};
use super::canvas::{Anchor, Canvas, PALETTE, Text};
use crate::grid::{Optimizer, Rule};
use crate::published::model::Lorenz;
use crate::published::{Quirks, imap, simulate};
use crate::systems::{Dynamics, STEPS};

const RUNS: usize = 8;
const GD: Optimizer = Optimizer { rule: Rule::Gd, steps: 3, lr: Some(0.05), decay: None };
/// The box of the axes.
const LOW: [f64; 3] = [-25.0, -30.0, 0.0];
const HIGH: [f64; 3] = [25.0, 30.0, 55.0];

/// Orthographic view from the front right, slightly above, of a box scaled to the unit cube; x to the right, y upwards.
fn view(p: [f64; 3]) -> (f64, f64) {
    let u: [f64; 3] = core::array::from_fn(|c| (p[c] - LOW[c]) / (HIGH[c] - LOW[c]) - 0.5);
    let (sin, cos) = (-55.0_f64).to_radians().sin_cos();
    let (right, away) = (cos * u[0] - sin * u[1], sin * u[0] + cos * u[1]);
    let (lift, tilt) = (20.0_f64).to_radians().sin_cos();
    (right, tilt * u[2] + lift * away)
}

/// Draw it.
pub fn draw(seed: u32) -> Figure {
    let quirks = Quirks::PUBLISHED;
    let data = simulate::lorenz(&[10], RUNS, seed, &quirks).swap_remove(0);
    let model = Lorenz::new(Dynamics::Rk4, &quirks);
    let title = "Figure 5: eight Lorenz trajectories and implicit MAP estimates";
    let mut canvas = Canvas::new(920.0, 548.0, title);
    for run in 0..RUNS {
        let center = (122.0 + 226.0 * (run % 4) as f64, 140.0 + 242.0 * (run / 4) as f64);
        let place = |p: [f64; 3]| {
            let (x, y) = view(p);
            (center.0 + 142.0 * x, center.1 - 160.0 * y)
        };
        draw_box(&mut canvas, &place, run == 0);
        let truth: Vec<(f64, f64)> = (0..STEPS)
            .map(|t| place(core::array::from_fn(|c| data.x[data.at(t, c, run)])))
            .collect();
        let estimates = imap::estimates(model, &data, GD, run, &quirks);
        let estimates: Vec<(f64, f64)> = estimates.into_iter().map(place).collect();
        canvas.polyline(&truth, PALETTE[0], 1.5, r#"stroke-opacity="0.8""#);
        canvas.polyline(&estimates, PALETTE[3], 1.0, r#"stroke-opacity="0.9""#);
        let heading = format!("run {run}");
        canvas.text((center.0, center.1 - 118.0), &heading, &Text::new(11.5).bold());
    }
    legend_row(
        &mut canvas,
        460.0,
        532.0,
        &[
            ("true trajectory", PALETTE[0], Mark::Line),
            ("implicit MAP, gradient descent (3, 0.05)", PALETTE[3], Mark::Line),
        ],
    );
    Figure {
        name: "figure-5-attractors",
        caption: "Eight runs of the Lorenz system with alpha = 10 and the estimates of the implicit MAP filter with three steps of gradient descent and RK4; published protocol."
            .into(),
        svg: canvas.finish(),
    }
}

/// The three back faces of the box, with names and ranges of the axes.
fn draw_box(canvas: &mut Canvas, place: &impl Fn([f64; 3]) -> (f64, f64), named: bool) {
    let corner = |x: usize, y: usize, z: usize| {
        let pick = |c: usize, high: usize| if high == 1 { HIGH[c] } else { LOW[c] };
        place([pick(0, x), pick(1, y), pick(2, z)])
    };
    let floor = [corner(0, 0, 0), corner(1, 0, 0), corner(1, 1, 0), corner(0, 1, 0)];
    canvas.polygon(&floor, "#f6f6f6", "");
    for (a, b) in [
        ((0, 0, 0), (1, 0, 0)),
        ((0, 0, 0), (0, 1, 0)),
        ((0, 1, 0), (1, 1, 0)),
        ((1, 0, 0), (1, 1, 0)),
        ((0, 0, 0), (0, 0, 1)),
        ((0, 1, 0), (0, 1, 1)),
        ((1, 1, 0), (1, 1, 1)),
        ((0, 0, 1), (0, 1, 1)),
        ((0, 1, 1), (1, 1, 1)),
    ] {
        canvas.line(corner(a.0, a.1, a.2), corner(b.0, b.1, b.2), "#c8c8c8", 0.8);
    }
    if named {
        let small = Text::new(8.5);
        let between = |a: (f64, f64), b: (f64, f64)| ((a.0 + b.0) / 2.0, (a.1 + b.1) / 2.0);
        let (x, y) = between(corner(0, 0, 0), corner(1, 0, 0));
        canvas.text((x - 3.0, y + 12.0), "x₁: −25…25", &small.at(Anchor::End));
        let (x, y) = between(corner(1, 0, 0), corner(1, 1, 0));
        canvas.text((x + 4.0, y + 12.0), "x₂: −30…30", &small.at(Anchor::Start));
        let (x, y) = between(corner(1, 1, 0), corner(1, 1, 1));
        let upwards = Text { upwards: true, ..small };
        canvas.text((x + 10.0, y), "x₃: 0…55", &upwards);
    }
}

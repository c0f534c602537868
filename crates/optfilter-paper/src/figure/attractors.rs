//! Figure 5: eight Lorenz trajectories in three dimensions with the estimates of gradient descent.

use super::picture::{Picture, untitled};
use crate::grid::{Optimizer, Rule};
use crate::published::model::Lorenz;
use crate::published::{Quirks, imap, simulate};
use crate::systems::{Dynamics, STEPS};
use optfilter_plot::color::{BLUE, FRAME, SOFT, VERMILION};
use optfilter_plot::{Anchor, Axis, Mark, Panel};

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

/// The figure with its caption.
pub fn picture(seed: u32) -> Picture {
    let quirks = Quirks::PUBLISHED;
    let data = simulate::lorenz(&[10], RUNS, seed, &quirks).swap_remove(0);
    let model = Lorenz::new(Dynamics::Rk4, &quirks);
    let title = "Figure 5: eight Lorenz trajectories and implicit MAP estimates";
    let mut figure = untitled(title, 4, 212.0);
    for run in 0..RUNS {
        let axis = || Axis::hidden().range(-0.72, 0.72);
        let mut panel = Panel::new(format!("run {run}"), axis(), axis());
        panel.marks = faces(run == 0);
        let truth = (0..STEPS).map(|t| view(core::array::from_fn(|c| data.x[data.at(t, c, run)])));
        let estimates = imap::estimates(model, &data, GD, run, &quirks);
        panel.marks.extend([
            Mark::line(truth).color(BLUE).opacity(0.8).named("true trajectory"),
            Mark::line(estimates.into_iter().map(view))
                .color(VERMILION)
                .size(1.0)
                .opacity(0.9)
                .named("implicit MAP, gradient descent (3, 0.05)"),
        ]);
        figure.panels.push(panel);
    }
    Picture {
        name: "figure-5-attractors",
        caption: "Eight runs of the Lorenz system with alpha = 10 and the estimates of the implicit MAP filter with three steps of gradient descent and RK4; published protocol."
            .into(),
        figure,
    }
}

/// The three back faces of the box, with names and ranges of the axes.
fn faces(named: bool) -> Vec<Mark> {
    let corner = |x: usize, y: usize, z: usize| {
        let pick = |c: usize, high: usize| if high == 1 { HIGH[c] } else { LOW[c] };
        view([pick(0, x), pick(1, y), pick(2, z)])
    };
    let floor = [corner(0, 0, 0), corner(1, 0, 0), corner(1, 1, 0), corner(0, 1, 0)];
    let gap = (f64::NAN, f64::NAN);
    let edges = [
        floor[0],
        floor[1],
        floor[2],
        floor[3],
        floor[0],
        corner(0, 0, 1),
        corner(0, 1, 1),
        corner(1, 1, 1),
        floor[2],
        gap,
        floor[3],
        corner(0, 1, 1),
    ];
    let mut marks =
        vec![Mark::area(floor).color(FRAME).opacity(0.1), Mark::line(edges).color(FRAME).size(0.6)];
    if named {
        let name = |at, text, anchor| Mark::text(at, text, anchor).color(SOFT).size(8.5);
        marks.extend([
            name((-0.72, -0.7), "x₁: −25…25", Anchor::Start),
            name((0.7, -0.7), "x₂: −30…30", Anchor::End),
            name((-0.7, 0.56), "x₃: 0…55", Anchor::Start),
        ]);
    }
    marks
}

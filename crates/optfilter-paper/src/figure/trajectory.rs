//! Figure 2: one trajectory of the toy system, its measurements, and the estimates of the filters.

use super::Figure;
use super::axes::{Mark, Panel, Scale, legend_row};
use super::canvas::{Canvas, INK, PALETTE};
use crate::grid::{Optimizer, Rule};
use crate::published::model::Toy;
use crate::published::{Quirks, extended, imap, particle, simulate, unscented};

/// The system of the figure.
pub const Q: u32 = 3;
/// Its measurement noise.
pub const R: u32 = 2;
/// Steps shown.
const SHOWN: usize = 100;

/// The paper's Adam for this system.
pub const ADAM: Optimizer =
    Optimizer { rule: Rule::Adam, steps: 50, lr: Some(0.1), decay: Some(0.1) };

/// Draw it.
pub fn draw(seed: u32) -> Figure {
    let quirks = Quirks::PUBLISHED;
    let model = Toy::new(&quirks);
    let data = simulate::toy(Q, R, 1, seed, &quirks);
    let time = |values: Vec<f64>| -> Vec<(f64, f64)> {
        let steps = values.into_iter().take(SHOWN).enumerate();
        steps.map(|(t, v)| ((t + 1) as f64, v)).collect()
    };
    let truth = time(data.x.clone());
    let adam = imap::estimates(model, &data, ADAM, 0, &quirks);
    let adam = time(adam.into_iter().map(|[x]| x).collect());
    let updated = |means: Vec<(f64, f64)>| time(means.into_iter().map(|(_, x)| x).collect());
    let ukf = updated(unscented::toy_means(&model, &data, (Q, R), 0, &quirks));
    let ekf = updated(extended::toy_means(&model, &data, (Q, R), 0, &quirks));
    let filter = particle::ToyParticles::new(&model, Q, R, &quirks);
    let pf = particle::run(&[(filter, &data)], 0, seed, particle::PARTICLES, &quirks, |_, _, _| {});
    let pf = time(pf[0].iter().map(|[x]| *x).collect());

    let title = "Figure 2: a trajectory of the toy system and the filters' estimates";
    let mut canvas = Canvas::new(920.0, 600.0, title);
    let panel = |y: f64, h: f64, low: f64, high: f64| Panel {
        x: 62.0,
        y,
        w: 836.0,
        h,
        sx: Scale::linear(0.0, SHOWN as f64 + 1.0),
        sy: Scale::linear(low, high),
    };
    let top = panel(34.0, 180.0, -30.0, 45.0);
    top.draw(&mut canvas, "State and measurements, Q = 3, R = 2", "time step", "value");
    top.clip(&mut canvas);
    canvas.polyline(&top.curve(truth.iter().copied()), INK, 1.8, "");
    for &(t, y) in &time(data.y.clone()) {
        canvas.dot(top.at(t, y), 2.4, PALETTE[1], "");
    }
    canvas.end_clip();
    legend_row(
        &mut canvas,
        480.0,
        266.0,
        &[("state", INK, Mark::Line), ("measurement", PALETTE[1], Mark::Dot)],
    );
    let bottom = panel(310.0, 210.0, -42.0, 42.0);
    bottom.draw(&mut canvas, "Estimates", "time step", "state");
    bottom.clip(&mut canvas);
    let dashed = r#"stroke-dasharray="5 3""#;
    canvas.polyline(&bottom.curve(ekf), "#999999", 1.1, dashed);
    canvas.polyline(&bottom.curve(truth), INK, 2.2, "");
    canvas.polyline(&bottom.curve(ukf), PALETTE[2], 1.4, "");
    canvas.polyline(&bottom.curve(pf), PALETTE[0], 1.4, "");
    canvas.polyline(&bottom.curve(adam), PALETTE[3], 1.6, "");
    canvas.end_clip();
    legend_row(
        &mut canvas,
        480.0,
        578.0,
        &[
            ("state", INK, Mark::Line),
            ("implicit MAP, Adam (50, 0.1, 0.1)", PALETTE[3], Mark::Line),
            ("particle filter", PALETTE[0], Mark::Line),
            ("UKF", PALETTE[2], Mark::Line),
            ("EKF", "#999999", Mark::Dashes),
        ],
    );
    Figure {
        name: "figure-2-toy-trajectory",
        caption: "One trajectory of the toy system (Q = 3, R = 2, first run, first 100 of 200 steps) and what the filters make of it in the published protocol. \
                  The measurement does not tell the sign of the state; the EKF leaves the picture."
            .into(),
        svg: canvas.finish(),
    }
}

//! Figure 2: one trajectory of the toy system, its measurements, and the estimates of the filters.

use super::picture::{Picture, untitled};
use crate::grid::{Optimizer, Rule};
use crate::published::model::Toy;
use crate::published::{Quirks, extended, imap, particle, simulate, unscented};
use optfilter_plot::color::{BLUE, GREEN, GREY, INK, ORANGE, VERMILION};
use optfilter_plot::{Axis, Mark, Panel};

/// The system of the figure.
pub const Q: u32 = 3;
/// Its measurement noise.
pub const R: u32 = 2;
/// Steps shown.
const SHOWN: usize = 100;

/// The paper's Adam for this system.
pub const ADAM: Optimizer =
    Optimizer { rule: Rule::Adam, steps: 50, lr: Some(0.1), decay: Some(0.1) };

/// The figure with its caption.
pub fn picture(seed: u32) -> Picture {
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

    let panel = |title: &str, label: &str, low: f64, high: f64| {
        let x = Axis::linear("time step").range(0.0, SHOWN as f64 + 1.0);
        Panel::new(title, x, Axis::linear(label).range(low, high))
    };
    let line = |points: Vec<(f64, f64)>, color| Mark::line(points).color(color);
    let top = panel("State and measurements, Q = 3, R = 2", "value", -30.0, 45.0)
        .with(line(truth.clone(), INK).size(1.8).named("state"))
        .with(Mark::points(time(data.y.clone())).color(ORANGE).size(2.4).named("measurement"));
    let bottom = panel("Estimates", "state", -42.0, 42.0)
        .with(line(ekf, GREY).size(1.1).dashed().named("EKF"))
        .with(line(truth, INK).size(2.2).named("state"))
        .with(line(ukf, GREEN).size(1.4).named("UKF"))
        .with(line(pf, BLUE).size(1.4).named("particle filter"))
        .with(line(adam, VERMILION).size(1.6).named("implicit MAP, Adam (50, 0.1, 0.1)"));
    let title = "Figure 2: a trajectory of the toy system and the filters' estimates";
    Picture {
        name: "figure-2-toy-trajectory",
        caption: "One trajectory of the toy system (Q = 3, R = 2, first run, first 100 of 200 steps) and what the filters make of it in the published protocol. \
                  The measurement does not tell the sign of the state; the EKF leaves the picture."
            .into(),
        figure: untitled(title, 1, 200.0).with(top).with(bottom),
    }
}

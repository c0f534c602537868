//! Figure 4: the double well of the measurement, its gradient, and the steps of EKF and Adam through a transition.

use super::Figure;
use super::axes::{Mark, Panel, Scale, legend_row};
use super::canvas::{Canvas, INK, PALETTE};
use super::trajectory::{Q, R};
use crate::grid::{Optimizer, Rule};
use crate::published::model::Toy;
use crate::published::{Quirks, extended, imap, simulate};
use optfilter::scalar::Lanes as V;

/// The steps that the paper shows.
const SHOWN: [(usize, &str); 6] = [
    (5, "(a) t = 5, pre-transition"),
    (12, "(b) t = 12, transition"),
    (15, "(c) t = 15, transition"),
    (16, "(d) t = 16, transition"),
    (17, "(e) t = 17, post-transition"),
    (27, "(f) t = 27, post-transition"),
];
const ADAM: Optimizer = Optimizer { rule: Rule::Adam, steps: 25, lr: Some(0.1), decay: Some(0.9) };
const LIMIT: f64 = 24.0;

/// Draw it.
pub fn draw(seed: u32) -> Figure {
    let quirks = Quirks::PUBLISHED;
    let model = Toy::new(&quirks);
    let data = simulate::toy(Q, R, 1, seed, &quirks);
    let ekf = extended::toy_means(&model, &data, (Q, R), 0, &quirks);
    let adam = imap::estimates(model, &data, ADAM, 0, &quirks);

    let title = "Figure 4: likelihood, gradient and the steps of EKF and Adam";
    let mut canvas = Canvas::new(920.0, 600.0, title);
    for (i, (t, heading)) in SHOWN.into_iter().enumerate() {
        let k = t - 1;
        let y = data.y[k];
        let loss = |x: f64| (y - x * x / 20.0) * (y - x * x / 20.0) / 2.0;
        let slope = |x: f64| -(x / 10.0) * (y - x * x / 20.0);
        // The height that shows both wells and the barrier between them.
        let high = (1.6 * loss(0.0)).max(0.45 * loss(LIMIT * 0.8)).max(4.0);
        let panel = Panel {
            x: 50.0 + 296.0 * (i % 3) as f64,
            y: 32.0 + 268.0 * (i / 3) as f64,
            w: 244.0,
            h: 190.0,
            sx: Scale::linear(-LIMIT, LIMIT),
            sy: Scale::linear(-0.25 * high, high),
        };
        panel.draw(&mut canvas, heading, "x", "loss");
        panel.clip(&mut canvas);
        let grid = || (0..=300).map(|j| -LIMIT + 2.0 * LIMIT * f64::from(j) / 300.0);
        let steepest =
            grid().map(|x| slope(x).abs()).filter(|s| s.is_finite()).fold(1e-9, f64::max);
        let scaled = grid().map(|x| (x, 0.375 * high + 0.6 * high * slope(x) / steepest));
        canvas.polyline(&panel.curve(scaled), PALETTE[5], 1.1, r#"stroke-dasharray="4 3""#);
        canvas.polyline(&panel.curve(grid().map(|x| (x, loss(x)))), "#777777", 1.7, "");
        let truth = data.x[k];
        canvas.line(panel.at(truth, -high), panel.at(truth, high), INK, 1.0);
        let inside = |x: f64| (x, loss(x).min(0.985 * high));
        let (from, to) = ekf[k];
        let jump = [inside(from), inside(to)];
        canvas.polyline(&panel.curve(jump), PALETTE[2], 1.4, "");
        let hollow = format!(r#"stroke="{}" stroke-width="1.6""#, PALETTE[2]);
        canvas.dot(panel.at(jump[0].0, jump[0].1), 3.6, "#ffffff", &hollow);
        canvas.dot(panel.at(jump[1].0, jump[1].1), 4.2, PALETTE[2], "");
        let before = if k == 0 { data.start[0] } else { adam[k - 1][0] };
        let predicted = model.transition(V([before]), k).0[0];
        let iterates = imap::adam_iterates(predicted, y, ADAM, &quirks);
        for (j, &x) in iterates.iter().enumerate() {
            let (px, py) = inside(x);
            let last = j + 1 == iterates.len();
            let radius = if last { 4.2 } else { 2.1 };
            canvas.dot(
                panel.at(px, py),
                radius,
                PALETTE[3],
                if last { "" } else { r#"fill-opacity="0.6""# },
            );
        }
        canvas.end_clip();
    }
    legend_row(
        &mut canvas,
        460.0,
        558.0,
        &[
            ("loss (y − h(x))² / 2", "#777777", Mark::Line),
            ("its gradient (own scale)", PALETTE[5], Mark::Dashes),
            ("true state", INK, Mark::Line),
        ],
    );
    legend_row(
        &mut canvas,
        460.0,
        582.0,
        &[
            ("EKF: prediction (hollow) to update", PALETTE[2], Mark::Dot),
            ("Adam (25, 0.1, 0.9): every step, the last one large", PALETTE[3], Mark::Dot),
        ],
    );
    Figure {
        name: "figure-4-wells",
        caption: "The measurement's loss as a function of the state, its gradient, and how the EKF and Adam move on it before, during and after a change of sign; toy \
                  system, Q = 3, R = 2, first run, published protocol. Points above the frame are drawn at its edge."
            .into(),
        svg: canvas.finish(),
    }
}

//! Figure 4: the double well of the measurement, its gradient, and the steps of EKF and Adam through a transition.

use super::picture::{Picture, untitled};
use super::trajectory::{Q, R};
use crate::grid::{Optimizer, Rule};
use crate::published::model::Toy;
use crate::published::{Quirks, extended, imap, simulate};
use optfilter::scalar::Lanes as V;
use optfilter_plot::color::{GREEN, GREY, INK, SKY, VERMILION};
use optfilter_plot::{Axis, Mark, Panel};

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

/// The figure with its caption.
pub fn picture(seed: u32) -> Picture {
    let quirks = Quirks::PUBLISHED;
    let model = Toy::new(&quirks);
    let data = simulate::toy(Q, R, 1, seed, &quirks);
    let ekf = extended::toy_means(&model, &data, (Q, R), 0, &quirks);
    let adam = imap::estimates(model, &data, ADAM, 0, &quirks);

    let title = "Figure 4: likelihood, gradient and the steps of EKF and Adam";
    let mut figure = untitled(title, 3, 190.0);
    for (t, heading) in SHOWN {
        let k = t - 1;
        let y = data.y[k];
        let loss = |x: f64| (y - x * x / 20.0) * (y - x * x / 20.0) / 2.0;
        let slope = |x: f64| -(x / 10.0) * (y - x * x / 20.0);
        // The height that shows both wells and the barrier between them.
        let high = (1.6 * loss(0.0)).max(0.45 * loss(LIMIT * 0.8)).max(4.0);
        let grid = || (0..=300).map(|j| -LIMIT + 2.0 * LIMIT * f64::from(j) / 300.0);
        let steepest =
            grid().map(|x| slope(x).abs()).filter(|s| s.is_finite()).fold(1e-9, f64::max);
        let scaled = grid().map(|x| (x, 0.375 * high + 0.6 * high * slope(x) / steepest));
        let truth = data.x[k];
        let inside = |x: f64| (x, loss(x).min(0.985 * high));
        let [from, to] = [ekf[k].0, ekf[k].1].map(inside);
        let before = if k == 0 { data.start[0] } else { adam[k - 1][0] };
        let predicted = model.transition(V([before]), k).0[0];
        let iterates: Vec<(f64, f64)> =
            imap::adam_iterates(predicted, y, ADAM, &quirks).iter().map(|x| inside(*x)).collect();
        let (last, steps) = iterates.split_last().map_or((None, &[][..]), |(l, s)| (Some(*l), s));
        let x = Axis::linear("x").range(-LIMIT, LIMIT);
        let mut panel = Panel::new(heading, x, Axis::linear("loss").range(-0.25 * high, high));
        panel.marks.extend([
            Mark::line(grid().map(|x| (x, loss(x))))
                .color(GREY)
                .size(1.7)
                .named("loss (y − h(x))² / 2"),
            Mark::line(scaled).color(SKY).size(1.1).dashed().named("its gradient (own scale)"),
            Mark::line([(truth, -high), (truth, high)]).color(INK).size(1.0).named("true state"),
            Mark::line([from, to]).color(GREEN).size(1.4),
            Mark::rings([from]).color(GREEN),
            Mark::points([to]).color(GREEN).size(4.2).named("EKF: prediction (hollow) to update"),
            Mark::points(steps.iter().copied()).color(VERMILION).size(2.1).opacity(0.6),
            Mark::points(last)
                .color(VERMILION)
                .size(4.2)
                .named("Adam (25, 0.1, 0.9): every step, the last one large"),
        ]);
        figure.panels.push(panel);
    }
    Picture {
        name: "figure-4-wells",
        caption: "The measurement's loss as a function of the state, its gradient, and how the EKF and Adam move on it before, during and after a change of sign; toy \
                  system, Q = 3, R = 2, first run, published protocol. Points above the frame are drawn at its edge."
            .into(),
        figure,
    }
}

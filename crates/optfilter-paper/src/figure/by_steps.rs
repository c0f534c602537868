//! Figure A: RMSE against the number of steps K, for every optimizer.

use super::picture::{Picture, untitled};
use crate::cells::best;
use crate::grid::{GridMethod as Method, Rule, STEP_COUNTS};
use crate::outcome::SystemRows;
use crate::protocol::Protocol;
use crate::row::Row;
use crate::systems::{Dynamics, System};
use optfilter_plot::color::{BLUE, GREEN, GREY, ORANGE, PURPLE, SOFT, VERMILION};
use optfilter_plot::{Anchor, Axis, Color, Mark, Panel};

/// The systems shown, where they were run.
const SYSTEMS: [(System, &str); 4] = [
    (System::Toy { q: 3, r: 2 }, "Toy, Q = 3, R = 2"),
    (System::Lorenz { alpha: 10, dynamics: Dynamics::Rk4 }, "Lorenz, α = 10, RK4"),
    (System::Lorenz { alpha: 10, dynamics: Dynamics::Euler }, "Lorenz, α = 10, Euler"),
    (System::Lorenz { alpha: 10, dynamics: Dynamics::Grw }, "Lorenz, α = 10, random walk"),
];
const COLORS: [(Rule, Color); 5] = [
    (Rule::Adam, VERMILION),
    (Rule::RmsProp, BLUE),
    (Rule::Gd, GREEN),
    (Rule::Adagrad, ORANGE),
    (Rule::Adadelta, PURPLE),
];

/// The figure with its caption; `None` if none of its systems was run.
pub fn picture(grid: &[SystemRows]) -> Option<Picture> {
    let found: Vec<(&[Row], &str)> = SYSTEMS
        .iter()
        .filter_map(|(system, name)| {
            let rows =
                grid.iter().find(|s| s.protocol == Protocol::Published && s.system == *system)?;
            Some((rows.rows.as_slice(), *name))
        })
        .collect();
    if found.is_empty() {
        return None;
    }
    let mut figure = untitled("Figure A: RMSE against the number of steps", 2, 216.0);
    for (rows, name) in found {
        let value = |method: Method| {
            let row = rows.iter().find(|row| row.method == method)?;
            row.summary.in_search().then_some(row.summary.rmse)
        };
        let curve = |rule: Rule| -> Vec<(f64, f64)> {
            let of_steps = |steps: u32| {
                let rows = rows.iter().filter(|row| matches!(row.method, Method::Imap(o) if o.rule == rule && o.steps == steps));
                best(rows).map_or(f64::NAN, |row| row.summary.rmse)
            };
            STEP_COUNTS.iter().map(|&k| (f64::from(k), of_steps(k))).collect()
        };
        let steps = Axis::log("steps K per measurement").range(0.9, 112.0);
        let steps = steps.ticks(STEP_COUNTS.map(|k| (f64::from(k), k.to_string())));
        let mut panel = Panel::new(name, steps, Axis::log("RMSE, best rate and decay"));
        for (name, method) in [("EKF", Method::Ekf), ("UKF", Method::Ukf), ("PF", Method::Pf)] {
            let Some(value) = value(method) else { continue };
            let line = Mark::line([(0.9, value), (112.0, value)]).color(GREY).size(1.0).dashed();
            let text = Mark::text((110.0, value), name, Anchor::End).color(SOFT).size(9.5);
            panel.marks.extend([line.named("classical filters"), text]);
        }
        for (rule, color) in COLORS {
            let curve = curve(rule);
            let dots = Mark::points(curve.clone()).color(color).size(3.0);
            panel
                .marks
                .extend([Mark::line(curve).color(color).size(1.8).named(rule.method()), dots]);
        }
        figure.panels.push(panel);
    }
    Some(Picture {
        name: "figure-a-rmse-by-steps",
        caption: "Mean RMSE over the runs against the number of steps, for each optimizer with the best learning rate and decay at that number of steps (published \
                  protocol). Configurations that diverge are left out, as in the paper's search."
            .into(),
        figure,
    })
}

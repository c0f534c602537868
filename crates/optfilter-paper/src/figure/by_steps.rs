//! Figure A: RMSE against the number of steps K, for every optimizer.

use super::Figure;
use super::axes::{Mark, Panel, Scale, legend_row};
use super::canvas::{Anchor, Canvas, PALETTE, Text};
use crate::cells::best;
use crate::grid::{GridMethod as Method, Rule, STEP_COUNTS};
use crate::outcome::SystemRows;
use crate::protocol::Protocol;
use crate::row::Row;
use crate::systems::{Dynamics, System};

/// The systems shown, where they were run.
const SYSTEMS: [(System, &str); 4] = [
    (System::Toy { q: 3, r: 2 }, "Toy, Q = 3, R = 2"),
    (System::Lorenz { alpha: 10, dynamics: Dynamics::Rk4 }, "Lorenz, α = 10, RK4"),
    (System::Lorenz { alpha: 10, dynamics: Dynamics::Euler }, "Lorenz, α = 10, Euler"),
    (System::Lorenz { alpha: 10, dynamics: Dynamics::Grw }, "Lorenz, α = 10, random walk"),
];
const COLORS: [(Rule, &str); 5] = [
    (Rule::Adam, PALETTE[3]),
    (Rule::RmsProp, PALETTE[0]),
    (Rule::Gd, PALETTE[2]),
    (Rule::Adagrad, PALETTE[1]),
    (Rule::Adadelta, PALETTE[4]),
];

/// Draw it; `None` if none of its systems was run.
pub fn draw(grid: &[SystemRows]) -> Option<Figure> {
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
    let title = "Figure A: RMSE against the number of steps";
    let lines = found.len().div_ceil(2);
    let height = 300.0 * lines as f64 + 40.0;
    let mut canvas = Canvas::new(920.0, height, title);
    for (i, (rows, name)) in found.iter().enumerate() {
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
        let curves: Vec<_> = COLORS.iter().map(|(rule, color)| (curve(*rule), *color)).collect();
        let references =
            [("EKF", value(Method::Ekf)), ("UKF", value(Method::Ukf)), ("PF", value(Method::Pf))];
        let all = curves.iter().flat_map(|(c, _)| c.iter().map(|p| p.1));
        let all: Vec<f64> =
            all.chain(references.iter().filter_map(|r| r.1)).filter(|v| v.is_finite()).collect();
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(0.0, f64::max);
        let panel = Panel {
            x: 62.0 + 452.0 * (i % 2) as f64,
            y: 34.0 + 300.0 * (i / 2) as f64,
            w: 376.0,
            h: 216.0,
            sx: Scale::log(0.9, 112.0),
            sy: Scale::log(0.85 * low, 1.18 * high),
        };
        panel.draw_with(
            &mut canvas,
            name,
            "steps K per measurement",
            "RMSE, best rate and decay",
            &STEP_COUNTS.map(f64::from),
        );
        for (name, value) in references {
            let Some(value) = value else { continue };
            let ends = [panel.at(0.9, value), panel.at(112.0, value)];
            canvas.polyline(&ends, "#888888", 1.0, r#"stroke-dasharray="4 3""#);
            let style = Text { color: "#666666", ..Text::new(9.5) };
            canvas.text((ends[1].0 - 3.0, ends[1].1 - 3.0), name, &style.at(Anchor::End));
        }
        for (curve, color) in curves {
            let points = panel.curve(curve);
            canvas.polyline(&points, color, 1.8, "");
            for point in points.into_iter().filter(|p| p.1.is_finite()) {
                canvas.dot(point, 3.0, color, "");
            }
        }
    }
    let names = COLORS.map(|(rule, color)| (rule.method(), color, Mark::Line));
    let mut entries = names.to_vec();
    entries.push(("classical filters", "#888888", Mark::Dashes));
    legend_row(&mut canvas, 460.0, height - 14.0, &entries);
    Some(Figure {
        name: "figure-a-rmse-by-steps",
        caption: "Mean RMSE over the runs against the number of steps, for each optimizer with the best learning rate and decay at that number of steps (published \
                  protocol). Configurations that diverge are left out, as in the paper's search."
            .into(),
        svg: canvas.finish(),
    })
}

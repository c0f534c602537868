//! Figure B: RMSE against learning rate and number of steps, as heat maps.

use super::Figure;
use super::canvas::{Anchor, Canvas, Text};
use crate::cells::best;
use crate::grid::{GridMethod as Method, LEARNING_RATES, Rule, STEP_COUNTS};
use crate::outcome::SystemRows;
use crate::protocol::Protocol;
use crate::systems::{Dynamics, System};

const SYSTEMS: [(System, &str); 2] = [
    (System::Toy { q: 3, r: 2 }, "Toy, Q = 3, R = 2"),
    (System::Lorenz { alpha: 10, dynamics: Dynamics::Rk4 }, "Lorenz, α = 10, RK4"),
];
const RULES: [(Rule, &str); 4] = [
    (Rule::Gd, "gradient descent"),
    (Rule::Adagrad, "Adagrad"),
    (Rule::RmsProp, "RMSprop, best decay"),
    (Rule::Adam, "Adam, best decay"),
];
const CELL: (f64, f64) = (29.5, 24.0);

/// From good (dark blue) over white to bad (orange), by the logarithm of the ratio to the best.
fn color(ratio: f64) -> (String, bool) {
    let s = (ratio.ln() / 8.0_f64.ln()).clamp(0.0, 1.0);
    let mix = |a: [f64; 3], b: [f64; 3], t: f64| -> [u8; 3] {
        core::array::from_fn(|c| (a[c] + (b[c] - a[c]) * t).round() as u8)
    };
    let [dark, pale, warm] = [[12.0, 74.0, 130.0], [246.0, 246.0, 240.0], [213.0, 94.0, 0.0]];
    let rgb = if s < 0.5 { mix(dark, pale, 2.0 * s) } else { mix(pale, warm, 2.0 * s - 1.0) };
    (format!("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]), !(0.2..=0.92).contains(&s))
}

/// Draw it; `None` if none of its systems was run.
pub fn draw(grid: &[SystemRows]) -> Option<Figure> {
    let found: Vec<(&SystemRows, &str)> = SYSTEMS
        .iter()
        .filter_map(|(system, name)| {
            let rows =
                grid.iter().find(|s| s.protocol == Protocol::Published && s.system == *system)?;
            Some((rows, *name))
        })
        .collect();
    if found.is_empty() {
        return None;
    }
    let title = "Figure B: RMSE against learning rate and number of steps";
    let mut canvas = Canvas::new(960.0, 236.0 * found.len() as f64 + 24.0, title);
    for (i, (system, name)) in found.iter().enumerate() {
        let top = 52.0 + 236.0 * i as f64;
        let value = |rule: Rule, steps: u32, lr: f64| {
            let rows = system.rows.iter().filter(|row| {
                matches!(row.method, Method::Imap(o) if o.rule == rule && o.steps == steps && o.lr == Some(lr))
            });
            best(rows).map(|row| row.summary.rmse)
        };
        let all = RULES.iter().flat_map(|(rule, _)| {
            STEP_COUNTS.iter().flat_map(move |&k| LEARNING_RATES.map(|lr| (*rule, k, lr)))
        });
        let lowest =
            all.filter_map(|(rule, k, lr)| value(rule, k, lr)).fold(f64::INFINITY, f64::min);
        canvas.text((16.0, top - 30.0), name, &Text::new(13.0).bold().at(Anchor::Start));
        for (j, (rule, rule_name)) in RULES.into_iter().enumerate() {
            let left = 54.0 + 227.0 * j as f64;
            let width = CELL.0 * STEP_COUNTS.len() as f64;
            canvas.text((left + width / 2.0, top - 8.0), rule_name, &Text::new(11.5).bold());
            for (b, &lr) in LEARNING_RATES.iter().enumerate() {
                let y = top + CELL.1 * b as f64;
                if j == 0 {
                    canvas.text(
                        (left - 6.0, y + 16.0),
                        &lr.to_string(),
                        &Text::new(10.5).at(Anchor::End),
                    );
                }
                for (a, &steps) in STEP_COUNTS.iter().enumerate() {
                    let x = left + CELL.0 * a as f64;
                    let Some(rmse) = value(rule, steps, lr) else {
                        canvas.rect(x, y, CELL.0 - 1.0, CELL.1 - 1.0, "#dddddd");
                        canvas.text(
                            (x + CELL.0 / 2.0, y + 15.5),
                            "×",
                            &Text { color: "#666666", ..Text::new(11.0) },
                        );
                        continue;
                    };
                    let (fill, light) = color(rmse / lowest);
                    canvas.rect(x, y, CELL.0 - 1.0, CELL.1 - 1.0, &fill);
                    let text =
                        if rmse < 9.995 { format!("{rmse:.2}") } else { format!("{rmse:.0}") };
                    let style =
                        Text { color: if light { "#ffffff" } else { "#222222" }, ..Text::new(9.3) };
                    canvas.text((x + CELL.0 / 2.0, y + 15.5), &text, &style);
                }
            }
            for (a, &steps) in STEP_COUNTS.iter().enumerate() {
                let x = left + CELL.0 * (a as f64 + 0.5);
                canvas.text((x, top + 5.0 * CELL.1 + 13.0), &steps.to_string(), &Text::new(10.5));
            }
            canvas.text(
                (left + width / 2.0, top + 5.0 * CELL.1 + 30.0),
                "steps K per measurement",
                &Text::new(11.0),
            );
        }
        let upwards = Text { upwards: true, ..Text::new(11.0) };
        canvas.text((17.0, top + 2.5 * CELL.1), "learning rate η", &upwards);
    }
    let note = "Numbers are mean RMSE; colour is the ratio to the system's best (dark blue 1, white about 3, orange 8 and more). × diverges or exceeds 1000.";
    canvas.text((480.0, 236.0 * found.len() as f64 + 12.0), note, &Text::new(10.5));
    Some(Figure {
        name: "figure-b-rate-by-steps",
        caption: "Mean RMSE for every learning rate and number of steps (published protocol); for RMSprop and Adam the best of the three decays. A band of constant rate times steps works best \
                  for gradient descent."
            .into(),
        svg: canvas.finish(),
    })
}

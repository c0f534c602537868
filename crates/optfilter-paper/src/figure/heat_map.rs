//! Figure B: RMSE against learning rate and number of steps, as heat maps.

use super::picture::{Picture, untitled};
use crate::cells::best;
use crate::grid::{GridMethod as Method, LEARNING_RATES, Rule, STEP_COUNTS};
use crate::outcome::SystemRows;
use crate::protocol::Protocol;
use crate::systems::{Dynamics, System};
use optfilter_plot::{Axis, Cell, Color, Mark, Panel};

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

/// From good (dark blue) over white to bad (orange), by the logarithm of the ratio to the best; and whether a text on it is light.
fn shade(ratio: f64) -> (Color, bool) {
    let s = (ratio.ln() / 8.0_f64.ln()).clamp(0.0, 1.0);
    let [dark, pale, warm] = [0x0c_4a_82, 0xf6_f6_f0, 0xd5_5e_00];
    let color = if s < 0.5 {
        Color::mix(dark, pale, 2.0 * s)
    } else {
        Color::mix(pale, warm, 2.0 * s - 1.0)
    };
    (color, !(0.2..=0.92).contains(&s))
}

/// The figure with its caption; `None` if none of its systems was run.
pub fn picture(grid: &[SystemRows]) -> Option<Picture> {
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
    let mut figure = untitled(title, RULES.len(), 24.0 * LEARNING_RATES.len() as f64);
    for (system, name) in found {
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
        for (j, (rule, rule_name)) in RULES.into_iter().enumerate() {
            let steps = STEP_COUNTS.iter().enumerate();
            let steps = steps.map(|(a, k)| (a as f64 + 0.5, k.to_string()));
            let x = Axis::linear("steps K per measurement").range(0.0, STEP_COUNTS.len() as f64);
            let rates = LEARNING_RATES.iter().rev().enumerate();
            let rates = rates.map(|(b, lr)| (b as f64 + 0.5, lr.to_string()));
            let (label, rates) =
                if j == 0 { ("learning rate η", rates.collect()) } else { ("", Vec::new()) };
            let y = Axis::linear(label).range(0.0, LEARNING_RATES.len() as f64);
            let mut panel =
                Panel::new(rule_name, x.ticks(steps).without_grid(), y.ticks(rates).without_grid());
            panel.heading = if j == 0 { name.into() } else { String::new() };
            let cells = STEP_COUNTS.iter().enumerate().flat_map(|(a, &steps)| {
                let value = &value;
                LEARNING_RATES.iter().rev().enumerate().map(move |(b, &lr)| {
                    let (a, b) = (a as f64, b as f64);
                    let (color, light, text) = match value(rule, steps, lr) {
                        None => (Color::fixed(0xdd_dd_dd), false, "×".to_owned()),
                        Some(rmse) => {
                            let (color, light) = shade(rmse / lowest);
                            let digits = if rmse < 9.995 { 2 } else { 0 };
                            (color, light, format!("{rmse:.digits$}"))
                        }
                    };
                    let text_color = Color::fixed(if light { 0xff_ff_ff } else { 0x22_22_22 });
                    Cell { x: (a, a + 1.0), y: (b, b + 1.0), color, text, text_color }
                })
            });
            figure.panels.push(panel.with(Mark::cells(cells)));
        }
    }
    figure.note = "Numbers are mean RMSE; colour is the ratio to the system's best (dark blue 1, white about 3, orange 8 and more). × diverges or exceeds 1000.".into();
    Some(Picture {
        name: "figure-b-rate-by-steps",
        caption: "Mean RMSE for every learning rate and number of steps (published protocol); for RMSprop and Adam the best of the three decays. A band of constant rate times steps works best \
                  for gradient descent."
            .into(),
        figure,
    })
}

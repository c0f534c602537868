//! Random model files: every function, likelihood and link, with noise, bounds, angles, inputs and filter settings.
//!
//! A third of the models is linear, a third is well behaved, a third is whatever the grammar gives: an equation that
//! leaves the numbers at once tests the refusal, and one that does not tests all the rest.

use optfilter::optim::AnyOptimizer;
use optfilter::rng::Stream;
use optfilter_model::expr::Function;
use std::fmt::Write;

/// Random choices from a named stream.
pub struct Dice(Stream);

impl Dice {
    pub fn new(seed: u64, index: u64) -> Self {
        Self(Stream::new(seed, index, "storm"))
    }

    pub fn chance(&mut self, share: f64) -> bool {
        self.0.uniform() < share
    }

    /// From 0 to `below`, without it.
    pub fn whole(&mut self, below: usize) -> usize {
        ((self.0.uniform() * below as f64) as usize).min(below - 1)
    }

    pub fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.whole(of.len())]
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.uniform()
    }

    pub fn normal(&mut self) -> f64 {
        self.0.normal()
    }

    /// A positive number: mostly of ordinary size, sometimes of any.
    pub fn size(&mut self) -> f64 {
        let power =
            if self.chance(0.95) { self.between(-3.0, 1.5) } else { self.between(-170.0, 170.0) };
        10f64.powf(power)
    }
}

/// How the equations behave.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Linear,
    Tame,
    Wild,
}

/// The text of a model file.
pub fn model_file(dice: &mut Dice) -> String {
    let manner = [Manner::Linear, Manner::Tame, Manner::Wild][dice.whole(3)];
    let named = |letter: &str, count: usize| -> Vec<String> {
        (0..count).map(|i| format!("{letter}{i}")).collect()
    };
    let states = named("x", 1 + dice.whole(6));
    let inputs = named("u", if dice.chance(0.6) { 0 } else { 1 + dice.whole(2) });
    let parameters = named("p", dice.whole(3));
    let continuous = dice.chance(0.35);
    let mut known: Vec<String> = [&states[..], &inputs, &parameters].concat();
    known.extend(["t", "pi", "e"].map(String::from));

    let mut out = format!("states = {states:?}\n");
    if !inputs.is_empty() {
        let _ = writeln!(out, "inputs = {inputs:?}");
    }
    let _ = writeln!(out, "[parameters]");
    for name in &parameters {
        let _ = writeln!(out, "{name} = {}", number(dice));
    }
    if manner != Manner::Linear && dice.chance(0.3) {
        let _ = writeln!(out, "[definitions]\nshared = \"{}\"", expression(dice, &known, 2));
        known.push("shared".into());
    }
    let _ = writeln!(out, "[dynamics]");
    let mut moving = known.clone();
    if !continuous {
        moving.extend(["dt", "k"].map(String::from));
    }
    for (i, name) in states.iter().enumerate() {
        let own = if continuous { -dice.between(0.0, 1.5) } else { dice.between(0.3, 1.02) };
        let mut equation = format!("{own:.3}*{name}");
        match manner {
            Manner::Wild => equation = expression(dice, &moving, 4),
            Manner::Tame => {
                let inner = expression(dice, &moving, 2);
                let _ = write!(equation, " + 0.2*{}({inner})", dice.pick(&["sin", "tanh", "atan"]));
            }
            Manner::Linear => {
                let other = &states[dice.whole(states.len())];
                let _ = write!(equation, " + {:.3}*{other}", 0.2 * dice.normal());
                if let Some(input) = inputs.get(i) {
                    let _ = write!(equation, " - {input}");
                }
            }
        }
        match continuous {
            true => drop(writeln!(out, "\"d{name}/dt\" = \"{equation}\"")),
            false => drop(writeln!(out, "{name} = \"{equation}\"")),
        }
    }
    if continuous {
        let _ = writeln!(
            out,
            "[integrator]\nmethod = {:?}\nsubsteps = {}",
            dice.pick(&["rk4", "euler"]),
            1 + dice.whole(3)
        );
    }
    known.extend(["dt", "k"].map(String::from));
    let (outputs, needs_noise) = observations(dice, manner, &states, &known, &mut out);
    if dice.chance(0.9) {
        let _ = writeln!(out, "[process_noise]\n{}", spread(dice, states.len(), true));
        if dice.chance(0.3) {
            let _ = writeln!(out, "per = \"time\"");
        }
    }
    if dice.chance(if needs_noise { 0.95 } else { 0.3 }) {
        let _ = writeln!(out, "[measurement_noise]\n{}", spread(dice, outputs, false));
    }
    let mean: Vec<String> =
        states.iter().map(|_| plain(dice.normal() * dice.size().min(1e3))).collect();
    let _ = writeln!(
        out,
        "[initial]\nmean = [{}]\n{}",
        mean.join(", "),
        spread(dice, states.len(), true)
    );
    some_states(dice, &states, "angles", 0.2, &mut out, |_| "true".into());
    some_states(dice, &states, "bounds", 0.3, &mut out, |dice| {
        let low = 2.0 * dice.normal();
        let high = if dice.chance(0.05) { low } else { low + dice.size() };
        match dice.whole(4) {
            0 => "[0, inf]".into(),
            1 => "[-inf, 1.5]".into(),
            2 => "[-1, 1]".into(),
            _ => format!("[{}, {}]", plain(low), plain(high)),
        }
    });
    let _ =
        writeln!(out, "[time]\ndt = {}", plain(if dice.chance(0.7) { 0.1 } else { dice.size() }));
    if dice.chance(0.4) {
        let _ = writeln!(out, "column = \"when\"");
    }
    filter(dice, &mut out);
    out
}

/// The table of observations; returns their number, and whether one of them needs measurement noise.
fn observations(
    dice: &mut Dice,
    manner: Manner,
    states: &[String],
    known: &[String],
    out: &mut String,
) -> (usize, bool) {
    let count = 1 + dice.whole(3);
    let mut needs_noise = false;
    let all_gaussian = dice.chance(0.5);
    for i in 0..count {
        let state = &states[dice.whole(states.len())];
        let mut equation = match manner {
            Manner::Wild => expression(dice, known, 3),
            Manner::Tame => format!("{state} + 0.3*sin({})", expression(dice, known, 2)),
            Manner::Linear => format!("{:.3}*{state} + {}", 1.0 + dice.normal(), states[0]),
        };
        let kind = if all_gaussian { 0 } else { dice.whole(9) };
        let law = match kind {
            0 | 1 => "likelihood = \"gaussian\"".into(),
            2 => format!("likelihood = \"student-t\", dof = {}", plain(dice.size())),
            3 => format!("likelihood = \"huber\", delta = {}", plain(dice.size())),
            4 => "likelihood = \"poisson\", link = \"log\"".into(),
            5 => "likelihood = \"poisson\"".into(),
            6 => "likelihood = \"bernoulli\", link = \"logit\"".into(),
            7 => "likelihood = \"bernoulli\", link = \"identity\"".into(),
            _ => "likelihood = \"student-t\"".to_owned(),
        };
        if manner == Manner::Tame && kind == 5 {
            equation = format!("abs({equation}) + 0.1");
        }
        if manner == Manner::Tame && kind == 7 {
            equation = format!("0.5 + 0.4*tanh({equation})");
        }
        needs_noise |= !law.contains("poisson") && !law.contains("bernoulli");
        let angle = dice.chance(0.15) && !law.contains("poisson") && !law.contains("bernoulli");
        let _ = writeln!(
            out,
            "[observation.y{i}]\nequation = \"{equation}\"\n{}",
            law.replace(", ", "\n")
        );
        if angle {
            let _ = writeln!(out, "angle = true");
        }
    }
    (count, needs_noise)
}

/// A table with a line for some of the states, in that share of the models.
fn some_states(
    dice: &mut Dice,
    states: &[String],
    table: &str,
    share: f64,
    out: &mut String,
    mut value: impl FnMut(&mut Dice) -> String,
) {
    if !dice.chance(share) {
        return;
    }
    let _ = writeln!(out, "[{table}]");
    for state in states {
        if dice.chance(0.6) {
            let value = value(dice);
            let _ = writeln!(out, "{state} = {value}");
        }
    }
}

/// A covariance of `n` components, in one of the ways to write it.
fn spread(dice: &mut Dice, n: usize, may_be_zero: bool) -> String {
    let zero = |dice: &mut Dice| may_be_zero && dice.chance(0.05);
    match dice.whole(4) {
        0 => format!("std = {}", plain(if zero(dice) { 0.0 } else { dice.size() })),
        1 | 2 => {
            let key = dice.pick(&["std", "var"]);
            let values: Vec<String> =
                (0..n).map(|_| plain(if zero(dice) { 0.0 } else { dice.size() })).collect();
            format!("{key} = [{}]", values.join(", "))
        }
        _ => {
            // A A' of a random A, rounded to what can be written, is symmetric and (nearly always) a covariance.
            let scale = dice.size().clamp(1e-60, 1e60);
            let a: Vec<f64> = (0..n * n).map(|_| dice.normal()).collect();
            let entry =
                |i: usize, j: usize| (0..n).map(|k| a[i * n + k] * a[j * n + k]).sum::<f64>();
            let row = |i: usize| {
                let entries: Vec<String> = (0..n)
                    .map(|j| {
                        plain(scale * (entry(i.min(j), i.max(j)) + if i == j { 0.1 } else { 0.0 }))
                    })
                    .collect();
                format!("[{}]", entries.join(", "))
            };
            format!("var = [{}]", (0..n).map(row).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Settings for every filter; each method reads those that concern it.
fn filter(dice: &mut Dice, out: &mut String) {
    let _ = writeln!(
        out,
        "[filter]\nsteps = {}\nparticles = {}",
        1 + dice.whole(8),
        1 + dice.whole(40)
    );
    let mut put = |dice: &mut Dice, share: f64, key: &str, value: &dyn Fn(&mut Dice) -> String| {
        if dice.chance(share) {
            let value = value(dice);
            let _ = writeln!(out, "{key} = {value}");
        }
    };
    // A window and conjugate gradients, with what they go with.
    let kind = dice.whole(12);
    match kind {
        0 => put(dice, 1.0, "window", &|_| "2\ncarry = true".into()),
        1 => put(dice, 1.0, "window", &|_| "3\nconstraint = \"weak\"".into()),
        2 | 3 => put(dice, 1.0, "window", &|d| (1 + d.whole(4)).to_string()),
        4 => put(dice, 1.0, "window", &|d| {
            format!("{}\noptimizer = \"cg\"\nprobes = {}", d.whole(3), d.whole(2))
        }),
        _ => put(dice, 0.4, "carry", &|_| "true".into()),
    }
    put(dice, 0.6, "irregular", &|_| "\"per_row\"".into());
    put(dice, 0.2, "gaps", &|d| format!("{:?}", d.pick(&["widen", "ignore"])));
    put(dice, 0.15, "discount", &|d| plain(d.between(0.01, 1.0)));
    put(dice, if kind == 4 { 0.0 } else { 0.8 }, "optimizer", &|d| {
        format!("{:?}", AnyOptimizer::NAMES[d.whole(AnyOptimizer::NAMES.len())])
    });
    put(dice, 0.7, "lr", &|d| plain(d.size()));
    put(dice, 0.2, "decay", &|d| plain(d.between(0.0, 1.0)));
    for key in ["beta1", "beta2"] {
        put(dice, 0.1, key, &|d| plain(d.between(0.0, 1.0)));
    }
    for key in ["eps", "accumulator"] {
        put(dice, 0.1, key, &|d| if d.chance(0.3) { "0".into() } else { plain(d.size()) });
    }
    for (key, share) in [("eps_in_sqrt", 0.1), ("strict", 0.1), ("predict_first", 0.3)] {
        put(dice, share, key, &|d| d.chance(0.8).to_string());
    }
    put(dice, 0.2, "error_bars", &|_| "false".into());
    put(dice, 0.15, "loss", &|d| format!("{:?}", d.pick(&["likelihood", "squared"])));
    put(dice, 0.2, "prior_var", &|d| plain(d.size()));
    put(dice, 0.1, "process_scale", &|d| plain(d.size()));
    put(dice, 0.5, "seed", &|d| d.whole(1000).to_string());
    put(dice, 0.5, "resampling", &|d| {
        format!("{:?}", d.pick(&["systematic", "stratified", "residual", "multinomial"]))
    });
    put(dice, 0.4, "threshold", &|d| plain(d.between(0.0, 1.0)));
    put(dice, 0.15, "alpha", &|d| plain(d.between(1e-4, 2.0)));
    put(dice, 0.15, "beta", &|d| plain(2.0 * d.normal()));
    put(dice, 0.15, "kappa", &|d| plain(3.0 * d.normal()));
}

/// A number as TOML and expressions read it.
fn plain(value: f64) -> String {
    format!("{value:e}")
}

/// A number of an equation: mostly an ordinary one.
fn number(dice: &mut Dice) -> String {
    match dice.whole(20) {
        0 => dice.pick(&["0", "1e-300", "1e300", "1e154", "1e-17", "1e17", "710", "-745"]).into(),
        1..=8 => dice.pick(&["1", "2", "0.5", "3", "-1", "10", "0.1"]).into(),
        _ => format!("{:.3}", 2.0 * dice.normal()),
    }
}

/// An expression whose tree is at most `depth` deep.
fn expression(dice: &mut Dice, names: &[String], depth: usize) -> String {
    if depth == 0 || dice.chance(0.15) {
        return if dice.chance(0.3) {
            format!("({})", number(dice))
        } else {
            names[dice.whole(names.len())].clone()
        };
    }
    let inner = |dice: &mut Dice| expression(dice, names, depth - 1);
    match dice.whole(12) {
        0 => format!("-{}", inner(dice)),
        1 => format!("(not {})", inner(dice)),
        2..=6 => {
            let operator = dice.pick(&["+", "-", "*", "/", "+", "*", "^"]);
            format!("({} {operator} {})", inner(dice), inner(dice))
        }
        7 => {
            let operator = dice.pick(&["<", "<=", ">", ">=", "==", "!=", "and", "or"]);
            format!("({} {operator} {})", inner(dice), inner(dice))
        }
        _ => {
            let (name, _, least, most) = Function::TABLE[dice.whole(Function::TABLE.len())];
            let count = least + dice.whole(most.min(4) - least + 1);
            let arguments: Vec<String> = (0..count).map(|_| inner(dice)).collect();
            format!("{name}({})", arguments.join(", "))
        }
    }
}

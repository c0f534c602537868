//! What a gradient through a model step costs, in evaluations of that step, and what a field of a model file costs beside a loop by hand.
//!
//! ```text
//! cargo run --release -p optfilter-model --example gradient_cost [STATES]...
//! ```
//!
//! All are one Runge-Kutta step. A gradient is the transposed Jacobian times a vector: written by hand (Lorenz '96 of the library), compiled from
//! the text of a model file (the same equation as a field, and two systems of single expressions), or by the tape, from a model in Rust that
//! says nothing of derivatives (Lorenz '96 once more, and a chain of pendulums, whose sines cost what the tape costs). Each time is the fastest of many.

use nalgebra::Dyn;
use optfilter::model::{
    Drift, Dynamics, Integrated, Integrator, Lorenz96, Step, transition_vjp_of,
};
use optfilter::scalar::Scalar;
use optfilter_model::{ModelSpec, TextModel};
use std::error::Error;
use std::time::Instant;

/// Lorenz '96 as somebody writes it who knows nothing of derivatives.
struct Plain(usize);

impl Drift for Plain {
    type State = Dyn;
    fn state_dim(&self) -> Dyn {
        Dyn(self.0)
    }
    fn drift<S: Scalar>(&self, x: &[S], _u: &[f64], _time: f64, out: &mut [S]) {
        let n = x.len();
        let mut rate = |i: usize, before: usize, twice: usize, next: usize| {
            out[i] = (x[next] - x[twice]) * x[before] - x[i] + S::from_f64(8.0);
        };
        for i in 2..n - 1 {
            rate(i, i - 1, i - 2, i + 1);
        }
        rate(0, n - 1, n - 2, 1);
        rate(1, 0, n - 1, 2);
        rate(n - 1, n - 2, n - 3, 0);
    }
}

/// Pendulums on a line, each held to the next by a spring: angles, then speeds.
struct Pendulums(usize);

impl Drift for Pendulums {
    type State = Dyn;
    fn state_dim(&self) -> Dyn {
        Dyn(self.0)
    }
    fn drift<S: Scalar>(&self, x: &[S], _u: &[f64], _time: f64, out: &mut [S]) {
        let half = x.len() / 2;
        for i in 0..half {
            let (before, next) = (x[i.saturating_sub(1)], x[(i + 1).min(half - 1)]);
            out[i] = x[half + i];
            out[half + i] = before + next - x[i] - x[i] - x[i].sin();
        }
    }
}

/// Lorenz '96 in a model file.
fn field(n: usize) -> Result<TextModel, Box<dyn Error>> {
    let text = format!(
        "states = [\"x[n]\"]\n[parameters]\nn = {n}\nF = 8\n[fields]\nx = {{ edges = \"periodic\" }}\n[dynamics]\n\
         \"dx[i]/dt\" = \"(x[i+1] - x[i-2])*x[i-1] - x[i] + F\"\n[observation]\n\
         \"y[i]\" = {{ equation = \"x[i]\", size = \"n\" }}\n[initial]\nmean = 0\nstd = 1\n"
    );
    Ok(ModelSpec::parse("field", &text).map_err(|e| e.to_string())?.compile())
}

/// A few states with an equation each.
fn expressions(dynamics: &str, states: &str) -> Result<TextModel, Box<dyn Error>> {
    let text = format!(
        "states = [{states}]\n[dynamics]\n{dynamics}\n[observation]\ny = \"{}\"\n[initial]\nmean = 0\nstd = 1\n",
        states.trim_matches('"').split('"').next().unwrap_or_default()
    );
    Ok(ModelSpec::parse("expressions", &text).map_err(|e| e.to_string())?.compile())
}

/// The fastest of many runs, in seconds.
fn fastest(mut f: impl FnMut()) -> f64 {
    let begun = Instant::now();
    f();
    // A tenth of a second in all, and of each clock reading at least ten microseconds.
    let once = begun.elapsed().as_secs_f64().max(1e-8);
    let inner = (1e-5 / once).ceil() as usize;
    let mut best = f64::INFINITY;
    for _ in 0..((0.2 / (once * inner as f64)) as usize).clamp(5, 20_000) {
        let begun = Instant::now();
        (0..inner).for_each(|_| f());
        best = best.min(begun.elapsed().as_secs_f64() / inner as f64);
    }
    best
}

/// Seconds of a step and of its VJP.
fn times<D: Dynamics<State = Dyn>>(model: &D) -> (f64, f64) {
    let n = model.state_dim().0;
    let x: Vec<f64> = (0..n).map(|i| 1.0 + f64::sin(1.7 * i as f64)).collect();
    let r: Vec<f64> = (0..n).map(|i| f64::cos(0.3 * i as f64)).collect();
    let (mut out, step) = (vec![0.0; n], Step::even(1, 0.01));
    let forwards = fastest(|| {
        model.transition(&x, &[], &step, &mut out);
        std::hint::black_box(&mut out);
    });
    let backwards = fastest(|| {
        transition_vjp_of(model, &x, &[], &step, &r, &mut out);
        std::hint::black_box(&mut out);
    });
    (forwards, backwards)
}

fn show(states: usize, name: &str, (forwards, backwards): (f64, f64), hand: Option<f64>) {
    let beside = hand.map_or("".into(), |hand| format!("{:.2}", forwards / hand));
    println!(
        "| {states} | {name} | {:.2} | {beside} | {:.1} |",
        1e6 * forwards,
        backwards / forwards
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<usize> =
        std::env::args().skip(1).map(|t| t.parse()).collect::<Result<_, _>>()?;
    let sizes = if given.is_empty() { vec![40, 1000, 100_000] } else { given };
    println!("| states | model | step, us | over the loop by hand | gradient, in steps |");
    println!("|---|---|---|---|---|");
    let lorenz =
        "dx/dt\" = \"10*(y - x)\"\n\"dy/dt\" = \"x*(28 - z) - y\"\n\"dz/dt\" = \"x*y - 8/3*z";
    let swing = "da/dt\" = \"v\"\n\"dv/dt\" = \"-9.81*sin(a) - 0.1*v*abs(v) + 0.2*exp(-a^2)";
    for (name, dynamics, states) in [
        ("expressions: Lorenz '63", lorenz, "\"x\", \"y\", \"z\""),
        ("expressions: a pendulum with drag", swing, "\"a\", \"v\""),
    ] {
        let model = expressions(&format!("\"{dynamics}\""), states)?;
        show(model.state_dim().0, name, times(&model), None);
    }
    for n in sizes {
        let hand = times(&Lorenz96::new(Dyn(n), 8.0).rk4());
        show(n, "by hand: Lorenz '96", hand, None);
        show(n, "field: Lorenz '96", times(&field(n)?), Some(hand.0));
        let plain = Integrated::new(Plain(n), Integrator::Rk4);
        show(n, "tape: Lorenz '96", times(&plain), None);
        let pendulums = Integrated::new(Pendulums(n), Integrator::Rk4);
        show(n, "tape: pendulums", times(&pendulums), None);
    }
    Ok(())
}

//! Model files: what is accepted, what is refused and where the finger points.

use nalgebra::Const;
use optfilter::model::{Dynamics, Erased, Growth, Lorenz63, Lorenz96, Observation, Step};
use optfilter::scalar::{Lanes, Scalar};
use optfilter_model::{LikelihoodKind, ModelSpec, TextModel, Time};
use optfilter_run::RunModel;

const PENDULUM: &str = r#"name = "Pendulum"
states = ["theta", "omega"]
inputs = ["torque"]

[parameters]
g = 9.81
L = 1.5
inertia = "L^2"

[definitions]
pull = "g/L*sin(theta)"

[dynamics]
theta = "theta + dt*omega"
omega = "omega + dt*(torque/inertia - pull)"

[observation]
angle = { equation = "theta", angle = true, likelihood = "student-t", dof = 5 }
height = "L*(1 - cos(theta))"

[process_noise]
std = { omega = 0.1 }

[measurement_noise]
var = [[0.04, 0.001], [0.001, 0.01]]

[initial]
mean = [0.5, 0]
std = 0.2

[bounds]
omega = [-20, 20]

[time]
dt = 0.01
column = "seconds"

[columns]
angle = "encoder 1"
"#;

fn parse(text: &str) -> Result<ModelSpec, optfilter_model::Diagnostic> {
    ModelSpec::parse("p.toml", text)
}

#[test]
fn a_full_file_is_read() {
    let spec = parse(PENDULUM).unwrap();
    assert_eq!(spec.observations, ["angle", "height"]);
    assert_eq!(spec.likelihoods[0], LikelihoodKind::StudentT { dof: 5.0 });
    assert_eq!(spec.column("angle"), "encoder 1");
    assert_eq!(spec.column("torque"), "torque");
    assert_eq!(spec.time, Time::Discrete);
    let q = &spec.process_noise.as_ref().unwrap().cov;
    assert_eq!((q.variance(0), q.variance(1)), (0.0, 0.1 * 0.1));
    let model = spec.compile();
    assert!(!model.is_linear());
    let (mut next, mut seen) = ([0.0; 2], [0.0; 2]);
    let step = Step::even(1, 0.01);
    model.transition(&[0.5, 0.2], &[3.0], &step, &mut next);
    let expected = 0.2 + 0.01 * (3.0 / 2.25 - 9.81 / 1.5 * 0.5f64.sin());
    assert_eq!(next[0], 0.5 + 0.01 * 0.2);
    assert!((next[1] - expected).abs() < 1e-15);
    model.observe(&next, &[3.0], &step, &mut seen);
    assert_eq!(seen[0], next[0]);
    let page = spec.describe();
    assert!(page.contains("θ + dt·ω") && page.contains("encoder 1"), "{page}");
}

/// Replaces one piece of a good file and returns what the reader says.
fn broken(from: &str, to: &str) -> String {
    assert!(PENDULUM.contains(from), "{from}");
    match parse(&PENDULUM.replacen(from, to, 1)) {
        Err(e) => e.one_line(),
        Ok(_) => format!("nothing about {from} -> {to}"),
    }
}

#[test]
fn every_mistake_is_pointed_at() {
    let mut wrong = Vec::new();
    for (from, to, expected) in [
        ("dt*omega\"", "dt*omgea\"", "p.toml:14:21: unknown name `omgea` (did you mean `omega`?)"),
        (
            "sin(theta)",
            "sine(theta)",
            "p.toml:11:13: there is no function `sine` (did you mean `sin`?)",
        ),
        ("1 - cos(theta)", "1 - cos(theta", "p.toml:19:13: this parenthesis is never closed"),
        (
            "dt*(torque",
            "dt(torque",
            "p.toml:15:18: there is no function `dt` (if this is a product, write `*` before `(`)",
        ),
        (
            "9.81",
            "\"2x\"",
            "p.toml:6:7: an operator is missing before this (write `*` between factors)",
        ),
        ("g = 9.81", "gravity = 9.81", "p.toml:11:9: unknown name `g`"),
        (
            "omega = \"omega + dt",
            "omga = \"omega + dt",
            "p.toml:15:1: `omga` is not among the states (did you mean `omega`?)",
        ),
        (
            "height = \"L*(1 - cos(theta))\"\n",
            "",
            "p.toml:24:7: the matrix has 2 rows where 1 is needed for `angle`",
        ),
        ("[0.5, 0]", "[0.5]", "p.toml:28:8: 1 entries are given for `theta` and `omega`"),
        ("std = 0.2", "sd = 0.2", "p.toml:29:1: [initial] has no key `sd` (did you mean `std`?)"),
        ("\nstd = 0.2", "", "p.toml:27:2: say whether [initial] is `std` or `var`"),
        ("mean = [0.5, 0]\n", "", "p.toml:27:2: [initial] has no `mean`"),
        ("std = 0.2", "std = 0.2\nvar = 1", "p.toml:30:1: `std` and `var` are both given"),
        ("student-t", "student", "p.toml:18:58: there is no likelihood `student`"),
        ("student-t", "gaussian", "p.toml:18:70: `dof` has no meaning for this likelihood"),
        ("[0.001, 0.01]", "[0.002, 0.01]", "p.toml:25:7: a covariance is symmetric"),
        (
            "[[0.04, 0.001], [0.001, 0.01]]",
            "[[0.04, 1], [1, 0.01]]",
            "p.toml:25:7: this matrix has a negative eigenvalue",
        ),
        ("[-20, 20]", "[20, -20]", "p.toml:32:9: the lower bound is above"),
        ("inputs = [\"torque\"]", "inputs = [\"sin\"]", "p.toml:3:11: `sin` already has a meaning"),
        ("inputs = [\"torque\"]", "inputs = [\"theta\"]", "p.toml:3:10: `theta` names two things"),
        (
            "[process_noise]",
            "[proces_noise]",
            "p.toml:21:2: a model file has no key `proces_noise` (did you mean `process_noise`?)",
        ),
        ("[observation]", "[observation", "p.toml:17:13: not valid TOML"),
        ("dt = 0.01", "dt = -1", "p.toml:35:6: this number must be positive"),
        (
            "std = { omega = 0.1 }",
            "std = { omeg = 0.1 }",
            "p.toml:22:9: `omeg` is not among the entries (did you mean `omega`?)",
        ),
        (
            "angle = \"encoder 1\"",
            "angel = \"encoder 1\"",
            "p.toml:39:1: `angel` is not among the inputs and observations (did you mean `angle`?)",
        ),
        (
            "theta = \"theta + dt*omega\"",
            "\"dtheta/dt\" = \"omega\"",
            "p.toml:15:1: some equations are rates",
        ),
        ("pull = \"g/L*sin(theta)\"", "pull = \"pull + 1\"", "p.toml:11:9: unknown name `pull`"),
        ("states = [\"theta\", \"omega\"]", "", "the states are missing"),
    ] {
        let said = broken(from, to);
        if !said.contains(expected) {
            wrong.push(format!("{from} -> {to}\n said     {said}\n expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let system = parse("system = \"lorenz36\"").unwrap_err().one_line();
    assert_eq!(
        system,
        "p.toml:1:10: there is no built-in system `lorenz36` (did you mean `lorenz63`?)"
    );
}

#[test]
fn every_built_in_is_a_sound_model() {
    for (name, _) in ModelSpec::built_ins() {
        let spec = parse(&format!("system = {name:?}")).unwrap_or_else(|e| panic!("{name}: {e}"));
        let model = spec.compile();
        let mut next = vec![0.0; spec.states.len()];
        let mut seen = vec![0.0; spec.observations.len()];
        let step = Step::even(3, spec.dt);
        let inputs = vec![0.5; spec.inputs.len()];
        model.transition(&spec.initial_mean, &inputs, &step, &mut next);
        model.observe(&next, &inputs, &step, &mut seen);
        assert!(next.iter().chain(&seen).all(|v| v.is_finite()), "{name}");
        let linear = ["local-level", "local-trend", "constant-velocity"].contains(&name);
        assert_eq!(model.is_linear(), linear, "{name}");
        assert!(spec.describe().len() > 200);
    }
}

#[test]
fn built_ins_move_as_the_systems_of_the_library() {
    let load = |name: &str| parse(&format!("system = {name:?}")).unwrap().compile();
    let compare = |text: &TextModel, x: &[f64], theirs: &dyn Fn(&[f64], &Step, &mut [f64])| {
        for index in 1..20 {
            let step = Step::even(index, 0.03);
            let (mut a, mut b) = (vec![0.0; x.len()], vec![0.0; x.len()]);
            text.transition(x, &[], &step, &mut a);
            theirs(x, &step, &mut b);
            for (a, b) in a.iter().zip(&b) {
                // The same operations, grouped differently: a few units in the last place.
                assert!((a - b).abs() <= 4e-15 * b.abs().max(1.0), "{a} {b}");
            }
        }
    };
    compare(&load("growth"), &[1.3], &|x, s, o| Growth.transition(x, &[], s, o));
    let lorenz = Lorenz63::default().rk4();
    compare(&load("lorenz63"), &[1.0, -2.0, 20.0], &|x, s, o| lorenz.transition(x, &[], s, o));
    let circle = Lorenz96::new(Const::<8>, 8.0).rk4();
    let x = [1.0, 2.0, 3.0, -1.0, 0.5, 4.0, -2.0, 0.1];
    compare(&load("lorenz96"), &x, &|x, s, o| circle.transition(x, &[], s, o));
}

#[test]
fn a_fixed_size_and_lanes_change_no_bit() {
    let model = parse("system = \"lorenz63\"").unwrap().compile();
    let fixed = Erased::new(model.clone()).sized::<3, 3>().unwrap();
    let step = Step::even(1, 0.02);
    let (mut a, mut b, mut c) = ([0.0; 3], [0.0; 3], [Lanes([0.0; 16]); 3]);
    let x = [1.0, 2.0, 30.0];
    model.transition(&x, &[], &step, &mut a);
    fixed.transition(&x, &[], &step, &mut b);
    fixed.transition(&x.map(Lanes::<16>::from_f64), &[], &step, &mut c);
    assert_eq!(a, b);
    assert_eq!(c, a.map(Lanes::<16>::from_f64));
}

#[test]
fn a_file_may_change_parts_of_a_built_in() {
    let text = "system = \"lorenz63\"\n[parameters]\nrho = 20\n[observation]\nheight = \"z\"\n[measurement_noise]\nstd = 0.5\n";
    let spec = parse(text).unwrap();
    assert_eq!(spec.observations, ["height"]);
    assert!(spec.parameters.contains(&("rho".into(), 20.0)));
    assert!(spec.parameters.contains(&("sigma".into(), 10.0)));
    assert_eq!(spec.measurement_cov.unwrap().variance(0), 0.25);
}

//! Fields in model files: the same numbers as loops by hand, forwards and backwards, and errors that point.

use nalgebra::Dyn;
use optfilter::model::{Dynamics, Lorenz96, Observation, Step};
use optfilter::scalar::{Dual, Lanes, Scalar};
use optfilter_model::{ModelSpec, TextModel};
use optfilter_run::RunModel;

const EXAMPLES: [&str; 4] =
    ["lorenz96", "kuramoto-sivashinsky", "advection-diffusion", "shallow-water"];

fn example(name: &str) -> ModelSpec {
    let path = format!("{}/../../examples/fields/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    ModelSpec::parse(name, &text).unwrap_or_else(|e| panic!("{e}"))
}

fn numbers(n: usize, phase: f64) -> Vec<f64> {
    (0..n).map(|i| 0.6 + 0.5 * (phase + 1.7 * i as f64).sin()).collect()
}

fn lorenz96(n: usize) -> TextModel {
    let text = format!(
        "states = [\"x[n]\"]\n[parameters]\nn = {n}\nF = 8\n[fields]\nx = {{ edges = \"periodic\" }}\n[dynamics]\n\
         \"dx[i]/dt\" = \"(x[i+1] - x[i-2])*x[i-1] - x[i] + F\"\n[observation]\n\
         \"y[i]\" = {{ equation = \"x[i]\", size = \"n\" }}\n[initial]\nmean = 0\nstd = 1\n"
    );
    ModelSpec::parse("lorenz96", &text).unwrap_or_else(|e| panic!("{e}")).compile()
}

#[test]
fn a_field_is_the_loop_by_hand_bit_for_bit_in_every_scalar() {
    fn compare<S: Scalar>(n: usize, point: impl Fn(usize) -> S) {
        let (text, hand) = (lorenz96(n), Lorenz96::new(Dyn(n), 8.0).rk4());
        let step = Step::even(1, 0.05);
        let x: Vec<S> = (0..n).map(point).collect();
        let (mut a, mut b) = (vec![S::ZERO; n], vec![S::ZERO; n]);
        text.transition(&x, &[], &step, &mut a);
        hand.transition(&x, &[], &step, &mut b);
        assert_eq!(a, b);
        let mut seen = vec![S::ZERO; n];
        text.observe(&x, &[], &step, &mut seen);
        assert_eq!(seen, x);
    }
    // Fewer points than the equation reaches, one block, blocks that do not divide the field.
    for n in [1, 2, 3, 5, 40, 128, 300] {
        let x = numbers(n, 0.3);
        compare::<f64>(n, |i| x[i]);
        compare::<Lanes<4>>(n, |i| Lanes([x[i], -x[i], x[i] + 1.0, 0.1]));
        compare::<Dual<f64, 3>>(n, |i| Dual::variable(x[i], i));
    }
}

/// Every way in which a difference or a sum is multiplied and something is added to it: blocks of plain numbers have the bits of wide
/// numbers, which go index by index.
#[test]
fn what_flows_along_a_field_has_the_same_bits_in_blocks() {
    for sum in ["+", "-"] {
        for rest in ["A + x[i]", "A - x[i]", "x[i] - A", "A*x[i]"] {
            for constant in ["", " + 8", " - 0.3"] {
                let rate = rest.replace('A', &format!("(x[i+1] {sum} x[i-2])*x[i-1]")) + constant;
                for n in [5, 40, 300] {
                    let text = format!(
                        "states = [\"x[{n}]\"]\n[fields]\nx = {{ edges = \"periodic\" }}\n[dynamics]\n\"dx[i]/dt\" = \"{rate}\"\n\
                         [observation]\ny = \"x[0]\"\n[initial]\nmean = 0\nstd = 1\n"
                    );
                    let model = ModelSpec::parse("flow", &text).unwrap().compile();
                    let (x, step) = (numbers(n, 0.3), Step::even(1, 0.05));
                    let wide: Vec<Dual<f64, 3>> =
                        x.iter().enumerate().map(|(i, v)| Dual::variable(*v, i)).collect();
                    let (mut plain, mut slopes) = (vec![0.0; n], vec![Dual::ZERO; n]);
                    model.transition(&x, &[], &step, &mut plain);
                    model.transition(&wide, &[], &step, &mut slopes);
                    let bits: Vec<u64> = slopes.iter().map(|d| d.re.to_bits()).collect();
                    assert_eq!(
                        plain.iter().map(|v| v.to_bits()).collect::<Vec<_>>(),
                        bits,
                        "{rate}"
                    );
                }
            }
        }
    }
}

#[test]
fn backwards_it_is_the_loop_by_hand_too() {
    for n in [1, 3, 40, 300] {
        let (text, hand) = (lorenz96(n), Lorenz96::new(Dyn(n), 8.0).rk4());
        let (x, r, step) = (numbers(n, 0.3), numbers(n, 2.0), Step::even(1, 0.05));
        let (mut a, mut b) = (vec![0.0; n], vec![0.0; n]);
        text.transition_vjp().unwrap()(&text, &x, &[], &step, &r, &mut a);
        hand.transition_vjp().unwrap()(&hand, &x, &[], &step, &r, &mut b);
        for (a, b) in a.iter().zip(&b) {
            // The sums are taken in another order.
            assert!((a - b).abs() <= 1e-14 * (1.0 + b.abs()), "{n}: {a} {b}");
        }
    }
}

/// r'(J v) = (J' r)'v, to the rounding of both sums.
#[track_caller]
fn check_adjoint(forward: &[f64], v: &[f64], backward: &[f64], r: &[f64]) {
    let dot = |a: &[f64], b: &[f64]| {
        let products = a.iter().zip(b).map(|(a, b)| a * b);
        products.fold((0.0, 0.0), |(sum, size), p: f64| (sum + p, size + p.abs()))
    };
    let ((left, size), (right, other)) = (dot(r, forward), dot(v, backward));
    assert!((left - right).abs() <= 1e-13 * size.max(other), "{left} {right}");
    assert!(size > 0.0);
}

#[test]
fn every_example_passes_the_adjoint_test_and_simulates() {
    for name in EXAMPLES {
        let spec = example(name);
        let (model, step) = (spec.compile(), Step::even(3, spec.dt));
        let (n, m) = (spec.states.len(), spec.observations.len());
        let (x, v) = (numbers(n, 0.0), numbers(n, 1.0));
        let point: Vec<Dual<f64, 1>> =
            x.iter().zip(&v).map(|(&re, &v)| Dual { re, eps: [v] }).collect();
        let tangent =
            |image: Vec<Dual<f64, 1>>| -> Vec<f64> { image.iter().map(|d| d.eps[0]).collect() };
        let mut image = vec![Dual::ZERO; n];
        model.transition(&point, &[], &step, &mut image);
        let (r, mut back) = (numbers(n, 2.0), vec![f64::NAN; n]);
        model.transition_vjp().unwrap()(&model, &x, &[], &step, &r, &mut back);
        check_adjoint(&tangent(image), &v, &back, &r);
        let mut image = vec![Dual::ZERO; m];
        model.observe(&point, &[], &step, &mut image);
        let (r, mut back) = (numbers(m, 2.0), vec![f64::NAN; n]);
        model.vjp().unwrap()(&model, &x, &[], &step, &r, &mut back);
        check_adjoint(&tangent(image), &v, &back, &r);

        let mut rows = 0;
        let mut largest = 0.0f64;
        spec.simulate(200, (1, 0), false, &[], |_, x, _| {
            rows += 1;
            largest = x.iter().fold(largest, |l, v| l.max(v.abs()));
            true
        })
        .unwrap();
        assert!(rows == 200 && largest < 50.0, "{name}: {largest}");
        assert!(spec.describe().contains("[i"), "{}", spec.describe());
    }
    assert!(example("advection-diffusion").compile().is_linear());
    assert!(!example("lorenz96").compile().is_linear());
}

const HEAT: &str = r#"
states = ["T[5,7]", "p"]
inputs = ["u"]
[fields]
T = { edges = "fixed", value = 3 }
[parameters]
k = 0.1
last = 6
[definitions]
gain = "2*u"
"slope[a,b]" = "T[a,b+1] - T[a,b]"
[dynamics]
"T[i,j]" = "T[i,j] + 0.1*(T[i+1,j] + T[i-1,j] + slope[i,j] - slope[i,j-1] - 2*T[i,j]) + p*gain*j*T[0,last]"
p = "p + T[4,0] - T[1,last]"
[observation]
"edge[j]" = { equation = "T[0, 2*j] + p", size = 4 }
all = "T[2,3]*p"
[initial]
mean = { T = 1, p = 2 }
std = { T = 0.5, p = 1, "T[0,0]" = 4 }
[bounds]
T = [0, 10]
p = [-1, 1]
"#;

#[test]
fn two_indices_fixed_edges_definitions_and_single_states_mean_what_they_say() {
    let text = HEAT.replace("k = 0.1\n", "");
    let spec = ModelSpec::parse("heat", &text).unwrap_or_else(|e| panic!("{e}"));
    let model = spec.compile();
    assert_eq!(spec.states.len(), 36);
    assert_eq!((&*spec.states[8], &*spec.states[35]), ("T[1,1]", "p"));
    assert_eq!(spec.observations, ["edge[0]", "edge[1]", "edge[2]", "edge[3]", "all"]);
    assert_eq!((spec.initial_mean[34], spec.initial_mean[35]), (1.0, 2.0));
    assert_eq!((spec.initial_cov.variance(0), spec.initial_cov.variance(1)), (16.0, 0.25));
    assert_eq!(spec.bounds.as_ref().unwrap()[34..], [(0.0, 10.0), (-1.0, 1.0)]);
    let (x, u) = (numbers(36, 0.0), 0.7);
    let (p, step) = (x[35], Step::even(1, 1.0));
    let at = |i: i64, j: i64| {
        if (0..5).contains(&i) && (0..7).contains(&j) { x[(i * 7 + j) as usize] } else { 3.0 }
    };
    let mut next = vec![0.0; 36];
    model.transition(&x, &[u], &step, &mut next);
    for i in 0..5 {
        for j in 0..7 {
            let around = at(i + 1, j) + at(i - 1, j) + at(i, j + 1) + at(i, j - 1) - 4.0 * at(i, j);
            let expected = at(i, j) + 0.1 * around + p * 2.0 * u * j as f64 * at(0, 6);
            assert!((next[(i * 7 + j) as usize] - expected).abs() < 1e-14);
        }
    }
    assert!((next[35] - (p + at(4, 0) - at(1, 6))).abs() < 1e-15);
    let mut seen = [0.0; 5];
    model.observe(&x, &[u], &step, &mut seen);
    assert_eq!(seen, [at(0, 0) + p, at(0, 2) + p, at(0, 4) + p, at(0, 6) + p, at(2, 3) * p]);
    optfilter::model::check_derivatives(&model, &x, &[u], &step).unwrap();
}

#[test]
fn mistakes_with_indices_are_shown_where_they_are() {
    let good = "states = [\"x[40]\"]\n[dynamics]\n\"dx[i]/dt\" = \"x[i]\"\n[observation]\n\
                \"y[i]\" = { equation = \"x[2*i]\", size = 20 }\n[initial]\nmean = 0\nstd = 1\n";
    assert!(ModelSpec::parse("good", good).is_ok());
    for (from, to, place, message) in [
        ("\"x[i]\"", "\"1 + x[i+1]\"", (3, 19), "the index 40 lies outside of `x`"),
        ("size = 20", "size = 21", (5, 24), "the index 40 lies outside of `x`"),
        ("\"x[i]\"", "\"x[40]\"", (3, 15), "the index 40 lies outside of `x`"),
        ("\"x[i]\"", "\"x\"", (3, 15), "`x` has one index, not 0"),
        ("\"x[i]\"", "\"x[i,i]\"", (3, 15), "`x` has one index, not 2"),
        ("\"x[i]\"", "\"-z[i]\"", (3, 16), "unknown name `z`"),
        ("\"x[i]\"", "\"x[j]\"", (3, 17), "unknown name `j`"),
        ("\"x[i]\"", "\"x[i/2]\"", (3, 17), "this is not an index"),
        ("\"x[i]\"", "\"x[0.5]\"", (3, 17), "an index is a whole number"),
        ("\"x[i]\"", "\"x[x[i]]\"", (3, 17), "this is not an index"),
        ("\"x[i]\"", "\"pi[i]\"", (3, 15), "`pi` is not a field"),
        ("\"x[i]\"", "\"x[i\"", (3, 16), "this bracket is never closed"),
        ("\"x[i]\"", "\"[i]\"", (3, 15), "`[` has no meaning here"),
        ("dx[i]/dt", "dx/dt", (3, 1), "`x` has one index, not 0"),
        ("dx[i]/dt", "dx[t]/dt", (3, 1), "`t` already has a meaning in expressions"),
        ("x[40]", "x[0]", (1, 11), "`0` is not a size"),
        ("x[40]", "x[4,4,4]", (1, 11), "a field has one index or two"),
        ("x[40]", "x[99999,99999]", (1, 11), "a field has at most"),
        (", size = 20", "", (5, 1), "`y[i]` has no size"),
        ("size = 20", "size = [4, 5]", (5, 40), "`y[i]` has one index"),
        (
            "[dynamics]",
            "[fields]\nz = { edges = \"periodic\" }\n[dynamics]",
            (3, 1),
            "`z` is not among",
        ),
        (
            "[dynamics]",
            "[fields]\nx = { edges = \"fixed\" }\n[dynamics]",
            (3, 15),
            "fixed edges have a value",
        ),
        (
            "[dynamics]",
            "[fields]\nx = { edges = \"mirror\" }\n[dynamics]",
            (3, 15),
            "there is no kind of edges",
        ),
        ("std = 1", "std = { x = 1, y = 2 }", (8, 16), "`y` is not among"),
    ] {
        let text = good.replace(from, to);
        let error =
            ModelSpec::parse("bad", &text).err().unwrap_or_else(|| panic!("accepted: {to}"));
        assert!(error.message.contains(message), "{to}: {error}");
        assert_eq!((error.line, error.column), place, "{to}: {error}");
    }
    // A sum of twenty thousand terms is no index, and no overflow of the stack.
    let long = good.replace("\"x[i]\"", &format!("\"x[i{}]\"", " + 0".repeat(20_000)));
    assert!(ModelSpec::parse("long", &long).unwrap_err().message.contains("not an index"));
    // Without fields, brackets say so.
    let plain = "states = [\"x\"]\n[dynamics]\nx = \"x[1]\"\n[observation]\ny = \"x\"\n[initial]\nmean = 0\nstd = 1\n";
    let error = ModelSpec::parse("plain", plain).unwrap_err();
    assert_eq!((error.line, error.column, &*error.message), (3, 6, "`x` is not a field"));
}

#[test]
fn a_field_of_a_hundred_thousand_needs_no_matrix() {
    let text = std::fs::read_to_string(format!(
        "{}/../../examples/fields/lorenz96.toml",
        env!("CARGO_MANIFEST_DIR")
    ));
    let text = text.unwrap().replace("x[40]", "x[100000]").replace("size = 20", "size = 50000");
    let spec = ModelSpec::parse("large", &text).unwrap_or_else(|e| panic!("{e}"));
    let (model, step) = (spec.compile(), Step::even(1, 0.05));
    let (x, mut next) = (numbers(100_000, 0.0), vec![0.0; 100_000]);
    model.transition(&x, &[], &step, &mut next);
    let mut back = vec![0.0; 100_000];
    model.transition_vjp().unwrap()(&model, &x, &[], &step, &next, &mut back);
    assert!(next.iter().chain(&back).all(|v| v.is_finite()));
    assert!(spec.describe().len() < 5000);
}

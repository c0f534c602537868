//! A filter that nobody chose must not be worse than no filter.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter::rng::Stream;
use optfilter_model::run::{Dataset, Layout};
use optfilter_model::table::{Format, Rows, Source, TableReader};
use optfilter_model::{FilterSpec, Method, ModelSpec};

/// The prediction error of a filter, relative to repeating the measurement before; infinite if it fails.
fn against_repeating(spec: &ModelSpec, data: &Dataset, filter: &FilterSpec) -> f64 {
    let yard = data.yardstick(spec, 0, data.len());
    let trace = data.trace(spec, filter, &yard, data.len()).unwrap();
    let ratio = trace.score(0..data.len()).prediction;
    let ratio = if trace.failed.is_some() { f64::INFINITY } else { ratio };
    println!("{:55} {ratio:.4} {}", spec.name, filter.flags());
    ratio
}

/// The filter that a model gets when nobody names one.
fn default(spec: &ModelSpec) -> FilterSpec {
    spec.fitted(&FilterSpec::default()).unwrap()
}

fn simulated(spec: &ModelSpec, rows: usize, seed: u64) -> Dataset {
    let inputs = vec![0.4; rows * spec.inputs.len()];
    let (mut states, mut outputs) = (Vec::new(), Vec::new());
    spec.simulate(rows, (seed, 0), false, &inputs, |_, x, y| {
        states.extend_from_slice(x);
        outputs.extend_from_slice(y);
        true
    })
    .unwrap();
    dataset(spec, with_inputs(&inputs, &outputs, rows), rows)
}

fn dataset(spec: &ModelSpec, values: Vec<f64>, rows: usize) -> Dataset {
    let mut table = Rows::default();
    (table.values, table.rows) = (values, rows);
    Dataset::new(spec, &Layout::new(spec, None), &table).unwrap()
}

/// Rows of inputs and outputs.
fn with_inputs(inputs: &[f64], outputs: &[f64], rows: usize) -> Vec<f64> {
    let row = |values: &[f64], k: usize| {
        let width = values.len() / rows;
        values[k * width..(k + 1) * width].to_vec()
    };
    (0..rows).flat_map(|k| [row(inputs, k), row(outputs, k)].concat()).collect()
}

#[test]
fn on_the_example_series() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/");
    for name in ["co2", "earthquakes", "elnino", "nile"] {
        let text = std::fs::read_to_string(format!("{folder}{name}.toml")).unwrap();
        let spec = ModelSpec::parse(name, &text).unwrap();
        let layout = Layout::new(&spec, None);
        let source = Source::File(std::fs::File::open(format!("{folder}{name}.csv")).unwrap());
        let mut reader = TableReader::open(source, Format::Csv, |_| layout.wanted(&spec)).unwrap();
        let mut rows = Rows::default();
        while reader.read(&mut rows, 1 << 16).unwrap() {}
        let data = Dataset::new(&spec, &layout, &rows).unwrap();
        let of_file = against_repeating(&spec, &data, &spec.filter);
        assert!(of_file < 1.0, "{name}: {of_file}");
        // Without its [filter] too. Of El Nino's months the model says that there is nothing to gain by doubting them, and
        // the default repeats them, up to what 50 steps leave.
        let fitted = against_repeating(&spec, &data, &default(&spec));
        assert!(fitted < if name == "elnino" { 1.0 + 1e-9 } else { 1.0 }, "{name}: {fitted}");
    }
}

#[test]
fn on_the_built_in_systems() {
    for (name, text) in ModelSpec::built_ins() {
        let spec = ModelSpec::parse(name, text).unwrap();
        let filter = default(&spec);
        let linear = ["local-level", "local-trend", "constant-velocity"].contains(&name);
        // Its measurement leaves the sign of the state open: an extended Kalman filter follows a wrong one.
        let lost = name == "growth";
        let method = if linear { Method::Kf } else { Method::Ekf };
        assert_eq!(filter.method(), if lost { Method::Pf } else { method }, "{name}");
        assert_eq!(spec.unmoved(&filter), [""; 0], "{name}");
        // Over ten simulations: of the pendulum's, one starts so far off that its filter never finds it.
        let ratio = |seed| against_repeating(&spec, &simulated(&spec, 200, seed), &filter);
        let squares: f64 = (0..10).map(ratio).map(|r| r * r).sum();
        assert!(squares < 10.0, "{name}: {}", (squares / 10.0).sqrt());
    }
}

/// Without noise a measurement is believed, whatever the units: about as good as repeating it.
#[test]
fn without_noise() {
    for (name, text) in ModelSpec::built_ins() {
        let mut spec = ModelSpec::parse(name, text).unwrap();
        let data = simulated(&spec, 400, 1);
        spec.process_noise = None;
        for with_r in [true, false] {
            if !with_r {
                spec.measurement_cov = None;
            }
            let filter = default(&spec);
            assert_eq!((filter.method(), filter.optimizer()), (Method::Imap, "gd"));
            let ratio = against_repeating(&spec, &data, &filter);
            // Nothing tells the sign of the growth system's state, and its equations throw a wrong one far.
            assert!(ratio < 1.05 || name == "growth", "{name}: {ratio}");
        }
    }
}

/// Fixes of a car that turns, some of them far off.
fn gps(rows: usize, seed: u64) -> Vec<f64> {
    let mut stream = Stream::new(seed, 0, "gps");
    let (mut x, mut y, mut heading) = (0.0, 0.0, 0.3);
    let mut fixes = Vec::new();
    for _ in 0..rows {
        heading += 0.08 * stream.normal();
        x += 12.0 * f64::cos(heading);
        y += 12.0 * f64::sin(heading);
        let far = if stream.uniform() < 0.05 { 60.0 } else { 4.0 };
        fixes.extend([x + far * stream.normal(), y + far * stream.normal()]);
    }
    fixes
}

const CAR: &str = r#"
name = "car"
states = ["px", "py", "vx", "vy"]
[dynamics]
px = "px + dt*vx"
py = "py + dt*vy"
vx = "vx"
vy = "vy"
[observation]
east = { equation = "px" LAW }
north = { equation = "py" LAW }
[process_noise]
std = { px = 0.5, py = 0.5, vx = 1, vy = 1 }
[measurement_noise]
std = 4
[initial]
mean = 0
std = { px = 20, py = 20, vx = 15, vy = 15 }
"#;

#[test]
fn on_a_gps_track_with_outliers() {
    let noise = "[process_noise]\nstd = { px = 0.5, py = 0.5, vx = 1, vy = 1 }\n";
    for (law, method) in [("", Method::Kf), (", likelihood = \"student-t\"", Method::Ekf)] {
        let spec = ModelSpec::parse("car", &CAR.replace(" LAW", law)).unwrap();
        let bare = ModelSpec::parse("car", &CAR.replace(" LAW", law).replace(noise, "")).unwrap();
        assert_eq!(default(&spec).method(), method);
        assert_eq!(spec.unmoved(&default(&spec)), [""; 0]);
        // What no measurement can move is said: the velocities, by any filter that reads positions alone.
        assert_eq!(default(&bare).method(), Method::Imap);
        assert_eq!(bare.unmoved(&default(&bare)), ["vx", "vy"]);
        assert_eq!(spec.unmoved(&FilterSpec::of("imap").unwrap()), ["vx", "vy"]);
        for seed in 0..3 {
            let data = dataset(&spec, gps(600, seed), 600);
            let fitted = against_repeating(&spec, &data, &default(&spec));
            assert!(fitted < 0.9, "{fitted}");
            let blind = against_repeating(&bare, &data, &default(&bare));
            assert!(blind < 1.01, "{blind}");
        }
    }
}

/// A bias that nothing measures is named, under every filter that carries a covariance too.
#[test]
fn a_state_that_nothing_depends_on_is_named() {
    let text = CAR
        .replace(" LAW", "")
        .replace("\"vy\"]", "\"vy\", \"mood\"]")
        .replace("vy = \"vy\"\n", "vy = \"vy\"\nmood = \"mood\"\n");
    let text = text.replace("vx = 1, vy = 1", "vx = 1, vy = 1, mood = 1");
    let text = text.replace("vx = 15, vy = 15", "vx = 15, vy = 15, mood = 1");
    let spec = ModelSpec::parse("mood", &text).unwrap();
    for name in ["kf", "ekf", "iekf"] {
        assert_eq!(spec.unmoved(&FilterSpec::of(name).unwrap()), ["mood"], "{name}");
    }
    assert_eq!(spec.unmoved(&FilterSpec::of("imap").unwrap()), ["vx", "vy", "mood"]);
}

/// A setting of an optimizer names imap; a method that is named stays as it is.
#[test]
fn what_is_said_holds() {
    let spec = ModelSpec::parse("s", "system = \"local-level\"").unwrap();
    let steps = spec.fitted(&FilterSpec { steps: Some(3), ..FilterSpec::default() }).unwrap();
    assert_eq!(steps.flags(), "--method imap --optimizer adam --steps 3 --lr 0.1");
    let imap = spec.fitted(&FilterSpec::of("imap").unwrap()).unwrap();
    assert_eq!(imap.flags(), "--method imap --optimizer adam --steps 50 --lr 0.1");
    let scaled = FilterSpec { process_scale: Some(2.0), ..FilterSpec::default() };
    assert_eq!(spec.fitted(&scaled).unwrap().flags(), "--method kf --process-scale 2");
}

/// A random walk seen with this much noise.
fn walk(measurement_std: f64) -> ModelSpec {
    let text = format!(
        "states = [\"x\"]\n[dynamics]\nx = \"x\"\n[observation]\ny = \"x\"\n[process_noise]\nstd = 1\n\
         [measurement_noise]\nstd = {measurement_std}\n[initial]\nmean = 0\nstd = 1\n"
    );
    ModelSpec::parse("walk", &text).unwrap()
}

/// Where a Kalman filter of a right model would win less than 1 %, measurements are believed. That costs less than 1 % if the
/// model is right, and never is worse than repeating if it is wrong: here each change goes on by half of the one before.
#[test]
fn where_there_is_nothing_to_gain_nothing_is_lost() {
    for (std, method) in
        [(0.03, Method::Imap), (0.3, Method::Imap), (1.0, Method::Kf), (5.0, Method::Kf)]
    {
        let spec = walk(std);
        let filter = default(&spec);
        assert_eq!(filter.method(), method, "{std}");
        // Where a likelihood is asked for, as in a fit, it is the Kalman filter's all the same.
        assert_eq!(spec.classical(&FilterSpec::default()).unwrap().method(), Method::Kf);
        // And what smooths is Rauch, Tung and Striebel's.
        let smoother = spec.smoothing(&filter, 100).unwrap();
        assert_eq!(smoother.method(), Method::Kf);
        let (data, kf) = (simulated(&spec, 5000, 3), FilterSpec::of("kf").unwrap());
        let (chosen, best) =
            (against_repeating(&spec, &data, &filter), against_repeating(&spec, &data, &kf));
        assert!(chosen < 1.01 * best && chosen < 1.0 + 1e-9, "{std}: {chosen} {best}");
        if method == Method::Imap {
            let mut stream = Stream::new(1, 0, "momentum");
            let (mut y, mut change) = (0.0, 0.0);
            let moving = |_| {
                change = 0.5 * change + stream.normal();
                y += change;
                y
            };
            let data = dataset(&spec, (0..1000).map(moving).collect(), 1000);
            let chosen = against_repeating(&spec, &data, &filter);
            assert!(chosen < 1.0 + 1e-9, "{std}: {chosen}");
            assert!(against_repeating(&spec, &data, &kf) > chosen);
        }
    }
}

/// A deviation that is lost in the last place of a measurement moves nothing, whatever depends on it.
#[test]
fn what_is_measured_almost_exactly_moves_its_state() {
    for var in ["1e-36", "1e-60", "0"] {
        let text = format!(
            "states = [\"x\"]\n[dynamics]\nx = \"x\"\n[observation]\ny = \"x\"\n[process_noise]\nstd = 0.1\n\
             [measurement_noise]\nvar = {var}\n[initial]\nmean = -6.8\nstd = 1\n"
        );
        let spec = ModelSpec::parse("um", &text).unwrap();
        assert_eq!(default(&spec).method(), Method::Kf);
        assert_eq!(spec.unmoved(&default(&spec)), [""; 0], "{var}");
    }
}

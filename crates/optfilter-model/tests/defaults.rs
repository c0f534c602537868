//! A filter that nobody chose must not be worse than no filter.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter::rng::Stream;
use optfilter_model::run::{Dataset, Layout};
use optfilter_model::table::{Format, Rows, Source, TableReader};
use optfilter_model::{FilterSpec, Method, ModelSpec};

/// The prediction error of a filter, relative to repeating the measurement before.
fn against_repeating(spec: &ModelSpec, data: &Dataset, filter: &FilterSpec) -> f64 {
    let yard = data.yardstick(spec, 0, data.len());
    let trace = data.trace(spec, filter, &yard, data.len()).unwrap();
    assert!(trace.failed.is_none(), "{}: {:?}", spec.name, trace.failed);
    trace.score(0..data.len()).prediction
}

/// The filter that a model gets when nobody names one.
fn default(spec: &ModelSpec) -> FilterSpec {
    spec.fitted(&FilterSpec::default()).unwrap()
}

fn simulated(spec: &ModelSpec, rows: usize, seed: u64) -> Dataset {
    let (mut states, mut outputs) = (Vec::new(), Vec::new());
    let inputs = vec![0.4; rows * spec.inputs.len()];
    spec.simulate(rows, (seed, 0), false, &inputs, |_, x, y| {
        states.extend_from_slice(x);
        outputs.extend_from_slice(y);
        true
    })
    .unwrap();
    let mut data = Dataset::simulated(spec, &states, &outputs);
    data.inputs = inputs;
    data
}

fn example(name: &str) -> (ModelSpec, Dataset) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/");
    let text = std::fs::read_to_string(format!("{folder}{name}.toml")).unwrap();
    let spec = ModelSpec::parse(name, &text).unwrap();
    let layout = Layout::new(&spec, None);
    let source = Source::of(std::path::Path::new(&format!("{folder}{name}.csv"))).unwrap();
    let mut reader = TableReader::open(source, Format::Csv, |_| layout.wanted(&spec)).unwrap();
    let mut rows = Rows::default();
    while reader.read(&mut rows, 1 << 16).unwrap() {}
    let data = Dataset::new(&spec, &layout, &rows).unwrap();
    (spec, data)
}

#[test]
fn on_the_example_series() {
    for name in ["co2", "earthquakes", "elnino", "nile"] {
        let (spec, data) = example(name);
        println!("{name} {}", against_repeating(&spec, &data, &spec.filter));
        println!(
            "{name} {} {}",
            against_repeating(&spec, &data, &default(&spec)),
            default(&spec).flags()
        );
    }
}

#[test]
fn on_the_built_in_systems() {
    for (name, text) in ModelSpec::built_ins() {
        let mut spec = ModelSpec::parse(name, text).unwrap();
        let all: Vec<Dataset> = (0..3).map(|seed| simulated(&spec, 400, seed)).collect();
        for what in ["", "no Q", "no R", "nothing"] {
            if what != "" {
                spec.process_noise = None;
            }
            if what == "nothing" {
                spec.measurement_cov = None;
            }
            if what == "no R" {
                continue;
            }
            let filter = default(&spec);
            for data in &all {
                let yard = data.yardstick(&spec, 0, data.len());
                let Ok(trace) = data.trace(&spec, &filter, &yard, data.len()) else {
                    println!("refused {name} {what}");
                    continue;
                };
                println!(
                    "{name:20} {what:8} {:.4} {:?} {}",
                    trace.score(0..data.len()).prediction,
                    trace.failed.map(|f| f.0),
                    filter.flags()
                );
            }
        }
    }
}

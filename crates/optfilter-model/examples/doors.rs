//! Cases for the test that walks through every door, and what the library itself makes of them.
//!
//! For every built-in system and every kind of data a model file and a table are written to a folder; `rust.txt` there
//! has, for every filter with its defaults, the results bit for bit, or the refusal. The program and the Python package
//! must give the same (`python/tests/test_doors.py`).
//!
//! `cargo run -p optfilter-model --example doors -- FOLDER`

use optfilter::Series;
use optfilter::rng::Stream;
use optfilter_model::{FilterSpec, Method, ModelSpec};
use optfilter_run::{CancelCheck, DynFilter, Estimate, OutputBuffers};
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

const ROWS: usize = 30;
const KINDS: [&str; 6] = ["full", "gaps", "partial", "times", "inputs", "angles"];

/// A built-in system, changed so that its data can be of that kind.
fn model_text(system: &str, kind: &str) -> String {
    let mut text = system.to_owned();
    // A system that goes by rows refuses irregular times, unless it is told what to make of them: one is, one is not.
    if kind == "times" && text.contains("Univariate growth") {
        text.push_str("\n[filter]\nirregular = \"per_row\"\n");
    }
    let first_state = || {
        let states = system.split("states = [").nth(1).unwrap_or_default();
        states.split('"').nth(1).unwrap_or_default().to_owned()
    };
    match kind {
        "times" if text.contains("[time]\n") => {
            text = text.replace("[time]\n", "[time]\ncolumn = \"when\"\n");
        }
        "times" => text.push_str("\n[time]\ncolumn = \"when\"\n"),
        "inputs" => {
            text = match text.contains("inputs = [") {
                true => text.replace("inputs = [", "inputs = [\"push\", "),
                false => format!("inputs = [\"push\"]\n{text}"),
            };
            // The first equation gets a push.
            if let Some((head, tail)) = text.split_once("[dynamics]\n")
                && let Some((equation, rest)) = tail.split_once("\"\n")
            {
                text = format!("{head}[dynamics]\n{equation} + 0.01*push\"\n{rest}");
            }
        }
        "angles" if !text.contains("[angles]") => {
            let _ = write!(text, "\n[angles]\n{} = true\n", first_state());
        }
        _ => {}
    }
    text
}

/// Times, inputs and observations of a case.
struct Data {
    times: Option<Vec<f64>>,
    inputs: Vec<f64>,
    outputs: Vec<f64>,
}

fn data(spec: &ModelSpec, kind: &str) -> Result<Data, Box<dyn Error>> {
    let (p, m) = (spec.inputs.len(), spec.observations.len());
    let mut stream = Stream::new(7, 0, kind);
    let inputs: Vec<f64> = (0..ROWS * p).map(|_| stream.normal()).collect();
    let mut outputs = Vec::new();
    spec.simulate(ROWS, (7, 0), false, &inputs, |_, _, y| {
        outputs.extend_from_slice(y);
        true
    })?;
    for row in 0..ROWS {
        let gone = stream.uniform() < 0.3;
        for i in 0..m {
            let missing = match kind {
                "gaps" => gone,
                "partial" => stream.uniform() < 0.4,
                _ => false,
            };
            if missing {
                outputs[row * m + i] = f64::NAN;
            }
        }
    }
    let mut time = 3.0;
    let times = (kind == "times").then(|| {
        let mut next = || {
            // Some rows at the same time as the one before.
            time += if stream.uniform() < 0.2 { 0.0 } else { spec.dt * 2.0 * stream.uniform() };
            time
        };
        (0..ROWS).map(|_| next()).collect()
    });
    Ok(Data { times, inputs, outputs })
}

fn table(spec: &ModelSpec, data: &Data) -> String {
    let (p, m) = (spec.inputs.len(), spec.observations.len());
    let mut head: Vec<&str> = data.times.iter().map(|_| "when").collect();
    head.extend(spec.inputs.iter().chain(&spec.observations).map(String::as_str));
    let mut text = head.join(",") + "\n";
    for row in 0..ROWS {
        let mut cells: Vec<f64> = data.times.iter().map(|t| t[row]).collect();
        cells.extend_from_slice(&data.inputs[row * p..(row + 1) * p]);
        cells.extend_from_slice(&data.outputs[row * m..(row + 1) * m]);
        let cells: Vec<String> = cells.iter().map(|v| format!("{v}")).collect();
        text += &(cells.join(",") + "\n");
    }
    text
}

/// What a filter gives: means, deviations, innovations, their deviations, log-likelihoods, NIS.
fn results(runner: &dyn DynFilter, series: &Series<'_>) -> Result<Vec<f64>, Box<dyn Error>> {
    let (n, m, _) = runner.dims();
    let rows = series.len();
    let kept = if runner.has_cov() { rows } else { 0 };
    let mut means = vec![0.0; rows * n];
    let mut covs = vec![0.0; kept * n * n];
    let mut innovations = vec![0.0; rows * m];
    let mut innovation_covs = vec![0.0; kept * m * m];
    let (mut log_likelihoods, mut nis) = (vec![f64::NAN; rows], vec![f64::NAN; rows]);
    let mut into = OutputBuffers {
        means: &mut means,
        covs: &mut covs,
        innovations: &mut innovations,
        innovation_covs: &mut innovation_covs,
        log_likelihoods: &mut log_likelihoods[..kept],
        nis: &mut nis[..kept],
        ..OutputBuffers::default()
    };
    runner.run(runner.default_start(), series, &mut into, &CancelCheck::NEVER)?;
    let mut out = Vec::new();
    for k in 0..rows {
        let part =
            |all: &[f64], width: usize| all.get(k * width..(k + 1) * width).map(<[_]>::to_vec);
        let estimate = Estimate {
            mean: part(&means, n).unwrap_or_default(),
            cov: part(&covs, n * n).unwrap_or_default(),
            innovation: part(&innovations, m).unwrap_or_default(),
            innovation_cov: part(&innovation_covs, m * m).unwrap_or_default(),
            ..Estimate::default()
        };
        out.extend_from_slice(&estimate.mean);
        out.extend((0..n).map(|i| estimate.std(i)));
        out.extend_from_slice(&estimate.innovation);
        out.extend((0..m).map(|i| estimate.innovation_std(i)));
        out.extend([log_likelihoods[k], nis[k]]);
    }
    Ok(out)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("give a folder")?;
    let folder = Path::new(&folder);
    let mut lines = String::new();
    for (name, system) in ModelSpec::built_ins() {
        for kind in KINDS {
            let case = format!("{name}-{kind}");
            let text = model_text(system, kind);
            let spec = ModelSpec::parse(&case, &text)?;
            let data = data(&spec, kind)?;
            std::fs::write(folder.join(format!("{case}.toml")), &text)?;
            std::fs::write(folder.join(format!("{case}.csv")), table(&spec, &data))?;
            let mut series = Series::new(&data.outputs, spec.observations.len())?
                .with_dt(spec.dt)?
                .with_inputs(&data.inputs, spec.inputs.len())?;
            if let Some(times) = &data.times {
                series = series.with_times(times)?;
            }
            for method in Method::ALL.map(Some).into_iter().chain([None]) {
                let filter = FilterSpec { method, ..FilterSpec::default() }.over(&spec.filter);
                let done = spec
                    .runner(&filter)
                    .map_err(Into::into)
                    .and_then(|runner| results(&*runner, &series));
                let method = method.map_or("default", Method::name);
                match done {
                    Ok(values) => {
                        let bits = values.iter().map(|v| format!(" {:016x}", v.to_bits()));
                        let _ = writeln!(lines, "{case} {method}{}", bits.collect::<String>());
                    }
                    Err(_) => {
                        let _ = writeln!(lines, "{case} {method} refused");
                    }
                }
            }
        }
    }
    std::fs::write(folder.join("rust.txt"), lines)?;
    Ok(())
}

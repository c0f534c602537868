//! Whatever a file holds, reading it ends with a value or an error, never with a panic. The fuzz targets
//! in `fuzz/` do the same with coverage feedback; this is the part that every `cargo test` runs.

use optfilter::model::{Dynamics, Observation, Step};
use optfilter::rng::Stream;
use optfilter_model::ModelSpec;
use optfilter_model::run::Layout;
use optfilter_model::table::{Format, Rows, Source, TableReader};

/// Changes a few bytes: replaced, removed, doubled, swapped for a piece of another seed.
fn mutate(text: &[u8], other: &[u8], stream: &mut Stream) -> Vec<u8> {
    const SPICE: &[&str] = &[
        "\"",
        "[",
        "]",
        "{",
        "}",
        "=",
        "\n",
        "((((",
        "))))",
        "^",
        "-",
        "1e999",
        "nan",
        "x",
        "\u{0}",
        "é",
        "[[",
        "\"\"\"",
        "if(",
        ",",
        "dt",
        "std",
        "999999999999999999999",
        "#",
        "'",
        "\\u0041",
        "0x",
    ];
    let mut out = text.to_vec();
    for _ in 0..1 + (stream.uniform() * 3.0) as usize {
        let at = (stream.uniform() * out.len() as f64) as usize;
        let length = (stream.uniform() * 12.0) as usize;
        let end = (at + length).min(out.len());
        match (stream.uniform() * 5.0) as usize {
            0 => {
                out.splice(at..end, []);
            }
            1 => {
                let piece = out[at..end].to_vec();
                out.splice(at..at, piece);
            }
            2 => {
                let from = (stream.uniform() * other.len() as f64) as usize;
                let to = (from + 3 * length).min(other.len());
                out.splice(at..end, other[from..to].iter().copied());
            }
            3 => {
                let word = SPICE[(stream.uniform() * SPICE.len() as f64) as usize];
                out.splice(at..at, word.bytes());
            }
            _ => {
                if let Some(byte) = out.get_mut(at) {
                    *byte = stream.bits() as u8;
                }
            }
        }
    }
    out
}

#[test]
fn mutated_model_files_never_panic() {
    let seeds: Vec<&str> = ModelSpec::built_ins().map(|s| s.1).collect();
    let mut stream = Stream::new(20, 0, "model files");
    let mut accepted = 0;
    for round in 0..4000 {
        let (a, b) = (seeds[round % seeds.len()], seeds[(round / 7) % seeds.len()]);
        let bytes = mutate(a.as_bytes(), b.as_bytes(), &mut stream);
        let text = String::from_utf8_lossy(&bytes);
        match ModelSpec::parse("mutated.toml", &text) {
            Ok(spec) => {
                accepted += 1;
                let model = spec.compile();
                let step = Step::even(1, spec.dt);
                let u = vec![0.5; spec.inputs.len()];
                let mut next = vec![0.0; spec.states.len()];
                let mut seen = vec![0.0; spec.observations.len()];
                model.transition(&spec.initial_mean, &u, &step, &mut next);
                model.observe(&next, &u, &step, &mut seen);
                assert!(!spec.describe().is_empty());
            }
            Err(e) => {
                assert!(e.line >= 1 && e.column >= 1 && !e.to_string().is_empty());
            }
        }
    }
    // Small changes often leave a valid file; if none did, the test would test little.
    assert!(accepted > 200, "{accepted}");
}

#[test]
fn mutated_tables_never_panic() {
    let spec = ModelSpec::parse("m", "system = \"robot\"\n[time]\ncolumn = \"t\"\n").unwrap();
    let layout = Layout::new(&spec, None);
    let csv =
        "t,speed,turn,range,bearing\n0,1,0,14.1,0.78\n0.1,1,0.5,,NaN\n\"0.2\",1,0,13.9,\"0.8\"\n";
    let json = "{\"t\": 0, \"speed\": 1, \"turn\": 0.5, \"range\": 3, \"bearing\": null}\n{\"t\": \"2026-11-15\", \"speed\": 1, \"turn\": 0, \"range\": 3.5}\n";
    let mut stream = Stream::new(21, 0, "tables");
    let mut accepted = 0;
    for round in 0..6000 {
        let (text, format) =
            if round % 2 == 0 { (csv, Format::Csv) } else { (json, Format::JsonLines) };
        let bytes = mutate(text.as_bytes(), json.as_bytes(), &mut stream);
        let input = std::io::Cursor::new(bytes);
        let Ok(mut reader) =
            TableReader::open(Source::Stream(Box::new(input)), format, |_| layout.wanted(&spec))
        else {
            continue;
        };
        let mut batch = Rows::default();
        while matches!(reader.read(&mut batch, 2), Ok(true)) {}
        accepted += usize::from(batch.rows > 0);
        assert!(batch.values.len() >= batch.rows * layout.width());
        for row in 0..batch.rows {
            let (time, u, y) = layout.split(&batch, row);
            assert!(time.is_some_and(f64::is_finite) && u.iter().all(|v| v.is_finite()));
            assert!(y.iter().all(|v| !v.is_infinite()));
            assert!(batch.time_text(row).is_some());
        }
    }
    assert!(accepted > 1000, "{accepted}");
}

#[test]
fn definitions_that_double_do_not_explode() {
    let mut text = "states = [\"x\"]\n[definitions]\nd0 = \"x\"\n".to_owned();
    for i in 1..200 {
        text.push_str(&format!("d{i} = \"d{} + d{}*d{}\"\n", i - 1, i - 1, i - 1));
    }
    text.push_str(
        "[dynamics]\nx = \"d199\"\n[observation]\ny = \"x\"\n[initial]\nmean = 0\nstd = 1\n",
    );
    let spec = ModelSpec::parse("m", &text).unwrap();
    let mut next = [1.0];
    spec.compile().transition(&[1e-9], &[], &Step::even(1, 1.0), &mut next);
    assert!(next[0] > 1e-9 && next[0] < 1e-8);
}

#[test]
fn deep_and_long_expressions_are_refused_or_read() {
    let nested = format!("{}x{}", "(".repeat(100_000), ")".repeat(100_000));
    let signs = format!("{}x", "-".repeat(100_000));
    let long = format!("x{}", " + x".repeat(100_000));
    let powers = format!("x{}", "^x".repeat(100_000));
    for expression in [nested, signs, long, powers] {
        let text = format!(
            "states = [\"x\"]\n[dynamics]\nx = \"{expression}\"\n[observation]\ny = \"x\"\n[initial]\nmean = 0\nstd = 1\n"
        );
        let error = ModelSpec::parse("m", &text).unwrap_err();
        let said = ["nested", "more than 32000 operations"];
        assert!(said.iter().any(|s| error.message.contains(s)), "{}", error.message);
    }
}

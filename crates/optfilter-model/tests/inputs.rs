//! Which value of an input acts on a step: what the rules say, beside their definitions; and what a model file may say.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter::rng::Stream;
use optfilter_model::ModelSpec;
use optfilter_model::run::{Dataset, Held, Interpolation, Layout, acting_inputs};
use optfilter_model::table::Rows;
use optfilter_run::FilterSpec;

fn model(rule: &str) -> String {
    format!(
        "states = [\"x\"]\n[inputs]\nu = {{ {rule} }}\n[dynamics]\n\"dx/dt\" = \"u\"\n[observation]\ny = \"x\"\n\
         [process_noise]\nvar = 1\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n[time]\ncolumn = \"t\"\n"
    )
}

fn spec(rule: &str) -> ModelSpec {
    ModelSpec::parse("m.toml", &model(rule)).unwrap()
}

/// Times, inputs (NaN where there is none) and measurements; the first row states the input.
fn rows(seed: u64) -> Vec<(f64, f64, f64)> {
    let mut stream = Stream::new(seed, 0, "rows");
    let mut t = 0.0;
    (0..60)
        .map(|k| {
            let stated = k == 0 || stream.uniform() < 0.4;
            let row = (t, if stated { stream.normal() } else { f64::NAN }, stream.normal());
            t += if stream.uniform() < 0.2 { 0.0 } else { stream.uniform() };
            row
        })
        .collect()
}

fn table(rows: &[(f64, f64, f64)]) -> Rows {
    let mut out = Rows::default();
    out.rows = rows.len();
    out.values = rows.iter().flat_map(|(t, u, y)| [*t, *u, *y]).collect();
    out
}

/// By definition, from all that is stated, for a step that has a length.
fn by_definition(rule: &str, rows: &[(f64, f64, f64)], k: usize) -> f64 {
    let (a, b) = (rows[k - 1].0, rows[k].0);
    let stated: Vec<(f64, f64)> =
        rows.iter().filter(|r| !r.1.is_nan()).map(|r| (r.0, r.1)).collect();
    // Of several at one time the first ends the interval before it, and the last begins the one after it.
    let next = stated.iter().find(|s| s.0 >= b);
    let last = stated.iter().rev().find(|s| s.0 <= a).unwrap();
    let end = stated.last().unwrap();
    let line = |t: f64, from_right: bool| {
        let before =
            stated.iter().rev().find(|s| if from_right { s.0 <= t } else { s.0 < t }).unwrap();
        let after = stated.iter().find(|s| if from_right { s.0 > t } else { s.0 >= t });
        after.map_or(before.1, |after| {
            before.1 + (after.1 - before.1) * (t - before.0) / (after.0 - before.0)
        })
    };
    match rule {
        "next" => next.unwrap_or(end).1,
        "previous" => last.1,
        _ => (line(a, true) + line(b, false)) / 2.0,
    }
}

#[test]
fn rules_are_what_they_say() {
    for rule in ["next", "previous", "mean"] {
        let spec = spec(&format!("hold = \"{rule}\""));
        let layout = Layout::new(&spec, None);
        for seed in 0..40 {
            let rows = rows(seed);
            let data = Dataset::new(&spec, &layout, &table(&rows)).unwrap();
            for k in (1..rows.len()).filter(|&k| rows[k].0 > rows[k - 1].0) {
                let (found, wanted) = (data.input(k)[0], by_definition(rule, &rows, k));
                assert!((found - wanted).abs() < 1e-12, "{rule} {seed} {k}: {found} {wanted}");
            }
            // The same from arrays, and in two parts where nothing waits.
            let of = |rows: &[(f64, f64, f64)], held: &mut Held| {
                let column =
                    |i: usize| -> Vec<f64> { rows.iter().map(|r| [r.0, r.1, r.2][i]).collect() };
                acting_inputs(&spec, Some(&column(0)), &column(1), &column(2), held)
            };
            assert_eq!(of(&rows, &mut Held::new(&spec)), data.inputs);
            if rule == "previous" {
                let mut held = Held::new(&spec);
                let mut parts = of(&rows[..23], &mut held);
                let mut again = Held::new(&spec);
                again.restore(held.values());
                parts.extend(of(&rows[23..], &mut again));
                assert_eq!(parts, data.inputs);
            }
        }
    }
}

/// Rows that were passed over say what those after them have, as if all had been wanted.
#[test]
fn rows_that_are_passed_over_still_count() {
    let spec = spec("hold = \"mean\"");
    let layout = Layout::new(&spec, None);
    let rows = rows(5);
    let all = |passed: usize, size: usize| -> Vec<f64> {
        let mut lines = Interpolation::new(&spec, &layout).unwrap();
        rows[..passed].chunks(size).for_each(|part| lines.pass(table(part)));
        let mut out: Vec<Rows> = Vec::new();
        rows[passed..].chunks(7).for_each(|part| out.extend(lines.push(table(part))));
        out.extend(lines.finish());
        out.iter().flat_map(|batch| batch.values.clone()).collect()
    };
    let whole = all(0, 1);
    assert_eq!(whole.len(), 180);
    for passed in 1..60 {
        for size in [1, 4, 64] {
            assert_eq!(all(passed, size), whole[3 * passed..], "{passed} {size}");
        }
    }
}

#[test]
fn before_its_first_value_an_input_has_its_default_or_none() {
    let first = |rule: &str| {
        let spec = spec(rule);
        let nan = f64::NAN;
        let rows = table(&[(0.0, nan, 1.0), (1.0, nan, 1.0), (2.0, 6.0, 1.0), (3.0, 8.0, 1.0)]);
        Dataset::new(&spec, &Layout::new(&spec, None), &rows).unwrap().inputs
    };
    assert_eq!(first("hold = \"next\""), [6.0, 6.0, 6.0, 8.0]);
    assert_eq!(first("hold = \"next\", default = 2"), [2.0, 2.0, 6.0, 8.0]);
    assert_eq!(first("hold = \"previous\", default = 2"), [2.0, 2.0, 2.0, 6.0]);
    assert_eq!(first("hold = \"mean\", default = 2"), [2.0, 2.0, 4.0, 7.0]);
    assert_eq!(first("hold = true, default = 2"), [2.0, 2.0, 6.0, 8.0]);
    assert_eq!(first("interpolate = true, default = 2"), [2.0, 2.0, 6.0, 8.0]);
    for rule in ["previous", "mean"] {
        let found = first(&format!("hold = \"{rule}\""));
        assert!(found[..3].iter().all(|v| v.is_nan()) && found[3] >= 6.0, "{found:?}");
    }
}

#[test]
fn rules_that_make_no_sense_are_refused_with_what_does() {
    let error = |text: &str| ModelSpec::parse("m.toml", text).unwrap_err();
    for rule in [
        "hold = \"nxt\"",
        "hold = 3",
        "default = \"a\"",
        "hold = true, interpolate = true",
        "hold = \"mean\", interpolate = true",
    ] {
        assert_eq!(error(&model(rule)).line, 3, "{rule}");
    }
    assert_eq!(error(&model("hold = \"nxt\"")).help.as_deref(), Some("did you mean `next`?"));
    // A measurement reads what is stated at its row. Following the advice is enough, and gives both.
    for (rule, wanted) in [("previous", [1.0, 2.0]), ("mean", [1.5, 2.0])] {
        let text = model(&format!("hold = \"{rule}\"")).replace("y = \"x\"", "y = \"x + u\"");
        let refused = error(&text);
        assert!(
            refused
                .help
                .unwrap()
                .contains("u_now = {} under [inputs] and u_now = \"u\" under [columns]")
        );
        let text =
            text.replace("[dynamics]", "u_now = {}\n[dynamics]").replace("x + u\"", "x + u_now\"");
        let spec =
            ModelSpec::parse("m.toml", &format!("{text}[columns]\nu_now = \"u\"\n")).unwrap();
        let layout = Layout::new(&spec, None);
        let columns: Vec<String> = layout.wanted(&spec).into_iter().map(|w| w.column).collect();
        assert_eq!(columns, ["t", "u", "u", "y"]);
        let mut rows = Rows::default();
        (rows.rows, rows.values) = (2, vec![0.0, 1.0, 1.0, 0.0, 1.0, 2.0, 2.0, 0.0]);
        assert_eq!(Dataset::new(&spec, &layout, &rows).unwrap().input(1), wanted);
    }
}

const TIED: &str = "states = [\"level\", \"c\"]\ninputs = [\"wind\"]\n[parameters]\nq = 0.25\n[definitions]\nhalf = \"q/2\"\nwhole = \"half + half\"\n\
    gust = \"whole*wind\"\nmoved = \"level + 1\"\n[dynamics]\nlevel = \"level\"\nc = \"c\"\n[observation]\ny = \"level + c\"\n\
    [process_noise]\nvar = { level = 1, c = \"SPREAD\" }\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nstd = 1\n";

/// Noise reads definitions like equations do.
#[test]
fn noise_reads_definitions() {
    let read = |spread: &str| ModelSpec::parse("m.toml", &TIED.replace("SPREAD", spread));
    let same = |a: &str, b: &str| {
        let (a, b) = (read(a).unwrap(), read(b).unwrap());
        assert_eq!(a.process_noise, b.process_noise);
        assert_eq!(a.inputs, b.inputs);
        let laws = |spec: &ModelSpec| {
            let layout = Layout::new(spec, None);
            let mut rows = Rows::default();
            rows.rows = 20;
            for k in 0..20 {
                rows.values.extend(spec.inputs.iter().map(|_| 1.0 + f64::from(k % 3)));
                rows.values.push(f64::from(k % 7));
            }
            let mut out = Vec::new();
            let data = Dataset::new(spec, &layout, &rows).unwrap();
            let kf = FilterSpec::of("kf").unwrap();
            data.run(spec, &kf, 20, |_, e| out.extend([e.mean[0], e.std(1)])).unwrap().unwrap();
            out
        };
        assert_eq!(laws(&a), laws(&b));
    };
    same("whole", "0.25");
    same("whole + q", "0.5");
    same("gust", "0.25*wind");
    same("2*gust^2 + half", "2*(0.25*wind)^2 + 0.125");
    let refused = read("moved").unwrap_err();
    assert_eq!(
        (refused.line, refused.message.as_str()),
        (16, "noise cannot depend on a state, and `level` is one")
    );
    // Definitions that double each time.
    let mut text = String::from("d0 = \"wind\"\n");
    (1..60).for_each(|k| text += &format!("d{k} = \"d{0} + d{0}\"\n", k - 1));
    let text = TIED.replace("half =", &format!("{text}half =")).replace("SPREAD", "d59");
    assert!(ModelSpec::parse("m.toml", &text).unwrap_err().message.contains("too many parts"));
}

/// However long the file, what is said of it is short.
#[test]
fn errors_quote_a_little_of_a_long_file() {
    let text = model("hold = true");
    let long = 1 << 20;
    for (from, to) in [
        ("\"u\"", format!("\"{}u{}\"", "(".repeat(long), ")".repeat(long))),
        ("\"u\"", format!("\"{}u{}\"", "(".repeat(1000), ")".repeat(1000))),
        ("\"u\"", format!("\"{}\"", "u".repeat(200_000))),
        ("\"u\"", format!("\"u{}\"", " + u*0".repeat(40_000))),
        ("[dynamics]", format!("{} = 1\n[dynamics]", "k".repeat(long))),
        ("[dynamics]", format!("k = {}\n[dynamics]", "[".repeat(long))),
        ("hold", "h".repeat(long)),
        ("x\"]", format!("{}\"]", "x ".repeat(long))),
        ("states", format!("{}\nstates", "é".repeat(long))),
    ] {
        let error = ModelSpec::parse("m.toml", &text.replacen(from, &to, 1)).unwrap_err();
        assert!(error.to_string().len() < 4000 && error.one_line().len() < 4000, "{}", error.line);
    }
}

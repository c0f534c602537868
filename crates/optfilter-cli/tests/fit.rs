//! `optfilter fit` from end to end.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;
use serde_json::Value;

const LEVEL: &str = "# mine\nstates = [\"level\"]\n[dynamics]\nlevel = \"level\"\n[observation]\nvolume = \"level\"\n\
    [process_noise]\nvar = 5000 # a guess\n[measurement_noise]\n# of the gauge\nstd = 50 # metres\n[initial]\nmean = 1000\nstd = 300\ndiffuse = true\n\
    [time]\ncolumn = \"year\"\n";

#[test]
fn the_nile_is_fitted_as_durbin_and_koopman_did() {
    let folder = Folder::new();
    let (model, data) = (folder.write("m.toml", LEVEL), example("nile.csv"));
    let found: Value = serde_json::from_str(&ok(&["fit", &model, &data, "--json"])).unwrap();
    let of = |name: &str, what: &str| found["parameters"][name][what].as_f64().unwrap();
    // Section 2.10 of the book prints 15099 and 1469.1, and a log-likelihood of -632.54 less what diffuse means there.
    assert!((of("measurement_noise.volume", "estimate") / 15099.0 - 1.0).abs() < 1e-3, "{found}");
    assert!((of("process_noise.level", "estimate") / 1469.1 - 1.0).abs() < 1e-3, "{found}");
    assert!(of("process_noise.level", "std_error") > 100.0);
    let (likelihood, aic) =
        (found["log_likelihood"].as_f64().unwrap(), found["aic"].as_f64().unwrap());
    assert!((aic - (6.0 - 2.0 * likelihood)).abs() < 1e-9);
    assert!(found["bic"].as_f64().unwrap() > aic);

    let page = ok(&["fit", &model, &data]);
    for part in
        ["process_noise.level", "log-likelihood", "AIC", "BIC", "Correlations", "one state diffuse"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("Warning"), "{page}");
}

#[test]
fn estimates_are_saved_and_filtered_with() {
    let folder = Folder::new();
    let (model, data) = (folder.write("m.toml", LEVEL), example("nile.csv"));
    let page = ok(&[
        "fit",
        &model,
        &data,
        "--free",
        "measurement_noise",
        "--save",
        &folder.name("new.toml"),
    ]);
    assert!(page.contains("Saved to "), "{page}");
    let saved = folder.read("new.toml");
    assert!(saved.starts_with("# mine\n") && saved.contains("var = 5000 # a guess"), "{saved}");
    ok(&["filter", &folder.name("new.toml"), &data]);
    ok(&["fit", &model, &data, "--save"]);
    let saved = folder.read("m.toml");
    assert!(!saved.contains("var = 5000"), "{saved}");
    // What is said of a value stays with it.
    assert!(saved.lines().any(|l| l.starts_with("var = ") && l.ends_with(" # a guess")), "{saved}");
    assert!(saved.contains("[measurement_noise]\n# of the gauge\n# metres\nvar = "), "{saved}");
    let again: Value = serde_json::from_str(&ok(&["fit", &model, &data, "--json"])).unwrap();
    let level = &again["parameters"]["process_noise.level"];
    let (start, end) = (level["start"].as_f64().unwrap(), level["estimate"].as_f64().unwrap());
    assert!((start / end - 1.0).abs() < 1e-5, "{level}");
    let other = folder.write("other.toml", "x");
    assert_eq!(run(&["fit", &model, &data, "--save", &other]).status.code(), Some(2));
    assert_eq!(run(&["fit", "local-level", &data, "--save"]).status.code(), Some(2));
}

#[test]
fn several_tables_are_several_series() {
    let folder = Folder::new();
    let model = folder.write("m.toml", "system = \"local-level\"\n");
    let tables: Vec<String> = ["1", "2", "3"]
        .iter()
        .map(|seed| {
            let text = ok(&["simulate", "local-level", "--steps", "80", "--seed", seed]);
            folder.write(&format!("{seed}.csv"), &text)
        })
        .collect();
    let mut args = vec!["fit", model.as_str(), "--json"];
    args.extend(tables.iter().map(String::as_str));
    let all: Value = serde_json::from_str(&ok(&args)).unwrap();
    assert_eq!((&all["series"], &all["rows"]), (&3.into(), &240.into()));
    // At the common optimum their likelihoods add up, each from a start of its own.
    let fixed = |value: &Value, name: &str| value["parameters"][name]["estimate"].as_f64().unwrap();
    let (q, r) = (fixed(&all, "process_noise.level"), fixed(&all, "measurement_noise.y"));
    let text = format!(
        "system = \"local-level\"\n[process_noise]\nvar = {q}\n[measurement_noise]\nvar = {r}\n"
    );
    let fitted = folder.write("fitted.toml", &text);
    let of = |table: &String| -> f64 {
        let out = folder.name("out.csv");
        let json = ok(&["filter", &fitted, table, "--method", "kf", "--json", "-o", &out]);
        serde_json::from_str::<Value>(&json).unwrap()["log_likelihood"].as_f64().unwrap()
    };
    let (sum, found) =
        (tables.iter().map(of).sum::<f64>(), all["log_likelihood"].as_f64().unwrap());
    assert!((sum - found).abs() < 1e-9 * found.abs(), "{sum} {found}");
}

#[test]
fn mistakes_are_named() {
    let folder = Folder::new();
    let (model, data) = (folder.write("m.toml", LEVEL), example("nile.csv"));
    let refused = |args: &[&str]| {
        let output = run(args);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, message) = refused(&["fit", &model, &data, "--free", "mesurement_noise"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("did you mean `measurement_noise`?"), "{message}");
    let particles = folder.write("pf.toml", &format!("{LEVEL}[filter]\nmethod = \"pf\"\n"));
    let (code, message) = refused(&["fit", &particles, &data]);
    assert_eq!(code, Some(2));
    assert!(message.contains("fit with kf, ekf, iekf or ukf"), "{message}");
    ok(&["fit", &particles, &data, "--method", "kf"]);
    // A number that is computed from a free parameter would not follow it.
    let text = "states = [\"x\"]\n[parameters]\na = 0.5\nb = \"2*a\"\n[dynamics]\nx = \"a*x + b\"\n[observation]\ny = \"x\"\n\
        [process_noise]\nvar = 1\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nstd = 1\n";
    let derived = folder.write("d.toml", text);
    let ys = folder.write("d.csv", "y\n1\n2\n1\n2\n");
    let (code, message) = refused(&["fit", &derived, &ys, "--free", "a"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("`b` is computed from it"), "{message}");
    // What is advised is enough: of a parameter, and of noise.
    assert!(message.contains("write `b` under [definitions]"), "{message}");
    let text = text.replace("b = \"2*a\"", "[definitions]\nb = \"2*a\"");
    ok(&["fit", &folder.write("e.toml", &text), &ys, "--free", "a"]);
    for spread in ["a", "b"] {
        let text = text
            .replace("[process_noise]\nvar = 1", &format!("[process_noise]\nvar = \"{spread}\""));
        let tied = folder.write("t.toml", &text);
        ok(&["filter", &tied, &ys, "-q"]);
        let (code, message) = refused(&["fit", &tied, &ys, "--free", "a"]);
        assert_eq!(code, Some(2));
        let advice = "write its values as numbers, and free those in its place, each for itself: --free process_noise";
        assert!(message.contains(advice), "{message}");
        ok(&["fit", &tied, &ys, "--free", "process_noise"]);
    }
}

const COUNTS: &str = "states = [\"x\"]\n[parameters]\ngrowth = 0 # a guess\n[dynamics]\nx = \"x + growth\"\n[observation.y]\nequation = \"x\"\n\
    likelihood = \"poisson\"\nlink = \"log\"\n[initial]\nmean = 0\nstd = 1\n";

/// Counts that grow are a regression: `GLM([3, 4, 8, 11], [1, t], Poisson)` of statsmodels 0.15 has the slope 0.45560035.
#[test]
fn counts_are_fitted_along_a_window() {
    let folder = Folder::new();
    let model = folder.write("m.toml", COUNTS);
    let counts = folder.write("d.csv", "y\n3\n4\n8\n11\n");
    let saved = folder.name("new.toml");
    let page = ok(&["fit", &model, &counts, "--save", &saved]);
    assert!(page.contains("maximum likelihood of windows of imap\n4 rows, one window\n"), "{page}");
    assert!(page.contains("growth  0.455600"), "{page}");
    assert!(folder.read("new.toml").contains("growth = 0.45560"), "{}", folder.read("new.toml"));
    let found = |args: &[&str]| -> Value {
        let mut all = vec!["fit", &model, "--json"];
        all.extend_from_slice(args);
        serde_json::from_str(&ok(&all)).unwrap()
    };
    let slope = |found: &Value| found["parameters"]["growth"]["estimate"].as_f64().unwrap();
    let whole = found(&[&counts]);
    assert!((slope(&whole) - 0.455_600_35).abs() < 1e-7, "{whole}");
    assert_eq!((&whole["criterion"], &whole["windows"]), (&"window".into(), &1.into()));
    assert_eq!(whole["first_states"], 1);
    // Two windows of two rows: the first states of both are found, and the ratios 4 : 3 and 11 : 8 are all that is left.
    let cut = found(&[&counts, "--window", "1"]);
    assert_eq!((&cut["windows"], &cut["first_states"]), (&2.into(), &2.into()));
    assert!((slope(&cut) - (15.0f64 / 11.0).ln()).abs() < 1e-7, "{cut}");
    // The same as two series, in one table or in two.
    let both = folder.write("b.csv", "who,y\na,3\na,4\nb,8\nb,11\n");
    let (a, b) = (folder.write("1.csv", "y\n3\n4\n"), folder.write("2.csv", "y\n8\n11\n"));
    for args in [&[both.as_str(), "--by", "who"][..], &[a.as_str(), b.as_str()][..]] {
        assert!((slope(&found(args)) - slope(&cut)).abs() < 1e-9);
    }
    let each = ok(&["fit", &model, &both, "--by", "who", "--each", "--json"]);
    let each: Value = serde_json::from_str(&each).unwrap();
    assert!((slope(&each["series"][0]) - (4.0f64 / 3.0).ln()).abs() < 1e-7, "{each}");
    assert!((slope(&each["series"][1]) - (11.0f64 / 8.0).ln()).abs() < 1e-7, "{each}");
    let predicted = found(&[&counts, "--method", "imap", "--criterion", "prediction"]);
    assert_eq!(
        (&predicted["criterion"], &predicted["windows"]),
        (&"prediction".into(), &Value::Null)
    );
}

#[test]
fn a_criterion_that_does_not_suit_is_named() {
    let folder = Folder::new();
    let (model, data) = (folder.write("m.toml", LEVEL), example("nile.csv"));
    for (args, part) in [
        (&["--criterion", "window", "--method", "kf"][..], "is that of imap, not of kf"),
        (
            &["--criterion", "window", "--free", "process_noise"],
            "the path through a window has no process noise",
        ),
        (&["--criterion", "guess"], "[possible values: likelihood, window, prediction]"),
        (&["--method", "kf", "--window", "5"], "kf has no window"),
    ] {
        let mut all = vec!["fit", model.as_str(), data.as_str()];
        all.extend_from_slice(args);
        let output = run(&all);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(part), "{message}");
    }
}

/// The Nile in units of a ten-thousandth, from variances of 1: as Durbin and Koopman's, 99 numbers less likely by ln 10^4 each.
#[test]
fn a_file_of_ones_will_do_for_rows_in_any_unit() {
    let folder = Folder::new();
    let ones = LEVEL.replace("var = 5000", "var = 1").replace("std = 50", "std = 1");
    let ones = ones.replace("mean = 1000", "mean = 0").replace("std = 300", "std = 1");
    let model = folder.write("m.toml", &ones);
    let nile = std::fs::read_to_string(example("nile.csv")).unwrap();
    let large = nile.lines().enumerate().map(|(k, line)| match line.split_once(',') {
        Some((year, flow)) if k > 0 => format!("{year},{flow}0000\n"),
        _ => format!("{line}\n"),
    });
    let data = folder.write("large.csv", &large.collect::<String>());
    let found = |more: &[&str]| -> Value {
        let args = [&["fit", &model, &data, "--json"][..], more].concat();
        serde_json::from_str(&ok(&args)).unwrap()
    };
    let all = found(&[]);
    assert!((all["log_likelihood"].as_f64().unwrap() + 1545.2883).abs() < 1e-3, "{all}");
    assert_eq!((&all["converged"], &all["warnings"]), (&true.into(), &Value::Array(vec![])));
    let few = found(&["--max-rows", "60"]);
    assert_eq!(few["rows"], 60, "{few}");
    assert_eq!(few["warnings"][0], "only the first 60 of 100 rows were fitted");
}

#[cfg(unix)]
#[test]
fn a_long_fit_ends_within_a_second_of_ctrl_c() {
    let folder = Folder::new();
    let model = folder.write("m.toml", "system = \"pendulum\"\n");
    let data = folder.name("swing.csv");
    ok(&["simulate", "pendulum", "--steps", "100000", "--seed", "1", "--out", &data]);
    let mut child = program()
        .args(["fit", &model, &data, "--free", "g,process_noise,measurement_noise"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let id = child.id().to_string();
    let begun = std::time::Instant::now();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let code = child.wait().unwrap().code();
    assert!(begun.elapsed().as_secs_f64() < 1.5, "{:?}", begun.elapsed());
    assert_eq!(code, Some(130));
}

//! The other commands from end to end.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;

#[test]
fn a_new_model_passes_its_own_check() {
    let folder = Folder::new();
    let path = folder.name("m.toml");
    ok(&["model", "new", "tracker", "--out", &path]);
    let page = ok(&["model", "check", &path]);
    assert!(page.starts_with("tracker\n  2 states, 1 observation\n"), "{page}");
    assert!(page.contains("velocity − dt·drag·velocity·|velocity|"));
    let again = run(&["model", "new", "tracker", "--out", &path]);
    assert_eq!(again.status.code(), Some(2));
    for (name, _) in optfilter_model::ModelSpec::built_ins() {
        let text = ok(&["model", "new", "mine", "--from", name]);
        let file = folder.write("b.toml", &text);
        ok(&["model", "check", &file, "--json"]);
        assert!(ok(&["model", "list"]).contains(name));
    }
}

#[test]
fn a_model_may_come_from_standard_input() {
    let folder = Folder::new();
    let data = folder.write("d.csv", "y\n1\n2\n");
    let output =
        run_with_input(&["filter", "-", &data, "--method", "kf"], "system = \"local-level\"");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 3);
}

#[test]
fn help_and_completions_exist_for_every_command() {
    for command in [
        "filter",
        "fit",
        "smooth",
        "forecast",
        "tune",
        "compare",
        "simulate",
        "explain",
        "model",
        "completions",
    ] {
        let help = ok(&[command, "--help"]);
        assert!(help.contains("Example"), "{command} shows an example");
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(ok(&["completions", shell]).contains("optfilter"));
    }
}

#[test]
fn simulations_repeat_and_differ_by_seed() {
    let draw = |seed: &str| ok(&["simulate", "lotka-volterra", "--steps", "50", "--seed", seed]);
    assert_eq!(draw("1"), draw("1"));
    assert_ne!(draw("1"), draw("2"));
    let counts = column(&draw("1"), "prey_count");
    assert!(counts.iter().all(|c| *c >= 0.0 && *c == c.floor()));
}

#[test]
fn explain_gives_the_prior_of_the_paper() {
    let folder = Folder::new();
    let model = folder.write(
        "m.toml",
        "states = [\"x\"]\n[dynamics]\nx = \"x\"\n[observation]\ny = \"2*x\"\n[measurement_noise]\nvar = 0.5\n\
         [initial]\nmean = 0\nstd = 1\n",
    );
    let args = [
        "explain",
        &model,
        "--optimizer",
        "gd",
        "--steps",
        "3",
        "--lr",
        "0.05",
        "--gain",
        "0.25",
        "--json",
    ];
    let value: serde_json::Value = serde_json::from_str(&ok(&args)).unwrap();
    // Curvature s = H^2 / R = 8. Prior = ((1 - lr s)^-K - 1) / s; K gradient steps move by
    // (1 - (1 - lr s)^K) of the way, which over H is the gain.
    let s = 8.0;
    let close = |a: &serde_json::Value, b: f64| {
        let a = a.as_f64().unwrap();
        assert!((a - b).abs() < 1e-12 * b.abs().max(1.0), "{a} {b}");
    };
    close(&value["largest_rate"], 1.0 / s);
    assert_eq!(value["admissible"], true);
    let kept = 0.6f64.powi(3);
    close(&value["implied_prior"][0][0], (1.0 / kept - 1.0) / s);
    close(&value["gain"][0][0], (1.0 - kept) / 2.0);
    close(&value["rates_for_gain"][0]["lr"], 0.25 / s);
    let steep = ok(&["explain", &model, "--optimizer", "gd", "--steps", "3", "--lr", "0.2"]);
    assert!(steep.contains("not admissible"), "{steep}");
    // lr s = 1.5: an odd number of steps ends beyond the minimum, two of them leave a quarter of the way.
    let odd = ok(&["explain", &model, "--optimizer", "gd", "--steps", "3", "--lr", "0.1875"]);
    assert!(odd.contains("not admissible"), "{odd}");
    let base = ["explain", &model, "--optimizer", "gd", "--lr", "0.1875", "--steps"];
    let even = ok(&[&base[..], &["2"]].concat());
    assert!(even.contains("is admissible") && even.contains("an even number"), "{even}");
    let value: serde_json::Value =
        serde_json::from_str(&ok(&[&base[..], &["2", "--json"]].concat())).unwrap();
    close(&value["implied_prior"][0][0], 3.0 / s);
    close(&value["gain"][0][0], 0.75 / 2.0);
    // lr s = 0.9 and 320 steps: a prior beyond all numbers, and no NaN.
    let wide = ok(&["explain", &model, "--optimizer", "gd", "--lr", "0.1125", "--steps", "320"]);
    assert!(wide.contains("wider than any number") && !wide.contains("NaN"), "{wide}");
    let adam = ok(&["explain", &model, "--optimizer", "adam", "--steps", "3", "--lr", "0.01"]);
    assert!(adam.contains("adapts its steps"));
}

/// Of x' = f x, y = h x: the rows of a window measure the state at its beginning by h, h f, h f^2, ...
#[test]
fn explain_gives_the_prior_of_a_window() {
    let folder = Folder::new();
    let model = folder.write(
        "m.toml",
        "states = [\"x\"]\n[dynamics]\nx = \"0.8*x\"\n[observation]\ny = \"2*x\"\n[measurement_noise]\nvar = 0.5\n\
         [initial]\nmean = 0\nstd = 1\n",
    );
    let (f, h, r, g, lr) = (0.8_f64, 2.0, 0.5, 0.9_f64, 0.03);
    let past = 2;
    let args = ["explain", &model, "--steps", "3", "--window", "2", "--discount", "0.9", "--json"];
    let gd = [&args[..], &["--optimizer", "gd", "--lr", "0.03"]].concat();
    let value: serde_json::Value = serde_json::from_str(&ok(&gd)).unwrap();
    let curvature: f64 = (0..=past).map(|j| g.powi(past - j) * (h * f.powi(j)).powi(2) / r).sum();
    let kept = (1.0 - lr * curvature).powi(3);
    let number = |value: &serde_json::Value| value[0][0].as_f64().unwrap();
    let prior = number(&value["implied_prior"]);
    assert!((prior - (1.0 / kept - 1.0) / curvature).abs() < 1e-12, "{value}");
    let gain = f.powi(past) * (1.0 - kept) / curvature * f.powi(past) * h / r;
    assert!((number(&value["gain"]) - gain).abs() < 1e-12, "{value}");
    // Without a memory momentum is gradient descent.
    let rule = ["--optimizer", "momentum", "--decay", "0", "--lr", "0.03"];
    let value: serde_json::Value = serde_json::from_str(&ok(&[&args[..], &rule].concat())).unwrap();
    assert!((number(&value["implied_prior"]) - prior).abs() < 1e-12, "{value}");
    assert!((number(&value["gain"]) - gain).abs() < 1e-12, "{value}");
    // What adapts its steps has no prior, and is run.
    let rule = ["--optimizer", "adam", "--lr", "0.03"];
    let value: serde_json::Value = serde_json::from_str(&ok(&[&args[..], &rule].concat())).unwrap();
    assert!(value["implied_prior"].is_null() && number(&value["gain"]) > 0.0, "{value}");
    // A path that may bend has no such prior, and another gain.
    let noisy = folder.write("n.toml", &(folder.read("m.toml") + "[process_noise]\nvar = 1\n"));
    let weak =
        ["explain", &noisy, "--steps", "3", "--window", "2", "--constraint", "weak", "--json"];
    let weak = [&weak[..], &["--optimizer", "gd", "--lr", "0.03"]].concat();
    let value: serde_json::Value = serde_json::from_str(&ok(&weak)).unwrap();
    assert!(value["implied_prior"].is_null(), "{value}");
    assert!((number(&value["gain"]) - gain).abs() > 1e-3, "{value}");
}

#[test]
fn tuning_finds_the_noise_it_was_not_told_and_saves_it() {
    let folder = Folder::new();
    // Data of a local level whose process noise is ten times smaller (in deviation) than the model says.
    let model = |std: f64, name: &str| {
        folder.write(
            name,
            &format!(
                "# kept\nstates = [\"x\"]\n[dynamics]\nx = \"x\"\n[observation]\ny = \"x\"\n\
                 [process_noise]\nstd = {std}\n[measurement_noise]\nstd = 1\n[initial]\nmean = 0\nstd = 1\n"
            ),
        )
    };
    let (truth, wrong) = (model(0.1, "true.toml"), model(1.0, "wrong.toml"));
    let untuned = model(1.0, "untuned.toml");
    let data = folder.name("d.csv");
    ok(&["simulate", &truth, "--steps", "3000", "--seed", "4", "--out", &data]);
    let args = [
        "tune",
        &wrong,
        &data,
        "--methods",
        "kf,imap",
        "--budget",
        "120",
        "--save",
        &wrong,
        "--json",
    ];
    let value: serde_json::Value = serde_json::from_str(&ok(&args)).unwrap();
    let best = &value["board"][0]["filter"];
    let text = folder.read("wrong.toml");
    assert!(text.starts_with("# kept\nstates") && text.contains("[filter]"), "{text}");
    let error = |model: &str, extra: &[&str]| {
        let mut args = vec!["filter", model, &data, "-q"];
        args.extend(extra);
        let x = column(&ok(&args), "x");
        let t = column(&folder.read("d.csv"), "x");
        let sum: f64 = x.iter().zip(&t).map(|(a, b)| (a - b) * (a - b)).sum();
        (sum / x.len() as f64).sqrt()
    };
    // Within 5 % of the filter that knows, though chosen without the truth.
    let (tuned, ideal) = (error(&wrong, &[]), error(&truth, &["--method", "kf"]));
    assert!(tuned < 1.05 * ideal, "{tuned} against {ideal} with {best}");
    assert!(error(&truth, &["--method", "kf"]) < 0.6 * error(&untuned, &["--method", "kf"]));
}

/// The verdict of `tune` on the Nile, computed again from what `filter` writes with the flags that were chosen.
#[test]
fn the_verdict_of_tuning_is_of_the_rows_that_judge() {
    let (model, data) = (example("nile.toml"), example("nile.csv"));
    let value: serde_json::Value =
        serde_json::from_str(&ok(&["tune", &model, &data, "--budget", "40", "--json"])).unwrap();
    let y = column(&std::fs::read_to_string(&data).unwrap(), "volume");
    let (mut errors, mut repeats) = (0.0, 0.0);
    for window in value["windows"].as_array().unwrap() {
        let row = |name: &str| window["rows"][name].as_u64().unwrap() as usize;
        let settings: optfilter_model::FilterSpec =
            serde_json::from_value(window["filter"].clone()).unwrap();
        let flags = settings.flags();
        let mut args = vec!["filter", &model, &data, "-q"];
        args.extend(flags.split(' '));
        let innovations = column(&ok(&args), "volume_innovation");
        for k in row("start")..row("end") {
            errors += innovations[k].powi(2);
            repeats += (y[k] - y[k - 1]).powi(2);
        }
    }
    let (found, expected) = (&value["judged"]["prediction"], f64::sqrt(errors / repeats));
    assert!((found.as_f64().unwrap() - expected).abs() < 1e-9, "{found} {expected}");
    let text = ok(&["tune", &model, &data, "--budget", "40"]);
    let (before, _) =
        text.split_once(" % less error than repeating the measurement before").unwrap();
    let printed: f64 = before.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((printed - 100.0 * (1.0 - expected)).abs() < 0.01, "{expected} in {text}");
}

#[test]
fn methods_that_do_not_fit_are_left_out_with_a_word() {
    let folder = Folder::new();
    let data = folder.name("d.csv");
    ok(&["simulate", "pendulum", "--steps", "60", "--seed", "3", "--out", &data]);
    for command in ["tune", "compare"] {
        let text = ok(&[command, "pendulum", &data, "--methods", "kf,ekf"]);
        assert!(text.contains("kf is left out: ") && text.contains("linear models"), "{text}");
        let none = run(&[command, "pendulum", &data, "--methods", "kf"]);
        assert_eq!(none.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&none.stderr).contains("linear models"));
    }
}

#[test]
fn states_that_no_measurement_moves_are_named_and_the_default_fits_the_model() {
    let folder = Folder::new();
    let data = folder.name("d.csv");
    let track = ["simulate", "constant-velocity", "--steps", "300", "--seed", "3", "--out", &data];
    ok(&track);
    let warned = |args: &[&str]| {
        let output = run(args);
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout)
    };
    let word = "no measurement moves vx, vy;";
    let filter = ["filter", "constant-velocity", &data];
    let blind = [&filter[..], &["--method", "imap"]].concat();
    assert!(warned(&blind).contains(word));
    assert!(!warned(&filter).contains(word));
    let out = folder.name("o.csv");
    let json = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&ok(&[args, &["--json", "--out", &out]].concat())).unwrap()
    };
    assert_eq!(json(&blind)["unmoved"], serde_json::json!(["vx", "vy"]));
    let (errors, repeats) =
        (json(&filter)["prediction_error"].clone(), &json(&filter)["repeat_error"]);
    assert!((0..2).all(|i| errors[i].as_f64() < repeats[i].as_f64()), "{errors} {repeats}");
    assert_eq!(json(&filter)["settings"]["method"], "kf");
    assert!(warned(&["compare", "constant-velocity", &data]).contains(&format!("imap: {word}")));
    let tune = ["tune", "constant-velocity", &data, "--methods", "imap", "--budget", "10"];
    // It finds a window, which sees how fast things move.
    assert!(!warned(&tune).contains(word));
    let model =
        folder.write("m.toml", "system = \"constant-velocity\"\n[filter]\nmethod = \"imap\"\n");
    assert!(warned(&["model", "check", &model]).contains(word));
    let page = warned(&["model", "check", "constant-velocity"]);
    assert!(page.contains("Filter\n  --method kf\n") && !page.contains(word), "{page}");
}

/// The Riccati equation of a random walk is a quadratic one: p = (q + sqrt(q^2 + 4 q r)) / 2 before a measurement.
#[test]
fn explain_gives_the_gain_at_which_a_kalman_filter_settles() {
    for method in ["kf", "ekf"] {
        let text = ok(&["explain", "local-level", "--method", method, "--json"]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let (q, r) = (0.25_f64, 1.0_f64);
        let p = (q + (q * q + 4.0 * q * r).sqrt()) / 2.0;
        let number = |key: &str| value[key][0][0].as_f64().unwrap();
        assert_eq!(value["method"], method);
        for (key, expected) in
            [("predicted_cov", p), ("gain", p / (p + r)), ("filtered_cov", p * r / (p + r))]
        {
            // Iterated until the gain moves by less than 1e-12 of itself.
            assert!((number(key) - expected).abs() < 1e-11, "{key}: {value}");
        }
    }
    let text = ok(&["explain", "local-level", "--method", "kf"]);
    assert!(
        text.contains("--method kf") && text.contains("Gain") && !text.contains("Learning rate"),
        "{text}"
    );
    let text = ok(&["explain", "local-level", "--method", "kf", "--process-scale", "4"]);
    assert!(text.contains("The gain stands still after"), "{text}");
}

#[test]
fn every_command_speaks_json() {
    let folder = Folder::new();
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let file = folder.name("m.toml");
    let new = parse(&ok(&["model", "new", "mine", "--json"]));
    assert_eq!(new["name"], "mine");
    assert!(new["text"].as_str().unwrap().contains("name = \"mine\"") && new["file"].is_null());
    assert_eq!(parse(&ok(&["model", "new", "mine", "--json", "--out", &file]))["file"], file);
    assert_eq!(parse(&ok(&["completions", "bash", "--json"]))["shell"], "bash");
    let help = ok(&["--help"]);
    let lines = help.split("Commands:").nth(1).unwrap().lines().skip(1);
    let lines = lines.take_while(|l| !l.is_empty()).filter_map(|l| l.strip_prefix("  "));
    // Lines that go on where the one before ended are further in.
    let names = lines.filter(|l| !l.starts_with(' ')).filter_map(|l| l.split(' ').next());
    let names: Vec<&str> = names.filter(|n| *n != "help").collect();
    assert!(names.len() >= 7, "{names:?}");
    for name in names {
        let mut args = vec![name, "--help"];
        if name == "model" {
            args.insert(1, "check");
        }
        assert!(ok(&args).contains("--json"), "{name}");
    }
}

/// A path that was looked for has a loss; what a linear model is smoothed to has none.
#[test]
fn a_smoother_that_looks_for_nothing_has_no_loss() {
    let folder = Folder::new();
    let (data, out) = (folder.write("d.csv", "y\n1\n2\n1.5\n"), folder.name("o.csv"));
    for (likelihood, looks) in [("gaussian", false), ("huber", true)] {
        let text = format!(
            "states = [\"x\"]\n[dynamics]\nx = \"x\"\n[observation.y]\nequation = \"x\"\nlikelihood = \"{likelihood}\"\n\
             [process_noise]\nvar = 1\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n"
        );
        let model = folder.write("m.toml", &text);
        let said = ok(&["smooth", &model, &data, "--out", &out, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&said).unwrap();
        let known = ["passes", "optimum", "loss"].map(|key| !json[key].is_null());
        assert_eq!(known, [looks; 3], "{said}");
        assert!(!said.contains("-0.0"), "{said}");
    }
}

//! Forecasts from every row, and rows smoothed by the next few: `filter --horizon` and `smooth --lag`.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;

/// A table with its first rows only.
fn first_rows(folder: &Folder, text: &str, rows: usize) -> String {
    let part: String = text.lines().take(rows + 1).map(|line| format!("{line}\n")).collect();
    folder.write(&format!("first{rows}.csv"), &part)
}

/// The cells of some columns of a row, as text.
fn cells(text: &str, row: usize, names: &[String]) -> Vec<String> {
    let (head, rows) = csv(text);
    let at = |name: &String| {
        head.iter().position(|h| h == name).unwrap_or_else(|| panic!("{name}: {head:?}"))
    };
    names.iter().map(|name| rows[row][at(name)].clone()).collect()
}

#[test]
fn every_row_has_the_forecast_of_the_rows_up_to_it() {
    let folder = Folder::new();
    series(&folder, "d", "30", "4");
    let (data, text) = (folder.name("d.csv"), folder.read("d.csv"));
    let endings = ["", "_std", "_lo95", "_lo80", "_lo50", "_hi50", "_hi80", "_hi95"];
    for flags in [
        &["--method", "ekf"][..],
        &["--method", "ukf"],
        &["--method", "pf", "--particles", "50"],
        &["--method", "imap", "--optimizer", "gd", "--lr", "0.1"],
    ] {
        let all =
            ok(&[&["filter", "pendulum", &data, "--horizon", "3", "--full", "-q"], flags].concat());
        for rows in [1, 12, 30] {
            let part = first_rows(&folder, &text, rows);
            let ahead =
                ok(&[&["forecast", "pendulum", &part, "--steps", "3", "-q"], flags].concat());
            for h in 1..=3 {
                for name in ["theta", "omega", "y"] {
                    let of = |middle: &str| -> Vec<String> {
                        endings.iter().map(|e| format!("{name}{middle}{e}")).collect()
                    };
                    let mine = cells(&all, rows - 1, &of(&format!("_ahead_{h}")));
                    assert_eq!(mine, cells(&ahead, h - 1, &of("")), "{flags:?} {rows} {h} {name}");
                }
            }
        }
        // What is not asked for is as it was.
        let plain = ok(&[&["filter", "pendulum", &data, "-q"], flags].concat());
        let with = ok(&[&["filter", "pendulum", &data, "--horizon", "1", "-q"], flags].concat());
        for (a, b) in plain.lines().zip(with.lines()) {
            assert!(b.starts_with(a), "{a}\n{b}");
        }
        assert!(with.starts_with(&format!(
            "{},theta_ahead_1,theta_ahead_1_std,theta_ahead_1_lo95,theta_ahead_1_hi95,omega_ahead_1",
            plain.lines().next().unwrap()
        )));
    }
}

/// The share of measurements `h` rows later that lie within the intervals of 95 %.
fn coverage(text: &str, name: &str, ys: &[f64], h: usize) -> f64 {
    let low = column(text, &format!("{name}_ahead_{h}_lo95"));
    let high = column(text, &format!("{name}_ahead_{h}_hi95"));
    let inside = |k: &usize| low[*k] <= ys[k + h] && ys[k + h] <= high[*k];
    let rows = 20..ys.len() - h;
    rows.clone().filter(inside).count() as f64 / rows.len() as f64
}

#[test]
fn intervals_hold_as_much_as_they_say() {
    let folder = Folder::new();
    let data = folder.name("d.csv");
    ok(&["simulate", "local-level", "--steps", "4000", "--seed", "5", "-o", &data]);
    let ys = column(&folder.read("d.csv"), "y");
    for (flags, rows) in
        [(&["--method", "kf"][..], 4000), (&["--method", "pf", "--particles", "200"], 1000)]
    {
        let part = first_rows(&folder, &folder.read("d.csv"), rows);
        let text = ok(&[&["filter", "local-level", &part, "--horizon", "4", "-q"], flags].concat());
        for h in [1, 2, 4] {
            let share = coverage(&text, "y", &ys[..rows], h);
            println!("{flags:?}, {h} ahead: {share:.3}");
            // Three standard errors of 1000 rows that overlap by h, and the quantiles of 200 draws.
            assert!((0.915..0.975).contains(&share), "{flags:?} {h}: {share}");
        }
    }
    // The Nile, with the noise that Durbin and Koopman found.
    let model = "states = [\"level\"]\n[dynamics]\nlevel = \"level\"\n[observation]\nvolume = \"level\"\n\
        [process_noise]\nvar = 1469.1\n[measurement_noise]\nvar = 15099\n[initial]\nmean = 1000\nstd = 300\n[time]\ncolumn = \"year\"\n";
    let (model, nile) = (folder.write("m.toml", model), example("nile.csv"));
    let text = ok(&["filter", &model, &nile, "--horizon", "5", "-q"]);
    let ys = column(&std::fs::read_to_string(&nile).unwrap(), "volume");
    for h in [1, 3, 5] {
        let share = coverage(&text, "volume", &ys, h);
        println!("the Nile, {h} ahead: {share:.3}");
        assert!((0.88..=1.0).contains(&share), "{h}: {share}");
    }
}

#[test]
fn horizons_go_with_streams_series_and_checkpoints() {
    let folder = Folder::new();
    let (data, names) = mixed(&folder);
    let flags = ["--horizon", "2", "-q", "--method", "ekf"];
    let whole = ok(&[&["filter", "pendulum", &data, "--by", "who"][..], &flags].concat());
    for (i, name) in names.iter().enumerate() {
        let alone =
            ok(&[&["filter", "pendulum", &folder.name(&format!("s{i}.csv"))][..], &flags].concat());
        assert_eq!(of(&whole, name), alone.lines().skip(1).collect::<Vec<_>>());
    }
    let text = folder.read("mixed.csv");
    let args = [&["filter", "pendulum", "-", "--by", "who", "--follow"][..], &flags].concat();
    assert_eq!(String::from_utf8(run_with_input(&args, &text).stdout).unwrap(), whole);
    let (out, checkpoint) = (folder.name("out.csv"), folder.name("c"));
    let kept = [&["--by", "who", "--out", &out, "--checkpoint", &checkpoint][..], &flags].concat();
    let part = first_rows(&folder, &text, 150);
    ok(&[&["filter", "pendulum", &part][..], &kept].concat());
    ok(&[&["filter", "pendulum", &data][..], &kept].concat());
    assert_eq!(folder.read("out.csv"), whole);
    let refused = run(&["filter", "pendulum", &data, "--horizon", "0"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_row_waits_for_as_many_as_the_lag_and_is_smoothed_by_them() {
    let folder = Folder::new();
    series(&folder, "d", "40", "6");
    let (data, text) = (folder.name("d.csv"), folder.read("d.csv"));
    for flags in [&["--method", "ekf", "--both"][..], &["--method", "iekf"], &["--method", "ukf"]] {
        let late = ok(&[&["smooth", "pendulum", &data, "--lag", "6", "-q"], flags].concat());
        let late: Vec<&str> = late.lines().collect();
        assert_eq!(late.len(), 41);
        for k in [1, 2, 17, 34] {
            let part = first_rows(&folder, &text, k + 6);
            let all = ok(&[&["smooth", "pendulum", &part, "-q"], flags].concat());
            assert_eq!(all.lines().nth(k), Some(late[k]), "{flags:?} row {k}");
        }
        let all = ok(&[&["smooth", "pendulum", &data, "-q"], flags].concat());
        assert_eq!(all.lines().skip(34).collect::<Vec<_>>(), late[34..], "the end");
        // Row by row from a pipe.
        let args = [&["smooth", "pendulum", "-", "--lag", "6", "--follow", "-q"], flags].concat();
        let piped = String::from_utf8(run_with_input(&args, &text).stdout).unwrap();
        assert_eq!(piped.lines().collect::<Vec<_>>(), late);
    }
}

#[test]
fn a_lag_goes_with_series_and_with_imap() {
    let folder = Folder::new();
    let (data, names) = mixed(&folder);
    let flags = ["--lag", "4", "-q", "--method", "ekf"];
    let whole = ok(&[&["smooth", "pendulum", &data, "--by", "who"][..], &flags].concat());
    for (i, name) in names.iter().enumerate() {
        let alone =
            ok(&[&["smooth", "pendulum", &folder.name(&format!("s{i}.csv"))][..], &flags].concat());
        assert_eq!(of(&whole, name), alone.lines().skip(1).collect::<Vec<_>>());
    }
    // A window that reaches over the whole series is the smoother.
    let short = folder.write("short.csv", "y\n1\n\n2\n4\n3\n5\n");
    let exact = column(&ok(&["smooth", "local-level", &short, "--method", "kf", "-q"]), "level");
    let late = ok(&["smooth", "local-level", &short, "--method", "imap", "--lag", "9", "-q"]);
    for (a, b) in exact.iter().zip(column(&late, "level")) {
        assert!((a - b).abs() < 1e-6, "{exact:?}\n{late}");
    }
    // One that is shorter knows less: over the rows it is nearer to the smoother than the filter is.
    let late = ok(&["smooth", "local-level", &short, "--method", "imap", "--lag", "2", "-q"]);
    let late = column(&late, "level");
    assert_eq!(late.len(), 6);
    let filtered = column(&ok(&["filter", "local-level", &short, "--method", "kf", "-q"]), "level");
    let apart = |a: &[f64]| a.iter().zip(&exact).map(|(a, b)| (a - b).abs()).sum::<f64>();
    assert!(apart(&late) < 0.8 * apart(&filtered), "{late:?}\n{filtered:?}\n{exact:?}");
    for (flags, expected) in [
        (&["--lag", "2", "--method", "pf"][..], "pf has no fixed lag"),
        (&["--lag", "2", "--plot", "p.svg"], "--plot needs the whole series"),
        (&["--follow"], "--lag"),
    ] {
        let output = run(&[&["smooth", "local-level", &short][..], flags].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(expected), "{said}");
    }
}

/// A lag as long as the series is the smoother, also where inputs are not in every row.
#[test]
fn a_lag_holds_inputs_like_the_smoother() {
    let folder = Folder::new();
    let model = folder.write(
        "m.toml",
        "states = [\"x\"]\n[inputs]\npush = { hold = true }\n[dynamics]\nx = \"x + push\"\n[observation]\ny = \"x\"\n[process_noise]\n\
         var = 1\n[measurement_noise]\nstd = \"hdop\"\n[initial]\nmean = 0\nvar = 1\n",
    );
    let data = folder
        .write("d.csv", "y,push,hdop,who\n1,2,1,a\n0,-1,2,b\n2,,,a\n-1,,,b\n3,,4,a\n-3,,,b\n");
    let all = ok(&["smooth", &model, &data, "--by", "who", "-q"]);
    let late = ok(&["smooth", &model, &data, "--by", "who", "--lag", "9", "-q"]);
    for name in ["a", "b"] {
        assert_eq!(of(&late, name), of(&all, name));
        assert_eq!(of(&late, name).len(), 3);
    }
}

#[test]
fn a_lag_needs_rows_and_measurements_like_the_smoother() {
    let folder = Folder::new();
    for (text, expected) in
        [("y\n", "the table has no rows"), ("y\n\n\n", "there is no measurement in column \"y\"")]
    {
        let data = folder.write("d.csv", text);
        for flags in [&[][..], &["--lag", "2"]] {
            let output = run(&[&["smooth", "local-level", &data][..], flags].concat());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.code() == Some(3) && said.contains(expected),
                "{flags:?}: {said}"
            );
        }
    }
}

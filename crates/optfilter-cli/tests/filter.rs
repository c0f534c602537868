//! `optfilter filter` from end to end.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

const WALK: &str = r#"
states = ["x"]
[dynamics]
x = "x"
[observation]
y = "x"
[process_noise]
var = 2
per = "time"
[measurement_noise]
std = 1
[initial]
mean = 0
std = 3
[filter]
method = "kf"
"#;

#[test]
fn the_kalman_filter_of_a_random_walk_is_the_one_of_the_textbook() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let data = folder.write("d.csv", "y\n1.5\n2.25\n\n-1\nNaN\n0.5\n");
    let out = ok(&["filter", &model, &data]);
    // The scalar recursion by hand; the empty line of a single column and NaN are missing measurements.
    let (mut m, mut p) = (0.0, 9.0);
    for (row, y) in [1.5, 2.25, f64::NAN, -1.0, f64::NAN, 0.5].into_iter().enumerate() {
        if row > 0 {
            p += 2.0;
        }
        if !f64::is_nan(y) {
            let gain = p / (p + 1.0);
            m += gain * (y - m);
            p *= 1.0 - gain;
        }
        // The Joseph form rounds differently from the textbook's short one.
        assert!((column(&out, "x")[row] - m).abs() < 1e-14);
        assert!((column(&out, "x_std")[row] - p.sqrt()).abs() < 1e-14);
    }
    let (head, rows) = csv(&out);
    assert_eq!(head, ["t", "x", "x_std", "y_innovation", "flag"]);
    for row in [2, 4] {
        assert_eq!(rows[row][3..], ["".to_owned(), "missing".to_owned()]);
    }
}

#[test]
fn leaving_out_rows_and_leaving_cells_empty_are_the_same_for_a_random_walk() {
    let folder = Folder::new();
    let model = folder.write("m.toml", &format!("{WALK}[time]\ncolumn = \"when\"\n"));
    let (mut all, mut some) = ("when,y\n".to_owned(), "when,y\n".to_owned());
    for k in 0..50 {
        let (t, y) = (f64::from(k) * 0.5, (f64::from(k) * 0.7).sin() * 4.0);
        let seen = k % 3 != 1;
        all.push_str(&format!("{t},{}\n", if seen { y.to_string() } else { String::new() }));
        if seen {
            some.push_str(&format!("{t},{y}\n"));
        }
    }
    let all = ok(&["filter", &model, &folder.write("all.csv", &all)]);
    let some = ok(&["filter", &model, &folder.write("some.csv", &some)]);
    let pick = |text: &str, name: &str, every: bool| -> Vec<f64> {
        let values = column(text, name);
        values.into_iter().enumerate().filter(|(k, _)| every || k % 3 != 1).map(|v| v.1).collect()
    };
    for name in ["when", "x", "x_std"] {
        for (a, b) in pick(&all, name, false).iter().zip(pick(&some, name, true)) {
            // Q dt is added in one or in two parts.
            assert!((a - b).abs() < 1e-12, "{name}: {a} {b}");
        }
    }
}

#[test]
fn every_format_carries_the_same_numbers() {
    let folder = Folder::new();
    let mut results = Vec::new();
    for extension in ["csv", "tsv", "jsonl", "parquet"] {
        let data = folder.name(&format!("d.{extension}"));
        ok(&[
            "simulate",
            "pendulum",
            "--steps",
            "200",
            "--seed",
            "3",
            "--missing",
            "0.2",
            "--out",
            &data,
        ]);
        for out in ["csv", "tsv", "jsonl"] {
            let back = folder.name(&format!("{extension}.{out}"));
            ok(&["filter", "pendulum", &data, "--method", "ekf", "--out", &back, "-q"]);
            let text = folder.read(&format!("{extension}.{out}"));
            let rows: Vec<Vec<String>> = match out {
                "jsonl" => text
                    .lines()
                    .map(|line| {
                        let object: serde_json::Map<String, serde_json::Value> =
                            serde_json::from_str(line).unwrap();
                        // Keys come in alphabetical order; put them in that of the columns.
                        ["t", "theta", "omega", "theta_std", "omega_std", "y_innovation", "flag"]
                            .iter()
                            .map(|k| match &object[*k] {
                                serde_json::Value::Null => String::new(),
                                serde_json::Value::String(s) => s.clone(),
                                number => {
                                    let v = number.as_f64().unwrap();
                                    format!("{v}")
                                }
                            })
                            .collect()
                    })
                    .collect(),
                _ => text
                    .lines()
                    .skip(1)
                    .map(|l| {
                        l.split(if out == "csv" { ',' } else { '\t' })
                            .map(|c| c.parse::<f64>().map_or(c.to_owned(), |v| format!("{v}")))
                            .collect()
                    })
                    .collect(),
            };
            assert_eq!(rows.len(), 200);
            results.push(rows);
        }
    }
    assert!(results.iter().all(|r| *r == results[0]), "the same numbers, bit for bit");
    let empty = results[0].iter().filter(|r| r[5].is_empty()).count();
    assert!((20..60).contains(&empty), "{empty} missing of 200 at one in five");
}

#[test]
fn inputs_drive_the_model() {
    let folder = Folder::new();
    let mut data = "speed,turn,range,bearing\n".to_owned();
    // Straight ahead at speed 1 from the origin: after 50 rows of 0.1 the robot is at (4.9, 0).
    for k in 0..50 {
        let x = 0.1 * f64::from(k);
        let (dx, dy) = (10.0 - x, 10.0);
        data.push_str(&format!("1,0,{},{}\n", f64::hypot(dx, dy), f64::atan2(dy, dx)));
    }
    let data = folder.write("d.csv", &data);
    for method in ["ekf", "ukf", "imap"] {
        let out = ok(&["filter", "robot", &data, "--method", method, "-q"]);
        let (x, y) = (column(&out, "x"), column(&out, "y"));
        assert!((x[49] - 4.9).abs() < 0.15 && y[49].abs() < 0.15, "{method}: {} {}", x[49], y[49]);
    }
    let gap = folder.write("gap.csv", "speed,turn,range,bearing\n1,,14,0.7\n");
    let output = run(&["filter", "robot", &gap, "--method", "ekf"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 2, column \"turn\""));
}

#[test]
fn every_method_runs_and_follows_the_state() {
    let folder = Folder::new();
    let data = folder.name("d.csv");
    ok(&["simulate", "van-der-pol", "--steps", "400", "--seed", "2", "--out", &data]);
    let truth = column(&folder.read("d.csv"), "x");
    let raw = column(&folder.read("d.csv"), "y");
    let rmse = |a: &[f64]| {
        let sum: f64 = a.iter().zip(&truth).skip(50).map(|(a, b)| (a - b) * (a - b)).sum();
        (sum / (a.len() - 50) as f64).sqrt()
    };
    for flags in [
        &["--method", "ekf"][..],
        &["--method", "iekf"],
        &["--method", "ukf"],
        &["--method", "pf", "--particles", "500"],
        &["--method", "etkf", "--members", "20", "--rotate"],
        &["--method", "letkf", "--inflation", "1.01", "--radius", "2", "--seed", "3"],
        &["--optimizer", "gd", "--steps", "5", "--lr", "0.02"],
        &["--optimizer", "adam", "--steps", "5", "--lr", "0.03"],
        &["--optimizer", "nesterov", "--steps", "3", "--lr", "0.01", "--carry"],
        &["--method", "vkf", "--process-scale", "300", "--optimizer", "gd", "--lr", "0.05"],
    ] {
        let mut args = vec!["filter", "van-der-pol", &data, "-q"];
        args.extend(flags);
        let error = rmse(&column(&ok(&args), "x"));
        assert!(error < 0.8 * rmse(&raw), "{flags:?}: {error} against {} raw", rmse(&raw));
    }
    let linear = run(&["filter", "van-der-pol", &data, "--method", "kf"]);
    assert_eq!(linear.status.code(), Some(2));
}

#[test]
fn following_answers_each_line_before_the_next() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let mut child = program()
        .args(["filter", &model, "-", "--follow"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    to.write_all(b"y\n").unwrap();
    to.write_all(b"1\n").unwrap();
    from.read_line(&mut line).unwrap();
    assert_eq!(line, "t,x,x_std,y_innovation,flag\n");
    for y in [1.0, 2.0, 3.0] {
        line.clear();
        from.read_line(&mut line).unwrap();
        let x: f64 = line.split(',').nth(1).unwrap().parse().unwrap();
        assert!((x - y).abs() < 1.0, "{line}");
        // Only now does the next measurement arrive.
        to.write_all(format!("{}\n", y + 1.0).as_bytes()).unwrap();
    }
    drop(to);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let folder = Folder::new();
    let data = folder.name("d.csv");
    ok(&["simulate", "local-level", "--steps", "200000", "--out", &data]);
    let mut child = program()
        .args(["filter", "local-level", &data, "--method", "kf"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    drop(from);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// Ten million rows through a pipe, in memory that does not grow with them.
#[cfg(target_os = "linux")]
#[test]
fn ten_million_rows_stream_in_constant_memory() {
    let mut source = program()
        .args(["simulate", "local-level", "--steps", "10000000", "--seed", "1", "--out", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut filter = program()
        .args(["filter", "local-level", "-", "--method", "kf", "--json", "--out", "/dev/null"])
        .stdin(source.stdout.take().unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", filter.id());
    let mut peak = 0;
    let done = loop {
        if let Some(done) = filter.try_wait().unwrap() {
            break done;
        }
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let now = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        peak = peak.max(now.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert!(done.success() && source.wait().unwrap().success());
    let mut summary = String::new();
    std::io::Read::read_to_string(&mut filter.stdout.take().unwrap(), &mut summary).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["rows"], 10_000_000);
    println!("peak memory: {peak} kB");
    // 200 MB is what is promised; buffers take a twentieth of that, whatever the number of rows.
    assert!(peak > 1_000 && peak < 20_000, "{peak} kB");
}

#[test]
fn calendar_times_are_understood() {
    let folder = Folder::new();
    let model =
        folder.write("m.toml", &format!("{WALK}[time]\ncolumn = \"when\"\nunit = \"day\"\n"));
    let data =
        folder.write("d.csv", "when,y\n2026-02-27,1\n2026-03-01T12:00:00Z,2\n2026-03-04,3\n");
    let out = ok(&["filter", &model, &data]);
    assert!(out.contains("\n2026-03-01T12:00:00Z,"));
    // Variances grow by 2 a day: 2.5 days each.
    let mut p: f64 = 9.0;
    for (row, days) in [0.0, 2.5, 2.5].into_iter().enumerate() {
        p += 2.0 * days;
        p = p / (p + 1.0);
        assert!((column(&out, "x_std")[row] - p.sqrt()).abs() < 1e-14);
    }
}

#[test]
fn pictures_are_drawn() {
    let folder = Folder::new();
    let (svg, html) = (folder.name("p.svg"), folder.name("p.html"));
    let (model, data) = (example("nile.toml"), example("nile.csv"));
    ok(&[
        "filter",
        &model,
        &data,
        "--method",
        "kf",
        "--plot",
        &svg,
        "-o",
        &folder.name("o.csv"),
        "-q",
    ]);
    ok(&["compare", &model, &data, "--plot", &html]);
    let svg = folder.read("p.svg");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("prefers-color-scheme") && dots(&svg) == 100);
    assert!(folder.read("p.html").contains("every filter"));
    let (model, out) = (example("nile.toml"), folder.name("o.csv"));
    for (name, flags) in [("p.png", &[][..]), ("d.png", &["--dark"])] {
        let png = folder.name(name);
        ok(&[&["filter", &model, &data, "--plot", &png, "-o", &out, "-q"], flags].concat());
        assert!(std::fs::read(png).unwrap().starts_with(b"\x89PNG"));
    }
}

/// Measurements in a picture: lines without length in grey.
fn dots(svg: &str) -> usize {
    let lines = svg.lines().filter(|l| l.contains("stroke=\"#777777\""));
    // One of them is the legend's.
    lines.map(|l| l.matches("h0").count()).sum::<usize>() - 1
}

#[test]
fn pictures_of_long_runs_keep_spikes_and_sparse_measurements() {
    let folder = Folder::new();
    let model = folder.write("m.toml", "system = \"local-level\"\n[filter]\nmethod = \"kf\"\n");
    let picture = |name: &str, rows: String| {
        let (data, svg) = (folder.write(name, &format!("t,y\n{rows}")), folder.name("p.svg"));
        let out = folder.name("o.csv");
        ok(&["filter", &model, &data, "--time", "t", "--plot", &svg, "-o", &out, "-q"]);
        folder.read("p.svg")
    };
    // Three spikes of 200 among 20,000 rows are outliers, and the axis reaches them.
    let rows = (0..20_000).map(|i| {
        let spike = [3_333, 10_001, 17_777].contains(&i);
        format!("{i},{}\n", if spike { 200.0 } else { (f64::from(i) / 1000.0).sin() })
    });
    let svg = picture("spikes.csv", rows.collect());
    let tops = svg.lines().filter(|l| l.contains("<circle"));
    let heights: Vec<f64> =
        tops.filter_map(|l| l.split("cy=\"").nth(1)?.split('"').next()?.parse().ok()).collect();
    let top = heights[1..].iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(heights[1..].iter().filter(|h| **h < top + 1.0).count(), 3, "{heights:?}");
    // 571 fixes among 60,000 rows are 571 dots.
    let rows = (0..60_000).map(|i| match i % 105 == 0 && i / 105 < 571 {
        true => format!("{i},{}\n", (f64::from(i) / 6000.0).sin()),
        false => format!("{i},\n"),
    });
    assert_eq!(dots(&picture("sparse.csv", rows.collect())), 571);
}

#[test]
fn the_summary_is_json_when_asked() {
    let folder = Folder::new();
    let (model, data, out) = (example("nile.toml"), example("nile.csv"), folder.name("o.csv"));
    let text = ok(&["filter", &model, &data, "--method", "kf", "--out", &out, "--json"]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["rows"], 100);
    assert_eq!(value["settings"]["method"], "kf");
    assert!(value["mean_nis"].as_f64().unwrap() > 0.5);
}

#[test]
fn irregular_times_of_a_model_without_time_are_an_error_or_a_choice() {
    let folder = Folder::new();
    let rows = WALK.replace("per = \"time\"\n", "");
    let model = folder.write("m.toml", &format!("{rows}[time]\ncolumn = \"when\"\n"));
    let data = folder.write("d.csv", "when,y\n0,1\n1,2\n3,1\n4,2\n");
    let refused = run(&["filter", &model, &data]);
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("the step to time index 3 is 2 long where others are 1"), "{text}");
    assert!(text.contains("per_row"), "{text}");
    let even = folder.write("e.csv", "when,y\n0,1\n1,2\n2,1\n3,2\n");
    let chosen = ok(&["filter", &model, &data, "--irregular", "per_row"]);
    assert_eq!(column(&chosen, "x"), column(&ok(&["filter", &model, &even]), "x"));
    // Another method than the file's keeps what the file says about time.
    let file = folder.write(
        "c.toml",
        &rows.replace("method = \"kf\"", "method = \"kf\"\nirregular = \"per_row\""),
    );
    ok(&["filter", &file, &data, "--method", "ekf"]);
}

#[test]
fn gaps_widen_where_noise_is_per_time_unless_told_otherwise() {
    let folder = Folder::new();
    let model = folder.write(
        "m.toml",
        &WALK.replace(
            "method = \"kf\"",
            "method = \"imap\"\noptimizer = \"gd\"\nlr = 0.3\nsteps = 1",
        ),
    );
    let data = folder.write("d.csv", &format!("y\n0\n0{}\n8\n", "\nNaN".repeat(20)));
    let last = |flags: &[&str]| {
        let out = ok(&[&["filter", model.as_str(), data.as_str()], flags].concat());
        column(&out, "x").last().copied().unwrap()
    };
    let (by_default, ignored) = (last(&[]), last(&["--gaps", "ignore"]));
    assert!((ignored - 2.4).abs() < 1e-12, "{ignored}");
    assert!(by_default > 6.0, "{by_default}");
    assert_eq!(last(&["--gaps", "widen"]), by_default);
}

/// A compass that goes round: from 359 to 1 degree it has moved by two, for the summary too.
#[test]
fn repeating_an_angle_goes_the_shorter_way_round() {
    let folder = Folder::new();
    let model = folder.write(
        "m.toml",
        "states = [\"h\"]\n[angles]\nh = \"degrees\"\n[dynamics]\nh = \"h + 40\"\n[observation]\n\
         y = { equation = \"h\", angle = \"degrees\" }\n[process_noise]\nstd = 1\n[measurement_noise]\nstd = 1\n\
         [initial]\nmean = 0\nstd = 1\n",
    );
    let rows: String = (0..36).map(|k| format!("{}\n", (40 * k + 180) % 360 - 180)).collect();
    let data = folder.write("d.csv", &format!("y\n{rows}"));
    let said = ok(&["filter", &model, &data, "--json", "-o", &folder.name("out.csv")]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let repeat = said["repeat_error"][0].as_f64().unwrap();
    assert!((repeat - 40.0).abs() < 1e-9, "{said}");
}

//! `smooth` and `forecast` from end to end.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;

const LEVEL: &str = "states = [\"level\"]\n[dynamics]\nlevel = \"level\"\n[observation]\ny = \"level\"\n\
    [process_noise]\nvar = 0.5\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nstd = 1\n";

fn header(table: &str) -> &str {
    table.lines().next().unwrap()
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The first cell of every row, as text.
fn first_cells(table: &str) -> Vec<&str> {
    table.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect()
}

#[test]
fn smoothed_rows_have_the_columns_of_the_filter_and_end_where_it_ends() {
    let folder = Folder::new();
    let model = folder.write("m.toml", LEVEL);
    let data = folder.write("d.csv", "y,k\n1,0\n,1\n2,2\n4,3\n");
    let smoothed = ok(&["smooth", &model, &data, "--both", "--quiet"]);
    assert_eq!(header(&smoothed), "t,level,level_std,level_filtered,level_filtered_std");
    let filtered = ok(&["filter", &model, &data, "--quiet"]);
    assert_eq!(column(&smoothed, "level_filtered"), column(&filtered, "level"));
    assert_eq!(column(&smoothed, "level_filtered_std"), column(&filtered, "level_std"));
    let (after, before) = (column(&smoothed, "level_std"), column(&smoothed, "level_filtered_std"));
    assert_eq!(after.last(), before.last());
    assert!(after.iter().zip(&before).take(3).all(|(a, b)| a < b), "{smoothed}");
    assert_eq!(header(&ok(&["smooth", &model, &data, "--quiet"])), "t,level,level_std");
}

#[test]
fn dates_and_formats_are_kept() {
    let folder = Folder::new();
    let model =
        folder.write("m.toml", &format!("{LEVEL}[time]\ncolumn = \"date\"\nunit = \"day\"\n"));
    let data = folder.write("d.csv", "date,y\n2026-01-01,1\n2026-01-02,\n2026-01-03,2\n");
    let smoothed = ok(&["smooth", &model, &data, "--quiet"]);
    assert_eq!(first_cells(&smoothed), ["2026-01-01", "2026-01-02", "2026-01-03"]);
    let ahead = ok(&["forecast", &model, &data, "--steps", "2", "--quiet"]);
    assert_eq!(first_cells(&ahead), ["2026-01-04", "2026-01-05"]);
    let until = ok(&["forecast", &model, &data, "--until", "2026-01-05", "--quiet"]);
    assert_eq!(until, ahead);
    let out = folder.name("ahead.jsonl");
    ok(&["forecast", &model, &data, "--steps", "1", "--out", &out]);
    assert!(
        std::fs::read_to_string(&out).unwrap().starts_with("{\"date\":\"2026-01-04\",\"level\":")
    );
}

#[test]
fn months_ahead_are_as_long_as_they_are() {
    let folder = Folder::new();
    let model =
        folder.write("m.toml", &format!("{LEVEL}[time]\ncolumn = \"date\"\nunit = \"day\"\n"));
    let data = folder.write("d.csv", "date,y\n2025-10-15,1\n2025-11-15,2\n2025-12-15,2\n");
    let ahead = ok(&["forecast", &model, &data, "--steps", "3", "--quiet"]);
    assert_eq!(first_cells(&ahead), ["2026-01-15", "2026-02-15", "2026-03-15"]);
}

/// Monthly tables are often dated by the last day of the month, here with one month missing; the model's dt would be a day.
#[test]
fn ends_of_months_stay_ends_of_months() {
    let folder = Folder::new();
    let model =
        folder.write("m.toml", &format!("{LEVEL}[time]\ncolumn = \"date\"\nunit = \"day\"\n"));
    let last = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let row = |(i, day): (usize, &i32)| match i {
        6 => String::new(),
        _ => format!("2023-{:02}-{day},{i}\n", i + 1),
    };
    let rows: String = last.iter().enumerate().map(row).collect();
    let data = folder.write("d.csv", &format!("date,y\n{rows}"));
    let flags = ["--steps", "4", "-q", "--irregular", "per_row"];
    let ahead = ok(&[&["forecast", &model, &data][..], &flags].concat());
    assert_eq!(first_cells(&ahead), ["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30"]);
    let flags = ["--until", "2024-02-29", "-q", "--irregular", "per_row"];
    let until = ok(&[&["forecast", &model, &data][..], &flags].concat());
    assert_eq!(first_cells(&until), ["2024-01-31", "2024-02-29"]);
}

/// Variances add up: that of the last estimate, Q for every step, R for what is measured.
#[test]
fn intervals_widen_as_the_noise_says() {
    let folder = Folder::new();
    let model = folder.write("m.toml", LEVEL);
    let data = folder.write("d.csv", "y\n1\n2\n");
    let last = column(&ok(&["filter", &model, &data, "--quiet"]), "level_std")[1];
    let ahead = ok(&["forecast", &model, &data, "--steps", "3", "--quiet"]);
    for (k, std) in column(&ahead, "level_std").iter().enumerate() {
        let variance = last * last + 0.5 * (k as f64 + 1.0);
        assert!((std * std - variance).abs() < 1e-12, "{ahead}");
        let measured = column(&ahead, "y_std")[k];
        assert!((measured * measured - variance - 1.0).abs() < 1e-12, "{ahead}");
        let half = 0.5 * (column(&ahead, "y_hi95")[k] - column(&ahead, "y_lo95")[k]);
        assert!((half / measured - 1.959_963_984_540_054).abs() < 1e-12, "{ahead}");
    }
    assert_eq!(column(&ahead, "t"), [2.0, 3.0, 4.0]);
}

#[test]
fn empty_rows_at_the_end_are_predicted_first() {
    let folder = Folder::new();
    let model = folder.write("m.toml", LEVEL);
    let short = folder.write("short.csv", "y\n1\n2\n");
    let long = folder.write("long.csv", "y,note\n1,\n2,\n,a\n,b\n");
    let beyond = ok(&["forecast", &model, &short, "--steps", "3", "--quiet"]);
    assert_eq!(ok(&["forecast", &model, &long, "--steps", "1", "--quiet"]), beyond);
    assert_eq!(ok(&["forecast", &model, &long, "--quiet"]).lines().count(), 3);
    let nothing = run(&["forecast", &model, &short]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(stderr(&nothing).contains("--steps N or --until TIME"), "{}", stderr(&nothing));
}

#[test]
fn inputs_ahead_come_from_the_table() {
    let folder = Folder::new();
    let model = folder.write(
        "m.toml",
        "states = [\"x\"]\ninputs = [\"push\"]\n[dynamics]\nx = \"x + push\"\n[observation]\ny = \"x\"\n\
         [process_noise]\nvar = 0.1\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nstd = 1\n",
    );
    let data = folder.write("d.csv", "push,y\n0,1\n0,1\n2,\n3,\n");
    let ahead = column(&ok(&["forecast", &model, &data, "--quiet"]), "x");
    assert!((ahead[1] - ahead[0] - 3.0).abs() < 1e-12, "{ahead:?}");
    let refused = run(&["forecast", &model, &data, "--steps", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = stderr(&refused);
    assert!(said.contains("reads push") && said.contains("leave out --steps"), "{said}");
}

#[test]
fn json_has_means_and_intervals() {
    let folder = Folder::new();
    let model = folder.write("m.toml", LEVEL);
    let data = folder.write("d.csv", "y\n1\n2\n");
    let found = ok(&["forecast", &model, &data, "--steps", "2", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let last = &found["forecast"][1]["measurements"]["y"];
    let ends = last["intervals"]["95"].as_array().unwrap();
    assert!(ends[0].as_f64() < last["mean"].as_f64() && last["mean"].as_f64() < ends[1].as_f64());
    let out = folder.name("s.csv");
    let said = ok(&["smooth", &model, &data, "--out", &out, "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["rows"], 2);
}

#[test]
fn pictures_are_drawn() {
    let folder = Folder::new();
    let model = folder.write("m.toml", LEVEL);
    let data = folder.write("d.csv", "y\n1\n2\n1.5\n");
    let (back, fan) = (folder.name("s.svg"), folder.name("f.svg"));
    ok(&["smooth", &model, &data, "--plot", &back, "--quiet"]);
    ok(&["forecast", &model, &data, "--steps", "4", "--plot", &fan, "--quiet"]);
    // Letters are outlines; the band of the filter is orange, and nothing else is.
    let (back, fan) = (folder.read("s.svg"), folder.read("f.svg"));
    assert!(back.contains(", smoothed<") && back.contains("#e69f00"));
    assert!(fan.contains(", forecast<") && !fan.contains("#e69f00"));
}

#[test]
fn what_cannot_be_smoothed_is_refused() {
    let folder = Folder::new();
    let model = folder.write("m.toml", LEVEL);
    let data = folder.write("d.csv", "y\n1\n2\n");
    let refused = run(&["smooth", &model, &data, "--method", "etkf"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("etkf cannot be smoothed"), "{}", stderr(&refused));
    let broken = folder.write("b.csv", "y\n1\nx\n");
    assert_eq!(run(&["smooth", &model, &broken]).status.code(), Some(3));
}

/// A whole table is one window, whatever optimizer the file has chosen for a row; what is not the posterior has no spread.
#[test]
fn a_files_optimizer_is_for_rows() {
    let folder = Folder::new();
    let imap =
        format!("{LEVEL}[filter]\nmethod = \"imap\"\noptimizer = \"adam\"\nsteps = 10\nlr = 1\n");
    let (plain, adam) = (folder.write("m.toml", LEVEL), folder.write("a.toml", &imap));
    let data = folder.write("d.csv", "y\n1\n\n2\n4\n3\n5\n");
    let exact = ok(&["smooth", &plain, &data, "-q"]);
    let window = ok(&["smooth", &adam, &data, "-q"]);
    for name in ["level", "level_std"] {
        for (a, b) in column(&exact, name).iter().zip(column(&window, name)) {
            assert!((a - b).abs() < 1e-6, "{name}: {a} {b}");
        }
    }
    for flags in [["--discount", "0.9"], ["--loss", "squared"]] {
        let text = ok(&[&["smooth", &adam, &data, "-q"][..], &flags].concat());
        assert!(column(&text, "level_std").iter().all(|v| v.is_nan()), "{text}");
    }
    let one = folder.write("one.csv", "y\n1\n");
    assert_eq!(column(&ok(&["smooth", &adam, &one, "-q"]), "level").len(), 1);
}

/// A heading that has turned twice: the intervals of particles lie around the mean, as those of the extended filter.
#[test]
fn angles_are_forecast_on_the_circle() {
    let folder = Folder::new();
    let model = folder.write(
        "m.toml",
        "states = [\"h\"]\n[angles]\nh = true\n[dynamics]\nh = \"h + 0.5\"\n[observation]\ny = { equation = \"h\", angle = true }\n\
         [process_noise]\nstd = 0.05\n[measurement_noise]\nstd = 0.05\n[initial]\nmean = 0\nstd = 0.1\n",
    );
    let ys: String = (0..24)
        .map(|k| {
            format!("{}\n", f64::sin_cos(0.5 * f64::from(k)).0.atan2(f64::cos(0.5 * f64::from(k))))
        })
        .collect();
    let data = folder.write("d.csv", &format!("y\n{ys}"));
    let of = |method: &str| {
        let text = ok(&["forecast", &model, &data, "--steps", "3", "-q", "--method", method]);
        ["h", "h_lo95", "h_hi95", "y", "y_lo95", "y_hi95"].map(|name| column(&text, name))
    };
    for (drawn, extended) in of("pf").iter().zip(of("ekf")) {
        for (a, b) in drawn.iter().zip(extended) {
            assert!((a - b).abs() < 0.05, "{a} {b}");
        }
    }
}

#[test]
fn a_forecast_ends_with_the_calendar() {
    let folder = Folder::new();
    let model = folder.write("m.toml", &format!("{LEVEL}[time]\ncolumn = \"t\"\n"));
    let data = folder.write("d.csv", "t,y\n9999-10-01,1\n9999-11-01,2\n9999-12-01,3\n");
    let output = run(&["forecast", &model, &data, "--steps", "1"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("the calendar ends"), "{}", stderr(&output));
}

/// Rows that the table has ahead are cut at --until, and half days are not dates.
#[test]
fn a_forecast_ends_where_it_is_asked_to() {
    let folder = Folder::new();
    let model = folder.write("m.toml", &format!("{LEVEL}[time]\ncolumn = \"t\"\n"));
    let data = folder.write("d.csv", "t,y\n1969,1\n1970,2\n1971,\n1972,\n1973,\n");
    let until = |t: &str| ok(&["forecast", &model, &data, "--until", t, "-q"]);
    assert_eq!(first_cells(&until("1971")), ["1971"]);
    assert_eq!(first_cells(&until("1974")), ["1971", "1972", "1973", "1974"]);
    let halves = format!("{LEVEL}[time]\ndt = 0.5\ncolumn = \"t\"\nunit = \"day\"\n");
    let model = folder.write("h.toml", &halves);
    let data =
        folder.write("h.csv", "t,y\n2026-01-01,1\n2026-01-02,2\n2026-01-07,2\n2026-01-10,2\n");
    let flags = ["--steps", "2", "-q", "--irregular", "per_row"];
    let text = ok(&[&["forecast", &model, &data][..], &flags].concat());
    assert_eq!(first_cells(&text), ["2026-01-10T12:00:00Z", "2026-01-11T00:00:00Z"]);
    // A pattern of days alone has no words for them either.
    let data =
        folder.write("p.csv", "t,y\n01.01.2026,1\n02.01.2026,2\n07.01.2026,2\n10.01.2026,2\n");
    let flags = [&flags[..], &["--date-format", "%d.%m.%Y"]].concat();
    let text = ok(&[&["forecast", &model, &data][..], &flags].concat());
    assert_eq!(first_cells(&text), ["2026-01-10T12:00:00Z", "2026-01-11T00:00:00Z"]);
}

#[test]
fn until_a_time_before_the_rows_ahead_is_refused_in_the_tables_words() {
    let folder = Folder::new();
    let model = folder.write("m.toml", &format!("{LEVEL}[time]\ncolumn = \"t\"\nunit = \"day\"\n"));
    let rows = "t,y\n2026-01-01,1\n2026-01-02,2\n";
    let (short, long) =
        (folder.write("s.csv", rows), folder.write("l.csv", &format!("{rows}2026-01-03,\n")));
    let said = |data: &str, until: &str| {
        let output = run(&["forecast", &model, data, "--until", until]);
        assert_eq!(output.status.code(), Some(2));
        stderr(&output)
    };
    let early = said(&long, "2026-01-02");
    assert!(
        early.contains("2026-01-02 is before 2026-01-03, the first row after the last"),
        "{early}"
    );
    let early = said(&short, "2026-01-02");
    assert!(early.contains("2026-01-02 is not after the last row, 2026-01-02"), "{early}");
}

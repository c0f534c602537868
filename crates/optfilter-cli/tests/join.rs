//! Tables with clocks of their own, joined by time; rows that come late; times and numbers as other programs write them.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;

const CART: &str = "states = [\"x\", \"v\"]\ninputs = [\"push\"]\n[dynamics]\nx = \"x + v*dt\"\nv = \"v + push*dt\"\n\
    [observation]\nfix = \"x\"\nspeed = \"v\"\n[process_noise]\nstd = 0.1\nper = \"time\"\n[measurement_noise]\nstd = 0.5\n\
    [initial]\nmean = 0\nstd = 1\n[time]\ncolumn = \"t\"\n[filter]\nmethod = \"kf\"\n";

#[track_caller]
fn fails(args: &[&str], code: i32, message: &str) {
    let out = run(args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{said}");
    assert!(said.contains(message), "{said}");
}

/// Rows of an accelerometer (push, speed), of a receiver (fix), and of both by hand.
fn tables() -> (String, String, String) {
    let (mut fast, mut slow) = ("t,push,speed\n".to_owned(), "fix,t\n".to_owned());
    let mut both = "t,push,speed,fix\n".to_owned();
    for k in 0..200 {
        let t = f64::from(k) * 0.1;
        let (push, speed) = ((0.3 * t).sin(), 0.2 * t);
        fast += &format!("{t:.2},{push:.3},{speed:.3}\n");
        both += &format!("{t:.2},{push:.3},{speed:.3},\n");
        if k % 25 == 7 {
            let (t, fix) = (t + 0.05, 0.1 * t * t);
            slow += &format!("{fix:.3},{t:.2}\n");
            both += &format!("{t:.2},{push:.3},,{fix:.3}\n");
        }
    }
    (fast, slow, both)
}

#[test]
fn two_clocks_are_one_series() {
    let folder = Folder::new();
    let model = folder.write("cart.toml", CART);
    let (fast, slow, both) = tables();
    let [fast, slow, both] = [("imu.csv", fast), ("gps.csv", slow), ("both.csv", both)]
        .map(|(n, t)| folder.write(n, &t));
    let alone = ok(&["filter", &model, &both, "--quiet"]);
    assert_eq!(ok(&["filter", &model, &fast, &slow, "--quiet"]), alone);
    assert_eq!(ok(&["filter", &model, &slow, &fast, "--quiet"]), alone);
    let smoothed = ok(&["smooth", &model, &both, "--quiet"]);
    assert_eq!(ok(&["smooth", &model, &fast, &slow, "--quiet"]), smoothed);
}

#[test]
fn late_rows_are_put_in_their_place() {
    let folder = Folder::new();
    let model = folder.write("cart.toml", CART);
    let (_, _, both) = tables();
    let ordered = folder.write("ordered.csv", &both);
    let mut lines: Vec<&str> = both.lines().collect();
    for k in (10..150).step_by(17) {
        lines.swap(k, k + 2); // about 0.2 seconds
    }
    let mixed = folder.write("mixed.csv", &lines.join("\n"));
    let alone = ok(&["filter", &model, &ordered, "--quiet"]);
    assert_eq!(ok(&["filter", &model, &mixed, "--late", "0.5s", "--quiet"]), alone);
    assert_eq!(ok(&["filter", &model, &mixed, "--late", "500ms", "--quiet"]), alone);
    fails(&["filter", &model, &mixed], 3, "backwards");
    fails(&["filter", &model, &mixed, "--late", "0.01s"], 3, "backwards");
    fails(&["filter", &model, &mixed, "--late", "soon"], 2, "is not one of ms, s");
    fails(&["filter", "local-level", &mixed, "--late", "1s"], 2, "--late needs times");
}

#[test]
fn tables_as_other_programs_write_them() {
    let folder = Folder::new();
    let model = folder
        .write("m.toml", "system = \"local-level\"\n[time]\ncolumn = \"when\"\nunit = \"day\"\n");
    let plain =
        folder.write("plain.csv", "when,y\n2026-01-30,1.5\n2026-01-31,2.25\n2026-02-01,1.75\n");
    let german =
        folder.write("german.csv", "when;y\n30.01.2026;1,5\n31.01.2026;2,25\n01.02.2026;1,75\n");
    let counted = folder.write(
        "counted.csv",
        "when,y\n1769731200000,1.5\n1769817600000,2.25\n1769904000000,1.75\n",
    );
    let numbers = |text: String| -> Vec<String> {
        let cells = |line: &str| {
            line.replace(';', ",")
                .split(',')
                .skip(1)
                .map(str::to_owned)
                .collect::<Vec<_>>()
                .join(",")
        };
        text.lines().map(cells).collect()
    };
    let expected = numbers(ok(&["filter", &model, &plain, "--quiet"]));
    let found = ok(&["filter", &model, &german, "--date-format", "%d.%m.%Y", "--quiet"]);
    assert!(found.contains("31.01.2026"), "{found}");
    assert_eq!(numbers(found), expected);
    let found = ok(&["filter", &model, &counted, "--epoch", "millisecond", "--quiet"]);
    assert_eq!(numbers(found), expected);
    let ahead =
        ok(&["forecast", &model, &german, "--date-format", "%d.%m.%Y", "--steps", "2", "--quiet"]);
    assert!(ahead.contains("03.02.2026"), "{ahead}");
    fails(&["filter", &model, &german, "--date-format", "%H:%M"], 2, "leaves the date open");
    fails(
        &["filter", &model, &plain, "--date-format", "%d.%m.%Y"],
        3,
        "a time in the given format",
    );
}

#[test]
fn a_diagnosis_says_what_is_wrong() {
    let folder = Folder::new();
    let data = folder.name("data.csv");
    ok(&["simulate", "local-level", "--steps", "500", "--seed", "4", "-o", &data]);
    let said = ok(&["diagnose", "local-level", &data]);
    assert!(said.contains("The filter and the data agree."), "{said}");
    let said = ok(&["diagnose", "local-level", &data, "--measurement-scale", "9"]);
    assert!(said.contains("error bars are too large"), "{said}");
    let picture = folder.name("r.svg");
    let json = ok(&[
        "diagnose",
        "local-level",
        &data,
        "--process-scale",
        "0.001",
        "--json",
        "--plot",
        &picture,
    ]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["agrees"], false);
    assert!(json["residuals"]["y"]["ljung_box_p"].as_f64().unwrap() < 0.01, "{json}");
    assert!(folder.read("r.svg").contains("<title>Innovations of"));
}

#[test]
fn degrees_that_are_read_as_radians_are_noticed() {
    let folder = Folder::new();
    let text = "states = [\"h\"]\n[dynamics]\nh = \"h\"\n[observation]\nc = { equation = \"h\", angle = true }\n[process_noise]\n\
                var = 1\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n[filter]\nmethod = \"kf\"\n";
    let (model, data) = (folder.write("m.toml", text), folder.write("d.csv", "c\n271\n275\n280\n"));
    let said =
        |model: &str| String::from_utf8_lossy(&run(&["filter", model, &data]).stderr).into_owned();
    assert!(
        said(&model).contains("c is an angle in radians and reaches 280.0"),
        "{}",
        said(&model)
    );
    let right = folder.write("d.toml", &text.replace("angle = true", "angle = \"degrees\""));
    assert!(!said(&right).contains("in radians"), "{}", said(&right));
}

#[test]
fn an_input_between_two_that_are_known_lies_on_a_line() {
    let folder = Folder::new();
    let cart = CART.replace("speed = \"v\"\n", "");
    let line = cart.replace("inputs = [\"push\"]\n", "[inputs]\npush = { interpolate = true }\n");
    let [held, line] =
        [("held.toml", &cart), ("line.toml", &line)].map(|(n, t)| folder.write(n, t));
    let sparse = "t,push,fix\n0,1,0\n1,,1\n4,,2\n5,-4,3\n6,,4\n";
    let full = "t,push,fix\n0,1,0\n1,0,1\n4,-3,2\n5,-4,3\n6,-4,4\n";
    let [sparse, full] =
        [("sparse.csv", sparse), ("full.csv", full)].map(|(n, t)| folder.write(n, t));
    for command in ["filter", "smooth"] {
        let expected = ok(&[command, &held, &full, "--quiet"]);
        assert_eq!(ok(&[command, &line, &sparse, "--quiet"]), expected);
    }
    let lagged = ok(&["smooth", &held, &full, "--quiet", "--lag", "2"]);
    assert_eq!(ok(&["smooth", &line, &sparse, "--quiet", "--lag", "2"]), lagged);
    // Two clocks: the input comes by one table, the fixes by the other, between its rows.
    let pushes = folder.write("pushes.csv", "t,push\n0,0\n2,4\n4,4\n");
    let fixes = folder.write("fixes.csv", "t,fix\n0.5,0\n1,1\n3,2\n");
    let both = folder.write("both.csv", "t,push,fix\n0,0,\n0.5,1,0\n1,2,1\n2,4,\n3,4,2\n4,4,\n");
    assert_eq!(
        ok(&["filter", &line, &pushes, &fixes, "--quiet"]),
        ok(&["filter", &held, &both, "--quiet"])
    );
    // What cannot wait says so.
    fails(&["filter", &line, &sparse, "--follow"], 2, "input `push` is interpolated");
    fails(&["smooth", &line, &sparse, "--lag", "2", "--follow"], 2, "input `push` is interpolated");
    let saved = folder.path("saved").display().to_string();
    fails(
        &[
            "filter",
            &line,
            &sparse,
            "--checkpoint",
            &saved,
            "--out",
            &folder.path("out.csv").display().to_string(),
        ],
        2,
        "leave out --checkpoint",
    );
}

/// Dates beside numbers have no order; columns and rows are named with their own table.
#[test]
fn what_is_wrong_with_joined_tables_is_said_of_the_right_one() {
    let folder = Folder::new();
    let model = folder.write("cart.toml", CART);
    let fast = folder.write("imu.csv", "t,push,speed\n1,0,0\n2,0,0\n3,0,0\n");
    let dates = folder.write("dates.csv", "t,fix\n2026-01-01,1\n2026-01-02,2\n");
    for command in ["filter", "smooth"] {
        fails(&[command, &model, &fast, &dates], 3, "dates.csv are dates and those of");
        fails(&[command, &model, &dates, &fast], 3, "write them all alike");
        // The first row is of the slow table, and nothing says what pushes by then.
        let slow = folder.write("gps.csv", "# a comment\nt,fix\n0.5,1\n");
        fails(&[command, &model, &fast, &slow], 3, "gps.csv: line 3, column \"push\"");
        fails(&[command, &model, &slow, &fast], 3, "gps.csv: line 3, column \"push\"");
    }
    fails(
        &["smooth", &model, &fast, &folder.write("s.csv", "t,fix\n0.5,1\n"), "--lag", "1"],
        3,
        "s.csv: line 2",
    );
    // A column that none of them has is named, not one that another has.
    let less = folder.write("less.csv", "t,push\n1,0\n");
    let slow = folder.write("gps.csv", "t,fix\n1.5,1\n");
    fails(&["filter", &model, &less, &slow], 3, "there is no column \"speed\" in any of");
}

/// A pipe has one beginning: what is read of it to see its columns is not lost.
#[cfg(unix)]
#[test]
fn several_pipes_are_read_like_files() {
    let folder = Folder::new();
    let model = folder.write("cart.toml", CART);
    let (fast, slow, both) = tables();
    let piped = |command: &str, tables: &[(&str, &str)], flags: &[&str]| -> String {
        let pipes: Vec<String> =
            tables.iter().map(|(name, _)| folder.name(&format!("{name}.pipe"))).collect();
        let writers: Vec<_> = pipes
            .iter()
            .zip(tables)
            .map(|(pipe, (_, text))| {
                assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
                let (pipe, text) = (pipe.clone(), (*text).to_owned());
                std::thread::spawn(move || std::fs::write(pipe, text).unwrap())
            })
            .collect();
        let mut args = vec![command, &model, "--quiet"];
        args.extend(pipes.iter().map(String::as_str));
        args.extend(flags);
        let out = ok(&args);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        pipes.iter().for_each(|pipe| std::fs::remove_file(pipe).unwrap());
        out
    };
    let file = folder.write("both.csv", &both);
    for command in ["filter", "smooth"] {
        let alone = ok(&[command, &model, &file, "--quiet"]);
        assert_eq!(piped(command, &[("imu", &fast), ("gps", &slow)], &[]), alone);
        // Two series, each whole.
        let two = piped(command, &[("a", &both), ("b", &both)], &[]);
        assert_eq!(two.lines().count(), 2 * alone.lines().count() - 1);
    }
    // In the format that is named, whatever they are called.
    let tabs = |text: &str| text.replace(',', "\t");
    let found = piped(
        "filter",
        &[("imu", &tabs(&fast)), ("gps", &tabs(&slow))],
        &["--format", "tsv", "--out-format", "csv"],
    );
    assert_eq!(found, ok(&["filter", &model, &file, "--quiet"]));
}

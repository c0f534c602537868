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
            // A push acts on the step that ends at its row, and so on each part of it.
            let push = (0.3 * f64::from(k + 1) * 0.1).sin();
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
    fails(&["filter", &line, &sparse, "--follow"], 2, "the next value of input `push`");
    fails(
        &["smooth", &line, &sparse, "--lag", "2", "--follow"],
        2,
        "the next value of input `push`",
    );
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
        // The first rows are of the slow table, and nothing says what pushed before them.
        let text = CART.replace("inputs = [\"push\"]", "[inputs]\npush = { hold = \"previous\" }");
        let before = folder.write("before.toml", &text);
        let slow = folder.write("gps.csv", "# a comment\nt,fix\n0.25,1\n0.5,1\n");
        fails(&[command, &before, &fast, &slow], 3, "gps.csv: line 3, column \"push\"");
        fails(&[command, &before, &slow, &fast], 3, "push = { hold = \"previous\", default = 0 }");
        // What the message says to do is enough.
        let text = text.replace("\"previous\"", "\"previous\", default = 0");
        let known = folder.write("known.toml", &text);
        ok(&[command, &known, &slow, &fast, "--quiet"]);
        // The next value reaches back.
        ok(&[command, &model, &slow, &fast, "--quiet"]);
    }
    let (before, slow) = (folder.name("before.toml"), folder.name("gps.csv"));
    fails(&["smooth", &before, &fast, &slow, "--lag", "1"], 3, "gps.csv: line 3");
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

const PUSHED: &str = "states = [\"x\"]\nINPUTS\n[dynamics]\n\"dx/dt\" = \"u\"\n[observation]\ny = \"x\"\n[process_noise]\n\
    per = \"time\"\nstd = 0.000001\n[measurement_noise]\nstd = 1000\n[initial]\nmean = 0\nstd = 0.001\n[time]\ncolumn = \"t\"\n";

/// The estimates at whole times, one for each.
fn at_whole_times(text: &str) -> Vec<f64> {
    let rows = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let mut whole: Vec<Vec<&str>> =
        rows.filter(|cells| cells[0].parse::<f64>().unwrap().fract() == 0.0).collect();
    whole.dedup_by_key(|cells| cells[0].to_owned());
    whole.iter().map(|cells| cells[1].parse().unwrap()).collect()
}

/// Rows of another table between, or rows with an empty cell, are not rows of the input.
#[test]
fn rows_between_do_not_change_what_an_input_does() {
    let folder = Folder::new();
    let alone = folder.write("u.csv", "t,u,y\n0,0,\n1,10,\n2,0,\n3,4,1\n");
    let pushes = folder.write("uu.csv", "t,u\n0,0\n1,10\n2,0\n3,4\n");
    let seen = folder.write("uy.csv", "t,y\n0.5,\n1.25,\n1.5,\n2,\n2.5,0\n");
    let empty = "t,u,y\n0,0,\n0.5,,\n1,10,\n1.25,,\n1.5,,\n2,0,\n2,,\n2.5,,0\n3,4,\n";
    let empty = folder.write("empty.csv", empty);
    for (rule, path) in [
        ("inputs = [\"u\"]", [0.0, 10.0, 10.0, 14.0]),
        ("[inputs]\nu = { hold = true }", [0.0, 10.0, 10.0, 14.0]),
        ("[inputs]\nu = { hold = \"next\" }", [0.0, 10.0, 10.0, 14.0]),
        ("[inputs]\nu = { hold = \"previous\" }", [0.0, 0.0, 10.0, 10.0]),
        ("[inputs]\nu = { hold = \"mean\" }", [0.0, 5.0, 10.0, 12.0]),
    ] {
        let model = folder.write("m.toml", &PUSHED.replace("INPUTS", rule));
        let near = |text: &str, what: &str| {
            let found = at_whole_times(text);
            let off = found.iter().zip(path).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(found.len() == 4 && off < 1e-6, "{rule} {what}: {found:?}");
        };
        near(&ok(&["filter", &model, &alone, "-q"]), "alone");
        for command in ["filter", "smooth"] {
            let joined = ok(&[command, &model, &pushes, &seen, "-q"]);
            near(&joined, command);
            if rule.contains("hold = \"") {
                assert_eq!(ok(&[command, &model, &empty, "-q"]), joined, "{rule}");
            }
        }
        let lagged = ok(&["smooth", &model, &seen, &pushes, "-q", "--lag", "20"]);
        assert_eq!(lagged, ok(&["smooth", &model, &pushes, &seen, "-q"]), "{rule}");
    }
}

/// Three tables, two of which bring inputs, with rows at the same times: their order says nothing.
#[test]
fn tables_may_be_named_in_any_order() {
    let folder = Folder::new();
    let text = PUSHED.replace("\"u\"", "\"u + v\"").replace("std = 1000", "std = 0.5");
    let mut seed = 7u64;
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for rules in [
        "inputs = [\"u\", \"v\"]",
        "[inputs]\nu = { hold = \"mean\", default = 1 }\nv = { hold = true }",
        "[inputs]\nu = { hold = \"previous\", default = 0 }\nv = { hold = \"next\", default = 2 }",
    ] {
        let model = folder.write("m.toml", &text.replace("INPUTS", rules));
        let mut table = |name: &str| {
            let (mut out, mut t) = (format!("t,{name}\n"), draw(3));
            for _ in 0..40 {
                out += &format!("{},{}\n", t as f64 / 4.0, draw(100) as f64 / 10.0);
                t += draw(3); // often the same time twice, and often that of another table
            }
            folder.write(&format!("{name}.csv"), &out)
        };
        let [u, v, y] = ["u", "v", "y"].map(&mut table);
        for command in [&["filter", "--full"][..], &["smooth"], &["smooth", "--lag", "3"]] {
            let run = |tables: [&String; 3]| {
                let mut args = vec![command[0], &model, "-q"];
                args.extend(tables.iter().map(|t| t.as_str()));
                args.extend(&command[1..]);
                ok(&args)
            };
            let first = run([&u, &v, &y]);
            assert_eq!(first.lines().count(), 121);
            for tables in [[&u, &y, &v], [&v, &u, &y], [&v, &y, &u], [&y, &u, &v], [&y, &v, &u]] {
                assert_eq!(run(tables), first, "{command:?} {rules}");
            }
        }
    }
}

#[test]
fn streams_hold_the_value_before_and_go_on_with_it() {
    let folder = Folder::new();
    let model =
        |rule: &str| PUSHED.replace("INPUTS", &format!("[inputs]\nu = {{ hold = \"{rule}\" }}"));
    let previous = folder.write("previous.toml", &model("previous"));
    let rows: Vec<String> =
        (0..40).map(|k| format!("{k},{},{}\n", if k % 3 == 0 { "2" } else { "" }, k % 5)).collect();
    let data = |rows: &[String]| format!("t,u,y\n{}", rows.concat());
    let whole = folder.write("whole.csv", &data(&rows));
    let expected = ok(&["filter", &previous, &whole, "-q"]);
    assert_eq!(ok(&["filter", &previous, &whole, "-q", "--follow"]), expected);
    // A table that grows.
    let (log, out, saved) =
        (folder.write("log.csv", &data(&rows[..17])), folder.name("out.csv"), folder.name("c"));
    let args = ["filter", &previous, &log, "-q", "--out", &out, "--checkpoint", &saved];
    ok(&args);
    folder.write("log.csv", &data(&rows));
    ok(&args);
    assert_eq!(folder.read("out.csv"), expected);
    for rule in ["next", "mean"] {
        let model = folder.write("m.toml", &model(rule));
        fails(&["filter", &model, &whole, "--follow"], 2, "u = { hold = \"previous\" }");
        fails(
            &["filter", &model, &whole, "--out", &out, "--checkpoint", &saved],
            2,
            "hold = \"previous\"",
        );
    }
}

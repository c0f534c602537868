//! What goes wrong, goes wrong in one line and with the right exit code.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;

/// Runs and checks exit code and message; a data message is one line.
#[track_caller]
fn fails(args: &[&str], code: i32, expected: &str) {
    let output = run(args);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{err}");
    assert!(err.contains(expected), "{args:?}\n said     {err}\n expected {expected}");
    assert!(!err.contains("panicked"), "{err}");
    if code != 2 {
        assert_eq!(err.trim_end().lines().count(), 1, "{err}");
        assert!(!err.contains('\x1b'), "no colours in a pipe");
    }
}

#[test]
fn nothing_that_is_there_is_written_over_by_mistake() {
    let folder = Folder::new();
    let model = folder.write("m.toml", "system = \"local-level\"\n[filter]\nmethod = \"kf\"\n");
    let data = folder.write("d.csv", &format!("y\n{}", "1\n2\n".repeat(30)));
    let (old, plot) = (folder.write("old.csv", "old results\n"), folder.name("p.svg"));
    // A run that cannot begin leaves older results alone.
    fails(&["filter", &model, &folder.name("absent.csv"), "-o", &old], 3, "cannot read the data");
    let other = folder.write("other.csv", "z\n1\n");
    fails(&["filter", &model, &other, "-o", &old], 3, "no column");
    fails(&["simulate", "robot", "-o", &old], 2, "inputs");
    let quiet = CLASH.replace("NAME", "x").replace("[process_noise]\nstd = 1\n", "");
    fails(&["simulate", &folder.write("q.toml", &quiet), "-o", &old], 2, "[process_noise]");
    assert_eq!(folder.read("old.csv"), "old results\n");
    // Files that are read, and files named twice.
    fails(&["filter", &model, &data, "-o", &model], 2, "is read by this command");
    fails(&["filter", &model, &data, "--plot", &data], 2, "is read by this command");
    fails(&["filter", &model, &data, "-o", &plot, "--plot", &plot], 2, "written twice");
    fails(&["filter", &model, &data, "-o", &old, "--checkpoint", &old], 2, "written twice");
    fails(&["compare", &model, &data, "--plot", &model], 2, "is read by this command");
    fails(&["filter", &model, &data, "--plot", &folder.name("p.jpg")], 2, ".svg, .html or .png");
    fails(&["filter", &model, &data, "--dark"], 2, "--plot");
    fails(&["tune", &model, &data, "--save", &old], 2, "is there already");
    fails(&["tune", &model, &data, "--save", "-"], 2, "--save needs the name of a file");
    let inline = folder.write("i.toml", "filter = { method = \"kf\" }\nsystem = \"local-level\"\n");
    fails(&["tune", &inline, &data, "--budget", "4", "--save", &inline], 2, "[filter]");
    assert!(folder.read("i.toml").starts_with("filter = {"));
    #[cfg(target_os = "linux")]
    fails(&["filter", &model, &data, "--checkpoint", "/dev/full"], 2, "is not a file");
    let clash = folder.write("c.toml", &CLASH.replace("NAME", "flag"));
    fails(&["filter", &clash, &data], 2, "two columns called `flag`");
}

/// A file has many names: links to it, and what standard input and output are connected with.
#[cfg(unix)]
#[test]
fn a_file_that_is_read_is_not_written_under_another_name() {
    use std::process::Stdio;
    let folder = Folder::new();
    let text = format!("y\n{}", "1\n2\n".repeat(30));
    let data = folder.write("d.csv", &text);
    let (hard, soft) = (folder.name("hard.csv"), folder.name("soft.csv"));
    std::fs::hard_link(&data, &hard).unwrap();
    std::os::unix::fs::symlink(&data, &soft).unwrap();
    let base = ["filter", "local-level", &data, "--method", "kf", "-q"];
    for other in [&hard, &soft] {
        for flag in ["-o", "--plot", "--checkpoint"] {
            let args = [&base[..], &[flag, other]].concat();
            if flag != "--plot" {
                fails(&args, 2, "is read by this command");
            }
        }
    }
    let adapt = ["adapt", &data, "--network", "linear", "--csv", &hard];
    #[cfg(feature = "adapt")]
    fails(&adapt, 2, "is read by this command");
    #[cfg(not(feature = "adapt"))]
    let _ = adapt;
    // `optfilter filter ... - -o d.csv < d.csv`, and `... d.csv >> d.csv`, which would never end.
    let open = || std::fs::File::open(&data).unwrap();
    let append = || std::fs::File::options().append(true).open(&data).unwrap();
    for (input, output, args) in [
        (Stdio::from(open()), Stdio::piped(), vec!["-", "-o", &data]),
        (Stdio::null(), Stdio::from(append()), vec![&data]),
        (Stdio::from(open()), Stdio::from(append()), vec!["-"]),
    ] {
        let mut command = program();
        command.args(["filter", "local-level"]).args(&args).args(["--method", "kf", "-q"]);
        let done = command.stdin(input).stdout(output).stderr(Stdio::piped()).spawn().unwrap();
        let done = done.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains("is read by this command"), "{args:?}: {err}");
    }
    assert_eq!(folder.read("d.csv"), text);
    // New files under two spellings, and a link that stays one.
    let (new, again) = (folder.name("new.csv"), folder.name("./new.csv"));
    fails(&[&base[..], &["-o", &new, "--checkpoint", &again]].concat(), 2, "is written twice");
    let (out, link) = (folder.write("out.csv", "old\n"), folder.name("link.csv"));
    std::os::unix::fs::symlink(&out, &link).unwrap();
    ok(&[&base[..], &["-o", &link]].concat());
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(folder.read("out.csv").lines().count(), 61);
}

/// Until the new result has a row, the old one is there; and nothing is left beside it.
#[test]
fn an_old_result_stays_until_the_new_one_has_a_row() {
    let folder = Folder::new();
    let bad = folder.write("bad.csv", "y\nx\n1\n");
    let empty = folder.write("empty.csv", "y\n");
    let good = folder.write("good.csv", "y\n1\nx\n");
    let mut outputs = vec!["old.csv", "old.jsonl", "old.csv.gz"];
    if cfg!(feature = "parquet") {
        outputs.push("old.parquet");
    }
    for name in outputs {
        let old = folder.write(name, "old results\n");
        let run = |data: &str, more: &[&str]| {
            let base = ["filter", "local-level", data, "--method", "kf", "-q", "-o", &old];
            common::run(&[&base[..], more].concat()).status.code()
        };
        assert_eq!(run(&bad, &[]), Some(3));
        assert_eq!(folder.read(name), "old results\n");
        if name == "old.csv" {
            let checkpoint = folder.name("c");
            assert_eq!(run(&bad, &["--checkpoint", &checkpoint]), Some(3));
            assert_eq!(run(&bad, &["--follow"]), Some(3));
            assert_eq!(folder.read(name), "old results\n");
            // Nothing was saved either, so that a mended table is filtered from its start.
            assert!(!folder.path("c").exists());
        }
        assert_eq!(run(&good, &[]), Some(3));
        assert!(std::fs::read(folder.path(name)).unwrap() != b"old results\n", "{name}");
        folder.write(name, "old results\n");
        assert_eq!(run(&empty, &[]), Some(0));
        assert!(std::fs::read(folder.path(name)).unwrap() != b"old results\n", "{name}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path("")).unwrap().collect();
    assert!(left.iter().all(|e| !e.as_ref().unwrap().path().ends_with(".tmp")), "{left:?}");
    assert_eq!(left.len(), if cfg!(feature = "parquet") { 7 } else { 6 }, "{left:?}");
}

#[test]
fn files_that_are_no_tables_are_named() {
    let folder = Folder::new();
    let data = folder.write("d.csv", "y\n1\n2\n");
    let base = ["filter", "local-level"];
    for (name, expected) in [
        ("o.xlsx", "would be an Excel workbook"),
        ("o.feather", "would be an Arrow or Feather file"),
        ("o.svg", "would be a picture"),
    ] {
        let out = folder.name(name);
        fails(&[&base[..], &[&data, "--method", "kf", "-o", &out]].concat(), 2, expected);
        fails(&["simulate", "local-level", "-o", &out], 2, expected);
        assert!(!folder.path(name).exists());
    }
    ok(&[&base[..], &[&data, "--method", "kf", "-q", "-o", &folder.name("o.dat")]].concat());
    let packed = folder.name("o.csv.gz");
    let checkpoint = ["-o", &packed, "--checkpoint", &folder.name("c")].map(str::to_owned);
    let checkpoint = checkpoint.each_ref().map(String::as_str);
    fails(&[&base[..], &[&data], &checkpoint].concat(), 2, "compressed file");
    let utf16: Vec<u8> = "y\n1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (name, bytes, expected) in [
        ("u.csv", utf16, "text in UTF-16; save it as UTF-8"),
        ("b.xlsx", b"PK\x03\x04............[Content_Types].xml".to_vec(), "an Excel workbook"),
        ("a.jsonl", b"ARROW1\0\0".to_vec(), "an Arrow or Feather file"),
    ] {
        let path = folder.path(name);
        std::fs::write(&path, bytes).unwrap();
        fails(&[&base[..], &[path.to_str().unwrap()]].concat(), 3, expected);
    }
    let mixed = folder.write("m.csv", "t,y\n2026-11-15,1\n2,1\n");
    let said = "line 3, column \"t\": \"2\" is not a calendar time";
    fails(&[&base[..], &[&mixed, "--time", "t", "-o", &folder.name("o.csv")]].concat(), 3, said);
}

#[test]
fn packed_tables_go_in_and_out() {
    let folder = Folder::new();
    for end in ["csv", "tsv", "jsonl"] {
        let (plain, packed) =
            (folder.name(&format!("d.{end}")), folder.name(&format!("d.{end}.gz")));
        for out in [&plain, &packed] {
            ok(&["simulate", "local-level", "--steps", "300", "-o", out]);
        }
        assert!(std::fs::read(&packed).unwrap().starts_with(b"\x1f\x8b"));
        let out = folder.name(&format!("o.{end}.gz"));
        ok(&["filter", "local-level", &packed, "--method", "kf", "-q", "-o", &out]);
        let from = |data: &str| ok(&["filter", "local-level", data, "--method", "kf", "-q"]);
        assert_eq!(from(&plain), from(&packed));
        // The estimates are a table, too: its column `level` is read as the measurement.
        let again =
            folder.write("again.toml", "system = \"local-level\"\n[columns]\ny = \"level\"\n");
        let rows = ok(&["filter", &again, &out, "--method", "kf", "-q"]);
        assert_eq!(rows.lines().count(), if end == "jsonl" { 300 } else { 301 });
    }
}

const CLASH: &str = r#"
states = ["NAME"]
[dynamics]
NAME = "NAME"
[observation]
y = "NAME"
[process_noise]
std = 1
[measurement_noise]
std = 1
[initial]
mean = 0
std = 1
[filter]
method = "kf"
"#;

#[test]
fn a_filter_that_runs_away_ends_with_its_own_exit_code() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &format!("y\n{}", "1\n2\n".repeat(100)));
    let flags = ["--optimizer", "gd", "--steps", "3", "--lr", "100000", "-q", "-o"];
    let out = folder.name("o.csv");
    let mut args = vec!["filter", "local-level", &data];
    args.extend(flags);
    args.push(&out);
    fails(&args, 4, "try a smaller --lr");
    // What was well is there.
    assert!(folder.read("o.csv").lines().count() > 2);
}

#[test]
fn a_misspelt_parameter_of_a_system_is_pointed_at() {
    let folder = Folder::new();
    let model = folder.write("m.toml", "system = \"lorenz63\"\n[parameters]\nroh = 20\n");
    fails(&["model", "check", &model], 2, "did you mean `rho`?");
    let own =
        "system = \"local-level\"\n[parameters]\nhalf = 0.5\n[observation]\ny = \"half*level\"\n";
    ok(&["model", "check", &folder.write("own.toml", own)]);
    fails(&["filter", "lorenz64", &model], 2, "did you mean the system `lorenz63`?");
}

#[test]
fn mistakes_in_the_data() {
    let folder = Folder::new();
    let table = |name: &str, text: &str| folder.write(name, text);
    for (text, expected) in [
        ("", "the table is empty"),
        ("z\n1\n", "there is no column \"y\"; there are z"),
        ("yy\n1\n", "did you mean \"yy\"?"),
        ("y,y\n1,2\n", "column \"y\" appears twice"),
        ("y\n1\nabc\n", "line 3, column \"y\": \"abc\" is not a finite number or empty"),
        ("y\n1\ninf\n", "line 3, column \"y\": \"inf\" is not a finite number"),
        ("a,y\n1,2\n3\n", "line 3 has 1 cells where the header has 2"),
        ("a,y\n1,2\n3,4,5\n", "line 3 has 3 cells where the header has 2"),
        ("y\n1\n\u{0}\u{1}\n", "line 3"),
    ] {
        let data = table("d.csv", text);
        fails(
            &["filter", "local-level", &data, "--method", "kf", "-o", &folder.name("o.csv")],
            3,
            expected,
        );
    }
    let bytes = folder.path("bytes.csv");
    std::fs::write(&bytes, [b'y', b'\n', 0xff, 0xfe, b'\n']).unwrap();
    fails(&["filter", "local-level", bytes.to_str().unwrap(), "--method", "kf"], 3, "line 2");
    for (text, expected) in [
        ("{\"y\": 1}\n{\"y\": }\n", "line 2: not valid JSON at column 7"),
        ("[1]\n", "line 1: this line is not a JSON object"),
        ("{\"y\": [1]}\n", "line 1, column \"y\""),
    ] {
        let data = table("d.jsonl", text);
        fails(&["filter", "local-level", &data, "--method", "kf", "-q"], 3, expected);
    }
    let data = table("t.csv", "t,y\n0,1\n2,1\n1,1\n");
    fails(
        &[
            "filter",
            "local-level",
            &data,
            "--time",
            "t",
            "--method",
            "kf",
            "-o",
            &folder.name("o.csv"),
        ],
        3,
        "time runs backwards at line 4: 1 after 2; sort the table by time",
    );
    let data = table("c.csv", "count\n3\n2.5\n");
    let out = folder.name("o.csv");
    let args = ["filter", "logistic-counts", &data, "--method", "imap", "-o", &out];
    fails(
        &args,
        3,
        "c.csv: line 3, column \"count\": 2.5 is not a count: a whole number of at least 0",
    );
    fails(&["filter", "local-level", &folder.name("absent.csv")], 3, "cannot read the data");
    fails(&["filter", "local-level", folder.path("").to_str().unwrap()], 3, "");
    fails(&["tune", "local-level", &table("s.csv", "y\n1\n2\n")], 3, "too few");
}

#[test]
fn rows_before_a_bad_one_are_written() {
    let folder = Folder::new();
    let data = folder.write("d.csv", "y\n1\n2\nx\n");
    let out = folder.name("o.csv");
    fails(&["filter", "local-level", &data, "--method", "kf", "-o", &out], 3, "line 4");
    assert_eq!(folder.read("o.csv").lines().count(), 3);
}

#[test]
fn mistakes_in_flags_and_models() {
    let folder = Folder::new();
    let data = folder.write("d.csv", "y\n1\n2\n");
    let local = |flags: &[&str]| {
        let mut args = vec!["filter", "local-level", data.as_str()];
        args.extend(flags);
        args.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for (flags, expected) in [
        (&["--method", "kalman"][..], "invalid value 'kalman'"),
        (&["--steps", "0"], "invalid value '0'"),
        (&["--lr", "-1"], "must be positive"),
        (&["--lr", "nan"], "must be positive"),
        (&["--decay", "1"], "below 1"),
        (&["--method", "ekf", "--lr", "0.1"], "belongs to imap"),
        (&["--particles", "10"], "belongs to pf"),
        (&["--wrong"], "unexpected argument"),
    ] {
        let args = local(flags);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        fails(&args, 2, expected);
    }
    fails(&["filter", &folder.name("absent.toml"), &data], 2, "cannot read the model");
    let bad = folder.write(
        "bad.toml",
        "states = [\"x\"]\n[dynamics]\nx = \"x + yy\"\n[observation]\ny = \"x\"\n",
    );
    fails(&["filter", &bad, &data], 2, "bad.toml:3:10");
    fails(&["filter", &bad, &data], 2, "^^");
    fails(&["filter", "-", "-"], 2, "both");
    fails(
        &["filter", "local-level", &data, "--method", "kf", "-o", &data],
        2,
        "is read by this command",
    );
    fails(&["tune", "local-level", &data, "--metric", "truth"], 2, "--truth");
    fails(&["tune", "local-level", &data, "--truth", "levl"], 2, "no state `levl`");
    fails(&["simulate", "robot"], 2, "inputs");
    fails(&["model", "new", "x", "--from", "nothing"], 2, "there is no built-in system");
    #[cfg(not(feature = "parquet"))]
    fails(
        &["filter", "local-level", &folder.write("d.parquet", "PAR1")],
        3,
        "built without Parquet",
    );
}

#[test]
fn divergence_has_its_own_code() {
    let folder = Folder::new();
    let model = folder.write(
        "m.toml",
        "states = [\"x\"]\n[dynamics]\nx = \"x\"\n[observation]\ny = \"x^3\"\n[initial]\nmean = 1\nstd = 1\n",
    );
    let data = folder.write("d.csv", "y\n5\n50\n500\n");
    let out = folder.name("o.csv");
    fails(
        &["filter", &model, &data, "--optimizer", "gd", "--lr", "1", "-o", &out],
        4,
        "the filter diverged: its estimate left the finite numbers",
    );
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_reported() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &format!("y\n{}", "1\n".repeat(10_000)));
    let args = ["filter", "local-level", &data, "--method", "kf", "-q", "-o", "/dev/full"];
    fails(&args, 1, "cannot write /dev/full: No space left");
    fails(&["simulate", "local-level", "-o", "/dev/full"], 1, "No space left");
}

#[test]
#[cfg(target_os = "linux")]
fn a_missing_folder_is_reported() {
    let folder = Folder::new();
    let data = folder.write("d.csv", "y\n1\n");
    let out = folder.name("no/such/place.csv");
    fails(&["filter", "local-level", &data, "--method", "kf", "-o", &out], 1, "cannot write");
}

/// What went wrong, where, and what to do: each of these once said something else.
#[test]
fn messages_say_what_where_and_what_to_do() {
    let folder = Folder::new();
    let out = folder.name("o.csv");
    let model = |dynamics: &str, more: &str| {
        format!(
            "states = [\"x\"]\n[dynamics]\nx = \"{dynamics}\"\n[observation]\ny = \"x\"\n[process_noise]\nstd = 1\n\
             [measurement_noise]\nstd = 1\n[initial]\nmean = 1\nstd = 1\n{more}"
        )
    };
    let numbers = folder.write("y.csv", "# made up\n\ny\n1\n2\n3\n");
    // An equation that divides by nothing is no matter of learning rates.
    let broken = folder.write("broken.toml", &model("x/0", ""));
    let args = ["filter", &broken, &numbers, "--method", "ekf", "-q", "-o", &out];
    fails(&args, 4, "y.csv: line 5: the filter diverged");
    fails(&args, 4, "last good state x = ");
    fails(&args, 4, "[dynamics] gives x = inf there; mend its equation \"x/0\"");
    let err = String::from_utf8_lossy(&run(&args).stderr).into_owned();
    assert!(!err.contains("--lr"), "{err}");
    // A number out of every range.
    let far = folder.write("far.csv", "y\n1\n1e110\n");
    let args = ["filter", "local-level", &far, "--method", "kf", "-q", "-o", &out];
    fails(
        &args,
        4,
        "far.csv: line 3: the filter diverged: its mean left the finite numbers or passed 1e100",
    );
    fails(&args, 4, "last good state level = 0.99");
    fails(&args, 4, "look for measurements far out of range");
    // No measurement at all.
    let nothing = folder.write("nothing.csv", &format!("t,y\n{}", "1,\n".repeat(60)));
    for command in ["tune", "compare"] {
        let expected = "nothing.csv: there is no measurement in column \"y\" in any of 60 rows";
        fails(&[command, "local-level", &nothing], 3, expected);
    }
    // Not the column is to blame for rows that were not read.
    let late = folder.write("late.csv", &format!("t,y\n{}", "1,\n".repeat(60) + "1,2\n"));
    let expected = "in any of the 40 rows that were taken; --max-rows takes more";
    fails(&["tune", "local-level", &late, "--max-rows", "40"], 3, expected);
    // Dates are dates, and several series are not to be sorted.
    let dates = "t,y\n2026-11-15T13:00:00Z,1\n2026-11-16T13:00:00Z,2\n2026-11-15T18:00:00Z,3\n";
    let by_time = |data: &str, code: i32, expected: &str| {
        for command in ["filter", "compare"] {
            fails(&[command, "local-level", data, "--time", "t"], code, expected);
        }
    };
    let timed = |name: &str, text: &str| folder.write(name, text);
    let hours = folder.write(
        "h.toml",
        "system = \"local-level\"\n[filter]\nmethod = \"kf\"\n[time]\nunit = \"hour\"\n",
    );
    fails(
        &["filter", &hours, &timed("dates.csv", dates), "--time", "t", "-q", "-o", &out],
        3,
        "dates.csv: time runs backwards at line 4: 2026-11-15T18:00:00Z after 2026-11-16T13:00:00Z; sort",
    );
    let panel = timed("panel.csv", "id,t,y\na,1,1\na,2,1\na,3,1\nb,1,5\nb,2,5\n");
    by_time(&panel, 3, "panel.csv: at line 5 the times begin again: 1 after 3");
    by_time(&panel, 3, "take one series at a time");
    let err =
        String::from_utf8_lossy(&run(&["filter", "local-level", &panel, "--time", "t"]).stderr)
            .into_owned();
    assert!(!err.contains("sort"), "{err}");
    // A count that is none is in a column, of a line.
    let counts = folder.write("counts.csv", "# of a day\n\ncount\n3\n\n-1\n");
    fails(
        &["filter", "logistic-counts", &counts, "--method", "imap", "-q", "-o", &out],
        3,
        "counts.csv: line 6, column \"count\": -1 is not a count: a whole number of at least 0; mend the cell",
    );
    // A long sum is long, not deep.
    let sum = vec!["x/2000"; 2000].join(" + ");
    let sum = folder.write("sum.toml", &model(&sum, ""));
    assert!(ok(&["model", "check", &sum]).contains("x/2000 + x/2000"));
    let deep = format!("{}x{}", "(1 + ".repeat(301), ")".repeat(301));
    fails(
        &["model", "check", &folder.write("deep.toml", &model(&deep, ""))],
        2,
        "nested more than 300 deep",
    );
    // What a setting is called in the file, once.
    let bounds = folder.write("b.toml", &model("x", "[bounds]\nx = [\"inf\", \"inf\"]\n"));
    let err =
        String::from_utf8_lossy(&run(&["filter", &bounds, &numbers, "--method", "imap"]).stderr)
            .into_owned();
    assert!(!err.contains("bounds: bounds"), "{err}");
}

/// Nobody hears the remarks: no reason to end in the middle.
#[cfg(unix)]
#[test]
fn a_listener_that_goes_away_ends_nothing() {
    let folder = Folder::new();
    let data = folder.write("d.csv", "y\n1\n2\n");
    let (out, bad) = (folder.name("o.csv"), folder.write("bad.csv", "z\n1\n"));
    for (args, code) in [
        (vec!["filter", "local-level", &data, "--method", "kf", "-o", &out], 0),
        (vec!["filter", "local-level", &bad, "--method", "kf", "-o", &out], 3),
        (vec!["simulate", "local-level", "--steps", "3", "--json", "-o", &out], 0),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = program();
        let status = command.args(&args).stdin(std::process::Stdio::null()).stderr(writer).status();
        assert_eq!(status.unwrap().code(), Some(code), "{args:?}");
    }
    assert!(!folder.read("o.csv").is_empty());
}

/// Asked to end, a run without a checkpoint says so as one with it does, and its rows are whole.
#[cfg(unix)]
#[test]
fn a_run_that_is_asked_to_end_does_so_in_order() {
    use std::io::Write;
    let folder = Folder::new();
    for (more, name) in [(&[][..], "o.csv"), (&["--follow"], "f.csv"), (&[], "o.csv.gz")] {
        let out = folder.name(name);
        let mut child = program()
            .args(["filter", "local-level", "-", "--method", "kf", "-q", "-o", &out])
            .args(more)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut to = child.stdin.take().unwrap();
        // More than a batch, and then nothing for ever.
        to.write_all(format!("y\n{}", "1\n".repeat(5000)).as_bytes()).unwrap();
        while std::fs::metadata(&out).map_or(0, |m| m.len()) < 200 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let kill = std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(kill.success());
        assert_eq!(child.wait().unwrap().code(), Some(130), "{name}");
        if !name.ends_with(".gz") {
            let text = folder.read(name);
            assert!(text.lines().count() > 4000 || !more.is_empty(), "{}", text.lines().count());
            assert!(text.ends_with(",ok\n"), "{:?}", text.lines().last());
        }
    }
}

#[test]
fn an_input_that_is_not_known_yet_is_not_guessed() {
    let folder = Folder::new();
    let model = folder.write(
        "m.toml",
        "states = [\"x\"]\n[inputs]\npush = { hold = true }\n[dynamics]\nx = \"x + push\"\n[observation]\ny = \"x\"\n\
         [process_noise]\nvar = 1\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n",
    );
    let data = folder.write("d.csv", "y,push\n,\n,\n2,3\n");
    for command in ["filter", "smooth"] {
        fails(&[command, &model, &data], 3, "line 2, column \"push\": the input has no value");
    }
    fails(
        &["smooth", &model, &data, "--lag", "1"],
        3,
        "line 2, column \"push\": the input has no value",
    );
    // Nor is a share of nothing printed.
    let data = folder.write("same.csv", "y,push\n1,1\n1,1\n1,1\n");
    let said = String::from_utf8(run(&["filter", &model, &data]).stderr).unwrap();
    assert!(
        said.contains("(the measurement before is repeated exactly)") && !said.contains("inf"),
        "{said}"
    );
}

#[test]
fn measurements_without_noise_are_spoken_of_as_such() {
    let folder = Folder::new();
    let text = "states = [\"x\"]\n[dynamics]\nx = \"0.9*x\"\n[observation]\ny = \"x\"\n[process_noise]\nvar = 1\nper = \"time\"\n\
        [measurement_noise]\nvar = 0\n[initial]\nmean = 0\nstd = 2\n[time]\ncolumn = \"t\"\n";
    let model = folder.write("m.toml", text);
    let data = folder.write("d.csv", "t,y\n0,1\n1,2\n2,\n3,1.5\n");
    let output = run(&["filter", &model, &data]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !said.contains("no measurement moves"), "{said}");
    for method in ["pf", "imap"] {
        let output = run(&["filter", &model, &data, "--method", method]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains("[measurement_noise] must be positive for this filter")
                && !said.contains("add ["),
            "{said}"
        );
    }
    let twice = folder.write("twice.csv", "t,y\n0,1\n1,2\n1,2.5\n");
    for command in ["filter", "smooth"] {
        fails(&[command, &model, &twice], 3, "line 4: an exact measurement is given twice");
    }
}

#[test]
fn a_spread_that_is_negative_is_named_with_its_value() {
    let folder = Folder::new();
    let text = "system = \"local-level\"\n[measurement_noise]\nstd = \"0.5*hdop\"\n";
    let model = folder.write("m.toml", text);
    let data = folder.write("d.csv", "y,hdop\n1,1\n2,-4\n");
    for (command, flags) in [
        ("filter", &[][..]),
        ("smooth", &[]),
        ("smooth", &["--lag", "1"]),
        ("filter", &["--method", "pf"]),
    ] {
        let args = [&[command, &model, &data][..], flags].concat();
        fails(&args, 3, "line 3: [measurement_noise] std = \"0.5*hdop\" gives -2 for y");
    }
}

/// A measurement far more exact than the last place of its state moves it all the same.
#[test]
fn a_state_is_moved_by_what_is_known_beyond_its_last_place() {
    let folder = Folder::new();
    let text = "states = [\"x\"]\n[dynamics]\nx = \"x\"\n[observation]\ny = \"x\"\n[process_noise]\nstd = 0.1\n\
        [measurement_noise]\nvar = 1e-36\n[initial]\nmean = -6.8\nstd = 1\n";
    let model = folder.write("m.toml", text);
    let data = folder.write("d.csv", "y\n1\n2\n1.5\n");
    for method in ["kf", "ekf"] {
        let output = run(&["filter", &model, &data, "--method", method]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !said.contains("no measurement moves"), "{said}");
    }
}

#[test]
fn one_state_that_no_measurement_moves_is_spoken_of_as_one() {
    let folder = Folder::new();
    for (more, text) in [
        ("", "warning: no measurement moves z; nothing that is measured depends on it\n"),
        (
            ", \"w\"",
            "warning: no measurement moves z, w; nothing that is measured depends on them\n",
        ),
    ] {
        let w = if more.is_empty() { "" } else { "w = \"w\"\n" };
        let text_of = format!(
            "states = [\"x\", \"z\"{more}]\n[dynamics]\nx = \"x\"\nz = \"z\"\n{w}[observation]\ny = \"x\"\n\
             [process_noise]\nvar = 1\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n"
        );
        let model = folder.write("m.toml", &text_of);
        let data = folder.write("d.csv", "y\n1\n2\n1.5\n");
        let output = run(&["filter", &model, &data, "--method", "kf"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && said.contains(text), "{said}");
    }
}

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
        "time runs backwards at row 3: 1 after 2",
    );
    let data = table("c.csv", "count\n3\n2.5\n");
    fails(&["filter", "logistic-counts", &data, "-o", &folder.name("o.csv")], 3, "measurement 2.5");
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
        (&["--lr", "-1"], "a positive number"),
        (&["--lr", "nan"], "a positive number"),
        (&["--decay", "1"], "below 1"),
        (&["--method", "ekf", "--lr", "0.1"], "belong to imap"),
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
        "diverged at time index",
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

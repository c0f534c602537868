//! Checkpoints: a killed run goes on without a lost or doubled row.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

const FLAGS: [&[&str]; 4] = [
    &["--method", "ekf"],
    &["--optimizer", "adam", "--steps", "3", "--lr", "0.05", "--carry"],
    &["--method", "pf", "--particles", "32", "--seed", "7"],
    &["--method", "letkf", "--members", "5", "--rotate", "--seed", "7"],
];

#[test]
fn a_run_killed_at_any_moment_ends_as_if_it_had_not_been() {
    let folder = Folder::new();
    let data = folder.name("d.csv");
    ok(&[
        "simulate",
        "pendulum",
        "--steps",
        "60000",
        "--seed",
        "1",
        "--missing",
        "0.05",
        "--out",
        &data,
    ]);
    for (i, flags) in FLAGS.iter().enumerate() {
        let whole = folder.name("whole.csv");
        let mut args = vec!["filter", "pendulum", &data, "-q", "--out", &whole];
        args.extend(*flags);
        let begun = Instant::now();
        ok(&args);
        let seconds = begun.elapsed().as_secs_f64();
        let (parts, checkpoint) = (folder.name("parts.csv"), folder.name(&format!("c{i}")));
        let mut args = vec!["filter", "pendulum", &data, "-q", "--out", &parts];
        args.extend(["--checkpoint", &checkpoint, "--checkpoint-every", "3000"]);
        args.extend(*flags);
        let mut killed = 0;
        for attempt in 0..50 {
            let mut child = program().args(&args).spawn().unwrap();
            // Later and later, so that the run gets to its end some time.
            let patience = Duration::from_secs_f64(seconds * 0.23 * f64::from(1 + attempt / 4));
            let started = Instant::now();
            let done = loop {
                match child.try_wait().unwrap() {
                    Some(status) => break Some(status),
                    None if started.elapsed() > patience => break None,
                    None => std::thread::sleep(Duration::from_millis(1)),
                }
            };
            match done {
                Some(status) => {
                    assert!(status.success());
                    break;
                }
                None => {
                    child.kill().unwrap(); // SIGKILL
                    child.wait().unwrap();
                    killed += 1;
                }
            }
        }
        assert!(killed > 0, "the run was never interrupted");
        assert!(
            folder.read("whole.csv") == folder.read("parts.csv"),
            "{flags:?} after {killed} kills"
        );
    }
}

#[test]
fn new_rows_go_on_where_the_old_ones_ended() {
    let folder = Folder::new();
    let data = folder.name("d.csv");
    ok(&["simulate", "pendulum", "--steps", "500", "--out", &data]);
    let text = folder.read("d.csv");
    let cut = text.lines().take(301).map(|l| format!("{l}\n")).collect::<String>();
    let (some, out, ckpt) =
        (folder.write("some.csv", &cut), folder.name("o.csv"), folder.name("c"));
    let args = |data: &str| -> Vec<String> {
        ["filter", "pendulum", data, "--method", "ukf", "-q", "--out", &out, "--checkpoint", &ckpt]
            .map(str::to_owned)
            .to_vec()
    };
    let run = |data: &str| {
        let args = args(data);
        ok(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    run(&some);
    run(&data);
    let whole = ok(&["filter", "pendulum", &data, "--method", "ukf", "-q"]);
    assert!(folder.read("o.csv") == whole);
    // Once more: nothing is left to do, and nothing changes.
    run(&data);
    assert!(folder.read("o.csv") == whole);

    let other = common::run(&["filter", "pendulum", &data, "--out", &out, "--checkpoint", &ckpt]);
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("another model or other flags"));
    std::fs::write(folder.path("c"), b"OPTFILT\nrubbish").unwrap();
    let list = args(&data);
    let damaged = common::run(&list.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(damaged.status.code(), Some(1));
}

#[test]
fn a_followed_stream_goes_on_from_its_checkpoint() {
    let folder = Folder::new();
    let data = folder.name("d.csv");
    ok(&["simulate", "growth", "--steps", "100", "--out", &data]);
    let text = folder.read("d.csv");
    let lines: Vec<&str> = text.lines().collect();
    let (first, second) =
        (lines[..41].join("\n") + "\n", [&lines[..1], &lines[41..]].concat().join("\n") + "\n");
    let ckpt = folder.name("c");
    let args =
        ["filter", "growth", "-", "--method", "ekf", "--follow", "-q", "--checkpoint", &ckpt];
    let one = run_with_input(&args, &first);
    let two = run_with_input(&args, &second);
    let whole = run_with_input(&["filter", "growth", "-", "--method", "ekf", "-q"], &text);
    let joined = [one.stdout, two.stdout].concat();
    assert_eq!(String::from_utf8_lossy(&joined), String::from_utf8_lossy(&whole.stdout));
}

/// Asked to end while it waits for input, a followed stream saves what it has answered, and goes on from there.
#[cfg(unix)]
#[test]
fn a_followed_stream_that_is_asked_to_end_loses_nothing() {
    let folder = Folder::new();
    let data = folder.name("d.csv");
    ok(&["simulate", "growth", "--steps", "60", "--out", &data]);
    let text = folder.read("d.csv");
    let lines: Vec<&str> = text.lines().collect();
    let ckpt = folder.name("c");
    let args = ["filter", "growth", "-", "--follow", "-q", "--checkpoint", &ckpt];
    let mut child =
        program().args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    let mut answers = String::new();
    writeln!(to, "{}", lines[0]).unwrap();
    from.read_line(&mut answers).unwrap();
    for line in &lines[1..41] {
        writeln!(to, "{line}").unwrap();
        from.read_line(&mut answers).unwrap();
    }
    let kill = std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let rest = [&lines[..1], &lines[41..]].concat().join("\n") + "\n";
    let rest = String::from_utf8(run_with_input(&args, &rest).stdout).unwrap();
    let whole = ok(&["filter", "growth", &data, "-q"]);
    assert_eq!(answers + &rest, whole);
}

/// Where rows of several tables, or late ones, are put in order, a table that has grown moves rows that are done: nothing of that may pass
/// in silence.
#[test]
fn tables_that_are_put_in_order_together_must_not_have_grown() {
    let folder = Folder::new();
    let model = folder.write(
        "m.toml",
        "states = [\"x\", \"z\"]\n[dynamics]\nx = \"x\"\nz = \"z\"\n[observation]\na = \"x\"\nb = \"z\"\n[process_noise]\nvar = 1\n\
         [measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n[time]\ncolumn = \"t\"\n",
    );
    let both = |rows: &[i32]| {
        rows.iter().fold("t,a,b\n".to_owned(), |text, k| text + &format!("{k},{k},1\n"))
    };
    let half = |name: &str, rows: i32| {
        (0..rows).fold(format!("t,{name}\n"), |text, k| text + &format!("{k},{k}\n"))
    };
    for (case, before, after, flags, goes_on) in [
        ("joined", [half("a", 4), half("b", 4)], [half("a", 4), half("b", 6)], &[][..], false),
        (
            "joined, as it was",
            [half("a", 4), half("b", 4)],
            [half("a", 4), half("b", 4)],
            &[],
            true,
        ),
        (
            "in turn, the first",
            [both(&[0, 1]), both(&[0, 1])],
            [both(&[0, 1, 2]), both(&[0, 1])],
            &[],
            false,
        ),
        (
            "in turn, the last",
            [both(&[0, 1]), both(&[0, 1])],
            [both(&[0, 1]), both(&[0, 1, 2])],
            &[],
            true,
        ),
        (
            "late",
            [both(&[0, 2, 1]), String::new()],
            [both(&[0, 2, 1, 3]), String::new()],
            &["--late", "5s"],
            false,
        ),
        (
            "late, as it was",
            [both(&[0, 2, 1]), String::new()],
            [both(&[0, 2, 1]), String::new()],
            &["--late", "5s"],
            true,
        ),
    ] {
        let (out, checkpoint) = (folder.name("out.csv"), folder.name("c"));
        let _ = (std::fs::remove_file(&out), std::fs::remove_file(&checkpoint));
        let filter = |texts: &[String; 2], kept: bool| {
            let tables: Vec<String> = ["1.csv", "2.csv"]
                .iter()
                .zip(texts)
                .filter(|(_, text)| !text.is_empty())
                .map(|(name, text)| folder.write(name, text))
                .collect();
            let mut args = vec!["filter", &model, "-q"];
            args.extend(tables.iter().map(String::as_str));
            args.extend(flags);
            if kept {
                args.extend(["--out", &out, "--checkpoint", &checkpoint]);
            }
            run(&args)
        };
        assert!(filter(&before, true).status.success(), "{case}");
        let again = filter(&after, true);
        let said = String::from_utf8_lossy(&again.stderr).into_owned();
        assert_eq!(again.status.success(), goes_on, "{case}: {said}");
        if goes_on {
            let whole = String::from_utf8(filter(&after, false).stdout).unwrap();
            assert_eq!(folder.read("out.csv"), whole, "{case}");
        } else {
            assert_eq!(again.status.code(), Some(3));
            assert!(said.contains(".csv has changed since the checkpoint"), "{case}: {said}");
        }
    }
    // Rows that wait are not in a checkpoint, so a stream cannot be gone on with.
    let checkpoint = folder.name("s");
    let args = [
        "filter",
        &model,
        "-",
        "--late",
        "5s",
        "--out",
        &folder.name("s.csv"),
        "--checkpoint",
        &checkpoint,
    ];
    let output = run_with_input(&args, &both(&[0, 1]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && said.contains("standard input is no file"),
        "{said}"
    );
}

/// What was counted before the checkpoint is counted on, and the summary says so.
#[test]
fn a_summary_counts_rows_and_outliers_of_all_runs() {
    let folder = Folder::new();
    let data = folder.write("d.csv", "y\n1\n\n2\n");
    let (out, kept) = (folder.name("out.csv"), folder.name("c"));
    let args =
        ["filter", "local-level", &data, "--gate", "0.999", "-o", &out, "--checkpoint", &kept];
    let said = || {
        let output = run(&args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        said
    };
    let first = said();
    assert!(first.contains(" rows/s), 1 missing\n") && !first.contains("so far"), "{first}");
    folder.write("d.csv", "y\n1\n\n2\n1000\n3\n");
    let second = said();
    assert!(second.contains("resumed after row 3\n2 rows in "), "{second}");
    assert!(second.contains("; of all 5 rows so far, 1 missing, 1 outlier\n"), "{second}");
    folder.write("d.csv", "y\n1\n\n2\n1000\n3\n-1000\n");
    let third = said();
    assert!(third.contains("; of all 6 rows so far, 1 missing, 2 outliers\n"), "{third}");
}

//! Files that others write, at the same time or badly: nothing lost, nothing twice, nothing of anybody else's cut.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

const WALK: &str = "states = [\"x\"]\n[dynamics]\nx = \"x\"\n[observation]\ny = \"x\"\n[process_noise]\nvar = 1\n\
                    [measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n";

/// Runs; the exit code and what was said.
fn said(args: &[&str]) -> (i32, String) {
    let output = run(args);
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Numbers that are not alike, a row each.
fn rows(count: u32) -> String {
    (0..count).map(|k| format!("{}\n", f64::from(k * 7919 % 1000) / 8.0)).collect()
}

/// Files left in a folder by runs that ended: none that anybody has to clear away.
fn left(folder: &Folder) -> Vec<String> {
    let names = std::fs::read_dir(folder.path("")).unwrap();
    let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|n| n.ends_with(".tmp") || n.ends_with(".lock")).collect()
}

/// However a table has grown when a run looks at it: after each run the results are those of the whole table as it was then.
#[test]
fn a_row_that_is_half_there_is_done_again() {
    for (name, head, parts, flags) in [
        ("log.csv", "y\n", &["1\n12.", "75\n14\n", "", "3", "\n4"][..], &[][..]),
        ("log.csv", "y,s\n", &["1,a\n2,\"b", "\"\n3", ",a", "1\n4,b\n", "5,a"], &["--by", "s"]),
        ("log.tsv", "y\ts\n", &["1\ta\n2\tb", "b\n3\ta\n"], &["--by", "s"]),
        ("log.jsonl", "", &["{\"y\":1}\n{\"y\":2}", "\n{\"y\"", ":3.5}\n"], &[]),
        ("log.csv", "t,y\n", &["98,1\n99,2\n10", "0,3\n101", ",4"], &["--time", "t"]),
        ("log.csv", "y\n", &["1\n2\n3\n4.", "5\n6\n7", "8"], &["--follow"]),
        (
            "log.csv",
            "y\n",
            &["1\n2\n3.", "5\n6\n7", "8\n"],
            &["--lagged", "--optimizer", "cg", "--window", "2"],
        ),
    ] {
        let folder = Folder::new();
        let model = folder.write("m.toml", WALK);
        let (data, out, kept) = (folder.name(name), folder.name("out"), folder.name("c"));
        let mut text = head.to_owned();
        let base = [&["filter", &model, &data, "-q"][..], flags].concat();
        for part in parts {
            text.push_str(part);
            folder.write(name, &text);
            let run_on = [&base[..], &["--out", &out, "--checkpoint", &kept]].concat();
            let (code, why) = said(&run_on);
            assert_eq!(code, 0, "{text:?}: {why}");
            // What cannot be read yet is left; a whole run refuses it.
            let whole = run(&base);
            if whole.status.success() {
                assert_eq!(folder.read("out").as_bytes(), whole.stdout, "{text:?}");
            } else {
                assert!(why.contains("is left for the run that goes on"), "{text:?}: {why}");
            }
        }
        assert_eq!(left(&folder), Vec::<String>::new());
    }
}

/// Where an answer cannot be taken back, there is none of half a row.
#[test]
fn half_a_row_of_a_stream_is_left() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let kept = folder.name("c");
    for follow in [&[][..], &["--follow"]] {
        let _ = std::fs::remove_file(&kept);
        let args = [&["filter", &model, "-", "-q", "--checkpoint", &kept], follow].concat();
        let first = run_with_input(&args, "y\n1\n12.");
        assert!(String::from_utf8_lossy(&first.stderr).contains("ends within line 3"));
        let second = run_with_input(&args, "y\n12.75\n14\n");
        let both = [first.stdout, second.stdout].concat();
        let whole = run_with_input(&["filter", &model, "-", "-q"], "y\n1\n12.75\n14\n").stdout;
        assert_eq!(String::from_utf8(both).unwrap(), String::from_utf8(whole).unwrap());
    }
}

/// A table of two files, of which the last grows: by their names, and by a column.
#[test]
fn the_last_of_several_tables_may_grow() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let first = folder.write("1.csv", "y,s\n1,a\n2,b");
    let (second, out, kept) = (folder.name("2.csv"), folder.name("out"), folder.name("c"));
    for flags in [&[][..], &["--by", "s"]] {
        let _ = (std::fs::remove_file(&out), std::fs::remove_file(&kept));
        let base = [&["filter", &model, &first, &second, "-q"][..], flags].concat();
        let mut text = "y,s\n".to_owned();
        for part in ["3,a\n4,", "b\n5,a", "a\n6,b\n"] {
            text.push_str(part);
            folder.write("2.csv", &text);
            let (code, why) = said(&[&base[..], &["--out", &out, "--checkpoint", &kept]].concat());
            assert_eq!(code, 0, "{why}");
        }
        assert_eq!(folder.read("out"), ok(&base));
    }
    folder.write("1.csv", "y,s\n1,a\n2,c");
    let base = ["filter", &model, &first, &second, "-q", "--by", "s"];
    let (code, why) = said(&[&base[..], &["--out", &out, "--checkpoint", &kept]].concat());
    assert_eq!(code, 3, "{why}");
    assert!(why.contains("1.csv: line 3 is not what was filtered"), "{why}");
}

/// A table that another follows ends where it ends, with or without the end of its last line.
#[test]
fn only_the_last_of_several_tables_ends_within_a_row() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let (first, second) = (folder.write("1.csv", "y\n1\n2\n3"), folder.name("2.csv"));
    let (kept, tables) = (folder.name("c"), ["filter", &model, &first, &second, "-q"]);
    folder.write("2.csv", "y\n4\n5\n");
    let saving = [&tables[..], &["--checkpoint", &kept]].concat();
    let begun = ok(&saving);
    assert_eq!(begun, ok(&tables));
    // All of it is in the checkpoint, and goes on.
    folder.write("2.csv", "y\n4\n5\n6\n");
    assert_eq!(begun + &ok(&saving), ok(&tables));
    // What comes after is not swallowed either.
    let _ = std::fs::remove_file(&kept);
    folder.write("2.csv", "y\n4\nfive\n6\n");
    assert_eq!(said(&saving).0, 3);
}

/// A quote that nothing ends takes in whole lines: that is no row to be finished.
#[test]
fn a_quote_that_nothing_ends_is_an_error() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let (out, kept) = (folder.name("out"), folder.name("c"));
    for rows in ["a,1\n\"b,2\nc,3\n", "a,1\n\"b,2\nc,3"] {
        let data = folder.write("d.csv", &format!("n,y\n{rows}"));
        let (code, why) =
            said(&["filter", &model, &data, "-q", "--out", &out, "--checkpoint", &kept]);
        assert_eq!(code, 3, "{why}");
        assert!(why.contains("d.csv: line 3"), "{why}");
        let _ = (std::fs::remove_file(&out), std::fs::remove_file(&kept));
    }
}

/// What a pipe has brought is gone: who sends it hears what is to come again.
#[test]
fn half_a_row_of_a_pipe_is_asked_for_again() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let whole = ok(&["filter", &model, &folder.write("d.csv", "y\n1\n12.75\n14\n"), "-q"]);
    for follow in [&[][..], &["--follow"]] {
        let (out, kept) = (folder.name("out"), folder.name("c"));
        let args = ["filter", &model, "-", "-q", "--out", &out, "--checkpoint", &kept];
        let args = [&args[..], follow].concat();
        let first = run_with_input(&args, "y\n1\n12.");
        let why = String::from_utf8_lossy(&first.stderr).into_owned();
        assert!(first.status.success() && why.contains("ends within line 3"), "{why}");
        assert!(why.contains("send all of it again"), "{why}");
        let second = run_with_input(&args, "y\n12.75\n14\n");
        assert!(second.stderr.is_empty(), "{second:?}");
        assert_eq!(folder.read("out"), whole);
        let _ = (std::fs::remove_file(&out), std::fs::remove_file(&kept));
    }
}

/// Rows that wait for the next value of an input would not be the same again, and `--late 0s` does not change that.
#[test]
fn rows_that_wait_are_in_no_checkpoint() {
    let folder = Folder::new();
    let text = WALK.replace("\"x\"\n[observation]", "\"x + u*dt\"\n[observation]");
    let model = folder.write("m.toml", &format!("{text}[inputs]\nu = {{ hold = \"next\" }}\n"));
    let data = folder.write("d.csv", "t,y,u\n0,1,1\n1,2,1\n");
    let args = ["filter", &model, &data, "--time", "t", "-q", "--checkpoint", &folder.name("c")];
    for late in [&[][..], &["--late", "0s"]] {
        let (code, why) = said(&[&args[..], late].concat());
        assert_eq!(code, 2, "{why}");
        assert!(why.contains("rows wait for the next value of input `u`"), "{why}");
    }
}

/// Rows that are done are compared: whoever changes one is told, and where.
#[test]
fn rows_that_are_done_must_be_what_they_were() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let (out, kept) = (folder.name("out"), folder.name("c"));
    let lines: Vec<String> = rows(40).lines().map(str::to_owned).collect();
    let table = |lines: &[String]| format!("y\n{}\n", lines.join("\n"));
    let data = folder.write("d.csv", &table(&lines));
    let args = ["filter", &model, &data, "-q", "--out", &out, "--checkpoint", &kept];
    ok(&args);
    let before = folder.read("out");
    let mut changed = lines.clone();
    changed[30] = "0.5".into();
    let mut missing = lines.clone();
    missing.remove(7);
    missing.push("1".into());
    let mut more = lines.clone();
    more.insert(0, "1".into());
    for (now, line) in [(changed, 32), (missing, 9), (more, 2)] {
        folder.write("d.csv", &table(&now));
        let (code, why) = said(&args);
        assert_eq!(code, 3, "{why}");
        assert!(why.contains(&format!("d.csv: line {line} is not what was filtered")), "{why}");
    }
    folder.write("d.csv", &table(&lines[..39]));
    let (code, why) = said(&args);
    assert_eq!((code, why.contains("fewer rows")), (3, true), "{why}");
    assert_eq!(folder.read("out"), before);
    // What does not bear on the numbers may change.
    folder.write("d.csv", &format!("# mended\n{}", table(&lines).replace('\n', "\r\n")));
    ok(&args);
    assert_eq!(folder.read("out"), before);
}

#[test]
fn a_run_goes_on_as_it_began_and_in_its_own_results() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let (out, kept) = (folder.name("out"), folder.name("c"));
    let data = folder.write("d.csv", "t,y\n0,1\n1,2\n");
    let base = ["filter", &model, &data, "-q", "--checkpoint", &kept];
    ok(&[&base[..], &["--out", &out]].concat());
    for (flags, name) in [
        (&["--out", &out, "--out-format", "jsonl"][..], ": --out-format differs"),
        (&["--out", &out, "--format", "tsv"], ": --format differs"),
        (&["--out", &out, "--full"], "--full"),
        (&["--out", &out, "--time", "t"], "--time"),
        (&["--out", &out, "--horizon", "2"], "--horizon"),
        (&["--out", &out, "--method", "ekf"], "the filter"),
        (&[], "--out"),
    ] {
        let (code, why) = said(&[&base[..], flags].concat());
        assert_eq!(code, 2, "{flags:?}: {why}");
        assert!(why.contains("another model or other flags") && why.contains(name), "{why}");
    }
    let other = WALK.replace("mean = 0", "mean = 1");
    folder.write("m.toml", &other);
    let (code, why) = said(&[&base[..], &["--out", &out]].concat());
    assert_eq!((code, why.contains("the model differs")), (2, true), "{why}");
    // A title and remarks make no other model.
    folder.write("m.toml", &format!("# remarks\nname = \"walk\"\n{WALK}"));
    ok(&[&base[..], &["--out", &out]].concat());
    let before = folder.read("out");
    let longer = folder.write("longer", &rows(500));
    let (code, why) = said(&[&base[..], &["--out", &longer]].concat());
    assert_eq!((code, why.contains("does not hold the results")), (1, true), "{why}");
    assert_eq!((folder.read("longer"), folder.read("out")), (rows(500), before));
    // Of another version: its kind was the same without a number.
    let old = optfilter::checkpoint::save("command line/filter", &1u64).unwrap();
    std::fs::write(&kept, old).unwrap();
    let (code, why) = said(&[&base[..], &["--out", &out]].concat());
    assert_eq!((code, why.contains("another version of optfilter")), (1, true), "{why}");
}

/// Jobs that overlap: one does the work, the others say so and touch nothing.
#[test]
fn of_runs_on_one_checkpoint_one_does_the_work() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let data = folder.write("d.csv", &format!("y\n{}", rows(20_000)));
    let (out, kept) = (folder.name("out"), folder.name("c"));
    let args = ["filter", &model, &data, "-q", "--out", &out, "--checkpoint", &kept];
    let args = [&args[..], &["--checkpoint-every", "300"]].concat();
    let start = || program().args(&args).stderr(Stdio::piped()).spawn().unwrap();
    let runs: Vec<_> = (0..3).map(|_| start()).collect();
    let ids: Vec<u32> = runs.iter().map(std::process::Child::id).collect();
    let ended: Vec<_> = runs.into_iter().map(|run| run.wait_with_output().unwrap()).collect();
    let whole = ok(&["filter", &model, &data, "-q"]);
    assert_eq!(folder.read("out"), whole);
    assert!(ended.iter().any(|run| run.status.success()));
    for run in ended.iter().filter(|run| !run.status.success()) {
        let why = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{why}");
        // Who has just begun may not have said yet who it is.
        let named = ids.iter().any(|id| why.contains(&format!("process {id} (since 2")));
        assert!(named || why.contains("another run is using it"), "{why}");
    }
    assert_eq!(left(&folder), Vec::<String>::new());
}

/// The results alone are one run's as well, and a run that was killed keeps nobody away.
#[test]
fn results_are_one_runs_until_it_ends() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let data = folder.write("d.csv", "y\n1\n2\n");
    let out = folder.name("out.csv");
    for (kept, other) in [(false, "simulate"), (true, "filter")] {
        let checkpoint = ["--checkpoint", &folder.name("c")];
        let args = ["filter", &model, "-", "--follow", "-q", "--out", &out];
        let args = if kept { [&args[..], &checkpoint].concat() } else { args.to_vec() };
        let mut first = program().args(&args).stdin(Stdio::piped()).spawn().unwrap();
        let mut input = first.stdin.take().unwrap();
        input.write_all(b"y\n1\n").unwrap();
        let begun = Instant::now();
        let lock = folder.path(".out.csv.optfilter.lock");
        let about = || std::fs::read_to_string(&lock).unwrap_or_default();
        while !about().contains(&first.id().to_string()) || !folder.path("out.csv").exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it never began");
            std::thread::sleep(Duration::from_millis(5));
        }
        let second = match other {
            "simulate" => vec!["simulate", &model, "--out", &out],
            _ => vec!["filter", &model, &data, "--out", &out],
        };
        let (code, why) = said(&second);
        assert_eq!(code, 1, "{why}");
        assert!(why.contains(&format!("process {}", first.id())) && why.contains("--out"), "{why}");
        first.kill().unwrap(); // SIGKILL
        first.wait().unwrap();
        ok(&second);
        assert!(left(&folder).iter().all(|name| !name.contains("out.csv")));
    }
}

/// However long the name of a file is, and through a link to a file that is yet to be.
#[cfg(unix)]
#[test]
fn long_names_and_links_to_new_files_are_locked() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let data = folder.write("d.csv", "y\n1\n2\n");
    let (long, longer) = ("o".repeat(248) + ".csv", "c".repeat(255));
    std::fs::create_dir(folder.path("real")).unwrap();
    std::os::unix::fs::symlink("real/c", folder.path("link")).unwrap();
    for (out, kept, other) in [
        (long.as_str(), "", &["--out", long.as_str()]),
        ("out", &longer, &["--checkpoint", &longer]),
        ("out", "link", &["--checkpoint", "real/c"]),
    ] {
        let mut args = vec!["filter", &model, "-", "--follow", "-q", "--out", out];
        if !kept.is_empty() {
            args.extend(["--checkpoint", kept]);
        }
        let here = || {
            let mut program = program();
            program.current_dir(folder.path(""));
            program
        };
        let mut first = here().args(&args).stdin(Stdio::piped()).spawn().unwrap();
        let mut input = first.stdin.take().unwrap();
        input.write_all(b"y\n1\n").unwrap();
        let begun = Instant::now();
        while !folder.path(out).exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it never began");
            std::thread::sleep(Duration::from_millis(5));
        }
        let second = here().args(["filter", &model, &data]).args(other).output().unwrap();
        let why = String::from_utf8_lossy(&second.stderr);
        assert_eq!(second.status.code(), Some(1), "{other:?}: {why}");
        assert!(why.contains(&format!("process {}", first.id())), "{why}");
        drop(input);
        assert!(first.wait().unwrap().success(), "{args:?}");
        assert_eq!(left(&folder), Vec::<String>::new());
        std::fs::remove_file(folder.path(out)).unwrap();
    }
    assert!(folder.path("link").is_symlink() && folder.path("real/c").is_file());
    // What a killed run has left of a long name goes, too.
    let out = folder.write(&long, "");
    let mut args = vec!["filter", &model, "-", "--out", &out];
    let mut killed = program().args(&args).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = killed.stdin.take().unwrap();
    input.write_all(b"y\n").unwrap();
    let begun = Instant::now();
    while left(&folder).len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    args[2] = &data;
    ok(&args);
    assert_eq!(left(&folder), Vec::<String>::new());
}

/// Where nothing can be put beside a file, even by the system's administrator.
#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_locked_is_spoken_of() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let data = folder.write("d.csv", "y\n1\n2\n");
    let (code, why) = said(&["filter", &model, &data, "-q", "--out", "/proc/self/comm"]);
    assert_eq!(code, 0, "{why}");
    assert!(why.contains("note: /proc/self/comm cannot be locked ("), "{why}");
    // What could not be written in any case is not spoken of twice.
    let nowhere = folder.name("nowhere/out.csv");
    let (code, why) = said(&["filter", &model, &data, "-q", "--out", &nowhere]);
    assert!(code != 0 && why.lines().count() == 1, "{why}");
}

#[test]
fn what_killed_runs_have_left_is_cleared() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let data = folder.write("d.csv", "y\n1\n2\n");
    for name in ["out.csv.1.tmp", "out.csv.4294967.tmp", "c.77.tmp", "m.toml.8.tmp"] {
        folder.write(name, "left");
    }
    for name in ["out.csv.x.tmp", "out.csvs.1.tmp", "out.csv.tmp"] {
        folder.write(name, "somebody's own");
    }
    let (out, kept) = (folder.name("out.csv"), folder.name("c"));
    ok(&["filter", &model, &data, "-q", "--out", &out, "--checkpoint", &kept]);
    let mut names = left(&folder);
    names.sort();
    assert_eq!(names, ["m.toml.8.tmp", "out.csv.tmp", "out.csv.x.tmp", "out.csvs.1.tmp"]);
    let data = folder.write("d.csv", &format!("y\n{}", rows(60)));
    ok(&["tune", &model, &data, "--budget", "2", "--methods", "kf", "--save", &model]);
    assert!(!folder.path("m.toml.8.tmp").exists());
}

/// Runs are killed at any moment while the table grows by halves of rows.
#[test]
fn kills_and_half_rows_together_lose_nothing() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let (data, out, kept) = (folder.name("d.csv"), folder.name("out"), folder.name("c"));
    let text = format!("y\n{}", rows(30_000));
    let mut file = std::fs::File::create(&data).unwrap();
    file.write_all(b"y\n").unwrap();
    let whole = text.clone();
    let writer = std::thread::spawn(move || {
        // Pieces of odd lengths, most of which end within a row.
        let mut at = 2;
        let mut state = 7usize;
        while at < whole.len() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let end = (at + 1 + (state >> 40) % 700).min(whole.len());
            file.write_all(&whole.as_bytes()[at..end]).unwrap();
            at = end;
            std::thread::sleep(Duration::from_micros(500));
        }
    });
    let args = ["filter", &model, &data, "-q", "--out", &out, "--checkpoint", &kept];
    let args = [&args[..], &["--checkpoint-every", "500"]].concat();
    let mut killed = 0;
    for attempt in 0u64.. {
        let last = writer.is_finished();
        let mut child = program().args(&args).stderr(Stdio::piped()).spawn().unwrap();
        if !last {
            std::thread::sleep(Duration::from_millis(3 + attempt * 7 % 60));
            killed += u32::from(child.try_wait().unwrap().is_none());
            let _ = child.kill();
        }
        let ended = child.wait_with_output().unwrap();
        let why = String::from_utf8_lossy(&ended.stderr);
        assert!(matches!(ended.status.code(), None | Some(0)), "{why}");
        if last {
            break;
        }
    }
    writer.join().unwrap();
    assert!(killed > 0, "no run was ever killed");
    assert_eq!(folder.read("d.csv"), text);
    assert!(folder.read("out") == ok(&["filter", &model, &data, "-q"]), "after {killed} kills");
    assert_eq!(left(&folder), Vec::<String>::new());
}

#[cfg(unix)]
#[test]
fn what_does_not_fit_in_memory_is_refused_in_a_line() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let data = folder.write("d.csv", "y\n1\n2\n");
    for (command, flags) in [
        ("filter", &["--method", "pf", "--particles", "4294967295"][..]),
        ("filter", &["--method", "etkf", "--members", "4294967295"]),
        ("filter", &["--method", "letkf", "--members", "4294967295"]),
        ("smooth", &["--method", "pf", "--particles", "4294967295"]),
        ("diagnose", &["--method", "pf", "--particles", "4294967295"]),
    ] {
        // A machine may have as much; the message is the same for all that has not.
        let limited =
            format!("ulimit -v 4000000; exec \"$0\" {command} \"$1\" \"$2\" {}", flags.join(" "));
        let program = env!("CARGO_BIN_EXE_optfilter");
        let words = ["-c", &limited, program, &model, &data];
        let output = std::process::Command::new("sh").args(words).output().unwrap();
        let why = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{why}");
        assert!(why.lines().count() == 1 && why.contains("4294967295 would take about"), "{why}");
    }
}

/// What lies behind the rows that are used is not read: here it could not be.
#[test]
fn tuning_reads_no_more_than_it_uses() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let tune = |data: &str, flags: &[&str]| {
        let base = ["tune", &model, data, "--budget", "2", "--methods", "kf", "--max-rows", "60"];
        run(&[&base[..], flags].concat())
    };
    let good = format!("y\n{}", rows(60));
    let bad = folder.write("bad.csv", &format!("{good}1\nnonsense\n"));
    let first = tune(&bad, &[]);
    let text = String::from_utf8(first.stdout).unwrap();
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert!(text.contains("60 rows (the first of the table; --max-rows takes more)"), "{text}");
    let whole = tune(&folder.write("good.csv", &good), &[]);
    let whole = String::from_utf8(whole.stdout).unwrap();
    assert_eq!(
        text.replace(" (the first of the table; --max-rows takes more)", ""),
        whole.replace("good", "bad")
    );
    // Of several series whole ones, as many as fit.
    let many: String = (0..10u32)
        .flat_map(|s| {
            (0..20u32).map(move |k| format!("{},{s}\n", f64::from((s + k) * 7919 % 1000) / 8.0))
        })
        .collect();
    let many = folder.write("many.csv", &format!("y,s\n{many}"));
    let json = tune(&many, &["--by", "s", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["rows"], &json["series"]), (&60.into(), &3.into()));
}

#[test]
fn the_table_that_is_wrong_is_named() {
    let folder = Folder::new();
    let model = folder.write(
        "m.toml",
        "states = [\"x\", \"z\"]\n[dynamics]\nx = \"x\"\nz = \"z\"\n[observation]\na = \"x\"\nb = \"z\"\n[process_noise]\nvar = 1\n\
         [measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n[time]\ncolumn = \"t\"\n",
    );
    let good = folder.write("good.csv", "t,a\n0,1\n");
    let bad = folder.write("bad.csv", "time,b\n0,1\n");
    for tables in [[&good, &bad], [&bad, &good]] {
        let (code, why) = said(&["filter", &model, tables[0], tables[1]]);
        assert_eq!(code, 3);
        assert!(why.contains("bad.csv has no column \"t\"") && !why.contains("good.csv"), "{why}");
    }
    // What cannot be read comes before what cannot be drawn.
    let whole = folder.write("whole.csv", "t,a,b\n0,1,2\n");
    let plot = folder.name("p.svg");
    let missing = folder.name("missing.csv");
    let (code, why) = said(&["filter", &model, &whole, &missing, "--plot", &plot]);
    assert_eq!(code, 3, "{why}");
    assert!(why.contains("missing.csv"), "{why}");
    let (code, _) = said(&["filter", &model, &whole, &good, "--plot", &plot]);
    assert_eq!(code, 2);
}

#[test]
fn a_header_of_megabytes_makes_a_short_message() {
    let folder = Folder::new();
    let model = folder.write("m.toml", WALK);
    let data = folder.write("d.csv", &format!("{}\n1\n", "n".repeat(5 << 20)));
    let (code, why) = said(&["filter", &model, &data]);
    assert_eq!((code, why.len() < 1000), (3, true), "{} bytes", why.len());
    let wrong = folder.write("w.toml", &format!("{} = 1\n{WALK}", "n".repeat(1 << 20)));
    let (code, why) = said(&["filter", &wrong, &data]);
    assert_eq!((code, why.len() < 8000), (2, true), "{} bytes", why.len());
}

//! `optfilter adapt` from end to end.
#![cfg(feature = "adapt")]
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;

/// Two features whose boundary turns right round over 120 time steps of 8 samples.
fn turning() -> String {
    let mut text = "a,b,label,time\n".to_owned();
    let mut state = 1_u64;
    let mut uniform = || {
        // Knuth's multiplier; the upper bits are random enough here.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
    };
    for time in 0..120 {
        let angle = std::f64::consts::PI * f64::from(time) / 120.0;
        for _ in 0..8 {
            let (a, b) = (uniform(), uniform());
            let label = if a * angle.cos() + b * angle.sin() > 0.0 { "up" } else { "down" };
            text.push_str(&format!("{a:.4},{b:.4},{label},{time}\n"));
        }
    }
    text
}

#[test]
fn following_beats_weights_that_stand_still() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &turning());
    let (csv_out, plot) = (folder.name("s.csv"), folder.name("p.svg"));
    let saved = folder.name("w.safetensors");
    let base = ["adapt", &data, "--label", "label", "--time", "time", "--network", "linear"];
    let mut args = base.to_vec();
    args.extend(["--pretrain", "10", "--steps", "20", "--lr", "0.02", "--compare", "--json"]);
    args.extend(["--csv", &csv_out, "--plot", &plot, "--save", &saved]);
    let value: serde_json::Value = serde_json::from_str(&ok(&args)).unwrap();
    let accuracy = |i: usize| value[i]["accuracy"].as_f64().unwrap();
    assert!(value[1]["method"].as_str().unwrap().starts_with("static"));
    // The boundary turns by a half turn: in the end static weights name everything wrongly.
    assert!(accuracy(0) > 85.0, "{value}");
    assert!(accuracy(1) < 70.0, "{value}");
    assert_eq!(value[0]["steps"], 110);
    assert_eq!(folder.read("s.csv").lines().count(), 1 + 3 * 110);
    assert!(folder.read("p.svg").starts_with("<svg"));

    // The same as a table, and from the weights that were saved.
    let mut args = base.to_vec();
    args.extend(["--pretrain", "10", "--weights", &saved]);
    let text = ok(&args);
    assert!(text.contains("implicit MAP") && text.contains("accuracy %"), "{text}");

    // Lines after the data are answered one by one; a bad one does not end the service.
    let mut args = base.to_vec();
    args.extend(["--pretrain", "10", "--follow"]);
    let lines = "{\"x\": [-0.9, 0.1], \"y\": \"up\", \"time\": 120}\nnonsense\n{\"x\": [0.5, 0.5], \"time\": 121}\n";
    let output = run_with_input(&args, lines);
    let text = String::from_utf8_lossy(&output.stdout);
    let answers: Vec<&str> = text.lines().filter(|l| l.starts_with('{')).collect();
    assert_eq!(answers.len(), 3, "{text}");
    assert!(answers[0].contains("\"prediction\""), "{text}");
    assert!(answers[1].contains("error"), "{text}");
    assert!(answers[2].contains("\"prediction\""), "{text}");
}

#[test]
fn mistakes_are_named() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &turning());
    let fails = |args: &[&str], expected: &str| {
        let output = run(args);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && !err.contains("panicked"), "{args:?}\n{err}");
        assert!(err.contains(expected), "{args:?}\n said     {err}\n expected {expected}");
    };
    fails(&["adapt", &folder.name("absent.csv"), "--network", "linear"], "absent.csv");
    fails(&["adapt", &data, "--network", "linear", "--label", "colour"], "colour");
    fails(&["adapt", &data, "--network", "mpl:3"], "mpl:3");
    fails(&["adapt", &folder.write("empty.csv", ""), "--network", "linear"], "empty");
}

/// What is saved with the weights makes a run in two parts the run as a whole, with no flag said twice.
#[test]
fn weights_bring_their_scaling_classes_and_settings() {
    let folder = Folder::new();
    let text = turning();
    // Features in other units, and of other sizes: without their scaling the weights mean nothing.
    let shifted: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(i, line)| {
            let cells: Vec<&str> = line.split(',').collect();
            match cells[..] {
                [a, b, label, time] if i > 0 => {
                    let (a, b): (f64, f64) = (a.parse().unwrap(), b.parse().unwrap());
                    format!("{},{},{label},{time}", 1000.0 + 50.0 * a, 0.01 * b - 3.0)
                }
                _ => line.to_owned(),
            }
        })
        .collect();
    let half = 1 + 60 * 8;
    let whole = folder.write("whole.csv", &(shifted.join("\n") + "\n"));
    let first = folder.write("first.csv", &(shifted[..half].join("\n") + "\n"));
    let second = [&shifted[..1], &shifted[half..]].concat().join("\n") + "\n";
    let second = folder.write("second.csv", &second);
    let (weights, scores, later) = (folder.name("w"), folder.name("s.csv"), folder.name("l.csv"));
    let settings = ["--network", "mlp:8", "--pretrain", "10", "--steps", "20", "--lr", "0.02"];
    ok(&[&["adapt", whole.as_str(), "--csv", &scores][..], &settings].concat());
    ok(&[&["adapt", first.as_str(), "--save", &weights][..], &settings].concat());
    let output = run(&["adapt", &second, "--weights", &weights, "--csv", &later]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (whole, later) = (
        column(&folder.read("s.csv").replace(", ", " "), "accuracy"),
        column(&folder.read("l.csv").replace(", ", " "), "accuracy"),
    );
    assert_eq!(later.len(), 60);
    let mean = |a: &[f64]| a.iter().sum::<f64>() / a.len() as f64;
    assert!(mean(&later) > 80.0, "{}", mean(&later));
    // To the last sample: nothing was lost on the way (weights are single precision there and here).
    assert_eq!(later, whole[whole.len() - 60..]);
    // Flags come before what was saved; a class that the weights do not know is named.
    let text = ok(&["adapt", &second, "--weights", &weights, "--steps", "3"]);
    assert!(text.contains("K=3 lr=0.02"), "{text}");
    let other = folder.write("other.csv", &folder.read("second.csv").replace(",up,", ",sideways,"));
    let output = run(&["adapt", &other, "--weights", &weights]);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3));
    assert!(err.contains("sideways") && err.contains("down, up"), "{err}");
}

/// Without settings a bank is kept, which does as well as settings chosen by hand.
#[test]
fn nothing_has_to_be_chosen() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &turning());
    let json = |more: &[&str]| -> serde_json::Value {
        serde_json::from_str(&ok(&[&["adapt", data.as_str(), "--json"], more].concat())).unwrap()
    };
    let value = json(&["--network", "linear"]);
    assert!(value[0]["method"].as_str().unwrap().starts_with("auto"), "{value}");
    assert!(value[0]["accuracy"].as_f64().unwrap() > 85.0, "{value}");
    assert!(value[0]["mean_loss"].as_f64().unwrap() < 0.4, "{value}");
    assert!(value[0]["balanced_accuracy"].as_f64().unwrap() > 85.0, "{value}");
    assert!(value[0]["calibration_error"].as_f64().unwrap() < 15.0, "{value}");
    assert_eq!(value[0]["steps"], 120);
    let by_hand =
        json(&["--network", "linear", "--window", "3", "--discount", "0.8", "--steps", "5"]);
    assert!(by_hand[0]["method"].as_str().unwrap().contains("L=3 g=0.8"), "{by_hand}");
    for (flags, expected) in [
        (&["--auto", "--steps", "3"][..], "--auto"),
        (&["--discount", "1.5"], "discount"),
        (&["--method", "static", "--window", "3"], "--window"),
        (&["--delay", "3", "--tune"], "--tune"),
        (&["--stream", "--pretrain", "3"], "--pretrain"),
    ] {
        let output = run(&[&["adapt", data.as_str()], flags].concat());
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains(expected), "{flags:?} {err}");
    }
}

/// Standard input gives what the file gives; late and missing labels; a class that nobody knew of.
#[test]
fn streams_come_as_they_are() {
    let folder = Folder::new();
    let text = turning();
    let data = folder.write("d.csv", &text);
    let flags = ["--network", "linear", "--json"];
    let read = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    let streamed = ok(&[&["adapt", data.as_str(), "--stream"][..], &flags].concat());
    let output = run_with_input(&[&["adapt", "-"][..], &flags].concat(), &text);
    assert_eq!(streamed, String::from_utf8_lossy(&output.stdout));
    let accuracy = |v: &serde_json::Value| v[0]["accuracy"].as_f64().unwrap();
    assert!(accuracy(&read(&streamed)) > 85.0);
    // The boundary turns while labels are on their way.
    let late = read(&ok(&[&["adapt", data.as_str(), "--delay", "40"][..], &flags].concat()));
    assert!(accuracy(&late) < accuracy(&read(&streamed)) - 5.0, "{late}");
    // Every third label is missing.
    let gaps: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(i, l)| if i % 3 == 2 { l.replace("up", "?").replace("down", "") } else { l.into() })
        .collect();
    let gaps = folder.write("gaps.csv", &(gaps.join("\n") + "\n"));
    let value = read(&ok(&[&["adapt", gaps.as_str(), "--stream"][..], &flags].concat()));
    assert_eq!(value[0]["unlabelled"], 320);
    assert_eq!(value[0]["samples"], 640);
    assert!(accuracy(&value) > 83.0, "{value}");
    // In the second half there is a third class.
    let grown: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(i, l)| match l.strip_prefix("0.9") {
            Some(_) if i > 480 => l.replace("up", "far").replace("down", "far"),
            _ => l.into(),
        })
        .collect();
    let grown = folder.write("grown.csv", &(grown.join("\n") + "\n"));
    let value = read(&ok(&[&["adapt", grown.as_str(), "--stream"][..], &flags].concat()));
    assert!(accuracy(&value) > 75.0, "{value}");
    // What is wrong is named by line and column.
    for (from, to, expected) in [
        ("a,b,label,time\n", "a,b,label,time\n1,nan,up,0\n", "line 2, column \"b\""),
        ("a,b,label,time\n", "a,b,label,time\n1,2,up,5\n1,2,up,4\n", "line 3: time runs backwards"),
    ] {
        let bad = folder.write("bad.csv", &text.replace(from, to));
        let output = run(&[&["adapt", bad.as_str(), "--stream"][..], &flags].concat());
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{err}");
        assert!(err.contains(expected), "{err}");
    }
}

/// A run that is killed goes on from its checkpoint as if nothing had happened, to the last digit.
#[test]
fn a_killed_stream_goes_on_to_the_bit() {
    let folder = Folder::new();
    let text = turning();
    let half: String = text.lines().take(1 + 496).map(|l| format!("{l}\n")).collect();
    for more in [
        &["--network", "mlp:8"][..],
        &["--network", "linear", "--steps", "2", "--carry", "--window", "3", "--delay", "5"],
    ] {
        let (scores, whole) = (folder.name("s.csv"), folder.name("w.csv"));
        let data = folder.write("d.csv", &text);
        let all = [&["adapt", &data, "--stream", "--json", "--csv", &whole][..], more].concat();
        let expected = ok(&all);
        let checkpoint = folder.name("c");
        let _ = std::fs::remove_file(&checkpoint);
        // The first half, as if the program had died after its last checkpoint and some more lines of scores.
        let part = folder.write("part.csv", &half);
        let args = |data: &str| -> Vec<String> {
            let words = ["adapt", data, "--json", "--csv", &scores, "--checkpoint", &checkpoint];
            words.iter().chain(more).map(|w| (*w).to_owned()).collect()
        };
        let run_all = |args: &[String]| ok(&args.iter().map(String::as_str).collect::<Vec<_>>());
        run_all(&args(&part));
        let torn = folder.read("s.csv") + "\"torn";
        folder.write("s.csv", &torn);
        let found = run_all(&args(&data));
        assert_eq!(found, expected);
        assert_eq!(folder.read("s.csv"), folder.read("w.csv"));
    }
}

/// Two pipes are one stream: the second goes on after the first, with a time column or without, however its labels look.
#[test]
fn a_second_pipe_goes_on_to_the_bit() {
    let folder = Folder::new();
    let text = turning();
    let untimed: String =
        text.lines().map(|l| l.rsplit_once(',').unwrap().0.to_owned() + "\n").collect();
    // The labels of the second part look like classes.
    let number = |(i, line): (usize, &str)| {
        let up = if i < 481 { "1.5" } else { "1" };
        line.replace("up", up).replace("down", "-2")
    };
    let numbers: String = untimed.split_inclusive('\n').enumerate().map(number).collect();
    for (text, more) in [
        (&text, &[][..]),
        (&untimed, &["--delay", "3"]),
        (&untimed, &["--every", "8"]),
        (&numbers, &["--checkpoint-every", "7"]),
    ] {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (head, first, second) = (lines[0], lines[1..481].concat(), lines[481..].concat());
        let (whole, parts, state) = (folder.name("w.csv"), folder.name("p.csv"), folder.name("c"));
        let flags = [&["adapt", "-", "--network", "linear", "--json"][..], more].concat();
        let expected = run_with_input(&[&flags[..], &["--csv", &whole]].concat(), text);
        assert!(expected.status.success(), "{}", String::from_utf8_lossy(&expected.stderr));
        let _ = std::fs::remove_file(&state);
        let flags = [&flags[..], &["--csv", &parts, "--checkpoint", &state]].concat();
        let part = |rows: &str| {
            let output = run_with_input(&flags, &format!("{head}{rows}"));
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        part(&first);
        assert_eq!(part(&second), String::from_utf8_lossy(&expected.stdout), "{more:?}");
        assert_eq!(folder.read("p.csv"), folder.read("w.csv"), "{more:?}");
    }
}

/// What a checkpoint speaks of must be there: its file of scores, and its settings.
#[test]
fn a_checkpoint_goes_on_with_nothing_else() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &turning());
    let (scores, state) = (folder.name("s.csv"), folder.name("c"));
    let base = ["adapt", data.as_str(), "--network", "linear", "--checkpoint", &state];
    ok(&[&base[..], &["--csv", &scores]].concat());
    let written = folder.read("s.csv");
    let refused = |more: &[&str], expected: &str| {
        let output = run(&[&base[..], more].concat());
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains(expected), "{more:?} {err}");
    };
    std::fs::remove_file(&scores).unwrap();
    refused(&["--csv", &scores], "is not there");
    folder.write("s.csv", &written[..written.len() / 2]);
    refused(&["--csv", &scores], "fewer than");
    assert_eq!(folder.read("s.csv"), written[..written.len() / 2]);
    let foreign = "dear,diary\n".repeat(written.len());
    folder.write("s.csv", &foreign);
    refused(&["--csv", &scores], "no scores of this run");
    assert_eq!(folder.read("s.csv"), foreign);
    refused(&["--delay", "3"], "delay 0 (now 3)");
    refused(&["--seed", "3"], "seed 0 (now 3)");
    refused(
        &["--method", "static", "--ignore", "b"],
        "method auto (now static), features a,b (now a)",
    );
    // A row that was changed is named.
    let mut rows: Vec<String> = turning().lines().take(201).map(|l| l.to_owned() + "\n").collect();
    let (part, kept) = (folder.write("part.csv", &rows.concat()), folder.name("part"));
    let args = ["adapt", &part, "--network", "linear", "--checkpoint", &kept];
    ok(&args);
    rows[4] = "0.5,0.5,up,0\n".into();
    folder.write("part.csv", &rows.concat());
    let output = run(&args);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("line 5 is not what it was when"), "{err}");
    // A checkpoint without scores cuts no file either.
    std::fs::remove_file(&state).unwrap();
    ok(&base);
    refused(&["--csv", &scores], "is there already");
    assert_eq!(folder.read("s.csv"), foreign);
}

/// Rows of a pipe are scored as they come; Ctrl-C keeps what there is, and the rest goes on from there.
#[cfg(unix)]
#[test]
fn ctrl_c_saves_a_stream() {
    use std::io::Write as _;
    let folder = Folder::new();
    let untimed: Vec<String> =
        turning().lines().map(|l| l.rsplit_once(',').unwrap().0.to_owned() + "\n").collect();
    let (scores, state) = (folder.name("s.csv"), folder.name("c"));
    let whole = folder.name("w.csv");
    let flags = ["adapt", "-", "--network", "linear", "--json"];
    let expected = run_with_input(&[&flags[..], &["--csv", &whole]].concat(), &untimed.concat());
    let flags = [&flags[..], &["--csv", &scores, "--checkpoint", &state]].concat();
    let mut child = program()
        .args(&flags)
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(untimed[..51].concat().as_bytes()).unwrap();
    input.flush().unwrap();
    let lines = || std::fs::read_to_string(&scores).map_or(0, |text| text.lines().count());
    for _ in 0..600 {
        if lines() == 51 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(lines(), 51, "fifty rows have come, and the pipe is still open");
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    drop(input);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("after 50 rows"), "{err}");
    let rest = untimed[..1].concat() + &untimed[51..].concat();
    let output = run_with_input(&flags, &rest);
    assert_eq!(output.stdout, expected.stdout, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(folder.read("s.csv"), folder.read("w.csv"));
}

/// A flag that would do nothing is refused, and what cannot be done is said in one line.
#[test]
fn flags_that_do_nothing_are_refused() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &turning());
    for (flags, expected) in [
        (&["--method", "lofi", "--particles", "50"][..], "--particles"),
        (&["--rank", "3"], "--method lofi, bong"),
        (&["--particles", "3"], "--method pf"),
        (&["--samples", "3"], "--samples is nothing to --method imap; it is for --method bong"),
        (&["--method", "lofi", "--samples", "3"], "it is for --method bong"),
        (&["--method", "bong", "--samples", "0"], "0 is not in 1.."),
        (&["--method", "bong", "--samples", "3", "--rank", "3"], "two forms of --method bong"),
        (&["--method", "bong", "--samples", "3", "--robust", "3"], "--robust needs the linearised"),
        (&["--method", "bong", "--samples", "3", "--steps", "3"], "nothing to --method bong;"),
        (&["--ivon-size", "3"], "--ivon-size is nothing to --method imap; it is for --method ivon"),
        (&["--method", "ekf", "--ivon-betas", "0.9,0.9"], "it is for --method ivon"),
        (&["--method", "ivon", "--ivon-betas", "0.9"], "two numbers are needed, as in 0.9,0.999"),
        (
            &["--method", "ivon", "--ivon-betas", "0.9,1"],
            "beta2 of IVON must be at least 0 and below",
        ),
        (&["--method", "ivon", "--ivon-size", "-1"], "the sample size of IVON must be positive"),
        (&["--method", "ivon", "--ivon-curvature", "0"], "the first curvature of IVON"),
        (&["--method", "ivon", "--ivon-decay", "nan"], "the weight decay of IVON"),
        (&["--method", "auto", "--lr", "3"], "--lr"),
        (&["--method", "static", "--steps", "3"], "--steps"),
        (&["--method", "pf", "--optimizer", "adam"], "--optimizer"),
        (&["--tune", "--steps", "3"], "--tune"),
        (&["--steps", "0"], "0 is not in 1.."),
        (&["--method", "lofi", "--rank", "0"], "at least one"),
        (&["--lr", "-1"], "lr = -1"),
        (&["--steps", "-1"], "--steps"),
        (&["--skip"], "--checkpoint"),
        (&["--network", "mlp:1000000000"], "too wide"),
        (&["--network", "mlp:99999,99999"], "too many"),
    ] {
        let output = run(&[&["adapt", data.as_str()], flags].concat());
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?} {err}");
        assert!(err.contains(expected) && !err.contains("unexpected"), "{flags:?} {err}");
    }
    let head = folder.write("head.csv", "a,b,label\n");
    let same = folder.write("same.csv", "a,y\n1,2.5\n2,2.5\n3,2.5\n");
    let gap = folder.write("gap.csv", "a,y\n1,u\n2,v\n3,NA\n");
    for (args, expected) in [
        (&[data.as_str(), "--ignore", "colour"][..], "colour"),
        (&[&data, "--stream", "--ignore", "colour"], "colour"),
        (&[&head], "a head and no rows"),
        (&[&head, "--stream"], "a head and no rows"),
        (&[&same, "--task", "regress"], "all labels are the same"),
        (&[&same, "--task", "regress", "--stream"], "all labels are the same"),
        (&[&gap, "--compare"], "line 4, column \"y\""),
    ] {
        let output = run(&[&["adapt"], args].concat());
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?} {err}");
        assert!(err.contains(expected), "{args:?} {err}");
    }
}

/// The label's units are nothing to the bank: errors have them, and that is all.
#[test]
fn units_of_numbers_do_not_matter() {
    let folder = Folder::new();
    let rmse = |factor: f64, offset: f64, stream: bool| {
        let mut text = "a,b,y\n".to_owned();
        for line in turning().lines().skip(1) {
            let cells: Vec<f64> = line.split(',').take(2).map(|c| c.parse().unwrap()).collect();
            let y = cells[0] - 2.0 * cells[1] + 0.1 * (50.0 * cells[0]).sin();
            text += &format!("{},{},{}\n", cells[0], cells[1], factor * y + offset);
        }
        let data = folder.write("r.csv", &text);
        let mut args = vec!["adapt", &data, "--network", "linear", "--json"];
        args.extend(stream.then_some("--stream"));
        let value: serde_json::Value = serde_json::from_str(&ok(&args)).unwrap();
        (value[0]["rmse"].as_f64().unwrap() / factor, value[0]["mean_loss"].as_f64().unwrap())
    };
    let plain = rmse(1.0, 0.0, false);
    for (factor, offset, stream) in [(100.0, 0.0, false), (1e4, 0.0, true), (1.0, 1000.0, true)] {
        let other = rmse(factor, offset, stream);
        let off = (other.0 / plain.0 - 1.0).abs().max((other.1 / plain.1 - 1.0).abs());
        assert!(off < 0.01, "{factor} {offset} {stream}: {other:?} {plain:?}");
    }
}

/// A line that is refused leaves everything as it was: what is said of the next line is what it would have been.
#[test]
fn refused_lines_change_nothing() {
    let folder = Folder::new();
    let mut numbers = "a,y\n".to_owned();
    for i in 0..60 {
        let a = f64::from(i * 37 % 20) / 10.0 - 1.0;
        numbers += &format!("{a},{}\n", 3.0 * a + 0.5);
    }
    let data = folder.write("n.csv", &numbers);
    let classes = folder.write("c.csv", &turning());
    let answers = |args: &[&str], lines: &[&str]| -> Vec<serde_json::Value> {
        let output = run_with_input(args, &(lines.join("\n") + "\n"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = text.lines().filter(|l| l.starts_with('{'));
        lines.map(|l| serde_json::from_str(l).unwrap()).collect()
    };
    let probe = r#"{"x": [0.3]}"#;
    for refused in [
        &[r#"{"x": [50], "y": "oops"}"#, r#"{"x": [50], "y": [1, 2]}"#][..],
        &[r#"{"x": [50], "y": 1e300}"#, r#"{"x": [1e300]}"#],
    ] {
        let args = ["adapt", data.as_str(), "--network", "linear", "--follow"];
        let before = answers(&args, &[probe]);
        assert!(before[0]["prediction"][0].as_f64().unwrap().is_finite(), "{before:?}");
        let after = answers(&args, &[refused, &[probe]].concat());
        assert!(after[..refused.len()].iter().all(|a| a["error"].is_string()), "{after:?}");
        assert_eq!(after[refused.len()], before[0], "{refused:?}");
    }
    // A label so far away, by a scaling that stays as it was saved, that the weights diverge.
    let weights = folder.name("w");
    ok(&["adapt", &data, "--network", "linear", "--steps", "1", "--save", &weights]);
    let args = ["adapt", data.as_str(), "--weights", &weights, "--follow", "--optimizer", "gd"];
    let before = answers(&args, &[probe]);
    let after = answers(&args, &[r#"{"x": [0.3], "y": 1e100}"#, probe]);
    assert!(after[0]["error"].as_str().unwrap().contains("finite numbers"), "{after:?}");
    assert_eq!(after[1], before[0]);
    // A class that nobody knows.
    let args = ["adapt", classes.as_str(), "--network", "linear", "--follow"];
    let probe = r#"{"x": [0.3, -0.2]}"#;
    let before = answers(&args, &[probe]);
    let after = answers(&args, &[r#"{"x": [90, 90], "y": "sideways"}"#, probe]);
    assert!(after[0]["error"].as_str().unwrap().contains("sideways"), "{after:?}");
    assert_eq!(after[1], before[0]);
}

/// A method has its own defaults, whatever the settings of another were.
#[test]
fn methods_have_their_own_defaults() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &turning());
    let method = |args: &[&str]| -> Vec<String> {
        let args = [&["adapt", data.as_str(), "--network", "linear", "--json"], args].concat();
        let value: serde_json::Value = serde_json::from_str(&ok(&args)).unwrap();
        let runs = value.as_array().unwrap();
        runs.iter().map(|run| run["method"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(method(&["--method", "ivon"]), ["IVON, K=1 lr=0.1"]);
    assert_eq!(method(&["--method", "ivon", "--steps", "2"]), ["IVON, K=2 lr=0.1"]);
    assert_eq!(method(&["--method", "ivon", "--compare"])[2], "direct fit, adam K=1000 lr=0.001");
    assert_eq!(method(&["--method", "bong", "--rank", "3"]), ["BONG rank 3, drift=0.00001"]);
    // Weights bring the settings of their method, and of no other.
    let weights = folder.name("w");
    method(&[
        "--method", "vkf", "--steps", "7", "--lr", "0.02", "--sigma2", "0.5", "--save", &weights,
    ]);
    let from = |args: &[&str]| method(&[&["--weights", weights.as_str()], args].concat());
    assert_eq!(from(&[]), ["variational, K=7 sigma2=0.5"]);
    assert_eq!(from(&["--method", "vkf", "--steps", "3"]), ["variational, K=3 sigma2=0.5"]);
    assert_eq!(from(&["--method", "ivon"]), ["IVON, K=1 lr=0.1"]);
    assert_eq!(from(&["--method", "imap"]), ["implicit MAP, adam K=50 lr=0.001"]);
    assert_eq!(from(&["--method", "ekf"]), ["diagonal EKF, drift=0.00001"]);
}

/// Forms of BONG and settings of IVON: each counts, results name them, and weights and checkpoints bring them back.
#[test]
fn bong_and_ivon_have_their_settings() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &turning());
    let run_of = |args: &[&str]| -> serde_json::Value {
        let args = [&["adapt", data.as_str(), "--network", "linear", "--json"], args].concat();
        serde_json::from_str::<serde_json::Value>(&ok(&args)).unwrap()[0].clone()
    };
    let scores = |run: &serde_json::Value| {
        [&run["mean_loss"], &run["accuracy"], &run["calibration_error"]]
            .map(|v| v.as_f64().unwrap())
    };
    // Low-rank BONG on the linearised network is LoFi, whatever it is called.
    let (bong, lofi) = (["--method", "bong", "--rank", "2"], ["--method", "lofi", "--rank", "2"]);
    assert_eq!(scores(&run_of(&bong)), scores(&run_of(&lofi)));
    assert_ne!(scores(&run_of(&bong)), scores(&run_of(&["--method", "bong"])));
    let drawn = ["--method", "bong", "--samples", "4", "--sigma2", "1e-3"];
    let sampled = run_of(&drawn);
    assert_eq!(sampled["method"], "BONG, draws=4 drift=0.001");
    assert!(sampled["accuracy"].as_f64().unwrap() > 75.0, "{sampled}");
    let again = |more: &[&str]| run_of(&[&drawn[..], more].concat());
    assert_eq!(again(&[]), sampled);
    assert_ne!(again(&["--seed", "1"])["mean_loss"], sampled["mean_loss"]);
    // Each setting of IVON changes what is done, and all defaults are those of none.
    let ivon = ["--method", "ivon", "--lr", "0.5"];
    let of = |more: &[&str]| run_of(&[&ivon[..], more].concat());
    let plain = of(&[]);
    for flags in [
        &["--ivon-size", "100"][..],
        &["--ivon-curvature", "0.4"],
        &["--ivon-betas", "0.5,0.999"],
        &["--ivon-betas", "0.9,0.9"],
        &["--ivon-decay", "0.1"],
    ] {
        assert_ne!(of(flags)["mean_loss"], plain["mean_loss"], "{flags:?}");
    }
    let usual = ["--ivon-size", "1e4", "--ivon-curvature", "0.1"];
    let usual = [&usual[..], &["--ivon-betas", "0.9,0.999", "--ivon-decay", "1e-4"]].concat();
    assert_eq!(of(&usual), plain);
    // Saved with the weights, and bound to a checkpoint.
    let all = ["--ivon-size", "500", "--ivon-curvature", "0.3", "--ivon-betas", "0.8,0.99"];
    let all = [&all[..], &["--ivon-decay", "0.01"]].concat();
    let name = "IVON, K=1 lr=0.5 n=500 h0=0.3 b1=0.8 b2=0.99 decay=0.01";
    for (flags, name) in
        [([&ivon[..], &all].concat(), name), (drawn.to_vec(), "BONG, draws=4 drift=0.001")]
    {
        let weights = folder.name("weights");
        run_of(&[&flags[..], &["--save", &weights]].concat());
        assert_eq!(run_of(&["--weights", &weights])["method"], name);
        let state = folder.name("state");
        let _ = std::fs::remove_file(&state);
        let whole = run_of(&[&flags[..], &["--stream"]].concat());
        let half: String = turning().lines().take(481).map(|l| format!("{l}\n")).collect();
        let half = folder.write("half.csv", &half);
        let part = ["adapt", &half, "--network", "linear", "--checkpoint", &state];
        ok(&[&part[..], &flags].concat());
        assert_eq!(run_of(&[&flags[..], &["--checkpoint", &state]].concat()), whole);
    }
    let state = folder.name("ivon");
    run_of(&[&ivon[..], &all, &["--checkpoint", &state]].concat());
    let args = ["adapt", &data, "--network", "linear", "--checkpoint", &state];
    let output = run(&[&args[..], &ivon].concat());
    let output = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.contains("ivon 500 0.3 0.8 0.99 0.01 (now 10000 0.1 0.9 0.999 0.0001)"),
        "{output}"
    );
}

/// A text among numbers is a mistake, and so are labels that the weights were not made for; both are named by their line.
#[test]
fn labels_of_another_type_are_refused() {
    let folder = Folder::new();
    let mut lines: Vec<String> = vec!["a,y".into()];
    lines.extend((0..300).map(|i| format!("{},{}", i % 7, f64::from(i) * 0.37)));
    let fails = |args: &[&str], input: &str, expected: &[&str]| {
        let output = run_with_input(&[&["adapt"], args, &["--network", "linear"]].concat(), input);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?} {err}");
        assert!(expected.iter().all(|e| err.contains(e)), "{args:?} {err}");
    };
    for at in [1, 100, 290] {
        let mut lines = lines.clone();
        lines[at] = "3,oops".into();
        let text = lines.join("\n") + "\n";
        let data = folder.write("t.csv", &text);
        let line = format!("line {}", at + 1);
        fails(&[&data], "", &[&line, "oops"]);
        fails(&[&data, "--stream"], "", &[&line, "oops"]);
        fails(&["-"], &text, &[&line, "oops"]);
    }
    let (known, weights) = (folder.write("d.csv", &turning()), folder.name("w"));
    ok(&["adapt", &known, "--network", "linear", "--save", &weights]);
    let text = turning().replace(",up,", ",left,").replace(",down,", ",right,");
    let other = folder.write("o.csv", &text);
    fails(&[&other, "--weights", &weights], "", &["the weights know no class", "down, up"]);
    fails(&[&other, "--weights", &weights, "--stream"], "", &["line 2", "they know down, up"]);
    // Numbers, beside as many features as the weights are for.
    let number = |line: &String| format!("{line},1\n");
    let two: String = lines[1..].iter().map(number).collect();
    let two = folder.write("two.csv", &format!("a,y,b\n{two}"));
    fails(&[&two, "--weights", &weights, "--stream"], "", &["line 2", "they know down, up"]);
    // One that joins those that are known is a new class.
    let joined = turning() + "0.5,0.5,far,120\n0.1,0.5,up,121\n";
    let joined = folder.write("j.csv", &joined);
    ok(&["adapt", &joined, "--network", "linear", "--weights", &weights, "--stream"]);
}

/// What was chosen when is there for scripts as well; gradient descent is tried with large rates.
#[test]
fn choices_are_there_for_scripts() {
    let folder = Folder::new();
    let data = folder.write("d.csv", &turning());
    let args = ["adapt", &data, "--network", "linear", "--tune", "--optimizer", "gd", "--json"];
    let value: serde_json::Value = serde_json::from_str(&ok(&args)).unwrap();
    let windows = value[0]["windows"].as_array().unwrap();
    assert_eq!(windows.len(), 9);
    for window in windows {
        assert!(window["void"].is_boolean() && window["chosen"]["steps"].as_u64().unwrap() > 0);
        let (chosen, best) = (&window["chosen"]["mean_loss"], &window["best"]["mean_loss"]);
        assert!(best.as_f64().unwrap() <= chosen.as_f64().unwrap(), "{window}");
    }
    assert!(value[0]["next"]["lr"].as_f64().unwrap() > 0.0);
}

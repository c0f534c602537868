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

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

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

//! Mistakes of a first quarter of an hour: each is answered by what is wrong and what to do.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;

/// The exit code and what is said on standard error.
fn said(args: &[&str]) -> (Option<i32>, String) {
    let output = run(args);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_table_in_the_place_of_the_model_is_said_to_be_one() {
    let (code, words) = said(&["filter", &example("nile.csv"), &example("nile.toml")]);
    assert_eq!(code, Some(2));
    assert!(words.contains("is a table and no model; the model comes first"), "{words}");
    assert!(!words.contains("TOML"), "{words}");
}

/// A setting that the filter does not read is no setting.
#[test]
fn flags_of_another_filter_are_refused() {
    let (model, data) = (example("nile.toml"), example("nile.csv"));
    for (flags, words) in [
        (
            &["--steps", "3"][..],
            "--steps (of an optimizer) belongs to imap, vkf and iekf, not to kf",
        ),
        (&["--window", "3"], "--window belongs to imap, not to kf"),
        (&["--method", "ekf", "--carry"], "--carry belongs to imap, not to ekf"),
        (&["--method", "imap", "--particles", "9"], "--particles belongs to pf, not to imap"),
        (&["--method", "pf", "--alpha", "1"], "--alpha belongs to ukf, not to pf"),
        (&["--method", "etkf", "--periodic"], "--periodic belongs to letkf, not to etkf"),
        (&["--lr", "1"], "--lr belongs to imap and vkf, not to kf"),
        (&["--method", "imap", "--discount", "0.9"], "as in --window 16"),
        (&["--method", "imap", "--optimizer", "cg", "--lr", "1"], "cg, which has no learning rate"),
    ] {
        let (code, found) = said(&[&["filter", &model, &data][..], flags].concat());
        assert!(code == Some(2) && found.contains(words), "{flags:?}: {found}");
    }
    // Each filter of a comparison takes what it reads.
    let flags = ["--steps", "3", "--particles", "50", "--alpha", "1", "--json"];
    let rows = ok(&[&["compare", &model, &data][..], &flags].concat());
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    let of = |name: &str| {
        let rows = rows.as_array().unwrap();
        rows.iter().find(|row| row["method"] == name).unwrap()["settings"].clone()
    };
    assert_eq!((&of("imap")["steps"], &of("pf")["particles"]), (&3.into(), &50.into()));
    assert_eq!(of("kf")["steps"], serde_json::Value::Null);
    // Steps are asked of an optimizer, also where the file has a Kalman filter.
    assert!(ok(&["explain", &model, "--optimizer", "gd", "--steps", "5"]).contains("5"));
    assert_eq!(said(&["explain", &model, "--steps", "5"]).0, Some(0));
}

#[test]
fn noise_is_no_table() {
    let folder = Folder::new();
    let path = folder.path("noise.csv");
    std::fs::write(&path, b"L\x8e\x01\x02volume,year\x07\n1,2\n").unwrap();
    let (code, words) = said(&["filter", &example("nile.toml"), path.to_str().unwrap()]);
    assert!(code == Some(3) && words.contains("a binary file"), "{words}");
    assert!(words.chars().all(|c| !c.is_control() || c == '\n'), "{words:?}");
}

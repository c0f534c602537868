//! The contest of windows and ensemble filters: its numbers, its files, and arrays that come from elsewhere.
#![allow(clippy::unwrap_used)] // a test may panic

use optfilter_paper::RunError;
use optfilter_paper::assimilation::{
    Contender, Options, Outcome, Scene, Shape, add_to_report, is_in_report, measure, run,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("optfilter-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A matrix as NumPy writes it.
fn write_npy(path: &Path, numbers: &[f64], shape: &str) {
    let mut head =
        format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}").into_bytes();
    head.resize((head.len() + 11).next_multiple_of(64) - 11, b' ');
    head.push(b'\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend(u16::try_from(head.len()).unwrap().to_le_bytes());
    file.extend(head);
    file.extend(numbers.iter().flat_map(|v| v.to_le_bytes()));
    fs::write(path, file).unwrap();
}

/// As `bench/dapper/export.py` does it.
fn export(scene: &Scene, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let (n, cycles) = (scene.start.len(), scene.cycles());
    write_npy(&folder.join("truth.npy"), &scene.truth, &format!("{cycles}, {n}"));
    let m = scene.observations.len() / cycles;
    write_npy(&folder.join("observations.npy"), &scene.observations, &format!("{cycles}, {m}"));
    // Two members at one place: their mean is the start, to the bit.
    let twice = [&scene.start[..], &scene.start].concat();
    write_npy(&folder.join("ensemble.npy"), &twice, &format!("2, {n}"));
    write_npy(&folder.join("variance.npy"), &[scene.variance], "1,");
}

fn small(cycles: usize) -> Options {
    let options = Options::short(cycles, Arc::new(AtomicBool::new(false)));
    Options { seeds: 1, sizes: (vec![40], 0), ..options }
}

fn mean(outcome: &Outcome, setting: &str, of: impl Fn(&Contender) -> bool) -> f64 {
    let found = outcome.scores.iter().find(|s| s.setting == setting && of(&s.contender));
    found.map_or(f64::NAN, |score| score.mean())
}

#[test]
fn a_window_beats_one_measurement_at_a_time_and_the_report_says_so() {
    let out = folder("assimilation");
    let options = Options { half: true, ..small(150) };
    let outcome = run(&options, &|_| {}).unwrap();
    assert!(!outcome.stopped);
    let one = mean(&outcome, "own", |c| matches!(c, Contender::Descent { .. }));
    let window = mean(&outcome, "own", |c| matches!(c, Contender::Window { length: 24, .. }));
    // Measurements have an error of one; one at a time halves it, a window halves that again.
    assert!(one > 0.3 && one < 0.6, "{one}");
    assert!(window < 0.6 * one, "{window} {one}");
    assert!(
        mean(&outcome, "own half (variance 1.5)", |c| matches!(c, Contender::Window { .. }))
            .is_finite()
    );
    // Longer windows are better as long as there are enough iterations.
    let swept = |length, k| outcome.sweep.iter().find(|s| (s.0, s.1) == (length, k)).unwrap().2;
    assert!(swept(24, 5) < swept(8, 5) && swept(8, 5) < swept(0, 5), "{:?}", outcome.sweep);
    add_to_report(&out, None, &outcome).unwrap();
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    for expected in ["own half", "window L=56, cg K=5", "Bare steps", "assimilation --full", "<svg"]
    {
        assert!(page.contains(expected), "{expected}");
    }
    let csv = fs::read_to_string(out.join("assimilation.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + outcome.scores.len());
    assert!(csv.contains(&format!("\"window L=24, cg K=2\",0,{window:?}")), "{csv}");
    let sizes = fs::read_to_string(out.join("assimilation-sizes.csv")).unwrap();
    assert_eq!(sizes.lines().count(), 3, "{sizes}");
    assert!(outcome.text().contains("D = 40"));
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn arrays_from_elsewhere_give_the_numbers_of_the_scene_they_are_of_and_theirs_stand_beside() {
    let dir = folder("arrays");
    let scene = Scene::simulated(40, 2, 1.5, 80, 3);
    export(&scene, &dir.join("half-3"));
    let options = Options { arrays: Some(dir.clone()), ..small(80) };
    let outcome = run(&options, &|_| {}).unwrap();
    let window = Contender::Window { length: 24, iterations: 2 };
    let expected = window.score(&scene, 80 / 3).unwrap();
    assert_eq!(mean(&outcome, "half", |c| *c == window), expected);
    fs::write(
        dir.join("dapper.csv"),
        "setting,method,seed,rmse\nhalf,\"EnKF N=24, infl=1.02\",3,0.5\n",
    )
    .unwrap();
    let out = folder("arrays-out");
    add_to_report(&out, Some(&dir), &outcome).unwrap();
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("DAPPER: EnKF N=24, infl=1.02") && page.contains("0.5000"));
    // Observations of another length.
    write_npy(&dir.join("half-3/observations.npy"), &scene.observations[20..], "79, 20");
    let error = run(&options, &|_| {}).unwrap_err();
    assert!(error.to_string().contains("do not fit together"), "{error}");
    fs::remove_dir_all(&dir).unwrap();
    let error = run(&options, &|_| {}).unwrap_err();
    assert!(matches!(error, RunError::Arrays(_)) && error.to_string().contains("export.py"));
    fs::remove_dir_all(&out).unwrap();
}

#[test]
fn who_stops_keeps_what_is_done() {
    let options = small(60);
    let told = |doing: &str| {
        if doing.contains("LETKF") {
            options.stop.store(true, Ordering::Relaxed);
        }
    };
    let outcome = run(&options, &told).unwrap();
    assert!(outcome.stopped && outcome.scores.len() == 5 && outcome.sizes.is_empty());
    let out = folder("stopped");
    add_to_report(&out, None, &outcome).unwrap();
    assert!(fs::read_to_string(out.join("assimilation.csv")).unwrap().contains("window L=56"));
    assert!(is_in_report(&out) && !is_in_report(&out.join("elsewhere")));
    fs::remove_dir_all(out).unwrap();
}

#[test]
fn a_hundred_thousand_states_take_vectors_and_no_matrix() {
    let shape = Shape { length: 2, iterations: 2, probes: 0 };
    let [one, window] = measure(100_000, 6, shape, &|_| true).unwrap().unwrap();
    // A matrix would be a hundred thousand vectors; a window of three rows with its stages and iterations is a few dozen, and other tests of this
    // process hold something, too.
    for size in [&one, &window] {
        assert!(size.rmse < 1.0, "{size:?}");
        assert!(size.vectors.is_none_or(|held| held < 1000.0), "{size:?}");
    }
    assert_eq!(window.count, 2.0 + 8.0 + 16.0);
}

//! Tuning without the truth must find what the truth would choose, and say no more than it knows.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter::rng::Stream;
use optfilter_model::run::{Dataset, Score};
use optfilter_model::tune::{Metric, Search, Strategy, Tuned, candidates, clearly_worse, tune};
use optfilter_model::{FilterSpec, Method, ModelSpec};
use rayon::prelude::*;

fn simulated(spec: &ModelSpec, rows: usize, seed: u64) -> Dataset {
    let (mut states, mut outputs) = (Vec::new(), Vec::new());
    spec.simulate(rows, (seed, 0), false, &[], |_, x, y| {
        states.extend_from_slice(x);
        outputs.extend_from_slice(y);
        true
    })
    .unwrap();
    Dataset::simulated(spec, &states, &outputs)
}

fn search(methods: &[Method], budget: usize) -> Search {
    Search {
        metric: Metric::Likelihood,
        strategy: Strategy::Halving,
        budget,
        methods: methods.to_vec(),
        seed: 0,
    }
}

fn tuned(spec: &ModelSpec, data: &Dataset, search: &Search) -> Tuned {
    tune(spec, data, search, &mut |_| {}).unwrap()
}

/// The score over all rows but the first tenth.
fn score(spec: &ModelSpec, data: &Dataset, filter: &FilterSpec) -> Option<Score> {
    let yard = data.yardstick(spec, data.len() / 10, data.len());
    let trace = data.trace(spec, filter, &yard, data.len()).unwrap();
    trace.failed.is_none().then(|| trace.score(yard.settle..data.len()))
}

/// How much larger an error is for what is chosen than for the best of these candidates.
fn excess(
    spec: &ModelSpec,
    data: &Dataset,
    methods: &[Method],
    candidates: &[FilterSpec],
    error: fn(&Score) -> f64,
) -> f64 {
    let chosen = tuned(spec, data, &search(methods, 120)).board[0].filter.clone();
    let error =
        |filter: &FilterSpec| score(spec, data, filter).map_or(f64::INFINITY, |s| error(&s));
    let best = candidates.par_iter().map(error).reduce(|| f64::INFINITY, f64::min);
    let chosen_error = error(&chosen);
    println!("{:40} chosen {chosen_error:.4} best {best:.4} {}", spec.name, chosen.flags());
    chosen_error / best - 1.0
}

const SYSTEMS: [&str; 10] = [
    "local-level",
    "local-trend",
    "constant-velocity",
    "pendulum",
    "growth",
    "lorenz63",
    "van-der-pol",
    "lotka-volterra",
    "logistic-counts",
    "bearings",
];

#[test]
fn within_five_percent_of_the_best_on_at_least_eight_of_ten_systems() {
    let methods = [Method::Imap, Method::Ekf, Method::Ukf, Method::Pf];
    let near = |name: &&str| {
        let spec = ModelSpec::parse(name, &format!("system = {name:?}")).unwrap();
        let data = simulated(&spec, 800, 11);
        let all = candidates(&spec, &data, &methods, data.len() * 6 / 10);
        // Windows take most of the time, and are close to one another: one of four is enough to know the best.
        let (windows, mut settings): (Vec<_>, Vec<_>) =
            all.into_iter().partition(FilterSpec::is_windowed);
        settings.extend(windows.into_iter().step_by(4));
        excess(&spec, &data, &methods, &settings, |s| s.truth) < 0.05
    };
    let near = SYSTEMS.iter().filter(|name| near(name)).count();
    assert!(near >= 8, "{near} of 10");
}

/// Lorenz '96 with every state measured and no noise in the model.
fn lorenz96(states: usize) -> ModelSpec {
    let text = format!(
        "states = [\"x[{states}]\"]\n[fields]\nx = {{ edges = \"periodic\" }}\n[dynamics]\n\
         \"dx[i]/dt\" = \"(x[i+1] - x[i-2])*x[i-1] - x[i] + 8\"\n[observation]\n\
         \"y[i]\" = {{ equation = \"x[i]\", size = {states} }}\n[measurement_noise]\nstd = 1\n\
         [process_noise]\nstd = 0\n[initial]\nmean = 2\nstd = 2\n[time]\ndt = 0.05\n"
    );
    ModelSpec::parse("lorenz96", &text).unwrap()
}

/// What a window that is chosen without the truth makes of it, the best long window, and the best filter that looks at one row.
///
/// Nothing but the measurements says how far to look back, and by how many iterations; of a single row they make more than twice the error.
fn window_found(states: usize, seed: u64) {
    let spec = lorenz96(states);
    let data = simulated(&spec, 500, seed);
    let error =
        |filter: &FilterSpec| score(&spec, &data, filter).map_or(f64::INFINITY, |s| s.truth);
    let best =
        |settings: &[FilterSpec]| settings.par_iter().map(error).reduce(|| f64::INFINITY, f64::min);
    let all = candidates(&spec, &data, &[Method::Imap], data.len() * 6 / 10);
    // Long ones that fade little are the best here, as anybody finds who has the truth.
    let (windows, single): (Vec<_>, Vec<_>) = all.into_iter().partition(FilterSpec::is_windowed);
    let long = |s: &&FilterSpec| s.optimizer() == "cg" && s.window() >= 48 && s.discount() >= 0.95;
    let windows: Vec<FilterSpec> = windows.iter().filter(long).cloned().collect();
    let single: Vec<FilterSpec> = single.into_iter().step_by(8).collect();
    let chosen = tuned(&spec, &data, &search(&[Method::Imap], 120)).board[0].filter.clone();
    let (found, best, single) = (error(&chosen), best(&windows), best(&single[..]));
    println!("chosen {found:.4} ({}), best {best:.4}, of one row {single:.4}", chosen.flags());
    assert!(found < 1.05 * best, "{found} {best}");
    assert!(single > 2.0 * best, "{single} {best}");
}

/// (Seeds 7, 8 and 9 end 0.8 and 2.8 % below and 1.8 % above the best of the grid; with 400 rows one of the three is 5.7 % above.)
#[test]
fn a_window_is_found_on_lorenz_96_without_the_truth() {
    window_found(12, 8);
}

#[test]
#[ignore = "takes longer than the other tests together; `cargo xtask peers` runs it"]
fn a_window_is_found_on_lorenz_96_of_forty_states() {
    for seed in [7, 8, 9] {
        window_found(40, seed);
    }
}

const WALK: &str = "states = [\"level\"]\n[dynamics]\nlevel = \"level\"\n[observation]\ny = \"level\"\n\
    [process_noise]\nstd = 1\n[measurement_noise]\nstd = 1\n[initial]\nmean = 0\nstd = 3\n";

/// A level that moves as the model does not know, seen with noise.
fn unforeseen(kind: &str, rows: usize, seed: u64) -> Dataset {
    let spec = ModelSpec::parse("walk", WALK).unwrap();
    let mut stream = Stream::new(seed, 0, kind);
    let phase = 6.0 * stream.uniform();
    let (mut level, mut speed) = (0.0, 0.0);
    let (mut states, mut outputs) = (Vec::new(), Vec::new());
    for k in 0..rows {
        match kind {
            "seasons" => level = 10.0 * f64::sin(phase + k as f64 / 5.0),
            "momentum" => {
                speed = 0.95 * speed + 0.3 * stream.normal();
                level += speed;
            }
            _ => {
                if k % 60 == 0 {
                    speed = 1.5 * stream.normal();
                }
                level += speed - 0.01 * level;
            }
        }
        states.push(level);
        outputs.push(level + 0.5 * stream.normal());
    }
    Dataset::simulated(&spec, &states, &outputs)
}

/// Where the model leaves something out, an optimizer that remembers its speed makes up for it and no Kalman filter
/// of the model can, whatever its noise: a tuner that did not look at implicit filters would fail here.
#[test]
fn implicit_filters_are_found_where_they_matter() {
    let spec = ModelSpec::parse("walk", WALK).unwrap();
    let (all, classical) = ([Method::Imap, Method::Kf], [Method::Kf]);
    for kind in ["seasons", "momentum", "slopes"] {
        for seed in 0..5 {
            let data = unforeseen(kind, 600, seed);
            // Windows take most of the time and know no more of a level's speed.
            let mut settings = candidates(&spec, &data, &all, data.len() * 6 / 10);
            settings.retain(|s| !s.is_windowed());
            let found = excess(&spec, &data, &all, &settings, |s| s.prediction);
            let ignorant = excess(&spec, &data, &classical, &settings, |s| s.prediction);
            println!("{kind} {seed}: {found:.3} {ignorant:.3}");
            assert!(found < 0.1, "{kind}, seed {seed}: {found}");
            assert!(ignorant > 0.15, "{kind}, seed {seed}: {ignorant}");
        }
    }
}

/// Nothing of the rows that judge touches what is judged on them: neither scales, nor grids, nor the choice.
#[test]
fn the_choice_owes_nothing_to_the_rows_that_judge_it() {
    let spec = ModelSpec::parse("walk", WALK).unwrap();
    let data = unforeseen("momentum", 300, 1);
    let search = search(&[Method::Imap, Method::Kf, Method::Vkf], 60);
    let before = tuned(&spec, &data, &search);
    for (k, window) in before.windows.iter().enumerate() {
        let mut changed = data.clone();
        for row in window.rows.start..data.len() {
            changed.outputs[row] = 1e4 * f64::from(row as u32 % 7) - 3.0 * changed.outputs[row];
        }
        let after = tuned(&spec, &changed, &search);
        for (a, b) in before.windows[..=k].iter().zip(&after.windows) {
            assert_eq!(a.filter, b.filter, "window {k}");
        }
        assert_ne!(before.windows[k].score, after.windows[k].score);
        if k + 1 == before.windows.len() {
            assert_eq!(before.board[0].filter, after.board[0].filter);
            assert_eq!(before.chosen_on, 30..270);
        }
    }
}

/// What is printed as a share of repeating the last value is one, on the rows that judged and no others.
#[test]
fn percentages_are_of_the_rows_that_judge() {
    let spec = ModelSpec::parse("walk", WALK).unwrap();
    // Calm rows that choose, wild ones that judge: whoever divides one by the other is far off.
    let mut data = unforeseen("momentum", 300, 3);
    for row in 180..300 {
        data.outputs[row] += 30.0 * f64::from(row as u32 % 3);
    }
    let tuned = tuned(&spec, &data, &search(&[Method::Kf], 20));
    let (mut errors, mut repeats) = (0.0, 0.0);
    for window in &tuned.windows {
        let done = data.run(&spec, &window.filter, window.rows.end, |row, estimate| {
            if window.rows.contains(&row) {
                errors += estimate.innovation[0].powi(2);
                repeats += (data.outputs[row] - data.outputs[row - 1]).powi(2);
            }
        });
        done.unwrap().unwrap();
    }
    let expected = f64::sqrt(errors / repeats);
    let found = tuned.judged.unwrap().prediction;
    assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
}

/// The measurement noise of the file is far too small, or far too large: error bars come out right all the same.
#[test]
fn r_is_searched_beside_q() {
    for wrong in [0.04, 1.0, 25.0] {
        let text = format!("system = \"local-level\"\n[measurement_noise]\nvar = {wrong}\n");
        let truth = ModelSpec::parse("truth", "system = \"local-level\"").unwrap();
        let spec = ModelSpec::parse("wrong", &text).unwrap();
        let data = simulated(&truth, 1000, 5);
        let tuned = tuned(&spec, &data, &search(&[Method::Kf], 40));
        let best = &tuned.board[0];
        let (q, r) = (best.filter.process_scale(), best.filter.measurement_scale());
        let chosen = best.chosen.unwrap();
        // The estimates scatter by about a tenth at 800 rows; R is 1 and Q is 0.25.
        assert!((0.75..1.33).contains(&(r * wrong)), "R x {r} of {wrong}");
        assert!((0.5..2.0).contains(&q), "Q x {q}");
        assert!((0.9..1.1).contains(&chosen.nis), "{}", chosen.nis);
        // What the file says takes part to the end, and is never better on the rows that chose.
        let own = tuned.board.iter().find(|e| e.filter.flags() == "--method kf").unwrap();
        assert!(own.chosen.unwrap().log_score <= chosen.log_score);
        if wrong != 1.0 {
            assert!(own.clearly_worse, "{:?} against {chosen:?}", own.chosen);
        }
    }
}

#[test]
fn a_method_that_does_not_fit_is_left_out_with_a_word() {
    let spec = ModelSpec::parse("p", "system = \"pendulum\"").unwrap();
    let data = simulated(&spec, 100, 1);
    let tuned = tuned(&spec, &data, &search(&[Method::Kf, Method::Ekf], 20));
    assert_eq!(tuned.left_out.len(), 1);
    assert!(tuned.left_out[0].0 == Method::Kf && tuned.left_out[0].1.contains("linear models"));
    assert_eq!(tuned.board[0].filter.method(), Method::Ekf);
    let none = tune(&spec, &data, &search(&[Method::Kf], 20), &mut |_| {}).unwrap_err();
    assert!(none.message.contains("none of these methods fits"), "{none}");
}

/// What diverges on rows that judge stays the choice and is said to diverge: they do not choose.
#[test]
fn a_choice_that_diverges_later_is_said_to() {
    let text = WALK.replace("y = \"level\"", "y = \"level + level^3\"");
    let spec = ModelSpec::parse("cubic", &text).unwrap();
    let mut data = simulated(&spec, 200, 2);
    let search = search(&[Method::Ekf], 20);
    let calm = tuned(&spec, &data, &search);
    assert_eq!(calm.board[0].diverged_at, None);
    data.outputs[190] = 1e120;
    let wild = tuned(&spec, &data, &search);
    assert_eq!(wild.board[0].filter, calm.board[0].filter);
    assert_eq!(wild.windows[3].diverged_at, wild.board[0].diverged_at);
    assert!((190..200).contains(&wild.board[0].diverged_at.unwrap()));
    assert!(wild.board[0].judged.is_none() && wild.judged.is_some());
    assert!(wild.windows[..3].iter().all(|w| w.score.is_some()));
}

/// Fifteen settings that are equally good: some of them is called worse in about one experiment of twenty,
/// not in most of them as when each is tested by itself.
#[test]
fn equals_are_rarely_told_apart_and_a_worse_one_is() {
    let (rows, settings) = (400, 15);
    let (mut alarms, mut found) = (0, 0);
    for seed in 0..60 {
        let mut stream = Stream::new(seed, 0, "losses");
        let mut losses: Vec<Vec<f64>> =
            (0..settings).map(|_| (0..rows).map(|_| stream.normal()).collect()).collect();
        let verdict = |losses: &[Vec<f64>]| {
            let sum = |k: &usize| losses[*k].iter().sum::<f64>();
            let best = (0..settings).min_by(|a, b| sum(a).total_cmp(&sum(b))).unwrap();
            clearly_worse(losses, best)
        };
        alarms += usize::from(verdict(&losses).iter().any(|w| *w));
        losses[3].iter_mut().for_each(|v| *v += 1.0);
        found += usize::from(verdict(&losses)[3]);
    }
    // 60 experiments at 5 %: 3 are expected, more than 9 have a chance below one in a thousand.
    assert!(alarms <= 9, "{alarms} of 60");
    assert_eq!(found, 60);
}

#[test]
fn what_diverged_is_worse_and_few_rows_tell_nothing() {
    let losses = [vec![1.0, 2.0, 1.0], vec![9.0, 9.0, f64::INFINITY], vec![5.0; 3]];
    assert_eq!(clearly_worse(&losses, 0), [false, true, false]);
}

//! Streams of any length, the bank, and followers that are given what does not fit.
#![allow(clippy::unwrap_used)] // a test may panic

use optfilter::rng::Stream as Draw;
use optfilter_nn::Shape;
use optfilter_nn::adapt::{
    CsvOptions, Follower, Labels, Live, Prediction, Setup, Step, Stream, TableSteps, WeightMethod,
    level, mean_loss, prequential, tune_rolling,
};
use optfilter_table::{Format, Source};
use std::io::Read;

/// A table of two features and a label that is written as it is read: nothing of it is anywhere.
struct Endless {
    left: u64,
    draw: Draw,
    text: Vec<u8>,
    at: usize,
}

impl Endless {
    fn new(rows: u64) -> Self {
        Self { left: rows, draw: Draw::new(1, 0, "rows"), text: b"a,b,y\n".to_vec(), at: 0 }
    }
}

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.text.len() && self.left > 0 {
            let (a, b) = (self.draw.normal(), self.draw.normal());
            self.text = format!("{a:.3},{b:.3},{}\n", u8::from(a + b > 0.0)).into_bytes();
            self.at = 0;
            self.left -= 1;
        }
        let n = out.len().min(self.text.len() - self.at);
        out[..n].copy_from_slice(&self.text[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// What a stream leaves behind does not grow with it: the state after 150,000 rows is as large as after 15,000.
#[test]
fn memory_does_not_grow_with_the_stream() {
    let source = Source::Stream(Box::new(Endless::new(150_000)));
    let mut steps =
        TableSteps::open(source, Format::Csv, "endless", &CsvOptions::default()).unwrap();
    let setup = Setup {
        network: "linear".into(),
        method: WeightMethod::ImplicitMap { steps: 1 },
        optimizer: "gd".into(),
        lr: 0.1,
        ..Setup::default()
    };
    let mut live = Live::new(Shape::Vector(2), false, &setup, None, &[], 10).unwrap();
    let (mut step, mut early) = (Step::default(), 0);
    while steps.next(&mut step).unwrap() {
        let names = steps.names().to_vec();
        live.step(&step, &names).unwrap();
        if live.rows() == 15_000 {
            early = live.save().unwrap().len();
        }
    }
    assert_eq!((live.rows(), live.tally().steps), (150_000, 150_000));
    assert!(live.tally().level(true) > 97.0, "{}", live.tally().level(true));
    // The course has at most 2,048 pieces of 40 bytes; the rest is a handful of weights and ten pending samples.
    let late = live.save().unwrap().len();
    assert!(early > 30_000 && late < 100_000, "{early} {late}");
}

/// A boundary that turns: the label says on which side a point is.
fn turning(n: usize) -> Stream {
    let mut draw = Draw::new(2, 0, "turning");
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for i in 0..n {
        let angle = 4.0 * i as f64 / n as f64;
        let p = [draw.normal(), draw.normal()];
        y.push(u32::from(p[0] * angle.cos() + p[1] * angle.sin() > 0.0));
        x.extend(p);
    }
    let time = (0..n).map(|i| i as f64).collect();
    Stream::new(Shape::Vector(2), x, Labels::classes(y, 2), time).unwrap()
}

fn auto(network: &str) -> Setup {
    Setup {
        network: network.into(),
        method: WeightMethod::Auto,
        pretrain: 0,
        running_scale: true,
        ..Setup::default()
    }
}

#[test]
fn a_bank_does_as_well_as_its_best_member() {
    let stream = turning(4000);
    let run = |setup: &Setup| {
        let mut follower = Follower::new(&stream, setup, None).unwrap();
        let scores = prequential(&mut follower, &stream, 0..stream.steps()).unwrap();
        (level(&scores, stream.labels()), mean_loss(&scores), follower.shares())
    };
    let (accuracy, loss, shares) = run(&auto("linear"));
    assert_eq!(shares.len(), 5);
    assert!((shares.iter().map(|(_, s)| s).sum::<f64>() - 1.0).abs() < 1e-9);
    let mut best = (0.0_f64, f64::INFINITY);
    for lr in [0.001, 0.01, 0.1, 1.0] {
        let setup = Setup {
            method: WeightMethod::ImplicitMap { steps: 1 },
            optimizer: "gd".into(),
            lr,
            ..auto("linear")
        };
        let (accuracy, loss, _) = run(&setup);
        best = (best.0.max(accuracy), best.1.min(loss));
    }
    assert!(accuracy > best.0 - 0.5 && loss < best.1 + 0.02, "{accuracy} {loss} {best:?}");
    // Another network is kept beside linear members.
    assert_eq!(run(&auto("mlp:4")).2.len(), 8);
}

#[test]
fn a_bank_goes_on_to_the_bit() {
    let stream = turning(1500);
    let setup = auto("mlp:4");
    let mut whole = Follower::new(&stream, &setup, None).unwrap();
    let mut scores = prequential(&mut whole, &stream, 0..700).unwrap();
    let bytes = whole.save().unwrap();
    scores.extend(prequential(&mut whole, &stream, 700..1500).unwrap());
    let mut second = Follower::new(&stream, &setup, None).unwrap();
    second.load(&bytes).unwrap();
    assert_eq!(prequential(&mut second, &stream, 700..1500).unwrap(), scores[700..]);
    assert_eq!(whole.weights(), second.weights());
}

/// Labels that stay as they were with probability 0.92 and have little to do with the features: who learns quickly from the last label does best,
/// unless the last label is twenty time steps old.
fn sticky(n: usize) -> Vec<Step> {
    let mut draw = Draw::new(3, 0, "sticky");
    let mut label = 0.0;
    let step = |i: usize| {
        if draw.uniform() > 0.92 {
            label = 1.0 - label;
        }
        let x = vec![draw.normal() + 0.5 * label, draw.normal()];
        Step { time: i as f64, x, labels: vec![if i % 7 == 3 { f64::NAN } else { label }] }
    };
    (0..n).map(step).collect()
}

/// Members of a bank are judged by what they said when the sample came, not by what they say when its label does.
#[test]
fn late_labels_judge_what_was_said_then() {
    let (steps, names) = (sticky(4000), ["0".to_owned(), "1".to_owned()]);
    let begin =
        |setup: &Setup| Live::new(Shape::Vector(2), false, setup, None, &names, 20).unwrap();
    let run = |live: &mut Live, steps: &[Step]| {
        steps.iter().map(|step| live.step(step, &names).unwrap()).collect::<Vec<_>>()
    };
    let mut best = f64::INFINITY;
    for lr in [0.001, 0.003, 0.01, 0.03, 0.1] {
        let mut single = begin(&Setup {
            method: WeightMethod::ImplicitMap { steps: 1 },
            optimizer: "gd".into(),
            lr,
            ..auto("linear")
        });
        run(&mut single, &steps);
        best = best.min(single.tally().mean_loss());
    }
    for network in ["linear", "mlp:4"] {
        let mut whole = begin(&auto(network));
        let mut scores = run(&mut whole, &steps[..1500]);
        let bytes = whole.save().unwrap();
        scores.extend(run(&mut whole, &steps[1500..]));
        let loss = whole.tally().mean_loss();
        assert!(loss < best + 0.03, "{network}: {loss} {best}");
        // And it goes on to the bit, with what it owes.
        let mut second = begin(&auto(network));
        second.load(&bytes).unwrap();
        assert_eq!(run(&mut second, &steps[1500..]), scores[1500..]);
    }
}

/// Where the choice of the window before diverges in the next one, it is void, and the rest goes on.
#[test]
fn a_choice_that_diverges_is_void() {
    // Numbers to predict, whose features become a thousand times larger.
    let mut draw = Draw::new(4, 0, "void");
    let mut x: Vec<f64> = (0..2000).map(|_| draw.normal()).collect();
    let y = x.chunks_exact(2).map(|x| x[0] - 2.0 * x[1]).collect();
    x[1300..].iter_mut().for_each(|v| *v *= 1000.0);
    let time = (0..1000).map(f64::from).collect();
    let stream = Stream::new(Shape::Vector(2), x, Labels::Values(y), time).unwrap();
    let setup =
        Setup { optimizer: "gd".into(), pretrain: 100, running_scale: false, ..auto("linear") };
    let grid: (&[u32], &[f64]) = (&[1, 3], &[1e-9, 1e-2, 1e-1]);
    let rolling = tune_rolling(&stream, &setup, None, 0..1000, grid, 5).unwrap();
    assert_eq!(rolling.choices.len(), 4);
    let lost: Vec<bool> = rolling.choices.iter().map(|c| c.chosen.loss.is_infinite()).collect();
    assert!(lost.contains(&true) && rolling.choices.iter().all(|c| c.best.loss.is_finite()));
    assert!(rolling.choices.iter().all(|c| c.chosen.loss.is_finite() || c.is_void()));
    assert_eq!(rolling.scores.len(), 800);
}

/// Every row before a bad one is given, of a file as of a pipe.
#[test]
fn rows_before_a_bad_one_are_given() {
    let mut text = String::from("a,b,y\n");
    for i in 0..6000 {
        let a = if i == 5000 { "much".to_owned() } else { format!("{}", i % 11) };
        text += &format!("{a},{},{}\n", i % 7, i % 2);
    }
    let path = std::env::temp_dir().join(format!("optfilter-bad-row-{}.csv", std::process::id()));
    std::fs::write(&path, text).unwrap();
    for regress in [None, Some(false)] {
        let options = CsvOptions { regress, ..CsvOptions::default() };
        let source = Source::File(std::fs::File::open(&path).unwrap());
        let mut steps = TableSteps::open(source, Format::Csv, "bad.csv", &options).unwrap();
        let (mut step, mut given) = (Step::default(), 0);
        let error = loop {
            match steps.next(&mut step) {
                Ok(true) => given += 1,
                Ok(false) => panic!("the bad row was passed over"),
                Err(error) => break error.to_string(),
            }
        };
        assert_eq!(given, 5000);
        assert!(error.contains("5002"), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let stream = turning(50);
    for setup in [auto("linear"), Setup { network: "linear".into(), ..Setup::default() }] {
        let mut follower = Follower::new(&stream, &setup, None).unwrap();
        let before = follower.weights().to_vec();
        let classes = |of: Vec<u32>| Labels::classes(of, 2);
        for (x, labels, expected) in [
            (vec![1.0, 2.0, 3.0], classes(vec![0]), "samples of 2"),
            (vec![], classes(vec![]), "samples of 2"),
            (vec![1.0, f64::NAN], classes(vec![0]), "sample 0, feature 1"),
            (vec![1.0, f64::INFINITY], classes(vec![0]), "feature 1"),
            (vec![1.0, 2.0], classes(vec![0, 1]), "2 labels for 1"),
            (vec![1.0, 2.0], classes(vec![2]), "class 2"),
            (vec![1.0, 2.0], Labels::Values(vec![0.5]), "numbers"),
        ] {
            let error = follower.learn_from(&x, &labels).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert_eq!(follower.weights(), before);
        }
        assert!(follower.try_predict(&[1.0]).is_err());
    }
}

/// Room for a third class leaves the odds of the first two as they were.
#[test]
fn new_classes_leave_the_old_ones_alone() {
    let stream = turning(300);
    let setup = Setup { network: "mlp:5".into(), lr: 0.05, ..Setup::default() };
    let mut follower = Follower::new(&stream, &setup, None).unwrap();
    let probe = [0.4, -1.2];
    let Prediction::Classes(two) = follower.predict(&probe) else { panic!() };
    follower.grow(4).unwrap();
    let Prediction::Classes(four) = follower.predict(&probe) else { panic!() };
    assert_eq!(four[0].len(), 4);
    // Single precision outputs.
    let odds = |p: &[f64]| (p[0] / p[1]).ln();
    assert!((odds(&two[0]) - odds(&four[0])).abs() < 1e-5);
    assert!(four[0][2] < 0.1 && four[0][3] < 0.1);
    follower.learn_from(&probe, &Labels::classes(vec![3], 4)).unwrap();
    let Prediction::Classes(after) = follower.predict(&probe) else { panic!() };
    assert!(after[0][3] > four[0][3]);
}

/// Rates mean the same whatever the size of a time step.
#[test]
fn a_bank_bears_time_steps_of_any_size() {
    let n = 3000;
    let mut draw = Draw::new(4, 0, "sizes");
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let row = [draw.normal(), draw.normal(), draw.normal()];
        y.push(row[0] - 2.0 * row[1] + 0.5 * row[2] + 0.1 * draw.normal());
        x.extend(row);
    }
    for network in ["linear", "mlp:8"] {
        let rmse = |every: usize| {
            let time = (0..n).map(|i| (i / every) as f64).collect();
            let labels = Labels::Values(y.clone());
            let stream = Stream::new(Shape::Vector(3), x.clone(), labels, time).unwrap();
            let mut follower = Follower::new(&stream, &auto(network), None).unwrap();
            let scores = prequential(&mut follower, &stream, 0..stream.steps()).unwrap();
            (level(&scores, stream.labels()), level(&scores[1200 / every..], stream.labels()))
        };
        // From the beginning, and once all have learnt from as many.
        let alone = rmse(1);
        assert!(alone.0 < 0.5 && alone.1 < 0.2, "{network} {alone:?}");
        for every in [10, 30, 100, 300] {
            let (all, later) = rmse(every);
            let near = all < 2.0 * alone.0 && later < 1.3 * alone.1;
            assert!(near, "{network} {every}: {all} {later} {alone:?}");
        }
    }
}

/// Whoever sorts a time step by class changes nothing: what is learnt last counts for no more. The boundary turns, so that quick members
/// are needed, to which the order matters most: without a drawn one this fails (`the_drawn_order_is_what_bears_sorted_classes` in `bank.rs`).
#[test]
fn classes_sorted_within_a_time_step_do_no_harm() {
    let (n, every) = (6000, 100);
    let mut draw = Draw::new(5, 0, "sorted");
    let mut rows: Vec<([f64; 2], u32)> = Vec::new();
    for i in 0..n {
        let angle = 0.3 * (i / every) as f64;
        let p = [draw.normal(), draw.normal()];
        let side = p[0] * angle.cos() + p[1] * angle.sin() + 0.5 * draw.normal();
        rows.push((p, u32::from(side > 0.0)));
    }
    let run = |rows: &[([f64; 2], u32)]| {
        let x = rows.iter().flat_map(|(p, _)| *p).collect();
        let labels = Labels::classes(rows.iter().map(|(_, y)| *y).collect(), 2);
        let time = (0..n).map(|i| (i / every) as f64).collect();
        let stream = Stream::new(Shape::Vector(2), x, labels, time).unwrap();
        let mut follower = Follower::new(&stream, &auto("linear"), None).unwrap();
        let scores = prequential(&mut follower, &stream, 0..stream.steps()).unwrap();
        (level(&scores[5..], stream.labels()), mean_loss(&scores[5..]))
    };
    let mixed = run(&rows);
    rows.chunks_mut(every).for_each(|step| step.sort_by_key(|(_, y)| *y));
    let sorted = run(&rows);
    // The orders are drawn alike and the samples are not: a spread of a point is one of chance.
    assert!(sorted.0 > mixed.0 - 1.0 && sorted.1 < mixed.1 + 0.02, "{sorted:?} {mixed:?}");
}

/// A class that joins takes nothing from a bank of what it has learnt.
#[test]
fn a_bank_grows_without_forgetting() {
    let stream = turning(1500);
    for network in ["linear", "mlp:5"] {
        let mut follower = Follower::new(&stream, &auto(network), None).unwrap();
        prequential(&mut follower, &stream, 0..stream.steps()).unwrap();
        let probe = [0.4, -1.2];
        let mut two = Vec::new();
        follower.look(&probe, &mut two).unwrap();
        let shares = follower.shares();
        follower.grow(3).unwrap();
        assert_eq!(follower.shares(), shares);
        let mut three = Vec::new();
        follower.look(&probe, &mut three).unwrap();
        // At most the probability of a class that was never seen: exp(-4).
        for (class, before) in two.iter().enumerate() {
            assert!((three[class] - before).abs() < 0.02, "{network} {two:?} {three:?}");
        }
        let labels = Labels::classes(vec![2], 3);
        for _ in 0..200 {
            follower.learn_from(&probe, &labels).unwrap();
        }
        follower.look(&probe, &mut three).unwrap();
        assert!(three[2] > 0.9, "{network} {three:?}");
        // A second class joins what is no pair any more, and the whole can be put aside.
        follower.grow(4).unwrap();
        let mut other = Follower::new(&stream, &auto(network), None).unwrap();
        other.load(&follower.save().unwrap()).unwrap();
        assert_eq!(other.predict(&probe), follower.predict(&probe));
    }
}

/// Units and offset of a label that is a number change the units of the errors, and nothing else.
#[test]
fn units_of_the_label_do_not_matter() {
    let mut draw = Draw::new(3, 0, "units");
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for i in 0..400 {
        let (a, b) = (draw.normal(), draw.normal());
        // The first labels are all but equal, and say little of the scale of the others.
        y.push(if i < 3 { 1e-6 * a } else { a - 2.0 * b + 0.1 * draw.normal() });
        x.extend([a, b]);
    }
    let time: Vec<f64> = (0..400).map(f64::from).collect();
    let rmse = |setup: &Setup, factor: f64, offset: f64| {
        let values: Vec<f64> = y.iter().map(|v| factor * v + offset).collect();
        let labels = Labels::Values(values.clone());
        let stream = Stream::new(Shape::Vector(2), x.clone(), labels, time.clone()).unwrap();
        let mut follower = Follower::new(&stream, setup, None).unwrap();
        let scores = prequential(&mut follower, &stream, 0..400).unwrap();
        let mut live = Live::new(Shape::Vector(2), true, setup, None, &[], 0).unwrap();
        for (i, value) in values.iter().enumerate() {
            let x = x[2 * i..2 * i + 2].to_vec();
            let step = Step { time: time[i], x, labels: vec![*value] };
            live.step(&step, &[]).unwrap();
        }
        assert_eq!(live.tally().level(false), level(&scores, stream.labels()));
        (level(&scores, stream.labels()) / factor, mean_loss(&scores))
    };
    let single = Setup { method: WeightMethod::ImplicitMap { steps: 1 }, ..auto("linear") };
    let single = Setup { optimizer: "gd".into(), lr: 0.05, ..single };
    for setup in [auto("linear"), auto("mlp:4"), single] {
        let plain = rmse(&setup, 1.0, 0.0);
        assert!(plain.0 < 0.7 && plain.1 < 0.2, "{plain:?}");
        for (factor, offset) in [(100.0, 0.0), (1e4, 0.0), (1e-6, 0.0), (1.0, 1000.0)] {
            let other = rmse(&setup, factor, offset);
            // Single precision, and a mean that is rounded at the size of the offset; a bank may choose by the last digit.
            let off = (other.0 / plain.0 - 1.0).abs().max((other.1 / plain.1 - 1.0).abs());
            assert!(off < 0.01, "{factor} {offset}: {other:?} {plain:?}");
        }
    }
}

/// Text that comes by a pipe, and may be all there is for now: reading on panics.
struct Waiting {
    text: &'static [u8],
    ends: bool,
}

impl Read for Waiting {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        assert!(self.ends || !self.text.is_empty(), "waits for rows that have not come");
        self.text.read(out)
    }
}

fn piped(text: &'static str, ends: bool, options: &CsvOptions) -> TableSteps {
    let source = Source::Stream(Box::new(Waiting { text: text.as_bytes(), ends }));
    TableSteps::open(source, Format::Csv, "pipe", options).unwrap()
}

/// A row is given when it is there, not when 4,095 more are.
#[test]
fn rows_of_a_pipe_are_given_as_they_come() {
    let told = CsvOptions { regress: Some(false), ..CsvOptions::default() };
    let plain = CsvOptions::default();
    let pairs = CsvOptions { every: Some(2), ..told.clone() };
    for (text, options, samples) in [
        ("a,y\n1,0\n2,1\n", &told, [1, 1]),
        ("a,y\n1,up\n2,down\n", &plain, [1, 1]),
        ("a,y\n1,0\n2,1\n3,0\n4,1\n", &pairs, [2, 2]),
    ] {
        let mut steps = piped(text, false, options);
        let mut step = Step::default();
        for n in samples {
            assert!(steps.next(&mut step).unwrap());
            assert_eq!(step.labels.len(), n, "{text}");
        }
    }
    // Whole numbers may be either, and are looked at until it is clear.
    assert!(piped("a,y\n1,0\n2,1\n3,1.5\n4,1\n", false, &plain).regress());
    assert!(!piped("a,y\n1,0\n2,1\n", true, &plain).regress());
    // However a number is written, it is one class; the marks of a missing label are none.
    let mut steps = piped("a,y\n1,0\n2,0.0\n3,NA\n4,1\n5,none\n", true, &plain);
    let mut step = Step::default();
    while steps.next(&mut step).unwrap() {}
    assert_eq!(steps.names(), ["0", "1"]);
}

/// With late labels a class is unknown until its label is due: what was predicted before does not depend on it.
#[test]
fn a_class_is_new_when_its_label_is_due() {
    let setup = Setup { network: "linear".into(), ..auto("linear") };
    let mut live = Live::new(Shape::Vector(1), false, &setup, None, &[], 5).unwrap();
    let names: Vec<String> = ["a", "b", "c"].map(String::from).to_vec();
    for i in 0..30 {
        let label = if i == 20 { 2.0 } else { f64::from(i % 2) };
        let step = Step { time: f64::from(i), x: vec![f64::from(i % 3)], labels: vec![label] };
        live.step(&step, if i < 20 { &names[..2] } else { &names }).unwrap();
        assert_eq!(live.follower().classes(), if i < 25 { 2 } else { 3 }, "{i}");
        let Labels::Classes { names, .. } = live.labels() else { panic!() };
        assert_eq!(names.len(), live.follower().classes());
    }
}

/// A second pipe goes on where the first ended, and other settings than those of the first are refused by name.
#[test]
fn a_second_pipe_goes_on() {
    let (first, second) = ("a,y\n1,0\n2,1\n3,1\n", "a,y\n4,0\n5,1\n");
    let options = CsvOptions { regress: Some(false), ..CsvOptions::default() };
    let begin = |setup: &Setup, steps: &TableSteps| {
        let mut live = Live::new(Shape::Vector(1), false, setup, None, &[], 1).unwrap();
        live.bind(steps.layout());
        live
    };
    let follow = |live: &mut Live, steps: &mut TableSteps| {
        let (mut step, mut times) = (Step::default(), Vec::new());
        while steps.next(&mut step).unwrap() {
            times.push(step.time);
            live.step(&step, steps.names()).unwrap();
        }
        times
    };
    let setup = auto("linear");
    let mut steps = piped("a,y\n1,0\n2,1\n3,1\n4,0\n5,1\n", true, &options);
    let mut whole = begin(&setup, &steps);
    follow(&mut whole, &mut steps);
    let mut steps = piped(first, true, &options);
    let mut live = begin(&setup, &steps);
    assert_eq!(follow(&mut live, &mut steps), [0.0, 1.0, 2.0]);
    let done = steps.trail(live.rows());
    let bytes = live.save().unwrap();
    assert!(!Live::predicts_numbers(&bytes).unwrap());
    let mut steps = piped(second, true, &options);
    let mut live = begin(&setup, &steps);
    live.load(&bytes).unwrap();
    steps.know(live.names());
    steps.after(&done);
    assert_eq!(follow(&mut live, &mut steps), [3.0, 4.0]);
    assert_eq!(live.rows(), 5);
    assert_eq!(live.save().unwrap(), whole.save().unwrap());
    // Other settings, and other columns.
    let other = Setup { lr: 0.5, ..auto("mlp:3") };
    let error = begin(&other, &piped("b,y\n1,0\n", true, &options)).load(&bytes).unwrap_err();
    let error = error.to_string();
    for words in ["network linear (now mlp:3)", "lr 0.001 (now 0.5)", "features a (now b)"] {
        assert!(error.contains(words), "{error}");
    }
}

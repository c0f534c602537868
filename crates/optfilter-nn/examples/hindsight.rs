//! Which single setting would have been best in hindsight, and what the bank of `--auto` makes of a stream that it knows
//! nothing about.
//!
//! `cargo run --release -p optfilter-nn --example hindsight -- [--network mlp:64,64] [--every N] [--only auto] STREAM...`
//!
//! A STREAM is a table whose last column is the label, or the name of a generated one: `turning` (a boundary that turns), `jumping` (one
//! that jumps), `sticky` (labels that stay for a while, features that say little), `blobs` (three classes in six clouds that move).
//! `--rows N` takes the first N samples; `--forget`, `--size`, `--patience`, `--temper`, `--anchors`, `--linear` set the bank. `--wide` tries three
//! steps and windows of three as well, as the bank does. Seconds are of the processor where the system tells them (Linux).

use optfilter::rng::Stream as Draw;
use optfilter_nn::Shape;
use optfilter_nn::adapt::{
    BankOptions, CsvOptions, Follower, Labels, Setting, Setup, Stream, WeightMethod, level,
    mean_loss, prequential, read_csv,
};
use optfilter_nn::filter::Window;
use std::sync::LazyLock;
use std::time::Instant;

/// Seconds that this thread has had of a processor (`/proc/thread-self/schedstat`, nanoseconds first), or else of the clock.
fn seconds() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let had = told.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    had.map_or_else(|| START.elapsed().as_secs_f64(), |nanoseconds| nanoseconds * 1e-9)
}

fn generated(kind: &str, n: usize) -> Option<Stream> {
    let mut draw = Draw::new(7, 0, "generated stream");
    let (mut x, mut y) = (Vec::new(), Vec::new());
    let mut label = 0;
    let mut angle: f64 = 0.0;
    for i in 0..n {
        let t = i as f64 / n as f64;
        match kind {
            "turning" | "jumping" => {
                if kind == "turning" {
                    angle = std::f64::consts::TAU * t;
                } else if i % (n / 8).max(1) == 0 {
                    angle = std::f64::consts::TAU * draw.uniform();
                }
                let p = [draw.normal(), draw.normal(), draw.normal(), draw.normal()];
                let side = p[0] * angle.cos() + p[1] * angle.sin() + 0.3 * draw.normal() > 0.0;
                x.extend(p);
                y.push(u32::from(side));
            }
            "sticky" => {
                if draw.uniform() < 0.08 {
                    label = 1 - label;
                }
                let sign = if label == 1 { 0.4 } else { -0.4 };
                x.extend([sign + draw.normal(), draw.normal(), -sign * t + draw.normal()]);
                y.push(label);
            }
            "blobs" => {
                let class = (draw.uniform() * 3.0) as u32;
                let second = draw.uniform() < 0.5;
                let turn = f64::from(class) * 2.1 + if second { 1.05 } else { 0.0 } + 3.0 * t;
                let radius = if second { 1.0 } else { 2.2 };
                x.extend([
                    radius * turn.cos() + 0.35 * draw.normal(),
                    radius * turn.sin() + 0.35 * draw.normal(),
                ]);
                y.push(class);
            }
            _ => return None,
        }
    }
    let (width, classes) = match kind {
        "sticky" => (3, 2),
        "blobs" => (2, 3),
        _ => (4, 2),
    };
    let time = (0..n).map(|i| i as f64).collect();
    Stream::new(Shape::Vector(width), x, Labels::classes(y, classes), time).ok()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut network, mut every, mut only) = ("mlp:64,64".to_owned(), None, String::new());
    let (mut rows, mut wide) = (usize::MAX, false);
    let mut bank = BankOptions::default();
    let mut names = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--network" => network = value()?,
            "--every" => every = Some(value()?.parse()?),
            "--only" => only = value()?,
            "--wide" => wide = true,
            "--rows" => rows = value()?.parse()?,
            "--forget" => bank.forget = value()?.parse()?,
            "--size" => bank.size = value()?.parse()?,
            "--anchors" => bank.anchors = value()?.parse()?,
            "--linear" => bank.linear = value()?.parse()?,
            "--temper" => bank.temper = value()?.parse()?,
            "--patience" => bank.patience = value()?.parse()?,
            _ => names.push(word),
        }
    }
    for name in names {
        let stream = match generated(&name, 20_000) {
            Some(stream) => stream,
            None => {
                let options = CsvOptions { every, ..CsvOptions::default() };
                read_csv(std::path::Path::new(&name), &options)?
            }
        };
        let steps = stream.steps().min(rows);
        println!("{name}: {} samples of {}, {steps} steps", stream.len(), stream.shape());
        let base = Setup {
            network: network.clone(),
            pretrain: 0,
            running_scale: true,
            bank,
            ..Setup::default()
        };
        let mut tried = Vec::new();
        for carry in [false, true] {
            for lr in [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0] {
                match carry {
                    false => tried.push(Setting::new("gd", lr, false)),
                    true => tried.push(Setting::new("adam", lr * 0.1, true)),
                }
            }
        }
        if wide {
            let window = Window::new(3, 0.8)?;
            let plain = tried.clone();
            tried.extend(plain.iter().map(|s| Setting { steps: 3, ..s.clone() }));
            tried.extend(plain.iter().map(|s| Setting { window, ..s.clone() }));
            tried.extend(plain.iter().map(|s| Setting { steps: 3, window, ..s.clone() }));
        }
        let mut setups: Vec<Setup> = tried.iter().map(|s| s.setup(&base)).collect();
        setups.push(Setup { method: WeightMethod::Auto, ..base });
        for setup in setups.iter().filter(|s| s.label().contains(&only)) {
            let start = seconds();
            let mut follower = Follower::new(&stream, setup, None)?;
            match prequential(&mut follower, &stream, 0..steps) {
                Ok(scores) => println!(
                    "  {:45} {:6.2} %  {:.4} nats  {:7.3} s",
                    setup.label(),
                    level(&scores, stream.labels()),
                    mean_loss(&scores),
                    seconds() - start
                ),
                Err(e) => println!("  {:45} {e}", setup.label()),
            }
            for (setting, share) in follower.shares() {
                println!("      {:5.1} %  {}", 100.0 * share, setting.label());
            }
        }
    }
    Ok(())
}

//! `optfilter adapt` without the program, for tables that fit in memory: one line of JSON.
//!
//! `cargo run --release -p optfilter-nn --example adapt -- adapt TABLE [--network N] [--optimizer O --steps K --lr R --carry] [--json] [--stream]`
//! `cargo run --release -p optfilter-nn --example adapt -- adapt TABLE --method ekf [--sigma2 V --prior V --noise V --robust C --rank R]`
//!
//! The words are those of `optfilter adapt`, so that `bench/streams/compare.py` can use either. Features are scaled as the stream goes.
//! `--rows N` takes the first N rows; `seconds` in the answer is the following alone, without reading.

use optfilter_nn::adapt::{
    CsvOptions, Follower, Setup, Tally, WeightMethod, prequential_into, read_csv,
};
use optfilter_nn::filter::Memory;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut setup =
        Setup { method: WeightMethod::Auto, pretrain: 0, running_scale: true, ..Setup::default() };
    let (mut path, mut rows) = (None, usize::MAX);
    let (mut method, mut steps, mut drift, mut rank) = (None, None, None, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "adapt" | "--json" | "--stream" => {}
            "--network" => setup.network = value()?,
            "--optimizer" => setup.optimizer = value()?,
            "--lr" => setup.lr = value()?.parse()?,
            "--carry" => setup.memory = Memory::Carry,
            "--steps" => steps = Some(value()?.parse()?),
            "--method" => method = Some(value()?),
            "--sigma2" => drift = Some(value()?.parse()?),
            "--rank" => rank = Some(value()?.parse()?),
            "--prior" => setup.prior_var = value()?.parse()?,
            "--noise" => setup.likelihood.noise_var = value()?.parse()?,
            "--robust" => setup.likelihood.robust = Some(value()?.parse()?),
            "--rows" => rows = value()?.parse()?,
            _ => path = Some(word),
        }
    }
    let path = path.ok_or("which table?")?;
    if method.is_some() || steps.is_some() {
        let name = method.as_deref().unwrap_or("imap");
        setup.method =
            WeightMethod::of_parts(name, steps, drift, rank).ok_or("there is no such method")?;
    }
    let stream = read_csv(std::path::Path::new(&path), &CsvOptions::default())?;
    let mut follower = Follower::new(&stream, &setup, None)?;
    let mut tally = Tally::default();
    let start = Instant::now();
    prequential_into(&mut follower, &stream, 0..stream.steps().min(rows), &mut tally)?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "[{{\"method\": \"{}\", \"steps\": {}, \"accuracy\": {}, \"mean_loss\": {}, \"balanced_accuracy\": {}, \"calibration_error\": {}, \"seconds\": {seconds:.4}}}]",
        setup.label(),
        tally.steps,
        tally.level(true),
        tally.mean_loss(),
        tally.balanced_accuracy(),
        tally.calibration_error()
    );
    Ok(())
}

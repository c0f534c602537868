//! `optfilter adapt` without the program, for tables that fit in memory: one line of JSON.
//!
//! `cargo run --release -p optfilter-nn --example adapt -- adapt TABLE [--network N] [--optimizer O --steps K --lr R] [--json] [--stream]`
//!
//! The words are those of `optfilter adapt`, so that `bench/streams/compare.py` can use either. Features are scaled as the stream goes.

use optfilter_nn::adapt::{
    CsvOptions, Follower, Setup, Tally, WeightMethod, prequential_into, read_csv,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut setup =
        Setup { method: WeightMethod::Auto, pretrain: 0, running_scale: true, ..Setup::default() };
    let mut path = None;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "adapt" | "--json" | "--stream" => {}
            "--network" => setup.network = value()?,
            "--optimizer" => setup.optimizer = value()?,
            "--lr" => setup.lr = value()?.parse()?,
            "--steps" => {
                setup.method = WeightMethod::ImplicitMap { steps: value()?.parse()? };
            }
            _ => path = Some(word),
        }
    }
    let path = path.ok_or("which table?")?;
    let stream = read_csv(std::path::Path::new(&path), &CsvOptions::default())?;
    let mut follower = Follower::new(&stream, &setup, None)?;
    let mut tally = Tally::default();
    prequential_into(&mut follower, &stream, 0..stream.steps(), &mut tally)?;
    println!(
        "[{{\"method\": \"{}\", \"steps\": {}, \"accuracy\": {}, \"mean_loss\": {}, \"balanced_accuracy\": {}, \"calibration_error\": {}}}]",
        setup.label(),
        tally.steps,
        tally.level(true),
        tally.mean_loss(),
        tally.balanced_accuracy(),
        tally.calibration_error()
    );
    Ok(())
}

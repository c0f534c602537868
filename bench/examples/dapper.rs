//! Our ensemble filter on arrays that `dapper/export.py` wrote: `dapper FOLDER MEMBERS INFLATION RADIUS CYCLES [SEED]` (radius 0:
//! not local; the seed, 1 unless given, is that of the rotations) prints the mean RMSE after 400 cycles, and seconds per cycle on one thread.

use nalgebra::{DVector, Dyn};
use optfilter::filter::{Belief, EnsembleKalmanFilter as Ensemble, EnsembleBelief, Filter, Localization};
use optfilter::model::{DiagonalNoise, Lorenz96, Step};
use optfilter::rng::Stream;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// The float64 numbers of an .npy file in C order.
fn npy(path: &Path) -> Result<Vec<f64>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let length = bytes.get(8..10).ok_or("not an .npy file")?;
    let body = 10 + usize::from(u16::from_le_bytes([length[0], length[1]]));
    let (numbers, _) = bytes.get(body..).ok_or("cut short")?.as_chunks::<8>();
    Ok(numbers.iter().map(|b| f64::from_le_bytes(*b)).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, members, inflation, radius, cycles, seed @ ..] = &arguments[..] else {
        return Err("FOLDER MEMBERS INFLATION RADIUS CYCLES [SEED]".into());
    };
    let seed = seed.first().map_or(Ok(1), |seed| seed.parse())?;
    let folder = Path::new(folder);
    let (truth, seen) = (npy(&folder.join("truth.npy"))?, npy(&folder.join("observations.npy"))?);
    let n = 40;
    let start = npy(&folder.join("ensemble.npy"))?;
    let start = start.get(..members.parse::<usize>()? * n).ok_or("too few members")?;
    let noise = DiagonalNoise::new(DVector::zeros(n), DVector::repeat(n, 1.0))?;
    let model = Lorenz96::new(Dyn(n), 8.0).rk4();
    let mut filter = Ensemble::new(model, noise, inflation.parse()?)?.rotated();
    let radius: f64 = radius.parse()?;
    if radius > 0.0 {
        filter = filter.local(Localization::index(radius, true)?)?;
    }
    let mut belief = EnsembleBelief::<Dyn>::from_members(n, start, Stream::new(seed, 0, "ensemble"))?;
    let rows = (truth.len() / n).min(cycles.parse()?);
    let mut errors = Vec::with_capacity(rows);
    let begin = Instant::now();
    for (k, (x, y)) in truth.chunks(n).zip(seen.chunks(n)).take(rows).enumerate() {
        let step = Step::even(k as u64 + 1, 0.05);
        filter.predict(&mut belief, &[], &step)?;
        filter.update(&mut belief, y, &[], &step)?;
        let square: f64 = belief.mean().iter().zip(x).map(|(a, b)| (a - b) * (a - b)).sum();
        errors.push((square / n as f64).sqrt());
    }
    let seconds = begin.elapsed().as_secs_f64() / rows as f64;
    let kept = errors.get(400..).unwrap_or(&[]);
    println!("{} {seconds}", kept.iter().sum::<f64>() / kept.len() as f64);
    Ok(())
}

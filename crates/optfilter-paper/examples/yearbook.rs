//! The Yearbook experiment without the `optfilter` program: chosen methods, the table on standard output.
//!
//! `cargo run --release -p optfilter-paper --example yearbook -- [--data FILE] [--seeds N] [--full] [--beyond] [--both] [--cuda]
//!  [--out FOLDER] [--years FIRST LAST] [--particles N] [static imap:50 direct vkf:0.01 pf:0.01 ...]`
//!
//! With `--cuda` and `OPTFILTER_TIMES=1` in the environment, where the time went is printed at the end.

use optfilter_paper::Protocol;
use optfilter_paper::yearbook::{Device, Options, Size, YearbookMethod, run};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let full = words.iter().any(|w| w == "--full");
    let beyond = words.iter().any(|w| w == "--beyond");
    let size = match (full, beyond) {
        (true, _) => Size::Full,
        (_, true) => Size::Beyond,
        _ => Size::Short,
    };
    let mut options = Options::new(size, std::env::temp_dir().join("optfilter-yearbook"));
    let mut methods = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.split_once(':') {
            Some(("imap", k)) => methods.push(YearbookMethod::ImplicitMap(k.parse()?)),
            Some(("vkf", s)) => methods.push(YearbookMethod::Variational(s.parse()?)),
            Some(("pf", s)) => methods.push(YearbookMethod::Particle(s.parse()?)),
            _ => match word.as_str() {
                "static" => methods.push(YearbookMethod::Static),
                "direct" => methods.push(YearbookMethod::DirectFit),
                "--data" => options.data = Some(value()?.into()),
                "--out" => options.out = value()?.into(),
                "--seeds" => options.seeds = value()?.parse()?,
                "--particles" => options.particles = value()?.parse()?,
                "--years" => options.years = (value()?.parse()?, value()?.parse()?),
                "--both" => options.protocols = vec![Protocol::Published, Protocol::Specified],
                "--cuda" => options.device = Device::Cuda,
                "--full" | "--beyond" => {}
                _ => return Err(format!("unknown word {word}").into()),
            },
        }
    }
    if !methods.is_empty() {
        options.methods = methods;
    }
    let start = Instant::now();
    let shown = AtomicU32::new(u32::MAX);
    let outcome = run(&options, &|p| {
        // A line for every per cent, not for every step.
        let percent = (100.0 * p.done) as u32;
        if shown.swap(percent, Ordering::Relaxed) != percent {
            let left = p.left.map_or(String::new(), |left| format!(", {} s left", left.as_secs()));
            let line = format!("{percent:3} % {}/{} chains{left}", p.finished, p.units);
            // Written over on a terminal; elsewhere a line for every tenth.
            match std::io::stderr().is_terminal() {
                true => eprint!("\r{line}   "),
                false if percent.is_multiple_of(10) => eprintln!("{line}"),
                false => {}
            }
        }
    })?;
    eprintln!();
    for problem in &outcome.problems {
        println!("note: {problem}");
    }
    println!(
        "{}{} chains reused; {:.1} s",
        outcome.text(),
        outcome.reused,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

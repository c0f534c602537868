//! Random models through every filter: no panic, no `Ok` with NaN, roll-back intact, no run longer than a second.
//!
//! Every case is named by a seed and a number, and made from them alone:
//!
//! ```text
//! cargo run --release -p optfilter-model --example storm -- --models 10000 --seed 1
//! cargo run --release -p optfilter-model --example storm -- --models 10000 --seed 1 --first 5000    # from there on
//! cargo run --release -p optfilter-model --example storm -- --seed 1 --only 1234    # one case again, shown
//! ```
//!
//! `cargo xtask storm` builds and runs it.

mod data;
mod grammar;
mod trial;

use data::Data;
use grammar::Dice;
use optfilter_model::{Method, ModelSpec};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use trial::{Ending, trial};

/// The longest that one filter may take for one case.
const LONGEST: Duration = Duration::from_secs(1);
/// After this a run is taken for one that never ends.
const ENDLESS: Duration = Duration::from_secs(60);
/// Failures shown in full, one of each sort.
const SHOWN: usize = 20;

struct Options {
    models: u64,
    /// The first of them, for a storm that goes on.
    first: u64,
    seed: u64,
    threads: u64,
    only: Option<u64>,
}

fn options() -> Result<Options, String> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let mut options = Options { models: 10_000, first: 0, seed: 1, threads, only: None };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().and_then(|v| v.parse().ok());
        let value = value.ok_or_else(|| format!("{name} takes a whole number"))?;
        match name.as_str() {
            "--models" => options.models = value,
            "--first" => options.first = value,
            "--seed" => options.seed = value,
            "--threads" => options.threads = value.max(1),
            "--only" => options.only = Some(value),
            _ => {
                let known = "--models, --first, --seed, --threads and --only";
                return Err(format!("{name}: there are {known}"));
            }
        }
    }
    Ok(options)
}

thread_local! {
    /// Where the last panic of this thread came from.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What came of all cases.
#[derive(Default)]
struct Tally {
    parsed: u64,
    /// By method: refused, failed at a row, done.
    endings: [[u64; 3]; Method::ALL.len()],
    /// By sort: how many, and the first case in full.
    failures: BTreeMap<String, (u64, String)>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.parsed += other.parsed;
        for (mine, theirs) in self.endings.iter_mut().zip(other.endings) {
            for (a, b) in mine.iter_mut().zip(theirs) {
                *a += b;
            }
        }
        for (sort, (count, case)) in other.failures {
            self.failures.entry(sort).or_insert((0, case)).0 += count;
        }
    }

    /// Notes what does not hold of a case; the sort is the text up to its first list, without numbers.
    fn fail(&mut self, what: &str, case: impl FnOnce() -> String) {
        let head = what.split('[').next().unwrap_or_default();
        let sort: String = head.chars().take(120).filter(|c| !c.is_ascii_digit()).collect();
        self.failures.entry(sort).or_insert_with(|| (0, case())).0 += 1;
    }
}

/// One case through every filter.
fn run(seed: u64, index: u64, show: bool, tally: &mut Tally) {
    let mut dice = Dice::new(seed, index);
    let text = grammar::model_file(&mut dice);
    let again = format!(
        "again: cargo run --release -p optfilter-model --example storm -- --seed {seed} --only {index}"
    );
    if show {
        println!("{text}");
    }
    let parsed = guarded(|| ModelSpec::parse("storm.toml", &text).map_err(|d| d.to_string()));
    let spec = match parsed {
        Ok(Ok(spec)) => spec,
        Ok(Err(refusal)) => {
            if show {
                println!("{refusal}");
            }
            return;
        }
        Err(what) => return tally.fail(&what, || format!("{what}\n{again}\n{text}")),
    };
    tally.parsed += 1;
    let data = match guarded(|| Data::new(&spec, &mut dice)).and_then(|d| d) {
        Ok(data) => data,
        Err(what) => return tally.fail(&what, || format!("{what}\n{again}\n{text}")),
    };
    if show {
        println!("{}", data.table(&spec));
    }
    for (i, method) in Method::ALL.into_iter().enumerate() {
        let timed = || {
            let start = Instant::now();
            let ending = guarded(|| trial(&spec, &data, method)).and_then(|e| e);
            (ending, start.elapsed())
        };
        let (mut ending, mut time) = timed();
        // A machine with other work may keep a run waiting, but not three times.
        for _ in 0..2 {
            if time > LONGEST {
                let (_, again) = timed();
                time = time.min(again);
            }
        }
        if time > LONGEST {
            ending = Err(format!("takes {} s", time.as_secs()));
        }
        if show {
            let shown = match &ending {
                Ok(Ending::Refused) => "refused",
                Ok(Ending::Failed) => "failed at a row",
                Ok(Ending::Done) => "done",
                Err(what) => what,
            };
            println!("{}: {shown} ({:.1} ms)", method.name(), 1e3 * time.as_secs_f64());
        }
        match ending {
            Ok(ending) => tally.endings[i][ending as usize] += 1,
            Err(what) => {
                let what = format!("{}: {what}", method.name());
                tally.fail(&what, || format!("{what}\n{again}\n{text}\n{}", data.table(&spec)));
            }
        }
    }
}

/// The result, or where it panicked.
fn guarded<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|_| PANIC.with(|p| p.borrow().clone()))
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    std::panic::set_hook(Box::new(|info| {
        PANIC.with(|p| *p.borrow_mut() = format!("panic: {info}"))
    }));
    let start = Instant::now();
    let (first, last) = options.only.map_or((options.first, options.models), |i| (i, i + 1));
    let next = AtomicU64::new(first);
    let total = Mutex::new(Tally::default());
    // What each thread does and since when, in milliseconds, so that one that hangs is found.
    let desks: Vec<(AtomicU64, AtomicU64)> =
        (0..options.threads).map(|_| Default::default()).collect();
    let milliseconds = || start.elapsed().as_millis() as u64;
    std::thread::scope(|scope| {
        for desk in &desks {
            let (next, total) = (&next, &total);
            scope.spawn(move || {
                let mut tally = Tally::default();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= last {
                        break;
                    }
                    desk.0.store(index, Ordering::Relaxed);
                    desk.1.store(milliseconds(), Ordering::Relaxed);
                    let sorts = tally.failures.len();
                    run(options.seed, index, options.only.is_some(), &mut tally);
                    if tally.failures.len() > sorts {
                        println!("a failure: --seed {} --only {index}", options.seed);
                    }
                }
                desk.1.store(u64::MAX, Ordering::Relaxed);
                if let Ok(mut total) = total.lock() {
                    total.add(tally);
                }
            });
        }
        let mut said = 0;
        while desks.iter().any(|d| d.1.load(Ordering::Relaxed) != u64::MAX) {
            std::thread::sleep(Duration::from_millis(20));
            for (index, since) in &desks {
                let since = since.load(Ordering::Relaxed);
                if since != u64::MAX
                    && milliseconds().saturating_sub(since) > ENDLESS.as_millis() as u64
                {
                    println!(
                        "a run does not end: --seed {} --only {}",
                        options.seed,
                        index.load(Ordering::Relaxed)
                    );
                    std::process::exit(1);
                }
            }
            let minutes = start.elapsed().as_secs() / 60;
            if minutes > said {
                said = minutes;
                println!("{} models after {minutes} min", next.load(Ordering::Relaxed));
            }
        }
    });
    let Ok(total) = total.into_inner() else { return ExitCode::FAILURE };
    report(&total, last - first, start.elapsed())
}

/// Says what came of it; a storm in which a filter hardly ever gets to the end proves nothing of it.
fn report(total: &Tally, models: u64, time: Duration) -> ExitCode {
    println!("{models} models, {} of them valid, in {:.1} s", total.parsed, time.as_secs_f64());
    println!("        refused    failed      done");
    let mut thin = Vec::new();
    for (method, [refused, failed, done]) in Method::ALL.iter().zip(total.endings) {
        println!("{:>5} {refused:>9} {failed:>9} {done:>9}", method.name());
        if models >= 1000 && done * 20 < models {
            thin.push(method.name());
        }
    }
    for (_, case) in total.failures.values().take(SHOWN) {
        println!("\n--- {case}");
    }
    if !total.failures.is_empty() {
        println!("\nfailures by sort:");
    }
    for (sort, (count, _)) in &total.failures {
        println!("{count:>7} x {sort}");
    }
    if !thin.is_empty() {
        println!("fewer than one run in twenty ends well: {}", thin.join(", "));
    }
    if total.failures.is_empty() && thin.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

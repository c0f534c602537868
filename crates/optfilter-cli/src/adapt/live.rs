//! `optfilter adapt` on a stream that need not fit in memory: a table read as it comes, from a file or from standard input.

use super::args::{Args, Task, title};
use super::pipe::Pipe;
use super::scores::Scores;
use super::show::{self, Run};
use crate::failure::Failure;
use crate::lock::Lock;
use crate::{files, interrupt};
use optfilter::checkpoint::{self, CheckpointError};
use optfilter_model::table::{Format, Source, Trail};
use optfilter_nn::adapt::{AdaptError, CsvOptions, Live, Saved, Setup, Step, TableSteps};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Files beyond this size are read as they come without being asked to.
const LARGE: u64 = 64 << 20;

/// Whether the table is to be read as it comes.
pub fn wanted(args: &Args) -> bool {
    let large = || std::fs::metadata(&args.data).is_ok_and(|m| m.len() > LARGE);
    files::is_standard(&args.data)
        || args.stream
        || args.delay.is_some()
        || args.checkpoint.is_some()
        || (alone(args) && large())
}

/// Whether nothing is asked for that needs the whole of the table.
fn alone(args: &Args) -> bool {
    !args.tune && !args.compare && !args.follow && args.pretrain.is_none_or(|p| p == 0)
}

/// Whether a table that could not be read whole can be read once more, as it comes: what came by a pipe is gone.
pub fn possible(args: &Args) -> bool {
    alone(args) && std::fs::metadata(&args.data).is_ok_and(|m| m.is_file())
}

/// Under which checkpoints are saved, and what all such kinds begin with.
const KIND: &str = "command line/adapt/1";
const FAMILY: &str = "command line/adapt";

/// A checkpoint: how long the file of scores was and the sum of its end, the rows so far, and the follower.
#[derive(Serialize, Deserialize)]
struct Kept {
    scores: (u64, u64),
    trail: Trail,
    live: Vec<u8>,
}

fn read_checkpoint(path: &Path) -> Result<Option<Kept>, Failure> {
    let name = path.display().to_string();
    match std::fs::read(path) {
        Ok(bytes) => match checkpoint::load(KIND, &bytes) {
            Ok(kept) => Ok(Some(kept)),
            // The first had a length before the follower.
            Err(e @ CheckpointError::NotACheckpoint) => {
                let old = bytes.get(8..).is_some_and(|rest| rest.starts_with(b"OPTFILT\n"));
                let (expected, found) = (KIND.to_owned(), FAMILY.to_owned());
                let e = if old { CheckpointError::Kind { expected, found } } else { e };
                Err(Failure::checkpoint(&name, FAMILY, &e))
            }
            Err(e) => Err(Failure::checkpoint(&name, FAMILY, &e)),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Failure::data(format!("{name}: {e}"))),
    }
}

/// Follows the stream to its end.
pub fn run(args: &Args, setup: &Setup, saved: Option<&Saved>) -> Result<(), Failure> {
    if args.tune || args.compare || args.follow {
        return Err(Failure::usage(
            "--tune, --compare and --follow need the whole of DATA; leave out --stream, --delay and --checkpoint, and name a file",
        ));
    }
    if args.pretrain.is_some_and(|p| p > 0) {
        return Err(Failure::usage(
            "a stream that is read as it comes is not pre-trained on; leave out --pretrain, or start from --weights",
        ));
    }
    if args.csv.as_deref().is_some_and(files::is_standard) {
        return Err(Failure::usage("--csv of a stream needs a file, not standard output"));
    }
    let stop = interrupt::flag();
    let lock = |path: &Path| Lock::take("--checkpoint", path);
    let lock = args.checkpoint.as_deref().map(lock).transpose()?;
    let kept = args.checkpoint.as_deref().map(read_checkpoint).transpose()?.flatten();
    let of_checkpoint = |e: AdaptError| {
        let name = args.checkpoint.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
        let failure = Failure::from(e);
        Failure { message: format!("{name}: {}", failure.message), ..failure }
    };
    let standard = files::is_standard(&args.data);
    let name = files::display(&args.data);
    let (source, format) = match standard {
        true => (Source::Stream(Box::new(Pipe::open(Arc::clone(&stop)))), Format::Csv),
        false => {
            let file = File::open(&args.data).map_err(|e| Failure::data(format!("{name}: {e}")))?;
            (Source::File(file), Format::of_path(&args.data).unwrap_or(Format::Csv))
        }
    };
    let known = saved.and_then(|s| s.classes.as_deref()).unwrap_or_default();
    // What goes on predicts what it did, and weights what they were made for; the next rows may look otherwise.
    let before = kept.as_ref().map(|kept| Live::predicts_numbers(&kept.live)).transpose();
    let before = before.map_err(of_checkpoint)?;
    let options = CsvOptions {
        label: args.label.clone(),
        time: args.time.clone(),
        every: args.every,
        ignore: args.ignore.clone(),
        regress: args
            .task
            .map(|t| matches!(t, Task::Regress))
            .or(before)
            .or(saved.map(|s| s.classes.is_none())),
    };
    let opened = TableSteps::open(source, format, &name, &options);
    let mut steps = opened.map_err(|e| asked_or(&stop, e, 0))?;
    steps.expect(known);
    let delay = args.delay.unwrap_or(0);
    let weights = match &args.weights {
        Some(path) => {
            let plain =
                Setup { method: optfilter_nn::adapt::WeightMethod::Static, ..setup.clone() };
            let (shape, regress) = (steps.shape(), steps.regress());
            let probe = Live::new(shape, regress, &plain, None, known, 0)?;
            let (network, classes) = (probe.follower().network(), probe.follower().classes());
            let read = optfilter_nn::safetensors::load_classes(network, classes, path);
            Some(read.map_err(|e| Failure::data(format!("{}: {e}", path.display())))?)
        }
        None => None,
    };
    let names = steps.names().to_vec();
    let mut live = Live::new(steps.shape(), steps.regress(), setup, weights, &names, delay)?;
    live.bind(steps.layout());
    let mut resumed = None;
    if let Some(kept) = kept {
        live.load(&kept.live).map_err(of_checkpoint)?;
        let known = live.names().to_vec();
        steps.know(&known);
        if standard && !args.skip {
            steps.after(&kept.trail);
        } else {
            steps.skip(&kept.trail)?;
        }
        files::remark(&format!("going on after {} rows", live.rows()));
        resumed = Some(kept.scores);
    }
    let score = if steps.regress() { "rmse" } else { "accuracy" };
    let head = format!("method,time,n,{score},loss");
    let mut scores = Scores::open(args.csv.as_deref(), resumed, &head, standard)?;
    let label = setup.label();
    let mut progress = ScoreLine::new(args.json);
    let mut last = live.rows();
    let mut step = Step::default();
    // Whether what was answered last may not be all of its time step.
    let mut open = false;
    loop {
        let more = match steps.next(&mut step) {
            Err(e) if lock.is_some() && steps.is_torn() => {
                files::remark(&format!(
                    "note: the table ends within a row that cannot be read ({e}); it is left for the run that goes on"
                ));
                false
            }
            Ok(more) if !stop.load(Ordering::Relaxed) => more,
            // Asked to end: what was predicted so far is kept, but for a time step that is not whole.
            Ok(_) => {
                if !open {
                    put_aside(lock.as_ref(), (&live, &steps), &mut scores)?;
                }
                return Err(asked(live.rows()));
            }
            Err(e) => {
                let failure = asked_or(&stop, e, live.rows());
                if stop.load(Ordering::Relaxed) && !open {
                    put_aside(lock.as_ref(), (&live, &steps), &mut scores)?;
                }
                return Err(failure);
            }
        };
        if !more {
            break;
        }
        // Of what comes once only, the rest of a time step does not come again.
        open = steps.is_torn() || !standard && steps.is_open();
        if open {
            put_aside(lock.as_ref(), (&live, &steps), &mut scores)?;
        }
        if let Some(s) = live.step(&step, steps.names())?
            && scores.wanted()
        {
            let value = match steps.regress() {
                true => (s.squared_error / s.n as f64).sqrt(),
                false => 100.0 * s.right as f64 / s.n as f64,
            };
            scores.line(&format!("\"{label}\",{},{},{value},{}", s.time, s.n, s.loss))?;
        }
        if !open && live.rows() - last >= args.checkpoint_every {
            last = live.rows();
            put_aside(lock.as_ref(), (&live, &steps), &mut scores)?;
        }
        progress.show(&live, !steps.regress());
    }
    progress.end();
    if !open {
        put_aside(lock.as_ref(), (&live, &steps), &mut scores)?;
    } else if standard && lock.is_some() {
        files::remark(
            "note: standard input ends within a row, which is scored but not in the checkpoint; send all of it again to the run that goes on",
        );
    }
    scores.sync()?;
    if live.tally().steps == 0 {
        let why = match live.tally().unlabelled < live.rows() {
            true => "all labels are the same: there is nothing to learn",
            false => "no row has a label, so nothing was learnt",
        };
        return Err(Failure::data(format!("{name}: {why}")));
    }
    let runs = [Run { name: label, tally: live.tally().clone() }];
    let classes = live.labels();
    let shares = show::shares(live.follower());
    match args.json {
        true => files::print(&format!("{}\n", show::summary_json(&runs, &classes)))?,
        false => files::print(&(show::summary(&runs, &classes) + &shares))?,
    }
    let note = format!("{} rows; predicted first, learnt afterwards.", live.rows());
    args.plot.write(&note, || show::figure(&runs, &classes, title(args, setup)))?;
    if let Some(path) = &args.save {
        Saved::write(live.follower(), setup, &classes, path).map_err(Failure::other)?;
    }
    Ok(())
}

/// Asked to end after so many rows.
fn asked(rows: u64) -> Failure {
    Failure::interrupted(format!("asked to end after {rows} rows"))
}

/// A failure, unless it comes of being asked to end.
fn asked_or(stop: &AtomicBool, error: AdaptError, rows: u64) -> Failure {
    match stop.load(Ordering::Relaxed) {
        true => asked(rows),
        false => error.into(),
    }
}

/// Scores on disk first, then the checkpoint, at once: killed at any moment, a run goes on from a whole one.
fn put_aside(
    lock: Option<&Lock>,
    (live, steps): (&Live, &TableSteps),
    scores: &mut Scores,
) -> Result<(), Failure> {
    scores.sync()?;
    let Some(lock) = lock else { return Ok(()) };
    let kept = Kept { scores: scores.end()?, trail: steps.trail(live.rows()), live: live.save()? };
    lock.replace(&checkpoint::save(KIND, &kept).map_err(Failure::other)?)
}

/// Rows and how well they are predicted, in a line on the terminal.
struct ScoreLine {
    on: bool,
    last: Instant,
    count: u32,
}

impl ScoreLine {
    fn new(quiet: bool) -> Self {
        let on = !quiet && std::io::stderr().is_terminal();
        Self { on, last: Instant::now(), count: 0 }
    }

    fn show(&mut self, live: &Live, classes: bool) {
        self.count = self.count.wrapping_add(1);
        if !self.on
            || !self.count.is_multiple_of(256)
            || self.last.elapsed() < Duration::from_millis(300)
        {
            return;
        }
        self.last = Instant::now();
        let (level, what) = (live.tally().level(classes), if classes { "% right" } else { "RMSE" });
        let _ = write!(std::io::stderr(), "\r{} rows, {level:.2} {what}   ", live.rows());
    }

    fn end(&self) {
        if self.on {
            let _ = write!(std::io::stderr(), "\r{:40}\r", "");
        }
    }
}

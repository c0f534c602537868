//! `optfilter adapt` on a stream that need not fit in memory: a table read as it comes, from a file or from standard input.

use super::show::{self, Run};
use super::{Args, Task};
use crate::failure::Failure;
use crate::files;
use optfilter_model::table::{Format, Source};
use optfilter_nn::adapt::{CsvOptions, Live, Saved, Setup, Step, TableSteps};
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Files beyond this size are read as they come without being asked to.
const LARGE: u64 = 64 << 20;

/// Whether the table is to be read as it comes.
pub fn wanted(args: &Args) -> bool {
    let npz = args.data.extension().is_some_and(|e| e.eq_ignore_ascii_case("npz"));
    let large = || !npz && std::fs::metadata(&args.data).is_ok_and(|m| m.len() > LARGE);
    let alone = !args.tune && !args.compare && !args.follow && args.pretrain.is_none_or(|p| p == 0);
    files::is_standard(&args.data)
        || args.stream
        || args.delay.is_some()
        || args.checkpoint.is_some()
        || (alone && large())
}

/// The file of scores, which goes on where a checkpoint left it.
struct Scores {
    file: Option<std::io::BufWriter<File>>,
    path: String,
    written: u64,
}

impl Scores {
    fn open(path: Option<&Path>, resumed: Option<u64>, head: &str) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(Self { file: None, path: String::new(), written: 0 });
        };
        let name = path.display().to_string();
        let failed = |e: std::io::Error| Failure::write(&name, &e);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(resumed.is_none());
        let mut file = options.open(path).map_err(failed)?;
        if let Some(length) = resumed {
            // What was written after the checkpoint will be written again.
            file.set_len(length).map_err(failed)?;
            file.seek(SeekFrom::Start(length)).map_err(failed)?;
        }
        let mut scores = Self {
            file: Some(std::io::BufWriter::new(file)),
            path: name.clone(),
            written: resumed.unwrap_or(0),
        };
        if resumed.is_none() {
            scores.line(head)?;
        }
        Ok(scores)
    }

    fn line(&mut self, text: &str) -> Result<(), Failure> {
        if let Some(file) = &mut self.file {
            writeln!(file, "{text}").map_err(|e| Failure::write(&self.path, &e))?;
            self.written += text.len() as u64 + 1;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let synced = file.flush().and_then(|()| file.get_ref().sync_data());
        synced.map_err(|e| Failure::write(&self.path, &e))
    }
}

/// A checkpoint: how long the file of scores was, and the follower.
fn read_checkpoint(path: &Path) -> Result<Option<(u64, Vec<u8>)>, Failure> {
    match std::fs::read(path) {
        Ok(bytes) => match bytes.split_first_chunk::<8>() {
            Some((length, rest)) => Ok(Some((u64::from_le_bytes(*length), rest.to_vec()))),
            None => Err(Failure::data(format!("{}: no checkpoint of adapt", path.display()))),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Failure::data(format!("{}: {e}", path.display()))),
    }
}

/// Follows the stream to its end.
pub fn run(args: &Args, setup: &Setup, known: Option<&[String]>) -> Result<(), Failure> {
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
    let standard = files::is_standard(&args.data);
    let name = files::display(&args.data);
    let (source, format) = match standard {
        true => (Source::Stream(Box::new(std::io::stdin())), Format::Csv),
        false => {
            let file = File::open(&args.data).map_err(|e| Failure::data(format!("{name}: {e}")))?;
            (Source::File(file), Format::of_path(&args.data).unwrap_or(Format::Csv))
        }
    };
    let options = CsvOptions {
        label: args.label.clone(),
        time: args.time.clone(),
        every: args.every,
        ignore: args.ignore.clone(),
        regress: args.task.map(|t| matches!(t, Task::Regress)),
    };
    let mut steps = TableSteps::open(source, format, &name, &options)?;
    steps.know(known.unwrap_or_default());
    let delay = args.delay.unwrap_or(0);
    let weights = match &args.weights {
        Some(path) => {
            let plain =
                Setup { method: optfilter_nn::adapt::WeightMethod::Static, ..setup.clone() };
            let (n, regress) = (steps.features(), steps.regress());
            let probe = Live::new(n, regress, &plain, None, known.unwrap_or_default(), 0)?;
            let read = optfilter_nn::safetensors::load(probe.follower().network(), path);
            Some(read.map_err(|e| Failure::data(format!("{}: {e}", path.display())))?)
        }
        None => None,
    };
    let names = steps.names().to_vec();
    let mut live = Live::new(steps.features(), steps.regress(), setup, weights, &names, delay)?;
    let mut resumed = None;
    if let Some(path) = &args.checkpoint
        && let Some((length, bytes)) = read_checkpoint(path)?
    {
        live.load(&bytes)?;
        let known = live.names().to_vec();
        steps.know(&known);
        if (!standard || args.skip) && !steps.skip(live.rows())? {
            return Err(Failure::data(format!(
                "{name} has fewer rows than the {} that the checkpoint has seen",
                live.rows()
            )));
        }
        files::remark(&format!("going on after {} rows", live.rows()));
        resumed = Some(length);
    }
    let score = if steps.regress() { "rmse" } else { "accuracy" };
    let head = format!("method,time,n,{score},loss");
    let mut scores = Scores::open(args.csv.as_deref(), resumed, &head)?;
    let label = setup.label();
    let mut progress = Progress::new(args.json);
    let mut last = live.rows();
    let mut step = Step::default();
    while steps.next(&mut step)? {
        if let Some(s) = live.step(&step, steps.names())?
            && scores.file.is_some()
        {
            let value = match steps.regress() {
                true => (s.squared_error / s.n as f64).sqrt(),
                false => 100.0 * s.right as f64 / s.n as f64,
            };
            scores.line(&format!("\"{label}\",{},{},{value},{}", s.time, s.n, s.loss))?;
        }
        if live.rows() - last >= args.checkpoint_every {
            last = live.rows();
            checkpoint(args, &live, &mut scores)?;
        }
        progress.show(&live, !steps.regress());
    }
    progress.end();
    checkpoint(args, &live, &mut scores)?;
    if live.tally().steps == 0 {
        return Err(Failure::data(format!("{name}: no row has a label, so nothing was learnt")));
    }
    let runs = [Run { name: label, tally: live.tally().clone() }];
    let classes = live.labels();
    let shares = show::shares(live.follower());
    match args.json {
        true => files::print(&format!("{}\n", show::summary_json(&runs, &classes)))?,
        false => files::print(&(show::summary(&runs, &classes) + &shares))?,
    }
    let note = format!("{} rows; predicted first, learnt afterwards.", live.rows());
    args.plot.write(&note, || show::figure(&runs, &classes, super::title(args, setup)))?;
    if let Some(path) = &args.save {
        Saved::write(live.follower(), setup, &classes, path).map_err(Failure::other)?;
    }
    Ok(())
}

/// Scores on disk first, then the checkpoint, at once: killed at any moment, a run goes on from a whole one.
fn checkpoint(args: &Args, live: &Live, scores: &mut Scores) -> Result<(), Failure> {
    scores.flush()?;
    let Some(path) = &args.checkpoint else { return Ok(()) };
    let bytes = [&scores.written.to_le_bytes()[..], &live.save()?].concat();
    files::replace_atomically(path, &bytes)
        .map_err(|e| Failure::write(&path.display().to_string(), &e))
}

/// A line on the terminal that says how far it is.
struct Progress {
    on: bool,
    last: Instant,
    count: u32,
}

impl Progress {
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

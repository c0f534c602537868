//! `optfilter adapt`: keep a network up to date on a drifting stream of labelled samples.
//!
//! Each time step is predicted first and learnt from afterwards, so every score is one of foresight. `--compare` runs
//! static weights and direct fit beside the chosen method; `--tune` chooses K and the learning rate on the first part of
//! the stream; without any setting a bank of them is kept (`--auto`). A table from standard input, or with `--stream`, `--delay` or
//! `--checkpoint`, is read as it comes (`live.rs`); `--follow` goes on with JSON lines from standard input, one answer per line.

mod args;
mod live;
mod pipe;
mod scores;
mod serve;
mod settings;
mod show;

pub use args::Args;

use crate::failure::Failure;
use crate::files;
use args::{Task, title};
use optfilter_nn::adapt::{
    AdaptError, CsvOptions, Follower, Labels, Saved, Score, Setup, Stream, Tally, WeightMethod,
    prequential, prequential_into, read_csv, read_npz, tune_rolling,
};
use optfilter_nn::safetensors;
use settings::setup;
use show::Run;

impl From<AdaptError> for Failure {
    fn from(e: AdaptError) -> Self {
        match &e {
            AdaptError::Diverged { .. } => Self { code: 4, message: e.to_string() },
            AdaptError::Checkpoint(_) => Self::other(e),
            AdaptError::File { .. }
            | AdaptError::MissingLabel { .. }
            | AdaptError::Npz(_)
            | AdaptError::Data(_) => Self::data(e),
            AdaptError::Network(_) | AdaptError::Optimizer(_) | AdaptError::Setting(_) => {
                Self::usage(e)
            }
            _ => Self::other(e),
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let outputs = [
        ("--csv", &args.csv),
        ("--plot", &args.plot.path),
        ("--save", &args.save),
        ("--checkpoint", &args.checkpoint),
    ];
    let outputs: Vec<_> = outputs.iter().filter_map(|(f, p)| Some((*f, p.as_deref()?))).collect();
    files::check_outputs(&[&args.data], &outputs)?;
    args.plot.check()?;
    let saved = args.weights.as_deref().map(Saved::read).transpose()?.flatten();
    if args.every == Some(0) {
        return Err(Failure::usage("--every needs at least one row"));
    }
    if live::wanted(&args) {
        let setup = setup(&args, saved.as_ref().map(|s| s.setup.clone()))?;
        return live::run(&args, &setup, saved.as_ref());
    }
    let stream = match read(&args, saved.as_ref()) {
        Err(AdaptError::MissingLabel { path, reason }) if live::possible(&args) => {
            files::remark(&format!(
                "{path}: {reason}; it is read as a stream (--stream): features are scaled as it goes, nothing is pre-trained on"
            ));
            let setup = setup(&args, saved.as_ref().map(|s| s.setup.clone()))?;
            return live::run(&args, &setup, saved.as_ref());
        }
        read => read?,
    };
    let setup = setup(&args, saved.map(|s| s.setup))?;
    let weights = match &args.weights {
        Some(path) => {
            let probe = Follower::new(
                &stream,
                &Setup { method: WeightMethod::Static, pretrain: 0, ..setup.clone() },
                None,
            )?;
            Some(
                safetensors::load_classes(probe.network(), probe.classes(), path)
                    .map_err(|e| Failure::data(format!("{}: {e}", path.display())))?,
            )
        }
        None => None,
    };
    describe(&stream);

    let first = setup.pretrain;
    if args.tune {
        if !matches!(setup.method, WeightMethod::ImplicitMap { .. }) {
            return Err(Failure::usage("--tune chooses K and the learning rate of --method imap"));
        }
        return tuned(&args, &stream, &setup, weights.as_ref());
    }

    // The steps before `first` are learnt from but not judged, by every method alike.
    let follow_one = |setup: &Setup| -> Result<(Follower, Run, Vec<Score>), Failure> {
        let mut follower = Follower::new(&stream, setup, weights.clone())?;
        let start = follower.first();
        prequential(&mut follower, &stream, start..first)?;
        let mut tally = Tally::default();
        let scores = prequential_into(&mut follower, &stream, first..stream.steps(), &mut tally)?;
        Ok((follower, Run { name: setup.label(), tally }, scores))
    };
    let (follower, run, scores) = follow_one(&setup)?;
    if run.tally.steps == 0 && first < stream.steps() {
        let name = files::display(&args.data);
        let reason = "all labels are the same: there is nothing to learn";
        return Err(Failure::data(format!("{name}: {reason}")));
    }
    let mut csv = show::csv_head(stream.labels());
    show::csv(&mut csv, &run.name, &scores, stream.labels());
    let mut runs = vec![run];
    if args.compare {
        for other in [WeightMethod::Static, WeightMethod::DirectFit] {
            if other != setup.method {
                // The rate of variational Newton steps is none of an optimizer.
                let own = matches!(setup.method, WeightMethod::Ivon { .. }) && args.lr.is_none();
                let lr = if own { Setup::default().lr } else { setup.lr };
                let setup = Setup { method: other, lr, ..setup.clone() };
                let (_, run, scores) = follow_one(&setup)?;
                show::csv(&mut csv, &run.name, &scores, stream.labels());
                runs.push(run);
            }
        }
    }
    if args.json {
        files::print(&format!("{}\n", show::summary_json(&runs, stream.labels())))?;
    } else {
        files::print(&(show::summary(&runs, stream.labels()) + &show::shares(&follower)))?;
    }
    if let Some(path) = &args.csv {
        files::write(path, csv)?;
    }
    let (samples, steps) = (stream.len(), stream.steps());
    let note =
        format!("{samples} samples in {steps} time steps; predicted first, learnt afterwards.");
    args.plot.write(&note, || show::figure(&runs, stream.labels(), title(&args, &setup)))?;
    if let Some(path) = &args.save {
        Saved::write(&follower, &setup, stream.labels(), path).map_err(Failure::other)?;
    }
    if args.follow {
        let mut follower = follower.carefully();
        serve::serve(&mut follower, &stream)?;
        if let Some(path) = &args.save {
            Saved::write(&follower, &setup, stream.labels(), path).map_err(Failure::other)?;
        }
    }
    Ok(())
}

/// `--tune`: K and the learning rate are chosen again and again, each time by the window of time steps before.
fn tuned(
    args: &Args,
    stream: &Stream,
    setup: &Setup,
    weights: Option<&Vec<f32>>,
) -> Result<(), Failure> {
    if args.compare || args.follow || args.save.is_some() {
        return Err(Failure::usage(
            "--tune says what would have been chosen when; --compare, --follow and --save belong to a run with settings of its own",
        ));
    }
    let steps = setup.pretrain..stream.steps();
    if steps.len() < 2 {
        return Err(Failure::data("there are too few time steps to choose anything by"));
    }
    let rates = [1e1, 3e0, 1e0, 3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4];
    // Plain gradients bear larger rates than rules that bring them to one size.
    let rates = if setup.optimizer == "gd" { &rates[..] } else { &rates[3..] };
    let rolling = tune_rolling(stream, setup, weights, steps, (&[1, 3, 10, 30], rates), 10)?;
    if !rolling.next.loss.is_finite() {
        return Err(Failure { code: 4, message: "every configuration diverged".into() });
    }
    let name = format!("chosen by the window before, {}", setup.optimizer);
    let mut csv = show::csv_head(stream.labels());
    show::csv(&mut csv, &name, &rolling.scores, stream.labels());
    let runs = [Run { name, tally: rolling.tally.clone() }];
    match args.json {
        true => {
            let mut summary = show::summary_json(&runs, stream.labels());
            show::rolling_json(&rolling, &mut summary);
            files::print(&format!("{summary}\n"))?;
        }
        false => files::print(&(show::rolling(&rolling) + &show::summary(&runs, stream.labels())))?,
    }
    if let Some(path) = &args.csv {
        files::write(path, csv)?;
    }
    let note = "Ten windows; each with the settings that were best in the one before.".to_owned();
    args.plot.write(&note, || show::figure(&runs, stream.labels(), title(args, setup)))
}

/// The stream, with the classes that the weights know.
fn read(args: &Args, saved: Option<&Saved>) -> Result<Stream, AdaptError> {
    let stream = read_file(args, saved.map(|s| s.classes.is_none()))?;
    match saved.and_then(|s| s.classes.as_ref()) {
        Some(known) => stream.with_classes(known),
        None => Ok(stream),
    }
}

fn read_file(args: &Args, usual: Option<bool>) -> Result<Stream, AdaptError> {
    let regress = args.task.map(|t| matches!(t, Task::Regress)).or(usual);
    if args.data.extension().is_some_and(|e| e.eq_ignore_ascii_case("npz")) {
        return read_npz(&args.data, args.every, regress);
    }
    let options = CsvOptions {
        label: args.label.clone(),
        time: args.time.clone(),
        every: args.every,
        ignore: args.ignore.clone(),
        regress,
    };
    read_csv(&args.data, &options)
}

fn describe(stream: &Stream) {
    let labels = match stream.labels() {
        Labels::Classes { names, .. } => format!("classes {}", names.join(", ")),
        Labels::Values(_) => "numbers to predict".into(),
    };
    let (samples, shape, steps) = (stream.len(), stream.shape(), stream.steps());
    files::remark(&format!("{samples} samples of {shape} in {steps} time steps; {labels}"));
}

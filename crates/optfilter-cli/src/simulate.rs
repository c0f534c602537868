//! `optfilter simulate`: states and measurements drawn from a model.

use crate::failure::Failure;
use crate::files::{self, FormatName};
use optfilter_model::table::{Format, OutputColumn};
use std::io::Write;
use std::path::PathBuf;

/// Draw states and measurements from a model
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  optfilter simulate lorenz63 --steps 1000 --seed 1 --out data.csv
  optfilter simulate model.toml --steps 200 --missing 0.1 | optfilter filter model.toml -

The first row is a draw of the initial belief. States are written under their names and observations under theirs, so \
the file is ready for `optfilter filter`, and for `optfilter tune --truth`.")]
pub struct Args {
    /// Model file (TOML), or the name of a built-in system
    model: PathBuf,
    /// Rows
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Seed; the same seed gives the same rows
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Move the draw of the initial belief by one step before the first row
    #[arg(long)]
    predict_first: bool,
    /// Fraction of measurements to leave out
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    missing: f64,
    /// Where the rows go; `-` is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    /// Format of the rows [default: by the name of --out, else CSV]
    #[arg(long, value_name = "FORMAT")]
    out_format: Option<FormatName>,
    /// Print a summary as JSON to standard error
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    if !(0.0..=1.0).contains(&args.missing) {
        return Err(Failure::usage("--missing is a fraction between 0 and 1"));
    }
    files::check_outputs(&[&args.model], &[("--out", &args.out)])?;
    let (_, spec) = files::model(&args.model)?;
    // A trial row first: a model that cannot be simulated leaves an older file alone.
    if !spec.inputs.is_empty() {
        return Err(Failure::usage(format!(
            "the model reads inputs ({}), which cannot be simulated",
            spec.inputs.join(", ")
        )));
    }
    let first = args.predict_first || spec.filter.predict_first();
    spec.simulate(1, (args.seed, 0), first, &[], |_, _, _| true)?;
    let time = spec.time_column.clone().unwrap_or_else(|| "t".into());
    let mut columns = vec![OutputColumn::Time(time)];
    columns.extend(spec.states.iter().map(|n| OutputColumn::Number(n.clone())));
    for name in &spec.observations {
        let column = spec.column(name);
        if spec.states.iter().any(|s| s == column) {
            return Err(Failure::usage(format!(
                "state and observation are both called `{column}`; rename one to simulate"
            )));
        }
        columns.push(OutputColumn::Number(column.to_owned()));
    }
    let format = files::out_format(&args.out, args.out_format, Format::Csv)?;
    let name = args.out.display().to_string();
    let fail = |e| Failure::write_table(&name, &e);
    let (out, fresh): (Box<dyn Write + Send>, _) = if files::is_standard(&args.out) {
        (Box::new(std::io::stdout()), None)
    } else {
        let (file, fresh) = files::Fresh::create(&args.out)?;
        (Box::new(file), Some(fresh))
    };
    let mut writer = files::table_writer(out, &args.out, format, columns, false)?;
    let mut gaps = optfilter::rng::Stream::new(args.seed, 0, "missing measurements");
    let mut row = Vec::new();
    let mut wrong = None;
    spec.simulate(args.steps as usize, (args.seed, 0), first, &[], |step, x, y| {
        row.clear();
        row.push(step.time);
        row.extend_from_slice(x);
        row.extend(y.iter().map(|v| if gaps.uniform() < args.missing { f64::NAN } else { *v }));
        wrong = writer.row(&row, None).err();
        wrong.is_none()
    })?;
    if let Some(e) = wrong {
        return Err(fail(e));
    }
    writer.finish().map_err(fail)?;
    fresh.map_or(Ok(()), |f| f.keep()).map_err(|e| fail(e.into()))?;
    if args.json {
        let summary = serde_json::json!({ "rows": args.steps, "seed": args.seed, "out": name });
        let _ = writeln!(std::io::stderr(), "{summary}");
    }
    Ok(())
}

//! How tables are read, by flags: declared and explained once for every command that reads one.

use crate::failure::Failure;
use crate::feed;
use crate::files::{self, FormatName};
use crate::plot::PlotFlags;
use crate::settings::FilterFlags;
use crate::whole::{Source, Whole};
use optfilter_model::ModelSpec;
use optfilter_model::table::TimeStyle;
use std::path::{Path, PathBuf};

/// Flags of the commands that read a table.
#[derive(clap::Args, Clone)]
pub struct ReadingFlags {
    /// Column with the time; it may be irregular [default: the model file's]
    #[arg(long, value_name = "COLUMN")]
    pub time: Option<String>,
    /// How times are written, in the manner of strftime, as "%d.%m.%Y %H:%M" [default: the model file's, else ISO 8601]
    #[arg(long, value_name = "FORMAT")]
    date_format: Option<String>,
    /// Times are numbers of this unit since 1970: second, millisecond, microsecond or nanosecond [default: the model file's,
    /// else times are in the model's own unit]
    #[arg(long, value_name = "UNIT", value_parser = TimeStyle::EPOCHS.map(|(name, _)| name))]
    epoch: Option<String>,
    /// Format of the data [default: by its name, else CSV]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<FormatName>,
}

impl ReadingFlags {
    /// The text of a model and what it says, with what these flags say in place of it.
    pub fn model(&self, path: &Path) -> Result<(String, ModelSpec), Failure> {
        let (text, mut spec) = files::model(path)?;
        if let Some(pattern) = &self.date_format {
            TimeStyle::check_pattern(pattern)
                .map_err(|why| Failure::usage(format!("--date-format {pattern:?}: {why}")))?;
            spec.time_style.pattern = Some(pattern.clone());
        }
        if let Some(name) = &self.epoch {
            spec.time_style.epoch =
                TimeStyle::EPOCHS.iter().find(|(n, _)| n == name).map(|(_, unit)| *unit);
        }
        Ok((text, spec))
    }

    /// Series to be read from tables: one in each, unless the source is told of a column that names them.
    pub fn source<'a>(&'a self, tables: &'a [PathBuf], predict_first: bool) -> Source<'a> {
        Source {
            tables,
            format: self.format,
            time: self.time.as_deref(),
            by: None,
            truth: &[],
            predict_first,
        }
    }

    /// The one series of a table.
    pub fn one_series(
        &self,
        path: &Path,
        spec: &ModelSpec,
        truth: &[(String, String)],
        predict_first: bool,
    ) -> Result<Whole, Failure> {
        let tables = feed::expand(&[path.to_owned()])?;
        let mut series = Source { truth, ..self.source(&tables, predict_first) }.read(spec)?;
        match (series.pop(), series.is_empty()) {
            (Some(only), true) => Ok(only),
            _ => Err(Failure::usage(format!(
                "{} holds several series, and this command looks at one; give one table",
                path.display()
            ))),
        }
    }
}

/// A model and the tables with its measurements: what the commands that take any number of series share.
#[derive(clap::Args, Clone)]
pub struct SeriesFlags {
    /// Model file (TOML), or the name of a built-in system
    pub model: PathBuf,
    /// Table with the measurements, or several, or a folder of them, one series each; `-` is standard input
    #[arg(required = true)]
    pub data: Vec<PathBuf>,
    /// Column with the name of each row's series; rows may come in any order
    #[arg(long, value_name = "COLUMN")]
    pub by: Option<String>,
    #[command(flatten)]
    pub reading: ReadingFlags,
}

impl SeriesFlags {
    /// The text of the model and what it says. Model and data cannot both come from standard input.
    pub fn model(&self) -> Result<(String, ModelSpec), Failure> {
        if files::is_standard(&self.model) && self.data.iter().any(|path| files::is_standard(path))
        {
            return Err(Failure::usage("model and data cannot both be standard input"));
        }
        self.reading.model(&self.model)
    }

    /// The series to be read from these tables, which DATA stands for.
    pub fn source<'a>(&'a self, tables: &'a [PathBuf], predict_first: bool) -> Source<'a> {
        Source { by: self.by.as_deref(), ..self.reading.source(tables, predict_first) }
    }
}

/// A model, one series and a filter: what the commands that look at a filter share.
#[derive(clap::Args)]
pub struct LookFlags {
    /// Model file (TOML), or the name of a built-in system
    pub model: PathBuf,
    /// Table with the measurements; `-` is standard input
    pub data: PathBuf,
    #[command(flatten)]
    pub reading: ReadingFlags,
    #[command(flatten)]
    pub plot: PlotFlags,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub filter: FilterFlags,
}

impl LookFlags {
    /// Reads the model and checks that the picture goes over nothing that is read.
    pub fn check(&self) -> Result<ModelSpec, Failure> {
        if files::is_standard(&self.model) && files::is_standard(&self.data) {
            return Err(Failure::usage("model and data cannot both be standard input"));
        }
        let outputs: Vec<_> = self.plot.path.iter().map(|p| ("--plot", p.as_path())).collect();
        files::check_outputs(&[&self.model, &self.data], &outputs)?;
        self.plot.check()?;
        Ok(self.reading.model(&self.model)?.1)
    }

    /// The series of the table.
    pub fn series(
        &self,
        spec: &ModelSpec,
        truth: &[(String, String)],
        predict_first: bool,
    ) -> Result<Whole, Failure> {
        self.reading.one_series(&self.data, spec, truth, predict_first)
    }
}

//! A model, a table and where its results go: what the commands that answer a table with a table share.

use crate::dates::DateFlags;
use crate::failure::Failure;
use crate::feed;
use crate::files::{self, FormatName};
use crate::plot::PlotFlags;
use crate::settings::FilterFlags;
use crate::whole::Source;
use optfilter_model::ModelSpec;
use optfilter_model::table::Format;
use optfilter_run::FilterSpec;
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Flags of the commands that answer a table with a table.
#[derive(clap::Args, Clone)]
pub struct TableFlags {
    /// Model file (TOML), or the name of a built-in system
    pub model: PathBuf,
    /// Table with the measurements, or several, or a folder of them, one series each; `-` is standard input
    #[arg(required = true)]
    pub data: Vec<PathBuf>,
    /// Column with the name of each row's series: every series is taken by itself, and rows may come in any order
    #[arg(long, value_name = "COLUMN")]
    pub by: Option<String>,
    #[command(flatten)]
    pub filter: FilterFlags,
    /// Where the results go; `-` is standard output, FOLDER/ has a table for each table
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub out: PathBuf,
    /// Format of the results [default: by the name of --out, else that of the data]
    #[arg(long, value_name = "FORMAT")]
    pub out_format: Option<FormatName>,
    /// Format of the data [default: by its name, else CSV]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<FormatName>,
    #[command(flatten)]
    pub plot: PlotFlags,
    /// Column with the time; it may be irregular [default: the model file's]
    #[arg(long, value_name = "COLUMN")]
    pub time: Option<String>,
    #[command(flatten)]
    pub dates: DateFlags,
    /// Whether this is one table of several whose results go into a folder.
    #[arg(skip)]
    one_of_several: bool,
}

/// What the flags ask for, checked before anything is read of the table.
pub struct Asked {
    pub spec: ModelSpec,
    pub filter: FilterSpec,
    pub format: Format,
    pub out_format: Format,
    /// The tables that DATA stands for.
    pub tables: Vec<PathBuf>,
    /// Whether rows belong to several series.
    pub many: bool,
}

impl TableFlags {
    /// These flags; or, where the results go into a folder, those of each table, which then stands alone.
    pub fn each(&self) -> Result<Vec<Self>, Failure> {
        if !files::is_folder(&self.out) {
            return Ok(vec![self.clone()]);
        }
        let tables = feed::expand(&self.data)?;
        if tables.iter().any(|path| files::is_standard(path)) {
            return Err(Failure::usage(
                "--out: standard input has no name to be called by in a folder",
            ));
        }
        if self.plot.path.is_some() && tables.len() > 1 {
            return Err(Failure::usage("--plot is for one series; draw one table at a time"));
        }
        let mut seen = HashSet::new();
        let mut out = Vec::with_capacity(tables.len());
        for path in tables {
            let name = path.file_name().unwrap_or_default();
            if !seen.insert(name.to_owned()) {
                let message = format!(
                    "--out: two tables are called {}; leave the folder to tables of different names",
                    name.display()
                );
                return Err(Failure::usage(message));
            }
            let mut to = self.out.join(name);
            if let Some(format) = self.out_format {
                to.set_extension(format.ending());
            }
            out.push(Self { data: vec![path], out: to, one_of_several: true, ..self.clone() });
        }
        let name = self.out.display().to_string();
        std::fs::create_dir_all(&self.out).map_err(|e| Failure::write(&name, &e))?;
        Ok(out)
    }

    /// Reads the model and checks that nothing is overwritten that is read; `also` are further files to be written.
    pub fn check(&self, also: &[(&'static str, Option<&Path>)]) -> Result<Asked, Failure> {
        if files::is_standard(&self.model) && self.data.iter().any(|path| files::is_standard(path))
        {
            return Err(Failure::usage("model and data cannot both be standard input"));
        }
        let tables = feed::expand(&self.data)?;
        let own = [("--out", Some(self.out.as_path())), ("--plot", self.plot.path.as_deref())];
        let outputs: Vec<_> =
            own.iter().chain(also).filter_map(|(flag, path)| path.map(|p| (*flag, p))).collect();
        let inputs: Vec<&Path> =
            std::iter::once(&self.model).chain(&tables).map(PathBuf::as_path).collect();
        files::check_outputs(&inputs, &outputs)?;
        self.plot.check()?;
        let (_, mut spec) = files::model(&self.model)?;
        self.dates.apply(&mut spec)?;
        let filter = self.filter.filter(&spec)?;
        let format = tables.first().map_or(Format::Csv, |path| files::format(path, self.format));
        // What is no text is written only where it is asked for.
        let other = if format.is_text() { format } else { Format::Csv };
        let out_format = files::out_format(&self.out, self.out_format, other)?;
        let layout = {
            let (time, by) = (self.time.as_deref(), self.by.as_deref());
            feed::layout(&spec, time, by, (&tables, self.format))?
        };
        let many = layout.by.is_some();
        if many && out_format == Format::Npy {
            return Err(Failure::usage("an .npy file has no names of series; write .npz"));
        }
        if many && self.plot.path.is_some() {
            return Err(Failure::usage(
                "--plot is for one series; it goes neither with --by nor with several tables",
            ));
        }
        Ok(Asked { spec, filter, format, out_format, tables, many })
    }

    /// The series to be read for what was asked.
    pub fn source<'a>(&'a self, asked: &'a Asked) -> Source<'a> {
        Source {
            tables: &asked.tables,
            format: self.format,
            time: self.time.as_deref(),
            by: self.by.as_deref(),
            truth: &[],
            predict_first: asked.filter.predict_first(),
        }
    }

    /// A summary, under the name of its table if that is one of several.
    pub fn titled(&self, text: String) -> String {
        match (self.one_of_several, self.data.first()) {
            (true, Some(path)) => format!("{}: {text}", path.display()),
            _ => text,
        }
    }

    /// Prints a summary as JSON where the results are not: on standard output if they go to a file, else on standard error.
    pub fn say_json(&self, summary: &serde_json::Value) -> Result<(), Failure> {
        let mut summary = summary.clone();
        if let (true, Some(path)) = (self.one_of_several, self.data.first()) {
            summary["file"] = path.display().to_string().into();
        }
        let line = format!("{summary}\n");
        if files::is_standard(&self.out) {
            let _ = std::io::stderr().write_all(line.as_bytes());
            return Ok(());
        }
        files::print(&line)
    }
}

//! A model, a table and where its results go: what the commands that answer a table with a table share.

use crate::failure::Failure;
use crate::feed;
use crate::files::{self, FormatName};
use crate::plot::PlotFlags;
use crate::reading::SeriesFlags;
use crate::settings::FilterFlags;
use crate::whole::Source;
use optfilter_model::ModelSpec;
use optfilter_model::run::{Layout, Prepared};
use optfilter_model::table::Format;
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Flags of the commands that answer a table with a table.
#[derive(clap::Args, Clone)]
pub struct TableFlags {
    #[command(flatten)]
    pub series: SeriesFlags,
    /// Where the results go; `-` is standard output, FOLDER/ has a table for each table
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub out: PathBuf,
    /// Format of the results [default: by the name of --out, else that of the data]
    #[arg(long, value_name = "FORMAT")]
    pub out_format: Option<FormatName>,
    #[command(flatten)]
    pub plot: PlotFlags,
    /// Whether this is one table of several whose results go into a folder.
    #[arg(skip)]
    one_of_several: bool,
    // Last, since it opens a section of the help.
    #[command(flatten)]
    pub filter: FilterFlags,
}

/// What the flags ask for, checked before anything is read of the table.
pub struct Asked {
    pub prepared: Prepared,
    pub format: Format,
    pub out_format: Format,
    /// Whether that is the format of the data, as nothing else was told.
    pub as_data: bool,
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
        let tables = feed::expand(&self.series.data)?;
        if tables.iter().any(|path| files::is_standard(path)) {
            return Err(Failure::usage(
                "--out: standard input has no name to be called by in a folder",
            ));
        }
        if self.plot.path.is_some() && tables.len() > 1 {
            self.readable(&tables)?;
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
            let series = SeriesFlags { data: vec![path], ..self.series.clone() };
            out.push(Self { series, out: to, one_of_several: true, ..self.clone() });
        }
        let name = self.out.display().to_string();
        std::fs::create_dir_all(&self.out).map_err(|e| Failure::write(&name, &e))?;
        Ok(out)
    }

    /// Reads the model and checks that nothing is overwritten that is read; `also` are further files to be written.
    pub fn check(&self, also: &[(&'static str, Option<&Path>)]) -> Result<Asked, Failure> {
        let tables = feed::expand(&self.series.data)?;
        let own = [("--out", Some(self.out.as_path())), ("--plot", self.plot.path.as_deref())];
        let outputs: Vec<_> =
            own.iter().chain(also).filter_map(|(flag, path)| path.map(|p| (*flag, p))).collect();
        let inputs: Vec<&Path> =
            std::iter::once(&self.series.model).chain(&tables).map(PathBuf::as_path).collect();
        files::check_outputs(&inputs, &outputs)?;
        self.plot.check()?;
        let (_, spec) = self.series.model()?;
        let prepared = self.filter.prepare(spec)?;
        let format = tables.first().map_or(Format::Csv, |path| files::format(path, self.format()));
        // What is no text is written only where it is asked for.
        let other = if format.is_text() { format } else { Format::Csv };
        let out_format = files::out_format(&self.out, self.out_format, other)?;
        let as_data = self.out_format.is_none() && Format::of_path(&self.out).is_none();
        let layout = self.layout(&prepared.spec, &tables)?;
        let many = layout.by.is_some();
        if many && out_format == Format::Npy {
            return Err(Failure::usage("an .npy file has no names of series; write .npz"));
        }
        if many && self.plot.path.is_some() {
            self.readable(&tables)?;
            return Err(Failure::usage(
                "--plot is for one series; it goes neither with --by nor with several tables",
            ));
        }
        Ok(Asked { prepared, format, out_format, as_data, tables, many })
    }

    /// What cannot be read is said before what cannot be done with it.
    fn readable(&self, tables: &[PathBuf]) -> Result<(), Failure> {
        tables.iter().try_for_each(|path| files::columns(path, self.format()).map(drop))
    }

    /// The format of the data, as told.
    pub fn format(&self) -> Option<FormatName> {
        self.series.reading.format
    }

    /// What the columns of these tables mean.
    pub fn layout(&self, spec: &ModelSpec, tables: &[PathBuf]) -> Result<Layout, Failure> {
        let SeriesFlags { by, reading, .. } = &self.series;
        feed::layout(spec, reading.time.as_deref(), by.as_deref(), (tables, reading.format))
    }

    /// The series to be read for what was asked.
    pub fn source<'a>(&'a self, asked: &'a Asked) -> Source<'a> {
        self.series.source(&asked.tables, asked.prepared.filter.predict_first())
    }

    /// A summary, under the name of its table if that is one of several.
    pub fn titled(&self, text: String) -> String {
        match (self.one_of_several, self.series.data.first()) {
            (true, Some(path)) => format!("{}: {text}", path.display()),
            _ => text,
        }
    }

    /// Prints a summary as JSON where the results are not: on standard output if they go to a file, else on standard error.
    pub fn say_json(&self, summary: &serde_json::Value) -> Result<(), Failure> {
        let mut summary = summary.clone();
        if let (true, Some(path)) = (self.one_of_several, self.series.data.first()) {
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

/// How a command that writes a table speaks of it.
#[derive(clap::Args, Clone)]
pub struct SummaryFlags {
    /// Print the summary as JSON (to standard output if --out is a file, else to standard error)
    #[arg(long)]
    pub json: bool,
    /// Print no summary
    #[arg(long, short)]
    pub quiet: bool,
}

impl SummaryFlags {
    /// Gives the summary as these flags say.
    pub fn say(
        &self,
        tables: &TableFlags,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> serde_json::Value,
    ) -> Result<(), Failure> {
        if self.json {
            return tables.say_json(&json());
        }
        if !self.quiet {
            let _ = std::io::stderr().write_all(tables.titled(text()).as_bytes());
        }
        Ok(())
    }
}

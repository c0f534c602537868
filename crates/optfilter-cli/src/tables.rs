//! A model, a table and where its results go: what the commands that answer a table with a table share.

use crate::failure::Failure;
use crate::files::{self, FormatName};
use crate::plot::PlotFlags;
use crate::settings::FilterFlags;
use optfilter_model::ModelSpec;
use optfilter_model::table::Format;
use optfilter_run::FilterSpec;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Flags of the commands that answer a table with a table.
#[derive(clap::Args)]
pub struct TableFlags {
    /// Model file (TOML), or the name of a built-in system
    pub model: PathBuf,
    /// Table with the measurements; `-` is standard input
    pub data: PathBuf,
    #[command(flatten)]
    pub filter: FilterFlags,
    /// Where the results go; `-` is standard output
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
}

/// What the flags ask for, checked before anything is read of the table.
pub struct Asked {
    pub spec: ModelSpec,
    pub filter: FilterSpec,
    pub format: Format,
    pub out_format: Format,
}

impl TableFlags {
    /// Reads the model and checks that nothing is overwritten that is read; `also` are further files to be written.
    pub fn check(&self, also: &[(&'static str, Option<&Path>)]) -> Result<Asked, Failure> {
        if files::is_standard(&self.model) && files::is_standard(&self.data) {
            return Err(Failure::usage("model and data cannot both be standard input"));
        }
        let own = [("--out", Some(self.out.as_path())), ("--plot", self.plot.path.as_deref())];
        let outputs: Vec<_> =
            own.iter().chain(also).filter_map(|(flag, path)| path.map(|p| (*flag, p))).collect();
        files::check_outputs(&[&self.model, &self.data], &outputs)?;
        self.plot.check()?;
        let (_, spec) = files::model(&self.model)?;
        let filter = self.filter.filter(&spec)?;
        let format = files::format(&self.data, self.format);
        // What is no text is written only where it is asked for.
        let other = if format.is_text() { format } else { Format::Csv };
        let out_format = files::out_format(&self.out, self.out_format, other)?;
        Ok(Asked { spec, filter, format, out_format })
    }

    /// Prints a summary as JSON where the results are not: on standard output if they go to a file, else on standard error.
    pub fn say_json(&self, summary: &serde_json::Value) -> Result<(), Failure> {
        let line = format!("{summary}\n");
        if files::is_standard(&self.out) {
            let _ = std::io::stderr().write_all(line.as_bytes());
            return Ok(());
        }
        files::print(&line)
    }
}

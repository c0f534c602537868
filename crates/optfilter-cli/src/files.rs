//! Opening things: model files, tables, `-`.

use crate::failure::Failure;
use optfilter_model::ModelSpec;
use optfilter_model::diagnostic::closest;
use optfilter_model::run::{Dataset, Layout};
use optfilter_model::table::{Format, Rows, Source, TableReader};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Whether a path means standard input or output.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Whether two paths are the same file.
pub fn same(a: &Path, b: &Path) -> bool {
    a == b || a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok() == Some(a))
}

/// Refuses to write over a file that is read, or twice to the same one. Standard input and output are no files.
pub fn check_outputs(inputs: &[&Path], outputs: &[(&str, &Path)]) -> Result<(), Failure> {
    for (i, (flag, path)) in outputs.iter().enumerate() {
        if is_standard(path) {
            continue;
        }
        let read = inputs.iter().any(|input| !is_standard(input) && same(input, path));
        if read || outputs[..i].iter().any(|(_, other)| same(other, path)) {
            let what = if read { "is read by this command" } else { "is written twice" };
            return Err(Failure::usage(format!(
                "{flag}: {} {what}; choose another name",
                path.display()
            )));
        }
    }
    Ok(())
}

/// A name for messages.
pub fn display(path: &Path) -> String {
    if is_standard(path) { "standard input".into() } else { path.display().to_string() }
}

/// The text of a model file, or the text that selects a built-in system of that name.
pub fn model_text(path: &Path) -> Result<String, Failure> {
    if is_standard(path) {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(|e| {
            Failure::usage(format!("cannot read the model from standard input: {e}"))
        })?;
        return Ok(text);
    }
    match std::fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes)
            .map_err(|_| Failure::usage(format!("{}: the model file is not text", path.display()))),
        Err(e) => {
            let name = path.to_string_lossy();
            if ModelSpec::built_ins().any(|(known, _)| known == name) {
                return Ok(format!("system = {name:?}\n"));
            }
            let near = closest(&name, ModelSpec::built_ins().map(|(known, _)| known));
            let hint = near.map_or(String::new(), |n| format!("; did you mean the system `{n}`?"));
            Err(Failure::usage(format!("cannot read the model {}: {e}{hint}", path.display())))
        }
    }
}

/// Reads and checks a model file.
pub fn model(path: &Path) -> Result<(String, ModelSpec), Failure> {
    let text = model_text(path)?;
    let spec = ModelSpec::parse(&display(path), &text).map_err(Failure::usage)?;
    Ok((text, spec))
}

/// A format by name, for flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FormatName {
    /// Comma-separated values.
    Csv,
    /// Tab-separated values.
    Tsv,
    /// One JSON object per line.
    Jsonl,
    /// Apache Parquet.
    Parquet,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Csv => Self::Csv,
            FormatName::Tsv => Self::Tsv,
            FormatName::Jsonl => Self::JsonLines,
            FormatName::Parquet => Self::Parquet,
        }
    }
}

/// The format of a file: as told, else by its name, else CSV.
pub fn format(path: &Path, told: Option<FormatName>) -> Format {
    told.map(Format::from).or_else(|| Format::of_path(path)).unwrap_or(Format::Csv)
}

/// Opens a table for reading.
pub fn table(
    path: &Path,
    told: Option<FormatName>,
    spec: &ModelSpec,
    layout: &Layout,
    more: &[optfilter_model::table::Wanted],
) -> Result<TableReader, Failure> {
    let source = if is_standard(path) {
        Source::Stream(Box::new(io::stdin()))
    } else {
        let fail = |e| Failure::data(format!("cannot read the data {}: {e}", path.display()));
        Source::File(File::open(path).map_err(fail)?)
    };
    let wanted: Vec<_> = layout.wanted(spec).into_iter().chain(more.iter().cloned()).collect();
    TableReader::open(source, format(path, told), |_| wanted)
        .map_err(|e| Failure::table(&display(path), &e))
}

/// A whole table in memory, with columns of true states where asked for.
pub fn dataset(
    path: &Path,
    told: Option<FormatName>,
    spec: &ModelSpec,
    time: Option<&str>,
    truth: &[(String, String)],
) -> Result<Dataset, Failure> {
    let layout = Layout::new(spec, time);
    let more: Vec<_> = truth
        .iter()
        .map(|(_, column)| optfilter_model::table::Wanted {
            column: column.clone(),
            kind: optfilter_model::table::ColumnKind::Measurement,
        })
        .collect();
    let mut reader = table(path, told, spec, &layout, &more)?;
    let mut all = Rows::default();
    while reader.read(&mut all, 1 << 16).map_err(|e| Failure::table(&display(path), &e))? {}
    if all.rows == 0 {
        return Err(Failure::data(format!("{}: the table has no rows", display(path))));
    }
    // The columns of the truth come last in each row; take them out of the way of the layout.
    let (width, extra) = (layout.width(), more.len());
    let mut plain = Rows { calendar: all.calendar, rows: all.rows, ..Rows::default() };
    let mut known = vec![f64::NAN; if extra == 0 { 0 } else { all.rows * spec.states.len() }];
    for row in 0..all.rows {
        let values = &all.values[row * (width + extra)..(row + 1) * (width + extra)];
        plain.values.extend_from_slice(&values[..width]);
        for (k, (state, _)) in truth.iter().enumerate() {
            if let Some(i) = spec.states.iter().position(|s| s == state) {
                known[row * spec.states.len() + i] = values[width + k];
            }
        }
    }
    let mut data = Dataset::new(spec, &layout, &plain)
        .map_err(|(row, before, after)| backwards(&display(path), row, before, after))?;
    data.truth = known;
    Ok(data)
}

/// Times that run backwards.
pub fn backwards(name: &str, row: u64, before: f64, after: f64) -> Failure {
    Failure::data(format!(
        "{name}: time runs backwards at row {row}: {after} after {before}; sort the table by time"
    ))
}

/// Writes a whole file (or standard output).
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    let bytes = content.as_ref();
    let done = if is_standard(path) {
        io::stdout().write_all(bytes).and_then(|()| io::stdout().flush())
    } else {
        std::fs::write(path, bytes)
    };
    done.map_err(|e| Failure::write(&path.display().to_string(), &e))
}

/// Prints to standard output; a reader that went away ends the program quietly.
pub fn print(text: &str) -> Result<(), Failure> {
    write(Path::new("-"), text)
}

/// Replaces a file by new bytes so that at every moment either the old or the new ones are there.
pub fn replace_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary: PathBuf = path.with_file_name(name);
    let written = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

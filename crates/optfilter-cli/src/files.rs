//! Opening things: model files, tables, `-`.

use crate::checksum::checksum;
use crate::failure::Failure;
use crate::lock::{Lock, resolved};
use optfilter_model::ModelSpec;
use optfilter_model::diagnostic::closest;
use optfilter_model::table::{
    Begun, Format, OutputColumn, Source, TableReader, TableWriter, TimeStyle, Wanted, cut, foreign,
    format_time, is_gzip,
};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Whether a path means standard input or output.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Whether a path means a folder: it is one, or its name ends as only that of a folder does.
pub fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().to_string_lossy().ends_with(std::path::is_separator)
}

/// What a file is, whatever it is called.
#[derive(PartialEq)]
enum Identity {
    /// Device and number on it: names that are links to one file, and redirections, are seen through.
    #[cfg(unix)]
    Node(u64, u64),
    /// Where there are no such numbers, or no file yet.
    Place(PathBuf),
}

/// What a path stands for; nothing if that is a terminal, a pipe or a device.
fn identity(path: &Path, output: bool) -> Option<Identity> {
    #[cfg(unix)]
    {
        use std::os::{fd::AsFd, unix::fs::MetadataExt};
        let known = match (is_standard(path), output) {
            (false, _) => std::fs::metadata(path),
            (true, false) => {
                io::stdin().as_fd().try_clone_to_owned().and_then(|f| File::from(f).metadata())
            }
            (true, true) => {
                io::stdout().as_fd().try_clone_to_owned().and_then(|f| File::from(f).metadata())
            }
        };
        if let Ok(known) = known {
            return known.is_file().then(|| Identity::Node(known.dev(), known.ino()));
        }
    }
    if is_standard(path) {
        return None;
    }
    Some(Identity::Place(resolved(path)))
}

/// Whether two paths are the same file.
pub fn same(a: &Path, b: &Path) -> bool {
    a == b || identity(a, false).is_some_and(|a| identity(b, false) == Some(a))
}

/// Refuses to write over a file that is read, or twice to the same one.
pub fn check_outputs(inputs: &[&Path], outputs: &[(&str, &Path)]) -> Result<(), Failure> {
    let read: Vec<_> = inputs.iter().filter_map(|path| identity(path, false)).collect();
    let mut written = Vec::new();
    for (flag, path) in outputs {
        let Some(file) = identity(path, true) else { continue };
        let what = match () {
            () if read.contains(&file) => "is read by this command",
            () if written.contains(&file) => "is written twice",
            () => {
                written.push(file);
                continue;
            }
        };
        let name =
            if is_standard(path) { "standard output".into() } else { path.display().to_string() };
        return Err(Failure::usage(format!("{flag}: {name} {what}; choose another name")));
    }
    Ok(())
}

/// A name for messages.
pub fn display(path: &Path) -> String {
    if is_standard(path) { "standard input".into() } else { path.display().to_string() }
}

/// Bytes of a model file: more than any model has, tables of a few thousand numbers a side included.
const MAX_MODEL: u64 = 1 << 26;

/// As much of a text as a model may have, and a byte.
fn bounded(input: impl Read) -> impl Read {
    input.take(MAX_MODEL + 1)
}

fn check_length(name: &str, text: String) -> Result<String, Failure> {
    match text.len() as u64 > MAX_MODEL {
        false => Ok(text),
        true => Err(Failure::usage(format!(
            "{name}: the model file is longer than {} MiB; is it a model?",
            MAX_MODEL >> 20
        ))),
    }
}

/// The text of a model file, or the text that selects a built-in system of that name.
pub fn model_text(path: &Path) -> Result<String, Failure> {
    if is_standard(path) {
        let mut text = String::new();
        bounded(io::stdin()).read_to_string(&mut text).map_err(|e| {
            Failure::usage(format!("cannot read the model from standard input: {e}"))
        })?;
        return check_length("standard input", text);
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| bounded(file).read_to_end(&mut bytes));
    match read.map(|_| bytes) {
        Ok(bytes) => String::from_utf8(bytes)
            .map_err(|_| Failure::usage(format!("{}: the model file is not text", path.display())))
            .and_then(|text| check_length(&path.display().to_string(), text)),
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
    // By its name, before what is in it is taken for bad TOML.
    let is_table = Format::of_path(path).is_some() && path.is_file();
    let text = model_text(path);
    let text = if is_table { text.map_err(|_| swapped(path))? } else { text? };
    let spec = ModelSpec::parse(&display(path), &text)
        .map_err(|e| if is_table { swapped(path) } else { Failure::usage(e) })?;
    Ok((text, spec))
}

/// A table where a model is expected.
fn swapped(path: &Path) -> Failure {
    Failure::usage(format!(
        "{} is a table and no model; the model comes first, as in `optfilter filter model.toml data.csv`",
        path.display()
    ))
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
    /// NumPy's archive of arrays.
    Npz,
    /// One array of NumPy's.
    Npy,
}

impl FormatName {
    /// What names of such files end in.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
            Self::Npz => "npz",
            Self::Npy => "npy",
        }
    }
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Csv => Self::Csv,
            FormatName::Tsv => Self::Tsv,
            FormatName::Jsonl => Self::JsonLines,
            FormatName::Parquet => Self::Parquet,
            FormatName::Npz => Self::Npz,
            FormatName::Npy => Self::Npy,
        }
    }
}

/// The format of a file: as told, else by its name, else CSV.
pub fn format(path: &Path, told: Option<FormatName>) -> Format {
    told.map(Format::from).or_else(|| Format::of_path(path)).unwrap_or(Format::Csv)
}

/// The format of an output: as told, else by its name, else `other`. A name that promises what cannot be written is refused.
pub fn out_format(path: &Path, told: Option<FormatName>, other: Format) -> Result<Format, Failure> {
    let format = told.map(Format::from).or_else(|| Format::of_path(path));
    let name = path.display();
    match (format, foreign(path)) {
        (Some(format), _) if is_gzip(path) && !format.is_text() => Err(Failure::usage(format!(
            "--out: {name}: only text is compressed with gzip; leave out .gz"
        ))),
        (None, Some(kind)) => Err(Failure::usage(format!(
            "--out: {name} would be {kind}; the name of a table ends in .csv, .tsv, .jsonl, .parquet, .npz or .npy"
        ))),
        (format, _) => Ok(format.unwrap_or(other)),
    }
}

/// Refuses results with two columns of one name.
pub fn check_columns(columns: &[OutputColumn]) -> Result<(), Failure> {
    let mut names = HashSet::with_capacity(columns.len());
    match columns.iter().find(|column| !names.insert(column.name())) {
        None => Ok(()),
        Some(column) => Err(Failure::usage(format!(
            "the results would have two columns called `{}`; rename a state of the model",
            column.name()
        ))),
    }
}

/// Starts a table in a file of that name, compressed if the name says so.
pub fn table_writer(
    out: Box<dyn Write + Send>,
    path: &Path,
    format: Format,
    columns: Vec<OutputColumn>,
    continues: bool,
) -> Result<TableWriter, Failure> {
    let name =
        if is_standard(path) { "standard output".into() } else { path.display().to_string() };
    let writer = TableWriter::new(out, format, columns, continues)
        .map_err(|e| Failure::write_table(&name, &e))?;
    Ok(if is_gzip(path) { writer.gzip() } else { writer })
}

/// A file that takes the place of an older one only when it has something to show: until [`keep`](Fresh::keep) it lies
/// beside it under another name, and it goes away if that never comes. Nobody else writes it as long as this is there.
pub struct Fresh {
    temporary: Mutex<Option<PathBuf>>,
    lock: Lock,
}

impl Fresh {
    /// Creates the file. Where there is nothing to lose, or no room beside it, it has its name from the start.
    pub fn create(path: &Path) -> Result<(File, Self), Failure> {
        let lock = Lock::take("--out", path)?;
        let temporary = lock.temporary();
        let opened = (|| {
            if let Some(old) = std::fs::metadata(lock.target()).ok().filter(|m| m.is_file()) {
                // What may not be written may not be replaced.
                File::options().write(true).open(lock.target())?;
                if let Ok(file) = File::create(&temporary) {
                    let _ = file.set_permissions(old.permissions());
                    return Ok((file, Some(temporary)));
                }
            }
            Ok((File::create(lock.target())?, None))
        })();
        let (file, temporary) =
            opened.map_err(|e| Failure::write(&path.display().to_string(), &e))?;
        Ok((file, Self { temporary: Mutex::new(temporary), lock }))
    }

    /// Whether it has its name.
    pub fn is_kept(&self) -> bool {
        self.temporary.lock().is_ok_and(|t| t.is_none())
    }

    /// Gives the file its name.
    pub fn keep(&self) -> io::Result<()> {
        let temporary = self.temporary.lock().ok().and_then(|mut t| t.take());
        temporary.map_or(Ok(()), |temporary| std::fs::rename(temporary, self.lock.target()))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.lock().ok().and_then(|mut t| t.take()) {
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// Opens a table for reading these columns.
pub fn reader(
    path: &Path,
    told: Option<FormatName>,
    wanted: &[Wanted],
    style: &TimeStyle,
) -> Result<TableReader, Failure> {
    reader_of(path, told, style, |_| wanted.to_vec())
}

/// Opens a table for reading the columns that are chosen from its own.
pub fn reader_of(
    path: &Path,
    told: Option<FormatName>,
    style: &TimeStyle,
    choose: impl FnOnce(&[String]) -> Vec<Wanted>,
) -> Result<TableReader, Failure> {
    let begun = match waiting(path) {
        Some(begun) => begun,
        None => begin(path, told)?,
    };
    let wanted = choose(begun.columns());
    let reader = begun.choose(wanted).map_err(|e| Failure::table(&display(path), &e))?;
    Ok(reader.with_times(style.clone()))
}

/// Pipes whose headers were looked at before their rows are read: they cannot be opened twice.
static LOOKED_AT: Mutex<Vec<(PathBuf, Begun)>> = Mutex::new(Vec::new());

/// The pipe of that name whose header was looked at.
fn waiting(path: &Path) -> Option<Begun> {
    let mut all = LOOKED_AT.lock().ok()?;
    let at = all.iter().position(|(known, _)| known == path)?;
    Some(all.swap_remove(at).1)
}

/// The columns of a table, which can be read from its beginning afterwards even if it is a pipe.
pub fn columns(path: &Path, told: Option<FormatName>) -> Result<Vec<String>, Failure> {
    let begun = match waiting(path) {
        Some(begun) => begun,
        None => begin(path, told)?,
    };
    let columns = begun.columns().to_vec();
    let again = std::fs::metadata(path).is_ok_and(|known| known.is_file());
    if let (false, Ok(mut all)) = (again, LOOKED_AT.lock()) {
        all.push((path.to_owned(), begun));
    }
    Ok(columns)
}

fn begin(path: &Path, told: Option<FormatName>) -> Result<Begun, Failure> {
    let source = if is_standard(path) {
        Source::Stream(Box::new(io::stdin()))
    } else {
        let fail = |e| Failure::data(format!("cannot read the data {}: {e}", path.display()));
        Source::File(File::open(path).map_err(fail)?)
    };
    Begun::open(source, format(path, told)).map_err(|e| Failure::table(&display(path), &e))
}

/// Times that run backwards at a line, from the second of these to the third; the first is the table's own first one.
/// Calendar times have their seconds per unit, and series the column `by` that names them.
pub fn backwards(
    name: &str,
    line: u64,
    [first, before, after]: [f64; 3],
    calendar: Option<f64>,
    by: Option<&str>,
) -> Failure {
    let shown = |t: f64| calendar.map_or_else(|| t.to_string(), |unit| format_time(t * unit));
    let (was, is) = (shown(before), shown(after));
    Failure::data(if let Some(by) = by {
        format!(
            "{name}: time runs backwards at line {line}: {is} after {was} in one series of `{by}`; sort its rows by time, or tell \
             series apart that have one name"
        )
    } else if after <= first {
        format!(
            "{name}: at line {line} the times begin again: {is} after {was}, as where one series follows another; \
             take one series at a time, or `--by COLUMN` if a column names them"
        )
    } else {
        format!(
            "{name}: time runs backwards at line {line}: {is} after {was}; sort the table by time, or keep the rows \
             of one series if it holds several (`--by COLUMN` takes them all)"
        )
    })
}

/// Says something on standard error, to a person, whatever it quotes; that nobody listens is no failure.
pub fn remark(text: &str) {
    let _ = writeln!(io::stderr(), "{}", cut(text, 4000));
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

/// What was found goes into the model that it is of or into a new file, never over something else.
pub fn check_save(path: &Path, model: &Path, instead: &str) -> Result<(), Failure> {
    let name = path.display();
    if is_standard(path) {
        let message = format!("--save needs the name of a file; {instead}");
        return Err(Failure::usage(message));
    }
    if path.exists() && !same(path, model) {
        return Err(Failure::usage(format!(
            "--save: {name} is there already and is not the model; choose a new name"
        )));
    }
    if !path.exists() && path == model {
        return Err(Failure::usage(format!(
            "--save: {name} is a built-in system; name a new file, as in --save mine.toml"
        )));
    }
    Ok(())
}

/// Saves a model in a file, as a whole or not at all.
pub fn save(path: &Path, text: &str) -> Result<(), Failure> {
    Lock::take("--save", path)?.replace(text.as_bytes())
}

/// The sum of the last bytes of results that are so long, by which they are known again.
pub fn tail(path: &Path, len: u64) -> io::Result<u64> {
    const BYTES: u64 = 4096;
    if !std::fs::metadata(path)?.is_file() {
        return Ok(0);
    }
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(len.saturating_sub(BYTES)))?;
    let mut end = Vec::new();
    file.take(len.min(BYTES)).read_to_end(&mut end)?;
    Ok(checksum(&end))
}

/// An error where a row could not be answered before the next one is there.
pub fn check_follow(spec: &ModelSpec) -> Result<(), Failure> {
    let Some(name) = spec.waits() else { return Ok(()) };
    Err(Failure::usage(format!(
        "a row may have to wait for the next value of input `{name}`, and --follow answers every row at once; \
         leave out --follow, or write {name} = {{ hold = \"previous\" }} in [inputs] (or {name} = {{}}, where every row states it)"
    )))
}

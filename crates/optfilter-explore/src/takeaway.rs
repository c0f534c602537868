//! What a user takes away: the flags, the model file, a few lines of Python, the table of results, the picture.

use crate::fault::Fault;
use crate::run::Run;
use crate::subject::Subject;
use crate::view::View;
use optfilter_model::replace_filter;
use optfilter_model::table::{Format, OutputColumn, TableWriter};
use optfilter_plot::color::{BLUE, GREY, VERMILION};
use optfilter_plot::{Axis, Figure, Mark, Panel, Thinner};
use optfilter_run::FilterSpec;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The model file with the filter in it.
pub fn model_file(subject: &Subject, filter: &FilterSpec) -> String {
    replace_filter(&subject.text, &filter.essential())
}

/// The command that gives the same numbers.
pub fn command(model: &str, table: &str, filter: &FilterSpec) -> String {
    let quoted =
        |name: &str| match name.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c)) {
            true => name.to_owned(),
            false => format!("'{}'", name.replace('\'', "'\\''")),
        };
    format!("optfilter filter {} {} {}", quoted(model), quoted(table), filter.flags())
}

/// A few lines of Python that give the same numbers.
pub fn python(model: &str, subject: &Subject) -> String {
    let wanted = subject.layout.wanted(&subject.spec).into_iter().map(|w| w.column);
    let (more, table) = read_by_pandas(&subject.table.name, &wanted.collect::<Vec<_>>());
    format!(
        "import optfilter\n{more}import pandas as pd\n\n\
         model = optfilter.Model.from_toml({model:?})  # the model file above, with its [filter]\n\
         {table}\n\
         result = model.filter(table)\n\
         print(result.means[-1])\n",
    )
}

/// What else is to be imported, and how pandas gets at the columns of a table.
fn read_by_pandas(table: &str, wanted: &[String]) -> (&'static str, String) {
    let by = |reader: &str, more: &str| ("", format!("table = pd.{reader}({table:?}{more})"));
    // Of an archive each array has its name, a single one has none.
    let arrays = |is_archive: bool| {
        let column = |name: &String| {
            // A column of an array with more axes is called like `x[3]`.
            let part = name.strip_suffix(']').and_then(|c| c.split_once('['));
            let (array, place) = match part {
                Some((array, place)) => (array, format!("[:, {}]", place.replace(',', ", "))),
                None => (name.as_str(), ".ravel()".to_owned()),
            };
            let array = if is_archive { format!("arrays[{array:?}]") } else { "arrays".into() };
            format!("{name:?}: {array}{place}")
        };
        let columns = wanted.iter().map(column).collect::<Vec<_>>().join(", ");
        let table = format!("arrays = np.load({table:?})\ntable = pd.DataFrame({{{columns}}})");
        ("import numpy as np\n", table)
    };
    match Format::of_path(Path::new(table)).unwrap_or(Format::Csv) {
        Format::Csv => by("read_csv", ""),
        Format::Tsv => by("read_csv", ", sep=\"\\t\""),
        Format::JsonLines => by("read_json", ", lines=True"),
        Format::Parquet => by("read_parquet", ""),
        Format::Npz => arrays(true),
        Format::Npy => arrays(false),
    }
}

/// Bytes that a writer leaves and somebody else reads.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The results as the table that `optfilter filter` writes.
pub fn csv(subject: &Subject, run: &Run) -> Result<Vec<u8>, Fault> {
    let (spec, data) = (&subject.spec, &subject.data);
    let (n, m) = (spec.states.len(), spec.observations.len());
    let wrong = |e: optfilter_model::table::TableError| Fault::Data(e.to_string());
    let bytes = Shared::default();
    let columns: Vec<OutputColumn> = subject.layout.output_columns(spec, false, false);
    let mut writer =
        TableWriter::new(Box::new(bytes.clone()), Format::Csv, columns, false).map_err(wrong)?;
    let mut values = Vec::new();
    for k in 0..run.done {
        values.clear();
        values.push(data.time(k));
        values.extend_from_slice(&run.means[k * n..][..n]);
        values.extend((0..n).map(|i| run.stds.get(k * n + i).copied().unwrap_or(f64::NAN)));
        values.extend_from_slice(&run.innovations[k * m..][..m]);
        values.push(run.flags[k]);
        writer.row(&values, subject.rows.time_text(k)).map_err(wrong)?;
    }
    writer.finish().map_err(wrong)?;
    let mut all = bytes.0.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut *all))
}

/// The panels in view as a figure.
pub fn figure(subject: &Subject, filter: &FilterSpec, run: &Run, view: &View) -> Figure {
    let (spec, data) = (&subject.spec, &subject.data);
    let (n, m) = (spec.states.len(), spec.observations.len());
    let rows = view.rows(subject);
    let panel = |name: &str| {
        let axis = match data.origin {
            Some(_) => Axis::calendar("time", spec.seconds_per_unit),
            None => Axis::linear("time"),
        };
        Panel::new(name, axis, Axis::linear(""))
    };
    let mut figure = Figure::new(&spec.name);
    figure.shared_x = true;
    figure.note = filter.flags();
    for &i in &view.states {
        let mut thin = [const { None }; 3].map(|_: Option<()>| Thinner::default());
        let [line, band, truth] = &mut thin;
        for k in rows.clone() {
            let (t, mean) = (data.time(k), run.means[k * n + i]);
            line.push(t, mean);
            if let Some(std) = run.stds.get(k * n + i) {
                band.push_band(t, mean - 2.0 * std, mean + 2.0 * std);
            }
            if subject.known[i] {
                truth.push(t, data.truth[k * n + i]);
            }
        }
        let mut panel = panel(&spec.states[i]);
        if !band.is_empty() {
            panel.marks.push(Mark::band(band.band()).color(BLUE).named("two standard deviations"));
        }
        if !truth.is_empty() {
            panel.marks.push(Mark::line(truth.line()).color(GREY).size(1.2).named("truth"));
        }
        panel.marks.push(Mark::line(line.line()).color(BLUE).named("estimate"));
        figure.panels.push(panel);
    }
    for &i in &view.observations {
        let (mut measured, mut predicted) = (Thinner::default(), Thinner::default());
        for k in rows.clone() {
            let (t, y) = (data.time(k), data.output(k)[i]);
            measured.push(t, y);
            predicted.push(t, y - run.innovations[k * m + i]);
        }
        let measured = Mark::points(measured.points()).color(GREY).named("measured");
        let predicted = Mark::line(predicted.line()).color(VERMILION).size(1.2).loose();
        let predicted = predicted.named("predicted one row ahead");
        figure.panels.push(panel(&spec.observations[i]).with(measured).with(predicted));
    }
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_reads_a_table_by_its_format() {
        let wanted = ["time", "x[3]", "z[1,2]"].map(str::to_owned);
        let read = |name: &str| read_by_pandas(name, &wanted).1;
        assert_eq!(read("a.csv"), r#"table = pd.read_csv("a.csv")"#);
        assert_eq!(read("a.csv.gz"), r#"table = pd.read_csv("a.csv.gz")"#);
        assert_eq!(read("a.tsv"), r#"table = pd.read_csv("a.tsv", sep="\t")"#);
        assert_eq!(read("a.jsonl"), r#"table = pd.read_json("a.jsonl", lines=True)"#);
        assert_eq!(read("a.parquet"), r#"table = pd.read_parquet("a.parquet")"#);
        let columns = |time: &str, x: &str, z: &str| {
            format!(
                "table = pd.DataFrame({{\"time\": {time}.ravel(), \"x[3]\": {x}[:, 3], \"z[1,2]\": {z}[:, 1, 2]}})"
            )
        };
        let named = columns("arrays[\"time\"]", "arrays[\"x\"]", "arrays[\"z\"]");
        assert_eq!(read("a.npz"), format!("arrays = np.load(\"a.npz\")\n{named}"));
        assert!(read("a.npy").ends_with(&columns("arrays", "arrays", "arrays")));
    }
}

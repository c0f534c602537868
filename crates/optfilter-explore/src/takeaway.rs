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
pub fn python(model: &str, table: &str) -> String {
    format!(
        "import optfilter\nimport pandas as pd\n\n\
         model = optfilter.Model.from_toml({model:?})  # the model file above, with its [filter]\n\
         result = model.filter(pd.read_csv({table:?}))\n\
         print(result.means[-1])\n",
    )
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

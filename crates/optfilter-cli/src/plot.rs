//! `--plot`: the pictures of the commands, drawn by [`optfilter_plot`].

use crate::failure::Failure;
use crate::files;
use crate::plane::Plane;
use optfilter_model::ModelSpec;
use optfilter_plot::color::{GREY, VERMILION};
use optfilter_plot::{Axis, Figure, Mark, Panel, Theme, Thinner};
use optfilter_run::Estimate;
use std::path::{Path, PathBuf};

/// Where a picture goes, and its ground.
#[derive(clap::Args, Clone)]
pub struct PlotFlags {
    /// Draw the results: FILE.svg, FILE.html or FILE.png
    #[arg(long = "plot", value_name = "FILE")]
    pub path: Option<PathBuf>,
    /// Draw --plot on dark ground [default: SVG and HTML follow the reader's setting, PNG is light]
    #[arg(long, requires = "path")]
    dark: bool,
}

impl PlotFlags {
    /// Refuses names of pictures that would not be what they say.
    pub fn check(&self) -> Result<(), Failure> {
        match self.path.as_deref().map(|path| (path, ending(path))) {
            Some((path, ending)) if !["", "svg", "html", "png"].contains(&ending.as_str()) => {
                let path = path.display();
                Err(Failure::usage(format!("--plot: {path} should end in .svg, .html or .png")))
            }
            _ => Ok(()),
        }
    }

    /// Writes the figure, if one is wanted, as its file's name says; a page has the text below it.
    pub fn write(&self, text: &str, figure: impl FnOnce() -> Figure) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        let theme = if self.dark { Theme::Dark } else { Theme::Auto };
        let figure = figure();
        let bytes = match ending(path).as_str() {
            "html" => figure.html(text, theme).into_bytes(),
            "png" => figure.png(theme, 2.0).map_err(Failure::other)?,
            _ => figure.svg(theme).into_bytes(),
        };
        files::write(path, &bytes)
    }
}

fn ending(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// An axis of times, with dates if they are of the calendar.
pub fn time_axis(seconds_per_unit: Option<f64>) -> Axis {
    seconds_per_unit.map_or_else(|| Axis::linear("time"), |unit| Axis::calendar("time", unit))
}

/// What is kept of a run for its picture, in constant memory.
pub struct StripChart {
    title: String,
    states: Vec<StateStrip>,
    outputs: Vec<OutputStrip>,
    note: String,
    /// Seconds per unit of time if the rows have calendar times.
    pub calendar: Option<f64>,
    /// Two states against one another instead of all over time.
    pub plane: Option<Plane>,
}

#[derive(Default)]
struct StateStrip {
    name: String,
    mean: Thinner,
    band: Thinner,
}

#[derive(Default)]
struct OutputStrip {
    name: String,
    measured: Thinner,
    predicted: Thinner,
    outliers: Thinner,
}

impl StripChart {
    /// The most states and the most observations that have a panel.
    const MOST: usize = 24;

    /// Empty, for a model.
    pub fn new(spec: &ModelSpec) -> Self {
        let (states, outputs) = (&spec.states, &spec.observations);
        let left_out = |names: &[String], what: &str| match names.len().saturating_sub(Self::MOST) {
            0 => String::new(),
            n => format!("{n} more {what} are not drawn. "),
        };
        let state = |name: &String| StateStrip { name: name.clone(), ..Default::default() };
        let output = |name: &String| OutputStrip { name: name.clone(), ..Default::default() };
        Self {
            title: spec.name.clone(),
            states: states.iter().take(Self::MOST).map(state).collect(),
            outputs: outputs.iter().take(Self::MOST).map(output).collect(),
            note: left_out(states, "states") + &left_out(outputs, "observations"),
            calendar: None,
            plane: None,
        }
    }

    /// The next row; an outlier is marked at all of its measurements.
    pub fn push(&mut self, time: f64, y: &[f64], estimate: &Estimate, outlier: bool) {
        if let Some(plane) = &mut self.plane {
            return plane.push(y, estimate, outlier);
        }
        for (i, (strip, mean)) in self.states.iter_mut().zip(&estimate.mean).enumerate() {
            let std = estimate.std(i);
            strip.mean.push(time, *mean);
            strip.band.push_band(time, mean - 2.0 * std, mean + 2.0 * std);
        }
        for (strip, (y, innovation)) in
            self.outputs.iter_mut().zip(y.iter().zip(&estimate.innovation))
        {
            strip.measured.push(time, *y);
            strip.predicted.push(time, y - innovation);
            if outlier {
                strip.outliers.push(time, *y);
            }
        }
    }

    /// One panel for each state with its band, and one for each observation with its prediction.
    pub fn figure(&self) -> Figure {
        if let Some(plane) = &self.plane {
            return plane.figure(&self.title);
        }
        let panel = |name: &str| Panel::new(name, time_axis(self.calendar), Axis::linear(""));
        let mut figure = Figure::new(&self.title);
        figure.shared_x = true;
        figure.note = self.note.trim_end().to_owned();
        for strip in &self.states {
            let mut panel = panel(&strip.name);
            if !strip.band.is_empty() {
                panel.marks.push(Mark::band(strip.band.band()).named("two standard deviations"));
            }
            panel.marks.push(Mark::line(strip.mean.line()).named("estimate"));
            figure.panels.push(panel);
        }
        for strip in &self.outputs {
            let measured = Mark::points(strip.measured.points()).color(GREY).named("measured");
            let predicted = Mark::line(strip.predicted.line()).color(VERMILION).size(1.2).loose();
            let mut panel =
                panel(&strip.name).with(measured).with(predicted.named("predicted one row ahead"));
            if !strip.outliers.is_empty() {
                panel.marks.push(Mark::outliers(strip.outliers.points()));
            }
            figure.panels.push(panel);
        }
        figure
    }
}

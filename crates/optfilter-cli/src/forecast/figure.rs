//! The picture of a forecast: fans behind the end of the past.

use super::ahead::Ahead;
use crate::plot::time_axis;
use crate::whole::Whole;
use optfilter_model::ModelSpec;
use optfilter_plot::color::GREY;
use optfilter_plot::{Axis, Figure, Mark, Panel};
use optfilter_run::{Forecast, ForecastSummary};

/// The most states and the most observations that have a panel.
const MOST: usize = 24;

/// A fan for each state and each observation, behind the end of its past.
pub(super) fn figure(
    spec: &ModelSpec,
    table: &Whole,
    ahead: &Ahead,
    past: &[f64],
    found: &Forecast,
) -> Figure {
    let (data, n) = (&table.data, spec.states.len());
    // As much of the past as puts the fan into the last third or so.
    let from = ahead.first.saturating_sub((3 * found.steps.len()).max(60));
    let mut figure = Figure::new(format!("{}, forecast", spec.name));
    figure.shared_x = true;
    let panel = |name: &str| {
        let axis = time_axis(data.origin.map(|_| spec.seconds_per_unit));
        Panel::new(name, axis, Axis::linear(""))
    };
    let with_fan = |mut panel: Panel, of: &dyn Fn(usize) -> ForecastSummary| {
        for (level, opacity) in [(2, 0.14), (1, 0.2), (0, 0.3)] {
            let band = ahead.times.iter().enumerate().map(|(row, time)| {
                let (low, high) = of(row).intervals[level];
                (*time, low, high)
            });
            // One entry in the legend: it shows colours, not how deep they are.
            let name = if level == 2 { "50, 80 and 95 %" } else { "" };
            panel.marks.push(Mark::band(band).opacity(opacity).named(name));
        }
        let line = ahead.times.iter().enumerate().map(|(row, time)| (*time, of(row).mean));
        panel.marks.push(Mark::line(line).size(1.8).named("forecast"));
        panel
    };
    for (i, name) in spec.states.iter().enumerate().take(MOST) {
        let line = (from..ahead.first).map(|row| (data.time(row), past[row * n + i]));
        let panel = panel(name).with(Mark::line(line).color(GREY).named("estimate"));
        figure.panels.push(with_fan(panel, &|row| found.states[row][i]));
    }
    for (i, name) in spec.observations.iter().enumerate().take(MOST) {
        let points = (from..ahead.first).map(|row| (data.time(row), data.output(row)[i]));
        let panel = panel(name).with(Mark::points(points).color(GREY).named("measured"));
        figure.panels.push(with_fan(panel, &|row| found.measurements[row][i]));
    }
    figure
}

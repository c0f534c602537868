//! The filter between the reader and the writer.

use super::job::{Job, Saved, SavedTrack, settings};
use super::tally::Tally;
use crate::failure::Failure;
use crate::plane::Plane;
use crate::plot::StripChart;
use crate::refused::Refused;
use crate::{files, interrupt};
use optfilter_model::ModelSpec;
use optfilter_model::run::{Held, Keys, Layout, Prepared};
use optfilter_model::table::{Rows, Trail};
use optfilter_run::{DynFilter, FilterSpec, Flag, RollingForecaster, Session, SessionError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A series: its filter, and what is kept of its rows.
struct Track {
    session: Session,
    /// Its last measurements.
    last: Vec<f64>,
    /// Its inputs so far.
    held: Held,
    /// Its first time; of a run that goes on from a checkpoint unknown.
    first_time: f64,
}

/// The filter with all that it keeps from row to row.
pub(super) struct Worker<'a> {
    spec: &'a ModelSpec,
    filter: &'a FilterSpec,
    layout: Layout,
    runner: Arc<dyn DynFilter>,
    horizon: Option<RollingForecaster>,
    tracks: Vec<Track>,
    /// The names of the series, by the numbers of their tracks.
    keys: Keys,
    pub(super) tally: Tally,
    full: bool,
    lagged: bool,
    /// The column that names the series, for messages.
    by: Option<String>,
    pub(super) plot: Option<StripChart>,
    /// The names of the tables, for messages.
    table_names: Vec<String>,
    pub(super) settings: Vec<(String, u64)>,
    /// The rows so far, if there is a checkpoint to remember them.
    trail: Option<Trail>,
    /// Of the tables, as a checkpoint keeps them.
    sizes: Vec<u64>,
    /// Whether the run should end.
    pub(super) stop: Arc<AtomicBool>,
    row: Vec<f64>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(job: &Job<'a>) -> Result<Self, Failure> {
        let Prepared { spec, filter, runner, .. } = job.prepared;
        let rows = job.layout.horizon;
        let mut worker = Self {
            spec,
            filter,
            layout: job.layout.clone(),
            horizon: (rows > 0).then(|| RollingForecaster::new(runner.clone(), rows)),
            runner: runner.clone(),
            tracks: Vec::new(),
            keys: Keys::default(),
            tally: Tally::new(spec),
            full: job.full,
            lagged: job.lagged,
            by: job.layout.by.clone().filter(|_| job.by),
            plot: chart(job)?,
            table_names: job.tables.iter().map(|path| files::display(path)).collect(),
            settings: settings(job)?,
            trail: job.checkpoint.is_some().then(Trail::default),
            sizes: job.sizes()?,
            stop: interrupt::flag(),
            row: Vec::new(),
        };
        // What cannot be started is said before anything is written.
        worker.track("")?;
        if job.layout.by.is_some() {
            worker.tracks.clear();
            worker.keys.clear();
        }
        Ok(worker)
    }

    /// The place of the series of that name, which may be new.
    fn track(&mut self, name: &str) -> Result<usize, Failure> {
        let (place, new) = self.keys.number(name);
        if new {
            let session =
                Session::new(&*self.runner, self.filter, self.spec.dt).map_err(Failure::other)?;
            let last = vec![f64::NAN; self.spec.observations.len()];
            let held = Held::new(self.spec);
            self.tracks.push(Track { session, last, held, first_time: f64::NEG_INFINITY });
        }
        Ok(place)
    }

    /// The table of the last row of a batch, and its line.
    pub(super) fn place(&self, batch: &Rows) -> String {
        let table = self.table_names.get(batch.table_of(batch.rows.saturating_sub(1)));
        let line = batch.lines.last().copied().unwrap_or(0);
        format!("{} ends within line {line}", table.map_or("", String::as_str))
    }

    /// How many series there are.
    pub(super) fn series(&self) -> usize {
        self.tracks.len()
    }

    /// The states of the rows in the window of each series, oldest first.
    pub(super) fn paths(&self) -> Vec<(String, Vec<f64>)> {
        let path = |track: &Track| track.session.path();
        self.keys.names().iter().cloned().zip(self.tracks.iter().map(path)).collect()
    }

    /// Goes on from a checkpoint.
    pub(super) fn restore(&mut self, saved: &Saved) -> Result<(), Failure> {
        for SavedTrack { name, last, held, session } in &saved.tracks {
            let place = self.track(name)?;
            let track = &mut self.tracks[place];
            track.session.restore(session).map_err(Failure::other)?;
            track.last.clone_from(last);
            track.held.restore(held);
        }
        self.tally = saved.tally.clone();
        self.trail = Some(saved.trail.clone());
        Ok(())
    }

    /// Filters a batch and appends its results; those before a failure are there as well.
    pub(super) fn take(&mut self, batch: &Rows, results: &mut Vec<f64>) -> Result<(), Failure> {
        for row in 0..batch.rows {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::interrupted(""));
            }
            let (time, u, y) = self.layout.split(batch, row);
            let series = self.layout.series(batch, row);
            let place = match series.and_then(|number| batch.labels.get(number as usize)) {
                Some(name) => self.track(name)?,
                None => 0,
            };
            let track = &mut self.tracks[place];
            let u = track.held.fill(u, y);
            let step = match track.session.take(time, batch.calendar, u, y) {
                Ok(step) => step,
                Err(error) => {
                    let u = u.to_vec();
                    return Err(self.failure(batch, row, place, &u, error));
                }
            };
            if let Some(trail) = &mut self.trail {
                trail.add(batch, row, self.layout.width(), self.layout.label());
            }
            if step.index == 1 {
                track.first_time = time.unwrap_or(f64::NEG_INFINITY);
            }
            let estimate = &track.session.estimate;
            self.tally.add(y, estimate, &mut track.last);
            let flag = track.session.flag;
            self.tally.flag(flag);
            let time = time.unwrap_or(step.time);
            let named = (time, series);
            self.layout.result(named, estimate, flag as usize, self.full, &mut self.row);
            if let Some(horizon) = &self.horizon {
                // A forecast that leaves the finite numbers is no reason to end a filter that does not.
                let found = horizon.look(&mut track.session, &step, u).ok();
                self.layout.ahead(self.spec, found.as_ref(), self.full, &mut self.row);
            }
            if self.lagged {
                // Of the oldest row in the window, which is the one that is known now if nothing was given up.
                let (states, path) = (self.spec.states.len(), track.session.path());
                match path.len() / states > self.filter.window() {
                    true => self.row.extend_from_slice(&path[..states]),
                    false => self.row.extend(std::iter::repeat_n(f64::NAN, states)),
                }
            }
            results.extend_from_slice(&self.row);
            if let Some(plot) = &mut self.plot {
                let estimate = &track.session.estimate;
                plot.calendar = batch.calendar.then_some(self.spec.seconds_per_unit);
                plot.push(time, y, estimate, matches!(flag, Flag::Outlier | Flag::Lost));
            }
        }
        Ok(())
    }

    fn failure(
        &self,
        batch: &Rows,
        row: usize,
        place: usize,
        inputs: &[f64],
        error: SessionError,
    ) -> Failure {
        let Track { session, first_time, .. } = &self.tracks[place];
        let refused = Refused {
            spec: self.spec,
            filter: self.filter,
            layout: &self.layout,
            tables: &self.table_names,
            by: self.by.as_deref(),
            batch,
            row,
            series: self.keys.names().get(place).map_or("", String::as_str),
            session,
            first_time: *first_time,
            inputs,
        };
        refused.because(error)
    }

    /// What a checkpoint at this row holds; the writer adds how much has been written.
    pub(super) fn save(&self) -> Result<Saved, Failure> {
        Ok(Saved {
            settings: self.settings.clone(),
            tally: self.tally.clone(),
            trail: self.trail.clone().unwrap_or_default(),
            output_len: 0,
            tail: 0,
            sizes: self.sizes.clone(),
            waiting: Vec::new(),
            tracks: self.saved_tracks()?,
        })
    }

    fn saved_tracks(&self) -> Result<Vec<SavedTrack>, Failure> {
        let names = self.keys.names().iter().zip(&self.tracks);
        names
            .map(|(name, track)| {
                let session = track.session.save().map_err(Failure::other)?;
                let (last, held) = (track.last.clone(), track.held.values().to_vec());
                Ok(SavedTrack { name: name.clone(), last, held, session })
            })
            .collect()
    }
}

/// The picture of a run, if one is wanted.
fn chart(job: &Job<'_>) -> Result<Option<StripChart>, Failure> {
    if !job.plot {
        return Ok(None);
    }
    let mut chart = StripChart::new(&job.prepared.spec);
    if let Some(states) = job.plane {
        let plane = Plane::new(&job.prepared.spec, states);
        chart.plane =
            Some(plane.map_err(|why| Failure::usage(format!("--plot-xy {states}: {why}")))?);
    }
    Ok(Some(chart))
}

//! `smooth --lag`: rows smoothed by the next few of their series, on a stream of any length.

use super::args::Args;
use super::columns::{columns, std};
use super::summary::Summary;
use crate::failure::Failure;
use crate::feed::Feed;
use crate::files;
use crate::pipeline::{BATCH, GLANCE, IN_FLIGHT, read_all};
use crate::refused::Refused;
use crate::tables::Asked;
use crate::whole::{self, Results};
use optfilter_model::ModelSpec;
use optfilter_model::run::{Held, Interpolation, Keys, Layout, Prepared};
use optfilter_model::table::Rows;
use optfilter_run::{
    DynFilter, FilterSpec, FixedLagSmoother, RunError, Session, SessionError, SmoothedEstimate,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Instant;

pub(super) fn run(args: &Args, asked: &Asked, lag: usize) -> Result<(), Failure> {
    let (tables, spec) = (&args.tables, &asked.prepared.spec);
    if tables.plot.path.is_some() {
        return Err(Failure::usage("--plot needs the whole series; leave out --lag"));
    }
    if args.follow && !(asked.format.is_text() && asked.out_format.is_text()) {
        return Err(Failure::usage("only text can be followed: CSV, TSV or JSON lines"));
    }
    if args.follow {
        files::check_follow(spec)?;
    }
    let begun = Instant::now();
    let Prepared { filter, runner, .. } = asked.prepared.smoothing(lag + 1)?;
    FixedLagSmoother::new(&*runner, lag)?; // what cannot be smoothed so is said before anything is written
    let layout = tables.layout(spec, &asked.tables)?;
    let by = tables.series.by.is_some();
    let feed = Feed::open(&asked.tables, tables.format(), spec, &layout, by, &[], 0.0)?;
    let results = Results::create(&tables.out, asked.out_format, columns(args, spec, &layout))?;
    let names = asked.tables.iter().map(|path| files::display(path)).collect();
    let mut stream = Stream {
        spec,
        filter: &filter,
        runner: runner.clone(),
        layout,
        names,
        lag,
        both: args.both,
        by: tables.series.by.as_deref(),
        keys: Keys::default(),
        tracks: Vec::new(),
        results,
        rows: 0,
        measured: false,
        sums: [vec![0.0; spec.states.len()], vec![0.0; spec.states.len()]],
    };
    let end = stream.take_all(feed, args.follow);
    // What waits is written however the stream ended.
    stream.rest()?;
    let Stream { results, rows, measured, sums, tracks, .. } = stream;
    if end.is_ok() {
        let name = asked.tables.first().map_or_else(String::new, |path| files::display(path));
        whole::check_measured(&name, spec, (rows, rows), measured)?;
    }
    results.finish()?;
    end?;
    let stds = sums.map(|sums| sums.iter().map(|sum| sum / rows as f64).collect());
    let seconds = begun.elapsed().as_secs_f64();
    let (form, searches) = (runner.form().map(str::to_owned), Vec::new());
    let series = tracks.len();
    let summary = Summary { spec, filter: &filter, series, rows, stds, seconds, form, searches };
    args.summary.say(tables, || summary.text(), || summary.json())
}

/// A series on its way.
struct Track {
    session: Session,
    lag: FixedLagSmoother,
    /// Its inputs so far.
    held: Held,
    /// The times of the rows that wait, and as they were read.
    times: VecDeque<(f64, Option<Vec<u8>>)>,
    first_time: f64,
}

/// All that is kept between two rows.
struct Stream<'a> {
    spec: &'a ModelSpec,
    filter: &'a FilterSpec,
    runner: Arc<dyn DynFilter>,
    layout: Layout,
    /// Of the tables, for messages.
    names: Vec<String>,
    lag: usize,
    both: bool,
    /// The column that names the series, for messages.
    by: Option<&'a str>,
    keys: Keys,
    tracks: Vec<Track>,
    results: Results,
    rows: usize,
    /// Whether any row has a measurement.
    measured: bool,
    /// Of standard deviations, smoothed and filtered.
    sums: [Vec<f64>; 2],
}

impl Stream<'_> {
    /// Takes rows until they end. They are read elsewhere, so that a stream that is silent can be left.
    fn take_all(&mut self, feed: Feed, follow: bool) -> Result<(), Failure> {
        let (rows_to, rows_from) = sync_channel(IN_FLIGHT);
        let (spare_to, spare_from) = sync_channel(2 * IN_FLIGHT);
        let size = if follow { 1 } else { BATCH };
        let lines = Interpolation::new(self.spec, &self.layout);
        std::thread::spawn(move || read_all(feed, size, lines, &rows_to, &spare_from));
        if follow {
            self.results.flush()?; // the header
        }
        loop {
            match rows_from.recv_timeout(GLANCE) {
                Ok(batch) => {
                    let batch = batch?;
                    self.take(&batch)?;
                    if follow {
                        self.results.flush()?;
                    }
                    let _ = spare_to.try_send(batch);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if whole::asked_to_end() {
                return Err(Failure::interrupted(""));
            }
        }
    }

    fn take(&mut self, batch: &Rows) -> Result<(), Failure> {
        for row in 0..batch.rows {
            let (time, u, y) = self.layout.split(batch, row);
            let name = self.layout.series(batch, row).and_then(|n| batch.labels.get(n as usize));
            let (place, new) = self.keys.number(name.map_or("", String::as_str));
            if new {
                let session = Session::new(&*self.runner, self.filter, self.spec.dt);
                let session = session.map_err(Failure::other)?;
                let lag = FixedLagSmoother::new(&*self.runner, self.lag)?;
                let (times, first_time) = (VecDeque::new(), time.unwrap_or(f64::NEG_INFINITY));
                let held = Held::new(self.spec);
                self.tracks.push(Track { session, lag, held, times, first_time });
            }
            let track = &mut self.tracks[place];
            self.measured |= y.iter().any(|y| !y.is_nan());
            let u = track.held.fill(u, y);
            let taken = track.session.take(time, batch.calendar, u, y);
            let step = match taken {
                Ok(step) => step,
                Err(error) => {
                    let u = u.to_vec();
                    return Err(self.failure(batch, row, place, &u, error));
                }
            };
            let text = batch.time_text(row).map(<[u8]>::to_vec);
            track.times.push_back((time.unwrap_or(step.time), text));
            match track.lag.push(&track.session, &step, u) {
                Ok(None) => {}
                Ok(Some(late)) => self.write(place, &late)?,
                Err(RunError::Spec(error)) => return Err(error.into()),
                Err(RunError::Filter(error)) => {
                    let (u, error) = (u.to_vec(), SessionError::Filter(error));
                    return Err(self.failure(batch, row, place, &u, error));
                }
            }
        }
        Ok(())
    }

    /// Writes the row of a series that has waited longest.
    fn write(&mut self, place: usize, late: &SmoothedEstimate) -> Result<(), Failure> {
        let n = self.spec.states.len();
        let Some((time, text)) = self.tracks[place].times.pop_front() else { return Ok(()) };
        let mut values = vec![time];
        values.extend(self.layout.by.as_ref().map(|_| place as f64));
        let both = [(&late.mean, &late.cov), (&late.filtered_mean, &late.filtered_cov)];
        for (which, (mean, cov)) in both.into_iter().enumerate() {
            let stds: Vec<f64> = (0..n).map(|i| std(cov, n, 0, i)).collect();
            self.sums[which].iter_mut().zip(&stds).for_each(|(sum, std)| *sum += std);
            if which == 0 || self.both {
                values.extend_from_slice(mean);
                values.extend(stds);
            }
        }
        self.rows += 1;
        self.results.row(&(values, text), self.keys.names())
    }

    /// Writes what still waits, one series after the other.
    fn rest(&mut self) -> Result<(), Failure> {
        for place in 0..self.tracks.len() {
            let track = &mut self.tracks[place];
            let rest = track.lag.rest(&track.session).map_err(|error| match error {
                RunError::Spec(error) => error.into(),
                RunError::Filter(error) => Failure { code: 4, message: error.to_string() },
            })?;
            rest.iter().try_for_each(|late| self.write(place, late))?;
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
            tables: &self.names,
            by: self.by,
            batch,
            row,
            series: self.keys.names().get(place).map_or("", String::as_str),
            session,
            first_time: *first_time,
            inputs,
        };
        refused.because(error)
    }
}

//! The likelihood of windows as a function of what is free: each window's first state is found, and is then held.
//!
//! ```text
//! value(theta) = sum over windows of max_s sum_j ln p(y_j | h(x_j)),    x_0 = s,  x_j = f(x_{j-1})
//! ```
//!
//! The model is believed inside of a window: a path that may bend fits any parameters. What the likelihood is made of lives in
//! [`optfilter::filter::evidence`]; here are the windows, their guesses, and what is refused.

use super::error::FitError;
use super::family::TextFamily;
use super::landscape::Landscape;
use super::objective::{check_starts, vary};
use super::quantity::{Quantity, Target};
use crate::file::{LikelihoodKind, ModelSpec};
use crate::run::Dataset;
use nalgebra::{DMatrix, Dyn};
use optfilter::filter::FilterError;
use optfilter::filter::evidence::{Begin, Density, Row, along, best_start, end_of_path};
use optfilter::model::likelihood::Component;
use optfilter::scalar::{Dual, Scalar};
use optfilter_run::{FilterSpec, LikelihoodSpec, SpecError};
use rayon::prelude::*;
use std::ops::Range;

/// Directions of a derivative that are carried at once.
const WIDTH: usize = 4;

/// The likelihood of windows of series as a function of what is free.
pub struct Windows<'a> {
    quantities: Vec<Quantity>,
    family: TextFamily,
    data: &'a [Dataset],
    pieces: Vec<Piece>,
    /// Kinds of measurements, where not all are Gaussian.
    components: Option<Vec<Component>>,
    /// R with the filter's factor on it.
    cov: DMatrix<f64>,
    scale: f64,
    /// How far first states may lie from their guesses while few rows are seen.
    std: Vec<f64>,
    predict_first: bool,
}

/// A window.
struct Piece {
    series: usize,
    rows: Range<usize>,
    /// Which components of its first state are known.
    held: Vec<bool>,
    /// Where the search for the others begins.
    guess: Vec<f64>,
}

impl<'a> Windows<'a> {
    /// Of a model over some series, cut into windows of `window` past rows and a newest; whole series without.
    pub fn new(
        spec: &ModelSpec,
        filter: &FilterSpec,
        window: Option<u32>,
        quantities: Vec<Quantity>,
        data: &'a [Dataset],
    ) -> Result<Self, FitError> {
        refuse(spec, filter, window, &quantities)?;
        check_starts(&quantities)?;
        let (n, m) = (spec.states.len(), spec.observations.len());
        let components = match spec.likelihood()? {
            Some(LikelihoodSpec::Components(parts)) => Some(parts),
            _ => None,
        };
        let cov = match &spec.measurement_cov {
            Some(cov) => cov.dense(Dyn(m)),
            None if components.is_some() => DMatrix::identity(m, m),
            None => return Err(SpecError::of("R", "the measurement noise is not given").into()),
        };
        // Noise of the process is no part of a path.
        let plain = ModelSpec { process_laws: Vec::new(), ..spec.clone() };
        let mut out = Self {
            family: TextFamily::new(&plain, &quantities)?,
            quantities,
            data,
            pieces: Vec::new(),
            components,
            cov,
            scale: filter.measurement_scale(),
            std: (0..n).map(|i| spec.initial_cov.variance(i).sqrt()).collect(),
            predict_first: filter.predict_first(),
        };
        out.check(spec, filter)?;
        let length = window.map_or(usize::MAX, |window| window as usize + 1);
        let made: Vec<_> = (0..data.len())
            .into_par_iter()
            .map(|series| out.cut(spec, series, length).map_err(|e| (series, e)))
            .collect();
        for pieces in made {
            let pieces = pieces.map_err(|(series, error)| FitError::Filter { series, error })?;
            out.pieces.extend(pieces);
        }
        Ok(out)
    }

    /// What is free.
    pub fn quantities(&self) -> &[Quantity] {
        &self.quantities
    }

    /// The number of windows in which something is measured.
    pub fn count(&self) -> usize {
        self.pieces.len()
    }

    /// The most rows of a window.
    pub fn longest(&self) -> usize {
        self.pieces.iter().map(|piece| piece.rows.len()).max().unwrap_or(0)
    }

    /// The number of first states that were found, component by component.
    pub fn first_states(&self) -> usize {
        self.pieces.iter().flat_map(|piece| &piece.held).filter(|held| !**held).count()
    }

    /// Rows that no parameter would make possible.
    fn check(&self, spec: &ModelSpec, filter: &FilterSpec) -> Result<(), FitError> {
        let problem = spec.problem()?;
        let density = self.density(&self.cov).map_err(SpecError::from)?;
        for (series, data) in self.data.iter().enumerate() {
            let wrong = |error| FitError::Filter { series, error };
            problem.check_times(filter, &data.steps).map_err(SpecError::new)?;
            for (row, step) in data.steps.iter().enumerate() {
                let index = step.index;
                let infinite = |v: &[f64], is: fn(&f64) -> bool| v.iter().position(is);
                if let Some(component) = infinite(data.input(row), |v| !v.is_finite()) {
                    let index = Some(index);
                    return Err(wrong(FilterError::NotFinite { argument: "u", component, index }));
                }
                for (component, &value) in data.output(row).iter().enumerate() {
                    if !(value.is_nan() || density.admits(component, value)) {
                        return Err(wrong(FilterError::Impossible { index, component, value }));
                    }
                }
            }
        }
        Ok(())
    }

    /// The windows of a series, each guessed from the end of the one before it.
    fn cut(
        &self,
        spec: &ModelSpec,
        series: usize,
        length: usize,
    ) -> Result<Vec<Piece>, FilterError> {
        let data = &self.data[series];
        let values: Vec<f64> = self.quantities.iter().map(|q| q.start).collect();
        let (theta, cov) = self.setting(&values);
        let density = self.density(&cov)?;
        let (n, mut guess) = (spec.states.len(), spec.initial_mean.clone());
        let (mut first, mut out) = (0, Vec::new());
        while first < data.len() {
            let rows = first..first.saturating_add(length).min(data.len());
            // What a file says to be known at the start of a series is known there, and nowhere else.
            let known = |i: usize| first == 0 && self.std[i] == 0.0 && !spec.diffuse[i];
            let held: Vec<bool> = (0..n).map(known).collect();
            let mut piece = Piece { series, rows, held, guess: guess.clone() };
            let rows = self.rows(&piece);
            if piece.is_measured(data) {
                let begin = piece.begin(&self.std);
                piece.guess = best_start(&self.family, &theta, &density, &begin, &rows)?;
                let end = end_of_path(&self.family, &theta, &piece.guess, &rows);
                let next = data.steps.get(piece.rows.end).map(|&step| {
                    let row = piece.rows.end;
                    [Row { y: data.output(row), u: data.input(row), step, predict: true }]
                });
                guess = match next {
                    Some(next) => end_of_path(&self.family, &theta, &end, &next),
                    None => end,
                };
                first = piece.rows.end;
                out.push(piece);
            } else {
                first = piece.rows.end;
            }
            if !guess.iter().all(|v| v.is_finite()) {
                guess.clone_from(&spec.initial_mean);
            }
        }
        Ok(out)
    }

    fn rows(&self, piece: &Piece) -> Vec<Row<'a>> {
        let data = &self.data[piece.series];
        let row = |row: usize| Row {
            y: data.output(row),
            u: data.input(row),
            step: data.steps[row],
            predict: row > piece.rows.start || (row == 0 && self.predict_first),
        };
        piece.rows.clone().map(row).collect()
    }

    /// Parameters and R at values of what is free.
    fn setting<S: Scalar>(&self, values: &[S]) -> (Vec<S>, DMatrix<S>) {
        let (mut theta, mut cov) = (Vec::new(), self.cov.map(S::from_f64));
        for (quantity, &value) in self.quantities.iter().zip(values) {
            match quantity.target {
                Target::Parameter(_) => theta.push(value),
                Target::Measurement(i) => vary(&mut cov, i, value),
                Target::Process(_) | Target::Mean(_) => {}
            }
        }
        (theta, cov)
    }

    fn density<S: Scalar>(&self, cov: &DMatrix<S>) -> Result<Density<S>, FilterError> {
        let cov = cov.map(|v| v.scale(self.scale));
        match &self.components {
            None => Density::gaussian(cov),
            Some(parts) => {
                let quantity = "measurement covariance";
                let wrong = FilterError::NotPositiveDefinite { quantity, index: None };
                Density::independent(parts, &cov).map_err(|_| wrong)
            }
        }
    }

    /// Puts what is free of a known first state into it.
    fn place_start<S: Scalar>(&self, piece: &Piece, values: &[S], start: &mut [S]) {
        for (quantity, &value) in self.quantities.iter().zip(values) {
            if let Target::Mean(i) = quantity.target
                && piece.held[i]
            {
                start[i] = value;
            }
        }
    }

    /// The likelihood of all windows and its gradient by the values on the search's lines. The error is of the first series,
    /// from 0, that has no such path.
    pub fn gradient(&self, z: &[f64]) -> Result<(f64, Vec<f64>), (usize, FilterError)> {
        let values: Vec<f64> = self.quantities.iter().zip(z).map(|(q, &z)| q.value(z).0).collect();
        let (theta, cov) = self.setting(&values);
        let density = self.density(&cov).map_err(|e| (0, e))?;
        let chunks = z.len().div_ceil(WIDTH).max(1);
        let parts: Vec<_> = self
            .pieces
            .par_iter()
            .map(|piece| {
                let rows = self.rows(piece);
                let mut guess = piece.guess.clone();
                self.place_start(piece, &values, &mut guess);
                let begin = Begin { guess: &guess, std: &self.std, held: &piece.held };
                let best = best_start(&self.family, &theta, &density, &begin, &rows)?;
                (0..chunks)
                    .map(|chunk| self.slopes(z, chunk, (piece, &best), &rows))
                    .collect::<Result<Vec<_>, _>>()
            })
            .collect();
        let (mut sum, mut gradient) = (0.0, vec![0.0; z.len()]);
        for (piece, part) in self.pieces.iter().zip(parts) {
            for (chunk, part) in part.map_err(|e| (piece.series, e))?.into_iter().enumerate() {
                if chunk == 0 {
                    sum += part.re;
                }
                for (d, slope) in gradient.iter_mut().skip(chunk * WIDTH).take(WIDTH).enumerate() {
                    *slope += part.eps[d];
                }
            }
        }
        Ok((sum, gradient))
    }

    /// The likelihood of a window at a fixed first state, with its derivatives in the directions of a chunk.
    fn slopes(
        &self,
        z: &[f64],
        chunk: usize,
        (piece, best): (&Piece, &[f64]),
        rows: &[Row<'_>],
    ) -> Result<Dual<f64, WIDTH>, FilterError> {
        let seeded = |(j, (q, &z)): (usize, (&Quantity, &f64))| {
            q.variable::<WIDTH>(z, j.wrapping_sub(chunk * WIDTH))
        };
        let values: Vec<_> = self.quantities.iter().zip(z).enumerate().map(seeded).collect();
        let (theta, cov) = self.setting(&values);
        let mut start: Vec<_> = best.iter().map(|&v| Dual::constant(v)).collect();
        self.place_start(piece, &values, &mut start);
        along(&self.family, &theta, &self.density(&cov)?, &start, rows)
    }

    /// The place of values.
    pub fn place(&self, values: &[f64]) -> Vec<f64> {
        self.quantities.iter().zip(values).map(|(q, &v)| q.place(v)).collect()
    }
}

impl Piece {
    fn begin<'p>(&'p self, std: &'p [f64]) -> Begin<'p> {
        Begin { guess: &self.guess, std, held: &self.held }
    }

    fn is_measured(&self, data: &Dataset) -> bool {
        self.rows.clone().any(|row| data.output(row).iter().any(|v| !v.is_nan()))
    }
}

/// What the likelihood of windows cannot say.
fn refuse(
    spec: &ModelSpec,
    filter: &FilterSpec,
    window: Option<u32>,
    quantities: &[Quantity],
) -> Result<(), SpecError> {
    if filter.is_weak() {
        let message = "a path that may bend at every row fits any parameters, so that the likelihood of a window under a weak constraint \
             says nothing of them; fit by prediction, or leave the constraint strong";
        return Err(SpecError::of("constraint", message));
    }
    if window == Some(0) {
        let message = "a window of one row says nothing of how states move; give it past rows";
        return Err(SpecError::of("window", message));
    }
    if !spec.measurement_laws.is_empty() {
        let message = "measurement noise that is an expression cannot be fitted around yet; give it as numbers to be estimated";
        return Err(SpecError::new(message));
    }
    let counted = |i: usize| {
        let kind = spec.likelihoods.get(i);
        matches!(kind, Some(LikelihoodKind::Poisson { .. } | LikelihoodKind::Bernoulli { .. }))
    };
    for quantity in quantities {
        let why = match quantity.target {
            Target::Process(_) => {
                "the path through a window has no process noise; fit noise with kf, ekf, iekf or ukf"
            }
            Target::Measurement(i) if counted(i) => {
                "counts and zeros and ones have no scale of their own"
            }
            Target::Mean(i) if spec.initial_cov.variance(i) > 0.0 || spec.diffuse[i] => {
                "the first state of every window is found with the rest; only one that is known ([initial] std = 0) can be free"
            }
            _ => continue,
        };
        return Err(SpecError::of("criterion", format!("window: not `{}`: {why}", quantity.name)));
    }
    Ok(())
}

impl Landscape for Windows<'_> {
    fn quantities(&self) -> &[Quantity] {
        self.quantities()
    }
    fn quantities_mut(&mut self) -> &mut [Quantity] {
        &mut self.quantities
    }
    fn gradient(&self, z: &[f64]) -> Result<(f64, Vec<f64>), (usize, FilterError)> {
        self.gradient(z)
    }
}

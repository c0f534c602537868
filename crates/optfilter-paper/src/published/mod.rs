//! What was really run to make the paper's tables.
//!
//! This module shares no filter and no optimizer with the library: it is the released NumPy program, spelled out with all its [`quirks`],
//! and its purpose is to show that we understand every digit of the tables.

pub mod extended;
pub mod imap;
pub mod lanes;
pub mod model;
pub mod particle;
pub mod quirks;
pub mod simulate;
pub mod symmetric;
pub mod unscented;

use crate::grid::{self, Method, Rule};
use crate::stats::Summary;
use crate::systems::{Dynamics, System};
use lanes::V;
use model::{LORENZ_DT, Lorenz, Toy};
pub use quirks::Quirks;
use simulate::Data;

/// Variance of the process noise that the Lorenz filters assume.
pub fn lorenz_process_var(alpha: u32, quirks: &Quirks) -> f64 {
    let alpha = f64::from(alpha);
    if quirks.lorenz_process_covariance_linear {
        alpha * LORENZ_DT
    } else {
        alpha * alpha * LORENZ_DT
    }
}

/// The lanes of a block: consecutive (parameter, run) pairs. Lanes beyond the end repeat the last pair.
struct Pairs<const W: usize> {
    runs: usize,
    parameter: [usize; W],
    run: [usize; W],
}

impl<const W: usize> Pairs<W> {
    #[inline(always)]
    fn new(parameters: usize, runs: usize, first: usize) -> Self {
        let last = parameters * runs - 1;
        let mut out = Self { runs, parameter: [0; W], run: [0; W] };
        for l in 0..W {
            let pair = (first + l).min(last);
            out.parameter[l] = pair / runs;
            out.run[l] = pair % runs;
        }
        out
    }

    #[inline(always)]
    fn parameter(&self, values: &[f64]) -> V<W> {
        let mut out = V::splat(0.0);
        for l in 0..W {
            out.0[l] = values[self.parameter[l]];
        }
        out
    }

    /// The `t`-th group of `N` rows of an array with one row per component.
    #[inline(always)]
    fn rows<const N: usize>(&self, values: &[f64], t: usize) -> [V<W>; N] {
        let mut out = [V::splat(0.0); N];
        for c in 0..N {
            let row = &values[(t * N + c) * self.runs..][..self.runs];
            for l in 0..W {
                out[c].0[l] = row[self.run[l]];
            }
        }
        out
    }
}

/// One row of the grid.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What was run.
    pub method: Method,
    /// What came out.
    pub summary: Summary,
}

fn imap_rows<const N: usize, M: model::Model<N>>(
    model: M,
    data: &Data<N>,
    quirks: &Quirks,
    rows: &mut Vec<Row>,
) {
    for rule in Rule::ALL {
        for steps in grid::STEP_COUNTS {
            let configurations = grid::optimizers_of(rule, steps);
            let summaries = imap::imap(model, data, &configurations, quirks);
            rows.extend(
                configurations
                    .into_iter()
                    .zip(summaries)
                    .map(|(o, summary)| Row { method: Method::Imap(o), summary }),
            );
        }
    }
}

/// All rows of a toy system but the particle filter's.
pub fn toy_rows(q: u32, r: u32, data: &Data<1>, quirks: &Quirks) -> Vec<Row> {
    let model = Toy::new(quirks);
    let mut rows = Vec::new();
    let ekf = |iterations| Summary::of(&extended::toy(&model, data, q, r, iterations, quirks));
    rows.push(Row { method: Method::Ekf, summary: ekf(1) });
    for steps in grid::IEKF_STEPS {
        rows.push(Row { method: Method::Iekf { steps }, summary: ekf(steps) });
    }
    rows.push(Row {
        method: Method::Ukf,
        summary: Summary::of(&unscented::toy(&model, data, q, r, quirks)),
    });
    imap_rows(model, data, quirks, &mut rows);
    rows
}

/// All rows of a Lorenz system but the particle filter's.
pub fn lorenz_rows(alpha: u32, dynamics: Dynamics, data: &Data<3>, quirks: &Quirks) -> Vec<Row> {
    let model = Lorenz::new(dynamics, quirks);
    let q_var = [lorenz_process_var(alpha, quirks)];
    let mut rows = Vec::new();
    let ekf = |iterations| Summary::of(&extended::lorenz(model, data, &q_var, iterations, quirks));
    rows.push(Row { method: Method::Ekf, summary: ekf(1) });
    for steps in grid::IEKF_STEPS {
        rows.push(Row { method: Method::Iekf { steps }, summary: ekf(steps) });
    }
    rows.push(Row {
        method: Method::Ukf,
        summary: Summary::of(&unscented::lorenz(model, data, &q_var, quirks)),
    });
    imap_rows(model, data, quirks, &mut rows);
    let searched: Vec<f64> = (0..grid::Q_SEARCH).map(grid::q_search_value).collect();
    let ekf = extended::lorenz(model, data, &searched, 1, quirks);
    let ukf = unscented::lorenz(model, data, &searched, quirks);
    for (&q, rmses) in searched.iter().zip(ekf.chunks(data.runs)) {
        rows.push(Row { method: Method::EkfSearch { q }, summary: Summary::of(rmses) });
    }
    for (&q, rmses) in searched.iter().zip(ukf.chunks(data.runs)) {
        rows.push(Row { method: Method::UkfSearch { q }, summary: Summary::of(rmses) });
    }
    rows
}

/// The particle filters of toy systems, all at once because they share their random numbers.
pub fn toy_particle_rows(systems: &[(u32, u32, &Data<1>)], seed: u32, quirks: &Quirks) -> Vec<Row> {
    let model = Toy::new(quirks);
    let filters: Vec<_> = systems
        .iter()
        .map(|&(q, r, data)| (particle::ToyParticles::new(&model, q, r, quirks), data))
        .collect();
    particle_rows(&particle::rmses(&filters, seed, quirks))
}

/// The particle filters of Lorenz systems, all at once because they share their random numbers.
pub fn lorenz_particle_rows(
    systems: &[(u32, Dynamics, &Data<3>)],
    seed: u32,
    quirks: &Quirks,
) -> Vec<Row> {
    let filters: Vec<_> = systems
        .iter()
        .map(|&(alpha, dynamics, data)| {
            (particle::LorenzParticles::new(alpha, dynamics, quirks), data)
        })
        .collect();
    particle_rows(&particle::rmses(&filters, seed, quirks))
}

fn particle_rows(rmses: &[Vec<f64>]) -> Vec<Row> {
    rmses.iter().map(|rmses| Row { method: Method::Pf, summary: Summary::of(rmses) }).collect()
}

/// All rows of all given systems: a simple driver for tests; the runner does the same in pieces.
pub fn all_rows(
    systems: &[System],
    runs: usize,
    seed: u32,
    quirks: &Quirks,
) -> Vec<(System, Vec<Row>)> {
    let mut alphas: Vec<u32> = Vec::new();
    for system in systems {
        if let System::Lorenz { alpha, .. } = system
            && !alphas.contains(alpha)
        {
            alphas.push(*alpha);
        }
    }
    let lorenz_data = simulate::lorenz(&alphas, runs, seed, quirks);
    let mut out = Vec::new();
    for &system in systems {
        let rows = match system {
            System::Toy { q, r } => {
                let data = simulate::toy(q, r, runs, seed, quirks);
                let mut rows = toy_rows(q, r, &data, quirks);
                rows.extend(toy_particle_rows(&[(q, r, &data)], seed, quirks));
                rows
            }
            System::Lorenz { alpha, dynamics } => {
                let Some(at) = alphas.iter().position(|&a| a == alpha) else {
                    continue;
                };
                let data = &lorenz_data[at];
                let mut rows = lorenz_rows(alpha, dynamics, data, quirks);
                rows.extend(lorenz_particle_rows(&[(alpha, dynamics, data)], seed, quirks));
                rows
            }
        };
        out.push((system, rows));
    }
    out
}

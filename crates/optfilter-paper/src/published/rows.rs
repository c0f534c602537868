//! All rows of a system, as the published program would have made them.

use super::model::{Lorenz, Model, Toy, lorenz_process_var};
use super::particle::{LorenzParticles, ParticleModel, ToyParticles};
use super::quirks::Quirks;
use super::simulate::Data;
use super::{extended, imap, particle, unscented};
use crate::control::{Control, Stopped};
use crate::grid::{self, GridMethod, Rule};
use crate::row::Row;
use crate::stats::Summary;
use crate::systems::Dynamics;

fn imap_rows<const N: usize, M: Model<N>>(
    model: M,
    data: &Data<N>,
    quirks: &Quirks,
    control: &Control<'_>,
    rows: &mut Vec<Row>,
) -> Result<(), Stopped> {
    for rule in Rule::ALL {
        let groups = grid::STEP_COUNTS.map(|steps| grid::optimizers_of(rule, steps));
        let count: usize = groups.iter().map(Vec::len).sum();
        let work = work::IMAP * N as f64 * count as f64 / 287.0;
        let name = format!("published {}", rule.method());
        control.phase(&name, count, work, || {
            for configurations in groups {
                let summaries = imap::imap(model, data, &configurations, quirks);
                let methods = configurations.into_iter().map(GridMethod::Imap);
                rows.extend(methods.zip(summaries).map(|(m, s)| Row::new(m, s)));
            }
        })?;
    }
    Ok(())
}

/// Rough seconds of work on two cores, for the progress bar only.
pub mod work {
    /// The 287 optimizers, per component of the state.
    pub const IMAP: f64 = 0.55;
    /// EKF and IEKF.
    pub const EXTENDED: f64 = 0.02;
    /// UKF.
    pub const UNSCENTED: f64 = 0.01;
    /// One Q search with the EKF.
    pub const EKF_SEARCH: f64 = 0.25;
    /// One Q search with the UKF.
    pub const UKF_SEARCH: f64 = 0.6;
    /// One toy particle filter.
    pub const TOY_PARTICLES: f64 = 0.5;
    /// One Lorenz particle filter.
    pub const LORENZ_PARTICLES: f64 = 0.7;
    /// Everything of a toy system.
    pub const TOY: f64 = IMAP + EXTENDED + UNSCENTED;
    /// Everything of a Lorenz system.
    pub const LORENZ: f64 = 3.0 * IMAP + EXTENDED + UNSCENTED + EKF_SEARCH + UKF_SEARCH;
}

/// All rows of a toy system but the particle filter's.
pub fn toy_rows(
    (q, r): (u32, u32),
    data: &Data<1>,
    quirks: &Quirks,
    control: &Control<'_>,
) -> Result<Vec<Row>, Stopped> {
    let model = Toy::new(quirks);
    let mut rows = Vec::new();
    control.phase("published EKF, IEKF", 7, work::EXTENDED, || {
        let ekf = |iterations| Summary::of(&extended::toy(&model, data, q, r, iterations, quirks));
        rows.push(Row::new(GridMethod::Ekf, ekf(1)));
        rows.extend(grid::IEKF_STEPS.map(|steps| Row::new(GridMethod::Iekf { steps }, ekf(steps))));
    })?;
    control.phase("published UKF", 1, work::UNSCENTED, || {
        let ukf = Summary::of(&unscented::toy(&model, data, q, r, quirks));
        rows.push(Row::new(GridMethod::Ukf, ukf));
    })?;
    imap_rows(model, data, quirks, control, &mut rows)?;
    Ok(rows)
}

/// All rows of a Lorenz system but the particle filter's.
pub fn lorenz_rows(
    (alpha, dynamics): (u32, Dynamics),
    data: &Data<3>,
    quirks: &Quirks,
    control: &Control<'_>,
) -> Result<Vec<Row>, Stopped> {
    let model = Lorenz::new(dynamics, quirks);
    let q_var = [lorenz_process_var(alpha, quirks)];
    let mut rows = Vec::new();
    control.phase("published EKF, IEKF", 7, work::EXTENDED, || {
        let ekf = |k| Summary::of(&extended::lorenz(model, data, &q_var, k, quirks));
        rows.push(Row::new(GridMethod::Ekf, ekf(1)));
        rows.extend(grid::IEKF_STEPS.map(|steps| Row::new(GridMethod::Iekf { steps }, ekf(steps))));
    })?;
    control.phase("published UKF", 1, work::UNSCENTED, || {
        let ukf = Summary::of(&unscented::lorenz(model, data, &q_var, quirks));
        rows.push(Row::new(GridMethod::Ukf, ukf));
    })?;
    imap_rows(model, data, quirks, control, &mut rows)?;
    let searched: Vec<f64> = (0..grid::Q_SEARCH).map(grid::q_search_value).collect();
    control.phase("published Q search, EKF", searched.len(), work::EKF_SEARCH, || {
        let rmses = extended::lorenz(model, data, &searched, 1, quirks);
        for (&q, rmses) in searched.iter().zip(rmses.chunks(data.runs)) {
            rows.push(Row::new(GridMethod::EkfSearch { q }, Summary::of(rmses)));
        }
    })?;
    control.phase("published Q search, UKF", searched.len(), work::UKF_SEARCH, || {
        let rmses = unscented::lorenz(model, data, &searched, quirks);
        for (&q, rmses) in searched.iter().zip(rmses.chunks(data.runs)) {
            rows.push(Row::new(GridMethod::UkfSearch { q }, Summary::of(rmses)));
        }
    })?;
    Ok(rows)
}

/// The particle filters of toy systems, all at once because they share their random numbers.
pub fn toy_particle_rows(
    systems: &[(u32, u32, &Data<1>)],
    seed: u32,
    quirks: &Quirks,
    control: &Control<'_>,
) -> Result<Vec<Row>, Stopped> {
    let model = Toy::new(quirks);
    let filters: Vec<_> = systems
        .iter()
        .map(|&(q, r, data)| (ToyParticles::new(&model, q, r, quirks), data))
        .collect();
    let work = work::TOY_PARTICLES * systems.len() as f64;
    particle_rows(&filters, seed, quirks, work, control)
}

/// The particle filters of Lorenz systems, all at once because they share their random numbers.
pub fn lorenz_particle_rows(
    systems: &[(u32, Dynamics, &Data<3>)],
    seed: u32,
    quirks: &Quirks,
    control: &Control<'_>,
) -> Result<Vec<Row>, Stopped> {
    let filters: Vec<_> = systems
        .iter()
        .map(|&(alpha, dynamics, data)| {
            let filter = LorenzParticles::new(alpha, dynamics, quirks);
            (filter, data)
        })
        .collect();
    let work = work::LORENZ_PARTICLES * systems.len() as f64;
    particle_rows(&filters, seed, quirks, work, control)
}

fn particle_rows<const N: usize, P: ParticleModel<N>>(
    filters: &[(P, &Data<N>)],
    seed: u32,
    quirks: &Quirks,
    work: f64,
    control: &Control<'_>,
) -> Result<Vec<Row>, Stopped> {
    control.phase("published PF", filters.len(), work, || {
        particle::rmses(filters, seed, quirks, &|| control.stopped())
            .iter()
            .map(|rmses| Row::new(GridMethod::Pf, Summary::of(rmses)))
            .collect()
    })
}

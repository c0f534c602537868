//! What each quirk alone did to the headline cells.
//!
//! The headline cells are those of the toy system with Q = 3, R = 2 and of the Lorenz system with alpha = 10 and RK4, with the
//! configurations that the paper reports. For each quirk, every cell it can reach is computed again with that one switched off.

use super::model::{Lorenz, Toy, lorenz_process_var};
use super::particle::{LorenzParticles, ToyParticles};
use super::quirks::{Part, QUIRKS, Quirk, Quirks};
use super::simulate::{self, Data};
use super::{extended, imap, particle, unscented};
use crate::control::{Control, Stopped};
use crate::grid::{self, GridMethod, Optimizer, Rule};
use crate::stats::Summary;
use crate::systems::Dynamics;

const Q: u32 = 3;
const R: u32 = 2;
const ALPHA: u32 = 10;
/// Runs on which a search chooses when it does not choose on those it reports.
const TUNING_RUNS: usize = 5;

/// A cell of the two headline systems.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Headline {
    /// `toy` or `lorenz`.
    pub system: &'static str,
    /// The method; a Q search stands for the best of its values.
    pub method: GridMethod,
}

impl Headline {
    /// A short name such as `IMAP-Adam (50, 0.1, 0.1)`.
    pub fn name(&self) -> String {
        match self.method {
            GridMethod::EkfSearch { .. } => "EKF-optimized".into(),
            GridMethod::UkfSearch { .. } => "UKF-optimized".into(),
            _ => {
                let parameters: Vec<String> =
                    self.method.parameters().into_iter().filter(|p| !p.is_empty()).collect();
                if parameters.is_empty() {
                    self.method.name().into()
                } else {
                    format!("{} ({})", self.method.name(), parameters.join(", "))
                }
            }
        }
    }

    /// Whether a quirk can change the cell.
    fn within(&self, quirk: &Quirk) -> bool {
        let toy = self.system == "toy";
        let parts: &[Part] = match self.method {
            GridMethod::Ekf | GridMethod::Iekf { .. } if toy => &[Part::ToyExtended],
            GridMethod::Ekf | GridMethod::Iekf { .. } => &[Part::LorenzExtended, Part::LorenzNoise],
            GridMethod::EkfSearch { .. } => &[Part::LorenzExtended, Part::Search],
            GridMethod::Ukf if toy => &[Part::ToyUnscented],
            GridMethod::Ukf => &[Part::LorenzUnscented, Part::LorenzNoise],
            GridMethod::UkfSearch { .. } => &[Part::LorenzUnscented, Part::Search],
            GridMethod::Pf if toy => &[Part::ToyParticles],
            GridMethod::Pf => &[Part::LorenzParticles, Part::LorenzNoise],
            GridMethod::Imap(o) => match o.rule {
                Rule::Adam => &[Part::Adam],
                Rule::RmsProp => &[Part::RmsProp],
                Rule::Adadelta => &[Part::Adadelta],
                Rule::Gd | Rule::Adagrad => &[],
            },
        };
        let system = if toy { Part::Toy } else { Part::Lorenz };
        let reach = quirk.reach;
        let drawn = reach.contains(&Part::Start) && self.method != GridMethod::Pf;
        drawn || reach.contains(&system) || parts.iter().any(|part| reach.contains(part))
    }
}

/// All headline cells.
pub fn headlines() -> Vec<Headline> {
    let imap = |rule, steps, lr, decay| GridMethod::Imap(Optimizer { rule, steps, lr, decay });
    let toy = [
        GridMethod::Ekf,
        GridMethod::Iekf { steps: 5 },
        imap(Rule::Adadelta, 100, None, None),
        imap(Rule::Gd, 3, Some(0.1), None),
        imap(Rule::Adagrad, 25, Some(0.5), None),
        imap(Rule::RmsProp, 50, Some(0.1), Some(0.1)),
        imap(Rule::Adam, 50, Some(0.1), Some(0.1)),
        GridMethod::Ukf,
        GridMethod::Pf,
    ];
    let lorenz = [
        GridMethod::Ekf,
        GridMethod::EkfSearch { q: 0.0 },
        GridMethod::Iekf { steps: 5 },
        imap(Rule::Adadelta, 3, None, None),
        imap(Rule::Gd, 3, Some(0.05), None),
        imap(Rule::Adagrad, 10, Some(0.1), None),
        imap(Rule::RmsProp, 10, Some(0.05), Some(0.9)),
        imap(Rule::Adam, 5, Some(0.05), Some(0.9)),
        GridMethod::Ukf,
        GridMethod::UkfSearch { q: 0.0 },
        GridMethod::Pf,
    ];
    let of = |system| move |method| Headline { system, method };
    toy.into_iter().map(of("toy")).chain(lorenz.into_iter().map(of("lorenz"))).collect()
}

/// One quirk's effect on one cell.
#[derive(Clone, Debug)]
pub struct Effect {
    /// Name of the quirk.
    pub quirk: &'static str,
    /// The cell.
    pub cell: Headline,
    /// Its value in the published protocol.
    pub published: Summary,
    /// Its value with this quirk alone switched off.
    pub without: Summary,
}

/// Trajectories of the two headline systems, made when first asked for.
struct Simulated {
    runs: usize,
    seed: u32,
    quirks: Quirks,
    toy: Option<Data<1>>,
    lorenz: Option<Data<3>>,
    tuning: Option<Data<3>>,
}

impl Simulated {
    fn new(runs: usize, seed: u32, quirks: Quirks) -> Self {
        Self { runs, seed, quirks, toy: None, lorenz: None, tuning: None }
    }

    fn toy(&mut self) -> &Data<1> {
        let Self { runs, seed, quirks, toy, .. } = self;
        toy.get_or_insert_with(|| simulate::toy(Q, R, *runs, *seed, quirks))
    }

    fn lorenz(&mut self) -> &Data<3> {
        let Self { runs, seed, quirks, lorenz, .. } = self;
        lorenz.get_or_insert_with(|| lorenz_data(*runs, *seed, quirks))
    }

    fn tuning(&mut self) -> &Data<3> {
        let Self { runs, seed, quirks, tuning, .. } = self;
        let other = simulate::seed_of(*seed, *runs);
        tuning.get_or_insert_with(|| lorenz_data(TUNING_RUNS, other, quirks))
    }

    fn cell(&mut self, cell: &Headline, stopped: &(dyn Fn() -> bool + Sync)) -> Summary {
        let (seed, quirks) = (self.seed, self.quirks);
        let q_var = [lorenz_process_var(ALPHA, &quirks)];
        let toy = Toy::new(&quirks);
        let lorenz = Lorenz::new(Dynamics::Rk4, &quirks);
        let iterations = match cell.method {
            GridMethod::Iekf { steps } => steps,
            _ => 1,
        };
        let rmses = match (cell.system, cell.method) {
            ("toy", GridMethod::Ekf | GridMethod::Iekf { .. }) => {
                extended::toy(&toy, self.toy(), Q, R, iterations, &quirks)
            }
            ("toy", GridMethod::Imap(o)) => return imap::imap(toy, self.toy(), &[o], &quirks)[0],
            ("toy", GridMethod::Ukf) => unscented::toy(&toy, self.toy(), Q, R, &quirks),
            ("toy", _) => {
                let filter = ToyParticles::new(&toy, Q, R, &quirks);
                particle::rmses(&[(filter, self.toy())], seed, &quirks, stopped).concat()
            }
            (_, GridMethod::Ekf | GridMethod::Iekf { .. }) => {
                extended::lorenz(lorenz, self.lorenz(), &q_var, iterations, &quirks)
            }
            (_, GridMethod::Imap(o)) => return imap::imap(lorenz, self.lorenz(), &[o], &quirks)[0],
            (_, GridMethod::Ukf) => unscented::lorenz(lorenz, self.lorenz(), &q_var, &quirks),
            (_, GridMethod::Pf) => {
                let filter = LorenzParticles::new(ALPHA, Dynamics::Rk4, &quirks);
                particle::rmses(&[(filter, self.lorenz())], seed, &quirks, stopped).concat()
            }
            (_, GridMethod::EkfSearch { .. }) => {
                return self.search(|data, q| extended::lorenz(lorenz, data, q, 1, &quirks));
            }
            (_, GridMethod::UkfSearch { .. }) => {
                return self.search(|data, q| unscented::lorenz(lorenz, data, q, &quirks));
            }
        };
        Summary::of(&rmses)
    }

    /// The best of the Q values; NaN if all diverged.
    fn search(&mut self, filter: impl Fn(&Data<3>, &[f64]) -> Vec<f64>) -> Summary {
        let values: Vec<f64> = (0..grid::Q_SEARCH).map(grid::q_search_value).collect();
        let summaries = |data: &Data<3>, values: &[f64]| -> Vec<Summary> {
            filter(data, values).chunks(data.runs).map(Summary::of).collect()
        };
        let best = |summaries: &[Summary]| {
            (0..summaries.len())
                .filter(|&i| summaries[i].in_search())
                .min_by(|&a, &b| summaries[a].rmse.total_cmp(&summaries[b].rmse))
                .unwrap_or(0)
        };
        if self.quirks.q_search_in_sample {
            let all = summaries(self.lorenz(), &values);
            all[best(&all)]
        } else {
            let chosen = best(&summaries(self.tuning(), &values));
            summaries(self.lorenz(), &values[chosen..=chosen])[0]
        }
    }
}

fn lorenz_data(runs: usize, seed: u32, quirks: &Quirks) -> Data<3> {
    simulate::lorenz(&[ALPHA], runs, seed, quirks).swap_remove(0)
}

/// Work for the progress bar, in rough seconds.
pub const WORK: f64 = 14.0;

/// Every quirk with every headline cell it reaches, without numbers.
pub fn reached(families: &[&str]) -> Vec<Effect> {
    let nothing = Summary { rmse: f64::NAN, ci: f64::NAN, diverged: 0 };
    let mut out = Vec::new();
    for quirk in QUIRKS {
        for cell in headlines() {
            if families.contains(&cell.system) && cell.within(quirk) {
                out.push(Effect { quirk: quirk.name, cell, published: nothing, without: nothing });
            }
        }
    }
    out
}

/// The effect of every quirk on every headline cell it reaches.
///
/// `known` gives the published value of a cell where it is known already.
pub fn effects(
    runs: usize,
    seed: u32,
    families: &[&str],
    known: impl Fn(&Headline) -> Option<Summary>,
    control: &Control<'_>,
) -> Result<Vec<Effect>, Stopped> {
    let stopped = || control.stopped();
    let mut published = Simulated::new(runs, seed, Quirks::PUBLISHED);
    let mut out = Vec::new();
    for quirk in QUIRKS {
        control.phase("quirks one by one", 1, WORK / QUIRKS.len() as f64, || {
            let mut without = Simulated::new(runs, seed, quirk.alone_off());
            for cell in headlines() {
                if !families.contains(&cell.system) || !cell.within(quirk) || stopped() {
                    continue;
                }
                let before = known(&cell).unwrap_or_else(|| published.cell(&cell, &stopped));
                let after = without.cell(&cell, &stopped);
                out.push(Effect { quirk: quirk.name, cell, published: before, without: after });
            }
        })?;
    }
    Ok(out)
}

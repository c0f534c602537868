//! The paper's conclusions, counted in both protocols.
//!
//! Each is a statement about single systems; what is reported is in how many systems it is true. A difference counts only where the two intervals do not overlap.

use crate::outcome::{Cell, Outcome};
use crate::protocol::Protocol;
use crate::stats::Summary;
use crate::systems::{Dynamics, System};

/// A statement of the paper and how often it is true.
pub struct Conclusion {
    /// The statement.
    pub claim: &'static str,
    /// Systems in which it is true, and systems looked at, in the published protocol.
    pub published: (usize, usize),
    /// The same in the specified protocol.
    pub specified: (usize, usize),
}

impl Conclusion {
    /// In words, for the specified protocol.
    pub fn verdict(&self) -> &'static str {
        match self.specified {
            (_, 0) => "not run",
            (yes, all) if yes == all => "holds",
            (0, _) => "does not hold",
            (yes, all) if 3 * yes >= 2 * all => "holds mostly",
            (yes, all) if 3 * yes <= all => "mostly does not hold",
            _ => "holds in part",
        }
    }
}

/// The cells of one system in one protocol.
struct View<'a> {
    cells: Vec<&'a Cell>,
}

impl View<'_> {
    fn get(&self, method: &str) -> Option<Summary> {
        let cell = self.cells.iter().find(|c| c.printed.method == method)?;
        Some(cell.row.summary)
    }

    /// The best implicit filter among the named optimizers.
    fn best(&self, methods: &[&str]) -> Option<Summary> {
        let found = methods.iter().filter_map(|m| self.get(m));
        found.filter(Summary::in_search).min_by(|a, b| a.rmse.total_cmp(&b.rmse))
    }
}

/// Clearly smaller: the intervals do not overlap. A diverged filter is worse than any other.
fn better(a: Summary, b: Summary) -> bool {
    if a.diverged > 0 {
        return false;
    }
    b.diverged > 0 || a.rmse + a.ci < b.rmse - b.ci
}

fn not_worse(a: Summary, b: Summary) -> bool {
    a.diverged == 0 && !better(b, a)
}

const ADAPTIVE: [&str; 2] = ["IMAP-RMSprop", "IMAP-Adam"];
const IMPLICIT: [&str; 5] =
    ["IMAP-Adam", "IMAP-RMSprop", "IMAP-GD", "IMAP-Adagrad", "IMAP-Adadelta"];

type Test = fn(&View<'_>) -> Option<bool>;

/// All statements, with the systems they are about.
fn statements() -> Vec<(&'static str, Vec<System>, Test)> {
    let toy = System::toy();
    let of_q = |strong: bool| {
        let wanted = |s: &System| matches!(s, System::Toy { q, .. } if (*q == 5) == strong);
        toy.iter().copied().filter(wanted).collect::<Vec<_>>()
    };
    let of = |wanted: Dynamics| {
        let of = |s: &System| matches!(s, System::Lorenz { dynamics, .. } if *dynamics == wanted);
        System::lorenz().into_iter().filter(of).collect::<Vec<_>>()
    };
    vec![
        (
            "Toy system: the EKF and the IEKF do clearly worse than the implicit filter with Adam or RMSprop",
            toy.clone(),
            |v| {
                let ours = v.best(&ADAPTIVE)?;
                Some(better(ours, v.get("EKF")?) && better(ours, v.get("IEKF")?))
            },
        ),
        ("Toy system, Q = 1 and 3: Adam or RMSprop are no worse than the UKF", of_q(false), |v| {
            Some(not_worse(v.best(&ADAPTIVE)?, v.get("UKF")?))
        }),
        ("Toy system, Q = 5: Adam or RMSprop beat the UKF", of_q(true), |v| {
            Some(better(v.best(&ADAPTIVE)?, v.get("UKF")?))
        }),
        ("Toy system: the particle filter is best of all", toy, |v| {
            let others = ["EKF", "IEKF", "UKF"].into_iter().chain(IMPLICIT);
            let pf = v.get("PF")?;
            Some(others.filter_map(|m| v.get(m)).all(|o| better(pf, o)))
        }),
        (
            "Lorenz: gradient descent equals the EKF with optimized Q (their intervals overlap)",
            System::lorenz(),
            |v| {
                let (gd, ekf) = (v.get("IMAP-GD")?, v.get("EKF-optimized")?);
                Some(not_worse(gd, ekf) && not_worse(ekf, gd))
            },
        ),
        (
            "Lorenz: gradient descent is clearly better than the EKF with the system's own Q",
            System::lorenz(),
            |v| Some(better(v.get("IMAP-GD")?, v.get("EKF")?)),
        ),
        (
            "Lorenz: gradient descent is clearly better than the UKF, even with optimized Q",
            System::lorenz(),
            |v| Some(better(v.get("IMAP-GD")?, v.get("UKF-optimized")?)),
        ),
        (
            "Lorenz: gradient descent is clearly better than the particle filter",
            System::lorenz(),
            |v| Some(better(v.get("IMAP-GD")?, v.get("PF")?)),
        ),
        ("Lorenz with RK4: gradient descent is the best optimizer", of(Dynamics::Rk4), |v| {
            let gd = v.get("IMAP-GD")?;
            Some(IMPLICIT.iter().filter_map(|m| v.get(m)).all(|o| not_worse(gd, o)))
        }),
        (
            "Lorenz with RK4: clearly better than the raw measurements (deviation 2 published, 1.41 specified)",
            of(Dynamics::Rk4),
            |v| {
                let gd = v.get("IMAP-GD")?;
                Some(gd.diverged == 0 && gd.rmse + gd.ci < v.raw()?)
            },
        ),
    ]
}

impl View<'_> {
    /// Deviation of the Lorenz measurement noise, which is the error of believing the measurement.
    fn raw(&self) -> Option<f64> {
        Some(match self.cells.first()?.protocol {
            Protocol::Published => 2.0,
            Protocol::Specified => 2.0_f64.sqrt(),
        })
    }
}

/// Count every statement in both protocols; statements about systems that were not run are left out.
pub fn conclusions(outcome: &Outcome) -> Vec<Conclusion> {
    let view = |protocol: Protocol, system: &System| View {
        cells: outcome
            .cells
            .iter()
            .filter(|c| {
                c.protocol == protocol
                    && c.printed.table.starts_with("experiment")
                    && c.printed.is_of(system)
            })
            .collect(),
    };
    statements()
        .into_iter()
        .map(|(claim, systems, test)| {
            let count = |protocol: Protocol| {
                let results = systems.iter().filter_map(|s| test(&view(protocol, s)));
                let results: Vec<bool> = results.collect();
                (results.iter().filter(|r| **r).count(), results.len())
            };
            Conclusion {
                claim,
                published: count(Protocol::Published),
                specified: count(Protocol::Specified),
            }
        })
        .filter(|c| c.published.1 + c.specified.1 > 0)
        .collect()
}

//! What came out: every row of every system, and every printed cell next to ours.

use crate::cells::{DataError, Judge, Printed, Verdict, printed};
use crate::control::Phase;
use crate::protocol::Protocol;
use crate::published::effects::Effect;
use crate::row::Row;
use crate::systems::System;
use std::time::Duration;

/// All rows of one system in one protocol.
#[derive(Clone, Debug)]
pub struct SystemRows {
    /// The protocol.
    pub protocol: Protocol,
    /// The system.
    pub system: System,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A printed cell next to ours.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The protocol of our value.
    pub protocol: Protocol,
    /// The paper's cell.
    pub printed: Printed,
    /// Our configuration and value.
    pub row: Row,
    /// How they compare.
    pub verdict: Verdict,
    /// Why, where not exact.
    pub reason: String,
}

/// All that came out.
pub struct Outcome {
    /// Every configuration.
    pub grid: Vec<SystemRows>,
    /// Every printed cell, by protocol.
    pub cells: Vec<Cell>,
    /// Effect of each quirk.
    pub effects: Vec<Effect>,
    /// Number of runs behind [`Outcome::effects`].
    pub effect_runs: usize,
    /// Where the time went.
    pub phases: Vec<Phase>,
    /// Time of this run.
    pub time: Duration,
    /// Pieces that an earlier, interrupted run had finished; their time is not in [`Outcome::time`].
    pub taken_over: usize,
}

impl Outcome {
    /// Number of exact cells and of all cells of the published protocol.
    pub fn exact(&self) -> (usize, usize) {
        let published = self.cells.iter().filter(|c| c.protocol == Protocol::Published);
        let exact = published.clone().filter(|c| c.verdict == Verdict::Exact);
        (exact.count(), published.count())
    }
}

/// Put our values next to the printed ones.
pub fn compare(grid: &[SystemRows]) -> Result<Vec<Cell>, DataError> {
    let judge = Judge::new()?;
    let printed = printed()?;
    let mut out = Vec::new();
    for protocol in [Protocol::Published, Protocol::Specified] {
        for cell in &printed {
            let Some(system) =
                grid.iter().find(|s| s.protocol == protocol && cell.is_of(&s.system))
            else {
                continue;
            };
            let row = match protocol {
                Protocol::Published => cell.find(&system.rows),
                Protocol::Specified => cell.find_tuned(&system.rows),
            };
            let Some(row) = row else { continue };
            let (value, ci) = (row.summary.rmse, row.summary.ci);
            let (verdict, reason) = match protocol {
                Protocol::Published => judge.published(cell, value, ci),
                Protocol::Specified => (judge.specified(cell, value, ci), String::new()),
            };
            out.push(Cell { protocol, printed: cell.clone(), row: *row, verdict, reason });
        }
    }
    Ok(out)
}

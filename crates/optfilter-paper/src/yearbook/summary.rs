//! The table and the figures of the experiment.
//!
//! A cell is the mean over seeds for each year, then the mean over the 40 years of a block, with the half-width
//! 1.96 std / sqrt(years) over those years. Of the configurations of a method the one with the best mean validation
//! accuracy over 1931 to 1970 is reported.

use super::method::YearbookMethod;
use super::store::Row;
use crate::cells::Printed;
use crate::protocol::Protocol;

/// Last year whose validation images count for the choice, and last year of the first block.
pub const LAST_TUNING_YEAR: i32 = 1970;

/// Mean and half-width, percent.
pub type Interval = (f64, f64);

/// One configuration of a method in the table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// The protocol.
    pub protocol: Protocol,
    /// The method with its configuration.
    pub method: YearbookMethod,
    /// Mean and half-width over the years to 1970, percent.
    pub validation_block: Interval,
    /// Mean and half-width over the years from 1971 on, percent; NaN if there are none.
    pub test_block: Interval,
    /// Mean accuracy on the validation images to 1970.
    pub val_accuracy: f64,
    /// Whether it is its method's best on the validation images.
    pub selected: bool,
    /// The paper's cells for this method: (mean, half-width) of both blocks.
    pub paper: Option<[Interval; 2]>,
}

/// One curve of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// For the legend.
    pub label: String,
    /// Year, mean accuracy over seeds, half-width of the mean over seeds.
    pub points: Vec<(i32, f64, f64)>,
}

impl Curve {
    /// Year and mean accuracy.
    pub fn accuracies(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.points.iter().map(|&(year, accuracy, _)| (f64::from(year), accuracy))
    }
}

/// Accuracy over the years, as one figure of the paper shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// Number in the paper: 6, 7 or 8.
    pub number: u32,
    /// The protocol.
    pub protocol: Protocol,
    /// What it shows.
    pub title: &'static str,
    /// Its curves.
    pub lines: Vec<Curve>,
}

/// The printed cells of a configuration: the years to 1970, and those from 1971 on.
fn paper(printed: &[Printed], method: &YearbookMethod) -> Option<[Interval; 2]> {
    let steps = method.steps().map(|k| k.to_string()).unwrap_or_default();
    let block = |name: &str| {
        let mut cells = printed.iter().filter(|c| c.system == "yearbook" && c.dynamics == name);
        cells.find(|c| c.method == method.name() && c.steps == steps).map(Printed::interval)
    };
    Some([block("validation")?, block("test")?])
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Mean and 1.96 std / sqrt(n), with the standard deviation of the population.
fn interval(values: &[f64]) -> Interval {
    let m = mean(values);
    let var = values.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / values.len() as f64;
    (m, 1.96 * (var / values.len() as f64).sqrt())
}

/// All rows of one configuration, by year.
fn by_year(rows: &[Row], protocol: Protocol, method: YearbookMethod) -> Vec<(i32, Vec<&Row>)> {
    let mut years: Vec<(i32, Vec<&Row>)> = Vec::new();
    for row in rows.iter().filter(|r| r.protocol == protocol && r.method == method) {
        match years.iter_mut().find(|(year, _)| *year == row.result.year) {
            Some((_, rows)) => rows.push(row),
            None => years.push((row.result.year, vec![row])),
        }
    }
    years.sort_by_key(|(year, _)| *year);
    years
}

/// The table, in the order in which the configurations first appear.
pub(super) fn table(rows: &[Row], printed: &[Printed]) -> Vec<TableRow> {
    let mut table: Vec<TableRow> = Vec::new();
    for row in rows {
        if table.iter().any(|t| t.protocol == row.protocol && t.method == row.method) {
            continue;
        }
        let years = by_year(rows, row.protocol, row.method);
        let block = |late: bool| {
            let of = years.iter().filter(|(year, _)| (*year > LAST_TUNING_YEAR) == late);
            interval(
                &of.map(|(_, r)| mean(&r.iter().map(|r| r.result.accuracy).collect::<Vec<_>>()))
                    .collect::<Vec<_>>(),
            )
        };
        let tuning = years.iter().filter(|(year, _)| *year <= LAST_TUNING_YEAR);
        let validation: Vec<f64> =
            tuning.flat_map(|(_, r)| r.iter().filter_map(|r| r.result.val_accuracy)).collect();
        table.push(TableRow {
            protocol: row.protocol,
            method: row.method,
            validation_block: block(false),
            test_block: block(true),
            val_accuracy: mean(&validation),
            selected: false,
            paper: paper(printed, &row.method),
        });
    }
    for i in 0..table.len() {
        let rivals = table.iter().filter(|t| {
            t.protocol == table[i].protocol && t.method.name() == table[i].method.name()
        });
        let best = rivals.map(|t| t.val_accuracy).fold(f64::NEG_INFINITY, f64::max);
        // The first of equal ones.
        let first = table[..i].iter().all(|t| {
            t.protocol != table[i].protocol
                || t.method.name() != table[i].method.name()
                || t.val_accuracy < best
        });
        table[i].selected = first && table[i].val_accuracy >= best;
    }
    table
}

/// Figures 6 (implicit MAP), 7 (particle filter) and 8 (variational filter) of each protocol in the table.
pub(super) fn curves(rows: &[Row], table: &[TableRow]) -> Vec<Curves> {
    let kinds = [
        (6, "Implicit MAP filter (Adam), by number of steps K", "IMAP-Adam"),
        (7, "Particle filter, by transition variance", "PF"),
        (8, "Variational Kalman filter, by transition variance", "VKF"),
    ];
    let mut figures = Vec::new();
    for protocol in [Protocol::Published, Protocol::Specified] {
        for (number, title, name) in kinds {
            let shown = |t: &&TableRow| {
                t.protocol == protocol
                    && match t.method {
                        YearbookMethod::Static => true,
                        YearbookMethod::DirectFit => number == 6,
                        method => method.name() == name,
                    }
            };
            let of_kind = |t: &TableRow| t.protocol == protocol && t.method.name() == name;
            if table.iter().any(of_kind) {
                let lines = table.iter().filter(shown).map(|t| curve(rows, t)).collect();
                figures.push(Curves { number, protocol, title, lines });
            }
        }
    }
    figures
}

/// The accuracy of one configuration over the years.
fn curve(rows: &[Row], of: &TableRow) -> Curve {
    let label = match of.method {
        YearbookMethod::ImplicitMap(k) => format!("K = {k}"),
        YearbookMethod::Variational(s) | YearbookMethod::Particle(s) => format!("sigma^2 = {s}"),
        YearbookMethod::Static => "static weights".into(),
        YearbookMethod::DirectFit => "direct fit".into(),
        YearbookMethod::Beyond(_) => of.method.configuration(),
    };
    let years = by_year(rows, of.protocol, of.method);
    let points = years.iter().map(|(year, rows)| {
        let (mean, half) = interval(&rows.iter().map(|r| r.result.accuracy).collect::<Vec<_>>());
        (*year, mean, half)
    });
    Curve { label, points: points.collect() }
}

//! The table and the figures of the experiment.
//!
//! A cell is the mean over seeds for each year, then the mean over the 40 years of a block, with the half-width
//! 1.96 std / sqrt(years) over those years. Of the configurations of a method the one with the best mean validation
//! accuracy over 1931 to 1970 is reported.

use super::chain::Method;
use super::store::Row;

/// Last year whose validation images count for the choice, and last year of the first block.
pub const LAST_TUNING_YEAR: i32 = 1970;

/// One configuration of a method in the table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// `published` or `specified`.
    pub protocol: &'static str,
    /// The method with its configuration.
    pub method: Method,
    /// Mean and half-width over the years to 1970, percent.
    pub validation_block: (f64, f64),
    /// Mean and half-width over the years from 1971 on, percent; NaN if there are none.
    pub test_block: (f64, f64),
    /// Mean accuracy on the validation images to 1970.
    pub val_accuracy: f64,
    /// Whether it is its method's best on the validation images.
    pub selected: bool,
    /// The paper's cells for this method: (mean, half-width) of both blocks.
    pub paper: Option<[(f64, f64); 2]>,
}

/// One curve of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// For the legend.
    pub label: String,
    /// Year, mean accuracy over seeds, half-width of the mean over seeds.
    pub points: Vec<(i32, f64, f64)>,
}

/// Accuracy over the years.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Number in the paper: 6, 7 or 8.
    pub number: u32,
    /// `published` or `specified`.
    pub protocol: &'static str,
    /// What it shows.
    pub title: String,
    /// Its curves.
    pub lines: Vec<Line>,
}

/// The printed cells of the paper's Yearbook table.
fn paper(method: &Method) -> Option<[(f64, f64); 2]> {
    match method {
        Method::Static => Some([(82.416, 2.270), (60.897, 1.615)]),
        Method::Particle(_) => Some([(86.430, 1.790), (66.715, 2.390)]),
        Method::Variational(_) => Some([(93.087, 1.038), (79.967, 2.204)]),
        Method::DirectFit => Some([(94.416, 0.924), (80.449, 1.845)]),
        Method::ImplicitMap(50) => Some([(94.973, 0.837), (84.747, 2.030)]),
        Method::ImplicitMap(_) => None,
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Mean and 1.96 std / sqrt(n), with the standard deviation of the population.
fn interval(values: &[f64]) -> (f64, f64) {
    let m = mean(values);
    let var = values.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / values.len() as f64;
    (m, 1.96 * (var / values.len() as f64).sqrt())
}

/// All rows of one configuration, by year.
fn by_year<'a>(rows: &'a [Row], protocol: &str, method: Method) -> Vec<(i32, Vec<&'a Row>)> {
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
pub(crate) fn table(rows: &[Row]) -> Vec<TableRow> {
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
            paper: paper(&row.method),
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

/// Figures 6 (implicit MAP), 7 (particle filter) and 8 (variational filter) of each protocol in the rows.
pub(crate) fn figures(rows: &[Row]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let table = table(rows);
    for protocol in ["published", "specified"] {
        let kinds = [
            (6, "Implicit MAP filter (Adam), by number of steps K", "IMAP-Adam", true),
            (7, "Particle filter, by transition variance", "PF", false),
            (8, "Variational Kalman filter, by transition variance", "VKF", false),
        ];
        for (number, title, name, with_direct) in kinds {
            let shown = table.iter().filter(|t| {
                let method = t.method.name();
                t.protocol == protocol
                    && (method == name
                        || method == "static"
                        || (with_direct && method == "direct-fit"))
            });
            let lines: Vec<Line> = shown
                .map(|t| Line {
                    label: match t.method {
                        Method::ImplicitMap(k) => format!("K = {k}"),
                        Method::Variational(s) | Method::Particle(s) => format!("sigma^2 = {s}"),
                        Method::Static => "static weights".into(),
                        Method::DirectFit => "direct fit".into(),
                    },
                    points: by_year(rows, protocol, t.method)
                        .iter()
                        .map(|(year, rows)| {
                            let (m, half) = interval(
                                &rows.iter().map(|r| r.result.accuracy).collect::<Vec<_>>(),
                            );
                            (*year, m, half)
                        })
                        .collect(),
                })
                .collect();
            if lines.iter().any(|l| l.label.starts_with("K =") || l.label.starts_with("sigma")) {
                figures.push(Figure { number, protocol, title: title.into(), lines });
            }
        }
    }
    figures
}

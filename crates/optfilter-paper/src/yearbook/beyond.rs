//! Beyond the paper: the implicit and the variational filter and the direct fit with a window of past years, discounted, their
//! optimizer's memory restarted or carried.
//!
//! The configuration of each method is chosen on the validation images of 1931 to 1970, as the paper chooses K; what is reported
//! are the years after. Differences are paired: the same seeds, hence the same start weights and the same 32 images a year.
//! A window of L years shows each image to L + 1 updates, so the rivals are given the same windows. To stay within minutes
//! they take fewer steps than in the paper: the direct fit 300 (not 1000), the variational filter 50 (not 1000), and say so in
//! their configuration.

use super::method::{Beyond, Rule, YearbookMethod};
use super::store::Row;
use super::summary::{Interval, LAST_TUNING_YEAR, TableRow};
use crate::protocol::Protocol;
use optfilter_nn::filter::{Memory, Window};

/// Steps of the windowed direct fit.
const DIRECT: u32 = 300;
/// Decay of the averaged weights: about the last 50 steps.
const AVERAGE: f64 = 0.98;
/// Shares of the distance to the pre-trained weights that are lost from year to year.
const DECAYS: [f64; 2] = [0.03, 0.1];
/// Other memories for Adam: squares of the last hundred steps, the same without a mean (RMSprop), and half the mean.
const OTHER_BETAS: [[f64; 2]; 3] = [[0.9, 0.99], [0.0, 0.99], [0.5, 0.999]];

/// Every configuration of the section, those of the paper's filters that it is compared with first.
pub fn methods() -> Vec<YearbookMethod> {
    let mut all =
        vec![YearbookMethod::Static, YearbookMethod::ImplicitMap(50), YearbookMethod::DirectFit];
    let windows = |discounts: &[f64]| -> Vec<Window> {
        let pairs = [3, 7, 15].into_iter().flat_map(|l| discounts.iter().map(move |g| (l, *g)));
        pairs.filter_map(|(l, g)| Window::new(l, g).ok()).collect()
    };
    let both = [Memory::Restart, Memory::Carry];
    let carried = [Memory::Carry];
    let mut add = |like: Beyond, windows: &[Window], memories: &[Memory]| {
        for &memory in memories {
            for &window in windows {
                all.push(YearbookMethod::Beyond(Beyond { window, memory, ..like }));
            }
        }
    };
    let implicit = |steps| Beyond {
        rule: Rule::ImplicitMap,
        steps,
        window: Window::default(),
        memory: Memory::Carry,
        average: 0.0,
        decay: 0.0,
        betas: Beyond::BETAS,
    };
    let many = windows(&[1.0, 0.9, 0.8]);
    let few = windows(&[1.0, 0.8]);
    let none = [Window::default()];
    add(implicit(50), &none, &carried);
    add(implicit(50), &many, &both);
    add(implicit(100), &many, &carried);
    let averaged = Beyond { average: AVERAGE, ..implicit(50) };
    add(averaged, &none, &carried);
    add(averaged, &many, &carried);
    for decay in DECAYS {
        add(Beyond { decay, ..implicit(100) }, &many, &carried);
    }
    for betas in OTHER_BETAS {
        add(Beyond { betas, ..implicit(100) }, &windows(&[0.8]), &carried);
    }
    let direct = Beyond { rule: Rule::DirectFit, ..implicit(DIRECT) };
    add(direct, &few, &[Memory::Restart]);
    for sigma2 in [0.1, 0.01] {
        add(Beyond { rule: Rule::Variational(sigma2), ..implicit(50) }, &few, &both);
    }
    all
}

/// The half-width of a 95 % interval for a mean of `n` values with this standard deviation (Student's t).
fn half_width(std: f64, n: usize) -> f64 {
    /// Quantiles 0.975 for 1 to 20 degrees of freedom.
    const T: [f64; 20] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    ];
    match n {
        0 | 1 => f64::NAN,
        _ => {
            // Beyond the table by the first terms of its expansion (Fisher 1925), here right to three digits.
            let v = (n - 1) as f64;
            let t = T.get(n - 2).copied().unwrap_or(1.95996 + 2.3723 / v + 2.8225 / (v * v));
            t * std / (n as f64).sqrt()
        }
    }
}

/// Mean accuracy of each seed in the years of a block.
fn by_seed(rows: &[Row], of: &TableRow, late: bool) -> Vec<(u64, f64)> {
    let mut seeds: Vec<(u64, f64, f64)> = Vec::new();
    let mine = rows.iter().filter(|r| r.protocol == of.protocol && r.method == of.method);
    for row in mine.filter(|r| (r.result.year > LAST_TUNING_YEAR) == late) {
        match seeds.iter_mut().find(|(seed, ..)| *seed == row.seed) {
            Some((_, sum, n)) => (*sum, *n) = (*sum + row.result.accuracy, *n + 1.0),
            None => seeds.push((row.seed, row.result.accuracy, 1.0)),
        }
    }
    seeds.into_iter().map(|(seed, sum, n)| (seed, sum / n)).collect()
}

/// Mean and half-width over seeds of how much better `one` is than `other` on the same seeds, in points.
pub(super) fn difference(rows: &[Row], one: &TableRow, other: &TableRow, late: bool) -> Interval {
    let theirs = by_seed(rows, other, late);
    let pair =
        |(seed, a): &(u64, f64)| theirs.iter().find(|(other, _)| other == seed).map(|(_, b)| a - b);
    let differences: Vec<f64> = by_seed(rows, one, late).iter().filter_map(pair).collect();
    let n = differences.len();
    let mean = differences.iter().sum::<f64>() / n as f64;
    let square: f64 = differences.iter().map(|d| (d - mean) * (d - mean)).sum();
    (mean, half_width((square / (n.saturating_sub(1).max(1)) as f64).sqrt(), n))
}

/// The row that everything is compared with: the paper's filter with K = 50, under the protocol run first.
pub(super) fn reference(table: &[TableRow]) -> Option<&TableRow> {
    table.iter().find(|t| t.method == YearbookMethod::ImplicitMap(50))
}

/// The rows of the section, once each (both protocols share them).
pub(super) fn rows(table: &[TableRow]) -> Vec<&TableRow> {
    let first: Option<Protocol> = table.first().map(|t| t.protocol);
    let beyond = |t: &&TableRow| matches!(t.method, YearbookMethod::Beyond(_));
    table.iter().filter(beyond).filter(|t| Some(t.protocol) == first).collect()
}

/// The section as text; nothing if nothing of it was run.
pub(super) fn text(table: &[TableRow], all: &[Row], seeds: u64) -> String {
    let rows = rows(table);
    let (Some(reference), false) = (reference(table), rows.is_empty()) else {
        return String::new();
    };
    let mut out = format!(
        "\nBeyond the paper: windows of past years (L), discounts (g), memory carried. {seeds} seeds; chosen on the\n\
         validation images to 1970 alone; differences from the paper's filter, K=50, on the same seeds (95 %, over seeds).\n\
         {:19} {:34} {:>6} {:>10} {:>10} {:>18}\n",
        "method", "configuration", "valid.", "1931-1970", "1971-2010", "difference"
    );
    let mut line = |name: &str, words: &str, t: &TableRow, difference: String, mark: &str| {
        let line = format!(
            "{name:19} {words:34} {:6.2} {:10.2} {:10.2} {difference:>18} {mark}",
            t.val_accuracy, t.validation_block.0, t.test_block.0
        );
        out.push_str(line.trim_end());
        out.push('\n');
    };
    line("IMAP-Adam", "K=50 (the paper)", reference, String::new(), "");
    for t in rows {
        let (mean, half) = difference(all, t, reference, true);
        let mark = if t.selected { "chosen" } else { "" };
        line(
            t.method.name(),
            &t.method.configuration(),
            t,
            format!("{mean:+.2} ± {half:.2}"),
            mark,
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yearbook::YearResult;

    #[test]
    fn differences_are_paired_by_seed() {
        let beyond = methods()[4];
        let row = |method, seed, year, accuracy| Row {
            protocol: Protocol::Published,
            method,
            seed,
            result: YearResult { year, accuracy, val_accuracy: Some(accuracy), n_test: 1 },
        };
        let base = YearbookMethod::ImplicitMap(50);
        let mut rows = Vec::new();
        for (seed, a, b) in [(0, 80.0, 83.0), (1, 70.0, 74.0), (2, 90.0, 95.0)] {
            rows.push(row(base, seed, 1980, a));
            rows.push(row(beyond, seed, 1980, b));
            rows.push(row(base, seed, 1950, 90.0));
            rows.push(row(beyond, seed, 1950, 91.0));
        }
        let table = crate::yearbook::summary::table(&rows, &[]);
        let (mean, half) = difference(&rows, &table[1], &table[0], true);
        // 3, 4 and 5 points: mean 4, deviation 1, t(2) = 4.303.
        assert!((mean - 4.0).abs() < 1e-12 && (half - 4.303 / 3.0_f64.sqrt()).abs() < 1e-9);
        let text = text(&table, &rows, 3);
        assert!(text.contains("+4.00 ± 2.48 chosen"), "{text}");
        assert!(text.contains(&beyond.configuration()));
    }

    #[test]
    fn half_widths_are_those_of_student() {
        // SciPy: t.ppf(0.975, 29) = 2.0452, t.ppf(0.975, 99) = 1.9842.
        for (n, t) in [(2, 12.706), (21, 2.086), (30, 2.0452), (100, 1.9842)] {
            let half = half_width(1.0, n) * (n as f64).sqrt();
            assert!((half - t).abs() < 1e-3, "{n}: {half} {t}");
        }
    }

    #[test]
    fn every_configuration_has_a_name_of_its_own() {
        let mut keys: Vec<String> = methods()
            .iter()
            .map(|m| crate::yearbook::store::key(Protocol::Published, *m, 0))
            .collect();
        let n = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), n);
        // The file has five fields before the year.
        assert!(keys.iter().all(|k| k.split(',').count() == 5), "{keys:?}");
    }
}

//! Whether a filter and its data agree: what the innovations should be, and what they are.
//!
//! A right filter's innovations, each over its own standard deviation, are independent standard normal numbers. Here they are looked at as such:
//!
//! | what | how | if it is not so |
//! |---|---|---|
//! | their size | mean NIS against the 95 % band of its chi-square distribution | error bars are too small, or too large |
//! | whether they are independent | Ljung and Box (1978) over up to ten lags | the model misses something, or Q is wrong |
//! | whether they are normal | Jarque and Bera (1980): skewness and kurtosis | outliers, or another likelihood |
//! | whether they are about 0 | their mean against its standard error | a bias |
//!
//! A particle filter has one more: how many of its particles count.
//!
//! ```
//! use optfilter_run::{Residuals, InnovationScale};
//! // An alternating sequence is anything but independent.
//! let z: Vec<f64> = (0..100).map(|k| if k % 2 == 0 { 1.0 } else { -1.0 }).collect();
//! let found = Residuals::of(InnovationScale::Standardized, &z);
//! println!("{:.2} {:.1e}", found.autocorrelations[0], found.ljung_box.1);
//! assert!(found.autocorrelations[0] < -0.98 && found.ljung_box.1 < 1e-10);
//! ```

use crate::flags::lost_track;
use optfilter::chi_square::distribution;
use optfilter::metrics::chi_square_band;

/// Tests speak up at this probability.
const RARE: f64 = 0.01;

/// In which units innovations are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnovationScale {
    /// In their own standard deviations, as the filter states them.
    Standardized,
    /// As measured: the filter has no standard deviations.
    Raw,
}

/// The innovations of one measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Residuals {
    /// In which units they are.
    pub sequence: InnovationScale,
    /// How many there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation; 1 is right where they are scaled.
    pub std: f64,
    /// Third standardised moment; 0 is right.
    pub skewness: f64,
    /// Fourth standardised moment less 3; 0 is right.
    pub kurtosis: f64,
    /// Jarque and Bera's statistic, and the probability of more.
    pub jarque_bera: (f64, f64),
    /// Ljung and Box's statistic over all of `autocorrelations`, and the probability of more.
    pub ljung_box: (f64, f64),
    /// At lags 1, 2 and so on, up to ten or a fifth of the measurements, from measurement to measurement: gaps are stepped over.
    pub autocorrelations: Vec<f64>,
}

impl Residuals {
    /// Of a sequence in order; NaN marks what is missing, which lags step over.
    pub fn of(sequence: InnovationScale, values: &[f64]) -> Self {
        let z: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        let n = z.len() as f64;
        let mean = z.iter().sum::<f64>() / n;
        let moment = |k: i32| z.iter().map(|v| (v - mean).powi(k)).sum::<f64>() / n;
        let variance = moment(2);
        let skewness = moment(3) / variance.powf(1.5);
        let kurtosis = moment(4) / (variance * variance) - 3.0;
        let jb = n / 6.0 * (skewness * skewness + kurtosis * kurtosis / 4.0);
        let lags = 10.min(z.len() / 5);
        let correlation = |lag: usize| {
            let products = z.iter().zip(z.iter().skip(lag)).map(|(a, b)| (a - mean) * (b - mean));
            products.sum::<f64>() / (n * variance)
        };
        let autocorrelations: Vec<f64> = (1..=lags).map(correlation).collect();
        let terms =
            autocorrelations.iter().zip(1u32..).map(|(r, lag)| r * r / (n - f64::from(lag)));
        let lb = n * (n + 2.0) * terms.sum::<f64>();
        Self {
            sequence,
            count: z.len(),
            mean,
            std: variance.sqrt(),
            skewness,
            kurtosis,
            jarque_bera: (jb, 1.0 - distribution(jb, 2)),
            ljung_box: (lb, 1.0 - distribution(lb, lags)),
            autocorrelations,
        }
    }

    /// How far autocorrelations of independent numbers stray, 95 times of a hundred.
    pub fn correlation_band(&self) -> f64 {
        1.96 / (self.count as f64).sqrt()
    }

    /// What is wrong with the innovations of the measurement of that name, in words.
    fn remarks(&self, name: &str, is_heavy: bool, is_gated: bool) -> Vec<String> {
        let mut out = Vec::new();
        if self.count < 20 {
            out.push(format!("{name}: {} innovations are too few to say more", self.count));
            return out;
        }
        if self.mean.abs() > 2.576 * self.std / (self.count as f64).sqrt() {
            out.push(format!(
                "{name}: predictions are off by {:.3} on average{}; look for an offset, or a trend that the model lacks",
                self.mean,
                if self.sequence == InnovationScale::Standardized { " (in standard deviations)" } else { "" },
            ));
        }
        if self.ljung_box.1 < RARE {
            let first = self.autocorrelations.first().copied().unwrap_or(0.0);
            let band = self.correlation_band();
            let worst = self.autocorrelations.iter().enumerate();
            let worst = worst.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).map_or(0, |(i, _)| i);
            out.push(if worst == 0 && first > band {
                format!(
                    "{name}: innovations go on in one direction (autocorrelation {first:.2} at lag 1): the filter follows too slowly; \
                     more process noise, more or larger steps, or a model with a trend"
                )
            } else if worst == 0 && first < -band {
                format!(
                    "{name}: innovations alternate (autocorrelation {first:.2} at lag 1): the filter follows the noise; \
                     less process noise, fewer or smaller steps"
                )
            } else {
                format!(
                    "{name}: innovations depend on those before (autocorrelation {:.2} at lag {}): the model misses something, \
                     such as a cycle",
                    self.autocorrelations.get(worst).copied().unwrap_or(0.0),
                    worst + 1,
                )
            });
        }
        // Under a law with heavy tails, heavy tails are right.
        if self.jarque_bera.1 < RARE && !is_heavy {
            out.push(if self.kurtosis > 0.5 {
                format!(
                    "{name}: tails are heavier than a Gaussian's (kurtosis {:.1} beyond it): outliers; likelihood = \"student-t\"{}",
                    self.kurtosis,
                    if is_gated { "" } else { ", or a gate" }
                )
            } else {
                format!(
                    "{name}: innovations are not Gaussian (skewness {:.2}, kurtosis {:.2}): another likelihood, or a transformed measurement",
                    self.skewness, self.kurtosis
                )
            });
        }
        out
    }
}

/// How many particles count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EffectiveSampleSize {
    /// Of how many.
    pub particles: usize,
    /// On average over the rows.
    pub mean: f64,
    /// In the worst row.
    pub least: f64,
    /// The worst row, from 1.
    pub row: usize,
}

/// What innovations say of a filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// Rows in all.
    pub rows: usize,
    /// Rows in which nothing was measured.
    pub missing: usize,
    /// Mean NIS per measured component, and the band in which that of a right filter lies 95 times of a hundred.
    pub nis: Option<(f64, (f64, f64))>,
    /// Sum of the rows' log-likelihoods, if the filter has them.
    pub log_likelihood: Option<f64>,
    /// Each measurement's innovations.
    pub residuals: Vec<Residuals>,
    /// Of a particle filter.
    pub effective: Option<EffectiveSampleSize>,
    /// How many rows a gate had lost the track in, and the first of them, from 1.
    pub lost: Option<(usize, usize)>,
    /// Which measurements have a law of heavy tails.
    pub heavy: Vec<bool>,
    /// Whether the filter has a gate.
    pub gated: bool,
}

/// A row of a run, as far as a diagnosis goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InnovationRecord {
    /// Innovations; NaN where missing.
    pub innovation: Vec<f64>,
    /// Their standard deviations; NaN where there is none.
    pub std: Vec<f64>,
    /// Normalised innovation squared; NaN where there is none.
    pub nis: f64,
    /// Log-likelihood; NaN where there is none.
    pub log_likelihood: f64,
    /// How many components were measured.
    pub observed: usize,
    /// How many particles count; not finite without any.
    pub effective: f64,
    /// Whether a gate had lost the track.
    pub lost: bool,
}

impl Diagnosis {
    /// Of the rows of a run; `particles` is how many the filter has. Outliers of the measurements under `heavy`, by number, are
    /// what their law says: their innovations are not held against a Gaussian.
    pub fn new(
        rows: &[InnovationRecord],
        outputs: usize,
        particles: usize,
        heavy: &[bool],
    ) -> Self {
        let with_nis: Vec<&InnovationRecord> =
            rows.iter().filter(|row| row.nis.is_finite()).collect();
        let dof: usize = with_nis.iter().map(|row| row.observed).sum();
        let nis = (dof > 0).then(|| {
            let sum: f64 = with_nis.iter().map(|row| row.nis).sum();
            (sum / dof as f64, chi_square_band(1, dof))
        });
        let residuals = (0..outputs).map(|i| {
            let scaled = rows.iter().any(|row| row.std.get(i).is_some_and(|v| v.is_finite()));
            let value = |row: &InnovationRecord| {
                let innovation = row.innovation.get(i).copied().unwrap_or(f64::NAN);
                let std = row.std.get(i).copied().unwrap_or(f64::NAN);
                if scaled { innovation / std } else { innovation }
            };
            let sequence =
                if scaled { InnovationScale::Standardized } else { InnovationScale::Raw };
            Residuals::of(sequence, &rows.iter().map(value).collect::<Vec<_>>())
        });
        let known = rows.iter().map(|row| row.log_likelihood).filter(|v| v.is_finite());
        let worst = rows.iter().enumerate().filter(|(_, row)| row.effective.is_finite());
        let worst = worst.min_by(|a, b| a.1.effective.total_cmp(&b.1.effective));
        let effective = worst.map(|(row, seen)| EffectiveSampleSize {
            particles,
            mean: rows.iter().map(|row| row.effective).sum::<f64>() / rows.len() as f64,
            least: seen.effective,
            row: row + 1,
        });
        Self {
            rows: rows.len(),
            missing: rows.iter().filter(|row| row.observed == 0).count(),
            nis,
            log_likelihood: (known.clone().count() > 0).then(|| known.sum()),
            residuals: residuals.collect(),
            effective,
            lost: rows
                .iter()
                .position(|row| row.lost)
                .map(|first| (rows.iter().filter(|row| row.lost).count(), first + 1)),
            heavy: (0..outputs).map(|i| heavy.get(i) == Some(&true)).collect(),
            gated: false,
        }
    }

    /// Of a filter that has a gate, or has none.
    #[must_use]
    pub fn gated(self, gated: bool) -> Self {
        Self { gated, ..self }
    }

    /// What is wrong, in words, the gravest first; empty where nothing is.
    pub fn remarks(&self, names: &[String]) -> Vec<String> {
        let mut out = Vec::new();
        if let Some((rows, first)) = self.lost {
            out.push(lost_track(rows as u64, first as u64));
        }
        // The band of chi-square is none under heavy tails.
        if let Some((mean, (low, high))) = self.nis.filter(|_| !self.heavy.contains(&true)) {
            if mean > high {
                out.push(format!(
                    "error bars are too small: innovations are {:.2} times as wide as the filter says; more measurement noise or process noise \
                     (`optfilter fit` estimates both)",
                    mean.sqrt()
                ));
            } else if mean < low {
                out.push(format!(
                    "error bars are too large: innovations are {:.2} times as wide as the filter says; less measurement noise or process noise \
                     (`optfilter fit` estimates both)",
                    mean.sqrt()
                ));
            }
        }
        for ((residuals, name), heavy) in self.residuals.iter().zip(names).zip(&self.heavy) {
            out.extend(residuals.remarks(name, *heavy, self.gated));
        }
        if let Some(effective) = self.effective.filter(|e| e.least < 0.02 * e.particles as f64) {
            out.push(format!(
                "only {:.0} of {} particles count in row {}: the measurement was far from all others, or is very sharp; more particles, or \
                 wider noise",
                effective.least, effective.particles, effective.row
            ));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// statsmodels 0.14: acorr_ljungbox(z, lags=[8]), jarque_bera(z), acf(z).
    #[test]
    fn statistics_are_those_of_statsmodels() {
        let z: Vec<f64> = (0..40).map(|k| f64::from((k * 37 + 11) % 23) / 7.0 - 1.5).collect();
        let found = Residuals::of(InnovationScale::Standardized, &z);
        for (found, expected) in [
            (found.ljung_box.0, LJUNG_BOX.0),
            (found.ljung_box.1, LJUNG_BOX.1),
            (found.jarque_bera.0, JARQUE_BERA.0),
            (found.jarque_bera.1, JARQUE_BERA.1),
            (found.autocorrelations[0], FIRST_LAG),
            (found.skewness, SHAPE.0),
            (found.kurtosis, SHAPE.1),
        ] {
            assert!(
                (found - expected).abs() < 1e-10 * (1.0 + expected.abs()),
                "{found} {expected}"
            );
        }
    }
    const LJUNG_BOX: (f64, f64) = (42.5463857658104, 1.0692084913567968e-06);
    const JARQUE_BERA: (f64, f64) = (2.2673622765816366, 0.3218463123258448);
    const SHAPE: (f64, f64) = (0.04127698204298238, -1.1634441151007964);
    const FIRST_LAG: f64 = -0.41632171909869714;

    #[test]
    fn a_verdict_names_what_is_wrong_and_nothing_else() {
        let mut stream = optfilter::rng::Stream::new(3, 0, "diagnose");
        let normal: Vec<f64> = (0..2000).map(|_| stream.normal()).collect();
        let rows = |z: &dyn Fn(usize) -> f64| -> Vec<InnovationRecord> {
            let row = |k: usize| InnovationRecord {
                innovation: vec![2.0 * z(k)],
                std: vec![2.0],
                nis: z(k) * z(k),
                log_likelihood: 0.0,
                observed: 1,
                effective: f64::NAN,
                lost: false,
            };
            (0..normal.len()).map(row).collect()
        };
        let names = ["y".to_owned()];
        let said = |z: &dyn Fn(usize) -> f64| {
            Diagnosis::new(&rows(z), 1, 0, &[]).remarks(&names).join("\n")
        };
        assert_eq!(said(&|k| normal[k]), "");
        assert!(
            said(&|k| 1.5 * normal[k]).starts_with("error bars are too small: innovations are 1.")
        );
        assert!(said(&|k| 0.5 * normal[k]).starts_with("error bars are too large"));
        assert!(said(&|k| normal[k] + 0.2).contains("predictions are off by 0.2"));
        let smooth = |k: usize| 0.8 * normal[k] + 0.6 * normal[k.saturating_sub(1)];
        assert!(said(&smooth).contains("go on in one direction"));
        let rough = |k: usize| 0.8 * normal[k] - 0.6 * normal[k.saturating_sub(1)];
        assert!(said(&rough).contains("innovations alternate"));
        let seasonal = |k: usize| 0.8 * normal[k] + 0.6 * normal[k.saturating_sub(4)];
        assert!(said(&seasonal).contains("at lag 4"));
        let outliers = |k: usize| if k % 100 == 7 { 6.0 } else { 0.8 * normal[k] };
        assert!(said(&outliers).ends_with("likelihood = \"student-t\", or a gate"));
        // A filter that has a gate is not told to have one.
        let gated = Diagnosis::new(&rows(&outliers), 1, 0, &[]).gated(true).remarks(&names);
        assert!(gated.join("\n").ends_with("likelihood = \"student-t\""), "{gated:?}");
        // Whose law says so already is not told to change it.
        let heavy = Diagnosis::new(&rows(&outliers), 1, 0, &[true]).remarks(&names);
        assert!(!heavy.iter().any(|remark| remark.contains("student-t")), "{heavy:?}");
    }
}

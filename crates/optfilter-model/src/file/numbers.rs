//! Numbers, vectors and covariances of a model file, in any of the forms a user may write them.

use super::access::Reader;
use super::fields::places;
use super::tree::{Entry, Kind, Value};
use crate::diagnostic::Diagnostic;
use nalgebra::DMatrix;
use optfilter_run::Covariance;

impl Reader {
    /// A number, or a text with a constant expression such as `"pi/4"`.
    pub(super) fn number(&self, value: &Value) -> Result<f64, Diagnostic> {
        let number = match &value.kind {
            Kind::Number(v) => *v,
            Kind::Text(..) => self.constant(value)?,
            _ => {
                let message = format!("a number is expected here, not {}", value.describe());
                return Err(self.at(&value.at, message));
            }
        };
        if number.is_nan() {
            return Err(self.at(&value.at, "this is not a number"));
        }
        Ok(number)
    }

    /// A finite number.
    pub(super) fn finite(&self, value: &Value) -> Result<f64, Diagnostic> {
        let v = self.number(value)?;
        if v.is_finite() { Ok(v) } else { Err(self.at(&value.at, "this number must be finite")) }
    }

    /// A positive finite number.
    pub(super) fn positive(&self, value: &Value) -> Result<f64, Diagnostic> {
        let v = self.finite(value)?;
        if v > 0.0 { Ok(v) } else { Err(self.at(&value.at, "this number must be positive")) }
    }

    /// A whole number of at least 1.
    pub(super) fn count(&self, value: &Value) -> Result<u32, Diagnostic> {
        let v = self.finite(value)?;
        if v >= 1.0 && v == v.floor() && v <= f64::from(u32::MAX) {
            Ok(v as u32)
        } else {
            Err(self.at(&value.at, "a whole number of at least 1 is expected here"))
        }
    }

    /// One number for all of `names`, a list in their order, or a table by name. Names that a table
    /// leaves out get `missing`, or are an error if there is none.
    pub(super) fn vector(
        &self,
        value: &Value,
        names: &[String],
        missing: Option<f64>,
        what: &str,
    ) -> Result<Vec<f64>, Diagnostic> {
        match &value.kind {
            Kind::List(items) => {
                if items.len() != names.len() {
                    let message = format!("{} {what} are given for {}", items.len(), list(names));
                    let help =
                        format!("give {}, or name them: {{ {} = ... }}", names.len(), names[0]);
                    return Err(self.at(&value.at, message).help(help));
                }
                items.iter().map(|v| self.finite(v)).collect()
            }
            Kind::Table(entries) => {
                let mut out = vec![missing; names.len()];
                for entry in entries {
                    let places = places(names, &entry.key);
                    if places.is_empty() {
                        return Err(self.unknown(entry, names, what));
                    }
                    let given = self.finite(&entry.value)?;
                    places.into_iter().for_each(|i| out[i] = Some(given));
                }
                let absent = |i: usize| {
                    self.at(&value.at, format!("`{}` is missing among the {what}", names[i]))
                };
                out.iter().enumerate().map(|(i, v)| v.ok_or_else(|| absent(i))).collect()
            }
            _ => Ok(vec![self.finite(value)?; names.len()]),
        }
    }

    /// A covariance given under exactly one of the keys `std` and `var` of a table.
    pub(super) fn covariance(
        &self,
        entry: &Entry,
        names: &[String],
        missing: Option<f64>,
    ) -> Result<Covariance, Diagnostic> {
        let Kind::Table(entries) = &entry.value.kind else {
            return Err(self.ambiguous(entry));
        };
        let find = |key: &str| entries.iter().find(|e| e.key == key);
        let (given, squared) = match (find("std"), find("var")) {
            (Some(e), None) => (e, false),
            (None, Some(e)) => (e, true),
            (Some(_), Some(second)) => {
                let message = "`std` and `var` are both given; keep one";
                return Err(self.at(&second.key_at, message));
            }
            (None, None) => return Err(self.ambiguous(entry)),
        };
        if let Kind::List(rows) = &given.value.kind
            && rows.iter().any(|r| matches!(r.kind, Kind::List(_)))
        {
            if !squared {
                let help = "give the covariance matrix as `var`";
                let message = "standard deviations cannot be a matrix";
                return Err(self.at(&given.value.at, message).help(help));
            }
            return self.matrix(&given.value, rows, names).map(Covariance::Dense);
        }
        let values = self.vector(&given.value, names, missing, "entries")?;
        if let Some(i) = values.iter().position(|v| *v < 0.0) {
            let message = format!("the spread of `{}` is negative", names[i]);
            return Err(self.at(&given.value.at, message));
        }
        let variances = values.iter().map(|v| if squared { *v } else { v * v });
        Ok(Covariance::Diagonal(variances.collect()))
    }

    fn ambiguous(&self, entry: &Entry) -> Diagnostic {
        let message = format!("say whether [{}] is `std` or `var`", entry.key);
        let at = if matches!(entry.value.kind, Kind::Table(_)) {
            &entry.key_at
        } else {
            &entry.value.at
        };
        self.at(at, message).help("write `std = ...` or `var = ...`")
    }

    fn matrix(
        &self,
        value: &Value,
        rows: &[Value],
        names: &[String],
    ) -> Result<DMatrix<f64>, Diagnostic> {
        let n = names.len();
        if rows.len() != n {
            let message = format!(
                "the matrix has {} rows where {n} {} needed for {}",
                rows.len(),
                if n == 1 { "is" } else { "are" },
                list(names)
            );
            return Err(self.at(&value.at, message));
        }
        let mut out = DMatrix::zeros(n, n);
        for (i, row) in rows.iter().enumerate() {
            let Kind::List(items) = &row.kind else {
                return Err(self.at(&row.at, "this row of the matrix is not a list"));
            };
            if items.len() != n {
                let message = format!("this row has {} numbers; {n} are needed", items.len());
                return Err(self.at(&row.at, message));
            }
            for (j, item) in items.iter().enumerate() {
                out[(i, j)] = self.finite(item)?;
            }
        }
        for i in 0..n {
            for j in 0..i {
                if out[(i, j)] != out[(j, i)] {
                    let message = format!(
                        "a covariance is symmetric, but entry ({}, {}) is {} and ({}, {}) is {}",
                        i + 1,
                        j + 1,
                        out[(i, j)],
                        j + 1,
                        i + 1,
                        out[(j, i)]
                    );
                    return Err(self.at(&value.at, message));
                }
            }
        }
        if !optfilter::linalg::is_symmetric_psd(&out) {
            return Err(
                self.at(&value.at, "this matrix has a negative eigenvalue, so it is no covariance")
            );
        }
        Ok(out)
    }
}

/// Names for a message: `x, y and z`.
pub(super) fn list(names: &[String]) -> String {
    match names {
        [] => "nothing".into(),
        [first, .., last] if names.len() > 40 => format!("`{first}` to `{last}`"),
        [one] => format!("`{one}`"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(|n| format!("`{n}`")).collect();
            format!("{} and `{last}`", first.join(", "))
        }
    }
}

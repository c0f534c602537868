//! Matrices on a page: with names at their sides, or as JSON.

use crate::style;
use nalgebra::DMatrix;
use std::fmt::Write;

/// The rows of a matrix, for JSON.
pub fn matrix_rows(m: &DMatrix<f64>) -> Vec<Vec<f64>> {
    (0..m.nrows()).map(|i| m.row(i).iter().copied().collect()).collect()
}

/// A matrix with names at its sides.
pub fn write_matrix(
    out: &mut String,
    matrix: &DMatrix<f64>,
    rows: &[String],
    columns: &[String],
) -> std::fmt::Result {
    let mut table = vec![std::iter::once(String::new()).chain(columns.iter().cloned()).collect()];
    for (i, name) in rows.iter().enumerate() {
        let mut line = vec![name.clone()];
        line.extend(matrix.row(i).iter().map(|v| style::short(*v)));
        table.push(line);
    }
    for line in style::table(&table).lines() {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

//! A model in mathematical notation, for `optfilter model check`.

use super::{Integrator, LikelihoodKind, ModelSpec, Time};
use crate::expr::notation;
use nalgebra::DMatrix;
use optfilter_run::RunModel;
use std::fmt::Write;

impl ModelSpec {
    /// The model as a page of mathematics with its dimensions.
    pub fn describe(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_description(&mut out);
        out
    }

    fn write_description(&self, out: &mut String) -> std::fmt::Result {
        let (n, m, p) = (self.states.len(), self.observations.len(), self.inputs.len());
        writeln!(out, "{}", self.name)?;
        write!(out, "  {n} state{}, {m} observation{}", plural(n), plural(m))?;
        if p > 0 {
            write!(out, ", {p} input{}: {}", plural(p), self.inputs.join(", "))?;
        }
        writeln!(out)?;
        if !self.parameters.is_empty() {
            writeln!(out, "\nParameters")?;
            for (name, value) in &self.parameters {
                writeln!(out, "  {name} = {value}")?;
            }
        }
        if !self.definitions.is_empty() {
            writeln!(out, "\nDefinitions")?;
            for (name, equation) in &self.definitions {
                writeln!(out, "  {name} = {}", notation(&equation.ast))?;
            }
        }
        self.write_dynamics(out)?;
        writeln!(out, "\nObservation")?;
        for (i, name) in self.observations.iter().enumerate() {
            let mean = notation(&self.observation[i].ast);
            let angle = if self.observation_angles[i] { "   (an angle)" } else { "" };
            writeln!(out, "  {name} ~ {}{angle}", self.likelihood_text(i, &mean))?;
        }
        writeln!(out, "\nNoise and initial belief")?;
        match &self.process_noise {
            None => writeln!(out, "  process      not given (the classical filters need it)")?,
            Some(q) if q.per_time => {
                writeln!(
                    out,
                    "  process      w ~ N(0, Q·Δt),  Q = {}",
                    matrix(&q.cov.dense(nalgebra::Dyn(n)))
                )?;
            }
            Some(q) => writeln!(
                out,
                "  process      w ~ N(0, Q),  Q = {}",
                matrix(&q.cov.dense(nalgebra::Dyn(n)))
            )?,
        }
        match &self.measurement_cov {
            None => writeln!(out, "  measurement  not given")?,
            Some(r) => writeln!(out, "  measurement  R = {}", matrix(r))?,
        }
        let mean: Vec<String> = self.initial_mean.iter().map(|v| format!("{v}")).collect();
        writeln!(
            out,
            "  initial      N([{}], P),  P = {}",
            mean.join(", "),
            matrix(&self.initial_cov)
        )?;
        if let Some(bounds) = &self.bounds {
            for (name, (low, high)) in self.states.iter().zip(bounds) {
                if low.is_finite() || high.is_finite() {
                    writeln!(out, "  bounds       {low} ≤ {name} ≤ {high}")?;
                }
            }
        }
        writeln!(out, "\nData")?;
        match &self.time_column {
            Some(column) => writeln!(out, "  time         column {column:?}")?,
            None => writeln!(out, "  time         every row is {} later", self.dt)?,
        }
        for name in self.inputs.iter().chain(&self.observations) {
            writeln!(out, "  {name:<12} column {:?}", self.column(name))?;
        }
        let model = self.compile();
        writeln!(out, "\nThe model is {}.", if model.is_linear() { "linear" } else { "nonlinear" })
    }

    fn write_dynamics(&self, out: &mut String) -> std::fmt::Result {
        match self.time {
            Time::Discrete => writeln!(out, "\nDynamics, from one row to the next")?,
            Time::Continuous { method, substeps } => {
                if self.compile().drift().is_some() {
                    writeln!(out, "\nDynamics, exact over a step of any length")?;
                    return self.write_equations(out);
                }
                let method = match method {
                    Some(Integrator::Euler) => "Euler",
                    _ => "fourth-order Runge-Kutta",
                };
                let each = match substeps {
                    1 => "1 step".to_owned(),
                    k => format!("{k} steps"),
                };
                writeln!(out, "\nDynamics, by {method}, {each} from one row to the next")?;
            }
        }
        self.write_equations(out)
    }

    fn write_equations(&self, out: &mut String) -> std::fmt::Result {
        for (i, name) in self.states.iter().enumerate() {
            let right = notation(&self.dynamics[i].ast);
            let noisy = self.process_noise.as_ref().is_some_and(|q| q.cov.variance(i) > 0.0);
            let noise = if noisy { format!(" + w_{name}") } else { String::new() };
            let angle = if self.state_angles[i] { "   (an angle)" } else { "" };
            match self.time {
                Time::Discrete => writeln!(out, "  {name}′ = {right}{noise}{angle}")?,
                Time::Continuous { .. } => writeln!(out, "  d{name}/dt = {right}{noise}{angle}")?,
            }
        }
        Ok(())
    }

    fn likelihood_text(&self, i: usize, mean: &str) -> String {
        let var = self.measurement_cov.as_ref().map(|r| r[(i, i)]);
        let noise = var.map_or("σ²".to_owned(), |v| format!("{}", round(v)));
        let scale = var.map_or("σ".to_owned(), |v| format!("{}", round(v.sqrt())));
        match self.likelihoods[i] {
            LikelihoodKind::Gaussian => format!("N({mean}, {noise})"),
            LikelihoodKind::StudentT { dof } => {
                format!("{mean} + {scale}·t({dof} degrees of freedom)")
            }
            LikelihoodKind::Huber { delta } => {
                format!("Huber({mean}, scale {scale}, delta {delta})")
            }
            LikelihoodKind::Poisson { log_link: false } => format!("Poisson({mean})"),
            LikelihoodKind::Poisson { log_link: true } => format!("Poisson(exp({mean}))"),
            LikelihoodKind::Bernoulli { logit_link: false } => format!("Bernoulli({mean})"),
            LikelihoodKind::Bernoulli { logit_link: true } => {
                format!("Bernoulli(logistic({mean}))")
            }
        }
    }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// A number without the noise of the last digits that squaring leaves.
fn round(v: f64) -> f64 {
    format!("{v:.12e}").parse().unwrap_or(v)
}

fn matrix(a: &DMatrix<f64>) -> String {
    let n = a.nrows();
    let diagonal = (0..n).all(|i| (0..n).all(|j| i == j || a[(i, j)] == 0.0));
    if diagonal {
        let first = a[(0, 0)];
        if n == 1 {
            return format!("{}", round(first));
        }
        if (0..n).all(|i| a[(i, i)] == first) {
            return format!("{}·I", round(first));
        }
        let entries: Vec<String> = (0..n).map(|i| format!("{}", round(a[(i, i)]))).collect();
        return format!("diag({})", entries.join(", "));
    }
    let rows: Vec<String> = (0..n)
        .map(|i| {
            let row: Vec<String> = (0..n).map(|j| format!("{}", round(a[(i, j)]))).collect();
            format!("[{}]", row.join(", "))
        })
        .collect();
    format!("[{}]", rows.join(", "))
}

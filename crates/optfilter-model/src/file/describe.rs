//! A model in mathematical notation, for `optfilter model check`.

use super::{Equation, LikelihoodKind, ModelSpec, Time};
use crate::expr::notation;
use optfilter::model::Integrator;
use optfilter_run::{Covariance, RunModel};
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
                let indices: Vec<&str> = equation.over.iter().map(|(i, _)| i.as_str()).collect();
                let indices = if indices.is_empty() {
                    String::new()
                } else {
                    format!("[{}]", indices.join(", "))
                };
                writeln!(out, "  {name}{indices} = {}", notation(&equation.ast))?;
            }
        }
        self.write_dynamics(out)?;
        writeln!(out, "\nObservation")?;
        for (i, name, equation) in self.groups(&self.observation, &self.observations) {
            let mean = notation(&equation.ast);
            let angle = if self.observation_angles[i] { "   (an angle)" } else { "" };
            let over = ranges(equation);
            writeln!(out, "  {name} ~ {}{angle}{over}", self.likelihood_text(i, &mean))?;
        }
        writeln!(out, "\nNoise and initial belief")?;
        match &self.process_noise {
            None => writeln!(out, "  process      not given (the classical filters need it)")?,
            Some(q) if q.per_time => {
                writeln!(out, "  process      w ~ N(0, Q·Δt),  Q = {}", matrix(&q.cov, n))?;
            }
            Some(q) => writeln!(out, "  process      w ~ N(0, Q),  Q = {}", matrix(&q.cov, n))?,
        }
        match &self.measurement_cov {
            None => writeln!(out, "  measurement  not given")?,
            Some(r) => writeln!(out, "  measurement  R = {}", matrix(r, m))?,
        }
        for (laws, names) in
            [(&self.process_laws, &self.states), (&self.measurement_laws, &self.observations)]
        {
            for law in laws {
                let kind = if law.squared { "variance" } else { "deviation" };
                let name = names.get(law.place).map_or("", String::as_str);
                writeln!(out, "  varies       {kind} of {name} = {}", notation(&law.equation.ast))?;
            }
        }
        let mean = entries(&self.initial_mean);
        writeln!(out, "  initial      N([{mean}], P),  P = {}", matrix(&self.initial_cov, n))?;
        let unknown = self.states.iter().zip(&self.diffuse).filter(|(_, diffuse)| **diffuse);
        let unknown: Vec<&str> = unknown.map(|(name, _)| name.as_str()).collect();
        if !unknown.is_empty() {
            writeln!(out, "  diffuse      {}", unknown.join(", "))?;
        }
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
        for name in self.inputs.iter().chain(&self.observations).take(MANY) {
            writeln!(out, "  {name:<12} column {:?}", self.column(name))?;
        }
        if p + m > MANY {
            writeln!(out, "  and {} more", p + m - MANY)?;
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
        for (i, name, equation) in self.groups(&self.dynamics, &self.states) {
            let right = notation(&equation.ast);
            let over = ranges(equation);
            let noisy = self.process_noise.as_ref().is_some_and(|q| q.cov.variance(i) > 0.0);
            let noise = if noisy { format!(" + w_{name}") } else { String::new() };
            let angle = if self.state_angles[i] { "   (an angle)" } else { "" };
            match self.time {
                Time::Discrete => writeln!(out, "  {name}′ = {right}{noise}{angle}{over}")?,
                Time::Continuous { .. } => {
                    writeln!(out, "  d{name}/dt = {right}{noise}{angle}{over}")?
                }
            }
        }
        Ok(())
    }

    /// Each equation with the place of its first number and its name, which ends in its indices if it has some.
    fn groups<'a>(
        &self,
        equations: &'a [Equation],
        names: &'a [String],
    ) -> Vec<(usize, String, &'a Equation)> {
        let mut first = 0;
        let group = |equation: &'a Equation| {
            let at = first;
            first += equation.over.iter().map(|(_, n)| n).product::<usize>();
            let indices: Vec<&str> = equation.over.iter().map(|(i, _)| i.as_str()).collect();
            let name = match names.get(at).and_then(|n| n.split_once('[')) {
                Some((name, _)) => format!("{name}[{}]", indices.join(", ")),
                None => names.get(at).cloned().unwrap_or_default(),
            };
            (at, name, equation)
        };
        equations.iter().map(group).collect()
    }

    fn likelihood_text(&self, i: usize, mean: &str) -> String {
        let var = self.measurement_cov.as_ref().map(|r| r.variance(i));
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

/// Lists of more numbers are cut short.
const MANY: usize = 40;

fn entries(values: &[f64]) -> String {
    let shown: Vec<String> = values.iter().take(MANY).map(|v| format!("{}", round(*v))).collect();
    let rest = if values.len() > MANY { ", …" } else { "" };
    format!("{}{rest}", shown.join(", "))
}

/// What the indices of an equation run over.
fn ranges(equation: &Equation) -> String {
    let ranges: Vec<String> =
        equation.over.iter().map(|(i, n)| format!("{i} = 0…{}", n.max(&1) - 1)).collect();
    if ranges.is_empty() { String::new() } else { format!("   ({})", ranges.join(", ")) }
}

fn matrix(cov: &Covariance, n: usize) -> String {
    let a = match cov {
        Covariance::Dense(a) if (0..n).any(|i| (0..n).any(|j| i != j && a[(i, j)] != 0.0)) => a,
        diagonal => {
            let variances: Vec<f64> = (0..n).map(|i| diagonal.variance(i)).collect();
            return match variances[..] {
                [v] => format!("{}", round(v)),
                [first, ..] if variances.iter().all(|v| *v == first) => {
                    format!("{}·I", round(first))
                }
                _ => format!("diag({})", entries(&variances)),
            };
        }
    };
    let rows: Vec<String> = (0..n)
        .map(|i| {
            let row: Vec<String> = (0..n).map(|j| format!("{}", round(a[(i, j)]))).collect();
            format!("[{}]", row.join(", "))
        })
        .collect();
    format!("[{}]", rows.join(", "))
}

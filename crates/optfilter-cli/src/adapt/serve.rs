//! `optfilter adapt --follow`: JSON lines from standard input, one answer per line.
//!
//! A line that is refused changes nothing: labels are read before anything is predicted, and a label that leads the weights out of the
//! finite numbers is undone, scaling included.

use crate::failure::Failure;
use optfilter_nn::adapt::{AdaptError, Follower, Labels, Stream, class_name, most_likely};
use serde_json::{Value, json};
use std::io::{BufRead, Write as _};

/// Answers each line of standard input: the prediction, and then the labels are learnt from. The follower is one that is kept
/// [carefully](Follower::carefully).
pub fn serve(follower: &mut Follower, stream: &Stream) -> Result<(), Failure> {
    let width = stream.shape().len();
    let mut out = std::io::stdout().lock();
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line.map_err(|e| Failure::data(format!("standard input: {e}")))?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = match answer(follower, stream.labels(), width, &line) {
            Ok(answer) => answer,
            Err(reason) => json!({ "line": number + 1, "error": reason }),
        };
        // A line that cannot be read is answered as such, and the next one is served.
        writeln!(out, "{answer}")
            .and_then(|()| out.flush())
            .map_err(|e| Failure::write("standard output", &e))?;
    }
    Ok(())
}

fn answer(
    follower: &mut Follower,
    known: &Labels,
    width: usize,
    line: &str,
) -> Result<Value, String> {
    let line: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let numbers =
        |v: &Value| -> Option<Vec<f64>> { v.as_array()?.iter().map(Value::as_f64).collect() };
    let x = line.get("x").ok_or("there is no x")?;
    // One sample, or several.
    let rows = match numbers(x) {
        Some(row) => vec![row],
        None => x
            .as_array()
            .and_then(|a| a.iter().map(numbers).collect())
            .ok_or("x must be numbers or rows of numbers")?,
    };
    if let Some(row) = rows.iter().find(|r| r.len() != width) {
        return Err(format!("a sample has {} numbers; the network takes {width}", row.len()));
    }
    let x: Vec<f64> = rows.concat();
    let labels = match line.get("y").filter(|y| !y.is_null()) {
        None => None,
        Some(y) => {
            let given = y.as_array().cloned().unwrap_or_else(|| vec![y.clone()]);
            if given.len() != rows.len() {
                return Err(format!("{} labels for {} samples", given.len(), rows.len()));
            }
            Some(read_labels(&given, known)?)
        }
    };
    let mut predicted = Vec::new();
    match &labels {
        Some(labels) => {
            let time = line.get("time").and_then(Value::as_f64).unwrap_or(f64::NAN);
            follower.step(time, &x, labels, &mut predicted).map(|_| ())
        }
        None => follower.forecast(&x, &mut predicted),
    }
    .map_err(|e| match e {
        AdaptError::Diverged { .. } => {
            "the weights would leave the finite numbers; nothing was learnt".to_owned()
        }
        other => other.to_string(),
    })?;
    if predicted.iter().any(|p| !p.is_finite()) {
        return Err("x leads the network out of the finite numbers".into());
    }
    let mut answer = serde_json::Map::new();
    if let Some(time) = line.get("time") {
        answer.insert("time".into(), time.clone());
    }
    match known {
        Labels::Classes { names, .. } => {
            let probabilities: Vec<&[f64]> =
                predicted.chunks_exact(follower.classes().max(1)).collect();
            // Of a stream with one class the other has no name.
            let name = |row: &&[f64]| names.get(most_likely(row)).map_or("", String::as_str);
            let named: Vec<&str> = probabilities.iter().map(name).collect();
            answer.insert("prediction".into(), named.into());
            answer.insert("probabilities".into(), json!(probabilities));
        }
        Labels::Values(_) => {
            answer.insert("prediction".into(), json!(predicted));
        }
    }
    if labels.is_some() {
        answer.insert("learnt".into(), rows.len().into());
    }
    Ok(Value::Object(answer))
}

/// Labels of a line in the terms of the stream.
fn read_labels(given: &[Value], known: &Labels) -> Result<Labels, String> {
    match known {
        Labels::Values(_) => {
            let values = given.iter().map(Value::as_f64).collect::<Option<_>>();
            values.map(Labels::Values).ok_or_else(|| "y must be numbers".into())
        }
        Labels::Classes { names, .. } => {
            let class = |y: &Value| {
                let text = class_name(&y.as_str().map_or_else(|| y.to_string(), str::to_owned));
                let found = names.iter().position(|n| *n == text);
                found.map(|c| c as u32).ok_or_else(|| {
                    format!("there is no class {text:?}; there are {}", names.join(", "))
                })
            };
            let of = given.iter().map(class).collect::<Result<_, _>>()?;
            Ok(Labels::Classes { of, names: names.clone() })
        }
    }
}

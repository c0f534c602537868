//! What a page shows when nothing was given to it: series that people know, and systems that they may know.
//!
//! Simulated tables are made when they are first asked for, always the same, and go through the reader of tables like any other.

use crate::fault::Fault;
use crate::table::Table;
use optfilter::rng::Stream;
use optfilter_model::ModelSpec;
use optfilter_run::{FilterSpec, Method};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A series of the gallery.
struct Piece {
    id: &'static str,
    title: &'static str,
    about: &'static str,
    model: Text,
    table: Rows,
    /// Optimizer, steps and rate of the filter it begins with; none for the model's own.
    filter: Option<(&'static str, u32, f64)>,
}

enum Text {
    /// A built-in system.
    System(&'static str),
    /// A file.
    File(&'static str),
}

enum Rows {
    /// A table of the world.
    File(&'static str, &'static str),
    /// Simulated: rows, seed, and what happens to the measurements.
    Simulated(usize, u64, Spoil),
}

#[derive(Clone, Copy)]
enum Spoil {
    /// Nothing.
    No,
    /// Three of a hundred rows are far off.
    Outliers(f64),
    /// Stretches without a measurement.
    Gaps,
}

macro_rules! example {
    ($name:literal) => {
        include_str!(concat!("../gallery/", $name))
    };
}

const GALLERY: &[Piece] = &[
    Piece {
        id: "nile",
        title: "The Nile, 1871-1970",
        about: "The yearly flow at Aswan: a level that wanders. One slider is a Kalman filter.",
        model: Text::File(example!("nile.toml")),
        table: Rows::File("nile.csv", example!("nile.csv")),
        filter: Some(("gd", 3, 1500.0)),
    },
    Piece {
        id: "toy",
        title: "The toy system of the paper",
        about: "One state that jumps between two wells; its square is measured.",
        model: Text::System("growth"),
        table: Rows::Simulated(200, 3, Spoil::No),
        filter: Some(("gd", 5, 0.4)),
    },
    Piece {
        id: "lorenz63",
        title: "Lorenz 1963",
        about: "Three chaotic equations, seen through noise.",
        model: Text::System("lorenz63"),
        table: Rows::Simulated(500, 1, Spoil::No),
        filter: Some(("gd", 3, 0.3)),
    },
    Piece {
        id: "lorenz96",
        title: "Lorenz 1996",
        about: "Eight states on a circle, every second one measured.",
        model: Text::System("lorenz96"),
        table: Rows::Simulated(400, 1, Spoil::No),
        filter: None,
    },
    Piece {
        id: "co2",
        title: "CO2 at Mauna Loa",
        about: "Trend and season, calendar dates, 59 missing weeks.",
        model: Text::File(example!("co2.toml")),
        table: Rows::File("co2.csv", example!("co2.csv")),
        filter: None,
    },
    Piece {
        id: "earthquakes",
        title: "Large earthquakes",
        about: "Counts per year with a wandering rate: no Gaussian anywhere.",
        model: Text::File(example!("earthquakes.toml")),
        table: Rows::File("earthquakes.csv", example!("earthquakes.csv")),
        filter: None,
    },
    Piece {
        id: "gps",
        title: "A GPS track with outliers",
        about: "Position of something that moves; three fixes in a hundred are far off.",
        model: Text::System("constant-velocity"),
        table: Rows::Simulated(400, 7, Spoil::Outliers(12.0)),
        filter: None,
    },
    Piece {
        id: "pendulum",
        title: "A pendulum with gaps",
        about: "The horizontal position of a swing, now and then nobody looks.",
        model: Text::System("pendulum"),
        table: Rows::Simulated(600, 5, Spoil::Gaps),
        filter: None,
    },
];

impl Piece {
    fn text(&self) -> &'static str {
        match self.model {
            Text::File(text) => text,
            Text::System(name) => {
                ModelSpec::built_ins().find(|(n, _)| *n == name).map_or("", |(_, text)| text)
            }
        }
    }

    fn file(&self) -> String {
        match self.table {
            Rows::File(name, _) => name.to_owned(),
            Rows::Simulated(..) => format!("{}.csv", self.id),
        }
    }

    fn made(&self) -> Result<Vec<u8>, Fault> {
        match self.table {
            Rows::File(_, text) => Ok(text.as_bytes().to_vec()),
            Rows::Simulated(rows, seed, spoil) => {
                let spec = ModelSpec::parse("gallery", self.text())?;
                simulated(&spec, rows, seed, spoil)
            }
        }
    }
}

/// States and measurements of a model as a CSV table, spoilt or not.
fn simulated(spec: &ModelSpec, rows: usize, seed: u64, spoil: Spoil) -> Result<Vec<u8>, Fault> {
    let mut dice = Stream::new(seed, 0, "gallery");
    let names: Vec<&str> =
        spec.observations.iter().chain(&spec.states).map(String::as_str).collect();
    let mut out = names.join(",") + "\n";
    let mut row = 0;
    let visit = |_: &_, states: &[f64], outputs: &[f64]| {
        let off = match spoil {
            Spoil::Outliers(size) if dice.uniform() < 0.03 => size,
            _ => 0.0,
        };
        let gone = matches!(spoil, Spoil::Gaps) && row % 150 >= 105;
        let cells = outputs.iter().map(|y| match gone {
            true => String::new(),
            false => (y + off * dice.normal()).to_string(),
        });
        let line: Vec<String> = cells.chain(states.iter().map(f64::to_string)).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", line.join(","));
        row += 1;
        true
    };
    spec.simulate(rows, (seed, 0), false, &[], visit).map_err(|e| Fault::Data(e.to_string()))?;
    Ok(out.into_bytes())
}

/// States and measurements of a model as a CSV table; the columns of the states are the truth.
pub fn simulated_table(spec: &ModelSpec, rows: usize, seed: u64) -> Result<Vec<u8>, Fault> {
    simulated(spec, rows, seed, Spoil::No)
}

/// The table of a piece, made once; `None` if no piece is called so.
pub fn table(id: &str) -> Result<Option<Arc<Table>>, Fault> {
    static MADE: OnceLock<Mutex<HashMap<&'static str, Arc<Table>>>> = OnceLock::new();
    let Some(piece) = GALLERY.iter().find(|p| p.id == id) else { return Ok(None) };
    let made = MADE.get_or_init(Mutex::default);
    let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(table) = made.get(piece.id) {
        return Ok(Some(table.clone()));
    }
    let table = Arc::new(Table { name: piece.file(), bytes: piece.made()? });
    made.insert(piece.id, table.clone());
    Ok(Some(table))
}

/// The gallery as a page needs it.
pub fn list() -> Value {
    let one = |piece: &Piece| {
        let filter = piece.filter.map(|(optimizer, steps, lr)| FilterSpec {
            method: Some(Method::Imap),
            optimizer: Some(optimizer.into()),
            steps: Some(steps),
            lr: Some(lr),
            ..FilterSpec::default()
        });
        let name = piece.file().replace(".csv", ".toml");
        json!({
            "id": piece.id, "title": piece.title, "about": piece.about,
            "model": piece.text(), "name": name, "filter": filter,
        })
    };
    GALLERY.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::{Named, Shelf};

    #[test]
    fn every_piece_can_be_read_and_filtered() {
        let shelf = Shelf::new(None);
        for piece in GALLERY {
            let named =
                Named { model: piece.text().into(), name: piece.id.into(), table: piece.id.into() };
            let subject = shelf.subject(&named).unwrap();
            assert!(subject.data.len() >= 100, "{}", piece.id);
            let simulated = matches!(piece.table, Rows::Simulated(..));
            assert_eq!(subject.known.iter().all(|k| *k), simulated, "{}", piece.id);
            let filter = subject.spec.fitted(&subject.spec.filter).unwrap();
            assert!(subject.spec.runner(&filter).is_ok(), "{}", piece.id);
        }
    }
}

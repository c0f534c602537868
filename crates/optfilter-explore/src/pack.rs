//! An answer of numbers: a head in JSON, then all arrays as little-endian doubles.
//!
//! ```text
//! 4 bytes   length of the head, a multiple of 8 less 4
//! head      JSON, filled up with blanks; `arrays` says name, kind, first double and number of doubles of each
//! doubles   one array after the other
//! ```

use crate::http::Answer;
use serde_json::{Value, json};

/// Arrays on their way into an answer.
#[derive(Default)]
pub struct Pack {
    arrays: Vec<Value>,
    numbers: Vec<f64>,
}

impl Pack {
    /// Pairs (x, y).
    pub fn pairs(&mut self, name: Value, kind: &str, points: &[(f64, f64)]) {
        self.begin(name, kind, 2 * points.len());
        self.numbers.extend(points.iter().flat_map(|p| [p.0, p.1]));
    }

    /// Triples (x, low, high).
    pub fn band(&mut self, name: Value, kind: &str, band: &[(f64, f64, f64)]) {
        self.begin(name, kind, 3 * band.len());
        self.numbers.extend(band.iter().flat_map(|p| [p.0, p.1, p.2]));
    }

    fn begin(&mut self, name: Value, kind: &str, len: usize) {
        let mut entry = json!({"kind": kind, "at": self.numbers.len(), "len": len});
        if let (Value::Object(entry), Value::Object(name)) = (&mut entry, name) {
            entry.extend(name);
        }
        self.arrays.push(entry);
    }

    /// The answer with this head.
    pub fn answer(self, mut head: Value) -> Answer {
        head["arrays"] = self.arrays.into();
        let mut text = head.to_string();
        while !(text.len() + 4).is_multiple_of(8) {
            text.push(' ');
        }
        let mut body = Vec::with_capacity(4 + text.len() + 8 * self.numbers.len());
        body.extend_from_slice(&(text.len() as u32).to_le_bytes());
        body.extend_from_slice(text.as_bytes());
        body.extend(self.numbers.iter().flat_map(|v| v.to_le_bytes()));
        Answer::new(200, "application/octet-stream", body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_lie_on_multiples_of_eight() {
        let mut pack = Pack::default();
        pack.pairs(json!({"of": "a"}), "line", &[(1.0, 2.0), (3.0, f64::NAN)]);
        pack.band(json!({"of": "b"}), "band", &[(1.0, 0.5, 1.5)]);
        let body = pack.answer(json!({"x": "äöü"})).body;
        let head = u32::from_le_bytes(body[..4].try_into().unwrap()) as usize;
        assert_eq!((4 + head) % 8, 0);
        let value: Value = serde_json::from_slice(&body[4..4 + head]).unwrap();
        assert_eq!(value["arrays"][1]["at"], 4);
        let numbers: Vec<f64> = body[4 + head..]
            .chunks_exact(8)
            .map(|c| f64::from_le_bytes(c.try_into().unwrap()))
            .collect();
        assert_eq!(numbers.len(), 7);
        assert_eq!(&numbers[4..], &[1.0, 0.5, 1.5]);
    }
}

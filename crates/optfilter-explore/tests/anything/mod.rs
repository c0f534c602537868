//! What holds for any bytes that come in at the page's socket; the fuzz target and the tests ask the same.
#![allow(clippy::unwrap_used, dead_code)] // a test that cannot go on should stop; each uses its own part

use optfilter_explore::Api;
use optfilter_explore::http::{self, MAX_BODY, MAX_HEAD};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};

/// Any bytes as a request: refused with a status, or answered with one; never a panic, which the server would have to catch.
pub fn request(data: &[u8]) {
    let head = match http::head(data) {
        Ok(Some(head)) => head,
        Ok(None) => {
            assert!(data.len() < MAX_HEAD);
            return;
        }
        Err(refusal) => {
            assert!((400..=501).contains(&refusal.0) && !refusal.1.is_empty());
            return;
        }
    };
    assert!(head.size <= data.len() && head.size <= MAX_HEAD && head.length <= MAX_BODY);
    assert!(!head.path.contains('?'));
    // Where the server looks for its token a fuzzer would never get further.
    let path = head.path.trim_start_matches('/');
    let body = &data[head.size..];
    if !is_small(body) {
        return;
    }
    let api = Api::default();
    if Api::is_stream(path) && head.method == "POST" {
        let (stop, mut words) = (AtomicBool::new(false), 0);
        // Nobody listens after the first word, as where the page was closed.
        let mut tell = |word: Value| {
            assert!(word.is_object());
            words += 1;
            stop.store(true, Ordering::Relaxed);
            false
        };
        api.stream(path, body, &stop, &mut tell);
        assert!(words >= 1, "a request without an answer");
        return;
    }
    let answer = api.answer(&head.method, path, &head.query, body.to_vec());
    assert!([200, 404, 405].contains(&answer.status), "{}", answer.status);
    if answer.kind == "application/json" {
        serde_json::from_slice::<Value>(&answer.body).unwrap();
    }
}

/// Whether a question can be answered soon: a million particles are a question, too, but none for a fuzzer. What is not
/// JSON is refused at once, or a table.
fn is_small(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).map_or(true, |value| has_small_numbers(&value))
}

fn has_small_numbers(value: &Value) -> bool {
    match value {
        Value::Number(n) => n.as_u64().is_none_or(|n| n < 100),
        Value::String(text) => {
            // In a model file: up to two digits, and no other way to write a large number.
            let plain = text.replace('_', "");
            let longest = plain.split(|c: char| !c.is_ascii_digit()).map(str::len).max();
            longest.unwrap_or(0) < 3 && !["0x", "0o", "0b"].iter().any(|base| plain.contains(base))
        }
        Value::Array(values) => values.len() < 10 && values.iter().all(has_small_numbers),
        Value::Object(entries) => entries.values().all(has_small_numbers),
        _ => true,
    }
}

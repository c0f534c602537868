//! A search that nobody waits for any more ends: seen by what it says, and by the connection that it holds.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter_explore::{Api, Server};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn question(budget: usize) -> String {
    let from = json!({"page": "p", "lane": "tune", "number": 1});
    let subject = json!({"model": "system = \"lorenz63\"", "table": "lorenz63"});
    json!({"from": from, "subject": subject, "budget": budget}).to_string()
}

/// The words of a leader-board's search of which the listener leaves after so many.
fn words(budget: usize, leaves_after: usize) -> (Vec<Value>, bool) {
    let (stop, mut words) = (AtomicBool::new(false), Vec::new());
    let mut tell = |word: Value| {
        words.push(word);
        words.len() < leaves_after
    };
    Api::default().stream("api/tune", question(budget).as_bytes(), &stop, &mut tell);
    (words, stop.load(Ordering::Relaxed))
}

/// The first news come with the first setting that was tried, so a listener who leaves then leaves before the end.
#[test]
fn a_leader_board_stops_when_its_listener_leaves() {
    let (words, stopped) = words(200, 1);
    assert!(stopped);
    let (first, last) = (&words[0], &words[words.len() - 1]);
    assert!(first["done"].as_u64().unwrap() < first["of"].as_u64().unwrap(), "{first}");
    assert_eq!(last["error"]["kind"], "stopped", "{last}");
    assert!(words.iter().all(|word| word.get("finished").is_none()), "{words:?}");
    // News that were on their way may still come; the search itself goes no further.
    assert!(words.len() <= 3, "{words:?}");
}

/// Asked to stop before it begins, it tries nothing.
#[test]
fn a_leader_board_that_was_stopped_tries_nothing() {
    let (stop, mut words) = (AtomicBool::new(true), Vec::new());
    let begun = Instant::now();
    let mut tell = |word: Value| {
        words.push(word);
        true
    };
    Api::default().stream("api/tune", question(1000).as_bytes(), &stop, &mut tell);
    assert_eq!(words.last().unwrap()["error"]["kind"], "stopped", "{words:?}");
    assert!(begun.elapsed() < Duration::from_secs(60));
}

/// The Stop button closes the connection. The search that the page does not wait for any more gives it back.
#[test]
fn closing_the_connection_ends_the_search() {
    let server = Server::start(Api::default(), 0, false).unwrap();
    let address = server.address();
    let (host, rest) = address.trim_start_matches("http://").split_once('/').unwrap();
    let (token, body) = (rest.trim_end_matches('/'), question(1000));
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "POST /{token}/api/tune HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    let news = lines.find(|line| line.starts_with('{')).unwrap();
    let news: Value = serde_json::from_str(&news).unwrap();
    assert!(news["done"].as_u64() < news["of"].as_u64(), "{news}");
    assert_eq!(server.connections(), 1);
    drop(lines);
    drop(stream);
    // A thousand settings of this series take minutes; a batch of them at most passes until the next word finds nobody.
    let begun = Instant::now();
    while server.connections() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the search goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

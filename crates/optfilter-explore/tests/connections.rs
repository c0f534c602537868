//! Who talks slowly, too much or without the token does not get in the way of those who may ask.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod talk;

use optfilter_explore::http::MAX_BODY;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use talk::Talk;

fn until_the_end(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut out = Vec::new();
    let _ = stream.read_to_end(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn strangers_are_refused_by_their_head_alone() {
    let talk = Talk::new();
    let (host, token) = (&talk.host, &talk.token);
    for (path, named, status) in [
        ("/wrong/api/table", host.as_str(), 404),
        (&format!("/{token}/api/table"), "evil.example", 403),
    ] {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(host).unwrap();
        // The body never comes.
        write!(stream, "POST {path}?x.csv HTTP/1.1\r\nHost: {named}\r\nOrigin: http://{host}\r\nContent-Length: {MAX_BODY}\r\n\r\n").unwrap();
        let said = until_the_end(&mut stream);
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

/// Connections that are kept up, each with a byte now and then, until this is dropped.
struct Slow {
    ended: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Slow {
    fn new(host: &str, count: usize, first: String) -> Self {
        let (ended, host) = (Arc::new(AtomicBool::new(false)), host.to_owned());
        let asked = ended.clone();
        let open = move || {
            let mut stream = TcpStream::connect(&host).ok()?;
            stream.write_all(first.as_bytes()).ok()?;
            Some(stream)
        };
        let mut streams: Vec<Option<TcpStream>> = (0..count).map(|_| open()).collect();
        let keep = move || {
            let begun = Instant::now();
            while !asked.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(60) {
                for stream in &mut streams {
                    let alive = stream.as_mut().is_some_and(|s| s.write_all(b"a").is_ok());
                    if !alive {
                        *stream = open();
                    }
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        Self { ended, thread: Some(std::thread::spawn(keep)) }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Asks a question again and again; each is answered, and soon.
fn all_are_answered(talk: &Talk, count: usize) {
    for k in 0..count {
        let begun = Instant::now();
        let said = talk.start();
        assert!(said.starts_with("HTTP/1.1 200"), "question {k}: {said:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "question {k}: {:?}", begun.elapsed());
    }
}

#[test]
fn slow_heads_do_not_lock_the_page_out() {
    let talk = Talk::new();
    // More than there are places at the door, so that each that comes sends another away.
    for (count, first) in [(200, "GET /"), (200, ""), (300, "POST /x HTTP/1.1\r\nHost: ")] {
        let slow = Slow::new(&talk.host, count, first.to_owned());
        all_are_answered(&talk, 100);
        assert!(talk.server.connections() <= 256 + 2, "{}", talk.server.connections());
        drop(slow);
    }
}

#[test]
fn after_a_burst_the_next_is_answered_at_once() {
    let talk = Talk::new();
    for _ in 0..3 {
        let burst: Vec<TcpStream> =
            (0..200).map(|_| TcpStream::connect(&talk.host).unwrap()).collect();
        all_are_answered(&talk, 1);
        drop(burst);
    }
}

/// With the token, so that each has a thread: the one that waits for longest gives its own to the next.
#[test]
fn slow_bodies_and_readers_give_their_places_to_others() {
    let talk = Talk::new();
    let (host, token) = (&talk.host, &talk.token);
    let body = format!(
        "POST /{token}/api/table?x.csv HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: 1000000\r\n\r\n"
    );
    let slow = Slow::new(host, 200, body);
    all_are_answered(&talk, 50);
    drop(slow);
    // Answers that nobody reads.
    let page = format!("GET /{token}/ HTTP/1.1\r\nHost: {host}\r\n\r\n").repeat(40);
    let slow = Slow::new(host, 150, page);
    all_are_answered(&talk, 50);
    drop(slow);
}

#[test]
fn the_silent_are_let_go_and_whoever_began_to_speak_is_told() {
    let talk = Talk::new();
    let mut silent: Vec<TcpStream> =
        (0..10).map(|_| TcpStream::connect(&talk.host).unwrap()).collect();
    silent[0].write_all(b"GET /").unwrap();
    // One whose other half is closed has nothing more to say, unless it has asked already.
    let half = TcpStream::connect(&talk.host).unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(talk.say(b"GET /", false).is_empty());
    let (host, token) = (&talk.host, &talk.token);
    let question = format!("GET /{token}/api/start HTTP/1.1\r\nHost: {host}\r\n\r\n");
    assert!(talk.say(question.as_bytes(), false).starts_with("HTTP/1.1 200"));
    let said = until_the_end(&mut silent[0]);
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    for stream in &mut silent[1..] {
        assert_eq!(until_the_end(stream), "");
    }
    drop(silent);
    let begun = Instant::now();
    while talk.server.connections() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", talk.server.connections());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn whoever_sends_too_much_hears_why_it_was_not_taken() {
    let talk = Talk::new();
    let (host, token) = (&talk.host, &talk.token);
    let mut bytes = format!(
        "POST /{token}/api/table?x.csv HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: {}\r\n\r\n",
        MAX_BODY + (1 << 20)
    )
    .into_bytes();
    bytes.resize(bytes.len() + MAX_BODY + (1 << 20), b'1');
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(&bytes).unwrap();
    let said = until_the_end(&mut stream);
    assert!(said.starts_with("HTTP/1.1 413") && said.contains("longer than 64 MiB"), "{said}");
}

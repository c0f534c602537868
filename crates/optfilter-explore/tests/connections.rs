//! Who talks slowly, too much or without the token does not get in the way of those who may ask.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod talk;

use optfilter_explore::http::MOST_BODY;
use std::io::{Read, Write};
use std::net::TcpStream;
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
        write!(stream, "POST {path}?x.csv HTTP/1.1\r\nHost: {named}\r\nOrigin: http://{host}\r\nContent-Length: {MOST_BODY}\r\n\r\n").unwrap();
        let said = until_the_end(&mut stream);
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

#[test]
fn silent_connections_do_not_lock_the_page_out() {
    let talk = Talk::new();
    let (host, token) = (&talk.host, &talk.token);
    let question = format!("GET /{token}/api/start HTTP/1.1\r\nHost: {host}\r\n\r\n");
    // A page that is there already keeps its connection.
    let mut page = TcpStream::connect(host).unwrap();
    let mut ask = || {
        page.write_all(question.as_bytes()).unwrap();
        let mut start = [0; 12];
        page.read_exact(&mut start).unwrap();
        let mut rest = vec![0; 1 << 20];
        // All of the answer is there soon, and is shorter than this.
        page.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        while page.read(&mut rest).is_ok_and(|count| count > 0) {}
        page.set_read_timeout(None).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
    };
    ask();
    let begun = Instant::now();
    let mut silent: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(host).unwrap()).collect();
    silent[0].write_all(b"GET /").unwrap();
    let crowded = talk.start();
    assert!(crowded.starts_with("HTTP/1.1 503"), "{crowded}");
    assert!(crowded.contains("try again in a few seconds"), "{crowded}");
    ask();
    // Those who say nothing are let go, and whoever began to speak is told why.
    let said = until_the_end(&mut silent[0]);
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    while !talk.start().starts_with("HTTP/1.1 200") {
        assert!(begun.elapsed() < Duration::from_secs(30), "silence holds its place");
        std::thread::sleep(Duration::from_millis(100));
    }
    for stream in &mut silent[1..] {
        assert_eq!(until_the_end(stream), "");
    }
}

#[test]
fn whoever_sends_too_much_hears_why_it_was_not_taken() {
    let talk = Talk::new();
    let (host, token) = (&talk.host, &talk.token);
    let mut bytes = format!(
        "POST /{token}/api/table?x.csv HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: {}\r\n\r\n",
        MOST_BODY + (1 << 20)
    )
    .into_bytes();
    bytes.resize(bytes.len() + MOST_BODY + (1 << 20), b'1');
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(&bytes).unwrap();
    let said = until_the_end(&mut stream);
    assert!(said.starts_with("HTTP/1.1 413") && said.contains("longer than 64 MiB"), "{said}");
}

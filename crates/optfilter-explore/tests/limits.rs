//! What asks for too much is told so at once, and keeps nobody from anything.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod talk;

use std::io::Write;
use std::time::{Duration, Instant};
use talk::Talk;

const FROM: &str = r#""from":{"page":"p","lane":"a","number":1}"#;
const LORENZ: &str = r#""subject":{"model":"system = \"lorenz63\"","table":"lorenz63"}"#;

fn ask(talk: &Talk, path: &str, rest: &str) -> String {
    let begun = Instant::now();
    let said = talk.post(path, &format!("{{{FROM},{rest}}}"));
    assert!(begun.elapsed() < Duration::from_secs(30), "{path} {rest} took {:?}", begun.elapsed());
    said
}

#[test]
fn settings_that_size_memory_or_work_have_limits() {
    let talk = Talk::new();
    let large = "\"filter\":{\"method\":";
    for (path, rest, key) in [
        ("api/run", format!("{large}\"etkf\",\"members\":4000000000}}"), "members"),
        ("api/run", format!("{large}\"letkf\",\"members\":4000000000}}"), "members"),
        ("api/run", format!("{large}\"pf\",\"particles\":4000000000}}"), "particles"),
        ("api/run", format!("{large}\"imap\",\"steps\":4000000000}}"), "steps"),
        ("api/run", format!("{large}\"imap\",\"window\":4000000000}}"), "window"),
        (
            "api/step",
            format!("{large}\"imap\",\"steps\":4000000000}},\"row\":9,\"along\":[0]"),
            "steps",
        ),
        (
            "api/map",
            format!(
                "{large}\"imap\"}},\"map\":{{\"x\":[\"lr\",[1]],\"y\":[\"steps\",[4000000000]]}}"
            ),
            "steps",
        ),
        (
            "api/map",
            format!(
                "{large}\"imap\",\"steps\":4000000000}},\"map\":{{\"x\":[\"lr\",[1]],\"y\":[\"lr\",[1]]}}"
            ),
            "steps",
        ),
    ] {
        let said = ask(&talk, path, &format!("{LORENZ},{rest}"));
        assert!(said.contains(&format!("\"key\":\"{key}\"")), "{path} {rest}: {said}");
        assert!(said.contains("4000000000 is too many for the page; at most 10"), "{said}");
    }
    // Each within its limit, but not together.
    let rest = format!("{LORENZ},{large}\"imap\",\"steps\":10000,\"window\":1000}}");
    assert!(ask(&talk, "api/run", &rest).contains("would take too long"));
    let slow = "\"map\":{\"x\":[\"steps\",[10000]],\"y\":[\"window\",[900]]}";
    let said = ask(&talk, "api/map", &format!("{LORENZ},{large}\"imap\"}},{slow}"));
    assert!(said.contains("too long"), "{said}");
    assert!(talk.start().starts_with("HTTP/1.1 200"));
}

/// The filter of a model file is one of those that the leader-board tries.
#[test]
fn the_filter_of_a_model_file_has_the_same_limits() {
    let talk = Talk::new();
    let filter = "[filter]\\nmethod = \\\"pf\\\"\\nparticles = 4000000000\\n";
    let subject = LORENZ.replace("lorenz63\\\"\"", &format!("lorenz63\\\"\\n{filter}\""));
    for (path, rest) in [
        ("api/tune", "\"budget\":10"),
        ("api/run", "\"filter\":{\"method\":\"pf\",\"particles\":4000000000}"),
    ] {
        let said = ask(&talk, path, &format!("{subject},{rest}"));
        assert!(
            said.contains("\"key\":\"particles\"") && said.contains("too many"),
            "{path}: {said}"
        );
    }
    assert!(talk.start().starts_with("HTTP/1.1 200"));
}

/// Text as gzip that is packed no tighter than it was; its check is wrong, which is seen only at its end.
fn stored(text: &[u8]) -> Vec<u8> {
    let mut out = b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec();
    let mut blocks = text.chunks(u16::MAX.into()).peekable();
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        out.push(u8::from(blocks.peek().is_none()));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&[0; 8]);
    out
}

#[test]
fn a_table_that_is_dropped_on_the_page_has_lines_of_bounded_length() {
    let api = optfilter_explore::Api::default();
    let text = [b"y\n1\n".to_vec(), vec![b'1'; 2 << 20]].concat();
    for bytes in [stored(&text), text] {
        let kept = api.answer("POST", "api/table", "long.csv", bytes).body;
        let kept: serde_json::Value = serde_json::from_slice(&kept).unwrap();
        let subject =
            serde_json::json!({"model": "system = \"local-level\"", "table": kept["table"]});
        let body = serde_json::json!({ "subject": subject }).to_string().into_bytes();
        let said = api.answer("POST", "api/describe", "", body).body;
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains("long.csv: a line is longer than 1 MiB"), "{said}");
    }
}

#[test]
fn a_map_that_nobody_waits_for_ends_between_its_cells() {
    let talk = Talk::new();
    // Cells that take a while each: the first word would come after sixteen of them.
    let steps: Vec<String> = (0..40).map(|k| (300 + k).to_string()).collect();
    let map = format!(
        "\"map\":{{\"x\":[\"steps\",[{}]],\"y\":[\"lr\",[0.1,0.2,0.3,0.4]]}}",
        steps.join(",")
    );
    let filter = "\"filter\":{\"method\":\"imap\",\"optimizer\":\"gd\",\"steps\":3,\"lr\":0.3}";
    let body = format!("{{{FROM},{LORENZ},{filter},{map}}}");
    let (host, token) = (&talk.host, &talk.token);
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    write!(
        stream,
        "POST /{token}/api/map HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(talk.server.connections(), 1, "the map is there already, or was refused");
    drop(stream);
    let begun = Instant::now();
    while talk.server.connections() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the map goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

//! Whatever comes in at the socket: the parser of requests never panics and never misreads, and the server goes on.

#![allow(clippy::unwrap_used)]

mod talk;

use optfilter_explore::http::{self, MAX_BODY, MAX_HEAD};
use proptest::prelude::*;
use talk::Talk;

/// Pieces of requests, well and badly formed.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        &b"GET / HTTP/1.1\r\n"[..],
        b"POST /x HTTP/1.1\r\n",
        b"Host: 127.0.0.1:1\r\n",
        b"host:localhost\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: -5\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Origin: null\r\n",
        b"Connection: close\r\n",
        b"\r\n",
        b"\n",
        b"\0",
        b"hello",
    ]);
    let known = known.prop_map(<[u8]>::to_vec);
    let any = prop::collection::vec(any::<u8>(), 0..40);
    prop::collection::vec(prop_oneof![3 => known, 1 => any], 0..20).prop_map(|p| p.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_head_of_any_bytes_is_read_or_refused(bytes in pieces()) {
        match http::head(&bytes) {
            Ok(Some(head)) => {
                prop_assert!(head.size <= bytes.len() && head.size <= MAX_HEAD && head.length <= MAX_BODY);
                let text = &bytes[..head.size];
                prop_assert!(text.ends_with(b"\r\n\r\n") || text.ends_with(b"\n\n") || text.ends_with(b"\n\r\n"));
            }
            Ok(None) => prop_assert!(bytes.len() < MAX_HEAD),
            Err(refusal) => prop_assert!((400..=501).contains(&refusal.0)),
        }
    }

    #[test]
    fn what_is_well_formed_is_read_as_it_was_meant(
        path in "/[a-z0-9/._-]{0,40}", query in "[a-z0-9%=&]{0,20}", length in 0usize..100_000, host in "[a-z0-9.:]{1,30}",
    ) {
        let text = format!("POST {path}?{query} HTTP/1.1\r\nHOST: {host}\r\ncontent-LENGTH:{length}\r\n\r\nbody");
        let head = http::head(text.as_bytes()).unwrap().unwrap();
        prop_assert_eq!((head.path, head.query, head.length), (path, query, length));
        prop_assert_eq!((head.host, head.origin, head.size), (Some(host), None, text.len() - 4));
        for end in 0..text.len() - 4 {
            prop_assert_eq!(http::head(&text.as_bytes()[..end]), Ok(None));
        }
    }
}

#[test]
fn what_is_said_twice_is_refused() {
    for twice in
        ["Host: a\r\nHost: b", "Origin: a\r\nOrigin: a", "Content-Length: 1\r\nContent-Length: 1"]
    {
        let text = format!("GET / HTTP/1.1\r\n{twice}\r\n\r\n");
        assert_eq!(http::head(text.as_bytes()).unwrap_err().0, 400);
    }
    let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(MAX_HEAD));
    assert_eq!(http::head(long.as_bytes()).unwrap_err().0, 431);
    let huge = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", MAX_BODY + 1);
    assert_eq!(http::head(huge.as_bytes()).unwrap_err().0, 413);
}

/// Numbers that are no good to anybody.
const HUGE: [&str; 7] =
    ["4000000000", "4294967295", "18446744073709551615", "-1", "1e308", "-1e-308", "0"];

/// Questions with a place for such a number.
const OPEN_QUESTIONS: [(&str, &str); 12] = [
    ("api/run", r#""filter":{"method":"etkf","members":N}"#),
    ("api/run", r#""filter":{"method":"letkf","members":N}"#),
    ("api/run", r#""filter":{"method":"pf","particles":N}"#),
    ("api/run", r#""filter":{"method":"pf","seed":N}"#),
    ("api/run", r#""filter":{"method":"imap","steps":N}"#),
    ("api/run", r#""filter":{"method":"imap","window":N}"#),
    ("api/run", r#""filter":{"method":"imap","lr":N}"#),
    ("api/run", r#""filter":{"method":"ekf"},"chosen":[N,N]"#),
    ("api/run", r#""filter":{"method":"ekf"},"view":{"states":[N],"from":N,"to":N}"#),
    ("api/step", r#""filter":{"method":"imap","steps":N},"row":N,"along":[N]"#),
    ("api/step", r#""filter":{"method":"iekf","steps":N},"row":7,"along":[0]"#),
    ("api/map", r#""map":{"x":["steps",[N]],"y":["window",[N]]}"#),
];

#[test]
fn no_request_ends_the_server() {
    let talk = Talk::new();
    assert!(talk.start().starts_with("HTTP/1.1 200"));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(150));
    // What comes without the token is refused, whatever it is; what is no request yet is not answered.
    runner
        .run(&pieces(), |bytes| {
            let said = talk.say(&bytes, false);
            let refused = said.starts_with("HTTP/1.1 4") || said.starts_with("HTTP/1.1 501");
            prop_assert!(said.is_empty() || refused, "{}", said);
            Ok(())
        })
        .unwrap();
    // What comes with it is answered, whatever it asks for.
    let beginning = concat!(
        r#"{"from":{"page":"p","lane":"a","number":1},"#,
        r#""subject":{"model":"system = \"growth\"","table":"toy"},"#
    );
    for (path, rest) in OPEN_QUESTIONS {
        for number in HUGE {
            let said = talk.post(path, &format!("{beginning}{}}}", rest.replace('N', number)));
            assert!(said.starts_with("HTTP/1.1 200"), "{path} {rest} {number}: {said}");
            let (_, body) = said.split_once("\r\n\r\n").unwrap();
            let answers = ["\"error\"", "\"shown\"", "\"path\"", "\"finished\""];
            let answered = answers.iter().any(|word| body.contains(word));
            assert!(answered, "{path} {rest} {number}: {said}");
        }
    }
    assert!(talk.start().starts_with("HTTP/1.1 200"));
}

#[test]
fn nonsense_is_answered_with_a_message() {
    let talk = Talk::new();
    let subject = r#"{"model":"states = [\"x\"]\n","name":"m.toml","table":"nile"}"#;
    let from = r#"{"page":"p","lane":"a","number":1}"#;
    for (path, body, word) in [
        ("api/run", "", "not understood"),
        ("api/run", "[[[[[[", "not understood"),
        ("api/run", r#"{"from":{}}"#, "missing field"),
        ("api/describe", &format!(r#"{{"subject":{subject}}}"#), r#""kind":"model""#),
        (
            "api/describe",
            r#"{"subject":{"model":"system = \"local-level\"","table":"none"}}"#,
            "no longer here",
        ),
        (
            "api/run",
            &format!(
                r#"{{"from":{from},"subject":{{"model":"system = \"local-level\"","table":"nile"}},"filter":{{"lr":-1}}}}"#
            ),
            "column",
        ),
        (
            "api/step",
            &format!(
                r#"{{"from":{from},"subject":{{"model":"system = \"growth\"","table":"toy"}},"filter":{{"method":"ekf"}},"row":999999,"along":[0]}}"#
            ),
            "no such row",
        ),
        (
            "api/run",
            &format!(
                r#"{{"from":{from},"subject":{{"model":"system = \"growth\"","table":"toy"}},"filter":{{"method":"ekf"}},"view":{{"states":[7]}}}}"#
            ),
            "no such state",
        ),
        (
            "api/run",
            &format!(
                r#"{{"from":{from},"subject":{{"model":"system = \"growth\"","table":"toy"}},"filter":{{"method":"imap","lr":-1}}}}"#
            ),
            r#""key":"lr""#,
        ),
        (
            "api/map",
            &format!(
                r#"{{"from":{from},"subject":{{"model":"system = \"growth\"","table":"toy"}},"map":{{"x":["moon",[1]],"y":["lr",[1]]}}}}"#
            ),
            "no map over",
        ),
        ("api/table?x.csv", "", "a name and something in it"),
        (
            "api/take",
            r#"{"what":"gold","subject":{"model":"system = \"growth\"","table":"toy"},"filter":{"method":"ekf"}}"#,
            "no \\\"gold\\\"",
        ),
    ] {
        let said = talk.post(path, body);
        assert!(said.contains(word), "{path} {body}: {said}");
        assert!(
            said.contains("error") && said.contains("Content-Security-Policy: default-src 'none'"),
            "{said}"
        );
    }
    assert!(talk.post("api/nothing", "{}").starts_with("HTTP/1.1 405"));
    assert!(talk.start().starts_with("HTTP/1.1 200"));
}

#[test]
fn questions_with_any_change_are_answered() {
    let talk = Talk::new();
    let body = concat!(
        r#"{"from":{"page":"p","lane":"a","number":1},"subject":{"model":"system = \"growth\"","table":"toy"},"#,
        r#""filter":{"method":"imap","optimizer":"gd","steps":3,"lr":0.4},"bars":false,"ahead":3,"chosen":[5,50],"#,
        r#""view":{"states":[0],"observations":[0],"from":1.0,"to":9.0}}"#
    );
    assert!(talk.post("api/run", body).contains("\"shown\""));
    let places = prop::collection::vec((0..body.len(), any::<u8>()), 1..4);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
    runner
        .run(&places, |changes| {
            let mut bytes = body.as_bytes().to_vec();
            changes.iter().for_each(|(at, byte)| bytes[*at] = *byte);
            let said = talk.post("api/run", &String::from_utf8_lossy(&bytes));
            prop_assert!(said.starts_with("HTTP/1.1 200"), "{}", said);
            Ok(())
        })
        .unwrap();
}

#[test]
fn strangers_are_refused() {
    let talk = Talk::new();
    let (host, token) = (&talk.host, &talk.token);
    let ask = |path: &str, host: &str, more: &str| {
        talk.say(
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n")
                .as_bytes(),
            true,
        )
    };
    assert!(ask(&format!("/{token}/"), host, "").contains("<!DOCTYPE html>"));
    assert!(ask("/", host, "").starts_with("HTTP/1.1 404"));
    assert!(ask(&format!("/{token}/"), "evil.example", "").starts_with("HTTP/1.1 403"));
    assert!(
        ask(&format!("/{token}/"), host, "Origin: http://evil.example\r\n")
            .starts_with("HTTP/1.1 403")
    );
    assert!(ask(&format!("/{token}/../../etc/passwd"), host, "").starts_with("HTTP/1.1 404"));
}

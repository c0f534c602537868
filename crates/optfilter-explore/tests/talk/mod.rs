//! A server to talk to, as a browser or as anybody else would.
#![allow(clippy::unwrap_used, dead_code)] // a test that cannot go on should stop; each uses its own part

use optfilter_explore::{Api, Server};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A server, and a way to talk to it.
pub struct Talk {
    pub server: Server,
    pub host: String,
    pub token: String,
}

impl Talk {
    pub fn new() -> Self {
        let server = Server::start(Api::default(), 0, false).unwrap();
        let address = server.address();
        let (host, rest) = address.trim_start_matches("http://").split_once('/').unwrap();
        let (host, token) = (host.to_owned(), rest.trim_end_matches('/').to_owned());
        Self { server, host, token }
    }

    /// Says something and hears the answer to its end; `whole` requests end by themselves, others by hanging up.
    pub fn say(&self, bytes: &[u8], whole: bool) -> String {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let _ = stream.write_all(bytes);
        if !whole {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        let mut out = Vec::new();
        let _ = stream.read_to_end(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    pub fn post(&self, path: &str, body: &str) -> String {
        let (host, token) = (&self.host, &self.token);
        self.say(
            format!(
                "POST /{token}/{path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nConnection: close\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
            true,
        )
    }

    pub fn start(&self) -> String {
        let (host, token) = (&self.host, &self.token);
        self.say(
            format!("GET /{token}/api/start HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
                .as_bytes(),
            true,
        )
    }
}

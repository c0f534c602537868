//! HTTP/1.1 as far as one page on the same machine needs it: a request read within limits, an answer written at once or in pieces.
//!
//! The parser of the head is `httparse`'s. What is left is small and must be strict: one length of the body, no transfer
//! encodings, nothing longer than its limit, nothing slower than its limit.

use crate::seats::Seat;
use serde_json::json;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest head of a request, in bytes.
pub const MAX_HEAD: usize = 16 << 10;
/// The most headers of a request.
const MAX_HEADERS: usize = 64;
/// The longest body of a request: a table of a million rows.
pub const MAX_BODY: usize = 64 << 20;
/// How long a connection may stay without a request.
const IDLE: Duration = Duration::from_secs(60);
/// How long a request may take to arrive, and an answer to be taken.
const ARRIVAL: Duration = Duration::from_secs(30);
/// How long, and how much, is listened to after a refusal: a sender who is cut off would not hear it.
pub const LINGER: Duration = Duration::from_secs(5);
/// See [`LINGER`].
pub const MAX_LINGERING: usize = 2 * MAX_BODY;

/// The head of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// GET, POST and so on.
    pub method: String,
    /// The path, without what follows a question mark.
    pub path: String,
    /// What follows it.
    pub query: String,
    /// The header Host.
    pub host: Option<String>,
    /// The header Origin.
    pub origin: Option<String>,
    /// Bytes of the body.
    pub length: usize,
    /// Whether the connection ends after the answer.
    pub last: bool,
    /// Bytes of the head itself.
    pub size: usize,
}

/// A request that cannot be answered: a status and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub u16, pub &'static str);

/// What came too slowly.
pub const LATE: Refusal = Refusal(408, "the request took too long");

/// Reads a head from the first bytes of a request; `None` where it is not complete yet.
pub fn head(bytes: &[u8]) -> Result<Option<Head>, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let size = match request.parse(bytes) {
        Ok(httparse::Status::Complete(size)) if size <= MAX_HEAD => size,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal(431, "the head of the request is too long"));
        }
        Err(_) => return Err(Refusal(400, "this is not an HTTP request")),
    };
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut out = Head {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        last: request.version == Some(0),
        size,
        ..Head::default()
    };
    let mut length: Option<usize> = None;
    for header in request.headers.iter() {
        let Ok(value) = std::str::from_utf8(header.value) else {
            return Err(Refusal(400, "a header is not text"));
        };
        let value = value.trim();
        let once = |slot: &mut Option<String>| match slot.replace(value.to_owned()) {
            None => Ok(()),
            Some(_) => Err(Refusal(400, "a header is there twice")),
        };
        match header.name.to_ascii_lowercase().as_str() {
            "host" => once(&mut out.host)?,
            "origin" => once(&mut out.origin)?,
            "connection" => out.last |= value.eq_ignore_ascii_case("close"),
            "transfer-encoding" | "upgrade" => {
                return Err(Refusal(501, "only plain requests are answered"));
            }
            "content-length" => {
                let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
                let given = value.parse().ok().filter(|_| digits);
                if given.is_none() || length.is_some() {
                    return Err(Refusal(400, "the length of the request is unclear"));
                }
                length = given;
            }
            _ => {}
        }
    }
    out.length = length.unwrap_or(0);
    if out.length > MAX_BODY {
        return Err(Refusal(413, "the request is longer than 64 MiB"));
    }
    Ok(Some(out))
}

/// A connection with what was read ahead of the present request.
pub struct Connection {
    stream: TcpStream,
    ahead: Vec<u8>,
    seat: Arc<Seat>,
}

/// What came of waiting for bytes.
enum Came {
    Bytes,
    /// The other side has gone.
    End,
    /// Nothing within the time.
    Nothing,
}

impl Connection {
    /// Around a socket, of which some bytes were read ahead.
    pub fn new(stream: TcpStream, ahead: Vec<u8>, seat: Arc<Seat>) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, ahead, seat })
    }

    /// The head of the next request; `None` where the other side has gone or said nothing for long.
    pub fn head(&mut self) -> io::Result<Option<Result<Head, Refusal>>> {
        let mut quiet = self.ahead.is_empty();
        let mut until = Instant::now() + if quiet { IDLE } else { ARRIVAL };
        loop {
            match head(&self.ahead) {
                Ok(Some(head)) => {
                    self.ahead.drain(..head.size);
                    return Ok(Some(Ok(head)));
                }
                Ok(None) => {}
                Err(refusal) => return Ok(Some(Err(refusal))),
            }
            match self.more(until)? {
                Came::Bytes if quiet => {
                    quiet = false;
                    until = Instant::now() + ARRIVAL;
                }
                Came::Bytes => {}
                Came::Nothing if !quiet => return Ok(Some(Err(LATE))),
                Came::End | Came::Nothing => return Ok(None),
            }
        }
    }

    /// The body that belongs to a head; `None` where the other side has gone.
    pub fn body(&mut self, head: &Head) -> io::Result<Option<Result<Vec<u8>, Refusal>>> {
        let until = Instant::now() + ARRIVAL;
        while self.ahead.len() < head.length {
            match self.more(until)? {
                Came::Bytes => {}
                Came::End => return Ok(None),
                Came::Nothing => return Ok(Some(Err(LATE))),
            }
        }
        let rest = self.ahead.split_off(head.length);
        Ok(Some(Ok(std::mem::replace(&mut self.ahead, rest))))
    }

    /// Waits for more bytes.
    fn more(&mut self, until: Instant) -> io::Result<Came> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Came::Nothing);
            }
            self.stream.set_read_timeout(Some(left))?;
            let mut piece = [0; 1 << 16];
            match self.seat.waiting(|| self.stream.read(&mut piece)) {
                Ok(0) => return Ok(Came::End),
                Ok(count) => {
                    self.ahead.extend_from_slice(piece.get(..count).unwrap_or_default());
                    return Ok(Came::Bytes);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Ok(Came::Nothing),
            }
        }
    }

    /// Says why there is no answer, and ends. What is still being sent is heard out, as far as it is not too much.
    pub fn refuse(mut self, answer: &Answer, policy: &str) -> io::Result<()> {
        self.answer(answer, policy, true)?;
        self.stream.shutdown(Shutdown::Write)?;
        let (until, mut heard) = (Instant::now() + LINGER, 0);
        while heard < MAX_LINGERING {
            self.ahead.clear();
            match self.more(until)? {
                Came::Bytes => heard += self.ahead.len(),
                Came::End | Came::Nothing => break,
            }
        }
        Ok(())
    }

    /// Writes a whole answer.
    pub fn answer(&mut self, answer: &Answer, policy: &str, last: bool) -> io::Result<()> {
        self.part(&answer.whole(policy, last))
    }

    /// Begins an answer whose parts come later; the connection ends after it.
    pub fn begin(&mut self, policy: &str) -> io::Result<()> {
        let answer = Answer::new(200, "application/x-ndjson", Vec::new());
        let mut out = answer.head(policy, true);
        out.extend_from_slice(b"\r\n");
        self.part(&out)
    }

    /// A part of such an answer; an error where nobody listens any more.
    pub fn part(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let until = Instant::now() + ARRIVAL;
        while !bytes.is_empty() {
            // Whoever takes byte after byte has no longer than others.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_write_timeout(Some(left))?;
            match self.seat.waiting(|| self.stream.write(bytes)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Whether the other side has closed the connection.
    pub fn is_gone(&self) -> bool {
        let mut byte = [0];
        let _ = self.stream.set_nonblocking(true);
        let seen = self.stream.peek(&mut byte);
        let _ = self.stream.set_nonblocking(false);
        match seen {
            Ok(count) => count == 0,
            Err(e) => e.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// 200 if all is well.
    pub status: u16,
    /// What the body is.
    pub kind: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Of these parts.
    pub fn new(status: u16, kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, kind, body: body.into() }
    }

    /// A value as JSON.
    pub fn json(status: u16, value: &serde_json::Value) -> Self {
        Self::new(status, "application/json", value.to_string())
    }

    /// Why a request is not answered.
    pub fn refusal(Refusal(status, why): &Refusal) -> Self {
        Self::json(*status, &json!({"error": {"kind": "request", "message": why}}))
    }

    /// All of it, as it is sent.
    pub fn whole(&self, policy: &str, last: bool) -> Vec<u8> {
        let mut out = self.head(policy, last);
        out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", self.body.len()).as_bytes());
        out.extend_from_slice(&self.body);
        out
    }

    /// Status line and headers, without the length.
    fn head(&self, policy: &str, last: bool) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            403 => "Forbidden",
            404 => "Not Found",
            413 => "Content Too Large",
            503 => "Service Unavailable",
            _ => "Answer",
        };
        let connection = if last { "close" } else { "keep-alive" };
        let later = if self.status == 503 { "Retry-After: 1\r\n" } else { "" };
        format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Security-Policy: {policy}\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nConnection: {connection}\r\n{later}",
            self.status, self.kind
        )
        .into_bytes()
    }
}

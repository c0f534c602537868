//! HTTP/1.1 as far as one page on the same machine needs it: a request read within limits, an answer written at once or in pieces.
//!
//! The parser of the head is `httparse`'s. What is left is small and must be strict: one length of the body, no transfer
//! encodings, nothing longer than its limit, nothing slower than its limit.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The longest head of a request, in bytes.
pub const MOST_HEAD: usize = 16 << 10;
/// The most headers of a request.
const MOST_HEADERS: usize = 64;
/// The longest body of a request: a table of a million rows.
pub const MOST_BODY: usize = 64 << 20;
/// How long a connection has for its first head: whoever opens one has something to ask.
const FIRST: Duration = Duration::from_secs(5);
/// How long a connection may stay without a request, once it was admitted.
const IDLE: Duration = Duration::from_secs(60);
/// How long a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(30);
/// How long, and how much, is listened to after a refusal: a sender who is cut off would not hear it.
const LINGER: Duration = Duration::from_secs(5);
const MOST_LINGERING: usize = 2 * MOST_BODY;

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

const LATE: Refusal = Refusal(408, "the request took too long");

/// Reads a head from the first bytes of a request; `None` where it is not complete yet.
pub fn head(bytes: &[u8]) -> Result<Option<Head>, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let size = match request.parse(bytes) {
        Ok(httparse::Status::Complete(size)) if size <= MOST_HEAD => size,
        Ok(httparse::Status::Partial) if bytes.len() < MOST_HEAD => return Ok(None),
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
    if out.length > MOST_BODY {
        return Err(Refusal(413, "the request is longer than 64 MiB"));
    }
    Ok(Some(out))
}

/// A connection with what was read ahead of the present request.
pub struct Connection {
    stream: TcpStream,
    ahead: Vec<u8>,
    admitted: bool,
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
    /// Around a socket.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(ARRIVAL))?;
        Ok(Self { stream, ahead: Vec::new(), admitted: false })
    }

    /// From now on the other side may take its time between requests.
    pub fn admit(&mut self) {
        self.admitted = true;
    }

    /// The head of the next request; `None` where the other side has gone or said nothing for long.
    pub fn head(&mut self) -> io::Result<Option<Result<Head, Refusal>>> {
        let patience = |quiet: bool| match (self.admitted, quiet) {
            (false, _) => FIRST,
            (true, true) => IDLE,
            (true, false) => ARRIVAL,
        };
        let [idle, arrival] = [patience(true), patience(false)];
        let mut quiet = self.ahead.is_empty();
        let mut until = Instant::now() + if quiet { idle } else { arrival };
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
                Came::Bytes if quiet && self.admitted => {
                    quiet = false;
                    until = Instant::now() + arrival;
                }
                Came::Bytes => quiet = false,
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
            match self.stream.read(&mut piece) {
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
        while heard < MOST_LINGERING {
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
        let mut out = answer.head(policy, last);
        out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", answer.body.len()).as_bytes());
        out.extend_from_slice(&answer.body);
        self.stream.write_all(&out)
    }

    /// Begins an answer whose parts come later; the connection ends after it.
    pub fn begin(&mut self, policy: &str) -> io::Result<()> {
        let answer = Answer::new(200, "application/x-ndjson", Vec::new());
        let mut out = answer.head(policy, true);
        out.extend_from_slice(b"\r\n");
        self.stream.write_all(&out)
    }

    /// A part of such an answer; an error where nobody listens any more.
    pub fn part(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
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
        format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Security-Policy: {policy}\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nConnection: {connection}\r\n",
            self.status, self.kind
        )
        .into_bytes()
    }
}

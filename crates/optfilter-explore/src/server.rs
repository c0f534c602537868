//! The server: a loopback socket, a thread for each connection, and a way to end.

use crate::api::Api;
use crate::guard::Guard;
use crate::http::{Answer, Connection, Head, Refusal};
use serde_json::json;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Connections at once.
const MOST_CONNECTIONS: usize = 64;

/// A page that is being served until this is dropped.
pub struct Server {
    guard: Arc<Guard>,
    ended: Arc<AtomicBool>,
    open: Arc<AtomicUsize>,
    port: u16,
    accepting: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Serves on the loopback address; port 0 is any that is free. `framed` lets notebooks of this machine show the page.
    pub fn start(api: Api, port: u16, framed: bool) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        let guard =
            Arc::new(Guard::new(port, framed).map_err(|e| io::Error::other(e.to_string()))?);
        let ended = Arc::new(AtomicBool::new(false));
        let open = Arc::new(AtomicUsize::new(0));
        let (watch, asked, count) = (guard.clone(), ended.clone(), open.clone());
        let accepting = std::thread::Builder::new().name("explore".into()).spawn(move || {
            accept(&listener, &Arc::new(api), &watch, &asked, &count);
        })?;
        Ok(Self { guard, ended, open, port, accepting: Some(accepting) })
    }

    /// Where the page is.
    pub fn address(&self) -> String {
        self.guard.address()
    }

    /// Connections that are open: a question that is being answered holds one.
    pub fn connections(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // A connection of our own wakes the thread that waits for one.
        let _ = TcpStream::connect_timeout(
            &(Ipv4Addr::LOCALHOST, self.port).into(),
            Duration::from_secs(1),
        );
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
    }
}

fn accept(
    listener: &TcpListener,
    api: &Arc<Api>,
    guard: &Arc<Guard>,
    ended: &Arc<AtomicBool>,
    open: &Arc<AtomicUsize>,
) {
    for stream in listener.incoming() {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else {
            std::thread::sleep(Duration::from_millis(20)); // no file handles left, perhaps
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            open.fetch_sub(1, Ordering::Relaxed);
            continue; // closes it
        }
        let (api, guard, ended, count) = (api.clone(), guard.clone(), ended.clone(), open.clone());
        let serve = move || {
            if let Ok(connection) = Connection::new(stream) {
                // Whatever goes wrong ends this connection and nothing else.
                let _ = converse(connection, &api, &guard, &ended);
            }
            count.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("explore-page".into()).spawn(serve).is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Answers one request after the other.
fn converse(
    mut connection: Connection,
    api: &Api,
    guard: &Guard,
    ended: &AtomicBool,
) -> io::Result<()> {
    while !ended.load(Ordering::Relaxed) {
        let Some(request) = connection.request()? else { return Ok(()) };
        let admitted = request.and_then(|(head, body)| {
            guard.admit(&head).map(|path| (head.clone(), path.to_owned(), body))
        });
        let (head, path, body) = match admitted {
            Ok(admitted) => admitted,
            Err(Refusal(status, why)) => {
                let answer =
                    Answer::json(status, &json!({"error": {"kind": "request", "message": why}}));
                return connection.answer(&answer, guard.policy(), true);
            }
        };
        if Api::is_stream(&path) && head.method == "POST" {
            return stream(connection, api, guard, (&path, &body));
        }
        let answer = answer(api, &head, &path, body);
        connection.answer(&answer, guard.policy(), head.last)?;
        if head.last {
            return Ok(());
        }
    }
    Ok(())
}

/// An answer, whatever happens: a defect becomes a message.
fn answer(api: &Api, head: &Head, path: &str, body: Vec<u8>) -> Answer {
    catch_unwind(AssertUnwindSafe(|| api.answer(&head.method, path, &head.query, body)))
        .unwrap_or_else(|_| Answer::json(500, &defect()))
}

fn defect() -> serde_json::Value {
    let message = "a defect of the program; the page goes on without this answer";
    json!({"error": {"kind": "defect", "message": message}})
}

/// An answer line by line, until it is complete or nobody listens.
fn stream(
    mut connection: Connection,
    api: &Api,
    guard: &Guard,
    (path, body): (&str, &[u8]),
) -> io::Result<()> {
    connection.begin(guard.policy())?;
    let stop = AtomicBool::new(false);
    let mut tell = |value: serde_json::Value| {
        let going =
            !connection.is_gone() && connection.part(format!("{value}\n").as_bytes()).is_ok();
        if !going {
            stop.store(true, Ordering::Relaxed);
        }
        going
    };
    let done = catch_unwind(AssertUnwindSafe(|| api.stream(path, body, &stop, &mut tell)));
    if done.is_err() {
        tell(defect());
    }
    Ok(())
}

//! The server: a loopback socket, a thread for each connection, and a way to end.

use crate::api::Api;
use crate::guard::Guard;
use crate::http::{Answer, Connection, Head, Refusal};
use serde_json::json;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Connections at once.
const MOST_CONNECTIONS: usize = 128;
/// Those of them that have not shown yet that they may ask: they cannot take the places of those that have.
const MOST_STRANGERS: usize = 64;
/// Connections beyond these that are told so at once; further ones are closed.
const MOST_TOLD: usize = 16;
/// How often is looked whether somebody still listens.
const LOOKS: Duration = Duration::from_millis(100);

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
    let (strangers, told) = (Arc::default(), Arc::default());
    for stream in listener.incoming() {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else {
            std::thread::sleep(Duration::from_millis(20)); // no file handles left, perhaps
            continue;
        };
        let place = Seat::take(open, MOST_CONNECTIONS);
        let (Some(place), Some(stranger)) = (place, Seat::take(&strangers, MOST_STRANGERS)) else {
            if let Some(seat) = Seat::take(&told, MOST_TOLD) {
                let guard = guard.clone();
                let tell = move || {
                    let _ = Connection::new(stream)
                        .and_then(|connection| refuse(connection, &guard, &CROWDED));
                    drop(seat);
                };
                let _ = std::thread::Builder::new().name("explore-full".into()).spawn(tell);
            }
            continue;
        };
        let (api, guard, ended) = (api.clone(), guard.clone(), ended.clone());
        let serve = move || {
            if let Ok(connection) = Connection::new(stream) {
                // Whatever goes wrong ends this connection and nothing else.
                let _ = converse(connection, stranger, &api, &guard, &ended);
            }
            drop(place);
        };
        // Without a thread for it the connection ends, and gives its seats back.
        let _ = std::thread::Builder::new().name("explore-page".into()).spawn(serve);
    }
}

/// One of so many places, given back when it is dropped.
struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn take(count: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let seat = Self(count.clone());
        // The seat counts from here on, so that dropping it is right in both cases.
        (count.fetch_add(1, Ordering::Relaxed) < most).then_some(seat)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

const CROWDED: Refusal = Refusal(503, "too many connections are open; try again in a few seconds");

/// Says why a request is not answered, and ends the connection.
fn refuse(connection: Connection, guard: &Guard, Refusal(status, why): &Refusal) -> io::Result<()> {
    let answer = Answer::json(*status, &json!({"error": {"kind": "request", "message": why}}));
    connection.refuse(&answer, guard.policy())
}

/// Answers one request after the other. Nothing but its head is read of a request that is not admitted.
fn converse(
    mut connection: Connection,
    stranger: Seat,
    api: &Api,
    guard: &Guard,
    ended: &AtomicBool,
) -> io::Result<()> {
    let mut stranger = Some(stranger);
    while !ended.load(Ordering::Relaxed) {
        let Some(head) = connection.head()? else { return Ok(()) };
        let admitted = head.and_then(|head| {
            let path = guard.admit(&head)?.to_owned();
            Ok((head, path))
        });
        let (head, path) = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => return refuse(connection, guard, &refusal),
        };
        connection.admit();
        drop(stranger.take());
        let body = match connection.body(&head)? {
            None => return Ok(()),
            Some(Ok(body)) => body,
            Some(Err(refusal)) => return refuse(connection, guard, &refusal),
        };
        if Api::is_stream(&path) && head.method == "POST" {
            return stream(connection, api, guard, (&path, &body), ended);
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
    ended: &AtomicBool,
) -> io::Result<()> {
    connection.begin(guard.policy())?;
    let (connection, stop) = (Mutex::new(connection), AtomicBool::new(false));
    let held = || connection.lock().unwrap_or_else(PoisonError::into_inner);
    let mut tell = |value: serde_json::Value| {
        let mut connection = held();
        let going =
            !connection.is_gone() && connection.part(format!("{value}\n").as_bytes()).is_ok();
        if !going {
            stop.store(true, Ordering::Relaxed);
        }
        going
    };
    let (done, wait) = channel::<()>();
    std::thread::scope(|scope| {
        // Between two words, too: a word may take long.
        let (stop, held) = (&stop, &held);
        let look = move || {
            while wait.recv_timeout(LOOKS) == Err(RecvTimeoutError::Timeout) {
                if ended.load(Ordering::Relaxed) || held().is_gone() {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        };
        let _ = std::thread::Builder::new().name("explore-look".into()).spawn_scoped(scope, look);
        if catch_unwind(AssertUnwindSafe(|| api.stream(path, body, stop, &mut tell))).is_err() {
            tell(defect());
        }
        drop(done);
    });
    Ok(())
}

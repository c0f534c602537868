//! The server: a loopback socket, a thread for each connection that may ask, and a way to end.

use crate::api::Api;
use crate::door::{self, Admitted};
use crate::guard::Guard;
use crate::http::{Answer, Connection, Head, Refusal};
use crate::seats::Seats;
use serde_json::json;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often is looked whether somebody still listens.
const LOOKS: Duration = Duration::from_millis(100);

/// A page that is being served until this is dropped.
pub struct Server {
    guard: Arc<Guard>,
    ended: Arc<AtomicBool>,
    open: Arc<AtomicUsize>,
    seats: Arc<Seats>,
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
        let seats = Arc::new(Seats::new(open.clone()));
        let api = Arc::new(api);
        let (watch, asked, count, places) =
            (guard.clone(), ended.clone(), open.clone(), seats.clone());
        let accepting = std::thread::Builder::new().name("explore".into()).spawn(move || {
            let admit = |admitted| admit(admitted, &places, &api, &watch, &asked);
            door::watch(&listener, &watch, &asked, &count, admit);
        })?;
        Ok(Self { guard, ended, open, seats, port, accepting: Some(accepting) })
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
        self.seats.end();
    }
}

/// Gives a request a thread; its stream comes back where there is no place for it.
fn admit(
    Admitted { stream, ahead, head, path }: Admitted,
    seats: &Arc<Seats>,
    api: &Arc<Api>,
    guard: &Arc<Guard>,
    ended: &Arc<AtomicBool>,
) -> Option<TcpStream> {
    // A thread that cannot be had takes the stream with it.
    let (Some(taken), Ok(again)) = (seats.take(&stream), stream.try_clone()) else {
        return Some(stream);
    };
    let (api, guard, ended) = (api.clone(), guard.clone(), ended.clone());
    let serve = move || {
        if let Ok(connection) = Connection::new(stream, ahead, taken.seat.clone()) {
            // Whatever goes wrong ends this connection and nothing else.
            let _ = converse(connection, (head, path), &api, &guard, &ended);
        }
        drop(taken);
    };
    let thread = std::thread::Builder::new().name("explore-page".into()).spawn(serve);
    thread.is_err().then_some(again)
}

/// Answers one request after the other, the first of which is admitted. Nothing but its head is read of one that is not.
fn converse(
    mut connection: Connection,
    (mut head, mut path): (Head, String),
    api: &Api,
    guard: &Guard,
    ended: &AtomicBool,
) -> io::Result<()> {
    let refuse = |connection: Connection, refusal: &Refusal| {
        connection.refuse(&Answer::refusal(refusal), guard.policy())
    };
    while !ended.load(Ordering::Relaxed) {
        let body = match connection.body(&head)? {
            None => return Ok(()),
            Some(Ok(body)) => body,
            Some(Err(refusal)) => return refuse(connection, &refusal),
        };
        if Api::is_stream(&path) && head.method == "POST" {
            return stream(connection, api, guard, (&path, &body), ended);
        }
        let answer = answer(api, &head, &path, body);
        connection.answer(&answer, guard.policy(), head.last)?;
        if head.last {
            return Ok(());
        }
        let Some(next) = connection.head()? else { return Ok(()) };
        let admitted = next.and_then(|head| {
            let path = guard.admit(&head)?.to_owned();
            Ok((head, path))
        });
        (head, path) = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => return refuse(connection, &refusal),
        };
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

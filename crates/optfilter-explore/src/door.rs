//! The door: connections that have not shown yet that they may ask.
//!
//! One thread holds all of them, without a thread or a stack for each: it looks at every one in turn and never waits for any.
//! A head that is complete and admitted goes on to a thread of its own; one that is not is told why, and what it still sends
//! is heard out for a while, since a sender who is cut off would not hear the answer. Where too many are at the door the
//! oldest leaves, so that whoever comes next and speaks at once is heard, whatever the others do.

use crate::guard::Guard;
use crate::http::{self, Answer, Head, LINGER, MAX_LINGERING, Refusal};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Connections at the door at once. Each takes a socket, and at most the longest head.
const MOST: usize = 256;
/// How many are let in between two looks at all.
const AT_ONCE: usize = 32;
/// How long a connection has for its first head: whoever opens one has something to ask.
const FIRST: Duration = Duration::from_secs(5);
/// Between two looks at those at the door, while one of them has come within `FRESH`, and later.
const LOOKS: [Duration; 2] = [Duration::from_micros(500), Duration::from_millis(5)];
const FRESH: Duration = Duration::from_millis(50);

/// What is said where there is no place.
pub const CROWDED: Refusal =
    Refusal(503, "too many connections are open; try again in a few seconds");

/// A request of which the head is there and admitted.
pub struct Admitted {
    /// Its connection.
    pub stream: TcpStream,
    /// What came after the head.
    pub ahead: Vec<u8>,
    /// The head.
    pub head: Head,
    /// The path below the token.
    pub path: String,
}

/// A connection at the door.
struct Stranger {
    stream: TcpStream,
    ahead: Vec<u8>,
    until: Instant,
    /// How much was heard since it was refused.
    heard: Option<usize>,
}

enum Next {
    Stay,
    /// It has sent something.
    Moved,
    Gone,
    Admit(Box<(Head, String)>),
}

/// What one look found.
struct Look<'a> {
    guard: &'a Guard,
    now: Instant,
    piece: &'a mut [u8],
}

/// Lets connections in until `ended`. `admit` gives back the stream of a request for which there is no place.
pub fn watch(
    listener: &TcpListener,
    guard: &Guard,
    ended: &AtomicBool,
    open: &AtomicUsize,
    mut admit: impl FnMut(Admitted) -> Option<TcpStream>,
) {
    let mut door: VecDeque<Stranger> = VecDeque::new();
    let (mut piece, mut fresh) = (vec![0; 1 << 16], Instant::now());
    loop {
        let came = let_in(listener, &mut door, open);
        if ended.load(Ordering::Relaxed) {
            open.fetch_sub(door.len(), Ordering::Relaxed);
            return;
        }
        let mut look = Look { guard, now: Instant::now(), piece: &mut piece };
        let mut moved = came;
        for _ in 0..door.len() {
            let Some(mut stranger) = door.pop_front() else { break };
            match look.at(&mut stranger) {
                Next::Stay => door.push_back(stranger),
                Next::Moved => {
                    moved = true;
                    door.push_back(stranger);
                }
                Next::Gone => {
                    open.fetch_sub(1, Ordering::Relaxed);
                }
                Next::Admit(asked) => {
                    moved = true;
                    let Stranger { stream, ahead, until, .. } = stranger;
                    let (head, path) = *asked;
                    open.fetch_sub(1, Ordering::Relaxed);
                    if let Some(stream) = admit(Admitted { stream, ahead, head, path }) {
                        let mut stranger =
                            Stranger { stream, ahead: Vec::new(), until, heard: None };
                        if stranger.stream.set_nonblocking(true).is_ok() {
                            look.refuse(&mut stranger, &CROWDED);
                            open.fetch_add(1, Ordering::Relaxed);
                            door.push_back(stranger);
                        }
                    }
                }
            }
        }
        let now = Instant::now();
        if moved {
            fresh = now;
        } else if !door.is_empty() {
            std::thread::sleep(LOOKS[usize::from(now.duration_since(fresh) > FRESH)]);
        }
    }
}

/// Takes those who wait outside; waits for one where nobody is at the door. Whether any came.
fn let_in(listener: &TcpListener, door: &mut VecDeque<Stranger>, open: &AtomicUsize) -> bool {
    let mut came = false;
    for _ in 0..AT_ONCE {
        let _ = listener.set_nonblocking(!door.is_empty());
        match listener.accept() {
            Ok((stream, _)) => {
                if stream.set_nonblocking(true).is_err() {
                    continue;
                }
                came = true;
                while door.len() >= MOST {
                    leave(door, open);
                }
                let (ahead, until) = (Vec::new(), Instant::now() + FIRST);
                open.fetch_add(1, Ordering::Relaxed);
                door.push_back(Stranger { stream, ahead, until, heard: None });
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => return came,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => {
                // No file handles left, perhaps.
                leave(door, open);
                std::thread::sleep(Duration::from_millis(20));
                return came;
            }
        }
    }
    came
}

/// Sends one away: of those that were answered the oldest, else the oldest of all, which is told if it has begun to speak.
fn leave(door: &mut VecDeque<Stranger>, open: &AtomicUsize) {
    let oldest = |heard: bool| {
        let those = door.iter().enumerate().filter(|(_, s)| s.heard.is_some() == heard);
        those.min_by_key(|(_, s)| s.until).map(|(at, _)| at)
    };
    let at = oldest(true).or_else(|| oldest(false));
    let Some(mut stranger) = at.and_then(|at| door.remove(at)) else { return };
    open.fetch_sub(1, Ordering::Relaxed);
    if stranger.heard.is_none() && !stranger.ahead.is_empty() {
        let _ = stranger.stream.write(&Answer::refusal(&CROWDED).whole("default-src 'none'", true));
    }
}

impl Look<'_> {
    /// Reads what is there.
    fn at(&mut self, stranger: &mut Stranger) -> Next {
        let count = match stranger.stream.read(self.piece) {
            Ok(0) => return Next::Gone,
            Ok(count) => count,
            Err(e) if e.kind() == ErrorKind::Interrupted => return Next::Moved,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                if self.now < stranger.until {
                    return Next::Stay;
                }
                if stranger.heard.is_none() && !stranger.ahead.is_empty() {
                    self.refuse(stranger, &http::LATE);
                    return Next::Moved;
                }
                return Next::Gone;
            }
            Err(_) => return Next::Gone,
        };
        if let Some(heard) = &mut stranger.heard {
            *heard += count;
            let enough = *heard >= MAX_LINGERING || self.now >= stranger.until;
            return if enough { Next::Gone } else { Next::Moved };
        }
        stranger.ahead.extend_from_slice(self.piece.get(..count).unwrap_or_default());
        let head = match http::head(&stranger.ahead) {
            // Whoever sends byte after byte has no longer than others.
            Ok(None) if self.now >= stranger.until => Err(http::LATE),
            Ok(None) => return Next::Moved,
            Ok(Some(head)) => Ok(head),
            Err(refusal) => Err(refusal),
        };
        let admitted = head.and_then(|head| {
            let path = self.guard.admit(&head)?.to_owned();
            Ok((head, path))
        });
        match admitted {
            Ok((head, path)) => {
                stranger.ahead.drain(..head.size);
                Next::Admit(Box::new((head, path)))
            }
            Err(refusal) => {
                self.refuse(stranger, &refusal);
                Next::Moved
            }
        }
    }

    /// Says why there is no answer. It is short, so that it goes out at once or not at all.
    fn refuse(&self, stranger: &mut Stranger, refusal: &Refusal) {
        let answer = Answer::refusal(refusal).whole(self.guard.policy(), true);
        let _ = stranger.stream.write(&answer);
        let _ = stranger.stream.shutdown(Shutdown::Write);
        (stranger.heard, stranger.until) = (Some(0), self.now + LINGER);
        stranger.ahead = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_no_place_it_is_said_when_to_come_again() {
        let said = String::from_utf8(Answer::refusal(&CROWDED).whole("", true)).unwrap();
        assert!(said.starts_with("HTTP/1.1 503 ") && said.contains("\r\nRetry-After: 1\r\n"));
        let (_, body) = said.split_once("\r\n\r\n").unwrap();
        assert!(said.contains(&format!("Content-Length: {}\r\n", body.len())), "{said}");
    }
}

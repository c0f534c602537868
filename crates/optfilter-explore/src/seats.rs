//! Places for connections that may ask, each with a thread.
//!
//! Where all are taken, the connection that has kept its thread waiting for longest (for a request, for the rest of one, or
//! for its own reading of an answer) gives its place to the next.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Connections at once.
pub const MOST: usize = 128;

/// The connections that have a place.
pub struct Seats {
    taken: Mutex<Vec<Arc<Seat>>>,
    open: Arc<AtomicUsize>,
}

/// The place of a connection.
pub struct Seat {
    stream: TcpStream,
    /// Since when its thread waits for the other side; none while there is something to do.
    waits: Mutex<Option<Instant>>,
}

/// A place that is given back when this is dropped.
pub struct Taken {
    seats: Arc<Seats>,
    /// The place.
    pub seat: Arc<Seat>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seats {
    /// All free; `open` counts those that are taken, among others.
    pub fn new(open: Arc<AtomicUsize>) -> Self {
        Self { taken: Mutex::default(), open }
    }

    /// A place for a connection; none where each is in use.
    pub fn take(self: &Arc<Self>, stream: &TcpStream) -> Option<Taken> {
        let mut taken = held(&self.taken);
        if taken.len() >= MOST {
            let since = |seat: &Arc<Seat>| *held(&seat.waits);
            let waiting = taken.iter().enumerate().filter_map(|(at, s)| Some((since(s)?, at)));
            let (_, at) = waiting.min()?;
            // It may have found something to do by now; nothing is lost but its connection.
            taken.swap_remove(at).end();
        }
        let seat = Arc::new(Seat { stream: stream.try_clone().ok()?, waits: Mutex::default() });
        taken.push(seat.clone());
        self.open.fetch_add(1, Ordering::Relaxed);
        Some(Taken { seats: self.clone(), seat })
    }

    /// Ends every connection.
    pub fn end(&self) {
        held(&self.taken).iter().for_each(|seat| seat.end());
    }
}

impl Seat {
    /// Waits for the other side as `wait` does.
    pub fn waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        *held(&self.waits) = Some(Instant::now());
        let came = wait();
        *held(&self.waits) = None;
        came
    }

    fn end(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        held(&self.seats.taken).retain(|seat| !Arc::ptr_eq(seat, &self.seat));
        self.seats.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn the_longest_wait_gives_its_place_to_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for _ in 0..MOST + 1 {
            far.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            near.push(listener.accept().unwrap().0);
        }
        let open = Arc::new(AtomicUsize::new(0));
        let seats = Arc::new(Seats::new(open.clone()));
        let taken: Vec<Taken> = near[..MOST].iter().map(|s| seats.take(s).unwrap()).collect();
        // Each has something to do.
        assert!(seats.take(&near[MOST]).is_none());
        *held(&taken[7].seat.waits) = Some(Instant::now());
        taken[9].seat.waiting(|| assert!(seats.take(&near[MOST]).is_some()));
        assert_eq!(far[7].read(&mut [0]).unwrap(), 0); // its end
        drop(taken);
        assert_eq!(open.load(Ordering::Relaxed), 0);
    }
}

//! A fit, and beside it somebody who says how far it is and listens for Ctrl-C.

use crate::failure::{Failure, INTERRUPTED};
use crate::interrupt;
use optfilter_model::fit::Watch;
use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often it is looked whether anything is to be said.
const LOOK: Duration = Duration::from_millis(50);
/// How long a pass through the data has to notice that it is to end.
const PATIENCE: Duration = Duration::from_millis(700);
/// Time between lines where they are not written over.
const SELDOM: Duration = Duration::from_secs(60);

/// What comes of `work`, or how far it was when it was interrupted, in the words of `so_far`.
pub(super) fn run<R: Send>(
    so_far: impl Fn(&Watch) -> String,
    work: impl FnOnce(&Watch) -> R + Send,
) -> Result<R, Failure> {
    let stop = interrupt::flag();
    let watch = &Watch::new(stop.clone());
    let (tell, hear) = channel();
    std::thread::scope(|scope| {
        // With its end of the channel, so that a panic there is the end of waiting here.
        scope.spawn(move || {
            // Nobody hears of it once the program is about to end.
            let _ = tell.send(work(watch));
        });
        let mut line = Line::new();
        let mut asked: Option<Instant> = None;
        loop {
            let heard = hear.recv_timeout(LOOK);
            if asked.is_none() && stop.load(Ordering::Relaxed) {
                asked = Some(Instant::now());
            }
            let late = asked.is_some_and(|asked| asked.elapsed() > PATIENCE);
            match heard {
                Ok(found) if asked.is_none() => return Ok(found),
                Err(RecvTimeoutError::Timeout) if !late => {
                    line.say(|| so_far(watch));
                }
                _ => break,
            }
        }
        drop(line);
        let message = format!("interrupted; {}", so_far(watch));
        if asked.is_some_and(|asked| asked.elapsed() > PATIENCE) {
            // A pass that looks at no flag goes on; nothing waits for it.
            let _ = writeln!(std::io::stderr(), "error: {message}");
            std::process::exit(INTERRUPTED.into());
        }
        Err(Failure { code: INTERRUPTED, message })
    })
}

/// How far the fit of one model is.
pub(super) fn of_rows(watch: &Watch, rows: usize) -> String {
    let passes = watch.passes();
    let plural = if passes == 1 { "" } else { "es" };
    let begun = format!("{passes} pass{plural} through {rows} rows");
    let Some(best) = watch.best() else { return begun };
    let values: Vec<String> =
        best.values.iter().map(|(name, value)| format!("{name} = {value:.6e}")).collect();
    format!("{begun}, log-likelihood {:.4} at {}", best.log_likelihood, values.join(", "))
}

/// A line on standard error: on a terminal twice a second, from the second second on, else each minute.
struct Line {
    begun: Instant,
    next: Duration,
    over: bool,
    written: bool,
}

impl Line {
    fn new() -> Self {
        let over = std::io::stderr().is_terminal();
        let next = if over { Duration::from_secs(1) } else { SELDOM };
        Self { begun: Instant::now(), next, over, written: false }
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        let passed = self.begun.elapsed();
        if passed < self.next {
            return;
        }
        let (what, seconds) = (what(), passed.as_secs());
        let mut out = std::io::stderr();
        let _ = match self.over {
            // No longer than a line of a narrow terminal, which could not be written over.
            true => {
                let short: String = format!("{seconds} s: {what}").chars().take(79).collect();
                write!(out, "\r{short}\x1b[K")
            }
            false => writeln!(out, "{seconds} s: {what}"),
        };
        self.written = true;
        self.next = passed + if self.over { Duration::from_millis(500) } else { SELDOM };
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.over && self.written {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_fit_is_no_wait_without_end() {
        let broken = || run(|_| String::new(), |_| -> () { panic!("the fit is broken") });
        assert!(std::panic::catch_unwind(broken).is_err());
    }
}

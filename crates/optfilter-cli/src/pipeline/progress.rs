//! How far a long run is, on a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Whether somebody looks at standard error, who is not looking at results there.
pub fn is_wanted(to_stdout: bool) -> bool {
    std::io::stderr().is_terminal() && !(to_stdout && std::io::stdout().is_terminal())
}

/// Rows and their rate, in a line on standard error that is written over about twice a second, from the second second on.
pub(super) struct RateLine {
    begun: Instant,
    next: Duration,
    first: Option<u64>,
}

impl RateLine {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), next: Duration::from_secs(1), first: None }
    }

    /// So many rows are done.
    pub(super) fn rows(&mut self, rows: u64) {
        let (passed, first) = (self.begun.elapsed(), *self.first.get_or_insert(rows));
        if passed >= self.next {
            self.next = passed + Duration::from_millis(500);
            let _ = write!(std::io::stderr(), "{}", line(rows, first, passed));
        }
    }
}

/// The line, over the one before it.
fn line(rows: u64, first: u64, passed: Duration) -> String {
    let rate = rows.saturating_sub(first) as f64 / passed.as_secs_f64();
    format!("\r{rows} rows, {rate:.0} rows/s, {} s\x1b[K", passed.as_secs())
}

impl Drop for RateLine {
    fn drop(&mut self) {
        if self.next > Duration::from_secs(1) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_line_says_how_far_and_how_fast() {
        let line = super::line(3000, 1000, std::time::Duration::from_secs(2));
        assert_eq!(line, "\r3000 rows, 1000 rows/s, 2 s\x1b[K");
    }
}

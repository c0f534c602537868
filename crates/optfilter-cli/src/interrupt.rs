//! Ctrl-C and SIGTERM: asked once, work ends in order; asked twice, at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Listens from now on; the flag becomes true when the program is asked to end. Without a handler a signal still
/// ends the program, and what was saved is there all the same.
pub fn flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let on_signal = Arc::clone(&flag);
    let _ = ctrlc::set_handler(move || {
        if on_signal.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    flag
}

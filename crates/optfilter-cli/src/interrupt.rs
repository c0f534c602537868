//! Ctrl-C and SIGTERM: asked once, work ends in order; asked twice, or where nothing is to be put in order, at once.

use crate::failure::INTERRUPTED;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// True when the program was asked to end; there once somebody looks at it.
static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Listens from now on. Without a handler a signal still ends the program, and what was saved is there all the same.
pub fn listen() {
    let _ = ctrlc::set_handler(|| {
        if ASKED.get().is_none_or(|asked| asked.swap(true, Ordering::Relaxed)) {
            std::process::exit(INTERRUPTED.into());
        }
    });
}

/// From now on the first signal only makes this true.
pub fn flag() -> Arc<AtomicBool> {
    Arc::clone(ASKED.get_or_init(Arc::default))
}

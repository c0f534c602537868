//! Calls into the parquet crate, which panics on some damaged files (fuzzing finds them): a panic there is an error here.

use super::error::convert;
use crate::error::TableError;
use parquet::errors::ParquetError;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Calls, and says nothing about a panic but what it returns. What was called must not be used after an error.
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, TableError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !INSIDE.get() {
                before(panic);
            }
        }));
    });
    INSIDE.set(true);
    let done = catch_unwind(AssertUnwindSafe(call));
    INSIDE.set(false);
    let damaged = |_| ParquetError::General("its pages contradict its index".into());
    done.map_err(damaged).and_then(|result| result).map_err(convert)
}

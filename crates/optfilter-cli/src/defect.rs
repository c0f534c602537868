//! Panics. None is meant to happen: one that does is a defect of the program, which says so in one line.

use crate::failure::Failure;
use crate::{files, style};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::atomic::{AtomicBool, Ordering};

/// From now on the first panic of any thread is a line on standard error; what follows from it is not said.
pub fn report_in_one_line() {
    static SAID: AtomicBool = AtomicBool::new(false);
    set_hook(Box::new(|panic| {
        if SAID.swap(true, Ordering::Relaxed) {
            return;
        }
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let what = text.unwrap_or("no reason").replace(['\n', '\r'], " ");
        let place =
            panic.location().map_or(String::new(), |l| format!(" ({}:{})", l.file(), l.line()));
        files::remark(&format!(
            "{} this is a defect of optfilter {}, not of your data: {what}{place}; please report it with the command. \
             What was written so far is whole",
            style::error("error:"),
            env!("CARGO_PKG_VERSION"),
        ));
    }));
}

/// Runs to the end, or to a panic, which has been reported by then.
pub fn caught<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Failure::defect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the test below looks at from outside; alone it does nothing.
    #[test]
    fn child() {
        if std::env::var_os("OPTFILTER_TEST_CHILD").is_none() {
            return;
        }
        report_in_one_line();
        let done = caught(|| -> Result<(), Failure> {
            let worker = std::thread::spawn(|| panic!("the first\nreason"));
            assert!(worker.join().is_err());
            panic!("what follows from it");
        });
        std::process::exit(done.map_or_else(|failure| failure.code.into(), |()| 0));
    }

    #[test]
    fn a_panic_of_any_thread_is_one_line_and_exit_code_1() {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "defect::tests::child", "--nocapture"]);
        again.env("OPTFILTER_TEST_CHILD", "1").env("RUST_BACKTRACE", "1");
        let output = again.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(
            err.contains("this is a defect of optfilter") && err.contains("the first reason"),
            "{err}"
        );
        assert!(err.contains("src/defect.rs:"), "{err}");
    }
}

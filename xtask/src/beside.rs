//! A command that runs beside the others and says at the end what it said.

use std::fs::{self, File};
use std::process::{Child, Command};
use std::time::Instant;

/// A command under way.
pub(crate) struct Beside {
    shown: String,
    log: String,
    start: Instant,
    child: Option<Child>,
}

impl Beside {
    /// Starts it, with its output in a file of that name.
    pub(crate) fn start(
        name: &str,
        program: &str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Self, String> {
        let shown = crate::shown(program, args);
        let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
        let log = format!("{target}/{name}.log");
        let wrong = |e: std::io::Error| format!("{shown}: cannot be started: {e}");
        let out = File::create(&log).map_err(wrong)?;
        let errors = out.try_clone().map_err(wrong)?;
        let mut command = Command::new(program);
        command.args(args).envs(variables.iter().copied()).stdout(out).stderr(errors);
        let child = command.spawn().map_err(wrong)?;
        println!("\n--- {shown} (beside what follows; it writes {log})");
        Ok(Self { shown, log, start: Instant::now(), child: Some(child) })
    }

    /// Waits for its end and prints what it wrote.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        println!("\n--- waiting for {}", self.shown);
        let status = child.wait().map_err(|e| format!("{}: {e}", self.shown))?;
        let said = fs::read(&self.log).map_err(|e| format!("{}: {e}", self.log))?;
        print!("{}", String::from_utf8_lossy(&said));
        if !status.success() {
            return Err(format!("failed: {}", self.shown));
        }
        println!("--- {:.0} s, beside the others", self.start.elapsed().as_secs_f64());
        Ok(())
    }
}

impl Drop for Beside {
    /// Where something else has failed, it need not go on.
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

//! The page of `optfilter explore`: its types by TypeScript's checker, itself in a browser; each where the machine has what it takes.

use crate::beside::Beside;
use std::process::Command;

/// Checks what can be checked here and says what was not. The browser mostly waits, so it does so beside what follows.
pub(crate) fn check() -> Result<Option<Beside>, String> {
    let folder = "crates/optfilter-explore";
    let is_here = |program: &str| {
        Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
    };
    if is_here("npx") {
        let project = format!("{folder}/page/tsconfig.json");
        crate::run("npx", &["--yes", "-p", "typescript@5", "tsc", "-p", &project], &[])?;
    } else {
        println!("\nnpx is not here: the types of the page's scripts were not checked");
    }
    if !is_here("python3") {
        println!("\npython3 is not here: the page was not tested in a browser");
        return Ok(None);
    }
    let tests = format!("{folder}/tests/browser");
    let discover = ["-W", "ignore", "-m", "unittest", "discover", "-v", "-s", &tests];
    Beside::start("browser", "python3", &discover, &[]).map(Some)
}

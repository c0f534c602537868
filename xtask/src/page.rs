//! The page of `optfilter explore`: its types by TypeScript's checker, itself in a browser; each where the machine has what it takes.

use std::process::Command;

/// Checks what can be checked here and says what was not.
pub(crate) fn check() -> Result<(), String> {
    let folder = "crates/optfilter-explore";
    if Command::new("npx").arg("--version").output().is_ok_and(|out| out.status.success()) {
        let project = format!("{folder}/page/tsconfig.json");
        crate::run("npx", &["--yes", "-p", "typescript@5", "tsc", "-p", &project], &[])?;
    } else {
        println!("\nnpx is not here: the types of the page's scripts were not checked");
    }
    let tests = format!("{folder}/tests/browser");
    crate::run("python3", &["-W", "ignore", "-m", "unittest", "discover", "-v", "-s", &tests], &[])
}

//! Runs the fuzz targets for a while, with libFuzzer and the compiler that is there.
//!
//! cargo-fuzz asks for a nightly compiler because it switches the address sanitizer on. The readers that are fuzzed
//! have no unsafe code, so coverage feedback is what counts, and LLVM's coverage pass is open to every compiler.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A target, and the folders whose files are its first inputs. `fuzz/seeds` has what earlier runs found.
pub(crate) const TARGETS: [(&str, &[&str]); 3] = [
    ("model_file", &["crates/optfilter-model/systems", "examples/data"]),
    ("table", &["fuzz/seeds/table", "examples/data"]),
    ("parquet", &["fuzz/seeds/parquet"]),
];

/// What cargo-fuzz passes to the compiler, less the sanitizer.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Targets that read files by our own code alone. Of Parquet most is the parquet crate's, which takes as much memory or
/// time as a damaged file claims that it needs: that target is for looking, not for passing.
pub(crate) const OURS: usize = 2;

/// Builds all targets and runs the first `count` of them side by side for `seconds`.
pub(crate) fn fuzz(seconds: u32, count: usize) -> Result<(), String> {
    let host = host()?;
    // Naming the target keeps the flags away from build scripts, which must run without libFuzzer.
    crate::cargo(
        &[
            "build",
            "--locked",
            "--release",
            "--manifest-path",
            "fuzz/Cargo.toml",
            "--target",
            &host,
        ],
        &[("RUSTFLAGS", FLAGS), ("CARGO_TARGET_DIR", "fuzz/target")],
    )?;
    let programs = Path::new("fuzz/target").join(&host).join("release");
    let runs: Vec<(&str, Child)> = TARGETS
        .iter()
        .take(count)
        .map(|(name, seeds)| Ok((*name, start(&programs.join(name), name, seeds, seconds)?)))
        .collect::<Result<_, String>>()?;
    let mut failed = Vec::new();
    for (name, mut child) in runs {
        let status = child.wait().map_err(|e| format!("{name}: {e}"))?;
        let log = std::fs::read(log_of(name)).map_err(|e| format!("{name}: {e}"))?;
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        // What libFuzzer says at the end; of a failure, more.
        for line in &lines[lines.len().saturating_sub(if status.success() { 7 } else { 60 })..] {
            println!("{line}");
        }
        println!(
            "--- fuzz {name}: {} ({seconds} s)",
            if status.success() { "ok" } else { "FAILED" }
        );
        if !status.success() {
            failed.push(name);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("fuzz target {} failed; its input is in fuzz/artifacts", failed.join(" and ")))
}

fn start(program: &Path, name: &str, seeds: &[&str], seconds: u32) -> Result<Child, String> {
    let corpus = PathBuf::from("fuzz/corpus").join(name);
    let artifacts = PathBuf::from("fuzz/artifacts").join(name);
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let log = std::fs::File::create(log_of(name)).map_err(|e| format!("{name}: {e}"))?;
    println!("\n--- fuzz {name}, {seconds} s");
    Command::new(program)
        .arg(&corpus)
        .args(seeds)
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(format!("-max_total_time={seconds}"))
        // The same start every time, so that a failure is more likely to be met again.
        .arg("-seed=1")
        // A page header of Parquet may claim lists in lists that the parquet crate takes for ever to skip: no mistake of ours.
        .arg(format!("-timeout_exitcode={}", if name == "parquet" { 0 } else { 70 }))
        // Beyond what a file of ours needs; a slow input is a failure as much as a crash.
        .args(["-max_len=4096", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
        .stderr(log)
        .spawn()
        .map_err(|e| format!("{}: {e}", program.display()))
}

/// What the fuzzer of a target says.
fn log_of(name: &str) -> PathBuf {
    PathBuf::from("fuzz/artifacts").join(format!("{name}.log"))
}

/// The compiler's own platform, as in `x86_64-unknown-linux-gnu`.
fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output().map_err(|e| format!("rustc: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|l| l.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}

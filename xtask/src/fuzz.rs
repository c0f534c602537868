//! Runs the fuzz targets for a while, with libFuzzer and the compiler that is there.
//!
//! cargo-fuzz asks for a nightly compiler because it switches the address sanitizer on. The readers that are fuzzed
//! have no unsafe code, so coverage feedback is what counts, and LLVM's coverage pass is open to every compiler.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A target, and the folders whose files are its first inputs. `fuzz/seeds` has what earlier runs found.
const TARGETS: [(&str, &[&str]); 6] = [
    ("model_file", &["crates/optfilter-model/systems", "examples/data"]),
    ("filter_spec", &["fuzz/seeds/filter_spec"]),
    ("checkpoint", &["fuzz/seeds/checkpoint"]),
    ("table", &["fuzz/seeds/table", "examples/data"]),
    ("parquet", &["fuzz/seeds/parquet"]),
    ("request", &["fuzz/seeds/request"]),
];

/// Targets of `cargo xtask check`: the readers of tables, which need none of the filters and so are compiled in a minute.
pub(crate) const CHECKED: [&str; 2] = ["table", "parquet"];

/// When a run ends, and of which targets it is.
#[derive(Default)]
pub(crate) struct Plan {
    /// A minute, unless inputs are counted.
    pub(crate) seconds: Option<u32>,
    /// Inputs for each target.
    pub(crate) runs: Option<u64>,
    /// All, if none is named.
    pub(crate) targets: Vec<String>,
}

impl Plan {
    /// Of `[SECONDS] [--runs N] [TARGET]...`.
    pub(crate) fn parse(args: &[String]) -> Result<Self, String> {
        let mut plan = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--runs" {
                let runs = args.next().and_then(|n| n.parse().ok());
                plan.runs = Some(runs.ok_or("--runs takes a number of inputs")?);
            } else if let Ok(seconds) = arg.parse() {
                plan.seconds = Some(seconds);
            } else if TARGETS.iter().any(|(name, _)| name == arg) {
                plan.targets.push(arg.clone());
            } else {
                let known = TARGETS.map(|(name, _)| name).join(", ");
                return Err(format!("{arg:?} is neither seconds nor one of {known}"));
            }
        }
        Ok(plan)
    }

    fn asks_for(&self, target: &str) -> bool {
        self.targets.is_empty() || self.targets.iter().any(|t| t == target)
    }

    /// What cargo builds: everything, unless the readers of tables are enough.
    fn features(&self) -> &'static [&'static str] {
        let of_tables =
            TARGETS.iter().all(|(name, _)| CHECKED.contains(name) || !self.asks_for(name));
        if of_tables { &[] } else { &["--features", "models"] }
    }

    fn limit(&self) -> String {
        match (self.seconds, self.runs) {
            (None, Some(runs)) => format!("-runs={runs}"),
            (seconds, _) => format!("-max_total_time={}", seconds.unwrap_or(60)),
        }
    }
}

/// What cargo-fuzz passes to the compiler, less the sanitizer.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Builds the targets of the plan and runs them side by side.
pub(crate) fn fuzz(plan: &Plan) -> Result<(), String> {
    let host = host()?;
    // Naming the target keeps the flags away from build scripts, which must run without libFuzzer.
    let build =
        ["build", "--locked", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", &host];
    crate::cargo(
        &[build.as_slice(), plan.features()].concat(),
        &[("RUSTFLAGS", FLAGS), ("CARGO_TARGET_DIR", "fuzz/target")],
    )?;
    let programs = Path::new("fuzz/target").join(&host).join("release");
    let runs: Vec<(&str, Child)> = TARGETS
        .iter()
        .filter(|(name, _)| plan.asks_for(name))
        .map(|(name, seeds)| Ok((*name, start(&programs.join(name), name, seeds, &plan.limit())?)))
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
        println!("--- fuzz {name}: {}", if status.success() { "ok" } else { "FAILED" });
        if !status.success() {
            failed.push(name);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("fuzz target {} failed; its input is in fuzz/artifacts", failed.join(" and ")))
}

fn start(program: &Path, name: &str, seeds: &[&str], limit: &str) -> Result<Child, String> {
    let corpus = PathBuf::from("fuzz/corpus").join(name);
    let artifacts = PathBuf::from("fuzz/artifacts").join(name);
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let log = std::fs::File::create(log_of(name)).map_err(|e| format!("{name}: {e}"))?;
    println!("\n--- fuzz {name} {limit}");
    Command::new(program)
        .arg(&corpus)
        .args(seeds)
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(limit)
        // The same start every time, so that a failure is more likely to be met again.
        .arg("-seed=1")
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

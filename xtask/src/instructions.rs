//! How many instructions a row takes in each kernel of `crates/optfilter/examples/kernels.rs`, counted by callgrind and compared with
//! `bench/instructions.txt`. Unlike times they are the same on a busy machine.

use std::collections::BTreeMap;
use std::process::Command;

const RECORD: &str = "bench/instructions.txt";

/// How much more than recorded is a failure; compilers of one version differ by less.
const MOST: f64 = 1.03;

/// Two lengths of a series, whose difference leaves out what is done once.
const ROWS: [u64; 2] = [100, 300];

/// Counts, and compares or writes the record. Another compiler counts otherwise: then nothing is compared.
pub(crate) fn check(write: bool) -> Result<(), String> {
    println!("\n--- instructions of a row in each kernel");
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("not counted: there is no valgrind");
        return Ok(());
    }
    crate::cargo(
        &["build", "--release", "--locked", "-p", "optfilter", "--example", "kernels"],
        &[],
    )?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let program = format!("{target}/release/examples/kernels");
    let compiler = output(Command::new("rustc").arg("--version"))?.0.trim().to_owned();
    // What chooses other code: the compiler, the library of C and the widest vectors that valgrind knows.
    let library = output(Command::new("getconf").arg("GNU_LIBC_VERSION"))
        .map_or_else(|_| "?".into(), |said| said.0);
    let machine =
        format!("{compiler}, {}, {}, {}", std::env::consts::ARCH, library.trim(), vectors());
    let names = output(&mut Command::new(&program))?.0;
    let mut counted = BTreeMap::new();
    for name in names.lines() {
        let [few, many] = ROWS.map(|rows| count(&program, name, rows));
        counted.insert(name.to_owned(), (many? - few?) / (ROWS[1] - ROWS[0]));
    }
    if write {
        let mut text = format!("{machine}\n");
        text.extend(counted.iter().map(|(name, count)| format!("{count:>8} {name}\n")));
        return std::fs::write(RECORD, text).map_err(|e| format!("{RECORD}: {e}"));
    }
    let record = std::fs::read_to_string(RECORD).map_err(|e| format!("{RECORD}: {e}"))?;
    let mut lines = record.lines();
    let recorded_by = lines.next().unwrap_or_default();
    let known: BTreeMap<&str, u64> = lines
        .filter_map(|line| line.trim().split_once(' '))
        .filter_map(|(count, name)| Some((name, count.parse().ok()?)))
        .collect();
    let same = recorded_by == machine;
    let gone: Vec<&&str> = known.keys().filter(|name| !counted.contains_key(**name)).collect();
    if !gone.is_empty() {
        return Err(format!("kernels that are recorded and not there: {gone:?}"));
    }
    let mut grown = Vec::new();
    for (name, &count) in &counted {
        let before = known.get(name.as_str()).copied().unwrap_or(0);
        let ratio = count as f64 / before as f64;
        println!("{count:>8} {name} ({:+.1} %)", 100.0 * (ratio - 1.0));
        if ratio > MOST {
            grown.push(format!("{name}: {count} instructions a row, {before} before"));
        }
    }
    if !same {
        println!("not judged: {RECORD} is of {recorded_by}");
        return Ok(());
    }
    match grown.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "kernels that take more instructions (if that is meant: cargo xtask instructions --write):\n  {}",
            grown.join("\n  ")
        )),
    }
}

/// The widest vectors of this machine that valgrind has.
fn vectors() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
        return "avx2";
    }
    "plain"
}

/// The instructions of a run.
fn count(program: &str, kernel: &str, rows: u64) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", program, kernel]);
    let said = output(command.arg(rows.to_string()))?.1;
    let line = said.lines().find_map(|line| line.split_once("Collected :"));
    let number = line.and_then(|(_, number)| number.trim().parse().ok());
    number.ok_or_else(|| format!("callgrind counted nothing of {kernel}: {said}"))
}

/// What a command says, on both streams.
fn output(command: &mut Command) -> Result<(String, String), String> {
    let done = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let [out, err] = [done.stdout, done.stderr].map(|s| String::from_utf8_lossy(&s).into_owned());
    if done.status.success() { Ok((out, err)) } else { Err(format!("{command:?}: {err}")) }
}

//! Running the program from tests.
#![allow(dead_code)] // each test file uses its own part

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes away with the value.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "optfilter-test-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.name(name)
    }

    pub fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_optfilter"))
}

pub fn run(args: &[&str]) -> Output {
    program().args(args).stdin(Stdio::null()).output().unwrap()
}

pub fn run_with_input(args: &[&str], input: &str) -> Output {
    let mut child = program()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // A program that stops early closes its input; that is not the test's failure.
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// Runs and insists on success; returns standard output.
pub fn ok(args: &[&str]) -> String {
    let output = run(args);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

/// The cells of a CSV text, head and rows.
pub fn csv(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut lines = text.lines().map(|l| l.split(',').map(str::to_owned).collect::<Vec<_>>());
    (lines.next().unwrap(), lines.collect())
}

/// A column of a CSV text; empty cells are NaN.
pub fn column(text: &str, name: &str) -> Vec<f64> {
    let (head, rows) = csv(text);
    let at = head.iter().position(|h| h == name).unwrap_or_else(|| panic!("no {name} in {head:?}"));
    rows.iter().map(|r| if r[at].is_empty() { f64::NAN } else { r[at].parse().unwrap() }).collect()
}

pub fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data").join(name);
    path.to_str().unwrap().to_owned()
}

/// A series of the pendulum, without its head.
pub fn series(folder: &Folder, name: &str, rows: &str, seed: &str) -> (String, Vec<String>) {
    let data = folder.name(&format!("{name}.csv"));
    let missing = ["--missing", "0.1"];
    ok(&[&["simulate", "pendulum", "--steps", rows, "--seed", seed, "-o", &data][..], &missing]
        .concat());
    let text = folder.read(&format!("{name}.csv"));
    let mut lines = text.lines().map(str::to_owned);
    (lines.next().unwrap(), lines.collect())
}

/// Three series of other lengths in one table, in turns and out of step.
pub fn mixed(folder: &Folder) -> (String, Vec<&'static str>) {
    let names = vec!["north", "a, b", "7"];
    let lengths = ["120", "90", "100"];
    let mut rows = Vec::new();
    let mut table = String::new();
    for (i, (name, length)) in names.iter().zip(lengths).enumerate() {
        let (head, lines) = series(folder, &format!("s{i}"), length, &(i + 3).to_string());
        table = format!("{head},who\n");
        let quoted = if name.contains(',') { format!("\"{name}\"") } else { (*name).to_owned() };
        rows.extend(
            lines
                .into_iter()
                .enumerate()
                .map(|(k, line)| (k * (i + 2), format!("{line},{quoted}\n"))),
        );
    }
    rows.sort_by_key(|(order, _)| *order);
    rows.iter().for_each(|(_, row)| table.push_str(row));
    (folder.write("mixed.csv", &table), names)
}

/// The rows of one series, without its name.
pub fn of(text: &str, name: &str) -> Vec<String> {
    let quoted = if name.contains(',') { format!("\"{name}\"") } else { name.to_owned() };
    let mark = format!(",{quoted},");
    text.lines()
        .filter(|line| line.contains(&mark))
        .map(|line| line.replacen(&mark, ",", 1))
        .collect()
}

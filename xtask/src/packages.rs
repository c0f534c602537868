//! Packs every crate, then builds and runs a program from the packages alone, in an empty folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program of the test says: the five lines of the README of `optfilter-run`.
const PROGRAM: &str = r#"use optfilter::{Series, model::Growth};
use optfilter_run::{FilterSpec, Problem, build};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let problem = Problem::new(Growth).noise(3.0, 2.0).start(0.1, 1.0).dt(0.1);
    let filter = build(&FilterSpec::of("ekf")?, &problem)?;
    let result = filter.filter(&Series::new(&[0.3, 1.1, f64::NAN, 2.4], 1)?)?;
    println!("{:?}", result.means);
    Ok(())
}
"#;

/// Packs, unpacks, builds and runs.
pub(crate) fn check() -> Result<(), String> {
    let mut packing =
        vec!["package", "--quiet", "--locked", "--allow-dirty", "--no-verify", "--workspace"];
    for unpublished in ["optfilter-py", "optfilter-suite", "xtask"] {
        packing.extend(["--exclude", unpublished]);
    }
    crate::cargo(&packing, &[])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let target = fs::canonicalize(&target).map_err(|e| format!("{}: {e}", target.display()))?;
    let folder = std::env::temp_dir().join(format!("optfilter-packages-{}", std::process::id()));
    let built = target.join("from-packages");
    let outcome = from_packages(&target, &folder, &built);
    let _ = fs::remove_dir_all(&folder);
    let _ = fs::remove_dir_all(&built);
    outcome
}

/// Takes over what was compiled of other people's packages, so that it is not compiled again: what is long as another name of the same
/// file, and cargo's notes, which it writes over, as copies. Where that cannot be done, all is compiled.
fn take_over(target: &Path, built: &Path) {
    let _ = fs::remove_dir_all(built);
    for (part, how) in [("deps", "-al"), (".fingerprint", "-a"), ("build", "-a")] {
        let (from, to) = (target.join("debug").join(part), built.join("debug"));
        if from.is_dir() && fs::create_dir_all(&to).is_ok() {
            let _ = Command::new("cp").arg(how).arg(from).arg(to).status();
        }
    }
}

/// Other people's packages that the workspace compiles without optimisation.
const UNOPTIMISED: [&str; 3] = ["clap_builder", "jiff", "parquet"];

/// What is ours is compiled quickly.
fn of_profile(name: &str) -> String {
    format!("[profile.dev.package.{name}]\nopt-level = 0\n")
}

fn from_packages(target: &Path, folder: &Path, built: &Path) -> Result<(), String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::create_dir_all(folder.join("program/src")).map_err(wrong)?;
    let mut patches = String::new();
    let mut profiles = of_profile("program") + &UNOPTIMISED.map(of_profile).concat();
    for entry in fs::read_dir(target.join("package")).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let Some(stem) = path.file_name().and_then(|n| n.to_str()?.strip_suffix(".crate")) else {
            continue;
        };
        let done = Command::new("tar").arg("xzf").arg(&path).arg("-C").arg(folder).status();
        if !done.is_ok_and(|status| status.success()) {
            return Err(format!("{} cannot be unpacked", path.display()));
        }
        for needed in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            if !folder.join(stem).join(needed).is_file() {
                return Err(format!("the package {stem} has no {needed}"));
            }
        }
        let name = stem.rsplit_once('-').map_or(stem, |(name, _)| name);
        patches += &format!("{name} = {{ path = {stem:?} }}\n");
        profiles += &of_profile(name);
    }
    let version = env!("CARGO_PKG_VERSION");
    // Other people's packages as the workspace compiles them, so that they need not be compiled again.
    let workspace = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"program\", \"optfilter-cli-{version}\", \"optfilter-paper-{version}\"]\n\n[patch.crates-io]\n{patches}\n\
         [profile.dev]\nopt-level = 1\ndebug = false\nlto = \"off\"\n{profiles}"
    );
    let manifest = format!(
        "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         optfilter = \"{version}\"\noptfilter-run = \"{version}\"\n"
    );
    fs::write(folder.join("Cargo.toml"), workspace).map_err(wrong)?;
    fs::write(folder.join("program/Cargo.toml"), manifest).map_err(wrong)?;
    fs::write(folder.join("program/src/main.rs"), PROGRAM).map_err(wrong)?;
    // The versions of everything else are those that were tested.
    fs::copy("Cargo.lock", folder.join("Cargo.lock")).map_err(wrong)?;
    take_over(target, built);
    let variables = [("CARGO_TARGET_DIR", built.to_str().unwrap_or_default())];
    let manifest = folder.join("Cargo.toml");
    let manifest = manifest.to_str().unwrap_or_default();
    crate::cargo(&["build", "--quiet", "--manifest-path", manifest], &variables)?;
    let made = |name: &str| built.join("debug").join(name).display().to_string();
    crate::run(&made("program"), &[], &[])?;
    crate::run(&made("optfilter"), &["model", "list"], &[])
}
